"""The options of a server: what may be given, what each is unless given, and which values are refused (SPEC 18).

Limits are of what a server holds and does at a time, in all and for each caller (SPEC SAF-4, SES-4, STO-7). Whoever
reaches one is refused; or, with `when_full="end_idlest"`, the session that the same caller has left idle for longest is
ended, and never another's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from attrs import field
from mcp.server.lowlevel import Server

from toolfold import ConfigError, Limit, Profile, Store, __version__
from toolfold.spi import frozen

from ..names import WIRE_LENGTH, WIRE_SEPARATOR
from ..tokens import ANSWER_TOKENS, LEAST_ANSWER_TOKENS
from .address.handle import Handles
from .address.signed import Stale
from .answer.answers import AnswerForm
from .answer.long_results import READ_RESULT
from .answer.proxy import CALL_TOOLS, READ_TOOL

if TYPE_CHECKING:
    from .handlers import RequestHandlers

Delivery = Literal["auto", "principal"]
Extend = Callable[[Server[Any], "RequestHandlers"], None]


@frozen(kw_only=True)
class Limits:
    """The limits of what a server holds and does at a time.

    Behind a reverse proxy all requests come from its address: then let callers authenticate, trust the proxy's
    `X-Forwarded-For` (`forwarded_allow_ips` of `serve`), or set `per_caller` to `None`.

    Attributes:
        connections: Connections to `serve` over HTTP; always counted by address. Probes and requests that end a session
            are answered beyond it.
        sessions: Sessions of clients of the era up to 2025-11-25.
        handles: Sessions stored between requests of the era from 2026-07-28: for handles; and as many for principals
            and selections of groups with hooks, which others share, so that none of them ends to make room.
        calls: Requests in progress, with the transitions and hooks that they wait for, and the threads of synchronous
            handlers, also those of cancelled requests until they end.
        streams: Subscriptions of `subscriptions/listen`.
    """

    connections: Limit = field(default=Limit(10_000, 500))
    sessions: Limit = field(default=Limit(10_000, 1_000))
    handles: Limit = field(default=Limit(10_000, 1_000, "end_idlest"))
    calls: Limit = field(default=Limit(1_000, 100))
    streams: Limit = field(default=Limit(1_000, 100))

    def __attrs_post_init__(self) -> None:
        for name in ("connections", "calls", "streams"):
            if getattr(self, name).when_full != "refuse":
                raise ConfigError(f"{name} can't be ended to make room; their when_full must be 'refuse'.")


DEFAULTS = Limits()


class GroupedOptions(TypedDict, total=False):
    """How groups are delivered, whether a tool set has its own server or its groups are put in front of one.

    With a `store`, legacy sessions of a server of the MCP SDK are resumed by other processes, too. A server that has
    state of its own for each connection, which a store can't have, is left its sessions: one that lets clients
    subscribe to resources or set a level of logging. So is one of FastMCP, whose session manager is out of reach.

    Attributes:
        profile: The profile that sessions are opened under (SPEC PRO-1). One that is given by name may be registered
            anew later; new sessions are then opened under that.
        active: Further groups, or one, that sessions start with.
        selection: Whether a request may select groups in its URL or headers (SPEC DEL-4). It can select only those that
            are `selectable`.
        call_tool: The name of the tool that calls other tools.
        legacy_call_tool: Whether legacy clients are offered it too (SPEC DEL-8).
        read_tool: Whether to offer `read_tool` beside `call_tool`: it calls only tools whose `readOnlyHint` is true, so
            that a client's approval can tell them apart (SPEC CTL-9).
        call_tools: Whether to offer `call_tools` beside `call_tool`: it makes several calls in one request, in order or
            at the same time (SPEC COD-2).
        read_result: Whether a result that is longer than its client passes on is answered with its beginning, and the
            rest is read by the tool `read_result`, which clients of such hosts are offered (SPEC GWY-17).
        handle_key: The secret that signs handles, or several of which the last one signs; by default that in the
            environment variable `TOOLFOLD_HANDLE_KEY`, or a random one of this process (SPEC DEL-3).
        handle_lifetime: Seconds for which a handle is accepted; if groups have hooks, after its last use.
        stale_handles: `"normalise"` or `"refuse"` a handle that was made before the groups changed.
        limits: The limits in all and per caller (SPEC SAF-4).
        handles: `"auto"`: a handle is the signed state itself unless groups have hooks. `"stored"`: it identifies a
            session that the server stores, and has only 22 characters for a model to copy (SPEC DEL-3).
        answers: How an answer to opening a group describes the tools that became available (SPEC CTL-4):
            `"definitions"` with name, description and input schema, for clients that never list again; `"signatures"`
            as calls on one line with their descriptions, without schemas; `"names"` by name only; `"auto"` with
            definitions, except in a session whose client has listed again after an earlier change of its list.
        answer_tokens: The maximum length of the library's own answers, in approximate tokens; less for clients that are
            known to cut. Beyond it, tools are described by signatures in place of schemas, then without, then without
            descriptions, and finally only their number is given. A function that returns it is called for each answer.
        store: Where sessions are that outlive a request, such as `SQLiteStore("state.db")`; every server that shares it
            serves them all (SPEC STO-1, STO-4). By default they are in the memory of this process.
    """

    profile: str | Profile | None
    active: Iterable[str]
    selection: bool
    call_tool: str
    legacy_call_tool: bool
    read_tool: bool
    call_tools: bool
    read_result: bool
    handle_key: str | bytes | Sequence[str | bytes] | None
    handle_lifetime: float
    stale_handles: Stale
    limits: Limits
    handles: Handles
    answers: AnswerForm
    answer_tokens: int | Callable[[], int]
    store: Store | None


class ServerOptions(GroupedOptions, total=False):
    """All options of `build_server`: those of `GroupedOptions`, and what only a tool set's own server has.

    Attributes:
        delivery: `"auto"`: by the era of each request. `"principal"`: the same, but each authenticated caller has
            modern lists of its own (SPEC DEL-6).
        separator: Replaces the dot in names on the wire (SPEC NAM-6). Several clients refuse dots; `"."` keeps them.
        max_name_length: How many characters a tool's name may have on the wire; several clients refuse more than 64.
        disclosure: Whether to offer the draft extension for groups (SPEC DEL-5).
        instructions: The server's instructions; how to open groups is added.
        version: The server's version; Toolfold's own by default.
        extend: Called with the server and its request handlers, to add more for anything but tools, prompts and
            resources.
    """

    delivery: Delivery
    separator: str
    max_name_length: int
    disclosure: bool
    instructions: str | None
    version: str
    extend: Extend | None


@frozen(kw_only=True)
class ServerSettings:
    """The options of a server, with the value of each that was not given; made by `ServerSettings(**options)`.

    Raises:
        ConfigError: There is no such delivery, or no such form of handles or answers; or answers have too little room.
    """

    delivery: Delivery = "auto"
    separator: str = WIRE_SEPARATOR
    max_name_length: int = WIRE_LENGTH
    profile: str | Profile | None = None
    active: Iterable[str] = ()
    selection: bool = True
    disclosure: bool = True
    instructions: str | None = None
    version: str = __version__
    call_tool: str = "call_tool"
    legacy_call_tool: bool = True
    read_tool: bool = False
    call_tools: bool = False
    read_result: bool = False
    handle_key: str | bytes | Sequence[str | bytes] | None = None
    handle_lifetime: float = 3600
    stale_handles: Stale = "normalise"
    limits: Limits = DEFAULTS
    handles: Handles = "auto"
    answers: AnswerForm = "auto"
    answer_tokens: int | Callable[[], int] = ANSWER_TOKENS
    extend: Extend | None = None
    store: Store | None = None

    def __attrs_post_init__(self) -> None:
        if self.delivery not in get_args(Delivery):
            raise ConfigError(f'There is no delivery {self.delivery!r}; use "auto" or "principal".')
        if self.handles not in get_args(Handles):
            raise ConfigError(f'handles must be "auto" or "stored", not {self.handles!r}.')
        if self.answers not in get_args(AnswerForm):
            known = '"auto", "definitions", "signatures" or "names"'
            raise ConfigError(f"answers must be {known}, not {self.answers!r}.")
        if not callable(self.answer_tokens) and self.answer_tokens < LEAST_ANSWER_TOKENS:
            raise ConfigError(f"answer_tokens must be at least {LEAST_ANSWER_TOKENS}, not {self.answer_tokens}.")

    @property
    def proxies(self) -> tuple[str, ...]:
        """The names of the tools that call other tools and that clients of any era are offered."""
        if self.delivery != "auto" and not self.legacy_call_tool:
            return ()
        more = ((READ_TOOL, self.read_tool), (CALL_TOOLS, self.call_tools))
        return (self.call_tool, *(name for name, offered in more if offered))

    @property
    def added_tools(self) -> tuple[str, ...]:
        """The names of all tools that are offered beside a tool set's own."""
        return (*self.proxies, *((READ_RESULT,) if self.read_result else ()))

    def call_tool_for(self, *, modern: bool) -> str | None:
        """Return the name of the call-tool proxy that clients of an era are offered, if they are."""
        offered = self.delivery == "auto" if modern else self.legacy_call_tool
        return self.call_tool if offered else None
