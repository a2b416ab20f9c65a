"""Test vectors as data: short histories with their expected answers (SPEC CNF-7).

The files in `toolfold_specs/vectors` can be read by a kit in any language: their schema is `schema.json`, and
specs/VECTORS.md describes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

from ..attribution import NAMED, REFUSAL, observed
from ..checks import Check
from ..driver import Operation, Setup
from ..runs import Case, TestRun

Vector = Mapping[str, Any]

OPTIONAL = ("detail", "next_cursor")
"""Expected members that an answer may lack, because there is none or it is in a text."""


def load_vectors() -> tuple[Vector, ...]:
    """Return all vectors, in the order of the files' names."""
    folder = files("toolfold_specs") / "vectors"
    found = sorted((file for file in folder.iterdir() if file.name[0].isdigit()), key=lambda file: file.name)
    return tuple(vector for file in found for vector in json.loads(file.read_text(encoding="utf-8")))


def operation_of(step: Mapping[str, Any]) -> Operation:
    """Return the operation of a step."""
    session = {"session": step["session"]} if "session" in step else {}
    return Operation.from_json({"verb": step["do"], "arguments": step.get("with", {}), **session})


def check_of(vector: Vector) -> Check:
    """Return a vector as a check."""

    def run(test_run: TestRun) -> None:
        case = test_run.begin(Setup.from_json(vector["setup"]))
        if case is not None:
            _follow(case, vector)

    needs = {"setups", *vector.get("needs", ()), *_used(Setup.from_json(vector["setup"]))}
    return Check(vector["name"], "vectors", tuple(vector["clauses"]), run, needs)


def _used(setup: Setup) -> Iterator[str]:
    """Yield the capabilities that a system requires, whatever operations are performed."""
    if any(tool.when.startswith("fact ") for tool in setup.tools):
        yield "facts"
    if any(tool.when == "raises" for tool in setup.tools):
        yield "failing rules"
    if any(tool.hidden for tool in setup.tools):
        yield "hidden tools"
    if setup.relevant_controls:
        yield "relevant controls"
    if setup.max_active is not None:
        yield "recency" if setup.evict_idlest else "limits"
    if setup.page_size is not None:
        yield "paging"


def _follow(case: Case, vector: Vector) -> None:
    denials: dict[str, str] = {}
    seen: dict[str, bool] = {}
    for step in vector.get("steps", ()):
        operation = operation_of(step)
        expected = (name for name in step.get("expect", {}) if name not in OPTIONAL)
        members = [part for name in expected for part in ((REFUSAL, NAMED) if name == "error" else (name,))]
        if not case.do(operation, step.get("clause"), members or ("active",)):
            return
        seen |= {member: seen.get(member, True) and observed(case.last, member) for member in members}
        if case.last.error == "ToolNotFound" and case.last.text is not None:
            denials[operation.arguments["tool"]] = case.last.text
    _same_but_for_the_name(case, denials)
    if case.over:
        return
    case.test_run.holds()
    others = [clause for clause in vector["clauses"] if clause not in case.test_run.parts]
    for member, shown in (seen or {"active": True}).items():
        case.test_run.saw(shown, member, *others)


def _same_but_for_the_name(case: Case, denials: Mapping[str, str]) -> None:
    """Judge that unknown and unavailable tools are refused with the same text (SPEC CALL-1)."""
    texts = {text.replace(name, "NAME") for name, text in denials.items()}
    if len(texts) > 1:
        case.over = True
        message = f"unknown and unavailable tools are refused with different texts: {'; '.join(sorted(texts))}"
        case.test_run.violated("CALL-1", message, setup=case.setup, history=tuple(case.history))


CHECKS = tuple(check_of(vector) for vector in load_vectors())
