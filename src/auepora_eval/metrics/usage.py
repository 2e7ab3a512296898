"""Tokens and cost: what an answer takes, what a right answer costs, and recall within a budget of tokens."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np

from ..core.batch import Batch
from ..core.conventions import SignatureOption, without_separator
from ..core.derivation import add_outcome, add_step, add_table
from ..core.metrics_base import BatchMetric, RunInfo, SampleMetric, declare, with_conventions
from ..core.reduce import Clusters, SumsReducer, exact_sum
from ..core.registry import ConfiguredMetric, register
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..errors import BadValueError
from ..features.usage import CACHED, COMPLETION, PROMPT, token_count, usage_by_model
from ..judge.critic import Price
from ..options import PositiveInt
from ..runtime.imports import IMPORT_PATH, import_object
from ..stats.intervals import Interval, ratio_interval
from .answer_base import named_tokenizer, require_tokenizer, tokenizer_label
from .latency import TimingMetric
from .ranking import RankingMetric
from .repeats import CorrectAnswers
from .retrieval import RecallAtK

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
            add_step(f"{self.kind} of {model or 'the model'}: {count}")
            total += count
        return Score(add_outcome(f"{self.kind} of all models", total))


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
    metadata = declare(suggested_for_target=True, examples=("prompt_tokens",))


@register("completion_tokens")
@dataclass(frozen=True)
class CompletionTokens(_TokenMetric):
    r"""The number of tokens that the models wrote for an answer, by the output's `usage`.

    .. math:: \text{completion\_tokens}

    `usage.completion_tokens` or `usage.output_tokens`; otherwise as `prompt_tokens`.
    """

    kind = COMPLETION
    metadata = declare(suggested_for_target=True, examples=("completion_tokens",))


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
    is_applicable = BatchMetric.is_applicable


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
        right = super().score(batch)
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

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """The cost of one answer, whether it is right or not."""
        passed = super().reference(sample, output)
        return passed if passed is None or passed.value is None else self.cost_of(output)

    def join_repeats(self, parts: Sequence[Scores], means: Scores) -> Scores:
        """The mean cost of each question, and the proportion of its answers that are right."""
        return means


# --- tokens of retrieved documents ------------------------------------------------------------------------------------

_TOKENIZERS = ("char", "unicode")


@lru_cache(maxsize=16)
def _token_function(name: str) -> Callable[[str], Sequence[Any]]:
    """The function that cuts a text into tokens; those of an import path may be numbers, as of a model's encoder."""
    if IMPORT_PATH.fullmatch(name):
        function: Callable[[str], Sequence[Any]] = import_object(name)
        return function
    return named_tokenizer(name).tokenize


@dataclass(frozen=True)
class _DocumentTokens(ConfiguredMetric):
    """A metric of the tokens of retrieved documents."""

    tokenizer: str = field(default="char", kw_only=True)
    """`char` (words, and letters in scripts without spaces), `unicode`, or an import path."""

    metadata = declare(reads=frozenset({"retrieved"}), suggested=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not IMPORT_PATH.fullmatch(self.tokenizer):
            require_tokenizer(self.tokenizer, _TOKENIZERS)

    @property
    def tokenizer_label(self) -> str:
        """The tokenizer as signatures show it."""
        return without_separator(tokenizer_label(self.tokenizer))

    def tokens(self, output: SystemOutputs) -> list[int | None]:
        """The number of tokens of each retrieved document; ``None`` for one whose text is unknown."""
        function = _token_function(self.tokenizer)
        texts = [item.doc.text for item in output.retrieved]
        return [len(function(text)) if text else None for text in texts]


@register("context_tokens")
@dataclass(frozen=True)
class ContextTokens(_DocumentTokens, SampleMetric):
    r"""The number of tokens of the retrieved documents.

    .. math:: \sum_d |\text{tokens}(d)|

    By a tokenizer of this library, or by that of your model: the import path of a function from a text to its tokens.
    Tokens have no better and worse by themselves, so comparisons show ratios without a verdict. Failed outputs are left
    out. A document without a text makes it a failed measurement (`no_document_text`).
    """

    target = TargetCategory.COST
    metadata = declare(
        counts_system_failures=False,
        range=(0.0, math.inf),
        higher_is_better=False,
        has_direction=False,
        examples=("context_tokens", {"context_tokens": {"tokenizer": "unicode"}}),
        signature={"tokenizer": "tokenizer_label"},
    )

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The number of tokens."""
        counts = self.tokens(output)
        known = [count for count in counts if count is not None]
        if len(known) < len(counts):
            return Score.fail("no_document_text")
        add_table("Tokens of the documents", ("rank", "tokens"), enumerate(known, start=1))
        return Score(add_outcome("Tokens of all documents", sum(known)))


@register("recall_in_tokens", at="budget")
@dataclass(frozen=True)
class RecallInTokens(_DocumentTokens):
    r"""Proportion of the relevant documents among those that fit into a budget of tokens.

    .. math:: |G \cap R_b| / |G|

    The ranking is read until the first document that does not fit into what is left of the budget, and ends there: a
    shorter document behind it is not taken. So systems with chunks of different length can be compared by what a prompt
    can hold. Otherwise it is `recall`, in every way to match gold. Where a text that is needed to count is unknown it
    is a failed measurement (`no_document_text`).
    """

    budget: PositiveInt

    target = TargetCategory.RETRIEVAL_RELEVANCE
    metadata = declare(
        requires=("relevant_docs",),
        by_chunk_id=True,
        matches_gold=True,
        skip_reasons={key: why for key, why in RankingMetric.metadata.skip_reasons.items() if key != "match"},
        examples=("recall_in_tokens@2", "recall_in_tokens@2000", {"recall_in_tokens@5": {"tokenizer": "unicode"}}),
        signature={"tokenizer": "tokenizer_label"},
    )

    @property
    def _recall(self) -> RecallAtK:
        """Recall of a whole ranking."""
        return with_conventions(RecallAtK(k=None), self.active_conventions)

    def signature_options(self) -> dict[str, str]:
        """The tokenizer, and the options of recall."""
        return {**super().signature_options(), **self._recall.signature_options()}

    def within_budget(self, output: SystemOutputs) -> tuple[SystemOutputs, bool]:
        """The output with the documents that fit, and whether a text is unknown that is needed to tell."""
        left, kept = self.budget, 0
        for count in self.tokens(output):
            if count is None:
                return replace(output, retrieved=output.retrieved[:kept]), True
            if count > left:
                break
            left, kept = left - count, kept + 1
        return replace(output, retrieved=output.retrieved[:kept]), False

    def score(self, batch: Batch) -> Scores:
        """Recall of what fits."""
        outputs: list[SystemOutputs | None] = []
        unknown = np.zeros(len(batch), dtype=np.bool_)
        for row, output in enumerate(batch.outputs):
            cut = output
            if output is not None and output.error is None:
                cut, unknown[row] = self.within_budget(output)
            outputs.append(cut)
        scores = self._recall.score(Batch(batch.samples, outputs, memory=batch.memory))
        unknown &= scores.status == Status.SCORED
        return scores.replaced(unknown, Status.MEASURE_FAILED, "no_document_text", math.nan)

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """Recall of what fits, by the plain definition."""
        cut, unknown = self.within_budget(output)
        add_step(f"{len(cut.retrieved)} of {len(output.retrieved)} documents fit into {self.budget} tokens")
        outcome = self._recall.reference(sample, cut)
        return Score.fail("no_document_text") if unknown and outcome.status is Status.SCORED else outcome
