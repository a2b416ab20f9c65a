"""The conformance kit against servers that others wrote: what it finds is what specs/findings.md says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.external.support import FOLDER, ROOT, TOOLFOLD

FOREIGN = Path("tests/external/foreign")
GITLAB = FOLDER / "node_modules" / "@zereight" / "mcp-gitlab" / "build" / "index.js"
FASTMCP = os.environ.get("TOOLFOLD_FASTMCP", "")
PATIENCE = 300  # seconds

GITLAB_SETTINGS = {
    "GITLAB_PERSONAL_ACCESS_TOKEN": "none",
    "GITLAB_TOOLSETS": "branches",
    "GITLAB_API_URL": "http://127.0.0.1:8960/api/v4",
}


def verdicts(
    folder: Path, *command: str, era: str, describe: str | None = None, env: Mapping[str, str] = {}
) -> tuple[int, dict[str, str]]:
    """Run the kit against a command; return its exit status and the verdict on each clause."""
    described = () if describe is None else ("--describe", str(FOREIGN / describe))
    options = ("--layers", "exhaustive,wire", "--era", era, *described, "-o", str(folder))
    run = subprocess.run(
        [TOOLFOLD, "conform", *options, "--", *command],
        cwd=ROOT,
        env={**os.environ, **env},
        timeout=PATIENCE,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [json.loads(line) for line in (folder / "report.jsonl").read_text().splitlines()]
    return run.returncode, {line["id"]: line["verdict"] for line in lines if line["type"] == "clause"}


def violated(said: Mapping[str, str]) -> set[str]:
    return {clause for clause, verdict in said.items() if verdict == "violated"}


def fastmcp() -> str:
    """The interpreter that has FastMCP, which needs an environment of its own."""
    if not FASTMCP:
        reason = "TOOLFOLD_FASTMCP does not name a Python with fastmcp"
        if os.environ.get("TOOLFOLD_EXTERNAL") == "required":
            pytest.fail(reason)
        pytest.skip(reason)
    return FASTMCP


@pytest.mark.spec("CNF-1", "CNF-3")
def test_fastmcp_keeps_the_rules_of_groups_and_breaks_those_of_lists_and_answers(tmp_path: Path) -> None:
    command = (fastmcp(), str(FOREIGN / "fastmcp_groups.py"))
    status, said = verdicts(tmp_path, *command, era="legacy", describe="fastmcp_groups.toml")
    assert violated(said) == {"LST-1", "LST-3", "CTL-4", "CTL-6", "NTF-1", "DEL-9"}
    held = {"ACT-2", "ACT-3", "ACT-4", "ACT-5", "ACT-6", "INV-1", "INV-2", "INV-4", "INV-5", "VIS-2", "DEL-1"}
    assert {said[clause] for clause in held} == {"held"}
    assert status == 1


@pytest.mark.spec("CNF-1", "CNF-3")
def test_modern_lists_of_fastmcp_change_through_other_requests(tmp_path: Path) -> None:
    command = (fastmcp(), str(FOREIGN / "fastmcp_groups.py"))
    status, said = verdicts(tmp_path, *command, era="modern", describe="fastmcp_groups.toml")
    assert violated(said) == {"LST-3", "CTL-4", "CTL-6", "DEL-2", "DEL-7", "DEL-9"}
    assert (said["ACT-4"], said["CALL-1"]) == ("not applicable", "undecided")
    assert status == 1


@pytest.mark.spec("CNF-1", "CNF-3", "DEL-5")
@pytest.mark.parametrize(("era", "broken"), [("legacy", {"LST-3"}), ("modern", {"LST-3", "DEL-5"})])
def test_a_plain_server_with_the_draft_of_groups(tmp_path: Path, era: str, broken: set[str]) -> None:
    status, said = verdicts(tmp_path, sys.executable, str(FOREIGN / "draft_groups.py"), era=era)
    assert violated(said) == broken
    assert said["DEL-9"] == "held"
    assert status == 1


@pytest.mark.spec("CNF-1", "CNF-3")
@pytest.mark.usefixtures("node_packages")
def test_gitlab_opens_its_toolsets_and_calls_what_is_closed(tmp_path: Path) -> None:
    status, said = verdicts(tmp_path, "node", str(GITLAB), era="legacy", describe="gitlab.toml", env=GITLAB_SETTINGS)
    assert violated(said) == {"LST-1", "LST-3", "CTL-4", "CTL-6", "CALL-1", "DEL-9"}
    assert {said[clause] for clause in ("ACT-3", "ACT-4", "ACT-6", "VIS-2", "NTF-1", "DEL-1")} == {"held"}
    assert said["ACT-5"] == "not applicable"
    assert status == 1
