"""The tools that call other tools, and the handle argument: for clients that never list again (SPEC DEL-2, CTL-9).

`call_tool` makes one call, and `read_tool` one that only reads. `call_tools` makes several in one request, in order or
at the same time, each with its own result (SPEC COD-2): a call that fails stops only those that name it in `after`, and
what a call opens is open for those that are made after it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import anyio
from anyio import CapacityLimiter, Event
from mcp.shared.exceptions import MCPError
from mcp_types import URL_ELICITATION_REQUIRED

from toolfold import (
    Catalog,
    Component,
    ConfigError,
    Context,
    InvalidArguments,
    InvalidName,
    Session,
    ToolfoldError,
    ToolResult,
    ToolSet,
    Visibility,
    WireNames,
    qualified_name,
)
from toolfold.spi import HANDLE, Arguments, Passed, RequestView, available, frozen, opened_for, quoted, table

from ...names import ALWAYS_LOAD_META, RESULTS_META
from .answers import cut
from .render import dumped, passed, wire_errors, with_text

HANDLE_SCHEMA = {
    "type": "string",
    "description": "The last handle that you were given, if any.",
}


_CALLED = {
    "name": {"type": "string"},
    "arguments": {"type": "object", "description": "As the tool's own schema says."},
}


@frozen
class ToolCall:
    """A call of a tool by its name on the wire, under a handle if there is one."""

    name: str
    arguments: dict[str, Any]
    handle: str | None


READ_TOOL = "read_tool"
"""The name of the proxy that calls only tools which say that they read."""


class CallToolProxy:
    """`call_tool`: a tool that calls other tools by name; or `read_tool`, which calls only those that read.

    Args:
        name: The name of the tool.
        with_handle: Whether its definition has a handle, as it must without sessions; it takes one anyway (SPEC CTL-8).
        instead: The proxy for tools that do not say that they only read, if this one refuses them (SPEC CTL-9).
    """

    def __init__(self, name: str, *, with_handle: bool, instead: str | None = None) -> None:
        self.name = name
        self._instead = instead
        which = "a tool that only reads and" if instead else "a tool that"
        self.component, self._arguments = offered(
            name,
            "Read by a tool of an open group" if instead else "Call a tool of an open group",
            f"Call {which} is not in your list, once its group is open.",
            _CALLED,
            with_handle=with_handle,
            **({"annotations": {"readOnlyHint": True}} if instead else {}),
        )

    def unpack(self, arguments: Mapping[str, Any] | None) -> ToolCall:
        """Return the call that the arguments describe, or raise `InvalidArguments`."""
        given = self._arguments.check(self.name, dict(arguments or {}))
        return ToolCall(given["name"], given.get("arguments", {}), given.get(HANDLE))

    def calls(self, component: Component | None) -> bool:
        """Return whether this proxy makes calls of a tool, if it is available."""
        annotations = table(component.definition.get("annotations")) if component is not None else None
        return self._instead is None or (annotations or {}).get("readOnlyHint") is True

    def refusal(self, asked: str, component: Component | None, view: RequestView) -> ToolResult | None:
        """Return the answer to a call of a tool by the name `asked` that this proxy does not make, or `None`.

        What is not available is not refused here: nothing is said of it, not even whether it reads (SPEC CALL-1).
        """
        if self.calls(component) or component is None or not available(component, view):
            return None
        text = f"{quoted(asked)} does not say that it only reads: call it by {self._instead}."
        return ToolResult.of_text(text, is_error=True)


def offered(
    name: str, title: str, description: str, properties: Mapping[str, Any], *, with_handle: bool, **more: Any
) -> tuple[Component, Arguments]:
    """Return a tool that calls others, which is always there and stays in view, and the checks of its arguments."""
    schema = {
        "type": "object",
        "properties": {**({HANDLE: HANDLE_SCHEMA} if with_handle else {}), **properties},
        "required": [next(iter(properties))],
        "additionalProperties": False,
    }
    definition = {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": schema,
        **more,
        "_meta": {ALWAYS_LOAD_META: True},
    }
    rule = Visibility.always()
    component = Component(kind="tool", name=name, rule=rule, definition=definition, handler=_never_run)
    return component, Arguments.passing_handle(name, schema)


async def _never_run(arguments: dict[str, Any], context: Context) -> None:
    """Do nothing: a delivery unpacks the call and makes the one inside."""


def with_handle(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition of a control tool with a handle among its arguments."""
    schema = definition["inputSchema"]
    properties = {**schema.get("properties", {}), HANDLE: HANDLE_SCHEMA}
    return {**definition, "inputSchema": {**schema, "properties": properties}}


async def open_for(session: Session, name: str) -> tuple[str, ...]:
    """Open the groups that a tool needs, if that runs no hook and closes nothing, and return them (SPEC DEL-12)."""
    view = session.view()
    wanted = opened_for(name, view)
    if not wanted:
        return ()
    try:
        return (await session.transition(activate=wanted, view=view)).activated
    except ToolfoldError:
        return ()  # the call is refused for the same reason


def with_opened(result: ToolResult, paths: Sequence[str], catalog: Catalog, room: int) -> ToolResult:
    """Return the answer to a call that also says which groups were opened for it, and their instructions (SKL-1)."""
    text = f"\nOpened for this call: {', '.join(paths)}."  # some clients join texts without anything between them
    if instructions := catalog.instructions(paths):
        text += f"\n\n{cut(instructions, room - len(text) - len(result.text) - 3)}"
    return with_text(result, text)  # after the tool's own content: programs read the first block


def reserve_names(tools: ToolSet, wire: WireNames, names: Sequence[str]) -> None:
    """Register the present and future names of `tools` with `wire`, and reserve `names` for the call-tool proxies.

    Raises:
        ConfigError: Two names would be the same on the wire, or a tool has one of `names` (SPEC NAM-6, DEL-2). Nothing
            stays reserved then, so that the names are free for another server.
    """
    if len({*names}) < len(names):
        raise ConfigError(f"The call-tool proxy can't be called {names[0]!r}: that is the name of another one.")
    for name in names:
        try:
            qualified_name("", name)
        except InvalidName as error:
            raise ConfigError(f"The call-tool proxy can't be called {name!r}: {error.problem}.") from error

    def check(registered: str) -> None:
        if (name := wire.to_wire(registered)) in names:
            proxy = "the proxy with call_tool=" if name == names[0] else f"leave out {name}="
            raise ConfigError(f"A tool has the name of the call-tool proxy, {name!r}: rename the tool, or {proxy}")

    def checked(admit: Callable[[str], None], registered: str) -> None:
        admit(registered)
        check(registered)

    tools.guard_names(partial(checked, wire.admit), wire.release, partial(checked, wire.admit_control))


# -- several calls in one request --------------------------------------------------------------------------------------

CALL_TOOLS = "call_tools"
"""The name of the proxy that makes several calls."""

MOST_CALLS = 100
"""How many calls a request may have."""
AT_ONCE = 8
"""How many of them are made at the same time, since a request counts as one towards a caller's limit (SPEC SAF-4)."""

ReportProgress = Callable[[float, float | None, str | None], Awaitable[None]]

_CALL = {
    "type": "object",
    "properties": {
        **_CALLED,
        "after": {
            "type": "array",
            "items": {"type": "integer", "minimum": 1},
            "description": "The numbers of earlier calls, from 1, without whose success this one is not made.",
        },
    },
    "required": ["name"],
    "additionalProperties": False,
}


class CallTools:
    """`call_tools`, which makes several calls as `call_tool` makes one.

    Args:
        with_handle: Whether its definition has a handle, as that of `call_tool`.
    """

    name = CALL_TOOLS

    def __init__(self, *, with_handle: bool) -> None:
        self.component, self._arguments = offered(
            self.name,
            "Call several tools of open groups",
            "Make several calls in one request, of tools in your list or not. Each has its own result.",
            {
                "calls": {"type": "array", "items": _CALL, "minItems": 1, "maxItems": MOST_CALLS},
                "parallel": {"type": "boolean", "description": "Make them at the same time; otherwise in order."},
            },
            with_handle=with_handle,
        )

    def unpack(self, arguments: Mapping[str, Any] | None) -> ToolCall:
        """Return the call of this tool with checked arguments, or raise `InvalidArguments`."""
        given = self._arguments.check(self.name, dict(arguments or {}))
        for number, call in enumerate(given["calls"], 1):
            if later := [other for other in call.get("after", ()) if other >= number]:
                where = f"arguments.calls[{number - 1}].after"
                raise InvalidArguments(self.name, {where: f"call {later[0]} does not come before call {number}"})
        handle = given.pop(HANDLE, None)
        return ToolCall(self.name, given, handle)


def proxies_of(
    call_tool: str | None, *, with_handle: bool, read_tool: bool, call_tools: bool
) -> dict[str, CallToolProxy | CallTools]:
    """Return the tools that call other tools and are offered, by name; the first calls any one, if there are any."""
    if call_tool is None:
        return {}
    proxies: list[CallToolProxy | CallTools] = [CallToolProxy(call_tool, with_handle=with_handle)]
    if read_tool:
        proxies.append(CallToolProxy(READ_TOOL, with_handle=with_handle, instead=call_tool))
    if call_tools:
        proxies.append(CallTools(with_handle=with_handle))
    return {proxy.name: proxy for proxy in proxies}


@frozen
class Part:
    """What one of several calls is given of its request: how it reports progress, and the room of its answer."""

    progress: ReportProgress
    room: int


Make = Callable[[ToolCall, Part], Awaitable[ToolResult]]


async def make_calls(
    ctx: Any, arguments: Mapping[str, Any], make: Make, controls: Sequence[bool], *, room: int, modern: bool
) -> list[ToolResult]:
    """Return the results of several calls, in the order of the calls.

    A tool that opens or closes groups is called after the calls before it and before those after it, in either mode.
    If this is cancelled, so is every call that is being made.

    Args:
        ctx: The context of the request, which is given the progress of all: their number is the total.
        arguments: Those of `call_tools`, checked.
        make: Makes one call.
        controls: Which of them are calls of tools that open or close groups.
        room: How many characters all answers may have.
        modern: Whether the request is of the modern era.
    """
    calls: Sequence[Mapping[str, Any]] = arguments["calls"]
    done = [Event() for _ in calls]
    results = [_error("It was cancelled.") for _ in calls]
    limiter, progress = CapacityLimiter(AT_ONCE), _Progress(ctx.session.report_progress, len(calls))
    own_room = room // max(1, sum(controls))

    def waits_for(number: int) -> set[int]:
        if not arguments.get("parallel") or controls[number]:
            return {*range(number)}
        barrier = {other for other in range(number) if controls[other]}
        return barrier | {other - 1 for other in calls[number].get("after", ())}

    async def made(call: ToolCall, part: Part) -> ToolResult:
        try:
            with wire_errors(call.name, modern=modern):
                return _plain(await make(call, part))
        except MCPError as error:
            alone = " Call it alone." if error.code == URL_ELICITATION_REQUIRED else ""
            return _error(f"{error.message}{alone}")

    async def run(number: int) -> None:
        name = calls[number]["name"]
        after: list[int] = [other - 1 for other in calls[number].get("after", ())]
        try:
            for other in waits_for(number):
                await done[other].wait()
            if (failed := next((other for other in after if results[other].is_error), None)) is not None:
                results[number] = _error(f"It was not made, because call {failed + 1} failed.")
                return
            async with limiter:
                part = Part(progress.of(number, name), own_room)
                results[number] = await made(ToolCall(name, calls[number].get("arguments", {}), None), part)
        finally:
            done[number].set()
            await progress.ended(number, name)

    async with anyio.create_task_group() as tasks:
        for number in range(len(calls)):
            tasks.start_soon(run, number)
    return results


class _Progress:
    """The progress of several calls as that of one request, which may only grow (SPEC GWY-1)."""

    def __init__(self, report: ReportProgress, calls: int) -> None:
        self._report = report
        self._come = [0.0] * calls
        self._reported = 0.0

    def of(self, number: int, name: str) -> ReportProgress:
        async def report(progress: float, total: float | None = None, message: str | None = None) -> None:
            come = max(0.0, progress)  # others may report what is less than nothing
            share = come / total if total else come / (come + 1)
            await self._to(number, min(share, 0.99), f"{name}: {message}" if message else name)

        return report

    async def ended(self, number: int, name: str) -> None:
        await self._to(number, 1, name)

    async def _to(self, number: int, share: float, message: str) -> None:
        self._come[number] = max(self._come[number], share)
        if (come := sum(self._come)) > self._reported:
            self._reported = come
            await self._report(come, len(self._come), message)


def _error(text: str) -> ToolResult:
    return ToolResult.of_text(text, is_error=True)


def _plain(result: ToolResult) -> ToolResult:
    """Return a result as it can be one of several."""
    if result.needs is not None:
        return _error("It asks for something before it answers: call it alone.")
    if not isinstance(result, Passed):
        return result
    if isinstance(result.answer, BaseException):
        raise result.answer
    return passed(dumped(result.answer))


# -- their answer ------------------------------------------------------------------------------------------------------


def joined(
    calls: Sequence[Mapping[str, Any]],
    results: Sequence[ToolResult],
    room: int,
    rest_of: Callable[[str], str] = lambda text: "call it alone",
) -> ToolResult:
    """Return the answer to a request, in which each result comes under its number and the name of its tool.

    Texts have at most so many characters in all: short ones are whole, the others are cut alike, and say so. The answer
    is an error if all calls failed. `_meta` says of each result whether it is one and how many blocks it has.

    Args:
        calls: The calls.
        results: Their results.
        room: How many characters they may have.
        rest_of: Returns how the rest of a text is read that is cut.
    """
    heads = [
        f"[{number}] {quoted(call['name'])}{' failed' if result.is_error else ''}:"
        for number, (call, result) in enumerate(zip(calls, results, strict=True), 1)
    ]
    given = [_blocks(result) for result in results]
    sizes = [sum(len(block["text"]) for block in blocks if block["type"] == "text") for blocks in given]
    most = _most(sizes, room - sum(len(head) + 2 for head in heads))
    parts = [_headed(head, _cut(blocks, most, rest_of)) for head, blocks in zip(heads, given, strict=True)]
    about = [
        {"isError": result.is_error, "blocks": len(part), **({"_meta": dict(result.meta)} if result.meta else {})}
        for result, part in zip(results, parts, strict=True)
    ]
    content = [block for part in parts for block in part]
    return ToolResult(content, is_error=all(result.is_error for result in results), meta={RESULTS_META: about})


def _blocks(result: ToolResult) -> list[dict[str, Any]]:
    """Return the content of a result, with the texts of resources as texts."""
    blocks: list[dict[str, Any]] = []
    for block in result.content:
        match block:
            case {"type": "resource", "resource": {"text": str(text), "uri": uri}}:
                blocks.append({"type": "text", "text": f"{uri}\n{text}"})
            case _:
                blocks.append(dict(block))
    return blocks


def _most(sizes: Sequence[int], room: int) -> int:
    """Return how many characters each may have at most, so that all have no more than there is room for."""
    left = max(room, 0)
    for place, size in enumerate(ordered := sorted(sizes)):
        if size * (len(ordered) - place) > left:
            return left // (len(ordered) - place)
        left -= size
    return max(ordered, default=0)


def _cut(blocks: Sequence[dict[str, Any]], most: int, rest_of: Callable[[str], str]) -> list[dict[str, Any]]:
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    whole = sum(map(len, texts))
    if whole <= most:
        return [*blocks]
    remark = f"… ({whole:,} characters in all: {rest_of(''.join(texts))})"
    left, retained = max(most - len(remark), 0), list[dict[str, Any]]()
    for block in blocks:
        if block["type"] != "text":
            retained.append(block)
        elif left:
            retained.append({**block, "text": block["text"][:left]})
            left -= len(retained[-1]["text"])
    return [*retained, {"type": "text", "text": remark}]


def _headed(head: str, blocks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return blocks under a heading; lines end within a text, since some clients join them without anything between."""
    first, rest = {"type": "text", "text": f"{head}\n"}, [*blocks]
    if rest and rest[0]["type"] == "text":
        first["text"] += rest.pop(0)["text"]
    part = [first, *rest]
    if part[-1]["type"] == "text" and not part[-1]["text"].endswith("\n"):
        part[-1] = {**part[-1], "text": f"{part[-1]['text']}\n"}
    return part
