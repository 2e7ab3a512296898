"""Parsing of metrics after ``-m``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.cli.options import alias_notes, parse_spec, parse_specs
from auepora_eval.core.conventions import Conventions
from auepora_eval.core.registry import Spec, metric
from auepora_eval.errors import BadValueError

Run = Callable[..., tuple[int, str, str]]

ROWS: list[tuple[str, Spec, str]] = [  # text, spec, why
    ("recall@5", "recall@5", "a name stays a name"),
    ("nDCG@10", "nDCG@10", "the registry translates"),
    ("ndcg@10:gain_scheme=linear,as=lin", {"ndcg@10": {"gain_scheme": "linear", "as": "lin"}}, "text values"),
    ("mrr: min_relevance = 2 , as = strict", {"mrr": {"min_relevance": 2, "as": "strict"}}, "blanks do not matter"),
    ("mrr:depth=null,as=null", {"mrr": {"depth": None, "as": "null"}}, "JSON where it is JSON, but a name is text"),
    ("mrr:k_values=[1,5],as=x", {"mrr": {"k_values": [1, 5], "as": "x"}}, "a value may hold commas"),
    ('mrr:as="a"', {"mrr": {"as": '"a"'}}, "a name is taken as it stands"),
    ("rbp:p=0.5", {"rbp": {"p": 0.5}}, "a number"),
    ("rbp:p=NaN", {"rbp": {"p": "NaN"}}, "NaN is not JSON"),
    ("mean_latency[a:b]", "mean_latency[a:b]", "a colon in a key starts no options"),
    ("mean_latency[a:b]:as=x", {"mean_latency[a:b]": {"as": "x"}}, "one after the key does"),
    ("AP(rel=2)@100:as=x", {"AP(rel=2)@100": {"as": "x"}}, "options after a foreign name"),
    ("my_metrics:Mine", "my_metrics:Mine", "an import path"),
    ("my_app.metrics:Mine@5:k=1", {"my_app.metrics:Mine@5": {"k": 1}}, "options after an import path"),
    ('{"map": {"k": 10}}', {"map": {"k": 10}}, "a JSON object"),
    ('{"map": null}', {"map": None}, "a JSON object without options"),
]


@pytest.mark.parametrize(("text", "want", "why"), ROWS, ids=[row[-1] for row in ROWS])
def test_specs(text: str, want: Spec, why: str) -> None:
    assert parse_spec(text) == want, why


@pytest.mark.parametrize("text", ["ndcg@10:gain_scheme=linear,as=lin", '{"ndcg@10": {"gain_scheme": "linear"}}'])
def test_registry_builds_specs(text: str) -> None:
    assert metric(parse_spec(text)).gain_scheme == "linear"  # type: ignore[attr-defined]


BAD = [  # text, part of the message
    ("mrr:", "cannot read the options of 'mrr:'"),
    ("mrr@5:depth", "write name:option=value,option=value"),
    ("mrr:=1", "cannot read the options"),
    ("mrr:depth=", "cannot read the options"),
    ("mrr:depth=1,depth=2", "names 'depth' twice"),
    ('{"mrr"', "not valid JSON"),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=[row[0] for row in BAD])
def test_bad_specs(text: str, message: str) -> None:
    with pytest.raises(BadValueError) as caught:
        parse_spec(text)
    assert message in str(caught.value)


def test_duplicate_spec_is_one_metric() -> None:
    assert parse_specs(["mrr", "map", " mrr", "mrr:as=x", "mrr:as=x"]) == ["mrr", "map", {"mrr": {"as": "x"}}]


BY_OTHER_RULES = "the conventions are 'auepora'; --conventions trec computes as trec_eval does"
TRANSLATIONS: list[tuple[Any, str, list[str]]] = [  # spec, conventions, notes
    ("ndcg@10", "auepora", []),
    ("nope", "auepora", []),
    ({}, "auepora", []),
    ("nDCG@10", "trec", ["nDCG@10 is called ndcg@10 here"]),
    ("nDCG@10", "auepora", ["nDCG@10 is called ndcg@10 here", BY_OTHER_RULES]),
    ("RR", "auepora", ["RR is called mrr here"]),
    ("AP(rel=2)", "trec", ["AP(rel=2) is called map:min_relevance=2 here"]),
    ({"ndcg_cut_10": {"as": "x"}}, "trec", ["ndcg_cut_10 is called ndcg@10 here"]),
    ("Accuracy@5", "trec", []),  # ir_measures' is another measure
]


@pytest.mark.parametrize(("spec", "rules", "notes"), TRANSLATIONS, ids=[str(row[:2]) for row in TRANSLATIONS])
def test_names_of_other_tools_get_a_note(spec: Spec, rules: str, notes: list[str]) -> None:
    assert alias_notes([spec], Conventions.of(rules)) == notes


def test_on_the_command_line(files: Path, run: Run) -> None:
    specs = ["ndcg@10", "ndcg@10", "ndcg@10:gain_scheme=linear,as=lin", '{"map": {"as": "m"}}', "P@5"]
    code, out, err = run("score", "data.jsonl", "out.jsonl", "--json", *(part for s in specs for part in ("-m", s)))
    assert code == 0
    assert [result["name"] for result in json.loads(out)["results"]] == ["ndcg@10", "lin", "m", "precision@5"]
    assert "P@5 is called precision@5 here\n" in err


@pytest.mark.parametrize(
    ("text", "spec", "note"),
    [
        ("faithfulness", "claim_faithfulness", "faithfulness of ragas is computed as claim_faithfulness"),
        ("FaithfulnessMetric", "claim_faithfulness", "of deepeval is computed as claim_faithfulness, the closest here"),
        ("AnswerRelevancyMetric", "llm_answer_relevance", "of deepeval"),
        ("id_based_context_recall@3", "recall@3", "no cut-off there"),
        ("context_utilization", {"judged_context_precision": {"against": "answer"}}, "of ragas"),
        ("string_present:norm=squad", {"containment": {"norm": "squad"}}, "of ragas"),
    ],
)
def test_names_of_other_tools_become_the_closest_metric(
    text: str, spec: object, note: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert parse_specs([text]) == [spec]
    assert note in capsys.readouterr().err


@pytest.mark.parametrize("text", ["exact_match", "answer_relevance", "nDCG@10", "answer_relevancy", "GEval", "recal@5"])
def test_own_names_and_ambiguous_ones_stay(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert parse_specs([text]) == [text]
    assert capsys.readouterr().err == ""
