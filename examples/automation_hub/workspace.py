"""The one folder whose files the hub uses."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from toolfold import ToolError


class Workspace:
    """The text files of one folder; nothing outside can be reached by `..`, an absolute path or a symbolic link."""

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
        """Create a file, or replace its content."""
        with self._file(path) as file:
            content = text.encode()  # may fail: JSON can carry text that UTF-8 can't encode
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)

    def delete(self, path: str) -> None:
        """Delete a file."""
        with self._file(path) as file:
            file.unlink()

    @contextmanager
    def _file(self, path: str) -> Generator[Path]:
        """Yield the file at a path, and turn errors into messages for the client."""
        try:
            place = (self._root / path).resolve()
            if not place.is_relative_to(self._root):
                raise ToolError(f"{path!r} is not in the workspace.")
            if place.exists() and not place.is_file():  # a folder, or something that blocks: a pipe, a device
                raise ToolError(f"{path!r} is not a file.")
            yield place
        except UnicodeDecodeError as error:
            raise ToolError(f"{path!r} is not a text in UTF-8.") from error
        except OSError as error:
            raise ToolError(f"{path!r} can't be used: {error.strerror}.") from error
        except (ValueError, RuntimeError) as error:  # a NUL, a surrogate, or links in a circle
            raise ToolError(f"{path!r} can't be used: {error}.") from error
