"""Texts in pictures: printable, wrapped, and escaped for each format."""

from __future__ import annotations

import re
import unicodedata
import xml.etree.ElementTree as ET
from string import ascii_letters, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.diagrams.support import HOSTILE, NAMES, UNPRINTABLE, squeezed
from toolfold_diagrams.text import (
    dot_string,
    identifier,
    mermaid,
    mermaid_lines,
    plural,
    printable,
    wrapped,
    xml,
)

PATHS = st.text(f"{ascii_letters}{digits}_-.|", max_size=12)


@pytest.mark.spec("DIA-1")
@given(st.text())
def test_printable_text_has_one_line_and_no_controls_and_is_unchanged(text: str) -> None:
    shown = printable(text)
    assert printable(shown) == shown
    kinds = {unicodedata.category(char) for char in shown if char not in "\u200c\u200d"}
    assert not kinds & {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}
    assert shown == shown.strip()
    assert "  " not in shown


@pytest.mark.spec("DIA-1")
def test_joiners_of_emoji_and_scripts_stay_and_changes_of_direction_do_not() -> None:
    assert printable("👩‍💻") == "👩‍💻"
    assert printable("a\u202eb\u2066c") == "abc"
    assert printable(UNPRINTABLE) == "two lines tab nulescdelcsiturned"


@pytest.mark.spec("DIA-1")
@given(st.text(), st.integers(4, 40), st.integers(1, 4))
def test_wrapped_text_has_its_lines_and_width_and_shows_where_it_was_cut(text: str, width: int, lines: int) -> None:
    found = wrapped(text, width, lines)
    assert len(found) <= lines
    assert all(0 < len(line) <= width for line in found)
    whole, shown = squeezed(printable(text)), squeezed("".join(found))
    assert shown == whole or (shown.endswith("…") and whole.startswith(shown[:-1]))


@pytest.mark.spec("DIA-1")
def test_wide_characters_count_twice_and_a_very_long_word_is_split() -> None:
    assert wrapped("数据库操作工具组", 8, 3) == ["数据库操", "作工具组"]
    assert wrapped("0000000🀀", 4, 3) == ["0000", "000", "🀀"]
    assert wrapped("a" * 50, 10, 2) == ["aaaaaaaaaa", "aaaaaaaa …"]
    assert wrapped("one two three four five", 9, 2) == ["one two", "three …"]
    assert wrapped("  \n ", 9, 2) == []


@pytest.mark.spec("DIA-1", "NAM-1")
@given(PATHS, PATHS)
def test_an_id_is_one_word_and_unique_for_its_path(one: str, other: str) -> None:
    assert re.fullmatch(r"group_[A-Za-z0-9_]*", identifier("group", one))
    assert (identifier("group", one) == identifier("group", other)) is (one == other)
    assert identifier("group", one) not in NAMES


@pytest.mark.spec("DIA-1")
def test_what_an_svg_can_not_contain_is_a_space_in_a_dot_string() -> None:
    assert dot_string("a\x00b\x1bc\ud800d\ne") == r'"a b c d\ne"'


@pytest.mark.spec("DIA-1")
@given(st.text().map(printable))
def test_text_escaped_for_xml_is_read_back_from_a_text_and_from_an_attribute(text: str) -> None:
    element = ET.fromstring(f"<a b=\"{xml(text)}\" c='{xml(text)}'>{xml(text)}</a>")
    assert (element.text or "", element.get("b"), element.get("c")) == (text, text, text)


@pytest.mark.spec("DIA-1")
@given(st.one_of(st.text(), st.sampled_from(HOSTILE)))
def test_labels_of_mermaid_have_only_plain_characters_and_numbers(text: str) -> None:
    label = mermaid(text)
    assert re.fullmatch(r"(#[0-9]+;|[\w ,·→●○◌✓✗!?/'-])*", label)
    read = re.sub(r"#([0-9]+);", lambda found: chr(int(found[1])), label)
    assert read.replace("\u200b", "") == printable(text)
    assert "$$" not in read


@pytest.mark.spec("DIA-1")
def test_markdown_is_escaped_but_words_stay_readable() -> None:
    assert mermaid("read_file, a-b: don't") == "read_file, a-b#58; don't"
    assert mermaid("_a_ - b") == "#95;a#95; #45; b"
    assert mermaid("1. one") == "1#46; one"
    assert mermaid_lines(["a<b", "c"]) == "a#60;b<br/>c"


def test_a_count_has_its_noun() -> None:
    assert [plural(count, "tool") for count in (0, 1, 2)] == ["0 tools", "1 tool", "2 tools"]
