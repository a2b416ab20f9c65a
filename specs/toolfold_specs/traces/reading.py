"""The lines of traces, in one order.

One file is read as it was written, line after line. Several are merged: what they say of one record is put in the order
of its versions and tokens, which are numbers that no two writes share. What is of one process alone stays in its order.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from attrs import evolve, frozen

FORMAT = 2
"""The form of the lines that is known here."""
TORN = "torn"
"""What stands in place of a line that ends in its middle, as the last one of a process that was killed may."""


class NotATrace(Exception):
    """A file is no trace, or of a later form; the message says so."""


class NotAllowed(Exception):
    """The specification does not allow what a line says; the message says why."""


MALFORMED = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What is raised by reading a line that is not of the form."""


@frozen(eq=False)
class Line:
    """A line of a trace: where it is, and what it says."""

    file: Path
    number: int
    data: dict[str, Any]
    rest: frozenset[str] = frozenset()
    """The processes that have changes of the same record in lines that are still to come."""

    @property
    def about(self) -> str | None:
        """What it is about: the key of a record, or the name of a session of one process; `None` for neither."""
        data = self.data
        if (key := data.get("key")) is not None:
            return str(key)
        session = data.get("session") or data.get("opened") or data.get("ended")
        if session is None:
            return None
        return str(session) if data.get("shared") or "/" in session else f"{session} of {data.get('by')}"


def digest_of(said: object) -> str:
    """Return the digest of what a record says; an empty text if there is none."""
    return str(cast("dict[str, Any]", said).get("digest", "")) if isinstance(said, dict) else ""


def no_line(line: Line, error: Exception) -> NotATrace:
    """Return what is raised for a line that is not of the form."""
    missing = isinstance(error, KeyError) and error.args
    why = f"{error.args[0]!r} is missing" if missing else "a value in it is none that traces have"
    return NotATrace(f"{line.file}, line {line.number} is no line of a trace: {why}.")


def lines_of(files: Sequence[Path]) -> tuple[bool, Iterator[Line]]:
    """Return whether lines are in the order in which they were written, and the lines; raises `NotATrace`."""
    if _are_of_one_at_a_time(files):
        return True, (line for file in files for line in _lines(file))
    parts: dict[str | None, list[Line]] = {}
    for file in files:
        for line in _lines(file):
            parts.setdefault(line.data.get("by"), []).append(line)
    return False, _merged([*parts.values()])


def _are_of_one_at_a_time(files: Sequence[Path]) -> bool:
    """Return whether the processes that wrote files did so one after the other, each file going on with the last."""
    met, last = set[bytes](), b""
    for number, file in enumerate(files):
        with _opened(file) as opened:
            for text in opened:
                if text.startswith(_BEGIN) and number and not (_CONTINUES in text and last in text):
                    return False
                by = text[1 : len(_BY) + 7]
                if by != last and by.startswith(_BY[1:]):
                    if by in met:
                        return False
                    met.add(by)
                    last = by
    return True


_BY, _BEGIN, _CONTINUES = b'{"by":"', b'{"toolfold":', b'"continues":true'


def _opened(file: Path) -> BinaryIO:
    try:
        return file.open("rb")
    except OSError as error:
        raise NotATrace(f"{file} can't be read: {error.strerror or error}.") from error


def _lines(file: Path) -> Iterator[Line]:
    with _opened(file) as opened:
        yield from _read(file, opened)


def _read(file: Path, opened: BinaryIO) -> Iterator[Line]:
    number, broken, begun = 0, 0, False
    for number, text in enumerate(opened, 1):
        if not text.strip():
            continue
        try:
            read: object = json.loads(text)
        except (ValueError, RecursionError):
            if broken:
                raise NotATrace(f"{file}, line {broken} is no JSON.") from None
            broken = number
            continue
        if not isinstance(read, dict) or not read:
            raise NotATrace(f"{file}, line {number} is no line of a trace.")
        data = cast("dict[str, Any]", read)
        if broken and "lost" not in data and (data.get("toolfold") != "trace" or not begun):
            raise NotATrace(f"{file}, line {broken} is no JSON.")
        if broken and "lost" not in data:
            yield Line(file, broken, {TORN: True})
        broken = 0
        if "toolfold" in data and (data["toolfold"] != "trace" or data.get("format") != FORMAT):
            has = f"this reads traces of format {FORMAT}, not {data.get('format')!r}"
            raise NotATrace(f"{file}, line {number}: {has}; the version of Toolfold that has written it reads it.")
        if not begun and "toolfold" not in data and "lost" not in data:
            raise _not_begun(file)
        if not isinstance(data.get("by", ""), str):
            raise NotATrace(f"{file}, line {number} is no line of a trace: 'by' is no text.")
        begun = True
        yield Line(file, number, data)
    if not number:
        raise NotATrace(f"{file} is empty.")
    if not begun:
        raise _not_begun(file)
    if broken:
        yield Line(file, broken, {TORN: True})


def _not_begun(file: Path) -> NotATrace:
    return NotATrace(f"{file} does not begin as a trace does: `toolfold serve --trace FILE` writes one.")


def _merged(files: Sequence[Sequence[Line]]) -> Iterator[Line]:
    """Yield what is about no record first, as catalogs are, and then what is about each, in the order of its numbers.

    What made a number comes before what others say of it, who may have read it before its writer was answered.
    """
    ranked: list[tuple[str, int, bool, int, Line]] = []
    makers: dict[tuple[str, int], int] = {}
    for part, lines in enumerate(files):
        last: dict[str, int] = {}
        for line in lines:
            try:
                about, (made, number) = line.about, _number(line.data)
            except MALFORMED as error:
                raise no_line(line, error) from error
            if about is None:
                yield line
                continue
            rank = last[about] = max(last.get(about, 0), number)
            if made:
                makers[about, number] = part
            ranked.append((about, rank, not (made and number == rank), part, line))
    ranked.sort(key=lambda one: (*one[:3], makers.get((one[0], one[1])) != one[3], one[3]))  # stable otherwise
    yield from _with_rest([line for *_, line in ranked])


def _with_rest(lines: Sequence[Line]) -> Iterator[Line]:
    """Yield lines with the processes whose changes of the same record are still to come."""
    changes = Counter((line.about, str(line.data.get("by"))) for line in lines if _is_change(line))
    going: dict[str | None, frozenset[str]] = {}
    for about, by in changes:
        going[about] = going.get(about, frozenset()) | {by}
    for line in lines:
        about, by = line.about, str(line.data.get("by"))
        yield evolve(line, rest=rest) if (rest := going.get(about)) else line
        if _is_change(line):
            changes[about, by] -= 1
            if not changes[about, by]:
                going[about] -= {by}


def _is_change(line: Line) -> bool:
    return line.data.get("op") not in (None, "read", "renew")


def _number(data: dict[str, Any]) -> tuple[bool, int]:
    """Return whether a line made a number of a record, and the greatest that it knows of."""
    gave: object = data.get("gave")
    version = int(data.get("version") or 0)
    match data.get("op"):
        case "create" | "swap" if isinstance(gave, int) and not isinstance(gave, bool):
            return True, gave
        case "acquire" if isinstance(gave, list):
            token, known, *_ = cast("tuple[Any, ...]", gave)
            return (False, max(version, known)) if token is None else (True, token)
        case "read" if isinstance(gave, int):
            return False, gave
        case _:
            return False, version
