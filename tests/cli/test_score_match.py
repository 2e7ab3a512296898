"""``auepora score --match``: every form of gold from every form of input, and what is printed about it."""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.engine.gold_match import MatchCounts
from helpers import requirements

Auepora = Callable[..., tuple[int, str, str]]

NUMBER = 12
FOUND = 9
"""Of the questions, those whose gold is retrieved."""


def passage(number: int) -> str:
    return " ".join(f"w{number}x{word}" for word in range(30))


def chinese(number: int) -> str:
    return "".join(chr(0x4E00 + 60 * number + character) for character in range(50))


def document(kind: str, number: int) -> dict[str, Any]:
    """The first chunk of document ``number``, with the fields that matter for this kind of gold."""
    chunk: dict[str, Any] = {"doc_id": f"doc{number}#0"}
    if kind in ("parent", "span"):
        chunk |= {"parent_id": f"doc{number}", "span": [0, 100]}
    if kind in ("text", "chinese"):
        chunk |= {"text": passage(number) if kind == "text" else chinese(number)}
    return chunk


def gold(kind: str, number: int) -> Any:
    return {
        "parent": f"doc{number}",
        "span": {"doc_id": f"gold{number}", "parent_id": f"doc{number}", "span": [20, 80]},
        "text": {"doc_id": f"gold{number}", "text": " ".join(passage(number).split()[:15])},
        "chinese": {"doc_id": f"gold{number}", "text": chinese(number)[:30]},
        "id": f"doc{number}#0",
        "none": f"other{number}",
    }[kind]


def rows(kind: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    samples, outputs = [], []
    for number in range(NUMBER):
        retrieved = [document(kind, number)] if number < FOUND else []
        retrieved += [document(kind, NUMBER + number)]
        samples.append({"sample_id": str(number), "query": "?", "relevant_docs": [gold(kind, number)]})
        outputs.append({"sample_id": str(number), "retrieved": [{"doc": doc} for doc in retrieved], "response": "x"})
    return samples, outputs


def write(kind: str) -> None:
    """The files, whole and in two parts each."""
    for name, lines in zip(("data", "out"), rows(kind), strict=True):
        Path(f"{name}s").mkdir(exist_ok=True)
        texts = [json.dumps(line, ensure_ascii=False) + "\n" for line in lines]
        Path(f"{name}.jsonl").write_text("".join(texts))
        Path(f"{name}s", "a.jsonl").write_text("".join(texts[:5]))
        Path(f"{name}s", "b.jsonl").write_text("".join(texts[5:]))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scored(auepora: Auepora, *arguments: str) -> tuple[dict[str, Any], str]:
    code, out, err = auepora("score", *arguments, "--json")
    assert code == 0, err
    results: dict[str, Any] = json.loads(out)
    return results, err


ONE_FILE = ("data.jsonl", "out.jsonl")
INPUTS = {
    "one file": ONE_FILE,
    "in batches": (*ONE_FILE, "--batch-size", "5", "--lean"),
    "directories": ("datas", "outs"),
    "globs": ("datas/*.jsonl", "outs/*.jsonl", "--batch-size", "4"),
}
KINDS = [  # kind of gold, way, sentence
    ("parent", "parent", "gold is matched by document: 9 of 12 gold ids are parents of retrieved chunks; chance level"),
    ("span", "span", "gold is matched by span: 0 of 12 gold ids are ids of retrieved documents, and both have spans"),
    ("text", "text", "gold is matched by text: 0 of 12 gold ids are ids of retrieved documents, and both have texts"),
    ("chinese", "text", "gold is matched by text: 0 of 12 gold ids are ids of retrieved documents"),
]


@pytest.mark.parametrize("form", INPUTS)
@pytest.mark.parametrize(("kind", "way", "sentence"), KINDS, ids=[row[0] for row in KINDS])
def test_every_input(auepora: Auepora, kind: str, way: str, sentence: str, form: str) -> None:
    write(kind)
    document, err = scored(auepora, *INPUTS[form], "-m", "recall@5")
    (result,) = document["results"]
    assert result["value"] == FOUND / NUMBER
    assert result["signature"] == f"recall@5|empty:skip|match:{way}|v1"
    assert err.startswith(sentence)
    assert document["gold_match"]["match"] == way
    assert document["gold_match"]["sentence"] in err
    assert result["details"].get("chance") == (0.0 if way == "parent" else None)
    assert "warnings" not in document


@pytest.mark.slow
def test_processes(auepora: Auepora) -> None:
    write("parent")
    for paths in (ONE_FILE, ("datas", "outs")):
        document, _ = scored(auepora, *paths, "-m", "recall@5", "--executor", "processes", "--workers", "2")
        assert document["results"][0]["value"] == FOUND / NUMBER


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipe_is_read_once(auepora: Auepora, monkeypatch: pytest.MonkeyPatch) -> None:
    write("parent")
    monkeypatch.setattr(MatchCounts.__init__, "__defaults__", (3,))
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_bytes(Path("data.jsonl").read_bytes()))
    writer.start()
    document, _ = scored(auepora, "pipe", "out.jsonl", "--format", "jsonl", "-m", "recall@5")
    writer.join()
    assert document["results"][0]["value"] == FOUND / NUMBER
    assert document["results"][0]["details"]["num_samples"] == NUMBER
    assert document["gold_match"]["samples"] == 3


def test_by_id_nothing_is_printed(auepora: Auepora) -> None:
    write("id")
    document, err = scored(auepora, *ONE_FILE, "-m", "recall@5")
    assert err == ""
    assert "gold_match" not in document
    assert document["results"][0]["signature"] == "recall@5|empty:skip|v1"
    _, out, _ = auepora("score", *ONE_FILE, "-m", "recall@5", "--all")
    assert out.endswith("conventions: auepora (auto)\n")


def test_nothing_in_common(auepora: Auepora) -> None:
    write("none")
    document, err = scored(auepora, *ONE_FILE, "-m", "recall@5")
    sentence, warning = err.splitlines()
    assert sentence == "gold is matched by id: 0 of 12 gold ids are ids of retrieved documents"
    assert warning.startswith(
        "Warning: none of 12 gold ids is an id or a parent of a retrieved document, and there are"
    )
    assert document["warnings"] == [warning.removeprefix("Warning: ")]


def test_table_names_the_way(auepora: Auepora) -> None:
    write("parent")
    code, out, _ = auepora("score", *ONE_FILE, "-m", "recall@5", "--all")
    assert code == 0
    assert out.splitlines()[0].split() == ["target", "metric", "value", "95", "%", "interval", "chance"]
    assert out.endswith("conventions: auepora (auto), match parent\n")
    code, out, err = auepora("score", *ONE_FILE, "-m", "recall@5", "--match", "id", "--all")
    assert out.endswith("conventions: auepora (auto), match id\n")
    assert "gold is matched" not in err


def test_all_metrics_that_have_a_value(auepora: Auepora) -> None:
    write("parent")
    for paths in (ONE_FILE, ("datas", "outs")):
        document, _ = scored(auepora, *paths)
        names = {result["name"] for result in document["results"]}
        assert {"recall@5", "ndcg@10"} <= names
        assert not any("skipped_match" in result["details"] for result in document["results"])


def test_ways_that_are_refused(auepora: Auepora) -> None:
    write("parent")
    for name in ("trec", "paper", "client"):
        code, _, err = auepora("score", *ONE_FILE, "-m", "recall@5", "--conventions", name, "--match", "parent")
        assert code == 2
        assert f"the conventions '{name}' compare document ids; gold cannot be matched by 'parent'" in err
        assert scored(auepora, *ONE_FILE, "-m", "recall@5", "--conventions", name)[0]["results"][0]["value"] == 0.0
    Path("qrels.txt").write_text("q1 0 a 1\n")
    Path("run.txt").write_text("q1 Q0 a 1 1.0 me\n")
    code, _, err = auepora("score", "--qrels", "qrels.txt", "--run", "run.txt", "-m", "map", "--match", "text")
    assert code == 2
    assert "a TREC run has ids alone, by which gold is matched: leave out --match" in err


def test_contradiction_over_all_samples(auepora: Auepora, monkeypatch: pytest.MonkeyPatch) -> None:
    write("parent")
    first, *others = rows("id")[0][:1] + rows("parent")[0][1:]
    lines = "".join(json.dumps(row) + "\n" for row in (first, *others))
    Path("data.jsonl").write_text(lines)
    Path("datas", "b.jsonl").unlink()
    Path("datas", "a.jsonl").write_text(lines)
    monkeypatch.setattr(MatchCounts.__init__, "__defaults__", (1,))
    for paths in (ONE_FILE, ("datas", "outs", "--batch-size", "3")):
        document, _ = scored(auepora, *paths, "-m", "recall@5")
        (warning,) = document["warnings"]
        assert warning.startswith("the first 1 samples with gold decided to match it by id; over 12 it would be by doc")
        assert warning.endswith("repeat with --match parent if that is right")


def test_contradiction_in_shards_counts_every_sample(auepora: Auepora, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers count while they score; parts that were scored before keep their counts."""
    requirements.need("pyarrow")
    write("parent")
    lines = "".join(json.dumps(row) + "\n" for row in rows("id")[0][:1] + rows("parent")[0][1:])
    Path("datas", "b.jsonl").unlink()
    Path("datas", "a.jsonl").write_text(lines)
    monkeypatch.setattr(MatchCounts.__init__, "__defaults__", (1,))
    arguments = ("datas", "outs", "-m", "recall@5", "--parts", "scores", "--batch-size", "1")
    document, _ = scored(auepora, *arguments)
    (warning,) = document["warnings"]
    assert "over 12 it would be by document (1 of 12 gold ids are retrieved ids" in warning
    next(Path("scores").glob("*.parquet")).unlink()
    resumed, err = scored(auepora, *arguments)
    assert "samples were read from the checkpoint scores" in err
    assert resumed["warnings"] == document["warnings"]


def test_checkpoint_keeps_its_way(auepora: Auepora, monkeypatch: pytest.MonkeyPatch) -> None:
    requirements.need("pyarrow")
    write("parent")
    arguments = ("datas", "outs", "-m", "recall@5", "--parts", "scores", "--batch-size", "3")
    document, _ = scored(auepora, *arguments)
    manifest = json.loads(Path("scores", "manifest.json").read_text())
    assert manifest["conventions"]["match"] == "parent"
    next(Path("scores").glob("*.parquet")).unlink()
    # A rule that would decide otherwise by now.
    monkeypatch.setattr(MatchCounts, "choose", lambda _: "id")
    resumed, err = scored(auepora, *arguments)
    assert "samples were read from the checkpoint scores" in err
    assert resumed["results"] == document["results"]
    assert resumed["gold_match"] == document["gold_match"]
    code, _, err = auepora("score", *arguments, "--match", "span")
    assert code == 2
    assert "conventions match: parent there, span here" in err
