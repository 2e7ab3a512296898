"""``auepora label``: rejected options, sessions, agreement and adjudication."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.errors import BadValueError
from auepora_eval.io.labels import Label, read_labels, write_labels
from auepora_eval.labels.agreement import annotator_agreement, find_disagreements, group_by_annotator, previous_labels
from auepora_eval.labels.items import PreviousLabel, build_item, load_population
from auepora_eval.store.runs import RunStore
from helpers import stored_runs

Command = Callable[..., tuple[int, str, str]]
TypeLines = Callable[..., None]


REFUSED = [  # arguments, message, why
    (["label"], "give the RUN", "no run"),
    (["label", "nope"], "nope", "no such run"),
    (["label", "latest", "more"], "labels files go with --adjudicate", "a second name"),
    (["label", "latest", "--adjudicate"], "--adjudicate takes the labels files", "nothing to settle"),
    (["label", "latest", "--adjudicate", "a.jsonl", "--n", "3"], "--n draws samples", "a draw to settle"),
    (["label", "latest", "--scale", "5-1"], "a scale goes from one digit to a higher one", "a scale backwards"),
    (["label", "latest", "--json"], "--json goes with --agreement", "JSON of a form"),
    (["label", "latest", "--n", "0"], "0", "nobody"),
    (["label", "latest", "--stratify", "labels.nope"], "no sample has 'labels.nope'", "no such label"),
    (["label", "latest", "--stratify", "scenario"], "cannot slice by 'scenario'", "no path"),
    (["label", "latest", "--n", "1", "--stratify", "labels.scenario"], "fewer than the 2 groups", "too few"),
    (["label", "latest", "--labels", "runs.sqlite"], "--labels runs.sqlite is the input", "the store as labels"),
    (["label", "latest", "--labels", "bad.jsonl"], "bad.jsonl:1: unknown field 'lable'", "a broken file"),
    (["label", "latest", "--labels", "closed.jsonl"], "closed.jsonl: labelling is closed", "a closed batch"),
    (["label", "latest", "--provenance", "model"], "name the model that labels with --annotator", "an unnamed model"),
    (
        ["label", "latest", "--adjudicate", "a.jsonl", "--provenance", "model", "--annotator", "m"],
        "is for a person",
        "a model that settles",
    ),
    (["label", "--agreement"], "--agreement takes one labels file or more", "no files"),
    (["label", "--agreement", "no.jsonl"], "no.jsonl: no such file", "a file that is not there"),
    (["label", "--agreement", "--adjudicate", "a.jsonl"], "not both", "both"),
]


@pytest.mark.parametrize(("arguments", "message"), [row[:2] for row in REFUSED], ids=[row[2] for row in REFUSED])
def test_invalid_options(auepora: Command, labelled_run: str, arguments: list[str], message: str) -> None:
    Path("bad.jsonl").write_text('{"sample_id": "q1", "lable": "right"}\n')
    Path("closed.jsonl").write_text('{"format": "auepora-labels", "version": 2}\n{"event": "close", "by": "eve"}\n')
    Path("a.jsonl").write_text('{"sample_id": "q1", "label": "right", "annotator": "ann"}\n')
    code, out, err = auepora(*arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_line_by_line(auepora: Command, labelled_run: str, type_lines: TypeLines) -> None:
    command = ("label", "latest", "--n", "4", "--annotator", "ann")
    type_lines("r", "c not  quite", "w", "", "correct", "r r", "?", "a", "s")
    code, out, err = auepora(*command)
    assert code == 0
    assert "--- 1 of 4, 0 labelled, ann, nightly" in out
    assert "answer" in out
    assert "\x1b" not in out
    assert "> comment for the next label: not quite\n> saved: wrong, with the comment: not quite\n" in out
    assert out.count("--- 3 of 4, 2 labelled") == 3  # shown, after an empty line, and with the reference
    assert "'correct' was not understood; type r for right or w for wrong, or ? for help" in out
    assert "'r r' was not understood" in out
    assert "skip: the reason is saved" in out
    assert "Reference\n  | yes" in out
    assert "--- 4 of 4, 2 labelled, 1 skipped" in out
    assert out.endswith("labels.jsonl: 2 of 4 labelled by ann: 1 right, 1 wrong\n")
    assert "the same command continues with the others" in err
    first = read_labels("labels.jsonl")
    assert [(one.label, one.comment, one.run) for one in first] == [
        ("right", "", labelled_run),
        ("wrong", "not quite", labelled_run),
    ]

    type_lines("u", "u", "r", "r", "w", "x", "q", "r")
    code, out, err = auepora(*command)
    assert code == 0
    assert "--- 3 of 4, 2 labelled" in out
    assert "4 labelled: 3 right, 1 wrong." in out
    assert "'x' was not understood; type q to quit or u to undo" in out
    assert [one.label for one in read_labels("labels.jsonl")] == ["right", "right", "right", "wrong"]
    assert "the same command" not in err


def test_labels_from_the_form_calibrate(auepora: Command, labelled_run: str, type_lines: TypeLines) -> None:
    type_lines("r", "w", "r", "r", "w", "r")
    command = ("--n", "6", "--stratify", "labels.scenario", "--annotator", "ann")
    assert auepora("label", "latest", *command)[0] == 0
    code, out, err = auepora("judge", "calibrate", "latest", "--labels", "labels.jsonl", "-m", "mrr")
    assert code == 0, err
    assert "6 labelled of 6 drawn at random from 11 answers" in out


def test_labels_of_a_model_are_marked_and_calibrate_nothing(
    auepora: Command, labelled_run: str, type_lines: TypeLines
) -> None:
    command = ("label", "latest", "--n", "6", "--labels", "model.jsonl", "--annotator", "small-model")
    type_lines("r", "w", "r", "r", "w", "r")
    code, out, _ = auepora(*command, "--provenance", "model")
    assert code == 0
    assert "--- 1 of 6, 0 labelled, small-model (a model), nightly" in out
    assert out.endswith("model.jsonl: 6 of 6 labelled by small-model (a model): 4 right, 2 wrong\n")
    assert {one.provenance for one in read_labels("model.jsonl")} == {"model"}
    code, out, err = auepora(*command)
    assert code == 2
    assert "'small-model' has labels of provenance 'model' in it, and this session would add 'human'" in err

    calibrate = ("judge", "calibrate", "latest", "--labels", "model.jsonl", "-m", "mrr")
    code, out, err = auepora(*calibrate)
    assert (code, out) == (2, "")
    assert "by_model 6; labels by a model do not calibrate a judge: some answers need human labels" in err

    type_lines("r", "w", "r", "r", "w", "w")
    assert auepora("label", "latest", "--n", "6", "--annotator", "ann")[0] == 0
    assert {one.provenance for one in read_labels("labels.jsonl")} == {"human"}
    code, out, err = auepora(*calibrate, "--labels", "labels.jsonl", "--all")
    assert code == 0, err
    assert "Labels left out: 6 given by a model." in out
    assert json.loads(auepora(*calibrate, "--labels", "labels.jsonl", "--json")[1])["people"] is None

    agreement = ("label", "--agreement", "labels.jsonl", "model.jsonl")
    assert "labelled: ann 6, small-model (a model) 6" in auepora(*agreement)[1]
    assert json.loads(auepora(*agreement, "--json")[1])["models"] == ["small-model"]


def test_another_seed_needs_another_file(auepora: Command, labelled_run: str, type_lines: TypeLines) -> None:
    type_lines("r")
    assert auepora("label", "latest", "--annotator", "ann")[0] == 0
    code, _, err = auepora("label", "latest", "--annotator", "ann", "--seed", "1")
    assert code == 2
    assert "the samples were drawn with --seed 0 without --stratify" in err
    type_lines("1")
    code, _, err = auepora("label", "latest", "--annotator", "ann", "--scale", "1-5")
    assert code == 2
    assert "this session expects numbers from 1 to 5" in err


def labels_of(annotator: str, labels: str, **more: Any) -> list[Label]:
    """Labels of q0, q1, ... : r, w, a digit, or - for none."""
    words = {"r": "right", "w": "wrong"}
    return [
        Label(f"q{place}", words[one] if one in words else int(one), annotator, **more)
        for place, one in enumerate(labels)
        if one != "-"
    ]


def test_agreement_of_two(auepora: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_labels("ann.jsonl", labels_of("ann", "rrrwwr-"))
    write_labels("bob.jsonl", labels_of("bob", "rrwww-r"))
    report = annotator_agreement(["ann.jsonl", "bob.jsonl"])
    (pair,) = report.raters.pairs
    assert pair.agreement.value == 4 / 5
    # ann says right 3 of 5, bob 2 of 5: chance 6/25 + 6/25; (20/25 - 12/25) / (13/25) = 8/13.
    assert pair.kappa.value == pytest.approx(8 / 13)
    # Ten values, five of each: 1 - 9 * 2 / 50, two of ten ordered pairs within a unit being different.
    assert report.raters.alpha.value == pytest.approx(1 - (2 / 10) / (50 / 90))
    assert [(one.unit.sample_id, dict(one.labels)) for one in report.disputes] == [
        ("q2", {"ann": "right", "bob": "wrong"})
    ]
    code, out, _ = auepora("label", "--agreement", "ann.jsonl", "bob.jsonl")
    assert code == 0
    assert "labelled: ann 6, bob 6" in out
    assert "0.800" in out
    assert "0.615" in out
    assert "1 labelled differently:\n  q2: ann right, bob wrong" in out
    code, out, _ = auepora("label", "--agreement", "ann.jsonl", "bob.jsonl", "--json")
    assert json.loads(out)["disputes"] == [
        {"sample_id": "q2", "run": None, "metric": None, "said": {"ann": "right", "bob": "wrong"}}
    ]
    write_labels("grades.jsonl", [Label("q1", grade, name, doc_id="d1") for name, grade in (("ann", 2), ("bob", 0))])
    assert "\n  q1, d1: ann 2, bob 0" in auepora("label", "--agreement", "grades.jsonl")[1]


def test_three_in_one_file_and_a_scale(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    write_labels(path, [*labels_of("a", "123"), *labels_of("b", "124"), *labels_of("c", "---"), *labels_of("c", "1--")])
    report = annotator_agreement([path])
    assert report.raters.level == "ordinal"
    assert {(one.first, one.second): one.agreement.value for one in report.raters.pairs} == {
        ("a", "b"): 2 / 3,
        ("a", "c"): 1.0,
        ("b", "c"): 1.0,
    }
    assert [dict(one.labels) for one in report.disputes] == [{"a": "3", "b": "4"}]


def test_decisions_are_not_counted_as_labels_outside_the_draw(tmp_path: Path) -> None:
    drawn: dict[str, Any] = {"run": "r", "draw": "d", "probability": 0.5}
    labels = [*labels_of("ann", "rrw", **drawn), *labels_of("bob", "rrw", **drawn)]
    labels += [Label("q9", "right", name, "r") for name in ("ann", "bob")]
    write_labels(tmp_path / "all.jsonl", [*labels, Label("q9", "wrong", "eve", "r", adjudicated=True)])
    report = annotator_agreement([tmp_path / "all.jsonl"])
    assert (report.left_out, report.chosen) == (2, 0)


def test_agreement_needs_two_annotators(tmp_path: Path) -> None:
    write_labels(tmp_path / "a.jsonl", labels_of("ann", "rw"))
    with pytest.raises(BadValueError, match="needs at least two annotators, and all labels are of 'ann'"):
        annotator_agreement([tmp_path / "a.jsonl"])
    write_labels(tmp_path / "none.jsonl", [])
    with pytest.raises(BadValueError, match="there are no labels"):
        annotator_agreement([tmp_path / "none.jsonl"])


def test_adjudicated_labels_belong_to_no_annotator(tmp_path: Path) -> None:
    labels = [*labels_of("ann", "rr"), *labels_of("bob", "rw"), Label("q1", "right", "eve", adjudicated=True)]
    assert list(group_by_annotator(labels)) == ["ann", "bob"]
    assert [unit.sample_id for unit in find_disagreements(group_by_annotator(labels))] == ["q1"]


def test_previous_labels_with_and_without_names() -> None:
    annotators = group_by_annotator(
        [Label("q1", True, "ann"), Label("q1", "wrong", "bob", comment="no"), Label("q2", 3, "ann")]
    )
    units = find_disagreements(annotators)
    assert previous_labels(annotators, units) == {
        "q1": [PreviousLabel("ann", "right"), PreviousLabel("bob", "wrong", "no")]
    }
    assert previous_labels(annotators, units, blind=True) == {
        "q1": [PreviousLabel("annotator 1", "right"), PreviousLabel("annotator 2", "wrong", "no")]
    }


def test_nothing_to_adjudicate(auepora: Command, labelled_run: str) -> None:
    write_labels("ann.jsonl", [Label("q00001", "right", "ann", labelled_run)])
    write_labels("bob.jsonl", [Label("q00001", "right", "bob", labelled_run)])
    write_labels("eve.jsonl", [Label("q00001", "wrong", "eve", "another run")])
    code, out, _ = auepora("label", "latest", "--adjudicate", "ann.jsonl", "bob.jsonl", "eve.jsonl")
    assert (code, out) == (0, "the annotators agree on every answer that two of them labelled\n")
    code, _, err = auepora("label", "latest", "--adjudicate", "ann.jsonl", "eve.jsonl")
    assert code == 2
    assert f"answers of {labelled_run} were labelled by 'ann'; adjudication needs two annotators" in err


def test_labels_of_unknown_samples(auepora: Command, labelled_run: str) -> None:
    write_labels("ann.jsonl", [Label("elsewhere", "right", "ann")])
    write_labels("bob.jsonl", [Label("elsewhere", "wrong", "bob")])
    code, _, err = auepora("label", "latest", "--adjudicate", "ann.jsonl", "bob.jsonl")
    assert code == 2
    assert "has no answer to sample 'elsewhere'" in err


def test_population_of_a_run(labelled_run: str) -> None:
    with RunStore.open("runs.sqlite") as store:
        everybody = load_population(store, labelled_run)
        by_scenario = load_population(store, labelled_run, "labels.scenario")
        output = next(row.output for row in store.outputs(labelled_run, repeat=0, position=3))
        one = build_item(store.samples(labelled_run)[3], output)
    assert len(everybody.strata) == 11  # of twelve, one failed
    assert everybody.left_out == {"failed": 1}
    assert set(by_scenario.strata.values()) == {"rare", "usual"}
    assert (one.question, one.references) == ("question 3?", ("yes",))
    assert [(doc.doc_id, doc.gold) for doc in one.evidence] == [("aside", False), ("gold", True)]


def test_several_labels_are_a_stratum_of_their_own(tmp_path: Path) -> None:
    dataset = stored_runs.samples(4)
    for sample, kinds in zip(dataset, ["a", ["a", "b"], ["a", "b"], None], strict=True):
        sample.labels["kind"] = kinds
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        record = stored_runs.run(store, "r", dataset, lambda _: "yes", ["mrr"])
        assert list(load_population(store, record.run_id, "labels.kind").strata.values()) == [
            "a",
            "a, b",
            "a, b",
            "(none)",
        ]


def test_a_run_without_answers(tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        record = stored_runs.run(store, "r", stored_runs.samples(2), lambda _: ValueError("no"), ["mrr"])
        with pytest.raises(BadValueError, match="has no answer to label: failed 2"):
            load_population(store, record.run_id)
