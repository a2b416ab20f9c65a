"""What calls wait for collections of garbage in a program that serves: none looks at what servers list."""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator, Mapping
from typing import Any
from weakref import ref

import anyio
import anyio.lowlevel
import pytest

from tests.adapters.gateway.inprocess import Clock
from tests.adapters.gateway.lister import Lister, tools_from
from tests.adapters.gateway.registering import offering, registered
from toolfold_adapters.gateway import GatewayConfig, Runtime, UpstreamConfig, open_gateway
from toolfold_adapters.transport import garbage

pytestmark = [pytest.mark.spec("SAF-1")]

FULL = 2
MANY = 1_200


class Circle:
    """Garbage, once nobody has it, that only a collection finds: one object."""

    __slots__ = ("__weakref__", "own")

    def __init__(self) -> None:
        self.own = self


@pytest.fixture
def serves(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """This process is a program that serves, in which garbage is looked for soon."""
    monkeypatch.setattr(garbage, "_state", garbage._State())
    monkeypatch.setattr(garbage, "ALLOCATIONS", 100)
    monkeypatch.setattr(garbage, "GARBAGE", 1_000)
    before, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.collect()
    garbage.program_serves()
    yield
    gc.set_threshold(*before)
    sys.setswitchinterval(interval)
    gc.freeze()  # all that tests/conftest.py has set apart, or each collection of later tests would look at it


@pytest.fixture
def looked_at() -> Generator[list[int]]:
    """How many objects each full collection looked at."""
    seen: list[int] = []

    def note(phase: str, info: Mapping[str, int]) -> None:
        if phase == "start" and info["generation"] == FULL:
            seen.append(len(gc.get_objects()))

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)


def transport(config: UpstreamConfig, called: str) -> Any:
    count = MANY if called == "large" else 1
    return Lister({"tools/list": lambda _: {"tools": tools_from(0, count)}}).transport(config, called)


@pytest.mark.usefixtures("serves")
async def test_no_collection_looks_at_what_a_server_lists_while_others_are_called(looked_at: list[int]) -> None:
    upstreams = {name: UpstreamConfig(command=(name,)) for name in ("small", "large")}
    config = GatewayConfig(upstreams={"small": upstreams["small"]})
    gateway = open_gateway(config, runtime=Runtime(clock=Clock(), transport=transport))
    with anyio.fail_after(60):
        async with gateway as tools, tools.open_session(active=["small"]) as session:
            await session.call("small__t0")
            await gateway.reconfigure(GatewayConfig(upstreams=upstreams))
            while len(tools.catalog.tools) < MANY:
                await session.call("small__t0")
            for _ in range(500):
                await session.call("small__t0")
    assert gc.get_freeze_count() > MANY
    assert max(looked_at, default=0) < MANY


async def test_definitions_that_others_replace_are_no_garbage() -> None:
    registration, tools, _ = registered({"s": offering(*tools_from(0, 3))})
    gone = [ref(one) for one in tools.catalog.tools.values() if one.control is None]
    gc.disable()
    try:
        await registration.replace("s", offering(*tools_from(3, 3)))
        assert [one() for one in gone] == [None] * 3
    finally:
        gc.enable()


@pytest.mark.usefixtures("serves")
def test_garbage_that_was_set_apart_is_found_once_there_is_much_of_it() -> None:
    gc.disable()
    owner, found = Circle(), list[bool]()
    garbage.set_apart(owner, MANY)
    lost = ref(Circle())
    for _ in range(2):
        for _ in range(garbage.GARBAGE * 2 // 3):
            Circle()
        garbage.set_apart(owner, MANY)
        found.append(lost() is None)
    gc.enable()
    assert found == [False, True]


@pytest.mark.usefixtures("serves")
def test_the_lists_of_one_owner_after_another_are_not_taken_for_garbage(looked_at: list[int]) -> None:
    gc.disable()
    owners, lists = [Circle() for _ in range(3)], list[Circle]()
    for owner in owners:
        lists += [Circle() for _ in range(2 * garbage.GARBAGE)]
        garbage.set_apart(owner, MANY)
    gc.enable()
    assert looked_at == []


def test_in_a_program_of_others_garbage_is_looked_for_as_it_says() -> None:
    before, interval = (gc.get_threshold(), gc.get_freeze_count()), sys.getswitchinterval()
    with garbage.postponed():
        registration, *_ = registered({"s": offering(*tools_from(0, MANY))})
        assert (gc.get_threshold(), gc.get_freeze_count()) == before
    assert sys.getswitchinterval() == interval
    assert registration.definitions


@pytest.mark.usefixtures("serves")
def test_a_full_collection_comes_all_the_same_after_very_many_objects() -> None:
    before = gc.get_threshold()
    with garbage.postponed(), garbage.postponed():
        young, middle, full = gc.get_threshold()
        assert young * middle * full == garbage.POSTPONED
    assert gc.get_threshold() == before
