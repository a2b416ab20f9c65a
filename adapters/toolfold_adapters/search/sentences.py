"""Models of sentences: what encodes a text as a vector (SPEC FND-2).

A model in ONNX form is run by ONNX Runtime: a folder as sentence-transformers writes it, with the network as
`onnx/model.onnx` or `model.onnx`, and `tokenizer.json`; most sentence models on the Hugging Face Hub are such folders.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from toolfold import ConfigError
from toolfold.spi import extras_named

from .networks import runtime_that_reports_nothing

Encoder = Callable[[Sequence[str]], Iterable[Sequence[float]]]
"""Returns a vector for each text."""

BATCH = 32
"""How many texts the network is given at once, those of like lengths together."""

_NETWORKS = ("onnx/model.onnx", "model.onnx")
_TOKENIZER = "tokenizer.json"
_LIMITS = "sentence_bert_config.json"
_POOLING = "1_Pooling/config.json"
_MAX_TOKENS = 512


def encoder_of(model: str | Path) -> Encoder:
    """Return what encodes texts with a model.

    Args:
        model: The folder of a model, or its name on the Hugging Face Hub, from where it is fetched once.

    Raises:
        MissingExtra: A package that the extra `embeddings` installs is missing.
        ConfigError: A file of the model is missing.
    """
    with extras_named():
        runtime = runtime_that_reports_nothing()
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


def numpy_on_one_core() -> Any:
    """Return NumPy; unless it was imported before, its products are made on one core: these take longer on several."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return import_module("numpy")
