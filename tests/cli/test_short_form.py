"""Commands print their conclusion in the first line and fit on a screen of 25 lines; ``--all`` prints the tables."""

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.render.blocks import simple_table
from auepora_eval.render.short import ShortForm
from helpers.golden_cli import Outcome, call, entered, write_rows
from helpers.screens import WIDTH, read_screen, whole_text

# --- the demo --------------------------------------------------------------------------------------------------------

STORE = ("--store", "auepora-demo/runs.sqlite")
RUNS = ("quickstart-baseline", "quickstart-bm25")
PLAN = "auepora-demo/plan-bm25.yaml"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    """The demo, whose folder is the current one; with labels of ten answers."""
    folder = tmp_path_factory.mktemp("demo")
    with entered(folder):
        outcome = call("demo")
        ids = [json.loads(line)["sample_id"] for line in Path("auepora-demo/questions.jsonl").read_text().splitlines()]
        labels = [{"sample_id": one, "label": "right" if at % 3 else "wrong"} for at, one in enumerate(ids[:40])]
        write_rows(folder / "labels.jsonl", [{**one, "annotator": name} for one in labels for name in ("ann", "bob")])
        yield outcome


DEMO_SCREENS: dict[tuple[str, ...], tuple[str, ...]] = {  # a command, and texts that its screen has
    ("compare", *RUNS, *STORE): (
        "B against A on 3 primary metrics: 3 better; worse and not primary: support_density",
        "A: 0 of 135 samples failed; B: 0 of 135 samples failed",
        "+0.19 +0.09 to +0.30",
        "the same command with --all",
    ),
    ("compare", *RUNS, *STORE, "--why"): ("Mixed: B against A", "worse by recall@5 cause what was seen", "q44 lost"),
    ("compare", *RUNS, *STORE, "--guardrail", "hallucination_rate=0.02"): (
        "guardrail worse: hallucination_rate",
        "hallucination_rate is worse by at least",
    ),
    (
        "gate",
        RUNS[1],
        "--against",
        RUNS[0],
        "-g",
        "recall@5 >= 0.8",
        "-g",
        "mrr@10 >= 0.99",
        "-g",
        "better(token_f1)",
        *STORE,
    ): (
        "Failed: 3 gates: 2 passed, 1 failed, compared with run_",
        "✗ failed mrr@10 >= 0.99",
        "quickstart-baseline: 0 of 135 samples failed",
    ),
    ("judge", "calibrate", RUNS[1], "--labels", "labels.jsonl", "-m", "token_f1", "--assume-random", *STORE): (
        "Conclusion: token_f1 of quickstart-bm25 is not usable",
        "(AUROC 0.52, p 0.44, 40 labels)",
        "agreement kappa",
        "basis the labelled samples are assumed to be a random sample",
    ),
    ("diagnose", PLAN): (
        "62 of 121 answers are wrong: the generator ignores context in 74 % of them",
        "headroom (oracle - retrieved) +0.124 +0.061 – +0.187",
        "failed retrieved, retrieved retest, none and 3 more: 0 of 121 samples failed",
        "the same command with --resume --all",
    ),
    ("run", PLAN): (
        "quickstart-bm25: recall@5 0.831, token_f1 0.416",
        "0 of 135 samples failed",
        "not shown 23 of 26 metrics",
    ),
    ("show", RUNS[1], *STORE): ("quickstart-bm25: recall@5 0.831", "questions, 135 samples"),
}


@pytest.mark.slow
def test_demo_fits_on_a_screen(demo: Outcome) -> None:
    first, *_ = read_screen(demo.out)
    assert first.startswith("Mixed: B against A on 3 primary metrics: 3 better; worse and not primary: support_density")
    assert "report.html" in demo.err


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "texts"), DEMO_SCREENS.items(), ids=[" ".join(row[:3]) for row in DEMO_SCREENS])
def test_commands_on_the_demo_fit_on_a_screen(
    demo: Outcome, arguments: tuple[str, ...], texts: tuple[str, ...]
) -> None:
    outcome = call(*arguments, "-q")
    read_screen(outcome.out)
    shown = whole_text(outcome.out)
    assert [text for text in texts if text not in shown] == [], outcome.out
    assert shown.startswith(texts[0]) or texts[0] in whole_text(outcome.out.split("\n\n")[0])


# --- a comparison with failures, a refused and a flagged metric ------------------------------------------------------

QUESTIONS = 20
NOT_A_WORD = "something else entirely"


def make_runs(folder: Path, metrics_of_b: str) -> None:
    """Two runs: B fails on 30 % of the questions, and computes token_f1 in another way."""
    write_rows(folder / "data.jsonl", [_sample(n) for n in range(QUESTIONS)])
    write_rows(folder / "a.jsonl", [_output(n, is_right=n % 8 != 0) for n in range(QUESTIONS)])
    failed = {"retrieved": [], "error": "timeout: 30 s"}
    rows = [_output(n, is_right=True) for n in range(QUESTIONS)]
    rows = [{"sample_id": row["sample_id"], **failed} if n % 10 < 3 else row for n, row in enumerate(rows)]
    write_rows(folder / "b.jsonl", rows)
    for name, metrics in (("a", "recall@5, token_f1, exact_match"), ("b", metrics_of_b)):
        Path(f"{name}.yaml").write_text(
            f"name: {name}\ndataset: data.jsonl\noutputs: {{jsonl: {name}.jsonl, config: {{top_k: 1}}}}\nmetrics: [{metrics}]\n"
            "primary: [recall@5, token_f1, exact_match]\nstore: runs.sqlite\n"
        )
        assert call("run", f"{name}.yaml", "-q").code == 0


def _sample(n: int) -> dict[str, Any]:
    reference = f"answer {n} by the book"
    return {
        "sample_id": f"q{n}",
        "query": f"第 {n} 个问题？",
        "relevant_docs": [f"d{n}"],
        "reference_answer": reference,
    }


def _output(n: int, *, is_right: bool) -> dict[str, Any]:
    answer = f"answer {n} by the book" if is_right else NOT_A_WORD
    return {"sample_id": f"q{n}", "retrieved": [f"d{n}" if is_right else "other"], "response": answer}


@pytest.fixture
def failing(tmp_path: Path) -> Iterator[None]:
    with entered(tmp_path):
        make_runs(tmp_path, "recall@5, {token_f1: {tokenizer: char}}, exact_match")
        yield


def test_what_speaks_against_a_comparison_is_on_the_screen(failing: None) -> None:
    shown = call("compare", "a", "b")
    first, *_ = read_screen(shown.out)
    assert first.startswith("Open: B against A on 3 primary metrics: 2 inconclusive, 1 not compared; B: 6 of 20")
    text = whole_text(shown.out)
    assert "failed A: 0 of 20 samples failed; B: 6 of 20 samples failed" in text
    assert "not compared token_f1: computed differently (in: tok)" in text
    assert "flagged recall@5: ? few or skewed samples: the interval may be too narrow" in text


GATES = ("not worse(token_f1, by=0.02)", "not worse(recall@5, by=0.02)", "recall@5 >= 0.7001", "exact_match >= 0.5")


def test_what_speaks_against_gates_is_on_the_screen(failing: None) -> None:
    shown = call("gate", "b", "--against", "a", *chain.from_iterable(("-g", gate) for gate in GATES))
    first, *_ = read_screen(shown.out)
    assert first.startswith("Failed: 7 gates: 1 passed, 4 failed, 2 inconclusive, compared with run_")
    text = whole_text(shown.out)
    assert "answers b: 6 of 20 samples failed; a: 0 of 20 samples failed" in text
    assert "token_f1 cannot be compared: 'token_f1|norm:squad|v1' and" in text
    assert "flagged recall@5: ? few or skewed samples: the interval may be too narrow" in text


def test_reasons_of_gates_have_the_digits_of_their_intervals(failing: None) -> None:
    arguments = ("gate", "b", "--against", "a", "-g", "delta(exact_match) > -0.5", "-g", "recall@5 >= 0.7001")
    text = whole_text(call(*arguments).out)
    assert "the difference in exact_match is -0.15 (95 % interval -0.39 to 0.11) on 20 samples" in text
    assert "recall@5 is 0.70, below 0.7001 (95 % interval 0.48 to 0.92)" in text
    document = json.loads(call(*arguments, "--json").out)
    reasons = {gate["gate"]: gate["reason"] for gate in document["gates"]}
    assert reasons["recall@5 >= 0.7001"] == "recall@5 is 0.7000, below 0.7001 (95 % interval 0.4800 to 0.9200)"
    assert "brief" not in document["gates"][0]


def test_many_warnings_of_gates_are_counted(failing: None) -> None:
    gates = [f"point(delta(exact_match)) > -0.{n}" for n in range(30, 45)]
    shown = call("gate", "b", "--against", "a", *chain.from_iterable(("-g", gate) for gate in gates)).out
    read_screen(shown)
    assert "gates and 4 more" in whole_text(shown)
    assert "warnings and 12 more" in whole_text(shown)


def test_earlier_looks_are_named(failing: None) -> None:
    Path("c.yaml").write_text(Path("a.yaml").read_text().replace("name: a", "name: c"))
    call("run", "c.yaml", "-q")
    assert "looks" not in call("compare", "a", "c").out
    assert "looks this test set has decided 1 comparison before" in whole_text(call("compare", "a", "b").out)


def test_all_prints_the_tables_and_files_are_complete(failing: None) -> None:
    whole = call("compare", "b", "a", "--all").out
    assert "p adjusted" in whole
    assert "Not compared: 1 metric" in whole
    call("score", "data.jsonl", "a.jsonl", "-o", "table.txt")
    every = call("score", "data.jsonl", "a.jsonl", "--all").out
    assert Path("table.txt").read_text() == every
    assert every.startswith("target ")
    read_screen(call("score", "data.jsonl", "a.jsonl").out)
    assert call("score", "data.jsonl", "a.jsonl", "-o", "-").out == call("score", "data.jsonl", "a.jsonl").out


@pytest.mark.parametrize("arguments", [("compare", "a", "b"), ("show", "b"), ("score", "data.jsonl", "b.jsonl")])
def test_json_is_the_same_with_all(failing: None, arguments: tuple[str, ...]) -> None:
    shown = [json.loads(call(*arguments, "--json", *more).out) for more in ((), ("--all",))]
    for document in shown:
        document.pop("register", None)  # each comparison counts
    assert shown[0] == shown[1]


def test_failures_are_named_in_the_first_line(failing: None) -> None:
    first, *_ = read_screen(call("show", "b").out)
    assert first == "b: recall@5 0.70, token_f1 0.70, exact_match 0.70; 6 of 20 samples failed"


def test_a_run_without_results_is_named(failing: None) -> None:
    Path("system.py").write_text(
        "class Broken:\n    def run(self, sample, *, top_k):\n        raise ValueError('no')\n"
    )
    Path("broken.yaml").write_text(
        "name: broken\ndataset: data.jsonl\nsystem: {python: 'system:Broken'}\nmetrics: [recall@5]\n"
        "run: {concurrency: 1, retries: 0, max_failures: 2}\nstore: runs.sqlite\n"
    )
    assert call("run", "broken.yaml", "-q").code == 3
    first, *_ = read_screen(shown := call("show", "broken").out)
    assert first == "broken has no results: the run did not come to scoring"
    assert "3 of 20 outputs, 3 failed" in whole_text(shown)


def test_run_with_gates_begins_with_the_gates(failing: None) -> None:
    with Path("b.yaml").open("a") as plan:
        plan.write("gates: [exact_match >= 0.9, coverage >= 0.5]\n")
    outcome = call("run", "b.yaml")
    assert outcome.code == 1
    first, *_ = read_screen(outcome.out)
    assert first.startswith("Failed: 2 gates: 1 passed, 1 failed; b: recall@5 0.70")
    assert "✗ failed exact_match >= 0.9: exact_match is 0.70, below 0.9" in whole_text(outcome.out)


def test_three_runs_are_ranked(failing: None) -> None:
    Path("c.yaml").write_text(Path("a.yaml").read_text().replace("name: a", "name: c"))
    call("run", "c.yaml", "-q")
    outcome = call("compare", "a", "b", "c")
    first, *lines = read_screen(outcome.out)
    assert first.startswith("By recall@5, A (a) is first with 0.8500; ")
    assert "--why" not in outcome.out, "it goes with two runs"
    assert [line.split()[1] for line in lines[3:6]] == ["a", "c", "b"]


# --- chunks whose documents are the gold, and units ------------------------------------------------------------------

LATENCY = "mean_latency[end_to_end]"


def chunk_output(n: int) -> dict[str, Any]:
    """An answer with a chunk of the right document, and with how long it took."""
    chunk = {"doc": {"doc_id": f"d{n}#1", "parent_id": f"d{n}", "text": f"answer {n} by the book"}, "score": 1.0}
    seconds = {"end_to_end": 0.5 + n / 100}
    return {"sample_id": f"q{n}", "retrieved": [chunk], "response": f"answer {n} by the book", "timings": seconds}


@pytest.fixture
def chunked(tmp_path: Path) -> Iterator[None]:
    """Two runs of chunks, matched by document; B has no output for five questions."""
    with entered(tmp_path):
        write_rows(tmp_path / "data.jsonl", [_sample(n) for n in range(QUESTIONS)])
        for name, count in (("a", QUESTIONS), ("b", QUESTIONS - 5)):
            write_rows(tmp_path / f"{name}.jsonl", [chunk_output(n) for n in range(count)])
            Path(f"{name}.yaml").write_text(
                f"name: {name}\ndataset: data.jsonl\noutputs: {name}.jsonl\n"
                f'metrics: [recall@5, token_f1, "{LATENCY}"]\nprimary: [recall@5, "{LATENCY}"]\n'
                "guardrails: {token_f1: 0.02}\nstore: runs.sqlite\n"
            )
            assert call("run", f"{name}.yaml", "-q").code == 0
        yield


CHUNKED_SCREENS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("run", "b.yaml"): ("0 of 20 samples failed, 5 missing", "gold is matched by document"),
    ("score", "data.jsonl", "b.jsonl"): ("0 of 20 samples failed, 5 missing", "gold is matched by document"),
    ("show", "b"): ("0 of 20 samples failed, 5 missing", "gold by document"),
    ("compare", "a", "b"): (
        "failed A: 0 of 20 samples failed; B: 0 of 20 samples failed, 5 missing",
        "gold by document",
    ),
    ("gate", "b", "-g", f"{LATENCY} < 2"): ("answers b: 0 of 20 samples failed, 5 missing", "gold by document"),
}


@pytest.mark.parametrize(("arguments", "texts"), CHUNKED_SCREENS.items(), ids=[row[0] for row in CHUNKED_SCREENS])
def test_missing_answers_and_the_way_to_match_gold_are_named(
    chunked: None, arguments: tuple[str, ...], texts: tuple[str, ...]
) -> None:
    shown = call(*arguments, "-q").out if arguments[0] in ("run", "score") else call(*arguments).out
    read_screen(shown)
    assert [text for text in texts if text not in whole_text(shown)] == [], shown
    assert f"{LATENCY} (s)" in shown


def test_guardrails_that_are_not_within_their_margin_are_named(chunked: None) -> None:
    text = whole_text(call("compare", "a", "b").out)
    assert "guardrails token_f1 is worse by at least 0.08 (margin 0.02)" in text


def test_units_are_not_cut_off() -> None:
    name = f"quantile_latency[{'very_' * 20}long] (s)"
    table = simple_table(["metric", "value", "mean of"], [[name, "0.50", "20 of 20; 5 failed"]])
    line = ShortForm("All is well", [table]).text().splitlines()[-1]
    assert "… (s)  0.50" in line
    assert len(line) <= WIDTH


# --- notes of metrics -------------------------------------------------------------------------------------------------


def test_missing_and_failed_outputs_are_separate_and_long_notes_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"sample_id": f"q{n}", "query": f"{n}?", "relevant_docs": ["d"], "reference_answer": "x"} for n in range(6)]
    outputs: list[dict[str, Any]] = [{"sample_id": f"q{n}", "response": "x", "retrieved": ["d"]} for n in range(4)]
    write_rows(tmp_path / "data.jsonl", rows)
    write_rows(tmp_path / "out.jsonl", [*outputs, {"sample_id": "q4", "error": "timeout: slow"}])
    text = call("score", "data.jsonl", "out.jsonl", "-m", "token_f1").out
    assert "; 1 of 6 samples failed, 1 missing" in whole_text(text)
    assert "6 of 6; 1 missing, 1 failed, counted worst (timeout)" in text
    text = call("score", "data.jsonl", "out.jsonl", "-m", "quality_given_miss@5").out
    assert "n/a 0 of 6; 1 missing, 1 failed, left out" in whole_text(text)
    assert "(token_f1): 0 of 6; 1 missing, 1 failed, left out (timeout); 4 skipped (hit)" in whole_text(text)
