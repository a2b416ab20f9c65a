"""Where a request comes between any two awaits of another one, both are answered as one after the other would be."""

from __future__ import annotations

import pytest

from tests.simulation.meetings import LEARN, Meeting, meetings, met
from toolfold import Record
from toolfold._session.journal import Journal

LOOKS = Meeting("look", "close plain")


@pytest.mark.spec("STO-9", "STO-2", "SES-2", "NTF-1")
@pytest.mark.parametrize(
    "meeting",
    [  # the gate has all
        LOOKS,
        Meeting("note", LEARN),
        Meeting("close a", "open x for a", apart=True),
        Meeting("open plain", "close plain", apart=True, empty=True),
    ],
    ids=str,
)
def test_two_requests_that_meet_are_right(meeting: Meeting) -> None:
    assert meeting in meetings()
    awaits, wrong = met(meeting)
    assert wrong == []
    assert awaits > 3


@pytest.mark.spec("STO-9")
def test_a_process_that_takes_what_it_has_replaced_for_newer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def differs(journal: Journal, record: Record, known: int) -> bool:
        return record.version != journal.version

    monkeypatch.setattr(Journal, "is_news", differs)
    (wrong,) = met(LOOKS)[1]
    assert wrong.startswith("look, and close plain in the same process, at await 4: the process knows ")
