"""The replay of a recorded violation (SPEC CNF-3)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from .checks import Check
from .driver import Driver, Operation, Setup
from .exchange import Exchange
from .layers import all_checks
from .report import Violation
from .runs import TestRun

SEQUENTIAL = frozenset(
    {"activate", "call", "deactivate", "end", "list", "list_groups", "register", "restore", "script", "set_fact"}
    | {"snapshot", "transition", "why"}
)
"""The verbs of histories that can be performed directly; any other needs its check."""
ALL_IN_HISTORY = frozenset({"exhaustive", "stateful"})
"""The layers whose violations are always visible in the history; others also judge what is not in the answers."""


class ReplayError(ValueError):
    """A recorded violation can't be read, or can't be replayed on this target."""


@frozen
class Recorded:
    """The violation in a `failure.json`, and the header of its run."""

    violation: Violation
    header: Mapping[str, str]

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return int(self.header.get("seed", "0"))

    @property
    def deep(self) -> bool:
        """Whether the run searched further than usual."""
        return self.header.get("deep") == "yes"


def read_failure(path: Path) -> Recorded:
    """Return the content of a `failure.json`.

    Raises:
        ReplayError: It can't be read, or is not such a file.
    """
    from jsonschema_rs import ValidationError

    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        _failures().validate(data)
        return Recorded(_violation(data["violation"]), data["header"])
    except OSError as error:
        raise ReplayError(f"{path} can't be read: {error.strerror}.") from error
    except ValidationError as error:
        place = "/".join(map(str, error.instance_path)) or "as a whole"
        raise ReplayError(f"{path} is not a recorded violation: {place}: {error.message}.") from error
    except (ValueError, TypeError) as error:
        raise ReplayError(f"{path} is not a recorded violation: {error}.") from error


def replay(
    violation: Violation, driver: Driver, checks: Iterable[Check] | None = None, *, seed: int = 0, deep: bool = False
) -> Violation | None:
    """Return the violation as it is reproduced now, or None if it is not.

    The history is performed on a fresh system, and every answer is compared with the oracle's. If that does not
    reproduce the violation, or there is no history, or its operations overlap, the check that found it runs again,
    unless its layer judges nothing but histories.

    Args:
        violation: The recorded violation.
        driver: The driver to replay it on; it is not closed.
        checks: The available checks; None for those of the kit.
        seed: The seed, if the check runs again.
        deep: Whether the check then searches further than usual.

    Raises:
        ReplayError: The driver has another system than the history, or the check can't run again.
        TargetFailed: The target fails.
    """
    test_run = TestRun(driver, violation.check, seed=seed, deep=deep)
    playable = all(operation.verb in SEQUENTIAL for operation in violation.history)
    if violation.setup is not None and playable:
        shown = _played(violation, violation.setup, test_run)
        if shown is not None:
            return shown
    check = _check_of(violation, driver, checks, needed=not (violation.history and playable))
    if check is None or (playable and check.layer in ALL_IN_HISTORY):
        return None
    check.run(test_run)
    return next((shown for shown in test_run.violations if shown.clause == violation.clause), None)


def _played(violation: Violation, setup: Setup, test_run: TestRun) -> Violation | None:
    if "setups" not in test_run.driver.capabilities and test_run.driver.given != setup:
        raise ReplayError("It was recorded with a system other than this target's.")
    test_run.play(setup, violation.history)
    found = {shown.clause: shown for shown in test_run.violations}
    shown = found.get(violation.clause) or next(iter(found.values()), None)
    if shown is not None and shown.history[-1:] == violation.history[-1:]:
        return evolve(shown, clause=violation.clause)  # as attributed by the check that found it
    return shown


def _check_of(violation: Violation, driver: Driver, checks: Iterable[Check] | None, *, needed: bool) -> Check | None:
    there = all_checks() if checks is None else checks
    check = next((check for check in there if check.name == violation.check), None)
    if check is None:
        if not needed:
            return None
        raise ReplayError(f"This kit has no check {violation.check!r}, which is needed to replay it.")
    if missing := sorted(check.needs - driver.capabilities):
        raise ReplayError(f"The check {check.name!r} needs capabilities that this target lacks: {', '.join(missing)}.")
    return check


def _violation(data: Mapping[str, Any]) -> Violation:
    return Violation(
        clause=data["clause"],
        check=data["check"],
        setting=data["setting"],
        message=data["message"],
        setup=None if data["setup"] is None else Setup.from_json(data["setup"]),
        history=tuple(map(Operation.from_json, data["history"])),
        expected=data["expected"],
        got=data["got"],
        exchange=Exchange.from_json(data["exchange"]) if "exchange" in data else None,
    )


@cache
def _failures() -> Any:
    from jsonschema_rs import validator_for

    text = files("toolfold_specs.render").joinpath("schema.json").read_text(encoding="utf-8")
    return validator_for({"$ref": "#/$defs/failure", "$defs": json.loads(text)["$defs"]})
