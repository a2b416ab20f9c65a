"""Runs programs: with an argument list and never a shell, in a small environment, and with limits.

If a program takes too long, prints too much, or the call is cancelled, it is terminated with its children, and killed
if it does not end. Its output until then is returned.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from attrs import define, evolve, field, frozen

from toolfold import ToolError
from toolfold_adapters.transport import processes

INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *("SYSTEMROOT", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA"),
)
FIXED = {"NO_COLOR": "1", "TERM": "dumb", "PAGER": "cat", "GH_PROMPT_DISABLED": "1", "MLRRC": "__none__"}


@frozen(kw_only=True)
class Limits:
    """The limits of a program: seconds, and bytes of output over both streams."""

    seconds: float = 60
    bytes: int = 200_000


@frozen(kw_only=True)
class Place:
    """Where programs run: the folder, the environment and the limits."""

    folder: Path
    environment: dict[str, str]
    limits: Limits

    def within(self, seconds: float | None) -> Place:
        """Return this place with another time limit, if one is given."""
        return self if seconds is None else evolve(self, limits=evolve(self.limits, seconds=seconds))


@frozen(kw_only=True)
class Ended:
    """How a program ended: its status, negative for a signal; its output; and why it was stopped, if it was."""

    status: int
    output: str
    errors: str
    stopped: str = ""

    @property
    def how(self) -> str:
        """How it ended, in words."""
        if self.stopped:
            return self.stopped
        if self.status >= 0:
            return f"it ended with status {self.status}"
        try:
            return f"it was ended by the signal {signal.Signals(-self.status).name}"
        except ValueError:
            return f"it was ended by the signal {-self.status}"


def environment(folder: Path, also: Iterable[str] = ()) -> dict[str, str]:
    """Return the environment of programs in a folder: only what every program needs, and no secrets.

    Args:
        folder: The working folder; it is left out of the search path.
        also: The names of further variables of this process to pass on.
    """
    own = {name: os.environ[name] for name in (*INHERITED, *also) if name in os.environ}
    path = [one for one in own.get("PATH", "").split(os.pathsep) if Path(one).is_absolute() and outside(one, folder)]
    return {**own, **FIXED, "PATH": os.pathsep.join(path)}


def outside(path: str, folder: Path) -> bool:
    """Return whether a path and its target are outside a folder, where no caller can write them."""
    found = Path(path).absolute()
    return not (found.is_relative_to(folder) or found.resolve().is_relative_to(folder))


async def run(program: str, arguments: list[str], place: Place, text: str | None = None) -> Ended:
    """Run a program until it ends or reaches a limit, and return how it ended.

    Args:
        program: The path of the program.
        arguments: Its arguments, passed on unchanged.
        place: Where it runs.
        text: Its standard input, which is closed otherwise.

    Raises:
        ToolError: It could not be started.
    """
    process = await _start(program, arguments, place, text)
    captured = _Output(place.limits.bytes)
    done = False
    try:
        with anyio.move_on_after(place.limits.seconds):
            async with anyio.create_task_group() as tasks:
                for name, stream in (("output", process.stdout), ("errors", process.stderr)):
                    tasks.start_soon(captured.read, name, stream, tasks.cancel_scope)
                tasks.start_soon(_feed, process.stdin, text)
                await process.wait()
            done = not captured.exceeded
    finally:
        with anyio.CancelScope(shield=True):
            if not done:
                await processes.end(process)
            await process.aclose()
    stopped = ""
    if captured.exceeded:
        stopped = f"it was stopped, because it printed more than {place.limits.bytes:,} bytes; ask for less"
    elif not done:
        stopped = f"it was stopped, because it took longer than {place.limits.seconds:g} s"
    return Ended(
        status=process.returncode or 0, output=captured.text("output"), errors=captured.text("errors"), stopped=stopped
    )


async def _start(program: str, arguments: list[str], place: Place, text: str | None) -> Process:
    stdin = DEVNULL if text is None else PIPE
    try:
        return await processes.start([program, *arguments], place.environment, folder=place.folder, stdin=stdin)
    except OSError as error:
        raise ToolError(f"{Path(program).name} can't be started: {error.strerror or error}.") from error


async def _feed(stream: ByteSendStream | None, text: str | None) -> None:
    """Write a program's standard input, which it need not read completely."""
    if stream is not None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
            await stream.send((text or "").encode("utf-8", "replace"))
        await stream.aclose()


@define
class _Output:
    """The output of a program, up to a limit."""

    room: int
    parts: dict[str, bytearray] = field(factory=lambda: {"output": bytearray(), "errors": bytearray()})
    exceeded: bool = False

    async def read(self, name: str, stream: ByteReceiveStream | None, scope: anyio.CancelScope) -> None:
        assert stream is not None
        async for chunk in stream:
            self.parts[name] += chunk[: self.room]
            if len(chunk) > self.room:
                self.exceeded = True
                scope.cancel()
            self.room = max(0, self.room - len(chunk))

    def text(self, name: str) -> str:
        """Return the output of a stream as text; bytes that are not UTF-8 become escapes such as `\\xff`."""
        return self.parts[name].decode("utf-8", "backslashreplace")
