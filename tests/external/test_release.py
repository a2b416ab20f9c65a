"""What is published beside the package: its entry in the MCP registry, and the bundle for Claude Desktop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters

from deploy import listing
from tests.adapters.mcp.support import client_of, names_of
from tests.adapters.mcp.test_handle_delivery import text_of
from tests.external.support import FOLDER, NODE_OFFLINE, PACKAGES, ROOT, run

REGISTRY = FOLDER / "registry"
SERVER = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
ONCE = pytest.mark.xdist_group("bundle")  # so that one worker alone builds what is needed
BUILD_TIME = 600  # seconds
EVERYTHING = [*NODE_OFFLINE, str(PACKAGES / "server-everything/dist/index.js"), "stdio"]


@pytest.fixture
def configuration(tmp_path: Path) -> str:
    """The path of a configuration with one server, as clients have it."""
    file = tmp_path / "mcp.json"
    server = {"command": EVERYTHING[0], "args": EVERYTHING[1:]}
    file.write_text(json.dumps({"mcpServers": {"everything": server}}), encoding="utf-8")
    return str(file)


@pytest.fixture(scope="module")
def bundle(node_packages: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle, as one command builds it."""
    out = tmp_path_factory.mktemp("bundle")
    command = [sys.executable, "-m", "deploy.bundle", "--out", str(out)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=BUILD_TIME, check=False)
    assert built.returncode == 0, built.stderr
    return Path(built.stdout.strip())


async def started_from(bundle: Path, folder: Path, user_config: dict[str, str]) -> Any:
    """Return how the host of a bundle starts the server in it, once it is unpacked into a folder."""
    arguments = (str(bundle), str(folder), json.dumps(user_config))
    status, printed = await run("node", str(FOLDER / "bundle.mjs"), *arguments)
    assert status == 0
    return json.loads(printed)


async def check_gateway(command: list[str], era: str, env: dict[str, str] | None = None) -> None:
    """Start a gateway in front of `configuration`, find a tool of its server, open the tool's group and call it."""
    server = StdioServerParameters(command=command[0], args=command[1:], env={**os.environ, **(env or {})}, cwd="/")
    async with client_of(server, era) as (client, _):
        assert set(await names_of(client)) == {"open_group", "close_group", "find_tools", "call_tool", "read_tool"}
        await client.call_tool("find_tools", {"query": "sum of two numbers", "open": True})
        arguments = {"name": "everything__get-sum", "arguments": {"a": 1, "b": 2.5}}
        assert "3.5" in text_of(await client.call_tool("call_tool", arguments))


@ONCE
@ERAS
async def test_the_bundle_serves_the_configuration_that_its_user_names(
    era: str, bundle: Path, uv: str, configuration: str, tmp_path: Path
) -> None:
    config = await started_from(bundle, tmp_path / "unpacked", {"configuration": configuration})
    assert config["command"] == "uv"
    await check_gateway([uv, *config["args"]], era)


@ONCE
async def test_the_bundle_is_not_started_without_a_configuration(bundle: Path, tmp_path: Path) -> None:
    assert await started_from(bundle, tmp_path / "unpacked", {}) is None


@pytest.fixture(scope="module")
def validator(go: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of what the registry validates a server.json with."""
    path = tmp_path_factory.mktemp("registry") / "validator"
    command = [go, "build", "-o", str(path), "."]
    built = subprocess.run(command, cwd=REGISTRY, capture_output=True, text=True, timeout=BUILD_TIME, check=False)
    assert built.returncode == 0, built.stderr
    return str(path)


def validated(validator: str, server: dict[str, Any]) -> tuple[bool, str]:
    """Return whether the registry accepts a server.json, and what it says."""
    done = subprocess.run([validator], input=json.dumps(server), capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stdout


@ONCE
def test_the_registry_accepts_server_json(validator: str) -> None:
    assert validated(validator, SERVER) == (True, "[]\n")


@ONCE
def test_the_registry_would_refuse_a_server_json_with_mistakes(validator: str) -> None:
    accepted, issues = validated(validator, {**SERVER, "version": "latest", "description": "x" * 101})
    assert not accepted
    assert "version" in issues
    assert "description" in issues


@ONCE
async def test_the_command_of_server_json_starts_the_gateway(
    node_packages: None, bundle: Path, uv: str, configuration: str, tmp_path: Path
) -> None:
    """The package is not on an index yet: it comes from the folder of the wheel in the bundle."""
    await started_from(bundle, tmp_path, {})
    (package,) = SERVER["packages"]
    assert package["runtimeHint"] == "uvx"
    runtime = [word for argument in package["runtimeArguments"] for word in (argument["name"], argument["value"])]
    arguments = [argument.get("value", configuration) for argument in package["packageArguments"]]
    named = f"{package['identifier']}@{package['version']}"
    await check_gateway(
        [uv, "tool", "run", *runtime, named, *arguments], "2026-07-28", {"UV_FIND_LINKS": str(tmp_path)}
    )


@ONCE
async def test_the_command_of_the_links_and_plugins_starts_the_gateway(
    node_packages: None, bundle: Path, uv: str, configuration: str, tmp_path: Path
) -> None:
    """The package is not on an index yet: it comes from the folder of the wheel in the bundle."""
    await started_from(bundle, tmp_path, {})
    entry = listing.entry(SERVER, configuration)
    assert entry["command"] == "uvx"
    await check_gateway([uv, "tool", "run", *entry["args"]], "2026-07-28", {"UV_FIND_LINKS": str(tmp_path)})


@ONCE
async def test_pipx_installs_the_program_from_the_wheel(
    node_packages: None, bundle: Path, uv: str, configuration: str, tmp_path: Path
) -> None:
    """The package is not on an index yet: it comes from the folder of the wheel in the bundle."""
    await started_from(bundle, tmp_path / "unpacked", {})
    (wheel,) = (tmp_path / "unpacked").glob("*.whl")
    homes = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
    command = (uv, "tool", "run", "pipx", "install", f"toolfold[cli] @ {wheel.as_uri()}")
    status, _ = await run(*command, env=homes)
    assert status == 0
    await check_gateway([str(tmp_path / "bin/toolfold"), "serve", configuration], "2026-07-28")
