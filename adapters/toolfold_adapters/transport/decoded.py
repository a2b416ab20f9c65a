"""What a text says in each of the encodings in which programs write values, and where in the text that stands.

A layer is the text itself, or what a decoder makes of another layer, until nothing is left to decode: so it does not
matter how often, or in which order, something was encoded. What prints nothing, such as a line break or a character of
no width, is left out of each, and characters that differ in case, width or accents alone are the same.
"""

from __future__ import annotations

import re
import unicodedata
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from html.entities import html5
from itertools import chain

from attrs import frozen

MOST_LAYERS = 50
"""How many layers of a text are read; one of words has some fifteen."""
DEPTH = 6
"""How often something may have been encoded."""
_ESCAPE = re.compile(
    r"%(?P<percent>[0-9a-f]{2})|\\x\{?(?P<hex>[0-9a-f]{2})\}?"
    r"|\\(?-i:u)(?P<half>[0-9a-f]{4})|\\u\{(?P<braced>[0-9a-f]{1,6})\}|\\(?-i:U)(?P<long>00[01][0-9a-f]{5})"
    r"|\\(?P<octal>[0-3]?[0-7]{1,2})|\\(?P<plain>.)"
    r"|&#x(?P<entity>[0-9a-f]{1,6});|&#(?P<number>[0-9]{1,7});|&(?P<named>[a-z]{2,8});",
    re.IGNORECASE | re.DOTALL,
)
_QUOTED_PRINTABLE = re.compile(r"=(?P<hex>[0-9A-Fa-f]{2})")
_NUMBER = re.compile(r"\b(?:0[xX](?P<hex>[0-9A-Fa-f]{2})|(?P<number>[0-9]{2,3}))\b(?:[\s,;]+(?=[0-9]))?")
"""A byte in a list of them."""
_COLOUR = re.compile(r"\x1b\[(?P<nothing>[0-9;]*)[A-Za-z]")
"""What terminals show nothing of."""
_BASES = {"percent": 16, "hex": 16, "half": 16, "braced": 16, "long": 16, "octal": 8, "entity": 16, "number": 10}
_CONTROLS = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))


@frozen
class Layer:
    """A text, and where in the first text what each of its characters is said by starts and ends."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]


def compact(text: str) -> str:
    """Return a text without what prints nothing: spaces, line breaks, characters of no width."""
    return "".join(one for one in text if one.isprintable() and one != " ")


def plain(text: str) -> str:
    """Return a text as it is compared: without what prints nothing, and without case, width and accents."""
    return "".join(map(_plain, text))


@lru_cache(maxsize=4096)
def _plain(one: str) -> str:
    """Return what a character is compared as; nothing for one that prints nothing."""
    if not compact(one):
        return ""
    return "".join(part for part in unicodedata.normalize("NFKD", one) if not unicodedata.combining(part)).casefold()


def layers(text: str) -> Iterator[Layer]:
    """Yield what a text says, as it is and decoded, each as it is compared."""
    left = deque([(Layer(text, range(len(text)), range(1, len(text) + 1)), 0)])
    seen = {text}
    for _ in range(MOST_LAYERS):
        if not left:
            return
        layer, depth = left.popleft()
        yield _compared(layer)
        if depth == DEPTH:
            continue
        escaped = [layer] if depth else [layer, only(layer, _prints)]  # a line may have been broken within an escape
        for one in [*chain(*map(_unescaped, escaped)), *_decoded(layer)]:
            if one.text not in seen:
                seen.add(one.text)
                left.append((one, depth + 1))


def only(layer: Layer, kept: Callable[[str], bool]) -> Layer:
    """Return the characters of a layer of which something holds."""
    return _picked(layer, [at for at, one in enumerate(layer.text) if kept(one)])


def _picked(layer: Layer, kept: Sequence[int]) -> Layer:
    starts, ends = ([of[at] for at in kept] for of in (layer.starts, layer.ends))
    return Layer("".join(layer.text[at] for at in kept), starts, ends)


def _compared(layer: Layer) -> Layer:
    """Return a layer as it is compared: a character may be compared as several, or as none."""
    compared = list(map(_plain, layer.text))
    starts, ends = (
        [place for place, as_ in zip(of, compared, strict=True) for _ in as_] for of in (layer.starts, layer.ends)
    )
    return Layer("".join(compared), starts, ends)


def _unescaped(layer: Layer) -> Iterator[Layer]:
    """Yield a layer with its escapes undone, if it has any; those of bytes are characters of Latin-1.

    What only some programs escape so is undone on its own, since elsewhere it means itself, as in `a=12`.
    """
    for escape in (_ESCAPE, _QUOTED_PRINTABLE, _NUMBER, _COLOUR):
        if escapes := [
            (match, one) for match in escape.finditer(layer.text) if (one := _character_of(match)) is not None
        ]:
            yield _replaced(layer, escapes)


def _replaced(layer: Layer, escapes: Sequence[tuple[re.Match[str], str]]) -> Layer:
    """Return a layer with a character in the place of each escape."""
    parts, starts, ends, after = list[str](), list[int](), list[int](), 0
    for match, one in escapes:
        parts += layer.text[after : match.start()], one
        starts += *layer.starts[after : match.start()], *(layer.starts[match.start()] for _ in one)
        ends += *layer.ends[after : match.start()], *(layer.ends[match.end() - 1] for _ in one)
        after = match.end()
    return Layer("".join([*parts, layer.text[after:]]), [*starts, *layer.starts[after:]], [*ends, *layer.ends[after:]])


def _character_of(match: re.Match[str]) -> str | None:
    """Return the character that an escape stands for, or `None` if it stands for none."""
    kind = match.lastgroup or ""
    value = match[kind]
    if kind == "nothing":
        return ""
    if kind == "plain":
        return _CONTROLS.get(value, value)
    if kind == "named":
        found = html5.get(f"{value};", "")
        return found if len(found) == 1 else None
    number = int(value, _BASES[kind])
    return chr(number) if number < 0x110000 else None


# -- bytes written as digits of a base --------------------------------------------------------------------------------


@frozen
class Base:
    """Digits in which programs write bytes: `run` finds them, and each `digits` of them are `width` bytes.

    What is no digit by `is_digit` may stand between them.
    """

    run: re.Pattern[str]
    is_digit: Callable[[str], bool]
    digits: int
    width: int
    decode: Callable[[str], bytes]


_BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_OF_BASE32 = str.maketrans(_BASE32, "0123456789ABCDEFGHIJKLMNOPQRSTUV")
_URL_SAFE = str.maketrans("-_", "+/")


def _base64(text: str) -> bytes:
    return b64decode(text.translate(_URL_SAFE))


def _base32(text: str) -> bytes:
    return int(text.upper().translate(_OF_BASE32), 32).to_bytes(len(text) * 5 // 8)


def _prints(one: str) -> bool:
    return _plain(one) != ""


BASES = (
    Base(re.compile(r"[A-Za-z0-9+/_-]{8,}"), _prints, 4, 3, _base64),
    Base(re.compile(r"[A-Z2-7]{10,}|[a-z2-7]{10,}"), _prints, 8, 5, _base32),
    Base(re.compile(r"[0-9A-Fa-f]{12,}"), str.isalnum, 2, 1, bytes.fromhex),
)
_BETWEEN = "\N{BROKEN BAR}"
"""Stands between what two runs of digits say."""


def _decoded(whole: Layer) -> Iterator[Layer]:
    """Yield what the digits of a layer say in each base, begun at each place of a group of them."""
    closed = {is_digit: only(whole, is_digit) for is_digit in {base.is_digit for base in BASES}}
    for base in BASES:
        layer = closed[base.is_digit]
        runs = list(base.run.finditer(layer.text))
        for offset in range(base.digits if runs else 0):
            parts, starts, ends = list[str](), list[int](), list[int]()
            for run in runs:
                begin = run.start() + offset
                count = (run.end() - begin) * base.width // base.digits
                digits = layer.text[begin : run.end()]
                data = base.decode(digits + digits[:1] * (-len(digits) % base.digits))[:count]
                parts += data.decode("latin-1"), _BETWEEN
                firsts = [begin + at * base.digits // base.width for at in range(count)]
                lasts = [begin - (-(at + 1) * base.digits // base.width) - 1 for at in range(count)]
                starts += [*(layer.starts[at] for at in firsts), layer.starts[run.start()]]
                ends += [*(layer.ends[at] for at in lasts), layer.ends[run.end() - 1]]
            yield Layer("".join(parts), starts, ends)
