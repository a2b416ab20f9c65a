"""A page for the operator that shows the sessions of a tool set as they change (SPEC DIA-1, DIA-3).

app        an ASGI application
recording  what happened, while somebody watches
history    what changed before that
metrics    the counters of use as Prometheus reads them
views      that as JSON for the page, and its pictures
parts/     the page: HTML, style and script
"""

from .app import live

__all__ = ["live"]
