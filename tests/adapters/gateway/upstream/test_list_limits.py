"""What a server lists is bounded in all; what fits stays usable, and it is said that there was more."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.adapters.gateway.lister import Lister, opened, tools_from
from toolfold_adapters.gateway import UpstreamError
from toolfold_adapters.gateway.upstream import definitions, wire
from toolfold_adapters.mcp.extensions import offered_groups
from toolfold_adapters.observe.status import as_text, status_of


def endless(params: Any) -> dict[str, Any]:
    """A page of ten tools, of a list without an end."""
    page = int(params.get("cursor", 0))
    return {"tools": tools_from(page * 10, 10, "x" * 100), "nextCursor": str(page + 1)}


@pytest.mark.spec("GWY-12")
@pytest.mark.parametrize(
    ("limit", "value", "pages", "kept", "left_out"),
    [("MOST_ITEMS", 25, 3, 25, 6), ("MOST_BYTES", 5_000, 4, 30, 11), ("MOST_PAGES", 7, 7, 70, 0)],
)
async def test_a_list_without_an_end_is_read_up_to_a_limit_and_what_fits_is_served(
    limit: str,
    value: int,
    pages: int,
    kept: int,
    left_out: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for module in (definitions, offered_groups):
        monkeypatch.setattr(module, limit, value, raising=False)
    lister = Lister({"tools/list": endless, "resources/list": lambda _: {"resources": [{"uri": "a://b", "name": "b"}]}})
    async with opened(lister) as (gateway, session):
        assert lister.asked.count("tools/list") == pages
        assert (await session.call(f"t{kept - 1}")).text == "done"
        assert f"t{kept}" not in gateway.tools.catalog.tools
        lines = [as_text(line) for line in await status_of(gateway.tools, gateway.status)]
    assert (f"lists more than is kept, so {left_out} or more are left out" in lines[0]) is (limit != "MOST_PAGES")
    assert re.search(rf"lists more than .* so {left_out} or more are left out|more than 7 pages", caplog.text)


@pytest.mark.spec("GWY-12")
@pytest.mark.parametrize("part", ["groups", "tools in a group", "groups in a group", "instructions"])
async def test_groups_without_an_end_are_read_up_to_the_same_limit(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offered_groups, "MOST_BYTES", 20_000)
    monkeypatch.setattr(offered_groups, "MOST_ITEMS", 300)

    def listed(params: Any) -> dict[str, Any]:
        page = int(params.get("cursor", 0))
        more = {"nextCursor": str(page + 1)} if part == "groups" else {}
        return {"groups": [{"name": f"g{page * 10 + number}"} for number in range(10)], **more}

    def got(params: Any) -> dict[str, Any]:
        contents: dict[str, Any] = {
            "tools": tools_from(0, 500) if part == "tools in a group" else [],
            "groups": [{"name": f"{params['name']}-{n}"} for n in range(9)] if part == "groups in a group" else [],
        }
        return {"contents": contents, "instructions": "y" * 15_000 if part == "instructions" else ""}

    lister = Lister({"groups/list": listed, "groups/get": got}, modern=True)
    async with opened(lister) as (gateway, _):
        assert gateway.status[0].cut
        assert len(gateway.tools.catalog.tools) < 400
    assert lister.asked.count("groups/list") <= 31
    assert lister.asked.count("groups/get") <= 300


@pytest.mark.spec("GWY-12")
async def test_a_list_with_numbers_as_cursors_loses_no_page() -> None:
    def numbered(params: Any) -> dict[str, Any]:
        page = params.get("cursor", 0)
        assert isinstance(page, int)
        return {"tools": tools_from(page, 1), **({"nextCursor": page + 1} if page < 2 else {})}

    async with opened(Lister({"tools/list": numbered})) as (gateway, _):
        assert {"t0", "t1", "t2"} <= set(gateway.tools.catalog.tools)


@pytest.mark.spec("GWY-12")
@pytest.mark.parametrize(("length", "pages"), [(8192, 3), (8193, 1)])
async def test_a_cursor_has_a_length(length: int, pages: int) -> None:
    def padded(params: Any) -> dict[str, Any]:
        page = int(params.get("cursor", "0")[0])
        return {"tools": tools_from(page, 1), **({"nextCursor": f"{page + 1:x<{length}}"} if page < 2 else {})}

    lister = Lister({"tools/list": padded})
    async with opened(lister) as (gateway, _):
        assert lister.asked.count("tools/list") == pages
        assert f"t{pages - 1}" in gateway.tools.catalog.tools


@pytest.mark.spec("GWY-12")
@pytest.mark.parametrize("part", ["instructions", "capabilities", "serverInfo"])
async def test_a_server_that_introduces_itself_at_length_is_not_served(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "INTRODUCTION_BYTES", 10_000)
    long = "z" * 10_000 if part == "instructions" else {"name": "z" * 10_000}
    with pytest.raises(UpstreamError, match="it introduces itself with more than"):
        async with opened(Lister({}, introduction={part: long})):
            pytest.fail("it should not have opened")
