"""Numbers of a diagnosis: which part of a system fails, from its answers with different documents."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np

from ..core.registry import metric
from ..core.scores import Scores
from ..engine.evaluate import evaluate_rankings
from ..errors import BadValueError
from ..stats.difference import paired_interval
from ..stats.intervals import Bools, Floats, Interval, Ints, mean_interval

# --- proportions and differences, each with its interval -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Quantity:
    """A mean, a proportion or a difference over questions, with its interval."""

    value: float | None
    """``None`` where there is no question to compute it from."""
    interval: tuple[float, float] | None
    n: int
    """The number of questions."""
    count: int | None = None
    """Of a proportion: how many of them."""
    flags: tuple[str, ...] = ()
    """Why the interval may be too narrow, as in ``stats.intervals.Interval``."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        counted = {} if self.count is None else {"count": self.count}
        interval = None if self.interval is None else list(self.interval)
        return {"value": self.value, "interval": interval, **counted, "n": self.n}

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of 0."""
        return self.interval is not None and (self.interval[0] > 0 or self.interval[1] < 0)


def _quantity_dicts(quantities: Mapping[Any, Quantity]) -> dict[str, Any]:
    return {str(name): quantity.to_dict() for name, quantity in quantities.items()}


def proportion(outcomes: Bools, clusters: Ints | None = None) -> Quantity:
    """The proportion of true outcomes: Wilson's interval, or one by cluster."""
    n, count = len(outcomes), int(np.count_nonzero(outcomes))
    found = mean_interval(outcomes.astype(np.float64), clusters=clusters, binary=True)
    return _quantity(count / max(n, 1), found, n, count=count)


def mean(values: Sequence[float] | Floats, clusters: Ints | None = None) -> Quantity:
    """The mean of values between 0 and 1."""
    found = mean_interval(np.array(values, np.float64), clusters=clusters, lowest=0.0, highest=1.0)
    return _quantity(math.fsum(values) / max(len(values), 1), found, len(values))


def difference(first: Bools, second: Bools, clusters: Ints | None = None) -> Quantity:
    """The proportion of ``second`` minus that of ``first``, paired by question."""
    n = max(len(first), 1)
    found = paired_interval(first.astype(np.float64), second.astype(np.float64), clusters=clusters, binary=True)
    value = int(np.count_nonzero(second)) / n - int(np.count_nonzero(first)) / n
    return replace(_quantity(value, found, len(first)), flags=())


def _quantity(value: float, found: Interval | None, n: int, *, count: int | None = None) -> Quantity:
    """A value of ``n`` questions with its interval; without a value where there is none."""
    ends = None if found is None else (float(found.low), float(found.high))
    return Quantity(value if n else None, ends, n, count, () if found is None else found.flags)


# --- the four classes of MIRAGE, and the causes of wrong answers -----------------------------------------------------

MIRAGE = {
    "noise_vulnerability": "right with the gold documents alone, wrong with the retrieved ones",
    "context_acceptability": "right with the gold documents alone, and with the retrieved ones",
    "context_insensitivity": "wrong with the gold documents alone, and without documents",
    "context_misinterpretation": "wrong with the gold documents alone, right without documents",
}
"""The classes of MIRAGE (Park et al. 2025) in the order of its released code; each question is in exactly one."""
FAILURES = ("noise_vulnerability", "context_insensitivity", "context_misinterpretation")
"""The classes that are failures."""


def mirage_classes(none: Bools, mixed: Bools, oracle: Bools) -> list[str]:
    """The class of each question, from whether it is right without, with retrieved and with gold documents."""
    *names, otherwise = MIRAGE
    found: list[str] = np.select([oracle & ~mixed, oracle & mixed, ~none], names, otherwise).tolist()
    return found


CAUSES = {
    "system_failed": "the system gave no answer",
    "retrieval": "no gold document was among those retrieved, and with the gold documents alone the answer is right",
    "distractors": "a gold document was retrieved, and with the gold documents alone the answer is right",
    "ignores_context": "the answer is wrong with the gold documents alone, and without documents",
    "misreads_context": "the answer is wrong with the gold documents alone, and right without documents",
}
"""The causes of a wrong answer; each has exactly one."""


def failure_causes(none: Bools, oracle: Bools, sufficient: Bools, failed: Bools) -> list[str]:
    """The cause of each answer if it is wrong.

    ``none`` and ``oracle`` say whether the answers without documents and with the gold documents alone are right,
    ``sufficient`` whether gold was retrieved, ``failed`` whether the system gave no answer.
    """
    *names, otherwise = CAUSES
    found: list[str] = np.select([failed, oracle & ~sufficient, oracle, ~none], names, otherwise).tolist()
    return found


@dataclass(frozen=True, slots=True)
class Effect:
    """The proportion of a class of answers, and whether it exceeds what the randomness of the system explains."""

    proportion: Quantity
    beyond: Quantity
    """The proportion minus that of answers that changed when they were asked for again."""
    unnamed: str
    """The verdict where it is not named."""

    @property
    def is_named(self) -> bool:
        """Whether the excess has an interval above 0."""
        return self.beyond.interval is not None and self.beyond.interval[0] > 0

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            **self.proportion.to_dict(),
            "beyond_retest": self.beyond.to_dict(),
            "verdict": "named" if self.is_named else self.unnamed,
        }


TOO_FEW = "too few to tell"
"""Where no answer changed in a second run, so that there is no randomness to compare with."""


def effects(
    classes: Sequence[str], names: Sequence[str], changed: Bools, clusters: Ints | None = None
) -> dict[str, Effect]:
    """The proportion of each class, compared with the proportion of answers that ``changed`` in a second run."""
    found: dict[str, Effect] = {}
    unnamed = "not beyond its own randomness" if changed.any() else TOO_FEW
    for name in names:
        members = np.array(classes, np.str_) == name
        found[name] = Effect(proportion(members, clusters), difference(changed, members, clusters), unnamed)
    return found


# --- the utility of single documents: eRAG and UDCG ------------------------------------------------------------------

_GRADED = ("precision", "hit_rate")
UDCG_WEIGHT = -1 / 3
"""The weight of documents that are not relevant, as in the released code of UDCG."""


def erag(labels: Sequence[Sequence[float]], measure: str, k: int, clusters: Ints | None = None) -> tuple[str, Quantity]:
    """A measure of rankings whose documents are labelled by the score of the answer from that document alone (eRAG).

    ``labels`` has the label of each document per question, in the order of the ranking. Graded labels allow
    ``precision`` (their sum over the first k, divided by k) and ``hit_rate`` (the largest of the first k) only; labels
    of 0 and 1 any measure of rankings. What needs all relevant documents (``recall``, ``ndcg``, ``map``) knows those of
    the list only: its name says ``within list``, and it does not compare retrievers. A list without a useful document
    counts 0. Returns the name and the mean.
    """
    every = list(chain.from_iterable(labels))
    family, depth = require_measure(measure, graded=not {0, 1}.issuperset(every), k=k)
    for value in every:
        if not 0 <= value <= 1:
            raise BadValueError(f"eRAG needs scores from 0 to 1, not {value!r}; label with another metric")
    if family == "precision":
        precisions = [math.fsum(row[:depth]) / depth for row in labels]
        return f"erag precision@{depth}", mean(precisions, clusters)
    if family == "hit_rate":
        return f"erag success@{depth}", mean([max(row[:depth], default=0.0) for row in labels], clusters)
    ranked: list[list[str]] = []
    gold: list[list[str]] = []
    for row in labels:
        ranked.append([str(rank) for rank in range(len(row))])
        gold.append([rank for rank, value in zip(ranked[-1], row, strict=True) if value])
    name = f"{family}@{depth}"
    (result,) = evaluate_rankings(gold, ranked, [name])
    assert isinstance(result.scores, Scores)
    values = np.nan_to_num(result.scores.values)  # skipped: nothing useful in the list
    return f"erag {name} (within list)", mean(values, clusters)


def require_measure(measure: str, *, graded: bool, k: int = 10) -> tuple[str, int]:
    """The name and cut-off (default ``k``) of an eRAG measure; raises if ``graded`` labels do not allow it."""
    family, _, cut = measure.partition("@")
    if cut and (not cut.isdigit() or int(cut) < 1):
        raise BadValueError(f"{measure}: the cut-off must be a positive integer")
    depth = int(cut) if cut else k
    if family not in _GRADED:
        if graded:
            raise BadValueError(
                f"{measure} cannot be computed from graded labels: a score such as 0.4 is not a level of relevance, "
                f"and the best possible ranking is unknown; use {' or '.join(_GRADED)}, or label documents with a "
                "metric of 0 and 1, once each"
            )
        metric(f"{family}@{depth}")
    return family, depth


def udcg(utilities: Sequence[float], relevant: Sequence[bool]) -> float:
    """UDCG of one list: the sigmoid of the mean utility, that of irrelevant documents counted with -1/3.

    The utility of a document is the probability that the generator answers, given this document alone. An empty list
    has 0, as in the released code.
    """
    if len(utilities) != len(relevant):
        raise BadValueError(f"{len(utilities)} utilities and {len(relevant)} relevance labels: there must be as many")
    if not utilities:
        return 0.0
    weighted = np.array(utilities) * np.where(relevant, 1.0, UDCG_WEIGHT)
    return 1 / (1 + math.exp(-math.fsum(weighted) / len(weighted)))


@dataclass(frozen=True, slots=True)
class SingleDocument:
    """What the generator made of one document alone."""

    doc_id: str
    relevant: bool
    label: float | None
    """The score of the answer; ``None`` where it was not measured."""
    right: bool
    abstained: float
    """The proportion of abstained answers over repeats."""
    abstain_probability: float | None = None
    """The probability of abstention, where the system knows it."""


@dataclass(frozen=True, slots=True)
class Distractor:
    """A document that is not relevant, and the questions that it alone answers wrongly."""

    doc_id: str
    misled: int
    """Questions that are right with their gold documents, and wrong, not abstained, with this document alone."""
    questions: int
    """Questions for which it was retrieved and that are right with their gold documents."""


def harmful_distractors(
    documents: Sequence[Sequence[SingleDocument]], oracle: Bools, *, most: int = 10
) -> list[Distractor]:
    """The irrelevant documents that mislead on the most questions, of those that are right with gold documents."""
    misled: Counter[str] = Counter()
    questions: Counter[str] = Counter()
    for row, right in zip(documents, oracle.tolist(), strict=True):
        for document in row:
            if right and not document.relevant:
                questions[document.doc_id] += 1
                misled[document.doc_id] += not document.right and document.abstained < 0.5
    ranked = sorted(misled, key=lambda doc_id: (-misled[doc_id], -misled[doc_id] / questions[doc_id], doc_id))
    return [Distractor(doc_id, misled[doc_id], questions[doc_id]) for doc_id in ranked[:most] if misled[doc_id]]


# --- the diagnosis ---------------------------------------------------------------------------------------------------

FEW_AT_POSITION = 30
"""Below this number of questions a point of the curve over positions is marked."""


@dataclass(frozen=True, slots=True)
class ArmOutcomes:
    """The outcome of each question in one arm."""

    right: Bools
    abstained: Bools
    failed: Bools
    """The system gave no answer; such an answer is wrong."""
    measured: Bools
    """Whether it is known if the answer is right."""

    def select(self, rows: Bools) -> ArmOutcomes:
        """The outcomes of some questions."""
        return ArmOutcomes(self.right[rows], self.abstained[rows], self.failed[rows], self.measured[rows])


@dataclass(frozen=True, slots=True)
class DocumentUtility:
    """What single documents are worth to the generator, from the arm ``each``."""

    measures: dict[str, Quantity]
    """eRAG measures by name, and ``udcg`` or ``udcg_sampled``."""
    distractors: list[Distractor]
    documents: int
    """The number of answers from one document."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "measures": _quantity_dicts(self.measures),
            "distractors": [asdict(distractor) for distractor in self.distractors],
            "documents": self.documents,
        }


@dataclass(frozen=True, slots=True)
class DiagnosisNumbers:
    """The numbers of a diagnosis; those whose arms were not run are ``None`` or empty."""

    n: int
    """The number of questions that were measured in every arm."""
    left_out: int
    """Questions that were not measured in some arm."""
    accuracy: dict[str, Quantity]
    """The proportion of right answers by arm."""
    retest: dict[str, Quantity]
    """By arm: the proportion of answers that changed between right and wrong in a second run."""
    gain: Quantity | None = None
    """Retrieved minus none."""
    headroom: Quantity | None = None
    """Oracle minus retrieved."""
    mirage: dict[str, Effect] = field(default_factory=dict)
    mirage_from: str = "retrieved"
    """The arm with distractors that the classes are computed from."""
    causes: dict[str, Effect] = field(default_factory=dict)
    """Of the wrong answers of ``retrieved``."""
    questions: dict[str, list[str]] = field(default_factory=dict)
    """The ids of the questions with a wrong answer, by cause."""
    sufficiency: dict[str, dict[str, Quantity]] = field(default_factory=dict)
    """``sufficient`` and ``insufficient``: the proportions of ``correct``, ``abstained`` and ``wrong`` answers, and of
    ``failed`` ones where the system gave no answer to some."""
    positions: dict[int, Quantity] = field(default_factory=dict)
    """The proportion of right answers of ``mixed`` by the position of the first gold document."""
    utility: DocumentUtility | None = None

    @property
    def wrong(self) -> int:
        """The number of wrong answers of ``retrieved``."""
        return self.n - (self.accuracy["retrieved"].count or 0)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        mirage = {name: effect.proportion.to_dict() for name, effect in self.mirage.items()}
        mirage |= {name: self.mirage[name].to_dict() for name in FAILURES if name in mirage}
        causes = {name: {**cause.to_dict(), "sample_ids": self.questions[name]} for name, cause in self.causes.items()}
        return {
            "n": self.n,
            "left_out": self.left_out,
            "wrong": self.wrong,
            "accuracy": _quantity_dicts(self.accuracy),
            "retest": _quantity_dicts(self.retest),
            "gain": None if self.gain is None else self.gain.to_dict(),
            "headroom": None if self.headroom is None else self.headroom.to_dict(),
            "mirage": mirage,
            "mirage_from": self.mirage_from,
            "causes": causes,
            "sufficiency": {group: _quantity_dicts(row) for group, row in self.sufficiency.items()},
            "positions": _quantity_dicts(self.positions),
            "utility": None if self.utility is None else self.utility.to_dict(),
        }


def diagnosis_numbers(
    arms: Mapping[str, ArmOutcomes],
    retests: Mapping[str, ArmOutcomes],
    sufficient: Bools,
    *,
    ids: Sequence[str],
    judged_sufficient: Bools | None = None,
    clusters: Ints | None = None,
    mirage_from: str = "retrieved",
    positions: Sequence[int | None] = (),
    documents: Sequence[Sequence[SingleDocument]] = (),
    measures: Sequence[str] = (),
    k: int = 10,
) -> DiagnosisNumbers:
    """Compute the numbers from the outcomes of each arm.

    ``ids`` name the questions, ``retests`` are second runs of ``oracle`` and ``retrieved``, ``sufficient`` says whether
    gold was retrieved, ``judged_sufficient`` whether a judge finds the documents sufficient, ``positions`` where the
    first gold document is in ``mixed`` (from 1), ``documents`` what the generator made of each document alone, and
    ``measures`` which eRAG measures to compute. Questions that were not measured in some arm are left out.
    """
    rows = np.logical_and.reduce([arm.measured for arm in (*arms.values(), *retests.values())])
    codes = None if clusters is None else clusters[rows]
    found = {name: arm.select(rows) for name, arm in arms.items()}
    again = {name: outcomes.select(rows) for name, outcomes in retests.items()}
    right = {name: outcomes.right for name, outcomes in found.items()}
    changed = {name: right[name] != outcomes.right for name, outcomes in again.items()}
    numbers = DiagnosisNumbers(
        n=int(np.count_nonzero(rows)),
        left_out=int(np.count_nonzero(~rows)),
        accuracy=_proportions(right, codes),
        retest=_proportions(changed, codes),
        gain=difference(right["none"], right["retrieved"], codes) if "none" in right else None,
        headroom=difference(right["retrieved"], right["oracle"], codes) if "oracle" in right else None,
        sufficiency=_sufficiency(
            found["retrieved"], (sufficient if judged_sufficient is None else judged_sufficient)[rows], codes
        ),
        mirage_from=mirage_from,
    )
    if {"none", "oracle", mirage_from} <= right.keys():
        classes = mirage_classes(right["none"], right[mirage_from], right["oracle"])
        broken, class_names = found[mirage_from].failed, list(MIRAGE)
        if broken.any():  # says nothing about how the generator uses documents
            class_names.append("system_failed")
            classes = np.where(broken, "system_failed", classes).tolist()
        wrong = ~right["retrieved"]
        every = failure_causes(right["none"], right["oracle"], sufficient[rows], found["retrieved"].failed)
        causes, names = np.array(every, np.str_)[wrong], np.array(ids, dtype=object)[rows][wrong]
        inside = None if codes is None else codes[wrong]
        numbers = replace(
            numbers,
            mirage=effects(classes, class_names, changed["oracle"], codes),
            causes=effects(causes.tolist(), list(CAUSES), changed["retrieved"][wrong], inside),
            questions={cause: names[causes == cause].tolist() for cause in CAUSES},
        )
    kept = np.flatnonzero(rows).tolist()
    if positions and "mixed" in right:
        numbers = replace(numbers, positions=_by_position([positions[row] for row in kept], right["mixed"], codes))
    if documents:
        listed = [documents[row] for row in kept]
        oracle = right.get("oracle", np.ones(len(listed), np.bool_))
        numbers = replace(numbers, utility=document_utility(listed, oracle, measures, k=k, clusters=codes))
    return numbers


def _sufficiency(outcomes: ArmOutcomes, sufficient: Bools, clusters: Ints | None) -> dict[str, dict[str, Quantity]]:
    abstained = outcomes.abstained & ~outcomes.right
    wrong = ~outcomes.right & ~abstained & ~outcomes.failed
    columns = {"correct": outcomes.right, "abstained": abstained, "wrong": wrong}
    if outcomes.failed.any():  # without an answer nothing was made of the documents
        columns["failed"] = outcomes.failed
    groups = {"sufficient": sufficient, "insufficient": ~sufficient}
    found = {}
    for group, mask in groups.items():
        found[group] = _proportions({name: mask & column for name, column in columns.items()}, clusters)
    return found


def _proportions(outcomes: Mapping[str, Bools], clusters: Ints | None) -> dict[str, Quantity]:
    return {name: proportion(column, clusters) for name, column in outcomes.items()}


def _by_position(positions: Sequence[int | None], right: Bools, clusters: Ints | None) -> dict[int, Quantity]:
    found: dict[int, Quantity] = {}
    for position in sorted({position for position in positions if position is not None}):
        rows = np.array(positions, dtype=object) == position
        found[position] = proportion(right[rows], None if clusters is None else clusters[rows])
    return found


def document_utility(
    documents: Sequence[Sequence[SingleDocument]],
    oracle: Bools,
    measures: Sequence[str],
    *,
    k: int,
    clusters: Ints | None = None,
) -> DocumentUtility:
    """The eRAG measures, UDCG and the most harmful distractors.

    Questions with a document that was not measured are left out of eRAG. UDCG is called ``udcg_sampled`` unless the
    system gave the probability of abstention for every document.
    """
    listed = list(chain.from_iterable(documents))
    known = bool(listed) and all(document.abstain_probability is not None for document in listed)
    abstention = attrgetter("abstain_probability" if known else "abstained")
    labels: list[list[float]] = []
    scores: list[float] = []
    complete = np.zeros(len(documents), np.bool_)
    for place, row in enumerate(documents):
        measured = [document.label for document in row if document.label is not None]
        if len(measured) == len(row):
            complete[place] = True
            labels.append(measured)
        utilities = [1 - abstention(document) for document in row]
        scores.append(udcg(utilities, [document.relevant for document in row]))
    codes = None if clusters is None else clusters[complete]
    found = dict(erag(labels, measure, k, codes) for measure in measures)
    found["udcg" if known else "udcg_sampled"] = mean(scores, clusters)
    return DocumentUtility(found, harmful_distractors(documents, oracle), len(listed))


# --- the diagnosis in words ------------------------------------------------------------------------------------------

_CAUSE_TEXTS = {
    "system_failed": "the system gives no answer to {}",
    "retrieval": "retrieval limits {}",
    "distractors": "distractors mislead the generator in {}",
    "ignores_context": "the generator ignores context in {}",
    "misreads_context": "the generator misreads context in {}",
}


def sentence(numbers: DiagnosisNumbers) -> str:
    """The diagnosis in one sentence: the causes of wrong answers that exceed the randomness of the system."""
    if not numbers.n:
        return "No question was measured in every arm."
    if not numbers.wrong:
        return f"All {numbers.n} answers are right."
    start = f"{numbers.wrong} of {numbers.n} answers are wrong"
    if not numbers.causes:
        return f"{start}; the causes need the arms none, oracle and retrieved."
    named = named_causes(numbers)
    if not named and not numbers.retest["retrieved"].count:
        return f"{start}; these are too few to name a cause."
    if not named:
        changed = _percent(numbers.retest["retrieved"].value)
        return (
            f"{start}; no cause is beyond the system's own randomness: {changed} of its answers change in a second run."
        )
    parts: list[str] = []
    for name in named:
        share = _percent(numbers.causes[name].proportion.value)
        parts.append(_CAUSE_TEXTS[name].format(share if parts else f"{share} of them"))
    return f"{start}: {'; '.join(parts)}."


_ADVICE = {
    "system_failed": "Make the system answer first: `auepora show RUN --failures` lists its errors",
    "retrieval": "Work on the retriever: no gold document was among the retrieved ones, and with the gold documents "
    "the answers are right. Look at top_k, chunking and the embedding",
    "distractors": "Give the generator fewer or better ordered documents, for example with a reranker: it answers "
    "rightly from the gold documents alone, and wrongly where others are among them",
    "ignores_context": "Work on the prompt or the model: even with nothing but the gold documents the answer stays "
    "wrong. Check some of the gold annotations too",
    "misreads_context": "Read some of these questions: they are right without documents and wrong with the gold "
    "documents, so documents and reference may contradict each other",
}


_NOT_DECLINED = (
    "Let the system decline where it has no evidence: {} of {} answers are wrong, not declined, although no gold "
    "document was retrieved."
)
_DECLINED = "The system declines too often: {} of {} questions, although a gold document was retrieved."
_UNSTABLE = (
    "Make the generator more deterministic (temperature, seed): {} of {} answers change between right and wrong when "
    "asked again."
)


def named_causes(numbers: DiagnosisNumbers) -> list[str]:
    """The causes that exceed the randomness of the system, the most frequent first."""
    named = [name for name, cause in numbers.causes.items() if cause.is_named]
    return sorted(named, key=lambda name: -(numbers.causes[name].proportion.count or 0))


def recommendations(numbers: DiagnosisNumbers) -> list[str]:
    """What to do next, each with the number that it follows from."""
    found: list[str] = []
    for name in named_causes(numbers):
        cause = numbers.causes[name].proportion
        found.append(f"{_ADVICE[name]} ({cause.count} of {cause.n} wrong answers).")
    if numbers.gain is not None and not numbers.gain.excludes_zero:
        found.append(f"Retrieval adds nothing that this data shows: its gain is {signed(numbers.gain)}.")
    checks = (
        (numbers.sufficiency.get("insufficient", {}).get("wrong"), _NOT_DECLINED),
        (numbers.sufficiency.get("sufficient", {}).get("abstained"), _DECLINED),
        (numbers.retest.get("retrieved"), _UNSTABLE),
    )
    for quantity, advice in checks:
        if quantity is not None and quantity.interval is not None and quantity.interval[0] > 0.05:
            found.append(advice.format(quantity.count, quantity.n))
    return found


def signed(quantity: Quantity) -> str:
    """A difference with its interval."""
    if quantity.value is None or quantity.interval is None:
        return "n/a"
    return f"{quantity.value:+.3f} ({quantity.interval[0]:+.3f} to {quantity.interval[1]:+.3f})"


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.0f} %"
