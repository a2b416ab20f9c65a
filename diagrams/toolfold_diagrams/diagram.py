"""A picture as a value: texts that need no other program, and files rendered by Graphviz where it is installed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from subprocess import CalledProcessError
from typing import TYPE_CHECKING

from attrs import field, frozen

from toolfold import Catalog, ConfigError, Session, Snapshot, ToolSet
from toolfold.spi import extras_named

if TYPE_CHECKING:
    from os import PathLike

RENDERED = ("svg", "png", "pdf")
"""The suffixes that Graphviz renders."""
INSTALL = (
    'Graphviz renders pictures: install the program "dot" (apt-get install graphviz, brew install graphviz or '
    "winget install graphviz)."
)

_PDF_DATE = re.compile(rb"(/CreationDate \(D:)\d{14}([^)]*\))")  # the only difference between two runs

Source = Catalog | Snapshot | ToolSet | Session
"""What pictures are drawn from; a snapshot or a session also has active groups (SPEC DIA-3)."""


@frozen
class Diagram:
    """A picture.

    Attributes:
        title: What it shows.
        dot: The picture in DOT, for Graphviz.
        mermaid: The picture in Mermaid, or `None` if it has no form in it that Mermaid draws.
        scxml: What the picture shows as an SCXML document, or `None` if it is no statechart, or one that SCXML can't
            express.
        xstate: The same as the JSON of a machine of XState; see `toolfold.statechart.XSTATE_MODULE`.
    """

    title: str
    dot: str
    mermaid: str | None = None
    scxml: str | None = field(default=None, kw_only=True)
    xstate: str | None = field(default=None, kw_only=True)

    @property
    def texts(self) -> Mapping[str, str]:
        """The forms that need no other program, by the suffixes of their files."""
        forms = {".dot": self.dot, ".mmd": self.mermaid, ".scxml": self.scxml, ".json": self.xstate}
        return {suffix: text for suffix, text in forms.items() if text is not None}

    def render(self, path: str | PathLike[str]) -> Path:
        """Write the picture to a file, and return its path; the same picture gives the same bytes (SPEC DIA-1).

        Args:
            path: Its suffix selects the format: `.svg`, `.png` and `.pdf` are rendered by Graphviz; `.dot`, `.mmd`,
                `.scxml` and `.json` are the texts.

        Raises:
            ConfigError: The picture has no such form, there is no such folder, or Graphviz is missing or fails.
            MissingExtra: The Python package of Graphviz is missing.
        """
        target = Path(path)
        suffix = target.suffix.lower()
        if suffix in self.texts:
            content = self.texts[suffix].encode()
        elif suffix.removeprefix(".") in RENDERED:
            content = self.rendered(suffix.removeprefix("."))
        else:
            known = ", ".join([*(f".{form}" for form in RENDERED), *self.texts])
            raise ConfigError(f"{self.title!r} can't be written to {target.name!r}: use one of {known}.")
        try:
            target.write_bytes(content)
        except OSError as error:
            raise ConfigError(f"{str(target)!r} can't be written: {error.strerror}.") from error
        return target

    def rendered(self, form: str) -> bytes:
        """Return the picture as `svg`, `png` or `pdf`.

        Raises:
            ConfigError: Graphviz is missing or fails.
            MissingExtra: Its Python package is missing.
        """
        with extras_named():
            import graphviz  # pyright: ignore[reportMissingTypeStubs]
        try:
            content = bytes(graphviz.Source(self.dot).pipe(form, quiet=True))
        except graphviz.ExecutableNotFound as error:
            raise ConfigError(f"{INSTALL} DOT, Mermaid, HTML and the other texts do not need it.") from error
        except CalledProcessError as error:
            message = (error.stderr or b"").decode(errors="replace").strip()
            raise ConfigError(f"Graphviz could not draw {self.title!r}: {message or error}") from error
        return _PDF_DATE.sub(rb"\g<1>20000101000000\2", content) if form == "pdf" else content


def snapshot_of(source: Source) -> Snapshot:
    """Return the state that is to be drawn: for a catalog or a tool set, the one in which nothing is active."""
    match source:
        case Snapshot():
            return source
        case Session():
            return source.snapshot
        case Catalog():
            return Snapshot.of(source)
        case ToolSet():
            return Snapshot.of(source.catalog)
