"""Judges with fixed verdicts, for the examples of benchmarks whose numbers need one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..errors import BadValueError, JudgeError
from ..judge.critic import Judgement, JudgeRequest, StructuredCritic

_WORD = re.compile(r"[\w-]+")
_SMALL_WORDS = frozenset({"the", "in", "is", "a", "of"})


class FixedCritic(StructuredCritic):
    """A critic that gives each sample its verdict: a number, or the values of a reply by key."""

    name = "fixed"

    def __init__(self, verdicts: Mapping[str, Any]) -> None:
        self.verdicts = dict(verdicts)

    async def judge(self, request: JudgeRequest) -> Judgement:
        """The verdict on the sample of a request."""
        if request.sample_id not in self.verdicts:
            raise JudgeError("no_verdict", f"there is no verdict on the sample '{request.sample_id}'")
        verdict = self.verdicts[request.sample_id]
        if not isinstance(verdict, Mapping):
            verdict = {"score": verdict}
        return Judgement(verdict)


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
            judges[name] = FixedCritic(verdicts)
        else:
            raise BadValueError(f"resources.{name} must be {content_words.__name__} or a verdict per sample")
    return judges
