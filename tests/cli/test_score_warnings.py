"""Warnings about the data."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from auepora_eval.cli.options import warn_unmatched_ids
from auepora_eval.core.conventions import Conventions

Run = Callable[..., tuple[int, str, str]]

UNMATCHED = [  # conventions, missing, unknown, message
    ("auepora", "", "", ""),
    ("auepora", "a", "", "Warning: 1 of 9 samples has no output and counts as a failure: 'a'\n"),
    ("auepora", "ab", "", "Warning: 2 of 9 samples have no output and count as failures: 'a', 'b'\n"),
    ("trec", "ab", "", "Warning: 2 of 9 samples have no output and are skipped: 'a', 'b'\n"),
    ("zero", "abc", "", "Warning: 3 of 9 samples have no output and count as nothing returned: 'a', 'b', 'c'\n"),
    ("trec", "abcde", "", "Warning: 5 of 9 samples have no output and are skipped: 'a', 'b', 'c' and 2 more\n"),
    ("trec", "", "x", "Warning: 1 output belongs to no sample and is left out: 'x'\n"),
    ("trec", "", "wxyz", "Warning: 4 outputs belong to no sample and are left out: 'w', 'x', 'y' and 1 more\n"),
]


@pytest.mark.parametrize(
    ("preset", "missing", "unknown", "message"), UNMATCHED, ids=[row[-1][9:60] for row in UNMATCHED]
)
def test_unmatched_ids(
    preset: str, missing: str, unknown: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = Conventions.of("trec", missing="zero") if preset == "zero" else Conventions.of(preset)
    warn_unmatched_ids(list(missing), list(unknown), total=9, conventions=rules)
    assert capsys.readouterr().err == message


def test_answer_only_system_gets_no_retrieval_metrics(files: Path, run: Run) -> None:
    code, out, _ = run("score", "data.jsonl", "answers.jsonl", "--json")
    names = [result["name"] for result in json.loads(out)["results"]]
    assert code == 3, "two of three samples have no output"
    assert "rougeL_answer" in names
    assert not [name for name in names if name.startswith(("recall", "mrr", "empty_result"))]


def test_outputs_with_only_errors_are_scored(files: Path, run: Run) -> None:
    Path("down.jsonl").write_text('{"sample_id": "1", "error": "timeout"}\n')
    code, out, _ = run("score", "data.jsonl", "down.jsonl", "-m", "mrr", "--json")
    assert code == 3
    assert json.loads(out)["results"][0]["value"] == 0.0


def test_no_hit_at_all_is_a_warning(files: Path, run: Run) -> None:
    surprise = "no gold document was retrieved; see how gold was matched"
    Path("other.txt").write_text("q1 Q0 docs/a 1 2.0 me\nq2 Q0 docs/c 1 1.0 me\n")
    assert (
        surprise
        in run("score", "--qrels", "qrels.txt", "--run", "other.txt", "-m", "map", "-m", "recall@5", "--all")[2]
    )
    assert surprise in run("score", "--qrels", "qrels.txt", "--run", "run.txt", "-m", "map", "-l", "9")[1]
    # Found behind the first position, and nothing that would tell of hits: no reason to wonder.
    assert surprise not in run("score", "--qrels", "qrels.txt", "--run", "run.txt", "-m", "recall@1", "-m", "map")[1]
    assert surprise not in run("score", "--qrels", "qrels.txt", "--run", "other.txt", "-m", "empty_result_rate")[1]
    Path("down.jsonl").write_text('{"sample_id": "1", "error": "timeout"}\n')
    assert surprise not in run("score", "data.jsonl", "down.jsonl", "-m", "mrr")[1]


def test_duplicate_document_in_a_run(files: Path, run: Run) -> None:
    Path("run.txt").write_text("q9 Q0 a 1 9 me\nq9 Q0 a 1 9 me\nq1 Q0 a 1 3.0 me\nq1 Q0 b 2 2.0 me\nq1 Q0 a 3 1.0 me\n")
    scored = ("score", "--qrels", "qrels.txt", "--run", "run.txt", "-m", "precision@3", "-m", "map", "--json")
    code, _, err = run(*scored)
    assert code == 2
    assert "run.txt:5: 'a' was returned for query 'q1' on line 3 already" in err
    assert "--duplicates first" in err
    code, out, _ = run(*scored, "--duplicates", "first")
    assert code == 0
    assert [result["value"] for result in json.loads(out)["results"]] == [1 / 3, 1.0]
    Path("outputs.jsonl").write_text('{"sample_id": "1", "retrieved": ["d1", "d1"]}\n')
    code, _, err = run("score", "data.jsonl", "outputs.jsonl", "-m", "map", "--duplicates", "error")
    assert code == 2
    assert "'d1' was returned twice" in err
