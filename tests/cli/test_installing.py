"""What has a system start the runtime (SPEC GWY-14)."""

from __future__ import annotations

import plistlib
import shlex
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.support import invoke
from toolfold_adapters.runtime.place import FOLDER
from toolfold_cli.installing import LABEL, service

pytestmark = pytest.mark.spec("GWY-14")

COMMAND = ["/opt/my python/50%/python", "-m", "toolfold_cli", "up", "--for-relay", "--keep"]
HOME = Path("/home/you")


def test_a_unit_of_systemd_starts_the_runtime_and_again_after_it_failed() -> None:
    found = service(COMMAND, {FOLDER: "/run/a b", "OTHER": "x"}, HOME, 1000, "linux")
    assert found.path == HOME / ".config/systemd/user/toolfold.service"
    lines = [line.partition("=") for line in found.text.splitlines() if "=" in line]
    said = {name: value for name, _, value in lines}
    assert shlex.split(said["ExecStart"].replace("%%", "%")) == COMMAND
    assert shlex.split(said["Environment"]) == [f"{FOLDER}=/run/a b"]
    assert (said["Restart"], said["KillMode"], said["WantedBy"]) == ("on-failure", "process", "default.target")
    elsewhere = service(COMMAND, {"XDG_CONFIG_HOME": "/c"}, HOME, 1000, "linux")
    assert elsewhere.path == Path("/c/systemd/user/toolfold.service")
    assert "Environment" not in elsewhere.text


def test_an_agent_of_launchd_does_too() -> None:
    found = service(COMMAND, {FOLDER: "/r"}, HOME, 501, "darwin")
    said = plistlib.loads(found.text.encode())
    assert said["ProgramArguments"] == COMMAND
    assert (said["Label"], said["RunAtLoad"], said["KeepAlive"]) == (LABEL, True, {"SuccessfulExit": False})
    assert said["EnvironmentVariables"] == {FOLDER: "/r"}
    assert found.start == f"launchctl bootstrap gui/501 '{found.path}'"


@pytest.mark.parametrize(
    ("environ", "program", "arguments"),
    [
        ({}, COMMAND[0], "-m toolfold_cli up --for-relay --keep"),
        ({FOLDER: "C:\\r"}, "cmd.exe", f'/d /c "set "{FOLDER}=C:\\r"&&"{COMMAND[0]}" {" ".join(COMMAND[1:])}"'),
    ],
    ids=["as-usual", "in-a-folder"],
)
def test_a_task_of_windows_does_too(environ: dict[str, str], program: str, arguments: str) -> None:
    found = service(COMMAND, environ, HOME, "A & B", "win32")
    task = ET.fromstring(found.text.encode("utf-16"))
    said = {element.tag.rpartition("}")[2]: element.text for element in task.iter()}
    assert (said["Command"], said["Arguments"], said["UserId"]) == (program, arguments, "A & B")
    assert found.encoding == "utf-16"
    assert str(found.path) in found.start


def test_the_file_is_written_and_removed_and_what_to_run_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "USERPROFILE", "XDG_CONFIG_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path))
    written = invoke("up", "--install").stdout
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert written.startswith(f"Wrote: {path}\n")
    assert "--keep" in path.read_text(encoding="utf-16" if path.suffix == ".xml" else "utf-8")
    assert invoke("up", "--uninstall").stdout.startswith(f"Removed: {path}\n")
    assert not path.exists()
    assert invoke("up", "--uninstall").stdout == f"There is no {path}.\n"
