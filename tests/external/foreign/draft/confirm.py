"""What is found in a server with the draft of groups, and checks that confirm it without the kit."""

from tests.external.foreign.client import Client
from tests.external.foreign.confirming import Dispute, Finding, any_text_is_a_cursor


def unknown_group_has_its_own_code(client: Client) -> None:
    """An unknown group is not an invalid parameter."""
    assert client.ask("groups/get", name="no-such-group")["error"]["code"] == -32002


FINDINGS: dict[str, Finding] = {
    "LST-3": Finding(
        "The low-level server hands cursors to the author's function, which ignores them.", any_text_is_a_cursor
    ),
    "DEL-5": Finding(
        "An unknown group is −32002, which is the draft's own code; this specification wants −32602, as the revision "
        "of the protocol has it for invalid parameters.",
        unknown_group_has_its_own_code,
    ),
}
DISPUTES: dict[str, Dispute] = {}
