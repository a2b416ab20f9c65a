"""Who calls a gateway, and as whom it acts for them at its servers (SPEC GWY-19).

acting.py       as whom a server is used                 logins.py      how each caller logs in, and with what
credentials.py  what principals log in with at servers   keys.py        what that is encrypted with
listed.py       what each caller is listed               pages.py       where people log in
own.py          what each has of that himself
rights.py       what they may do, as bounds of sessions  allowances.py  what they may use up in a time
people.py       who opens a page, with a browser
"""
