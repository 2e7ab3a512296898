"""Rendering of a calibration report as tables, for a terminal or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..reporting.markdown import escape_markdown, markdown_table
from ..reporting.tables import format_value, table
from ..stats.estimate import Estimate
from ..stats.interval import Interval
from ..stats.prediction_powered import CorrectedMean
from ..stats.raters import RatersReport
from .conclusion import CHANCE_P_VALUE
from .report import CalibrationReport, JudgeCalibration, count_of

__all__ = ["render_report"]

_MAX_TEXT_CHARS = 100
"""Maximum length of a question, an answer or a rationale."""
_UNCERTAIN = "?"
"""Marks an interval that may be too narrow."""
_LEFT_OUT = {
    "other_run": "of other runs",
    "other_metric": "for other metrics",
    "by_model": "given by a model",
    "tuned": "that served to tune the prompt",
    "tied": "evenly divided between annotators",
    "no_score": "of samples without a score",
    "unknown_sample": "of samples that the run does not have",
}


_CORRELATIONS = {
    "pearson": "correlation of score and label",
    "spearman": "correlation of their ranks",
    "kendall": "pairs in the same order (tau-b)",
}


def render_report(report: CalibrationReport, *, shown: int, markdown: bool) -> str:
    """The whole report."""
    page = _Page(markdown)
    parts: list[str] = []
    if report.people is not None:
        parts += [page.heading("People with each other"), *_people(report.people, page)]
    for one in report.judged:
        parts += [page.heading(f"{one.conclusion.name} against people"), *_judge(one, page)]
        parts += _disagreements(one, page, shown)
    parts.append(page.heading("What people would say of all answers"))
    parts += _corrected_table(report, page)
    text = "\n\n".join(parts)
    if any(one.flags for one in _intervals(report)):
        text += f"\n\n{_UNCERTAIN} few or skewed samples: the interval may be too narrow"
    return f"{text}\n\n{page.text(report.conclusion.sentence)}" + ("\n" if markdown else "")


@dataclass(frozen=True, slots=True)
class _Page:
    markdown: bool

    def heading(self, text: str) -> str:
        return f"## {escape_markdown(text)}" if self.markdown else f"{text}\n{'=' * len(text)}"

    def text(self, text: str) -> str:
        return escape_markdown(text) if self.markdown else text

    def table(
        self, headers: Sequence[str], rows: Sequence[Sequence[str]], *, texts: Sequence[int], right: Sequence[int] = ()
    ) -> str:
        """``texts`` are the columns with untrusted text; the others are numbers."""
        if not self.markdown:
            return table(rows, headers=headers, right=right)
        cells = [[escape_markdown(cell) if at in texts else cell for at, cell in enumerate(row)] for row in rows]
        return markdown_table(headers, cells, right=right)


def _people(people: RatersReport, page: _Page) -> list[str]:
    rows = [
        [f"{one.first} and {one.second}", str(one.agreement.units), *_cells(one.agreement), *_cells(one.kappa)]
        for one in people.pairs
    ]
    kappa = "kappa" if people.level == "nominal" else "kappa (quadratic)"
    headers = ["annotators", "answers", "agreement", "95 % interval", kappa, "95 % interval"]
    parts = [page.table(headers, rows, texts=(0,), right=(1, 2, 4))] if rows else []
    alpha = _line(f"Krippendorff's alpha of all {len(people.rated)} annotators ({people.level})", people.alpha)
    return [*parts, page.text(alpha)]


def _judge(one: JudgeCalibration, page: _Page) -> list[str]:
    side = "from" if one.higher_is_better else "up to"
    how = "as given" if one.threshold_given else "half way between worst and best; --threshold sets another"
    counts = one.confusion
    parts = [
        page.text(
            f"{one.labelled} labelled answers. Right means a score {side} {format_value(one.threshold)} ({how}). "
            f"Both say right {counts.true_positives}, both wrong {counts.true_negatives}, "
            f"only people say right {counts.false_negatives}, only the judge {counts.false_positives}."
        )
    ]
    named = [
        ("agreement", one.agreement, "share of equal verdicts"),
        ("kappa", one.kappa, "beyond chance (Cohen)"),
        ("alpha", one.alpha, f"beyond chance (Krippendorff, {one.alpha_level})"),
        ("AUROC", one.auroc, "a right answer scores above a wrong one"),
        *((name.capitalize(), value, _CORRELATIONS[name]) for name, value in one.correlations.items()),
        ("TPR", one.tpr, "right answers called right"),
        ("TNR", one.tnr, "wrong answers called wrong"),
        ("balanced accuracy", one.balanced_accuracy, "mean of the two"),
        ("calibration error", one.calibration_error, "scores as chances, bins of equal width"),
        ("", one.calibration_error_equal_mass, "the same, bins of equal mass"),
        ("Brier score", one.brier, "squared distance of score and label"),
    ]
    rows = [[name, *_cells(value), value.why_undefined or what] for name, value, what in named]
    parts.append(page.table(["measure", "value", "95 % interval", "what it is"], rows, texts=(), right=(1,)))
    left_out = [f"{count} {_LEFT_OUT[reason]}" for reason, count in one.left_out.items()]
    if left_out:
        parts.append(page.text(f"Labels left out: {', '.join(left_out)}."))
    return [*parts, *(page.text(f"Note: {note}.") for note in one.notes)]


def _disagreements(one: JudgeCalibration, page: _Page, shown: int) -> list[str]:
    if not one.disagreements:
        return [page.text("The judge and people give the same verdict on every labelled answer.")]
    columns = [("question", "question"), ("answer", "answer"), ("why the judge said so", "rationale")]
    kept = [(title, name) for title, name in columns if any(getattr(row, name) for row in one.disagreements)]
    rows = [
        [row.sample_id, _label(row.label), format_value(row.score), *(_shorten(getattr(row, name)) for _, name in kept)]
        for row in one.disagreements[:shown]
    ]
    headers = ["sample", "people", "score", *(title for title, _ in kept)]
    n = len(one.disagreements)
    parts = [page.text(f"{count_of(n, 'answer')} that the judge and people see differently:")]
    parts.append(page.table(headers, rows, texts=(0, *range(3, len(headers))), right=(2,)))
    if len(one.disagreements) > shown:
        parts.append(page.text(f"... and {len(one.disagreements) - shown} more; --json has all"))
    return parts


def _corrected_table(report: CalibrationReport, page: _Page) -> list[str]:
    rows = [_mean_row(one.name, one.corrected) for one in report.judged]
    headers = ["mean of", "judge alone", "labels alone", "95 % interval", "corrected", "95 % interval", "labels used"]
    if report.difference is not None:
        first, second = (one.name for one in report.judged)
        rows.append(_mean_row(f"{second} - {first}", report.difference))
    parts = [page.table(headers, rows, texts=(0,), right=(1, 2, 4))]
    about = "these answers and no others" if report.finite else "answers to such questions"
    parts.append(page.text(f"Intervals are about {about}, and suppose that the labelled ones were drawn at random."))
    chance = [one.conclusion.p_chance >= CHANCE_P_VALUE for one in report.judged]
    every = [(one.corrected, alike) for one, alike in zip(report.judged, chance, strict=True)]
    shown = [(report.difference, any(chance))] if report.difference else every
    parts += [page.text(_worth(one, like_chance=alike)) for one, alike in shown]
    if report.verdict is not None:
        first, second = (one.name for one in report.judged)
        sentence = f"By people, {second} is {report.verdict} than {first}."
        if report.verdict == "inconclusive":
            sentence = f"Inconclusive: by people, {second} may be better than {first} or worse."
        parts.append(page.text(sentence))
    return parts


def _mean_row(name: str, one: CorrectedMean) -> list[str]:
    used = f"{one.labelled} of {one.samples}"
    alone = [format_value(one.scores_mean), format_value(one.labels_mean), _interval_text(one.labels_interval)]
    return [name, *alone, format_value(one.value), _interval_text(one.interval), used]


def _worth(one: CorrectedMean, *, like_chance: bool) -> str:
    if like_chance:
        return "The labels stand alone: the judge is not shown to be better than chance, so that it corrects nothing."
    if not one.weight or one.worth is None:
        return "The labels stand alone: the scores do not make the interval narrower."
    return (
        f"With the scores (weight {one.weight:.2f}) the {one.labelled} labels tell as much as "
        f"{one.worth:.0f} would without."
    )


def _line(name: str, value: Estimate) -> str:
    if value.value is None:
        return f"{name}: not defined, since {value.why_undefined}."
    ends = _interval_text(value.interval)
    return f"{name}: {format_value(value.value)}" + (f" ({ends})" if ends else "")


def _cells(value: Estimate) -> tuple[str, str]:
    return ("n/a" if value.value is None else format_value(value.value)), _interval_text(value.interval)


def _interval_text(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return f"{format_value(interval.low)} – {format_value(interval.high)}" + (
        f" {_UNCERTAIN}" if interval.flags else ""
    )


def _label(value: float) -> str:
    return {0.0: "wrong", 1.0: "right"}.get(value, format_value(value))


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_TEXT_CHARS else f"{line[: _MAX_TEXT_CHARS - 1]}…"


def _intervals(report: CalibrationReport) -> list[Interval]:
    """Every interval that is shown."""
    measured: list[Estimate] = []
    if report.people is not None:
        measured.append(report.people.alpha)
        measured += [each for pair in report.people.pairs for each in (pair.agreement, pair.kappa)]
    means = [] if report.difference is None else [report.difference]
    for one in report.judged:
        measured += [one.agreement, one.kappa, one.alpha, one.auroc, one.tpr, one.tnr, one.balanced_accuracy]
        measured += one.correlations.values()
        means.append(one.corrected)
    found = [each.interval for each in measured]
    found += [end for each in means for end in (each.interval, each.labels_interval)]
    return [one for one in found if one is not None]
