"""Takes secrets out of words that are not ours, before a model reads them (SPEC GWY-4).

Who quotes a server (what it wrote to stderr, an error of its own, the answer of a proxy) quotes what it was given, too:
in capitals, encoded, cut off, or a password alone out of the URL that had it. Secrets of its own are known by what they
are called or what they look like. `without` is the one place that takes them out; `decoded` has the ways in which
programs write a value. A server that means to tell a secret can always do so in a way that nobody else reads.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from urllib.parse import unquote, urlsplit

from attrs import frozen

from .decoded import Layer, compact, layers, only, plain

SHORTEST_SECRET = 6
"""Shorter values, such as 1 or debug, are no secrets, and parts of many words."""
MOST_READ = 12
"""So many letters and digits in a row of a secret are never read, however long it is."""
MASK = "…"
"""Stands for what was taken out."""
LONGEST = 4_000
"""How many characters of such words are read; more is no reason, and would take long."""
WORDS = 200
"""How many characters of somebody else's words are quoted."""
_CALLED = r"(?:passw(?:or)?d|passwd|pwd|secret|token|api[_-]?key|credentials?|authorization)"
_NAMED = re.compile(
    rf"""(?i)({_CALLED}["']?\s{{0,9}}(?:=|:(?=\s{{0,9}}["']?[^\s"',;)}}]{{0,200}}\d))\s{{0,9}}["']?"""
    r"""(?:bearer |basic )?)(?!(?:none|null|nil|undefined|unset|true|false|empty|missing|required|invalid|expired)\b"""
    r"""(?!-?\w))[^\s"',;)}]{4,}"""
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
_IDENTIFIES = re.compile(
    r"(?i)(?:^|[^a-z])(?:commit|revision|rev|ref|reference|tree|blob|object|pathspec|head|sha-?\d{0,3}|md5|digest"
    r"|checksum|integrity|etag|trace|span|request|req|correlation|transaction)(?:[-_ ]?id)?s?"
    r"""["')]{0,2}[\s:=#@_-]{1,3}(?:is\s|at\s)?["'(]?$"""
)
"""What stands before the hash of a commit or of a file, or the identifier of a request."""
LONGEST_NAME = 32
_CREDENTIALS = re.compile(r"://[^/\s@]+@")
_PAIR = re.compile(r"""(?<![^\s=;&?,:"'{])([^\s=;&?,:"'{]+)["']?\s*(?:=|:(?=\s*["']))\s*("[^"]*"|'[^']*'|[^\s;&,]+)""")
_WORDS = re.compile(r"-{0,2}(?:[A-Z]?[a-z]+[_.-]?){1,4}|[A-Z]+(?:_[A-Z]+)*")
DEEPEST = 4
"""How far into the value of a setting that is made of settings, too, it is looked."""
_PLACE = re.compile(r"[A-Za-z][\w+.-]*://|(?:~|\.{1,2})?/[\w.-]+(?:/|$)|[A-Za-z]:[\\/]")
"""What addresses and paths begin with, which are quoted in part where nothing is given away."""
_NO_VALUES = ("-m", "-y", "--yes", "--")
"""Options after which a module or a program is named."""
_PUNCTUATION = ".,;:!?()[]{}\"'`"
_SECRET_NAME = re.compile(
    r"key(?!board)|token|secret|passw|(?<!^)(?<!^old)pwd|credential|(?<!ssh_)auth(?!or(?!i[sz]))|dsn|cookie|private"
    r"|(?:^|[_-])(?:pass|pw|pat|pin)$",
    re.IGNORECASE,
)
"""What names of secrets have in them; those of the working folder, of keyboards and of authors are none."""


def without(text: str, secrets: Iterable[str], values: Iterable[str] = ()) -> str:
    """Return a text without some values, in any form in which programs print them, and without what looks secret.

    That is what has the name of a secret or the form of a token, and credentials in URLs.

    Args:
        text: The words of somebody else.
        secrets: What nobody may read there, not even most of it. What they have inside, such as the password of a URL,
            is no more to be read than they are.
        values: What is taken out where it stands as a whole: what is not known to be secret, and may be a word or a
            path.
    """
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}{MASK}"
    sought = sought_in(frozenset(secrets), frozenset(values))
    text = sought.cut_off(_masked(text, sought.spans(text))) if sought.parts else text
    text = _BEARER.sub(rf"\1{MASK}", _ISSUED.sub(MASK, _NAMED.sub(rf"\1{MASK}", text)))
    text = _RUN.sub(lambda run: MASK if _looks_secret(run) else run[0], text)
    return _CREDENTIALS.sub(f"://{MASK}@", text)


def _looks_secret(run: re.Match[str]) -> bool:
    """Return whether letters and digits are nobody's words, and no identifier that is meant to be read."""
    before = run.string[max(0, run.start() - LONGEST_NAME) : run.start()]
    return len(_SWITCH.findall(run[0])) > MOST_SWITCHES and not _IDENTIFIES.search(before)


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


def values_among(arguments: Iterable[str]) -> Iterator[str]:
    """Yield the arguments that are taken out of a text as a whole: all but words that stand for themselves.

    A module, a subcommand or a kind of transport is what the text of an error may be about.
    """
    before = ""
    for argument in arguments:
        if not argument.isalpha() or (before.startswith("-") and before not in _NO_VALUES and "=" not in before):
            yield argument
        before = argument


def _parts(value: str) -> Iterator[str]:
    """Yield a value, and what in it is a secret of its own: words, values of settings, the password of a URL."""
    yield value
    pairs = dict(_pairs(value))
    yield from pairs.values()
    words = value.split()
    scheme = len(words) == 2 and words[0].isalpha()
    words = words[1:] if scheme else [word for word in words if not word.strip(_PUNCTUATION).isalpha()]
    yield from (word for word in words if word not in pairs and "=" not in word)
    yield from _of_url(value)


def _pairs(value: str, depth: int = 1) -> Iterator[tuple[str, str]]:
    """Yield the names and values in a text that has settings, also within the value of one, such as a URL."""
    for name, quoted in _PAIR.findall(value):
        if not re.search(r"\w", given := quoted.strip("\"'")):
            continue  # as at the end of Base64
        yield name, given
        if depth < DEEPEST:
            yield from _pairs(given, depth + 1)


def _of_url(value: str) -> list[str]:
    """Return the password of a URL as it is written and as it is meant, and the name before it."""
    try:
        url = urlsplit(value)
        named = [one for one in (url.username, url.password) if one]
    except ValueError:
        return []
    return [*named, *map(unquote, named)]


# -- where a text has a value, or most of it --------------------------------------------------------------------------


@frozen
class Sought:
    """What is looked for in a text.

    Attributes:
        parts: What is taken out, as it is given.
        wholes: The forms of each in which it is found as a whole, as they are compared.
        runs: How many letters and digits in a row of which secrets are too many: all such runs, by their length.
    """

    parts: Collection[str]
    wholes: Collection[str]
    runs: Mapping[int, frozenset[str]]

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where a text has any of it, in whatever encoding."""
        for layer in layers(text):
            for whole in self.wholes:
                at = layer.text.find(whole)
                while at >= 0:
                    yield layer.starts[at], layer.ends[at + len(whole) - 1]
                    at = layer.text.find(whole, at + len(whole))
            if self.runs:
                yield from self._spans_of_runs(only(layer, str.isalnum))

    def _spans_of_runs(self, layer: Layer) -> Iterator[tuple[int, int]]:
        for length, runs in self.runs.items():
            for at in range(len(layer.text) - length + 1):
                if layer.text[at : at + length] in runs:
                    yield layer.starts[at], layer.ends[at + length - 1]

    def cut_off(self, text: str) -> str:
        """Return a text without the beginnings of what is looked for at which the text was cut."""
        for part in self.parts:
            for length in range(min(MOST_READ, len(part) - 1), SHORTEST_SECRET - 1, -1):
                text = text.replace(f"{part[:length]}{MASK}", MASK)
        return re.sub(f"{MASK}+", MASK, text)


@lru_cache(maxsize=256)
def sought_in(secrets: frozenset[str], values: frozenset[str]) -> Sought:
    """Return what is looked for, given secrets and values that may be none."""
    hidden = {part for value in secrets for part in _parts(value)} | {
        part for value in values for part in _secrets_within(value)
    }
    parts = {part for part in hidden.union(*map(_parts, values)) if len(compact(part)) >= SHORTEST_SECRET}
    wholes = {form for part in parts for form in _forms(part)}
    runs: dict[int, set[str]] = {}
    for secret in hidden:
        if _PLACE.match(secret) or _is_setting(secret):
            continue  # what they have inside is looked for on its own
        for form in _forms(secret):
            letters = "".join(filter(str.isalnum, form))
            if (length := _fewest(letters)) <= len(letters):
                runs.setdefault(length, set()).update(
                    letters[at : at + length] for at in range(len(letters) - length + 1)
                )
    return Sought(parts, wholes, {length: frozenset(ones) for length, ones in runs.items()})


def _is_setting(value: str) -> bool:
    """Return whether a value is made of settings, by the name of the first one: a token may have such a sign, too."""
    return any(_WORDS.fullmatch(name) for name, _ in islice(_pairs(value), 1))


def _fewest(letters: str) -> int:
    """Return how many letters and digits in a row of a secret give too much of it away."""
    return min(max(len(letters) * 7 // 10, SHORTEST_SECRET), MOST_READ)


def _secrets_within(value: str) -> Iterator[str]:
    """Yield what of a value is secret, though the value as a whole may be none."""
    yield from secrets_among([value])
    words = re.split(r"[\W_]+", value)
    if any(len(word) >= SHORTEST_SECRET and len(_SWITCH.findall(word)) > 1 for word in words):
        yield value


def _forms(part: str) -> set[str]:
    """Return the forms in which a part is compared.

    Forwards and backwards, its characters or their bytes, and spaces left out or as URLs have them.
    """
    written = {part, part.encode(errors="surrogatepass").decode("latin-1")}
    forward = {plain(form) for one in written for form in (one, one.replace(" ", "+"))}
    return {form for one in forward for form in (one, one[::-1])}


def _masked(text: str, found: Iterable[tuple[int, int]]) -> str:
    """Return a text with a mask in the place of each span."""
    whole, after = list[str](), 0
    for start, end in sorted(found):
        if start >= after:
            whole += text[after:start], MASK
        after = max(after, end)
    return "".join([*whole, text[after:]])
