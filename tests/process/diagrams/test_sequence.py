"""The sequence view: every entry of a trace is drawn, in order, and nothing overlaps or breaks the picture."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import combinations, pairwise
from typing import Any

import pytest

from tests.diagrams.support import HOSTILE, Drawn, dot, squeezed, texts_of
from tests.diagrams.traces import RandomRequests, crossing, gates, recorded, switching
from toolfold import ConfigError
from toolfold_diagrams import Trace, sequence
from toolfold_diagrams.interaction import Bar, Interaction, Lifeline, Look, Message, Note, Role
from toolfold_diagrams.trace import Asked, Entry, HookBegan, Noted, SessionOpened

Scenario = Callable[[], Awaitable[Trace]]


async def random_trace(seed: int) -> Trace:
    requests = RandomRequests(seed)
    return await recorded(requests.tools(), requests.play)


async def hostile() -> Trace:
    return await gates(*HOSTILE)


TRACES: Mapping[str, Scenario] = {
    "switching": switching,
    "crossing": crossing,
    "gates": gates,
    "hostile": hostile,
    **{f"random {seed}": partial(random_trace, seed) for seed in range(3)},
}
every_trace = pytest.mark.parametrize("scenario", TRACES.values(), ids=TRACES.keys())


def received(interaction: Interaction) -> list[str]:
    """The rows in short: from whom, to whom, and what."""

    def short(line: Lifeline) -> str:
        return f"{line.role.name.lower()} {line.name}".strip()

    arrows = {Look.CALL: "->", Look.REPLY: "-->", Look.SIGNAL: "~>", Look.FAILED: "-x"}
    lines = list[str]()
    for row in interaction.rows:
        match row:
            case Message():
                lines.append(f"{short(row.tail)} {arrows[row.look]} {short(row.head)}: {row.text}".rstrip(": "))
            case Note():
                lines.append(
                    f"{short(row.over)}: {row.text}" + (f" ({row.look.value})" if row.look is not Look.PLAIN else "")
                )
            case Bar():
                pass
    return lines


# What is drawn


@pytest.mark.spec("DIA-1")
async def test_a_switch_is_drawn_from_the_call_to_its_answer() -> None:
    rows = received(Interaction.of(await switching()))
    assert rows[rows.index("caller s -> session s: call b.open") :][:32] == [
        "caller s -> session s: call b.open",
        "session s -> session s: open b",
        "session s: planned: +b −a",
        "session s -> hooks a: on_deactivate",
        "hooks a --> session s",
        "session s -> hooks b: on_activate",
        "hooks b -x session s: ✗ RuntimeError: +b",
        "session s -> hooks a: on_activate, undoes on_deactivate",
        "hooks a -x session s: ✗ RuntimeError: undo +a",
        "session s: rolled back: nothing has changed (failed)",
        "session s -x session s: ✗ HookFailed",
        "session s --> caller s: an error result",
        "caller s -> session s: call b.open",
        "session s -> session s: open b",
        "session s: planned: +b −a",
        "session s -> hooks a: on_deactivate",
        "hooks a --> session s",
        "session s -> hooks b: on_activate",
        "hooks b --> session s",
        "session s: committed: +b −a (done)",
        "session s ~> listeners: lists changed: tool",
        "session s --> caller s: result",
        "caller s -> session s: open b",
        "session s: nothing to change",
        "session s --> caller s: unchanged",
        "caller s -> session s: open b.z.no",
        "session s -x caller s: ✗ GroupNotFound: There is no group 'b.z.no'. Did you mean 'b.z'?",
        "caller s -> session s: close",
        "session s: planned: −b",
        "session s -> hooks b: on_deactivate",
        "hooks b --> session s",
        "session s: committed: −b (done)",
    ]


@pytest.mark.spec("DIA-1", "SES-2", "HOOK-8", "HOOK-7")
async def test_concurrent_sessions_are_drawn_side_by_side_and_requests_of_a_hook_start_at_the_hook() -> None:
    interaction = Interaction.of(await crossing())
    rows = received(interaction)
    assert interaction.lifelines[:4] == tuple(
        Lifeline(role, name) for name in ("one", "two") for role in (Role.CALLER, Role.SESSION)
    )
    waiting = rows.index("session one: waits for its turn")
    assert rows[waiting - 1] == "caller one -> session one: open c"
    assert waiting < rows.index("session one: committed: +a (done)") < rows.index("session one: planned: +c")
    forced = rows.index("caller two -> session two: close a [force]")
    assert "session two: committed: −a; 1 failed hook passed over (done)" in rows[forced:]
    reach = rows.index("hooks a.x -> session two: open b")
    assert rows[reach - 1] == "session one -> hooks a.x: on_activate"
    assert rows.index("session two --> hooks a.x: changed") < rows.index("hooks a.x --> session one")
    again = rows.index("hooks a.y -> session one: open b")
    assert rows[again + 1].startswith("session one -x hooks a.y: ✗ ReentrantTransition: ")
    assert "waits" not in rows[again + 1]


@pytest.mark.spec("DIA-1", "SES-6")
async def test_a_group_that_an_event_opens_is_drawn_below_the_event() -> None:
    rows = received(Interaction.of(await gates("no way")))
    observed = rows.index("caller no way -> session no way: call observe")
    assert rows[observed + 1 : observed + 7] == [
        "session no way -> session no way: on success of observe",
        "session no way -> session no way: open door0",
        "session no way: planned: +door0",
        "session no way -> hooks door0: on_activate",
        "hooks door0 -x session no way: ✗ ToolError: no way",
        "session no way: rolled back: nothing has changed (failed)",
    ]
    assert "session no way -> session no way: open gate" in rows
    assert rows[-1] == "session no way --> caller no way"
    assert "tools gates: lists announced: tool" in rows


@pytest.mark.spec("DIA-1", "HOOK-3", "HOOK-5")
@pytest.mark.parametrize("seed", range(8))
async def test_the_hooks_in_both_pictures_are_those_that_ran_from_top_to_bottom(seed: int) -> None:
    requests = RandomRequests(seed)
    trace = await recorded(requests.tools(), requests.play)
    signs = {"on_activate": "+", "on_deactivate": "-", "on_rollback": "~"}

    def line(group: str, text: str) -> str:
        phase, _, undoes = text.partition(", undoes ")
        return f"{'undo ' if undoes else ''}{signs[phase]}{group}"

    interaction = Interaction.of(trace)
    rows = interaction.rows
    calls = {
        f"row_{number}": row
        for number, row in enumerate(rows)
        if isinstance(row, Message) and row.head.role is Role.HOOKS
    }
    assert [line(row.head.name, row.text) for row in calls.values()] == requests.journal.lines
    picture = sequence(trace)
    drawn = Drawn.of(picture.dot)
    places = {key: position(drawn.nodes[f"{key}_right"]) for key in calls}
    columns = {f"head_{number}": name for number, name in enumerate(interaction.lifelines)}
    heads = {round(position(drawn.nodes[key])[0]): name.name for key, name in columns.items()}
    from_top = sorted(places, key=lambda key: -places[key][1])
    assert [line(nearest(heads, places[key][0]), calls[key].text) for key in from_top] == requests.journal.lines
    in_mermaid = re.findall(r"^  session_\d+->>(hooks_\d+): (.*)$", picture.mermaid or "", re.MULTILINE)
    names = dict(re.findall(r"^  participant (hooks_\d+) as hooks of<br/>(.*)$", picture.mermaid or "", re.MULTILINE))
    lines = [line(decoded(names[one]).replace("\n", ""), decoded(text).replace("\n", " ")) for one, text in in_mermaid]
    assert picture.mermaid is None or lines == requests.journal.lines


def decoded(text: str) -> str:
    return re.sub(r"#(\d+);", lambda code: chr(int(code[1])), text.replace("<br/>", "\n"))


def position(node: Mapping[str, Any]) -> tuple[float, float]:
    x, y = map(float, node["pos"].split(","))
    return x, y


def nearest(heads: Mapping[int, str], x: float) -> str:
    return heads[min(heads, key=lambda at: abs(at - x))]


# How it is drawn


def boxes(drawn: Drawn, interaction: Interaction) -> tuple[dict[int, tuple[float, float, float, float]], list[float]]:
    """The rectangles of labels and notes by their rows, in points, and where the lifelines are."""
    found: dict[int, tuple[float, float, float, float]] = {}
    for number, row in enumerate(interaction.rows):
        node = drawn.nodes.get(f"row_{number}")
        if node is not None and not isinstance(row, Bar):
            x, y = position(node)
            width, height = float(node["width"]) * 36, float(node["height"]) * 36
            found[number] = (x - width, y - height, x + width, y + height)
    return found, [position(drawn.nodes[f"head_{number}"])[0] for number in range(len(interaction.lifelines))]


@pytest.mark.spec("DIA-1")
@every_trace
async def test_no_text_lies_on_another_or_on_a_lifeline_that_it_does_not_belong_to(scenario: Scenario) -> None:
    trace = await scenario()
    interaction = Interaction.of(trace)
    drawn = Drawn.of(sequence(trace).dot)
    found, columns = boxes(drawn, interaction)
    texts = [row for row in interaction.rows if not isinstance(row, Bar) and row.text]
    assert len(found) == len(texts)
    below = sorted(found.values(), key=lambda box: -box[3])
    assert all(upper[1] >= lower[3] - 0.5 for upper, lower in pairwise(below))
    for number, (left, _, right, _) in found.items():
        crossed = [x for x in columns if left < x < right]
        row = interaction.rows[number]
        own = columns[interaction.lifelines.index(row.over)] if isinstance(row, Note) else None
        assert crossed == ([] if own is None else [own])
    heads = [drawn.nodes[f"head_{number}"] for number in range(len(columns))]
    spans = [(position(one)[0], float(one["width"]) * 36) for one in heads]
    assert all(abs(one[0] - two[0]) > one[1] + two[1] for one, two in combinations(spans, 2))


@pytest.mark.spec("DIA-1")
@every_trace
async def test_arrows_go_down_the_page_from_lifeline_to_lifeline(scenario: Scenario) -> None:
    trace = await scenario()
    interaction = Interaction.of(trace)
    drawn = Drawn.of(sequence(trace).dot)
    _, columns = boxes(drawn, interaction)
    line_of = dict(zip(interaction.lifelines, columns, strict=True))
    joined = {(tail, head) for tail, head, _ in drawn.edges}
    height = float("inf")
    for number, row in enumerate(interaction.rows):
        if isinstance(row, Message) and row.tail != row.head:
            rightwards = line_of[row.tail] < line_of[row.head]
            ends = ("left", "right") if rightwards else ("right", "left")
            assert (f"row_{number}_{ends[0]}", f"row_{number}_{ends[1]}") in joined
            for end, line in zip(ends, (row.tail, row.head), strict=True):
                x, y = position(drawn.nodes[f"row_{number}_{end}"])
                assert abs(x - line_of[line]) < 30
                assert y < height
            height = position(drawn.nodes[f"row_{number}_left"])[1]


@pytest.mark.spec("DIA-1")
@every_trace
async def test_every_text_is_literally_in_the_svg_and_nothing_else_gets_in(scenario: Scenario) -> None:
    trace = await scenario()
    svg = dot(sequence(trace).dot, "svg")
    shown = squeezed("".join(texts_of(svg)))
    for row in Interaction.of(trace).rows:
        if not isinstance(row, Bar):
            assert squeezed(row.text)[:20] in shown or not row.text.isprintable()
    assert "<script" not in svg
    assert "onload" not in re.sub(r">[^<]*<", "><", svg)


@pytest.mark.spec("DIA-1")
@every_trace
async def test_the_mermaid_text_has_the_same_rows_and_bars_that_open_and_close(scenario: Scenario) -> None:
    trace = await scenario()
    interaction = Interaction.of(trace)
    text = sequence(trace).mermaid
    assert text is not None
    head, *lines = text.splitlines()
    assert head == "sequenceDiagram"
    participants, rows = lines[: len(interaction.lifelines)], lines[len(interaction.lifelines) :]
    assert all(re.fullmatch(r"  participant \w+ as \S.*", line) for line in participants)
    form = r"  (\w+(->>|-->>|-\)|--x)\w+: .*|Note over \w+: .*|activate \w+|deactivate \w+)"
    assert all(re.fullmatch(form, line) for line in rows)
    assert len(rows) == len(interaction.rows)
    active: dict[str, int] = {}
    for line in rows:
        verb, _, name = line.strip().partition(" ")
        if verb in ("activate", "deactivate"):
            active[name] = active.get(name, 0) + (1 if verb == "activate" else -1)
            assert active[name] >= 0
    assert not any(active.values())
    assert not re.search(r'[<>{}\[\]"`;%]', re.sub(r"<br/>|#\d+;|-->>|->>", "", "\n".join(rows)))


@pytest.mark.spec("DIA-1")
def test_an_empty_trace_is_drawn_too() -> None:
    picture = sequence(Trace("quiet"))
    assert [each for each in Drawn.of(picture.dot).nodes if each.startswith("row")] == ["row_0"]
    assert "nothing happened" in (picture.mermaid or "")


@pytest.mark.spec("DIA-1")
def test_an_incomplete_trace_closes_its_bars() -> None:
    entries: tuple[Entry, ...] = (
        SessionOpened(session="s"),
        Asked(request=1, session="s", what="transition", activate=("g",)),
        HookBegan(request=1, group="g", phase="on_activate"),
    )
    picture = sequence(Trace("short", entries))
    assert (picture.mermaid or "").count("  activate") == (picture.mermaid or "").count("  deactivate") == 2
    Drawn.of(picture.dot)


@pytest.mark.spec("DIA-1")
def test_a_trace_that_is_too_long_for_mermaid_has_no_mermaid_form() -> None:
    picture = sequence(Trace("long", tuple(Noted(text="something was said") for _ in range(2000))))
    assert picture.mermaid is None
    with pytest.raises(ConfigError, match="use one of"):
        picture.render("long.mmd")


@pytest.mark.spec("DIA-1")
def test_a_malicious_stored_trace_does_no_harm() -> None:
    entries = [entry for number, text in enumerate(HOSTILE) for entry in _hostile_entries(number, text)]
    trace = Trace.load(json.loads(json.dumps({"version": 1, "trace": HOSTILE[1], "entries": entries})))
    picture = sequence(trace)
    shown = squeezed("".join(texts_of(dot(picture.dot, "svg"))))
    assert squeezed(HOSTILE[0]) in shown
    assert len((picture.mermaid or "").splitlines()) == 1 + len(Interaction.of(trace).lifelines) + len(
        Interaction.of(trace).rows
    )


@pytest.mark.spec("DIA-1")
@pytest.mark.parametrize("text", ["", "  ", "\u202e", "\ud800"])
def test_unprintable_texts_leave_a_picture(text: str) -> None:
    trace = Trace.load({"version": 1, "trace": text, "entries": _hostile_entries(0, text)})
    picture = sequence(trace)
    assert {*Drawn.of(picture.dot).nodes} >= {"head_0", "row_0"}
    assert all(re.search(r"\S+ *$", line) for line in (picture.mermaid or "").splitlines())
    assert "Note over tools_2: #8230;" in (picture.mermaid or "")


def _hostile_entries(number: int, text: str) -> list[dict[str, Any]]:
    asked = {"entry": "Asked", "request": number, "session": text, "what": "transition", "activate": [text]}
    return [
        asked,
        {"entry": "Planned", "request": number, "activated": [text]},
        {"entry": "HookBegan", "request": number, "group": text, "phase": text, "undoes": text},
        {"entry": "HookEnded", "request": number, "error": text, "problem": text},
        {"entry": "Ended", "request": number, "error": text, "problem": text},
        {"entry": "ListChanged", "session": text, "kinds": [text], "listeners": 2},
        {"entry": "Noted", "text": text},
    ]
