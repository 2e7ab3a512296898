"""What judging would take, before anything is spent: the metrics ask, and their questions are only counted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.batch import Batch
from ..core.errors import JudgeError
from ..core.judged_metric import judge_batch, judged_parts
from ..core.metrics_base import BatchMetric, Metric
from ..core.types import EvaluationSample, SystemOutputs
from .budget import TokenEstimator, model_name
from .cache import JudgementCache, critic_cache_key, request_digest
from .critic import Critic, Judgement, JudgeRequest, Usage, critic_name
from .loop import LoopThread
from .policy import JudgePolicy

__all__ = ["CriticTime", "Preview", "PreviewSession", "UsageEstimate", "preview"]

_COMPLETION = 200
"""Tokens of an answer, where no judgement is known to learn from: a score and a sentence or two."""
_CALL_SECONDS = 1.0
_TOKENS_PER_SECOND = 50.0
"""What a call is assumed to take where the cache does not tell: a second, and the time to write the answer."""


@dataclass(slots=True)
class UsageEstimate:
    """What one metric, or all together, would ask."""

    judgements: int = 0
    """Questions put to a judge."""
    cached: int = 0
    """Those whose answer is known."""
    shared: int = 0
    """Those that somebody else asks as well."""
    calls: int = 0
    """Requests that would be made, if none is repeated."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    """``None`` where no price is known."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(slots=True)
class CriticTime:
    """How long the calls to one critic would take."""

    concurrency: int
    throughput: float | None = None
    """Judgements a second, where the cache tells."""
    calls: int = 0
    completion_tokens: int = 0

    @property
    def seconds_per_call(self) -> float:
        """What one call is assumed to take."""
        return _CALL_SECONDS + self.completion_tokens / self.calls / _TOKENS_PER_SECOND if self.calls else 0.0

    @property
    def seconds(self) -> float:
        """All calls, as many at once as the plan allows."""
        if self.throughput is not None:
            return self.calls / self.throughput
        return math.ceil(self.calls / self.concurrency) * self.seconds_per_call


@dataclass(slots=True)
class Preview:
    """What judging would take, by metric and in all. Tokens, cost and time are guesses."""

    total: UsageEstimate = field(default_factory=UsageEstimate)
    metrics: dict[str, UsageEstimate] = field(default_factory=dict)
    models_without_price: list[str] = field(default_factory=list)
    lower_bound_metrics: list[str] = field(default_factory=list)
    """Metrics that ask on after an answer, and got none here: what they would ask then is not counted."""
    times: dict[str, CriticTime] = field(default_factory=dict)
    """By critic; several are asked at the same time."""

    @property
    def seconds(self) -> float:
        """How long judging would take."""
        return max((one.seconds for one in self.times.values()), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "total": self.total.to_dict(),
            "metrics": {name: share.to_dict() for name, share in self.metrics.items()},
            "models_without_price": self.models_without_price,
            "lower_bound_for": self.lower_bound_metrics,
            "seconds": round(self.seconds, 1),
            "seconds_measured": bool(self.times) and all(one.throughput is not None for one in self.times.values()),
        }

    def to_text(self) -> str:
        """A table, and what to know about it."""
        head = ("metric", "judgements", "known", "calls", "prompt tokens", "answer tokens", "cost")
        rows = [head, *(_row(name or "(shared)", share) for name, share in self.metrics.items())]
        rows.append(_row("all", self.total))
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        lines = [
            "  ".join(
                cell.ljust(width) if column == 0 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        lines.append("\nTokens and cost are guesses, without repetitions.")
        if self.times:
            lines.append(self._time_text())
        if self.lower_bound_metrics:
            lines.append(f"These ask on after an answer, which is not counted: {', '.join(self.lower_bound_metrics)}.")
        if self.models_without_price:
            lines.append(f"No price is known for {', '.join(self.models_without_price)}.")
        return "\n".join(lines)

    def _time_text(self) -> str:
        slowest = max(self.times.values(), key=lambda one: one.seconds)
        how = (
            f"assumed: {slowest.seconds_per_call:.1f} s a call, {slowest.concurrency} at once"
            if slowest.throughput is None
            else f"at {slowest.throughput:.2g} judgements a second, as in the cache"
        )
        minutes = self.seconds / 60
        span = f"about {minutes:.0f} min" if minutes < 90 else f"about {minutes / 60:.1f} h"
        return f"Time: {span if minutes >= 1 else 'less than a minute'} ({how})."


class PreviewSession:
    """Takes the place of a ``JudgeSession``: counts what it is asked, and answers only what is in the cache."""

    def __init__(self, policy: JudgePolicy, cache: JudgementCache | None = None) -> None:
        self.policy = policy
        self.preview = Preview()
        self._cache = cache
        self._seen: set[tuple[int, bytes]] = set()
        self._critics: dict[int, Critic] = {}  # so that no other critic gets the same id
        self._guesses: dict[str, TokenEstimator] = {}
        self._answers: dict[str, tuple[int, int]] = {}

    @property
    def repeats(self) -> int:
        """How often each thing is judged."""
        return self.policy.repeats

    async def ask(self, critic: Critic, request: JudgeRequest) -> Judgement:
        """The judgement if it is known; else a ``JudgeError``, after the question was counted."""
        shares = (self.preview.total, self.preview.metrics.setdefault(request.metric, UsageEstimate()))
        known = critic_cache_key(critic, request)
        digest = request_digest(critic, request, known)
        for share in shares:
            share.judgements += 1
        found = None if self._cache is None or known is None or digest is None else self._cache.get(digest)
        if found is not None:
            self._learn(critic, request, found)
            for share in shares:
                share.cached += 1
            return found
        self._critics[id(critic)] = critic
        key = None if digest is None else (id(critic), digest)
        if key in self._seen:
            for share in shares:
                share.shared += 1
        elif not self.policy.cache_only:
            if key is not None:
                self._seen.add(key)
            self._count(critic, request, shares)
        if request.metric not in self.preview.lower_bound_metrics:
            self.preview.lower_bound_metrics.append(request.metric)
        raise JudgeError("preview", "nobody is asked: this is a preview")

    def reused(self, critic: Critic, request: JudgeRequest, outcome: Judgement | JudgeError) -> None:
        """Count a question that another metric has asked already."""
        for share in (self.preview.total, self.preview.metrics.setdefault(request.metric, UsageEstimate())):
            share.judgements += 1
            share.shared += 1
        if isinstance(outcome, JudgeError) and request.metric not in self.preview.lower_bound_metrics:
            self.preview.lower_bound_metrics.append(request.metric)

    def _count(self, critic: Critic, request: JudgeRequest, shares: tuple[UsageEstimate, ...]) -> None:
        model = model_name(critic)
        usage = self._guess(model).of(critic, request)
        number, tokens = self._answers.get(model, (0, 0))
        completion = round(tokens / number) if number else min(usage.completion_tokens, _COMPLETION)
        price = self.policy.prices.get(model)
        if price is None and model not in self.preview.models_without_price:
            self.preview.models_without_price.append(model)
        name = critic_name(critic)
        if name not in self.preview.times:
            pace = None if self._cache is None else self._cache.throughput(name)
            self.preview.times[name] = CriticTime(self.policy.concurrency, pace)
        self.preview.times[name].calls += 1
        self.preview.times[name].completion_tokens += completion
        for share in shares:
            share.calls += 1
            share.prompt_tokens += usage.prompt_tokens
            share.completion_tokens += completion
            if price is not None:
                share.cost = (share.cost or 0.0) + price.of(usage.prompt_tokens, completion)

    def _learn(self, critic: Critic, request: JudgeRequest, judgement: Judgement) -> None:
        model = model_name(critic)
        self._guess(model).update(request, Usage(judgement.usage.prompt_tokens, judgement.usage.completion_tokens))
        if judgement.usage.completion_tokens:
            number, tokens = self._answers.get(model, (0, 0))
            self._answers[model] = number + 1, tokens + judgement.usage.completion_tokens

    def _guess(self, model: str) -> TokenEstimator:
        return self._guesses.setdefault(model, TokenEstimator())


def preview(
    samples: Sequence[EvaluationSample],
    outputs: Sequence[SystemOutputs | None],
    metrics: Sequence[Metric],
    policy: JudgePolicy,
) -> Preview:
    """What judging these outputs would take. Nobody is asked, and nothing is written."""
    judged = [part for one in metrics if isinstance(one, BatchMetric) for part in judged_parts(one)]
    cache = JudgementCache(policy.cache) if policy.cache is not None and policy.cache.exists() else None
    session = PreviewSession(policy, cache)
    try:
        with LoopThread() as loop:
            loop.run(judge_batch(Batch(samples, outputs), judged, session))
    finally:
        if cache is not None:
            cache.close()
    asking_on = {one.name for one in judged if one.asks_follow_ups}
    session.preview.lower_bound_metrics = [name for name in session.preview.lower_bound_metrics if name in asking_on]
    return session.preview


def _row(name: str, share: UsageEstimate) -> tuple[str, ...]:
    cost = "n/a" if share.cost is None else f"{share.cost:.4g}"
    counts = (share.judgements, share.cached + share.shared, share.calls, share.prompt_tokens, share.completion_tokens)
    return (name, *(f"{one:,}" for one in counts), cost)
