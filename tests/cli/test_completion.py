"""`toolfold completion` writes the script of a shell to where the shell looks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import invoke


@pytest.mark.parametrize(
    ("shell", "place"),
    [
        ("fish", ".config/fish/completions/toolfold.fish"),
        ("zsh", ".zfunc/_toolfold"),
    ],
)
def test_the_script_is_installed_for_the_shell_that_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str, place: str
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    result = invoke("completion")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Wrote {tmp_path / place}. ")
    assert f"_TOOLFOLD_COMPLETE={shell}_complete" in (tmp_path / place).read_text(encoding="utf-8")


def test_the_script_is_printed_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert "_TOOLFOLD_COMPLETE=fish_complete" in invoke("completion", "fish", "--show").stdout
    assert list(tmp_path.iterdir()) == []


def test_another_shell_is_refused_with_what_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    result = invoke("completion")
    assert result.exit_code == 2
    assert "$SHELL names none of bash, fish, zsh: give one of them as SHELL." in result.stderr
