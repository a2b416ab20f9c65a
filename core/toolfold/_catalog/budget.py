"""The token budget of a list, and what each group puts into a list (SPEC FND-3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from attrs import field, frozen

from ..errors import ConfigError
from .components import Component


@frozen(eq=False)
class ListBudget:
    """The greatest length of a session's list of tools.

    A group counts with the tools that need it to be listed, what needs several with one of them. Tools with predicates
    and modes count in full, and so do those of no group, pinned ones, and control tools.

    Args:
        tokens: The budget.
        measure: Returns the tokens of a definition, such as `toolfold_adapters.tokens.approximate_tokens`; it is asked
            once for each definition.

    Raises:
        ConfigError: The budget is no positive whole number, or the measure no function.
    """

    tokens: int
    measure: Callable[[Mapping[str, Any]], int]
    _known: WeakKeyDictionary[Component, int] = field(init=False, factory=WeakKeyDictionary[Component, int], repr=False)

    def __attrs_post_init__(self) -> None:
        given: Any = self.tokens
        if not isinstance(given, int) or isinstance(given, bool) or given < 1:
            raise ConfigError(f"The budget of a list must be a whole number of at least 1, not {given!r}.")
        if not callable(self.measure):
            raise ConfigError(
                "The budget of a list needs a measure, such as toolfold_adapters.tokens.approximate_tokens, "
                f"not {self.measure!r}."
            )

    def of(self, components: Iterable[Component]) -> int:
        """Return how many tokens the definitions of some tools have."""
        total = 0
        for component in components:
            if component not in self._known:
                self._known[component] = self.measure(component.definition)
            total += self._known[component]
        return total
