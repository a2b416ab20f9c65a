"""Whether the specification allows a whole trace, and the first line that it does not allow (SPEC TRC-1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from ..machine.regions import NotASystem, System
from .reading import MALFORMED, TORN, Line, NotAllowed, lines_of, no_line
from .records import Record
from .sessions import Session, StepOf

SHOWN = 4
"""How many earlier lines of the same session are shown with one that is not allowed."""
EVERY = 5000
"""How many lines are between two reports of progress."""


@frozen
class Problem:
    """A line that the specification does not allow, with why, and what came before it in the same session."""

    line: Line
    why: str
    before: tuple[Line, ...] = ()
    systems: Mapping[str, System] = field(factory=dict[str, System], repr=False)


@frozen
class Outcome:
    """What was found in a trace: how much of each, and the first problem, if there is one.

    `gaps` is how many lines its writers could not write; what they would have said is not judged.
    `torn` is how many end in their middle, as the last one of a process that was killed may; they are passed over.
    """

    lines: int
    steps: int
    sessions: int
    processes: int
    gaps: int
    torn: int = 0
    problem: Problem | None = None


def verify(files: Sequence[Path], progress: Callable[[int], None] = lambda _: None) -> Outcome:
    """Return whether the specification allows what traces say; several are merged by version.

    Args:
        files: Files that `toolfold serve --trace` has written; of one that was continued, the older one is first. One
            that is named twice is read once.
        progress: Called with the number of lines now and then.

    Raises:
        NotATrace: A file can't be read, or is none.
    """
    is_ordered, lines = lines_of([*{file.resolve(): file for file in files}.values()])
    verifier = Verifier(is_ordered)
    for line in lines:
        try:
            verifier.take(line)
        except NotAllowed as error:
            return verifier.outcome(Problem(line, str(error), tuple(verifier.earlier(line)), verifier.systems))
        except MALFORMED as error:
            raise no_line(line, error) from error
        if not verifier.lines % EVERY:
            progress(verifier.lines)
    return verifier.outcome(verifier.finish())


@define
class Verifier:
    """Takes the lines of a trace, one after the other."""

    is_ordered: bool = True
    lines: int = 0
    steps: int = 0
    gaps: int = 0
    torn: int = 0
    _processes: set[str] = field(factory=set[str], init=False)
    _whole: set[str] = field(factory=set[str], init=False)
    """The processes whose trace is known from its beginning, and those with sessions of which a step is known."""
    _cut: set[str] = field(factory=set[str], init=False)
    _met: set[str] = field(factory=set[str], init=False)
    systems: dict[str, System] = field(factory=dict[str, System], init=False)
    _records: dict[str, Record] = field(factory=dict[str, Record], init=False)
    _sessions: dict[str, Session] = field(factory=dict[str, Session], init=False)
    _earlier: dict[str, list[Line]] = field(factory=dict[str, "list[Line]"], init=False)

    def take(self, line: Line) -> None:
        """Take a line into account; raises `NotAllowed`."""
        self.lines += 1
        data = line.data
        if "plans" in data:
            self._step(line)
        elif "op" in data:
            self._operation(line)
        elif "catalog" in data:
            try:
                self.systems[data["catalog"]] = System.read(data)
            except NotASystem as error:
                raise NotAllowed(str(error)) from error
        elif "ended" in data:
            self._sessions.pop(str(line.about), None)
            self._earlier.pop(str(line.about), None)
        elif "lost" in data or "toolfold" in data:
            self._interrupted(data)
        elif TORN in data:
            self.torn += 1
        elif "closed" in data:
            self._cut.discard(str(data["by"]))

    def _interrupted(self, data: dict[str, Any]) -> None:
        """After lines that are lost, and after the end of a process, what is known is what lines say from then on."""
        by = str(data.get("by"))
        self.gaps += int(data.get("lost", 0))
        if "lost" in data:
            self._records.clear()
            self._sessions.clear()
            self._whole.clear()
        elif by not in self._processes:
            self._processes.add(by)
            self._cut.add(by)
            if not data.get("continues"):
                self._whole.add(by)

    def _step(self, line: Line) -> None:
        self.steps += 1
        about = str(line.about)
        self._met.add(about)
        if (session := self._sessions.get(about)) is None:
            session = self._sessions[about] = Session()
        by = str(line.data.get("by"))
        is_whole = by in self._whole or f"{by} {about}" in self._whole
        StepOf(line.data, self.systems, session, whole=about in self._records and is_whole).check()
        if not is_whole:
            self._whole.add(f"{by} {about}")
        self._note(about, line)

    def _operation(self, line: Line) -> None:
        key = str(line.data["key"])
        if (record := self._records.get(key)) is None:
            record = self._records[key] = Record(is_ordered=self.is_ordered, cut=self._cut)
        record.take(line.data, line.rest)
        if (session := self._sessions.get(key)) is None:
            session = self._sessions[key] = Session()
        session.wrote(line.data)
        self._note(key, line)
        if record.version == 0:
            self._earlier.pop(key, None)

    def _note(self, about: str, line: Line) -> None:
        lines = self._earlier.setdefault(about, [])
        lines.append(line)
        del lines[:-SHOWN]

    def earlier(self, line: Line) -> list[Line]:
        """Return the lines of the same session before one."""
        return self._earlier.get(str(line.about), [])

    def finish(self) -> Problem | None:
        """Return what is not allowed by what lines do not follow."""
        for key, record in self._records.items():
            try:
                record.times.finish()
            except NotAllowed as error:
                if lines := self._earlier.get(key):
                    return Problem(lines[-1], str(error), tuple(lines[:-1]), self.systems)
        return None

    def outcome(self, problem: Problem | None) -> Outcome:
        """Return what was found."""
        return Outcome(self.lines, self.steps, len(self._met), len(self._processes), self.gaps, self.torn, problem)
