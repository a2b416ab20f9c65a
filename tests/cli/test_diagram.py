"""`toolfold diagram`: views, formats, files, terminals, and what it refuses (SPEC DIA-1, DIA-3)."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.cli.support import invoke
from tests.diagrams.pages import Parsed
from toolfold import ToolSet
from toolfold_diagrams import drawing, sequence, tracing
from toolfold_diagrams.rendering import PNG_ZOOM, pixels

NO_GROUPS = """
from toolfold import ToolSet

tools = ToolSet("shop")


@tools.tool()
def count(item: str) -> int:
    "How many there are."
    return 0
"""
ORDERS = ("shop:tools", "--active", "orders")


@pytest.mark.spec("DIA-1")
def test_a_pipe_is_given_dot(shop: Path) -> None:
    result = invoke("diagram", *ORDERS)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith('digraph "shop" {\n')


@pytest.mark.spec("DIA-1")
@pytest.mark.parametrize(
    ("view", "form"),
    [
        (view, form)
        for view, (_, forms, _) in drawing.views().items()
        for form in forms
        if form not in ("svg", "png", "pdf")
    ],
)
def test_each_view_is_drawn_in_each_of_its_formats_without_graphviz(view: str, form: str, shop: Path) -> None:
    target = [] if drawing.views()[view][2] == "nothing" else ["shop:tools", "--active", "orders"]
    result = invoke("diagram", *target, "--view", view, "--format", form)
    assert (result.exit_code, result.stderr) == (0, "")
    beginning = {
        "dot": "digraph",
        "tree": "shop: 3 groups",
        "html": "<!doctype html>",
        "scxml": "<scxml",
        "xstate": "{",
    }
    if form in beginning:
        assert result.stdout.lower().startswith(beginning[form])
    again = invoke("diagram", *target, "--view", view, "--format", form).stdout
    assert result.stdout == again.replace("shop-2", "shop-1")  # the second session of this process


@pytest.mark.spec("DIA-1")
@pytest.mark.parametrize("suffix", [".svg", ".dot", ".gv", ".mmd", ".html", ".txt"])
def test_the_suffix_of_a_file_names_the_format(suffix: str, shop: Path, tmp_path: Path) -> None:
    file = tmp_path / f"shop{suffix}"
    result = invoke("diagram", *ORDERS, "-o", str(file))
    assert (result.exit_code, result.stdout) == (0, "")
    form = drawing.form_of(suffix)
    assert result.stderr == f"Wrote {file} ({form}).\n"
    assert file.read_text(encoding="utf-8") == invoke("diagram", *ORDERS, "--format", str(form)).stdout


@pytest.mark.spec("DIA-1", "GWY-5")
@pytest.mark.parametrize("own", [True, False], ids=["groups", "no groups"])
def test_a_page_counts_the_tools_and_tokens_that_inspect_counts(own: bool, shop: Path) -> None:
    if not own:
        (shop / "shop.py").write_text(NO_GROUPS, encoding="utf-8")
    page = Parsed(invoke("diagram", "shop:tools", "--format", "html").stdout).data
    found = json.loads(invoke("inspect", "shop:tools", "--json").stdout)
    offered = [tool for tool in page["tools"] if not tool["hidden"]]
    own_tools = [tool for tool in offered if not tool["control"] and not tool["beside"]]
    listed = [tool for tool in offered if tool["rule"] == ["always"]]
    assert [tool["name"] for tool in page["tools"] if tool["beside"]] == (["call_tool"] if own else [])
    assert (len(own_tools), len(listed)) == (found["tools"], found["listed"])
    assert sum(tool["tokens"] for tool in own_tools) == found["tokens"]["before"]
    assert sum(tool["tokens"] for tool in listed) == found["tokens"]["after"]


@pytest.mark.spec("DIA-1")
@pytest.mark.parametrize(("form", "zoom"), [("svg", 1), ("png", PNG_ZOOM)])
def test_a_picture_too_large_to_read_is_written_with_a_word_on_what_to_draw_instead(
    form: str, zoom: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")  # Graphviz draws in this process, where it is not installed
    monkeypatch.setattr(drawing, "MOST_PIXELS", 100)
    file = tmp_path / f"transaction.{form}"
    result = invoke("diagram", "--view", "region", "-o", str(file))
    width, height = pixels(form, file.read_bytes()) or (0, 0)
    assert max(width, height) > 100 * zoom
    assert result.exit_code == 0
    size = f"It is {width:,} × {height:,} pixels, too large to read at a glance: draw fewer groups"
    assert result.stderr.startswith(f"Wrote {file} ({form}).\n{size}")
    monkeypatch.setattr(drawing, "MOST_PIXELS", max(width, height) // zoom + 1)
    assert invoke("diagram", "--view", "region", "-o", str(file)).stderr == f"Wrote {file} ({form}).\n"


@pytest.mark.spec("DIA-1")
@pytest.mark.parametrize("form", ["scxml", "xstate"])
def test_a_format_of_one_view_selects_the_view(form: str, shop: Path, tmp_path: Path) -> None:
    named = invoke("diagram", *ORDERS, "--view", "statechart", "--format", form)
    assert invoke("diagram", *ORDERS, "--format", form).stdout == named.stdout
    file = tmp_path / {"scxml": "shop.scxml", "xstate": "shop.json"}[form]
    assert invoke("diagram", *ORDERS, "-o", str(file)).exit_code == 0
    assert file.read_text(encoding="utf-8") == named.stdout


@pytest.mark.spec("DIA-1")
async def test_a_stored_trace_is_drawn(shop: Path) -> None:
    tools = ToolSet("stored")
    tools.register_group("g", on_activate=lambda: None)
    with tracing(tools) as recorder:
        async with tools.open_session() as session:
            await session.activate("g")
    (shop / "trace.json").write_text(json.dumps(recorder.trace.dump()))
    drawn = invoke("diagram", "trace.json", "--view", "sequence", "--format", "dot")
    assert (drawn.exit_code, drawn.stdout) == (0, sequence(recorder.trace).dot)
    (shop / "trace.json").write_text('{"no": "trace"}')
    refused = invoke("diagram", "trace.json", "--view", "sequence")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith("toolfold: ")


@pytest.mark.spec("DIA-1")
@pytest.mark.parametrize("form", ["scxml", "xstate"])
def test_an_export_has_no_limit_unlike_the_picture(form: str, shop: Path) -> None:
    (shop / "many.py").write_text(
        "from toolfold import ToolSet\n"
        "tools = ToolSet('many')\n"
        "for number in range(40):\n"
        "    tools.register_group(f'g{number}')\n"
    )
    result = invoke("diagram", "many:tools", "--view", "statechart", "--format", form)
    assert (result.exit_code, result.stdout.count("activate:g39")) == (0, 2)
    refused = invoke("diagram", "many:tools", "--view", "statechart", "--format", "dot")
    assert (refused.exit_code, "40 groups" in refused.stderr) == (1, True)


STOCK = """
from toolfold import ToolSet

names = ["a"]


def made() -> ToolSet:
    tools = ToolSet("stock")
    for name in names:
        tools.register_group(name, on_activate=lambda: None)
    return tools
"""


@pytest.mark.spec("DIA-2")
@pytest.mark.parametrize(
    ("view", "form"),
    [(view, form) for view, (_, forms, _) in drawing.views().items() for form in forms if form not in ("png", "pdf")],
)
def test_a_check_finds_a_picture_fresh_until_what_it_shows_has_changed(
    view: str, form: str, tmp_path: Path, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (shop / "stock.py").write_text(STOCK)
    target = [] if drawing.views()[view][2] == "nothing" else ["stock.py:made"]
    arguments = [*target, "--view", view, "--format", form, *(["--active", "a"] if view == "sequence" else [])]
    assert invoke("diagram", *arguments, "-o", "picture").exit_code == 0
    fresh = invoke("diagram", *arguments, "--check", "picture")
    assert (fresh.exit_code, fresh.stderr) == (0, "picture is up to date.\n")
    stored = (shop / "picture").read_bytes()
    (shop / "picture").write_bytes(stored.replace(b"\n", b"\r\n"))
    assert invoke("diagram", *arguments, "--check", "picture").exit_code == 0
    if view == "sequence":
        arguments[arguments.index("a")] = "a,a"
    elif target:
        sys.modules["stock"].names.append("b")
    else:
        (shop / "picture").write_bytes(stored.replace(b"a", b"b"))
    stale = invoke("diagram", *arguments, "--check", "picture")
    assert (stale.exit_code, stale.stdout) == (1, "")
    assert re.match(r"toolfold: picture is stale: (from line \d+ on, \d+ line|it was drawn from)", stale.stderr)
    again = " ".join(["toolfold diagram", *arguments, "--output picture"])
    assert stale.stderr.endswith(f". Draw it again with: {again}\n")


def test_the_help_names_every_view_and_gives_examples() -> None:
    result = invoke("diagram", "--help")
    assert result.exit_code == 0
    for name, (summary, _, _) in drawing.views().items():
        assert f"  {name:<12} {summary}" in result.stdout
    assert "toolfold diagram shop:tools -o shop.html" in result.stdout
