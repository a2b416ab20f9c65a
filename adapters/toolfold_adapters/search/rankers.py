"""Rankers for `ToolSet(search=…)`: BM25 in SQLite, sentence embeddings, and several of them fused (SPEC FND-2).

    tools = ToolSet("desk", search=bm25)
    tools = ToolSet("desk", search=fused(bm25, embeddings("sentence-transformers/all-MiniLM-L6-v2")))

An index is made once for the tools that a session may find, on the first search, and held in memory. Any number of
threads may use it. A query is words and nothing else: no character in it has a meaning of its own.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from math import log1p, sqrt
from operator import mul
from pathlib import Path
from threading import Lock, Thread
from typing import TypeAlias
from weakref import finalize

from toolfold import Ranked, Ranker, Ranking, SearchDocument

from .sentences import Encoder, encoder_of

log = logging.getLogger("toolfold")

Vector: TypeAlias = "array[float]"
"""Of length 1."""

MAX_TERMS = 64
"""How many different words of a query are looked for."""

MAX_VECTORS = 20_000
"""How many vectors of tools are stored for later indexes, in memory or in a folder, each of some 1.5 kB."""

FUSION_DEPTH = 100
"""How far down a ranking counts when several are fused."""

PROSE = 200
"""How many characters of a tool an embedding model is given: more of them take longer, and find no more."""

FUSION_CONSTANT = 20
"""The constant of reciprocal rank fusion: the larger it is, the less the first places count for. 60 is common for long
rankings; of tools only the first few are returned."""

DOUBT = 0.4
"""Which share of a query, where rare words count for more, the first has at least: or else none fits for certain. No
share tells all queries with a tool from those without: `docs/how-to/search.md` has the curve."""

AHEAD = 0.2
"""What part of its score the first by words is ahead of the second where it is clearly the best."""

USUAL_COUNT = 100
"""Words are taken to be as rare as among so many tools, if there are fewer."""

_MATCHING = "FROM tools WHERE tools MATCH ?"
_WORDS, _MEANING = "words", "meaning"
BOTH = f"{_WORDS} and {_MEANING}"
"""What tools are ranked by, as an answer says it."""

_WEIGHTS = {"names": 2.0, "description": 1.0, "parameters": 1.0, "groups": 0.5}
"""How much a word in each column counts for; `tests.benchmarks.search.recall` shows what a change of them does."""

_COMMON_TEXT = """
a about an and any are as at be by can could did do does for from get give has have how i if in into is it its me my
need of on or please so some that the their them then there these this to up use using want was we what when which will
with would you your
"""
_COMMON = frozenset(_COMMON_TEXT.split())
"""Words that say little of what a tool does. Among few tools they can be so rare that they would count too much."""

_WORD = re.compile(r"[^\W_]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Letters of scripts that put no spaces between words, or endings to them: each is a word of its own."""


def bm25(documents: Sequence[SearchDocument]) -> Ranking:
    """Return the BM25 index of some tools: names split at case and separators, words stemmed.

    It is a table of SQLite's FTS5 in memory, with the Porter stemmer.

    SPEC FND-2.
    """
    return Index(documents).ranked


def fused(*rankers: Ranker) -> Ranker:
    """Return a ranker that fuses several by reciprocal rank: what more of them rank higher comes first.

    One that doubts its first has no say where another does not.

    SPEC FND-2.
    """

    def ranker(documents: Sequence[SearchDocument]) -> Ranking:
        rankings = [make(documents) for make in rankers]

        def ranked(query: str) -> Ranked:
            scores: dict[str, float] = {}
            answers = [ranking(query) for ranking in rankings]
            sure = [answer for answer in answers if not (isinstance(answer, Ranked) and answer.doubtful)]
            for answer in sure or answers:
                for place, name in enumerate(islice(answer, FUSION_DEPTH), 1):
                    scores[name] = scores.get(name, 0.0) + 1 / (FUSION_CONSTANT + place)
            ways = [answer.by if isinstance(answer, Ranked) else "" for answer in answers]
            names = sorted(scores, key=lambda name: (-scores[name], name))
            return Ranked(tuple(names), " and ".join(dict.fromkeys(ways)) if all(ways) else "")

        return ranked

    return ranker


def embeddings(model: str | Path | Encoder) -> Ranker:
    """Return a ranker by the similarity of meaning, as an embedding model sees it.

    A text is encoded once, however many indexes there are: one tool more takes one vector more.

    SPEC FND-2.

    Args:
        model: The folder of a sentence model in ONNX form, its name on the Hugging Face Hub, or a function that encodes
            texts, such as `SentenceTransformer(name).encode`. Any must give equal vectors for equal texts.

    Raises:
        MissingExtra: A model is given by folder or name, and what the extra `embeddings` installs is missing.
        ConfigError: The model is not in ONNX form.
    """
    encode = model if callable(model) else encoder_of(model)
    known: dict[str, Vector] = {}

    def ranker(documents: Sequence[SearchDocument]) -> Ranking:
        names = [document.name for document in documents]
        texts = [_prose(document) for document in documents]
        found = {text: known[text] for text in texts if text in known}
        if new := [text for text in dict.fromkeys(texts) if text not in found]:
            found |= zip(new, normalised(encode(new)), strict=True)
            if len(known) + len(new) > MAX_VECTORS:
                known.clear()
            known.update(found)
        vectors = [found[text] for text in texts]

        def ranked(query: str) -> Ranked:
            if not query.strip():
                return Ranked((), _MEANING)
            (asked,) = normalised(encode([query]))
            scores = {name: sum(map(mul, asked, vector)) for name, vector in zip(names, vectors, strict=True)}
            return Ranked(tuple(sorted(names, key=lambda name: (-scores[name], name))), _MEANING)

        return ranked

    return ranker


def in_background(ranker: Ranker, until: Ranker) -> Ranker:
    """Return a ranker whose indexes are made in a thread, one at a time; `until` then, or if that fails, others rank.

    Equal queries are answered alike from then on (SPEC FND-2).
    """
    one_at_a_time = Lock()

    def make(documents: Sequence[SearchDocument]) -> Ranking:
        ranking = [until(documents)]

        def work() -> None:
            try:
                with one_at_a_time:
                    ranking.append(ranker(documents))
            except Exception:
                log.exception("An index of %d tools could not be made; they are searched without it.", len(documents))

        Thread(target=work, name="toolfold-index", daemon=True).start()
        return lambda query: ranking[-1](query)

    return make


class Index:
    """The words of tools: a table of FTS5 with a row for each tool."""

    def __init__(self, documents: Sequence[SearchDocument]) -> None:
        self._lock = Lock()
        import sqlite3  # in memory once something is searched for

        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        finalize(self, self._connection.close)
        columns = ", ".join(_WEIGHTS)
        self._connection.execute(
            f"CREATE VIRTUAL TABLE tools USING fts5 (name UNINDEXED, {columns}, tokenize = 'porter unicode61')"
        )
        rows = [(document.name, *map(_indexed, _columns(document))) for document in documents]
        self._connection.executemany("INSERT INTO tools VALUES (?, ?, ?, ?, ?)", rows)
        self._count = max(len(rows), USUAL_COUNT)
        weights = ", ".join(map(str, (0.0, *_WEIGHTS.values())))
        rank = f"bm25(tools, {weights})"
        self._select = f"SELECT name, -{rank} FROM tools WHERE tools MATCH ? ORDER BY {rank}, name"

    def ranked(self, query: str) -> Ranked:
        """Return the names of the tools that have a word of a query, the best first.

        Those that have only its common words come last. The first is clearly the best if it has all telling words, and
        a score well above that of the second.
        """
        terms, telling = self._terms(query)
        found = self._with(telling) or self._with(terms)
        names = tuple(name for name, _ in found)
        share = self.share(query, names[0]) if names else 0.0
        clear = _is_ahead([score for _, score in found[:2]]) and names[0] in dict(self._with(telling, every=True))
        if found and telling != terms:
            names = tuple(dict.fromkeys([*names, *(name for name, _ in self._with(terms))]))
        return Ranked(names, _WORDS, clear, bool(names) and share < DOUBT)

    def share(self, query: str, name: str) -> float:
        """Return what share of a query the texts of a tool have: each word counts for more, the fewer tools have it."""
        terms, telling = self._terms(query)
        total = had = 0.0
        with self._lock:
            (row,) = self._connection.execute("SELECT rowid FROM tools WHERE name = ?", (name,)).fetchone()
            for term in telling or terms:
                (count,) = self._connection.execute(f"SELECT count(*) {_MATCHING}", (f'"{term}"',)).fetchone()
                found = self._connection.execute(f"SELECT 1 {_MATCHING} AND rowid = ?", (f'"{term}"', row)).fetchone()
                weight = log1p((self._count - count + 0.5) / (count + 0.5))
                total += weight
                had += weight if found else 0.0
        return had / total if total else 0.0

    def scored(self, query: str) -> dict[str, float]:
        """Return the tools that have a telling word of a query, each with its score: the more, the better."""
        terms, telling = self._terms(query)
        return dict(self._with(telling or terms))

    def _terms(self, query: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        terms = tuple(dict.fromkeys(islice(words_in(query), MAX_TERMS)))
        return terms, tuple(term for term in terms if term not in _COMMON)

    def _with(self, terms: Sequence[str], *, every: bool = False) -> list[tuple[str, float]]:
        """Return the names and scores of the tools that have one of some words, or all, the best first."""
        if not terms:
            return []
        match = (" AND " if every else " OR ").join(f'"{term}"' for term in terms)
        with self._lock:
            return [(name, score) for name, score in self._connection.execute(self._select, (match,))]


def _is_ahead(scores: Sequence[float]) -> bool:
    """Return whether the first of some scores is well above the second, if there is one."""
    return bool(scores) and (len(scores) == 1 or scores[1] <= (1 - AHEAD) * scores[0])


def _columns(document: SearchDocument) -> tuple[str, str, str, str]:
    names = f"{document.name.rpartition('.')[2]} {document.title}"
    return names, document.description, document.parameters, document.groups


def _indexed(text: str) -> str:
    return " ".join(words_in(text))


def words_in(text: str) -> Iterator[str]:
    """Yield the words of a text: `createIssue` is `create`, `issue` and `createissue`."""
    for whole in _WORD.findall(_UNSPACED.sub(r" \g<0> ", unicodedata.normalize("NFKC", text))):
        parts = _PART.findall(whole) if whole.isascii() else list(_split(whole))
        for part in parts:
            yield part.casefold()
        if len(parts) > 1:
            yield whole.casefold()


def _split(word: str) -> Iterator[str]:
    """Yield the parts of a word of any script, split before a capital after a small letter, and around digits."""
    start = 0
    for place, (left, right) in enumerate(pairwise(word), 1):
        if (left.islower() and right.isupper()) or left.isdigit() != right.isdigit():
            yield word[start:place]
            start = place
    yield word[start:]


def _prose(document: SearchDocument) -> str:
    """Return what an embedding model is given of a tool: the beginning counts most, and long texts are cut."""
    name = " ".join(words_in(document.name))
    return "\n".join(text for text in (name, document.title, document.description, document.parameters) if text)[:PROSE]


def name_in_words(name: str) -> str:
    """Return a name as words in small letters: `createIssue` is `create issue`."""
    return " ".join(part for word in _WORD.findall(name) for part in _PART.findall(word) or [word]).casefold()


def normalised(vectors: Iterable[Sequence[float]]) -> Iterator[Vector]:
    """Yield vectors with a length of 1."""
    for vector in vectors:
        plain = [float(number) for number in vector]
        length = sqrt(sum(map(mul, plain, plain))) or 1.0
        yield array("f", [number / length for number in plain])
