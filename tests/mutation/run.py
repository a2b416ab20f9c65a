"""Mutation testing: change the core in small ways, and check that for each change some test fails.

mutmut works in a temporary copy. A mutant that makes no test fail must be explained in `equivalent.toml`; an
explanation of one that does is stale. Exit status: 0 if every survivor is explained and no explanation is stale, 1
otherwise, 2 if it could not run.

mutmut changes functions, and not the tables at module level: tests compare those with the specification as a whole.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from textwrap import indent
from time import monotonic
from typing import Any

from attrs import evolve, field, frozen

from tests.mutation.kills import COUNTED, KILLED, UNCOLLECTED, kill_table, read_kills

ROOT = Path(__file__).parent.parent.parent
EXPLAINED = Path(__file__).with_name("equivalent.toml")


@frozen
class Room:
    """Modules, and the tests of which a mutant has to fail one, with what these need beside the core and its tests."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]
    copied: tuple[str, ...] = ()


ROOMS = {
    "machine": Room(
        (
            *("machine.compiled", "machine.planner", "machine.step"),
            *("_catalog.quota", "_view.visibility", "_view.listing"),
        ),
        (
            "core/test_cancellation.py",
            "core/test_errors.py",
            "core/test_hidden_rules.py",
            "core/test_hooks.py",
            "core/test_list_budget.py",
            "core/test_listing.py",
            "core/test_machine.py",
            "core/test_machine_exhaustive.py",
            "core/test_machine_stateful.py",
            "core/test_modes.py",
            "core/test_modes_reading.py",
            "core/test_persistence.py",
            "core/test_quota.py",
            "core/test_reasons.py",
            "core/test_step.py",
            "core/test_table_mutants.py",
            "core/test_view.py",
            "core/test_visibility.py",
        ),
    ),
    "session": Room(
        tuple(
            f"_session.{name}"
            for name in (
                "context",
                "journal",
                "observers",
                "perform",
                "runtime",
                "session",
                "state",
                "stored",
                "upkeep",
                "usage",
            )
        ),
        (
            "adapters/mcp/test_call_through.py",
            "adapters/mcp/test_existing_replicas.py",
            "adapters/mcp/test_legacy_replicas.py",
            "adapters/mcp/test_limits_of_callers.py",
            "adapters/mcp/test_opening.py",
            "adapters/mcp/test_parallel_openings.py",
            "adapters/mcp/test_principals.py",
            "adapters/mcp/test_replicas.py",
            "adapters/mcp/test_requests_in_progress.py",
            "adapters/mcp/test_stored_handles.py",
            "adapters/mcp/test_unreliable_stores.py",
            "adapters/mcp/test_usage.py",
            "adapters/mcp/test_wire.py",
            "adapters/stores",
            "core/test_blocking_hooks.py",
            "core/test_calling.py",
            "core/test_cancellation.py",
            "core/test_changing_registrations.py",
            "core/test_concurrency.py",
            "core/test_control.py",
            "core/test_counted_threads.py",
            "core/test_document_c.py",
            "core/test_errors.py",
            "core/test_facts.py",
            "core/test_faults.py",
            "core/test_fork.py",
            "core/test_hints.py",
            "core/test_hook_forms.py",
            "core/test_hooks.py",
            "core/test_lenient.py",
            "core/test_limits.py",
            "core/test_modes_reading.py",
            "core/test_names.py",
            "core/test_notifications.py",
            "core/test_observers.py",
            "core/test_persistence.py",
            "core/test_pinned.py",
            "core/test_profiles.py",
            "core/test_programs.py",
            "core/test_quota.py",
            "core/test_reasons.py",
            "core/test_records.py",
            "core/test_reentry.py",
            "core/test_resources_prompts.py",
            "core/test_search_opening.py",
            "core/test_session_limits.py",
            "core/test_sessions.py",
            "core/test_settings.py",
            "core/test_slots.py",
            "core/test_snapshot.py",
            "core/test_step.py",
            "core/test_threads.py",
            "core/test_toolkits.py",
            "core/test_usage.py",
            "core/test_usercode.py",
        ),
        ("adapters/toolfold_adapters", "tests/adapters", "tests/simulation", "tests/preloaded.py", "tests/forking.py"),
    ),
    "toolset": Room(
        tuple(
            f"_toolset.{name}"
            for name in (
                "catalog_tool",
                "control",
                "decorators",
                "definitions",
                "finder",
                "handlers",
                "options",
                "programs",
                "prompts",
                "registration",
                "toolkits",
                "toolset",
            )
        ),
        ("core",),
    ),
}
COPIED = (
    "core/toolfold",
    "specs/toolfold_specs",
    "tests/conftest.py",
    "tests/core",
    "tests/mutation/plugin.py",
    "tests/mutation/kills.py",
)

# mutmut takes a module's name from its path, so the copy has the packages at its top. Its workers are forked from a
# process that has imported the tests and run none, so what tests cache (`functools.cache`) was never computed by the
# original. What only the garbage collector reports breaks pytest itself; a test must fail.
SETTINGS = """
[tool.mutmut]
source_paths = ["toolfold"]
only_mutate = [{modules}]
also_copy = [{copied}]
process_isolation = "forkserver"
timeout_multiplier = {patience}
timeout_constant = 5
pytest_add_cli_args = ["--numprocesses=0", "-p", "no:cacheprovider", "-p", "no:unraisableexception"{left_out}]
pytest_add_cli_args_test_selection = [{tests}]
"""

MUTMUT = (sys.executable, "-c", "from mutmut.__main__ import cli; cli()")
MAKE = """
import mutmut.__main__ as mutmut
mutmut.set_mutant_under_test("mutant_generation")
mutmut.makedirs("mutants", exist_ok=True)
mutmut.copy_src_dir(), mutmut.copy_also_copy_files(), mutmut.setup_source_paths()
mutmut.store_lines_covered_by_tests(), mutmut.create_mutants(1)
"""
"""What mutmut's `run` begins with, for the names of its mutants, from which a sample is taken."""
READ_FRAMES = (
    "test_docstrings.py::test_a_parameter_that_is_described_and_not_taken_is_warned_of_at_the_line_of_the_registration",
    "test_names.py::test_a_tool_that_replaces_a_control_tool_is_warned_of_unless_that_is_meant",
)
"""Tests of whose line a warning is about: mutmut calls each function from a line of its own."""
FIELDS = {"module", "function", "before", "after", "reason"}
PYTEST = {
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_PLUGINS": "anyio.pytest_plugin,xdist.plugin,tests.mutation.plugin",
}
VERDICTS = {1: "killed", 0: "survived", 33: "no tests", -24: "out of time"}
"""The exit statuses of mutmut's workers; of any other there is an error to be said, which is no kill. Where a mutant
keeps tests from being imported, pytest does not find those that it was to run, and the worker crashes; see
`UNCOLLECTED`."""
FOUND_OUT = {"killed", "not imported"}


class CouldNotRun(Exception):
    """mutmut has no verdict, or the file of explanations can't be read."""


@frozen
class Mutant:
    """A change to a function: the lines that it replaces, and their replacement. `name` is mutmut's, and unstable."""

    module: str
    function: str
    before: str
    after: str
    name: str = field(default="", eq=False)

    def __str__(self) -> str:
        where = f"{self.module}.{self.function} {self.name}".rstrip()
        return "\n".join([where, indent(self.before, "- "), indent(self.after, "+ ")]).rstrip()


def source_of(module: str) -> str:
    """Return the file of a module, below the package."""
    return f"{module.replace('.', '/')}.py"


def undecorated(source: str) -> str:
    """Return the same module with `name = property(name)` for `@property`: mutmut passes over decorated functions."""
    lines = source.splitlines()
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    methods = [method for node in classes for method in node.body if isinstance(method, ast.FunctionDef)]
    for method in reversed(methods):
        match method.decorator_list:
            case [ast.Name("property" | "cached_property" as decorator, lineno=line)]:
                assert method.end_lineno is not None
                lines.insert(method.end_lineno, f"    {method.name} = {decorator}({method.name})")
                del lines[line - 1]
    return "\n".join([*lines, ""])


def make_copy(folder: Path, room: Room, *, every: bool = False) -> None:
    """Lay out what mutmut needs in an empty folder; a mutant has more time if `every` file that kills it counts."""
    for name in (*COPIED, *room.copied):
        source = ROOT / name
        target = folder / (name if name.startswith("tests/") else source.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    for module in room.modules:
        path = folder / "toolfold" / source_of(module)
        path.write_text(undecorated(path.read_text(encoding="utf-8")), encoding="utf-8")
    beside = [Path(name).name for name in (*COPIED, *room.copied) if not name.startswith("tests/")]
    settings = SETTINGS.format(
        modules=_listed(f"toolfold/{source_of(module)}" for module in room.modules),
        copied=_listed(name for name in beside if name != "toolfold"),
        tests=_listed(f"tests/{name}" for name in room.tests),
        patience=8 if every else 2,
        left_out="".join(f', "--deselect", "tests/core/{test}"' for test in READ_FRAMES),
    )
    (folder / "pyproject.toml").write_text(
        (ROOT / "pyproject.toml").read_text(encoding="utf-8") + settings, encoding="utf-8"
    )


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(f'"{text}"' for text in texts)


def mutmut(folder: Path, *arguments: str, quiet: bool = True, every: bool = False, minutes: float | None = None) -> str:
    """Run mutmut in the copy, for so many minutes at most, and return what it prints, or let it print."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | PYTEST
    if every:
        environment[COUNTED] = "1"
    out = subprocess.PIPE if quiet else None
    with subprocess.Popen(
        [*MUTMUT, *arguments], cwd=folder, env=environment, stdout=out, text=True, start_new_session=True
    ) as running:
        try:
            printed, _ = running.communicate(timeout=None if minutes is None else 60 * minutes)
        except subprocess.TimeoutExpired:
            return ""  # what was judged by then is in its files
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
    if running.returncode:
        raise CouldNotRun(f"mutmut {arguments[0]} ended with status {running.returncode}")
    return printed or ""


def statuses(folder: Path, module: str) -> dict[str, int | None]:
    """Return the exit status for each mutant of a module, by mutmut's name of it; None if it was not run."""
    path = folder / "mutants" / "toolfold" / f"{source_of(module)}.meta"
    found: dict[str, int | None] = json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
    return found


def sample(folder: Path, room: Room, size: int, seed: int) -> list[str]:
    """Return the names of some mutants of each module, the same ones for the same code and seed."""
    done = subprocess.run([sys.executable, "-c", MAKE], cwd=folder, stdout=subprocess.DEVNULL)
    if done.returncode:
        raise CouldNotRun("mutmut made no mutants")
    chosen: list[str] = []
    for module in room.modules:
        names = sorted(statuses(folder, module))
        chosen += Random(f"{seed} {module}").sample(names, min(size, len(names)))
    return chosen


def verdicts(folder: Path, room: Room) -> dict[str, str]:
    """Return the verdict on each mutant that was run, by mutmut's name of it.

    One that a test of a file has failed for was killed, though in another file a test then waited in vain.
    """
    found: dict[str, int | None] = {}
    for module in room.modules:
        found |= statuses(folder, module)
    killed, uncollected = (read_kills(folder / "mutants" / notes) for notes in (KILLED, UNCOLLECTED))

    def verdict(name: str, status: int) -> str:
        if name in killed:
            return "killed"
        if status not in VERDICTS and name in uncollected:
            return "not imported"
        return VERDICTS.get(status, f"error, status {status}")

    return {name: verdict(name, status) for name, status in found.items() if status is not None}


def mutant(name: str, shown: str) -> Mutant:
    """Return a mutant from what `mutmut show` prints of it."""
    matched = re.fullmatch(r"toolfold\.([\w.]+)\.x_?(.+)__mutmut_\d+", name)
    if matched is None:
        raise CouldNotRun(f"mutmut gave a mutant the unknown name {name}")
    changed = [line for line in shown.splitlines() if line[:1] in "+-" and line[:3] not in ("---", "+++")]
    before, after = ("\n".join(line[1:].strip() for line in changed if line[0] == sign) for sign in "-+")
    return Mutant(matched[1], matched[2].strip("ǁ").replace("ǁ", "."), before, after, name)


def explained(text: str) -> list[Mutant]:
    """Return the mutants that the file explains."""
    found = []
    for entry in tomllib.loads(text).get("mutant", []):
        if set(entry) != FIELDS or not all(entry[name] for name in FIELDS - {"after"}):
            raise CouldNotRun(f"an explanation needs {', '.join(sorted(FIELDS))}: {entry}")
        found.append(Mutant(entry["module"], entry["function"], entry["before"], entry["after"]))
    return found


def compared(survivors: Iterable[Mutant], explanations: Iterable[Mutant]) -> tuple[list[Mutant], list[Mutant]]:
    """Return the survivors without an explanation, and the explanations without a survivor."""
    known = Counter(explanations)
    unexplained = []
    for survivor in survivors:
        if known[survivor]:
            known[survivor] -= 1
        else:
            unexplained.append(survivor)
    return unexplained, list(known.elements())


def summary(found: dict[str, str], room: Room) -> Iterator[str]:
    """Yield a line for each module."""
    for module in room.modules:
        counts = Counter(verdict for name, verdict in found.items() if name.startswith(f"toolfold.{module}.x"))
        text = ", ".join(f"{number} {verdict}" for verdict, number in counts.most_common())
        yield f"{module}: {counts.total()} mutants: {text}"


def judged(folder: Path, room: Room, *, sampled: bool = False) -> bool:
    """Return whether every survivor is explained, and no explanation is stale; print those that are not.

    Of a sample, what does not survive in it says nothing of explanations.
    """
    found = verdicts(folder, room)
    print(*summary(found, room), sep="\n")
    survivors = [
        mutant(name, mutmut(folder, "show", name)) for name, verdict in found.items() if verdict not in FOUND_OUT
    ]
    known = explained(EXPLAINED.read_text(encoding="utf-8"))
    unexplained, stale = compared(survivors, [each for each in known if each.module in room.modules])
    if sampled:
        stale = []
    for title, mutants in (("Not killed", unexplained), ("Explained, but killed or gone", stale)):
        for each in mutants:
            print(f"\n{title}: {found.get(each.name, 'stale')} {each}")
    print(f"\n{len(survivors)} not killed, {len(unexplained)} unexplained; {len(stale)} stale explanations")
    return not unexplained and not stale


def main(arguments: list[str] | None = None) -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"of {', '.join(ROOMS)}; all of them by default")
    parser.add_argument("--module", action="append", help="only this one, such as _session.perform")
    parser.add_argument("--sample", type=int, metavar="N", help="only N mutants of each module")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="which ones; 1 by default")
    parser.add_argument("--minutes", type=float, metavar="N", help="end each room then, with what was judged")
    parser.add_argument("--kills", type=Path, metavar="FILE", help="write there which test files kill which mutants")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.rooms if name not in ROOMS]:
        parser.error(f"there is no room {unknown[0]!r}")
    rooms = [ROOMS[name] for name in given.rooms or ROOMS]
    if given.module:
        rooms = [
            evolve(room, modules=chosen)
            for room in rooms
            if (chosen := tuple(name for name in room.modules if name in given.module))
        ]
    os.nice(10)
    killed: dict[str, tuple[str, list[str]]] = {}
    status = max([_run(room, given, killed) for room in rooms], default=2)
    if given.kills:
        command = " ".join(["python -m tests.mutation", *(sys.argv[1:] if arguments is None else arguments)])
        given.kills.write_text(kill_table(command, killed), encoding="utf-8")
    return status


def _run(room: Room, given: argparse.Namespace, killed: dict[str, tuple[str, list[str]]]) -> int:
    """Run a room, add the files that killed each mutant to `killed`, and return the exit status."""
    began = monotonic()
    try:
        with TemporaryDirectory(prefix="toolfold-mutation-") as name:
            folder = Path(name)
            make_copy(folder, room, every=given.kills is not None)
            names = sample(folder, room, given.sample, given.seed) if given.sample else []
            limits: dict[str, Any] = {"every": given.kills is not None, "minutes": given.minutes}
            mutmut(folder, "run", "--max-children", "2", *names, quiet=False, **limits)
            good = judged(folder, room, sampled=given.sample is not None or given.minutes is not None)
            if given.kills:
                found, files = verdicts(folder, room), read_kills(folder / "mutants" / KILLED)
                for name, verdict in found.items():
                    killed[_place(name)] = (verdict, files.get(name, []))
    except (CouldNotRun, OSError, tomllib.TOMLDecodeError) as error:
        print(f"could not run: {error}", file=sys.stderr)
        return 2
    print(f"{monotonic() - began:.0f} s")
    return 0 if good else 1


def _place(name: str) -> str:
    one = mutant(name, "")
    return f"{one.module}.{one.function} {name.rpartition('_')[2]}"
