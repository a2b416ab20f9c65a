"""The options of `build_server` can be passed on with their types (SPEC KIT-8)."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import asdict
from mcp.server import Server

from toolfold import ConfigError, ToolSet
from toolfold_adapters.mcp import ServerOptions, build_server
from toolfold_adapters.mcp.options import GroupedOptions, ServerSettings


def test_each_typed_option_has_a_value_unless_it_is_given() -> None:
    assert ServerOptions.__optional_keys__ == asdict(ServerSettings()).keys()
    assert GroupedOptions.__optional_keys__ < ServerOptions.__optional_keys__


def test_an_option_that_there_is_not_is_refused() -> None:
    unknown: Any = {"delivry": "auto"}
    with pytest.raises(TypeError, match="delivry"):
        build_server(ToolSet("t"), **unknown)


@pytest.mark.spec("ERR-2")
def test_what_is_no_tool_set_is_refused_with_what_puts_groups_in_front_of_it() -> None:
    server: Any = Server("theirs")
    with pytest.raises(ConfigError, match="built of a ToolSet, not of a Server; group_server puts groups in front"):
        build_server(server)


def test_a_server_names_the_tools_that_have_no_description(caplog: pytest.LogCaptureFixture) -> None:
    tools = ToolSet("bare")
    tools.register_group("g")
    tools.register("described", lambda: 1, description="Give 1.")
    tools.register("unlisted", lambda: 1, hidden=True)
    build_server(tools)
    assert caplog.messages == []
    for name in ("a", "g.b"):
        tools.register(name, lambda: 1)
    build_server(tools)
    assert caplog.messages == ["tools without a description, so that a model can't know what they do: a, g.b"]
