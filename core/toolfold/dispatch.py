"""Calling: what a handler is given, what it may answer, and how its answer becomes a result (SPEC 9).

Content blocks are plain mappings in the shape of the MCP specification, so the core needs no protocol package.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast, get_args

from attrs import evolve, field, frozen

from .catalog import Handler, Spec
from .errors import InvalidArguments, InvalidDefinition, ProtocolError, ToolError
from .limits import escaped
from .names import Spelling
from .plain import as_json, encodable
from .schema import Arguments, Output, hints_of, signature_of
from .usercode import caller, is_failure

if TYPE_CHECKING:
    from .session import Session
    from .snapshot import Snapshot
    from .visibility import View

log = logging.getLogger("toolfold")

Progress = Callable[[float, float | None, str | None], Awaitable[None]]


async def no_progress(progress: float, total: float | None, message: str | None) -> None:
    """Report to nobody."""


def _blocks(blocks: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    return tuple(blocks)


@frozen
class InputRequired:
    """What a handler answers that needs something of the caller first, who then calls again with the responses.

    `requests` are what is asked for, by name, in the shape of the MCP specification; `state` comes back with the
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
    """

    tools: tuple[Spec, ...]
    text: Callable[[str], str]


@frozen
class ToolResult:
    """The answer to a call: content blocks for the model, structured content for programs, whether it is an error.

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
        """Return a result of one text block, escaped where UTF-8 can't carry it (SPEC SAF-2)."""
        return cls(({"type": "text", "text": escaped(text)},), structured, is_error)

    @property
    def text(self) -> str:
        """The text blocks, joined by line breaks."""
        return "\n".join(str(block["text"]) for block in self.content if block.get("type") == "text")


@frozen(eq=False)
class Context:
    """What a handler is given beside its arguments (SPEC CALL-5).

    `view` is what the call was checked against, with its one reading of the application state; what the handler changes
    is seen by the next request. What it does through this context belongs to the same request (SPEC MOD-3).
    `request` is whatever the adapter got the call from, or `None`; `spell` gives a tool's name as the caller knows it.

    A plain function that runs in a worker thread may use it from there. It calls what is async by
    `anyio.from_thread.run(context.activate, "a")`.
    """

    session: Session
    name: str
    view: View
    request: Any = None
    spell: Spelling = str
    _progress: Progress = no_progress

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that the call was checked against."""
        return self.view.snapshot

    @property
    def facts(self) -> Mapping[str, Any]:
        """The session's facts, as of now."""
        return self.session.facts

    def set_fact(self, name: str, value: Any) -> None:
        """Set a fact of the session (SPEC SES-5)."""
        self.session.set_fact(name, value, view=self.view)

    def is_group_active(self, path: str) -> bool:
        """Return whether the group is active now."""
        return self.session.is_active(path)

    async def activate(self, path: str) -> bool:
        """Activate a group of the session; see `Session.activate`."""
        return bool(await self.session.transition(activate=(path,), view=self.view))

    async def deactivate(self, path: str) -> bool:
        """Deactivate a group of the session; see `Session.deactivate`."""
        return bool(await self.session.transition(deactivate=(path,), view=self.view))

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the caller how far the call has come; goes nowhere if the caller did not ask."""
        await self._progress(progress, total, message if message is None else escaped(message))


def typed_handler(name: str, function: Callable[..., Any], *, in_thread: bool) -> tuple[Handler, Arguments]:
    """Return the handler and arguments of a function whose annotations describe its arguments (SPEC KIT-2).

    A parameter annotated as `Context` is given the context and is no argument.
    """
    _check_callable(name, function)
    hints = hints_of(name, function)
    context_parameters = frozenset(taken for taken, hint in hints.items() if taken != "return" and _means_context(hint))
    arguments = Arguments.from_signature(name, function, context_parameters)
    call = caller(function, in_thread=in_thread)

    async def handle(values: dict[str, Any], context: Context) -> Any:
        return await call(**values, **dict.fromkeys(context_parameters, context))

    return handle, arguments


def raw_handler(name: str, function: Callable[..., Any], *, in_thread: bool) -> Handler:
    """Return the handler of a function that takes nothing, the arguments, or arguments and context (SPEC KIT-2)."""
    _check_callable(name, function)
    taken = taken_by(name, function)
    call = caller(function, in_thread=in_thread)

    async def handle(values: dict[str, Any], context: Context) -> Any:
        return await call(*(values, context)[:taken])

    return handle


def taken_by(name: str, function: Callable[..., Any], bound: int = 0) -> int:
    """Return how many of the arguments and the context a raw handler takes, beyond its first `bound` parameters.

    Raises `InvalidDefinition` if it takes more (SPEC KIT-2).
    """
    parameters = signature_of(name, function)[bound:]
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    taken = len(required) if required else min(len(positional), 2)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        taken = 2
    if taken > 2 or keywords:
        raise InvalidDefinition(
            name, "its handler must take nothing, the arguments, or the arguments and the context, and nothing more"
        )
    return taken


def adapted(
    name: str, function: Callable[..., Any], arguments: Arguments | None, *, in_thread: bool
) -> tuple[Handler, Arguments]:
    """Return handler and arguments in the form that fits: raw where the arguments are described, else typed."""
    if arguments is None:
        return typed_handler(name, function, in_thread=in_thread)
    return raw_handler(name, function, in_thread=in_thread), arguments


def checked(name: str, handle: Handler, output: Output) -> Handler:
    """Return a handler whose results fit the output schema, or are errors that say where they do not (SPEC KIT-6).

    Whatever has a JSON form is also structured content, since the schema says what to expect of it.
    """

    async def checked_handle(values: dict[str, Any], context: Context) -> ToolResult:
        result = to_result(await handle(values, context), structured=True)
        if result.is_error or result.needs is not None:
            return result
        if (faults := output.faults(result.structured)) is None:
            return result
        log.error("the result of %r does not fit its output schema: %s", name, faults)
        return misfit(context.spell(name), str(faults))

    return checked_handle


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


async def run(spec: Spec, arguments: Mapping[str, Any] | None, context: Context) -> ToolResult:
    """Return what comes of calling an available tool, whatever its handler raises (SPEC CALL-2, CALL-3, SAF-2).

    Raises:
        ProtocolError: The handler asked for an error of the protocol.
    """
    name = context.spell(spec.name)
    try:
        try:
            values = as_object(name, arguments)
            if spec.arguments is not None:
                values = spec.arguments.check(name, values)
        except InvalidArguments as error:
            return arguments_refused(spec, error)
        return to_result(await spec.handler(values, context))
    except ProtocolError as error:
        raise _carried(error) from error.__cause__
    except ToolError as error:
        return ToolResult.of_text(str(error), is_error=True)
    except BaseException as error:
        if not is_failure(error):
            raise
        log.exception("the handler of %r failed", spec.name)
        return internal_error(name)


async def fetch(
    spec: Spec, arguments: Mapping[str, Any] | None, context: Context, to_answer: Callable[[Any], Any]
) -> Any:
    """Return what comes of asking an available prompt, resource or resource template (SPEC REG-9, SAF-3).

    Args:
        spec: What is asked.
        arguments: What it is asked with.
        context: What the handler is given.
        to_answer: Makes the answer of what the handler returned.

    Raises:
        InvalidArguments: The arguments do not fit.
        ToolError: The handler told the caller what went wrong; or it failed in a way that its caller is told nothing
            of, and that is logged in full.
        ProtocolError: The handler asked for that error of the protocol.
    """
    values = as_object(spec.name, arguments)
    if spec.arguments is not None:
        values = spec.arguments.check(spec.name, values)
    try:
        return to_answer(await spec.handler(values, context))
    except ProtocolError as error:
        raise _carried(error) from error.__cause__
    except ToolError:
        raise
    except BaseException as error:
        if not is_failure(error):
            raise
        kind = spec.kind.replace("_", " ")
        log.exception("the handler of the %s %r failed", kind, spec.name)
        text = f"The {kind} {spec.name} failed with an internal error; its operator can find it in the log."
        raise ToolError(text) from error


def _carried(error: ProtocolError) -> ProtocolError:
    """Return an error of the protocol as JSON can carry it; its data is whatever a handler gave."""
    try:
        data = encodable(error.data)
    except TypeError:
        log.exception("the data of an error of the protocol has no JSON form")
        data = None
    return error if data is error.data else ProtocolError(error.code, error.message, data)


def misfit(name: str, problems: str) -> ToolResult:
    """Return the answer to a call whose result is not one that the tool may give (SPEC KIT-6)."""
    text = f"{name} failed: its result does not fit its output schema: {problems}. Its operator can find it in the log."
    return ToolResult.of_text(text, is_error=True)


def internal_error(name: str) -> ToolResult:
    """Return the answer to a call that failed in a way that its caller is told nothing of (SPEC CALL-3)."""
    return ToolResult.of_text(
        f"{name} failed with an internal error; its operator can find it in the log.", is_error=True
    )


def arguments_refused(spec: Spec, error: InvalidArguments) -> ToolResult:
    """Return the result that names the places of wrong arguments, and what is expected there (SPEC CALL-2)."""

    def text(schema: str) -> str:
        return f"{error}\n{schema}" if schema else str(error)

    return evolve(ToolResult.of_text(text(""), is_error=True), about=AboutTools((spec,), text))


def to_result(value: Any, *, structured: bool = False) -> ToolResult:
    """Return a handler's answer as a result: texts as they are, mappings also as structured content.

    Args:
        value: What the handler answered.
        structured: Whether texts, numbers and lists are structured content too.

    Raises:
        TypeError: The value has no JSON form.
    """
    if isinstance(value, ToolResult):
        return _encodable(value)
    if isinstance(value, InputRequired):
        return ToolResult(needs=_encodable_needs(value))
    if value is None:
        return ToolResult()
    if isinstance(value, str):
        return ToolResult.of_text(value, escaped(value) if structured else None)
    plain, text = as_json(value)
    return ToolResult.of_text(text, plain if structured or isinstance(plain, dict) else None)


def _encodable(result: ToolResult) -> ToolResult:
    """Return a result that its author made, with all that is in it as JSON can carry it."""
    content = tuple(encodable(block) for block in result.content)
    structured, meta, needs = encodable(result.structured), encodable(result.meta), result.needs
    if needs is not None:
        needs = _encodable_needs(needs)
    same = structured is result.structured and meta is result.meta and needs == result.needs
    if same and all(made is given for made, given in zip(content, result.content, strict=True)):
        return result
    return evolve(result, content=content, structured=structured, meta=meta, needs=needs)


def _encodable_needs(needs: InputRequired) -> InputRequired:
    return InputRequired(encodable(needs.requests), encodable(needs.state))


def to_prompt(value: Any) -> Any:
    """Return what a prompt's handler answered as a prompt result: a text is one message of the user."""
    if isinstance(value, InputRequired):
        return _encodable_needs(value)
    if isinstance(value, str):
        value = [{"role": "user", "content": {"type": "text", "text": value}}]
    return encodable(dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {"messages": value})


def to_contents(uri: str, mime_type: str | None, value: Any) -> Any:
    """Return what a resource's handler answered as a resource result: texts and bytes become its one content."""
    if isinstance(value, InputRequired):
        return _encodable_needs(value)
    kind = {"mimeType": mime_type} if mime_type else {}
    if isinstance(value, bytes):
        value = [{"uri": uri, **kind, "blob": base64.b64encode(value).decode()}]
    elif isinstance(value, str):
        value = [{"uri": uri, **kind, "text": value}]
    return encodable(dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {"contents": value})


def _check_callable(name: str, function: Any) -> None:
    if not callable(function):
        raise InvalidDefinition(name, f"its handler is a {type(function).__name__}, which can't be called")


def _means_context(hint: Any) -> bool:
    return hint is Context or Context in get_args(hint)
