"""Transcripts of the program: pages in `printed/` with commands, what each of them prints, and files that they use.

    python -m tests.cli.printing            # say what is printed otherwise
    python -m tests.cli.printing --write    # and write it into the transcripts

A transcript is a page like those of the documentation. Its commands run in this process, in a folder of their own with
the files of `printed/stage`, as if in a home. What goes to stderr follows after `! `, and a status other than 0 in
brackets. The command of a server starts one in this process. `cat FILE` shows a file, `> FILE` writes what is printed,
and `| head -n N` and `| tail -n N` leave some of it out.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import shutil
import sys
import warnings
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest
from mcp.server import MCPServer
from mcp.shared.memory import create_client_server_memory_streams
from mcp_types import ToolAnnotations

from tests.cli.support import invoke
from tests.process.docs.blocks import Block, blocks_of, replaced
from toolfold import __version__
from toolfold_adapters.gateway import UpstreamConfig

FOLDER = Path(__file__).with_name("printed")
STAGE = FOLDER / "stage"
OF_HOSTS = (
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "COPILOT_HOME",
    "FAST_AGENT_HOME",
    "KIMI_CODE_HOME",
    "VIBE_HOME",
    "APPDATA",
)
USAGE = re.compile(r"\AUsage: .*? for help\.\n\n", re.DOTALL)
"""What every wrong usage begins with, and the help has."""
VARYING = (
    (r"\b\d+(\.\d+)? (ms|s|seconds)\b", r"N \2"),
    (r"\b\d+\.\d{3}\b", "N.NNN"),
    (r"\bpython \d+\.\d+\.\d+\S*, mcp [\d.]+\d", "python N, mcp N"),
    (r"\bHandle: \S+", "Handle: HANDLE"),
    (r"\(made\.py, line \d+\)", "(made.py, line N)"),
)
"""What differs between runs and machines, and what is shown of it."""
COMMAND = re.compile(r"^\$ (?:.*\\\n)*.*$", re.MULTILINE)


def transcripts() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.md"))


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def commands_in(name: str) -> list[str]:
    """Return the commands of a transcript, each on one line."""
    blocks = (block for block in blocks_of(text_of(name)) if block.language == "console")
    return [line_of(command) for block in blocks for command in COMMAND.findall(block.text)]


def line_of(command: str) -> str:
    return command.removeprefix("$ ").replace("\\\n", "")


def play(name: str) -> dict[Block, str]:
    """Run a transcript; return what its commands print, for the blocks that show something else."""
    stale: dict[Block, str] = {}
    with TemporaryDirectory() as temporary, _on_stage(Path(temporary).resolve() / "you") as folder:
        for block in blocks_of(text_of(name)):
            if block.title is not None:
                (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
                (folder / block.title).write_text(block.text.replace("/bin/python", sys.executable), "utf-8")
            if block.language == "console":
                printed = "".join(
                    f"{command}\n{_run(line_of(command), folder)}" for command in COMMAND.findall(block.text)
                )
                if printed != block.text:
                    stale[block] = printed
    return stale


def difference(block: Block, printed: str, name: str) -> str:
    return "\n".join(
        difflib.unified_diff(
            block.text.splitlines(), printed.splitlines(), f"{name}.md:{block.line}", "printed", "", "", 2, ""
        )
    )


def _run(line: str, folder: Path) -> str:
    """Return what a command line shows."""
    words = shlex.split(line, comments=True)
    to = words[-1] if words[-2:-1] == [">"] else None
    shown = slice(None)
    if to:
        words = words[:-2]
    if words[-4:-3] == ["|"]:
        number = int(words[-1])
        shown = slice(number) if words[-3] == "head" else slice(-number, None)
        words = words[:-4]
    if words[0] == "cat":
        return _shown((folder / words[1]).read_text(encoding="utf-8"), folder)
    with pytest.MonkeyPatch.context() as patch:
        while re.fullmatch(r"[A-Z_]+=.*", words[0]):
            patch.setenv(*words.pop(0).split("=", 1))
        assert words[0] == "toolfold", f"{words[0]} is not run here"
        _forget(folder)
        result = invoke(*words[1:])
    if to is not None:
        (folder / to).write_text(result.stdout, encoding="utf-8")
    said = "".join(f"! {line}\n" for line in _shown(USAGE.sub("", result.stderr), folder).splitlines())
    status = f"[{result.exit_code}]\n" if result.exit_code else ""
    lines = _shown(result.stdout, folder).splitlines(keepends=True)[shown]
    return ("" if to else "".join(lines)) + said + status


def _shown(text: str, folder: Path) -> str:
    """Return a text without what differs between runs: places, versions and times."""
    text = text.replace(str(folder), "/home/you").replace(sys.executable, "/bin/python").replace(__version__, "VERSION")
    for pattern, shown in VARYING:
        text = re.sub(pattern, shown, text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


@contextmanager
def _on_stage(folder: Path) -> Generator[Path]:
    """Yield a folder with the files of the stage, the current one and the user's."""
    shutil.copytree(STAGE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("TOOLFOLD_")] + [*OF_HOSTS, "XDG_CONFIG_HOME"]:
            patch.delenv(name, raising=False)
        for name in ("HOME", "USERPROFILE"):
            patch.setenv(name, str(folder))
        for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME"):
            patch.setenv(name, str(folder / ".data"))
        patch.setenv("COLUMNS", "100")
        patch.setenv("PATH", "")  # so that pictures are drawn in this process
        patch.setattr(sys, "path", [str(folder), *sys.path])
        patch.setattr(sys, "dont_write_bytecode", True)
        patch.setattr("toolfold_adapters.gateway.upstream.transports.Transports.__call__", _in_process)
        patch.chdir(folder)
        try:
            yield folder
        finally:
            _forget(folder)


def _forget(folder: Path) -> None:
    """Forget the modules of a folder, as a transcript may have written others since."""
    for name, module in list(sys.modules.items()):
        if str(folder) in str(getattr(module, "__file__", "")):
            del sys.modules[name]


@asynccontextmanager
async def _in_process(_: Any, config: UpstreamConfig, *__: Any) -> AsyncGenerator[tuple[Any, Any]]:
    """The transport of a server, each of which is `some-mcp-server` in this process; `hinted-mcp-server` has hints."""
    server = _some_server(HINTS if config.command == ("hinted-mcp-server",) else {})
    async with create_client_server_memory_streams() as ((read, write), streams), anyio.create_task_group() as tasks:
        tasks.start_soon(server.run, *streams, server.create_initialization_options())
        yield read, write
        tasks.cancel_scope.cancel()


LONG = "It is described at such length that the server has groups inside its own. " * 20


HINTS = {"list": ToolAnnotations(read_only_hint=True), "create": ToolAnnotations(destructive_hint=False)}


def _some_server(hints: Mapping[str, ToolAnnotations]) -> Any:
    made = MCPServer("some-mcp-server")
    for verb, noun in product(("create", "list", "close"), ("issue", "release")):
        text = f"{verb.capitalize()} this {noun}. {LONG}"
        made.add_tool(_answer, name=f"{verb}_{noun}", description=text, annotations=hints.get(verb))
    made.add_tool(_answer, name="search", description="Search.")
    return made._lowlevel_server


def _answer(title: str = "") -> str:
    return f"done: {title}"


def main(names: list[str]) -> int:
    """Play transcripts, all of them unless some are named; return how many blocks show something else."""
    write, found = "--write" in names, 0
    for name in [name for name in names if name != "--write"] or transcripts():
        stale = play(name)
        found += len(stale)
        print(*(difference(block, text, name) for block, text in stale.items()), sep="\n", end="\n" if stale else "")
        if write:
            (FOLDER / f"{name}.md").write_text(replaced(text_of(name), stale), encoding="utf-8")
    return 0 if write else found


if __name__ == "__main__":
    warnings.simplefilter("error")
    sys.exit(main(sys.argv[1:]) != 0)
