"""What a query asks for and what a tool does: to read, create, change, remove, send or run (SPEC FND-6).

Both are told by their verbs; of a tool its annotations count first. A word that is not in the table tells nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from .._plain import table

READ = "read"

_ROWS = (
    (
        READ,
        """
        get browse describe display enumerate explain fetch find list look lookup query read retrieve return search see
        show tell view
        """,
    ),
    (READ, "check calculate compare count inspect measure monitor scan summarise summarize watch locate"),
    (
        "create",
        "create add build clone compose copy draft duplicate fork generate insert make new register upload write",
    ),
    (
        "change",
        """
        change adjust assign close configure convert correct disable edit enable fill fix label lock mark merge modify
        move patch pause put reassign rename reopen replace reschedule resize restore revise rewrite scale set tag
        toggle transition unlock update upsert
        """,
    ),
    ("remove", "remove archive cancel clear delete destroy discard drop erase purge reset revoke uninstall unset wipe"),
    ("send", "send answer email forward notify pay post publish push reply share submit transfer"),
    (
        "run",
        """
        run apply approve click commit deploy drag execute install invoke launch play press reboot restart rollback
        start stop trigger type
        """,
    ),
)
"""What is asked for or done, and its verbs: those of a row count as one, but for the second of reading."""

_INTENT_OF: Mapping[str, str] = {verb: intent for intent, verbs in _ROWS for verb in verbs.split()}
_ALIKE: Mapping[str, str] = {
    verb: intent for number, (intent, verbs) in enumerate(_ROWS) if number != 1 for verb in verbs.split()
}

_QUESTIONS_TEXT = "are any did does had has have is many much was were what when where which who whose why will"
_QUESTIONS = frozenset(_QUESTIONS_TEXT.split())
"""What a question begins with: it asks to read."""

_FILLERS_TEXT = """
    a all an can could do each every for from help her his how i in it its let like me my need of on one our please
    should some that the their them these this those to try us want we with would you your
"""
FILLERS = frozenset(_FILLERS_TEXT.split())
"""Words that say nothing of what is wanted, nor of what it is done to."""

_JOINING = frozenset({"and", "or", "then", "to"})
KEYWORDS = 5
"""Up to how many words a query is taken for keywords, in which the verb can come anywhere."""

_REFUSED = re.compile(r"\b(?:do(?:es)? not|don['’]?t|not|never|without)\s[^,;.!?]*", re.IGNORECASE)
"""What a query says that it does not want."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W_A-Za-z0-9]+")
_PARTS = re.compile(r"[,;.!?]\s")
_FIRST = re.compile(r"[A-Za-z]+")


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a name or query in small letters: `createIssue` is `create` and `issue`."""
    return tuple(word.casefold() for word in _WORD.findall(text))


def asked_by(query: str) -> frozenset[str | None]:
    """Return what a query asks for, which is not what it refuses; `None` is among it if a part doesn't say."""
    parts = [words for part in _PARTS.split(_REFUSED.sub("", query)) if (words := words_of(part))]
    return frozenset[str | None]().union(*map(_asked, parts))


def _asked(words: Sequence[str]) -> frozenset[str | None]:
    telling = [word for word in words if word not in FILLERS]
    first = (READ if telling[0] in _QUESTIONS else intent_of(telling[0])) if telling else None
    if first is None and len(telling) <= KEYWORDS:
        first = next((_INTENT_OF[word] for word in telling if word in _INTENT_OF), None)
    joined = {_INTENT_OF[word] for before, word in pairwise(words) if before in _JOINING and word in _INTENT_OF}
    return frozenset({first, *joined} if first or not joined else joined)


def done_by(words: Sequence[str], definition: Mapping[str, Any]) -> str | None:
    """Return what a tool does, by the words of its name, its annotations and description; `None` if they don't say.

    One that is not annotated as only reading does not read, whatever its name says.
    """
    hints = table(definition.get("annotations")) or {}
    if hints.get("readOnlyHint") is True:
        return READ
    intent = _named(words) or _described(str(definition.get("description", "")))
    writes = hints.get("readOnlyHint") is False or hints.get("destructiveHint") is True
    return "change" if writes and intent in (READ, None) else intent


def _named(words: Sequence[str]) -> str | None:
    """Return what a name says, whose verb is its first word, or its last, or the first that there is."""
    found = [_INTENT_OF[word] for word in words if word in _INTENT_OF]
    if not found or words[0] in _INTENT_OF:
        joined = _JOINING.isdisjoint(words)
        return next((one for one in found if joined or one != READ), found[0]) if found else None
    return _INTENT_OF.get(words[-1], found[0])


def _described(text: str) -> str | None:
    first = _FIRST.match(text)
    return intent_of(first[0].casefold()) if first else None


def intent_of(word: str) -> str | None:
    """Return what a verb in any of its forms says: `lists`, `listing` and `listed` are `list`."""
    return next((_INTENT_OF[form] for form in _forms(word) if form in _INTENT_OF), None)


def meaning_of(word: str) -> str:
    """Return the same for all verbs of one meaning, in any of their forms, and other words as they are."""
    return next((f"={_ALIKE[form]}" for form in _forms(word) if form in _ALIKE), word)


def _forms(word: str) -> Iterator[str]:
    yield word
    for ending in ("s", "es", "d", "ed", "ing"):
        if word.endswith(ending):
            stem = word[: -len(ending)]
            yield stem
            yield f"{stem}e"
            if stem[-2:-1] == stem[-1:]:
                yield stem[:-1]
