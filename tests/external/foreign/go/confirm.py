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
DISPUTES: dict[str, Dispute] = {}
