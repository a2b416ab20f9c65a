"""What is printed reaches its reader, whatever the encoding of pipes and consoles is."""

from __future__ import annotations

import io
import re

import pytest

from toolfold_cli import encode_output
from toolfold_cli.printing import show, table

TEXT = "café → 日本 😀 \udc80"


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("kind", "encoding", "errors", "platform", "printed"),
    [
        (io.TextIOWrapper, "cp1252", "strict", "win32", "café → 日本 😀 \\udc80".encode()),
        (Terminal, "cp1252", "strict", "win32", b"caf\xe9 \\u2192 \\u65e5\\u672c \\U0001f600 \\udc80"),
        (io.TextIOWrapper, "latin-1", "strict", "linux", b"caf\xe9 \\u2192 \\u65e5\\u672c \\U0001f600 \\udc80"),
        (io.TextIOWrapper, "ascii", "surrogateescape", "linux", TEXT.encode("ascii", "backslashreplace")),
        (io.TextIOWrapper, "utf-8", "strict", "linux", "café → 日本 😀 \\udc80".encode()),
    ],
    ids=["pipe", "old terminal", "locale", "no locale", "UTF-8"],
)
def test_a_character_that_an_encoding_lacks_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
    kind: type[io.TextIOWrapper],
    encoding: str,
    errors: str,
    platform: str,
    printed: bytes,
) -> None:
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    stream = kind(written := io.BytesIO(), encoding=encoding, errors=errors)
    encode_output(stream, None, platform=platform)
    print(TEXT, end="", file=stream, flush=True)
    assert written.getvalue() == printed


def test_an_encoding_that_was_asked_for_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "cp1252:replace")
    stream = io.TextIOWrapper(io.BytesIO(), encoding="cp1252", errors="replace")
    lenient = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    encode_output(stream, lenient, platform="win32")
    assert [(one.encoding, one.errors) for one in (stream, lenient)] == [
        ("cp1252", "replace"),
        ("cp1252", "backslashreplace"),
    ]


@pytest.mark.parametrize(
    ("columns", "printed"),
    [
        (
            48,
            """\
GROUP      STATE   TOOLS  DESCRIPTION
orders     closed      8  Find orders and ship
                          them
  refunds  locked     12  Pay money back
""",
        ),
        (
            30,
            """\
orders
  STATE closed  TOOLS 8
  Find orders and ship them
  refunds
    STATE locked  TOOLS 12
    Pay money back
""",
        ),
        (
            16,
            """\
orders
  STATE closed
  TOOLS 8
  Find orders
  and ship them
  refunds
    STATE locked
    TOOLS 12
    Pay money
    back
""",
        ),
    ],
)
def test_a_terminal_breaks_no_name_however_narrow_it_is(
    monkeypatch: pytest.MonkeyPatch, columns: int, printed: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout", Terminal(written := io.BytesIO(), encoding="utf-8", write_through=True))
    rows = table("GROUP", "STATE", "TOOLS", "DESCRIPTION", numbers=("TOOLS",))
    rows.add_row("orders", "closed", "8", "Find orders and ship them")
    rows.add_row("  refunds", "locked", "12", "Pay money back")
    show(rows)
    plain = re.sub(r"\x1b\[\d*m", "", written.getvalue().decode())
    assert [line.rstrip() for line in plain.splitlines()] == printed.splitlines()
