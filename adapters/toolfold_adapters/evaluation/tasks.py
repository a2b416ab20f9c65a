"""Tasks as data: what is asked, the calls that count as done, what they answer, and what is forbidden (SPEC EVA-1).

[[tasks]]
id = "move-review"
ask = "Move the design review to 2 March."
forbidden = ["calendar.cancel_event"]        # full names of tools, or patterns such as "calendar.*"
ordered = true                               # the calls are made in this order; with false in any
profile = "reader"                           # sessions have this profile
withdrawn = ["calendar.create_event"]        # tools that are gone after the first call
calls = [                                    # none: no tool fits, and none is to be called
  { tool = "calendar.find_events", query = "find an event", free = { query = "review" }, result = "Event ev-7" },
  { tool = "calendar.move_event", query = "give an event another time", arguments = { event = "ev-7" } },
]

`tool` may be a list of tools any of which will do. `arguments` are judged; what is in `free` is given by scripted
players, and any other value will do. `query` is what a scripted player searches by. `result` is what the call answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from toolfold import Catalog, ConfigError, ManifestError
from toolfold.spi import array, frozen, table

from ..files import read_table

OWN = Path(__file__).with_name("data")
"""The folder of the built-in catalog and tasks."""


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Expected(_Entry):
    """A call that a task needs: of any of its tools, with at least its arguments."""

    tools: Annotated[tuple[str, ...], BeforeValidator(_listed), Field(alias="tool", min_length=1)]
    query: str = ""
    arguments: dict[str, Any] = {}
    free: dict[str, Any] = {}
    result: Any = "Done."

    @property
    def tool(self) -> str:
        """The tool that a scripted player calls."""
        return self.tools[0]

    def fits(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Return whether a call is this one; texts are compared without regard to case and outer white space."""
        return tool in self.tools and all(
            name in arguments and _plain(arguments[name]) == _plain(value) for name, value in self.arguments.items()
        )


class Task(_Entry):
    """What a user asks for, and how it is judged whether it was done."""

    id: Annotated[str, Field(min_length=1)]
    ask: Annotated[str, Field(min_length=1)]
    calls: tuple[Expected, ...]
    ordered: bool = True
    profile: str | None = None
    forbidden: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()

    def forbids(self, tool: str) -> bool:
        """Return whether a tool must not be called; where no tool fits, none must."""
        return not self.calls or any(fnmatchcase(tool, pattern) for pattern in (*self.forbidden, *self.withdrawn))

    @property
    def named(self) -> tuple[str, ...]:
        """The tools that it names, which no choice of tools leaves out."""
        needed = (tool for call in self.calls for tool in call.tools)
        return tuple(dict.fromkeys((*needed, *self.forbidden, *self.withdrawn)))


class _File(_Entry):
    tasks: Annotated[tuple[Task, ...], Field(min_length=1)]


@frozen(kw_only=True)
class ObservedCall:
    """A call of a tool that was made: by its full name, and whether it reached the tool's handler."""

    tool: str
    arguments: Mapping[str, Any]
    reached: bool


@frozen(kw_only=True)
class Verdict:
    """How a task went: what is wrong, if anything, and the forbidden calls that were tried, those that were reached."""

    problems: tuple[str, ...]
    tried: tuple[ObservedCall, ...]

    @property
    def done(self) -> bool:
        """Whether all calls that it needs were made, and nothing forbidden was done."""
        return not self.problems


def judge(task: Task, calls: Sequence[ObservedCall]) -> Verdict:
    """Return how a task went by the calls that were made.

    SPEC EVA-1.
    """
    made = [call for call in calls if call.reached]
    forbidden = [call for call in calls if task.forbids(call.tool)]
    problems = [f"{call.tool} was called, which is forbidden" for call in forbidden if call.reached]
    position = 0
    for expected in task.calls:
        found = [number for number, call in enumerate(made) if expected.fits(call.tool, call.arguments)]
        in_order = [number for number in found if number >= position]
        if task.ordered and in_order:
            position = in_order[0] + 1
        elif not found:
            problems.append(_missing(expected, made))
        elif task.ordered:
            problems.append(f"{expected.tool} was called out of order")
    return Verdict(problems=tuple(dict.fromkeys(problems)), tried=tuple(forbidden))


def _missing(expected: Expected, made: Sequence[ObservedCall]) -> str:
    wrong = [call for call in made if call.tool in expected.tools]
    if wrong:
        return f"{wrong[-1].tool} was called with other arguments: {dict(wrong[-1].arguments)}"
    return f"{expected.tool} was not called"


def load_tasks(file: Path, catalog: Catalog) -> tuple[Task, ...]:
    """Return the tasks in a file.

    Raises:
        ConfigError: It can't be read, or something in it is wrong; the message has a sentence for each problem, with
            its place in the file.
    """
    data = read_table(file)
    try:
        tasks = _File.model_validate(data).tasks
    except ValidationError as error:
        found = error.errors(include_url=False)
        raise _wrong(file, [(_place(one["loc"], data), one["msg"]) for one in found]) from error
    if problems := list(_misfits(tasks, catalog)):
        raise _wrong(file, problems)
    return tasks


def _misfits(tasks: Sequence[Task], catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Yield what tasks say that the catalog does not have, with the places."""
    own = [name for name, tool in catalog.tools.items() if tool.control is None]
    seen = set[str]()
    for task in tasks:
        place = f"task {task.id!r}"
        if task.id in seen:
            yield place, "another task has this id"
        seen.add(task.id)
        if task.profile is not None and task.profile not in catalog.profiles:
            yield place, f"there is no profile {task.profile!r}"
        for pattern in (*task.forbidden, *task.withdrawn):
            if not any(fnmatchcase(name, pattern) for name in own):
                yield place, f"there is no tool {pattern!r}"
        for number, call in enumerate(task.calls, 1):
            for problem in _misfits_of(call, task, catalog):
                yield f"{place}, call {number}", problem


def _misfits_of(call: Expected, task: Task, catalog: Catalog) -> Iterator[str]:
    for name in call.tools:
        if name not in catalog.tools:
            yield f"there is no tool {name!r}"
        elif task.forbids(name):
            yield f"{name} is forbidden, too"
    tool = catalog.tools.get(call.tool)
    if tool is not None and tool.arguments is not None:
        faults = tool.arguments.faults({**call.free, **call.arguments})
        yield from (f"{place}: {problem}" for place, problem in faults.problems.items()) if faults else ()


def _wrong(file: Path, problems: Sequence[tuple[str, str]]) -> ConfigError:
    return ConfigError("\n".join(str(ManifestError(str(file), place, problem)) for place, problem in problems))


def _place(loc: Sequence[str | int], data: Any) -> str:
    """Return the place of a problem in the words of the file: tasks by their ids, if they have any, or numbers."""
    words: list[str] = []
    for part in loc:
        if isinstance(part, int):
            data = (array(data) or {part: None})[part]
            words[-1] += f" {(table(data) or {}).get('id', part + 1)!r}"
        else:
            data = (table(data) or {}).get(part)
            words.append({"tasks": "task", "calls": "call"}.get(part, part))
    return ", ".join(words) or "the top of the file"


def _plain(value: Any) -> Any:
    return value.strip().casefold() if isinstance(value, str) else value


# -- arguments ---------------------------------------------------------------------------------------------------------


def values_of(schema: Mapping[str, Any]) -> Sequence[Any]:
    """Return the values that a schema names, the likeliest first."""
    several = array(schema.get("examples")) or array(schema.get("enum")) or ()
    return [*several, *(schema[key] for key in ("const", "default") if schema.get(key) is not None)]


def sample(schema: Mapping[str, Any]) -> Any:
    """Return a value that fits a plain schema, with what is required alone, as one would write who does not care."""
    if values := values_of(schema):
        return values[0]
    for key in ("anyOf", "oneOf"):
        if several := array(schema.get(key)):
            return sample({**schema, key: None, **(table(several[0]) or {})})
    properties = table(schema.get("properties")) or {}
    match "object" if properties else schema.get("type"):
        case "object":
            return {name: sample(table(properties.get(name)) or {}) for name in array(schema.get("required")) or ()}
        case "array":
            return [sample(table(schema.get("items")) or {})] * schema.get("minItems", 0)
        case "number" | "integer":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case _:
            return "x" * schema.get("minLength", 1)
