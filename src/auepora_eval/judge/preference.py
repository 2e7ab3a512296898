"""Pairwise preference: a judge compares the answers of two systems in both orders."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..core.batch import Batch, check_samples
from ..core.metrics_base import sample_clusters
from ..core.types import EvaluationSample, SystemOutputs
from ..errors import AlignmentError, JudgeError
from ..render.block_report import BlockReport
from ..render.blocks import Block, DefinitionList, Details, Prose
from ..render.markdown import blocks_markdown
from ..stats.intervals import Interval, Ints, interval_ends, mean_interval
from ..stats.permutation import sign_flips
from .critic import Critic, JudgeClient, JudgePolicy, MemberReply, decides
from .prompting import Prompt, resolve_prompt
from .ratings import (
    UNIT_SCALE,
    ReplyForm,
    critic_signature,
    object_schema,
    question_frames,
    require_critic,
    resolve_critic,
    returns_number_only,
    run_repeats,
)
from .session import JudgeSession, run_judging

# --- the report: the verdict on every pair, and their summary --------------------------------------------------------

ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class QueryPreference:
    """The verdict on one pair of answers."""

    sample_id: str
    verdict: str
    """``a``, ``b``, ``tie``, ``failed`` (the judge gave no judgement) or ``skipped``."""
    reason: str = ""
    """Why no call was made, or why it failed."""
    consistent: bool | None = None
    """Whether both orders led to the same verdict; ``None`` if no call was made."""
    a_first: str | None = None
    """``first``, ``second`` or ``tie``, with A's answer shown first."""
    b_first: str | None = None
    """The same with B's answer shown first."""


@dataclass(frozen=True, slots=True)
class PreferenceReport(BlockReport):
    """How often the answers of B were preferred to those of A."""

    names: tuple[str, str]
    critic: str
    prompt: str
    win_rate: float | None
    """Proportion of pairs that B won, ties counted half; ``None`` if no pair was judged."""
    interval: Interval | None
    p_value: float | None
    """Of a permutation test that flips signs by cluster: is the win rate 0.5?"""
    bounds: tuple[float, float] | None
    """Win rate if B had lost, and if it had won, every pair on which the judge failed."""
    first_rate: float | None
    """Proportion of verdicts, ties excluded, for the answer shown first; 0.5 without position bias."""
    first_interval: Interval | None
    num_decided: int
    """Number of verdicts that are not ties, counting both orders of a pair."""
    queries: tuple[QueryPreference, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Pairs by outcome; ``inconsistent`` ones are among the ties, ``flipped`` among the inconsistent."""
        verdicts = Counter(query.verdict for query in self.queries)
        reasons = Counter(query.reason for query in self.queries if query.reason)
        return {
            "a_wins": verdicts["a"],
            "b_wins": verdicts["b"],
            "ties": verdicts["tie"],
            "inconsistent": sum(query.consistent is False for query in self.queries),
            "flipped": sum({query.a_first, query.b_first} in ({"first"}, {"second"}) for query in self.queries),
            "judge_failed": verdicts["failed"],
            "skipped": verdicts["skipped"],
            **{f"because_{reason}": count for reason, count in sorted(reasons.items())},
        }

    @property
    def verdict(self) -> str:
        """``better``, ``worse`` or ``inconclusive``: B against A."""
        if self.win_rate is None or self.p_value is None or self.p_value >= ALPHA:
            return "inconclusive"
        ends = self.bounds or (self.win_rate, self.win_rate)
        if ends[0] < 0.5 < ends[1]:  # the pairs on which the judge failed could reverse it
            return "inconclusive"
        return "better" if self.win_rate > 0.5 else "worse"

    @property
    def order_decides(self) -> bool:
        """Whether the judge has a position bias: 0.5 lies outside the interval of the first position's rate."""
        interval = self.first_interval
        return interval is not None and not interval.low <= 0.5 <= interval.high

    def to_dict(self) -> dict[str, Any]:
        """The report as a JSON object."""
        return {
            "schema": 1,
            "a": self.names[0],
            "b": self.names[1],
            "critic": self.critic,
            "prompt": self.prompt,
            "verdict": self.verdict,
            "win_rate": self.win_rate,
            "interval": interval_ends(self.interval),
            "p_value": self.p_value,
            "bounds": None if self.bounds is None else list(self.bounds),
            "counts": self.counts,
            "position": {
                "first_rate": self.first_rate,
                "interval": interval_ends(self.first_interval),
                "num_decided": self.num_decided,
                "order_decides": self.order_decides,
            },
            "per_query": [asdict(query) for query in self.queries],
        }

    def to_markdown(self) -> str:
        """The report as Markdown."""
        return blocks_markdown(self.blocks(), level=1) + "\n"

    def blocks(self) -> list[Block]:
        """The verdict, and the counts behind it."""
        a, b = self.names
        counts = self.counts
        rows = [
            (f"{b} wins", str(counts["b_wins"])),
            (f"{a} wins", str(counts["a_wins"])),
            ("ties", f"{counts['ties']}, {counts['inconsistent']} of them because the order changed the verdict"),
            (f"win rate of {b}", _with_interval(self.win_rate, self.interval)),
            ("p-value", "n/a" if self.p_value is None else f"{self.p_value:.4f}"),
            ("first position wins", _with_interval(self.first_rate, self.first_interval)),
        ]
        if counts["judge_failed"] and self.bounds is not None:
            low, high = self.bounds
            rows.append(("judge failed", f"{counts['judge_failed']}, so the win rate lies in [{low:.4f}, {high:.4f}]"))
        if counts["skipped"]:
            rows.append(("skipped", f"{counts['skipped']} without an answer to compare"))
        blocks: list[Block] = [DefinitionList(rows)]
        if self.order_decides:
            text = "The judge favours a position. Both orders were asked, so that neither system gains by it."
            blocks.append(Prose(text))
        blocks.append(Prose(f"Judged by {self.critic} with the prompt {self.prompt}."))
        return [Details(f"{b} against {a}: {_VERDICT_WORDS[self.verdict]}", blocks, is_open=True)]


_VERDICT_WORDS = {"better": "preferred", "worse": "not preferred", "inconclusive": "inconclusive"}


def _with_interval(value: float | None, interval: Interval | None) -> str:
    if value is None:
        return "n/a"
    return f"{value:.4f}" if interval is None else f"{value:.4f} [{interval.low:.4f}, {interval.high:.4f}]"


# --- requests: the answers of two systems in both orders -------------------------------------------------------------

METRIC = "preference"
"""Name of these requests in the usage log."""
_MAX_PENDING = 256
"""Pairs in flight at least, so that judges are never idle and prompts do not pile up."""
_VERDICTS = {"first": 1.0, "tie": 0.5, "second": 0.0}
_VERDICT_OF = {1: "first", 0: "tie", -1: "second"}


def _number_as_verdict(number: float) -> MemberReply:
    return MemberReply({"verdict": _VERDICT_OF[_sign(number - 0.5)]}, {"verdict": number})


_FORM = ReplyForm(
    'Reply with one JSON object and nothing else: {"rationale": "<why, in one or two sentences>", '
    '"verdict": "first" or "second" or "tie"}',
    object_schema(rationale={"type": "string"}, verdict={"type": "string", "enum": list(_VERDICTS)}),
    "Reply with a number alone: 1 if the first answer is better, 0 if the second one is, 0.5 if neither is better.",
    _VERDICTS,
    _number_as_verdict,
)


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
    """Judge every pair of answers in both orders and count the preferences.

    An answer wins if it is preferred in both orders. If the verdict changes with the order, the pair is a tie and
    counts as inconsistent. A system without an answer loses to one with an answer, and equal answers are a tie, both
    without a call. A pair on which the judge failed in either order is left out, and the report shows the bounds.
    ``prompt`` replaces the built-in prompt: a file, or a ``Prompt``.

    Args:
        samples: The samples.
        outputs_a: Those of one system, in the order of the samples.
        outputs_b: Those of the other one.
        critic: The judge.
        judging: Limits, retries and the cache of judge calls.
        names: Of both systems, for the report.

    Returns:
        A report with the win rate of B, its interval and every pair.

    Example:
        >>> class NamesAda(LLMCritic):
        ...     def score(self, *, prompt, metadata=None):
        ...         first, _, second = prompt.partition("[begin second")
        ...         return 1.0 if "Ada Lovelace" in first.partition("[begin first")[2] else 0.0
        >>> short = [SystemOutputs([], Response("Ada")) for _ in samples]
        >>> prefer(samples, short, outputs, NamesAda()).win_rate
        1.0
    """
    for outputs in (outputs_a, outputs_b):
        if len(samples) != len(outputs):
            raise AlignmentError(len(samples), len(outputs))
    check_samples(samples)
    require_critic(critic)
    pair_judge = _PairJudge(resolve_critic(critic, METRIC), resolve_prompt(prompt, otherwise=METRIC))
    pairs = list(zip(samples, _answers(samples, outputs_a), _answers(samples, outputs_b), strict=True))

    async def ask_all(judge: JudgeSession) -> list[QueryPreference]:
        slots = asyncio.Semaphore(max(_MAX_PENDING, judge.policy.concurrency))

        async def one(sample: EvaluationSample, a: _PairAnswer, b: _PairAnswer) -> QueryPreference:
            async with slots:
                return await pair_judge.compare(judge, sample, a, b)

        return await asyncio.gather(*(one(*pair) for pair in pairs))

    return _report(samples, run_judging(judging, ask_all), pair_judge, names)


@dataclass(frozen=True, slots=True)
class _PairAnswer:
    text: str | None
    """``None`` if there is no answer."""
    failed: bool


def _answers(samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs | None]) -> list[_PairAnswer]:
    return [
        _PairAnswer(
            None if output is None or failure or output.response is None else output.response.text,
            failed=output is None or failure is not None,
        )
        for output, failure in zip(outputs, Batch(samples, outputs).failures, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _PairJudge:
    """A critic and a prompt that judge pairs of answers."""

    critic: Critic
    prompt: Prompt

    async def compare(
        self, judge: JudgeClient, sample: EvaluationSample, a: _PairAnswer, b: _PairAnswer
    ) -> QueryPreference:
        """The verdict on one pair."""
        known = _verdict_without_judge(sample.sample_id, a, b)
        if known is not None:
            return known
        assert a.text is not None
        assert b.text is not None
        outcomes = await asyncio.gather(
            self._judge_order(judge, sample, a.text, b.text),
            self._judge_order(judge, sample, b.text, a.text),
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

    async def _judge_order(self, judge: JudgeClient, sample: EvaluationSample, first: str, second: str) -> float:
        """Preference for the first answer, from 0 to 1, over all repeats of this order."""

        async def once(repeat: int) -> float:
            request = _FORM.request(
                self.prompt,
                self.critic,
                {"question": question_frames(sample), "first": first, "second": second},
                metric=METRIC,
                sample_id=sample.sample_id,
                repeat=repeat,
                metadata={"dimension": METRIC},
            )
            judgement = await judge.ask(self.critic, request)
            if decides(self.critic) and judgement.weighted is not None:
                return judgement.weighted
            if returns_number_only(self.critic):
                return UNIT_SCALE.normalise(judgement.answer.get("score"))
            verdict = judgement.answer.get("verdict")
            if "verdict" in judgement.values:  # voted on by a panel
                return judgement.values["verdict"]
            if verdict not in _VERDICTS:
                raise JudgeError("unparseable", f"the judge's verdict was {verdict!r:.80}")
            return _VERDICTS[str(verdict)]

        values, _ = await run_repeats(judge, once)
        return math.fsum(values) / len(values)


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)


def _verdict_without_judge(sample_id: str, a: _PairAnswer, b: _PairAnswer) -> QueryPreference | None:
    """The verdict on a pair that needs no judge, or ``None``."""
    if a.failed or b.failed:
        verdict = "tie" if a.failed and b.failed else "b" if a.failed else "a"
        return QueryPreference(sample_id, verdict, reason="both_failed" if verdict == "tie" else "other_failed")
    if a.text is None or b.text is None:
        return QueryPreference(sample_id, "skipped", reason="no_response")
    return QueryPreference(sample_id, "tie", reason="same_answer") if a.text.strip() == b.text.strip() else None


# --- counting ---------------------------------------------------------------------------------------------------------

_FOR_B = {"b": 1.0, "tie": 0.5, "a": 0.0}


def _report(
    samples: Sequence[EvaluationSample], queries: list[QueryPreference], pair_judge: _PairJudge, names: tuple[str, str]
) -> PreferenceReport:
    codes = sample_clusters(samples)
    units = np.arange(len(samples), dtype=np.intp) if codes is None else codes
    rows = np.array([row for row, query in enumerate(queries) if query.verdict in _FOR_B], dtype=np.intp)
    values = np.array([_FOR_B[queries[row].verdict] for row in rows])
    failed = sum(query.verdict == "failed" for query in queries)
    interval, p_value, bounds = None, None, None
    if len(rows):
        interval = mean_interval(values, clusters=units[rows], lowest=0.0, highest=1.0)
        # 0.5 is a tie: the distance from it is what the test flips.
        p_value = float(sign_flips((2 * values - 1)[:, None], units[rows]).p_values[0])
    if failed:
        total, n = math.fsum(values), len(rows) + failed
        bounds = (total / n, (total + failed) / n)
    first, first_interval, decided = _first_wins(queries, units)
    return PreferenceReport(
        names=names,
        critic=critic_signature(pair_judge.critic),
        prompt=pair_judge.prompt.id,
        win_rate=float(math.fsum(values) / len(values)) if len(rows) else None,
        interval=interval,
        p_value=p_value,
        bounds=bounds,
        first_rate=first,
        first_interval=first_interval,
        num_decided=decided,
        queries=tuple(queries),
    )


def _first_wins(queries: Sequence[QueryPreference], units: Ints) -> tuple[float | None, Interval | None, int]:
    """Proportion of verdicts, ties excluded, for the answer shown first; 0.5 without position bias."""
    first_won: list[float] = []
    owners: list[int] = []
    for unit, query in zip(units.tolist(), queries, strict=True):
        for verdict in (query.a_first, query.b_first):
            if verdict in ("first", "second"):
                first_won.append(float(verdict == "first"))
                owners.append(unit)
    if not first_won:
        return None, None, 0
    # The two orders of a pair are one cluster: a consistent judge gives one first and one second.
    interval = mean_interval(np.array(first_won), clusters=np.array(owners, dtype=np.intp), lowest=0.0, highest=1.0)
    return math.fsum(first_won) / len(first_won), interval, len(first_won)
