"""Calibration with human labels: hand-made numbers, stored runs, and public answers of five systems."""

import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auepora_eval import RunStore, SystemOutputs
from auepora_eval.calibration.calibrate import calibrate as calibrate_recorded
from auepora_eval.calibration.report import CalibrationReport
from auepora_eval.calibration.scores import SampleScores, attach_answers, load_run_scores, read_score_file
from auepora_eval.core.scores import Scores
from auepora_eval.io.labels import Label
from auepora_eval.io.sample_sets import read_ids
from auepora_eval.labels.draws import DrawnItem, LabelDraw, draw_comparison, draw_samples
from auepora_eval.labels.sample_weights import weigh_samples
from auepora_eval.metrics.generation_llm_judge import LLMFaithfulnessScore
from auepora_eval.stats.calibration import corrected_mean
from helpers.critics import ScriptedCritic
from helpers.evouna import AGREEMENT, judged
from helpers.stored_runs import run, samples, scored

pytestmark = pytest.mark.usefixtures("few_draws")


def calibrate(labels: list[Label], *scores: Any, **options: Any) -> CalibrationReport:
    """The calibration; labels that name a draw without its record are stated to be a random sample."""
    is_named = "draws" not in options and any(label.draw is not None for label in labels)
    return calibrate_recorded(labels, *scores, **{"assume_random": is_named, **options})


SCORES = {"a": 0.9, "b": 0.8, "c": 0.6, "d": 0.4, "e": 0.3, "f": 0.1, "g": 0.7, "h": 0.2}
DRAWN: Any = {"draw": "d1", "probability": 0.75}
LABELS = [
    Label("a", "right", "ann", **DRAWN),
    Label("b", "right", "ann", **DRAWN),
    Label("c", "wrong", "ann", **DRAWN),
    Label("d", "right", "ann", **DRAWN),
    Label("e", "wrong", "ann", **DRAWN),
    Label("f", "wrong", "ann", **DRAWN),
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with RunStore.open(tmp_path / "runs.sqlite") as opened:
        yield opened


def test_by_hand() -> None:
    report = calibrate(LABELS, SCORES)
    assert report.people is None
    (one,) = report.judged
    assert (one.threshold, one.threshold_given, one.labelled) == (0.5, False, 6)
    assert one.agreement.value == pytest.approx(4 / 6)  # c and d are seen differently
    assert one.kappa.value == pytest.approx(float((Fraction(4, 6) - Fraction(1, 2)) / Fraction(1, 2)))
    # Both labelled three right: twelve ratings, six of each; observed 4 of 12, expected 2 * 36 of 12 * 11.
    assert one.alpha.value == pytest.approx(float(1 - Fraction(4, 12) / Fraction(72, 132)))
    assert one.auroc.value == pytest.approx(8 / 9)  # of nine pairs only d and c are the wrong way round
    assert [one.tpr.value, one.tnr.value] == pytest.approx([2 / 3, 2 / 3])
    brier = sum(Fraction(n, 100) for n in (1, 4, 36, 36, 9, 1)) / 6
    assert one.brier.value == pytest.approx(float(brier))
    assert [(row.sample_id, row.label, row.score) for row in one.disagreements] == [("c", 0.0, 0.6), ("d", 1.0, 0.4)]
    ids = list(SCORES)
    labels = {label.sample_id: label.value for label in LABELS}
    want = corrected_mean(
        np.array([SCORES[name] for name in ids]), np.array([labels.get(name, np.nan) for name in ids]), binary=True
    )
    assert one.corrected == want
    assert (one.corrected.labelled, one.corrected.samples) == (6, 8)


def test_another_threshold() -> None:
    (one,) = calibrate(LABELS, SCORES, threshold=0.65).judged
    assert one.threshold_given
    assert one.agreement.value == pytest.approx(5 / 6)
    assert "from 0.6500 (as given)" in calibrate(LABELS, SCORES, threshold=0.65).to_text()


def test_lower_is_better() -> None:
    flipped = SampleScores({name: 1 - score for name, score in SCORES.items()}, "hallucination", higher_is_better=False)
    (one,), (other,) = calibrate(LABELS, SCORES).judged, calibrate(LABELS, flipped).judged
    for name in ("agreement", "kappa", "alpha", "auroc", "tpr", "tnr", "brier"):
        assert getattr(other, name).value == pytest.approx(getattr(one, name).value), name
    assert other.corrected.value == pytest.approx(one.corrected.value)
    assert "up to 0.5000" in calibrate(LABELS, flipped).to_text()


def test_unbounded_scores_need_a_threshold() -> None:
    timed = SampleScores({name: 10 * score for name, score in SCORES.items()}, "seconds", range=(0.0, float("inf")))
    with pytest.raises(ValueError, match="seconds have no lower or upper bound"):
        calibrate(LABELS, timed)
    (one,) = calibrate(LABELS, timed, threshold=5).judged
    assert one.agreement.value == pytest.approx(4 / 6)
    assert one.calibration_error.value is None
    assert one.reliability == ()
    assert "no chances" in (one.brier.why_undefined or "")


def test_labels_on_a_scale() -> None:
    labels = [Label(name, stars, "ann", **DRAWN) for name, stars in zip("abcdef", (5, 4, 2, 4, 2, 1), strict=True)]
    (one,) = calibrate(labels, SCORES, scale="1-5").judged
    assert one.alpha_level == "interval"
    assert one.agreement.value == pytest.approx(4 / 6)
    assert [one.tpr.value, one.tnr.value] == pytest.approx([2 / 3, 2 / 3])  # four stars are right, two are wrong
    (other,) = calibrate([Label("a", 3, "ann", **DRAWN), *labels[1:]], SCORES, scale="1-5").judged
    assert other.tpr.value == pytest.approx(2 / 3)  # the middle of the scale is right
    assert one.corrected.labels_mean == pytest.approx(float(Fraction(4 + 3 + 1 + 3 + 1 + 0, 24)))
    assert any("labels are numbers" in note for note in one.notes)
    assert json.dumps(one.to_dict())


def test_left_out_labels_are_counted() -> None:
    labels = [
        *LABELS,
        Label("g", "right", "ann"),
        Label("g", "wrong", "bob"),
        Label("h", "right", "m", provenance="model"),
        Label("z", "right", "ann"),
        Label("y", "right", "ann"),
        Label("b", "right", "ann", metric="other"),
    ]
    scores = SampleScores(SCORES, "m", without_score={"y": "skipped:no_reference"})
    (one,) = calibrate(labels, scores).judged
    assert one.left_out == {"other_metric": 1, "by_model": 1, "tied": 1, "no_score": 1, "unknown_sample": 1}
    text = calibrate(labels, scores).to_text()
    assert "1 evenly divided between annotators" in text
    assert "1 of samples that the run does not have" in text


NOTHING = [
    ([], "there is none"),
    ([Label("aa", "right")], "unknown_sample 1; the first is of sample 'aa'; did you mean 'a'"),
    ([Label("a", "right", metric="else")], "other_metric 1"),
    ([Label("a", "right", "x"), Label("a", "wrong", "y")], "tied 1"),
]


@pytest.mark.parametrize(("labels", "message"), NOTHING)
def test_no_label_to_compare_with(labels: list[Label], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        calibrate(labels, SCORES)


def test_tuning_labels_are_rejected() -> None:
    labels = [*LABELS, Label("g", "right", tuning=True)]
    with pytest.raises(ValueError, match="1 of 7 labels were used to tune"):
        calibrate(labels, SCORES)
    with pytest.raises(ValueError, match="2 of 6 labels were used to tune"):
        calibrate(LABELS, SCORES, tuned_on={"a", "b"})
    (one,) = calibrate(labels, SCORES, tuned_on={"a"}, leave_out_tuned=True).judged
    assert (one.labelled, one.left_out) == (5, {"tuned": 2})


def test_annotator_agreement_comes_first() -> None:
    labels = [*LABELS, *(Label(label.sample_id, "right", "bob") for label in LABELS[:3])]
    text = calibrate(labels, SCORES).to_text()
    assert text.index("People with each other") < text.index("against people") < text.index("What people would say")
    assert "ann and bob" in text


def test_markdown_escapes_model_output() -> None:
    from auepora_eval.calibration.scores import ShownAnswer

    nasty = ShownAnswer("<script>alert(1)</script>", "a | b\n# heading", "[x](javascript:1)")
    scores = SampleScores(SCORES, "m", answers=lambda ids: dict.fromkeys(ids, nasty))
    page = calibrate(LABELS, scores).to_markdown()
    assert "<script>" not in page
    assert "a \\| b \\# heading" in page
    assert "| agreement | 0.6667 |" in page
    assert "\\[x\\](javascript" in page


# --- stored runs -----------------------------------------------------------------------------------------------------


def right_and_wrong(n: int, wrong: int, **more: Any) -> list[Label]:
    return [Label(f"q{number:05}", "wrong" if number < wrong else "right", "ann", **more) for number in range(n)]


def test_scores_of_a_run_with_rationales(store: RunStore) -> None:
    def reply_to(request: Any) -> dict[str, Any]:
        number = int(request.sample_id[1:])
        return {"score": 5 if number % 2 else 1, "rationale": f"number {number} is what it is"}

    judge = LLMFaithfulnessScore(ScriptedCritic(reply_to), scale="1-5")
    record = run(
        store,
        "judged",
        samples(12),
        lambda number: SystemOutputs([], None) if number == 11 else _answer(number),
        [judge, "containment"],
    )
    report = calibrate(right_and_wrong(11, 4, run=record.run_id), load_run_scores(store, record))
    (one,) = report.judged
    assert one.metric == "llm_faithfulness"  # the only one that a judge gave
    # Right are 4 to 10; the judge says so of the odd ones, 1, 3, 5, 7, 9.
    assert one.confusion.true_positives == 3
    assert {row.sample_id for row in one.disagreements} == {f"q{n:05}" for n in (1, 3, 4, 6, 8, 10)}
    first = one.disagreements[0]
    assert first.rationale == f"number {int(first.sample_id[1:])} is what it is"
    assert first.question == f"question {int(first.sample_id[1:])}?"
    assert first.answer == f"answer {int(first.sample_id[1:])}"
    assert "why the judge said so" in report.to_text()
    assert any("1 sample without a score" in note for note in one.notes)


def _answer(number: int) -> SystemOutputs:
    from auepora_eval import Document, Response, RetrievedDocument

    return SystemOutputs([RetrievedDocument(Document("gold", "text"), 1.0, 1)], Response(f"answer {number}"))


def test_which_metric(store: RunStore) -> None:
    record = scored(store, "lexical", samples(4), {"containment": [1, 0, 1, 0], "token_f1": [1, 0, 1, 0]})
    with pytest.raises(
        ValueError, match=r"no metric that a judge gave: choose the metric \(-m\); there are containment, token_f1"
    ):
        load_run_scores(store, record)
    with pytest.raises(ValueError, match="has no scores of 'token_f2'; did you mean 'token_f1'"):
        load_run_scores(store, record, "token_f2")
    assert load_run_scores(store, record, "token_f1").scores == {"q00000": 1, "q00001": 0, "q00002": 1, "q00003": 0}


def test_failed_answers_are_left_out(store: RunStore) -> None:
    record = run(store, "failing", samples(4), lambda number: "yes" if number else ValueError("no"), ["containment"])
    found = load_run_scores(store, record, "containment")
    assert list(found.scores) == ["q00001", "q00002", "q00003"]
    assert found.without_score["q00000"].startswith("system_failed")


def test_two_runs_and_their_difference(store: RunStore) -> None:
    n = 200
    dataset = samples(n)
    rng = np.random.default_rng(4)
    first = (rng.random(n) < 0.5).astype(float)
    second = np.where(rng.random(n) < 0.3, 1.0, first)
    records = [
        scored(store, name, dataset, {"containment": Scores.of(np.where(rng.random(n) < 0.05, 1 - truth, truth))})
        for name, truth in (("one", first), ("two", second))
    ]
    labels = [
        Label(f"q{number:05}", bool(truth[number]), "ann", run=record.run_id)
        for record, truth in zip(records, (first, second), strict=True)
        for number in range(0, n, 4)
    ]
    drawn = tuple(DrawnItem(f"q{number:05}") for number in range(0, n, 4))
    draws = {one.run_id: [LabelDraw(one.run_id, 0, None, {"all": n}, drawn)] for one in records}
    report = calibrate(labels, *(load_run_scores(store, record, "containment") for record in records), draws=draws)
    assert report.difference is not None
    assert report.difference.labelled == 50
    assert report.difference.labels_mean == pytest.approx(float(np.mean(second[::4] - first[::4])))
    assert report.difference.narrowing is not None
    assert report.difference.narrowing < 1
    assert report.verdict == "better"
    assert [one.left_out for one in report.judged] == [{}, {}]  # the labels of one are not missing from the other
    swapped = [load_run_scores(store, record, "containment") for record in records[::-1]]
    back = calibrate(labels, *swapped, draws=draws)
    assert back.verdict == "worse"
    assert "By people, one is worse than two." in back.to_text()
    assert json.loads(json.dumps(report.to_dict()))["verdict"] == "better"
    with pytest.raises(ValueError, match="does not say which run's answer"):
        calibrate([Label("q00000", "right")], *(load_run_scores(store, record, "containment") for record in records))
    apart = [label for label in labels if (label.run == records[0].run_id) == (label.sample_id < "q00100")]
    with pytest.raises(ValueError, match="no sample has a label of both its answers"):
        calibrate(apart, *swapped, draws=draws)
    tuned = [replace(label, tuning=place < 3) for place, label in enumerate(labels)]  # disagreements, for example
    for some in (labels[:-3], tuned):
        found = calibrate(some, *swapped, draws=draws, leave_out_tuned=True)
        assert found.verdict is None
        assert "No verdict: 47 of 50 drawn samples are labelled" in found.to_text()


def test_two_sets_of_scores_need_names() -> None:
    with pytest.raises(ValueError, match="two sets of scores need run_names each"):
        calibrate(LABELS, SCORES, SampleScores(SCORES))


def test_two_runs_with_the_same_name_use_their_ids(store: RunStore) -> None:
    records = [scored(store, "nightly", samples(6), {"containment": values}) for values in ([1] * 6, [1, 0] * 3)]
    labels = [Label(f"q{n:05}", "right", run=record.run_id) for record in records for n in range(6)]
    report = calibrate(labels, *(load_run_scores(store, record, "containment") for record in records))
    assert [one.labelled for one in report.judged] == [6, 6]
    assert report.verdict == "inconclusive"
    assert "Inconclusive" in report.to_text()


def test_clusters_widen_the_interval(store: RunStore) -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat(rng.random(50) < 0.6, 4).astype(float)
    values = np.where(rng.random(200) < 0.1, 1 - truth, truth)
    labels = [Label(f"q{n:05}", bool(truth[n]), draw="d1", probability=0.4) for n in range(80)]
    widths = []
    for name, clusters in (("single", None), ("clustered", lambda number: f"doc{number // 4}")):
        record = scored(store, name, samples(200, clusters=clusters), {"containment": values.tolist()})
        (one,) = calibrate(labels, load_run_scores(store, record, "containment")).judged
        assert one.corrected.interval is not None
        widths.append(one.corrected.interval.high - one.corrected.interval.low)
    assert widths[1] > 1.3 * widths[0]


# --- files -----------------------------------------------------------------------------------------------------------


def test_scores_of_a_file(tmp_path: Path, store: RunStore) -> None:
    path = tmp_path / "critic.jsonl"
    path.write_text('{"sample_id": "q00000", "score": 0.5}\n{"sample_id": "q00001", "score": true}\n')
    found = read_score_file(path)
    assert (found.scores, found.metric, found.bounded) == ({"q00000": 0.5, "q00001": 1.0}, "critic", True)
    record = scored(store, "run", samples(3), {"containment": [1, 0, 1]})
    attached = attach_answers(found, store, record)
    assert attached.without_score == {"q00002": "no score in the file"}
    assert attached.answers(["q00000"])["q00000"].question == "question 0?"
    path.write_text('{"sample_id": "q0", "score": 3}\n')
    assert not read_score_file(path).bounded
    with pytest.raises(ValueError, match="has no sample 'q0'"):
        attach_answers(read_score_file(path), store, record)


BROKEN = [
    ("[1]\n", "critic.jsonl:1: each line must be an object"),
    ('{"sample_id": "q", "score": "high"}\n', "critic.jsonl:1: the score of 'q' must be a finite number"),
    (
        '{"sample_id": "q", "score": 1}\n{"sample_id": "q", "score": 1}\n',
        "critic.jsonl:2: sample 'q' has a score already",
    ),
    ("", "there is no score in it"),
]


@pytest.mark.parametrize(("text", "message"), BROKEN)
def test_invalid_score_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "critic.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_score_file(path)


def test_ids_that_a_prompt_was_tuned_on(tmp_path: Path) -> None:
    path = tmp_path / "dev.txt"
    path.write_text('q1\n{"sample_id": "q2", "label": "right"}\n\n q3 \n')
    assert read_ids(path) == {"q1", "q2", "q3"}
    path.write_text('{"id": "q2"}\n')
    with pytest.raises(ValueError, match=r"dev.txt:1: field 'sample_id' is missing"):
        read_ids(path)


# --- whom the labels stand for ---------------------------------------------------------------------------------------


def test_a_stratified_draw_is_weighted() -> None:
    population = {f"big{n}": "big" for n in range(990)} | {f"small{n}": "small" for n in range(10)}
    draw = draw_samples(population, 11, run="run_1", stratify="labels.kind")
    labels = [Label(one, one.startswith("big"), run="run_1") for one in draw.sample_ids]
    stands = weigh_samples(labels, draw.sample_ids, population, {"run_1": [draw]}, ("run_1",))
    assert stands.strata_weights is not None
    counts = {name: sum(one.startswith(name) for one in draw.sample_ids) for name in ("big", "small")}
    assert stands.strata_weights[draw.sample_ids[0]] == 990 / counts["big"]
    scores = SampleScores(dict.fromkeys(population, 0.5), "m", run_names=("run_1",))
    (one,) = calibrate(labels, scores, draws={"run_1": [draw]}).judged
    assert one.corrected.value == pytest.approx(0.99)  # and not ten of eleven
    assert any("11 labelled of 11 drawn at random from 1000 answers" in note for note in one.notes)


def test_samples_outside_the_draw_are_not_used() -> None:
    population = dict.fromkeys(SCORES, "all")
    draw = draw_samples(population, 4, run="run_1", seed=3)
    labels = [Label(label.sample_id, label.label, run="run_1") for label in LABELS]
    scores = SampleScores(SCORES, "m", run_names=("run_1",))
    (one,) = calibrate(labels, scores, draws={"run_1": [draw]}).judged
    inside = sum(label.sample_id in draw.sample_ids for label in LABELS)
    assert (one.labelled, one.corrected.labelled) == (inside, inside)
    assert any("not drawn at random and left out" in note for note in one.notes)
    other = draw_samples(population, 4, run="run_1", seed=4)
    (two,) = calibrate(labels, scores, draws={"run_1": [draw, other]}).judged
    assert any("different draws" in note for note in two.notes)
    longer = draw_samples(population, 6, run="run_1", seed=3)
    drawn = [Label(one, "right") for one in longer.sample_ids]
    found = weigh_samples(drawn, longer.sample_ids, population, {"run_1": [draw, longer]}, ("run_1",))
    assert found.ids == frozenset(longer.sample_ids)


def without_draw(labels: list[Label]) -> list[Label]:
    return [replace(label, draw=None, probability=None) for label in labels]


SELECTIONS: list[tuple[list[Label], dict[str, Any], tuple[str, int] | str, str]] = [
    (LABELS, {"assume_random": True}, ("draw", 6), "labels that name their draw"),
    (LABELS, {}, "the draw that they name \\(d1\\) is not recorded next to them", "a draw without its record"),
    (without_draw(LABELS), {}, "no draw is recorded", "no draw"),
    (without_draw(LABELS), {"assume_random": True}, ("assumed_random", 6), "stated to be random"),
    ([Label(one, "right", "ann") for one in SCORES], {}, ("census", 8), "every answer"),
    (
        [replace(label, draw=None, probability=None, chosen=True) for label in LABELS],
        {"assume_random": True},
        "samples that a person picked say nothing about the others",
        "picked by a person",
    ),
    (
        [*LABELS, Label("g", "right", "ann", chosen=True)],
        {"assume_random": True},
        ("draw", 6),
        "one more, picked by a person",
    ),
    ([*LABELS, Label("g", "right", "ann")], {"assume_random": True}, ("assumed_random", 7), "one more, stated"),
    (
        [replace(label, probability=0.5 + 0.1 * place) for place, label in enumerate(LABELS[:4])]
        + [replace(label, draw="d2") for label in LABELS[4:]],
        {"assume_random": True},
        "cannot be combined; give the labels of one draw",
        "two draws, one with different probabilities",
    ),
]


@pytest.mark.parametrize(
    ("labels", "options", "want"), [row[:3] for row in SELECTIONS], ids=[row[3] for row in SELECTIONS]
)
def test_labels_need_a_draw(labels: list[Label], options: dict[str, Any], want: tuple[str, int] | str) -> None:
    if isinstance(want, str):
        with pytest.raises(ValueError, match=want):
            calibrate_recorded(labels, SCORES, **options)
        return
    report = calibrate_recorded(labels, SCORES, **options)
    (one,) = report.judged
    assert (one.basis, one.corrected.labelled) == want
    assert ("--assume-random" in report.to_text()) == (want[0] == "assumed_random")


def test_labels_are_weighted_by_their_probability() -> None:
    """Wrong answers were drawn twice as often, so that two of them count as one right answer."""
    scores = {f"q{n}": 0.5 for n in range(60)}
    labels = [Label(f"q{n}", "right", draw="d1", probability=0.25) for n in range(10)]
    labels += [Label(f"q{n}", "wrong", draw="d1", probability=0.5) for n in range(10, 20)]
    report = calibrate(labels, scores)
    (one,) = report.judged
    assert one.corrected.value == pytest.approx(40 / (40 + 20))
    assert one.labelled < 20  # agreement is measured on the part with equal probabilities
    assert "a part of the draw with equal probabilities" in report.to_text()


RARE = [f"q{n}" for n in range(10)]
CENSUS = [Label(f"q{n}", "wrong", run="a") for n in range(40)]
DRAWN_OFTEN = [Label(one, "right", run="b", draw="d1", probability=0.5) for one in RARE[:6]]
DRAWN_RARELY = [Label(f"q{n}", "wrong", run="b", draw="d1", probability=0.1) for n in range(10, 14)]
TWO_RUNS: list[tuple[list[Label], float | str, str]] = [
    ([*CENSUS, *DRAWN_OFTEN, *DRAWN_RARELY], 12 / (12 + 40), "all answers of the first, drawn ones of the second"),
    (
        [replace(label, run="a") for label in DRAWN_OFTEN + DRAWN_RARELY] + [replace(one, run="b") for one in CENSUS],
        -12 / (12 + 40),
        "drawn ones of the first, all answers of the second",
    ),
    (
        [replace(label, run="a", draw="d0", probability=0.3) for label in DRAWN_OFTEN[:2] + DRAWN_RARELY]
        + [*DRAWN_OFTEN, *DRAWN_RARELY],
        0.0,
        "equal probabilities in the first",
    ),
    (
        [replace(label, run="a", draw="d0", probability=0.3 + 0.1 * n) for n, label in enumerate(DRAWN_RARELY)]
        + [*DRAWN_OFTEN, *DRAWN_RARELY],
        "two draws with different probabilities, so that they give no difference",
        "different probabilities in both",
    ),
]


@pytest.mark.parametrize(("labels", "want"), [row[:2] for row in TWO_RUNS], ids=[row[2] for row in TWO_RUNS])
def test_a_difference_has_the_weights_of_both_runs(labels: list[Label], want: float | str) -> None:
    scores = [SampleScores({f"q{n}": 0.5 for n in range(40)}, "m", run_names=(name,)) for name in ("a", "b")]
    if isinstance(want, str):
        with pytest.raises(ValueError, match=want):
            calibrate(labels, *scores)
        return
    difference = calibrate(labels, *scores).difference
    assert difference is not None
    assert difference.value == pytest.approx(want)


def test_samples_outside_an_active_draw_may_be_stated_to_be_random() -> None:
    found = {f"q{n}": (0.5 if n % 2 else 0.9, 0.5) for n in range(100)}
    draw = draw_comparison(found, 40, runs=("a", "b"), metric="m")
    others = [Label(one, "right", run="a") for one in found if one not in draw.sample_ids]
    scores = SampleScores(dict.fromkeys(found, 0.5), "m", run_names=("a",))
    with pytest.raises(ValueError, match="none of the 60 samples with a label was drawn at random"):
        calibrate(others, scores, draws={"a": [draw]})
    (one,) = calibrate(others, scores, draws={"a": [draw]}, assume_random=True).judged
    assert (one.basis, one.corrected.labelled) == ("assumed_random", 60)


def test_agreement_of_annotators_is_that_of_equal_probabilities() -> None:
    """Annotators disagree on half of the answers that were drawn four times as often, and on no other."""
    rows = [(f"q{n}", 0.8, n % 2 == 0) for n in range(80)] + [(f"q{n}", 0.2, True) for n in range(80, 100)]
    labels = [Label(one, "right", "ann", draw="d1", probability=p) for one, p, _ in rows]
    labels += [Label(one, alike, "bob", draw="d1", probability=p) for one, p, alike in rows]
    people = calibrate(labels, {f"q{n}": 0.5 for n in range(200)}).people
    assert people is not None
    (pair,) = people.pairs
    assert 30 <= pair.agreement.units <= 52  # 20 of each kind are expected
    assert pair.agreement.value == pytest.approx(0.75, abs=0.08)
    apart = calibrate(
        [*labels, Label("q150", "wrong", "bob"), Label("q150", "right", "ann")],
        dict.fromkeys((f"q{n}" for n in range(200)), 0.5),
    ).people
    assert apart == people  # a sample that was not drawn does not enter


def test_skipped_samples_are_noted() -> None:
    draw = draw_samples(dict.fromkeys(SCORES, "all"), 6, run="run_1")
    scores = SampleScores(SCORES, "m", run_names=("run_1",))
    first, *others = draw.sample_ids[:4]
    for ids, gaps in ((others, 1), ([first, *others], 0)):
        (one,) = calibrate([Label(each, "right", run="run_1") for each in ids], scores, draws={"run_1": [draw]}).judged
        note = "1 sample without a label before the last labelled one; if they are harder, there is a bias"
        assert one.notes.count(note) == gaps


def test_a_part_of_an_active_draw_is_no_larger_share_of_the_samples() -> None:
    """Of these samples 20 of 100 are labelled, so that their mean is hardly more certain than that of others."""
    found = {f"q{n}": (0.5 if n % 2 else 0.9, 0.5) for n in range(100)}
    draw = draw_comparison(found, 90, runs=("a", "b"), metric="m")
    scores = SampleScores(dict.fromkeys(found, 0.5), "m", run_names=("a",))
    labels = [Label(one, number % 2 == 0, run="a") for number, one in enumerate(draw.sample_ids[:20])]
    widths = []
    for finite in (False, True):
        (one,) = calibrate(labels, scores, draws={"a": [draw]}, finite=finite).judged
        assert one.corrected.interval is not None
        widths.append(one.corrected.interval.high - one.corrected.interval.low)
    assert widths[1] / widths[0] == pytest.approx(np.sqrt(0.8), abs=0.03)


# --- public answers --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("system", "agreement"), [(name, AGREEMENT[name]) for name in ("fid", "chatgpt")])
def test_a_lexical_critic_with_human_labels(system: str, agreement: float) -> None:
    data = judged(system)
    ids = [sample.sample_id for sample in data.samples]
    labels = [Label(one, bool(label), "human") for one, label in zip(ids, data.labels, strict=True)]
    report = calibrate(labels, SampleScores(dict(zip(ids, data.scores.tolist(), strict=True)), "containment", system))
    (one,) = report.judged
    assert one.agreement.value == pytest.approx(agreement, abs=0.001)
    assert one.corrected.labels_mean == pytest.approx(float(data.labels.mean()))
    assert len(one.disagreements) == round((1 - (one.agreement.value or 0)) * len(ids))
    assert one.kappa.value is not None
    assert 0.3 < one.kappa.value < agreement


def test_labels_of_answers_with_other_scores_are_noticed() -> None:
    """Someone labelled the answers with the lowest scores and wrote a draw into the file."""
    scores = {f"q{n}": n / 200 for n in range(200)}
    labels = [Label(f"q{n}", "wrong", draw="x", probability=0.2) for n in range(40)]
    with pytest.raises(ValueError, match="is not recorded next to them"):
        calibrate_recorded(labels, scores)
    (one,) = calibrate_recorded(labels, scores, assume_random=True).judged
    assert any("unlike those of all answers (0.0975 on average against 0.497" in note for note in one.notes), one.notes
    drawn = [Label(f"q{n}", "wrong", draw="x", probability=0.2) for n in range(0, 200, 5)]
    (other,) = calibrate_recorded(drawn, scores, assume_random=True).judged
    assert not any("unlike" in note for note in other.notes)
