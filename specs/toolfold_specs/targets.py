"""What `check` and `suite` test: tool sets, servers and drivers, each turned into factories of drivers by setting."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeAlias, TypeGuard, cast

from .driver import Driver
from .drivers.protocol import ERAS

if TYPE_CHECKING:
    from .drivers.description import Description
    from .drivers.in_process import ToolSet
    from .drivers.over_mcp import Address

Factory: TypeAlias = Callable[[], Driver]
Factories: TypeAlias = Factory | Mapping[str, Factory]
Target: TypeAlias = "Factories | ToolSet | str | Sequence[str]"

FORMS: Final = (
    'a ToolSet, "module:attribute", the URL of a server, a command as a list of words, a class of drivers, or a '
    "function that makes one, or a mapping of these functions by setting"
)


def factories_of(target: Target, description: Description | None = None) -> Mapping[str, Factory]:
    """Return the factories of drivers of a target by setting; the name of a single setting may be empty.

    Args:
        target: A `ToolSet` (served in this process, in both eras), "module:attribute" (any of the others), the URL of
            an MCP server, the words of a command that starts one, a function that makes a driver, or several of them
            by setting.
        description: The groups of a server at a URL, or of a command; without one they are found.

    Raises:
        TypeError: It is none of these.
        ImportError: There is no such module.
        AttributeError: The module has no such attribute.
    """
    given = cast("object", target)  # whoever writes no types may give anything
    if _is_tool_set(given):
        return _of_tool_set(given)
    match given:
        case str() if "://" in given:
            return _over_mcp("http", lambda: given, description)
        case str() if ":" in given:
            module, _, attribute = given.partition(":")
            return factories_of(getattr(import_module(module), attribute))
        case list() | tuple() if given and all(isinstance(word, str) for word in cast("Sequence[object]", given)):
            from .drivers.process import Command

            command = Command(cast("Sequence[str]", given))
            return _over_mcp("stdio", lambda: command, description)
        case type() if not issubclass(given, Driver):
            raise TypeError(f"The class {given.__name__} can't be checked; expected {FORMS}.")
        case Mapping() if given and all(map(callable, cast("Mapping[str, object]", given).values())):
            return cast("Mapping[str, Factory]", given)
        case _ if callable(given):
            return {"": cast("Factory", given)}
        case _:
            raise TypeError(f"{given!r} can't be checked; expected {FORMS}.")


def name_of(target: Target) -> str:
    """Return what reports call a target."""
    if isinstance(target, str):
        return target
    if _is_tool_set(target):
        return target.name
    if not callable(target):
        return ", ".join(target) if isinstance(target, Mapping) else shlex.join(cast("Sequence[str]", target))
    module, name = getattr(target, "__module__", ""), getattr(target, "__qualname__", "")
    return f"{module}:{name}" if module and name else "an implementation"


def made(factory: Factory) -> Driver:
    """Return a driver; raises `TypeError` if the function makes something else."""
    driver = cast("object", factory())
    if isinstance(driver, Driver):
        return driver
    hint = ": give the tool set itself" if _is_tool_set(driver) else ""
    raise TypeError(f"{getattr(factory, '__qualname__', factory)} made a {type(driver).__name__}, not a Driver{hint}.")


def _is_tool_set(given: object) -> TypeGuard[ToolSet]:
    """Return whether something is a tool set of `toolfold`, which who has one has imported: it is not imported here."""
    toolfold = sys.modules.get("toolfold")
    return toolfold is not None and isinstance(given, toolfold.ToolSet)


def _of_tool_set(tools: ToolSet) -> Mapping[str, Factory]:
    from .drivers.in_process import described, served

    return _over_mcp("in process", lambda: served(tools), described(tools))


def _over_mcp(transport: str, address: Address, description: Description | None = None) -> Mapping[str, Factory]:
    from .drivers.over_mcp import DriverFactory

    return {f"{transport}, {era}": DriverFactory(address, era, description) for era in ERAS}
