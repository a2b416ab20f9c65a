"""Extensions of the protocol: those that a server offers, and the groups that another one does.

groups.py          the draft for groups, and the states of its clients   skills.py  entries of skills
offered_groups.py  the groups of another server
"""
