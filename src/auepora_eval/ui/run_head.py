"""The head of the page of a run: what is wrong, by which threshold, the metrics that matter most, and the causes."""

from __future__ import annotations

from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.conventions import Signature
from ..core.results import display_name
from ..core.scores import Scores
from ..core.types import MetricResult
from ..errors import BadValueError
from ..queries.filters import CAUSE_GROUPS, Condition
from ..render.html import percentage, pluralize
from ..report.pages import run_notes, run_verdict
from ..report.run_sections import CAUSES, GateCheck, StoredRun, wrong_answer_causes
from ..stats.intervals import Floats
from .query_list import query_table
from .run_rows import condition_link
from .workbench import Workbench

# --- the causes of wrong answers, as one bar -------------------------------------------------------------------------

CAUSE_NAMES = {"below-cut": "below the cut", "failed": "system failed"}
"""Names of parts of the bar that differ from the words of the condition ``cause``."""
DROPPED = "a step of the system returned a relevant document, but the final ranking has none"
SHORT_WORDS = {
    "retriever": "no gold returned",
    "dropped": "gold found and dropped",
    "below-cut": "gold below the cut-off",
    "generator": "gold in the context, answer wrong",
    "refused": "declined despite gold",
    "failed": "no answer",
}
LEADING_WORDS = {
    "retriever": ("because no gold document was returned", "the retriever"),
    "dropped": ("because a step of the system dropped the gold documents it had found", "the step after retrieval"),
    "below-cut": ("because the gold document was ranked too low", "the ranking"),
    "generator": ("although a gold document was in the context", "the generator"),
    "refused": ("because the system declined to answer although it had a gold document", "the rule for refusals"),
    "failed": ("because the system failed", "the failing system"),
}
"""By the leading cause, why answers are wrong, and what to work on."""
THRESHOLD_STEP = 0.1
"""The threshold of a wrong answer is moved up and down by so much."""


def cause_bar(workbench: Workbench, run: StoredRun, *, split: bool) -> dict[str, Any] | None:
    """The causes of wrong answers of the first result that has them; ``None`` where none has.

    ``split`` divides what was not returned into retriever and dropped, which needs all outputs.
    """
    result = next((result for result in run.results if wrong_answer_causes(result)), None)
    if result is None:
        return None
    counts = {str(cause): int(part.get("count", 0)) for cause, part in wrong_answer_causes(result).items()}
    grouped = set(chain.from_iterable(CAUSE_GROUPS.values()))
    parts = CAUSE_GROUPS | {cause.replace("_", "-"): (cause,) for cause in counts if cause not in grouped}
    first = next(result.name for result in run.results if result.details.causes)
    name = "" if first == result.name else result.name
    num_dropped = 0
    if split and counts.get("not_returned"):
        table = query_table(workbench, [run.record])
        num_dropped = int(Condition("cause", name, value="dropped").mask(table).sum())
    found = []
    for number, (word, causes) in enumerate(parts.items(), 1):
        present = [cause for cause in causes if counts.get(cause)]
        count = num_dropped if word == "dropped" else sum(counts[cause] for cause in present)
        if word == "retriever":
            count -= num_dropped
        if count:
            words = DROPPED if word == "dropped" else "; ".join(CAUSES.get(cause, cause) for cause in present)
            found.append((count, number, word, words))
    found.sort(key=itemgetter(0), reverse=True)
    total, start = sum(counts.values()), 0.0
    segments = []
    for count, number, word, words in found:
        width = 100 * count / total
        segments.append(
            {
                "word": word,
                "number": min(number, 7),  # of its colour, the same in every run
                "name": CAUSE_NAMES.get(word, word.replace("-", " ")),
                "count": count,
                "share": percentage(count, total),
                "words": words,
                "short_words": SHORT_WORDS.get(word, ""),
                "start": round(start, 3),  # in percent, as the width is
                "width": round(width, 3),
                "link": condition_link(run.record, f"{count:,}", str(Condition("cause", name, value=word))),
            }
        )
        start += width
    rule, stability = _threshold_words(run, result)
    judged = total + result.details.reasons("skipped").get("answered_right", 0)
    return {
        "metric": display_name(result),
        "total": total,
        "judged": judged,  # the number of answers that are right or wrong
        "rule": rule,  # what wrong means, such as ``token_f1 below 0.3``; empty where it is not known
        "segments": segments,  # the cause of most wrong answers first
        "stability": stability,  # whether another cause leads where the threshold is another, where that is known
    }


def _threshold_words(run: StoredRun, attribution: MetricResult) -> tuple[str, str]:
    """What a wrong answer is, and whether the leading cause depends on the threshold."""
    try:
        options = Signature.parse(attribution.signature or "").options
    except BadValueError:
        return "", ""
    if "correct" not in options or "correct.from" not in options:
        return "", ""
    limit = float(options["correct.from"])
    correct = run.find_result(options["correct"])
    label = options["correct"] if correct is None else display_name(correct)
    return f"{label} below {limit:g}", "" if correct is None else _stability(attribution, correct, limit)


def _stability(attribution: MetricResult, correct: MetricResult, limit: float) -> str:
    """Which cause leads where the threshold is up to a tenth lower or higher.

    An answer that becomes wrong by a higher threshold counts for the generator where it had gold in its context.
    """
    low, high = max(limit - THRESHOLD_STEP, 0.0), min(limit + THRESHOLD_STEP, 1.0)
    codes, values = _cause_codes(attribution, correct)
    if np.isin(values[np.isfinite(values)], (0, 1)).all():
        return ""  # any threshold says the same
    leading = {}
    for threshold in sorted({round(float(number), 6) for number in (*np.linspace(low, high, 5), limit)}):
        counts = np.bincount(codes[values < threshold])
        if counts.any():
            leading[threshold] = list(CAUSE_GROUPS)[int(counts.argmax())]
    if limit not in leading or len(leading) < 2:
        return ""
    others: dict[str, list[str]] = {}
    for at, word in leading.items():
        if word != leading[limit]:
            others.setdefault(LEADING_WORDS[word][1], []).append(f"{at:g}")
    if others:
        parts = [f"{' or '.join(found)} it would be {work}" for work, found in others.items()]
        return f"; with a threshold of {', of '.join(parts)}."
    return f", by any threshold from {min(leading):g} to {max(leading):g}."


def _cause_codes(attribution: MetricResult, correct: MetricResult) -> tuple[npt.NDArray[np.intp], Floats]:
    """Of each answer that is right or wrong the group of its cause, and its score; minus infinity where it failed."""
    known, scores = attribution.scores, correct.scores
    if not isinstance(known, Scores) or not isinstance(scores, Scores) or known.stats is None or known.keys is None:
        return np.zeros(0, np.intp), np.zeros(0)
    groups = list(CAUSE_GROUPS)
    words = {cause: word for word, causes in reversed(CAUSE_GROUPS.items()) for cause in causes}
    names = list(attribution.details.causes)
    by_cause = np.array([groups.index(words[name]) for name in names if name in words])
    wrong = np.array([key is not None for key in known.keys])
    right = known.with_reason("answered_right")
    causes = known.stats.argmax(axis=1)
    values = np.where(np.array([key == "system_failed" for key in known.keys]), -np.inf, scores.values)
    return by_cause[causes[wrong | right]], values[wrong | right]


# --- the sentence ----------------------------------------------------------------------------------------------------


def run_sentence(run: StoredRun, gates: GateCheck, causes: dict[str, Any] | None) -> dict[str, Any]:
    """How many answers are wrong and mostly why; without causes the value of the main metric.

    It has the parts ``lead``, ``main`` in bold letters and ``rest``, a tone, and notes that limit it.
    """
    tone, notes = run_notes(run, gates)
    if causes is None:
        main = run_verdict(run, gates, timings=False).sentence
        return {"lead": "", "main": main, "rest": "", "tone": tone, "notes": notes}
    done, failed = run.counts
    lead = f"{failed:,} of {pluralize(done, 'answer')} failed." if failed else "No answer failed."
    total, first = causes["total"], causes["segments"][0]
    verb = "is" if total == 1 else "are"
    rule = f" ({causes['rule']})" if causes["rule"] else ""
    why, work = LEADING_WORDS.get(first["word"], (f"because of {first['name']}", f"what is behind {first['name']}"))
    part = "" if first["count"] == total else f"and {first['count']:,} of them "
    main = f"{total:,} of {pluralize(causes['judged'], 'answer')} {verb} wrong{rule}, {part}{why}"
    rest = f": {work} is the first thing to work on{causes['stability'] or '.'}"
    return {"lead": lead, "main": main, "rest": rest, "tone": tone, "notes": notes}
