"""What keeps the kit honest (SPEC CNF-5): a second, naive implementation of the rules, and ways of getting it wrong.

`rules.py` decides, `engine.py` performs; both favour the plain over the fast, and make each decision in a method of its
own. A broken variant (`variants.py`) is the engine with one such method replaced. Nothing here knows Toolfold, or the
reference model that the kit judges by: an error would have to be made twice to go unseen.
"""
