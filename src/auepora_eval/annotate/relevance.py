"""Relevance grading of pooled documents by a judge, and metrics corrected by human grades for some of them."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from ..core.conventions import Conventions
from ..core.metrics_base import BatchMetric, make_result, run_signature, sample_clusters
from ..core.registry import Spec
from ..core.results import Results
from ..core.scores import Scores
from ..core.types import EvaluationSample, SystemOutputs
from ..errors import BadValueError, DataFileError, JudgeError
from ..io.grades import Grade, GradeKey, GradeLog, merge_grade, provenance_counts, read_grades, write_grades
from ..io.jsonl import current_time
from ..io.trec import require_trec_id
from ..judge.critic import Critic, JudgeClient, JudgePolicy, JudgeRequest
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
from ..render.tables import format_value, table
from ..runs.judging import conventions_of_run
from ..runtime.secrets import Secrets
from ..stats.intervals import Floats, mean_interval
from ..stats.partial_grades import graded_measure, require_enough_grades
from ..store.records import RunRecord, run_info
from ..store.runs import RunStore, aligned_outputs, iter_samples
from .draws import draw_path
from .pool import (
    SHOWN,
    DrawnPair,
    PairDraw,
    PooledDocument,
    correctable_metrics,
    find_pair_draw,
    min_relevance_of,
    model_levels,
    pooled_pairs,
    ranked_measure,
    read_human_grades,
    read_pair_draw,
)

METRIC = "relevance"
"""Name of these requests in the usage log."""
SCALE = Scale(0.0, 3.0)
_MAX_PENDING = 256
"""Documents in flight at least, so that judges are never idle and prompts do not pile up."""


@dataclass(frozen=True, slots=True)
class RelevanceReport:
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

    def to_dict(self) -> dict[str, Any]:
        """The report as a JSON object."""
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
    """Known grades: those in the pool, earlier ones, and human labels, which override both."""
    merged = {one.key: one.judged for one in pool if one.judged is not None}
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
    """
    require_critic(critic)
    relevance_judge = _RelevanceJudge(
        resolve_critic(critic, METRIC), resolve_prompt(prompt, otherwise=METRIC), secrets or Secrets()
    )
    grades_by_key = dict(known or {})
    if qrels is not None:
        _require_ids(pool, grades_by_key)
    missing = [one for one in pool if one.key not in grades_by_key]
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
    others = sum(one.by == "model" and (one.model, one.prompt) != (named, prompt_id) for one in grades)
    return RelevanceReport(
        grades,
        len(missing) - failed["no_text"],
        dict(failed),
        critic_signature(relevance_judge.critic),
        prompt_id,
        others,
    )


def write_known_grades(
    pool: Sequence[PooledDocument], known: Mapping[GradeKey, Grade], qrels: str | None = None
) -> RelevanceReport:
    """Write the known grades to ``qrels`` without calling a judge."""
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
    """Estimate the judge usage of grading. No call is made, and nothing is written."""
    policy_used = policy or JudgePolicy()
    relevance_judge = _RelevanceJudge(
        resolve_critic(critic, METRIC), resolve_prompt(prompt, otherwise=METRIC), Secrets()
    )
    missing = [one for one in pool if one.key not in (known or {})]
    found = run_preview(
        policy_used,
        lambda judge: relevance_judge.grade_all(judge, missing, policy_used.concurrency, lambda _: None, Counter()),
    )
    found.lower_bound_metrics = []  # one request per document
    return found


def _ordered(pool: Sequence[PooledDocument], grades_by_key: Mapping[GradeKey, Grade]) -> tuple[Grade, ...]:
    order = {one.key: None for one in pool} | dict.fromkeys(grades_by_key)
    return tuple(grades_by_key[key] for key in order if key in grades_by_key)


def _require_ids(pool: Sequence[PooledDocument], keys: Iterable[GradeKey]) -> None:
    """Raise if an id cannot be written to a qrels file, before anything is paid for."""
    for sample_id, doc_id in [*(one.key for one in pool), *keys]:
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

        async def one(document: PooledDocument) -> None:
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

        await asyncio.gather(*map(one, documents))

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
            judgement = await judge.ask(self.critic, _with_document(request, document))
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


def _with_document(request: JudgeRequest, document: PooledDocument) -> JudgeRequest:
    """The request with the document's id, for records and simple critics."""
    return replace(
        request,
        sample_id=f"{document.sample_id}/{document.doc_id}",
        metadata={**request.metadata, "doc_id": document.doc_id},
    )


def _nearest(judgements: Sequence[tuple[float, str]], mean: float) -> str:
    """The rationale of the judgement nearest to the mean."""
    return min(judgements, key=lambda one: abs(one[0] - mean))[1]


# --- metrics from grades of a model for all pooled pairs and human grades for a random part of them --------------

DEFAULT_METRICS = ("precision@10", "recall@10", "ndcg@10")


@dataclass(frozen=True, slots=True)
class PartialGrades:
    """Grades of a model for all pairs, and of people for a random part of them."""

    pairs: tuple[DrawnPair, ...]
    """All pairs with the probability that they were graded, in the order of queries."""
    levels: Mapping[GradeKey, float]
    """Grades of the model."""
    grades: Mapping[GradeKey, int]
    """Human grades."""
    draw: PairDraw | None = None
    """``None`` where people graded all pairs."""

    @property
    def signature(self) -> str:
        """These grades as the gold of a signature."""
        rows = sorted((*one.key, one.probability, self.levels[one.key], self.grades.get(one.key)) for one in self.pairs)
        return f"grades-{hashlib.sha256(repr(rows).encode()).hexdigest()[:8]}"

    def to_dict(self) -> dict[str, Any]:
        """The counts as a JSON object."""
        return {
            "draw": None if self.draw is None else self.draw.id,
            "pairs": len(self.pairs),
            "drawn": len(self.pairs) if self.draw is None else len(self.draw.order),
            "graded": len(self.grades),
            "known_before": sum(one.grade is not None for one in self.pairs),
            "shown": list(SHOWN),
        }


def read_partial_grades(qrels: str | Path, grades: str | Path, draw: str | Path | None = None) -> PartialGrades:
    """Read the grades of a model from ``qrels``, those of people from ``grades``, and the draw of the latter.

    The draw is by default next to the grades. Without a draw people must have graded all pairs. Grades of pairs that
    were not drawn, and grades out of the order of the draw, are refused.
    """
    by_key = read_grades(qrels)
    levels = model_levels(by_key.values())
    human = read_human_grades(grades)
    found = find_pair_draw(grades) if draw is None else read_pair_draw(draw)
    if found is None:
        return _census(Path(grades), levels, human)
    missing = next((one for one in found.pairs if one.key not in levels), None)
    if missing is not None:
        raise DataFileError(
            Path(qrels),
            None,
            f"document {missing.doc_id!r} of query {missing.sample_id!r} was part of the draw and has no grade here; "
            "give the qrels with the grades of the model",
        )
    edited = next((one for one in found.pairs if one.grade is None and by_key[one.key].grade_by_model is None), None)
    if edited is not None:
        raise DataFileError(
            Path(qrels),
            None,
            f"the grade of document {edited.doc_id!r} of query {edited.sample_id!r} is that of a person, and the one "
            "of the model is not there; give the qrels from which pairs were drawn, with their provenance file",
        )
    share = _check_order(Path(grades), found, human) / len(found.order)
    pairs = tuple(
        one if one.grade is not None else replace(one, probability=one.probability * share) for one in found.pairs
    )
    known = {one.key: one.grade for one in found.pairs if one.grade is not None}
    return PartialGrades(pairs, levels, {key: one.grade for key, one in human.items()} | known, found)


def _census(path: Path, levels: Mapping[GradeKey, float], human: Mapping[GradeKey, Grade]) -> PartialGrades:
    """All pairs, if people graded all of them; otherwise an error, because the probabilities are not known."""
    if not levels.keys() <= human.keys():
        raise DataFileError(
            path,
            None,
            f"the {len(human):,} grades have no draw ({draw_path(path).name} is not there), and without the "
            "probabilities of a draw grades cannot correct a metric; draw pairs with `auepora pool --draw`, or grade "
            f"all {len(levels):,} pairs",
        )
    queries = {query: number for number, query in enumerate(dict.fromkeys(query for query, _ in levels))}
    keys = sorted(levels, key=lambda key: queries[key[0]])
    pairs = tuple(DrawnPair(*key, 1, 1.0) for key in keys)
    return PartialGrades(pairs, levels, {key: human[key].grade for key in keys})


def _check_order(path: Path, draw: PairDraw, human: Mapping[GradeKey, Grade]) -> int:
    """The number of graded pairs; raises unless they are the first of the draw."""
    drawn, name = draw.order, draw.id
    positions = {one.key: number for number, one in enumerate(drawn)}
    known = {one.key: one.grade for one in draw.pairs if one.grade is not None}
    for key, grade in human.items():
        what = f"document {key[1]!r} of query {key[0]!r}"
        if grade.draw and grade.draw != name:
            raise DataFileError(path, None, f"{what} was graded for the draw {grade.draw}, not for {name}")
        if key not in positions and known.get(key) != grade.grade:
            raise DataFileError(
                path, None, f"{what} has a grade but was not drawn; a document that a person picked has no probability"
            )
    graded = sum(one.key in human for one in drawn)
    gap = next((one for one in drawn[:graded] if one.key not in human), None)
    if gap is not None:
        raise DataFileError(
            path,
            None,
            f"document {gap.doc_id!r} of query {gap.sample_id!r} is number {gap.position} of the draw and has no "
            "grade, but later ones have; grade in the order of the draw",
        )
    if not graded:
        raise DataFileError(path, None, f"none of the {len(drawn)} drawn pairs has a grade")
    return graded


def rescore_with_grades(
    store: RunStore,
    record: RunRecord,
    partial: PartialGrades,
    metrics: Sequence[Spec] = (),
    *,
    conventions: str | Conventions | None = None,
) -> Results:
    """Estimate metrics of a stored run from grades of some pairs by people, and store them.

    By default the metrics of the draw. The score of a query is its estimate and may lie outside 0 to 1; a difference of
    two runs with the same grades is the mean difference of these scores. A query without a relevant document counts 0.
    """
    specs: Sequence[Spec] = metrics or (DEFAULT_METRICS if partial.draw is None else partial.draw.metrics)
    rules = replace(conventions_of_run(record, conventions), match="id")  # grades name what was retrieved
    if partial.draw is not None and not metrics:
        rules = replace(rules, min_relevance=partial.draw.min_relevance)
    chosen = correctable_metrics(specs, rules)
    samples = list(iter_samples(store, record.run_id, texts=False))
    ids = [sample.sample_id for sample in samples]
    known_ids = set(ids)
    rows = [one for one in partial.pairs if one.sample_id in known_ids]
    if not rows:
        raise BadValueError(f"the grades have no query of {record.run_id}; are the ids the same?")
    rankings = [
        dict(zip(ids, map(_ranked_ids, aligned_outputs(store, record.run_id, repeat=repeat, texts=False)), strict=True))
        for repeat in range(record.repeats)
    ]
    info = replace(run_info(record), gold=partial.signature)
    clusters = sample_clusters(samples)
    results = Results([], sample_ids=ids, run_id=record.run_id)
    for metric in chosen:
        assert isinstance(metric, BatchMetric)
        estimate = _Estimate.of(metric, partial, rows, rankings)
        scores = Scores.of(
            [estimate.by_query.get(one, math.nan) for one in ids],
            skip={"no_gold": np.array([one not in estimate.by_query for one in ids])},
        )
        result = make_result(metric, scores, signature=run_signature(metric, info), clusters=clusters)
        if result.interval is not None:
            result.interval = max(result.interval[0], 0.0), min(result.interval[1], 1.0)
        result.details["partial_grades"] = {**partial.to_dict(), **estimate.details}
        results.append(result)
    store.put_results(
        record.run_id, results, reducers={one.name: one.reducer.name for one in chosen if isinstance(one, BatchMetric)}
    )
    return results


def partial_grades_text(results: Results) -> str:
    """The corrected metrics beside those by the model alone and by people alone."""
    rows = []
    for one in results:
        found = one.details["partial_grades"]
        alone = [(found[key]["value"], found[key]["interval"]) for key in ("model_only", "human_only")]
        value = min(max(one.value, 0.0), 1.0)  # as stored it is the mean of the estimates of queries
        cells = [cell for each in ((value, one.interval), *alone) for cell in _value_cells(*each)]
        rows.append([one.name, *cells])
    headers = ["metric", "corrected", "95 % interval", "model only", "95 % interval", "human only", "95 % interval"]
    lines = [table(rows, headers=headers, right=(1, 3, 5)), ""]
    first = results[0].details["partial_grades"]
    before = f", {first['known_before']:,} of them before the draw" if first["known_before"] else ""
    lines.append(
        f"people graded {first['graded']:,} of {first['pairs']:,} pairs{before}; draw: {first['draw'] or 'all pairs'}"
    )
    lines.append("intervals are about queries of this kind; a query without a relevant document counts 0")
    for one in results:
        found = one.details["partial_grades"]
        if found.get("these_queries"):
            low, high = map(format_value, found["these_queries"])
            lines.append(f"{one.name} of these {one.details['num_samples']:,} queries alone: {low} – {high}")
        if found["num_unpooled"]:
            lines.append(f"{one.name}: {found['num_unpooled']:,} documents of the top are not in the pool and count 0")
    return "\n".join(lines)


def _value_cells(value: float, interval: Sequence[float] | None) -> tuple[str, str]:
    return format_value(value), "" if interval is None else " – ".join(map(format_value, interval))


def _ranked_ids(output: SystemOutputs | None) -> list[str]:
    return [] if output is None or output.error is not None else [item.doc.doc_id for item in output.retrieved]


@dataclass(frozen=True, slots=True)
class _Estimate:
    """The estimates of one metric: of each query, and by the model and by people alone."""

    by_query: Mapping[str, float]
    details: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        metric: BatchMetric,
        partial: PartialGrades,
        rows: Sequence[DrawnPair],
        rankings: Sequence[Mapping[str, Sequence[str]]],
    ) -> _Estimate:
        """The mean over repeats."""
        measure, lowest = ranked_measure(metric), min_relevance_of(metric)
        queries = list(dict.fromkeys(one.sample_id for one in rows))
        pooled = {one.key for one in rows}
        values, model, human, errors, outside = [], [], [], [], 0
        for ranking in rankings:
            ranks: dict[GradeKey, int] = {}
            for query in queries:
                for rank, doc_id in enumerate(ranking[query]):
                    ranks.setdefault((query, doc_id), rank)
                outside += sum((query, doc_id) not in pooled for doc_id in ranking[query][: measure.k])
            lengths = {query: len(ranking[query]) for query in queries}
            pairs = pooled_pairs(rows, partial.levels, partial.grades, ranks, lengths, min_relevance=lowest)
            corrected = graded_measure(pairs, measure)
            require_enough_grades(pairs, measure)
            values.append(corrected.by_query)
            errors.append(corrected.grading_error)
            model.append(graded_measure(pairs.with_grades_of_model(), measure).by_query)
            human.append(graded_measure(pairs, measure, use_scores=False).by_query)
        mean = np.mean(values, axis=0)
        details = {
            "model_only": _estimate_row(np.mean(model, axis=0)),
            # Without the model the estimate of recall and nDCG has a bias that its interval does not contain.
            "human_only": _estimate_row(np.mean(human, axis=0), with_interval=measure.is_linear),
            "num_unpooled": outside,
        }
        if errors[0] is not None and len(rankings) == 1:
            half = NormalDist().inv_cdf(0.975) * errors[0]
            details["these_queries"] = [max(float(mean.mean()) - half, 0.0), min(float(mean.mean()) + half, 1.0)]
        return cls(dict(zip(queries, mean.tolist(), strict=True)), details)


def _estimate_row(values: Floats, *, with_interval: bool = True) -> dict[str, Any]:
    interval = mean_interval(values, lowest=0.0, highest=1.0) if with_interval else None
    bounds = None if interval is None else [max(interval.low, 0.0), min(interval.high, 1.0)]
    return {"value": min(max(float(values.mean()), 0.0), 1.0), "interval": bounds}
