/* Transitions with hooks of one stored session, on replicas that crash: lease and intent -> hooks -> swap.
 *
 * The model is of core/toolfold/_session/journal.py and a store. What a replica does in one operation of the store is
 * atomic; between any two it may crash. A transition that is abandoned because the store failed looks like that to all others.
 * A group has two hooks, whose effects on the outside world are the bits of `world`; a hook begins, has its effect or
 * fails, and ends. A session ends by a transition that deactivates the group, after which its record is deleted.
 *
 *     MUTANT      what is left out of the protocol, or done otherwise
 *     NOTHING     nothing: the protocol of the core
 *     LEASE       no lease is held while hooks run
 *     TOKEN       the swap that commits does not ask for the lease's token
 *     READ        the plan is not made again under the lease, nor its version compared
 *     INTENT      there is none
 *     COUNT_LATE  a hook is counted in the intent when it has ended
 *     COUNT_ALL   all hooks are counted before the first begins
 *     TWO_WRITES  the state is written first, and the intent removed after it
 *     LOSER       a replica that has lost its lease undoes its own hooks
 *     DELETE      the record of a session that ends is deleted under the next lease, whatever has happened since
 *     GIVEN_UP    a hook that is given up counts as one that failed
 *
 *     PAUSES      leases of replicas that go on can expire, since they were paused and could not renew them
 *     NEVER       they do not
 *     BETWEEN     only while they run no hook
 *     ANYWHERE    at any time
 *
 *     OUTAGES     how often a hook is given up, since the store does not answer whether its lease goes on
 */

#define NOTHING    0
#define LEASE      1
#define TOKEN      2
#define READ       3
#define INTENT     4
#define COUNT_LATE 5
#define COUNT_ALL  6
#define TWO_WRITES 7
#define LOSER      8
#define DELETE     9
#define GIVEN_UP   10

#define NEVER    0
#define BETWEEN  1
#define ANYWHERE 2

#ifndef MUTANT
#define MUTANT NOTHING
#endif
#ifndef PAUSES
#define PAUSES NEVER
#endif
#ifndef REQUESTS
#define REQUESTS 1 /* of each replica */
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef OUTAGES
#define OUTAGES 0
#endif
#ifndef ENDS
#define ENDS 0     /* whether a request may end the session */
#endif

#define REPLICAS 2 /* processes 1 and 2; process 3 sweeps, and process 4 is fate */
#define HOOKS 2
#define UP 1       /* a request, or an intent, to activate: its hooks set the bits 0 and 1 */
#define DOWN 2     /* to deactivate: its hooks clear the bits 1 and 0 */
#define STEP(request) ((request) == UP -> 3 : 0)
#define bit(number) (1 << (number))
#define effect(kind, number) ((kind) == UP -> bit(number) : bit(HOOKS - 1 - (number)))

/* The record. */
byte state;
byte version;
byte token;        /* of the lease that was given last */
byte lease;        /* the token of the lease that is held; 0 if none is */
byte owner;        /* the process that it was given to */
byte intent;       /* UP, DOWN, or 0 for none */
byte counted;      /* the hooks in the intent */
bool gone;         /* the record was deleted */

/* The outside world, and the processes. */
byte world;
byte begun;        /* the hooks of the present transition that ever began, as bits */
bool hook[4];      /* whether a process runs a hook, or undoes one */
bool crashed[4];
byte crashes;
bool paused;
byte outages;
byte working;      /* the replicas that have requests left */

bool lost;         /* some commit was not the requested transition in the state at that time */
bool invented;     /* some hook was undone that had not begun */

#define runs(process) (hook[process] && !crashed[process])
#define quiet (lease == 0 && intent == 0 && !runs(1) && !runs(2) && !runs(3))

ltl exclusive  { [] (!(runs(1) && runs(2)) && !(runs(1) && runs(3)) && !(runs(2) && runs(3))) }
ltl sequential { [] !lost }
ltl balanced   { [] (quiet -> world == state) }
ltl begun_only { [] !invented }

#define mine (MUTANT == LEASE || (lease == held && held != 0))

inline acquire() {
    if
    :: MUTANT == LEASE
    :: atomic { MUTANT != LEASE && lease == 0 && !gone -> token++; lease = token; held = token; owner = _pid }
    :: gone
    fi
}

inline release() {
    d_step { lease = (lease == held -> 0 : lease); held = 0 }
}

inline affect(kind, bits) {
    world = ((kind) == UP -> world | bits : world & (3 - (bits)))
}

/* Undo what the intent counts, in reverse, and remove it. */
inline roll_back() {
    do
    :: d_step { mine && intent != 0 && counted > 0 ->
                kind = 3 - intent; number = counted - 1; done = effect(intent, counted - 1);
                invented = (invented || !(begun & bit(counted - 1)));
                hook[_pid] = true };
       affect(kind, done);
       hook[_pid] = false;
       if
       :: d_step { mine -> counted = number }
       :: !mine -> break
       fi
    :: d_step { mine && intent != 0 && counted == 0 -> intent = 0; begun = 0 }
    :: !mine || intent == 0 -> break
    od
}

/* Undo this replica's own hooks, whoever has the lease. */
inline undo_own() {
    do
    :: number > 0 ->
       d_step { number--; done = effect(request, number); hook[_pid] = true };
       affect(3 - request, done);
       hook[_pid] = false
    :: else -> break
    od
}

proctype replica() {
    byte left = REQUESTS;
    byte request, held, seen, before, number, kind, done;
    bool ends;

    {
    do
#if ENDS
    :: left > 0 || ends ->
        if
        :: ends -> request = DOWN
        :: !ends -> left--; if :: request = UP :: request = DOWN :: request = DOWN; ends = true fi
        fi;
#else
    :: left > 0 ->
        left--;
        if :: request = UP :: request = DOWN fi;
#endif
        d_step { before = state; seen = version; number = 0 };
        if
        :: atomic { MUTANT != LEASE && MUTANT != INTENT && before != STEP(request) && !gone && lease == 0 && intent == 0 &&
                    (version == seen || MUTANT == READ) ->         /* the intent comes with the lease */
                    token++; lease = token; held = token; owner = _pid;
                    intent = request; counted = (MUTANT == COUNT_ALL -> HOOKS : 0); begun = 0 };
           goto hooks
        :: acquire()
        fi;
        if
        :: MUTANT != LEASE -> roll_back()
        :: else
        fi;
        if
        :: d_step { MUTANT != READ && mine -> before = state; seen = version }
        :: MUTANT == READ || !mine
        fi;
        number = 0;
        if
        :: before == STEP(request) -> goto over                    /* there is nothing to do */
        :: else
        fi;
        if
        :: MUTANT == INTENT
        :: d_step { MUTANT != INTENT && mine -> intent = request; counted = (MUTANT == COUNT_ALL -> HOOKS : 0); begun = 0 }
        :: MUTANT != INTENT && !mine -> goto over
        fi;
hooks:  do
        :: number < HOOKS ->
           if
           :: d_step { MUTANT == INTENT || MUTANT == COUNT_LATE || mine ->
                       counted = (MUTANT == INTENT || MUTANT == COUNT_LATE || MUTANT == COUNT_ALL -> counted : number + 1);
                       begun = begun | bit(number); done = effect(request, number); hook[_pid] = true }
           :: MUTANT != INTENT && MUTANT != COUNT_LATE && !mine -> goto lost_it
           fi;
           if
           :: affect(request, done);
              number++;
              hook[_pid] = false;
              if
              :: d_step { MUTANT == COUNT_LATE && mine -> counted = number }
              :: MUTANT != COUNT_LATE || !mine
              fi
#if ENDS
           :: !ends -> hook[_pid] = false;                         /* it fails: those before it are undone */
#else
           :: hook[_pid] = false;
#endif
              if
              :: MUTANT == INTENT -> undo_own()
              :: d_step { MUTANT != INTENT && mine -> counted = number }; roll_back()
              :: MUTANT != INTENT && !mine -> goto lost_it
              fi;
              goto over
#if OUTAGES
           :: atomic { outages < OUTAGES -> outages++ };           /* it is given up, with or without its effect */
              if
              :: affect(request, done)
              :: true
              fi;
              hook[_pid] = false;
              if
              :: d_step { MUTANT == GIVEN_UP && mine -> counted = number }; roll_back(); goto over
              :: MUTANT != GIVEN_UP || !mine -> goto lost_it
              fi
#endif
           fi
        :: else -> break
        od;
        if
        :: d_step { MUTANT == TOKEN || MUTANT == READ || (mine && version == seen) ->
                    lost = (lost || state != before);
                    state = STEP(request);
                    version++;
                    intent = (MUTANT == TWO_WRITES -> intent : 0);
                    counted = (MUTANT == TWO_WRITES -> counted : 0);
                    lease = (lease == held && MUTANT != TWO_WRITES -> 0 : lease) };
           if
           :: d_step { MUTANT == TWO_WRITES && mine -> intent = 0; counted = 0 }
           :: MUTANT != TWO_WRITES || !mine
           fi;
           goto over
        :: MUTANT != TOKEN && MUTANT != READ && !(mine && version == seen) -> goto lost_it
        fi;
lost_it:                                                           /* the transition ends where it is */
        if
        :: MUTANT == LOSER || MUTANT == LEASE -> undo_own()
        :: else
        fi;
over:   release();
#if ENDS
        if
        :: ends ->
           acquire();
           if
           :: MUTANT != DELETE -> roll_back()
           :: else
           fi;
           if
           :: d_step { mine && (MUTANT == DELETE || state == 0) ->
                       gone = true; state = 0; intent = 0; counted = 0; lease = 0; held = 0; ends = false }
           :: !mine || (MUTANT != DELETE && state != 0) -> ends = !gone  /* the group was opened meanwhile */
           fi;
           release()
        :: else
        fi;
#endif
        d_step { request = 0; seen = 0; before = 0; number = 0; kind = 0; done = 0 }
    :: else -> break
    od
    } unless { crashed[_pid] };
    working--
}

/* What nobody holds is rolled back although no client asks for anything; this process does not crash. */
proctype sweep() {
    byte held, kind, number, done;

    do
    :: atomic { intent != 0 && lease == 0 -> token++; lease = token; held = token; owner = _pid };
       roll_back();
       release();
       d_step { kind = 0; number = 0; done = 0 }
    :: working == 0 && intent == 0 && lease == 0 -> break
    od
}

proctype fate() {
    byte process;

    do
    :: atomic { crashes < CRASHES ->
                if :: process = 1 :: process = 2 fi;
                if
                :: !crashed[process] -> crashed[process] = true; crashes++
                :: else
                fi;
                process = 0 }
    :: atomic { lease != 0 && crashed[owner] -> lease = 0 }
    :: atomic { PAUSES != NEVER && !paused && lease != 0 && owner <= REPLICAS && !crashed[owner] &&
                (PAUSES == ANYWHERE || !hook[owner]) -> lease = 0; paused = true }
    :: working == 0 && lease == 0 && intent == 0 -> break
    od
}

init {
    atomic {
        if :: state = 0 :: state = 3 fi;
        world = state;
        working = REPLICAS;
        run replica();
        run replica();
        run sweep();
        run fate()
    }
}
