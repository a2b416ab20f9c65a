"""Search with a real sentence embedding model, where one can be loaded (SPEC FND-2).

Set TOOLFOLD_EMBEDDING_MODEL to the folder or the name of a model that sentence-transformers can load.
"""

from __future__ import annotations

import os

import pytest

from toolfold import MissingExtra, Ranker, SearchDocument, ToolSet
from toolfold_adapters.search import bm25, embeddings, fused

VARIABLE = "TOOLFOLD_EMBEDDING_MODEL"
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
def ranker() -> Ranker:
    if VARIABLE not in os.environ:
        pytest.skip(f"{VARIABLE} names no embedding model, and no package that the tests install brings one")
    try:
        return embeddings(os.environ[VARIABLE])
    except (MissingExtra, OSError) as error:
        pytest.skip(f"the embedding model {os.environ[VARIABLE]!r} can't be loaded: {error}")


@pytest.mark.spec("FND-2")
def test_a_real_model_finds_what_has_no_word_in_common(ranker: Ranker) -> None:
    lexical, semantic = bm25(DOCUMENTS), ranker(DOCUMENTS)
    for query, tool in QUERIES.items():
        assert tool not in list(lexical(query))
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
