"""The texts of the pages have the contrast that WCAG 2 asks for, in light and in dark mode."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from diagrams.gallery import before_after
from tests.diagrams.test_diagram import contrast
from toolfold_diagrams.palette import EXCLUSION, INK, LOOKS, REFUSED

CSS = (files("toolfold_diagrams") / "page_parts" / "page.css").read_text(encoding="utf-8")
LIGHT, DARK = (
    dict(re.findall(r"--([\w-]+): ([^;]+);", found)) for found in re.findall(r":root \{\n(.*?)\n *\}", CSS, re.DOTALL)
)
PALETTE = {
    **{
        f"{state.value}-{part}": value
        for state, look in LOOKS.items()
        for part, value in (("fill", look.fill), ("border", look.border))
    },
    "ink": INK,
    "exclusion": EXCLUSION,
    "refused": REFUSED,
}
SCHEMES = {"light": {**PALETTE, **LIGHT}, "dark": {**PALETTE, **LIGHT, **DARK}}
TAG = "color-mix(in srgb, var(--exclusion) 16%, var(--card))"
"""The ground of a tag of a group that was closed, as in the style sheet."""
TEXTS = [
    *(
        (text, ground)
        for text in ("var(--text)", "var(--faint)", "var(--accent-text)", "var(--warning)")
        for ground in ("var(--ground)", "var(--card)", "var(--wash)")
    ),
    ("var(--warning)", TAG),
    ("var(--ink)", "var(--active-fill)"),
    ("#ffffff", "var(--accent)"),
]


def resolved(value: str, scheme: dict[str, str]) -> str:
    """Return a colour as #rrggbb."""
    while found := re.search(r"var\(--([\w-]+)\)", value):
        value = value.replace(found[0], scheme[found[1]])
    if mixed := re.fullmatch(r"color-mix\(in srgb, (.+) (\d+)%, (.+)\)", value):
        one, part, other = resolved(mixed[1], scheme), int(mixed[2]) / 100, resolved(mixed[3], scheme)
        pairs = ((int(one[at : at + 2], 16), int(other[at : at + 2], 16)) for at in (1, 3, 5))
        return "#" + "".join(f"{round(part * first + (1 - part) * second):02x}" for first, second in pairs)
    return {"black": "#000000", "white": "#ffffff"}.get(value, value)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_texts_of_a_page_can_be_read(scheme: str) -> None:
    assert TAG in CSS
    ratios = {
        (text, ground): contrast(*(resolved(one, SCHEMES[scheme]) for one in (text, ground))) for text, ground in TEXTS
    }
    assert {pair: f"{ratio:.1f}" for pair, ratio in ratios.items() if ratio < 4.5} == {}


def test_the_picture_of_the_readme_has_a_ground_of_its_own_on_which_all_of_it_can_be_read() -> None:
    assert contrast(before_after.INK, before_after.PAPER) >= 4.5
    assert min(contrast(bar, before_after.PAPER) for bar in (before_after.WITHOUT, before_after.WITH)) >= 3
