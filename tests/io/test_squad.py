"""SQuAD's files: questions on paragraphs, and predictions by question id."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from auepora_eval import evaluate
from auepora_eval.core.types import Document, EvaluationSample, Response, SystemOutputs
from auepora_eval.errors import AueporaError, BadValueError, DataFileError, DuplicateIdError
from auepora_eval.io.codec import text_id
from auepora_eval.io.formats import get_format, guess_format
from auepora_eval.io.join import align_outputs, iter_samples, load_dataset, load_outputs, read_outputs_file
from auepora_eval.io.problems import Problems


def question(name: str, *answers: str, **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "question": f"{name}?",
        "answers": [{"text": text, "answer_start": 0} for text in answers],
        **more,
    }


def squad(*paragraphs: dict[str, Any], title: str | None = "Rhine") -> dict[str, Any]:
    return {
        "version": "v2.0",
        "data": [{**({} if title is None else {"title": title}), "paragraphs": list(paragraphs)}],
    }


TWO = squad(
    {"context": "The Rhine is long.", "qas": [question("a", "long", "very long", "long"), question("b")]},
    {"context": "It ends in the sea.", "qas": [question("c", is_impossible=True, plausible_answers=[{"text": "sea"}])]},
)


def save_file(path: Path, value: object) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def test_questions(tmp_path: Path) -> None:
    path = save_file(tmp_path / "dev.json", TWO)
    assert guess_format(path, "samples").name == "squad"
    first, second = Document("Rhine#1", "The Rhine is long."), Document("Rhine#2", "It ends in the sea.")
    assert list(load_dataset(path)) == [
        EvaluationSample("a", "a?", [first], reference_answers=["long", "very long"], cluster_id="Rhine#1"),
        EvaluationSample("b", "b?", [first], cluster_id="Rhine#1"),
        EvaluationSample(
            "c", "c?", [second], reference_answers=[""], labels={"scenario": "unanswerable"}, cluster_id="Rhine#2"
        ),
    ]


def test_titles(tmp_path: Path) -> None:
    articles = [squad({"context": text, "qas": [question(text)]})["data"][0] for text in "xy"]
    samples = load_dataset(save_file(tmp_path / "a.json", {"data": articles}))
    assert [sample.cluster_id for sample in samples] == ["Rhine#1", "Rhine#2"]  # two articles of one title
    untitled = load_dataset(save_file(tmp_path / "b.json", squad({"context": "x", "qas": [question("a")]}, title=None)))
    assert [sample.cluster_id for sample in untitled] == [text_id("x")]


def test_predictions(tmp_path: Path) -> None:
    path = save_file(tmp_path / "pred.json", {"c": "", "a": "Long."})
    assert guess_format(path, "outputs").name == "squad"
    read = read_outputs_file(path)
    assert read.outputs == {"c": SystemOutputs([], Response("")), "a": SystemOutputs([], Response("Long."))}
    assert read.answers_only
    samples = list(load_dataset(save_file(tmp_path / "dev.json", TWO)))
    results = evaluate(
        samples, align_outputs(samples, read.outputs).outputs, ["exact_match", "negative_rejection_rate"]
    )
    assert [result.value for result in results] == [
        1.0,
        1.0,
    ]  # b has no reference, so that its missing answer is skipped


def test_files_that_are_not_predictions(tmp_path: Path) -> None:
    for value in [{"sample_id": "a", "response": "x"}, {"user_input": "a", "response": "x"}, {"a": ["x"]}]:
        with contextlib.suppress(DataFileError):
            assert guess_format(save_file(tmp_path / "x.json", value), "outputs").name != "squad"


BAD: list[tuple[object, str]] = [
    ("", ":1: not valid JSON: expecting value near column 1"),
    ('{"data":\n [}', ":2: not valid JSON: expecting value near column 3"),
    ('{"data": ["\\ud800"]}', "field 'data[0]' holds half of a surrogate pair, which is not valid text"),
    ('{"data": ' + "[" * 100_000, "the values are nested too deeply"),
    ([], "must be an object, not an array"),
    ({}, "field 'data' is missing"),
    ({"data": {}}, "field 'data' must be an array, not an object"),
    ({"data": [3]}, "article 1: must be an object, not a number"),
    ({"data": [{}]}, "article 1: field 'paragraphs' is missing"),
    (squad({"qas": []}), "article 1, paragraph 1: field 'context' is missing"),
    (squad({"context": "x", "qas": [{"id": "a"}]}), "article 1, paragraph 1, question 1: field 'question' is missing"),
    (
        squad({"context": "x", "qas": [question("a"), {**question("b"), "answers": [{"text": 3}]}]}),
        "article 1, paragraph 1, question 2: field 'answers[0].text' must be a string, not a number",
    ),
    (squad({"context": "x", "qas": [question("")]}), "article 1, paragraph 1, question 1: field 'id' is empty; an id needs at least one character"),
    (squad({"context": "x", "qas": [question("a"), question("a")]}), "sample_id 'a' occurs twice; each id may come once (article 1, paragraph 1, question 2)"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "message"), BAD, ids=[row[-1][:70] for row in BAD])
def test_bad_questions(tmp_path: Path, value: object, message: str) -> None:
    path = save_file(tmp_path / "dev.json", value)
    with pytest.raises((DataFileError, DuplicateIdError)) as caught:
        load_dataset(path, "squad")
    assert str(caught.value) == f"{path}{'' if message.startswith(':') else ': '}{message}"


def test_collecting_continues(tmp_path: Path) -> None:
    problems = Problems(collect_all=True)
    value = squad({"context": 3, "qas": []}, {"context": "x", "qas": [3, question("a"), question("a"), question("b")]})
    value["data"].insert(0, {"title": "Elbe"})
    samples = iter_samples(save_file(tmp_path / "dev.json", value), "squad", problems)
    assert [read.sample.sample_id for read in samples] == ["a", "b"]
    assert [problem.message for problem in problems.found] == [
        "article 1: field 'paragraphs' is missing",
        "article 2, paragraph 1: field 'context' must be a string, not a number",
        "article 2, paragraph 2, question 1: must be an object, not a number",
        "sample_id 'a' occurs twice; each id may come once (article 2, paragraph 2, question 3)",
    ]


BAD_PREDICTIONS: list[tuple[object, str]] = [
    ([], 'predictions must be one JSON object of strings by question id: {"id": "text"}'),
    ("{", ":1: not valid JSON: expecting property name enclosed in double quotes near column 2"),
    ("[" * 100_000, "the values are nested too deeply"),
    ('{"a": ' + "1" * 5000 + "}", "an integer has too many digits"),
    (
        {"a": 0.5},
        "the prediction for 'a' must be a string, not a number (is this the file of no-answer probabilities?)",
    ),
    ({"a": None}, "the prediction for 'a' must be a string"),
    ({"": "x"}, "a question id is empty; an id needs at least one character"),
    ('{"a": "x", "a": "y"}', "sample_id 'a' occurs twice; each id may come once"),
    ('{"a": "\\ud800"}', "field 'a' holds half of a surrogate pair, which is not valid text"),
    ({}, "there is no output in it"),
]


@pytest.mark.parametrize(("value", "message"), BAD_PREDICTIONS, ids=[row[-1][:70] for row in BAD_PREDICTIONS])
def test_bad_predictions(tmp_path: Path, value: object, message: str) -> None:
    path = save_file(tmp_path / "pred.json", value)
    with pytest.raises((DataFileError, DuplicateIdError)) as caught:
        load_outputs(path, "squad")
    assert str(caught.value) == f"{path}{'' if message.startswith(':') else ': '}{message}"


@given(st.dictionaries(st.text(min_size=1), st.text(), min_size=1))
def test_prediction_round_trip(tmp_path_factory: pytest.TempPathFactory, texts: dict[str, str]) -> None:
    path = tmp_path_factory.getbasetemp() / "pred.json"
    outputs = {name: SystemOutputs([], Response(text)) for name, text in texts.items()}
    write = get_format("squad").write_outputs
    assert write is not None
    write(outputs.items(), path)
    assert load_outputs(path, "squad") == outputs
    assert json.loads(path.read_text(encoding="utf-8")) == texts


def test_unwritable_values(tmp_path: Path) -> None:
    write = get_format("squad").write_outputs
    assert write is not None
    with pytest.raises(BadValueError, match="the output for sample 'a' cannot be written: it has no response"):
        write([("a", SystemOutputs([]))], tmp_path / "pred.json")
    with pytest.raises(DuplicateIdError):
        write([("a", SystemOutputs([], Response("")))] * 2, tmp_path / "pred.json")
    with pytest.raises(BadValueError, match="half of a surrogate pair"):
        write([("a", SystemOutputs([], Response("\ud800")))], tmp_path / "pred.json")
    assert not list(tmp_path.iterdir())


@given(st.integers(0, 500), st.binary(max_size=3))
def test_damaged_files_raise_only_our_errors(
    tmp_path_factory: pytest.TempPathFactory, place: int, change: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    loads: list[tuple[bytes, Any]] = [(json.dumps(TWO).encode(), load_dataset), (b'{"a": "x", "b": "y"}', load_outputs)]
    for data, load in loads:
        path.write_bytes(data[: place % len(data)] + change + data[place % len(data) + 1 :])
        with contextlib.suppress(AueporaError):
            load(path, "squad")
