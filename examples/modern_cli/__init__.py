"""Fifteen groups of command-line programs, and eleven profiles: document E built on the core.

A client is listed one tool, `expand_tools`, and expands the groups that it needs; a profile expands some groups from
the start and leaves others out. Groups, tools and profiles are data, in `groups/` and `profiles.toml`.

    python -m examples.modern_cli
    toolfold inspect examples.modern_cli:tools
    toolfold serve examples.modern_cli:tools --profile explore

How other people's programs are run safely:

- There is no shell. A value is one argument or a part of one, and never becomes an option (`arguments.py`).
- Many programs interpret values: a file after `@`, an import, a verb that runs programs. The definition of a tool
  excludes that by a pattern, by a list of values, or by passing the value in another way.
- Paths are in the working folder, also after resolving links, and not in `.git` (`files.py`). Git runs no hooks, and
  does not run where a repository's configuration could make it run programs (`repositories.py`).
- A program has a small environment without the server's secrets, a time limit and an output limit, and is ended with
  all its child processes (`programs.py`). A program in the working folder is not run: a caller may have written it.

This is not a sandbox. The groups system, container and kubernetes run any command they are given, with all rights of
the server; network reaches whatever this machine reaches; memory and disk are not limited. A path is checked before a
program starts, not while it runs. Whatever programs find in the home folder is trusted. Files written into the
working folder may be run by others later, such as tests. So serve it as a user of its own or in a container, with a
profile that has no more groups than are needed.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from toolfold import ConfigError, ToolSet

from . import files, repositories, state
from .definitions import Program, groups, profiles
from .files import Files
from .programs import Limits, Place, environment, outside


def build(
    which: Callable[[str], str | None] | None = None,
    folder: str | Path = ".",
    limits: Limits | None = None,
    clock: Callable[[], float] = time.time,
) -> ToolSet:
    """Return the tools whose programs are installed; the description of a group lists what is missing.

    Raises `ConfigError` if the folder contains the home folder.

    Args:
        which: Finds a program by its name; called once for each. By default it searches the `PATH` that programs get.
        folder: The working folder: programs start there, and paths stay in it.
        limits: The limits of each program.
        clock: Returns the time in seconds, the same in all processes that serve a session.
    """
    tools = ToolSet("modern-cli", control="expand_tools", run_in_thread=False)  # synchronous handlers are quick
    at = Files(Path(folder).resolve())
    if Path.home().resolve().is_relative_to(at.folder):
        raise ConfigError(
            f"The working folder, {at.folder}, contains the home folder, where files control what programs do. "
            "Serve the folder of a project."
        )
    seek = which or partial(shutil.which, path=environment(at.folder)["PATH"])
    find = cache(lambda name: runnable(seek(name), at.folder))
    here = in_process(at, state.Cache(clock))
    for path, group in groups().items():
        variables = {**environment(at.folder, group.environment), **repositories.variables(at.folder)}
        place = Place(folder=at.folder, environment=variables, limits=limits or Limits())
        git = find("git") if group.runs_git else None
        found: dict[str, Callable[..., Any]] = {}
        for name, tool in group.tools.items():
            program = next(filter(None, map(find, tool.program)), None)
            if program is not None:
                found[name] = Program(program, tool, place, at, git)
            elif not tool.program:
                found[name] = here[name]
        tools.register_group(path, group.described(found), title=group.title)
        for name, handler in found.items():
            tool = group.tools[name]
            options: dict[str, Any] = {"description": tool.description, "annotations": tool.annotations}
            tools.register(name, handler, group=path, flat=True, input=tool.input, **options)
    for profile in profiles():
        tools.register_profile(profile)
    return tools


def runnable(program: str | None, folder: Path) -> str | None:
    """Return a program that can be run safely: not written by a caller, and not run by a shell on Windows."""
    if program is None or program.lower().endswith((".bat", ".cmd")):
        return None
    return program if outside(program, folder) else None


def in_process(at: Files, cache: state.Cache) -> Mapping[str, Callable[..., Any]]:
    """Return the handlers of the tools that need no program."""
    handlers: list[Callable[..., Any]] = [
        *at.handlers(),
        *(files.permissions, files.system_info, cache.mcp_cache_get, cache.mcp_cache_set),
        *(state.mcp_auth_check, state.mcp_task_create, state.mcp_task_list, state.mcp_task_update),
        *(state.mcp_task_delete, state.mcp_context_get, state.mcp_context_set, state.mcp_context_list),
    ]
    return {handler.__name__: handler for handler in handlers}


tools = build  # a function: programs are searched for when it is served, not when this module is imported
