"""What a store answers is what every store does, and what processes ask of it is what they have to (SPEC STO-2, STO-3).

An audit follows the operations of a store by what was asked and answered, in a few lines that share no code with
`toolfold.records`. It finds what no answer to a client shows: a write that slipped past a lease, which happened to be
harmless, or a process that asks for what it knows to be out of date.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from attrs import define, field

PARENT, CHILD = "a", "a.b"
"""Of the groups of `desk.make_tools`, one that has hooks, and one in it that has some too."""


@define(eq=False)
class Known:
    """What is known of a record.

    Attributes:
        version: Its version.
        writer: Who wrote that, and was answered.
        token: That of the last lease.
        until: When it ends.
        intent: What is to be undone.
    """

    version: int
    writer: str | None = None
    token: int = 0
    until: float = 0.0
    intent: str | None = None


@define(eq=False)
class Audit:
    """Follows the operations of a store.

    Attributes:
        now: Returns the time.
        wrong: What is wrong with them.
    """

    now: Callable[[], float]
    wrong: list[str] = field(factory=list[str])
    _known: dict[str, Known] = field(factory=dict[str, Known])

    def forget(self) -> None:
        """Forget all records: the store has lost writes."""
        self._known.clear()

    def is_held(self, key: str) -> bool:
        """Return whether a process holds the lease of a record."""
        return key in self._known and self._known[key].until > self.now()

    def done(self, process: str, operation: str, given: tuple[Any, ...], result: Any) -> None:
        """Judge an operation that a process asked for."""
        judge = getattr(self, f"_{operation}", None)
        if judge is not None:
            judge(process, *given, result=result)

    def answered(self, process: str, operation: str, given: tuple[Any, ...], result: Any) -> None:
        """Note that a process was answered."""
        known = self._known.get(given[0]) if operation == "swap" and result is not None else None
        if known is not None and known.version == result:
            known.writer = process

    def _say(self, process: str, what: str) -> None:
        self.wrong.append(f"{self.now():.3f} {process}: {what}")

    def _create(self, process: str, key: str, *given: Any, result: Any) -> None:
        if isinstance(result, int):
            self._known[key] = Known(result)

    def _delete(self, process: str, key: str, *given: Any, result: Any) -> None:
        self._known.pop(key, None)

    def _swap(self, process: str, key: str, version: int, data: Any, token: int | None = None, *, result: Any) -> None:
        known = self._known.get(key)
        if known is None:
            return
        if result is None:
            if version < known.version and known.writer == process:
                self._say(process, f"asks to replace {version}, which it has replaced by {known.version}")
            return
        free = known.until <= self.now() and known.intent is None
        if version != known.version or result <= version:
            self._say(process, f"{version} is replaced by {result}, and was {known.version}")
        if not (free if token is None else token == known.token and known.until > self.now()):
            self._say(process, f"a write with the token {token} is done under the lease {known.token}")
        self._known[key] = Known(result, token=known.token)

    def _acquire(
        self, process: str, key: str, seconds: float, version: int = 0, intent: str | None = None, *, result: Any
    ) -> None:
        known = self._known.get(key)
        if known is None or result is None or result.token is None:
            return
        if known.until > self.now():
            self._say(process, f"the lease {known.token} is held, and {result.token} is given")
        if result.token <= known.token:
            self._say(process, f"the lease {result.token} comes after {known.token}")
        known.token, known.until = result.token, self.now() + seconds
        if version == known.version and known.intent is None:
            self._intended(process, known, intent)

    def _renew(self, process: str, key: str, token: int, seconds: float, *, result: Any) -> None:
        if (known := self._held(process, key, token, result)) is not None:
            known.until = self.now() + seconds

    def _intend(self, process: str, key: str, intent: str | None, token: int, *, result: Any) -> None:
        if (known := self._held(process, key, token, result)) is not None:
            self._intended(process, known, intent)
            known.until = 0.0 if intent is None else known.until

    def _release(self, process: str, key: str, token: int, *, result: Any) -> None:
        known = self._known.get(key)
        if known is not None and known.token == token:
            known.until = 0.0

    def _held(self, process: str, key: str, token: int, result: Any) -> Known | None:
        """Return what is known of a record that was changed under a lease, which has to be held."""
        known = self._known.get(key)
        if known is None or not result:
            return None
        if known.token != token or known.until <= self.now():
            self._say(process, f"a change under the lease {token} is done, and the last is {known.token}")
        return known

    def _intended(self, process: str, known: Known, intent: str | None) -> None:
        known.intent = intent
        if intent is not None and not in_order(json.loads(intent)):
            self._say(process, f"hooks are recorded in another order than they run in: {intent}")


def in_order(hooks: list[list[str]]) -> bool:
    """Return whether hooks can have run in this order: what closes first, and inner groups of it before outer ones."""
    phases = [phase for phase, _ in hooks]
    if phases != sorted(phases, key=("on_deactivate", "on_activate").index):
        return False
    pairs = (("on_activate", PARENT, CHILD), ("on_deactivate", CHILD, PARENT))
    places = {(phase, path): place for place, (phase, path) in enumerate(hooks)}
    return all(
        places[phase, first] < places[phase, then]
        for phase, first, then in pairs
        if {(phase, first), (phase, then)} <= places.keys()
    )
