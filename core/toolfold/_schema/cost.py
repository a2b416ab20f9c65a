"""The most that validation can cost, computed only from the schema (SPEC SAF-1).

A schema of a few hundred bytes can make validation exponential: each of thirty definitions refers twice to the next, or
a model refers to itself from two alternatives. So this counts how often one value can be looked at: by the schemas that
apply to it, once for each way in which they are reached from the schemas around it.

jsonschema-rs remembers which arrays and objects fit a definition that refers to itself, so that such a definition
counts once for each value (`Cost.visits`). pydantic remembers nothing: there, the count can double with each level of
the arguments (`Cost.levels`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from .._limits import MAX_DEPTH, MAX_MODEL_VISITS, MAX_VISITS
from .._plain import TooLarge, array, table, walked
from .._values import frozen

Schema = Mapping[str, Any]
Location = tuple[bool, str | int | None]
"""Where a schema applies inside of a value: whether in an object; at which name or index, `None` for everywhere."""

REFERENCES = frozenset(("$ref", "$dynamicRef", "$recursiveRef"))
"""The keywords that name a schema for the same value."""

HERE = frozenset(("not", "if", "then", "else", "allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies"))
"""The keywords that have schemas for the same value."""

INSIDE: Mapping[str, bool] = {
    "properties": True,
    "patternProperties": True,
    "additionalProperties": True,
    "unevaluatedProperties": True,
    "propertyNames": True,
    "prefixItems": False,
    "items": False,
    "additionalItems": False,
    "unevaluatedItems": False,
    "contains": False,
}
"""The keywords that have schemas for the values inside of an object, or, if false, of an array."""

MAPPINGS = frozenset(("properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"))
"""The keywords that have a mapping of schemas; the others have one, or a list."""

_ANYWHERE = frozenset((*HERE, *INSIDE, "$defs", "definitions"))
_TRIVIAL: Schema = {}
_OUTSIDE: Schema = {"description": "a schema that is not in the document"}

_MARKING = 3
"""How much more often `unevaluatedProperties` has the schemas beside it look, to know what they have evaluated."""

_FOREIGN = 1000
"""How often a schema that is not in the document looks at a value: one of those that describe JSON Schema itself."""

_COMPARING = 8
"""How many visits comparing with one value of an `enum` counts for; texts alone are looked up, and count for none."""

_EDGES = 1_000_000
"""How many ways from schema to schema are followed before the whole counts as too intricate."""


@frozen(eq=False)
class Reach:
    """What applies to a value once a schema does.

    `visits` is how often the value is looked at, `inside` how often each schema is applied to the values inside of it,
    by its number, and `nesting` how many schemas apply by way of one another.
    """

    visits: int
    inside: Mapping[tuple[Location, int], int]
    nesting: int


class Cost:
    """What a schema costs.

    Args:
        schema: The whole of it, as plain JSON.
        pattern: How many visits it counts for that a text is matched with a `pattern`.
        tagged: Whether of alternatives with a discriminator only one is tried, as pydantic does.
    """

    def __init__(self, schema: Schema, *, pattern: int = 0, tagged: bool = False) -> None:
        self._pattern = pattern
        self._tagged = tagged
        self._schema = schema
        self._schemas: dict[int, Schema] = {}
        self._reached: dict[int, Reach] = {}
        self._open: set[int] = set()
        self._edges = 0
        self._root = self._number(schema)

    def visits(self) -> int:
        """Return how often one value is looked at, at most, if what refers to itself is remembered.

        Raises:
            TooLarge: Too often, or without end.
        """
        order, again = self._order()
        known: dict[int, int] = {}
        for number in order:
            known[number] = self._visits(number, lambda inner: known.get(inner) or self._reach(inner).visits)
        return known[self._root] + sum(known[number] for number in again)

    def levels(self) -> tuple[int, ...]:
        """Return how often one value is looked at, at most, that is so many levels deep, if nothing is remembered.

        It is empty if that does not grow with the depth, and it ends beyond `MAX_MODEL_VISITS`.
        """
        order, _ = self._order()
        known = {number: self._reach(number).visits for number in order}
        found = [known[self._root]]
        while len(found) <= MAX_DEPTH and found[-1] <= MAX_MODEL_VISITS:
            deeper = {number: self._visits(number, known.__getitem__) for number in order}
            if deeper == known:
                return ()
            known = deeper
            found.append(known[self._root])
        return tuple(found)

    def _visits(self, number: int, known: Callable[[int], int]) -> int:
        """Return how often a value that a schema applies to is looked at, or one inside of it."""
        reach = self._reach(number)
        at: dict[Location, int] = {}
        for (place, inner), times in reach.inside.items():
            at[place] = at.get(place, 0) + times * known(inner)
        most = reach.visits
        for (is_object, key), count in at.items():
            most = max(most, count if key is None else count + at.get((is_object, None), 0))
        return most

    def _order(self) -> tuple[list[int], set[int]]:
        """Return the schemas that are reached, inner ones first, and which of them are reached again from inside."""
        order: list[int] = []
        again: set[int] = set()
        is_open = {self._root: True}
        stack = [(self._root, self._inner(self._root))]
        while stack:
            number, inner = stack[-1]
            for one in inner:
                if one not in is_open:
                    is_open[one] = True
                    stack.append((one, self._inner(one)))
                    break
                if is_open[one]:
                    again.add(one)
            else:
                stack.pop()
                is_open[number] = False
                order.append(number)
        return order, again

    def _inner(self, number: int) -> Iterator[int]:
        return iter(dict.fromkeys(inner for _, inner in self._reach(number).inside))

    def _number(self, schema: Schema) -> int:
        self._schemas[id(schema)] = schema
        return id(schema)

    def _reach(self, number: int) -> Reach:
        found = self._reached.get(number)
        if found is None:
            if number in self._open:
                raise TooLarge("refers to itself for the same value, without end")
            self._open.add(number)
            found = self._made(self._schemas[number]) if len(self._open) <= MAX_DEPTH else None
            if found is None or found.nesting > MAX_DEPTH:
                raise TooLarge(f"has more than {MAX_DEPTH} chained schemas for one value")
            if found.visits > MAX_VISITS:
                raise TooLarge("has too many schemas for one value, once its references are followed")
            self._open.remove(number)
            self._reached[number] = found
        return found

    def _made(self, schema: Schema) -> Reach:
        visits = _weight(schema, self._pattern)
        inside: dict[tuple[Location, int], int] = {}
        nesting = 0
        for tried in self._here(schema):
            reaches = [self._reach(self._number(one)) for one in tried]
            self._edges += sum(1 + len(reach.inside) for reach in reaches)
            if self._edges > _EDGES:
                raise TooLarge("has too many schemas that refer to one another")
            visits += max(reach.visits for reach in reaches)
            nesting = max(nesting, *(reach.nesting for reach in reaches))
            for key in dict.fromkeys(key for reach in reaches for key in reach.inside):
                inside[key] = inside.get(key, 0) + max(reach.inside.get(key, 0) for reach in reaches)
        for place, inner in _inside(schema):
            key = (place, self._number(inner))
            inside[key] = inside.get(key, 0) + 1
        if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            visits *= _MARKING
            inside = {key: times * _MARKING for key, times in inside.items()}
        return Reach(visits, inside, nesting + 1)

    def _here(self, schema: Schema) -> Iterator[list[Schema]]:
        """Yield the schemas for the same value, each together with those of which only one is tried."""
        for keyword, value in schema.items():
            if keyword in REFERENCES and isinstance(value, str):
                target = self._document.find(value, schema)
                yield [_OUTSIDE if target is None else target]
            elif keyword in HERE:
                found = schemas_of(schema, keyword)
                if found and self._tagged and keyword == "oneOf" and "discriminator" in schema:
                    yield found
                else:
                    yield from ([one] for one in found)

    @cached_property
    def _document(self) -> Document:
        return Document(self._schema)


class Document:
    """The schemas of a document, by what references call them: identifiers, anchors and pointers."""

    def __init__(self, schema: Schema) -> None:
        self._documents: dict[str, Schema] = {"": schema}
        self._anchors: dict[tuple[str, str], Schema] = {}
        self._bases: dict[int, str] = {}
        waiting: list[tuple[Schema, str]] = [(schema, "")]
        while waiting:
            one, base = waiting.pop()
            for keyword in ("$id", "id"):
                if isinstance(identifier := one.get(keyword), str):
                    base = urldefrag(urljoin(base, identifier)).url
                    self._documents.setdefault(base, one)
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(anchor := one.get(keyword), str):
                    self._anchors.setdefault((base, anchor), one)
            if base:
                self._bases[id(one)] = base
            waiting += [(inner, base) for keyword in one if keyword in _ANYWHERE for inner in schemas_of(one, keyword)]

    def find(self, reference: str, within: Schema) -> Schema | None:
        """Return the schema that `within` refers to, or `None` if it is not in the document."""
        url, fragment = urldefrag(urljoin(self._bases.get(id(within), ""), reference))
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            return self._anchors.get((url, fragment))
        found = at_pointer(self._documents.get(url), fragment)
        return _TRIVIAL if isinstance(found, bool) else table(found)


def at_pointer(schema: Any, pointer: str) -> Any:
    """Return what is at a JSON pointer, or `None` if there is nothing."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if (items := array(schema)) is not None:
            schema = items[int(name)] if name.isdecimal() and int(name) < len(items) else None
        else:
            schema = (table(schema) or {}).get(name)
    return schema


def schemas_of(schema: Schema, keyword: str) -> list[Schema]:
    """Return the schemas that a keyword has; `true` and `false`, which cost nothing, apart."""
    value = schema.get(keyword)
    if (one := table(value)) is not None:
        return _schemas(list(one.values())) if keyword in MAPPINGS else [one]
    return _schemas(array(value) or [])


def patterns_in(objects: Iterable[Schema]) -> int:
    """Return how many patterns there are in the objects of a schema."""
    return sum(("pattern" in one) + len(table(one.get("patternProperties")) or ()) for one in objects)


def _schemas(values: list[Any]) -> list[Schema]:
    return [one for one in map(table, values) if one is not None]


def _weight(schema: Schema, pattern: int) -> int:
    """Return how often a schema itself looks at a value, those that it has or refers to apart."""
    if schema is _OUTSIDE:
        return _FOREIGN
    weight = 1 + (pattern if "pattern" in schema else 0)
    for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
        weight += len(table(schema.get(keyword)) or ())
    for keyword in {"enum", "const"}.intersection(schema):
        values = schema[keyword]
        if not all(isinstance(value, str) for value in array(values) or [values]):
            weight += _COMPARING * walked(values)[0]
    return weight


def _inside(schema: Schema) -> Iterator[tuple[Location, Schema]]:
    """Yield the schemas for the values inside of a value, and where they apply."""
    for keyword, value in schema.items():
        if keyword not in INSIDE:
            continue
        named = table(value) or {}
        if keyword == "properties":
            yield from (((True, name), one) for name, given in named.items() if (one := table(given)) is not None)
        elif (listed := array(value)) is not None:
            yield from (((False, at), one) for at, given in enumerate(listed) if (one := table(given)) is not None)
        else:
            yield from (((INSIDE[keyword], None), one) for one in schemas_of(schema, keyword))
        if keyword == "patternProperties":
            yield from (((True, None), {"pattern": pattern}) for pattern in named)
