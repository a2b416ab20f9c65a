"""What is found in GitLab's server, and checks that confirm it without the kit."""

from tests.external.foreign.client import Client
from tests.external.foreign.confirming import UNKNOWN, Dispute, Finding, any_text_is_a_cursor, open_schema


def new_tools_come_last(client: Client) -> None:
    """Tools of a category that is opened follow all the others."""
    before = client.names()
    client.call("discover_tools", category="labels")
    after = client.names()
    assert after[: len(before)] == before
    assert sorted(after) != after


def parameters_are_left_out(client: Client) -> None:
    """The answer has the name of a new tool, and nothing of its parameters."""
    answer = str(client.call("discover_tools", category="labels"))
    assert "list_labels" in answer
    assert "project_id" not in answer


def closed_tools_are_called(client: Client) -> None:
    """A tool that is not in the list is run: what fails is its request to GitLab, which is not there."""
    assert "list_labels" not in client.names()
    closed = client.call("list_labels", project_id="1")
    assert "Unknown tool" not in str(closed)
    assert "Unknown tool" in str(client.call(UNKNOWN))


def unknown_tool_is_an_internal_error(client: Client) -> None:
    """The code is that of a fault of the server."""
    assert client.call(UNKNOWN)["error"]["code"] == -32603


FINDINGS: dict[str, Finding] = {
    "LST-1": Finding("Tools come as they were declared, those of an opened category at the end.", new_tools_come_last),
    "LST-3": Finding("Any text is taken for a cursor, and the whole list comes back.", any_text_is_a_cursor),
    "CTL-4": Finding(
        "The answer of `discover_tools` says what is new by name, without parameters.",
        parameters_are_left_out,
    ),
    "CTL-6": Finding("The schema of `discover_tools` takes any argument.", open_schema("discover_tools")),
    "CALL-1": Finding(
        "Tools of categories that are not open are callable all the same: listing is gated, calling is not.",
        closed_tools_are_called,
    ),
    "DEL-9": Finding("An unknown tool is −32603, an internal error.", unknown_tool_is_an_internal_error),
}
DISPUTES: dict[str, Dispute] = {}
