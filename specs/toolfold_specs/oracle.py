"""The oracle: the expected answer to every operation on every system.

It extends the reference model with names, tools, hooks and sessions. `Oracle.apply` is a pure function from a world and
an operation to the next world and the answer, so a history can be judged step by step, and a concurrent one in any
possible order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any

from attrs import evolve, field, frozen

from . import reference
from .driver import Answer, Group, Operation, Setup, Tool
from .reference import System

NEXT = "next"
"""A symbolic cursor: the one that the session's last page returned."""

SEGMENT = re.compile(r"[A-Za-z0-9_-]{1,64}")
LONGEST_NAME = 128  # characters

ORACLES, STEPS = 512, 256
"""How many setups have an oracle that is kept, and how many transitions each of these keeps the answers to."""


@frozen
class SessionState:
    """The state of one session: active groups, true facts, and the last name on the last page.

    The groups are in order of activation if there is a limit, because only then the order matters.
    """

    order: tuple[int, ...] = ()
    facts: frozenset[str] = frozenset()
    page: str | None = None

    @property
    def active(self) -> frozenset[int]:
        """The active groups."""
        return frozenset(self.order)


@frozen
class World:
    """The whole state: the sessions by name, the scripts of hooks, and the state of a session before its first use."""

    sessions: tuple[tuple[str, SessionState], ...] = ()
    scripts: tuple[tuple[tuple[str, str], str], ...] = ()
    new: SessionState = SessionState()

    def state_of(self, session: str) -> SessionState:
        """Return the state of a session, which is new before its first use."""
        return dict(self.sessions).get(session, self.new)

    def having(self, session: str, session_state: SessionState) -> World:
        """Return the world with the state of a session replaced."""
        others = {name: other for name, other in self.sessions if name != session}
        used = others if session_state == self.new else {**others, session: session_state}
        return evolve(self, sessions=tuple(sorted(used.items())))


@frozen
class Refusal:
    """Why a setup is refused: the name of the error, and the clause."""

    error: str
    clause: str


def refusal(setup: Setup) -> Refusal | None:
    """Return why a setup is refused, or None if it is legal (SPEC NAM-1, REG-2 to REG-4)."""
    paths = [group.path for group in setup.groups]
    for group in setup.groups:
        if not all(SEGMENT.fullmatch(part) for part in group.path.split(".")):
            return Refusal("InvalidName", "NAM-1")
        if "." in group.path and group.path.rpartition(".")[0] not in paths:
            return Refusal("GroupNotFound", "REG-2")
    if len(set(paths)) < len(paths):
        return Refusal("DuplicateName", "REG-4")
    for tool in setup.tools:
        if not SEGMENT.fullmatch(tool.name) or len(tool.full_name) > LONGEST_NAME:
            return Refusal("InvalidName", "NAM-1")
    names = [tool.full_name for tool in setup.tools]
    if len(set(names)) < len(names):
        return Refusal("DuplicateName", "REG-4")
    return _exclusion_refusal(setup, paths)


def _exclusion_refusal(setup: Setup, paths: list[str]) -> Refusal | None:
    for members in setup.exclusions:
        if not set(members) <= set(paths):
            return Refusal("GroupNotFound", "REG-3")
        if len(set(members)) < 2 or any(_above(a, b) or _above(b, a) for a, b in combinations(members, 2)):
            return Refusal("ExclusionConflict", "REG-3")
    return None


def _above(one: str, other: str) -> bool:
    return other.startswith(f"{one}.")


def as_setup(system: System, **options: Any) -> Setup:
    """Return the setup of a numbered system: groups g0, g1, …, each with one tool, and one tool at root."""
    paths = system.paths()
    return Setup(
        groups=tuple(Group(path, **options) for path in paths),
        exclusions=tuple(tuple(paths[member] for member in sorted(members)) for members in system.exclusions),
        tools=(Tool("root"), *(Tool("tool", path) for path in paths)),
    )


@frozen
class Oracle:
    """The expected answers for one legal setup."""

    setup: Setup
    _steps: dict[tuple[World, str, tuple[str, ...], tuple[str, ...], bool], tuple[World, Answer]] = field(
        factory=dict[Any, Any], init=False, eq=False, repr=False
    )

    @cached_property
    def initial(self) -> World:
        """The world before the first operation: pinned groups are active in each session (SPEC FND-4)."""
        return World(new=SessionState(self.with_pinned(())))

    def with_pinned(self, order: Iterable[int]) -> tuple[int, ...]:
        """Return active groups, the longest-active first, with those that are pinned (SPEC FND-4)."""
        pinned = sorted(self.number[path] for path in self.setup.pinned)
        return tuple(dict.fromkeys((*pinned, *order)))

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The groups in canonical order; the index of a group is its number."""
        return self.setup.paths

    @cached_property
    def number(self) -> Mapping[str, int]:
        """The number of each group."""
        return {path: number for number, path in enumerate(self.paths)}

    @cached_property
    def system(self) -> System:
        """The forest and the exclusion sets, by number."""
        parents = tuple(self.number.get(path.rpartition(".")[0]) for path in self.paths)
        sets = tuple(frozenset(self.number[path] for path in members) for members in self.setup.exclusions)
        return System(parents, sets)

    @cached_property
    def groups(self) -> Mapping[str, Group]:
        """The groups by path."""
        return {group.path: group for group in self.setup.groups}

    @cached_property
    def tools(self) -> Mapping[str, Tool]:
        """The tools by full name."""
        return {tool.full_name: tool for tool in self.setup.tools}

    def apply(self, world: World, operation: Operation) -> tuple[World, Answer]:
        """Return the world after an operation, and the expected answer."""
        session_state = world.state_of(operation.session)
        arguments = dict(operation.arguments)
        match operation.verb:
            case "activate":
                return self._step(world, operation.session, (arguments["group"],), ())
            case "deactivate":
                force = arguments.get("force", False)
                return self._step(world, operation.session, (), (arguments["group"],), force)
            case "transition":
                activate, deactivate = tuple(arguments["activate"]), tuple(arguments["deactivate"])
                return self._step(world, operation.session, activate, deactivate, arguments.get("force", False))
            case "snapshot":
                return world, self._settled(session_state, hooks=None)
            case "list":
                return self._list(world, operation.session, arguments.get("cursor"))
            case "list_groups":
                return world, Answer(groups=tuple(self._row(session_state, path) for path in self.paths))
            case "call":
                return self._call(world, operation.session, arguments["tool"], arguments["arguments"])
            case "why":
                return world, Answer(why=self._why(session_state, arguments["tool"]))
            case "set_fact":
                return self._set_fact(world, operation.session, arguments["fact"], arguments["value"])
            case "end":
                return self._end(world, operation.session)
            case "restore":
                return self._restore(world, operation.session, self.following(operation))
            case "register":
                return self._register(world, operation.session, self.following(operation))
            case "script":
                place = (arguments["group"], arguments["phase"])
                scripts = {**dict(world.scripts), place: arguments["outcome"]}
                return evolve(world, scripts=tuple(sorted(scripts.items()))), Answer()
            case verb:
                raise ValueError(f"the oracle has no verb {verb!r}")

    def active(self, session_state: SessionState) -> tuple[str, ...]:
        """Return the paths of the active groups, in canonical order."""
        return tuple(self.paths[number] for number in sorted(session_state.active))

    def names(self, session_state: SessionState) -> tuple[str, ...]:
        """Return all listed names, including control tools, in order (SPEC LST-1, CTL-1, CTL-2)."""
        return tuple(sorted({*self.listed(session_state), *self.controls(session_state)}))

    def listed(self, session_state: SessionState) -> frozenset[str]:
        """Return the full names of the listed user tools (SPEC VIS-2, VIS-6)."""
        return frozenset(
            tool.full_name for tool in self.setup.tools if not tool.hidden and self.available(session_state, tool)
        )

    def controls(self, session_state: SessionState) -> frozenset[str]:
        """Return the names of the listed control tools (SPEC CTL-1, CTL-2, NAM-4)."""
        found: set[str] = set()
        for path in self.paths:
            state = self.state(session_state, path)
            if not self.setup.relevant_controls or state == "inactive":
                found.add(f"{path}.activate")
            if path not in self.setup.fixed and (not self.setup.relevant_controls or state == "active"):
                found.add(f"{path}.deactivate")
        return frozenset(found - {tool.full_name for tool in self.setup.tools})

    def available(self, session_state: SessionState, tool: Tool) -> bool:
        """Return whether a tool is available (SPEC VIS-2, VIS-4, NAM-4)."""
        if tool.when == "raises" or not (tool.fact is None or tool.fact in session_state.facts):
            return False
        return tool.follows is None or self.number[tool.follows] in session_state.active

    def state(self, session_state: SessionState, path: str) -> str:
        """Return the state of a group's region."""
        return reference.region(self.system, session_state.active, self.number[path])

    # -- transitions ---------------------------------------------------------------------------------------------------

    def after(
        self, session_state: SessionState, activate: Iterable[str], deactivate: Iterable[str]
    ) -> reference.Answer[Any] | str:
        """Return the answer of the reference model to a transition, or the first unknown path."""
        activate, deactivate = tuple(activate), tuple(deactivate)
        if unknown := [path for path in (*deactivate, *activate) if path not in self.number]:
            return unknown[0]
        return reference.step_within(
            self.system,
            session_state.order,
            [self.number[path] for path in activate],
            [self.number[path] for path in deactivate],
            limit=self.setup.max_active,
            evict_oldest=self.setup.evict_oldest,
            pinned=frozenset(self.number[path] for path in self.setup.pinned),
        )

    def _step(
        self,
        world: World,
        session: str,
        activate: tuple[str, ...],
        deactivate: tuple[str, ...],
        force: bool = False,
    ) -> tuple[World, Answer]:
        asked = (world, session, activate, deactivate, force)
        if (known := self._steps.get(asked)) is None:
            known = self._stepped(*asked)
            if len(self._steps) < STEPS:
                self._steps[asked] = known
        return known

    def _stepped(
        self, world: World, session: str, activate: tuple[str, ...], deactivate: tuple[str, ...], force: bool
    ) -> tuple[World, Answer]:
        session_state = world.state_of(session)
        outcome = self.after(session_state, activate, deactivate)
        if isinstance(outcome, str):
            return world, self._settled(session_state, error="GroupNotFound")
        if outcome.kind == "refused":
            detail = {} if outcome.detail is None else {"missing": self.paths[outcome.detail]}
            return world, self._settled(session_state, error=outcome.error, detail=detail)
        if outcome.kind == "unchanged":
            return world, self._settled(session_state, changed=False)
        state = frozenset(outcome.state)
        ran, failed = self._run(world, state - session_state.active, session_state.active - state, force)
        if failed is not None:
            script = dict(world.scripts)[failed[1], failed[0]]
            detail = {"phase": failed[0], "group": failed[1], "outcome": script}
            detail |= {"cause": "ReentrantTransition"} if script == "ask" else {}
            return world, self._settled(session_state, error="HookFailed", detail=detail, hooks=ran)
        after = evolve(session_state, order=outcome.state if self.setup.max_active else tuple(sorted(outcome.state)))
        notified = int(self.names(after) != self.names(session_state))
        return world.having(session, after), self._settled(after, changed=True, hooks=ran, notified=notified)

    def _run(
        self, world: World, activated: frozenset[int], deactivated: frozenset[int], force: bool
    ) -> tuple[tuple[tuple[str, str], ...], tuple[str, str] | None]:
        """Return the hooks that begin, in order, and the one that failed (SPEC HOOK-3 to HOOK-5, HOOK-7, HOOK-8)."""
        order = [("on_deactivate", self.paths[number]) for number in sorted(deactivated, reverse=True)]
        order += [("on_activate", self.paths[number]) for number in sorted(activated)]
        ran: list[tuple[str, str]] = []
        for phase, path in order:
            if phase not in self.groups[path].hooks:
                continue
            ran.append((phase, path))
            ignored = force and phase == "on_deactivate"
            if self._fails(world, phase, path) and not ignored:
                rollback = [hook for done in reversed(ran[:-1]) if (hook := self._compensation(*done)) is not None]
                return (*ran, *rollback), (phase, path)
        return tuple(ran), None

    def _fails(self, world: World, phase: str, path: str) -> bool:
        return dict(world.scripts).get((path, phase)) in ("fail", "ask")

    def _compensation(self, phase: str, path: str) -> tuple[str, str] | None:
        hooks = self.groups[path].hooks
        opposite = "on_deactivate" if phase == "on_activate" else "on_activate"
        chosen = "on_rollback" if "on_rollback" in hooks else opposite
        return (chosen, path) if chosen in hooks else None

    def _teardown(self, paths: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """Return the hooks that begin when these groups, in canonical order, are closed."""
        return tuple(
            ("on_deactivate", path) for path in reversed(tuple(paths)) if "on_deactivate" in self.groups[path].hooks
        )

    def _end(self, world: World, session: str) -> tuple[World, Answer]:
        ran = self._teardown(self.active(world.state_of(session)))
        error = "HookFailed" if any(self._fails(world, *hook) for hook in ran) else None
        answer = Answer(error=error, hooks=ran, active=self.active(world.new), detail={"list": "SessionClosed"})
        return world.having(session, world.new), answer

    def following(self, operation: Operation) -> Oracle:
        """Return the oracle after an operation, which is another one if the operation changes the setup."""
        setup: Setup | None = operation.arguments.get("setup") if operation.verb in ("register", "restore") else None
        return self if setup is None else oracle_of(setup)

    def _restore(self, world: World, session: str, there: Oracle) -> tuple[World, Answer]:
        """Return the world with only this session, in the system of `there` (SPEC PER-1, PER-2)."""
        session_state = world.state_of(session)
        numbers = session_state.order if self.setup.evict_oldest else sorted(session_state.active)
        dumped = [self.paths[number] for number in numbers]
        known = frozenset(there.number[path] for path in dumped if path in there.number)
        restored = reference.supported(there.system, known)
        for number in sorted(restored):
            if number in restored:
                displaced = [there.system.subtree(other) for other in there.system.excluded(number)]
                restored -= frozenset[int]().union(*displaced)
        order = there.with_pinned(there.number[path] for path in dumped if there.number.get(path) in restored)
        after = SessionState(tuple(order if there.setup.max_active else sorted(order)), session_state.facts)
        discarded = tuple(path for path in dumped if there.number.get(path) not in restored)
        return there.initial.having(session, after), Answer(active=there.active(after), detail={"discarded": discarded})

    def _register(self, world: World, session: str, there: Oracle) -> tuple[World, Answer]:
        """Return the world with all sessions in the system of `there`, removed groups closed (SPEC REG-5, REG-7)."""
        after = evolve(world, sessions=(), new=there.initial.new)
        for name, session_state in world.sessions:
            paths = [self.paths[number] for number in session_state.order]
            order = there.with_pinned(there.number[path] for path in paths if path in there.number)
            if not reference.legal(there.system, frozenset(order)):
                return world, self._settled(world.state_of(session), error="ExclusionConflict", notified=None)
            order = order if there.setup.max_active else tuple(sorted(order))
            after = after.having(name, evolve(session_state, order=order))
        ran = self._teardown(path for path in self.active(world.state_of(session)) if path not in there.number)
        return after, there._settled(after.state_of(session), hooks=ran, notified=None)

    def _settled(self, session_state: SessionState, **known: Any) -> Answer:
        observed: dict[str, Any] = {"hooks": (), "notified": 0, **known}
        return Answer(active=self.active(session_state), **observed)

    # -- reading and calling ------------------------------------------------------------------------------------------

    def _list(self, world: World, session: str, cursor: str | None) -> tuple[World, Answer]:
        session_state = world.state_of(session)
        if cursor is not None and (cursor != NEXT or session_state.page is None):
            return world, Answer(error="InvalidCursor")
        names = [name for name in self.names(session_state) if cursor is None or name > str(session_state.page)]
        page = names[: self.setup.page_size]
        more = len(page) < len(names)
        tools = tuple(name for name in page if name in self.listed(session_state))
        controls = tuple(name for name in page if name not in tools)
        session_state = evolve(session_state, page=page[-1] if more else None)
        answer = Answer(tools=tools, controls=controls, names=tuple(page), next_cursor=NEXT if more else None)
        return world.having(session, session_state), answer

    def _row(self, session_state: SessionState, path: str) -> dict[str, Any]:
        state = self.state(session_state, path)
        tools = sum(tool.group == path for tool in self.setup.tools)
        return {"name": path, "state": state, "active": state == "active", "tools": tools}

    def _call(self, world: World, session: str, name: str, arguments: Mapping[str, Any]) -> tuple[World, Answer]:
        session_state = world.state_of(session)
        tool = self.tools.get(name)
        if tool is None or not self.available(session_state, tool):
            return world, Answer(error="ToolNotFound")
        if self.setup.evict_idlest and tool.follows is not None:
            used = [*self.system.ancestors(self.number[tool.follows]), self.number[tool.follows]]
            order = (*(one for one in session_state.order if one not in used), *used)
            world = world.having(session, evolve(session_state, order=order))
        return world, self._called(tool, arguments)

    def _why(self, session_state: SessionState, name: str) -> str:
        """Return the reason of a tool, where nothing limits how many groups are active (SPEC EXP-1)."""
        tool = self.tools.get(name)
        if tool is None:
            return "unknown"
        if self.available(session_state, tool):
            return "hidden" if tool.hidden else "listed"
        if tool.follows is None or self.number[tool.follows] in session_state.active:
            return "predicate"
        number = self.number[tool.follows]
        closed = frozenset({*self.system.ancestors(number), number}) - session_state.active
        if any(session_state.active.intersection(self.system.excluded(one)) for one in closed):
            return "excluded"
        return "group" if len(closed) == 1 else "ancestor"

    def _called(self, tool: Tool, arguments: Mapping[str, Any]) -> Answer:
        if not _fits(tool.input_schema, arguments):
            return Answer(is_error=True)
        if tool.does == "echo":
            return Answer(is_error=False, text=json.dumps({"tool": tool.full_name, "arguments": dict(arguments)}))
        return Answer(is_error=True, text="refused on purpose" if tool.does == "refuse" else None)

    def _set_fact(self, world: World, session: str, fact: str, value: bool) -> tuple[World, Answer]:
        session_state = world.state_of(session)
        after = evolve(session_state, facts=session_state.facts | {fact} if value else session_state.facts - {fact})
        notified = int(self.names(after) != self.names(session_state))
        return world.having(session, after), self._settled(after, notified=notified)


def _fits(schema: Mapping[str, Any] | None, arguments: Mapping[str, Any]) -> bool:
    if schema is None:
        return True
    import jsonschema_rs  # only setups with schemas need it

    return jsonschema_rs.validator_for(dict(schema)).is_valid(dict(arguments))


def oracle_of(setup: Setup) -> Oracle:
    """Return the oracle of a setup: the one that there is, which knows what it was asked before, or another."""
    try:
        return _kept(setup)
    except TypeError:  # a tool's schema has no hash
        return Oracle(setup)


_kept = lru_cache(maxsize=ORACLES)(Oracle)
