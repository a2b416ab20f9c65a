"""The page in a real browser: driven by its own buttons, it does what the core does, and nothing that it must not."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from attrs import frozen

from tests.diagrams.pages import HOSTILE, HOSTILE_PATHS, after, answer, hostile, large, scattered, wandered
from tests.diagrams.support import hostile as broken_texts
from tests.external.browser import Browser
from toolfold import Component, Snapshot, ToolfoldError, ToolSet, TransitionRequest, Visibility
from toolfold._view.listing import listed
from toolfold._view.visibility import RequestView
from toolfold_adapters.tokens import cost
from toolfold_diagrams import page
from toolfold_diagrams.diagram import Source

SIZES = ((1400, 900), (900, 700), (390, 844))
Job = tuple[Source, Sequence[Sequence[Any]], dict[str, Any]]


@frozen
class Pages:
    """Pages in a browser; each must ask for nothing but itself, complain of nothing, and open no dialog."""

    browser: Browser
    folder: Path

    def opened(self, *jobs: Job) -> list[list[Any]]:
        """Return what the steps of each job give."""
        return [said["results"] for said in self.said(*jobs)]

    def said(self, *jobs: Job) -> list[dict[str, Any]]:
        return self.of_texts(*((page(source), steps, how) for source, steps, how in jobs))

    def of_texts(self, *jobs: tuple[str, Sequence[Sequence[Any]], dict[str, Any]]) -> list[dict[str, Any]]:
        files = [self.folder / f"{number}.html" for number in range(len(jobs))]
        for file, (text, _, _) in zip(files, jobs, strict=True):
            file.write_text(text)
        urls = [file.as_uri() for file in files]
        said = self.browser.do(
            *({"url": url, "steps": steps, **how} for url, (_, steps, how) in zip(urls, jobs, strict=True))
        )
        assert [each["requests"] for each in said] == [[url] for url in urls]
        assert [each["complaints"] for each in said] == [[]] * len(jobs)
        return said


@pytest.fixture
def pages(browser: Browser, tmp_path: Path) -> Pages:
    return Pages(browser, tmp_path)


def tools_in(snapshot: Snapshot) -> tuple[Component, ...]:
    return listed(RequestView(snapshot), "tool")


# Walks


def pressed(start: Snapshot, seed: int, length: int) -> tuple[list[int], list[dict[str, Any]]]:
    """Random presses of groups' buttons, and what the page must show after each."""
    random = Random(seed)
    numbers: list[int] = []
    shown: list[dict[str, Any]] = []
    snapshot = start
    for _ in range(length):
        number = _chosen(random, snapshot)
        path = snapshot.catalog.groups[number].path
        moved, error = after(snapshot, path)
        numbers.append(number)
        shown.append(expected(snapshot, moved, path, error))
        snapshot = moved
    return numbers, shown


def _chosen(random: Random, snapshot: Snapshot) -> int:
    """A group whose button is pressed: of two times, once one that is not locked or active already."""
    numbers = range(len(snapshot.catalog.groups))
    inactive = [number for number in numbers if snapshot.configuration.state(number).value == "inactive"]
    return random.choice(inactive if inactive and random.random() < 0.5 else numbers)


def expected(before: Snapshot, moved: Snapshot, path: str, error: ToolfoldError | None) -> dict[str, Any]:
    """What the page must show after a press."""
    was, names = [{snapshot.catalog.spoken(spec.name) for spec in tools_in(snapshot)} for snapshot in (before, moved)]
    spent, spends = [cost(tools_in(snapshot)) for snapshot in (before, moved)]
    more = f"{spends - spent:+,}".replace("-", "−") if spends != spent else "the same"
    return {
        "states": [moved.configuration.state(number).word for number in range(len(moved.catalog.groups))],
        "displaced": [other for other in before.active if not moved.is_active(other) and other != path],
        "error": type(error).__name__ if error else "",
        "refusal": f"{type(error).__name__} {error}" if error else "",
        "listed": sorted(names),
        "added": sorted(names - was),
        "removed": sorted(was - names),
        "cost": f"~{spent:,} → {spends:,} token{'' if spends == 1 else 's'} listed ({more})",
    }


@pytest.mark.spec("DIA-1", "DIA-2", "DIA-3", "ACT-2", "ACT-4", "ACT-6", "ACT-8", "ACT-10", "VIS-5", "LST-1")
def test_random_presses_of_its_buttons_give_what_the_core_gives(pages: Pages) -> None:
    starts = [Snapshot.of(scattered(seed).catalog) for seed in range(9)]
    starts += [wandered(scattered(seed), seed, 25)[-1] for seed in range(3)]
    walks = [pressed(start, seed, 40) for seed, start in enumerate(starts)]
    shown = pages.opened(*((start, [["walk", numbers]], {}) for start, (numbers, _) in zip(starts, walks, strict=True)))
    for (_, must), (does,) in zip(walks, shown, strict=True):
        assert does == must
    steps = [step for _, must in walks for step in must]
    assert {step["error"] for step in steps} == {"", "ParentInactive", "QuotaExceeded"}
    assert sum(bool(step["displaced"]) for step in steps) > len(steps) / 10
    assert sum(bool(step["added"] and step["removed"]) for step in steps) > len(steps) / 10


@pytest.mark.spec("DIA-2")
def test_a_wrong_table_in_the_page_is_detected(pages: Pages) -> None:
    start = Snapshot.of(scattered(2).catalog)
    numbers, must = pressed(start, 2, 40)
    row = '{{"guard":"","target":"{}","effect":"{}","emits":[{}]}}'
    left = '{"event":"ancestor deactivated","to":"descendants"}'
    right, wrong = row.format("inactive", "tear down", left), row.format("active", "nothing", "")
    text = page(start)
    assert text.count(f'"displaced":[{right}]') == 1
    broken = text.replace(f'"displaced":[{right}]', f'"displaced":[{wrong}]')
    (said,) = pages.of_texts((broken, [["walk", numbers]], {}))
    assert said["results"] != [must]


# What a reader does


def office() -> ToolSet:
    """A small tool set with a bit of everything."""
    tools = ToolSet("office", control_visibility="relevant")
    tools.register_group("mail", "Letters to and from people", title="Post")
    tools.register_group("send", "Send what was written", parent="mail")
    tools.register_group("spam", "What nobody asked for", parent="mail")
    tools.register_group("files", "Papers in drawers", on_activate=answer, transient=True)
    tools.register_exclusion("mail.send", "files")
    schema = {"type": "object", "properties": {"10": {"type": "integer", "maximum": 2**63}, "9": {"default": 1.0}}}
    tools.register("letter", answer, description="Write a <b>letter</b>", group="mail", input_schema=schema)
    tools.register("search", answer, description="Find a paper", group="files")
    tools.register("secret", answer, group="files", hidden=True)
    tools.register("print", answer, group="files", visibility=Visibility.when(lambda view: True))
    tools.register("ping", answer, description="Answer at once")
    return tools


ROWS = "[role=treeitem] .name"
ALL = ["In no group", "files", "mail", "send", "spam"]


@pytest.mark.spec("DIA-1")
def test_search_shows_the_groups_and_tools_that_have_a_text(pages: Pages) -> None:
    searches = ["PAPER", "letter", "nothing like it", "mail.se", ""]
    steps = [step for text in searches for step in (["fill", "#search", text], ["shown", ROWS], ["texts", "#found"])]
    (said,) = pages.opened((office(), steps, {}))
    assert said[1::3] == [["files"], ["mail"], [], ["mail", "send"], ALL]
    assert [text for (text,) in said[2::3]][:3] == [
        "1 group, 2 tools found",
        "1 group, 2 tools found",
        "0 groups, 0 tools found",
    ]


@pytest.mark.spec("DIA-1")
def test_a_search_for_tools_filters_the_tools_of_the_chosen_group(pages: Pages) -> None:
    tools = "#detail .tools .name"
    steps = [["click", "[data-node='0']"], ["texts", tools], ["fill", "#search", "find a"], ["texts", tools]]
    (said,) = pages.opened((office(), steps, {}))
    everything = ["files.close", "files.open", "files.print", "files.search", "files.secret"]
    assert said[1::2] == [everything, ["files.search"]]


@pytest.mark.spec("DIA-1")
def test_groups_fold_by_mouse_and_by_button(pages: Pages) -> None:
    expanded = ["attributes", "[data-node='1']", "aria-expanded"]
    steps = [
        *(["shown", ROWS], expanded, ["click", "[data-node='1'] .fold"], ["shown", ROWS], expanded),
        *(["click", "#expand"], ["shown", ROWS], ["click", "#collapse"], ["shown", ROWS]),
    ]
    (said,) = pages.opened((office(), steps, {}))
    folded = ["In no group", "files", "mail"]
    assert [result for result in said if result is not None] == [ALL, ["true"], folded, ["false"], ALL, folded]


@pytest.mark.spec("DIA-1")
def test_the_tree_can_be_used_with_only_the_keyboard(pages: Pages) -> None:
    focused = ["evaluate", "document.activeElement.dataset.node ?? document.activeElement.id"]
    keys = [
        *("ArrowDown", "ArrowDown", "Space", "ArrowRight", "Space", "ArrowLeft", "ArrowLeft", "ArrowRight", "End"),
        *("Home", "ArrowUp", "ArrowDown", "Enter"),
    ]
    steps: list[list[Any]] = [["click", "#search"], ["press", "Tab"], focused]
    steps += [step for key in keys for step in (["press", key], focused)]
    steps += [["texts", "#detail h2"], ["attributes", "[aria-selected=true]", "aria-label"], ["texts", "#history li"]]
    steps += [["attributes", "[role=treeitem]", "tabindex"]]
    tools = office()
    (said,) = pages.opened((tools, steps, {}))
    went = ["-1", "0", "1", "1", "2", "2", "1", "1", "1", "3", "-1", "-1", "0", "0"]
    assert said[2 : 2 * len(keys) + 3 : 2] == went
    chosen, labels, history, stops = said[-4:]
    tokens = cost(tools.catalog.tools[name] for name in ("files.search", "files.print"))
    assert (chosen, labels) == (["files"], [f"files, closed, 3 tools · ~{tokens} tokens"])
    assert [line.split(" · ")[0] for line in history] == ["Opened mail.send", "Opened mail", "Start"]
    assert stops.count("0") == 1


@pytest.mark.spec("DIA-1")
def test_a_tool_shows_its_schema_unchanged_and_its_tokens(pages: Pages) -> None:
    tools = office()
    letter = tools.catalog.tools["mail.letter"]
    inside = "#detail [data-tool='mail.letter']"
    steps = [
        *(["click", "[data-node='1']"], ["count", f"{inside} pre"], ["unfold", inside]),
        *(["texts", f"{inside} h4"], ["texts", f"{inside} pre"], ["texts", f"{inside} p"]),
    ]
    (said,) = pages.opened((tools, steps, {}))
    assert said[1] == 0
    assert said[3] == ["inputSchema"]
    assert said[4] == [json.dumps(letter.input_schema, indent=2)]
    assert said[5] == ["Write a <b>letter</b>", f"Listed: while mail is open. About {cost([letter])} tokens."]


@pytest.mark.spec("DIA-1")
def test_a_group_shows_its_exclusions_and_which_tools_are_listed_hidden_or_decided_by_the_program(
    pages: Pages,
) -> None:
    standings = ["texts", "#detail .standing"]
    steps = [
        *(["click", "[data-node='0']"], ["texts", "#detail .chips .chip"], standings, ["click", "#switch"], standings),
        *(["unfold", "[data-tool='files.print']"], ["texts", "[data-tool='files.print'] .notice"]),
        ["texts", "#figure-tools"],
    ]
    (said,) = pages.opened((office(), steps, {}))
    assert said[1] == ["excludes mail.send", "runs hooks", "not stored"]
    assert said[2] == ["not listed", "listed", "not listed", "not listed", "hidden"]
    assert said[4] == ["listed", "not listed", "depends on the program", "listed", "hidden"]
    assert "depends on the state of the program" in said[6][0]
    assert said[7] == ["4 tools; 4 listed, 1 more depends"]


@pytest.mark.spec("DIA-1", "DIA-3")
def test_steps_are_undone_one_by_one_or_all(pages: Pages) -> None:
    start = Snapshot.of(office().catalog).after(TransitionRequest(("mail", "mail.send")))
    seen = [["texts", ".state"], ["texts", ".tag"], ["texts", "#step .cost"], ["count", "#history li"]]
    buttons = ["[data-node='0'] .switch", "[data-node='1'] .switch", "[data-node='3'] .switch", "#back", "#back"]
    steps = [
        *seen,
        *(step for button in buttons for step in (["click", button], *seen)),
        ["attributes", "#back", "disabled"],
    ]
    again = [["click", "#restart"], *seen, ["attributes", "#restart", "disabled"]]
    (said,) = pages.opened((start, [*steps, *again], {}))
    views = [said[at : at + 4] for at in range(0, 5 * 6, 5)]
    began, made_room, left, refused = views[:4]
    assert began[0] == ["closed", "open", "open", "closed"]
    assert (made_room[0], made_room[1][1:]) == (
        ["open", "open", "closed", "closed"],
        ["opened", "", "displaced", ""],
    )
    assert left[0] == refused[0] == ["open", "closed", "locked", "locked"]
    assert refused[1][-1] == "refused"
    assert views[4:] == [left, made_room]
    assert said[29] == [None]
    assert [*said[31:35], said[35]] == [*began, [""]]


# What it must bear


@pytest.mark.spec("DIA-1")
def test_hostile_texts_are_shown_literally_and_nothing_of_them_runs(pages: Pages) -> None:
    tools = hostile()
    steps: list[list[Any]] = [["texts", "h1"], ["evaluate", "document.title"]]
    for number in range(len(HOSTILE_PATHS)):
        steps += [["click", f"[data-node='{number}'] .name"], ["click", "#switch"], ["unfold", "#detail details"]]
        steps += [["texts", "#detail .text, #detail .title, #detail h2"], ["texts", "#detail pre"]]
    steps += [["count", "body :is(img, b, iframe, a, style, svg)"], ["count", "script"], ["overflow"]]
    schemas = {
        json.dumps(spec.input_schema, indent=2, ensure_ascii=False)
        for spec in tools.catalog.tools.values()
        if spec.group and not spec.control
    }
    for said in pages.opened((tools, steps, {}), (tools, steps, {"width": 390})):
        assert said[:2] == [[HOSTILE[0]], HOSTILE[0]]
        assert {*HOSTILE, *HOSTILE_PATHS} <= {text for texts in said[5:-3:5] for text in texts}
        assert schemas <= {text for texts in said[6:-3:5] for text in texts}
        assert said[-3:] == [0, 2, []]


@pytest.mark.spec("DIA-1")
def test_its_policy_blocks_injected_scripts_and_requests(pages: Pages) -> None:
    got_in = "<script>document.title = 1</script><img src='https://toolfold.invalid/' onerror='document.title = 1'>"
    file = pages.folder / "page.html"
    file.write_text(page(office()).replace("<main>", f"<main>{got_in}"))
    markup = "try { document.body.innerHTML = '<p>x</p>' } catch (error) { error.name }"
    steps = [["evaluate", "document.title"], ["evaluate", markup], ["count", "[role=treeitem]"]]
    (said,) = pages.browser.do({"url": file.as_uri(), "steps": steps})
    assert said["results"] == ["office", "TypeError", len(ALL)]
    assert {"script-src-elem", "script-src-attr", "img-src", "require-trusted-types-for"} <= set(said["complaints"])


@pytest.mark.spec("DIA-1")
def test_three_hundred_groups_with_five_thousand_tools_are_shown_and_searched(pages: Pages) -> None:
    search = """
        const begun = performance.now();
        document.querySelector("#search").value = "item 4711 ";
        document.querySelector("#search").dispatchEvent(new Event("input"));
        performance.now() - begun;
    """
    press = "{ const begun = performance.now(); document.querySelector('#switch').click(); performance.now() - begun }"
    steps = [
        ["count", "[role=treeitem]"],
        ["evaluate", search],
        ["shown", ROWS],
        ["evaluate", press],
        ["texts", ".outcome"],
    ]
    start = large()
    (said,) = pages.said((start, steps, {}))
    rows, searched, found, switched, announced = said["results"]
    assert rows == 300
    (place,) = [spec.group for spec in start.catalog.tools.values() if spec.name.endswith(".t4711")]
    assert found == str(place).split(".")
    assert announced == ["Closed service-0"]
    print(f"opened in {said['opened']:.0f} ms, searched in {searched:.0f} ms, a press took {switched:.0f} ms")


@pytest.mark.spec("DIA-1")
@pytest.mark.parametrize("make", [office, hostile, broken_texts], ids=["office", "hostile", "broken"])
def test_nothing_is_wider_than_its_place_on_any_screen(pages: Pages, make: Callable[[], ToolSet]) -> None:
    seen = [["click", "[data-node='0'] .name"], ["unfold", "#detail details"], ["unfold", "#now"], ["overflow"]]
    steps = [["click", "[data-node='0'] .switch"], *seen, ["click", "[data-node='3'] .switch"], ["overflow"]]
    jobs = [(make(), steps, {"width": width, "height": height}) for width, height in SIZES]
    assert [(said[4], said[-1]) for said in pages.opened(*jobs)] == [([], [])] * len(SIZES)
