"""Whatever was called, a conversation restored from the messages has the groups of the original (SPEC GRP-6, AGT-2).

Catalogs of every kind and turns of every kind are made up, carried out, written as messages in each shape, and read.
Left out is what messages do not show: hooks that fail where a call's success opens a group, and handlers that open one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import pytest
from anyio.lowlevel import checkpoint
from attrs import evolve, frozen
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.adapters.inprocess.support import SHAPES, as_objects, executed
from toolfold import Loader, LoaderTexts, ToolError, ToolSet
from toolfold._toolset.control import ControlVisibility
from toolfold_adapters.inprocess import Conversation

PATHS = ("a", "a.b", "a.b.c", "e", "f")
SIBLINGS = [pair for pair in combinations(PATHS, 2) if not pair[1].startswith(f"{pair[0]}.")]
TERSE = LoaderTexts(loaded="{title}", nothing="{title}", again="{title}", missing="?", not_found="No {group}: {groups}")
SEEN = {"type": "object", "properties": {"at": {"type": "integer", "minimum": 0, "maximum": 3}}}
LOADERS = {
    "load_tool_group": ("load_tool_group", "group_name"),
    "expand_tools": ("expand_tools", "group"),
    "open_group": ("open_group", "group"),
    "enter": ("enter", "which"),
    "own_words": ("own_words", "name"),
}
CONTROLS: dict[str, Any] = {
    "per_group": "per_group",
    "load_tool_group": "load_tool_group",
    "expand_tools": "expand_tools",
    "open_group": "open_group",
    "enter": Loader(name="enter", argument="which"),
    "own_words": Loader(name="own_words", argument="name", texts=TERSE),
}
EVENTS = ("look", "listen", "e.watch")


@frozen
class Kind:
    """The properties of a group; `failures` has which of the first runs of its hooks fail."""

    opens_on: str | None
    controls: bool
    failures: tuple[bool, ...]
    transient: bool
    pinned: bool
    tools: int


def rarely(value: bool, *, else_: bool) -> st.SearchStrategy[bool]:
    return st.sampled_from([else_] * 5 + [value])


kinds = st.builds(
    Kind,
    opens_on=st.sampled_from([*[None] * 5, *EVENTS]),
    controls=rarely(False, else_=True),
    failures=st.sampled_from([(), (True,), (False, True)]),
    transient=rarely(True, else_=False),
    pinned=st.booleans(),
    tools=st.integers(0, 2),
)


@frozen
class World:
    """All that a tool set is made of."""

    control: str
    relevant: bool
    kinds: dict[str, Kind]
    exclusions: list[tuple[str, str]]
    quota: tuple[int | None, Any]


worlds = st.builds(
    World,
    control=st.sampled_from(["per_group", "per_group", *CONTROLS]),
    relevant=st.booleans(),
    kinds=st.fixed_dictionaries(dict.fromkeys(PATHS, kinds)),
    exclusions=st.lists(st.sampled_from(SIBLINGS), max_size=2, unique=True),
    quota=st.sampled_from([(None, None), (None, None), (2, None), (2, "oldest")]),
)


def build(world: World) -> ToolSet:
    limit, evict = world.quota
    relevant: ControlVisibility = "relevant" if world.relevant else "always"
    tools = ToolSet("x", control=CONTROLS[world.control], control_visibility=relevant, max_active=limit, evict=evict)
    events = any(kind.opens_on for kind in world.kinds.values())
    free = {path for path in PATHS if "." not in path} - {path for pair in world.exclusions for path in pair}
    for path in PATHS:
        kind = world.kinds[path]
        hook = failing(kind.failures) if kind.failures and kind.opens_on is None else None
        tools.register_group(
            path,
            title=f"The {path} group",
            on_activate=hook,
            on_deactivate=None if events else hook,
            opens_on=kind.opens_on,
            controls=kind.controls,
            transient=kind.transient,
            pinned=kind.pinned and hook is None and kind.opens_on is None and not kind.transient and path in free,
        )
        for number in range(kind.tools):
            tools.register(f"tool{number}", lambda: "done", group=path, input_schema={"type": "object"})
    tools.register("look", look, input_schema=SEEN)
    tools.register("listen", look, input_schema=SEEN)
    tools.register("watch", look, group="e", input_schema=SEEN)
    for pair in world.exclusions:
        tools.register_exclusion(*pair)
    return tools


async def look(given: dict[str, Any]) -> str:
    """Look for a while, the longer the more there is to see."""
    for _ in range(given.get("at", 2)):
        await checkpoint()
    if given.get("at") == 0:
        raise RuntimeError("nothing there")
    return "seen"


def failing(failures: tuple[bool, ...]) -> Callable[[], None]:
    """Return a hook whose first calls fail as given."""
    left: Iterator[bool] = iter(failures)

    def hook() -> None:
        if next(left, False):
            raise ToolError("not now")

    return hook


odd = st.sampled_from(
    [{}, {"at": "x"}, {"group": "a"}, {"which": "e", "more": 1}, "{", "[]", "3", '{"x": NaN}', "[" * 9000]
)
some_paths = st.sampled_from([*PATHS, "a", "e", "f", "a.x"])


def calls(world: World) -> st.SearchStrategy[tuple[str, Any]]:
    """Return calls that a model may write: most of them valid calls of existing tools."""
    used = st.tuples(st.sampled_from(["a__tool0", "a__b__tool1", "e__tool0", "nothing"]), st.just({}) | odd)
    seen = st.tuples(
        st.sampled_from(["look", "listen", "e__watch"]), st.builds(lambda at: {"at": at}, st.integers(0, 4))
    )
    if world.control == "per_group":
        names = [f"{path.replace('.', '__')}__{verb}" for path in PATHS for verb in ("activate", "deactivate")]
        switched: st.SearchStrategy[tuple[str, Any]] = st.tuples(st.sampled_from(names), st.just({}))
        wrong = st.tuples(st.sampled_from([*names, "look"]), odd)
    else:
        name, argument = LOADERS[world.control]
        opens_or_closes = st.sampled_from([name, "close_group"]) if name == "open_group" else st.just(name)
        given = st.builds(lambda path: {argument: path}, some_paths)
        more = st.builds(lambda path: {"note": "a", argument: path}, some_paths)
        switched = st.tuples(opens_or_closes, given)
        wrong = st.tuples(opens_or_closes | st.just("look"), more | odd)
    return st.one_of(switched, switched, switched, seen, seen, used, wrong)


def traces_in(world: World) -> st.SearchStrategy[tuple[World, list[list[tuple[str, Any]]]]]:
    return st.tuples(st.just(world), st.lists(st.lists(calls(world), min_size=1, max_size=6), min_size=1, max_size=5))


traces = worlds.flatmap(traces_in)
plain = Kind(opens_on=None, controls=True, failures=(), transient=False, pinned=False, tools=1)
everything = (
    World(
        control="enter",
        relevant=False,
        kinds={
            "a": plain,
            "a.b": evolve(plain, opens_on="look"),
            "a.b.c": plain,
            "e": evolve(plain, failures=(True,)),
            "f": evolve(plain, transient=True),
        },
        exclusions=[],
        quota=(None, None),
    ),
    [[("enter", {"which": "a"}), ("enter", {"which": "e"}), ("look", {"at": 1}), ("enter", {"which": "f"})]],
)
"""In this one, each kind of thing happens that the test has to meet."""


@pytest.mark.spec("GRP-6", "AGT-2")
def test_a_conversation_restored_from_messages_has_the_groups_of_the_original() -> None:
    met = Counter[str]()

    @settings(max_examples=3 * settings().max_examples)
    @given(trace=traces)
    @example(trace=everything)
    def agrees(trace: tuple[World, list[list[tuple[str, Any]]]]) -> None:
        met.update(runner.run(agree(*trace)))

    logging.disable()  # calls that fail are logged, with where they did
    try:
        with asyncio.Runner() as runner:
            agrees()
    finally:
        logging.disable(logging.NOTSET)
    assert met.keys() == {"loaded", "failed hook", "refused", "opened by an event", "transient"}


async def agree(world: World, turns: list[list[tuple[str, Any]]]) -> set[str]:
    """Raise unless the two agree; return what was met, so that the agreement is known not to be about nothing."""
    tools = build(world)
    conversation = Conversation(tools)
    past = await executed(conversation, *turns)
    stored = Conversation.restore(tools, conversation.dump())  # without what is transient
    whole = stored.loaded == conversation.loaded
    for shape, write in SHAPES.items():
        messages = write(past)
        for received in (messages, as_objects(messages)):
            again = Conversation.from_history(tools, received)
            assert again.loaded == stored.loaded, shape
            if whole:
                assert again.tools() == conversation.tools(), shape
    answers = [one for turn in past for one in turn]
    opened = [world.kinds[path] for path in conversation.loaded]
    found = {
        "loaded": bool(opened),
        "failed hook": any("Nothing was changed" in one.text for one in answers),
        "refused": any(one.failed for one in answers),
        "opened by an event": any(kind.opens_on for kind in opened),
        "transient": any(kind.transient for kind in opened),
    }
    return {what for what, is_so in found.items() if is_so}
