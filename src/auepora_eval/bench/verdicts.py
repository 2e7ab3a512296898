"""Judges with fixed verdicts, for the examples of benchmarks whose numbers need one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..errors import BadValueError
from ..judge.cache import RecordedCritic

_WORD = re.compile(r"[\w-]+")
_SMALL_WORDS = frozenset({"the", "in", "is", "a", "of"})


def content_words(premise: str, hypothesis: str) -> bool:
    """A toy function of entailment: whether the premise has every content word of the hypothesis."""
    known = set(_WORD.findall(premise.lower()))
    return set(_WORD.findall(hypothesis.lower())) - _SMALL_WORDS <= known


def fixed_judges(resources: Mapping[str, Any]) -> dict[str, Any]:
    """The judges of an example."""
    judges: dict[str, Any] = {}
    for name, verdicts in resources.items():
        if verdicts == content_words.__name__:
            judges[name] = content_words
        elif isinstance(verdicts, Mapping):
            judges[name] = RecordedCritic(verdicts)
        else:
            raise BadValueError(f"resources.{name} must be {content_words.__name__} or a verdict per sample")
    return judges
