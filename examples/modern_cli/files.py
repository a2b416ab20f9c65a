"""Which paths may be used, and tools that need no program: those of the group file_ops and some others."""

from __future__ import annotations

import platform
import stat
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

from anyio import to_thread
from attrs import field, frozen

from toolfold import ToolError

LONGEST = 1_000_000
"""At most how many characters are read from a file, and how many a file to edit may have."""


@frozen
class Files:
    """The files of one folder; nothing outside can be reached by `..` or a symbolic link.

    Nor can the files in `.git`, since they can make git run programs.
    """

    folder: Path
    _lock: Lock = field(factory=Lock, init=False, eq=False)

    def handlers(self) -> Sequence[Callable[..., Any]]:
        """Return the handlers of the tools; they run one at a time in worker threads, since files can be long."""
        return [self._in_thread(one) for one in (self.file_read, self.file_write, self.file_edit, self.file_append)]

    def _in_thread(self, handler: Callable[[dict[str, Any]], str]) -> Callable[..., Any]:
        def locked(values: dict[str, Any]) -> str:
            with self._lock:
                return handler(values)

        @wraps(handler)
        async def call(values: dict[str, Any]) -> str:
            return await to_thread.run_sync(locked, values)

        return call

    def within(self, path: str) -> Path:
        """Return a path resolved, or raise `ToolError` if it may not be used."""
        with _failing(path):
            found = (self.folder / path).resolve()
        if not found.is_relative_to(self.folder):
            raise ToolError(f"{path!r} is not in the working folder, {self.folder}.")
        if ".git" in (part.casefold() for part in found.relative_to(self.folder).parts):
            raise ToolError(f"{path!r} is in .git, which only git may use.")
        return found

    def at(self, path: str) -> Path:
        """Return the file at a path, which need not exist, or raise `ToolError`."""
        found = self.within(path)
        if found.exists() and not found.is_file():
            raise ToolError(f"{path!r} is not a file.")
        return found

    def file_read(self, values: dict[str, Any]) -> str:
        """Return lines of a file, with a note if more follow."""
        first, count = values["offset"] - 1, values["limit"]
        with _failing(values["path"]), self.at(values["path"]).open(encoding="utf-8", newline="") as file:
            lines = iter(partial(file.readline, LONGEST + 1), "")  # limits memory, even if a line is very long
            text = ""
            for line in islice(lines, first, first + count):
                text += line
                if len(text) > LONGEST:
                    raise ToolError(f"These lines have more than {LONGEST:,} characters; read fewer.")
            more = next(lines, None) is not None
        return f"{text}\n[More lines follow; continue with offset {first + count + 1}.]" if more else text

    def file_write(self, values: dict[str, Any]) -> str:
        """Write a file."""
        file = self.at(values["path"])
        with _failing(values["path"]):
            if values["create_dirs"]:
                file.parent.mkdir(parents=True, exist_ok=True)
            self.back_up(file, values["safe_overwrite"])
            file.write_text(values["content"], encoding="utf-8", newline="")
        return f"{values['path']} now has {len(values['content']):,} characters."

    def file_edit(self, values: dict[str, Any]) -> str:
        """Replace a text that occurs exactly once, or all occurrences."""
        file, old = self.at(values["path"]), values["old_text"]
        with _failing(values["path"]):
            if file.stat().st_size > LONGEST:
                raise ToolError(f"{values['path']!r} is too long to edit.")
            with file.open(encoding="utf-8", newline="") as opened:
                text = opened.read()
            times = text.count(old)
            if times == 0 or (times > 1 and not values["replace_all"]):
                raise ToolError(f"The text to replace occurs {times} times in {values['path']!r}; nothing was changed.")
            self.back_up(file, values["backup"])
            file.write_text(text.replace(old, values["new_text"]), encoding="utf-8", newline="")
        return f"Replaced {times} {'occurrence' if times == 1 else 'occurrences'}."

    def file_append(self, values: dict[str, Any]) -> str:
        """Append text to a file."""
        with _failing(values["path"]), self.at(values["path"]).open("a", encoding="utf-8", newline="") as file:
            file.write(values["content"])
        return f"Added {len(values['content']):,} characters."

    def back_up(self, file: Path, wanted: bool) -> None:
        """Copy a file to one beside it, with the suffix `.bak`."""
        if wanted and file.exists():
            self.at(f"{file}.bak").write_bytes(file.read_bytes())


def permissions(values: dict[str, Any]) -> str:
    """Return the permissions of a numeric mode."""
    signs = stat.filemode(int(values["mode"], 8))[1:]
    words = {"r": "read", "w": "write", "x": "execute", "s": "execute as its owner or group", "t": "execute"}
    permissions = []
    for who, part in (("the owner", signs[:3]), ("the group", signs[3:6]), ("others", signs[6:])):
        may = [words[sign] for sign in part if sign in words]
        permissions.append(f"{who} may {', '.join(may)}" if may else f"{who} may do nothing")
    return f"{signs}: {'; '.join(permissions)}."


def system_info() -> dict[str, str]:
    """Return facts about this machine."""
    system = platform.uname()
    return {
        "system": system.system,
        "release": system.release,
        "machine": system.machine,
        "python": platform.python_version(),
    }


@contextmanager
def _failing(path: str) -> Generator[None]:
    """Turn errors of a file into messages for the client."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise ToolError(f"{path!r} is not a text in UTF-8.") from error
    except OSError as error:
        raise ToolError(f"{path!r} can't be used: {error.strerror or error}.") from error
    except (ValueError, RuntimeError) as error:  # a NUL, a surrogate, or links in a circle
        raise ToolError(f"{path!r} can't be used: {error}.") from error
