"""An evaluation from start to end in memory: a corpus, questions, a plan over retrieval and generation, the numbers."""

from __future__ import annotations

from ..core.dataset import InMemoryDataset
from ..core.plan import EvaluationPlan
from ..core.registry import metric
from ..core.results import Results
from ..core.runner import AueporaEvaluator
from ..core.types import Document, EvaluationSample, Response
from .simple_rag import build

__all__ = ["CORPUS", "build_dataset", "build_plan", "main"]

CORPUS = [
    Document("targets", "A target is what you judge. Retrieval relevance asks whether the documents hold the answer."),
    Document("datasets", "A dataset says which annotations are at hand. Gold documents make recall and MAP possible."),
    Document(
        "metrics", "A metric turns outputs and annotations into numbers. Every metric names the target it judges."
    ),
    Document("outcomes", "A sample is scored, skipped or failed. A skipped sample never enters the mean."),
    Document("failures", "A failed answer counts at the worst value. Otherwise a system could win by crashing."),
    Document("conventions", "Conventions are named choices. The preset trec divides average precision by all gold."),
    Document("signatures", "A signature names a number and every choice that changed it. Two signatures must agree."),
]

# question, ids of the documents that answer it, reference answer
QUESTIONS = [
    ("What does retrieval relevance ask?", ["targets"], "Whether the documents hold the answer."),
    ("Which annotations make recall possible?", ["datasets"], "Gold documents make recall possible."),
    ("What turns outputs into numbers?", ["metrics"], "A metric turns outputs and annotations into numbers."),
    ("Does a skipped sample enter the mean?", ["outcomes"], "No, a skipped sample never enters the mean."),
    ("Why does a failed answer count at the worst value?", ["failures"], "Otherwise a system could win by crashing."),
    ("How does trec divide average precision?", ["conventions"], "By all gold."),
    (
        "What must agree before two numbers are subtracted?",
        ["signatures", "conventions"],
        "Their signatures must agree.",
    ),
    ("Who won the cup?", [], "I don't know."),
]


def build_dataset() -> InMemoryDataset:
    """The questions as samples; the last one has no relevant document."""
    by_id = {document.doc_id: document for document in CORPUS}
    samples = [
        EvaluationSample(
            sample_id=f"q{number}",
            query=question,
            relevant_docs=[by_id[doc_id] for doc_id in gold],
            reference_answer=Response(answer),
        )
        for number, (question, gold, answer) in enumerate(QUESTIONS, 1)
    ]
    return InMemoryDataset("example", samples)


def build_plan() -> EvaluationPlan:
    """Metrics for retrieval, generation and latency."""
    names = ["recall@1", "recall@3", "precision@3", "hit_rate@3", "empty_result_rate", "mrr", "ndcg@3", "rougeL_answer"]
    return EvaluationPlan([*map(metric, names), metric("map", conventions="trec"), metric("mean_latency")])


def main() -> Results:
    """Run it all and print the table."""
    from ..reporting.tables import results_table

    evaluator = AueporaEvaluator(build(CORPUS), build_plan(), top_k=3)
    results = evaluator.evaluate(build_dataset())
    print(results_table(results))  # noqa: T201
    return results


if __name__ == "__main__":
    main()
