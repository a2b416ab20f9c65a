"""Help, versions, wrong usage, missing extras."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.adapters.cli.support import SECONDS, environment, invoke, run
from toolfold import __version__

WITHOUT = "import sys; sys.modules[{package!r}] = None; from toolfold_adapters.cli import main; main()"


def without(package: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the program as if a package were not installed."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT.format(package=package), *arguments],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize("command", [(), ("serve",), ("inspect",), ("profiles",), ("demo",)], ids=" ".join)
def test_help_has_examples(command: tuple[str, ...]) -> None:
    result = invoke(*command, "--help")
    assert result.exit_code == 0
    assert "Examples:\n    toolfold " in result.stdout


def test_the_version_is_printed() -> None:
    assert invoke("--version").stdout == f"toolfold {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("serve",), "There is no TARGET."),
        (("serve", "shop:tools", "--", "npx"), "leave one of them out."),
        (("serve", "--"), "Nothing follows --"),
        (("serve", "npx", "server"), "a command goes after --: toolfold serve -- npx server"),
        (("serve", "npx", "-y", "server"), "go after --: toolfold serve -- npx -y server"),
        (("serve", "--no-such-option"), "No such option"),
        (("serve", "shop:tools", "--port", "70000"), "70000 is not in the range"),
        (("serve", "shop:tools", "--port", "80"), "--port is for HTTP: add --http, or leave it out."),
        (("serve", "shop:tools", "--port", "8000"), "--port is for HTTP"),
        (("serve", "shop:tools", "--host", "127.0.0.1"), "--host is for HTTP"),
        (("serve", "shop:tools", "--path", "/x"), "--path is for HTTP"),
        (("serve", "shop:tools", "--allow-host", "x:1"), "--allow-host is for HTTP"),
        (("serve", "shop:tools", "--allow-origin", "http://x"), "--allow-origin is for HTTP"),
        (("serve", "shop:tools", "--forwarded-allow-ips", "*"), "--forwarded-allow-ips is for HTTP"),
        (("serve", "shop:tools", "--limit", "calls"), "'calls' is not NAME=ALL or NAME=ALL/EACH"),
        (("serve", "shop:tools", "--limit", "calls=5/"), "such as calls=500/50"),
        (("serve", "shop:tools", "--limit", "calls=-5"), "'calls=-5' is not"),
        (("serve", "shop:tools", "--limit", "cats=5"), "connections, sessions, handles, calls, streams"),
        (("serve", "shop:tools", "--limit", "calls=0"), "A limit must be at least 1, not 0"),
        (("inspect", "shop:tools", "--control", "none"), "ToolSet(..., control=...)"),
        (("inspect", "gopher://x"), "has http or https"),
        (("profiles", "no target"), "is not a TARGET"),
        (("no-such-command",), "No such command"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_wrong_usage_ends_with_2_and_says_what_is_wrong(arguments: tuple[str, ...], said: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_a_failure_ends_with_1_and_a_paragraph_without_a_traceback(shop: Path) -> None:
    done = run("inspect", "shop:fail", cwd=shop)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("toolfold: shop:fail could not make its tool set. RuntimeError: the till is locked")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("arguments", "env"), [(("--traceback",), {}), ((), {"TOOLFOLD_DEBUG": "1"})])
def test_a_traceback_is_shown_to_those_who_ask(shop: Path, arguments: tuple[str, ...], env: dict[str, str]) -> None:
    done = run("inspect", "shop:fail", *arguments, cwd=shop, **env)
    assert done.returncode == 1
    assert "Traceback (most recent call last)" in done.stderr
    assert "in fail" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("toolfold: shop:fail could not make")


def test_an_unexpected_error_is_told_in_a_line_too(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object) -> None:
        raise ExceptionGroup("several", [KeyError("lost"), ExceptionGroup("inner", [OSError("gone")])])

    monkeypatch.setattr("toolfold_adapters.cli.inspection.view_at_start", explode)
    result = invoke("inspect", "shop:tools")
    assert result.exit_code == 1
    assert result.stderr == (
        "toolfold: KeyError: 'lost'. Use --traceback to see where.\nOSError: gone. Use --traceback to see where.\n"
    )


@pytest.mark.parametrize("package", ["click", "rich"])
def test_without_the_packages_of_the_command_line_it_says_what_to_install(tmp_path: Path, package: str) -> None:
    done = without(package, "--version", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (f"toolfold: '{package}' is not installed. Install it with: pip install \"toolfold[cli]\"\n")


@pytest.mark.parametrize("arguments", [("demo",), ("serve", "shop:tools"), ("inspect", "--", "server")], ids=" ".join)
def test_without_mcp_what_needs_it_says_what_to_install(shop: Path, arguments: tuple[str, ...]) -> None:
    done = without("mcp", *arguments, cwd=shop)
    assert done.returncode == 1
    assert done.stderr.endswith("toolfold: 'mcp' is not installed. Install it with: pip install \"toolfold[mcp]\"\n")
    assert "Traceback" not in done.stderr


def test_without_mcp_a_tool_set_can_be_inspected(shop: Path) -> None:
    assert without("mcp", "inspect", "shop:tools", cwd=shop).returncode == 0


def test_another_missing_package_is_not_taken_for_an_extra() -> None:
    code = WITHOUT.format(package="toolfold_adapters.tokens")
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, check=False)
    assert b"Traceback" in done.stderr
    assert b"pip install" not in done.stderr


def test_a_reader_that_leaves_ends_the_program_quietly(shop: Path) -> None:
    (shop / "many.py").write_text(
        "from toolfold import ToolSet\ntools = ToolSet('many')\n"
        "for n in range(3000):\n    tools.register_group(f'g{n}')\n"
    )
    code = "import sys; from toolfold_adapters.cli import main; sys.argv[1:] = ['inspect', 'many:tools']; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=shop, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(SECONDS) == 1
