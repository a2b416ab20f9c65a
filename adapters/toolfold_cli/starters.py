"""Starters: drivers of the conformance kit in other languages, which `toolfold conform --starter` writes."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from .failures import Failed

BUILT_BY = {
    "typescript": "node driver.ts   (Node 22.18 or later; for Node 20 see driver.ts)",
    "go": "./driver   (after `go build -o driver .`)",
    "rust": "target/debug/driver   (after `cargo build`)",
    "java": "java Driver.java   (JDK 17 or later)",
}
"""For each language the command that starts the driver in its folder."""


def write_starter(language: str, folder: Path) -> str:
    """Return what to do next, after writing the starter in a language to a folder.

    Raises:
        Failed: The folder has something in it, or can't be written.
    """
    try:
        if folder.exists() and any(folder.iterdir()):
            raise Failed(f"{folder} is not empty: name a folder for the starter alone.")
        _copy(files("toolfold_specs") / "starters" / language, folder)
    except OSError as error:
        raise Failed(f"{folder} can't be written: {error.strerror}.") from error
    return f"cd {folder}\ntoolfold conform --driver -- {BUILT_BY[language]}"


def _copy(source: Traversable, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for entry in source.iterdir():
        if entry.is_dir():
            _copy(entry, folder / entry.name)
        else:
            (folder / entry.name).write_bytes(entry.read_bytes())
