"""What can be found out of a line that is no message of the protocol: which request it was to answer (SPEC GWY-3).

A line may be cut or no JSON, so it is read as far as its tokens go: its outermost keys at the beginning, and the id at
its end, where some have it, such as the second half of an answer with a raw line break.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from attrs import frozen
from mcp_types import RequestId
from pydantic_core import from_json

HEAD, TAIL = 64 * 1024, 1024
"""How much of a line is read, in characters."""
DIGITS = 20
"""How many digits an id may have."""
FORM = 50
"""How many characters of a key tell one form of a line from another."""
TEXT = "text"
"""The form of a line that is neither a list, an object nor quoted."""
OF_LOGS = frozenset(
    {"@timestamp", "asctime", "level", "levelname", "loglevel", "lvl", "msg", "severity", "time", "timestamp", "ts"}
)
"""Keys of a line that a library for logs writes, and no answer has; in small letters."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
_AT_END = re.compile(r'[,{]\s*"id"\s*:\s*("[^"\\]*"|\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


@frozen
class Line:
    """What a line is that is no message.

    Attributes:
        answers: The id of the request that it was to answer, if that was found.
        answer: Whether it was to answer a request at all.
        cut: Whether it ends within a value, so that the next line may be the rest.
        form: What JSON it is, or begins as: the first key of an object, after its bracket, or another bracket; `TEXT`
            if it is none, and empty if it has nothing, is a line of a log in JSON, or asks or says something itself.
    """

    answers: RequestId | None
    answer: bool
    cut: bool
    form: str = ""


class BrokenLine(ValueError):
    """A line that is no message; `line` is what could be found out of it."""

    def __init__(self, line: Line) -> None:
        super().__init__("a line is no message of the protocol")
        self.line = line


def read(text: str) -> Line:
    """Return what can be found out of a line that is no message."""
    text = text.replace("\0", "").lstrip("\ufeff\ufffd \t")  # what of UTF-16 is no ASCII
    keys, depth = _outermost(_object(text[:HEAD]))
    given = keys.get("id", [])
    if "id" not in keys and (at_end := _AT_END.search(text[-TAIL:])) is not None:
        given = [at_end[1]]
    answer = bool(keys.keys() & {"result", "error"}) or ("jsonrpc" in keys and "method" not in keys)
    answer = answer or (not keys and bool(given))  # the rest of one
    cut = len(text) <= HEAD and depth > 0
    found = next((one for one in map(_id, given) if one is not None), None) if answer else None
    return Line(answers=found, answer=answer, cut=cut, form="" if "method" in keys else _form(text, keys))


def _form(text: str, keys: Iterable[str]) -> str:
    """Return what JSON a line is or begins as; a list may as well be the level of a line of a log."""
    if text.startswith("{"):
        if OF_LOGS & {key.lower() for key in keys}:
            return ""
        return f"{{{next(iter(keys), '')[:FORM]}"
    with suppress(ValueError):
        if isinstance(from_json(text), list | str):
            return text[0]
    return TEXT if text.strip() else ""


def _object(text: str) -> str:
    """Return a line from where its object begins: of several in a list the first, or what follows a prefix of a log.

    An object that was printed as Python prints it has its quotes as JSON has them.
    """
    text = text.replace("'", '"') if "{'jsonrpc'" in text else text
    begins = text.find("{") if '"jsonrpc"' in text else -1
    return text[begins:] if begins >= 0 else text.lstrip(" \t[")


def _outermost(text: str) -> tuple[dict[str, list[str]], int]:
    """Return the first tokens of the value of each outermost key of an object, and how many brackets stay open."""
    keys: dict[str, list[str]] = {}
    depth, before, key = 0, "", ""
    if not text.startswith("{"):
        return keys, depth
    for token in _TOKEN.findall(text):
        if token in "}]":
            depth -= 1
        if depth == 1 and token == ":" and before.startswith('"'):
            keys.setdefault(key := before.strip('"'), [])
        elif depth == 1 and token == ",":
            key = ""
        elif key and keys[key] in ([], ["["]):  # a value, or the first in a list
            keys[key].append(token)
        if token in "{[":
            depth += 1
        before = token
    return keys, depth


def _id(token: str) -> RequestId | None:
    """Return the id that a token is, if it can be one: other programs write numbers in other ways."""
    with suppress(ValueError, OverflowError):
        value: Any = json.loads(token) if len(token) <= DIGITS or token.startswith('"') else None
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, int | str) and not isinstance(value, bool):
            return value
    return None
