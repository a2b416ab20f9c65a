/* Concurrent steps on one session: plan -> hooks (awaited) -> commit, under several protocols.
 *
 * What is modelled is the shell around the machine, not the machine: core/toolfold/steps.py and session.py, and the
 * life of a transaction in transaction.py. STEP stands for machine.plan, which is proved elsewhere: four groups will do.
 *
 *     PROTOCOL
 *     NONE    plan, hooks, then commit the snapshot that was planned; nothing guards it
 *     DELTA   likewise, but commit what enters and leaves, like set.add and set.discard
 *     LOCK    Steps.turn: a lock from the plan to the commit. This is the core.
 *     CAS     compare and set: commit if no one else has changed the state, else plan again. This is what a store does.
 *
 *     REENTRY  what a hook does that asks its own session for a step
 *     NEVER    it does not
 *     WAITS    it waits for its turn
 *     REFUSED  Steps.refuse_reentry: it is told so at once, and fails or goes on. This is the core.
 */

#define NONE  0
#define DELTA 1
#define LOCK  2
#define CAS   3

#define NEVER   0
#define WAITS   1
#define REFUSED 2

#ifndef PROTOCOL
#define PROTOCOL LOCK
#endif
#ifndef REENTRY
#define REENTRY NEVER
#endif
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef REQUESTS
#define REQUESTS 2 /* of each client */
#endif

/* The forest: a with a.b below it, c and d. The exclusions: {a, c} and {a.b, d}. States are sets of bits. */
#define A 1
#define B 2
#define C 4
#define D 8
#define has(set, group) (((set) & (group)) != 0)
#define less(set, groups) ((set) & (15 - (groups)))

#define LEGAL(set) \
    ((!has(set, B) || has(set, A)) && !(has(set, A) && has(set, C)) && !(has(set, B) && has(set, D)))

/* Requests 0 to 3 activate a, a.b, c, d; 4 to 7 deactivate them. A refused one changes nothing. */
#define STEP(set, request) \
    ( (request) == 0 -> (less(set, C) | A) \
    : ((request) == 1 -> (has(set, A) -> (less(set, D) | B) : (set)) \
    : ((request) == 2 -> (less(set, A + B) | C) \
    : ((request) == 3 -> (less(set, B) | D) \
    : ((request) == 4 -> less(set, A + B) \
    : ((request) == 5 -> less(set, B) \
    : ((request) == 6 -> less(set, C) \
    : less(set, D) )))))))

byte state;        /* the session's snapshot */
byte version;      /* CAS: how often it has really changed. A request that changes nothing must not count. */
byte holder;       /* LOCK: the client that has its turn; 0 if none has */
bool lost;         /* some commit was not one step, as asked for, of the state that it met */
byte next;         /* 0 but within a step */

ltl legal      { [] LEGAL(state) }
ltl sequential { [] !lost }

/* Plan: one reading of the snapshot. */
inline plan(request) {
    d_step { before = state; seen = version; planned = STEP(before, request) }
}

/* Commit: the only place where the state changes. `done` tells whether it did. */
inline commit(request) {
    d_step {
        done = (PROTOCOL != CAS || version == seen);
        if
        :: done ->
            next = (PROTOCOL == DELTA -> (less(state, less(before, planned)) | less(planned, before)) : planned);
            lost = (lost || next != STEP(state, request));
            version = (PROTOCOL == CAS && next != state -> version + 1 : version);
            state = next;
            next = 0
        :: else
        fi
    }
}

inline any(request) {
    if
    :: request = 0 :: request = 1 :: request = 2 :: request = 3
    :: request = 4 :: request = 5 :: request = 6 :: request = 7
    fi
}

/* What a hook asks for: any step, once for each request. It has no hooks of its own, so it is one with its commit. */
inline nested() {
    atomic {
        any(next);
        next = STEP(state, next);
        version = (PROTOCOL == CAS && next != state -> version + 1 : version);
        state = next;
        next = 0
    }
}

inline turn() {
    if
    :: PROTOCOL == LOCK -> atomic { holder == 0 -> holder = _pid }
    :: PROTOCOL != LOCK
    fi
}

inline release() {
    if
    :: PROTOCOL == LOCK -> holder = 0
    :: PROTOCOL != LOCK
    fi
}

/* A client makes its requests one by one. Variables go back to 0 when they are done with: fewer states. */
proctype client() {
    byte left = REQUESTS;
    byte request, before, seen, planned;
    bool asked, done;

    do
    :: left > 0 ->
        left--;
        any(request);
        turn();
        do
        :: plan(request);
           if
           :: planned == before -> break   /* refused, or nothing to do: no hooks, no commit */
           :: else
           fi;
           if                              /* the hooks run here, and meanwhile others may run */
           :: REENTRY != NEVER && !asked ->
              asked = true;
              if
              :: REENTRY == REFUSED && holder == _pid   /* told so; the hook goes on, or fails below */
              :: REENTRY == WAITS || holder != _pid -> turn(); nested(); release()
              fi
           :: true                         /* no hook asks for a step */
           fi;
           if
           :: break                        /* a hook fails: the state stays as it is */
           :: commit(request);
              if
              :: done -> break
              :: else                      /* someone else was quicker: plan again */
              fi
           fi
        od;
        release();
        d_step { request = 0; before = 0; seen = 0; planned = 0; asked = false; done = false }
    :: else -> break
    od
}

init {
    atomic {
        if
        :: state = 0 :: state = A :: state = A + B :: state = C :: state = D :: state = A + D :: state = C + D
        fi;
        byte number;
        for (number : 1 .. CLIENTS) { run client() }
    }
}
