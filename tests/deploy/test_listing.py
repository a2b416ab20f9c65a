"""What the MCP registry and the bundle say about the gateway is true of this version."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
from mcp import Client

from tests.adapters.gateway.inprocess import House, config_of, gateway_of
from toolfold import __version__
from toolfold_adapters.mcp import build_server
from toolfold_cli.connect import connect_command
from toolfold_cli.serve import serve_command
from toolfold_cli.up import SETTINGS

ROOT = Path(__file__).parents[2]
PREFIX = "TOOLFOLD_"
SERVER: dict[str, Any] = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
MANIFEST: dict[str, Any] = json.loads((ROOT / "deploy/mcpb/manifest.json").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
(PACKAGE,) = SERVER["packages"]
VARIABLES = PACKAGE["environmentVariables"]


def test_the_registry_lists_this_version_with_the_extra_that_brings_the_command() -> None:
    assert SERVER["version"] == PACKAGE["version"] == __version__
    assert PACKAGE["identifier"] == PROJECT["name"]
    assert [argument["value"] for argument in PACKAGE["runtimeArguments"]] == [f"toolfold[cli,meaning]=={__version__}"]


def test_the_readme_names_the_entry_in_the_registry() -> None:
    """The registry looks for it in the description of the package, ended by a space."""
    assert f"<!-- mcp-name: {SERVER['name']} -->" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda variable: variable["name"])
def test_a_variable_of_the_entry_sets_an_option(variable: dict[str, Any]) -> None:
    options = {parameter.name: parameter for parameter in serve_command.params}
    name = variable["name"].removeprefix(PREFIX).lower()
    assert name in SETTINGS
    option = options[name]
    assert isinstance(option, click.Option)
    if isinstance(option.type, click.Choice):
        assert variable["choices"] == list(option.type.choices)
        assert variable["default"] == option.default
    assert (variable.get("format") == "number") == isinstance(option.type, click.types.IntParamType | click.FloatRange)


def test_the_entry_and_the_bundle_start_the_same_command() -> None:
    *_, command, configuration = MANIFEST["server"]["mcp_config"]["args"]
    first, second = PACKAGE["packageArguments"]
    assert command == first["value"] == connect_command.name
    assert configuration == f"${{user_config.{second['valueHint']}}}"
    assert SERVER["description"] == MANIFEST["description"]
    assert (ROOT / "deploy/mcpb" / MANIFEST["server"]["entry_point"]).is_file()


async def test_the_bundle_names_the_tools_that_the_gateway_lists_at_first() -> None:
    async with (
        gateway_of(House(), config_of("git", "files")) as tools,
        Client(build_server(tools, read_tool=True)) as client,
    ):
        listed = {tool.name for tool in (await client.list_tools()).tools}
    assert {tool["name"] for tool in MANIFEST["tools"]} == listed


def test_the_changelog_begins_with_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \[(\d[^\]]*)\]", changelog, re.MULTILINE)[:1] == [__version__]
