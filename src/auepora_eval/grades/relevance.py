"""Relevance grading of pooled documents by a judge."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.types import EvaluationSample
from ..errors import JudgeError
from ..io.grades import Grade, GradeKey, GradeLog, merge_grade, provenance_counts, write_grades
from ..io.jsonl import current_time
from ..io.trec import require_trec_id
from ..judge.critic import Critic, JudgeClient, JudgePolicy
from ..judge.limits import model_name
from ..judge.preview import Preview, run_preview
from ..judge.prompting import resolve_prompt
from ..judge.ratings import (
    RatingPrompt,
    Scale,
    critic_signature,
    question_frames,
    require_critic,
    resolve_critic,
    run_repeats,
)
from ..judge.session import JudgeSession, run_judging
from ..render.block_report import BlockReport
from ..render.blocks import Block, Prose, Row, TableColumn, simple_table
from ..runtime.secrets import Secrets
from .pool import PooledDocument

METRIC = "relevance"
"""Name of these requests in the usage log."""
SCALE = Scale(0.0, 3.0)
_MAX_PENDING = 256
"""Documents in flight at least, so that judges are never idle and prompts do not pile up."""


@dataclass(frozen=True, slots=True)
class RelevanceReport(BlockReport):
    """The result of grading a pool."""

    grades: tuple[Grade, ...]
    """All grades in the order of the pool, then those of documents outside it."""
    num_asked: int = 0
    """Documents sent to a judge."""
    failed: Mapping[str, int] = field(default_factory=dict)
    """Number of documents without a grade, by reason."""
    critic: str = ""
    prompt: str = ""
    num_other_prompt: int = 0
    """Kept grades by models with another prompt or another model."""

    @property
    def num_failed(self) -> int:
        """Number of documents without a grade."""
        return sum(self.failed.values())

    def blocks(self) -> list[Block]:
        """The numbers of grades by who gave them and by level, and of documents without a grade."""
        levels = sorted({grade.grade for grade in self.grades})
        rows: list[Row] = []
        for by in provenance_counts(self.grades):
            given = [grade.grade for grade in self.grades if grade.by == by]
            rows.append([by, *(str(given.count(level)) for level in levels), str(len(given))])
        numbers = [TableColumn(name, number=True) for name in (*map(str, levels), "all")]
        blocks: list[Block] = [simple_table(["graded by", *numbers], rows) if rows else Prose("nothing is graded")]
        if self.failed:
            reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(self.failed.items()))
            blocks.append(Prose(f"{self.num_failed:,} without a grade ({reasons})"))
        return blocks

    def to_dict(self) -> dict[str, Any]:
        """The report as a JSON object."""
        levels = Counter(grade.grade for grade in self.grades)
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
    """Known grades: those in the pool, earlier ones, and human labels, which override both."""
    merged = {pair.key: pair.judged for pair in pool if pair.judged is not None}
    for key, grade in (before or {}).items():
        pool_grade = merged.get(key)
        # A human grade in the pool is not replaced by an earlier model grade.
        merged[key] = (
            grade
            if pool_grade is None or pool_grade.by == "model" or grade.by != "model"
            else merge_grade(grade, pool_grade)
        )
    for key, label in (labels or {}).items():
        merged[key] = merge_grade(merged.get(key), label if label.at is not None else replace(label, at=current_time()))
    return merged


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
    """Grade every document without a grade from 0 to 3, and write all grades to ``qrels``.

    Grades are written to a journal next to the qrels as they arrive, so that an interrupted run resumes with the
    missing ones; the qrels file is written at the end. A document on which the judge failed has no grade. The mean of
    several judgements (``judge.repeats``) is rounded, halves down.

    Args:
        pool: Documents to grade, as ``pool_outputs`` gives them.
        critic: The judge.
        qrels: The file to write; by default none.
        known: Grades that are there already.
        judging: Limits, retries and the cache of judge calls.
        prompt: Replaces the built-in prompt: a file, or a ``Prompt``.
        secrets: Strings that are written as ``***``.

    Returns:
        A report with the grades and the documents on which the judge failed.

    Example:
        >>> class KnowsAda(LLMCritic):
        ...     def score(self, *, prompt, metadata=None):
        ...         return 3.0 if "Ada Lovelace wrote it" in prompt else 0.0
        >>> pool = pool_outputs(samples, {"a": [("q1", outputs[0]), ("q2", outputs[1])]})
        >>> report = judge_relevance(pool.documents, KnowsAda())
        >>> len(report.grades), report.num_failed
        (4, 0)
    """
    require_critic(critic)
    relevance_judge = _RelevanceJudge(
        resolve_critic(critic, METRIC), resolve_prompt(prompt, otherwise=METRIC), secrets or Secrets()
    )
    grades_by_key = dict(known or {})
    if qrels is not None:
        _require_ids(pool, grades_by_key)
    missing = [pair for pair in pool if pair.key not in grades_by_key]
    failed: Counter[str] = Counter()

    def add_grade(grade: Grade) -> None:
        grades_by_key[grade.key] = grade
        if journal is not None:
            journal.add(grade)

    with GradeLog(qrels) if qrels is not None else nullcontext() as journal:
        run_judging(
            judging,
            lambda judge: relevance_judge.grade_all(judge, missing, judge.policy.concurrency, add_grade, failed),
        )
    grades = _ordered(pool, grades_by_key)
    if qrels is not None and grades:
        write_grades(qrels, grades)
    named, prompt_id = model_name(relevance_judge.critic), relevance_judge.prompt.id
    others = sum(grade.by == "model" and (grade.model, grade.prompt) != (named, prompt_id) for grade in grades)
    return RelevanceReport(
        grades,
        len(missing) - failed["no_text"],
        failed=dict(failed),
        critic=critic_signature(relevance_judge.critic),
        prompt=prompt_id,
        num_other_prompt=others,
    )


def write_known_grades(
    pool: Sequence[PooledDocument], known: Mapping[GradeKey, Grade], qrels: str | None = None
) -> RelevanceReport:
    """Write the known grades to ``qrels`` without calling a judge."""
    grades = _ordered(pool, known)
    if qrels is not None:
        _require_ids(pool, known)
        write_grades(qrels, grades)
    missing = sum(pair.key not in known for pair in pool)
    return RelevanceReport(grades, failed={"not_asked": missing} if missing else {})


def preview_relevance(
    pool: Sequence[PooledDocument],
    critic: Critic,
    *,
    known: Mapping[GradeKey, Grade] | None = None,
    policy: JudgePolicy | None = None,
    prompt: object = None,
) -> Preview:
    """Estimate the judge usage of grading. No call is made, and nothing is written."""
    policy_used = policy or JudgePolicy()
    relevance_judge = _RelevanceJudge(
        resolve_critic(critic, METRIC), resolve_prompt(prompt, otherwise=METRIC), Secrets()
    )
    missing = [pair for pair in pool if pair.key not in (known or {})]
    found = run_preview(
        policy_used,
        lambda judge: relevance_judge.grade_all(judge, missing, policy_used.concurrency, lambda _: None, Counter()),
    )
    found.lower_bound_metrics = []  # one request per document
    return found


def _ordered(pool: Sequence[PooledDocument], grades_by_key: Mapping[GradeKey, Grade]) -> tuple[Grade, ...]:
    order = {pair.key: None for pair in pool} | dict.fromkeys(grades_by_key)
    return tuple(grades_by_key[key] for key in order if key in grades_by_key)


def _require_ids(pool: Sequence[PooledDocument], keys: Iterable[GradeKey]) -> None:
    """Raise if an id cannot be written to a qrels file, before anything is paid for."""
    for sample_id, doc_id in [*(pair.key for pair in pool), *keys]:
        require_trec_id(sample_id, f"query {sample_id!r}")
        require_trec_id(doc_id, f"document {doc_id!r} of query {sample_id!r}")


@dataclass(frozen=True, slots=True)
class _RelevanceJudge:
    """A critic and a prompt that grade documents."""

    critic: Critic
    prompt: Any
    secrets: Secrets

    async def grade_all(
        self,
        judge: JudgeClient,
        documents: Sequence[PooledDocument],
        concurrency: int,
        on_grade: Callable[[Grade], None],
        failed: Counter[str],
    ) -> None:
        """Grade all documents, a limited number at a time."""
        slots = asyncio.Semaphore(max(_MAX_PENDING, concurrency))

        async def grade_document(document: PooledDocument) -> None:
            if not document.text.strip():
                failed["no_text"] += 1
                return
            async with slots:
                try:
                    grade = await self._grade(judge, document)
                except JudgeError as error:
                    failed[error.reason] += 1
                    return
            on_grade(grade)

        await asyncio.gather(*map(grade_document, documents))

    async def _grade(self, judge: JudgeClient, document: PooledDocument) -> Grade:
        question = RatingPrompt(
            self.prompt,
            {"question": _question(document), "document": document.text},
            SCALE,
            metric=METRIC,
            sample_id=document.sample_id,
        )

        async def once(repeat: int) -> tuple[float, str]:
            ((_, request),) = question.requests(self.critic, repeat)
            # Records and simple critics know the document by these ids.
            metadata = {**request.metadata, "doc_id": document.doc_id}
            request = replace(request, sample_id=f"{document.sample_id}/{document.doc_id}", metadata=metadata)
            judgement = await judge.ask(self.critic, request)
            value = judgement.answer.get("score") if judgement.weighted is None else judgement.weighted
            return SCALE.low + SCALE.normalise(value) * (SCALE.high - SCALE.low), judgement.rationale or ""

        judgements, _ = await run_repeats(judge, once)
        mean = math.fsum(value for value, _ in judgements) / len(judgements)
        level = math.ceil(mean - 0.5 - 1e-9)
        return Grade(
            document.sample_id,
            document.doc_id,
            level,
            "model",
            model=model_name(self.critic),
            prompt=self.prompt.id,
            why=self.secrets.text(_nearest(judgements, mean)),
            at=current_time(),
            mean=None if abs(mean - level) < 1e-9 else round(mean, 9),
        )


def _question(document: PooledDocument) -> Any:
    return question_frames(EvaluationSample("", document.query, history=[dict(turn) for turn in document.history]))


def _nearest(judgements: Sequence[tuple[float, str]], mean: float) -> str:
    """The rationale of the judgement nearest to the mean."""
    return min(judgements, key=lambda judgement: abs(judgement[0] - mean))[1]
