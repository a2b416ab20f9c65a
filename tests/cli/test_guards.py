"""What guards a server fails closed: each file that does × what may be wrong with it (SPEC ISO-3)."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.shared.auth import OAuthToken

from tests.cli.support import invoke
from toolfold_adapters import mcp
from toolfold_adapters.files import original_text
from toolfold_adapters.gateway.config.settings import UpstreamConfig
from toolfold_adapters.gateway.upstream.logins import login_at

pytestmark = pytest.mark.spec("ISO-3")

URL = "https://mcp.example/mcp"
GUARDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "tokens": ("guard/auth.toml", ("shop:tools", "--auth", "guard/auth.toml")),
    "profiles": ("guard/gateway.json", ("guard/gateway.json", "--profile", "narrow")),
    "a store": ("guard/state.db", ("shop:tools", "--store", "sqlite:///guard/state.db")),
}
"""The file that each is in, and how a server is served with it."""


def missing_folder(file: Path, _: pytest.MonkeyPatch) -> None:
    file.parent.rmdir()


def malformed(file: Path, _: pytest.MonkeyPatch) -> None:
    file.write_bytes(b"\xff\x00 [no (data {" * 1000)


def another_form(file: Path, _: pytest.MonkeyPatch) -> None:
    file.write_text('{"profiles": {"narrow": 5}}' if file.suffix == ".json" else 'tokens = ["ada"]\n')


def folder_in_its_place(file: Path, _: pytest.MonkeyPatch) -> None:
    file.mkdir()


def loop_of_links(file: Path, _: pytest.MonkeyPatch) -> None:
    file.symlink_to(file)


def unreadable(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("{}")
    refused(file, monkeypatch, errno.EACCES)


def read_only(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(file, monkeypatch, errno.EROFS)


def refused(file: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Have the system refuse to open or make a file."""

    def refuse(real: Callable[..., Any], path: Path, *arguments: Any, **options: Any) -> Any:
        if path.name == file.name:
            raise OSError(number, os.strerror(number), str(path))
        return real(path, *arguments, **options)

    for name in ("open", "read_bytes", "touch"):
        monkeypatch.setattr(Path, name, partialmethod(partial(refuse, getattr(Path, name))))


FAULTS = (missing_folder, malformed, another_form, folder_in_its_place, loop_of_links, unreadable, read_only)


def whole(file: Path, _: pytest.MonkeyPatch) -> None:
    contents = {
        ".toml": '[tokens]\nada = "a token of sixteen characters"\n',
        ".json": '{"mcpServers": {"raw": {"command": "nothing"}}, "profiles": {"narrow": {"active": ["raw"]}}}',
    }
    if file.suffix in contents:  # a store is made
        file.write_text(contents[file.suffix])


@pytest.mark.skipif(sys.platform == "win32", reason="it asks for rights to link")
@pytest.mark.parametrize("fault", [whole, *FAULTS], ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("guard", GUARDS)
def test_a_server_whose_guard_cannot_be_used_does_not_start(
    shop: Path, monkeypatch: pytest.MonkeyPatch, guard: str, fault: Callable[[Path, pytest.MonkeyPatch], None]
) -> None:
    started: list[Any] = []

    async def serve(tools: Any, **_: Any) -> None:
        started.append(tools)

    monkeypatch.setattr(mcp, "serve", serve)
    name, arguments = GUARDS[guard]
    file = shop / name
    file.parent.mkdir()
    fault(file, monkeypatch)
    result = invoke("serve", *arguments, "--http", "--port", "0")
    if fault is whole:
        assert (result.exit_code, len(started)) == (0, 1)
        return
    assert (result.exit_code != 0, started) == (True, [])
    assert name.split(".")[0] in result.stderr
    assert "Traceback" not in result.stderr


# -- what is read in ---------------------------------------------------------------------------------------------------

SERVERS = {"mcpServers": {"raw": {"command": sys.executable}}}
VARIABLES = {"mcpServers": {"raw": {"command": "nothing", "envFile": ".env"}}}
READ: Mapping[str, tuple[str, tuple[str, ...], Mapping[str, Any]]] = {
    "a configuration": ("in/gateway.toml", ("inspect", "in/gateway.toml"), {}),
    "one for its status": ("in/gateway.toml", ("status", "in/gateway.toml"), {}),
    "one for approval": ("in/gateway.json", ("approve", "in/gateway.json"), {}),
    "variables": ("in/.env", ("inspect", "in/gateway.json"), {"in/gateway.json": VARIABLES}),
    "a client's file": ("in/.mcp.json", ("init", "--config", "in/.mcp.json", "--yes"), {}),
    "what init wrote": (
        "in/.mcp.toolfold.json",
        ("init", "--config", "in/.mcp.json", "--yes"),
        {"in/.mcp.json": SERVERS},
    ),
    "groups": ("in/groups.toml", ("inspect", "--groups", "in/groups.toml", "--", "nothing"), {}),
    "a catalog": ("in/tools.json", ("inspect", "in/tools.json"), {}),
    "a catalog in YAML": ("in/tools.yaml", ("inspect", "in/tools.yaml"), {}),
    "a skill": ("in/steps/SKILL.md", ("inspect", "in"), {}),
    "tokens": ("in/auth.toml", ("serve", "shop:tools", "--auth", "in/auth.toml", "--http", "--port", "0"), {}),
    "a record": ("in/usage.db", ("status", "in/usage.db"), {}),
    "a record for a report": ("in/usage.db", ("report", "in/usage.db"), {}),
    "sessions": (
        "in/state.db",
        ("serve", "shop:tools", "--store", "sqlite:///in/state.db", "--http", "--port", "0"),
        {},
    ),
    "names": ("in/names.txt", ("check", "shop:tools", "--file", "in/names.txt"), {}),
}
"""A file, a command that reads it, and what else there has to be."""


def pipe(file: Path, _: pytest.MonkeyPatch) -> None:
    if sys.platform != "win32":
        os.mkfifo(file)


def not_utf8(file: Path, _: pytest.MonkeyPatch) -> None:
    file.write_bytes(b"\xff\xfe\x00 [x")


@pytest.mark.skipif(sys.platform == "win32", reason="it has no pipes among files")
@pytest.mark.parametrize("fault", [folder_in_its_place, unreadable, pipe, not_utf8], ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("read", READ)
def test_a_file_that_cannot_be_read_is_named_in_a_sentence(
    shop: Path, monkeypatch: pytest.MonkeyPatch, read: str, fault: Callable[[Path, pytest.MonkeyPatch], None]
) -> None:
    if (read, fault) == ("variables", pipe):
        pytest.skip("a program that has secrets may write them into a pipe")

    async def serve(tools: Any, **_: Any) -> None:
        raise AssertionError("it is served")

    monkeypatch.setattr(mcp, "serve", serve)
    name, arguments, beside = READ[read]
    file = shop / name
    file.parent.mkdir(parents=True)
    for other, data in beside.items():
        (shop / other).write_text(json.dumps(data))
    fault(file, monkeypatch)
    result = invoke(*arguments)
    said = " ".join(result.stderr.split())
    assert result.exit_code in (1, 2)
    assert file.name in said
    assert not any(raw in said for raw in ("Traceback", "Errno", "Error: '", "internal"))


def test_what_a_shell_opens_may_be_a_pipe(shop: Path) -> None:
    if not Path("/dev/fd").is_dir():
        pytest.skip("it has no files for what is open")
    reading, writing = os.pipe()
    os.write(writing, json.dumps({"tools": [{"name": "find"}]}).encode())
    os.close(writing)
    assert original_text(Path(f"/dev/fd/{reading}")).startswith("{")
    os.close(reading)


def test_the_status_of_a_record_that_is_not_there_says_so(shop: Path) -> None:
    result = invoke("status", "missing.db")
    assert result.exit_code == 2
    assert "There is no file missing.db" in result.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="it asks for rights to link")
@pytest.mark.parametrize("fault", [None, *FAULTS], ids=lambda fault: getattr(fault, "__name__", "whole"))
async def test_a_login_that_cannot_be_read_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Callable[[Path, pytest.MonkeyPatch], None] | None
) -> None:
    folder = tmp_path / "logins"
    login = login_at("board", UpstreamConfig(url=URL), folder, None)
    await login.provider.context.storage.set_tokens(OAuthToken(access_token="secret"))
    (file,) = folder.iterdir()
    if fault is not None:
        file.unlink()
        fault(file, monkeypatch)
    again = login_at("board", UpstreamConfig(url=URL), folder, None)
    tokens = await again.provider.context.storage.get_tokens()
    assert (tokens is None) == (fault is not None)
    request = await anext(again.async_auth_flow(httpx2.Request("POST", URL)))
    assert "secret" not in str(request.headers.get("authorization")) or fault is None
