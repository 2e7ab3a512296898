"""The report of two runs: the verdict in one sentence, and the sections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...compare.report import golden_report
from ...compare.runs import compare_runs
from ...compare.summary import comparison_summary
from ...compare.types import CompareReport, MetricComparison
from ...core.errors import AueporaError
from .blocks import Prose, ReportSection, ReportVerdict, Tone
from .cards_section import cards_section
from .comparison_section import comparison_section
from .distributions_section import distributions_section
from .failures_section import failures_section
from .formatting import format_time, pluralize, shorten
from .gates_section import GateCheck, check_stored_gates, gates_section, gates_summary
from .judges_section import judges_section
from .latency_section import latency_section
from .provenance import provenance_section
from .queries_sections import changed_section, wins_section
from .retrieval_section import retrieval_sections
from .run_page import answers_result
from .scores_section import runs_scores_section
from .slices_section import slices_section
from .split_section import split_section
from .stored_run import StoredRun

__all__ = ["ComparedRuns", "compare_stored_runs", "comparison_sections", "comparison_subtitle", "comparison_verdict"]


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """Two runs with their comparison, or the reason why there is none."""

    a: StoredRun
    b: StoredRun
    report: CompareReport | None
    refused: str = ""
    gates: GateCheck = None

    @property
    def main(self) -> MetricComparison | None:
        """The comparison of the main metric."""
        from ...compare.main_metric import main_metric

        if self.report is None:
            return None
        try:
            name = main_metric(self.a.record, self.a.results, self.b.record, self.b.results).name
        except AueporaError:
            name = ""
        by_name = {one.name: one for one in self.report.metrics}
        return by_name.get(name) or next((one for one in self.report.metrics if one.delta is not None), None)


def compare_stored_runs(a: StoredRun, b: StoredRun) -> ComparedRuns:
    """Compare run B with run A; runs on different datasets are compared over their common queries."""
    gates = check_stored_gates(b, a.record)
    try:
        report = compare_runs(a.record.run_id, b.record.run_id, store=a.store, other_dataset=True, aggregates=False)
    except AueporaError as error:
        return ComparedRuns(a, b, _golden_report_only(a, b), str(error), gates)
    return ComparedRuns(a, b, report, gates=gates)


def _golden_report_only(a: StoredRun, b: StoredRun) -> CompareReport | None:
    """The comparison of golden queries, where no metric can be compared."""
    try:
        report = golden_report(a.store, a.record, b.record, aggregates=False)
    except AueporaError:
        return None
    return report if report.per_query else None


def comparison_subtitle(compared: ComparedRuns) -> str:
    """Which runs they are."""
    return "; ".join(
        f"{run.label} ({run.record.run_id}, {format_time(run.record.created_at)})" for run in (compared.a, compared.b)
    )


def comparison_verdict(compared: ComparedRuns) -> ReportVerdict:
    """The verdict on the primary metrics, the main metric, and further points."""
    a, b = compared.a, compared.b
    if compared.refused or compared.report is None:
        what = "The two runs" if compared.report is None else "The metrics of the two runs"
        return ReportVerdict(f"{what} cannot be compared: {compared.refused}", "bad", _points(compared))
    summary = comparison_summary(compared.report, (a.record.name, b.record.name))
    tones: dict[str, Tone] = {"better": "good", "worse": "bad", "open": "open"}
    worse = [one for one in compared.report.metrics if one.primary and one.verdict == "worse"]
    return ReportVerdict(summary.sentence, tones[summary.outcome], _points(compared, worse))


def _points(compared: ComparedRuns, worse: Sequence[MetricComparison] = ()) -> list[str]:
    points = []
    report = compared.report
    if worse:
        names = ", ".join(one.name for one in worse[:6])
        points.append(f"Worse: {names}{' and others' if len(worse) > 6 else ''}.")
    if report is not None:
        kinds = report.deltas.get("kinds") or {}
        if report.per_query:
            kind_counts = ", ".join(
                f"{count:,} {kind.lower()}{_plural(kind, count)}" for kind, count in kinds.items() if count
            )
            points.append(f"Of {pluralize(len(report.per_query), 'golden query', 'golden queries')}: {kind_counts}.")
        points += [f"{shorten(note)}." for note in report.notes]
        if report.refused:
            points.append(f"Not compared: {', '.join(report.refused)} (see below).")
    if compared.a.record.fingerprint != compared.b.record.fingerprint:
        points.append("The runs were made on different datasets; they are compared over the queries that both have.")
    for run in (compared.a, compared.b):
        done, failed = run.counts
        if failed:
            points.append(f"{run.label}: {failed:,} of {pluralize(done, 'answer')} failed.")
        if run.record.status != "finished":
            points.append(f"{run.label} is {run.record.status.value}.")
    if compared.gates is not None:
        points.append(gates_summary(compared.gates, " of B"))
    return points


def _plural(kind: str, count: int) -> str:
    return "" if count == 1 else "es" if kind.endswith("s") else "s"


def comparison_sections(compared: ComparedRuns) -> list[ReportSection]:
    """The sections of a comparison; those that would be empty are left out."""
    a, b = compared.a, compared.b
    both = (a, b)
    main = compared.main
    sections: list[ReportSection | None] = []
    sections.append(gates_section(compared.gates))
    if compared.refused or compared.report is None:
        sections.append(ReportSection("deltas", "Differences", [Prose(compared.refused, tone="bad")]))
    else:
        sections += [comparison_section(a, b, compared.report), wins_section(a, b, compared.report, main)]
    if compared.report is not None:
        sections += [changed_section(a, b, compared.report), split_section(a, b)]
    sections += [
        runs_scores_section(both),
        slices_section(both, None if main is None else main.name),
        distributions_section(both),
        latency_section(both),
        *retrieval_sections(both, answers_result(b)),
        failures_section(both),
        judges_section(both),
        cards_section(both),
        provenance_section(both),
    ]
    return [one for one in sections if one is not None]
