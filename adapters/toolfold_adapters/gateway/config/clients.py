"""The configurations of MCP clients, read as they are (SPEC GWY-2).

Clients say the same in slightly different words: an entry becomes the settings of an `UpstreamConfig`, not yet checked.
What clients store for themselves, such as which tools their user has allowed, is passed over (see `hosts`); a key that
no client is known to have is refused, for it may be a misspelt one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, cast

from attrs import frozen

from toolfold import ConfigError
from toolfold.spi import table

from .hosts import HOSTS, SECTIONS

_TRANSPORTS = {
    **dict.fromkeys(("http", "streamable-http", "streamableHttp", "streamable_http", "remote"), "http"),
    **dict.fromkeys(("stdio", "local"), None),
    "sse": "sse",
}
_SETTINGS = {
    **dict.fromkeys(("url", "uri", "serverUrl", "httpUrl", "baseUrl"), "url"),
    **dict.fromkeys(("headers", "http_headers"), "headers"),
    **dict.fromkeys(("tools", "includeTools", "enabled_tools", "available_tools"), "include_tools"),
    **dict.fromkeys(("excludeTools", "disabledTools", "disabled_tools"), "exclude_tools"),
    **{name: name for name in ("cwd", "title", "description")},
    "startup_timeout_sec": "start_timeout",
}
_TYPES = ("type", "transport", "transportType")
_ENVIRONMENTS = ("env", "environment", "envs")
_WITH_RULES = (
    *("args", "bearer_token_env_var", "cmd", "command", "env_http_headers", "env_keys", "env_vars", "envFile"),
    *("requestOptions", "startup_timeout_ms", *_ENVIRONMENTS, *_TYPES),
)
_SWITCHES = {"disabled": True, "enabled": False, "isActive": False}
_OF_THE_CLIENT = frozenset(
    {
        *(
            "autoStart",
            "displayName",
            "icon",
            "id",
            "initTimeout",
            "name",
            "provider",
            "registry",
            "tags",
            "watchPaths",
        ),
        *(key for host in HOSTS for key in (*host.entry, *host.most, *host.every)),
        *(key for host in HOSTS for key in (*host.permissions, *host.passed_over)),
    }
) - {*_SETTINGS, *_WITH_RULES, *_SWITCHES}
_BUILT_IN = ("builtin", "platform", "frontend", "inline_python")  # parts of Goose itself, beside its servers
_SHARED_KEYS = ("extensions", "mcp")  # other files have them too
_UNSUPPORTED = {
    "headersHelper": "give the headers in headers, with ${VAR} for what is secret",
    "bearer_token": "name the environment variable that has it, in bearer_token_env_var",
}
_KNOWN = frozenset({*_SETTINGS, *_WITH_RULES, *_SWITCHES, *_OF_THE_CLIENT})


@frozen(kw_only=True)
class ClientServers:
    """The servers in the configuration of a client.

    `section` is where they stand in it, `entries` maps a name to what is said of it, and `inputs` is what VS Code would
    ask its user for: an id to the default.
    """

    section: str
    entries: Mapping[str, Any]
    inputs: Mapping[str, str | None]


def servers_in(data: Mapping[str, Any], folder: str = "") -> ClientServers | None:
    """Return the servers in the data of a client's configuration, or `None` if it is none.

    Args:
        data: The data of the file.
        folder: The project whose servers are wanted too, where the file has some for each project, as Claude Code's.

    Raises:
        ConfigError: They are no table.
    """
    of_project = table((table((table(data.get("projects")) or {}).get(folder)) or {}).get("mcpServers")) or {}
    for section in SECTIONS:
        *above, key = section.split(".")
        part = table(data.get(above[0])) or {} if above else data
        if key not in part or (section in _SHARED_KEYS and not _has_servers(part[key])):
            continue
        if (entries := _by_name(part[key])) is None:
            raise ConfigError(f"{section} must be a table of servers by their names.")
        entries = {**entries, **of_project} if of_project else entries
        return ClientServers(section=section, entries=entries, inputs=_inputs(part.get("inputs")))
    return ClientServers(section="mcpServers", entries=of_project, inputs={}) if of_project else None


def _has_servers(given: Any) -> bool:
    """Return whether a table that is called as others are has servers in it."""
    entries = table(given) or {}
    return bool(entries) and all({"type", "cmd", "command"} & (table(entry) or {}).keys() for entry in entries.values())


def _by_name(given: Any) -> Mapping[str, Any] | None:
    """Return servers by their names, also of a list; `None` if they have none."""
    if isinstance(given, list):
        items = [table(item) or {} for item in _listed(given)]
        names = [item.get("name") for item in items]
        given = {name: item for name, item in zip(names, items, strict=True) if isinstance(name, str)}
        return given if len(given) == len(items) else None
    if (entries := table(given)) is None or not any(_is_built_in(entry) for entry in entries.values()):
        return entries
    return {name: entry for name, entry in entries.items() if not _is_built_in(entry)}


def _is_built_in(entry: Any) -> bool:
    return (table(entry) or {}).get("type") in _BUILT_IN


def is_disabled(entry: Any) -> bool:
    """Return whether its user has turned a server off."""
    given = table(entry) or {}
    return any(given.get(key) is value for key, value in _SWITCHES.items())


def settings_of(entry: Any) -> dict[str, Any]:
    """Return the settings of an `UpstreamConfig`, not yet checked, for a client's entry.

    Raises:
        ConfigError: It has a key that is not known, or something that is not what it should be; the message begins with
            the key.
    """
    if (given := table(entry)) is None:
        raise ConfigError("must be a table")
    given = {key: value for key, value in given.items() if value is not None}
    for key in given:
        if key in _UNSUPPORTED:
            raise ConfigError(f"{key}: is not supported; {_UNSUPPORTED[key]}")
        if key not in _KNOWN and not key.startswith(("_", "//", "x-")):
            near = get_close_matches(key, _KNOWN - _OF_THE_CLIENT, 1)
            raise ConfigError(f"{key}: is not known here; remove it{f', or write {near[0]}' if near else ''}")
    if table(given.get("tools")) is not None:
        del given["tools"]  # Codex has there what its user allows of each tool
    if not given.get("available_tools", True):
        del given["available_tools"]  # Goose means all by none
    settings = {_SETTINGS[key]: value for key, value in given.items() if key in _SETTINGS}
    rest = (_transport(given), _command(given), _environment(given), _headers(given), _start_timeout(given))
    return {key: value for part in (settings, *rest) for key, value in part.items()}


def _inputs(given: Any) -> dict[str, str | None]:
    inputs = [table(one) or {} for one in _listed(given)]
    return {str(one.get("id")): one["default"] if isinstance(one.get("default"), str) else None for one in inputs}


def _listed(given: Any) -> list[Any]:
    return [*cast("Iterable[Any]", given)] if isinstance(given, list) else []


def _transport(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the transport that an entry names; without one, the end of its URL shows the older one."""
    key = next((key for key in _TYPES if key in given), None)
    if key is None:
        address = next((given[key] for key in given if _SETTINGS.get(key) == "url"), None)
        older = isinstance(address, str) and address.partition("?")[0].rstrip("/").endswith("/sse")
        return {"transport": "sse"} if older else {}
    kind = given[key]
    if not isinstance(kind, str) or kind not in _TRANSPORTS:
        raise ConfigError(f"{key}: must be one of {', '.join(_TRANSPORTS)}")
    return {"transport": _TRANSPORTS[kind]} if _TRANSPORTS[kind] else {}


def _command(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the program with its arguments; some clients write both as one list."""
    if (command := given.get("command", given.get("cmd"))) is None:
        return {}
    arguments = given.get("args", [])
    words = [command] if isinstance(command, str) else command
    for key, value in (("command", words), ("args", arguments)):
        if not isinstance(value, list) or not all(isinstance(word, str) for word in cast("list[object]", value)):
            raise ConfigError(f"{key}: must be {'a text' if key == 'command' else 'a list of texts'} in quotes")
    return {"command": [*words, *arguments]}


def _environment(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the environment as texts, with the names of variables that Codex passes on, and the file of others."""
    environment = table(given.get(next((key for key in _ENVIRONMENTS if key in given), ""), {}))
    names = [(table(one) or {}).get("name", one) for one in _listed(given.get("env_vars"))]
    if environment is None or not all(isinstance(name, str) for name in names):
        raise ConfigError(
            "env: must be a table of texts" if environment is None else "env_vars: must be a list of names"
        )
    stored = {str(name): f"${{{name}}}" for name in _listed(given.get("env_keys"))}  # in Goose's keyring
    environment = {**stored, **environment}
    texts = {name: _text(value) for name, value in environment.items()}
    found = {"env": texts, "env_vars": names, "env_file": given.get("envFile")}
    return {key: value for key, value in found.items() if value}


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _headers(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the headers, with those that Codex takes from the environment."""
    options = table(given.get("requestOptions")) or {}
    headers = {**(table(given.get("headers", given.get("http_headers", options.get("headers")))) or {})}
    for header, name in (table(given.get("env_http_headers")) or {}).items():
        headers[header] = f"${{{name}}}"
    if token := given.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{token}}}"
    return {"headers": headers} if headers else {}


def _start_timeout(given: Mapping[str, Any]) -> dict[str, Any]:
    milliseconds = given.get("startup_timeout_ms")
    if "startup_timeout_sec" in given or not isinstance(milliseconds, int | float):
        return {}
    return {"start_timeout": milliseconds / 1000}
