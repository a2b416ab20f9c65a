"""The files for continuous integration: what they run is run here, as far as it needs no network."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.process.specs.support import environment

SPECS = Path(__file__).parents[3] / "specs"
ACTION: dict[str, Any] = yaml.safe_load((SPECS / "action.yml").read_text("utf-8"))
CONTAINERFILE = (SPECS / "Containerfile").read_text("utf-8")
TARGET = Path(__file__).with_name("targets") / "piped.py"


def steps() -> dict[str, dict[str, Any]]:
    return {step["name"]: step for step in ACTION["runs"]["steps"] if "name" in step}


def run_step(name: str, folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run a step's script in a folder, with the inputs in its environment as a workflow puts them there."""
    step = steps()[name]
    given = {**{key: value.get("default", "") for key, value in ACTION["inputs"].items()}, **inputs}
    env = {key: given[re.fullmatch(r"\$\{\{ inputs\.(\w+) \}\}", value)[1]] for key, value in step["env"].items()}  # type: ignore[index]
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environ = {**os.environ, **environment(), **env, "PATH": path, "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    script = ("bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"])
    return subprocess.run(script, cwd=folder, env=environ, capture_output=True, text=True, check=False)


@pytest.mark.spec("CNF-2")
def test_the_action_checks_a_driver_and_shows_the_report_as_its_summary(tmp_path: Path) -> None:
    arguments = f"--smoke --driver -- {sys.executable} {TARGET}"
    checked = run_step("Check", tmp_path, arguments=arguments)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert run_step("Summarize", tmp_path).returncode == 0
    assert (tmp_path / "summary.md").read_text() == (tmp_path / "conformance" / "report.md").read_text()


@pytest.mark.spec("CNF-2")
def test_the_action_fails_with_the_kit(tmp_path: Path) -> None:
    checked = run_step("Check", tmp_path, arguments="--driver -- false")
    assert (checked.returncode, checked.stdout) == (2, "")
    assert "before it answered hello" in checked.stderr
    assert run_step("Summarize", tmp_path).returncode == 0


def test_the_inputs_of_the_action_reach_scripts_only_by_the_environment() -> None:
    assert all("${{" not in step["run"] for step in steps().values())
    assert all(step["shell"] == "bash" for step in steps().values())
    assert ACTION["runs"]["using"] == "composite"


def test_the_action_and_the_image_install_the_kit_by_the_same_name() -> None:
    (package,) = re.findall('^ARG PACKAGE="(.*)"$', CONTAINERFILE, re.MULTILINE)
    assert package == ACTION["inputs"]["package"]["default"] == "toolfold[conformance,mcp]"
    (installed,) = re.findall("^RUN (.*)$", CONTAINERFILE, re.MULTILINE)
    assert shlex.split(installed)[-1] == shlex.split(steps()["Install the kit"]["run"])[-1] == "$PACKAGE"


def test_the_entry_point_of_the_image_is_the_command() -> None:
    (entry,) = re.findall("^ENTRYPOINT (.*)$", CONTAINERFILE, re.MULTILINE)
    program, *words = json.loads(entry)
    command = (str(Path(sys.executable).with_name(program)), *words, "--list-checks")
    environ = {**os.environ, **environment()}
    assert (
        "every transition of every small system"
        in subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout
    )
