"""The tools of the group mcp: they store facts of the session, which last as long as the session (SPEC SES-5).

No session sees the facts of another.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from toolfold import Context, ToolError

ROOM = 2000
"""How many characters of JSON the facts of a session may take: they are part of its handle."""

CREDENTIALS = ("GH_TOKEN", "GITHUB_TOKEN", "GITLAB_TOKEN", "KUBECONFIG", "REGISTRY_AUTH_FILE", "SSH_AUTH_SOCK")

Task = tuple[int, str, str]
Note = tuple[str, str, str]
Result = tuple[str, float, str]


def mcp_auth_check() -> dict[str, bool]:
    """Return whether each of the usual credentials is set in the environment."""
    return {name: name in os.environ for name in CREDENTIALS}


def mcp_task_create(values: dict[str, Any], context: Context) -> dict[str, Any]:
    """Add a task and return it."""
    tasks = _tasks(context)
    task = (max((number for number, _, _ in tasks), default=0) + 1, values["content"], "pending")
    _store(context, "tasks", (*tasks, task))
    return _shown(task)


def mcp_task_list(values: dict[str, Any], context: Context) -> dict[str, Any]:
    """Return the tasks, or those of one status."""
    wanted = values.get("status")
    return {"tasks": [_shown(task) for task in _tasks(context) if wanted in (None, task[2])]}


def mcp_task_update(values: dict[str, Any], context: Context) -> dict[str, Any]:
    """Change the status of a task and return it."""
    found = _task(values["id"], context)
    changed = (found[0], found[1], values["status"])
    _store(context, "tasks", tuple(changed if task == found else task for task in _tasks(context)))
    return _shown(changed)


def mcp_task_delete(values: dict[str, Any], context: Context) -> str:
    """Remove a task."""
    found = _task(values["id"], context)
    _store(context, "tasks", tuple(task for task in _tasks(context) if task != found))
    return f"Task {found[0]} is deleted."


def mcp_context_get(values: dict[str, Any], context: Context) -> str:
    """Return a note."""
    for scope, key, value in _notes(context):
        if (scope, key) == (values["scope"], values["key"]):
            return value
    raise ToolError(f"There is no note {values['key']!r} in the scope {values['scope']!r}.")


def mcp_context_set(values: dict[str, Any], context: Context) -> str:
    """Write a note."""
    place = (values["scope"], values["key"])
    others = tuple(note for note in _notes(context) if note[:2] != place)
    _store(context, "notes", (*others, (*place, values["value"])))
    return "Noted."


def mcp_context_list(values: dict[str, Any], context: Context) -> dict[str, Any]:
    """Return the keys of the notes in a scope."""
    return {"keys": [key for scope, key, _ in _notes(context) if scope == values["scope"]]}


@frozen
class Cache:
    """Cached results of a session, each with its expiry time; the oldest make room for new ones."""

    clock: Callable[[], float]

    def mcp_cache_get(self, values: dict[str, Any], context: Context) -> str:
        """Return a result that has not expired."""
        for key, _, value in self.current(context):
            if key == values["key"]:
                return value
        raise ToolError(f"There is no result {values['key']!r}, or it has expired.")

    def mcp_cache_set(self, values: dict[str, Any], context: Context) -> str:
        """Store a result, replacing one of the same key."""
        others = [result for result in self.current(context) if result[0] != values["key"]]
        result = (values["key"], self.clock() + values["ttl_secs"], values["value"])
        while others and not _fits(context, "cache", (*others, result)):
            del others[0]
        _store(context, "cache", (*others, result))
        return f"Stored for {values['ttl_secs']} seconds."

    def current(self, context: Context) -> list[Result]:
        """Return the results that have not expired, the oldest first."""
        results: tuple[Result, ...] = context.facts.get("cache", ())
        return [result for result in results if result[1] > self.clock()]


def _tasks(context: Context) -> tuple[Task, ...]:
    tasks: tuple[Task, ...] = context.facts.get("tasks", ())
    return tasks


def _notes(context: Context) -> tuple[Note, ...]:
    notes: tuple[Note, ...] = context.facts.get("notes", ())
    return notes


def _task(number: int, context: Context) -> Task:
    found = next((task for task in _tasks(context) if task[0] == number), None)
    if found is None:
        raise ToolError(f"There is no task {number}.")
    return found


def _fits(context: Context, name: str, value: tuple[Any, ...]) -> bool:
    facts: Mapping[str, Any] = {**context.facts, name: value}
    return len(json.dumps(facts)) <= ROOM


def _store(context: Context, name: str, value: tuple[Any, ...]) -> None:
    if not _fits(context, name, value):
        raise ToolError("There is no room for more in this session; delete or shorten some tasks and notes first.")
    context.set_fact(name, value)


def _shown(task: Task) -> dict[str, Any]:
    return dict(zip(("id", "content", "status"), task, strict=True))
