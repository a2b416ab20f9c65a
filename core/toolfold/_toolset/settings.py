"""The settings of a tool set, and their checks; a wrong one is a `ConfigError` that names it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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


def check(given: Mapping[str, Any], unknown: Iterable[str]) -> None:
    """Raise `ConfigError` for a setting that there is not, or one that is not as `EXPECTED` says."""
    for setting in unknown:
        known = given.keys() - {"self", "name", "unknown"}
        raise ConfigError(f"There is no setting {setting!r} ({instead(setting, known)}).")
    for setting, (expected, is_right) in EXPECTED.items():
        if not is_right(given[setting]):
            raise ConfigError(f"{setting} must be {expected}, not {given[setting]!r}.")


def _one_of(*choices: object) -> Expected:
    return f"one of {', '.join(map(repr, choices))}", lambda value: value in choices


def _is(number: type | UnionType, value: object) -> bool:
    return isinstance(value, number) and not isinstance(value, bool)


def _answers_at_once(value: Any) -> bool:
    return value is None or (callable(value) and not is_async(value))


Expected = tuple[str, Callable[[Any], bool]]
"""What a setting must be, and whether a value is that."""

_COUNT: Expected = (
    "a whole number of at least 1",
    lambda value: value is None or (_is(int, value) and value >= 1),
)
_SECONDS: Expected = (
    "a number of seconds above 0",
    lambda value: value is None or (_is(int | float, value) and value > 0),
)
_FUNCTION: Expected = ("a function that is not async", _answers_at_once)

EXPECTED: Mapping[str, Expected] = {
    "name": ("a text", lambda value: isinstance(value, str)),
    "on_hidden": _one_of("opaque", "hint"),
    "when_full": _one_of("refuse", "end_idlest"),
    "evict": _one_of(None, "oldest", "idlest"),
    **dict.fromkeys(("run_in_thread", "structured_output"), _one_of(True, False)),
    **dict.fromkeys(("page_size", "max_active", "max_sessions"), _COUNT),
    **dict.fromkeys(("hook_timeout", "idle_timeout"), _SECONDS),
    **dict.fromkeys(("state", "clock"), _FUNCTION),
    "list_budget": ("a ListBudget", lambda value: value is None or isinstance(value, ListBudget)),
    "search": ("a ranker, such as toolfold_adapters.search.bm25", _answers_at_once),
}
"""The settings that are checked by themselves."""
