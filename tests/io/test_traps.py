"""Files of published benchmarks that gave wrong numbers without an error."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.errors import DataFileError
from auepora_eval.io.join import load_dataset, load_outputs

Auepora = Callable[..., tuple[int, str, str]]


def write_rows(path: Path, *rows: Mapping[str, Any]) -> str:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(path)


# --- answers that carry the question, joined by row number ------------------------------------------------------------

ASKED = ({"question": "when?", "answer": ["1901"]}, {"question": "where?", "answer": ["Alta"]})
FIRST = {"question": "when?", "prediction": "1901"}
SECOND = {"question": "where?", "prediction": "Alta"}
BY_NUMBER = ["--columns", "query=question,references=answer", "--outputs-columns", "response=prediction"]
BY_QUESTION = [
    "--columns",
    "id=question,query=question,references=answer",
    "--outputs-columns",
    "id=question,response=prediction",
]


@pytest.mark.parametrize(
    ("rows", "options", "value", "why"),
    [
        ([FIRST, SECOND], BY_NUMBER, 1.0, "in the order of the samples"),
        ([SECOND, FIRST], BY_NUMBER, None, "in another order"),
        ([SECOND], BY_NUMBER, None, "the first is missing"),
        ([FIRST], BY_NUMBER, 0.5, "the last is missing: 1 of 2"),
        ([SECOND, FIRST], BY_QUESTION, 1.0, "the question is the id"),
        ([SECOND], BY_QUESTION, 0.5, "the question is the id, one is missing: 1 of 2"),
        ([{"prediction": "Alta"}, {"prediction": "1901"}], BY_NUMBER, 0.0, "nothing but the order is known"),
    ],
)
def test_answers_with_questions(
    tmp_path: Path,
    auepora: Auepora,
    rows: list[dict[str, str]],
    options: list[str],
    value: float | None,
    why: str,
) -> None:
    files = [write_rows(tmp_path / "data.jsonl", *ASKED), write_rows(tmp_path / "answers.jsonl", *rows)]
    code, out, err = auepora("score", *files, *options, "-m", "exact_match", "--json")
    checked, report, _ = auepora("validate", *files, *options)
    if value is None:
        problem = "answers.jsonl:1: row 1 answers 'where?', but this row of the samples asks 'when?'"
        assert (code, problem in err, "id=question" in err) == (2, True, True), why
        assert (checked, problem in report) == (2, True), why
    else:
        assert (code, json.loads(out)["results"][0]["value"]) == (0, value), why


def test_answers_with_questions_in_a_plan(tmp_path: Path) -> None:
    from auepora_eval.plan.prepare import check_plan

    write_rows(tmp_path / "data.jsonl", *ASKED)
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "dataset: {jsonl: data.jsonl, columns: {query: question, references: answer}}\n"
        "outputs: {auto: answers.jsonl, columns: {response: prediction}}\nmetrics: [exact_match]\n"
    )
    write_rows(tmp_path / "answers.jsonl", FIRST, SECOND)
    good = check_plan(plan).problems
    write_rows(tmp_path / "answers.jsonl", SECOND, FIRST)
    bad = check_plan(plan).problems
    assert (good, [str(one).count("row 1 answers 'where?'") for one in bad]) == ([], [1])


# --- lists that say which documents are relevant -----------------------------------------------------------------------


def paragraphs(*flags: Any, flag: str = "is_supporting") -> dict[str, Any]:
    return {"q": "who?", "p": [{"text": f"t{place}", "no": place, flag: value} for place, value in enumerate(flags)]}


@pytest.mark.parametrize(
    ("row", "columns", "want", "why"),
    [
        (paragraphs(True, False, True), {"relevant_texts": "p[is_supporting].text"}, ["t0", "t2"], "the flag is named"),
        (paragraphs(0, 1), {"relevant_texts": "p[is_supporting].text"}, ["t1"], "0 and 1"),
        (paragraphs(False), {"relevant_texts": "p[is_supporting].text"}, [], "none is relevant"),
        (paragraphs(True, False), {"relevant_texts": "p[is_supporting].text", "relevant_ids": "p[is_supporting].no"}, ["t0"], "texts and ids"),
        (paragraphs(True, True), {"relevant_texts": "p.text"}, ["t0", "t1"], "all are relevant"),
        (paragraphs(2, 0, flag="stars"), {"relevant_texts": "p.text"}, ["t0", "t1"], "not a flag of relevance"),
        (paragraphs(True, False), {"relevant_texts": "p.text"}, "field 'p' has 'is_supporting', which is false for some; to take only the relevant ones, name the column 'p[is_supporting].text'", "the flag is ignored"),
        (paragraphs(True, False), {"relevant_ids": "p.no"}, "name the column 'p[is_supporting].no'", "the flag is ignored for ids"),
        (paragraphs(0, 1, flag="is_selected"), {"relevant_texts": "p.text"}, "name the column 'p[is_selected].text'", "another flag"),
        (paragraphs(True, "no"), {"relevant_texts": "p[is_supporting].text"}, "field 'p[1].is_supporting' must be true or false, not 'no'", "no flag"),
        (paragraphs(True), {"relevant_texts": "p[supports].text"}, "field 'p[0].supports' must be true or false, not None", "no such flag"),
        ({"q": "who?", "p": "t0"}, {"relevant_texts": "p[is_supporting].text"}, "field 'p' must be an array of objects, not a string", "no list"),
        ({"q": "who?", "p": ["t0"]}, {"relevant_texts": "p[is_supporting].text"}, "field 'p[0]' must be an object, not a string", "no objects"),
        ({"q": "who?", "p": "t0"}, {"relevant_texts": "r[is_supporting].text"}, "there is no column 'r[is_supporting].text'", "no column"),
        ({"q": "who?", "p[x].text": ["t0"]}, {"relevant_texts": "p[x].text"}, ["t0"], "a column of this name"),
    ],
)  # fmt: skip
def test_flags_of_relevance(
    tmp_path: Path, row: dict[str, Any], columns: dict[str, str], want: list[str] | str, why: str
) -> None:
    path = write_rows(tmp_path / "data.jsonl", row)
    if isinstance(want, str):
        with pytest.raises(DataFileError) as caught:
            load_dataset(path, columns={"query": "q", **columns})
        assert want in str(caught.value), why
    else:
        [sample] = load_dataset(path, columns={"query": "q", **columns})
        assert [document.text for document in sample.relevant_docs or ()] == want, why
        assert sample.metadata == {}, why


def test_all_paragraphs_may_be_retrieved(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "data.jsonl", paragraphs(True, False))
    output = load_outputs(path, columns={"query": "q", "contexts": "p.text"})["1"]
    assert [ranked.doc.text for ranked in output.retrieved] == ["t0", "t1"]
