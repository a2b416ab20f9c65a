"""The log of the command line: what a caller wrote can neither fill it nor forge a line of it (SPEC SAF-3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import invoke

LOUD = r"""
import logging
from shop import tools

said = "\n\x1b[2Jtoolfold: all is well\r\u2028\u202e" + "x" * 100_000
logging.getLogger("mcp.server").warning("a caller said %s", said)
try:
    raise ValueError(said)
except ValueError:
    logging.getLogger("toolfold").exception("it failed")
"""


@pytest.mark.spec("SAF-3", "SAF-6")
def test_each_message_is_a_line_of_a_bounded_length_without_control_characters(shop: Path) -> None:
    (shop / "loud.py").write_text(LOUD)
    result = invoke("profiles", "loud:tools")
    assert result.exit_code == 0
    lines = result.stderr.split("\n")
    assert [line[:40] for line in lines] == [
        r"mcp: a caller said \n\x1b[2Jtoolfold: al",
        "toolfold: it failed",
        "  ValueError: ",
        "",
    ]
    assert all(len(line) < 2100 and line.isprintable() for line in lines)
