"""What a client of the draft extension for groups may see: pages, placement, sharing, authority, changes (DEL-5)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.client import ClientExtension, ClientSession, NotificationBinding
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY

from tests.adapters.mcp.asgi import endpoint_of
from tests.adapters.mcp.shop import make_shop
from tests.adapters.mcp.support import CHANGED, build_server, client_of, names_of
from tests.adapters.mcp.test_disclosure import DECLARED, EXTENSION, asked, contents_of, refusal_of
from tests.adapters.mcp.test_handle_delivery import MODERN, received, text_of
from tests.adapters.mcp.test_stored_handles import Journal
from toolfold import Mode, Modes, ToolSet, Visibility

pytestmark = pytest.mark.spec("DEL-5")

GROUPS_CHANGED = "notifications/groups/list_changed"


@pytest.fixture
def declared_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have clients of the SDK declare the extension in a handshake, where that revision has a place for it."""
    build = ClientSession._build_capabilities

    def declare(self: ClientSession, version: str) -> types.ClientCapabilities:
        return build(self, version).model_copy(update={"experimental": {EXTENSION: {}}})

    monkeypatch.setattr(ClientSession, "_build_capabilities", declare)


@asynccontextmanager
async def disclosed(tools: ToolSet, **options: Any) -> AsyncGenerator[Client]:
    async with client_of(build_server(tools, **options), MODERN, extensions=DECLARED) as (client, _):
        yield client


async def top_of(client: Client) -> list[str]:
    """Return the names of the groups at root, over all pages."""
    names: list[str] = []
    params: dict[str, Any] = {}
    while True:
        answer = await asked(client, "groups/list", **params)
        names += [group["name"] for group in answer.groups or []]
        if answer.next_cursor is None:
            return names
        params["cursor"] = answer.next_cursor


def many(count: int, **settings: Any) -> ToolSet:
    tools = ToolSet("many", **settings)
    for number in range(count):
        tools.register_group(f"g{number}")
    return tools


# -- pages and hints --------------------------------------------------------------------------------------------------


@pytest.mark.spec("LST-2")
async def test_pages_have_every_group_once_although_others_come_and_go_between_them() -> None:
    tools = many(6, page_size=2)
    async with disclosed(tools) as client:
        assert await top_of(client) == [f"g{number}" for number in range(6)]
        first = await asked(client, "groups/list")
        assert [group["name"] for group in first.groups or []] == ["g0", "g1"]
        for gone in ("g1", "g2"):
            await tools.unregister_group(gone)
        tools.register_group("a-new-one")
        tools.register_group("g30")
        second = await asked(client, "groups/list", cursor=first.next_cursor)
        assert [group["name"] for group in second.groups or []] == ["g3", "g30"]
        third = await asked(client, "groups/list", cursor=second.next_cursor)
        assert [group["name"] for group in third.groups or []] == ["g4", "g5"]
        assert third.next_cursor is None


@pytest.mark.spec("LST-3")
async def test_cursors_of_other_lists_are_refused() -> None:
    tools = many(3, page_size=1)
    for number in range(3):
        tools.register(f"t{number}", lambda: "")
    async with disclosed(tools) as client:
        cursor = (await client.list_tools(cache_mode="bypass")).next_cursor
        assert cursor is not None
        assert (await refusal_of(client, "groups/list", cursor=cursor)).code == types.INVALID_PARAMS


@pytest.mark.spec("DEL-7")
async def test_answers_say_how_long_they_hold_and_are_private_where_more_than_the_request_decides() -> None:
    personal = many(2)
    personal.register("mine", lambda: "", group="g0", visibility=Visibility.when(lambda view: True))
    for tools, headers, scope in (
        (many(2), {}, "public"),
        (many(2), {"toolfold-groups": "g1"}, "private"),
        (personal, {}, "private"),
    ):
        async with endpoint_of(build_server(tools)) as endpoint:
            target = endpoint.target(**headers)
            async with client_of(target, MODERN, extensions=DECLARED) as (client, _):
                for method, params in (("groups/list", {}), ("groups/get", {"name": "g0"})):
                    answer = await asked(client, method, **params)
                    assert (answer.ttl_ms, answer.cache_scope) == (0, scope)


# -- placement and sharing --------------------------------------------------------------------------------------------


async def test_nothing_is_both_in_a_list_and_in_a_group() -> None:
    tools = many(2)
    tools.register("both", lambda: "", visibility=Visibility.when(lambda view: True) | Visibility.group("g0"))
    tools.register("inner", lambda: "found", visibility=Visibility.group("g1"))
    async with disclosed(tools) as client:
        assert await names_of(client) == ["both"]
        assert await top_of(client) == ["g1"]
        assert [tool["name"] for tool in (await contents_of(client, "g1"))["tools"]] == ["inner"]
        assert text_of(await client.call_tool("inner", {})) == "found"


async def test_what_groups_share_is_the_same_in_all_of_them_and_called_by_one_name() -> None:
    tools = many(3)
    modes = {"always": Mode(), "both": Mode(lambda view: view.is_group_active("g1"))}
    schema = {"type": "object", "properties": {"what": {"type": "string"}}}
    tools.register("look", lambda arguments: "seen", group="g0", input_schema=schema, modes=Modes("what", modes))
    tools.register("plain", lambda: "done", group="g2", description="Plain.")
    for name in ("g0.look", "g2.plain"):
        tools.share_tool(name, "g1")
    async with disclosed(tools) as client:
        zero, one, two = [(await contents_of(client, f"g{number}"))["tools"] for number in range(3)]
        assert one == [*zero, *two]
        assert zero[0]["inputSchema"]["properties"]["what"]["enum"] == ["always"]
        assert text_of(await client.call_tool("g2.plain", {})) == "done"


async def test_a_tool_of_a_closed_gate_is_called_through_the_group_that_it_is_shared_with() -> None:
    tools = many(1)
    tools.register_group("gate", selectable=False)
    tools.register("key", lambda: "turned", group="gate")
    async with disclosed(tools) as client:
        assert (await refusal_of(client, "groups/get", name="gate")).code == types.INVALID_PARAMS
        tools.share_tool("gate.key", "g0")
        assert [tool["name"] for tool in (await contents_of(client, "g0"))["tools"]] == ["gate.key"]
        assert text_of(await client.call_tool("gate.key", {})) == "turned"


async def test_a_group_of_instructions_alone_has_no_contents_and_its_description_stands_for_them() -> None:
    tools = ToolSet("t")
    tools.register_group("manual", "How it is done", instructions="First this, then that.")
    tools.register_group("bare", "Nothing yet")
    async with disclosed(tools) as client:
        assert (await asked(client, "groups/get", name="manual")).instructions == "First this, then that."
        assert (await asked(client, "groups/get", name="bare")).instructions == "Nothing yet"


async def test_a_group_that_a_quota_never_lets_open_is_not_offered() -> None:
    tools = ToolSet("t", max_active=1)
    tools.register_group("outer")
    tools.register_group("inner", parent="outer")
    tools.register("work", lambda: "", group="outer.inner")
    tools.register_group("other")
    async with disclosed(tools) as client:
        assert await top_of(client) == ["other"]


# -- authority --------------------------------------------------------------------------------------------------------


def only(name: str, allowed: dict[str, bool]) -> Visibility:
    return Visibility.when(lambda view: allowed[name])


def guarded() -> tuple[ToolSet, dict[str, bool]]:
    """Return groups whose tools a caller may or may not see, and what decides that."""
    allowed = {"read": True, "write": True, "deep": True}
    tools = ToolSet("guarded")
    tools.register_group("files", instructions="Read first.")
    tools.register_group("admin")
    tools.register_group("keys", parent="admin")
    for name, group in (("read", "files"), ("write", "files"), ("deep", "admin.keys")):
        tools.register(name, lambda: "done", group=group, visibility=only(name, allowed))
    return tools, allowed


async def test_a_group_whose_tools_are_all_withheld_is_as_one_that_is_absent() -> None:
    tools, allowed = guarded()
    async with disclosed(tools) as client:
        assert await top_of(client) == ["admin", "files"]
        assert list(await contents_of(client, "admin")) == ["groups"]
        allowed["deep"] = False
        assert await top_of(client) == ["files"]
        for hidden in ("admin", "admin-0d-keys"):
            refused = await refusal_of(client, "groups/get", name=hidden)
            absent = await refusal_of(client, "groups/get", name="absent")
            assert refused.message.replace(hidden, "absent") == absent.message
            assert (refused.code, refused.data) == (absent.code, absent.data)
        allowed["write"] = False
        assert [tool["name"] for tool in (await contents_of(client, "files"))["tools"]] == ["files.read"]
        allowed["read"] = False
        assert await top_of(client) == []


@pytest.mark.spec("CALL-1")
async def test_a_tool_that_is_revoked_after_its_group_was_fetched_is_unknown() -> None:
    tools, allowed = guarded()
    async with disclosed(tools) as client:
        await contents_of(client, "files")
        assert text_of(await client.call_tool("files.read", {})) == "done"
        allowed["read"] = False
        with pytest.raises(MCPError, match=r"Unknown tool: files\.read"):
            await client.call_tool("files.read", {})


# -- changes ----------------------------------------------------------------------------------------------------------


class Following(ClientExtension):
    """The extension as a client declares it that is notified of changes of the groups."""

    identifier = EXTENSION

    def __init__(self) -> None:
        self.notified = Journal()

    def notifications(self) -> list[NotificationBinding[Any]]:
        return [NotificationBinding(method=GROUPS_CHANGED, params_type=types.NotificationParams, handler=self._note)]

    async def _note(self, params: types.NotificationParams) -> None:
        self.notified.append("tagged" if SUBSCRIPTION_ID_META_KEY in (params.meta or {}) else "untagged")


@asynccontextmanager
async def following(target: Any, **asked_for: Any) -> AsyncGenerator[Following]:
    """Yield a client that listens to changes of prompts, and of groups if it asks for them."""
    follower = Following()
    asked = types.SubscriptionFilter(prompts_list_changed=True, **asked_for)
    request = types.SubscriptionsListenRequest(params=types.SubscriptionsListenRequestParams(notifications=asked))
    async with (
        client_of(target, MODERN, extensions=[follower]) as (client, listener),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(client.session.send_request, request, types.SubscriptionsListenResult)
        assert await listener.next() == "notifications/subscriptions/acknowledged"
        yield follower
        tasks.cancel_scope.cancel()


async def changes_are_notified_of(target: Any, tools: ToolSet, allowed: dict[str, bool]) -> None:
    """Change what a caller is offered, and see that it is notified where that is a change of the groups at root."""
    steps: tuple[Callable[[], object], ...] = (
        lambda: tools.register("more", lambda: "", group="files"),
        lambda: tools.register_group("inner", parent="files"),
        lambda: tools.register_group("new"),
        lambda: allowed.update(read=False),
        lambda: allowed.update(deep=False),
        lambda: tools.update_group("new", "Now described"),
    )
    changes = 0
    async with following(target, groupsListChanged=True) as first, following(target) as other:
        for number, change in enumerate(steps):
            change()
            tools.notify_list_changed("prompt")
            changes += number in (2, 4, 5)
            await first.notified.reaches(changes)
        assert first.notified == ["tagged"] * 3
        assert other.notified == []


@pytest.mark.spec("NTF-3")
async def test_changes_of_the_groups_at_root_are_notified_of_to_those_who_ask() -> None:
    tools, allowed = guarded()
    await changes_are_notified_of(build_server(tools), tools, allowed)


# -- the legacy era ---------------------------------------------------------------------------------------------------


async def a_shop_is_disclosed(client: Client) -> None:
    """See that a client fetches the groups of a shop and calls what is in them, which changes nothing."""
    assert await top_of(client) == ["cash", "credit", "stock"]
    stock = await contents_of(client, "stock")
    assert [group["name"] for group in stock["groups"]] == ["stock-0d-orders"]
    assert "stock.count" in [tool["name"] for tool in stock["tools"]]
    before = await names_of(client)
    assert before == ["hello", "join", "open_everything", "open_stock"]
    assert received(await client.call_tool("stock.count", {"item": "x"})) == {"item": "x", "shelf": 1}
    assert await names_of(client) == before
    assert (await refusal_of(client, "groups/get", name="absent")).code == types.INVALID_PARAMS


@pytest.mark.usefixtures("declared_at_once")
async def test_a_legacy_client_that_declares_it_in_its_handshake_is_served_alike() -> None:
    async with client_of(build_server(make_shop()), "legacy") as (client, _):
        assert (client.server_capabilities.experimental or {})[EXTENSION] == {"listChanged": True}
        assert client.instructions is None
        await a_shop_is_disclosed(client)


@pytest.mark.usefixtures("declared_at_once")
@pytest.mark.spec("NTF-3")
async def test_a_legacy_client_that_declares_it_is_notified_with_every_announcement() -> None:
    tools, follower = make_shop(), Following()
    async with client_of(build_server(tools), "legacy", extensions=[follower]) as (client, listener):
        assert "new" not in await top_of(client)
        tools.register_group("new")
        tools.notify_list_changed()
        assert await listener.next() == CHANGED
        await follower.notified.reaches(1)
        assert "new" in await top_of(client)
        assert follower.notified == ["untagged"]


async def test_a_legacy_client_that_does_not_is_served_nothing_of_it() -> None:
    tools = make_shop()
    async with client_of(build_server(tools), "legacy", extensions=DECLARED) as (client, listener):
        assert "stock.activate" in await names_of(client)
        assert (await refusal_of(client, "groups/list")).code == types.METHOD_NOT_FOUND
        tools.notify_list_changed()
        assert await listener.next() == CHANGED
    async with client_of(build_server(make_shop(), disclosure=False), "legacy") as (client, _):
        assert client.server_capabilities.experimental is None
