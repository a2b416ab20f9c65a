"""How requests are answered: the one delivery finds the session of a request, and asks the core.

delivery.py  list, call, prompt and read    proxy.py   the tools that call other tools
answers.py   what the library itself says   render.py  what goes on the wire
long_results.py  results longer than a host passes on
asked.py     what a client is asked for, and whether it declares that it answers it
files.py     where they are on disk          media.py   images and audio that a client does not show
"""
