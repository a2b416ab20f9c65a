"""The limits on what comes from outside, all in one place (SPEC SAF-1).

What a request costs is bounded by its size. These numbers are generous: no model and no person writes arguments that
come near them. How long a whole request may be is up to its transport. What others wrote is quoted up to a limit, too,
and so that UTF-8 can carry it: one text that can't be encoded would silence a whole connection (SPEC SAF-2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MAX_DEPTH = 100
"""How deep arrays and objects may be nested, in arguments, in results that are checked, and in schemas;
and how long a chain of schemas may apply to one value, `$ref` to `$ref` and so on."""

MAX_VALUES = 200_000
"""How many values the arguments of a call may have: strings, numbers, arrays, objects and so on, all counted."""

MAX_VISITS = 30_000_000
"""How many times validation may look at a value, over all values of the arguments. It does so some 50 million times
per second, while nothing else runs: validators hold the interpreter's lock, so that no thread would help."""

MAX_MODEL_VISITS = 1_000_000
"""The same for a recursive pydantic model, where each look takes longer."""

MAX_SCHEMA_VALUES = 20_000
"""How many values a part of a definition may have."""

MAX_DEFINITION = 1_000_000
"""How many bytes a part of a definition may have as JSON."""

MAX_NAME = 128
"""How many characters the full name of a tool or group may have (SPEC NAM-1)."""

MAX_URI = 8_192
"""How many characters the URI of a resource may have."""

MAX_VARIABLES = 10
"""How many variables a URI template may have."""

MAX_CURSOR = 65_536
"""How many characters a cursor may have: enough to name the longest URI."""

MAX_PROBLEMS = 10
"""How many places an error names; it says how many more there are."""

MAX_QUOTE = 300
"""How many characters of a foreign text an error quotes."""


def escaped(text: str) -> str:
    r"""Return a text that UTF-8 can encode: unchanged, or with lone surrogates as escapes such as `\udce9`."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace").decode()
    return text


def quoted(text: str, most: int = MAX_QUOTE) -> str:
    """Return a foreign text as an error quotes it: escaped, and cut if it is long."""
    shown = text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"
    return escaped(shown)


def enumerated(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are."""
    shown = ", ".join(repr(quoted(name)) for name in names[:MAX_PROBLEMS])
    return shown + (f" and {len(names) - MAX_PROBLEMS:,} more" if len(names) > MAX_PROBLEMS else "")


def listed(problems: Mapping[str, str], more: int) -> str:
    """Return the problems, place by place, and how many more there are."""
    places = [f"{place}: {problem}" for place, problem in problems.items()]
    return "; ".join([*places, f"and {more:,} more"] if more else places)
