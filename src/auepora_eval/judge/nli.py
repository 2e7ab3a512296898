"""NLI functions and models that take the place of a judge: the probability that a premise entails a statement."""

from __future__ import annotations

import asyncio
import inspect
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np

from ..core.conventions import function_name
from ..errors import JudgeError
from ..features.embeddings import InferenceFailure
from ..models.embedders import Floats, PairModel, entailment_index
from ..models.loading import build_with_options, given_options
from ..options import Gt, Le, check_options
from ..runtime.processes import DaemonThreadPool
from .critic import as_judge_error, check_number

# A batch scores all its samples at once: without a limit there would be a thread for each.
_FUNCTION_POOL = DaemonThreadPool(16)
_MODEL_POOL = DaemonThreadPool(1)
"""One thread: a single model call already uses the whole machine."""


@dataclass(frozen=True, slots=True)
class EntailmentScore:
    """The probability that the evidence entails a statement."""

    probability: float
    cut: bool = False
    """Whether the texts were truncated to the model's input length."""


Threshold = Annotated[float, Gt(0), Le(1)]
"""From this probability on the evidence entails a statement."""


@dataclass(frozen=True)
class EntailmentFunction:
    """An NLI function ``(premise, hypothesis) -> float | bool``, plain or async, and its decision threshold.

    The premise is all evidence as one string. The function may be called from several threads at once. An exception is
    a failed measurement, and so is a number outside [0, 1].
    """

    function: Callable[[str, str], Any]
    threshold: Threshold = 0.5

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def identity(self) -> str:
        """Shown in signatures: the function, and the threshold if it is not 0.5."""
        name = function_name(self.function).replace("|", "/")
        return name if self.threshold == 0.5 else f"{name} from {self.threshold:g}"

    async def score(self, evidence: Sequence[str], statements: Sequence[str]) -> list[EntailmentScore]:
        """The score of each statement, with all evidence as one premise."""
        premise = "\n".join(evidence)
        if inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(
            getattr(self.function, "__call__", None)  # noqa: B004 -- an object whose call is async
        ):
            return [_check_probability(await self._call_async(premise, one)) for one in statements]
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(_FUNCTION_POOL, lambda: [self._call(premise, one) for one in statements])
        return list(map(_check_probability, found))

    async def _call_async(self, premise: str, statement: str) -> Any:
        try:
            return await self.function(premise, statement)
        except (Exception, SystemExit) as error:
            raise as_judge_error(error) from error

    def _call(self, premise: str, statement: str) -> Any:
        try:
            return self.function(premise, statement)
        except (Exception, SystemExit) as error:  # a SystemExit here would stop the event loop
            raise as_judge_error(error) from error


def _check_probability(value: Any) -> EntailmentScore:
    """The result of an NLI function, checked to be a probability."""
    number = float(value) if isinstance(value, bool) else value
    return EntailmentScore(check_number(number, 0.0, 1.0, "the function of entailment gave"))


def select_premises(texts: Sequence[str], evidence: Literal["joined", "each"]) -> list[str]:
    """The premises of a statement: all texts as one, or each distinct text."""
    return ["\n".join(texts)] if evidence == "joined" and texts else list(dict.fromkeys(texts))


def label_probability(logits: Floats, index: int) -> float:
    """The softmax probability of one label."""
    weights = np.exp(logits - logits.max())
    return float(weights[index] / weights.sum())


@dataclass(frozen=True)
class NliModel(PairModel):
    """An NLI model, by the path of its folder or its hub name; nothing is downloaded unless allowed.

    With ``evidence="joined"`` all evidence is one premise, which may exceed the model's input length; with ``each`` a
    statement gets the highest score over the evidence texts. A plan writes ``{nli: PATH}``, or
    ``{nli: {model: PATH, threshold: 0.7}}``.
    """

    threshold: Threshold = field(default=0.5, kw_only=True)
    evidence: Literal["joined", "each"] = field(default="joined", kw_only=True)
    entailment_label: str | None = field(default=None, kw_only=True)

    @classmethod
    def parse(cls, options: object) -> NliModel:
        """The model that a plan describes under ``nli:``, by its path or its options."""
        is_path = isinstance(options, (str, os.PathLike))
        return build_with_options(cls, "nli", {"model": options} if is_path else options)

    @property
    def identity(self) -> str:
        """Shown in signatures: the model and the options that are not defaults."""
        parts = ["nli", super().identity]
        parts += [] if self.threshold == 0.5 else [f"from {self.threshold:g}"]
        parts += [] if self.evidence == "joined" else [self.evidence]
        parts += [] if self.entailment_label is None else [f"label={self.entailment_label}"]
        return " ".join(parts).replace("|", "/")

    def spec(self) -> dict[str, Any]:
        """The description in a plan."""
        given = given_options(self)
        return {"nli": self.model if set(given) == {"model"} else given}

    def require_ready(self) -> None:
        """Raise unless the packages and the model are available and it has an entailment label."""
        entailment_index(self.loaded(), self.entailment_label)

    async def score(self, evidence: Sequence[str], statements: Sequence[str]) -> list[EntailmentScore]:
        """The score of each statement."""
        premises = select_premises(evidence, self.evidence)
        return await asyncio.get_running_loop().run_in_executor(_MODEL_POOL, self._score, premises, statements)

    def _score(self, premises: Sequence[str], statements: Sequence[str]) -> list[EntailmentScore]:
        pairs = [(premise, statement) for statement in statements for premise in premises]
        label_index = entailment_index(self.loaded(), self.entailment_label)
        logits = self.logits(pairs)
        probabilities, cut = [], []
        for one in logits:
            if isinstance(one, InferenceFailure):
                raise JudgeError(one.reason, one.message)
            probabilities.append(label_probability(one[0], label_index))
            cut.append(one[1])
        if any(map(math.isnan, probabilities)):
            raise JudgeError("not_a_number", f"the model {self.model} gave no number for a pair of texts")
        width = len(premises)
        return [
            EntailmentScore(max(probabilities[start : start + width]), any(cut[start : start + width]))
            for start in range(0, len(pairs), width)
        ]
