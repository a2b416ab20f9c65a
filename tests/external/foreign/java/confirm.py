"""What is found in the Java SDK, and checks that confirm it without the kit."""

from tests.external.foreign.confirming import (
    Dispute,
    Finding,
    any_text_is_a_cursor,
    in_order_of,
    notified_more_than_once,
    open_schema,
    silent_answer,
)

FINDINGS: dict[str, Finding] = {
    "LST-1": Finding(
        "Tools are listed in the order in which they were added last.",
        in_order_of(["activate_live", "activate_finance"], "execute", "analyse"),
    ),
    "LST-3": Finding("Any text is taken for a cursor, and the whole list comes back.", any_text_is_a_cursor),
    "CTL-4": Finding(
        "Controls are the author's own tools, so an answer does not say what can be called now.",
        silent_answer("activate_files", "read_note"),
    ),
    "CTL-6": Finding(
        "Schemas are as the author writes them, and this one's take any argument.", open_schema("activate_files")
    ),
    "NTF-1": Finding(
        "Each tool that is added or removed causes a notice of its own: three for a group of three tools.",
        notified_more_than_once("activate_files"),
    ),
    "DEL-1": Finding(
        "For the same reason a client gets three notices of one change.", notified_more_than_once("activate_files")
    ),
}
DISPUTES: dict[str, Dispute] = {}
