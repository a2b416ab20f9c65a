"""Where clients name servers and tools beside their entries: what is switched off, and rules that name what moved.

Behind Toolfold tools have other names, so that a rule about `mcp__github__search` is about nothing any more. It is
said, and not rewritten: what users allow is theirs to say.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from attrs import frozen

from toolfold import ConfigError
from toolfold.spi import array, table
from toolfold_adapters.files import read_table
from toolfold_adapters.hosts import located

from .client_files import ClientFile


@frozen
class Rule:
    """A text that names a server or a tool: the file, the keys that lead to it, and the text."""

    file: Path
    keys: str
    text: str


def rules_of(file: ClientFile) -> tuple[Rule, ...]:
    """Return the rules that hold where the servers of a client's file are in force; what can't be read has none."""
    found: list[Rule] = []
    places: Mapping[str, tuple[str, ...]] = file.host.rules if file.host else {}
    for place, keys in places.items():
        path, _ = located(place, Path.home(), file.folder or Path.cwd(), os.environ)
        with suppress(ConfigError, OSError):
            data = read_table(path) if path.is_file() else {}
            found += [Rule(path, at, text) for one in keys for at, text in _texts(data, one.split("."))]
    return tuple(found)


def switched_off(file: ClientFile, rules: Sequence[Rule]) -> Mapping[str, Path]:
    """Return the names of servers that are switched off beside their entries, with the file that says so."""
    off = file.host.off if file.host else ()
    return {rule.text: rule.file for rule in rules if rule.keys.rpartition(".")[2] in off}


def dangling(rules: Sequence[Rule], names: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each place with rules about servers that have moved, or their tools."""
    known = "|".join(re.escape(one) for name in names for one in {name, re.sub(r"[^A-Za-z0-9_-]", "_", name)})
    about = re.compile(rf"(?:^|__|[^\w-])(?:{known})(?:$|_|[^\w-])")
    places: dict[tuple[Path, str], list[str]] = {}
    for rule in rules if names else ():
        if about.search(rule.text):
            places.setdefault((rule.file, rule.keys), []).append(rule.text)
    for (file, keys), texts in places.items():
        yield f"{file}, {keys}: {', '.join(texts)}: tools have other names behind Toolfold. Set it anew."


def _texts(data: object, keys: Sequence[str], at: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts at the end of some keys and below, keys of tables too, each with the keys that lead to it."""
    if keys:
        inside = table(data) or {}
        for key in inside if keys[0] == "*" else [keys[0]]:
            if key in inside:
                yield from _texts(inside[key], keys[1:], f"{at}.{key}" if at else key)
    elif isinstance(data, str):
        yield at, data
    elif (entries := table(data)) is not None:
        for key, value in cast("Mapping[str, Any]", entries).items():
            yield at, key
            yield from _texts(value, (), at)
    else:
        for item in array(data) or ():
            yield from _texts(item, (), at)
