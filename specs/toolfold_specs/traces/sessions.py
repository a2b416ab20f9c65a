"""What the steps of a session say: what was planned, which hooks ran, and which state it is in then (SPEC TRC-1).

The rows decide. From the groups that were open and what was asked for, they give the plan; from the plan and the
outcomes, which hook runs when, which hooks the record names meanwhile, and where the step ends. What a line says
otherwise is not allowed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from attrs import define, field, frozen

from ..machine import life
from ..machine.life import Hook, Life, hooks_of, phases_of
from ..machine.regions import Order, Result, System, members, union
from .intervals import SKEW
from .reading import NotAllowed

REFUSALS = frozenset({"GroupNotFound", "ParentInactive", "ExclusionConflict", "QuotaExceeded"})
"""The errors that say that a request is refused in the state that it is made in."""
OF_OTHERS = frozenset({"CancelledError", "Cancelled", "GeneratorExit", "KeyboardInterrupt", "SystemExit"})
"""The errors of who has asked, for which a plan need not be made."""


@frozen
class State:
    """A state of a session: its system, and the groups that are open, in the order in which that was done."""

    system: System
    order: Order
    groups: int

    @classmethod
    def read(cls, system: System, data: Any) -> State:
        """Return the state in a line."""
        if isinstance(data, str):
            return cls(system, *system.groups(data))
        order = tuple(map(int, data))
        return cls(system, order, union(order))

    def within(self, system: System) -> State:
        """Return it in another system, where some of its groups may not exist or not be allowed (SPEC REG-7)."""
        if system is self.system:
            return self
        known = [system.index[path] for number in self.order if (path := self.system.paths[number]) in system.index]
        found = system.restore(known)
        return State(system, found.order, found.active)

    def __str__(self) -> str:
        return self.system.named(self.groups)


@define
class Session:
    """What is known of a session, or of its record.

    Attributes:
        now: The state that it is in; `None` if that is not known.
        at: For one in a store, its states by the version of the record, as far as they are known.
        guessed: The versions whose writer may still say what it has changed.
        written: The versions that each process has made since its last step.
        intents: The hooks that each process has recorded since its last step, as texts.
        left: The hooks that each process has found to be undone since then, as texts.
        tokens: Under which token each process made its last step that had a lease.
        recorded: What each process has recorded to be undone under that, as a text, unless it has withdrawn it.
        ended: How the step has ended that had that lease.
        known: The version that each process knew at the end of its last step.
        reads: The greatest version that each process has read before its last step but one, before its last, and since.
        inherited: By version, the groups that were inherited, as far as they are known.
        says: By version, what the record says.
        replaced: By version, the one that it has replaced, and the token under which that was done.
        until: When the lease of each process ends at the earliest.
        found: The versions that each process has read since its last write, with when that was.
    """

    now: State | None = None
    at: dict[int, State] = field(factory=dict[int, State])
    guessed: set[int] = field(factory=set[int])
    written: dict[str, set[int]] = field(factory=dict[str, set[int]])
    intents: dict[str, list[str]] = field(factory=dict[str, list[str]])
    left: dict[str, list[str]] = field(factory=dict[str, list[str]])
    tokens: dict[str, int] = field(factory=dict[str, int])
    recorded: dict[str, str] = field(factory=dict[str, str])
    ended: dict[str, str] = field(factory=dict[str, str])
    known: dict[str, int] = field(factory=dict[str, int])
    reads: dict[str, list[int]] = field(factory=dict[str, list[int]])
    inherited: dict[int, tuple[System, int]] = field(factory=dict[int, "tuple[System, int]"])
    says: dict[int, Mapping[str, Any]] = field(factory=dict[int, Mapping[str, Any]])
    replaced: dict[int, tuple[int, int | None]] = field(factory=dict[int, "tuple[int, int | None]"])
    until: dict[str, float] = field(factory=dict[str, float])
    found: dict[str, list[tuple[float, int]]] = field(factory=dict[str, "list[tuple[float, int]]"])

    def wrote(self, data: Mapping[str, Any]) -> None:
        """Take an operation of the store into account: what it wrote was the state before, unless a step says more."""
        by, gave = str(data.get("by")), cast("object", data["gave"])
        self._record(by, data)
        if data["op"] == "swap":
            self._check_version(by, data)
        kept: dict[int, Any]
        for kept in (self.at, self.inherited, self.says, self.replaced):
            if len(kept) > KEPT:
                del kept[min(kept)]
        if data["op"] not in ("read", "renew"):  # which other requests make meanwhile
            self.guessed -= self.written.get(by, set())
        match data["op"]:
            case "read":
                self.reads.setdefault(by, [0, 0, 0])[2] = int(data["gave"])
                self.says.setdefault(int(data["gave"]), data["data"])
                self.found.setdefault(by, []).append((data["at"], int(data["gave"])))
            case "create" if isinstance(gave, int):
                self._forget()
                self.says[gave] = data["data"]
                self.written.setdefault(by, set()).add(gave)
            case "swap" if isinstance(gave, int):
                self.written.setdefault(by, set()).add(gave)
                self.says[gave], self.replaced[gave] = data["data"], (data["version"], data["token"])
                if (inherited := self.inherited.get(data["version"])) is not None:
                    self.inherited[gave] = inherited
                if (state := self.at.get(data["version"])) is not None:
                    self.at[gave] = state
                    self.guessed.add(gave)
            case "acquire" if isinstance(gave, list):
                token, version, found, said = cast("tuple[Any, ...]", gave)
                self.says.setdefault(version, said)
                if token is None or not data["version"]:  # which is no step's, but only looks for what was left
                    return
                self.tokens[by] = token
                self.until[by] = data["at"] - data.get("took", 0.0) + data["seconds"]
                intent: str | None = found or (data["intent"] if data["version"] == version else None)
                if intent is not None:
                    self.intents.setdefault(by, []).append(intent)
                if found is not None:
                    self.left.setdefault(by, []).append(found)
            case "intend" if gave is True and data["intent"] is not None:
                self.intents.setdefault(by, []).append(data["intent"])
            case "renew" if gave is True and data["token"] == self.tokens.get(by):
                self.until[by] = data["at"] - data.get("took", 0.0) + data["seconds"]
            case "release" if data["token"] == self.tokens.get(by):  # after a step
                self.intents.pop(by, None)
                self.left.pop(by, None)
            case "delete" if gave is True:
                self._forget()
            case _:
                pass

    def _check_version(self, by: str, data: Mapping[str, Any]) -> None:
        """Compare the version that is to be replaced with what was read before; what is read meanwhile waits for it."""
        began = data["at"] - data.get("took", 0.0)
        known = max((version for at, version in self.found.pop(by, ()) if at < began), default=0)
        if data["version"] < known:
            raise NotAllowed(f"version {data['version']} is to be replaced, and version {known} was read before that")

    def _forget(self) -> None:
        """There is another record of the same key from now on, or none."""
        self.at.clear()
        self.known.clear()
        self.reads.clear()
        self.inherited.clear()
        self.says.clear()
        self.replaced.clear()
        self.found.clear()

    def _record(self, by: str, data: Mapping[str, Any]) -> None:
        """Take into account what is recorded to be undone; raises `NotAllowed` where it stays after a step."""
        operation, gave = data["op"], cast("object", data["gave"])
        if operation == "acquire" and isinstance(gave, list):
            token, version, found, *_ = cast("tuple[Any, ...]", gave)
            if token is not None and data["version"]:
                self.ended.pop(by, None)
                self.recorded[by] = found or (data["intent"] if data["version"] == version else None) or ""
        elif data.get("token") is None or data["token"] != self.tokens.get(by):
            pass
        elif operation == "intend" and gave is True:
            self.recorded[by] = data["intent"] or ""
        elif operation == "release" and gave is None:
            ended, left = self.ended.get(by, "abandoned"), self.recorded.pop(by, "")
            if left and ended != "abandoned":
                raise NotAllowed(f"a step was {ended}, and its record still names {left} as those to be undone")
        elif operation in ("swap", "delete", "intend"):
            self.recorded.pop(by, None)


KEPT = 64
"""How many states of a record are kept."""


class StepOf:
    """A step of a session, as a line says it; `check` raises `NotAllowed`."""

    def __init__(
        self, data: Mapping[str, Any], systems: Mapping[str, System], session: Session, *, whole: bool
    ) -> None:
        self.data = data
        self.systems = systems
        self.session = session
        self.whole = whole
        self.by = str(data.get("by"))
        self.is_shared = bool(data.get("shared"))
        self.last: State | None = None
        self.result: Result | None = None
        self.intents: list[str] = []
        self.hooks: list[Sequence[Any]] = list(data.get("hooks", ()))
        self.is_cancelled = False
        self.has_failed = False
        self.has_undone = False
        self.stopped_by: Hook | None = None
        self.plans = list(data["plans"])
        self.inherited = 0

    def check(self) -> None:
        """Compare the line with what the rows make of it."""
        data = self.data
        events = data["events"].split()
        is_new = bool(events) and (events[0] in ("planned", "unchanged") or (events[0] == "lost" and bool(self.plans)))
        if data["what"] == "close" and not data.get("force"):
            raise NotAllowed("the end of a session does not go on past hooks that fail")
        begun, is_stored = "new" if is_new else "planned", data.get("version") is not None
        at = Life(lambda _: frozenset(), begun, bool(data.get("force")), is_stored)
        for event in events:
            if at.effect is None:
                raise NotAllowed(f"{event} comes after the step has ended, {at.state}")
            self._on(at, event)
        if at.state != data["ended"]:
            raise NotAllowed(f"the step is {data['ended']}, and is to be {at.state}")
        if self.hooks:
            raise NotAllowed(f"{_said(self.hooks[0])} ran, and was not to run")
        if "hooks" in data or "interrupted" in data:
            self._check_caller(at.state)
        self._check_end()
        self._check_record()
        if self.is_shared:
            self.session.ended[self.by] = data["ended"]
            self.session.known[self.by] = data["version"]
            reads = self.session.reads.setdefault(self.by, [0, 0, 0])
            reads[:2] = max(reads[:2]), reads[2]

    def _check_caller(self, ended: str) -> None:
        """Compare what the caller is told with how hooks ended (SPEC HOOK-6)."""
        is_interrupted, error = bool(self.data.get("interrupted")), self.data.get("error")
        if self.is_cancelled and not is_interrupted:
            raise NotAllowed("a hook was cancelled, and its caller was not")
        may_go_on = self.is_cancelled or self.has_failed or self.has_undone or self.data["what"] == "close"
        if is_interrupted and not may_go_on:
            raise NotAllowed("the caller was cancelled during a hook, and the step went on")
        if ended == "aborted" and is_interrupted and error not in OF_OTHERS:
            raise NotAllowed(f"the caller was cancelled, and the step is given up as {error}")
        if error == "HookFailed" and not is_interrupted and self.stopped_by is not None:
            self._check_named((self.last.system.index.get(self.stopped_by[1], -1),) if self.last else ())

    def _check_named(self, named: tuple[int, ...]) -> None:
        """Compare the groups that an error is about with those that it is to be about."""
        if (of := tuple(self.data.get("of", ()))) != named:
            raise NotAllowed(f"the error is about the groups {of}, and is to be about {named}")

    def _phases(self, system: System) -> life.Phases:
        return phases_of(system.paths, system.hooks)

    # -- on the way ---------------------------------------------------------------------------------------------------

    def _on(self, at: Life, event: str) -> None:
        effect, hooks = at.effect, tuple[Hook, ...]()
        if effect == "plan":
            hooks = self._plan(at, event)
        elif effect == "hook":
            self._hook(at, event)
        elif event == "left":
            hooks = self._left(at)
        try:
            at.on(event, hooks)
        except life.NotAllowed as error:
            raise NotAllowed(str(error)) from error

    def _plan(self, at: Life, event: str) -> tuple[Hook, ...]:
        if not self.plans:
            if event == "planned" or (event == "unchanged" and self.data["what"] != "hold"):
                raise NotAllowed("nothing was planned, and the step went on")
            return ()
        catalog, before, version, changes, *inherited = self.plans.pop(0)
        system = self.systems[catalog]
        self.inherited = int(inherited[0], 16) if inherited else 0
        state = self.last = State.read(system, before)
        at.phases = self._phases(system)
        self._check_before(state, version)
        result = self.result = self._asked(state)
        if changes is None:
            self._check_refusal(result)
            return ()
        if result.refusal:
            raise NotAllowed(f"the request was planned, and is to be refused: {result.refusal}")
        up, down = (int(one, 16) for one in changes)
        if (up, down) != (result.set_up, result.torn_down) and not self._may_be_done(up | down):
            raise NotAllowed(
                f"opened: {system.named(up)}; closed: {system.named(down)}; the specification opens "
                f"{system.named(result.set_up)} and closes {system.named(result.torn_down)}"
            )
        if self._may_be_done(up | down) and not up | down:
            self.result = Result("", state.order, state.groups)
        if (event == "unchanged") != (not up | down) and event != "lost":
            raise NotAllowed(
                f"the plan is {'empty' if not up | down else 'not empty'}, and the step went on by {event}"
            )
        own = ~self.inherited
        return hooks_of(system.paths, members(down & own), members(up & own), at.phases)

    def _may_be_done(self, changed: int) -> bool:
        """Whether another process may have opened what a session begins with."""
        return self.is_shared and self.data["what"] == "start" and not changed

    def _asked(self, state: State) -> Result:
        system, data = state.system, self.data
        match data["what"]:
            case "close":
                return system.close(state.order, self.inherited)
            case "restore":
                return system.restore(number for number in data["open"] if number >= 0)
            case _:
                return system.request(state.order, data.get("open", ()), data.get("close", ()))

    def _check_refusal(self, result: Result) -> None:
        error = self.data.get("error")
        if result.refusal and error != result.refusal:
            raise NotAllowed(f"the request is to be refused as {result.refusal}, not as {error}")
        if result.refusal:
            self._check_named(result.named)
        if not result.refusal and error not in OF_OTHERS:
            raise NotAllowed(f"the request is refused as {error}, and the specification allows it")

    def _check_before(self, state: State, version: int) -> None:
        session, system = self.session, state.system
        if self.is_shared:
            self._check_known(system, version)
        if not system.is_legal(state.groups):
            raise NotAllowed(f"the open groups are {state}, which are not allowed together")
        if not self.is_shared:
            known = session.now
        elif version in session.guessed and version not in session.written.get(self.by, ()):
            known = None
        else:
            known = session.at.get(version)
        if known is not None and known.within(system).groups != state.groups:
            where = f"at version {version} " if self.is_shared else ""
            raise NotAllowed(f"the open groups are said to be {state}; {where}they were {known.within(system)}")
        if self.is_shared and version and version not in session.at:
            session.at[version] = state

    def _check_known(self, system: System, version: int) -> None:
        """Compare the version that a step is planned on, and what it inherits, with what was known."""
        known = max(self.session.known.get(self.by, 0), self.session.reads.get(self.by, [0])[0])
        if 0 < version < known and self.whole:  # 0 is that of a session whose record is not made
            raise NotAllowed(f"it is planned on version {version}, and version {known} was known")
        of, inherited = self.session.inherited.setdefault(version, (system, self.inherited))
        if version and of is system and inherited != self.inherited:
            raise NotAllowed(
                f"inherited groups are said to be {system.named(self.inherited)}; at version {version} they were "
                f"{system.named(inherited)}"
            )

    def _hook(self, at: Life, event: str) -> None:
        due = at.due
        if due is None:
            raise NotAllowed("a hook is to be undone that nothing undoes")
        if self.is_shared:
            self._intended(at.intent)
        ran = self.hooks.pop(0) if self.hooks else None
        if ran is None and event == "lost":
            return
        if ran is None or _as_due(ran) != due:
            raise NotAllowed(f"{_said(due)} was to run, and {'nothing' if ran is None else _said(ran)} did")
        how, ended = ran[3:] if len(ran) > 3 else ("", 0.0)
        if how and at.state != "rolling_back":
            self.stopped_by = due
        if event != "lost" and bool(how) != (event == "failed"):
            raise NotAllowed(f"{_said(due)} {how or 'succeeded'}, and counts as one that {event}")
        self.has_failed = self.has_failed or bool(how)
        self._check_cancellation(at, due, how == "cancelled" or event == "cancelled")
        until = self.session.until.get(self.by) if self.is_shared else None
        if not how and until is not None and ended > until + SKEW and "in_thread" not in at.phases(due[1]):
            raise NotAllowed(f"{_said(due)} went on, and succeeded, {ended - until:.1f} s after its lease had ended")

    def _check_cancellation(self, at: Life, hook: Hook, is_cancelled: bool) -> None:
        """Compare a hook that ended with whether a cancellation may end it: none that undoes another (SPEC HOOK-5)."""
        undoes = at.state == "rolling_back"
        if is_cancelled and (undoes or self.is_cancelled or self.data["what"] == "close"):
            raise NotAllowed(f"{_said(hook)} was cancelled, which was to run to its end")
        self.is_cancelled = self.is_cancelled or is_cancelled
        self.has_undone = self.has_undone or undoes

    def _left(self, at: Life) -> tuple[Hook, ...]:
        """Return the hooks that another process has left, which were found with the lease."""
        system = next((self.systems[plan[0]] for plan in self.plans), None) or self.systems[self.data["catalog"]]
        at.phases = self._phases(system)
        found: list[Hook] = []
        left = self.session.left.get(self.by)
        if self.whole and not left:
            raise NotAllowed("hooks are undone that another process has left, and none were found")
        for phase, path in json.loads(left.pop(0) if left else "[]"):
            if path in system.index:
                found.append((phase, path))
        return tuple(found)

    def _intended(self, hooks: Sequence[Hook]) -> None:
        text = json.dumps([list(hook[:2]) for hook in hooks], separators=(",", ":"))
        if not self.intents or self.intents[-1] != text:
            self.intents.append(text)

    # -- at the end ---------------------------------------------------------------------------------------------------

    def _check_end(self) -> None:
        data, system = self.data, self.systems[self.data["catalog"]]
        after = State.read(system, data["after"])
        if not system.is_legal(after.groups):
            raise NotAllowed(f"the groups {after} are open then, which are not allowed together")
        if data["ended"] == "committed":
            expected = self._committed(system)
            if expected is not None and expected.groups != after.groups:
                raise NotAllowed(f"the groups {after} are open then; the specification has {expected}")
            is_ordered = system.evicts and not self.is_shared and "hooks" not in data  # otherwise others use groups
            if expected is not None and is_ordered and expected.order != after.order:
                raise NotAllowed(f"the groups are open in the order {after.order}, and were opened in {expected.order}")
        elif not self.is_shared and self.last is not None and self.last.within(system).groups != after.groups:
            raise NotAllowed(f"the step is {data['ended']}, and has changed what is open: {self.last}, then {after}")
        elif self.is_shared and data["version"] not in self.session.guessed:
            known = self.session.at.get(data["version"])
            if known is not None and known.within(system).groups != after.groups:
                raise NotAllowed(f"the groups {after} are open then; at version {data['version']} they were {known}")
        if not self.is_shared:
            self.session.now = after
        elif data["ended"] == "committed":
            self.session.at[data["version"]] = after
            if self.last is not None and self.last.system is system:
                self.session.inherited[data["version"]] = system, self.inherited & after.groups
            self.session.guessed.discard(data["version"])

    def _committed(self, system: System) -> State | None:
        """Return the state that the last plan leads to, in a system that may have changed since."""
        assert self.last is not None
        assert self.result is not None
        if system is self.last.system:
            return State(system, self.result.order, self.result.active)
        if self.data["what"] == "transition":
            moved, data = self.last.within(system), self.data
            paths = self.last.system.paths
            opened, closed = (
                [system.index.get(paths[one], -1) for one in cast("list[int]", data.get(name, [])) if one >= 0]
                for name in ("open", "close")
            )
            result = system.request(moved.order, opened, closed)
            if result.refusal:
                return None
            again, planned = (
                (of.named(one.set_up), of.named(one.torn_down))
                for of, one in ((system, result), (self.last.system, self.result))
            )
            if again != planned:
                raise NotAllowed(
                    f"the catalog has changed: {again[0]} open and {again[1]} close in it, and nothing else"
                )
            return State(system, result.order, result.active)
        return None

    def _check_record(self) -> None:
        """Compare what was done with what was recorded."""
        if not self.is_shared:
            return
        session = self.session
        written = session.written.pop(self.by, set())
        session.guessed -= written
        intents, left = session.intents.pop(self.by, []), session.left.pop(self.by, [])
        if not self.whole:
            return
        for version in written:
            self._check_written(version)
        if left and not self.data["events"].endswith("lost"):
            raise NotAllowed(f"another process has left {left[0]} to be undone, and they are not undone")
        if self.data["ended"] == "committed" and self.data["version"] not in written:
            raise NotAllowed(f"version {self.data['version']} was committed, and was not written")
        missing = [one for one in self.intents if one not in intents]
        if missing:
            raise NotAllowed(f"hooks ran, and the record did not name {missing[0]} as those to be undone")

    def _check_written(self, version: int) -> None:
        """Compare what a record says with what the step, or one of those before it, left open (SPEC STO-1, NTF-1)."""
        session, data = self.session, self.data
        replaced, token = session.replaced.get(version, (0, None))
        said, before = session.says.get(version, {}), session.says.get(replaced, {})
        found, is_own = said.get("open"), data["ended"] == "committed" and version == data["version"]
        if is_own and replaced and token is None and _is_leased(data["events"].split()):
            raise NotAllowed(f"version {version} was written without the lease under which the step was made")
        if found is None:
            return
        if is_own:
            system = self.systems[data["catalog"]]
            known = [path for path in found if path in system.index]
            after = State.read(system, data["after"])
            if len(known) != len(found) or system.masked(known) != after.groups:
                raise NotAllowed(f"the record says that {', '.join(found) or 'none'} are open, and {after} are")
        elif not set(found) <= set(before.get("open", found)):
            raise NotAllowed(f"version {version} says that {', '.join(found)} are open, and no step has opened them")
        if "pending" in before and "pending" in said:
            self._check_pending(before["pending"], said["pending"], is_own)

    def _check_pending(self, before: Sequence[str], after: Sequence[str], is_own: bool) -> None:
        """Compare what the client is still to be notified of: a step adds what it changed, a claim takes all out."""
        lists = self.data.get("lists", "") if is_own else ""
        rest = sorted({*lists.split(), *(kind for kinds in before[PENDING - 1 :] for kind in kinds.split())})
        expected = [*before[: PENDING - 1], " ".join(rest)] if lists else [*before]
        if after != expected and (is_own or after):
            raise NotAllowed(f"the changes of lists that are pending are {after}, and are to be {expected}")


PENDING = 16
"""Of how many steps the client of a session may still have to be notified (SPEC STO-7)."""


def _is_leased(events: Sequence[str]) -> bool:
    """Return whether a step has the lease of its record at its end, which `settled` gives back."""
    last = max((place for place, event in enumerate(events) if event == "settled"), default=-1)
    return not {"leased", "intended"}.isdisjoint(events[last + 1 :])


def _as_due(ran: Sequence[Any]) -> Hook:
    """Return a hook that ran as one that is to run."""
    phase, path, undoes = ran[:3]
    return (phase, path) if undoes is None else (phase, path, undoes)


def _said(hook: Sequence[Any]) -> str:
    undoes = f", which undoes {hook[2]}," if len(hook) > 2 and hook[2] else ""
    return f"{hook[0]} of {hook[1]}{undoes}"
