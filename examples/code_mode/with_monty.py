"""Monty, given stubs and a function for each tool (`python -m examples.code_mode.with_monty`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
from pydantic_monty import AsyncMonty

from examples.code_mode import Approve, shop, show
from toolfold import Session, identifiers, invoke, stubs

PROGRAM = """
await orders_open()
answers = [await orders_place(item='tea', count=2)]
await cellar_open()
answers.append(await cellar_bottles())
try:
    answers.append(await orders_place(item='milk'))
except Exception as error:
    answers.append(str(error))
answers
"""


async def run(program: str, session: Session, approve: Approve) -> Any:
    """Return what a program returns that was written against the stubs of a catalog.

    It is given a function for every tool, since it may open groups; `invoke` decides which of them it may call.
    """
    names = identifiers(session.catalog)

    def caller(tool: str) -> Callable[..., Any]:
        async def call(**arguments: Any) -> Any:
            approve(tool, arguments)
            return await invoke(session, tool, arguments)

        return call

    async with AsyncMonty() as pool, pool.checkout() as sandbox:
        functions = {identifier: caller(tool) for tool, identifier in names.items()}
        return await sandbox.feed_run(program, external_lookup=functions)


async def in_monty(approve: Approve) -> list[Any]:
    """Return what the program says that opens a group which closes the one that it used."""
    async with shop().open_session() as session:
        assert "orders_place" not in stubs(session.snapshot)
        return list(await run(PROGRAM, session, approve))


if __name__ == "__main__":
    anyio.run(show, in_monty)
