"""The report of one run: the verdict in one sentence, and the sections."""

from __future__ import annotations

import numpy as np

from ...core.errors import AueporaError
from ...core.types import MetricResult, TargetCategory
from ...store.records import RunStatus
from .blocks import ReportSection, ReportVerdict, Tone
from .cards_section import cards_section
from .distributions_section import distributions_section
from .failures_section import failures_section
from .formatting import describe_result, format_time, pluralize, seconds_text, shorten
from .gates_section import check_stored_gates, gates_section, gates_summary
from .judges_section import judges_section
from .latency_section import latency_section
from .provenance import provenance_section
from .retrieval_section import retrieval_sections
from .scores_section import scores_section
from .slices_section import slices_section
from .stored_run import StoredRun, score_column

__all__ = ["answers_result", "main_result", "run_sections", "run_subtitle", "run_verdict"]


ANSWERS = (
    TargetCategory.GENERATION_CORRECTNESS,
    TargetCategory.GENERATION_RELEVANCE,
    TargetCategory.GENERATION_FAITHFULNESS,
)


RETRIEVAL = (TargetCategory.RETRIEVAL_RELEVANCE, TargetCategory.RETRIEVAL_ACCURACY)


def run_subtitle(run: StoredRun) -> str:
    """Run id, time, dataset and tags."""
    record = run.record
    times = f", each asked {record.repeats} times" if record.repeats > 1 else ""
    tags = f", tagged {', '.join(record.tags)}" if record.tags else ""
    return (
        f"{record.run_id}, {format_time(record.created_at)}: {pluralize(record.num_samples, 'query', 'queries')} of "
        f"{record.dataset_name}{times}{tags}"
    )


def run_verdict(run: StoredRun) -> ReportVerdict:
    """The main metric, failures and gates of a run."""
    record, (done, failed) = run.record, run.counts
    points: list[str] = []
    tone: Tone = ""
    expected = record.num_samples * max(record.repeats, 1)
    if record.status is not RunStatus.FINISHED:
        tone = "open"
        why = f": {shorten(record.message)}" if record.message else ""
        points.append(
            f"The run is {record.status.value}, with {done:,} of {pluralize(expected, 'answer')} stored{why}."
        )
    if failed:
        tone = "bad" if failed == done else "open"
    unmeasured = [one for one in run.results if one.details.get("num_measure_failed")]
    if unmeasured:
        points.append(
            f"{pluralize(len(unmeasured), 'metric')} could not be measured on some queries: "
            f"{', '.join(one.name for one in unmeasured[:5])}{' and others' if len(unmeasured) > 5 else ''}."
        )
    gates = check_stored_gates(run)
    if gates is not None:
        points.append(gates_summary(gates))
    if isinstance(gates, str):
        tone = tone or "open"
    elif gates is not None:
        tone = {"passed": tone or "good", "failed": "bad", "inconclusive": tone or "open"}[gates.status]
    failures = "no answer failed" if not failed else f"{failed:,} of {pluralize(done, 'answer')} failed"
    best = main_result(run)
    if not record.num_samples:
        return ReportVerdict(f"{record.name} has no queries, so there is nothing to tell.", "open", points)
    if not run.results:
        message = f"{record.name} has no results yet: {pluralize(done, 'answer')} stored, {failures}."
        return ReportVerdict(message, "open", points)
    if best is None:
        return ReportVerdict(f"{record.name} was scored, and no metric has a value; {failures}.", "bad", points)
    queries = pluralize(record.num_samples, "query", "queries")
    sentence = f"On {queries} of {record.dataset_name}, {describe_result(best)}; {failures}."
    return ReportVerdict(sentence, tone, [*_secondary_points(run, best), *points])


def _secondary_points(run: StoredRun, best: MetricResult) -> list[str]:
    """The first metric of retrieval, where the main one judges answers; and how long answers took."""
    points = []
    if best.target not in RETRIEVAL:
        found = sorted((one for one in run.results if one.target in RETRIEVAL and one.defined), key=_retrieval_order)
        points += [f"Retrieval: {describe_result(one)}." for one in found[:1]]
    times = run.timings.get("end_to_end")
    if times is not None:
        middle, slow = np.quantile(times, (0.5, 0.95), method="inverted_cdf").tolist()
        points.append(
            f"Latency: half of the answers took up to {seconds_text(middle)}, 95 % up to {seconds_text(slow)}."
        )
    return points


def _retrieval_order(result: MetricResult) -> int:
    return RETRIEVAL.index(result.target)


def main_result(run: StoredRun) -> MetricResult | None:
    """The result of the main metric; ``None`` where no metric has a value."""
    from ...compare.main_metric import main_metric

    defined = [one for one in run.results if one.defined]
    try:
        found = run.find_result(main_metric(run.record, run.results, run.record, run.results).name)
    except AueporaError:
        found = None
    if found is not None and found.defined:
        return found
    return next((one for one in defined if one.target is not TargetCategory.LATENCY), defined[0] if defined else None)


def answers_result(run: StoredRun) -> MetricResult | None:
    """The main result that judges answers; ``None`` where no such metric has scores per query."""
    best = main_result(run)
    if best is not None and best.target in ANSWERS and len(score_column(best)):
        return best
    listed = [one for one in run.results if one.target in ANSWERS and one.defined and len(score_column(one))]
    return min(listed, key=lambda one: ANSWERS.index(one.target), default=None)


def run_sections(run: StoredRun) -> list[ReportSection]:
    """The sections of a run; those that would be empty are left out."""
    best = main_result(run)
    sections = [
        gates_section(check_stored_gates(run)),
        scores_section(run),
        slices_section([run], None if best is None else best.name),
        distributions_section([run]),
        latency_section([run]),
        *retrieval_sections([run], answers_result(run)),
        failures_section([run]),
        judges_section([run]),
        cards_section([run]),
        provenance_section([run]),
    ]
    return [one for one in sections if one is not None]
