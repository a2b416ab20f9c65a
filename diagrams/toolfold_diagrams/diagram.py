"""A picture as a value: texts that need no other program, and files rendered by Graphviz where that is installed."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import field, frozen

from toolfold import Catalog, ConfigError, Session, Snapshot, ToolfoldError, ToolSet

from .rendering import as_png, installed, rendered, stamped
from .svg import embedded
from .text import plural, printable

if TYPE_CHECKING:
    from os import PathLike

RENDERED = ("svg", "png", "pdf")
"""The formats that Graphviz renders, where a picture has them not as a text."""
NAMED = 20
"""The greatest number of active groups that a description names."""

Source = Catalog | Snapshot | ToolSet | Session
"""What pictures are drawn from; a snapshot or a session also has active groups (SPEC DIA-3)."""


@frozen
class Diagram:
    """A picture.

    Attributes:
        title: What it shows.
        dot: The picture in DOT, for Graphviz.
        mermaid: The picture in Mermaid, or `None` if it has no form in it that Mermaid draws.
        svg: The picture as SVG, or `None` if its layout is left to Graphviz; see `rendered`.
        scxml: What the picture shows as an SCXML document, or `None` if it is no statechart, or one that SCXML can't
            express.
        xstate: The same as the JSON of a machine of XState; see `toolfold.statechart.XSTATE_MODULE`.
        description: What it shows in a sentence or two, for those who can't see it.
    """

    title: str
    dot: str
    mermaid: str | None = None
    svg: str | None = field(default=None, kw_only=True)
    scxml: str | None = field(default=None, kw_only=True)
    xstate: str | None = field(default=None, kw_only=True)
    description: str = field(default="", kw_only=True)

    @property
    def texts(self) -> Mapping[str, str]:
        """The forms that need no other program, by the suffixes of their files."""
        forms = {".svg": self.svg, ".dot": self.dot, ".mmd": self.mermaid, ".scxml": self.scxml, ".json": self.xstate}
        return {suffix: text for suffix, text in forms.items() if text is not None}

    @property
    def stamp(self) -> str:
        """What a rendered file says it was drawn from: such files differ from one version of Graphviz to the next."""
        return f"drawn from DOT {sha256(self.dot.encode()).hexdigest()[:16]}"

    def render(self, path: str | PathLike[str]) -> Path:
        """Write the picture to a file, and return its path; the same picture gives the same bytes.

        SPEC DIA-1.

        Args:
            path: Its suffix selects the format: `.svg`, `.png`, `.pdf`, `.dot`, `.mmd`, `.scxml` or `.json`.

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
            known = ", ".join(dict.fromkeys([*(f".{form}" for form in RENDERED), *self.texts]))
            raise ConfigError(f"{self.title!r} can't be written to {target.name!r}: use one of {known}.")
        write_atomically(target, content)
        return target

    def rendered(self, form: str) -> bytes:
        """Return the picture as `svg`, `png` or `pdf`; without Graphviz, PNG is drawn from the SVG.

        What is drawn from DOT carries a stamp that names the DOT that it was drawn from.

        Raises:
            ConfigError: Graphviz is missing or fails.
            MissingExtra: Its Python package is missing.
        """
        if form == "svg" and self.svg is not None:
            return self.svg.encode()
        if form == "png" and not installed():
            picture = as_png(self.rendered("svg").decode(), self.title)
        else:
            picture = rendered(self.dot, form, self.title)
        return stamped(picture, form, self.title, self.description, self.stamp)

    def bundle(self) -> dict[str, str]:
        """Return the forms for notebooks by MIME type: the picture or, where nothing draws it, Mermaid or DOT.

        JupyterLab shows an SVG without its texts for screen readers, so the picture is also HTML that has them.
        """
        if svg := self._repr_svg_():
            text = f"{self.title}. {self.description}"
            source = f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"
            return {"text/html": f'<img alt="{escape(text)}" src="{source}">', "image/svg+xml": svg, "text/plain": text}
        if self.mermaid is not None:
            return {"text/markdown": f"```mermaid\n{self.mermaid}```\n", "text/plain": self.mermaid}
        return {"text/plain": self.dot}

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return self.bundle()

    def _repr_svg_(self) -> str | None:
        """Return the picture as SVG, or `None` if nothing here draws it."""
        try:
            return embedded(self.rendered("svg").decode())
        except ToolfoldError:
            return None


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all; raises `ConfigError` if it can't be written."""
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():  # a device or a pipe, which nothing can take the place of
            target.write_bytes(content)
            return
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            with temporary.open("xb") as file:
                file.write(content)
            if target.exists():
                temporary.chmod(target.stat().st_mode)
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigError(f"{path} can't be written: {error.strerror or type(error).__name__}.") from error


def described(snapshot: Snapshot) -> str:
    """Return the size of a catalog and its active groups in words, for those who can't see a picture of it."""
    groups, tools = snapshot.catalog.groups, snapshot.catalog.tools.values()
    counted = f"{plural(len(groups), 'group')}, {plural(sum(tool.control is None for tool in tools), 'tool')}"
    paths = [printable(path) for path in snapshot.active]
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    active = f"open: {', '.join(paths[:NAMED])}{more}" if paths else "none is open"
    return f"{counted}; {active}."


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
