"""A server with definition tags, as drafted, in each of the choices that the draft has (SPEC NXT-1)."""
# ruff: noqa: D102 - a method without a docstring does what its name says

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from mcp.shared.exceptions import MCPError

from toolfold_specs.drivers.protocol import HANDLE_META

from .server import Fixture, is_modern

Json = dict[str, Any]
REJECTED = -31001
KNOWN, STALE = "io.modelcontextprotocol/knownTags", "io.modelcontextprotocol/staleTags"
TOOLS, DISCOVER = "tools/list", "server/discover"
RESOURCES = ("resources/list", "resources/templates/list")
KEYS: Mapping[str, str] = {
    DISCOVER: "",
    TOOLS: "tools",
    "prompts/list": "prompts",
    RESOURCES[0]: "resources",
    RESOURCES[1]: "resourceTemplates",
}
"""The methods whose results have tags, and what is listed by each."""
DEPENDS: Mapping[str, tuple[str, ...]] = {
    "tools/call": (DISCOVER, TOOLS),
    "prompts/get": (DISCOVER, "prompts/list"),
    "resources/read": (DISCOVER, *RESOURCES),
}
"""The tags on which a call depends."""


class Tagging(Fixture):
    """The server with tags, which signals; it has a prompt, a resource and a template, too."""

    rejects = False

    def server(self) -> Any:
        """Return the server."""
        server = super().server()
        own: Mapping[str, Json] = {
            "prompts/list": {"prompts": [{"name": "greet"}]},
            "resources/list": {"resources": [{"name": "note", "uri": "kit://note"}]},
            "resources/templates/list": {"resourceTemplates": [{"name": "notes", "uriTemplate": "kit://notes/{one}"}]},
            "prompts/get": {"messages": []},
            "resources/read": {"contents": []},
        }

        async def answer(ctx: Any, call_next: Any) -> Any:
            if not is_modern(ctx) or ctx.request_id is None:
                return await call_next(ctx)

            async def plain(one: Any) -> Json:
                return await self.plain(one, own, call_next)

            return await self.answered(ctx, plain)

        server.middleware.append(answer)
        return server

    async def plain(self, ctx: Any, own: Mapping[str, Json], call_next: Any) -> Json:
        """Return an answer without tags."""
        if ctx.method in own:
            return {**own[ctx.method], "ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
        given: Json = dumped(await call_next(ctx))
        given = {key: one for key, one in given.items() if one is not None}
        if ctx.method == DISCOVER:
            given["capabilities"] = {**given["capabilities"], "prompts": {}, "resources": {}}
        return given

    async def answered(self, ctx: Any, plain: Any) -> Json:
        """Return an answer with tags."""
        if ctx.method in KEYS:
            page = await plain(ctx)
            return {**page, "tag": await self.tag(ctx, ctx.method, plain, page)}
        known = self.known(ctx)
        if ctx.method not in DEPENDS or not known:
            return await plain(ctx)  # type: ignore[no-any-return]
        if self.rejects and (stale := self.relevant(ctx.method, await self.stale(ctx, known, plain))):
            self.reject(stale)
        answer = await plain(ctx)
        handle = self.leads_to(answer)
        after = replace(ctx, meta={**(ctx.meta or {}), HANDLE_META: handle}) if handle else ctx
        return self.signalled(answer, await self.stale(after, known, plain))

    def known(self, ctx: Any) -> dict[str, str]:
        given = mapping(mapping(ctx.meta).get(KNOWN))
        return {method: tag for method, tag in given.items() if method in KEYS and isinstance(tag, str)}

    def leads_to(self, answer: Json) -> str | None:
        meta: Json = answer.get("_meta") or {}
        return meta.get(HANDLE_META)

    async def stale(self, ctx: Any, known: Mapping[str, str], plain: Any) -> list[str]:
        return [method for method, tag in known.items() if tag != await self.tag(ctx, method, plain)]

    def relevant(self, called: str, stale: list[str]) -> list[str]:
        return [one for one in stale if one in DEPENDS[called]]

    def reject(self, stale: list[str]) -> None:
        raise MCPError(REJECTED, "List again.", {"staleTags": stale})

    def signalled(self, answer: Json, stale: list[str]) -> Json:
        meta: Json = answer.get("_meta") or {}
        return {**answer, "_meta": {**meta, STALE: stale}} if stale else answer

    async def tag(self, ctx: Any, method: str, plain: Any, page: Json | None = None) -> str:
        """Return the tag of a list as it is for a request, or of the introduction."""
        if method == "tools/list":
            session = self.listed_session(ctx)
            definitions = [self.definition(name).model_dump(mode="json") for name in self.engine.names(session)]
            return self.digest(method, definitions)
        params = {"_meta": mapping(mapping(ctx.params).get("_meta"))}
        whole = await plain(replace(ctx, method=method, params=params)) if page is None else page
        covered = (KEYS[method],) if KEYS[method] else ("instructions", "capabilities", "supportedVersions")
        return self.digest(method, [whole.get(key) for key in covered])

    def digest(self, method: str, content: Any) -> str:
        return f"{method} {json.dumps(content, sort_keys=True)}"


def dumped(answer: Any) -> Json:
    """Return an answer as data."""
    return mapping(answer) or dict(answer.model_dump(mode="json", by_alias=True))


class Ignoring(Tagging):
    """The one that ignores what clients know."""

    def signalled(self, answer: Json, stale: list[str]) -> Json:
        return answer


class Rejecting(Tagging):
    """The one that rejects calls whose client knows another list."""

    rejects = True


class Honouring(Tagging):
    """The one that calls a tool in the state of the list that its client knows."""

    async def tag(self, ctx: Any, method: str, plain: Any, page: Json | None = None) -> str:
        tag = await super().tag(ctx, method, plain, page)
        if method == "tools/list":
            self.states[tag] = self.engine.dump(self.listed_session(ctx))
        return tag

    async def answered(self, ctx: Any, plain: Any) -> Json:
        """Return an answer, of a call under the state of the list that is known."""
        held = self.known(ctx).get("tools/list")
        if ctx.method != "tools/call" or held not in self.states or HANDLE_META in (ctx.meta or {}):
            return await super().answered(ctx, plain)

        async def under(one: Any) -> Json:
            return await plain(replace(one, meta={**(one.meta or {}), HANDLE_META: held}) if one is ctx else one)  # type: ignore[no-any-return]

        return await super().answered(ctx, under)


class NeverOfOpening(Tagging):
    """The one that does not say that a list is stale once a group has opened."""

    def leads_to(self, answer: Json) -> str | None:
        return None


def mapping(value: Any) -> Json:
    """Return a value if it is an object, else an empty one."""
    return cast("Json", value) if isinstance(value, dict) else {}
