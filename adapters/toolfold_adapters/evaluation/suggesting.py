"""Tasks that are made of a server's own tools: a request for each, and what to call (SPEC EVA-1).

By rule a request is a sentence of the tool's description. A model may write it instead; what it wrote is taken only if
it could be a request for this tool, and the rule's sentence otherwise. No request has the name of its tool.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from toolfold import Catalog, Component, ConfigError
from toolfold.spi import array, frozen, table
from toolfold_adapters.names import wire_name

from ..tokens import plural
from .tasks import Expected, Task, sample, values_of

LONGEST = 200
"""How many characters a request may have, and a model may write; one that has as many was cut."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_PARTS = re.compile(r"[_\-.]+|(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]{4,}")

Writer = Callable[[str], Awaitable[str | None]]
"""Returns the request that a model writes for what a tool does, or `None` if it wrote none."""


@frozen(kw_only=True)
class Suggested:
    """Tasks, the tools that none can be made for, and the ids of those whose request a model wrote."""

    tasks: tuple[Task, ...]
    without: tuple[str, ...] = ()
    by_model: frozenset[str] = frozenset()

    def toml(self) -> str:
        """Return a file of the tasks, for a person to complete."""
        lines = ["# Tasks made of the tools themselves. Say in `ask` what a user would say."]
        for task in self.tasks:
            lines += ["", *_written(task)]
        if self.without:
            lines += ["", f"# No request can be made of the descriptions of {', '.join(self.without)}."]
        return "\n".join(lines) + "\n"


def suggested(catalog: Catalog) -> Suggested:
    """Return a task by rule for each tool with a description.

    Its arguments are those of the examples in the schema, if these have all that is required: an example of the whole,
    or an `examples` list, a `const`, an `enum` or a `default` of each property. Otherwise any that fit will do.

    Raises:
        ConfigError: There is no tool for which one can be made.
    """
    own = [one for one in catalog.tools.values() if one.control is None and not one.never_listed]
    made = {tool.name: _task(tool) for tool in own}
    tasks = tuple(task for task in made.values() if task is not None)
    if not tasks:
        tools = plural(len(own), "tool")
        raise ConfigError(f"No tasks can be made: of {tools}, none has a description that does not name it.")
    return Suggested(tasks=tasks, without=tuple(name for name, task in made.items() if task is None))


async def rewritten(by_rule: Suggested, catalog: Catalog, writer: Writer) -> Suggested:
    """Return tasks with the requests that a model writes for them, where these can be taken."""
    tasks, by_model = list[Task](), set[str]()
    for task in by_rule.tasks:
        tool = catalog.tools[task.id]
        request = _taken(await writer(_about(tool)), tool)
        if request is not None:
            by_model.add(task.id)
            (call,) = task.calls
            calls = (call.model_copy(update={"query": request}),)
            task = task.model_copy(update={"ask": request, "calls": calls})
        tasks.append(task)
    return Suggested(tasks=tuple(tasks), without=by_rule.without, by_model=frozenset(by_model))


def names(request: str, tool: str) -> bool:
    """Return whether a request has a tool's name, or what it is called by, as a word; `send` may be any word."""
    base = tool.rpartition(".")[2]
    forms = {tool, wire_name(tool), base}
    return any(
        re.search(rf"(?<![\w.-]){re.escape(form)}(?![\w-])", request, re.IGNORECASE)
        for form in forms
        if len(_PARTS.split(form)) > 1
    )


def _task(tool: Component) -> Task | None:
    request = next((one for one in _SENTENCE.split(_about(tool)) if one and not names(one, tool.name)), None)
    if request is None:
        return None
    arguments = _example(tool.input_schema)
    given = {"free": sample(tool.input_schema)} if arguments is None else {"arguments": arguments}
    if tool.arguments is not None and tool.arguments.faults(next(iter(given.values()))):
        return None
    request = request[:LONGEST].strip()
    call = Expected.model_validate({"tool": tool.name, "query": request, **given})
    return Task(id=tool.name, ask=request, calls=(call,))


def _about(tool: Component) -> str:
    """Return the first paragraph of a tool's description, on one line."""
    return " ".join(tool.description.strip().split("\n\n")[0].split())


def _taken(written: str | None, tool: Component) -> str | None:
    """Return what a model wrote if it could be a request for a tool: short, without its name, and about the same."""
    request = " ".join((written or "").split()).strip("\"' ")
    about = {word[:4] for word in _stems(f"{_about(tool)} {' '.join(_PARTS.split(tool.name))}")}
    fits = 0 < len(request) < LONGEST - 1 and not names(request, tool.name) and about & set(_stems(request))
    return request if fits else None


def _stems(text: str) -> list[str]:
    return [word[:4].casefold() for word in _WORD.findall(text)]


def _example(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return an example of arguments, or `None` if a required one has none."""
    for example in array(schema.get("examples")) or ():
        if (whole := table(example)) is not None:
            return whole
    properties = table(schema.get("properties")) or {}
    found = {name: values[0] for name, one in properties.items() if (values := values_of(table(one) or {}))}
    required: Sequence[Any] = array(schema.get("required")) or ()
    return found if all(name in found for name in required) else None


def _written(task: Task) -> Iterator[str]:
    (call,) = task.calls
    yield "[[tasks]]"
    yield f"id = {_toml(task.id)}"
    yield f"ask = {_toml(task.ask)}"
    given = "".join(f", {key} = {_toml(one)}" for key in ("arguments", "free") if (one := getattr(call, key)))
    yield f"calls = [{{ tool = {_toml(call.tool)}, query = {_toml(call.query)}{given} }}]"


def _toml(value: Any) -> str:
    """Return a JSON value as TOML writes it inline; `null`, which it has not, is left out of tables."""
    if (inner := table(value)) is not None:
        pairs = (f"{json.dumps(key)} = {_toml(one)}" for key, one in inner.items() if one is not None)
        return f"{{ {', '.join(pairs)} }}"
    if (several := array(value)) is not None:
        return f"[{', '.join(map(_toml, several))}]"
    return json.dumps(value, ensure_ascii=False)
