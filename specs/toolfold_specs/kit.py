"""The kit as a callable: a factory goes in, a report comes out (SPEC CNF-2)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import Thread
from typing import Any, NoReturn, TypeAlias

from attrs import frozen

from .checks import LAYERS, Check, Findings, in_order, run_checks
from .clauses import AIMED_AT, aimed_at, load_clauses, load_revision
from .driver import AT_RUN_TIME, CAPABILITIES, OVER_MCP, Answer, Driver, Setup, TargetFailed
from .expected import load_expected
from .layers import all_checks
from .report import Expectation, Report, Result, Status
from .runs import Progress

Factory: TypeAlias = Callable[[], Driver]
Factories: TypeAlias = Factory | Mapping[str, Factory]

ALL: Mapping[str, str] = {**CAPABILITIES, **AT_RUN_TIME, **OVER_MCP}


def check(
    factory: Factories,
    *,
    layers: Iterable[str] | None = None,
    deep: bool = False,
    seed: int = 0,
    budget: int | None = None,
    expected: Path | str | Iterable[Expectation] | None = None,
    target: str = "",
    checks: Iterable[Check] | None = None,
    optional: bool = False,
    profiles: Iterable[str] = AIMED_AT,
    progress: Progress | None = None,
) -> Report:
    """Return the report on an implementation, clause by clause (SPEC CNF-2, CNF-3).

    Args:
        factory: Makes a driver of the implementation, or a factory for each setting in which it is to be checked. It
            raises `TargetFailed` if there can be none because the target failed.
        layers: The names of the layers to run; None for all.
        deep: Whether to look further than usual, for minutes.
        seed: Of whatever is random; the same seed gives the same run.
        budget: The greatest number of operations of each check; None for no bound.
        expected: The file of expected failures, or what is in it.
        target: What to call the implementation in the report.
        checks: Other checks than those of the kit.
        optional: Whether a setting in which the target can't be started is left out, instead of failing the run.
        profiles: The levels of conformance that the verdict is about, of `PROFILES`, or "all" of those that are no
            advice.
        progress: Is told in a few words what is done.

    Raises:
        ValueError: There is no such layer or profile, or the file of expected failures is wrong (`ExpectationError`).
        MissingPackage: A package is missing that a layer needs.
    """
    run = Run(
        factory,
        layers=layers,
        deep=deep,
        seed=seed,
        budget=budget,
        expected=expected,
        target=target,
        checks=checks,
        optional=optional,
        profiles=profiles,
        progress=progress,
    )
    return run.perform()


class Run:
    """A run of the kit; the arguments are those of `check`, which performs one.

    `report` may be asked for at any time and from any thread, so that a run that is interrupted leaves what it found.

    Args:
        at_once: In how many settings the checks run at the same time, which those of one implementation in process
            may not bear.
        ended: Is told each result as it comes.
    """

    def __init__(
        self,
        factory: Factories,
        *,
        layers: Iterable[str] | None = None,
        deep: bool = False,
        seed: int = 0,
        budget: int | None = None,
        expected: Path | str | Iterable[Expectation] | None = None,
        target: str = "",
        checks: Iterable[Check] | None = None,
        optional: bool = False,
        profiles: Iterable[str] = AIMED_AT,
        progress: Progress | None = None,
        at_once: int = 1,
        ended: Callable[[Result], None] = lambda _: None,
    ) -> None:
        chosen = None if layers is None else tuple(layers)
        every = all_checks(chosen) if checks is None else tuple(checks)
        self._expected = _expectations(expected, every)
        self._checks = in_order(every, chosen)
        self._optional = optional
        self._profiles = aimed_at(profiles)
        self._at_once = at_once
        self._options = _Options(deep, seed, budget, progress or _say_nothing, ended)
        settings: Mapping[str, Factory] = {"": factory} if callable(factory) else factory
        self._settings = [_Setting(make, name) for name, make in settings.items()]
        self._header = {
            "target": target or _named(factory),
            "kit": kit_version(),
            "spec": load_revision(),
            "seed": str(seed),
            "layers": ",".join(name for name in LAYERS if chosen is None or name in chosen),
            "deep": "yes" if deep else "no",
        }

    def perform(self) -> Report:
        """Run the checks in every setting and return the report."""
        known = self._checks, self._options, self._optional
        side_by_side([partial(setting.perform, *known) for setting in self._settings], self._at_once, self._abandon)
        return self.report()

    def _abandon(self) -> None:
        """Have checks that run in other threads end soon."""
        for setting in self._settings:
            setting.starter.close()

    def report(self, interrupted: str = "") -> Report:
        """Return the report on what was found so far.

        Args:
            interrupted: Why checks that have not ended will not, to be said of each.
        """
        results: list[Result] = []
        absent: dict[str, str] = {}
        for setting in self._settings:
            over = setting.over or not interrupted
            found = setting.findings
            results += found.results if over else found.interrupted(self._checks, setting.title, interrupted)
            if setting.absent is not None:
                absent[f"setting {setting.title}"] = setting.absent
        starters = [setting.starter for setting in self._settings]
        return Report(
            header=self._header,
            results=tuple(results),
            clauses=load_clauses(),
            left_out={**absent, **_not_checked(starters), **_left_out(starters)},
            expected=self._expected,
            profiles=self._profiles,
        )


@frozen
class _Options:
    deep: bool
    seed: int
    budget: int | None
    progress: Progress
    ended: Callable[[Result], None]


class _Setting:
    """One way to reach the target, and what the checks come to there."""

    def __init__(self, make: Factory, name: str) -> None:
        self.title = name or Driver.name
        self.starter = _Starter(make, name)
        self.findings = Findings()
        self.absent: str | None = None
        """Why the target can't be had in this way."""
        self.over = False

    def perform(self, checks: tuple[Check, ...], options: _Options, optional: bool) -> None:
        """Run the checks, if the target can be started."""
        if (failed := self.starter.begin()) is None:
            run_checks(
                checks,
                self.starter,
                deep=options.deep,
                seed=options.seed,
                budget=options.budget,
                progress=options.progress,
                findings=self.findings,
                ended=options.ended,
            )
        else:
            self.absent = str(failed)
            status = Status.LEFT_OUT if optional else Status.DIED
            for check in checks:
                result = Result(check.name, check.layer, self.title, check.clauses, status, self.absent)
                self.findings.results.append(result)
                options.ended(result)
        self.over = True


def side_by_side(jobs: Sequence[Callable[[], None]], at_once: int, abandon: Callable[[], None]) -> None:
    """Do jobs, so many at a time, and raise the first error that one raised.

    They are done in this thread if one at a time, else in threads; if waiting for those is interrupted, `abandon` is
    called.
    """
    if min(len(jobs), at_once) <= 1:
        for job in jobs:
            job()
        return
    waiting, errors = deque(jobs), list[BaseException]()

    def work() -> None:
        while waiting and not errors:
            try:
                waiting.popleft()()
            except BaseException as error:
                errors.append(error)

    threads = [Thread(target=work, daemon=True) for _ in range(min(len(jobs), at_once))]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        waiting.clear()
        abandon()
        raise
    if errors:
        raise errors[0]


def kit_version() -> str:
    """Return the version of the kit, which is that of the distribution."""
    try:
        return version("toolfold")
    except PackageNotFoundError:
        return "unknown"


class _Starter:
    """Makes the drivers of one setting, and keeps what is to be known of them.

    Once a target could not be started again it is not tried any more: every check that follows finds that it failed.
    """

    def __init__(self, make: Factory, name: str) -> None:
        self._make = make
        self._name = name
        self._ready: Driver | None = None
        self._failed: TargetFailed | None = None
        self._newest: Driver | None = None
        self.driver: Driver | None = None

    def begin(self) -> TargetFailed | None:
        """Make the first driver; return why there is none, if the target failed."""
        try:
            self.driver = self._ready = self._made()
        except TargetFailed as error:
            return error
        return None

    def __call__(self) -> Driver:
        if self._ready is not None:
            ready, self._ready = self._ready, None
            return ready
        if self._failed is None:
            try:
                return self._made()
            except TargetFailed as error:
                self._failed = error
        assert self.driver is not None
        return _Dead(self.driver.name, self._failed)

    def _made(self) -> Driver:
        made = self._newest = self._make()
        if self._name:
            made.name = self._name
        return made

    def close(self) -> None:
        """Let go of the newest driver, and make no other."""
        self._failed = self._failed or TargetFailed("The run is over.")
        if self._newest is not None:
            self._newest.close()

    @property
    def left_out(self) -> Mapping[str, str]:
        """The capabilities that its drivers lack, with the reason."""
        driver = self.driver
        if driver is None:
            return {}
        return {
            name: driver.left_out.get(name, f"the driver does not have it ({what})")
            for name, what in ALL.items()
            if name not in driver.capabilities
        }


class _Dead(Driver):
    """Stands for a target that could not be started again."""

    capabilities = frozenset(ALL)

    def __init__(self, name: str, error: TargetFailed) -> None:
        self.name = name
        self._error = error

    def configure(self, setup: Setup) -> Answer:
        """Fail: every check begins with it."""
        self._fail()

    def __getattr__(self, name: str) -> Any:
        """Fail: what only some drivers have is asked for by checks that know them."""
        self._fail()

    def _fail(self) -> NoReturn:
        raise TargetFailed(f"It failed before, and no new driver can be made: {self._error}") from self._error


def _left_out(starters: Iterable[_Starter]) -> dict[str, str]:
    """Return every capability that was missing somewhere, with the reasons and, if they differ, where."""
    found: dict[str, dict[str, list[str]]] = {}
    there = [starter for starter in starters if starter.driver is not None]
    for starter in there:
        assert starter.driver is not None
        for name, reason in starter.left_out.items():
            found.setdefault(name, {}).setdefault(reason, []).append(starter.driver.name)
    said: dict[str, str] = {}
    for name in (name for name in ALL if name in found):
        reasons = found[name]
        everywhere = [reason for reason, where in reasons.items() if len(where) == len(there)]
        said[name] = (
            everywhere[0]
            if everywhere
            else "; ".join(f"{', '.join(where)}: {reason}" for reason, where in reasons.items())
        )
    return said


def _not_checked(starters: Iterable[_Starter]) -> dict[str, str]:
    """Return what of the target was not checked, with the reason."""
    return {name: why for one in starters if one.driver is not None for name, why in one.driver.not_checked.items()}


def _expectations(
    expected: Path | str | Iterable[Expectation] | None, checks: tuple[Check, ...]
) -> tuple[Expectation, ...]:
    if expected is None:
        return ()
    if isinstance(expected, Path | str):
        return load_expected(Path(expected), checks)
    return tuple(expected)


def _named(factory: Factories) -> str:
    if not callable(factory):
        return ", ".join(factory)
    module, name = getattr(factory, "__module__", ""), getattr(factory, "__qualname__", "")
    return f"{module}:{name}" if module and name else "an implementation"


def _say_nothing(_: str) -> None:
    pass
