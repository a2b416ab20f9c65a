"""What a server sees of the environment: as much as if its host started it, and nothing of the gateway's own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from toolfold import ConfigError
from toolfold_adapters.gateway import UpstreamConfig, load_config
from toolfold_adapters.gateway.upstream.transports import environment_of

pytestmark = pytest.mark.spec("GWY-8")

HOST = {
    "PATH": "/bin",
    "HOME": "/home/a",
    "SSL_CERT_FILE": "/etc/ca.pem",
    "HTTPS_PROXY": "http://proxy:3128",
    "LANG": "de_DE.UTF-8",
    "AWS_PROFILE": "dev",
    "TOOLFOLD_HANDLE_KEY": "key",
    "TOOLFOLD_STORE": "redis://:pw@store",
    "ALICE_TOKEN": "of a caller",
}
OWN = {"TOOLFOLD_HANDLE_KEY", "TOOLFOLD_STORE", "ALICE_TOKEN"}


@pytest.fixture(autouse=True)
def of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        monkeypatch.delenv(name)
    for name, value in HOST.items():
        monkeypatch.setenv(name, value)


def seen(default: Any = "inherited", **settings: Any) -> dict[str, str]:
    config = UpstreamConfig(command=("server",), **settings)
    return environment_of(config, HOST, default, {"ALICE_TOKEN"})


@pytest.mark.parametrize(
    ("default", "settings", "names"),
    [
        ("inherited", {}, HOST.keys() - OWN),
        ("inherited", {"environment": "minimal"}, {"PATH", "HOME"}),
        ("inherited", {"environment": ("AWS_PROFILE", "NOT_SET")}, {"PATH", "HOME", "AWS_PROFILE"}),
        ("inherited", {"environment": ("TOOLFOLD_STORE", "ALICE_TOKEN")}, {"PATH", "HOME"}),
        ("minimal", {}, {"PATH", "HOME"}),
        ("minimal", {"environment": "inherited"}, HOST.keys() - OWN),
    ],
)
def test_a_server_gets_what_is_chosen_and_never_what_is_the_gateways_own(
    default: Any, settings: dict[str, Any], names: set[str]
) -> None:
    assert seen(default, **settings) == {name: HOST[name] for name in names}


def test_what_the_configuration_adds_comes_last() -> None:
    assert (
        seen(env={"LANG": "C", "TOOLFOLD_STORE": "its own"}).items()
        >= {"LANG": "C", "TOOLFOLD_STORE": "its own"}.items()
    )


CHOSEN = '{"mcpServers": {"a": {"command": "server", "env": {"A": "1"}, "environment": ["LANG"]}}}'
CODEX = """
[mcp_servers.a]
command = "server"
env_vars = ["AWS_PROFILE"]
"""


@pytest.mark.parametrize(
    ("file", "text", "names"),
    [
        (".mcp.json", "", HOST.keys() - OWN),
        (".cursor/mcp.json", "", HOST.keys() - OWN),
        ("Claude/claude_desktop_config.json", "", {"PATH", "HOME"}),
        ("Claude/claude_desktop_config.toolfold.json", "", {"PATH", "HOME"}),
        ("settings/cline_mcp_settings.json", "", {"PATH", "HOME"}),
        (".mcp.json", CHOSEN, {"PATH", "HOME", "LANG", "A"}),
        (".continue/config.yaml", "mcpServers: [{name: a, command: server}]", {"PATH", "HOME"}),
        (".codex/config.toml", CODEX, {"PATH", "HOME", "LANG", "AWS_PROFILE"}),
        ("gateway.toml", '[upstreams.a]\ncommand = ["server"]', HOST.keys() - OWN),
        ("gateway.toml", '[upstreams.a]\ncommand = ["server"]\nenvironment = ["LANG"]', {"PATH", "HOME", "LANG"}),
    ],
)
def test_a_server_sees_what_its_host_gives_its_servers(tmp_path: Path, file: str, text: str, names: set[str]) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text or json.dumps({"mcpServers": {"a": {"command": "server"}}}))
    config = load_config(path, HOST).upstreams["a"]
    assert environment_of(config, HOST, "inherited", {"ALICE_TOKEN"}).keys() == names


def test_another_choice_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text('[upstreams.a]\ncommand = ["server"]\nenvironment = "all"')
    with pytest.raises(ConfigError, match=r'environment: must be "inherited", "minimal", or a list of names'):
        load_config(path, HOST)
