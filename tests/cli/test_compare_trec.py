"""``auepora compare --qrels``: TREC run files scored and compared in one command."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., tuple[int, str, str]]
TOPICS = range(12)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("qrels.txt").write_text("# judged by one person\n" + "".join(f"t{n} 0 gold 1\n" for n in TOPICS))
    for name, better in (("weak", 0.0), ("strong", 3.0)):
        lines = [f"t{n} Q0 {doc} 1 {score} {name}\n" for n in TOPICS for doc, score in (("gold", better), ("x", 1.0))]
        Path(f"{name}.run").write_text("".join(lines))
    return tmp_path


def test_compare_two_trec_runs(files: Path, auepora: Command) -> None:
    code, out, err = auepora("compare", "--qrels", "qrels.txt", "weak.run", "strong.run", "-m", "map", "-m", "ndcg@10")
    assert code == 0, err
    assert "weak" in out
    assert "strong" in out
    document = json.loads(
        auepora("compare", "--qrels", "qrels.txt", "weak.run", "strong.run", "-m", "map", "--json")[1]
    )
    (row,) = document["deltas"]["metrics"].values()
    assert (row["a"], row["b"], row["delta"], row["n"], row["verdict"]) == (0.5, 1.0, 0.5, 12, "better")
    assert not list(files.glob("*.sqlite"))  # nothing is stored


def test_names_that_differ_after_the_first_dot(files: Path, auepora: Command) -> None:
    for name, file in (("weak", "input.X.gz"), ("strong", "input.Y.gz")):
        with gzip.open(file, "wt") as compressed:
            compressed.write(Path(f"{name}.run").read_text())
    code, out, err = auepora("compare", "--qrels", "qrels.txt", "input.X.gz", "input.Y.gz", "-m", "map", "--all")
    assert code == 0, err
    assert "B (input.Y.gz) against A (input.X.gz)" in out.replace("\n", " ")


def test_default_metrics_and_leaderboard(files: Path, auepora: Command) -> None:
    code, out, err = auepora("compare", "--qrels", "qrels.txt", "weak.run", "strong.run")
    assert code == 0, err
    for name in ("map", "ndcg@10", "mrr", "precision@10", "recall@100"):
        assert name in out
    code, out, err = auepora("compare", "--qrels", "qrels.txt", "weak.run", "strong.run", "weak.run", "-m", "map")
    assert code == 0, err


def test_missing_topics_are_named(files: Path, auepora: Command) -> None:
    lines = Path("strong.run").read_text().splitlines(keepends=True)
    Path("strong.run").write_text("".join(lines[4:]) + "t99 Q0 x 1 1.0 me\n")
    code, _, err = auepora("compare", "--qrels", "qrels.txt", "weak.run", "strong.run", "-m", "map")
    assert code == 0
    assert "2 of 12" in err
    assert "t99" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--qrels", "qrels.txt", "weak.run", "strong.run", "--store", "runs.sqlite"], "leave out --store"),
        (["--qrels", "qrels.txt", "weak.run"], "give two runs or more"),
        (["--qrels", "nope.txt", "weak.run", "strong.run"], "nope.txt"),
        (["--qrels", "qrels.txt", "weak.run", "nope.run"], "nope.run"),
        (["--qrels", "qrels.txt", "weak.run", "strong.run", "-m", "mapp"], "did you mean 'map'"),
        (["--qrels", "qrels.txt", "weak.run", "strong.run", "-o", "weak.run"], "weak.run"),
    ],
)
def test_mistakes(files: Path, auepora: Command, arguments: list[str], message: str) -> None:
    code, _, err = auepora("compare", *arguments)
    assert code == 2
    assert message in err
