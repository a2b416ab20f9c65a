"""What a TARGET stands for: the one place where the commands find out.

A TARGET is `module:attribute` or `path/to/file.py:attribute` (a `ToolSet`, a server of the MCP SDK or of FastMCP, or a
function that makes one), a `.toml` or `.json` file (the configuration of a gateway or of an MCP client, or a catalog),
a folder of skills, a URL (an MCP server), or, after `--`, a command that starts one. `parse_target` finds out which;
`open_target` opens it as a `ToolSet`, a server behind a gateway.
"""

from __future__ import annotations

import logging
import shlex
from abc import ABC
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from warnings import catch_warnings, simplefilter

from attrs import frozen

from toolfold import ConfigError, Ranker, Session, ToolSet

from .kinds import FILES
from .references import Reference, load, not_a_module, parse_reference

if TYPE_CHECKING:
    from toolfold_adapters.gateway import Gateway, GatewayConfig
    from toolfold_adapters.gateway.callers.logins import CallerLogins
    from toolfold_adapters.gateway.callers.rights import Rights
    from toolfold_adapters.gateway.config.settings import OptionsConfig, UpstreamConfig
    from toolfold_adapters.gateway.upstream.pool import PlaceOf, Pool
    from toolfold_adapters.gateway.upstream.transports import Transports
    from toolfold_adapters.gateway.upstream.upstream import UpstreamStatus
    from toolfold_adapters.gateway.upstream.wire import OpenUrl, Transport
    from toolfold_adapters.mcp.answer.render import ForeignDefinition

FORMS = (
    "module:attribute (such as shop:tools), path/to/file.py:attribute, a .toml or .json file, a folder of "
    "skills, the URL of an MCP server, or, after --, the command that starts one"
)

log = logging.getLogger("toolfold")

TOOL_SET_OPTIONS = ("control", "control_visibility", "max_active", "search")


@frozen(kw_only=True)
class Target:
    """What a command works on: made by `parse_target`.

    Attributes:
        kind: A reference to a Python object, a file or a folder of skills, the URL of a server, or a command that
            starts one.
        text: As the user wrote it.
        command: The words of the command.
        reference: What the text refers to.
    """

    kind: Literal["reference", "file", "url", "command"]
    text: str
    command: tuple[str, ...] = ()
    reference: Reference | None = None

    @property
    def is_gateway(self) -> bool:
        """Whether the tools are those of existing MCP servers."""
        return self.reference is None

    @property
    def arguments(self) -> str:
        """The arguments of the command line that name it, quoted for a shell."""
        return f"-- {shlex.join(self.command)}" if self.kind == "command" else shlex.quote(self.text)


@frozen(kw_only=True)
class GatewayOptions:
    """What the command line says about a gateway; `None` leaves it to the configuration.

    Attributes:
        groups: A file that groups the tools of a URL or command.
        control: How groups are opened; see `ToolSet`.
        control_visibility: When control tools are listed.
        max_active: The greatest number of active groups in a session.
        search: What ranks the tools of a search; see `OptionsConfig`.
        start_timeout: Seconds that an upstream server may take to start.
        share: The servers that all clients share a connection to; `*` for all of them.
    """

    groups: Path | None = None
    control: str | None = None
    control_visibility: str | None = None
    max_active: int | None = None
    search: str | None = None
    start_timeout: float | None = None
    share: tuple[str, ...] = ()

    @property
    def of_tool_set(self) -> dict[str, Any]:
        """Those that are options of a tool set, as far as they are given."""
        return {name: value for name in TOOL_SET_OPTIONS if (value := getattr(self, name)) is not None}


def parse_target(
    text: str | None,
    command: Sequence[str] = (),
    options: GatewayOptions | None = None,
    *,
    app_dir: Path | None = None,
) -> Target:
    """Return what a TARGET or a command stands for, without opening it.

    Args:
        text: The TARGET.
        command: The command that starts an MCP server, instead of a TARGET.
        options: The options of a gateway.
        app_dir: The folder whose modules can be imported; the current one unless given.

    Raises:
        ConfigError: It is neither, both are given, or an option does not apply to it.
    """
    target = _parsed(text, tuple(command), app_dir)
    if app_dir is not None and target.is_gateway:
        raise ConfigError(f"--app-dir is for Python modules; {target.text} is none.")
    options = options or GatewayOptions()
    if options.groups is not None and target.kind not in ("url", "command"):
        raise ConfigError(f"--groups is for a URL or a command; {target.text} groups its tools itself.")
    for name in () if target.is_gateway else options.of_tool_set:
        option = name.replace("_", "-")
        raise ConfigError(
            f"--{option} is for tools of other servers; {target.text} sets it itself: ToolSet(..., {name}=...)."
        )
    if not target.is_gateway and options.start_timeout is not None:
        raise ConfigError(f"--start-timeout is for other servers; {target.text} is none.")
    return target


def _parsed(text: str | None, command: tuple[str, ...], app_dir: Path | None) -> Target:
    if text is not None and command:
        raise ConfigError(f"There is a TARGET, {text}, and a command, {' '.join(command)}: leave one of them out.")
    if command:
        return Target(kind="command", text=" ".join(command), command=command)
    if not text:
        raise ConfigError(f"There is no TARGET. It is {FORMS}.")
    if text.startswith("~"):  # clients start commands without a shell, which would have done it
        with suppress(RuntimeError):  # nobody has that name
            text = str(Path(text).expanduser())
    scheme = text.partition("://")[0]
    if scheme != text:
        if scheme.lower() not in ("http", "https"):
            raise ConfigError(f"{text} has the scheme {scheme!r}; the URL of an MCP server has http or https.")
        return Target(kind="url", text=scheme.lower() + text[len(scheme) :])
    from toolfold_adapters.skills import has_skills

    if text.lower().endswith(FILES) or has_skills(Path(text)):
        return Target(kind="file", text=text)
    if reference := parse_reference(text, app_dir):
        return Target(kind="reference", text=text, reference=reference)
    raise ConfigError(not_a_module(text) or f"{text!r} is not a TARGET. It is {FORMS}.")


@frozen(kw_only=True)
class OpenTarget:
    """An open target: its tools, the gateway that has them, or the existing server with groups, to be served itself."""

    tools: ToolSet
    gateway: Gateway | None = None
    server: Any = None

    @property
    def servers(self) -> Mapping[str, str]:
        """The server that has each of the tools of a gateway, by its name."""
        return self.gateway.report.servers if self.gateway is not None else {}

    @property
    def status(self) -> tuple[UpstreamStatus, ...]:
        """How each server of a gateway is doing."""
        return self.gateway.status if self.gateway is not None else ()

    def status_for(self, session: Session) -> tuple[UpstreamStatus, ...]:
        """Return how each server of a gateway is doing, as far as a session may know of it."""
        return self.gateway.status_for(session) if self.gateway is not None else ()

    @property
    def rights(self) -> Rights | None:
        """What callers of a gateway may do."""
        return self.gateway.rights if self.gateway is not None else None

    def groups_of(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the paths of groups; a server of a gateway that is no group itself stands for those of its tools."""
        paths = {group.path for group in self.tools.catalog.groups}
        return tuple(
            path for name in names for path in ((name,) if name in paths else self._of_server(name) or (name,))
        )

    def _of_server(self, name: str) -> tuple[str, ...]:
        tools = [self.tools.catalog.tools.get(tool) for tool, server in self.servers.items() if server == name]
        groups = [tool.group.split(".") for tool in tools if tool is not None and tool.group is not None]
        return tuple(dict.fromkeys(".".join(group[:end]) for group in groups for end in range(1, len(group) + 1)))


def full_name(known: Iterable[str], name: str, spoken: Callable[[str], str] = str) -> str | None:
    """Return the tool that a user names: in full, as clients see it, or without its groups if it is the only one.

    `spoken` returns a tool's name as people say it.
    """
    from toolfold_adapters.names import WIRE_SEPARATOR

    names = set(known)
    said = {spoken(one): one for one in names}
    for written in (name, name.replace(WIRE_SEPARATOR, "."), name.replace(".", WIRE_SEPARATOR)):
        if written in names:
            return written
        if written in said:
            return said[written]
    own = [one for one in names if one.rpartition(".")[2] == name]
    return own[0] if len(own) == 1 else None


@asynccontextmanager
async def open_target(
    target: Target,
    options: GatewayOptions | None = None,
    *,
    serving: bool = False,
    active: Iterable[str] = (),
    many_callers: bool = False,
    own_variables: Iterable[str] = (),
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
    pool: Pool | None = None,
    place_of: PlaceOf | None = None,
    callers: CallerLogins | None = None,
    keys: Sequence[bytes] = (),
    open_url: OpenUrl | None = None,
    definition_tags: bool = False,
) -> AsyncGenerator[OpenTarget]:
    """Open a target for the duration of the block.

    What had to be left out of a gateway is logged as a warning.

    Args:
        target: What to open.
        options: What the command line says about a gateway.
        serving: Whether it is opened to be served: what a gateway offers may then be what its servers offered when they
            were last asked (SPEC GWY-4), and its configuration is read again when it changes (SPEC GWY-9). Servers
            of which nothing is known are waited for only if they may have a group in `active`.
        active: The groups, or servers, that are to be open first.
        many_callers: Whether one process serves several callers: then servers get the least of its environment, unless
            their configuration says more (SPEC GWY-8).
        own_variables: Variables with secrets of this process, which no server gets.
        environ: The environment of whoever wants it; that of this process unless given.
        folder: Where they are, likewise.
        pool: The servers that gateways of one user share in this process; see `open_gateway`.
        place_of: Returns what has to be equal for a command to be shared; see `open_gateway`.
        callers: What each of several callers logs in with at the servers of a gateway (SPEC GWY-19).
        keys: What the ids of tasks are signed with (SPEC GWY-18).
        open_url: Shows a page to the user, where a server wants a login.
        definition_tags: Whether servers are sent the tags of their lists that are known (SPEC NXT-1).

    Raises:
        ConfigError: It can't be found, imported, made or configured; what was raised is the cause.
        UpstreamError: The server behind a gateway could not be started.
    """
    if target.reference is not None:
        made = await load(target.reference, ToolSet, Server).instance()
        if isinstance(made, ToolSet):
            yield OpenTarget(tools=made)
        else:
            yield OpenTarget(tools=await tools_of(made), server=made)
        return
    if (catalog := _catalog(target, options or GatewayOptions(), serving)) is not None:
        yield OpenTarget(tools=catalog)
        return
    from toolfold_adapters.clock import elapsed
    from toolfold_adapters.gateway import Runtime, open_gateway
    from toolfold_adapters.gateway.config.read import changes_of
    from toolfold_adapters.gateway.stored import Approvals, DefinitionCache, ProbeMemory, stored_folder
    from toolfold_adapters.gateway.upstream.pool import nowhere
    from toolfold_adapters.gateway.upstream.transports import Transports

    transports = Transports(
        stored_folder("tokens"),
        open_url,
        environment="minimal" if many_callers else "inherited",
        own=frozenset(own_variables),
        environ=environ,
        folder=None if folder is None else str(folder),
        callers=callers,
    )
    runtime = Runtime(
        clock=elapsed,
        transport=_with_tags(transports) if definition_tags else transports,
        cache=DefinitionCache(stored_folder("definitions") if serving else None),
        probes=ProbeMemory(stored_folder("definitions")),
        approvals=Approvals(stored_folder("approved"), serving=serving),
        one_user=pool is not None,
        environ=environ or {},
        callers=callers,
        keys=keys,
    )
    read = partial(configuration, target, options or GatewayOptions(), environ, folder)
    config = read()
    wait = not serving or not set(active) <= config.upstreams.keys()
    gateway = open_gateway(config, runtime=runtime, wait=wait, pool=pool, place_of=place_of or nowhere)
    async with gateway as tools:
        if serving and (followed := _followed(target, options)):
            gateway.follow(read, changes_of(*followed))
        yield OpenTarget(tools=tools, gateway=gateway)


def _with_tags(transports: Transports) -> Callable[[UpstreamConfig, str], Transport]:
    from toolfold_adapters.mcp.extensions.upstream_tags import with_tags

    return with_tags(transports)


def _followed(target: Target, options: GatewayOptions | None) -> list[Path]:
    """Return what a gateway is served anew after a change of: its configuration, and the approved definitions."""
    from toolfold_adapters.gateway.stored import stored_folder

    file = target.text if target.kind == "file" else options.groups if options else None
    paths = [] if file is None else [Path(file).resolve()]
    folder = stored_folder("approved")
    with suppress(OSError, RuntimeError):  # or a loop of links: then nothing can be approved either
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        paths.append(folder.resolve())
    return paths


def _catalog(target: Target, options: GatewayOptions, serving: bool) -> ToolSet | None:
    """Return what a catalog or skills describe, or `None` if the target is neither; raises `ConfigError`."""
    from toolfold_adapters.manifests.catalogs import is_catalog, load_catalog
    from toolfold_adapters.skills import has_skills

    if target.kind != "file":
        return None
    of_skills = has_skills(Path(target.text))
    if not of_skills and not is_catalog(target.text):
        return None
    if options.start_timeout is not None:
        raise ConfigError(f"--start-timeout is for other servers; {target.text} is none.")
    given = options.of_tool_set
    if options.search is not None:
        from toolfold_adapters.gateway.config.settings import OptionsConfig

        given["search"] = _ranker(OptionsConfig.model_validate({"search": options.search}))
    if of_skills:
        return _of_skills(Path(target.text), given)
    tools = load_catalog(target.text, **given)
    if serving:
        log.warning("%s has no program: this is a preview, and every call returns an error", target.text)
    return tools


def _of_skills(folder: Path, options: Mapping[str, Any]) -> ToolSet:
    """Return the skills in a folder as groups; tools that they need are missing, and logged (SPEC SKL-2)."""
    settings: dict[str, Any] = {"control": "open_group", **options}
    tools = ToolSet(folder.resolve().name, **settings)
    with catch_warnings(record=True) as missing:
        simplefilter("always")
        tools.include_skill(folder)
    for one in missing:
        log.warning("%s", one.message)
    return tools


def configuration(
    target: Target, options: GatewayOptions, environ: Mapping[str, str] | None = None, folder: Path | None = None
) -> GatewayConfig:
    """Return the configuration of a gateway: that of its file, overridden by the command line; raises `ConfigError`.

    `environ` and `folder` are those of whoever wants it, if these are not this process's.
    """
    from toolfold_adapters.gateway import GatewayConfig, UpstreamConfig, load_config

    file = target.text if target.kind == "file" else options.groups
    config = load_config(file, environ, folder) if file is not None else GatewayConfig(source="the command line")
    if target.kind != "file":
        if config.upstreams:
            raise ConfigError(f"{file} names a server, and the command line another: leave out one.")
        url = target.text if target.kind == "url" else None
        config = config.with_upstream(UpstreamConfig(url=url, command=target.command or None))
    if unknown := [name for name in options.share if name != "*" and name not in config.upstreams]:
        raise ConfigError(f"--share {unknown[0]}: there is no such server; there are {', '.join(config.upstreams)}.")
    upstreams = {name: given.model_copy(update=_of_server(options, name)) for name, given in config.upstreams.items()}
    own = config.options.model_copy(update=options.of_tool_set)
    if options.search is not None:
        _ranker(own)
    return config.model_copy(update={"upstreams": upstreams, "options": own})


def _ranker(given: OptionsConfig) -> Ranker | None:
    """Return what the option of the command line ranks by; raises `ConfigError` that names it if that is missing."""
    try:
        return given.ranker()
    except ConfigError as error:
        raise ConfigError(f"--search {given.search}: {error}") from error


def _of_server(options: GatewayOptions, name: str) -> dict[str, Any]:
    """Return what the command line says of a server, such as that all clients share it (SPEC GWY-10)."""
    timeout = {} if options.start_timeout is None else {"start_timeout": options.start_timeout}
    return {**timeout, **({"shared": True} if {name, "*"} & {*options.share} else {})}


# -- existing servers: of the MCP SDK, or of FastMCP (SPEC INT-1) ------------------------------------------------------

_KINDS = {("fastmcp", "FastMCP"), ("mcp", "MCPServer"), ("mcp", "Server")}


class Server(ABC):  # noqa: B024
    """An existing server; its class is recognised by name, so that neither package has to be imported."""

    @classmethod
    def __subclasshook__(cls, other: type, /) -> bool:
        """Return whether a class is that of a server."""
        return any((kind.__module__.partition(".")[0], kind.__name__) in _KINDS for kind in other.__mro__)


async def tools_of(server: Any) -> ToolSet:
    """Return the tool set that the groups of a server are of, all its tools registered.

    A server without groups is given some: those that its tools are marked or tagged with; else, if its tools have more
    tokens than a group may have, those that their names show, or one (SPEC GWY-2).

    Raises:
        ConfigError: Its tools can't be grouped so.
    """
    from toolfold_adapters.mcp.existing.grouped import definitions_of, group_server, groups_of
    from toolfold_adapters.mcp.existing.grouping import marked, tags_of

    definitions = await definitions_of(server)
    if groups_of(server) is None:
        tagged = any(tags_of(definition.get("_meta") or {}) for definition in definitions)
        by: Any = "tags" if tagged else None if any(map(marked, definitions)) else _by_name(server.name, definitions)
        if _is_fastmcp(server):
            from toolfold_adapters.integrations.fastmcp import group_server as group_fastmcp

            group_fastmcp(server, by)
        else:
            group_server(server, by)
    grouped = groups_of(server)
    assert grouped is not None
    grouped.own.register([one for one in definitions if not grouped.is_control(str(one["name"]))])
    return grouped.tools


def check_options(text: str, given: Sequence[str]) -> None:
    """Raise `ConfigError` if options of tool sets are given for a server."""
    if given:
        option = given[0].replace("_", "-")
        raise ConfigError(f"--{option} is for tool sets; {text} is a server: give it to group_server there.")


def _is_fastmcp(server: object) -> bool:
    from toolfold_adapters.mcp.http.application import is_fastmcp

    return is_fastmcp(server)


def _by_name(server: str, definitions: Sequence[ForeignDefinition]) -> dict[str, list[str]]:
    """Return the groups of a server, by patterns: none within the budget, one where names show none."""
    from toolfold_adapters.gateway.config.settings import BudgetsConfig
    from toolfold_adapters.manifests.nouns import Sized, divide
    from toolfold_adapters.names import server_name
    from toolfold_adapters.tokens import approximate_tokens

    sized = [Sized(name=str(one["name"]), tokens=approximate_tokens(dict(one))) for one in definitions]
    budget = BudgetsConfig().group_tokens
    if sum(tool.tokens for tool in sized) <= budget:
        return {}
    parts = divide(sized, budget)
    return {path: [escape(name) for name in names] for path, names in parts.items()} or {server_name(server): ["*"]}
