"""The messages of the driver protocol, validated by its schema, protocol.schema.json (specs/DRIVER-PROTOCOL.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, cast

import jsonschema_rs
from attrs import field, fields, frozen

from toolfold_specs.driver import Answer, DriverFault, NotSupported

VERSION: Final = 1
NOT_SUPPORTED: Final = "NotSupported"
SHORT: Final = 200  # characters of what a driver sent that are quoted

OBSERVED: Final = tuple(member.name for member in fields(Answer) if member.name != "detail")

HELLO: Final = {"verb": "hello", "arguments": {"protocol": VERSION}}


@frozen
class Introduction:
    """What a driver says of itself in its response to `hello`."""

    capabilities: frozenset[str]
    left_out: Mapping[str, str] = field(factory=dict[str, str])
    call_tool: str | None = None
    by_arguments: bool = False
    """Whether handles go with the arguments of a modern request."""


def load_schema() -> dict[str, Any]:
    """Return the JSON Schema of the protocol: `$defs` has a `request.VERB` and a `response.VERB` for each verb."""
    return cast(
        "dict[str, Any]",
        json.loads(files("toolfold_specs.drivers").joinpath("protocol.schema.json").read_text("utf-8")),
    )


def validated(verb: str, response: object) -> dict[str, Any]:
    """Return a response without the members that are null.

    Args:
        verb: The verb of the request.
        response: What the driver sent, as JSON data.

    Raises:
        NotSupported: The driver does not have the verb.
        DriverFault: The schema does not allow the response.
    """
    error = next(_validator(f"response.{verb}").iter_errors(response), None)
    if error is not None:
        place = f" in {'/'.join(map(str, error.instance_path))}" if error.instance_path else ""
        raise DriverFault(f"Its response to {verb} breaks the driver protocol{place}: {error.message[:SHORT]}.")
    known = {name: value for name, value in cast("dict[str, Any]", response).items() if value is not None}
    if known.get("error") == NOT_SUPPORTED:
        raise NotSupported(f"It does not support {verb}, which belongs to a capability that it names.")
    return known


def accepted(verb: str, response: object) -> Mapping[str, Any]:
    """Return the response to a request that can't be refused, as `validated` does."""
    said = validated(verb, response)
    if "error" in said:
        raise DriverFault(f"It refused {verb}, which can't be refused: {said['error']}.")
    return said


def introduction(response: object) -> Introduction:
    """Return what a response to `hello` says; raises `DriverFault` if it is for another version, or is none."""
    match response:
        case {"protocol": int(version)} if version != VERSION:
            raise DriverFault(f"It speaks version {version} of the driver protocol, and this kit version {VERSION}.")
        case _:
            said = validated("hello", response)
    return Introduction(
        frozenset(said["capabilities"]),
        said.get("left_out", {}),
        said.get("call_tool"),
        said.get("handles") == "arguments",
    )


def checked(verb: str, answer: object) -> Answer:
    """Return what a driver in process answered, its lists as tuples.

    Raises:
        DriverFault: It is not an `Answer`, or the schema does not allow it as a response.
    """
    if not isinstance(answer, Answer):
        raise DriverFault(f"It answered {verb} with something other than an Answer: {repr(answer)[:SHORT]}.")
    seen = {name: value for name in OBSERVED if (value := getattr(answer, name)) is not None}
    if not _validator(f"response.{verb}").is_valid(seen):
        validated(verb, seen)
    listed = any(isinstance(value, list) for value in (*seen.values(), *seen.get("hooks", ())))
    return Answer.from_json(answer.to_json()) if listed else answer


@cache
def _validator(name: str) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for({**load_schema(), "$ref": f"#/$defs/{name}"})
