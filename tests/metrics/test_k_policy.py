"""The cut-offs of a paper and the effective K."""

from typing import Any

import numpy as np
import pytest

from auepora_eval.core.conventions import PRESETS
from auepora_eval.errors import BadTypeError, BadValueError
from auepora_eval.metrics.k_policy import ALL, OPTIONAL_K, PRIMARY_K, compute_k_eff

ROWS = [  # k, n_candidates, want, why
    (10, 5, 5, "a short list"),
    (3, 5, 3, "a long list"),
    (5, 5, 5, "just filled"),
    (3, 0, 0, "nothing to choose from"),
    ("ALL", 7, 7, "the ceiling"),
    (None, 7, 7, "no cut is the ceiling"),
    (ALL, 0, 0, "the ceiling of nothing"),
    (3, np.int64(2), 2, "a count that numpy made"),
]


@pytest.mark.parametrize(("k", "n", "want"), [row[:3] for row in ROWS], ids=[row[3] for row in ROWS])
def test_k_eff(k: Any, n: Any, want: int) -> None:
    assert compute_k_eff(k, n) == want
    assert type(compute_k_eff(k, n)) is int


BAD_ROWS = [  # k, n_candidates, error, message
    (0, 5, BadValueError, "k must be an integer >= 1, not 0"),
    (-1, 5, BadValueError, "k must be an integer >= 1, not -1"),
    (3, -1, BadValueError, "n_candidates must be at least 0, not -1"),
    (2.5, 5, BadTypeError, "k must be an integer >= 1, not 2.5"),
    (True, 5, BadTypeError, "k must be an integer >= 1, not True"),
    ("all", 5, BadTypeError, "an integer or 'ALL', not 'all'"),
    (3, 2.0, BadTypeError, "n_candidates must be an integer, not 2.0"),
    (3, True, BadTypeError, "n_candidates must be an integer, not True"),
]


@pytest.mark.parametrize(("k", "n", "error", "message"), BAD_ROWS)
def test_invalid_arguments(k: Any, n: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        compute_k_eff(k, n)


def test_lists_are_those_of_the_paper_and_of_its_preset() -> None:
    assert (PRIMARY_K, OPTIONAL_K, ALL) == ((3, 5, 10), (1,), "ALL")
    assert PRESETS["paper"].k_values == PRESETS["paper-positives"].k_values == PRIMARY_K
