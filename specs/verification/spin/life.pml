/* The life of transitions of one session in memory: clients whose requests arrive, wait for their turn, plan, run hooks,
 * and save; while hooks run, callers are cancelled and the catalog changes.
 *
 * The table is that of toolfold.machine.step, and what a request makes of a state is what the rows of
 * toolfold.machine.table do: `python -m verification.rows` writes both. What is here is what awaits the effects of a
 * step, core/toolfold/_session/perform.py, with its queue, and the world: hooks that succeed or fail, and what they have
 * opened outside. A hook that fails, or that stops since its caller is cancelled, has had no effect.
 *
 *     VARIANT     what is left out, or done otherwise; FAITHFUL is the core
 *     CATALOGS    how often the catalog changes
 *     FEW         whether group a alone has hooks
 */

#define FAITHFUL       0
#define FORGIVEN       1   /* a setup that fails is forgiven */
#define FORGOTTEN      2   /* a setup that was cancelled is not undone, though it has succeeded */
#define UNDOES_ONE     3   /* a rollback ends after its first hook */
#define NOT_UNDONE     4   /* what a plan has done that is void is not undone before the next one */
#define SAVED_OVER     5   /* a plan that is refused in the catalog of now is saved */
#define OLD_CATALOG    6   /* a plan is saved whatever the catalog is now */
#define UNDOES_FIRST   7   /* hooks are undone in the order in which they ran */
#define UNDOES_FAILED  8   /* the hook that failed is undone, too */
#define UNSHIELDED     9   /* a rollback stops when its caller is cancelled */
#define PLANS_AGAIN   10   /* a plan is made again for a caller who was cancelled */
#define NO_QUEUE      11   /* nobody waits */
#define OVERTAKEN     12   /* whoever comes first when a transition has ended is next */
#define EARLY_PLAN    13   /* what is planned is planned on arrival */
#define KEPT_PLACE    14   /* who is cancelled as it becomes its turn keeps it */
#define LEFT_WAITING  15   /* who is cancelled while it waits keeps its place */
#define ROW_LESS      16   /* a session in memory is asked for what a store answers */

#ifndef VARIANT
#define VARIANT FAITHFUL
#endif
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef REQUESTS
#define REQUESTS 1 /* of each client */
#endif
#ifndef CATALOGS
#define CATALOGS 1
#endif

/* The groups: a with a.b in it, c and d. States are sets of bits. Requests 0 to 3 activate a, a.b, c, d; 4 to 7
 * deactivate them; 8 activates a and a.b, 9 c and d. */
#define A 1
#define B 2
#define C 4
#define D 8
#define REFUSED 16
#define has(set, group) (((set) & (group)) != 0)
#define less(set, groups) ((set) & (255 - (groups)))

/* Hooks are bits in the order in which they run: on_deactivate of d, c, a.b, a, then on_activate of a, a.b, c, d. Group c
 * has no on_deactivate, so nothing undoes its on_activate. */
#ifdef FEW
#define HAD (8 + 16)
#define UNDOABLE HAD
#define WATCHED A
#else
#define HAD (255 - 2)
#define UNDOABLE (255 - 2 - 64)
#define WATCHED (A + B + D) /* the groups whose hooks undo one another */
#endif
#define reversed(set) ((((set) & 1) << 3) | (((set) & 2) << 1) | (((set) & 4) >> 1) | (((set) & 8) >> 3))
#define hooks(before, after) ((reversed(less(before, after)) | (less(after, before) << 4)) & HAD)
#define first(set) ((set) & (256 - (set)))
#define last(set) \
    ((set) > 127 -> 128 : ((set) > 63 -> 64 : ((set) > 31 -> 32 : ((set) > 15 -> 16 : \
    ((set) > 7 -> 8 : ((set) > 3 -> 4 : ((set) > 1 -> 2 : 1)))))))
#define undone_next(set) (VARIANT == UNDOES_FIRST -> first(set) : last(set))
#define group_of(hook) ((hook) > 8 -> (hook) >> 4 : 8 / (hook))

byte state;           /* the session's snapshot */
byte catalog;
byte outside;         /* the groups that hooks have opened outside */
byte loose;           /* those of which a hook failed where that is only recorded */
byte owner;           /* the client whose turn it is; 0 if there is none */
chan waiting = [CLIENTS] of { byte };
byte here;            /* the clients whose requests have arrived and have not ended */
byte earlier[4];      /* of each client, those that were here before */
byte cancels = 1;     /* how many callers may still be cancelled while they wait */
byte working;         /* how many have begun and have not ended */
byte running;         /* how many hooks run */
bool lost;            /* some commit was not the requested transition in the state and catalog at that time */
bool unpaired;        /* some hook opened what was open, or closed what was closed */
bool overtook;        /* some request began while one that had arrived before it had not ended */
bool kept;            /* some request was committed although its caller was cancelled, and it was not forced */
bool missing;         /* some event had no row */
byte next;            /* 0 except within a step */

#define known(set) (less(set & WATCHED, loose))

/* -- what a step notes of its hooks ------------------------------------------------------------------------------- */

#define when_hooks_ahead      (ahead != 0)
#define when_no_hooks_ahead   (ahead == 0)
#define when_teardown_next    (first(ahead) < 16)
#define when_setup_next       (first(ahead) > 15)
#define when_forced           force
#define when_not_forced       (!force)
#define when_hooks_to_undo    (done != 0)
#define when_nothing_to_undo  (done == 0)
#define when_again            again
#define when_for_good         (!again)

inline note_load()         { ahead = hooks(state, planned); done = 0; again = false }
inline note_take_over()    { ahead = 0; done = done & UNDOABLE; again = true }
inline note_done()         { done = done | first(ahead); ahead = less(ahead, first(ahead)) }
inline note_forgive()      { ahead = less(ahead, first(ahead)) }
inline note_give_up()      { done = (VARIANT == UNDOES_FAILED -> done | first(ahead) : done) & UNDOABLE; ahead = 0 }
inline note_done_give_up() { done = (done | first(ahead)) & UNDOABLE; ahead = 0 }
inline note_plan_again()   { ahead = 0; done = done & UNDOABLE; again = true }
inline note_undone()       { done = less(done, undone_next(done)) }
inline note_not_undone()   { done = less(done, undone_next(done)) }
inline note_stop()         { skip }

/* <rows> */
#define LEGAL_0(set) ((set) == 0 || (set) == 1 || (set) == 3 || (set) == 4 || (set) == 8 || (set) == 9 || (set) == 12)
#define STEP_0_0(set) \
    ((set) == 0 -> 1 : ((set) == 4 -> 1 : ((set) == 8 -> 9 : ((set) == 12 -> 9 : ((set))))))
#define STEP_0_1(set) \
    ((set) == 0 -> 16 : ((set) == 1 -> 3 : ((set) == 4 -> 16 : ((set) == 8 -> 16 : ((set) == 9 -> 3 : ((set) == 12 -> 16 : ((set))))))))
#define STEP_0_2(set) \
    ((set) == 0 -> 4 : ((set) == 1 -> 4 : ((set) == 3 -> 4 : ((set) == 8 -> 12 : ((set) == 9 -> 12 : ((set)))))))
#define STEP_0_3(set) \
    ((set) == 0 -> 8 : ((set) == 1 -> 9 : ((set) == 3 -> 9 : ((set) == 4 -> 12 : ((set))))))
#define STEP_0_4(set) \
    ((set) == 1 -> 0 : ((set) == 3 -> 0 : ((set) == 9 -> 8 : ((set)))))
#define STEP_0_5(set) \
    ((set) == 3 -> 1 : ((set)))
#define STEP_0_6(set) \
    ((set) == 4 -> 0 : ((set) == 12 -> 8 : ((set))))
#define STEP_0_7(set) \
    ((set) == 8 -> 0 : ((set) == 9 -> 1 : ((set) == 12 -> 4 : ((set)))))
#define STEP_0_8(set) \
    ((set) == 0 -> 3 : ((set) == 1 -> 3 : ((set) == 4 -> 3 : ((set) == 8 -> 3 : ((set) == 9 -> 3 : ((set) == 12 -> 3 : ((set))))))))
#define STEP_0_9(set) \
    ((set) == 0 -> 12 : ((set) == 1 -> 12 : ((set) == 3 -> 12 : ((set) == 4 -> 12 : ((set) == 8 -> 12 : ((set) == 9 -> 12 : ((set))))))))
#define STEP_0(set, request) \
    ((request) == 0 -> STEP_0_0(set) : ((request) == 1 -> STEP_0_1(set) : ((request) == 2 -> STEP_0_2(set) : ((request) == 3 -> STEP_0_3(set) : ((request) == 4 -> STEP_0_4(set) : ((request) == 5 -> STEP_0_5(set) : ((request) == 6 -> STEP_0_6(set) : ((request) == 7 -> STEP_0_7(set) : ((request) == 8 -> STEP_0_8(set) : (STEP_0_9(set)))))))))))
#define LEGAL_1(set) ((set) == 0 || (set) == 1 || (set) == 3 || (set) == 4 || (set) == 8 || (set) == 9)
#define STEP_1_0(set) \
    ((set) == 0 -> 1 : ((set) == 4 -> 1 : ((set) == 8 -> 9 : ((set)))))
#define STEP_1_1(set) \
    ((set) == 0 -> 16 : ((set) == 1 -> 3 : ((set) == 4 -> 16 : ((set) == 8 -> 16 : ((set) == 9 -> 3 : ((set)))))))
#define STEP_1_2(set) \
    ((set) == 0 -> 4 : ((set) == 1 -> 4 : ((set) == 3 -> 4 : ((set) == 8 -> 4 : ((set) == 9 -> 4 : ((set)))))))
#define STEP_1_3(set) \
    ((set) == 0 -> 8 : ((set) == 1 -> 9 : ((set) == 3 -> 9 : ((set) == 4 -> 8 : ((set))))))
#define STEP_1_4(set) \
    ((set) == 1 -> 0 : ((set) == 3 -> 0 : ((set) == 9 -> 8 : ((set)))))
#define STEP_1_5(set) \
    ((set) == 3 -> 1 : ((set)))
#define STEP_1_6(set) \
    ((set) == 4 -> 0 : ((set)))
#define STEP_1_7(set) \
    ((set) == 8 -> 0 : ((set) == 9 -> 1 : ((set))))
#define STEP_1_8(set) \
    ((set) == 0 -> 3 : ((set) == 1 -> 3 : ((set) == 4 -> 3 : ((set) == 8 -> 3 : ((set) == 9 -> 3 : ((set)))))))
#define STEP_1_9(set) \
    ((set) == 0 -> 16 : ((set) == 1 -> 16 : ((set) == 3 -> 16 : ((set) == 4 -> 16 : ((set) == 8 -> 16 : ((set) == 9 -> 16 : ((set))))))))
#define STEP_1(set, request) \
    ((request) == 0 -> STEP_1_0(set) : ((request) == 1 -> STEP_1_1(set) : ((request) == 2 -> STEP_1_2(set) : ((request) == 3 -> STEP_1_3(set) : ((request) == 4 -> STEP_1_4(set) : ((request) == 5 -> STEP_1_5(set) : ((request) == 6 -> STEP_1_6(set) : ((request) == 7 -> STEP_1_7(set) : ((request) == 8 -> STEP_1_8(set) : (STEP_1_9(set)))))))))))
#define LEGAL_2(set) ((set) == 0 || (set) == 1 || (set) == 3 || (set) == 4)
#define STEP_2_0(set) \
    ((set) == 0 -> 1 : ((set) == 4 -> 1 : ((set))))
#define STEP_2_1(set) \
    ((set) == 0 -> 16 : ((set) == 1 -> 3 : ((set) == 4 -> 16 : ((set)))))
#define STEP_2_2(set) \
    ((set) == 0 -> 4 : ((set) == 1 -> 4 : ((set) == 3 -> 4 : ((set)))))
#define STEP_2_3(set) \
    ((set) == 0 -> 16 : ((set) == 1 -> 16 : ((set) == 3 -> 16 : ((set) == 4 -> 16 : ((set))))))
#define STEP_2_4(set) \
    ((set) == 1 -> 0 : ((set) == 3 -> 0 : ((set))))
#define STEP_2_5(set) \
    ((set) == 3 -> 1 : ((set)))
#define STEP_2_6(set) \
    ((set) == 4 -> 0 : ((set)))
#define STEP_2_7(set) \
    ((set) == 0 -> 16 : ((set) == 1 -> 16 : ((set) == 3 -> 16 : ((set) == 4 -> 16 : ((set))))))
#define STEP_2_8(set) \
    ((set) == 0 -> 3 : ((set) == 1 -> 3 : ((set) == 4 -> 3 : ((set)))))
#define STEP_2_9(set) \
    ((set) == 0 -> 16 : ((set) == 1 -> 16 : ((set) == 3 -> 16 : ((set) == 4 -> 16 : ((set))))))
#define STEP_2(set, request) \
    ((request) == 0 -> STEP_2_0(set) : ((request) == 1 -> STEP_2_1(set) : ((request) == 2 -> STEP_2_2(set) : ((request) == 3 -> STEP_2_3(set) : ((request) == 4 -> STEP_2_4(set) : ((request) == 5 -> STEP_2_5(set) : ((request) == 6 -> STEP_2_6(set) : ((request) == 7 -> STEP_2_7(set) : ((request) == 8 -> STEP_2_8(set) : (STEP_2_9(set)))))))))))
#define LEGAL(catalog, set) (((catalog) == 0 && LEGAL_0(set)) || ((catalog) == 1 && LEGAL_1(set)) || ((catalog) == 2 && LEGAL_2(set)))
#define STEP(catalog, set, request) \
    ((catalog) == 0 -> STEP_0(set, request) : ((catalog) == 1 -> STEP_1(set, request) : (STEP_2(set, request))))
mtype = { at_new, at_planned, at_leased, at_running_tearing_down, at_running_setting_up, at_saving, at_given_up, at_rolling_back, at_settling, at_unchanged, at_beginning, at_going_back, at_going_on, at_committed, at_aborted, at_abandoned };
mtype = { on_unchanged, on_planned, on_leased, on_news, on_left, on_intended, on_succeeded, on_failed, on_cancelled, on_saved, on_conflict, on_changed, on_refused, on_settled, on_lost };
mtype = { do_plan, do_lease, do_intend, do_hook, do_save, do_settle };
#define EFFECT(at) \
    ((at) == at_new -> do_plan : ((at) == at_planned -> do_lease : ((at) == at_leased -> do_intend : ((at) == at_running_tearing_down -> do_hook : ((at) == at_running_setting_up -> do_hook : ((at) == at_saving -> do_save : ((at) == at_given_up -> do_intend : ((at) == at_rolling_back -> do_hook : ((at) == at_settling -> do_settle : (0))))))))))
#define IN_MEMORY(at) \
    ((at) == at_planned -> on_intended : ((at) == at_leased -> on_intended : ((at) == at_given_up -> on_intended : ((at) == at_settling -> on_settled : (0)))))
inline table() {
    if
    :: at == at_new && event == on_unchanged -> at = at_unchanged
    :: at == at_new && event == on_planned -> note_load(); at = at_beginning
    :: at == at_planned && event == on_leased && when_hooks_ahead -> at = at_leased
    :: at == at_planned && event == on_leased && when_no_hooks_ahead -> at = at_new
    :: at == at_planned && event == on_news -> note_plan_again(); at = at_settling
    :: at == at_planned && event == on_left -> note_take_over(); at = at_going_back
    :: at == at_planned && event == on_intended && when_teardown_next -> at = at_running_tearing_down
    :: at == at_planned && event == on_intended && when_setup_next -> at = at_running_setting_up
    :: at == at_leased && event == on_intended && when_teardown_next -> at = at_running_tearing_down
    :: at == at_leased && event == on_intended && when_setup_next -> at = at_running_setting_up
    :: at == at_running_tearing_down && event == on_succeeded -> note_done(); at = at_going_on
    :: at == at_running_tearing_down && event == on_failed && when_forced -> note_forgive(); at = at_going_on
    :: at == at_running_tearing_down && event == on_failed && when_not_forced -> note_give_up(); at = at_going_back
    :: at == at_running_tearing_down && event == on_cancelled && when_forced -> note_done(); at = at_going_on
    :: at == at_running_tearing_down && event == on_cancelled && when_not_forced -> note_done_give_up(); at = at_going_back
    :: at == at_running_setting_up && event == on_succeeded -> note_done(); at = at_going_on
    :: at == at_running_setting_up && event == on_failed -> note_give_up(); at = at_going_back
    :: at == at_running_setting_up && event == on_cancelled -> note_done_give_up(); at = at_going_back
    :: at == at_saving && event == on_saved -> at = at_committed
    :: at == at_saving && event == on_conflict -> at = at_planned
    :: at == at_saving && event == on_changed -> note_plan_again(); at = at_going_back
    :: at == at_saving && event == on_refused -> note_give_up(); at = at_going_back
    :: at == at_given_up && event == on_intended -> at = at_rolling_back
    :: at == at_rolling_back && event == on_succeeded -> note_undone(); at = at_going_back
    :: at == at_rolling_back && event == on_failed -> note_not_undone(); at = at_going_back
    :: at == at_settling && event == on_settled && when_again -> at = at_new
    :: at == at_settling && event == on_settled && when_for_good -> at = at_aborted
    :: at == at_new && event == on_lost -> note_stop(); at = at_abandoned
    :: at == at_planned && event == on_lost -> note_stop(); at = at_abandoned
    :: at == at_leased && event == on_lost -> note_stop(); at = at_abandoned
    :: at == at_running_tearing_down && event == on_lost -> note_stop(); at = at_abandoned
    :: at == at_running_setting_up && event == on_lost -> note_stop(); at = at_abandoned
    :: at == at_saving && event == on_lost -> note_stop(); at = at_abandoned
    :: at == at_given_up && event == on_lost -> note_stop(); at = at_abandoned
    :: at == at_rolling_back && event == on_lost -> note_stop(); at = at_abandoned
    :: at == at_settling && event == on_lost -> note_stop(); at = at_abandoned
    :: else -> missing = true; at = 0
    fi;
    if
    :: at == at_beginning && when_hooks_ahead -> at = at_planned
    :: at == at_beginning && when_no_hooks_ahead -> at = at_saving
    :: at == at_going_on && when_hooks_ahead -> at = at_leased
    :: at == at_going_on && when_no_hooks_ahead -> at = at_saving
    :: at == at_going_back && when_hooks_to_undo -> at = at_given_up
    :: at == at_going_back && when_nothing_to_undo -> at = at_settling
    :: else
    fi
}
/* </rows> */

ltl legal      { [] LEGAL(catalog, state) }
ltl sequential { [] !lost }
ltl alone      { [] (running <= 1) }
ltl balanced   { [] (working != 0 || known(outside) == known(state)) }
ltl nested     { [] (!has(less(outside, loose), B) || has(outside | loose, A)) }
ltl paired     { [] !unpaired }
ltl in_order   { [] !overtook }
ltl given_up   { [] !kept }
ltl rows       { [] !missing }

/* A row that leads elsewhere, else the table. */
inline on() {
    if
    :: VARIANT == FORGIVEN && at == at_running_setting_up && event == on_failed ->
       note_forgive(); at = (ahead != 0 -> at_leased : at_saving)
    :: VARIANT == FORGOTTEN && at == at_running_setting_up && event == on_cancelled ->
       note_give_up(); at = (done != 0 -> at_given_up : at_settling)
    :: VARIANT == UNDOES_ONE && at == at_rolling_back && event == on_succeeded -> note_undone(); at = at_settling
    :: VARIANT == NOT_UNDONE && at == at_saving && event == on_changed -> at = at_new
    :: VARIANT == SAVED_OVER && at == at_saving && event == on_refused -> state = planned; at = at_committed
    :: else -> table()
    fi;
    event = 0
}

/* -- the queue ---------------------------------------------------------------------------------------------------- */

#define my_turn (owner == _pid || VARIANT == NO_QUEUE || (VARIANT == OVERTAKEN && owner == 0))

inline arrive() {
    earlier[_pid] = here;
    here = here | (1 << _pid);
    if
    :: owner == 0 -> owner = (VARIANT == OVERTAKEN || VARIANT == NO_QUEUE -> 0 : _pid)
    :: owner != 0 && VARIANT != OVERTAKEN && VARIANT != NO_QUEUE -> waiting ! _pid
    :: else
    fi
}

inline end() {
    here = less(here, 1 << _pid);
    for (next : 1 .. CLIENTS) { earlier[next] = less(earlier[next], 1 << _pid) }
    next = 0;
    request = 0; force = false; planned = 0; seen = 0; ahead = 0; done = 0; again = false; interrupted = false;
    at = 0; hook = 0
}

/* It is the next one's turn before that goes on. */
inline leave() {
    if
    :: owner == _pid && len(waiting) > 0 -> waiting ? owner
    :: owner == _pid && len(waiting) == 0 -> owner = 0
    :: owner != _pid
    fi
}

/* -- the effects -------------------------------------------------------------------------------------------------- */

inline plan() {
    if
    :: VARIANT == EARLY_PLAN
    :: else -> seen = catalog; planned = STEP(seen, state, request)
    fi;
    if
    :: interrupted && VARIANT != PLANS_AGAIN -> event = on_lost
    :: (!interrupted || VARIANT == PLANS_AGAIN) && planned == REFUSED -> event = on_lost
    :: (!interrupted || VARIANT == PLANS_AGAIN) && planned == state -> event = on_unchanged
    :: else -> event = on_planned
    fi
}

#define undoing (at == at_rolling_back)
#define opening ((hook > 8) != undoing)
#define shielded (interrupted || (undoing && VARIANT != UNSHIELDED))
#define only_recorded (undoing || (force && at == at_running_tearing_down))

inline begin_hook() {
    hook = (undoing -> undone_next(done) : first(ahead));
    running++;
    unpaired = unpaired || (known(group_of(hook)) != 0 && has(outside, group_of(hook)) == opening)
}

inline have_effect() {
    outside = (opening -> outside | group_of(hook) : less(outside, group_of(hook)));
    loose = less(loose, group_of(hook))
}

inline end_hook() {
    if
    :: have_effect(); event = on_succeeded
    :: loose = (only_recorded -> loose | group_of(hook) : loose); event = on_failed
    :: !shielded ->    /* it stops since its caller is cancelled */
       loose = (only_recorded && !undoing -> loose | group_of(hook) : loose); interrupted = true; event = on_failed
    :: !shielded && !undoing -> have_effect(); interrupted = true; event = on_cancelled  /* a thread does not stop */
    :: shielded && !interrupted -> have_effect(); interrupted = true; event = on_succeeded
    fi;
    running--;
    hook = 0
}

inline save() {
    next = STEP(catalog, state, request);
    if
    :: catalog != seen && next == REFUSED && VARIANT != OLD_CATALOG -> event = on_refused
    :: catalog != seen && next != REFUSED && next != planned && VARIANT != OLD_CATALOG -> event = on_changed
    :: else -> lost = lost || next != planned; state = planned; event = on_saved
    fi;
    next = 0
}

/* -- clients, and who registers ----------------------------------------------------------------------------------- */

inline ask() {
    select (request : 0 .. 9);
    if :: force = true :: force = false fi
}

/* From the end of a hook to the beginning of the next one nothing is awaited. */
inline perform() {
    atomic {
        true;
act:    if
        :: IN_MEMORY(at) != 0 -> event = (VARIANT == ROW_LESS -> on_conflict : IN_MEMORY(at))
        :: EFFECT(at) == do_plan -> plan()
        :: EFFECT(at) == do_hook -> end_hook()
        :: EFFECT(at) == do_save -> save()
        fi;
        on();
        if
        :: EFFECT(at) != 0 && (EFFECT(at) != do_hook || IN_MEMORY(at) != 0) -> goto act
        :: EFFECT(at) == do_hook -> begin_hook()
        :: EFFECT(at) == 0 -> kept = kept || (at == at_committed && interrupted && !force)
        fi
    }
}

/* A client makes its requests one by one. Unused variables are reset to 0, which saves states. */
proctype client() {
    byte left = REQUESTS;
    byte request, planned, seen, ahead, done, hook;
    bool force, again, interrupted;
    mtype at, event;

    do
    :: left == 0 -> break
    :: left > 0 ->
        atomic {
            left--;
            if :: VARIANT == EARLY_PLAN -> ask(); seen = catalog; planned = STEP(seen, state, request) :: else fi;
            arrive()
        }
        if
        :: atomic {
               my_turn;
               if :: VARIANT == OVERTAKEN -> owner = _pid :: else fi;
               if :: VARIANT != EARLY_PLAN -> ask() :: else fi;
               overtook = overtook || earlier[_pid] != 0;
               working++;
               at = at_new
           }
           do
           :: EFFECT(at) != 0 -> perform()
           :: atomic { EFFECT(at) == 0 -> working--; leave(); end(); break }
           od
        :: atomic {           /* it is cancelled while it waits */
               cancels > 0 && waiting ?? [eval(_pid)];
               cancels--;
               if :: VARIANT == LEFT_WAITING :: else -> waiting ?? eval(_pid) fi;
               end()
           }
        :: atomic {           /* it is cancelled as it becomes its turn */
               cancels > 0 && owner == _pid;
               cancels--;
               if :: VARIANT == KEPT_PLACE :: else -> leave() fi;
               end()
           }
        fi
    od
}

/* A catalog that the session's state is not legal in is refused. */
proctype registrar() {
    byte left = CATALOGS;
    do
    :: atomic { left > 0 && LEGAL(0, state) && catalog != 0 -> catalog = 0; left-- }
    :: atomic { left > 0 && LEGAL(1, state) && catalog != 1 -> catalog = 1; left-- }
    :: atomic { left > 0 && LEGAL(2, state) && catalog != 2 -> catalog = 2; left-- }
    :: break
    od
}

init {
    atomic {
        if
        :: state = 0 :: state = A :: state = A + B :: state = C :: state = D :: state = A + D :: state = C + D
        fi;
        outside = state & WATCHED;
        for (next : 1 .. CLIENTS) { run client() }
        run registrar();
        next = 0
    }
}
