"""A search tells what a query asks for, and opens nothing else (SPEC FND-6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.core.searching import answer, by_shared_words, found
from toolfold import Ranked, Ranking, SearchDocument, ToolSet
from toolfold._view.intent import asked_by, done_by, words_of

pytestmark = pytest.mark.spec("FND-6")


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("get a page", {"read"}),
        ("could you show me all the open bugs", {"read"}),
        ("which files are in the folder", {"read"}),
        ("do I have unread mail", {"read"}),
        ("searching for flights", {"read"}),
        ("calendar list events", {"read"}),
        ("how do I delete a page", {"remove"}),
        ("removes old pages", {"remove"}),
        ("please make a new folder", {"create"}),
        ("renaming a file", {"change"}),
        ("send the invoice", {"send"}),
        ("restart the server", {"run"}),
        ("find the page and delete it", {"read", "remove"}),
        ("don't delete, just show the page", {"read"}),
        ("look at the page and do not remove it", {"read"}),
        ("find a way to send it", {"read", "send"}),
        ("who works on this, give it to Mei", {"read", None}),
        ("warmer in the bedroom tonight", {None}),
        ("", set()),
        ("?!", set()),
        ("zeig mir die offenen Issues", {"read"}),
        ("kannst du mir bitte alle Dateien im Archiv auflisten", {"read"}),
        ("affiche page archive", {"read"}),
        ("Où est la page delete ?", {"read"}),
        ("Récupère les derniers messages", {"read"}),
        ("muéstrame los mensajes", {"read"}),
        ("¿cuándo hay reunión?", {"read"}),
        ("mostre os arquivos", {"read"}),
        ("elenca le pagine", {"read"}),
        ("laat de pagina zien", {"read"}),
        ("显示删除的页面", {"read"}),
        ("削除したページを表示して", {"read"}),
        ("lösche die Seite", {"remove"}),
        ("wie lösche ich eine Seite", {"remove"}),
        ("finde die Seite und lösche sie", {"read", "remove"}),
        ("Crée une page", {"create"}),
        ("envía el mensaje", {"send"}),
        ("atualize a página", {"change"}),
        ("prenota un treno", {"run"}),
        ("verwijder de pagina", {"remove"}),
        ("删除页面", {"remove"}),
        ("ページを作成する", {"create"}),
        ("페이지를 삭제해 줘", {"remove"}),
    ],
)
def test_what_a_query_asks_for_is_told_by_its_verbs(query: str, asked: set[str | None]) -> None:
    assert asked_by(query) == asked


@pytest.mark.parametrize(
    ("name", "definition", "does"),
    [
        ("get_page", {}, "read"),
        ("listIssues", {}, "read"),
        ("pods_list", {}, "read"),
        ("list_deleted_items", {}, "read"),
        ("get_run_logs", {}, "read"),
        ("batch_create_issues", {}, "create"),
        ("search_and_replace", {}, "change"),
        ("delete-page", {}, "remove"),
        ("weather", {"description": "Returns the weather"}, "read"),
        ("folder", {"description": "Creating folders"}, "create"),
        ("weather", {"description": "The weather"}, None),
        ("delete_page", {"annotations": {"readOnlyHint": True}}, "read"),
        ("get_page", {"annotations": {"readOnlyHint": False}}, "change"),
        ("page", {"annotations": {"destructiveHint": True}}, "change"),
        ("delete_page", {"annotations": {"readOnlyHint": False}}, "remove"),
    ],
)
def test_what_a_tool_does_is_told_by_its_annotations_its_verb_and_its_description(
    name: str, definition: dict[str, Any], does: str | None
) -> None:
    assert done_by(words_of(name), definition) == does


def wiki(**options: Any) -> ToolSet:
    """Reading and writing, which exclude one another, and what is put first by the words of its description."""
    tools = ToolSet("wiki", search=by_shared_words, control="open_group", **options)
    tools.register_group("reading", "Pages as they are")
    tools.register_group("writing", "Pages changed")
    tools.register_group("notes", "Notes")
    tools.register_exclusion("reading", "writing")
    for group, name, text in (
        ("reading", "page_source", "page markup"),
        ("reading", "list_pages", "every page there is"),
        ("writing", "delete_page", "get one page out of the way"),
        ("writing", "revise_page", "get one page right"),
        ("notes", "remove_note", "get one note out of the way"),
        ("notes", "note", "note text"),
    ):
        tools.register(name, answer, description=text, group=group)
    return tools


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("list a page", "reading.list_pages"),
        ("show every page", "reading.list_pages"),
        ("get one page out of the way", "reading.list_pages"),
        ("delete one page", "writing.delete_page"),
        ("erase the page", "writing.delete_page"),
        ("delete_page", "writing.delete_page"),
        ("get one note", "notes.note"),
        ("zeige page out of the way", "reading.list_pages"),
        ("affiche one page", "reading.list_pages"),
        ("lösche one page", "writing.delete_page"),
    ],
)
async def test_a_query_that_asks_to_read_finds_what_reads_first_and_others_what_they_name(
    query: str, best: str
) -> None:
    async with wiki().open_session() as session:
        assert (await found(session, query))[0] == best


@pytest.mark.parametrize("query", ["fetch my mail", "don't purge it, just fetch mail"])
async def test_what_writes_is_behind_what_reads_though_its_name_has_all_words_of_the_query(query: str) -> None:
    tools = ToolSet("post", control="open_group", search=by_shared_words)
    tools.register_group("mail", "Letters")
    for name, text in (("fetch_and_purge_mail", "fetch my mail once"), ("inbox", "List the mail that came")):
        tools.register(name, answer, description=text, group="mail")
    async with tools.open_session() as session:
        assert await found(session, query) == ["mail.inbox", "mail.fetch_and_purge_mail"]


@pytest.mark.parametrize(
    ("active", "query", "opened", "said"),
    [
        (["reading"], "get it right", [], "revise_page may change things"),
        (["reading"], "right", [], "opening writing would close reading"),
        (["reading"], "delete the page", ["writing"], ""),
        (["reading"], "I want that page deleted", ["writing"], ""),
        (["reading"], "writing.revise_page", ["writing"], ""),
        ([], "get it out of the way", [], "may change things"),
        ([], "right", ["writing"], ""),
        ([], "zeig mir alles right", [], "may change things"),
        ([], "affiche right", [], "may change things"),
        ([], "entferne page", ["writing"], ""),
        ([], "remove_note", ["notes"], ""),
        ([], "text", ["notes"], ""),
    ],
)
async def test_what_a_query_does_not_name_opens_nothing_that_writes_and_closes_nothing(
    active: list[str], query: str, opened: list[str], said: str
) -> None:
    async with wiki().open_session(active=active) as session:
        result = await session.call("find_tools", {"query": query, "open": True, "limit": 2})
        assert [*session.active] == (opened or active)
        assert result.structured["changed"] == bool(opened)
        first = result.text.splitlines()[0]
        assert (first.startswith("Nothing opened: ") and said in first) if said else first.startswith("Opened: ")
        assert said == "" or 'call open_group {"group"' in result.text, "what opens it all the same"


@pytest.mark.parametrize(("query", "doubts"), [("mend text", True), ("remove_note", False)])
async def test_where_none_fits_for_certain_the_answer_says_so_and_what_was_not_searched(
    query: str, doubts: bool
) -> None:
    def unsure(documents: Sequence[SearchDocument]) -> Ranking:
        return lambda query: Ranked(tuple(by_shared_words(documents)(query)), "words", doubtful=True)

    tools = ToolSet("wiki", search=unsure, control="open_group")
    tools.register_group("notes", "Notes")
    tools.register_group("pages", "A server of which nothing is known")
    tools.register("remove_note", answer, description="text", group="notes")
    async with tools.open_session() as session:
        result = await session.call("find_tools", {"query": query})
        asked = await session.call("find_tools", {"query": query, "open": True})
        assert session.active == (() if doubts else ("notes",))
    assert result.structured["found"] == ["notes.remove_note"]
    assert asked.text.startswith("Nothing opened: it is not certain that any of these fits." if doubts else "Opened: ")
    doubt = f"No tool fits '{query}' for certain, and there may be none. The nearest by words:"
    assert (doubt in result.text) == doubts
    assert ("\nNot searched, as no tools of theirs are known:\n- pages" in result.text) == doubts
