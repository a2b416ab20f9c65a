"""Where results are that are retained on disk: a file without a name, and those that were asked for (SPEC GWY-17)."""

from __future__ import annotations

import os
from base64 import b64decode
from math import inf
from mimetypes import guess_extension
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory, TemporaryFile
from threading import Lock
from typing import IO

from toolfold.spi import frozen

TEXT = "text/plain"


@frozen
class Place:
    """Where a text is in the file."""

    start: int
    size: int


class SharedFile:
    """The texts that are large, in one file: one for each would use up what a process may have open.

    It has no name, so that nobody else opens it and it ends with this process.
    """

    def __init__(self) -> None:
        self._places: list[Place] = []
        self._lock = Lock()
        self._file: IO[bytes] | None = None

    def write(self, data: bytes) -> Place:
        """Store bytes in the first gap that has room for them."""
        with self._lock:
            if self._file is None:
                self._file = TemporaryFile()  # noqa: SIM115 - until nothing is left in it
            ends = [0, *(place.start + place.size for place in self._places)]
            begins = [*(place.start for place in self._places), inf]
            at = next(at for at, end in enumerate(ends) if begins[at] - end >= len(data))
            self._places.insert(at, stored := Place(ends[at], len(data)))
            self._file.seek(stored.start)
            self._file.write(data)
            return stored

    def read(self, place: Place) -> bytes:
        """Return the bytes at a place; raises `ValueError` once they are discarded."""
        with self._lock:
            if self._file is None or place not in self._places:
                raise ValueError
            self._file.seek(place.start)
            return self._file.read(place.size)

    def discard(self, place: Place) -> None:
        """Have other bytes take the place."""
        with self._lock:
            self._places.remove(place)
            if not self._places and self._file is not None:
                self._file.close()
                self._file = None


class SavedFiles:
    """Files that results are written to, in a folder that only this user can open and that ends with this process."""

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None
        self._paths: set[Path] = set()
        self._lock = Lock()

    def write(self, text: bytes, media_type: str) -> Path:
        """Write a file and return where it is.

        Args:
            text: What is written: base64, unless it is a plain text.
            media_type: What it is.

        Raises:
            ValueError: It is no base64.
            OSError: It can't be written.
        """
        data = text if media_type == TEXT else b64decode(text, validate=True)
        with self._lock:
            if self._folder is None:
                self._folder = TemporaryDirectory(prefix="toolfold-")
            path = Path(self._folder.name) / f"{token_hex(8)}{guess_extension(media_type) or '.bin'}"
            self._paths.add(path)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
            return path

    def discard(self, path: Path) -> None:
        """Delete a file, and the folder with the last."""
        with self._lock:
            self._paths.discard(path)
            path.unlink(missing_ok=True)
            if not self._paths and self._folder is not None:
                self._folder.cleanup()
                self._folder = None
