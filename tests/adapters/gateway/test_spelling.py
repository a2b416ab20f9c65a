"""Which URIs are spellings of one."""

from __future__ import annotations

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


def test_a_template_that_begins_with_a_variable_may_be_anything() -> None:
    assert Spellings([], ["{+any}"]).templates("out://list") == ["{+any}"]
