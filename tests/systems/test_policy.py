"""The rules for calling a system: what cannot be meant is refused at once."""

from typing import Any

import pytest

from auepora_eval.errors import BadValueError
from auepora_eval.systems.workers import CallPolicy

ROWS: list[tuple[str, Any, str]] = [
    ("top_k", 0, "top_k must be an integer >= 1, not 0"),
    ("concurrency", 0, "concurrency must be an integer >= 1, not 0"),
    ("concurrency", True, "concurrency must be an integer >= 1, not True"),
    ("concurrency", 2.0, "concurrency must be an integer >= 1, not 2.0"),
    ("retries", -1, "retries must be an integer >= 0, not -1"),
    ("max_failures", -1, "max_failures must be an integer >= 0, not -1"),
    ("timeout", 0, "timeout must be a number of seconds above 0, not 0"),
    ("timeout", float("nan"), "timeout must be a number of seconds above 0, not nan"),
    ("timeout", float("inf"), "timeout must be a number of seconds above 0, not inf"),
    ("timeout", "30", "timeout must be a number of seconds above 0, not '30'"),
    ("backoff", -0.1, "backoff must be a number of seconds >= 0, not -0.1"),
]


@pytest.mark.parametrize(("name", "value", "message"), ROWS, ids=[row[2] for row in ROWS])
def test_bad_policies(name: str, value: object, message: str) -> None:
    with pytest.raises(BadValueError) as caught:
        CallPolicy(**{name: value})  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_smallest_values_are_accepted() -> None:
    CallPolicy(top_k=1, concurrency=1, retries=0, max_failures=0, timeout=1e-3, backoff=0)
