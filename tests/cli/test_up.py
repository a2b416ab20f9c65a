"""What the environment of a host sets for its relay (SPEC GWY-14)."""

from __future__ import annotations

from typing import Any

import pytest

from toolfold import ConfigError
from toolfold_cli.up import settings_in

pytestmark = pytest.mark.spec("GWY-14")


@pytest.mark.parametrize(
    ("environ", "settings"),
    [
        ({"PATH": "/bin"}, {}),
        ({"TOOLFOLD_CONTROL": "per_group", "TOOLFOLD_MAX_ACTIVE": "3"}, {"control": "per_group", "max_active": 3}),
        ({"TOOLFOLD_ACTIVE": "docs mail", "TOOLFOLD_READ_TOOL": "0"}, {"active": ("docs", "mail"), "read_tool": False}),
        ({"TOOLFOLD_PROFILE": "review", "TOOLFOLD_SHARE": "*"}, {"profile": "review", "share": ("*",)}),
        ({"TOOLFOLD_PORT": "80", "TOOLFOLD_HTTP": "1", "TOOLFOLD_RUNTIME": "/r", "TOOLFOLD_STORE": "x"}, {}),
    ],
    ids=["nothing", "numbers", "several", "a-profile", "not-of-a-relay"],
)
def test_a_relay_reads_the_variables_that_serve_reads_over_stdio(
    environ: dict[str, str], settings: dict[str, Any]
) -> None:
    assert settings_in(environ) == settings


def test_a_variable_that_is_wrong_is_named() -> None:
    with pytest.raises(ConfigError, match=r"'many' is not .* It was set by TOOLFOLD_MAX_ACTIVE\."):
        settings_in({"TOOLFOLD_MAX_ACTIVE": "many"})
