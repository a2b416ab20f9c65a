"""What passes through a gateway, tried: each is a check with a client of the SDK and the server of `peers.upstream`.

    python -m tests.benchmarks.passing      say what does not pass, and what came instead

A gateway has passed what arrives as the server sent it. A server's definition counts wherever a model finds it: in the
list, once a group is open, or in the answer of the gateway's own tool.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64decode
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import anyio
import httpx2
import mcp_types as types
from attrs import define, field
from mcp import Client, MCPError
from mcp.client.sse import sse_client

from tests.process.ports import free_port
from toolfold_adapters.gateway import UpstreamConfig
from toolfold_adapters.gateway.upstream.transports import Transports

from .harness import Comparison
from .peers import upstream
from .peers.gateways import PORT, Gateway, gateways, hubs

START_SECONDS = 60.0
CHECK_SECONDS = 6.0
SERVER = "u"
PATH = {"path": "abc"}


@define
class Trial:
    """A client of a gateway, what arrived at it, and the file in which the server notes what arrived there."""

    gateway: Gateway
    notes: Path
    client: Client = field(init=False)
    arrived: list[Any] = field(factory=list[Any])
    answer: str = ""

    async def call(self, tool: str, **options: Any) -> types.CallToolResult:
        """Return the result of a tool of the server, and keep it as the last answer."""
        result = await self.client.call_tool(*self.gateway.call(SERVER, tool, PATH), **options)
        self.answer = result.model_dump_json(by_alias=True, exclude_none=True)
        return result

    async def definition(self, tool: str) -> str:
        """Return the texts in which a model finds the definition of a tool, as JSON."""
        if self.gateway.definition is not None:
            result = await self.client.call_tool(*self.gateway.definition(SERVER, tool))
            self.answer = _text(result)
        else:
            listed = (await self.client.list_tools()).tools
            own = [one for one in listed if one.name == self.gateway.call(SERVER, tool, PATH)[0]]
            self.answer = json.dumps([one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in own])
        return self.answer

    async def noted(self, what: str) -> None:
        """Wait for a note of the server."""
        while not self.notes.exists() or what not in self.notes.read_text():  # noqa: ASYNC110 - by another process
            await anyio.sleep(0.05)

    async def received(self, kind: type) -> Any:
        """Wait for a message of a kind."""
        while True:
            for message in self.arrived:
                if isinstance(message, kind):
                    return message
            await anyio.sleep(0.05)

    async def message(self, message: Any) -> None:
        """Store a message."""
        self.arrived.append(message)

    async def elicit(self, context: Any, params: Any) -> types.ElicitResult:
        """Answer a question of the server to the user."""
        return types.ElicitResult(action="accept", content={"many": 7})

    async def roots(self, context: Any) -> types.ListRootsResult:
        """Answer which folders the client works on."""
        return types.ListRootsResult(roots=[types.Root.model_validate({"uri": "file:///project"})])

    async def sample(self, context: Any, params: Any) -> types.CreateMessageResult:
        """Answer a question of the server to the model."""
        text = types.TextContent(type="text", text="thought")
        return types.CreateMessageResult(role="assistant", content=text, model="m")


Check = Callable[[Trial], Awaitable[bool]]


async def _input_schema(trial: Trial) -> bool:
    return _within(upstream.INPUT, await trial.definition("read"))


async def _output_schema(trial: Trial) -> bool:
    return _within(upstream.OUTPUT, await trial.definition("read"))


async def _structured(trial: Trial) -> bool:
    return bool((await trial.call("read")).structured_content == {"count": 3})


async def _image(trial: Trial) -> bool:
    return any(isinstance(block, types.ImageContent) for block in (await trial.call("picture")).content)


async def _image_described(trial: Trial) -> bool:
    said = _text(await trial.call("picture"))
    return "image/png" in said and f"{len(b64decode(upstream.PIXEL))} bytes" in said


async def _error(trial: Trial) -> bool:
    result = await trial.call("fail")
    return bool(result.is_error) and "ran fail" in _text(result)


async def _prompts(trial: Trial) -> bool:
    (prompt,) = (await trial.client.list_prompts()).prompts
    return "Hello" in (await trial.client.get_prompt(prompt.name)).model_dump_json()


async def _resources(trial: Trial) -> bool:
    for resource in (await trial.client.list_resources()).resources:
        if "a page" in (await trial.client.read_resource(resource.uri)).model_dump_json():
            return True
    return False


async def _templates(trial: Trial) -> bool:
    for template in (await trial.client.list_resource_templates()).resource_templates:
        if "a page" in (await trial.client.read_resource(template.uri_template.format(name="x"))).model_dump_json():
            return True
    return False


async def _completions(trial: Trial) -> bool:
    (prompt,) = (await trial.client.list_prompts()).prompts
    found = await trial.client.complete(types.PromptReference(name=prompt.name), {"name": "who", "value": "A"})
    return found.completion.values == ["Ada"]


async def _updates(trial: Trial) -> bool:
    for resource in (await trial.client.list_resources()).resources:
        request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=str(resource.uri)))
        await trial.client.session.send_request(request, types.EmptyResult)
        await trial.call("touch")
        return bool(await trial.received(types.ResourceUpdatedNotification))
    return False


async def _roots(trial: Trial) -> bool:
    return "file:///project" in _text(await trial.call("roots"))


async def _progress(trial: Trial) -> bool:
    async def progress(done: float, total: float | None, text: str | None) -> None:
        trial.arrived.append(text)

    await trial.call("steps", progress_callback=progress)
    return bool(await trial.received(str) == "half")


async def _cancellation(trial: Trial) -> bool:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(trial.call, "wait")
        await trial.noted("waiting")
        tasks.cancel_scope.cancel()
    await trial.noted("cancelled")
    return True


async def _elicitation(trial: Trial) -> bool:
    return "7" in _text(await trial.call("elicit"))


async def _view(trial: Trial) -> bool:
    if upstream.VIEW not in await trial.definition("show"):
        return False
    read = await trial.client.read_resource(upstream.VIEW)
    return "a page" in read.model_dump_json()


async def _extension(trial: Trial) -> bool:
    return (await _raw(trial, "weather/at", city="Basel")).get("wind") == "Basel"


async def _pages(trial: Trial) -> bool:
    try:
        await trial.call("visit")
    except MCPError as error:
        refusal = upstream.REFUSALS["visit"]
        trial.answer = repr((error.code, error.message, error.data))
        return {"code": error.code, "message": error.message, "data": error.data} == refusal
    return False


async def _raw(trial: Trial, method: str, **params: Any) -> dict[str, Any]:
    """Return the answer to a request as it came: the SDK has no requests about tasks."""
    answer = await trial.client.session._dispatcher.send_raw_request(method, params)
    trial.answer = json.dumps(answer)
    return answer


async def _started(trial: Trial) -> str:
    """Return the id of a task that a call has become, as the client has it."""
    tool, arguments = trial.gateway.call(SERVER, "later", PATH)
    answer = await _raw(trial, "tools/call", name=tool, arguments=arguments, task={"ttl": 60_000})
    return types.CreateTaskResult.model_validate(answer).task.task_id


async def _task(trial: Trial) -> bool:
    task = await _started(trial)
    while (await _raw(trial, "tasks/get", taskId=task))["status"] != "completed":
        pass
    return "did it" in json.dumps(await _raw(trial, "tasks/result", taskId=task))


async def _task_cancelled(trial: Trial) -> bool:
    await _raw(trial, "tasks/cancel", taskId=await _started(trial))
    await trial.noted("task cancelled")
    return True


async def _task_waited_for(trial: Trial) -> bool:
    return "did it" in _text(await trial.call("only_later"))


async def _sampling(trial: Trial) -> bool:
    return "thought" in _text(await trial.call("sample"))


async def _log(trial: Trial) -> bool:
    await trial.call("say")
    return bool((await trial.received(types.LoggingMessageNotification)).params.data == "said")


async def _list_changed(trial: Trial) -> bool:
    await trial.call("grow")
    return bool(await trial.received(types.ToolListChangedNotification))


async def _new_tool(trial: Trial) -> bool:
    await trial.call("grow")
    while True:
        try:
            if "ran grown" in _text(await trial.call("grown")):
                return True
        except MCPError:
            pass
        await anyio.sleep(0.2)


async def _any_call(trial: Trial) -> bool:
    return "ran read" in _text(await trial.call("read"))


CHECKS: dict[str, Check] = {
    "input schemas, unchanged": _input_schema,
    "output schemas": _output_schema,
    "structured content of a result": _structured,
    "images in a result": _image,
    "a failed call is an error": _error,
    "prompts": _prompts,
    "resources": _resources,
    "an app's view that only a tool names": _view,
    "resource templates": _templates,
    "completions": _completions,
    "updates of a resource": _updates,
    "a method of an extension": _extension,
    "progress": _progress,
    "elicitation": _elicitation,
    "elicitation by URL: a refusal with the pages": _pages,
    "sampling": _sampling,
    "a task is started, polled and its result fetched": _task,
    "a task is cancelled": _task_cancelled,
    "a tool that can only be a task, for a client that knows none": _task_waited_for,
    "roots": _roots,
    "log messages": _log,
    "notice of a changed list": _list_changed,
    "call of a tool that was added": _new_tool,
    "cancellation reaches the server": _cancellation,
}
"""By what is checked: the checks with a client and a server of the legacy era, in the order in which they are made."""
Mode = Literal["legacy", "2026-07-28"]
ERAS: dict[str, tuple[Mode, tuple[str, ...]]] = {
    "a client and a server of 2026-07-28": ("2026-07-28", ("modern",)),
    "a client of 2026-07-28, a server of 2025-11-25": ("2026-07-28", ()),
    "a client of 2025-11-25, a server of 2026-07-28": ("legacy", ("modern",)),
}
"""By what is checked with a call: the mode of the client, and how the server is started."""
HOSTS: dict[str, tuple[str, Check]] = {
    "an image's type and size, for a host that shows none": ("copilot-cli", _image_described),
}
"""By what is checked: what a client calls itself, and the check."""
Why = Callable[[str, str], None]


async def passes(gateway: Gateway, folder: Path, *, why: Why | None = None) -> dict[str, bool]:
    """Return whether each thing passes through a gateway; `why` is called with what came where one does not."""
    found = await _checked(gateway, folder, CHECKS, "legacy", (), why)
    for what, (mode, options) in ERAS.items():
        found |= await _checked(gateway, folder, {what: _any_call}, mode, options, why)
    for what, (host, check) in HOSTS.items():
        found |= await _checked(gateway, folder, {what: check}, "legacy", (), why, host)
    return found


async def _checked(
    gateway: Gateway,
    folder: Path,
    checks: dict[str, Check],
    mode: Mode,
    options: tuple[str, ...],
    why: Why | None,
    host: str = "a client",
) -> dict[str, bool]:
    trial = Trial(gateway, folder / "notes")
    trial.notes.unlink(missing_ok=True)
    found = dict.fromkeys(checks, False)
    try:
        async with _connected(trial, folder, mode, options, host):
            for what, check in checks.items():
                trial.answer = ""
                with anyio.move_on_after(CHECK_SECONDS):
                    try:
                        found[what] = await check(trial)
                    except* (MCPError, ValueError, RuntimeError) as errors:
                        trial.answer = repr(errors.exceptions)
                if why is not None and not found[what]:
                    why(f"{gateway.name}: {what}", trial.answer)
    except* (MCPError, ValueError, TimeoutError, httpx2.HTTPError) as errors:  # it serves no client of this mode
        if why is not None:
            why(f"{gateway.name}: {', '.join(checks)}", repr(errors.exceptions))
    return found


@asynccontextmanager
async def _connected(
    trial: Trial, folder: Path, mode: Mode, options: tuple[str, ...], host: str
) -> AsyncGenerator[None]:
    served = {"command": sys.executable, "args": [upstream.__file__, str(trial.notes), *options]}
    command = tuple(trial.gateway.to({SERVER: served}, folder))
    async with (
        _reached(trial.gateway, command) as transport,
        Client(
            transport,
            mode=mode,
            client_info=types.Implementation(name=host, version="1"),
            message_handler=trial.message,
            elicitation_callback=trial.elicit,
            sampling_callback=trial.sample,
            list_roots_callback=trial.roots,
            cache=None,
        ) as trial.client,
    ):
        with anyio.fail_after(START_SECONDS):
            while not (await trial.client.list_tools()).tools:  # noqa: ASYNC110 - its server has not started yet
                await anyio.sleep(0.2)
            if trial.gateway.opening is not None:
                await trial.client.call_tool(*trial.gateway.opening(SERVER))
        yield


@asynccontextmanager
async def _reached(gateway: Gateway, command: tuple[str, ...]) -> AsyncGenerator[Any]:
    """Yield what carries messages to a gateway, started for one client or at a port."""
    if gateway.sse is None:
        yield Transports()(UpstreamConfig(command=command, env=gateway.environment))
        return
    port = free_port()
    words = [str(port) if word == PORT else word for word in command]
    quiet = subprocess.DEVNULL
    async with await anyio.open_process(words, env=gateway.environment, stdout=quiet, stderr=quiet) as process:
        try:
            url = f"http://127.0.0.1:{port}{gateway.sse}"
            with anyio.fail_after(START_SECONDS):
                while not await _answers(url):  # noqa: ASYNC110 - it has not started yet
                    await anyio.sleep(0.1)
            yield sse_client(url)
        finally:
            process.terminate()


async def _answers(url: str) -> bool:
    """Return whether a stream begins at a URL."""
    try:
        async with httpx2.AsyncClient() as client, client.stream("GET", url) as answer:
            return answer.status_code == 200
    except httpx2.HTTPError:
        return False


def _within(schema: dict[str, Any], text: str) -> bool:
    """Return whether a text has a schema as JSON, whatever stands around it and however it is spaced and ordered."""
    decoder = json.JSONDecoder()
    for start in (at for at, character in enumerate(text) if character == "{"):
        try:
            found, _ = decoder.raw_decode(text, start)
        except ValueError:
            continue
        if found == schema:
            return True
    return False


def _text(result: types.CallToolResult) -> str:
    return "\n".join(getattr(block, "text", "") for block in result.content)


def compare(*, quick: bool = False) -> Comparison:
    """Return whether each thing passes through each gateway, 1 or 0; `quick` makes no difference."""
    found = Comparison("what passes")
    anyio.run(_compare, found, None)
    return found


async def _compare(found: Comparison, why: Why | None) -> None:
    with TemporaryDirectory() as name:
        environment = {**os.environ, "XDG_CACHE_HOME": str(Path(name) / "cache")}
        for gateway in (*gateways(environment), *hubs(environment)):
            for what, passed in (await passes(gateway, Path(name), why=why)).items():
                found.add(what, gateway.name, float(passed))


if __name__ == "__main__":
    anyio.run(_compare, Comparison("what passes"), lambda what, reason: print(f"{what}: {reason[:300]}", flush=True))
