"""How a command is started on Windows: programs are looked for as in a console, and batch files get their arguments."""

from __future__ import annotations

import shutil
from pathlib import PureWindowsPath

import pytest

from toolfold_adapters.transport.processes import windows_command

NODE = r"C:\Program Files\nodejs"


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of Windows: where programs are, by the folders of the path."""
    there = {"npx": rf"{NODE}\npx.CMD", "uvx": r"C:\Users\me\.local\bin\uvx.exe", "run.bat": r"\\server\share\run.bat"}

    def which(name: str, path: str | None = None) -> str | None:
        found = there.get(name)
        return found if found and str(PureWindowsPath(found).parent) in (path or "").split(";") else None

    monkeypatch.setattr(shutil, "which", which)


ENVIRONMENT = {"Path": rf"{NODE};C:\Users\me\.local\bin;\\server\share", "APPDATA": r"C:\Users\me\AppData\Roaming"}


def test_a_program_is_started_by_its_path_and_its_arguments_are_a_list() -> None:
    command = ["uvx", "mcp-server-git", "--repository", r"C:\My Projects\one"]
    assert windows_command(command, ENVIRONMENT) == [r"C:\Users\me\.local\bin\uvx.exe", *command[1:]]


def test_a_program_that_is_not_found_is_left_to_the_system_to_report() -> None:
    assert windows_command(["missing", "a"], ENVIRONMENT) == ["missing", "a"]
    assert windows_command(["npx"], {}) == ["npx"]


@pytest.mark.parametrize(
    ("argument", "quoted"),
    [
        ("-y", '"-y"'),
        ("https://host/mcp?a=1&b=2", '"https://host/mcp?a=1&b=2"'),
        ("C:\\My Files\\", '"C:\\My Files\\\\"'),
        (r"\\server\share\x", r'"\\server\share\x"'),
        ('{"key": 1}', r'"{\"key\": 1}"'),
        ("", '""'),
    ],
)
def test_a_batch_file_is_started_by_a_line_with_each_argument_in_quotes(argument: str, quoted: str) -> None:
    assert windows_command(["npx", argument], ENVIRONMENT) == rf'"{NODE}\npx.CMD" {quoted}'


@pytest.mark.parametrize("argument", ['a"&calc', '{"a": "x|y"}', "%APPDATA%", "100%", "two\nlines", 'odd"'])
def test_what_the_command_interpreter_would_change_is_refused(argument: str) -> None:
    with pytest.raises(OSError, match=r"run\.bat is a batch file, to which .* can't be passed unchanged\. Give"):
        windows_command(["run.bat", argument], ENVIRONMENT)
