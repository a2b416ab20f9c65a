"""The structure view: what is in the picture is what is in the catalog, in the state of the snapshot."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest

from tests.diagrams.support import (
    EXAMPLES,
    HOSTILE,
    NAMES,
    Drawn,
    dot,
    example,
    forest,
    hostile,
    partners,
    somewhere,
    squeezed,
    states,
    texts_of,
)
from toolfold import Catalog, Group, Snapshot, ToolSet, TransitionRequest
from toolfold_diagrams import structure
from toolfold_diagrams.palette import LOOKS
from toolfold_diagrams.text import identifier, printable


def shown(drawn: Drawn, path: str) -> str:
    """What is written in the box of a group."""
    return squeezed("".join(str(each.get("text", "")) for each in drawn.nodes[path].get("_ldraw_", [])))


def excluded(drawn: Drawn) -> set[frozenset[str]]:
    """The pairs of groups that are joined by a line, or to one box."""
    ends = drawn.joined("exclusion")
    direct = {frozenset(pair) for pair in ends if pair[1] in drawn.of_class("group")}
    boxes: dict[str, list[str]] = {}
    for member, box in ends:
        boxes.setdefault(box, []).append(member)
    around = (members for box, members in boxes.items() if box not in drawn.of_class("group"))
    return direct | {frozenset(pair) for members in around for pair in combinations(members, 2)}


# What is drawn


@pytest.mark.spec("DIA-1", "DIA-2")
@pytest.mark.parametrize("catalog", [*map(example, EXAMPLES), hostile().catalog, forest(80, 300, seed=4).catalog])
def test_the_boxes_are_the_groups_and_the_lines_are_their_parents_and_exclusions(catalog: Catalog) -> None:
    drawn = Drawn.of(structure(catalog).dot)
    assert set(drawn.of_class("group")) == {group.path for group in catalog.groups}
    assert sorted(drawn.joined("parent")) == sorted((g.parent, g.path) for g in catalog.groups if g.parent is not None)
    assert excluded(drawn) == partners(catalog)
    ids = [each["id"] for each in (*drawn.nodes.values(), *(edge for _, _, edge in drawn.edges))]
    assert len(ids) == len(set(ids))
    assert {identifier("group", group.path) for group in catalog.groups} <= set(ids)


@pytest.mark.spec("DIA-1", "DIA-3")
@pytest.mark.parametrize("seed", range(6))
def test_every_group_has_its_state_of_the_machine_as_class_and_mark(seed: int) -> None:
    snapshot = somewhere(forest(30, seed=seed).catalog, seed)
    drawn = Drawn.of(structure(snapshot).dot)
    received = {path: each["class"].split()[1] for path, each in drawn.of_class("group").items()}
    assert received == states(snapshot)
    marks = {state.value: look.mark for state, look in LOOKS.items()}
    assert {path: shown(drawn, path)[0] for path in received} == {
        path: marks[state] for path, state in received.items()
    }
    styles = {received[path]: (each["style"], each["fillcolor"]) for path, each in drawn.of_class("group").items()}
    assert len(set(styles.values())) == len(styles)


@pytest.mark.spec("DIA-3")
async def test_the_active_groups_of_a_session_are_highlighted() -> None:
    tools = forest(12, seed=3)
    roots = [group.path for group in tools.catalog.groups if group.parent is None]
    async with tools.open_session(active=roots[:1]) as session:
        drawn = Drawn.of(structure(session).dot)
        assert [path for path, each in drawn.of_class("group").items() if "active" in each["class"].split()] == roots[
            :1
        ]
        await session.deactivate(roots[0])
        assert structure(session) == structure(tools) == structure(tools.catalog)


@pytest.mark.spec("DIA-1")
def test_boxes_show_how_many_tools_a_group_has_and_how_many_are_below_it() -> None:
    catalog = forest(40, 200, seed=2).catalog
    drawn = Drawn.of(structure(catalog).dot)
    own = Counter(spec.group for spec in catalog.tools.values())
    for group in catalog.groups:
        below = sum(count for path, count in own.items() if path and path.startswith(f"{group.path}."))
        said = f"{own[group.path]}tool{'' if own[group.path] == 1 else 's'}"
        assert said + (f"+{below}below" if below else "") in shown(drawn, group.path)
    assert f"{own[None]}toolsatroot" in shown(drawn, ":root")


@pytest.mark.spec("DIA-1")
def test_what_is_special_about_a_group_is_written_in_its_box() -> None:
    tools = ToolSet("special", control="load_tool_group", max_active=2, evict="oldest")
    tools.register_group("plain")
    tools.register_group("hooked", on_activate=lambda: None)
    tools.register_group("opened", opens_on="observe")
    drawn = Drawn.of(structure(tools).dot)
    assert "hooks" in shown(drawn, "hooked")
    assert "opensonobserve" in shown(drawn, "opened")
    assert not {"hooks", "opens"} & {word for word in ("hooks", "opens") if word in shown(drawn, "plain")}
    assert "load_tool_groupopensgroups" in shown(drawn, ":root")
    assert "atmost2opengroups;theoldestgiveway" in shown(drawn, ":root")


@pytest.mark.spec("DIA-1")
def test_a_set_of_many_is_a_line_for_each_member_and_none_for_each_pair() -> None:
    tools = ToolSet("modes")
    for number in range(40):
        tools.register_group(f"mode_{number}")
    tools.register_exclusion(*(f"mode_{number}" for number in range(40)))
    drawn = Drawn.of(structure(tools).dot)
    assert len(drawn.joined("exclusion")) == 40
    assert len(excluded(drawn)) == 40 * 39 / 2


@pytest.mark.spec("DIA-1")
def test_an_empty_catalog_and_a_single_group_have_a_picture() -> None:
    assert not Drawn.of(structure(ToolSet("empty")).dot).of_class("group")
    one = ToolSet("one")
    one.register_group("web")
    assert list(Drawn.of(structure(one).dot).of_class("group")) == ["web"]


# How it looks


def rectangle(node: object) -> tuple[float, float, float, float]:
    assert isinstance(node, dict)
    x, y = map(float, node["pos"].split(","))
    width, height = float(node["width"]) * 36, float(node["height"]) * 36
    return x - width, y - height, x + width, y + height


@pytest.mark.spec("DIA-1")
@pytest.mark.parametrize(("groups", "depth"), [(300, 5), (300, 30), (300, 1), (40, 5)])
def test_boxes_do_not_overlap_and_the_picture_has_the_shape_of_a_page(groups: int, depth: int) -> None:
    drawn = Drawn.of(structure(forest(groups, depth=depth)).dot)
    boxes = sorted(rectangle(node) for node in drawn.nodes.values())
    for number, (_, bottom, right, top) in enumerate(boxes):
        for left, other_bottom, _, other_top in boxes[number + 1 :]:
            if left >= right:
                break
            assert other_bottom >= top or other_top <= bottom
    width = max(box[2] for box in boxes) - min(box[0] for box in boxes)
    height = max(box[3] for box in boxes) - min(box[1] for box in boxes)
    assert 0.5 < width / height < 2


@pytest.mark.spec("DIA-1")
def test_the_text_of_a_box_is_not_wider_than_the_box() -> None:
    drawn = Drawn.of(structure(forest(300)).dot)
    for node in drawn.of_class("group").values():
        left, _, right, _ = rectangle(node)
        spans = [(each["pt"][0], each["width"]) for each in node["_ldraw_"] if each["op"] == "T"]
        assert spans
        assert all(left <= start and start + width <= right for start, width in spans)


# Texts


@pytest.mark.spec("DIA-1")
def test_texts_that_may_break_or_inject_something_are_shown_literally() -> None:
    tools = ToolSet("texts", control="none")
    for number, text in enumerate(HOSTILE):
        tools.register_group(f"g{number}", text, title=text)
    drawn, svg = Drawn.of(structure(tools).dot), dot(structure(tools).dot, "svg")
    everything = squeezed("".join(texts_of(svg)))
    for number, text in enumerate(HOSTILE):
        said = squeezed(printable(text))
        assert shown(drawn, f"g{number}").count(said) >= (2 if len(said) < 24 else 1)
        assert everything.count(said) >= 1


@pytest.mark.spec("DIA-1", "NAM-1")
def test_names_that_are_words_of_dot_and_mermaid_are_groups_like_others() -> None:
    snapshot = somewhere(hostile().catalog, 5)
    picture = structure(snapshot)
    assert set(Drawn.of(picture.dot).of_class("group")) == set(NAMES)
    assert dot(picture.dot, "canon")
    assert picture.mermaid is not None
    declared = [line.split("[")[0].strip() for line in picture.mermaid.splitlines() if '["' in line]
    assert len(declared) == len(set(declared)) == len(NAMES) + 2  # root, and the box of an exclusion set


# Mermaid


@pytest.mark.spec("DIA-1", "DIA-3")
def test_the_mermaid_form_has_the_same_groups_lines_and_states() -> None:
    snapshot = somewhere(forest(30, seed=5).catalog, 2)
    text = structure(snapshot).mermaid
    assert text is not None
    ids = {group.path: identifier("group", group.path) for group in snapshot.catalog.groups}
    received = {line.split("[")[0].strip(): line.rpartition(":::")[2] for line in text.splitlines() if '["' in line}
    assert {path: received[key] for path, key in ids.items()} == states(snapshot)
    joined = [line.split(" --- ") for line in text.splitlines() if " --- " in line]
    pairs = [(above.strip(), key) for above, below in joined for key in below.split(" & ")]
    assert sorted(pairs) == sorted((ids[g.parent], ids[g.path]) for g in snapshot.catalog.groups if g.parent)
    assert text.count("x-.-x") == sum(len(members) == 2 for members in set(snapshot.catalog.exclusions))


@pytest.mark.spec("DIA-1")
def test_pictures_that_mermaid_cannot_draw_have_no_mermaid_form() -> None:
    assert structure(forest(300)).mermaid is not None
    assert structure(forest(800, seed=2)).mermaid is None


# Order


@pytest.mark.spec("DIA-1")
def test_the_order_of_registration_changes_no_byte() -> None:
    def made(names: list[str]) -> ToolSet:
        tools = ToolSet("order")
        for name in names:
            tools.register_group(name)
        tools.register_exclusion(*names)
        tools.register_exclusion(*names[:2])
        return tools

    assert structure(made(["a", "b", "c"])) == structure(made(["b", "a", "c"]))


@pytest.mark.spec("DIA-1", "DIA-2")
def test_a_change_of_the_catalog_changes_the_picture() -> None:
    tools = forest(5, seed=1)
    before = structure(tools)
    added: Group = tools.register_group("one_more")
    assert structure(tools) != before
    assert structure(Snapshot.of(tools.catalog).after(TransitionRequest(added.path))) != structure(tools)
