"""What is imported, and what is not: the kit is loaded by every run of pytest where it is installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

import toolfold_specs

pytest_plugins = "pytester"


def test_the_package_offers_its_names() -> None:
    for name in toolfold_specs.__all__:
        assert getattr(toolfold_specs, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        toolfold_specs.nothing  # noqa: B018


def test_a_run_without_a_suite_imports_nothing_of_the_kit(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import sys

        def test_nothing_is_imported():
            ours = sorted(name for name in sys.modules if name.startswith("toolfold"))
            assert ours == ["toolfold_specs", "toolfold_specs.plugin"]
    """)
    arguments = [sys.executable, "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", str(pytester.path)]
    done = subprocess.run(arguments, capture_output=True, encoding="utf-8", cwd=pytester.path, timeout=60)
    assert done.returncode == 0, done.stdout
