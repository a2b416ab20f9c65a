"""A picture as a value: texts that need no other program, and files rendered by Graphviz where it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from toolfold import Catalog, ConfigError, Session, Snapshot, ToolSet

if TYPE_CHECKING:
    from os import PathLike

RENDERED = ("svg", "png", "pdf")
"""The suffixes that Graphviz renders."""
INSTALL = (
    'Graphviz renders pictures: install the program "dot" (apt-get install graphviz, brew install graphviz or '
    "winget install graphviz)."
)

Source = Catalog | Snapshot | ToolSet | Session
"""What pictures are drawn from; a snapshot or a session also says which groups are active (SPEC DIA-3)."""


@frozen
class Diagram:
    """A picture.

    Attributes:
        title: What it shows.
        dot: The picture in DOT, for Graphviz.
        mermaid: The picture in Mermaid, or `None` if it has no form in it.
    """

    title: str
    dot: str
    mermaid: str | None = None

    def render(self, path: str | PathLike[str]) -> Path:
        """Write the picture to a file, and return its path (SPEC DIA-1).

        Args:
            path: Its suffix says the format: `.svg`, `.png` and `.pdf` are rendered by Graphviz; `.dot` and `.mmd` are
                the texts.

        Raises:
            ConfigError: The suffix is none of these, there is no Mermaid form, or Graphviz is missing.
        """
        target = Path(path)
        suffix = target.suffix.lower().removeprefix(".")
        if suffix in RENDERED:
            target.write_bytes(self.rendered(suffix))
        elif suffix == "dot":
            target.write_text(self.dot, encoding="utf-8", newline="\n")
        elif suffix == "mmd" and self.mermaid is not None:
            target.write_text(self.mermaid, encoding="utf-8", newline="\n")
        else:
            raise ConfigError(
                f"A picture of this kind can't be written to {target.name!r}: use .svg, .png, .pdf, .dot"
                f"{'' if self.mermaid is None else ' or .mmd'}."
            )
        return target

    def rendered(self, form: str) -> bytes:
        """Return the picture as `svg`, `png` or `pdf`.

        Raises:
            ConfigError: Graphviz is missing.
        """
        try:
            import graphviz  # pyright: ignore[reportMissingTypeStubs]
        except ModuleNotFoundError as error:
            raise ConfigError(f'{INSTALL} And its Python package: pip install "toolfold[diagrams]".') from error
        try:
            return bytes(graphviz.Source(self.dot).pipe(form, quiet=True))
        except graphviz.ExecutableNotFound as error:
            raise ConfigError(f"{INSTALL} DOT, Mermaid, HTML and the other texts do not need it.") from error


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
