"""Exact match, token F1, containment, relevance: hand-made fractions, SQuAD's and EVOUNA's own figures."""

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from auepora_eval import EvaluationSample, MetricResult, Response, SystemOutputs, evaluate
from auepora_eval.metrics.answer_match import Containment
from auepora_eval.text.scripts import is_unspaced
from helpers.requirements import need_data
from helpers.squad_script import squad_exact, squad_f1
from helpers.texts import TEXT


def scored(references: list[str], answer: str | None, spec: Any, **fields: Any) -> MetricResult:
    response = None if answer is None else Response(answer)
    sample = EvaluationSample(
        "1",
        fields.pop("query", "why?"),
        reference_answers=references,
        **{"labels": {"answerable": bool("".join(references).strip())}, **fields},
    )
    if not references and sample.reference_answer is None:  # keeps the dataset valid while the sample has none
        other = EvaluationSample("2", "", reference_answer=Response("x"))
        (result,) = evaluate([sample, other], [SystemOutputs([], response), SystemOutputs([], Response("x"))], [spec])
        return result
    (result,) = evaluate([sample], [SystemOutputs([], response)], [spec])
    return result


ROWS = [  # references, answer, exact match, token F1, why
    (["The Eiffel Tower"], "eiffel tower!", 1, 1, "case, punctuation and articles are ignored"),
    (["paris"], "it is paris", 0, 1 / 2, "one of three words given, all of one wanted"),
    (["paris france"], "paris", 0, 2 / 3, "all of one given, one of two wanted"),
    (["a b c"], "c b a", 0, 1, "order counts for the match; a is an article"),
    (["x x y"], "x x x", 0, 2 / 3, "a repeat counts as often as in the text that has it less often"),
    (["rome", "Paris"], "paris", 1, 1, "the best reference counts"),
    ([""], "", 1, 1, "no answer was wanted and none was given"),
    (["the"], ".", 1, 1, "both normalise to nothing"),
    ([""], "paris", 0, 0, "no answer was wanted"),
    (["paris"], "", 0, 0, "no answer was given"),
    (["paris", "."], "the", 0, 0, "a reference without words is left out while another remains"),
    (["...", "the"], "", 1, 1, "unless there is no other"),
    (["日本"], "日本", 1, 1, "another script"),
    (["the—cat"], "—cat", 1, 1, "an article ends at a dash, which is no ASCII punctuation"),
    (["nai\u0308ve"], "naïve", 1, 1, "accents are equal however they are encoded"),
    (["cafe\u0301"], "cafe", 0, 0, "and a letter without its accent is another letter"),
    (["a\u200bb"], "ab", 0, 0, "a zero-width space is a character"),
    (["\ud800"], "\ud800", 1, 1, "a lone surrogate equals itself"),
]


@pytest.mark.parametrize(("references", "answer", "match", "f1"), [r[:4] for r in ROWS], ids=[r[4] for r in ROWS])
def test_by_hand(references: list[str], answer: str, match: float, f1: float) -> None:
    assert scored(references, answer, "exact_match").value == match
    assert scored(references, answer, "token_f1").value == pytest.approx(f1, abs=1e-15)


OPTIONS = [  # options, reference, answer, exact match, why
    ({"ignore_case": False}, "Paris", "paris", 0, "case counts"),
    ({"ignore_case": False}, "The Paris", "Paris", 1, "an article is one in any case"),
    ({"ignore_punctuation": False}, "paris!", "paris", 0, "punctuation counts"),
    ({"ignore_punctuation": False}, "the, paris", ", paris", 1, "an article ends at a comma"),
    ({"ignore_articles": False}, "the paris", "paris", 0, "articles count"),
    (
        {"ignore_case": False, "ignore_punctuation": False, "ignore_articles": False},
        "A. b",
        "A.  b",
        1,
        "only spaces do not",
    ),
]


@pytest.mark.parametrize(
    ("options", "reference", "answer", "want"), [r[:4] for r in OPTIONS], ids=[r[4] for r in OPTIONS]
)
def test_normalisation_options(options: dict[str, bool], reference: str, answer: str, want: float) -> None:
    result = scored([reference], answer, {"exact_match": options})
    assert result.value == want
    assert "norm:squad" not in str(result.signature)


@given(st.lists(TEXT, min_size=1, max_size=3, unique=True), TEXT)
def test_equals_the_script_of_squad(references: list[str], answer: str) -> None:
    assume(not is_unspaced("\n".join(references)))
    references = [unicodedata.normalize("NFC", text) for text in references]
    answer = unicodedata.normalize("NFC", answer)
    assert scored(references, answer, "exact_match").value == squad_exact(references, answer)
    assert scored(references, answer, "token_f1").value == squad_f1(references, answer)


def test_squad_2() -> None:
    folder = need_data("squad2")
    truth = json.loads((folder / "ground_truth.json").read_text(encoding="utf-8"))
    given_ = json.loads((folder / "predictions" / "BERT.json").read_text(encoding="utf-8"))
    samples = [
        EvaluationSample(
            name, "", reference_answers=entry["answers"] or [""], labels={"answerable": any(entry["answers"])}
        )
        for name, entry in truth.items()
    ]
    outputs = [SystemOutputs([], Response(given_[sample.sample_id])) for sample in samples]
    match, f1 = evaluate(samples, outputs, ["exact_match", "token_f1"])
    assert round(100 * match.value, 2) == 79.60
    assert round(100 * f1.value, 2) == 82.75
    assert match.details["interval"]["method"] == "wilson"


CONTAINED: list[tuple[dict[str, Any], str, float | None, str]] = [
    ({"reference_answers": ["Paris"]}, "It is Paris.", 1, "inside a longer answer"),
    ({"reference_answers": ["Paris", "Lutetia"]}, "lutetia", 1, "any spelling"),
    ({"reference_answers": ["cat"]}, "concatenate", 1, "as a stretch of text, not as a word"),
    ({"reference_answers": ["Paris"]}, "Rome", 0, "not there"),
    ({"reference_answers": ["Paris", "the"]}, "Rome", 0, "a spelling that normalises to nothing does not count"),
    ({"reference_answers": ["the"]}, "Rome", None, "nothing to contain"),
    ({"reference_answers": ["Paris"]}, "", 0, "an empty answer contains nothing"),
]
SLOTS: list[tuple[Any, str, float | None, str]] = [
    ([["Paris", "Lutetia"], ["1889"]], "Paris, 1889", 1, "all slots filled"),
    ([["Paris", "Lutetia"], ["1889"]], "Lutetia", 0, "one slot empty"),
    (["Paris", ["1889"]], "1889 in Paris", 1, "a spelling alone is a slot too"),
    ([["Paris"], ["the"]], "Paris", 1, "a slot without words asks for nothing"),
    ([["the"]], "Paris", None, "no slot asks for anything"),
]


@pytest.mark.parametrize(("fields", "answer", "want"), [r[:3] for r in CONTAINED], ids=[r[3] for r in CONTAINED])
def test_containment(fields: dict[str, Any], answer: str, want: float | None) -> None:
    (result,) = evaluate([EvaluationSample("1", "", **fields)], [SystemOutputs([], Response(answer))], ["containment"])
    assert list(result.scores or ()) == [want]


NORMS: list[tuple[str, str, tuple[float, float, float], str]] = [  # reference, answer, squad / lower / none, why
    ("Paris", "in Paris.", (1, 1, 1), "letter by letter"),
    ("paris", "in Paris.", (1, 1, 0), "but for the case"),
    ("Washington D.C.", "Washington DC", (1, 0, 0), "but for punctuation"),
    ("the Old Town", "old town", (1, 0, 0), "but for the article"),
    ("Old  Town", "old town", (1, 0, 0), "but for white space"),
    ("10.5", "105", (1, 0, 0), "punctuation may matter"),
]


@pytest.mark.parametrize(("wanted", "answer", "values"), [r[:3] for r in NORMS], ids=[r[3] for r in NORMS])
def test_normalisation_of_containment(wanted: str, answer: str, values: tuple[float, float, float]) -> None:
    sample, output = EvaluationSample("1", "", reference_answers=[wanted]), SystemOutputs([], Response(answer))
    for norm, value in zip(("squad", "lower", "none"), values, strict=True):
        assert Containment(norm).compute([sample], [output]).value == value  # type: ignore[arg-type]


def test_blank_reference_is_skipped_for_every_normalisation() -> None:
    sample, output = EvaluationSample("1", "", reference_answers=[" "]), SystemOutputs([], Response("a b"))
    for norm in ("squad", "lower", "none"):
        assert list(Containment(norm).compute([sample], [output]).outcomes or ()) == ["skipped:empty_reference"]


@pytest.mark.parametrize(("slots", "answer", "want"), [r[:3] for r in SLOTS], ids=[r[3] for r in SLOTS])
def test_containment_of_several_things(slots: Any, answer: str, want: float | None) -> None:
    sample = EvaluationSample("1", "", reference_answer=Response("", structured={"slots": slots}))
    (result,) = evaluate([sample], [SystemOutputs([], Response(answer))], ["containment"])
    assert list(result.scores or ()) == [want]


@pytest.mark.parametrize("slots", ["Paris", 3, [["Paris", 4]], [None]])
def test_invalid_slots_fail_the_measurement(slots: Any) -> None:
    sample = EvaluationSample("1", "", reference_answer=Response("", structured={"slots": slots}))
    (result,) = evaluate([sample], [SystemOutputs([], Response("Paris"))], ["containment"])
    assert list(result.outcomes or ()) in (["measure_failed:bad_reference"], ["scored"])
    assert slots == "Paris" or result.details["num_measure_failed"] == 1


SYSTEMS = {"fid": 0.897, "gpt35": 0.846, "chatgpt": 0.803, "gpt4": 0.825, "newbing": 0.822}


@pytest.mark.parametrize(("system", "agreement"), SYSTEMS.items())
def test_containment_agrees_with_people(system: str, agreement: float) -> None:
    rows = json.loads(need_data("evouna", "NQ.json").read_text(encoding="utf-8"))
    rows = [row for row in rows if row[f"judge_{system}"] is not None and not row["improper"]]
    samples = [
        EvaluationSample(str(n), row["question"], reference_answers=row["golden_answer"].split("/"))
        for n, row in enumerate(rows)
    ]
    (result,) = evaluate(
        samples, [SystemOutputs([], Response(row[f"answer_{system}"])) for row in rows], ["containment"]
    )
    same = [score == row[f"judge_{system}"] for score, row in zip(result.scores or (), rows, strict=True)]
    assert sum(same) / len(same) == pytest.approx(agreement, abs=0.002)


def test_relevance_to_the_query() -> None:
    result = scored(["x"], "The Eiffel Tower is tall", "answer_relevance", query="How tall is the Eiffel Tower?")
    assert result.value == pytest.approx(2 * 1 * (4 / 5) / (1 + 4 / 5))  # without articles 4 of 4 and 4 of 5 words
    assert list(scored(["x"], "yes", "answer_relevance", query="?").outcomes or ()) == ["skipped:empty_query"]


def test_skips() -> None:
    for name in ("exact_match", "token_f1", "containment"):
        assert (scored([], "x", name).outcomes or [""])[0] == "skipped:no_reference"
        assert (scored(["x"], None, name).outcomes or [""])[0] == "skipped:no_response"


def test_plain_string_is_an_answer() -> None:
    sample = EvaluationSample("1", "", reference_answer="Paris", reference_answers="yes")  # type: ignore[arg-type]
    assert sample.references == ["Paris", "yes"]
    late = EvaluationSample("q8", "")
    late.reference_answer = "Paris"  # type: ignore[assignment]
    with pytest.raises(TypeError, match="sample 'q8': 'reference_answer' is a str, not a Response"):
        evaluate([late], [SystemOutputs([], Response("Paris"))], ["token_f1"])


def test_reference_that_is_not_a_string() -> None:
    sample = EvaluationSample("q7", "", reference_answers=["fine", None])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="sample 'q7': a reference answer is None, not a string"):
        evaluate([sample], [SystemOutputs([], Response("fine"))], ["token_f1"])
