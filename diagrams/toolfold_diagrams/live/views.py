"""What the live page is given: rows of sessions, the steps of one of them, and pictures of a step."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from attrs import asdict

from toolfold import Catalog, Group, RegionState, Snapshot
from toolfold.machine.statechart import Statechart

from ..sequence import sequence
from ..statechart_view import transition_label
from ..structure import structure
from ..svg import embedded
from ..text import identifier, printable
from .recording import RecordedRequest, Recording, SessionRecord, listed_tokens

LETTERS = 300
"""The letters of a name or a title."""
TAIL = 8
"""How many characters of a long key in a store the page has."""

_STATES = {RegionState.ACTIVE: "a", RegionState.INACTIVE: "i", RegionState.LOCKED: "l"}


def head(recording: Recording, *, control: bool) -> dict[str, Any]:
    """Return what concerns the whole page."""
    return {"name": _shown(recording.tools.name), "control": control, "since": recording.began}


def changes(recording: Recording, since: int) -> dict[str, Any]:
    """Return what changed after a version of the recording, and which sessions are left out of it by now."""
    version, records = recording.version, sorted(recording.records.values(), key=lambda record: record.key)
    return {
        "version": version,
        "rows": [row(record) for record in records if record.version > since],
        "keys": [record.key for record in records],
        "lists": asdict(recording.usage.lists),
        "problems": [asdict(each) for each in recording.problems if each.version > since],
    }


def row(record: SessionRecord) -> dict[str, Any]:
    """Return a session in short."""
    snapshot = record.refresh()
    listed, ungrouped, undecided = listed_tokens(snapshot)
    last = record.steps[-1] if record.steps else None
    return {
        "key": record.key,
        "name": _session_name(record),
        "caller": _caller(record.caller),
        "session": record.is_session,
        "ended": record.is_session and (record.ended or record.session is None),
        "active": [_shown(path) for path in snapshot.active[:20]],
        "count": len(snapshot.active),
        "listed": listed,
        "ungrouped": ungrouped,
        "undecided": undecided,
        "last": None if last is None else {"title": _shown(last.title), "outcome": last.outcome, "at": last.at},
    }


def detail(record: SessionRecord) -> dict[str, Any]:
    """Return a session with its last steps, and the groups of each catalog that these were made in."""
    catalogs: dict[Catalog, int] = {}

    def state(snapshot: Snapshot) -> dict[str, Any]:
        number = catalogs.setdefault(snapshot.catalog, len(catalogs))
        states = (snapshot.configuration.state(group) for group in range(len(snapshot.catalog.groups)))
        listed, ungrouped, _ = listed_tokens(snapshot)
        return {
            "catalog": number,
            "states": "".join(_STATES[state] for state in states),
            "listed": listed,
            "ungrouped": ungrouped,
        }

    steps = [step_of(step, state(step.after)) for step in tuple(record.steps)]
    before = state(record.steps[0].before if record.steps else record.refresh())
    return {**row(record), "before": before, "steps": steps, "catalogs": [groups(catalog) for catalog in catalogs]}


def step_of(step: RecordedRequest, state: dict[str, Any]) -> dict[str, Any]:
    """Return a step with the state that it led to."""
    activated, deactivated = step.planned
    index = step.after.catalog.index
    return {
        **state,
        "number": step.number,
        "at": step.at,
        "title": _shown(step.title),
        "outcome": step.outcome,
        "entries": step.entries,
        "reasons": [_shown(reason) for reason in step.reasons],
        "activating": [index[path] for path in activated if path in index],
        "deactivating": [index[path] for path in deactivated if path in index],
    }


@lru_cache(maxsize=32)
def change_by_clients(group: Group, *, is_open: bool) -> bool:
    """Return whether clients may open a group, or close it: not a gate, which has no controls, and not a pinned one."""
    return group.controls and not group.pinned and (is_open or group.show_deactivator)


def groups(catalog: Catalog) -> list[dict[str, Any]]:
    """Return the groups of a catalog in canonical order, with the transitions of their regions (SPEC DIA-2)."""
    moves = {region.group: region.transitions for region in Statechart.of(catalog.name, catalog.forest).walk()}
    return [
        {
            "path": group.path,
            "id": identifier("group", group.path),
            "title": _shown(group.display_name),
            "parent": catalog.index.get(group.parent or ""),
            "tools": catalog.tool_counts.get(group.path, 0),
            "hooks": group.has_hooks,
            "pinned": group.pinned,
            "controls": [change_by_clients(group, is_open=is_open) for is_open in (False, True)],
            "moves": [[_STATES[move.target], _shown(transition_label(catalog, move))] for move in moves[group.path]],
        }
        for group in catalog.groups
    ]


@lru_cache(maxsize=64)
def structure_svg(snapshot: Snapshot) -> str:
    """Return the forest of groups in a state (SPEC DIA-3)."""
    svg = structure(snapshot).svg
    assert svg is not None
    return embedded(svg)


def sequence_svg(step: RecordedRequest) -> str:
    """Return the sequence of a step so far."""
    svg = sequence(step.recorder.trace).svg
    assert svg is not None
    return embedded(svg)


def _session_name(record: SessionRecord) -> str:
    """Return what a session is called: of a key in a store, the digest at its end is cut."""
    if not record.is_session:
        return "Requests without a session"
    prefix, slash, digest = record.name.rpartition("/")
    if slash and len(digest) == 32:
        return _shown(f"{prefix.rpartition('/')[2]} {digest[:TAIL]}")
    return _shown(record.name) or "unnamed"


def _caller(caller: str) -> str:
    """Return who a caller is; the parts of a principal, its client, issuer and subject, separated by dots."""
    kind, _, text = caller.partition(" ")
    try:
        parts: list[str | None] = json.loads(text) if kind == "principal" else [caller]
        return _shown(" · ".join(dict.fromkeys(part for part in parts if part)))
    except (ValueError, TypeError):
        return _shown(caller)


def _shown(text: str) -> str:
    """Return a text for one line: without controls and changes of direction, and not endless."""
    shown = printable(text[: 4 * LETTERS])
    return shown if len(shown) <= LETTERS else f"{shown[:LETTERS]}…"
