"""The scores of records: one for each arm, number of tools and player, and a page that compares them (SPEC EVA-1)."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from attrs import frozen

from .runs import Record
from .surfaces import ARMS

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { border-bottom: 1px solid #8884; padding: .25rem .7rem; text-align: right; vertical-align: top; }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left; }
td.missed { color: #b00020; font-weight: 600; }
:root { color-scheme: light dark; }
"""
COLUMNS = ("ARM", "TOOLS", "DONE", "FORBIDDEN", "REACHED", "REQUESTS", "READ", "CONTEXT", "SECONDS", "COST")
LEGEND = (
    "DONE: tasks whose calls were all made, with their arguments, in order, and nothing forbidden. FORBIDDEN: calls "
    "of forbidden tools, by what forbids them: an exclusion, a profile that only reads, that they were withdrawn, "
    "or what was asked alone. REACHED: those that the tool's handler got. READ: tokens read in all requests of a task; "
    "CONTEXT: in its last one. REQUESTS is a mean, COST a sum, the others are medians."
)


@frozen(kw_only=True)
class Score:
    """The result of one player with one arm and one number of tools; medians over the tasks, and the sum of costs."""

    player: str
    measured_with: str
    arm: str
    size: int | None
    tasks: int
    done: int
    tried: Counter[str]
    reached: Counter[str]
    requests: float
    input_tokens: float
    context: float
    seconds: float
    cost: float | None
    missed: tuple[Record, ...]

    @classmethod
    def of(cls, records: Sequence[Record]) -> Score:
        """Return the score of records that differ by their tasks alone."""
        first, costs = records[0], [one.cost for one in records if one.cost is not None]
        return cls(
            player=first.player,
            measured_with=measured_with(first),
            arm=first.arm,
            size=first.size,
            tasks=len(records),
            done=sum(one.done for one in records),
            tried=sum((Counter(one.tried) for one in records), Counter[str]()),
            reached=sum((Counter(one.reached) for one in records), Counter[str]()),
            requests=statistics.mean(one.requests for one in records),
            input_tokens=statistics.median(one.input_tokens for one in records),
            context=statistics.median(one.context for one in records),
            seconds=statistics.median(one.seconds for one in records),
            cost=sum(costs) if len(costs) == len(records) else None,
            missed=tuple(one for one in records if not one.done),
        )

    def cells(self) -> tuple[str, ...]:
        """Return the cells under `COLUMNS`; a cost that is not known is absent."""
        return (
            self.arm,
            "all" if self.size is None else f"{self.size:,}",
            f"{self.done}/{self.tasks}",
            _by_rule(self.tried),
            _by_rule(self.reached),
            f"{self.requests:.1f}",
            f"{self.input_tokens:,.0f}",
            f"{self.context:,.0f}",
            f"{self.seconds:.3f}",
            "–" if self.cost is None else f"${self.cost:,.4f}",
        )


def _by_rule(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {rule}" for rule, count in sorted(counts.items())) or "0"


def measured_with(record: Record) -> str:
    """Return what a record was measured with, in one line."""
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    price = "" if record.price is None else f"; ${record.price[0]:g} and ${record.price[1]:g} for a million tokens"
    options = "".join(f"; {name} {value}" for name, value in record.options.items())
    return f"{record.kind}; seed {record.seed}; tasks {record.tasks}; {versions}{price}{options}"


def scores(records: Iterable[Record]) -> list[Score]:
    """Return the scores of records, in the order in which they were played first."""
    together: dict[tuple[str, str, str, int | None], list[Record]] = {}
    for record in records:
        together.setdefault((record.player, measured_with(record), record.arm, record.size), []).append(record)
    return [Score.of(found) for found in together.values()]


def page(records: Sequence[Record]) -> str:
    """Return an HTML page that compares records, with a table for each player."""
    return "\n".join(["<!doctype html>", '<html lang="en">', *_page(records), "</html>", ""])


def _page(records: Sequence[Record]) -> Iterator[str]:
    yield f'<meta charset="utf-8"><title>Toolfold: evaluation</title><style>{STYLE}</style>'
    yield "<h1>Evaluation</h1>"
    yield f"<p>{LEGEND}</p>"
    scored = scores(records)
    for player, with_what in dict.fromkeys((score.player, score.measured_with) for score in scored):
        yield f"<h2>{escape(player)}</h2><p>Measured with: {escape(with_what)}.</p>"
        yield from _table([score for score in scored if (score.player, score.measured_with) == (player, with_what)])
    yield "<h2>Arms</h2><dl>"
    yield from (f"<dt>{escape(name)}</dt><dd>{escape(arm.about)}</dd>" for name, arm in ARMS.items())
    yield "</dl>"


def _table(scored: Sequence[Score]) -> Iterator[str]:
    yield "<table><tr>" + "".join(f"<th>{column}</th>" for column in COLUMNS) + "</tr>"
    for score in scored:
        cells = [f"<td>{escape(cell)}</td>" for cell in score.cells()]
        if score.missed:
            cells[2] = cells[2].replace("<td>", '<td class="missed">')
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</table>"
    why = Counter((one.task, problem) for score in scored for one in score.missed for problem in one.problems)
    if why:
        yield f"<details><summary>{len({task for task, _ in why})} tasks were not done</summary><ul>"
        yield from (f"<li>{escape(task)}: {escape(problem)} ({count} ×)</li>" for (task, problem), count in why.items())
        yield "</ul></details>"
