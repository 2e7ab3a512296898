"""Conventions and signatures: presets, values, round trips, mismatches."""

import pickle

import pytest

from auepora_eval import BatchMetric, Conventions, metric
from auepora_eval.core.conventions import PRESETS, Signature
from auepora_eval.errors import BadValueError, SignatureMismatchError, UnknownConventionError

SIGNATURES = [  # spec, conventions, signature
    ("recall@5", "auepora", "recall@5|empty:skip|v1"),
    ("precision@5", "trec", "precision@5|p:k|empty:judged|missing:skip|v1"),
    ("map@10", "paper", "map@10|ap:capped|empty:zero|v1"),
    ("map", "auepora", "map|ap:hits|empty:skip|v1"),
    ("mrr", "golden", "mrr|cut:10|empty:skip|v1"),
    ("mrr@5", "golden", "mrr@5|empty:skip|v1"),
    ("ndcg@10", "trec", "ndcg@10|gain:linear|empty:judged|missing:skip|v1"),
    ("aqwv@10", "client", "aqwv@10|beta:40|fa:returned|form:query|v1"),
    ("rougeL_answer", "auepora", "rougeL_answer|tok:rouge_score|stem:porter|v1"),
    ("mean_latency[retrieval]", "auepora", "mean_latency[retrieval]|v1"),
]


@pytest.mark.parametrize(("spec", "conventions", "want"), SIGNATURES, ids=[f"{s}-{c}" for s, c, _ in SIGNATURES])
def test_signature(spec: str, conventions: str, want: str) -> None:
    built = metric(spec, conventions=conventions)
    assert isinstance(built, BatchMetric)
    assert str(built.signature) == want
    assert Signature.parse(want) == built.signature


def test_every_non_default_convention_is_in_the_signature() -> None:
    built = metric("map@10", min_relevance=2, depth=5, on_system_failure="exclude", missing="zero")
    assert isinstance(built, BatchMetric)
    assert str(built.signature) == "map@10|ap:hits|empty:skip|rel:2|depth:5|missing:zero|failed:exclude|v1"


def test_an_alias_changes_the_name_and_not_the_signature() -> None:
    built = metric({"map@10": {"conventions": "trec", "as": "map_trec"}})
    assert isinstance(built, BatchMetric)
    assert built.name == "map_trec"
    assert built.signature.name == "map@10"


def test_different_signatures_are_not_compared() -> None:
    first = Signature.parse("map@10|ap:hits|empty:skip|v1")
    first.require_same(Signature("map@10", {"ap": "hits", "empty": "skip"}))
    with pytest.raises(SignatureMismatchError, match="in: ap, rel, version") as caught:
        first.require_same(Signature.parse("map@10|ap:gold|empty:skip|rel:2|v2"))
    assert caught.value.fields == ("ap", "rel", "version")


@pytest.mark.parametrize("text", ["", "map", "map|ap:hits", "map|nonsense|v1", "|v1"])
def test_invalid_signatures(text: str) -> None:
    with pytest.raises(BadValueError, match="is not a signature"):
        Signature.parse(text)


def test_signatures_are_pickled() -> None:
    signature = Signature("map", {"ap": "gold"}, 3)
    assert pickle.loads(pickle.dumps(signature)) == signature
    assert str(signature.with_options(depth="5")) == "map|ap:gold|depth:5|v3"


def test_presets_are_the_contract() -> None:
    rows = {n: (c.ap, c.precision, c.empty_gold, c.gain, c.k_values, c.missing) for n, c in PRESETS.items()}
    assert rows == {
        "auepora": ("hits", "returned", "skip", "binary", (), "fail"),
        "paper": ("capped", "returned", "zero", "binary", (3, 5, 10), "fail"),
        "paper-positives": ("capped", "returned", "skip", "binary", (3, 5, 10), "fail"),
        "golden": ("gold", "k", "skip", "binary", (1, 3, 5, 10), "fail"),
        "client": ("gold", "k", "skip", "binary", (1, 3, 5, 10, 20), "fail"),
        "trec": ("gold", "k", "judged", "linear", (), "skip"),
    }


def test_a_preset_with_changes() -> None:
    changed = Conventions.of("trec", min_relevance=2)
    assert changed.changes() == {"min_relevance": 2}
    assert Conventions.of(changed) is changed
    assert Conventions.of() is PRESETS["auepora"]


def test_unknown_conventions_are_named() -> None:
    with pytest.raises(UnknownConventionError, match="unknown conventions 'trek'; choose one of: auepora, paper"):
        Conventions.of("trek")
    with pytest.raises(UnknownConventionError, match="'ap': 'median'; choose one of: hits, capped, gold"):
        Conventions.of(ap="median")
    with pytest.raises(UnknownConventionError, match="unknown convention 'gains'"):
        Conventions.of(gains="linear")


@pytest.mark.parametrize(
    "choice", [{"depth": 0}, {"depth": 1.5}, {"mrr_cut": -1}, {"min_relevance": "2"}, {"k_values": (0,)}]
)
def test_invalid_numbers(choice: dict[str, object]) -> None:
    with pytest.raises(BadValueError, match=next(iter(choice))):
        Conventions.of(**choice)
