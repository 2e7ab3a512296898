"""Detects evaluations that failed as a whole: most samples without an answer, or no usable judgement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np

from .batch import failure_reason
from .judged_metric import JudgedMetric
from .registry import metric_infos
from .scores import Scores, Status
from .types import MetricResult

__all__ = ["mass_failure"]

_LONGEST_EXAMPLE = 300
_ERRORS_READ = 10_000
"""Number of error messages searched for an example of the main reason."""


def mass_failure(results: Sequence[MetricResult], errors: Iterable[str] = ()) -> str | None:
    """Why an evaluation failed as a whole, in one line; ``None`` where it did not.

    It failed where more than half of the samples are system failures, or where a metric with a judge has no scored
    sample. A sample that no metric applies to is not counted. ``errors`` are error messages of outputs, of which the
    first with the main reason is quoted.
    """
    problems = [_system_failures(results, errors), *map(_judge_failure, results)]
    return "; ".join(filter(None, problems)) or None


def _system_failures(results: Sequence[MetricResult], errors: Iterable[str]) -> str | None:
    failed, total, reasons = _count_samples(results)
    if not total or failed * 2 <= total:
        return None
    listed = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common(3))
    problem = f"{failed} of {total} samples are system failures ({listed})"
    main = reasons.most_common(1)[0][0]
    example = next((one for one in islice(errors, _ERRORS_READ) if failure_reason(one) == main), None)
    return problem if example is None else f"{problem}, such as: {_one_line(example)}"


def _count_samples(results: Sequence[MetricResult]) -> tuple[int, int, Counter[str]]:
    """Number of system failures, number of samples that some metric applies to, and the reasons of the failures."""
    scored = [one.scores for one in results if isinstance(one.scores, Scores)]
    if not scored or len({len(one) for one in scored}) > 1:
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
        total = details.get("num_scored", 0) + details.get("num_failed", 0)
        if total > most[1]:
            keys = [key for key in details if key.startswith("failed_")]
            reasons = Counter({key.removeprefix("failed_"): int(details[key]) for key in keys})
            most = int(details["num_system_failed"]), total, reasons
    return most


def _judge_failure(result: MetricResult) -> str | None:
    if result.details.get("num_scored", 1) or not _asks_a_judge(result):
        return None
    details = result.details
    prefixes = ("failed_",) if details["num_failed"] else ("skipped_",)
    reasons = [f"{key.partition('_')[2]} {count}" for key, count in details.items() if key.startswith(prefixes)]
    how = "failed" if details["num_failed"] else "skipped"
    return f"{result.name} has no scored sample ({how}: {', '.join(reasons) or 'all'})"


def _asks_a_judge(result: MetricResult) -> bool:
    if "judging" in result.details:
        return True
    info = metric_infos().get((result.signature or "").partition("|")[0].partition("@")[0])
    return info is not None and issubclass(info.cls, JudgedMetric)


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_EXAMPLE else line[:_LONGEST_EXAMPLE] + "..."
