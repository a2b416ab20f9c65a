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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from attrs import define, evolve
from pydantic_core import to_json

from toolfold import InvalidArguments, ToolResult
from toolfold.spi import HANDLE, Caller, Passed, array, frozen, quoted, table

from ...clock import elapsed
from ...hosts import Host
from ...tokens import plural
from ..request import Request
from .files import TEXT, Place, SavedFiles, SharedFile
from .media import Media
from .proxy import offered
from .render import dumped, passed

T = TypeVar("T")

READ_RESULT = "read_result"
"""The name of the tool that reads what was left out of a result."""

PAGE_BYTES = 8_000
"""How much of a result is read at a time by a client whose host is not known."""
_IN_MEMORY = 65_536
_NOTE_BYTES = 400
_LEAST_BEGINNING = 500
_MOST_WORDS, _MOST_HITS = 8, 100
"""How many words are searched for, and how many places of each are compared."""
_BEFORE, _AFTER = 150, 350
"""How many characters are shown before and after a word that was searched for."""
_KEYS = 40


@frozen(kw_only=True)
class ResultLimits:
    """The limits of the results that can be read on.

    A session, or a caller with all of its sessions, that would exceed its own loses what it read longest ago. A result
    that does not fit in all, or is larger than one may be, is passed on whole.

    Attributes:
        results: How many a session may have.
        largest: How many bytes a result may have.
        size: How many bytes a session may have.
        per_caller: How many bytes the sessions of one caller may have, where callers are known.
        total: How many bytes all sessions may have.
        seconds: How long one is there after it was last read.
    """

    results: int = 64
    largest: int = 4 << 20
    size: int = 16 << 20
    per_caller: int = 64 << 20
    total: int = 256 << 20
    seconds: float = 3_600


@define(eq=False)
class _Retained:
    """What a result says, as a text and as structured content, if it has some that is not in the text."""

    owner: str
    caller: Caller
    size: int
    until: float
    text: str | Place
    structured: str | Place | None
    media_type: str = TEXT
    saved: Path | None = None


class LongResults:
    """The results that sessions of one server can read on.

    Args:
        limits: How many, and for how long.
        clock: Returns the seconds since some moment.

    `noted` returns what each call of `read_result` runs within, which yields how it is said to have ended.
    """

    def __init__(self, limits: ResultLimits | None = None, clock: Callable[[], float] = elapsed) -> None:
        self._limits = limits or ResultLimits()
        self._clock = clock
        self.noted: Callable[[], AbstractContextManager[dict[str, Any]]] = lambda: nullcontext({})
        self._retained: OrderedDict[str, _Retained] = OrderedDict()  # that which was read last is the last
        self._file, self._files = SharedFile(), SavedFiles()
        self._one_at_a_time = CapacityLimiter(1)
        self.component, self._arguments = offered(
            READ_RESULT,
            "Read on in a long result",
            "Read what was left out of a long result.",
            {
                "result": {"type": "string", "description": "As the result names itself."},
                "search": {
                    "type": "string",
                    "maxLength": 200,
                    "description": "Words: the passages that have most of them.",
                },
                "offset": {"type": "integer", "minimum": 0, "description": "Read on from this character."},
                "line": {"type": "integer", "minimum": 1, "description": "Or from this line."},
                "path": {
                    "type": "string",
                    "maxLength": 1_000,
                    "description": "Of JSON, this part alone, such as items.3.name.",
                },
                "save": {"type": "boolean", "description": "Write it to a file here, and say where."},
            },
            with_handle=False,
            annotations={"readOnlyHint": True, "idempotentHint": True},
        )

    def listed_for(self, request: Request) -> bool:
        """Return whether a client is offered `read_result`."""
        return request.host.passes is not None or bool(request.unshown)

    # -- a result -----------------------------------------------------------------------------------------------------

    async def fitted(
        self, result: ToolResult, owner: str, request: Request, *, validated: bool, less: int | None
    ) -> ToolResult:
        """Return a result as a client shows it: its beginning if it is long, and what images are that it does not show.

        Args:
            result: The result of a tool.
            owner: Whose it is.
            request: Who asked for it.
            validated: As of `shortened`.
            less: As of `shortened`, or `None` if it is not to be shortened.
        """
        host, caller, unshown = request.host, request.caller, request.unshown
        if less is not None:
            left = less + _NOTE_BYTES * sum(block.get("type") in unshown for block in result.content)
            result = await self.shortened(result, owner, host, caller=caller, validated=validated, less=left)
        if not unshown or result.needs is not None or (answer := _answer_of(result)) is None:
            return result
        whole = _Whole.of(answer)
        found = [Media.of(block, unshown) for block in whole.blocks]
        if not any(found):
            return result
        content = [
            block if media is None else media.described(self._way_to_save(media, owner, caller))
            for block, media in zip(whole.blocks, found, strict=True)
        ]
        return _with(result, answer, content, structured=whole.structured)

    def _way_to_save(self, media: Media, owner: str, caller: Caller) -> str:
        """Return how it is saved from now on, or `""` if it can't be."""
        if caller is not None:  # the file would be on another machine
            return ""
        reference = self._retain(owner, media.data, None, caller, media.media_type)
        return "" if reference is None else f'{READ_RESULT} with result="{reference}" and save=true writes it to a file'

    async def shortened(
        self,
        result: ToolResult,
        owner: str,
        host: Host,
        *,
        caller: Caller = None,
        validated: bool = False,
        less: int = 0,
    ) -> ToolResult:
        """Return a result as a host passes it on: as it is, or its beginning and how the rest is read.

        Args:
            result: The result of a tool.
            owner: Whose it is: nobody else can read on in it.
            host: The host.
            caller: By what the owner is counted.
            validated: Whether the client may compare the structured content with a schema, which it then has to have.
            less: How many bytes something else takes that is said beside it.
        """
        if host.passes is None or result.needs is not None or (answer := _answer_of(result)) is None:
            return result
        whole = _Whole.of(answer)
        characters = sum(map(len, whole.texts))
        if characters > self._limits.largest:
            return result
        stays = validated or host.reads_structured
        measure = partial(whole.measured, host.passes - less, stays=stays)
        large = characters > _IN_MEMORY or (whole.structured is not None and not characters)
        measured = await (to_thread.run_sync(measure) if large else _now(measure))
        if measured is None:
            return result
        if measured.fits:
            return _with(result, answer, whole.blocks, structured=None)
        reference = self._retain(owner, measured.text, measured.structured, caller)
        if reference is None:
            return result
        room = max((host.passes - less) * 4 // 5 - _NOTE_BYTES, _LEAST_BEGINNING)  # hosts count in ways of their own
        others = [block for block in whole.blocks if _text_of(block) is None]
        has_structured = measured.structured is not None
        if host.reads_structured and whole.structured is not None:  # a print of both is cut where the first one ends
            beginning = _beginning(measured.text, room // 4) if has_structured else ""
            note = _note(reference, measured.text, len(beginning), has_structured=has_structured)
            content = [{"type": "text", "text": f"{note}\n{beginning}".strip()}, *others]
        else:
            beginning = _beginning(measured.text, room)
            note = _note(reference, measured.text, len(beginning), has_structured=has_structured)
            content = [{"type": "text", "text": f"{beginning}\n{note}"}, *others]
        return _with(result, answer, content, structured=whole.structured if stays else None)

    def rest_of(self, text: str, owner: str, caller: Caller = None) -> str | None:
        """Return how the rest of a text is read that is retained from now on, or `None` if there is no room for it."""
        reference = self._retain(owner, text, None, caller)
        return None if reference is None else f'{READ_RESULT} with result="{reference}" reads on'

    def _retain(
        self, owner: str, text: str, structured: str | None, caller: Caller, media_type: str = TEXT
    ) -> str | None:
        """Return the reference of a result that is retained from now on, or `None` if there is no room for it."""
        limits, size = self._limits, _size(text) + _size(structured or "")
        self._expire()
        if size > limits.largest:
            return None
        self._make_room(lambda one: one.owner == owner, limits.size - size, limits.results - 1)
        if caller is not None:
            self._make_room(lambda one: one.caller == caller, limits.per_caller - size)
        if sum(one.size for one in self._retained.values()) + size > limits.total:
            return None
        reference = secrets.token_urlsafe(16)
        until = self._clock() + limits.seconds
        written = None if structured is None else self._stored(structured)
        self._retained[reference] = _Retained(owner, caller, size, until, self._stored(text), written, media_type)
        return reference

    def _make_room(self, counts: Callable[[_Retained], bool], size: int, results: int | None = None) -> None:
        """Discard of some results those that were read longest ago, until so many bytes and results are left."""
        own = [(reference, one.size) for reference, one in self._retained.items() if counts(one)]
        used = sum(each for _, each in own)
        while own and (used > size or (results is not None and len(own) > results)):
            reference, each = own.pop(0)
            used -= each
            self._discard(reference)

    def _stored(self, text: str) -> str | Place:
        return text if len(text) <= _IN_MEMORY else self._file.write(_encoded(text))

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
            if isinstance(one, Place):
                self._file.discard(one)
        if gone.saved is not None:
            self._files.discard(gone.saved)

    # -- reading on ---------------------------------------------------------------------------------------------------

    async def read(self, arguments: Mapping[str, Any], owner: str, host: Host, caller: Caller = None) -> ToolResult:
        """Return the answer to a call of `read_result`.

        Raises:
            InvalidArguments: They do not fit.
        """
        with self.noted() as ended:
            result = await self._answer(arguments, owner, host, caller)
            if result.is_error:
                ended["outcome"] = "error"
            return result

    async def _answer(self, arguments: Mapping[str, Any], owner: str, host: Host, caller: Caller) -> ToolResult:
        asked = self._arguments.check(READ_RESULT, {key: arguments[key] for key in arguments if key != HANDLE})
        saves = bool(asked.get("save"))
        given = ["save"] if saves else []
        given += [name for name in ("search", "offset", "line", *(("path",) if saves else ())) if name in asked]
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
        if saves and caller is not None:
            return _error("This server may be on another machine, so it writes no files: read on by offset.")
        if not saves and one.media_type != TEXT:
            return _error("It is no text: save=true writes it to a file.")
        work = partial(self._save, reference, one) if saves else partial(self._read, one, asked, room)
        try:
            if one.size > _IN_MEMORY:
                return await to_thread.run_sync(work, limiter=self._one_at_a_time)
            return work()
        except ValueError:  # it was discarded meanwhile
            return _error(f"There is no result {quoted(reference)} any more: call the tool again.")

    def _save(self, reference: str, one: _Retained) -> ToolResult:
        """Write a result to a file and return where; raises `ValueError` if it is discarded."""
        if one.saved is None:
            text = self._file.read(one.text) if isinstance(one.text, Place) else _encoded(one.text)
            try:
                path = self._files.write(text, one.media_type)
            except ValueError:
                return _error("It is no base64, so it can't be written.")
            except OSError as error:
                return _error(f"It can't be written: {error.strerror or error}.")
            if self._retained.get(reference) is not one:
                self._files.discard(path)
                raise ValueError
            one.saved = path
        until = f"with this session, or {self._limits.seconds / 60:.0f} minutes after it was last asked for"
        return ToolResult.of_text(f"Written to {one.saved}. It is deleted {until}.")

    def _read(self, one: _Retained, asked: Mapping[str, Any], room: int) -> ToolResult:
        """Return the part of a result that is asked for; raises `ValueError` if it is discarded."""
        part = one.structured if "path" in asked and one.structured is not None else one.text
        text = self._file.read(part).decode("utf-8", "surrogatepass") if isinstance(part, Place) else part
        return _part_of(text, asked, room)


async def _now(work: Callable[[], T]) -> T:
    return work()


def _part_of(text: str, asked: Mapping[str, Any], room: int) -> ToolResult:
    """Return the part of a text that is asked for."""
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
    page = _beginning(text[offset : offset + room + 1], room)
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
    if not end:
        what = f"structured content of {len(text):,} characters, of which you may be shown a part"
    how = f'{READ_RESULT} with result="{reference}" and one of {more} reads on'
    return f"[This result is {what}, {plural(lines, 'line')}. {how}.]"


def _line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer("\n", text))]


def _passages(text: str, words: str, room: int) -> str:
    """Return passages of a text that have most of the words, those with more of them first, with their offsets."""
    wanted = [*dict.fromkeys(map(_plain, words.split()))][:_MOST_WORDS]
    plain = _plain(text)
    places = sorted({place for word in wanted for place in _places(plain, word)})
    if not places:
        return f"None of these words is in its {len(text):,} characters: {quoted(words)}."
    spans = [(max(place - _BEFORE, 0), min(place + _AFTER, len(text)), place) for place in places]
    found = {place: sum(word in plain[first:last] for word in wanted) for first, last, place in spans}
    starts, shown, left = _line_starts(text), list[str](), room
    covered: list[tuple[int, int]] = []
    for first, last, place in sorted(spans, key=lambda span: (-found[span[2]], span[2])):
        if any(begin <= place < end for begin, end in covered):
            continue
        passage = f"[offset={first}, line {bisect_right(starts, first):,}]\n{text[first:last]}\n"
        if (size := _size(passage)) > left:
            break
        left -= size
        covered.append((first, last))
        shown.append(passage)
    missing = [word for word in wanted if word not in plain]
    absent = f" Not in it: {quoted(' '.join(missing))}." if missing else ""
    return f"{len(shown):,} of {len(places):,} places.{absent}\n{''.join(shown)}"


def _plain(text: str) -> str:
    """Return a text in small letters, of which each is one character, so that places stay the same."""
    return text.translate({ord(one): small for one in set(text) if len(small := one.lower()) == 1 and small != one})


def _places(text: str, word: str) -> Iterator[int]:
    """Yield the first places of a word in a text."""
    at = text.find(word)
    for _ in range(_MOST_HITS):
        if at < 0:
            return
        yield at
        at = text.find(word, at + len(word))


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


@frozen
class _Measured:
    """What of a result is retained; or `fits` without the structured content that its text repeats."""

    text: str = ""
    structured: str | None = None
    fits: bool = False


@frozen
class _Whole:
    """A result as it came: its blocks, the texts of them, and its structured content."""

    blocks: Sequence[dict[str, Any]]
    texts: Sequence[str]
    structured: Any

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> _Whole:
        """Return it."""
        blocks = [dict(block) for given in array(answer.get("content")) or () if (block := table(given)) is not None]
        texts = [text for block in blocks if (text := _text_of(block)) is not None]
        return cls(blocks, texts, answer.get("structuredContent"))

    def measured(self, most: int, *, stays: bool) -> _Measured | None:
        """Return what is retained of it, or `None` if it has at most so many bytes."""
        text = "\n".join(self.texts)
        written = None if self.structured is None else to_json(self.structured).decode()
        size = _size(text)
        if size + _size(written or "") <= most:
            return None
        if written is not None and any(_says(one, self.structured) for one in self.texts):
            written = None  # the text says it, too
            if not stays and size <= most:
                return _Measured(fits=True)
        return _Measured(text, written) if self.texts else _Measured(written or "")


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
