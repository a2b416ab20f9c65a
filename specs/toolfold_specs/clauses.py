"""The clauses of the specification as values; ``clauses.toml`` beside this file holds the data.

The normative content is frozen in each revision: ``revisions.toml`` has its digest, so a change of a text, a level or
an id needs a new revision, and reports that name the same revision are comparable.
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal

from attrs import field, frozen
from attrs.validators import deep_iterable, in_, instance_of, matches_re, min_len

Level = Literal["MUST", "SHOULD", "MAY"]

PROFILES: Mapping[str, str] = MappingProxyType(
    {
        "state": "transitions, invariants, listing and calling",
        "hooks": "hooks, and the outcome of a transition when one fails",
        "sessions": "the isolation of sessions, and their persistence",
        "delivery": "what MCP carries in each era, and notifications",
        "mcp": "what MCP itself requires of any server",
        "style": "names, order, wording and annotations: advice",
    }
)
"""The levels of conformance that an implementation can aim at; of "mcp" are also clauses that belong to others."""

AIMED_AT = ("state",)
"""The levels that a verdict is about by default."""

RESTED_ON: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "steps": ("ACT-1", "ACT-2", "ACT-3", "ACT-4", "ACT-5", "ACT-6", "ACT-7", "ACT-8", "INV-1", "INV-2"),
        "lists": ("NAM-2", "VIS-2", "VIS-6", "CTL-1", "CTL-2"),
    }
)
"""The clauses about a transition of one group, and about what is listed, which many others rest on."""

SUMMARY_LENGTH = 100  # characters


def _normalised(text: str) -> str:
    return " ".join(text.split())


def _strings(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(values)


def _resting(names: Iterable[str]) -> frozenset[str]:
    return frozenset(clause for name in names for clause in RESTED_ON.get(name, (name,)))


@frozen
class Clause:
    """One clause of the specification.

    If the kit checks it, `layers` names the layers that do, and `profile` the level of conformance that it belongs to.
    `mcp` is what the text of MCP says of it, if a violation of it is one of MCP. A case of it relies on the clauses in
    `rests_on`: where it shows one of these violated, it may say nothing new. Without the member `core`, no other member
    of an answer is evidence for it.
    """

    id: str = field(validator=matches_re(r"[A-Z]+-[0-9]+"))
    section: str = field(validator=min_len(1))
    level: Level = field(validator=in_(("MUST", "SHOULD", "MAY")))
    text: str = field(converter=_normalised, validator=min_len(1))
    sources: tuple[str, ...] = field(default=(), converter=_strings, validator=deep_iterable(in_(tuple("ABCDEMT"))))
    layers: tuple[str, ...] = field(default=(), converter=_strings)
    profile: str = field(default="", validator=in_(("", *PROFILES)))
    mcp: str = field(default="", converter=_normalised)
    rests_on: frozenset[str] = field(default=frozenset[str](), converter=_resting)
    core: str = ""
    open: bool = field(default=False, validator=instance_of(bool))

    def is_of(self, profile: str) -> bool:
        """Return whether it belongs to a level of conformance."""
        return profile == self.profile or (profile == "mcp" and bool(self.mcp))

    def is_aimed_at(self, profiles: Iterable[str]) -> bool:
        """Return whether a verdict about these profiles is about it."""
        return not self.profile or any(map(self.is_of, profiles))

    @property
    def demanded_by(self) -> str:
        """Who demands it, in a sentence."""
        return f"MCP demands it. {self.mcp}" if self.mcp else "This specification alone demands it, and not MCP."

    @property
    def summary(self) -> str:
        """The first sentence of the text, shortened at a word to ``SUMMARY_LENGTH``."""
        sentence = re.split(r"(?<=\.) ", self.text, maxsplit=1)[0]
        if len(sentence) <= SUMMARY_LENGTH:
            return sentence
        cut = sentence[:SUMMARY_LENGTH].rpartition(" ")[0]
        if cut.count("`") % 2:  # never cut inside code
            cut = cut.rpartition("`")[0]
        return f"{cut.rstrip(' ,;(')} …"


def aimed_at(names: Iterable[str]) -> tuple[str, ...]:
    """Return the profiles with these names, in their order; "all" is every one that is not advice.

    Raises:
        ValueError: There is no such profile.
    """
    chosen = set(names)
    if unknown := sorted(chosen - {*PROFILES, "all"}):
        raise ValueError(f"there is no profile {unknown[0]!r}; there are {', '.join(PROFILES)}, all")
    if "all" in chosen:
        chosen |= PROFILES.keys() - {"style"}
    return tuple(name for name in PROFILES if name in chosen)


def parse_clauses(text: str) -> tuple[Clause, ...]:
    """Return the clauses of a TOML text, in its order.

    Raises:
        ValueError: a clause is malformed or its id occurs twice; the message names it.
    """
    return _clauses(tomllib.loads(text))


def _clauses(data: Mapping[str, Any]) -> tuple[Clause, ...]:
    clauses: dict[str, Clause] = {}
    for position, entry in enumerate(data["clause"], 1):
        clause = _clause(entry, position)
        if clause.id in clauses:
            raise ValueError(f"clause {clause.id} occurs twice: give the second one another id")
        clauses[clause.id] = clause
    return tuple(clauses.values())


@cache
def load_clauses() -> tuple[Clause, ...]:
    """Return every clause of the specification, in its order."""
    return _clauses(_data("clauses.toml"))


@cache
def find_clause(name: str) -> Clause:
    """Return the clause with an id."""
    return next(clause for clause in load_clauses() if clause.id == name)


def load_revision() -> str:
    """Return the name of the specification's revision."""
    return str(_data("clauses.toml")["revision"])


def load_digests() -> dict[str, str]:
    """Return the digest of each revision's normative content."""
    return {str(revision): str(digest) for revision, digest in _data("revisions.toml").items()}


def digest(clauses: Iterable[Clause]) -> str:
    """Return the digest of the normative content: ids, levels and texts, in order."""
    content = [[clause.id, clause.level, clause.text] for clause in clauses]
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()


@cache
def _data(name: str) -> Mapping[str, Any]:
    return tomllib.loads(files("toolfold_specs").joinpath(name).read_text(encoding="utf-8"))


def _clause(entry: dict[str, Any], position: int) -> Clause:
    try:
        return Clause(**entry)
    except (TypeError, ValueError) as error:
        raise ValueError(f"clause {entry.get('id', f'number {position}')} is malformed: {error.args[0]}") from error
