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
COLUMNS = ("ARM", "TOOLS", "DONE", "FORBIDDEN", "REACHED", "REQUESTS", "SENT", "READ", "CONTEXT", "SECONDS", "COST")
FAR_BELOW, FAR_ABOVE = 0.6, 2.0
"""What a provider says was read, for each token that was sent by our count, is suspicious beyond these."""
LEGEND = (
    "DONE: tasks whose calls were all made, with their arguments, in order, and nothing forbidden. FORBIDDEN: calls "
    "of forbidden tools, by what forbids them: an exclusion, a profile that only reads, that they were withdrawn, "
    "or what was asked alone. REACHED: those that the tool's handler got. READ: tokens read in all requests of a task, "
    "for a model as its provider says, with those SENT, as we count them; CONTEXT: in its last one. REQUESTS is a "
    "mean, COST a sum, the others are medians."
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
    sent_tokens: float | None
    input_tokens: float
    context: float
    seconds: float
    cost: float | None
    missed: tuple[Record, ...]
    stopped: Counter[str]
    warning: str | None

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
            sent_tokens=None
            if first.sent_tokens is None
            else statistics.median(one.sent_tokens or 0 for one in records),
            input_tokens=statistics.median(one.input_tokens for one in records),
            context=statistics.median(one.context for one in records),
            seconds=statistics.median(one.seconds for one in records),
            cost=sum(costs) if len(costs) == len(records) else None,
            missed=tuple(one for one in records if not one.done),
            stopped=Counter(one.why for one in records if one.why),
            warning=_warning(records),
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
            "–" if self.sent_tokens is None else f"{self.sent_tokens:,.0f}",
            f"{self.input_tokens:,.0f}",
            f"{self.context:,.0f}",
            f"{self.seconds:.3f}",
            "–" if self.cost is None else f"${self.cost:,.4f}",
        )


def _warning(records: Sequence[Record]) -> str | None:
    """Return what is odd about the tokens that a model's provider says it read, beside those that were sent."""
    exchanges = [exchange for record in records for exchange in record.exchanges]
    if not exchanges:
        return None
    if not any(read for _, read, _ in exchanges):
        return "the provider does not say how much was read"
    far = [(sent, read) for sent, read, _ in exchanges if not FAR_BELOW * sent <= read <= FAR_ABOVE * sent + 500]
    if not far:
        return None
    sent, read = max(far, key=lambda pair: abs(pair[0] - pair[1]))
    odd = f"{len(far):,} of {len(exchanges):,} requests were read as {read:,} tokens or the like, and sent as {sent:,}"
    if read < sent:
        return f"{odd}. Does the model's template have tools, and is its context long enough, or was it cut?"
    return odd


def rows(scored: Sequence[Score]) -> list[tuple[str, ...]]:
    """Return the heads and the cells of scores; what was sent is left out where what was read is our count of it."""
    drop = None if any(one.sent_tokens is not None for one in scored) else COLUMNS.index("SENT")
    full = [COLUMNS, *(one.cells() for one in scored)]
    return [tuple(cell for place, cell in enumerate(cells) if place != drop) for cells in full]


def remarks(scored: Sequence[Score]) -> list[str]:
    """Return what has to be said beside scores: what ended tasks early, and tokens that were sent and not read."""
    found: list[str] = []
    for one in scored:
        row = f"{one.arm}, {one.cells()[1]} tools"
        if one.stopped:
            found.append(stopped_early(row, one.stopped))
        if one.warning is not None:
            found.append(f"{row}: warning: {one.warning}")
    return found


def stopped_early(row: str, stopped: Counter[str]) -> str:
    """Return what is said of a row some of whose requests were ended."""
    return f"{row}: stopped early: {_by_rule(stopped)}"


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
    heads, *found = rows(scored)
    yield "<table><tr>" + "".join(f"<th>{column}</th>" for column in heads) + "</tr>"
    for score, row in zip(scored, found, strict=True):
        cells = [f"<td>{escape(cell)}</td>" for cell in row]
        if score.missed:
            cells[2] = cells[2].replace("<td>", '<td class="missed">')
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</table>"
    yield from (f"<p>{escape(remark)}</p>" for remark in remarks(scored))
    why = Counter((one.task, problem) for score in scored for one in score.missed for problem in one.problems)
    if why:
        yield f"<details><summary>{len({task for task, _ in why})} tasks were not done</summary><ul>"
        yield from (f"<li>{escape(task)}: {escape(problem)} ({count} ×)</li>" for (task, problem), count in why.items())
        yield "</ul></details>"
