"""Groups in front of MCP servers (SPEC 20): their tools in groups that open and close, their answers unchanged.

gateway.py       `open_gateway`: opening and closing it      config/    its configuration
registration.py  a layout in a tool set                      upstream/  its servers: what they offer, connections
layout.py        the name of everything, and profiles        serving/   its clients: what they ask, and the answers
grouping.py      groups, and the tools in them               stored.py  what was offered and approved, in files
known.py         the parts of well-known servers             beside.py  work on what may be large, beside the loop
describing.py    what is said of servers and groups      spelling.py  which URIs may be spellings of one
finding.py       which server a resource is of           sharing.py  which servers one process serves
callers/         who calls it, and what they log in with     views.py    resources that hosts render beside results
"""

from toolfold.spi import extras_named

with extras_named():
    from .config.read import load_config
    from .config.settings import GatewayConfig, GroupConfig, UpstreamConfig
    from .gateway import Gateway, open_gateway
    from .upstream.life import UpstreamError
    from .upstream.upstream import Runtime

__all__ = [
    "Gateway",
    "GatewayConfig",
    "GroupConfig",
    "Runtime",
    "UpstreamConfig",
    "UpstreamError",
    "load_config",
    "open_gateway",
]
