"""What is logged, and how: one line for each message, as text or as JSON."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal

from .failures import escaped, traceback_wanted

LOGGERS = ("toolfold", "mcp", "uvicorn")
NAMING_SESSIONS = ("mcp.server.streamable_http", "mcp.server.streamable_http_manager")
"""Loggers whose messages at info have the ids of sessions, which a reader of the log could use."""
LEVELS = ("debug", "info", "warning", "error")
MESSAGE_LENGTH = 2000
"""The maximum length of a logged message in characters."""

LogFormat = Literal["text", "json"]


def configure_logging(level: str = "warning", form: LogFormat = "text") -> None:
    """Print messages of this library, of the SDK and of uvicorn on standard error, from a level on."""
    for name in LOGGERS:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_JsonFormatter() if form == "json" else _BoundedFormatter(f"{name}: %(message)s"))
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(level.upper())
        logger.propagate = False
    for name in NAMING_SESSIONS:
        logging.getLogger(name).setLevel("WARNING" if level == "info" else logging.NOTSET)
    logging.getLogger("uvicorn.access").filters[:] = [_without_query]


def _without_query(record: logging.LogRecord) -> bool:
    """Cut the query string, which may have a token, off the path of a request that is logged."""
    match record.args:
        case (client, method, str(path), *rest):
            record.args = (client, method, path.partition("?")[0], *rest)
        case _:
            pass
    return True


def one_line(text: str) -> str:
    """Return a text cut to a bounded length, with control characters and line breaks escaped."""
    return escaped(bounded(text), allowed="")


def bounded(text: str) -> str:
    """Return a text cut to a bounded length."""
    return text if len(text) <= MESSAGE_LENGTH else f"{text[:MESSAGE_LENGTH]}…"


class _BoundedFormatter(logging.Formatter):
    """Formats a message as one line of bounded length, without tracebacks unless they were requested.

    So texts of callers can neither fill a log nor forge a line in it (SPEC SAF-3, SAF-6).
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        return one_line(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        if traceback_wanted():
            return super().formatException(ei)
        return "  " + one_line(f"{ei[0].__name__}: {ei[1]}".splitlines()[0])


class _JsonFormatter(logging.Formatter):
    """Formats a message as an object of JSON, likewise of bounded length; JSON escapes line breaks."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": bounded(record.getMessage()),
        }
        if record.exc_info and record.exc_info[0] is not None:
            entry["error"] = bounded(f"{record.exc_info[0].__name__}: {record.exc_info[1]}")
            if traceback_wanted():
                entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry)
