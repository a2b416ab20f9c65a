"""The workflow for a forge runs what `.ci/run` does, on the systems and versions that the classifiers name."""

from __future__ import annotations

import re
import tomllib
from itertools import product
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
JOBS: dict[str, Any] = YAML(typ="safe").load(ROOT / ".github/workflows/tests.yml")["jobs"]
GATE = (ROOT / ".ci/run").read_text(encoding="utf-8")
CLASSIFIERS: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]
SYSTEMS = {"POSIX :: Linux": "ubuntu-latest", "MacOS": "macos-latest", "Microsoft :: Windows": "windows-latest"}


def matrix(job: str) -> set[tuple[str, str]]:
    axes = JOBS[job]["strategy"]["matrix"]
    return set(product(axes["os"], axes["python"]))


def commands(job: str) -> list[str]:
    return [step["run"] for step in JOBS[job]["steps"] if "run" in step]


def systems() -> set[str]:
    prefix = "Operating System :: "
    return {SYSTEMS[one.removeprefix(prefix)] for one in CLASSIFIERS if one.startswith(prefix)}


def test_the_default_tests_run_on_every_system_and_version_that_the_classifiers_name() -> None:
    versions = {found[1] for one in CLASSIFIERS if (found := re.fullmatch(r".* :: Python :: (3\.\d+)", one))}
    assert matrix("default") == set(product(systems(), versions))
    newest = max(versions, key=lambda one: int(one.partition(".")[2]))
    assert matrix("free-threaded") == set(product(systems(), {f"{newest}t"}))


def test_the_default_tests_are_those_of_the_gate_in_the_same_environment() -> None:
    (requirement,) = re.findall(r'step "environment" environment \S+ --editable (\S+)', GATE)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(rf"^pip install -e {re.escape(requirement)} && (.+)$", readme, re.MULTILINE)
    assert commands("default") == [f"python -m pip install --editable {requirement}", command]


def test_the_gate_runs_as_it_is() -> None:
    assert [one.split()[-1] for one in commands("gate")] == [".ci/run"]
