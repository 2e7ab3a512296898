"""Tests here compare ways to the same results, whatever their intervals are: few draws are enough for these."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def _few_draws(few_interval_draws: None) -> None:
    pass
