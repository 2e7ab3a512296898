"""The fast path against the plain definitions, for every registered metric under every preset."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from typing import Any

from ..core.conventions import PRESETS
from ..core.engine import evaluate
from ..core.metrics_base import BatchMetric
from ..core.registry import MetricInfo, metric, metric_infos
from ..core.types import EvaluationSample, SystemOutputs
from .cases import made_pairs
from .report import Check, Tally

__all__ = ["plain_checks", "specs_to_check"]

# Options that a metric cannot do without, for the metrics that have such.
_NEEDED: dict[str, Any] = {"max_grade": 4}
_VARIANTS: dict[str, list[dict[str, Any]]] = {
    "aqwv": [{}, {"form": "program"}, {"p_fa": "collection", "corpus_size": 100}, {"beta": 2.5}],
    "ndcg": [{}, {"gain_scheme": "exponential"}, {"gain_scheme": "linear"}],
    "rbp": [{}, {"p": 0.5}],
    "rougeL_answer": [{}, {"use_stemmer": False}],
}
_CHANGES: list[dict[str, Any]] = [{}, {"min_relevance": 2}, {"depth": 4}, {"k_policy": "effective"}]
_KS = (1, 3, 10)


def specs_to_check(info: MetricInfo) -> list[dict[str, dict[str, Any]]]:
    """The forms of a metric that are checked: several cut-offs, its variants, every preset, single choices changed."""
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
    return [
        {name: {**needed, **variant, "conventions": preset, **change}}
        for name in names
        for variant in _VARIANTS.get(info.name, [{}])
        for preset in PRESETS
        for change in _CHANGES
    ]


def plain_checks(count: int, *, seed: int) -> Iterator[Check]:
    """One row per registered metric that has a plain definition."""
    pairs = {repeats: made_pairs(count, seed=seed, repeats=repeats) for repeats in (True, False)}
    for info in metric_infos().values():
        tally = Tally(info.name, "plain definition")
        for spec in specs_to_check(info):
            built = metric(spec)
            if not isinstance(built, BatchMetric):
                break
            _compare(built, spec, pairs[built.rules.duplicates == "first"], tally)
        if tally.cases:
            yield tally.check()


def _compare(
    built: BatchMetric, spec: object, pairs: list[tuple[EvaluationSample, SystemOutputs]], tally: Tally
) -> None:
    samples, outputs = [sample for sample, _ in pairs], [output for _, output in pairs]
    (result,) = evaluate(samples, outputs, [built])
    wanted = []
    for (sample, output), ours in zip(pairs, result.scores or (), strict=True):
        reference = built.reference_score(sample, output)
        if reference is None:
            return
        tally.add(ours, reference.value, f"{spec}, {sample.sample_id}")
        wanted.append(reference.value)
    numbers = [value for value in wanted if value is not None]
    if built.reducer.name == "mean":
        tally.add(result.value, math.fsum(numbers) / len(numbers) if numbers else 0.0, f"{spec}, mean")
