"""What one snapshot shows and lets be called.

visibility                 the one place where availability is decided, and the view of a request
listing                    pages of what is available, and the groups with their states
calling, context, results  a call: its handler, what that is given, and what its answer becomes
control, finder            the tools that the library makes itself: activators, loaders, `find_tools`
search                     which tools a session may find, and their order for a query
opening                    how the caller of a request opens a group
describe, directory        tools and groups in texts, as full as a budget allows
"""
