"""What an upstream asks while it answers, where one side knows sessions and the other does not (SPEC GWY-1).

In the legacy era a server asks its client by requests of its own, while the call waits. In the modern era a call is
answered with what is asked for (`input_required`), and made again with the responses. Where both sides are of one era
this passes through. Where they are not, it is translated:

- A modern client at a legacy upstream: the call goes on in a `Dialogue` while the client gets what is asked for, with a
  token for it; the client's next call, with the token, brings the answers.
- A legacy client at a modern upstream: the client is asked, and the call is made again with what it answered.
- A modern client that knows no tasks, at a modern upstream: what its call is answered with passes, but where it becomes
  a task, which is waited for here, what that asks is asked in a `Dialogue`.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from anyio.abc import TaskGroup
from attrs import define, field
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST

from toolfold import InputRequired, ToolError
from toolfold.spi import table

from ...mcp.principal import Principal
from .downstream import ANSWER_SECONDS, RequestInProgress
from .pages import with_id

ROUNDS = 10
"""How often in a row an upstream may ask for more before its call is given up."""

SendRequest = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]


@define(eq=False)
class _Question:
    method: str
    params: Mapping[str, Any]
    answered: anyio.Event = field(factory=anyio.Event)
    answer: Mapping[str, Any] | None = None


@define(eq=False)
class Dialogue:
    """A call of a modern client at a legacy upstream, which outlives the requests of which it is made.

    Attributes:
        call: The client's present request.
        principal: Whose it is: nobody else's request continues it.
        about: What it is of: a request for something else does not continue it either.
    """

    call: RequestInProgress
    principal: Principal
    about: object = None
    _open: dict[str, _Question] = field(factory=dict[str, _Question])
    _asked: tuple[str, ...] = ()
    _news: anyio.Event = field(factory=anyio.Event)
    _outcome: dict[str, Any] | BaseException | None = None
    _scope: anyio.CancelScope = field(factory=anyio.CancelScope)
    _count: int = 0

    async def run(self, perform: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        """Make the call, and store its outcome."""
        with self._scope:
            try:
                self._outcome = await perform()
            except Exception as error:
                self._outcome = error
        if self._outcome is None:
            self._outcome = ToolError("The call was given up.")
        self._asked = tuple(self._open)
        self.answer({})  # what other upstreams have asked meanwhile
        self._news.set()

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Have the client asked, and return its answer; for the upstream."""
        self._count += 1
        question = _Question(method, params)
        self._open[f"question-{self._count}"] = question
        self._news.set()
        await question.answered.wait()
        if question.answer is None:
            raise MCPError(code=INVALID_REQUEST, message=f"The client did not answer {method}")
        return question.answer

    def answer(self, responses: Mapping[str, Any]) -> None:
        """Take the client's answers; what it was asked and leaves out it does not answer."""
        for name in self._asked:
            question = self._open.pop(name)
            question.answer = table(responses.get(name))
            question.answered.set()
        self._asked = ()

    async def next(self) -> dict[str, Any] | InputRequired:
        """Return what the client is to answer next, or the result; raises what the call raised."""
        try:
            while self._outcome is None and not self._open:
                self._news = anyio.Event()
                await self._news.wait()
        except BaseException:
            self.give_up()
            raise
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        if self._outcome is not None:
            return self._outcome
        self._asked = tuple(self._open)
        return InputRequired(
            {name: {"method": asked.method, "params": dict(asked.params)} for name, asked in self._open.items()}
        )

    def give_up(self) -> None:
        """Cancel the call."""
        self._scope.cancel()


@define(eq=False)
class _Waiting:
    dialogue: Dialogue
    taken: anyio.Event = field(factory=anyio.Event)


class Dialogues:
    """The dialogues that wait for their clients, by token; each of their questions counts (SPEC GWY-12, SAF-4).

    Args:
        tasks: Where calls go on.
    """

    def __init__(self, tasks: TaskGroup) -> None:
        self.patience = ANSWER_SECONDS
        self._tasks = tasks
        self._waiting: dict[str, _Waiting] = {}

    def wait_for(self, call: RequestInProgress) -> bool:
        """Return whether a request has the token of a call that waits for its client."""
        params = call.ctx.params if call.ctx is not None else None
        token = (params or {}).get("requestState")
        return isinstance(token, str) and token in self._waiting

    async def go_on(
        self,
        call: RequestInProgress,
        principal: Principal,
        perform: Callable[[RequestInProgress], Awaitable[dict[str, Any]]],
        about: object,
        *,
        passes: bool = False,
    ) -> dict[str, Any] | InputRequired:
        """Begin a call, or continue the one whose token the request has; return its result or what it asks for.

        Args:
            call: The client's request.
            principal: Whose it is.
            perform: Makes the call.
            about: What the call is of.
            passes: Whether what the upstream answers with passes, so that a token of another kind is the upstream's.

        Raises:
            ToolError: There is no such call any more.
        """
        params = call.ctx.params if call.ctx is not None else None
        token = (params or {}).get("requestState")
        if token is None or (passes and not self.wait_for(call)):
            call.passes = passes
            dialogue = Dialogue(call, principal, about)
            call.asks = dialogue.ask
            self._tasks.start_soon(dialogue.run, lambda: perform(call))
        else:
            found = self._waiting.get(token) if isinstance(token, str) else None
            if found is None or (found.dialogue.principal, found.dialogue.about) != (principal, about):
                raise ToolError("The call that this answers is no longer waiting; make it again.")
            dialogue = self._taken(token)
            dialogue.call.ctx = call.ctx
            dialogue.answer(table((params or {}).get("inputResponses")) or {})
        outcome = await dialogue.next()
        return self._wait(dialogue, outcome) if isinstance(outcome, InputRequired) else outcome

    def _wait(self, dialogue: Dialogue, asked: InputRequired) -> InputRequired:
        """Have a dialogue wait for its client, and return what that is asked, with the token."""
        token = secrets.token_urlsafe(16)
        waiting = self._waiting[token] = _Waiting(dialogue)
        self._tasks.start_soon(self._expire, token, waiting)
        return InputRequired(asked.requests, token)

    def _taken(self, token: str) -> Dialogue:
        """Return a dialogue that waits no longer."""
        waiting = self._waiting.pop(token)
        waiting.taken.set()
        return waiting.dialogue

    async def _expire(self, token: str, waiting: _Waiting) -> None:
        with anyio.move_on_after(self.patience):
            await waiting.taken.wait()
        if token in self._waiting:
            self._taken(token).give_up()


async def in_rounds(
    call: RequestInProgress, params: Mapping[str, Any], request: SendRequest, done: Callable[[str], None]
) -> dict[str, Any]:
    """Return the result of a call at a modern upstream, whose questions a legacy client is asked.

    `done` is called with the id of each page that the client visited, once the server asks no more.

    Raises:
        ToolError: It goes on asking.
    """
    given, visited = dict(params), list[str]()
    for _ in range(ROUNDS):
        answer = await request(given)
        if answer.get("resultType") != "input_required":
            for page in visited:
                done(page)
            return answer
        questions = table(answer.get("inputRequests")) or {}
        responses: dict[str, Any] = {}
        for name, asked in questions.items():
            question = table(asked) or {}
            what, given_id = with_id(table(question.get("params")) or {})
            responses[name] = dict(await call.ask(str(question.get("method")), what))
            visited += [] if given_id is None else [given_id]
        given = {**params, "inputResponses": responses}
        if "requestState" in answer:
            given["requestState"] = answer["requestState"]
    raise still_asking(ROUNDS)


def still_asking(rounds: int) -> ToolError:
    """Return what a call is given up with that asks for something over and over."""
    return ToolError(f"The server asked for more input {rounds} times in a row, so the call was given up.")
