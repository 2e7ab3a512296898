"""Selection among configurations: sets, the winner's interval, the baseline, the cheapest, elimination, main effects."""

from collections.abc import Sequence

import numpy as np
import pytest

from auepora_eval.errors import BadValueError
from auepora_eval.stats.intervals import Floats, mean_interval, t_tail
from auepora_eval.stats.selection import (
    LOOKS,
    ConfigurationScores,
    eliminate,
    look_boundaries,
    look_sizes,
    main_effects,
)


def binary_scores(proportions: Sequence[float], n: int, seed: int = 0, correlation: float = 0.5) -> Floats:
    """0/1 scores with a common part per question."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, 1)) * np.sqrt(correlation)
    own = rng.normal(size=(n, len(proportions))) * np.sqrt(1 - correlation)
    thresholds = np.quantile(rng.normal(size=100_000), proportions)
    return np.asarray(common + own < thresholds, dtype=np.float64)


def test_the_set_has_the_best_and_leaves_out_the_rest() -> None:
    scores = binary_scores([0.8] * 3 + [0.5] * 5, 400)
    kept = ConfigurationScores(scores).not_distinguishable()
    assert kept.tolist() == [True] * 3 + [False] * 5


def test_identical_configurations_are_not_distinguishable() -> None:
    column = binary_scores([0.6], 50)
    found = ConfigurationScores(np.repeat(column, 12, axis=1))
    assert found.not_distinguishable().all()
    assert {test.p_adjusted for test in found.against(3)} == {1.0}
    # That they differ on one of 50 questions is not ruled out.
    assert {round(distance.most, 2) for distance in found.behind_best()} == {0.03}


def test_order_does_not_matter() -> None:
    scores = binary_scores([0.75, 0.7, 0.6, 0.5, 0.7], 200, seed=3)
    order = [3, 0, 4, 1, 2]
    found, moved = ConfigurationScores(scores), ConfigurationScores(scores[:, order])
    assert found.not_distinguishable()[order].tolist() == moved.not_distinguishable().tolist()
    assert found.level_of_best() == pytest.approx(moved.level_of_best(), rel=1e-9)
    baseline = order.index(2)
    first = np.array([test.p_adjusted for test in found.against(2)])
    assert first[order] == pytest.approx([test.p_adjusted for test in moved.against(baseline)])
    bounds = np.array([distance.most for distance in found.behind_best()])
    assert bounds[order] == pytest.approx([distance.most for distance in moved.behind_best()])


def test_equal_columns_have_the_same_verdicts() -> None:
    scores = binary_scores([0.8, 0.6, 0.5], 150, seed=5)
    found = ConfigurationScores(scores[:, [0, 1, 2, 1]])
    kept, tests, behind = found.not_distinguishable(), found.against(0), found.behind_best()
    assert kept[1] == kept[3]
    assert tests[1] == tests[3]
    assert behind[1] == behind[3]


def test_two_configurations_give_the_paired_test() -> None:
    rng = np.random.default_rng(8)
    scores = rng.normal([0.0, 0.12], 1.0, (120, 2)) + rng.normal(size=(120, 1))
    differences = scores[:, 1] - scores[:, 0]
    statistic = differences.mean() / (differences.std(ddof=1) / np.sqrt(120))
    test = ConfigurationScores(scores, draws=20_000).against(0)[1]
    assert test.p_adjusted == pytest.approx(2 * t_tail(abs(statistic), 119), abs=0.01)


def test_the_level_of_the_best_widens_with_the_number_of_configurations() -> None:
    levels = [ConfigurationScores(binary_scores([0.6] * m, 200)).level_of_best() for m in (1, 4, 24)]
    assert 0.94 < levels[0] < 0.96
    assert levels[0] < levels[1] < levels[2] < 1
    constant = ConfigurationScores(np.ones((20, 3)))
    assert constant.level_of_best() == 0.95


def test_the_distance_from_the_best_is_one_with_a_margin() -> None:
    scores = binary_scores([0.7, 0.7, 0.4], 300, seed=2)
    scores[:, 1] = np.roll(scores[:, 0], 1)  # as good as the first
    first, second, third = ConfigurationScores(scores).behind_best(0.02)
    assert first.most == pytest.approx(second.most, abs=0.01)
    assert third.most > 0.25
    assert third.n_needed is None  # farther behind than the margin: no number of questions would show the contrary
    assert first.most > 0.02
    assert first.n_needed is not None
    assert first.n_needed > 300
    enough = ConfigurationScores(np.tile(scores, (first.n_needed // 300 + 1, 1))).behind_best(0.02)[0]
    assert enough.most <= 0.021


def test_failed_answers_never_bring_a_configuration_back() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        scores = np.clip(rng.normal([0.62, 0.6, 0.5, 0.55, 0.45], 0.25, (80, 5)) + rng.normal(0, 0.1, (80, 1)), 0, 1)
        before = ConfigurationScores(scores)
        for column in range(5):
            failed = np.zeros(scores.shape, dtype=np.bool_)
            failed[np.argsort(scores[:, column])[:16], column] = True
            after = ConfigurationScores(np.where(failed, 0.0, scores), failed=failed)
            assert after.means[column] <= before.means[column]
            assert after.not_distinguishable()[column] <= before.not_distinguishable()[column], (seed, column)


def test_clusters_widen_the_differences() -> None:
    scores = np.repeat(binary_scores([0.7, 0.6], 40, seed=4), 5, axis=0)
    clustered = ConfigurationScores(scores, clusters=np.repeat(np.arange(40), 5))
    assert clustered.units == 40
    assert clustered.errors[0, 1] > 2 * ConfigurationScores(scores).errors[0, 1]


def test_one_unit_is_refused() -> None:
    with pytest.raises(BadValueError, match="two questions"):
        ConfigurationScores(np.ones((1, 3)))


@pytest.mark.parametrize(
    ("level", "wanted"),
    [
        (0.05, [3.291, 2.940, 2.721, 2.548, 2.401, 2.271, 2.154, 2.045, 1.943, 1.848]),
        (0.01, [3.719, 3.414, 3.232, 3.091, 2.973, 2.871, 2.779, 2.696, 2.620, 2.549]),
        (0.001, [4.265, 4.003, 3.854, 3.741, 3.648, 3.568, 3.497, 3.433, 3.375, 3.321]),
    ],
)
def test_boundaries_of_looks(level: float, wanted: list[float]) -> None:
    assert look_boundaries(level) == pytest.approx(wanted, abs=0.003)


def test_elimination_keeps_the_best_and_saves_calls() -> None:
    scores = binary_scores([0.8, 0.8, 0.4, 0.4, 0.4, 0.4], 500, seed=1)
    living = list(range(6))
    calls = before = 0
    for look, size in enumerate(look_sizes(500), start=1):
        calls += (size - before) * len(living)
        before = size
        outcome = eliminate(ConfigurationScores(scores[:size][:, living]), look=look, total=500, configurations=6)
        living = [column for column, kept in zip(living, outcome.kept.tolist(), strict=True) if kept]
        if outcome.is_futile:
            break
    assert living == [0, 1]
    assert calls < 0.5 * scores.size
    assert look < LOOKS  # nothing more to be expected of the two that are equal


def test_no_elimination_before_twenty_questions() -> None:
    scores = np.zeros((19, 2))
    scores[:, 0] = 1.0
    assert eliminate(ConfigurationScores(scores), look=1, total=190, configurations=2).kept.all()


def test_main_effects_of_a_grid() -> None:
    grid = [(first, second) for first in range(2) for second in range(3)]
    scores = binary_scores([0.5 + 0.2 * first for first, _ in grid], 400, seed=6)
    first, second = zip(*grid, strict=True)
    effects = main_effects(scores, {"first": first, "second": second, "third": [0] * 6})
    assert list(effects) == [("first", 0), ("first", 1), ("second", 0), ("second", 1), ("second", 2)]
    assert effects["first", 1].low > 0 > effects["first", 0].high
    others = [effects["second", value] for value in range(3)]
    assert all(effect.low < 0 < effect.high for effect in others)
    assert sum(effect.effect for effect in others) == pytest.approx(0)


def test_the_lower_end_of_the_winner_is_that_of_a_wider_interval() -> None:
    scores = binary_scores([0.65] * 24, 200, seed=9)
    found = ConfigurationScores(scores)
    winner = scores[:, found.means.argmax()]
    plain, wide = (mean_interval(winner, binary=True, level=level) for level in (0.95, found.level_of_best()))
    assert plain is not None
    assert wide is not None
    assert wide.low < plain.low
