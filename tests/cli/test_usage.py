"""Help, the version, wrong usage, failures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import invoke
from toolfold import __version__


@pytest.mark.parametrize("command", [(), ("serve",)], ids=str)
def test_help_is_a_command_too(command: tuple[str, ...]) -> None:
    assert invoke("help", *command).stdout == invoke(*command, "--help").stdout


def test_the_version_is_printed() -> None:
    assert invoke("--version").stdout == f"toolfold {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
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
        (("inspect", "shop:tools", "--app-dir", "nowhere"), "'nowhere' does not exist"),
        (("inspect", "gateway.toml", "--app-dir", "."), "--app-dir is for Python modules; gateway.toml is none."),
        (("profiles", "no target"), "is not a TARGET"),
        (("conform", "shop:tools", "--control", "none"), "No such option"),
        (("no-such-command",), "No such command 'no-such-command'.\n"),
        (("sevre", "shop:tools"), "No such command 'sevre'. Did you mean: toolfold serve?"),
        (("shop:tools",), "Did you mean: toolfold serve shop:tools?"),
        (("help", "sevre"), "Did you mean: toolfold serve?"),
        (("serve", "shop:tools", "--prt", "8000"), "No such option '--prt'. Did you mean --port?\n"),
        (("inspect", "shop:tools", "--yaml"), "No such option '--yaml'.\n"),
        (("serve", "shop:tools", "--port", "abc"), "'abc' is not a valid whole number (0<=x<=65535)."),
        (("serve", "shop:tools", "--shutdown-timeout", "soon"), "'soon' is not a valid number (x>=0)."),
        (("inspect", "shop:tools", "--max-group-tokens", "5"), "add --check"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_wrong_usage_ends_with_2_and_says_what_is_wrong(arguments: tuple[str, ...], message: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("variable", "option"),
    [
        ("TOOLFOLD_PORT", "--port"),
        ("TOOLFOLD_HTTP", "--http"),
        ("TOOLFOLD_LIMIT", "--limit"),
        ("TOOLFOLD_STORE", "--store"),
        ("TOOLFOLD_LIVE", "--live"),
    ],
)
def test_a_wrong_value_in_the_environment_is_refused_with_the_name_of_the_variable(
    variable: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "perhaps")
    result = invoke("serve", "shop:tools")
    assert result.exit_code == 2
    assert f"Invalid value for '{option}': " in result.stderr
    assert f"It was set by {variable}." in result.stderr.replace("\n", " ")


@pytest.mark.spec("SAF-7")
def test_a_variable_that_nothing_reads_is_warned_of_with_the_one_that_may_be_meant(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for read in ("TOOLFOLD_PORT", "TOOLFOLD_LIMIT", "TOOLFOLD_INPUT_API_KEY", "TOOLFOLD_HANDLE_KEY", "TOOLFOLD_DEBUG"):
        monkeypatch.setenv(read, "0")
    assert invoke("inspect", "shop:tools").stderr == ""
    monkeypatch.setenv("TOOLFOLD_PROT", "8001")
    monkeypatch.setenv("TOOLFOLD_XYZ", "1")
    result = invoke("inspect", "shop:tools")
    assert result.exit_code == 0
    assert result.stderr == (
        "toolfold: The variable TOOLFOLD_PROT is set, and nothing reads it. Did you mean TOOLFOLD_PORT?\n"
        "toolfold: The variable TOOLFOLD_XYZ is set, and nothing reads it.\n"
    )


def test_a_failure_ends_with_1_and_a_paragraph_without_a_traceback(shop: Path) -> None:
    result = invoke("inspect", "shop:fail")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("toolfold: shop:fail raised RuntimeError: the till is locked (shop.py, line ")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", ["inspect", "conform"])
@pytest.mark.parametrize(("arguments", "debug"), [(("--traceback",), "0"), ((), "1")])
def test_a_traceback_is_printed_on_request(
    shop: Path, monkeypatch: pytest.MonkeyPatch, command: str, arguments: tuple[str, ...], debug: str
) -> None:
    monkeypatch.setenv("TOOLFOLD_DEBUG", debug)
    result = invoke(command, "shop:fail", *arguments)
    assert "Traceback (most recent call last)" in result.stderr
    assert "in fail" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("toolfold: shop:fail raised RuntimeError")


def test_unexpected_errors_are_reported_on_a_line_each(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object) -> None:
        raise ExceptionGroup("several", [KeyError("lost"), ExceptionGroup("inner", [OSError("gone")])])

    monkeypatch.setattr("toolfold_cli.costs.initial_view", explode)
    result = invoke("inspect", "shop:tools")
    assert result.exit_code == 1
    assert result.stderr == (
        "toolfold: KeyError: 'lost'. Use --traceback to see where.\nOSError: gone. Use --traceback to see where.\n"
    )


def test_an_interrupt_exits_with_130_and_prints_nothing(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("toolfold_cli.costs.initial_view", interrupt)
    result = invoke("inspect", "shop:tools")
    assert (result.exit_code, result.output) == (130, "")
