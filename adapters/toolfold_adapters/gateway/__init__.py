"""Groups in front of MCP servers (SPEC 20): their tools in groups that open and close, their answers unchanged.

gateway.py       `open_gateway`: opening and closing it      config/        what it is told, and what was approved
registration.py  a layout in a tool set                      upstream/      its servers: what they offer, connections
layout.py        the name and the group of everything        serving/       its clients: what they ask, and the answers
grouping.py      groups from names, or by patterns           definitions.py what an upstream offers
words.py         nouns in names and descriptions             naming.py      names that clients accept
bridge.py        `toolfold connect`                          private.py     files for their owner only
"""

from toolfold.spi import extras_named

with extras_named():
    from .config.read import changes_of, load_config
    from .config.settings import BudgetsConfig, GatewayConfig, GroupConfig, OptionsConfig, ProfileConfig, UpstreamConfig
    from .definitions import Definitions
    from .gateway import Gateway, open_gateway
    from .grouping import by_pattern
    from .naming import allowed_names
    from .registration import Registration, Report
    from .upstream.life import Backoff
    from .upstream.listing import DefinitionCache, default_folder
    from .upstream.upstream import Runtime, Upstream, UpstreamError, UpstreamStatus

__all__ = [
    "Backoff",
    "BudgetsConfig",
    "DefinitionCache",
    "Definitions",
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
    "load_config",
    "open_gateway",
]
