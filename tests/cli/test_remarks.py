"""What is said about the data besides the numbers."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from auepora_eval.cli.remarks import warn_of_strays
from auepora_eval.core.conventions import Conventions

Run = Callable[..., tuple[int, str, str]]

STRAYS = [  # conventions, missing, unknown, what is said
    ("auepora", "", "", ""),
    ("auepora", "a", "", "Warning: 1 of 9 samples has no output and counts as a failure: 'a'\n"),
    ("auepora", "ab", "", "Warning: 2 of 9 samples have no output and count as failures: 'a', 'b'\n"),
    ("trec", "ab", "", "Warning: 2 of 9 samples have no output and are skipped: 'a', 'b'\n"),
    ("zero", "abc", "", "Warning: 3 of 9 samples have no output and count as nothing returned: 'a', 'b', 'c'\n"),
    ("trec", "abcde", "", "Warning: 5 of 9 samples have no output and are skipped: 'a', 'b', 'c' and 2 more\n"),
    ("trec", "", "x", "Warning: 1 output belongs to no sample and is left out: 'x'\n"),
    ("trec", "", "wxyz", "Warning: 4 outputs belong to no sample and are left out: 'w', 'x', 'y' and 1 more\n"),
]


@pytest.mark.parametrize(("preset", "missing", "unknown", "said"), STRAYS, ids=[row[-1][9:60] for row in STRAYS])
def test_strays(preset: str, missing: str, unknown: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    rules = Conventions.of("trec", missing="zero") if preset == "zero" else Conventions.of(preset)
    warn_of_strays(list(missing), list(unknown), total=9, conventions=rules)
    assert capsys.readouterr().err == said


def test_an_answer_only_system_gets_no_retrieval_metrics(files: Path, run: Run) -> None:
    code, out, _ = run("score", "data.jsonl", "answers.jsonl", "--json")
    names = [result["name"] for result in json.loads(out)["results"]]
    assert code == 0
    assert "rougeL_answer" in names
    assert not [name for name in names if name.startswith(("recall", "mrr", "empty_result"))]


def test_a_total_outage_is_scored(files: Path, run: Run) -> None:
    Path("down.jsonl").write_text('{"sample_id": "1", "error": "timeout"}\n')
    code, out, _ = run("score", "data.jsonl", "down.jsonl", "-m", "mrr", "--json")
    assert code == 0
    assert json.loads(out)["results"][0]["value"] == 0.0
