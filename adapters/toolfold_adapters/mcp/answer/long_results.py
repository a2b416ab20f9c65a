"""Results that are longer than a host passes on: their beginning at once, the rest by `read_result` (SPEC GWY-17).

Most hosts cut a long result before their model sees it, and tell neither the model nor the server what is missing. What
a host passes on is in its row (see `hosts`). A longer result is answered with its beginning and a reference, and what
it says stays here for a while: for the session that called, within limits, on disk where it is large. Nothing of a
result that a host passes on is changed.
"""

from __future__ import annotations

import json
import re
import secrets
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from tempfile import TemporaryFile
from threading import Lock
from typing import Any

from anyio import to_thread
from attrs import define, evolve
from pydantic_core import to_json

from toolfold import InvalidArguments, ToolResult
from toolfold.spi import HANDLE, Passed, array, frozen, quoted, table

from ...clock import elapsed
from ...hosts import Host
from .proxy import offered
from .render import dumped, passed

READ_RESULT = "read_result"
"""The name of the tool that reads what was left out of a result."""

PAGE_BYTES = 8_000
"""How much of a result is read at a time by a client whose host is not known."""
_IN_MEMORY = 65_536
_NOTE_BYTES = 400
_LEAST_BEGINNING = 500
_MOST_HITS = 2_000
_BEFORE, _AFTER = 150, 350
"""How many characters are shown before and after a word that was searched for."""
_KEYS = 40


@frozen(kw_only=True)
class ResultLimits:
    """The limits of the results that can be read on.

    A session that would exceed its own loses those that it read longest ago. A result that does not fit in all, or is
    larger than a session may have, is passed on whole.

    Attributes:
        results: How many a session may have.
        size: How many bytes a session may have.
        total: How many bytes all sessions may have.
        seconds: How long one is there after it was last read.
    """

    results: int = 64
    size: int = 32 << 20
    total: int = 256 << 20
    seconds: float = 3_600


class _Text:
    """A text, which is in a file where it is large: one without a name, which ends with this process."""

    def __init__(self, text: str) -> None:
        self._text, self._file = text, None
        if len(text) > _IN_MEMORY:
            self._text, self._file = "", TemporaryFile()  # noqa: SIM115 - until it is discarded
            self._file.write(_encoded(text))
        self._lock = Lock()

    def read(self) -> str:
        """Return it; raises `ValueError` once it is discarded."""
        if self._file is None:
            return self._text
        with self._lock:
            self._file.seek(0)
            return self._file.read().decode("utf-8", "surrogatepass")

    def discard(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


@define(eq=False)
class _Retained:
    """What a result says, as a text and as structured content, if it has some that is not in the text."""

    owner: str
    size: int
    until: float
    text: _Text
    structured: _Text | None


class LongResults:
    """The results that sessions of one server can read on.

    Args:
        limits: How many, and for how long.
        clock: Returns the seconds since some moment.
    """

    def __init__(self, limits: ResultLimits | None = None, clock: Callable[[], float] = elapsed) -> None:
        self._limits = limits or ResultLimits()
        self._clock = clock
        self._retained: OrderedDict[str, _Retained] = OrderedDict()  # that which was read last is the last
        self.component, self._arguments = offered(
            READ_RESULT,
            "Read on in a long result",
            "Read what was left out of a long result.",
            {
                "result": {"type": "string", "description": "As the result names itself."},
                "search": {"type": "string", "description": "Words: the passages that have most of them."},
                "offset": {"type": "integer", "minimum": 0, "description": "Read on from this character."},
                "line": {"type": "integer", "minimum": 1, "description": "Or from this line."},
                "path": {"type": "string", "description": "Of JSON, this part alone, such as items.3.name."},
            },
            with_handle=False,
            annotations={"readOnlyHint": True, "idempotentHint": True},
        )

    def listed_for(self, host: Host) -> bool:
        """Return whether a client of a host is offered `read_result`."""
        return host.passes is not None

    # -- a result -----------------------------------------------------------------------------------------------------

    def shortened(
        self, result: ToolResult, owner: str, host: Host, *, validated: bool = False, less: int = 0
    ) -> ToolResult:
        """Return a result as a host passes it on: as it is, or its beginning and how the rest is read.

        Args:
            result: The result of a tool.
            owner: Whose it is: nobody else can read on in it.
            host: The host.
            validated: Whether the client may compare the structured content with a schema, which it then has to have.
            less: How many bytes something else takes that is said beside it.
        """
        if host.passes is None or result.needs is not None:
            return result
        answer = _answer_of(result)
        if answer is None:
            return result
        blocks = [dict(block) for given in array(answer.get("content")) or () if (block := table(given)) is not None]
        texts = [text for block in blocks if (text := _text_of(block)) is not None]
        structured = answer.get("structuredContent")
        size, most = _size("\n".join(texts)), host.passes - less
        written = None if structured is None else to_json(structured).decode()
        if size + (0 if written is None else _size(written)) <= most:
            return result
        stays = written is not None and (validated or host.reads_structured)
        if written is not None and any(_says(text, structured) for text in texts):
            written = None  # the text says it, too
            if not stays and size <= most:
                return _with(result, answer, blocks, structured=None)
        text = "\n".join(texts) if texts else written or ""
        written = None if written == text else written
        reference = self._retain(owner, text, written)
        if reference is None:
            return result
        room = max(most * 4 // 5 - _NOTE_BYTES, _LEAST_BEGINNING)  # hosts count in ways of their own
        beginning = _beginning(text, room)
        note = _note(reference, text, len(beginning), has_structured=written is not None)
        others = [block for block in blocks if _text_of(block) is None]
        content = [{"type": "text", "text": f"{beginning}\n{note}"}, *others]
        return _with(result, answer, content, structured=structured if stays else None)

    def rest_of(self, text: str, owner: str) -> str | None:
        """Return how the rest of a text is read that is retained from now on, or `None` if there is no room for it."""
        reference = self._retain(owner, text, None)
        return None if reference is None else f'{READ_RESULT} with result="{reference}" reads on'

    def _retain(self, owner: str, text: str, structured: str | None) -> str | None:
        """Return the reference of a result that is retained from now on, or `None` if there is no room for it."""
        limits, size = self._limits, _size(text) + _size(structured or "")
        self._expire()
        own = [reference for reference, one in self._retained.items() if one.owner == owner]
        used = sum(self._retained[reference].size for reference in own)
        while own and (len(own) >= limits.results or used + size > limits.size):
            used -= self._retained[own[0]].size
            self._discard(own.pop(0))
        in_all = sum(one.size for one in self._retained.values())
        if size > limits.size or in_all + size > limits.total:
            return None
        reference = f"r{secrets.token_hex(8)}"
        until = self._clock() + limits.seconds
        written = None if structured is None else _Text(structured)
        self._retained[reference] = _Retained(owner, size, until, _Text(text), written)
        return reference

    def end(self, owner: str) -> None:
        """Discard what a session has that has ended."""
        for reference in [reference for reference, one in self._retained.items() if one.owner == owner]:
            self._discard(reference)

    def close(self) -> None:
        """Discard all."""
        for reference in [*self._retained]:
            self._discard(reference)

    def _expire(self) -> None:
        now = self._clock()
        for reference in [reference for reference, one in self._retained.items() if one.until <= now]:
            self._discard(reference)

    def _discard(self, reference: str) -> None:
        gone = self._retained.pop(reference)
        for one in (gone.text, gone.structured):
            if one is not None:
                one.discard()

    # -- reading on ---------------------------------------------------------------------------------------------------

    async def read(self, arguments: Mapping[str, Any], owner: str, host: Host) -> ToolResult:
        """Return the answer to a call of `read_result`.

        Raises:
            InvalidArguments: They do not fit.
        """
        asked = self._arguments.check(READ_RESULT, {key: arguments[key] for key in arguments if key != HANDLE})
        given = [name for name in ("search", "offset", "line") if name in asked]
        if len(given) > 1:
            raise InvalidArguments(READ_RESULT, {f"arguments.{given[1]}": f"give it or {given[0]}, not both"})
        reference = asked["result"]
        self._expire()
        one = self._retained.get(reference)
        if one is None or one.owner != owner:
            return _error(f"There is no result {quoted(reference)} any more, or there was none: call the tool again.")
        one.until = self._clock() + self._limits.seconds
        self._retained.move_to_end(reference)
        room = max((host.passes or PAGE_BYTES) * 4 // 5 - _NOTE_BYTES, _LEAST_BEGINNING)
        work = partial(_read, one, asked, room)
        try:
            return await (to_thread.run_sync(work) if one.size > _IN_MEMORY else _now(work))
        except ValueError:  # it was discarded meanwhile
            return _error(f"There is no result {quoted(reference)} any more: call the tool again.")


async def _now(work: Callable[[], ToolResult]) -> ToolResult:
    return work()


def _read(one: _Retained, asked: Mapping[str, Any], room: int) -> ToolResult:
    """Return the part of a result that is asked for; raises `ValueError` if it is discarded."""
    text = (one.structured if "path" in asked and one.structured else one.text).read()
    if "path" in asked:
        try:
            text = _at(json.loads(text), asked["path"])
        except _NoPart as error:
            return _error(str(error))
        except (json.JSONDecodeError, RecursionError):
            return _error("That result is no JSON, so it has no path: read it by offset, line or search.")
    if "search" in asked:
        return ToolResult.of_text(_passages(text, asked["search"], room))
    offset: int = asked.get("offset", 0)
    if "line" in asked:
        starts, line = _line_starts(text), int(asked["line"])
        if line > len(starts):
            return _error(f"It has {len(starts):,} lines.")
        offset = starts[line - 1]
    if offset > len(text):
        return _error(f"It has {len(text):,} characters.")
    page = _beginning(text[offset : offset + room], room)
    end = offset + len(page)
    rest = f"offset={end} reads on" if end < len(text) else "that is its end"
    note = f"[characters {offset} to {end} of {len(text)}; {rest}]"
    return ToolResult(({"type": "text", "text": page}, {"type": "text", "text": note}))


# -- parts of a text ---------------------------------------------------------------------------------------------------


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _size(text: str) -> int:
    return len(_encoded(text))


def _beginning(text: str, room: int) -> str:
    """Return the beginning of a text in so many bytes, up to the end of a line if one is near; never nothing of it."""
    if _size(text) <= room:
        return text
    first = _encoded(text)[:room].decode("utf-8", "ignore") or text[:1]
    end = first.rfind("\n") + 1
    return first[:end] if end > len(first) * 3 // 4 else first


def _note(reference: str, text: str, end: int, *, has_structured: bool) -> str:
    """Return the sentence on what was left out, and how it is read."""
    lines, more = text.count("\n") + 1, f'search="words", offset={end}'
    more += ", line=N" if lines > 1 else ""
    more += ", path=a.0.b" if has_structured or text.lstrip()[:1] in ("{", "[") else ""
    what = f"the first {end:,} of {len(text):,} characters" if end < len(text) else "without its structured content"
    return (
        f'[This result is {what}, {lines:,} lines. {READ_RESULT} with result="{reference}" and one of {more} reads on.]'
    )


def _line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer("\n", text))]


def _passages(text: str, words: str, room: int) -> str:
    """Return passages of a text that have most of the words, those with more of them first, with their offsets."""
    wanted = [*dict.fromkeys(words.split())][:16]
    hits = sorted(
        (match.start(), word)
        for word in wanted
        for match, _ in zip(re.finditer(re.escape(word), text, re.IGNORECASE), range(_MOST_HITS), strict=False)
    )
    if not hits:
        return (
            f"None of these words is in its {len(text):,} characters: {quoted(words)}. offset and line read all of it."
        )
    places = [place for place, _ in hits]

    def found(number: int) -> int:
        end = bisect_right(places, places[number] + _AFTER)
        return len({word for _, word in hits[number:end]})

    best = sorted(range(len(hits)), key=lambda number: (-found(number), number))
    starts, shown, left = _line_starts(text), list[tuple[int, str]](), room
    covered: list[tuple[int, int]] = []
    for number in best:
        place = places[number]
        if any(first <= place < last for first, last in covered):
            continue
        first, last = max(place - _BEFORE, 0), min(place + _AFTER, len(text))
        passage = f"[offset={first}, line {bisect_right(starts, place):,}]\n{text[first:last]}\n"
        if (size := _size(passage)) > left:
            break
        left -= size
        covered.append((first, last))
        shown.append((first, passage))
    missing = [word for word in wanted if word not in {word for _, word in hits}]
    absent = f" Not in it: {quoted(' '.join(missing))}." if missing else ""
    head = f"{len(shown):,} of {len(hits):,} places.{absent}\n"
    return head + "".join(passage for _, passage in shown)


class _NoPart(LookupError):
    """A path leads nowhere."""


def _at(value: Any, path: str) -> str:
    """Return the part of JSON at a path, as a text; raises `_NoPart` with what there is instead."""
    done = ""
    for key in _keys(path):
        found: Any = None
        with suppress(KeyError, IndexError, ValueError, TypeError):
            found = (value[int(key)] if isinstance(value, list) else value[key],)
        if found is None:
            raise _NoPart(f"There is no {quoted(key)} in {quoted(done) if done else 'it'}: {_described(value)}.")
        value, done = found[0], f"{done}.{key}" if done else key
    return value if isinstance(value, str) else to_json(value, indent=1).decode()


def _keys(path: str) -> Sequence[str]:
    """Return the keys of a path: `a.0.b`, `a[0].b`, or a JSON pointer, for keys that have dots."""
    if path.startswith("/"):
        return [key.replace("~1", "/").replace("~0", "~") for key in path[1:].split("/")]
    return [key for key in re.split(r"[.\[\]]+", path.removeprefix("$")) if key]


def _described(value: Any) -> str:
    if (items := array(value)) is not None:
        return f"that is a list of {len(items):,}"
    if (members := table(value)) is not None:
        keys = [*members]
        return f"its keys are {quoted(', '.join(keys[:40]), 600)}" + (
            f" and {len(keys) - 40:,} more" if keys[40:] else ""
        )
    return "that is a single value"


# -- parts of a result -------------------------------------------------------------------------------------------------


def _answer_of(result: ToolResult) -> dict[str, Any] | None:
    """Return a result as it goes on the wire, or `None` if it is an exception."""
    if isinstance(result, Passed):
        return None if isinstance(result.answer, BaseException) else dumped(result.answer)
    structured = {} if result.structured is None else {"structuredContent": result.structured}
    return {"content": [*result.content], **structured}


def _with(
    result: ToolResult, answer: Mapping[str, Any], content: Sequence[Mapping[str, Any]], *, structured: Any
) -> ToolResult:
    """Return a result with other content and structured content."""
    if not isinstance(result, Passed):
        return evolve(result, content=tuple(content), structured=structured)
    rest = {key: value for key, value in answer.items() if key != "structuredContent"}
    more = {} if structured is None else {"structuredContent": structured}
    return passed({**rest, "content": [*content], **more})


def _text_of(block: Mapping[str, Any]) -> str | None:
    """Return the text of a block that has one, also that of a resource in it."""
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource", "resource": {"text": str(text), "uri": uri}}:
            return f"{uri}\n{text}"
        case _:
            return None


def _says(text: str, structured: Any) -> bool:
    """Return whether a text is structured content, written as JSON."""
    try:
        return bool(json.loads(text) == structured)
    except (ValueError, RecursionError):
        return False


def _error(text: str) -> ToolResult:
    return ToolResult.of_text(text, is_error=True)
