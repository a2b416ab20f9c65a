"""A TARGET that is module:attribute or path/to/file.py:attribute: how it is found, and the message if it is not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.support import SHOP, invoke, name_of, refusal_of

ONE = "from toolfold import ToolSet\nsingle = ToolSet('single')\nsame = single\n"
FAILING = SHOP.splitlines().index('    raise RuntimeError("the till is locked")') + 1
SOURCES = {
    "deep.py": "import shop\nclass Here:\n    there = shop.tools\n",
    "one.py": ONE,
    "none.py": "value = 5\n",
    "json.py": ONE,
    "notes.txt": "hello",
    "inner/module.py": "from shop import tools\n",
    "needy.py": "\nimport no_such_package_anywhere\n",
    "dividing.py": "x = 1\nx / 0\n",
    "invalid.py": "def f(:\n",
    "raising.py": "raise ValueError\n",
    "twice.py": "from shop import tools\ntools.register('hours', print, input_schema={'type': 'object'})\n",
    "script.py": "import sys\nsys.exit(3)\n",
    "ending.py": "def make():\n    raise SystemExit(3)\n",
    "configured.py": "from toolfold import ToolSet\nasync def make():\n    ToolSet('x', page_size=0)\n",
}


@pytest.fixture
def sources(shop: Path) -> Path:
    """The current folder, with modules and files of many kinds."""
    for name, source in SOURCES.items():
        (shop / name).parent.mkdir(exist_ok=True)
        (shop / name).write_text(source)
    return shop


@pytest.fixture
def elsewhere(shop: Path) -> Path:
    """A folder below the current one, with two files of which one imports the other."""
    folder = shop / "else where"
    folder.mkdir()
    (folder / "my-server.py").write_text("from stock import tools\ndef make():\n    return tools\n")
    (folder / "stock.py").write_text(SHOP.replace('ToolSet("shop")', 'ToolSet("stock")'))
    return folder


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("shop:tools", "shop"),
        ("shop:make", "shop"),
        ("shop:make_later", "shop"),
        ("deep:Here.there", "shop"),
        ("inner.module:tools", "shop"),
        ("one", "single"),
        ("one.py", "single"),
        ("./inner/module.py:tools", "shop"),
    ],
)
async def test_a_tool_set_or_a_function_that_makes_one_is_opened(sources: Path, text: str, name: str) -> None:
    assert await name_of(text) == name


async def test_a_file_is_opened_and_the_modules_beside_it_are_found(elsewhere: Path) -> None:
    assert await name_of("else where/my-server.py:make") == "stock"
    assert await name_of(f"{elsewhere}/stock.py:tools") == "stock"


async def test_a_file_is_the_module_that_others_import(elsewhere: Path) -> None:
    (elsewhere / "circle.py").write_text(f"{ONE}import half\nassert half.whole is single\n")
    (elsewhere / "half.py").write_text("from circle import single as whole\n")
    assert await name_of("else where/circle.py:single") == "single"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "shopp:tools",
            "There is no module 'shopp'; searched: the current folder ({folder}) and the installed packages. "
            "Did you mean 'shop'?",
        ),
        (
            "toolfold_cli.shoop:tools",
            "There is no module 'toolfold_cli.shoop'; searched: package 'toolfold_cli'. "
            "Did you mean 'toolfold_cli.shop'?",
        ),
        ("warehouse:tools", "The current folder has: configured, deep, dividing, "),
        ("npx", " A command goes after --."),
        ("shop.tools", "'shop' is a module, not a package. Did you mean shop:tools?"),
        ("shop:tool", "shop:tool does not exist. Did you mean 'tools'?"),
        (
            "shop:xyz",
            "shop:xyz does not exist. In 'shop' there is shop:tools, shop:make, shop:make_later, shop:fail.",
        ),
        ("shop", "Which object in 'shop'? Write shop:NAME. In 'shop' there is shop:tools, "),
        ("shop.py", "Which object in 'shop.py'? Write shop.py:NAME. In 'shop.py' there is shop.py:tools, "),
        ("none.py", "Which object in 'none.py'? Write none.py:NAME. There is no ToolSet or Server in 'none.py'."),
        (
            "shop:NUMBER",
            "shop:NUMBER is of type int; expected a ToolSet or a Server, or a function that makes one. "
            "In 'shop' there is shop:tools, ",
        ),
        ("none:value", "There is no ToolSet or Server in 'none'."),
        ("shop:needs", "shop:needs can't be called without arguments: missing a required argument: 'key'."),
        ("shop:wrong", "shop:wrong returned a value of type int, not a ToolSet or a Server."),
        (
            "./nowhere-at-all.py",
            "There is no file ./nowhere-at-all.py. The folder {folder} has: configured.py, ",
        ),
        ("shp.py:tools", "There is no file shp.py. Did you mean 'shop.py'"),
        ("nowhere/shop.py", "There is no file nowhere/shop.py: there is no folder {folder}/nowhere."),
        ("notes.txt", "notes.txt is neither a Python file (.py) nor a configuration (.toml)."),
        ("inner/", "inner/ is a folder without a SKILL.md; name a Python file in it: inner/FILE.py:NAME."),
        (".", ". is a folder without a SKILL.md; name a Python file in it: FILE.py:NAME."),
        ("json.py", "json.py has the name of another module that is in use, 'json': rename the file."),
    ],
)
async def test_an_object_that_is_not_found_is_reported_with_those_that_are(
    sources: Path, text: str, message: str
) -> None:
    assert message.format(folder=sources) in await refusal_of(text)


async def test_an_empty_folder_is_reported_to_have_no_modules(
    shop: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("empty"))
    assert (await refusal_of("warehouse:tools")).endswith("There are no modules in the current folder.")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "needy:tools",
            "Module 'needy' needs 'no_such_package_anywhere', which is not installed. "
            "ModuleNotFoundError: No module named 'no_such_package_anywhere' (needy.py, line 2).",
        ),
        (
            "dividing:tools",
            "Module 'dividing' can't be imported. ZeroDivisionError: division by zero (dividing.py, line 2).",
        ),
        (
            "dividing.py:tools",
            "The file dividing.py can't be imported. ZeroDivisionError: division by zero (dividing.py, line 2).",
        ),
        ("invalid:tools", "Module 'invalid' can't be imported. SyntaxError: invalid syntax (invalid.py, line 1)."),
        ("raising:tools", "Module 'raising' can't be imported. ValueError (raising.py, line 1)."),
        (
            "twice:tools",
            "Module 'twice' can't be imported. DuplicateName: A tool named 'hours' is registered already; choose "
            "another name or unregister it first (twice.py, line 2).",
        ),
        (
            "script:tools",
            "Module 'script' exits when it is imported; put the code that runs it under "
            'if __name__ == "__main__", and the tool set outside.',
        ),
        ("ending:make", "ending:make raised SystemExit: 3 (ending.py, line 2)."),
        (
            "configured:make",
            "configured:make raised ConfigError: page_size must be a whole number of at least 1, not 0 "
            "(configured.py, line 3).",
        ),
        ("shop:fail", f"shop:fail raised RuntimeError: the till is locked (shop.py, line {FAILING})."),
    ],
)
async def test_an_error_of_a_module_is_reported_with_its_line(sources: Path, text: str, message: str) -> None:
    assert await refusal_of(text) == message


async def test_a_file_that_failed_is_imported_again_once_it_is_repaired(shop: Path) -> None:
    (shop / "repaired.py").write_text("1 / 0\n")
    await refusal_of("repaired.py")
    (shop / "repaired.py").write_text(ONE)
    assert await name_of("repaired.py") == "single"


def test_modules_of_another_folder_are_found_with_an_option(elsewhere: Path) -> None:
    result = invoke("profiles", "stock:tools", "--app-dir", "else where")
    assert (result.exit_code, result.stderr) == (0, "")
    assert sys.path[0] == str(elsewhere)
    missing = invoke("profiles", "stocks:tools", "--app-dir", "else where")
    assert missing.stderr == (
        f"toolfold: There is no module 'stocks'; searched: the folder ({elsewhere}) and the installed packages. "
        "Did you mean 'stock'?\n"
    )
