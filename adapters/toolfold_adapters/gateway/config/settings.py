"""The configuration of a gateway, as a TOML file or made in Python (SPEC GWY-2); `files` reads it.

exclusions = [["read", "write"]]        # sets of groups of which one is open at a time; before the first table
pins = ["files__search"]                # tools that are in no group and always listed
hidden = ["*__debug_*"]                 # tools that no list has; they can be called
skills = ["skills"]                     # folders with a SKILL.md, or of such folders: each is a group
on_change = "quarantine"                # withhold definitions that changed until `toolfold approve`; or "mark"

[upstreams.files]                       # one for each server, whose tools are called files__…; or [upstream] alone, for
                                        # one server without a name, whose tools keep theirs
command = ["npx", "-y", "some-server"]  # or: url = "https://example.org/mcp", and headers
env = { TOKEN = "${FILES_TOKEN}" }      # ${VAR} and ${VAR:-default} are replaced in all texts about servers
environment = "inherited"               # all of what started the gateway but TOOLFOLD_*; "minimal" for what programs
                                        # need to run, the default with --http; or that and a list of names
cwd = "/srv/data"
start_timeout = 30                      # seconds to start and list its tools
include_tools = ["*"]                   # patterns of its tools to serve, and exclude_tools
shared = true                           # one connection for all clients: the server stores nothing for one of them
max_connections = 200                   # where each client has its own
max_connections_per_caller = 50         # of those: of one principal, or else of one address; a quarter at most
max_message_bytes = 67108864            # of one message from the server; a larger one ends the connection
title = "Files"                         # and description, in place of the server's own

[groups.read]                           # [groups."read.logs"], or parent = "read", is inside it
tools = ["files__get_*", "*__list_*"]   # the first group in the file that matches a tool has it
description = "Look, change nothing"
title = "Reading"

[rename]
files__get_contents = "read_file"

[profiles.viewer]
active = ["read"]
available = ["*"]
description = "For a look around"

[profiles.reviewer]
within = "viewer"                       # that of a parent: what that does not have, this has not either
available = ["*"]

[rights.alice]                          # what the caller of that name may do: of a token, or a subject of an issuer
access = "write"                        # "read", "write" for what destroys nothing, or "destructive" for all
servers = ["files"]                     # and groups; all, if there is neither
profile = "viewer"                      # which her sessions are within
calls_per_minute = 60                   # and tokens_per_day of answers, and sessions at a time

[rights."claim:role=admin"]             # a claim of a token, for those without a row of their name: the first that fits
access = "destructive"

[rights."*"]                            # all others; without it they are refused
access = "read"

[audit]
file = "audit.jsonl"                    # a line for each call: who, server, tool, outcome, duration
arguments = false                       # and, if true, with what

[budgets]                               # in approximate tokens
group_tokens = 2000                     # a server whose tools are more has groups in it where names show parts
answer_tokens = 5000                    # the answer that opens a group is no longer
list_tokens = 20000                     # opening a group that would make the list longer is refused; see evict

[options]
control = "open_group"                  # and control_visibility ("relevant"), on_hidden ("hint"), max_active, evict,
                                        # page_size, search ("bm25", "none", "embeddings": see how-to/search)
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal, Self, cast

from attrs import evolve
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from toolfold import ConfigError, DuplicateName, Limit, ListBudget, Loader, Ranker, ToolfoldError, ToolSet
from toolfold.spi import frozen

from ...files import quoted_key
from ...hosts import Environment
from ...names import ONE_SERVER, WIRE_SEPARATOR
from ...search.meaning import by_meaning, has_model
from ...search.rankers import bm25
from ...skills import Skill
from ...tally import share_of
from ...tokens import ANSWER_TOKENS, LEAST_ANSWER_TOKENS, approximate_tokens

Texts = tuple[str, ...]
_OF_THE_GATEWAY = {
    "title",
    "description",
    "include_tools",
    "exclude_tools",
    "max_connections",
    "max_connections_per_caller",
}
"""What of a server concerns only the gateway: a connection goes on when it changes."""
OPENER = Loader(name="open_group", closer="close_group", needs_groups=True, opens_outer=True)
"""A model that knows the name of a group inside a server's opens both at once (SPEC GWY-2)."""
SERVER_CHARACTERS = 125
"""How many characters the opener's description has for each server where groups are derived: a sentence."""
LEAST_CHARACTERS = 700


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class OAuthConfig(_Table):
    """How to log in at a server that wants it (SPEC GWY-8).

    Args:
        client_id: The client that is known to its authorization server; one is registered there unless it is given.
        client_secret: Its secret, if it has one; it is sent to one authorization server alone.
        issuer: That authorization server; without it the one at which the client logs in first.
        callback_port: The port that the login comes back to, at `http://localhost:PORT/callback`, which has to be
            registered for the client; without it the port depends on the server, at `http://127.0.0.1:PORT/callback`.
        scopes: What to ask for; what the server names unless it is given.
        enabled: Whether there is a login at all.
    """

    client_id: Annotated[str, Field(min_length=1)] | None = None
    client_secret: Annotated[str, Field(min_length=1)] | None = None
    issuer: Annotated[str, Field(pattern="^https?://")] | None = None
    callback_port: Annotated[int, Field(gt=0, lt=65536)] | None = None
    scopes: Texts = ()
    enabled: bool = True

    @model_validator(mode="after")
    def _of_a_client(self) -> Self:
        if self.client_secret is not None and self.client_id is None:
            raise ValueError("client_secret is of a client: give client_id")
        return self


class TokenConfig(_Table):
    """The token that each caller has made for himself at a server, and gives to the gateway once (SPEC GWY-19).

    Args:
        header: The header that it is sent in.
        scheme: What comes before it there; nothing if empty.
        hint: Where such a token is made, for the person who is asked for it.
    """

    header: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$")] = "Authorization"
    scheme: str = "Bearer"
    hint: str = ""


class ExchangeConfig(_Table):
    """How the token of a caller is exchanged for one of a server that trusts our issuer (RFC 8693, SPEC GWY-19).

    Args:
        token_endpoint: Where.
        client_id: The client that exchanges it: this gateway.
        client_secret: Its secret.
        audience: What the new token is for.
        scopes: What to ask for.
    """

    token_endpoint: Annotated[str, Field(pattern="^https?://")]
    client_id: Annotated[str, Field(min_length=1)]
    client_secret: Annotated[str, Field(min_length=1)]
    audience: Annotated[str, Field(min_length=1)]
    scopes: Texts = ()


CONNECTIONS_PER_CALLER = 50
"""How many connections to a server one caller may have, unless there are few in all."""


class UpstreamConfig(_Table):
    """An MCP server behind a gateway: a command that starts it and speaks over stdio, or the URL of a running one.

    Args:
        command: The program and its arguments.
        url: The address of a server that speaks HTTP.
        transport: How it speaks: `"http"` is streamable HTTP, `"sse"` what came before.
        headers: More for the headers of each HTTP request.
        oauth: How to log in where the server wants that.
        auth: As whom it is used where callers are authenticated (SPEC GWY-19): `"caller"`, by each as himself, the
            default for a server where one can log in; or `"shared"`, by all as the one who has logged in.
        token: Has each caller give a token that he has made for himself there.
        exchange: Has the token of the caller exchanged for one of the server.
        definitions: Whether what it lists is the same for all its users, so that each may see what another was listed:
            `"public"`; by default only if it says so itself, or lists it to nobody in particular.
        env: More for the environment of the command.
        environment: What the command gets of the gateway's environment (SPEC GWY-8): `"inherited"` for all but what is
            the gateway's own, `"minimal"` for what programs need to run, or a list of names for that and these. By
            default all, and the least where one process serves many callers.
        cwd: The folder that the command runs in; the gateway's own otherwise.
        title: The name that people see, in place of the server's own.
        description: What the model reads about it, in place of the server's instructions.
        include_tools: Patterns of the tools to serve, by the server's own names.
        exclude_tools: Patterns of tools to leave out.
        start_timeout: Seconds that it may take to start and to list its tools.
        idle_timeout: Seconds after which an unused connection ends; it starts again on use (SPEC GWY-4).
        shared: Whether all clients share one connection; by default where the server's era has no sessions, and for
            relays of one user also where it is known to keep nothing of a session.
        max_connections: How many connections it may have at a time; one more is refused (SPEC SAF-4).
        max_connections_per_caller: How many of them clients of one caller may have, where callers are known; by default
            a quarter, and 50 at most.
        max_message_bytes: How large a message of it may be; the connection ends on a larger one (SPEC GWY-12).
        mode: `"auto"`, the default, to ask for the newest era first (SPEC GWY-18); `"legacy"` to speak the older one,
            whatever the server speaks.
    """

    command: Annotated[Texts, Field(min_length=1)] | None = None
    url: str | None = None
    transport: Literal["http", "sse"] = "http"
    headers: Mapping[str, str] = {}
    oauth: OAuthConfig = OAuthConfig()
    auth: Literal["caller", "shared"] | None = None
    token: TokenConfig | None = None
    exchange: ExchangeConfig | None = None
    definitions: Literal["public", "private"] | None = None
    env: Mapping[str, str] = {}
    environment: Environment | None = None
    cwd: str | None = None
    title: str | None = None
    description: str | None = None
    include_tools: Texts = ("*",)
    exclude_tools: Texts = ()
    start_timeout: Annotated[float, Field(gt=0)] = 30
    idle_timeout: Annotated[float, Field(gt=0)] = 600
    shared: bool | None = None
    max_connections: Annotated[int, Field(gt=0)] = 200
    max_connections_per_caller: Annotated[int, Field(gt=0)] | None = None
    max_message_bytes: Annotated[int, Field(gt=0)] = 64 * 1024 * 1024
    mode: Literal["legacy", "auto"] | None = None

    @property
    def connections(self) -> Limit:
        """The limit on its connections, in all and of one caller.

        SPEC SAF-4.
        """
        own = self.max_connections_per_caller or share_of(self.max_connections, CONNECTIONS_PER_CALLER)
        return Limit(self.max_connections, own)

    @field_validator("environment", mode="before")
    @classmethod
    def _chosen(cls, given: Any) -> Any:
        names = isinstance(given, list | tuple) and all(isinstance(one, str) for one in cast("list[object]", given))
        if names or given in (None, "inherited", "minimal"):
            return cast("Any", given)
        raise ValueError('must be "inherited", "minimal", or a list of names of variables')

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError('give either a command, such as ["npx", "some-server"], or a url')
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise ValueError("the url must start with http:// or https://")
        if self.url is not None and (self.env or self.cwd or self.environment):
            raise ValueError("env, environment and cwd are for a command; a server at a url has its own")
        if self.url is None and (self.headers or self.transport != "http" or self.oauth != OAuthConfig()):
            raise ValueError("headers, oauth and transport are for a url; a command speaks over stdio")
        if self.url is None and (self.auth or self.token or self.exchange or self.definitions):
            raise ValueError("auth, token, exchange and definitions are for a url; a command has no callers")
        if self.token is not None and self.exchange is not None:
            raise ValueError("give token, which each caller has made, or exchange, for that of our issuer")
        if self.exchange is not None and self.auth == "shared":
            raise ValueError("exchange is for the token of each caller: leave out auth")
        return self

    @property
    def has_login(self) -> bool:
        """Whether there may be a login: it has no header for authorization, and none is ruled out."""
        if self.token is not None or self.exchange is not None:
            return True
        return self.oauth.enabled and not any(name.lower() == "authorization" for name in self.headers)


class GroupConfig(_Table):
    """A group: the patterns of its tools' names, and texts about it. The description is derived if not given.

    A `pinned` one is open from the start and never closed, and so is what contains it (SPEC FND-4).
    """

    tools: Texts = ()
    description: str | None = None
    instructions: str = ""
    title: str | None = None
    parent: str | None = None
    pinned: bool = False


class ProfileConfig(_Table):
    """A profile (SPEC PRO-1, PRO-3); what that named by `within` does not have, it has not either (SPEC GWY-16)."""

    active: Texts = ()
    available: Texts = ()
    description: str = ""
    read_only: bool | None = None
    destructive: bool | None = None
    within: str | None = None


Access = Literal["read", "write", "destructive"]


class RightsConfig(_Table):
    """What callers may do, whatever their requests say (SPEC GWY-19).

    Args:
        access: Which tools: `"read"` those whose `readOnlyHint` is true, `"write"` also those whose `destructiveHint`
            is false, `"destructive"` all. A tool without hints may destroy.
        servers: Everything of these servers, by their names.
        groups: What is in these groups; with no servers either, all.
        profile: The profile that their sessions are within.
        sessions: How many connections with a session they may have at a time.
        calls_per_minute: How many requests are passed on to servers.
        tokens_per_day: About how many tokens the answers may have.
    """

    access: Access
    servers: Texts = ()
    groups: Texts = ()
    profile: str | None = None
    sessions: Annotated[int, Field(gt=0, strict=True)] | None = None
    calls_per_minute: Annotated[int, Field(gt=0, strict=True)] | None = None
    tokens_per_day: Annotated[int, Field(gt=0, strict=True)] | None = None


EVERYBODY = "*"
"""The row of callers who have no other."""
CLAIM = "claim:"
"""What begins the key of a row for a claim: `claim:NAME=VALUE`."""


class AuditConfig(_Table):
    """What is written of each call (SPEC GWY-19).

    Args:
        file: Where, beside the log: relative to the configuration, readable for its user alone.
        arguments: Whether with the arguments of the request.
    """

    file: Annotated[str, Field(min_length=1)] | None = None
    arguments: bool = False


class BudgetsConfig(_Table):
    """What is the most that the model reads at once, in approximate tokens.

    Args:
        group_tokens: A server whose tools are more has groups inside its own, where its parts have names.
        answer_tokens: The answer that opens a group is no longer (SPEC CTL-4).
        list_tokens: Opening a group that would make the list longer is refused, or closes others (SPEC FND-3).
    """

    group_tokens: Annotated[int, Field(gt=0)] = 2000
    answer_tokens: Annotated[int, Field(ge=LEAST_ANSWER_TOKENS)] = ANSWER_TOKENS
    list_tokens: Annotated[int, Field(gt=0)] | None = None


class OptionsConfig(_Table):
    """Options of the tool set; see `toolfold.ToolSet`. With `search = "none"` there is no `find_tools` (SPEC FND-1).

    Unless `search` says which, tools are ranked by meaning too where a model is installed (SPEC FND-5).
    """

    control: str = "open_group"
    control_visibility: str = "relevant"
    on_hidden: Literal["opaque", "hint"] = "hint"
    max_active: Annotated[int, Field(strict=True)] | None = None
    evict: Literal["oldest", "idlest"] | None = None
    page_size: Annotated[int, Field(strict=True)] | None = None
    search: Literal["bm25", "embeddings", "none"] | None = None

    def ranker(self) -> Ranker | None:
        """Return what ranks the tools of a search; raises `ConfigError` if that is not installed."""
        if self.search == "none":
            return None
        by_words = self.search == "bm25" or (self.search is None and not has_model())
        if by_words:
            return bm25
        from platformdirs import user_cache_path

        return by_meaning(user_cache_path("toolfold") / "vectors")


@frozen(kw_only=True)
class Entry:
    """A server as a configuration has it: what is approved is of one entry alone.

    `place` is the file that has it, by its whole path; empty for one of the command line or of a program. `whose` says
    of which caller's definitions it is, where each is listed his own (SPEC GWY-19).
    """

    place: str
    name: str
    upstream: UpstreamConfig
    whose: str = ""

    def of(self, whose: str) -> Entry:
        """Return it for the definitions of one caller."""
        return evolve(self, whose=whose)


class GatewayConfig(_Table):
    """Everything that a gateway needs to know.

    Args:
        upstreams: The name of each server to how it is reached; may come later, by `with_upstream`.
        groups: Path or segment to group; `None` to derive the groups from the servers.
        exclusions: Sets of groups of which at most one may be open.
        profiles: Name to profile.
        rights: What callers may do, by name, by `claim:NAME=VALUE`, and `*` for all others; without any row, callers
            may do all that there is (SPEC GWY-19).
        skills: Skills, each of which is a group; in a file, the folders that have them (SPEC SKL-2).
        pins: Patterns of tools that are in no group and always listed (SPEC FND-4).
        hidden: Patterns of tools that no list has (SPEC VIS-6).
        rename: The name of a tool to another one.
        audit: What is written of each call.
        budgets: What is the most that the model reads at once.
        on_change: `"quarantine"` to withhold a definition that changed since it was approved (SPEC GWY-11); it is
            marked in any case.
        options: Options of the tool set.
        left_out: The names of servers that are disabled, or whose entry is wrong.
        problems: What is wrong with entries that are left out, and what of others is passed over, a sentence for each.
        source: What messages call this configuration: the file's name.
        place: The file that has the servers, by its whole path, if one has them.
    """

    upstreams: Mapping[str, UpstreamConfig] = {}
    groups: Mapping[str, GroupConfig] | None = None
    exclusions: tuple[Texts, ...] = ()
    profiles: Mapping[str, ProfileConfig] = {}
    rights: Mapping[str, RightsConfig] = {}
    skills: Annotated[tuple[Skill, ...], Field(exclude=True)] = ()
    pins: Texts = ()
    hidden: Texts = ()
    rename: Mapping[str, str] = {}
    audit: AuditConfig = AuditConfig()
    budgets: BudgetsConfig = BudgetsConfig()
    on_change: Literal["mark", "quarantine"] = "mark"
    options: OptionsConfig = OptionsConfig()
    left_out: Annotated[Texts, Field(exclude=True)] = ()
    problems: Annotated[Texts, Field(exclude=True)] = ()
    source: Annotated[str, Field(exclude=True)] = "the gateway's configuration"
    place: Annotated[str, Field(exclude=True)] = ""

    @field_validator("rights")
    @classmethod
    def _of_claims(cls, given: Mapping[str, RightsConfig]) -> Mapping[str, RightsConfig]:
        for key in given:
            if not key or (key.startswith(CLAIM) and not all(key.removeprefix(CLAIM).partition("="))):
                raise ValueError(f'{key!r} is no key of a row: a name, "claim:NAME=VALUE" or "*"')
        return given

    @property
    def prefixed(self) -> bool:
        """Whether servers have names: those of their tools begin with them, however many servers there are.

        SPEC GWY-6.
        """
        return ONE_SERVER not in self.upstreams

    def prefix(self, server: str) -> str:
        """Return what the names of a server's tools begin with."""
        return f"{server}{WIRE_SEPARATOR}" if self.prefixed else ""

    def about(self, server: str, sentence: str) -> str:
        """Return a sentence on a server, with its name where it has one."""
        return f"{server}: {sentence}" if self.prefixed else sentence

    @property
    def settings(self) -> object:
        """What `new_tool_set` depends on, to be compared."""
        return self.options, self.budgets.list_tokens, self._opener.room

    def check_upstreams(self) -> None:
        """Raise `ConfigError` if there is no server."""
        if not self.upstreams:
            raise ConfigError(f'{self.source} names no server: add [upstream] with command = ["…"] or url = "…".')

    def same_upstreams(self, other: GatewayConfig) -> frozenset[str]:
        """Return the servers that another configuration has, too, and reaches in the same way.

        SPEC GWY-9.
        """

        def reached(config: GatewayConfig) -> dict[str, object]:
            return {name: one.model_dump(exclude=_OF_THE_GATEWAY) for name, one in config.upstreams.items()}

        mine, its = reached(self), reached(other)
        return frozenset(name for name in mine if name in its and mine[name] == its[name])

    def with_upstream(self, upstream: UpstreamConfig) -> GatewayConfig:
        """Return this configuration for one server, which needs no name of its own."""
        return self.model_copy(update={"upstreams": {ONE_SERVER: upstream}, "place": ""})

    def alone(self, servers: Iterable[str]) -> GatewayConfig:
        """Return this configuration for some of its servers, without what arranges them, which may name others."""
        kept = {name: self.upstreams[name] for name in servers}
        arranged: dict[str, Any] = {"groups": None, "exclusions": (), "profiles": {}, "rights": {}}
        return self.model_copy(update={"upstreams": kept, **arranged})

    def entry(self, server: str) -> Entry:
        """Return the entry of a server."""
        return Entry(place=self.place, name=server, upstream=self.upstreams[server])

    def paths(self) -> dict[str, str]:
        """Return the full path of each configured group by its key, in the order of the file.

        Raises:
            ConfigError: Two are the same.
        """
        paths: dict[str, str] = {}
        taken: set[str] = set()
        for key, group in (self.groups or {}).items():
            paths[key] = path = _path(key, group.parent)
            with self.at(f"[groups.{quoted_key(key)}]"):
                if path in taken:
                    raise DuplicateName("group", path)
            taken.add(path)
        return paths

    @property
    def _opener(self) -> Loader:
        """What opens groups: derived descriptions have little room, for a model reads them with each request."""
        if self.groups is not None or not self.prefixed:
            return OPENER
        return evolve(OPENER, room=min(OPENER.room, max(LEAST_CHARACTERS, SERVER_CHARACTERS * len(self.upstreams))))

    def new_tool_set(self, name: str) -> ToolSet:
        """Return an empty tool set with the options; raises `ConfigError`."""
        tokens = self.budgets.list_tokens
        control: Any = self._opener if self.options.control == OPENER.name else self.options.control
        with self.at("[options]"):
            return ToolSet(
                name,
                **self.options.model_dump(exclude={"search", "control"}),
                control=control,
                search=self.options.ranker(),
                list_budget=None if tokens is None else ListBudget(tokens, approximate_tokens),
            )

    @contextmanager
    def at(self, place: str) -> Generator[None]:
        """Give errors from within the name of the file and of the place in it."""
        try:
            yield
        except ToolfoldError as error:
            raise ConfigError(f"{self.source}, {place}: {error}") from error


def _path(key: str, parent: str | None) -> str:
    return key if parent is None or key.startswith(f"{parent}.") else f"{parent}.{key}"
