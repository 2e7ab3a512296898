"""A project folder with data, plans and stored runs, and ``auepora`` called in it, for the golden files of the command line."""

import io
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest

from auepora_eval.cli.main import cli, main

NUM_SAMPLES = 12
RUN_ID = re.compile(r"run_[0-9A-Z]{26}")
MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?")

SYSTEM = """
import os, signal, time
from auepora_eval import Document, Response, RetrievedDocument, StructuredCritic, SystemOutputs
from auepora_eval.errors import JudgeError
from auepora_eval.judge.critic import Judgement, Usage

class Retriever:
    def __init__(self, shift):
        self.shift = shift

    def retrieve(self, query, *, top_k=5):
        number = int(query.split()[-1].rstrip("?"))
        ids = range(number - self.shift, number - self.shift + min(top_k, 3))
        return [RetrievedDocument(Document(f"d{n}", f"The text of d{n}."), 1.0 / rank, rank) for rank, n in enumerate(ids, 1)]

class Generator:
    def __init__(self, words):
        self.words = words

    def generate(self, query, documents):
        number = int(query.split()[-1].rstrip("?"))
        return Response(" ".join(f"{word} {number}" for word in self.words) + f" by {documents[0].text}")

def apart(shift=0, words=("answer",)):
    return Retriever(shift), Generator(words)

class Broken:
    def __init__(self, broken=(), interrupted=None):
        self.broken, self.interrupted = set(broken), interrupted

    def run(self, sample, *, top_k):
        if sample.sample_id == self.interrupted:  # Ctrl-C; then time for the main thread to notice it
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
        if self.broken == {"all"} or sample.sample_id in self.broken:
            raise ValueError(f"cannot answer {sample.sample_id}")
        return SystemOutputs([RetrievedDocument(Document(f"d{int(sample.sample_id[1:])}"), 1.0, 1)], Response("an answer"))

def number_of(text):
    return sum(map(ord, text))

class Judge(StructuredCritic):
    name = model = "golden-judge"

    def __init__(self, broken=()):
        self.broken = set(broken)

    async def judge(self, request):
        if request.sample_id in self.broken or "all" in self.broken:
            raise JudgeError("refused", "not this one", raw="I would rather not.")
        answer = {name: self.value(kind, request.sample_id + name, 1) for name, kind in request.schema["properties"].items()}
        return Judgement(answer, usage=Usage(10, 5))

    def value(self, kind, text, number):
        if kind["type"] == "array":
            count = max(2, kind.get("minItems", 0))
            return [self.value(kind["items"], f"{text}{n}", n) for n in range(1, min(count, kind.get("maxItems", count)) + 1)]
        if kind["type"] == "object":
            inner = {name: self.value(one, text + name, number) for name, one in kind["properties"].items()}
            return {**inner, **({"number": number} if "number" in inner else {})}
        if kind["type"] == "boolean":
            return number_of(text) % 2 == 0
        if kind["type"] == "string":
            return kind["enum"][number_of(text) % len(kind["enum"])] if "enum" in kind else f"a reason {number}"
        return kind["minimum"] + number_of(text) % (kind["maximum"] - kind["minimum"] + 1)
"""

PLANS = {
    "baseline": "name: baseline\noutputs: {jsonl: a.jsonl, config: {model: one, top_k: 3}}",
    "second": "name: second\noutputs: {jsonl: b.jsonl, config: {model: two, top_k: 3}}",
    "third": "name: third\noutputs: {jsonl: c.jsonl, config: {top_k: 2}}",
}
METRICS = 'metrics: [recall@5, mrr, ndcg@10, map, token_f1, bleu, "mean_latency[end_to_end]"]\nprimary: [recall@5, token_f1]\n'
OTHER_PLANS = {
    "gated": "name: gated\ndataset: data.jsonl\noutputs: {jsonl: b.jsonl, config: {top_k: 3}}\nmetrics: [recall@5, token_f1]\nslices: [labels.lang]\nstore: runs.sqlite\n"
    "gates: [recall@5 >= 0.1, 'recall@5 where labels.lang = de >= 0.1', low(token_f1) >= 0, coverage >= 0.5]\n",
    "failing": "name: failing\ndataset: data.jsonl\noutputs: {jsonl: a.jsonl, config: {top_k: 3}}\nmetrics: [recall@5]\nstore: runs.sqlite\ngates: [recall@5 >= 0.99]\n",
    "open": "name: open\ndataset: data.jsonl\noutputs: {jsonl: b.jsonl, config: {top_k: 3}}\nmetrics: [recall@5]\nstore: runs.sqlite\ngates: [delta(recall@5) > -0.01]\n",
    "judged": "name: judged\ndataset: data.jsonl\noutputs: a.jsonl\nresources: {judge: {python: 'golden_cli_system:Judge', args: {broken: [q04]}}}\n"
    "metrics: [token_f1, {llm_faithfulness: {critic: {use: judge}}}]\njudge: {cache: false}\nstore: runs.sqlite\n",
    "unjudged": "name: unjudged\ndataset: data.jsonl\noutputs: b.jsonl\nresources: {judge: {python: 'golden_cli_system:Judge', args: {broken: [all]}}}\n"
    "metrics: [{llm_faithfulness: {critic: {use: judge}}}]\njudge: {cache: false, retries: 0}\nstore: runs.sqlite\n",
    "system-1": "name: system-1\ndataset: data.jsonl\nsystem: {python: 'golden_cli_system:apart', args: {shift: 1}}\nmetrics: [recall@5, token_f1]\n"
    "run: {concurrency: 1, retries: 0, top_k: 5}\nstore: runs.sqlite\n",
    "system-2": "name: system-2\ndataset: data.jsonl\nsystem: {python: 'golden_cli_system:apart', args: {words: [answer, to]}}\nmetrics: [recall@5, token_f1]\n"
    "run: {concurrency: 1, retries: 0, top_k: 5, repeats: 1}\nstore: runs.sqlite\n",
    "repeated": "name: repeated\ndataset: data.jsonl\nsystem: {python: 'golden_cli_system:Broken', args: {broken: [q03]}}\nmetrics: [recall@5]\n"
    "run: {concurrency: 1, retries: 0, repeats: 2}\nstore: runs.sqlite\n",
    "all-fail": "name: all-fail\ndataset: data.jsonl\nsystem: {python: 'golden_cli_system:Broken', args: {broken: [all]}}\nmetrics: [recall@5]\n"
    "run: {concurrency: 1, retries: 0}\nstore: runs.sqlite\n",
    "too-many": "name: too-many\ndataset: data.jsonl\nsystem: {python: 'golden_cli_system:Broken', args: {broken: [all]}}\nmetrics: [recall@5]\n"
    "run: {concurrency: 1, retries: 0, max_failures: 2}\nstore: runs.sqlite\n",
    "interrupted": "name: interrupted\ndataset: data.jsonl\nsystem: {python: 'golden_cli_system:Broken', args: {interrupted: q05}}\nmetrics: [recall@5]\n"
    "run: {concurrency: 1, retries: 0}\nstore: runs.sqlite\n",
    "chunks-1": "name: chunks-1\ndataset: golden.yaml\noutputs: {jsonl: chunks-1.jsonl, config: {chunker_version: '1', top_k: 1}}\n"
    "metrics: [mrr, recall_doc@5, groundedness]\nstore: runs.sqlite\n",
    "chunks-1b": "name: chunks-1b\ndataset: golden.yaml\noutputs: {jsonl: chunks-2.jsonl, config: {chunker_version: '1', top_k: 1}}\n"
    "metrics: [mrr, recall_doc@5, groundedness]\nstore: runs.sqlite\n",
    "chunks-2": "name: chunks-2\ndataset: golden.yaml\noutputs: {jsonl: chunks-2.jsonl, config: {chunker_version: '2', top_k: 1}}\n"
    "metrics: [mrr, recall_doc@5, groundedness]\nstore: runs.sqlite\n",
}
STORED = (
    "baseline",
    "second",
    "third",
    "judged",
    "chunks-1",
    "chunks-1b",
    "chunks-2",
    "system-1",
    "system-2",
    "repeated",
    "too-many",
)

GOLDEN = """
version: 1
queries:
  - {id: refund, query: How long do refunds take?, expected_chunk_ids: [terms-1], expected_doc_ids: [terms], must_contain: [ten days], lang: en,
     spans: {terms-1: {parent_id: terms, span: [0, 400]}}}
  - {id: address, query: Where do I send a parcel?, expected_chunk_ids: [guide-2], expected_doc_ids: [guide], spans: {guide-2: {parent_id: guide, span: [400, 800]}}}
  - {id: weather, query: What will the weather be?, expected_chunk_ids: [], expected_doc_ids: []}
"""


@dataclass(frozen=True)
class Outcome:
    """What a call of ``auepora`` did."""

    code: int
    out: str
    err: str


def call(*arguments: str) -> Outcome:
    """Run ``auepora`` in this process; its stdin is empty."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.StringIO())
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as stopped:
            main(list(arguments))
    assert isinstance(stopped.value.code, int)
    return Outcome(stopped.value.code, out.getvalue(), err.getvalue())


def call_and_error(*arguments: str) -> tuple[Outcome, Exception]:
    """Run ``auepora``; what it did, and the exception that ended it before that became a message and an exit code."""
    raised: list[Exception] = []
    run = cli.main

    def record(*given: Any, **options: Any) -> Any:
        try:
            return run(*given, **options)
        except Exception as error:
            raised.append(error)
            raise

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli, "main", record)
        outcome = call(*arguments)
    assert len(raised) == 1, outcome
    return outcome, raised[0]


def commands() -> dict[str, click.Command]:
    """Every command and sub-command by its words, ``auepora`` itself first."""
    return dict(_commands(cli, "auepora", None))


def _commands(command: click.Command, path: str, parent: click.Context | None) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path.split()[-1], parent=parent)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _commands(inner, f"{path} {name}", context)


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write JSON lines."""
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


@contextmanager
def project(source: Path, folder: Path) -> Iterator[Path]:
    """A copy of the project folder as the current folder, in a plain environment."""
    shutil.copytree(source, folder, dirs_exist_ok=True)
    with entered(folder):
        yield folder


@contextmanager
def entered(folder: Path) -> Iterator[None]:
    """The folder as the current one; variables, import path and modules as a fresh process on any machine has them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "120")
        patch.setenv("NO_COLOR", "1")
        patch.setenv(
            "GIT_CEILING_DIRECTORIES", str(folder.parent)
        )  # else a repository around it is stored as the commit
        for name in (
            "AUEPORA_STORE",
            "GITHUB_STEP_SUMMARY",
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            "GOLDEN_CLI_KEY",
            "FORCE_COLOR",
        ):
            patch.delenv(name, raising=False)
        patch.setattr(sys, "path", sys.path[:])  # plans put their folder there
        patch.delitem(sys.modules, "golden_cli_system", raising=False)
        try:
            yield
        finally:
            sys.modules.pop("golden_cli_system", None)


_BUILT: dict[Path, Path] = {}


def built_project(factory: pytest.TempPathFactory) -> Path:
    """The project folder with its stored runs; made once per process, to be copied."""
    base = factory.getbasetemp()
    if base not in _BUILT:
        folder = factory.mktemp("golden_cli")
        write_project(folder)
        with entered(folder):
            for name in STORED:
                call("run", f"{name}.yaml", "-q")
        _BUILT[base] = folder
    return _BUILT[base]


def write_project(folder: Path) -> None:
    """Write the data, the plans and the system of the project."""
    (folder / "golden_cli_system.py").write_text(SYSTEM)
    write_rows(folder / "data.jsonl", [_sample(n) for n in range(1, NUM_SAMPLES + 1)])
    makers: dict[str, Callable[[int], dict[str, Any]]] = {"a": _output_a, "b": _output_b, "c": _output_c}
    for name, make in makers.items():
        write_rows(folder / f"{name}.jsonl", [make(n) for n in range(1, NUM_SAMPLES + 1)])
    for name, text in PLANS.items():
        (folder / f"{name}.yaml").write_text(
            f"{text}\ndataset: data.jsonl\n{METRICS}slices: [labels.lang]\nstore: runs.sqlite\n"
        )
    for name, text in OTHER_PLANS.items():
        (folder / f"{name}.yaml").write_text(text)
    (folder / "golden.yaml").write_text(GOLDEN)
    write_rows(
        folder / "chunks-1.jsonl",
        [
            _chunk("refund", "guide-1", "guide", [0, 400]),
            _chunk("address", "guide-2", "guide", [400, 800]),
            {"sample_id": "weather", "retrieved": [], "response": "I cannot tell.", "refused": True},
        ],
    )
    write_rows(
        folder / "chunks-2.jsonl",
        [
            _chunk("refund", "terms-a", "terms", [0, 900]),
            _chunk("address", "terms-a", "terms", [0, 900]),
            {"sample_id": "weather", "retrieved": [], "response": "I cannot tell.", "refused": True},
        ],
    )
    (folder / "qrels.txt").write_text("q1 0 a 1\nq1 0 b 0\nq2 0 c 2\nq3 0 a 1\n")
    (folder / "run.txt").write_text(
        "q1 Q0 b 1 2.0 me\nq1 Q0 a 2 1.0 me\nq2 Q0 c 1 3.0 me\nq2 Q0 a 2 1.0 me\nq9 Q0 a 1 1.0 me\n"
    )
    (folder / "topics.tsv").write_text("q1\tfirst question\nq2\tsecond question\nq3\tthird question\n")
    beir = folder / "beir" / "qrels"
    beir.mkdir(parents=True)
    write_rows(
        folder / "beir" / "corpus.jsonl", [{"_id": one, "title": one, "text": f"Text of {one}."} for one in "abc"]
    )
    write_rows(folder / "beir" / "queries.jsonl", [{"_id": f"q{n}", "text": f"question {n}"} for n in (1, 2, 3)])
    (beir / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\ta\t1\nq2\tc\t2\nq3\ta\t1\n")
    shards = folder / "shards"
    shards.mkdir()
    lines = (
        (folder / "data.jsonl").read_text().splitlines(keepends=True),
        (folder / "a.jsonl").read_text().splitlines(keepends=True),
    )
    for part in (0, 1):
        for name, rows in zip(("data", "out"), lines, strict=True):
            (shards / f"{name}-{part}.jsonl").write_text("".join(rows[part * 6 : part * 6 + 6]))
    write_rows(
        folder / "corpus.jsonl", [{"doc_id": f"d{n}", "text": f"The text of d{n}."} for n in range(1, NUM_SAMPLES)]
    )
    write_rows(
        folder / "nuggets.jsonl",
        [
            {"qid": f"q{n:02}", "query": f"question {n}?", "nuggets": [{"text": f"fact {n}", "importance": "vital"}]}
            for n in (1, 2)
        ],
    )
    for name in ("ann", "bob"):  # who disagree about q06
        wrong = (3, 6) if name == "ann" else (3,)
        labels = [(f"q{n:02}", "wrong" if n in wrong else "right") for n in range(1, 9)]
        about = {"annotator": name, "draw": "d1", "probability": 8 / NUM_SAMPLES}
        labelled = [{"sample_id": one, "label": label, **about} for one, label in labels]
        write_rows(folder / f"{name}.jsonl", labelled)
    write_rows(
        folder / "scores.jsonl", [{"sample_id": f"q{n:02}", "score": (n % 4) / 4} for n in range(1, NUM_SAMPLES + 1)]
    )


def _sample(n: int) -> dict[str, Any]:
    gold: list[Any] = [{"doc_id": f"d{n}", "text": f"The text of d{n}."}]
    if n % 4 == 0:
        gold.append({"doc_id": f"d{n + 1}", "metadata": {"relevance": 2}})
    sample: dict[str, Any] = {
        "sample_id": f"q{n:02}",
        "query": f"What is number {n}?",
        "relevant_docs": gold,
        "reference_answer": f"answer {n} by the book",
        "labels": {"lang": "de" if n % 2 else "en"},
        "metadata": {"source": "made"},
    }
    if n % 5 == 0:
        sample["cluster_id"] = "fives"
    return sample


def _output_a(n: int) -> dict[str, Any]:
    if n == 7:
        return {"sample_id": "q07", "retrieved": [], "error": "timeout: 30 s"}
    ranking = [f"d{n + 1}", f"d{n}", "d99"] if n % 3 else ["d98", "d99"]
    retrieved = [
        {"doc": {"doc_id": one, "text": f"The text of {one}."}, "score": 1 / rank}
        for rank, one in enumerate(ranking, 1)
    ]
    return {
        "sample_id": f"q{n:02}",
        "retrieved": retrieved,
        "response": f"answer {n}",
        "timings": {"end_to_end": n / 10},
        "citations": [ranking[0]],
    }


def _output_b(n: int) -> dict[str, Any]:
    ranking = [f"d{n}", f"d{n + 1}", "d99"] if n != 5 else ["d97"]
    retrieved = [
        {"doc": {"doc_id": one, "text": f"The text of {one}."}, "score": 1 / rank}
        for rank, one in enumerate(ranking, 1)
    ]
    answer = f"answer {n} by the book" if n % 4 else "I do not know."
    return {
        "sample_id": f"q{n:02}",
        "retrieved": retrieved,
        "response": answer,
        "timings": {"end_to_end": n / 20},
        "citations": [ranking[0]],
    }


def _output_c(n: int) -> dict[str, Any]:
    return {
        "sample_id": f"q{n:02}",
        "retrieved": ["d99", f"d{n}"],
        "response": f"number {n} by the book",
        "timings": {"end_to_end": 0.25},
    }


def _chunk(query: str, doc_id: str, parent: str, span: list[int]) -> dict[str, Any]:
    hit = {
        "doc": {"doc_id": doc_id, "text": "Refunds take ten days.", "parent_id": parent, "span": span},
        "score": 1.0,
        "rank": 1,
    }
    return {"sample_id": query, "retrieved": [hit], "response": "It takes ten days.", "citations": [doc_id]}


def plain(text: str, folder: Path) -> str:
    """The text without what differs from call to call: ids of runs, moments and the folder.

    Ids and moments keep their width, so that columns stay in line; ids are numbered in the order they appear.
    """
    text = text.replace(str(folder), "FOLDER")
    ids: dict[str, str] = {}
    for one in RUN_ID.findall(text):
        ids.setdefault(one, f"run_{len(ids) + 1:026}")
    text = RUN_ID.sub(lambda found: ids[found[0]], text)
    return MOMENT.sub(lambda found: re.sub(r"\d", "0", found[0]), text)
