"""The options of `build_server` can be passed on with their types (SPEC KIT-8)."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest
from mcp.server import Server

from toolfold import ConfigError, ToolSet
from toolfold_adapters.mcp import ServerOptions, build_server


def test_the_typed_options_are_those_of_a_server() -> None:
    assert {"tools", "limits", *ServerOptions.__optional_keys__} == signature(build_server).parameters.keys()


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
