"""Every Mermaid text is drawn by Mermaid 11 and 12 in a browser, with all of its labels; nothing comes in by them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.core.support import Journal, desk
from tests.diagrams import support
from tests.external.browser import Browser
from tests.external.support import FOLDER
from toolfold_diagrams import (
    Diagram,
    Trace,
    reachable,
    region_chart,
    sequence,
    statechart,
    structure,
    tracing,
    transaction_chart,
)
from toolfold_diagrams.text import printable
from toolfold_diagrams.trace import Asked, Ended, Entry, HookBegan, HookEnded, Noted, SessionOpened

VERSIONS = ("mermaid-11", "mermaid-12")
TRUSTING = {"securityLevel": "loose"}
"""How to have Mermaid draw texts without cleaning what it makes of them."""

Picture = Callable[[], Diagram]


def pictures() -> dict[str, Picture]:
    """All views, of tool sets small and large."""
    made: dict[str, Picture] = {"transaction": transaction_chart, "region": region_chart}
    for module in support.EXAMPLES:
        catalog = support.example(module)
        name = module.rpartition(".")[2]
        made[f"structure of {name}"] = partial(structure, support.somewhere(catalog, 1))
        made[f"statechart of {name}"] = partial(statechart, support.somewhere(catalog, 2))
        if len(catalog.groups) <= 6:
            made[f"reachable of {name}"] = partial(reachable, support.somewhere(catalog, 1))
    for groups in (12, 300):
        made[f"structure of {groups} groups"] = partial(structure, support.forest(groups, 5 * groups).catalog)
    made["sequence"] = partial(sequence, anyio.run(recorded))
    made["statechart of 12 groups"] = partial(statechart, support.forest(12, 30).catalog)
    made["reachable of 5 groups"] = partial(reachable, support.forest(5, 9).catalog)
    return made | {name: picture for name, (picture, _) in hostile_pictures().items()}


def hostile_pictures() -> dict[str, tuple[Picture, list[str]]]:
    """Views of what may break or inject something, and texts that each must show."""
    tools = support.hostile()
    groups = tools.catalog.groups
    titles = [group.display_name for group in groups]
    texts = [*support.HOSTILE, support.UNPRINTABLE]
    return {
        "structure of hostile texts": (partial(structure, tools), titles + [group.description for group in groups]),
        "statechart of hostile texts": (partial(statechart, tools, limit=len(groups)), titles),
        "sequence of hostile texts": (partial(sequence, trace_of(texts)), texts),
    }


async def recorded() -> Trace:
    """What happens to a tool set with hooks, one of which fails."""
    journal = Journal()
    tools = desk(journal)
    with tracing(tools) as recorder:
        async with tools.open_session() as session:
            await session.call("a.activate", {})
            await session.transition(activate=["a.x", "a.y"])
            journal.fail("+b")
            await session.call("b.activate", {})
            journal.failing.clear()
            await session.call("b.activate", {})
            await session.call("ping", {})
    return recorder.trace


def trace_of(texts: Iterable[str]) -> Trace:
    """A trace in which everything has some text for its name."""
    entries: list[Entry] = []
    for number, text in enumerate(texts):
        entries += [
            SessionOpened(session=text),
            Asked(request=number, session=text, what="tool", name=text),
            HookBegan(request=number, group=text, phase=text),
            HookEnded(request=number, error=text, problem=text),
            Ended(request=number, error=text, problem=text),
            Noted(text=text, session=text),
        ]
    return Trace("trace", tuple(entries))


def labels(text: str) -> Iterable[str]:
    """What a Mermaid text says in its labels, which are in quotes or after a colon."""
    for line in text.splitlines():
        found = re.findall(r'"([^"]*)"', line) or line.partition(": ")[2:]
        for label in found:
            for part in label.split("<br/>"):
                yield re.sub(r"#(\d+);", lambda number: chr(int(number[1])), part)


def squeezed(text: str) -> str:
    return re.sub(r"[\s\u200b]+", "", text)


def draw(browser: Browser, folder: Path, version: str, texts: Iterable[str | None], **settings: str) -> list[Any]:
    """What a version of Mermaid makes of some texts."""
    file = folder / "mermaid.html"
    script = FOLDER / "node_modules" / version / "dist" / "mermaid.min.js"
    file.write_text(f'<!DOCTYPE html><meta charset="utf-8"><body><script src="{script.as_uri()}"></script>')
    (said,) = browser.do({"url": file.as_uri(), "steps": [["draw", settings, list(texts)]]})
    assert (said["requests"], said["complaints"]) == ([file.as_uri(), script.as_uri()], [])
    return list(said["results"][0])


@pytest.mark.spec("DIA-1")
@pytest.mark.parametrize("version", VERSIONS)
def test_every_picture_is_drawn_with_all_of_its_labels(browser: Browser, tmp_path: Path, version: str) -> None:
    texts = {name: picture().mermaid for name, picture in pictures().items()}
    assert None not in texts.values()
    for (name, text), said in zip(texts.items(), draw(browser, tmp_path, version, texts.values()), strict=True):
        assert not said["error"], (name, said["error"])
        assert (said["width"] > 0, said["injected"], said["cut"]) == (True, [], []), name
        shown = squeezed(said["shown"])
        assert [label for label in labels(str(text)) if squeezed(label) not in shown] == [], name


@pytest.mark.spec("DIA-1")
@pytest.mark.parametrize("version", VERSIONS)
def test_hostile_texts_are_shown_literally_even_where_mermaid_trusts_them(
    browser: Browser, tmp_path: Path, version: str
) -> None:
    hostile = hostile_pictures()
    drawn = draw(browser, tmp_path, version, [picture().mermaid for picture, _ in hostile.values()], **TRUSTING)
    for (name, (_, texts)), said in zip(hostile.items(), drawn, strict=True):
        assert (said["error"], said["injected"]) == (None, []), name
        shown = squeezed(said["shown"])
        starts = [squeezed(printable(text))[:16] for text in texts]
        assert [start for start in starts if start not in shown] == [], name


@pytest.mark.parametrize("version", VERSIONS)
def test_a_wrong_text_or_an_injection_is_detected(browser: Browser, tmp_path: Path, version: str) -> None:
    texts = [
        "flowchart LR\n  a[\"<a href='#x'>x</a>\"]",
        'flowchart LR\n  a["x',
        "flowchart LR\n  end",
    ]
    bringing, *wrong = draw(browser, tmp_path, version, texts, **TRUSTING)
    assert bringing["injected"] == ['<a href="#x">x</a>']
    assert all(said["error"] for said in wrong)
