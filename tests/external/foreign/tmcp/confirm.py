"""What is found in tmcp, and checks that confirm it without the kit."""

from tests.external.foreign.client import Client
from tests.external.foreign.confirming import Dispute, Finding, open_schema, silent_answer


def any_number_is_a_cursor(client: Client) -> None:
    """A cursor that no one gave out gets a part of the list."""
    names = client.names()
    assert [tool["name"] for tool in client.ask("tools/list", cursor="2")["result"]["tools"]] == names[2:]


def refusal_is_an_error_of_the_protocol(client: Client) -> None:
    """The control is in the list, and to call it while the parent is closed is no result."""
    assert "files.edit.activate" in client.names()
    assert client.call("files.edit.activate")["error"]["message"] == "Group 'files.edit' requires active parent 'files'"


FINDINGS: dict[str, Finding] = {
    "LST-3": Finding(
        "A cursor is an offset in plain sight, so that any number up to that of the tools is one.",
        any_number_is_a_cursor,
    ),
    "CTL-4": Finding("The answer to an activation is empty.", silent_answer("files.activate", "files.read_note")),
    "CTL-5": Finding(
        "To open a group in one that is closed is refused with an error of the protocol, −32602, which a model may not "
        "be shown; its text does name the parent.",
        refusal_is_an_error_of_the_protocol,
    ),
    "CTL-6": Finding("The schema of a control takes any argument.", open_schema("files.activate")),
}
DISPUTES: dict[str, Dispute] = {}
