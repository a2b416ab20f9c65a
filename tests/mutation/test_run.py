"""How the mutation run judges its survivors, and that the explanations are about existing code."""

import ast
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutation import run
from tests.mutation.run import (
    EXPLAINED,
    MODULES,
    ROOT,
    CouldNotRun,
    Mutant,
    compared,
    explained,
    mutant,
    source_of,
    undecorated,
)

SHOWN = """# toolfold._view.visibility.xǁViewǁof__mutmut_2: survived
--- toolfold/_view/visibility.py
+++ toolfold/_view/visibility.py
@@ -1,3 +1,3 @@
 def of(self, snapshot: Snapshot) -> View:
-    return View(snapshot)
+    return View(None)
"""
OF = Mutant("_view.visibility", "View.of", "return View(snapshot)", "return View(None)")
ENTRY = """
[[mutant]]
module = "_view.visibility"
function = "View.of"
before = "return View(snapshot)"
after = "return View(None)"
reason = "It is so."
"""


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("_view.visibility.xǁViewǁof__mutmut_2", "View.of"),
        ("_view.visibility.xǁViewǁ__init____mutmut_12", "View.__init__"),
        ("_view.visibility.x__truth__mutmut_1", "_truth"),
        ("_view.visibility.x_holds__mutmut_1", "holds"),
    ],
)
def test_a_mutant_is_identified_by_its_function_and_its_lines(name: str, function: str) -> None:
    found = mutant(f"toolfold.{name}", SHOWN)
    assert found == Mutant("_view.visibility", function, OF.before, OF.after)
    assert str(found) == f"_view.visibility.{function} toolfold.{name}\n- return View(snapshot)\n+ return View(None)"


def test_a_mutant_that_drops_lines_has_no_lines_after() -> None:
    dropped = mutant("toolfold.machine.planner.x_plan__mutmut_1", " a\n-    b\n-        c\n d")
    assert dropped == Mutant("machine.planner", "plan", "b\nc", "")


def test_survivors_and_explanations_are_matched_one_by_one() -> None:
    other = Mutant("machine.planner", "plan", "a", "b")
    assert compared([OF], [OF]) == ([], [])
    assert compared([OF, OF, other], [OF]) == ([OF, other], [])
    assert compared([other], [OF, OF, other]) == ([], [OF, OF])


def test_an_explanation_names_a_mutant_and_the_reason() -> None:
    assert explained(ENTRY) == [OF]
    assert explained("") == []
    for broken in (ENTRY.replace("It is so.", ""), ENTRY.replace("after", "later"), ENTRY + 'more = "x"'):
        with pytest.raises(CouldNotRun, match="an explanation needs"):
            explained(broken)


@pytest.mark.parametrize(
    ("verdict", "explanation", "status", "output"),
    [
        ("killed", "", 0, "0 not killed, 0 unexplained; 0 stale explanations"),
        ("survived", ENTRY, 0, "1 not killed, 0 unexplained; 0 stale explanations"),
        (
            "survived",
            "",
            1,
            "Not killed: survived _view.visibility.View.of toolfold._view.visibility.xǁViewǁof__mutmut_2\n- return",
        ),
        ("out of time", "", 1, "Not killed: out of time _view.visibility.View.of"),
        (
            "killed",
            ENTRY,
            1,
            "Explained, but killed or gone: stale _view.visibility.View.of\n- return View(snapshot)",
        ),
        ("killed", "mutant = ", 2, ""),
    ],
)
def test_the_exit_status_is_0_if_every_survivor_is_explained(
    verdict: str,
    explanation: str,
    status: int,
    output: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = "toolfold._view.visibility.xǁViewǁof__mutmut_2"
    (tmp_path / "explained.toml").write_text(explanation)
    monkeypatch.setattr(run, "EXPLAINED", tmp_path / "explained.toml")
    monkeypatch.setattr(run, "mutmut", lambda folder, *arguments, quiet=True: SHOWN)
    monkeypatch.setattr(run, "verdicts", lambda folder: {name: verdict})
    monkeypatch.setattr(os, "nice", lambda increment: 0)
    assert run.main() == status
    assert output in capsys.readouterr().out


def test_a_mutant_without_a_verdict_is_no_result(tmp_path: Path) -> None:
    folder = tmp_path / "mutants" / "toolfold"
    folder.mkdir(parents=True)
    for module in MODULES:
        found = {f"toolfold.{module}.x_a__mutmut_{number}": status for number, status in enumerate((1, 0, 33, -24))}
        meta = folder / f"{source_of(module)}.meta"
        meta.parent.mkdir(exist_ok=True)
        meta.write_text(json.dumps({"exit_code_by_key": found}))
    assert list(run.verdicts(tmp_path).values()) == ["killed", "survived", "no tests", "out of time"] * len(MODULES)
    for status in (None, 255, 2):
        (folder / "_view" / "listing.py.meta").write_text(
            json.dumps({"exit_code_by_key": {"toolfold._view.listing.x_a": status}})
        )
        with pytest.raises(CouldNotRun, match=r"no verdict on .*x_a"):
            run.verdicts(tmp_path)


def test_properties_are_rewritten_so_that_they_are_mutated_too() -> None:
    rest = "\n    @staticmethod\n    def c() -> None: ...\n"
    source = f"class A:\n    @property\n    def b(self) -> int:\n        return 1\n{rest}"
    changed = f"class A:\n    def b(self) -> int:\n        return 1\n    b = property(b)\n{rest}"
    assert undecorated(source) == changed


@pytest.mark.parametrize("module", MODULES)
def test_every_explanation_is_about_lines_of_its_function(module: str) -> None:
    text = (ROOT / "core" / "toolfold" / source_of(module)).read_text(encoding="utf-8")
    lines = {function: [line.strip() for line in source.splitlines()] for function, source in functions(text)}
    for each in explained(EXPLAINED.read_text(encoding="utf-8")):
        if each.module == module:
            assert set(each.before.splitlines()) <= set(lines.get(each.function, ()))
        assert each.module in MODULES


def functions(text: str) -> Iterator[tuple[str, str]]:
    """The name and the source of each function and method."""
    for node in ast.parse(text).body:
        match node:
            case ast.FunctionDef():
                yield node.name, ast.get_source_segment(text, node) or ""
            case ast.ClassDef():
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef):
                        yield f"{node.name}.{inner.name}", ast.get_source_segment(text, inner) or ""
