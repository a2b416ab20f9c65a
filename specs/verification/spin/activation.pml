/* Concurrent transitions of one session: plan -> hooks (awaited) -> commit, under several protocols.
 *
 * The model is of the shell around the machine, core/toolfold/_session/perform.py and the steps that it performs,
 * not of the machine: STEP stands for machine.plan, which is proved elsewhere, so four groups suffice. It is what the
 * rows of the table make of each request in each legal state: `python -m verification.rows` writes it.
 *
 *     PROTOCOL
 *     NONE    plan, hooks, then commit the planned snapshot; unguarded
 *     DELTA   likewise, but commit the activated and deactivated groups, like set.add and set.discard
 *     LOCK    a lock from the plan to the commit: the core
 *     CAS     compare and set: commit if the state has not changed, else plan again: a store
 *
 *     REENTRY  a hook that requests a transition of its own session
 *     NEVER    there is none
 *     WAITS    it is queued
 *     REFUSED  it is refused at once, and fails or continues: the core
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
/* <rows> */
#define STEP_0(set) \
    ((set) == 0 -> 1 : ((set) == 4 -> 1 : ((set) == 8 -> 9 : ((set) == 12 -> 9 : ((set))))))
#define STEP_1(set) \
    ((set) == 1 -> 3 : ((set) == 9 -> 3 : ((set))))
#define STEP_2(set) \
    ((set) == 0 -> 4 : ((set) == 1 -> 4 : ((set) == 3 -> 4 : ((set) == 8 -> 12 : ((set) == 9 -> 12 : ((set)))))))
#define STEP_3(set) \
    ((set) == 0 -> 8 : ((set) == 1 -> 9 : ((set) == 3 -> 9 : ((set) == 4 -> 12 : ((set))))))
#define STEP_4(set) \
    ((set) == 1 -> 0 : ((set) == 3 -> 0 : ((set) == 9 -> 8 : ((set)))))
#define STEP_5(set) \
    ((set) == 3 -> 1 : ((set)))
#define STEP_6(set) \
    ((set) == 4 -> 0 : ((set) == 12 -> 8 : ((set))))
#define STEP_7(set) \
    ((set) == 8 -> 0 : ((set) == 9 -> 1 : ((set) == 12 -> 4 : ((set)))))
#define STEP(set, request) \
    ((request) == 0 -> STEP_0(set) : ((request) == 1 -> STEP_1(set) : ((request) == 2 -> STEP_2(set) : ((request) == 3 -> STEP_3(set) : ((request) == 4 -> STEP_4(set) : ((request) == 5 -> STEP_5(set) : ((request) == 6 -> STEP_6(set) : (STEP_7(set)))))))))
/* </rows> */

byte state;        /* the session's snapshot */
byte version;      /* CAS: the number of changes, without requests that change nothing */
byte holder;       /* LOCK: the client that has the lock; 0 if none has */
bool lost;         /* some commit was not the requested transition in the state at that time */
byte next;         /* 0 except within a transition */

ltl legal      { [] LEGAL(state) }
ltl sequential { [] !lost }

/* Plan: one reading of the snapshot. */
inline plan(request) {
    d_step { before = state; seen = version; planned = STEP(before, request) }
}

/* Commit: the only place where the state changes; `done` says whether it did. */
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

/* The transition that a hook requests: any, once per request. It has no hooks, so it is atomic with its commit. */
inline nested() {
    atomic {
        any(next);
        next = STEP(state, next);
        version = (PROTOCOL == CAS && next != state -> version + 1 : version);
        state = next;
        next = 0
    }
}

inline lock() {
    if
    :: PROTOCOL == LOCK -> atomic { holder == 0 -> holder = _pid }
    :: PROTOCOL != LOCK
    fi
}

inline unlock() {
    if
    :: PROTOCOL == LOCK -> holder = 0
    :: PROTOCOL != LOCK
    fi
}

/* A client makes its requests one by one. Unused variables are reset to 0, which saves states. */
proctype client() {
    byte left = REQUESTS;
    byte request, before, seen, planned;
    bool asked, done;

    do
    :: left > 0 ->
        left--;
        any(request);
        lock();
        do
        :: plan(request);
           if
           :: planned == before -> break   /* refused, or nothing to do: no hooks, no commit */
           :: else
           fi;
           if                              /* the hooks run here, interleaved with others */
           :: REENTRY != NEVER && !asked ->
              asked = true;
              if
              :: REENTRY == REFUSED && holder == _pid   /* refused; the hook continues, or fails below */
              :: REENTRY == WAITS || holder != _pid -> lock(); nested(); unlock()
              fi
           :: true                         /* no hook requests a transition */
           fi;
           if
           :: break                        /* a hook fails: the state is unchanged */
           :: commit(request);
              if
              :: done -> break
              :: else                      /* the state has changed: plan again */
              fi
           fi
        od;
        unlock();
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
