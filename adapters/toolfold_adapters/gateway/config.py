"""The configuration of a gateway, as a TOML file or made in Python (SPEC GWY-2).

exclusions = [["read", "write"]]        # sets of groups of which one is open at a time; before the first table

[upstreams.files]                       # one for each server; [upstream] if there is one server, or none where the
                                        # command line names it
command = ["npx", "-y", "some-server"]  # or: url = "https://example.org/mcp"
env = { LOG = "1" }                     # more for its environment, which is that of the gateway
cwd = "/srv/data"
start_timeout = 30                      # seconds to start and list its tools
mode = "legacy"                         # or "auto": how the revision of the protocol is agreed on

[groups.read]                           # [groups."read.logs"], or parent = "read", is inside it
tools = ["get_*", "list_*"]             # the first group in the file that matches a tool has it
description = "Look, change nothing"
title = "Reading"

[profiles.viewer]
active = ["read"]
available = ["*"]
description = "For a look around"

[options]
control = "per_group"                   # and control_visibility ("relevant"), on_hidden ("hint"), max_active, evict,
                                        # page_size
"""

from __future__ import annotations

import tomllib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from toolfold import ConfigError, Profile, ToolfoldError, ToolSet

Texts = tuple[str, ...]
ONE_SERVER = "upstream"
"""The name of the only server of a configuration that gives it none."""
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


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class UpstreamConfig(_Table):
    """The MCP server behind a gateway: a command that starts it and speaks over stdio, or the URL of a running one.

    Args:
        command: The program and its arguments.
        url: The address of a server that speaks streamable HTTP.
        env: More for the environment of the command, which is otherwise the gateway's own, in full: a server that needs
            a token from its environment gets it, as it would without the gateway.
        cwd: The folder that the command runs in; the gateway's own otherwise.
        start_timeout: Seconds that it may take to start and to list its tools.
        idle_timeout: Seconds after which a connection ends that nobody uses; it starts again on use (SPEC GWY-4).
        shared: Whether all clients share one connection; by default where the server's era has no sessions.
        mode: `"legacy"` to begin with `initialize`, the default for a command, which every server knows; `"auto"` to
            ask for the newest revision first, the default for a URL.
    """

    command: Annotated[Texts, Field(min_length=1)] | None = None
    url: str | None = None
    env: Mapping[str, str] = {}
    cwd: str | None = None
    start_timeout: Annotated[float, Field(gt=0)] = 30
    idle_timeout: Annotated[float, Field(gt=0)] = 600
    shared: bool | None = None
    mode: Literal["legacy", "auto"] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError('give either a command, such as ["npx", "some-server"], or a url')
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise ValueError(f"the url {self.url!r} must start with http:// or https://")
        if self.url is not None and (self.env or self.cwd):
            raise ValueError("env and cwd are for a command; a server at a url has its own")
        return self


class GroupConfig(_Table):
    """A group: the patterns of its tools' names, and texts about it. The description is derived if not given."""

    tools: Texts = ()
    description: str | None = None
    title: str | None = None
    parent: str | None = None


class ProfileConfig(_Table):
    """A profile (SPEC PRO-1)."""

    active: Texts = ()
    available: Texts = ()
    description: str = ""


class OptionsConfig(_Table):
    """Options of the tool set; see `toolfold.ToolSet`."""

    control: str = "per_group"
    control_visibility: str = "relevant"
    on_hidden: Literal["opaque", "hint"] = "hint"
    max_active: Annotated[int, Field(strict=True)] | None = None
    evict: Literal["oldest"] | None = None
    page_size: Annotated[int, Field(strict=True)] | None = None


class GatewayConfig(_Table):
    """Everything that a gateway needs to know.

    Args:
        upstreams: The name of each server to how it is reached; may come later, by `with_upstream`.
        groups: Path or segment to group; `None` to derive the groups from the names of the tools.
        exclusions: Sets of groups of which at most one may be open.
        profiles: Name to profile.
        options: Options of the tool set.
        source: What messages call this configuration: the file's name.
    """

    upstreams: Mapping[str, UpstreamConfig] = {}
    groups: Mapping[str, GroupConfig] | None = None
    exclusions: tuple[Texts, ...] = ()
    profiles: Mapping[str, ProfileConfig] = {}
    options: OptionsConfig = OptionsConfig()
    source: Annotated[str, Field(exclude=True)] = "the gateway's configuration"

    def with_upstream(self, upstream: UpstreamConfig) -> GatewayConfig:
        """Return this configuration for one server, which needs no name of its own."""
        return self.model_copy(update={"upstreams": {ONE_SERVER: upstream}})

    def paths(self) -> dict[str, str]:
        """Return the full path of each configured group by its key, in the order of the file."""
        return {key: _path(key, group.parent) for key, group in (self.groups or {}).items()}

    def new_tool_set(self, name: str) -> ToolSet:
        """Return an empty tool set with the options; raises `ConfigError`."""
        with self.at("[options]"):
            return ToolSet(name, **self.options.model_dump())

    def declare(self, tools: ToolSet, descriptions: Mapping[str, str]) -> None:
        """Register the configured groups, exclusions and profiles.

        Args:
            tools: A tool set in which groups that are not configured exist already.
            descriptions: Path of a group to the description that it has if none is configured.

        Raises:
            ConfigError: Something does not fit, with the name of the file and of the table.
        """
        paths = self.paths()
        for key, group in sorted((self.groups or {}).items(), key=lambda item: paths[item[0]].count(".")):
            with self.at(f"[groups.{_quoted(key)}]"):
                description = descriptions.get(paths[key], "") if group.description is None else group.description
                tools.register_group(paths[key], description, title=group.title)
        for members in self.exclusions:
            with self.at("exclusions"):
                tools.register_exclusion(*members)
        for name, profile in self.profiles.items():
            with self.at(f"[profiles.{_quoted(name)}]"):
                tools.register_profile(Profile(name=name, **profile.model_dump()))

    @contextmanager
    def at(self, place: str) -> Generator[None]:
        """Give errors from within the name of the file and of the place in it."""
        try:
            yield
        except ToolfoldError as error:
            raise ConfigError(f"{self.source}, {place}: {error}") from error


def load_config(path: str | Path) -> GatewayConfig:
    """Return the configuration in a TOML file, checked as far as it can be without the server (SPEC GWY-2).

    Raises:
        ConfigError: The file can't be read, is no TOML, or does not fit; the message names the file, the table and the
            key, and says what to do.
    """
    name = str(path)
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name} is not valid TOML: {error}. Mend it there.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name} is not a text in UTF-8: save it as one.") from error
    except OSError as error:
        raise ConfigError(f"{name} can't be read: {error.strerror or type(error).__name__}.") from error
    if "source" in data:
        raise ConfigError(f"{name}, source: is not known here; remove it.")
    if "upstream" in data:
        if "upstreams" in data:
            raise ConfigError(
                f"{name}: write either [upstream], for one server, or [upstreams.NAME] for each of several."
            )
        data["upstreams"] = {ONE_SERVER: data.pop("upstream")}
    try:
        config = GatewayConfig.model_validate({**data, "source": name})
    except ValidationError as error:
        raise ConfigError("\n".join(_message(name, problem) for problem in error.errors())) from error
    scratch = config.new_tool_set("scratch")
    if config.groups is not None:
        config.declare(scratch, {})
    return config


def _path(key: str, parent: str | None) -> str:
    return key if parent is None or key.startswith(f"{parent}.") else f"{parent}.{key}"


def _message(file: str, problem: Any) -> str:
    """Return one of pydantic's findings as a sentence that names file, table and key."""
    where = list(problem["loc"])
    if where[:2] == ["upstreams", ONE_SERVER]:
        where[:2] = ["upstream"]
    size = 2 if where[0] in ("upstreams", "groups", "profiles") else 1
    table = [str(part) for part in where[:size]] if len(where) > size or problem["type"] == "model_type" else []
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where[len(table) :]).lstrip(".")
    place = f", [{'.'.join(_quoted(part) for part in table)}]" if table else ""
    return f"{file}{place}{f', {key}' if key else ''}: {_problem(problem, table, key)}."


def _problem(problem: Any, table: list[str], key: str) -> str:
    kind = problem["type"]
    if kind == "value_error":
        return str(problem["ctx"]["error"])
    if kind != "extra_forbidden":
        return _PROBLEMS.get(kind, str(problem["msg"]).replace("Input should be", "must be"))
    if table[:1] == ["groups"] and key == "exclusions":
        return "is not known here; put exclusions = [[…, …]] at the top of the file, before the first table"
    if table[:1] == ["groups"] and isinstance(problem["input"], dict):
        return f'is not known here; a group inside this one is written [groups."{table[1]}.{key}"]'
    models: dict[str, type[_Table]] = {
        "upstream": UpstreamConfig,
        "upstreams": UpstreamConfig,
        "groups": GroupConfig,
        "profiles": ProfileConfig,
        "options": OptionsConfig,
    }
    known = models[table[0]] if table else GatewayConfig
    names = ", ".join(name for name in known.model_fields if name != "source")
    return f"is not known here; remove it, or use one of {names}"


def _quoted(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else f'"{key}"'
