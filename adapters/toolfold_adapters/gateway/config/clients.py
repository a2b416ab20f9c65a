"""The configurations of MCP clients, read as they are, and their entries for Toolfold (SPEC GWY-2, GWY-13).

Clients say the same in slightly different words: an entry becomes the settings of an `UpstreamConfig`, not yet checked.
What clients store for themselves, such as which tools their user has allowed, is passed over (see `hosts`); a key that
no client is known to have is refused, for it may be a misspelt one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from attrs import field

from toolfold import ConfigError
from toolfold.spi import frozen, table

from ...hosts import HOSTS, SECTIONS, Host

_TRANSPORTS = {
    **dict.fromkeys(("http", "streamable-http", "streamableHttp", "streamable_http", "remote"), "http"),
    **dict.fromkeys(("stdio", "local"), None),
    "sse": "sse",
}
_SETTINGS = {
    **dict.fromkeys(("url", "uri", "serverUrl", "httpUrl", "baseUrl"), "url"),
    **dict.fromkeys(("headers", "http_headers"), "headers"),
    **dict.fromkeys(("tools", "includeTools", "enabledTools", "enabled_tools", "available_tools"), "include_tools"),
    **dict.fromkeys(("excludeTools", "disabledTools", "disabled_tools"), "exclude_tools"),
    **{name: name for name in ("cwd", "title", "description")},
    "startup_timeout_sec": "start_timeout",
}
_TYPES = ("type", "transport", "transportType")
_ENVIRONMENTS = ("env", "environment", "envs")
_WITH_RULES = (
    *(
        "api_key_env",
        "api_key_format",
        "api_key_header",
        "args",
        "bearerTokenEnvVar",
        "bearer_token_env_var",
        "cmd",
        "command",
        "env_http_headers",
        "env_keys",
        "env_vars",
        "envFile",
    ),
    *("auth", "authProviderType", "oauth", "requestOptions", "startup_timeout_ms", *_ENVIRONMENTS, *_TYPES),
)
_SWITCHES = {"disabled": True, "enabled": False, "isActive": False}
_PERMISSIONS = tuple(dict.fromkeys(key for host in HOSTS for key in host.permissions))
"""What a user allows of tools, by names: of whichever host, since people copy entries from one to another."""
_KEPT = frozenset(
    {
        "name",
        *(key for host in HOSTS for key in (*host.entry, *host.most, *host.every)),
        *_PERMISSIONS,
    }
) - {*_SETTINGS, *_WITH_RULES, *_SWITCHES}
"""What a host goes on to read in its own entry for Toolfold, or what `init` speaks of."""
_PASSED_OVER = (
    frozenset(
        {
            *("author", "autoStart", "categories", "category", "comment", "displayName", "documentation"),
            *("fromGalleryId", "galleryId", "homepage", "icon", "iconUrl", "id", "initTimeout", "installSource"),
            *("installedAt", "isOfficial", "isTrusted", "license", "logoUrl", "longRunning", "note", "notes"),
            *("provider", "providerUrl", "reference", "registry", "repository", "searchKey", "tags", "trustedAt"),
            *("vendor", "watchPaths"),
            *(key for host in HOSTS for key in host.passed_over),
        }
    )
    - {*_SETTINGS, *_WITH_RULES, *_SWITCHES}
    - _KEPT
)
"""What can't change what is run: what galleries and managers of servers note beside it."""
_BUILT_IN = ("builtin", "platform", "frontend", "inline_python")  # parts of Goose itself, beside its servers
_SHARED_KEYS = ("extensions", "mcp")  # other files have them too
_UNSUPPORTED = {
    "headersHelper": "give the headers in headers, with ${VAR} for what is secret",
    "allowedTools": "write includeTools for the tools that are to be served, or leave it out",
    "bearer_token": "name the environment variable that has it, in bearer_token_env_var",
}
OTHER_NAMES = "it is about tools by names that they do not have behind Toolfold"
"""Why what a user allows of tools is not passed on."""
_READ = frozenset({*_SETTINGS, *_WITH_RULES, *_SWITCHES})
_OAUTH = {
    **dict.fromkeys(("clientid", "client"), "client_id"),
    "clientsecret": "client_secret",
    "callbackport": "callback_port",
    **dict.fromkeys(("scope", "scopes"), "scopes"),
    "issuer": "issuer",
    "enabled": "enabled",
}
"""What hosts say of the client of a login, in lower case and without underscores."""
_COMMENTS = ("_", "//", "x-", "$comment")
_REFERENCE = re.compile(r"(\$?)\$\{([^{}]*)\}")
_NAME = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*)|:?)", re.DOTALL)
INPUT_PREFIX = "TOOLFOLD_INPUT_"


@frozen(kw_only=True)
class ClientServers:
    """The servers in the configuration of a client.

    `section` has the keys that lead to them, `entries` maps a name to what is said of it, and `inputs` is what VS Code
    would ask its user for: an id to the default.
    """

    section: tuple[str, ...]
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
    of_project = servers_at(data, section_of_project(folder))
    for name in SECTIONS:
        *above, key = section = tuple(name.split("."))
        part = _at(data, above)
        if key in part and (name not in _SHARED_KEYS or _has_servers(part[key])):
            entries = servers_at(data, section)
            entries = {**entries, **of_project} if of_project else entries
            return ClientServers(section=section, entries=entries, inputs=_inputs(part.get("inputs")))
    return ClientServers(section=("mcpServers",), entries=of_project, inputs={}) if of_project else None


def servers_at(data: Mapping[str, Any], section: Sequence[str]) -> Mapping[str, Any]:
    """Return the servers at the end of some keys by their names, if there are any; raises as `servers_in` does."""
    if not section or (given := _at(data, section[:-1]).get(section[-1])) is None:
        return {}
    if (entries := _by_name(given)) is None:
        raise ConfigError(f"{'.'.join(section)} must be a table of servers by their names.")
    return entries


def section_of_project(folder: str) -> tuple[str, ...]:
    """Return the keys that lead to the servers of a project in the file of Claude Code, where `claude mcp add` adds."""
    return ("projects", folder, "mcpServers")


def projects_in(data: Mapping[str, Any]) -> list[str]:
    """Return the projects that a file has servers for."""
    return [folder for folder in _at(data, ("projects",)) if _at(data, section_of_project(folder))]


def _at(data: Mapping[str, Any], keys: Iterable[str]) -> Mapping[str, Any]:
    """Return the table at the end of some keys, an empty one if there is none."""
    for key in keys:
        data = table(data.get(key)) or {}
    return data


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


def check_switches(given: Mapping[str, Any]) -> None:
    """Raise `ConfigError` if what turns a server on or off is neither: it may be meant to be off."""
    for key in _SWITCHES:
        if given.get(key) is not None and not isinstance(given[key], bool):
            raise ConfigError(f"{key}: must be true or false, without quotes")


def passed_over(entry: Any) -> tuple[str, ...]:
    """Return the keys of a client's entry that change nothing about what is run, and are not read."""
    return tuple(key for key, value in (table(entry) or {}).items() if key in _PASSED_OVER and value not in (None, ""))


def permissions_in(entry: Any) -> tuple[str, ...]:
    """Return the keys of a client's entry that say what its user allows of tools, by names, and are not read.

    A list under `tools` names those that are served, and is read.
    """
    given = table(entry) or {}
    return tuple(key for key in _PERMISSIONS if given.get(key) and (key not in _READ or table(given[key]) is not None))


def settings_of(entry: Any) -> dict[str, Any]:
    """Return the settings of an `UpstreamConfig`, not yet checked, for a client's entry.

    Raises:
        ConfigError: It has a key that is not known, or something that is not what it should be; the message begins with
            the key.
    """
    if (given := table(entry)) is None:
        raise ConfigError("must be a table")
    given = {key: value for key, value in given.items() if value is not None and value != ""}  # "" is none, too
    check_switches(given)
    for key in given:
        if key in _UNSUPPORTED:
            raise ConfigError(f"{key}: is not supported; {_UNSUPPORTED[key]}")
        if key not in _READ | _KEPT | _PASSED_OVER and not key.startswith(_COMMENTS):
            near = get_close_matches(key, _READ, 1)
            raise ConfigError(f"{key}: is not known here; remove it{f', or write {near[0]}' if near else ''}")
    if table(given.get("tools")) is not None:
        del given["tools"]  # Codex has there what its user allows of each tool
    if not given.get("available_tools", True):
        del given["available_tools"]  # Goose means all by none
    settings = {_SETTINGS[key]: value for key, value in given.items() if key in _SETTINGS}
    rest = [part(given) for part in (_transport, _command, _environment, _headers, _login, _start_timeout)]
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
    in_any_case = {name.lower(): transport for name, transport in _TRANSPORTS.items()}
    if not isinstance(kind, str) or kind.lower() not in in_any_case:
        raise ConfigError(f"{key}: must be one of {', '.join(_TRANSPORTS)}")
    found = in_any_case[kind.lower()]
    return {"transport": found} if found else {}


def _words(given: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the program and its arguments; some clients write both as one list."""
    command = given.get("command", given.get("cmd"))
    return [command] if isinstance(command, str) else command, given.get("args", [])


def _command(given: Mapping[str, Any]) -> dict[str, Any]:
    words, arguments = _words(given)
    if words is None:
        return {}
    if isinstance(arguments, list):
        arguments = [*map(_text, _listed(arguments))]
    for key, value in (("command", words), ("args", arguments)):
        if not isinstance(value, list) or not all(isinstance(word, str) for word in cast("list[object]", value)):
            raise ConfigError(f"{key}: must be {'a text' if key == 'command' else 'a list of texts'} in quotes")
    return {"command": [*words, *arguments]}


def _environment(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the environment as texts, with the names of variables that Codex passes on, and the file of others.

    A text or a list under `environment` is no table of variables but our own setting, the choice of what is inherited.
    """
    chosen = given.get("environment")
    if isinstance(chosen, str | list):
        return {**_environment({key: one for key, one in given.items() if key != "environment"}), "environment": chosen}
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
    """Return a number or a truth value as the text that it stands for; all else as it is."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _headers(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the headers, with those that Codex, Kimi Code and Vibe take from the environment."""
    if _is_static(login := table(given.get("auth")) or {}):
        given = {**given, **login}
    options = table(given.get("requestOptions")) or {}
    headers = {**(table(given.get("headers", given.get("http_headers", options.get("headers")))) or {})}
    for header, name in (table(given.get("env_http_headers")) or {}).items():
        headers[header] = f"${{{name}}}"
    if token := given.get("bearer_token_env_var", given.get("bearerTokenEnvVar")):
        headers["Authorization"] = f"Bearer ${{{token}}}"
    if name := given.get("api_key_env"):
        form = _text(given.get("api_key_format", "Bearer {token}"))
        headers.setdefault(given.get("api_key_header", "Authorization"), form.replace("{token}", f"${{{name}}}"))
    return {"headers": {name: _text(value) for name, value in headers.items()}} if headers else {}


def _is_static(login: Mapping[str, Any]) -> bool:
    """Return whether a table says which headers to send, as Vibe's does, and not how to log in."""
    return login.get("type") == "static"


def _login(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an entry says of logins: the client to log in with, or that there is to be none (SPEC GWY-8).

    What would have another server asked than the one that the upstream names is refused, not passed over.
    """
    if (provider := given.get("authProviderType", "dynamic_discovery")) != "dynamic_discovery":
        raise ConfigError(f"authProviderType: {provider!r} is not supported; give the token in headers")
    key = next((key for key in ("oauth", "auth") if key in given), None)
    if key is None or given[key] is True or given[key] == "oauth":
        return {}
    if given[key] is False:
        return {"oauth": {"enabled": False}}
    if _is_static(table(given[key]) or {}):
        return {}
    if (said := table(given[key])) is None:
        raise ConfigError(f"{key}: must be a table with clientId; give a token in headers")
    found: dict[str, Any] = {}
    for inner, value in said.items():
        name = _OAUTH.get(inner.lower().replace("_", ""))
        if name is None and not inner.startswith(_COMMENTS):
            raise ConfigError(
                f"{key}.{inner}: is not supported; log in with clientId, clientSecret, issuer and callbackPort"
            )
        if name is not None and value not in (None, ""):
            found[name] = value.split() if name == "scopes" and isinstance(value, str) else value
    return {"oauth": found} if found else {}


def _start_timeout(given: Mapping[str, Any]) -> dict[str, Any]:
    milliseconds = given.get("startup_timeout_ms")
    if "startup_timeout_sec" in given or not isinstance(milliseconds, int | float):
        return {}
    return {"start_timeout": milliseconds / 1000}


# -- variables: `${VAR}`, `${VAR:-default}` and those of editors ------------------------------------------------------


def with_texts(value: Any, changed: Callable[[str], str]) -> Any:
    """Return a value with what `changed` returns of each text in it, but for keys."""
    if isinstance(value, str):
        return changed(value)
    if isinstance(value, Mapping):
        return {key: with_texts(inner, changed) for key, inner in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [with_texts(inner, changed) for inner in cast("list[Any]", value)]
    return value


@frozen
class Variables:
    """What the variables in a configuration stand for.

    `environ` is the environment, `folder` the one that editors call the workspace, and `inputs` maps what VS Code would
    ask its user for to the default; it is read from the environment, as `TOOLFOLD_INPUT_` and the name in capitals.
    """

    environ: Mapping[str, str]
    folder: Path
    inputs: Mapping[str, str | None] = field(factory=dict[str, str | None])

    def expand(self, value: Any) -> Any:
        """Return a value with the variables in all its texts replaced, and `~/` at the beginning of one.

        `$${` stands for `${`.

        Raises:
            ConfigError: A variable is missing, or there is none of its form; the message is the end of a sentence.
        """
        return with_texts(value, self._expanded)

    def _expanded(self, text: str) -> str:
        home = str(Path.home()) if text.startswith("~/") else ""
        return home + _REFERENCE.sub(self._replace, text[1:] if home else text)

    def _replace(self, match: re.Match[str]) -> str:
        escape, reference = match.groups()
        if escape:
            return match.group()[1:]
        value = self._editor_variable(reference)
        return self._from_environment(reference) if value is None else value

    def _editor_variable(self, reference: str) -> str | None:
        if reference.startswith("input:"):
            return self._input(reference.removeprefix("input:"))
        return {
            "workspaceFolder": str(self.folder),
            "workspaceFolderBasename": self.folder.name,
            "userHome": str(Path.home()),
            "pathSeparator": os.sep,
            "/": os.sep,
        }.get(reference)

    def _input(self, name: str) -> str:
        variable = input_variable(name)
        value = self.environ.get(variable, self.inputs.get(name))
        if value is None:
            raise ConfigError(f"VS Code would ask for ${{input:{name}}}; set the environment variable {variable}")
        return value

    def _from_environment(self, reference: str) -> str:
        match = _NAME.fullmatch(reference)
        if match is None:
            raise ConfigError(f"${{{reference}}} is no variable that is known here; write $${{ for a literal ${{")
        name, default = match.groups()
        value = self.environ.get(name) or default
        if value is None and name not in self.environ:
            raise ConfigError(f"the environment variable {name} is not set; set it, or write ${{{name}:-default}}")
        return value or ""


def variables_in(value: Any) -> frozenset[str]:
    """Return the names of the variables of the environment in the texts of a value."""
    names: set[str] = set()

    def note(text: str) -> str:
        found = (_NAME.fullmatch(reference) for escape, reference in _REFERENCE.findall(text) if not escape)
        names.update(match[1] for match in found if match is not None)
        return text

    with_texts(value, note)
    return frozenset(names)


def input_variable(name: str) -> str:
    """Return the environment variable that has what VS Code would ask its user for."""
    return INPUT_PREFIX + re.sub(r"[^A-Z0-9]", "_", name.upper())


# -- the entry for Toolfold, in the client's own words, and what it keeps of the servers that it replaces -------------


def entry_for(host: Host | None, servers: Mapping[str, Any], command: tuple[str, ...]) -> dict[str, Any]:
    """Return a client's entry for Toolfold.

    It has what makes the client wait for Toolfold and show its tools, the limits that its servers need, and what only
    the client has: inputs, and variables that it passes on.

    Args:
        host: The client, if it is a known one.
        servers: The entries of the servers that Toolfold serves.
        command: What starts Toolfold.
    """
    program, *rest = host.program if host else ("command", "args")
    words = {program: command[0], rest[0]: list(command[1:])} if rest else {program: list(command)}
    if host is None:
        return words
    entries = [table(server) or {} for server in servers.values()]
    entry = {**host.entry, **words}
    for key, default in host.most.items():
        numbers = [one[key] for one in entries if isinstance(one.get(key), int | float)]
        if numbers and (default is not None or len(numbers) == len(entries)):
            entry[key] = max([*numbers, *([] if default is None or len(numbers) == len(entries) else [default])])
    entry.update({key: True for key in host.every if all(one.get(key) is True for one in entries)})
    if names := _passed_on(host, entries):
        entry["env_vars"] = names
    if asked := _asked_for(host, servers):
        entry["env"] = {variable: f"${{input:{name}}}" for name, variable in asked.items()}
    return entry


def given_by(host: Host | None, servers: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the variables that a client gives its servers, as it then gives them to Toolfold."""
    if host is None:
        return ()
    return (
        *_passed_on(host, [table(server) or {} for server in servers.values()]),
        *_asked_for(host, servers).values(),
    )


def not_kept(host: Host | None, servers: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a sentence on each setting of a server that the client does not apply to it any more."""
    entries = {name: table(server) or {} for name, server in servers.items()}
    switches = [
        key for key in (host.every if host else ()) if not all(one.get(key) is True for one in entries.values())
    ]
    left_out = (
        (name, key, reason)
        for name, entry in entries.items()
        for keys, reason in (
            (permissions_in(entry), f"{OTHER_NAMES}. Set it anew"),
            ([key for key in switches if entry.get(key)], "not all of the servers have it"),
        )
        for key in keys
    )
    return tuple(f"{name}: {key} is left out: {reason}." for name, key, reason in left_out)


def program_of(entry: Any) -> list[Any]:
    """Return the program with its arguments that an entry starts, in whichever words."""
    return [word for words in _words(table(entry) or {}) for word in _listed(words)]


def _asked_for(host: Host, servers: Mapping[str, Any]) -> dict[str, str]:
    """Return what VS Code asks its user for, with the variable that Toolfold takes it from."""
    if host.section != "servers":
        return {}
    asked = sorted(set(re.findall(r"\$\{input:([^{}]+)\}", json.dumps(servers))))
    return {name: input_variable(name) for name in asked}


def _passed_on(host: Host, servers: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the variables of the environment that Codex passes on to its servers, or takes for them."""
    names: set[Any] = set()
    for server in servers if host.section == "mcp_servers" else ():
        names |= {(table(one) or {}).get("name", one) for one in _listed(server.get("env_vars"))}
        names |= {server.get("bearer_token_env_var"), *(table(server.get("env_http_headers")) or {}).values()}
    return sorted(name for name in names if isinstance(name, str))
