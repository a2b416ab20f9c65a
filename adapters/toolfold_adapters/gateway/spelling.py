"""Whether a URI may be another spelling of one that may not be read (SPEC ISO-2).

Servers take more than one spelling for a resource: they ignore case, decode percent-encoding, resolve `..`, drop what
follows. Which of these a server does is not known here, and no list of them is whole. So where something is withheld,
what nobody lists is read only if its URI is plain, of letters, digits and `-._` alone: that has one reading. Of plain
ones, those are refused that name the path of what is withheld, in whatever case, by whatever scheme, at whatever host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from unicodedata import normalize
from urllib.parse import unquote

DECODINGS = 4
"""How often percent-encoding is decoded, for what is encoded more than once."""
_SEGMENT = r"(?![.])[a-z0-9._-]*[a-z0-9_-]"
_PLAIN = re.compile(rf"[a-z][a-z0-9+.-]*:(//({_SEGMENT})?(:\d+)?(/|$)|/?)({_SEGMENT}(/|$))*", re.IGNORECASE)
_SCHEME = re.compile(r"([^/:]+):(.*)", re.DOTALL)
_AFTER = re.compile(r"[?#;]")
_PORT = re.compile(r":\d*$")


class Spellings:
    """Resources and templates, found by any spelling of a URI.

    Args:
        resources: The URIs of resources.
        templates: Templates of URIs.
    """

    def __init__(self, resources: Iterable[str], templates: Iterable[str]) -> None:
        self._resources: dict[str, list[str]] = {}
        for one in resources:
            self._resources.setdefault(normal(one), []).append(one)
        self._templates = [(_beginning(one), one) for one in templates]
        self._paths = {path for one in resources for path in _paths(one)}
        self._beginnings = tuple(path for one in templates for path in _beginnings(one))

    def resources(self, uri: str) -> list[str]:
        """Return the resources that a URI may be a spelling of."""
        return self._resources.get(normal(uri), []) if self._resources else []

    def templates(self, uri: str) -> list[str]:
        """Return the templates that a URI begins as."""
        whole = f"{normal(uri)}/" if self._templates else ""
        return [one for begins, one in self._templates if whole.startswith(begins)]

    def may_include(self, uri: str) -> bool:
        """Return whether some server may read one of these by a URI that is none of them."""
        if _PLAIN.fullmatch(uri) is None:
            return bool(self._paths or self._beginnings)
        paths = _paths(uri)
        return not self._paths.isdisjoint(paths) or any(f"{path}/".startswith(self._beginnings) for path in paths)


def normal(uri: str) -> str:
    """Return one form for all spellings of a URI: without its query, in lower case, decoded, with plain segments."""
    text = uri
    for _ in range(DECODINGS):
        text = unquote(text)
    text = normalize("NFKC", text).casefold().replace("\\", "/")
    text = "".join(one for one in text if one.isprintable() and not one.isspace())
    found = _SCHEME.fullmatch(text)
    scheme, rest = (found[1], found[2]) if found else ("", text)
    if scheme == "file" and rest.startswith("//"):  # servers read the path, whatever host is named
        rest = rest[2:].partition("/")[2]
    segments: list[str] = []
    for number, segment in enumerate(_AFTER.split(rest)[0].lstrip("/").split("/")):
        if number == 0:
            segment = _PORT.sub("", segment.rpartition("@")[2])
        if segment == "..":
            del segments[-1:]
        elif plain := segment.rstrip("."):
            segments.append(plain)
    return f"{scheme}:{'/'.join(segments)}"


def _beginning(template: str) -> str:
    """Return how the form of each URI of a template begins."""
    fixed = template.partition("{")[0]
    if not fixed:
        return ""
    begins = normal(fixed)
    return f"{begins}/" if fixed.endswith("/") and not begins.endswith(":") else begins


def _paths(uri: str) -> set[str]:
    """Return the paths that a URI may name: all after its scheme, and what is below its host."""
    whole = normal(uri).partition(":")[2]
    below = whole.partition("/")[2] if "//" in uri else ""
    return {whole, below} - {""} or {""}


def _beginnings(template: str) -> set[str]:
    """Return how the paths begin that URIs of a template may name; any may, if it begins with its scheme alone."""
    whole = _beginning(template).partition(":")[2]
    below = whole.partition("/")[2] if "//" in template else ""
    return {whole, below} - {""} or {""}
