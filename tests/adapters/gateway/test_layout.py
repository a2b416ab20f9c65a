"""What a gateway offers, as a function of its configuration and of its servers."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolfold_adapters.gateway import GatewayConfig, UpstreamConfig
from toolfold_adapters.gateway.config.settings import BudgetsConfig
from toolfold_adapters.gateway.layout import Layout, layout_of
from toolfold_adapters.gateway.upstream.definitions import Definitions, usable
from toolfold_adapters.manifests.nouns import MIN_TOOLS

pytestmark = pytest.mark.spec("GWY-2", "GWY-6")

BUDGET = 300
RESERVED = ("call_tool", "open_group")
SERVERS = st.dictionaries(
    st.sampled_from(["a", "a_b", "a-b", "b", "call"]),
    st.lists(st.text("ab_.ü-", min_size=1, max_size=70) | st.sampled_from(RESERVED), max_size=12, unique=True),
    min_size=1,
    max_size=4,
)


def tool(name: str) -> dict[str, object]:
    return {"name": name, "description": "x" * 10 * (len(name) % 7), "inputSchema": {"type": "object"}}


def layout(servers: dict[str, list[str]]) -> Layout:
    config = GatewayConfig(
        upstreams={name: UpstreamConfig(url="http://x") for name in servers}, budgets=BudgetsConfig(group_tokens=BUDGET)
    )
    offered = {name: usable(Definitions(tools=[tool(one) for one in names])) for name, names in servers.items()}
    return layout_of(config, offered, RESERVED)


@settings(deadline=None)
@given(SERVERS)
def test_every_tool_has_one_name_that_clients_accept_and_is_in_a_group_that_exists(
    servers: dict[str, list[str]],
) -> None:
    made = layout(servers)
    placed = list(made.components.values())
    assert sorted((one.server, one.original) for one in placed) == sorted(
        (server, name) for server, names in servers.items() for name in names
    )
    for (_, name), one in made.components.items():
        assert name == one.name
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,48}", name)
        assert name not in RESERVED
        assert one.group in made.groups
    assert layout(servers) == made


@settings(deadline=None)
@given(SERVERS, st.sampled_from(["a", "a_b", "b", "new"]), st.booleans())
def test_another_server_changes_neither_names_nor_groups_of_the_others(
    servers: dict[str, list[str]], added: str, first: bool
) -> None:
    if added in servers:
        return
    more = {added: ["a", "b"], **servers} if first else {**servers, added: ["a", "b"]}
    before, after = layout(servers), layout(more)
    for key, one in before.components.items():
        assert after.components[key] == one
    for path, group in before.groups.items():
        assert after.groups[path] == group


@settings(deadline=None)
@given(SERVERS)
def test_every_server_is_a_group_of_its_name_that_has_no_small_group_in_it(servers: dict[str, list[str]]) -> None:
    made = layout(servers)
    assert {path for path in made.groups if "." not in path} == {name for name, own in servers.items() if own}
    sizes = Counter(one.group for one in made.components.values())
    for path in made.groups:
        inner = [other for other in made.groups if other.startswith(f"{path}.")]
        assert "." not in path or inner or sizes[path] >= MIN_TOOLS


@pytest.mark.spec("GWY-2", "CTL-7")
@pytest.mark.parametrize(("servers", "most"), [(3, 700), (14, 1750), (29, 2000)])
def test_the_list_of_derived_groups_is_short_and_names_every_server_that_fits(servers: int, most: int) -> None:
    upstreams = {f"server_{number}": {"url": "http://x"} for number in range(servers)}
    described = dict.fromkeys(upstreams, "What it does. " * 30)

    def opener(**settings: object) -> str:
        tools = GatewayConfig.model_validate({"upstreams": upstreams, **settings}).new_tool_set("made")
        for path, text in described.items():
            tools.register_group(path, text)
        return tools.catalog.tools["open_group"].description

    assert len(opener()) <= most
    assert len(opener()) <= len(opener(groups={})) <= 2000
    assert all(f"- {name}: What it does." in opener() for name in upstreams)
