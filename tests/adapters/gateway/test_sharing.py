"""Which servers one process serves for all sessions of a user (SPEC GWY-10, GWY-14)."""

from __future__ import annotations

from typing import Any

import pytest

from toolfold_adapters.gateway import UpstreamConfig
from toolfold_adapters.gateway.sharing import Facts, program_of, sharing

pytestmark = pytest.mark.spec("GWY-10", "GWY-14")

TIME, STEPS, OTHER = ("uvx", "mcp-server-time"), ("npx", "@modelcontextprotocol/server-sequential-thinking"), ("other",)
URL = "https://example.com/mcp"


@pytest.mark.parametrize(
    ("given", "facts", "shared", "why"),
    [
        ({"url": URL}, {"one_user": True}, True, "it is at a URL"),
        ({"url": URL}, {}, False, "it may keep something for a session"),
        ({"url": URL, "shared": False}, {"one_user": True}, False, "its configuration says so"),
        ({"command": OTHER}, {"one_user": True, "modern": True}, True, "its era has no sessions"),
        ({"command": OTHER}, {"modern": True}, True, "its era has no sessions"),
        ({"command": OTHER, "shared": False}, {"modern": True}, False, "its configuration says so"),
        ({"command": OTHER, "shared": True}, {}, True, "its configuration says so"),
        ({"command": TIME}, {"one_user": True}, True, "it is known to keep nothing of a session"),
        ({"command": TIME}, {}, False, "it may keep something for a session"),
        ({"command": TIME, "shared": False}, {"one_user": True}, False, "its configuration says so"),
        ({"command": STEPS}, {"one_user": True}, False, "it is known to keep something for a session"),
        ({"command": STEPS, "shared": True}, {"one_user": True}, True, "its configuration says so"),
        ({"command": OTHER}, {"one_user": True}, False, "it may keep something for a session"),
        ({"command": TIME, "shared": True}, {"one_user": True, "asks": True}, False, "it asks its clients"),
    ],
)
def test_a_server_is_shared_by_the_first_rule_that_says_so_and_in_doubt_it_is_not(
    given: dict[str, Any], facts: dict[str, bool], shared: bool, why: str
) -> None:
    found = sharing(UpstreamConfig(**given), Facts(**facts))
    assert (found.shared, found.why) == (shared, why)


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("npx -y @upstash/context7-mcp", "@upstash/context7-mcp"),
        ("npx --yes @upstash/context7-mcp@latest --api-key k", "@upstash/context7-mcp"),
        ("cmd /c npx -y @upstash/context7-mcp@1.2.3", "@upstash/context7-mcp"),
        (r"C:\nodejs\npx.cmd -y tavily-mcp", "tavily-mcp"),
        ("/usr/bin/uvx mcp-server-time==2025.9.1", "mcp-server-time"),
        ("uv tool run mcp-server-time@2025.9.1", "mcp-server-time"),
        ("python -m mcp_server_time --local-timezone UTC", "mcp_server_time"),
        ("docker run -i --rm -e KEY --env OTHER=1 mcp/time:1.0", "mcp/time"),
        ("/home/me/.local/bin/mcp-server-fetch", "mcp-server-fetch"),
        ("", ""),
        ("npx", ""),
        ("npx -p something mcp-server-time", ""),
        ("npx --package=something mcp-server-time", ""),
        ("npx ./mcp-server-time", "./mcp-server-time"),
        ("npx git+https://example.com/mcp-server-time", ""),
        ("uvx --from something mcp-server-time", ""),
        ("uvx --with something mcp-server-time", ""),
        ("docker run -v /:/data mcp/time", ""),
        ("sh -c mcp-server-time", "sh"),
        ("node mcp-server-time", "node"),
        ("python mcp_server_time", "python"),
    ],
)
def test_what_a_command_runs_is_known_only_where_nothing_else_can_run(command: str, program: str) -> None:
    assert program_of(command.split()) == program
