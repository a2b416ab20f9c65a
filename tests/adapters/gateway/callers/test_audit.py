"""An operator sees who did what, and a caller what it did itself (SPEC GWY-19)."""

from __future__ import annotations

import json
import logging
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import mcp_types as t
import pytest
from mcp import MCPError

from tests.adapters.gateway.callers.test_rights import ERAS, row, served
from tests.adapters.gateway.inprocess import House
from tests.adapters.gateway.upstreams.shop import Shop
from tests.adapters.mcp.test_handle_delivery import text_of
from toolfold import Usage
from toolfold_adapters.gateway.config.settings import AuditConfig
from toolfold_adapters.observe.status import STATUS_TOOL, as_text, include_status, status_of
from toolfold_diagrams.live.metrics import exposition
from toolfold_diagrams.usage_report import report

pytestmark = pytest.mark.spec("GWY-19")

SECRET = "my PIN is 1234"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("arguments", [False, True])
async def test_each_call_is_a_line_that_says_who_what_and_how_it_ended(
    era: str, arguments: bool, tmp_path: Path
) -> None:
    file = tmp_path / "audit.jsonl"
    rows = {"ada": row("read"), "bob": row("destructive")}
    async with served(rows) as here:
        audit = AuditConfig(file=str(file), arguments=arguments)
        await here.gateway.reconfigure(here.gateway.config.model_copy(update={"audit": audit}))
        async with here.client(era, sub="ada") as ada, here.client(era, sub="bob") as bob:
            await ada.call_tool("one__look", {"said": SECRET})
            await bob.call_tool("call_tool", {"name": "two__wipe", "arguments": {"said": SECRET}})
            with pytest.raises(MCPError):
                await ada.call_tool("two__wipe", {"said": SECRET})
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert [(one["principal"], one["server"], one["tool"], one["outcome"]) for one in lines] == [
        ("ada", "one", "one__look", "done"),
        ("bob", "two", "two__wipe", "done"),
        ("ada", "", "two__wipe", "refused"),
    ]
    assert [one["client"] for one in lines] == ["app"] * 3
    assert all(one["seconds"] >= 0 for one in lines[:2])
    assert (SECRET in file.read_text("utf-8")) is arguments
    if sys.platform != "win32":
        assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("era", ERAS)
async def test_what_counts_as_a_call_and_the_rest_of_a_result_are_lines_too_and_a_limit_is_a_refusal(
    era: str, tmp_path: Path
) -> None:
    file = tmp_path / "audit.jsonl"
    rows = {"*": row("destructive", servers=["one"], calls_per_minute=5)}
    async with served(rows, House(lambda _: Shop()), read_result=True) as here:
        audit = AuditConfig(file=str(file))
        await here.gateway.reconfigure(here.gateway.config.model_copy(update={"audit": audit}))
        async with here.client(era, sub="ada") as ada:
            greet = t.PromptReference(type="ref/prompt", name="one__greet")
            for limited in (False, True):
                with raises_if(limited):
                    await ada.get_prompt("one__greet", {"who": SECRET})
                with raises_if(limited):
                    await ada.read_resource("shop://list")
                with raises_if(limited):
                    await ada.read_resource(f"shop://elsewhere/a?pin={SECRET[-4:]}")
                with raises_if(limited):
                    await ada.complete(greet, {"name": "who", "value": SECRET})
                assert (await ada.call_tool("one__cart", {})).is_error is limited
            await ada.call_tool("read_result", {"result": "none"})
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    expected = [
        ("one", "prompts/get", "greet"),
        ("one", "resources/read", "shop://list"),
        ("one", "resources/read", "shop://elsewhere/a"),
        ("one", "completion/complete", "greet"),
        ("one", "one__cart", None),
    ]
    assert [(one["server"], one["tool"], one.get("about"), one["outcome"], one.get("why")) for one in lines] == [
        *((*one, "done", None) for one in expected),
        *((*one, "refused", "limit") for one in expected),
        ("", "read_result", None, "error", None),
    ]
    assert SECRET[-4:] not in file.read_text("utf-8")


def raises_if(limited: bool) -> Any:
    return pytest.raises(MCPError, match="Your limit of 5 calls") if limited else nullcontext()


async def test_lines_are_logged_at_level_info_where_there_is_no_file(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "toolfold.audit")
    async with served({"*": row("read")}) as here, here.client("auto", sub="ada") as ada:
        await ada.call_tool("one__look", {})
    (line,) = [record.getMessage() for record in caplog.records if record.name == "toolfold.audit"]
    assert json.loads(line)["principal"] == "ada"


async def test_calls_go_on_while_lines_can_not_be_written_and_that_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served({"*": row("read")}) as here, here.client("auto", sub="ada") as ada:
        audit = AuditConfig(file=str(tmp_path / "no" / "folder"))
        await here.gateway.reconfigure(here.gateway.config.model_copy(update={"audit": audit}))
        assert [text_of(await ada.call_tool("one__look", {})) for _ in range(2)] == ["did look"] * 2
    assert ["can't be written" in record.message for record in caplog.records if record.name == "toolfold.audit"] == [
        True
    ]


@pytest.mark.parametrize("era", ERAS)
async def test_an_operator_sees_what_all_did_and_a_caller_what_it_did_itself(era: str) -> None:
    async with served({"*": row("destructive")}) as here:
        tools = here.gateway.tools
        include_status(tools, here.gateway.status_for)
        async with here.client(era, sub="ada") as ada, here.client(era, sub="bob") as bob:
            for _ in range(2):
                await ada.call_tool("one__look", {})
            await bob.call_tool("two__wipe", {})
            own = text_of(await ada.call_tool(STATUS_TOOL, {}))
        assert "caller ada: running; 2 calls, 0 of them with an error; most of one__look 2" in own
        assert "bob" not in own
        said = [as_text(line) for line in await status_of(tools, ())]
        assert any(line.startswith("caller bob: running; 1 call, 0") for line in said)
        usage = tools.usage
    assert usage is not None
    exposed = exposition(usage, 0).decode()
    assert 'toolfold_caller_calls_total{caller="ada",tool="one__look"} 2.0' in exposed
    names = [(one["name"], one["calls"]) for one in report(usage).data["callers"]]
    assert names == [("ada", 3), ("bob", 1)]
    sums = Usage("t")
    for _ in range(2):
        sums.add(json.loads(json.dumps(usage.dump())))
    assert sums.callers["bob", "two__wipe"].calls == 2


async def test_calls_of_nobody_known_are_of_no_caller() -> None:
    async with served({}) as here:
        async with here.gateway.tools.open_session(active=["one"]) as session:
            await session.call("one__look")
        usage: Any = here.gateway.tools.usage
        assert usage.callers == {}
        assert sum(each.calls for each in usage.calls.values()) == 1


def older(usage: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in usage.items() if key != "callers"}


def test_what_was_recorded_before_callers_were_can_be_added_up() -> None:
    usage = Usage("t")
    usage.add(older(usage.dump()))
    assert usage.callers == {}
