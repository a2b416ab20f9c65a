"""What the integrations with agent frameworks share: where a conversation comes from, and what a result is to a model.

An integration decides nothing about state. A framework asks for the tools before each step of its model, and makes the
calls; both go to a `Conversation`, and the state after a call is stored with its answer, from where it is restored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from toolfold import ConfigError, Profile, Session, ToolResult, ToolSet
from toolfold.spi import enumerated, frozen

from ..inprocess import Conversation, Native
from ..inprocess.formats import STATE


@frozen
class ConversationSource:
    """What the conversations of an integration start from.

    Attributes:
        tools: A tool set, or an open session: one in a store, or the fork of a sub-agent (SPEC SES-7, STO-1).
        profile: The profile of new sessions.
        active: The groups that new sessions start with.
        native: The provider that loads tools late; see `Conversation`.
    """

    tools: ToolSet | Session
    profile: str | Profile | None = None
    active: tuple[str, ...] = ()
    native: Native | None = None

    @classmethod
    def of(
        cls,
        tools: ToolSet | Session,
        profile: str | Profile | None,
        active: str | Iterable[str],
        native: Native | None = None,
    ) -> ConversationSource:
        """Return the source of these values, checked; raises `ConfigError` as the conversations would."""
        given: Any = tools
        if not isinstance(given, ToolSet | Session):
            raise ConfigError(f"{type(given).__name__} is no tool set; pass a ToolSet, or an open session of one.")
        groups = (active,) if isinstance(active, str) else tuple(active)
        if isinstance(tools, Session) and (groups or profile is not None):
            raise ConfigError("A session has its groups and its profile; pass them where it is opened.")
        source = cls(tools, profile, groups, native)
        source.conversation()
        return source

    @property
    def name(self) -> str:
        """The name of the tool set."""
        return (self.tools.tools if isinstance(self.tools, Session) else self.tools).name

    def check_names(self, own: Iterable[str], conversation: Conversation) -> None:
        """Raise `ConfigError` if an agent has tools of its own with names that the conversation has, too."""
        if clashes := [name for name in own if conversation.component(name) is not None]:
            raise ConfigError(
                f"The agent has tools of its own with names that the tool set {self.name!r} has, too: "
                f"{enumerated(clashes)}. Register one of them under another name."
            )

    def conversation(self, history: Iterable[Any] = ()) -> Conversation:
        """Return a new conversation, with the groups that the messages of `history` have opened.

        One over a session has the state of the session.

        SPEC GRP-6.
        """
        if isinstance(self.tools, Session):
            return Conversation.of_session(self.tools, native=self.native)
        return Conversation.from_history(self.tools, history, self.profile, active=self.active, native=self.native)

    def restored(self, state: Any) -> Conversation:
        """Return a conversation in the state of `Conversation.dump`; one over a session has that of the session."""
        if isinstance(self.tools, Session):
            return Conversation.of_session(self.tools, native=self.native)
        return Conversation.restore(self.tools, state, self.profile, native=self.native)


@frozen
class Media:
    """A part of a result that is no text: data in base64, and its type."""

    data: str
    mime_type: str


def parts(result: ToolResult) -> list[str | Media]:
    """Return the content of a result in order: texts, and images, sound and files."""
    return [_part(dict(block)) for block in result.content]


def _part(block: dict[str, Any]) -> str | Media:
    match block:
        case {"text": str(text)}:
            return text
        case {"type": "image" | "audio", "data": str(data), "mimeType": str(mime_type)}:
            return Media(data, mime_type)
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case {"type": "resource", "resource": {"blob": str(data), **resource}}:
            return Media(data, str(resource.get("mimeType") or "application/octet-stream"))
        case {"type": "resource_link", "uri": uri}:
            return str(uri)
        case _:
            return json.dumps(block)


def failure(name: str, result: ToolResult) -> str | None:
    """Return what the model reads of a call that failed, and `None` of one that did not."""
    if result.needs is not None:
        return f"{name} failed: it asks its caller for input, which is possible over MCP only."
    return (result.text or f"{name} failed.") if result.is_error else None


def metadata(conversation: Conversation, result: ToolResult) -> dict[str, Any]:
    """Return what is stored with an answer and not sent to the model: its metadata, and the state after the call."""
    return {**(result.meta or {}), STATE: conversation.dump()}


def require(framework: str, installed: str, oldest: str, extra: str) -> None:
    """Raise `ConfigError` unless a version of a framework is supported: `oldest` or later, of the same major one."""
    major, minor = (int(number) for number in oldest.split("."))
    numbers = [int(number) for number in installed.split(".")[:2] if number.isdecimal()]
    if numbers[:1] != [major] or numbers < [major, minor]:
        raise ConfigError(
            f"{framework} {installed} is installed, and Toolfold works with {framework} >={oldest},<{major + 1}: "
            f'pip install --upgrade "toolfold[{extra}]"'
        )
