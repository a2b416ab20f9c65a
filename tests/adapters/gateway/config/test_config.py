"""The configuration file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from toolfold import ConfigError
from toolfold_adapters.gateway import GatewayConfig, UpstreamConfig, load_config, open_gateway
from toolfold_adapters.gateway.registration import UpstreamRegistration
from toolfold_adapters.gateway.upstream.definitions import Definitions
from toolfold_adapters.names import ONE_SERVER

pytestmark = pytest.mark.spec("GWY-2")

OBJECT = {"type": "object"}
FULL = """
exclusions = [["read", "write"]]

[upstream]
command = ["PROGRAM", "-y", "some-server"]
env = { LOG = "1" }
cwd = "/srv"
start_timeout = 5
mode = "auto"

[groups."read.logs"]
tools = ["get_log*"]

[groups.read]
tools = ["get_*", "list_*"]
description = "Look"
title = "Reading"

[groups.write]
tools = ["*"]

[groups.deep]
parent = "write"

[profiles.viewer]
active = ["read"]
available = ["*"]
description = "A look around"

[options]
control = "expand_tools"
control_visibility = "always"
max_active = 2
evict = "oldest"
page_size = 50
"""


def load(folder: Path, text: str) -> GatewayConfig:
    file = folder / "groups.toml"
    file.write_text(text, encoding="utf-8")
    return load_config(file)


def refused(folder: Path, text: str) -> str:
    """Return the message, which begins with the file's name, without it."""
    with pytest.raises(ConfigError) as caught:
        load(folder, text)
    message = str(caught.value)
    assert message.startswith(str(folder / "groups.toml"))
    return message.replace(str(folder / "groups.toml"), "").removeprefix(", ")


def test_a_file_gives_upstream_groups_exclusions_profiles_and_options(tmp_path: Path) -> None:
    config = load(tmp_path, FULL.replace('"PROGRAM"', json.dumps(sys.executable)))
    server = UpstreamConfig(
        command=(sys.executable, "-y", "some-server"), env={"LOG": "1"}, cwd="/srv", start_timeout=5, mode="auto"
    )
    assert config.upstreams == {ONE_SERVER: server}
    tools = config.new_tool_set("t")
    registration = UpstreamRegistration(tools, config, lambda *_: pytest.fail)
    names = ("set_a", "set_b", "get_log", "list_c")
    registration.register_tools(
        {ONE_SERVER: Definitions(tools=[{"name": name, "inputSchema": OBJECT} for name in names])}
    )
    catalog = tools.catalog
    assert [(group.path, group.description, group.title) for group in catalog.groups] == [
        ("read", "Look", "Reading"),
        ("read.logs", "1 tool: get_log", None),
        ("write", "2 tools: a, b", None),
        ("write.deep", "", None),
    ]
    assert {name: catalog.tools[name].group for name in names} == {
        "set_a": "write",
        "set_b": "write",
        "get_log": "read.logs",
        "list_c": "read",
    }
    assert catalog.exclusions == (frozenset({"read", "write"}),)
    assert catalog.profiles["viewer"].active == ("read",)
    assert catalog.profiles["viewer"].description == "A look around"
    assert (catalog.max_active, catalog.evict_oldest, tools.runtime.page_size) == (2, True, 50)
    assert list(config.paths().values()) == ["read.logs", "read", "write", "write.deep"]


def test_a_file_of_groups_needs_no_upstream_until_it_is_opened(tmp_path: Path) -> None:
    config = load(tmp_path, '[groups.a]\ntools = ["*"]')
    assert config.upstreams == {}
    with pytest.raises(ConfigError, match=r"groups\.toml names no server: add \[upstream\]"):
        open_gateway(config)
    open_gateway(config.with_upstream(UpstreamConfig(url="http://localhost/mcp")))


def test_an_empty_file_leaves_the_groups_to_the_names(tmp_path: Path) -> None:
    assert load(tmp_path, "").groups is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[groups.a]\ntools = 'x'", '[groups.a], tools: must be a list, such as ["…", "…"].'),
        ("[groups.a]\ntools = [5]", '[groups.a], tools[0]: must be a text in quotes, such as "…".'),
        (
            "[groups.a]\ntool = ['x']",
            "[groups.a], tool: is not known here; remove it, or use one of tools, description, instructions, title, "
            "parent, pinned.",
        ),
        ("[groups]\na = 5", "[groups.a]: must be a table."),
        (
            "[groups.a.b]\ntools = []",
            '[groups.a], b: is not known here; a group inside this one is written [groups."a.b"].',
        ),
        (
            "[groups.a]\nexclusions = [['a', 'b']]",
            "[groups.a], exclusions: is not known here; put exclusions = [[…, …]] at the top of the file, before the "
            "first table.",
        ),
        (
            "[group.a]",
            "group: is not known here; remove it, or use one of upstreams, groups, exclusions, profiles, rights, "
            "skills, pins, hidden, rename, audit, budgets, on_change, options.",
        ),
        ("source = 'x'", "source: is not known here; remove it."),
        ("[upstream]\nurl = 5", '[upstream], url: must be a text in quotes, such as "…".'),
        ("[upstream]\ncommand = []", "[upstream], command: must not be empty."),
        (
            "[upstream]\ncommand = 'npx x'",
            '[upstream], command: must be a list, such as ["…", "…"].',
        ),
        ("[upstream]\n", '[upstream]: give either a command, such as ["npx", "some-server"], or a url.'),
        ("[upstream]\nurl = 'ftp://x'", "[upstream]: the url must start with http:// or https://."),
        (
            "[upstream]\nurl = 'http://x'\ncwd = '/'",
            "[upstream]: env, environment and cwd are for a command; a server at a url has its own.",
        ),
        ("[upstream]\nurl = 'http://x'\nstart_timeout = 0", "[upstream], start_timeout: must be more than 0."),
        ("[upstream]\nurl = 'http://x'\nmode = 'new'", "[upstream], mode: must be 'legacy' or 'auto'."),
        ("[options]\nmax_active = 'x'", "[options], max_active: must be a whole number."),
        ("[options]\nmax_active = 0", "[options]: max_active must be a whole number of at least 1, not 0."),
        ("[options]\ncontrol = 'x'", "[options]: There is no control style 'x'"),
        ("[groups.a]\nparent = 'b'", "[groups.a]: There is no group 'b'."),
        (
            '[groups.database]\n[groups."databse.x"]',
            "[groups.\"databse.x\"]: There is no group 'databse'. Did you mean",
        ),
        ('[groups."a b"]', "[groups.\"a b\"]: 'a b' is not a valid name"),
        ('[groups.a]\n[groups."a.b"]\n[groups.b]\nparent = "a"', "[groups.b]: A group named 'a.b' is registered"),
        ("exclusions = [['a', 'b']]\n[groups.a]", "exclusions: There is no group 'b'."),
        ("exclusions = [['a']]\n[groups.a]", "exclusions: An exclusion set needs two or more"),
        ("[profiles.p]\nactive = ['b']\n[groups.a]", "[profiles.p]: There is no group 'b'."),
        ("[profiles.p]\navailable = ['b']\n[groups.a]", "[profiles.p]: There is no group 'b'."),
        ("[profiles.p]\nactive = ['*']\n[groups.a]", "[profiles.p]: There is no group '*'."),
        ("[profiles.p]\nactiv = ['a']", "[profiles.p], activ: is not known here"),
    ],
)
def test_a_mistake_is_named_by_file_table_and_key(tmp_path: Path, text: str, message: str) -> None:
    assert refused(tmp_path, text).startswith(message)


def test_every_mistake_has_its_line(tmp_path: Path) -> None:
    assert len(refused(tmp_path, "[groups.a]\nx = 1\ny = 2").splitlines()) == 2


def test_malformed_toml_is_named_by_its_line(tmp_path: Path) -> None:
    message = refused(tmp_path, "[groups.a]\ntools = [\n'x'\n[groups.b]\n")
    assert message.startswith(": it is not valid TOML: ")
    assert "line 4" in message


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.toml: it can't be read: No such file or directory\."):
        load_config(tmp_path / "missing.toml")
    (tmp_path / "latin.toml").write_bytes("# größe".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"latin\.toml, byte 4: it is not a text in UTF-8"):
        load_config(tmp_path / "latin.toml")


@pytest.mark.spec("SKL-2")
def test_skills_are_found_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "skills" / "tidy").mkdir(parents=True)
    written = tmp_path / "skills" / "tidy" / "SKILL.md"
    written.write_text("---\nname: tidy\ndescription: Put things in order\n---\n")
    file = tmp_path / "gateway.toml"
    server = '[upstream]\ncommand = ["x"]\n'
    file.write_text(f'skills = ["skills"]\n{server}')
    (skill,) = load_config(file).skills
    assert (skill.name, skill.file) == ("tidy", written)
    file.write_text(f"skills = []\n{server}")
    assert load_config(file).skills == ()
    for given, problem in (
        ('"skills"', f"{file}, skills: must be a list of folders."),
        (
            '["none"]',
            f"{file}, skills: {tmp_path / 'none'}, folder: neither it nor a folder in it contains a SKILL.md.",
        ),
    ):
        file.write_text(f"skills = {given}\n{server}")
        with pytest.raises(ConfigError) as raised:
            load_config(file)
        assert str(raised.value) == problem
