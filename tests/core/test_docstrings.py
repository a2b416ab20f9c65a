"""SPEC KIT-1, KIT-2: what a docstring says of parameters describes these, in three styles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import Field

from toolfold import Component, Context, InvalidDefinition, ToolfoldWarning, ToolSet

STYLES = {
    "google": """Search the orders.

    Newest first.

    Args:
        words: What to look for,
            in any order.
        limit (int): How many to return.
        context: Not an argument.

    Returns:
        The orders.

    Raises:
        ToolError: There are none.
    """,
    "numpy": """Search the orders.

    Newest first.

    Parameters
    ----------
    words : str
        What to look for,
        in any order.
    limit : int, optional
        How many to return.
    context
        Not an argument.

    Returns
    -------
    list
        The orders.
    """,
    "sphinx": """Search the orders.

    Newest first.

    :param words: What to look for,
        in any order.
    :param int limit: How many to return.
    :param context: Not an argument.
    :type context: Context
    :returns: The orders.
    """,
}
REMAINING = {
    "google": "Returns:\n    The orders.\n\nRaises:\n    ToolError: There are none.",
    "numpy": "Returns\n-------\nlist\n    The orders.",
    "sphinx": ":returns: The orders.",
}


def documented(docstring: str | None) -> Callable[..., Any]:
    def search(words: str, context: Context, limit: int = 10) -> str:
        return words

    search.__doc__ = docstring
    return search


def registered(function: Callable[..., Any], **options: Any) -> tuple[Component, dict[str, str | None]]:
    component = ToolSet("t").register("t", function, **options)
    properties = component.input_schema["properties"]
    return component, {name: schema.get("description") for name, schema in properties.items()}


@pytest.mark.spec("KIT-2", "KIT-1")
@pytest.mark.parametrize("style", STYLES)
def test_parameters_are_described_by_the_docstring_which_keeps_the_rest(style: str) -> None:
    component, texts = registered(documented(STYLES[style]))
    assert texts == {"words": "What to look for,\nin any order.", "limit": "How many to return."}
    assert component.description == f"Search the orders.\n\nNewest first.\n\n{REMAINING[style]}"


@pytest.mark.spec("KIT-2")
def test_a_description_in_the_annotation_overrides_the_docstring() -> None:
    def search(
        words: Annotated[str, Field(description="By the field")],
        more: Annotated[str, Field(min_length=1)],
        size: int = Field(1, description="By the default"),
        other: int = 1,
    ) -> None:
        """Search.

        Args:
            words: By the docstring
            more: By the docstring
            size: By the docstring
            other: By the docstring
        """

    by_docstring = dict.fromkeys(("more", "other"), "By the docstring")
    assert registered(search)[1] == {"words": "By the field", "size": "By the default", **by_docstring}


@pytest.mark.spec("KIT-1", "KIT-2")
def test_a_given_description_replaces_the_text_alone() -> None:
    component, texts = registered(documented(STYLES["google"]), description="Given")
    assert (component.description, texts["limit"]) == ("Given", "How many to return.")


@pytest.mark.spec("KIT-1", "KIT-3")
def test_the_docstring_of_a_raw_handler_is_unchanged() -> None:
    component, _ = registered(documented(STYLES["sphinx"]), input={"words": "string"})
    assert ":param words: What to look for" in component.description


@pytest.mark.spec("KIT-1")
@pytest.mark.parametrize(
    "docstring",
    [
        "Search.\n\nArgs:\n    query: There is no such parameter.",
        "Search.\n\nArgs:\n\nNothing follows.",
        "Search.\n\nArgs: words and limit",
        "Search for :param words: in texts.",
        "Search.\n\nParameters\n\nThere are some.",
        "Args",
    ],
)
def test_a_docstring_that_describes_no_parameter_is_the_description_as_a_whole(docstring: str) -> None:
    component, texts = registered(documented(docstring))
    assert component.description == docstring
    assert texts == {"words": None, "limit": None}


def test_a_section_on_parameters_may_be_all_that_a_docstring_has() -> None:
    component, texts = registered(documented("\n    Args:\n        words: What to look for.\n    "))
    assert (component.description, texts["words"]) == ("", "What to look for.")


def test_a_docstring_that_can_not_be_read_does_not_prevent_registration(caplog: pytest.LogCaptureFixture) -> None:
    component, texts = registered(documented("Search.\n\nArgs:\n    words: Fine.\n    a line of prose\n    limit 5\n"))
    assert (component.description, texts["words"]) == ("Search.", "Fine.")
    assert not caplog.records


@pytest.mark.spec("KIT-2")
def test_a_parameter_that_is_described_and_not_taken_is_warned_of_at_the_line_of_the_registration() -> None:
    tools = ToolSet("t")
    with pytest.warns(ToolfoldWarning, match="of 'search' describes 'word', .* its parameters are 'words'") as warned:

        @tools.tool
        def search(words: str, limit: int = 5) -> None:
            """Search.

            Args:
                word: What to look for.
                limit: How many to return.
            """

    assert [one.filename for one in warned] == [__file__]


@pytest.mark.spec("KIT-2", "REG-1")
def test_self_and_an_unannotated_context_are_refused_as_arguments() -> None:
    tools = ToolSet("t")
    before = tools.catalog
    with pytest.raises(InvalidDefinition, match=r"'self' would be an argument: mark methods with @toolfold\.tool"):

        class Shop:
            @tools.tool()
            def find(self, words: str) -> None:
                """Find."""

    for taken in ("ctx", "context"):
        function: Any = eval(f"lambda words, {taken}: None")
        function.__annotations__ = {"words": str}
        with pytest.raises(InvalidDefinition, match=f"'{taken}' would be an argument: annotate it as toolfold.Context"):
            tools.register("find", function)
        function.__annotations__[taken] = str
        assert taken in tools.register(f"of_{taken}", function, description="Find.").input_schema["properties"]
    assert before.tools.keys() == tools.catalog.tools.keys() - {"of_ctx", "of_context"}
