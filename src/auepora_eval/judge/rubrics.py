"""Rubrics: the weighted items by which the answer of one sample is judged, and their measures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real

from ..core.types import EvaluationSample
from ..errors import BadTypeError, BadValueError, did_you_mean

RUBRIC_KEY = "rubric"
"""Label of a sample that has its rubric."""
_KEYS = ("item", "weight", "required")


@dataclass(frozen=True, slots=True)
class RubricItem:
    """Something that an answer should do or, with a negative weight, a fault that it should not have."""

    text: str
    weight: Fraction = Fraction(1)
    required: bool = False
    """Whether it counts in ``rubric_required`` and not in the score."""

    def is_satisfied(self, level: float) -> bool:
        """Whether a requirement is satisfied: met in full, or a fault that is absent."""
        return level == (1.0 if self.weight > 0 else 0.0)


Rubric = tuple[RubricItem, ...]


def sample_rubric(sample: EvaluationSample) -> Rubric | None:
    """The rubric in a sample's labels; ``None`` if there is none. Raises if it is malformed."""
    value = sample.labels.get(RUBRIC_KEY)
    return None if value is None else parse_rubric(value)


def parse_rubric(values: object) -> Rubric:
    """A rubric from a list of objects with ``item``, ``weight`` (1 by default) and ``required`` (false by default).

    Items that enter the score need a positive weight among them: the score is a proportion of it.
    """
    if not isinstance(values, (list, tuple)):
        raise BadTypeError(f"rubric must be a list of objects with 'item' and 'weight', not {values!r:.80}")
    if not values:
        raise BadValueError("rubric is an empty list; name at least one item, or leave it out")
    rubric = tuple(_parse_item(value, f"rubric[{index}]") for index, value in enumerate(values))
    seen: dict[str, int] = {}
    for index, row in enumerate(rubric):
        first = seen.setdefault(" ".join(row.text.split()).lower(), index)
        if first != index:
            raise BadValueError(f"rubric[{index}] repeats the item of rubric[{first}]: {row.text!r:.80}")
    scored = scored_items(rubric)
    if scored and not any(item.weight > 0 for item in scored):
        raise BadValueError(
            "rubric has no item with a positive weight that counts in the score (items with 'required: true' do not); "
            "the score would be divided by zero"
        )
    return rubric


def _parse_item(value: object, where: str) -> RubricItem:
    if not isinstance(value, Mapping):
        raise BadTypeError(f"{where} is {value!r:.80}; write an object such as {{item: ..., weight: 2}}")
    for key in value:
        if key not in _KEYS:
            hint = did_you_mean(str(key), _KEYS, otherwise=f"; there are {', '.join(_KEYS)}")
            raise BadValueError(f"{where} has an unknown key {key!r:.40}{hint}")
    text = value.get("item")
    if not isinstance(text, str) or not text.strip():
        raise BadValueError(f"{where} has {text!r:.80} as 'item', which must be a text")
    required = value.get("required", False)
    if not isinstance(required, bool):
        raise BadTypeError(f"{where} has {required!r:.40} as 'required', which must be true or false")
    return RubricItem(text.strip(), _parse_weight(value.get("weight", 1), where), required)


def _parse_weight(value: object, where: str) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise BadTypeError(f"{where} has {value!r:.40} as 'weight', which must be a number")
    if not value:
        raise BadValueError(f"{where} has 0 as 'weight': the item would not count; give it a weight or remove it")
    return Fraction(str(value))  # 0.1 means one tenth, not the nearest binary number


# --- measures of a rubric, exact -------------------------------------------------------------------------------------


def scored_items(rubric: Sequence[RubricItem]) -> Rubric:
    """The items that enter the score."""
    return tuple(item for item in rubric if not item.required)


def required_items(rubric: Sequence[RubricItem]) -> Rubric:
    """The items that are required."""
    return tuple(item for item in rubric if item.required)


def rubric_score(items: Sequence[RubricItem], levels: Sequence[float]) -> Fraction:
    """The weighted levels over the sum of the positive weights; below 0 where faults outweigh the rest.

    >>> rubric_score([RubricItem("a", Fraction(2)), RubricItem("b"), RubricItem("fault", Fraction(-1))], [1, 0.5, 1])
    Fraction(1, 2)
    """
    total = sum((item.weight * Fraction(level) for item, level in zip(items, levels, strict=True)), Fraction(0))
    return total / _positive_weight(items)


def worst_rubric_score(items: Sequence[RubricItem]) -> Fraction:
    """The score of an answer that has every fault and meets nothing else."""
    return sum((item.weight for item in items if item.weight < 0), Fraction(0)) / _positive_weight(items)


def _positive_weight(items: Sequence[RubricItem]) -> Fraction:
    return sum((item.weight for item in items if item.weight > 0), Fraction(0))
