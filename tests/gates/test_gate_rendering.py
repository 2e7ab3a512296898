"""Gate reports as JUnit XML, tables and Markdown, also with hostile text."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, strategies as st

from auepora_eval.cli.gate import append_step_summary
from auepora_eval.errors import DataFileError
from auepora_eval.gates import GateOutcome, GateReport
from auepora_eval.render.markdown import escape_markdown
from auepora_eval.report.gate_table import gates_markdown, gates_table
from auepora_eval.report.junit import junit_xml

HOSTILE = "a | b\n# title <script>alert(1)</script> & `x` **y** [l](http://evil) $x$ ]]> \0\x1b[31m \ud800 www.evil.com"
REPORT = GateReport(
    (
        GateOutcome("mrr >= 0.5", "passed", "mrr is 0.6", "mrr", 0.6),
        GateOutcome(HOSTILE, "failed", HOSTILE, HOSTILE, 0.1, warning=HOSTILE),
        GateOutcome("better(mrr)", "inconclusive", "no run", "mrr"),
        GateOutcome("coverage(mrr) >= 0.95", "passed", "all of it", "mrr", 1.0, implied=True),
    ),
    run_id="run_1",
    against=HOSTILE,
)


def test_junit_case_per_gate() -> None:
    suite = ElementTree.fromstring(junit_xml(REPORT, name=HOSTILE)).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("4", "1", "1")
    assert [[child.tag for child in case] for case in suite.findall("testcase")] == [
        ["system-out"],
        ["failure", "system-err"],
        ["error"],
        ["system-out"],
    ]
    failure = suite.findall("testcase")[1].find("failure")
    assert failure is not None
    assert "<script>alert(1)</script> & `x`" in str(failure.text)
    assert "\0" not in str(failure.text)


@given(st.text(st.characters(), max_size=40))
def test_any_text_gives_well_formed_xml_and_one_row(text: str) -> None:
    report = GateReport((GateOutcome(text, "failed", text, text),), text, text)
    xml = junit_xml(report, name=text)
    ElementTree.fromstring(xml.encode())
    assert len(gates_markdown(report).split("\n\n")[0].splitlines()) == 3
    assert len(gates_table(report).split("\n\n")[0].splitlines()) == 3
    gates_markdown(report, heading=text).encode()


def test_markdown_escapes_text() -> None:
    shown = escape_markdown(HOSTILE)
    assert r"a \| b \# title &lt;script&gt;" in shown
    assert r"\*\*y\*\* \[l\](http:\//evil) \$x\$" in shown
    assert r"www\.evil" in shown
    assert not set("\n\0\x1b") & set(shown)
    text = gates_markdown(REPORT, heading="a # b")
    assert text.startswith("### a \\# b\n\n| outcome | gate | because |\n")
    assert "| ✓ passed | mrr &gt;= 0.5 | mrr is 0.6 |" in text
    assert "coverage" not in text  # implied, and passed
    assert "3 gates: 1 passed, 1 failed, 1 inconclusive, compared with" in text


def test_step_summary_is_appended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    assert append_step_summary(REPORT, heading="x") is None
    page = tmp_path / "summary.md"
    page.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    append_step_summary(REPORT, heading="first")
    append_step_summary(REPORT, heading="second")
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n### first\n")
    assert text.count("| outcome | gate | because |") == 2
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    with pytest.raises(DataFileError, match="cannot be written"):
        append_step_summary(REPORT, heading="x")
