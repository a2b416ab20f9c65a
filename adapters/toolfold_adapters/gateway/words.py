"""The words of names and descriptions: which are nouns that say what a tool is about (SPEC GWY-2)."""

from __future__ import annotations

import re

_BREAK = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_VERBS = """
    abort accept accepts activate add analyze append apply approve archive assign attach authenticate authorize
    begin block bulk calculate call cancel capture change check clear click clone close compare complete compute
    configure confirm connect convert copy count create deactivate decline decode decrease delete deploy
    describe destroy detach detect disable disconnect dismiss do download drag drop edit emulate enable encode
    end enqueue ensure estimate evaluate exec execute expand export extract fetch fill find finish follow force
    forward generate get give grep handle has hide hover import increase index init initialize insert inspect
    install invite invoke is join kill launch leave link list load lock login logout lookup make manage mark
    merge modify move mute navigate open parse patch pause perform pin ping poll post prepare press preview
    process promote publish pull push put query read rebase receive record reduce refresh register reject
    release reload remove rename render reopen reorder replace reply reschedule reset resize resolve respond
    restart restore resume retrieve retry revert revoke rotate run save scale scan schedule scrape scroll search
    select send set share show shutdown sign simulate sleep snooze sort split start stop store submit subscribe
    suggest summarize switch sync tag take test toggle top track transfer transform translate trigger type
    unarchive unassign unblock undo uninstall unlink unlock unmute unpin unregister unsubscribe update upgrade
    upload upsert use validate verify view visit wait watch write
"""
_NOUN_LATER = """
    block call comment export import index link lock merge pin post preview process pull query record release
    reply run schedule scan search share store tag test track transfer trigger type view watch
"""
_EMPTY = """
    a about against all an and any are as at be by can detail details each for from given i id ids if in info
    information into its it me multiple my name names new no not of on or other our out over own per result
    results return returns single specific that the their them then this to tool tools under up user's using
    value values via when where which with within without you your api mcp server or
"""

VERBS = frozenset(_VERBS.split())
NOUNS_LATER = frozenset(_NOUN_LATER.split())
"""Verbs where a name begins with them and has no other, as `release_lock`, and nouns elsewhere: `list_releases`."""
EMPTY = frozenset(_EMPTY.split())
"""Words that say nothing on what a tool is about."""


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a name or a text, in lower case and the singular."""
    return tuple(_singular(word.lower()) for word in _BREAK.split(text) if word)


def nouns_of(name: str) -> tuple[str, ...]:
    """Return the words of a name that are nouns, for all that a list of verbs can say; each once."""
    words = words_of(name)
    nouns = [word for word in words if word not in EMPTY and not word.isdigit() and word not in VERBS - NOUNS_LATER]
    if nouns and nouns[0] == words[0] and nouns[0] in NOUNS_LATER and len(nouns) == len(words):
        del nouns[0]  # the only word that can be the verb
    return tuple(dict.fromkeys(nouns))


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word
