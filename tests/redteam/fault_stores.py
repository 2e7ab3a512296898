"""Faults in the store: scores, answers, samples and judgements that were edited in its file after the runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from auepora_eval import Document, Response
from auepora_eval.core.scores import Scores
from auepora_eval.runs.run import run_plan
from auepora_eval.runs.scoring import rescore
from auepora_eval.store.records import RunRecord
from helpers.user_project import own_systems
from redteam.planted import Bench, Fault, FoundByVerify, Pair, Stopped, Unseen, answers, questions

STORE = "changed store"


def _scores(
    bench: Bench, record: RunRecord, metric: str, change: Callable[[Scores], Scores], *, value: bool = True
) -> None:
    """Store other scores of a metric, with the value that follows from them."""
    result = bench.store.result(record.run_id, metric)
    assert isinstance(result.scores, Scores)
    result.scores = change(result.scores)
    if value:
        result.value = float(np.nanmean(result.scores.values))
    bench.store.put_result(record.run_id, result)


def _raised(n: int, count: int, metric: str, *, whose: str = "b") -> Callable[[Bench], Pair]:
    """The lowest scores of B are raised, or the highest of A lowered."""

    def plant(bench: Bench) -> Pair:
        _, _, _, pair = bench.pair(n, metric)
        assert pair.baseline is not None

        def change(scores: Scores) -> Scores:
            values = scores.values.copy()
            order = np.argsort(values)
            if whose == "b":
                values[order[:count]] = 1.0
            else:
                values[order[-count:]] = 0.0
            return Scores.of(values)

        _scores(bench, pair.run if whose == "b" else pair.baseline, metric, change)
        return pair

    return plant


def _value(part: str, gate_metric: str) -> Callable[[Bench], Pair]:
    """Only the value or the interval of B is edited; the gate is on the value."""

    def plant(bench: Bench) -> Pair:
        _, _, _, pair = bench.pair(80, gate_metric)
        result = bench.store.result(pair.run.run_id, gate_metric)
        if part == "value":
            result.value = 0.97
        else:
            result.interval = (0.96, 0.98)
        bench.store.put_result(pair.run.run_id, result)
        return Pair(None, pair.run)

    return plant


def _outputs(count: int, part: str, *, consistent: bool = False) -> Callable[[Bench], Pair]:
    """Answers or rankings of B are edited in the store; ``consistent`` also computes all that follows again."""
    metric = "recall@5" if part == "ranking" else "token_f1"

    def plant(bench: Bench) -> Pair:
        samples, _, second, pair = bench.pair(80, metric)
        best = answers(np.full(80, 0.999))
        run_id = pair.run.run_id
        for place in np.argsort(second)[:count].tolist():
            (row,) = bench.store.outputs(run_id, position=place)
            if part == "ranking":
                row.output.retrieved = best[place].retrieved
            else:
                row.output.response = Response(
                    str(samples[place].reference_answer and samples[place].reference_answer.text)
                )
            bench.store.append(run_id, [row], replace=True)
        if consistent:
            rescore(pair.run, [metric], store=bench.store)
            bench.store.finish(run_id)
        return pair

    return plant


def _sql(metric: str, statement: str, *, whose: str = "b", skill: float = 0.6) -> Callable[[Bench], Pair]:
    """One statement on the file of the store; ``?`` is the id of the run."""

    def plant(bench: Bench) -> Pair:
        _, _, _, pair = bench.pair(80, metric, skill=skill)
        assert pair.baseline is not None
        bench.execute(statement, pair.run.run_id if whose == "b" else pair.baseline.run_id)
        return pair

    return plant


def _exchanged_answers(bench: Bench) -> Pair:
    _, _, second, pair = bench.pair(80, "recall@5", skill=0.6)
    places = [int(np.argmin(second)), int(np.argmax(second))]
    rows = [next(bench.store.outputs(pair.run.run_id, position=place)) for place in places]
    rows[0].output.response, rows[1].output.response = rows[1].output.response, rows[0].output.response
    bench.store.append(pair.run.run_id, rows, replace=True)
    return pair


def _swapped(bench: Bench) -> Pair:
    """The results of A and B are exchanged: B is worse."""
    _, _, _, pair = bench.pair(80, "recall@5", skill=-0.8)
    assert pair.baseline is not None
    a, b = pair.baseline.run_id, pair.run.run_id
    for old, new in ((a, "x"), (b, a), ("x", b)):
        bench.execute("UPDATE eval_scores SET run_id = ? WHERE run_id = ?", new, old)
    return pair


def _pretended_dataset(bench: Bench) -> Pair:
    """B ran on easier questions; its fingerprint is set to that of A."""
    samples = questions(80)
    easier = [replace(sample, relevant_docs=[*(sample.relevant_docs or []), Document("d0-1")]) for sample in samples]
    hardness = bench.hardness(80)
    baseline = bench.put("a", samples, answers(bench.strengths(hardness)), ["recall@5"])
    outputs = answers(bench.strengths(hardness))
    for output in outputs:
        output.retrieved[0].doc.doc_id = "d0-1"
    run = bench.put("b", easier, outputs, ["recall@5"])
    bench.execute("UPDATE eval_runs SET fingerprint = ? WHERE run_id = ?", baseline.fingerprint, run.run_id)
    return Pair(baseline, run)


def _easier_gold(bench: Bench) -> Pair:
    """The reference of the samples is edited in the store, for both runs."""
    _, _, _, pair = bench.pair(80, "recall@5", skill=0.6)
    found = bench.select("SELECT sample FROM eval_samples WHERE position = 0")
    assert isinstance(found, bytes | str)
    text = found if isinstance(found, str) else found.decode()
    changed = text.replace("gold0", "d0-1")
    assert changed != text
    bench.execute(
        "UPDATE eval_samples SET sample = ? WHERE position = 0", changed if isinstance(found, str) else changed.encode()
    )
    return pair


def _failures_hidden(bench: Bench, *, counts_only: bool) -> Pair:
    """A quarter of B's calls failed; the counts of failures in its result are set to 0."""
    samples, hardness = questions(80), bench.hardness(80)
    outputs = answers(bench.strengths(hardness, 1.5))
    for place in range(0, 80, 4):
        outputs[place] = replace(outputs[place], retrieved=[], response=None, error="TimeoutError")
    baseline = bench.put("a", samples, answers(bench.strengths(hardness, -0.5)), ["recall@5"])
    run = bench.put("b", samples, outputs, ["recall@5"])
    result = bench.store.result(run.run_id, "recall@5")
    result.details |= {"num_failed": 0, "num_system_failed": 0, "num_scored": 80}
    bench.store.put_result(run.run_id, result)
    if not counts_only:
        _scores(bench, run, "recall@5", lambda scores: Scores.of(np.nan_to_num(scores.values)))
    return Pair(baseline, run)


JUDGE = """
from auepora_eval import Response, SystemOutputs
from auepora_eval.judge.critic import Judgement, StructuredCritic

class Judge(StructuredCritic):
    name = "toy"

    async def judge(self, request):
        return Judgement({"score": 1 + int(request.sample_id) % 3, "rationale": "so"})

def system(sample, *, top_k):
    return SystemOutputs([], Response(f"the answer to {sample.query}"))
"""


def _raise_judgements(bench: Bench, run_id: str) -> None:
    for position in range(10):
        (row,) = bench.store.judgements(run_id, position=position)
        bench.store.put_judgements(run_id, [replace(row, body={**row.body, "answer": {"score": 5}})])


def _delete_judgements(bench: Bench, run_id: str) -> None:
    bench.execute("DELETE FROM eval_judgements WHERE position < 10 AND run_id = ?", run_id)


def _judged(change: Callable[[Bench, str], None]) -> Callable[[Bench], Pair]:
    """Two runs of a plan with a judge; then a change of the judgements of B."""

    def plant(bench: Bench) -> Pair:
        folder = bench.folder
        rows = [{"sample_id": str(n), "query": f"what is {n}?", "reference_answer": "yes"} for n in range(30)]
        (folder / "data.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        (folder / "judged_rag.py").write_text(JUDGE)
        metric: dict[str, dict[str, Any]] = {
            "judge_metric": {"name": "quality", "prompt": "Is it right?", "inputs": ["answer"], "scale": "1-5"}
        }
        metric["judge_metric"]["critic"] = {"use": "judge"}
        plan: dict[str, Any] = {
            "name": "judged",
            "dataset": {"jsonl": "data.jsonl"},
            "system": {"python": "judged_rag:system"},
            "resources": {"judge": {"python": "judged_rag:Judge"}},
            "metrics": [metric],
            "store": "runs.sqlite",
        }
        (folder / "plan.json").write_text(json.dumps(plan))
        path = sys.path[:]
        try:
            with own_systems():
                baseline, run = (run_plan(folder / "plan.json", changes={"name": name}).record for name in "ab")
        finally:
            sys.path[:] = path
        change(bench, run.run_id)
        return Pair(baseline, run)

    return plant


def _store() -> Iterator[Fault]:
    recomputed = "scores are computed again from the stored outputs"
    for n, count, metric, whose in (
        (100, 1, "recall@5", "b"),
        (100, 20, "token_f1", "b"),
        (100, 20, "ndcg@10", "a"),
        (60, 15, "mean_latency[end_to_end]", "b"),
    ):
        changed = (
            f"the {count} lowest scores of B raised" if whose == "b" else f"the {count} highest scores of A set to 0"
        )
        yield Fault(
            STORE,
            f"{changed} to 1, {n} questions, {metric}" if whose == "b" else f"{changed}, {n} questions, {metric}",
            (f"better({metric})",),
            _raised(n, count, metric, whose=whose),
            FoundByVerify(f"{metric}, score of q0"),
            recomputed,
        )
    for part, gate in (("value", "token_f1 >= 0.9"), ("interval", "low(recall@5) >= 0.9")):
        metric = "recall@5" if "recall" in gate else "token_f1"
        yield Fault(
            STORE,
            f"the {part} of B edited, 80 questions, {gate}",
            (gate, f"coverage({metric}) >= 0.9"),
            _value(part, metric),
            FoundByVerify(f"{metric}, {part}"),
            "value and interval are computed again from the scores",
        )
    for count, part in ((10, "answer"), (10, "ranking")):
        yield Fault(
            STORE,
            f"{count} {part}s of B edited in the store, 80 questions",
            ("better(token_f1)" if part == "answer" else "better(recall@5)",),
            _outputs(count, part),
            FoundByVerify("outputs"),
            "the digest of the outputs is stored when a run ends, and their scores are computed again",
        )
    for count, part in ((30, "answer"), (30, "ranking")):
        yield Fault(
            STORE,
            f"{count} {part}s of B edited, scored again and finished again, 80 questions",
            ("better(token_f1)" if part == "answer" else "better(recall@5)",),
            _outputs(count, part, consistent=True),
            Unseen(),
            "a store that was changed consistently is a store: only a copy elsewhere would tell",
        )
    yield Fault(
        STORE,
        "the results of A and B exchanged, B is worse, 80 questions, recall@5",
        ("better(recall@5)",),
        _swapped,
        FoundByVerify("recall@5, score of q0"),
        recomputed,
    )
    yield Fault(
        STORE,
        "the fingerprint of B's easier dataset set to that of A, 80 questions, recall@5",
        ("better(recall@5)",),
        _pretended_dataset,
        FoundByVerify("recall@5, score of q0"),
        "its outputs are scored again with the samples of A",
    )
    yield Fault(
        STORE,
        "the gold of a sample edited in the store, 80 questions, recall@5",
        ("better(recall@5)",),
        _easier_gold,
        FoundByVerify("samples"),
        "the fingerprint of the stored samples is computed again",
    )
    yield Fault(
        STORE,
        "a quarter of B's calls failed, the counts of failures set to 0, 80 questions, recall@5",
        ("better(recall@5)",),
        lambda bench: _failures_hidden(bench, counts_only=True),
        FoundByVerify("recall@5"),
        "the outcomes of the samples are stored beside the counts",
    )
    yield Fault(
        STORE,
        "a quarter of B's calls failed, counts and outcomes edited, 80 questions, recall@5",
        ("better(recall@5)",),
        lambda bench: _failures_hidden(bench, counts_only=False),
        FoundByVerify("recall@5, score of q0"),
        "outcomes are computed again from the outputs, which name the error",
    )
    yield Fault(
        STORE,
        "the output of one question of B deleted, 80 questions, recall@5",
        ("better(recall@5)",),
        _sql("recall@5", "DELETE FROM eval_query_results WHERE position = 3 AND run_id = ?"),
        FoundByVerify("outputs"),
        "the digest of the outputs has their positions and contents",
    )
    yield Fault(
        STORE,
        "the answers of B to its best and its worst question exchanged, 80 questions, recall@5",
        ("better(recall@5)",),
        _exchanged_answers,
        FoundByVerify("outputs"),
        "the digest of the outputs has their positions and contents, also of what no metric reads",
    )
    yield Fault(
        STORE,
        "the scores of B deleted, 80 questions, better(recall@5)",
        ("better(recall@5)",),
        _sql("recall@5", "DELETE FROM eval_scores WHERE run_id = ?"),
        Stopped("refused", "has no results"),
        "a run without results is not compared",
    )
    for what, change in (
        ("the score of 10 judgements of B raised", _raise_judgements),
        ("10 judgements of B deleted", _delete_judgements),
    ):
        yield Fault(
            STORE,
            f"{what}, 30 questions, not worse(quality)",
            ("not worse(quality)",),
            _judged(change),
            FoundByVerify("quality, score of"),
            "scores are computed again from the stored judgements",
        )


FAULTS: list[Fault] = [*_store()]
