"""What is listed and what can be called in one snapshot.

visibility           the one place where availability is decided, and the view of a request
listing              pages of what is available, and the groups with their states
calling              a call: its handler, and its result
search               which tools a session may find, and their order for a query
intent               what a query asks for, and what a tool does: to read, create, change …
reasons              why something can or can't be called, and what opens its group
describe             tools and groups in texts, as full as a budget allows
types, stubs         schemas as types, and declarations of tools for programs
"""
