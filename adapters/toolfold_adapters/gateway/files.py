"""Files that only their owner can read, in a folder, by key: definitions, approvals and tokens (SPEC GWY-8)."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel, TypeAdapter

log = logging.getLogger("toolfold.gateway")

T = TypeVar("T")


class Files(Generic[T]):
    """Values in files of JSON, each named by a hash of its key, which may have secrets.

    Args:
        folder: Where they are; without one nothing is stored.
        what: What messages call the values.
        form: What a value must be; a file that has anything else is damaged.
    """

    def __init__(self, folder: Path | None, what: str, form: TypeAdapter[T]) -> None:
        self._folder = folder
        self._what = what
        self._form = form

    def read(self, key: str, damaged: T | None = None) -> T | None:
        """Return what is stored, `None` if nothing is, and `damaged` if it can't be read, which is logged."""
        if self._folder is None:
            return None
        path = self._path(self._folder, key)
        try:
            return self._form.validate_python(json.loads(path.read_bytes()))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, RecursionError) as error:
            log.warning("the %s in %s can't be read: %s", self._what, path, type(error).__name__)
            return damaged

    def write(self, key: str, value: T) -> None:
        """Store a value: all of it, or nothing where that fails, which is logged."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(self._path(self._folder, key), json.dumps(value, default=_plain).encode())
        except OSError as error:
            log.warning("the %s can't be stored in %s: %s", self._what, self._folder, error)

    def _path(self, folder: Path, key: str) -> Path:
        return folder / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def as_stored(value: Any) -> Any:
    """Return a value as it is once it is read from a file."""
    return json.loads(json.dumps(value, default=_plain))


def write_whole(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write all of a file or nothing, through links to it; raises `OSError`."""
    target = path.resolve()
    descriptor, name = tempfile.mkstemp(dir=target.parent)  # with the mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(name).chmod(mode)
        Path(name).replace(target)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else repr(value)
