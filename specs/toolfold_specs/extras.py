"""Which extra of a distribution installs a package that a part of the kit needs, and the error where one is missing."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

EXTRAS: Final = {"hypothesis": "conformance", "mcp": "mcp", "mcp_types": "mcp", "rich": "cli"}
"""The extra of `toolfold` that installs a package; `toolfold-conformance`, the kit alone, brings all of them."""


class MissingPackage(ModuleNotFoundError):
    """A package is missing that a part of the kit needs."""

    def __init__(self, name: str) -> None:
        command = f'pip install "toolfold[{EXTRAS[name]}]"'
        super().__init__(f"{name!r} is not installed. Install it with: {command}", name=name)


@contextmanager
def extras_named() -> Generator[None]:
    """Raise an error that says what to install, if a package of an extra can't be imported.

    Raises:
        MissingPackage: Such a package is not installed; the failed import is the cause.
    """
    try:
        yield
    except MissingPackage:
        raise
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise MissingPackage(package) from error


def required(package: str) -> None:
    """Raise `MissingPackage` unless a package of an extra is installed, which is imported later."""
    with extras_named():
        if find_spec(package) is None:
            raise MissingPackage(package)
