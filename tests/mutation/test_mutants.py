"""At least 95 of 100 seeded mutants of the metric kernels are detected by the cross-check or by the tests."""

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import pytest

from helpers.mutants import WAITING, Mutant, honest, noticed_by, seeded_mutants

COUNT, NOTICED, WORKERS = 100, 95, 2
PATIENCE = 4
"""A mutant that takes this many times as long as the unchanged package counts as endless."""


@pytest.mark.timeout(0)
@pytest.mark.skipif(not os.environ.get("AUEPORA_MUTANTS"), reason="takes half an hour; `make mutants` runs it")
def test_mutants_are_detected(tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(WORKERS)]
    folders: Queue[Path] = Queue()
    for path in paths:
        folders.put(path)

    with ThreadPoolExecutor(WORKERS) as pool:
        # The unchanged package must pass, otherwise each mutant would seem to be detected.
        limit = PATIENCE * max(pool.map(honest, paths))

        def check(mutant: Mutant) -> tuple[str | None, Mutant]:
            folder = folders.get()
            try:
                how = noticed_by(mutant, folder, limit=limit)
                print(f"{mutant.path}:{mutant.line}: {mutant.what}: {how or 'not noticed'}", flush=True)
                return how, mutant
            finally:
                folders.put(folder)

        found = list(pool.map(check, seeded_mutants(COUNT, seed=2024)))
    ways = Counter(how for how, _ in found)
    survivors = [f"{one.path}:{one.line}: {one.what}" for how, one in found if how is None]
    endless = [f"{one.path}:{one.line}: {one.what}" for how, one in found if how == WAITING]
    listing = "\n".join(survivors)
    print(f"{COUNT - len(survivors)} of {COUNT} mutants noticed {dict(ways)}; not noticed:\n{listing}")
    print("endless:\n" + "\n".join(endless))
    assert COUNT - len(survivors) >= NOTICED, listing
