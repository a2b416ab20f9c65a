"""`toolfold up`."""

from __future__ import annotations

import logging
import os
import secrets
import sys
import time
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from functools import partial
from importlib import import_module
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import click
from anyio import to_thread
from attrs import frozen

from toolfold import ConfigError, ToolfoldError
from toolfold.spi import extras_named
from toolfold_adapters.observe.stored_usage import usage_url
from toolfold_adapters.runtime.kept import kept_short, reopen_log
from toolfold_adapters.runtime.place import (
    SERVERS,
    STATE,
    Misplaced,
    aside,
    connected,
    folder_of,
    listening,
    locked,
    prepared,
)
from toolfold_adapters.runtime.standby import with_standby
from toolfold_adapters.tokens import ANSWER_TOKENS
from toolfold_adapters.transport.signals import cancelled_by_signals
from toolfold_adapters.transport.starting import starting

from .failures import Failed, run
from .logs import LEVELS, configure_logging
from .options import PREFIX, OneOf, examples, has_tags, traceback_option, variable_of
from .targets import GatewayOptions, OpenTarget, open_target, parse_target

if TYPE_CHECKING:
    from toolfold import Store, ToolSet
    from toolfold_adapters.gateway import Gateway
    from toolfold_adapters.gateway.upstream.pool import Pool
    from toolfold_adapters.gateway.upstream.upstream import Upstream
    from toolfold_adapters.mcp.server import ToolSetServer
    from toolfold_adapters.runtime.runtime import Hello, Served
    from toolfold_adapters.stores import SQLiteStore

log = logging.getLogger("toolfold.runtime")

SETTINGS = frozenset(
    {
        "active",
        "answer_tokens",
        "answers",
        "call_tools",
        "control",
        "control_visibility",
        "disclosure",
        "draft",
        "max_active",
        "profile",
        "read_tool",
        "search",
        "separator",
        "share",
        "start_timeout",
    }
)
"""The options of `toolfold serve` that the environment of a relay's host may set, as it does for `serve` over stdio."""
OF_SESSIONS = (
    "toolfold_adapters.gateway.upstream.pool",
    "toolfold_adapters.manifests.catalogs",
    "toolfold_adapters.mcp",
    "toolfold_adapters.runtime.left",
    "toolfold_adapters.runtime.runtime",
    "toolfold_adapters.stores.sqlite",
    "platformdirs.unix" if os.name == "posix" else "platformdirs",
)
"""What sessions need is imported before the first, and before the runtime is copied."""
SUCCESSOR_SECONDS = 60.0
"""How long a newer version may take to start, of which those that are served notice nothing."""
ATTEMPTS, PAUSE = 5, 0.05
"""How often the lock of the folder is tried for, and the seconds between."""
KEY, KEY_BYTES = "key", 32
"""The file with what the ids of tasks are signed with, beside the stored sessions, and how long that is."""
LEASE_SECONDS = 1.0
"""How long what a runtime that was killed was doing holds up the next one: nobody else writes there."""


@click.command(
    "up",
    epilog=examples(
        "toolfold up                        have the runtime in this terminal; Ctrl-C ends it",
        "toolfold up --log-level info       and see what it does",
        "toolfold up --install              have the system start it when you log in",
    ),
)
@click.option(
    "--log-level", type=OneOf(LEVELS), default="warning", show_default=True, help="What to log, from which level."
)
@click.option(
    "--for-relay", is_flag=True, help="Be the one that a relay starts: it is no failure if there is one already."
)
@click.option("--keep", is_flag=True, help="Go on while no relay is connected.")
@click.option(
    "--install",
    is_flag=True,
    help="Write the file that has the system start it when you log in, and say how to use it.",
)
@click.option("--uninstall", is_flag=True, help="Remove that file.")
@traceback_option
def up_command(log_level: str, for_relay: bool, keep: bool, install: bool, uninstall: bool) -> None:
    """Be the runtime that all relays of this user share, in the foreground.

    A relay, `toolfold connect FILE`, starts one where there is none, so this is for looking at what it does. It ends
    when no relay has been connected for five minutes, or by `toolfold down`.
    """
    if install or uninstall:
        _install(remove=uninstall)
        return
    try:
        folder = prepared(folder_of(os.environ))
    except Misplaced as error:
        raise Failed(str(error)) from error
    Path(folder, STATE).mkdir(0o700, exist_ok=True)
    if for_relay:
        reopen_log(folder)
    configure_logging(log_level)
    lock = next(filter(None, map(_locked, repeat(folder, ATTEMPTS))), None)
    if lock is None:
        if for_relay:
            return  # another relay was faster
        raise Failed("There is a runtime already; toolfold status shows it, and toolfold down ends it.")
    with ExitStack() as held, cancelled_by_signals() as shutdown, extras_named(), starting() as started:
        for name in OF_SESSIONS:
            import_module(name)
        if for_relay:
            lock, copy = with_standby(folder, lock)
            held.callback(copy.end)
        held.callback(os.close, lock)
        run(partial(_serve, folder, started, held, quiet=for_relay, keep=keep))
    shutdown.exit_if_signalled()


def _install(*, remove: bool) -> None:
    """Write the file that has the system start the runtime, or remove it, and say what to do then."""
    from .installing import service

    command = (sys.executable, "-m", "toolfold_cli", "up", "--for-relay", "--keep")
    if sys.platform == "win32":
        user: int | str = os.environ.get("USERNAME", "")
    else:
        user = os.getuid()
    found = service(command, os.environ, Path.home(), user)
    try:
        if remove:
            found.path.unlink()
            click.echo(f"Removed: {found.path}\nTo end what it started:\n  {found.stop}")
            return
        found.path.parent.mkdir(parents=True, exist_ok=True)
        found.path.write_text(found.text, encoding=found.encoding)
    except FileNotFoundError:
        click.echo(f"There is no {found.path}.")
        return
    except OSError as error:
        raise Failed(f"{found.path} can't be written: {error.strerror}.") from error
    click.echo(f"Wrote: {found.path}\nTo have it used:\n  {found.start}")


def _locked(folder: str) -> int | None:
    """Return what `locked` does, or wait: a relay that looks whether there is a runtime has the lock for a moment."""
    if (lock := locked(folder)) is None:
        time.sleep(PAUSE)
    return lock


async def _serve(folder: str, started: Any, held: ExitStack, *, quiet: bool, keep: bool) -> None:
    from toolfold import __version__
    from toolfold_adapters.gateway.upstream.pool import Pool
    from toolfold_adapters.runtime.left import Servers
    from toolfold_adapters.runtime.runtime import Runtime
    from toolfold_adapters.transport.processes import noted

    listener, secret = listening(folder)
    with listener:
        started()
        if not quiet:
            click.echo(f"toolfold: relays are served at {folder}; Ctrl-C ends it", err=True)
        held.callback(listener.close)
        servers = Servers(Path(folder, SERVERS))
        noted.set(servers.note)
        held.callback(servers.forget)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(servers.end, servers.left())
            if quiet:
                reopen_log(folder)
                tasks.start_soon(kept_short, folder)
            opening = partial(_opened, Path(folder, STATE), Pool(tasks), _keys(Path(folder, STATE, KEY)))
            handing_over = partial(_hand_over, folder, held)
            runtime = Runtime(__version__, opening, hand_over=handing_over, kept=keep)
            await runtime.serve(listener, secret)
            tasks.cancel_scope.cancel()


async def _hand_over(folder: str, held: ExitStack) -> None:
    """Give the folder up, and wait until another runtime takes connections there; not for long, if none does."""
    held.close()
    with anyio.move_on_after(SUCCESSOR_SECONDS):
        while True:
            with suppress(OSError):
                connected(folder)[0].close()
                return
            await anyio.sleep(PAUSE)


def _keys(path: Path) -> list[bytes]:
    """Return what the ids of tasks are signed with: a key that the runtimes of a folder have one after another.

    SPEC GWY-18.
    """
    from toolfold_adapters.gateway.stored import write_whole

    try:
        if path.exists():
            os.utime(path)  # what nobody has used for long is removed
            found = path.read_bytes()
            if len(found) == KEY_BYTES:
                return [found]
        key = secrets.token_bytes(KEY_BYTES)
        write_whole(path, key)
    except OSError as error:
        log.warning("tasks can't be asked for after a restart, since their key can't be stored: %s", error)
        return []
    return [key]


@asynccontextmanager
async def _opened(states: Path, pool: Pool, keys: Sequence[bytes], hello: Hello) -> AsyncGenerator[Served]:
    """Open the gateway that a relay asks for; its sessions are in a file of its own."""
    settings = settings_in(hello.environment)
    of_gateway = {name: settings.pop(name) for name in GatewayOptions.__annotations__ if name in settings}
    opening = open_target(
        parse_target(hello.target),
        GatewayOptions(**of_gateway),
        serving=True,
        environ=hello.environment,
        folder=Path(hello.folder),
        pool=pool,
        place_of=hello.place_of,
        keys=keys,
        definition_tags=has_tags(settings.get("draft", ())),
    )
    async with (
        await _sessions(states / f"{hello.shares}.db") as store,
        opening as opened,
        _recorded(opened.tools, hello.usage),
    ):
        with _traced(opened.tools, store, hello) as traced:
            yield _Served(opened, traced, settings)


@contextmanager
def _traced(tools: ToolSet, store: Store, hello: Hello) -> Generator[Store]:
    """Write what sessions do where the environment of a host says, if it does, and yield the store of the sessions."""
    if not (name := hello.environment.get(f"{PREFIX}TRACE")):
        yield store
        return
    from toolfold_adapters.observe.trace import Trace

    try:
        trace = Trace(Path(hello.folder, name))
    except OSError as error:
        raise ConfigError(
            f"{name} can't be written: {error.strerror or error}. It was set by {PREFIX}TRACE."
        ) from error
    stop = trace.listen(tools)
    try:
        yield trace.around(store)
    finally:
        stop()
        trace.close()


@asynccontextmanager
async def _recorded(tools: ToolSet, usage: str | None) -> AsyncGenerator[None]:
    """Record what is used where a relay says, or in the user's own record."""
    if usage == "":
        yield
        return
    from toolfold_adapters.observe.stored_usage import writing
    from toolfold_adapters.stores import open_store

    async with aclosing(open_store(usage or usage_url())) as store, writing(tools, store):
        yield


def settings_in(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return what the environment of a host says that are options of `toolfold serve`, by their names.

    Raises:
        ConfigError: A value is none of its option.
    """
    if not any(name.startswith(PREFIX) for name in environ):
        return {}
    from .serve import serve_command

    ctx, found = click.Context(serve_command, auto_envvar_prefix=PREFIX.rstrip("_")), dict[str, Any]()
    for option in serve_command.params:
        name, variable = str(option.name), variable_of(ctx, option)
        if name in SETTINGS and (text := environ.get(variable)) is not None:
            given = option.type.split_envvar_value(text) if option.multiple else text
            try:
                found[name] = option.process_value(ctx, given)
            except click.UsageError as error:
                message = f"{error.format_message().removesuffix('.')}. It was set by {variable}."
                raise ConfigError(message) from error
    return found


async def _sessions(path: Path) -> SQLiteStore:
    """Return the store in a file; one that can't be used is set aside, since sessions can begin anew."""
    from toolfold_adapters.stores import SQLiteStore

    store = SQLiteStore(path, lease=LEASE_SECONDS, sole=True)
    try:
        await store.due("", 1)
    except ToolfoldError as error:
        await store.aclose()
        log.warning("the sessions begin anew, since those before can't be read (%s)", error)
        await to_thread.run_sync(_set_aside, path)
        return SQLiteStore(path, lease=LEASE_SECONDS, sole=True)
    return store


def _set_aside(path: Path) -> None:
    """Set a damaged file of sessions aside, with what SQLite has beside it; raises `OSError`."""
    for one in (path, *(path.with_name(f"{path.name}-{kind}") for kind in ("wal", "shm", "journal"))):
        if os.path.lexists(one):
            aside(str(one))


@frozen
class _Served:
    """An open target with the store of its sessions, and the options of its servers that were given."""

    opened: OpenTarget
    store: Store
    settings: Mapping[str, Any]

    def server(self, profile: str | None, groups: tuple[str, ...]) -> ToolSetServer:
        """Return a server for relays with a profile and groups to begin with."""
        from toolfold_adapters.mcp import build_server

        from .serve import with_drafts

        settings: dict[str, Any] = {"profile": None, "active": (), **self.settings}
        profile, groups = profile or settings["profile"], groups or settings["active"]
        active, gateway = self.opened.groups_of(groups), self.opened.gateway
        known = {group.path for group in self.opened.tools.catalog.groups}
        if (unknown := [name for name in active if name not in known]) and not (gateway and gateway.unknown):
            raise ConfigError(f"There is no group {unknown[0]!r}; the groups are: {', '.join(sorted(known))}.")
        given: dict[str, Any] = {
            **_of_gateway(self.opened.gateway),
            **settings,
            "profile": profile,
            "active": active,
        }
        server: Any = build_server(
            self.opened.tools,
            store=self.store,
            **with_drafts(given, over_http=False),
        )
        return server  # type: ignore[no-any-return]

    def upstreams(self) -> Iterable[Upstream]:
        """Return the servers behind it."""
        return () if self.opened.gateway is None else self.opened.gateway.upstreams.values()

    def left(self, client: str) -> None:
        """Have the connections that were a client's alone end."""
        if self.opened.gateway is not None:
            self.opened.gateway.clients.left(client)


def _of_gateway(gateway: Gateway | None) -> Mapping[str, Any]:
    if gateway is None:
        return {"answer_tokens": ANSWER_TOKENS}
    version = {"version": gateway.report.version} if gateway.report.version else {}
    return {
        "handles": "stored",
        "extend": gateway.extend,
        "instructions": gateway.report.instructions,
        "answer_tokens": lambda: gateway.config.budgets.answer_tokens,
        "read_tool": True,
        "read_result": True,
        **version,
    }
