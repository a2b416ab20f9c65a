"""What principals log in with is encrypted, each for itself, and withheld where it can't be read."""

from __future__ import annotations

import sqlite3
import stat
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from toolfold import ConfigError, Store, StoreUnavailable
from toolfold_adapters.gateway.callers.credentials import (
    Credential,
    Credentials,
    described,
    record_of,
)
from toolfold_adapters.gateway.callers.keys import VARIABLE, Keys, keys_of, new_key
from toolfold_adapters.gateway.upstream.life import CredentialsUnavailable
from toolfold_adapters.stores import MemoryStore, SQLiteStore

pytestmark = pytest.mark.spec("GWY-19")

SECRET = "the-secret-of-alice"
ALICE = Credential(principal="alice", server="board", url="https://board.example.org/mcp", form="token")


def of(principal: str, secret: str = SECRET, **more: Any) -> Credential:
    return Credential(
        principal=principal, server="board", url=ALICE.url, form="token", secret={"token": secret}, **more
    )


def by(*keys: str) -> Callable[[], Keys]:
    return lambda: keys_of({VARIABLE: ",".join(keys)}, None)


def contents(folder: Path) -> bytes:
    return b"".join(one.read_bytes() for one in folder.iterdir())


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    found: Any = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "credentials.db")
    async with found:
        yield found


async def test_a_credential_is_found_by_its_key_alone_also_by_another_process(store: Store) -> None:
    keys = by(new_key())
    await Credentials(store, keys).write("alice", of("alice"))
    await Credentials(store, keys).write("bob", of("bob", "another"))
    found = await Credentials(store, keys).read("alice")
    assert found is not None
    assert (found.principal, found.secret) == ("alice", {"token": SECRET})
    assert await Credentials(store, keys).read("carol") is None


async def test_nothing_of_a_credential_is_readable_in_the_store_or_in_a_message(tmp_path: Path) -> None:
    path = tmp_path / "credentials.db"
    async with SQLiteStore(path) as store:
        await Credentials(store, by(new_key())).write("alice", of("alice"))
        assert SECRET not in repr(of("alice"))
    written = contents(tmp_path)
    assert SECRET.encode() not in written
    assert b"alice" not in written
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_all_are_listed_without_secrets_and_what_was_removed_is_not(store: Store) -> None:
    credentials = Credentials(store, by(new_key()))
    for name in ("bob", "alice", "carol"):
        await credentials.write(name, of(name, since=5.0))
    assert await credentials.remove("carol")
    assert not await credentials.remove("carol")
    listed = await credentials.listed()
    assert [one.principal for _, one in listed] == ["alice", "bob"]
    assert SECRET not in str(listed)
    assert described(listed)[0] == {
        "principal": "alice",
        "server": "board",
        "form": "token",
        "since": 5.0,
        "expires_at": None,
    }


async def test_a_record_that_is_moved_to_the_place_of_another_principal_is_of_no_use_there(store: Store) -> None:
    credentials = Credentials(store, by(new_key()))
    await credentials.write("alice", of("alice"))
    await credentials.write("bob", of("bob"))
    alice, bob = await store.read(record_of("alice")), await store.read(record_of("bob"))
    assert alice is not None
    assert bob is not None
    await store.swap(record_of("bob"), bob.version, str(alice.data))
    with pytest.raises(CredentialsUnavailable, match="can't be used now"):
        await credentials.read("bob")
    assert credentials.problem == "a credential stands where another one belongs"


async def test_a_damaged_record_is_left_out_of_the_list_and_alone_it_is_said(store: Store) -> None:
    credentials = Credentials(store, by(new_key()))
    for name in ("alice", "bob"):
        await credentials.write(name, of(name))
    record = await store.read(record_of("bob"))
    assert record is not None
    await store.swap(record_of("bob"), record.version, "damaged")
    assert [one.principal for _, one in await credentials.listed()] == ["alice"]
    await credentials.remove("alice")
    with pytest.raises(CredentialsUnavailable):
        await credentials.listed()


async def test_the_newest_key_encrypts_and_an_older_one_can_go_once_all_was_read(store: Store) -> None:
    old, new = new_key(), new_key()
    await Credentials(store, by(old)).write("alice", of("alice"))
    with pytest.raises(CredentialsUnavailable):
        await Credentials(store, by(new)).read("alice")
    assert len(await Credentials(store, by(new, old)).listed()) == 1
    assert len(await Credentials(store, by(new)).listed()) == 1
    with pytest.raises(CredentialsUnavailable):
        await Credentials(store, by(old)).read("alice")


class Away(MemoryStore):
    """A store that does not answer while it is away."""

    away = False

    async def read(self, key: str) -> Any:
        if self.away:
            raise StoreUnavailable(StoreUnavailable.AWAY)
        return await super().read(key)


@pytest.mark.spec("ISO-3")
async def test_where_the_store_or_the_key_can_not_be_read_nothing_is_found_and_it_is_said_why() -> None:
    store = Away()
    credentials = Credentials(store, by(new_key()))
    await credentials.write("alice", of("alice"))
    store.away = True
    with pytest.raises(CredentialsUnavailable, match="can't be used"):
        await credentials.read("alice")
    assert credentials.problem
    store.away = False
    assert await credentials.read("alice") is not None
    assert not credentials.problem
    without = Credentials(store, lambda: keys_of({}, None))
    with pytest.raises(CredentialsUnavailable):
        await without.write("alice", of("alice"))
    assert VARIABLE in without.problem
    assert "--new-key" in without.problem


async def test_one_of_two_replicas_refreshes_a_credential_and_the_other_finds_what_came_of_it(store: Store) -> None:
    keys, order = by(new_key()), list[str]()
    one, other = Credentials(store, keys), Credentials(store, keys)
    await one.write("alice", of("alice", "old"))
    begun = anyio.Event()

    async def second() -> None:
        await begun.wait()
        async with other.held("alice") as held:
            assert held.credential is not None
            order.append(held.credential.secret["token"])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(second)
        async with one.held("alice") as held:
            begun.set()
            await anyio.wait_all_tasks_blocked()
            assert order == []
            await held.write(of("alice", "new"))
    assert order == ["new"]


async def test_a_credential_that_is_replaced_while_it_is_held_waits_for_that(store: Store) -> None:
    credentials = Credentials(store, by(new_key()))
    await credentials.write("alice", of("alice", "old"))
    async with anyio.create_task_group() as tasks, credentials.held("alice") as held:
        tasks.start_soon(credentials.write, "alice", of("alice", "asked for"))
        await anyio.wait_all_tasks_blocked()
        await held.write(of("alice", "refreshed"))
    found = await credentials.read("alice")
    assert found is not None
    assert found.secret["token"] == "asked for"


# -- keys --------------------------------------------------------------------------------------------------------------


def test_a_key_of_this_machine_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    text = keys_of({}, tmp_path / "in").encrypted("plain")
    assert keys_of({}, tmp_path / "in").decrypted(text) == "plain"
    (file,) = (tmp_path / "in").iterdir()
    if sys.platform != "win32":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("separator", [",", "\n", " , "])
def test_keys_are_those_of_the_variable_or_of_the_file_that_it_names(tmp_path: Path, separator: str) -> None:
    keys = new_key(), new_key()
    file = tmp_path / "keys"
    file.touch(mode=0o600)
    file.write_text(separator.join(keys))
    texts = [keys_of({VARIABLE: key}, None).encrypted("plain") for key in keys]
    for given in (separator.join(keys), f"file:{file}"):
        found = keys_of({VARIABLE: given}, None)
        assert [found.decrypted(text) for text in texts] == ["plain", "plain"]
        assert [found.is_newest(text) for text in texts] == [True, False]


@pytest.mark.spec("ISO-3")
@pytest.mark.parametrize("given", ["secret-that-is-no-key", "file:missing", ","])
def test_what_is_no_key_is_named_without_being_shown(given: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="key") as refused:
        keys_of({VARIABLE: given.replace("missing", str(tmp_path / "missing"))}, tmp_path)
    assert "secret-that-is-no-key" not in str(refused.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
@pytest.mark.spec("ISO-3")
def test_a_key_that_others_may_read_is_not_used(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(new_key())
    file.chmod(0o640)
    with pytest.raises(ConfigError, match="others may read the key"):
        keys_of({VARIABLE: f"file:{file}"}, None)


def test_a_key_is_kept_in_the_keyring_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[tuple[str, str], str] = {}

    class Errors:
        class KeyringError(Exception):
            """What a keyring raises."""

    class Ring:
        errors = Errors

        @staticmethod
        def get_password(service: str, user: str) -> str | None:
            return kept.get((service, user))

        @staticmethod
        def set_password(service: str, user: str, password: str) -> None:
            kept[service, user] = password

    monkeypatch.setitem(sys.modules, "keyring", Ring)
    monkeypatch.setitem(sys.modules, "keyring.errors", Errors)
    text = keys_of({VARIABLE: "keyring"}, None).encrypted("plain")
    assert keys_of({VARIABLE: "keyring"}, None).decrypted(text) == "plain"
    assert len(kept) == 1
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ConfigError, match="keyring is not installed"):
        keys_of({VARIABLE: "keyring"}, None)


async def test_a_file_that_is_no_store_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "credentials.db"
    sqlite3.connect(path).execute("CREATE TABLE other (a)").connection.close()
    async with SQLiteStore(path) as store:
        credentials = Credentials(store, by(new_key()))
        with pytest.raises(CredentialsUnavailable):
            await credentials.write("alice", of("alice"))
        assert "no store of Toolfold" in credentials.problem
