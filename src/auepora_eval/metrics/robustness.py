"""Robustness to the question: noisy and counterfactual variants compared with their base question."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Literal

import numpy as np

from ..core.batch import Batch, warn_notes
from ..core.conventions import SignatureOption, without_separator
from ..core.derivation import NO_CONTEXT, Derivation, DerivationBuilder, ExplainContext, format_number, quote_text
from ..core.family import (
    BASE_SKIPS,
    FamilyKey,
    FamilyMetric,
    VariantPairs,
    find_parents,
    is_variant,
    require_scenarios,
    sort_by_id,
    with_family_keys,
)
from ..core.metrics_base import (
    SampleMetric,
    apply_failure_policy,
    declare,
    set_metadata,
    with_conventions,
)
from ..core.reduce import Clusters, Mean, Reducer, SumsReducer
from ..core.registry import register
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, Response, SystemOutputs, TargetCategory
from ..errors import BadValueError
from ..stats.bootstrap import bootstrap_interval
from ..stats.intervals import Bools, Floats, Interval, Ints, interval_ends, mean_interval
from .abstention import NegativeRejectionRate
from .wrappers import (
    ComputedReducer,
    WrapperMetric,
    add_inner_score_step,
    inner_derivation,
    inner_scores,
    is_paired_metric,
    prepend_steps,
)

__all__ = ["CounterfactualConsistency", "NegativeRejectionRate", "NoiseRobustness"]

# --- noise robustness: the ratio of a metric on noisy questions to the same metric on clean ones ---------------------


def join_scenarios(scenarios: Sequence[str]) -> str:
    """The scenarios as a signature shows them."""
    return without_separator("+".join(scenarios))


class _RatioReducer(Reducer):
    """The value on noisy samples over the value on base samples."""

    def __init__(self, of_side: Reducer) -> None:
        self.inner_reducer = of_side
        self.name = f"ratio[{of_side.name}]"

    @staticmethod
    def ratio(base: float, noisy: float) -> float:
        """The ratio; NaN if the base value is not above 0."""
        return noisy / base if base > 0 else math.nan


class RatioOfSums(_RatioReducer, SumsReducer):
    """The value on noisy samples over the value on base samples, each from its sums.

    The statistics of a sample are those of its base and a count, then its own and a count.
    """

    def sides(self, sums: Sequence[float]) -> tuple[float, float]:
        """The values on base and noisy samples; NaN without samples."""
        width = len(sums) // 2
        return self._side(sums[:width]), self._side(sums[width:])

    def side(self, parts: Sequence[Sequence[float]]) -> float:
        """The value of one side, from the statistics and the count of each of its samples."""
        return self._side([math.fsum(column) for column in zip(*parts, strict=True)]) if parts else math.nan

    def _side(self, sums: Sequence[float]) -> float:
        *statistics, n = sums
        if not n:
            return math.nan
        return (
            self.inner_reducer.from_sums(statistics)
            if isinstance(self.inner_reducer, SumsReducer)
            else statistics[0] / n
        )

    def from_sums(self, sums: Sequence[float]) -> float:
        """The ratio; NaN if the base value is not above 0."""
        return self.ratio(*self.sides(sums))


class RatioOfValues(_RatioReducer):
    """The same for a metric whose value is not a function of sums: ``keys`` contain the outcomes."""

    def sides(self, scores: Scores) -> tuple[float, float]:
        """The values on base and noisy samples; NaN without samples."""
        keys: list[FamilyKey] = [key for key, used in zip(scores.keys or (), scores.counted, strict=True) if used]
        base = [key.payload[0] for key in keys if key.payload[0] is not None]
        noisy = [key.payload[1] for key in keys if key.payload[1] is not None]
        return self.side(base), self.side(noisy)

    def side(self, parts: Sequence[Scores]) -> float:
        """The value of one side, from the outcomes of its samples."""
        return self.inner_reducer.value(Scores.concat(parts)) if parts else math.nan

    def value(self, scores: Scores) -> float:
        """The ratio; NaN if the base value is not above 0."""
        return self.ratio(*self.sides(scores))


@register("noise_robustness")
@dataclass(frozen=True)
class NoiseRobustness(FamilyMetric, WrapperMetric):
    r"""How much of a metric's value is left when questions are asked with noise: reworded, or with typing errors.

    .. math:: M(\text{noisy}) \,/\, M(\text{base})

    A noisy sample names the clean one in `labels["variant_of"]` and is marked by `labels["scenario"]`. Pairs are made
    of every noisy sample and its base where the base metric M scores both: M(noisy) is M over the noisy ones, M(base)
    over the base of each, a base with two variants counting twice. 1 means that noise does no harm. Where M(base) is 0
    there is no ratio. With `base_set="all"` M(base) is taken over all samples that are no variants instead; the
    details have that number, too (`value_all_base`, and its M(base) as `base_score_all`).

    A noisy sample on which the system failed counts at M's worst value; a pair whose base failed is left out, since
    counting it would flatter. Where lower is better in M, above 1 means harm.

    The score of a pair is M of the noisy sample. Details tell both numbers, the mean
    difference of the pairs with its interval, and all of it per scenario. M may be any metric; one that is neither a
    mean nor made of sums has no interval. It measures noise in the query; for noise among the documents see
    `context_noise_accuracy`.
    """

    base: Any = "token_f1"
    noise_scenarios: tuple[str, ...] = field(
        default=("paraphrase", "typo"), metadata={"convert": partial(require_scenarios, "noise_scenarios")}
    )
    base_set: Literal["pairs", "all"] = "pairs"

    target = TargetCategory.NOISE_ROBUSTNESS
    metadata = declare(
        skip_reasons={
            **BASE_SKIPS,
            "base_skipped": "the base metric does not apply to the sample it is a variant of",
        },
        failure_note="counts at the worst value of the base metric; a pair whose base failed is left out",
        examples=(
            "noise_robustness",
            {"noise_robustness": {"base": "recall@3", "noise_scenarios": ["typo"]}},
            {"noise_robustness": {"base": "bleu", "base_set": "all"}},
            {"noise_robustness": {"base": {"map": {"ap": "gold"}}, "base_set": "all"}},
            {"noise_robustness": {"base": "distinct_n"}},
        ),
        signature={"noise": SignatureOption("noise_scenarios", write=join_scenarios), "base_set": "base_set"},
        worst_of_base=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        inner = self.inner
        if is_paired_metric(inner):
            raise BadValueError(
                f"the base of noise_robustness cannot be '{inner.name}', which itself is computed from several samples"
            )
        sums = isinstance(inner.reducer, (Mean, SumsReducer))
        object.__setattr__(self, "reducer", (RatioOfSums if sums else RatioOfValues)(inner.reducer))
        set_metadata(self, range=(0.0 if inner.range[0] >= 0 else -math.inf, math.inf))
        set_metadata(self, higher_is_better=inner.higher_is_better)

    @property
    def scenarios(self) -> tuple[str, ...]:  # type: ignore[override]
        """The noise scenarios."""
        return self.noise_scenarios

    def reference_value(self, samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs]) -> float | None:
        """The ratio of both means over pairs by the base metric's plain definition."""
        inner, scored = self.inner, {}
        if not isinstance(inner.reducer, Mean):
            return None
        for sample, output in zip(samples, outputs, strict=True):
            outcome = inner.reference(sample, output)
            if outcome is None:
                return None
            scored[sample.sample_id] = outcome.value
        variants = [sample for sample in samples if is_variant(sample, self.scenarios)]
        pairs = [(scored.get(str(variant.labels["variant_of"])), scored[variant.sample_id]) for variant in variants]
        base = [first for first, second in pairs if first is not None and second is not None]
        noisy = [second for first, second in pairs if first is not None and second is not None]
        if self.base_set == "all":
            free = [sample.sample_id for sample in samples if sample.labels.get("variant_of") is None]
            base = [value for name in free if (value := scored[name]) is not None]
            noisy = [second for _, second in pairs if second is not None]
        if not base or not noisy or math.fsum(base) <= 0:
            return math.nan
        return (math.fsum(noisy) / len(noisy)) / (math.fsum(base) / len(base))

    def explain(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The base metric's scores without noise and with it."""
        steps, base = DerivationBuilder(), around.find(str(sample.labels.get("variant_of")))
        if base is not None:
            add_inner_score_step(steps, "Without noise,", self.inner, *base, around)
        noise = f"scenario {', '.join(sample.scenarios)}" if base is not None else "one without noise"
        steps.add_step(f"This sample, {noise}:")
        own = prepend_steps(steps, inner_derivation(self.inner, sample, output, around))
        shown = "nothing" if own.value is None else format_number(own.value)
        side = "noisy" if base is not None else "base"
        return (
            DerivationBuilder()
            .extend(own)
            .finish(f"To the {side} side it adds {shown}; the value is noisy / base", own.value)
        )

    def score(self, batch: Batch) -> Scores:
        """The base metric's outcomes."""
        scores = inner_scores(self.inner, batch)
        return with_family_keys(scores, batch, scores.keys)

    def pair_samples(self, scores: Scores) -> Scores:
        """One row per pair, at the position of the noisy sample."""
        if scores.keys is None:
            return scores
        family = find_parents(scores.keys, self.noise_scenarios)
        return self._all_bases(scores, family) if self.base_set == "all" else self._pairs(scores, family)

    def _pairs(self, scores: Scores, family: VariantPairs) -> Scores:
        n = len(scores)
        base = np.full(n, -1, dtype=np.intp)
        base[family.variants] = np.maximum(family.rows, -1)
        paired = base >= 0
        base_status = np.where(paired, scores.status[base], Status.SCORED)
        applies = paired & (scores.status != Status.SKIPPED)
        # Without the base's score there is no pair: its failure is the pair's, and counts for neither.
        outcomes: list[tuple[Bools, Status, str]] = [
            (applies & (base_status == Status.SYSTEM_FAILED), Status.SYSTEM_FAILED, "base_failed"),
            (applies & (base_status == Status.MEASURE_FAILED), Status.MEASURE_FAILED, "base_failed"),
            (applies & (base_status == Status.SKIPPED), Status.SKIPPED, "base_skipped"),
            *((mask, Status.SKIPPED, reason) for reason, mask in family.skips(n).items()),
        ]
        pairs = scores
        for mask, status, reason in outcomes:
            pairs = pairs.replaced(mask, status, reason, math.nan)
        return self._with_sides(pairs, scores, base, np.flatnonzero(paired))

    def _all_bases(self, scores: Scores, family: VariantPairs) -> Scores:
        assert scores.keys is not None
        n = len(scores)
        clean = np.fromiter((key.base is None for key in scores.keys), np.bool_, n)
        noisy = np.zeros(n, np.bool_)
        noisy[family.variants] = True
        sides = scores.replaced(~clean & ~noisy, Status.SKIPPED, "not_a_variant", math.nan)
        base = np.where(clean, np.arange(n), -1)
        return self._with_sides(sides, scores, base, family.variants)

    def _with_sides(self, outcomes: Scores, scores: Scores, base: Ints, noisy: Ints) -> Scores:
        """The outcomes with the statistics of the base and of the row itself."""
        assert scores.keys is not None
        has_noisy = np.zeros(len(scores), np.bool_)
        has_noisy[noisy] = True
        if isinstance(self.reducer, RatioOfValues):
            plain = replace(scores, keys=tuple(key.payload for key in scores.keys))
            keys = tuple(
                key._replace(
                    payload=(
                        plain.take([b]) if b >= 0 else None,
                        plain.take([row]) if with_count else None,
                        plain.take([row]) if scores.counted[row] else None,
                    )
                )
                for row, (key, b, with_count) in enumerate(
                    zip(scores.keys, base.tolist(), has_noisy.tolist(), strict=True)
                )
            )
            return replace(outcomes, stats=None, keys=keys)
        own = (
            scores.values[:, None]
            if not isinstance(self.inner.reducer, SumsReducer) or scores.stats is None
            else scores.stats
        )
        with_count = np.column_stack([own, np.ones(len(scores))])
        base_side = np.where((base >= 0)[:, None], with_count[base], 0.0)
        noisy_side = np.where(has_noisy[:, None], with_count, 0.0)
        sided_keys = list(scores.keys)
        for row, (key, side) in enumerate(zip(scores.keys, with_count.tolist(), strict=True)):
            if key is not None:  # a row of a lost batch has none
                sided_keys[row] = key._replace(payload=(side if scores.counted[row] else None,))
        return replace(outcomes, stats=np.concatenate([base_side, noisy_side], axis=1), keys=tuple(sided_keys))

    def further_details(self, scores: Scores, clusters: Clusters | None) -> dict[str, Any]:
        """Base and noisy values, their difference, and the same per scenario."""
        counted, over_all = scores.counted, self._over_all(scores.keys or ())
        scores, clusters = sort_by_id(scores.take(counted), None if clusters is None else clusters[counted])
        sides = self._sides(scores, clusters) | over_all
        if sides["base_score"] is not None and sides["base_score"] <= 0:
            sides["undefined_because"] = "the base metric is 0 without noise"
        keys: Sequence[FamilyKey] = scores.keys or ()
        by_scenario: dict[str, Any] = {}
        seen = set(chain.from_iterable(key.scenarios for key in keys))
        for name in sorted(seen.intersection(self.noise_scenarios)):
            # With base_set "all" every scenario is compared with the same bases.
            rows = np.array([name in key.scenarios or (key.base is None and self.base_set == "all") for key in keys])
            part, inside = scores.take(rows), None if clusters is None else clusters[rows]
            value = self.reducer.value(part)
            by_scenario[name] = {
                "value": None if math.isnan(value) else value,
                "interval": interval_ends(self.reducer.interval(part, *self.range, clusters=inside)),
                **self._sides(part, inside),
            }
        return {**sides, "scenarios": by_scenario}

    def _over_all(self, keys: Sequence[FamilyKey]) -> dict[str, Any]:
        """The base value over all samples that are no variants, and the ratio of all noisy samples to it."""
        assert isinstance(self.reducer, (RatioOfSums, RatioOfValues))
        known = (key for key in keys if key is not None and key.payload[-1] is not None)
        own = sorted(known, key=lambda key: key[:2])
        base = self.reducer.side([key.payload[-1] for key in own if key.base is None])
        wanted = set(self.noise_scenarios)
        noisy = [key.payload[-1] for key in own if key.base is not None and not wanted.isdisjoint(key.scenarios)]
        return {
            "base_score_all": None if math.isnan(base) else base,
            "value_all_base": self.reducer.side(noisy) / base if noisy and base > 0 else None,
        }

    def _sides(self, scores: Scores, clusters: Clusters | None) -> dict[str, Any]:
        """Base and noisy values and their difference, from counted outcomes."""
        keys: Sequence[FamilyKey] = scores.keys or ()
        noisy_keys = [key for key in keys if key.base is not None]
        bases = {key.base for key in noisy_keys} if self.base_set == "pairs" else {key.sample_id for key in keys}
        difference: Interval | None = None
        if isinstance(self.reducer, RatioOfValues):
            base, noisy = self.reducer.sides(scores)
        else:
            assert isinstance(self.reducer, RatioOfSums)
            stats = np.zeros((0, 4)) if scores.stats is None else scores.stats
            base, noisy = self.reducer.sides([math.fsum(column) for column in stats.T.tolist()])
            difference = self._difference(self.reducer, stats, clusters)
        change = noisy - base
        return {
            "base_score": None if math.isnan(base) else base,
            "noisy_score": None if math.isnan(noisy) else noisy,
            "difference": None if math.isnan(change) else change,
            "difference_interval": interval_ends(difference),
            "num_noisy": len(noisy_keys),
            "num_base": len(bases) if self.base_set == "pairs" else len(keys) - len(noisy_keys),
        }

    def _difference(self, reducer: RatioOfSums, stats: Floats, clusters: Clusters | None) -> Interval | None:
        if self.base_set == "pairs" and isinstance(reducer.inner_reducer, Mean):
            low, high = self.inner.range
            return mean_interval(stats[:, 2] - stats[:, 0], clusters=clusters, lowest=low - high, highest=high - low)

        def differences(drawn: Floats) -> Floats:
            return np.array([noisy - base for base, noisy in map(reducer.sides, drawn.tolist())])

        interval = bootstrap_interval(stats, differences, clusters=clusters)
        # As with the ratio: if all draws agree, the interval is unbounded.
        return None if interval is None or interval.method == "all_equal" else interval


# --- counterfactual consistency: similarity of the answers to a question and to its counterfactual variants ----------

_BATCH_SIZE = 1024
"""The number of pairs of answers compared at a time."""


@register("counterfactual_consistency")
@dataclass(frozen=True)
class CounterfactualConsistency(FamilyMetric, WrapperMetric):
    r"""Similarity of the answers to a question and to its counterfactual variants.

    .. math:: \text{similarity}(\text{answer to the base question}, \text{answer to the variant})

    A variant names its base in `labels["variant_of"]` and is marked by `labels["scenario"]`. The answer to the base
    question serves as the reference, the answer to the variant as the answer; `base` is any metric that compares an
    answer to a reference and nothing else. The value is the mean over variants. Where the system failed on either, the
    pair counts at the similarity's worst value.
    """

    base: Any = "token_f1"
    counterfactual_scenarios: tuple[str, ...] = field(
        default=("counterfactual",), metadata={"convert": partial(require_scenarios, "counterfactual_scenarios")}
    )

    target = TargetCategory.COUNTERFACTUAL_ROBUSTNESS
    metadata = declare(
        reads=frozenset({"response"}),
        skip_reasons={
            **BASE_SKIPS,
            "no_response": "there is no answer to compare, to the variant or to its base",
        },
        failure_note="counts at the worst value of the similarity, on either side of a pair",
        examples=(
            "counterfactual_consistency",
            {"counterfactual_consistency": {"base": "exact_match", "counterfactual_scenarios": ["typo", "paraphrase"]}},
        ),
        signature={"scenarios": SignatureOption("counterfactual_scenarios", write=join_scenarios)},
        worst_of_base=True,
    )
    base_role: ClassVar[str] = "similarity"

    def __post_init__(self) -> None:
        super().__post_init__()
        inner = self.inner
        if (
            inner.required_fields() != ["reference_answer"]
            or not inner.metadata.reads <= {"response"}
            or is_paired_metric(inner)
        ):
            raise BadValueError(
                f"counterfactual_consistency compares answers, which '{inner.name}' does not; take a metric that needs "
                "a reference answer and nothing else (its required_fields() are ['reference_answer']), such as token_f1"
            )
        self.copy_attributes("range", "higher_is_better", "binary")

    @property
    def scenarios(self) -> tuple[str, ...]:  # type: ignore[override]
        """The counterfactual scenarios."""
        return self.counterfactual_scenarios

    def required_fields(self) -> list[str]:
        """None: the reference is an answer of the system."""
        return []

    def score(self, batch: Batch) -> Scores:
        """Whether there is an answer, which is stored in the key."""
        answered = apply_failure_policy(with_conventions(_HasAnswer(), self.inner.active_conventions), batch)
        return with_family_keys(
            answered, batch, [None if output is None else output.response for output in batch.outputs]
        )

    def pair_samples(self, scores: Scores) -> Scores:
        """The similarity of each variant's answer to its base's."""
        if scores.keys is None:
            return scores
        n, family = len(scores), find_parents(scores.keys, self.scenarios)
        rest = Scores.of(np.zeros(n), skip=family.skips(n), keys=scores.keys)
        variants, bases = family.variants[family.rows >= 0], family.rows[family.rows >= 0]
        both = np.stack([scores.status[variants], scores.status[bases]])
        failed, skipped = (both == Status.SYSTEM_FAILED).any(axis=0), (both == Status.SKIPPED).any(axis=0)
        worst = (
            math.nan if self.worst is None or self.inner.active_conventions.on_system_failure != "worst" else self.worst
        )
        for mask, status, reason, value in (
            (failed, Status.SYSTEM_FAILED, "one_failed", worst),
            (skipped, Status.SKIPPED, "no_response", math.nan),
        ):
            rows = np.zeros(n, np.bool_)
            rows[variants[mask]] = True
            rest = rest.replaced(rows, status, reason, value)
        usable = ~failed & ~skipped
        alike = replace(self._similarities(scores.keys, variants[usable], bases[usable]), stats=None)
        alike = replace(alike, keys=tuple(scores.keys[row] for row in variants[usable]))
        others = np.setdiff1d(np.arange(n), variants[usable])
        return Scores.woven((variants[usable], alike), (others, rest.take(others)))

    def _similarities(self, keys: Sequence[FamilyKey], variants: Ints, bases: Ints) -> Scores:
        samples = [
            _compared(keys[variant].sample_id, keys[base].payload)
            for variant, base in zip(variants.tolist(), bases.tolist(), strict=True)
        ]
        outputs = [SystemOutputs([], keys[variant].payload or Response("")) for variant in variants.tolist()]
        inner, parts = self.inner, []
        for start in range(0, len(samples), _BATCH_SIZE):
            batch = Batch(samples[start : start + _BATCH_SIZE], outputs[start : start + _BATCH_SIZE])
            scores = apply_failure_policy(inner, batch)
            warn_notes([batch.notes])
            if isinstance(inner.reducer, ComputedReducer):  # its value over one pair is the pair's score
                scores = Scores.of([inner.reducer.value(scores.take([row])) for row in range(len(scores))])
            parts.append(replace(scores, stats=None, keys=None))
        return Scores.concat(parts)

    def explain(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """Both answers and their similarity."""
        base = around.find(str(sample.labels.get("variant_of")))
        if base is None or isinstance(self.inner.reducer, ComputedReducer):
            return super().explain(sample, output, around)
        first = base[1].response if base[1] is not None else None
        steps = DerivationBuilder().add_step(
            f"The base {base[0].sample_id} was answered with {quote_text(first.text if first else '')}"
        )
        steps.add_step("That answer takes the place of the reference:")
        pair = _compared(sample.sample_id, first)
        answer = SystemOutputs([], output.response or Response(""))
        return prepend_steps(steps, inner_derivation(self.inner, pair, answer, around))

    def reference_value(self, samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs]) -> float | None:
        """The mean similarity of pairs by the similarity's plain definition."""
        answers = {sample.sample_id: output.response for sample, output in zip(samples, outputs, strict=True)}
        found = []
        for sample, output in zip(samples, outputs, strict=True):
            base = answers.get(str(sample.labels.get("variant_of")))
            if is_variant(sample, self.scenarios) and base is not None and output.response is not None:
                outcome = self.inner.reference(_compared(sample.sample_id, base), output)
                if outcome is None:
                    return None
                found += [] if outcome.value is None else [outcome.value]
        return math.fsum(found) / len(found) if found else math.nan


def _compared(sample_id: str, base: Response | None) -> EvaluationSample:
    """A sample whose reference is the answer to the base question, which is compared even where it is empty."""
    return EvaluationSample(sample_id, "", reference_answer=base or Response(""), labels={"answerable": False})


class _HasAnswer(SampleMetric):
    """Whether there is an answer to compare."""

    target = TargetCategory.GENERATION_CORRECTNESS

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        return Score(0.0)
