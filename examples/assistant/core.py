"""The core tools, which are always available: document C's thirteen, including the one that loads groups.

None of them leaves this process: files, pages and agents are records of the store, the three commands only read those
files, and expressions are arithmetic.
"""

from __future__ import annotations

import ast
import json
import math
import operator
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from toolfold import Context, ToolError, tool

from .store import Store

NOW = "2026-03-02T08:30"
"""The assistant's fixed time, so that every run is the same."""

ROOM = 2000
"""How many characters of JSON a conversation may remember: they are part of its handle."""

Url = Annotated[str, Field(description="Address of the page")]
Name = Annotated[str, Field(description="Name of the file")]


class Core:
    """The tools that are in no group."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @tool
    def get_current_time(self) -> str:
        """Return the date and the time."""
        return NOW

    @tool
    def save_memory(self, text: str, context: Context) -> str:
        """Remember something for later in the conversation."""
        texts = (*_remembered(context), text)
        if len(json.dumps(texts)) > ROOM:
            raise ToolError("There is no room for that; remember something shorter.")
        context.set_fact("remembered", texts)
        return "Noted."

    @tool
    def search_history(self, context: Context, words: str = "") -> list[str]:
        """Return what was remembered in the conversation and contains some words."""
        return [text for text in _remembered(context) if words.lower() in text.lower()]

    @tool
    def load_skill(self, name: str) -> str:
        """Read the instructions for a kind of work, such as reply or plan."""
        return str(self._named("skills", name)["text"])

    @tool
    def read_file(self, name: Name) -> str:
        """Read a file of the assistant."""
        return str(self._named("local_files", name)["text"])

    @tool
    def write_file(self, name: Name, text: str) -> str:
        """Write a file of the assistant, replacing its text."""
        self._store.do("set local_files", name=name, text=text)
        return f"{name} is written."

    @tool
    def exec(self, command: Annotated[str, Field(description="ls, cat NAME or wc NAME")]) -> str:
        """Run a command that looks at the assistant's files."""
        match command.split(maxsplit=1):
            case ["ls"]:
                return "\n".join(sorted(row["name"] for row in self._store.do("list local_files name")))
            case ["cat", name]:
                return self.read_file(name)
            case ["wc", name]:
                return f"{len(self.read_file(name).split())} words"
            case _:
                raise ToolError(f"There is no command {command!r}; the commands are ls, cat NAME and wc NAME.")

    @tool
    def js_eval(self, expression: Annotated[str, Field(max_length=200)]) -> float:
        """Evaluate an expression with numbers, such as 3 * (4 + 0.5)."""
        try:
            return _finite(_value(ast.parse(expression.strip(), mode="eval").body))
        except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError) as error:
            raise ToolError(f"{expression!r} can't be evaluated; write numbers, + - * / and brackets.") from error

    @tool
    def webfetch(self, url: Url) -> str:
        """Read the text of a page."""
        return str(self._page(url)["text"])

    @tool
    def browser(self, url: Url) -> dict[str, Any]:
        """Open a page and return its title and the targets of its links."""
        page = self._page(url)
        return {"title": page["title"], "links": page["links"]}

    @tool
    def http_request(self, url: Url, method: Literal["GET", "HEAD"] = "GET") -> dict[str, Any]:
        """Send an HTTP request and return status and body of the response."""
        try:
            page = self._page(url)
        except ToolError:
            return {"status": 404, "body": ""}
        return {"status": 200, "body": page["text"] if method == "GET" else ""}

    @tool
    def create_agent(self, name: str, prompt: Annotated[str, Field(description="Its system prompt")]) -> dict[str, Any]:
        """Create another agent, which can be given work, and return its number."""
        return dict(self._store.do("create agents", name=name, prompt=prompt))

    def _page(self, url: str) -> dict[str, Any]:
        found = [page for page in self._store.do("list pages") if page["url"] == url]
        if not found:
            raise ToolError(f"There is no page {url!r}.")
        return dict(found[0])

    def _named(self, kind: str, name: str) -> dict[str, Any]:
        rows = self._store.do(f"list {kind}")
        for row in rows:
            if row["name"] == name:
                return dict(row)
        raise ToolError(f"There is no {name!r}; there are: {', '.join(sorted(row['name'] for row in rows))}.")


OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
}


def _finite(value: float) -> float:
    if not math.isfinite(value):  # JSON has no such number
        raise OverflowError(value)
    return value


def _value(node: ast.expr) -> float:
    """Return the value of an arithmetic expression, or raise `ValueError` if it is anything else."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.BinOp(left, op, right) if type(op) in OPERATORS:
            return float(OPERATORS[type(op)](_value(left), _value(right)))
        case ast.UnaryOp(op, operand) if type(op) in OPERATORS:
            return float(OPERATORS[type(op)](_value(operand)))
    raise ValueError(ast.dump(node))


def _remembered(context: Context) -> tuple[str, ...]:
    """Return what was remembered in the conversation so far, a fact of its session (SPEC SES-5)."""
    texts: tuple[str, ...] = context.facts.get("remembered", ())
    return texts
