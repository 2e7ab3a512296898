"""Files of published benchmarks that gave wrong numbers without an error."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

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
