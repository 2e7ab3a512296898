"""Human labels: which ones count, annotator agreement, and aggregation."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.io.labels import Label, write_labels
from auepora_eval.judge.ratings import Scale
from auepora_eval.labels.agreement import (
    aggregate_labels,
    rater_agreement,
    read_annotations,
    reject_tuning_labels,
    select_labels,
)


def make_label(sample: str, label: Any, who: str = "ann", **more: Any) -> Label:
    return Label(sample, label, who, **more)


SETTLED: list[tuple[list[Label], dict[str, float], tuple[str, ...], str]] = [
    ([make_label("q", "right")], {"q": 1.0}, (), "one label"),
    ([make_label("q", "right"), make_label("q", "wrong", "bob")], {}, ("q",), "a tie is no label"),
    (
        [make_label("q", "right"), make_label("q", "wrong", "bob"), make_label("q", "wrong", "cy")],
        {"q": 0.0},
        (),
        "the majority",
    ),
    (
        [make_label("q", "right"), make_label("q", "right", "bob"), make_label("q", "wrong", "eve", adjudicated=True)],
        {"q": 0.0},
        (),
        "what was adjudicated wins over a majority",
    ),
    (
        [make_label("q", "right"), make_label("q", "wrong", "bob"), make_label("q", "right", "ann", adjudicated=True)],
        {"q": 1.0},
        (),
        "one of them settles it",
    ),
    (
        [make_label("q", "right", "eve", adjudicated=True), make_label("q", "wrong", "ann", adjudicated=True)],
        {},
        ("q",),
        "two who settle it differently",
    ),
    (
        [make_label("q", True), make_label("q", 1, "bob"), make_label("p", 0.0)],
        {"q": 1.0, "p": 0.0},
        (),
        "true and 1 are right",
    ),
    (
        [make_label("q", 0.25), make_label("q", 0.75, "bob"), make_label("p", 1)],
        {"q": 0.5, "p": 1.0},
        (),
        "numbers are averaged",
    ),
    ([make_label("q", "wrong"), make_label("q", "right", metric="m")], {"q": 1.0}, (), "a label for the metric itself"),
    ([make_label("q", "right", metric="m"), make_label("q", "wrong")], {"q": 1.0}, (), "in whatever order"),
]


@pytest.mark.parametrize(("labels", "values", "ties"), [row[:3] for row in SETTLED], ids=[row[3] for row in SETTLED])
def test_one_label_per_sample(labels: list[Label], values: dict[str, float], ties: tuple[str, ...]) -> None:
    found = aggregate_labels(labels)
    assert (dict(found.values), found.ties) == (values, ties)


def test_labels_on_a_scale() -> None:
    labels = [make_label("q", 4), make_label("q", 5, "bob"), make_label("p", "wrong")]
    found = aggregate_labels(labels, Scale.parse("1-5"))
    assert found.values == {"q": float(Fraction(7, 8)), "p": 0.0}
    assert not found.binary
    with pytest.raises(ValueError, match="the label of sample 'q' is 4, beyond 0 to 1; set the scale of the labels"):
        aggregate_labels(labels)
    with pytest.raises(ValueError, match="is 6, beyond 1 to 5; correct the label"):
        aggregate_labels([make_label("q", 6)], Scale.parse("1-5"))


def test_adjudicated_labels_are_counted() -> None:
    found = aggregate_labels(
        [make_label("q", "right", adjudicated=True), make_label("q", "wrong"), make_label("p", "right")]
    )
    assert (found.adjudicated, found.binary) == (1, True)


ABOUT = [
    (make_label("q", "right"), True, None, "a label that names no run"),
    (make_label("q", "right", run="run_1"), True, None, "by the id of the run"),
    (make_label("q", "right", run="nightly"), True, None, "by its name"),
    (make_label("q", "right", run="run_2"), False, "other_run", "of another run"),
    (make_label("q", "right", metric="m"), True, None, "for the metric"),
    (make_label("q", "right", metric="n"), False, "other_metric", "for another metric"),
    (make_label("q", "right", provenance="model"), False, "by_model", "a model is no person"),
    (make_label("q", "right", provenance="corrected"), True, None, "a person went over it"),
]


@pytest.mark.parametrize(("label", "counts", "why"), [row[:3] for row in ABOUT], ids=[row[3] for row in ABOUT])
def test_which_labels_count(label: Label, counts: bool, why: str | None) -> None:
    kept, left_out = select_labels([label], names=("run_1", "nightly"), metric="m")
    assert bool(kept) is counts
    assert dict(left_out) == ({} if why is None else {why: 1})


def test_with_two_runs_labels_need_a_run() -> None:
    with pytest.raises(ValueError, match="sample 'q' does not say which run's answer"):
        select_labels([make_label("q", "right")], names=("run_1",), metric="m", alone=False)


def test_scores_without_a_run_use_labels_of_any_run() -> None:
    kept, _ = select_labels([make_label("q", "right", run="whatever")], names=(), metric="m")
    assert len(kept) == 1


def test_labels_that_tuned_the_prompt_are_rejected() -> None:
    labels = [make_label("q", "right", tuning=True), make_label("p", "right"), make_label("r", "wrong")]
    with pytest.raises(ValueError, match=r"1 of 3 labels were used to tune .* sample 'q'.* --leave-out-tuned"):
        reject_tuning_labels(labels, (), leave_out=False)
    with pytest.raises(ValueError, match="1 of 2 labels were used to tune"):
        reject_tuning_labels(labels[1:], {"r"}, leave_out=False)
    fresh, tuned = reject_tuning_labels(labels, {"r"}, leave_out=True)
    assert ([one.sample_id for one in fresh], tuned) == (["p"], 2)
    assert reject_tuning_labels(labels[1:], {"elsewhere"}, leave_out=False) == (labels[1:], 0)


def test_rater_agreement() -> None:
    labels = [make_label(f"q{n}", "right" if n < 6 else "wrong") for n in range(10)]
    labels += [make_label(f"q{n}", "right" if n < 5 else "wrong", "bob") for n in range(8)]
    labels += [make_label("q9", "right", "eve", adjudicated=True)]
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


def test_no_agreement_of_a_single_annotator() -> None:
    assert rater_agreement([make_label("q", "right"), make_label("p", "wrong")]) is None


def test_a_scale_has_an_order() -> None:
    labels = [make_label(f"q{n}", n % 5) for n in range(10)] + [
        make_label(f"q{n}", min(4, n % 5 + 1), "bob") for n in range(10)
    ]
    found = rater_agreement(labels)
    assert found is not None
    assert found.level == "ordinal"
    assert found.pairs[0].kappa.value is not None
    assert found.pairs[0].kappa.value > 0.5 > (found.pairs[0].agreement.value or 0)


def test_answers_of_two_runs_are_different_units() -> None:
    labels = [make_label("q", "right", run="a"), make_label("q", "wrong", "bob", run="b")]
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
