"""A batch that nobody could score, or even read: under every metric its samples failed, and the rest stands."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

import pytest

from auepora_eval import evaluate
from auepora_eval.core.metric_hooks import asks_models
from auepora_eval.core.metrics_base import BatchMetric, with_name
from auepora_eval.core.registry import Spec
from auepora_eval.engine.evaluate import evaluate_sources
from auepora_eval.engine.executors import Scorable, ScoredBatch, SerialExecutor
from auepora_eval.engine.failed_batches import WORKER_DIED, BatchFailure, failed_batch, unreadable_batch
from auepora_eval.errors import BadOptionError, MissingFieldError
from helpers.metric_examples import SPECS, built
from helpers.ray_cases import rows, sources

LOST = BatchFailure(WORKER_DIED, "not measured: every worker died")
SLICED: list[Spec] = [
    {"sliced": {"base": {"noise_robustness": {"base": "token_f1"}}, "where": {"labels.lang": "de"}}},
]


class _Losing(SerialExecutor):
    """As an executor that lost the second batch."""

    def __init__(self, how: str) -> None:
        self._how = how

    def score(self, batches: Iterable[Scorable], metrics: Sequence[BatchMetric]) -> Iterator[ScoredBatch]:
        for number, batch in enumerate(batches):
            if number != 1:
                yield from super().score([batch], metrics)
            elif self._how == "unread":
                yield unreadable_batch(batch, number, metrics, LOST)
            else:
                yield failed_batch(batch, metrics, LOST)


def usable() -> list[BatchMetric]:
    """The metrics that these samples are annotated for."""
    found: list[BatchMetric] = []
    for number, one in enumerate(map(built, [*SPECS, *SLICED])):
        if isinstance(one, BatchMetric) and not asks_models(one):
            try:
                evaluate(*rows(range(60)), [one])
            except (BadOptionError, MissingFieldError):  # needs an annotation that the data lacks
                continue
            found.append(with_name(one, f"{one.name} {number}"))
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_metric_continues_after_a_failed_batch() -> None:
    metrics = usable()
    assert len(metrics) > 60
    want = evaluate(*rows([*range(20), *range(40, 60)]), metrics)
    alone = [one.name for one in metrics if not one.metadata.needs_all]
    for how, keep in itertools.product(("lost", "unread"), (True, False)):
        got = evaluate_sources(sources(60, 20), metrics, executor=_Losing(how), keep_scores=keep, slices="labels.lang")
        for name in alone:
            assert got.by_name[name].value == pytest.approx(want.by_name[name].value, abs=1e-12, nan_ok=True)
            assert got.by_name[name].details["num_measure_failed"] >= 20
