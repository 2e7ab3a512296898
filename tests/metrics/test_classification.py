"""NEGateMetrics: fractions by hand, one class, and scikit-learn."""

import dataclasses
import pickle
from typing import Any

import pytest
from hypothesis import given, strategies as st

from auepora_eval.errors import AlignmentError, BadTypeError, BadValueError
from auepora_eval.metrics.classification import NEGateMetrics
from helpers.requirements import need

# One positive above all, one below the 4th of 100 negatives, one below the 6th, one below the 20th.
LADDER = [1] + [0] * 4 + [1] + [0] * 2 + [1] + [0] * 14 + [1] + [0] * 80

ROWS = [  # y_true from the best score to the worst, want (auroc, auprc, 3, 5, 10 %, defined), why
    ([1, 0], (1.0, 1.0, 1.0, 1.0, 1.0, True), "in order"),
    ([0, 1], (0.0, 1 / 2, 0.0, 0.0, 0.0, True), "upside down"),
    (LADDER, (1 - (0 + 4 + 6 + 20) / 400, (1 + 2 / 6 + 3 / 9 + 4 / 24) / 4, 1 / 4, 2 / 4, 3 / 4, True), "a ladder"),
    ([1, 1, 1], (0.5, 1.0, 0.0, 0.0, 0.0, False), "positives only: the prior is 1"),
    ([0, 0, 0], (0.5, 0.0, 0.0, 0.0, 0.0, False), "negatives only: the prior is 0"),
    ([True], (0.5, 1.0, 0.0, 0.0, 0.0, False), "a single positive"),
    ([], (0.5, 0.0, 0.0, 0.0, 0.0, False), "nothing"),
]


@pytest.mark.parametrize(("labels", "want"), [row[:2] for row in ROWS], ids=[row[2] for row in ROWS])
def test_by_hand(labels: list[int], want: tuple[float, ...]) -> None:
    scores = [1 - place / 1000 for place in range(len(labels))]
    assert dataclasses.astuple(NEGateMetrics.compute(scores, labels)) == pytest.approx(want, abs=1e-15)


def test_one_score_for_all_is_guessing() -> None:
    got = NEGateMetrics.compute([0.3] * 8, [1, 0, 0, 0] * 2)
    assert got == NEGateMetrics(0.5, 1 / 4, 0.0, 0.0, 0.0, defined=True)


PAIRS = st.lists(
    st.tuples(st.floats(0, 1) | st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.integers(0, 1)), min_size=2, max_size=60
).filter(lambda pairs: len({label for _, label in pairs}) == 2)


@given(PAIRS)
def test_agrees_with_scikit_learn(pairs: list[tuple[float, int]]) -> None:
    oracle = need("sklearn.metrics")
    prob, true = [p for p, _ in pairs], [t for _, t in pairs]
    got = NEGateMetrics.compute(prob, true)
    assert got.defined
    assert got.auroc == pytest.approx(oracle.roc_auc_score(true, prob), abs=1e-12)
    assert got.auprc == pytest.approx(oracle.average_precision_score(true, prob), abs=1e-12)
    fpr, tpr, _ = oracle.roc_curve(true, prob, drop_intermediate=False)
    for rate, alpha in ((got.tpr_at_fpr_3pct, 0.03), (got.tpr_at_fpr_5pct, 0.05), (got.tpr_at_fpr_10pct, 0.1)):
        assert rate == pytest.approx(tpr[fpr <= alpha].max(), abs=1e-12)


BAD_ROWS = [  # y_prob, y_true, error, message, why
    ([0.1, 0.2], [1], AlignmentError, "2 scores but 1 labels", "lengths differ"),
    ([0.1, float("nan")], [0, 1], BadValueError, "index 1 is NaN", "a NaN"),
    (["high", "low"], [0, 1], BadTypeError, "index 0 is 'high', not a number", "words for scores"),
    ([0.1, 0.2], [0, 2], BadValueError, "index 1 is 2; labels are 0", "a third class"),
    ([0, 1], [0.1, 0.9], BadValueError, "index 0 is 0.1; labels are 0", "arguments in scikit-learn's order"),
]


@pytest.mark.parametrize(("prob", "true", "error", "message"), [r[:4] for r in BAD_ROWS], ids=[r[4] for r in BAD_ROWS])
def test_invalid_arguments(prob: Any, true: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        NEGateMetrics.compute(prob, true)


def test_it_is_frozen_and_can_be_pickled() -> None:
    got = NEGateMetrics.compute([0.9, 0.1], [1, 0])
    assert pickle.loads(pickle.dumps(got)) == got
    assert hash(got) == hash(NEGateMetrics.compute([0.8, 0.2], [1, 0]))
    with pytest.raises(dataclasses.FrozenInstanceError):
        got.auroc = 0.0  # type: ignore[misc]
    assert not hasattr(got, "__dict__")
