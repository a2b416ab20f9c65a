"""What is found in the Go SDK, and how it shows to a client by hand."""

from tests.external.foreign.confirming import (
    Dispute,
    Finding,
    list_changes,
    no_annotations,
    no_handle,
    silent_answer,
    told_again,
)

FINDINGS: dict[str, Finding] = {
    "CTL-4": Finding(
        "Controls are the author's own tools, so an answer does not say what can be called now.",
        silent_answer("activate_files", "read_note"),
    ),
    "CTL-6": Finding("Controls have no annotations unless the author writes them.", no_annotations("activate_files")),
    "NTF-1": Finding(
        "To add a tool that is there already is a change, so that to open a group that is open tells clients of it.",
        told_again("activate_files"),
    ),
    "DEL-2": Finding(
        "There is no handle by which two users of one process could be told apart.", no_handle("activate_files")
    ),
    "DEL-7": Finding(
        "An activation changes the list that later requests of the same process are given.",
        list_changes("activate_files"),
    ),
}
DISPUTES: dict[str, Dispute] = {
    "CTL-5": Dispute(
        "activating a group whose parent is inactive is an error of the protocol",
        "the control is not in the list while its parent is closed, so that it is an unknown tool, as DEL-9 wants",
    ),
    "NTF-1": Dispute(
        "0 notices of a changed list instead of 1",
        "changes are gathered for ten milliseconds, so that the one notice follows the answer",
    ),
    "DEL-9": Dispute(
        "a call of the tool 'read_note', which is not there",
        "an earlier request of the same process opened its group, so it is there; an unknown tool is -32602",
    ),
}
