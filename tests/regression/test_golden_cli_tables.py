"""What commands print for people: tables and sentences.

Wording: these files may be recorded again when a text is changed on purpose; numbers and keys are recorded elsewhere.
"""

from pathlib import Path

import pytest

from helpers.golden import check_golden_text
from helpers.golden_cli import built_project, call, plain, project

# Only stored outputs with given timings are shown, as times that are measured differ.
CASES = [
    ["score", "data.jsonl", "a.jsonl", "--all"],
    [
        "score",
        "data.jsonl",
        "b.jsonl",
        "-m",
        "recall@5",
        "-m",
        "nDCG@10",
        "-m",
        "bleu",
        "--slice",
        "labels.lang",
        "--all",
        "-o",
        "-",
    ],
    ["score", "--qrels", "qrels.txt", "--run", "run.txt", "-m", "map", "-m", "ndcg@10", "-c", "--all"],
    ["score", "beir", "run.txt", "-m", "recall@5", "--all"],
    ["score", "data.jsonl", "a.jsonl", "-m", "llm_faithfulness", "--plan", "judged.yaml", "--preview"],
    ["show", "baseline", "--all"],
    ["show", "judged", "--all"],
    ["show", "judged", "--failures"],
    ["show", "baseline", "--sample", "q04"],
    ["show", "judged", "--sample", "q01"],
    ["show", "too-many", "--all"],
    ["runs"],
    ["compare", "baseline", "second", "--all"],
    ["compare", "second", "baseline", "--why", "--delta", "0.02", "--all"],
    ["compare", "baseline", "second", "third", "--all"],
    ["compare", "chunks-1", "chunks-2", "--all"],
    [
        "gate",
        "second",
        "--against",
        "baseline",
        "-g",
        "recall@5 >= 0.1",
        "-g",
        "mrr >= 0.99",
        "-g",
        "delta(token_f1) > 0",
        "-g",
        "better(ndcg@10)",
        "--all",
    ],
    ["explain", "baseline", "ndcg@10"],
    ["explain", "baseline", "ndcg@10", "--query", "q04"],
    ["explain", "baseline", "token_f1", "--query", "q01"],
    ["explain", "judged", "llm_faithfulness", "--query", "q01"],
    ["validate", "data.jsonl", "a.jsonl"],
    ["validate", "bad.jsonl"],
    ["validate", "baseline.yaml"],
    ["rescore", "second", "-m", "chrf"],
    ["run", "gated.yaml", "-q", "--all"],
    ["pool", "baseline", "second", "-o", "pool.jsonl"],
    ["prefer", "baseline", "judged"],
    ["label", "--agreement", "ann.jsonl", "bob.jsonl"],
    [
        "judge",
        "calibrate",
        "--scores",
        "scores.jsonl",
        "--labels",
        "ann.jsonl",
        "--labels",
        "bob.jsonl",
        "--assume-random",
        "--all",
    ],
    ["init", "data.jsonl", "a.jsonl", "-o", "-"],
    ["plot"],
    # The short form, which is printed without --all.
    ["score", "data.jsonl", "a.jsonl"],
    ["score", "beir", "run.txt", "-m", "recall@5"],
    ["show", "judged"],
    ["show", "too-many"],
    ["compare", "baseline", "second"],
    ["compare", "second", "baseline", "--why", "--delta", "0.02"],
    ["compare", "baseline", "second", "third"],
    ["compare", "chunks-1", "chunks-2"],
    ["gate", "second", "--against", "baseline", "-g", "recall@5 >= 0.1", "-g", "mrr >= 0.99", "-g", "better(ndcg@10)"],
    ["judge", "calibrate", "--scores", "scores.jsonl", "--labels", "ann.jsonl", "--assume-random"],
]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_project(tmp_path_factory)


@pytest.mark.slow
def test_tables(source: Path, tmp_path: Path) -> None:
    """stdout of each call, with ids of runs, moments and the folder replaced."""
    pages = []
    with project(source, tmp_path / "project") as folder:
        (folder / "bad.jsonl").write_text(
            '{"sample_id": "1", "query": 5}\n{"sample_id": "2", "query": "a", "colour": 1}\n{"sample_id": "2", "query": "b"}\n'
        )
        for arguments in CASES:
            outcome = call(*arguments)
            pages.append(f"$ auepora {' '.join(arguments)}\n{plain(outcome.out, folder)}")
    check_golden_text("cli/tables.txt", "\n".join(pages))
