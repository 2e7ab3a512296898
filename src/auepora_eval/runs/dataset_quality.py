"""Whether a dataset can decide anything: repeated questions, gold that is nowhere, questions without information."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from rapidfuzz import fuzz, process, utils

from ..compare.analysis import finite_or_none
from ..compare.metrics import rank_metrics
from ..core.metrics_base import sample_clusters
from ..core.scores import Scores, Status
from ..core.types import EvaluationSample
from ..io.golden import dataset_fingerprint
from ..io.problems import name_ids
from ..stats.difference import mde, unit_sd
from ..stats.intervals import Floats
from ..store.records import RunRecord, RunStatus
from ..store.runs import RunStore

MAX_COMPARED = 5_000
"""The number of questions that are compared with each other, the first ones."""
SIMILAR_FROM = 90.0
"""Two questions are near duplicates from this similarity of their sorted words, in percent."""
ASSUMED_CHANGES = 0.25
"""Without two runs: the assumed proportion of 0/1 scores that differ between two systems."""
FEW_SAMPLES = 100
_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class QualityFinding:
    """Something that limits what a dataset can decide."""

    kind: str
    text: str
    sample_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class DatasetQuality:
    """What a dataset can decide, and what limits it."""

    samples: int
    units: int
    """Independent units: clusters of samples that belong together count once."""
    detectable: float | None
    """The smallest difference that it detects with a power of 80 %; ``None`` if it is unknown."""
    basis: str
    """What ``detectable`` rests on."""
    runs: Sequence[str] = ()
    findings: Sequence[QualityFinding] = field(default_factory=list)

    @property
    def conclusion(self) -> str:
        """The answer in a sentence."""
        clustered = f" in {self.units:,} groups that belong together" if self.units < self.samples else ""
        size = f"{self.samples:,} questions{clustered}"
        if self.detectable is None:
            return f"{size}: too few to detect any difference"
        return f"With {size} a difference of about {self.detectable:.2g} can be detected ({self.basis})"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "conclusion": self.conclusion}

    def to_text(self) -> str:
        """The conclusion, then a line for each finding."""
        lines = [f"{self.conclusion}."]
        lines += [f"- {finding.text}" for finding in self.findings]
        if not self.findings:
            lines.append("- nothing else was found that limits it")
        return "\n".join(lines)


def dataset_quality(
    samples: Sequence[EvaluationSample],
    *,
    corpus_ids: Collection[str] | None = None,
    store: RunStore | None = None,
    runs: Sequence[RunRecord] = (),
) -> DatasetQuality:
    """Check a dataset; ``runs`` are finished runs on it in the ``store``, by default all of them."""
    if store is not None and not runs:
        fingerprint = dataset_fingerprint(samples)
        runs = [record for record in store.runs(status=RunStatus.FINISHED) if record.fingerprint == fingerprint]
    findings = [_near_duplicates(samples), _missing_gold(samples, corpus_ids)]
    units = _count_units(samples)
    detectable = finite_or_none(mde(math.sqrt(ASSUMED_CHANGES), units))
    basis = f"assuming that {ASSUMED_CHANGES:.0%} of 0/1 scores differ between two systems"
    if store is not None and runs:
        name, columns = _main_scores(store, runs)
        findings += _uninformative(samples, name, columns)
        if len(columns) > 1:
            measured = _detectable_between(samples, columns[0], columns[1])
            if measured is not None:
                detectable, basis = measured, f"{name}, by the spread between {runs[0].name} and {runs[1].name}"
    if len(samples) < FEW_SAMPLES:
        text = f"fewer than {FEW_SAMPLES} questions: intervals are wide, and tests of skewed scores have little power"
        findings.append(QualityFinding("few_questions", text, ()))
    kept = [finding for finding in findings if finding is not None]
    return DatasetQuality(
        samples=len(samples),
        units=units,
        detectable=detectable,
        basis=basis,
        runs=[record.run_id for record in runs],
        findings=kept,
    )


def _count_units(samples: Sequence[EvaluationSample]) -> int:
    clusters = sample_clusters(samples)
    return len(samples) if clusters is None else len(np.unique(clusters))


def _near_duplicates(samples: Sequence[EvaluationSample]) -> QualityFinding | None:
    """Questions that are nearly equal, with the same numbers, and belong neither to one group nor to two answers."""
    compared = samples[:MAX_COMPARED]
    queries = [utils.default_process(sample.query) for sample in compared]
    similarity = process.cdist(
        queries, queries, scorer=fuzz.token_sort_ratio, score_cutoff=SIMILAR_FROM, dtype=np.uint8, workers=1
    )
    pairs = []
    for first, second in zip(*np.nonzero(np.triu(similarity, k=1)), strict=True):
        earlier, later = compared[first], compared[second]
        same_numbers = _NUMBERS.findall(earlier.query) == _NUMBERS.findall(later.query)
        is_asked_again = queries[first] and same_numbers and not _have_other_answers(earlier, later)
        if is_asked_again and earlier.cluster != later.cluster:
            pairs.append((earlier.sample_id, later.sample_id))
    if not pairs:
        return None
    named = "; ".join(f"{name} and {other}" for name, other in pairs[:5])
    more = f" and {len(pairs) - 5} more" if len(pairs) > 5 else ""
    text = f"{len(pairs)} pairs of nearly equal questions count as independent ({named}{more}); give them a cluster_id"
    return QualityFinding("near_duplicates", text, list(dict.fromkeys(chain.from_iterable(pairs))))


def _have_other_answers(first: EvaluationSample, second: EvaluationSample) -> bool:
    """Whether two samples have both other references and other gold, as questions of one form about two things do."""
    if first.reference_answer is None or second.reference_answer is None:
        return False
    gold, other_gold = ({document.doc_id for document in sample.relevant_docs or ()} for sample in (first, second))
    is_other = first.reference_answer.text != second.reference_answer.text
    return is_other and bool(gold) and bool(other_gold) and gold.isdisjoint(other_gold)


def _missing_gold(samples: Sequence[EvaluationSample], corpus_ids: Collection[str] | None) -> QualityFinding | None:
    """Samples with relevant documents of which the corpus has none, by id or parent."""
    if corpus_ids is None:
        return None
    missing = []
    for sample in samples:
        gold = sample.relevant_docs or ()
        known = [document for document in gold if document.doc_id in corpus_ids or document.parent_id in corpus_ids]
        if gold and not known:
            missing.append(sample.sample_id)
    if not missing:
        return None
    text = (
        f"the corpus has no gold document of {len(missing)} questions, which no retriever can find: {name_ids(missing)}"
    )
    return QualityFinding("gold_not_in_corpus", text, missing)


def _main_scores(store: RunStore, runs: Sequence[RunRecord]) -> tuple[str, list[Scores]]:
    """The most important metric that all runs have scores of, and its scores in each."""
    results = [store.results(record.run_id).by_name for record in runs]
    for name in rank_metrics(runs[0], list(results[0].values())):
        scored = [found[name].scores for found in results if name in found]
        columns = [scores for scores in scored if isinstance(scores, Scores)]
        if len(columns) == len(runs):
            return name, columns
    return "", []


def _uninformative(
    samples: Sequence[EvaluationSample], name: str, columns: Sequence[Scores]
) -> list[QualityFinding | None]:
    """Questions with the best score in every run, and those with the worst one."""
    if not columns:
        return []
    values = np.stack([_counted(scores) for scores in columns])
    findings: list[QualityFinding | None] = []
    for kind, what, hits in (
        ("always_right", "the best score", np.all(values >= 1, axis=0)),
        ("never_right", "a score of 0", np.all(values <= 0, axis=0)),
    ):
        ids = [samples[row].sample_id for row in np.flatnonzero(hits).tolist()]
        if ids:
            runs = f"all {len(columns)} stored runs" if len(columns) > 1 else "the stored run"
            text = f"{len(ids)} questions have {what} in {runs} ({name}) and tell none apart: {name_ids(ids)}"
            findings.append(QualityFinding(kind, text, ids))
    return findings


def _counted(scores: Scores) -> Floats:
    """The scores, 0 for failures of the system and NaN where there is none."""
    values = np.where(scores.status == Status.SCORED, scores.values, np.nan)
    return np.where(scores.status == Status.SYSTEM_FAILED, 0.0, values)


def _detectable_between(samples: Sequence[EvaluationSample], first: Scores, second: Scores) -> float | None:
    differences = _counted(second) - _counted(first)
    is_counted = ~np.isnan(differences)
    kept = [samples[row] for row in np.flatnonzero(is_counted).tolist()]
    return finite_or_none(mde(unit_sd(differences[is_counted], sample_clusters(kept)), _count_units(kept)))
