"""Which clock measures what.

elapsed()               lifetimes and idle times in this process: they pass while the machine sleeps, too
the time of the store   lifetimes and leases of what processes share
time.time()             what is said to others: the expiry of handles and tokens, dates
anyio's deadlines       how long an answer is waited for: a machine that slept has not waited
"""

from __future__ import annotations

import sys
import time


def elapsed() -> float:
    """Return the seconds since some moment, with those for which the machine slept; no change of the date matters."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)  # the monotonic clock stands still meanwhile
    if sys.platform == "darwin":
        return time.clock_gettime(time.CLOCK_MONOTONIC)  # `time.monotonic` is another one there, which stands still
    return time.monotonic()
