"""What a client under a profile learns of servers outside of it beside answers: no notice, and no capability."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from tests.adapters.gateway.inprocess import SECONDS, Clock, wired
from tests.adapters.gateway.lister import Lister, tools_from
from tests.adapters.gateway.registering import offering
from tests.blocked import all_blocked
from toolfold_adapters.gateway import Gateway, GatewayConfig, Runtime, UpstreamConfig, open_gateway
from toolfold_adapters.gateway.config.settings import ProfileConfig
from toolfold_adapters.gateway.upstream.definitions import Definitions
from toolfold_adapters.gateway.upstream.handshake import ConnectMode
from toolfold_adapters.gateway.upstream.wire import Wire
from toolfold_adapters.mcp import build_server
from toolfold_adapters.skills import read_skill

pytestmark = pytest.mark.spec("ISO-2")

ERAS: tuple[ConnectMode, ...] = ("legacy", "auto")
ABLE: Mapping[str, dict[str, Any]] = {
    "in": {},
    "out": {"completions": {}, "logging": {}, "resources": {"subscribe": True}},
}
"""What each server can do beside tools."""
PROFILES = {
    "narrow": ProfileConfig(active=("in",)),
    "wide": ProfileConfig(active=("in",), available=("out",)),
    "all": ProfileConfig(active=("in",), available=("*",)),
}
CHANGES: dict[str, Definitions | None] = {
    "tools": offering(*tools_from(1, 1)),
    "prompts": offering(*tools_from(0, 1), prompts=[{"name": "greet"}]),
    "resources": offering(*tools_from(0, 1), resources=[{"name": "list", "uri": "out://list"}]),
    "nothing any more": None,
}


@asynccontextmanager
async def opened(config: GatewayConfig) -> AsyncGenerator[Gateway]:
    def transport(upstream: UpstreamConfig, called: str) -> Any:
        introduction = {"capabilities": {"tools": {}, **ABLE[called]}}
        return Lister({"tools/list": lambda _: {"tools": tools_from(0, 1)}}, introduction=introduction).transport(
            upstream, called
        )

    gateway = open_gateway(config, runtime=Runtime(clock=Clock(), transport=transport))
    with anyio.fail_after(SECONDS):
        async with gateway:
            yield gateway


CONFIG = GatewayConfig(
    upstreams={name: UpstreamConfig(command=(name,), mode="legacy") for name in ABLE}, profiles=PROFILES
)


@asynccontextmanager
async def listening(wire: Wire, era: ConnectMode, noticed: list[str]) -> AsyncGenerator[None]:
    """Have a client notified of all changes of lists."""
    async with anyio.create_task_group() as tasks:
        if era == "auto":
            names = ("toolsListChanged", "promptsListChanged", "resourcesListChanged")
            tasks.start_soon(wire.request, "subscriptions/listen", {"notifications": dict.fromkeys(names, True)})
            while not noticed:
                await anyio.lowlevel.checkpoint()
        await wire.request("tools/list", {})
        noticed.clear()
        yield
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("profile", [*PROFILES, None])
@pytest.mark.parametrize("era", ERAS)
async def test_lists_of_a_server_outside_a_profile_change_without_a_notice(
    era: ConnectMode, profile: str | None, change: str
) -> None:
    noticed: list[str] = []
    seen: dict[str, list[str]] = {}
    async with opened(CONFIG) as gateway:
        server = build_server(gateway.tools, extend=gateway.extend, profile=profile)
        async with (
            wired(server, era, on_notification=lambda method, *_: noticed.append(method)) as wire,
            listening(wire, era, noticed),
        ):
            for changed in ("out", "in"):
                await gateway.registration.replace(changed, CHANGES[change])
                await all_blocked()
                seen[changed] = [*noticed]
                noticed.clear()
    assert all(method.endswith("/list_changed") for method in seen["in"])
    assert seen["in"]
    assert bool(seen["out"]) is (profile != "narrow")


def capabilities_of(wire: Wire) -> set[str]:
    able = wire.facts.capabilities
    subscribe = {"subscribe"} if able.get("resources", {}).get("subscribe") else set[str]()
    return {"completions", "logging"} & {*able} | subscribe


@pytest.mark.parametrize("profile", [*PROFILES, None])
@pytest.mark.parametrize("era", ERAS)
async def test_what_no_server_of_a_profile_can_do_its_introduction_does_not_say(
    era: ConnectMode, profile: str | None
) -> None:
    async with opened(CONFIG) as gateway:
        server = build_server(gateway.tools, extend=gateway.extend, profile=profile)
        async with wired(server, era) as wire:
            able = capabilities_of(wire)
    assert ("completions" in able) is (profile != "narrow")
    assert profile != "narrow" or not able


@pytest.mark.parametrize("profile", ["with", "narrow"])
async def test_skills_outside_a_profile_are_no_capability(profile: str, tmp_path: Path) -> None:
    folder = tmp_path / "steps"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: steps\ndescription: How to.\n---\nSteps.\n")
    profiles = {**PROFILES, "with": ProfileConfig(active=("in",), available=("steps",))}
    config = CONFIG.model_copy(update={"skills": (read_skill(folder),), "profiles": profiles})
    async with opened(config) as gateway:
        server = build_server(gateway.tools, extend=gateway.extend, profile=profile)
        for era in ERAS:
            async with wired(server, era) as wire:
                said = await wire.request("server/discover", {}) if era == "auto" else {}
                extensions = said.get("capabilities", {}).get("extensions", {})
                assert any("skills" in name for name in extensions) == (profile == "with" and era == "auto")
