"""Random lives of a tool set and its sessions, compared with the reference after every step.

What the exhaustive tests hold still moves here: groups, exclusions and tools come and go, sessions open (under
profiles) and close, hooks begin and cease to fail, facts are set.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.core.support import Journal
from toolfold import ExclusionConflict, GroupNotFound, HookFailed, ParentInactive, Profile, Session, ToolSet, Visibility
from toolfold_specs import reference as model
from toolfold_specs.reference import System

MOST = 8
picks = st.integers(0, MOST - 1)
some = st.lists(picks, max_size=2)


class Refused(Exception):
    """What the model says of a step that is not to happen: the error and its data."""


@dataclass
class Holder:
    """The model of one session."""

    session: Session
    profile: Profile | None
    active: frozenset[str] = frozenset()
    unlocked: bool = False
    heard: list[frozenset[str]] = field(default_factory=list)
    expected: int = 0


class ToolSetMachine(RuleBasedStateMachine):
    """A tool set, and beside it plain sets and the reference."""

    met: ClassVar[Counter[str]] = Counter()
    """How often each kind of outcome was met, so that the agreement is known not to be about nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.journal = Journal()
        self.tools = ToolSet("life", control="none")
        self.tools.register("ping", lambda: "pong")
        self.tools.register("secret", lambda: "", visibility=Visibility.when(lambda view: "key" in view.facts))
        self.groups: list[str] = []
        self.exclusions: list[frozenset[str]] = []
        self.busy: set[str] = set()
        self.holders: list[Holder] = []
        self.made = 0

    def teardown(self) -> None:
        self.journal.failing.clear()
        for holder in self.holders:
            self.run(holder.session.close)
        self.runner.close()

    def run(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        async def call() -> Any:
            return await function(*arguments, **options)

        return self.runner.run(call())

    def meet(self, outcome: str) -> None:
        event(outcome)
        self.met[outcome] += 1

    # The model

    def known(self, holder: Holder) -> list[str]:
        """The groups that exist for a session."""
        return [path for path in self.groups if holder.profile is None or admits(holder.profile, path)]

    def system(self, groups: list[str]) -> System:
        parents = tuple(groups.index(above) if (above := path.rpartition(".")[0]) else None for path in groups)
        kept = (members & set(groups) for members in self.exclusions)
        return System(parents, tuple(frozenset(map(groups.index, some)) for some in kept if len(some) > 1))

    def expect(
        self, holder: Holder, activate: Iterable[str], deactivate: Iterable[str], *, force: bool = False
    ) -> tuple[list[str], frozenset[str] | Refused]:
        """Return the lines that hooks will write, and the groups active then, or the refusal."""
        groups = self.known(holder)
        for path in (*sorted(deactivate), *sorted(activate)):
            if path not in groups:
                return [], Refused(GroupNotFound)
        system = self.system(groups)
        before = frozenset(map(groups.index, holder.active))
        answer = model.step(system, before, [*map(groups.index, activate)], [*map(groups.index, deactivate)])
        if answer.kind == "refused":
            if answer.error == "ParentInactive":
                return [], Refused(ParentInactive, groups[answer.detail or 0])
            return [], Refused(ExclusionConflict)
        leaving = reversed(system.canonical(before - answer.state))
        calls = [f"-{groups[group]}" for group in leaving]
        calls += [f"+{groups[group]}" for group in system.canonical(answer.state - before)]
        fatal = [line for line in calls if line in self.journal.failing and not (force and line.startswith("-"))]
        if fatal:
            done = [line for line in calls[: calls.index(fatal[0])] if not (force and line in self.journal.failing)]
            undone = [f"undo {'-' if line[0] == '+' else '+'}{line[1:]}" for line in reversed(done)]
            return [*calls[: calls.index(fatal[0]) + 1], *undone], Refused(HookFailed, fatal[0])
        return calls, frozenset(groups[group] for group in answer.state)

    def listed(self, holder: Holder) -> list[str]:
        names = [f"{path}.t" for path in holder.active if path in self.busy]
        return sorted([*names, "ping", *(["secret"] if holder.unlocked else [])])

    def take(
        self, holder: Holder, activate: Iterable[str] = (), deactivate: Iterable[str] = (), *, force: bool = False
    ) -> None:
        """Have the session and the model take a step, and compare."""
        lines, outcome = self.expect(holder, activate, deactivate, force=force)
        before, listed = holder.session.snapshot, self.listed(holder)
        self.journal.take()
        if isinstance(outcome, Refused):
            self.meet(outcome.args[0].__name__)
            with pytest.raises(outcome.args[0]) as raised:
                self.run(holder.session.transition, activate, deactivate, force=force)
            assert holder.session.snapshot is before
            assert told(raised.value) == outcome.args[1:]
        else:
            self.meet("changed" if outcome != holder.active else "unchanged")
            change = self.run(holder.session.transition, activate, deactivate, force=force)
            assert set(change.activated) == outcome - holder.active
            assert set(change.deactivated) == holder.active - outcome
            assert (holder.session.snapshot is before) is (outcome == holder.active)
            holder.active = outcome
        holder.expected += listed != self.listed(holder)
        assert self.journal.take() == lines

    # Registration

    @initialize(parents=st.lists(st.integers(-4, 5), min_size=3, max_size=6), pairs=st.lists(st.tuples(picks, picks)))
    def begin(self, parents: list[int], pairs: list[tuple[int, int]]) -> None:
        for parent in parents:
            self.register_group(parent, True)
        for one, other in pairs[:3]:
            self.register_exclusion([one, other])
        self.open_session(None, [])

    @precondition(lambda self: len(self.groups) < MOST)
    @rule(parent=st.integers(-4, MOST - 1), busy=st.booleans())
    def register_group(self, parent: int, busy: bool) -> None:
        above = self.groups[parent % len(self.groups)] if parent >= 0 and self.groups else None
        name = f"g{self.made:03}"
        self.made += 1
        path = name if above is None else f"{above}.{name}"
        self.tools.register_group(name, parent=above, **self.journal.of(path))
        if busy:
            self.tools.register("t", lambda: "done", group=path)
            self.busy.add(path)
        self.groups.append(path)

    @rule(members=st.lists(picks, min_size=2, max_size=3))
    def register_exclusion(self, members: list[int]) -> None:
        paths = [self.groups[pick % len(self.groups)] for pick in members]
        distinct = frozenset(paths)
        parents = self.system(self.groups).parents
        refused = len(distinct) < len(paths) or not model.legal_exclusion(
            parents, frozenset(map(self.groups.index, paths))
        )
        if refused or any(len(holder.active & distinct) > 1 for holder in self.holders):
            with pytest.raises(ExclusionConflict):
                self.tools.register_exclusion(*paths)
        else:
            self.tools.register_exclusion(*paths)
            self.exclusions.append(distinct)

    @precondition(lambda self: len(self.groups) > 3)
    @rule(pick=picks)
    def unregister_group(self, pick: int) -> None:
        path = self.groups[pick % len(self.groups)]
        gone = {other for other in self.groups if f"{other}.".startswith(f"{path}.")}
        if len(gone) == len(self.groups):
            return
        failing: Refused | None = None
        lines: list[str] = []
        for holder in [holder for holder in self.holders if path in holder.active]:
            asked, outcome = self.expect(holder, (), [path])
            lines += asked
            if isinstance(outcome, Refused):
                failing = outcome
                break
            listed = self.listed(holder)
            holder.active = outcome
            holder.expected += listed != self.listed(holder)
        self.journal.take()
        if failing is not None:
            self.meet("unregistering failed")
            with pytest.raises(HookFailed):
                self.run(self.tools.unregister_group, path)
        else:
            self.run(self.tools.unregister_group, path)
            self.groups = [other for other in self.groups if other not in gone]
            self.exclusions = [members - gone for members in self.exclusions if len(members - gone) > 1]
            self.busy -= gone
        assert self.journal.take() == lines

    # Sessions

    @precondition(lambda self: len(self.holders) < 3)
    @rule(named=st.none() | st.lists(picks, min_size=1, max_size=4), active=some)
    def open_session(self, named: list[int] | None, active: list[int]) -> None:
        profile = None
        if named is not None:
            paths = [self.groups[pick % len(self.groups)] for pick in named]
            profile = Profile(name=f"p{self.made}-{named}-{len(self.groups)}", active=paths[:1], available=paths[1:])
        wanted = [self.groups[pick % len(self.groups)] for pick in active]
        session = self.tools.open_session(profile, wanted)
        holder = Holder(session, profile)
        lines, outcome = self.expect(holder, {*(profile.active if profile else ()), *wanted}, ())
        self.journal.take()
        if isinstance(outcome, Refused):
            self.meet("a session could not start")
            with pytest.raises(outcome.args[0]):
                self.run(session.start)
            assert not session.is_open
        else:
            self.run(session.start)
            session.on_list_changed(holder.heard.append)
            holder.active = outcome
            self.holders.append(holder)
        assert self.journal.take() == lines

    @precondition(lambda self: len(self.holders) > 1)
    @rule(pick=picks)
    def close_session(self, pick: int) -> None:
        holder = self.holders.pop(pick % len(self.holders))
        groups = self.known(holder)
        system = self.system(groups)
        order = reversed(system.canonical(map(groups.index, holder.active)))
        lines = [f"-{groups[group]}" for group in order]
        failing = [line for line in lines if line in self.journal.failing]
        self.journal.take()
        if failing:
            with pytest.raises(ExceptionGroup) as raised:
                self.run(holder.session.close)
            assert [told(error) for error in raised.value.exceptions] == [(line,) for line in failing]
        else:
            self.run(holder.session.close)
        assert self.journal.take() == lines

    @rule(pick=picks, group=picks)
    def activate(self, pick: int, group: int) -> None:
        holder = self.holders[pick % len(self.holders)]
        self.take(holder, [self.groups[group % len(self.groups)]])

    @rule(pick=picks, group=picks)
    def activate_with_ancestors(self, pick: int, group: int) -> None:
        holder = self.holders[pick % len(self.holders)]
        self.take(holder, lineage(self.groups[group % len(self.groups)]))

    @precondition(lambda self: self.exclusions)
    @rule(pick=picks, exclusion=picks, leave=st.booleans())
    def activate_members_of_an_exclusion(self, pick: int, exclusion: int, leave: bool) -> None:
        holder = self.holders[pick % len(self.holders)]
        members = sorted(self.exclusions[exclusion % len(self.exclusions)])
        parts = [path.split(".") for path in members]
        self.take(
            holder, {".".join(part[: depth + 1]) for part in parts for depth in range(len(part))}, members * leave
        )

    @rule(pick=picks, group=picks, force=st.booleans())
    def deactivate(self, pick: int, group: int, force: bool) -> None:
        holder = self.holders[pick % len(self.holders)]
        self.take(holder, (), [self.groups[group % len(self.groups)]], force=force)

    @rule(pick=picks, entering=some, leaving=some, force=st.booleans())
    def step(self, pick: int, entering: list[int], leaving: list[int], force: bool) -> None:
        named = [[self.groups[pick % len(self.groups)] for pick in picked] for picked in (entering, leaving)]
        self.take(self.holders[pick % len(self.holders)], *named, force=force)

    @rule(signs=st.sampled_from(["+", "-", "+-"]), chosen=st.lists(picks, min_size=1, max_size=6))
    def let_hooks_fail(self, signs: str, chosen: list[int]) -> None:
        paths = [self.groups[group % len(self.groups)] for group in chosen]
        self.journal.fail(*(f"{sign}{path}" for sign in signs for path in paths))

    @rule()
    def let_all_hooks_work(self) -> None:
        self.journal.failing.clear()

    @rule(pick=picks)
    def set_fact(self, pick: int) -> None:
        holder = self.holders[pick % len(self.holders)]
        holder.session.set_fact("key", True)
        holder.expected += not holder.unlocked
        holder.unlocked = True

    # What can be read

    @precondition(lambda self: self.holders)
    @invariant()
    def sessions_show_what_the_model_says(self) -> None:
        for holder in self.holders:
            groups = self.known(holder)
            system, active = self.system(groups), frozenset(map(groups.index, holder.active))
            assert model.legal(system, active)
            infos = {info.name: info.state.value for info in holder.session.list_groups()}
            regions = {path: model.region(system, active, number) for number, path in enumerate(groups)}
            assert infos == regions
            assert set(holder.session.active) == holder.active
            assert list(holder.session.list_tools().names) == self.listed(holder)
            assert len(holder.heard) == holder.expected


def lineage(path: str) -> list[str]:
    """A group with all its ancestors."""
    parts = path.split(".")
    return [".".join(parts[: depth + 1]) for depth in range(len(parts))]


def admits(profile: Profile, path: str) -> bool:
    """SPEC PRO-1: the groups that a profile names, and what they are in."""
    return any(f"{name}.".startswith(f"{path}.") for name in (*profile.active, *profile.available))


def told(error: BaseException) -> tuple[str, ...]:
    """The data of an error that the model predicts."""
    match error:
        case ParentInactive(parent=parent):
            return (parent,)
        case HookFailed(group=group, phase=phase):
            return (f"{'+' if phase == 'on_activate' else '-'}{group}",)
    return ()


@pytest.mark.spec(
    "ACT-2", "ACT-3", "ACT-4", "ACT-5", "ACT-6", "ACT-9", "INV-1", "INV-2", "HOOK-3", "HOOK-4", "HOOK-5", "HOOK-8"
)
@pytest.mark.spec("HOOK-9", "NTF-1", "SES-1", "SES-5", "REG-3", "REG-5", "REG-7", "PRO-1")
def test_random_lives_agree_with_the_reference() -> None:
    run_state_machine_as_test(
        ToolSetMachine,
        settings=settings(
            max_examples=60,
            stateful_step_count=25,
            deadline=None,
            database=None,
            phases=[Phase.generate],  # a history of 25 steps can be read; shrinking it takes minutes
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
    assert {"changed", "unchanged", "ParentInactive", "ExclusionConflict", "HookFailed"} <= set(ToolSetMachine.met)
