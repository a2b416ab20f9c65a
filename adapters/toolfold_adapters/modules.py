"""A tool set in a module or a file of Python: found, imported, and made where a function makes it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
import traceback
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from attrs import frozen

from toolfold import ConfigError, ToolSet

_SHOWN = 10  # names that a message lists at most
_IN_FILE = re.compile(r"(?P<file>.+\.py)(:(?P<attribute>.*))?", re.IGNORECASE | re.DOTALL)


@frozen(kw_only=True)
class Place:
    """Where a tool set is: `module:attribute`, or `path/to/file.py:attribute`.

    Attributes:
        text: How the user wrote it.
        source: The module or the file.
        attribute: The name in it, with dots; empty for the only tool set that there is.
        is_file: Whether the source is a file.
        folder: The folder whose modules can be imported, besides that of the file.
    """

    text: str
    source: str
    attribute: str = ""
    is_file: bool = False
    folder: Path

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders whose modules can be imported, in the order in which they are searched."""
        return (Path(self.source).absolute().parent, self.folder) if self.is_file else (self.folder,)


def parse_place(text: str, folder: Path | None = None) -> Place | None:
    """Return where the tool set is that a text names, without looking there; `None` if it has neither form."""
    folder = (folder or Path()).absolute()
    if named := _IN_FILE.fullmatch(text):
        source, attribute, is_file = named["file"], named["attribute"], True
    else:
        source, colon, attribute = text.partition(":")
        attribute, is_file = attribute if colon else None, False
    names = [*([] if is_file else source.split(".")), *([] if attribute is None else attribute.split("."))]
    if not all(name.isidentifier() for name in names):
        return None
    return Place(text=text, source=source, attribute=attribute or "", is_file=is_file, folder=folder)


def other_file(text: str) -> str | None:
    """Return what is wrong with a text that names a file or a folder, and no module; `None` if it names none."""
    path = Path(text)
    if path.is_dir():
        return f"{text} is a folder; name a file of Python in it: {path / 'FILE.py'}:NAME."
    if path.is_file():
        return f"{text} is neither a file of Python (.py) nor a configuration (.toml)."
    return None


async def tool_set_at(place: Place) -> ToolSet:
    """Return the tool set at a place, made if it is a function.

    Raises:
        ConfigError: It can't be found, imported or made; what was raised is the cause.
    """
    wanted = [str(folder) for folder in place.folders]
    sys.path[:] = [*wanted, *(path for path in sys.path if path not in wanted)]
    importlib.invalidate_caches()
    module = _imported(place)
    value = _found(place, module) if place.attribute else _only(place, module)
    if isinstance(value, ToolSet):
        return value
    if not callable(value):
        raise ConfigError(
            f"{place.text} is of type {type(value).__name__}, and neither a ToolSet nor a function that makes one."
            f"{_what_there_is(place, module)}"
        )
    made = await _made(place, value)
    if not isinstance(made, ToolSet):
        raise ConfigError(
            f"{place.text} returned a value of type {type(made).__name__}, and not a ToolSet."
            f"{_what_there_is(place, module)}"
        )
    return made


async def _made(place: Place, function: Any) -> object:
    """Return what a function makes that takes nothing."""
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise ConfigError(f"{place.text} can't be called without arguments: {error}.") from error
    except ValueError:
        pass  # it has no signature to read: calling it will tell
    try:
        made = function()
        return await made if inspect.isawaitable(made) else made
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{place.text} could not make its tool set. {_raised(place, error)}") from error


# -- import -----------------------------------------------------------------------------------------------------------


def _imported(place: Place) -> ModuleType:
    try:
        return _run_file(place) if place.is_file else importlib.import_module(place.source)
    except ConfigError:
        raise
    except ModuleNotFoundError as error:
        missing = error.name or place.source
        if not place.is_file and (missing == place.source or place.source.startswith(f"{missing}.")):
            raise _no_module(place, missing) from error
        raise ConfigError(
            f"{_titled(place)} needs {missing!r}, which is not installed. {_raised(place, error)}"
        ) from error
    except SystemExit as error:
        raise ConfigError(
            f"{_titled(place)} ends the program when it is imported; put what it runs under "
            'if __name__ == "__main__", and what is to be served outside.'
        ) from error
    except Exception as error:
        raise ConfigError(f"{_titled(place)} can't be imported. {_raised(place, error)}") from error


def _run_file(place: Place) -> ModuleType:
    """Return the module that a file is, under the file's name, as others in its folder import it."""
    path = Path(place.source).absolute()
    if not path.is_file():
        raise _no_file(place, path)
    name = path.stem
    if name in sys.modules:
        if getattr(sys.modules[name], "__file__", None) == str(path):
            return sys.modules[name]
        raise ConfigError(f"{place.source} has the name of another module that is in use, {name!r}: rename the file.")
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _no_module(place: Place, missing: str) -> ConfigError:
    if problem := other_file(place.text):
        return ConfigError(problem)
    parent, _, last = missing.rpartition(".")
    package = sys.modules.get(parent)
    if package is not None and not hasattr(package, "__path__"):
        meant = f" Did you mean {parent}:{last}?" if hasattr(package, last) else ""
        return ConfigError(f"There is no module {missing!r}: {parent!r} is a module, and not a package.{meant}")
    command = "" if ":" in place.text else " A command goes after --."
    if package is not None:
        hint = _hint(last, _modules(package.__path__), "It", f"{parent}.")
        return ConfigError(f"There is no module {missing!r}; searched: package {parent!r}.{hint}{command}")
    folder = "current folder" if place.folder == Path.cwd() else "folder"
    beside = _modules([str(place.folder)])
    hint = _hint(last, beside, f"The {folder}") or f" There are no modules in the {folder}."
    where = f"the {folder} ({place.folder}) and the installed packages"
    return ConfigError(f"There is no module {missing!r}; searched: {where}.{hint}{command}")


def _modules(folders: Iterable[str]) -> list[str]:
    return sorted({module.name for module in pkgutil.iter_modules(list(folders))})


def _no_file(place: Place, path: Path) -> ConfigError:
    if not path.parent.is_dir():
        return ConfigError(f"There is no file {place.source}: there is no folder {path.parent}.")
    beside = sorted(file.name for file in path.parent.glob("*.py"))
    return ConfigError(f"There is no file {place.source}.{_hint(path.name, beside, f'The folder {path.parent}')}")


# -- attributes -------------------------------------------------------------------------------------------------------


def _found(place: Place, module: ModuleType) -> Any:
    value: Any = module
    for part in place.attribute.split("."):
        if not hasattr(value, part):
            near = get_close_matches(part, [name for name in dir(value) if not name.startswith("_")], n=3)
            hint = f" Did you mean {_either(near)}?" if near else _what_there_is(place, module)
            raise ConfigError(f"{place.text} does not exist.{hint}")
        value = getattr(value, part)
    return value


def _only(place: Place, module: ModuleType) -> Any:
    """Return the only tool set of a module, or the only function that says it makes one."""
    there = {id(value): value for value in _tool_sets(module).values()}
    if len(there) == 1:
        return there.popitem()[1]
    raise ConfigError(f"Which tool set of {place.source!r}? Write {place.source}:NAME.{_what_there_is(place, module)}")


def _what_there_is(place: Place, module: ModuleType) -> str:
    """Return in a sentence what the module has that would do."""
    if names := _tool_sets(module):
        return f" In {place.source!r} there is {', '.join(f'{place.source}:{name}' for name in names)}."
    return f" There is no ToolSet in {place.source!r}."


def _tool_sets(module: ModuleType) -> Mapping[str, Any]:
    """Return the tool sets of a module, and the functions that say they make one, by name."""
    there = vars(module).items()
    return {name: value for name, value in there if isinstance(value, ToolSet) or _makes_one(module, value)}


def _makes_one(module: ModuleType, value: Any) -> bool:
    if not inspect.isfunction(value) or value.__module__ != module.__name__:
        return False
    return value.__annotations__.get("return") in (ToolSet, "ToolSet")


# -- messages ---------------------------------------------------------------------------------------------------------


def _raised(place: Place, error: BaseException) -> str:
    """Return what was raised and where: the innermost place that is in the user's folders, if any is."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{type(error).__name__}: {error.msg} ({Path(error.filename).name}, line {error.lineno})."
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_own(Path(frame.filename), place.folders)] or frames
    text = f"{type(error).__name__}: {error}".rstrip(".: ")
    return f"{text} ({Path(own[-1].filename).name}, line {own[-1].lineno})."


def _is_own(file: Path, folders: Iterable[Path]) -> bool:
    return any(file.is_relative_to(folder) for folder in folders) and "site-packages" not in file.parts


def _titled(place: Place) -> str:
    return f"The file {place.source}" if place.is_file else f"Module {place.source!r}"


def _hint(name: str, beside: list[str], where: str, prefix: str = "") -> str:
    """Return a sentence with those that have a similar name, or else with some that there are; nothing if none are."""
    if near := get_close_matches(name, beside, n=3):
        return f" Did you mean {_either(prefix + one for one in near)}?"
    return f" {where} has: {', '.join(beside[:_SHOWN])}." if beside else ""


def _either(names: Iterable[str]) -> str:
    return " or ".join(repr(name) for name in names)
