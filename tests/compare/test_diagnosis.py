"""Numbers of a diagnosis by hand: classes, causes, differences, and the utility of single documents."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from auepora_eval.compare.diagnosis import (
    CAUSES,
    MIRAGE,
    ArmOutcomes,
    SingleDocument,
    diagnosis_numbers,
    difference,
    document_utility,
    effects,
    erag,
    failure_causes,
    harmful_distractors,
    mirage_classes,
    proportion,
    recommendations,
    sentence,
    udcg,
)
from auepora_eval.errors import BadValueError, UnknownMetricError
from auepora_eval.report.diagnosis import mirage_table


def bits(text: str) -> Any:
    return np.array([one == "1" for one in text], np.bool_)


def outcomes(right: str, *, abstained: str = "", failed: str = "", measured: str = "") -> ArmOutcomes:
    zeros, ones = "0" * len(right), "1" * len(right)
    return ArmOutcomes(bits(right), bits(abstained or zeros), bits(failed or zeros), bits(measured or ones))


# none, retrieved, oracle: all eight cases, as in the table of counts of MIRAGE's released code
CLASSES = [
    ("000", "context_insensitivity"),
    ("001", "noise_vulnerability"),
    ("010", "context_insensitivity"),
    ("011", "context_acceptability"),
    ("100", "context_misinterpretation"),
    ("101", "noise_vulnerability"),
    ("110", "context_misinterpretation"),
    ("111", "context_acceptability"),
]


def test_classes_of_mirage() -> None:
    columns = [bits("".join(row[0][arm] for row in CLASSES)) for arm in range(3)]
    classes = mirage_classes(columns[0], columns[1], columns[2])
    assert classes == [row[1] for row in CLASSES]
    found = effects(classes, list(MIRAGE), bits("00000000"))
    assert sum(Fraction(one.proportion.count or 0, one.proportion.n) for one in found.values()) == 1
    assert {name: one.proportion.value for name, one in found.items()} == dict.fromkeys(MIRAGE, 2 / 8)


CAUSE_ROWS = [  # none, oracle, sufficient, failed, cause, why
    ("0101", "system_failed", "no answer counts before everything else"),
    ("0100", "retrieval", "gold would help, and was not retrieved"),
    ("0110", "distractors", "gold would help, and was retrieved"),
    ("1110", "distractors", "right without documents, too"),
    ("0000", "ignores_context", "wrong with gold and without documents"),
    ("0010", "ignores_context", "gold was retrieved, and does not help"),
    ("1010", "misreads_context", "gold makes it wrong"),
]


@pytest.mark.parametrize(("case", "want"), [row[:2] for row in CAUSE_ROWS], ids=[row[2] for row in CAUSE_ROWS])
def test_causes(case: str, want: str) -> None:
    none, oracle, sufficient, failed = (bits(one) for one in case)
    assert failure_causes(none, oracle, sufficient, failed) == [want]


def test_differences_are_paired() -> None:
    found = difference(bits("1100"), bits("1111"))
    assert (found.value, found.n) == (2 / 4, 4)
    assert found.interval is not None
    assert found.interval[0] < 0.5 < found.interval[1]
    assert proportion(bits("")).value is None


def test_an_effect_must_exceed_the_randomness_of_the_system() -> None:
    classes = ["a"] * 30 + ["b"] * 70
    calm, nervous = bits("0" * 100), bits("01" * 50)
    assert effects(classes, ["a"], calm)["a"].is_named
    shaken = effects(classes, ["a"], nervous)["a"]
    assert not shaken.is_named
    assert shaken.beyond.value == pytest.approx(0.3 - 0.5)
    assert shaken.to_dict()["verdict"] == "not beyond its own randomness"


def test_numbers_of_a_small_table() -> None:
    #            q: 01234567
    arms = {
        "none": outcomes("00010000"),
        "oracle": outcomes("11110011", failed="00001000"),
        "retrieved": outcomes("11000001", abstained="00010100", measured="11111101"),
        "mixed": outcomes("11100001"),
    }
    retests = {"oracle": outcomes("11110111"), "retrieved": outcomes("11000001")}
    numbers = diagnosis_numbers(
        arms, retests, bits("11100111"), ids=list("abcdefgh"), positions=[1, 2, 1, 2, 1, 1, None, 1]
    )
    # question g was not measured in one arm: seven are left
    assert (numbers.n, numbers.left_out, numbers.wrong) == (7, 1, 4)
    assert numbers.accuracy["oracle"].value == 5 / 7
    assert numbers.gain is not None
    assert numbers.headroom is not None
    assert numbers.gain.value == pytest.approx(3 / 7 - 1 / 7)
    assert numbers.headroom.value == pytest.approx(5 / 7 - 3 / 7)
    assert numbers.retest["oracle"].count == 1
    assert {name: one.proportion.count for name, one in numbers.mirage.items()} == {
        "noise_vulnerability": 2, "context_acceptability": 3, "context_insensitivity": 2, "context_misinterpretation": 0,
    }  # fmt: skip
    assert numbers.questions == {
        "system_failed": [], "retrieval": ["d"], "distractors": ["c"], "ignores_context": ["e", "f"],
        "misreads_context": [],
    }  # fmt: skip
    assert sum(Fraction(one.proportion.count or 0, one.proportion.n) for one in numbers.causes.values()) == 1
    table = {group: [one.count for one in row.values()] for group, row in numbers.sufficiency.items()}
    assert table == {"sufficient": [3, 1, 1], "insufficient": [0, 1, 1]}
    assert {at: (one.count, one.n) for at, one in numbers.positions.items()} == {1: (3, 5), 2: (1, 2)}
    assert numbers.to_dict()["causes"]["retrieval"]["sample_ids"] == ["d"]


def test_failures_are_a_class_apart() -> None:
    """A retriever that crashes on two of four questions does not make the generator vulnerable to noise."""
    arms = {
        "none": outcomes("0000"),
        "oracle": outcomes("1111"),
        "retrieved": outcomes("1000", failed="0110"),
    }
    retests = {"oracle": outcomes("1111"), "retrieved": outcomes("1000")}
    numbers = diagnosis_numbers(arms, retests, bits("1111"), ids=list("abcd"))
    assert {name: one.proportion.count for name, one in numbers.mirage.items() if one.proportion.count} == {
        "noise_vulnerability": 1, "context_acceptability": 1, "system_failed": 2,
    }  # fmt: skip
    assert "the system gave no answer" in str(mirage_table(numbers, explained=True))
    sufficient = {name: one.count for name, one in numbers.sufficiency["sufficient"].items()}
    assert sufficient == {"correct": 1, "abstained": 0, "wrong": 1, "failed": 2}, (
        "no answer is none that should decline"
    )


def test_clusters_widen_intervals() -> None:
    right = "10" * 40
    arms = {name: outcomes(right) for name in ("none", "oracle", "retrieved")}
    retests = {name: outcomes(right) for name in ("oracle", "retrieved")}
    ids = [str(one) for one in range(80)]
    clusters = np.repeat(np.arange(8), 10)
    numbers = diagnosis_numbers(arms, retests, bits(right), ids=ids, clusters=clusters)
    assert numbers.accuracy["none"].value == 1 / 2
    assert numbers.causes["ignores_context"].proportion.value == 1


LABELS = [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
GRADED = [[0.2, 0.8, 0.1], [0.5, 0.0, 1.0]]
IDEAL_2 = 1 + 1 / math.log2(3)
ERAG = [  # labels, measure, name, value, why
    (LABELS, "precision", "erag precision@3", (1 / 3 + 2 / 3 + 0) / 3, "the cut is k"),
    (LABELS, "hit_rate@1", "erag success@1", (0 + 1 + 0) / 3, "the first document only"),
    (LABELS, "mrr@3", "erag mrr@3 (within list)", (1 / 2 + 1 + 0) / 3, "a list without a useful document counts 0"),
    (LABELS, "recall@2", "erag recall@2 (within list)", (1 + 1 / 2 + 0) / 3, "of the useful ones of the list"),
    (LABELS, "ndcg@3", "erag ndcg@3 (within list)", (1 / math.log2(3) + 1.5 / IDEAL_2) / 3, "discounts by rank"),
    (GRADED, "precision@2", "erag precision@2", (1.0 / 2 + 0.5 / 2) / 2, "graded: the mean"),
    (GRADED, "hit_rate@2", "erag success@2", (0.8 + 0.5) / 2, "graded: the maximum"),
    ([[1.0]], "precision@4", "erag precision@4", 1 / 4, "a short list is divided by the cut, as in trec_eval"),
    ([[], [1.0]], "hit_rate@2", "erag success@2", 1 / 2, "an empty list counts 0"),
]


@pytest.mark.parametrize(
    ("labels", "measure", "name", "value"), [row[:4] for row in ERAG], ids=[row[4] for row in ERAG]
)
def test_erag(labels: list[list[float]], measure: str, name: str, value: float) -> None:
    found, quantity = erag(labels, measure, 3)
    assert found == name
    assert quantity.value == pytest.approx(value, abs=1e-12)
    assert quantity.n == len(labels)


@pytest.mark.parametrize("measure", ["ndcg@5", "map@5", "recall@5", "mrr"])
def test_measures_of_levels_are_refused_for_graded_labels(measure: str) -> None:
    with pytest.raises(BadValueError, match=rf"^{measure} cannot be computed from graded labels: .* not a level"):
        erag(GRADED, measure, 3)


def test_odd_measures_and_labels() -> None:
    with pytest.raises(UnknownMetricError, match="ndgc"):
        erag(LABELS, "ndgc@5", 3)
    with pytest.raises(BadValueError, match="positive integer"):
        erag(LABELS, "precision@x", 3)
    with pytest.raises(BadValueError, match="from 0 to 1"):
        erag([[2.0]], "precision", 3)


UDCG = [  # utilities, relevant, the sum before the sigmoid divided by k, why
    ([0.9, 0.6], "10", (0.9 - 0.6 / 3) / 2, "one of each"),
    ([1.0, 1.0, 1.0], "000", -1 / 3, "distractors only"),
    ([0.0, 0.0], "10", 0.0, "the generator abstains on all"),
    ([0.5], "1", 0.5, "one document"),
]


@pytest.mark.parametrize(("utilities", "relevant", "inner"), [row[:3] for row in UDCG], ids=[row[3] for row in UDCG])
def test_udcg(utilities: list[float], relevant: str, inner: float) -> None:
    assert udcg(utilities, [one == "1" for one in relevant]) == pytest.approx(1 / (1 + math.exp(-inner)), abs=1e-12)


def test_udcg_of_an_empty_list_and_of_bad_input() -> None:
    assert udcg([], []) == 0.0
    with pytest.raises(BadValueError, match="as many"):
        udcg([1.0], [])


def document(name: str, *, relevant: bool = False, right: bool = False, abstained: float = 0.0) -> SingleDocument:
    return SingleDocument(name, relevant, float(right), right, abstained)


def test_harmful_distractors() -> None:
    gold = document("gold", relevant=True)
    rows = [
        [gold, document("x"), document("y", abstained=1.0)],
        [gold, document("x"), document("y")],
        [gold, document("x"), document("z", right=True)],
    ]
    found = harmful_distractors(rows, bits("110"))  # the third is wrong with gold: x cannot be blamed for it
    assert [(one.doc_id, one.misled, one.questions) for one in found] == [("x", 2, 2), ("y", 1, 2)]


def test_the_name_of_udcg_depends_on_its_utilities() -> None:
    sampled = [[document("a", relevant=True)]]
    exact = [[SingleDocument("a", True, 1.0, True, 0.0, abstain_probability=0.25)]]
    mixed = [[*sampled[0], *exact[0]]]
    assert document_utility(mixed, bits("1"), [], k=3).measures["udcg_sampled"].value == pytest.approx(
        1 / (1 + math.exp(-1))
    )
    one, two = (document_utility(rows, bits("1"), [], k=3).measures for rows in (sampled, exact))
    assert list(one) == ["udcg_sampled"]
    assert two["udcg"].value == pytest.approx(1 / (1 + math.exp(-0.75)), abs=1e-12)


def made(none: str, oracle: str, retrieved: str, sufficient: str, again: str = "") -> Any:
    arms = {"none": outcomes(none), "oracle": outcomes(oracle), "retrieved": outcomes(retrieved)}
    retests = {"oracle": outcomes(oracle), "retrieved": outcomes(again or retrieved)}
    return diagnosis_numbers(arms, retests, bits(sufficient), ids=[str(one) for one in range(len(none))])


def test_sentences() -> None:
    n = 60
    zeros, ones = "0" * n, "1" * n
    assert sentence(made(zeros, ones, ones, ones)) == "All 60 answers are right."
    retrieval = made(zeros, "1" * 36 + "0" * 24, zeros, zeros)
    assert sentence(retrieval) == (
        "60 of 60 answers are wrong: retrieval limits 60 % of them; the generator ignores context in 40 %."
    )
    assert [one.partition(":")[0] for one in recommendations(retrieval)][:2] == [
        "Work on the retriever", "Work on the prompt or the model",
    ]  # fmt: skip
    assert sentence(made("0", "1", "0", "0")) == "1 of 1 answers are wrong; these are too few to name a cause."
    shaken = made(zeros, "10" * 30, zeros, ones, "01" * 30)
    assert sentence(shaken) == (
        "60 of 60 answers are wrong; no cause is beyond the system's own randomness: 50 % of its answers change in a "
        "second run."
    )
    assert any("more deterministic" in one for one in recommendations(shaken))
    assert set(CAUSES) == set(shaken.causes)
