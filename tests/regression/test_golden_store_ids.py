"""What stored data is known by: fingerprints of datasets, keys of texts, scores and plans, ids of runs."""

import os
import re
import time

import pytest

from auepora_eval import Document, EvaluationSample, Response
from auepora_eval.io.golden import dataset_fingerprint
from auepora_eval.io.join import load_dataset
from auepora_eval.plan.model import plan_key
from auepora_eval.plan.prepare import read_plan
from auepora_eval.store.records import new_run_id, score_key
from auepora_eval.store.texts import text_key
from helpers.golden import check_golden
from helpers.golden_store import DATA

SAMPLES = {
    "bare": EvaluationSample("1", "why?"),
    "gold": EvaluationSample("1", "why?", relevant_docs=[Document("d1", "text", {"relevance": 2}, "p", (0, 4))]),
    "nothing relevant": EvaluationSample("1", "why?", relevant_docs=[]),
    "candidates": EvaluationSample("1", "why?", candidate_docs=[Document("d1"), Document("d2", "ä")]),
    "answer": EvaluationSample("1", "why?", reference_answer=Response("so", {"n": 1}, {"m": 2})),
    "sentences": EvaluationSample(
        "1", "why?", reference_answer=Response("so", sentences=[{"text": "so", "citations": ["d1"]}])
    ),
    "answers": EvaluationSample("1", "why?", reference_answers=["so", "thus"]),
    "labels": EvaluationSample("1", "why?", labels={"b": 1, "a": [True, None]}, metadata={"z": {"y": 0.5}}),
    "history": EvaluationSample("1", "why?", history=[{"role": "user", "content": "hello"}], cluster_id="c"),
    "characters": EvaluationSample("é\u2028", "wo ist 東京? 🗼"),
}


def test_fingerprints_of_datasets() -> None:
    found = {name: dataset_fingerprint([sample]) for name, sample in SAMPLES.items()}
    found["nothing"] = dataset_fingerprint([])
    found["all"] = dataset_fingerprint(SAMPLES.values())
    for name in ("project/questions.jsonl", "project/qrels.txt", "project/golden.yaml", "demo/questions.jsonl"):
        found[name] = dataset_fingerprint(load_dataset(DATA / name))
    check_golden("store/fingerprints.json", found)


def test_keys() -> None:
    texts = ["a", "The text of a document.", "ä\u0000🗼", " "]
    scores = [("recall@5", "recall@5|empty:skip|v1"), ("", ""), ("bleu", "bleu|tok:13a|v1"), ("é", "é|by:m.C|v1")]
    plans = sorted((DATA / "project").glob("*.yaml"))
    read = {path.name: read_plan(path) for path in plans if path.name != "golden.yaml"}
    found = {
        "texts": {text: text_key(text.encode()) for text in texts},
        "scores": {f"{name} {signature}": score_key(name, signature) for name, signature in scores},
        "plans": {name: plan_key(plan.resolved) for name, plan in read.items()},
        "resolved": {name: read[name].resolved for name in ("nightly.yaml", "saved.yaml", "judged.yaml")},
    }
    check_golden("store/keys.json", found)


def test_ids_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Milliseconds first, then chance; later ones of a process always after."""
    assert re.fullmatch(r"run_[0-9A-HJKMNP-TV-Z]{26}", new_run_id())
    monkeypatch.setattr(os, "getpid", lambda: 1)  # as in a process that has made none yet
    monkeypatch.setattr(time, "time_ns", lambda: 9_876_543_210_123_000_000)
    monkeypatch.setattr(os, "urandom", lambda count: bytes(range(count)))
    assert [new_run_id(), new_run_id()] == ["run_08ZE7XK0MB000G40R40M30E209", "run_08ZE7XK0MB000G40R40M30E20A"]
