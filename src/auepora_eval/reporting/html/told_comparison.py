"""Two runs held against each other: the verdict in one sentence, and the sections in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...compare.report import golden_report
from ...compare.runs import compare_runs
from ...compare.sentence import comparison_summary
from ...compare.types import CompareReport, MetricComparison
from ...core.errors import AueporaError
from .blocks import Prose, Section, Tone, Verdict
from .cards_section import cards_section
from .comparison_section import comparison_section
from .distributions_section import distributions_section
from .failures_section import failures_section
from .gates_section import Checked, checked_gates, gates_point, gates_section
from .judges_section import judges_section
from .latency_section import latency_section
from .provenance import provenance_section
from .queries_sections import changed_section, wins_section
from .retrieval_section import retrieval_sections
from .scores_section import both_scores_section
from .slices_section import slices_section
from .split_section import split_section
from .stored_run import StoredRun
from .told_run import answers_result
from .wording import amount, short, when

__all__ = ["Compared", "compared_sections", "comparison_of", "subtitle_of_comparison", "verdict_of_comparison"]


@dataclass(frozen=True, slots=True)
class Compared:
    """Two runs, what their comparison says, or why there is none."""

    a: StoredRun
    b: StoredRun
    report: CompareReport | None
    refused: str = ""
    gates: Checked = None

    @property
    def main(self) -> MetricComparison | None:
        """The metric that matters most."""
        from ...compare.main_metric import main_metric

        if self.report is None:
            return None
        try:
            name = main_metric(self.a.record, self.a.results, self.b.record, self.b.results).name
        except AueporaError:
            name = ""
        found = {one.name: one for one in self.report.metrics}
        return found.get(name) or next((one for one in self.report.metrics if one.delta is not None), None)


def comparison_of(a: StoredRun, b: StoredRun) -> Compared:
    """Run B held against run A; runs on other datasets are compared over what they share."""
    gates = checked_gates(b, a.record)
    try:
        report = compare_runs(a.record.run_id, b.record.run_id, store=a.store, other_dataset=True, aggregates=False)
    except AueporaError as error:
        return Compared(a, b, _golden_alone(a, b), str(error), gates)
    return Compared(a, b, report, gates=gates)


def _golden_alone(a: StoredRun, b: StoredRun) -> CompareReport | None:
    """What the golden queries say, where there is no metric to compare."""
    try:
        report = golden_report(a.store, a.record, b.record, aggregates=False)
    except AueporaError:
        return None
    return report if report.per_query else None


def subtitle_of_comparison(compared: Compared) -> str:
    """Which runs they are."""
    return "; ".join(
        f"{run.called} ({run.record.run_id}, {when(run.record.created_at)})" for run in (compared.a, compared.b)
    )


def verdict_of_comparison(compared: Compared) -> Verdict:
    """Better, worse or open on the primary metrics, the main number, and what else one should know."""
    a, b = compared.a, compared.b
    if compared.refused or compared.report is None:
        what = "The two runs" if compared.report is None else "The metrics of the two runs"
        return Verdict(f"{what} cannot be compared: {compared.refused}", "bad", _points(compared))
    summary = comparison_summary(compared.report, (a.record.name, b.record.name))
    tones: dict[str, Tone] = {"better": "good", "worse": "bad", "open": "open"}
    worse = [one for one in compared.report.metrics if one.primary and one.verdict == "worse"]
    return Verdict(summary.sentence, tones[summary.outcome], _points(compared, worse))


def _points(compared: Compared, worse: Sequence[MetricComparison] = ()) -> list[str]:
    points = []
    report = compared.report
    if worse:
        names = ", ".join(one.name for one in worse[:6])
        points.append(f"Worse: {names}{' and others' if len(worse) > 6 else ''}.")
    if report is not None:
        kinds = report.deltas.get("kinds") or {}
        if report.per_query:
            told = ", ".join(
                f"{count:,} {kind.lower()}{_plural(kind, count)}" for kind, count in kinds.items() if count
            )
            points.append(f"Of {amount(len(report.per_query), 'golden query', 'golden queries')}: {told}.")
        points += [f"{short(note)}." for note in report.notes]
        if report.refused:
            points.append(f"Not compared: {', '.join(report.refused)} (see below).")
    if compared.a.record.fingerprint != compared.b.record.fingerprint:
        points.append("The runs were made on different datasets; they are compared over the queries that both have.")
    for run in (compared.a, compared.b):
        done, failed = run.counts
        if failed:
            points.append(f"{run.called}: {failed:,} of {amount(done, 'answer')} failed.")
        if run.record.status != "finished":
            points.append(f"{run.called} is {run.record.status.value}.")
    if compared.gates is not None:
        points.append(gates_point(compared.gates, " of B"))
    return points


def _plural(kind: str, count: int) -> str:
    return "" if count == 1 else "es" if kind.endswith("s") else "s"


def compared_sections(compared: Compared) -> list[Section]:
    """The sections of a comparison; those that would be empty are left out."""
    a, b = compared.a, compared.b
    both = (a, b)
    main = compared.main
    made: list[Section | None] = []
    made.append(gates_section(compared.gates))
    if compared.refused or compared.report is None:
        made.append(Section("deltas", "Differences", [Prose(compared.refused, tone="bad")]))
    else:
        made += [comparison_section(a, b, compared.report), wins_section(a, b, compared.report, main)]
    if compared.report is not None:
        made += [changed_section(a, b, compared.report), split_section(a, b)]
    made += [
        both_scores_section(both),
        slices_section(both, None if main is None else main.name),
        distributions_section(both),
        latency_section(both),
        *retrieval_sections(both, answers_result(b)),
        failures_section(both),
        judges_section(both),
        cards_section(both),
        provenance_section(both),
    ]
    return [one for one in made if one is not None]
