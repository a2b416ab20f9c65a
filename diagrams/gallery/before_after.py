"""The picture of the README: what a model reads of some real servers, with every tool listed and behind Toolfold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape

WIDTH, LEFT, ROW, BAR = 760, 150, 26, 16
INK, PAPER, WITHOUT, WITH = "#1f2933", "#ffffff", "#c0504d", "#2a7f62"
FONT = 'font-family="ui-sans-serif, \'Segoe UI\', Helvetica, Arial, sans-serif" font-size="13"'


def before_after(costs: Mapping[str, Any]) -> str:
    """Return an SVG of what `python -m tests.external.tried` measured: a bar for each server, and one for Toolfold."""
    servers = sorted(costs["servers"].items(), key=lambda one: -one[1]["tokens"])
    scale = (WIDTH - LEFT - 120) / costs["before"]
    parts, top, along = list[str](), 62, 0.0
    parts.append(
        _text(16, 26, f"What a model reads with every request: {len(servers)} servers, {costs['tools']} tools", 15)
    )
    for name, cost in servers:
        parts.append(_text(LEFT - 8, top + 12, f"{name} ({cost['tools']})", anchor="end"))
        parts.append(_bar(LEFT + along * scale, top, cost["tokens"] * scale, WITHOUT))
        along += cost["tokens"]
        top += ROW
    parts.append(_text(LEFT + along * scale + 8, top - ROW + 12, f"{costs['before']:,} tokens", weight="bold"))
    parts.append(_text(LEFT - 8, top + 20, "behind Toolfold", anchor="end", weight="bold"))
    parts.append(_bar(LEFT, top + 8, max(2.0, costs["after"] * scale), WITH))
    saved = 100 * (1 - costs["after"] / costs["before"])
    after = f"{costs['after']:,} tokens, {saved:.0f}% less; every tool is a call or two away"
    parts.append(_text(LEFT + costs["after"] * scale + 8, top + 20, after, weight="bold"))
    height = top + 44
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" {FONT}>'
    )
    title = f"<title>{costs['before']:,} tokens of definitions become {costs['after']:,}</title>"
    return "\n".join([head, title, f'<rect width="100%" height="100%" fill="{PAPER}"/>', *parts, "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, size: int = 13, *, anchor: str = "start", weight: str = "normal") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}"'
    return f'<text {place} fill="{INK}">{escape(text)}</text>'


def _bar(x: float, y: float, width: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{BAR}" rx="2" fill="{colour}"/>'
