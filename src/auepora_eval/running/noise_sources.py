"""Sources of noise documents: a corpus, the documents of the samples, or what a run retrieved for other samples."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..core.errors import BadValueError
from ..core.types import Document
from ..io.corpus import Corpus
from ..perturb.kinds import Sweep
from ..perturb.noise import CorpusLike, NoisePool
from ..perturb.seeded_random import count_for_rate
from ..store.records import RunRecord
from ..store.runs import RunStore
from .run import RunRequest

__all__ = ["NoiseSource", "corpus_pool", "equal_rate_notes", "initial_noise", "noise_of_run"]

NoiseSource = str | Path | CorpusLike | Iterable[Document]
"""Path of a JSONL corpus, an open corpus, or documents."""


def corpus_pool(source: NoiseSource | None) -> NoisePool | None:
    """The noise documents that the user gives; ``None`` if there are none."""
    if source is None:
        return None
    if isinstance(source, (str, Path)):
        return NoisePool.from_documents(Corpus.open(source), f"the corpus {Path(source).name}")
    return NoisePool.from_documents(source)


def initial_noise(request: RunRequest, sweep: Sweep, given: NoisePool | None, seed: int) -> NoisePool | None:
    """The source of noise before the first run: ``given``, else the documents of the samples.

    ``None`` if the sweep has no noise, or if there are too few documents; then ``noise_of_run`` gives noise after the
    run at rate 0. Raises ``BadValueError`` if rate 0 is not among the levels.
    """
    if "noise" not in sweep.perturbs:
        return None
    if given is not None:
        _require_for_all(given, request, sweep, seed)
        return given
    pool = NoisePool.from_samples(request.samples)
    try:
        _require_for_all(pool, request, sweep, seed)
    except BadValueError as error:
        if 0.0 in sweep.levels:
            return None
        why = "no sample has documents with a text" if not pool else f"those of the samples are not enough ({error})"
        raise BadValueError(
            f"there is no source of noise: {why}; give a corpus (--perturb-corpus, corpus=), or add rate 0, whose "
            "retrieved documents serve as noise for other samples"
        ) from None
    return pool


def noise_of_run(store: RunStore, record: RunRecord, request: RunRequest, sweep: Sweep, seed: int) -> NoisePool:
    """Noise from the documents that a run retrieved: for each sample, those of the other samples."""
    found = (item.doc for row in store.outputs(record.run_id) for item in row.output.retrieved)
    pool = NoisePool.from_documents(found, f"what {record.run_id} found")
    for row in store.outputs(record.run_id, repeat=0, texts=False):
        ids = {item.doc.doc_id for item in row.output.retrieved}
        needed = count_for_rate(_highest_rate(sweep), len(row.output.retrieved))
        pool.require(request.samples[row.position], needed, seed, ids, hint="name a corpus (--perturb-corpus, corpus=)")
    return pool


def equal_rate_notes(sweep: Sweep, top_k: int) -> list[str]:
    """Notes on rates that give the same number of noise documents in a list of ``top_k``."""
    if sweep.kind != "noise":
        return []
    by_share: dict[int, list[str]] = {}
    for level in sweep.levels:
        by_share.setdefault(count_for_rate(sweep.perturbation(level).noise, top_k), []).append(sweep.label(level))
    return [
        f"{' and '.join(labels)} are the same in a list of {top_k} ({share} of noise); a larger top_k separates them"
        for share, labels in by_share.items()
        if len(labels) > 1
    ]


def _require_for_all(pool: NoisePool, request: RunRequest, sweep: Sweep, seed: int) -> None:
    for sample in request.samples:
        pool.require(sample, count_for_rate(_highest_rate(sweep), request.policy.top_k), seed)


def _highest_rate(sweep: Sweep) -> float:
    return max(sweep.perturbation(level).noise for level in sweep.levels)
