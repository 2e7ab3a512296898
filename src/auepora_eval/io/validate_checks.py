"""Checks beyond the format: levels, variants, ranks; counts of fields; supported targets and metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..core.metrics_base import BatchMetric
from ..core.registry import metric, metric_info
from ..core.targets import TARGETS
from ..core.types import STARTED, Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, TargetCategory
from ..engine.suggest import specs_for, suggest_metrics
from ..errors import AueporaError
from ..features.rankings import RANK_CONTRADICTION, parse_level
from ..features.refusals import is_unanswerable
from ..judge.nuggets import sample_nuggets
from ..judge.rubric import sample_rubric
from .problems import (
    MISSING_RETRIEVED,
    PUT_IN_QUOTES,
    DataWarnings,
    ParsedOutput,
    ParsedSample,
    Problem,
    outputs_missing_ranking,
    quote_text,
)

KNOWN_LABELS = ("answerable", "noise_ratio", "rubric", "scenario", "variant_of")
KNOWN_METADATA = ("expected_doc_ids", "forbidden", "must_contain", "nuggets", "wrong_answer")
KNOWN_SCENARIOS = ("counterfactual", "false_documents", "paraphrase", "typo", "unanswerable")


def sample_problems(path: Path, samples: Iterable[ParsedSample]) -> list[Problem]:
    """Return problems of valid records that scoring would reject."""
    found = []
    for line, sample, record in samples:
        try:
            for document in sample.relevant_docs or ():
                parse_level(document.metadata.get("relevance", 1), document.doc_id, sample.sample_id)
        except AueporaError as error:
            found.append(Problem(path, line, str(error), record))
        try:
            sample_rubric(sample)
        except AueporaError as error:
            found.append(Problem(path, line, f"labels.{error}", record))
        expected = sample.metadata.get("expected_doc_ids")
        if expected is not None and not (isinstance(expected, list) and all(isinstance(one, str) for one in expected)):
            numbers = isinstance(expected, list) and any(isinstance(one, int) for one in expected)
            message = f"field 'metadata.expected_doc_ids' must be a list of ids{PUT_IN_QUOTES if numbers else ''}"
            found.append(Problem(path, line, message, record))
    return found


def sample_warnings(path: Path, samples: Sequence[ParsedSample], unreadable_ids: Iterable[str] = ()) -> list[Problem]:
    """Return warnings about samples. ``unreadable_ids`` are ids of invalid records."""
    found = DataWarnings()
    parents = {read.sample.sample_id: _parent(read.sample) for read in samples}
    known = {*parents, *unreadable_ids}
    for read in samples:
        record_warnings = _RecordWarnings(found, path, read)
        sample = read.sample
        if not sample.query.strip():
            record_warnings.add("query", f"the query of sample {quote_text(sample.sample_id)} is empty")
        for doc_id, levels in _conflicting_levels(sample).items():
            twice = f"relevant_docs names {quote_text(doc_id)} with the levels {' and '.join(map(str, levels))}"
            record_warnings.add("twins", f"{twice}; the highest counts")
        if is_unanswerable(sample) is None:
            record_warnings.add("answerable", "labels.answerable is neither true nor false")
        try:
            sample_nuggets(sample)
        except AueporaError as error:
            record_warnings.add("nuggets", f"metadata.{error}; nugget_recall cannot be measured")
        _check_variant(record_warnings, sample, parents, known)
        _check_names(record_warnings, sample)
    return found.summarize()


class _RecordWarnings:
    """Adds warnings about one record."""

    def __init__(self, found: DataWarnings, path: Path, read: ParsedSample | ParsedOutput) -> None:
        self._found, self._path, self._line, self._record = found, path, read.line, read.record

    def add(self, kind: str, message: str) -> None:
        self._found.add(kind, self._path, self._line, message, record=self._record)


def _parent(sample: EvaluationSample) -> str | None:
    named = sample.labels.get("variant_of")
    return None if named is None else str(named)


def _conflicting_levels(sample: EvaluationSample) -> dict[str, list[int]]:
    """Return ids that occur more than once with different levels."""
    levels: dict[str, list[Any]] = {}
    for document in sample.relevant_docs or ():
        levels.setdefault(document.doc_id, []).append(document.metadata.get("relevance", 1))
    return {doc_id: some for doc_id, some in levels.items() if any(level != some[0] for level in some)}


def _check_variant(
    record_warnings: _RecordWarnings, sample: EvaluationSample, parents: Mapping[str, str | None], known: set[str]
) -> None:
    parent = _parent(sample)
    if parent is None:
        return
    if parent not in known:
        record_warnings.add("parent", f"labels.variant_of is {quote_text(parent)}, which is the id of no sample")
    elif _is_cyclic(sample.sample_id, parents):
        record_warnings.add(
            "cycle", f"following labels.variant_of leads from {quote_text(sample.sample_id)} back to itself"
        )
    if sample.labels.get("scenario") is None:
        record_warnings.add(
            "scenario", "labels.variant_of without labels.scenario: no metric knows what kind of variant"
        )


def _is_cyclic(start: str, parents: Mapping[str, str | None]) -> bool:
    seen: set[str] = set()
    at = parents.get(start)
    while at is not None and at != start and at not in seen:
        seen.add(at)
        at = parents.get(at)
    return at == start


def _check_names(record_warnings: _RecordWarnings, sample: EvaluationSample) -> None:
    """Warn about names that are similar to the names that metrics use."""
    for holder, names, values in (
        ("labels", KNOWN_LABELS, sample.labels),
        ("metadata", KNOWN_METADATA, sample.metadata),
    ):
        for key in values:
            near = _close_match(key, names)
            if near is not None and near not in values:
                record_warnings.add(f"{holder}.{key}", f"{holder} has {quote_text(key)}; did you mean {near!r}?")
    scenario = sample.labels.get("scenario")
    if isinstance(scenario, str) and (near := _close_match(scenario, KNOWN_SCENARIOS)) is not None:
        record_warnings.add(
            f"scenario {scenario}", f"labels.scenario is {quote_text(scenario)}; did you mean {near!r}?"
        )


@lru_cache(maxsize=4096)  # few distinct names, repeated in every sample
def _close_match(name: str, names: Sequence[str]) -> str | None:
    if name in names or len(name) > 40:
        return None
    plain = name.lower().replace("-", "_").replace(" ", "_")
    return next(iter(get_close_matches(plain, names, n=1, cutoff=0.85)), None)


def output_problems(path: Path, outputs: Sequence[ParsedOutput], *, repeats: bool = True) -> list[Problem]:
    """Return problems of valid outputs that scoring would reject.

    Without ``repeats``, as under the conventions of TREC, a document that was retrieved twice is a problem.
    """
    found = [Problem(path, read.line, MISSING_RETRIEVED, read.record) for read in outputs_missing_ranking(outputs)]
    for read in () if repeats else outputs:
        twice = (
            None
            if read.output.error is not None
            else _first_duplicate([item.doc.doc_id for item in read.output.retrieved])
        )
        if twice is not None:
            sample = quote_text(read.sample_id)
            message = f"{quote_text(twice)} was returned twice for {sample}, which TREC's conventions forbid"
            found.append(Problem(path, read.line, message, read.record))
    return found


def _first_duplicate(ids: Sequence[str]) -> str | None:
    """Return the first repeated id."""
    if len(set(ids)) == len(ids):
        return None
    seen: set[str] = set()
    for one in ids:
        if one in seen:
            return one
        seen.add(one)
    return None


def output_warnings(path: Path, outputs: Sequence[ParsedOutput], *, repeats: bool = True) -> list[Problem]:
    """Return warnings about outputs; with ``repeats``, also about repeated documents."""
    found = DataWarnings()
    some_have_text = any(item.doc.text for read in outputs for item in read.output.retrieved)
    for read in outputs:
        output, record_warnings = read.output, _RecordWarnings(found, path, read)
        ranks = [item.rank for item in output.retrieved]
        if ranks != sorted(ranks):
            record_warnings.add("rank", RANK_CONTRADICTION)
        elif ranks and ranks[0] < 1:
            record_warnings.add("rank", f"'rank' is {ranks[0]}; ranks count from 1, and the list order is what counts")
        ids = [item.doc.doc_id for item in output.retrieved]
        if repeats and (twice := _first_duplicate(ids)) is not None:
            record_warnings.add(
                "twice", f"'retrieved' holds {quote_text(twice)} twice; it counts once, at its first position"
            )
        for key, seconds in output.timings.items():
            if seconds < 0 and key != STARTED:
                record_warnings.add(f"timings.{key}", f"timings.{key} is negative: {seconds:g}")
        answered = output.error is None and output.response is not None and output.response.text.strip()
        if answered and some_have_text and ids and not any(item.doc.text for item in output.retrieved):
            record_warnings.add("text", "there is an answer but no text of any document to compare it with")
    return found.summarize()


# --- counts of fields: annotations, labels, scenarios, timings -------------------------------------------------------

SAMPLE_CHECKS: dict[str, Callable[[EvaluationSample], bool]] = {
    "relevant_docs": lambda s: s.relevant_docs is not None,
    "empty_gold": lambda s: s.relevant_docs == [],
    "graded": lambda s: any(doc.metadata.get("relevance", 1) != 1 for doc in s.relevant_docs or ()),
    "gold_with_text": lambda s: any(doc.text for doc in s.relevant_docs or ()),
    "gold_with_span": lambda s: any(doc.span is not None for doc in s.relevant_docs or ()),
    "candidate_docs": lambda s: s.candidate_docs is not None,
    "reference_answer": lambda s: s.reference_answer is not None,
    "several_references": lambda s: len(s.references) > 1,
    "structured_reference": lambda s: s.reference_answer is not None and s.reference_answer.structured is not None,
    "history": lambda s: bool(s.history),
    "cluster_id": lambda s: s.cluster_id is not None,
    "variants": lambda s: s.labels.get("variant_of") is not None,
    "unanswerable": lambda s: is_unanswerable(s) is True,
}
"""The checks that are counted, by the names in reports; labels and metadata are counted by key."""

OUTPUT_CHECKS: dict[str, Callable[[SystemOutputs], bool]] = {
    "retrieved": lambda o: bool(o.retrieved),
    "documents_with_text": lambda o: any(item.doc.text for item in o.retrieved),
    "scores": lambda o: any(item.score is not None for item in o.retrieved),
    "response": lambda o: o.response is not None,
    "empty_response": lambda o: o.response is not None and not o.response.text.strip(),
    "structured_response": lambda o: o.response is not None and o.response.structured is not None,
    "error": lambda o: o.error is not None,
    "refused": lambda o: bool(o.refused),
    "citations": lambda o: o.citations is not None or (o.response is not None and o.response.sentences is not None),
    "steps": lambda o: bool(o.steps),
    "usage": lambda o: bool(o.usage),
    "repeat": lambda o: o.repeat != 0,
}


def count_samples(samples: Iterable[EvaluationSample]) -> dict[str, Any]:
    """Count the samples, and how many have each annotation; labels, metadata and scenarios by key."""
    counts: Counter[str] = Counter()
    labels: Counter[str] = Counter()
    metadata: Counter[str] = Counter()
    scenarios: Counter[str] = Counter()
    variants: Counter[str] = Counter()
    for sample in samples:
        counts["samples"] += 1
        counts.update(name for name, check in SAMPLE_CHECKS.items() if check(sample))
        labels.update(map(str, sample.labels))
        metadata.update(map(str, sample.metadata))
        scenario = sample.labels.get("scenario")
        if scenario is not None:
            scenarios[str(scenario)] += 1
        if sample.labels.get("variant_of") is not None:
            variants["(none)" if scenario is None else str(scenario)] += 1
    return {
        "samples": counts["samples"],
        **{name: counts[name] for name in SAMPLE_CHECKS},
        "variants_by_scenario": dict(variants),
        "scenarios": dict(scenarios),
        "labels": dict(labels),
        "metadata": dict(metadata),
    }


def count_outputs(outputs: Iterable[SystemOutputs]) -> dict[str, Any]:
    """Count the outputs, and how many have each field; timings by key."""
    counts: Counter[str] = Counter()
    timings: Counter[str] = Counter()
    for output in outputs:
        counts["outputs"] += 1
        counts.update(name for name, check in OUTPUT_CHECKS.items() if check(output))
        timings.update(list(output.timings))
    return {"outputs": counts["outputs"], **{name: counts[name] for name in OUTPUT_CHECKS}, "timings": dict(timings)}


# --- supported targets and metrics, and what is missing for the others -----------------------------------------------

_DOCUMENT = Document("?", "?", {"embedding": [1.0]}, span=(0, 1))
COMPLETE_OUTPUT = SystemOutputs(
    [RetrievedDocument(_DOCUMENT, 1.0, 1), RetrievedDocument(_DOCUMENT, 1.0, 2)],
    Response("?", {}, sentences=[{"text": "?", "citations": ["?"]}]),
    {"end_to_end": 1.0},
    citations=["?"],
)
"""An output with every field: metrics that cannot run even with it lack data in the samples."""

_SAMPLE_FIELDS = ("relevant_docs", "candidate_docs", "reference_answer")
_OUTPUT_FIELDS = ("retrieved", "response", "timings", "citations")
_T = TargetCategory
_NOT_APPLICABLE = {  # the fields exist, but no sample is applicable
    _T.GENERATION_FAITHFULNESS: (
        "no retrieved document has a text, no output has citations, and no sample says what an answer must contain "
        "(metadata.must_contain, metadata.forbidden)"
    ),
    _T.NOISE_ROBUSTNESS: (
        "no sample has labels.variant_of and a noise scenario (labels.scenario 'paraphrase' or 'typo'), "
        "and none has labels.noise_ratio"
    ),
    _T.NEGATIVE_REJECTION: (
        "no sample is marked as unanswerable (labels.scenario 'unanswerable'), and none has labels.answerable"
    ),
    _T.COUNTERFACTUAL_ROBUSTNESS: (
        "no sample has labels.variant_of and the scenario 'counterfactual', and none comes with false documents "
        "(metadata.wrong_answer, or labels.scenario 'false_documents')"
    ),
}


@dataclass(frozen=True, slots=True)
class TargetSupport:
    """One target: the metrics that the data supports, or what is missing for them."""

    target: TargetCategory
    metrics: tuple[str, ...]
    """Specs, as ``auepora score`` runs them by default."""
    missing: str = ""
    timings_known: bool = True
    """Whether the keys in the specs, such as timing keys, come from the data."""

    @property
    def title(self) -> str:
        """The title of the target."""
        return TARGETS[self.target].title

    @property
    def patterns(self) -> list[str]:
        """The patterns of the metrics, each once: ``recall@k``."""
        infos = [(spec, metric_info(spec)) for spec in self.metrics]
        return list(dict.fromkeys(spec if info.keys and self.timings_known else info.pattern for spec, info in infos))


def no_support(why: str) -> list[TargetSupport]:
    """Return every target without a metric, for the same reason."""
    return [TargetSupport(target, (), why) for target in TARGETS]


def supported_targets(
    samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs | None] | None, *, retrieves: bool = True
) -> list[TargetSupport]:
    """Return every target, with its applicable metrics or the missing data.

    ``outputs`` are in the order of the samples; ``None`` means any outputs. ``retrieves``: whether the outputs have
    rankings at all.
    """
    checked = [COMPLETE_OUTPUT] * len(samples) if outputs is None else outputs
    runs = suggest_metrics(samples, checked) if samples else []
    if not retrieves:
        runs = [spec for spec in runs if "retrieved" not in _fields_read(spec)]
    available = {
        "retrieved": retrieves and any(output is not None and output.retrieved for output in checked),
        "response": any(output is not None and output.response is not None for output in checked),
        "timings": any(output is not None and output.timings for output in checked),
        "citations": any(_cites(output) for output in checked),
    }
    fields = {name for name in _SAMPLE_FIELDS if any(getattr(sample, name) is not None for sample in samples)}
    present = {name for name, there in available.items() if there}
    by_target: dict[TargetCategory, list[str]] = {target: [] for target in TARGETS}
    for spec in runs:
        by_target[metric(spec).target].append(spec)
    specs = specs_for(_SAMPLE_FIELDS, _OUTPUT_FIELDS, timing_keys=["end_to_end"]) if not all(by_target.values()) else []
    others = [built for built in map(metric, specs) if isinstance(built, BatchMetric)]
    return [
        TargetSupport(
            target,
            tuple(own),
            ""
            if own
            else _missing_data(target, [one for one in others if one.target is target], samples, fields, present),
            timings_known=outputs is not None,
        )
        for target, own in by_target.items()
    ]


def _cites(output: SystemOutputs | None) -> bool:
    if output is None:
        return False
    return output.citations is not None or (output.response is not None and output.response.sentences is not None)


def _fields_read(spec: str) -> frozenset[str]:
    built = metric(spec)
    return built.metadata.reads if isinstance(built, BatchMetric) else frozenset()


def _missing_data(
    target: TargetCategory,
    metrics: Sequence[BatchMetric],
    samples: Sequence[EvaluationSample],
    fields: Collection[str],
    outputs_fields: Collection[str],
) -> str:
    """Return what is missing for the metric of the target that lacks the least."""
    best: list[str] | None = None
    for built in metrics:
        lacks = [f"no sample has {name}" for name in built.required_fields() if name not in fields]
        lacks += [
            f"no output has {_FIELD_NAMES.get(name, name)}"
            for name in sorted(built.metadata.reads)
            if name not in outputs_fields
        ]
        if best is not None and len(lacks) >= len(best):
            continue
        if not any(built.is_applicable(sample, COMPLETE_OUTPUT) for sample in samples):
            lacks.insert(0, _NOT_APPLICABLE.get(target, "nothing in the samples is of use to it"))
        if best is None or len(lacks) < len(best):
            best = lacks
    # Without a missing field, the outputs have all fields but no content, such as documents without text.
    return "; ".join(best or [_NOT_APPLICABLE.get(target, "nothing in the outputs is of use to it")])


_FIELD_NAMES = {"retrieved": "retrieved documents", "response": "a response"}
