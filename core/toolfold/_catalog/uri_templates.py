"""URI templates of resources: which variables one has, and what a URI gives them (RFC 6570, levels 1 and 2).

A URI is matched from its end, in linear time whatever the template (SPEC SAF-1): first, where each literal may stand
so that what follows it fits; then, from the beginning, each variable takes as much as it can. A regular expression
would find the same, but may take the cube of the length for three variables.

A template whose arguments are not checked may have expressions of any level. Each stands for any text, and the only
value is the whole URI.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from .._limits import MAX_VARIABLES
from .._values import frozen
from ..errors import InvalidDefinition

_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_VARIABLE = re.compile(r"\+?[A-Za-z_][A-Za-z0-9_]*")
_STOPS = re.compile(r"[/?#]")
_STOPS_RESERVED = re.compile(r"\n")
"""What the value of a variable does not contain: `{name}`, and `{+name}`."""


def template_variables(template: str) -> list[str]:
    """Return the variables of a URI template in order: `{name}`, or `{+name}` for one that may hold slashes.

    Raises:
        InvalidDefinition: It has none, too many, one twice, or an expression of another form.
    """
    found = _EXPRESSION.findall(template)
    names = [expression.removeprefix("+") for expression in found]
    if not found or len(set(names)) != len(names):
        raise InvalidDefinition(template, "a URI template needs variables with different names, such as {path}")
    for expression in found:
        if _VARIABLE.fullmatch(expression) is None:
            raise InvalidDefinition(template, f"{{{expression}}} is not of the form {{name}} or {{+name}}")
    if len(found) > MAX_VARIABLES:
        raise InvalidDefinition(template, f"it has {len(found)} variables, and a URI template may have {MAX_VARIABLES}")
    return names


@frozen
class UriTemplate:
    """A template, taken apart: a literal, a variable, a literal, and so on to a literal, any of them maybe empty.

    Unless it `is_parsed`, its only value is the whole URI.
    """

    literals: tuple[str, ...]
    variables: tuple[str, ...]
    is_parsed: bool = True

    @classmethod
    def of(cls, template: str, *, is_parsed: bool) -> UriTemplate:
        """Return a template, taken apart."""
        parts = _EXPRESSION.split(template)
        return cls(tuple(parts[::2]), tuple(parts[1::2]), is_parsed)

    def values(self, uri: str) -> dict[str, str] | None:
        """Return the values of the variables, or `None` if `uri` is no instance of the template."""
        first, last = self.literals[0], self.literals[-1]
        begin, end = len(first), len(uri) - len(last)
        if begin > end or not (uri.startswith(first) and uri.endswith(last)):
            return None
        if not self.is_parsed:
            return {"uri": uri} if _in_order(self.literals[1:-1], uri, begin, end) else None
        stops = [_stops(uri, variable) for variable in self.variables]
        # Where the value of each variable may end so that the rest fits, the last variable first.
        ends = [[end]]
        for literal, after in zip(self.literals[-2:0:-1], stops[:0:-1], strict=True):
            places = _places(uri, literal, begin, end)
            ends.append([place for place in places if _end(place + len(literal), ends[-1], after) is not None])
        found: dict[str, str] = {}
        for variable, stop, literal in zip(self.variables, stops, self.literals[1:], strict=True):
            where = _end(begin, ends.pop(), stop)
            if where is None:
                return None
            found[variable.removeprefix("+")] = unquote(uri[begin:where])
            begin = where + len(literal)
        return found


def _in_order(literals: Iterable[str], uri: str, begin: int, end: int) -> bool:
    """Return whether literals stand in `uri` one after the other."""
    for literal in literals:
        place = uri.find(literal, begin, end)
        if place < 0:
            return False
        begin = place + len(literal)
    return True


def _stops(uri: str, variable: str) -> list[int]:
    """Return the places that the value of a variable can't reach beyond, in order; the last is the end."""
    pattern = _STOPS_RESERVED if variable.startswith("+") else _STOPS
    return [*(found.start() for found in pattern.finditer(uri)), len(uri)]


def _places(uri: str, literal: str, begin: int, end: int) -> Iterator[int]:
    """Yield where a literal stands in `uri`, overlapping or not."""
    place = uri.find(literal, begin, end)
    while place >= 0:
        yield place
        place = uri.find(literal, place + 1, end) if place < end else -1


def _end(begin: int, ends: list[int], stops: list[int]) -> int | None:
    """Return the last of `ends` at which a value from `begin` can end; it has at least one character."""
    place = len(ends) - 1
    if len(stops) > 1:
        place = bisect_right(ends, stops[bisect_left(stops, begin)]) - 1
    return ends[place] if place >= 0 and ends[place] > begin else None
