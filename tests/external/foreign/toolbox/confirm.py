"""What is found in the toolbox for databases, and checks that confirm it without the kit."""

from tests.external.foreign.confirming import Dispute, Finding, any_text_is_a_cursor

FINDINGS: dict[str, Finding] = {
    "LST-3": Finding("Any text is taken for a cursor, and the whole list comes back.", any_text_is_a_cursor)
}
DISPUTES: dict[str, Dispute] = {}
