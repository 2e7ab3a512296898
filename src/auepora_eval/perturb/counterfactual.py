"""Documents made false: the wrong answer in place of the right one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ..core.errors import BadTypeError
from ..core.types import Document, EvaluationSample

__all__ = ["DocumentEdit", "counterfactual_document", "wrong_answer"]

DocumentEdit = Callable[[EvaluationSample, Document], str | Document | None]
"""A relevant document made false, or its text; ``None`` where it cannot be."""


def wrong_answer(sample: EvaluationSample) -> str | None:
    """The false answer that ``metadata["wrong_answer"]`` gives, the first where there are several."""
    held = sample.metadata.get("wrong_answer") if isinstance(sample.metadata, Mapping) else None
    texts = [held] if isinstance(held, str) else held if isinstance(held, (list, tuple)) else []
    return next((text for text in texts if isinstance(text, str) and text.strip()), None)


def counterfactual_document(
    sample: EvaluationSample, document: Document, edit: DocumentEdit | None = None
) -> Document | None:
    """The document with the false answer wherever it gives the right one; ``None`` where it does not give it.

    ``edit`` takes the place of looking for the answer. The id stays: what was found is right, what it says is not.
    """
    if edit is None:
        wrong = wrong_answer(sample)
        made: str | Document | None = (
            None if wrong is None else _replace_answers(document.text, sample.references, wrong)
        )
    else:
        made = edit(sample, document)
    if made is None or isinstance(made, Document):
        return made
    if not isinstance(made, str):
        raise BadTypeError(f"the function that makes documents false gave a {type(made).__name__}, not a text")
    return replace(document, text=made) if made != document.text else None


def _replace_answers(text: str, answers: Iterable[str], wrong: str) -> str:
    """The text with each of the answers replaced, whole words only, whatever the case; the longest first."""
    wanted = sorted({one.strip().rstrip(".!?") for one in answers} - {""}, key=lambda one: (-len(one), one))
    if not wanted:
        return text
    spaced = ("\\s+".join(map(re.escape, one.split())) for one in wanted)
    return re.sub(rf"(?<!\w)(?:{'|'.join(spaced)})(?!\w)", lambda _: wrong, text, flags=re.IGNORECASE)
