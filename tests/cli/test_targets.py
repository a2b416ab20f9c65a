"""The kinds of TARGET, and the options that apply to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import refusal_of
from toolfold_cli.targets import parse_target

FORMS = (
    "module:attribute (such as shop:tools), path/to/file.py:attribute, a .toml or .json file, the URL of an MCP "
    "server, or, after --, the command that starts one."
)


def test_the_kinds_of_targets_are_distinguished() -> None:
    assert parse_target("a.b:c").kind == "reference"
    assert parse_target("folder/Gateway.TOML").kind == "file"
    assert parse_target("HTTPS://example.org/mcp").text == "https://example.org/mcp"
    assert parse_target(None, ("npx", "server")).arguments == "-- npx server"


@pytest.mark.parametrize("text", ["shop tools", "a:b:c", "./server", "shop:", "3:4", "server.py:", "server.py:3"])
async def test_a_text_that_is_no_target_is_refused_with_the_forms_of_one(text: str) -> None:
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
        ("gateway.toml", (), {}, "gateway.toml can't be read: No such file or directory."),
        *(
            (
                "shop.py:tools",
                (),
                {option: value},
                f"--{option.replace('_', '-')} is for tools of other servers; shop.py:tools sets it itself: "
                f"ToolSet(..., {option}=...).",
            )
            for option, value in {"control": "none", "control_visibility": "relevant", "max_active": 3}.items()
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
