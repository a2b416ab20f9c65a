"""The executable specification of Toolfold.

=============  =================================================================
clauses.toml   every clause as data: id, section, level, sources, text
clauses.py     the same as frozen, validated values
table.py       which test shows which clause: specs/CLAUSES.md and its check
=============  =================================================================
"""
