"""Several runs: values on the samples all have, every two held against each other under one 5 %."""

import json

import numpy as np
import pytest

from auepora_eval.compare.runs import build_leaderboard, compare_metrics
from auepora_eval.errors import BadValueError
from auepora_eval.stats.permutation import tukey_hsd
from auepora_eval.store.runs import RunStore
from helpers.stored_runs import samples, scored


def test_leaderboard_of_four_runs(store: RunStore) -> None:
    rng = np.random.default_rng(0)
    data, base = samples(100), rng.random(100) * 0.6
    shifts = [0.0, 0.2, 0.0, 0.3]
    columns = [base + shift + rng.normal(0, 0.05, 100) * (shift > 0) for shift in shifts]
    records = [
        scored(store, f"run{at}", data, {"token_f1": column, "mean_latency[x]": column})
        for at, column in enumerate(columns)
    ]
    found = build_leaderboard(store, records, primary=["token_f1"])
    assert (found.samples, found.names) == (100, ("run0", "run1", "run2", "run3"))
    quality, seconds = found.metrics
    assert quality.values == pytest.approx(tuple(column.mean() for column in columns))
    assert quality.ranking == [3, 1, 0, 2]
    assert quality.unbeaten() == [3]
    assert seconds.ranking == [0, 2, 1, 3]
    verdicts = {(pair.first, pair.second): pair.comparison.verdict for pair in quality.pairs}
    assert verdicts == {
        (0, 1): "better",
        (0, 2): "equal",
        (0, 3): "better",
        (1, 2): "worse",
        (1, 3): "better",
        (2, 3): "better",
    }
    alone = compare_metrics(store, records[1], records[3], primary=["token_f1"]).by_name["token_f1"]
    pair = next(one.comparison for one in quality.pairs if (one.first, one.second) == (1, 3))
    assert (pair.delta, pair.interval, pair.p_value) == (alone.delta, alone.interval, alone.p_value)
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["metrics"]["token_f1"]["ranking"][0] == records[3].run_id


def test_more_pairs_give_larger_p_values(store: RunStore) -> None:
    rng = np.random.default_rng(1)
    data = samples(60)
    records = [scored(store, f"run{at}", data, {"token_f1": rng.random(60)}) for at in range(5)]
    (quality,) = build_leaderboard(store, records).metrics
    for pair in quality.pairs:
        assert pair.comparison.p_value is not None
        assert pair.comparison.p_adjusted is not None
        assert pair.comparison.p_adjusted >= pair.comparison.p_value
    assert quality.unbeaten() == quality.ranking


def test_tukey(store: RunStore) -> None:
    rng = np.random.default_rng(2)
    data = samples(80, clusters=lambda n: str(n // 2))
    columns = [np.clip(rng.random(80) + shift, 0, 2) / 2 for shift in (0.0, 0.1, 0.5)]
    records = [scored(store, f"run{at}", data, {"token_f1": column}) for at, column in enumerate(columns)]
    (quality,) = build_leaderboard(store, records, adjust="tukey").metrics
    want = tukey_hsd(np.stack(columns, axis=1), np.arange(80) // 2)
    for pair in quality.pairs:
        assert pair.comparison.p_adjusted == want[pair.first, pair.second]
    assert quality.unbeaten() == [2]


def test_runs_that_make_no_leaderboard(store: RunStore) -> None:
    data = samples(5)
    a, b = (scored(store, name, data, {"token_f1": np.ones(5)}) for name in "ab")
    with pytest.raises(BadValueError, match="at least two runs"):
        build_leaderboard(store, [a])
    with pytest.raises(BadValueError, match="is named twice"):
        build_leaderboard(store, [a, b, a])
    with pytest.raises(BadValueError, match="max-t, holm, tukey"):
        build_leaderboard(store, [a, b], adjust="none")  # type: ignore[arg-type]
