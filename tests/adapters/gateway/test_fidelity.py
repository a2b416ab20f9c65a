"""What a client gets through a gateway is what it gets from the server, message by message (SPEC GWY-1, GWY-7).

But for the order of lists, which is that of names, so that a list is the same bytes each time (SPEC LST-1).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest

from tests.adapters.gateway.inprocess import SECONDS, Clock, config_of, refuse, wired
from tests.adapters.gateway.recording import played, recordings
from toolfold import ProtocolError
from toolfold_adapters.gateway import Runtime, open_gateway
from toolfold_adapters.gateway.upstream.definitions import name_of
from toolfold_adapters.gateway.upstream.handshake import ConnectMode
from toolfold_adapters.gateway.upstream.wire import Wire, connect
from toolfold_adapters.mcp import build_server

RECORDINGS = recordings()
KINDS = {
    "tools/list": ("tools", "tool"),
    "prompts/list": ("prompts", "prompt"),
    "resources/list": ("resources", "resource"),
    "resources/templates/list": ("resourceTemplates", "resource_template"),
}
OF_AN_ERA = frozenset({"resultType", "ttlMs", "cacheScope"})
"""The fields of a result that only one era has."""
OTHER = {
    "everything": {("simulate-research-query", "execution")},
    "gitlab": {
        (tool, "inputSchema")
        for tool in (
            *("create_branch", "create_issue", "create_merge_request", "create_or_update_file", "create_repository"),
            *("fork_repository", "get_file_contents", "push_files", "search_repositories"),
        )
    },
}
"""What passes in another form: input schemas without a type, since clients refuse a whole list for one of them; and
that a call has to be a task, which it need not be here. The modern era says nothing of tasks in definitions."""
SERVER_INFO = "io.modelcontextprotocol/serverInfo"


def _own(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result less what an era adds, and less what is the gateway's own."""
    meta = {key: one for key, one in (result.get("_meta") or {}).items() if key != SERVER_INFO}
    meta = {key: one for key, one in meta.items() if not key.startswith("dev.toolfold/")}
    found = {key: one for key, one in result.items() if key not in OF_AN_ERA and key != "_meta"}
    return {**found, "_meta": meta} if meta else found


def _text(value: Mapping[str, Any]) -> str:
    """Return what is compared of a result or an error: its text, whose outermost keys may stand in another order."""
    return json.dumps(dict(sorted(value.items())), ensure_ascii=False)


async def _asked(wire: Wire, method: str, params: Mapping[str, Any]) -> str:
    try:
        return _text(_own(await wire.request(method, params)))
    except ProtocolError as error:
        return _text({"code": error.code, "message": error.message, "data": error.data})


async def _listed(wire: Wire, method: str) -> dict[str, dict[str, str]]:
    """Return the definitions of a list by their names, page by page: each of their fields, as it is written."""
    key, kind = KINDS[method]
    found: dict[str, dict[str, str]] = {}
    params: dict[str, Any] = {}
    while True:
        answer = await wire.request(method, params)
        for one in answer[key]:
            name = name_of(kind, one)  # type: ignore[arg-type]
            if name is not None:
                fields = {field: json.dumps(value, ensure_ascii=False) for field, value in _own(one).items()}
                found.setdefault(name, fields)
        if answer.get("nextCursor") is None:
            return found
        params = {"cursor": answer["nextCursor"]}


def _differing(said: Mapping[str, Mapping[str, str]], passed: Mapping[str, Mapping[str, str]]) -> set[tuple[str, str]]:
    """Return what of which definitions is not written as the server writes it."""
    return {
        (name, field)
        for name, fields in said.items()
        for field in {*fields, *passed.get(name, {})}
        if fields.get(field) != passed.get(name, {}).get(field)
    }


@pytest.mark.spec("GWY-1", "GWY-7", "GWY-18")
@pytest.mark.parametrize("era", ["legacy", "auto"])
@pytest.mark.parametrize("name", RECORDINGS)
async def test_each_message_is_that_of_the_server(name: str, era: ConnectMode) -> None:
    recording = RECORDINGS[name]
    runtime = Runtime(clock=Clock(), transport=lambda config, called: played(recording))
    gateway = open_gateway(config_of(name), runtime=runtime)
    compared, modern = 0, era == "auto"
    with anyio.fail_after(SECONDS):
        async with AsyncExitStack() as stack:
            direct = await stack.enter_async_context(
                connect(played(recording), "auto", {}, refuse, lambda method, params, cause: None)
            )
            tools = await stack.enter_async_context(gateway)
            active = [group.path for group in tools.catalog.groups]
            front = build_server(tools, active=active, handles="stored", extend=gateway.extend)
            through = await stack.enter_async_context(wired(front, era))
            for exchange in recording["exchanges"]:
                method, params = exchange["method"], exchange["params"]
                if method in KINDS:
                    if params or "error" in exchange:
                        continue
                    said, passed = await _listed(direct, method), await _listed(through, method)
                    assert said.keys() <= passed.keys()
                    assert list(passed) == sorted(passed)
                    tasks = {(tool, "execution") for tool in said if "execution" in said[tool]} if modern else set()
                    assert (
                        _differing(said, passed)
                        == (OTHER.get(name, set()) if method == "tools/list" else set()) | tasks
                    )
                    compared += len(said)
                else:
                    assert await _asked(through, method, params) == await _asked(direct, method, params)
                    compared += 1
    assert compared


def test_forty_servers_of_several_revisions_are_recorded() -> None:
    assert len({one["serverInfo"]["name"] for one in RECORDINGS.values()}) >= 40
    assert {one["version"] for one in RECORDINGS.values()} >= {"2024-11-05", "2025-11-25", "2026-07-28"}
