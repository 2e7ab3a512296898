"""Explanations: the metric card of a stored result, and the derivation of one query's score."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .._version import __version__
from ..compare.pairing import likely_metrics
from ..core.batch import failure_reason
from ..core.conventions import Signature
from ..core.derivation import (
    Cell,
    Derivation,
    DerivationStep,
    ExplainContext,
    SampleJudgement,
    format_number,
)
from ..core.general_derivation import sample_outcome
from ..core.metric_hooks import (
    decides_tokens,
    failure_message,
    joins_repeats,
    score_rounding,
)
from ..core.metrics_base import BatchMetric, Metric, RunInfo, has_signature, run_signature
from ..core.reduce import Mean, Reducer, counted_values, exact_sum
from ..core.results import sequential_details, to_json_value, two_stage_details
from ..core.scores import NOT_JUDGED, MarkedSpan, Scores, marked_answers
from ..core.types import EvaluationSample, MetricResult, Response, SystemOutputs
from ..engine.repeats import join_scores
from ..errors import AueporaError, BadValueError, did_you_mean
from ..io.grades import CorrectedGold, CorrectionLog
from ..judge.metric import judged_parts, needs_calls
from ..render.block_report import BlockReport
from ..render.blocks import (
    Block,
    Bullets,
    Code,
    DefinitionList,
    Details,
    Prose,
    Report,
    ReportSection,
    ReportVerdict,
    Row,
    TableColumn,
    simple_table,
    without_empty_columns,
)
from ..render.tables import format_value, sequential_test_blocks, two_stage_metric_blocks
from ..store.records import RunRecord, run_info
from ..store.rows import StoredJudgement
from ..store.runs import RunStore, sample_at
from .cards import REASON_HINTS, Card, card, describe_reason, describe_reducer

# --- data types: reduction, derivation of a query, recomputation check -----------------------------------------------

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class RecomputationCheck:
    """A value recomputed from the store, compared with the stored one."""

    stored: float | None
    computed: float | None
    verdict: Literal["equal", "rounding", "differs", "not computed"]
    """``rounding``: they differ only by a model's last digits or by the order of a sum."""
    why: str = ""
    """Why it differs or was not computed, where known."""


@dataclass(frozen=True, slots=True)
class Influence:
    """One query and its score."""

    sample_id: str
    score: float
    outcome: str


@dataclass(frozen=True, slots=True)
class Reduction:
    """How the scores of all samples become the value."""

    words: str
    n: int
    """How many scores enter."""
    total: float | None
    """Their sum, where the value is a mean."""
    check: RecomputationCheck
    lowest: tuple[Influence, ...] = ()
    highest: tuple[Influence, ...] = ()


@dataclass(frozen=True, slots=True)
class RepeatExplanation:
    """The explanation of one repeat: the outcome, and the derivation of the score or the reason why there is none."""

    repeat: int
    outcome: str
    words: str
    """The meaning of the outcome; empty where it was scored."""
    needed: str | None
    counts_as: float | None
    """The score that enters the value; ``None`` where it is excluded."""
    derivation: Derivation | None = None


@dataclass(frozen=True, slots=True)
class QueryExplanation:
    """The explanation of one query."""

    sample_id: str
    query: str
    outcome: str
    """As stored."""
    answers: tuple[RepeatExplanation, ...]
    """One per repeat."""
    check: RecomputationCheck


@dataclass(frozen=True, slots=True)
class Explanation(BlockReport):
    """The explanation of a stored metric, and of one query if requested."""

    run_id: str
    run: str
    dataset: str
    card: Card
    reduction: Reduction | None = None
    query: QueryExplanation | None = None
    notes: list[str] = field(default_factory=list)
    sequential: Mapping[str, Any] | None = None
    """The sequential test, if the metric was judged until a verdict."""
    two_stage: Mapping[str, Any] | None = None
    """The corrected mean and the draw, if the metric was judged in two stages."""

    def blocks(self) -> list[Block]:
        """The card and the reduction, or the derivation of one query."""
        report = explanation_report(self)
        sections = [Details(section.title, section.blocks, is_open=True) for section in report.sections]
        return [Prose(report.title), *sections, Bullets(report.verdict.points)]

    def to_dict(self) -> dict[str, Any]:
        """The explanation as a JSON-compatible dictionary."""
        values = to_json_value(asdict(self))
        for key in ("sequential", "two_stage"):
            if values[key] is None:
                del values[key]
        return {"schema": SCHEMA, **values}


# --- the metric behind a stored result: the one with its signature, or the closest one -------------------------------

_RESOURCES = ("critic", "embed", "vectors")
"""Options that name a resource of the plan; an explanation does not need the resource."""


@dataclass(frozen=True, slots=True)
class ResolvedMetric:
    """The metric of a result, and how it differs from the stored signature."""

    metric: Metric | None
    differs: tuple[str, ...] = ()
    """Options in which it differs from the metric that computed the result."""


def resolve_result_metric(
    result: MetricResult, record: RunRecord, given: Mapping[str, Metric], *, gold: str | None = None
) -> ResolvedMetric:
    """The metric of a result, by the object given for its name, the run's plan, or the registry.

    ``gold`` is the gold at hand in signatures, if it is not that of the dataset.
    """
    nearest: ResolvedMetric | None = None
    for metric in likely_metrics(result, record, given):
        if not isinstance(metric, BatchMetric):
            nearest = nearest or ResolvedMetric(metric)
            continue
        is_same = has_signature(metric, run_info(record), result.signature)
        found = metric
        if is_same and hasattr(metric, "for_signature"):
            found = metric.for_signature(result.signature or "")
        differs = _differences(found, result, replace(run_info(record), gold=gold))
        if not differs:
            return ResolvedMetric(found)
        if nearest is None or (nearest.differs and len(differs) < len(nearest.differs)):
            nearest = ResolvedMetric(found, differs)
    return nearest or ResolvedMetric(None)


def _differences(metric: BatchMetric, result: MetricResult, run: RunInfo) -> tuple[str, ...]:
    own = run_signature(metric, run)
    if str(own) == result.signature:
        return ()
    try:
        stored = Signature.parse(result.signature or "")
    except AueporaError:
        return ("signature",)
    unknown = {name for name, value in own.options.items() if value.startswith("resource ")}
    fields = [name for name in stored.differences(own) if name.rpartition(".")[2] not in _RESOURCES]
    decided = {"groups", "tok"} if decides_tokens(metric) else {"groups"}
    return tuple(name for name in fields if name not in unknown | decided)


# --- one query: its outcome, the derivation of its score, and the comparison with the stored one ---------------------

_TOLERANCE = 1e-12


def sample_position(store: RunStore, record: RunRecord, sample_id: str) -> int:
    """Where a sample stands in its run; raises if the run has none with this id."""
    ids = store.sample_ids(record.run_id)
    if sample_id not in ids:
        raise BadValueError(f"{record.run_id} has no sample '{sample_id}'{did_you_mean(sample_id, ids)}")
    return ids.index(sample_id)


def explain_query(
    store: RunStore,
    record: RunRecord,
    result: MetricResult,
    found: ResolvedMetric,
    sample_id: str,
    *,
    models: bool,
    gold: CorrectedGold,
) -> QueryExplanation:
    """The derivation of one sample's score with this gold, for every repeat."""
    position = sample_position(store, record, sample_id)
    sample = gold.correct(sample_at(store, record, position))
    outputs = {row.repeat: row.output for row in store.outputs(record.run_id, position=position)}
    stored = None if result.scores is None else result.scores[position]
    outcome = str(result.outcomes[position]) if result.outcomes is not None else "scored" if stored is not None else ""
    judgements = list(store.judgements(record.run_id, position=position))
    metric = found.metric if isinstance(found.metric, BatchMetric) else None
    answers = []
    for repeat in range(record.repeats):
        if sample_id in gold.invalid:
            reason = outcome.partition(":")[2]
            words = describe_reason(reason, {})
            answers.append(RepeatExplanation(repeat, outcome, words, REASON_HINTS.get(reason), None))
            continue
        context = ExplainContext(
            lambda repeat=repeat: _pairs(store, record, repeat, gold),  # type: ignore[misc]
            _judgements(judgements, result, metric, repeat),
            stored if record.repeats == 1 else None,
            models,
            _stored_spans(result, position, repeat),
        )
        stored_outcome = outcome if record.repeats == 1 else None
        output = outputs.get(repeat)
        answers.append(_explain_answer(metric, sample, output, context, repeat=repeat, stored=stored_outcome))
    check = _check(stored, answers, metric, found)
    return QueryExplanation(sample_id, sample.query, outcome or "not stored", tuple(answers), check)


def _stored_spans(result: MetricResult, position: int, repeat: int) -> tuple[MarkedSpan, ...] | None:
    """The spans that the metric marks in one answer; ``None`` if it marks none in any."""
    keys = marked_answers([result]).get(result.name)
    key = None if keys is None else keys[position]
    return None if key is None else key.of_repeat(repeat)


def _pairs(
    store: RunStore, record: RunRecord, repeat: int, gold: CorrectedGold
) -> list[tuple[EvaluationSample, SystemOutputs | None]]:
    """All samples that are valid, with the outputs of one repeat."""
    outputs = {row.position: row.output for row in store.outputs(record.run_id, repeat=repeat)}
    return [
        (gold.correct(sample), outputs.get(position))
        for position, sample in enumerate(store.samples(record.run_id))
        if sample.sample_id not in gold.invalid
    ]


def _judgements(
    rows: Sequence[StoredJudgement], result: MetricResult, metric: BatchMetric | None, repeat: int
) -> tuple[SampleJudgement, ...]:
    """The stored judgements of this metric, or of its base metrics."""
    names = {result.name, *(() if metric is None else (part.name for part in judged_parts(metric)))}
    return to_sample_judgements(row for row in rows if row.metric in names and row.repeat == repeat)


def in_panel_order(rows: Iterable[StoredJudgement]) -> list[StoredJudgement]:
    """Stored judgements with the members of a panel in its own order; the store has them by name."""
    found = list(rows)
    places: dict[tuple[Any, ...], int] = {}

    def key(row: StoredJudgement) -> tuple[int, int]:
        members = (row.body.get("panel") or {}).get("members") or ()
        # Members may get different forms of a request; what it is about is the same.
        about = str(row.body.get("about")) if members else row.request
        asked = row.metric, row.signature, row.position, row.repeat, row.judge_repeat, about
        return places.setdefault(asked, len(places)), members.index(row.critic) if row.critic in members else 0

    return sorted(found, key=key)


def to_sample_judgements(rows: Iterable[StoredJudgement]) -> tuple[SampleJudgement, ...]:
    """Stored judgements as derivations use them."""
    return tuple(
        SampleJudgement(
            answer=row.body.get("answer") or {},
            critic=row.critic,
            judge_repeat=row.judge_repeat,
            request=row.request,
            prompt_id=row.prompt_id,
            error=None if row.reason is None else f"{row.reason} {row.body.get('message') or ''}".strip(),
            weighted=row.body.get("weighted"),
            cached=bool(row.body.get("cached")),
            one_number=bool(row.body.get("one_number")),
            logprobs=bool(row.body.get("logprobs")),
            decides=bool(row.body.get("decides")),
            about=row.body.get("about") or {},
            panel=row.body.get("panel") or {},
        )
        for row in in_panel_order(rows)
    )


def _explain_answer(
    metric: BatchMetric | None,
    sample: EvaluationSample,
    output: SystemOutputs | None,
    context: ExplainContext,
    repeat: int,
    stored: str | None,
) -> RepeatExplanation:
    """The outcome of one answer, recomputed where no call is needed, and its derivation."""
    skip_reasons = {} if metric is None else metric.metadata.skip_reasons
    outcome, value = stored or _default_outcome(output), context.stored_score
    if metric is not None and not needs_calls(metric, context):
        with suppress(AueporaError):  # a resource it needs is not available
            if (scores := sample_outcome(metric, sample, output, context)) is not None:
                outcome, value = scores.outcomes[0], scores[0]
    status, _, reason = outcome.partition(":")
    derivation = None
    if status == "scored" and metric is not None:
        answered = output or SystemOutputs(retrieved=[], response=Response(""))
        derivation = _derivation(metric, sample, answered, context)
        value = value if derivation is None or derivation.value is None else derivation.value
    words = describe_reason(reason, skip_reasons) if reason else ""
    if status == "system_failed" and output is not None and output.error:
        words = f"{words}: {output.error}"
    errors = [judgement.error for judgement in context.judgements if judgement.error]
    if status == "measure_failed":
        why = (
            errors[0] if errors else "" if metric is None or output is None else failure_message(metric, sample, output)
        )
        words = f"{words}: {why}" if why else words
    needed = REASON_HINTS.get(reason) if status == "skipped" else None
    return RepeatExplanation(repeat, outcome, words, needed=needed, counts_as=value, derivation=derivation)


def _derivation(
    metric: BatchMetric, sample: EvaluationSample, output: SystemOutputs, context: ExplainContext
) -> Derivation | None:
    try:
        return metric.explain(sample, output, context)
    except AueporaError:  # a resource it needs is not available
        return None
    except Exception:
        if type(metric).__module__.startswith(__name__.partition(".")[0] + "."):
            raise  # a bug of this library
        return None  # a failing derivation of a user's metric is left out


def _default_outcome(output: SystemOutputs | None) -> str:
    """The outcome that follows from the output alone."""
    if output is None:
        return "system_failed:missing_output"
    return "scored" if output.error is None else f"system_failed:{failure_reason(output.error)}"


def _check(
    stored: float | None, answers: Sequence[RepeatExplanation], metric: BatchMetric | None, found: ResolvedMetric
) -> RecomputationCheck:
    """The recomputed score compared with the stored one."""
    if metric is None:
        return RecomputationCheck(stored, None, "not computed", "the metric is not known in this process")
    general = [answer for answer in answers if answer.derivation is not None and answer.derivation.value is None]
    if general:
        return RecomputationCheck(stored, None, "not computed", "it would have to be asked for again")
    values = [answer.counts_as for answer in answers if answer.counts_as is not None]
    computed = math.fsum(values) / len(values) if values else None
    if len(values) == 1:
        computed = values[0]
    if joins_repeats(metric):
        computed = join_scores(metric, [Scores.of([value]) for value in values])[0]
    if computed == stored:
        return RecomputationCheck(stored, computed, "equal")
    if computed is not None and stored is not None:
        allowed = max(score_rounding(metric), _TOLERANCE * max(1.0, abs(stored)))
        if abs(computed - stored) <= allowed:
            return RecomputationCheck(stored, computed, "rounding", "a model's last digits, or another order of a sum")
    if found.differs:
        why = f"the metric at hand differs from the one that computed it, in {', '.join(found.differs)}"
    else:
        why = "the outputs were replaced since it was scored, or the code computes it otherwise now; `auepora rescore`"
    return RecomputationCheck(stored, computed, "differs", why)


# --- a stored metric: its card, its reduction, and its derivation for one query --------------------------------------

MAX_SHOWN = 5
"""The number of lowest and of highest scores listed."""


def explain(
    store: str | Path | RunStore,
    run: str,
    name: str,
    *,
    query: str | None = None,
    metrics: Mapping[str, Metric] | None = None,
    models: bool = False,
    corrections: CorrectionLog | None = None,
) -> Explanation:
    """What the metric ``name`` of a stored run is; with ``query``, the derivation of that sample's score.

    Everything is recomputed from the store and compared with the stored value. ``name`` may be a signature.
    ``metrics`` are objects of unregistered metrics. With ``models``, models are called again; judges never are.
    ``corrections`` are those of the labels folder, for a result with corrected gold.

    Args:
        store: An open store, or the path or URL of one.
        run: A run, named as ``RunStore.find`` takes it.

    Returns:
        The explanation; ``print`` shows it.

    Example:
        >>> explain("runs.sqlite", "baseline", "recall@1").card.name
        'recall@1'
    """
    if not isinstance(store, RunStore):
        with RunStore.open(store, create=False) as opened:
            return explain(opened, run, name, query=query, metrics=metrics, models=models, corrections=corrections)
    record = store.find(run)
    result = store.result(record.run_id, name)
    gold = _gold_of_result(result, record, corrections)
    found = resolve_result_metric(result, record, metrics or {}, gold=gold.signature)
    notes = _notes(found, record)
    return Explanation(
        run_id=record.run_id,
        run=record.name,
        dataset=f"{record.dataset_name}, {record.num_samples} samples",
        card=card(result, found.metric),
        reduction=None if query is not None else _reduction(store, record, result, found),
        query=None if query is None else explain_query(store, record, result, found, query, models=models, gold=gold),
        notes=notes,
        sequential=sequential_details(result) if query is None else None,
        two_stage=two_stage_details(result) if query is None else None,
    )


def _gold_of_result(result: MetricResult, record: RunRecord, corrections: CorrectionLog | None) -> CorrectedGold:
    """The corrections in the signature of a result; none if they are not the ones that are accepted now."""
    with suppress(AueporaError):  # no such signature, or a damaged journal: the explanation names the difference
        if corrections is not None and (name := Signature.parse(result.signature or "").options.get("gold")):
            gold = CorrectedGold.of(corrections.accepted(record.fingerprint))
            if gold.signature == name:
                return gold
    return CorrectedGold({})


def _notes(found: ResolvedMetric, record: RunRecord) -> list[str]:
    notes = []
    if found.metric is None:
        notes.append("The metric is not known in this process, so that nothing can be computed again.")
    elif found.differs == ("gold",):
        notes.append(
            "The number was computed with other gold, such as a qrels file or corrections that are no longer in force. "
            "What follows has the gold of the dataset."
        )
    elif found.differs:
        notes.append(
            f"The metric at hand is not the one that computed the number: they differ in {', '.join(found.differs)}."
        )
    if record.version != __version__:
        notes.append(f"The run was made with version {record.version}; this is {__version__}.")
    return notes


def _reduction(store: RunStore, record: RunRecord, result: MetricResult, found: ResolvedMetric) -> Reduction | None:
    """How the scores become the value; ``None`` where no scores are stored."""
    scores = result.scores
    if not isinstance(scores, Scores):
        return None
    reducer = found.metric.reducer if isinstance(found.metric, BatchMetric) else None
    values = counted_values(scores)
    if two_stage_details(result) is not None:
        words = "the mean of the judge's scores of a draw, corrected by the scores predicted for all samples"
        check = RecomputationCheck(result.known_value, None, "not computed", "see above")
        return Reduction(words, len(values), None, check, *_influences(scores, store.sample_ids(record.run_id)))
    is_mean = reducer is None or (isinstance(reducer, Mean) and type(reducer).value is Mean.value)
    total = exact_sum(values) if is_mean else None
    lowest, highest = _influences(scores, store.sample_ids(record.run_id))
    return Reduction(
        words=describe_reducer("mean" if reducer is None else reducer.name),
        n=len(values),
        total=total,
        check=_check_value(result, scores, reducer, record),
        lowest=lowest,
        highest=highest,
    )


def _check_value(
    result: MetricResult, scores: Scores, reducer: Reducer | None, record: RunRecord
) -> RecomputationCheck:
    stored = result.known_value
    if record.repeats > 1 and not isinstance(reducer, Mean):
        return RecomputationCheck(
            stored, None, "not computed", "it is the mean of the repeats' values, each over all its answers"
        )
    try:
        value = (reducer or Mean()).value(scores)
    except Exception:  # it may read more than the scores, such as whole answers
        return RecomputationCheck(stored, None, "not computed", "it does not follow from the stored scores alone")
    computed = None if math.isnan(value) else value
    if computed == stored:
        return RecomputationCheck(stored, computed, "equal")
    if computed is not None and stored is not None and abs(computed - stored) <= _TOLERANCE * max(1.0, abs(stored)):
        return RecomputationCheck(stored, computed, "rounding", "another order of the same sum")
    if reducer is None:
        return RecomputationCheck(stored, None, "not computed", "nobody here knows how the scores become the value")
    return RecomputationCheck(
        stored, computed, "differs", "the stored value is not what this metric makes of the stored scores"
    )


def _influences(scores: Scores, ids: list[str]) -> tuple[tuple[Influence, ...], tuple[Influence, ...]]:
    """The lowest and the highest scores; each query once."""
    rows = np.flatnonzero(scores.counted)
    order = rows[np.argsort(scores.values[rows], kind="stable")].tolist()
    count = min(MAX_SHOWN, len(order) // 2) or len(order)
    outcomes = scores.outcomes

    def influence(row: int) -> Influence:
        return Influence(ids[row], float(scores.values[row]), outcomes[row])

    best = rows[np.argsort(-scores.values[rows], kind="stable")].tolist()  # equal ones in the order of the dataset
    return tuple(map(influence, order[:count])), tuple(map(influence, best[:count])) if len(order) > count else ()


# --- the explanation as a report, for a terminal and as Markdown -----------------------------------------------------

MAX_ROWS = 50
"""The number of table rows shown."""
MAX_WIDTH = 600
"""The number of characters of a cell shown, and a quarter of those of a sentence; JSON has all."""


def explanation_report(explanation: Explanation) -> Report:
    """The explanation as a report: the card and the reduction, or the derivation of one query."""
    card, query = explanation.card, explanation.query
    formula = [Code(card.formula)] if card.formula else []
    if query is None:
        introduction: list[Block] = [_prose(card.summary), *formula, *map(_prose, card.text)]
        sections = [_section("", introduction), *_card_sections(card)]
        if explanation.sequential is not None:
            path = sequential_test_blocks(card.title, explanation.sequential)
            sections.append(_section("The sequential test", path))
        if explanation.two_stage is not None:
            stages = two_stage_metric_blocks(card.title, explanation.two_stage)
            sections.append(_section("Two-stage judging", stages))
        sections += [] if explanation.reduction is None else _reduction_sections(explanation.reduction)
    else:
        choices = [f"{choice.key} {choice.value}: {choice.words}" for choice in card.choices]
        introduction = [_prose(card.summary), *formula, *([Bullets(choices)] if choices else [])]
        sections = [_section("", introduction), *_query_sections(query)]
    title = f"{card.title} of {explanation.run} ({explanation.run_id})"
    return Report(title, "", ReportVerdict("", points=explanation.notes), sections)


def _section(title: str, blocks: Sequence[Block]) -> ReportSection:
    return ReportSection("", title, blocks)


def _prose(text: str) -> Prose:
    return Prose(text if len(text) <= 4 * MAX_WIDTH else f"{text[: 4 * MAX_WIDTH]}…")


def _table(headers: Sequence[str], rows: Sequence[Sequence[Cell]], caption: str = "") -> list[Block]:
    """A table, truncated to the first rows."""
    columns = [TableColumn(name, number=all(_is_number(row[at]) for row in rows)) for at, name in enumerate(headers)]
    more = len(rows) - MAX_ROWS
    shown = simple_table(columns, [list(map(_cell, row)) for row in rows[:MAX_ROWS]], caption=caption)
    return [shown, *([Prose(f"... and {more} more rows; --json has all")] if more > 0 else [])]


def _is_number(cell: Cell) -> bool:
    return cell is None or (isinstance(cell, (int, float)) and not isinstance(cell, bool))


def _cell(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, (int, float)):
        return format_number(cell)
    return cell if len(cell) <= MAX_WIDTH else f"{cell[:MAX_WIDTH]}…"


def _card_sections(card: Card) -> list[ReportSection]:
    """The parts of a card: facts, options and samples."""
    facts = [
        ("value", "none" if card.value is None else f"{format_value(card.value)}  ({card.value!r})"),
        ("95 % interval", _interval(card)),
        ("without failures", "" if card.value_completed is None else format_value(card.value_completed)),
        ("had all been measured", "" if card.bounds is None else " to ".join(map(format_value, card.bounds))),
        ("range", f"{card.range_text}, {card.direction}"),
        ("target", f"{card.target_title}: {card.question}"),
        ("made of", card.reducer),
        ("a failed answer", card.failure),
        ("conventions", card.convention),
        ("signature", card.signature or "none"),
        ("reference", card.reference),
    ]
    choices = [(choice.key, choice.value, choice.words) for choice in card.choices]
    return [
        _section("The number", [DefinitionList([fact for fact in facts if fact[1]])]),
        _section("Its choices", _table(("choice", "value", "which means"), choices) if choices else []),
        _section("The samples it is based on", _sample_blocks(card)),
        _section("", list(map(_prose, card.notes))),
    ]


def _interval(card: Card) -> str:
    if card.interval is None:
        return "" if card.value is None else "none"
    interval = card.interval
    doubts = f"; {', '.join(interval.doubts)}" if interval.doubts else ""
    return f"{format_value(interval.low)} to {format_value(interval.high)}, by {interval.words}{doubts}"


def _sample_blocks(card: Card) -> list[Block]:
    samples = card.samples
    if samples is None:
        return []
    left = f"{samples.counted} of {samples.total} are in the value: {samples.scored} scored"
    if samples.system_failed:
        how = (
            "left out" if samples.failed_counts_as is None else f"counted as {format_number(samples.failed_counts_as)}"
        )
        left += f", {samples.system_failed} on which the system failed, {how}"
    if samples.measure_failed:
        left += f"; {samples.measure_failed} could not be measured"
    unjudged = sum(each.count for each in samples.skips if each.reason == NOT_JUDGED)
    if unjudged:
        left += f"; {unjudged} are not judged"
    if skipped := samples.skipped - unjudged:
        left += f"; {skipped} are skipped, since the question does not apply"
    rows = []
    for kind, reasons in (("skipped", samples.skips), ("failed", samples.failures)):
        for each in reasons:
            needed = f"; to have a score: {each.needed}" if each.needed else ""
            rows.append((kind, each.reason, each.count, f"{each.words}{needed}"))
    return [Prose(left), *(_table(("", "reason", "samples", "which means"), rows) if rows else [])]


def _reduction_sections(reduction: Reduction) -> list[ReportSection]:
    lines = [f"{reduction.words[:1].upper()}{reduction.words[1:]}."]
    if reduction.total is not None and reduction.n:
        mean = format_number(reduction.total / reduction.n)
        lines.append(f"sum of scores {format_number(reduction.total)} / {reduction.n} samples = {mean}")
    lines.append(_check_text(reduction.check, "value"))
    sections = [_section("From scores to the value", list(map(_prose, lines)))]
    for title, members in (("Lowest scores", reduction.lowest), ("Highest scores", reduction.highest)):
        rows: list[Row] = []
        for each in members:
            outcome = "" if each.outcome == "scored" else each.outcome
            rows.append([_cell(each.sample_id), _cell(each.score), outcome])
        shown = simple_table(["query", TableColumn("score", number=True), "outcome"], rows)
        sections.append(_section(title, [without_empty_columns(shown)] if rows else []))
    return sections


def _check_text(check: RecomputationCheck, what: str) -> str:
    stored = "none" if check.stored is None else repr(check.stored)
    computed = "none" if check.computed is None else repr(check.computed)
    why = f" ({check.why})" if check.why else ""
    if check.stored is None and check.verdict == "equal":
        return f"No {what} is stored, and none comes of computing it again."
    return {
        "equal": f"The stored {what} is {stored}; computed again, it is equal to the last digit.",
        "rounding": f"The stored {what} is {stored}; computed again, {computed}: the same but for rounding{why}.",
        "differs": f"The stored {what} is {stored}; computed again, it is {computed}. They differ: {check.why}.",
        "not computed": f"The stored {what} is {stored}; it was not computed again{why}.",
    }[check.verdict]


def _query_sections(query: QueryExplanation) -> list[ReportSection]:
    sections = [_section(f"Query {query.sample_id}", [_prose(query.query)])]
    for answer in query.answers:
        title = f"Answer {answer.repeat + 1}" if len(query.answers) > 1 else ""
        sections.append(_section(title, _answer_blocks(answer)))
    values = [answer.counts_as for answer in query.answers if answer.counts_as is not None]
    lines = [_check_text(query.check, "score")]
    if len(query.answers) > 1 and values:
        together = query.check.computed
        line = f"The mean over its answers: ({' + '.join(map(format_number, values))}) / {len(values)}"
        if together is not None and not math.isclose(together, math.fsum(values) / len(values)):
            line = (
                f"Its answers count as {', '.join(map(format_number, values))}, together as {format_number(together)}"
            )
        lines.insert(0, line)
    return [*sections, _section("", list(map(_prose, lines)))]


def _answer_blocks(answer: RepeatExplanation) -> list[Block]:
    if answer.derivation is not None:
        steps = enumerate(answer.derivation.steps, start=1)
        return list(chain.from_iterable(_step_blocks(place, step) for place, step in steps))
    counts = "it leaves the value" if answer.counts_as is None else f"it counts as {format_number(answer.counts_as)}"
    status, _, reason = answer.outcome.partition(":")
    message = {
        "skipped": f"Skipped, since {'it is not judged' if reason == NOT_JUDGED else 'the question does not apply'} "
        f"({reason}): {answer.words}.",
        "system_failed": f"The system failed ({reason}): {answer.words}; {counts}.",
        "measure_failed": f"It could not be measured ({reason}): {answer.words}; {counts}.",
    }.get(status, f"{answer.outcome}; {counts}.")
    return [_prose(message), *([] if answer.needed is None else [_prose(f"To have a score: {answer.needed}.")])]


def _step_blocks(place: int, step: DerivationStep) -> list[Block]:
    text = f"{place}. {step.text}"
    if step.table is None:
        return [_prose(text)]
    return _table(step.table.headers, step.table.rows, text if step.table.rows else f"{text}: none")
