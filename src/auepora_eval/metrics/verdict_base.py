"""Base class of metrics over verdicts on statements, by a critic or an NLI function."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..core.batch import Batch
from ..core.derivation import NO_CONTEXT, Derivation, DerivationBuilder, ExplainContext
from ..core.errors import BadValueError
from ..core.resources import Use, resolve
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, SystemOutputs
from ..judge.critic import Critic, JudgeClient
from ..judge.entailment import EntailmentFunction, NliModel
from ..judge.prompting import Prompt, resolve_prompt
from ..judge.ratings import Rating, RatingSet, run_repeats
from ..judge.support import SupportVerdict, check_support, parse_verifier, resolve_verifier, verifier_name
from .derivations_verdicts import verdict_steps
from .shared_judgements import SharedJudgementMixin
from .sources import CheckedStatements, Source, merge_sources

__all__ = ["VerdictMetric", "VerdictResult", "Verify"]

Verify = Callable[[Sequence[Source], Sequence[str]], Awaitable[list[SupportVerdict]]]
"""Takes evidence (all together) and statements; returns a verdict per statement."""


@dataclass(frozen=True, slots=True)
class VerdictResult:
    """The value and counts of one judgement of a sample."""

    value: float
    counts: tuple[float, ...] = ()
    """The counts, in the order of ``own_count_names``."""


@dataclass(frozen=True)
class VerdictMetric(SharedJudgementMixin):
    """A metric over verdicts whether texts support statements."""

    # Critics need not be hashable; metrics are compared by equality.
    critic: Any = field(default=None, hash=False)
    """The verifier: a critic, a function ``(premise, hypothesis) -> float``, an ``Nli``; in a plan ``{use: NAME}`` or
    ``{nli: PATH}``."""
    prompt: Any = field(default=None, kw_only=True)
    """A custom prompt: the path of a file, or a ``Prompt``."""
    own_prompt: Prompt | None = field(init=False, repr=False, default=None)
    """The custom prompt, loaded."""

    prompt_names: ClassVar[tuple[str, ...]] = ("support",)
    own_count_names: ClassVar[tuple[str, ...]] = ()
    """The names of the metric's own counts."""
    formula_text: ClassVar[str]
    """The formula of the score, as text."""
    python_options: ClassVar[frozenset[str]] = frozenset({"critic"})  # on the command line --judge-model names it
    reads: ClassVar[frozenset[str]] = frozenset({"response"})
    skip_reasons: ClassVar[dict[str, str]] = {"no_response": "no answer was asked for"}

    def __post_init__(self) -> None:
        object.__setattr__(self, "critic", parse_verifier(self.critic, what="critic"))
        if self.prompt is not None:
            object.__setattr__(self, "own_prompt", resolve_prompt(self.prompt, otherwise="support"))
        super().__post_init__()

    @property
    def prompt_used(self) -> Prompt:
        """The prompt in use."""
        return self.own_prompt or resolve_prompt(None, otherwise="support")

    @property
    def count_names(self) -> tuple[str, ...]:
        """The names of the counts; with an NLI model also ``num_truncated``."""
        return (
            (*self.own_count_names, "num_truncated")
            if isinstance(self.known_critic, NliModel)
            else self.own_count_names
        )

    @property
    def known_critic(self) -> Any:
        """The verifier, as far as it is resolved."""
        return parse_verifier(self.critic.thing) if isinstance(self.critic, Use) else self.critic

    @abstractmethod
    def known_outcome(self, sample: EvaluationSample, output: SystemOutputs) -> Score | VerdictResult | None:
        """The outcome that needs no judge; ``None`` if a judge is needed."""

    @abstractmethod
    async def count(self, sample: EvaluationSample, output: SystemOutputs, verify: Verify) -> VerdictResult:
        """The result of one judgement of a sample."""

    def checker(self) -> Critic | EntailmentFunction | NliModel:
        """The resolved verifier."""
        verifier = resolve(self.critic, what=f"the critic of metric '{self.name}'")
        if verifier is None:
            raise BadValueError(
                f"metric '{self.name}' needs a critic: pass critic=..., or in a plan "
                f"{{{self.name}: {{critic: {{use: judge}}}}}} with the judge under 'resources', or {{nli: PATH}} for "
                "an NLI model, or on the command line --judge-model NAME"
            )
        return resolve_verifier(verifier, what=f"the critic of metric '{self.name}'")

    def require_judges(self) -> None:
        """Raise unless a verifier is configured."""
        self.checker()

    def require_ready(self) -> None:
        """Raise unless a verifier is configured."""
        verifier = self.checker()
        if isinstance(verifier, NliModel):
            verifier.require_ready()
        super().require_ready()

    async def ascore(self, batch: Batch, judge: JudgeClient) -> Scores:
        """One outcome per sample; failed measurements are noted."""
        scores = await super().ascore(batch, judge)
        for row in np.flatnonzero(scores.status == Status.MEASURE_FAILED).tolist():
            sample, output = batch.samples[row], batch.outputs[row]
            message = "" if output is None else self.failure_message(sample, output)
            if message:
                batch.note(f"metric '{self.name}': {message}", sample.sample_id)
        return scores

    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient) -> Score:
        """The mean over the judgements of one sample."""
        outcome = self.known_outcome(sample, output)
        if isinstance(outcome, Score):
            return outcome
        if outcome is not None:
            return self.score_without_judge(self._rating(outcome, 0))
        verifier = self.checker()

        async def once(repeat: int) -> Rating:
            result, checked = await self.judge_once(sample, output, judge, verifier, repeat)
            return self._rating(result, sum(verdict.cut for one in checked for verdict in one.verdicts))

        if isinstance(verifier, (EntailmentFunction, NliModel)):  # deterministic: no repeats
            return self.score_ratings(RatingSet((await once(0),), 1))
        ratings, requested = await run_repeats(judge, once)
        return self.score_ratings(RatingSet(tuple(ratings), requested))

    async def judge_once(
        self,
        sample: EvaluationSample,
        output: SystemOutputs,
        judge: JudgeClient,
        verifier: Critic | EntailmentFunction | NliModel,
        repeat: int,
    ) -> tuple[VerdictResult, list[CheckedStatements]]:
        """The result of one judgement of a sample, and its verdicts in the order of requests."""
        checked: list[CheckedStatements] = []

        async def verify(evidence: Sequence[Source], statements: Sequence[str]) -> list[SupportVerdict]:
            statements_checked = CheckedStatements(statements, merge_sources(evidence))
            checked.append(statements_checked)
            statements_checked.verdicts = await check_support(
                judge,
                verifier,
                statements_checked.against.texts,
                statements,
                metric=self.name,
                sample_id=sample.sample_id,
                repeat=repeat,
                prompt=self.own_prompt,
                source_name=statements_checked.against.name,
            )
            return statements_checked.verdicts

        return await self.count(sample, output, verify), checked

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The input, the verdicts and the counts, from the stored judgements."""
        derivation = verdict_steps(self, sample, output, around)
        return super().derivation(sample, output, around) if derivation is None else derivation

    @abstractmethod
    def add_input_steps(self, steps: DerivationBuilder, sample: EvaluationSample, output: SystemOutputs) -> None:
        """Add the judged input of a sample to its derivation."""

    def _rating(self, result: VerdictResult, cut: int) -> Rating:
        counts = (*result.counts, float(cut))[: len(self.count_names)]
        return Rating((result.value,), counts=counts)

    def signature_options(self) -> dict[str, str]:
        """The verifier and the prompt."""
        uses_nli = isinstance(self.known_critic, (EntailmentFunction, NliModel))
        return {"critic": verifier_name(self.critic), **({} if uses_nli else {"prompt": self.prompt_used.id})}
