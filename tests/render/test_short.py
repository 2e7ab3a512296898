"""The short form: digits by the interval, groups of messages, and a layout that fits on a screen."""

import pytest
from hypothesis import given, strategies as st

from auepora_eval.render.blocks import TableColumn, simple_table
from auepora_eval.render.short import ShortForm, decimals, group_messages, rounded, rounded_interval
from helpers.screens import MOST_LINES, WIDTH, count_lines

DIGITS = [  # interval, decimals, why
    ((0.087, 0.3015), 2, "0.11"),
    ((0.7709, 0.8903), 3, "0.060"),
    ((0.5, 0.6996), 2, "0.0998 is 0.10"),
    ((0.50, 0.51), 4, "0.0050"),
    ((0.5, 0.50001), 4, "not more than four"),
    ((10.0, 90.0), 2, "not fewer than two"),
    ((0.5, 0.5), 4, "no width"),
    (None, 4, "no interval"),
    ((float("nan"), 1.0), 4, "no end"),
]


THRESHOLDS = [  # number, decimals with an interval that allows two, why
    (0.796, 3, "not equal to 0.8"),
    (0.80, 2, "equal to it"),
    (0.79996, 4, "not more than four"),
    (0.75, 2, "far from it"),
]


@pytest.mark.parametrize(("number", "want", "why"), THRESHOLDS, ids=[row[2] for row in THRESHOLDS])
def test_digits_show_the_side_of_a_threshold(number: float, want: int, why: str) -> None:
    assert decimals((0.5, 0.9), [number], 0.8) == want


@pytest.mark.parametrize(("ends", "want", "why"), DIGITS, ids=[row[2] for row in DIGITS])
def test_two_significant_digits_of_the_half_width(ends: tuple[float, float] | None, want: int, why: str) -> None:
    assert decimals(ends) == want


def test_value_and_interval_have_the_same_decimals() -> None:
    ends = (-0.0036, 0.3015)
    assert rounded(0.1942, ends) == "0.19"
    assert rounded(0.1942, ends, sign="+") == "+0.19"
    assert rounded(-0.1942, ends) == "−0.19"
    assert rounded_interval(ends) == "−0.00 – 0.30"
    assert rounded_interval(ends, sign="+") == "−0.00 to +0.30"
    assert rounded_interval(None) == ""


def test_what_is_not_measured_is_no_zero() -> None:
    assert rounded(None) == rounded(float("nan")) == "n/a"
    assert rounded(0.0) == "0.0000"
    assert rounded(0.0000123) == "1.23e-05"


def test_repeated_messages_are_grouped_with_their_first_places() -> None:
    found = [(f"m{n}", "no scores") for n in range(14)] + [("bleu", "no mean"), ("bleu", "no mean")]
    assert group_messages(found) == ["m0, m1, m2 and 11 more: no scores", "bleu: no mean"]


TEXTS = st.text(st.sampled_from("a bcé问题，\u200d\x1b\n|"), min_size=1, max_size=400)
NOTES = st.lists(st.tuples(st.sampled_from(["failed", "not compared", "标签"]), TEXTS), max_size=11)


@given(TEXTS, NOTES, st.integers(0, 60), st.integers(0, 60), st.integers(1, 120), st.integers(0, 4))
def test_every_form_fits_on_a_screen(
    conclusion: str, notes: list[tuple[str, str]], rows: int, more: int, length: int, commands: int
) -> None:
    columns = [TableColumn(name, number=name != "metric") for name in ("metric", "A", "B", "95 % interval")]
    tables = [
        simple_table(columns, [["m" * length, "0.50", "0.60", "0.40 to 0.70"] for _ in range(count)])
        for count in (rows, more)
    ]
    form = ShortForm(conclusion, tables, notes, [("next", "auepora show")] * commands)
    shown = form.text()
    assert count_lines(shown) <= MOST_LINES, shown
    assert all(command in shown for _, command in form.commands)


def test_rows_that_have_no_room_are_counted() -> None:
    table = simple_table(["metric", "value"], [[f"m{n}", "1"] for n in range(40)])
    lines = ShortForm("All is well", [table], [("failed", "3 of 12")]).text().splitlines()
    assert lines[0] == "All is well"
    assert lines[-3:] == ["and 22 more", "", "failed  3 of 12"]
    assert len(lines) == MOST_LINES
    assert all(len(line) <= WIDTH for line in lines)
