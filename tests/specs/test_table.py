from collections.abc import Callable
from pathlib import Path

import pytest

from toolfold_specs.clauses import Clause, load_clauses
from verification.table import DATA, TABLE, check, main, scan, write

CLAUSES = (
    Clause(id="ACT-1", section="4 Transitions", level="MUST", text="One | two.", sources=["A", "T"]),
    Clause(id="ACT-2", section="4 Transitions", level="MUST", text="Two.", sources=["A"]),
    Clause(id="GWY-1", section="20 Gateway", level="SHOULD", text="Three.", sources=["T"], open=True),
)
TEST_FILE = """
import pytest

@pytest.mark.spec("ACT-1")
def test_one(): ...

@pytest.mark.spec("ACT-2", "ACT-1")
async def test_two(): ...
"""
EVERY_CLAUSE = "import pytest\npytestmark = pytest.mark.spec({})\ndef test_all(): ...\n".format(
    ", ".join(f'"{clause.id}"' for clause in load_clauses())
)

Project = Callable[[str], Path]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A function that makes, or changes, a project of one test file with a fresh table and returns its folder."""

    def make(source: str) -> Path:
        (tmp_path / "tests").mkdir(exist_ok=True)
        (tmp_path / "tests" / "test_it.py").write_text(source)
        write(tmp_path, CLAUSES)
        return tmp_path

    return make


def change(root: Path, old: str, new: str) -> None:
    path = root / "tests" / "test_it.py"
    path.write_text(path.read_text().replace(old, new))


def test_marks_of_functions_classes_methods_and_modules_are_found(project: Project) -> None:
    root = project(
        """
import pytest
from pytest import mark
pytestmark = [pytest.mark.filterwarnings("error"), pytest.mark.spec("ACT-1")]

@mark.spec("ACT-2")
class TestGroup:
    pytestmark = pytest.mark.spec("ACT-3")

    @pytest.mark.spec("ACT-4")
    async def test_it(self): ...

@pytest.mark.parametrize("n", [1])
@pytest.mark.spec("ACT-2", "ACT-4")
def test_function(n): ...

def test_without_a_mark(): ...
"""
    )
    scanned = scan(root)
    assert scanned.problems == []
    assert scanned.tests == {
        "ACT-1": ["tests/test_it.py"],
        "ACT-2": ["tests/test_it.py::TestGroup", "tests/test_it.py::test_function"],
        "ACT-3": ["tests/test_it.py::TestGroup"],
        "ACT-4": ["tests/test_it.py::TestGroup::test_it", "tests/test_it.py::test_function"],
    }


def test_an_unknown_clause_is_reported_with_its_test(project: Project) -> None:
    problems = check(project(TEST_FILE.replace('"ACT-2"', '"ACT-2", "ACT-99"')), CLAUSES)
    assert len(problems) == 1
    assert problems[0].startswith("tests/test_it.py::test_two names the unknown clause ACT-99")


def test_a_clause_without_a_test_is_reported(project: Project) -> None:
    problems = check(project(TEST_FILE.replace('"ACT-2", ', "")), CLAUSES)
    assert problems == ['ACT-2 has no test: mark one with @pytest.mark.spec("ACT-2") (Two.)']


def test_a_lost_test_is_reported_even_if_the_clause_has_another(project: Project) -> None:
    root = project(TEST_FILE)
    change(root, '"ACT-2", "ACT-1"', '"ACT-2"')
    lost, *stale = check(root, CLAUSES)
    assert lost.startswith("ACT-1 lost its test tests/test_it.py::test_two")
    assert [line.partition(" is stale")[0] for line in stale] == [str(DATA)]


def test_a_stale_table_is_reported(project: Project) -> None:
    root = project(TEST_FILE)
    change(root, '"ACT-1")\ndef', '"ACT-1", "ACT-2")\ndef')
    assert check(root, CLAUSES) == [f"{path} is stale: run `python -m verification.table`" for path in (TABLE, DATA)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("def test_one", "def helper", "tests/test_it.py::helper: has a spec mark, but pytest does not collect it"),
        ('spec("ACT-1")', "spec(*NAMES)", "tests/test_it.py::test_one: the arguments of a spec mark must be literal"),
        ('spec("ACT-1")', "spec()", "tests/test_it.py::test_one: the arguments of a spec mark must be literal"),
        ("def test_one", "@pytest.mark.xfail(reason='x')\ndef test_one", "tests/test_it.py::test_one: is marked xfail"),
        ("def test_one", "@pytest.mark.skip\ndef test_one", "tests/test_it.py::test_one: is marked skip"),
    ],
    ids=["not a test", "not literal", "empty", "xfail", "skip"],
)
def test_an_invalid_mark_is_reported_and_not_counted(project: Project, old: str, new: str, message: str) -> None:
    root = project(TEST_FILE.replace(old, new))
    (problem,) = check(root, CLAUSES)
    assert problem.startswith(message)
    assert scan(root).tests["ACT-1"] == ["tests/test_it.py::test_two"]


def test_the_command_writes_what_its_check_accepts_until_a_test_is_lost(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    root = project(EVERY_CLAUSE)
    assert main(["--root", str(root)]) == 0
    assert main(["--root", str(root), "--check"]) == 0
    assert "is fresh" in capsys.readouterr().out
    change(root, '"ACT-4", ', "")
    assert main(["--root", str(root), "--check"]) == 1
    printed = capsys.readouterr().out
    assert "ACT-4 has no test" in printed
    assert "ACT-4 lost its test tests/test_it.py" in printed
