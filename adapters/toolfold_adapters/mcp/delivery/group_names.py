"""Names of groups in the form that the draft extension for groups allows: `[a-z0-9-]{1,64}` (SPEC DEL-5).

No hyphen comes first, last, or beside another, so `-0` can begin an escape:

- a name that already has that form stays as it is, but that a word which begins with `0` is preceded by `0w`
- whatever else is between two words, or before or after them, is one word: `0`, and a letter for each character, which
  is `d` for the dot, `u` for the underscore, `h` for the hyphen, and `c` with the lower-case letter for a capital

So `stock.orders` is `stock-0d-orders`, and no two paths have one name. A name that would be longer than 64 characters
is cut and ends in `0z` and a digest of its path, and can't be mapped back.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256

MAX_LENGTH = 64
_DIGITS = 20
_PLAIN = re.compile(r"[a-z0-9]+")
_PARTS = re.compile(r"[a-z0-9]+|[^a-z0-9]+")
_CODES = {".": "d", "_": "u", "-": "h"}
_CHARACTERS = {code: character for character, code in _CODES.items()}
_CODE = re.compile(r"c[a-z]|.")


@lru_cache(maxsize=4096)
def draft_name(path: str) -> str:
    """Return the name of the group at `path`: no other path has the same one."""
    parts = _PARTS.findall(path)
    last = len(parts) - 1
    name = "-".join(_word(part) for number, part in enumerate(parts) if part != "-" or number in (0, last))
    if len(name) <= MAX_LENGTH:
        return name
    end = f"-0z{sha256(path.encode()).hexdigest()[:_DIGITS]}"
    return name[: MAX_LENGTH - len(end)].rstrip("-") + end


def path_of(name: str) -> str:
    """Return the path of which `name` is the name; one that is no path's is returned as it is."""
    path, after_word = "", False
    for word in name.split("-"):
        escaped = word.startswith("0") and not word.startswith("0w")
        path += "-" if after_word and not escaped else ""
        path += _CODE.sub(_character, word[1:]) if escaped else word.removeprefix("0w")
        after_word = not escaped
    return path if draft_name(path) == name else name


def _character(code: re.Match[str]) -> str:
    return _CHARACTERS.get(code[0]) or code[0][-1].upper()


def _word(part: str) -> str:
    if _PLAIN.fullmatch(part):
        return f"0w{part}" if part.startswith("0") else part
    return "0" + "".join(_CODES.get(one) or f"c{one.lower()}" for one in part)
