"""Takes secrets out of words that are not ours, before a model reads them (SPEC GWY-4).

Who quotes a server (what it wrote to stderr, an error of its own, the answer of a proxy) quotes what it was given, too:
in capitals, encoded, or a password alone out of the URL that had it. Secrets of its own are known by what they are
called or what they look like. `without` is the one place that takes them out; `decoded` has the ways in which programs
write a value. A server that means to tell a secret can always do so in a way that nobody else reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from .decoded import compact, spans

SHORTEST_SECRET = 6
"""Shorter values, such as 1 or debug, are no secrets, and parts of many words."""
MASK = "…"
"""Stands for what was taken out."""
LONGEST = 4_000
"""How many characters of such words are read; more is no reason, and would take long."""
WORDS = 200
"""How many characters of somebody else's words are quoted."""
_CALLED = r"(?:passw(?:or)?d|passwd|pwd|secret|token|api[_-]?key|credentials?|authorization)"
_NAMED = re.compile(
    rf"""(?i)({_CALLED}["']?\s{{0,9}}(?:=|:(?=\s{{0,9}}["']?[^\s"',;)}}]{{0,200}}\d))\s{{0,9}}["']?"""
    r"""(?:bearer |basic )?)[^\s"',;)}]{4,}"""
)
_BEARER = re.compile(r"(?i)\b(bearer\s+)[\w.~+/-]*\d[\w.~+/-]*=*")
_ISSUED = re.compile(
    r"\b(?:(?:sk|pk|rk)[-_](?=[\w-]{0,80}\d)|gh[opusr]_|github_pat_|glpat-|xox[abeprs]-|A[KS]IA(?=[A-Z0-9]{12})"
    r"|eyJ[\w-]{4,500}\.)[\w.-]{8,}"
)
"""What well-known issuers begin their tokens with."""
_RUN = re.compile(r"[A-Za-z0-9+]{16,}={0,2}")
_SWITCH = re.compile(r"(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])")
MOST_SWITCHES = 2
"""How often what somebody made up, such as the name of an error, changes between letters and digits."""
_CREDENTIALS = re.compile(r"://[^/\s@]+@")
_PAIR = re.compile(r"""([^\s=;&?,]+)\s*=\s*("[^"]*"|'[^']*'|[^\s;&,]+)""")
_SECRET_NAME = re.compile(
    r"key(?!board)|token|secret|passw|(?<!^)(?<!^old)pwd|credential|(?<!ssh_)auth(?!or(?!i[sz]))|dsn|cookie|private"
    r"|(?:^|[_-])(?:pass|pw|pat|pin)$",
    re.IGNORECASE,
)
"""What names of secrets have in them; those of the working folder, of keyboards and of authors are none."""


def without(text: str, given: Iterable[str]) -> str:
    """Return a text without some values, in any form in which programs print them, and without what looks secret.

    That is what has the name of a secret or the form of a token, and credentials in URLs.

    Args:
        text: The words of somebody else.
        given: What nobody may read there: values of variables, headers, arguments or addresses. What they have inside,
            such as the password of a URL, is no more to be read than they are.
    """
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}{MASK}"
    parts = frozenset(part for value in given for part in _parts(value) if len(compact(part)) >= SHORTEST_SECRET)
    if parts:
        text = _masked(text, spans(text, _pattern(parts)))
        for part in parts:
            text = _without_beginning(text, part)
    text = _BEARER.sub(rf"\1{MASK}", _ISSUED.sub(MASK, _NAMED.sub(rf"\1{MASK}", text)))
    text = _RUN.sub(lambda run: MASK if len(_SWITCH.findall(run[0])) > MOST_SWITCHES else run[0], text)
    return _CREDENTIALS.sub(f"://{MASK}@", text)


def quoted_short(text: str, given: Iterable[str] = ()) -> str:
    """Return the first words of somebody else on one line, as `without` does."""
    text = " ".join(without(text, given).split())
    return text if len(text) <= WORDS else f"{text[:WORDS]}{MASK}"


def secrets_in(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield what of an environment is secret by the name that it has, and the passwords in URLs."""
    for name, value in environ.items():
        if _SECRET_NAME.search(name):
            yield value
        elif "@" in value and (password := _of_url(value)):
            yield from password


def secrets_among(arguments: Iterable[str]) -> Iterator[str]:
    """Yield what of arguments, or within a URL, is secret by the name that it has, and the passwords in URLs."""
    option = ""
    for argument in arguments:
        yield from secrets_in({option: argument})
        for name, value in _pairs(argument):
            yield from secrets_in({name: value})
        option = argument if argument.startswith("-") and "=" not in argument else ""


def _parts(value: str) -> Iterator[str]:
    """Yield a value, and what in it is a secret of its own: words, values of settings, the password of a URL."""
    yield value
    pairs = dict(_pairs(value))
    yield from pairs.values()
    yield from (word for word in value.split() if word not in pairs and "=" not in word)
    yield from _of_url(value)


def _pairs(value: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values in a text that has settings, also within the value of one, such as a URL."""
    for name, quoted in _PAIR.findall(value):
        given = quoted.strip("\"'")
        yield name, given
        yield from _pairs(given)


def _of_url(value: str) -> list[str]:
    """Return the password of a URL as it is written and as it is meant, and the name before it."""
    try:
        url = urlsplit(value)
        named = [one for one in (url.username, url.password) if one]
    except ValueError:
        return []
    return [*named, *map(unquote, named)]


@lru_cache(maxsize=256)
def _pattern(parts: frozenset[str]) -> re.Pattern[str]:
    """Return what finds any of the parts in a decoded text, forwards or backwards, the longest first."""
    longest_first = sorted(parts, key=lambda part: (-len(part), part))
    either = (one for part in longest_first for one in (part, part[::-1]))
    return re.compile("|".join("".join(map(_character, one)) for one in either), re.IGNORECASE)


def _character(one: str) -> str:
    """Return the pattern of a character: itself, or its bytes; a space is none, or as URLs have it."""
    if one not in compact(one):
        return r"\+?"
    written = {re.escape(one), re.escape(one.encode(errors="surrogatepass").decode("latin-1"))}
    return (
        f"(?:{'|'.join(sorted(written))})" if len(written) > 1 else written.pop()
    )  # equal ones would be tried 2ⁿ times


def _masked(text: str, found: Iterable[tuple[int, int]]) -> str:
    """Return a text with a mask in the place of each span."""
    whole, after = list[str](), 0
    for start, end in sorted(found):
        if start >= after:
            whole += text[after:start], MASK
        after = max(after, end)
    return "".join([*whole, text[after:]])


def _without_beginning(text: str, part: str) -> str:
    """Return a text without the beginning of a value at which it was cut."""
    for length in range(len(part) - 1, SHORTEST_SECRET - 1, -1):
        if (cut := f"{part[:length]}{MASK}") in text:
            return text.replace(cut, MASK)
    return text
