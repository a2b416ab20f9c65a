"""Which URIs are spellings of one."""

from __future__ import annotations

import time

import pytest

from tests.adapters.gateway.test_doors import SPELLINGS
from toolfold_adapters.gateway.spelling import Spellings

pytestmark = pytest.mark.spec("ISO-2")


@pytest.mark.parametrize("uri", SPELLINGS)
def test_spellings_are_those_of_what_is_listed(uri: str) -> None:
    known = Spellings(["out://list", "out://other"], ["out://items/{x}", "out://other/{x}"])
    assert (known.resources(uri), known.templates(uri)) in ((["out://list"], []), ([], ["out://items/{x}"]))


@pytest.mark.parametrize(
    ("uri", "resource"),
    [
        ("file://localhost/etc/a", "file:///etc/a"),
        ("file:/etc//a", "file:///etc/a"),
        ("file://127.0.0.1/etc/a", "file:///etc/a"),
        ("file://x:80/etc/a", "file:///etc/a"),
        ("out://\uff4cist", "out://list"),
        ("HTTP://Site.Example:80/a", "http://site.example/a"),
    ],
)
def test_a_file_and_an_address_have_more(uri: str, resource: str) -> None:
    assert Spellings([resource], []).resources(uri) == [resource]


@pytest.mark.parametrize(
    "uri", ["out://lists", "out://list/more", "in://list", "out://", "file://list", "out://itemsmore/1", ""]
)
def test_what_differs_is_no_spelling(uri: str) -> None:
    known = Spellings(["out://list"], ["out://items/{x}"])
    assert (known.resources(uri), known.templates(uri)) == ([], [])


@pytest.mark.parametrize(
    "uri",
    [
        *SPELLINGS,
        "http://site.example/list",
        "http://list",
        "out://list;a=1",
        "out://x/..;/list",
        "out://%00list",
        "out://list%00.txt",
        "out://li+st",
        "out://list::$DATA",
        "out://list:$DATA",
        "out://list. .",
        "out://list%20",
        "out://%c0%aflist",
        "out://\uff4cist",
        "out://%2e%2e/list",
        "out://..",
        "out://LIST~1",
        "out://a//list",
        "out://[::1]/list",
        "out://*",
        "out://other/#/list",
        "list",
        "",
        "http://site.example/items/1",
    ],
)
def test_what_may_be_read_as_what_is_withheld_is_known_by_its_path_or_is_not_plain(uri: str) -> None:
    assert Spellings(["out://list"], ["out://items/{x}"]).may_include(uri)
    assert not Spellings([], []).may_include(uri)


@pytest.mark.parametrize(
    ("withheld", "uri"),
    [
        ("file:///etc/a.txt", "http://x/etc/a.txt"),
        ("file:///etc/a.txt", "FILE://host/ETC/A.TXT"),
        ("http://x:80/etc/a", "file:///etc/a"),
        ("http://ada@x/etc/a%20b?c", "http://x/etc/a%20b"),
        ("http://ada@x/etc/ab?c", "http://x/etc/ab"),
        ("out:list", "out://list"),
    ],
)
def test_a_path_is_withheld_by_every_scheme_and_host(withheld: str, uri: str) -> None:
    assert Spellings([withheld], []).may_include(uri)


@pytest.mark.parametrize(
    "uri", ["out://lists", "out://list/more", "out://more/list.txt", "http://x:80/lists", "file:///a/b-c_d.e/", "out:x"]
)
def test_a_plain_uri_of_another_path_may_be_read(uri: str) -> None:
    assert not Spellings(["out://list"], ["out://items/{x}"]).may_include(uri)


def test_a_long_uri_is_judged_in_time() -> None:
    began = time.process_time()
    for uri in ("out://" + "a." * 50_000, "out://" + "a/" * 50_000 + "%", "out://" + "." * 100_000):
        Spellings(["out://list"], ["out://items/{x}"]).may_include(uri)
    assert time.process_time() - began < 1


def test_a_template_that_begins_with_a_variable_may_be_anything() -> None:
    assert Spellings([], ["{+any}"]).templates("out://list") == ["{+any}"]
