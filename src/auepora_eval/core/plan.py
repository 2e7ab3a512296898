"""An evaluation plan: which metrics to run, and whether a dataset can support them."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from importlib import import_module
from itertools import chain
from typing import Any

from ..errors import BadValueError, MissingFieldError
from .conventions import CONVENTION_NAMES, Conventions
from .grouping import group_pairs
from .metrics_base import BatchMetric, Metric, with_name
from .targets import find_targets
from .types import EvaluationSample, SystemOutputs, TargetCategory

__all__ = ["EvaluationPlan", "require_distinct_names", "with_corpus_ids", "with_distinct_names"]

TARGET_METRICS = "auepora_eval.engine.targets"
"""Chooses metrics for targets."""


@dataclass
class EvaluationPlan:
    """The metrics of an evaluation.

    Example:
        >>> plan = EvaluationPlan([metric("recall@1"), metric("token_f1")])
        >>> [result.name for result in evaluate(samples, outputs, plan)]
        ['recall@1', 'token_f1']
    """

    metrics: list[Metric] = field(default_factory=list)
    primary: list[str] = field(default_factory=list, init=False, compare=False)
    """The names of the most important metrics of each target, where targets have chosen the metrics."""
    missing: dict[TargetCategory, str] = field(default_factory=dict, init=False, compare=False)
    """What targets cannot be judged without, and how to add it, where targets have chosen the metrics."""

    @classmethod
    def for_targets(
        cls,
        targets: Iterable[str | TargetCategory],
        samples: Sequence[EvaluationSample],
        outputs: Sequence[SystemOutputs | None] | None = None,
        *,
        judge: object = None,
        conventions: str | Conventions = "auepora",
    ) -> "EvaluationPlan":
        """All metrics that the data supports for targets, such as ``generation_correctness`` or ``correctness``.

        Without ``outputs``, which are in the order of the samples, any are assumed. A ``judge`` computes a further
        metric of most targets. A target that cannot be judged is a warning, and an entry of ``missing``; an error
        where it is all of them.
        """
        engine = import_module(TARGET_METRICS)
        rules = Conventions.of(conventions)
        support = engine.supported_targets(samples, outputs, conventions=rules, targets=find_targets(targets))
        judged = engine.metrics_judged_by(judge, support, rules)
        names = {metric.name for metric in judged}
        plan = cls(engine.metrics_of(support, judged, rules, names))
        plan.primary = list(chain.from_iterable(found.primary_with(names) for found in support))
        plan.missing = {found.target: found.problem for found in support if found.missing}
        return plan

    def grouped_by_target(self) -> dict[TargetCategory, list[Metric]]:
        """The metrics by target, in plan order."""
        return group_pairs((metric.target, metric) for metric in self.metrics)

    def validate_dataset(self, samples: Sequence[EvaluationSample]) -> None:
        """Raise ``MissingFieldError`` if a metric needs an annotation that no sample has.

        Some samples may lack it: the metric skips those.
        """
        if not samples:
            return
        for metric in self.metrics:
            if isinstance(metric, BatchMetric):
                metric.check_annotations(samples)
            for name in metric.required_fields():
                if all(getattr(sample, name, None) is None for sample in samples):
                    raise MissingFieldError(name, metric.name)


def with_distinct_names(metrics: Sequence[Metric]) -> list[Metric]:
    """The metrics; those with the same name get one that shows the options they differ in: ``distinct_n[n=1]``."""
    groups = group_pairs((metric.name, metric) for metric in metrics)
    return [_with_options_in_name(metric, groups[metric.name]) for metric in metrics]


def _with_options_in_name(metric: Metric, same_name: Sequence[Metric]) -> Metric:
    """The metric, with a longer name where it differs from others of the same name."""
    if len(same_name) == 1 or len({type(other) for other in same_name}) > 1:
        return metric
    own = _shown_options(metric)
    common = set(own.items()).intersection(*(_shown_options(other).items() for other in same_name))
    shown = [f"{key}={value}" for key, value in own.items() if value and (key, value) not in common]
    return with_name(metric, f"{metric.name}[{','.join(shown)}]") if shown else metric


def _shown_options(metric: Metric) -> dict[str, str]:
    """The options of a metric as its name can show them; empty where it cannot."""
    options = {key: getattr(metric, key, None) for key in inspect.signature(type(metric)).parameters}
    conventions, overrides = options.pop("conventions", None), dict(options.pop("overrides", None) or ())
    shown = {key: _option_text(value) for key, value in options.items() if key != "name"}
    shown |= dict.fromkeys(CONVENTION_NAMES, "")
    shown |= {key: _option_text(overrides[key]) for key in CONVENTION_NAMES if key in overrides}
    return shown | {"conventions": conventions.name if isinstance(conventions, Conventions) else ""}


def _option_text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    text = f"{value}" if isinstance(value, (str, int, float)) else ""
    return "" if set(text) & set("[],=|") else text


def with_corpus_ids(metrics: Sequence[Metric], corpus_ids: Callable[[], Iterable[str]]) -> list[Metric]:
    """The metrics; those with an unset option ``corpus_ids`` get the ids of the corpus."""
    chosen: list[Metric] = []
    for metric in metrics:
        if is_dataclass(metric) and getattr(metric, "corpus_ids", ()) is None:
            filled: Any = replace(metric, corpus_ids=tuple(corpus_ids()))
            chosen.append(filled if filled.name == metric.name else with_name(filled, metric.name))
        else:
            chosen.append(metric)
    return chosen


def require_distinct_names(metrics: Sequence[Metric]) -> None:
    """Raise where two metrics have the same name."""
    seen: set[str] = set()
    for metric in metrics:
        if metric.name in seen:
            other = f"{metric.name.replace('@', '_at_')}_b"
            raise BadValueError(
                f"two metrics are called '{metric.name}'; give one of them another name with 'as', "
                f'such as {{"{metric.name}": {{"as": "{other}"}}}}, or after -m {metric.name}:as={other}'
            )
        seen.add(metric.name)
