"""Which labels count, how annotators agree, and the one label that several come to."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.io.labels import Label, write_labels
from auepora_eval.judge.scale import Scale
from auepora_eval.labelling.human_labels import (
    aggregate_labels,
    rater_agreement,
    read_annotations,
    reject_tuning_labels,
    select_labels,
)


def said(sample: str, label: Any, who: str = "ann", **more: Any) -> Label:
    return Label(sample, label, who, **more)


SETTLED: list[tuple[list[Label], dict[str, float], tuple[str, ...], str]] = [
    ([said("q", "right")], {"q": 1.0}, (), "one label"),
    ([said("q", "right"), said("q", "wrong", "bob")], {}, ("q",), "a tie is no label"),
    ([said("q", "right"), said("q", "wrong", "bob"), said("q", "wrong", "cy")], {"q": 0.0}, (), "the majority"),
    (
        [said("q", "right"), said("q", "right", "bob"), said("q", "wrong", "eve", adjudicated=True)],
        {"q": 0.0},
        (),
        "what was adjudicated wins over a majority",
    ),
    (
        [said("q", "right"), said("q", "wrong", "bob"), said("q", "right", "ann", adjudicated=True)],
        {"q": 1.0},
        (),
        "one of them settles it",
    ),
    (
        [said("q", "right", "eve", adjudicated=True), said("q", "wrong", "ann", adjudicated=True)],
        {},
        ("q",),
        "two who settle it differently",
    ),
    ([said("q", True), said("q", 1, "bob"), said("p", 0.0)], {"q": 1.0, "p": 0.0}, (), "true and 1 are right"),
    ([said("q", 0.25), said("q", 0.75, "bob"), said("p", 1)], {"q": 0.5, "p": 1.0}, (), "numbers are averaged"),
    ([said("q", "wrong"), said("q", "right", metric="m")], {"q": 1.0}, (), "what was said for the metric itself"),
    ([said("q", "right", metric="m"), said("q", "wrong")], {"q": 1.0}, (), "in whatever order"),
]


@pytest.mark.parametrize(("labels", "values", "ties"), [row[:3] for row in SETTLED], ids=[row[3] for row in SETTLED])
def test_one_label_per_sample(labels: list[Label], values: dict[str, float], ties: tuple[str, ...]) -> None:
    found = aggregate_labels(labels)
    assert (dict(found.values), found.ties) == (values, ties)


def test_labels_on_a_scale() -> None:
    labels = [said("q", 4), said("q", 5, "bob"), said("p", "wrong")]
    found = aggregate_labels(labels, Scale.parse("1-5"))
    assert found.values == {"q": float(Fraction(7, 8)), "p": 0.0}
    assert not found.binary
    with pytest.raises(ValueError, match="the label of sample 'q' is 4, beyond 0 to 1; say on which scale"):
        aggregate_labels(labels)
    with pytest.raises(ValueError, match="is 6, beyond 1 to 5; mend the label"):
        aggregate_labels([said("q", 6)], Scale.parse("1-5"))


def test_how_many_were_settled() -> None:
    found = aggregate_labels([said("q", "right", adjudicated=True), said("q", "wrong"), said("p", "right")])
    assert (found.adjudicated, found.binary) == (1, True)


ABOUT = [
    (said("q", "right"), True, None, "a label that names no run"),
    (said("q", "right", run="run_1"), True, None, "by the id of the run"),
    (said("q", "right", run="nightly"), True, None, "by its name"),
    (said("q", "right", run="run_2"), False, "other_run", "of another run"),
    (said("q", "right", metric="m"), True, None, "for the metric"),
    (said("q", "right", metric="n"), False, "other_metric", "for another metric"),
    (said("q", "right", provenance="model"), False, "by_model", "a model is no person"),
    (said("q", "right", provenance="corrected"), True, None, "a person went over it"),
]


@pytest.mark.parametrize(("label", "counts", "why"), [row[:3] for row in ABOUT], ids=[row[3] for row in ABOUT])
def test_which_labels_count(label: Label, counts: bool, why: str | None) -> None:
    kept, left_out = select_labels([label], names=("run_1", "nightly"), metric="m")
    assert bool(kept) is counts
    assert dict(left_out) == ({} if why is None else {why: 1})


def test_with_two_runs_a_label_says_which() -> None:
    with pytest.raises(ValueError, match="sample 'q' does not say which run's answer"):
        select_labels([said("q", "right")], names=("run_1",), metric="m", alone=False)


def test_scores_without_a_run_take_labels_of_any() -> None:
    kept, _ = select_labels([said("q", "right", run="whatever")], names=(), metric="m")
    assert len(kept) == 1


def test_labels_that_tuned_the_prompt_are_refused() -> None:
    labels = [said("q", "right", tuning=True), said("p", "right"), said("r", "wrong")]
    with pytest.raises(ValueError, match=r"1 of 3 labels served to tune .* sample 'q'.* --leave-out-tuned"):
        reject_tuning_labels(labels, (), leave_out=False)
    with pytest.raises(ValueError, match="1 of 2 labels served to tune"):
        reject_tuning_labels(labels[1:], {"r"}, leave_out=False)
    fresh, tuned = reject_tuning_labels(labels, {"r"}, leave_out=True)
    assert ([one.sample_id for one in fresh], tuned) == (["p"], 2)
    assert reject_tuning_labels(labels[1:], {"elsewhere"}, leave_out=False) == (labels[1:], 0)


def test_people_with_each_other() -> None:
    labels = [said(f"q{n}", "right" if n < 6 else "wrong") for n in range(10)]
    labels += [said(f"q{n}", "right" if n < 5 else "wrong", "bob") for n in range(8)]
    labels += [said("q9", "right", "eve", adjudicated=True)]
    found = rater_agreement(labels)
    assert found is not None
    assert found.rated == {"ann": 10, "bob": 8}  # who settles is no annotator
    (pair,) = found.pairs
    assert (pair.first, pair.second, pair.agreement.units) == ("ann", "bob", 8)
    assert pair.agreement.value == 7 / 8
    # Of eight, ann calls six right and bob five: by chance 30 + 6 of 64 are equal.
    assert pair.kappa.value == pytest.approx(float((Fraction(7, 8) - Fraction(36, 64)) / (1 - Fraction(36, 64))))
    assert found.level == "nominal"
    assert found.to_dict()["pairs"][0]["annotators"] == ["ann", "bob"]


def test_one_annotator_has_nobody_to_agree_with() -> None:
    assert rater_agreement([said("q", "right"), said("p", "wrong")]) is None


def test_a_scale_has_an_order() -> None:
    labels = [said(f"q{n}", n % 5) for n in range(10)] + [said(f"q{n}", min(4, n % 5 + 1), "bob") for n in range(10)]
    found = rater_agreement(labels)
    assert found is not None
    assert found.level == "ordinal"
    assert found.pairs[0].kappa.value is not None
    assert found.pairs[0].kappa.value > 0.5 > (found.pairs[0].agreement.value or 0)


def test_answers_of_two_runs_are_different_things() -> None:
    labels = [said("q", "right", run="a"), said("q", "wrong", "bob", run="b")]
    found = rater_agreement(labels)
    assert found is not None
    assert found.pairs == ()
    assert found.alpha.why_undefined == "nothing was rated by two"


def test_several_files(tmp_path: Path) -> None:
    write_labels(tmp_path / "ann.jsonl", [Label("q", "right")])
    write_labels(tmp_path / "bob.jsonl", [Label("q", "wrong")])
    found = read_annotations([tmp_path / "ann.jsonl", tmp_path / "bob.jsonl"])
    assert [one.annotator for one in found] == ["ann", "bob"]
    write_labels(tmp_path / "again.jsonl", [Label("q", "wrong", "ann")])
    with pytest.raises(ValueError, match=r"again.jsonl: 'ann' labelled sample 'q' in .*ann.jsonl too"):
        read_annotations([tmp_path / "ann.jsonl", tmp_path / "again.jsonl"])
