"""`toolfold profiles`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import invoke

pytestmark = pytest.mark.spec("PRO-2")


def test_profiles_are_printed_in_a_table(shop: Path) -> None:
    result = invoke("profiles", "shop:tools")
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["PROFILE", "ACTIVE", "AVAILABLE", "DESCRIPTION"],
        ["till", "orders", "*", "For", "the", "counter"],
        ["look", "-", "cellar", "Change", "nothing;", "read-only", "tools"],
    ]
    assert invoke("serve", "shop:tools", "--list-profiles").stdout == result.stdout


def test_profiles_are_printed_as_json(shop: Path) -> None:
    assert json.loads(invoke("profiles", "shop:tools", "--json").stdout)[1] == {
        "name": "look",
        "description": "Change nothing",
        "active": [],
        "available": ["cellar"],
        "read_only": True,
    }


def test_a_target_without_profiles_is_reported() -> None:
    assert invoke("profiles", "toolfold_cli.shop:tools").stdout == "There are no profiles.\n"
