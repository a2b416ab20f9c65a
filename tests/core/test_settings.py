"""SPEC ERR-2: invalid settings, sessions that were not opened, and one text in place of several."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.core.support import desk
from toolfold import ConfigError, DuplicateName, Session, SessionClosed, ToolSet

COUNT = "a whole number of at least 1"
SECONDS = "a number of seconds above 0"
FUNCTION = "a function that is not async"


async def later() -> float:
    return 0.0


WRONG: list[tuple[str, Any, str]] = [
    *(
        (setting, value, COUNT)
        for setting in ("page_size", "max_active", "max_sessions")
        for value in ("10", 0, 1.5, True)
    ),
    *((setting, value, SECONDS) for setting in ("hook_timeout", "idle_timeout") for value in ("5", 0, -1, True)),
    ("hook_timeout", float("nan"), SECONDS),
    *((setting, value, FUNCTION) for setting in ("state", "clock") for value in (5, later)),
    ("on_hidden", "shout", "one of 'opaque', 'hint'"),
    ("when_full", ["refuse"], "one of 'refuse', 'end_idlest'"),
    ("evict", "newest", "one of None, 'oldest', 'idlest'"),
]


@pytest.mark.spec("ERR-1", "ERR-2")
@pytest.mark.parametrize(("setting", "value", "expected"), WRONG, ids=[f"{row[0]}-{WRONG.index(row)}" for row in WRONG])
def test_an_invalid_setting_is_refused_by_name_value_and_what_is_expected(
    setting: str, value: Any, expected: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        ToolSet("t", **{"clock": time.monotonic, setting: value})
    assert str(refused.value) == f"{setting} must be {expected}, not {value!r}."


@pytest.mark.spec("ERR-1", "ERR-2", "SAF-7")
def test_a_setting_that_there_is_not_is_refused_with_those_like_it() -> None:
    with pytest.raises(ConfigError, match=r"There is no setting 'max_activ' \(did you mean 'max_active'\?\)"):
        ToolSet("t", max_activ=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.spec("ERR-1", "ACT-10")
@pytest.mark.parametrize("evict", ["oldest", "idlest"])
def test_what_makes_room_needs_a_limit(evict: Any) -> None:
    with pytest.raises(ConfigError, match=f"evict='{evict}' says what makes room under a limit: set max_active or"):
        ToolSet("t", evict=evict)
    assert ToolSet("t", evict=evict, max_active=2).catalog.max_active == 2


async def test_the_reprs_of_tool_sets_and_sessions_say_what_they_have() -> None:
    tools = desk()
    assert repr(tools) == "<ToolSet 'desk': 7 tools in 6 groups>"
    session = tools.open_session(identity="s", active="a")
    assert repr(session) == "<Session 's': new>"
    async with session:
        assert repr(session) == "<Session 's': open, a active>"
    assert repr(session) == "<Session 's': closed>"


STYLES = r"There is no control style .*; use 'per_group', 'none', 'open_group', 'load_tool_group'"


@pytest.mark.spec("ERR-1", "ERR-2", "CTL-2", "CTL-3")
@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        *((name, {}, "name must be a text, not ") for name in (5, None, b"desk")),
        *(("t", {"control": control}, STYLES) for control in (5, None, ["none"], "per-group")),
        ("t", {"control_visibility": "sometimes"}, 'control_visibility is "always" or "relevant", not \'sometimes\''),
    ],
)
def test_a_name_or_a_style_of_control_is_refused_with_what_is_known(name: Any, options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ToolSet(name, **options)


@pytest.mark.spec("HOOK-6", "SAF-5")
def test_the_default_hook_timeout_is_half_a_minute() -> None:
    assert (desk().runtime.hook_timeout, desk(hook_timeout=None).runtime.hook_timeout) == (30, None)


# Sessions that were not opened


@pytest.mark.spec("SES-3", "ERR-2")
def test_the_error_of_a_forgotten_async_says_what_to_write() -> None:
    tools: Any = desk()
    session = tools.open_session(identity="s")
    with pytest.raises(SessionClosed) as refused, session:
        raise AssertionError("the block does not run")
    assert str(refused.value) == (
        "Session 's' was not opened; use `async with tools.open_session() as session`, or `await session.start()`."
    )
    assert refused.value.session == "s"
    assert tools.sessions == ()


REQUESTS: dict[str, Callable[[Session], Awaitable[object]]] = {
    "call": lambda session: session.call("ping"),
    "activate": lambda session: session.activate("a"),
    "prompt": lambda session: session.get_prompt("p"),
}


@pytest.mark.spec("SES-3", "ERR-2")
@pytest.mark.parametrize("request_", REQUESTS)
async def test_the_error_of_a_session_that_was_never_opened_differs_from_that_of_one_that_has_ended(
    request_: str,
) -> None:
    session = desk().open_session(identity="s")
    with pytest.raises(SessionClosed, match=r"^Session 's' was not opened; use `async with"):
        await REQUESTS[request_](session)
    with pytest.raises(SessionClosed, match="was not opened"):
        session.list_tools()
    async with session:
        pass
    with pytest.raises(SessionClosed, match=r"^Session 's' is not open; open a new one\.$"):
        await REQUESTS[request_](session)


# One text in place of several


@pytest.mark.spec("NTF-3", "ERR-2")
async def test_one_kind_of_list_is_announced_by_its_name_and_an_unknown_one_is_refused() -> None:
    notified: list[frozenset[str]] = []
    tools: Any = desk()
    async with tools.open_session() as session:
        session.on_list_changed(notified.append)
        tools.notify_list_changed("prompt")
        session.notify("resource")
        tools.notify_list_changed(["tool", "prompt"])
        assert notified == [{"prompt"}, {"resource"}, {"tool", "prompt"}]
        for announce in (tools.notify_list_changed, session.notify):
            with pytest.raises(ConfigError, match=r"There is no kind 'tools'; the kinds are tool, prompt, "):
                announce("tools")
        assert len(notified) == 3


@pytest.mark.spec("REG-7", "REG-1")
async def test_a_tool_set_can_adopt_the_settings_of_another_and_open_sessions_go_on() -> None:
    tools = ToolSet("desk", control="none")
    for path in ("a", "b"):
        tools.register_group(path)
    tools.register("open_group", lambda: "mine")
    async with tools.open_session(active=["a"]) as session:
        tools.adopt_settings(ToolSet("other", control="per_group", max_active=1))
        assert {tool.name for tool in session.list_tools().tools} >= {"a.activate", "b.deactivate", "open_group"}
        assert session.active == ("a",)
        assert (await session.call("b.activate")).is_error
        before = tools.catalog
        with pytest.raises(DuplicateName, match="open_group"):
            tools.adopt_settings(ToolSet("other", control="open_group"))
        assert tools.catalog is before
        tools.adopt_settings(ToolSet("other", control="none"))
        assert [tool.name for tool in session.list_tools().tools] == ["open_group"]
        assert await session.activate("b")


@pytest.mark.spec("NAM-6", "REG-1")
def test_names_on_the_wire_follow_the_control_tools_of_adopted_settings() -> None:
    tools = ToolSet("desk", control="none")
    tools.register_group("a")
    names: list[str] = []
    tools.guard_names(names.append, names.remove)
    tools.adopt_settings(ToolSet("other", control="open_group"))
    assert sorted(names) == ["close_group", "open_group"]
    tools.adopt_settings(ToolSet("other"))
    assert sorted(names) == ["a.activate", "a.deactivate"]

    def adopt_and_fail() -> None:
        with tools.all_or_nothing():
            tools.adopt_settings(ToolSet("other", control="none"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        adopt_and_fail()
    assert {tool.name for tool in tools.default_session.list_tools().tools} == {"a.activate", "a.deactivate"}
