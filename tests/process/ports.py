"""Ports of loopback for servers that are given their port, and may be started there again."""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress

FIRST, COUNT = 10_000, 10_000
"""Below the ports that systems give to outgoing connections, which would take one between its choice and its use."""


def free_port() -> int:
    """Return a port that nobody uses."""
    while True:
        port = FIRST + secrets.randbelow(COUNT)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
