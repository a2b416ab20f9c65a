"""What is seen of a server while it runs.

stored_usage    what is used, written to a store
status          how servers, stores and sessions are doing
"""
