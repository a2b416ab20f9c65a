"""What is found in the Go SDK, and checks that confirm it without the kit."""

from tests.external.foreign.confirming import (
    Dispute,
    Finding,
    list_changes,
    no_annotations,
    no_handle,
    notified_again,
    silent_answer,
)

FINDINGS: dict[str, Finding] = {
    "CTL-4": Finding(
        "Controls are the author's own tools, so an answer does not say what can be called now.",
        silent_answer("activate_files", "read_note"),
    ),
    "CTL-6": Finding("Controls have no annotations unless the author writes them.", no_annotations("activate_files")),
    "NTF-1": Finding(
        "Adding a tool that is already there counts as a change, so opening an open group notifies clients.",
        notified_again("activate_files"),
    ),
    "DEL-2": Finding("There is no handle to distinguish two users of one process.", no_handle("activate_files")),
    "DEL-7": Finding(
        "An activation changes the list that later requests of the same process are given.",
        list_changes("activate_files"),
    ),
}
DISPUTES: dict[str, Dispute] = {}
