"""How the gold of a stored run is matched: resolved once, from its first outputs, and stored with its plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..core.conventions import Conventions, Match
from ..core.metrics_base import Metric
from ..core.results import Results
from ..core.types import EvaluationSample
from ..engine.gold_match import SAMPLES_READ, GoldMatch, GoldReading, MatchChoice, Pair
from ..store.records import RunRecord
from ..store.rows import PERTURBED_TAG
from ..store.runs import RunStore, aligned_outputs


def stored_match(record: RunRecord) -> GoldMatch | None:
    """How the gold of a run is matched; ``None`` where nothing was resolved."""
    resolved = (record.plan.get("gold") or {}).get("resolved")
    return None if resolved is None else GoldMatch.from_dict(resolved)


def read_gold(
    store: RunStore,
    record: RunRecord,
    samples: Sequence[EvaluationSample],
    conventions: Conventions,
    choice: MatchChoice,
    *,
    stored: Match | None = None,
) -> GoldReading:
    """How the gold of these samples is matched with the outputs of the first repeat.

    ``stored`` is what ``auto`` has chosen before.
    """
    has_gold = any(sample.relevant_docs for sample in samples)
    pairs = _pairs(store, record, samples) if has_gold else ()
    return GoldReading(pairs, conventions, choice, stored=stored)


def describe_gold(
    results: Results,
    metrics: Sequence[Metric],
    store: RunStore,
    record: RunRecord,
    samples: Sequence[EvaluationSample],
    *,
    conventions: Conventions,
    reading: GoldReading | None,
) -> None:
    """Add to results how gold is matched. What ``auto`` decided from the first outputs is checked with all of them."""
    if reading is None and conventions.match == "id":
        return
    reading = reading or read_gold(store, record, samples, conventions, conventions.match)
    resolved = reading.resolved
    is_checked = resolved.is_auto and PERTURBED_TAG not in record.tags
    if is_checked and SAMPLES_READ <= resolved.samples < len(samples):
        for _ in reading.count(_pairs(store, record, samples, texts=resolved.match == "text")):
            pass
    reading.finish(metrics, results)


def _pairs(
    store: RunStore, record: RunRecord, samples: Sequence[EvaluationSample], *, texts: bool = True
) -> Iterator[Pair]:
    return zip(samples, aligned_outputs(store, record.run_id, texts=texts), strict=True)
