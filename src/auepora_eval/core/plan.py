"""An evaluation plan: which metrics to run, and whether a dataset can support them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from .errors import BadValueError, MissingFieldError
from .metrics_base import Metric
from .types import EvaluationSample, TargetCategory

__all__ = ["EvaluationPlan", "require_distinct_names"]


@dataclass
class EvaluationPlan:
    """The metrics of an evaluation."""

    metrics: list[Metric] = field(default_factory=list)

    def grouped_by_target(self) -> dict[TargetCategory, list[Metric]]:
        """The metrics by what they judge, in plan order."""
        groups: dict[TargetCategory, list[Metric]] = {}
        for metric in self.metrics:
            groups.setdefault(metric.target, []).append(metric)
        return groups

    def validate_dataset(self, samples: Sequence[EvaluationSample]) -> None:
        """Raise ``MissingFieldError`` if a metric needs an annotation that no sample has.

        Some samples may lack it: the metric skips those and says so.
        """
        if not samples:
            return
        for metric in self.metrics:
            for name in metric.required_fields():
                if all(getattr(sample, name, None) is None for sample in samples):
                    raise MissingFieldError(name, metric.name)


def require_distinct_names(metrics: Sequence[Metric]) -> None:
    """Raise where two metrics have one name, since their results could not be told apart."""
    seen: set[str] = set()
    for metric in metrics:
        if metric.name in seen:
            other = f"{metric.name.replace('@', '_at_')}_b"
            raise BadValueError(
                f"two metrics are called '{metric.name}'; give one of them another name with 'as', "
                f'such as {{"{metric.name}": {{"as": "{other}"}}}}, or after -m {metric.name}:as={other}'
            )
        seen.add(metric.name)
