"""What the command line works on: a TARGET, found and opened as a `ToolSet`.

A TARGET is `module:attribute` (a `ToolSet`, or a function that makes one), a `.toml` file (the configuration of a
gateway), a URL (an MCP server to put groups in front of), or a command that starts one. `parse_target` tells which,
`open_target` opens it.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
import traceback
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from attrs import frozen

from toolfold import ConfigError, ToolSet

if TYPE_CHECKING:
    from .gateway import GatewayConfig

FORMS = (
    "module:attribute (such as shop:tools), a .toml file, the URL of an MCP server, "
    "or, after --, the command that starts one"
)

OF_TOOL_SETS = ("control", "control_visibility", "max_active")


@frozen(kw_only=True)
class Target:
    """Where a tool set comes from: made by `parse_target`."""

    kind: Literal["module", "file", "url", "command"]
    text: str
    command: tuple[str, ...] = ()

    @property
    def is_gateway(self) -> bool:
        """Whether the tools are those of existing MCP servers."""
        return self.kind != "module"


@frozen(kw_only=True)
class GatewayOptions:
    """What the command line may say about a gateway; `None` leaves it to the configuration.

    Attributes:
        groups: A file that says how the tools of a URL or command are grouped.
        control: How groups are opened; see `ToolSet`.
        control_visibility: When control tools are listed.
        max_active: The greatest number of active groups in a session.
        start_timeout: Seconds that an upstream may take to start.
    """

    groups: Path | None = None
    control: str | None = None
    control_visibility: str | None = None
    max_active: int | None = None
    start_timeout: float | None = None


def parse_target(text: str | None, command: Sequence[str] = (), options: GatewayOptions | None = None) -> Target:
    """Return what a TARGET or a command stands for, without opening it.

    Raises:
        ConfigError: It is neither, both are given, or an option does not go with it.
    """
    target = _parsed(text, tuple(command))
    options = options or GatewayOptions()
    if options.groups is not None and target.kind not in ("url", "command"):
        raise ConfigError(
            f"--groups goes with a URL or a command; {target.text} says itself how its tools are grouped."
        )
    given = [name for name in OF_TOOL_SETS if getattr(options, name) is not None]
    if target.kind == "module" and given:
        option = given[0].replace("_", "-")
        raise ConfigError(
            f"--{option} is for tools of other servers; {target.text} says it itself: ToolSet(..., {given[0]}=...)."
        )
    return target


def _parsed(text: str | None, command: tuple[str, ...]) -> Target:
    if text is not None and command:
        raise ConfigError(f"There is a TARGET, {text}, and a command, {' '.join(command)}: leave one of them out.")
    if command:
        return Target(kind="command", text=" ".join(command), command=command)
    if not text:
        raise ConfigError(f"There is no TARGET. It is {FORMS}.")
    scheme = text.partition("://")[0]
    if scheme != text:
        if scheme.lower() not in ("http", "https"):
            raise ConfigError(f"{text} has the scheme {scheme!r}; the URL of an MCP server has http or https.")
        return Target(kind="url", text=scheme.lower() + text[len(scheme) :])
    if text.lower().endswith(".toml"):
        return Target(kind="file", text=text)
    module, colon, attribute = text.partition(":")
    parts = (*module.split("."), *(attribute.split(".") if colon else ()))
    if not all(part.isidentifier() for part in parts):
        raise ConfigError(f"{text!r} is not a TARGET. It is {FORMS}.")
    return Target(kind="module", text=text)


@frozen(kw_only=True)
class Opened:
    """An open target: its tools, and for a gateway what the server behind it tells clients, and its version."""

    tools: ToolSet
    instructions: str | None = None
    version: str = ""


@asynccontextmanager
async def open_target(target: Target, options: GatewayOptions | None = None) -> AsyncGenerator[Opened]:
    """Open a target for the duration of the block.

    What had to be left out of a gateway is logged as a warning.

    Args:
        target: What to open.
        options: What the command line says about a gateway.

    Raises:
        ConfigError: It can't be found, imported, made or configured; what was raised is the cause.
        UpstreamError: The server behind a gateway could not be started.
    """
    if not target.is_gateway:
        yield Opened(tools=await _made(target.text))
        return
    from .gateway import open_gateway

    gateway = open_gateway(_configured(target, options or GatewayOptions()))
    async with gateway as tools:
        yield Opened(tools=tools, instructions=gateway.report.instructions, version=gateway.report.version)


def _configured(target: Target, options: GatewayOptions) -> GatewayConfig:
    """Return the configuration of a gateway, from its file and from the command line, which has the last word."""
    from .gateway import GatewayConfig, UpstreamConfig, load_config

    file = target.text if target.kind == "file" else options.groups
    config = load_config(file) if file is not None else GatewayConfig(source="the command line")
    upstream = config.upstream
    if target.kind != "file":
        if upstream is not None:
            raise ConfigError(f"{file} names a server in [upstream], and the command line another: leave out one.")
        upstream = UpstreamConfig(url=target.text if target.kind == "url" else None, command=target.command or None)
    if upstream is not None and options.start_timeout is not None:
        upstream = upstream.model_copy(update={"start_timeout": options.start_timeout})
    said = {name: value for name in OF_TOOL_SETS if (value := getattr(options, name)) is not None}
    return config.model_copy(update={"upstream": upstream, "options": config.options.model_copy(update=said)})


# -- modules ----------------------------------------------------------------------------------------------------------


async def _made(text: str) -> ToolSet:
    """Return the tool set at `module:attribute`, made if it is a function."""
    name, _, attribute = text.partition(":")
    module = _imported(name, text)
    value = _found(module, attribute)
    if isinstance(value, ToolSet):
        return value
    if not callable(value):
        raise ConfigError(
            f"{text} is a {type(value).__name__}, and neither a ToolSet nor a function that makes one."
            f"{_tool_sets(module)}"
        )
    try:
        inspect.signature(value).bind()
    except TypeError as error:
        raise ConfigError(f"{text} can't be called without arguments: {error}.") from error
    except ValueError:
        pass  # it has no signature to read: calling it will tell
    try:
        made = value()
        if inspect.isawaitable(made):
            made = await made
    except Exception as error:
        raise ConfigError(f"{text} could not make its tool set. {_raised(error)}") from error
    if not isinstance(made, ToolSet):
        raise ConfigError(f"{text} made a {type(made).__name__}, and not a ToolSet.{_tool_sets(module)}")
    return made


def _imported(name: str, text: str) -> ModuleType:
    """Return a module, looked for in the current folder first."""
    folder = str(Path.cwd())
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if missing == name or name.startswith(f"{missing}."):
            raise _no_module(text, missing) from error
        raise ConfigError(f"Module {name!r} needs {missing!r}, which is not installed. {_raised(error)}") from error
    except SystemExit as error:
        raise ConfigError(
            f"Module {name!r} ends the program when it is imported; put what it runs under "
            'if __name__ == "__main__", and what is to be served outside.'
        ) from error
    except Exception as error:
        raise ConfigError(f"Module {name!r} can't be imported. {_raised(error)}") from error


def _no_module(text: str, missing: str) -> ConfigError:
    parent, _, last = missing.rpartition(".")
    places: Iterable[str] = sys.modules[parent].__path__ if parent in sys.modules else sys.path[:1]
    beside = sorted({module.name for module in pkgutil.iter_modules(list(places))})
    where = f"package {parent!r}" if parent else f"the current folder ({Path.cwd()}) and the installed packages"
    if near := get_close_matches(last, beside, n=3):
        prefix = f"{parent}." if parent else ""
        hint = f" Did you mean {_either(prefix + one for one in near)}?"
    elif beside:
        hint = f" {'It' if parent else 'The current folder'} has: {', '.join(beside[:10])}."
    else:
        hint = "" if parent else " There are no modules in the current folder."
    command = "" if ":" in text else " A command goes after --."
    return ConfigError(f"There is no module {missing!r}; searched: {where}.{hint}{command}")


def _found(module: ModuleType, attribute: str) -> Any:
    if not attribute:
        raise ConfigError(f"Which tool set of {module.__name__!r}? Write {module.__name__}:NAME.{_tool_sets(module)}")
    value: Any = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            near = get_close_matches(part, [name for name in dir(value) if not name.startswith("_")], n=3)
            hint = f" Did you mean {_either(near)}?" if near else ""
            raise ConfigError(f"{module.__name__}:{attribute} does not exist.{hint or _tool_sets(module)}")
        value = getattr(value, part)
    return value


def _tool_sets(module: ModuleType) -> str:
    """Return in a sentence what the module has that would do: tool sets, and functions that say they make one."""
    names = [name for name, value in vars(module).items() if isinstance(value, ToolSet) or _makes_one(module, value)]
    if not names:
        return f" There is no ToolSet in {module.__name__!r}."
    return f" In {module.__name__!r} there is {', '.join(f'{module.__name__}:{name}' for name in names)}."


def _makes_one(module: ModuleType, value: Any) -> bool:
    if not inspect.isfunction(value) or value.__module__ != module.__name__:
        return False
    return value.__annotations__.get("return") in (ToolSet, "ToolSet")


def _raised(error: BaseException) -> str:
    """Return what was raised and where: the innermost place that is in the current folder, if any is."""
    frames = traceback.extract_tb(error.__traceback__)
    folder = Path.cwd()
    own = [frame for frame in frames if _is_own(Path(frame.filename), folder)] or frames
    if isinstance(error, SyntaxError) and error.filename:
        return f"{type(error).__name__}: {error.msg} ({Path(error.filename).name}, line {error.lineno})."
    text = f"{type(error).__name__}: {error}".rstrip(".: ")
    return f"{text} ({Path(own[-1].filename).name}, line {own[-1].lineno})."


def _is_own(file: Path, folder: Path) -> bool:
    return file.is_relative_to(folder) and "site-packages" not in file.parts


def _either(names: Iterable[str]) -> str:
    return " or ".join(repr(name) for name in names)
