"""Groups in front of MCP servers (SPEC 20): their tools in groups that open and close, their answers unchanged.

gateway.py       `open_gateway`: opening and closing it      config.py      its configuration, as values
registration.py  a layout in a tool set                      files.py       configuration files, ours and of clients
layout.py        the name and the group of everything        definitions.py what an upstream offers
grouping.py      groups from names, or by patterns           naming.py      names that clients accept
reload.py        what an edited configuration changes        approval.py    definitions that were approved

upstream.py      one server: what it offers, connections     lifecycle.py   the life of a connection, as a table
link.py          one connection, and the task that holds it  wire.py        messages over it, as they are
transports.py    processes and URLs                          oauth.py       logins
listing.py       asking a server what it offers              cache.py       what it offered when it was last asked
downstream.py    the clients, as upstreams know them         forward.py     requests there, and answers back
dialogue.py      questions of upstreams, between the eras    serving.py     completions, log levels, subscriptions
waiting.py       calls of servers that are starting          stderr.py      what servers write there
outbox.py        what comes beside answers, in order         reasons.py     why a server did not start
bridge.py        `toolfold connect`                      private.py     files for their owner only
watched.py       resources that clients subscribed to    headers.py     headers of the modern era
repair.py        definitions that clients would refuse
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
