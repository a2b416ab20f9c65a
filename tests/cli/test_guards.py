"""What guards a server fails closed: each file that does × what may be wrong with it (SPEC ISO-3)."""

from __future__ import annotations

import errno
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


@pytest.mark.skipif(sys.platform == "win32", reason="it asks for rights to link")
@pytest.mark.parametrize("fault", [None, *FAULTS], ids=lambda fault: getattr(fault, "__name__", "whole"))
async def test_a_login_that_cannot_be_read_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Callable[[Path, pytest.MonkeyPatch], None] | None
) -> None:
    folder = tmp_path / "logins"
    login = login_at("board", UpstreamConfig(url=URL), folder, None)
    await login._provider.context.storage.set_tokens(OAuthToken(access_token="secret"))
    (file,) = folder.iterdir()
    if fault is not None:
        file.unlink()
        fault(file, monkeypatch)
    again = login_at("board", UpstreamConfig(url=URL), folder, None)
    tokens = await again._provider.context.storage.get_tokens()
    assert (tokens is None) == (fault is not None)
    request = await anext(again.async_auth_flow(httpx2.Request("POST", URL)))
    assert "secret" not in str(request.headers.get("authorization")) or fault is None
