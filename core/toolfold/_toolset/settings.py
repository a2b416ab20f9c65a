"""The settings of a tool set, and their checks; a wrong one is a `ConfigError` that names it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from types import UnionType
from typing import Any, Literal

from attrs import frozen

from .._catalog.catalog import ListBudget
from .._catalog.components import Component, GroupSpec
from .._usercode import is_async
from .._view.search import Ranker
from ..errors import ConfigError
from .control import ControlStyle, loader_components
from .finder import FINDER, finder_component
from .options import instead

Evict = Literal["oldest", "idlest"]


@frozen
class Settings:
    """The settings that a catalog depends on: how groups are opened, how much is active, and how tools are found."""

    style: ControlStyle
    max_active: int | None = None
    evict: Evict | None = None
    list_budget: ListBudget | None = None
    ranker: Ranker | None = None

    @cached_property
    def reserved(self) -> tuple[str, ...]:
        """The names of the control tools that are in no group."""
        loader = self.style.loader
        return (*(loader.names if loader else ()), *((FINDER,) if self.ranker else ()))

    def control_tools(self, groups: Iterable[GroupSpec]) -> tuple[Component, ...]:
        """Return the control tools that are in no group, in a catalog that has `groups` (SPEC CTL-3, FND-1)."""
        loader, finder = self.style.loader, FINDER if self.ranker else None
        tools = () if loader is None else loader_components(loader, groups, finder)
        if loader is not None and not tools:
            return ()  # everything is in view
        named = groups if self.style.has_tools else ()
        return tools if self.ranker is None else (*tools, finder_component(self.ranker, named))


def check_known(unknown: Iterable[str], known: Collection[str]) -> None:
    """Raise `ConfigError` for settings that there are not."""
    for setting in unknown:
        raise ConfigError(f"There is no setting {setting!r} ({instead(setting, known)}).")


def check_text(**given: object) -> None:
    """Raise `ConfigError` unless each setting is a text."""
    _check(given, "a text", lambda value: isinstance(value, str))


def check_choice(choices: tuple[object, ...], **given: object) -> None:
    """Raise `ConfigError` unless each setting is one of `choices`."""
    _check(given, f"one of {', '.join(map(repr, choices))}", lambda value: value in choices)


def check_counts(**given: object) -> None:
    """Raise `ConfigError` unless each setting is `None` or a whole number from 1."""
    _check(given, "a whole number of at least 1", lambda value: value is None or (_is(int, value) and value >= 1))


def check_seconds(**given: object) -> None:
    """Raise `ConfigError` unless each setting is `None` or a number of seconds above 0."""
    _check(given, "a number of seconds above 0", lambda value: value is None or (_is(int | float, value) and value > 0))


def check_functions(expected: str = "a function that is not async", **given: object) -> None:
    """Raise `ConfigError` unless each setting is `None` or a function that answers at once."""
    _check(given, expected, lambda value: value is None or (callable(value) and not is_async(value)))


def check_budget(**given: object) -> None:
    """Raise `ConfigError` unless each setting is `None` or a `ListBudget`."""
    _check(given, "a ListBudget", lambda value: value is None or isinstance(value, ListBudget))


def _check(given: Mapping[str, object], expected: str, is_right: Callable[[Any], bool]) -> None:
    for setting, value in given.items():
        if not is_right(value):
            raise ConfigError(f"{setting} must be {expected}, not {value!r}.")


def _is(number: type | UnionType, value: object) -> bool:
    return isinstance(value, number) and not isinstance(value, bool)
