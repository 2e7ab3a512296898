"""Metrics over verdicts on statements: the texts, one evaluation of a sample, and the base classes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar

from ..core.derivation import (
    Derivation,
    DerivationBuilder,
    ExplainContext,
    attempt_text,
    format_number,
    quote_text,
)
from ..core.metric_metadata import declared_options
from ..core.metrics_base import declare
from ..core.registry import resolve
from ..core.scores import Score
from ..core.types import EvaluationSample, RetrievedDocument, SystemOutputs
from ..errors import BadValueError
from ..judge.critic import Critic, JudgeClient
from ..judge.metric import add_mean_step
from ..judge.nli import EntailmentFunction, NliModel
from ..judge.prompting import Prompt
from ..judge.ratings import Rating
from ..judge.support import (
    SupportVerdict,
    bound_verifier,
    check_support,
    parse_verifier,
    resolve_verifier,
    verifier_name,
)
from .judged_base import RepeatedJudgementMetric, exact_fraction

# --- texts that statements are extracted from or compared with, each with a display name -----------------------------


@dataclass(frozen=True, slots=True)
class Source:
    """One or several texts with a name."""

    name: str
    """Such as ``the answer``, or the id of a document."""
    texts: tuple[str, ...]


@dataclass(slots=True)
class CheckedStatements:
    """Statements verified against a source."""

    statements: Sequence[str]
    against: Source
    verdicts: list[SupportVerdict] = field(default_factory=list)
    """One per statement, once they are available."""


def document_sources(retrieved: Iterable[RetrievedDocument]) -> list[Source]:
    """One source per document, named by its id."""
    return [Source(item.doc.doc_id, (item.doc.text or "",)) for item in retrieved]


def merge_sources(sources: Iterable[Source], name: str = "") -> Source:
    """Merge several sources into one, with a name or all their names."""
    parts = list(sources)
    texts = chain.from_iterable(part.texts for part in parts)
    return Source(name or ", ".join(part.name for part in parts), tuple(texts))


# --- base class of metrics over verdicts on statements, by a critic or an NLI function -------------------------------


class StatementEvaluation:
    """One judgement of a sample: verifies statements, and records the verdicts in the order of requests."""

    def __init__(
        self, metric: StatementMetric, judge: JudgeClient, sample: EvaluationSample, output: SystemOutputs, repeat: int
    ) -> None:
        self.sample, self.output = sample, output
        self.checked: list[CheckedStatements] = []
        self._judge, self._verifier, self._prompt = judge, metric._checker(), metric.prompts_used[-1]
        self._request_options: dict[str, Any] = {"metric": metric.name, "sample_id": sample.sample_id, "repeat": repeat}

    @property
    def answer(self) -> Source:
        """The answer of the system."""
        return Source("the answer", ("" if self.output.response is None else self.output.response.text,))

    @property
    def truncated(self) -> int:
        """The number of verdicts on truncated texts."""
        verdicts = chain.from_iterable(statements.verdicts for statements in self.checked)
        return sum(verdict.cut for verdict in verdicts)

    async def verify(self, statements: Sequence[str], by: Source) -> list[SupportVerdict]:
        """A verdict per statement, from all texts of the source together."""
        checked = CheckedStatements(statements, by)
        self.checked.append(checked)
        checked.verdicts = await check_support(
            self._judge,
            self._verifier,
            by.texts,
            statements,
            prompt=self._prompt,
            source_name=by.name,
            **self._request_options,
        )
        return checked.verdicts


class SampleSkippedError(Exception):
    """Ends the evaluation of a sample that a metric does not apply to."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class StatementMetric(RepeatedJudgementMetric):
    """A metric over verdicts whether texts support statements: ``_rate`` makes a rating of an evaluation."""

    _own_counts: ClassVar[tuple[str, ...]] = ()
    """The names of the metric's own counts."""
    _evaluation_type: ClassVar[type[StatementEvaluation]] = StatementEvaluation

    @property
    def _count_names(self) -> tuple[str, ...]:
        """The names of the counts; with an NLI model also ``num_truncated``."""
        truncated = ("num_truncated",) if isinstance(self._known_verifier, NliModel) else ()
        return (*self._own_counts, *truncated)

    @property
    def _known_verifier(self) -> Any:
        """The verifier, as far as it is resolved."""
        return bound_verifier(getattr(self, "verifier", None) or self.critic)

    def _certain_controls(self, kinds: Mapping[str, bool]) -> Mapping[str, bool]:
        """Without altered facts: a single wrong statement among several leaves the score in the better half."""
        return {kind: accepted for kind, accepted in kinds.items() if kind != "altered_fact"}

    @property
    def _uses_nli(self) -> bool:
        """Whether an NLI function or model verifies the statements, not a critic."""
        return isinstance(self._known_verifier, (EntailmentFunction, NliModel))

    @property
    def _needs_repeats(self) -> bool:
        """Whether a judge is called; NLI functions and models are deterministic and need no repeats."""
        return not self._uses_nli

    @abstractmethod
    def _checker(self) -> Critic | EntailmentFunction | NliModel:
        """The resolved verifier."""

    def _require_judges(self) -> None:
        """Raise unless a verifier is configured."""
        self._checker()

    def require_ready(self) -> None:
        """Raise unless the judges are configured and a verifier model can be loaded."""
        super().require_ready()
        verifier = self._checker()
        if isinstance(verifier, NliModel):
            verifier.require_ready()

    @abstractmethod
    async def _rate(self, evaluation: Any) -> Rating:
        """The values and counts of one judgement."""

    async def _judge_once(
        self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient, repeat: int
    ) -> tuple[Any, Rating | Score]:
        """One judgement of a sample: its evaluation and the values with counts, or an outcome without values."""
        evaluation = self._evaluation_type(self, judge, sample, output, repeat)
        try:
            rating = await self._rate(evaluation)
        except SampleSkippedError as skipped:
            return evaluation, Score.skip(skipped.reason)
        return evaluation, replace(rating, counts=(*rating.counts, float(evaluation.truncated)))

    def replay(self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext) -> Derivation | None:
        """The input, the verdicts and the counts, from the stored judgements."""
        steps = DerivationBuilder().add_step(f"The question: {quote_text(sample.query)}")
        known = self._known_outcome(sample, output)
        if isinstance(known, Rating):
            self._add_input_steps(steps, sample, output, ())
            (value,) = known.values
            return steps.finish(f"No calls were needed: {format_number(value)}", value)
        if known is not None or (self._uses_nli and not around.may_call_models):
            return None
        judged = self._with_replay_critics(around.judgements)._replayed(sample, output, around.judgements)
        if judged is None:
            return None
        self._add_input_steps(steps, sample, output, [evaluation for _, evaluation, _ in judged])
        for repeat, evaluation, rating in judged:
            if len(judged) > 1:
                steps.add_step(f"{attempt_text(repeat).capitalize()}:")
            self._add_result_steps(steps, evaluation, rating)
        values = [self.combine(rating.values) for _, _, rating in judged]
        return add_mean_step(steps, values) if len(values) > 1 else steps.finish_with_value(self.name, values[0])

    @abstractmethod
    def _add_input_steps(
        self,
        steps: DerivationBuilder,
        sample: EvaluationSample,
        output: SystemOutputs,
        evaluations: Sequence[Any],
    ) -> None:
        """Add the judged input of a sample to its derivation."""

    @abstractmethod
    def _add_result_steps(self, steps: DerivationBuilder, evaluation: Any, rating: Rating) -> None:
        """Add the verdicts of one judgement, and the values that follow from them."""


@dataclass(frozen=True)
class VerdictMetric(StatementMetric):
    """A metric over verdicts by its critic on statements that need no extraction."""

    critic: Any = field(default=None, hash=False, metadata={"convert": partial(parse_verifier, what="critic")})
    """The verifier: a critic, a function ``(premise, hypothesis) -> float``, an ``Nli``; in a plan ``{use: NAME}`` or
    ``{nli: PATH}``."""
    prompt: Any = field(default=None, kw_only=True, hash=False)
    """A custom prompt: the path of a file, or a ``Prompt``."""

    metadata = declare(prompt_names=("support",))
    _formula_text: ClassVar[str]
    """The formula of the score, as text."""

    def _checker(self) -> Critic | EntailmentFunction | NliModel:
        """The resolved verifier."""
        verifier = resolve(self.critic, what=f"the critic of metric '{self.name}'")
        if verifier is None:
            raise BadValueError(
                f"metric '{self.name}' needs a critic: pass critic=..., or in a plan "
                f"{{{self.name}: {{critic: {{use: judge}}}}}} with the judge under 'resources', or {{nli: PATH}} for "
                "an NLI model, or on the command line --judge-model NAME"
            )
        return resolve_verifier(verifier, what=f"the critic of metric '{self.name}'")

    def _add_input_steps(
        self,
        steps: DerivationBuilder,
        sample: EvaluationSample,
        output: SystemOutputs,
        evaluations: Sequence[StatementEvaluation],
    ) -> None:
        """Add the answer."""
        if output.response is not None:
            steps.add_step(f"The answer: {quote_text(output.response.text)}")

    def _add_result_steps(self, steps: DerivationBuilder, evaluation: StatementEvaluation, rating: Rating) -> None:
        """Add the verdicts, the counts and the formula."""
        rows = []
        for checked in evaluation.checked:
            for statement, verdict in zip(checked.statements, checked.verdicts, strict=True):
                rows.append((statement, checked.against.name, verdict.level.label, verdict.rationale))
        steps.table("How far each is supported", ("statement", "by", "verdict", "why"), rows)
        if self._own_counts:
            counts = zip(self._own_counts, rating.counts, strict=False)
            steps.table("What was counted", ("what", "number"), counts)
        (value,) = rating.values
        fraction, number = str(exact_fraction(value)), format_number(value)
        shown = fraction if fraction == number else f"{fraction} = {number}"
        steps.add_step(f"{capitalise(self._formula_text)}: {shown}", value)

    def _judging_prompts(self) -> dict[str, Prompt]:
        """The prompt that the critic answers, unless it is an NLI function."""
        return {} if self._uses_nli else super()._judging_prompts()

    def signature_options(self) -> dict[str, str]:
        """The verifier, the prompt, and what the class declares."""
        prompt = {} if self._uses_nli else {"prompt": self.prompts_used[0].id}
        return {"critic": verifier_name(self.critic), **prompt, **declared_options(self, self.metadata)}


def capitalise(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]
