"""What the official conformance suite asks a server to have, beside groups that it knows nothing of.

The names and answers of the fixtures are the suite's own; it looks for them at root. The groups are there because a
server without any would show little of this project: their control tools stand among the fixtures in every list.
"""

from __future__ import annotations

import base64
import io
import json
import wave
from collections.abc import Iterable, Mapping
from typing import Any

import mcp_types as types
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tests.external.conformance.asking import register_asking
from toolfold import Context, ProtocolError, ToolError, ToolResult, ToolSet

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
PICTURE = {"type": "image", "data": PNG, "mimeType": "image/png"}

SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def make_tools() -> ToolSet:
    """Return the fixtures, with groups among them."""
    tools = ToolSet("conformance")
    _groups(tools)
    _answering(tools)
    _reporting(tools)
    _elicitation(tools)
    _changing(tools)
    _prompts(tools)
    _resources(tools)
    register_asking(tools)
    return tools


def _groups(tools: ToolSet) -> None:
    tools.register_group("library", "Books and who has them")
    tools.register_group("loans", "Lending", parent="library")
    tools.register_group("reading", "Reading only")
    tools.register_group("editing", "Changing the catalogue")
    tools.register_exclusion("reading", "editing")

    @tools.tool(group="library")
    def search(title: str) -> list[str]:
        """Search the catalogue."""
        return [title]

    @tools.tool(group="library.loans")
    def lend(title: str, to: str) -> str:
        """Lend a book."""
        return f"{title} is with {to}."

    @tools.tool(group="reading")
    def read(title: str) -> str:
        """Read a book."""
        return title

    @tools.tool(group="editing")
    def rename(title: str, to: str) -> str:
        """Rename a book."""
        return to

    tools.register_prompt("summarise", lambda: "Summarise the book.", description="Summarise", group="library")
    tools.register_resource("library://index", lambda: "Everything.", description="The index", group="library")


def _answering(tools: ToolSet) -> None:
    """Tools that answer with content of each kind."""

    @tools.tool()
    def test_simple_text() -> str:
        """Answer with a text."""
        return "This is a simple text response for testing."

    @tools.tool()
    def test_image_content() -> ToolResult:
        """Answer with a picture."""
        return ToolResult([PICTURE])

    @tools.tool()
    def test_audio_content() -> ToolResult:
        """Answer with a sound."""
        return ToolResult([{"type": "audio", "data": _sound(), "mimeType": "audio/wav"}])

    @tools.tool()
    def test_embedded_resource() -> ToolResult:
        """Answer with a resource."""
        text = "This is an embedded resource content."
        return ToolResult([_embedded("test://embedded-resource", "text/plain", text)])

    @tools.tool()
    def test_multiple_content_types() -> ToolResult:
        """Answer with a text, a picture and a resource."""
        text = {"type": "text", "text": "Multiple content types test:"}
        data = json.dumps({"test": "data", "value": 123})
        return ToolResult([text, PICTURE, _embedded("test://mixed-content-resource", "application/json", data)])

    @tools.tool()
    def test_error_handling() -> None:
        """Fail."""
        raise ToolError("This tool intentionally returns an error for testing")

    @tools.tool()
    def test_missing_capability(context: Context) -> str:
        """Refuse a client that can't sample."""
        if not context.request.session.check_client_capability(SAMPLING):
            code = types.MISSING_REQUIRED_CLIENT_CAPABILITY
            raise ProtocolError(code, "The client can't sample", {"requiredCapabilities": {"sampling": {}}})
        return "The client can sample."

    tools.register(
        "json_schema_2020_12_tool",
        lambda arguments: dict(arguments),
        description="Tool with JSON Schema 2020-12 features",
        input_schema=SCHEMA_2020_12,
    )
    region = {"type": "string", "x-mcp-header": "Region"}
    tools.register(
        "test_x_mcp_header",
        lambda arguments: f"The region is {arguments['region']}.",
        description="Repeat an argument that is also sent as a header.",
        input_schema={"type": "object", "properties": {"region": region}, "required": ["region"]},
    )


SAMPLING = types.ClientCapabilities(sampling=types.SamplingCapability())


def _reporting(tools: ToolSet) -> None:
    """Tools that say something before they answer."""

    @tools.tool()
    async def test_tool_with_progress(context: Context) -> str:
        """Report progress."""
        for progress in (0, 50, 100):
            await context.report_progress(progress, 100)
        return "Done."

    async def log(context: Context) -> str:
        for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            request = context.request
            await request.session.send_log_message("info", said, related_request_id=request.request_id)
        return "Logged."

    for name in ("test_tool_with_logging", "test_logging_tool"):
        tools.tool(name, description="Log three messages.")(log)

    @tools.tool()
    async def test_sampling(prompt: str, context: Context) -> str:
        """Ask the client's model."""
        request = context.request
        if not request.session.check_client_capability(SAMPLING):
            raise ToolError("The client can't sample.")
        content = types.TextContent(type="text", text=prompt)
        message = types.SamplingMessage(role="user", content=content)
        answer = await request.session.create_message(
            messages=[message], max_tokens=100, related_request_id=request.request_id
        )
        return f"LLM response: {getattr(answer.content, 'text', '')}"


def _elicitation(tools: ToolSet) -> None:
    """Tools that ask the user, on a connection on which a server can send requests."""

    @tools.tool()
    async def test_elicitation(message: str, context: Context) -> str:
        """Ask the user who they are."""
        properties = {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        }
        return f"User response: {await _asked(context, message, properties, required=['username', 'email'])}"

    @tools.tool()
    async def test_elicitation_sep1034_defaults(context: Context) -> str:
        """Ask the user with a default value of each type."""
        statuses = ["active", "inactive", "pending"]
        properties = {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": statuses, "default": "active"},
            "verified": {"type": "boolean", "default": True},
        }
        return f"Elicitation completed: {await _asked(context, 'Who are you?', properties)}"

    @tools.tool()
    async def test_elicitation_sep1330_enums(context: Context) -> str:
        """Ask the user with each form of a choice."""
        plain = ["option1", "option2", "option3"]
        titled = [{"const": f"value{n}", "title": f"{nth} Option"} for n, nth in enumerate(ORDINALS, 1)]
        choices = [{"const": f"value{n}", "title": f"{nth} Choice"} for n, nth in enumerate(ORDINALS, 1)]
        properties = {
            "untitledSingle": {"type": "string", "enum": plain},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
            "titledMulti": {"type": "array", "items": {"anyOf": choices}},
        }
        return f"Elicitation completed: {await _asked(context, 'Choose.', properties)}"


ORDINALS = ("First", "Second", "Third")


async def _asked(context: Context, message: str, properties: Mapping[str, Any], required: Iterable[str] = ()) -> str:
    request = context.request
    if request.protocol_version in MODERN_PROTOCOL_VERSIONS:
        raise ToolError("This tool asks while it runs, which clients of this protocol can't be.")
    if not request.session.check_client_capability(ELICITATION):
        raise ToolError("The client can't ask its user.")
    schema = {"type": "object", "properties": dict(properties), "required": list(required)}
    answer = await request.session.elicit_form(message, schema, related_request_id=request.request_id)
    return f"action={answer.action}, content={json.dumps(answer.content)}"


ELICITATION = types.ClientCapabilities(elicitation=types.ElicitationCapability())


def _changing(tools: ToolSet) -> None:
    """Tools that change what there is, for everybody, and announce it."""

    @tools.tool()
    def test_trigger_tool_change() -> str:
        """Add a tool, or take it away again."""
        if tools.unregister("test_dynamic_tool") is None:
            tools.register("test_dynamic_tool", lambda: "here", description="Comes and goes.", input_schema=NOTHING)
        tools.notify_list_changed(("tool",))
        return "The tools have changed."

    @tools.tool()
    def test_trigger_prompt_change() -> str:
        """Add a prompt, or take it away again."""
        if tools.unregister("test_dynamic_prompt", "prompt") is None:
            tools.register_prompt("test_dynamic_prompt", lambda: "Here.", description="Comes and goes.")
        tools.notify_list_changed(("prompt",))
        return "The prompts have changed."


NOTHING: dict[str, Any] = {"type": "object", "properties": {}}


def _prompts(tools: ToolSet) -> None:
    def simple() -> str:
        """A prompt without arguments."""
        return "This is a simple prompt for testing."

    def with_arguments(values: dict[str, str]) -> str:
        """A prompt with two arguments."""
        return f"Prompt with arguments: arg1='{values['arg1']}', arg2='{values['arg2']}'"

    def with_resource(values: dict[str, str]) -> list[dict[str, Any]]:
        """A prompt with a resource in it."""
        content = _embedded(values["resourceUri"], "text/plain", "Embedded resource content for testing.")
        return [_says(content), _says(_text("Please process the embedded resource above."))]

    def with_image() -> list[dict[str, Any]]:
        """A prompt with a picture in it."""
        return [_says(PICTURE), _says(_text("Please analyze the image above."))]

    tools.register_prompt("test_simple_prompt", simple)
    both = [{"name": name, "description": f"{name} of the test", "required": True} for name in ("arg1", "arg2")]
    tools.register_prompt("test_prompt_with_arguments", with_arguments, arguments=both)
    uri = {"name": "resourceUri", "description": "URI of the resource to embed", "required": True}
    tools.register_prompt("test_prompt_with_embedded_resource", with_resource, arguments=[uri])
    tools.register_prompt("test_prompt_with_image", with_image)


def _resources(tools: ToolSet) -> None:
    def text() -> str:
        """A text that does not change."""
        return "This is the content of the static text resource."

    def binary() -> bytes:
        """A picture that does not change."""
        return base64.b64decode(PNG)

    def watched() -> str:
        """A text that one can watch."""
        return "Watched."

    def templated(values: dict[str, str]) -> str:
        """The data of an identifier."""
        number = values["id"]
        return json.dumps({"id": number, "templateTest": True, "data": f"Data for ID: {number}"})

    tools.register_resource("test://static-text", text, name="Static text", mime_type="text/plain")
    tools.register_resource("test://static-binary", binary, name="Static picture", mime_type="image/png")
    tools.register_resource("test://watched-resource", watched, name="Watched text", mime_type="text/plain")
    template = "test://template/{id}/data"
    tools.register_resource_template(template, templated, name="Data", mime_type="application/json")


def _embedded(uri: str, mime_type: str, text: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _says(content: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": dict(content)}


def _sound() -> str:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(8000)
        sound.writeframes(b"\x80")
    return base64.b64encode(file.getvalue()).decode()
