"""Systems with a planted cause of wrong answers, on questions whose gold names chunks, documents, spans or texts."""

import json
import runpy
from pathlib import Path
from typing import Any

from auepora_eval import EvaluationSample, SystemOutputs
from auepora_eval.io.jsonl import load_jsonl_dataset

DOCUMENTS, CHUNKS, QUESTIONS = 10, 3, 20
FORMS = {"chunk": "id", "document": "parent", "span": "span", "text": "text"}
SYSTEM = '''
import json, time
from pathlib import Path
from auepora_eval import Document, Response, RetrievedDocument

CHUNKS = [Document(**row | {"span": tuple(row["span"])}) for row in map(json.loads, Path("chunks.jsonl").read_text().splitlines())]

class Finder:
    """Finds the right chunk first; a bad one finds for most questions only chunks of other documents."""
    def __init__(self, bad):
        self.bad = bad

    def retrieve(self, query, *, top_k=4):
        number = int(query.split()[-1])
        own = next(chunk for chunk in CHUNKS if f"Item {number} " in chunk.text)
        others = [chunk for chunk in CHUNKS if chunk.parent_id != own.parent_id]
        others = others[number:] + others[:number]
        found = others if self.bad and number % 4 else [others[0], own, *others[1:]]
        return [RetrievedDocument(doc, 1.0, rank) for rank, doc in enumerate(found[:top_k], 1)]

class Reader:
    """Reads the answer in its documents; a bad one gets most of them wrong."""
    def __init__(self, bad, seconds):
        self.bad, self.seconds = bad, seconds

    def generate(self, query, documents):
        with open("calls.log", "a") as log:
            log.write(query + "\\n")
        time.sleep(self.seconds)
        number = int(query.split()[-1])
        if self.bad and number % 4:
            return Response("It is zzz.")
        known = any(f"Item {number} " in doc.text for doc in documents)
        return Response(f"It is A{number}." if known else "It is another one.")

def build(retriever, generator, seconds=0.0):
    return Finder(retriever == "bad"), Reader(generator == "bad", seconds)
'''
PLAN = """
name: items
dataset: {{jsonl: data.jsonl}}
system: {{python: "gold_items:build", args: {{retriever: {retriever}, generator: {generator}, seconds: {seconds}}}}}
metrics: [containment, recall@4, precision@4, {{failure_attribution: {{k: 4, correct: containment}}}}]
run: {{top_k: 4}}
store: runs.sqlite
{more}
"""


def sentence(number: int) -> str:
    words = " ".join(f"w{number}x{place}" for place in range(12))
    return f"Item {number} has the code A{number} and these properties: {words}."


def chunk_of(number: int) -> tuple[str, int, int]:
    """The document of a question's chunk, the number of the chunk, and where it starts."""
    document, place = number % DOCUMENTS, number // DOCUMENTS
    start = sum(len(sentence(document + DOCUMENTS * before)) + 1 for before in range(place))
    return f"d{document}", place, start


def chunks() -> list[dict[str, Any]]:
    rows = []
    for number in range(DOCUMENTS * CHUNKS):
        document, place, start = chunk_of(number)
        text = sentence(number)
        span = [start, start + len(text)]
        rows.append({"doc_id": f"{document}#{place}", "text": text, "parent_id": document, "span": span})
    return rows


def gold(number: int, form: str) -> dict[str, Any]:
    document, place, start = chunk_of(number)
    if form == "chunk":
        return {"doc_id": f"{document}#{place}"}
    if form == "document":
        return {"doc_id": document}
    if form == "span":
        return {"doc_id": f"gold {number}", "parent_id": document, "span": [start, start + len(sentence(number)) - 10]}
    return {"doc_id": f"gold {number}", "text": sentence(number)[:-10]}


def write_project(
    folder: Path, form: str, retriever: str = "good", generator: str = "bad", *, seconds: float = 0.0, more: str = ""
) -> None:
    rows = chunks()
    whole: dict[str, list[str]] = {}
    for row in rows:
        whole.setdefault(row["parent_id"], []).append(row["text"])
    samples = []
    for number in range(QUESTIONS):
        sample = {"sample_id": f"q{number}", "query": f"What is the code of item {number}"}
        samples.append(sample | {"reference_answer": f"A{number}", "relevant_docs": [gold(number, form)]})
    documents = [{"doc_id": name, "text": " ".join(texts)} for name, texts in whole.items()]
    corpus = [*documents, *({"doc_id": row["doc_id"], "text": row["text"]} for row in rows)]
    for name, lines in (("chunks", rows), ("data", samples), ("corpus", corpus)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "gold_items.py").write_text(SYSTEM)
    plan = PLAN.format(retriever=retriever, generator=generator, seconds=seconds, more=more)
    (folder / "plan.yaml").write_text(plan)


PLANTED = {
    ("good", "good"): {},
    ("bad", "good"): {"not_returned": 15},
    ("good", "bad"): {"contradicts_context": 15},
}
"""The retriever and the generator, and how many wrong answers ``failure_attribution`` gives to which cause."""


def planted_outputs(folder: Path, retriever: str, generator: str) -> tuple[list[EvaluationSample], list[SystemOutputs]]:
    """The samples of a project and what such a system returns for them."""
    finder, reader = runpy.run_path(str(folder / "gold_items.py"))["build"](retriever, generator)
    samples = list(load_jsonl_dataset(folder / "data.jsonl"))
    outputs = []
    for sample in samples:
        retrieved = finder.retrieve(sample.query)
        response = reader.generate(sample.query, [found.doc for found in retrieved])
        outputs.append(SystemOutputs(retrieved=retrieved, response=response))
    return samples, outputs
