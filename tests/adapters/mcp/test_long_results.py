"""Results longer than a host passes on: nothing of them is lost to its model (SPEC GWY-17)."""

from __future__ import annotations

import json
import os
import random
import re
import sys
from base64 import b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryFile
from types import SimpleNamespace
from typing import Any

import pytest
from mcp import Client
from mcp_types import CallToolResult, Implementation, TextContent

from tests.adapters.gateway.inprocess import House, config_of, gateway_of
from tests.adapters.gateway.upstreams.shop import Shop
from tests.adapters.mcp.asgi import endpoint_of
from tests.adapters.mcp.support import build_server, change_of, client_of, names_of
from tests.adapters.mcp.test_handle_delivery import MODERN
from toolfold import InvalidArguments, ToolResult, ToolSet
from toolfold_adapters.hosts import HOSTS, Host, HostView
from toolfold_adapters.mcp.answer import files
from toolfold_adapters.mcp.answer.long_results import LongResults, ResultLimits

pytestmark = pytest.mark.spec("GWY-17")

OBJECT = {"type": "object"}
ERAS = ("legacy", MODERN)
CUTTING = [host for host in HOSTS if host.passes is not None]
SMALL = Host(name="small", cut=2_000)


def lines(size: int, *, seed: int = 1) -> str:
    """A text of so many bytes and more, no two lines of which are alike, with its answer in the middle."""
    drawn = random.Random(seed)
    made = [f"{number:05} {drawn.randrange(1 << 60):x} naïve" for number in range(size // 28)]
    made[len(made) // 2] = "the quotation for walnut planks is 4711"
    return "\n".join(made)


def rows(number: int) -> dict[str, Any]:
    return {"rows": [{"id": one, "name": f"name {one}", "tags": ["a.b", "c"]} for one in range(number)]}


@asynccontextmanager
async def served(era: str, client: str, **results: Any) -> AsyncGenerator[Client]:
    """A client of a server whose tools answer so, one of which is in a group."""
    tools = ToolSet("store", control="open_group")
    tools.register_group("inside", "What is inside")
    for name, result in results.items():
        group = "inside" if name.startswith("inside") else None
        tools.register(name, lambda arguments, result=result: result, input_schema=OBJECT, group=group, flat=True)
    info = Implementation(name=client, version="1")
    async with client_of(build_server(tools, read_result=True), era, client_info=info) as (opened, _):
        yield opened


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


def shown(view: HostView, result: Any) -> str:
    """What a host shows of a result: of the longest form that any has, the whole as JSON."""
    text = text_of(result)
    written = json.dumps(result.model_dump(mode="json", by_alias=True, exclude_none=True), ensure_ascii=False)
    return view.result(written if view.client == "@cline/core" else text)


def reference_in(text: str) -> str:
    found = re.search(r'result=\\?"([\w-]+)\\?"', text)
    assert found is not None, text[-500:]
    return found[1]


def view_of(host: Host) -> HostView:
    return next(iter(host.views.values()))


@pytest.mark.parametrize("host", CUTTING, ids=lambda host: host.name)
async def test_every_character_reaches_a_model_whose_host_cuts(host: Host) -> None:
    text, view = lines(60_000), view_of(host)
    async with served(view.era if view.era == "legacy" else MODERN, view.client, read=text) as client:
        first = await client.call_tool("read", {})
        seen = shown(view, first)
        assert "[...]" not in seen, "its host cuts what it was sent"
        reference, gathered = reference_in(seen), ""
        while len(gathered) < len(text):
            page = await client.call_tool("read_result", {"result": reference, "offset": len(gathered)})
            assert "[...]" not in shown(view, page)
            assert page.content[0].text  # type: ignore[union-attr]
            gathered += page.content[0].text  # type: ignore[union-attr]
        assert gathered == text
        assert text_of(first).startswith(text[:500])


@pytest.mark.parametrize("host", CUTTING, ids=lambda host: host.name)
async def test_what_stands_in_the_middle_takes_one_more_request(host: Host) -> None:
    view = view_of(host)
    async with served(view.era if view.era == "legacy" else MODERN, view.client, read=lines(200_000)) as client:
        seen = shown(view, await client.call_tool("read", {}))
        assert "4711" not in seen
        asked = {"result": reference_in(seen), "search": "quotation walnut"}
        assert "4711" in shown(view, await client.call_tool("read_result", asked))


@pytest.mark.parametrize("client_name", ["claude-code", "opencode", "some-program"])
@pytest.mark.parametrize("era", ERAS)
async def test_a_host_that_retains_results_or_is_not_known_has_them_whole(era: str, client_name: str) -> None:
    text = lines(200_000)
    async with served(era, client_name, read=text) as client:
        assert text_of(await client.call_tool("read", {})) == text
        assert "read_result" not in await names_of(client)


@pytest.mark.parametrize("era", ERAS)
async def test_a_host_that_cuts_is_listed_the_tool_and_has_short_results_as_they_are(era: str) -> None:
    async with served(era, "cline", read="short", mixed=ToolResult(({"type": "image", "data": "AA=="},))) as client:
        assert "read_result" in await names_of(client)
        assert text_of(await client.call_tool("read", {})) == "short"


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_of_a_group_and_several_calls_are_read_on_too(era: str) -> None:
    async with served(era, "cline", inside_read=lines(60_000)) as client:
        opened = await client.call_tool("open_group", {"group": "inside"})
        handle = {"handle": change_of(opened)["handle"]} if era == MODERN else {}
        result = await client.call_tool("call_tool", {"name": "inside_read", "arguments": {}, **handle})
        asked = {"result": reference_in(text_of(result)), "search": "walnut"}
        assert "4711" in text_of(await client.call_tool("read_result", asked))
        assert "4711" in text_of(await client.call_tool("call_tool", {"name": "read_result", "arguments": asked}))


async def test_nobody_reads_on_in_the_result_of_another() -> None:
    tools = ToolSet("store")
    tools.register("read", lambda arguments: lines(60_000), input_schema=OBJECT)
    server, info = build_server(tools, read_result=True), Implementation(name="cline", version="1")
    async with client_of(server, "legacy", client_info=info) as (alice, _):
        asked = {"result": reference_in(text_of(await alice.call_tool("read", {}))), "offset": 0}
        async with client_of(server, "legacy", client_info=info) as (bob, _):
            refused = await bob.call_tool("read_result", asked)
            assert refused.is_error
            unknown = await bob.call_tool("read_result", {**asked, "result": "r00"})
            assert text_of(refused).replace(asked["result"], "r00") == text_of(unknown)  # type: ignore[arg-type]
        assert not (await alice.call_tool("read_result", asked)).is_error


# -- structured content and other blocks -------------------------------------------------------------------------------


def retaining(**limits: Any) -> tuple[LongResults, list[float]]:
    now = [0.0]
    return LongResults(ResultLimits(**limits), lambda: now[0]), now


async def reading(results: LongResults, text: str, owner: str = "a", **asked: Any) -> str:
    answer = await results.read({"result": reference_in(text), **asked}, owner, SMALL)
    return str(answer.content[0]["text"])


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("rows.120.name", "name 120"),
        ("rows[120].name", "name 120"),
        ("$.rows[0].tags[0]", "a.b"),
        ("/rows/7/tags/1", "c"),
        ("rows.999", "There is no 999 in rows: that is a list of 300."),
        ("rows.0.size", "There is no size in rows.0: its keys are id, name, tags."),
        ("rows.0.id.x", "There is no x in rows.0.id: that is a single value."),
    ],
)
async def test_a_structured_result_is_read_by_path(path: str, found: str) -> None:
    results, _ = retaining()
    short = await results.shortened(ToolResult((), rows(300)), "a", SMALL)
    assert short.structured is None
    assert await reading(results, short.text, path=path) == found


async def test_structured_content_that_the_text_repeats_goes_first() -> None:
    results, _ = retaining()
    given = rows(30)
    result = ToolResult(({"type": "text", "text": json.dumps(given)},), given)
    short = await results.shortened(result, "a", SMALL)
    assert (short.text, short.structured) == (json.dumps(given), None)


@pytest.mark.parametrize(
    ("host", "validated"), [(SMALL, True), (Host(name="x", cut=2_000, reads_structured=True), False)]
)
async def test_structured_content_stays_whole_where_it_is_read(host: Host, validated: bool) -> None:
    results, _ = retaining()
    result = ToolResult(({"type": "text", "text": lines(9_000)},), rows(30))
    short = await results.shortened(result, "a", host, validated=validated)
    assert short.structured == rows(30)
    assert len(short.text) < 2_000


@pytest.mark.parametrize("text", [None, "json", "other"])
async def test_where_structured_content_is_read_the_reference_stands_before_what_is_cut(text: str | None) -> None:
    results, _ = retaining()
    given = rows(300)
    said = {"json": json.dumps(given), "other": "a"}.get(text or "")
    blocks = () if said is None else ({"type": "text", "text": said},)
    host = Host(name="x", cut=2_000, reads_structured=True)
    short = await results.shortened(ToolResult(blocks, given), "a", host)
    assert short.text.startswith("[This result is ")
    assert (len(short.text) < 300, short.structured) == (True, given)
    assert await reading(results, short.text, path="rows.299.name") == "name 299"
    if text != "other":
        assert "name 0" in await reading(results, short.text, offset=0)


async def test_a_part_of_a_text_ends_with_a_line() -> None:
    results, _ = retaining()
    short = await results.shortened(ToolResult(({"type": "text", "text": lines(9_000)},)), "a", SMALL)
    assert (await reading(results, short.text, offset=0)).endswith("\n")


async def test_what_is_no_text_stays_beside_the_beginning() -> None:
    results, _ = retaining()
    image = {"type": "image", "data": "AA==", "mimeType": "image/png"}
    page = {"type": "resource", "resource": {"uri": "file:///page", "text": lines(5_000)}}
    short = await results.shortened(ToolResult(({"type": "text", "text": "first"}, image, page)), "a", SMALL)
    assert short.content[1] == image
    assert short.text.startswith("first\nfile:///page\n00000 ")
    assert "4711" in await reading(results, short.text, search="walnut")


@pytest.mark.parametrize(
    ("asked", "begins"),
    [
        ({"line": 3}, "00002 "),
        ({"offset": 2}, "000 "),
        ({"line": 10_000}, "It has "),
        ({"offset": 10_000_000}, "It has "),
        ({"path": "a"}, "That result is no JSON"),
        ({"search": "zebra"}, "None of these words is in its "),
        ({"search": "ZEBRA Walnut"}, "1 of 1 places. Not in it: zebra.\n[offset="),
    ],
)
async def test_a_place_in_a_text_is_read(asked: dict[str, Any], begins: str) -> None:
    results, _ = retaining()
    short = await results.shortened(ToolResult.of_text(lines(9_000)), "a", SMALL)
    assert (await reading(results, short.text, **asked)).startswith(begins)


@pytest.mark.parametrize("text", ["é" * 9_000, "🙂" * 9_000, "x" * 200_000, "\n" * 9_000])
async def test_pages_end_between_characters(text: str) -> None:
    results, _ = retaining()
    short, gathered = await results.shortened(ToolResult.of_text(text), "a", SMALL), ""
    while len(gathered) < len(text):
        gathered += await reading(results, short.text, offset=len(gathered))
    assert gathered == text
    results.close()


# -- limits ------------------------------------------------------------------------------------------------------------


async def test_a_session_loses_what_it_read_longest_ago() -> None:
    results, _ = retaining(results=2)
    first, second, third = [
        await results.shortened(ToolResult.of_text(lines(9_000, seed=one)), "a", SMALL) for one in range(3)
    ]
    assert "any more" in await reading(results, first.text, offset=0)
    for one in (second, third):
        assert "00000" in await reading(results, one.text, offset=0)


async def test_a_result_is_there_for_a_time_after_it_was_read_and_not_after_its_session() -> None:
    results, now = retaining(seconds=60)
    one, other = [await results.shortened(ToolResult.of_text(lines(9_000)), owner, SMALL) for owner in ("a", "b")]
    now[0] = 59
    assert "00000" in await reading(results, one.text, offset=0)
    now[0] = 100
    assert "00000" in await reading(results, one.text, offset=0)
    assert "any more" in await reading(results, other.text, "b", offset=0)
    results.end("a")
    assert "any more" in await reading(results, one.text, offset=0)


@pytest.mark.parametrize("limits", [{"largest": 8_000}, {"total": 8_000}])
async def test_what_there_is_no_room_for_is_passed_on_whole(limits: dict[str, int]) -> None:
    results, _ = retaining(**limits)
    result = ToolResult.of_text(lines(9_000))
    assert await results.shortened(result, "a", SMALL) is result


async def test_the_results_of_others_are_not_discarded_for_one() -> None:
    results, _ = retaining(total=20_000)
    first = await results.shortened(ToolResult.of_text(lines(15_000)), "a", SMALL)
    assert reference_in(first.text)
    whole = ToolResult.of_text(lines(15_000))
    assert await results.shortened(whole, "b", SMALL) is whole


# -- several calls, and other servers ----------------------------------------------------------------------------------


@pytest.mark.spec("COD-2")
@pytest.mark.parametrize("era", ERAS)
async def test_each_of_several_results_is_read_on(era: str) -> None:
    tools = ToolSet("store", control="open_group")
    tools.register_group("inside", "What is inside")
    for name in ("one", "two"):
        said = f"{lines(60_000)}\n{name}"
        tools.register(name, lambda arguments, said=said: said, input_schema=OBJECT)
    server = build_server(tools, read_result=True, call_tools=True)
    async with client_of(server, era, client_info=Implementation(name="cline", version="1")) as (client, _):
        both = {"calls": [{"name": "one"}, {"name": "two"}]}
        answer = text_of(await client.call_tool("call_tools", both))
        assert len(answer) <= 5_510
        for name, reference in zip(("one", "two"), re.findall(r'result="([\w-]+)"', answer), strict=True):
            asked = {"result": reference, "search": f"walnut {name}"}
            found = text_of(await client.call_tool("read_result", asked))
            assert "4711" in found
            assert f"\n{name}" in found


@pytest.mark.spec("GWY-1")
@pytest.mark.parametrize("era", ERAS)
async def test_the_result_of_a_server_behind_a_gateway_is_read_on(era: str) -> None:
    class Long(Shop):
        async def call(self, ctx: Any, params: Any) -> CallToolResult:
            said = TextContent(type="text", text=lines(60_000))
            return CallToolResult(content=[said], _meta={"its/own": 1})

    gateway = gateway_of(House(lambda name: Long()), config_of("shop"))
    async with gateway as tools:
        server = build_server(tools, extend=gateway.extend, handles="stored", read_result=True)
        async with client_of(server, era, client_info=Implementation(name="cline", version="1")) as (client, _):
            result = await client.call_tool("cart", {})
            assert (result.meta or {})["its/own"] == 1
            asked = {"result": reference_in(text_of(result)), "search": "walnut"}
            assert "4711" in text_of(await client.call_tool("read_result", asked))


# -- images and audio --------------------------------------------------------------------------------------------------

BYTES = bytes(range(256)) * 400
PICTURE = {"type": "image", "data": b64encode(BYTES).decode(), "mimeType": "image/png"}
SOUND = {"type": "audio", "data": b64encode(b"RIFF").decode(), "mimeType": "audio/wav"}
BEFORE, AFTER = {"type": "text", "text": "before"}, {"type": "text", "text": "after"}
MIXED = ToolResult((BEFORE, PICTURE, SOUND, AFTER), {"count": 2})
UNSHOWN = [begins for host in HOSTS for begins in host.unshown]


@pytest.mark.parametrize("client_name", UNSHOWN)
@pytest.mark.parametrize("era", ERAS)
async def test_an_image_that_a_client_does_not_show_is_described_and_saved(era: str, client_name: str) -> None:
    async with served(era, client_name, draw=MIXED) as client:
        assert "read_result" in await names_of(client)
        result = await client.call_tool("draw", {})
        texts = [block.text for block in result.content if block.type == "text"]
        assert (texts[0], texts[3], result.structured_content) == ("before", "after", {"count": 2})
        assert texts[1].startswith("[An image, image/png, 102,400 bytes, which this client does not show. ")
        assert texts[2].startswith("[Audio, audio/wav, 4 bytes, which this client does not show. ")
        asked = {"result": reference_in(texts[1]), "save": True}
        path = path_in(text_of(await client.call_tool("read_result", asked)))
        assert path_in(text_of(await client.call_tool("read_result", asked))) == path
        assert (path.suffix, path.read_bytes()) == (".png", BYTES)
        if sys.platform != "win32":
            assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        refused = await client.call_tool("read_result", {"result": reference_in(texts[1]), "offset": 0})
        assert "save=true" in text_of(refused)
    assert not path.exists()
    assert not path.parent.exists()


def path_in(text: str) -> Path:
    found = re.match(r"Written to (.*)\. It is deleted with this session", text)
    assert found is not None, text
    return Path(found[1])


@pytest.mark.spec("GWY-1")
@pytest.mark.parametrize("client_name", ["claude-code", "codex-mcp-client", "qwen-code", "fast-agent", "cline", "any"])
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_shows_images_to_a_model_that_sees_them_gets_them(era: str, client_name: str) -> None:
    async with served(era, client_name, draw=MIXED) as client:
        result = await client.call_tool("draw", {})
        assert [block.model_dump(by_alias=True, exclude_none=True) for block in result.content] == [*MIXED.content]


@pytest.mark.parametrize("era", ERAS)
async def test_an_image_beside_a_long_text_is_described_after_its_beginning(era: str) -> None:
    result = ToolResult(({"type": "text", "text": lines(60_000)}, PICTURE))
    async with served(era, "copilot", draw=result) as client:
        answer = await client.call_tool("draw", {})
        assert [block.type for block in answer.content] == ["text", "text"]
        assert len(text_of(answer)) < 25_000
        assert "An image, image/png" in answer.content[1].text  # type: ignore[union-attr]


async def test_a_long_text_is_saved_whole_until_its_time_is_over() -> None:
    results, now = retaining(seconds=60)
    text = lines(90_000)
    short = await results.shortened(ToolResult.of_text(text), "a", SMALL)
    path = path_in(await reading(results, short.text, save=True))
    assert path.read_text(encoding="utf-8") == text
    now[0] = 61
    assert "any more" in await reading(results, short.text, offset=0)
    assert not path.exists()


async def test_a_server_that_is_reached_over_a_network_writes_no_file() -> None:
    results, _ = retaining()
    short = await results.shortened(ToolResult.of_text(lines(9_000)), "a", SMALL, caller="address 192.0.2.1")
    asked = {"result": reference_in(short.text), "save": True}
    refused = await results.read(asked, "a", SMALL, "address 192.0.2.1")
    assert refused.is_error
    assert "no files" in refused.text


@pytest.mark.parametrize("era", ERAS)
async def test_over_http_an_image_is_described_and_is_not_said_to_be_saved(era: str) -> None:
    tools = ToolSet("store")
    tools.register("draw", lambda arguments: MIXED, input_schema=OBJECT)
    info = Implementation(name="copilot", version="1")
    async with (
        endpoint_of(build_server(tools, read_result=True)) as endpoint,
        endpoint.client(era, client_info=info) as client,
    ):
        said = text_of(await client.call_tool("draw", {}))
    assert said == (
        "before\n[An image, image/png, 102,400 bytes, which this client does not show.]\n"
        "[Audio, audio/wav, 4 bytes, which this client does not show.]\nafter"
    )


@pytest.mark.parametrize("other", [{"offset": 0}, {"path": "a"}, {"search": "x"}])
async def test_a_result_is_saved_or_read(other: dict[str, Any]) -> None:
    results, _ = retaining()
    short = await results.shortened(ToolResult.of_text(lines(9_000)), "a", SMALL)
    with pytest.raises(InvalidArguments, match="not both"):
        await reading(results, short.text, save=True, **other)
    assert "00000" in await reading(results, short.text, save=False, offset=0)


async def test_what_is_no_base64_is_not_written() -> None:
    results, _ = retaining()
    broken = ToolResult(({"type": "image", "data": "!!!!", "mimeType": "image/png"},))
    request: Any = SimpleNamespace(host=SMALL, caller=None, unshown=("image",))
    answer = await results.fitted(broken, "a", request, validated=False, less=0)
    refused = await results.read({"result": reference_in(answer.text), "save": True}, "a", SMALL)
    results.close()
    assert (refused.is_error, "base64" in refused.text) == (True, True)


@pytest.mark.spec("SAF-4")
async def test_a_caller_has_no_more_in_all_of_its_sessions_than_a_caller_may_have() -> None:
    results, _ = retaining(per_caller=20_000)
    own = [
        await results.shortened(ToolResult.of_text(lines(9_000)), owner, SMALL, caller="principal a") for owner in "abc"
    ]
    others = await results.shortened(ToolResult.of_text(lines(9_000)), "d", SMALL, caller="principal b")
    assert "any more" in await reading(results, own[0].text, "a", offset=0)
    for one, owner in ((own[1], "b"), (own[2], "c"), (others, "d")):
        assert "00000" in await reading(results, one.text, owner, offset=0)


@pytest.mark.spec("SAF-4")
async def test_large_results_are_in_one_file_in_which_gaps_are_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def counted() -> Any:
        made.append(TemporaryFile())  # noqa: SIM115 - what it is for closes it
        return made[-1]

    monkeypatch.setattr(files, "TemporaryFile", counted)
    results, _ = retaining(results=3)
    texts = [lines(100_000 + 30_000 * (one % 3), seed=one) for one in range(9)]
    shown = [(await results.shortened(ToolResult.of_text(text), "a", SMALL)).text for text in texts]
    for text, short in zip(texts[-3:], shown[-3:], strict=True):
        assert text.startswith(await reading(results, short, offset=0))
    (file,) = made
    assert os.fstat(file.fileno()).st_size < sum(map(len, texts)) / 2
    results.close()
    assert file.closed


@pytest.mark.spec("SAF-1")
async def test_what_would_take_long_to_search_is_refused_or_left_out() -> None:
    results, _ = retaining()
    short = await results.shortened(ToolResult.of_text("b" * 60_000), "a", SMALL)
    with pytest.raises(InvalidArguments, match="search"):
        await reading(results, short.text, search="b" * 201)
    assert (await reading(results, short.text, search="c d e f g h i j b")).startswith("None of these words")
    assert (await reading(results, short.text, search="b")).startswith("1 of 100 places.")
