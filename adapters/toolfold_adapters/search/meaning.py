"""Words and meaning together, by the models that packages ship (SPEC FND-5, FND-6).

all-MiniLM-L6-v2 is the better one for English, and knows nothing else; multilingual-e5-small knows many languages. Of
each its similarity counts, and of words their BM25, which is large for rare words alone: so common ones do not drown
what means the same in other words, and what a model does not understand is similar to nothing.
"""

from __future__ import annotations

import logging
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from threading import Lock, get_ident
from typing import Any

from toolfold import ConfigError, Ranked, Ranker, Ranking, SearchDocument
from toolfold.spi import frozen

from . import e5, minilm
from .rankers import (
    BOTH,
    DOUBT,
    MAX_VECTORS,
    Index,
    Vector,
    bm25,
    in_background,
    name_in_words,
    normalised,
    words_in,
)
from .sentences import Encoder, numpy_on_one_core

log = logging.getLogger("toolfold")

BEGINNING = 80
"""How many characters of a tool a model is given: it takes as long as they are many."""

AT_ONCE = 32
"""How many tools are encoded before their vectors are stored."""

WORDS_WEIGHT = 0.002
"""How much similarity a point of BM25 counts for; chosen, as the next are, by the queries to tune by."""

NOTHING, DOUBTFUL = -1.8, 0.25
"""How well the first fits at least, or else none does, or none for certain: the share of the query that its texts have,
and for each model by weight how much more similar than expected of one that fits the most similar is."""

SHORT = 6
"""How many words a query has at most for which nothing may be found by that: a tool has few of those of a long one."""

USUAL_COUNT = 100
"""For how many tools the usual similarity counts beside those of a catalog."""


@frozen(kw_only=True)
class Model:
    """A model of sentences that is installed.

    Attributes:
        name: What its vectors are stored under.
        encode: What encodes texts; it is loaded on the first use.
        query: What stands before a query for it, and `passage` before a tool.
        above: From which similarity on it counts.
        weight: How much that counts for.
        usual: The similarity of a query and a tool that have nothing in common.
        expected: How much more than usual is expected of a tool that fits.
        telling: How much it tells of whether one fits.
    """

    name: str
    encode: Encoder
    query: str = ""
    passage: str = ""
    above: float
    weight: float
    usual: float
    expected: float
    telling: float


def installed_models() -> tuple[Model, ...]:
    """Return the models that are installed; none without NumPy and ONNX Runtime."""
    found: list[Model] = []
    if any(find_spec(name) is None for name in ("numpy", "onnxruntime")):
        return ()
    if (file := e5.installed_e5()) is not None:
        found.append(
            Model(
                name=f"{e5.PACKAGE} {e5.WEIGHTS}",
                encode=_on_first_use(lambda: e5.e5_encoder(file)),
                query=e5.QUERY,
                passage=e5.PASSAGE,
                above=0.0,
                weight=1.0,
                usual=0.78,
                expected=0.062,
                telling=28.0,
            )
        )
    if (network := minilm.installed_minilm()) is not None:
        found.append(
            Model(
                name=f"{minilm.PACKAGE} {minilm.NETWORK}",
                encode=_on_first_use(lambda: minilm.minilm_encoder(network)),
                above=0.2,
                weight=0.4,
                usual=0.1,
                expected=0.29,
                telling=4.5,
            )
        )
    return tuple(found)


def has_model() -> bool:
    """Return whether a model is installed that `by_meaning` can use."""
    return bool(installed_models())


def by_meaning(cache: Path | None = None, *, in_the_background: bool = True) -> Ranker:
    """Return words and the models that are installed, together; nothing is fetched.

    An index takes some seconds for a hundred tools. It is made in the background, from the first search on; until it is
    there, searches are by BM25 alone. The extra `meaning` brings all-MiniLM-L6-v2, which knows English, and where its
    package is there for the platform multilingual-e5-small, which knows many languages.

    SPEC FND-5, FND-6.

    Args:
        cache: The folder in which the vectors of tools are stored, so that a second start does not make them again.
        in_the_background: Whether an index is made there; otherwise the first search waits for it.

    Raises:
        ConfigError: No model is installed.
    """
    models = installed_models()
    if not models:
        raise ConfigError('Searching by meaning needs a model: pip install "toolfold[meaning]".')
    ranker = _weighed(models, cache)
    return in_background(ranker, until=bm25) if in_the_background else ranker


def _weighed(models: Sequence[Model], folder: Path | None) -> Ranker:
    """Return a ranker by words and by models, each weighed by how sure it is (SPEC FND-6)."""

    def ranker(documents: Sequence[SearchDocument]) -> Ranking:
        numpy: Any = numpy_on_one_core()
        index = Index(documents)
        names = [document.name for document in documents]
        texts = [*map(_beginning, documents)]
        indexes = [_Similar(numpy, model, texts, folder) for model in models]

        def ranked(query: str) -> Ranked:
            if not names or not query.strip():
                return Ranked((), BOTH)
            similar = [one.to(query) for one in indexes]
            words = index.scored(query)
            scores = numpy.array([WORDS_WEIGHT * words.get(name, 0.0) for name in names])
            for model, values in zip(models, similar, strict=True):
                scores += model.weight * numpy.maximum(0.0, values - model.above)
            by_name = dict(zip(names, scores.round(6).tolist(), strict=True))
            ordered = tuple(sorted(names, key=lambda name: (-by_name[name], name)))
            share = index.share(query, ordered[0])
            fit = share + sum(_telling(model, one) for model, one in zip(models, similar, strict=True))
            if fit < NOTHING and share < DOUBT and len([*words_in(query)]) <= SHORT:
                return Ranked((), BOTH)
            best_by_words = index.ranked(query)
            clear = best_by_words.clear and ordered[:1] == best_by_words.names[:1]
            return Ranked(ordered, BOTH, clear, fit < DOUBTFUL and not clear)

        return ranked

    return ranker


def _telling(model: Model, similar: Any) -> float:
    """Return how much a model's similarities tell of whether a tool fits: nothing where one is as is expected then."""
    usual = (similar.sum() + model.usual * USUAL_COUNT) / (len(similar) + USUAL_COUNT)
    return model.telling * (max(0.0, float(similar.max() - usual)) - model.expected)


class _Similar:
    """The vectors of some texts, as one model makes them."""

    def __init__(self, numpy: Any, model: Model, texts: Sequence[str], folder: Path | None) -> None:
        self._numpy, self._model = numpy, model
        given = [f"{model.passage}{text}" for text in texts]
        self._vectors = numpy.array([*normalised(_stored(model, given, folder))], "f4")

    def to(self, query: str) -> Any:
        """Return how similar each text is to a query, in order."""
        (asked,) = normalised(self._model.encode([f"{self._model.query}{query}"]))
        return self._vectors @ self._numpy.array(asked, "f4")


def _beginning(document: SearchDocument) -> str:
    """Return what a model is given of a tool: its name in words, and the beginning of its description."""
    return f"{name_in_words(document.name)}: {' '.join(document.description.split())}"[:BEGINNING]


def _on_first_use(make: Callable[[], Encoder]) -> Encoder:
    """Return an encoder that is made when it is first called."""
    made: list[Encoder] = []
    one_at_a_time = Lock()

    def encode(texts: Sequence[str]) -> Iterable[Sequence[float]]:
        with one_at_a_time:
            if not made:
                made.append(make())
        return made[0](texts)

    return encode


# -- vectors that are stored, in a file for each text's digest -------------------------------------------------------

_CHECKED = 8
"""How many bytes of its digest stand before a vector."""


def _stored(model: Model, texts: Sequence[str], folder: Path | None) -> Iterator[Sequence[float]]:
    """Yield the vector of each text; those that are not in the folder are made, and stored there."""
    files = {text: _file_for(model, text, folder) for text in texts} if folder else {}
    known: dict[str, Sequence[float]] = {
        text: vector for text, file in files.items() if (vector := _read_vector(file)) is not None
    }
    new = [text for text in dict.fromkeys(texts) if text not in known]
    for start in range(0, len(new), AT_ONCE):
        part = new[start : start + AT_ONCE]
        for text, encoded in zip(part, model.encode(part), strict=True):
            known[text] = array("f", encoded)
            if folder:
                _write_vector(files[text], known[text])
    if folder and new:
        _remove_oldest(folder)
    yield from (known[text] for text in texts)


def _file_for(model: Model, text: str, folder: Path) -> Path:
    digest = sha256(f"{model.name}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()
    return folder / f"{digest}.f32"


def _read_vector(file: Path) -> Vector | None:
    """Return the vector in a file; `None` if it is not there, or not as it was stored."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    numbers = content[_CHECKED:]
    if not numbers or content != _checked(numbers):
        return None
    with suppress(OSError):  # which were used last is of no use where nothing can be stored
        os.utime(file)
    return array("f", numbers)


def _checked(numbers: bytes) -> bytes:
    """Return what is stored of a vector: the beginning of its digest, so that any damage is seen, and its numbers."""
    return sha256(numbers).digest()[:_CHECKED] + numbers


def _write_vector(file: Path, vector: Sequence[float]) -> None:
    """Store a vector, whole or not at all; a folder that can't be written is left as it is."""
    part = file.with_suffix(f".{os.getpid()}.{get_ident()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(_checked(array("f", vector).tobytes()))
        part.replace(file)
    except OSError as error:
        log.debug("A vector could not be stored: %s", error)


def _remove_oldest(folder: Path) -> None:
    """Remove the vectors that were not used for longest, if more are stored than `MAX_VECTORS`."""
    try:
        with os.scandir(folder) as entries:
            used = sorted(((entry.stat().st_mtime, entry.path) for entry in entries), reverse=True)
        for _, path in used[MAX_VECTORS:]:
            Path(path).unlink()
    except OSError as error:  # another process removes them, too
        log.debug("Vectors could not be removed: %s", error)
