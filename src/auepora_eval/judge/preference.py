"""Which of two systems' answers a judge prefers: both orders asked, ties, and how much the order itself decides."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch, check_samples
from ..core.errors import AlignmentError, JudgeError
from ..core.scoring import sample_clusters
from ..core.types import EvaluationSample, SystemOutputs
from ..stats.interval import Interval, mean_interval
from ..stats.sign_flips import sign_flips
from .critic import Critic, JudgeClient, JudgeRequest
from .loop import LoopThread
from .policy import JudgePolicy
from .preference_report import PreferenceReport, QueryPreference
from .prompting import Prompt, resolve_prompt
from .ratings import critic_signature, question_frames, require_critic, resolve_critic, returns_number_only, run_repeats
from .scale import Scale
from .session import JudgeSession

__all__ = ["prefer"]

METRIC = "preference"
"""What the accounts call these questions."""
_MAX_PENDING = 256
"""How many pairs are under way at least, so that judges are never idle and prompts do not pile up."""
_VERDICTS = {"first": 1.0, "tie": 0.5, "second": 0.0}
_SCALE = Scale(0.0, 1.0)
_OBJECT_FORM = (
    'Reply with one JSON object and nothing else: {"rationale": "<why, in one or two sentences>", '
    '"verdict": "first" or "second" or "tie"}'
)
_BARE_FORM = (
    "Reply with a number alone: 1 if the first answer is better, 0 if the second one is, 0.5 if neither is better."
)
_OBJECT_SCHEMA = {
    "type": "object",
    "properties": {"rationale": {"type": "string"}, "verdict": {"type": "string", "enum": list(_VERDICTS)}},
    "required": ["rationale", "verdict"],
    "additionalProperties": False,
}
_BARE_SCHEMA = {
    "type": "object",
    "properties": {"score": _SCALE.schema},
    "required": ["score"],
    "additionalProperties": False,
}


def prefer(
    samples: Sequence[EvaluationSample],
    outputs_a: Sequence[SystemOutputs | None],
    outputs_b: Sequence[SystemOutputs | None],
    critic: Critic,
    *,
    judging: JudgeSession | JudgePolicy | None = None,
    prompt: object = None,
    names: tuple[str, str] = ("A", "B"),
) -> PreferenceReport:
    """Have every pair of answers judged in both orders, and count who is preferred.

    An answer wins where it is preferred in both orders. Where the verdict changes with the order, the pair is a tie and
    is counted as inconsistent. A system that gave no answer loses to one that did, and nobody is asked; answers that
    are the same are a tie, likewise. A pair the judge failed on in either order is left out, and the report shows the
    bounds. ``prompt`` is another prompt than ours: a file, or a ``Prompt``.
    """
    for outputs in (outputs_a, outputs_b):
        if len(samples) != len(outputs):
            raise AlignmentError(len(samples), len(outputs))
    check_samples(samples)
    require_critic(critic)
    asked = _PairJudge(resolve_critic(critic, METRIC), resolve_prompt(prompt, otherwise=METRIC))
    session = judging if isinstance(judging, JudgeSession) else JudgeSession(judging or JudgePolicy())
    pairs = list(zip(samples, _answers(samples, outputs_a), _answers(samples, outputs_b), strict=True))

    async def ask() -> list[QueryPreference]:
        room = asyncio.Semaphore(max(_MAX_PENDING, session.policy.concurrency))

        async def one(sample: EvaluationSample, a: _PairAnswer, b: _PairAnswer) -> QueryPreference:
            async with room:
                return await asked.compared(judge, sample, a, b)

        async with session as judge:
            return await asyncio.gather(*(one(*pair) for pair in pairs))

    with LoopThread() as loop:
        queries = loop.run(ask())
    return _report(samples, queries, asked, names)


@dataclass(frozen=True, slots=True)
class _PairAnswer:
    text: str | None
    """``None`` where no answer was asked for, or none was given."""
    failed: bool


def _answers(samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs | None]) -> list[_PairAnswer]:
    batch = Batch(samples, outputs)
    return [
        _PairAnswer(
            None if output is None or failure or output.response is None else output.response.text,
            failed=output is None or failure is not None,
        )
        for output, failure in zip(outputs, batch.failures, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _PairJudge:
    """One critic and one prompt, and how a pair is put to them."""

    critic: Critic
    prompt: Prompt
    bare: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bare", returns_number_only(self.critic))

    async def compared(
        self, judge: JudgeClient, sample: EvaluationSample, a: _PairAnswer, b: _PairAnswer
    ) -> QueryPreference:
        """The verdict on one pair."""
        settled = _verdict_without_judge(sample.sample_id, a, b)
        if settled is not None:
            return settled
        assert a.text is not None
        assert b.text is not None
        outcomes = await asyncio.gather(
            self._ordered(judge, sample, a.text, b.text),
            self._ordered(judge, sample, b.text, a.text),
            return_exceptions=True,
        )
        for outcome in outcomes:
            if isinstance(outcome, JudgeError):
                return QueryPreference(sample.sample_id, "failed", reason=outcome.reason)
            if isinstance(outcome, BaseException):
                raise outcome
        a_first, b_first = (outcome for outcome in outcomes if isinstance(outcome, float))
        for_b = (_sign(0.5 - a_first), _sign(b_first - 0.5))
        verdict = {2: "b", -2: "a"}.get(sum(for_b), "tie")
        return QueryPreference(
            sample.sample_id,
            verdict,
            consistent=for_b[0] == for_b[1],
            a_first=_VERDICT_OF[_sign(a_first - 0.5)],
            b_first=_VERDICT_OF[_sign(b_first - 0.5)],
        )

    async def _ordered(self, judge: JudgeClient, sample: EvaluationSample, first: str, second: str) -> float:
        """How much the first is preferred, from 0 to 1, over all repeats of this order."""

        async def once(repeat: int) -> float:
            judgement = await judge.ask(self.critic, self._request(sample, first, second, repeat))
            if self.bare:
                return _SCALE.normalise(judgement.answer.get("score"))
            verdict = judgement.answer.get("verdict")
            if verdict not in _VERDICTS:
                raise JudgeError("unparseable", f"the judge's verdict was {verdict!r:.80}")
            return _VERDICTS[str(verdict)]

        came, _ = await run_repeats(judge, once)
        return math.fsum(came) / len(came)

    def _request(self, sample: EvaluationSample, first: str, second: str, repeat: int) -> JudgeRequest:
        system, text = self.prompt.render(
            words={"form": _BARE_FORM if self.bare else _OBJECT_FORM},
            question=question_frames(sample),
            first=first,
            second=second,
        )
        return JudgeRequest(
            prompt=f"{system}\n\n{text}" if self.bare else text,
            system="" if self.bare else system,
            schema=_BARE_SCHEMA if self.bare else _OBJECT_SCHEMA,
            prompt_id=self.prompt.id,
            repeat=repeat,
            metric=METRIC,
            sample_id=sample.sample_id,
            metadata={"scale": str(_SCALE), "metric": METRIC, "sample_id": sample.sample_id, "dimension": METRIC},
        )


_VERDICT_OF = {1: "first", 0: "tie", -1: "second"}


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)


def _verdict_without_judge(sample_id: str, a: _PairAnswer, b: _PairAnswer) -> QueryPreference | None:
    """The outcome of a pair that need not be judged."""
    if a.failed or b.failed:
        verdict = "tie" if a.failed and b.failed else "b" if a.failed else "a"
        return QueryPreference(sample_id, verdict, reason="both_failed" if verdict == "tie" else "other_failed")
    if a.text is None or b.text is None:
        return QueryPreference(sample_id, "skipped", reason="no_response")
    return QueryPreference(sample_id, "tie", reason="same_answer") if a.text.strip() == b.text.strip() else None


# --- counting ---------------------------------------------------------------------------------------------------------

_FOR_B = {"b": 1.0, "tie": 0.5, "a": 0.0}


def _report(
    samples: Sequence[EvaluationSample], queries: list[QueryPreference], asked: _PairJudge, names: tuple[str, str]
) -> PreferenceReport:
    codes = sample_clusters(samples)
    units = np.arange(len(samples), dtype=np.intp) if codes is None else codes
    rows = np.array([row for row, one in enumerate(queries) if one.verdict in _FOR_B], dtype=np.intp)
    values = np.array([_FOR_B[queries[row].verdict] for row in rows])
    failed = sum(one.verdict == "failed" for one in queries)
    interval, p_value, bounds = None, None, None
    if len(rows):
        interval = mean_interval(values, clusters=units[rows], lowest=0.0, highest=1.0)
        # A half is a draw: what is flipped is how far a pair is from one.
        p_value = float(sign_flips((2 * values - 1)[:, None], units[rows]).p_values[0])
    if failed:
        total, n = math.fsum(values), len(rows) + failed
        bounds = (total / n, (total + failed) / n)
    first, first_interval, decided = _first_wins(queries, units)
    return PreferenceReport(
        names=names,
        critic=critic_signature(asked.critic),
        prompt=asked.prompt.id,
        win_rate=float(math.fsum(values) / len(values)) if len(rows) else None,
        interval=interval,
        p_value=p_value,
        bounds=bounds,
        first_rate=first,
        first_interval=first_interval,
        num_decided=decided,
        queries=tuple(queries),
    )


def _first_wins(
    queries: Sequence[QueryPreference], units: npt.NDArray[np.intp]
) -> tuple[float | None, Interval | None, int]:
    """How often the answer shown first won, of all verdicts that were no tie; a half where order means nothing."""
    won: list[float] = []
    of: list[int] = []
    for unit, one in zip(units.tolist(), queries, strict=True):
        for verdict in (one.a_first, one.b_first):
            if verdict in ("first", "second"):
                won.append(float(verdict == "first"))
                of.append(unit)
    if not won:
        return None, None, 0
    values = np.array(won)
    # The two orders of a pair belong together: a judge that is consistent gives one first and one second.
    interval = mean_interval(values, clusters=np.array(of, dtype=np.intp), lowest=0.0, highest=1.0)
    return math.fsum(won) / len(won), interval, len(won)
