"""What is found in the TypeScript SDK, and checks that confirm it without the kit."""

from tests.external.foreign.client import Client
from tests.external.foreign.confirming import (
    UNKNOWN,
    Dispute,
    Finding,
    any_text_is_a_cursor,
    in_order_of,
    list_changes,
    no_handle,
    notified_more_than_once,
    open_schema,
    silent_answer,
)


def disabled_tools_are_known(client: Client) -> None:
    """A tool that is switched off is answered in other words than one that does not exist."""
    disabled = client.call("read_note", name="a")["error"]["message"]
    unknown = client.call(UNKNOWN)["error"]["message"]
    assert disabled.replace("read_note", UNKNOWN) != unknown


FINDINGS: dict[str, Finding] = {
    "LST-1": Finding(
        "Tools are listed in the order of their registration.",
        in_order_of(["activate_files", "activate_sandbox"], "rehearse", "read_note"),
    ),
    "LST-3": Finding("Any text is taken for a cursor, and the whole list comes back.", any_text_is_a_cursor),
    "CTL-4": Finding(
        "Controls are the author's own tools, so an answer does not say what can be called now.",
        silent_answer("activate_files", "read_note"),
    ),
    "CTL-6": Finding("The schema of a tool without parameters takes any argument.", open_schema("activate_files")),
    "CALL-1": Finding(
        "A tool that is disabled is answered with `disabled`, one that does not exist with `not found`: a client "
        "learns what it is not shown.",
        disabled_tools_are_known,
    ),
    "NTF-1": Finding(
        "Each tool that is enabled or disabled causes a notice of its own: three for a group of three tools.",
        notified_more_than_once("activate_files"),
    ),
    "DEL-1": Finding(
        "For the same reason a client gets three notices of one change.", notified_more_than_once("activate_files")
    ),
    "DEL-2": Finding("There is no handle to distinguish two users of one process.", no_handle("activate_files")),
    "DEL-7": Finding(
        "An activation changes the list that later requests of the same process are given.",
        list_changes("activate_files"),
    ),
}
DISPUTES: dict[str, Dispute] = {}
