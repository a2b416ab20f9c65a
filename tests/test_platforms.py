"""What not every system has is used in branches on `sys.platform` alone, and processes are ended in one place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from attrs import define, field

ROOT = Path(__file__).parents[1]
FOLDERS = ("core", "adapters", "specs", "diagrams", "deploy", "examples", "tests")
POSIX_TESTS = {"process", "external", "benchmarks", "mutation"}
"""Folders of tests that are run on POSIX alone."""
FORKING = "tests/forking.py"
"""What runs on POSIX alone, too: elsewhere `tests.preloaded` runs programs without it."""
MODULES = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
NAMES = {
    *("SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGQUIT", "SIGUSR1", "SIGUSR2", "alarm", "pthread_kill", "setitimer"),
    *("add_signal_handler", "getpgid", "killpg", "setpgid", "setsid", "preexec_fn", "start_new_session"),
    *("chown", "fchmod", "getegid", "geteuid", "getgid", "getuid", "mkfifo", "pread", "pwrite", "sysconf"),
    *("AF_UNIX", "SO_REUSEADDR", "SO_REUSEPORT", "open_unix_connection", "start_unix_server"),
}
GROUPS = {"creationflags", "killpg", "start_new_session", "taskkill"}
"""What starts processes apart and ends them with their children."""
PROCESSES = {
    "adapters/toolfold_adapters/transport/processes.py",
    "adapters/toolfold_adapters/runtime/starts.py",  # which imports the standard library alone, and ends none
    "specs/toolfold_specs/children.py",
}


def words(names: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"\b({'|'.join(names)})\b")


ELSEWHERE = words(MODULES | NAMES)
SUSPECT = words(MODULES | NAMES | GROUPS | {"read_text", "write_text", "open", "fdopen", "text"})
"""A file without any of these words, of tests or of others, has nothing that is looked for, and is not parsed."""


def sources() -> Iterator[tuple[str, ast.Module]]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if name != FORKING and not (folder == "tests" and POSIX_TESTS.intersection(path.parts)):
                text = path.read_text(encoding="utf-8")
                shipped = not name.startswith("tests/")
                if (SUSPECT if shipped else ELSEWHERE).search(text):
                    yield name, ast.parse(text)


@define
class Seen:
    """What was seen of all sources, each of which is parsed once."""

    uses: list[str] = field(factory=list[str])
    without_encoding: list[str] = field(factory=list[str])
    starting: set[str] = field(factory=set[str])


@pytest.fixture(scope="module")
def seen() -> Seen:
    found = Seen()
    for path, tree in sources():
        found.uses += [f"{path}:{line} {name}" for line, name in uses(tree)]
        if not path.startswith("tests/"):
            found.without_encoding += [f"{path}:{line}" for line in without_encoding(tree)]
            found.starting |= {path} if names_groups(tree) else set()
    return found


def is_platform_test(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).startswith(("sys.platform ", "os.name "))


def uses(node: ast.AST) -> Iterator[tuple[int, str]]:
    """What a tree uses that not every system has, with the lines, outside branches on the platform."""
    for _, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST):
                continue
            if isinstance(child, ast.stmt) and is_platform_test(child):
                assert isinstance(child, ast.If)
                last = child.body[-1]
                if isinstance(last, ast.Return | ast.Raise) or ast.unparse(last).startswith("pytest.skip("):
                    break  # what follows is for the other systems
                continue
            yield from ((getattr(child, "lineno", 0), name) for name in named(child))
            yield from uses(child)


def named(node: ast.AST) -> Iterator[str]:
    """The names that a node itself has, also those that `getattr` and `hasattr` hide from type checkers."""
    match node:
        case ast.Attribute(attr=name) if name in NAMES:
            yield name
        case ast.keyword(arg=str(name)) if name in NAMES:
            yield name
        case ast.Import(names=aliases):
            yield from (alias.name for alias in aliases if alias.name in MODULES)
        case ast.ImportFrom(module=str(module), names=aliases, level=0):
            yield from MODULES.intersection({module})
            yield from (alias.name for alias in aliases if alias.name in NAMES)
        case ast.Call(func=ast.Name(id="getattr" | "hasattr"), args=[_, ast.Constant(value=str(name)), *_]):
            yield from NAMES.intersection({name})


def test_what_not_every_system_has_is_used_in_branches_on_the_platform(seen: Seen) -> None:
    assert seen.uses == []


def without_encoding(tree: ast.Module) -> Iterator[int]:
    """The lines of what reads or writes text in the encoding of the system, which is a code page on Windows."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="page" | "self"))):  # of help, no file
                continue
            case ast.Call(func=ast.Attribute(attr="read_text" | "write_text" as name), args=given, keywords=named):
                is_given = len(given) > (name == "write_text")
            case ast.Call(func=ast.Name(id="open") | ast.Attribute(attr="fdopen"), args=given, keywords=named):
                is_given = len(given) > 1 and "b" in ast.unparse(given[1])
            case ast.Call(keywords=named) if any(
                one.arg == "text" and isinstance(one.value, ast.Constant) and one.value.value is True for one in named
            ):
                is_given = False
            case _:
                continue
        if not is_given and not any(one.arg == "encoding" for one in named):
            yield node.lineno


def test_text_is_read_and_written_in_an_encoding_that_is_named(seen: Seen) -> None:
    assert seen.without_encoding == []


@pytest.mark.parametrize(
    "code", ["path.read_text()", "path.write_text('a', newline='')", "open(path)", "os.fdopen(1)", "run(a, text=True)"]
)
def test_an_encoding_that_is_not_named_is_found(code: str) -> None:
    assert len([*without_encoding(ast.parse(code))]) == 1


def names_groups(tree: ast.Module) -> bool:
    return any(
        GROUPS.intersection(value for value in vars(node).values() if isinstance(value, str)) for node in ast.walk(tree)
    )


def test_processes_are_started_apart_and_ended_with_their_children_in_one_module_of_the_adapters_and_of_the_kit(
    seen: Seen,
) -> None:
    assert seen.starting == PROCESSES


@pytest.mark.parametrize(
    "code",
    [
        "import resource",
        "from signal import SIGKILL",
        "os.killpg(1, 2)",
        "loop.add_signal_handler(1, print)",
        "subprocess.Popen([], start_new_session=True)",
        'number = getattr(signal, "SIGHUP", None)',
        """
        if sys.platform == "win32":
            print()
        os.killpg(1, 2)
        """,
        """
        def end():
            if sys.platform == "win32":
                return
        os.killpg(1, 2)
        """,
    ],
)
def test_a_use_outside_such_a_branch_is_found(code: str) -> None:
    assert len(list(uses(ast.parse(dedent(code))))) == 1


@pytest.mark.parametrize(
    "code",
    [
        """
        if sys.platform == "win32":
            pass
        else:
            os.killpg(1, 2)
        """,
        """
        def end():
            if sys.platform == "win32":
                return
            os.killpg(1, 2)
        """,
    ],
)
def test_a_use_in_such_a_branch_is_fine(code: str) -> None:
    assert list(uses(ast.parse(dedent(code)))) == []
