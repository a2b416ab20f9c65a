"""A program that starts soon: what it does not use of the MCP SDK is not loaded, and no model is built before its use.

`import mcp.server.stdio` imports the packages that it is in first, and these import a client, another server and HTTP
in both directions. And the SDK builds validators of all models of three revisions of the protocol, of which a session
meets a few. A program may change how its process imports; the library, which programs of others import, does not.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from threading import RLock
from types import ModuleType
from typing import Any, TypeVar

import pydantic

from .garbage import program_serves

PACKAGES = ("mcp", "mcp.server", "mcp.client")
"""Packages that import more than their modules need, each after the one that it is in."""

SERVER = "mcp.server.lowlevel"

_loading = RLock()


class _Package(ModuleType):
    """A package whose modules can be imported; it is run itself when one of its own names is first asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":  # what the import system, warnings and others look for
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        with _loading:
            if type(self) is _Package:
                self.__class__ = ModuleType  # type: ignore[assignment]
                loader: Any = self.__loader__
                loader.exec_module(self)
        return getattr(self, name)


T = TypeVar("T")


class _LaterAdapter(pydantic.TypeAdapter[T]):  # type: ignore[misc]  # in place of it
    """A type adapter that is built when it is first used."""

    def __init__(self, adapted: Any, **how: Any) -> None:
        how["_parent_depth"] = how.get("_parent_depth", 2) + 1  # names are those of whoever calls this
        deferred: dict[str, Any] = {**how, "config": {**(how.get("config") or {}), "defer_build": True}}
        try:
            super().__init__(adapted, **deferred)
        except pydantic.PydanticUserError:  # a model has a configuration of its own, by which it is deferred
            super().__init__(adapted, **how)


@contextmanager
def starting(module: str = SERVER, *, over_http: bool = False) -> Generator[Callable[[], None]]:
    """Defer the SDK, and look for no garbage until the function that this yields is called, or the end of the block.

    `module` is what the program uses of it. `over_http` says whether it serves over HTTP: a package that the SDK
    imports adapts uvicorn, if it can.
    """
    gc.disable()  # what is made until it serves stays, so looking for garbage in it takes time in vain

    try:
        with nullcontext() if over_http else _absent("uvicorn", "uvicorn.main"):
            defer_sdk(module)
        yield program_serves
    finally:
        gc.enable()


def defer_sdk(module: str = SERVER) -> None:
    """Load a module of the SDK, with the models that it imports, and of the rest later what is used."""
    if "mcp" not in sys.modules:
        for name in PACKAGES:
            _defer(name)
    with _models_built_on_use():
        import_module(module)


@contextmanager
def _absent(*modules: str) -> Generator[None]:
    """Have modules that are not loaded yet be none that can be imported in the block."""
    names = [name for name in modules if name not in sys.modules]
    sys.modules |= dict.fromkeys(names)  # type: ignore[arg-type]  # which is how the import system has it
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]


def _defer(name: str) -> None:
    spec = find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    package = _Package(name)
    package.__spec__, package.__loader__, package.__package__ = spec, spec.loader, name
    package.__path__, package.__file__ = [*(spec.submodule_search_locations or ())], spec.origin
    sys.modules[name] = package
    above, _, last = name.rpartition(".")
    if above:
        setattr(sys.modules[above], last, package)


_rebuild: Any = pydantic.BaseModel.__dict__["model_rebuild"].__func__


def _rebuild_on_use(cls: Any, /, **how: Any) -> Any:
    """Build a model that is used, which is no error if that fails; none that a module has only defined in full."""
    return _rebuild(cls, **how) if how.get("raise_errors") is False else None


@contextmanager
def _models_built_on_use() -> Generator[None]:
    """Have the models that are defined meanwhile built when they are first used."""
    model: Any = pydantic.BaseModel
    package: Any = pydantic
    adapter = package.TypeAdapter
    model.model_config["defer_build"], package.TypeAdapter = True, _LaterAdapter
    model.model_rebuild = classmethod(_rebuild_on_use)
    try:
        yield
    finally:
        del model.model_config["defer_build"]
        package.TypeAdapter = adapter
        model.model_rebuild = classmethod(_rebuild)
