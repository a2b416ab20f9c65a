"""Runs git safely in repositories that callers can write or that others have made: it runs no programs they name.

A repository can make git run programs in two ways. Hooks and file monitors are turned off by variables, which also
reach a git that another program starts. Programs named in the configuration (filters, drivers, signing programs, other
repositories) can't all be turned off, since some of their keys are arbitrary; so git does not run in a repository
whose configuration has other than the harmless settings listed here. No tool but git writes into `.git` (`files.py`),
so the configuration does not change after the check.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from attrs import evolve

from toolfold import ToolError

from .programs import Ended, Place, run

OVERRULED = {
    "core.fsmonitor": "false",
    "core.hookspath": os.devnull,
    "diff.autorefreshindex": "false",
    "gc.auto": "0",  # no background work
    "maintenance.auto": "false",
    "safe.barerepository": "explicit",  # a folder without .git is not a repository, even if it looks like one
}
HARMLESS = (
    *OVERRULED,
    *("core.repositoryformatversion", "core.bare", "core.filemode", "core.ignorecase", "core.precomposeunicode"),
    *("core.symlinks", "core.autocrlf", "core.eol", "core.safecrlf", "core.longpaths", "core.logallrefupdates"),
    *("core.sparsecheckout", "core.sparsecheckoutcone", "core.untrackedcache", "core.quotepath", "core.abbrev"),
    *("extensions.objectformat", "extensions.refstorage", "extensions.worktreeconfig", "index.*", "fetch.prune"),
    *("user.name", "user.email", "init.defaultbranch", "pull.rebase", "pull.ff", "push.default"),
    *("push.autosetupremote", "submodule.active", "submodule.*.active", "submodule.*.url"),
    *("remote.*.url", "remote.*.pushurl", "remote.*.fetch", "remote.*.tagopt", "remote.*.gh-resolved"),
    *("branch.*.remote", "branch.*.merge", "branch.*.rebase", "branch.*.pushremote", "branch.*.description"),
    *("branch.*.vscode-merge-base", "branch.*.gh-merge-base", "lfs.repositoryformatversion", "lfs.*.access"),
    *("http.*.extraheader",),
)
"""The settings that a repository's configuration may have: patterns of names as git prints them."""

INNER = {"core.worktree"}
"""Further settings that a repository inside another may have: git only reads there."""

SETTINGS = ("config", "--list", "--show-scope", "--name-only", "-z")
CONTENTS = ("ls-files", "--stage", "-z", ":/")
ROOM = 50_000_000
"""How many bytes a list of all files of a repository may take."""


def variables(folder: Path) -> dict[str, str]:
    """Return the variables for programs in a folder that are git or run it."""
    settings: dict[str, str] = {}
    for number, (name, value) in enumerate(OVERRULED.items()):
        settings |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return {
        **settings,
        "GIT_CONFIG_COUNT": str(len(OVERRULED)),
        "GIT_CEILING_DIRECTORIES": str(folder.parent),  # never use a repository around the folder
        "GIT_OPTIONAL_LOCKS": "0",  # reading commands write nothing
        "GIT_TERMINAL_PROMPT": "0",
    }


async def check(git: str, path: str, place: Place) -> None:
    """Raise `ToolError` if the repository at a path, or one inside it, may make git run programs."""
    checked: set[Path] = set()
    unchecked = [path]
    while unchecked:
        here = unchecked.pop()
        settings = await _listed(git, here, SETTINGS, place)
        if settings.status:
            raise ToolError(f"git can't list the configuration in {here!r}: {settings.how}.\n{settings.errors}")
        if names := doubtful(settings.output) - (INNER if checked else set()):
            raise ToolError(
                f"The configuration of the repository in {here!r} sets {', '.join(sorted(names))}, which may make git "
                "run programs or write elsewhere. It is not run there; if you trust the repository, use git directly."
            )
        checked.add((place.folder / here).resolve())
        for inner in repositories_in((await _listed(git, here, CONTENTS, place)).output):
            there = place.folder / here / inner
            if (there / ".git").exists() and there.resolve() not in checked:
                unchecked.append(f"{here}/{inner}")


def doubtful(listed: str) -> set[str]:
    """Return the repository's own settings, among those that git listed, that are not known to be harmless."""
    entries = listed.split("\0")
    own = {name for scope, name in zip(entries[::2], entries[1::2], strict=False) if scope in ("local", "worktree")}
    return {name for name in own if not any(fnmatchcase(name, pattern) for pattern in HARMLESS)}


def repositories_in(listed: str) -> Iterator[str]:
    """Yield the paths of the repositories among the contents that git listed."""
    for entry in listed.split("\0"):
        about, _, path = entry.partition("\t")
        if about.startswith("160000 "):
            yield path


async def _listed(git: str, path: str, arguments: tuple[str, ...], place: Place) -> Ended:
    """Return the result of a git command that lists something; raise `ToolError` if it was stopped."""
    roomy = evolve(place, limits=evolve(place.limits, bytes=ROOM))
    ended = await run(git, ["-C", path, *arguments], roomy)
    if ended.stopped:
        raise ToolError(f"git can't list the contents of the repository in {path!r}: {ended.how}.")
    return ended
