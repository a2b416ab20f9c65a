"""Definition tags as drafted for the revision after 2026-07-28 (SPEC NXT-1). Experimental, and off unless asked for.

A tag is a digest of what a caller sees: of a whole list, or of an introduction. Clients send the tags that they know
with a call (`io.modelcontextprotocol/knownTags`), and a server says which of them are stale
(`io.modelcontextprotocol/staleTags`), so that a client lists again although its copy is still fresh. Opening a group
changes what is listed under the state that the call leads to; so its answer says that the list of tools is stale.

All of it is here and in no other module: `definition_tags` returns what `build_server` takes as `extend`.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from typing import Any, Literal, get_args
from weakref import WeakKeyDictionary

from attrs import define, evolve, field
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from toolfold import Component, ConfigError, Profile, Session, Snapshot, ToolSet
from toolfold.machine import bits
from toolfold.spi import Kind, Memo, array, table

from ...names import HANDLE_META, LISTS
from ..address.reference import ByList, ListedSessions
from ..answer.asked import answerable
from ..answer.delivery import Delivery, Listed
from ..answer.render import dumped, wire_errors
from ..handlers import RequestContext, RequestHandlers
from ..request import Request, is_modern

Choice = Literal["ignore", "honour", "signal", "reject"]

KNOWN_TAGS = "io.modelcontextprotocol/knownTags"
"""In the `_meta` of a request: the tag that its client knows of each method."""
STALE_TAGS = "io.modelcontextprotocol/staleTags"
"""In the `_meta` of a result: the methods whose known tags are not those of what there is now."""
STALE = -31001
"""The error of a rejected call. The draft has no code for it; ours is outside the range of JSON-RPC's own."""
DISCOVER = "server/discover"

KINDS_OF: Mapping[str, Kind] = {listing.method: kind for kind, listing in LISTS.items()}
RELEVANT: Mapping[str, tuple[str, ...]] = {
    "tools/call": (DISCOVER, "tools/list"),
    "prompts/get": (DISCOVER, "prompts/list"),
    "resources/read": (DISCOVER, "resources/list", "resources/templates/list"),
}
"""The tags that a call depends on, which may reject it."""

Extend = Callable[[Server[Any], RequestHandlers], None]
"""What `build_server` calls with a server and its handlers."""

HELD = 64
"""How many lists are remembered, so that a call can be answered in the state of the one that its client knows."""
Held = tuple[Snapshot, tuple[Listed, ...]]
"""A state, and what was listed of it."""
Tagged = tuple[str, tuple[Listed, ...]]
"""The tag of a list, and what is listed."""
_TAGGED = Memo[tuple[Delivery, Kind, tuple[Component, ...]], Tagged](most=8)


def definition_tags(choice: Choice, extend: Extend | None = None) -> Extend:
    """Return what has a server tag its lists, to be given to `build_server` as `extend`.

    Args:
        choice: What a call is answered whose client knows a list that is not the present one:

            - `"ignore"`: as if it had sent no tag;
            - `"signal"`: as ever, and with the methods whose tags are stale;
            - `"honour"`: the same, but a tool that is not as its client knows it is called in the state of the client's
              list: where handles name states, that one has no facts and no groups but such as a request may begin with,
              nothing is held by hooks, and the tool is still defined so. Otherwise the call is rejected, as it is if
              the list is not remembered;
            - `"reject"`: an error, before anything is done.
        extend: What else extends the server, such as `Gateway.extend`; it comes first.

    Raises:
        ConfigError: There is no such choice.
    """
    if choice not in get_args(Choice):
        raise ConfigError(f"Definition tags: {choice!r} is not one of {', '.join(get_args(Choice))}.")

    def extended(server: Server[Any], handlers: RequestHandlers) -> None:
        if extend is not None:
            extend(server, handlers)
        server.middleware.insert(0, DefinitionTags(choice, handlers))  # sees answers as they go out

    return extended


@define(eq=False)
class HeldState(ListedSessions):
    """The state of a list that a client knows, for one request."""

    _tools: ToolSet
    _snapshot: Snapshot
    _profile: Profile | None

    @asynccontextmanager
    async def state(self, request: Request, *_: object) -> AsyncGenerator[tuple[Session, ByList]]:
        """Yield a session in the state, which ends with the request."""
        async with self._tools.request_session(self._snapshot, self._profile, None, request.caller) as session:
            yield session, self.reference(session)


@define(eq=False)
class DefinitionTags:
    """Middleware of a server, which adds tags and answers those that clients know.

    Args:
        choice: What a call is answered whose client knows another list.
        handlers: Those of the server, which know the state of a request.
    """

    _choice: Choice
    _handlers: RequestHandlers
    _digests: WeakKeyDictionary[Component, tuple[Any, bytes]] = field(
        init=False, factory=WeakKeyDictionary[Component, "tuple[Any, bytes]"]
    )
    _held: OrderedDict[tuple[str, str], Held] = field(init=False, factory=OrderedDict["tuple[str, str]", "Held"])

    async def __call__(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Answer a request of the modern era; of any other, let others."""
        method = ctx.method
        if ctx.request_id is None or not is_modern(ctx):
            return await call_next(ctx)
        if method in KINDS_OF:
            return await self._listed(ctx, call_next, KINDS_OF[method])
        if method == DISCOVER:
            answer = dumped(await call_next(ctx))
            return {**answer, "tag": tag_of_introduction(answer)}
        known = known_tags(ctx.meta)
        if self._choice == "ignore" or method not in RELEVANT or not known:
            return await call_next(ctx)
        return await self._called(ctx, call_next, known)

    async def _listed(self, ctx: RequestContext, call_next: CallNext, kind: Kind) -> dict[str, Any]:
        """Answer a list; its tag is of the state that the list is of, even if that changes meanwhile."""
        answer, tag = None, await self._tag(ctx, kind)
        for _ in range(3):
            before, answer = tag, dumped(await call_next(ctx))
            if (tag := await self._tag(ctx, kind)) == before:
                return {**answer, "tag": tag}
        assert answer is not None
        return answer  # it changes with each look: without a tag, which is optional

    async def _called(self, ctx: RequestContext, call_next: CallNext, known: Mapping[str, str]) -> HandlerResult:
        stale = [] if self._choice == "signal" else await self._stale(ctx, call_next, known)
        if relevant := [method for method in RELEVANT[ctx.method] if method in stale]:
            if self._choice == "reject":
                raise rejection(relevant)
            if self._choice == "honour" and ctx.method == "tools/call" and "tools/list" in stale:
                held = await self._honoured(ctx, known["tools/list"])
                if held is not None:
                    return _signalled(held, stale)
        answer = dumped(await call_next(ctx))
        leads_to: Any = (table(answer.get("_meta")) or {}).get(HANDLE_META)
        meta: Any = {**(ctx.meta or {}), HANDLE_META: leads_to} if leads_to else ctx.meta
        return _signalled(answer, await self._stale(replace(ctx, meta=meta), call_next, known))

    async def _honoured(self, ctx: RequestContext, tag: str) -> dict[str, Any] | None:
        """Return the answer to a call in the state of the list that its client knows, or `None` if it needs none.

        A tool that is as its client knows it needs none. Where a session has what is open, another state is not
        honoured, since its groups may exclude those that are open by now. Neither is a definition that is gone, nor a
        list that is not remembered: nobody can say what its client knows of the tool.

        Raises:
            MCPError: The call can't be answered in that state.
        """
        params = ctx.params or {}
        name, arguments = str(params.get("name")), table(params.get("arguments") or {})
        if arguments is None:
            return None
        with self._handlers.answering(ctx, name) as request:
            delivery = self._handlers.delivery(request, name=name)
            source, components = await delivery.everything(request, "tool")
            listed = delivery.rendered(components)
            now, held = _called(listed, name), self._held.get((request.principal.key, tag))
            if held is None:
                raise rejection(["tools/list"])
            snapshot, known = held[0], _called(held[1], name)
            if known is None or self._same(now, known):
                return None
            state = HeldState(self._handlers.tools, snapshot, self._handlers.profile(ctx))
            then = evolve(delivery, address=state)
            _, components = await then.everything(request, "tool")
            listed = then.rendered(components)
            if source.session is not None or snapshot.catalog.has_hooks or not self._same(_called(listed, name), known):
                raise rejection(["tools/list"])
            return answerable(ctx, name, await then.call(request, name, arguments))  # type: ignore[no-any-return]

    def _same(self, one: Listed | None, other: Listed) -> bool:
        return one is not None and self._digest(*one) == self._digest(*other)

    async def _stale(self, ctx: RequestContext, call_next: CallNext, known: Mapping[str, str]) -> list[str]:
        """Return the methods whose tags are not those that a client knows; of no method that has none."""
        stale: list[str] = []
        for method, tag in known.items():
            if method == DISCOVER:
                asked = replace(ctx, method=DISCOVER, params={"_meta": (ctx.params or {}).get("_meta", {})})
                now = tag_of_introduction(dumped(await call_next(asked)))
            else:
                now = await self._tag(ctx, KINDS_OF[method])
            if now != tag:
                stale.append(method)
        return stale

    async def _tag(self, ctx: RequestContext, kind: Kind) -> str:
        """Return the tag of a whole list, and remember the state that it is of.

        Not of one with facts, nor of one with groups that only code opens: a tag is no secret, and what a session came
        to know, or was let into, is nobody's who was not.
        """
        with wire_errors(kind, modern=True):
            request = Request.of(ctx)
            delivery = self._handlers.delivery(request)
            source, components = await delivery.everything(request, kind)

            def computed() -> Tagged:
                listed = delivery.rendered(components)
                return tag_of(kind, (self._digest(*one) for one in listed)), listed

            tag, listed = _TAGGED.of(source.snapshot.memo, (delivery, kind, components), computed)
            if kind == "tool" and self._choice == "honour" and self._is_anybodys(ctx, source.snapshot):
                key = request.principal.key, tag
                self._held[key] = source.snapshot, listed
                self._held.move_to_end(key)
                while len(self._held) > HELD:
                    self._held.popitem(last=False)
            return tag

    def _is_anybodys(self, ctx: RequestContext, snapshot: Snapshot) -> bool:
        """Return whether a request may begin in a state: without facts, and with no group but such as it may name."""
        catalog, begins = snapshot.catalog, self._handlers.selections.of(ctx).paths
        others = bits(snapshot.configuration.active & ~(catalog.selectable | catalog.initial.active))
        return not snapshot.facts and all(catalog.groups[number].path in begins for number in others)

    def _digest(self, component: Component, definition: Mapping[str, Any]) -> bytes:
        """Return the digest of a definition, which is computed once while it is rendered once."""
        found = self._digests.get(component)
        if found is None or found[0] is not definition:
            self._digests[component] = found = definition, sha256(canonical(definition)).digest()
        return found[1]


def _called(listed: Iterable[Listed], name: str) -> Listed | None:
    """Return what is listed by a name on the wire."""
    return next((one for one in listed if one[1]["name"] == name), None)


# -- tags -------------------------------------------------------------------------------------------------------------


def canonical(value: Any) -> bytes:
    """Return JSON that is the same for equal values: compact, with keys in order."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def tag_of(kind: Kind, digests: Iterable[bytes]) -> str:
    """Return the tag of a list of definitions, given the digest of each, whatever their order."""
    return _tag(LISTS[kind].method, b"".join(sorted(digests)))


def tag_of_introduction(answer: Mapping[str, Any]) -> str:
    """Return the tag of an answer to `server/discover`: of instructions, capabilities and versions."""
    covered = {key: answer[key] for key in ("instructions", "capabilities", "supportedVersions") if key in answer}
    return _tag(DISCOVER, canonical(covered))


def _tag(method: str, content: bytes) -> str:
    return urlsafe_b64encode(sha256(method.encode() + b"\n" + content).digest()[:18]).decode()


def known_tags(meta: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the tags in the `_meta` of a request, of methods that have tags; what else stands there is passed over."""
    given = table((meta or {}).get(KNOWN_TAGS)) or {}
    tagged = {DISCOVER, *KINDS_OF}
    return {method: tag for method, tag in given.items() if method in tagged and isinstance(tag, str)}


def stale_methods(given: Any) -> list[str]:
    """Return the methods that `staleTags` names: a list as in the draft, or the keys of an object."""
    return [method for method in (array(given) or table(given) or ()) if isinstance(method, str)]


def rejection(stale: list[str]) -> MCPError:
    """Return the error of a call whose client should list again."""
    text = f"What this client knows of {' and '.join(stale)} is not what there is now: ask for it again, then decide."
    return MCPError(code=STALE, message=text, data={"staleTags": stale})


def _signalled(answer: dict[str, Any], stale: list[str]) -> dict[str, Any]:
    if not stale:
        return answer
    return {**answer, "_meta": {**(table(answer.get("_meta")) or {}), STALE_TAGS: stale}}
