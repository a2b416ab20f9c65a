"""The public names of a release, which the next one keeps or answers with a warning that names the new one.

`python -m tests.released --write` records them in `released.json` when a version is released; before the first there
is no record. `program` is a program written against the last release, and is not changed with what it uses.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path

from toolfold import Session, ToolSet

RECORD = Path(__file__).with_name("released.json")
MODULES = (
    *("toolfold", "toolfold.machine", "toolfold.spi", "toolfold_adapters.mcp", "toolfold_adapters.gateway"),
    *("toolfold_adapters.inprocess", "toolfold_adapters.stores", "toolfold_diagrams", "toolfold_specs"),
)


def names() -> dict[str, list[str]]:
    """Return the public names of each module, as they are now."""
    return {module: sorted(import_module(module).__all__) for module in MODULES}


def recorded() -> dict[str, list[str]]:
    """Return those of the last release."""
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def broken(released: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the names that are gone, or that are old and don't say which name is the new one."""
    return [f"{module}.{name}" for module, found in released.items() for name in found if not _is_kept(module, name)]


def _is_kept(module: str, name: str) -> bool:
    given = import_module(module)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        if not hasattr(given, name):
            return False
    said = [str(one.message) for one in warned if issubclass(one.category, DeprecationWarning)]
    return name in given.__all__ or any(new in text for text in said for new in given.__all__)


async def program() -> list[str]:
    """Use a tool set as a program for 0.1 does, and return what it would print."""
    tools = ToolSet("desk", control_visibility="relevant")
    tools.register_group("database", "Look things up in the database")
    tools.register_group("write", "Change rows", parent="database", on_activate=lambda: None)
    tools.register_group("vault")
    tools.register_exclusion("database", "vault")

    @tools.tool(group="database.write")
    async def insert(table: str, row: dict[str, str]) -> int:
        return len(row)

    async def use(session: Session) -> list[str]:
        await session.activate("database")
        change = await session.transition(activate=["database.write"])
        result = await session.call("database.write.insert", {"table": "t", "row": {"a": "b"}})
        return [*change.activated, result.text, *session.list_tools().names]

    async with tools.open_session(active=["vault"]) as session:
        return await use(session)


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    RECORD.write_text(json.dumps(names(), indent=1) + "\n", encoding="utf-8", newline="\n")
