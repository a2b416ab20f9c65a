"""SVG without the program of Graphviz: pictures whose layout is ours, and what its build for WebAssembly draws."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from random import Random

import pytest

from tests.diagrams.support import UNPRINTABLE, forest, hostile, somewhere, squeezed, states, texts_of
from tests.diagrams.traces import gates, switching
from toolfold import Catalog, ConfigError, ToolSet
from toolfold_diagrams import Diagram, reachable, region_chart, sequence, statechart, structure, transaction_chart
from toolfold_diagrams.palette import GROUND
from toolfold_diagrams.svg import embedded
from toolfold_diagrams.text import identifier

NAMESPACE = "{http://www.w3.org/2000/svg}"
Box = tuple[float, float, float, float]


@pytest.fixture
def no_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """There is no program "dot"."""
    monkeypatch.setenv("PATH", str(tmp_path))


def box(element: ET.Element) -> Box:
    x, y, width, height = (float(element.get(name, "nan")) for name in ("x", "y", "width", "height"))
    return x, y, x + width, y + height


def view(root: ET.Element) -> Box:
    x, y, width, height = map(float, root.get("viewBox", "").split())
    return x, y, x + width, y + height


def within(inner: Box, outer: Box) -> bool:
    return inner[0] >= outer[0] and inner[1] >= outer[1] and inner[2] <= outer[2] and inner[3] <= outer[3]


def groups_of(svg: str) -> dict[str, ET.Element]:
    """The boxes of the groups, by id."""
    found = ET.fromstring(svg).iter(f"{NAMESPACE}g")
    return {each.get("id", ""): each for each in found if "group" in each.get("class", "").split()}


# Pictures whose layout is ours


@pytest.mark.spec("DIA-1", "DIA-3")
@pytest.mark.parametrize("catalog", [hostile().catalog, forest(3).catalog, forest(30).catalog, forest(300).catalog])
def test_every_group_is_a_box_in_its_state_with_its_texts_inside(catalog: Catalog) -> None:
    snapshot = somewhere(catalog, 1)
    svg = structure(snapshot).svg or ""
    texts_of(svg)  # well-formed, and nothing in it runs
    boxes = groups_of(svg)
    received = {key: element.get("class", "").split()[-1] for key, element in boxes.items()}
    assert received == {identifier("group", path): state for path, state in states(snapshot).items()}
    ids = re.findall(r'<g id="([^"]*)"', svg)
    assert len(ids) == len(set(ids)) > len(boxes)
    whole = view(ET.fromstring(svg))
    for element in boxes.values():
        (rect,) = (box(each) for each in element.iter(f"{NAMESPACE}rect"))
        assert within(rect, whole)
        for text in element.iter(f"{NAMESPACE}text"):
            assert rect[0] < float(text.get("x", "nan")) < rect[2]
            assert rect[1] < float(text.get("y", "nan")) < rect[3]


@pytest.mark.spec("DIA-1")
@pytest.mark.parametrize("groups", [3, 30, 300])
def test_boxes_of_groups_do_not_overlap(groups: int) -> None:
    rects = sorted(
        box(next(each.iter(f"{NAMESPACE}rect"))) for each in groups_of(structure(forest(groups)).svg or "").values()
    )
    for number, one in enumerate(rects):
        for other in rects[number + 1 :]:
            assert other[0] >= one[2] or other[1] >= one[3] or other[3] <= one[1]


@pytest.mark.spec("DIA-1")
def test_a_line_for_each_parent_and_each_exclusion_is_drawn_with_its_ends() -> None:
    tools = ToolSet("lines")
    for path in ("a", "a.b", "c", "d", "e"):
        tools.register_group(path)
    tools.register_exclusion("a", "c")
    tools.register_exclusion("c", "d", "e")
    root = ET.fromstring(structure(tools).svg or "")
    paths = {
        kind: [len(list(each)) for each in root.iter(f"{NAMESPACE}g") if each.get("class") == f"edge {kind}"]
        for kind in ("parent", "exclusion")
    }
    assert paths == {"parent": [1], "exclusion": [3, 2, 2, 2]}  # the line, and a bar at each group


def excluding(groups: int, seed: int) -> ToolSet:
    """Trees of up to three levels, and exclusions between groups of different trees: pairs, and larger sets."""
    random, tools, trees = Random(seed), ToolSet("lines"), list[list[str]]()
    for number in range(groups):
        if not trees or random.random() < 0.35:
            trees.append([f"g{number}"])
        else:
            above = random.choice([path for path in trees[-1] if path.count(".") < 2])
            trees[-1].append(f"{above}.g{number}")
        tools.register_group(trees[-1][-1], "What it is for, in a sentence that takes two lines or more of its box")
    for size in (*[2] * (groups // 2), *[3] * (groups // 10)):
        if len(trees) >= size:
            tools.register_exclusion(*(random.choice(tree) for tree in random.sample(trees, size)))
    return tools


def curve(path: str) -> Iterator[tuple[float, float]]:
    """Points of a path of cubic curves."""
    points = [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.e-]+),(-?[\d.e-]+)", path)]
    for start in range(0, len(points) - 1, 3):
        for t in (step / 40 for step in range(41)):
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
            part = list(zip(points[start : start + 4], weights, strict=True))
            yield sum(x * weight for (x, _), weight in part), sum(y * weight for (_, y), weight in part)


@pytest.mark.spec("DIA-1")
@pytest.mark.parametrize("groups", [5, 12, 30, 60])
def test_no_line_of_an_exclusion_runs_behind_a_box(groups: int) -> None:
    for seed in range(10):
        elements = list(ET.fromstring(structure(excluding(groups, seed)).svg or "").iter(f"{NAMESPACE}g"))
        nodes = [each for each in elements if each.get("class", "").startswith("node")]
        boxes = [box(rect) for rect in chain.from_iterable(each.iter(f"{NAMESPACE}rect") for each in nodes)]
        lines = [next(each.iter(f"{NAMESPACE}path")) for each in elements if each.get("class") == "edge exclusion"]
        assert lines or groups < 10
        for x, y in chain.from_iterable(curve(line.get("d", "")) for line in lines):
            behind = [one for one in boxes if one[0] + 1 < x < one[2] - 1 and one[1] + 1 < y < one[3] - 1]
            assert not behind, (seed, x, y)


@pytest.mark.spec("DIA-1")
async def test_a_sequence_has_all_its_texts_in_the_picture() -> None:
    for trace in (await switching(), await gates('a <b> & "c"')):
        picture = sequence(trace)
        root, shown = ET.fromstring(picture.svg or ""), squeezed("".join(texts_of(picture.svg or "")))
        assert {"on_activate", "committed:", "session"} <= {
            word for word in ("on_activate", "committed:", "session") if word in shown
        }
        whole = view(root)
        assert all(within(box(each), whole) for each in root.iter(f"{NAMESPACE}rect"))


@pytest.mark.spec("DIA-1")
def test_a_picture_says_what_it_shows_to_those_who_cannot_see_it() -> None:
    root = ET.fromstring(structure(somewhere(forest(3).catalog, 1)).svg or "")
    title, description = list(root)[:2]
    assert root.get("role") == "img"
    assert (title.tag, title.text) == (f"{NAMESPACE}title", "forest 1: structure")
    assert (description.tag, description.text) == (f"{NAMESPACE}desc", "3 groups, 0 tools; open: issue-2.")


@pytest.mark.spec("DIA-1")
def test_a_name_with_characters_that_xml_forbids_does_not_break_the_picture() -> None:
    tools = ToolSet(f"name {UNPRINTABLE}")
    assert "name two lines" in "".join(texts_of(structure(tools).rendered("svg").decode()))


@pytest.mark.spec("DIA-1")
@pytest.mark.usefixtures("no_program")
def test_nor_a_picture_that_graphviz_draws() -> None:
    tools = ToolSet(f"name {UNPRINTABLE}")
    svg = statechart(tools).rendered("svg").decode()
    texts_of(svg)
    assert "<title>name two lines" in svg


@pytest.mark.spec("DIA-1")
def test_the_same_state_gives_the_same_svg_and_a_page_may_have_it_twice() -> None:
    svg = structure(forest(5)).svg or ""
    assert svg == structure(forest(5)).svg
    page = embedded(svg) + embedded(svg)
    assert not re.findall(r'\sid="', page)
    assert page.count('data-id="root"') == 2


# Graphviz as WebAssembly


@pytest.mark.spec("DIA-1")
@pytest.mark.usefixtures("no_program")
@pytest.mark.parametrize(
    "picture",
    [transaction_chart(), region_chart(), statechart(forest(6)), reachable(forest(4))],
    ids=["transaction", "region", "statechart", "reachable"],
)
def test_svg_is_drawn_without_the_program(picture: Diagram) -> None:
    svg = picture.rendered("svg").decode()
    assert svg.startswith(f"<!-- {picture.stamp} -->\n<svg ")
    shown = "".join(texts_of(svg)).replace("\xa0", " ")
    labels = re.findall(r"label=(?:\"((?:[^\"\\]|\\.)*)\"|<((?:<[^<>]*>|[^<>])*)>)", picture.dot)
    lines = [line for plain, html in labels for line in re.split(r"\\n|<[^<>]*>", plain or html) if line.strip()]
    assert lines
    assert [line for line in lines if squeezed(line) not in squeezed(shown)] == []
    title, description = list(ET.fromstring(svg))[:2]
    assert (title.text, description.text or "") == (picture.title, picture.description)


@pytest.mark.spec("DIA-1")
@pytest.mark.usefixtures("no_program")
def test_labels_of_arrows_have_a_ground_without_the_program_too() -> None:
    def grounds(picture: Diagram) -> int:
        return picture.rendered("svg").decode().count(f'fill="{GROUND}"/>')

    arrows = transaction_chart().dot.count(" -> ")
    assert grounds(transaction_chart()) == arrows - 1  # the initial arrow has no label
    assert grounds(statechart(forest(2))) == 0  # its labels stand on boxes


@pytest.mark.spec("DIA-1")
@pytest.mark.usefixtures("no_program")
def test_several_threads_may_draw() -> None:
    picture = transaction_chart()
    with ThreadPoolExecutor(4) as threads:
        drawn = set(threads.map(lambda _: picture.rendered("svg"), range(80)))
    assert drawn == {picture.rendered("svg")}


@pytest.mark.spec("DIA-1")
@pytest.mark.usefixtures("no_program")
def test_what_it_cannot_draw_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError, match=r"could not draw 'broken': Failed to parse"):
        Diagram("broken", "digraph {").rendered("svg")
