"""Texts of the tools that are always listed do not change with the state of servers or sessions (SPEC EXP-5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.adapters.gateway.inprocess import House, config_of, gateway_of, opened, wired
from tests.adapters.gateway.serving.test_waiting import called, listed, text_of
from tests.blocked import all_blocked
from toolfold import ToolNotFound
from toolfold_adapters.gateway.stored import DefinitionCache
from toolfold_adapters.gateway.upstream.handshake import ConnectMode
from toolfold_adapters.inprocess import Conversation
from toolfold_adapters.mcp import build_server

pytestmark = pytest.mark.spec("EXP-5", "GWY-4")

ERAS: list[ConnectMode] = ["legacy", "auto"]
NAMES = ("git", "files", "mail")
STATES = ("starting", "ready", "failed")
CONTROL = {"open_group", "close_group", "find_tools", "call_tool", "read_tool", "call_tools"}


async def texts_in(states: Mapping[str, str], mode: ConnectMode, cache: DefinitionCache | None = None) -> str:
    """Return the definitions of the tools that are always listed and the instructions, once servers are in a state."""
    starting = {name: anyio.Event() for name, state in states.items() if state == "starting"}
    house = House(gates=starting, broken={name for name, state in states.items() if state == "failed"})
    gateway = gateway_of(house, config_of(*states), cache=cache, wait=False)
    with anyio.fail_after(60):
        async with gateway as tools:
            server = build_server(tools, handles="stored", extend=gateway.extend, read_tool=True, call_tools=True)
            async with wired(server, mode):
                pass
            for name, upstream in gateway.upstreams.items():
                if name not in starting:
                    await upstream.ask().started()
            await all_blocked()
            async with wired(server, mode) as wire:
                always = {name: tool for name, tool in (await listed(wire)).items() if name in CONTROL}
                assert always.keys() == CONTROL
                return f"{always}{wire.facts.instructions}"


def all_states() -> list[dict[str, str]]:
    return [dict(zip(NAMES, states, strict=True)) for states in product(STATES, repeat=len(NAMES))]


@pytest.mark.parametrize("mode", ERAS)
async def test_with_known_definitions_they_are_the_same_in_every_state_of_the_servers(
    mode: ConnectMode, tmp_path: Path
) -> None:
    cache = DefinitionCache(tmp_path)
    await texts_in(dict.fromkeys(NAMES, "ready"), mode, cache)
    found = {await texts_in(states, mode, cache) for states in all_states()}
    assert len(found) == 1


@pytest.mark.parametrize("mode", ERAS)
async def test_without_they_depend_only_on_which_servers_have_said_what_they_offer(mode: ConnectMode) -> None:
    found: dict[frozenset[str], set[str]] = {}
    for states in all_states():
        known = frozenset(name for name, state in states.items() if state == "ready")
        found.setdefault(known, set()).add(await texts_in(states, mode))
    assert all(len(texts) == 1 for texts in found.values())
    assert len({min(texts) for texts in found.values()}) == 2 ** len(NAMES)


async def test_a_session_is_not_notified_of_a_server_that_fails() -> None:
    house = House(broken={"mail"})
    gateway = gateway_of(house, config_of(*NAMES), wait=False)
    changed: list[Any] = []
    with anyio.fail_after(60):
        async with gateway as tools, tools.open_session() as session:
            session.on_list_changed(changed.append)
            await gateway.upstreams["mail"].ask().started()
            await all_blocked()
            assert gateway.upstreams["mail"].condition[0] == "failed"
            assert changed == []


async def test_opening_searching_and_calling_change_none_of_them() -> None:
    gateway = gateway_of(House(), config_of(*NAMES))
    with anyio.fail_after(60):
        async with gateway as tools:
            server = build_server(tools, handles="stored", extend=gateway.extend)
            async with wired(server, "legacy") as wire:
                first = await listed(wire)
                await called(wire, "open_group", {"group": "git"})
                await called(wire, "find_tools", {"query": "cart", "open": True})
                await called(wire, "git__cart")
                again = await listed(wire)
                assert {name: again[name] for name in first} == first
                await called(wire, "close_group", {"group": "git"})
                assert {name: one for name, one in (await listed(wire)).items() if name in first} == first


async def test_the_state_is_in_answers() -> None:
    house = House(broken={"mail"}, gates={"git": anyio.Event()})
    gateway = gateway_of(house, config_of(*NAMES), wait=False)
    with anyio.fail_after(60):
        async with gateway as tools:
            server = build_server(tools, handles="stored", extend=gateway.extend)
            async with wired(server, "legacy") as wire:
                answer = text_of(await called(wire, "open_group", {"group": "mail"}))
                assert answer.startswith("mail failed: the program mail is not installed")
            in_process = Conversation(tools)
            failed, starting, found = await in_process.execute(
                [("open_group", {"group": "mail"}), ("open_group", {"group": "git"}), ("find_tools", {"query": "x"})]
            )
            assert "The server mail failed: the program mail is not installed" in failed.text
            assert "Group git is open. The server git is starting." in starting.text
            assert "- git: The server git is starting." in found.text


@pytest.mark.spec("GWY-20")
async def test_a_tool_of_a_server_that_is_starting_is_not_taken_for_a_mistyped_one() -> None:
    gateway = gateway_of(House(gates={"git": anyio.Event()}), config_of("git", "files"), wait=False)
    with anyio.fail_after(60):
        async with gateway as tools, tools.open_session(active=["files"]) as session:
            await gateway.upstreams["files"].ask().started()
            await all_blocked()
            with pytest.raises(ToolNotFound) as waiting:
                await session.call("git__cart")
            with pytest.raises(ToolNotFound) as mistyped:
                await session.call("fils__cart")
    assert waiting.value.hint is None
    assert str(mistyped.value.hint).startswith("did you mean 'files__cart'")


@pytest.mark.spec("GWY-20")
@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize(("written", "meant"), [("cart", "cart"), ("crat", "cart"), ("git.cart", "cart")])
async def test_a_name_without_that_of_its_server_gets_the_names_of_all_servers_that_have_it(
    is_open: bool, written: str, meant: str
) -> None:
    active = ["git", "files"] if is_open else []
    async with (
        opened(House(), config_of("git", "files")) as (gateway, _),
        gateway.tools.open_session(active=active) as session,
    ):
        with pytest.raises(ToolNotFound) as mistyped:
            await session.call(written)
    expected = [f"'git__{meant}'"] if "." in written else [f"'git__{meant}'", f"'files__{meant}'"]
    assert sorted(re.findall(r"'[^']*'", str(mistyped.value.hint))) == sorted(expected)
