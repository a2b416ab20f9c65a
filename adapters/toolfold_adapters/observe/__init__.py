"""What is seen of a server while it runs.

audit           a line for each call: who did what
stored_usage    what is used, written to a store
status          how servers, stores and sessions are doing
trace           what sessions did, for `toolfold verify`
"""
