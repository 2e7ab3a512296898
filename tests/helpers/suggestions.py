"""The default metrics of samples and outputs in memory."""

from collections.abc import Sequence

from auepora_eval.core.conventions import Conventions
from auepora_eval.core.types import EvaluationSample, SystemOutputs
from auepora_eval.engine.suggest import AvailableFields


def suggest_metrics(
    samples: Sequence[EvaluationSample],
    outputs: Sequence[SystemOutputs | None],
    *,
    conventions: str | Conventions = "auepora",
) -> list[str]:
    """Specs of every registered metric that these samples and outputs support, grouped by target."""
    fields = AvailableFields()
    fields.add(samples, outputs)
    return fields.specs(conventions)
