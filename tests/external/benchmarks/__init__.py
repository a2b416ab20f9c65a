"""Public benchmarks that check states, behind groups and without them: tau2 and AgentDojo, from `inspect_evals`.

In the environment of the benchmarks, without Toolfold:

worker.py    asks and answers by lines        sessions.py  what both share
tau2.py      four domains of a service desk   policies.py  what their policies want and forbid
dojo.py      tasks among attacks

Here:

link.py      the worker's other end           service.py   tau2's tools in groups, and its policies as rules
playing.py   the players of tau2              outside.py   AgentDojo's tools, rules, and a victim
figures.py   what is measured, and its tables   record.py    outcomes, for a run that goes on
"""
