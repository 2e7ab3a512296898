"""Texts of people and models in every medium: no terminal, page, spreadsheet or CI log runs them."""

import csv
import io
from xml.etree import ElementTree

import pytest

from auepora_eval.core.results import Results
from auepora_eval.core.types import MetricResult, TargetCategory
from auepora_eval.gates import GateOutcome, GateReport
from auepora_eval.render.blocks import (
    Block,
    Bullets,
    Cell,
    Code,
    DefinitionList,
    Details,
    Prose,
    Report,
    ReportSection,
    ReportVerdict,
    simple_table,
)
from auepora_eval.render.html import blocks_html
from auepora_eval.render.markdown import blocks_markdown, report_markdown
from auepora_eval.render.tables import csv_text, results_csv, scores_csv, table
from auepora_eval.render.terminal import blocks_text, printable, report_text, text_width
from auepora_eval.report.gate_table import gates_blocks
from auepora_eval.report.junit import junit_xml

HOSTILE = [
    ("::error file=x::y", "a command of GitHub"),
    ("  ::set-output name=a::b", "a command after spaces"),
    ("a\n::add-mask::b", "a command on the second line"),
    ("##[error]x", "a command of Azure"),
    ("x ##vso[task.setvariable variable=a]b", "a command of Azure inside a line"),
    ("\x1b[2J\x1b]0;t\x07", "control characters"),
    ("a\u202eb\u2066c", "marks of direction"),
    ("<script>alert(1)</script>", "HTML"),
    ("a|b [l](http://evil) `c` *d*\n# e", "Markdown"),
    ("a\ud800b", "half a character"),
]


def blocks(text: str) -> list[Block]:
    """Every kind of block with this text at every place."""
    return [
        Prose(text),
        Bullets([text]),
        DefinitionList([(text, text), (text, Cell(text, sign="?", note=text))]),
        Code(text),
        simple_table([text, text], [[text, Cell(text, note=text)]], caption=text),
        Details(text, [Prose(text)], is_open=True),
        Details(text, [Prose(text)]),
        *gates_blocks(GateReport((GateOutcome(text, "failed", text, text, warning=text),), text, text)),
    ]


def page(text: str) -> Report:
    """A page with this text at every place."""
    verdict = ReportVerdict(text, points=[text])
    return Report(text, text, verdict, [ReportSection(text, text, blocks(text), text)], text)


@pytest.mark.parametrize(("text", "why"), HOSTILE, ids=[row[1] for row in HOSTILE])
def test_terminal_and_ci_log(text: str, why: str) -> None:
    for shown in (report_text(page(text)), printable(text)):
        assert not [line for line in shown.splitlines() if line.lstrip().startswith("::")]
        assert "##[" not in shown
        assert "##vso[" not in shown
        assert not {"\x1b", "\x07", "\u202e", "\u2066"} & set(shown)
        shown.encode()


@pytest.mark.parametrize(("text", "why"), HOSTILE, ids=[row[1] for row in HOSTILE])
def test_pages(text: str, why: str) -> None:
    for shown in (report_markdown(page(text)), blocks_markdown([Prose(text), simple_table([text], [[text]])])):
        inside = "".join(shown.split("```")[::2])  # code is shown as it is
        assert "<script" not in inside
        assert "](http" not in inside.replace("\\](", "")
    html = blocks_html(blocks(text))
    assert "<script" not in html
    assert not {"\x1b", "\u202e", "\u2066"} & set(html)


@pytest.mark.parametrize(("text", "why"), HOSTILE, ids=[row[1] for row in HOSTILE])
def test_junit(text: str, why: str) -> None:
    report = GateReport((GateOutcome(text, "failed", text, text, warning=text),), text, text)
    root = ElementTree.fromstring(junit_xml(report, name=text).encode())
    assert len(root.findall("testsuite/testcase/failure")) == 1
    assert not root.findall(".//script")


CELLS = [
    ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0", "a formula"),
    ("+1+cmd", "'+1+cmd", "plus"),
    ("-x", "'-x", "minus"),
    ("@SUM(A1)", "'@SUM(A1)", "at"),
    ("\t=1", "'\t=1", "a tab"),
    ("\r=1", "'\r=1", "a carriage return"),
    ("-1.5e-3", "-1.5e-3", "a number as text"),
    (-0.25, "-0.25", "a number"),
    ("a=b", "a=b", "an ordinary text"),
    (None, "", "nothing"),
]


@pytest.mark.parametrize(("cell", "want", "why"), CELLS, ids=[row[2] for row in CELLS])
def test_csv_cells(cell: object, want: str, why: str) -> None:
    for raw, expected in ((False, want), (True, "" if cell is None else str(cell))):
        text = csv_text([[cell, "b"]], raw=raw)
        assert list(csv.reader(io.StringIO(text, newline=""))) == [[expected, "b"]]


def test_csv_of_results() -> None:
    result = MetricResult("=m", TargetCategory.LATENCY, -0.5, scores=[-1.0])
    results = Results([result], sample_ids=["=q"])
    assert results_csv(results).splitlines()[1].startswith("'=m,LATENCY,,,-0.5,")
    assert scores_csv(results).splitlines() == ["sample_id,'=m", "'=q,-1.0"]
    assert scores_csv(results, raw=True).splitlines() == ["sample_id,=m", "=q,-1.0"]


WIDTHS = [
    ("abc", 3, "ASCII"),
    ("日本語", 6, "wide characters"),
    ("ｆ", 2, "full width"),
    ("e\u0301", 1, "a combining mark"),
    ("q\u0301\u0323", 1, "marks without a composed form"),
    ("한글", 4, "Hangul"),
    ("한", 2, "Hangul in parts"),
    ("👍", 2, "an emoji"),
    ("👩\u200d👩\u200d👧", 2, "emoji joined to one"),
    ("a\u200bb", 2, "a space of no width"),
]


@pytest.mark.parametrize(("text", "want", "why"), WIDTHS, ids=[row[2] for row in WIDTHS])
def test_width(text: str, want: int, why: str) -> None:
    assert text_width(text) == want
    lines = table([[text, "x"], ["ab", "y"]], headers=["", ""]).splitlines()
    assert text_width(lines[2].removesuffix("x")) == text_width(lines[3].removesuffix("y"))


def test_long_wide_cell_is_truncated() -> None:
    row = table([["語" * 100, "x"]], headers=["a", "b"]).splitlines()[2]
    assert row == f"{'語' * 39}…  x"


def test_blocks_in_a_terminal() -> None:
    shown = blocks_text(
        [
            DefinitionList([("run", "r"), ("dataset", "d")]),
            simple_table(["metric", "value"], [[Cell("mrr", note="why"), Cell("0.5", sign="▲")]]),
            Details("Open", [Prose("inside")], is_open=True),
            Details("Closed", [Prose("hidden")]),
            Details("Empty", [], is_open=True),
        ]
    )
    assert shown.split("\n\n") == [
        "run      r\ndataset  d",
        "metric  value\n------  -----\nmrr     ▲ 0.5",
        "mrr: why",
        "Open\n----\ninside",
        "Closed",
        "Empty",
    ]
