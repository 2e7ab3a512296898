"""What workers send back: fewer bytes where nothing is lost by it, and every bit of it arrives."""

import numpy as np
import pytest

from auepora_eval.core.scores import Scores
from auepora_eval.engine.executors import ScoredBatch
from auepora_eval.scale.ray_worker import pack_scores, unpack_scores

VALUES = {
    "small whole numbers": [0.0, 1.0, 255.0],
    "a zero below zero": [0.0, -0.0, 1.0],
    "halves": [0.5, 0.25, 1.0],
    "thirds": [1 / 3, 2 / 3, 0.1],
    "beyond a byte": [256.0, -1.0, 3.0],
    "beyond four bytes": [2.0**24 + 1, 1e300, 5e-324],
    "gaps": [np.nan, 1.0, np.inf],
}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_every_bit_arrives(values: list[float]) -> None:
    given = np.array(values)
    scores = Scores.of([1.0, 0.0, 1.0], stats=np.column_stack([given, given[::-1]]))
    (found,) = unpack_scores(pack_scores(ScoredBatch(3, [scores]))).scores
    assert found.stats is not None
    assert scores.stats is not None
    assert found.stats.tobytes() == np.ascontiguousarray(scores.stats).tobytes()
    assert found.values.tobytes() == scores.values.tobytes()
