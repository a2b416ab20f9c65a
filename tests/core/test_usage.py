"""Use is counted, and the counts are those of the history (SPEC EXP-3)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from math import ceil
from random import Random

import pytest
from attrs import asdict, define, field

from tests.core.searching import by_shared_words
from tests.core.support import Clock, with_groups
from toolfold import ProtocolError, Session, ToolError, ToolfoldError, ToolNotFound, ToolSet, Usage, approximate_tokens
from toolfold._session import usage as usage_module

GROUPS = ("a", "a.b", "c", "d")
TICK = 2.0**-12
CLIENTS = (("desk", "legacy"), ("desk", "modern"), ("", "in process"))


@define(kw_only=True)
class Step:
    """What a session was asked for, and what came of it."""

    session: str
    what: str
    name: str = ""
    client: tuple[str, str] = ("", "")
    seconds: float = 0.0
    outcome: str = "ok"
    tokens: int = 0
    found: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()


def counted(clock: Clock) -> tuple[ToolSet, Usage]:
    """Return a tool set whose tools take some time, answer, fail or raise, and its counters."""
    tools = with_groups(*GROUPS, control="open_group", search=by_shared_words)
    tools.register_exclusion("c", "d")
    usage = tools.count_usage(clock, lambda request: request)

    def work(ticks: int, how: str) -> str:
        clock.now += ticks * TICK
        if how == "error":
            raise ToolError("no")
        if how == "protocol":
            raise ProtocolError(-32000, "no")
        return "x" * ticks

    for group in (None, *GROUPS):
        for name in ("read", "write"):
            tools.register(name, work, group=group, description=f"{name} things of {group or 'all'}")
    return tools, usage


@define
class Player:
    """Makes random transitions in sessions of a tool set, and notes them."""

    tools: ToolSet
    clock: Clock
    random: Random
    history: list[Step] = field(factory=list[Step])
    sessions: list[Session] = field(factory=list[Session])

    async def step(self) -> None:
        if not self.sessions or (len(self.sessions) < 20 and self.random.random() < 0.02):
            session = self.tools.open_session()
            await session.start()
            self.sessions.append(session)
            self.history.append(Step(session=session.id, what="begin"))
            return
        session = self.random.choice(self.sessions)
        act = self.random.choices(
            (self.call, self.move, self.search, self.list, self.end), weights=(60, 20, 10, 10, 1)
        )[0]
        await act(session)

    async def call(self, session: Session) -> None:
        name = self.random.choice([*self.tools.catalog.tools, "no.such"])
        if name in ("open_group", "close_group", "find_tools"):
            return
        client, began = self.random.choice(CLIENTS), self.clock.now
        step = Step(session=session.id, what="call", name=name, client=client)
        arguments = {
            "ticks": self.random.randint(1, 5_000),
            "how": self.random.choice(("ok", "ok", "error", "protocol")),
        }
        try:
            result = await session.call(name, arguments, request=client)
        except ToolNotFound:
            step.outcome = "refused"
        except ProtocolError:
            step.outcome = "error"
        else:
            step.outcome, step.tokens = "error" if result.is_error else "ok", approximate_tokens(result.text)
        step.seconds = self.clock.now - began
        self.history.append(step)

    async def move(self, session: Session) -> None:
        group, open_it = self.random.choice(GROUPS), self.random.random() < 0.7
        with suppress(ToolfoldError):
            change = await session.transition(*(((group,), ()) if open_it else ((), (group,))))
            step = Step(session=session.id, what="move", opened=change.activated, closed=change.deactivated)
            self.history.append(step)

    async def search(self, session: Session) -> None:
        words = self.random.choice(("read", "write things", "of c", "nothing fits"))
        client = self.random.choice(CLIENTS)
        result = await session.call("find_tools", {"query": words}, request=client)
        step = Step(session=session.id, what="search", name="find_tools", client=client)
        step.tokens, step.found = approximate_tokens(result.text), tuple(result.structured["found"])
        self.history.append(step)

    async def list(self, session: Session) -> None:
        page = session.list_tools()
        tokens = sum(approximate_tokens(item.render()) for item in page.items)
        self.history.append(Step(session=session.id, what="list", tokens=tokens))

    async def end(self, session: Session) -> None:
        self.sessions.remove(session)
        step = Step(session=session.id, what="end", closed=session.active)
        await session.close()
        self.history.append(step)


def after(history: list[Step], place: int) -> Iterator[Step]:
    """Yield the transitions of the same session that come after one."""
    return (step for step in history[place + 1 :] if step.session == history[place].session)


def is_called_after(history: list[Step], place: int, group: str) -> bool:
    """Return whether a call of a tool in a group that was opened follows, before the group is closed."""
    for step in after(history, place):
        if group in step.closed:
            return False
        if step.what == "call" and step.outcome != "refused" and step.name.rpartition(".")[0] == group:
            return True
    return False


def led_to_a_call(history: list[Step], place: int) -> bool:
    """Return whether a call of a tool that a search found follows, before the next search."""
    for step in after(history, place):
        if step.what == "search":
            return False
        if step.what == "call" and step.outcome != "refused" and step.name in history[place].found:
            return True
    return False


@pytest.mark.spec("EXP-3")
async def test_the_counts_are_those_of_a_history_of_ten_thousand_random_transitions() -> None:
    clock = Clock()
    tools, usage = counted(clock)
    player = Player(tools, clock, Random(31))
    while len(player.history) < 10_000:
        await player.step()
    history = player.history
    calls = [step for step in history if step.what in ("call", "search") and step.outcome != "refused"]
    assert {step.outcome for step in calls} == {"ok", "error"}
    keys = {(step.name, step.name.rpartition(".")[0], *step.client) for step in calls}
    assert usage.calls.keys() == keys
    for key, row in usage.calls.items():
        own = [step for step in calls if (step.name, step.client) == (key[0], key[2:])]
        errors, seconds = sum(step.outcome == "error" for step in own), sorted(step.seconds for step in own)
        tokens = sum(step.tokens for step in own)
        assert (row.calls, row.errors, row.seconds, row.tokens) == (len(own), errors, sum(seconds), tokens), key
        if key[0] != "find_tools":
            for share in (0.5, 0.99):
                exact = seconds[ceil(share * len(own)) - 1]
                assert row.percentile(share) == pytest.approx(exact, rel=0.045), key
    refused = [step for step in history if step.outcome == "refused"]
    assert usage.refused.total() == len(refused)
    assert usage.refused["unknown"] == sum(step.name == "no.such" for step in refused)
    assert usage.groups == {
        group: usage_module.Openings(
            sum(group in step.opened for step in history),
            sum(is_called_after(history, at, group) for at, step in enumerate(history) if group in step.opened),
            sum(group in step.closed for step in history),
        )
        for group in GROUPS
    }
    searches = [(at, step) for at, step in enumerate(history) if step.what == "search"]
    assert asdict(usage.searches) == {
        "asked": len(searches),
        "empty": sum(not step.found for _, step in searches),
        "called": sum(led_to_a_call(history, at) for at, _ in searches),
    }
    lists = [step.tokens for step in history if step.what == "list"]
    assert (usage.lists.lists, usage.lists.tokens) == (len(lists), sum(lists))
    assert usage.sessions == sum(step.what == "begin" for step in history)


@pytest.mark.spec("EXP-3")
async def test_counts_that_were_dumped_add_up() -> None:
    clock = Clock()
    tools, usage = counted(clock)
    async with tools.open_session(active=["a"]) as session:
        await session.call("a.read", {"ticks": 3, "how": "ok"}, request=CLIENTS[0])
        await session.call("find_tools", {"query": "read"}, request=CLIENTS[1])
        session.list_tools()
        with suppress(ToolNotFound):
            await session.call("c.read", request=CLIENTS[0])
    assert tools.usage is usage
    both = Usage("both")
    both.add(usage.dump())
    assert both.dump() == {**usage.dump(), "name": "both"}
    both.add(usage.dump())
    row, once = both.calls["a.read", "a", *CLIENTS[0]], usage.calls["a.read", "a", *CLIENTS[0]]
    assert (row.calls, row.seconds, row.tokens, row.spread.total()) == (2, 2 * once.seconds, 2 * once.tokens, 2)
    assert (both.groups["a"].opened, both.searches.asked, both.lists.lists, both.refused) == (2, 2, 2, {"group": 2})
    assert both.tools == {f"{group}.{name}".lstrip("."): group for group in ("", *GROUPS) for name in ("read", "write")}


@pytest.mark.spec("EXP-3")
async def test_what_clients_call_themselves_fills_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_module, "MAX_CLIENTS", 3)
    monkeypatch.setattr(usage_module, "MAX_ROWS", 2)
    clock = Clock()
    tools, usage = counted(clock)
    numbers = count()
    usage.label = lambda request: (f"client {next(numbers)}", "modern")
    async with tools.open_session() as session:
        for path in ("a", "a.b", "c"):
            await session.activate(path)
        for name in (*["read"] * 20, "write", "a.read", "a.b.read", "c.read"):
            await session.call(name, {"ticks": 1, "how": "ok"})
    assert [(name, client) for name, _, client, _ in usage.calls] == [
        ("read", "client 0"),
        ("read", "client 1"),
        ("(others)", "client 2"),
        ("(others)", "(others)"),
    ]
    assert usage.by(2)["(others)",].calls == 21
    assert usage.by()[()].calls == 24
    assert {path: group.opened for path, group in usage.groups.items()} == {"a": 1, "a.b": 1, "(others)": 1}


@pytest.mark.spec("EXP-3")
async def test_what_sessions_beyond_a_number_open_is_followed_by_the_calls_of_any_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(usage_module, "MAX_SESSIONS", 1)
    tools, usage = counted(Clock())
    usage.label = lambda request: ("", "in process")
    opened = tools.open_session
    async with opened() as first, opened() as second, opened() as third:
        for session in (first, second, third):
            await session.activate("a")
        for _ in range(3):
            await third.call("a.read", {"ticks": 1, "how": "ok"})
    assert (usage.groups["a"].opened, usage.groups["a"].called) == (3, 2)


def test_no_calls_take_no_time() -> None:
    assert usage_module.Calls().percentile(0.5) == 0


@pytest.mark.spec("EXP-3")
async def test_no_argument_no_result_and_no_text_of_an_error_is_recorded() -> None:
    tools = with_groups("a")

    def tell(secret: str) -> str:
        raise ToolError(f"{secret} is wrong")

    tools.register("tell", tell)
    tools.register("echo", lambda secret: secret)
    usage = tools.count_usage(Clock())
    async with tools.open_session() as session:
        for name in ("tell", "echo"):
            await session.call(name, {"secret": "hunter2"})
        with suppress(ToolNotFound):
            await session.call("hunter2")
    assert usage.by()[()].calls == 2
    assert "hunter2" not in repr(usage.dump())


@pytest.mark.spec("EXP-3")
async def test_a_client_and_an_era_are_counted_although_something_else_began_to_count() -> None:
    tools = ToolSet("desk")
    tools.register("ping", lambda: "pong", description="Answer.", input_schema={"type": "object"})
    usage = tools.count_usage(Clock())  # as the live page does
    assert tools.count_usage(Clock(), lambda request: request) is usage
    async with tools.open_session() as session:
        await session.call("ping", request=("desk", "modern"))
    assert [*usage.calls] == [("ping", "", "desk", "modern")]
