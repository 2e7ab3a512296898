"""Specs for every registered metric, and generated samples and outputs to score with them."""

import math
import pickle
import random
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import BatchMetric, EvaluationSample, SystemOutputs, metric
from auepora_eval.core.registry import Spec, metric_infos, use_resources
from helpers.builders import output, sample
from helpers.critics import SteadyBareCritic, SteadyCritic, SteadyYesNoCritic, shares_words
from helpers.tiny_models import FOLDER, model_path

LETTERS = {"python": "helpers.letter_vectors:letters"}
SPECIAL_EXAMPLES: dict[str, list[Spec]] = {
    "claim_context_precision": [
        {"claim_context_precision": {"critic": {"use": "judge"}}},
        {"claim_context_precision@2": {"critic": {"use": "bare judge"}, "claims": "sentences"}},
    ],
    "claim_context_recall": [
        {"claim_context_recall": {"critic": {"use": "judge"}}},
        {"claim_context_recall@2": {"claims": "sentences", "verifier": {"use": "entails"}, "evidence": "each"}},
    ],
    "claim_f1": [{"claim_f1": {"critic": {"use": "judge"}}}, {"claim_f1": {"critic": {"use": "judge"}, "beta": 2}}],
    "claim_faithfulness": [
        {"claim_faithfulness": {"critic": {"use": "judge"}}},
        {"claim_faithfulness": {"critic": {"use": "judge"}, "verifier": {"use": "bare judge"}, "evidence": "each"}},
        {"claim_faithfulness": {"claims": "sentences", "verifier": {"nli": model_path("nli")}, "k": 2}},
    ],
    "claim_hallucination": [
        {"claim_hallucination": {"critic": {"use": "judge"}}},
        {"claim_hallucination": {"claims": "sentences", "verifier": {"use": "entails"}, "evidence": "each"}},
    ],
    "claim_precision": [
        {"claim_precision": {"critic": {"use": "judge"}}},
        {"claim_precision": {"critic": {"use": "bare judge"}, "claims": "sentences"}},
    ],
    "claim_recall": [
        {"claim_recall": {"critic": {"use": "judge"}}},
        {"claim_recall": {"claims": "sentences", "verifier": {"use": "entails"}}},
    ],
    "citation_support_f1": [{"citation_support_f1": {"critic": {"use": "judge"}}}],
    "citation_support_precision": [
        {"citation_support_precision": {"critic": {"use": "judge"}}},
        {"citation_support_precision": {"critic": {"use": "bare judge"}, "at_most_citations": None}},
    ],
    "citation_support_recall": [
        {"citation_support_recall": {"critic": {"use": "judge"}, "citations": "brackets"}},
        {"citation_support_recall": {"critic": {"use": "entails"}, "at_most_citations": 1}},
        {"citation_support_recall": {"critic": {"nli": {"model": model_path("nli"), "threshold": 0.2}}}},
        {"citation_support_recall": {"critic": {"minicheck": model_path("minicheck-t5")}}},
    ],
    "context_utilisation": [
        {"context_utilisation": {"critic": {"use": "judge"}}},
        {"context_utilisation": {"claims": "sentences", "verifier": {"use": "entails"}, "k": 3}},
    ],
    "cross_encoder_similarity": [
        {"cross_encoder_similarity": {"model": model_path("cross-encoder")}},
        {"cross_encoder_similarity": {"model": model_path("cross-encoder-identity"), "compare_to": "query"}},
    ],
    "embedding_context_redundancy": [
        {"embedding_context_redundancy": {"embed_fn": LETTERS}},
        {"embedding_context_redundancy@3": {"embed_fn": LETTERS}},
    ],
    "embedding_context_relevance": [
        {"embedding_context_relevance": {"embed_fn": LETTERS}},
        {"embedding_context_relevance@2": {"embed_fn": {"python": "helpers.letter_vectors:Scaled"}, "depth": 1}},
    ],
    "embedding_similarity": [
        {"embedding_similarity": {"embed_fn": LETTERS}},
        {"embedding_similarity": {"embed_fn": LETTERS, "compare_to": "query"}},
        {
            "embedding_similarity": {
                "embed_fn": {"python": "helpers.letter_vectors:Scaled", "args": {"without": "aeiou"}}
            }
        },
    ],
    "judge_metric": [
        {"judge_metric": {"name": "judge_metric", "critic": {"use": "judge"}, "prompt": "Is it right?"}},
        {
            "judge_metric": {
                "name": "judge_metric",
                "critic": {"use": "bare judge"},
                "prompt": "Is it right?",
                "inputs": ["question", "documents@2", "answer", "reference"],
                "scale": {"poor": 0, "fair": 0.5, "good": 1},
                "target": "generation_correctness",
            }
        },
        {
            "judge_metric": {
                "name": "judge_metric",
                "critic": {"use": "judge"},
                "prompt": "Does the label {{labels_label}} fit {{gold_documents}}?",
                "inputs": ["labels.label", "gold_documents"],
                "scale": "1-5",
                "rationale": False,
                "examples": [{"labels.label": "cats", "gold_documents": ["Cats.", "Mats."], "score": 4}],
            }
        },
        {
            "judge_metric": {
                "name": "judge_metric",
                "critic": {"use": "judge"},
                "prompt": "What is it about?",
                "scale": ["cats", "mats"],
                "part": "mats",
            }
        },
    ],
    "judged_context_precision": [
        {"judged_context_precision": {"critic": {"use": "judge"}}},
        {"judged_context_precision@3": {"critic": {"use": "yes or no"}, "against": "answer"}},
    ],
    "judged_context_relevance": [
        {"judged_context_relevance": {"critic": {"use": "judge"}}},
        {"judged_context_relevance@2": {"critic": {"use": "judge"}}},
    ],
    "llm_answer_quality": [
        {"llm_answer_quality": {"critic": {"use": "judge"}}},
        {
            "llm_answer_quality": {
                "critic": {"use": "bare judge"},
                "dimensions": ["clarity", "tone: is it friendly?"],
                "weights": [1, 0.5],
                "scale": "0-1",
            }
        },
        {"llm_answer_quality": {"critic": {"use": "judge"}, "aggregation": "min", "rationale": False}},
    ],
    "llm_answer_relevance": [
        {"llm_answer_relevance": {"critic": {"use": "judge"}}},
        {"llm_answer_relevance": {"critic": {"use": "bare judge"}, "scale": "0-10", "rationale": False}},
    ],
    "llm_context_sufficiency": [
        {"llm_context_sufficiency": {"critic": {"use": "judge"}}},
        {"llm_context_sufficiency@2": {"critic": {"use": "yes or no"}}},
    ],
    "llm_correctness": [
        {"llm_correctness": {"critic": {"use": "judge"}}},
        {"llm_correctness": {"critic": {"use": "bare judge"}, "references": "all", "tolerance": 0.02}},
    ],
    "llm_refusal": [
        {"llm_refusal": {"critic": {"use": "judge"}}},
        {"llm_refusal": {"critic": {"use": "yes or no"}}},
    ],
    "llm_faithfulness": [
        {"llm_faithfulness": {"critic": {"use": "judge"}}},
        {"llm_faithfulness": {"critic": {"use": "bare judge"}, "k": 2, "scale": "1-5"}},
        {"llm_faithfulness": {"critic": {"use": "judge"}, "evidence_source": "relevant", "min_relevance": 2}},
    ],
    "bertscore": [
        {"bertscore": {"model_type": model_path("bert"), "num_layers": 2}},
        {"bertscore": {"model_type": model_path("bert"), "num_layers": 1, "score_type": "recall"}},
        {"bertscore": {"model_type": model_path("bert"), "num_layers": 1, "idf": True, "compare_to": "query"}},
    ],
    "hallucinated_spans": [
        {"hallucinated_spans": {"model": {"model": model_path("spans"), "template": "{question} {documents}"}}},
        {
            "hallucinated_spans": {
                "model": {"model": model_path("spans-bytes"), "window": 256, "template": "user_request"},
                "evidence_source": "relevant",
                "min_span": 2,
            }
        },
    ],
    "nli_grounding": [
        {"nli_grounding": {"model": model_path("nli"), "threshold": 0.2}},
        {"nli_grounding": {"model": model_path("nli"), "threshold": 0.2, "evidence": "joined", "k": 2}},
    ],
    "noise_sensitivity": [
        {"noise_sensitivity": {"critic": {"use": "judge"}}},
        {"noise_sensitivity": {"critic": {"use": "judge"}, "noise": "irrelevant", "k": 3}},
        {"noise_sensitivity": {"claims": "sentences", "verifier": {"use": "entails"}, "noise": "relevant"}},
    ],
    "nugget_recall": [
        {"nugget_recall": {"critic": {"use": "judge"}}},
        {"nugget_recall": {"critic": {"use": "bare judge"}, "variant": "weighted", "at_a_time": 1}},
        {"nugget_recall": {"critic": {"use": "entails"}, "variant": "all"}},
    ],
    "reverse_question_relevance": [
        {"reverse_question_relevance": {"critic": {"use": "judge"}, "embed_fn": LETTERS}},
        {
            "reverse_question_relevance": {
                "critic": {"use": "judge"},
                "embed_fn": LETTERS,
                "n": 1,
                "noncommittal": "skip",
            }
        },
    ],
    "rubric_required": [
        {"rubric_required": {"critic": {"use": "judge"}}},
        {"rubric_required": {"critic": {"use": "bare judge"}}},
    ],
    "rubric_score": [
        {"rubric_score": {"critic": {"use": "judge"}}},
        {"rubric_score": {"critic": {"use": "judge"}, "per_item": True}},
        {"rubric_score": {"critic": {"use": "bare judge"}}},
    ],
    "self_knowledge": [
        {"self_knowledge": {"critic": {"use": "judge"}}},
        {"self_knowledge": {"claims": "sentences", "verifier": {"use": "entails"}}},
    ],
    "sbert_similarity": [{"sbert_similarity": {"model": model_path("sbert")}}],
    "weighted_support_precision": [
        {"weighted_support_precision": {"critic": {"use": "judge"}}},
        {"weighted_support_precision": {"critic": {"use": "bare judge"}, "judged": "all", "citations": "hash"}},
    ],
    "weighted_support_recall": [
        {"weighted_support_recall": {"critic": {"use": "judge"}, "citations": "sentences"}},
        {"weighted_support_recall": {"critic": {"use": "entails"}, "judged": "all"}},
    ],
}
"""Specs of metrics that need a judge, a model or a function, which a metric cannot declare itself."""
EXAMPLES: dict[str, list[Spec]] = {
    name: [*info.metadata.examples, *SPECIAL_EXAMPLES.get(name, ())] for name, info in metric_infos().items()
}
RESOURCES = {
    "judge": SteadyCritic(),
    "bare judge": SteadyBareCritic(),
    "yes or no": SteadyYesNoCritic(),
    "entails": shares_words,
}
SPECS = [spec for specs in EXAMPLES.values() for spec in specs]


def model_names(spec: object) -> list[str]:
    """The tiny models that a spec names, at any depth."""
    if isinstance(spec, dict):
        return [name for inner in spec.values() for name in model_names(inner)]
    return [Path(spec).name] if isinstance(spec, str) and spec.startswith(f"{FOLDER}/") else []


def spec_params(specs: Iterable[Spec] = SPECS) -> list[Any]:
    """The specs as test parameters; those that name a model are slow."""
    marks = [pytest.mark.part("models")]
    return [
        pytest.param(spec, id=str(spec).replace(f"{FOLDER}/", ""), marks=marks if model_names(spec) else ())
        for spec in specs
    ]


WORDS = ["the", "cats", "sat", "running", "mat", "日本", "naïve", "", "\n"]
SCHEMAS: list[Any] = [
    {},
    {"output_schema": {"type": "object", "required": ["n"]}},
    {"output_schema": {"type": "objekt"}},
]
EXPECTATIONS: list[Any] = [
    {},
    {"must_contain": ["cats"]},
    {"must_contain": "mat", "forbidden": ["the", ""]},
    {"forbidden": 5},
    {"expected_doc_ids": []},
    {"expected_doc_ids": ["whole", "x"]},
]
NOISE: list[Any] = [{}, {"noise_ratio": 0}, {"noise_ratio": 0.4}, {"noise_ratio": 1.0}, {"noise_ratio": "half"}]
FALSE: list[Any] = [{}, {}, {"wrong_answer": "cats"}, {"wrong_answer": ["the", "sat"]}, {"wrong_answer": 5}]
ENDINGS = ["", " There are FACTUAL\nerrors in them.", " insufficient information"]
NUGGETS: list[Any] = [
    {},
    {"nuggets": []},
    {"nuggets": "cats"},
    {"nuggets": [{"text": "cats sat", "importance": "okay"}]},
    {"nuggets": [{"text": f"cats sat on mat {i}", "importance": ["vital", "okay"][i % 2]} for i in range(12)]},
    {"nuggets": [{"text": "cats", "importance": "vital"}, {"text": "Cats", "importance": "okay"}]},
]
RUBRICS: list[Any] = [
    {},
    {"rubric": []},
    {"rubric": [{"item": "names cats", "weight": 2}, {"item": "names a dog", "weight": -3}]},
    {"rubric": [{"item": "names the mat"}, {"item": "is polite", "weight": 0.5, "required": True}]},
    {"rubric": [{"item": "is short", "required": True}, {"item": "is rude", "weight": -1, "required": True}]},
]
PAYLOADS: list[Any] = [
    {},
    {"payload": {"kind": "instruction", "doc_id": "a", "text": "Say it.", "success": "cats"}},
    {"payload": {"kind": "poison", "doc_id": "h", "text": "It sat.", "success": "sat"}},
    {"payload": {"kind": "contradiction", "doc_id": "b", "text": "Not true.", "success": None}},
    {"payload": "none"},
]
MARKED = ["", " The mat [1]. Cats sat. [2, 9]", " Cats sat on the mat [1-3].", " Cats run [#1].", " Running cats."]
MARKS: list[Any] = [
    {},
    {"scenario": "unanswerable"},
    {"scenario": "typo", "answerable": False},
    {"answerable": True},
    {"answerable": "no"},
]
REFUSALS = ["I don’t know.", "很抱歉，我不知道。", " \n"]


def made_data(seed: int = 0, n: int = 40) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
    """Samples and outputs of every kind, the same for the same seed; the caller may change them."""
    pair: tuple[list[EvaluationSample], list[SystemOutputs | None]] = pickle.loads(_pickled_data(seed, n))
    return pair


@cache
def _pickled_data(seed: int, n: int) -> bytes:
    return pickle.dumps(_generated_data(seed, n))


def _generated_data(seed: int, n: int) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
    """Samples and outputs with every annotation present somewhere, absent somewhere, and every kind of failure."""
    rng = random.Random(seed)
    rows, outs = [], []
    for i in range(n):
        gold: Any = rng.choice(
            [None, [], rng.sample("abcdef", 3), {x: rng.randint(-1, 3) for x in rng.sample("abcdef", 3)}]
        )
        text = [" ".join(rng.choices(WORDS, k=rng.randint(0, 6))) for _ in range(3)]
        rows.append(
            sample(
                gold,
                sample_id=f"q{i}",
                candidates=rng.choice([None, ["a", "x"]]),
                answer=rng.choice([None, text[0]]),
                reference_answers=rng.choice([[], [text[1]]]),
            )
        )
        timings = rng.choice(
            [{}, {"end_to_end": rng.random()}, {"end_to_end": rng.random(), "retrieval": rng.random()}]
        )
        outs.append(
            rng.choice(
                [
                    output(rng.sample("abcdefgh", rng.randint(0, 6)), answer=text[2], timings=timings),
                    output(rng.choices("abcdefgh", k=5), answer=text[2], timings=timings),
                    output(rng.sample("abcdefgh", 4), timings=timings),
                    output(error=rng.choice(["timeout", "raised: ValueError"])),
                    None,
                ]
            )
        )
    annotate(rng, rows, outs)
    annotate_system(random.Random(seed), outs)
    trouble(random.Random(f"trouble {seed}"), rows, outs)
    facts(random.Random(f"facts {seed}"), rows, outs)
    rubrics(random.Random(f"rubrics {seed}"), rows)
    usage(random.Random(f"usage {seed}"), outs)
    attacks = random.Random(f"attacks {seed}")
    for row in rows:
        row.metadata |= attacks.choice(PAYLOADS)
    for row, out in zip(rows[::2], outs[::2], strict=True):  # every other pair is made of chunks
        returned = [] if out is None else [item.doc for item in out.retrieved]
        for document in [*(row.relevant_docs or []), *returned]:
            start = 10 * "abcdefgh".index(document.doc_id)
            document.parent_id, document.span = "whole", (start, start + 15)
    return rows, outs


def usage(rng: random.Random, outs: list[SystemOutputs | None]) -> None:
    """Tokens of one model or of several, and the time of the first token, in some outputs."""
    for out in outs:
        if out is None or out.error is not None:
            continue
        tokens = {"prompt_tokens": rng.randint(0, 900), "completion_tokens": rng.randint(0, 90)}
        out.usage = rng.choice(
            [{}, tokens, {**tokens, "model": "large"}, {"by_model": {"large": tokens}}, {"prompt_tokens": -1}]
        )
        if rng.random() < 0.5:
            out.timings["first_token"] = rng.random()


def annotate(rng: random.Random, rows: list[EvaluationSample], outs: list[SystemOutputs | None]) -> None:
    """Structured answers, citations, expectations, refusals, variants and texts of documents, in some samples."""
    for number, (row, out) in enumerate(zip(rows, outs, strict=True)):
        row.labels |= rng.choice([{}, {"label": "cats"}, {"label": 1, "kind": True}])
        row.labels |= rng.choice(MARKS)
        if number % 4:
            base = rng.choice([f"q{number - number % 4}", f"q{number - number % 4}", "nobody", row.sample_id])
            scenario = rng.choice(["typo", "paraphrase", "counterfactual"])
            row.labels |= {"variant_of": base, "scenario": row.labels.get("scenario", scenario)}
        row.metadata |= rng.choice(SCHEMAS) | rng.choice(EXPECTATIONS)
        if row.reference_answer is not None:
            row.reference_answer.structured = rng.choice(
                [None, {}, {"label": "Cats", "n": 1}, {"slots": [["sat"], ["mat"]]}]
            )
        returned = [] if out is None else [item.doc for item in out.retrieved]
        for document in [*(row.relevant_docs or []), *returned]:
            document.text = " ".join(rng.choices(WORDS, k=rng.choice([0, 5])))
        if out is not None and out.error is None:
            out.citations = rng.choice([None, [], ["a"], ["a", "x", "a"], rng.sample("abcdefgh", 3)])
            out.refused = rng.choice([None, False, True])
            if out.response is not None:
                if rng.random() < 0.3:
                    out.response.text = rng.choice(REFUSALS)
                out.response.structured = rng.choice([None, {}, {"label": "CATS"}, {"label": " cats", "n": 1}])
                out.response.sentences = rng.choice([None, [], [{"text": "s", "citations": ["a", "b"]}]])


def annotate_system(rng: random.Random, outs: list[SystemOutputs | None]) -> None:
    """Vectors of documents, moments at which requests began, and some timings and vectors that are none."""
    for out in outs:
        if out is None:
            continue
        size, odd = rng.choice([2, 3, 9]), rng.choice([None, None, None, None, [0.0, 0.0, 0.0], [1.0], ["x"], "none"])
        for item in out.retrieved:
            item.doc.metadata["embedding"] = [rng.gauss(0, 1) for _ in range(size)]
        if out.retrieved and odd is not None:
            rng.choice(out.retrieved).doc.metadata["embedding"] = None if odd == "none" else odd
        if out.timings and rng.random() < 0.8:
            out.timings["started"] = rng.choice([rng.uniform(1e9, 1e9 + 5), rng.uniform(1e9, 1e9 + 5), math.nan])
        if "retrieval" in out.timings and rng.random() < 0.3:
            out.timings["retrieval"] = rng.choice([0.0, -1.0, math.nan])


def trouble(rng: random.Random, rows: list[EvaluationSample], outs: list[SystemOutputs | None]) -> None:
    """Noise among the documents of some samples, and false ones; some answers say so, and some are right."""
    for row, out in zip(rows, outs, strict=True):
        row.labels |= rng.choice(NOISE)
        if "variant_of" in row.labels or rng.random() < 0.3:
            row.metadata |= rng.choice(FALSE)
        if out is not None and out.response is not None:
            out.response.text += rng.choice([*ENDINGS, *row.references])


def facts(rng: random.Random, rows: list[EvaluationSample], outs: list[SystemOutputs | None]) -> None:
    """Nuggets of some samples, and marks in some answers."""
    for row, out in zip(rows, outs, strict=True):
        row.metadata |= rng.choice(NUGGETS)
        if out is not None and out.response is not None:
            out.response.text += rng.choice(MARKED)


def rubrics(rng: random.Random, rows: list[EvaluationSample]) -> None:
    """Rubrics of some samples, valid or not."""
    for row in rows:
        row.labels |= rng.choice(RUBRICS)


MODEL_OPTIONS = {"model", "model_type"}


def built(spec: Spec) -> BatchMetric:
    with use_resources(RESOURCES):
        made = metric(spec)
    assert isinstance(made, BatchMetric)
    return made


def asks_a_model(spec: Spec) -> bool:
    """Whether the numbers come from a model: what it computes for a text depends in the last digits on its batch."""
    return isinstance(spec, dict) and bool(MODEL_OPTIONS & set(next(iter(spec.values()))))


def about(scores: Any) -> list[Any]:
    return [score if score is None else pytest.approx(score, abs=1e-5) for score in scores]
