"""The picture at the start of the README, drawn from what ``auepora demo`` prints:  python -m tools.demo_picture.

Two means, as other tools print them, beside our comparison of the same two runs with three call-outs.
"""

import contextlib
import io
import os
import re
import tempfile
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tools.source_tree import REPO

PICTURE = REPO / "docs" / "images" / "comparison.svg"

_ROW = re.compile(r"^(\S+) +(\d\S*) +(\d\S*) +([+−]\S+) +([+−]\S+) to ([+−]\S+) +(\S+ \S+)$", re.MULTILINE)
_FAILED = re.compile(r"^failed +A: (\d+) of (\d+) samples failed; B: (\d+) of (\d+) samples failed$", re.MULTILINE)
_FELL = re.compile(r"^fell +(\S+) (\S+) → ([^\s,]+)", re.MULTILINE)

_WIDTH, _HEIGHT = 720, 392
_MEANS, _COMPARISON = 186, 322
"""Where the two panels begin; the names of the metrics are before them."""
_AXIS, _AXIS_WIDTH = 410, 130
"""Where a difference of 0 is, and how long a difference of 1."""
_FIRST_ROW, _ROW_HEIGHT = 118, 30
_STYLE = """
text { font-family: system-ui, sans-serif; font-size: 14px; fill: #1b1f24; }
.card { fill: #ffffff; stroke: #c8cfd6; } .panel { fill: #f3f5f7; }
.title { font-weight: 700; font-size: 15px; } .muted { fill: #59636e; } .end { text-anchor: end; }
.middle { text-anchor: middle; } .better { fill: #14692b; font-weight: 700; }
.axis { stroke: #8b949e; stroke-dasharray: 3 3; }
.interval { stroke: #14692b; stroke-width: 3; } .point { fill: #14692b; }
.mark { fill: #3f51b5; } .number { fill: #ffffff; font-weight: 700; font-size: 12px; text-anchor: middle; }
@media (prefers-color-scheme: dark) {
text { fill: #e6e9ed; } .card { fill: #14171b; stroke: #3a424b; } .panel { fill: #20252b; } .muted { fill: #a3adb8; }
.better { fill: #5fd07f; } .interval { stroke: #5fd07f; } .point { fill: #5fd07f; }
.mark { fill: #9aa8ff; } .number { fill: #14171b; }
}
"""


@dataclass(frozen=True, slots=True)
class Difference:
    """A row of the printed comparison; numbers as they were printed."""

    metric: str
    mean_a: str
    mean_b: str
    difference: str
    low: str
    high: str
    verdict: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the demo printed of its two runs."""

    differences: list[Difference]
    failed: tuple[str, ...]
    """Failed answers and all answers of A, then of B."""
    fell: tuple[str, ...]
    """A metric that got worse, with both values."""


def run_demo() -> str:
    """What ``auepora demo`` prints, run in a folder of its own."""
    from auepora_eval.cli.main import main

    printed = io.StringIO()
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
                main(["demo"])
        finally:
            os.chdir(before)
    return printed.getvalue()


def read_comparison(printed: str) -> Comparison:
    """The figures in the output of the demo."""
    failed, fell = _FAILED.search(printed), _FELL.search(printed)
    if failed is None or fell is None:
        raise ValueError(f"the demo printed no failed answers, or nothing that fell:\n{printed}")
    rows = [Difference(*row.groups()) for row in _ROW.finditer(printed)]
    return Comparison(rows, failed.groups(), fell.groups())


def draw(comparison: Comparison) -> str:
    """The picture as SVG."""
    description = describe(comparison)
    label = escape(description)
    bottom = _FIRST_ROW + _ROW_HEIGHT * len(comparison.differences)
    failed_a, answers_a, failed_b, answers_b = comparison.failed
    metric, before, after = comparison.fell
    mark = _WIDTH - 38
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}">',
        f"<title>{label}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="card" x="1" y="1" width="{_WIDTH - 2}" height="{_HEIGHT - 2}" rx="10"/>',
        _panel(_MEANS, 126, bottom + 52),
        _panel(_COMPARISON, _WIDTH - _COMPARISON - 14, bottom + 52),
        _text(_MEANS + 12, 40, "Other tools:", "title"),
        _text(_MEANS + 12, 60, "two means", "title"),
        _text(_COMPARISON + 14, 40, "auepora:", "title"),
        _text(_COMPARISON + 14, 60, "is the change better?", "title"),
        _text(_MEANS + 54, 90, "A", "muted end"),
        _text(_MEANS + 112, 90, "B", "muted end"),
        _text(_COMPARISON + 66, 90, "B − A", "muted end"),
        _text(_AXIS, 90, "0", "muted middle"),
        _text(_AXIS + _AXIS_WIDTH, 90, "+1", "muted middle"),
        _text(_AXIS + _AXIS_WIDTH + 18, 90, "verdict", "muted"),
        f'<path class="axis" d="M{_AXIS} 98V{bottom - 14}"/>',
    ]
    for number, row in enumerate(comparison.differences):
        parts += _draw_row(row, _FIRST_ROW + _ROW_HEIGHT * number)
    parts += [
        _text(_COMPARISON + 14, bottom + 20, f"failed: {failed_a} of {answers_a} in A, {failed_b} of {answers_b} in B"),
        _text(_COMPARISON + 14, bottom + 48, f"fell: {metric} {before} → {after}"),
        _mark(1, mark, _FIRST_ROW - 5),
        _mark(2, mark, bottom + 15),
        _mark(3, mark, bottom + 43),
    ]
    for number, text in enumerate(_call_outs(comparison), 1):
        height = bottom + 70 + 30 * number
        parts += [_mark(number, 30, height - 5), _text(50, height, text)]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _draw_row(row: Difference, height: int) -> list[str]:
    low, middle, high = (_AXIS + _AXIS_WIDTH * _number(text) for text in (row.low, row.difference, row.high))
    return [
        _text(18, height, row.metric),
        _text(_MEANS + 54, height, row.mean_a, "end"),
        _text(_MEANS + 112, height, row.mean_b, "end"),
        _text(_COMPARISON + 66, height, row.difference, "end"),
        f'<path class="interval" d="M{low:.1f} {height - 5}H{high:.1f}"/>',
        f'<circle class="point" cx="{middle:.1f}" cy="{height - 5}" r="5"/>',
        _text(_AXIS + _AXIS_WIDTH + 18, height, row.verdict, "better"),
    ]


def _call_outs(comparison: Comparison) -> list[str]:
    count = len(comparison.differences)
    return [
        f"A verdict: better, worse, equal or too few questions; 95 % intervals, adjusted for {count} metrics",
        "A failed answer counts: it has the worst score, and it is reported",
        "What got worse is said, also where the metrics that decide rose",
    ]


def describe(comparison: Comparison) -> str:
    """The picture in words, for those who do not see it."""
    means = ", ".join(f"{row.metric} {row.mean_a} and {row.mean_b}" for row in comparison.differences)
    intervals = ", ".join(f"{row.metric} {row.difference} ({row.low} to {row.high})" for row in comparison.differences)
    failed_a, answers_a, failed_b, answers_b = comparison.failed
    metric, before, after = comparison.fell
    return (
        f"Other tools print two means: {means}. auepora prints differences with 95 % intervals: {intervals}; "
        f"failed answers: {failed_a} of {answers_a} in A, {failed_b} of {answers_b} in B; "
        f"what fell: {metric} {before} → {after}."
    )


def _number(text: str) -> float:
    return float(text.replace("−", "-"))


def _text(x: float, y: float, text: str, style: str = "") -> str:
    attribute = f' class="{style}"' if style else ""
    return f'<text{attribute} x="{x:g}" y="{y:g}">{escape(text)}</text>'


def _panel(x: float, width: float, height: float) -> str:
    return f'<rect class="panel" x="{x:g}" y="14" width="{width:g}" height="{height:g}" rx="8"/>'


def _mark(number: int, x: float, y: float) -> str:
    return f'<circle class="mark" cx="{x:g}" cy="{y:g}" r="10"/>' + _text(x, y + 4, str(number), "number")


if __name__ == "__main__":
    PICTURE.write_text(draw(read_comparison(run_demo())), encoding="utf-8")
