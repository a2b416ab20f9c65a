"""What the command line logs: what a caller wrote can neither fill the log nor forge a line of it (SPEC SAF-3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adapters.cli.support import run

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
    done = run("profiles", "loud:tools", cwd=shop)
    assert done.returncode == 0
    lines = done.stderr.split("\n")
    assert [line[:40] for line in lines] == [
        r"mcp: a caller said \n\x1b[2Jtoolfold: al",
        "toolfold: it failed",
        "  ValueError: ",
        "",
    ]
    assert all(len(line) < 2100 and line.isprintable() for line in lines)
