"""A TARGET that is a file of Python, and one that is another file or a folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.support import SHOP, invoke
from toolfold import ConfigError
from toolfold_cli.targets import open_target, parse_target

ONE = "from toolfold import ToolSet\nalone = ToolSet('alone')\nsame = alone\n"


async def name_of(text: str, app_dir: Path | None = None) -> str:
    async with open_target(parse_target(text, app_dir=app_dir)) as opened:
        return opened.tools.name


async def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        await name_of(text)
    return str(caught.value)


@pytest.fixture
def elsewhere(shop: Path) -> Path:
    """A folder below the current one, with two files of which one imports the other."""
    folder = shop / "else where"
    folder.mkdir()
    (folder / "my-server.py").write_text("from stock import tools\ndef make():\n    return tools\n")
    (folder / "stock.py").write_text(SHOP.replace('ToolSet("shop")', 'ToolSet("stock")'))
    return folder


async def test_a_file_is_opened_and_the_modules_beside_it_are_found(elsewhere: Path) -> None:
    assert await name_of("else where/my-server.py:make") == "stock"
    assert await name_of(f"{elsewhere}/stock.py:tools") == "stock"


async def test_modules_of_the_current_folder_are_found_too(elsewhere: Path) -> None:
    (elsewhere / "outer.py").write_text("from shop import tools\n")
    assert await name_of("else where/outer.py:tools") == "shop"


async def test_a_file_is_the_module_that_others_import(elsewhere: Path) -> None:
    (elsewhere / "circle.py").write_text(f"{ONE}import half\nassert half.whole is alone\n")
    (elsewhere / "half.py").write_text("from circle import alone as whole\n")
    assert await name_of("else where/circle.py:alone") == "alone"


async def test_the_attribute_may_be_left_out_where_there_is_one_tool_set(shop: Path) -> None:
    (shop / "one.py").write_text(ONE)
    assert await name_of("one.py") == await name_of("one") == "alone"


async def test_the_attribute_is_asked_for_where_there_are_several_or_none(shop: Path) -> None:
    assert await refused("shop.py") == (
        "Which object in 'shop.py'? Write shop.py:NAME. "
        "In 'shop.py' there is shop.py:tools, shop.py:make, shop.py:make_later, shop.py:fail."
    )
    (shop / "none.py").write_text("")
    assert await refused("./none.py") == (
        "Which object in './none.py'? Write ./none.py:NAME. There is no ToolSet in './none.py'."
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("./missing.py", "There is no file ./missing.py. The folder {folder} has: shop.py."),
        ("shp.py:tools", "There is no file shp.py. Did you mean 'shop.py'?"),
        ("nowhere/shop.py", "There is no file nowhere/shop.py: there is no folder {folder}/nowhere."),
        ("shop.py:tool", "shop.py:tool does not exist. Did you mean 'tools'?"),
        ("shop.py:NUMBER", "shop.py:NUMBER is of type int; expected a ToolSet, or a function that makes one."),
        ("shop.tools", "'shop' is a module, not a package. Did you mean shop:tools?"),
        ("notes.txt", "notes.txt is neither a Python file (.py) nor a configuration (.toml)."),
        ("./notes.txt", "./notes.txt is neither a Python file (.py) nor a configuration (.toml)."),
        ("deep/", "deep/ is a folder; name a Python file in it: deep/FILE.py:NAME."),
        (".", ". is a folder; name a Python file in it: FILE.py:NAME."),
    ],
)
async def test_what_is_not_there_is_named_with_what_is(shop: Path, text: str, said: str) -> None:
    (shop / "notes.txt").write_text("hello")
    (shop / "deep").mkdir()
    assert said.format(folder=shop) in await refused(text)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("1 / 0\n", "The file mine.py can't be imported. ZeroDivisionError: division by zero (mine.py, line 1)."),
        (
            "import no_such_package_anywhere\n",
            "The file mine.py needs 'no_such_package_anywhere', which is not installed.",
        ),
        ("raise SystemExit(3)\n", "The file mine.py exits when it is imported; put what it runs under"),
        (
            "def make():\n    raise SystemExit(3)\n",
            "mine.py:make raised SystemExit: 3 (mine.py, line 2).",
        ),
    ],
)
async def test_what_a_file_raises_is_told_with_the_place(shop: Path, source: str, said: str) -> None:
    (shop / "mine.py").write_text(source)
    assert (await refused("mine.py:make")).startswith(said)


async def test_a_file_with_the_name_of_a_module_in_use_is_refused(shop: Path) -> None:
    (shop / "json.py").write_text(ONE)
    assert await refused("json.py") == (
        "json.py has the name of another module that is in use, 'json': rename the file."
    )


async def test_a_file_that_failed_is_read_again_once_it_is_mended(shop: Path) -> None:
    (shop / "mended.py").write_text("1 / 0\n")
    await refused("mended.py")
    (shop / "mended.py").write_text(ONE)
    assert await name_of("mended.py") == "alone"


async def test_another_folder_may_be_the_one_whose_modules_are_found(elsewhere: Path) -> None:
    assert await name_of("stock:tools", elsewhere) == "stock"
    assert sys.path[0] == str(elsewhere)


def test_the_folder_is_an_option_of_the_command_line(elsewhere: Path) -> None:
    result = invoke("profiles", "stock:tools", "--app-dir", "else where")
    assert (result.exit_code, result.stderr) == (0, "")
    missing = invoke("profiles", "stocks:tools", "--app-dir", "else where")
    assert missing.stderr == (
        f"toolfold: There is no module 'stocks'; searched: the folder ({elsewhere}) and the installed packages. "
        "Did you mean 'stock'?\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("shop:tools", "--app-dir", "nowhere"), "'nowhere' does not exist"),
        (("gateway.toml", "--app-dir", "."), "--app-dir is for Python modules; gateway.toml is none."),
        (("shop.py:tools", "--control", "none"), "shop.py:tools sets it itself: ToolSet(..., control=...)."),
        (("shop.py:tools", "--start-timeout", "3"), "--start-timeout is for other servers; shop.py:tools is none."),
    ],
)
def test_options_that_do_not_go_with_it_are_wrong_usage(shop: Path, arguments: tuple[str, ...], said: str) -> None:
    result = invoke("inspect", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
