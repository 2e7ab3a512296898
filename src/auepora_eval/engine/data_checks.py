"""Warnings about data and scores, and detection of evaluations that failed as a whole."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np

from ..core.batch import failure_reason
from ..core.metrics_base import BatchMetric, Metric
from ..core.registry import find_metric
from ..core.results import Results, controls_warnings
from ..core.scores import Scores, Status
from ..core.types import EvaluationSample, MetricResult, SystemOutputs, TargetCategory

_SAMPLES_COMPARED = 1000
"""Number of samples whose ids are compared."""
_IDS_COMPARED = 20
"""Number of ids per sample that are searched for prefixes."""
_MIN_EQUAL_SCORES, _MIN_LOWEST_SCORES = 5, 2
"""From this number on, equal scores of a judge, and scores at the bottom of the scale, are suspicious."""
_HIT_METRICS = {"f1", "hit_rate", "map", "mrr", "ndcg", "precision", "r_precision", "recall"}
"""Metrics that are 0 where nothing relevant was returned within their cut-off, and only there."""
NO_HIT = (
    "no gold document was retrieved; see how gold was matched: do both files name documents in the same way, and does "
    "any judgement reach the level that counts as relevant?"
)
_NUMBER = re.compile(r"\s*0*(\d+)(\.0+)?\s*")


def no_hit_warning(results: Sequence[MetricResult]) -> str | None:
    """A warning where every hit-based metric is 0: gold and outputs often use different document ids."""
    values = [
        result.value
        for result in results
        if (result.signature or "").partition("|")[0].partition("@")[0] in _HIT_METRICS
        and result.details.num_samples > result.details.num_system_failed
    ]
    return None if not values or any(values) else NO_HIT


def _as_number(doc_id: str) -> str:
    found = _NUMBER.fullmatch(doc_id)
    return doc_id if found is None else found[1]


_ID_TRANSFORMS: dict[str, tuple[Callable[[str], str], str, str]] = {
    "case": (str.casefold, "if upper and lower case are ignored", "doc_id.lower()"),
    "type": (_as_number, "if ids are compared as numbers", "str(int(float(doc_id)))"),
}
"""How ids may differ: the function that makes them equal, its description, and the mapping to suggest."""


class IdCheck:
    """Compares the retrieved ids of samples with their gold: equal, or equal but for case, type or a prefix."""

    def __init__(self) -> None:
        self._compared = self._equal = 0
        self._counts: Counter[tuple[str, str]] = Counter()
        self._examples: dict[tuple[str, str], tuple[str, str]] = {}

    @property
    def is_open(self) -> bool:
        """Whether further samples are compared."""
        return self._compared < _SAMPLES_COMPARED

    def add(self, gold: Collection[str], retrieved: Sequence[str]) -> None:
        """Compare the ids of one sample."""
        if not self.is_open or not gold or not retrieved:
            return
        self._compared += 1
        if not set(gold).isdisjoint(retrieved):
            self._equal += 1
            return
        matches: dict[tuple[str, str], tuple[str, str]] = {}
        for transform, (changed, _, _) in _ID_TRANSFORMS.items():
            known = {changed(doc_id): doc_id for doc_id in gold}
            hit = next((document for document in retrieved if changed(document) in known), None)
            if hit is not None:
                matches[transform, ""] = hit, known[changed(hit)]
        for hit in retrieved[:_IDS_COMPARED]:
            for doc_id in list(gold)[:_IDS_COMPARED]:
                if hit.endswith(doc_id):
                    matches["retrieved", hit.removesuffix(doc_id)] = hit, doc_id
                elif doc_id.endswith(hit):
                    matches["gold", doc_id.removesuffix(hit)] = hit, doc_id
        self._counts.update(matches.keys())
        self._examples = matches | self._examples

    def warning(self) -> str | None:
        """A warning that suggests a mapping of ids, where many samples have a hit only with it."""
        for transform, prefix in sorted(
            self._counts, key=lambda key: (key[0] not in _ID_TRANSFORMS, -self._counts[key], key)
        ):
            count = self._counts[transform, prefix]
            if transform in _ID_TRANSFORMS:
                enough = count * 10 >= self._compared
                _, how, mapping = _ID_TRANSFORMS[transform]
            else:  # an id may end like another by chance
                enough = not self._equal and count * 2 >= self._compared
                how = f"without the prefix {prefix!r} of the {transform} ids"
                mapping = f"doc_id.removeprefix({prefix!r})"
            if enough:
                hit, gold = self._examples[transform, prefix]
                return (
                    f"{count} of {self._compared} samples have a hit only {how}, such as {hit!r} for the gold id "
                    f"{gold!r}; map the ids before scoring, for example with {mapping}"
                )
        return None


class DataCheck:
    """Collects statistics of samples and outputs, and adds warnings about them and their scores to the results."""

    def __init__(self) -> None:
        self.num_answers = 0
        self.num_empty = 0
        """Empty answers of outputs without ``refused``."""
        self._ids = IdCheck()

    def add(self, samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs | None]) -> None:
        """Add aligned samples and outputs; malformed ones are ignored here and reported when scored."""
        try:
            answered = [
                (sample, output)
                for sample, output in zip(samples, outputs, strict=True)
                if output is not None and output.error is None
            ]
            answers = [(output.response.text, output.refused) for _, output in answered if output.response is not None]
            self.num_answers += len(answers)
            self.num_empty += sum(refused is None and not text.strip() for text, refused in answers)
            for sample, output in answered if self._ids.is_open else ():
                if sample.relevant_docs:
                    gold = [document.doc_id for document in sample.relevant_docs]
                    self._ids.add(gold, [item.doc.doc_id for item in output.retrieved])
        except (AttributeError, TypeError):
            return

    def finish(self, metrics: Sequence[Metric], results: Results) -> None:
        """Add the warnings to the results, and the number of empty answers to the details of abstention metrics."""
        by_name = {metric.name: metric for metric in metrics}
        many = self.num_empty * 10 > self.num_answers
        abstention = [result for result in results if result.target is TargetCategory.NEGATIVE_REJECTION]
        for result in abstention if many else ():
            result.details.num_answers = self.num_answers
            result.details.num_empty_answers = self.num_empty
        empty = f"{self.num_empty} of {self.num_answers} answers are empty"
        if abstention:
            empty += "; abstention metrics count an empty answer as a refusal"
        judged = [_judge_warning(by_name[result.name], result) for result in results if result.name in by_name]
        by_id = all(metric.active_conventions.match == "id" for metric in metrics if isinstance(metric, BatchMetric))
        ids = self._ids.warning() if by_id else None
        messages: list[str | None] = [no_hit_warning(results), ids, empty if many else None, *judged]
        messages += chain.from_iterable(map(controls_warnings, results))
        results.warnings = list(filter(None, messages))


def _judge_warning(metric: Metric, result: MetricResult) -> str | None:
    if not isinstance(metric, BatchMetric) or not metric.metadata.calls_judge or not isinstance(result.scores, Scores):
        return None
    values = result.scores.values[result.scores.status == Status.SCORED]
    if len(values) < _MIN_LOWEST_SCORES or not np.all(values == values[0]):
        return None
    scale: Any = getattr(metric, "rating_scale", None)
    classes = getattr(scale, "labels", ())  # not mistaken for another scale
    if scale is not None and not classes and values[0] == metric.range[0]:
        return (
            f"all {len(values)} scores of {result.name} are at the bottom of the scale {scale}; the critic may use "
            "another scale"
        )
    is_absent_class = bool(getattr(scale, "only", "")) and values[0] == 0
    if len(values) < _MIN_EQUAL_SCORES or is_absent_class:
        return None
    return f"all {len(values)} scores of {result.name} are {values[0]:g}; the judge may not tell answers apart"


# --- evaluations that failed as a whole: most samples without an answer, or no usable judgement ----------------------

_LONGEST_EXAMPLE = 300
_ERRORS_READ = 10_000
"""Number of error messages searched for an example of the main reason."""


def mass_failure(results: Sequence[MetricResult], errors: Iterable[str] = ()) -> str | None:
    """Why an evaluation failed as a whole, in one line; ``None`` where it did not.

    It failed where more than half of the samples are system failures, or where a metric with a judge has no scored
    sample. A sample that no metric applies to is not counted. ``errors`` are error messages of outputs, of which the
    first with the main reason is quoted.
    """
    return "; ".join(filter(None, [_system_failures(results, errors), *map(_judge_failure, results)])) or None


def _system_failures(results: Sequence[MetricResult], errors: Iterable[str]) -> str | None:
    failed, total, reasons = count_system_failures(results)
    if not total or failed * 2 <= total:
        return None
    listed = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common(3))
    asked = max(result.details.num_outcomes for result in results)
    counted = f"{total} samples" if asked <= total else f"the {total} samples that a metric applies to, of {asked},"
    problem = f"{failed} of {counted} are system failures ({listed})"
    main = reasons.most_common(1)[0][0]
    example = next((message for message in islice(errors, _ERRORS_READ) if failure_reason(message) == main), None)
    return problem if example is None else f"{problem}, such as: {_one_line(example)}"


def count_system_failures(results: Sequence[MetricResult]) -> tuple[int, int, Counter[str]]:
    """Number of system failures, number of samples that some metric applies to, and the reasons of the failures."""
    scored = [result.scores for result in results if isinstance(result.scores, Scores)]
    if not scored or len({len(scores) for scores in scored}) > 1:
        return _count_from_details(results)
    failed, applies = np.zeros((2, len(scored[0])), dtype=np.bool_)
    reasons: Counter[str] = Counter()
    for scores in scored:
        fresh = (scores.status == Status.SYSTEM_FAILED) & ~failed
        reasons.update(scores.reason_names[code] for code in scores.reason_codes[fresh])
        failed |= fresh
        applies |= scores.status != Status.SKIPPED
    return int(failed.sum()), int(applies.sum()), reasons


def _count_from_details(results: Sequence[MetricResult]) -> tuple[int, int, Counter[str]]:
    """The same where no scores are kept: from the metric that applies to most samples."""
    most: tuple[int, int, Counter[str]] = (0, 0, Counter())
    for result in results:
        details = result.details
        total = details.num_scored + details.num_failed
        if total > most[1]:
            most = details.num_system_failed, total, Counter(details.reasons("failed"))
    return most


def _judge_failure(result: MetricResult) -> str | None:
    details = result.details
    if details.num_scored or not details.counts_outcomes or not _asks_a_judge(result):
        return None
    how = "failed" if details.num_failed else "skipped"
    reasons = [f"{reason} {count}" for reason, count in details.reasons(how).items()]
    return f"{result.name} has no scored sample ({how}: {', '.join(reasons) or 'all'})"


def _asks_a_judge(result: MetricResult) -> bool:
    if result.details.judging:
        return True
    info = find_metric((result.signature or "").partition("|")[0].partition("@")[0])
    return info is not None and issubclass(info.cls, BatchMetric) and info.cls.metadata.calls_judge


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_EXAMPLE else line[:_LONGEST_EXAMPLE] + "..."
