"""``auepora label --for A B``: the draw, the forecast, blind sessions, and verdicts at sizes fixed before the first label."""

import csv
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from auepora_eval import RunStore
from auepora_eval.calibration.calibrate import calibrate
from auepora_eval.errors import BadValueError, DataFileError
from auepora_eval.io.labels import Label, read_labels, write_labels
from auepora_eval.labels.draws import LabelDraw, describe_forecast, draw_comparison, read_draws, record_draw
from auepora_eval.store.runs import decisions
from helpers.requirements import need_data
from helpers.stored_runs import run, samples

pytestmark = pytest.mark.usefixtures("few_draws")

Cli = Callable[..., tuple[int, str, str]]
TypeLines = Callable[..., None]
N = 60
COMPARE = ("label", "--for", "old", "new", "-m", "containment", "--labels", "pairs.jsonl", "--annotator", "ann")
CALIBRATE = ("judge", "calibrate", "old", "new", "--labels", "pairs.jsonl")


def predictions(n: int = 200) -> dict[str, tuple[float, float]]:
    """Answers of the first run are certain; of the second, one in four is uncertain, and the others are right."""
    return {f"q{number}": (0.0, 0.5 if number % 4 == 0 else 1.0) for number in range(n)}


def drawn(n: int = 20, seed: int = 0, **options: object) -> LabelDraw:
    found = predictions()
    return draw_comparison(found, n, runs=("a", "b"), metric="m", seed=seed, **options)  # type: ignore[arg-type]


def test_uncertain_answers_are_drawn_more_often() -> None:
    seeds, total = 60, 0
    for seed in range(seeds):
        draw = drawn(seed=seed)
        assert len(draw.drawn_items) == 20
        probabilities = {int(one[1:]) % 4 == 0: found for one, found in draw.probabilities().items()}
        total += sum(int(one[1:]) % 4 == 0 for one in draw.sample_ids)
    assert probabilities[False] < probabilities[True]
    assert 50 * probabilities[True] + 150 * probabilities[False] == pytest.approx(20)
    # The standard deviation of the number of uncertain samples is below that of independent draws.
    expected = seeds * 50 * probabilities[True]
    assert abs(total - expected) < 5 * np.sqrt(expected)


def test_looks_draw_with_equal_probabilities() -> None:
    draw = drawn(40, looks=4, delta=0.1)
    assert set(draw.probabilities().values()) == {0.2}
    assert draw.comparison is not None
    assert draw.comparison.looks == (10, 20, 30, 40)
    assert "tested at 10, 20, 30, 40 samples" in describe_forecast(draw)[-1]


def test_a_small_difference_is_called_undecidable_before_the_first_label() -> None:
    small = {f"q{number}": (0.5, 0.5 + 0.01 * (number % 2)) for number in range(400)}
    text = "\n".join(describe_forecast(draw_comparison(small, 40, runs=("a", "b"), metric="m")))
    assert "The judge sees a difference of 0.005, which is below the decidable size with 40 samples" in text
    assert "not even labels of all samples decide it" in text
    large = "\n".join(describe_forecast(drawn(100)))
    assert "which is above the decidable size" in large
    margin = "\n".join(describe_forecast(drawn(20, delta=0.2)))
    assert "The margin of equality is 0.200, which is below the decidable size with 20 samples; about" in margin


FIXED = [  # options of a second draw, message, why
    ({"seed": 1}, "was designed with seed 0 before its first label, not with 1", "another seed"),
    ({"n": 30}, "was designed with n 20 before its first label, not with 30", "more samples"),
    ({"delta": 0.05}, "was designed with delta none before its first label, not with 0.05", "a margin"),
    ({"looks": 2}, "was designed with looks none before its first label, not with 10, 20", "looks"),
]


@pytest.mark.parametrize(("options", "message"), [row[:2] for row in FIXED], ids=[row[2] for row in FIXED])
def test_the_design_is_fixed(tmp_path: Path, options: dict[str, object], message: str) -> None:
    path = tmp_path / "pairs.jsonl"
    first = record_draw(path, drawn())
    assert read_draws(path) == {"a b": first}
    assert record_draw(path, drawn()) == first
    with pytest.raises(DataFileError, match=message):
        record_draw(path, drawn(**options))  # type: ignore[arg-type]
    swapped = draw_comparison(predictions(), 20, runs=("b", "a"), metric="m")
    with pytest.raises(DataFileError, match="designed as a b; name the runs in this order"):
        record_draw(path, swapped)


def test_an_edited_draw_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    record_draw(path, drawn(40, looks=4, delta=0.1))
    record = tmp_path / "pairs.draw.json"
    record.write_text(record.read_text().replace('"delta": 0.1', '"delta": 0.2'))
    with pytest.raises(DataFileError, match="changed after the draw; restore it"):
        read_draws(path)


def test_a_draw_needs_enough_samples() -> None:
    for n in (9, 201):
        with pytest.raises(BadValueError, match=f"cannot draw {n} of 200 samples"):
            drawn(n)


# --- the command -----------------------------------------------------------------------------------------------------


Truth = dict[tuple[str, str], bool]
"""What people say of the answers of stored runs, by sample and run."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    """A folder with three stored runs, to be copied."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(3)
    truth: Truth = {}
    with RunStore.open(folder / "runs.sqlite") as store:
        for name, share in (("third", 0.5), ("old", 0.2), ("new", 0.9)):
            labels = rng.random(N) < share
            values = np.where(rng.random(N) < 0.1, ~labels, labels)
            answers = [f"{'yes' if one else 'no'}, says {name}" for one in values]
            record = run(store, name, samples(N), answers.__getitem__, ["containment", "token_f1"])
            own = {f"q{number:05}": bool(one) for number, one in enumerate(labels)}
            truth |= {(one, record.run_id): label for one, label in own.items()}
            if name == "third":
                write_labels(folder / "third.jsonl", [Label(one, label, run=name) for one, label in own.items()])
    return folder, truth


@pytest.fixture
def truth(made: tuple[Path, Truth], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Truth:
    """The labels that people would give; the runs are in the folder where the test is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    shutil.copytree(made[0], tmp_path, dirs_exist_ok=True)
    return made[1]


def answer_all(auepora: Cli, type_lines: TypeLines, truth: Truth, *options: str, num_samples: int) -> None:
    """Label both answers of so many drawn samples as people would."""
    type_lines("q")
    code, _, err = auepora(*COMPARE, *options)
    assert code == 0, err
    (draw,) = read_draws("pairs.jsonl").values()
    # The order of the two answers is not known here, so labels are written as the form would write them.
    selections = draw.selections()
    rows = [
        Label(one, truth[one, run], "ann", run, draw=draw.id, probability=selections[one].probability)
        for one in draw.sample_ids[:num_samples]
        for run in draw.runs
    ]
    write_labels("pairs.jsonl", rows)


def test_preview_draws_nothing(truth: Truth, auepora: Cli) -> None:
    code, out, _ = auepora(*COMPARE, "--n", "20", "--preview", "--json")
    assert code == 0
    found = json.loads(out)
    assert (found["n"], found["metric"], found["looks"], found["seed"]) == (20, "containment", [], 0)
    assert found["forecast"]["half_width"] > 0
    code, out, _ = auepora(*COMPARE, "--n", "20", "--preview", "--history", "third.jsonl")
    assert code == 0
    assert "Forecast, from earlier labels" in out
    assert not Path("pairs.jsonl").exists()
    assert not Path("pairs.draw.json").exists()


def test_both_answers_are_labelled_without_names(truth: Truth, auepora: Cli, type_lines: TypeLines) -> None:
    type_lines("r", "w", "r", "u", "w", "q")
    code, out, err = auepora(*COMPARE, "--n", "20")
    assert code == 0, err
    assert "20 of 60 samples are drawn for the difference in containment" in out
    assert out.index("Forecast") < out.index("--- 1 of 40, 0 labelled, ann")
    with RunStore.open("runs.sqlite") as store:
        names = [name for one in ("old", "new") for name in (f", {one}", store.find(one).run_id)]
    assert not any(name in out.partition("--- 1 of 40")[2] for name in names)
    labels = read_labels("pairs.jsonl")
    (draw,) = read_draws("pairs.jsonl").values()
    assert [one.sample_id for one in labels] == [draw.sample_ids[place] for place in (0, 0, 1)]
    assert {one.run for one in labels[:2]} == set(draw.runs)
    assert [(one.draw, one.position, one.label) for one in labels] == [
        (draw.id, 1, "right"),
        (draw.id, 1, "wrong"),
        (draw.id, 2, "wrong"),
    ]
    assert labels[0].probability == draw.probabilities()[labels[0].sample_id]
    type_lines("q")
    code, out, _ = auepora(*COMPARE, "--n", "20")
    assert "--- 4 of 40, 3 labelled, ann" in out
    for file in ("pairs.jsonl", "others.jsonl"):
        code, _, err = auepora(*COMPARE, "--n", "20", "--seed", "1", "--labels", file)
        assert code == 2
        assert "was designed with seed 0 before its first label, not with 1" in err
    assert not Path("others.draw.json").exists()


def test_the_verdict_comes_when_all_are_labelled(truth: Truth, auepora: Cli, type_lines: TypeLines) -> None:
    assert auepora("compare", "third", "old")[0] == 0
    answer_all(auepora, type_lines, truth, "--n", "30", "--history", "third.jsonl", num_samples=25)
    code, out, err = auepora(*CALIBRATE, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert (found["verdict"], found["difference"]) == (None, None)
    assert found["no_verdict"].startswith("25 of 30 drawn samples are labelled")
    answer_all(auepora, type_lines, truth, "--n", "30", "--history", "third.jsonl", num_samples=30)
    code, out, _ = auepora(*CALIBRATE)
    assert code == 0
    assert "By people, new is better than old." in out
    assert "this test set has decided 1 comparison before" in out
    assert "30 of 60" in out
    with RunStore.open("runs.sqlite") as store:
        (decision,) = decisions(store, kind="labels")
    assert decision.body["verdicts"] == {"containment": "better"}
    code, _, err = auepora("judge", "calibrate", "new", "old", "--labels", "pairs.jsonl")
    assert code == 2
    assert "name the runs in this order" in err


def test_the_verdict_comes_at_the_looks(truth: Truth, auepora: Cli, type_lines: TypeLines) -> None:
    options = ("--n", "40", "--looks", "4")
    answer_all(auepora, type_lines, truth, *options, num_samples=9)
    code, out, _ = auepora(*CALIBRATE)
    assert code == 0
    assert "no verdict so far: the next look is at 10 samples" in out
    assert "By people" not in out
    answer_all(auepora, type_lines, truth, *options, num_samples=30)
    found = json.loads(auepora(*CALIBRATE, "--json")[1])
    assert found["verdict"] == "better"
    assert found["register"] == {"before": 0, "by_kind": {}, "recorded": True}
    assert found["difference"] is None  # no interval for a fixed number of samples
    stopped = found["sequential"]["stopped_at"]
    assert stopped in (10, 20, 30)
    answer_all(auepora, type_lines, truth, *options, num_samples=40)
    text = auepora(*CALIBRATE, "--all")[1]
    assert f"Sequential test, ended after {stopped} samples; the first verdict stands." in text


WRONG = [  # arguments, message, why
    (["label", "--for", "old", "old", "-m", "containment"], "names the same run twice", "one run"),
    (["label", "third", "--for", "old", "new"], "--for names both runs", "a third run"),
    (["label", "old", "--delta", "0.1"], "--delta goes with --for", "a margin of nothing"),
    (["label", "old", "--sample", "q00001", "--n", "3"], "--sample picks samples; leave out --n", "picked and drawn"),
    (["label", "old", "--sample", "q1"], "has no answer to sample 'q1'", "no such sample"),
    ([*COMPARE, "--n", "20", "--delta", "-0.1"], "delta must be above 0 and below 1", "a negative margin"),
    ([*COMPARE, "--n", "20", "--delta", "1.5"], "delta must be above 0 and below 1", "a margin above the range"),
    ([*COMPARE, "--n", "20", "--seed", "-1"], "seed of a draw must be 0 or more", "a negative seed"),
    (
        ["label", "--for", "old", "new", "-m", "containment", "--n", "20", "--history", "few.jsonl"],
        "there are 1 labels of answers of earlier runs",
        "hardly any history",
    ),
    (
        ["label", "--for", "old", "new", "-m", "containment", "--n", "20", "--history", "picked.jsonl"],
        "the labels of third are not of a random sample",
        "history without a draw",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), [row[:2] for row in WRONG], ids=[row[2] for row in WRONG])
def test_invalid_options(truth: Truth, auepora: Cli, arguments: list[str], message: str) -> None:
    write_labels("few.jsonl", [Label("q00001", True, run="third")])
    write_labels("picked.jsonl", [Label(f"q{n:05}", n % 2 == 0, run="third") for n in range(40)])
    code, _, err = auepora(*arguments)
    assert code == 2
    assert message in err


def test_runs_about_different_questions_are_refused(truth: Truth, auepora: Cli) -> None:
    others = [replace(one, query=f"why {one.query}") for one in samples(N)]
    with RunStore.open("runs.sqlite") as store:
        run(store, "elsewhere", others, lambda _: "yes", ["containment"])
    code, _, err = auepora("label", "--for", "old", "elsewhere", "-m", "containment", "--n", "20", "--preview")
    assert (code, "different datasets: sample 'q00000' has another question in each" in err) == (2, True)


def test_a_refused_file_fixes_no_design(truth: Truth, auepora: Cli, type_lines: TypeLines) -> None:
    options = ("label", "--for", "old", "new", "-m", "containment", "--annotator", "ann")
    code, _, err = auepora(*options, "--n", "30", "--labels", "missing/pairs.jsonl")
    assert code == 2
    assert "its folder does not exist" in err
    with RunStore.open("runs.sqlite") as store:
        runs = store.find("old").run_id, store.find("new").run_id
        record_draw("pairs.jsonl", draw_comparison(predictions(), 20, runs=runs, metric="containment", seed=7))
        code, _, err = auepora(*options, "--n", "20", "--labels", "pairs.jsonl")
        assert (code, "was designed with seed 7" in err) == (2, True)
        assert decisions(store) == []


def test_picked_samples_are_kept_and_never_used(truth: Truth, auepora: Cli, type_lines: TypeLines) -> None:
    type_lines("r", "w")
    picked = ("--sample", "q00003", "--sample", "q00001", "--annotator", "ann", "--labels", "own.jsonl")
    code, out, _ = auepora("label", "old", *picked)
    assert code == 0
    assert out.endswith("own.jsonl: 2 of 2 labelled by ann: 1 right, 1 wrong\n")
    assert [(one.sample_id, one.chosen, one.draw) for one in read_labels("own.jsonl")] == [
        ("q00003", True, None),
        ("q00001", True, None),
    ]
    code, _, err = auepora(
        "judge", "calibrate", "old", "--labels", "own.jsonl", "-m", "containment", "--assume-random", "--all"
    )
    assert code == 2
    assert "chosen 2; labels of samples that a person picked say nothing about the others" in err
    type_lines(*["r", "w"] * 30)
    assert auepora("label", "old", "--annotator", "ann", "--labels", "own.jsonl")[0] == 0
    code, out, _ = auepora("judge", "calibrate", "old", "--labels", "own.jsonl", "-m", "containment", "--all")
    assert code == 0
    assert "Labels left out: 2 of samples that a person picked." in out


def test_adjudicated_labels_keep_the_draw(truth: Truth, auepora: Cli, type_lines: TypeLines) -> None:
    for name, lines in (("ann", "rrrw"), ("bob", "rwrw")):
        type_lines(*lines)
        assert auepora("label", "old", "--n", "4", "--annotator", name, "--labels", f"{name}.jsonl")[0] == 0
    type_lines("r")
    files = ("ann.jsonl", "bob.jsonl", "--labels", "settled.jsonl", "--annotator", "eve")
    assert auepora("label", "old", "--adjudicate", *files)[0] == 0
    (settled,) = read_labels("settled.jsonl")
    (before,) = [one for one in read_labels("ann.jsonl") if one.sample_id == settled.sample_id]
    assert (settled.draw, settled.probability, settled.position) == (before.draw, 4 / N, 2)
    assert settled.shown is not None
    assert "labels" in settled.shown


# --- labels where the judge said no ----------------------------------------------------------------------------------


def test_labels_of_answers_that_the_judge_rejects_are_refused() -> None:
    """People accept .55 of these answers, and .19 of those that GPT-4 rejects; the latter is no estimate of the mean."""
    tables = {}
    for name in ("human", "gpt-4"):
        with need_data("nq301", f"NQ301_{name}.tsv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        tables[name] = {f"{one['Question']} {one['Model answer']}": one["Acceptable?"] == "Yes" for one in rows}
    people, judge = tables["human"], tables["gpt-4"]
    scores = {one: float(accepted) for one, accepted in judge.items() if one in people}
    labels = [Label(one, people[one]) for one in scores]
    (census,) = calibrate(labels, scores).judged
    assert census.corrected.value == pytest.approx(0.55, abs=0.005)
    rejected = [label for label in labels if not judge[label.sample_id]]
    with pytest.raises(BadValueError, match=r"nothing says how the .* samples with a label were selected"):
        calibrate(rejected, scores)
    (stated,) = calibrate(rejected, scores, assume_random=True).judged
    assert stated.corrected.value == pytest.approx(0.19, abs=0.005)
    assert any("as stated with --assume-random" in note for note in stated.notes)
