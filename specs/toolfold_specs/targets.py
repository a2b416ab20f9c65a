"""What the command can be pointed at, and the settings in which it is checked (SPEC CNF-1).

A setting is a way to reach the target: "in process", or a transport and an era of MCP. `settings` finds a TARGET and
returns a factory of drivers for each of its settings; what it starts is ended with the block.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from attrs import frozen

from toolfold import ToolSet

from .driver import Driver, TargetFailed
from .drivers.description import Description, described
from .kit import Factory

if TYPE_CHECKING:
    from .drivers.link import Link

Era: TypeAlias = Literal["legacy", "modern"]
Transport: TypeAlias = Literal["stdio", "http"]

ERAS: tuple[Era, ...] = ("legacy", "modern")
TRANSPORTS: tuple[Transport, ...] = ("stdio", "http")
IN_PROCESS = "in-process"
OWN = "toolfold_specs.drivers.toolfold"
"""Where the driver of Toolfold's own core is."""

FORMS = (
    "module:attribute or path/to/file.py:attribute (a Driver, a function that makes one, or a ToolSet), a .toml file "
    "(the configuration of a gateway), the URL of an MCP server, or, after --, the command that starts one"
)


class TargetError(Exception):
    """There is no such target, or it can't be checked in the way that was asked for."""


@frozen
class Target:
    """A TARGET, and what follows `--`."""

    text: str | None = None
    command: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What reports call it."""
        return self.text if self.text is not None else f"-- {' '.join(self.command)}"

    @property
    def is_served(self) -> bool:
        """Whether it is to be served first."""
        return self.text is not None and "://" not in self.text


@frozen
class Settings:
    """The settings of a target: a factory of drivers for each, by its name."""

    factories: Mapping[str, Factory]
    is_toolfold: bool = False
    """Whether it is Toolfold that is behind it, so that what Toolfold's own tests show is true of it."""


@contextmanager
def settings(
    target: Target, eras: Sequence[Era], transports: Sequence[str], description: Path | None = None
) -> Generator[Settings]:
    """Yield the settings in which a target can be checked.

    Args:
        target: What to check.
        eras: The eras to speak; they do not matter in process.
        transports: "stdio", "http" and "in-process", those to use of what the target has.
        description: A file that describes the groups of a server that was not made for the kit.

    Raises:
        TargetError: It can't be found, or has none of the transports.
    """
    known: Path | Description | None = description
    with ExitStack() as stack:
        if target.text is not None and target.is_served and not target.text.lower().endswith(".toml"):
            there = _found(target.text)
            if isinstance(there, ToolSet):
                known = known or described(there)
            elif there is not None:
                _want(transports, (IN_PROCESS,), target)
                yield Settings({Driver.name: there}, getattr(there, "__module__", "") == OWN)
                return
        found: dict[str, Factory] = {}
        for transport in _want(transports, _transports(target), target):
            reached = _reached(target, transport, stack)
            for era in eras:
                found[f"{transport}, {era}"] = _OverMcp(reached, era, known)
        yield Settings(found, target.is_served)


def _want(asked: Sequence[str], there: Sequence[str], target: Target) -> list[str]:
    chosen = [transport for transport in there if transport in asked]
    if not chosen:
        raise TargetError(f"{target.name} is reached {' or '.join(there)}, and not {' or '.join(asked)}.")
    return chosen


def _transports(target: Target) -> tuple[Transport, ...]:
    if target.text is None:
        return ("stdio",)
    return TRANSPORTS if target.is_served else ("http",)


# -- in process -------------------------------------------------------------------------------------------------------


def _found(text: str) -> Factory | ToolSet | None:
    """Return what makes drivers at a place, or a tool set, to be served; None if that is to be awaited."""
    value = _attribute(text)
    if isinstance(value, ToolSet):
        return value
    if not callable(value):
        raise TargetError(f"{text} is of type {type(value).__name__}; a TARGET is {FORMS}.")
    if isinstance(value, type) and issubclass(value, Driver):
        return value
    try:
        inspect.signature(cast("Callable[[], object]", value)).bind()
    except TypeError as error:
        raise TargetError(f"{text} can't be called without arguments: {error}.") from error
    with _not_ending(text):
        made: object = value()
    if inspect.iscoroutine(made):  # a tool set's, then: the server awaits it
        made.close()
        return None
    if isinstance(made, ToolSet):
        return made
    if not isinstance(made, Driver):
        raise TargetError(f"{text} made a value of type {type(made).__name__}, and neither a Driver nor a ToolSet.")
    made.close()
    return cast("Factory", value)


def _attribute(text: str) -> Any:
    source, colon, path = text.rpartition(":")
    is_file = source.lower().endswith(".py")
    names = [*(() if is_file else source.split(".")), *path.split(".")]
    if not colon or not all(name.isidentifier() for name in names):
        raise TargetError(f"{text!r} is no TARGET, which is {FORMS}.")
    folders = [str(Path.cwd())]
    if is_file:
        folders.insert(0, str(Path(source).absolute().parent))
    sys.path[:] = [*folders, *(folder for folder in sys.path if folder not in folders)]
    importlib.invalidate_caches()
    if is_file and not Path(source).is_file():
        raise TargetError(f"There is no file {source}.")
    name = Path(source).stem if is_file else source
    try:
        with _not_ending(text):
            value: Any = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if name != error.name and not name.startswith(f"{error.name}."):
            raise TargetError(f"{text} needs {error.name!r}, which is not installed.") from error
        raise TargetError(f"{text} can't be found: {error}. A TARGET is {FORMS}.") from error
    for part in path.split("."):
        if not hasattr(value, part):
            raise TargetError(f"{text} does not exist: there is no {part!r} in {getattr(value, '__name__', source)}.")
        value = getattr(value, part)
    return value


@contextmanager
def _not_ending(text: str) -> Generator[None]:
    """Turn an end of the program, whose status would be taken for a verdict, into `TargetError`."""
    try:
        yield
    except SystemExit as error:
        raise TargetError(
            f'{text} ends the program (status {error.code}); put what it runs under if __name__ == "__main__".'
        ) from error


# -- over MCP ---------------------------------------------------------------------------------------------------------


@frozen
class _Reached:
    """A command for each driver to start, or the URL of a server that runs, or is to be started first."""

    command: tuple[str, ...] = ()
    url: str = ""
    server: Any = None

    def address(self) -> Any:
        """Return what a `Link` is made for."""
        from .drivers.process import Command

        if self.server is not None:
            return self.server.url()
        return self.url or Command(self.command)


def _reached(target: Target, transport: str, stack: ExitStack) -> _Reached:
    """Return how a target is reached over a transport."""
    if target.text is None:
        return _Reached(command=target.command)
    if "://" in target.text:
        return _Reached(url=target.text)
    serve = (sys.executable, "-m", "toolfold_adapters.cli", "serve", target.text)
    if transport == "stdio":
        return _Reached(command=serve)
    from .served import Served

    return _Reached(server=stack.enter_context(Served((*serve, "--http", "--port", "0"))))


class _OverMcp:
    """Makes drivers of an MCP server: of one made for the kit, or of any other as it is."""

    def __init__(self, reached: _Reached, era: Era, description: Path | Description | None) -> None:
        self._reached = reached
        self._era: Era = era
        self._description = description
        self._made_for_the_kit: bool | None = None
        """Looked up once, since that may take a process of its own."""

    def __call__(self) -> Driver:
        from .drivers.fixture import FixtureDriver
        from .drivers.link import Link

        link = Link(self._reached.address(), self._era)
        if self._made_for_the_kit is None:
            self._made_for_the_kit = _is_made_for_the_kit(link)
        if self._made_for_the_kit:
            return FixtureDriver(link)
        from .drivers.asis import AsIsDriver
        from .drivers.description import DescriptionError

        try:
            return AsIsDriver(link, self._description)
        except DescriptionError as error:
            raise TargetError(str(error)) from error


def _is_made_for_the_kit(link: Link) -> bool:
    """Return whether a server lists the tool that configures it; closes the link if it can't be asked."""
    from .drivers.protocol import CONFIGURE
    from .drivers.replies import WireError

    try:
        connection = link.connect()
        try:
            return any(tool.get("name") == CONFIGURE for tool in connection.list_all_tools())
        except WireError as error:
            raise TargetFailed(f"It does not list tools: {error}") from error
        finally:
            connection.close()
    except BaseException:
        link.close()
        raise
