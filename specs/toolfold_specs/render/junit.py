"""A report for dashboards that read JUnit XML: a suite for each setting, a case for each clause.

Only what fails the run is a failure; a violated SHOULD and an expected violation are skipped with the reason.
"""

from __future__ import annotations

from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from ..report import ClauseVerdict, Report, Verdict
from .trace import histories, plain


def junit(report: Report) -> str:
    """Return the XML text."""
    root = Element("testsuites", name="toolfold conformance")
    for setting in report.settings:
        _suite(root, report, setting)
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _suite(root: Element, report: Report, setting: str) -> None:
    suite = SubElement(root, "testsuite", name=plain(setting))
    _properties(suite, {**report.header, **{f"left out: {name}": why for name, why in report.left_out.items()}})
    rows = report.rows_in(setting)
    for row in rows:
        _case(suite, row, setting)
    seconds = sum(result.seconds for result in report.results if result.setting == setting)
    suite.set("tests", str(len(rows)))
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("time", f"{seconds:.3f}")


def _case(suite: Element, row: ClauseVerdict, setting: str) -> None:
    classname = "toolfold." + plain(setting).replace(".", "_")
    case = SubElement(suite, "testcase", classname=classname, name=row.clause.id)
    checks = {"checks": ", ".join(row.checks)} if row.checks else {}
    _properties(case, {"clause": row.clause.id, "level": row.level, "verdict": row.verdict.value, **checks})
    if row.fails:
        message = row.violations[0].message if row.violations else f"{row.verdict.value}: {row.reason}"
        failure = SubElement(case, "failure", type=row.verdict.value, message=plain(message))
        failure.text = "\n".join((row.clause.text, *histories(row)))
    elif row.verdict is Verdict.UNDECIDED:
        SubElement(case, "error", type=row.verdict.value, message=plain(row.reason))
    elif row.verdict in (Verdict.NOT_APPLICABLE, Verdict.EXPECTED, Verdict.VIOLATED):
        reason = row.reason or f"{row.level}: {row.violations[0].message}"
        SubElement(case, "skipped", message=plain(f"{row.verdict.value}: {reason}"))


def _properties(element: Element, values: dict[str, str]) -> None:
    properties = SubElement(element, "properties")
    for name, value in values.items():
        SubElement(properties, "property", name=plain(name), value=plain(value))
