"""Gates as JUnit XML: a test case per gate, for CI services."""

from __future__ import annotations

from xml.etree import ElementTree

from ..gates import GateReport
from ..render.charts.layout import strip_invalid_xml


def junit_xml(report: GateReport, *, name: str) -> str:
    """The report as JUnit XML. A failed gate is a failure; an inconclusive one is an error, not a skip.

    Nearly every CI service shows a skipped test as green, and an inconclusive gate is not a pass.
    """
    outcomes = report.outcomes
    counts = {
        "tests": str(len(outcomes)),
        "failures": str(sum(outcome.status == "failed" for outcome in outcomes)),
        "errors": str(sum(outcome.status == "inconclusive" for outcome in outcomes)),
        "skipped": "0",
    }
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": strip_invalid_xml(name), **counts})
    chosen = None if report.sample_set is None else report.sample_set.name
    about = {"run_id": report.run_id, "against": report.against, "sample_set": chosen}
    if any(about.values()):
        properties = ElementTree.SubElement(suite, "properties")
        for key, value in about.items():
            if value is not None:
                ElementTree.SubElement(properties, "property", {"name": key, "value": strip_invalid_xml(value)})
    for outcome in outcomes:
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": "auepora.gates", "name": strip_invalid_xml(outcome.gate)}
        )
        reason = strip_invalid_xml(outcome.reason)
        if outcome.status == "passed":
            ElementTree.SubElement(case, "system-out").text = reason
        else:
            tag = "failure" if outcome.status == "failed" else "error"
            ElementTree.SubElement(case, tag, {"message": reason, "type": outcome.status}).text = reason
        if outcome.warning is not None:
            ElementTree.SubElement(case, "system-err").text = strip_invalid_xml(outcome.warning)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode")
