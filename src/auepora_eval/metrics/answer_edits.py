"""Other metrics on edited answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from operator import methodcaller
from typing import Annotated, Any, ClassVar, Literal

from ..core.batch import Batch
from ..core.derivation import add_step, quote_text
from ..core.metrics_base import apply_failure_policy, declare
from ..core.registry import register
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs
from ..errors import BadValueError
from ..options import NonEmpty
from .wrappers import WrapperMetric, is_paired_metric

Edit = Literal["strip", "first_line", "remove_citations", "remove_blanks"]
_CITATIONS = re.compile(r" \[\d+"), re.compile(r"\[\d+"), re.compile(r" \|"), re.compile(r"\]")


def without_citations(text: str) -> str:
    """A text without the marks of citations, as ALCE's script deletes them.

    >>> without_citations("It froze in 1901 [1][2].")
    'It froze in 1901.'
    """
    for mark in _CITATIONS:
        text = mark.sub("", text)
    return text


def first_line(text: str) -> str:
    """The part of a text before its first line end."""
    return text.partition("\n")[0]


EDITS: Mapping[Edit, Callable[[str], str]] = {
    "strip": str.strip,
    "first_line": first_line,
    "remove_citations": without_citations,
    "remove_blanks": methodcaller("replace", " ", ""),
}


@register("edited_answer")
@dataclass(frozen=True)
class EditedAnswer(WrapperMetric):
    r"""Another metric on the answer after it was edited; the stored answer stays as it is.

    .. math:: M(\text{edit}(\text{answer}))

    `edits` are applied in their order: `strip` removes white space at both ends, `first_line` keeps what stands before
    the first line end, `remove_citations` deletes marks such as [1], and `remove_blanks` deletes blanks. The scripts of
    ALCE and of RGB (in Chinese) edit answers like this before they compare them.
    """

    edits: Annotated[tuple[Edit, ...], NonEmpty()] = field(default=("strip",), metadata={"convert": tuple})

    metadata = declare(
        reads=frozenset({"response"}),
        handles_failures=True,
        suggested=False,
        failure_note="as with the other metric",
        examples=(
            {"edited_answer": {"base": "containment", "edits": ["strip", "first_line", "remove_citations"]}},
            {"edited_answer": {"base": "rougeL_answer", "edits": ["remove_blanks"]}},
        ),
        signature={"edits": "edits"},
        option_help={"edits": "how answers are edited before they are scored"},
    )
    follows_base: ClassVar[bool] = True

    has_worst_of_base: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if is_paired_metric(self.inner):
            raise BadValueError(f"'{self.inner.name}' is computed from several samples together; give another base")
        self.copy_attributes("target", "reducer", "range", "higher_is_better", "binary", "stat_names", "needs_all")

    def edited(self, output: SystemOutputs) -> SystemOutputs:
        """The output with its answer edited."""
        if output.response is None:
            return output
        text = output.response.text
        for name in self.edits:
            text = EDITS[name](text)
        return replace(output, response=replace(output.response, text=text))

    def score(self, batch: Batch) -> Scores:
        """The wrapped metric's outcomes on the edited answers."""
        outputs = [output and self.edited(output) for output in batch.outputs]
        return apply_failure_policy(self.inner, Batch(batch.samples, outputs, memory=batch.memory))

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """The wrapped metric's outcome by its plain definition."""
        edited = self.edited(output)
        if edited.response is not None:
            add_step(f"Edited: {quote_text(edited.response.text)}")
        return self.inner.reference(sample, edited)

    def further_details(self, scores: Scores, clusters: Any) -> dict[str, Any]:
        """The wrapped metric's details."""
        return self.inner.further_details(scores, clusters)
