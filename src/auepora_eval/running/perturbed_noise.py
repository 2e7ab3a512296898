"""Where the noise of a perturbed run comes from: a corpus, the samples' documents, or what was found for others."""

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
"""A corpus of JSONL, an open one, or documents."""


def corpus_pool(source: NoiseSource | None) -> NoisePool | None:
    """The documents to draw noise from, where the user names them."""
    if source is None:
        return None
    if isinstance(source, (str, Path)):
        return NoisePool.from_documents(Corpus.open(source), f"the corpus {Path(source).name}")
    return NoisePool.from_documents(source)


def initial_noise(request: RunRequest, sweep: Sweep, given: NoisePool | None, seed: int) -> NoisePool | None:
    """What noise is drawn from: the corpus given, else the samples' documents.

    ``None`` where these are too few, or where there is no noise: then ``noise_of_run`` has some, once the system was
    asked at rate 0. ``BadValueError`` where it will not be.
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
        why = "no sample has documents with a text" if not pool else f"the samples' documents will not do ({error})"
        raise BadValueError(
            f"noise must come from somewhere, and {why}; name a corpus (--perturb-corpus, corpus=), or run at rate 0 "
            "too: then what is found for other samples is noise"
        ) from None
    return pool


def noise_of_run(store: RunStore, record: RunRecord, request: RunRequest, sweep: Sweep, seed: int) -> NoisePool:
    """Everything that a run found: for each sample, what was found for the others is noise."""
    found = (item.doc for row in store.outputs(record.run_id) for item in row.output.retrieved)
    pool = NoisePool.from_documents(found, f"what {record.run_id} found")
    for row in store.outputs(record.run_id, repeat=0, texts=False):
        ids = {item.doc.doc_id for item in row.output.retrieved}
        wanted = count_for_rate(_highest_rate(sweep), len(row.output.retrieved))
        pool.require(request.samples[row.position], wanted, seed, ids, hint="name a corpus (--perturb-corpus, corpus=)")
    return pool


def equal_rate_notes(sweep: Sweep, top_k: int) -> list[str]:
    """Which rates come to the same number of documents in a list this short, in words."""
    if sweep.kind != "noise":
        return []
    by_share: dict[int, list[str]] = {}
    for level in sweep.levels:
        by_share.setdefault(count_for_rate(sweep.perturbation(level).noise, top_k), []).append(sweep.label(level))
    return [
        f"{' and '.join(labels)} are the same in a list of {top_k} ({share} of noise); a larger top_k tells them apart"
        for share, labels in by_share.items()
        if len(labels) > 1
    ]


def _require_for_all(pool: NoisePool, request: RunRequest, sweep: Sweep, seed: int) -> None:
    for sample in request.samples:
        pool.require(sample, count_for_rate(_highest_rate(sweep), request.policy.top_k), seed)


def _highest_rate(sweep: Sweep) -> float:
    return max(sweep.perturbation(level).noise for level in sweep.levels)
