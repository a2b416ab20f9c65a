"""Document E's tools without programs: files of the working folder; tasks, notes and results of the group mcp."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from examples.modern_cli import build
from examples.modern_cli.state import CREDENTIALS
from tests.examples.callers import WAYS
from toolfold import Session, ToolSet

PATCH = """--- a/poem.txt
+++ b/poem.txt
@@ -1,3 +1,3 @@
 one
-two
+TWO
 three
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with links to a file and a folder outside."""
    (tmp_path / "secret").write_text("secret")
    made = tmp_path / "work"
    made.mkdir()
    (made / "poem.txt").write_text("one\ntwo\nthree\n")
    (made / "link").symlink_to(tmp_path / "secret")
    (made / "up").symlink_to(tmp_path)
    return made


def tools_in(folder: Path) -> ToolSet:
    return build(which=lambda name: shutil.which(name) if name == "patch" else None, folder=folder)


async def done(session: Session, name: str, **arguments: Any) -> str:
    result = await session.call(name, arguments)
    assert not result.is_error, result.text
    return result.text


async def refused(session: Session, name: str, **arguments: Any) -> str:
    result = await session.call(name, arguments)
    assert result.is_error
    return result.text


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("PRO-4")
async def test_files_are_read_written_edited_and_appended_to(folder: Path) -> None:
    """Document E, tool groups: file_ops."""
    async with tools_in(folder).open_session(active=["file_ops"]) as session:
        assert await done(session, "file_read", path="poem.txt") == "one\ntwo\nthree\n"
        assert await done(session, "file_read", path="poem.txt", offset=2, limit=1) == (
            "two\n\n[More lines follow; continue with offset 3.]"
        )
        await done(session, "file_write", path="new/a.txt", content="a\r\nb", create_dirs=True)
        await done(session, "file_append", path="new/a.txt", content="☃")
        assert (folder / "new" / "a.txt").read_bytes() == b"a\r\nb\xe2\x98\x83"
        await done(session, "file_edit", path="new/a.txt", old_text="a\r\n", new_text="", backup=True)
        assert (folder / "new" / "a.txt").read_text() == "b☃"
        assert (folder / "new" / "a.txt.bak").read_bytes() == b"a\r\nb\xe2\x98\x83"
        await done(session, "file_write", path="poem.txt", content="x", safe_overwrite=True)
        assert (folder / "poem.txt.bak").read_text() == "one\ntwo\nthree\n"
        assert "'nowhere/a' can't be used: No such file" in await refused(
            session, "file_write", path="nowhere/a", content=""
        )


@pytest.mark.spec("PRO-4")
async def test_an_ambiguous_edit_changes_nothing(folder: Path) -> None:
    (folder / "twice").write_text("a a")
    async with tools_in(folder).open_session(active=["file_ops"]) as session:
        for old, times in (("a", 2), ("b", 0)):
            received = await refused(session, "file_edit", path="twice", old_text=old, new_text="c")
            assert received == f"The text to replace occurs {times} times in 'twice'; nothing was changed."
        assert (folder / "twice").read_text() == "a a"
        assert await done(session, "file_edit", path="twice", old_text="a", new_text="c", replace_all=True) == (
            "Replaced 2 occurrences."
        )
        assert (folder / "twice").read_text() == "c c"


@pytest.mark.spec("PRO-4")
@pytest.mark.parametrize("path", ["../secret", "{folder}/../secret", "link", "up/secret", "/etc/passwd", "new/../../x"])
@pytest.mark.parametrize("name", ["file_read", "file_write", "file_edit", "file_append", "file_patch"])
async def test_no_file_outside_the_working_folder_can_be_reached(name: str, path: str, folder: Path) -> None:
    more: dict[str, dict[str, Any]] = {
        "file_write": {"content": "x", "create_dirs": True},
        "file_edit": {"old_text": "secret", "new_text": "x"},
        "file_append": {"content": "x"},
        "file_patch": {"patch": PATCH},
    }
    if name == "file_patch" and shutil.which("patch") is None:
        pytest.skip("this machine has no program patch")
    async with tools_in(folder).open_session(active=["file_ops"]) as session:
        received = await refused(session, name, path=path.replace("{folder}", str(folder)), **more.get(name, {}))
        assert "is not in the working folder" in received
    assert (folder.parent / "secret").read_text() == "secret"
    assert sorted(one.name for one in folder.parent.iterdir()) == ["secret", "work"]


@pytest.mark.spec("PRO-4")
async def test_a_path_that_is_not_a_text_file_is_refused(folder: Path) -> None:
    (folder / "folder").mkdir()
    (folder / "bytes").write_bytes(b"\xff\xfe")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "copy.bak").symlink_to(folder.parent / "secret")
    (folder / "copy").write_text("x")
    async with tools_in(folder).open_session(active=["file_ops"]) as session:
        assert await refused(session, "file_read", path="folder") == "'folder' is not a file."
        assert await refused(session, "file_read", path="bytes") == "'bytes' is not a text in UTF-8."
        assert "can't be used: " in await refused(session, "file_read", path="loop")
        assert "can't be used: " in await refused(session, "file_read", path="a\0b")
        received = await refused(session, "file_write", path="copy", content="y", safe_overwrite=True)
        assert "is not in the working folder" in received
        assert (folder / "copy").read_text() == "x"
    assert (folder.parent / "secret").read_text() == "secret"


@pytest.mark.spec("PRO-4")
@pytest.mark.parametrize(
    ("mode", "received"),
    [
        ("640", "rw-r-----: the owner may read, write; the group may read; others may do nothing."),
        (
            "0755",
            "rwxr-xr-x: the owner may read, write, execute; the group may read, execute; others may read, execute.",
        ),
    ],
)
async def test_a_mode_is_explained(mode: str, received: str, folder: Path) -> None:
    async with tools_in(folder).open_session(active=["filesystem"]) as session:
        assert await done(session, "permissions", mode=mode) == received
        await refused(session, "permissions", mode="648")


# -- tasks, notes, results --------------------------------------------------------------------------------------------


@pytest.mark.spec("PRO-4", "SES-5")
@pytest.mark.parametrize("way", WAYS)
async def test_tasks_and_notes_are_stored_between_calls(way: str, folder: Path) -> None:
    """Document E, tool groups: mcp."""
    async with WAYS[way](tools_in(folder), active=["mcp"]) as caller:
        assert (await caller.call("mcp_task_create", {"content": "write"}))[0] is False
        await caller.call("mcp_task_create", {"content": "check"})
        await caller.call("mcp_task_update", {"id": 1, "status": "completed"})
        answer = await caller.answer("mcp_task_list", {"status": "pending"})
        assert answer.structured == {"tasks": [{"id": 2, "content": "check", "status": "pending"}]}
        await caller.call("mcp_task_delete", {"id": 2})
        assert (await caller.call("mcp_task_update", {"id": 2, "status": "pending"})) == (True, "There is no task 2.")
        await caller.call("mcp_context_set", {"key": "k", "value": "1"})
        await caller.call("mcp_context_set", {"key": "k", "value": "2"})
        await caller.call("mcp_context_set", {"key": "k", "value": "3", "scope": "other"})
        assert await caller.call("mcp_context_get", {"key": "k"}) == (False, "2")
        assert await caller.call("mcp_context_get", {"key": "k", "scope": "other"}) == (False, "3")
        assert (await caller.answer("mcp_context_list", {})).structured == {"keys": ["k"]}
        assert (await caller.call("mcp_context_get", {"key": "x"}))[0] is True
        assert len((await caller.answer("mcp_task_list", {})).structured["tasks"]) == 1


@pytest.mark.spec("PRO-4", "SES-5", "PER-1")
async def test_a_session_has_its_own_tasks_also_after_it_is_restored(folder: Path) -> None:
    tools = tools_in(folder)
    async with tools.open_session(active=["mcp"]) as one, tools.open_session(active=["mcp"]) as other:
        await done(one, "mcp_task_create", content="mine")
        assert await done(other, "mcp_task_list") == '{"tasks": []}'
        saved = one.dump()
    async with tools_in(folder).restore_session(saved) as again:
        assert "mine" in await done(again, "mcp_task_list")


@pytest.mark.spec("PRO-4", "SES-5")
@pytest.mark.parametrize("way", WAYS)
async def test_stored_data_has_a_limit_and_reaching_it_loses_nothing(way: str, folder: Path) -> None:
    """The data is part of a handle of the modern era, whose length is limited."""
    async with WAYS[way](tools_in(folder), active=["mcp"]) as caller:
        long = {"key": "a", "value": "☃" * 320}
        assert not (await caller.call("mcp_context_set", long))[0]
        for name, arguments in (
            ("mcp_context_set", {**long, "key": "b"}),
            ("mcp_task_create", {"content": "x" * 1500}),
        ):
            failed, text = await caller.call(name, arguments)
            assert failed
            assert text.startswith("There is no room for more")
        assert await caller.call("mcp_context_get", {"key": "a"}) == (False, "☃" * 320)
        await caller.call("mcp_context_set", {"key": "a", "value": ""})
        assert not (await caller.call("mcp_context_set", {**long, "key": "b"}))[0]
        assert await caller.call("mcp_context_get", {"key": "b"}) == (False, "☃" * 320)


@pytest.mark.spec("PRO-4", "SES-5")
@pytest.mark.parametrize("way", WAYS)
async def test_cached_results_expire_and_belong_to_their_session(folder: Path, way: str) -> None:
    now = [0.0]
    tools = build(which=lambda name: None, folder=folder, clock=lambda: now[0])
    async with WAYS[way](tools) as caller, WAYS[way](tools) as other:
        for one in (caller, other):
            await one.call("expand_tools", {"group": "mcp"})
        assert not (await caller.call("mcp_cache_set", {"key": "k", "value": "v", "ttl_secs": 10}))[0]
        now[0] = 9.0
        assert await caller.call("mcp_cache_get", {"key": "k"}) == (False, "v")
        failed, text = await other.call("mcp_cache_get", {"key": "k"})
        assert failed
        assert "There is no result 'k'" in text
        now[0] = 10.0
        assert (await caller.call("mcp_cache_get", {"key": "k"}))[0]


@pytest.mark.spec("PRO-4")
async def test_the_oldest_results_make_room_but_not_for_one_that_is_too_long(folder: Path) -> None:
    async with tools_in(folder).open_session(active=["mcp"]) as session:
        for number in range(20):
            await done(session, "mcp_cache_set", key=str(number), value="v" * 100)
        await refused(session, "mcp_cache_get", key="0")
        assert await done(session, "mcp_cache_get", key="19") == "v" * 100
        assert await done(session, "mcp_cache_get", key="15") == "v" * 100
        assert "no room" in await refused(session, "mcp_cache_set", key="long", value="v" * 2000)
        assert await done(session, "mcp_cache_get", key="19") == "v" * 100


@pytest.mark.spec("PRO-4")
async def test_credentials_are_listed_without_their_values(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CREDENTIALS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GH_TOKEN", "secret")
    async with tools_in(folder).open_session(active=["mcp"]) as session:
        result = await session.call("mcp_auth_check")
        assert result.structured == {name: name == "GH_TOKEN" for name in CREDENTIALS}
        assert "secret" not in result.text
