"""A conversation whose process is killed within a hook goes on in another one (SPEC STO-1, STO-3)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.adapters.mcp.support import PATIENCE
from tests.preloaded import forked
from tests.process.stores.servers import flushed
from toolfold import HookContext, ToolSet
from toolfold_adapters.inprocess import Conversation
from toolfold_adapters.stores import open_store

LEASE = 0.5


def make_tools(log: Path, dies_at: str = "") -> ToolSet:
    """Return a tool set whose hooks write what they do to a file, after which one of them may die."""
    tools = ToolSet("desk", control="open_group")

    def hook(context: HookContext) -> None:
        what = f"{context.phase} {context.group}"
        with log.open("a") as file:
            print(what, file=file, flush=True)
        if what == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    for path in ("mail", "files"):
        tools.register_group(path, path, on_activate=hook, on_deactivate=hook)
        tools.register("look", lambda: "seen", description="Look.", group=path, input_schema={"type": "object"})
    tools.register_exclusion("mail", "files")
    return tools


async def converse(url: str, log: Path, *groups: str, dies_at: str = "") -> list[str]:
    """Open groups one after the other in the conversation, and return what is open."""
    store = open_store(url)
    store.lease = LEASE
    async with make_tools(log, dies_at).stored_sessions(store) as stored, stored.open("chat") as session:
        conversation = Conversation.of_session(session)
        for group in groups:
            (result,) = await conversation.execute([("open_group", {"group": group})])
            assert not result.is_error, result.text
        opened = list(conversation.loaded)
    await store.aclose()
    return opened


async def lease_has_ended(url: str) -> None:
    """Wait until the lease of the process that died has expired, since reads don't wait for it."""
    store = open_store(url)
    with anyio.fail_after(PATIENCE):
        while await store.idlest("desk/session", None) is None:  # noqa: ASYNC110 - time passes in the store alone
            await anyio.sleep(LEASE / 10)
    await store.aclose()


@pytest.mark.spec("STO-1", "STO-3", "HOOK-5")
@pytest.mark.parametrize("engine", ["sqlite", "redis"])
@pytest.mark.parametrize("dies_at", ["on_deactivate mail", "on_activate files"])
async def test_the_transition_is_undone_and_the_conversation_goes_on(
    engine: str, dies_at: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path / 'state.db'}"
    if engine == "redis":
        url = request.getfixturevalue("redis_url")
        await flushed(url)
    log = tmp_path / "log"
    command = forked(__file__, url, str(log), dies_at)
    done = await anyio.run_process(
        command, check=False, env={"PYTHONPATH": ":".join(sys.path)}, stderr=subprocess.STDOUT
    )
    assert done.returncode == -signal.SIGKILL, done.stdout.decode()
    begun = ["on_deactivate mail", "on_activate files"]
    begun = begun[: begun.index(dies_at) + 1]
    await lease_has_ended(url)
    assert await converse(url, log) == ["mail"]
    undone = {"on_deactivate mail": "on_activate mail", "on_activate files": "on_deactivate files"}
    assert log.read_text().splitlines() == ["on_activate mail", *begun, *(undone[one] for one in reversed(begun))]
    assert await converse(url, log, "files") == ["files"]


if __name__ == "__main__":
    _, url, path, dies_at = sys.argv
    anyio.run(partial(converse, url, Path(path), "mail", "files", dies_at=dies_at))
