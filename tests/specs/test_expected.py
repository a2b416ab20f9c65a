"""The adopter's file of expected failures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.specs.made import CHECKS, PAIRS
from toolfold_specs.expected import ExpectationError, load_expected
from toolfold_specs.report import Expectation

pytestmark = pytest.mark.spec("CNF-4")


def expected(folder: Path, text: str) -> tuple[Expectation, ...]:
    path = folder / "expected.toml"
    path.write_text(text, encoding="utf-8")
    return load_expected(path, CHECKS)


def test_a_file_is_read_in_its_order(tmp_path: Path) -> None:
    text = f"""
        [[expected]]
        clause = "ACT-10"
        reason = "no limit yet"

        [[expected]]
        clause = "ACT-4"
        check = "{PAIRS.name}"
        setting = "stdio, legacy"
        reason = "issue 12"
    """
    assert expected(tmp_path, text) == (
        Expectation("ACT-10", "no limit yet"),
        Expectation("ACT-4", "issue 12", PAIRS.name, "stdio, legacy"),
    )


def test_an_empty_file_expects_nothing(tmp_path: Path) -> None:
    assert expected(tmp_path, "") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[expected", "is not a TOML file"),
        ("clause = 'ACT-4'", "something other than [[expected]] tables"),
        ("expected = 'ACT-4'", "something other than [[expected]] tables"),
        ("expected = ['ACT-4']", "number 1: is not a table"),
        ("[[expected]]\nclause = 'ACT-4'", "number 1: 'reason' is missing"),
        ("[[expected]]\nreason = 'x'", "number 1: 'clause' is missing"),
        ("[[expected]]\nclause = 'ACT-4'\nreason = ' '", "'reason' must be a non-empty text"),
        ("[[expected]]\nclause = 4\nreason = 'x'", "'clause' must be a non-empty text, not 4"),
        (
            "[[expected]]\nclause = 'ACT-4'\nreason = 'x'\nbecause = 'y'",
            "'because' is unknown; there are clause, reason",
        ),
        ("[[expected]]\nclause = 'ACT-44'\nreason = 'x'", "there is no clause 'ACT-44'. Did you mean 'ACT-4'"),
        (
            "[[expected]]\nclause = 'ACT-4'\nreason = 'x'\ncheck = 'two groups'",
            "no check 'two groups'. Those about ACT-4: two groups that",
        ),
        ("[[expected]]\nclause = 'ACT-4'\nreason = 'x'\ncheck = 'root is no group'", "is not about ACT-4"),
        ("[[expected]]\nclause = 'ACT-4'\nreason = 'x'\n" * 2, "number 2: ACT-4 is listed twice"),
    ],
)
def test_an_inconsistent_file_is_refused_with_the_location(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ExpectationError) as refused:
        expected(tmp_path, text)
    assert "expected.toml" in str(refused.value)
    assert message in str(refused.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExpectationError, match="can't be read: No such file"):
        load_expected(tmp_path / "nowhere.toml")
