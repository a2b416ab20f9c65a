"""Git where callers may write, and in repositories of others: it runs none of the programs that these name.

A repository can make git run programs in three ways. Hooks, and what watches files, are turned off by variables that
every git sees, also one that another program starts. What a configuration names (filters, drivers, a program for
signatures, other repositories) can't all be turned off, since some of it has names that anybody can invent; so git is
not run at all in a repository whose configuration says more than the harmless things listed here. And no tool but git
writes into `.git`, as `files.py` says, so that nobody changes the configuration once it has been looked at.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path

OVERRULED = {
    "core.fsmonitor": "false",
    "core.hookspath": os.devnull,
    "safe.barerepository": "explicit",  # a folder that only looks like a repository, without .git, is none
    "submodule.recurse": "false",
}
HARMLESS = (
    *OVERRULED,
    *("core.repositoryformatversion", "core.bare", "core.filemode", "core.ignorecase", "core.precomposeunicode"),
    *("core.symlinks", "core.autocrlf", "core.eol", "core.safecrlf", "core.longpaths", "core.logallrefupdates"),
    *("core.sparsecheckout", "core.sparsecheckoutcone", "core.untrackedcache", "core.quotepath", "core.abbrev"),
    *("extensions.objectformat", "extensions.refstorage", "extensions.worktreeconfig", "index.*", "gc.auto"),
    *("user.name", "user.email", "init.defaultbranch", "pull.rebase", "pull.ff", "push.default", "push.autosetupremote", "fetch.prune"),
    *("remote.*.url", "remote.*.pushurl", "remote.*.fetch", "remote.*.tagopt", "remote.*.gh-resolved"),
    *("branch.*.remote", "branch.*.merge", "branch.*.rebase", "branch.*.pushremote", "branch.*.description"),
    *("branch.*.vscode-merge-base", "branch.*.gh-merge-base", "submodule.active", "submodule.*.url"),
    *("submodule.*.active", "lfs.repositoryformatversion", "lfs.*.access", "http.*.extraheader"),
)
"""What the configuration of a repository may set, as patterns of names, in the way in which git prints them."""

LISTING = ["config", "--list", "--show-scope", "--name-only", "-z"]
"""The arguments that let git tell the names of all settings, each after its scope; that runs no program."""


def variables(folder: Path) -> dict[str, str]:
    """Return the variables for programs in a folder that are git, or run it."""
    settings: dict[str, str] = {}
    for number, (name, value) in enumerate(OVERRULED.items()):
        settings |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return {
        **settings,
        "GIT_CONFIG_COUNT": str(len(OVERRULED)),
        "GIT_CEILING_DIRECTORIES": str(folder.parent),  # a repository that the folder is only a part of is none
        "GIT_ALLOW_PROTOCOL": "https:ssh",
        "GIT_EDITOR": ":",
        "GIT_OPTIONAL_LOCKS": "0",  # what only looks writes nothing
        "GIT_TERMINAL_PROMPT": "0",
    }


def doubtful(listed: str) -> list[str]:
    """Return what a repository itself sets, of the settings that git listed, that is not harmless."""
    told = listed.split("\0")
    own = {name for scope, name in zip(told[::2], told[1::2], strict=False) if scope in ("local", "worktree")}
    return sorted(name for name in own if not any(fnmatchcase(name, pattern) for pattern in HARMLESS))
