"""Groups in front of an existing MCP server (SPEC 20): its tools in groups that open and close, its answers unchanged.

gateway.py   `open_gateway`, and opening and closing it  upstream.py  the connection to the server behind it
registration.py  the server's tools in a tool set       forward.py   calls there and back
grouping.py  groups from names, or by patterns           naming.py    names that clients may be given
config.py    the TOML file
"""

from toolfold.spi import extras_named

with extras_named():
    from .config import GatewayConfig, GroupConfig, OptionsConfig, ProfileConfig, UpstreamConfig, load_config
    from .gateway import Gateway, open_gateway
    from .grouping import by_pattern, by_prefix
    from .naming import allowed_names
    from .registration import Report
    from .upstream import Upstream, UpstreamError

__all__ = [
    "Gateway",
    "GatewayConfig",
    "GroupConfig",
    "OptionsConfig",
    "ProfileConfig",
    "Report",
    "Upstream",
    "UpstreamConfig",
    "UpstreamError",
    "allowed_names",
    "by_pattern",
    "by_prefix",
    "load_config",
    "open_gateway",
]
