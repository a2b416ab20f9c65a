"""A call: what is called, with its arguments checked and its handler run, and what its answer becomes (SPEC 9).

Content blocks are plain mappings in the shape of the MCP specification, so the core needs no protocol package. Those of
the SDK and of FastMCP are accepted too, and recognised without importing these packages.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from attrs import evolve, field

from .._catalog.components import Component, Kind, words
from .._limits import escaped
from .._names import ToWire
from .._plain import all_encodable, as_json, encodable
from .._usercode import is_failure
from .._values import frozen
from ..errors import InvalidArguments, ProtocolError, StoreError, ToolError
from .describe import Described, Description, describe, line_of
from .reasons import refusal
from .visibility import RequestView, available

T = TypeVar("T")

log = logging.getLogger("toolfold")

Progress = Callable[[float, float | None, str | None], Awaitable[None]]


async def no_progress(progress: float, total: float | None, message: str | None) -> None:
    """Discard the report."""


def find(kind: Kind, name: str, view: RequestView, *, hints: bool) -> Component:
    """Return the component of a name if it is available in a view (SPEC CALL-1, CALL-4).

    Raises `ToolNotFound` otherwise, with the group to open first where `hints` are on; see `reasons.refusal`.
    """
    component = view.snapshot.catalog.components[kind].by_name.get(name)
    if component is None or not available(component, view):
        raise refusal(component, kind, name, view, groups=hints)
    return component


def find_resource(uri: str, view: RequestView, *, hints: bool) -> tuple[Component, Mapping[str, str]]:
    """Return the available resource at a URI, or a template with the values of its variables (SPEC REG-9).

    Raises `ToolNotFound` otherwise, as `find` does.
    """
    catalog = view.snapshot.catalog
    resource = catalog.components["resource"].by_name.get(uri)
    found = [*([] if resource is None else [(resource, dict[str, str]())]), *catalog.matching(uri)]
    for match in found:
        if available(match[0], view):
            return match
    raise refusal(found[0][0] if found else None, "resource", uri, view, groups=hints)


def as_object(name: str, arguments: Any) -> dict[str, Any]:
    """Return the arguments of a call by name, none for `None`, or raise `InvalidArguments` (SPEC CALL-2)."""
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        problem = f"they are a {type(arguments).__name__}, and must be a mapping of names to values"
        raise InvalidArguments(name, {"arguments": problem})
    given: dict[Any, Any] = {**arguments}
    if unnamed := [key for key in given if not isinstance(key, str)]:
        raise InvalidArguments(name, {"arguments": f"the name {unnamed[0]!r} is no text"})
    return given


async def fetch(
    component: Component,
    arguments: Mapping[str, Any] | None,
    context: Any,
    to_answer: Callable[[Any], T],
    name: str | None = None,
) -> T:
    """Return the answer of something available, whatever its handler raises (SPEC REG-9, CALL-3, SAF-2, SAF-3).

    Args:
        component: The tool, prompt, resource or template.
        arguments: Its arguments.
        context: What the handler is given.
        to_answer: Makes the answer of what the handler returned.
        name: What the caller knows a tool as.

    Raises:
        InvalidArguments: The arguments do not fit.
        ToolError: The handler raised it for the caller; or it failed in a way that its caller learns nothing
            of, and that is logged in full.
        ProtocolError: The handler asked for that error of the protocol.
    """
    values = as_object(name or component.name, arguments)
    if component.arguments is not None:
        values = component.arguments.check(name or component.name, values)
    try:
        return to_answer(await component.handler(values, context))
    except ProtocolError as error:
        raise _carried(error) from error.__cause__
    except ToolError:
        raise
    except StoreError as error:
        raise ToolError(str(error)) from error
    except BaseException as error:
        if not is_failure(error):
            raise
        kind = words(component.kind)
        log.exception("the handler of the %s %r failed", kind, component.name)
        called = name or f"The {kind} {component.name}"
        if isinstance(error, EmptySlot) and (group := error.reopen) is not None:
            text = f"{called} failed: what the group {group} opens for it is not there in this process."
            raise ToolError(f"{text} Close the group {group} and open it again.") from error
        raise ToolError(internal_error(called).text) from error


def _carried(error: ProtocolError) -> ProtocolError:
    """Return an error of the protocol that can be encoded as JSON; its data is whatever a handler gave."""
    try:
        data = encodable(error.data)
    except TypeError:
        log.exception("the data of an error of the protocol has no JSON form")
        data = None
    return error if data is error.data else ProtocolError(error.code, error.message, data)


# -- answers ----------------------------------------------------------------------------------------------------------


def _blocks(blocks: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    return tuple(blocks)


@frozen
class InputRequired:
    """What a handler answers that needs something of the caller first, who then calls again with the responses.

    `requests` are what is asked for, by name, in the shape of the MCP specification; `state` is returned with the
    responses. A handler of a tool, a prompt or a resource may answer so, if the protocol of its caller has it.
    """

    requests: Mapping[str, Mapping[str, Any]] = {}
    state: str | None = None


@frozen(eq=False)
class AboutTools:
    """What the text of a result says about tools, for adapters that describe tools in their own form.

    Attributes:
        tools: The tools: those that can be called now (SPEC CTL-4), or the one whose arguments were refused (CALL-2).
        text: Returns the text with a given description of the tools in it; `""` stands for none.
        ranked: Whether the tools are in order of relevance, and need not be in any list (SPEC FND-1).
        describe: Returns a description of the tools in at most a number of characters, and those described in full.
    """

    tools: tuple[Component, ...]
    text: Callable[[str], str]
    ranked: bool = False
    describe: Callable[[Sequence[Described], int], Description] = describe

    def listing(self, to_wire: ToWire, brief: Container[str] = ()) -> str:
        """Return the text with a line for each tool, which has a name, and a description unless it is among `brief`."""
        lines = (line_of(to_wire(one.name), "" if one.name in brief else one.description) for one in self.tools)
        return self.text("\n".join(lines))


@frozen
class ToolResult:
    """The answer to a call: content blocks for the model, structured content for programs, whether it is an error.

    Where no block of what a handler answers says anything, the structured content is a text block too.

    With `needs` it is no answer yet: the caller has to supply something and to call again. `about` is set where the
    library itself speaks of tools: when a group was opened or closed, and when arguments were refused.
    """

    content: tuple[Mapping[str, Any], ...] = field(default=(), converter=_blocks)
    structured: Any = None
    is_error: bool = False
    meta: Mapping[str, Any] | None = None
    needs: InputRequired | None = None
    about: AboutTools | None = field(default=None, eq=False, repr=False)

    @classmethod
    def of_text(cls, text: str, structured: Any = None, *, is_error: bool = False) -> ToolResult:
        """Return a result of one text block, escaped where UTF-8 can't carry it.

        SPEC SAF-2.
        """
        return cls(({"type": "text", "text": escaped(text)},), structured, is_error)

    def with_text(self, text: str) -> ToolResult:
        """Return the result with one more text block after the others, unless the text is empty."""
        return evolve(self, content=(*self.content, {"type": "text", "text": text})) if text else self

    @property
    def text(self) -> str:
        """The texts of the blocks, joined by line breaks."""
        return "\n".join(block["text"] for block in self.content if isinstance(block.get("text"), str))

    @property
    def readable(self) -> tuple[Mapping[str, Any], ...]:
        """The blocks that a model reads: the structured content as a text where none says anything.

        Many servers, and handlers that care for programs, answer with structured content alone; not every way of a
        result to a model has a place for it. A block without a text, such as an image, says something.
        """
        if self.structured is None or any(map(_says_something, self.content)):
            return self.content
        return ({"type": "text", "text": escaped(json.dumps(self.structured, ensure_ascii=False))},)


@frozen(kw_only=True, eq=False)
class Passed(ToolResult):
    """The answer of another server, to be passed on as it came; a handler of anything may answer so.

    `answer` is the whole of it, in the form of the caller's protocol. It is not encoded to see whether it can be. The
    other fields are what a tool's result has for programs in this process.
    """

    answer: Any


def _says_something(block: Mapping[str, Any]) -> bool:
    text = block.get("text")
    return bool(text.strip()) if isinstance(text, str) else len(block) > 1


class EmptySlot(LookupError):
    """A slot has no value for a session.

    `reopen` is the group that a model has to close and open again, where another process had filled the slot.
    """

    def __init__(self, text: str, reopen: str | None = None) -> None:
        self.reopen = reopen
        super().__init__(text)


def misfit(name: str, problems: str) -> ToolResult:
    """Return the answer to a call whose result is not one that the tool may give.

    SPEC KIT-6.
    """
    text = f"{name} failed: its result does not fit its output schema: {problems}. Its operator can find it in the log."
    return ToolResult.of_text(text, is_error=True)


def internal_error(name: str) -> ToolResult:
    """Return the answer to a call that failed in a way that its caller learns nothing of.

    SPEC CALL-3.
    """
    return ToolResult.of_text(
        f"{name} failed with an internal error; its operator can find it in the log.", is_error=True
    )


def error_result(component: Component, error: InvalidArguments | ToolError) -> ToolResult:
    """Return the result that says why a tool has none: where its arguments are wrong, or what it reported (CALL-3).

    Wrong arguments are named by their places, with what is expected there (SPEC CALL-2).
    """

    def text(schema: str) -> str:
        return f"{error}\n{schema}" if schema else str(error)

    result = ToolResult.of_text(text(""), is_error=True)
    return evolve(result, about=AboutTools((component,), text)) if isinstance(error, InvalidArguments) else result


def to_result(value: Any, *, structured: bool = False) -> ToolResult:
    """Return a handler's answer as a result: texts as they are, mappings also as structured content.

    Args:
        value: What the handler answered.
        structured: Whether texts, numbers and lists are structured content too.

    Raises:
        TypeError: The value has no JSON form.
    """
    if value is None:
        return ToolResult()
    if isinstance(value, str):
        return ToolResult.of_text(value, escaped(value) if structured else None)
    if (result := result_made(value)) is not None:
        return result
    if type(value) is not dict and (blocks := blocks_of(value)) is not None:
        return _encodable(ToolResult(blocks))
    plain, text = as_json(value)
    return ToolResult.of_text(text, plain if structured or isinstance(plain, dict) else None)


def result_made(value: Any) -> ToolResult | None:
    """Return what a handler answered as a result if it made the whole result itself, else `None`."""
    if isinstance(value, ToolResult):
        return value if isinstance(value, Passed) else _encodable(value)
    if isinstance(value, InputRequired):
        return ToolResult(needs=_encodable_needs(value))
    if not is_result_type(type(value)):
        return None
    blocks = blocks_of(value.content) or ()
    return _encodable(ToolResult(blocks, value.structured_content, bool(value.is_error), value.meta))


def _encodable(result: ToolResult) -> ToolResult:
    """Return a result that its author made, with everything in it encodable as JSON."""
    structured, meta, *blocks = all_encodable(result.structured, result.meta, *result.content)
    content = ToolResult(blocks, structured).readable
    needs = None if result.needs is None else _encodable_needs(result.needs)
    same = structured is result.structured and meta is result.meta and needs == result.needs
    if same and [*map(id, content)] == [*map(id, result.content)]:
        return result
    return evolve(result, content=content, structured=structured, meta=meta, needs=needs)


def _encodable_needs(needs: InputRequired) -> InputRequired:
    return InputRequired(encodable(needs.requests), encodable(needs.state))


def to_prompt(value: Any) -> Any:
    """Return what a prompt's handler answered as a prompt result: a text is one message of the user."""
    is_text = isinstance(value, str)
    return _with("messages", [{"role": "user", "content": {"type": "text", "text": value}}] if is_text else value)


def to_contents(uri: str, mime_type: str | None, value: Any) -> Any:
    """Return what a resource's handler answered as a resource result: texts and bytes become its one content."""
    kind = {"mimeType": mime_type} if mime_type else {}
    if isinstance(value, bytes):
        value = [{"uri": uri, **kind, "blob": base64.b64encode(value).decode()}]
    elif isinstance(value, str):
        value = [{"uri": uri, **kind, "text": value}]
    return _with("contents", value)


def _with(key: str, value: Any) -> Any:
    """Return an answer as a result that has it under a key, unless it is a result itself, or needs something first."""
    if isinstance(value, Passed):
        return value.answer
    if isinstance(value, InputRequired):
        return _encodable_needs(value)
    return encodable(dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {key: value})


# -- content and results as other packages have them ------------------------------------------------------------------


_PACKAGES = frozenset(("mcp", "mcp_types", "fastmcp"))
_RESULTS = frozenset(("CallToolResult", "ToolResult"))
_BLOCKS = frozenset(("TextContent", "ImageContent", "AudioContent", "ResourceLink", "EmbeddedResource"))
_HELPERS: Mapping[str, str] = {
    "Image": "to_image_content",
    "Audio": "to_audio_content",
    "File": "to_resource_content",
}
_CONTENT = _BLOCKS | _HELPERS.keys()


def is_content_type(kind: Any) -> bool:
    """Return whether instances of a class are content blocks."""
    return isinstance(kind, type) and _foreign(kind, _CONTENT) is not None


def is_result_type(kind: Any) -> bool:
    """Return whether instances of a class are whole results, with content blocks in them."""
    return isinstance(kind, type) and _foreign(kind, _RESULTS) is not None


def blocks_of(value: Any) -> tuple[Mapping[str, Any], ...] | None:
    """Return the content blocks that a value is, or is a list with; `None` if there are none in it."""
    if isinstance(value, list | tuple):
        items = tuple(cast("list[Any]", value))
        return tuple(map(_block, items)) if any(map(is_content_type, set(map(type, items)))) else None
    return (_block(value),) if is_content_type(type(value)) else None


def _foreign(kind: type, names: frozenset[str]) -> str | None:
    """Return the name of a class, or of one that it inherits from, that is one of `names` in those packages."""
    found = (base for base in kind.__mro__ if base.__name__ in names)
    return next((base.__name__ for base in found if base.__module__.partition(".")[0] in _PACKAGES), None)


def _block(item: object) -> Mapping[str, Any]:
    name, block = _foreign(type(item), _CONTENT), cast("Any", item)
    if name is None:
        return {"type": "text", "text": escaped(item) if isinstance(item, str) else as_json(item)[1]}
    block = getattr(block, _HELPERS[name])() if name in _HELPERS else block
    dumped: dict[str, Any] = block.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped
