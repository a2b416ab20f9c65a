"""The guards of HTTP: loopback, Host, Origin, the size of a request and its time (SPEC DEL-10, SAF-5)."""

from __future__ import annotations

import pytest

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import (
    build_server,
)
from toolfold import ConfigError
from toolfold_adapters.mcp import serve
from toolfold_adapters.mcp.http import Addresses

pytestmark = pytest.mark.spec("DEL-10")


def test_another_address_needs_the_names_that_it_is_reached_by() -> None:
    with pytest.raises(ConfigError, match="--allow-host"):
        Addresses.of("0.0.0.0")
    allowed = Addresses.of("0.0.0.0", ["tools.example:*"], ["https://tools.example"])
    assert allowed.accept_host("tools.example:443")
    assert allowed.accept_origin("https://tools.example")
    assert not allowed.accept_host("localhost:443")
    assert not allowed.accept_origin("http://localhost")


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8000", "LocalHost:1", "127.0.0.1:65535", "[::1]:80", "tools.example:443", "any.example:1"],
)
def test_a_host_is_accepted_as_it_was_named(host: str) -> None:
    assert Addresses.of("127.0.0.1", ["Tools.Example:443", "any.example:*"]).accept_host(host)


@pytest.mark.parametrize(
    "host",
    [
        *("", ":", ":80", "*", "localhost:*", "evil.example", "localhost.evil.example", "xlocalhost:80"),
        *("localhost:", "localhost:abc", "localhost:-1", "localhost:+80", "localhost:0080", "localhost:65536"),
        *(
            "localhost:80@evil.example",
            "localhost:80.evil.example",
            "localhost:80:80",
            "localhost:80/",
            "localhost:８０",
        ),
        *(
            "localhost.",
            "localhost.:80",
            "x@localhost:80",
            "localhost:80 ",
            "localhost:80\n",
            "localhost, evil.example",
        ),
        *("::1", "[::1", "[::1]80", "[::1%25lo]:80", "[0:0:0:0:0:0:0:1]:80", "127.1:80", "0x7f.0.0.1:80", "2130706433"),
        *("tools.example", "tools.example:80", "tools.example:4430", "a.tools.example:443", "any.example"),
    ],
)
def test_a_host_that_only_resembles_one_that_is_accepted_is_not(host: str) -> None:
    assert not Addresses.of("127.0.0.1", ["tools.example:443", "any.example:*"]).accept_host(host)


@pytest.mark.parametrize(
    "origin",
    ["http://localhost", "http://localhost:5173", "http://[::1]:1", "HTTP://127.0.0.1:1", "https://tools.example"],
)
def test_an_origin_is_accepted_as_it_was_named(origin: str) -> None:
    assert Addresses.of("127.0.0.1", (), ["https://tools.example"]).accept_origin(origin)


@pytest.mark.parametrize(
    "origin",
    [
        *("", "null", "localhost", "//localhost", "file://", "https://localhost", "http://", "http://evil.example"),
        *(
            "http://localhost:",
            "http://localhost:x",
            "http://localhost:1@evil.example",
            "http://localhost:1.evil.example",
        ),
        *("http://x@localhost", "http://localhost.", "http://localhost/", "http://localhost:1/", "http://localhost:1#"),
        *("http://localhost https://evil.example", "https://tools.example:443", "https://tools.example.evil.example"),
    ],
)
def test_an_origin_that_only_resembles_one_that_is_accepted_is_not(origin: str) -> None:
    assert not Addresses.of("127.0.0.1", (), ["https://tools.example"]).accept_origin(origin)


@pytest.mark.parametrize("host", ["", "*", "a b", "tools.example/", "tools.example:", "tools.example:x", "x@y", "::1"])
def test_a_host_that_cannot_be_allowed_is_named(host: str) -> None:
    with pytest.raises(ConfigError, match=r"--allow-host can't be .*tools\.example\.org:\*"):
        Addresses.of("127.0.0.1", [host])


@pytest.mark.parametrize("origin", ["null", "*", "tools.example", "https://tools.example/", "https://tools.example:x"])
def test_an_origin_that_cannot_be_allowed_is_named(origin: str) -> None:
    with pytest.raises(ConfigError, match=r"--allow-origin can't be .*https://example\.org"):
        Addresses.of("127.0.0.1", (), [origin])


async def test_wrong_settings_are_named() -> None:
    with pytest.raises(ConfigError, match="carrier pigeon"):
        await serve(make_desk(), transport="carrier pigeon")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"must start with /, as in '/mcp'; it is 'mcp'\."):
        await serve(make_desk(), transport="http", path="mcp")
    with pytest.raises(ConfigError, match="delivery 'psychic'"):
        build_server(make_desk(), delivery="psychic")
    with pytest.raises(ConfigError, match="no profile 'nobody'"):
        build_server(make_desk(), profile="nobody")
