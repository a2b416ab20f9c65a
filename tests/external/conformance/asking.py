"""The fixtures that need something of the client before they can answer: they ask for it in their result (2026-07-28).

The client then makes the same request again, with the responses and with the state that it was given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolfold import Context, InputRequired, ProtocolError, ToolSet

INVALID_PARAMS = -32602
ROOTS = {"method": "roots/list", "params": {}}


def elicit(message: str, **properties: str) -> dict[str, Any]:
    """Return a request for a form with fields of some types."""
    fields = {name: {"type": kind} for name, kind in properties.items()}
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}}


def sample(prompt: str, max_tokens: int) -> dict[str, Any]:
    """Return a request for the answer of the client's model."""
    message = {"role": "user", "content": {"type": "text", "text": prompt}}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": max_tokens}}


def asking(requests: Mapping[str, Mapping[str, Any]], state: str | None = None) -> InputRequired:
    """Return what a handler answers to ask for something."""
    return InputRequired(requests, state)


def responses(context: Context) -> Mapping[str, Any]:
    """Return what the client has answered: by the name of each request, if it was answered."""
    return (context.request.params or {}).get("inputResponses") or {}


def state_of(context: Context) -> str | None:
    """Return the state that the client was given and has sent back."""
    state: str | None = (context.request.params or {}).get("requestState")
    return state


def form(context: Context, name: str) -> Mapping[str, Any] | None:
    """Return what the user has filled in, or `None` if they have not."""
    response = responses(context).get(name, {})
    return (response.get("content") or {}) if response.get("action") == "accept" else None


def register_asking(tools: ToolSet) -> None:
    """Register the tools that ask, and the prompt that does."""
    _once(tools)
    _with_state(tools)
    _with_conditions(tools)

    def prompt(_: dict[str, str], context: Context) -> Any:
        """A prompt that needs a context."""
        filled = form(context, "user_context")
        if filled is None:
            return asking({"user_context": elicit("What context should the prompt use?", context="string")})
        return f"Use this context: {filled.get('context')}"

    tools.register_prompt("test_input_required_result_prompt", prompt)


def _once(tools: ToolSet) -> None:
    """Tools that ask for one thing."""

    @tools.tool()
    def test_input_required_result_elicitation(context: Context) -> Any:
        """Greet the user by their name."""
        filled = form(context, "user_name")
        if filled is None or "name" not in filled:
            return asking({"user_name": elicit("What is your name?", name="string")})
        return f"Hello, {filled['name']}!"

    @tools.tool()
    def test_input_required_result_sampling(context: Context) -> Any:
        """Ask the model for a capital."""
        answer = responses(context).get("capital_question")
        if answer is None:
            return asking({"capital_question": sample("What is the capital of France?", 100)})
        return str(answer["content"]["text"])

    @tools.tool()
    def test_input_required_result_list_roots(context: Context) -> Any:
        """List the client's roots."""
        answer = responses(context).get("client_roots")
        if answer is None:
            return asking({"client_roots": ROOTS})
        return ", ".join(root["uri"] for root in answer["roots"])

    @tools.tool()
    async def test_streaming_elicitation(context: Context) -> Any:
        """Report progress, then ask."""
        await context.report_progress(1, 2)
        if form(context, "answer") is None:
            return asking({"answer": elicit("Go on?", ok="boolean")})
        return "Gone on."


def _with_state(tools: ToolSet) -> None:
    """Tools that give the client a state to bring back; the server seals it on its way out and checks it coming in."""
    confirm = elicit("Please confirm", ok="boolean")

    @tools.tool()
    def test_input_required_result_request_state(context: Context) -> Any:
        """Ask for confirmation."""
        if form(context, "confirm") is None:
            return asking({"confirm": confirm}, "confirming")
        _check_state(context, "confirming")
        return "state-ok"

    @tools.tool()
    def test_input_required_result_tampered_state(context: Context) -> Any:
        """Ask for confirmation, and trust no state that was tampered with."""
        if form(context, "confirm") is None:
            return asking({"confirm": confirm}, "sealed")
        _check_state(context, "sealed")
        return "confirmed"

    @tools.tool()
    def test_input_required_result_multiple_inputs(context: Context) -> Any:
        """Ask for three things at once."""
        given = responses(context)
        asked = {
            "user_name": elicit("What is your name?", name="string"),
            "greeting": sample("Generate a greeting", 50),
            "client_roots": ROOTS,
        }
        if not asked.keys() <= given.keys():
            return asking(asked, "three")
        _check_state(context, "three")
        return f"{given['greeting']['content']['text']} {given['user_name']['content']['name']}"

    @tools.tool()
    def test_input_required_result_multi_round(context: Context) -> Any:
        """Ask for a name, then for a colour."""
        name = form(context, "step1")
        colour = form(context, "step2")
        if name is not None:
            _check_state(context, "one")
            return asking(
                {"step2": elicit("Step 2: What is your favorite color?", color="string")}, f"two {name['name']}"
            )
        if colour is not None:
            step, _, remembered = (state_of(context) or "").partition(" ")
            if step != "two":
                raise ProtocolError(INVALID_PARAMS, "This is not the state of the second step")
            return f"{remembered} likes {colour['color']}."
        return asking({"step1": elicit("Step 1: What is your name?", name="string")}, "one")


def _with_conditions(tools: ToolSet) -> None:
    @tools.tool()
    def test_input_required_result_capabilities(context: Context) -> Any:
        """Ask for whatever the client can answer."""
        declared = context.request.session.client_capabilities
        known = {
            "elicitation": elicit("Please confirm", ok="boolean"),
            "sampling": sample("Generate a greeting", 50),
            "roots": ROOTS,
        }
        asked = {name: request for name, request in known.items() if getattr(declared, name, None) is not None}
        if asked and not responses(context):
            return asking(asked)
        return "Nothing to ask."


def _check_state(context: Context, expected: str) -> None:
    if state_of(context) != expected:
        raise ProtocolError(INVALID_PARAMS, "The state is not the one that was given")
