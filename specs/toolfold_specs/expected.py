"""The adopter's file of expected failures (SPEC CNF-4).

    [[expected]]
    clause = "ACT-10"
    reason = "there is no limit yet, see our issue 12"
    check = "limits"                  # optional: only that check
    setting = "stdio, legacy"         # optional: only that setting

A listed clause that is violated does not fail the run. A listed clause that holds does, so that the file stays
accurate: remove the entry.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from .checks import Check
from .clauses import load_clauses
from .report import Expectation

REQUIRED = ("clause", "reason")
OPTIONAL = ("check", "setting")


class ExpectationError(ValueError):
    """A file of expected failures can't be read, or is inconsistent."""


def load_expected(path: Path, checks: Iterable[Check] = ()) -> tuple[Expectation, ...]:
    """Return the expectations of a file, in its order.

    Args:
        path: A TOML file with `[[expected]]` tables.
        checks: The available checks; an expectation may name one that is about its clause.

    Raises:
        ExpectationError: The file can't be read, is malformed, or names a clause or check that does not exist.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ExpectationError(f"{path} can't be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ExpectationError(f"{path} is not a TOML file: {error}.") from error
    return parse_expected(data, checks, str(path))


def parse_expected(data: Mapping[str, Any], checks: Iterable[Check] = (), source: str = "") -> tuple[Expectation, ...]:
    """Return the expectations in a file's data; `source` names the file in errors, as in `load_expected`."""
    source = source or "the expected failures"
    entries: object = data.get("expected", [])
    if set(data) - {"expected"} or not isinstance(entries, list):
        raise ExpectationError(f"{source} has something other than [[expected]] tables.")
    about = {check.name: check.clauses for check in checks}
    found: list[Expectation] = []
    for number, entry in enumerate(cast("list[object]", entries), 1):
        try:
            expectation = _expectation(entry)
            _exists(expectation, about)
        except ExpectationError as error:
            raise ExpectationError(f"{source}, [[expected]] number {number}: {error}") from error
        if expectation in found:
            raise ExpectationError(f"{source}, [[expected]] number {number}: {expectation} is listed twice.")
        found.append(expectation)
    return tuple(found)


def _expectation(entry: object) -> Expectation:
    if not isinstance(entry, dict):
        raise ExpectationError("is not a table.")
    known = cast("dict[str, Any]", entry)
    if unknown := sorted(set(known) - {*REQUIRED, *OPTIONAL}):
        raise ExpectationError(f"{unknown[0]!r} is unknown; there are {', '.join((*REQUIRED, *OPTIONAL))}.")
    for name in REQUIRED:
        if name not in known:
            raise ExpectationError(f"{name!r} is missing.")
    for name, value in known.items():
        if not isinstance(value, str) or not value.strip():
            raise ExpectationError(f"{name!r} must be a non-empty text, not {value!r}.")
    return Expectation(**known)


def _exists(expectation: Expectation, about: Mapping[str, tuple[str, ...]]) -> None:
    clauses = [clause.id for clause in load_clauses()]
    if expectation.clause not in clauses:
        raise ExpectationError(f"there is no clause {expectation.clause!r}.{_near(expectation.clause, clauses)}")
    if not about or expectation.check is None:
        return
    if expectation.check not in about:
        there = [name for name in about if expectation.clause in about[name]]
        hint = _near(expectation.check, there) or f" Those about {expectation.clause}: {'; '.join(there) or 'none'}."
        raise ExpectationError(f"there is no check {expectation.check!r}.{hint}")
    if expectation.clause not in about[expectation.check]:
        raise ExpectationError(f"the check {expectation.check!r} is not about {expectation.clause}.")


def _near(name: str, names: Iterable[str]) -> str:
    near = get_close_matches(name, list(names), n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(repr(one) for one in near)}?" if near else ""
