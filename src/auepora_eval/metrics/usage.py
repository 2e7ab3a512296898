"""Tokens and cost: what an answer takes, and what a right answer costs."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from ..core.batch import Batch
from ..core.conventions import SignatureOption
from ..core.derivation import add_outcome, add_table
from ..core.metrics_base import RunInfo, SampleMetric, declare
from ..core.reduce import Clusters, SumsReducer, exact_sum
from ..core.registry import ConfiguredMetric, register
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..errors import BadValueError
from ..features.usage import CACHED, COMPLETION, PROMPT, token_count, usage_by_model
from ..judge.critic import Price
from ..stats.intervals import Interval, ratio_interval
from .latency import TimingMetric
from .repeats import CorrectAnswers

# --- tokens ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _UsageMetric(ConfiguredMetric, SampleMetric):
    """A metric of the usage of every output. Fewer is not better by itself: a refusal takes the fewest."""

    target = TargetCategory.COST
    metadata = declare(
        reads=frozenset({"usage"}),
        counts_system_failures=False,
        suggested=False,
        output_skips=frozenset({"no_usage"}),
        skip_reasons={"no_usage": "the output does not say how many tokens it took"},
        range=(0.0, math.inf),
        higher_is_better=False,
        has_direction=False,
        signature={},
    )


@dataclass(frozen=True)
class _TokenMetric(_UsageMetric):
    """The number of tokens of one kind."""

    kind: ClassVar[str]

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The number of tokens."""
        total = 0
        for model, usage in usage_by_model(output.usage).items():
            try:
                count = token_count(usage, self.kind)
            except BadValueError:
                return Score.fail("bad_usage")
            if count is None:
                return Score.skip("no_usage")
            add_outcome(f"{self.kind} of {model or 'the model'}", count)
            total += count
        return Score(total)


@register("prompt_tokens")
@dataclass(frozen=True)
class PromptTokens(_TokenMetric):
    r"""The number of tokens that the models read for an answer, by the output's `usage`.

    .. math:: \text{prompt\_tokens}

    `usage.prompt_tokens` or `usage.input_tokens`, over all models in `usage.by_model` where that is given. Tokens have
    no better and worse by themselves, since a system that refuses takes the fewest: comparisons show differences and
    ratios without a verdict. A number that is negative or no integer is a failed measurement (`bad_usage`).
    """

    kind = PROMPT
    metadata = declare(examples=("prompt_tokens",))


@register("completion_tokens")
@dataclass(frozen=True)
class CompletionTokens(_TokenMetric):
    r"""The number of tokens that the models wrote for an answer, by the output's `usage`.

    .. math:: \text{completion\_tokens}

    `usage.completion_tokens` or `usage.output_tokens`; otherwise as `prompt_tokens`.
    """

    kind = COMPLETION
    metadata = declare(examples=("completion_tokens",))


@register("time_to_first_token")
@dataclass(frozen=True)
class TimeToFirstToken(TimingMetric):
    r"""Mean time until the first token of the answer came: the timing `first_token`, in seconds.

    .. math:: t_\text{first\_token}

    Failed outputs are left out, and a bad timing is a failed measurement, as in `mean_latency`. A comparison has no
    verdict: what fails early or refuses would be faster.
    """

    timing_key: str = "first_token"
    metadata = declare(suggested=False, has_direction=False, examples=("time_to_first_token",))


# --- cost ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PricedMetric(ConfiguredMetric):
    """A metric of the cost of answers, by the prices of models."""

    prices: Mapping[str, Any] | None = field(default=None, hash=False, kw_only=True)
    """By model the prices of a million tokens: ``prompt``, ``completion`` and ``cached_prompt``."""

    metadata = declare(signature={"prices": SignatureOption("price_digest")})

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.price_table

    @property
    def price_table(self) -> dict[str, Price]:
        """The prices by model."""
        table = {}
        for model, price in (self.prices or {}).items():
            try:
                table[model] = Price(**price)
            except (TypeError, BadValueError) as error:
                what = error if isinstance(error, BadValueError) else "write prompt, completion and cached_prompt"
                raise BadValueError(f"prices.{model}: {what}") from error
        return table

    @property
    def price_digest(self) -> str | None:
        """A hash of the prices, for signatures: other prices give other costs."""
        if not self.prices:
            return None
        rows = [
            f"{model} {price.prompt:g} {price.cached_rate:g} {price.completion:g}"
            for model, price in self.price_table.items()
        ]
        return hashlib.sha256("\n".join(sorted(rows)).encode()).hexdigest()[:8]

    def for_run(self, run: RunInfo) -> Self:
        """A copy with the prices of the run, unless it has its own."""
        bound = super().for_run(run)
        if self.prices is not None or not run.prices:
            return bound
        twin = copy.copy(bound)
        object.__setattr__(twin, "prices", dict(run.prices))  # frozen, but this is a fresh copy
        return twin

    def run_signature_options(self, run: RunInfo) -> dict[str, str]:
        """The prices of the run, where the metric has none."""
        digest = self.for_run(run).price_digest
        return super().run_signature_options(run) | ({} if digest is None else {"prices": digest})

    def cost_of(self, output: SystemOutputs) -> Score:
        """The cost of one output."""
        prices, rows = self.price_table, []
        for model, usage in usage_by_model(output.usage).items():
            price = prices.get(model) or (next(iter(prices.values())) if not model and len(prices) == 1 else None)
            try:
                counts = {kind: token_count(usage, kind) for kind in (PROMPT, COMPLETION, CACHED)}
            except BadValueError:
                return Score.fail("bad_usage")
            if counts[PROMPT] is None or (counts[COMPLETION] is None and (price is None or price.completion)):
                return Score.skip("no_usage")
            if price is None:
                return Score.fail("no_price")
            prompt, completion, cached = (counts[kind] or 0 for kind in (PROMPT, COMPLETION, CACHED))
            if cached > prompt:
                return Score.fail("bad_usage")
            rows.append((model or "the model", prompt, cached, completion, price.cost(prompt, completion, cached)))
        add_table("Tokens and cost by model", ("model", "prompt", "of them cached", "completion", "cost"), rows)
        return Score(add_outcome("The cost of the answer", math.fsum(row[-1] for row in rows)))

    def failure_message(self, sample: EvaluationSample, output: SystemOutputs) -> str:
        """Which models have no price."""
        unknown = [
            model or "a model without a name" for model in usage_by_model(output.usage) if model not in self.price_table
        ]
        return f"no price is known for {', '.join(unknown)}; add it to run.prices" if unknown else ""


@register("total_cost")
@dataclass(frozen=True)
class TotalCost(PricedMetric, _UsageMetric):
    r"""The cost of an answer: all its tokens by the prices of their models, without the cost of judges.

    .. math:: \sum_m p_m (n_m - c_m) + p^\text{cached}_m c_m + q_m a_m

    n and c are the prompt tokens of a model m and those of them that were cached, a the completion tokens; p and q are
    prices, from `run.prices` of the plan or the option `prices`. `details["total"]` is the sum over all answers. The
    model is `usage.model`; a usage without a model has the only price there is. A model without a price is a failed
    measurement (`no_price`), as is a bad number (`bad_usage`). A comparison has no verdict: a system that refuses is
    the cheapest. Failed outputs are left out. Prices are part of the signature.
    """

    metadata = declare(
        needs_all=True, examples=({"total_cost": {"prices": {"large": {"prompt": 2, "completion": 8}}}},)
    )

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The cost of the answer."""
        return self.cost_of(output)

    def further_details(self, scores: Scores, clusters: Clusters | None) -> dict[str, Any]:
        """The cost of all answers together."""
        return {"total": exact_sum(scores.values[scores.counted])}


class CostOfCorrect(SumsReducer):
    """Cost over right answers. Reads (cost, right)."""

    name = "cost_per_correct"

    def from_sums(self, sums: Sequence[float]) -> float:
        """The ratio; NaN with fewer than five right answers."""
        cost, right = sums
        return cost / right if right >= MIN_CORRECT else math.nan

    def interval(
        self, scores: Scores, low: float, high: float, *, binary: bool = False, clusters: Clusters | None = None
    ) -> Interval | None:
        """Fieller's interval of the ratio over samples or clusters."""
        if scores.stats is None or math.isnan(self.value(scores)):
            return None
        cost, right = scores.stats[scores.counted].T
        return ratio_interval(cost, right, clusters=None if clusters is None else clusters[scores.counted])


MIN_CORRECT = 5
"""With fewer right answers there is no cost per right answer."""


@register("cost_per_correct")
@dataclass(frozen=True)
class CostPerCorrect(PricedMetric, CorrectAnswers):
    r"""What a right answer costs: the cost of all answers over the number of right ones.

    .. math:: \sum \text{cost} / \sum \text{right}

    An answer is right if another metric, `of`, gives it `at_least` so much, as in `pass@k`; its cost is that of
    `total_cost`. Answers whose cost is unknown are left out of both sums. With fewer than five right answers there is
    no value. The interval is Fieller's over questions or clusters, with all their repeats; it is flagged `skewed` where
    costs vary so much that it covers too little.

    It has no verdict, and a gate on it alone is refused: refusing the dear half of all questions makes it better, while
    the accuracy falls. Read it beside the metric `of`, and put a gate on that one, too.
    """

    target = TargetCategory.COST
    metadata = declare(
        reads=frozenset({"usage"}),
        counts_system_failures=False,
        always_counts_failures=False,
        range=(0.0, math.inf),
        higher_is_better=False,
        has_direction=False,
        skip_reasons={"no_usage": "the output does not say how many tokens it took"},
        failure_note="is not right; its cost counts where it is known",
        examples=({"cost_per_correct": {"of": "exact_match", "prices": {"large": {"prompt": 2, "completion": 8}}}},),
    )
    reducer = CostOfCorrect()

    def score(self, batch: Batch) -> Scores:
        """The cost of each answer, with cost and whether it is right as statistics."""
        right = self.passes(batch)
        costs = [Score.skip("no_usage") if output is None else self.cost_of(output) for output in batch.outputs]
        scores = Scores.from_list(costs)
        for reason in right.reason_names[1:]:
            rows = right.with_reason(reason)
            if rows.any():
                status = Status(int(right.status[rows][0]))
                kept = scores.values if status is Status.SYSTEM_FAILED else math.nan
                scores = scores.replaced(rows, status, reason, kept)
        stats = np.column_stack([scores.values, right.values])
        stats[~scores.counted] = math.nan
        return replace(scores, stats=stats)

    def join_repeats(self, parts: Sequence[Scores], means: Scores) -> Scores:
        """The mean cost of each question, and the proportion of its answers that are right."""
        return means
