"""Calls that are tasks at their upstream, of clients that know tasks and of those that do not (SPEC GWY-18)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from tests.adapters.gateway.inprocess import SECONDS, config_of, wired
from tests.adapters.gateway.serving.test_pages import text_of
from tests.adapters.gateway.upstreams.tasks import ASKED, OneTask, TaskServer
from tests.adapters.mcp.test_call_tools import call as one_call
from tests.blocked import all_blocked
from toolfold import ProtocolError
from toolfold_adapters.gateway import Gateway, Runtime, open_gateway
from toolfold_adapters.gateway.config.settings import RightsConfig
from toolfold_adapters.gateway.serving import tasks as module
from toolfold_adapters.gateway.serving.tasks import EXTENSION, RELATED, TaskIds
from toolfold_adapters.gateway.upstream.handshake import ConnectMode
from toolfold_adapters.gateway.upstream.wire import Wire
from toolfold_adapters.mcp import build_server

pytestmark = pytest.mark.spec("GWY-18")

ABLE: dict[str, Any] = {"elicitation": {"form": {}}}
KNOWS: dict[str, Any] = {**ABLE, "extensions": {EXTENSION: {}}}
WAYS = pytest.mark.parametrize("way", ["by its name", "by call_tool"])
FORMS = pytest.mark.parametrize("modern", [False, True], ids=["2025-11-25", "the extension"])


class User:
    """A client of the gateway that answers questions, and what reached it."""

    def __init__(self) -> None:
        self.asked: list[Mapping[str, Any]] = []
        self.notified: list[tuple[str, Mapping[str, Any]]] = []
        self.progress: list[str | None] = []
        self.reported = anyio.Event()

    async def answer(self, method: str, params: Mapping[str, Any], cause: object) -> Mapping[str, Any]:
        self.asked.append(params)
        meta = {"_meta": params["_meta"]} if "_meta" in params else {}
        return {"action": "accept", "content": {"n": 3}, **meta}

    def note(self, method: str, params: Mapping[str, Any], cause: object) -> None:
        self.notified.append((method, params))

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append(message)
        self.reported.set()

    @asynccontextmanager
    async def at(self, server: Any, era: ConnectMode, able: Mapping[str, Any] = ABLE) -> AsyncGenerator[Wire]:
        async with wired(server, era, able, self.answer, self.note) as wire:
            yield wire


@asynccontextmanager
async def gate(*upstreams: TaskServer, **settings: Any) -> AsyncGenerator[tuple[Gateway, Any]]:
    """A gateway of the servers `one`, `two` …, and a server in front of it in which all groups are open."""
    names: tuple[str, ...] = ("one", "two")
    by_name: dict[str, TaskServer] = dict(zip(names, (*upstreams, *upstreams), strict=False))
    mode = "auto" if upstreams[0].modern else "legacy"
    config = config_of(*names, **{"mode": mode, **settings})

    def transport(upstream: Any, name: str) -> Any:
        return by_name[name].transport(upstream, name)

    gateway = open_gateway(config, runtime=Runtime(clock=lambda: 0.0, transport=transport))
    with anyio.fail_after(SECONDS):
        async with gateway as tools:
            active = [group.path for group in tools.catalog.groups]
            yield gateway, build_server(tools, active=active, handles="stored", extend=gateway.extend, call_tools=True)


def asking(way: str, tool: str = "one__long", **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"name": tool, "arguments": {}}
    return {**(given if way == "by its name" else {"name": "call_tool", "arguments": given}), **more}


async def begun(client: Wire, way: str = "by its name", tool: str = "one__long") -> str:
    """Return the id of a task that a client starts, in the form of its era."""
    if client.facts.modern:
        answer = await client.request("tools/call", asking(way, tool))
        assert (answer["resultType"], answer["status"], "content" in answer) == ("task", "working", False)
        return str(answer["taskId"])
    answer = await client.request("tools/call", asking(way, tool, task={"ttl": 5000}))
    assert answer["task"]["status"] == "working"
    return str(answer["task"]["taskId"])


def era_of(modern: bool) -> ConnectMode:
    return "auto" if modern else "legacy"


@WAYS
@FORMS
async def test_a_task_is_started_polled_and_its_result_is_that_of_the_upstream(way: str, modern: bool) -> None:
    server = TaskServer(modern)
    async with gate(server) as (_, front), User().at(front, era_of(modern), KNOWS) as client:
        task = await begun(client, way)
        assert task != "t-1"
        state = await client.request("tasks/get", {"taskId": task})
        assert (state["taskId"], state["status"]) == (task, "working")
        server.tasks["t-1"].to("completed")
        if modern:
            assert text_of((await client.request("tasks/get", {"taskId": task}))["result"]) == "did long {}"
        else:
            result = await client.request("tasks/result", {"taskId": task})
            assert text_of(result) == "did long {}"
            assert result["_meta"] == {RELATED: {"taskId": task}, "example.org/x": 1}
            assert server.of("tools/call")[0]["task"] == {"ttl": 5000}
    assert {params["taskId"] for params in server.of("tasks/get") + server.of("tasks/result")} == {"t-1"}


@FORMS
async def test_a_task_is_cancelled(modern: bool) -> None:
    server = TaskServer(modern)
    async with gate(server) as (_, front), User().at(front, era_of(modern), KNOWS) as client:
        task = await begun(client)
        await client.request("tasks/cancel", {"taskId": task})
        state = await client.request("tasks/get", {"taskId": task})
    assert (state["taskId"], state["status"]) == (task, "cancelled")


async def test_tasks_of_two_upstreams_with_one_id_are_kept_apart_and_listed() -> None:
    one, two = TaskServer(), TaskServer()
    async with gate(one, two) as (_, front), User().at(front, "legacy") as client:
        tasks = [await begun(client, tool=tool) for tool in ("one__long", "two__long")]
        two.tasks["t-1"].to("completed")
        states = [(await client.request("tasks/get", {"taskId": task}))["status"] for task in tasks]
        listed = await client.request("tasks/list", {})
    assert states == ["working", "completed"]
    assert [(task["taskId"], task["status"]) for task in listed["tasks"]] == list(zip(tasks, states, strict=True))


@pytest.mark.parametrize("shared", [False, True])
async def test_no_other_client_is_told_of_a_task_or_lists_it(shared: bool) -> None:
    server, alice, bob = TaskServer(), User(), User()
    async with (
        gate(server, shared=shared) as (_, front),
        alice.at(front, "legacy") as client,
        bob.at(front, "legacy") as other,
    ):
        await other.request("tools/call", asking("by its name", "one__now"))
        task = await begun(client)
        server.tasks["t-1"].to("completed")
        server.notify(server.tasks["t-1"])
        await anyio.wait_all_tasks_blocked()
        if shared:
            assert (await other.request("tasks/list", {}))["tasks"] == []
    (told,) = alice.notified
    assert told[0] == "notifications/tasks/status"
    assert (told[1]["taskId"], told[1]["status"]) == (task, "completed")
    assert bob.notified == []


@FORMS
@pytest.mark.parametrize("given", ["t-1", "one+t-1", "one+t-1.forged", ""])
async def test_an_id_that_was_not_given_to_the_caller_is_of_no_task(given: str, modern: bool) -> None:
    server = TaskServer(modern)
    async with gate(server) as (_, front), User().at(front, era_of(modern), KNOWS) as client:
        await begun(client)
        with pytest.raises(ProtocolError, match="Unknown task") as refused:
            await client.request("tasks/get", {"taskId": given})
    assert refused.value.code == -32602
    assert server.of("tasks/get") == []


def test_an_id_is_that_of_one_principal_and_key() -> None:
    ids = TaskIds(["a" * 20])
    given = ids.of("one", "t+1.ä", "alice")
    assert ids.read(given, "alice") == ("one", "t+1.ä")
    assert ids.read(given, "bob") is None
    assert TaskIds(["b" * 20]).read(given, "alice") is None
    assert TaskIds(["a" * 20, "b" * 20]).read(given, "alice") == ("one", "t+1.ä")


@FORMS
async def test_the_result_of_a_task_is_there_after_a_reconnection(modern: bool) -> None:
    server = TaskServer(modern)
    async with gate(server, **({} if modern else {"shared": True})) as (_, front):
        async with User().at(front, era_of(modern), KNOWS) as client:
            task = await begun(client)
        server.tasks["t-1"].to("completed")
        async with User().at(front, era_of(modern), KNOWS) as client:
            answer = await client.request("tasks/get" if modern else "tasks/result", {"taskId": task})
    assert text_of(answer["result"] if modern else answer) == "did long {}"


async def test_a_connection_stays_open_while_a_task_may_be_asked_for_and_no_longer() -> None:
    server = TaskServer()
    async with gate(server) as (gateway, front), User().at(front, "legacy") as client:
        task = await begun(client)
        (link,) = (one for one in gateway.upstreams["one"].links if one.client is not None)
        assert link.in_use
        server.tasks["t-1"].to("completed")
        await client.request("tasks/result", {"taskId": task})
        assert not link.in_use


async def test_what_a_task_asks_is_asked_of_its_client_with_the_id_that_it_has() -> None:
    server, alice, bob = TaskServer(), User(), User()
    async with (
        gate(server, shared=True) as (_, front),
        alice.at(front, "legacy") as client,
        bob.at(front, "legacy") as other,
    ):
        await other.request("tools/call", asking("by its name", "one__now"))
        task = await begun(client, tool="one__asks")
        server.tasks["t-1"].to("input_required")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.request, "tasks/result", {"taskId": task})
            while not server.tasks["t-1"].answers:
                await anyio.lowlevel.checkpoint()
            server.tasks["t-1"].to("completed")
    assert alice.asked == [{**ASKED, "_meta": {RELATED: {"taskId": task}}}]
    assert server.tasks["t-1"].answers["q"]["_meta"] == {RELATED: {"taskId": "t-1"}}
    assert bob.asked == []


async def test_what_a_task_of_the_extension_asks_and_is_answered_passes() -> None:
    server = TaskServer(modern=True)
    async with gate(server) as (_, front), User().at(front, "auto", KNOWS) as client:
        task = await begun(client, tool="one__asks")
        server.tasks["t-1"].to("input_required")
        state = await client.request("tasks/get", {"taskId": task})
        assert state["inputRequests"] == {"q": {"method": "elicitation/create", "params": ASKED}}
        answers = {"q": {"action": "accept"}}
        await client.request("tasks/update", {"taskId": task, "inputResponses": answers})
    assert server.tasks["t-1"].answers == answers


async def progressed(server: TaskServer, user: User, status: str = "completed") -> OneTask:
    """Have the only task of a server come to a state once it has been reported of."""
    await user.reported.wait()
    (task,) = server.tasks.values()
    task.to(status)
    server.notify(task)
    return task


@WAYS
@FORMS
@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_a_tool_that_can_only_be_a_task_is_waited_for_where_the_client_knows_none(
    era: ConnectMode, modern: bool, way: str
) -> None:
    server, user, answers = TaskServer(modern), User(), list[Any]()
    async with gate(server) as (_, front), user.at(front, era) as client, anyio.create_task_group() as tasks:

        async def call() -> None:
            answers.append(await client.request("tools/call", asking(way, "one__only"), on_progress=user.report))

        tasks.start_soon(call)
        await progressed(server, user)
    assert text_of(answers[0]) == "did only {}"
    assert RELATED not in answers[0].get("_meta", {})
    assert user.progress[0] == "is working"
    assert not [one for one in user.notified if "task" in one[0]]


@FORMS
@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_what_it_asks_meanwhile_is_asked_of_its_client(era: ConnectMode, modern: bool) -> None:
    server, user, answers = TaskServer(modern), User(), list[Any]()
    async with gate(server) as (_, front), user.at(front, era) as client, anyio.create_task_group() as tasks:

        async def call(**more: Any) -> None:
            given = asking("by its name", "one__asks", **more)
            answers.append(await client.request("tools/call", given, on_progress=user.report))

        tasks.start_soon(call)
        task = await progressed(server, user, "input_required")
        if era == "auto":
            while not answers:
                await anyio.lowlevel.checkpoint()
            asked = answers.pop()
            (key,) = asked["inputRequests"]
            responses = {key: {"action": "accept", "content": {"n": 3}}}
            tasks.start_soon(lambda: call(inputResponses=responses, requestState=asked["requestState"]))
        while not task.answers:
            await anyio.lowlevel.checkpoint()
        task.to("completed")
    assert "'n': 3" in text_of(answers[0])
    assert [one for one in user.asked if RELATED in one.get("_meta", {})] == []


@pytest.mark.parametrize("able", [{}, {"roots": {}}])
async def test_a_question_that_a_modern_client_can_not_be_asked_fails_the_call_and_cancels_the_task(
    able: dict[str, Any],
) -> None:
    server, user, given = TaskServer(modern=True), User(), asking("by its name", "one__asks")
    answers: list[Any] = []
    async with gate(server) as (_, front), user.at(front, "auto", able) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(progressed, server, user, "input_required")
        answers.append(await client.request("tools/call", given, on_progress=user.report))
    (answer,) = answers
    assert answer["isError"]
    assert "asks for something, and was cancelled" in text_of(answer)
    assert server.tasks["t-1"].status == "cancelled"


async def test_what_a_server_with_tasks_asks_of_an_ordinary_call_passes_with_its_own_token() -> None:
    server = TaskServer(modern=True)
    async with gate(server) as (_, front), User().at(front, "auto") as client:
        given = asking("by its name", "one__unsure")
        asked = await client.request("tools/call", given)
        assert (asked["inputRequests"]["q"]["params"], asked["requestState"]) == (ASKED, "mine")
        again = {"inputResponses": {"q": {"action": "accept"}}, "requestState": "mine"}
        assert text_of(await client.request("tools/call", {**given, **again})) == "ran unsure"
    assert server.of("tools/call")[-1]["inputResponses"] == again["inputResponses"]


@FORMS
async def test_a_call_that_is_cancelled_cancels_the_task_that_is_waited_for(modern: bool) -> None:
    server, user = TaskServer(modern), User()
    async with gate(server) as (_, front), user.at(front, "legacy") as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.request, "tools/call", asking("by its name", "one__only"))
            await server.polled.wait()
            tasks.cancel_scope.cancel()
        while server.tasks["t-1"].status != "cancelled":
            await anyio.lowlevel.checkpoint()


@FORMS
async def test_a_task_that_fails_or_is_cancelled_at_its_server_is_an_error(modern: bool) -> None:
    for status in ("failed", "cancelled"):
        server, user = TaskServer(modern), User()
        given = asking("by its name", "one__only")
        async with (
            gate(server) as (_, front),
            user.at(front, "legacy") as client,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(progressed, server, user, status)
            if status == "failed":
                with pytest.raises(ProtocolError, match="it failed") as error:
                    await client.request("tools/call", given, on_progress=user.report)
                assert (error.value.code, error.value.data) == (-32099, {"why": 1})
            else:
                answer = await client.request("tools/call", given, on_progress=user.report)
                assert (answer["isError"], text_of(answer)) == (True, "The task was cancelled: is cancelled.")


async def test_a_task_that_takes_too_long_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETAINED_SECONDS", 0.0)
    server = TaskServer()
    async with gate(server) as (_, front), User().at(front, "legacy") as client:
        answer = await client.request("tools/call", asking("by its name", "one__only"))
    assert (answer["isError"], text_of(answer)) == (True, "The task did not end in 0 seconds, so it was cancelled.")
    assert server.tasks["t-1"].status == "cancelled"


@FORMS
async def test_of_several_calls_none_becomes_a_task_for_the_client(modern: bool) -> None:
    server, answers = TaskServer(modern), list[Any]()
    calls = {"calls": [one_call("one__only"), one_call("one__now")]}
    given = {"name": "call_tools", "arguments": calls, **({} if modern else {"task": {}})}
    async with (
        gate(server) as (_, front),
        User().at(front, era_of(modern), KNOWS) as client,
        anyio.create_task_group() as tasks,
    ):

        async def call() -> None:
            answers.append(await client.request("tools/call", given))

        tasks.start_soon(call)
        await server.polled.wait()
        server.tasks["t-1"].to("completed")
    texts = "".join(block["text"] for block in answers[0]["content"])
    assert "did only {}" in texts
    assert "ran now" in texts


async def test_a_program_is_answered_with_the_result_of_a_task() -> None:
    server, answers = TaskServer(), list[str]()
    async with (
        gate(server) as (gateway, _),
        gateway.tools.open_session(active=["one"]) as session,
        anyio.create_task_group() as tasks,
    ):

        async def call() -> None:
            answers.append((await session.call("one__only")).text)

        tasks.start_soon(call)
        await server.polled.wait()
        server.tasks["t-1"].to("completed")
    assert answers == ["did only {}"]


async def test_what_says_that_a_tool_can_be_a_task_is_listed_and_that_it_has_to_be_is_not() -> None:
    async with gate(TaskServer()) as (_, front), User().at(front, "legacy") as client:
        listed = (await client.request("tools/list", {}))["tools"]
        able = client.facts.capabilities
    support = {one["name"]: one["execution"]["taskSupport"] for one in listed if "execution" in one}
    assert {name: support[f"one__{name}"] for name in ("long", "only", "now")} == {
        "long": "optional",
        "only": "optional",
        "now": "forbidden",
    }
    assert able["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}


async def test_the_extension_is_declared_where_a_server_declares_it() -> None:
    async with gate(TaskServer(modern=True)) as (_, front), User().at(front, "auto", KNOWS) as client:
        await client.request("tools/list", {})
        discovered = await client.request("server/discover", {})
    assert EXTENSION in discovered["capabilities"]["extensions"]


async def test_a_server_without_tasks_offers_none() -> None:
    async with gate(TaskServer(modern=True)) as (_, front), User().at(front, "legacy") as client:
        assert "tasks" not in client.facts.capabilities


@pytest.mark.spec("GWY-19", "SAF-4")
@FORMS
async def test_what_is_asked_of_a_task_counts_as_a_call_does(modern: bool) -> None:
    server = TaskServer(modern)
    rights = {"*": RightsConfig(access="destructive", calls_per_minute=3)}
    async with gate(server) as (gateway, front), User().at(front, era_of(modern), KNOWS) as client:
        await gateway.reconfigure(gateway.config.model_copy(update={"rights": rights}))
        task = await begun(client)
        for _ in range(2):
            assert (await client.request("tasks/get", {"taskId": task}))["status"] == "working"
        for method in ("tasks/get", "tasks/cancel"):
            with pytest.raises(ProtocolError, match="Your limit of 3 calls a minute is reached"):
                await client.request(method, {"taskId": task})
        assert (len(server.of("tasks/get")), server.of("tasks/cancel")) == (2, [])


class Reading(TaskServer):
    """A server of which one tool only reads."""

    def _tool(self, name: str) -> dict[str, Any]:
        return {**super()._tool(name), "annotations": {"readOnlyHint": name == "only"}}


@pytest.mark.spec("GWY-19", "ISO-2")
@FORMS
async def test_a_task_is_had_by_who_may_call_its_tool_now(modern: bool) -> None:
    server = Reading(modern)
    result = "tasks/get" if modern else "tasks/result"
    async with gate(server) as (gateway, front):

        async def may(access: Any) -> None:
            rights = {"*": RightsConfig(access=access)}
            await gateway.reconfigure(gateway.config.model_copy(update={"rights": rights}))

        async with User().at(front, era_of(modern), KNOWS) as client:
            await may("destructive")
            long, only = await begun(client), await begun(client, tool="one__only")
            server.tasks["t-2"].to("completed")
            await may("read")
            before = len(server.asked)
            for method in ("tasks/get", result, "tasks/update" if modern else "tasks/cancel"):
                with pytest.raises(ProtocolError, match="Unknown task"):
                    await client.request(method, {"taskId": long, "inputResponses": {}})
            assert len(server.asked) == before
            if not modern:
                listed = (await client.request("tasks/list", {}))["tasks"]
                assert [one["taskId"] for one in listed] == [only]
            for _ in range(2):
                answer = await client.request(result, {"taskId": only})
                assert text_of(answer["result"] if modern else answer) == "did only {}"
            await may("destructive")
            assert (await client.request("tasks/get", {"taskId": long}))["status"] == "working"
        if not modern:  # over a connection of its own, on which nobody has called a tool
            async with User().at(front, "legacy", KNOWS) as client:
                assert (await client.request("tasks/get", {"taskId": only}))["status"] == "completed"
                await may("read")
                with pytest.raises(ProtocolError, match="Unknown task"):
                    await client.request("tasks/get", {"taskId": only})


@pytest.mark.spec("GWY-19", "SAF-4")
async def test_the_tokens_of_the_result_of_a_task_count() -> None:
    server = TaskServer()
    rights = {"*": RightsConfig(access="destructive", tokens_per_day=150)}
    async with gate(server) as (gateway, front), User().at(front, "legacy") as client:
        await gateway.reconfigure(gateway.config.model_copy(update={"rights": rights}))
        task = await begun(client)
        server.tasks["t-1"].answers = {"q": "word " * 400}
        server.tasks["t-1"].to("completed")
        assert "did long" in text_of(await client.request("tasks/result", {"taskId": task}))
        with pytest.raises(ProtocolError, match="Your limit of 150 tokens a day is reached"):
            await client.request("tasks/list", {})


async def test_the_progress_of_a_task_reaches_its_client_with_the_token_of_its_call_until_it_has_ended() -> None:
    server, user, other = TaskServer(), User(), User()
    async with (
        gate(server, shared=True) as (_, front),
        user.at(front, "legacy") as client,
        other.at(front, "legacy") as beside,
    ):
        await beside.request("tools/call", asking("by its name", "one__now"))
        given = asking("by its name", task={"ttl": 5000}, _meta={"progressToken": "mine"})
        task = (await client.request("tools/call", given))["task"]["taskId"]
        (begun_there,) = server.tasks.values()
        server.report(begun_there, 3)
        await client.request("tasks/get", {"taskId": task})
        begun_there.to("completed")
        await client.request("tasks/result", {"taskId": task})
        server.report(begun_there, 4)
        await client.request("tools/list", {})
        await anyio.wait_all_tasks_blocked()
    assert begun_there.token not in (None, "mine")
    reported = {"progressToken": "mine", "progress": 3, "total": 9, "message": "step 3"}
    assert [one for one in user.notified if "progress" in one[0]] == [("notifications/progress", reported)]
    assert not [one for one in other.notified if "progress" in one[0]]


async def test_a_client_that_knows_no_tasks_gets_the_progress_that_the_server_reports() -> None:
    server, user = TaskServer(), User()
    async with gate(server) as (_, front), user.at(front, "legacy") as client, anyio.create_task_group() as tasks:

        async def call() -> None:
            await client.request("tools/call", asking("by its name", "one__only"), on_progress=user.report)

        tasks.start_soon(call)
        await user.reported.wait()
        (task,) = server.tasks.values()
        for value in (3, 4):
            user.reported = anyio.Event()
            server.report(task, value)
            await user.reported.wait()
        task.to("completed")
        server.notify(task)
    said = user.progress
    assert said[said.index("step 3") :] == ["step 3", "step 4"]


@pytest.mark.spec("NTF-3")
async def test_a_client_is_notified_of_the_tasks_that_it_subscribes_to_with_the_ids_that_it_has() -> None:
    one, two = TaskServer(modern=True), TaskServer(modern=True)
    user = User()
    async with gate(one, two) as (_, front), user.at(front, "auto", KNOWS) as client:
        tasks = [await begun(client, tool=tool) for tool in ("one__long", "two__long", "one__long")]
        wanted = {"notifications": {"taskIds": [*tasks[:2], "one+t-1.forged", "t-1", 7]}}
        async with anyio.create_task_group() as listening:
            listening.start_soon(client.request, "subscriptions/listen", wanted)
            while not user.notified:
                await anyio.lowlevel.checkpoint()
            assert (one.watched, two.watched) == (["t-1"], ["t-1"])
            for server, status in ((one, "input_required"), (one, "completed"), (two, "failed")):
                server.tasks["t-1"].to(status)
                server.notify(server.tasks["t-1"])
                await all_blocked()
            one.notify(one.tasks["t-2"])
            await all_blocked()
            listening.cancel_scope.cancel()
        while one.watched or two.watched:
            await anyio.lowlevel.checkpoint()
    (acknowledged, honoured), *rest = user.notified
    assert acknowledged == "notifications/subscriptions/acknowledged"
    assert honoured["notifications"] == {"taskIds": tasks[:2]}
    assert {method for method, _ in rest} == {"notifications/tasks"}
    states = [(params["taskId"], params["status"], params["statusMessage"]) for _, params in rest]
    first, second = tasks[:2]
    assert states == [
        (first, "input_required", "is input_required"),
        (first, "completed", "is completed"),
        (second, "failed", "is failed"),
    ]
