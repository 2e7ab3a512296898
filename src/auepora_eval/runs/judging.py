"""Judge sessions of stored runs: judgements are stored as they arrive, and so is the judge usage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..core.metrics_base import BatchMetric, Metric, RunInfo, run_signature
from ..core.results import Results
from ..core.types import EvaluationSample
from ..errors import JudgeError, StoreError
from ..judge.cache import request_key
from ..judge.critic import Critic, Judgement, JudgePolicy, JudgeRequest, critic_name
from ..judge.limits import UsageLog
from ..judge.metric import judged_parts
from ..judge.ratings import returns_number_only, supports_logprobs
from ..judge.session import JudgeSession
from ..plan.resources import PlannedJudges, judges_in_plan, used_resources
from ..runtime.imports import store_folders
from ..runtime.secrets import Secrets
from ..store.rows import StoredJudgement

if TYPE_CHECKING:
    from ..store.records import RunRecord
    from ..store.runs import RunStore


JUDGEMENTS_PER_WRITE = 200
"""Number of judgements per write to the store."""
JudgeProgress = Callable[[int, int, int], None]
"""Called after every judgement with the number of judgements done, requested so far, and failed."""


def ignore_progress() -> JudgeProgress:
    """A callback that does nothing."""
    return lambda _done, _requested, _failed: None


def judged_signatures(metrics: Sequence[Metric], run: RunInfo) -> dict[str, str]:
    """The signatures of judge metrics by name, including those wrapped by other metrics."""
    found: dict[str, str] = {}
    for outer in metrics:
        if isinstance(outer, BatchMetric):
            for one in judged_parts(outer):
                bound = one.for_run(run)
                found.setdefault(one.name, str(run_signature(bound, run)))
    return found


def judges_of_run(
    store: RunStore, record: RunRecord, specs: Any, *, changes: Mapping[str, Any] | None = None
) -> PlannedJudges:
    """The judges of the plan of a run, for these metrics.

    A stored plan has no folder: its relative paths start in the folder of the store if that is a file, else in the
    current folder.
    """
    folder = store_folders(store.file)[0]
    label = f"the plan of {record.run_id}"
    return judges_in_plan(record.plan, folder, label=label, names=set(used_resources(specs)), changes=changes)


def record_usage(results: Results, accounts: UsageLog) -> None:
    """Add the judge usage to each result, as ``details["judging"]``."""
    for result in results:
        usage = accounts.metrics.get(result.name)
        if usage is not None:
            result.details["judging"] = usage.to_dict()


class RunJudgeSession(JudgeSession):
    """A session whose judgements are stored with a run, in batches."""

    def __init__(
        self,
        policy: JudgePolicy,
        store: RunStore,
        record: RunRecord,
        *,
        signatures: Mapping[str, str],
        samples: Sequence[EvaluationSample],
        repeat: Callable[[], int],
        progress: JudgeProgress,
        secrets: Iterable[str] = (),
    ) -> None:
        super().__init__(policy, on_progress=self._on_progress, secrets=Secrets(secrets))
        self._store, self._run_id = store, record.run_id
        self._signatures = signatures
        self._positions = {sample.sample_id: position for position, sample in enumerate(samples)}
        self._repeat, self._callback, self._num_failed = repeat, progress, 0
        self._rows: list[StoredJudgement] = []
        self._store_error: StoreError | None = None

    async def ask(self, critic: Critic, request: JudgeRequest) -> Judgement:
        """Request a judgement and store it, or the error."""
        try:
            judgement = await super().ask(critic, request)
        except JudgeError as error:
            self._add_row(critic, request, error)
            raise
        self._add_row(critic, request, judgement)
        return judgement

    def reused(self, critic: Critic, request: JudgeRequest, outcome: Judgement | JudgeError) -> None:
        """Store a judgement that a metric shares with another one."""
        super().reused(critic, request, outcome)
        self._add_row(critic, request, outcome)

    @contextmanager
    def store_judgements(self) -> Iterator[None]:
        """Store the judgements made inside, replacing earlier ones; at the end, store the judge usage."""
        self._store.clear_judgements(self._run_id, list(self._signatures.items()))
        try:
            yield
        finally:
            self._flush()
            if self._store_error is not None:
                raise self._store_error
            self._store.add_usage(self._run_id, self.usage_log.to_dict())

    def _add_row(self, critic: Critic, request: JudgeRequest, outcome: Judgement | JudgeError) -> None:
        reason = outcome.reason if isinstance(outcome, JudgeError) else None
        self._num_failed += reason is not None
        position = self._positions.get(request.sample_id)
        if position is None:
            return  # not about a single sample of the run
        self._rows.append(
            StoredJudgement(
                request.metric,
                self._signatures.get(request.metric, ""),
                position,
                request_key(request),
                self._repeat(),
                request.repeat,
                critic_name(critic),
                request.prompt_id,
                reason,
                _without_empty(
                    {
                        "about": _about(request),
                        **_outcome_dict(outcome),
                        "one_number": returns_number_only(critic),
                        "logprobs": supports_logprobs(critic),
                    }
                ),
            )
        )
        if len(self._rows) >= JUDGEMENTS_PER_WRITE:
            self._flush()

    def _on_progress(self, done: int, requested: int) -> None:
        self._callback(done, requested, self._num_failed)

    def _flush(self) -> None:
        rows, self._rows = self._rows, []
        try:
            if rows and self._store_error is None:
                self._store.put_judgements(self._run_id, rows)
        except StoreError as error:  # raised at the end, so that paid judgements are still counted and cached
            self._store_error = error


def _without_empty(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value not in (None, "", False)}


def _about(request: JudgeRequest) -> dict[str, Any] | None:
    return {name: value for name, value in request.about.items() if value} or None


def _outcome_dict(judgement: Judgement | JudgeError) -> dict[str, Any]:
    if isinstance(judgement, JudgeError):
        return {"message": judgement.message, "raw": judgement.raw}
    return {
        "answer": dict(judgement.answer),
        "raw": judgement.raw,
        "usage": [judgement.usage.prompt_tokens, judgement.usage.completion_tokens],
        "weighted": judgement.weighted,
        "mass": judgement.mass,
        "repaired": judgement.repaired,
        "cached": judgement.cached,
    }
