"""What is quoted of a program that has failed."""

from __future__ import annotations

from tempfile import TemporaryFile

import pytest

from toolfold_specs.drivers.replies import last_words

PYTHON = """Traceback (most recent call last):
  File "server.py", line 3, in <module>
    raise RuntimeError("no licence")
RuntimeError: no licence
"""
JAVA = """one
two
starting
Exception in thread "main" java.lang.IllegalStateException: no licence
\tat Server.main(Server.java:3)
\t... 2 more

"""


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        ("", ""),
        ("no licence\n", "no licence"),
        (PYTHON, "RuntimeError: no licence"),
        (JAVA, 'two / starting / Exception in thread "main" java.lang.IllegalStateException: no licence'),
        ("  indented\n", "indented"),
        ("x" * 1000, "x" * 200),
    ],
    ids=["nothing", "a line", "a traceback", "a Java stack trace", "indented alone", "long"],
)
def test_the_last_lines_are_quoted_that_are_no_frames_of_a_stack_trace(stderr: str, said: str) -> None:
    with TemporaryFile() as file:
        file.write(stderr.encode())
        file.flush()
        assert last_words(file) == (f" Its stderr ends with: {said}" if said else "")
