"""Tests here are about what a report shows, whatever the intervals of metrics are: few draws are enough for these."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def _few_draws(few_interval_draws: None) -> None:
    pass
