"""Fair timing on a noisy machine: the contenders take turns, and the best of each is compared."""

import gc
import time
from collections.abc import Callable, Mapping


def best_times(
    contenders: Mapping[str, Callable[[], object]],
    rounds: Mapping[str, int],
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """The shortest time of each contender in seconds (wall time by default), over its number of rounds, in turn."""
    best = dict.fromkeys(contenders, float("inf"))
    for turn in range(max(rounds.values())):
        for name, call in contenders.items():
            if turn < rounds[name]:
                gc.collect()
                start = clock()
                made = call()
                best[name] = min(best[name], clock() - start)
                del made  # freeing what was made is not part of making it
    return best
