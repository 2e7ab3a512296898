"""Counterfactual documents: the wrong answer replaces the right one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ..core.errors import BadTypeError
from ..core.types import Document, EvaluationSample

__all__ = ["DocumentEdit", "counterfactual_document", "wrong_answer"]

DocumentEdit = Callable[[EvaluationSample, Document], str | Document | None]
"""Returns a counterfactual document, or its text; ``None`` where none can be made."""


def wrong_answer(sample: EvaluationSample) -> str | None:
    """The wrong answer in ``metadata["wrong_answer"]``; the first one of a list."""
    value = sample.metadata.get("wrong_answer") if isinstance(sample.metadata, Mapping) else None
    texts = [value] if isinstance(value, str) else value if isinstance(value, (list, tuple)) else []
    return next((text for text in texts if isinstance(text, str) and text.strip()), None)


def counterfactual_document(
    sample: EvaluationSample, document: Document, edit: DocumentEdit | None = None
) -> Document | None:
    """The document with the wrong answer in place of the right one; ``None`` where it does not contain the right one.

    ``edit`` replaces the search for the answer. The id stays: the hit is right, its content is not.
    """
    if edit is None:
        wrong = wrong_answer(sample)
        edited: str | Document | None = (
            None if wrong is None else _replace_answers(document.text, sample.references, wrong)
        )
    else:
        edited = edit(sample, document)
    if edited is None or isinstance(edited, Document):
        return edited
    if not isinstance(edited, str):
        raise BadTypeError(f"the edit function returned {type(edited).__name__}, not a string or a Document")
    return replace(document, text=edited) if edited != document.text else None


def _replace_answers(text: str, answers: Iterable[str], wrong: str) -> str:
    """The text with each answer replaced: whole words, any case, the longest answer first."""
    right_answers = sorted({one.strip().rstrip(".!?") for one in answers} - {""}, key=lambda one: (-len(one), one))
    if not right_answers:
        return text
    spaced = ("\\s+".join(map(re.escape, one.split())) for one in right_answers)
    return re.sub(rf"(?<!\w)(?:{'|'.join(spaced)})(?!\w)", lambda _: wrong, text, flags=re.IGNORECASE)
