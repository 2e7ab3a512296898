"""Failed and missing outputs are counted over all samples of a run, whatever its metrics apply to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from helpers.golden_cli import SYSTEM, call, entered, write_rows
from helpers.requirements import need
from helpers.screens import read_screen, whole_text

FAILED = {"retrieved": [], "error": "timeout: 30 s"}


@dataclass(frozen=True)
class Question:
    """A sample with its output, and what differs from an ordinary one."""

    name: str
    gold: tuple[str, ...] = ("a",)
    variant_of: str = ""
    output: str = "answered"
    """``answered``, ``failed`` or ``missing``."""


PLAIN = (Question("q1"), Question("q2"), Question("q3"))
NO_GOLD = Question("q4", gold=())


def perturbed(name: str, output: str = "answered") -> Question:
    return Question(f"{name}-typo", variant_of=name, output=output)


def failing(name: str, gold: tuple[str, ...] = ("a",)) -> Question:
    return Question(name, gold=gold, output="failed")


def missing(name: str, gold: tuple[str, ...] = ("a",)) -> Question:
    return Question(name, gold=gold, output="missing")


ROWS: list[tuple[str, Sequence[Question], str, str]] = [  # why, questions, metric, the text
    ("all answered", PLAIN, "recall@5", "0 of 3 samples failed"),
    ("a skipped sample is counted", [*PLAIN, NO_GOLD], "recall@5", "0 of 4 samples failed"),
    ("a failure where the metric applies", [*PLAIN, failing("q4")], "recall@5", "1 of 4 samples failed"),
    ("a failure that every metric skips", [*PLAIN, failing("q4", gold=())], "recall@5", "1 of 4 samples failed"),
    ("a missing output is not a failed one", [*PLAIN, missing("q4")], "recall@5", "0 of 4 samples failed, 1 missing"),
    (
        "a failed and a missing output that every metric skips",
        [*PLAIN, failing("q4", gold=()), missing("q5", gold=())],
        "recall@5",
        "1 of 5 samples failed, 1 missing",
    ),
    ("variants are samples", [*PLAIN, perturbed("q1")], "recall@5", "0 of 4 samples failed"),
    (
        "base samples that a metric of variants skips",
        [*PLAIN, failing("q4"), perturbed("q1"), perturbed("q2")],
        "noise_robustness",
        "1 of 6 samples failed",
    ),
    (
        "a perturbed sample that failed",
        [*PLAIN, perturbed("q1", "failed"), perturbed("q2")],
        "noise_robustness",
        "1 of 5 samples failed",
    ),
    (
        "a failed base is one failure, and none of its variants",
        [failing("q1"), *PLAIN[1:], perturbed("q1"), perturbed("q2")],
        "noise_robustness",
        "1 of 5 samples failed",
    ),
]
CASES = pytest.mark.parametrize(
    ("questions", "metric", "want"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    with entered(tmp_path):
        yield tmp_path


def write_files(questions: Sequence[Question], samples: str = "data.jsonl", outputs: str = "out.jsonl") -> None:
    write_rows(Path(samples), [_sample(question) for question in questions])
    write_rows(Path(outputs), [_output(question) for question in questions if question.output != "missing"])


def _sample(question: Question) -> dict[str, Any]:
    row: dict[str, Any] = {
        "sample_id": question.name,
        "query": f"What is {question.name}?",
        "relevant_docs": list(question.gold),
        "reference_answer": "yes",
    }
    if question.variant_of:
        row["labels"] = {"variant_of": question.variant_of, "scenario": "typo"}
    return row


def _output(question: Question) -> dict[str, Any]:
    answer = FAILED if question.output == "failed" else {"retrieved": ["a"], "response": "yes"}
    return {"sample_id": question.name, **answer}


def store_run(name: str, questions: Sequence[Question], metric: str, more: str = "") -> None:
    write_files(questions, outputs=f"{name}.jsonl")
    Path(f"{name}.yaml").write_text(
        f"name: {name}\ndataset: data.jsonl\noutputs: {{jsonl: {name}.jsonl, config: {{top_k: 5}}}}\n"
        f"metrics: [{metric}]\nstore: runs.sqlite\n{more}"
    )


def failed_note(text: str) -> str:
    """What a screen says about failed outputs, under its label."""
    (line,) = [line for line in text.splitlines() if line.startswith("failed ")]
    return line.removeprefix("failed ").strip()


def assert_named(out: str, want: str) -> None:
    """The count is in the first line, and under its label."""
    first, *_ = read_screen(out)
    assert first.endswith(f"; {want}")
    assert failed_note(out) == want


# --- files -----------------------------------------------------------------------------------------------------------


@CASES
def test_score_counts_all_samples(questions: Sequence[Question], metric: str, want: str) -> None:
    write_files(questions)
    assert_named(call("score", "data.jsonl", "out.jsonl", "-m", metric, "-q").out, want)


@pytest.mark.parametrize(
    "options",
    [("--lean",), ("--batch-size", "2"), ("--executor", "processes", "--workers", "2")],
    ids=" ".join,
)
def test_it_is_the_same_however_files_are_scored(options: tuple[str, ...]) -> None:
    write_files([*PLAIN, failing("q4", gold=()), missing("q5", gold=())])
    out = call("score", "data.jsonl", "out.jsonl", "-m", "recall@5", "-q", *options).out
    assert_named(out, "1 of 5 samples failed, 1 missing")


def test_a_metric_over_all_samples_at_once_changes_nothing() -> None:
    Path("my_metrics.py").write_text(
        "from auepora_eval import Metric, MetricResult, TargetCategory\n\n"
        "class Answers(Metric):\n"
        "    name, target = 'answers', TargetCategory.GENERATION_CORRECTNESS\n\n"
        "    def required_fields(self):\n"
        "        return ()\n\n"
        "    def compute(self, samples, outputs):\n"
        "        return MetricResult(self.name, self.target, float(len(outputs)))\n"
    )
    write_files([*PLAIN, failing("q4", gold=())])
    assert_named(
        call("score", "data.jsonl", "out.jsonl", "-m", "my_metrics:Answers", "-q").out, "1 of 4 samples failed"
    )


def write_shards() -> None:
    """Two files each: failures that every metric skips in both, and a missing output in the second."""
    parts = [[*PLAIN, failing("q4", gold=())], [Question("q5"), failing("q6", gold=()), missing("q7", gold=())]]
    Path("parts").mkdir()
    for number, questions in enumerate(parts):
        write_files(questions, f"parts/data-{number}.jsonl", f"parts/out-{number}.jsonl")


SHARDS = ("score", "parts/data-*.jsonl", "parts/out-*.jsonl", "-m", "recall@5", "-q", "--batch-size", "2")


@pytest.mark.parametrize("options", [(), ("--lean",), ("--executor", "processes", "--workers", "2")], ids=" ".join)
def test_files_in_parts_are_counted_by_their_workers(options: tuple[str, ...]) -> None:
    write_shards()
    assert_named(call(*SHARDS, *options).out, "2 of 7 samples failed, 1 missing")


def test_a_checkpoint_keeps_the_count() -> None:
    need("pyarrow")
    write_shards()
    want = "2 of 7 samples failed, 1 missing"
    assert_named(call(*SHARDS, "--parts", "scores").out, want)
    assert_named(call(*SHARDS, "--parts", "scores").out, want)
    next(Path("scores").glob("part-*.parquet")).unlink()
    assert_named(call(*SHARDS, "--parts", "scores").out, want)


def test_queries_without_a_ranking_are_missing() -> None:
    Path("qrels.txt").write_text("q1 0 a 1\nq2 0 b 1\nq3 0 c 1\n")
    Path("run.txt").write_text("q1 Q0 a 1 2.0 me\nq2 Q0 a 1 1.0 me\n")
    out = call("score", "--qrels", "qrels.txt", "--run", "run.txt", "-m", "map", "-q").out
    assert_named(out, "0 of 3 samples failed, 1 missing")


# --- stored runs -----------------------------------------------------------------------------------------------------


@CASES
def test_a_stored_run_counts_all_samples(questions: Sequence[Question], metric: str, want: str) -> None:
    store_run("one", questions, metric)
    assert_named(call("run", "one.yaml", "-q").out, want)
    assert_named(call("show", "one", "--store", "runs.sqlite").out, want)
    assert_named(call("show", "one", "-m", metric, "--store", "runs.sqlite").out, want)
    assert_named(call("run", "one.yaml", "--resume", "--run", "one", "-q").out, want)


def plan_system(broken: Sequence[str], repeats: int = 1) -> None:
    """A system that raises on these samples; no metric applies to q3."""
    write_files([Question("q1"), Question("q2"), Question("q3", gold=())])
    Path("golden_cli_system.py").write_text(SYSTEM)
    Path("called.yaml").write_text(
        f"name: called\ndataset: data.jsonl\nsystem: {{python: 'golden_cli_system:Broken', args: {{broken: {list(broken)}}}}}\n"
        f"metrics: [recall@5]\nrun: {{concurrency: 1, retries: 0, repeats: {repeats}}}\nstore: runs.sqlite\n"
    )


@pytest.mark.parametrize(
    ("repeats", "want"),
    [
        pytest.param(1, "1 of 3 samples failed", id="a system that fails where no metric applies"),
        pytest.param(2, "2 of 6 outputs failed", id="several outputs of a sample, so outputs are counted"),
    ],
)
def test_a_system_that_fails(repeats: int, want: str) -> None:
    plan_system(["q3"], repeats)
    assert_named(call("run", "called.yaml", "-q").out, want)
    assert_named(call("show", "called", "--store", "runs.sqlite").out, want)


def test_a_resumed_run_counts_the_outputs_of_every_call() -> None:
    plan_system(["q1"])
    assert "3 of 3 samples" not in call("run", "called.yaml", "-q").out
    resumed = call("run", "called.yaml", "-q", "--resume", "--run", "called", "--retry-failed")
    assert_named(resumed.out, "1 of 3 samples failed")


# --- several runs ----------------------------------------------------------------------------------------------------

SECOND = [*PLAIN, perturbed("q1", "failed"), missing("q4", gold=())]
FIRST = [*PLAIN, perturbed("q1"), Question("q4", gold=())]


@pytest.fixture
def two_runs() -> None:
    store_run("b", SECOND, "recall@5, token_f1", "primary: [recall@5]\n")
    store_run("a", FIRST, "recall@5, token_f1", "primary: [recall@5]\n")
    for name in ("a", "b"):
        assert call("run", f"{name}.yaml", "-q").code == 0


@pytest.mark.usefixtures("two_runs")
def test_a_comparison_counts_the_samples_of_both_runs() -> None:
    out = call("compare", "a", "b", "--store", "runs.sqlite").out
    want = "B: 1 of 5 samples failed, 1 missing"
    assert failed_note(out) == f"A: 0 of 5 samples failed; {want}"
    conclusion = whole_text(out.split("\n\n")[0])
    assert want in conclusion
    assert "A: 0 of 5" not in conclusion, "only what speaks against the verdict"


@pytest.mark.usefixtures("two_runs")
def test_gates_name_the_failures_of_both_runs() -> None:
    gate = ("gate", "b", "--against", "a", "-g", "not worse(recall@5, by=0.5)", "--store", "runs.sqlite")
    assert "b: 1 of 5 samples failed, 1 missing; a: 0 of 5 samples failed" in whole_text(call(*gate).out)
