"""The mutation run when mutmut fails."""

import os
import sys

import pytest

from tests.mutation import run


def test_the_exit_status_is_2_if_mutmut_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "MUTMUT", (sys.executable, "-c", "raise SystemExit(3)"))
    monkeypatch.setattr(os, "nice", lambda increment: 0)
    assert run.main() == 2
    assert capsys.readouterr().err == "could not run: mutmut run ended with status 3\n"
