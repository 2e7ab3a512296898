"""Targets as input: their names, the metrics that the data supports for them, and what is missing."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import EvaluationPlan, EvaluationSample, Response, SystemOutputs
from auepora_eval.core.targets import TARGETS, find_target, find_targets
from auepora_eval.core.types import TargetCategory
from auepora_eval.errors import AueporaWarning, BadValueError
from helpers.critics import SteadyCritic, steady_value
from helpers.judge_server import Asked, JudgeServer

Run = Callable[..., tuple[int, str, str]]
T = TargetCategory

SAMPLES: list[dict[str, Any]] = [
    {"sample_id": "1", "query": "Who wrote it?", "relevant_docs": ["a"], "reference_answer": "Ada"},
    {"sample_id": "2", "query": "When was it?", "relevant_docs": ["b"], "reference_answer": "1843"},
    {"sample_id": "3", "query": "Why is it?", "relevant_docs": [], "labels": {"scenario": "unanswerable"}},
    {
        "sample_id": "4",
        "query": "who wrote it",
        "reference_answer": "Ada",
        "labels": {"scenario": "typo", "variant_of": "1"},
    },
    {
        "sample_id": "5",
        "query": "Who edited it?",
        "reference_answer": "Ada",
        "labels": {"scenario": "counterfactual", "variant_of": "1"},
    },
]
ANSWER: dict[str, Any] = {
    "retrieved": [
        {"doc": {"doc_id": "a", "text": "Ada wrote it in 1843."}},
        {"doc": {"doc_id": "b", "text": "It is old."}},
    ],
    "response": "Ada",
    "timings": {"end_to_end": 0.5},
    "usage": {"prompt_tokens": 10, "completion_tokens": 2},
}
EXPECTED = {  # what each target computes at least; the first is primary
    "retrieval_relevance": ["recall@5", "precision@5", "hit_rate@1"],
    "retrieval_accuracy": ["ndcg@10", "mrr", "map"],
    "generation_relevance": ["answer_relevance", "rougeL_query"],
    "generation_faithfulness": ["support_density", "hallucination_rate"],
    "generation_correctness": ["token_f1", "exact_match", "rougeL_answer"],
    "latency": ["mean_latency[end_to_end]", "quantile_latency[end_to_end,0.95]", "throughput"],
    "diversity": ["response_diversity", "distinct_n"],
    "noise_robustness": ["noise_robustness"],
    "negative_rejection": ["rejection_f1", "over_refusal_rate"],
    "counterfactual_robustness": ["counterfactual_consistency"],
    "cost": ["prompt_tokens", "completion_tokens"],
}
NAMES = [name for target in TARGETS.values() for name in (target.name, *target.aliases)]


def write_lines(path: str, rows: list[dict[str, Any]]) -> None:
    Path(path).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``data.jsonl`` with annotations for every target, ``out.jsonl``, and the same without any: ``bare.jsonl``."""
    monkeypatch.chdir(tmp_path)
    write_lines("data.jsonl", SAMPLES)
    write_lines("out.jsonl", [{"sample_id": sample["sample_id"], **ANSWER} for sample in SAMPLES])
    write_lines("bare.jsonl", [{"sample_id": sample["sample_id"], "query": sample["query"]} for sample in SAMPLES])
    return tmp_path


def computed(out: str) -> list[str]:
    return [result["name"] for result in json.loads(out)["results"]]


# --- names -----------------------------------------------------------------------------------------------------------


def test_names_are_distinct() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert list(EXPECTED) == [target.name for target in TARGETS.values()], "in the order of the survey"


def test_spelling_and_order() -> None:
    assert find_target("Generation-Correctness") is T.GENERATION_CORRECTNESS
    assert find_targets(["cost", "correctness", T.COST, "latency"]) == (T.GENERATION_CORRECTNESS, T.LATENCY, T.COST)


UNKNOWN = [  # name, what the error suggests
    ("corectness", "did you mean 'correctness'?"),
    ("relevance", "did you mean 'answer_relevance' or 'context_relevance'?"),
    ("retrieval", "did you mean 'retrieval_accuracy' or 'retrieval_relevance'?"),
    ("zzz", "unknown target 'zzz'; the targets are retrieval_relevance, "),
]


@pytest.mark.parametrize(("name", "hint"), UNKNOWN, ids=[name for name, _ in UNKNOWN])
def test_unknown_names(name: str, hint: str, data: Path, auepora: Run) -> None:
    with pytest.raises(BadValueError) as caught:
        find_target(name)
    assert hint in str(caught.value)
    assert str(caught.value).endswith("counterfactual_robustness, cost"), "it lists all targets"
    code, _, err = auepora("score", "data.jsonl", "out.jsonl", "--target", name)
    assert (code, hint in err) == (2, True), err


# --- the metrics of each target --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_score_by_every_name(name: str, data: Path, auepora: Run) -> None:
    target = TARGETS[find_target(name)]
    code, out, err = auepora("score", "data.jsonl", "out.jsonl", "--target", name, "--json")
    assert code == 0, err
    assert {result["target"] for result in json.loads(out)["results"]} == {target.category.name}
    assert set(EXPECTED[target.name]) <= set(computed(out))
    assert ("no judge is configured" in err) == bool(target.judged), "what a judge would add is said"
    assert target.judged in err
    assert "Warning" not in err


def test_the_default_metrics_are_the_same(data: Path, auepora: Run) -> None:
    """Metrics that targets add are no defaults, and a default metric belongs to a target."""
    every = [word for target in TARGETS.values() for word in ("--target", target.name)]
    by_default, by_target = (
        computed(auepora("score", "data.jsonl", "out.jsonl", *words, "--json")[1]) for words in ([], every)
    )
    assert set(by_target) - set(by_default) == {
        "rouge1_query", "rouge2_query", "rougeL_query", "prompt_tokens", "completion_tokens",
    }  # fmt: skip
    assert set(by_default) <= set(by_target)


def test_metrics_and_targets_together(data: Path, auepora: Run) -> None:
    code, out, err = auepora("score", "data.jsonl", "out.jsonl", "--target", "latency", "-m", "recall@2", "--json")
    assert code == 0, err
    assert computed(out) == ["recall@2", *EXPECTED["latency"]]


def test_many_files(data: Path, auepora: Run) -> None:
    for number, sample in enumerate(SAMPLES[:3]):
        write_lines(f"part-{number}.jsonl", [sample])
    write_lines("some.jsonl", [{"sample_id": sample["sample_id"], **ANSWER} for sample in SAMPLES[:3]])
    code, out, err = auepora("score", "part-*.jsonl", "some.jsonl", "--target", "ranking", "--json")
    assert code == 0, err
    assert {"ndcg@10", "mrr"} <= set(computed(out))
    assert auepora("score", "part-*.jsonl", "some.jsonl", "--target", "noise")[0] == 2


def test_trec_run(data: Path, auepora: Run) -> None:
    Path("qrels.txt").write_text("q1 0 a 1\n")
    Path("run.txt").write_text("q1 Q0 b 1 2.0 me\nq1 Q0 a 2 1.0 me\n")
    files = ("score", "--qrels", "qrels.txt", "--run", "run.txt")
    code, out, err = auepora(*files, "--target", "ranking", "--target", "cost", "--json")
    assert code == 0, err
    assert {result["target"] for result in json.loads(out)["results"]} == {"RETRIEVAL_ACCURACY"}
    assert "Warning: cost cannot be judged: a TREC run has rankings alone; save the usage" in err
    code, _, err = auepora(*files, "--target", "cost")
    assert (code, "cost cannot be judged" in err) == (2, True)


# --- what is missing -------------------------------------------------------------------------------------------------

MISSING = [  # target, what it says about samples without any annotation
    ("retrieval_relevance", "no sample has relevant_docs; add relevant_docs to the samples"),
    ("retrieval_accuracy", "no sample has relevant_docs; add relevant_docs to the samples"),
    ("generation_correctness", "no sample has reference_answer; add reference_answer to the samples"),
    ("noise_robustness", "`auepora perturb` writes them"),
    ("negative_rejection", "add questions that cannot be answered, with 'unanswerable' as labels.scenario"),
    ("counterfactual_robustness", "add variants with labels.variant_of and 'counterfactual' as labels.scenario"),
]


@pytest.mark.parametrize(("name", "problem"), MISSING, ids=[name for name, _ in MISSING])
def test_missing_annotations(name: str, problem: str, data: Path, auepora: Run) -> None:
    """No gold: a target that lacks an annotation is named, and is an error where it is the only one."""
    code, out, err = auepora("score", "bare.jsonl", "out.jsonl", "--target", name, "--target", "latency", "--json")
    assert code == 0, err
    assert "mean_latency[end_to_end]" in computed(out)
    assert f"Warning: {name} " in err
    assert problem in err
    alone, _, err = auepora("score", "bare.jsonl", "out.jsonl", "--target", name)
    assert alone == (0 if name == "retrieval_relevance" else 2), "empty_result_rate needs no gold"
    assert problem in err


def test_outputs_lack_what_a_target_needs(data: Path, auepora: Run) -> None:
    write_lines("answers.jsonl", [{"sample_id": sample["sample_id"], "response": "Ada"} for sample in SAMPLES])
    code, _, err = auepora("score", "data.jsonl", "answers.jsonl", "--target", "ranking", "--target", "correctness")
    assert code == 0, err
    assert "retrieval_accuracy cannot be judged: no output has retrieved documents" in err
    code, _, err = auepora("score", "data.jsonl", "answers.jsonl", "--target", "cost", "--target", "latency")
    assert code == 2
    assert "latency cannot be judged: no output has timings; save timings in the outputs" in err
    assert "cost cannot be judged: no output has usage; save the usage" in err


def test_own_csv(data: Path, auepora: Run) -> None:
    with open("own.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(
            [["Question", "Answer", "Expected"], ["Who?", "Ada", "Ada"], ["When?", "1842", "1843"]]
        )
    columns = ("--columns", "query=Question,response=Answer,reference=Expected")
    code, out, err = auepora("score", "own.csv", *columns, "--target", "correctness", "--target", "refusal", "--json")
    assert code == 0, err
    values = {result["name"]: result["value"] for result in json.loads(out)["results"]}
    assert values["exact_match"] == 1 / 2
    assert "negative_rejection cannot be judged" in err
    code, out, err = auepora("targets", "own.csv", *columns, "--json")
    rows = {row["target"]: row for row in json.loads(out)["targets"]}
    assert rows["generation_correctness"]["has"] == {
        "reference_answer": "2 of 2 samples",
        "response": "2 of 2 outputs",
    }
    assert rows["generation_correctness"]["missing"] is None
    assert "no sample has relevant_docs" in rows["retrieval_accuracy"]["missing"]


# --- judges ----------------------------------------------------------------------------------------------------------


def test_judged_metrics_where_there_is_a_judge(data: Path, auepora: Run) -> None:
    files = ("score", "data.jsonl", "out.jsonl", "--target", "correctness", "--target", "ranking", "--json")

    def answer(asked: Asked) -> dict[str, object]:
        properties = asked.schema["properties"].items()
        return {name: steady_value(name, kind, asked.prompt) for name, kind in properties}

    with JudgeServer(answer) as server:
        code, out, err = auepora(*files, "--judge-model", "tiny", "--judge-url", server.base_url)
        assert code == 0, err
        assert "judged, where the data supports it: llm_correctness" in err
        assert "llm_correctness" in computed(out)
        asked = len(server.asked)
        code, out, err = auepora(*files)
    assert "no judge is configured, so these metrics are left out: llm_correctness" in err
    assert "llm_correctness" not in computed(out)
    assert asked > 0


def test_a_judge_does_not_replace_an_annotation(data: Path, auepora: Run) -> None:
    files = ("score", "bare.jsonl", "out.jsonl", "--target", "correctness", "--target", "latency", "--json")
    code, out, err = auepora(*files, "--judge-model", "tiny", "--judge-url", "http://127.0.0.1:9/v1")
    assert code == 0, err
    assert "llm_correctness" not in computed(out), "it needs reference answers as well"
    assert "generation_correctness cannot be judged: no sample has reference_answer" in err


# --- plans -----------------------------------------------------------------------------------------------------------

PLAN = """\
dataset: data.jsonl
outputs: out.jsonl
store: runs.sqlite
"""


def write_plan(more: str) -> None:
    Path("plan.yaml").write_text(PLAN + more, encoding="utf-8")


def test_plan(data: Path, auepora: Run) -> None:
    write_plan("targets: [correctness, Latency]\nmetrics: [recall@2]\ngates: [token_f1 >= 0.1]\n")
    code, out, err = auepora("validate", "plan.yaml")
    assert (code, err) == (0, ""), out
    assert "every metric that the data supports for generation_correctness, latency, and 1 metric: recall@2" in out
    assert "no judge is configured, so these metrics are left out: llm_correctness" in out
    code, out, err = auepora("run", "plan.yaml", "--json")
    assert code == 0, err
    assert {"recall@2", "token_f1", "mean_latency[end_to_end]"} <= set(computed(out))
    assert "no judge is configured" in err
    stored = json.loads(auepora("runs", "--json")[1])[0]["plan"]
    assert stored["targets"] == ["generation_correctness", "latency"]
    assert stored["metrics"] == ["recall@2"]
    assert stored["primary"] == ["token_f1", "mean_latency[end_to_end]"], "one for each target"
    again = computed(auepora("rescore", "latest", "--json")[1])
    assert again == computed(out), "the plan of the run has targets"


def test_plan_and_options(data: Path, auepora: Run) -> None:
    """``-m`` and ``--target`` replace what the plan names of either."""
    write_plan("targets: [correctness]\nmetrics: [recall@2]\nprimary: [token_f1, recall@2]\n")
    by_target = computed(auepora("run", "plan.yaml", "--target", "latency", "--json")[1])
    assert by_target == EXPECTED["latency"]
    assert computed(auepora("run", "plan.yaml", "-m", "recall@5", "--json")[1]) == ["recall@5"]
    both = computed(auepora("run", "plan.yaml", "-m", "recall@5", "--target", "cost", "--json")[1])
    assert both == ["recall@5", "completion_tokens", "prompt_tokens"]


def test_rescore(data: Path, auepora: Run) -> None:
    write_plan("metrics: [recall@2]\n")
    assert auepora("run", "plan.yaml")[0] == 0
    code, out, err = auepora("rescore", "latest", "--target", "faithfulness", "--target", "cost", "--json")
    assert code == 0, err
    assert {"support_density", "prompt_tokens"} <= set(computed(out))
    assert "recall@2" not in computed(out)
    code, _, err = auepora("rescore", "latest", "--target", "faithfulness", "--qrels", "q", "--grades", "g")
    assert (code, "leave out --target" in err) == (2, True)


PLAN_ERRORS = [  # keys, what the error says
    ("targets: [corectness]", "plan.yaml:4: targets[0]: unknown target 'corectness'; did you mean 'correctness'?"),
    ("targets: correctness", "targets"),
    ("targets: [4]", "targets[0]: must be a text, not the number 4"),
    ("targets: [cost]\nprimary: [token_f1]", "'token_f1' is not among the metrics"),
    ("targets: [cost]\ngates: [token_f1 >= 0.5]", "'token_f1', which is not among the metrics"),
    ("dataset: bare.jsonl\ntargets: [noise, refusal]", "noise_robustness cannot be judged"),
]


@pytest.mark.parametrize(("keys", "problem"), PLAN_ERRORS, ids=[keys for keys, _ in PLAN_ERRORS])
def test_errors_in_plans(keys: str, problem: str, data: Path, auepora: Run) -> None:
    write_plan(keys)
    if keys.startswith("dataset"):
        Path("plan.yaml").write_text(f"outputs: out.jsonl\n{keys}\n")
    code, _, err = auepora("run", "plan.yaml")
    assert code == 2
    assert problem in err, err


def test_a_target_that_samples_do_not_allow_is_left_out(data: Path, auepora: Run) -> None:
    write_plan("targets: [noise, latency]\n")
    Path("plan.yaml").write_text(Path("plan.yaml").read_text().replace("data.jsonl", "bare.jsonl"))
    code, out, err = auepora("run", "plan.yaml", "--json")
    assert code == 0, err
    assert err.count("noise_robustness cannot be judged") == 1
    assert "mean_latency[end_to_end]" in computed(out)


# --- other commands --------------------------------------------------------------------------------------------------


def test_init(data: Path, auepora: Run) -> None:
    code, out, err = auepora(
        "init", "data.jsonl", "out.jsonl", "--target", "correctness", "--target", "speed", "-o", "-"
    )
    assert code == 0, err
    assert "\ntargets: [generation_correctness, latency]\n" in out
    assert '\nprimary: [token_f1, "mean_latency[end_to_end]"]\n' in out
    assert "\nmetrics:" not in out
    Path("written.yaml").write_text(out)
    assert auepora("run", "written.yaml")[0] == 0
    code, out, err = auepora(
        "init", "bare.jsonl", "out.jsonl", "--target", "correctness", "--target", "speed", "-o", "-"
    )
    assert (code, "generation_correctness cannot be judged" in err) == (0, True)
    assert "#   generation_correctness cannot be judged: no sample has reference_answer" in out
    assert auepora("init", "bare.jsonl", "out.jsonl", "--target", "noise", "-o", "-")[0] == 2
    assert auepora("init", "data.jsonl", "--for", "answers", "--target", "noise", "-o", "-")[0] == 2


def test_metrics(auepora: Run) -> None:
    code, out, _ = auepora("metrics", "--target", "latency", "--json")
    assert code == 0
    assert {card["target"] for card in json.loads(out)} == {"LATENCY"}
    assert auepora("metrics", "recall", "--target", "latency")[0] == 2


def test_targets(data: Path, auepora: Run) -> None:
    code, out, err = auepora("targets")
    assert (code, err) == (0, "")
    assert "generation_correctness (also correctness, answer_correctness)" in out
    assert "  compares  response – sample response or label\n  needs     reference_answer, response" in out
    code, out, _ = auepora("targets", "data.jsonl", "out.jsonl", "--json")
    rows = {row["target"]: row for row in json.loads(out)["targets"]}
    assert list(rows) == list(EXPECTED)
    assert not any(row["missing"] for row in rows.values())
    for name, metrics in EXPECTED.items():
        assert rows[name]["primary"] == ([] if name == "cost" else metrics[:1])
    assert rows["noise_robustness"]["has"]["labels.variant_of"] == "2 of 5 samples"
    code, out, _ = auepora("targets", "bare.jsonl")
    assert "reference_answer in 0 of 5 samples, response in outputs that are not given" in out
    assert "missing   generation_correctness cannot be judged" in out
    Path("broken.jsonl").write_text("{}\n")
    code, _, err = auepora("targets", "broken.jsonl")
    assert (code, "`auepora validate` lists all problems" in err) == (2, True)


# --- Python ----------------------------------------------------------------------------------------------------------


def test_for_targets() -> None:
    samples = [EvaluationSample("1", "Who?", reference_answer=Response("Ada"))]
    outputs = [SystemOutputs([], Response("Ada"))]
    plan = EvaluationPlan.for_targets(["correctness"], samples, outputs)
    assert {"token_f1", "exact_match"} <= {metric.name for metric in plan.metrics}
    assert (plan.primary, plan.missing) == (["token_f1"], {})
    with pytest.warns(AueporaWarning, match="retrieval_accuracy cannot be judged: no sample has relevant_docs"):
        plan = EvaluationPlan.for_targets([T.RETRIEVAL_ACCURACY, "correctness"], samples)
    assert list(plan.missing) == [T.RETRIEVAL_ACCURACY]
    with pytest.raises(BadValueError, match="add relevant_docs to the samples"):
        EvaluationPlan.for_targets(["ranking"], samples)


def test_for_targets_with_a_judge() -> None:
    samples = [EvaluationSample("1", "Who?", reference_answer=Response("Ada"))]
    plan = EvaluationPlan.for_targets(["correctness"], samples, judge=SteadyCritic())
    assert plan.primary == ["token_f1", "llm_correctness"]
    assert "llm_correctness" in {metric.name for metric in plan.metrics}
