"""Results: a list of ``MetricResult`` with access by name and export to JSON, Markdown and data frames."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from itertools import chain
from typing import Any, cast

from ..errors import BadValueError, UnknownMetricError
from .details import RepeatDetails, ResultDetails
from .types import EvaluationSample, FrameKind, MetricResult, QueryTexts, SystemOutputs

# --- results: a list of ``MetricResult`` with access by name and export to JSON, Markdown and data frames ------------

SCHEMA = 1
NOTEBOOK_HTML = "auepora_eval.render.html"
"""The module that renders results for notebooks; imported only when one is shown."""


def query_texts(samples: Iterable[EvaluationSample], outputs: Iterable[SystemOutputs | None]) -> list[QueryTexts]:
    """The question and the answer of each sample."""
    return [
        (sample.query, None if output is None or output.response is None else output.response.text)
        for sample, output in zip(samples, outputs, strict=True)
    ]


class _ByName(dict[str, MetricResult]):
    """Results by name; an unknown name raises an error with a suggestion."""

    def __missing__(self, name: str) -> MetricResult:
        raise UnknownMetricError(name, self)


class Results(list[MetricResult]):
    """The results of one evaluation, in plan order, with the ids of the samples behind them.

    Example:
        >>> results = evaluate(samples, outputs, ["recall@1", "token_f1"])
        >>> results.by_name["recall@1"].value, len(results.to_dict()["results"])
        (0.5, 2)
    """

    def __init__(
        self, results: Sequence[MetricResult] = (), *, sample_ids: Sequence[str] = (), run_id: str | None = None
    ) -> None:
        super().__init__(results)
        self.sample_ids = sample_ids
        self.run_id = run_id
        self.texts: Sequence[QueryTexts] = ()
        """The question and the answer of each sample, for frames; empty if they are not in memory."""
        self.failed_outputs = 0
        """How many outputs that were scored have an error, whatever the metrics apply to; of the last repeat."""
        self.failure: str | None = None
        """Why the evaluation failed as a whole: most samples have no answer, or there is no usable judgement."""
        self.warnings: list[str] = []
        """Warnings about data and scores: ids that never match, many empty answers, ..."""
        self.gold_match: dict[str, Any] | None = None
        """How gold was matched, the counts that decided, and a sentence; ``None`` where it was by id as usual."""

    @property
    def by_name(self) -> dict[str, MetricResult]:
        """The results by the name of their metric: ``results.by_name["recall@5"].value``."""
        return _ByName({result.name: result for result in self})

    def __str__(self) -> str:
        return self.to_markdown()

    def to_text(self) -> str:
        """The same table as ``print`` shows."""
        return self.to_markdown()

    def to_dict(self, *, per_query: bool = False) -> dict[str, Any]:
        """The results document (schema 1). What is not defined is ``None``, never a number."""
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "run_id": self.run_id,
            "results": [
                {
                    "name": result.name,
                    "target": result.target.name,
                    "value": result.known_value,
                    "interval": None if result.interval is None else list(result.interval),
                    "signature": result.signature,
                    "details": to_json_value(result.details),
                    "slices": {
                        name: {group: _group_to_dict(inner) for group, inner in groups.items()}
                        for name, groups in result.slices.items()
                    },
                }
                for result in self
            ],
        }
        if self.failure is not None:
            document["failure"] = self.failure
        if self.warnings:
            document["warnings"] = self.warnings
        if self.gold_match is not None:
            document["gold_match"] = self.gold_match
        if per_query:
            document["per_query"] = self.per_query()
        return document

    def per_query(self) -> list[dict[str, Any]]:
        """Per sample its id, its score by metric, and the outcomes that are not simply scored."""
        scored = [result for result in self if result.scores is not None]
        columns = {result.name: list(result.scores or ()) for result in scored}
        outcomes = {result.name: list(result.outcomes or ()) for result in scored}
        return [
            {
                "sample_id": sample_id,
                "scores": {name: column[row] for name, column in columns.items()},
                "outcomes": {name: texts[row] for name, texts in outcomes.items() if texts and texts[row] != "scored"},
            }
            for row, sample_id in enumerate(self.sample_ids)
        ]

    def to_json(self, *, per_query: bool = False, indent: int | None = 2) -> str:
        """The results document as JSON text."""
        return json.dumps(self.to_dict(per_query=per_query), indent=indent, ensure_ascii=False, allow_nan=False)

    def to_markdown(self) -> str:
        """A Markdown table, with a coverage column where not every sample was scored."""
        return results_to_markdown(self)

    def _repr_html_(self) -> str:
        """What a notebook shows: a table by target, and a chart of the values with their intervals."""
        return cast("str", import_module(NOTEBOOK_HTML).results_html(self))

    def to_frame(self, kind: FrameKind = "pandas", *, per_query: bool = False, slices: bool = False) -> Any:
        """A frame of pandas, polars or Arrow, whichever is asked for and installed.

        One row per metric: value, interval, how many samples it is a mean of and coverage, signature.
        ``slices`` adds a row per group of every slice. With ``per_query`` one row per sample instead: the question
        and the answer where they are known, and per metric a column with its score and one called
        ``<metric>.outcome``. What is not defined is null, never a number.
        """
        if per_query and slices:
            raise BadValueError("to_frame: slices are of metrics, not of samples; leave out per_query or slices")
        from .frames import make_frame, metric_columns, sample_columns

        if per_query:
            return make_frame(sample_columns(self, self.sample_ids, self.texts), kind)
        return make_frame(metric_columns(self, slices=slices), kind)


def _group_to_dict(result: Any) -> Any:
    """One group of a slice: as a result, without what is the same for all groups."""
    if not isinstance(result, MetricResult):
        return to_json_value(result)
    return {
        "value": result.known_value,
        "interval": None if result.interval is None else list(result.interval),
        "details": to_json_value(result.details),
    }


def to_json_value(value: Any) -> Any:
    """A value of ``details`` converted for JSON; NaN and infinity become ``None``."""
    if isinstance(value, Mapping):
        return {str(key): to_json_value(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json_value(inner) for inner in value]
    if hasattr(value, "tolist"):  # numpy's scalars and arrays
        return to_json_value(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def results_to_dict(results: Sequence[MetricResult]) -> dict[str, dict[str, float | None]]:
    """The values by target and metric name: ``{"RETRIEVAL_RELEVANCE": {"recall@5": 0.83}}``; undefined is ``None``."""
    grouped: dict[str, dict[str, float | None]] = {}
    for result in results:
        grouped.setdefault(result.target.name, {})[result.name] = result.known_value
    return grouped


def results_to_markdown(results: Sequence[MetricResult]) -> str:
    """A Markdown table; a fourth column shows the coverage where any sample was not scored."""
    notes = []
    for result in results:
        parts = [coverage, chance_note, judged_coverage, panel_note, empty_answers]
        notes.append("; ".join(filter(None, [part(result) for part in parts])))
    with_coverage = any(notes)
    lines = ["| Target | Metric | Value |", "|--------|--------|-------|"]
    if with_coverage:
        lines = [f"{lines[0]} Mean of |", f"{lines[1]}---------|"]
    for result, note in zip(results, notes, strict=True):
        value = f"{result.value:.4f}" if result.defined else "n/a"
        line = f"| {result.target.name} | {_cell(display_name(result, unit=False))} | {value} |"
        lines.append(f"{line} {_cell(note) or 'all'} |" if with_coverage else line)
    return "\n".join(lines)


def _cell(name: str) -> str:
    """A name or note escaped for a table cell."""
    return " ".join(name.split()).replace("|", "\\|").replace("<", "&lt;")


UNITS = {
    "mean_latency": "s",
    "quantile_latency": "s",
    "throughput": "answers/s",
    "time_to_first_token": "s",
    "total_cost": "per answer",
    "prompt_tokens": "per answer",
    "completion_tokens": "per answer",
    "context_tokens": "per answer",
}
"""The units of metrics that are no proportions, by registered name; a unit that is an option is in the signature."""


def display_name(result: MetricResult, *, unit: bool = True) -> str:
    """The name for a table.

    It marks mean probabilities, average precision over hits, which differs from the usual one, answer relevance as
    word overlap with the question, and names the inner metric of a metric over another one, and the ``unit`` of a
    value that has one.
    """
    signature = result.signature or ""
    if registered_name(result) == "answer_relevance":
        return f"{result.name} (word overlap)"
    if result.details.judge.get("mean_probability"):
        return f"{result.name} (mean probability)"
    if "|ap:hits|" in signature:
        return f"{result.name} (over hits)"
    if unit and (name := registered_name(result).partition("[")[0]) in UNITS:
        return f"{result.name} ({UNITS[name]})"
    base = re.search(r"\|(?:base|similarity|unit):([^|]*)\|", signature)
    hits = " over hits" if "|base.ap:hits|" in signature else ""
    return result.name if base is None or base[1] in result.name else f"{result.name} ({base[1]}{hits})"


def metric_labels(*listed: Iterable[MetricResult]) -> dict[str, str]:
    """The name of each metric of some results for display, by its name."""
    return {result.name: display_name(result) for result in chain(*listed)}


def registered_name(result: MetricResult) -> str:
    """The registered name of the metric, without alias and cut-off."""
    return (result.signature or result.name).partition("|")[0].partition("@")[0]


def system_cost(results: Iterable[MetricResult]) -> float | None:
    """What all answers of a run cost, those of every repeat; ``None`` where that is not known."""
    for result in results:
        details = result.details
        if registered_name(result) == "total_cost" and result.defined and details.total is not None:
            return details.total * details.repeats.count
    return None


def coverage(result: MetricResult) -> str:
    """What the value is a mean of, where that is not simply all: ``9 of 10; 1 failed, counted worst (timeout)``.

    Failures that count are distinguished from samples that are left out. With several repeats failed calls are
    reported as well: ``18 calls, 4 failed, counted worst (timeout)``.
    """
    return "; ".join(filter(None, [_sample_coverage(result.details), _call_coverage(result.details.repeats)]))


def judged_coverage(result: MetricResult) -> str:
    """How far the judgements behind a value go: the proportion of retrieved documents that are judged, where the gold
    has known annotators, and the residual of rank-biased precision; and whether the gold was corrected.

    ``judged 83 % of top 10; gold by model 120, human 14``, ``residual 0.0512 (unjudged)``
    """
    details = result.details
    if partial := details.partial_grades:
        return f"corrected: people graded {partial['graded']:,} of {partial['pairs']:,} pairs"
    notes = [corrections_note(result)]
    if details.residual is not None and registered_name(result) == "rbp":
        notes.append(f"residual {details.residual:.4f} (unjudged)")
    if details.gold_by is not None:
        within = "all returned" if details.judged_depth is None else f"top {details.judged_depth}"
        judged = "nothing" if details.judged is None else _percent(details.judged)
        notes.append(f"judged {judged} of {within}")
        annotators = ", ".join(f"{by} {count}" for by, count in details.gold_by.items())
        notes.append(f"gold by {annotators}" if annotators else "")
    return "; ".join(filter(None, notes))


def chance_note(result: MetricResult) -> str:
    """The chance level of a number for which gold is matched by document: ``chance level 0.12``."""
    chance = result.details.chance
    return "" if chance is None else f"chance level {chance:.2f}"


def script_note(results: Iterable[MetricResult]) -> str:
    """How many samples were cut into characters, in a sentence; empty where none was."""
    for result in results:
        cut = result.details.tokenizer
        if cut:
            total = cut["words"] + cut["char"]
            return f"{cut['char']} of {total} samples are in a script without spaces: their tokens are characters"
    return ""


def corrections_note(result: MetricResult) -> str:
    """The number of gold corrections behind a value, and the value without them."""
    corrections = result.details.corrections
    if not corrections:
        return ""
    before = corrections.get("value_before")
    count = corrections["count"]
    value = "no value" if before is None else f"{before:.4f}"
    return f"{count} gold correction{'s' if count != 1 else ''} ({value} without)"


def empty_answers(result: MetricResult) -> str:
    """The number of empty answers of an abstention metric, where there are many: ``6 of 40 answers are empty``."""
    details = result.details
    return (
        f"{details.num_empty_answers} of {details.num_answers} answers are empty" if details.num_empty_answers else ""
    )


def panel_note(result: MetricResult) -> str:
    """The agreement among the judges of a panel, the mean of each, and how often one failed.

    ``3 judges agree on 86 % (alpha 0.71): a 0.8125, b 0.7900 (2 failed), c 0.8000``
    """
    panel = result.details.panel
    if not panel.get("members"):
        return ""
    agreement, alpha = panel.get("agreement"), panel.get("alpha")
    members = []
    for name, member in panel["members"].items():
        mean = "n/a" if member.get("mean") is None else f"{member['mean']:.4f}"
        failed = f" ({member['failed']} failed)" if member.get("failed") else ""
        members.append(f"{name} {mean}{failed}")
    agreed = "" if agreement is None else f" agree on {_percent(agreement)}"
    chance = "" if alpha is None else f" (alpha {alpha:.2f})"
    return f"{len(members)} judges{agreed}{chance}: {', '.join(members)}"


# --- sequential tests: the stored looks of a metric that was judged until a verdict ----------------------------------


CLAIM_ALL = "the claim is about all metrics of the sequential test together, not about one of them"


def sequential_details(result: MetricResult) -> Mapping[str, Any] | None:
    """The stored sequential test of a metric: its design, looks and verdict; ``None`` if there is none."""
    found = result.details.sequential
    return found if found.get("design") else None


def deciding_look(sequential: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The look at which a sequential test stopped, else the latest one; ``None`` before the first look."""
    path = sequential.get("path") or ()
    decided = [look for look in path if look["units"] == sequential.get("stopped_at")]
    return next(iter(decided), path[-1] if path else None)


def sequential_note(test: Mapping[str, Any]) -> str:
    """How far a metric was judged until a verdict.

    ``sequential: stopped at look 7 of 20, 175 of 500 judged, 325 calls saved``
    """
    look, looks, reason = deciding_look(test), len(test["design"]["looks"]), test.get("reason")
    place = "no look yet" if look is None else f"look {look['number']} of {looks}"
    how = {"boundary": "stopped at", "futility": "stopped for futility at", "end": "ended at"}.get(reason or "", "")
    samples = test.get("samples", test["design"]["n"])
    parts = [f"{how} {place}" if how else f"no verdict yet, {place}", f"{test.get('judged', 0)} of {samples} judged"]
    parts += [f"{test['calls_saved']} calls saved"] if test.get("calls_saved") else []
    parts += [f"{test['failed']} judgements failed"] if test.get("failed") else []
    parts += [f"{test['known_before']} units known before the first look"] if test.get("known_before") else []
    parts += ["continued after the stop, and the first verdict stands"] if test.get("continued") else []
    parts += ["skewed differences, so that bets must agree with a verdict"] if look and look.get("skewed") else []
    return f"sequential: {', '.join(parts)}"


def two_stage_details(result: MetricResult) -> Mapping[str, Any] | None:
    """What is stored of two-stage judging of a metric; ``None`` if there is none, or if it has not ended."""
    found = result.details.two_stage
    return found if "target" in found else None


def two_stage_note(stage: Mapping[str, Any]) -> str:
    """How many samples the expensive judge scored: ``two-stage: 'large' judged 300 of 2,000 samples``."""
    failed = f", {stage['failed']} drawn ones without a usable judgement" if stage["failed"] else ""
    return (
        f"two-stage: '{stage['expensive']['judge']}' judged {stage['judged']:,} of {stage['samples']:,} samples{failed}"
    )


def controls_warnings(result: MetricResult) -> list[str]:
    """What the control items of a judge show against it, and which items could not be built."""
    controls = result.details.controls
    found = []
    if controls.usable is False:
        errors = controls["false_accepts"]
        low, high = errors["interval"]
        found.append(
            f"the judge of {result.name} is not usable: it accepts {errors['errors']} of {errors['n']} control items "
            f"that it must reject ({_percent(errors['rate'])}, 95 % interval {_percent(low)} to {_percent(high)}; the "
            f"limit is {_percent(controls['limit'])})"
        )
    if controls.num_failed:
        found.append(f"{controls.num_failed} of {controls.num_items} control items of {result.name} were not judged")
    for kind, why in controls.unavailable.items():
        what = "control items" if kind == "all" else f"control items '{kind}'"
        found.append(f"{what} of {result.name}: {why}")
    return found


def unusable_judges(results: Iterable[MetricResult]) -> dict[str, str]:
    """By metric what control items show against its judge, where it is not usable."""
    unusable = [result for result in results if result.details.controls.usable is False]
    return {result.name: controls_warnings(result)[0] for result in unusable}


def _percent(share: float) -> str:
    """A percentage; one that rounds to 0 or 100 without being it is shown as under 1 % or over 99 %."""
    whole = round(100 * share)
    if whole == 100 and share < 1:
        return "over 99 %"
    return "under 1 %" if whole == 0 and share > 0 else f"{whole} %"


def _sample_coverage(details: ResultDetails) -> str:
    skipped = details.reasons("skipped")
    failed = details.reasons("failed")
    if not (skipped or failed) or not details.counts_outcomes:
        return ""
    parts = [f"{details.num_samples} of {details.num_outcomes}"]
    if failed:
        parts.append(_failed_text(failed, details.num_failed, counted=details.counts_failures))
    if skipped:
        parts.append(f"{details.num_skipped} skipped{_reasons_text(skipped)}")
    return "; ".join(parts)


def _call_coverage(repeats: RepeatDetails) -> str:
    """The number of failed calls; a sample fails only where all its repeats do, so that it is not visible there."""
    if repeats.count < 2 or not repeats.num_failed:
        return ""
    counted = repeats.num_counted > repeats.num_calls - repeats.num_failed
    failed = _failed_text(repeats.reasons("failed"), repeats.num_failed, counted=counted)
    return f"{repeats.num_calls} calls, {failed}"


def _failed_text(reasons: dict[str, int], failed: int, *, counted: bool) -> str:
    """Missing outputs and failures apart: ``1 missing, 2 failed, counted worst (timeout)``."""
    missing = reasons.pop("missing_output", 0)
    parts = [f"{missing} missing"] * (missing > 0) + [f"{failed - missing} failed"] * (failed > missing)
    parts.append("counted worst" if counted else "left out")
    return ", ".join(parts) + _reasons_text(reasons)


def _reasons_text(reasons: Mapping[str, int]) -> str:
    """The reasons in parentheses, with their counts if there are several."""
    if not reasons:
        return ""
    if len(reasons) == 1:
        return f" ({next(iter(reasons))})"
    return f" ({', '.join(f'{reason} {count}' for reason, count in reasons.items())})"
