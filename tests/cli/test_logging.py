"""The log of the command line: what a caller wrote can neither fill it nor forge a line of it (SPEC SAF-3)."""

from __future__ import annotations

import logging
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.support import invoke
from toolfold_cli.logs import configure_logging

ACCESS = '%s - "%s %s HTTP/%s" %d'
"""The form of a line of uvicorn's."""
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


@pytest.fixture
def as_before() -> Generator[None]:
    yield
    configure_logging()


@pytest.mark.spec("SAF-3")
def test_ids_of_sessions_and_query_strings_are_logged_for_debugging_alone(
    capsys: pytest.CaptureFixture[str], as_before: None
) -> None:
    for level, named in (("info", False), ("debug", True)):
        configure_logging(level)
        logging.getLogger("mcp.server.streamable_http_manager").info("Created new transport with session ID: 5e55101d")
        logging.getLogger("uvicorn.access").info(ACCESS, "127.0.0.1", "GET", "/mcp?token=5ec3e7", "1.1", 200)
        logged = capsys.readouterr().err
        assert ("5e55101d" in logged) is named
        assert "GET /mcp HTTP/1.1" in logged
        assert "5ec3e7" not in logged
