"""Checks of the fast path against the plain definition of every registered metric, under every preset."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

from ..core.conventions import PRESETS
from ..core.engine import evaluate
from ..core.errors import AueporaWarning
from ..core.judged_metric import judged_parts
from ..core.metrics_base import BatchMetric
from ..core.registry import MetricInfo, metric, metric_infos
from ..core.scores import Scores
from ..core.types import EvaluationSample, SystemOutputs
from .cases import generate_pairs
from .report import MODEL_TOLERANCE, CrossCheck, DeviationTally

__all__ = ["MODEL_OPTIONS", "model_checks", "plain_checks", "specs_to_check"]

MODEL_OPTIONS = {"model", "model_type"}
"""Options that name a model."""

# Values of required options.
_NEEDED: dict[str, Any] = {
    "max_grade": 4,
    "base": "token_f1",
    "where": {"labels.label": "cats"},
    "embed_fn": {"python": f"{__package__}.cases:letter_counts"},
}
_NORMALISATIONS: list[dict[str, Any]] = [
    {},
    *({option: False} for option in ("ignore_case", "ignore_punctuation", "ignore_articles")),
]
_SCENARIOS = ["typo", "paraphrase", "counterfactual"]
_VARIANTS: dict[str, list[dict[str, Any]]] = {
    "aqwv": [{}, {"form": "program"}, {"p_fa": "collection", "corpus_size": 100}, {"beta": 2.5}],
    "bleu": [
        {},
        {"max_order": 2, "lowercase": True},
        *({"smooth_method": method} for method in ("floor", "add-k", "none")),
        *({"tokenize": name} for name in ("none", "char")),
    ],
    "chrf": [{}, {"word_order": 2}, {"char_order": 3, "beta": 1, "lowercase": True}, {"whitespace": True}],
    "citation_coverage": [{}, {"corpus_ids": [f"d{number}" for number in range(7)]}],
    "containment": [{}, {"norm": "lower"}, {"norm": "none"}],
    "context_noise_accuracy": [{}, {"base": "token_f1"}, {"insufficient": "rgb_script"}],
    "counterfactual_consistency": [{}, {"base": "rougeL_answer", "counterfactual_scenarios": _SCENARIOS}],
    "distinct_n": [{}, {"n": 1}, {"n": 3}],
    "error_correction_rate": [
        {},
        {"base": "token_f1", "threshold": 0.1},
        {"over": "all", "insufficient": "rgb_script"},
        {"insufficient": "rgb_fact_script", "cues": ["errors in the documents"]},
    ],
    "error_detection_rate": [{}, {"cues": "rgb_paper"}, {"cues": ["cats", "mat"]}],
    "evidence_overlap": [{}, {"n": 2}, {"n": 3, "k": 2}, {"evidence_source": "relevant"}],
    "exact_match": _NORMALISATIONS,
    "failure_attribution": [{}, {"correct": "token_f1", "correct_from": 0.5, "faithfulness": "evidence_overlap"}],
    "field_accuracy": [{}, {"fields": ["label"]}],
    "label_accuracy": [{}, {"field": "kind"}],
    "misleading_rate": [{}, {"base": "token_f1", "threshold": 0.1}],
    "ndcg": [{}, {"gain_scheme": "exponential"}, {"gain_scheme": "linear"}],
    "noise_robustness": [{}, {"base": "recall@3", "noise_scenarios": _SCENARIOS}, {"base_set": "all"}],
    "quality_given_hit": [{}, {"base": "rouge1_answer"}],
    "quality_given_miss": [{}, {"base": "exact_match"}],
    "negative_rejection_rate": [{}, {"languages": ["en"]}, {"refusal_patterns": ["the mat", "犬"]}],
    "over_refusal_rate": [{}, {"languages": ["ja", "zh"]}],
    "quantile_latency": [{}, {"quantile": 0.5}, {"quantile": 1}, {"quantile": 0.07, "timing_key": "retrieval"}],
    "rbp": [{}, {"p": 0.5}],
    "rejection_f1": [{}, {"languages": ["en"]}, {"refusal_patterns": ["the mat", "犬"]}],
    **{
        f"{name}_{side}": [{}, {"use_stemmer": False}, {"tokenizer": "unicode"}]
        for name in ("rouge1", "rouge2", "rougeL", "rougeLsum")
        for side in ("answer", "query")
    },
    "rouge_scores": [{}, {"variants": ["rouge2", "rougeLsum"]}],
    "structured_validity": [{}, {"schema": {"type": "object", "required": ["n"]}}],
    "support_coverage": [{}, {"k": 2}],
    "throughput": [{}, {"concurrency": 8}, {"by": "clock"}, {"by": "clock", "timing_key": "retrieval"}],
    "token_f1": _NORMALISATIONS,
}
_CHANGES: list[dict[str, Any]] = [{}, {"min_relevance": 2}, {"depth": 4}, {"k_policy": "effective"}]
_KS = (1, 3, 10)
# How many numbers are compared at least, of a metric that has one for many samples together and none for each.
_VALUES = 32


def specs_to_check(info: MetricInfo) -> list[dict[str, dict[str, Any]]]:
    """The checked specs of a metric: several cut-offs, variants, every preset, changed conventions."""
    needed = {
        name: _NEEDED[name]
        for name, parameter in info.options.items()
        if parameter.default is inspect.Parameter.empty and name in _NEEDED
    }
    cuts: list[int | None] = [None]
    if info.at is not None:
        optional = info.parameters[info.at].default is not inspect.Parameter.empty
        cuts = [*_KS, None] if optional else list(_KS)
    names = [info.name if cut is None else f"{info.name}@{cut}" for cut in cuts]
    reads: frozenset[str] = getattr(info.cls, "reads", frozenset())
    # Answer and latency metrics do not depend on the conventions of rankings.
    independent = "timings" in reads or ("response" in reads and "citations" not in reads)
    conventions = [("auepora", {})] if independent else list(product(PRESETS, _CHANGES))
    return [
        {name: {**needed, **variant, "conventions": preset, **change}}
        for name in names
        for variant in _VARIANTS.get(info.name, [{}])
        for preset, change in conventions
    ]


def plain_checks(count: int, *, seed: int) -> Iterator[CrossCheck]:
    """One check per registered metric with a plain definition."""
    pairs = {repeats: generate_pairs(count, seed=seed, repeats=repeats) for repeats in (True, False)}
    for info in metric_infos().values():
        if MODEL_OPTIONS & set(info.options):  # needs a model, and none comes with this library
            continue
        deviations = DeviationTally(info.name, "plain definition")
        specs = specs_to_check(info)
        for spec in specs:
            built = metric(spec)
            if not isinstance(built, BatchMetric) or any(judged_parts(built)):  # a judge has no plain definition
                break
            rows = pairs[built.active_conventions.duplicates == "first"]
            _compare(built, spec, rows, deviations)
            _compare_values(built, spec, rows, deviations, parts=-(-_VALUES // len(specs)))
        if deviations.cases:
            yield deviations.check()


def model_checks(count: int, *, seed: int, model: str) -> Iterator[CrossCheck]:
    """One check per semantic metric with this model: batches against single text pairs."""
    pairs = generate_pairs(count, seed=seed, repeats=True)
    specs: list[dict[str, dict[str, Any]]] = [
        {"sbert_similarity": {"model": model}},
        {"bertscore": {"model_type": model, "num_layers": 4}},
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AueporaWarning)  # texts are truncated in both paths
        for spec in specs:
            built = metric(spec)
            assert isinstance(built, BatchMetric)
            deviations = DeviationTally(built.name, "plain definition", tolerance=MODEL_TOLERANCE)
            _compare(built, spec, pairs, deviations)
            yield deviations.check()


def _compare(
    built: BatchMetric, spec: object, pairs: list[tuple[EvaluationSample, SystemOutputs]], deviations: DeviationTally
) -> None:
    samples, outputs = [sample for sample, _ in pairs], [output for _, output in pairs]
    # Two batches: the first has no graded judgements, for which metrics have a faster path.
    (result,) = evaluate(samples, outputs, [built], batch_size=-(-len(pairs) // 2))
    assert isinstance(result.scores, Scores)
    expected = []
    for row, ((sample, output), computed_score) in enumerate(zip(pairs, result.scores, strict=True)):
        reference = built.reference_score(sample, output)
        if reference is None:
            return
        deviations.add(computed_score, reference.value, f"{spec}, {sample.sample_id}")
        expected.append(reference.value)
        if reference.value is not None and result.scores.stats is not None:
            statistics = built.reference_stats(sample, output)
            for column, by_definition in enumerate(statistics):
                computed = float(result.scores.stats[row, column])
                deviations.add(computed, by_definition, f"{spec}, {sample.sample_id}, {built.stat_names[column]}")
    numbers = [value for value in expected if value is not None]
    if built.reducer.name == "mean":
        deviations.add(result.value, math.fsum(numbers) / len(numbers) if numbers else 0.0, f"{spec}, mean")


def _compare_values(
    built: BatchMetric,
    spec: object,
    pairs: list[tuple[EvaluationSample, SystemOutputs]],
    deviations: DeviationTally,
    *,
    parts: int,
) -> None:
    """Compare the values over growing prefixes of the samples."""
    for part in range(1, parts + 1):
        chosen = pairs[: -(-len(pairs) * part // parts)]
        samples, outputs = [sample for sample, _ in chosen], [output for _, output in chosen]
        expected = built.reference_value(samples, outputs)
        if expected is None:
            return
        result = built.compute(samples, outputs)
        ours = result.value if result.defined else None
        deviations.add(ours, None if math.isnan(expected) else expected, f"{spec}, the first {len(chosen)}")
