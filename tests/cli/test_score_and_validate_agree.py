"""``auepora score`` and ``auepora validate`` refuse the same files, in every format."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.requirements import need

Run = Callable[..., tuple[int, str, str]]
Files = dict[str, bytes]


def lines(*rows: Any) -> bytes:
    return b"".join((row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows)


def ask(sample_id: str = "1", **fields: Any) -> dict[str, Any]:
    return {"sample_id": sample_id, "query": "q", "relevant_docs": ["a"], **fields}


def give(sample_id: str = "1", **fields: Any) -> dict[str, Any]:
    return {"sample_id": sample_id, "retrieved": ["a", "b"], "response": "x", **fields}


GOOD_DATA, GOOD_OUT = lines(ask()), lines(give())
QRELS, RUN = b"1 0 a 1\n1 0 b 0\n", b"1 Q0 a 1 2.5 me\n1 Q0 b 2 1.5 me\n"
ROW = {"user_input": "q", "retrieved_contexts": ["a"], "reference_contexts": ["a"], "response": "x", "reference": "y"}
CASE = {"input": "q", "actual_output": "x", "expected_output": "y", "retrieval_context": ["a"], "context": ["a"]}
OLD = {"question": "q", "contexts": ["a"], "answer": "x", "ground_truths": ["y", "z"]}
QUESTION = {"id": "1", "question": "q", "answers": [{"text": "x", "answer_start": 0}]}
SPAN = {
    "context": {"trace_id": "ab", "span_id": "1"}, "name": "s", "start_time": "2025-01-31T12:00:00Z",
    "end_time": "2025-01-31T12:00:01Z", "attributes": {"openinference.span.kind": "CHAIN", "input.value": "q", "output.value": "x"},
}  # fmt: skip
ANSWER = {"topic_id": "1", "references": ["a"], "answer": [{"text": "x", "citations": [0]}]}


def squad(*questions: Any, **paragraph: Any) -> bytes:
    content = {"context": "c", "qas": list(questions), **paragraph}
    return json.dumps({"version": "2", "data": [{"title": "t", "paragraphs": [content]}]}).encode()


def beir(**changed: bytes) -> Files:
    files = {
        "corpus.jsonl": lines({"_id": "a", "text": "A"}),
        "queries.jsonl": lines({"_id": "1", "text": "q"}),
        "qrels/test.tsv": b"query-id\tcorpus-id\tscore\n1\ta\t1\n",
    }
    names = {"corpus": "corpus.jsonl", "queries": "queries.jsonl", "qrels": "qrels/test.tsv"}
    files |= {names[key]: content for key, content in changed.items()}
    return {f"b/{name}": content for name, content in files.items()}


def jsonl(data: bytes = GOOD_DATA, out: bytes = GOOD_OUT) -> tuple[Files, list[str]]:
    return {"d.jsonl": data, "o.jsonl": out}, ["d.jsonl", "o.jsonl"]


def trec(qrels: bytes = QRELS, run: bytes = RUN) -> tuple[Files, list[str]]:
    return {"q.txt": qrels, "r.txt": run}, ["q.txt", "r.txt"]


def one(name: str, content: Any, *arguments: str) -> tuple[Files, list[str]]:
    return {name: content if isinstance(content, bytes) else json.dumps(content).encode()}, [name, *arguments]


FILES: list[tuple[tuple[Files, list[str]], bool, str]] = [  # files and arguments, refused, why
    (jsonl(), False, "jsonl: good"),
    (jsonl(b""), True, "jsonl: no sample"),
    (jsonl(out=b""), True, "jsonl: no output"),
    (jsonl(b"{nonsense\n"), True, "jsonl: a broken first line"),
    (jsonl(lines(ask(), b'{"sample_id"')), True, "jsonl: cut off"),
    (jsonl(lines(ask(), ask())), True, "jsonl: a sample twice"),
    (jsonl(out=lines(give(), give())), True, "jsonl: an output twice"),
    (jsonl(lines(ask(qery=1))), True, "jsonl: an unknown key"),
    (jsonl(lines(ask(labels={"x": float("nan")}))), True, "jsonl: NaN"),
    (jsonl(lines(ask()).decode().encode("utf-16")), True, "jsonl: UTF-16"),
    (jsonl(lines(ask()).replace(b"q", b"\xe9")), True, "jsonl: no UTF-8"),
    (jsonl(b"\xef\xbb\xbf" + GOOD_DATA.replace(b"\n", b"\r\n")), False, "jsonl: BOM and CRLF"),
    (jsonl(lines(ask(relevant_docs=[{"doc_id": "a", "metadata": {"relevance": "high"}}]))), True, "jsonl: a level"),
    (jsonl(b'{"sample_id": "1", "query": "a", "query": "b", "relevant_docs": ["a"]}\n'), False, "jsonl: a key twice"),
    (jsonl(out=lines(give(retrieved=["a", "a"]))), False, "jsonl: a document twice counts once"),
    (jsonl(out=lines(give(retrieved=[{"doc": "a", "rank": 9}, {"doc": "b", "rank": 1}]))), False, "jsonl: odd ranks"),
    (jsonl(lines(ask(), ask("2")), lines(give(), {"sample_id": "2", "response": "x"})), True, "jsonl: half a ranking"),
    (
        jsonl(lines(ask(), ask("2")), lines({"sample_id": "1", "response": "x"}, give("2"))),
        True,
        "jsonl: half a ranking, the other half",
    ),
    (
        jsonl(lines(ask(), ask("2")), lines({"sample_id": "1", "response": "x"}, give("2", retrieved=[], error="e"))),
        False,
        "jsonl: a failure need not say what was retrieved",
    ),
    (
        jsonl(lines(ask(), ask("2")), lines(give(retrieved=[], error="e"), {"sample_id": "2", "response": "x"})),
        False,
        "jsonl: nor does it say it for the others",
    ),
    (jsonl(out=lines(give("9"))), True, "jsonl: no id meets"),
    (({"d.jsonl.gz": gzip.compress(GOOD_DATA)[:-9], "o.jsonl": GOOD_OUT}, ["d.jsonl.gz", "o.jsonl"]), True, "gzip: cut off"),
    (({"d.jsonl.gz": GOOD_DATA, "o.jsonl": GOOD_OUT}, ["d.jsonl.gz", "o.jsonl"]), True, "gzip: none"),
    (({"o.jsonl": GOOD_OUT}, ["d.jsonl", "o.jsonl"]), True, "no such file"),
    (({"d/x": b"", "o.jsonl": GOOD_OUT}, ["d", "o.jsonl"]), True, "a directory"),
    (({"d.json": b'{"sample": }', "o.jsonl": GOOD_OUT}, ["d.json", "o.jsonl"]), True, "json: a broken first line"),
    (({"d.jsonl": GOOD_DATA, "o.json": b"[1,,"}, ["d.jsonl", "o.json"]), True, "json: broken outputs"),
    (trec(), False, "trec: good"),
    (trec(qrels=b"1 0 a\n"), True, "trec: three columns"),
    (trec(qrels=QRELS + b"2 0 a x\n"), True, "trec: a level that is no number"),
    (trec(run=RUN + b"1 Q0 c 3\n"), True, "trec: a run of four columns"),
    (trec(run=RUN + b"1 Q0 c 3 NaN me\n"), True, "trec: a score that is no number"),
    (trec(run=RUN + b"1 Q0 a 3 0.5 me\n"), True, "trec: a document twice"),
    (trec(qrels=QRELS + b"1 0 a 2\n"), False, "trec: a judgement twice"),
    (({"q.txt": QRELS, "o.jsonl": lines(give(retrieved=["a", "a"]))}, ["q.txt", "o.jsonl"]), True, "trec: a document twice in JSONL"),
    (({"q.txt": QRELS + b"2 0 a 1\n", "o.jsonl": lines(give(retrieved=["a", "a"], error="e"), give("2"))}, ["q.txt", "o.jsonl"]), False, "trec: a failure may"),
    (({"d.jsonl": GOOD_DATA, "r.txt": RUN + b"1 Q0 a 3 0.5 me\n"}, ["d.jsonl", "r.txt"]), False, "a run with a dataset of ours"),
    (one("r.json", [ROW]), False, "ragas: good"),
    (one("r.json", [ROW, {**ROW, "response": 3}]), True, "ragas: an answer that is a number"),
    (one("r.json", [{**ROW, "response": 3}]), True, "ragas: no output can be read"),
    (one("r.json", [{**ROW, "id": "x"}, {**ROW, "id": "x"}]), True, "ragas: an id twice"),
    (one("r.json", [{**ROW, "retrieved_contexts": "a"}]), True, "ragas: no list"),
    (one("r.json", b'[{"user_input": "q", "response": "x", "response": "y"}]'), False, "ragas: a key twice"),
    (one("r.json", b'[{"user_input": "q", "response": "x"}'), True, "ragas: cut off"),
    (one("r.csv", b"user_input,response\nq,x,y\n"), True, "ragas: a cell too many"),
    (one("r.csv", b"user_input,response\nq,x\n"), False, "ragas: a table"),
    (one("r.jsonl", lines(OLD)), False, "ragas: old columns"),
    (one("r.jsonl", lines(OLD, {**OLD, "question": None})), True, "ragas: old columns, no question"),
    (one("c.json", [CASE]), False, "deepeval: good"),
    (one("c.json", [CASE, {**CASE, "input": None}]), True, "deepeval: no input"),
    (({"s.json": squad(QUESTION), "p.json": b'{"1": "x"}'}, ["s.json", "p.json"]), False, "squad: good"),
    (({"s.json": squad({"id": "1"}), "p.json": b'{"1": "x"}'}, ["s.json", "p.json"]), True, "squad: no question"),
    (({"s.json": squad(QUESTION, QUESTION), "p.json": b'{"1": "x"}'}, ["s.json", "p.json"]), True, "squad: an id twice"),
    (({"s.json": squad(QUESTION), "p.json": b'{"1": "x", "1": "y"}'}, ["s.json", "p.json"]), True, "squad: a prediction twice"),
    (({"d.jsonl": GOOD_DATA, "a.jsonl": lines(ANSWER)}, ["d.jsonl", "a.jsonl"]), False, "trec_rag: good"),
    (
        ({"d.jsonl": GOOD_DATA, "a.jsonl": lines({**ANSWER, "answer": [{"text": "x", "citations": [7]}]})}, ["d.jsonl", "a.jsonl"]),
        True,
        "trec_rag: a citation of nothing",
    ),
    (one("t.jsonl", lines(SPAN)), False, "traces: good"),
    (one("t.jsonl", lines(SPAN, {**SPAN, "context": {"trace_id": "cd"}, "end_time": "noon"})), True, "traces: no time"),
    (one("t.jsonl", lines(SPAN, b'{"a"')), True, "traces: cut off"),
    ((beir() | {"o.jsonl": GOOD_OUT}, ["b", "o.jsonl"]), False, "beir: good"),
    ((beir(queries=lines({"_id": "1"})) | {"o.jsonl": GOOD_OUT}, ["b", "o.jsonl"]), True, "beir: a query without text"),
    ((beir(qrels=b"1\ta\tx\n") | {"o.jsonl": GOOD_OUT}, ["b", "o.jsonl"]), True, "beir: a level that is no number"),
    ((beir(corpus=b"") | {"o.jsonl": GOOD_OUT}, ["b", "o.jsonl"]), True, "beir: no corpus"),
    ((beir() | {"o.jsonl": lines(give(retrieved=["a", "a"]))}, ["b", "o.jsonl"]), True, "beir: a document twice"),
    (({"g.yaml": b"- {id: '1', query: q, expected_chunk_ids: [a]}\n", "o.jsonl": GOOD_OUT}, ["g.yaml", "o.jsonl"]), False, "golden: good"),
    (({"g.yaml": b"- {id: '1', query: q, id: '2'}\n", "o.jsonl": GOOD_OUT}, ["g.yaml", "o.jsonl"]), True, "golden: a key twice"),
    (({"g.yaml": b"- {id: '1', qery: q}\n", "o.jsonl": GOOD_OUT}, ["g.yaml", "o.jsonl"]), True, "golden: an unknown key"),
    (
        (jsonl()[0] | {"c.jsonl": lines({"doc_id": "a", "text": "A"})}, ["d.jsonl", "o.jsonl", "--corpus", "c.jsonl"]),
        False,
        "corpus: an id that it lacks",
    ),
    (
        (jsonl()[0] | {"c.jsonl": lines({"doc_id": "a"})}, ["d.jsonl", "o.jsonl", "--corpus", "c.jsonl"]),
        True,
        "corpus: a document without text",
    ),
    ((jsonl()[0], ["d.jsonl", "o.jsonl", "--corpus", "c.jsonl"]), True, "corpus: no such file"),
    ((jsonl()[0], ["d.jsonl", "o.jsonl", "--format", "trec"]), True, "another format"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "refused", "why"), FILES, ids=[row[-1] for row in FILES])
@pytest.mark.filterwarnings("ignore::auepora_eval.errors.AueporaWarning")
def test_score_and_validate_agree(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Run,
    given: tuple[Files, list[str]],
    refused: bool,
    why: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    files, arguments = given
    for name, content in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content)
    scored, _, err = run("score", *arguments)
    validated, out, _ = run("validate", *arguments)
    assert (scored, validated) == ((2, 2) if refused else (0, 0)), (why, err, out)
    assert "Traceback" not in err


def test_problem_of_only_some_metrics_is_a_problem_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("d.jsonl").write_bytes(lines(ask(metadata={"expected_doc_ids": "a"})))
    Path("o.jsonl").write_bytes(GOOD_OUT)
    assert run("score", "d.jsonl", "o.jsonl", "-m", "recall_doc@1")[0] == 2
    assert run("validate", "d.jsonl", "o.jsonl")[0] == 2


def test_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    pa, parquet = need("pyarrow"), need("pyarrow.parquet")
    monkeypatch.chdir(tmp_path)
    Path("o.jsonl").write_bytes(GOOD_OUT)
    for queries, want in ((["q"], 0), ([None], 2)):
        parquet.write_table(pa.table({"sample_id": ["1"], "query": queries, "relevant_docs": [["a"]]}), "d.parquet")
        for command in ("score", "validate"):
            assert run(command, "d.parquet", "o.jsonl")[0] == want
