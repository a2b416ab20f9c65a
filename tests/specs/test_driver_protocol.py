"""The driver protocol as data: its document, its schema, and the messages that the kit sends and takes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from attrs import evolve, fields

from toolfold import ToolSet
from toolfold_adapters.mcp import build_server
from toolfold_specs import check
from toolfold_specs.driver import (
    AT_RUN_TIME,
    CAPABILITIES,
    OF_HANDLES,
    OF_PROFILES,
    Answer,
    Driver,
    DriverFault,
    NotSupported,
    Operation,
    Setup,
)
from toolfold_specs.drivers.link import Link
from toolfold_specs.drivers.messages import HELLO, introduction, load_schema, validated
from toolfold_specs.drivers.protocol import CLAIMED
from toolfold_specs.drivers.replies import TargetNotStarted
from toolfold_specs.drivers.tool import ToolDriver
from toolfold_specs.report import Verdict
from verification.library.driver import CoreDriver

DOCUMENT = (Path(__file__).parents[2] / "specs" / "DRIVER-PROTOCOL.md").read_text("utf-8")
SCHEMA = load_schema()
VERBS = [name.removeprefix("request.") for name in SCHEMA["$defs"] if name.startswith("request.")]
MINIMUM = {"setup": Setup().to_json()}

Message = dict[str, Any]


@pytest.fixture
def core() -> Iterator[CoreDriver]:
    driver = CoreDriver()
    yield driver
    driver.close()


def transcripts() -> list[list[tuple[Message, Message]]]:
    """The requests of each transcript in the document, with their responses."""
    blocks = [re.findall("^[→←] (.*)$", block, re.MULTILINE) for block in DOCUMENT.split("```")[1::2]]
    lines = [[json.loads(line) for line in block] for block in blocks]
    return [list(zip(block[::2], block[1::2], strict=True)) for block in lines]


def table(heading: str) -> Iterator[tuple[str, str]]:
    """The first and the last cell of each row of a table in the document."""
    rows = DOCUMENT.partition(f"| {heading} |")[2].partition("\n\n")[0].splitlines()[2:]
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        yield cells[0].strip('`"'), cells[-1]


def validate(name: str, message: object) -> None:
    jsonschema_rs.validator_for({**SCHEMA, "$ref": f"#/$defs/{name}"}).validate(message)


def respond(driver: CoreDriver, request: Message) -> Message:
    """Perform a request on Toolfold's own core."""
    arguments = request.get("arguments", {})
    match request["verb"]:
        case "hello":
            return {"protocol": 1, "capabilities": sorted(driver.capabilities)}
        case "configure":
            return driver.configure(Setup.from_json(arguments["setup"])).to_json()
        case "start":
            return {"ticket": driver.start(Operation.from_json(arguments["operation"]))}
        case "blocked":
            return {"blocked": driver.blocked()}
        case "release" | "cancel":
            getattr(driver, request["verb"])(**arguments)
            return {}
        case "finish":
            return driver.finish(arguments["ticket"]).to_json()
        case _:
            return driver.perform(Operation.from_json(request)).to_json()


@pytest.mark.spec("CNF-1")
def test_every_message_in_the_document_is_as_the_schema_says() -> None:
    for request, response in (pair for transcript in transcripts() for pair in transcript):
        validate(f"request.{request['verb']}", request)
        validate(f"response.{request['verb']}", response)


@pytest.mark.spec("CNF-1", "ACT-1", "ACT-2", "ACT-3", "ACT-4", "ACT-5")
@pytest.mark.parametrize("which", [0, 1])
def test_the_responses_in_the_document_are_those_of_the_core(core: CoreDriver, which: int) -> None:
    for request, response in transcripts()[which]:
        said = json.loads(json.dumps(respond(core, request)))
        if request["verb"] == "hello":  # the core can do more
            assert set(response.pop("capabilities")) < set(said.pop("capabilities"))
        assert response.items() <= said.items()


@pytest.mark.spec("CNF-8")
def test_the_document_has_every_verb_and_every_capability() -> None:
    shown = {request["verb"] for transcript in transcripts() for request, _ in transcript}
    assert {name for name, _ in table("verb | arguments | response | capability")} == set(VERBS)
    assert shown == set(VERBS) - {"observe", "expire"}
    assert dict(table("capability |")) == {**CAPABILITIES, **AT_RUN_TIME, **OF_PROFILES, **OF_HANDLES}


@pytest.mark.spec("CNF-8")
def test_the_schema_has_the_verbs_and_capabilities_of_drivers() -> None:
    methods = {name for name, value in vars(Driver).items() if callable(value)}
    assert set(VERBS) - {"hello", "observe", "expire"} == methods - {"perform", "close", "exchange", "fail_over"}
    assert {f"response.{verb}" for verb in VERBS} <= set(SCHEMA["$defs"])
    assert set(SCHEMA["$defs"]["capability"]["enum"]) == {*CAPABILITIES, *AT_RUN_TIME, *OF_PROFILES, *OF_HANDLES}
    assert set(SCHEMA["$defs"]["outcome"]["properties"]) == {member.name for member in fields(Answer)}
    assert {*CAPABILITIES, *OF_HANDLES} > CLAIMED
    jsonschema_rs.meta.validate(SCHEMA)


@pytest.mark.spec("CNF-1")
def test_what_the_kit_sends_is_as_the_schema_says() -> None:
    validate("request.hello", HELLO)
    validate("request.configure", {"verb": "configure", "arguments": MINIMUM})
    validate("request.restore", Operation("restore", {"setup": Setup()}).to_json())
    validate(
        "request.transition",
        json.loads(json.dumps(Operation("transition", {"activate": ("a",), "deactivate": ()}).to_json())),
    )


@pytest.mark.spec("CNF-8")
@pytest.mark.parametrize(
    ("verb", "response", "message"),
    [
        ("activate", "yes", '"yes" is not of type "object"'),
        ("activate", {"active": "a"}, 'in active: "a" is not'),
        ("activate", {"active": ["a", 3]}, 'in active/1: 3 is not of type "string"'),
        ("activate", {"actvie": ["a"]}, "'actvie' was unexpected"),
        ("activate", {"hooks": [["on_activate"]]}, "in hooks/0"),
        ("activate", {"changed": 1}, "in changed: 1 is not"),
        ("snapshot", {"notified": -1}, "in notified: -1 is less than"),
        ("start", {"ticket": "one"}, 'in ticket: "one" is not'),
        ("hello", {"protocol": 1}, '"capabilities" is a required property'),
        ("hello", {"protocol": 1, "capabilities": ["telepathy"]}, 'in capabilities/0: "telepathy" is not one of'),
    ],
)
def test_a_response_that_the_schema_does_not_allow_is_a_fault_of_the_driver(
    verb: str, response: object, message: str
) -> None:
    with pytest.raises(DriverFault, match=re.escape(message)) as caught:
        validated(verb, response)
    assert str(caught.value).startswith(f"Its response to {verb} breaks the driver protocol")


def test_a_member_that_is_null_is_as_if_it_were_left_out() -> None:
    nulls = dict.fromkeys(("error", "detail", "changed", "active", "hooks", "notified", "tools", "groups", "text"))
    assert validated("activate", {**nulls, "changed": True}) == {"changed": True}


def test_an_unsupported_verb_is_distinguished_from_a_refusal() -> None:
    with pytest.raises(NotSupported, match="does not support transition"):
        validated("transition", {"error": "NotSupported"})
    assert validated("transition", {"error": "GroupNotFound"}) == {"error": "GroupNotFound"}


def test_a_driver_of_another_version_is_turned_away() -> None:
    with pytest.raises(DriverFault, match="version 2 of the driver protocol, and this kit version 1"):
        introduction({"protocol": 2, "abilities": {}})
    assert introduction({"protocol": 1, "capabilities": ["setups"]}).capabilities == {"setups"}


class Odd(CoreDriver):
    """A driver in process that answers a request with something else."""

    def perform(self, operation: Operation) -> Any:
        return self.odd(super().perform(operation))

    def odd(self, answer: Answer) -> Any:
        return None


class Mistyped(Odd):
    def odd(self, answer: Answer) -> Answer:
        text: Any = " ".join(answer.active or ())
        return evolve(answer, active=text)


class Lists(Odd):
    def odd(self, answer: Answer) -> Answer:
        lists: dict[str, Any] = {
            "active": list(answer.active or ()),
            "hooks": [list(hook) for hook in answer.hooks or ()],
        }
        return evolve(answer, **lists)


@pytest.mark.spec("CNF-8")
@pytest.mark.parametrize(
    ("driver", "reason"),
    [
        (Odd, r"It answered \w+ with something other than an Answer: None\."),
        (Mistyped, r'Its response to \w+ breaks the driver protocol in active: "" is not of types'),
    ],
)
def test_nonsense_in_process_violates_no_clause_either(driver: type[Driver], reason: str) -> None:
    report = check(driver, layers=["exhaustive"], budget=100)
    assert (report.exit_status, report.violations) == (2, ())
    assert any(re.match(reason, result.reason) for result in report.results)


def test_lists_in_answers_are_as_good_as_tuples() -> None:
    report = check(Lists, layers=["exhaustive"], budget=100)
    assert (report.exit_status, report.violations) == (0, ())


def behind_a_tool(driver: CoreDriver) -> ToolSet:
    """The one tool of an MCP server, behind which the core is driven in a thread, as its loop is its own."""
    tools = ToolSet("driver")

    def handle(request: Message) -> Message:
        return respond(driver, request)

    tools.register("conformance_driver", handle, input_schema={"type": "object"})
    return tools


@pytest.mark.spec("CNF-1", "CNF-8")
def test_the_whole_protocol_goes_over_a_tool_of_an_mcp_server_too(core: CoreDriver) -> None:
    report = check(
        lambda: ToolDriver(Link(build_server(behind_a_tool(core)))), layers=["vectors", "schedules"], budget=100
    )
    held = {row.clause.id for row in report.rows if row.verdict is Verdict.HELD}
    assert held >= {"ACT-4", "ACT-9", "HOOK-2", "PER-1", "LST-4"}
    assert (report.exit_status, report.violations) == (0, ())


def test_a_server_without_the_tool_could_not_be_started_as_a_driver() -> None:
    with pytest.raises(TargetNotStarted, match=r"conformance_driver failed to hello: .*conformance_driver"):
        ToolDriver(Link(build_server(ToolSet("plain"))))
