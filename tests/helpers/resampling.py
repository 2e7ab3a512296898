"""The bootstrap interval of one measure of two runs."""

import math
from collections.abc import Callable
from typing import Any

from auepora_eval.stats.difference import PairedStatistics, paired_bootstraps
from auepora_eval.stats.intervals import Floats, Interval


def paired_bootstrap(
    first: Floats,
    second: Floats,
    of_sums: Callable[[Floats], Floats],
    *,
    lowest: float = -math.inf,
    highest: float = math.inf,
    **options: Any,
) -> Interval | None:
    """The interval of the second run's value less the first run's; the options are those of ``paired_bootstraps``."""
    return paired_bootstraps([PairedStatistics(first, second, of_sums, lowest, highest)], **options)[0]
