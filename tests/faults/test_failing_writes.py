"""An I/O error or a full disk at the n-th write: nothing that was acknowledged is lost, and no error has a traceback."""

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from helpers.fault_writers import WRITERS
from helpers.faults import IS_COMPLETE, run_with_shim

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
FIRST, DRAWN, MOST = 300, 100, 400
"""Every write up to the first number, then a seeded draw of so many faults up to the last one."""


def numbers(kind: str) -> list[int]:
    """The writes that fail: twice each, since an error passes or stays."""
    rng = random.Random(kind)
    if not IS_COMPLETE:
        most = 12 if kind == "checkpoints" else 60  # so many writes there are
        return sorted({0, 1, 2, 3, *rng.sample(range(4, most), 6)})
    return [*range(2 * FIRST), *sorted(rng.sample(range(2 * FIRST, 2 * MOST), DRAWN))]


@pytest.mark.parametrize("kind", sorted(WRITERS))
def test_nothing_acknowledged_is_lost(kind: str, tmp_path: Path) -> None:
    chosen = numbers(kind)
    processes = 2 if IS_COMPLETE else 1
    parts = [chosen[start::processes] for start in range(processes)]
    with ThreadPoolExecutor(2) as pool:
        outputs = pool.map(
            lambda part: run_with_shim("helpers.fault_writers", kind, str(tmp_path), *map(str, part)), parts
        )
    lines = [line for output in outputs for line in output.splitlines()]
    faults = sum(int(line.removeprefix("faults: ")) for line in lines if line.startswith("faults: "))
    assert [line for line in lines if not line.startswith("faults: ")] == []
    wanted = 4
    if IS_COMPLETE:
        wanted = 60 if kind == "checkpoints" else 2 * FIRST + DRAWN
    assert faults >= wanted, "some writes did not fail"
