"""What is found in the server for Kubernetes, and checks that confirm it without the kit."""

from tests.external.foreign.confirming import Dispute, Finding, any_text_is_a_cursor, unknown_tool_is_a_result

FINDINGS: dict[str, Finding] = {
    "LST-3": Finding("Any text is taken for a cursor, and the whole list comes back.", any_text_is_a_cursor),
    "DEL-9": Finding("An unknown tool is answered by a result with `isError`.", unknown_tool_is_a_result),
}
DISPUTES: dict[str, Dispute] = {}
