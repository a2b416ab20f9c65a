"""How concurrent transitions behave under several protocols: what SPIN finds, and how its answers are read."""

from __future__ import annotations

import os
import re
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from toolfold import ToolSet
from toolfold.errors import ParentInactive
from toolfold.machine import TransitionRequest, plan, restore
from toolfold.machine.step import EFFECTS
from verification.spin.checking import (
    INSTALL,
    STEPS,
    VARIANTS,
    Outcome,
    Property,
    SpinFailed,
    Variant,
    check,
    missing,
    parse,
    unused_rows,
)


@pytest.fixture(scope="session")
def programs() -> None:
    """Skip a test if SPIN or a compiler is missing; with TESTS_EXTERNAL=required, fail it."""
    if lacking := missing():
        reason = f"{' and '.join(lacking)} not installed; {INSTALL}"
        if os.environ.get("TESTS_EXTERNAL") == "required":
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.mark.spec("SES-2", "HOOK-5", "HOOK-6", "HOOK-7", "PER-3", "CNF-7")
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_each_protocol_satisfies_what_it_should_and_each_weaker_one_violates_something(
    programs: None, variant: Variant
) -> None:
    outcomes = check(variant)
    assert {asked: found.verdict for asked, found in outcomes.items()} == {
        asked: variant.expected(asked) for asked in variant.asked
    }, outcomes
    assert all(found.states > (1000 if found.verdict == "holds" else 1) for found in outcomes.values())


def table_of_the_model(folder: Path) -> dict[tuple[int, int], int]:
    """What the model's STEP gives for each legal state and request: its macros are C but for the conditional."""
    model = (files("verification.spin") / "activation.pml").read_text(encoding="utf-8")
    macros = model[model.index("#define A 1") : model.index("byte state;")].replace("->", "?")
    loops = "for (int s = 0; s < 16; s++) if (LEGAL(s)) for (int r = 0; r < 8; r++)"
    source = f'#include <stdio.h>\n{macros}\nint main() {{ {loops} printf("%d %d %d\\n", s, r, STEP(s, r)); }}\n'
    (folder / "table.c").write_text(source, encoding="utf-8")
    subprocess.run(["gcc", "-w", "-o", "table", "table.c"], cwd=folder, check=True)
    lines = subprocess.run([str(folder / "table")], check=True, capture_output=True, text=True).stdout.splitlines()
    rows = [tuple(map(int, line.split())) for line in lines]
    return {(state, request): after for state, request, after in rows}


@pytest.mark.spec("CNF-7")
def test_a_transition_of_the_model_is_a_transition_of_the_core(programs: None, tmp_path: Path) -> None:
    tools = ToolSet("model")
    paths = ("a", "a.b", "c", "d")
    for path in paths:
        tools.register_group(path, path)
    tools.register_exclusion("a", "c")
    tools.register_exclusion("a.b", "d")
    catalog = tools.catalog
    bits = {path: 1 << number for number, path in enumerate(paths)}

    def stepped(state: int, request: int) -> int:
        path = paths[request % 4]
        now = restore(catalog.forest, [path for path in paths if state & bits[path]]).after
        try:
            after = plan(now, TransitionRequest((path,)) if request < 4 else TransitionRequest((), (path,))).after
        except ParentInactive:
            return state
        return sum(bits[path] for path in after.paths)

    table = table_of_the_model(tmp_path)
    assert len(table) == 7 * 8
    assert table == {(state, request): stepped(state, request) for state, request in table}


def test_every_protocol_is_expected_to_satisfy_something_and_each_property_to_be_violated_somewhere() -> None:
    assert all(variant.violated < set(variant.model.properties) for variant in VARIANTS)
    assert {asked for variant in VARIANTS for asked in variant.violated} == set(Property)


OF_STORES = {("planned", "leased"), ("planned", "news"), ("planned", "left"), ("saving", "conflict")}


@pytest.mark.spec("ACT-11", "HOOK-10")
def test_the_model_of_the_life_of_transitions_uses_every_row_but_those_of_stores(programs: None) -> None:
    two = next(variant for variant in VARIANTS if variant.name == "the core: two clients")
    lost = {(state, "lost") for state in EFFECTS if state != "new"}
    unused = {tuple(re.findall(r"(?:at|event) == (?:at|on)_(\w+)", row)) for row in unused_rows(two)}
    assert unused == {(state.replace(".", "_"), event) for state, event in OF_STORES | lost}


def test_a_model_that_spin_refuses_is_an_error_and_no_outcome(programs: None) -> None:
    wrong = Variant(STEPS, "wrong", (("PROTOCOL", "NO_SUCH_PROTOCOL"),))
    with pytest.raises(SpinFailed, match="spin"):
        check(wrong)


# Reading the output

HOLDS = """
(Spin Version 6.5.2)
Full statespace search for:
	never claim         	+ (legal)
State-vector 48 byte, depth reached 114, errors: 0
    34237 states, stored
pan: elapsed time 0.03 seconds
"""
ASSERTION = """
pan: ltl formula legal
pan:1: assertion violated  !( !(legal)) (at depth 85)
pan: wrote activation.pml.trail
Warning: Search not completed
State-vector 48 byte, depth reached 98, errors: 1
      285 states, stored
"""
DEADLOCK = """
pan:1: invalid end state (at depth 21)
Warning: Search not completed
State-vector 40 byte, depth reached 22, errors: 1
       14 states, stored
"""
TOO_DEEP = """
error: max search depth too small
State-vector 48 byte, depth reached 9, errors: 0
        1 states, stored
"""
OUT_OF_MEMORY = """
pan: reached -DMEMLIM bound
Warning: Search not completed
State-vector 48 byte, depth reached 93, errors: 0
 14756655 states, stored
"""


@pytest.mark.parametrize(
    ("output", "asked", "outcome"),
    [
        (HOLDS, Property.LEGAL, Outcome("holds", 34237, 114)),
        (ASSERTION, Property.LEGAL, Outcome("violated", 285, 98)),
        (DEADLOCK, Property.NO_DEADLOCK, Outcome("violated", 14, 22)),
        (DEADLOCK, Property.LEGAL, Outcome("unknown", 14, 22, "invalid end state (at depth 21)")),
        (
            ASSERTION,
            Property.NO_DEADLOCK,
            Outcome("unknown", 285, 98, "assertion violated  !( !(legal)) (at depth 85)"),
        ),
        (TOO_DEEP, Property.LEGAL, Outcome("unknown", 1, 9, "max search depth too small")),
        (OUT_OF_MEMORY, Property.LEGAL, Outcome("unknown", 14756655, 93, "reached -DMEMLIM bound")),
        ("", Property.LEGAL, Outcome("unknown", reason="no result in the output: it is empty")),
    ],
)
def test_an_outcome_is_read_from_the_output_of_a_verifier(output: str, asked: Property, outcome: Outcome) -> None:
    assert parse(output, asked) == outcome
