"""Exit codes of the command line, and which of stdout and stderr it writes to."""

import subprocess
import sys
from pathlib import Path

import pytest

from helpers.golden import check_golden
from helpers.golden_cli import built_project, call, project

# In this order: later calls read what earlier ones stored.
CASES: dict[str, list[str]] = {
    # good
    "help": ["--help"],
    "version": ["--version"],
    "help of a command": ["score", "--help"],
    "help of a sub-command": ["judge", "calibrate", "-h"],
    "score": ["score", "data.jsonl", "a.jsonl", "-m", "recall@5"],
    "score, quiet": ["score", "data.jsonl", "a.jsonl", "-m", "recall@5", "--quiet"],
    "score, samples without output": ["score", "data.jsonl", "part.jsonl", "-m", "recall@5"],
    "score to a file": ["score", "data.jsonl", "a.jsonl", "-m", "recall@5", "-o", "scores.csv"],
    "score TREC": ["score", "--qrels", "qrels.txt", "--run", "run.txt", "-m", "map"],
    "score, format guessed": ["score", "beir", "run.txt", "-m", "map"],
    "score, no hit": ["score", "data.jsonl", "no-hit.jsonl", "-m", "recall@5"],
    "score shards": ["score", "shards/data-*.jsonl", "shards/out-*.jsonl", "-m", "recall@5"],
    "run": ["run", "third.yaml"],
    "run, quiet": ["run", "third.yaml", "-q"],
    "run, some answers failed": ["run", "repeated.yaml"],
    "run, gates passed": ["run", "gated.yaml"],
    "resume after failures": ["run", "repeated.yaml", "--resume", "--run", "repeated", "--retry-failed"],
    "show": ["show", "baseline"],
    "show, latest": ["show"],
    "show a run that stopped": ["show", "too-many"],
    "runs": ["runs"],
    "runs, none of that name": ["runs", "--name", "nobody"],
    "runs tag": ["runs", "tag", "third", "good"],
    "compare": ["compare", "baseline", "second"],
    "compare, worse": ["compare", "second", "baseline", "--why"],
    "explain": ["explain", "baseline", "mrr", "--query", "q01"],
    "validate": ["validate", "data.jsonl", "a.jsonl"],
    "validate a plan": ["validate", "baseline.yaml"],
    "convert": ["convert", "data.jsonl", "copy.jsonl.gz"],
    "init": ["init", "data.jsonl", "a.jsonl", "-o", "new.yaml"],
    "init to stdout": ["init", "data.jsonl", "--system", "my_app:build", "-o", "-"],
    "metrics": ["metrics"],
    "metrics, one": ["metrics", "recall@5"],
    "completion": ["completion", "bash"],
    "export": ["export", "baseline", "exported"],
    "plot, kinds": ["plot"],
    "plot": ["plot", "scores", "baseline", "-o", "scores.svg"],
    "report": ["report", "baseline", "-o", "report.md"],
    "rescore": ["rescore", "baseline", "-m", "chrf"],
    "perturb": ["perturb", "data.jsonl", "--typo", "0.1", "-o", "noisy.jsonl"],
    "pool": ["pool", "baseline", "second"],
    "label, stdin ends": ["label", "baseline", "--annotator", "ann", "--plain", "--labels", "new-labels.jsonl"],
    "label, agreement": ["label", "--agreement", "ann.jsonl", "bob.jsonl"],
    "judge nuggets": ["judge", "nuggets", "data.jsonl", "-o", "new-nuggets.jsonl", "--plan", "judged.yaml"],
    "prefer": ["prefer", "baseline", "judged"],
    "replay": ["replay", "system-1", "system-2", "system-2.yaml"],
    "gate, passed": ["gate", "second", "-g", "recall@5 >= 0.1"],
    # 1: a gate failed
    "gate, failed": ["gate", "baseline", "-g", "recall@5 >= 0.99"],
    "gate, failed and open": ["gate", "baseline", "-g", "recall@5 >= 0.99", "-g", "better(recall@5)"],
    "gate, coverage too low": ["gate", "judged", "-g", "coverage(llm_faithfulness) >= 0.99"],
    "run, gate failed": ["run", "failing.yaml"],
    # 3: stopped early, nothing scored, or inconclusive
    "gate, inconclusive": ["gate", "third", "-g", "better(recall@5)", "--against", "system-1"],
    "run, gate inconclusive": ["run", "open.yaml"],
    "run, every answer failed": ["run", "all-fail.yaml"],
    "run, too many failures": ["run", "too-many.yaml"],
    "run, nothing scored": ["run", "unjudged.yaml"],
    "rescore, nothing scored": ["rescore", "unjudged"],
    "judge relevance, grades missing": [
        "judge",
        "relevance",
        "pool.jsonl",
        "--plan",
        "unjudged.yaml",
        "-o",
        "grades.txt",
    ],
    # 130
    "run, interrupted": ["run", "interrupted.yaml"],
    "runs delete, not confirmed": ["runs", "delete", "third"],
    # 2: bad input
    "no command": [],
    "unknown command": ["scor"],
    "unknown sub-command": ["judge", "calibrat"],
    "group without sub-command": ["judge"],
    "unknown option": ["score", "data.jsonl", "a.jsonl", "--jsn"],
    "bad choice": ["score", "data.jsonl", "a.jsonl", "--conventions", "terc"],
    "bad number": ["score", "data.jsonl", "a.jsonl", "--batch-size", "0"],
    "missing argument": ["show", "--sample"],
    "too many arguments": ["metrics", "recall", "mrr"],
    "options that exclude each other": ["score", "data.jsonl", "a.jsonl", "--qrels", "qrels.txt"],
    "no data given": ["score"],
    "dataset without outputs": ["score", "data.jsonl"],
    "missing file": ["score", "nowhere.jsonl", "a.jsonl"],
    "bad line": ["score", "bad.jsonl", "a.jsonl"],
    "unknown metric": ["score", "data.jsonl", "a.jsonl", "-m", "recal@5"],
    "unknown metric to explain": ["metrics", "recal"],
    "annotation missing": ["score", "bare.jsonl", "a.jsonl", "-m", "recall@5"],
    "output over input": ["score", "data.jsonl", "a.jsonl", "-o", "data.jsonl"],
    "validate, problems": ["validate", "bad.jsonl"],
    "validate a bad plan": ["validate", "bad.yaml"],
    "run a bad plan": ["run", "bad.yaml"],
    "run a missing plan": ["run", "nowhere.yaml"],
    "resume, nothing to resume": ["run", "third.yaml", "--resume"],
    "no store": ["runs", "--store", "nowhere.sqlite"],
    "not a store": ["runs", "--store", "data.jsonl"],
    "unknown run": ["show", "nobody"],
    "unknown sample": ["show", "baseline", "--sample", "q99"],
    "compare one run": ["compare", "baseline"],
    "compare different datasets": ["compare", "baseline", "chunks-1"],
    "gate that cannot be read": ["gate", "baseline", "-g", "recall@5 = 0.8"],
    "gate on a metric that was not computed": ["gate", "baseline", "-g", "bertscore >= 0.8"],
    "gate of a run without gates": ["gate", "baseline"],
    "gate of a run without results": ["gate", "too-many", "-g", "recall@5 >= 0.1"],
    "explain an unknown metric": ["explain", "baseline", "chrff"],
    "convert, unknown format": ["convert", "data.jsonl", "data.xyz"],
    "init over a plan": ["init", "data.jsonl", "a.jsonl", "-o", "baseline.yaml"],
    "export over files": ["export", "baseline", "exported"],
    "label without a terminal": ["label", "baseline", "--annotator", "ann"],
    "judge without a judge": ["judge", "nuggets", "data.jsonl", "-o", "n.jsonl"],
    "prefer without a judge": ["prefer", "baseline", "second"],
    "plot of an unknown kind": ["plot", "scorse", "baseline"],
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_project(tmp_path_factory)


def test_exit_codes(source: Path, tmp_path: Path) -> None:
    """Exit code of every call, and whether it prints to stdout and stderr."""
    found = {}
    with project(source, tmp_path / "project") as folder:
        lines = (folder / "a.jsonl").read_text().splitlines(keepends=True)
        (folder / "part.jsonl").write_text("".join(lines[:8]))
        (folder / "no-hit.jsonl").write_text('{"sample_id": "q01", "retrieved": ["x"]}\n')
        (folder / "bad.jsonl").write_text('{"sample_id": "q01", "query": 5}\n')
        (folder / "bare.jsonl").write_text('{"sample_id": "q01", "query": "What?"}\n')
        (folder / "bad.yaml").write_text("dataset: data.jsonl\noutputs: a.jsonl\nmetrics: [recal@5]\n")
        for case, arguments in CASES.items():
            outcome = call(*arguments)
            found[case] = {
                "arguments": " ".join(arguments),
                "exit_code": outcome.code,
                "stdout": bool(outcome.out),
                "stderr": bool(outcome.err),
            }
    check_golden("cli/exit_codes.json", found)


def test_broken_pipe(source: Path, tmp_path: Path) -> None:
    """A reader that has seen enough is no error."""
    with project(source, tmp_path / "project"):
        command = f"{sys.executable} -m auepora_eval metrics --json | head -c 1"
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[", "")
