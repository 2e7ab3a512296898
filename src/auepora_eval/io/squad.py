"""SQuAD: questions about paragraphs as JSON, version 1.1 or 2.0, and predictions by question id."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from ..core.types import Document, EvaluationSample, Response, SystemOutputs
from ..runtime.files import read_bytes, write_lines
from .codec import Id, LineError, bracketed_lines, encode_output, encode_outputs, text_id
from .formats import Format, looks_like_squad, register_format
from .problems import (
    TOO_DEEP,
    ParsedOutput,
    ParsedSample,
    Problems,
    RowSchema,
    find_struct_problems,
    first_invalid_value,
    quote_text,
    value_problem,
)
from .values import warn_repeated_keys

_SHAPE = RowSchema("questions", {"": ()}, "predictions", ())


class _SquadAnswer(msgspec.Struct):
    text: str


class _Question(msgspec.Struct):
    id: Id
    question: str
    answers: list[_SquadAnswer] = []
    is_impossible: bool = False


InnerT = TypeVar("InnerT")
"""The type of the nested items: ``Raw`` to decode them later, or ``Any`` to check the rest."""


class _Paragraph(msgspec.Struct, Generic[InnerT]):
    context: str
    qas: list[InnerT]


class _Article(msgspec.Struct, Generic[InnerT]):
    paragraphs: list[InnerT]
    title: str = ""


class _File(msgspec.Struct, Generic[InnerT]):
    data: list[InnerT]


def iter_questions(path: Path, problems: Problems) -> Iterator[ParsedSample]:
    """Yield the questions of a file as samples; their paragraph is the relevant document and the cluster."""
    paragraphs: Counter[str] = Counter()

    def decode(kind: Any, data: Any, place: str) -> Any:
        raw = kind[msgspec.Raw] if kind is not _Question else kind
        try:
            return msgspec.json.decode(data, type=raw)
        except msgspec.ValidationError as error:
            whole = kind[Any] if kind is not _Question else kind
            found, _ = find_struct_problems(bytes(data), whole, _SHAPE, value_problem(error, None, _SHAPE))
            replacement = ("each line must be one JSON object", "must be an object")
            problems.add_all(path, None, [place + problem.replace(*replacement) for problem in found])
        except (ValueError, RecursionError):  # only the whole file can be malformed: its parts were scanned with it
            problems.add(path, *_syntax_problem(data))

    data = read_bytes(path, is_document=True)
    file = decode(_File, data, "")
    warn_repeated_keys(path, None, data, problems)
    for a, raw_article in enumerate(() if file is None else file.data, start=1):
        article = decode(_Article, raw_article, f"article {a}: ")
        for p, raw_paragraph in enumerate(() if article is None else article.paragraphs, start=1):
            place = f"article {a}, paragraph {p}"
            paragraph = decode(_Paragraph, raw_paragraph, f"{place}: ")
            if paragraph is None:
                continue
            paragraphs[article.title] += 1  # two articles may have the same title
            number = paragraphs[article.title]
            doc_id = f"{article.title}#{number}" if article.title else text_id(paragraph.context)
            for q, raw_question in enumerate(paragraph.qas, start=1):
                question = decode(_Question, raw_question, f"{place}, question {q}: ")
                if question is not None and problems.is_new(path, question.id, hint=f" ({place}, question {q})"):
                    yield ParsedSample(None, _sample(question, Document(doc_id, paragraph.context)))


def _sample(question: _Question, paragraph: Document) -> EvaluationSample:
    answers = list(dict.fromkeys(answer.text for answer in question.answers))
    return EvaluationSample(
        question.id,
        question.question,
        relevant_docs=[paragraph],
        reference_answers=[""] if question.is_impossible else answers,
        labels={"scenario": "unanswerable"} if question.is_impossible else {},
        cluster_id=paragraph.doc_id,
    )


def iter_predictions(path: Path, problems: Problems) -> Iterator[ParsedOutput]:
    """Yield the predictions of a file, ``{id: text}``, as outputs of a system without retrieval."""
    data = read_bytes(path, is_document=True)
    try:
        pairs = json.loads(data, object_pairs_hook=_Pairs)  # pairs, since an id may be repeated
    except (ValueError, RecursionError):
        problems.add(path, *_syntax_problem(data))
        return
    if not isinstance(pairs, _Pairs):
        problems.add(path, None, 'predictions must be one JSON object of strings by question id: {"id": "text"}')
        return
    for sample_id, text in pairs:
        problem = _prediction_problem(sample_id, text)
        if problem is not None:
            problems.add(path, None, problem)
        elif problems.is_new(path, sample_id):
            yield ParsedOutput(None, sample_id, SystemOutputs([], Response(text)), has_retrieved=False)


def _syntax_problem(data: bytes) -> tuple[int | None, str]:
    """Return the line of the first JSON error, and a message by the standard library."""
    try:
        value = json.loads(data)
    except json.JSONDecodeError as error:
        return error.lineno, f"not valid JSON: {error.msg[:1].lower()}{error.msg[1:]} near column {error.colno}"
    except RecursionError:
        return None, TOO_DEEP
    except ValueError:
        return None, "an integer has too many digits"
    return None, first_invalid_value(value) or "the file cannot be read as JSON"


class _Pairs(list[tuple[str, Any]]):
    """The keys and values of an object."""


def _prediction_problem(sample_id: str, text: object) -> str | None:
    if not sample_id:
        return "a question id is empty; an id needs at least one character"
    if isinstance(text, int | float) and not isinstance(text, bool):
        hint = " (is this the file of no-answer probabilities?)"
        return f"the prediction for {quote_text(sample_id)} must be a string, not a number{hint}"
    if not isinstance(text, str):
        return f"the prediction for {quote_text(sample_id)} must be a string"
    return first_invalid_value({sample_id: text})


def write_predictions(outputs: Iterable[tuple[str, SystemOutputs]], path: Path) -> None:
    """Write the answers as one object of strings by question id."""
    write_lines(path, bracketed_lines(encode_outputs(outputs, _encode_prediction), b"{}"))


def _encode_prediction(sample_id: str, output: SystemOutputs) -> bytes:
    if output.response is None:
        raise LineError("it has no response")
    row = msgspec.json.decode(encode_output(sample_id, SystemOutputs([], Response(output.response.text))))
    return b"%b: %b" % (msgspec.json.encode(row["sample_id"]), msgspec.json.encode(row["response"]["text"]))


FORMAT = register_format(
    Format(
        "squad",
        "SQuAD: questions by paragraph, or predictions by question id",
        looks_like_squad,
        iter_questions,
        iter_predictions,
        write_outputs=write_predictions,
        sample_fields=frozenset({"sample_id", "query", "relevant_docs", "reference_answers", "labels", "cluster_id"}),
        output_fields=frozenset({"response"}),
        nested_losses=frozenset({"response.structured", "response.metadata", "response.sentences"}),
    )
)
