"""Groups in front of MCP servers (SPEC 20): their tools in groups that open and close, their answers unchanged.

gateway.py   `open_gateway`, and opening and closing it    upstream.py  the connection to one server
layout.py    the name and the group of everything, a value  forward.py   calls there and back
registration.py  a layout in a tool set                     config.py    the TOML file
grouping.py  groups from names, or by patterns              naming.py    names that clients may be given
"""

from toolfold.spi import extras_named

with extras_named():
    from .cache import DefinitionCache, default_folder
    from .config import BudgetsConfig, GatewayConfig, GroupConfig, OptionsConfig, ProfileConfig, UpstreamConfig
    from .definitions import Definitions
    from .files import load_config
    from .gateway import Gateway, open_gateway
    from .grouping import by_pattern
    from .lifecycle import Backoff
    from .naming import allowed_names
    from .registration import Registration, Report
    from .reload import Difference, changes_of, difference
    from .upstream import Runtime, Upstream, UpstreamError, UpstreamStatus

__all__ = [
    "Backoff",
    "BudgetsConfig",
    "DefinitionCache",
    "Definitions",
    "Difference",
    "Gateway",
    "GatewayConfig",
    "GroupConfig",
    "OptionsConfig",
    "ProfileConfig",
    "Registration",
    "Report",
    "Runtime",
    "Upstream",
    "UpstreamConfig",
    "UpstreamError",
    "UpstreamStatus",
    "allowed_names",
    "by_pattern",
    "changes_of",
    "default_folder",
    "difference",
    "load_config",
    "open_gateway",
]
