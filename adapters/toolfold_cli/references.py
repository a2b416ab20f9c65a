"""Objects named `module:attribute` or `path/to/file.py:attribute`: imported, and made if a function makes them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
import traceback
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from attrs import frozen

from toolfold import ConfigError

MOST_NAMES = 10
"""The maximum number of names in a message."""
_FILE = re.compile(r"(?P<file>.+\.py)(:(?P<attribute>.*))?", re.IGNORECASE | re.DOTALL)


@frozen(kw_only=True)
class Reference:
    """The name of an object: `module:attribute` or `path/to/file.py:attribute`.

    Attributes:
        text: As the user wrote it.
        source: The module or the file.
        attribute: The attribute, with dots; empty for the only suitable one.
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
        """The folders whose modules can be imported, in search order."""
        return (Path(self.source).absolute().parent, self.folder) if self.is_file else (self.folder,)

    @property
    def title(self) -> str:
        """The module or the file, as the beginning of a sentence."""
        return f"The file {self.source}" if self.is_file else f"Module {self.source!r}"

    def describe(self, error: BaseException) -> str:
        """Return an error and where it was raised: the innermost line in the user's folders, if there is one."""
        if isinstance(error, SyntaxError) and error.filename:
            return f"{type(error).__name__}: {error.msg} ({Path(error.filename).name}, line {error.lineno})."
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if _is_below(Path(frame.filename), self.folders)] or frames
        text = f"{type(error).__name__}: {error}".rstrip(".: ")
        return f"{text} ({Path(own[-1].filename).name}, line {own[-1].lineno})."


def parse_reference(text: str, folder: Path | None = None) -> Reference | None:
    """Return a text as a reference, without importing it; `None` if it is not one."""
    folder = (folder or Path()).absolute()
    if match := _FILE.fullmatch(text):
        source, attribute, is_file = match["file"], match["attribute"], True
    else:
        source, colon, attribute = text.partition(":")
        attribute, is_file = attribute if colon else None, False
    names = [*([] if is_file else source.split(".")), *([] if attribute is None else attribute.split("."))]
    if not all(name.isidentifier() for name in names):
        return None
    return Reference(text=text, source=source, attribute=attribute or "", is_file=is_file, folder=folder)


def not_a_module(text: str) -> str | None:
    """Return the problem with the path of a folder or of a file that is not a module; `None` if it is neither."""
    path = Path(text)
    if path.is_dir():
        return f"{text} is a folder without a SKILL.md; name a Python file in it: {path / 'FILE.py'}:NAME."
    if path.is_file():
        return f"{text} is neither a Python file (.py) nor a configuration (.toml)."
    return None


@frozen
class Loaded:
    """An object that a reference names: an instance of one of the wanted types, or a callable that may make one."""

    reference: Reference
    module: ModuleType
    types: tuple[type, ...]
    value: Any

    def call(self) -> Any:
        """Return the object itself, or the result of calling it, which may have to be awaited.

        Raises:
            ConfigError: It takes arguments, or raised an error, which is the cause.
        """
        if isinstance(self.value, self.types):
            return self.value
        try:
            inspect.signature(self.value).bind()
        except TypeError as error:
            raise ConfigError(f"{self.reference.text} can't be called without arguments: {error}.") from error
        except ValueError:
            pass  # it has no signature: the call below decides
        with self._failing():
            return self.value()

    async def instance(self) -> Any:
        """Return an instance of one of the wanted types: the object itself, or its result.

        Raises:
            ConfigError: It takes arguments, raised an error or returned something else.
        """
        made = self.call()
        with self._failing():
            made = await made if inspect.isawaitable(made) else made
        return self.checked(made)

    def checked(self, made: object) -> Any:
        """Return `made`; raises `ConfigError` unless it is an instance of one of the wanted types."""
        if isinstance(made, self.types):
            return made
        raise ConfigError(
            f"{self.reference.text} returned a value of type {type(made).__name__}, not {_one_of(self.types)}."
            f"{_candidates_in_words(self.reference, self.module, self.types)}"
        )

    @contextmanager
    def _failing(self) -> Generator[None]:
        try:
            yield
        except (Exception, SystemExit) as error:
            raise ConfigError(f"{self.reference.text} raised {self.reference.describe(error)}") from error


def load(reference: Reference, *types: type) -> Loaded:
    """Return the object that a reference names, imported.

    Args:
        reference: The name of an instance of one of the types, or of a callable that makes one.
        types: The types that are wanted.

    Raises:
        ConfigError: It can't be found or imported, or is neither; the cause is the original error.
    """
    folders = [str(folder) for folder in reference.folders]
    sys.path[:] = [*folders, *(path for path in sys.path if path not in folders)]
    importlib.invalidate_caches()
    module = _imported(reference)
    find = _attribute if reference.attribute else _only_candidate
    value = find(reference, module, types)
    if isinstance(value, types) or callable(value):
        return Loaded(reference, module, types, value)
    raise ConfigError(
        f"{reference.text} is of type {type(value).__name__}; expected {_one_of(types)}, or a function that makes one."
        f"{_candidates_in_words(reference, module, types)}"
    )


# -- import -----------------------------------------------------------------------------------------------------------


def _imported(reference: Reference) -> ModuleType:
    title = reference.title
    try:
        return _import_file(reference) if reference.is_file else importlib.import_module(reference.source)
    except ConfigError:
        raise
    except ModuleNotFoundError as error:
        missing = error.name or reference.source
        if not reference.is_file and (missing == reference.source or reference.source.startswith(f"{missing}.")):
            raise _no_module(reference, missing) from error
        raise ConfigError(f"{title} needs {missing!r}, which is not installed. {reference.describe(error)}") from error
    except SystemExit as error:
        raise ConfigError(
            f"{title} exits when it is imported; put the code that runs it under "
            'if __name__ == "__main__", and the tool set outside.'
        ) from error
    except Exception as error:
        raise ConfigError(f"{title} can't be imported. {reference.describe(error)}") from error


def _import_file(reference: Reference) -> ModuleType:
    """Return a file as a module of the same name, by which others in its folder import it."""
    path = Path(reference.source).absolute()
    if not path.is_file():
        raise _no_file(reference, path)
    name = path.stem
    if name in sys.modules:
        if getattr(sys.modules[name], "__file__", None) == str(path):
            return sys.modules[name]
        raise ConfigError(
            f"{reference.source} has the name of another module that is in use, {name!r}: rename the file."
        )
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


def _no_module(reference: Reference, missing: str) -> ConfigError:
    if problem := not_a_module(reference.text):
        return ConfigError(problem)
    parent, _, last = missing.rpartition(".")
    package = sys.modules.get(parent)
    if package is not None and not hasattr(package, "__path__"):
        hint = f" Did you mean {parent}:{last}?" if hasattr(package, last) else ""
        return ConfigError(f"There is no module {missing!r}: {parent!r} is a module, not a package.{hint}")
    command = "" if ":" in reference.text else " A command goes after --."
    if package is not None:
        hint = _hint(last, _modules(package.__path__), "It", f"{parent}.")
        return ConfigError(f"There is no module {missing!r}; searched: package {parent!r}.{hint}{command}")
    folder = "current folder" if reference.folder == Path.cwd() else "folder"
    siblings = _modules([str(reference.folder)])
    hint = _hint(last, siblings, f"The {folder}") or f" There are no modules in the {folder}."
    searched = f"the {folder} ({reference.folder}) and the installed packages"
    return ConfigError(f"There is no module {missing!r}; searched: {searched}.{hint}{command}")


def _modules(folders: Iterable[str]) -> list[str]:
    return sorted({module.name for module in pkgutil.iter_modules(list(folders))})


def _no_file(reference: Reference, path: Path) -> ConfigError:
    if not path.parent.is_dir():
        return ConfigError(f"There is no file {reference.source}: there is no folder {path.parent}.")
    siblings = sorted(file.name for file in path.parent.glob("*.py"))
    return ConfigError(f"There is no file {reference.source}.{_hint(path.name, siblings, f'The folder {path.parent}')}")


# -- attributes -------------------------------------------------------------------------------------------------------


def _attribute(reference: Reference, module: ModuleType, types: tuple[type, ...]) -> Any:
    value: Any = module
    for part in reference.attribute.split("."):
        if not hasattr(value, part):
            near = get_close_matches(part, [name for name in dir(value) if not name.startswith("_")], n=3)
            hint = f" Did you mean {_either(near)}?" if near else _candidates_in_words(reference, module, types)
            raise ConfigError(f"{reference.text} does not exist.{hint}")
        value = getattr(value, part)
    return value


def _only_candidate(reference: Reference, module: ModuleType, types: tuple[type, ...]) -> Any:
    found = {id(value): value for value in _candidates(module, types).values()}
    if len(found) == 1:
        return found.popitem()[1]
    raise ConfigError(
        f"Which object in {reference.source!r}? Write {reference.source}:NAME."
        f"{_candidates_in_words(reference, module, types)}"
    )


def _candidates_in_words(reference: Reference, module: ModuleType, types: tuple[type, ...]) -> str:
    """Return a sentence that names the suitable objects in the module."""
    source = reference.source
    if names := _candidates(module, types):
        return f" In {source!r} there is {', '.join(f'{source}:{name}' for name in names)}."
    return f" There is no {' or '.join(kind.__name__ for kind in types)} in {source!r}."


def _candidates(module: ModuleType, types: tuple[type, ...]) -> Mapping[str, Any]:
    """Return the instances of the types in a module, and its functions that are annotated to return one, by name."""
    attributes = vars(module).items()
    return {name: value for name, value in attributes if isinstance(value, types) or _makes(value, module, types)}


def _makes(value: Any, module: ModuleType, types: tuple[type, ...]) -> bool:
    if not inspect.isfunction(value) or value.__module__ != module.__name__:
        return False
    return value.__annotations__.get("return") in (*types, *(kind.__name__ for kind in types))


# -- messages ---------------------------------------------------------------------------------------------------------


def _is_below(file: Path, folders: Iterable[Path]) -> bool:
    return any(file.is_relative_to(folder) for folder in folders) and "site-packages" not in file.parts


def _hint(name: str, siblings: list[str], where: str, prefix: str = "") -> str:
    """Return a sentence with similar names, or else with some that exist; empty if there are none."""
    if near := get_close_matches(name, siblings, n=3):
        return f" Did you mean {_either(prefix + one for one in near)}?"
    return f" {where} has: {', '.join(siblings[:MOST_NAMES])}." if siblings else ""


def _either(names: Iterable[str]) -> str:
    return " or ".join(repr(name) for name in names)


def _one_of(types: Iterable[type]) -> str:
    return " or ".join(f"a {kind.__name__}" for kind in types)
