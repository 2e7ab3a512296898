"""An evaluation from start to end in memory: a corpus, questions, a plan over retrieval and generation, the numbers.

``python -m auepora_eval.examples.example_plan`` runs it. The steps are those of every evaluation:

1. a dataset: questions with annotations (``build_dataset``)
2. a plan: the metrics, each of which judges one target (``build_plan``)
3. a system: anything with ``run(sample, *, top_k)`` (``simple_rag.build``)
4. an evaluator: calls the system, scores its outputs, keeps both (``main``)
"""

from __future__ import annotations

from ..core.dataset import InMemoryDataset
from ..core.plan import EvaluationPlan
from ..core.registry import metric
from ..core.results import Results
from ..core.types import Document, EvaluationSample, Response
from ..systems.calls import AueporaEvaluator
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
    """The questions as samples. The last has no relevant document, and a label says that it cannot be answered."""
    by_id = {document.doc_id: document for document in CORPUS}
    samples = [
        EvaluationSample(
            sample_id=f"q{number}",
            query=question,
            relevant_docs=[by_id[doc_id] for doc_id in gold],
            reference_answer=Response(answer),
            labels={} if gold else {"scenario": "unanswerable"},
        )
        for number, (question, gold, answer) in enumerate(QUESTIONS, 1)
    ]
    return InMemoryDataset("example", samples)


def build_plan() -> EvaluationPlan:
    """Metrics by name, target by target; an option changes a definition, and the signature of the result says so."""
    return EvaluationPlan(
        [
            # Do the retrieved documents contain the answer?
            metric("recall@1"),
            metric("recall@3"),
            metric("precision@3"),
            metric("hit_rate@3"),
            metric("empty_result_rate"),
            # Are the right ones first? Average precision over all relevant documents, as trec_eval has it.
            metric("mrr"),
            metric("ndcg@3"),
            metric("map", conventions="trec"),
            # Is the answer supported by its documents, and does it match the reference?
            metric("support_density"),
            metric("token_f1"),
            metric("rougeL_answer"),
            # Does the system decline what it cannot answer, and only that?
            metric("negative_rejection_rate"),
            metric("over_refusal_rate"),
            # How long does the user wait?
            metric("mean_latency"),
        ]
    )


def main() -> Results:
    """Run it all, print the table, and look at the answer that fell furthest short of its reference."""
    from ..render.tables import results_table

    evaluator = AueporaEvaluator(build(CORPUS), build_plan(), top_k=3)
    results = evaluator.evaluate(build_dataset())
    print(results_table(results))  # noqa: T201

    # Samples, outputs and the scores of each result are in the same order.
    scores = results.by_name["token_f1"].scores
    assert scores is not None  # every built-in metric has them
    lowest = min(range(len(scores)), key=lambda at: scores[at] or 0.0)
    sample, answer = evaluator.samples[lowest], evaluator.outputs[lowest].response
    print(f"\nThe lowest token_f1, {scores[lowest]:.2f}:")  # noqa: T201
    print(f"  question   {sample.query}")  # noqa: T201
    print(f"  answer     {answer.text if answer else ''}")  # noqa: T201
    print(f"  reference  {sample.references[0]}")  # noqa: T201
    return results


if __name__ == "__main__":
    main()
