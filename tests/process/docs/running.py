"""Running a page: its code, its files and its commands, in a folder of its own, in the order in which they stand.

=============== =================================================================
`python`        run, all blocks of a page in one namespace; `await` may stand outside of functions
`text`          with the title "Output": what the block before it printed
`console`       commands after `$`, and what they print; `...` stands for anything
`sh`            commands that succeed
`toml`, `json`, `yaml`   parsed
any, with a title        written to a file of that name, which later commands use
`toolfold`      drawn when the site is built
=============== =================================================================

What others provide is stood in for: `npx` starts a small server of ours, Claude Code has one server configured, and
`pip install` is checked and not run. Port 8000 is any free one.
"""

from __future__ import annotations

import ast
import asyncio
import doctest
import importlib
import inspect
import json
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from attrs import define, field
from click.testing import CliRunner

from tests.cli.support import environment
from tests.preloaded import forked_toolfold
from tests.process.docs.blocks import ROOT, Block, blocks_of
from tests.process.ports import free_port
from toolfold_cli.program import program

SECONDS = 300.0
PARSERS = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}
DRAWN = "toolfold"
_PORT = "8000"
_EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"])
_NPX = f"#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(Path(__file__).with_name('upstream.py')))}\n"
_CLAUDE = {"mcpServers": {"github": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-github"]}}}


def run(path: Path, folder: Path) -> dict[Block, str]:
    """Run a page; return the texts of the blocks that show something else than what was printed.

    Raises:
        AssertionError: A block failed, or is of a language that is neither run nor marked; the message has its place.
    """
    stale: dict[Block, str] = {}
    with _surroundings(folder) as port:
        page = Page(folder, port)
        try:
            for block in blocks_of(path.read_text(encoding="utf-8")):
                try:
                    shown = page.run(block)
                except Exception as error:
                    where = f"{path.relative_to(ROOT)}, line {block.line}"
                    raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
                if shown is not None and not _same(block.text, shown):
                    stale[block] = shown
        finally:
            page.close()
    return stale


@define
class Page:
    """What the blocks of a page share."""

    folder: Path
    port: str
    scope: dict[str, Any] = field(factory=lambda: {"__name__": "page"})
    printed: str | None = None
    servers: list[subprocess.Popen[str]] = field(factory=list)
    loop: asyncio.Runner = field(factory=asyncio.Runner)

    def run(self, block: Block) -> str | None:
        """Run or check a block; return what it should show, if that depends on what was run."""
        printed, self.printed = self.printed, None
        if block.reason is not None or block.language == DRAWN:
            return None
        if block.language == "text" and block.title == "Output":
            assert printed is not None, "there is no code before this output"
            return printed
        if block.language in PARSERS:
            PARSERS[block.language](block.text)
        if block.title is not None:
            self._write(block)
        elif block.language == "python":
            self._execute(block)
        elif block.language == "console":
            return "".join(f"{line}\n{output}" for line, output in self._console(block.text))
        elif block.language == "sh":
            for line in _commands(block.text):
                status, output = self._command(line)
                assert status == 0, f"{line}: status {status}\n{output}"
        else:
            known = block.language in PARSERS
            assert known, f"a block of {block.language or 'no language'} is not run: say why in a comment before it"
        return None

    def close(self) -> None:
        """End what was started."""
        self.loop.close()
        for server in self.servers:
            server.send_signal(signal.SIGTERM)
        statuses = [_ended(server) for server in self.servers]
        assert not any(statuses), f"servers ended with {statuses}"

    def _write(self, block: Block) -> None:
        assert block.title is not None
        file = self.folder / block.title
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self._ported(block.text), encoding="utf-8")

    def _execute(self, block: Block) -> None:
        code = compile("\n" * block.line + self._ported(block.text), "page", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with redirect_stdout(StringIO()) as output:
            if code.co_flags & inspect.CO_COROUTINE:
                self.loop.run(_awaited(eval(code, self.scope)))
            else:
                exec(code, self.scope)
        self.printed = self._shown(output.getvalue())

    def _console(self, text: str) -> Generator[tuple[str, str]]:
        for command in re.findall(r"^\$ (?:.*\\\n)*.*$", text, re.MULTILINE):
            line = command.removeprefix("$ ").replace("\\\n", "")
            yield command, self._command(line)[1]

    def _command(self, line: str) -> tuple[int, str]:
        """Run a command line; return its status, and what it printed."""
        words = shlex.split(self._ported(line), comments=True)
        settings = {}
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            name, _, settings[name] = words.pop(0).partition("=")
        if background := words[-1:] == ["&"]:
            words.pop()
        _forget(self.folder)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in settings.items():
                patch.setenv(name, value)
            status, output = self._start(words) if background else _run(words)
        return status, self._shown(output)

    def _start(self, words: list[str]) -> tuple[int, str]:
        server = subprocess.Popen(
            _program(words),
            env=environment(self.folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        self.servers.append(server)
        assert server.stderr is not None
        lines: list[str] = []
        while "http://" not in "".join(lines[-1:]):
            lines.append(server.stderr.readline())
            assert lines[-1], f"it ended:\n{''.join(lines)}"
        return 0, "".join(lines)

    def _ported(self, text: str) -> str:
        return text.replace(_PORT, self.port)

    def _shown(self, output: str) -> str:
        output = output.replace(str(self.folder.resolve()), "/home/you").replace(self.port, _PORT)
        return "".join(f"{line.rstrip()}\n" for line in output.splitlines())


def _run(words: list[str]) -> tuple[int, str]:
    match words:
        case ["toolfold", "serve" | "connect", *_] | ["python", "-m", "pytest", *_]:
            done = subprocess.run(
                _program(words),
                env=environment(Path.cwd()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                timeout=SECONDS,
                check=False,
            )
            return done.returncode, done.stdout
        case ["toolfold", *arguments]:
            result = CliRunner().invoke(program, arguments, prog_name="toolfold")
            if result.exception is not None and not isinstance(result.exception, SystemExit):
                raise result.exception
            return result.exit_code, result.output
        case ["python", "-m", module, *arguments]:
            return _python(arguments, lambda: runpy.run_module(module, run_name="__main__", alter_sys=True))
        case ["python", file, *arguments]:
            return _python(arguments, lambda: runpy.run_path(file, run_name="__main__"))
        case ["pip", "install", *requirements]:
            extras = re.findall(r"\[([\w,-]+)\]", " ".join(requirements))
            unknown = {extra for some in extras for extra in some.split(",")} - _EXTRAS
            assert not unknown, f"there is no extra {unknown}"
            return 0, ""
        case _:
            raise AssertionError(f"{shlex.join(words)} is not run: say why in a comment before the block")


def _python(arguments: list[str], start: Any) -> tuple[int, str]:
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as output, redirect_stderr(output):
        patch.setattr(sys, "argv", ["", *arguments])
        try:
            start()
        except SystemExit as ended:
            return int(ended.code or 0), output.getvalue()
    return 0, output.getvalue()


def _program(words: list[str]) -> list[str]:
    assert words[0] in ("toolfold", "python")
    return [*(forked_toolfold() if words[0] == "toolfold" else (sys.executable,)), *words[1:]]


def _commands(text: str) -> list[str]:
    lines = text.replace("\\\n", "").splitlines()
    return [part for line in lines for part in line.partition("#")[0].split(" && ") if part.strip()]


def _ended(server: subprocess.Popen[str]) -> int:
    try:
        return server.wait(SECONDS)
    finally:
        server.kill()
        if server.stderr is not None:
            server.stderr.close()


def _same(expected: str, printed: str) -> bool:
    return doctest.OutputChecker().check_output(expected, printed, doctest.ELLIPSIS)


def _forget(folder: Path) -> None:
    """Forget the modules of a folder, as a page may have written others since."""
    for name, module in list(sys.modules.items()):
        if str(folder) in str(getattr(module, "__file__", "")):
            del sys.modules[name]
    importlib.invalidate_caches()


async def _awaited(awaitable: Any) -> None:
    await awaitable


@contextmanager
def _surroundings(folder: Path) -> Generator[str]:
    """The folder as the current one and as the user's, with stand-ins for other programs; yield a free port."""
    (folder / ".bin").mkdir()
    npx = folder / ".bin" / "npx"
    npx.write_text(_NPX)
    npx.chmod(0o755)
    (folder / ".claude.json").write_text(json.dumps(_CLAUDE))
    port = str(free_port())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", [str(folder), *sys.path])
        patch.setattr(sys, "dont_write_bytecode", True)
        for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            patch.setenv(name, str(folder))
        patch.setenv("PATH", f"{folder / '.bin'}{os.pathsep}{os.environ['PATH']}")
        patch.setenv("TOOLFOLD_PORT", port)
        patch.setenv("COLUMNS", "100")
        try:
            yield port
        finally:
            _forget(folder)
