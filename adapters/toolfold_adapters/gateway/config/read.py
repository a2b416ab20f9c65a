"""Reads the configuration of a gateway from a file: its own TOML, or that of a client unchanged (SPEC GWY-2).

One entry of a server that is wrong is left out, and reported in one sentence with file and place; the other servers are
served. Whatever else is wrong is an error.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from pydantic import TypeAdapter, ValidationError

from toolfold import ConfigError, ManifestError, ToolfoldError
from toolfold.spi import array, extras_named, table

from ...files import quoted_key, read_table, read_text
from ...hosts import SECTIONS, Host, host_of
from ...names import ONE_SERVER, server_name
from ...skills import Skill, skills_in
from ..registration import check_config
from .clients import (
    OTHER_NAMES,
    Variables,
    check_switches,
    is_disabled,
    passed_over,
    permissions_in,
    servers_in,
    settings_of,
    with_texts,
)
from .settings import (
    AuditConfig,
    BudgetsConfig,
    GatewayConfig,
    GroupConfig,
    OAuthConfig,
    OptionsConfig,
    ProfileConfig,
    RightsConfig,
    UpstreamConfig,
)

_PROBLEMS = {
    "bool_type": "must be true or false",
    "dict_type": "must be a table",
    "float_type": "must be a number",
    "greater_than": "must be more than 0",
    "int_type": "must be a whole number",
    "missing": "must be given",
    "model_type": "must be a table",
    "string_type": 'must be a text in quotes, such as "…"',
    "too_short": "must not be empty",
    "tuple_type": 'must be a list, such as ["…", "…"]',
}
_TABLES: dict[str, Any] = {
    "upstreams": UpstreamConfig,
    "groups": GroupConfig,
    "profiles": ProfileConfig,
    "rights": RightsConfig,
    "audit": AuditConfig,
    "budgets": BudgetsConfig,
    "options": OptionsConfig,
}
_NOT_IN_FILES = ("source", "place", "left_out", "problems")


Bounds = tuple[dict[str, RightsConfig], dict[str, ProfileConfig], dict[str, GroupConfig]]
"""The rows of rights, with the profiles that they name, and the groups if they name any or such a profile may."""


def load_config(
    path: str | Path, environ: Mapping[str, str] | None = None, folder: Path | None = None
) -> GatewayConfig:
    """Return the configuration in a file, checked as far as it can be without the servers.

    SPEC GWY-2.

    Args:
        path: A `.toml` file, of the gateway's own form or that of Codex, or a `.json`, `.jsonc` or `.yaml` file of
            another client.
        environ: What variables in it stand for; the environment unless given.
        folder: The project that a client is open in; the current folder unless given.

    Raises:
        ConfigError: The file can't be read, or does not fit; the message names the file, the place in it and the key,
            and says what to do.
    """
    file = Path(path)
    return parse_config(file, read_table(file), environ, folder)


def parse_config(
    file: Path, data: Mapping[str, Any], environ: Mapping[str, str] | None, folder: Path | None = None
) -> GatewayConfig:
    """Return the configuration in the data of a file; see `load_config`."""
    folder = folder or Path.cwd()
    try:
        servers = servers_in(data, str(folder))
    except ConfigError as error:
        raise ConfigError(f"{file}, {error}") from error
    variables = Variables(
        os.environ if environ is None else environ, _workspace(file, folder), servers.inputs if servers else {}
    )
    if servers is None and file.suffix.lower() != ".toml":
        raise ConfigError(f"{file} names no servers: it has none of {', '.join(SECTIONS)}.")
    if servers is None:
        config = _own(file, {**data}, variables)
        check_config(config)
        return config
    repeated, section = getattr(servers.entries, "repeated", {}), ".".join(servers.section)
    host = host_of(file)
    reader = _Entries(
        file,
        variables,
        lambda name: f"{section}.{name}",
        lambda entry: _client_settings(variables, entry, host),
    )
    reader.read(servers.entries)
    if not servers.entries or (len(servers.entries) == len(reader.left_out) and not reader.wrong):
        raise ConfigError(f"{file}, {section}: no server is enabled; add or enable one.")
    problems = [f"{file}: {key} is given twice; merge the two." for key in getattr(data, "repeated", {})]
    problems += [
        f"{file}, {section}: there are two servers named {name!r}, so the second is left out; rename one."
        for name in repeated
    ]
    running = {name: one for name, one in servers.entries.items() if not is_disabled(one)}
    for keys_of, why, then in (
        (passed_over, "it changes nothing that is run", ""),
        (permissions_in, OTHER_NAMES, " Set it anew in the client."),
    ):
        if over := [f"{name}.{key}" for name, one in running.items() for key in keys_of(one)]:
            problems.append(f"{file}, {section}: passed over, since {why}: {', '.join(over)}.{then}")
    return reader.config({}, problems)


def bounds_in(path: str | Path) -> Bounds:
    """Return what callers may do, as a file says it whatever else is in it; raises `ConfigError`."""
    data = read_table(Path(path))
    try:
        return _bounds(
            TypeAdapter(dict[str, RightsConfig]).validate_python(data.get("rights", {})),
            TypeAdapter(dict[str, ProfileConfig]).validate_python(data.get("profiles", {})),
            TypeAdapter(dict[str, GroupConfig]).validate_python(data.get("groups", {})),
        )
    except ValidationError as error:
        raise ConfigError(f"{path}, rights, profiles and groups: {error}") from error


def bounds_of(config: GatewayConfig) -> Bounds:
    """Return the same of a configuration."""
    return _bounds(config.rights, config.profiles, config.groups or {})


def _bounds(
    rights: Mapping[str, RightsConfig], profiles: Mapping[str, ProfileConfig], groups: Mapping[str, GroupConfig]
) -> Bounds:
    left, named = [row.profile for row in rights.values()], dict[str, ProfileConfig]()
    while left:
        name = left.pop()
        if name is not None and name in profiles and name not in named:
            named[name] = profiles[name]
            left.append(profiles[name].within)
    of_groups = named or any(row.groups for row in rights.values())
    return dict(rights), named, dict(groups) if of_groups else {}


def has_rights(path: str | Path) -> bool:
    """Return whether a file says anything of what callers may do, right or wrong."""
    try:
        return "rights" in read_table(Path(path))
    except ToolfoldError:
        return False


def _workspace(file: Path, project: Path) -> Path:
    """Return the folder that editors call the workspace: that of the project whose configuration it is.

    The configuration of a VS Code user is that of no project: the editor starts servers in the one that is open.
    """
    folder = file.resolve().parent
    if folder.name in (".vscode", ".cursor"):
        return folder.parent
    return project if "User" in folder.parts else folder


def _own(file: Path, data: dict[str, Any], variables: Variables) -> GatewayConfig:
    """Return a configuration of the gateway's own form."""
    if "upstream" in data and "upstreams" in data:
        raise ConfigError(f"{file}: write either [upstream], for one server, or [upstreams.NAME] for each of several.")
    for key in _NOT_IN_FILES:
        if key in data:
            raise ConfigError(f"{file}, {key}: is not known here; remove it.")
    if "skills" in data:
        data["skills"] = _skills(file, data["skills"])
    single = "upstream" in data
    entries = {ONE_SERVER: data.pop("upstream")} if single else data.pop("upstreams", {})
    if (servers := table(entries)) is None:
        raise ConfigError(f"{file}, upstreams: must be a table of servers, [upstreams.NAME].")

    def place(name: str) -> str:
        return "[upstream]" if single else f"[upstreams.{quoted_key(name)}]"

    reader = _Entries(file, variables, place, _own_settings)
    reader.read(servers, str if single else server_name)
    return reader.config(data)


def _skills(file: Path, given: object) -> tuple[Skill, ...]:
    """Return the skills in folders, which are relative to the file (SPEC SKL-2)."""
    folders = array(given)
    if folders is None or not all(isinstance(one, str) for one in folders):
        raise ConfigError(f"{file}, skills: must be a list of folders.")
    try:
        return tuple(skill for one in folders for skill in skills_in(file.parent / Path(one).expanduser()))
    except ManifestError as error:
        raise ConfigError(f"{file}, skills: {error}") from error


def _client_settings(variables: Variables, entry: Any, host: Host | None) -> dict[str, Any]:
    """Return the settings of a client's entry, with the environment that it takes from the client's and from a file.

    What the entry itself says has precedence; null is no variable. A host that gives its servers little of its own
    environment gives them no more through a gateway (SPEC GWY-8).
    """
    variable = host.variable if host else None
    if repeated := getattr(entry, "repeated", None):
        raise ConfigError(f"{min(repeated)}: is given twice; merge the two")
    as_others_write = entry if variable is None else with_texts(entry, partial(re.sub, variable, r"${\1}"))
    settings = settings_of(as_others_write)
    environment = {name: variables.environ.get(name) for name in settings.pop("env_vars", ())}
    if (file := settings.pop("env_file", None)) is not None:
        environment |= _env_file(file, variables)
    literal = {name: value and value.replace("${", "$${") for name, value in environment.items()}
    texts = {name: value for name, value in {**literal, **settings.pop("env", {})}.items() if value is not None}
    if host is not None and host.environment != "inherited" and "command" in settings:
        settings.setdefault("environment", host.environment)
    return {**settings, "env": texts} if texts else settings


def _env_file(file: Any, variables: Variables) -> dict[str, str | None]:
    """Return the variables in a file; raises `ConfigError`, whose message begins with the key."""
    if not isinstance(file, str):
        raise ConfigError("envFile: must be a text in quotes")
    with extras_named():
        from dotenv import dotenv_values
    try:
        text = read_text(variables.folder / variables.expand(file), regular=False, pipe=True)
    except ManifestError as error:
        raise ConfigError(f"envFile: {file}: {error.problem}") from error
    return dotenv_values(stream=StringIO(text), interpolate=False)


def _own_settings(entry: Any) -> dict[str, Any]:
    if (settings := table(entry)) is None:
        raise ConfigError("must be a table")
    check_switches(settings)
    return {key: value for key, value in settings.items() if key != "disabled"}


class _Entries:
    """The servers of one file, read one by one."""

    def __init__(
        self, file: Path, variables: Variables, place: Callable[[str], str], settings: Callable[[Any], dict[str, Any]]
    ) -> None:
        self._file = file
        self._variables = variables
        self._place = place
        self._settings = settings
        self._upstreams: dict[str, UpstreamConfig] = {}
        self.left_out: list[str] = []
        self.wrong: list[str] = []

    def read(self, entries: Mapping[str, Any], name_of: Callable[[str], str] = server_name) -> None:
        """Take the servers that are right, called what `name_of` says, and note what is wrong with the others."""
        named: dict[str, str] = {}
        for given, entry in entries.items():
            if is_disabled(entry):
                self.left_out.append(given)
                continue
            try:
                name = name_of(given)
                if name in named:
                    raise ConfigError(f"it is called {name} here, as {named[name]!r} is; rename one of them")
                named[name] = given
                self._upstreams[name] = self._upstream(given, name, entry)
            except ValidationError as error:
                self._leave_out(given, *(key_problem(problem, UpstreamConfig) for problem in error.errors()))
            except ConfigError as error:
                self._leave_out(given, f": {error}.")

    def config(self, data: Mapping[str, Any], problems: Sequence[str] = ()) -> GatewayConfig:
        """Return the configuration of the servers that were read, and of what else the file says.

        `problems` are sentences on what is wrong with it beside single servers.
        """
        if self.wrong and not self._upstreams:
            raise ConfigError("\n".join([*self.wrong, *problems]))
        if data.get("rights") == {}:  # without the table everybody may do everything, which an empty one can't mean
            raise ConfigError(f'{self._file}, rights: there is no row: add one, such as [rights."*"], or leave it out.')
        problems = [*(f"{problem} The server is left out." for problem in self.wrong), *problems]
        values = {"upstreams": self._upstreams, "left_out": self.left_out, "problems": problems}
        try:
            place = str(self._file.resolve())
            return GatewayConfig.model_validate({**data, **values, "source": str(self._file), "place": place})
        except ValidationError as error:
            raise ConfigError("\n".join(_message(str(self._file), problem) for problem in error.errors())) from error

    def _upstream(self, given: str, name: str, entry: Any) -> UpstreamConfig:
        settings = self._variables.expand(self._settings(entry))
        if name != given:
            settings.setdefault("title", given)
        config = UpstreamConfig.model_validate(settings)
        if config.command and _serves(config.command, self._file):
            raise ConfigError("it starts Toolfold with this very file; remove it")
        return config

    def _leave_out(self, name: str, *problems: str) -> None:
        self.left_out.append(name)
        self.wrong += [f"{self._file}, {self._place(name)}{problem}" for problem in problems]


def _serves(command: Iterable[str], file: Path) -> bool:
    words = list(command)
    return any("toolfold" in Path(word).name for word in words) and any(
        word.endswith(file.suffix) and Path(word).expanduser().resolve() == file.resolve() for word in words
    )


def _message(file: str, problem: Any) -> str:
    """Return one of pydantic's findings as a sentence that names file, table and key."""
    where = list(problem["loc"])
    size = 2 if where[0] in ("groups", "profiles", "rights") else 1
    in_table = len(where) > size or problem["type"] == "model_type"
    if not in_table:
        return f"{file}{key_problem(problem, GatewayConfig)}"
    names = [str(part) for part in where[:size]]
    place = ".".join(quoted_key(part) for part in names)
    return f"{file}, [{place}]{key_problem({**problem, 'loc': where[size:]}, _TABLES.get(names[0]), names)}"


def key_problem(problem: Any, model: Any, table_names: list[str] | None = None) -> str:
    """Return the rest of the sentence about a key of the table that `model` is for."""
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"]).lstrip(".")
    return f"{f', {key}' if key else ''}: {_problem(problem, model, table_names or [], key)}."


def _problem(problem: Any, model: Any, names: list[str], key: str) -> str:
    kind = problem["type"]
    if kind == "value_error":
        return str(problem["ctx"]["error"])
    if kind != "extra_forbidden":
        return _PROBLEMS.get(kind, str(problem["msg"]).replace("Input should be", "must be"))
    if names[:1] == ["groups"] and key == "exclusions":
        return "is not known here; put exclusions = [[…, …]] at the top of the file, before the first table"
    if names[:1] == ["groups"] and isinstance(problem["input"], dict):
        return f'is not known here; a group inside this one is written [groups."{names[1]}.{key}"]'
    if model is UpstreamConfig and key.startswith("oauth."):
        model = OAuthConfig
    known = ", ".join(name for name in model.model_fields if name not in _NOT_IN_FILES)
    return f"is not known here; remove it, or use one of {known}"


# -- edited while a gateway serves it (SPEC GWY-9) --------------------------------------------------------------------


async def changes_of(*paths: Path) -> AsyncIterator[object]:
    """Yield after each change of files, in place or by replacing them, or in folders; it never ends.

    The paths must be resolved, and the folders exist.
    """
    from watchfiles import watch

    # Editors replace files, so folders are what can be watched.
    folders = {path if path.is_dir() else path.parent for path in paths}

    def concerns(_: object, name: str) -> bool:
        return any(path in (Path(name), Path(name).parent) for path in paths)

    stop = threading.Event()  # `awatch` would take seconds to be cancelled
    changes = watch(*folders, watch_filter=concerns, stop_event=stop, recursive=False)
    try:
        while (change := await anyio.to_thread.run_sync(next, changes, None, abandon_on_cancel=True)) is not None:
            yield change
    finally:
        stop.set()
