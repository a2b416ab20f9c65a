"""The rankers of `toolfold_adapters.search`: BM25, embeddings, and their fusion (SPEC FND-2)."""

from __future__ import annotations

import gc
import sqlite3
import sys
import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import nan
from os import environ, utime
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolfold import ConfigError, MissingExtra, Ranked, Ranker, Ranking, SearchDocument, ToolSet
from toolfold_adapters.gateway import GatewayConfig
from toolfold_adapters.search import bm25, by_meaning, embeddings, fused, in_background, meaning
from toolfold_adapters.search.sentences import Encoder

pytestmark = pytest.mark.spec("FND-2")

DOCUMENTS = [
    SearchDocument("files.readFile", description="Read one from the disk", parameters="path\nencoding"),
    SearchDocument("files.write_file", description="Write one to the disk", parameters="path\ncontents"),
    SearchDocument("git.HTTPClone", description="Copy a repository", groups="git\nVersion control"),
    SearchDocument("mail.send", title="Send e-mail", description="Sends messages to recipients"),
    SearchDocument("übersetzen", description="Übersetzt Text ins Englische"),
    SearchDocument("créerÉtiquette", description="Fabriquer"),
    SearchDocument("search_web", description="在网络上搜索新闻"),
]


def names(query: str) -> list[str]:
    return list(bm25(DOCUMENTS)(query))


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("readFile", "files.readFile"),
        ("READ FILE", "files.readFile"),
        ("read-file", "files.readFile"),
        ("http clone", "git.HTTPClone"),
        ("httpclone", "git.HTTPClone"),
        ("writing contents", "files.write_file"),
        ("sending a message", "mail.send"),
        ("encoding", "files.readFile"),
        ("version", "git.HTTPClone"),
        ("UBERSETZEN", "übersetzen"),
        ("étiquette", "créerÉtiquette"),
        ("creer", "créerÉtiquette"),
        ("新闻", "search_web"),
    ],
)
def test_names_are_split_and_words_stemmed(query: str, best: str) -> None:
    assert names(query)[0] == best


def test_a_word_in_a_name_counts_more_than_one_in_a_text() -> None:
    documents = [
        SearchDocument("a", description="branch branch of something"),
        SearchDocument("branch", description="of something else"),
    ]
    assert [*bm25(documents)("branch")] == ["branch", "a"]


def test_common_words_come_after_others_and_alone_only_where_no_tool_has_others() -> None:
    documents = [SearchDocument("this", description="what to do with it"), SearchDocument("boat", description="rows")]
    assert [*bm25(documents)("what do I do with a boat")] == ["boat", "this"]
    ship = bm25(documents)("what do I do with a ship")
    assert isinstance(ship, Ranked)
    assert ([*ship], ship.doubtful) == (["this"], True)
    assert [*bm25(documents)("what do I do with this")] == ["this"]


def test_tools_without_any_of_the_words_are_no_match() -> None:
    assert names("quantum") == []
    assert names("er") == [], "words are not split at letters with accents"
    assert [*bm25([])("anything")] == []


@pytest.mark.parametrize(
    "query", ['"', "read OR", "NEAR(read write, 3)", "name : read", "read* ^path", "'; DROP", "\0"]
)
def test_the_syntax_of_the_database_means_nothing(query: str) -> None:
    words = " ".join(word for word in ("read", "write", "path", "name") if word in query)
    assert set(names(query)) <= {name for word in (*words.split(), "near", "drop", "3") for name in names(word)}
    assert names("read")[0] == "files.readFile", "the index is unharmed"


@pytest.mark.spec("FND-6")
@pytest.mark.parametrize(
    ("query", "finds", "doubtful"),
    [
        ("read from the disk", True, False),
        ("read", True, False),
        ("read the barometer on the mast", True, True),
        ("read barometer thermometer hygrometer seismograph periscope telescope", True, True),
        ("barometer", False, False),
    ],
)
def test_what_few_of_the_telling_words_of_a_query_fit_is_doubtful_or_nothing(
    query: str, finds: bool, doubtful: bool
) -> None:
    ranked = bm25(DOCUMENTS)(query)
    assert isinstance(ranked, Ranked)
    assert (bool(ranked.names), ranked.doubtful) == (finds, doubtful)


@given(st.text(max_size=200), st.lists(st.text(max_size=50), max_size=5))
def test_any_text_can_be_indexed_and_asked_for(query: str, texts: list[str]) -> None:
    documents = [SearchDocument(f"t{number}", description=text) for number, text in enumerate(texts)]
    ranked = list(bm25(documents)(query))
    assert len(set(ranked)) == len(ranked)
    assert set(ranked) <= {document.name for document in documents}
    assert ranked == [*bm25(documents)(query)]


def test_a_huge_query_is_cut_to_its_first_words() -> None:
    assert names(f"{' '.join(f'w{number}' for number in range(64))} read") == []
    assert names("read " * 100_000) == names("read")


def test_equal_tools_come_in_order_of_name() -> None:
    documents = [SearchDocument(name, description="same") for name in ("b", "c", "a")]
    assert [*bm25(documents)("same")] == ["a", "b", "c"]
    assert [*fused(bm25, bm25)(documents)("same")] == ["a", "b", "c"]


def test_one_index_answers_many_threads() -> None:
    ranked = bm25(DOCUMENTS)
    queries = ["read file", "send", "version control", "disk"] * 50
    with ThreadPoolExecutor(8) as pool:
        assert [[*one] for one in pool.map(ranked, queries)] == [names(query) for query in queries]


def test_an_index_that_nobody_uses_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def remembering(*args: Any, **options: Any) -> sqlite3.Connection:
        made.append(connect(*args, **options))
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", remembering)
    ranked: Any = bm25(DOCUMENTS)
    ranked("read")
    del ranked
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        made[0].execute("SELECT 1")


# -- fusion and embeddings --------------------------------------------------------------------------------------------


def fixed(*order: str) -> Any:
    return lambda documents: lambda query: list(order)


def test_fusion_puts_first_what_more_rankings_put_high() -> None:
    assert [*fused(fixed("a", "b", "c"), fixed("b", "c"), fixed("b", "a"))([])("any")] == ["b", "a", "c"]
    assert [*fused(fixed("a"), fixed())([])("any")] == ["a"]


def topics(texts: Sequence[str]) -> Iterator[list[float]]:
    """Encode texts by three topics: a model small enough to be read."""
    for text in texts:
        yield [sum(text.count(word) for word in topic) for topic in (("disk", "file"), ("mail", "letter"), ("copy",))]


def test_embeddings_find_what_has_no_word_in_common() -> None:
    assert names("letter") == []
    assert next(iter(embeddings(topics)(DOCUMENTS)("letter"))) == "mail.send"
    assert next(iter(fused(bm25, embeddings(topics))(DOCUMENTS)("letter"))) == "mail.send"
    assert [*embeddings(topics)(DOCUMENTS)("  ")] == []


def test_a_text_is_encoded_once_for_all_indexes() -> None:
    asked: list[str] = []

    def encode(texts: Sequence[str]) -> Iterator[list[float]]:
        asked.extend(texts)
        return topics(texts)

    ranker = embeddings(encode)
    ranker(DOCUMENTS[:2])
    ranker(DOCUMENTS)
    assert len(asked) == len(set(asked)) == len(DOCUMENTS)
    assert list(ranker(DOCUMENTS)("letter")) == list(embeddings(topics)(DOCUMENTS)("letter"))


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers", "huggingface_hub"])
def test_a_model_by_name_needs_the_extra(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    for name in ("onnxruntime", "tokenizers", "huggingface_hub"):
        installed = SimpleNamespace(disable_telemetry_events=lambda: None)
        monkeypatch.setitem(sys.modules, name, None if name == package else installed)
    with pytest.raises(MissingExtra, match=rf"{package}.*toolfold\[embeddings\]"):
        embeddings("sentence-transformers/all-MiniLM-L6-v2")


def test_a_model_by_name_is_fetched_and_one_that_lacks_a_file_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fetched: list[str] = []

    def snapshot_download(name: str, allow_patterns: list[str]) -> str:
        fetched.append(name)
        assert {"tokenizer.json", "onnx/model.onnx"} <= set(allow_patterns)
        return str(tmp_path)

    telling_nobody: list[bool] = []
    runtime = SimpleNamespace(disable_telemetry_events=lambda: telling_nobody.append(True))
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime)
    monkeypatch.setitem(sys.modules, "tokenizers", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=snapshot_download))
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "0")
    for model in ("some/model", tmp_path):
        with pytest.raises(ConfigError, match=r"must have tokenizer\.json, and onnx/model\.onnx or model\.onnx"):
            embeddings(model)
    assert telling_nobody == [True, True]
    assert environ["ORT_DISABLE_TELEMETRY"] == "0", "who sets it himself decides"
    assert fetched == ["some/model"], "a folder is used unchanged"


@pytest.mark.spec("FND-6")
def test_a_ranking_says_what_it_goes_by_and_whether_the_first_is_clearly_the_best() -> None:
    def by(ranker: Any, query: str) -> tuple[str, bool]:
        answer = ranker(DOCUMENTS)(query)
        return answer.by, answer.clear

    assert by(bm25, "send e-mail messages") == ("words", True)
    assert by(bm25, "disk") == ("words", False), "two tools fit as well"
    assert by(bm25, "send a submarine") == ("words", False), "it lacks a word"
    assert by(bm25, "submarine") == ("words", False)
    assert by(embeddings(topics), "letter") == ("meaning", False)
    assert by(fused(bm25, embeddings(topics)), "letter") == ("words and meaning", False)
    assert by(fused(bm25, fixed("a")), "disk") == ("", False), "one of them doesn't say"


async def test_a_tool_set_searches_with_it() -> None:
    tools = ToolSet("t", control="open_group", search=bm25)
    tools.register_group("box", "Boxes")
    for name in ("openBox", "closeBox", "paint"):
        tools.register(name, lambda: "done", group="box")
    async with tools.open_session() as session:
        result = await session.call("find_tools", {"query": "closing of boxes", "limit": 1, "open": True})
        assert result.structured["tools"] == ["box.closeBox"]
        assert session.active == ("box",)


# -- in the background, and in the gateway ----------------------------------------------------------------------------


def test_words_alone_rank_until_an_index_is_made() -> None:
    go_on, made = Event(), Event()

    def slow(documents: Sequence[SearchDocument]) -> Ranking:
        assert go_on.wait(60)
        made.set()
        return lambda query: ["by meaning"]

    ranked = in_background(slow, until=bm25)(DOCUMENTS)
    assert [*ranked("version")] == ["git.HTTPClone"]
    go_on.set()
    finished("toolfold-index")
    assert made.is_set()
    assert [*ranked("version")] == ["by meaning"]


def test_an_index_that_fails_is_logged_and_leaves_words_alone(caplog: pytest.LogCaptureFixture) -> None:
    def broken(documents: Sequence[SearchDocument]) -> Ranking:
        raise ValueError

    ranked = in_background(broken, until=bm25)(DOCUMENTS)
    finished("toolfold-index")
    assert [*ranked("version")] == ["git.HTTPClone"]
    assert "they are searched without it" in caplog.text


def finished(name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(60)


@pytest.mark.spec("FND-5")
def test_the_gateway_ranks_by_meaning_where_a_model_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def ranker_of(**options: Any) -> Any:
        return GatewayConfig.model_validate({"options": options}).options.ranker()

    assert ranker_of() is ranker_of(search="bm25") is bm25
    assert ranker_of(search="none") is None
    with pytest.raises(ConfigError, match=r'pip install "toolfold\[meaning\]"'):
        ranker_of(search="embeddings")
    monkeypatch.setattr(meaning, "installed_models", lambda: (model(topics),))
    for ranker in (ranker_of(), ranker_of(search="embeddings"), by_meaning()):
        ranked = ranker(DOCUMENTS)
        finished("toolfold-index")
        assert next(iter(ranked("letter"))) == "mail.send"
    assert ranker_of(search="bm25") is bm25


def model(encode: Encoder, *, name: str = "topics", query: str = "") -> meaning.Model:
    return meaning.Model(
        name=name, encode=encode, query=query, above=0.0, weight=1.0, usual=0.0, expected=0.1, telling=20.0
    )


@pytest.mark.spec("FND-6")
def test_meaning_decides_where_words_are_unsure_and_vectors_are_stored_for_the_next_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("numpy")
    encoded: list[str] = []

    def encode(texts: Sequence[str]) -> Iterator[list[float]]:
        encoded.extend(texts)
        yield from topics(texts)

    monkeypatch.setattr(meaning, "installed_models", lambda: (model(encode, query="query: "),))
    for number in range(2):
        ranked = by_meaning(tmp_path / "vectors")(DOCUMENTS)
        finished("toolfold-index")
        assert next(iter(ranked("letter"))) == "mail.send", "no word in common"
        assert next(iter(ranked("version"))) == "git.HTTPClone", "a rare word"
        assert [*ranked(" ")] == [*ranked("zeppelin")] == [], "neither a word nor a meaning"
        for query in ("letter", "version", "read zeppelin"):
            answered = ranked(query)
            assert isinstance(answered, Ranked)
            assert answered.doubtful == ("zeppelin" in query)
        assert sum(not text.startswith("query: ") for text in encoded) == len(DOCUMENTS), number
        assert encoded[-1] == "query: read zeppelin"
    monkeypatch.setattr(meaning, "MAX_VECTORS", 3)
    stored = sorted((tmp_path / "vectors").iterdir())
    for file in stored:
        file.write_bytes(b"cut")
        utime(file, (0, 0))
    by_meaning(tmp_path / "vectors")(DOCUMENTS[:1])
    finished("toolfold-index")
    left = [*(tmp_path / "vectors").iterdir()]
    assert len(left) == 3
    assert max(file.stat().st_mtime for file in left) > 0, "those that were not used for longest are removed"
    assert {*by_meaning(tmp_path / "vectors")(DOCUMENTS)("version")} >= {"git.HTTPClone"}
    finished("toolfold-index")


@pytest.mark.spec("FND-6")
@pytest.mark.parametrize(
    "damaged",
    [
        lambda content: content[: len(content) // 8 * 4],
        lambda content: content + content[-4:],
        lambda content: bytes([content[0] ^ 1]) + content[1:],
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: array("f", [nan] * (len(content) // 4)).tobytes(),
        lambda content: b"",
    ],
    ids=["shorter", "longer", "begins otherwise", "ends otherwise", "not a number", "empty"],
)
def test_a_vector_whose_file_is_damaged_is_made_anew(
    damaged: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("numpy")
    encoded: list[str] = []

    def encode(texts: Sequence[str]) -> Iterator[list[float]]:
        encoded.extend(texts)
        yield from topics(texts)

    monkeypatch.setattr(meaning, "installed_models", lambda: (model(encode),))
    by_meaning(tmp_path, in_the_background=False)(DOCUMENTS)
    stored = {file: file.read_bytes() for file in tmp_path.iterdir()}
    file, content = next(iter(stored.items()))
    file.write_bytes(damaged(content))
    encoded.clear()
    ranked = by_meaning(tmp_path, in_the_background=False)(DOCUMENTS)
    assert len(encoded) == 1
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == stored
    assert next(iter(ranked("letter"))) == "mail.send"


@pytest.mark.spec("FND-2")
@pytest.mark.parametrize(("doubted", "first"), [((True, False), "b"), ((False, True), "a"), ((True, True), "a")])
def test_of_fused_rankings_one_that_doubts_has_no_say_where_another_does_not(
    doubted: tuple[bool, bool], first: str
) -> None:
    def says(names: tuple[str, ...], doubtful: bool) -> Ranker:
        return lambda _: lambda _: Ranked(names, doubtful=doubtful)

    ranking = fused(says(("a", "c"), doubted[0]), says(("b", "a"), doubted[1]))([])
    assert next(iter(ranking("query"))) == first
