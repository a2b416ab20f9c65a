"""A line that is not allowed, in words, with what came before it in the same session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ..machine.regions import System, members
from .reading import Line
from .verifying import Problem


def shown(problem: Problem) -> Iterator[str]:
    """Yield the lines of a short listing."""
    line, data = problem.line, problem.line.data
    yield f"{line.file}, line {line.number}: the specification does not allow this."
    yield f"  {problem.why}"
    yield ""
    when = datetime.fromtimestamp(data["at"], UTC).isoformat(" ", "milliseconds") if "at" in data else ""
    about = {"session": data.get("session") or data.get("key", ""), "process": data.get("by", ""), "time": when}
    if "plans" in data:
        about |= _step(data, problem.systems)
    elif "op" in data:
        about["store"] = brief(line, problem.systems)
    yield from (f"  {name:<9}{value}" for name, value in about.items() if value)
    if problem.before:
        yield ""
        yield "The lines before it, of the same session:"
        yield from (f"  {one.number:>7}  {brief(one, problem.systems)}" for one in problem.before)


def brief(line: Line, systems: Mapping[str, System]) -> str:
    """Return what a line says, in a line."""
    data = line.data
    if "plans" in data:
        system = systems[data["catalog"]]
        why = f" ({data['error']})" if "error" in data else ""
        version = f", version {data['version']}" if "version" in data else ""
        return f"{_asked(data, systems)}: {data['ended']}{why}; open: {_state(system, data['after'])}{version}"
    given = " ".join(f"{name} {data[name]}" for name in ("version", "token", "intent") if data.get(name) is not None)
    return f"{data['op']} {given} gave {data['gave']}"


def _step(data: Mapping[str, Any], systems: Mapping[str, System]) -> dict[str, str]:
    found = {"asked": _asked(data, systems)}
    for catalog, before, version, changes, *_ in data["plans"][-1:]:
        system = systems[catalog]
        found["open"] = _state(system, before) + (f", at version {version}" if data.get("shared") else "")
        if changes is not None:
            opened, closed = (system.named(int(groups, 16)) for groups in changes)
            found["planned"] = f"opens {opened}; closes {closed}"
    found["hooks"] = ", ".join(_hook(hook) for hook in data.get("hooks", ()))
    found["events"] = data["events"]
    why = f" ({data['error']})" if "error" in data else ""
    found["ended"] = f"{data['ended']}{why}; open: {_state(systems[data['catalog']], data['after'])}"
    return found


def _asked(data: Mapping[str, Any], systems: Mapping[str, System]) -> str:
    system = systems[data["plans"][-1][0] if data["plans"] else data["catalog"]]
    parts = [
        f"{verb} {', '.join(system.paths[number] if number >= 0 else '(unknown)' for number in _numbers(data, verb))}"
        for verb in ("close", "open")
        if data.get(verb)
    ]
    forced = ", forced" if data.get("force") and data["what"] != "close" else ""
    return f"{data['what']}{': ' if parts else ''}{', '.join(parts)}{forced}"


def _numbers(data: Mapping[str, Any], verb: str) -> list[int]:
    found: list[int] = data[verb]
    return found


def _state(system: System, state: Any) -> str:
    numbers = members(int(state, 16)) if isinstance(state, str) else state
    return ", ".join(system.paths[number] for number in numbers) or "none"


def _hook(hook: Sequence[Any]) -> str:
    phase, path, undoes, *ended = hook
    return f"{phase} {path}{f' (undoes {undoes})' if undoes else ''}{f' {ended[0]}' if ended and ended[0] else ''}"
