"""Stored runs for the query browser: of hostile texts, of many queries, of metrics that failed."""

import random
from collections.abc import Sequence

import numpy as np

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.core.metrics_base import make_result
from auepora_eval.core.registry import metric
from auepora_eval.core.scores import Score, Scores
from auepora_eval.core.types import MetricResult, TargetCategory
from auepora_eval.store.records import RunRecord, StoredOutput
from auepora_eval.store.rows import StoredJudgement
from auepora_eval.store.runs import RunStore

PWN = "window.pwned = (window.pwned || 0) + 1; alert('pwned')"
HOSTILE = {
    "script": f"<script>{PWN}</script>",
    "end-of-script": f"</script><script>{PWN}</script>",
    "cdata": f"]]><script>{PWN}</script><![CDATA[",
    "image": f'<img src=x onerror="{PWN}"><svg onload="{PWN}">',
    "link": f'<a href="javascript:{PWN}">javascript:{PWN}</a>',
    "null": "before\x00after\x07\x1b[31m",
    "turned": "safe \u202egnp.exe\u202c \u2066isolated\u2069 \u200b",
    "emoji": "👩‍👩‍👧‍👦 🏳️‍🌈 \U0001f600 e\u0301",
    "long": "x" * 1_000_000,
    "template": "{{7*7}} ${PWN} <style>*{display:none}</style> <!-- ",
    "hash/?#%&'\"": "an id with signs of addresses",
}


def document(doc_id: str, text: str = "", **more: object) -> RetrievedDocument:
    return RetrievedDocument(Document(doc_id, text, **more), None, 1)  # type: ignore[arg-type]


def put(
    store: RunStore,
    name: str,
    samples: Sequence[EvaluationSample],
    outputs: Sequence[SystemOutputs | None],
    results: Sequence[MetricResult] = (),
) -> RunRecord:
    """A stored run with these outputs and results."""
    record = store.create_run(name, samples, dataset_name="made", plan={"metrics": [one.name for one in results]})
    rows = [
        StoredOutput(place, 0, samples[place].sample_id, one) for place, one in enumerate(outputs) if one is not None
    ]
    store.append(record.run_id, rows)
    store.put_results(record.run_id, results)
    store.finish(record.run_id)
    return store.get(record.run_id)


def scored(spec: str, scores: Sequence[Score | float]) -> MetricResult:
    """A result of a registered metric with these scores."""
    given = [one if isinstance(one, Score) else Score(one) for one in scores]
    return make_result(metric(spec), Scores.from_list(given))  # type: ignore[arg-type]


def hostile_run(store: RunStore, name: str = "hostile </title><script>alert(1)</script>") -> RunRecord:
    """A run in which everything that can hold a text holds a hostile one."""
    samples, outputs = [], []
    for key, text in HOSTILE.items():
        samples.append(
            EvaluationSample(
                key,
                text,
                relevant_docs=[Document(f"gold {key}", text, {"note": text[:200]})],
                reference_answer=Response(text[:5000]),
                labels={"scenario": text[:100], f"label {key}": text[:50]},
                metadata={"note": text[:500], text[:40]: [text[:40], None, 1.5]},
                history=[{"role": text[:30], "content": text[:500]}],
            )
        )
        outputs.append(
            SystemOutputs(
                [document(f"gold {key}", text, metadata={"note": text[:100]}), document(text[:300] or "d", text)],
                Response(text, sentences=[{"text": text[:500], "citations": [text[:100] or "d"]}]),
                timings={"end_to_end": 0.25, text[:40]: 1.0},
                extra={"note": text[:500]},
                citations=[text[:100] or "d", "elsewhere"],
                steps=[{"query": text[:300], "retrieved": [text[:100]]}],
                usage={"tokens": 12},
                error=text[:3000] if key == "image" else None,
            )
        )
    odd = MetricResult(
        f"<b>odd</b> \u202e metric </script><script>{PWN}</script> " + "y" * 300,
        TargetCategory.GENERATION_CORRECTNESS,
        0.5,
        scores=[0.5] * len(samples),
        outcomes=["scored"] * (len(samples) - 1) + [f"measure_failed:<img src=x onerror={PWN}>"],
    )
    record = put(store, name, samples, outputs, [scored("recall@5", [1.0] * len(samples)), odd])
    store.put_judgements(
        record.run_id,
        [
            StoredJudgement(
                "judged",
                "",
                place,
                f"r{place}",
                critic=text[:60],
                body={"answer": {"score": 3, "rationale": text[:2000]}, "raw": text[:100]},
            )
            for place, text in enumerate(HOSTILE.values())
        ]
        + [
            StoredJudgement(
                "judged", "", 0, "failed", reason="unparseable", body={"message": "no JSON", "raw": HOSTILE["script"]}
            )
        ],
    )
    return record


def many_runs(
    store: RunStore, count: int, documents: int, names: Sequence[str] = ("a",), *, words: int = 100, seed: int = 3
) -> list[RunRecord]:
    """Runs of so many queries over so many different documents of so many words."""
    drawn = random.Random(seed)
    vocabulary = [
        f"{drawn.choice('bcdfglmnprst')}{drawn.choice('aeiou')}{drawn.choice('bcdfglmnprst')}{number:x}"
        for number in range(20_000)
    ]
    texts = [" ".join(drawn.choices(vocabulary, k=words)) for _ in range(documents)]
    samples = [
        EvaluationSample(
            f"q{number:05}",
            " ".join(drawn.choices(vocabulary, k=9)) + "?",
            relevant_docs=[Document(f"d{2 * number % documents}", texts[2 * number % documents])],
            reference_answer=Response(" ".join(drawn.choices(vocabulary, k=12))),
            labels={"topic": f"topic {number % 12}", "difficulty": ("easy", "hard")[number % 2]},
        )
        for number in range(count)
    ]
    records = []
    for shift, name in enumerate(names):
        outputs = []
        for number in range(count):
            ids = [(2 * number + drawn.choice((0, 0, 2, 4)) + offset) % documents for offset in range(10)]
            hits = [
                RetrievedDocument(Document(f"d{one}", texts[one]), 1 / rank, rank) for rank, one in enumerate(ids, 1)
            ]
            outputs.append(
                SystemOutputs(hits, Response(" ".join(drawn.choices(vocabulary, k=30))), {"end_to_end": drawn.random()})
            )
        rng = np.random.default_rng(seed + shift)
        results = [
            scored(spec, np.round(rng.random(count), 3).tolist())
            for spec in ("recall@5", "precision@5", "mrr@10", "ndcg@10", "token_f1", "rougeL_answer")
        ]
        records.append(put(store, name, samples, outputs, results))
    return records
