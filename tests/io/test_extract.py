"""Parts of columns: texts by regular expressions, what an answer must name together, and questions with their answer."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import evaluate
from auepora_eval.errors import BadValueError
from auepora_eval.io.records import outputs_from_records, samples_from_records

Auepora = Callable[..., tuple[int, str, str]]
QA = {"qa": "问题: 蓝湖哪一年结冰？\n答案: 1901年"}
BOTH = {
    "query": "qa",
    "reference": "qa",
    "extract.query": r"问题[:：]\s*(.*)",
    "extract.reference": r"答案[:：]\s*(.*)",
}


def test_question_and_answer_of_one_column() -> None:
    (sample,) = samples_from_records([QA], BOTH)
    assert (sample.query, sample.references) == ("蓝湖哪一年结冰？", ["1901年"])
    assert sample.metadata == {}


def test_extract_on_the_command_line(tmp_path: Path, auepora: Auepora) -> None:
    data = tmp_path / "qa.json"
    data.write_text(json.dumps([QA | {"given": "1901年"}]))
    columns = ",".join(f"{key}={value}" for key, value in BOTH.items())
    code, out, _ = auepora("score", str(data), "--columns", f"{columns},response=given", "-m", "exact_match", "--json")
    assert (code, json.loads(out)["results"][0]["value"]) == (0, 1.0)
    code, _, err = auepora("score", str(data), "--columns", "query=qa,response=given", "-m", "answer_relevance")
    assert code == 2
    assert "qa.json:1: field 'qa' has a question and the answer to it" in err
    assert "extract.query=REGEX" in err


BAD = [
    ({"query": "qa", "extract.query": "("}, "'extract.query' is no regular expression"),
    ({"query": "qa", "extract.query": "问题"}, "'extract.query' needs a group"),
    ({"query": "qa", "extract.reference": "(.)"}, "'extract.reference' needs the column of 'reference'"),
    ({"query": "qa", "extract.query": "Q: (.*)"}, "record 1: field 'qa': 'Q: (.*)' is not found in it"),
]


@pytest.mark.parametrize(("columns", "problem"), BAD)
def test_bad_expressions(columns: dict[str, str], problem: str) -> None:
    with pytest.raises(BadValueError) as caught:
        samples_from_records([QA], columns)
    assert problem in str(caught.value)


LEAKS = [
    ({"q": "When?\nAnswer: 1901"}, True, "there is no reference"),
    ({"q": "When?\nAnswer: in 1901", "r": "1901"}, True, "the reference is in that answer"),
    ({"q": "When?\nAnswer: 1900\nAnd Lake Tane?", "r": "1901"}, False, "an example in a prompt"),
    ({"q": "Answer: which number is it?"}, False, "there is no question above"),
    ({"q": "When?\nAnswer:", "r": "1901"}, False, "a prompt that ends where the answer begins"),
    ({"q": "月曜日ですか\n答え：はい"}, True, "Japanese"),
]


@pytest.mark.parametrize(("record", "leaks", "why"), LEAKS)
def test_a_question_with_its_answer(record: dict[str, str], leaks: bool, why: str) -> None:
    columns = {"query": "q"} | ({"reference": "r"} if "r" in record else {})
    if leaks:
        with pytest.raises(BadValueError, match="field 'q' has a question and the answer to it"):
            samples_from_records([record], columns)
    else:
        assert samples_from_records([record], columns)[0].query == record["q"], why
    whole = columns | {"extract.query": "(?s)(.*)"}
    assert samples_from_records([record], whole)[0].query == record["q"]


SLOTS = [  # slots, answer, containment
    ([["周一"], ["北岭"]], "渡轮每周一开往北岭。", 1.0),
    ([["周一"], ["北岭", "北山"]], "每周一，北山", 1.0),
    (["周一", "北岭"], "渡轮每周一开行。", 0.0),
    ("周一", "渡轮每周一开行。", 1.0),
    (["lake", ["north", "nord"]], "Nord Lake", 1.0),
]


@pytest.mark.parametrize(("slots", "answer", "value"), SLOTS)
def test_slots(slots: Any, answer: str, value: float) -> None:
    columns = {"query": "q", "slots": "answer", "response": "given"}
    records = [{"q": "which?", "answer": slots, "given": answer}]
    samples, outputs = samples_from_records(records, columns), outputs_from_records(records, columns)
    (result,) = evaluate(samples, outputs, ["containment"])
    assert result.value == value


RGB = {"query": "which?", "positive": ["a"], "negative": ["b"]}
PARTS = [
    ({"query": "which?", "answer": [["a"], ["b"]]}, "references", "field 'answer' has lists of spellings"),
    (RGB | {"answer": ["a", "b"]}, "references", "the record is one of RGB"),
    ({"query": "which?", "answer": []}, "slots", "field 'answer' is empty; it needs what the answer must name"),
    ({"query": "which?", "answer": [["a"], []]}, "slots", "field 'answer[1]' is empty; it needs a spelling"),
    ({"query": "which?", "answer": [["a"], 3]}, "slots", "field 'answer[1]' must be a string, not a number"),
]


@pytest.mark.parametrize(("record", "field", "problem"), PARTS)
def test_parts_that_are_no_references(record: dict[str, Any], field: str, problem: str) -> None:
    with pytest.raises(BadValueError) as caught:
        samples_from_records([record], {"query": "query", field: "answer"})
    assert problem in str(caught.value)
    assert field == "slots" or "write slots=answer" in str(caught.value)


@pytest.mark.parametrize("answer", [["a", "b"], ["a"]])
def test_alternatives_stay_references(answer: list[str]) -> None:
    (sample,) = samples_from_records(
        [{"query": "which?", "answer": answer}], {"query": "query", "references": "answer"}
    )
    assert sample.references == answer
