"""A conversation for code without an event loop: one loop runs in a thread of its own for as long as it lasts."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from anyio.from_thread import BlockingPortal, start_blocking_portal

from toolfold import SessionClosed, ToolResult

from .conversation import Conversation
from .formats import ProviderDefinition


class BlockingConversation:
    """A `Conversation` whose calls wait for their results; use it with `with`.

    All calls run in one event loop, so that what a hook or a handler opens there stays open from call to call. For
    everything that does not run handlers, use `conversation` itself.
    """

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self._portal: BlockingPortal | None = None
        self._stack = ExitStack()

    if not TYPE_CHECKING:  # a type checker refuses `async with` because there is no such method

        async def __aenter__(self) -> NoReturn:
            problem = "was not opened; use `with` for a BlockingConversation, or `async with` its conversation"
            raise SessionClosed(self.conversation.session.id, problem)

        async def __aexit__(self, *_: object) -> None:
            """Exist, so that `async with` reaches the message above."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal())
            portal.call(self.conversation.start)
            stack.callback(portal.call, self.conversation.close)
            self._stack = stack.pop_all()
        self._portal = portal
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal = None
        self._stack.close()

    def execute(self, calls: Iterable[tuple[str, Any]]) -> list[ToolResult]:
        """Return the results of tool calls; see `Conversation.execute`. Raises `RuntimeError` outside of `with`."""
        return self._running.call(self.conversation.execute, calls)

    def answers(self, output: Iterable[Any]) -> list[ProviderDefinition]:
        """Return the answers to calls; see `Conversation.answers`. Raises `RuntimeError` outside of `with`."""
        return self._running.call(self.conversation.answers, output)

    @property
    def _running(self) -> BlockingPortal:
        if self._portal is None:
            raise RuntimeError("This conversation runs within `with` only.")
        return self._portal
