"""What tasks are played against: ways to offer the same tools, and what hosts show of them (SPEC EVA-1, EVA-2).

What hosts show a model of what a server sends was measured on those of 2026-11-23. What a host adds of its own is not
modelled: permissions, its own search for tools, and files that it puts long results into. That a host shows
descriptions only once its own search has found them is modelled as if it never did.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import frozen

from toolfold_adapters.inprocess import Native


@frozen(kw_only=True)
class Arm:
    """A way to offer tools: in groups or not, with a search or not; `directory`: groups are named, and can be opened.

    With `native` a provider loads them late, as its API does it; with `code` programs call several in a request.
    """

    about: str
    grouped: bool = True
    search: bool = False
    directory: bool = True
    native: Native | None = None
    code: bool = False


ARMS: Mapping[str, Arm] = {
    "everything": Arm(about="all tools are listed, without groups, exclusions and profiles", grouped=False),
    "search": Arm(about="find_tools and call_tool alone; groups are not named", search=True, directory=False),
    "groups": Arm(about="groups, which open_group opens"),
    "groups+search": Arm(about="groups, and find_tools, which opens them", search=True),
    "native": Arm(about="groups and find_tools; Anthropic's API loads tools late", search=True, native="anthropic"),
    "native-openai": Arm(about="the same by OpenAI's API, whose tool search finds", search=True, native="openai"),
    "code": Arm(
        about="groups and find_tools, for programs that see stubs of what can be called", search=True, code=True
    ),
}


# -- what hosts show --------------------------------------------------------------------------------------------------


EVERYTHING = "everything"


@frozen(kw_only=True)
class Host:
    """How much a host shows, in characters; `None` is all of it.

    Attributes:
        client: The name by which it introduces itself.
        era: `"auto"` for the newest revision of MCP, `"legacy"` for those with a handshake.
        lists_again: Whether it lists the tools again when it is told that they have changed.
        instructions: How much of the server's instructions.
        descriptions: How much of a tool's description.
        results: How long a result may be that is shown whole; of a longer one the beginning and the end, as `ends` has.
    """

    client: str = "toolfold-evaluate"
    era: Literal["auto", "legacy"] = "auto"
    lists_again: bool = True
    instructions: int | None = None
    descriptions: int | None = None
    results: int | None = None
    ends: tuple[int, int] = (0, 0)

    def result(self, text: str) -> str:
        """Return what it shows of a result."""
        if self.results is None or len(text) <= self.results:
            return text
        first, last = self.ends
        return f"{text[:first]}\n[...]\n{text[len(text) - last :]}"


HOSTS: Mapping[str, Host] = {
    EVERYTHING: Host(),
    "claude-code": Host(client="claude-code", instructions=4_096, descriptions=4_096, results=50_000, ends=(2_000, 0)),
    "claude-code-2.1.197": Host(client="claude-code", era="legacy", instructions=2_048, descriptions=2_048),
    "codex": Host(
        client="codex-mcp-client",
        era="legacy",
        lists_again=False,
        instructions=247,
        descriptions=0,
        results=40_000,
        ends=(20_000, 20_000),
    ),
    "opencode": Host(client="opencode", era="legacy", results=50_000),
    "gemini": Host(client="gemini-cli", era="legacy", results=40_000, ends=(8_000, 32_000)),
    "qwen": Host(
        client="qwen-code", era="legacy", lists_again=False, descriptions=157, results=28_000, ends=(2_000, 0)
    ),
    "copilot": Host(client="copilot", instructions=0, results=25_000, ends=(500, 0)),
    "cn": Host(client="continue", era="legacy", lists_again=False, instructions=0),
    "cline": Host(client="cline", era="legacy", lists_again=False, instructions=0, results=8_000, ends=(4_000, 4_000)),
    "fast-agent": Host(client="fast-agent", results=16_000, ends=(8_000, 8_000)),
}
