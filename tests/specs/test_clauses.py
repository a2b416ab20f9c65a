import re

import pytest
from attrs import evolve

from toolfold_specs.checks import LAYERS
from toolfold_specs.clauses import (
    SUMMARY_LENGTH,
    Clause,
    digest,
    load_clauses,
    load_digests,
    load_revision,
    parse_clauses,
)
from toolfold_specs.layers import all_checks

ONE = """
[[clause]]
id = "ACT-1"
section = "4 Transitions"
level = "MUST"
sources = ["A", "T"]
text = '''
Unknown group: `GroupNotFound`.
No transition ever creates a group.
'''
"""


def test_every_clause_is_loaded_in_the_order_of_the_sections() -> None:
    sections = [int(clause.section.partition(" ")[0]) for clause in load_clauses()]
    assert sections == sorted(sections)
    assert set(sections) == set(range(2, 34))


def test_the_numbers_of_a_family_are_consecutive() -> None:
    families: dict[str, set[int]] = {}
    for clause in load_clauses():
        family, _, number = clause.id.partition("-")
        families.setdefault(family, set()).add(int(number))
    assert all(numbers == set(range(1, len(numbers) + 1)) for numbers in families.values())


def test_only_the_invariants_have_no_source() -> None:
    assert {clause.id for clause in load_clauses() if not clause.sources} == {f"INV-{n}" for n in range(1, 6)}


def test_a_clause_that_another_one_cites_exists() -> None:
    clauses = load_clauses()
    families = {clause.id.partition("-")[0] for clause in clauses}
    cited = {
        match[0]
        for clause in clauses
        for match in re.finditer(r"\b([A-Z]+)-[0-9]+\b", clause.text)
        if match[1] in families
    }
    assert cited <= {clause.id for clause in clauses}


def test_the_normative_content_of_a_revision_is_frozen() -> None:
    now = digest(load_clauses())
    assert load_digests()[load_revision()] == now, (
        f'a clause has changed: rename the revision in clauses.toml, and add `NAME = "{now}"` to revisions.toml'
    )


def test_the_digest_depends_on_every_normative_part() -> None:
    (clause,) = parse_clauses(ONE)
    changed = [evolve(clause, id="ACT-2"), evolve(clause, level="SHOULD"), evolve(clause, text="Other.")]
    assert len({digest([one]) for one in (clause, *changed)}) == 4
    assert digest([evolve(clause, open=True, layers=("vectors",))]) == digest([clause])


def test_a_text_is_normalised() -> None:
    (clause,) = parse_clauses(ONE)
    assert clause == Clause(
        id="ACT-1",
        section="4 Transitions",
        level="MUST",
        text="Unknown group: `GroupNotFound`. No transition ever creates a group.",
        sources=["A", "T"],
    )


def test_a_summary_is_the_first_sentence() -> None:
    (clause,) = parse_clauses(ONE)
    assert clause.summary == "Unknown group: `GroupNotFound`."


def test_a_long_summary_is_cut_at_a_word_and_outside_code() -> None:
    words = "word " * 18
    cut = Clause(id="ACT-1", section="4", level="MUST", text=f"{words}`some code that does not fit`.").summary
    assert cut == f"{words}…"
    assert all(len(clause.summary) <= SUMMARY_LENGTH + 2 for clause in load_clauses())
    assert all(clause.summary.count("`") % 2 == 0 for clause in load_clauses())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"MUST"', '"OUGHT"', "clause ACT-1 is malformed: 'level' must be in"),
        ('"ACT-1"', '"act1"', "clause act1 is malformed: 'id' must match"),
        ('["A", "T"]', '["Z"]', "clause ACT-1 is malformed: 'sources' must be in"),
        ('id = "ACT-1"', "", "clause number 1 is malformed: .*'id'"),
        ("level", "open = 1\nlevel", "clause ACT-1 is malformed: 'open' must be"),
        ("level", "color = 1\nlevel", "clause ACT-1 is malformed: .*'color'"),
    ],
    ids=["level", "id", "source", "no id", "open", "unknown key"],
)
def test_a_malformed_clause_is_refused_by_name(old: str, new: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_clauses(ONE.replace(old, new, 1))


def test_a_clause_that_occurs_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="clause ACT-1 occurs twice"):
        parse_clauses(ONE + ONE)


def test_the_clauses_name_the_layers_that_check_them() -> None:
    checking = {(clause, check.layer) for check in all_checks() for clause in check.clauses}
    expected = {
        clause.id: tuple(layer for layer in LAYERS if (clause.id, layer) in checking) for clause in load_clauses()
    }
    assert {clause.id: clause.layers for clause in load_clauses()} == expected
