"""Comparisons by people: samples with equal answers are known to differ by 0, and no metric is needed."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from auepora_eval.calibration import label_plans
from auepora_eval.calibration.calibrate import calibrate, load_compared_scores
from auepora_eval.calibration.label_plans import plan_comparison
from auepora_eval.calibration.report import CalibrationReport
from auepora_eval.calibration.scores import SampleScores
from auepora_eval.core.types import Response, SystemOutputs
from auepora_eval.errors import BadValueError
from auepora_eval.io.labels import Label, write_labels
from auepora_eval.labels.batch_plans import BatchOptions, create_batch, label_command
from auepora_eval.labels.draws import LabelDraw, describe_forecast, draw_comparison, read_draws, record_draw
from auepora_eval.stats.calibration import corrected_difference
from auepora_eval.stats.intervals import mean_interval, t_quantile, tail_probability
from auepora_eval.stats.sampling import forecast, with_zeros
from auepora_eval.stats.sequential import SequentialDesign
from auepora_eval.store.runs import RunStore, decisions
from auepora_eval.ui.batch_planners import plan_batch
from helpers.stored_runs import run, samples
from helpers.ui_server import ui_server

pytestmark = pytest.mark.usefixtures("few_draws")

N, EQUAL = 60, 24
IDS = [f"q{number:05}" for number in range(N)]
EQUAL_IDS = IDS[:EQUAL]
RNG = np.random.default_rng(5)
RIGHT = {name: RNG.random(N) < share for name, share in (("old", 0.3), ("new", 0.6))}
RIGHT["new"][:EQUAL] = RIGHT["old"][:EQUAL]
JUDGED = {name: np.where(RNG.random(N) < 0.2, 1.0 - labels, labels) for name, labels in RIGHT.items()}
TRUTH = float(RIGHT["new"].mean() - RIGHT["old"].mean())


def scores() -> list[SampleScores]:
    found = [dict(zip(IDS, JUDGED[name].tolist(), strict=True)) for name in ("old", "new")]
    return [SampleScores(one, "m", name, (name,)) for name, one in zip(("old", "new"), found, strict=True)]


def drawn(n: int = 20, *, equal: list[str] = EQUAL_IDS, **options: object) -> LabelDraw:
    first, second = (one.scores for one in scores())
    predictions = {one: (first[one], second[one]) for one in IDS}
    return draw_comparison(predictions, n, runs=("old", "new"), metric="m", equal_answers=equal, **options)  # type: ignore[arg-type]


def labelled(draw: LabelDraw, count: int | None = None) -> list[Label]:
    selections = draw.selections()
    return [
        Label(one, bool(RIGHT[name][int(one[1:])]), "ann", name, draw=draw.id, probability=selections[one].probability)
        for one in draw.sample_ids[:count]
        for name in draw.runs
    ]


def measured(draw: LabelDraw, count: int | None = None, **options: object) -> CalibrationReport:
    draws = {name: [draw] for name in draw.runs}
    return calibrate(labelled(draw, count), *scores(), draws=draws, **options)  # type: ignore[arg-type]


def test_they_are_not_drawn() -> None:
    for seed in range(20):
        draw = drawn(seed=seed)
        assert not set(draw.sample_ids) & set(EQUAL_IDS)
    assert (draw.population, draw.equal_answers, draw.proportion_drawn_from) == (36, tuple(EQUAL_IDS), 0.6)
    with pytest.raises(BadValueError, match=r"cannot draw 40 of 36 samples .*the answers to 24 others are equal"):
        drawn(40)


def test_all_labels_give_the_difference_of_all_samples() -> None:
    found = measured(drawn(N - EQUAL), finite=True).difference
    assert found is not None
    assert found.value == pytest.approx(TRUTH, abs=1e-12)
    assert (found.samples, found.labelled) == (N, N - EQUAL)
    assert found.scores_mean == pytest.approx(float(JUDGED["new"].mean() - JUDGED["old"].mean()))


@pytest.mark.parametrize("looks", [0, 2])
def test_the_estimate_is_unbiased(looks: int) -> None:
    """Over seeded draws from these samples; with looks all probabilities are equal."""
    seeds, found = 30, []
    for seed in range(seeds):
        draw = drawn(seed=seed, looks=looks)
        if looks:
            result = measured(draw).sequential
            assert result is not None
            found.append(result.looks[-1].mean)
        else:
            estimate = measured(draw).difference
            assert estimate is not None
            found.append(estimate.value)
    assert abs(np.mean(found) - TRUTH) < 3.5 * np.std(found) / math.sqrt(seeds)


def test_labels_of_them_are_not_used() -> None:
    """Also where somebody has labelled both answers, and differently."""
    draw = drawn()
    more = [Label(IDS[0], name == "new", "ann", name) for name in draw.runs]
    draws = {name: [draw] for name in draw.runs}
    with_them = calibrate([*labelled(draw), *more], *scores(), draws=draws).difference
    without = measured(draw).difference
    assert with_them is not None
    assert without is not None
    assert (with_them.value, with_them.interval) == (without.value, without.interval)


def test_the_interval_covers_the_mean_of_the_population() -> None:
    """The proportion that differs is estimated from the same samples."""
    rng = np.random.default_rng(11)
    rounds, size, n, share, effect = 400, 200, 40, 0.4, 0.5
    covered = 0
    for _ in range(rounds):
        count = int((rng.random(size) < share).sum())
        values = (rng.random(count) < effect).astype(float)  # the second is right where the first is wrong, or both are
        labels = np.where(np.arange(count) < n, values, np.nan)
        zeros = np.zeros(count)
        found = corrected_difference(zeros, zeros, np.where(np.isnan(labels), np.nan, 0.0), labels, binary=True)
        differs = np.arange(size) < count
        proportion = mean_interval(differs.astype(float), binary=True)
        assert proportion is not None
        whole = with_zeros(found, proportion, scores_mean=0.0, samples=size)
        certain = with_zeros(found, proportion, scores_mean=0.0, samples=size, finite=True)
        assert whole.interval is not None
        assert certain.interval is not None
        assert whole.interval.low < certain.interval.low < whole.value < certain.interval.high < whole.interval.high
        covered += whole.interval.low <= share * effect <= whole.interval.high
    assert 0.93 <= covered / rounds <= 0.985


def test_the_forecast_is_about_all_samples() -> None:
    draw, without = drawn(), drawn(equal=[])
    assert draw.comparison is not None
    assert without.comparison is not None
    assert (draw.comparison.forecast["samples"], draw.comparison.forecast["labels"]) == (N, 20)
    assert draw.comparison.forecast["half_width"] < 0.75 * without.comparison.forecast["half_width"]
    text = "\n".join(describe_forecast(draw))
    assert "24 of 60 samples have equal answers in both runs: their difference is 0, unlabelled." in text
    assert "20 of 36 samples are drawn for the difference in m" in text
    errors, values, probabilities = np.full(30, 0.3), np.linspace(-0.2, 0.6, 30), np.full(30, 0.5)
    part = forecast(errors, values, probabilities, finite=True)
    half = forecast(errors, values, probabilities, num_zeros=30, finite=True)
    assert half.half_width == pytest.approx(part.half_width / 2)
    # Not these samples alone: how many answers differ is an estimate, too.
    part = forecast(errors, values, probabilities)
    half = forecast(errors, values, probabilities, num_zeros=30)
    of_proportion = t_quantile(tail_probability(0.95), 13) * values.mean() * math.sqrt(0.25 / 60)
    assert half.half_width == pytest.approx(math.hypot(part.half_width / 2, of_proportion))


def test_the_sequential_test_is_about_all_samples() -> None:
    draw = drawn(30, looks=2, delta=0.2)
    found = measured(draw).sequential
    assert found is not None
    differences = [float(RIGHT["new"][int(one[1:])]) - float(RIGHT["old"][int(one[1:])]) for one in draw.sample_ids]
    assert found.looks[-1].mean == pytest.approx(0.6 * np.mean(differences))
    plain = SequentialDesign(30, (15, 30), delta=0.2 / 0.6).evaluate(differences)
    assert [one.verdict for one in found.looks] == [one.verdict for one in plain.looks]
    assert found.looks[-1].low == pytest.approx(0.6 * plain.looks[-1].low)
    with pytest.raises(BadValueError, match="the answers to 36 of 60 samples differ: no label can show a larger"):
        drawn(30, delta=0.6)


def test_the_record_keeps_them(tmp_path: Path) -> None:
    draw = record_draw(tmp_path / "a.jsonl", drawn())
    assert read_draws(tmp_path / "a.jsonl") == {"old new": draw}
    plain = record_draw(tmp_path / "b.jsonl", drawn(equal=[]))
    stored = json.loads((tmp_path / "b.draw.json").read_text())["draws"][0]["comparison"]
    assert "equal_answers" not in stored, "as earlier versions wrote it, so that their digests hold"
    assert read_draws(tmp_path / "b.jsonl") == {"old new": plain}


def test_one_run_and_several_draws() -> None:
    """The mean of one run is about the answers that could be drawn; such a draw cannot be combined with another."""
    draw = drawn(30, looks=2)
    labels = [one for one in labelled(draw) if one.run == "new"]
    (alone,) = calibrate(labels, scores()[1], draws={"new": [draw]}).judged
    assert alone.corrected.samples == N - EQUAL
    assert any("leave out 24 samples whose answers are equal in old and new" in note for note in alone.notes)
    third = draw_comparison(dict.fromkeys(IDS, (0.5, 0.5)), 12, runs=("new", "third"), metric="m", looks=2)
    with pytest.raises(BadValueError, match="cannot be combined; give the labels of one draw"):
        calibrate(labels, scores()[1], draws={"new": [draw, third]})


# --- stored runs -----------------------------------------------------------------------------------------------------


def test_texts_of_stored_runs_are_compared(tmp_path: Path) -> None:
    """Spaces around a text do not count; of answers without a text the values do."""

    def old(number: int) -> str | SystemOutputs:
        return f"answer {number}" if number else SystemOutputs([], Response("", structured={"a": 1}))

    def new(number: int) -> str | SystemOutputs:
        if not number:
            return SystemOutputs([], Response("", structured={"a": 2}))
        return f"answer {number}\n" if number % 2 else f"other {number}"

    with RunStore.open(tmp_path / "runs.sqlite") as store:
        run(store, "old", samples(40), old, ["token_f1"])
        run(store, "new", samples(40), new, ["token_f1"])
        records = store.find("old"), store.find("new")
        draw = plan_comparison(store, records, metric="token_f1", n=15)
        assert draw.equal_answers == tuple(f"q{number:05}" for number in range(1, 40, 2))
        assert draw.population == 20
        labels = [Label(one, "right", "ann", name) for one in draw.sample_ids for name in draw.runs]
        draws = {name: [draw] for name in draw.runs}
        report = calibrate(labels, *load_compared_scores(store, records, None, draws), draws=draws)
        assert report.difference is not None
        assert (report.difference.value, report.difference.samples) == (0.0, 40)


# --- people only -----------------------------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two runs without any metric; every third answer is equal in both, and the second is better."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        for name in ("old", "new"):
            texts = [f"{name if number % 3 else 'answer'} {number}" for number in range(N)]
            run(store, name, samples(N), texts.__getitem__, [])
    return tmp_path


Cli = Callable[..., tuple[int, str, str]]
FOR = ("label", "--for", "old", "new", "--labels", "pairs.jsonl", "--annotator", "ann")


@pytest.mark.parametrize("looks", [None, "2"])
def test_people_decide_where_no_metric_is(
    stored: Path, auepora: Cli, type_lines: Callable[..., None], looks: str | None
) -> None:
    type_lines("q")
    code, out, err = auepora(*FOR, "--n", "30", *(["--looks", looks] if looks else []))
    assert code == 0, err
    assert "20 of 60 samples have equal answers" in out
    assert "30 of 40 samples are drawn for a difference" in out
    assert "Forecast, if people prefer one of the answers in every second sample" in out
    assert "judge" not in out.replace("auepora judge calibrate", "")
    (draw,) = read_draws("pairs.jsonl").values()
    assert draw.comparison is not None
    assert (draw.comparison.metric, set(draw.probabilities().values())) == (None, {0.75})
    new = draw.runs[1]
    labels = [
        Label(one, name == new and int(one[1:]) % 5 > 0, "ann", name, draw=draw.id, probability=0.75)
        for one in draw.sample_ids
        for name in draw.runs
    ]
    write_labels("pairs.jsonl", labels)
    code, out, err = auepora("judge", "calibrate", "old", "new", "--labels", "pairs.jsonl", "--all")
    assert code == 0, err
    assert "By people, new is better than old." in out
    words = out.replace("\n", " ")
    assert not any(word in words for word in ("judge alone", "kappa", "AUROC", "Conclusion", "not usable"))
    code, out, err = auepora("judge", "calibrate", "old", "new", "--labels", "pairs.jsonl", "--json")
    found = json.loads(out)
    assert (found["judged"], found["conclusion"], found["verdict"]) == ([], None, "better")
    assert found["bias"] is None
    if looks is None:
        mean = sum(int(one[1:]) % 5 > 0 for one in draw.sample_ids) / 30
        assert found["difference"]["value"] == pytest.approx(mean * 40 / 60)
    with RunStore.open("runs.sqlite") as store:
        (decision,) = decisions(store, kind="labels")
    assert decision.body["verdicts"] == {"people only": "better"}


def test_people_only_is_chosen_by_name(stored: Path, auepora: Cli) -> None:
    """Where a judge has given metrics, people alone are chosen by name."""
    for name in ("old", "new"):
        code, _, err = auepora("rescore", name, "-m", "token_f1")
        assert code == 0, err
    code, out, err = auepora(*FOR, "-m", "people only", "--n", "20", "--preview", "--json")
    assert code == 0, err
    assert json.loads(out)["metric"] is None
    write_labels("third.jsonl", [Label("q00001", True, run="third")])
    code, _, err = auepora(*FOR, "-m", "people only", "--n", "20", "--preview", "--history", "third.jsonl")
    assert (code, "labels of earlier runs predict labels by the scores of a metric" in err) == (2, True)


def test_a_draw_of_an_earlier_version_is_continued(stored: Path, auepora: Cli, type_lines: Callable[..., None]) -> None:
    """It has more samples than have different answers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(label_plans, "find_equal_answers", lambda *_: ())
        type_lines("r", "q")
        assert auepora(*FOR, "--n", "50")[0] == 0
    (draw,) = read_draws("pairs.jsonl").values()
    assert (len(draw.sample_ids), draw.population) == (50, N)
    type_lines("w", "q")
    code, out, err = auepora(*FOR, "--n", "50")
    assert (code, "2 of 100 labelled by ann" in out) == (0, True), err
    assert read_draws("pairs.jsonl") == {draw.key: draw}
    code, _, err = auepora(*FOR, "--n", "50", "--labels", "others.jsonl")
    assert (code, "cannot draw 50 of 40 samples" in err) == (2, True)


def test_a_batch_of_people_only(stored: Path) -> None:
    with RunStore.open("runs.sqlite") as store, ui_server(store) as server:
        options = BatchOptions(purpose="compare", runs=("old", "new"), title="t", n=20)
        batch = create_batch(server.workbench.labels, plan_batch(store, options))
        assert batch.metric is None
        queue = server.workbench.queue(batch.id)
        for number in range(1, 21):
            assert not queue.item(number).has_equal_answers
            is_first = queue.item(number).answers[0].text.startswith("new")
            queue.submit("ann", number, ["first" if is_first else "second"], submission=f"s{number}")
        queue.close("eve")
        page = server.get(f"/batches/{batch.id}").text
        assert "<dt>Metric</dt><dd><bdi>people only</bdi></dd>" in page
        command = label_command(batch, next(iter(read_draws(batch.journal).values())), "runs.sqlite")
        assert f"auepora label --for {' '.join(batch.runs)} --n 20 --seed 0 -m 'people only' --blind" in command
        results = server.get(f"/batches/{batch.id}/results").text
        assert "By people, new is better than old." in results
        found = [word for word in ("judge", "Conclusion", "kappa") if word in results]
        assert found == [], re.sub("<[^>]*>", "", results)
        form = server.get("/batches/new?purpose=compare&run=old&run=new").text
        assert '<option value="people only">' in form
