"""Checks the settings of a tool set; a wrong one is a `ConfigError` that names it."""

from __future__ import annotations

from .._catalog.budget import ListBudget
from .._usercode import is_async
from ..errors import ConfigError


def check_text(**given: object) -> None:
    """Raise `ConfigError` unless each setting is a text."""
    for setting, value in given.items():
        if not isinstance(value, str):
            raise _wrong(setting, value, "a text")


def check_choice(choices: tuple[object, ...], **given: object) -> None:
    """Raise `ConfigError` unless each setting is one of `choices`."""
    for setting, value in given.items():
        if value not in choices:
            raise _wrong(setting, value, f"one of {', '.join(map(repr, choices))}")


def check_counts(**given: object) -> None:
    """Raise `ConfigError` unless each setting is `None` or a whole number from 1."""
    for setting, value in given.items():
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise _wrong(setting, value, "a whole number of at least 1")


def check_seconds(**given: object) -> None:
    """Raise `ConfigError` unless each setting is `None` or a number of seconds above 0."""
    for setting, value in given.items():
        if value is not None and (not isinstance(value, int | float) or isinstance(value, bool) or not value > 0):
            raise _wrong(setting, value, "a number of seconds above 0")


def check_functions(**given: object) -> None:
    """Raise `ConfigError` unless each setting is `None` or a function that answers at once."""
    for setting, value in given.items():
        if value is not None and (not callable(value) or is_async(value)):
            raise _wrong(setting, value, "a function that is not async")


def check_budget(**given: object) -> None:
    """Raise `ConfigError` unless each setting is `None` or a `ListBudget`."""
    for setting, value in given.items():
        if value is not None and not isinstance(value, ListBudget):
            raise _wrong(setting, value, "a ListBudget")


def check_ranker(**given: object) -> None:
    """Raise `ConfigError` unless each setting is `None` or a function that makes an index at once (SPEC FND-2)."""
    for setting, value in given.items():
        if value is not None and (not callable(value) or is_async(value)):
            raise _wrong(setting, value, "a ranker, such as toolfold_adapters.search.bm25")


def _wrong(setting: str, value: object, expected: str) -> ConfigError:
    return ConfigError(f"{setting} must be {expected}, not {value!r}.")
