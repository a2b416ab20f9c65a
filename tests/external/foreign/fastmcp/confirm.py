"""What is found in FastMCP, and checks that confirm it without the kit."""

from tests.external.foreign.confirming import (
    Dispute,
    Finding,
    any_text_is_a_cursor,
    in_order_of,
    list_changes,
    no_annotations,
    no_handle,
    notified_again,
    silent_answer,
    unknown_tool_is_a_result,
)

FINDINGS: dict[str, Finding] = {
    "LST-1": Finding(
        "Tools are listed in the order of their declaration.",
        in_order_of(["activate_files", "activate_live"], "read_note", "execute"),
    ),
    "LST-3": Finding("Any text is taken for a cursor, and the whole list comes back.", any_text_is_a_cursor),
    "CTL-4": Finding(
        "Controls are the author's own tools, so an answer does not say what can be called now.",
        silent_answer("activate_files", "read_note"),
    ),
    "CTL-6": Finding("Controls have no annotations unless the author writes them.", no_annotations("activate_finance")),
    "NTF-1": Finding("Opening an open group notifies clients of a changed list.", notified_again("activate_files")),
    "DEL-2": Finding("There is no handle to distinguish two users of one process.", no_handle("activate_files")),
    "DEL-7": Finding(
        "An activation changes the list that later requests of the same process are given.",
        list_changes("activate_files"),
    ),
    "DEL-9": Finding(
        "A call of an unknown tool is a result with `isError`, not an error of the protocol.", unknown_tool_is_a_result
    ),
}
DISPUTES: dict[str, Dispute] = {}
