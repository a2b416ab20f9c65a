"""The guards of HTTP: loopback, Host, Origin, the size of a request and its time (SPEC DEL-10, SAF-5)."""

from __future__ import annotations

import pytest

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import (
    build_server,
)
from toolfold import ConfigError
from toolfold_adapters.mcp import serve
from toolfold_adapters.mcp.http.guards import Addresses

pytestmark = pytest.mark.spec("DEL-10")


def test_another_address_needs_the_names_that_it_is_reached_by() -> None:
    with pytest.raises(ConfigError, match="--allow-host"):
        Addresses.of("0.0.0.0")
    allowed = Addresses.of("0.0.0.0", ["tools.example:*"], ["https://tools.example"])
    assert allowed.accept_host("tools.example:443")
    assert allowed.accept_origin("https://tools.example")
    assert not allowed.accept_host("localhost:443")
    assert not allowed.accept_origin("http://localhost")


ALLOWED = Addresses.of("127.0.0.1", ["Tools.Example:443", "any.example:*"], ["https://tools.example"])
REFUSED_HOSTS = (
    *("", ":", ":80", "*", "localhost:*", "evil.example", "localhost.evil.example", "xlocalhost:80"),
    *("localhost:", "localhost:abc", "localhost:-1", "localhost:+80", "localhost:0080", "localhost:65536"),
    *("localhost:80@evil.example", "localhost:80.evil.example", "localhost:80:80", "localhost:80/", "localhost:８０"),
    *("localhost.", "localhost.:80", "x@localhost:80", "localhost:80 ", "localhost:80\n", "localhost, evil.example"),
    *("::1", "[::1", "[::1]80", "[::1%25lo]:80", "[0:0:0:0:0:0:0:1]:80", "127.1:80", "0x7f.0.0.1:80", "2130706433"),
    *("tools.example", "tools.example:80", "tools.example:4430", "a.tools.example:443", "any.example"),
)
REFUSED_ORIGINS = (
    *("", "null", "localhost", "//localhost", "file://", "https://localhost", "http://", "http://evil.example"),
    *("http://localhost:", "http://localhost:x", "http://localhost:1@evil.example", "http://localhost:1.evil.example"),
    *("http://x@localhost", "http://localhost.", "http://localhost/", "http://localhost:1/", "http://localhost:1#"),
    *("http://localhost https://evil.example", "https://tools.example:443", "https://tools.example.evil.example"),
)


def test_hosts_and_origins_are_accepted_in_any_case_with_the_ports_that_were_allowed() -> None:
    hosts = ("localhost", "localhost:8000", "LocalHost:1", "127.0.0.1:65535", "[::1]:80", "tools.example:443")
    assert all(map(ALLOWED.accept_host, (*hosts, "any.example:1")))
    origins = ("http://localhost", "http://localhost:5173", "http://[::1]:1", "HTTP://127.0.0.1:1")
    assert all(map(ALLOWED.accept_origin, (*origins, "https://tools.example")))


@pytest.mark.parametrize("host", REFUSED_HOSTS)
def test_a_host_that_only_resembles_an_allowed_one_is_refused(host: str) -> None:
    assert not ALLOWED.accept_host(host)


@pytest.mark.parametrize("origin", REFUSED_ORIGINS)
def test_an_origin_that_only_resembles_an_allowed_one_is_refused(origin: str) -> None:
    assert not ALLOWED.accept_origin(origin)


@pytest.mark.parametrize(
    ("option", "wrong", "example"),
    [
        *(("host", wrong, r"tools\.example\.org:\*") for wrong in ("", "*", "a b", "tools.example/", "x@y", "::1")),
        *(("host", wrong, r"tools\.example\.org:\*") for wrong in ("tools.example:", "tools.example:x")),
        *(("origin", wrong, r"https://example\.org") for wrong in ("null", "*", "tools.example")),
        *(
            ("origin", wrong, r"https://example\.org")
            for wrong in ("https://tools.example/", "https://tools.example:x")
        ),
    ],
)
def test_a_host_or_origin_that_cannot_be_allowed_is_named(option: str, wrong: str, example: str) -> None:
    with pytest.raises(ConfigError, match=rf"--allow-{option} can't be .*{example}"):
        Addresses.of("127.0.0.1", **{f"allowed_{option}s": [wrong]})


async def test_wrong_settings_are_named() -> None:
    with pytest.raises(ConfigError, match="carrier pigeon"):
        await serve(make_desk(), transport="carrier pigeon")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"must start with /, as in '/mcp'; it is 'mcp'\."):
        await serve(make_desk(), transport="http", path="mcp")
    with pytest.raises(ConfigError, match="delivery 'psychic'"):
        build_server(make_desk(), delivery="psychic")
    with pytest.raises(ConfigError, match="no profile 'nobody'"):
        build_server(make_desk(), profile="nobody")
