"""Typical errors: class, exit code, file, line, field and offending value; their wording in a file of its own."""

import json
import pickle
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from auepora_eval import (
    EvaluationSample,
    RunStore,
    SampleMetric,
    Score,
    SystemOutputs,
    errors,
    evaluate,
    evaluate_rankings,
    metric,
)
from helpers.golden import check_golden, check_golden_text
from helpers.golden_cli import OTHER_PLANS, built_project, call, call_and_error, plain, project


@dataclass(frozen=True)
class Case:
    """A call of ``auepora`` that ends with an error.

    ``field`` and ``value`` (and ``file`` and ``line`` where the exception has no such attributes) must be part of its message.
    """

    arguments: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)
    field: str | None = None
    value: str | None = None
    file: str | None = None
    line: int | None = None


SAMPLE = '{"sample_id": "q01", "query": "a"}\n'
SAVED = "dataset: data.jsonl\noutputs: a.jsonl\n"
SYSTEM = "dataset: data.jsonl\n"
SHARDS = ("score", "shards/data-*.jsonl", "shards/out-*.jsonl", "-m", "mrr", "--parts")
SPAN = '{"name": "ask", "context": {%s"span_id": "01"}, "start_time": "2025-01-31T12:00:09Z", "end_time": "2025-01-31T12:00:01Z", "attributes": {"openinference.span.kind": "CHAIN"}}\n'
SQUAD = '{"version": "v2.0", "data": [{"title": "R", "paragraphs": [{"context": "c", "qas": [{"id": "q1", "answers": []}]}]}]}'


def samples(text: str, field: str | None = None, value: str | None = None, **more: Any) -> Case:
    """A dataset in JSON lines."""
    return Case(("score", "x.jsonl", "a.jsonl", "-m", "recall@5"), {"x.jsonl": text}, field, value, **more)


def outputs(text: str, field: str | None = None, value: str | None = None, **more: Any) -> Case:
    """Outputs in JSON lines."""
    return Case(("score", "data.jsonl", "x.jsonl", "-m", "recall@5"), {"x.jsonl": text}, field, value, **more)


def scoring(*arguments: str, field: str | None = None, value: str | None = None) -> Case:
    """Metrics and options for good data."""
    return Case(("score", "data.jsonl", "a.jsonl", *arguments), {}, field, value)


def plan(text: str, value: str | None = None) -> Case:
    """A plan; its key is an attribute of the exception."""
    return Case(("run", "x.yaml"), {"x.yaml": f"{text}\n"}, None, value)


def stored(*arguments: str, field: str | None = None, value: str | None = None, **files: str) -> Case:
    """A command on stored runs."""
    return Case(arguments, files, field, value)


CASES: dict[str, Case] = {
    # JSON lines
    "JSONL: not JSON": samples(SAMPLE + '{"sample_id": "q02", \n'),
    "JSONL: not an object": samples(SAMPLE + "[1]\n"),
    "JSONL: field missing": samples('{"sample_id": "q01"}\n', "query"),
    "JSONL: wrong type": samples(SAMPLE + '{"sample_id": "q02", "query": 5}\n', "query"),
    "JSONL: unknown field": samples(SAMPLE + '{"sample_id": "q02", "qery": "a"}\n', "qery"),
    "JSONL: id twice": samples(SAMPLE + SAMPLE, "sample_id", "q01", file="x.jsonl", line=2),
    "JSONL: nested field": samples('{"sample_id": "2", "query": "a", "relevant_docs": [{"doc_id": "d", "span": [5, 1]}]}\n', "relevant_docs[0].span"),
    "JSONL: empty file": samples(""),
    "JSONL: not UTF-8": Case(("score", "latin.jsonl", "a.jsonl"), value="0xe9"),
    "JSONL: no such file": Case(("score", "nowhere.jsonl", "a.jsonl")),
    "JSONL: output twice": outputs('{"sample_id": "q01", "retrieved": []}\n' * 2, "sample_id", "q01", file="x.jsonl", line=2),
    "JSONL: no common id": outputs('{"sample_id": "zzz", "retrieved": []}\n', value="zzz"),
    "JSONL: field of a sample": outputs('{"sample_id": "q01", "retrieved": [], "query": "a"}\n', "query"),
    "JSONL: damaged gzip": Case(("score", "x.jsonl.gz", "a.jsonl"), {"x.jsonl.gz": "no gzip"}),
    # other formats
    "TREC: columns of qrels": Case(("score", "--qrels", "q.txt", "--run", "run.txt"), {"q.txt": "q1 0 a 1\nq1 0 b\n"}, value="q1 0 b"),
    "TREC: level": Case(("score", "--qrels", "q.txt", "--run", "run.txt"), {"q.txt": "q1 0 a high\n"}, "level", "high"),
    "TREC: score": Case(("score", "--qrels", "qrels.txt", "--run", "r.txt"), {"r.txt": "q1 Q0 a 1 2.0 me\nq1 Q0 b 2 best me\n"}, "score", "best"),
    "TREC: document twice": Case(
        ("score", "--qrels", "qrels.txt", "--run", "r.txt", "--duplicates", "error", "-m", "map"),
        {"r.txt": "q1 Q0 a 1 2.0 me\nq1 Q0 a 2 1.0 me\n"}, value="a", file="r.txt", line=2,
    ),
    "BEIR: no judgements": Case(("score", "shards", "run.txt", "--format", "beir")),
    "BEIR: columns": Case(("score", "beir", "run.txt"), {"beir/qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\ta\n"}, "score"),
    "SQuAD: field missing": Case(("score", "s.json", "a.jsonl", "--format", "squad"), {"s.json": SQUAD}, "question"),
    "golden YAML: unknown field": Case(("score", "g.yaml", "chunks-1.jsonl"), {"g.yaml": "- id: one\n  query: what?\n  expected_chunks: [a]\n"}, "expected_chunks"),
    "golden YAML: key twice": Case(("score", "g.yaml", "chunks-1.jsonl"), {"g.yaml": "- id: one\n  id: two\n  query: what?\n"}, "id"),
    "golden YAML: syntax": Case(("score", "g.yaml", "chunks-1.jsonl", "--format", "golden"), {"g.yaml": "- id: [one\n"}),
    "Parquet: not Parquet": Case(("score", "p.parquet", "a.jsonl"), {"p.parquet": "PAR"}),
    "Parquet: wrong type": Case(("score", "numbers.parquet", "a.jsonl"), {}, "query"),
    "ragas: wrong type": Case(("score", "r.jsonl", "--format", "ragas"), {"r.jsonl": '{"user_input": "a", "retrieved_contexts": "b", "response": "c"}\n'}, "retrieved_contexts", "b"),
    "deepeval: wrong type": Case(("score", "r.json", "--format", "deepeval"), {"r.json": '[{"input": 5, "actual_output": "a"}]'}, "input"),
    "traces: no trace id": Case(("score", "data.jsonl", "t.jsonl", "--outputs-format", "traces"), {"t.jsonl": SPAN % ""}, "trace_id"),
    "traces: ends before it starts": Case(("score", "data.jsonl", "t.jsonl", "--outputs-format", "traces"), {"t.jsonl": SPAN % '"trace_id": "7", '}, value="ask"),
    "TREC RAG: citation": Case(
        ("score", "data.jsonl", "t.jsonl", "--outputs-format", "trec_rag"),
        {"t.jsonl": '{"run_id": "m", "topic_id": "q01", "topic": "t", "references": ["d"], "answer": [{"text": "a", "citations": [7]}]}\n'},
        "answer[0].citations[0]", "7",
    ),
    "format: unknown": scoring("--format", "josnl", value="josnl"),
    "format: cannot be told": Case(("score", "x.bin", "a.jsonl"), {"x.bin": "\x00"}),
    "format: nowhere to write": Case(("convert", "data.jsonl", "data.xyz"), file="data.xyz"),
    "format: output it cannot hold": Case(("convert", "a.jsonl", "x.run", "--to", "trec", "--role", "outputs"), value="q07"),
    "corpus: id twice": Case(
        ("score", "data.jsonl", "a.jsonl", "--corpus", "c.jsonl", "-m", "recall@5"),
        {"c.jsonl": '{"doc_id": "a", "text": "t"}\n{"doc_id": "a", "text": "u"}\n'}, "doc_id", "a", file="c.jsonl", line=2,
    ),
    "corpus: field missing": Case(("score", "data.jsonl", "a.jsonl", "--corpus", "c.jsonl", "-m", "recall@5"), {"c.jsonl": '{"text": "t"}\n'}, "doc_id"),
    "nuggets: importance": Case(
        ("score", "data.jsonl", "a.jsonl", "--nuggets", "n.jsonl", "-m", "recall@5"),
        {"n.jsonl": '{"qid": "q01", "nuggets": [{"text": "a", "importance": "huge"}]}\n'}, "importance", "huge",
    ),
    # metrics and conventions
    "metric: unknown, one is near": scoring("-m", "recal@5", value="recal"),
    "metric: unknown, none is near": scoring("-m", "zzzz", value="zzzz"),
    "metric: cut-off missing": scoring("-m", "recall", field="k"),
    "metric: cut-off 0": scoring("-m", "recall@0", field="k", value="0"),
    "metric: unknown option": scoring("-m", "ndcg@10:gain_schem=linear", field="gain_schem"),
    "metric: unknown option, none is near": scoring("-m", "bleu:zzz=1", field="zzz"),
    "metric: value of an option": scoring("-m", "bleu:smooth_method=klingon", value="klingon"),
    "metric: range of an option": scoring("-m", "rbp:p=2", field="p", value="2"),
    "metric: conventions": scoring("-m", "map:conventions=terc", field="conventions", value="terc"),
    "metric: choice of a convention": scoring("-m", "map:ap=half", field="ap", value="half"),
    "metric: options that cannot be read": scoring("-m", "map:k", value="map:k"),
    "metric: two of one name": scoring("-m", "map", "-m", "mrr:as=map", value="map"),
    "metric: slice": scoring("-m", "map", "--slice", "lang", value="lang"),
    "metric: slice that no sample has": scoring("-m", "map", "--slice", "labels.nothing", value="labels.nothing"),
    "metric: no judge": scoring("-m", "llm_faithfulness", field="critic"),
    "metric: annotation missing": samples(SAMPLE),
    # plans
    "plan: unknown key": plan(SAVED + "metrcs: [recall@5]", "metrcs"),
    "plan: wrong type": plan(SAVED + "run: {concurrency: '8'}", "8"),
    "plan: unknown metric": plan(SAVED + "metrics:\n- recall@5\n- recal@5", "recal"),
    "plan: unknown option": plan(SAVED + "metrics: [{map: {kk: 1}}]", "kk"),
    "plan: variable not set": plan(SYSTEM + "system: {http: {url: 'http://127.0.0.1/', headers: {A: '${GOLDEN_CLI_KEY}'}}}", "GOLDEN_CLI_KEY"),
    "plan: outputs and system": plan(SAVED + "system: {python: 'a:b'}", "outputs"),
    "plan: two kinds of system": plan(SYSTEM + "system: {python: 'a:b', http: 'http://x'}", "http"),
    "plan: gate that cannot be read": plan(SAVED + "metrics: [recall@5]\ngates: [recall@5 == 0.8]", "=="),
    "plan: gate on another metric": plan(SAVED + "metrics: [recall@5]\ngates: [recall@10 >= 0.8]", "recall@10"),
    "plan: secret in a header": plan(SYSTEM + "system: {http: {url: 'http://127.0.0.1/', headers: {Authorization: 'Bearer sk-abcdefghijklmnopqrstuvwx123456'}}}"),
    "plan: secret in arguments": plan(SYSTEM + "system: {python: 'golden_cli_system:apart', args: {api_key: hunter2hunter2}}"),
    "plan: choice of a convention": plan(SAVED + "conventions: {ap: half}", "half"),
    "plan: no such file": plan(SYSTEM + "outputs: nowhere.jsonl", "nowhere.jsonl"),
    "plan: syntax": plan("dataset: [data.jsonl\noutputs: a"),
    "plan: key twice": plan(SAVED + "outputs: b.jsonl", "outputs"),
    "plan: suffix": Case(("run", "x.txt"), {"x.txt": SAVED}),
    "plan: address of an endpoint": plan(SYSTEM + "system: {http: 'localhost:8000'}"),
    "plan: method of an endpoint": plan(SYSTEM + "system: {http: {url: 'http://127.0.0.1/', method: FETCH}}", "FETCH"),
    "plan: placeholder of a request": plan(SYSTEM + "system: {http: {url: 'http://127.0.0.1/', request: {q: '{question}'}}}", "{question}"),
    "plan: reply of an endpoint": plan(SYSTEM + "system: {http: {url: 'http://127.0.0.1/', response: {anser: a}}}", "anser"),
    "plan: no such program": plan(SYSTEM + "system: {command: [no-such-program-here]}", "no-such-program-here"),
    "plan: folder of a command": plan(SYSTEM + "system: {command: {run: x, cwd: nowhere}}", "nowhere"),
    "plan: no such module": plan(SYSTEM + "system: {python: 'no_such_module:build'}", "no_such_module"),
    "plan: no such name in a module": plan(SYSTEM + "system: {python: 'golden_cli_system:buld'}", "buld"),
    "plan: argument of a system": plan(SYSTEM + "system: {python: 'golden_cli_system:apart', args: {colour: 1}}", "colour"),
    "plan: budget without prices": plan(SAVED + "judge: {max_cost: 5}"),
    "plan: key of a judge": plan(SAVED + "resources: {judge: {openai: {model: m, api_key: geheim1}}}"),
    "plan: no such resource": plan(SAVED + "metrics: [{llm_faithfulness: {critic: {use: judg}}}]", "judg"),
    "plan: no recorded judgements": plan(SAVED + "resources: {judge: {recorded: nowhere.jsonl}}\nmetrics: [{llm_faithfulness: {critic: {use: judge}}}]", "nowhere.jsonl"),
    "plan: changed before resuming": Case(("run", "too-many.yaml", "--resume"), {"too-many.yaml": OTHER_PLANS["too-many"].replace("recall@5", "recall@9")}, "metrics", "recall@9"),
    "run: rate of noise": Case(("run", "system-1.yaml", "--perturb", "noise=2"), {}, "noise", "2"),
    "run: unknown perturbation": Case(("run", "system-1.yaml", "--perturb", "nois=0,1"), {}, None, "nois"),
    "replay: another system": stored("replay", "system-1", "system-2", "system-1.yaml", field="system.args.shift"),
    "replay: plan without a system": Case(("replay", "system-1", "system-2", "baseline.yaml"), file="baseline.yaml"),
    # stores
    "store: no such run": stored("show", "nobody", value="nobody"),
    "store: several runs": stored("show", "run_", value="run_"),
    "store: too far back": stored("show", "latest~99", value="latest~99"),
    "store: no such file": Case(("runs", "--store", "nowhere.sqlite")),
    "store: no store": Case(("runs", "--store", "data.jsonl")),
    "store: newer schema": Case(("runs", "--store", "newer.sqlite")),
    "store: no such sample": stored("show", "baseline", "--sample", "q99", value="q99"),
    "store: no such result": stored("show", "baseline", "-m", "recall@50", value="recall@50"),
    # comparisons, gates, explanations
    "compare: one run twice": stored("compare", "baseline", "baseline"),
    "compare: other dataset": stored("compare", "baseline", "chunks-1", value="golden"),
    "compare: other chunks": stored("compare", "chunks-1", "chunks-2", "--strict-chunker-version", field="chunker_version"),
    "compare: no such metric": stored("compare", "baseline", "second", "-m", "recall@50", value="recall@50"),
    "compare: margin": stored("compare", "baseline", "second", "--delta", "mrr=x", field="--delta", value="mrr=x"),
    "compare: two kinds of margin": stored("compare", "baseline", "second", "--delta", "0.1", "--delta", "mrr=0.2", field="--delta"),
    "compare: other golden queries": Case(("compare", "chunks-1", "chunks-1b", "--golden", "g.yaml"), {"g.yaml": "- {id: other, query: what?, expected_chunk_ids: [a]}\n"}, None, "other"),
    "gate: cannot be read": stored("gate", "baseline", "-g", "recall@5 = 0.8", value="recall@5 = 0.8"),
    "gate: no such metric": stored("gate", "baseline", "-g", "recall@50 >= 0.8", value="recall@50"),
    "gate: no such slice": stored("gate", "baseline", "-g", "recall@5 where labels.colour = red >= 0.8", field="labels.colour"),
    "explain: no such metric": stored("explain", "baseline", "recall@50", value="recall@50"),
    "explain: no such query": stored("explain", "baseline", "mrr", "--query", "q99", value="q99"),
    # judges, labels, grades, pools
    "judge: no such resource": stored("prefer", "baseline", "judged", "--judge", "nobody", value="nobody"),
    "judge: budget without prices": scoring("-m", "llm_faithfulness", "--plan", "judged.yaml", "--max-cost", "1"),
    "labels: value": Case(("label", "--agreement", "l.jsonl"), {"l.jsonl": '{"sample_id": "q01", "label": "maybe", "annotator": "ann"}\n'}, "label", "maybe"),
    "labels: field missing": Case(("label", "--agreement", "l.jsonl"), {"l.jsonl": '{"sample_id": "q01", "annotator": "ann"}\n'}, "label"),
    "labels: scale": stored("label", "baseline", "--scale", "5-1", "--plain", value="5-1"),
    "labels: two runs": stored("judge", "calibrate", "third", "second", "--labels", "ann.jsonl", "-m", "token_f1", field="run", value="q01"),
    "scores: field missing": Case(("judge", "calibrate", "--scores", "s.jsonl", "--labels", "ann.jsonl"), {"s.jsonl": '{"sample_id": "q01"}\n'}, "score"),
    "grades: level": Case(("rescore", "baseline", "--qrels", "g.txt"), {"g.txt": "q01 0 d1 x\n"}, "level", "x"),
    "grades: provenance": Case(("rescore", "baseline", "--qrels", "h.txt"), {"h.txt": "q01 0 d1 1\n", "h.txt.provenance.jsonl": '{"query": 5}\n'}, "sample_id"),
    "grades: of people": Case(("judge", "relevance", "pool.jsonl", "--labels", "h.tsv", "-o", "out.txt"), {"h.tsv": "q01\td1\thigh\n"}, "grade", "high"),
    "pool: unknown field": Case(("judge", "relevance", "p.jsonl", "--plan", "judged.yaml", "-o", "out.txt"), {"p.jsonl": '{"query_id": "q01"}\n'}, "query_id"),
    # shards and checkpoints
    "shards: no file": Case(("score", "nothing-*.jsonl", "a.jsonl", "-m", "recall@5")),
    "shards: id twice": Case(("score", "twice", "a.jsonl", "-m", "recall@5"), {"twice/a.jsonl": SAMPLE, "twice/b.jsonl": SAMPLE}, "sample_id", "q01", file="twice/b.jsonl", line=1),
    "shards: outputs among samples": Case(("score", "shards", "a.jsonl", "-m", "recall@5"), {}, "retrieved"),
    "checkpoint: other metrics": Case((*SHARDS, "parts"), {}, "metrics", "mrr"),
    "checkpoint: manifest": Case((*SHARDS, "parts-2"), {"parts-2/manifest.json": "no"}),
    # the command line
    "usage: unknown option": scoring("--jsn", value="--jsn"),
    "usage: bad choice": scoring("--conventions", "terc", value="terc"),
    "usage: bad number": scoring("--batch-size", "0", value="0"),
    "usage: unknown command": Case(("scor",), value="scor"),
    "usage: argument missing": stored("explain", "baseline"),
    "usage: options that exclude each other": scoring("--qrels", "qrels.txt", field="--qrels"),
    "usage: output over input": scoring("-o", "data.jsonl", value="data.jsonl"),
    "usage: suffix of a chart": stored("plot", "scores", "-o", "x.gif", value="x.gif"),
    "usage: kind of chart": stored("plot", "scorse", value="scorse"),
}  # fmt: skip


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_project(tmp_path_factory)


def test_errors_of_commands(source: Path, tmp_path: Path) -> None:
    """What is structure, and what is wording: the latter may be recorded again when a message is changed on purpose."""
    found, wording = {}, []
    with project(source, tmp_path / "project") as folder:
        _write_more(folder)
        for name, case in CASES.items():
            record, message = _observe(case, folder)
            found[name] = record
            wording.append(f"## {name}\n$ auepora {' '.join(case.arguments)}\n{message}")
        refused = _not_compared(folder)
    wording += [f"## not compared: {name}\n{reason}\n" for name, reason in refused.items()]
    assert len(found) >= 60
    check_golden("cli/errors.json", {"tree": _tree(), "errors": found, "not_compared": list(refused)})
    check_golden_text("cli/error_wording.txt", "\n".join(wording))


def test_error_of_a_missing_key(source: Path, tmp_path: Path) -> None:
    """A judge behind an endpoint that asks for a key."""
    judge = "resources: {judge: {openai: {model: m, api_key_env: GOLDEN_CLI_KEY}}}\nmetrics: [{llm_faithfulness: {critic: {use: judge}}}]"
    given = ("--judge-model", "m", "--judge-url", "https://api.openai.com/v1", "--judge-key-env", "GOLDEN_CLI_KEY")
    cases = {
        "plan": plan(SAVED + judge, "GOLDEN_CLI_KEY"),
        "command line": scoring("-m", "llm_faithfulness", *given, value="GOLDEN_CLI_KEY"),
    }
    with project(source, tmp_path / "project") as folder:
        found = {name: _observe(case, folder) for name, case in cases.items()}
    check_golden("cli/errors_openai.json", {name: record for name, (record, _) in found.items()})
    check_golden_text(
        "cli/error_wording_openai.txt", "\n".join(f"## {name}\n{message}" for name, (_, message) in found.items())
    )


class WithoutTarget(SampleMetric):
    """A metric that does not say what it measures."""

    name = "without_target"

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        return Score(1.0)


def _one(sample_id: str = "1") -> EvaluationSample:
    return EvaluationSample(sample_id, "why?")


CALLS: dict[str, Callable[[], object]] = {
    "evaluate: fewer outputs": lambda: evaluate([_one()], [], ["mrr"]),
    "evaluate: annotation missing": lambda: evaluate([_one()], [SystemOutputs([])], ["mrr"]),
    "evaluate: unknown metric": lambda: evaluate([_one()], [SystemOutputs([])], ["mr"]),
    "evaluate_rankings: fewer rankings": lambda: evaluate_rankings([["a"], ["b"]], [["a"]], ["mrr"]),
    "evaluate_rankings: conventions": lambda: evaluate_rankings([["a"]], [["a"]], ["mrr"], conventions="terc"),
    "metric: k is a string": lambda: metric("recall", k="5"),
    "metric: unknown option": lambda: metric("recall@5", kk=5),
    "metric: k twice": lambda: metric("recall@5", k=3),
    "metric: definition": lambda: evaluate([_one()], [SystemOutputs([])], [WithoutTarget()]),
    "evaluate_rankings: document twice": lambda: evaluate_rankings(
        [["a"]], [["a", "a"]], [{"mrr": {"duplicates": "error"}}]
    ),
    "store: no such file": lambda: RunStore.open("nowhere.sqlite", create=False),
}


def test_errors_of_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of the Python interface, and exceptions that systems and judges raise."""
    monkeypatch.chdir(tmp_path)
    found, wording = {}, []
    for name, function in CALLS.items():
        with pytest.raises(Exception) as raised:  # noqa: PT011
            function()
        found[name] = {"class": _class_names(raised.value), "attributes": _attributes(raised.value)}
        wording.append(f"## {name}\n{raised.value}\n")
    made: list[Exception] = [
        errors.SystemCallError("timeout", "30 s", retry=True, retry_after=1.5),
        errors.JudgeError("refused", "not this one", raw="no", retry=True, lasting=True, tokens=(1, 2), calls=2),
        errors.SignatureMismatchError("map|ap:gold|v1", "map|ap:hits|v1", ["ap"]),
        errors.AlignmentError(2, 1),
        errors.MissingFieldError("relevant_docs", "mrr"),
        errors.MissingDependencyError("torch", purpose="a model", install="torch"),
        errors.PlanError("plan.yaml", 3, "run.top_k", "must be positive"),
        errors.StoreError("runs.sqlite", "does not exist"),
        errors.UnknownConventionError("preset", "terc", ["trec"]),
        errors.UnknownOptionError("map", "kk", ["k"]),
    ]
    for one in made:
        again = pickle.loads(pickle.dumps(one))
        assert (type(again), str(again), vars(again)) == (type(one), str(one), vars(one))
        found[type(one).__name__] = {"class": _class_names(one), "attributes": _attributes(one)}
        wording.append(f"## {type(one).__name__}\n{one}\n")
    check_golden("cli/errors_of_calls.json", found)
    check_golden_text("cli/error_wording_of_calls.txt", "\n".join(wording))


def _observe(case: Case, folder: Path) -> tuple[dict[str, Any], str]:
    """What is recorded of an error, and its message."""
    for name, text in case.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    outcome, error = call_and_error(*case.arguments)
    message = plain(outcome.err, folder)
    path, line = getattr(error, "path", None) or getattr(error, "store", None), getattr(error, "line", None)
    if path is None and case.file is not None:
        place = case.file if case.line is None else f"{case.file}:{case.line}:"
        assert place in message
        path, line = case.file, case.line
    key = getattr(error, "key", None) or getattr(error, "field", None)
    for part in (case.field, case.value):
        assert part is None or part in message, (case, message)
    record = {
        "class": _class_names(error),
        "exit_code": outcome.code,
        "file": None if path is None else Path(path).name,
        "line": line,
        "field": key or case.field,
        "value": getattr(error, "name", None) or case.value,
        "stdout": bool(outcome.out),
    }
    return record, _steady(message)


def _steady(message: str) -> str:
    # The rest of the line is pyarrow's.
    head, found, _ = message.partition("cannot be read as Parquet: ")
    return f"{head}{found}...\n" if found else message


def _class_names(error: BaseException) -> list[str]:
    return [one.__name__ for one in type(error).__mro__ if one is not object]


def _attributes(error: BaseException) -> dict[str, Any]:
    return dict(sorted(vars(error).items()))


def _tree() -> dict[str, list[str]]:
    """Every exception class of the library with its bases."""
    classes = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, BaseException)]
    return {
        one.__name__: [base.__name__ for base in one.__bases__] for one in classes if one.__module__ == errors.__name__
    }


def _not_compared(folder: Path) -> dict[str, str]:
    """Metrics that a comparison leaves out, and why: other definitions, MAP over hits."""
    reasons = {}
    for first, second, name in (
        ("trec", "baseline", "map"),
        ("baseline", "second", "map"),
    ):
        document = json.loads(call("compare", first, second, "--json").out)
        reasons[f"{name} of {first} and {second}"] = plain(document["refused"][name], folder)
    return reasons


def _write_more(folder: Path) -> None:
    """Files and runs that only these cases need."""
    (folder / "latin.jsonl").write_bytes('{"sample_id": "1", "query": "\xe9"}\n'.encode("latin-1"))
    pq.write_table(pa.table({"sample_id": ["1"], "query": [5]}), folder / "numbers.parquet")
    (folder / "newer.sqlite").write_bytes((folder / "runs.sqlite").read_bytes())
    newer = sqlite3.connect(folder / "newer.sqlite")
    newer.execute("UPDATE eval_schema SET version = 99")
    newer.commit()
    newer.close()
    call("pool", "baseline", "second", "-o", "pool.jsonl")
    call(*SHARDS[:-2], "recall@5", "--parts", "parts")
    (folder / "trec.yaml").write_text(SAVED + "name: trec\nconventions: trec\nmetrics: [map]\nstore: runs.sqlite\n")
    assert call("run", "trec.yaml").code == 0
