"""Bias of a judge: slopes by hand, judges that prefer long answers or their family, the command."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auepora_eval import EvaluationSample, Response, RunStore, SystemOutputs
from auepora_eval.calibration.bias import MIN_ANSWERS, measure_bias, run_family
from auepora_eval.errors import BadValueError, DataFileError
from auepora_eval.io.labels import Label, write_labels
from auepora_eval.judge.critic import JudgeRequest
from auepora_eval.judge.preference import prefer
from auepora_eval.runs.run import run_system
from auepora_eval.stats.agreement import slope_report
from auepora_eval.store.records import RunRecord
from helpers.critics import ScriptedCritic, framed

pytestmark = pytest.mark.usefixtures("few_draws")
Cli = Callable[..., tuple[int, str, str]]
METRIC = "llm_answer_quality"
LENGTHS = (8, 16, 32, 64)
QUESTIONS = [EvaluationSample(f"q{n}", f"question {n}?", cluster_id=f"c{n // 2}") for n in range(24)]
FAMILIES = {"with-gpt": "gpt-4o", "with-llama": "llama-3"}


def answer(number: int) -> str:
    """Answers of 8, 16, 32 and 64 characters; every third one is right."""
    return ("right" if number % 3 == 0 else "wrong").ljust(LENGTHS[number % 4], "x")


def is_right(number: int) -> bool:
    return number % 3 == 0


def judged_run(
    store: RunStore,
    name: str,
    judge: Callable[[str], float],
    *,
    critic: str = "openai:gpt-4o",
    texts: Callable[[int], str] = answer,
) -> RunRecord:
    """A run whose answers were judged on a scale from 0 to 1."""

    def system(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        return SystemOutputs([], Response(texts(int(sample.sample_id[1:]))))

    def reply(request: JudgeRequest) -> dict[str, Any]:
        return {"rationale": "", "score": judge("".join(framed(request.prompt, "answer")))}

    options = {"critic": ScriptedCritic(reply, name=critic), "dimensions": ["relevance"], "scale": "0-1"}
    metrics = [{"llm_answer_quality": options}]
    config = {"model": FAMILIES.get(name, "none")}
    outcome = run_system(system, QUESTIONS, metrics, store=store, name=name, config=config)
    return outcome.record


def by_length(text: str) -> float:
    """0.1 more for each doubling of the length, from 0.1 on."""
    return 0.1 * float(np.log2(len(text) / 4))


def honest(text: str) -> float:
    return float(text.startswith("right"))


def human_labels(run: str | None = None, number: int = 24) -> list[Label]:
    return [Label(f"q{n}", is_right(n), "ann", run=run, draw="d1", probability=number / 24) for n in range(number)]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunStore:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    return RunStore.open("runs.sqlite")


# --- slopes ----------------------------------------------------------------------------------------------------------

SLOPES = [  # x, y, slope, why
    ([0, 1, 2], [1, 3, 5], 2, "a straight line"),
    ([0, 0, 1, 1], [0, 1, 1, 1], 1 / 2, "the difference of two means"),
    ([1, 2, 3], [1, 0, 1], 0, "no slope"),
    ([0, 1, 5], [0, 0, 1], 3 / 14, "centred: 3 / 14 = (-2 * -1/3 + -1 * -1/3 + 3 * 2/3) / (4 + 1 + 9)"),
]


@pytest.mark.parametrize(("x", "y", "slope"), [row[:3] for row in SLOPES], ids=[row[3] for row in SLOPES])
def test_slope(x: list[float], y: list[float], slope: float) -> None:
    found = slope_report(np.array(x, float), np.array(y, float))
    assert found.value == pytest.approx(slope, abs=1e-12)


def test_slope_is_undefined_for_equal_x() -> None:
    found = slope_report(np.ones(5), np.arange(5.0), why_constant="nothing varies")
    assert (found.value, found.interval, found.why_undefined) == (None, None, "nothing varies")


def test_interval_resamples_clusters() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.random(40), rng.random(40)
    alone = slope_report(x, y).interval
    copies = slope_report(np.tile(x, 3), np.tile(y, 3), clusters=np.tile(np.arange(40), 3)).interval
    assert alone is not None
    assert copies is not None
    assert (copies.low, copies.high, copies.units) == pytest.approx((alone.low, alone.high, 40))


# --- judges ----------------------------------------------------------------------------------------------------------


def test_judge_that_prefers_long_answers(store: RunStore) -> None:
    record = judged_run(store, "long", by_length)
    plain = measure_bias(store, [record])
    assert plain.relation == "association"
    (length, family) = plain.effects
    assert length.estimate.value == pytest.approx(0.1)  # by construction, per doubling
    assert (length.num_answers, length.estimate.units) == (24, 12)
    assert family.estimate.value is None
    assert "bias" not in plain.to_text().lower().replace("auepora judge bias", "")
    # Labels do not depend on the length by more than chance, so that the bias is near the association.
    labelled = measure_bias(store, [record], labels=human_labels())
    y = [by_length(answer(n)) - is_right(n) for n in range(24)]
    x = [np.log2(len(answer(n))) for n in range(24)]
    assert labelled.relation == "bias"
    assert labelled.effects[0].estimate.value == pytest.approx(np.polyfit(x, y, 1)[0])


def test_honest_judge_has_no_bias(store: RunStore) -> None:
    report = measure_bias(store, [judged_run(store, "honest", honest)], labels=human_labels())
    assert report.effects[0].estimate.value == 0
    assert "no bias is shown" in report.to_text()


def test_judge_that_prefers_its_family(store: RunStore) -> None:
    def judge(text: str) -> float:
        return 0.9 if text.startswith("gpt") else 0.4

    gpt = judged_run(store, "with-gpt", judge, texts=lambda n: "gpt says".ljust(LENGTHS[n % 4], "x"))
    llama = judged_run(store, "with-llama", judge, texts=lambda n: "llama says".ljust(LENGTHS[n % 4], "x"))
    assert (run_family(gpt), run_family(llama)) == ("gpt", "llama")
    labels = [Label(f"q{n}", True, "ann", run=one.run_id) for one in (gpt, llama) for n in range(24)]
    report = measure_bias(store, [gpt, llama], labels=labels)
    effect = report.effects[1]
    assert effect.estimate.value == pytest.approx(0.5)  # 0.9 - 0.4
    assert effect.details["families"]["gpt"]["mean"] == pytest.approx(-0.1)
    assert report.judge_families == ("gpt",)
    assert measure_bias(store, [gpt, llama], judge_family="llama").judge_families == ("llama",)
    other = measure_bias(store, [gpt, llama], families={"with-gpt": "llama", "with-llama": "llama"})
    assert "are of other families than the judge's, gpt" in str(other.effects[1].estimate.why_undefined)


def test_families_of_a_panel(store: RunStore) -> None:
    record = judged_run(store, "honest", honest, critic="panel(mean: openai:gpt-4o, openai:claude-3, mine)")
    assert measure_bias(store, [record]).judge_families == ("claude", "gpt")


def test_position_in_preferences(store: RunStore, tmp_path: Path) -> None:
    first = ScriptedCritic(lambda request: {"rationale": "", "verdict": "first"})
    sides = [[SystemOutputs([], Response(f"{side} {n}")) for n in range(24)] for side in "ab"]
    path = tmp_path / "preferred.json"
    path.write_text(json.dumps(prefer(QUESTIONS, sides[0], sides[1], first).to_dict()))
    report = measure_bias(store, [judged_run(store, "honest", honest)], preferences=[path])
    effect = report.effects[-1]
    assert (effect.property, effect.estimate.value, effect.num_answers) == ("position", 0.5, 48)
    assert (
        effect.sentence("bias")
        == "position: the answer shown first wins more often (+0.5000 rate of the first position minus 0.5)"
    )
    path.write_text("{}")
    with pytest.raises(DataFileError, match="no report of `auepora prefer"):
        measure_bias(store, [store.find("honest")], preferences=[path])


# --- what cannot be measured -----------------------------------------------------------------------------------------


def test_errors(store: RunStore) -> None:
    record = judged_run(store, "honest", honest)
    for labels, message in (
        (human_labels(number=3), f"3 answers have a label.*at least {MIN_ANSWERS}"),
        ([Label("q0", True, "ann", run="other")], "no label is about an answer"),
        (
            [Label(f"q{n}", is_right(n), "ann", chosen=True) for n in range(24)],
            "left out: 24 labels of samples that a person picked",
        ),
        (
            [Label(f"q{n}", is_right(n), "ann", chosen=n > 2) for n in range(24)],
            r"3 answers have a label and a score of \S+ \(left out: 21 labels of samples that a person picked\)",
        ),
        ([], "there are no labels"),
    ):
        with pytest.raises(BadValueError, match=message):
            measure_bias(store, [record], labels=labels, assume_random=True)
    with pytest.raises(BadValueError, match="judged by different judges"):
        measure_bias(store, [record, judged_run(store, "other", honest, critic="openai:o3")])
    with pytest.raises(BadValueError, match="which is none of the runs"):
        measure_bias(store, [record], families={"elsewhere": "gpt"})
    same = judged_run(store, "same", honest, texts=lambda n: "right" if n % 2 else "wrong")
    length = measure_bias(store, [same]).effects[0].estimate
    assert (length.value, length.why_undefined) == (None, "all answers have the same length")


def test_tuning_labels_are_left_out(store: RunStore) -> None:
    record = judged_run(store, "honest", honest)
    labels = [Label(f"q{n}", is_right(n), "ann", tuning=n < 2) for n in range(24)]
    with pytest.raises(BadValueError, match="no draw is recorded"):
        measure_bias(store, [record], labels=labels)
    report = measure_bias(store, [record], labels=labels, assume_random=True)
    assert report.effects[0].num_answers == 22
    assert "left out: 2 labels that were used to tune the prompt" in report.notes
    assert "as stated with --assume-random" in report.to_text()


def test_command(store: RunStore, auepora: Cli) -> None:
    judged_run(store, "with-llama", by_length)
    store.close()
    write_labels("human.jsonl", human_labels())
    code, out, err = auepora("judge", "bias", "--json")
    assert code == 0, err
    document = json.loads(out)
    assert (document["relation"], document["metric"], document["judge"]["families"]) == ("association", METRIC, ["gpt"])
    assert document["runs"][0]["family"] == "llama"
    assert document["effects"][0]["value"] == pytest.approx(0.1)
    code, out, _ = auepora("judge", "bias", "latest", "--labels", "human.jsonl", "--family", "latest=gpt")
    assert code == 0
    assert f"Bias of the judge of {METRIC}" in out
    assert "per doubling of characters" in out
    assert auepora("judge", "bias", "latest", "-o", "bias.md")[0] == 0
    assert f"Association of the judge of {METRIC}" in Path("bias.md").read_text()
    for arguments, message in (
        (["latest", "latest"], "named twice"),
        (["latest", "--family", "gpt"], "write RUN=FAMILY"),
        (["latest", "-o", "bias.csv"], "cannot be written as CSV"),
        (["latest", "-m", "llm_answer"], f"did you mean '{METRIC}'"),
    ):
        code, _, err = auepora("judge", "bias", *arguments)
        assert code == 2
        assert message in err
