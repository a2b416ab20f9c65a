"""`invoke`, for programs that call tools, and their stubs as resources (SPEC COD-1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .._session.context import Context
from .._session.session import Session
from .._view.calling import ToolResult
from .._view.stubs import RESULT, Language, arguments_of, stubs, tool_of
from .._view.visibility import RequestView
from ..errors import ToolError

if TYPE_CHECKING:
    from .toolset import ToolSet

STUBS: Mapping[Language, str] = {"python": "toolfold://stubs.py", "typescript": "toolfold://stubs.ts"}
"""The resource that has the stubs of a language."""


async def invoke(
    session: Session,
    name: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    request: Any = None,
    view: RequestView | None = None,
) -> Any:
    """Call a tool for a program that was written against `stubs`, and return what it answers.

    It is a call like any other, in the state that the session is in now: a tool whose group has closed since the stubs
    were written can't be called.

    SPEC COD-1.

    Args:
        session: Where the program runs.
        name: The tool, by its name in the stubs or its full name.
        arguments: By their names in the stubs or in the schema.
        request: What the adapter received the program as, for the handler's context.
        view: As of `Session.call`.

    Returns:
        The structured content, the value alone where it is no object; else the text; else the blocks of content.

    Raises:
        ToolNotFound: There is no such tool now, or it is not available.
        ToolError: The tool answers with an error, or asks for something first.
    """
    catalog = session.snapshot.catalog
    tool = tool_of(catalog, name)
    result = await session.call(tool, arguments_of(catalog, tool, arguments), request=request, view=view)
    if result.needs is not None:
        raise ToolError(f"{name} asks for something before it answers, which a program can't give.")
    if result.is_error:
        raise ToolError(result.text)
    return _value(result)


def _value(result: ToolResult) -> Any:
    if result.structured is not None:
        return result.structured[RESULT] if [*result.structured] == [RESULT] else result.structured
    is_text = all(block.get("type") == "text" for block in result.content)
    return result.text if is_text else [*result.content]


def include_stubs(tools: ToolSet) -> None:
    """Register the stubs of each session as resources, `toolfold://stubs.py` and `.ts`.

    They are of what can be called when they are read.

    SPEC COD-1.
    """

    def register(language: Language, uri: str) -> None:
        def read(context: Context) -> str:
            return stubs(context.request_view, language)

        description = "The tools that can be called now, as declarations for a program."
        tools.register_resource(uri, read, description=description, mime_type=f"text/x-{language}")

    for language, uri in STUBS.items():
        register(language, uri)
