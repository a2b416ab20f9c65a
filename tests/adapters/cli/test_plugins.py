"""Commands that other packages bring along."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.adapters.cli.support import invoke

MODULE = """
import click

@click.command("bake", short_help="Bake bread.")
@click.option("--loaves", default=1)
def bake(loaves):
    click.echo(f"{loaves} baked")

@click.command("serve")
def serve():
    click.echo("not ours")

number = 5
"""

Installed = Callable[[str], None]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installed:
    """A function that installs a distribution, `bakery`, with these entry points."""

    def install(points: str) -> None:
        (tmp_path / "bakery_commands.py").write_text(MODULE, encoding="utf-8")
        (tmp_path / "bakery_needy.py").write_text("import click, flour_mill", encoding="utf-8")
        (tmp_path / "bakery_broken.py").write_text("raise RuntimeError('the oven is cold')", encoding="utf-8")
        info = tmp_path / "bakery-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bakery\nVersion: 1.0\n", encoding="utf-8")
        (info / "entry_points.txt").write_text(f"[toolfold.commands]\n{points}\n", encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        for name in ("bakery_commands", "bakery_needy", "bakery_broken"):
            monkeypatch.delitem(sys.modules, name, raising=False)

    return install


def test_a_command_of_another_package_is_one_of_the_program(installed: Installed) -> None:
    installed("bake = bakery_commands:bake")
    assert "bake      Bake bread." in invoke("--help").stdout
    assert invoke("bake", "--loaves", "3").stdout == "3 baked\n"


def test_our_own_commands_are_not_replaced(installed: Installed) -> None:
    installed("serve = bakery_commands:serve")
    assert "Serve a TARGET's tools" in invoke("serve", "--help").stdout


@pytest.mark.parametrize(
    ("point", "said"),
    [
        ("bakery_broken:bake", "can't be loaded: RuntimeError: the oven is cold"),
        ("bakery_needy:bake", "can't be loaded: No module named 'flour_mill'"),
        ("bakery_gone:bake", "can't be loaded: No module named 'bakery_gone'"),
        ("bakery_commands:gone", "can't be loaded: AttributeError: "),
        ("bakery_commands:number", "bakery_commands:number is of type int, and no click.Command"),
    ],
)
def test_a_command_that_cannot_be_loaded_says_why_and_leaves_the_others_alone(
    installed: Installed, point: str, said: str
) -> None:
    installed(f"bake = {point}")
    help_text = invoke("--help")
    assert help_text.exit_code == 0
    assert "bake      (can't be loaded; run it to see why)" in help_text.stdout
    assert "inspect   Show groups" in help_text.stdout
    for arguments in (("bake",), ("bake", "bread", "--loaves", "3"), ("bake", "--help")):
        result = invoke(*arguments)
        assert result.exit_code == 1
        assert result.stderr.startswith("toolfold: The command 'bake', which comes with bakery, can't be loaded")
        assert said in result.stderr


def test_a_command_that_needs_an_extra_names_the_command_that_installs_it(
    installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed("bake = bakery_commands:bake")
    monkeypatch.setitem(sys.modules, "mcp", None)
    (Path(sys.path[0]) / "bakery_commands.py").write_text("import mcp", encoding="utf-8")
    result = invoke("bake")
    assert result.exit_code == 1
    assert 'Install it with: pip install "toolfold[mcp]"' in result.stderr


def test_a_traceback_is_shown_where_one_is_asked_for(installed: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
    installed("bake = bakery_broken:bake")
    monkeypatch.setenv("TOOLFOLD_DEBUG", "1")
    result = invoke("bake")
    assert isinstance(result.exception, RuntimeError)


def test_a_command_that_nobody_has_is_wrong_usage() -> None:
    result = invoke("bake")
    assert result.exit_code == 2
    assert "No such command 'bake'" in result.stderr
