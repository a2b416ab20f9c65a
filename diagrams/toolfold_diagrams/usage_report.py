"""`report`: what of a tool set was used, what that cost, and what to do about it (SPEC EXP-3)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import frozen

from toolfold import Calls, Usage

from .text import plural, printable, xml

Figures = dict[str, Any]

FEW = 5
"""How often something must have happened before there is advice on it."""
MANY_TOKENS = 5_000
"""The mean length of an answer beyond which hosts begin to cut."""
SLOW = 10.0
"""Seconds within which a call should have ended."""
NAMED = 5
"""How many names a sentence of advice has at most."""

STYLE = (
    ":root{color-scheme:light dark}body{font:1rem/1.5 system-ui;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}th,td{padding:.2rem .8rem;text-align:right}"
    "th:first-child,td:first-child{text-align:left}tr:nth-child(even){background:#8882}"
)

TABLES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "tools": ("Tools", ("name", "group", "calls", "errors", "p50", "p99", "tokens")),
    "groups": ("Groups", ("name", "opened", "unused", "closed", "calls", "errors", "p50", "p99", "tokens")),
    "clients": ("Clients", ("name", "calls", "errors", "p50", "p99", "tokens")),
    "eras": ("Eras", ("name", "calls", "errors", "p50", "p99", "tokens")),
    "callers": ("Callers", ("name", "calls", "errors", "p50", "p99", "tokens")),
    "prefixes": ("Prefixes", ("by", "broken", "tokens")),
}
"""The title and the columns of each table."""


@frozen
class Report:
    """A report as data, which `json` returns, and as one HTML file.

    `data` has the figures of all calls, lists and searches, the refusals by reason, tables of tools, groups, clients,
    eras and callers in which the most used come first, the tools without a call, and `advice` in sentences. Times are
    in seconds, tokens approximate.
    """

    data: Mapping[str, Any]

    @property
    def json(self) -> str:
        """The data as JSON."""
        return json.dumps(self.data, indent=2, ensure_ascii=False)

    @property
    def html(self) -> str:
        """One HTML file, without scripts, that needs no network."""
        name = xml(printable(f"Use of {self.data['name']}"))
        parts = [
            f"<h1>{name}</h1>",
            *(f"<p>{xml(printable(line))}</p>" for line in summary(self.data)),
            _items("What to do", self.data["advice"]),
            *(_table(title, columns, self.data[key]) for key, (title, columns) in TABLES.items()),
            _items("Calls of what could not be called", [f"{why}: {n}" for why, n in self.data["refused"].items()]),
            _items("Tools without a call", self.data["unused"]),
        ]
        policy = "default-src 'none'; style-src 'unsafe-inline'"
        head = f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        body = "\n".join(filter(None, parts))
        return (
            f'<!DOCTYPE html>\n<html lang="en"><head>{head}<title>{name}</title><style>{STYLE}</style></head>\n'
            f"<body>\n{body}\n</body></html>\n"
        )


def report(usage: Usage) -> Report:
    """Return the report of what was counted.

    SPEC EXP-3.

    Args:
        usage: The counters, as `tools.usage` has them.
    """
    by_group = {path: calls for (path,), calls in usage.by(1).items()}
    called = {tool for tool, *_ in usage.calls}
    lists = usage.lists
    data: dict[str, Any] = {
        "name": usage.name,
        "sessions": usage.sessions,
        "total": _figures(usage.by().get((), Calls())),
        "lists": {
            "lists": lists.lists,
            "tokens": lists.tokens,
            "ungrouped": lists.ungrouped,
            "saved": lists.ungrouped - lists.tokens,
        },
        "searches": {
            "asked": usage.searches.asked,
            "empty": usage.searches.empty,
            "unused": usage.searches.asked - usage.searches.empty - usage.searches.called,
        },
        "refused": dict(usage.refused.most_common()),
        "tools": _most_used(
            {"name": tool, "group": group, **_figures(c)} for (tool, group), c in usage.by(0, 1).items()
        ),
        "groups": _most_used(
            {
                "name": path,
                "opened": each.opened,
                "unused": each.opened - each.called,
                "closed": each.closed,
                **_figures(by_group.get(path, Calls())),
            }
            for path, each in usage.groups.items()
        ),
        "clients": _most_used({"name": name, **_figures(calls)} for (name,), calls in usage.by(2).items()),
        "eras": _most_used({"name": name, **_figures(calls)} for (name,), calls in usage.by(3).items()),
        "callers": _most_used({"name": name, **_figures(calls)} for name, calls in _by_caller(usage).items()),
        "prefixes": [
            {"by": by, "broken": each.broken, "tokens": each.tokens}
            for by, each in sorted(usage.prefixes.items(), key=lambda row: (-row[1].tokens, row[0]))
        ],
        "unused": sorted(usage.tools.keys() - called),
    }
    return Report({**data, "advice": [*_advice(data, len(usage.tools))]})


def _by_caller(usage: Usage) -> dict[str, Calls]:
    sums: dict[str, Calls] = {}
    for (who, _), calls in usage.callers.items():
        sums.setdefault(who, Calls()).add(calls)
    return sums


def summary(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence each on all calls, lists and searches of a report's data."""
    total, lists, searches = data["total"], data["lists"], data["searches"]
    yield (
        f"{plural(total['calls'], 'call')} in {plural(data['sessions'], 'session')}, {total['errors']:,} of them with "
        f"an error; half took {seconds(total['p50'])}, 99 % {seconds(total['p99'])} or less; their answers had "
        f"~{total['tokens']:,} tokens."
    )
    yield (
        f"{plural(lists['lists'], 'list')} of ~{lists['tokens']:,} tokens; without groups they would have had "
        f"~{lists['ungrouped']:,}."
    )
    if prefixes := data["prefixes"]:
        broken, again = (sum(row[column] for row in prefixes) for column in ("broken", "tokens"))
        yield f"{plural(broken, 'prefix', 'prefixes')} broken by changed lists; ~{again:,} tokens or more billed again."
    yield (
        f"{plural(searches['asked'], 'search', 'searches')}: {searches['empty']:,} found nothing, and "
        f"{searches['unused']:,} found tools of which none was called."
    )


def seconds(value: float) -> str:
    """Return a time in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-6:.3g} µs"


def cell(column: str, value: Any) -> str:
    """Return what a table shows of a figure."""
    if column in ("p50", "p99"):
        return seconds(value) if value else ""
    return f"{value:,}" if isinstance(value, int) else printable(str(value))


def _figures(calls: Calls) -> Figures:
    return {
        "calls": calls.calls,
        "errors": calls.errors,
        "p50": calls.percentile(0.5),
        "p99": calls.percentile(0.99),
        "tokens": calls.tokens,
    }


def _most_used(rows: Iterable[Figures]) -> list[Figures]:
    return sorted(rows, key=lambda row: (-row["calls"], -row.get("opened", 0), row["name"]))


# -- advice -----------------------------------------------------------------------------------------------------------


def _advice(data: Mapping[str, Any], tools: int) -> Iterator[str]:
    """Yield what to do, in a sentence each."""
    for row in data["groups"]:
        yield from _on_group(row, data["groups"])
    for row in data["tools"]:
        yield from _on_tool(row)
    searches, refused, total = data["searches"], data["refused"], data["total"]["calls"]
    if searches["empty"] >= FEW and 5 * searches["empty"] >= searches["asked"]:
        yield (
            f"{searches['empty']:,} of {searches['asked']:,} searches found nothing: describe the tools in the words "
            "of their users, or rank by meaning."
        )
    if searches["unused"] >= FEW and 2 * searches["unused"] >= searches["asked"]:
        yield (
            f"{searches['unused']:,} of {searches['asked']:,} searches found tools of which none was called: say in "
            "their descriptions what they are for, and what not."
        )
    closed = sum(refused.get(why, 0) for why in ("group", "ancestor", "excluded"))
    if closed >= FEW and 10 * closed >= total:
        yield f"{closed:,} calls were of tools whose group was closed: on_hidden='hint' names the group in the refusal."
    if refused.get("unknown", 0) >= FEW and 10 * refused["unknown"] >= total:
        yield f"{refused['unknown']:,} calls were of tools that do not exist: look whether clients use names of old."
    if (lists := data["lists"])["saved"] < 0:
        yield f"Lists have {-lists['saved']:,} tokens more than without groups: these tools hardly need groups."
    for row in data["prefixes"]:
        if row["broken"] >= FEW and row["tokens"] >= MANY_TOKENS:
            yield (
                f"{row['by']} broke {row['broken']:,} prefixes, so ~{row['tokens']:,} tokens or more were billed "
                "again: have clients call its tools by call_tool, or open it from the start."
            )
    if data["unused"] and total >= 10 * tools:
        names = ", ".join(data["unused"][:NAMED])
        more = len(data["unused"]) - NAMED
        yield (
            f"{len(data['unused'])} of {tools} tools were never called ({names}"
            f"{f' and {more} more' if more > 0 else ''}): leave them out, or put them in a group of their own."
        )


def _on_group(row: Figures, groups: Iterable[Figures]) -> Iterator[str]:
    name, opened, unused = row["name"], row["opened"], row["unused"]
    if opened < FEW or 2 * unused < opened:
        return
    parent = name.rpartition(".")[0]
    beside = (one["name"] for one in groups if one["name"] != name and one["name"].rpartition(".")[0] == parent)
    merge = f", or merge it with {other}" if (other := next(beside, None)) is not None else ""
    so_often = "nothing in it was called" if unused == opened else f"{unused} times nothing in it was called"
    yield f"Group {name} was opened {opened} times and {so_often}: say better what is in it{merge}."


def _on_tool(row: Figures) -> Iterator[str]:
    name, calls, errors = row["name"], row["calls"], row["errors"]
    if calls < FEW:
        return
    if 5 * errors >= calls:
        yield f"{name} failed in {errors} of {calls} calls: see the log, or say better what its arguments are."
    if row["p99"] > SLOW:
        yield f"{name} takes up to {seconds(row['p99'])}: report progress, or have it do less at a time."
    if row["tokens"] > MANY_TOKENS * calls:
        yield f"{name} answers with ~{row['tokens'] // calls:,} tokens on average: have it return less."


# -- HTML -------------------------------------------------------------------------------------------------------------


def _items(title: str, texts: Iterable[str]) -> str:
    items = "".join(f"<li>{xml(printable(text))}</li>" for text in texts)
    return f"<h2>{title}</h2>\n<ul>{items}</ul>" if items else ""


def _table(title: str, columns: tuple[str, ...], rows: Iterable[Figures]) -> str:
    head = "".join(f"<th>{column}</th>" for column in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{xml(cell(column, row[column]))}</td>' for column in columns)}</tr>\n" for row in rows
    )
    return f"<h2>{title}</h2>\n<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>" if body else ""
