"""Metrics that are no proportions have their unit in the label of tables."""

import pytest

from auepora_eval import Response, SystemOutputs, evaluate
from auepora_eval.core.registry import Spec
from auepora_eval.core.results import display_name
from auepora_eval.core.types import Document, EvaluationSample, RetrievedDocument

PRICES = {"small": {"prompt": 1, "completion": 2}}
UNITS: list[tuple[Spec, str, str]] = [  # spec, label, why
    ("mean_latency[end_to_end]", "mean_latency[end_to_end] (s)", "a time"),
    ("time_to_first_token", "time_to_first_token (s)", "a time without a key"),
    ("prompt_tokens", "prompt_tokens (per answer)", "tokens that are read"),
    ("completion_tokens", "completion_tokens (per answer)", "tokens that are written"),
    ("context_tokens", "context_tokens (per answer)", "tokens of documents"),
    ({"total_cost": {"prices": PRICES}}, "total_cost (per answer)", "a cost"),
    ({"total_cost": {"prices": PRICES, "as": "spent"}}, "spent (per answer)", "another name"),
    ("response_length", "response_length (words)", "a unit that is an option"),
    ({"response_length": {"unit": "characters"}}, "response_length (characters)", "the other value of the option"),
    ("token_f1", "token_f1", "a proportion has no unit"),
]


@pytest.mark.parametrize(("spec", "label", "why"), UNITS, ids=[row[2] for row in UNITS])
def test_label(spec: Spec, label: str, why: str) -> None:
    sample = EvaluationSample(sample_id="1", query="Who?", reference_answer=Response("Ada"))
    output = SystemOutputs(
        [RetrievedDocument(Document("d", "Ada wrote it"), 1.0, 1)],
        Response("Ada"),
        timings={"end_to_end": 0.5, "first_token": 0.1},
        usage={"model": "small", "prompt_tokens": 5, "completion_tokens": 2},
    )
    (result,) = evaluate([sample], [output], [spec])
    assert display_name(result) == label
