"""Parts of columns: texts that a regular expression takes from them, and answers that name several things."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from ..core.types import Response
from ..errors import BadValueError
from .cells import get_value, text_value
from .codec import LineError
from .problems import quote_text

EXTRACT = "extract."
"""Begins the keys of ``--columns`` that are regular expressions for a field: ``extract.query``."""
Extracts = Mapping[str, tuple[str, re.Pattern[str]]]
"""By the name of an extracted text the column with it, and the expression whose first group it is."""
_ANSWER_LINE = re.compile(
    r"(?im)\S[^\n]*\n\s*(?:答案|回答|答え|答|คำตอบ|답변|정답|(?:gold |reference )?answers?)\s*[:：]\s*\S"
)
"""A line that begins with the word for an answer, below a question."""


def split_extracts(columns: Mapping[str, str]) -> tuple[dict[str, str], Extracts]:
    """Columns by field, those with an expression under a name of their own, and the expressions by that name."""
    plain = {key: name for key, name in columns.items() if not key.startswith(EXTRACT)}
    extracts: dict[str, tuple[str, re.Pattern[str]]] = {}
    for key in [key for key in columns if key not in plain]:
        field, text = key.removeprefix(EXTRACT), columns[key]
        if field not in plain:
            raise BadValueError(f"'{key}' needs the column of {quote_text(field)}: {field}=COLUMN")
        try:
            pattern = re.compile(text)
        except re.error as error:
            raise BadValueError(f"'{key}' is no regular expression: {error}") from None
        if not pattern.groups:
            raise BadValueError(f"'{key}' needs a group, which is what is taken: put ( and ) around that part")
        column, plain[field] = plain[field], f"{plain[field]} ({field})"
        extracts[plain[field]] = column, pattern
    return plain, extracts


def extract_values(values: Mapping[str, Any], extracts: Extracts) -> Mapping[str, Any]:
    """The values of a record with the extracted texts."""
    found = dict(values)
    for name, (column, pattern) in extracts.items():
        value = get_value(values, column)
        match = None if value is None else pattern.search(text_value(value, column))
        if value is not None and match is None:
            raise LineError(f"field {quote_text(column)}: {quote_text(pattern.pattern)} is not found in it")
        found[name] = None if match is None else match[1] or ""
    return found


def refuse_answer(query: str, name: str, references: Collection[str]) -> None:
    """Raise if a query has its answer below the question: a system would be given it.

    Where the references are known, one of them is in that answer; an example in a prompt has another one.
    """
    answer = _ANSWER_LINE.search(query)
    if answer and (not references or any(text.strip() in query[answer.start() :] for text in references)):
        raise LineError(
            f"field {quote_text(name)} has a question and the answer to it, which a system would be given; take the "
            "question by extract.query=REGEX (its first group), the answer by extract.reference=REGEX in the same way; "
            "extract.query='(?s)(.*)' takes all of it"
        )


def slotted_reference(value: Any, name: str) -> Response:
    """A reference of several things that an answer must all name: a text, or a list of texts and lists of spellings."""
    slots = []
    for at, slot in enumerate(value if isinstance(value, (list, tuple)) else [value]):
        spellings = slot if isinstance(slot, (list, tuple)) else [slot]
        if not spellings:
            raise LineError(f"field {quote_text(f'{name}[{at}]')} is empty; it needs a spelling")
        slots.append([text_value(text, f"{name}[{at}]") for text in spellings])
    if not slots:
        raise LineError(f"field {quote_text(name)} is empty; it needs what the answer must name")
    return Response("; ".join(spellings[0] for spellings in slots), structured={"slots": slots})


def refuse_parts(value: Any, name: str, others: Collection[str]) -> None:
    """Raise if a list of references has parts that an answer must all name."""
    parts = value if isinstance(value, (list, tuple)) else ()
    nested = any(isinstance(part, (list, tuple)) for part in parts)
    if nested or (len(parts) > 1 and {"positive", "negative"} <= set(others)):
        kind = "lists of spellings" if nested else "several texts, and the record is one of RGB"
        raise LineError(
            f"field {quote_text(name)} has {kind}: what an answer must name together, which references are not, since "
            f"any of them makes an answer right; write slots={name}"
        )
