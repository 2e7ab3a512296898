"""At least 95 of 100 seeded mutants of the metric kernels are noticed by the cross-check or by the tests."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import pytest
from mutants import Mutant, is_caught, seeded_mutants

COUNT, NOTICED, WORKERS = 100, 95, 2


@pytest.mark.skipif(not os.environ.get("AUEPORA_MUTANTS"), reason="takes a quarter of an hour; `make mutants` runs it")
def test_mutants_are_noticed(tmp_path: Path) -> None:
    folders: Queue[Path] = Queue()
    for number in range(WORKERS):
        folders.put(tmp_path / str(number))

    def survives(mutant: Mutant) -> Mutant | None:
        folder = folders.get()
        try:
            return None if is_caught(mutant, folder) else mutant
        finally:
            folders.put(folder)

    with ThreadPoolExecutor(WORKERS) as pool:
        survivors = [mutant for mutant in pool.map(survives, seeded_mutants(COUNT, seed=2024)) if mutant is not None]
    listing = "\n".join(f"{mutant.path}:{mutant.line}: {mutant.what}" for mutant in survivors)
    print(f"{COUNT - len(survivors)} of {COUNT} mutants noticed; not noticed:\n{listing}")
    assert COUNT - len(survivors) >= NOTICED, listing
