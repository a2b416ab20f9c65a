"""Calls of a session by name: tools, prompts and resources (SPEC 9)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from .._catalog.components import Component, Kind
from .._catalog.rules import required_groups
from .._limits import enumerated
from .._view import calling, results
from .._view.context import CallContext, Progress, no_progress
from .._view.results import ToolResult
from .._view.visibility import RequestView, available, only_listed, restrict
from ..errors import ToolfoldError, ToolNotFound
from .executor import Executor
from .host import Host
from .observers import EventRefused, log


class Calls(ABC):
    """The part of a session that calls components; `Session` is the whole."""

    __slots__ = ()
    id: str
    _executor: Executor
    _tools: Host

    @abstractmethod
    def _view_of_request(self, view: RequestView | None = None) -> RequestView:
        """Return the view of a request, a new one unless it has one; raises `SessionClosed`."""

    @abstractmethod
    def _context(self, name: str, view: RequestView, request: Any, progress: Progress = no_progress) -> CallContext:
        """Return what a handler is given beside its arguments."""

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        progress: Progress | None = None,
        request: Any = None,
        view: RequestView | None = None,
    ) -> ToolResult:
        """Call a tool and return its result (SPEC 9).

        Args:
            name: The full name of the tool.
            arguments: Its arguments, as JSON values.
            progress: Receives the progress of the call.
            request: What the adapter received the call as, for the handler's context.
            view: What the call is checked against, with the caller's names of tools: see `view` (SPEC MOD-3, NAM-6).

        Raises:
            ToolNotFound: The tool is unknown or not available (SPEC CALL-1).
            ProtocolError: The handler asked for an error of the protocol.
        """
        with self._tools.observers.requested(self.id, "tool", name):
            view = self._view_of_request(view)
            component = self._available("tool", name, view)
            if view.snapshot.catalog.evict_by_use:
                self._executor.use(required_groups(component.rule))
            context = self._context(name, view, request, progress or no_progress)
            result = await calling.run(restrict(component, view), arguments, context)
            self._tools.observers.answered(self.id, result.is_error)
            if not result.is_error and result.needs is None and name in view.snapshot.catalog.opened_by:
                with self._tools.observers.requested(self.id, "success", name):
                    await self._open_on(name, context)
            return result

    async def fetch(
        self,
        kind: Kind,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        request: Any = None,
        view: RequestView | None = None,
    ) -> Any:
        """Return what the handler of a prompt, resource or resource template answers (SPEC REG-9).

        `view` is that of the request, if there is one.

        Raises:
            ToolNotFound: It is unknown or not available.
            InvalidArguments: The arguments do not fit.
            ToolError: The handler raised it for the caller, or failed in another way (SPEC CALL-3).
            ProtocolError: The handler asked for an error of the protocol.
        """
        return await self._fetch(kind, name, arguments, request, view, lambda answer: answer)

    async def read(self, uri: str, request: Any = None, view: RequestView | None = None) -> Any:
        """Return the contents of the resource at `uri`, its own or an instance of a template (SPEC REG-9).

        `view` is that of the request, if there is one.

        Raises `ToolNotFound` if no available resource has that URI, and else as `fetch` does.
        """
        with self._tools.observers.requested(self.id, "resource", uri):
            view = self._view_of_request(view)
            found = calling.resources_at(view, uri)
            first = next((match for match in found if available(match[0], view)), None)
            if first is None:
                missed = found[0][0] if found else None
                raise ToolNotFound(uri, self._tools.hint(missed, view), "resource")
            component, arguments = first
            to_contents = partial(results.to_contents, uri, component.definition.get("mimeType"))
            return await calling.fetch(component, arguments, self._context(component.name, view, request), to_contents)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        request: Any = None,
        view: RequestView | None = None,
    ) -> Any:
        """Return the messages of a prompt, in the form of the MCP specification (SPEC REG-9); raises as `fetch`."""
        return await self._fetch("prompt", name, arguments, request, view, results.to_prompt)

    async def _fetch(
        self,
        kind: Kind,
        name: str,
        arguments: Mapping[str, Any] | None,
        request: Any,
        view: RequestView | None,
        to_answer: Callable[[Any], Any],
    ) -> Any:
        with self._tools.observers.requested(self.id, kind, name):
            view = self._view_of_request(view)
            component = self._available(kind, name, view)
            return await calling.fetch(component, arguments, self._context(component.name, view, request), to_answer)

    def _available(self, kind: Kind, name: str, view: RequestView) -> Component:
        """Return the component of that name if it is available in the view of the request (SPEC CALL-1, CALL-4)."""
        component = view.snapshot.catalog.components[kind].by_name.get(name)
        if component is None or not available(component, view):
            hint = self._tools.hint(component, view) or _in_group(kind, name, view)
            raise ToolNotFound(name, hint, kind.replace("_", " "))
        return component

    async def _open_on(self, tool: str, context: CallContext) -> None:
        for path in context.snapshot.catalog.opened_by[tool]:
            try:
                await context.activate(path)
            except ToolfoldError as error:
                log.warning("session %s: %s could not open group %s: %s", self.id, tool, path, error)
                self._tools.observers.notify(EventRefused(self.id, tool, error))


def _in_group(kind: Kind, name: str, view: RequestView) -> str | None:
    """Return the full names of what is listed in groups under this base name, as a hint (SPEC CALL-1)."""
    known = view.snapshot.catalog.components[kind].by_name.values()
    alike = (one for one in known if one.name.rpartition(".")[2] == name != one.name)
    found = [view.to_wire(one.name) for one in only_listed(alike, view)]
    return f"did you mean {enumerated(found)}?" if found else None
