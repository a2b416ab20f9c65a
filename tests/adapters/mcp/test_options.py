"""The options of `build_server` can be passed on with their types (SPEC KIT-8)."""

from __future__ import annotations

from inspect import signature

from toolfold_adapters.mcp import ServerOptions, build_server


def test_the_typed_options_are_those_of_a_server() -> None:
    assert {"tools", "limits", *ServerOptions.__optional_keys__} == signature(build_server).parameters.keys()
