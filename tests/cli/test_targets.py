"""What a TARGET stands for, and what is said when it can't be opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolfold import ConfigError
from toolfold_cli.targets import GatewayOptions, open_target, parse_target

FORMS = (
    "module:attribute (such as shop:tools), path/to/file.py:attribute, a .toml file, the URL of an MCP server, "
    "or, after --, the command that starts one."
)


async def name_of(text: str | None, *command: str, **options: object) -> str:
    said = GatewayOptions(**options)  # type: ignore[arg-type]
    async with open_target(parse_target(text, command, said), said) as opened:
        return opened.tools.name


async def refused(text: str | None, *command: str, **options: object) -> str:
    with pytest.raises(ConfigError) as caught:
        await name_of(text, *command, **options)
    return str(caught.value)


@pytest.mark.parametrize("attribute", ["tools", "make", "make_later"])
async def test_a_tool_set_or_a_function_that_makes_one_is_opened(shop: Path, attribute: str) -> None:
    assert await name_of(f"shop:{attribute}") == "shop"


async def test_an_attribute_may_be_inside_another(shop: Path) -> None:
    (shop / "deep.py").write_text("import shop\nclass Here:\n    there = shop.tools\n")
    assert await name_of("deep:Here.there") == "shop"


async def test_the_current_folder_comes_first(shop: Path) -> None:
    (shop / "textwrap2.py").write_text("from shop import tools\n")
    package = shop / "inner"
    package.mkdir()
    (package / "mod.py").write_text("from shop import tools\n")
    assert await name_of("inner.mod:tools") == await name_of("textwrap2:tools") == "shop"


async def test_a_missing_module_is_told_with_near_matches(shop: Path) -> None:
    assert await refused("shopp:tools") == (
        f"There is no module 'shopp'; searched: the current folder ({shop}) and the installed packages. "
        "Did you mean 'shop'?"
    )


async def test_a_missing_module_is_told_with_what_there_is_otherwise(shop: Path) -> None:
    message = await refused("warehouse:tools")
    assert message.endswith("The current folder has: shop.")


async def test_a_missing_module_of_an_empty_folder_is_told(
    shop: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("empty"))
    assert (await refused("warehouse:tools")).endswith("There are no modules in the current folder.")


async def test_a_missing_module_of_a_package_is_told_with_those_of_the_package(shop: Path) -> None:
    assert await refused("toolfold_cli.libary:desk") == (
        "There is no module 'toolfold_cli.libary'; searched: package 'toolfold_cli'. "
        "Did you mean 'toolfold_cli.library'?"
    )


async def test_a_word_that_is_no_module_may_have_been_meant_as_a_command(shop: Path) -> None:
    assert (await refused("npx")).endswith("A command goes after --.")


async def test_a_module_that_needs_what_is_not_installed_is_told_apart_from_a_missing_one(shop: Path) -> None:
    (shop / "needy.py").write_text("\nimport no_such_package_anywhere\n")
    assert await refused("needy:tools") == (
        "Module 'needy' needs 'no_such_package_anywhere', which is not installed. "
        "ModuleNotFoundError: No module named 'no_such_package_anywhere' (needy.py, line 2)."
    )


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 1\nx / 0\n", "ZeroDivisionError: division by zero (bad.py, line 2)."),
        ("def f(:\n", "SyntaxError: invalid syntax (bad.py, line 1)."),
        ("raise ValueError\n", "ValueError (bad.py, line 1)."),
        (
            "from shop import tools\ntools.register('hours', print, input_schema={'type': 'object'})\n",
            "DuplicateName: A tool named 'hours' is registered already; choose another name or unregister it first "
            "(bad.py, line 2).",
        ),
    ],
)
async def test_a_module_that_raises_is_told_with_the_place(shop: Path, source: str, said: str) -> None:
    (shop / "bad.py").write_text(source)
    assert await refused("bad:tools") == f"Module 'bad' can't be imported. {said}"


async def test_a_module_that_ends_the_program_is_told_what_to_do(shop: Path) -> None:
    (shop / "script.py").write_text("import sys\nsys.exit(3)\n")
    assert await refused("script:tools") == (
        "Module 'script' exits when it is imported; put what it runs under "
        'if __name__ == "__main__", and what is to be served outside.'
    )


async def test_a_missing_attribute_is_told_with_near_matches(shop: Path) -> None:
    assert await refused("shop:tool") == "shop:tool does not exist. Did you mean 'tools'?"


async def test_a_missing_attribute_is_told_with_the_tool_sets_otherwise(shop: Path) -> None:
    assert await refused("shop:xyz") == (
        "shop:xyz does not exist. In 'shop' there is shop:tools, shop:make, shop:make_later, shop:fail."
    )


async def test_a_module_alone_is_told_with_its_tool_sets(shop: Path) -> None:
    assert (await refused("shop")).startswith("Which object in 'shop'? Write shop:NAME. In 'shop' there is shop:tools")


async def test_an_attribute_of_another_type_is_told_with_the_tool_sets(shop: Path) -> None:
    assert (await refused("shop:NUMBER")).startswith(
        "shop:NUMBER is of type int; expected a ToolSet, or a function that makes one. In 'shop' there is shop:tools"
    )


async def test_a_module_without_tool_sets_is_told(shop: Path) -> None:
    (shop / "none.py").write_text("value = 5\n")
    assert (await refused("none:value")).endswith("There is no ToolSet in 'none'.")


async def test_a_function_that_needs_arguments_is_told(shop: Path) -> None:
    assert (
        await refused("shop:needs")
        == "shop:needs can't be called without arguments: missing a required argument: 'key'."
    )


async def test_a_function_that_makes_something_else_is_told(shop: Path) -> None:
    assert (await refused("shop:wrong")).startswith("shop:wrong returned a value of type int, not a ToolSet.")


async def test_a_function_that_raises_is_named_with_the_place(shop: Path) -> None:
    line = (shop / "shop.py").read_text().splitlines().index('    raise RuntimeError("the till is locked")') + 1
    assert await refused("shop:fail") == (f"shop:fail raised RuntimeError: the till is locked (shop.py, line {line}).")


async def test_neither_target_nor_command_is_refused() -> None:
    assert await refused(None) == f"There is no TARGET. It is {FORMS}"


async def test_target_and_command_together_are_refused() -> None:
    assert await refused("shop:tools", "npx", "server") == (
        "There is a TARGET, shop:tools, and a command, npx server: leave one of them out."
    )


@pytest.mark.parametrize("text", ["shop tools", "a:b:c", "./server", "shop:", "3:4", "server.py:", "server.py:3"])
async def test_what_is_no_target_is_refused_with_the_forms(text: str) -> None:
    assert await refused(text) == f"{text!r} is not a TARGET. It is {FORMS}"


async def test_a_url_of_another_scheme_is_refused() -> None:
    assert await refused("ws://localhost/mcp") == (
        "ws://localhost/mcp has the scheme 'ws'; the URL of an MCP server has http or https."
    )


def test_the_kinds_of_targets_are_told_apart() -> None:
    assert parse_target("a.b:c").kind == "reference"
    assert parse_target("folder/Gateway.TOML").kind == "file"
    assert parse_target("HTTPS://example.org/mcp").text == "https://example.org/mcp"
    assert parse_target(None, ("npx", "server")).command == ("npx", "server")


async def test_a_missing_file_is_named(shop: Path) -> None:
    assert await refused("gateway.toml") == "gateway.toml can't be read: No such file or directory."


@pytest.mark.parametrize(
    ("option", "value"), [("control", "none"), ("control_visibility", "relevant"), ("max_active", 3)]
)
async def test_an_option_of_gateways_is_refused_for_a_tool_set(option: str, value: object) -> None:
    assert await refused("shop:tools", **{option: value}) == (
        f"--{option.replace('_', '-')} is for tools of other servers; shop:tools sets it itself: "
        f"ToolSet(..., {option}=...)."
    )


async def test_a_file_of_groups_is_refused_where_the_target_has_its_own() -> None:
    assert (await refused("gateway.toml", groups=Path("groups.toml"))).startswith("--groups is for a URL or a command")


async def test_two_servers_are_refused(shop: Path) -> None:
    (shop / "groups.toml").write_text('[upstream]\ncommand = ["other"]\n')
    assert await refused(None, "npx", "server", groups=Path("groups.toml")) == (
        "groups.toml names a server in [upstream], and the command line another: leave out one."
    )
