"""Counts of the fields of samples and outputs: annotations, labels, scenarios, timings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ...core.types import EvaluationSample, SystemOutputs
from ...features.refusals import is_unanswerable

__all__ = ["count_outputs", "count_samples"]

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
