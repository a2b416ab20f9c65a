"""The kit as a callable: a factory goes in, a report comes out (SPEC CNF-2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from attrs import evolve

from .checks import LAYERS, Check, run_checks
from .clauses import load_clauses, load_revision
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
        progress: Is told in a few words what is done.

    Raises:
        ValueError: There is no such layer, or the file of expected failures is wrong (`ExpectationError`).
        MissingPackage: A package is missing that a layer needs.
    """
    chosen = None if layers is None else tuple(layers)
    every = all_checks(chosen) if checks is None else tuple(checks)
    foreseen = _expectations(expected, every)
    settings: Mapping[str, Factory] = {"": factory} if callable(factory) else factory
    results: list[Result] = []
    starters: list[_Starter] = []
    absent: dict[str, str] = {}
    for name, make in settings.items():
        starter = _Starter(make, name)
        starters.append(starter)
        if (failed := starter.begin()) is not None:
            results += _not_started(every, name or Driver.name, failed, optional)
            absent[f"setting {name or Driver.name}"] = f"it could not be started: {failed}"
            continue
        ran = run_checks(
            every, starter, layers=chosen, deep=deep, seed=seed, budget=budget, progress=progress or _say_nothing
        )
        results += _complete(ran, every)
    return Report(
        header={
            "target": target or _named(factory),
            "kit": kit_version(),
            "spec": load_revision(),
            "seed": str(seed),
            "layers": ",".join(name for name in LAYERS if chosen is None or name in chosen),
            "deep": "yes" if deep else "no",
        },
        results=tuple(results),
        clauses=load_clauses(),
        left_out={**absent, **_left_out(starters)},
        expected=foreseen,
    )


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
        made = self._make()
        if self._name:
            made.name = self._name
        return made

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
        raise TargetFailed(f"It could not be started again. {self._error}") from self._error


def _not_started(checks: Iterable[Check], setting: str, error: TargetFailed, optional: bool) -> Iterator[Result]:
    status, reason = (Status.LEFT_OUT if optional else Status.DIED), f"It could not be started. {error}"
    for check in checks:
        yield Result(check.name, check.layer, setting, check.clauses, status, reason)


def _complete(results: Iterable[Result], checks: Iterable[Check]) -> Iterator[Result]:
    """Yield the results; one that did not come to its end leaves all clauses of its check open."""
    about = {check.name: check.clauses for check in checks}
    for result in results:
        if result.status in (Status.DIED, Status.BROKEN):
            clauses = dict.fromkeys((*about.get(result.check, ()), *result.clauses))
            result = evolve(result, clauses=tuple(clauses))
        yield result


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
