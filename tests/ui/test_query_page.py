"""The query page: texts with marks, claims and evidence, joined rankings, cut-offs, scores, errors."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, evaluate
from auepora_eval.report.browser.listing import SentenceIndex, judged_claims
from auepora_eval.store.records import RunRecord, StoredOutput
from auepora_eval.store.rows import StoredJudgement
from auepora_eval.store.runs import RunStore, sample_at
from auepora_eval.ui.query_page import Mark, TextPart, connections, cut_offs, split_marks, split_pieces, timeline
from helpers.browser_runs import HOSTILE, hostile_run
from helpers.ui_server import UiServer, ui_server

METRICS = ("recall@1", "recall@3", "ndcg@5", "token_f1", "support_density", "mean_latency")
ORION = "Orion was launched in 2014 from Florida. It is a capsule."
APOLLO = "Apollo landed on the Moon in 1969. The crew had three members."
NOISE = "Bread is made of flour and water. It is baked in an oven."
LONG = "A very long answer. " * 60_000


def retrieved(*pairs: tuple[str, str]) -> list[RetrievedDocument]:
    return [RetrievedDocument(Document(name, text), 1 / rank, rank) for rank, (name, text) in enumerate(pairs, 1)]


SAMPLES = [
    EvaluationSample(
        "moon/1",
        "When did Apollo land on the Moon?",
        relevant_docs=[Document("apollo", APOLLO), Document("lost", "Never retrieved.")],
        reference_answer=Response("Apollo landed in 1969."),
        labels={"topic": "space"},
        metadata={"source": "handmade"},
        history=[{"role": "user", "content": "Tell me about space."}, {"role": "assistant", "content": "Gladly."}],
    ),
    EvaluationSample("bread", "How is bread made?", relevant_docs=[Document("noise", NOISE)]),
    EvaluationSample("long", "Say much.", relevant_docs=[]),
]

FIRST = [
    SystemOutputs(
        retrieved(("apollo", APOLLO), ("orion", ORION), ("noise", NOISE)),
        Response(
            "Apollo landed on the Moon in 1969. It carried seventeen penguins.",
            sentences=[{"text": "Apollo landed on the Moon in 1969.", "citations": ["apollo"]}],
        ),
        timings={"end_to_end": 1.5, "search": 0.5, "started": 12.0},
        citations=["apollo", "elsewhere"],
        steps=[
            {"query": "apollo landing", "retrieved": ["apollo", "orion"], "timing": 0.25},
            {"query": "moon year", "retrieved": ["noise"], "timing": 0.25},
        ],
        usage={"tokens": 321},
    ),
    SystemOutputs(retrieved(("noise", NOISE)), Response("In an oven."), timings={"end_to_end": 1.0}),
    SystemOutputs(retrieved(("noise", NOISE)), Response(LONG), timings={"end_to_end": 2.0}),
]
SECOND = [
    SystemOutputs(
        retrieved(("orion", ORION), ("noise", NOISE), ("apollo", APOLLO)),
        Response("I do not know."),
        timings={"end_to_end": 0.5},
        refused=True,
    ),
    SystemOutputs([], error="timeout: no answer within 30 s", extra={"attempts": 3}, timings={"end_to_end": 30.0}),
    None,
]
CLAIMS = ["Apollo landed on the Moon in 1969.", "Apollo carried seventeen penguins."]
JUDGEMENTS = [
    StoredJudgement(
        "claim_faithfulness", "s", 0, "r1", critic="judge-a",
        body={"about": {"of": "the answer"}, "answer": {"claims": CLAIMS}},
    ),
    StoredJudgement(
        "claim_faithfulness", "s", 0, "r2", critic="judge-a",
        body={
            "about": {"of": "the documents", "statements": CLAIMS},
            "answer": {
                "verdicts": [
                    {"number": 1, "why": "document 1 has the year", "verdict": "full"},
                    {"number": 2, "why": "nothing about penguins", "verdict": "none"},
                ]
            },
        },
    ),
    StoredJudgement(
        "tone", "s", 0, "r3", critic="judge-b", body={"answer": {"score": 3, "rationale": "friendly enough"}}
    ),
    StoredJudgement("tone", "s", 1, "r4", critic="judge-b", reason="unparseable", body={"message": "no JSON", "raw": "?"}),
]  # fmt: skip


def put_run(store: RunStore, name: str, outputs: Sequence[SystemOutputs | None], *, repeats: int = 1) -> RunRecord:
    record = store.create_run(name, SAMPLES, dataset_name="space", plan={"metrics": list(METRICS)}, repeats=repeats)
    rows = [
        StoredOutput(position, repeat, SAMPLES[position].sample_id, output)
        for repeat in range(repeats)
        for position, output in enumerate(outputs)
        if output is not None
    ]
    store.append(record.run_id, rows)
    store.put_results(record.run_id, list(evaluate(SAMPLES, outputs, METRICS)))
    store.finish(record.run_id)
    return store.get(record.run_id)


def fill_store(store: RunStore) -> list[RunRecord]:
    records = [put_run(store, "first", FIRST, repeats=2), put_run(store, "second", SECOND), hostile_run(store)]
    store.put_judgements(records[0].run_id, JUDGEMENTS)
    return records
