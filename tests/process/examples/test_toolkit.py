"""The toolkit example over HTTP and as programs of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from examples.toolkit import build
from tests.adapters.mcp.support import PATIENCE, client_of, target_of
from tests.examples.test_toolkit import ERAS, LISTED, text_of

ROOT = Path(__file__).parents[3]

PATHS = ":".join(str(path) for path in (ROOT, *(ROOT / name for name in ("core", "adapters", "specs"))))


@pytest.mark.spec("KIT-4", "KIT-5", "VIS-6")
@pytest.mark.parametrize("transport", ["memory", "http"])
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_sees_categories_and_no_hidden_tool(era: str, transport: str) -> None:
    """Document D, category metadata and hidden tools."""
    async with target_of(transport, build()) as target, client_of(target, era) as (client, _):
        shown = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert shown.keys() - {"reports.activate", "call_tool"} == LISTED
        categories = {name: (tool.meta or {}).get("category") for name, tool in shown.items()}
        assert categories["say"] == "Words"
        assert categories["read_note"] == "Notes"
        assert categories["unlock"] is None
        assert shown["read_note"].annotations is not None
        assert shown["read_note"].annotations.read_only_hint is True


@pytest.mark.parametrize("era", ERAS)
async def test_a_person_can_start_it_with_one_command(era: str) -> None:
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "toolfold_cli", "serve", "examples.toolkit:tools"],
        env={"PYTHONPATH": PATHS},
        cwd=str(ROOT),
    )
    async with Client(command, mode=era) as one:
        assert await text_of(one, "say", {"message": "hello"}) == "hello"


def test_its_demonstration_shows_what_document_d_is_about() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.toolkit"],
        cwd=ROOT,
        env={"PYTHONPATH": PATHS},
        capture_output=True,
        text=True,
        check=True,
        timeout=6 * PATIENCE,
    )
    lines = {
        name.strip(): received.strip()
        for name, _, received in (line.partition(":") for line in done.stdout.splitlines())
    }
    assert lines["Housekeeping"] == "tools: (forget_notes) [Housekeeping]"
    assert lines["Defaults"] == "hello hello"
    assert "maximum of 10" in lines["Out of bounds"]
    assert lines["Hidden, called"] == "1"
    assert lines["In a group"] == '{"week": 41, "orders": 23}'
    assert "result.orders" in lines["Wrong result"]
    assert lines["Unlocked"] == "tools: reindex [Power]"
