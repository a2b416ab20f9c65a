"""Long random histories of larger systems, by a state machine of Hypothesis (SPEC CNF-7).

The systems have up to ten groups, exclusion sets of two to four, failing hooks, limits, facts, several sessions, and
groups that are registered and removed while these are open. Hypothesis only generates: `Case` shrinks a failing
history, and its system, within a budget, because Hypothesis would take minutes over a wire.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, ClassVar

from attrs import evolve

from toolfold_specs.extras import extras_named

from ..checks import Check
from ..driver import MAIN, Group, Operation, Setup, Tool
from ..oracle import NEXT
from ..reference import legal_exclusion
from ..runs import Case, TestRun
from .random_systems import FACT, random_systems
from .seeded import BACKEND, seeded

with extras_named():
    from hypothesis import HealthCheck, Phase, seed, settings
    from hypothesis import strategies as st
    from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

OPERATIONS, DEEP_OPERATIONS = 3000, 30000
"""The number of operations, usually and with `deep`."""

OVER_MCP, BLACK_BOX = 5, 30
"""The divisors of that number over MCP, and for a given server, where each new history may start a process."""

STEPS, MORE_STEPS = 30, 100
"""The greatest number of rules in a history, and of a given server, where a new one may start processes."""

OTHER = "other"
"""The second session."""

OTHERS = (
    *("INV-1", "INV-2", "INV-5", "HOOK-1", "HOOK-3", "HOOK-4", "HOOK-5", "HOOK-8", "HOOK-9"),
    *("VIS-2", "VIS-5", "VIS-6", "VIS-7", "LST-1", "LST-2", "LST-4", "CTL-1", "CTL-2"),
    *("NTF-1", "NTF-3", "SES-1", "SES-3", "SES-5", "REG-3", "REG-5", "REG-7"),
)
"""The clauses that are tested besides those of ACT."""

UNKNOWN = "nowhere"
MOST_SCRIPTED = 3
"""The greatest number of hooks that are scripted to fail at the same time, so that some transitions still succeed."""


# -- histories -------------------------------------------------------------------------------------------------------


class Interrupted(KeyboardInterrupt):
    """Ends a run of Hypothesis, which treats it as the user's interrupt and neither repeats nor shrinks."""

    def __init__(self, cause: Exception | None = None) -> None:
        super().__init__()
        self.cause = cause


picks = st.integers(0, 59)
"""A choice among any number of items, by the remainder."""
CHANGES = ("group", "removal", "exclusion", "conflict")
"""How a system changes; a conflict is an exclusion of groups that are active together, which must be refused."""
drawn_members = st.lists(picks, min_size=1, max_size=3)
sessions = st.sampled_from((MAIN, MAIN, MAIN, OTHER))


def _able(*capabilities: str) -> Callable[[Any], bool]:
    return lambda machine: machine.test_run.can(*capabilities)


class SystemMachine(RuleBasedStateMachine):
    """The history of one system in a test run, which `_machine` sets."""

    test_run: ClassVar[TestRun]
    most: ClassVar[int]
    """The number of cases after which to stop."""

    case: Case

    def begin(self, setup: Setup) -> None:
        """Configure the system."""
        self.used = {MAIN}
        self.scripted: list[tuple[str, str]] = []
        with _interrupting():
            begun = self.test_run.begin(setup)
        self.case = begun or Case(self.test_run, setup)
        self.case.over = begun is None

    # -- transitions: half of them change something --------------------------------------------------------------------

    @rule(pick=picks, session=sessions)
    def open_next(self, pick: int, session: str) -> None:
        """Activate an inactive group whose parent is active."""
        self._open(self._in_state("inactive", session), pick, session)

    @rule(pick=picks, session=sessions)
    def open_deepest(self, pick: int, session: str) -> None:
        """Activate one of the two deepest groups that can be activated."""
        frontier = sorted(self._in_state("inactive", session), key=lambda path: path.count("."))
        self._open(frontier[-2:], pick, session)

    @rule(pick=picks, session=sessions)
    def displace(self, pick: int, session: str) -> None:
        """Activate a group that excludes an active one."""
        self._open(self._contested(session), pick, session)

    @rule(session=sessions, displace=st.booleans())
    def topple(self, session: str, displace: bool) -> None:
        """Deactivate the group with the most active descendants, or displace it."""
        active = self._in_state("active", session)
        tops = sorted(active, key=lambda path: sum(other.startswith(f"{path}.") for other in active))[-1:]
        members = [members for members in self._setup.exclusions if set(tops) & set(members)]
        rivals = [path for path in self._contested(session) if any(path in known for known in members)]
        if displace and rivals:
            self._open(rivals, 0, session)
        else:
            self._close(tops, 0, session)

    @rule(pick=picks, session=sessions)
    def open_any(self, pick: int, session: str) -> None:
        """Activate any group, or one that does not exist."""
        self._open((*self._paths, UNKNOWN), pick, session)

    @rule(pick=picks, session=sessions)
    def close_active(self, pick: int, session: str) -> None:
        """Deactivate an active group."""
        self._close(self._in_state("active", session), pick, session)

    @rule(pick=picks, session=sessions)
    def close_any(self, pick: int, session: str) -> None:
        """Deactivate any group, or one that does not exist."""
        self._close((*self._paths, UNKNOWN), pick, session)

    @precondition(_able("transition"))
    @rule(activate=st.lists(picks, max_size=3), deactivate=st.lists(picks, max_size=2), session=sessions)
    def step(self, activate: list[int], deactivate: list[int], session: str) -> None:
        """Activate and deactivate some groups at once."""
        drawn = {"activate": activate, "deactivate": deactivate}
        paths = {verb: dict.fromkeys(_picked(self._paths, pick) for pick in chosen) for verb, chosen in drawn.items()}
        self._do("transition", session, **{verb: tuple(chosen) for verb, chosen in paths.items()})

    @precondition(_able("transition"))
    @rule(pick=picks, session=sessions)
    def open_with_ancestors(self, pick: int, session: str) -> None:
        """Activate a group and all its ancestors at once."""
        parts = _picked(self._paths, pick).split(".")
        lineage = tuple(".".join(parts[:depth]) for depth in range(1, len(parts) + 1))
        self._do("transition", session, activate=lineage, deactivate=())

    # -- reads and calls -----------------------------------------------------------------------------------------------

    @precondition(_able("listing"))
    @rule(session=sessions, follow=st.booleans())
    def list_tools(self, session: str, follow: bool) -> None:
        """List, or follow the last page."""
        paged = self._setup.page_size is not None
        self._do("list", session, **({"cursor": NEXT} if follow and paged else {}))

    @precondition(_able("groups"))
    @rule(session=sessions)
    def list_groups(self, session: str) -> None:
        """List the groups."""
        self._do("list_groups", session)

    @precondition(_able("calls"))
    @rule(pick=picks, session=sessions)
    def call(self, pick: int, session: str) -> None:
        """Call a tool, available or not."""
        names = [tool.full_name for tool in self._setup.tools]
        self._do("call", session, tool=_picked(names, pick), arguments={})

    # -- facts, hooks, sessions and the system -------------------------------------------------------------------------

    @precondition(_able("facts"))
    @rule(value=st.booleans(), session=sessions)
    def set_fact(self, value: bool, session: str) -> None:
        """Set the fact that visibility rules depend on."""
        self._do("set_fact", session, fact=FACT, value=value)

    @precondition(_able("hooks", "failing hooks"))
    @rule(pick=picks, which=picks, session=sessions, force=st.booleans(), keep=st.booleans())
    def fail(self, pick: int, which: int, session: str, force: bool, keep: bool) -> None:
        """Make a transition with a hook that is scripted to fail, once or from now on."""
        active = self._in_state("active", session)
        group = _picked((*self._contested(session), *active, *self._in_state("inactive", session)), pick)
        step = Operation("deactivate" if group in active else "activate", {"group": group}, self._named(session))
        _, answer = self.case.oracle.apply(self.case.world, step)
        if answer.hooks:
            if len(self.scripted) == MOST_SCRIPTED:
                self._script(self.scripted.pop(0), "succeed")
            phase, path = answer.hooks[::-1][
                which % len(answer.hooks)
            ]  # the later a hook fails, the more is compensated
            hook = (path, phase)
            self.scripted = [other for other in self.scripted if other != hook] + [hook]
            self._script(hook, "fail")
        if group in active:
            self._close((group,), 0, session, force)
        else:
            self._open((group,), 0, session)
        if answer.hooks and not keep:
            self._script(self.scripted.pop(), "succeed")

    @precondition(_able("hooks", "failing hooks"))
    @rule()
    def repair_hooks(self) -> None:
        """Script all hooks to succeed again."""
        while self.scripted:
            self._script(self.scripted.pop(), "succeed")

    @precondition(_able("ending"))
    @rule(session=sessions, pick=picks)
    def end(self, session: str, pick: int) -> None:
        """End a session, occasionally; over MCP, where that may start a process, the vectors do it."""
        if pick % 3 == 0 and not self.test_run.can("wire"):
            self._do("end", session)

    @precondition(_able("live registration"))
    @rule(change=st.sampled_from((*CHANGES, *("nothing",) * 4)), members=drawn_members)
    def change_system(self, change: str, members: list[int]) -> None:
        """Register a group or an exclusion, or remove a group with its descendants, occasionally."""
        among = self._in_state("active", MAIN) if change == "conflict" else self._paths
        if change in ("conflict", "exclusion"):
            among = tuple(path for path in among if path not in self._setup.pinned)
        paths = tuple(dict.fromkeys(_picked(among, member) for member in members if among))
        changed = dict(zip(CHANGES, (self._with_group, self._without, *(self._with_exclusion,) * 2), strict=True))
        setup = changed[change](paths) if change in changed and paths else self._setup
        if len(setup.groups) < len(self._setup.groups):
            self.repair_hooks()  # so that no hook fails in one session after it ran in another
        if setup != self._setup:
            self._do("register", MAIN, setup=setup)

    def _with_group(self, paths: Sequence[str]) -> Setup:
        """Return the system with a new group below the first of these, or at root if it is the only one."""
        setup = self._setup
        name = next(name for name in map("n{}".format, count()) if not any(name in path for path in self._paths))
        path = name if len(paths) == 1 else f"{paths[0]}.{name}"
        new = Group(path, hooks=self.case.oracle.groups[paths[-1]].hooks)
        return evolve(setup, groups=(*setup.groups, new), tools=(*setup.tools, Tool("tool", path)))

    def _with_exclusion(self, paths: Sequence[str]) -> Setup:
        oracle, setup = self.case.oracle, self._setup
        members = frozenset(oracle.number[path] for path in paths)
        fits = legal_exclusion(oracle.system.parents, members)
        return evolve(setup, exclusions=(*setup.exclusions, tuple(paths))) if fits else setup

    def _without(self, paths: Sequence[str]) -> Setup:
        gone = {path for path in self._paths if f"{path}.".startswith(f"{paths[0]}.")}
        return self._setup.without(gone) if len(gone) < len(self._paths) else self._setup

    # -- helpers -------------------------------------------------------------------------------------------------------

    @property
    def _setup(self) -> Setup:
        return self.case.oracle.setup

    @property
    def _paths(self) -> tuple[str, ...]:
        return self.case.oracle.paths

    def _in_state(self, state: str, session: str) -> list[str]:
        session_state = self.case.world.state_of(self._named(session))
        return [path for path in self._paths if self.case.oracle.state(session_state, path) == state]

    def _contested(self, session: str) -> list[str]:
        """Return the groups whose activation displaces others."""
        active = set(self._in_state("active", session))
        contested = {path for members in self._setup.exclusions if active & set(members) for path in members}
        return [path for path in self._in_state("inactive", session) if path in contested]

    def _named(self, session: str) -> str:
        return session if self.test_run.can("sessions") else MAIN

    def _open(self, among: Sequence[str], pick: int, session: str) -> None:
        """Activate one of these groups, or else any that can be activated."""
        self._do("activate", session, group=_picked(among or self._in_state("inactive", session), pick))

    def _close(self, among: Sequence[str], pick: int, session: str, force: bool = False) -> None:
        """Deactivate one of these groups; if there is none, activate one."""
        among = [path for path in among if path not in self._setup.fixed]
        if not among:
            self._open((), pick, session)
            return
        forced = {"force": True} if force and self.test_run.can("force") else {}
        self._do("deactivate", session, group=_picked(among, pick), **forced)

    def _script(self, hook: tuple[str, str], outcome: str) -> None:
        group, phase = hook
        self._do("script", MAIN, group=group, phase=phase, outcome=outcome)

    def _do(self, verb: str, session: str, **arguments: Any) -> None:
        """Perform an operation, then check that it has not changed other sessions (SPEC SES-1)."""
        session, before = self._named(session), self.case.world
        self.used.add(session)
        with _interrupting():
            if self.case.do(Operation(verb, arguments, session)) and self.case.world.sessions != before.sessions:
                for other in sorted(self.used - {session}):
                    self.case.do(Operation("snapshot", session=other), "SES-1")
        if self.test_run.cases >= self.most:
            raise Interrupted


def _picked(among: Sequence[str], pick: int) -> str:
    return among[pick % len(among)] if among else UNKNOWN


@contextmanager
def _interrupting() -> Generator[None]:
    """Pass an exception through Hypothesis."""
    try:
        yield
    except Exception as error:
        raise Interrupted(error) from error


def _machine(test_run: TestRun, most: int) -> type[SystemMachine]:
    """Return the state machine for a test run."""
    given = test_run.driver.given
    setups = random_systems(test_run) if given is None else st.just(given)
    members = {"test_run": test_run, "most": most, "begin": initialize(setup=setups)(SystemMachine.begin)}
    return type("Machine", (SystemMachine,), members)


def _histories(test_run: TestRun) -> None:
    operations = DEEP_OPERATIONS if test_run.deep else OPERATIONS
    if test_run.can("wire"):
        operations //= OVER_MCP if test_run.driver.given is None else BLACK_BOX
    limits = settings(
        max_examples=operations,  # a limit on operations ends it earlier
        stateful_step_count=STEPS if test_run.driver.given is None else MORE_STEPS,
        backend=BACKEND,
        derandomize=False,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        print_blob=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    machine = seed(test_run.seed)(_machine(test_run, test_run.cases + operations))  # or it prints the one it chose
    try:
        with seeded(test_run.seed):
            run_state_machine_as_test(machine, settings=limits)  # pyright: ignore[reportUnknownMemberType]
    except Interrupted as ended:
        if ended.cause is not None:
            raise ended.cause from None


CHECKS = (
    Check(
        "random histories of larger systems",
        "stateful",
        (*(f"ACT-{number}" for number in range(1, 11)), *OTHERS),
        _histories,
    ),
)
