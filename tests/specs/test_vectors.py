"""The vectors: three sources agree on them, the data, the oracle and the core."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import jsonschema_rs
import pytest

from toolfold_specs.checks import run_checks
from toolfold_specs.clauses import load_clauses
from toolfold_specs.driver import AT_RUN_TIME, CAPABILITIES, Setup
from toolfold_specs.drivers.messages import load_schema
from toolfold_specs.layers.vectors import CHECKS, Vector, load_vectors, operation_of
from toolfold_specs.oracle import Oracle, refusal
from toolfold_specs.report import Status
from verification.library.driver import CoreDriver

VECTORS = load_vectors()
EMPTY: tuple[Any, ...] = (None, 0, False, [], {})


def has(answer: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Return whether an answer has the expected members; JSON omits empty ones, and errors may have more details."""
    return all(
        answer.get(name) == value
        or (value in EMPTY and answer.get(name) in EMPTY)
        or (name == "detail" and value.items() <= answer.get("detail", {}).items())
        for name, value in expected.items()
    )


@pytest.mark.spec("CNF-7")
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_oracle_returns_the_expected_answers(vector: Vector) -> None:
    setup = Setup.from_json(vector["setup"])
    refused = refusal(setup)
    assert (refused.error if refused else None) == vector.get("refused")
    if refused is not None:
        assert refused.clause in vector["clauses"]
        return
    oracle = Oracle(setup)
    world = oracle.initial
    for step in vector["steps"]:
        world, answer = oracle.apply(world, operation_of(step))
        assert has(json.loads(json.dumps(answer.to_json())), step.get("expect", {})), step
        oracle = oracle.following(operation_of(step))


@pytest.mark.spec("CNF-7", "INV-3")
def test_the_core_passes_every_vector() -> None:
    results = run_checks(CHECKS, CoreDriver)
    assert {result.check: result.violations for result in results if result.status is not Status.PASSED} == {}
    assert len(results) == len(VECTORS)


def test_vectors_are_as_their_schema_says() -> None:
    folder = files("toolfold_specs") / "vectors"
    schema = json.loads((folder / "schema.json").read_text("utf-8"))
    known = {**load_schema(), "$id": "https://vectors.invalid/drivers/protocol.schema.json"}
    registry = jsonschema_rs.Registry([(known["$id"], known)])
    validator = jsonschema_rs.validator_for(
        {**schema, "$id": "https://vectors.invalid/vectors/schema.json"}, registry=registry
    )
    validator.validate(list(VECTORS))
    for wrong in ({**VECTORS[0], "refused": "X", "steps": [{"do": "list"}]}, {**VECTORS[0], "needs": ["magic"]}):
        assert not validator.is_valid([wrong])


def test_the_verbs_of_vectors_and_their_arguments_are_those_of_the_driver_protocol() -> None:
    schema = load_schema()
    for verb in {step["do"] for vector in VECTORS for step in vector.get("steps", ())}:
        validator = jsonschema_rs.validator_for({**schema, "$ref": f"#/$defs/request.{verb}"})
        for vector in VECTORS:
            for step in (step for step in vector.get("steps", ()) if step["do"] == verb):
                validator.validate({"session": "main", **json.loads(json.dumps(operation_of(step).to_json()))})


def test_names_of_vectors_are_unique_and_their_clauses_and_capabilities_exist() -> None:
    names = [vector["name"] for vector in VECTORS]
    assert len(names) == len(set(names))
    assert {clause for vector in VECTORS for clause in vector["clauses"]} <= {clause.id for clause in load_clauses()}
    assert {need for vector in VECTORS for need in vector.get("needs", ())} <= {*CAPABILITIES, *AT_RUN_TIME}


def test_every_vector_expects_something() -> None:
    assert [
        vector["name"]
        for vector in VECTORS
        if "refused" not in vector and not any("expect" in step for step in vector["steps"])
    ] == []
