"""Fifteen groups of command-line programs, and eleven profiles: document E as a use of the one core.

A client is listed one tool, `expand_tools`, and expands what it needs; a profile expands some groups for it and leaves
others out. Groups, tools and profiles are data, in `groups/` and `profiles.toml`.

    python -m examples.modern_cli
    toolfold inspect examples.modern_cli:tools
    toolfold serve examples.modern_cli:tools --profile explore

How other people's programs are run safely:

- There is no shell. A value is one argument or a part of one, and never becomes an option (`arguments.py`).
- Many programs make more of a value than its text: a file after `@`, an import, a verb that runs programs. The data of
  a tool leaves that out, by a pattern, by a list of values, or by giving the value in another way.
- A path is in the working folder, wherever links lead, and not in `.git` (`files.py`). Git runs no hooks, and does not
  run where a repository's configuration could make it run programs (`repositories.py`).
- A program has a small environment without the server's secrets, a time limit and an output limit, and ends with all
  that it started (`programs.py`). A program that is in the working folder is not run: a caller may have written it.

What is not promised: this is no sandbox. The groups system, container and kubernetes run what they are asked to, with
all rights of the server; network reaches what this machine reaches; memory and disk are not limited. A path is checked
before a program starts, not while it runs. What programs find in the home folder is trusted. What is written into the
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
    """Return the tools whose programs are found; what is not says the description of its group.

    Raises `ConfigError` if the folder holds the home folder.

    Args:
        which: Finds a program by its name; asked once for each, and not again. By default, on the path that programs
            are given as well.
        folder: The working folder: programs start there, and paths stay in it.
        limits: What a program may take.
        clock: Tells the time in seconds, alike in all processes that serve a session.
    """
    tools = ToolSet("modern-cli", control="expand_tools", run_in_thread=False)  # what is plain here is quick
    at = Files(Path(folder).resolve())
    if Path.home().resolve().is_relative_to(at.folder):
        raise ConfigError(
            f"The working folder, {at.folder}, holds the home folder: whoever writes files there decides what programs "
            "do. Serve the folder of a project."
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
    """Return a program, unless there is none, or a caller could have written it, or Windows would start a shell."""
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


tools = build  # a function: programs are looked for when it is served, and not when this module is imported
