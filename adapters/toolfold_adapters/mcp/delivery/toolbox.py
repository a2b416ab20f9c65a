"""Groups as clients of `com.google.cloud/toolbox.v1` ask for them, which servers have today (SPEC DEL-5, experimental).

It has the methods of the draft extension, but `groups/list` has every group on one page, since none is in another, and
what is in a group is not below `contents`. Lists are those of any other client; what is in a group is called directly.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from toolfold.spi import Kind

from .disclosure import Disclosure
from .handle import HandleDelivery
from .render import LISTS
from .session import SessionDelivery


@frozen(eq=False)
class ToolboxDelivery:
    """Answers modern requests that declare the extension.

    Args:
        groups: Answers what is about groups.
        otherwise: Answers everything else.
    """

    _groups: Disclosure
    _otherwise: HandleDelivery | SessionDelivery

    async def list(self, ctx: Any, kind: Kind, cursor: str | None) -> dict[str, Any]:
        """Return a page of a list, which is as any other client is answered."""
        return await self._otherwise.list(ctx, kind, cursor)

    def groups(self, ctx: Any, cursor: str | None = None) -> dict[str, Any]:
        """Return all groups with their descriptions, on one page."""
        return self._groups.every(ctx)

    def group(self, ctx: Any, name: str) -> dict[str, Any]:
        """Return what is in a group; raises `MCPError` if there is none of that name."""
        answer = self._groups.group(ctx, name)
        contents = answer.pop("contents")
        hints = {key: value for key, value in answer.items() if key != "instructions"}
        return {"name": name, **{key: contents.get(key, []) for _, key in LISTS.values()}, **hints}

    async def call(self, ctx: Any, name: str, arguments: dict[str, Any] | None) -> dict[str, Any]:
        """Return the result of a tool in any group, or of another tool."""
        chosen = self._groups if self._groups.has(ctx, "tool", name) else self._otherwise
        return await chosen.call(ctx, name, arguments)

    async def prompt(self, ctx: Any, name: str, arguments: dict[str, str] | None) -> Any:
        """Return the messages of a prompt, in a group or not."""
        chosen = self._groups if self._groups.has(ctx, "prompt", name) else self._otherwise
        return await chosen.prompt(ctx, name, arguments)

    async def read(self, ctx: Any, uri: str) -> Any:
        """Return the contents of a resource, in a group or not."""
        chosen = self._groups if self._groups.has(ctx, "resource", uri) else self._otherwise
        return await chosen.read(ctx, uri)
