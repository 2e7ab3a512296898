"""A judge asked how relevant pooled documents are: what is known is not asked again, and a failure is no grade."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from ..core.errors import JudgeError
from ..core.secrets import Secrets
from ..core.types import EvaluationSample
from ..io.grades import Grade, GradeKey, GradeLog, merge_grade, provenance_counts, write_grades
from ..io.trec_format import require_trec_id
from ..judge.budget import model_name
from ..judge.cache import JudgementCache
from ..judge.critic import Critic, JudgeClient, JudgeRequest
from ..judge.loop import LoopThread
from ..judge.policy import JudgePolicy
from ..judge.preview import Preview, PreviewSession
from ..judge.prompting import resolve_prompt
from ..judge.ratings import RatingPrompt, critic_signature, question_frames, require_critic, resolve_critic, run_repeats
from ..judge.scale import Scale
from ..judge.session import JudgeSession
from .pool import PooledDocument

__all__ = [
    "METRIC",
    "SCALE",
    "RelevanceReport",
    "judge_relevance",
    "merge_known_grades",
    "preview_relevance",
    "write_known_grades",
]

METRIC = "relevance"
"""What the accounts call these questions."""
SCALE = Scale(0.0, 3.0)
_MAX_PENDING = 256
"""How many documents are under way at least, so that judges are never idle and prompts do not pile up."""


@dataclass(frozen=True, slots=True)
class RelevanceReport:
    """What became of a pool."""

    grades: tuple[Grade, ...]
    """Every grade there is, in the order of the pool; then those of documents that are not in it."""
    num_asked: int = 0
    """Documents that a judge was asked about."""
    failed: Mapping[str, int] = field(default_factory=dict)
    """Documents that have no grade, by reason."""
    critic: str = ""
    prompt: str = ""
    num_other_prompt: int = 0
    """Grades of models that were given by another prompt or another model, and kept."""

    @property
    def num_failed(self) -> int:
        """How many documents have no grade."""
        return sum(self.failed.values())

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        levels = Counter(one.grade for one in self.grades)
        return {
            "graded": len(self.grades),
            "by": provenance_counts(self.grades),
            "levels": {str(level): levels[level] for level in sorted(levels)},
            "asked": self.num_asked,
            "failed": dict(self.failed),
            "of_another_prompt_or_model": self.num_other_prompt,
            "critic": self.critic,
            "prompt": self.prompt,
        }


def merge_known_grades(
    pool: Iterable[PooledDocument],
    before: Mapping[GradeKey, Grade] | None = None,
    labels: Mapping[GradeKey, Grade] | None = None,
) -> dict[GradeKey, Grade]:
    """What need not be asked: marks in the pool, grades given earlier, and labels of people, which win over both."""
    found = {one.key: one.judged for one in pool if one.judged is not None}
    for key, grade in (before or {}).items():
        held = found.get(key)
        # A person's mark in the pool is not undone by what a model said earlier.
        found[key] = grade if held is None or held.by == "model" or grade.by != "model" else merge_grade(grade, held)
    for key, label in (labels or {}).items():
        found[key] = merge_grade(found.get(key), label if label.at is not None else replace(label, at=_now()))
    return found


def judge_relevance(
    pool: Sequence[PooledDocument],
    critic: Critic,
    qrels: str | None = None,
    *,
    known: Mapping[GradeKey, Grade] | None = None,
    judging: JudgeSession | JudgePolicy | None = None,
    prompt: object = None,
    secrets: Secrets | None = None,
) -> RelevanceReport:
    """Have every document that has no grade yet graded from 0 to 3, and write all grades to ``qrels``.

    Grades are put down beside the qrels as they come, so that whoever goes on after a kill asks only for what is
    missing; the qrels themselves are written at the end. A document that a judge failed on has no grade. Of several
    judgements (``judge.repeats``) the mean is rounded, halves downwards.
    """
    require_critic(critic)
    asked = _RelevanceJudge(
        resolve_critic(critic, METRIC), resolve_prompt(prompt, otherwise=METRIC), secrets or Secrets()
    )
    held = dict(known or {})
    if qrels is not None:
        _require_ids(pool, held)
    session = judging if isinstance(judging, JudgeSession) else JudgeSession(judging or JudgePolicy())
    missing = [one for one in pool if one.key not in held]
    failed: Counter[str] = Counter()

    def graded(grade: Grade) -> None:
        held[grade.key] = grade
        if journal is not None:
            journal.add(grade)

    async def ask() -> None:
        async with session as judge:
            await asked.all(judge, missing, session.policy.concurrency, graded, failed)

    with GradeLog(qrels) if qrels is not None else nullcontext() as journal, LoopThread() as loop:
        loop.run(ask())
    grades = _ordered(pool, held)
    if qrels is not None and grades:
        write_grades(qrels, grades)
    named, prompt_id = model_name(asked.critic), asked.prompt.id
    others = sum(one.by == "model" and (one.model, one.prompt) != (named, prompt_id) for one in grades)
    return RelevanceReport(
        grades, len(missing) - failed["no_text"], dict(failed), critic_signature(asked.critic), prompt_id, others
    )


def write_known_grades(
    pool: Sequence[PooledDocument], known: Mapping[GradeKey, Grade], qrels: str | None = None
) -> RelevanceReport:
    """What is known, written to ``qrels``; nobody is asked, and what has no grade is left without."""
    grades = _ordered(pool, known)
    if qrels is not None:
        _require_ids(pool, known)
        write_grades(qrels, grades)
    missing = sum(one.key not in known for one in pool)
    return RelevanceReport(grades, failed={"not_asked": missing} if missing else {})


def preview_relevance(
    pool: Sequence[PooledDocument],
    critic: Critic,
    *,
    known: Mapping[GradeKey, Grade] | None = None,
    policy: JudgePolicy | None = None,
    prompt: object = None,
) -> Preview:
    """What grading would ask and cost. Nobody is asked, and nothing is written."""
    rules = policy or JudgePolicy()
    asked = _RelevanceJudge(resolve_critic(critic, METRIC), resolve_prompt(prompt, otherwise=METRIC), Secrets())
    missing = [one for one in pool if one.key not in (known or {})]
    cache = JudgementCache(rules.cache) if rules.cache is not None and rules.cache.exists() else None
    session = PreviewSession(rules, cache)
    try:
        with LoopThread() as loop:
            loop.run(asked.all(session, missing, rules.concurrency, lambda _: None, Counter()))
    finally:
        if cache is not None:
            cache.close()
    session.preview.lower_bound_metrics = []  # each document is asked about once
    return session.preview


def _ordered(pool: Sequence[PooledDocument], held: Mapping[GradeKey, Grade]) -> tuple[Grade, ...]:
    order = {one.key: None for one in pool} | dict.fromkeys(held)
    return tuple(held[key] for key in order if key in held)


def _require_ids(pool: Sequence[PooledDocument], held: Iterable[GradeKey]) -> None:
    """Raise where an id cannot stand in a qrels file: before anything is paid for, not after."""
    for sample_id, doc_id in [*(one.key for one in pool), *held]:
        require_trec_id(sample_id, f"query {sample_id!r}")
        require_trec_id(doc_id, f"document {doc_id!r} of query {sample_id!r}")


@dataclass(frozen=True, slots=True)
class _RelevanceJudge:
    """One critic and one prompt, and how a document is put to them."""

    critic: Critic
    prompt: Any
    secrets: Secrets

    async def all(
        self,
        judge: JudgeClient,
        documents: Sequence[PooledDocument],
        concurrency: int,
        graded: Callable[[Grade], None],
        failed: Counter[str],
    ) -> None:
        """Ask about all of these, some at a time."""
        room = asyncio.Semaphore(max(_MAX_PENDING, concurrency))

        async def one(document: PooledDocument) -> None:
            if not document.text.strip():
                failed["no_text"] += 1
                return
            async with room:
                try:
                    grade = await self._graded(judge, document)
                except JudgeError as error:
                    failed[error.reason] += 1
                    return
            graded(grade)

        await asyncio.gather(*map(one, documents))

    async def _graded(self, judge: JudgeClient, document: PooledDocument) -> Grade:
        question = RatingPrompt(
            self.prompt,
            {"question": _question(document), "document": document.text},
            SCALE,
            metric=METRIC,
            sample_id=document.sample_id,
        )

        async def once(repeat: int) -> tuple[float, str]:
            ((_, request),) = question.requests(self.critic, repeat)
            said = await judge.ask(self.critic, _about(request, document))
            value = said.answer.get("score") if said.weighted is None else said.weighted
            return SCALE.low + SCALE.normalise(value) * (SCALE.high - SCALE.low), said.rationale or ""

        came, _ = await run_repeats(judge, once)
        mean = math.fsum(value for value, _ in came) / len(came)
        level = math.ceil(mean - 0.5 - 1e-9)
        return Grade(
            document.sample_id,
            document.doc_id,
            level,
            "model",
            model=model_name(self.critic),
            prompt=self.prompt.id,
            why=self.secrets.text(_nearest(came, mean)),
            at=_now(),
            mean=None if abs(mean - level) < 1e-9 else round(mean, 9),
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _question(document: PooledDocument) -> Any:
    return question_frames(EvaluationSample("", document.query, history=[dict(turn) for turn in document.history]))


def _about(request: JudgeRequest, document: PooledDocument) -> JudgeRequest:
    """The request with the document named too: for records, and for critics of the small kind."""
    return replace(
        request,
        sample_id=f"{document.sample_id}/{document.doc_id}",
        metadata={**request.metadata, "doc_id": document.doc_id},
    )


def _nearest(came: Sequence[tuple[float, str]], mean: float) -> str:
    """The reason of the judgement nearest to the mean."""
    return min(came, key=lambda one: abs(one[0] - mean))[1]
