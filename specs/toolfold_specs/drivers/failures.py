"""Failures of a server, each in one sentence, whatever the SDK raises for them."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import cast

from pydantic import ValidationError

from toolfold_specs.driver import TargetFailed
from toolfold_specs.extras import extras_named

from .process import Child
from .replies import TargetNotStarted, WireError

with extras_named():
    import mcp_types as types
    from mcp import MCPError

QUOTED = 200  # characters of what a server wrote that are quoted


class Failures:
    """The exceptions of one connection, turned into those of the kit.

    Args:
        server: The server's process if it was started for the connection.
        url: The server's address if it has one.
    """

    def __init__(self, server: Child | None, url: str | None) -> None:
        self._server = server
        self._url = url

    @contextmanager
    def of_request(self, method: str, timeout: float) -> Generator[None]:
        """Turn an exception during a request into `WireError` or `TargetFailed`."""
        try:
            yield
        except (TargetFailed, CancelledError):
            raise
        except MCPError as error:
            if not _is_lost(error):
                raise WireError(error.code, error.message, error.data) from None
            raise TargetFailed(self._ended(f"before it answered {method}")) from None
        except TimeoutError:
            what = f"It did not answer {method} within {timeout:g} seconds."
            raise TargetFailed(f"{what}{self.last_words()}") from None
        except ValidationError as error:
            raise TargetFailed(f"Its answer to {method} does not conform to the protocol: {_first(error)}") from None
        except Exception as error:
            raise TargetFailed(f"{self._ended(f'before it answered {method}')} {_name(error)}".strip()) from None

    @contextmanager
    def of_start(self, timeout: float) -> Generator[None]:
        """Turn an exception while the server starts into `TargetNotStarted`."""
        try:
            yield
        except (TargetNotStarted, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            raise TargetNotStarted(self._why(_root(error), timeout)) from None

    def last_words(self) -> str:
        """Return the last lines that the server wrote to stderr, as a sentence to append; empty if there are none."""
        return self._server.last_words if self._server else ""

    def _why(self, error: BaseException, timeout: float) -> str:
        """Return in a sentence why the server can't be started."""
        match error:
            case FileNotFoundError() | PermissionError() | NotADirectoryError():
                return f"It can't be started: {error.strerror}: {error.filename}"
            case TimeoutError():
                return f"It did not answer within {timeout:g} seconds.{self.last_words()}"
            case MCPError() if _is_lost(error):
                return self._ended("before it was ready")
            case MCPError():
                return f"It refused the first request: {error.message} ({error.code}).{self.last_words()}"
            case ValidationError():
                return f"Its first answer does not conform to the protocol: {_first(error)}"
            case _ if self._url is not None:
                return f"{self._url} can't be reached: {_name(error)}"
            case _:
                return f"It can't be started: {_name(error)}{self.last_words()}"

    def _ended(self, when: str) -> str:
        if self._server is not None and self._server.garbage:
            return f"It wrote something other than a message to its stdout: {self._server.garbage[:QUOTED]!r}"
        status = self._server.status if self._server else None
        how = f"ended with status {status}" if status is not None else "closed the connection"
        return f"It {how} {when}.{self.last_words()}"


def _is_lost(error: MCPError) -> bool:
    """Return whether an error is the client's own, and says that no answer can come."""
    return error.code == types.CONNECTION_CLOSED and (
        error.message == "Connection closed" or error.message.startswith("SSE stream")
    )


def _first(error: ValidationError) -> str:
    """Return the first fault of a message, with its place."""
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _root(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _name(error: BaseException) -> str:
    root = _root(error)
    return f"{type(root).__name__}: {root}" if str(root) else type(root).__name__
