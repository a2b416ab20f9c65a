"""The life of a transition with its hooks: what may follow what (SPEC HOOK-2 to HOOK-10, STO-2, STO-3).

A `Life` is at a state of the rows, with hooks ahead of it and hooks that succeeded. An event takes it to the next one,
or is refused, since there is no row. `due` is the hook that is to run, and `intent` are the hooks that the record is to
name while it does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from attrs import define

from . import rows

Hook = tuple[str, str] | tuple[str, str, str]
"""A phase, the path of a group, and, for one that undoes another, the phase of that."""
Phases = Callable[[str], frozenset[str]]
"""Returns the phases that a group has hooks for, by its path."""


class NotAllowed(Exception):
    """The rows have none for what has happened; the message says what that is."""


@cache
def _by_state() -> Mapping[tuple[str, str], Sequence[Mapping[str, str]]]:
    found: dict[tuple[str, str], list[Mapping[str, str]]] = {}
    for row in rows()["life"]["rows"]:
        found.setdefault((row["state"], row["event"]), []).append(row)
    for row in rows()["life"]["choices"]:
        found.setdefault((row["choice"], ""), []).append({**row, "note": ""})
    return found


@cache
def effects() -> Mapping[str, str]:
    """Return what is done in each state; in the others, a transition has ended."""
    found: dict[str, str] = rows()["life"]["effects"]
    return found


def compensation(hook: Hook, phases: frozenset[str]) -> Hook | None:
    """Return the hook that undoes another; `None` if nothing does (SPEC HOOK-5)."""
    phase, group = hook[0], hook[1]
    if "no_rollback" in phases:
        return None
    opposite = "on_deactivate" if phase == "on_activate" else "on_activate"
    by = "on_rollback" if "on_rollback" in phases else opposite
    return (by, group, phase) if by in phases else None


@define
class Life:
    """Where a transition is in its life, with its hooks.

    Attributes:
        phases: The phases that a group has hooks for.
        state: Where it is.
        force: Whether a failing `on_deactivate` is only recorded.
        stored: Whether its session is in a store.
        ahead: The hooks to run.
        done: Those that succeeded and can be undone.
        again: Whether it is planned again once all is undone.
    """

    phases: Phases
    state: str = "new"
    force: bool = False
    stored: bool = False
    ahead: tuple[Hook, ...] = ()
    done: tuple[Hook, ...] = ()
    again: bool = False

    @property
    def effect(self) -> str | None:
        """What is to be done now; `None` at the end."""
        return effects().get(self.state)

    @property
    def due(self) -> Hook | None:
        """The hook that is to run now; `None` if nothing undoes the last one."""
        if self.state == "rolling_back":
            return compensation(self.done[-1], self.phases(self.done[-1][1]))
        return self.ahead[0]

    @property
    def intent(self) -> tuple[Hook, ...]:
        """The hooks to be undone if the process ends during the one that is next."""
        return (*self.done, *self.ahead[:1])

    def on(self, event: str, hooks: Sequence[Hook] = ()) -> None:
        """Go on by an event; `hooks` are those of a plan, or that another process has left. Raises `NotAllowed`."""
        self._take(event, hooks)
        while (self.state, "") in _by_state():
            self._take("", ())
        outcome: str | None = None if self.stored else rows()["life"]["in_memory"].get(self.state)
        if outcome is not None:
            self.on(outcome)

    def _take(self, event: str, hooks: Sequence[Hook]) -> None:
        for row in _by_state().get((self.state, event), ()):
            if self._holds(row["guard"]):
                self._note(row["note"], tuple(hooks))
                self.state = row["target"]
                return
        raise NotAllowed(f"{event or 'nothing'} can't happen to a transition that is {self.state}")

    def _holds(self, guard: str) -> bool:
        kind = guard.partition(" ")[0]
        match guard:
            case "":
                return True
            case "hooks ahead" | "no hooks ahead":
                return bool(self.ahead) == (kind == "hooks")
            case "teardown next" | "setup next":
                return bool(self.ahead) and self.ahead[0][0] == (
                    "on_deactivate" if kind == "teardown" else "on_activate"
                )
            case "forced" | "not forced":
                return self.force == (kind == "forced")
            case "hooks to undo" | "nothing to undo":
                return bool(self.done) == (kind == "hooks")
            case "again" | "for good":
                return self.again == (kind == "again")
            case _:
                raise NotAllowed(f"there is no guard {guard!r}")

    def _note(self, note: str, hooks: tuple[Hook, ...]) -> None:
        match note:
            case "" | "stop":
                pass
            case "load":
                self.ahead, self.done, self.again = hooks, (), False
            case "take over":
                self.ahead, self.done, self.again = (), self._to_undo(hooks), True
            case "done":
                self.ahead, self.done = self.ahead[1:], self.done + self.ahead[:1]
            case "forgive":
                self.ahead = self.ahead[1:]
            case "give up":
                self.ahead, self.done = (), self._to_undo(self.done)
            case "done, give up":
                self.ahead, self.done = (), self._to_undo(self.done + self.ahead[:1])
            case "plan again":
                self.ahead, self.done, self.again = (), self._to_undo(self.done), True
            case "undone" | "not undone":
                self.done = self._to_undo(self.done[:-1])
            case _:
                raise NotAllowed(f"there is no note {note!r}")

    def _to_undo(self, done: tuple[Hook, ...]) -> tuple[Hook, ...]:
        while done and compensation(done[-1], self.phases(done[-1][1])) is None:
            done = done[:-1]
        return done


def hooks_of(paths: Sequence[str], torn_down: Sequence[int], set_up: Sequence[int], phases: Phases) -> tuple[Hook, ...]:
    """Return the hooks of a plan: deactivations bottom up, then activations top down (SPEC HOOK-3)."""
    down = [("on_deactivate", paths[number]) for number in reversed(torn_down)]
    up = [("on_activate", paths[number]) for number in set_up]
    return tuple(hook for hook in (*down, *up) if hook[0] in phases(hook[1]))


def phases_of(paths: Sequence[str], hooks: Mapping[int, Any]) -> Phases:
    """Return a function that returns the phases that a group has hooks for."""
    known = {paths[number]: frozenset(phases) for number, phases in hooks.items()}
    return lambda path: known.get(path, frozenset())
