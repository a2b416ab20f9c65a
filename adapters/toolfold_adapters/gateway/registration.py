"""Makes a tool set offer what a layout says: all at the start, later what differs (SPEC GWY-1, REG-6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import frozen

from toolfold import ToolfoldError, ToolSet
from toolfold.spi import Kind

from .config import GatewayConfig
from .layout import Definitions, Layout, Placed, layout_of

Forwarder = Callable[[str, Kind, str], Callable[..., Any]]
"""Returns the handler of something, given the name of its upstream, its kind, and what the upstream calls it."""


@frozen
class Report:
    """How the tools of the upstreams were registered.

    `server` is the name and version of the only upstream, and `version` the latter alone; `instructions` is what
    clients are sent, `tools` maps a name here to the upstream's own, and `warnings` are sentences for the operator.
    """

    server: str
    instructions: str | None
    tools: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    version: str = ""


class Registration:
    """What upstreams offer, registered in one tool set.

    Args:
        tools: A tool set that `config.new_tool_set` made.
        config: The configuration.
        forwarder: Returns the handlers.
        reserved: Names that no tool may have, because an adapter needs them.
    """

    def __init__(
        self, tools: ToolSet, config: GatewayConfig, forwarder: Forwarder, reserved: Iterable[str] = ()
    ) -> None:
        self._tools = tools
        self._config = config
        self._forwarder = forwarder
        names: list[str] = []
        tools.guard_names(names.append)  # called at once with the names that are taken
        self._reserved = {*reserved, *names}
        self._servers: dict[str, Definitions] = {}
        self._layout = Layout()

    def register_tools(self, servers: Mapping[str, Definitions]) -> Report:
        """Register what the upstreams offer, in groups, and return the report; for the start.

        A definition that can't be registered is left out and reported; it does not harm the others.

        Args:
            servers: What each upstream offers that is known, by its name in the configuration.

        Raises:
            ConfigError: The configuration does not fit the groups that follow from the names.
        """
        self._servers = dict(servers)
        self._layout = layout_of(self._config, self._servers, self._reserved)
        for path, description in self._layout.groups.items():
            self._tools.register_group(path, description)
        self._config.declare(self._tools, self._layout.descriptions)
        return self._report(self._register(self._layout.placed))

    async def replace(self, server: str, definitions: Definitions | None) -> Report:
        """Register what an upstream offers now in place of what it offered, and return the new report.

        Only what differs changes, and sessions are notified of it. `None` unregisters everything that it offers.
        """
        if definitions is None:
            self._servers.pop(server, None)
        else:
            self._servers[server] = definitions
        before, after = self._layout, layout_of(self._config, self._servers, self._reserved)
        for path in before.groups.keys() - after.groups.keys():
            if path in self._tools.catalog.index:
                await self._tools.unregister_group(path)
        for path in after.groups.keys() - before.groups.keys():
            self._tools.register_group(path, after.groups[path])
        known, wanted = {(p.kind, p.name): p for p in before.placed}, {(p.kind, p.name): p for p in after.placed}
        for key, placed in known.items():
            if wanted.get(key) != placed:
                self._tools.unregister(placed.name, placed.kind)
        changed = [placed for key, placed in wanted.items() if known.get(key) != placed]
        self._layout = after
        report = self._report(self._register(changed))
        gone = [placed for key, placed in known.items() if key not in wanted]
        kinds: set[Kind] = {placed.kind for placed in (*changed, *gone)}
        if kinds:
            self._tools.notify_list_changed(kinds)
        return report

    def find(self, kind: Kind, name: str) -> Placed | None:
        """Return what is offered by that name, or at that URI, or `None`."""
        return next((one for one in self._layout.placed if (one.kind, one.name) == (kind, name)), None)

    def servers_of(self, groups: Iterable[str]) -> tuple[str, ...]:
        """Return the upstreams that have something in one of the groups."""
        paths = set(groups)
        return tuple(dict.fromkeys(one.server for one in self._layout.placed if one.options.get("group") in paths))

    def _register(self, placed: Iterable[Placed]) -> list[str]:
        """Register what can be, and return a warning for each of the others."""
        warnings: list[str] = []
        for one in placed:
            handler = self._forwarder(one.server, one.kind, one.original)
            try:
                self._tools.register(one.name, handler, **one.options)
            except ToolfoldError as error:
                warnings.append(f"The tool {one.original!r} is left out: {getattr(error, 'problem', error)}.")
        return warnings

    def _report(self, left_out: Iterable[str]) -> Report:
        only = next(iter(self._servers.values())) if len(self._config.upstreams) == 1 and self._servers else None
        return Report(
            server=f"{only.name} {only.version}".strip() if only else "",
            instructions=only.instructions if only else None,
            tools={p.name: p.original for p in self._layout.placed if p.name in self._tools.catalog.tools},
            warnings=(*self._layout.warnings, *left_out),
            version=only.version if only else "",
        )
