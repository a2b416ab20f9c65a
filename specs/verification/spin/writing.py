"""What the models of SPIN have of the rows of the machine: it stands between two marks in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from toolfold_specs.machine import regions

Rows = Mapping[str, Any]
"""What `verification.rows.rows` returns."""
BEGIN, END = "/* <rows> */\n", "/* </rows> */"
PATHS = ("a", "a.b", "c", "d")
REFUSED = 16
"""What stands for a refusal where a set of these groups is expected."""


@frozen
class Request:
    """The groups to open and to close, by their numbers."""

    opened: tuple[int, ...] = ()
    closed: tuple[int, ...] = ()


SINGLE = (*(Request((group,)) for group in range(4)), *(Request((), (group,)) for group in range(4)))
"""The requests of one group."""
ALL = (*SINGLE, Request((0, 1)), Request((2, 3)))
"""Those, a path to a group within another, and two groups that displace the others."""


@frozen
class Catalog:
    """The groups that there are, as bits, and the exclusions."""

    groups: int = 15
    exclusions: tuple[tuple[int, ...], ...] = ((0, 2), (1, 3))

    @property
    def system(self) -> regions.System:
        """The system of all four groups."""
        return regions.System.read({"groups": PATHS, "exclusions": self.exclusions})

    @property
    def legal(self) -> list[int]:
        """The states that are legal in it."""
        return [state for state in range(1 << 4) if self.system.is_legal(state) and not state & ~self.groups]

    def result(self, state: int, request: Request, table: regions.Rows) -> int:
        """Return the state after a request, or `REFUSED`."""
        run, wanted = regions.Run(self.system, state, table), regions.union(request.opened)
        for event, groups in (("deactivate", request.closed), ("activate", request.opened)):
            for group in groups:
                run.send(event, group)
        known = not (wanted | regions.union(request.closed)) & ~self.groups
        return run.active if known and not run.refused and not wanted & ~run.active else REFUSED


FIRST = Catalog()
CATALOGS = (FIRST, Catalog(exclusions=(*FIRST.exclusions, (2, 3))), Catalog(groups=7))
"""What a catalog changes to and from: one with another exclusion, and one without a group."""


def activation(model: str, rows: Rows) -> str:
    """Return the model of protocols, with what the rows make of each request in each legal state."""
    return _between(model, _steps("STEP", FIRST, SINGLE, rows, refused=False))


def life(model: str, rows: Rows) -> str:
    """Return the model of the life of transitions, with its table, and what each catalog makes of each request."""
    written, numbers = list[str](), range(len(CATALOGS))
    for number, catalog in enumerate(CATALOGS):
        legal = " || ".join(f"(set) == {state}" for state in catalog.legal)
        written += [f"#define LEGAL_{number}(set) ({legal})", *_steps(f"STEP_{number}", catalog, ALL, rows)]
    legal = " || ".join(f"((catalog) == {number} && LEGAL_{number}(set))" for number in numbers)
    steps = {number: f"STEP_{number}(set, request)" for number in numbers}
    written += [
        f"#define LEGAL(catalog, set) ({legal})",
        _chosen("STEP(catalog, set, request)", "catalog", steps),
        *_table(rows["life"]),
    ]
    return _between(model, written)


def _between(model: str, lines: Iterable[str]) -> str:
    """Return a model with lines between its marks."""
    begin, end = model.index(BEGIN) + len(BEGIN), model.index(END)
    return "\n".join((model[:begin].removesuffix("\n"), *lines, model[end:]))


# -- requests ---------------------------------------------------------------------------------------------------------


def _steps(
    name: str, catalog: Catalog, requests: Sequence[Request], rows: Rows, *, refused: bool = True
) -> Iterator[str]:
    """Yield what requests make of states. Where it is not said that one is refused, that changes nothing."""
    table = by_state_and_event(rows["regions"])
    for number, request in enumerate(requests):
        results = {state: catalog.result(state, request, table) for state in catalog.legal}
        cases = {
            state: str(after) for state, after in results.items() if after not in (state, *[REFUSED] * (not refused))
        }
        yield _chosen(f"{name}_{number}(set)", "set", cases, "(set)")
    calls = {number: f"{name}_{number}(set)" for number in range(len(requests))}
    yield _chosen(f"{name}(set, request)", "request", calls)


def _chosen(head: str, by: str, cases: Mapping[Any, str], otherwise: str | None = None) -> str:
    """Return a macro that chooses among cases."""
    *firsts, (_, last) = cases.items() if otherwise is None else (*cases.items(), (None, otherwise))
    chosen = "".join(f"({by}) == {case} -> {found} : (" for case, found in firsts)
    return f"#define {head} \\\n    ({chosen}{last}{')' * (len(firsts) + 1)}"


def by_state_and_event(found: Iterable[Mapping[str, Any]]) -> regions.Rows:
    """Return rows by state and event."""
    table: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in found:
        table.setdefault((row["state"], row["event"]), []).append(row)
    return table


# -- the life of a transition -----------------------------------------------------------------------------------------


def _table(found: Rows) -> Iterator[str]:
    """Yield the words of the table, and what it makes of an event."""
    rows, choices, effects = found["rows"], found["choices"], found["effects"]
    states = [*effects, *(row["target"] for row in (*rows, *choices)), *(row["choice"] for row in choices)]
    for kind, words in (("at", states), ("on", [row["event"] for row in rows]), ("do", [*effects.values()])):
        yield f"mtype = {{ {', '.join(_word(kind, word) for word in dict.fromkeys(words))} }};"
    yield _chosen("EFFECT(at)", "at", {_word("at", one): _word("do", what) for one, what in effects.items()}, "0")
    in_memory = {_word("at", one): _word("on", event) for one, event in found["in_memory"].items()}
    yield _chosen("IN_MEMORY(at)", "at", in_memory, "0")
    yield "inline table() {\n    if"
    for row in rows:
        guards = [f"at == {_word('at', row['state'])}", f"event == {_word('on', row['event'])}", *_when(row["guard"])]
        note = f"{_word('note', row['note'])}(); " if row["note"] else ""
        yield f"    :: {' && '.join(guards)} -> {note}at = {_word('at', row['target'])}"
    yield "    :: else -> missing = true; at = 0\n    fi;\n    if"
    for row in choices:
        guards = [f"at == {_word('at', row['choice'])}", *_when(row["guard"])]
        yield f"    :: {' && '.join(guards)} -> at = {_word('at', row['target'])}"
    yield "    :: else\n    fi\n}"


def _when(guard: str) -> list[str]:
    return [_word("when", guard)] if guard else []


def _word(kind: str, word: str) -> str:
    return f"{kind}_{re.sub(r'[^a-z]+', '_', word)}"
