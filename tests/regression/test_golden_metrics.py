"""Golden values of every registered metric over one batch: value, signature, details, interval, slices, scores and outcomes."""

import math
import re
from typing import Any

import pytest

from auepora_eval import EvaluationSample, SystemOutputs, evaluate, evaluate_stream, metric
from auepora_eval.core.metrics_base import RunInfo
from auepora_eval.core.registry import metric_infos
from auepora_eval.engine.repeats import evaluate_repeats
from auepora_eval.errors import DuplicateIdError
from helpers.golden import check_golden, key_paths
from helpers.golden_metrics import (
    MODEL_SPECS,
    RANKING,
    SPECS,
    load_outputs,
    load_samples,
    quiet,
    record,
    spec_text,
    waves,
)
from helpers.requirements import need
from helpers.tiny_models import made

SAMPLES, OUTPUTS = load_samples(), load_outputs()
PRESETS = ("paper", "paper-positives", "golden", "client", "trec")
FEW = (
    "recall@5", "map", "exact_match", "token_f1", "bleu", "chrf", "mean_latency", "quantile_latency", "throughput", "rejection_precision",
    "rejection_f1", "noise_robustness", "distinct_n", "citation_coverage",
)  # fmt: skip
"""Metrics of every kind of reducer: means, proportions, sums, quantiles, pairs."""


def test_recorded_metrics_are_registered() -> None:
    """A metric that is added later is not recorded here; none of the recorded ones may disappear."""
    assert {*SPECS, *MODEL_SPECS} <= set(metric_infos())


@pytest.mark.parametrize("place", range(5), ids=lambda place: f"wave {place + 1}")
def test_values(place: int) -> None:
    """All metrics with the default conventions; the first spec of each also by slice."""
    specs = list(waves(SPECS))[place]
    slices = "labels.lang" if place == 0 else ()
    with quiet():
        results = evaluate(SAMPLES, OUTPUTS, [metric(spec, **options) for spec, options in specs], slices=slices)
    check_golden(f"metrics/values_{place + 1}.json", record(results, specs))


def test_there_are_five_waves() -> None:
    assert len(list(waves(SPECS))) == 5


@pytest.mark.parametrize("preset", PRESETS)
def test_values_by_preset(preset: str) -> None:
    """Ranking metrics under the other presets; those whose signature and result are the default's are only named."""
    specs: list[tuple[str, dict[str, Any]]] = [*((spec, {}) for spec in RANKING), ("err", {"max_grade": 3})]
    samples = [one for one in SAMPLES if one.sample_id != "s14-duplicates"] if preset == "trec" else SAMPLES
    metrics = [metric(spec, **options) for spec, options in specs]
    with quiet():
        found = record(evaluate(samples, OUTPUTS, metrics, conventions=preset), specs)
        default = record(evaluate(samples, OUTPUTS, metrics), specs)
    changed = {name: one for name, one in found.items() if one != default[name]}
    check_golden(
        f"metrics/preset_{preset}.json",
        {"changed": changed, "as_default": [one for one in found if one not in changed]},
    )


def test_duplicates_are_an_error_under_trec() -> None:
    with pytest.raises(DuplicateIdError, match="s14-duplicates"):
        evaluate(SAMPLES, OUTPUTS, ["recall@5"], conventions="trec")


def test_signatures_in_a_run() -> None:
    """What a run adds to signatures: the depth that was asked for, the concurrency, other gold; and failures left out."""
    run = RunInfo(top_k=3, concurrency=4, gold="pool-1")
    found: dict[str, str | None] = {}
    for specs in waves(SPECS):
        metrics = [metric(spec, **options) for spec, options in specs]
        with quiet():
            results = evaluate(SAMPLES[:1], OUTPUTS, _without_judge(metrics), run=run)
        signatures = {result.name: result.signature for result in results}
        found |= {
            spec_text(spec, options): signatures[one.name]
            for (spec, options), one in zip(specs, metrics, strict=True)
            if one.name in signatures
        }
    check_golden("metrics/signatures_in_a_run.json", found)


def _without_judge(metrics: list[Any]) -> list[Any]:
    """Metrics that need no gold beyond the first sample's, and no judge: those are asked elsewhere."""
    needed = {name for one in metrics for name in one.required_fields()}
    assert needed <= {"relevant_docs", "reference_answer", "candidate_docs"}
    return [one for one in metrics if not hasattr(one, "critic")]


def test_system_failures_left_out() -> None:
    specs: list[tuple[str, dict[str, Any]]] = [
        (spec, {"on_system_failure": "exclude", "missing": "zero"}) for spec in FEW if spec != "quantile_latency"
    ]
    with quiet():
        results = evaluate(SAMPLES, OUTPUTS, [metric(spec, **options) for spec, options in specs])
    check_golden("metrics/failures_left_out.json", record(results, specs))


def test_repeats() -> None:
    """Two outputs per sample: means per sample, and the spread of the repeats."""
    second = {**OUTPUTS, **load_outputs("second_outputs.jsonl")}
    repeats = [lambda each=each: [each.get(one.sample_id) for one in SAMPLES] for each in (OUTPUTS, second)]
    specs: list[tuple[str, dict[str, Any]]] = [(spec, {}) for spec in FEW]
    with quiet():
        results = evaluate_repeats(SAMPLES, repeats, list(FEW))
    check_golden("metrics/repeats.json", record(results, specs))


def test_without_scores() -> None:
    """A stream whose scores are not kept, and an evaluation of nothing."""
    pairs: list[tuple[EvaluationSample, SystemOutputs | None]] = [(one, OUTPUTS.get(one.sample_id)) for one in SAMPLES]
    with quiet():
        streamed = evaluate_stream(pairs, list(FEW), batch_size=5, keep_scores=False).to_dict()
    nothing = evaluate([], [], list(FEW)).to_dict(per_query=True)
    check_golden("metrics/without_scores.json", {"streamed": streamed, "of_nothing": nothing})


def test_rare_outcomes() -> None:
    """Outcomes of samples and outputs that metrics cannot use: bad annotations, cycles of variants, odd vectors."""
    samples, outputs = load_samples("odd_samples.jsonl"), load_outputs("odd_outputs.jsonl")
    # Values that no file can contain.
    outputs["o16-timing"].timings["retrieval"] = math.nan
    outputs["o17-refused"].refused = "maybe"  # type: ignore[assignment]
    outputs["o18-citations"].citations = [5]  # type: ignore[list-item]
    found: dict[str, Any] = {}
    for specs in waves(SPECS):
        with quiet():
            results = evaluate(samples, outputs, [metric(spec, **options) for spec, options in specs])
        found |= {name: one["outcomes"] for name, one in record(results, specs).items()}
    check_golden("metrics/rare_outcomes.json", found)


def test_keys_of_the_results_document() -> None:
    with quiet():
        results = evaluate(SAMPLES, OUTPUTS, ["recall@5", "token_f1"], slices=["labels.lang", "labels.topic"])
    check_golden("metrics/results_keys.json", key_paths(results.to_dict(per_query=True)))


@pytest.mark.part("models")
def test_values_of_model_metrics() -> None:
    """Metrics that need a model, with tiny models."""
    need("sentence_transformers")
    found: dict[str, Any] = {}
    for specs in waves(MODEL_SPECS):
        with quiet():
            results = evaluate(SAMPLES, OUTPUTS, [metric(spec, **_with_models(options)) for spec, options in specs])
        found |= record(results, specs)
    for one in found.values():
        # The digest of a tiny model changes with the version of transformers, which its configuration names.
        one["signature"] = re.sub(r"-[0-9a-f]{8}\b", "-DIGEST", one["signature"])
    # Models compute in single precision, and processors round differently.
    check_golden("metrics/values_models.json", found, rel=1e-4)


def _with_models(options: Any) -> Any:
    if not isinstance(options, dict):
        return options
    return {
        key: made(value) if key in ("model", "model_type", "nli") and isinstance(value, str) else _with_models(value)
        for key, value in options.items()
    }
