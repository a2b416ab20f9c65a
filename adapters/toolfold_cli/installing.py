"""What has a system start the runtime at the login of its user: with systemd, launchd, or the tasks of Windows."""

from __future__ import annotations

import plistlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from attrs import frozen

from toolfold_adapters.runtime.place import FOLDER

LABEL = "dev.toolfold.runtime"
DESCRIPTION = "Toolfold: the servers that the MCP clients of a user share"

UNIT = """\
# Written by `toolfold up --install`; `toolfold up --uninstall` removes it.
[Unit]
Description={description}

[Service]
ExecStart={command}
{environment}Restart=on-failure
RestartSec=1
# The copy that takes the place of a runtime that was killed is not ended with it.
KillMode=process

[Install]
WantedBy=default.target
"""

TASK = """\
<?xml version="1.0" encoding="UTF-16"?>
<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo><Description>{description}</Description></RegistrationInfo>
  <Triggers><LogonTrigger><Enabled>true</Enabled><UserId>{user}</UserId></LogonTrigger></Triggers>
  <Principals>
    <Principal id="Author">
      <UserId>{user}</UserId><LogonType>InteractiveToken</LogonType><RunLevel>LeastPrivilege</RunLevel>
    </Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <RestartOnFailure><Interval>PT1M</Interval><Count>999</Count></RestartOnFailure>
  </Settings>
  <Actions Context="Author"><Exec><Command>{program}</Command><Arguments>{arguments}</Arguments></Exec></Actions>
</Task>
"""


@frozen
class Service:
    """A file that has the system start the runtime.

    Attributes:
        path: Where it is.
        text: What is in it.
        start: What its user runs to have it read, and the runtime started.
        stop: What its user runs to have neither any more.
        encoding: How the text is written.
    """

    path: Path
    text: str
    start: str
    stop: str
    encoding: str = "utf-8"


def service(
    command: Sequence[str], environ: Mapping[str, str], home: Path, user: int | str, platform: str = sys.platform
) -> Service:
    """Return the file for a system.

    Args:
        command: What starts the runtime.
        environ: The environment: where files are, and the folder of the runtime if it is named.
        home: The folder of the user.
        user: Who that is: a number, or on Windows a name.
        platform: The system.
    """
    named = {name: value for name, value in environ.items() if name == FOLDER}
    make: Callable[..., Service] = {"darwin": _agent, "win32": _task}.get(platform, _unit)
    return make(list(command), environ, named, home, user)


def _unit(
    command: list[str], environ: Mapping[str, str], named: Mapping[str, str], home: Path, _: int | str
) -> Service:
    folder = Path(environ.get("XDG_CONFIG_HOME") or home / ".config", "systemd", "user")
    variables = "".join(f"Environment={_word(f'{name}={value}')}\n" for name, value in named.items())
    words = " ".join(map(_word, command)).replace("$", "$$")
    return Service(
        folder / "toolfold.service",
        UNIT.format(description=DESCRIPTION, command=words, environment=variables),
        "systemctl --user daemon-reload && systemctl --user enable --now toolfold",
        "systemctl --user disable --now toolfold",
    )


def _word(text: str) -> str:
    """Return a word of a unit of systemd."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{quoted}"' if quoted != text or not text.isprintable() or " " in text else text


def _agent(command: list[str], _: Mapping[str, str], named: Mapping[str, str], home: Path, user: int | str) -> Service:
    path = home / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    said = {
        "Label": LABEL,
        "ProgramArguments": command,
        "EnvironmentVariables": dict(named),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
    }
    return Service(
        path,
        plistlib.dumps(said).decode(),
        f"launchctl bootstrap gui/{user} '{path}'",
        f"launchctl bootout gui/{user}/{LABEL}",
    )


def _task(
    command: list[str], environ: Mapping[str, str], named: Mapping[str, str], home: Path, user: int | str
) -> Service:
    path = Path(environ.get("LOCALAPPDATA") or home, "toolfold", "runtime-task.xml")
    program, *arguments = command
    if named:  # a task has no environment of its own
        sets = "&&".join(f'set "{name}={value}"' for name, value in named.items())
        program, arguments = "cmd.exe", ["/d", "/c", f'"{sets}&&"{program}" {" ".join(arguments)}"']
    text = TASK.format(
        description=DESCRIPTION, user=escape(str(user)), program=escape(program), arguments=escape(" ".join(arguments))
    )
    return Service(
        path,
        text,
        f'schtasks /Create /TN Toolfold /XML "{path}" && schtasks /Run /TN Toolfold',
        "schtasks /Delete /TN Toolfold /F",
        "utf-16",
    )
