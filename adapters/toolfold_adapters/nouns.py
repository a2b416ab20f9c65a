"""Groups of tools from the nouns in their names and descriptions, for servers that have none of their own (SPEC GWY-2).

Tags that the server gives its tools come first. Else nouns say where a tool belongs, and verbs do not: `create_issue`,
`issueList` and `issues-close` are of `issue`. A tool goes to the noun that most tools of the server share with it. A
group over the budget is divided again by the nouns that are left, then in runs that are named by the words of their
tools; one that is too small joins another. All of it is a function of names, descriptions, tags and sizes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set

from attrs import evolve, field, frozen

from .names import numbered

MIN_TOOLS = 3
SMALL = 8
"""A group of less than this part of the budget joins another: each costs a line in the list of groups."""
OTHER = "other"
BALANCING_STEPS = 8
MAX_NAME = 28
LONGEST_NAME = 60
WORDS = 3
"""How many words of its tools name a group that no noun does, or that shares its nouns with another."""

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


@frozen(kw_only=True)
class Sized:
    """A tool as far as grouping goes: its name, description and tags, and the approximate tokens of its definition."""

    name: str
    description: str = ""
    tags: Sequence[str] = ()
    tokens: int = 0


@frozen(kw_only=True)
class _Class:
    """Tools that go together, and the nouns that they are named by, the most important first; the rest has none."""

    nouns: tuple[str, ...] = ()
    tools: tuple[Sized, ...]
    tokens: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "tokens", sum(tool.tokens for tool in self.tools))

    @property
    def is_small(self) -> bool:
        return len(self.tools) < MIN_TOOLS


def divide(tools: Sequence[Sized], budget: int) -> dict[str, tuple[str, ...]]:
    """Return groups that have every tool once: a segment to names of tools, both in a settled order.

    No group has more tokens than the budget unless it is a single tool, and none has fewer than three tools unless no
    other one has room for them.

    Args:
        tools: Tools with different names.
        budget: The most tokens of a group.
    """
    nouns = _telling({tool.name: nouns_of(tool.name) for tool in tools})
    tags = _telling({tool.name: tuple(filter(None, map(_tag, tool.tags))) for tool in tools if tool.tags})
    tagged, rest = _by_noun([tool for tool in tools if tags.get(tool.name)], tags)
    rest = (*rest, *(tool for tool in tools if not tags.get(tool.name)))
    classes = [one for tag, own in tagged.items() for one in _within((tag,), own, nouns, budget)]
    classes = _settled([*classes, *_divided((), rest, nouns, budget)], budget)
    return _named(classes, nouns, {tool.name: position for position, tool in enumerate(tools)})


def _named(
    classes: Sequence[_Class], nouns: Mapping[str, Sequence[str]], order: Mapping[str, int]
) -> dict[str, tuple[str, ...]]:
    """Return classes by names: of their nouns, and of words of their tools where these are not theirs alone."""
    words = _telling({tool.name: words_of(tool.name) for one in classes for tool in one.tools})
    groups: dict[str, tuple[str, ...]] = {}
    for one in sorted(classes, key=lambda one: (not one.nouns, one.nouns)):
        alike = [other for other in classes if other is not one and other.nouns == one.nouns]
        further = [
            [word for word in nouns[tool.name] if word not in one.nouns] or words[tool.name] for tool in one.tools
        ]
        elsewhere = {word for other in alike for tool in other.tools for word in words[tool.name]}
        name = (*one.nouns, *(_further(further, {*one.nouns}, elsewhere) if alike or not one.nouns else ()))
        members = sorted((tool.name for tool in one.tools), key=order.__getitem__)
        groups[_free(name, min(len(name), len(one.nouns) + WORDS), groups)] = tuple(members)
    return dict(sorted(groups.items()))


def _tag(given: str) -> str:
    """Return a tag as part of a name: in lower case and the singular, as nouns are."""
    return "_".join(words_of(given))


def _telling(words: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the words of each tool without those that all have, which distinguish nothing."""
    counts = Counter(word for own in words.values() for word in set(own))
    return {name: tuple(word for word in own if counts[word] < len(words)) for name, own in words.items()}


def _within(
    path: tuple[str, ...], tools: tuple[Sized, ...], nouns: Mapping[str, Sequence[str]], budget: int
) -> list[_Class]:
    """Return tools that go by the words `path`, in one class if that is within the budget."""
    whole = _Class(nouns=path, tools=tools)
    return [whole] if whole.tokens <= budget else _divided(path, tools, nouns, budget)


def _divided(
    path: tuple[str, ...], tools: tuple[Sized, ...], nouns: Mapping[str, Sequence[str]], budget: int
) -> list[_Class]:
    """Return classes of tools, all of which have the nouns `path`, that are within the budget where nouns suffice."""
    members, rest = _by_noun(tools, {name: [noun for noun in own if noun not in path] for name, own in nouns.items()})
    classes = [
        one
        for noun, own in members.items()
        for one in _within((*path, *_common(noun, own, nouns, path)), own, nouns, budget)
    ]
    return [*classes, *_runs(path, sorted(rest, key=lambda tool: tuple(nouns[tool.name])), budget)]


def _common(
    noun: str, tools: Sequence[Sized], nouns: Mapping[str, Sequence[str]], path: Sequence[str]
) -> tuple[str, ...]:
    """Return the nouns that all these tools have, `noun` among them, as they stand in a name: `pull` and `request`."""
    named = [nouns[tool.name] for tool in tools if noun in nouns[tool.name]] or [(noun,)]
    return tuple(word for word in named[0] if word not in path and all(word in own for own in named))


def _by_noun(
    tools: Sequence[Sized], nouns: Mapping[str, Sequence[str]]
) -> tuple[dict[str, tuple[Sized, ...]], tuple[Sized, ...]]:
    """Return the tools of each noun that at least three tools go to, and those that go to none."""
    counts = Counter(noun for tool in tools for noun in set(nouns[tool.name]))
    wishes = {tool.name: _wishes(tool, nouns[tool.name], counts) for tool in tools}
    retained = {noun for noun, count in counts.items() if count >= MIN_TOOLS}
    while True:
        homes = {name: next((noun for noun in own if noun in retained), None) for name, own in wishes.items()}
        sizes = Counter(home for home in homes.values() if home is not None)
        small = {noun for noun in retained if sizes[noun] < MIN_TOOLS}
        if not small:
            break
        retained -= {min(small, key=lambda noun: (sizes[noun], counts[noun], noun))}
    members = {noun: tuple(tool for tool in tools if homes[tool.name] == noun) for noun in sorted(retained)}
    return members, tuple(tool for tool in tools if homes[tool.name] is None)


def _wishes(tool: Sized, own: Sequence[str], counts: Mapping[str, int]) -> Sequence[str]:
    """Return the nouns that a tool would go to: its name's, those first that most share, else its description's."""
    return sorted(own, key=lambda noun: -counts[noun]) if own else words_of(tool.description)


def _runs(path: tuple[str, ...], tools: Sequence[Sized], budget: int) -> list[_Class]:
    """Return classes of tools that nouns don't divide, in their order: as few as the budget allows, of like sizes."""
    fewest = len(_cut(tools, budget))
    least = min(sum(tool.tokens for tool in tools) // max(fewest, 1), budget)
    limits = (least + (budget - least) * step // BALANCING_STEPS for step in range(BALANCING_STEPS))
    chunks = next((cut for limit in limits if len(cut := _cut(tools, limit)) == fewest), _cut(tools, budget))
    return [_Class(nouns=path, tools=chunk) for chunk in chunks]


def _cut(tools: Sequence[Sized], limit: int) -> list[tuple[Sized, ...]]:
    """Return tools in runs that have no more than so many tokens, unless they are one tool."""
    chunks: list[tuple[Sized, ...]] = []
    size = 0
    for tool in tools:
        if not chunks or size + tool.tokens > limit:
            chunks.append(())
            size = 0
        chunks[-1] = (*chunks[-1], tool)
        size += tool.tokens
    return chunks


def _settled(classes: Sequence[_Class], budget: int) -> list[_Class]:
    """Return the classes after those that are too small have joined others, as far as the budget allows."""
    settled = list(classes)
    stuck: list[_Class] = []
    while True:
        small = [one for one in settled if one not in stuck and (one.is_small or one.tokens * SMALL < budget)]
        if not small:
            return settled
        joining = min(small, key=lambda one: (not one.is_small, one.tokens, one.nouns))
        hosts = [one for one in settled if one is not joining and one.tokens + joining.tokens <= budget]
        if not joining.is_small:  # it is small alone in tokens: it joins what is small too, and spoils no good group
            hosts = [one for one in hosts if one in small and one.nouns]
        if not hosts:
            stuck.append(joining)
            continue
        host = max(hosts, key=lambda one: (_shared(one.nouns, joining.nouns), not one.nouns, -one.tokens, one.nouns))
        settled = [one for one in settled if one is not joining and one is not host]
        settled.append(_joined(host, joining))


def _joined(host: _Class, joining: _Class) -> _Class:
    """Return one class of two; what they share comes first in its name, and a rest gives none to it."""
    if joining.is_small or not (host.nouns and joining.nouns):
        nouns = host.nouns if joining.is_small else ()
    else:
        first, second = sorted((host.nouns, joining.nouns))
        nouns = first + second[_shared(first, second) :]
    return evolve(host, nouns=nouns, tools=(*host.tools, *joining.tools))


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _further(words: Sequence[Sequence[str]], named: Set[str], elsewhere: Set[str]) -> list[str]:
    """Return the words of tools that are not `named`: those first that are not elsewhere, and that most tools have."""
    counts = Counter(word for own in words for word in own if word not in named)
    return sorted(counts, key=lambda word: (word in elsewhere, -counts[word]))


def _free(words: Sequence[str], count: int, used: Mapping[str, object]) -> str:
    """Return a name of so many words that is not used, else of more words; of a number if there are no more."""
    for number, limit in [(count, MAX_NAME), *((more, LONGEST_NAME) for more in range(count, len(words) + 1))]:
        if (name := _segment(words[:number], limit)) not in used:
            return name
    return numbered(_segment(words[:count], MAX_NAME), used)


def _segment(words: Sequence[str], limit: int) -> str:
    """Return the name of a group of these words, without the last ones if that is too long."""
    name = OTHER
    for position, word in enumerate(words):
        longer = f"{name}_{word}" if position else word
        if position and len(longer) > limit:
            break
        name = longer[:limit]
    return name


# -- words -----------------------------------------------------------------------------------------------------------


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
