"""Warnings about data and scores, by ``run`` as by ``score``: ids that never match, empty answers, equal judgements."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, evaluate
from helpers.user_project import Project

Projects = Callable[[int], Project]
Run = Callable[..., tuple[int, str, str]]

NO_HIT = "no gold document was retrieved; see how gold was matched"
NO_ID = "none of {n} gold ids is an id or a parent of a retrieved document"
IDS = [  # gold, retrieved, the mapping that is suggested, why
    ("Doc-{n}", "doc-{n}", "doc_id.lower()", "case"),
    ("{n}", "{n}.0", "str(int(float(doc_id)))", "a number with decimals"),
    ("0{n}", "{n}", "str(int(float(doc_id)))", "leading zeros"),
    ("{n}", "corpus/{n}", "doc_id.removeprefix('corpus/')", "prefix of what was retrieved"),
    ("wiki:{n}", "{n}", "doc_id.removeprefix('wiki:')", "prefix of the gold"),
]


def write(name: str, rows: list[dict[str, Any]]) -> None:
    Path(name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def warnings_in(err: str) -> list[str]:
    return [line.removeprefix("Warning: ") for line in err.splitlines() if line.startswith("Warning: ")]


def both(auepora: Run, *metrics: str, plan: str = "") -> list[tuple[list[str], dict[str, Any]]]:
    """The warnings and the document of ``score``, and of ``run`` over the same files."""
    Path("files.yaml").write_text(
        f"dataset: {{jsonl: data.jsonl}}\noutputs: {{jsonl: out.jsonl}}\nmetrics: [{', '.join(metrics)}]\n{plan}"
    )
    named = [part for one in metrics for part in ("-m", one)]
    found = []
    for arguments in (["score", "data.jsonl", "out.jsonl", *named], ["run", "files.yaml"]):
        code, out, err = auepora(*arguments, "--json")
        assert code == 0, err
        found.append((warnings_in(err), json.loads(out)))
    return found


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    return tmp_path


@pytest.mark.parametrize(("gold", "retrieved", "mapping", "why"), IDS, ids=[row[-1] for row in IDS])
def test_ids_that_differ_only_in_form(auepora: Run, gold: str, retrieved: str, mapping: str, why: str) -> None:
    write("data.jsonl", [{"sample_id": str(n), "query": "?", "relevant_docs": [gold.format(n=n)]} for n in range(1, 6)])
    rows = [["x", retrieved.format(n=n)] for n in range(1, 6)]
    write("out.jsonl", [{"sample_id": str(n), "retrieved": row} for n, row in enumerate(rows, start=1)])
    for warnings, document in both(auepora, "recall@5"):
        assert len(warnings) == 2, why
        assert warnings[0].startswith(NO_ID.format(n=5))
        assert warnings[1].startswith("5 of 5 samples have a hit only ")
        assert f"such as {rows[0][1]!r} for the gold id {gold.format(n=1)!r}" in warnings[1]
        assert warnings[1].endswith(f"for example with {mapping}")
        assert document["warnings"] == warnings
    qrels = "".join(f"{n} 0 {gold.format(n=n)} 1\n" for n in range(1, 6))
    run = "".join(f"{n} Q0 {row[1]} 1 1.0 me\n" for n, row in enumerate(rows, start=1))
    Path("qrels.txt").write_text(qrels)
    Path("run.txt").write_text(run)
    code, _, err = auepora("score", "--qrels", "qrels.txt", "--run", "run.txt", "-m", "map", "--all")
    assert code == 0
    assert warnings_in(err)[1].endswith(mapping)


def test_some_ids_differ(auepora: Run) -> None:
    write("data.jsonl", [{"sample_id": str(n), "query": "?", "relevant_docs": [f"D{n}"]} for n in range(10)])
    write("out.jsonl", [{"sample_id": str(n), "retrieved": [f"D{n}" if n > 2 else f"d{n}"]} for n in range(10)])
    for warnings, _ in both(auepora, "recall@5"):
        (only,) = warnings
        assert only.startswith("3 of 10 samples have a hit only if upper and lower case are ignored, such as 'd0' for ")


def test_empty_rankings_are_not_an_id_mismatch(auepora: Run) -> None:
    write("data.jsonl", [{"sample_id": str(n), "query": "?", "relevant_docs": [f"{n}"]} for n in range(10)])
    write("out.jsonl", [{"sample_id": str(n), "retrieved": [str(n * 7 + 31), str(n * 13 + 17)]} for n in range(10)])
    write("fine.jsonl", [{"sample_id": str(n), "retrieved": [str(n)]} for n in range(10)])
    for warnings, _ in both(auepora, "recall@5"):
        (only,) = warnings
        assert only.startswith(NO_ID.format(n=10))
    assert warnings_in(auepora("score", "data.jsonl", "fine.jsonl", "-m", "recall@5")[2]) == []


def test_many_files(auepora: Run) -> None:
    Path("out").mkdir()
    write("data.jsonl", [{"sample_id": str(n), "query": "?", "relevant_docs": [f"D{n}"]} for n in range(4)])
    for part in range(2):
        rows = [{"sample_id": str(n), "retrieved": [f"d{n}"], "response": ""} for n in (2 * part, 2 * part + 1)]
        write(f"out/{part}.jsonl", rows)
    warnings = warnings_in(auepora("score", "data.jsonl", "out/*.jsonl", "-m", "recall@5", "--all")[2])
    assert [one[:30] for one in warnings] == [
        NO_ID.format(n=4)[:30],
        "4 of 4 samples have a hit only",
        "4 of 4 answers are empty",
    ]


class TestEmptyAnswers:
    def rows(self, empty: int, total: int = 20) -> None:
        labels = [{"answerable": n % 2 == 0} for n in range(total)]
        write("data.jsonl", [{"sample_id": str(n), "query": "?", "labels": one} for n, one in enumerate(labels)])
        write("out.jsonl", [{"sample_id": str(n), "response": " " if n < empty else "x"} for n in range(total)])

    def test_warning_above_a_tenth_of_empty_answers(self, auepora: Run) -> None:
        self.rows(3)
        warning_text = "3 of 20 answers are empty; abstention metrics count an empty answer as a refusal"
        for warnings, document in both(auepora, "negative_rejection_rate", "distinct_n"):
            assert warnings == [warning_text]
            abstention, other = document["results"]
            assert (abstention["details"]["num_empty_answers"], abstention["details"]["num_answers"]) == (3, 20)
            assert "num_empty_answers" not in other["details"]
        self.rows(2)
        for warnings, document in both(auepora, "negative_rejection_rate"):
            assert warnings == []
            assert "num_empty_answers" not in document["results"][0]["details"]

    def test_warning_is_in_every_table(self, auepora: Run) -> None:
        self.rows(3)
        both(auepora, "over_refusal_rate")
        write("out.jsonl", [{"sample_id": str(n), "response": "x"} for n in range(20)])
        both(auepora, "over_refusal_rate")
        warning_text = "3 of 20 answers are empty"
        self.rows(3)
        assert warning_text in auepora("score", "data.jsonl", "out.jsonl", "-m", "over_refusal_rate", "--all")[1]
        auepora("score", "data.jsonl", "out.jsonl", "-m", "over_refusal_rate", "-o", "r.md")
        assert warning_text in Path("r.md").read_text()
        assert warning_text in auepora("show", "latest~1", "--all")[1]
        assert warning_text not in auepora("show", "latest", "--all")[1]
        assert f"A: {warning_text}; abstention metrics count" in auepora("compare", "latest~1", "latest", "--all")[1]
        both(auepora, "over_refusal_rate")
        assert (
            f"C: {warning_text}; abstention metrics count"
            in auepora("compare", "latest~2", "latest~1", "latest", "--all")[1]
        )
        auepora("report", "latest", "-o", "report.html")
        assert warning_text in Path("report.html").read_text()
        samples = [EvaluationSample(str(n), "?", labels={"answerable": True}) for n in range(4)]
        outputs = [SystemOutputs([], Response("" if n else "x")) for n in range(4)]
        results = evaluate(samples, outputs, ["over_refusal_rate"])
        assert "3 of 4 answers are empty" in results.to_markdown()
        assert results.warnings == ["3 of 4 answers are empty; abstention metrics count an empty answer as a refusal"]


class TestJudges:
    @pytest.mark.parametrize(
        ("number", "scale", "warning"),
        [
            ("0.5", "0-1", "all 6 scores of llm_faithfulness are 0.5; the judge may not tell answers apart"),
            ("1", "1-5", "all 6 scores of llm_faithfulness are at the bottom of the scale 1-5; the critic may use another scale"),
            ("0", "0-1", "all 6 scores of llm_faithfulness are at the bottom of the scale 0-1; the critic may use another scale"),
            ("len(prompt) % 5 / 4", "0-1", None),
        ],
        ids=["equal", "bottom of 1-5", "bottom of 0-1", "different"],
    )  # fmt: skip
    def test_equal_scores(self, project: Projects, auepora: Run, number: str, scale: str, warning: str | None) -> None:
        mine = project(6)
        (mine.folder / "judge_rag.py").write_text(
            "from auepora_eval.judge.critic import LLMCritic\n"
            f"class Judge(LLMCritic):\n    def score(self, *, prompt, metadata=None):\n        return {number}\n"
        )
        rows = [{"sample_id": str(n), "retrieved": [{"doc": {"doc_id": "a", "text": "t" * n + "."}}], "response": "x"} for n in range(6)]  # fmt: skip
        write("out.jsonl", rows)
        Path("judged.yaml").write_text(
            "dataset: {jsonl: data.jsonl}\noutputs: {jsonl: out.jsonl}\n"
            'resources: {judge: {python: "judge_rag:Judge"}}\n'
            f'metrics: [{{llm_faithfulness: {{critic: {{use: judge}}, scale: "{scale}"}}}}]\n'
        )
        code, out, err = auepora("run", "judged.yaml", "--json")
        assert code == 0, err
        assert warnings_in(err) == ([] if warning is None else [warning])
        assert json.loads(out).get("warnings", []) == ([] if warning is None else [warning])


def test_warnings_of_evaluate() -> None:
    def retrieved(doc_id: str) -> list[RetrievedDocument]:
        return [RetrievedDocument(Document(doc_id, ""), 1.0, 1)]

    samples = [EvaluationSample(str(n), "?", relevant_docs=[Document(f"A{n}", "")]) for n in range(3)]
    outputs: Mapping[str, SystemOutputs] = {str(n): SystemOutputs(retrieved(f"a{n}")) for n in range(3)}
    results = evaluate(samples, outputs, ["recall@5"])
    assert [one[:20] for one in results.warnings] == [NO_HIT[:20], "3 of 3 samples have "]
