"""Which servers one process serves for all sessions of a user: a table of rules, safe when in doubt (SPEC GWY-14).

What a server says of itself is no rule. `readOnlyHint` and `idempotentHint` say what a tool does to the world, and not
what its process keeps: servers that number the steps of a session set both. So of a command that says nothing of the
modern era, which has no sessions, only a person can know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import PureWindowsPath

from toolfold.spi import frozen

from .config.settings import UpstreamConfig
from .known import known_servers

RUNNERS: Sequence[tuple[str, ...]] = (
    ("npx",),
    ("cmd", "/c", "npx"),
    ("bunx",),
    ("pnpm", "dlx"),
    ("uvx",),
    ("uv", "tool", "run"),
    ("pipx", "run"),
    ("python", "-m"),
    ("python3", "-m"),
    ("docker", "run"),
    ("podman", "run"),
)
"""The words before the name of a package, an image or a module that is run."""
PLAIN = frozenset({"-y", "--yes", "-q", "--quiet", "-i", "--interactive", "--init", "--rm"})
"""Options of theirs that leave it the same; with any other one, what runs may be something else."""
VALUED = frozenset({"-e", "--env"})
"""Those that a value follows."""
_PACKAGE = re.compile(r"(@?[^@=:\s\[]+)(@[\w.^~-]+|==[\w.]+|:[\w.-]+)?")


@frozen(kw_only=True)
class Facts:
    """What decides on sharing beside the configuration.

    Attributes:
        one_user: Whether all clients are sessions of one user.
        modern: Whether the server is known to speak the modern era.
        asks: Whether it has asked its clients for something, where that matters.
    """

    one_user: bool = False
    modern: bool = False
    asks: bool = False


@frozen
class Sharing:
    """Whether all clients have one connection to a server, and why."""

    shared: bool
    why: str


Rule = tuple[Callable[[UpstreamConfig, Facts], bool], Sharing]
RULES: Sequence[Rule] = (
    (lambda _, facts: facts.asks, Sharing(False, "it asks its clients")),
    (lambda config, _: config.shared is True, Sharing(True, "its configuration says so")),
    (lambda config, _: config.shared is False, Sharing(False, "its configuration says so")),
    (lambda _, facts: facts.modern, Sharing(True, "its era has no sessions")),
    (lambda config, facts: facts.one_user and config.url is not None, Sharing(True, "it is at a URL")),
    (
        lambda config, facts: facts.one_user and _row(config) is True,
        Sharing(True, "it is known to keep nothing of a session"),
    ),
    (lambda config, _: _row(config) is False, Sharing(False, "it is known to keep something for a session")),
    (lambda _, __: True, Sharing(False, "it may keep something for a session")),
)
"""The first one that applies counts."""


def sharing(config: UpstreamConfig, facts: Facts) -> Sharing:
    """Return whether the clients of a gateway share a server, by the rules.

    SPEC GWY-10, GWY-14.

    Args:
        config: How it is reached.
        facts: What else is known.
    """
    return next(found for applies, found in RULES if applies(config, facts))


def _row(config: UpstreamConfig) -> bool | None:
    return known_to_be_shared(tuple(config.command or ()))


@lru_cache
def known_to_be_shared(command: tuple[str, ...]) -> bool | None:
    """Return what the row of a program says of sharing it; `None` without one."""
    program = program_of(command).lower()
    return next((row.shared for row in known_servers() if program in map(str.lower, row.known_as)), None)


def program_of(command: Sequence[str]) -> str:
    """Return the package, module or image that a command runs, without its version, or the name of its program.

    It is empty where that can't be told.
    """
    words = list(command)
    if not words:
        return ""
    first = PureWindowsPath(words[0]).name.lower()  # that of either system
    words[0] = re.sub(r"\.(exe|cmd|bat)$", "", first)
    for runner in RUNNERS:
        if (*words[: len(runner)],) == runner:
            return _package(words[len(runner) :])
    return words[0]


def _package(words: Sequence[str]) -> str:
    rest = iter(words)
    for word in rest:
        if word in VALUED:
            next(rest, None)
        elif word not in PLAIN:
            found = _PACKAGE.fullmatch(word)
            return "" if found is None or word.startswith("-") else found[1]
    return ""
