"""The kinds of TARGET, and the options that apply to them."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from tests.cli.support import invoke, refusal_of
from toolfold import ConfigError
from toolfold_adapters.search import meaning
from toolfold_adapters.transport import processes
from toolfold_cli.targets import GatewayOptions, open_target, parse_target

FORMS = (
    "module:attribute (such as shop:tools), path/to/file.py:attribute, a .toml or .json file, a folder of "
    "skills, the URL of an MCP server, or, after --, the command that starts one."
)


def test_the_kinds_of_targets_are_distinguished() -> None:
    assert parse_target("a.b:c").kind == "reference"
    assert parse_target("folder/Gateway.TOML").kind == "file"
    assert parse_target("HTTPS://example.org/mcp").text == "https://example.org/mcp"
    assert parse_target(None, ("npx", "server")).arguments == "-- npx server"


def test_the_home_folder_is_found_without_a_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Clients start commands without one, so what they are configured with arrives as it is."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert parse_target("~/mcp.json").text == str(tmp_path / "mcp.json")
    assert parse_target("~nobody-of-this-name/mcp.json").text == "~nobody-of-this-name/mcp.json"
    assert parse_target("./~/mcp.json").text == "./~/mcp.json"


@pytest.mark.parametrize("text", ["shop tools", "a:b:c", "./server", "shop:", "3:4", "server.py:", "server.py:3"])
async def test_an_invalid_target_is_refused_with_the_valid_forms(text: str) -> None:
    assert await refusal_of(text) == f"{text!r} is not a TARGET. It is {FORMS}"


@pytest.mark.parametrize(
    ("text", "command", "options", "message"),
    [
        (None, (), {}, f"There is no TARGET. It is {FORMS}"),
        (
            "shop:tools",
            ("npx", "server"),
            {},
            "There is a TARGET, shop:tools, and a command, npx server: leave one of them out.",
        ),
        (
            "ws://localhost/mcp",
            (),
            {},
            "ws://localhost/mcp has the scheme 'ws'; the URL of an MCP server has http or https.",
        ),
        ("gateway.toml", (), {}, "gateway.toml: it can't be read: No such file or directory."),
        *(
            (
                "shop.py:tools",
                (),
                {option: value},
                f"--{option.replace('_', '-')} is for tools of other servers; shop.py:tools sets it itself: "
                f"ToolSet(..., {option}=...).",
            )
            for option, value in {
                "control": "none",
                "control_visibility": "relevant",
                "max_active": 3,
                "search": "bm25",
            }.items()
        ),
        ("shop:tools", (), {"start_timeout": 3}, "--start-timeout is for other servers; shop:tools is none."),
        (
            "gateway.toml",
            (),
            {"groups": Path("groups.toml")},
            "--groups is for a URL or a command; gateway.toml groups its tools itself.",
        ),
        (
            None,
            ("npx", "server"),
            {"groups": Path("groups.toml")},
            "groups.toml names a server, and the command line another: leave out one.",
        ),
    ],
)
async def test_a_target_or_an_option_that_does_not_apply_to_it_is_refused(
    shop: Path, text: str | None, command: tuple[str, ...], options: dict[str, object], message: str
) -> None:
    (shop / "groups.toml").write_text('[upstream]\nurl = "https://example.org"\n')
    assert await refusal_of(text, *command, **options) == message


CATALOG = """
[groups.orders]
tools = ["place", "cancel"]

[groups."orders.returns"]
"""


@pytest.mark.spec("GRP-2")
async def test_a_catalog_is_served_as_a_preview_with_the_options_of_the_command(
    shop: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (shop / "catalog.toml").write_text(CATALOG)
    async with open_target(
        parse_target("catalog.toml"), GatewayOptions(max_active=1, search="bm25"), serving=True
    ) as opened:
        assert opened.tools.catalog.max_active == 1
        assert "find_tools" in opened.tools.catalog.tools
    assert "catalog.toml has no program: this is a preview" in caplog.text


@pytest.mark.spec("DIA-1", "ERR-2")
def test_a_wrong_catalog_is_refused_with_file_and_place(shop: Path) -> None:
    (shop / "catalog.toml").write_text(CATALOG.replace("place", "pl ace"))
    result = invoke("inspect", "catalog.toml")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(
        "toolfold: catalog.toml, [groups.orders], entry 1 (pl ace): 'pl ace' is not a valid"
    )
    (shop / "catalog.toml").write_text(CATALOG)
    late = invoke("inspect", "catalog.toml", "--start-timeout", "3")
    assert late.stderr == "toolfold: --start-timeout is for other servers; catalog.toml is none.\n"


@pytest.mark.spec("SKL-2")
async def test_a_folder_of_skills_is_one_group_for_each(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "returns").mkdir()
    front = "---\nname: returns\ndescription: Take books back\nallowed-tools: find\n---\nFind the loan first."
    (tmp_path / "returns" / "SKILL.md").write_text(front)
    for folder in (tmp_path, tmp_path / "returns"):
        async with open_target(parse_target(str(folder)), serving=True) as opened:
            (group,) = opened.tools.catalog.groups
            assert (group.path, group.instructions) == ("returns", "Find the loan first.")
    assert all("skill 'returns' needs 'find', and no tool has this name." in text for text in caplog.messages)
    assert len(caplog.messages) == 2


@pytest.mark.spec("GWY-4")
async def test_what_is_secret_in_the_environment_of_whoever_opens_a_target_is_read_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(processes, "start", start)
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"a": {"command": "no-such-pr0gram"}}}))
    environ = {"PATH": "", "SOME_TOKEN": "no-such-pr0gram"}
    async with open_target(parse_target(str(file)), serving=True, environ=environ, folder=tmp_path) as opened:
        assert opened.gateway is not None
        opened.gateway.ask_unknown()
        while not opened.gateway.status[0].failures:
            await anyio.lowlevel.checkpoint()
        assert "the program … is not installed" in opened.gateway.status[0].reason


@pytest.mark.parametrize("content", ["[upstreams.pages]\ncommand = ['true']\n", CATALOG])
async def test_a_model_that_is_missing_is_said_of_the_option_that_wants_it(
    content: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(meaning, "installed_models", lambda: ())
    file = tmp_path / "pages.toml"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=r'^--search embeddings: .*pip install "toolfold\[meaning\]"'):
        async with open_target(parse_target(str(file)), GatewayOptions(search="embeddings")):
            pass
