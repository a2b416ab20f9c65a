"""Toolfold in process: the tools of an agent's own loop, without a protocol in between (SPEC 19).

conversation, blocking       `Conversation`: the tools and calls of one conversation, also without an event loop
order, formats               the order of the tools that a model is given, and their definitions for providers
turn, execution              the order in which the calls of a turn run, and running them
barrier                      the order of calls that are made one by one
arguments, wire_names        what a model writes, read and converted
content                      the content of results
history, messages            the groups that a conversation had loaded, and the calls in its messages
failures                     which of these calls failed
late                         tools that a provider loads late
late_anthropic, late_openai  the same in its own terms
"""

from .blocking import BlockingConversation
from .conversation import Conversation, Tokens
from .formats import Format
from .late import Native
from .messages import PastCall

__all__ = ["BlockingConversation", "Conversation", "Format", "Native", "PastCall", "Tokens"]
