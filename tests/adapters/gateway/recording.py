"""Records what real servers say, less their words, for the test of fidelity.

    python -m tests.adapters.gateway.recording NAME COMMAND…      start a server, and write `recorded/NAME.json`

A recording has each request and its answer as they came, in order: what the server lists, some of its resources and
prompts, and calls that lack what they need, which do nothing. Each letter of a text is replaced by one of its kind, so
that a text keeps its length and form, and says nothing: names, types and numbers stay.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.shared.message import SessionMessage

from toolfold import ProtocolError
from toolfold.spi import array, table
from toolfold_adapters.gateway import UpstreamConfig
from toolfold_adapters.gateway.upstream.transports import Transports
from toolfold_adapters.gateway.upstream.wire import Wire, connect

FOLDER = Path(__file__).parent / "recorded"
TEXTS = frozenset({"description", "title", "instructions", "text", "message", "default", "websiteUrl", "examples"})
"""The keys of what is a text, whatever it looks like; other strings are if they have spaces."""
DATA = frozenset({"data", "blob", "src"})
MOST_BYTES = 60_000
"""How large a recorded answer may be; a larger one is left out."""
MOST_LISTED = 40
"""How many definitions of a list are recorded."""
MOST_PAGES, MOST_READS, MOST_CALLS = 5, 3, 4
SECONDS = 60.0


def without_words(value: Any, key: str = "") -> Any:
    """Return JSON in which each letter and digit of a text is replaced by one of its kind."""
    if (given := table(value)) is not None:
        named = key in ("properties", "$defs", "definitions")  # names, whatever they are called
        return {name: without_words(one, "" if named else name) for name, one in given.items()}
    if (listed := array(value)) is not None:
        return [without_words(one, key) for one in listed]
    if not isinstance(value, str):
        return value
    if key in DATA:
        return "A" * min(len(value) // 4 * 4, 64)
    return "".join(map(_kind, value)) if key in TEXTS or " " in value else value


def _kind(letter: str) -> str:
    if letter.isdecimal():
        return "0"
    if not letter.isalpha():
        return letter
    return "X" if letter.isupper() else "x" if letter.islower() else "字"


class Recording:
    """What a server was asked and answered, in order."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.exchanges: list[dict[str, Any]] = []

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Ask something, and return the answer; an error is recorded, and answers nothing."""
        exchange: dict[str, Any] = {"method": method, "params": dict(params or {})}
        answer: dict[str, Any] = {}
        try:
            with anyio.fail_after(SECONDS):
                answer = exchange["result"] = await self._wire.request(method, exchange["params"])
        except ProtocolError as error:
            data = {} if error.data is None else {"data": error.data}
            exchange["error"] = {"code": error.code, "message": error.message, **data}
        except TimeoutError:
            return {}
        if len(json.dumps(exchange)) <= MOST_BYTES or method.endswith("/list"):
            self.exchanges.append(exchange)
        return answer

    async def pages(self, method: str, key: str) -> list[dict[str, Any]]:
        """Ask for a list, page by page, and return what it has."""
        found: list[dict[str, Any]] = []
        params: dict[str, Any] = {}
        for _ in range(MOST_PAGES):
            answer = await self.ask(method, params)
            del answer.get(key, [])[MOST_LISTED:]
            found += answer.get(key, [])
            if answer.get("nextCursor") is None:
                break
            params = {"cursor": answer["nextCursor"]}
        return found


async def recorded(command: tuple[str, ...], env: Mapping[str, str]) -> dict[str, Any]:
    """Return the recording of a server that a command starts."""

    async def refuse(method: str, params: Mapping[str, Any], cause: object) -> Mapping[str, Any]:
        raise MCPError(types.METHOD_NOT_FOUND, method)

    config = UpstreamConfig(command=command, env=env)
    transport = Transports()(config)
    async with connect(transport, "auto", {}, refuse, lambda method, params, cause: None) as wire:
        facts, recording = wire.facts, Recording(wire)
        able = facts.capabilities
        tools = await recording.pages("tools/list", "tools") if "tools" in able else []
        prompts = await recording.pages("prompts/list", "prompts") if "prompts" in able else []
        resources = await recording.pages("resources/list", "resources") if "resources" in able else []
        if "resources" in able:
            await recording.pages("resources/templates/list", "resourceTemplates")
        for prompt in prompts[:MOST_READS]:
            await recording.ask("prompts/get", {"name": prompt["name"]})
        for resource in resources[:MOST_READS]:
            await recording.ask("resources/read", {"uri": resource["uri"]})
        lacking = [one["name"] for one in tools if one.get("inputSchema", {}).get("required")]
        for name in lacking[:MOST_CALLS]:
            await recording.ask("tools/call", {"name": name, "arguments": {}})
        return {
            "version": facts.version,
            "serverInfo": without_words(facts.info),
            "capabilities": facts.capabilities,
            "instructions": without_words(facts.instructions, "instructions"),
            "exchanges": [_exchange(one) for one in recording.exchanges],
        }


def _exchange(given: dict[str, Any]) -> dict[str, Any]:
    return {**given, **{key: without_words(given[key]) for key in ("result", "error") if key in given}}


# -- played back ------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def played(recording: Mapping[str, Any]) -> AsyncGenerator[tuple[Any, Any]]:
    """Carry messages to a server that answers what was recorded, and nothing else."""
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage](100)
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage](100)

    async def serve() -> None:
        async for item in from_client:
            message = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
            if "id" in message and "method" in message:
                answer = answer_of(recording, message["method"], message.get("params") or {})
                sent = types.jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", "id": message["id"], **answer})
                await to_client.send(SessionMessage(sent))

    async with to_server, from_client, to_client, from_server, anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        yield from_server, to_server
        tasks.cancel_scope.cancel()


def answer_of(recording: Mapping[str, Any], method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result or the error with which a request was answered."""
    own = {key: value for key, value in params.items() if key != "_meta"}
    modern = recording["version"] == "2026-07-28"
    about = {key: recording[key] for key in ("capabilities", "instructions") if recording[key] is not None}
    if method == "server/discover" and modern:
        meta = {types.SERVER_INFO_META_KEY: recording["serverInfo"]}
        return {"result": {"supportedVersions": [recording["version"]], **about, "_meta": meta}}
    if method == "initialize" and not modern:
        return {
            "result": {"protocolVersion": recording["version"], "serverInfo": recording["serverInfo"], **about},
        }
    for exchange in recording["exchanges"]:
        if exchange["method"] == method and exchange["params"] == own:
            return {key: exchange[key] for key in ("result", "error") if key in exchange}
    if method in ("ping", "logging/setLevel"):
        return {"result": {}}
    return {"error": {"code": types.METHOD_NOT_FOUND, "message": method}}


def recordings() -> dict[str, dict[str, Any]]:
    """Return all recordings, by the names of their servers."""
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(FOLDER.glob("*.json"))}


def main(arguments: list[str]) -> int:
    """Record a server; return the exit status."""
    name, *command = arguments
    env = dict(one.split("=", 1) for one in command[: next(i for i, one in enumerate(command) if "=" not in one)])
    found = anyio.run(recorded, tuple(command[len(env) :]), env)
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    (FOLDER / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")
    print(f"{name}: {len(found['exchanges'])} exchanges, {found['version']}, {len(text):,} characters")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
