"""Checks and how they are run: the heart of the kit (SPEC CNF-1, CNF-2, CNF-7).

A layer is a module with a tuple of `Check` values. A check is given a `TestRun`, which performs operations on a
driver, compares each answer with the oracle's, and keeps for each clause the first violation. `run_checks` runs those
that a driver has the capabilities for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from time import monotonic

from attrs import define, evolve, field, frozen

from .driver import Driver, LeftOut, TargetFailed
from .properties import SOMETIMES
from .report import Result, Status, Violation
from .runs import Progress, Spent, TestRun

LAYERS = ("exhaustive", "vectors", "stateful", "schedules", "histories", "wire")
"""The layers in the order in which they run (SPEC CNF-7); "wire" has what only a protocol shows."""


NEEDED_FOR: Mapping[str, str] = {
    "notified": "notifications",
    "hooks": "hooks",
    "groups": "groups",
    "text": "calls",
    **dict.fromkeys(("tools", "controls", "names"), "listing"),
}
"""The capabilities of which members of an answer are part."""


def _names(values: Iterable[str]) -> frozenset[str]:
    return frozenset(values)


@frozen
class Check:
    """One check: its name (the same in reports and expectations), the clauses it can find violated, what it needs."""

    name: str
    layer: str
    clauses: tuple[str, ...]
    run: Callable[[TestRun], None] = field(repr=False)
    """Puts the driver to the test and reports violations to the test_run."""
    needs: frozenset[str] = field(default=frozenset[str](), converter=_names)
    """The capabilities without which it is left out."""


@define(eq=False)
class Findings:
    """What checks have come to so far; other threads may look at it while they run."""

    results: list[Result] = field(factory=list[Result])
    under_way: tuple[Check, TestRun] | None = None

    def interrupted(self, checks: Iterable[Check], setting: str, reason: str) -> Iterator[Result]:
        """Yield the results, and one for each check that has not ended, with what it has found so far."""
        under_way, ended = self.under_way, tuple(self.results)
        yield from ended
        names = {result.check for result in ended}
        for check in (check for check in checks if check.name not in names):
            found: tuple[Violation, ...] = ()
            cases = 0
            if under_way is not None and under_way[0] is check:
                found, cases = under_way[1].violations, under_way[1].cases
            clauses = dict.fromkeys((*check.clauses, *(violation.clause for violation in found)))
            yield Result(check.name, check.layer, setting, tuple(clauses), Status.INTERRUPTED, reason, found, cases)


def in_order(checks: Iterable[Check], layers: Iterable[str] | None = None) -> tuple[Check, ...]:
    """Return the checks of some layers, or all, in the order in which they run."""
    chosen = LAYERS if layers is None else tuple(layers)
    return tuple(check for layer in LAYERS for check in checks if check.layer == layer and layer in chosen)


def run_checks(
    checks: Iterable[Check],
    make_driver: Callable[[], Driver],
    *,
    layers: Iterable[str] | None = None,
    deep: bool = False,
    seed: int = 0,
    budget: int | None = None,
    progress: Progress = lambda _: None,
    findings: Findings | None = None,
    ended: Callable[[Result], None] = lambda _: None,
) -> tuple[Result, ...]:
    """Return what each check comes to on one driver.

    A target that fails ends the check in which it failed; the next check has a new driver. Any other exception is a
    fault of the kit or the driver: it ends the run (SPEC CNF-8).

    Args:
        checks: The checks.
        make_driver: Makes a driver; what it raises is not caught.
        layers: The names of the layers to run; None for all.
        deep: Whether to look further than usual.
        seed: Of whatever is random.
        budget: The greatest number of operations of each check; None for no bound.
        progress: Is told in a few words what is done.
        findings: Where to keep the results.
        ended: Is told each result as it comes.
    """
    findings = findings or Findings()
    known: set[str] = set()
    driver: Driver | None = None
    try:
        chosen = in_order(tuple(checks), layers)
        for number, check in enumerate(chosen, 1):
            driver = driver or make_driver()
            say = partial(_say, progress, f"{driver.name}: {check.name}, check {number} of {len(chosen)}")
            test_run = TestRun(driver, check.name, seed=seed, deep=deep, budget=budget, known=known, progress=say)
            findings.under_way = check, test_run
            came = _completed(check, _run(check, test_run))
            findings.results += came
            findings.under_way = None
            for result in came:
                ended(result)
            if came[0].status is Status.BROKEN:
                break
            if came[0].status is Status.DIED:
                driver.close()
                driver = None
    finally:
        if driver is not None:
            driver.close()
    return tuple(findings.results)


def _say(progress: Progress, check: str, text: str) -> None:
    progress(f"{check}: {text}" if text else check)


def _completed(check: Check, results: Iterable[Result]) -> list[Result]:
    """Return the results of a check; one that did not come to its end leaves all of its clauses open."""
    return [
        evolve(result, clauses=tuple(dict.fromkeys((*check.clauses, *result.clauses))))
        if result.status in (Status.DIED, Status.BROKEN)
        else result
        for result in results
    ]


def _run(check: Check, test_run: TestRun) -> Iterator[Result]:
    """Yield the result of a check, then those of clauses that it says nothing about: by which reason."""
    setting = test_run.driver.name
    missing = sorted(check.needs - test_run.driver.capabilities)
    if missing:
        reason = "; ".join(dict.fromkeys(test_run.driver.left_out.get(name, f"no {name}") for name in missing))
        yield Result(check.name, check.layer, setting, check.clauses, Status.LEFT_OUT, reason)
        return
    begun = monotonic()
    test_run.progress("")
    status, reason = _status_of(check, test_run)
    if status is Status.LEFT_OUT:
        yield Result(check.name, check.layer, setting, check.clauses, status, reason)
        return
    found = {violation.clause for violation in test_run.violations}
    hidden = test_run.masked.keys() - found
    judged = tuple(
        clause for clause in check.clauses if clause in found or (test_run.shown[clause] and clause not in hidden)
    )
    others = tuple(violation.clause for violation in test_run.violations if violation.clause not in check.clauses)
    yield Result(
        check.name,
        check.layer,
        setting,
        (*judged, *others),
        status,
        reason,
        test_run.violations,
        test_run.cases,
        monotonic() - begun,
    )
    open_clauses = (clause for clause in check.clauses if clause not in judged and clause not in hidden)
    for clause in (*sorted(hidden), *(open_clauses if status in (Status.PASSED, Status.FAILED) else ())):
        yield _undecided(check, test_run, clause)


def _undecided(check: Check, test_run: TestRun, clause: str) -> Result:
    """Return why a check says nothing about one of its clauses."""
    hidden: tuple[Violation, ...] = ()
    if clause in test_run.masked:
        status, why = Status.MASKED, f"{test_run.masked[clause]}, which is violated, may be why a case of it went wrong"
        hidden = (test_run.hidden[clause],)
    elif clause in test_run.driver.never_shown:
        status, why = Status.LEFT_OUT, test_run.driver.never_shown[clause]
    elif clause in test_run.unseen:
        status, why = _unseen(test_run.driver, test_run.unseen[clause])
    elif test_run.ended_by:
        status, why = Status.MASKED, f"the check ended when {test_run.ended_by} was violated"
    else:
        status, why = Status.LEFT_OUT, _unmet(clause)
    return Result(check.name, check.layer, test_run.driver.name, (clause,), status, why, hidden=hidden)


def _unseen(driver: Driver, member: str) -> tuple[Status, str]:
    """Return why a member of answers is never shown: it need not be, or nothing says so."""
    needed = NEEDED_FOR.get(member)
    if needed is not None and needed not in driver.capabilities:
        return Status.LEFT_OUT, driver.left_out.get(needed, f"no {needed}")
    return Status.UNSEEN, f"the answers never show {member}"


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
    except Exception as error:
        return Status.BROKEN, f"{type(error).__name__}: {error}"
    return (Status.FAILED if test_run.violations else Status.PASSED), reason
