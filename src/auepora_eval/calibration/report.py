"""The report of a calibration: the conclusion about a judge, what else it contains, and its rendering."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any, Literal

from ..compare.stores import DecisionRegister
from ..labels.draws import PEOPLE_ONLY
from ..labels.sample_weights import ASSUMED_NOTE, Basis
from ..render.block_report import BlockReport
from ..render.blocks import Block, Details, Prose, Row, TableColumn, select_columns, simple_table, without_empty_columns
from ..render.markdown import blocks_markdown
from ..render.short import ShortForm, decimals, first_names, rounded, rounded_interval
from ..render.tables import UNRELIABLE_NOTE, format_value, plural
from ..render.terminal import blocks_text
from ..stats.agreement import RatersReport
from ..stats.calibration import MAX_WEIGHT, Bin, Confusion, CorrectedMean
from ..stats.intervals import Estimate, Interval, interval_ends
from ..stats.probabilities import TOLERANCE, ProbabilityCalibration
from ..stats.sequential import SequentialResult

Usability = Literal["not_usable", "usable_with_correction", "usable"]
_USABILITY_TEXT: dict[Usability, str] = {
    "not_usable": "not usable",
    "usable_with_correction": "usable with correction",
    "usable": "usable",
}
CHANCE_P_VALUE = 0.05
"""Significance level: below this one-sided p-value a judge is better than chance."""
_MIN_KAPPA = 0.6
"""Lower bound of substantial agreement (Landis and Koch 1977)."""
_MIN_LABELS = 30
"""With fewer labels a judge always needs correction."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """Whether a judge can be used, and why."""

    name: str
    """The metric and run of the scores."""
    usability: Usability
    reason: str
    p_chance: float
    """One-sided p-value of the association of scores and labels."""
    brief: str = ""
    """The reason with as many digits as the intervals allow; not stored."""

    @property
    def sentence(self) -> str:
        """The conclusion in one sentence."""
        return f"Conclusion: {self.name} is {_USABILITY_TEXT[self.usability]}, because {self.reason}."

    @property
    def short_sentence(self) -> str:
        """The sentence with as many digits as the intervals allow."""
        return replace(self, reason=self.brief).sentence

    def to_dict(self) -> dict[str, Any]:
        """The conclusion as a JSON object."""
        return {
            "name": self.name,
            "usability": self.usability,
            "reason": self.reason,
            "p_chance": self.p_chance,
            "sentence": self.sentence,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the labels of one run show about its judge."""

    labelled: int
    p_chance: float
    same_labels: bool
    same_scores: bool
    auroc: Estimate
    kappa: Estimate
    excess: Interval | None
    """The interval of the mean of score - label."""
    mean_excess: float
    corrects: bool
    """Whether the scores narrow the interval of the labels."""


def conclude(name: str, evidence: Evidence) -> Conclusion:
    """The conclusion about one judge."""
    usability, reason = _usability(evidence, short=False)
    _, brief = _usability(evidence, short=True)
    return Conclusion(name, usability, reason, evidence.p_chance, brief)


def _usability(evidence: Evidence, *, short: bool) -> tuple[Usability, str]:
    """Whether a judge can be used, and the reason, in the short form with the digits that the intervals allow."""
    auroc, kappa = evidence.auroc, evidence.kappa
    labels = f"{evidence.labelled} label" + "s" * (evidence.labelled != 1)
    auroc_text = "" if auroc.value is None else f"AUROC {_number_text(auroc.value, auroc.interval, short=short)}, "
    if evidence.p_chance >= CHANCE_P_VALUE:
        if evidence.same_labels:
            reason = f"people say the same of every labelled answer ({labels}), which cannot show what it knows"
        elif evidence.same_scores:
            reason = f"it gives every labelled answer the same score ({labels})"
        else:
            reason = f"it is not shown to be better than chance ({auroc_text}p {evidence.p_chance:.2g}, {labels})"
        return "not_usable", reason
    objections = list(_objections(evidence, short=short))
    if not objections:
        number = "" if kappa.value is None else _number_text(kappa.value, kappa.interval, _MIN_KAPPA, short=short)
        agreement = f"kappa {number}, " if number else ""
        return "usable", f"it agrees with people ({agreement}{labels}), and its mean is not shown to be off"
    if not evidence.corrects:
        why = "does not narrow the interval of the labels"
        if evidence.labelled < _MIN_LABELS:
            why = "so few labels can neither confirm nor correct its mean"
        return "not_usable", f"it is better than chance ({auroc_text}{labels}), but {why}"
    return "usable_with_correction", f"it is better than chance ({auroc_text}{labels}), but {_join(objections)}"


def _objections(evidence: Evidence, *, short: bool) -> Iterator[str]:
    """Reasons not to report the judge's own mean."""
    kappa, excess, mean_excess = evidence.kappa, evidence.excess, evidence.mean_excess
    if kappa.value is None or kappa.value < _MIN_KAPPA:
        number = "n/a" if kappa.value is None else _number_text(kappa.value, kappa.interval, _MIN_KAPPA, short=short)
        yield f"kappa is {number}, below {_MIN_KAPPA:g}"
    if excess is None or not excess.low <= 0 <= excess.high:
        number = _number_text(abs(mean_excess), excess, short=short)
        yield f"its mean is {number} too {'high' if mean_excess > 0 else 'low'}"
    if evidence.labelled < _MIN_LABELS:
        yield f"fewer than {_MIN_LABELS} answers are labelled"


def _number_text(value: float, interval: Interval | None, other: float | None = None, *, short: bool) -> str:
    """A number with four decimals; in the short form as many as its interval allows, beside another number."""
    ends = None if interval is None or not short else (interval.low, interval.high)
    return format_value(value, decimals(ends, [value], other))


def _join(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


@dataclass(frozen=True, slots=True)
class Disagreement:
    """An answer on which the judge and the human label disagree."""

    sample_id: str
    label: float
    """The human label, from 0 (wrong) to 1 (right)."""
    score: float
    """The metric's score, in its own units."""
    question: str = ""
    answer: str = ""
    rationale: str = ""


_MEASURES = ("agreement", "kappa", "alpha", "auroc", "tpr", "tnr", "balanced_accuracy")
"""The measures of agreement of a judge."""


@dataclass(frozen=True, slots=True)
class JudgeCalibration:
    """The scores of one run compared with the human labels of its answers."""

    name: str
    metric: str
    threshold: float
    """Score from which an answer counts as right (up to which, if lower is better)."""
    threshold_given: bool
    higher_is_better: bool
    labelled: int
    """Number of samples with both a label and a score."""
    agreement: Estimate
    kappa: Estimate
    alpha: Estimate
    """Krippendorff's alpha of the verdicts, or of the scores for labels on a scale."""
    alpha_level: str
    auroc: Estimate
    confusion: Confusion
    tpr: Estimate
    tnr: Estimate
    balanced_accuracy: Estimate
    calibration_error: Estimate
    """ECE over ten bins of equal width."""
    calibration_error_equal_mass: Estimate
    brier: Estimate
    reliability: tuple[Bin, ...]
    corrected: CorrectedMean
    """Estimated mean human label of all answers."""
    disagreements: tuple[Disagreement, ...]
    """Answers with different verdicts, largest difference first."""
    conclusion: Conclusion
    """Whether the judge can be used."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Number of ignored labels, by reason."""
    notes: tuple[str, ...] = ()
    correlations: Mapping[str, Estimate] = field(default_factory=dict)
    """``pearson``, ``spearman`` and ``kendall`` of score and label; positive where both call the same answers good."""
    basis: Basis = "draw"
    """Why the labels represent the answers: drawn at random, all of them, or assumed to be a random sample."""
    probabilities: ProbabilityCalibration | None = None
    """Whether the scores are right as probabilities; ``None`` for scores without a worst and a best value."""

    def to_dict(self) -> dict[str, Any]:
        """The values as a JSON object."""
        probabilities = None if self.probabilities is None else self.probabilities.to_dict()
        errors = ("calibration_error", "calibration_error_equal_mass", "brier")
        return {
            "name": self.name,
            "metric": self.metric,
            "threshold": self.threshold,
            "threshold_given": self.threshold_given,
            "higher_is_better": self.higher_is_better,
            "labelled": self.labelled,
            **{name: getattr(self, name).to_dict() for name in (*_MEASURES, *errors)},
            "alpha_level": self.alpha_level,
            "confusion": asdict(self.confusion),
            "reliability": [{**asdict(row), "interval": interval_ends(row.interval)} for row in self.reliability],
            "corrected": _corrected_dict(self.corrected),
            "disagreements": [asdict(disagreement) for disagreement in self.disagreements],
            "conclusion": self.conclusion.to_dict(),
            "left_out": dict(self.left_out),
            "notes": list(self.notes),
            **{name: correlation.to_dict() for name, correlation in self.correlations.items()},
            "basis": self.basis,
            "probabilities": probabilities,
        }


@dataclass(frozen=True, slots=True)
class CalibrationReport(BlockReport):
    """Agreement between annotators, agreement of the judge with them, and the corrected means."""

    people: RatersReport | None
    """Agreement between annotators; ``None`` if there is only one."""
    judged: tuple[JudgeCalibration, ...]
    """One per run."""
    difference: CorrectedMean | None = None
    """Of two runs: the estimated difference of their mean human labels, second - first."""
    finite: bool = False
    """Whether corrected means describe only these samples, rather than the population."""
    no_verdict: str | None = None
    """Of two runs: why there is no verdict, if the number of labels was not fixed before the first one."""
    delta: float | None = None
    """Differences up to this count as equal, if the draw fixed it."""
    equivalence: Interval | None = None
    """The 90 % interval of the difference, for the verdict ``equal``."""
    sequential: SequentialResult | None = None
    """The tests at the looks that were fixed in the draw; then ``difference`` is absent."""
    forecast: Mapping[str, Any] | None = None
    """The forecast before the first label of a comparison."""
    bias: CorrectedMean | None = None
    """Of two runs: by how much more the judge overrates the second one, as the labels of both show."""
    register: DecisionRegister | None = None
    """Of two runs with a verdict: how often their test set decided before."""

    def describe_bias(self, *, short: bool = False) -> str | None:
        """Of two runs: that the labels show a different bias of the judge, so that its own means have no verdict.

        With ``short`` the numbers have as many digits as the interval allows.
        """
        ends = None if self.bias is None else self.bias.interval
        if self.bias is None or ends is None or ends.low <= 0 <= ends.high:
            return None
        first, second = self.judged[0].name, self.judged[-1].name
        difference, shown = format_value(self.bias.value), _interval_text(ends)
        if short:
            shown = rounded_interval((ends.low, ends.high))
            difference = rounded(self.bias.value, (ends.low, ends.high))
        return (
            f"by the labels of both runs the judge's error differs between them ({second} - {first}: {difference}, "
            f"95 % interval {shown}), so that the difference of its own means has no verdict; "
            "`auepora judge calibrate` corrects it"
        )

    @property
    def verdict(self) -> str | None:
        """Of two runs: ``better``, ``worse``, ``equal`` or ``inconclusive``, the second compared with the first."""
        if self.sequential is not None:
            return None if self.sequential.reason is None else self.sequential.verdict
        if self.difference is None or self.no_verdict is not None:
            return None
        found, narrow = self.difference.interval, self.equivalence
        if found is not None and not found.low <= 0 <= found.high:
            return "better" if found.low > 0 else "worse"
        if self.delta is not None and narrow is not None and -self.delta <= narrow.low <= narrow.high <= self.delta:
            return "equal"
        return "inconclusive"

    @property
    def judges(self) -> tuple[JudgeCalibration, ...]:
        """Those of ``judged`` that have scores; none where people alone decide."""
        return tuple(judge for judge in self.judged if judge.metric != PEOPLE_ONLY)

    @property
    def conclusion(self) -> Conclusion:
        """Whether the judge can be used: of two runs, the weaker conclusion."""
        order = ("not_usable", "usable_with_correction", "usable")
        return min((judged.conclusion for judged in self.judged), key=lambda judged: order.index(judged.usability))

    def to_dict(self) -> dict[str, Any]:
        """The values as a JSON object."""
        bias = None if self.bias is None else _corrected_dict(self.bias)
        return {
            "schema": 1,
            "people": None if self.people is None else self.people.to_dict(),
            "judged": [judge.to_dict() for judge in self.judges],
            "difference": None if self.difference is None else _corrected_dict(self.difference),
            "bias": bias,
            "verdict": self.verdict,
            "no_verdict": self.no_verdict,
            "delta": self.delta,
            "sequential": None if self.sequential is None else self.sequential.to_dict(),
            "forecast": None if self.forecast is None else dict(self.forecast),
            "about": "these samples" if self.finite else "such samples",
            "conclusion": self.conclusion.to_dict() if self.judges else None,
            **({} if self.register is None else {"register": self.register.to_dict()}),
        }

    def blocks(self) -> list[Block]:
        """The whole report."""
        return report_blocks(self, shown=20)

    def to_text(self, *, shown: int = 20) -> str:
        """The report for a terminal, with up to ``shown`` disagreements."""
        return blocks_text(report_blocks(self, shown=shown))

    def to_markdown(self, *, shown: int = 20) -> str:
        """The report as Markdown, with model output escaped."""
        return blocks_markdown(report_blocks(self, shown=shown), level=2) + "\n"


def _corrected_dict(mean: CorrectedMean) -> dict[str, Any]:
    return {
        "value": mean.value,
        "interval": interval_ends(mean.interval),
        "weight": mean.weight,
        "cap": MAX_WEIGHT,
        "scores_mean": mean.scores_mean,
        "labels_mean": mean.labels_mean,
        "labels_interval": interval_ends(mean.labels_interval),
        "labelled": mean.labelled,
        "samples": mean.samples,
        "worth_labels": mean.worth,
    }


# --- the report as blocks, for a terminal or as Markdown -------------------------------------------------------------

_MAX_TEXT_CHARS = 100
"""Maximum length of a question, an answer or a rationale."""
_LEFT_OUT = {
    "other_run": "of other runs",
    "other_metric": "for other metrics",
    "by_model": "given by a model",
    "of_document": "of documents",
    "tuned": "that served to tune the prompt",
    "chosen": "of samples that a person picked",
    "tied": "evenly divided between annotators",
    "no_score": "of samples without a score",
    "unknown_sample": "of samples that the run does not have",
}

_CORRELATIONS = {
    "pearson": "correlation of score and label",
    "spearman": "correlation of their ranks",
    "kendall": "pairs in the same order (tau-b)",
}


def report_blocks(report: CalibrationReport, *, shown: int) -> list[Block]:
    """The whole report, with up to ``shown`` disagreements of each judge."""
    parts: list[Block] = []
    if report.people is not None:
        parts.append(Details("People with each other", agreement_blocks(report.people), is_open=True))
    for judge in report.judges:
        blocks = [*_judge(judge), *_disagreements(judge, shown)]
        parts.append(Details(f"{judge.conclusion.name} against people", blocks, is_open=True))
    parts.append(Details("What people would say of all answers", _corrected_table(report), is_open=True))
    if any(interval.flags for interval in _intervals(report)):
        parts.append(Prose(UNRELIABLE_NOTE))
    return [*parts, Prose(report.conclusion.sentence)] if report.judges else parts


def calibration_short(report: CalibrationReport, commands: Sequence[tuple[str, str]]) -> ShortForm:
    """The report in the short form: verdict and conclusion, corrected means, agreement, what speaks against them."""
    means = {judge.name: judge.corrected for judge in report.judged}
    if report.difference is not None:
        means[f"{report.judged[-1].name} - {report.judged[0].name}"] = report.difference
    columns = ("mean of", _number("judge alone"), _number("corrected by labels"), "95 % interval", "labels used")
    rows = [_short_mean(name, mean) for name, mean in means.items()]
    people = None if report.people is None else f"Krippendorff's alpha {_short_estimate(report.people.alpha)}"
    register = None if report.register is None else report.register.note
    notes: list[tuple[str, str | None]] = [
        *chain.from_iterable(_short_notes(judge) for judge in report.judges),
        ("people", people),
        ("flagged", UNRELIABLE_NOTE * any(interval.flags for interval in _intervals(report))),
        ("basis", _basis_text(report.judged)),
        ("bias", report.describe_bias(short=True)),
        ("looks", register),
    ]
    state = None if report.sequential is None else look_state(report.sequential)
    judged = [judge.conclusion.short_sentence for judge in report.judges if judge.conclusion == report.conclusion]
    conclusion = " ".join(text for text in (verdict_sentence(report), state, *judged[:1]) if text)
    shown = [0, *range(1 if report.judges else 2, len(columns))]  # people alone have no judge
    return ShortForm(conclusion, [select_columns(simple_table(columns, rows), shown)], notes=notes, commands=commands)


def _short_mean(name: str, mean: CorrectedMean) -> Row:
    ends = None if mean.interval is None else (mean.interval.low, mean.interval.high)
    numbers = [rounded(value, ends) for value in (mean.scores_mean, mean.value)]
    return [name, *numbers, rounded_interval(ends), f"{mean.labelled} of {mean.samples}"]


def _short_notes(judge: JudgeCalibration) -> Iterator[tuple[str, str]]:
    named = {
        "kappa": judge.kappa,
        "AUROC": judge.auroc,
        "right called right": judge.tpr,
        "wrong called wrong": judge.tnr,
    }
    yield "agreement", ", ".join(f"{name} {_short_estimate(value)}" for name, value in named.items())
    different = [row.sample_id for row in judge.disagreements]
    yield "disagree", f"on {len(different)} of {judge.labelled} answers: {first_names(different)}".removesuffix(": ")
    yield "left out", ", ".join(f"{count} {_LEFT_OUT[reason]}" for reason, count in judge.left_out.items())
    yield from (("note", note) for note in judge.notes if note != ASSUMED_NOTE)  # that is the basis


def _short_estimate(value: Estimate) -> str:
    ends = None if value.interval is None else (value.interval.low, value.interval.high)
    return f"{rounded(value.value, ends)} ({rounded_interval(ends)})".removesuffix(" ()")


def _number(title: str) -> TableColumn:
    return TableColumn(title, number=True)


def agreement_blocks(people: RatersReport, unit: str = "answers") -> list[Block]:
    """The agreement between annotators about answers, or about other units."""
    rows: list[Row] = [
        [f"{pair.first} and {pair.second}", str(pair.agreement.units), *_cells(pair.agreement), *_cells(pair.kappa)]
        for pair in people.pairs
    ]
    kappa = "kappa" if people.level == "nominal" else "kappa (quadratic)"
    columns: list[TableColumn | str] = [
        "annotators",
        _number(unit),
        _number("agreement"),
        "95 % interval",
        _number(kappa),
        "95 % interval",
    ]
    alpha = _line(f"Krippendorff's alpha of all {len(people.rated)} annotators ({people.level})", people.alpha)
    return [*([simple_table(columns, rows)] if rows else []), Prose(alpha)]


def _judge(judge: JudgeCalibration) -> list[Block]:
    side = "from" if judge.higher_is_better else "up to"
    how = "as given" if judge.threshold_given else "half way between worst and best; --threshold sets another"
    counts = judge.confusion
    verdicts = Prose(
        f"{judge.labelled} {plural(judge.labelled, 'labelled answer')}. "
        f"Right means a score {side} {format_value(judge.threshold)} ({how}). "
        f"Both say right {counts.true_positives}, both wrong {counts.true_negatives}, "
        f"only people say right {counts.false_negatives}, only the judge {counts.false_positives}."
    )
    named = [
        ("agreement", judge.agreement, "proportion of equal verdicts"),
        ("kappa", judge.kappa, "beyond chance (Cohen)"),
        ("alpha", judge.alpha, f"beyond chance (Krippendorff, {judge.alpha_level})"),
        ("AUROC", judge.auroc, "a right answer scores above a wrong one"),
        *((name.capitalize(), value, _CORRELATIONS[name]) for name, value in judge.correlations.items()),
        ("TPR", judge.tpr, "right answers called right"),
        ("TNR", judge.tnr, "wrong answers called wrong"),
        ("balanced accuracy", judge.balanced_accuracy, "mean of the two"),
        ("calibration error", judge.calibration_error, "scores as chances, bins of equal width"),
        ("", judge.calibration_error_equal_mass, "the same, bins of equal mass"),
        ("Brier score", judge.brier, "squared distance of score and label"),
    ]
    verdict_of_chances = []
    if judge.probabilities is not None:
        found = judge.probabilities
        named[-1] = ("Brier score", found.brier, "squared distance of score and label")
        named += [
            ("intercept", found.intercept, "of the labels on the logit of the scores; 0 if calibrated"),
            ("slope", found.slope, "of the same; 1 if calibrated, below it if overconfident"),
            ("debiased ECE", found.binned_error, "root mean square over bins of equal mass, without chance"),
        ]
        verdict_of_chances = [Prose(f"As probabilities the scores are: {_chance_sentence(found)}.")]
    rows: list[Row] = [[name, *_cells(value), value.why_undefined or what] for name, value, what in named]
    left_out = [f"{count} {_LEFT_OUT[reason]}" for reason, count in judge.left_out.items()]
    return [
        verdicts,
        simple_table(["measure", _number("value"), "95 % interval", "what it is"], rows),
        *verdict_of_chances,
        *([Prose(f"Labels left out: {', '.join(left_out)}.")] if left_out else []),
        *(Prose(f"Note: {note}.") for note in judge.notes),
    ]


def _chance_sentence(found: ProbabilityCalibration) -> str:
    """The verdict, with the bound that it follows from."""
    bound = "" if found.error.interval is None else format_value(found.error.interval.high)
    name = f"calibrated within {TOLERANCE:.2f}" if found.verdict == "calibrated" else found.verdict
    sentence = f"{name} (off by {bound} on average at most, at 95 %)"
    if found.gain is None:
        return sentence
    word = "narrower" if found.gain > 0 else "wider"
    return f"{sentence}; by these labels they make a corrected interval {abs(found.gain):.1%} {word} than yes or no"


def _disagreements(judge: JudgeCalibration, shown: int) -> list[Block]:
    if not judge.disagreements:
        return [Prose("The judge and people give the same verdict on every labelled answer.")]
    rows: list[Row] = [
        [
            row.sample_id,
            _label(row.label),
            format_value(row.score),
            *map(_shorten, (row.question, row.answer, row.rationale)),
        ]
        for row in judge.disagreements[:shown]
    ]
    columns: list[TableColumn | str] = [
        "sample",
        "people",
        _number("score"),
        "question",
        "answer",
        "why the judge said so",
    ]
    n = len(judge.disagreements)
    return [
        Prose(f"{n} {plural(n, 'answer')} that the judge and people see differently:"),
        without_empty_columns(simple_table(columns, rows)),
        *([Prose(f"... and {n - shown} more; --json has all")] if n > shown else []),
    ]


def _corrected_table(report: CalibrationReport) -> list[Block]:
    rows = [_mean_row(judge.name, judge.corrected) for judge in report.judged]
    columns: list[TableColumn | str] = [
        "mean of",
        _number("judge alone"),
        _number("labels alone"),
        "95 % interval",
        _number("corrected"),
        "95 % interval",
        "labels used",
    ]
    first, second = report.judged[0].name, report.judged[-1].name
    if report.difference is not None:
        rows.append(_mean_row(f"{second} - {first}", report.difference))
    about = "these answers and no others" if report.finite else "answers to such questions"
    chance = [judge.conclusion.p_chance >= CHANCE_P_VALUE for judge in report.judges]
    every = [(judge.corrected, alike) for judge, alike in zip(report.judges, chance, strict=True)]
    shown = [(report.difference, any(chance))] if report.difference else every
    basis = Prose(f"Intervals are about {about}; {_basis_text(report.judged)}.")
    if report.judges:
        parts: list[Block] = [simple_table(columns, rows), basis]
        parts += (Prose(_worth(mean, like_chance=alike)) for mean, alike in shown)
    else:
        notes = dict.fromkeys(chain.from_iterable(judge.notes for judge in report.judged))
        labels_only = simple_table(
            ["mean of", *columns[2:4], "labels used"], [[row[0], *row[2:4], row[6]] for row in rows]
        )
        parts = [labels_only, basis, *(Prose(f"Note: {note}.") for note in notes)]
    if report.sequential is not None:
        parts += look_blocks(report.sequential)
    if report.describe_bias() is not None:
        parts.append(Prose(f"Note: {report.describe_bias()}."))
    if (sentence := verdict_sentence(report)) is not None:
        parts.append(Prose(sentence))
    if report.register is not None and report.register.note is not None:
        parts.append(Prose(f"Note: {report.register.note}."))
    return parts


def verdict_sentence(report: CalibrationReport) -> str | None:
    """Of two runs: the verdict in one sentence, or why there is none."""
    first, second = report.judged[0].name, report.judged[-1].name
    if report.no_verdict is not None:
        return f"No verdict: {report.no_verdict}."
    if report.verdict == "equal":
        return f"By people, {second} and {first} are equal: they differ by less than {report.delta:g}."
    if report.verdict == "inconclusive":
        return f"Inconclusive: by people, {second} may be better than {first} or worse."
    return None if report.verdict is None else f"By people, {second} is {report.verdict} than {first}."


def look_blocks(result: SequentialResult) -> list[Block]:
    """The sequential test at each look, and where it stands."""
    columns: list[TableColumn | str] = [
        _number("look"),
        _number("samples"),
        _number("difference"),
        "repeated interval",
        _number("repeated p"),
        "verdict",
    ]
    rows: list[Row] = [
        [
            str(look.number),
            str(look.units),
            format_value(look.mean),
            f"{format_value(look.low)} – {format_value(look.high)}",
            f"{look.p_value:.3g}",
            look.verdict or "",
        ]
        for look in result.looks
    ]
    return [*([simple_table(columns, rows)] if rows else []), Prose(look_state(result))]


def look_state(result: SequentialResult) -> str:
    """Where a sequential test stands."""
    if result.reason == "futility":
        return f"Stopped for futility after {result.stopped_at} samples: a verdict has become improbable."
    if result.reason is not None:
        return f"Sequential test, ended after {result.stopped_at} samples; the first verdict stands."
    return f"Sequential test, no verdict so far: the next look is at {result.next_look} samples."


def _basis_text(judged: Sequence[JudgeCalibration]) -> str:
    bases = {mean.basis for mean in judged}
    if "assumed_random" in bases:
        return ASSUMED_NOTE
    return "all answers are labelled" if bases == {"census"} else "the labelled ones were drawn at random"


def _mean_row(name: str, mean: CorrectedMean) -> Row:
    used = f"{mean.labelled} of {mean.samples}"
    alone = [format_value(mean.scores_mean), format_value(mean.labels_mean), _interval_text(mean.labels_interval)]
    return [name, *alone, format_value(mean.value), _interval_text(mean.interval), used]


def _worth(mean: CorrectedMean, *, like_chance: bool) -> str:
    if like_chance:
        return "The labels stand alone: the judge is not shown to be better than chance, so that it corrects nothing."
    if not mean.weight or mean.worth is None:
        return "The labels stand alone: the scores do not make the interval narrower."
    return (
        f"With the scores (weight {mean.weight:.2f}) the {mean.labelled} labels tell as much as "
        f"{mean.worth:.0f} would without."
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
    ends = f"{format_value(interval.low)} – {format_value(interval.high)}"
    return f"{ends} ?" if interval.flags else ends  # it may be too narrow


def _label(value: float) -> str:
    return {0.0: "wrong", 1.0: "right"}.get(value, format_value(value))


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_TEXT_CHARS else f"{line[: _MAX_TEXT_CHARS - 1]}…"


def _intervals(report: CalibrationReport) -> list[Interval]:
    """Every interval that is shown."""
    measured: list[Estimate | CorrectedMean] = []
    if report.people is not None:
        measured.append(report.people.alpha)
        for pair in report.people.pairs:
            measured += pair.agreement, pair.kappa
    means = [judge.corrected for judge in report.judged]
    if report.difference is not None:
        means.append(report.difference)
    for judge in report.judged:
        measured += [getattr(judge, name) for name in _MEASURES]
        measured += judge.correlations.values()
    found = [estimate.interval for estimate in (*measured, *means)] + [mean.labels_interval for mean in means]
    return [interval for interval in found if interval is not None]
