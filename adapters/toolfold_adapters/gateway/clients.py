"""The configurations of MCP clients, read as they are (SPEC GWY-2).

Claude Desktop, Claude Code, Cursor and others have `mcpServers` in JSON, VS Code has `servers`, and Codex
`[mcp_servers.NAME]` in TOML. They say the same in slightly different words: an entry becomes the settings of an
`UpstreamConfig`, not yet checked. What clients store for themselves, such as which tools their user has allowed, is
passed over; a key that no client is known to have is refused, for it may be a misspelt one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, cast

from attrs import frozen

from toolfold import ConfigError
from toolfold.spi import table

SECTIONS = ("mcpServers", "servers", "mcp_servers")

_TRANSPORTS = {
    **dict.fromkeys(("http", "streamable-http", "streamableHttp", "streamable_http"), "http"),
    **dict.fromkeys(("stdio", "local"), None),
    "sse": "sse",
}
_SETTINGS = {
    **dict.fromkeys(("url", "serverUrl", "httpUrl", "baseUrl"), "url"),
    **dict.fromkeys(("headers", "http_headers"), "headers"),
    **dict.fromkeys(("tools", "includeTools", "enabled_tools"), "include_tools"),
    **dict.fromkeys(("excludeTools", "disabledTools", "disabled_tools"), "exclude_tools"),
    **{name: name for name in ("env", "cwd", "title", "description")},
    "startup_timeout_sec": "start_timeout",
}
_WITH_RULES = ("type", "command", "args", "env_vars", "bearer_token_env_var", "env_http_headers")
_SWITCHES = {"disabled": True, "enabled": False, "isActive": False}
_OF_THE_CLIENT = frozenset(
    {
        *("alwaysAllow", "alwaysLoad", "approval_mode", "autoApprove", "autoStart", "default_tools_approval_mode"),
        *("dev", "displayName", "gallery", "icon", "id", "initTimeout", "name", "oauth", "oauth_resource", "provider"),
        *("registry", "required", "sandbox", "sandboxEnabled", "scopes", "source", "supports_parallel_tool_calls"),
        *("tags", "timeout", "tool_timeout_sec", "trust", "version"),
    }
)
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
    for part, prefix in ((data, ""), (table(data.get("mcp")) or {}, "mcp.")):  # the latter in VS Code's settings.json
        for section in SECTIONS:
            if section in part:
                if (entries := table(part[section])) is None:
                    raise ConfigError(f"{prefix}{section} must be a table of servers by their names.")
                entries = {**entries, **of_project} if of_project else entries
                return ClientServers(section=prefix + section, entries=entries, inputs=_inputs(part.get("inputs")))
    return ClientServers(section="mcpServers", entries=of_project, inputs={}) if of_project else None


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
        if key not in _KNOWN and not key.startswith(("_", "//", "x-")):
            near = get_close_matches(key, _KNOWN - _OF_THE_CLIENT, 1)
            raise ConfigError(f"{key}: is not known here; remove it{f', or write {near[0]}' if near else ''}")
    if table(given.get("tools")) is not None:
        del given["tools"]  # Codex has there what its user allows of each tool
    settings = {_SETTINGS[key]: value for key, value in given.items() if key in _SETTINGS}
    return {**settings, **_transport(given), **_command(given), **_environment(given), **_headers(given)}


def _inputs(given: Any) -> dict[str, str | None]:
    inputs = [table(one) or {} for one in _listed(given)]
    return {str(one.get("id")): one["default"] if isinstance(one.get("default"), str) else None for one in inputs}


def _listed(given: Any) -> list[Any]:
    return [*cast("Iterable[Any]", given)] if isinstance(given, list) else []


def _transport(given: Mapping[str, Any]) -> dict[str, Any]:
    kind = given.get("type", "stdio")
    if not isinstance(kind, str) or kind not in _TRANSPORTS:
        raise ConfigError(f"type: must be one of {', '.join(_TRANSPORTS)}")
    return {"transport": _TRANSPORTS[kind]} if _TRANSPORTS[kind] else {}


def _command(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the program with its arguments; some clients write both as one list."""
    if "command" not in given:
        return {}
    command, arguments = given["command"], given.get("args", [])
    words = [command] if isinstance(command, str) else command
    for key, value in (("command", words), ("args", arguments)):
        if not isinstance(value, list) or not all(isinstance(word, str) for word in cast("list[object]", value)):
            raise ConfigError(f"{key}: must be {'a text' if key == 'command' else 'a list of texts'} in quotes")
    return {"command": [*words, *arguments]}


def _environment(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the environment as texts, with the variables that Codex passes on."""
    environment = table(given.get("env", {}))
    names = [(table(one) or {}).get("name", one) for one in _listed(given.get("env_vars"))]
    if environment is None or not all(isinstance(name, str) for name in names):
        raise ConfigError(
            "env: must be a table of texts" if environment is None else "env_vars: must be a list of names"
        )
    texts = {name: _text(value) for name, value in environment.items()}
    return {"env": {**{name: f"${{{name}}}" for name in names}, **texts}} if names or texts else {}


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _headers(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the headers, with those that Codex takes from the environment."""
    headers = {**(table(given.get("headers", given.get("http_headers"))) or {})}
    for header, name in (table(given.get("env_http_headers")) or {}).items():
        headers[header] = f"${{{name}}}"
    if token := given.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{token}}}"
    return {"headers": headers} if headers else {}
