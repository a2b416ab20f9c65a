"""Arguments and results against JSON Schema, at a bounded cost.

signatures            the signature of a function: parameters, annotations, docstring
annotations           schemas of what functions take, and of what they return
fields                schemas in their three forms: field specifications, mappings, texts
arguments             schemas checked at registration, with which each call is validated
lenient               what hosts write in the arguments of control tools, as it is meant
validator             whether a value fits; `cost` bounds what that takes, `explain` says where it does not
cost, explain         the most that validation can cost, and what is wrong, in words
"""
