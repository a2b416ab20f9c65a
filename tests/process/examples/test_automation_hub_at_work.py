"""Document A's example server with bad input, with several hubs and clients, and how it is started."""

from __future__ import annotations

import gc
import json
import os
import sqlite3
import tempfile
from http.client import HTTPConnection
from pathlib import Path

import anyio
import pytest

from examples.automation_hub import build
from examples.automation_hub.network import Site
from examples.automation_hub.workspace import Workspace
from tests.examples.callers import WAYS, Connect
from tests.examples.hub import AT_FIRST, Hub, done, open_groups, opened, plugin, refused
from toolfold import HookFailed, ToolError, ToolSet

ROOT = Path(__file__).parents[3]


# Files and addresses


@pytest.mark.spec("CALL-3")
@pytest.mark.parametrize(
    "path",
    ["../records.db", "a/../../records.db", "ABSOLUTE", "link", "linked/records.db", "linked/new.txt", ".."],
)
async def test_no_path_leads_out_of_the_workspace(hub: Hub, connect: Connect, path: str) -> None:
    outside = hub.folder / "hub" / "records.db"
    (hub.files / "link").symlink_to(outside)
    (hub.files / "linked").symlink_to(outside.parent)
    path = str(outside) if path == "ABSOLUTE" else path
    before = outside.read_bytes()
    async with connect(hub.tools) as client:
        await opened(client, "file_ops", "database", "database.read", "network")
        asked: dict[str, dict[str, str]] = {
            "file_ops.read_file": {},
            "file_ops.write_file": {"text": "mine"},
            "file_ops.delete_file": {},
            "export_records": {},
        }
        for name, more in asked.items():
            assert await refused(client, name, path=path, **more) == f"{path!r} is not in the workspace."
        url = (await done(client, "network.address")).text
        for spelt in (path, path.replace(".", "%2e")):
            assert "404 Not Found" in await refused(client, "network.fetch_url", url=f"{url}{spelt}")
    assert outside.read_bytes() == before
    assert sorted(file.name for file in outside.parent.iterdir()) == ["files", "records.db"]


@pytest.mark.spec("CALL-3")
async def test_unreadable_files_are_reported(hub: Hub, connect: Connect) -> None:
    (hub.files / "picture").write_bytes(b"\xff\xd8")
    (hub.files / "folder").mkdir()
    os.mkfifo(hub.files / "pipe")
    (hub.files / "circle").symlink_to("circle")
    async with connect(hub.tools) as client:
        await opened(client, "file_ops")
        reasons = {
            "missing": "'missing' can't be used: No such file or directory.",
            "picture": "'picture' is not a text in UTF-8.",
            "folder": "'folder' is not a file.",
            "pipe": "'pipe' is not a file.",
        }
        for path, reason in reasons.items():
            assert await refused(client, "file_ops.read_file", path=path) == reason
        for path in ("a\0b", "circle", "long" * 100):  # why not, Python's versions say in different words
            assert f"{path!r} can't be used: " in await refused(client, "file_ops.read_file", path=path)
        await done(client, "file_ops.write_file", path="new/grüße.txt", text="hello")
        assert (await done(client, "file_ops.read_file", path="new/grüße.txt")).text == "hello"
        assert json.loads((await done(client, "file_ops.list_files")).text) == ["new/grüße.txt", "picture"]
        await done(client, "file_ops.write_file", path="lines", text="one\r\ntwo\n")
        assert (await done(client, "file_ops.read_file", path="lines")).text == "one\r\ntwo\n"
        await done(client, "file_ops.delete_file", path="picture")
        assert not (hub.files / "picture").exists()


@pytest.mark.spec("CALL-3")
async def test_only_the_hub_s_own_server_is_fetched_from_and_only_by_its_own_name(hub: Hub, connect: Connect) -> None:
    (hub.files / "grüße & mehr.txt").write_text("hello")
    async with connect(hub.tools) as client:
        await opened(client, "network")
        url = (await done(client, "network.address")).text
        assert (await done(client, "network.fetch_url", url=f"{url}grüße & mehr.txt")).text == "hello"
        host = url.removeprefix("http://").removesuffix("/")
        for other in (
            "http://example.org/",
            "file:///etc/hosts",
            f"http://{host}1/",
            f"http://{host}@example.org/",
            "",
        ):
            received = await refused(client, "network.fetch_url", url=other)
            assert received == f"Only addresses that begin with {url} can be fetched."
        assert "404 Not Found" in await refused(client, "network.fetch_url", url=f"{url}missing.txt")
        status, _ = await anyio.to_thread.run_sync(_answer_for, host, "rebound.example")
        assert status == 403
        _, headers = await anyio.to_thread.run_sync(_answer_for, host, host)
        assert headers["X-Content-Type-Options"] == "nosniff"  # a foreign site can't load a page as a script


def _answer_for(address: str, host: str) -> tuple[int, dict[str, str]]:
    connection = HTTPConnection(address)
    connection.request("GET", "/", headers={"Host": host})
    response = connection.getresponse()
    connection.close()
    return response.status, dict(response.getheaders())


@pytest.mark.spec("CALL-3")
async def test_text_that_utf_8_cannot_encode_is_refused_and_changes_nothing(hub: Hub) -> None:
    (hub.files / "file").write_text("original")
    async with hub.tools.open_session(active=["file_ops", "network", "database", "database.write"]) as session:
        url = (await session.call("network.address")).text
        asked = {
            "file_ops.read_file": {"path": "\ud800"},
            "file_ops.write_file": {"path": "file", "text": "\ud800"},
            "network.fetch_url": {"url": f"{url}\ud800"},
            "database.write.insert": {"name": "a", "value": "\ud800"},
        }
        for name, arguments in asked.items():
            result = await session.call(name, arguments)
            assert result.is_error
            assert "surrogates not allowed" in result.text
    assert (hub.files / "file").read_text() == "original"


def test_a_fetch_from_a_server_that_has_stopped_meanwhile_is_reported(tmp_path: Path) -> None:
    site = Site(Workspace(tmp_path))
    site.close()
    with pytest.raises(ToolError, match="can't be fetched"):
        site.fetch(site.url)


# The database


@pytest.mark.spec("SAF-1")
async def test_names_and_patterns_that_would_take_long_to_compare_are_refused(hub: Hub, connect: Connect) -> None:
    """A pattern of 20,000 characters held all clients up for ten seconds."""
    async with connect(hub.tools) as client:
        await opened(client, "database", "database.read", "database.write")
        for name, arguments in (
            ("write.insert", {"name": "a" * 201, "value": ""}),
            ("read.query", {"pattern": "%" * 201}),
        ):
            assert "200" in await refused(client, f"database.{name}", **arguments)
        assert (await done(client, "database.read.query")).structured == {}


@pytest.mark.spec("HOOK-4", "CTL-5", "NTF-1")
async def test_a_transaction_that_can_not_be_saved_stays_open_and_so_does_its_group(hub: Hub, connect: Connect) -> None:
    """Document A, activation hooks: an error of on_deactivate aborts the deactivation."""
    reader = sqlite3.connect(hub.folder / "hub" / "records.db", isolation_level=None)
    async with connect(hub.tools) as client:
        await opened(client, "database", "database.write")
        await done(client, "database.write.insert", name="colour", value="blue")
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM records").fetchall()
        client.notified.clear()
        for path in ("database.write", "database"):
            received = await refused(client, f"{path}.deactivate")
            assert "Nothing was changed: closing group database.write failed." in received
            assert await open_groups(client) == ["database", "database.write"]
        assert client.notified == []
        reader.execute("COMMIT")
        await done(client, "database.deactivate")
    assert reader.execute("SELECT * FROM records").fetchall() == [("colour", "blue")]
    reader.close()


@pytest.mark.spec("HOOK-9")
async def test_a_client_that_leaves_releases_the_lock_whether_or_not_its_work_could_be_saved(hub: Hub) -> None:
    reader = sqlite3.connect(hub.folder / "hub" / "records.db", isolation_level=None)
    session = await hub.tools.open_session(active=["database", "database.write"]).start()
    await session.call("database.write.insert", {"name": "colour", "value": "blue"})
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM records").fetchall()
    with pytest.raises(ExceptionGroup) as raised:
        await session.close()
    (failure,) = raised.value.exceptions
    assert isinstance(failure, HookFailed)
    assert failure.group == "database.write"
    reader.execute("COMMIT")
    async with hub.tools.open_session(active=["database", "database.read", "database.write"]) as other:
        assert (await other.call("database.read.query")).structured == {}
    reader.close()


# Apart from each other


@pytest.mark.spec("KIT-7", "SES-1")
async def test_two_hubs_of_one_class_share_nothing(tmp_path: Path, connect: Connect) -> None:
    """Document A's macro registers once for all instances; here registration is of the instance."""
    first, second = Hub.at(tmp_path / "first"), Hub.at(tmp_path / "second")
    first.drop("greet.py", plugin("greet", "Good morning."))
    async with connect(first.tools) as one, connect(second.tools) as two:
        for client in (one, two):
            assert await client.names() == AT_FIRST
            await opened(client, "plugins", "network", "file_ops", "database", "database.read")
        await opened(one, "database.write")
        await opened(two, "database.write")  # a lock of its own
        await done(one, "plugins.rescan")
        await done(one, "file_ops.write_file", path="a.txt", text="first")
        await done(one, "database.write.insert", name="colour", value="blue")
        await done(one, "database.write.deactivate")
        assert "plugins.greet" not in await two.names()
        assert (await done(two, "file_ops.list_files")).text == "[]"
        assert (await done(two, "database.read.query")).structured == {}
        urls = [(await done(client, "network.address")).text for client in (one, two)]
        assert urls[0] != urls[1]


@pytest.mark.spec("DEL-4", "HOOK-1", "HOOK-9")
async def test_initial_groups_of_a_server_are_open_for_all_but_transactions_are_not_shared(hub: Hub) -> None:
    (hub.files / "page.txt").write_text("a page")
    begin = ["network", "database", "database.read", "database.write"]
    async with WAYS["modern"](hub.tools, active=begin) as client:
        url = (await done(client, "network.address")).text
        assert (await done(client, "network.fetch_url", url=f"{url}page.txt")).text == "a page"
        assert (await done(client, "database.read.query")).structured == {}
        received = await refused(client, "database.write.insert", name="a", value="b")
        assert "serve without database.write" in received
    assert hub.tools.sessions == ()


def test_a_temporary_folder_is_deleted_with_its_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tools: ToolSet | None = build()
    (folder,) = tmp_path.iterdir()
    assert (folder / "files").is_dir()
    assert tools is not None
    del tools
    gc.collect()
    assert list(tmp_path.iterdir()) == []
