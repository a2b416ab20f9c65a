"""What the tests of the page share: tool sets to show, at random and with hostile texts, and the contents of a page."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from itertools import pairwise
from random import Random
from typing import Any

from toolfold import ListBudget, Snapshot, ToolfoldError, ToolSet, TransitionRequest, Visibility
from toolfold._toolset.control import ControlName
from toolfold_adapters.tokens import approximate_tokens

HOSTILE = (
    '</script><script>alert("script")</script>',
    "<img src=x onerror=alert(1)>",
    "<!--<script>",
    "\"quoted\" & 'so' `${alert(1)}` {{data}} {{title}} \\u003c \\",
    "]]></style><style>*{display:none}</style>",
    "javascript:alert(1)",
    "\u202egnitteg\u202c \u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u05e2\u05d1\u05e8\u05d9\u05ea",
    "two\nlines\u2028and\u2029more\ttext",
    "\U0001f9f0\U0001f468\u200d\U0001f469\u200d\U0001f467 e\u0301 \u0000\u0007",
    "__proto__ constructor toString $& $1 %s",
)
HOSTILE_PATHS = ("__proto__", "__proto__.__proto__", "constructor", "constructor.prototype", "toString", "0", "-1")
WORDS = ["read", "write", "open", "send", "list", "move", "count"]


def hostile() -> ToolSet:
    """Groups and tools with names that are special elsewhere, and texts that would be markup or code."""
    tools = ToolSet(HOSTILE[0], control="expand_tools")
    for number, path in enumerate(HOSTILE_PATHS):
        tools.register_group(path, HOSTILE[number], title=HOSTILE[-number], opens_on="ping")
    tools.register_exclusion("__proto__", "constructor", "toString")
    for number, text in enumerate(HOSTILE):
        schema = {
            "type": "object",
            "title": text,
            "properties": {text: {"const": [text, 1.0, 2**70]}, "1": {}, "__proto__": {}},
        }
        group = HOSTILE_PATHS[number % len(HOSTILE_PATHS)]
        tools.register(f"t{number}", answer, description=text, title=text, group=group, input_schema=schema)
    tools.register("ping", answer, description=HOSTILE[1])
    return tools


def answer() -> str:
    return "done"


def scattered(seed: int, size: int = 12) -> ToolSet:
    """A random forest with exclusions, tools with all kinds of rules but predicates, a quota, and a way of control."""
    random = Random(seed)
    control: ControlName = random.choice(("per_group", "none", "load_tool_group"))
    tools = ToolSet(
        f"scattered {seed}",
        control=control,
        control_visibility=random.choice(("always", "relevant")),
        max_active=(None, 5, 5)[seed % 3],
        evict=(None, None, "oldest")[seed % 3],
        list_budget=ListBudget(1_000, approximate_tokens) if seed in (5, 7, 8) else None,
    )
    paths: list[str] = []
    for number in range(size):
        parent = random.choice(paths) if paths and random.random() < 0.6 else None
        group = tools.register_group(f"g{number}", parent=parent, pinned=parent is None and random.random() < 0.15)
        paths.append(group.path)
    for _ in range(size):
        members = random.sample(paths, random.choice((2, 2, 3)))
        pinned = any(tools.catalog.group(path).pinned for path in members)
        if not pinned and not any(
            above != below and below.startswith(f"{above}.") for above in members for below in members
        ):
            tools.register_exclusion(*members)
    for number in range(3 * size):
        rule = _rule(random, paths) if random.random() < 0.6 else None
        group_of_it = random.choice([*paths, None])
        text = f"To {random.choice(WORDS)} " * random.randrange(1, 9)
        hidden = random.random() < 0.1
        tools.register(f"t{number}", answer, description=text, group=group_of_it, visibility=rule, hidden=hidden)
    return tools


def _rule(random: Random, paths: list[str], depth: int = 2) -> Visibility:
    kind = random.choice(("group", "group", "both", "either", "not", "always")) if depth else "group"
    if kind in ("both", "either"):
        left, right = _rule(random, paths, depth - 1), _rule(random, paths, depth - 1)
        return left & right if kind == "both" else left | right
    if kind == "not":
        return ~_rule(random, paths, depth - 1)
    return Visibility.always() if kind == "always" else Visibility.group(random.choice(paths))


def wandered(tools: ToolSet, seed: int, length: int) -> list[Snapshot]:
    """The states that random requests pass through."""
    random = Random(seed)
    paths = [group.path for group in tools.catalog.groups]
    states = [Snapshot.of(tools.catalog)]
    for _ in range(length):
        path = random.choice(paths)
        states.append(after(states[-1], path)[0])
    return states


def after(snapshot: Snapshot, path: str) -> tuple[Snapshot, ToolfoldError | None]:
    """The state of the core after a press of a group's button, and the error if it was refused."""
    step = TransitionRequest((), path) if snapshot.is_active(path) else TransitionRequest(path)
    try:
        return snapshot.after(step), None
    except ToolfoldError as error:
        return snapshot, error


def large() -> Snapshot:
    """Three hundred groups with five thousand tools, some of them open."""
    tools = ToolSet("fleet", control_visibility="relevant")
    for service in range(30):
        top = tools.register_group(f"service-{service}", f"All about service {service}", title=f"Service {service}")
        for area in range(9):
            tools.register_group(f"area{area}", "One area of the service", parent=top.path)
    paths = [group.path for group in tools.catalog.groups]
    for first, second in pairwise(path for path in paths if "." not in path):
        tools.register_exclusion(first, second)
    fields = {f"field{number}": {"type": "string", "description": "What to look for"} for number in range(4)}
    schema = {"type": "object", "properties": fields, "required": ["field0"]}
    for number in range(5000):
        text = f"{WORDS[number % 7].title()} item {number} of the service, and report the result."
        tools.register(f"t{number}", answer, description=text, group=paths[number % 300], input_schema=schema)
    return Snapshot.of(tools.catalog).after(TransitionRequest(("service-0", "service-0.area1", "service-3")))


class Parsed(HTMLParser):
    """The elements of a page, and the texts of those that hold nothing but text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.texts.setdefault(tag, []).append("")
        self._open = tag

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open][-1] += data

    @property
    def data(self) -> Any:
        """What the page is made from."""
        return json.loads(self.texts["script"][0])
