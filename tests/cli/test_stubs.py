"""`toolfold stubs`: declarations of tools for programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import invoke

pytestmark = pytest.mark.spec("COD-1")


def test_the_tools_of_open_groups_are_declared_and_counted(shop: Path) -> None:
    closed = invoke("stubs", "shop:tools")
    assert closed.exit_code == 0
    assert "async def hours() -> str:" in closed.stdout
    assert "orders_place" not in closed.stdout
    opened = invoke("stubs", "shop:tools", "--open", "orders", "--language", "typescript")
    line = "export declare function orders_place(args: { item: string; count?: number }): Promise<string>;"
    assert line in opened.stdout.splitlines()
    tools = opened.stdout.count("export declare function ")
    assert opened.stderr == f"toolfold: {tools} tools, ~{-(-len(opened.stdout) // 4):,} tokens\n"
