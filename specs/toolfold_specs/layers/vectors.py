"""Vectors as data: short histories with the answers that they must have (SPEC CNF-7).

The files in `toolfold_specs/vectors` can be read by a kit in any language. Each is a list of vectors:

name      what is so, in a sentence
clauses   what it is evidence for
needs     capabilities, beside "setups" (absent: none)
setup     the system, as `Setup.to_json` writes it; members that are absent have their defaults
refused   the error with which the setup must be refused; such a vector has no steps
steps     operations: `do` is the verb, `with` its arguments, `session` the session if it is not the main one,
          `expect` what the answer must have among other things, `clause` the clause that a wrong answer breaks where
          that does not follow from the answer itself
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

from ..checks import Check
from ..driver import Answer, Operation, Setup
from ..evidence import REFUSAL, observed
from ..runs import Case, TestRun

Vector = Mapping[str, Any]

OPTIONAL = ("detail", "next_cursor")
"""What a step may expect, and an answer may leave out: there is none, or it is said in words."""


def load_vectors() -> tuple[Vector, ...]:
    """Return all vectors, file by file in the order of their names."""
    folder = files("toolfold_specs") / "vectors"
    found = sorted((file for file in folder.iterdir() if file.name.endswith(".json")), key=lambda file: file.name)
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
    """Yield the capabilities that a system makes use of, whatever is done with it."""
    if any(tool.when.startswith("fact ") for tool in setup.tools):
        yield "facts"
    if any(tool.hidden for tool in setup.tools):
        yield "hidden tools"
    if setup.relevant_controls:
        yield "relevant controls"
    if setup.max_active is not None:
        yield "limits"
    if setup.page_size is not None:
        yield "paging"


def _follow(case: Case, vector: Vector) -> None:
    denials: dict[str, str] = {}
    unseen: list[tuple[Answer, str]] = []
    for step in vector.get("steps", ()):
        operation = operation_of(step)
        members = [REFUSAL if name == "error" else name for name in step.get("expect", {}) if name not in OPTIONAL]
        if not case.do(operation, step.get("clause"), members or ("active",)):
            return
        unseen += [(case.last, member) for member in members if not observed(case.last, member)]
        if case.last.error == "ToolNotFound" and case.last.text is not None:
            denials[operation.arguments["tool"]] = case.last.text
    _same_but_for_the_name(case, denials)
    if case.over:
        return
    case.test_run.holds()
    answer, member = unseen[0] if unseen else (Answer(active=()), "active")
    noted = case.test_run.shown.keys() | case.test_run.unseen.keys()
    case.test_run.showed(answer, {clause: member for clause in vector["clauses"] if clause not in noted})


def _same_but_for_the_name(case: Case, denials: Mapping[str, str]) -> None:
    """Unknown and unavailable tools must be denied in the same words (SPEC CALL-1)."""
    texts = {text.replace(name, "NAME") for name, text in denials.items()}
    if len(texts) > 1:
        case.over = True
        message = f"unknown and unavailable tools are denied in different words: {'; '.join(sorted(texts))}"
        case.test_run.violated("CALL-1", message, setup=case.setup, history=tuple(case.history))


CHECKS = tuple(check_of(vector) for vector in load_vectors())
