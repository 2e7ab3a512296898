"""Preview of judge usage: metrics build their requests, which are counted but not sent."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from ..core.batch import Batch
from ..core.metrics_base import BatchMetric, Metric
from ..core.types import EvaluationSample, SystemOutputs
from ..errors import JudgeError
from ..runtime.processes import LoopThread
from .cache import JudgementCache, critic_cache_key, request_digest
from .controls import JudgeControls
from .critic import (
    Critic,
    Judgement,
    JudgePolicy,
    JudgeRequest,
    QuestionGroups,
    Usage,
    critic_name,
    named_answer,
    read_answer,
)
from .limits import TokenEstimator, model_name
from .metric import JudgedMetric, judge_batch, judged_parts
from .panel import PanelClient

_REPLY_TOKENS = 200
"""Assumed tokens of a reply if the cache has none: a score and a sentence or two."""
_SECONDS_PER_CALL = 1.0
_TOKENS_PER_SECOND = 50.0
"""Assumed duration of a call if the cache has none: a second, and the time to generate the reply."""


@dataclass(slots=True)
class UsageEstimate:
    """Estimated requests of one metric, or of all together."""

    judgements: int = 0
    """Requested judgements."""
    cached: int = 0
    """Of these, already in the cache."""
    shared: int = 0
    """Of these, shared with another request."""
    calls: int = 0
    """Requests to send, without retries."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    """``None`` where no price is known."""

    def to_dict(self) -> dict[str, Any]:
        """The values as a JSON object."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(slots=True)
class CriticTime:
    """Estimated duration of the calls to one critic."""

    concurrency: int
    throughput: float | None = None
    """Judgements per second, if the cache shows it."""
    calls: int = 0
    completion_tokens: int = 0

    @property
    def seconds_per_call(self) -> float:
        """Assumed duration of one call."""
        return _SECONDS_PER_CALL + self.completion_tokens / self.calls / _TOKENS_PER_SECOND if self.calls else 0.0

    @property
    def seconds(self) -> float:
        """Duration of all calls at the policy's concurrency."""
        if self.throughput is not None:
            return self.calls / self.throughput
        return math.ceil(self.calls / self.concurrency) * self.seconds_per_call


@dataclass(slots=True)
class Preview:
    """Estimated judge usage by metric and in total; tokens, cost and time are estimates."""

    total: UsageEstimate = field(default_factory=UsageEstimate)
    metrics: dict[str, UsageEstimate] = field(default_factory=dict)
    models_without_price: list[str] = field(default_factory=list)
    lower_bound_metrics: list[str] = field(default_factory=list)
    """Metrics with follow-up requests, which depend on replies and are not counted."""
    times: dict[str, CriticTime] = field(default_factory=dict)
    """By critic; critics run concurrently."""
    two_stage: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By metric of two-stage judging, the size of its draw and the forecast of its interval, where there is one."""

    @property
    def seconds(self) -> float:
        """Estimated duration of judging."""
        return max((timing.seconds for timing in self.times.values()), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        """The values as a JSON object."""
        return {
            "total": self.total.to_dict(),
            "metrics": {name: estimate.to_dict() for name, estimate in self.metrics.items()},
            "models_without_price": self.models_without_price,
            "lower_bound_for": self.lower_bound_metrics,
            "seconds": round(self.seconds, 1),
            "seconds_measured": bool(self.times)
            and all(timing.throughput is not None for timing in self.times.values()),
            **({"two_stage": self.two_stage} if self.two_stage else {}),
        }

    def to_text(self) -> str:
        """The preview as a table with notes: ``known`` are cached, ``shared`` are asked once for several metrics."""
        head = ("metric", "judgements", "known", "shared", "calls", "prompt tokens", "answer tokens", "cost")
        rows = [head, *(_row(name or "(shared)", estimate) for name, estimate in self.metrics.items())]
        rows.append(_row("all", self.total))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for name, *cells in rows:
            numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
            lines.append("  ".join([name.ljust(widths[0]), *numbers]).rstrip())
        lines.append("\nTokens and cost are guesses, without repetitions.")
        lines += [_draw_text(name, stage) for name, stage in self.two_stage.items()]
        if self.times:
            lines.append(self._time_text())
        if self.lower_bound_metrics:
            lines.append(f"These ask on after an answer, which is not counted: {', '.join(self.lower_bound_metrics)}.")
        if self.models_without_price:
            lines.append(f"No price is known for {', '.join(self.models_without_price)}.")
        return "\n".join(lines)

    def _time_text(self) -> str:
        slowest = max(self.times.values(), key=attrgetter("seconds"))
        how = (
            f"assumed: {slowest.seconds_per_call:.1f} s a call, {slowest.concurrency} at once"
            if slowest.throughput is None
            else f"at {slowest.throughput:.2g} judgements a second, as in the cache"
        )
        minutes = self.seconds / 60
        span = f"about {minutes:.0f} min" if minutes < 90 else f"about {minutes / 60:.1f} h"
        return f"Time: {span if minutes >= 1 else 'less than a minute'} ({how})."


class PreviewSession(PanelClient):
    """Replaces a ``JudgeSession``: counts requests and returns only cached judgements."""

    def __init__(self, policy: JudgePolicy, cache: JudgementCache | None = None) -> None:
        self.policy = policy
        self.repeats = policy.repeats
        """Judgements per item."""
        self.preview = Preview()
        self._cache = cache
        self._seen: set[tuple[int, bytes]] = set()
        self._critics: dict[int, Critic] = {}  # keeps ids unique
        self._estimators: dict[str, TokenEstimator] = {}
        self._reply_tokens: dict[str, tuple[int, int]] = {}
        self._groups = QuestionGroups()

    async def ask_one(self, critic: Critic, request: JudgeRequest) -> Judgement:
        """The cached judgement; else count the request and raise ``JudgeError``."""
        estimates = (self.preview.total, self.preview.metrics.setdefault(request.metric, UsageEstimate()))
        group = await self._groups.join(critic, request) if request.questions else request
        known = critic_cache_key(critic, group)
        digest = request_digest(critic, group, known)
        for estimate in estimates:
            estimate.judgements += 1
        found = None if self._cache is None or known is None or digest is None else self._cache.get(digest)
        if found is not None:
            self._learn(critic, group, found)
            for estimate in estimates:
                estimate.cached += 1
            return found if group is request else read_answer(named_answer(found, group, request), request)
        self._critics[id(critic)] = critic
        key = None if digest is None else (id(critic), digest)
        if key in self._seen:
            for estimate in estimates:
                estimate.shared += 1
        elif not self.policy.cache_only:
            if key is not None:
                self._seen.add(key)
            self._count(critic, group, estimates)
        if request.metric not in self.preview.lower_bound_metrics:
            self.preview.lower_bound_metrics.append(request.metric)
        raise JudgeError("preview", "this is a preview: no call is made")

    def reused(self, critic: Critic, request: JudgeRequest, outcome: Judgement | JudgeError) -> None:
        """Count a request that another metric has already made."""
        for estimate in (self.preview.total, self.preview.metrics.setdefault(request.metric, UsageEstimate())):
            estimate.judgements += 1
            estimate.shared += 1
        if isinstance(outcome, JudgeError) and request.metric not in self.preview.lower_bound_metrics:
            self.preview.lower_bound_metrics.append(request.metric)

    def _count(self, critic: Critic, request: JudgeRequest, estimates: tuple[UsageEstimate, ...]) -> None:
        model = model_name(critic)
        usage = self._estimator(model).estimate(critic, request)
        number, tokens = self._reply_tokens.get(model, (0, 0))
        completion = round(tokens / number) if number else min(usage.completion_tokens, _REPLY_TOKENS)
        price = self.policy.prices.get(model)
        if price is None and model not in self.preview.models_without_price:
            self.preview.models_without_price.append(model)
        name = critic_name(critic)
        if name not in self.preview.times:
            throughput = None if self._cache is None else self._cache.throughput(name)
            self.preview.times[name] = CriticTime(self.policy.concurrency, throughput)
        self.preview.times[name].calls += 1
        self.preview.times[name].completion_tokens += completion
        for estimate in estimates:
            estimate.calls += 1
            estimate.prompt_tokens += usage.prompt_tokens
            estimate.completion_tokens += completion
            if price is not None:
                estimate.cost = (estimate.cost or 0.0) + price.cost(usage.prompt_tokens, completion)

    def _learn(self, critic: Critic, request: JudgeRequest, judgement: Judgement) -> None:
        model = model_name(critic)
        self._estimator(model).update(request, Usage(judgement.usage.prompt_tokens, judgement.usage.completion_tokens))
        if judgement.usage.completion_tokens:
            number, tokens = self._reply_tokens.get(model, (0, 0))
            self._reply_tokens[model] = number + 1, tokens + judgement.usage.completion_tokens

    def _estimator(self, model: str) -> TokenEstimator:
        return self._estimators.setdefault(model, TokenEstimator())


def preview(
    samples: Sequence[EvaluationSample],
    outputs: Sequence[SystemOutputs | None],
    metrics: Sequence[Metric],
    policy: JudgePolicy,
    exclusions: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> Preview:
    """Estimate the judge usage for these outputs. No call is made, and nothing is written.

    ``exclusions`` has by metric the ids of the samples that it does not judge.
    """
    judged = list(chain.from_iterable(judged_parts(metric) for metric in metrics if isinstance(metric, BatchMetric)))

    async def count_requests(session: PreviewSession) -> None:
        session.exclusions = exclusions
        batch = Batch(samples, outputs)
        if policy.controls:
            top_level = (metric for metric in metrics if isinstance(metric, JudgedMetric))
            await JudgeControls(top_level, samples, policy.controls).judge(batch, 0, judged, session)
        else:
            await judge_batch(batch, judged, session)

    found = run_preview(policy, count_requests)
    names = dict.fromkeys(metric.name for metric in judged if metric.name in found.metrics)
    found.metrics = {name: found.metrics[name] for name in (*names, *(found.metrics.keys() - names.keys()))}
    multi_step = {metric.name for metric in judged if getattr(metric, "asks_follow_ups", False)}
    found.lower_bound_metrics = [name for name in found.lower_bound_metrics if name in multi_step]
    return found


def run_preview(policy: JudgePolicy, work: Callable[[PreviewSession], Coroutine[Any, Any, None]]) -> Preview:
    """The requests that ``work`` makes, counted and compared with the cache of the policy."""
    cache = JudgementCache(policy.cache) if policy.cache is not None and policy.cache.exists() else None
    session = PreviewSession(policy, cache)
    try:
        with LoopThread() as loop:
            loop.run(work(session))
    finally:
        if cache is not None:
            cache.close()
    return session.preview


def _draw_text(name: str, stage: Mapping[str, Any]) -> str:
    """The size of a draw and the forecast of its interval, in words."""
    found = stage["forecast"]
    drawn = f"{stage['drawn']:,} of {stage['samples']:,} samples"
    text = f"{name}: '{stage['judge']}' judges {drawn}, and {stage['cheap']} scores all."
    if found is None:
        return f"{text} A forecast needs cheap scores, which no run in the store has yet."
    return (
        f"{text} Forecast by the cheap scores of {stage['forecast_from']}: ±{found['half_width']:.3g} (half the width "
        f"of the 95 % interval), as with {found['equivalent_labels']:,.0f} random judgements and no cheap scores."
    )


def _row(name: str, estimate: UsageEstimate) -> tuple[str, ...]:
    cost = "n/a" if estimate.cost is None else f"{estimate.cost:.4g}"
    counts = (
        estimate.judgements,
        estimate.cached,
        estimate.shared,
        estimate.calls,
        estimate.prompt_tokens,
        estimate.completion_tokens,
    )
    return (name, *(f"{count:,}" for count in counts), cost)
