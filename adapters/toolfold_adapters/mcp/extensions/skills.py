"""Skills for clients of the extension `io.modelcontextprotocol/skills`: `skills/list` and `skills/get` (SPEC SKL-2).

A skill is a resource whose definition carries a front matter; the resources below the same URI are its files. An entry
describes them as they are now. They are read by `resources/read`, whether or not the group is open.

The extension is one of the modern era, and its clients declare nothing.
"""

from __future__ import annotations

import logging
from base64 import b64decode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from mcp.server.extension import Extension, MethodBinding
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PaginatedRequestParams, RequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import field_validator

from toolfold import Catalog, Component, Session, ToolfoldError
from toolfold.spi import MAX_URI, quoted

from ...skills import FILE, FRONT_MATTER_META, parts_of
from ..answer.render import CACHE_HINTS
from ..handlers import RequestContext, RequestHandlers

EXTENSION = "io.modelcontextprotocol/skills"

log = logging.getLogger("toolfold.mcp")


class SkillParams(RequestParams):
    """The parameters of `skills/get`."""

    uri: str


class SkillsListParams(PaginatedRequestParams):
    """The parameters of `skills/list`, which has one page; so any cursor is refused."""

    @field_validator("cursor")
    @classmethod
    def _refuse(cls, cursor: str | None) -> None:
        if cursor is not None:
            raise ValueError("there is no such page")


class Skills(Extension):
    """The extension, whose requests are answered in the session that each names.

    Args:
        handlers: Those of the server, which know the sessions and limits of requests.
    """

    identifier = EXTENSION

    def __init__(self, handlers: RequestHandlers) -> None:
        self._handlers = handlers

    def methods(self) -> Sequence[MethodBinding]:
        """Return its two methods, of the modern era."""
        modern = frozenset(MODERN_PROTOCOL_VERSIONS)
        return (
            MethodBinding("skills/list", SkillsListParams, self.list, modern),
            MethodBinding("skills/get", SkillParams, self.get, modern),
        )

    async def list(self, ctx: RequestContext, params: SkillsListParams) -> dict[str, Any]:
        """Return the entries of all skills that can be read."""
        skills: list[dict[str, Any]] = []
        async with self._handlers.request(ctx) as session:
            for uri, skill in skills_of(session.catalog).items():
                try:
                    skills.append(await _entry(session, ctx, skill))
                except ToolfoldError as error:
                    log.warning("%s is left out of skills/list: %s", uri, error)
        return {"resultType": "complete", "skills": skills, **CACHE_HINTS}

    async def get(self, ctx: RequestContext, params: SkillParams) -> dict[str, Any]:
        """Return the entry of a skill by the URI of its `SKILL.md`; raises `MCPError` if there is none."""
        async with self._handlers.request(ctx) as session:
            skill = skills_of(session.catalog).get(params.uri)
            if skill is None:
                raise MCPError(code=INVALID_PARAMS, message=f"Unknown skill: {quoted(params.uri, MAX_URI)}")
            return {"resultType": "complete", "skill": await _entry(session, ctx, skill), **CACHE_HINTS}


def skills_of(catalog: Catalog) -> Mapping[str, Component]:
    """Return the resources of the `SKILL.md` of all skills, by their URIs."""
    resources = catalog.components["resource"].by_name
    return {uri: one for uri, one in resources.items() if FRONT_MATTER_META in one.definition.get("_meta", {})}


async def _entry(session: Session, ctx: RequestContext, skill: Component) -> dict[str, Any]:
    """Return a skill as its files are now; raises `ToolfoldError` for one that can't be read any more."""
    root = skill.name.removesuffix(FILE)
    uris = [uri for uri in session.catalog.components["resource"].by_name if uri.startswith(root)]
    contents = {uri: await _content(session, ctx, uri) for uri in uris}
    front_matter, _ = parts_of(skill.name, contents[skill.name].decode("utf-8-sig"))
    resources = [
        {"uri": uri, "digest": f"sha256:{sha256(content).hexdigest()}", "size": len(content)}
        for uri, content in contents.items()
    ]
    return {"uri": skill.name, "frontmatter": front_matter, "resources": resources}


async def _content(session: Session, ctx: RequestContext, uri: str) -> bytes:
    (part,) = (await session.read(uri, ctx))["contents"]
    return part["text"].encode() if "text" in part else b64decode(part["blob"])
