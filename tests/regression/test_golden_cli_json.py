"""The keys of every ``--json`` output of the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import crosscheck as crosscheck_plain
from auepora_eval.core.registry import metric_infos
from helpers.golden import check_golden, key_paths
from helpers.golden_cli import built_project, call, commands, project, write_rows

# In this order: later calls read what earlier ones stored or wrote. The name begins with the words of the command.
CASES: dict[str, list[str]] = {
    "score: everything the data supports": ["score", "data.jsonl", "a.jsonl", "--slice", "labels.lang", "--per-query"],
    "score: metrics with options": [
        *("score", "data.jsonl", "b.jsonl", "--corpus", "corpus.jsonl", "--nuggets", "nuggets.jsonl"),
        *(
            "-m",
            "ndcg@10:gain_scheme=linear,as=mine",
            "-m",
            "failure_attribution@5",
            "-m",
            "rouge_scores",
            "-m",
            "distinct_n",
        ),
    ],
    "score: TREC": ["score", "--qrels", "qrels.txt", "--run", "run.txt", "--per-query"],
    "score: BEIR": ["score", "beir", "run.txt", "--outputs-format", "trec", "-m", "ndcg@10", "-m", "recall@5"],
    "score: shards": [
        "score",
        "shards/data-*.jsonl",
        "shards/out-*.jsonl",
        "--parts",
        "parts",
        "-m",
        "recall@5",
        "-m",
        "token_f1",
    ],
    "score: lean": ["score", "data.jsonl", "a.jsonl", "--lean", "-m", "recall@5", "-m", "bleu"],
    "score: with a judge": [
        "score",
        "data.jsonl",
        "a.jsonl",
        "-m",
        "llm_faithfulness",
        "-m",
        "claim_recall",
        "--plan",
        "judged.yaml",
        "--per-query",
    ],
    "score: preview": [
        "score",
        "data.jsonl",
        "a.jsonl",
        "-m",
        "llm_faithfulness",
        "--plan",
        "judged.yaml",
        "--preview",
    ],
    "run: saved outputs": ["run", "baseline.yaml", "--per-query", "--tag", "nightly"],
    "run: with gates": ["run", "gated.yaml"],
    "run: with a judge": ["run", "judged.yaml"],
    "run: preview": ["run", "judged.yaml", "--preview"],
    "run: perturbed": ["run", "system-1.yaml", "--perturb", "noise=0,0.5"],
    "diagnose": ["diagnose", "system-1.yaml", "--store", "diagnosis.sqlite"],
    "sweep": ["sweep", "sweep.yaml"],
    "sweep: show": ["sweep", "show", "sweep", "--store", "sweep.sqlite"],
    "sweep: preview": ["sweep", "sweep.yaml", "--preview", "--name", "other"],
    "run: resume": ["run", "repeated.yaml", "--resume", "--run", "repeated", "--retry-failed"],
    "rescore": ["rescore", "second", "-m", "chrf", "-m", "map@10:conventions=trec", "--slice", "labels.lang"],
    "rescore: preview": ["rescore", "judged", "--preview"],
    "queries: filtered": ["queries", "baseline", "second", "--where", "recall@5<1", "--sort", "-recall@5", "-n", "4"],
    "queries: saved": ["queries", "baseline", "--where", "recall@5<1", "--save", "missed", "-n", "1"],
    "samples: list": ["samples"],
    "samples: one": ["samples", "missed"],
    "compare: set": ["compare", "baseline", "second", "-m", "recall@5", "--samples", "missed"],
    "show: run": ["show", "baseline", "--per-query"],
    "show: judged run": ["show", "judged"],
    "show: repeated run": ["show", "repeated"],
    "show: every definition": ["show", "second", "--all", "-m", "bleu", "-m", "map@10"],
    "show: sample": ["show", "baseline", "--sample", "q04"],
    "show: judged sample": ["show", "judged", "--sample", "q01"],
    "show: sample that failed": ["show", "judged", "--sample", "q04"],
    "show: failures": ["show", "repeated", "--failures"],
    "show: judge failures": ["show", "judged", "--failures"],
    "runs": ["runs"],
    "runs: by name": ["runs", "--name", "nobody"],
    "compare: two runs": ["compare", "baseline", "second"],
    "compare: why": ["compare", "second", "baseline", "--why", "--delta", "0.02"],
    "compare: several runs": ["compare", "baseline", "second", "third", "--delta", "mrr=0.01"],
    "compare: several runs, tukey": ["compare", "baseline", "second", "third", "--adjust", "tukey", "-m", "recall@5"],
    "compare: golden queries": ["compare", "chunks-1", "chunks-1b", "--golden", "golden.yaml"],
    "compare: chunks that changed": ["compare", "chunks-1", "chunks-2", "--why", "--why-metric", "groundedness"],
    "gate": [
        "gate",
        "baseline",
        "-g",
        "recall@5 >= 0.1",
        "-g",
        "recall@5 where labels.lang = de >= 0.9",
        "-g",
        "low(token_f1) >= 0.1",
    ],
    "gate: against": [
        *("gate", "second", "--against", "third", "-g", "delta(mrr) > -0.5", "-g", "not worse(token_f1, by=0.02)"),
        *("-g", "better(recall@5)", "-g", "coverage >= 0.9"),
    ],
    "gate: of a plan": ["gate", "second", "--plan", "gated.yaml"],
    "explain: metric": ["explain", "baseline", "ndcg@10"],
    "explain: query": ["explain", "baseline", "ndcg@10", "--query", "q04"],
    "explain: tokens": ["explain", "baseline", "token_f1", "--query", "q01"],
    "explain: corpus metric": ["explain", "baseline", "bleu", "--query", "q01"],
    "explain: latency": ["explain", "baseline", "mean_latency[end_to_end]", "--query", "q01"],
    "explain: system failed": ["explain", "baseline", "mrr", "--query", "q07"],
    "explain: judged": ["explain", "judged", "llm_faithfulness", "--query", "q01"],
    "validate: data": ["validate", "data.jsonl"],
    "validate: data and outputs": [
        "validate",
        "data.jsonl",
        "a.jsonl",
        "--corpus",
        "corpus.jsonl",
        "--nuggets",
        "nuggets.jsonl",
    ],
    "validate: problems": ["validate", "bad.jsonl", "bad-out.jsonl"],
    "validate: plan": ["validate", "baseline.yaml"],
    "validate: bad plan": ["validate", "bad.yaml"],
    "convert: samples": ["convert", "data.jsonl", "data.parquet"],
    "convert: outputs": ["convert", "b.jsonl", "b.run", "--to", "trec", "--role", "outputs"],
    "convert: both in one file": [
        "convert",
        "data.jsonl",
        "records.json",
        "--to",
        "ragas",
        "--outputs-in",
        "stray.jsonl",
    ],
    "convert: apart": ["convert", "records.json", "again.jsonl", "--outputs", "again-out.jsonl"],
    "metrics": ["metrics"],
    "metrics: one": ["metrics", "ndcg"],
    "metrics: judged": ["metrics", "llm_faithfulness"],
    "perturb": [
        "perturb",
        "data.jsonl",
        "--typo",
        "0.1",
        "--drop-words",
        "0.2",
        "--case",
        "upper",
        "--no-punctuation",
        "-o",
        "noisy.jsonl",
    ],
    "replay": ["replay", "system-1", "system-2", "system-2.yaml"],
    "prefer": ["prefer", "baseline", "judged"],
    "plan-size": ["plan-size", "baseline", "judged", "--delta", "0.05"],
    "pool: stored runs": ["pool", "baseline", "second", "--depth", "3", "-o", "pool.jsonl"],
    "pool: TREC runs": [
        "pool",
        "run.txt",
        "--topics",
        "topics.tsv",
        "--qrels",
        "qrels.txt",
        "--new-only",
        "-o",
        "pool-trec.jsonl",
    ],
    "judge relevance": ["judge", "relevance", "pool.jsonl", "--plan", "judged.yaml", "-o", "grades.txt"],
    "judge relevance: preview": [
        "judge",
        "relevance",
        "pool.jsonl",
        "--plan",
        "judged.yaml",
        "-o",
        "grades-2.txt",
        "--preview",
    ],
    "judge relevance: labels": ["judge", "relevance", "pool.jsonl", "--labels", "grades.tsv", "-o", "grades-3.txt"],
    "rescore: other gold": ["rescore", "baseline", "--qrels", "grades.txt", "-m", "ndcg@10"],
    "judge bias": ["judge", "bias", "baseline", "second", "third", "-m", "token_f1"],
    "judge try": ["judge", "try", "judged.yaml", "-m", "llm_faithfulness", "-n", "2"],
    "judge calibrate: run": [
        "judge",
        "calibrate",
        "judged",
        "--labels",
        "ann.jsonl",
        "--labels",
        "bob.jsonl",
        "--assume-random",
    ],
    "judge calibrate: two runs": [
        "judge",
        "calibrate",
        "third",
        "second",
        "--labels",
        "both.jsonl",
        "-m",
        "token_f1",
        "--these-samples",
        "--assume-random",
    ],
    "judge calibrate: scores": [
        "judge",
        "calibrate",
        "--scores",
        "scores.jsonl",
        "--labels",
        "ann.jsonl",
        "--labels",
        "bob.jsonl",
        "--threshold",
        "0.5",
        "--assume-random",
    ],
    "label: agreement": ["label", "--agreement", "ann.jsonl", "bob.jsonl"],
    "export": ["export", "judged", "exported", "--parquet"],
    "verify": ["verify", "baseline"],
    "demo": ["demo", "demo"],
    "gold propose": ["gold", "propose", "baseline", "q04", "--invalid", "--why", "no answer exists", "--by", "ann"],
    "gold list": ["gold", "list"],
    "gold preview": ["gold", "preview"],
    "gold apply": ["gold", "apply", "--all", "--by", "bob"],
    "gold export": ["gold", "export", "baseline", "-o", "corrected.jsonl"],
}
OWN_TEST = {"bench run", "crosscheck", "gold withdraw", "targets", "ui"}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_project(tmp_path_factory)


def _command_of(case: str) -> str:
    return f"auepora {case.partition(':')[0]}"


def test_every_command_with_json_is_recorded() -> None:
    """A new ``--json`` needs a case here."""
    offer = {name for name, command in commands().items() if any("--json" in one.opts for one in command.params)}
    assert offer == {_command_of(case) for case in [*CASES, *OWN_TEST]}


@pytest.mark.slow
def test_keys_of_json_output(source: Path, tmp_path: Path) -> None:
    """Key paths, types and exit code of every call."""
    found: dict[str, Any] = {}
    with project(source, tmp_path / "project") as folder:
        _write_more(folder)
        call("run", "system-1.yaml", "--store", "diagnosis.sqlite")  # the texts of gold for a diagnosis
        for case, arguments in CASES.items():
            outcome = call(*arguments, "--json")
            assert outcome.out.startswith(("{", "[")), f"{case}: {outcome}"
            found[case] = {
                "arguments": arguments,
                "exit_code": outcome.code,
                "keys": key_paths(json.loads(outcome.out)),
            }
    check_golden("cli/json_keys.json", found)


def test_keys_of_crosscheck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a few metrics alone, as all of them take seconds; without peers, as these may be installed or not."""
    infos = metric_infos()
    monkeypatch.setattr(crosscheck_plain, "metric_infos", lambda: {name: infos[name] for name in ("mrr", "token_f1")})
    outcome = call("crosscheck", "--no-peers", "--cases", "5", "--json")
    check_golden(
        "cli/json_keys_crosscheck.json", {"exit_code": outcome.code, "keys": key_paths(json.loads(outcome.out))}
    )


def test_json_goes_to_a_file_as_well(source: Path, tmp_path: Path) -> None:
    """``-o`` with a name that ends in ``.json`` writes the same document as ``--json`` prints."""
    with project(source, tmp_path / "project") as folder:
        for arguments in (["show", "baseline"], ["compare", "baseline", "second"], ["explain", "baseline", "mrr"]):
            assert call(*arguments, "-o", "out.json").out == ""
            assert (folder / "out.json").read_text() == call(*arguments, "--json").out


def _write_more(folder: Path) -> None:
    """Files that only these cases need."""
    (folder / "bad.jsonl").write_text(
        '{"sample_id": "1", "query": 5}\n{"sample_id": "2", "query": "a", "sample_id": "2"}\n{"sample_id": "2", "query": "b"}\n'
    )
    (folder / "bad-out.jsonl").write_text(
        '{"sample_id": "2", "retrieved": ["a"]}\n{"sample_id": "9", "retrieved": "x"}\nnot json\n'
    )
    (folder / "bad.yaml").write_text("dataset: data.jsonl\noutputs: nowhere.jsonl\nmetrics: [recal@5, recall@0]\n")
    write_rows(
        folder / "stray.jsonl",
        [*map(json.loads, (folder / "c.jsonl").read_text().splitlines()), {"sample_id": "q99", "retrieved": []}],
    )
    (folder / "sweep.yaml").write_text(
        "dataset: {jsonl: data.jsonl}\noutputs: {jsonl: a.jsonl}\nmetrics: [recall@5]\nstore: sweep.sqlite\n"
        "sweep: {grid: {outputs.jsonl: [a.jsonl, b.jsonl]}, decide: recall@5, delta: 0.1}\n"
    )
    (folder / "grades.tsv").write_text("q01\td1\t3\nq02\td2\t2\n")
    stored = {one["name"]: one["run_id"] for one in json.loads(call("runs", "--json").out)}
    labels = [
        {"sample_id": f"q{n:02}", "label": "right" if n % 3 else "wrong", "annotator": "ann", "run": stored[name]}
        for n in range(1, 9)
        for name in ("third", "second")
    ]
    write_rows(folder / "both.jsonl", labels)
    (folder / "demo").mkdir()
    # In place of the bundled questions, all of which take seconds.
    questions = [
        {
            "sample_id": f"q{n}",
            "query": query,
            "relevant_docs": [{"doc_id": "targets-1", "parent_id": "targets", "span": [17, 440]}],
            "reference_answer": answer,
            "labels": labels,
        }
        for n, (query, answer, labels) in enumerate(
            [
                (
                    "Which three choices make up an evaluation?",
                    "Targets, datasets and metrics.",
                    {"scenario": "plain", "difficulty": "easy"},
                ),
                (
                    "Which three choises make up an evaluation?",
                    "Targets, datasets and metrics.",
                    {"scenario": "typo", "difficulty": "easy", "variant_of": "q0"},
                ),
                ("Who won the cup?", "", {"scenario": "unanswerable", "difficulty": "easy"}),
            ]
        )
    ]
    write_rows(folder / "demo" / "questions.jsonl", questions)
