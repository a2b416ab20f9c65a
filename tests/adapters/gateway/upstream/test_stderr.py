"""The line of a server's stderr that says why it ended is found, wherever it stands."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from toolfold_adapters.gateway.upstream.stderr import REASON_LENGTH, last_line, reason_in

ENDED: Mapping[str, tuple[str, str]] = {
    "npm": (
        "npm error code E404\n"
        "npm error 404 Not Found - GET https://npm.test/no-such-server - Not found\n"
        "npm error 404\n"
        "npm error 404  'no-such-server@*' is not in this registry.\n"
        "npm error A complete log of this run can be found in: /home/you/.npm/_logs/debug-0.log",
        "npm error 404 Not Found - GET https://npm.test/no-such-server - Not found",
    ),
    "npm of old": (
        "npm ERR! code EACCES\nnpm ERR! syscall mkdir\nnpm ERR! path /srv\nnpm ERR! errno -13\n"
        "npm ERR! Error: EACCES: permission denied, mkdir '/srv'\nnpm ERR! A complete log of this run",
        "npm ERR! Error: EACCES: permission denied, mkdir '/srv'",
    ),
    "npx without a program": (
        "npm warn exec The following package was not found\nnpm error could not determine executable to run\n"
        "npm error A complete log of this run can be found in: /x.log",
        "npm error could not determine executable to run",
    ),
    "uv without a certificate": (
        "  × Failed to fetch: `https://pypi.test/simple/nothing/`\n"
        "  ├─▶ Request failed after 3 retries\n"
        "  ╰─▶ invalid peer certificate: UnknownIssuer\n"
        "  help: use the certificates of the system",
        "invalid peer certificate: UnknownIssuer",
    ),
    "uv with a cause": (
        "error: Failed to download `ledger`\n  Caused by: timed out\nhint: set UV_HTTP_TIMEOUT",
        "timed out",
    ),
    "docker": (
        "docker: Error response from daemon: pull access denied for board\n\n"
        "Run 'docker run --help' for more information",
        "docker: Error response from daemon: pull access denied for board",
    ),
    "Python": (
        'Traceback (most recent call last):\n  File "server.py", line 3, in <module>\n    import ledger\n'
        "ModuleNotFoundError: No module named 'ledger'",
        "ModuleNotFoundError: No module named 'ledger'",
    ),
    "Python, in a chain": (
        "Traceback (most recent call last):\nKeyError: 'url'\n\nDuring handling of the above exception:\n\n"
        "Traceback (most recent call last):\nledger.errors.ConfigError: no url\nsys:1: a last word",
        "ledger.errors.ConfigError: no url",
    ),
    "Python, of a group": (
        "  + Exception Group Traceback (most recent call last):\n  | ExceptionGroup: 1 sub-exception\n"
        "  +-+---------------- 1 ----------------\n    | OSError: address in use\n    +-----------------",
        "OSError: address in use",
    ),
    "Node": (
        "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\n"
        "Error: Cannot find module '/srv/index.js'\n    at Module._resolveFilename (node:internal)\n"
        "  code: 'MODULE_NOT_FOUND',\n}\n\nNode.js v22.0.0",
        "Error: Cannot find module '/srv/index.js'",
    ),
    "Go": (
        "panic: no token\n\ngoroutine 1 [running]:\nmain.main()\n\t/srv/main.go:5\nexit status 2",
        "panic: no token",
    ),
    "Rust": (
        "\nthread 'main' (17) panicked at src/main.rs:2:5:\nno token\nnote: run with `RUST_BACKTRACE=1`",
        "thread 'main' (17) panicked at src/main.rs:2:5: no token",
    ),
    "Java": (
        'Exception in thread "main" java.lang.RuntimeException: start\n\tat Main.main(Main.java:3)\n'
        "Caused by: java.net.ConnectException: refused\n\t... 1 more",
        "java.net.ConnectException: refused",
    ),
    "a shell": ("starting\nsh: 1: uvx: not found\nbye", "sh: 1: uvx: not found"),
    "git": ("hint: see the manual\nfatal: not a git repository\n", "fatal: not a git repository"),
    "a log": ("INFO start\nERROR no database at db:5432\nINFO bye", "ERROR no database at db:5432"),
}


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize("kind", ENDED)
def test_the_line_that_says_why_is_found(kind: str) -> None:
    text, reason = ENDED[kind]
    assert reason_in(text.split("\n")) == reason


@pytest.mark.spec("GWY-3")
def test_without_such_a_line_the_last_is_the_most_likely_one_but_none_after_a_long_life() -> None:
    lines = ["the license has expired", "", "For more information, see our site"]
    assert (reason_in(lines), last_line(lines)) == ("", "the license has expired")
    assert (reason_in([]), last_line([])) == ("", "")
    assert reason_in(["ValueError: " + "x" * 500]) == "ValueError: " + "x" * (REASON_LENGTH - 12) + "…"
