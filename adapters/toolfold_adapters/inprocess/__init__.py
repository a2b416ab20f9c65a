"""Toolfold in process: the tools of an agent's own loop, without a protocol in between (SPEC 19).

conversation.py  `Conversation`: the tools and the calls of one conversation
blocking.py      the same for code without an event loop
order.py         the order of the tools that a model is given
formats.py       definitions in the shapes of providers' APIs
turn.py          the order in which the calls of a turn run      execution.py  running them
barrier.py       the order of calls that are made one by one
history.py       the groups that a conversation had loaded       messages.py   the calls in its messages
failures.py      which of these calls failed                     arguments.py, wire_names.py  what a model writes
late.py          tools that a provider loads late                late_anthropic.py, late_openai.py  in its own terms
content.py       the content of results
"""

from .blocking import BlockingConversation
from .conversation import Conversation, Tokens
from .formats import Format
from .late import Native
from .messages import PastCall

__all__ = ["BlockingConversation", "Conversation", "Format", "Native", "PastCall", "Tokens"]
