"""Toolfold in process: the tools of an agent's own loop, without a protocol in between (SPEC 19).

conversation.py  `Conversation`: what one conversation is given, and what it calls
blocking.py      the same for code without an event loop
formats.py       definitions in the shapes of providers' APIs
history.py       which groups a conversation had loaded, by its messages
"""

from .blocking import BlockingConversation
from .conversation import Conversation, Tokens
from .formats import Format

__all__ = ["BlockingConversation", "Conversation", "Format", "Tokens"]
