"""Names of metrics in other tools for RAG, and the closest metric here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ClosestMetric:
    """The metric that is closest to one of another tool, with the options for it, and what differs."""

    tool: str
    name: str
    """The name in that tool."""
    metric: str
    differs: str
    options: Mapping[str, object] = field(default_factory=dict)


CLOSEST = (
    ClosestMetric(
        "ragas",
        "faithfulness",
        "claim_faithfulness",
        "claims and verdicts in two requests there too; an answer without claims is NaN there and skipped here",
    ),
    ClosestMetric(
        "ragas",
        "answer_relevancy",
        "reverse_question_relevance",
        "the same idea: questions generated from the answer; a noncommittal answer scores 0 in both",
    ),
    ClosestMetric("ragas", "response_relevancy", "reverse_question_relevance", "the later name of answer_relevancy"),
    ClosestMetric(
        "ragas",
        "context_precision",
        "judged_context_precision",
        "average precision over judged documents in both; precision@k compares ids with gold and needs no judge",
    ),
    ClosestMetric(
        "ragas",
        "context_utilization",
        "judged_context_precision",
        "with against: answer; context_utilisation here is RAGChecker's and measures the generator",
        {"against": "answer"},
    ),
    ClosestMetric(
        "ragas",
        "llm_context_precision_with_reference",
        "judged_context_precision",
        "the later name of context_precision",
    ),
    ClosestMetric(
        "ragas",
        "llm_context_precision_without_reference",
        "judged_context_precision",
        "with against: answer",
        {"against": "answer"},
    ),
    ClosestMetric(
        "ragas",
        "context_recall",
        "claim_context_recall",
        "the reference is split during the check there, with another denominator; recall@k compares ids with gold",
    ),
    ClosestMetric("ragas", "llm_context_recall", "claim_context_recall", "the later name of context_recall"),
    ClosestMetric(
        "ragas",
        "context_relevancy",
        "judged_context_relevance",
        "sentences needed over all sentences; counted by rules here, by the judge there",
    ),
    ClosestMetric(
        "ragas",
        "nv_context_relevance",
        "judged_context_relevance",
        "a grade for all documents there, a proportion of sentences here",
    ),
    ClosestMetric("ragas", "nv_response_groundedness", "llm_faithfulness", "both a grade; the scales differ"),
    ClosestMetric("ragas", "response_groundedness", "llm_faithfulness", "the same metric as nv_response_groundedness"),
    ClosestMetric(
        "ragas",
        "id_based_context_precision",
        "precision@k",
        "no cut-off there; divided by min(k, returned) here unless the conventions say k",
    ),
    ClosestMetric("ragas", "id_based_context_recall", "recall@k", "no cut-off there"),
    ClosestMetric(
        "ragas", "answer_correctness", "claim_f1", "a quarter of the score there is the cosine of both texts"
    ),
    ClosestMetric(
        "ragas",
        "factual_correctness",
        "claim_f1",
        "recall there divides by other counts, and the value is rounded to two digits",
    ),
    ClosestMetric(
        "ragas", "answer_similarity", "embedding_similarity", "cosine of embeddings in both; the models differ"
    ),
    ClosestMetric("ragas", "semantic_similarity", "embedding_similarity", "the later name of answer_similarity"),
    ClosestMetric(
        "ragas", "bleu_score", "bleu", "the value here is that of all answers together, from 0 to 100, as in sacrebleu"
    ),
    ClosestMetric(
        "ragas", "chrf_score", "chrf", "the value here is that of all answers together, from 0 to 100, as in sacrebleu"
    ),
    ClosestMetric(
        "ragas",
        "rouge_score",
        "rougeL_answer",
        "ROUGE-L by default in both; rouge1_answer, rouge2_answer are metrics of their own here",
    ),
    ClosestMetric(
        "ragas",
        "string_present",
        "containment",
        "with norm: none; several reference answers count here",
        {"norm": "none"},
    ),
    ClosestMetric(
        "ragas",
        "nv_accuracy",
        "llm_correctness",
        "three grades in both; the mean of two judgements with the texts swapped there",
    ),
    ClosestMetric("ragas", "aspect_critic", "judge_metric", "a question of your own with scale: yes-no in both"),
    ClosestMetric("ragas", "simple_criteria_score", "judge_metric", "with a scale of numbers"),
    ClosestMetric(
        "ragas",
        "rubrics_score",
        "judge_metric",
        "a description for each score there; here the scale may have classes with values",
    ),
    ClosestMetric(
        "ragas", "instance_rubrics", "rubric_score", "per sample, descriptions of the scores there; weighted items here"
    ),
    ClosestMetric(
        "deepeval",
        "FaithfulnessMetric",
        "claim_faithfulness",
        "there a claim counts unless the documents contradict it, here only if they support it",
    ),
    ClosestMetric(
        "deepeval",
        "AnswerRelevancyMetric",
        "llm_answer_relevance",
        "the proportion of relevant statements there, a grade here",
    ),
    ClosestMetric(
        "deepeval",
        "ContextualPrecisionMetric",
        "judged_context_precision",
        "average precision over judged documents in both",
    ),
    ClosestMetric(
        "deepeval",
        "ContextualRecallMetric",
        "claim_context_recall",
        "sentences of the expected output there, claims here",
    ),
    ClosestMetric(
        "deepeval",
        "ContextualRelevancyMetric",
        "judged_context_relevance",
        "statements that the judge extracts there, sentences split by rules here",
    ),
    ClosestMetric(
        "deepeval",
        "HallucinationMetric",
        "claim_hallucination",
        "documents that the answer contradicts there, claims without support here",
    ),
    ClosestMetric(
        "deepeval",
        "GEval",
        "judge_metric",
        "criteria of your own in both; there the judge first writes evaluation steps",
    ),
    ClosestMetric(
        "deepeval", "ExactMatchMetric", "exact_match", "compared as written there, normalised as in SQuAD here"
    ),
    ClosestMetric(
        "deepeval", "JsonCorrectnessMetric", "structured_validity", "a Pydantic model there, a JSON schema here"
    ),
    ClosestMetric(
        "TruLens",
        "Groundedness",
        "claim_faithfulness",
        "sentences with a grade each there, claims with a verdict each here",
    ),
    ClosestMetric(
        "TruLens", "groundedness_measure_with_cot_reasons", "claim_faithfulness", "the function behind Groundedness"
    ),
    ClosestMetric(
        "TruLens",
        "context_relevance",
        "judged_context_relevance",
        "a grade for each document there, a proportion of sentences here",
    ),
    ClosestMetric("TruLens", "context_relevance_with_cot_reasons", "judged_context_relevance", "the same with reasons"),
    ClosestMetric("TruLens", "qs_relevance", "judged_context_relevance", "the earlier name of context_relevance"),
    ClosestMetric("TruLens", "relevance", "llm_answer_relevance", "a grade in both"),
    ClosestMetric("TruLens", "relevance_with_cot_reasons", "llm_answer_relevance", "the same with reasons"),
    ClosestMetric(
        "MLflow", "Correctness", "llm_correctness", "yes or no by expected facts or response there, three classes here"
    ),
    ClosestMetric("MLflow", "RelevanceToQuery", "llm_answer_relevance", "yes or no there, a grade here"),
    ClosestMetric(
        "MLflow",
        "RetrievalSufficiency",
        "llm_context_sufficiency",
        "compared with the expected facts there; no reference here",
    ),
    ClosestMetric(
        "MLflow",
        "RetrievalGroundedness",
        "claim_faithfulness",
        "yes or no for the whole answer there, a proportion of claims here",
    ),
    ClosestMetric("MLflow", "Guidelines", "judge_metric", "rules in plain words, with scale: yes-no here"),
    ClosestMetric("MLflow", "make_judge", "judge_metric", "a prompt with named inputs in both; inputs are framed here"),
    ClosestMetric("promptfoo", "llm-rubric", "judge_metric", "one criterion in plain words in both"),
    ClosestMetric(
        "promptfoo", "factuality", "llm_correctness", "five relations of answer and reference there, three classes here"
    ),
)
"""In the order of ``docs/other-tools.md``. Not aliases: the definitions differ, which is said where one is computed."""


def closest_metrics(name: str) -> list[ClosestMetric]:
    """The metrics that are closest to this name of another tool; several where tools mean different things by it.

    Case, hyphens, underscores and the ``Metric`` at the end of the names of classes do not matter; a name with it, as
    written by a tool, means that of this tool.
    """
    wanted = _stem(name)
    found: dict[tuple[str, str], ClosestMetric] = {}
    for closest in CLOSEST:
        if closest.name == name and name.endswith("Metric"):
            return [closest]
        if _stem(closest.name) == wanted:
            found.setdefault((closest.metric, repr(closest.options)), closest)
    return list(found.values())


def _stem(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").removesuffix("metric")
