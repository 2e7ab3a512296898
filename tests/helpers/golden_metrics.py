"""The batch, the metrics and the judges behind the golden files in ``tests/golden/metrics``.

Signatures name the critics and functions below by module and class (``helpers.golden_metrics.NumberCritic``), so none of them may move or
be renamed.
"""

import hashlib
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from auepora_eval import EvaluationSample, LLMCritic, MetricResult, Results, StructuredCritic, SystemOutputs
from auepora_eval.errors import AueporaWarning, JudgeError
from auepora_eval.io.jsonl import load_jsonl_dataset, load_jsonl_outputs
from auepora_eval.judge.critic import Judgement, JudgeRequest, Usage
from helpers.golden import GOLDEN

FOLDER = GOLDEN / "metrics"
MARKER = "(unreadable)"
"""A prompt with this text gets no judgement."""


def load_samples(name: str = "samples.jsonl") -> list[EvaluationSample]:
    return list(load_jsonl_dataset(FOLDER / name))


def load_outputs(name: str = "outputs.jsonl") -> dict[str, SystemOutputs]:
    return load_jsonl_outputs(FOLDER / name)


# --- deterministic judges and models ---------------------------------------------------------------------------------


def fraction(text: str) -> float:
    """A number from 0 to 1 that depends on the text alone."""
    return hashlib.sha256(text.encode()).digest()[0] / 255


def value_for(name: str, schema: Mapping[str, Any], prompt: str) -> Any:
    """A value that fits a JSON schema and depends on the prompt alone; objects in a list are numbered."""
    part = fraction(f"{name} {prompt}")
    if schema["type"] == "array":
        low, high = schema.get("minItems", 0), schema.get("maxItems", 3)
        return [
            value_for(f"{name} {number}", schema["items"], prompt)
            for number in range(1, low + round(part * (high - low)) + 1)
        ]
    if schema["type"] == "object":
        fields = {key: value_for(f"{name} {key}", inner, prompt) for key, inner in schema["properties"].items()}
        return {**fields, "number": int(name.split()[-1])} if "number" in fields else fields
    if schema["type"] == "boolean":
        return part > 0.5
    if schema["type"] == "string":
        words = schema.get("enum")
        return words[min(int(part * len(words)), len(words) - 1)] if words else f"{name} is built in Paris"
    number = schema["minimum"] + part * (schema["maximum"] - schema["minimum"])
    return round(number) if schema["type"] == "integer" else number


class SchemaCritic(StructuredCritic):
    """A critic that answers by schema."""

    name = "schema-critic"

    async def judge(self, request: JudgeRequest) -> Judgement:
        if MARKER in request.prompt:
            raise JudgeError("unparseable", "the reply is not JSON")
        properties = request.schema["properties"]
        return Judgement(
            {key: value_for(key, inner, request.prompt) for key, inner in properties.items()}, usage=Usage(10, 5)
        )


class NumberCritic(LLMCritic):
    """A critic of the small interface; signatures name it by module and class."""

    def score(self, *, prompt: str, metadata: dict[str, Any] | None = None) -> float:
        low, high = map(float, (metadata or {})["scale"].split("-"))
        return low + fraction(prompt) * (high - low)


def entails(premise: str, hypothesis: str) -> float:
    """An NLI function: the proportion of words of the hypothesis that the premise has."""
    words = hypothesis.split()
    return sum(word in premise.split() for word in words) / len(words) if words else 0.0


def letters(texts: list[str]) -> npt.NDArray[np.float64]:
    """An embedder: how often each letter occurs."""
    return np.array([[text.lower().count(chr(code)) for code in range(97, 123)] for text in texts], np.float64)


# --- metrics ---------------------------------------------------------------------------------------------------------

JUDGE, NUMBERS = SchemaCritic(), NumberCritic()
LETTERS = {"python": "helpers.golden_metrics:letters"}
Options = dict[str, Any]

SPECS: dict[str, list[tuple[str, Options]]] = {
    "accuracy": [("accuracy@2", {}), ("accuracy@5", {"min_relevance": 2})],
    "answer_relevance": [("answer_relevance", {})],
    "aqwv": [
        ("aqwv", {}),
        ("aqwv@2", {"beta": 2.0}),
        ("aqwv@3", {"form": "program"}),
        ("aqwv@5", {"p_fa": "collection", "corpus_size": 50}),
    ],
    "bleu": [
        ("bleu", {}),
        ("bleu", {"max_order": 2, "smooth_method": "floor"}),
        ("bleu", {"tokenize": "char", "lowercase": True}),
    ],
    "bpref": [("bpref", {}), ("bpref", {"min_relevance": 2})],
    "chrf": [("chrf", {}), ("chrf", {"word_order": 2, "beta": 1.5})],
    "citation_coverage": [("citation_coverage", {}), ("citation_coverage", {"corpus_ids": ["a", "b", "c", "d"]})],
    "citation_gold_precision": [("citation_gold_precision", {})],
    "citation_gold_recall": [("citation_gold_recall", {"min_relevance": 2})],
    "citation_support_f1": [("citation_support_f1", {"critic": JUDGE})],
    "citation_support_precision": [
        ("citation_support_precision", {"critic": JUDGE}),
        ("citation_support_precision", {"critic": NUMBERS, "at_most_citations": None}),
    ],
    "citation_support_recall": [
        ("citation_support_recall", {"critic": JUDGE, "citations": "brackets"}),
        ("citation_support_recall", {"critic": entails, "at_most_citations": 1}),
    ],
    "claim_context_precision": [
        ("claim_context_precision", {"critic": JUDGE}),
        ("claim_context_precision@2", {"critic": NUMBERS, "claims": "sentences"}),
    ],
    "claim_context_recall": [
        ("claim_context_recall", {"critic": JUDGE}),
        ("claim_context_recall@2", {"claims": "sentences", "verifier": entails, "evidence": "each"}),
    ],
    "claim_f1": [("claim_f1", {"critic": JUDGE}), ("claim_f1", {"critic": JUDGE, "beta": 2})],
    "claim_faithfulness": [
        ("claim_faithfulness", {"critic": JUDGE}),
        ("claim_faithfulness", {"critic": JUDGE, "verifier": NUMBERS, "evidence": "each", "k": 2}),
    ],
    "claim_hallucination": [
        ("claim_hallucination", {"critic": JUDGE}),
        ("claim_hallucination", {"claims": "sentences", "verifier": entails, "evidence": "each"}),
    ],
    "claim_precision": [
        ("claim_precision", {"critic": JUDGE}),
        ("claim_precision", {"critic": NUMBERS, "claims": "sentences"}),
    ],
    "claim_recall": [
        ("claim_recall", {"critic": JUDGE}),
        ("claim_recall", {"claims": "sentences", "verifier": entails}),
    ],
    "containment": [("containment", {}), ("containment", {"norm": "lower"}), ("containment", {"norm": "none"})],
    "context_noise_accuracy": [
        ("context_noise_accuracy", {}),
        ("context_noise_accuracy", {"base": "token_f1"}),
        ("context_noise_accuracy", {"base": "bleu"}),
        ("context_noise_accuracy", {"insufficient": "rgb_script"}),
    ],
    "context_utilisation": [
        ("context_utilisation", {"critic": JUDGE}),
        ("context_utilisation", {"claims": "sentences", "verifier": entails, "k": 3}),
    ],
    "counterfactual_consistency": [
        ("counterfactual_consistency", {}),
        (
            "counterfactual_consistency",
            {"base": "exact_match", "counterfactual_scenarios": ["typo", "paraphrase", "counterfactual"]},
        ),
    ],
    "distinct_n": [("distinct_n", {}), ("distinct_n", {"n": 1})],
    "embedding_context_redundancy": [
        ("embedding_context_redundancy", {"embed_fn": LETTERS}),
        ("embedding_context_redundancy@3", {"embed_fn": letters}),
    ],
    "embedding_context_relevance": [
        ("embedding_context_relevance", {"embed_fn": LETTERS}),
        ("embedding_context_relevance@2", {"embed_fn": LETTERS, "depth": 1}),
    ],
    "embedding_similarity": [
        ("embedding_similarity", {"embed_fn": LETTERS}),
        ("embedding_similarity", {"embed_fn": letters, "compare_to": "query"}),
    ],
    "empty_result_rate": [("empty_result_rate", {})],
    "err": [("err", {"max_grade": 3}), ("err@3", {"max_grade": 4})],
    "error_correction_rate": [
        ("error_correction_rate", {}),
        ("error_correction_rate", {"over": "all", "insufficient": "rgb_script"}),
        ("error_correction_rate", {"base": "token_f1", "threshold": 0.2, "cues": ["built in rome", "errors"]}),
    ],
    "error_detection_rate": [
        ("error_detection_rate", {}),
        ("error_detection_rate", {"cues": "rgb_paper"}),
        ("error_detection_rate", {"cues": ["the documents | are: wrong", "rome"]}),
    ],
    "evidence_overlap": [
        ("evidence_overlap", {}),
        ("evidence_overlap", {"n": 2, "k": 3}),
        ("evidence_overlap", {"evidence_source": "relevant"}),
    ],
    "exact_match": [("exact_match", {}), ("exact_match", {"ignore_articles": False})],
    "f1": [("f1@3", {}), ("f1@5", {"conventions": "client"})],
    "failure_attribution": [
        ("failure_attribution", {}),
        ("failure_attribution@2", {"correct": "token_f1", "correct_from": 0.5, "languages": ["en"]}),
        ("failure_attribution", {"faithfulness": "evidence_overlap", "faithful_from": 0.2, "min_relevance": 2}),
    ],
    "field_accuracy": [("field_accuracy", {}), ("field_accuracy", {"fields": ["label", "n"]})],
    "groundedness": [("groundedness", {})],
    "hallucination_rate": [("hallucination_rate", {})],
    "hit_rate": [("hit_rate@1", {}), ("hit_rate@5", {})],
    "intra_list_diversity": [
        ("intra_list_diversity@5", {}),
        ("intra_list_diversity@2", {}),
        ("intra_list_diversity", {"top_k": None, "depth": 3}),
    ],
    "judged": [("judged@2", {}), ("judged@5", {})],
    "judged_context_precision": [
        ("judged_context_precision", {"critic": JUDGE}),
        ("judged_context_precision@3", {"critic": NUMBERS, "against": "answer"}),
    ],
    "judged_context_relevance": [
        ("judged_context_relevance", {"critic": JUDGE}),
        ("judged_context_relevance@2", {"critic": JUDGE}),
    ],
    "label_accuracy": [("label_accuracy", {}), ("label_accuracy", {"field": "kind"})],
    "llm_answer_quality": [
        ("llm_answer_quality", {"critic": JUDGE}),
        (
            "llm_answer_quality",
            {
                "critic": NUMBERS,
                "dimensions": ["clarity", "tone: is it friendly?"],
                "weights": [1, 0.5],
                "scale": "0-1",
            },
        ),
        ("llm_answer_quality", {"critic": JUDGE, "aggregation": "min", "rationale": False}),
    ],
    "llm_faithfulness": [
        ("llm_faithfulness", {"critic": JUDGE}),
        ("llm_faithfulness", {"critic": NUMBERS, "k": 2, "scale": "1-5"}),
        ("llm_faithfulness", {"critic": JUDGE, "evidence_source": "relevant", "min_relevance": 2}),
    ],
    "map": [("map", {}), ("map@3", {}), ("map@3", {"conventions": "paper"}), ("map", {"ap": "gold"})],
    "mean_latency": [("mean_latency", {}), ("mean_latency[retrieval]", {})],
    "misleading_rate": [("misleading_rate", {}), ("misleading_rate", {"base": "token_f1", "threshold": 0.2})],
    "mistake_reappearance_rate": [("mistake_reappearance_rate", {})],
    "mrr": [("mrr", {}), ("mrr@2", {}), ("mrr", {"conventions": "golden"})],
    "ndcg": [
        ("ndcg", {}),
        ("ndcg@3", {}),
        ("ndcg@3", {"gain_scheme": "linear"}),
        ("ndcg", {"gain_scheme": "exponential"}),
    ],
    "negative_rejection_rate": [
        ("negative_rejection_rate", {}),
        ("negative_rejection_rate", {"languages": ["en", "zh"]}),
        ("negative_rejection_rate", {"refusal_patterns": ["the king", "karl"]}),
    ],
    "noise_robustness": [
        ("noise_robustness", {}),
        ("noise_robustness", {"base": "recall@3", "noise_scenarios": ["typo"]}),
        ("noise_robustness", {"base": "bleu", "base_set": "all"}),
        ("noise_robustness", {"base": {"map": {"ap": "gold"}}, "base_set": "all"}),
        ("noise_robustness", {"base": "distinct_n"}),
    ],
    "noise_sensitivity": [
        ("noise_sensitivity", {"critic": JUDGE}),
        ("noise_sensitivity", {"critic": JUDGE, "noise": "irrelevant", "k": 3}),
        ("noise_sensitivity", {"claims": "sentences", "verifier": entails, "noise": "relevant"}),
    ],
    "nugget_recall": [
        ("nugget_recall", {"critic": JUDGE}),
        ("nugget_recall", {"critic": NUMBERS, "variant": "weighted", "at_a_time": 1}),
        ("nugget_recall", {"critic": entails, "variant": "all"}),
    ],
    "over_refusal_rate": [("over_refusal_rate", {})],
    "precision": [("precision@1", {}), ("precision@5", {}), ("precision@5", {"conventions": "client"})],
    "quality_given_hit": [("quality_given_hit", {}), ("quality_given_hit@2", {"base": "rougeL_answer"})],
    "quality_given_miss": [("quality_given_miss@3", {}), ("quality_given_miss", {"base": "bleu", "min_relevance": 2})],
    "quantile_latency": [
        ("quantile_latency", {}),
        ("quantile_latency[retrieval,0.5]", {}),
        ("quantile_latency[end_to_end,1.0]", {}),
    ],
    "r_precision": [("r_precision", {})],
    "rbp": [("rbp", {}), ("rbp", {"p": 0.5})],
    "recall": [("recall@1", {}), ("recall@5", {}), ("recall@5", {"conventions": "paper", "as": "paper recall"})],
    "recall_doc": [("recall_doc@1", {}), ("recall_doc@5", {})],
    "refusal_correctness": [("refusal_correctness", {}), ("refusal_correctness", {"languages": ["en"]})],
    "rejection_f1": [("rejection_f1", {}), ("rejection_f1", {"refusal_patterns": ["the king", "karl"]})],
    "rejection_precision": [("rejection_precision", {}), ("rejection_precision", {"on_system_failure": "exclude"})],
    "response_diversity": [("response_diversity", {}), ("response_diversity", {"embed": letters})],
    "reverse_question_relevance": [
        ("reverse_question_relevance", {"critic": JUDGE, "embed_fn": LETTERS}),
        ("reverse_question_relevance", {"critic": JUDGE, "embed_fn": LETTERS, "n": 1, "noncommittal": "skip"}),
    ],
    "rouge1_answer": [("rouge1_answer", {}), ("rouge1_answer", {"use_stemmer": False})],
    "rouge1_query": [("rouge1_query", {})],
    "rouge2_answer": [("rouge2_answer", {})],
    "rouge2_query": [("rouge2_query", {})],
    "rougeL_answer": [("rougeL_answer", {}), ("rougeL_answer", {"tokenizer": "unicode"})],
    "rougeL_query": [("rougeL_query", {})],
    "rougeLsum_answer": [("rougeLsum_answer", {})],
    "rougeLsum_query": [("rougeLsum_query", {})],
    "rouge_scores": [("rouge_scores", {}), ("rouge_scores", {"variants": ["rouge2", "rougeLsum"]})],
    "self_knowledge": [
        ("self_knowledge", {"critic": JUDGE}),
        ("self_knowledge", {"claims": "sentences", "verifier": entails}),
    ],
    "sliced": [
        ("sliced", {"base": "token_f1", "where": {"labels.topic": "tower"}}),
        ("sliced", {"base": {"map@3": {"conventions": "client"}}, "where": {"labels.lang": ["de", "ja"]}}),
        ("sliced", {"base": "bleu", "where": {"labels.topic": "tower"}}),
        ("sliced", {"base": "quantile_latency", "where": {"labels.lang": "en"}}),
    ],
    "span_iou": [("span_iou@3", {})],
    "span_precision": [("span_precision@3", {})],
    "span_recall": [("span_recall@3", {})],
    "structured_validity": [
        ("structured_validity", {}),
        ("structured_validity", {"schema": {"type": "object", "required": ["n"]}}),
    ],
    "support_coverage": [("support_coverage", {}), ("support_coverage", {"k": 2})],
    "support_density": [("support_density", {})],
    "throughput": [
        ("throughput", {}),
        ("throughput", {"timing_key": "retrieval", "concurrency": 3}),
        ("throughput", {"by": "clock"}),
    ],
    "token_f1": [("token_f1", {}), ("token_f1", {"ignore_case": False})],
    "weighted_support_precision": [
        ("weighted_support_precision", {"critic": JUDGE}),
        ("weighted_support_precision", {"critic": NUMBERS, "judged": "all", "citations": "hash"}),
    ],
    "weighted_support_recall": [
        ("weighted_support_recall", {"critic": JUDGE, "citations": "sentences"}),
        ("weighted_support_recall", {"critic": entails, "judged": "all"}),
    ],
}
"""Every registered metric that needs no model, with the spec and the options it is recorded with."""

MODEL_SPECS: dict[str, list[tuple[str, Options]]] = {
    "bertscore": [
        ("bertscore", {"model_type": "bert", "num_layers": 2}),
        ("bertscore", {"model_type": "bert", "num_layers": 1, "score_type": "recall"}),
        ("bertscore", {"model_type": "bert", "num_layers": 1, "idf": True, "compare_to": "query"}),
    ],
    "claim_faithfulness": [("claim_faithfulness", {"claims": "sentences", "verifier": {"nli": "nli"}, "k": 2})],
    "citation_support_recall": [
        ("citation_support_recall", {"critic": {"nli": {"model": "nli", "threshold": 0.2}}}),
    ],
    "cross_encoder_similarity": [
        ("cross_encoder_similarity", {"model": "cross-encoder"}),
        ("cross_encoder_similarity", {"model": "cross-encoder-identity", "compare_to": "query"}),
    ],
    "nli_grounding": [
        ("nli_grounding", {"model": "nli", "threshold": 0.2}),
        ("nli_grounding", {"model": "nli", "threshold": 0.2, "evidence": "joined", "k": 2}),
    ],
    "sbert_similarity": [("sbert_similarity", {"model": "sbert"})],
}
"""The same for metrics that need a model; models by their name in ``tiny_models``."""

RANKING = (
    "accuracy@2", "aqwv", "aqwv@2", "bpref", "citation_gold_precision", "citation_gold_recall", "f1@3", "hit_rate@1", "hit_rate@5",
    "judged@2", "map", "map@3", "mrr", "mrr@2", "ndcg", "ndcg@3", "precision@1", "precision@5", "r_precision", "rbp", "recall@1",
    "recall@5", "recall_doc@1", "recall_doc@5", "span_recall@3", "span_precision@3", "empty_result_rate", "failure_attribution",
    "quality_given_hit", "noise_robustness", "token_f1",
)  # fmt: skip
"""Metrics recorded under every preset; ``err`` is added with its option."""


def waves(specs: Mapping[str, Sequence[tuple[str, Options]]]) -> Iterator[list[tuple[str, Options]]]:
    """The specs in groups whose metric names are distinct, so that each group is one evaluation."""
    for place in range(max(map(len, specs.values()))):
        yield [several[place] for several in specs.values() if len(several) > place]


def spec_text(spec: str, options: Options) -> str:
    """A spec as a key of the record."""
    return f"{spec} {', '.join(f'{key}={option_text(value)}' for key, value in options.items())}".strip()


def option_text(value: object) -> str:
    if isinstance(value, StructuredCritic | LLMCritic):
        return type(value).__name__
    return value.__name__ if callable(value) and hasattr(value, "__name__") else repr(value)


# --- records ---------------------------------------------------------------------------------------------------------

PROSE = ("undefined_because",)
"""Details that are sentences: recorded as wording, not as values."""


@contextmanager
def quiet() -> Iterator[None]:
    """Leave out the warnings of the package: the batch contains values that no metric can use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AueporaWarning)
        yield


def record(results: Results, specs: Iterable[tuple[str, Options]]) -> dict[str, Any]:
    """Per spec everything that a result has: the results document, and the score and outcome of every sample."""
    found = {}
    for (spec, options), result, shown in zip(specs, results, results.to_dict()["results"], strict=True):
        del shown["target"]  # recorded with the properties of the metric
        shown["details"] = {key: value for key, value in shown["details"].items() if key not in PROSE}
        shown["slices"] = {
            name: {group: _slice_record(part) for group, part in groups.items()}
            for name, groups in shown["slices"].items()
        }
        if not shown["slices"]:
            del shown["slices"]
        if not result.defined:
            shown["value"] = ["undefined", result.value]
        found[spec_text(spec, options)] = {**shown, **scores_record(result, results.sample_ids)}
    return found


COUNTS = ("num_samples", "num_scored", "num_skipped", "num_system_failed", "num_measure_failed", "num_failed")


def _slice_record(part: dict[str, Any]) -> dict[str, Any]:
    """One group of a slice; the counts and the method of the interval are one string each, to save space."""
    details = {key: value for key, value in part["details"].items() if key not in PROSE}
    counts = " ".join(str(details.pop(key)) for key in COUNTS)
    interval = details.pop("interval", None)
    method = None if interval is None else " ".join([interval["method"], str(interval["units"]), *interval["flags"]])
    return {
        "value": part["value"],
        "interval": part["interval"],
        "method": method,
        "counts": counts,
        "details": details,
    }


def scores_record(result: MetricResult, ids: Sequence[str]) -> dict[str, Any]:
    """The scores in sample order, and the samples (by number) of each outcome other than ``scored``."""
    outcomes: dict[str, list[str]] = defaultdict(list)
    for sample_id, outcome in zip(ids, result.outcomes or (), strict=True):
        if outcome != "scored":
            outcomes[outcome].append(sample_id.partition("-")[0])
    return {
        "scores": list(result.scores or ()),
        "outcomes": {outcome: " ".join(samples) for outcome, samples in sorted(outcomes.items())},
    }
