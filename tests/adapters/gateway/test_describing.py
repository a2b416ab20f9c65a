"""What is said of a server: one sentence, whatever it says of itself."""

from __future__ import annotations

import re

import pytest

from tests.adapters.gateway.registering import SERVER, offering, registered
from toolfold_adapters.gateway import GatewayConfig
from toolfold_adapters.gateway.describing import SENTENCE_LENGTH, sentence_of

pytestmark = pytest.mark.spec("GWY-2")

SENTENCES = {
    "the first of many": ("Reads files. " * 30, "Reads files"),
    "line breaks": ("One\n\tline.", "One line"),
    "a preamble": ("A Model Context Protocol (MCP) server that provides weather data.", "Weather data"),
    "another": ("This is a TypeScript-based MCP server for the\nwhois database.", "The whois database"),
    "a third": ("The Acme MCP server provides tools for invoices", "Tools for invoices"),
    "nothing but a preamble": ("MCP server", "MCP server"),
    "a heading": ("# Acme Server\n\nSearch and edit invoices. Be careful.", "Search and edit invoices"),
    "headings alone": ("# Invoices of Acme\n## Tools\n", "Invoices of Acme"),
    "a rule and a list": ("---\n- Lists invoices\n- Sends them", "Lists invoices Sends them"),
    "marks": ("**Acme** lets you `search` for _open_ invoices!", "Acme lets you search for open invoices"),
    "a name with underscores": ("Call get_invoice first.", "Call get_invoice first"),
    "a link": ("Uses [the Acme API](https://acme.example/docs) for invoices.", "Uses the Acme API for invoices"),
    "a fence": ("```json\n{}\n```\nFor invoices.", "For invoices"),
    "an open fence": ("For invoices.\n\n```json\n{", "For invoices"),
    "tags": ("<instructions>Find <b>invoices</b>.</instructions>", "Find invoices"),
    "a comment": ("<!-- v2 -->Finds invoices", "Finds invoices"),
    "abbreviations": ("Reads papers, e.g. of Acme Inc. and v1.2 of others. More.", "Reads papers, e.g. of Acme Inc"),
    "a number in a version": ("Speaks Node.js 20.1 and more. Well.", "Speaks Node.js 20.1 and more"),
    "a clause": ("Searches invoices, " * 8, "Searches invoices, " * 3 + "Searches invoices"),
    "words without a clause": ("Word " * 100, ("Word " * 18).strip()),
    "one long word": ("X" * 300, "X" * SENTENCE_LENGTH),
    "a short word and a long one": ("See https://acme.example/" + "x" * 300, "See"),
    "Chinese": ("查询发票。不要删除。", "查询发票"),
    "quotes": ('"Invoices" of Acme.', '"Invoices" of Acme'),
    "a question": ("Need invoices? Ask here.", "Need invoices"),
    "an ellipsis": ("Invoices... and more", "Invoices"),
    "commas": (", log, .", "Log"),
    "nothing": ("", ""),
    "white space": (" \n\t ", ""),
    "marks alone": ("***\n---\n# \n.", ""),
    "a paragraph without a word": ("!!!\n\nFinds invoices.", "Finds invoices"),
}


@pytest.mark.parametrize(("text", "sentence"), SENTENCES.values(), ids=SENTENCES)
def test_of_what_a_server_says_the_first_sentence_is_its_description(text: str, sentence: str) -> None:
    assert sentence_of(text) == sentence
    assert len(sentence) <= SENTENCE_LENGTH


@pytest.mark.parametrize(
    ("said", "description"),
    [
        ({"instructions": "Finds invoices. Be kind.", "title": "Acme"}, "Finds invoices"),
        ({"title": "Acme"}, "Acme: 2 tools: find, send"),
        ({}, "2 tools: find, send"),
        ({"instructions": "---"}, "2 tools: find, send"),
    ],
)
def test_a_server_is_described_by_its_instructions_else_by_its_title_and_tools(
    said: dict[str, str], description: str
) -> None:
    _, tools, _ = registered({"s": offering("find", "send", **said), "t": offering("x")})
    assert tools.catalog.group("s").description == description


def test_the_configuration_describes_a_server_in_place_of_its_instructions() -> None:
    config = GatewayConfig(upstreams={"s": SERVER.model_copy(update={"description": "Invoices of Acme."}), "t": SERVER})
    _, tools, _ = registered(
        {"s": offering("find", instructions="No."), "t": offering("x")}, upstreams=config.upstreams
    )
    assert tools.catalog.group("s").description == "Invoices of Acme"


@pytest.mark.spec("GWY-2", "CTL-7")
def test_each_of_fifteen_servers_has_its_whole_sentence_in_what_the_opener_says() -> None:
    text = "Searches, reads and updates every invoice, customer, contract and payment that Acme ever had, and more"
    servers = {f"server_{number}": offering(f"get_{number}", instructions=text) for number in range(15)}
    _, tools, _ = registered(servers)
    opener = tools.catalog.tools["open_group"].description
    assert len(opener) <= 2000
    for name in servers:
        assert f"- {name}: {sentence_of(text)}" in opener.splitlines()
    assert "[cut]" not in opener


@pytest.mark.parametrize("count", [1, 2, 40])
def test_a_number_of_tools_agrees_with_its_noun_and_no_list_ends_in_marks(count: int) -> None:
    _, tools, _ = registered({"s": offering(*(f"log_{at}" for at in range(count))), "t": offering("x")})
    description = tools.catalog.group("s").description
    assert description.startswith("1 tool: " if count == 1 else f"{count} tools: ")
    assert not re.search(r"\b1 tools|[,.…] ?$|, \.", description)
