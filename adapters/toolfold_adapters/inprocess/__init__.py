"""Toolfold in process: the tools of an agent's own loop, without a protocol in between (SPEC 19).

conversation.py  `Conversation`: the tools and calls of one    blocking.py    the same without an event loop
wire_names.py    the names and the order of its tools          formats.py     what models read and say
turn.py          the calls of a turn, in order                 schemas.py     schemas as providers take them
history.py       the groups that it had loaded          late.py        tools that a provider loads late
late_providers.py   the same in each provider's terms
"""

from .blocking import BlockingConversation
from .conversation import Conversation, Tokens
from .formats import Format, PastCall
from .late import Native

__all__ = ["BlockingConversation", "Conversation", "Format", "Native", "PastCall", "Tokens"]
