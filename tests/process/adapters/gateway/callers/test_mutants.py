"""Gateways that confuse their callers, each of which a test of this folder finds (SPEC GWY-19)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any
from weakref import WeakKeyDictionary

import anyio
import pytest

from tests.process.adapters.gateway.callers import test_each_as_himself as himself
from tests.process.adapters.gateway.callers import test_exchange as exchanged
from toolfold import Profile
from toolfold_adapters.gateway.callers import logins
from toolfold_adapters.gateway.callers.credentials import Credentials, Held
from toolfold_adapters.gateway.callers.listed import ListedByCaller
from toolfold_adapters.gateway.callers.logins import Asked, CallerLogins
from toolfold_adapters.gateway.callers.own import OwnLists
from toolfold_adapters.gateway.callers.pages import LoginPages
from toolfold_adapters.gateway.serving.downstream import DownstreamClient

pytestmark = pytest.mark.spec("GWY-19")

Patch = Callable[[pytest.MonkeyPatch], None]
Scenario = Callable[[Any], Awaitable[None]]


def credentials_by_server(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(logins, "login_key", lambda server, config, principal="": server)


def refresh_of_whoever_was_first(patch: pytest.MonkeyPatch) -> None:
    held, keys = Credentials.held, list[str]()

    def anothers(credentials: Credentials, key: str) -> AbstractAsyncContextManager[Held]:
        keys.append(key)
        return held(credentials, keys[0])

    patch.setattr(Credentials, "held", anothers)


def lists_by_server(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ListedByCaller, "__contains__", lambda lists, whose: bool(lists._lists))
    of = OwnLists.of

    def anybodys(lists: OwnLists, whose: Mapping[str, str]) -> Profile | None:
        return of(lists, {server: next(iter(own), "") for server, own in lists._usable.items()})

    patch.setattr(OwnLists, "of", anybodys)


def callback_of_any_browser(patch: pytest.MonkeyPatch) -> None:
    async def begun(given: CallerLogins, state: str, browser: str) -> Asked | None:
        found: Mapping[str, Any] | None = await given.credentials.recalled(f"state:{state}")
        return None if found is None else await given.asked(found["link"])

    patch.setattr(CallerLogins, "begun", begun)


def link_of_any_caller(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LoginPages, "_is_of", lambda pages, asked, principal: True)


def first_token_of_a_client(patch: pytest.MonkeyPatch) -> None:
    said: Callable[[DownstreamClient], tuple[Any, str]] = vars(DownstreamClient)["asks_as"].fget
    first = WeakKeyDictionary[DownstreamClient, Any]()

    def asks_as(client: DownstreamClient) -> tuple[Any, str]:
        principal, server = said(client)
        return first.setdefault(client, principal), server

    patch.setattr(DownstreamClient, "asks_as", property(asks_as))


async def logs_in(world: Any) -> None:
    await himself.test_two_callers_log_in_for_themselves_and_neither_acts_as_the_other(
        world, "legacy", "wiki", "{}s-own"
    )


async def exchanges(world: Any) -> None:
    await exchanged.test_each_caller_acts_by_what_his_own_token_is_exchanged_for_and_replicas_share_it(world, "legacy")


LISTED = himself.test_what_one_caller_is_listed_is_not_listed_to_another_before_he_has_logged_in
REFRESHED = himself.test_tokens_are_refreshed_for_their_owner_by_one_replica_and_nobody_is_asked
CAME_BACK = himself.test_what_comes_back_to_another_session_is_refused
LINK = himself.test_a_link_works_for_whom_it_was_given_and_once
SCOPES = exchanged.test_what_is_got_for_a_token_is_of_its_client_its_scopes_and_its_claims_too
MUTANTS: Mapping[str, tuple[Patch, type[Any], Scenario]] = {
    "credentials by server alone": (credentials_by_server, himself.World, logs_in),
    "exchanged tokens by server alone": (credentials_by_server, exchanged.World, exchanges),
    "lists by server alone": (lists_by_server, himself.World, LISTED),
    "refresh with another's token": (refresh_of_whoever_was_first, himself.World, REFRESHED),
    "callback of another session accepted": (callback_of_any_browser, himself.World, CAME_BACK),
    "callback of another caller accepted": (link_of_any_caller, himself.World, CAME_BACK),
    "link of another caller accepted": (link_of_any_caller, himself.World, LINK),
    "scopes of a client's first token for good": (first_token_of_a_client, exchanged.World, SCOPES),
}


@pytest.mark.parametrize("name", MUTANTS)
async def test_a_mutant_is_found(
    name: str, monkeypatch: pytest.MonkeyPatch, free_tcp_port_factory: Callable[[], int]
) -> None:
    patch, world, scenario = MUTANTS[name]
    patch(monkeypatch)
    made, found = world(free_tcp_port_factory), False
    try:
        with anyio.fail_after(himself.SECONDS):
            async with made.stack:
                await made.start()
                await scenario(made)
    except* AssertionError:
        found = True
    assert found
