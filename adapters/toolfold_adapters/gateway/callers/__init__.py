"""Who calls a gateway, and as whom it acts for them at its servers (SPEC GWY-19).

credentials.py  what principals log in with at servers   keys.py  what that is encrypted with
rights.py  what they may do, as bounds of their sessions   allowances.py  what they may use up in a time
"""
