"""``auepora judge calibrate`` with a real store and label files."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auepora_eval import RunStore
from auepora_eval.io.labels import Label, write_labels
from auepora_eval.labels.draws import draw_samples, record_draw
from helpers.stored_runs import samples, scored

pytestmark = pytest.mark.usefixtures("few_draws")

Cli = Callable[..., tuple[int, str, str]]
N = 120


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, where the test is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    return tmp_path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of ``project``, to be copied."""
    where = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(11)
    labels: dict[str, list[Label]] = {"ann": [], "bob": []}
    with RunStore.open(where / "runs.sqlite") as store:
        for name, share in (("old", 0.4), ("new", 0.8)):
            truth = rng.random(N) < share
            values = np.where(rng.random(N) < 0.1, ~truth, truth).astype(float)
            record = scored(store, name, samples(N), {"containment": values.tolist(), "token_f1": values.tolist()})
            draw = draw_samples({f"q{n:05}": "all" for n in range(N)}, 30, run=record.run_id)
            record_draw(str(where / "ann.jsonl"), draw)
            for one in draw.sample_ids:
                right = bool(truth[int(one[1:])])
                labels["ann"].append(Label(one, right, "ann", run=record.run_id))
                labels["bob"].append(Label(one, right ^ bool(rng.random() < 0.1), "bob", run=record.run_id))
    for who, rows in labels.items():
        write_labels(where / f"{who}.jsonl", rows)
    return where


@pytest.fixture
def project(made: Path, folder: Path) -> Path:
    """A store with two runs, and labels of thirty samples of each by two annotators."""
    shutil.copytree(made, folder, dirs_exist_ok=True)
    return folder


def test_one_run(project: Path, auepora: Cli) -> None:
    code, out, err = auepora("judge", "calibrate", "--labels", "ann.jsonl", "-m", "containment", "--all")
    assert (code, err) == (0, "")
    assert "containment of new against people" in out
    assert "People with each other" not in out
    assert "30 labelled of 30 drawn at random from 120 answers" in out
    assert "30 of 120" in out
    assert "30 of other runs" in out


def test_correlations_have_intervals(project: Path, auepora: Cli) -> None:
    options = ("judge", "calibrate", "new", "--labels", "ann.jsonl", "-m", "containment")
    out = auepora(*options, "--all")[1]
    for name in ("Pearson", "Spearman", "Kendall"):
        assert sum(line.startswith(f"{name} ") and "–" in line for line in out.splitlines()) == 1
    (one,) = json.loads(auepora(*options, "--json")[1])["judged"]
    for name in ("pearson", "spearman", "kendall"):
        low, high = one[name]["interval"]
        assert -1 <= low < one[name]["value"] <= high <= 1
        assert one[name]["units"] == 30


def test_two_annotators(project: Path, auepora: Cli) -> None:
    code, out, _ = auepora(
        "judge", "calibrate", "new", "--labels", "ann.jsonl", "--labels", "bob.jsonl", "-m", "token_f1", "--json"
    )
    assert code == 0
    report = json.loads(out)
    assert report["people"]["annotators"] == {"ann": 30, "bob": 30}
    (one,) = report["judged"]
    assert one["labelled"] + one["left_out"].get("tied", 0) == 30
    assert one["metric"] == "token_f1"
    low, high = one["corrected"]["interval"]
    assert low < one["corrected"]["value"] < high
    assert one["corrected"]["samples"] == N


def test_two_runs(project: Path, auepora: Cli) -> None:
    options = ("--labels", "ann.jsonl", "-m", "containment")
    code, out, _ = auepora("judge", "calibrate", "old", "new", *options)
    assert code == 0
    assert "new - old" in out
    assert "By people, new is better than old." in out
    assert auepora("judge", "calibrate", "old", "new", *options, "-o", "page.md")[0] == 0
    page = Path("page.md").read_text()
    assert "## containment of old against people" in page
    assert auepora("judge", "calibrate", "old", "new", *options, "-o", "report.json")[0] == 0
    assert json.loads(Path("report.json").read_text())["verdict"] == "better"


def test_finite_population_intervals_are_narrower(project: Path, auepora: Cli) -> None:
    def interval(*more: str) -> list[float]:
        out = auepora("judge", "calibrate", "--labels", "ann.jsonl", "-m", "containment", "--json", *more)[1]
        found = json.loads(out)["judged"][0]["corrected"]["interval"]
        assert isinstance(found, list)
        return found

    such, these = interval(), interval("--these-samples")
    assert these[1] - these[0] < such[1] - such[0]


def test_labels_for_a_metric(project: Path, auepora: Cli) -> None:
    with RunStore.open("runs.sqlite") as store:
        run_id = store.find("new").run_id
    write_labels("own.jsonl", [Label(f"q{n:05}", bool(n % 2), run=run_id, metric="token_f1") for n in range(9)])
    code, out, err = auepora("judge", "calibrate", "--labels", "own.jsonl", "--all")
    assert (code, out) == (2, "")
    assert "nothing says how the 9 samples with a label were selected from 120" in err
    assert "--assume-random" in err
    code, out, _ = auepora("judge", "calibrate", "--labels", "own.jsonl", "--assume-random", "--all")
    assert code == 0
    assert "as stated with --assume-random" in out
    assert "token_f1 of new against people" in out


def test_scores_of_a_file(project: Path, auepora: Cli) -> None:
    rows = [{"sample_id": f"q{n:05}", "score": (n % 10) / 10} for n in range(N)]
    Path("scores.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    write_labels("own.jsonl", [Label(f"q{n:05}", n % 10 > 5, draw="d1", probability=1 / 3) for n in range(40)])
    code, out, _ = auepora(
        "judge",
        "calibrate",
        "--scores",
        "scores.jsonl",
        "--labels",
        "own.jsonl",
        "--show",
        "1",
        "--assume-random",
        "--all",
    )
    assert code == 0
    assert "... and 3 more; --json has all" in out  # 0.5 counts as right, and people say otherwise
    assert "question 5?" not in out
    options = ("--scores", "scores.jsonl", "--labels", "own.jsonl")
    code, _, err = auepora("judge", "calibrate", "new", *options, "--all")
    assert code == 2
    assert "the draw that they name (d1) is not recorded next to them" in err
    code, out, _ = auepora("judge", "calibrate", "new", *options, "--assume-random", "--all")
    assert code == 0
    assert "question 5?" in out


def test_labels_that_tuned_the_prompt(project: Path, auepora: Cli) -> None:
    options = ("judge", "calibrate", "--labels", "ann.jsonl", "-m", "containment")
    first = json.loads(Path("ann.jsonl").read_text().splitlines()[-1])["sample_id"]
    Path("dev.txt").write_text(f"{first}\n")
    code, out, err = auepora(*options, "--tuned-on", "dev.txt")
    assert (code, out) == (2, "")
    assert f"1 of 30 labels were used to tune the judge's prompt (the first is of sample '{first}')" in err
    code, out, _ = auepora(*options, "--tuned-on", "dev.txt", "--leave-out-tuned")
    assert code == 0
    assert "1 that served to tune the prompt" in out


WRONG = [
    (["a", "b", "c", "--labels", "ann.jsonl"], "give one run, or two to compare"),
    (["new", "new", "--labels", "ann.jsonl", "-m", "token_f1"], "are the same run"),
    (["--labels", "none.jsonl", "-m", "token_f1"], "none.jsonl"),
    (["--labels", "ann.jsonl", "-m", "token_f1", "-o", "x.csv"], "cannot be written as CSV"),
    (["--labels", "ann.jsonl", "-m", "token_f1", "-o", "ann.jsonl"], "is the input"),
    (["--labels", "ann.jsonl", "-m", "token_f1", "--scores", "s.jsonl"], "--scores replaces -m"),
    (["--labels", "ann.jsonl", "-m", "token_f1", "--threshold", "nan"], "must be a finite number"),
    (["--labels", "ann.jsonl", "-m", "token_f1", "--scale", "five"], "a scale is written"),
    (["--labels", "ann.jsonl", "-m", "recall"], "has no scores of 'recall'"),
    (["-m", "token_f1"], "Missing option '--labels'"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_invalid_options(project: Path, auepora: Cli, arguments: list[str], message: str) -> None:
    code, out, err = auepora("judge", "calibrate", *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_help_of_the_command_group(auepora: Cli) -> None:
    code, out, _ = auepora("judge", "--help")
    assert code == 0
    assert "calibrate" in out
    code, _, err = auepora("judge", "calibrat")
    assert code == 2
    assert "did you mean 'calibrate'" in err


COMMAND = ("judge", "calibrate", "--scores", "scores.jsonl", "--labels", "own.jsonl", "--assume-random")


def conclusion_of(auepora: Cli, scores: list[float], labels: list[bool]) -> dict[str, Any]:
    """What `judge calibrate` concludes from scores of a file and labels of its first samples."""
    rows = [{"sample_id": f"q{n}", "score": score} for n, score in enumerate(scores)]
    Path("scores.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    drawn: Any = {"draw": "d1", "probability": len(labels) / len(scores)}
    write_labels("own.jsonl", [Label(f"q{n}", label, "ann", **drawn) for n, label in enumerate(labels)])
    code, text, _ = auepora(*COMMAND, "--json")
    assert code == 0
    found = json.loads(text)
    assert found["conclusion"] == found["judged"][0]["conclusion"]
    assert isinstance(found, dict)
    return found


def last_line(auepora: Cli) -> str:
    """Where the text of the same calibration ends."""
    code, out, _ = auepora(*COMMAND, "--all")
    assert code == 0
    return out.rstrip("\n").splitlines()[-1]


def drawn(wrong: float, n: int = 300, seed: int = 3) -> tuple[list[float], list[bool]]:
    """What people would say of all answers, and a judge that is wrong in so many of them."""
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < 0.6
    return np.where(rng.random(n) < wrong, ~truth, truth).astype(float).tolist(), truth.tolist()


def test_a_judge_that_agrees_with_people_is_usable(folder: Path, auepora: Cli) -> None:
    scores, truth = drawn(0.05)
    found = conclusion_of(auepora, scores, truth[:100])
    assert found["conclusion"]["usability"] == "usable"
    assert "Conclusion: scores is usable, because it agrees with people (kappa" in str(found["conclusion"])
    assert last_line(auepora) == found["conclusion"]["sentence"]


def test_a_judge_that_is_often_wrong_is_usable_with_correction(folder: Path, auepora: Cli) -> None:
    scores, truth = drawn(0.25)
    found = conclusion_of(auepora, scores, truth[:100])
    assert found["conclusion"]["usability"] == "usable_with_correction"
    assert "below 0.6" in str(found["conclusion"])
    assert found["judged"][0]["corrected"]["weight"] > 0


def test_a_judge_that_is_lenient_is_usable_with_correction(folder: Path, auepora: Cli) -> None:
    _, truth = drawn(0.0)
    scores = [1.0 if right else 0.4 for right in truth]
    found = conclusion_of(auepora, scores, truth[:100])
    assert found["conclusion"]["usability"] == "usable_with_correction"
    assert "too high" in str(found["conclusion"])


def test_few_labels_do_not_show_that_no_correction_is_needed(folder: Path, auepora: Cli) -> None:
    scores, truth = drawn(0.0)
    found = conclusion_of(auepora, scores, truth[:12])
    assert found["conclusion"]["usability"] == "usable_with_correction"
    assert "fewer than 30 answers are labelled" in str(found["conclusion"])


@pytest.mark.parametrize("seed", range(5))
def test_a_random_judge_is_not_usable(folder: Path, auepora: Cli, seed: int) -> None:
    """By chance alone such scores follow forty labels now and then, and a mean must not be moved by them."""
    rng = np.random.default_rng(seed)
    _, truth = drawn(0.0, seed=seed)
    found = conclusion_of(auepora, rng.random(300).tolist(), truth[:40])
    assert found["conclusion"]["usability"] == "not_usable"
    assert "not shown to be better than chance" in str(found["conclusion"])
    corrected = found["judged"][0]["corrected"]
    assert (corrected["weight"], corrected["value"]) == (0.0, corrected["labels_mean"])


def test_an_inverted_judge_is_not_usable(folder: Path, auepora: Cli) -> None:
    scores, truth = drawn(0.9)
    conclusion = conclusion_of(auepora, scores, truth[:50])["conclusion"]
    assert conclusion["usability"] == "not_usable"
    assert last_line(auepora) == conclusion["sentence"]


def test_constant_labels_or_scores_show_nothing(folder: Path, auepora: Cli) -> None:
    scores, _ = drawn(0.1)
    found = conclusion_of(auepora, scores, [True] * 40)
    assert "people say the same of every labelled answer (40 labels)" in str(found["conclusion"])
    _, truth = drawn(0.1)
    found = conclusion_of(auepora, [1.0] * 300, truth[:40])
    assert "it gives every labelled answer the same score (40 labels)" in str(found["conclusion"])


def test_the_conclusion_about_two_runs_is_that_of_the_weaker_judge(project: Path, auepora: Cli) -> None:
    options = ("judge", "calibrate", "old", "new", "--labels", "ann.jsonl", "-m", "containment", "--json")
    found = json.loads(auepora(*options)[1])
    order = ["not_usable", "usable_with_correction", "usable"]
    each = [one["conclusion"] for one in found["judged"]]
    assert found["conclusion"] == min(each, key=lambda one: order.index(one["usability"]))


# --- scores as probabilities -----------------------------------------------------------------------------------------


def labelled_run(store: RunStore, name: str, chances: Any, truth: Any, labels: list[Label], drawn: int) -> None:
    """A run whose judge gives these probabilities, with labels of a random sample."""
    count = len(truth)
    record = scored(store, name, samples(count), {"token_f1": [float(one) for one in chances]})
    draw = draw_samples({f"q{n:05}": "all" for n in range(count)}, drawn, run=record.run_id)
    record_draw("human.jsonl", draw)
    labels += [Label(one, bool(truth[int(one[1:])]), "ann", run=record.run_id) for one in draw.sample_ids]


@pytest.mark.parametrize(
    ("stretch", "drawn", "verdict"),
    [(1.0, 400, "calibrated"), (3.0, 200, "not calibrated"), (1.0, 40, "too few labels to tell")],
)
def test_scores_as_probabilities(folder: Path, auepora: Cli, stretch: float, drawn: int, verdict: str) -> None:
    rng = np.random.default_rng(8)
    p = rng.beta(0.5, 0.5, 600).clip(0.01, 0.99)
    odds = (p / (1 - p)) ** stretch
    labels: list[Label] = []
    with RunStore.open(folder / "runs.sqlite") as store:
        labelled_run(store, "new", odds / (1 + odds), rng.random(600) < p, labels, drawn)
    write_labels(folder / "human.jsonl", labels)
    options = ("judge", "calibrate", "new", "--labels", "human.jsonl", "-m", "token_f1")
    code, out, err = auepora(*options, "--all")
    assert (code, err) == (0, "")
    assert "As probabilities the scores are: " in out
    for name in ("Brier score", "intercept", "slope", "debiased ECE"):
        assert sum(line.startswith(f"{name} ") and "–" in line for line in out.splitlines()) == 1, name
    document = json.loads(auepora(*options, "--json")[1])["judged"][0]
    assert document["probabilities"]["verdict"] == verdict
    assert document["corrected"]["cap"] == 4
    assert f"the scores are: {verdict}" in out.replace(" within 0.10", "")


def test_a_different_bias_leaves_the_uncorrected_comparison_without_a_verdict(folder: Path, auepora: Cli) -> None:
    rng = np.random.default_rng(6)
    labels: list[Label] = []
    with RunStore.open(folder / "runs.sqlite") as store:
        for name, more in (("old", 0.0), ("new", 0.35)):
            truth = rng.random(300) < 0.5
            chances = np.clip(0.2 + 0.4 * truth + more + 0.1 * rng.random(300), 0, 1)
            record = scored(store, name, samples(300), {"token_f1": chances.tolist(), "containment": chances.tolist()})
            draw = draw_samples({f"q{n:05}": "all" for n in range(300)}, 150, run=record.run_id, seed=1)
            record_draw("human.jsonl", draw)
            labels += [Label(one, bool(truth[int(one[1:])]), "ann", run=record.run_id) for one in draw.sample_ids]
    write_labels(folder / "human.jsonl", labels)
    before = json.loads(auepora("compare", "old", "new", "--json")[1])
    assert before["refused"] == {}
    code, out, err = auepora("judge", "calibrate", "old", "new", "--labels", "human.jsonl", "-m", "token_f1")
    assert (code, err) == (0, "")
    assert "the judge's error differs between them" in " ".join(out.split())
    after = json.loads(auepora("compare", "old", "new", "--json")[1])
    assert list(after["refused"]) == ["token_f1"]
    assert "has no verdict" in after["refused"]["token_f1"]
