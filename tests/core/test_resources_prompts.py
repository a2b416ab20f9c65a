"""SPEC REG-9: prompts, resources and resource templates have groups, visibility rules and a hidden flag like tools."""

import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.core.support import with_groups
from toolfold import (
    Context,
    GroupNotFound,
    InvalidArguments,
    InvalidDefinition,
    Session,
    ToolError,
    ToolNotFound,
    ToolSet,
    Visibility,
)
from toolfold._catalog.components import Kind

NOTES = "file:///notes.txt"
TEMPLATE = "file:///logs/{day}.txt"
KINDS: tuple[Kind, ...] = ("prompt", "resource", "resource_template")


def register(tools: ToolSet, kind: Kind, **options: Any) -> str:
    """Register a component of a kind and return the name under which it is listed."""
    match kind:
        case "prompt":
            return tools.register_prompt("p", lambda: "text", **options).name
        case "resource":
            return tools.register_resource(NOTES, lambda: "text", **options).name
        case _:
            return tools.register_resource_template(TEMPLATE, lambda values: values["day"], **options).name


async def use(session: Session, kind: Kind, name: str, **options: Any) -> Any:
    match kind:
        case "prompt":
            return (await session.get_prompt(name, **options))["messages"][0]["content"]["text"]
        case "resource":
            return (await session.read(name, **options))["contents"][0]["text"]
        case _:
            return (await session.read("file:///logs/text.txt", **options))["contents"][0]["text"]


async def state_of(session: Session, kind: Kind, name: str) -> tuple[bool, bool]:
    """Return whether something is listed, and whether it can be used."""
    listed = name in session.list(kind).names
    try:
        return listed, await use(session, kind, name) == "text"
    except ToolNotFound:
        return listed, False


@pytest.mark.spec("REG-9", "VIS-2", "VIS-5", "VIS-6")
@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("kind", KINDS)
async def test_it_follows_its_group_and_is_never_listed_if_it_is_hidden(kind: Kind, hidden: bool) -> None:
    tools = with_groups("g")
    name = register(tools, kind, group="g", hidden=hidden)
    assert name == {"prompt": "g.p", "resource": NOTES, "resource_template": TEMPLATE}[kind]
    session = tools.default_session
    assert await state_of(session, kind, name) == (False, False)
    await session.activate("g")
    assert await state_of(session, kind, name) == (not hidden, True)
    await session.deactivate("g")
    assert await state_of(session, kind, name) == (False, False)


@pytest.mark.spec("REG-9", "VIS-2", "VIS-4", "VIS-7")
@pytest.mark.parametrize("kind", KINDS)
async def test_it_follows_its_rule_in_its_group(kind: Kind) -> None:
    tools = with_groups("g")
    rule = Visibility.when(lambda view: view.facts["open"] is True)  # raises until the fact is set
    name = register(tools, kind, group="g", visibility=rule)
    session = tools.default_session
    for active in (False, True):
        for value in (None, True, False):
            if value is not None:
                session.set_fact("open", value)
            expected = active and value is True
            assert await state_of(session, kind, name) == (expected, expected)
        await session.activate("g")


@pytest.mark.spec("REG-9", "CALL-1")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_hint_names_the_group_and_what_opens_it_in_the_names_of_the_caller(kind: Kind) -> None:
    tools = with_groups("g", on_hidden="hint")
    name = register(tools, kind, group="g")
    with pytest.raises(ToolNotFound) as caught:
        await use(tools.default_session, kind, name)
    assert caught.value.hint == "it needs the group g: call g.activate first"
    with pytest.raises(ToolNotFound, match=r"call G\.ACTIVATE first"):
        await use(tools.default_session, kind, name, view=tools.default_session.view(to_wire=str.upper))


@pytest.mark.spec("REG-9", "REG-1")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options", [{"group": "nope"}, {"visibility": Visibility.group("nope")}, {"title": 5}, {"icons": [{}]}]
)
def test_an_invalid_registration_changes_nothing(kind: Kind, options: dict[str, Any]) -> None:
    tools = ToolSet("t")
    before = tools.catalog
    with pytest.raises((GroupNotFound, InvalidDefinition)):
        register(tools, kind, **options)
    assert tools.catalog is before


@pytest.mark.spec("REG-9")
def test_definitions_have_the_shape_of_the_protocol() -> None:
    tools = ToolSet("t")
    common: dict[str, Any] = {"title": "T", "description": "D", "meta": {"k": 1}, "icons": [{"src": "i"}]}
    prompt = tools.register_prompt(
        "p", lambda arguments: "", arguments=["a", {"name": "b", "description": "B", "required": False}], **common
    )
    resource = tools.register_resource(NOTES, lambda: "", mime_type="text/plain", name="notes", **common)
    template = tools.register_resource_template(TEMPLATE, lambda values: "", **common)
    shared = {"title": "T", "description": "D", "_meta": {"k": 1}, "icons": [{"src": "i"}]}
    listed = [{"name": "a", "required": True}, {"name": "b", "description": "B", "required": False}]
    assert prompt.definition == {"name": "p", "arguments": listed, **shared}
    assert resource.definition == {"uri": NOTES, "name": "notes", "mimeType": "text/plain", **shared}
    assert template.definition == {"uriTemplate": TEMPLATE, "name": TEMPLATE, **shared}


@pytest.mark.spec("REG-9", "CALL-2")
async def test_the_arguments_of_a_prompt_are_checked_and_passed() -> None:
    def handler(arguments: dict[str, Any], context: Context) -> str:
        return f"{context.name} {arguments}"

    tools = ToolSet("t")
    tools.register_prompt("p", handler, arguments=["a", {"name": "b"}])
    session = tools.default_session
    result = await session.get_prompt("p", {"a": "x"})
    assert result == {"messages": [{"role": "user", "content": {"type": "text", "text": "p {'a': 'x'}"}}]}
    for wrong, place in (({}, '"a"'), ({"a": 5}, "arguments.a"), ({"a": "x", "c": "y"}, "c")):
        with pytest.raises(InvalidArguments, match=place):
            await session.get_prompt("p", wrong)


@pytest.mark.spec("REG-9")
async def test_a_prompt_may_return_messages_or_a_whole_result() -> None:
    messages = [{"role": "assistant", "content": {"type": "text", "text": "hi"}}]
    whole = {"description": "D", "messages": messages}
    tools = ToolSet("t")
    tools.register_prompt("list", lambda: messages)
    tools.register_prompt("whole", lambda: whole)
    assert await tools.default_session.get_prompt("list") == {"messages": messages}
    assert await tools.default_session.get_prompt("whole") == whole


@pytest.mark.spec("REG-9")
@pytest.mark.parametrize(
    ("answer", "mime_type", "contents"),
    [
        ("text", None, [{"uri": NOTES, "text": "text"}]),
        ("text", "text/html", [{"uri": NOTES, "mimeType": "text/html", "text": "text"}]),
        (b"\x00\xff", None, [{"uri": NOTES, "blob": base64.b64encode(b"\x00\xff").decode()}]),
        ([{"uri": "x:y", "text": "own"}], None, [{"uri": "x:y", "text": "own"}]),
        ({"contents": []}, None, []),
    ],
    ids=["text", "typed text", "bytes", "contents", "result"],
)
async def test_the_result_of_a_resource_becomes_its_contents(
    answer: Any, mime_type: str | None, contents: list[dict[str, Any]]
) -> None:
    tools = ToolSet("t")
    options = {} if mime_type is None else {"mime_type": mime_type}
    tools.register_resource(NOTES, lambda: answer, **options)  # type: ignore[arg-type]
    assert await tools.default_session.read(NOTES) == {"contents": contents}


@pytest.mark.spec("REG-9")
@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("file:///{name}", "file:///notes.txt", {"name": "notes.txt"}),
        ("file:///{name}", "file:///a/b", None),
        ("file:///{+path}", "file:///a/b", {"path": "a/b"}),
        ("db://{table}/{row}", "db://people/7", {"table": "people", "row": "7"}),
        ("db://{table}/{row}", "db://people/", None),
        ("file:///{name}", "file:///a%20b%2Fc", {"name": "a b/c"}),
        ("a.b:{x}", "aXb:1", None),
        ("x:{a}", "y:1", None),
        ("x:{a}", "xx:1", None),
    ],
)
async def test_a_template_is_read_by_the_uris_that_match_it(
    template: str, uri: str, values: dict[str, str] | None
) -> None:
    tools = ToolSet("t")
    tools.register_resource_template(template, lambda found: json.dumps(found))
    if values is None:
        with pytest.raises(ToolNotFound) as caught:
            await tools.default_session.read(uri)
        assert caught.value.name == uri
    else:
        (content,) = (await tools.default_session.read(uri))["contents"]
        assert content["uri"] == uri
        assert json.loads(content["text"]) == values


@pytest.mark.spec("REG-9", "CALL-4")
async def test_a_resource_precedes_templates_and_templates_are_tried_in_order_of_name() -> None:
    tools = with_groups("g")
    tools.register_resource_template("x:{b}", lambda values: "b")
    tools.register_resource_template("x:{a}", lambda values: "a", group="g")
    tools.register_resource("x:1", lambda: "own", group="g")
    session = tools.default_session

    async def text() -> str:
        return str((await session.read("x:1"))["contents"][0]["text"])

    assert await text() == "b"  # what is not available is answered as if it did not exist
    await session.activate("g")
    assert await text() == "own"
    tools.unregister("x:1", "resource")
    assert await text() == "a"
    tools.unregister("x:{a}", "resource_template")
    assert await text() == "b"


@pytest.mark.spec("REG-9", "CALL-3", "SAF-3")
@pytest.mark.parametrize(
    ("act", "what"),
    [
        (lambda session: session.get_prompt("p"), "prompt p"),
        (lambda session: session.read("x:1"), "resource x:1"),
        (lambda session: session.read("y:5"), "resource template y:{n}"),
    ],
    ids=["prompt", "resource", "template"],
)
async def test_the_caller_of_a_failing_handler_is_given_no_details(
    act: Callable[[Session], Awaitable[Any]], what: str
) -> None:
    def fail() -> str:
        raise RuntimeError("secret")

    tools = ToolSet("t")
    tools.register_prompt("p", fail)
    tools.register_resource("x:1", fail)
    tools.register_resource_template("y:{n}", lambda values: fail())
    with pytest.raises(ToolError) as received:
        await act(tools.default_session)
    assert str(received.value) == f"The {what} failed with an internal error; its operator can find it in the log."


@pytest.mark.spec("REG-9", "GWY-1")
@pytest.mark.parametrize(
    ("template", "uri", "other"),
    [
        ("repo://{owner}/contents{/path*}", "repo://me/contents/a/b.txt", "repo://me/refs"),
        ("repo://{owner}/contents{/path*}", "repo://me/contents", "repo:/"),
        ("search://{?q,limit}", "search://?q=a%20b", "find://?q=a"),
        ("{+uri}", "any://thing", "any://" + "x" * 9000),
        ("a://{x}/b/{y}/c", "a://1/2/b/3/c", "a://1/b/c"),
    ],
)
async def test_a_template_whose_arguments_are_not_checked_has_any_expressions_and_gives_the_whole_uri(
    template: str, uri: str, other: str
) -> None:
    tools = ToolSet("files")
    tools.register_resource_template(template, lambda values: json.dumps(values), check_arguments=False)
    session = tools.default_session
    assert json.loads((await session.read(uri))["contents"][0]["text"]) == {"uri": uri}
    with pytest.raises(ToolNotFound):
        await session.read(other)


@pytest.mark.spec("REG-9")
def test_a_resource_lists_its_annotations_and_size() -> None:
    tools = ToolSet("files")
    annotations = {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-01T00:00:00Z"}
    tools.register_resource(NOTES, lambda: "text", annotations=annotations, size=4)
    tools.register_resource_template(TEMPLATE, lambda values: "text", annotations=annotations)
    (resource,) = tools.default_session.list("resource").items
    (template,) = tools.default_session.list("resource_template").items
    assert (resource.definition["annotations"], resource.definition["size"]) == (annotations, 4)
    assert template.definition["annotations"] == annotations


@pytest.mark.spec("REG-6", "REG-9")
@pytest.mark.parametrize("size", [-1, "4", True, 1.5])
def test_a_size_that_is_no_number_of_bytes_is_refused(size: Any) -> None:
    with pytest.raises(InvalidDefinition, match="number of bytes"):
        ToolSet("files").register_resource(NOTES, lambda: "text", size=size)
