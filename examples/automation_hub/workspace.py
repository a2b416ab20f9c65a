"""The one folder whose files the hub touches."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from toolfold import ToolError


class Workspace:
    """Text files of one folder; nothing else can be named, by `..`, by an absolute path or by a symbolic link."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._root = folder.resolve()

    def names(self) -> list[str]:
        """Return the paths of all files."""
        return sorted(str(file.relative_to(self._root)) for file in self._root.rglob("*") if file.is_file())

    def read(self, path: str) -> str:
        """Return the text of a file."""
        with self._file(path) as file:
            return file.read_bytes().decode()

    def write(self, path: str, text: str) -> None:
        """Make a file, or replace what is in it."""
        with self._file(path) as file:
            content = text.encode()  # before the file is touched: not every text that JSON can carry is one
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)

    def delete(self, path: str) -> None:
        """Remove a file."""
        with self._file(path) as file:
            file.unlink()

    @contextmanager
    def _file(self, path: str) -> Generator[Path]:
        """Yield where a path leads; say in words that a client may read why it can't be used."""
        try:
            place = (self._root / path).resolve()
            if not place.is_relative_to(self._root):
                raise ToolError(f"{path!r} is not in the workspace.")
            if place.exists() and not place.is_file():  # a folder, or what one would wait for: a pipe, a device
                raise ToolError(f"{path!r} is not a file.")
            yield place
        except UnicodeDecodeError as error:
            raise ToolError(f"{path!r} is not a text in UTF-8.") from error
        except OSError as error:
            raise ToolError(f"{path!r} can't be used: {error.strerror}.") from error
        except (ValueError, RuntimeError) as error:  # a NUL, a surrogate, or links in a circle
            raise ToolError(f"{path!r} can't be used: {error}.") from error
