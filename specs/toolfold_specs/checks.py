"""Checks and how they are run (SPEC CNF-1, CNF-2, CNF-7).

A layer is a module with a tuple of `Check` values. A check gets a `TestRun`, which performs operations on a driver,
compares each answer with the oracle's, and records the first violation of each clause. `run_checks` runs the checks
whose capabilities a driver has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypedDict

from attrs import define, evolve, field, frozen

from .clauses import AIMED_AT, aimed_at
from .driver import Driver, DriverFault, LeftOut, TargetFailed
from .ideal import IdealDriver
from .properties import SOMETIMES
from .report import NEVER_SHOWN, Expectation, Result, Status, Violation
from .runs import Progress, Spent, TestRun

LAYERS = ("exhaustive", "vectors", "stateful", "schedules", "histories", "wire")
"""The layers in the order in which they run (SPEC CNF-7); "wire" has what only a protocol shows."""

NEEDED_FOR: Mapping[str, str] = {
    "notified": "notifications",
    "hooks": "hooks",
    "groups": "groups",
    "text": "calls",
    "why": "reasons",
    **dict.fromkeys(("tools", "controls", "names"), "listing"),
}
"""The capability that each member of an answer belongs to."""


SEQUENTIAL = frozenset({"exhaustive", "vectors", "stateful"})
"""The layers in which one request follows another."""

MOST_TRIED = 3000
"""The greatest number of operations that are spent on what a check could have shown."""


def _names(values: Iterable[str]) -> frozenset[str]:
    return frozenset(values)


@frozen
class Check:
    """One check: its name (the same in reports and expectations), the clauses it can find violated, what it needs."""

    name: str
    layer: str
    clauses: tuple[str, ...]
    run: Callable[[TestRun], None] = field(repr=False)
    """Tests the driver and reports violations to the test run."""
    needs: frozenset[str] = field(default=frozenset[str](), converter=_names)
    """The capabilities without which it is left out."""


class OptionArguments(TypedDict, total=False):
    """The fields of `Options` as the keyword arguments of `check` and `suite`."""

    layers: Iterable[str] | None
    deep: bool
    seed: int
    budget: int | None
    expected: Path | str | Iterable[Expectation] | None
    target: str
    arguments: str
    checks: Iterable[Check] | None
    optional: bool
    profiles: Iterable[str]
    progress: Progress
    ended: Callable[[Result], None]
    found: Callable[[Violation], None]
    at_once: int


def _layers(names: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def _checks(checks: Iterable[Check] | None) -> tuple[Check, ...] | None:
    return None if checks is None else tuple(checks)


@frozen(kw_only=True)
class Options:
    """What a run of the kit is to do.

    Raises:
        ValueError: There is no such profile.
    """

    layers: tuple[str, ...] | None = field(default=None, converter=_layers)
    """The names of the layers to run; None for all."""
    deep: bool = False
    """Whether to search further than usual, for minutes."""
    seed: int = 0
    """The seed of everything random; the same seed gives the same run."""
    budget: int | None = None
    """The greatest number of operations of each check; None for no limit."""
    expected: Path | str | Iterable[Expectation] | None = None
    """The file of expected failures, or its content."""
    target: str = ""
    """The name of the implementation in the report."""
    arguments: str = ""
    """The arguments of `toolfold conform` that name it, if other than `target`, for commands that replay violations."""
    checks: tuple[Check, ...] | None = field(default=None, converter=_checks)
    """The checks to run instead of the kit's own."""
    optional: bool = False
    """Whether a setting in which the target can't be started is left out, instead of failing the run."""
    profiles: tuple[str, ...] = field(default=AIMED_AT, converter=aimed_at)
    """The levels of conformance that the verdict is about, of `PROFILES`; "all" is every one that is not advice."""
    progress: Progress = lambda _: None
    """Called with a short description of the current activity."""
    ended: Callable[[Result], None] = lambda _: None
    """Called with each result as soon as it is known."""
    found: Callable[[Violation], None] = lambda _: None
    """Called once for each clause, from any thread, with its first unexpected violation that the verdict is about.

    That is at once, before its history is made shorter.
    """
    at_once: int = 1
    """How many settings are checked concurrently; an implementation in process may not support more than one."""


DEFAULT = Options()
SMOKE: Final[Mapping[str, Any]] = MappingProxyType({"layers": ("exhaustive",), "budget": 674})
"""What checks the smallest systems alone: so many operations take all systems of up to three groups."""


@define(eq=False)
class Findings:
    """The results so far; other threads may read them while the checks run."""

    results: list[Result] = field(factory=list[Result])
    under_way: tuple[Check, TestRun] | None = None

    def interrupted(self, checks: Iterable[Check], setting: str, reason: str) -> Iterator[Result]:
        """Yield the results, and one for each check that has not ended, with its violations so far."""
        under_way, ended = self.under_way, tuple(self.results)
        yield from ended
        names = {result.check for result in ended}
        for check in (check for check in checks if check.name not in names):
            found: tuple[Violation, ...] = ()
            cases, seconds = 0, 0.0
            if under_way is not None and under_way[0] is check:
                run = under_way[1]
                found, cases, seconds = run.violations, run.cases, run.seconds
            clauses = dict.fromkeys((*check.clauses, *(violation.clause for violation in found)))
            known = (tuple(clauses), Status.INTERRUPTED, reason, found, cases, seconds)
            yield Result(check.name, check.layer, setting, *known)


def in_order(checks: Iterable[Check], layers: Iterable[str] | None = None) -> tuple[Check, ...]:
    """Return the checks of some layers, or all, in the order in which they run."""
    chosen = LAYERS if layers is None else tuple(layers)
    return tuple(check for layer in LAYERS for check in checks if check.layer == layer and layer in chosen)


def run_checks(
    checks: Iterable[Check],
    make_driver: Callable[[], Driver],
    options: Options = DEFAULT,
    findings: Findings | None = None,
) -> tuple[Result, ...]:
    """Return the results of checks on one driver.

    A target that fails ends the check in which it failed; the next check has a new driver. Any other exception is a
    fault of the kit or the driver and ends the run (SPEC CNF-8).

    Args:
        checks: The checks.
        make_driver: Makes a driver; what it raises is not caught.
        options: Of these `layers`, `deep`, `seed`, `budget`, `progress` and `ended` apply.
        findings: Where to record the results.
    """
    findings = findings or Findings()
    known: set[str] = set()
    driver: Driver | None = None
    try:
        chosen = in_order(tuple(checks), options.layers)
        for number, check in enumerate(chosen, 1):
            driver = driver or make_driver()
            where = f"{driver.name}: {check.name}, check {number} of {len(chosen)}"
            test_run = TestRun(
                driver,
                check.name,
                seed=options.seed,
                deep=options.deep,
                budget=options.budget,
                violated_clauses=known,
                progress=partial(_report_progress, options.progress, where),
                found=options.found,
            )
            findings.under_way = check, test_run
            results = _completed(check, _run(check, test_run))
            findings.results += results
            findings.under_way = None
            for result in results:
                options.ended(result)
            if results[0].status is Status.BROKEN:
                break
            if results[0].status is Status.DIED:
                findings.results += _closed(driver)
                driver = None
    finally:
        if driver is not None:
            findings.results += _closed(driver)
    return tuple(findings.results)


def _closed(driver: Driver) -> Iterator[Result]:
    """Close a driver; yield a result if the target does not let it, which says nothing about a clause."""
    try:
        driver.close()
    except Exception as error:
        reason = f"It can't be closed: {type(error).__name__}: {error}"
        yield Result("the end of the run", "", driver.name, (), Status.DIED, reason)


def _report_progress(progress: Progress, check: str, text: str) -> None:
    progress(f"{check}: {text}" if text else check)


def _completed(check: Check, results: Iterable[Result]) -> list[Result]:
    """Return the results of a check; one that ended early leaves all of its clauses undecided."""
    return [
        evolve(result, clauses=tuple(dict.fromkeys((*check.clauses, *result.clauses))))
        if result.status in (Status.DIED, Status.BROKEN)
        else result
        for result in results
    ]


def _run(check: Check, test_run: TestRun) -> Iterator[Result]:
    """Yield the result of a check, then one for each of its clauses that it leaves undecided, with the reason."""
    setting = test_run.driver.name
    missing = sorted(check.needs - test_run.driver.capabilities)
    if missing:
        reason = "; ".join(dict.fromkeys(test_run.driver.left_out.get(name, f"no {name}") for name in missing))
        yield Result(check.name, check.layer, setting, check.clauses, Status.LEFT_OUT, reason)
        return
    never = test_run.driver.never_shown
    if check.clauses and all(clause in never for clause in check.clauses):
        reason = "; ".join(dict.fromkeys(never[clause] for clause in check.clauses))
        yield Result(check.name, check.layer, setting, check.clauses, Status.LEFT_OUT, reason)
        return
    test_run.progress("")
    status, reason = _status_of(check, test_run)
    if status is Status.LEFT_OUT:
        yield Result(check.name, check.layer, setting, check.clauses, status, reason)
        return
    violated = {violation.clause for violation in test_run.violations}
    hidden = test_run.masked.keys() - violated
    judged = tuple(
        clause for clause in check.clauses if clause in violated or (test_run.shows(clause) and clause not in hidden)
    )
    others = tuple(violation.clause for violation in test_run.violations if violation.clause not in check.clauses)
    found = (test_run.violations, test_run.cases, test_run.seconds)
    parts = _parts(test_run, judged)
    yield Result(check.name, check.layer, setting, (*judged, *others), status, reason, *found, parts=parts)
    undecided = [clause for clause in check.clauses if clause not in judged and clause not in hidden]
    possible = _possible(check, test_run) if test_run.ended_by and undecided else frozenset[str]()
    for clause in (*sorted(hidden), *(undecided if status in (Status.PASSED, Status.FAILED) else ())):
        yield _undecided(check, test_run, clause, possible)


def _possible(check: Check, test_run: TestRun) -> frozenset[str]:
    """Return the clauses that a check shows of a right implementation: only these can be open because it ended."""
    if check.layer not in SEQUENTIAL:
        return frozenset(check.clauses)
    budget = min(test_run.budget or MOST_TRIED, MOST_TRIED)
    ideal = TestRun(IdealDriver(test_run.driver), check.name, seed=test_run.seed, budget=budget)
    with suppress(Spent):
        check.run(ideal)
    return frozenset(clause for clause in check.clauses if ideal.parts.get(clause))


def _undecided(check: Check, test_run: TestRun, clause: str, possible: frozenset[str]) -> Result:
    """Return the result that says why a check leaves one of its clauses undecided."""
    hidden: tuple[Violation, ...] = ()
    if clause in test_run.masked:
        status, why = Status.MASKED, f"{test_run.masked[clause]}, which is violated, may be why a case of it went wrong"
        hidden = (test_run.hidden[clause],)
    elif clause in test_run.driver.never_shown:
        status, why = Status.LEFT_OUT, test_run.driver.never_shown[clause]
    elif missing := [what for what, shown in test_run.parts.get(clause, {}).items() if not shown]:
        status, why = _unseen(test_run.driver, missing)
    elif test_run.ended_by and clause in possible:
        status, why = Status.MASKED, f"the check ended when {test_run.ended_by} was violated"
    else:
        status, why = Status.LEFT_OUT, _unmet(clause)
    parts = _parts(test_run, (clause,))
    return Result(check.name, check.layer, test_run.driver.name, (clause,), status, why, hidden=hidden, parts=parts)


def _parts(test_run: TestRun, clauses: Iterable[str]) -> dict[str, dict[str, bool]]:
    """Return which parts of clauses were shown, without those of capabilities that the driver does not have."""
    can = test_run.driver.capabilities
    every = {clause: test_run.parts.get(clause, {}) for clause in clauses}
    return {
        clause: {what: shown for what, shown in parts.items() if NEEDED_FOR.get(what, "") in ("", *can)}
        for clause, parts in every.items()
    }


def _unseen(driver: Driver, parts: Iterable[str]) -> tuple[Status, str]:
    """Return why answers never show some parts: their capabilities are missing, or the driver omits them."""
    lacking = {what: NEEDED_FOR.get(what, "") for what in parts}
    lacking = {what: needed for what, needed in lacking.items() if needed and needed not in driver.capabilities}
    omitted = [what for what in parts if what not in lacking]
    if omitted:
        return Status.UNSEEN, f"{NEVER_SHOWN} {', '.join(omitted)}"
    reasons = (driver.left_out.get(needed, f"no {needed}") for needed in lacking.values())
    return Status.LEFT_OUT, "; ".join(dict.fromkeys(reasons))


def _unmet(clause: str) -> str:
    situations = [known.name for known in SOMETIMES if known.clause == clause]
    return f"it was never met that {' or '.join(situations)}" if situations else "no case of it arises in this system"


def _status_of(check: Check, test_run: TestRun) -> tuple[Status, str]:
    reason = ""
    try:
        check.run(test_run)
    except Spent:
        reason = f"ended after {test_run.budget} operations"
    except LeftOut as error:
        return Status.LEFT_OUT, str(error)
    except TargetFailed as error:
        return Status.DIED, str(error)
    except DriverFault as error:
        return Status.BROKEN, str(error)
    except Exception as error:
        return Status.BROKEN, f"{type(error).__name__}: {error}"
    return (Status.FAILED if test_run.violations else Status.PASSED), reason
