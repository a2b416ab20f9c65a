"""Pictures in pages of documentation: what is refused (SPEC ERR-2), and the text for those that are not HTML."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from toolfold_cli.diagram import page_picture


@pytest.mark.spec("DIA-1", "ERR-2")
@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("target", "given", "problem"),
    [
        ("shop:tools", {"active": "oders"}, r"There is no group 'oders'"),
        ("shop:tools", {"profile": "nobody"}, r"no profile 'nobody'"),
        ("shop:tools", {"view": "circle"}, r"There is no view 'circle': use structure, statechart, "),
        ("shop:tools", {"limit": "ten"}, r"The limit 'ten' must be a whole number\."),
        ("shop:tools", {"view": "statechart", "limit": "2"}, r"'shop' has 3 groups.*or raise the limit\."),
        (
            "shop:tools",
            {"colour": "red"},
            r"There is no option 'colour' of a picture: use view, active, profile, limit\.",
        ),
        ("shop:fail", {}, r"shop:fail raised RuntimeError: the till is locked"),
        (None, {}, r"There is no TARGET\. It is module:attribute"),
    ],
)
def test_a_picture_that_cannot_be_drawn_is_refused_in_a_sentence(
    target: str | None, given: dict[str, str], problem: str
) -> None:
    with pytest.raises(click.ClickException, match=problem) as caught:
        page_picture(target, given)
    assert "\n" not in caught.value.message


@pytest.mark.spec("DIA-1", "DIA-3")
def test_the_same_is_text_where_there_are_no_pictures_and_names_the_file_it_depends_on(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    state = page_picture("shop:tools", {"active": "orders,orders.returns", "profile": "till"})
    assert "└─ ● returns · open · 1 tool" in state.text
    assert state.file == shop / "shop.py"
    trace = page_picture("shop.py:tools", {"view": "sequence", "active": " orders "})
    assert trace.text.startswith("sequenceDiagram\n")
    assert trace.file == Path("shop.py")
    assert page_picture(None, {"view": "transaction"}).file is None
    assert "\n" not in state.html + trace.html
