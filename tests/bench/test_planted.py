"""Planted answers with the value that each published function gives them."""

import json
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, evaluate, metric
from auepora_eval.bench.entries import get_benchmark
from auepora_eval.core.registry import Spec, spec_of, use_resources
from auepora_eval.errors import BadValueError, UnknownConventionError
from auepora_eval.judge.cache import RecordedCritic
from helpers.tiny_models import made

PLANTED = Path(__file__).parent / "planted"
ENGLISH = [json.loads(line) for line in (PLANTED / "en.jsonl").read_text().splitlines()]
CLOSED = {"closed": ["yes", "no", "noanswer"], "both_empty": 0}


def planted(name: str) -> Any:
    return json.loads((PLANTED / name).read_text())


def scores_of(rows: list[Any], spec: Spec) -> list[float | None]:
    samples = []
    for place, row in enumerate(rows):
        structured = {key: row[key] for key in ("slots", "alternatives") if key in row}
        references = row.get("references", ["x"])
        reference = Response(references[0], structured=structured or None)
        samples.append(EvaluationSample(str(place), "q", reference_answer=reference, reference_answers=references))
    (result,) = evaluate(samples, [SystemOutputs([], Response(row["answer"])) for row in rows], [spec])
    return list(result.scores or ())


@pytest.mark.parametrize(
    ("name", "spec", "apart"),
    [
        ("hotpot_em", "exact_match", ["tea"]),  # the script knows one reference
        ("hotpot_f1", {"token_f1": CLOSED}, ["tea"]),
        ("musique_em", "exact_match", []),
        ("musique_f1", "token_f1", []),
        ("triviaqa_em", {"exact_match": {"norm": "trivia"}}, []),
        ("triviaqa_f1", {"token_f1": {"norm": "trivia", "both_empty": 0}}, []),
        ("bergen_M", "containment", ["the", "..."]),  # references that normalise to nothing
        ("bergen_EM", "exact_match", []),
        ("bergen_F1", {"token_f1": {"both_empty": 0}}, []),
        ("bergen_Precision", {"token_precision": {"both_empty": 0}}, []),
        ("bergen_Recall", {"token_recall": {"both_empty": 0}}, []),
        ("bergen_Recall_char3gram", {"token_recall": {"tokenizer": "char3", "both_empty": 0}}, []),
        ("bergen_Rouge-1", {"rouge1_answer": {"flavour": "rouge_package"}}, []),
        ("bergen_Rouge-2", {"rouge2_answer": {"flavour": "rouge_package"}}, []),
        ("bergen_Rouge-L", {"rougeL_answer": {"flavour": "rouge_package"}}, []),
        ("popqa", {"containment": {"norm": "popqa"}}, []),
        ("mtrag_recall", {"token_recall": {"both_empty": 0}}, ["tea"]),
    ],
)
def test_answers(name: str, spec: Spec, apart: list[str]) -> None:
    scores = scores_of(ENGLISH, spec)
    different = [
        row["answer"]
        for row, score in zip(ENGLISH, scores, strict=True)
        if score is None or abs(score - float(row["published"][name])) > 1e-6
    ]
    assert different == apart


def test_letters_of_mirage() -> None:
    rows = [{"answer": row["text"], "references": [row["letter"]]} for row in planted("mirage_choice.json")]
    assert scores_of(rows, {"choice_accuracy": {"read": "mirage", "fallback": "A"}}) == [1.0] * len(rows)


@pytest.mark.parametrize(
    ("answer", "letter", "why"),
    [
        ("(B) no", "B", "in brackets"),
        ("(b)", "B", "a small letter in brackets"),
        ("The answer is C, not A.", "C", "after the word answer"),
        ("D. because", "D", "at the start"),
        ('{"answer_choice": "C"}', "C", "in an object"),
        ("Heart", "B", "the text of an option"),
        ("A cat did it", None, "an article"),
        ("I am not sure.", None, "no letter"),
    ],
)
def test_letters(answer: str, letter: str | None, why: str) -> None:
    options = {"A": "Liver", "B": "Heart", "C": "Skin", "D": "Ear"}
    sample = EvaluationSample("1", "q", reference_answer=Response(letter or "A"), metadata={"options": options})
    (result,) = evaluate([sample], [SystemOutputs([], Response(answer))], ["choice_accuracy"])
    assert result.value == float(letter is not None), why


def test_citations_and_slots_of_alce() -> None:
    file = planted("alce_str_em.json")
    edits = ["strip", "first_line", "remove_citations"]
    for name, slots in (("str_em", "mean"), ("str_hit", "all")):
        scores = scores_of(file["rows"], {"edited_answer": {"base": {"containment": {"slots": slots}}, "edits": edits}})
        assert scores == [row[name] for row in file["rows"]]


def test_alternatives_of_domainrag() -> None:
    rows = planted("domainrag_slots.json")
    for name, kind in (("exact_match", "containment"), ("exact_match_strict", "exact_match")):
        assert scores_of(rows, {kind: {"norm": "none", "slots": "mean"}}) == [row[name] for row in rows]


def test_rules_of_crag() -> None:
    file = planted("crag.json")
    # The base metric stands for the judge: it is asked about the row where the judge says yes to another spelling.
    scores = scores_of(file["rows"], "truthfulness")
    asked = [row for row in file["rows"] if row["judge"] and row["value"] == 1]
    differing = [row for row, score in zip(file["rows"], scores, strict=True) if score != row["value"]]
    assert differing == asked


CONTAINS = {"match": "contains", "text_norm": "no_blanks"}


def rankings(rows: list[Any]) -> tuple[list[EvaluationSample], list[SystemOutputs]]:
    samples, outputs = [], []
    for place, row in enumerate(rows):
        gold = [Document(f"g{number}", text) for number, text in enumerate(row["facts"])]
        chunks = [
            RetrievedDocument(Document(f"c{rank}", text), None, rank) for rank, text in enumerate(row["chunks"], 1)
        ]
        samples.append(EvaluationSample(str(place), "q", relevant_docs=gold))
        outputs.append(SystemOutputs(chunks))
    return samples, outputs


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("Hits@10", {"hit_rate@10": CONTAINS}),
        ("Hits@4", {"hit_rate@4": CONTAINS}),
        ("MRR@10", {"mrr@10": CONTAINS}),
        ("MAP@10", {"map@10": {**CONTAINS, "ap": "new_gold"}}),
    ],
)
def test_facts_inside_chunks(name: str, spec: Spec) -> None:
    rows = planted("multihop_retrieval.json")
    (result,) = evaluate(*rankings(rows), [spec])
    assert list(result.scores or ()) == [row["published"][name] for row in rows]
    again = metric(spec_of(metric(spec)))
    assert str(again.signature) == result.signature  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("chunks", "facts", "value"),
    [
        (["Rain fell. The dam held.", "Nothing.", "The dam held until noon."], ["The dam held.", "until noon"], (1 + 2 / 3) / 2),
        (["a", "b", "c", "The ferry left at 9."], ["ferry left at 9", "The bridge closed"], 0.125),
        (["The bridge\nclosed and the ferry left at 9."], ["The bridge closed", "ferry left at 9"], 1.0),
        ([], ["x"], 0.0),
    ],
)  # fmt: skip
def test_average_precision_of_contained_texts(chunks: list[str], facts: list[str], value: float) -> None:
    spec: Spec = {"map@10": {**CONTAINS, "conventions": "paper"}}
    (result,) = evaluate(*rankings([{"chunks": chunks, "facts": facts}]), [spec])
    assert result.value == pytest.approx(value)


def test_containment_is_no_way_of_other_metrics() -> None:
    with pytest.raises(UnknownConventionError, match="contains"):
        metric({"ndcg@10": {"match": "contains"}})
    samples, outputs = rankings([{"chunks": ["a"], "facts": [""]}])
    with pytest.raises(BadValueError, match="the gold document 'g0' has no text"):
        evaluate(samples, outputs, [{"hit_rate@1": CONTAINS}])


def test_gain_without_discount() -> None:
    gold = [Document(name, metadata={"relevance": level}) for name, level in (("e1", 20), ("e2", 60), ("e3", 0))]
    ranking = [RetrievedDocument(Document(name), None, rank) for rank, name in enumerate(("e1", "e2"), 1)]
    sample = EvaluationSample("1", "q", relevant_docs=gold)
    specs: list[Spec] = [{f"ndcg@{k}": {"discount": "none", "gain_scheme": "linear"}} for k in (1, 5)]
    first, fifth = evaluate([sample], [SystemOutputs(ranking)], specs)
    assert [first.value, fifth.value] == pytest.approx([20 / 60, 1.0])


def test_labels_of_rgb() -> None:
    file = planted("rgb.json")
    samples, outputs = [], []
    for place, row in enumerate(file["rows"]):
        gold = row["gold"] if isinstance(row["gold"], list) else [row["gold"]]
        slots = [[slot] if isinstance(slot, str) else slot for slot in gold]
        reference = Response("x", structured={"slots": slots})
        samples.append(
            EvaluationSample(
                str(place), "q", reference_answer=reference, labels={"noise_ratio": 0.4}, metadata={"wrong_answer": "w"}
            )
        )
        outputs.append(SystemOutputs([], Response(row["answer"])))
    script: dict[str, Any] = {"base": {"containment": {"norm": "lower"}}, "insufficient": "rgb_script"}
    specs: list[Spec] = [
        {"context_noise_accuracy": script},
        {"error_detection_rate": {"match_case": True}},
        {"error_correction_rate": {**script, "match_case": True}},
    ]
    results = evaluate(samples, outputs, specs)
    expected = file["noise 0.4"]
    names = ("all_rate", "fact_check_rate", "correct_rate")
    assert [result.value for result in results] == pytest.approx([expected[name] for name in names])


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ({"composite": {"of": ["exact_match", "token_f1"], "weights": [0.6, 0.2]}}, 0.2 * 0.8),
        ({"composite": {"of": ["token_precision", "token_recall"], "mean": "harmonic"}}, 0.8),
        ({"composite": {"of": ["token_precision", "exact_match"], "mean": "harmonic"}}, 0.0),
        ({"composite": {"of": ["token_precision", "token_recall"], "mean": "product"}}, 2 / 3),
        ({"composite": {"of": ["token_precision", "token_recall"], "mean": "min"}}, 2 / 3),
        ({"composite": {"of": ["token_precision", "token_recall"], "mean": "max"}}, 1.0),
    ],
)
def test_composites(spec: Spec, value: float) -> None:
    rows = [{"answer": "green tea", "references": ["green green tea"]}]
    assert scores_of(rows, spec) == [pytest.approx(value)]


def test_nuggets_of_trec() -> None:
    file = planted("nuggets.json")
    words = {"support": "full", "partial_support": "partial", "not_support": "none"}
    samples, verdicts = [], {}
    for topic in file["topics"]:
        nuggets = [
            {"text": f"fact {place} of {topic['qid']}", **nugget} for place, nugget in enumerate(topic["nuggets"])
        ]
        samples.append(EvaluationSample(topic["qid"], "q", metadata={"nuggets": nuggets}))
        given = [words[nugget["assignment"]] for nugget in nuggets]
        numbered = [{"number": number, "verdict": verdict} for number, verdict in enumerate(given, 1)]
        verdicts[topic["qid"]] = {"verdicts": numbered}
    variants = {
        "strict_vital_score": "vital_strict",
        "strict_all_score": "all_strict",
        "vital_score": "vital",
        "all_score": "all",
    }
    specs: list[Spec] = [
        {"nugget_recall": {"variant": variant, "no_vital": "zero", "critic": {"use": "judge"}, "as": name}}
        for name, variant in variants.items()
    ]
    with use_resources({"judge": RecordedCritic(verdicts)}):
        results = evaluate(samples, [SystemOutputs([], Response("an answer")) for _ in samples], specs)
    assert {result.name: result.value for result in results} == {
        name: pytest.approx(file["total"][name], abs=1e-12) for name in variants
    }


def graded(**grades: int) -> tuple[list[Any], dict[str, Any]]:
    """Metrics with a fixed score each, in tenths, and the judges that give them."""
    specs = [
        {"judge_metric": {"name": name, "scale": "0-10", "inputs": ["answer"], "prompt": name, "critic": {"use": name}}}
        for name in grades
    ]
    return specs, {name: RecordedCritic({"0": grade}) for name, grade in grades.items()}


@pytest.mark.parametrize(
    ("grades", "value"),
    [
        ({"recall": 8, "rouge": 5, "extractiveness": 6}, 0.6101694915),
        ({"recall": 8, "rouge": 0, "extractiveness": 6}, 0.0),
    ],
)
def test_rb_agg_of_mtrag(grades: dict[str, int], value: float) -> None:
    specs, judges = graded(**grades)
    with use_resources(judges):
        scores = scores_of([{"answer": "x"}], {"composite": {"of": specs, "mean": "harmonic"}})
    assert scores == [pytest.approx(value, abs=1e-10)]


@pytest.mark.part("models")
def test_parts_of_rb_agg_of_mtrag() -> None:
    model = {"model_type": made("bert"), "num_layers": 2}
    spec = json.loads(json.dumps(get_benchmark("mtrag").part("models").metrics["RB_agg"].metric))
    recall, rouge, precision = spec["composite"]["of"]
    recall["bertscore"] |= model
    precision["edited_answer"]["base"]["bertscore"] |= model
    sample = EvaluationSample("1", "q", reference_answer=Response("the cat sat on a mat"))
    passages = ["a dog", "the cat is on the mat", "mats"]
    chunks = [RetrievedDocument(Document(text, text), None, rank) for rank, text in enumerate(passages, 1)]
    output = SystemOutputs(chunks, Response("a cat sat"))
    by_hand: list[Spec] = [{"bertscore": {**model, "score_type": "recall", "as": "recall"}}, rouge]
    plain = [result.value for result in evaluate([sample], [output], by_hand)]
    extracted = []
    for passage in passages:
        gold = EvaluationSample("1", "q", reference_answer=Response(passage))
        (result,) = evaluate([gold], [output], [{"bertscore": {**model, "score_type": "precision"}}])
        extracted.append(result.value)
    parts = [(plain[0] + 1) / 2, plain[1], (max(extracted) + 1) / 2]
    (result,) = evaluate([sample], [output], [spec])
    assert result.value == pytest.approx(3 / sum(1 / part for part in parts), abs=1e-6)
    (result,) = evaluate([sample], [SystemOutputs([], Response("a cat sat"))], [spec])
    assert result.details.num_samples == 0, "there is no passage"


@pytest.mark.parametrize(
    ("answerable", "score", "refused", "value"),
    [
        (True, 9, 0, 0.9),
        (True, 9, 10, 0.0),
        (True, 9, 5, 0.9),  # a partial refusal is none
        (False, 2, 10, 1.0),
        (False, 2, 0, 0.0),
        (False, 2, 5, 0.0),
    ],
)
def test_conditioned_scores_of_mtrag(answerable: bool, score: int, refused: int, value: float) -> None:
    specs, judges = graded(base=score, refusal=refused)
    sample = EvaluationSample("0", "q", labels={"answerable": answerable})
    spec: Spec = {"conditioned": {"base": specs[0], "refusal": specs[1]}}
    with use_resources(judges):
        (result,) = evaluate([sample], [SystemOutputs([], Response("x"))], [spec])
    assert result.value == pytest.approx(value)
