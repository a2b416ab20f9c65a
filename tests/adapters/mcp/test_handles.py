"""Handles by themselves: what they carry, and what becomes of forged, damaged, foreign and old ones (DEL-3)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from itsdangerous.encoding import base64_decode
from mcp import Client
from mcp.types import CallToolResult

from toolfold import ConfigError, HandleExpired, HandleInvalid, Snapshot, ToolSet, TransitionRequest, Visibility
from toolfold_adapters.mcp import build_server
from toolfold_adapters.mcp.address.handle import Handles
from toolfold_adapters.mcp.address.signed import KEY_VARIABLE, NAMELESS, SignedHandles, Stale, StatePacker, signing_keys
from toolfold_adapters.stores import MemoryStore

pytestmark = pytest.mark.spec("DEL-3")

KEY = "a key of more than sixteen letters"
OTHER_KEY = "another key of more than sixteen"


class Clock:
    """A clock that is set by hand."""

    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def make_tools(name: str = "desk", groups: int = 30, evict: bool = False) -> ToolSet:
    """Return a tool set whose groups g0, g1, … are pairs of a parent and a child."""
    tools = ToolSet(name, control="none", max_active=40 if evict else None, evict="oldest" if evict else None)
    for number in range(groups // 2):
        tools.register_group(f"g{number}")
        tools.register_group("inner", parent=f"g{number}")
    return tools


def make_handles(
    keys: Sequence[str] = (KEY,), lifetime: float = 60, stale: Stale = "normalise", clock: Clock | None = None
) -> SignedHandles:
    return SignedHandles(keys, lifetime, stale, clock or Clock())


def opened(tools: ToolSet, *paths: str) -> Snapshot:
    return Snapshot.of(tools.catalog).after(TransitionRequest(activate=paths))


@given(
    count=st.integers(0, 15),
    evict=st.booleans(),
    facts=st.dictionaries(
        st.text(max_size=5), st.none() | st.booleans() | st.integers() | st.text(max_size=5), max_size=3
    ),
)
def test_a_handle_decodes_to_exactly_its_snapshot(count: int, evict: bool, facts: dict[str, object]) -> None:
    tools = make_tools(evict=evict)
    names = [name for number in range(count) for name in (f"g{number}", f"g{number}.inner")]
    snapshot = opened(tools, *names).with_facts({**facts, "pair": (1, "a")})
    handles = make_handles()
    assert handles.read(handles.issue(snapshot, "ada"), tools.catalog, "ada").snapshot is snapshot


@pytest.mark.parametrize("active", [0, 1, 12, 13, 250, 500])
def test_a_handle_of_five_hundred_groups_is_short(active: int) -> None:
    tools = ToolSet("large", control="none")
    for number in range(500):
        tools.register_group(f"a_group_with_quite_a_long_name_{number}")
    paths = [group.path for group in tools.catalog.groups][-active:] if active else []
    handles = make_handles()
    handle = handles.issue(opened(tools, *paths), "ada")
    assert len(handle) < 200
    assert re.fullmatch(r"[A-Za-z0-9_.-]+", handle)
    assert handles.read(handle, tools.catalog, "ada").snapshot.active == tuple(sorted(paths))


def test_no_change_of_a_single_character_and_no_shortening_is_accepted() -> None:
    tools = make_tools()
    handles = make_handles()
    handle = handles.issue(opened(tools, "g1"), "")
    damaged = {handle[:position] for position in range(len(handle))}
    for position, letter in enumerate(handle):
        damaged |= {handle[:position] + other + handle[position + 1 :] for other in "Aa0_-.é" if other != letter}
        damaged.add(handle[:position] + chr(ord(letter) ^ 1) + handle[position + 1 :])
    damaged |= {handle + "A", f" {handle}", handle * 100, "", "..", "a.b.c", "ü"}
    for text in sorted(damaged - {handle}):
        with pytest.raises(HandleInvalid, match="Open the groups that you need again"):
            handles.read(text, tools.catalog, "")


def test_no_other_text_of_the_same_bytes_is_accepted() -> None:
    """The last letter of a signature has two bits that say nothing, so three other texts decode to the same one."""
    tools, handles = make_tools(), make_handles()
    handle = handles.issue(opened(tools, "g1"), "")
    signature = handle.rpartition(".")[2]
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    same = [one for one in letters if base64_decode(signature[:-1] + one) == base64_decode(signature)]
    assert len(same) == 16
    for text in {*(handle[:-1] + one for one in same), f"{handle}=", f"{handle}=="} - {handle}:
        with pytest.raises(HandleInvalid, match="The handle is damaged"):
            handles.read(text, tools.catalog, "")


def test_a_handle_is_valid_only_for_its_caller() -> None:
    tools = make_tools()
    handles = make_handles()
    handle = handles.issue(opened(tools, "g1"), "ada")
    for stranger in ("", "bob", "ada "):
        with pytest.raises(HandleInvalid):
            handles.read(handle, tools.catalog, stranger)


def test_a_handle_expires() -> None:
    tools, clock = make_tools(), Clock()
    handles = make_handles(clock=clock)
    handle = handles.issue(opened(tools, "g1"), "")
    clock.now += 60
    assert handles.read(handle, tools.catalog, "").snapshot.active == ("g1",)
    clock.now += 1
    with pytest.raises(HandleExpired, match="expired"):
        handles.read(handle, tools.catalog, "")


def test_keys_can_be_rotated() -> None:
    tools = make_tools()
    handle = make_handles([KEY]).issue(opened(tools, "g1"), "")
    assert make_handles([KEY, OTHER_KEY]).read(handle, tools.catalog, "").snapshot.active == ("g1",)
    newer = make_handles([KEY, OTHER_KEY]).issue(opened(tools, "g2"), "")
    assert make_handles([OTHER_KEY]).read(newer, tools.catalog, "").snapshot.active == ("g2",)
    with pytest.raises(HandleInvalid):
        make_handles([OTHER_KEY]).read(handle, tools.catalog, "")


@pytest.mark.spec("PER-2")
def test_a_handle_of_an_older_catalog_is_normalised_or_refused() -> None:
    tools = make_tools(groups=6)
    handle = make_handles().issue(opened(tools, "g0", "g0.inner", "g1", "g2"), "")
    changed = make_tools(groups=4)
    changed.register_exclusion("g0", "g1")
    assert make_handles(stale="normalise").read(handle, changed.catalog, "").snapshot.active == ("g0", "g0.inner")
    with pytest.raises(HandleInvalid, match="groups changed"):
        make_handles(stale="refuse").read(handle, changed.catalog, "")


def test_a_large_handle_of_an_older_catalog_is_refused_since_it_has_no_names() -> None:
    tools = make_tools(groups=60)
    handle = make_handles().issue(opened(tools, *(f"g{number}" for number in range(20))), "")
    tools.register_group("more")
    with pytest.raises(HandleInvalid, match="groups changed"):
        make_handles().read(handle, tools.catalog, "")


def test_a_handle_of_another_server_with_the_same_key_does_not_pass_unnoticed() -> None:
    handle = make_handles().issue(opened(make_tools("one"), "g1"), "")
    with pytest.raises(HandleInvalid):
        make_handles().read(handle, make_tools("other").catalog, "")


def test_keys_come_from_the_argument_then_the_environment_then_are_random(caplog: pytest.LogCaptureFixture) -> None:
    environment = {KEY_VARIABLE: f"{'o' * 20} {'n' * 20}"}
    assert signing_keys(KEY, environment) == [KEY]
    assert signing_keys([KEY, OTHER_KEY], environment) == [KEY, OTHER_KEY]
    assert signing_keys(None, environment) == ["o" * 20, "n" * 20]
    assert signing_keys(None, {}) != signing_keys(None, {})
    assert not caplog.records
    signing_keys(None, {"WEB_CONCURRENCY": "4"})
    assert KEY_VARIABLE in caplog.text


@pytest.mark.spec("STO-4", "DEL-3")
@pytest.mark.parametrize(
    ("hook", "options", "is_warned"),
    [(None, {}, True), (print, {}, False), (None, {"handle_key": KEY}, False), (None, {"handles": "stored"}, False)],
)
def test_a_store_without_a_key_is_warned_of_where_handles_are_signed(
    hook: Any, options: dict[str, Any], is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    tools = ToolSet("stored")
    tools.register_group("g", on_activate=hook)
    build_server(tools, store=MemoryStore(), **options)
    assert (KEY_VARIABLE in caplog.text) == is_warned


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="16 characters"):
        make_handles(["short"])


@pytest.mark.spec("DEL-3", "STO-7")
def test_the_names_of_groups_that_are_gone_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    tools, packer = ToolSet("desk"), StatePacker()
    tools.register_group("a")
    packed = packer.pack(Snapshot.of(tools.catalog).after(TransitionRequest(["a"])))
    tools.unregister_group("a").close()

    def names() -> tuple[str, ...]:
        saved = packer.unpack(packed, tools.catalog)
        assert saved is not None
        return saved.active

    assert names() == ("a",)
    monkeypatch.setattr("toolfold_adapters.mcp.address.signed.REMEMBERED_NAMES", 0)
    tools.register_group("b")
    packer.pack(Snapshot.of(tools.catalog))
    assert names() == (NAMELESS,)


@pytest.mark.parametrize(("handles", "comes_back"), [("auto", True), ("stored", False)])
async def test_the_facts_of_an_older_handle_come_back_unless_handles_are_stored(
    handles: Handles, comes_back: bool
) -> None:
    tools = ToolSet("desk", control="open_group")
    tools.register_group("post")
    trusted = Visibility.when(lambda view: not view.facts.get("outside"))
    tools.register("send", lambda: "sent", input={}, group="post", visibility=trusted)
    tools.register(
        "read", lambda _, context: context.set_fact("outside", True), input={}, group="post", description="Read mail"
    )
    async with Client(build_server(tools, handles=handles)) as client:

        async def call(name: str, handle: str) -> CallToolResult:
            return await client.call_tool("call_tool", {"name": name, "handle": handle})

        first = (await client.call_tool("open_group", {"group": "post"})).meta or {}
        older = str(first["dev.toolfold/change"]["handle"])
        assert not (await call("post__send", older)).is_error
        read = await call("post__read", older)
        newer = str((read.meta or {}).get("dev.toolfold/handle", older))
        assert (await call("post__send", newer)).is_error
        assert (await call("post__send", older)).is_error != comes_back
