"""Metric cards: every metric is explained, and the reference pages in docs/ match the registry."""

import pytest

from auepora_eval.render.terminal import plain_math
from auepora_eval.report.cards import MetricCard, metric_cards
from helpers.checks import for_each
from helpers.requirements import REPO
from tools.metric_pages import reference_pages, write_reference

CARDS = metric_cards()


@for_each(CARDS, name=lambda card: card.name)
def test_every_metric_is_explained(card: MetricCard) -> None:
    assert card.summary.endswith(".")
    assert card.formula
    assert card.follows_base or None not in (card.range, card.higher_is_better)
    # The target of judge_metric is an option, and depends on its inputs by default; pass@k has that of its base.
    assert card.follows_base or card.target is not None or card.name in ("judge_metric", "pass", "pass_all")
    assert "\\" not in plain_math(card.formula), "a formula must read well in a terminal"
    text = card.to_text()
    assert card.pattern in text
    assert card.range_text in text
    for reason in card.skips:
        assert reason in text


def test_reference_pages_are_up_to_date() -> None:
    folder = REPO / "docs" / "metrics"
    written = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    assert written == reference_pages(), "run `make docs`"


def test_stale_pages_are_removed(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path)) / "metrics"
    folder.mkdir()
    (folder / "gone.md").write_text("old")
    write_reference(folder)
    assert {path.name for path in folder.iterdir()} == set(reference_pages())


MATH = [
    (r"|G \cap R_k| / |G|", "|G ∩ R_k| / |G|"),
    (r"\frac{a + b}{c}", "(a + b) / c"),
    (r"\frac{1}{\frac{a}{b}}", "1 / (a / b)"),
    (r"\sum_{r \le k} g(r)", "Σ_(r ≤ k) g(r)"),
    (r"P_\text{miss}", "P_miss"),
]


@pytest.mark.parametrize(("latex", "want"), MATH, ids=[row[1] for row in MATH])
def test_plain_math(latex: str, want: str) -> None:
    assert plain_math(latex) == want


def test_plain_math_rejects_unbalanced_braces() -> None:
    with pytest.raises(ValueError, match="unbalanced braces"):
        plain_math(r"\frac{a}{b")
