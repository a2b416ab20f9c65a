"""The group `database`, and the groups in it: `read`, `write`, `maintenance`.

`write` is a transaction: opening it begins one, closing it saves. SQLite has one writer at a time, so opening it fails
while another client writes. It excludes `maintenance`, which can't work within a transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Annotated

from pydantic import Field

from toolfold import Context, HookContext, Slot, ToolError, group, tool

TABLE = "CREATE TABLE IF NOT EXISTS records (name TEXT PRIMARY KEY, value TEXT NOT NULL)"
Name = Annotated[str, Field(max_length=200)]
"""A name, or a pattern of names; its length is limited because matching takes time in proportion to both lengths."""
WRITE = "database.write"
BUSY = f"Another client is writing; it has to close {WRITE} first."


@group(description="Records that have a name and a value", on_deactivate="discard")
class Database:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._transaction = Slot[sqlite3.Connection]("transaction")
        with closing(self.connect()) as connection:
            connection.execute(TABLE)

    @group
    def read(self) -> Read:
        return Read(self)

    @group(name="write")
    def transaction(self) -> DatabaseWrite:
        return DatabaseWrite(self)

    @group
    def maintenance(self) -> Maintenance:
        return Maintenance(self)

    def discard(self, hook: HookContext) -> None:
        """Discard a transaction that could not be saved when its client left; the groups inside close first."""
        with suppress(LookupError):
            self._transaction.empty(hook).close()

    def connect(self) -> sqlite3.Connection:
        """Return a new connection, which never waits for another and can be used from any thread."""
        return sqlite3.connect(self._file, timeout=0, isolation_level=None, check_same_thread=False)

    def begin(self, hook: HookContext) -> None:
        """Begin the transaction of a session."""
        connection = self.connect()
        try:
            with as_tool_errors():
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("SAVEPOINT opened")
        except ToolError:
            connection.close()
            raise
        self._transaction.fill(hook, connection)

    def save(self, hook: HookContext) -> None:
        """Save what a session wrote and end its transaction; if that fails, the transaction goes on."""
        with as_tool_errors():
            self._transaction.of(hook).commit()
        self._transaction.empty(hook).close()

    def transaction_of(self, context: Context) -> sqlite3.Connection:
        """Return the connection that a session writes to."""
        if context.session.owner_of(WRITE) is not context.session:  # the server was started with it open for everybody
            raise ToolError(f"Transactions are not shared: serve without {WRITE}, and open it to write.")
        return self._transaction.of(context)

    def find(self, context: Context, pattern: str) -> dict[str, str]:
        """Return the records whose names match: saved ones, and those that the session has written."""
        with as_tool_errors():
            try:
                writing = self._transaction.of(context)
            except LookupError:
                with closing(self.connect()) as connection:
                    return _matching(connection, pattern)
            return _matching(writing, pattern)


class Read:
    """Find records."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @tool(annotations={"readOnlyHint": True})
    def query(self, context: Context, pattern: Name = "%") -> dict[str, str]:
        """Find records by name; % stands for any characters."""
        return self._database.find(context, pattern)


@group(description="Write records; closing the group saves them", on_activate="begin", on_deactivate="save")
class DatabaseWrite:
    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, hook: HookContext) -> None:
        self._database.begin(hook)

    def save(self, hook: HookContext) -> None:
        self._database.save(hook)

    @tool
    def insert(self, name: Name, value: str, context: Context) -> str:
        """Write a new record."""
        connection = self._database.transaction_of(context)
        with as_tool_errors(f"There is a record {name!r} already."):
            connection.execute("INSERT INTO records VALUES (?, ?)", (name, value))
        return f"{name} is written; closing the group saves it."

    @tool
    def roll_back(self, context: Context) -> str:
        """Undo all changes since the group was opened."""
        connection = self._database.transaction_of(context)
        with as_tool_errors():
            connection.execute("ROLLBACK TO opened")
        return "All changes since the group was opened are undone."


@group(description="Maintain the database; opening database.write closes this group", show_deactivator=False)
class Maintenance:
    def __init__(self, database: Database) -> None:
        self._database = database

    @tool(annotations={"idempotentHint": True})
    def compact(self) -> str:
        """Check the database and free unused space."""
        with as_tool_errors(), closing(self._database.connect()) as connection:
            (found,) = connection.execute("PRAGMA integrity_check").fetchone()
            connection.execute("VACUUM")
        return f"The database is {found}, and compact."


@contextmanager
def as_tool_errors(duplicate: str = "That exists already.") -> Generator[None]:
    """Turn errors of the database into messages for the client."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise ToolError(duplicate) from error
    except (sqlite3.Error, UnicodeError) as error:
        busy = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
        raise ToolError(BUSY if busy else f"The database reports an error: {error}.") from error


def _matching(connection: sqlite3.Connection, pattern: str) -> dict[str, str]:
    rows = connection.execute("SELECT name, value FROM records WHERE name LIKE ? ORDER BY name", (pattern,))
    return dict(rows.fetchall())
