"""Who plays: scripted policies, which are deterministic, and transcripts that are played again (SPEC EVA-2).

A script knows which tools a task needs and what to give them, so it fails a task only because of what it is given.
Beyond that it knows what it read: it opens a group that it read of, gives an argument whose name it read, and calls a
tool by its name if the tool is listed, and else through `call_tool`. It makes one call in each request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Literal

from attrs import define, field

from toolfold.spi import ancestors, array, frozen, table

from .links import FIND, ToolAnswer
from .surfaces import EVERYTHING, GIVEN, HOSTS, PROGRAM, PROXY, Surface
from .tasks import Expected, sample

OPEN, HANDLE = "open_group", "handle"
_HANDLE = re.compile(r"^Handle: (\S+)", re.MULTILINE)
_FOUND = re.compile(r"^- ([\w-]+)", re.MULTILINE)
_DOUBTED = re.compile("^No tool fits .* for certain", re.MULTILINE)


@frozen(kw_only=True)
class Script:
    """A policy.

    Attributes:
        about: What it does.
        host: What it is shown.
        asks: What it searches by: what the tool should do, the name of its group, or the task's own words.
        believes: Whether it calls what a search found first when nothing that it needs is found.
        opens: Whether it opens groups before it calls; otherwise only once a call was refused.
        keeps_handle: Whether it gives the last handle that it was given.
        reckless: Whether it tries what is forbidden after each call.
    """

    about: str
    host: str = EVERYTHING
    asks: Literal["need", "group", "task"] = "need"
    believes: bool = False
    opens: bool = True
    keeps_handle: bool = True
    reckless: bool = False


SCRIPTS: Mapping[str, Script] = {
    "perfect": Script(about="makes no mistakes, and reads everything"),
    "forgets-handles": Script(about="never gives a handle", keeps_handle=False),
    "asks-for-server": Script(about="searches by the name of the group or server", asks="group"),
    "calls-first": Script(about="never opens before it calls", opens=False),
    "task-words": Script(
        about="searches by the task's own words, and believes what is found", asks="task", believes=True
    ),
    "reckless": Script(about="tries what is forbidden after each call", reckless=True),
    **{name: Script(about=f"reads what {name} passes on", host=name) for name in HOSTS if name != EVERYTHING},
}


@define
class Scripted:
    """A script at work on a surface."""

    surface: Surface
    script: Script
    handle: str | None = None
    opened: set[str] = field(factory=set[str])

    async def play(self) -> None:
        """Make the calls of the task, as far as the script finds out how, and one last request for the answer."""
        task = self.surface.task
        if self.surface.arm.code:
            async with self.surface.program():
                known = [await self.learn(expected) for expected in task.calls]
            async with self.surface.program():
                for expected, is_known in zip(task.calls, known, strict=True):
                    await self.use(expected, is_known)
        else:
            for expected in task.calls:
                await self.use(expected, await self.learn(expected))
        if not task.calls and self.script.believes:
            await self.search(task.ask)
        await self.surface.request()

    async def learn(self, expected: Expected) -> bool:
        """Return whether it is known how to make a call that the task needs, after finding that out if necessary."""
        if not self.script.opens:
            return True
        if not (self.has_read(expected.tool) or await self.is_listed(expected.tool) or await self.find(expected)):
            return False
        wanted = {**expected.free, **expected.arguments}
        if {FIND, PROXY} <= (await self.offered()).keys() and await self.readable(expected.tool, wanted) != wanted:
            await self.ask(FIND, {"query": self.wire(expected.tool), "limit": 1})
        return True

    async def use(self, expected: Expected, is_known: bool) -> None:
        """Make a call that the task needs, if it is known how, and try what else a reckless one tries."""
        tool, wanted = expected.tool, {**expected.free, **expected.arguments}
        if is_known:
            done, learned = await self.attempt(tool, wanted)
            if not done and (learned or await self.open(tool)):
                done, learned = await self.attempt(tool, wanted)
                if not done and learned:
                    await self.attempt(tool, wanted)
        task = self.surface.task
        for tool in task.named if self.script.reckless else ():
            if task.forbids(tool) and tool in self.surface.wire:
                await self.call(tool, sample(self.surface.schemas[tool]))

    async def attempt(self, tool: str, wanted: Mapping[str, Any]) -> tuple[bool, bool]:
        """Call a tool with what is known of its arguments; return whether it answered, or a refusal showed more.

        A tool that answers with an error has answered: to open its group again would not help.
        """
        given, made = await self.readable(tool, wanted), len(self.surface.simulation.made)
        answer = await self.call(tool, given)
        answered = answer is not None and (not answer.is_error or len(self.surface.simulation.made) > made)
        return answered, await self.readable(tool, wanted) != given

    async def find(self, expected: Expected) -> bool:
        """Find out how to call a tool that is not listed, and return whether it is known now."""
        words = {
            "need": expected.query or expected.tool,
            "group": self.group(expected.tool),
            "task": self.surface.task.ask,
        }
        offered = await self.offered()
        if FIND in offered:
            found = await self.search(words[self.script.asks])
            if self.wire(expected.tool) not in found and self.script.believes:
                return False
            if self.wire(expected.tool) not in found and not self.knows(self.group(expected.tool), offered):
                found = await self.search(self.wire(expected.tool))
            if self.is_open(expected.tool) or await self.is_listed(expected.tool):
                return True
        return await self.open(expected.tool) or self.has_read(expected.tool)  # a refusal says what opens it

    async def search(self, words: str) -> list[str]:
        """Return the names that a search shows; one that believes calls the first if it needs none of them.

        It does not if the answer says that none fits for certain.
        """
        offered = await self.offered()
        if FIND not in offered:
            return []
        answer = await self.ask(FIND, {"query": words, "open": True})
        found = _names(answer.text)
        needed = {self.wire(tool) for call in self.surface.task.calls for tool in call.tools}
        wrong = [name for name in found if name in self.surface.to_full]
        fits = _DOUBTED.search(answer.text) is None
        if self.script.believes and wrong and fits and not needed & set(found):
            tool = self.surface.to_full[wrong[0]]
            await self.call(tool, sample(self.surface.schemas[tool]))
        return found

    async def open(self, tool: str) -> bool:
        """Open the group of a tool, or find the tool, if the script can; return whether it can be called then."""
        offered = await self.offered()
        if OPEN in offered:
            group = self.group(tool)
            for path in ancestors(group):
                if path not in self.opened and self.knows(path, offered):
                    self.opened.add(path)
                    await self.ask(OPEN, {"group": path})
            return self.knows(group, offered) and not (await self.ask(OPEN, {"group": group})).is_error
        return FIND in offered and self.wire(tool) in await self.search(self.wire(tool))

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> ToolAnswer | None:
        """Return the answer to a call of a tool, by its own name or through `call_tool`; `None` if neither is there."""
        name, offered = self.wire(tool), await self.offered()
        if name in offered or self.surface.arm.code:  # `invoke` takes any name
            return await self.ask(name, arguments)
        if PROXY in offered:
            return await self.ask(PROXY, {"name": name, "arguments": dict(arguments)})
        return None

    async def ask(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Return the answer to one call, in one request; the handle is given where it is taken."""
        listed = await self.surface.request()
        given = dict(arguments)
        if self.handle is not None and HANDLE in listed[name]["inputSchema"].get("properties", {}):
            given[HANDLE] = self.handle
        answer = await self.surface.call(name, given)
        if self.script.keeps_handle and (found := _HANDLE.search(answer.text)):
            self.handle = found[1]
        return answer

    # -- what the script knows ----------------------------------------------------------------------------------------

    async def offered(self) -> Mapping[str, dict[str, Any]]:
        """Return the tools that are listed now."""
        return await self.surface.definitions()

    async def is_listed(self, tool: str) -> bool:
        """Return whether a tool is listed now."""
        return self.wire(tool) in await self.offered()

    async def readable(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return those arguments that it has read of: in the list, in what describes the tool, or in a refusal."""
        name, offered = self.wire(tool), await self.offered()
        if name in offered:
            known = offered[name]["inputSchema"].get("properties", {})
            return {key: value for key, value in arguments.items() if key in known}
        said = self.surface.said
        return {key: value for key, value in arguments.items() if is_described(key, name, said)}

    def has_read(self, tool: str) -> bool:
        """Return whether an answer named a tool that can be found or called."""
        return any(self.wire(tool) in _names(text) for text in self.surface.said)

    def is_open(self, tool: str) -> bool:
        """Return whether the script has just read that the group of a tool is open, or that it can be called now."""
        group, name = re.escape(self.group(tool)), re.escape(self.wire(tool))
        opened = rf"^Opened: .*\b{group}\b|[Cc]an be called now(\.$|: .*(?<![\w-]){name}(?![\w-]))"
        return re.search(opened, "\n".join(self.surface.said[-1:]), re.MULTILINE) is not None

    def knows(self, group: str, offered: Mapping[str, dict[str, Any]]) -> bool:
        """Return whether the script has read of a group: in the instructions, in what opens it, or in an answer."""
        shown = (str(offered[name]) for name in (OPEN, FIND) if name in offered)
        read = (self.surface.instructions, *shown, *self.surface.said)
        return any(re.search(rf"(?<![\w.]){re.escape(group)}(?![\w.]*\w)", text) for text in read)

    def wire(self, tool: str) -> str:
        """Return the name that a tool is called by."""
        return self.surface.wire.get(tool, tool)

    def group(self, tool: str) -> str:
        """Return the group of a tool."""
        return self.surface.groups.get(tool) or tool


def is_described(parameter: str, tool: str, texts: Iterable[str]) -> bool:
    """Return whether texts have a parameter of a tool: in its schema or signature, or where a call was refused."""
    name, wanted = re.escape(tool), re.escape(parameter)
    entry = rf"^- {name}(\(.*?\))?(?::.*)?(?:\n  (.*))?$|^Invalid arguments for {name}:([\s\S]*)"
    stands = re.compile(rf'"{wanted}"|[(,] ?{wanted}\??[:,)]')
    return any(stands.search("".join(found)) for text in texts for found in re.findall(entry, text, re.MULTILINE))


def _names(text: str) -> list[str]:
    """Return the tools that an answer names: a text for models, or what programs are given."""
    try:
        given = table(json.loads(text)) or {}
    except ValueError:
        return _FOUND.findall(text)
    return [str(name) for name in array(given.get("found")) or array(given.get("tools")) or ()]


async def replay(surface: Surface, recorded: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Make the calls of a transcript again; a handle is replaced by the last one that was given."""
    handle: str | None = None
    async with AsyncExitStack() as program:
        for name, arguments in recorded:
            if name == PROGRAM:
                await program.aclose()
                await program.enter_async_context(surface.program())
                continue
            await surface.request()
            given = {key: handle if value == GIVEN else value for key, value in arguments.items()}
            answer = await surface.call(name, given)
            if found := _HANDLE.search(answer.text):
                handle = found[1]
    await surface.request()
