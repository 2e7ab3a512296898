"""Outcomes: built, concatenated, subset, counted."""

from dataclasses import replace

import numpy as np
import pytest

from auepora_eval.core.reduce import Mean
from auepora_eval.core.scores import Score, Scores, Status
from auepora_eval.errors import BadTypeError, BadValueError


def mask(*flags: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.array(flags, dtype=np.bool_)


def test_skip_wins_over_fail_and_the_first_reason_wins() -> None:
    scores = Scores.of(
        [0.1, 0.2, 0.3, 0.4],
        skip={"no_gold": mask(0, 1, 0, 0), "empty_gold": mask(0, 1, 1, 0)},
        fail={"broken": mask(0, 0, 1, 1)},
    )
    assert list(scores) == [0.1, None, None, None]
    assert list(scores.outcomes) == ["scored", "skipped:no_gold", "skipped:empty_gold", "measure_failed:broken"]
    assert scores.reasons == [None, "no_gold", "empty_gold", "broken"]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_is_a_failed_measurement(value: float) -> None:
    for scores in (Scores.of([0.5, value]), Scores.from_list([Score(0.5), Score(value)])):
        assert list(scores.outcomes) == ["scored", "measure_failed:not_a_number"]
        assert Mean().value(scores) == 0.5


def test_concat_renumbers_reasons_and_take_gives_a_subset() -> None:
    first = Scores.from_list([Score(1.0), Score.skip("no_gold")])
    second = Scores.from_list([Score.fail("odd"), Score.skip("no_gold"), Score(0.0)])
    both = Scores.concat([first, second])
    assert list(both.outcomes) == ["scored", "skipped:no_gold", "measure_failed:odd", "skipped:no_gold", "scored"]
    assert list(both.take([4, 1])) == [0.0, None]
    assert list(both.take(both.counted)) == [1.0, 0.0]
    assert both[2:] == second
    assert Scores.concat([]) == Scores.of([])


def test_concat_carries_statistics_and_keys() -> None:
    parts = [
        Scores.of([1.0], stats=np.array([[1.0, 2.0]]), keys=["x"]),
        Scores.of([0.0], stats=np.array([[3.0, 4.0]]), keys=["y"]),
    ]
    both = Scores.concat(parts)
    assert both.stats is not None
    assert both.stats.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert both.keys == ("x", "y")
    assert both.take([1]).keys == ("y",)


def test_part_of_failed_measurements_only() -> None:
    known = Scores.of([1.0], stats=np.array([[1.0, 2.0]]), keys=["x"])
    lost = Scores.of([0.0, 0.0], fail={"worker_died": mask(1, 1)})
    both = Scores.concat([lost, known])
    assert both.stats is not None
    assert both.stats[2].tolist() == [1.0, 2.0]
    assert np.isnan(both.stats[:2]).all()
    assert both.keys == (None, None, "x")
    half = Scores.of([0.0, 0.0], fail={"worker_died": mask(1, 0)})
    with pytest.raises(BadValueError, match="some parts have statistics or keys and others have none"):
        Scores.concat([half, known])


def test_tally() -> None:
    scores = Scores.from_list([Score(1.0), Score.skip("a"), Score.skip("b"), Score.skip("a"), Score.fail("a")])
    assert scores.tally() == {
        (Status.SCORED, ""): 1,
        (Status.SKIPPED, "a"): 2,
        (Status.SKIPPED, "b"): 1,
        (Status.MEASURE_FAILED, "a"): 1,
    }


def test_valid_scores_and_reasons() -> None:
    assert Score(True).value == 1.0
    with pytest.raises(BadTypeError, match="a score is a number"):
        Score("high")  # type: ignore[arg-type]
    with pytest.raises(BadTypeError, match="a score is a number"):
        Score(None)
    with pytest.raises(BadValueError, match="lower case"):
        Score.skip("No gold!")


def test_scores_are_compared_by_content() -> None:
    assert Scores.of([0.5, np.nan]) == Scores.of([0.5, np.nan])
    assert Scores.of([0.5]) != Scores.of([0.25])
    assert Scores.of([0.5], stats=np.ones((1, 1))) != Scores.of([0.5])
    assert Scores.of([0.5]) != [0.5]


class TestRepeats:
    """What each repeat gave goes wherever the outcomes go."""

    ONE = Scores.of([1.0, 2.0, 3.0], stats=np.array([[1.0], [2.0], [3.0]]))
    TWO = Scores.of([4.0, 5.0, 6.0], stats=np.array([[4.0], [5.0], [6.0]]), keys="abc")
    BOTH = replace(Scores.of([2.5, 3.5, 4.5]), repeats=(ONE, TWO))

    def test_take_and_concat(self) -> None:
        taken = self.BOTH.take([2, 0])
        assert taken.repeats == (self.ONE.take([2, 0]), self.TWO.take([2, 0]))
        joined = Scores.concat([taken, self.BOTH.take([1])])
        assert joined.take([1, 2, 0]) == self.BOTH
        assert replace(self.BOTH, repeats=(self.ONE, self.ONE)) != self.BOTH

    def test_replaced(self) -> None:
        found = self.BOTH.replaced(mask(0, 1, 0), Status.SKIPPED, "left_out", np.nan)
        assert found.repeats is not None
        assert [list(one) for one in found.repeats] == [[1.0, None, 3.0], [4.0, None, 6.0]]

    @pytest.mark.parametrize(
        "other",
        [Scores.of([1.0]), replace(Scores.of([1.0]), repeats=(Scores.of([1.0]),))],
        ids=["without repeats", "repeated less often"],
    )
    def test_parts_that_cannot_be_concatenated(self, other: Scores) -> None:
        with pytest.raises(BadValueError, match="not repeated equally often"):
            Scores.concat([self.BOTH, other])
