"""The kit as a callable: a factory goes in, a report comes out (SPEC CNF-2)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import Lock, Thread
from time import monotonic
from typing import Any, NoReturn, Unpack

from attrs import evolve

from .checks import DEFAULT, LAYERS, Check, Findings, OptionArguments, Options, in_order, run_checks
from .clauses import find_clause, load_clauses, load_revision
from .confirming import Confirming
from .driver import (
    AT_RUN_TIME,
    CAPABILITIES,
    IN_A_STORE,
    OF_HANDLES,
    OF_PROFILES,
    OVER_MCP,
    Answer,
    Driver,
    Setup,
    TargetFailed,
)
from .expected import load_expected
from .layers import all_checks
from .report import Expectation, Report, Result, Status, Violation
from .targets import Factory, Target, factories_of, made, name_of

ALL: Mapping[str, str] = {**CAPABILITIES, **AT_RUN_TIME, **IN_A_STORE, **OF_PROFILES, **OF_HANDLES, **OVER_MCP}

MOMENT = 0.2
"""Seconds after which a wait for threads looks for signals, some of which do not interrupt it (on Windows none)."""


def check(factory: Target, **options: Unpack[OptionArguments]) -> Report:
    """Return the report on an implementation, clause by clause.

    SPEC CNF-2, CNF-3.

    Args:
        factory: What to check: a function that makes a driver of the implementation, or anything else that
            `factories_of` takes. The function raises `TargetFailed` if the target failed and there can be no driver.
        options: What to run and how; `Options` describes each and has the defaults.

    Raises:
        ValueError: There is no such layer or profile, or the file of expected failures is wrong (`ExpectationError`).
        MissingPackage: A package is missing that a layer needs.
        TypeError: It is nothing that can be checked.
    """
    return KitRun(factory, Options(**options)).perform()


class KitRun:
    """A run of the kit, which `perform` carries out.

    `report` may be called at any time and from any thread, so an interrupted run can report what it found.
    """

    def __init__(self, target: Target, options: Options = DEFAULT) -> None:
        every = all_checks(options.layers) if options.checks is None else options.checks
        self._begun = monotonic()
        self._announced = set[str]()
        self._lock = Lock()
        self._options = options
        self._expected = _expectations(options.expected, every)
        self.checks = in_order(every, options.layers)
        if not callable(target) and not isinstance(target, Mapping):  # the eras that it does not speak are left out
            self._options = evolve(options, optional=True)
        starting = Lock()
        self._settings = [_Setting(make, name, starting) for name, make in factories_of(target).items()]
        self._header = {
            "target": options.target or name_of(target),
            "kit": kit_version(),
            "spec": load_revision(),
            "seed": str(options.seed),
            "layers": ",".join(name for name in LAYERS if options.layers is None or name in options.layers),
            "deep": "yes" if options.deep else "no",
            **({"arguments": options.arguments} if options.arguments else {}),
        }

    def perform(self) -> Report:
        """Run the checks in every setting and return the report."""
        options = evolve(self._options, found=self._announce)
        jobs = [partial(setting.perform, self.checks, options) for setting in self._settings]
        run_concurrently(jobs, self._options.at_once, self._abandon)
        return self.report()

    def _announce(self, violation: Violation) -> None:
        """Pass the first violation of a clause on, if it is unexpected and the verdict is about it."""
        clause = find_clause(violation.clause)
        expected = any(one.matches(violation) for one in self._expected)
        with self._lock:
            if expected or clause.id in self._announced or not clause.is_aimed_at(self._options.profiles):
                return
            self._announced.add(clause.id)
            self._options.found(violation)

    def _abandon(self) -> None:
        """Make checks in other threads end soon."""
        for setting in self._settings:
            setting.close()

    def report(self, interrupted: str = "") -> Report:
        """Return the report on what was found so far.

        Args:
            interrupted: The reason to give for each check that has not ended, if none will.
        """
        results: list[Result] = []
        absent: dict[str, str] = {}
        for setting in self._settings:
            over = setting.over or not interrupted
            found = setting.findings
            results += found.results if over else found.interrupted(self.checks, setting.title, interrupted)
            if setting.absent is not None:
                absent[f"setting {setting.title}"] = setting.absent
        drivers = [setting.driver for setting in self._settings if setting.driver is not None]
        not_checked = {name: why for driver in drivers for name, why in driver.not_checked.items()}
        return Report(
            header=self._header,
            results=tuple(results),
            clauses=load_clauses(),
            left_out={**absent, **not_checked, **_left_out(drivers)},
            expected=self._expected,
            profiles=self._options.profiles,
            seconds=monotonic() - self._begun,
        )


class _Setting:
    """One way to reach the target: makes its drivers, and records the findings of the checks.

    Of settings that are checked concurrently one is started after the other, so that the first finding comes soonest.
    """

    def __init__(self, make: Factory, name: str, starting: Lock) -> None:
        self.title = name or Driver.name
        self.findings = Findings()
        self.driver: Driver | None = None
        """The first driver."""
        self.absent: str | None = None
        """Why the target can't be reached in this way."""
        self.over = False
        self._make = make
        self._name = name
        self._starting = starting
        self._confirming = Confirming()
        self._newest: Driver | None = None
        self._over = False
        self._failed: TargetFailed | None = None

    def perform(self, checks: tuple[Check, ...], options: Options) -> None:
        """Run the checks, if the target can be started."""
        try:
            with self._starting:
                self.driver = self._made()
        except TargetFailed as error:
            self.absent = str(error)
            status = Status.LEFT_OUT if options.optional else Status.DIED
            for check in checks:
                result = Result(check.name, check.layer, self.title, check.clauses, status, self.absent)
                self.findings.results.append(result)
                options.ended(result)
        else:
            ready = [self.driver]
            make = partial(self._next, ready, self.driver.name)

            def ended(result: Result) -> None:
                self._confirming.found(result)
                options.ended(result)

            try:
                run_checks(checks, make, evolve(options, layers=None, ended=ended), self.findings)
                if any(result.violations for result in self.findings.results):
                    options.progress(f"{self.title}: confirming")
                self.findings.results = self._confirming.confirmed(self.findings.results)
            finally:
                self._confirming.close()
        self.over = True

    def _next(self, ready: list[Driver], name: str) -> Driver:
        """Return the driver that is ready, or another; a target that could not be restarted is not tried again."""
        if ready:
            return ready.pop()
        if self._failed is None:
            try:
                return self._made()
            except TargetFailed as error:
                self._failed = error
        return _Dead(name, self._failed)

    def _made(self) -> Driver:
        if self._failed is not None:
            raise self._failed
        self._newest = made(self._make)
        if self._over:  # the run was ended meanwhile
            self.close()
        self._newest.name = self._name or self._newest.name
        return self._newest

    def close(self) -> None:
        """Close the newest driver, and make no other."""
        self._over = True
        self._confirming.close()
        self._failed = self._failed or TargetFailed("The run is over.")
        if self._newest is not None:
            self._newest.close()


def run_concurrently(jobs: Sequence[Callable[[], None]], at_once: int, abandon: Callable[[], None]) -> None:
    """Run jobs, at most `at_once` at a time, and raise the first error that one raised.

    One at a time they run in this thread, otherwise in others; `abandon` is called if waiting for those is interrupted.
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
            while thread.is_alive():
                thread.join(MOMENT)
    except BaseException:
        waiting.clear()
        abandon()
        raise
    if errors:
        raise errors[0]


def kit_version() -> str:
    """Return the version of the kit, which is that of the distribution."""
    for distribution in ("toolfold", "toolfold-conformance"):
        with suppress(PackageNotFoundError):
            return version(distribution)
    return "unknown"


class _Dead(Driver):
    """Stands for a target that could not be restarted."""

    capabilities = frozenset(ALL)

    def __init__(self, name: str, error: TargetFailed) -> None:
        self.name = name
        self._error = error

    def configure(self, setup: Setup) -> Answer:
        """Fail: every check begins with it."""
        self._fail()

    def __getattr__(self, name: str) -> Any:
        """Fail: checks of some drivers use attributes that only those have."""
        self._fail()

    def _fail(self) -> NoReturn:
        raise TargetFailed(f"It failed before, and no new driver can be made: {self._error}") from self._error


def _left_out(drivers: Sequence[Driver]) -> dict[str, str]:
    """Return each capability that some driver lacks, with the reasons and, if they differ, the settings."""
    found: dict[str, dict[str, list[str]]] = {name: {} for name in ALL}
    for driver in drivers:
        for name in ALL.keys() - driver.capabilities:
            reason = driver.left_out.get(name, f"the driver does not have it ({ALL[name]})")
            found[name].setdefault(reason, []).append(driver.name)

    def described(reasons: Mapping[str, list[str]]) -> str:
        everywhere = [reason for reason, settings in reasons.items() if len(settings) == len(drivers)]
        return (
            everywhere[0] if everywhere else "; ".join(f"{', '.join(where)}: {why}" for why, where in reasons.items())
        )

    return {name: described(reasons) for name, reasons in found.items() if reasons}


def _expectations(
    expected: Path | str | Iterable[Expectation] | None, checks: tuple[Check, ...]
) -> tuple[Expectation, ...]:
    if expected is None:
        return ()
    if isinstance(expected, Path | str):
        return load_expected(Path(expected), checks)
    return tuple(expected)
