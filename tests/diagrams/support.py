"""What the tests of pictures share: tool sets to draw, and the contents of a picture that Graphviz has laid out."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from random import Random
from typing import Any

import pytest

from toolfold import Catalog, Snapshot, ToolSet
from toolfold.machine import bits, restore

EXAMPLES = tuple(
    f"examples.{name}" for name in ("assistant", "automation_hub", "browser_telemetry", "desk", "modern_cli", "toolkit")
)
"""The modules of this project's examples; each one's `tools` is a tool set or a function that makes one."""

_WORDS = """
    issue search pull request branch release deploy cluster node pod secret volume mail calendar contact sheet slide
    report export import user team project board task notes archive metrics trace logs alert billing invoice order
"""
WORDS = tuple(_WORDS.split())

NO_INPUT = {"type": "object"}

HOSTILE = (
    'a "quoted" title',
    "it's <script>alert('x')</script> & <b>bold</b>",
    "</text></svg><svg onload=alert(1)>",
    "&lt;entities&gt; &amp; &#35; #35; &quot;",
    "braces {x} [y] (z) | pipe ; semicolon",
    r"escapes \N \G \L \l \n \" \\",
    "back\\",
    "]]> --> <!-- comment --> <?pi?>",
    "%% comment %%{init: {}}%%",
    "`ticks` *stars* _unders_ ~~strike~~ **bold**",
    "1. a list",
    "- another list",
    "# heading",
    "---",
    "end",
    "www.example.com http://example.com x@example.com",
    "שלום עולם",
    "مرحبا بالعالم",
    "数据库操作工具组",
    "👩‍💻 emoji 🎉",
    "é combining e\u0301",
    "$math$ $$x$$ :::class",
    "click x call y()",
    'javascript:alert(1)" onclick="x',
)
UNPRINTABLE = "two\nlines\ttab\r\x00nul\x1besc\x7fdel\x9bcsi\u202eturned\u2066\u2028\ufeff\ufffe\U000e0001"
_NAMES = """
    node edge graph digraph subgraph strict cluster end default class click style state direction note fork choice
    linkStyle classDef root legend __proto__ constructor toString 0 1 - _ -- a-b a_b a_db ab active inactive o x
    group group.group end.end node.edge node.edge.graph subgraph.cluster __proto__.__proto__ default.state -.- 0.0
"""
NAMES = tuple(_NAMES.split())
"""Legal segments that are words of DOT, Mermaid, JavaScript or of the pictures themselves."""


def _answer() -> str:
    return "done"


def hostile() -> ToolSet:
    """A tool set whose texts could each break or inject something."""
    tools = ToolSet("hostile \"name\" <i> & \\N {x} -- 'y'", control="none")
    texts = [*HOSTILE, UNPRINTABLE, "long " * 400, "unbroken" * 100, "W" * 64, "漢" * 64]
    for number, path in enumerate(NAMES):
        title = texts[number % len(texts)] if number % 2 == 0 else None
        tools.register_group(path, texts[(number * 7 + 3) % len(texts)], title=title)
    tools.register_exclusion("node", "edge")
    tools.register_exclusion("graph", "digraph", "subgraph", "end.end", "__proto__.__proto__")
    tools.register("click", _answer, description='<script>"', group="end")
    return tools


def forest(groups: int, tools: int = 0, *, seed: int = 1, depth: int = 5, sets: int = 6) -> ToolSet:
    """An uneven forest of groups, with tools in them and exclusion sets of two to eight."""
    random = Random(seed)
    made = ToolSet(f"forest {seed}", control="none")
    paths: list[str] = []
    with made.all_or_nothing():
        for number in range(groups):
            above = [path for path in random.sample(paths, min(4, len(paths))) if path.count(".") < depth - 1]
            name = f"{random.choice(WORDS)}-{number}"
            path = f"{above[0]}.{name}" if above and random.random() < 0.8 else name
            paths.append(path)
            title = f"{random.choice(WORDS).title()} {random.choice(WORDS)}" if random.random() < 0.5 else None
            made.register_group(path, " ".join(random.choices(WORDS, k=random.randrange(14))), title=title)
        for number in range(tools):
            group = random.choice(paths) if paths and random.random() < 0.98 else None
            made.register(f"tool_{number}", _answer, description="A tool", input_schema=NO_INPUT, group=group)
        for members in _sets(random, paths, sets):
            made.register_exclusion(*members)
    return made


def _sets(random: Random, paths: list[str], count: int) -> list[list[str]]:
    tried = [random.sample(paths, min(random.choice((2, 2, 3, 5, 8)), len(paths))) for _ in range(count * 3)]
    legal = [one for one in tried if len(one) > 1 and not any(b.startswith(f"{a}.") for a in one for b in one)]
    return legal[:count]


def somewhere(catalog: Catalog, seed: int) -> Snapshot:
    """A random legal state."""
    random = Random(seed)
    some = [group.path for group in catalog.groups if random.random() < 0.6]
    return Snapshot.of(catalog, restore(catalog.forest, some).after)


def states(snapshot: Snapshot) -> dict[str, str]:
    """The state of each group, as the machine has it."""
    groups = enumerate(snapshot.catalog.groups)
    return {group.path: snapshot.configuration.state(number).value for number, group in groups}


def partners(catalog: Catalog) -> set[frozenset[str]]:
    """The pairs of groups that exclude one another."""
    paths = [group.path for group in catalog.groups]
    return {
        frozenset((path, paths[other])) for n, path in enumerate(paths) for other in bits(catalog.forest.partners[n])
    }


def example(module: str) -> Catalog:
    """The catalog of an example."""
    tools = import_module(module).tools
    made: ToolSet = tools if isinstance(tools, ToolSet) else tools()
    return made.catalog


# Output of Graphviz


@cache
def needs_dot() -> None:
    """Skip a test if Graphviz is missing; with TESTS_EXTERNAL=required, fail it."""
    if shutil.which("dot") is None:
        reason = 'Graphviz is not installed: there is no program "dot"'
        if os.environ.get("TESTS_EXTERNAL") == "required":
            pytest.fail(reason)
        pytest.skip(reason)


def dot(text: str, form: str) -> str:
    """The output of `dot`; any warning is a failure."""
    needs_dot()
    ran = subprocess.run(["dot", f"-T{form}"], input=text.encode(), capture_output=True, check=False)
    assert (ran.returncode, ran.stderr.decode()) == (0, "")
    return ran.stdout.decode()


@dataclass(frozen=True)
class Drawn:
    """A picture as Graphviz has it: nodes and clusters by name, edges between nodes."""

    nodes: Mapping[str, Mapping[str, Any]]
    clusters: Mapping[str, Mapping[str, Any]]
    edges: tuple[tuple[str, str, Mapping[str, Any]], ...]

    @classmethod
    def of(cls, text: str) -> Drawn:
        data = json.loads(dot(text, "json"))
        objects = data.get("objects", [])
        names = {each["_gvid"]: each["name"] for each in objects}
        edges = [(names[each["tail"]], names[each["head"]], each) for each in data.get("edges", [])]
        inner = {each["name"]: each for each in objects if "nodes" in each or "subgraphs" in each}
        return cls({each["name"]: each for each in objects if each["name"] not in inner}, inner, tuple(edges))

    def of_class(self, kind: str) -> dict[str, Mapping[str, Any]]:
        """The nodes of a class."""
        return {name: each for name, each in self.nodes.items() if kind in each.get("class", "").split()}

    def joined(self, kind: str) -> list[tuple[str, str]]:
        """The ends of the edges of a class."""
        return [(tail, head) for tail, head, each in self.edges if kind in each.get("class", "").split()]


def texts_of(svg: str) -> list[str]:
    """The texts that an SVG shows, which must be well-formed and have nothing in it that runs."""
    root = ET.fromstring(svg)
    elements = [each.tag.rpartition("}")[2] for each in root.iter()]
    assert elements.count("svg") == 1
    assert not {"script", "foreignObject", "image"} & set(elements)
    assert not [key for each in root.iter() for key in each.attrib if key.startswith("on") or key.endswith("href")]
    return ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]


def label_of(drawn: Mapping[str, Any]) -> str:
    """The text of a node's or edge's label, line by line, whether it is plain or in Graphviz's subset of HTML."""
    text = str(drawn.get("label", ""))
    if text.startswith("<"):
        return html.unescape(re.sub(r"<[^>]+>", "", re.sub(r"<BR[^>]*>", "\n", text)))
    return text.replace("\\n", "\n")


def squeezed(text: str) -> str:
    """A text without white space, which pictures break lines at."""
    return re.sub(r"\s+", "", text)
