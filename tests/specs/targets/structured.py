"""A server made for the kit that tells programs in structured content what changed, definitions and handle included."""

from typing import Any

import anyio
import mcp_types as types

from toolfold_specs.broken.server import Fixture, serve
from toolfold_specs.drivers.protocol import CHANGE_META, HANDLE, HANDLE_META


class Structured(Fixture):
    def result(self, *given: Any, **more: Any) -> types.CallToolResult:
        result = super().result(*given, **more)
        meta = dict(result.meta or {})
        change, handle = meta.pop(CHANGE_META, None), meta.pop(HANDLE_META, None)
        if change is None:
            return result
        tools = [self.definition(name).model_dump(mode="json", by_alias=True) for name in change["tools"]]
        told = {**change, "tools": tools, **({HANDLE: handle} if handle else {})}
        return result.model_copy(update={"structured_content": told, "meta": meta or None})


if __name__ == "__main__":
    anyio.run(serve, Structured())
