"""The drivers with which `toolfold conform` reaches a target, by transport and era, and starters of new ones."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolfold import ConfigError, ToolSet

from .failures import Failed
from .references import Reference, load
from .targets import Target

if TYPE_CHECKING:
    from toolfold_specs.drivers.description import Description
    from toolfold_specs.drivers.protocol import Era
    from toolfold_specs.targets import Factory

TRANSPORTS = ("stdio", "http")
IN_PROCESS = "in-process"
RESPONSE_TIMEOUT, START_TIMEOUT, NOTICE_GRACE = 10.0, 30.0, 0.5  # seconds
BUILT_BY = {
    "typescript": "node driver.ts   (Node 22.18 or later; for Node 20 see driver.ts)",
    "go": "./driver   (after `go build -o driver .`)",
    "rust": "target/debug/driver   (after `cargo build`)",
    "java": "java Driver.java   (JDK 17 or later)",
}
"""For each language the command that starts the driver in its folder."""


@contextmanager
def driver_factories(
    target: Target,
    eras: Sequence[Era],
    transports: Sequence[str],
    description: Path | None = None,
    **limits: float,
) -> Generator[Mapping[str, Factory]]:
    """Yield a factory of drivers for each setting of a target: "in process", or a transport and an era of MCP.

    Servers that are started for them end with the block.

    Args:
        target: The target to check.
        eras: The eras to speak; ignored in process.
        transports: Those of "stdio", "http" and "in-process" to use if the target supports them.
        description: A file that describes the groups of a server that was not made for the kit.
        limits: `timeout`, `start_timeout` and `grace` of `DriverFactory`, in seconds.

    Raises:
        ConfigError: It can't be found, or has none of the transports.
        DescriptionError: The description is wrong.
    """
    from toolfold_specs import Driver
    from toolfold_specs.drivers.description import load as load_description

    known = None if description is None else load_description(description)
    if target.reference is not None:
        found = _in_process(target.reference)
        if callable(found):
            _available(transports, (IN_PROCESS,), target)
            yield {Driver.name: found}
            return
        known = known or found
    from toolfold_specs.drivers.over_mcp import DriverFactory  # needs the extra mcp, which what is above does not

    has = {"url": ("http",), "command": ("stdio",)}.get(target.kind, TRANSPORTS)
    with ExitStack() as stack:
        addresses = {transport: _address(target, transport, stack) for transport in _available(transports, has, target)}
        yield {
            f"{transport}, {era}": DriverFactory(address, era, known, **limits)
            for transport, address in addresses.items()
            for era in eras
        }


def remote_driver(
    target: Target, alone: bool, *, timeout: float, start_timeout: float
) -> AbstractContextManager[Mapping[str, Factory]]:
    """Return the factory of drivers of a command, or of a tool of an MCP server, that speaks the driver protocol."""
    if target.kind not in ("command", "url"):
        raise ConfigError(f"--driver is for a command after --, or the URL of an MCP server; {target.text} is neither.")
    if not alone:
        raise ConfigError("--driver needs no --era, --transport or --describe: leave them out.")
    if target.kind == "command":
        from toolfold_specs.drivers.piped import PipedDriver

        return nullcontext(
            {PipedDriver.name: partial(PipedDriver, target.command, timeout=timeout, start_timeout=start_timeout)}
        )
    from toolfold_specs.drivers.link import Link
    from toolfold_specs.drivers.tool import ToolDriver

    return nullcontext({ToolDriver.name: lambda: ToolDriver(Link(target.text, "legacy", timeout, start_timeout))})


def _available(wanted: Sequence[str], has: Sequence[str], target: Target) -> list[str]:
    transports = [transport for transport in has if transport in wanted]
    if not transports:
        raise ConfigError(f"{target.arguments} is reached {' or '.join(has)}, not {' or '.join(wanted)}.")
    return transports


def _in_process(reference: Reference) -> Factory | Description | None:
    """Return the factory of drivers that a reference names, or else a description of the tool set there.

    The description is `None` if the tool set has to be awaited, which is left to the server, or can't be described.
    """
    from toolfold_specs import Driver
    from toolfold_specs.drivers.in_process import described

    loaded = load(reference, ToolSet, Driver)
    made = loaded.call()
    if inspect.iscoroutine(made):
        made.close()
        return None
    instance: ToolSet | Driver = loaded.checked(made)
    if isinstance(instance, ToolSet):
        return described(instance)
    if instance is loaded.value:
        raise ConfigError(f"{reference.text} is a Driver; name its class, or a function that makes one.")
    instance.close()
    make: Factory = loaded.value
    return make


def _address(target: Target, transport: str, stack: ExitStack) -> Any:
    """Return a function that returns the address of a target: a command for each driver to start, or a URL."""
    from toolfold_specs.drivers.process import Command
    from toolfold_specs.served import Served

    if target.kind == "url":
        return lambda: target.text
    if target.kind == "command":
        return lambda: Command(target.command)
    app_dir = ("--app-dir", str(target.reference.folder)) if target.reference is not None else ()
    serve = (sys.executable, "-m", "toolfold_cli", "serve", *app_dir, target.text)
    if transport == "stdio":
        several = (*serve[:4], "--many-clients", *serve[4:])  # each session of the kit is a client of its own
        return lambda: Command(several)
    return stack.enter_context(Served((*serve, "--http", "--port", "0"))).url


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
