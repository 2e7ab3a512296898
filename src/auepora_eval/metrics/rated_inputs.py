"""Inputs of a sample that a judge rates: how a plan writes them, their texts, and what they require."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..core.conventions import signature_text
from ..core.derivation import plain_value
from ..core.metrics_base import BatchMetric, set_metadata
from ..core.scores import Score
from ..core.types import Document, EvaluationSample, SystemOutputs, TargetCategory, response_text
from ..errors import BadOptionError, BadValueError, did_you_mean
from ..features.rankings import parse_level
from ..judge.critic import Critic, require_options
from ..judge.prompting import Frames
from ..judge.ratings import RatingScale, question_frames, returns_number_only

# --- inputs: the parts of a sample and its output that a judge is shown ----------------------------------------------

_INPUTS: dict[str, tuple[str, str, dict[str, str]]] = {
    "question": ("", "", {}),
    "history": ("", "", {}),
    "documents": ("", "retrieved", {"no_text": "the documents have no text"}),
    "answer": ("", "response", {"no_response": "no answer was asked for"}),
    "reference": ("reference_answer", "", {"no_reference": "the sample has no reference answer"}),
    "gold_documents": (
        "relevant_docs",
        "",
        {
            "no_gold": "`relevant_docs` is not annotated",
            "empty_gold": "nothing is relevant",
            "no_gold_text": "the relevant documents have no text",
        },
    ),
    "labels": ("", "", {"no_label": "the sample lacks a label that the judge is shown"}),
    "metadata": ("", "", {"no_metadata": "the sample lacks metadata that the judge is shown"}),
    "steps": ("", "steps", {"no_steps": "the output has no steps"}),
}
"""By kind of input: the required field of samples, the field of outputs that is read, and the skip reasons."""
NAMED = ("labels", "metadata")
_INPUT = re.compile(r"(?P<kind>[a-z_]+)(?:\.(?P<name>.+)|@(?P<k>\d+))?")


@dataclass(frozen=True, slots=True)
class JudgedInput:
    """A part of a sample or output that a judge is shown: ``question``, ``documents@5``, ``labels.tier``."""

    kind: str
    name: str = ""
    """The label or key of the metadata."""
    k: int | None = None
    """How many of the retrieved documents are shown; all by default."""

    @classmethod
    def parse(cls, text: object, where: str = "inputs") -> JudgedInput:
        """Read an input as it is written in a plan; ``where`` is its place for errors."""
        match = _INPUT.fullmatch(text.strip()) if isinstance(text, str) else None
        if match is None or match["kind"] not in _INPUTS:
            name = str(text).partition(".")[0].partition("@")[0]
            hint = did_you_mean(name, _INPUTS, otherwise=f"; the inputs are {', '.join(every_input())}")
            raise BadOptionError(where, f"there is no input {text!r:.80}{hint}")
        kind, name, k = match["kind"], match["name"] or "", match["k"]
        if (kind in NAMED) != bool(name):
            problem = f"write {kind}.NAME, not" if kind in NAMED else f"'{kind}' has no parts:"
            raise BadOptionError(where, f"{problem} {text!r:.80}")
        if k is not None and (kind != "documents" or int(k) < 1):
            raise BadOptionError(where, f"{text!r:.80}: a number of 1 or more may follow 'documents' alone")
        return cls(kind, name, None if k is None else int(k))

    def __str__(self) -> str:
        return f"{self.key}@{self.k}" if self.k is not None else self.key

    @property
    def key(self) -> str:
        """The input without its number of documents, as examples name it."""
        return f"{self.kind}.{self.name}" if self.name else self.kind

    @property
    def slot(self) -> str:
        """The slot of a prompt that this input goes into."""
        return re.sub(r"\W", "_", self.key)

    def skip_reason(self, sample: EvaluationSample) -> str | None:
        """Why a sample lacks this input, whatever the output is; ``None`` if it has it."""
        if self.kind == "gold_documents":
            gold = _relevant_documents(sample)
            return "empty_gold" if not gold else None if _texts(gold) else "no_gold_text"
        if self.kind == "reference" and not any(text.strip() for text in sample.references):
            return "no_reference"
        if self.kind in NAMED and self._value(sample) is None:
            return f"no_{self.kind.removesuffix('s')}"
        return None

    def frames(self, sample: EvaluationSample, output: SystemOutputs, *, with_history: bool) -> Frames | Score:
        """The texts of this input; a skipped score if the output has none.

        ``with_history`` puts the conversation so far before the question.
        """
        match self.kind:
            case "question":
                return question_frames(sample) if with_history else sample.query
            case "history":
                frames = question_frames(sample)
                return {"history": frames["conversation"]} if isinstance(frames, Mapping) else {"history": ""}
            case "documents":
                documents = [item.doc for item in output.retrieved[: self.k]]
                shown = _texts(documents)
                return Score.skip("no_text") if documents and not shown else shown or {"documents": ""}
            case "answer":
                return response_text(output)
            case "reference":
                references = [text for text in sample.references if text.strip()]
                return references[0] if len(references) == 1 else references
            case "gold_documents":
                return _texts(_relevant_documents(sample))
            case "steps":
                return [plain_value(step) for step in output.steps] or Score.skip("no_steps")
        return plain_value(self._value(sample))

    def _value(self, sample: EvaluationSample) -> Any:
        return (sample.labels if self.kind == "labels" else sample.metadata).get(self.name)


def _relevant_documents(sample: EvaluationSample) -> list[Document]:
    def grade(document: Document) -> int:
        level = (document.metadata or {}).get("relevance", 1)
        return parse_level(level, document.doc_id, sample.sample_id)

    return [document for document in sample.relevant_docs or () if grade(document) >= 1]


def _texts(documents: Sequence[Document]) -> list[str]:
    return [document.text for document in documents if document.text and document.text.strip()]


def parse_inputs(option: object) -> tuple[JudgedInput, ...]:
    """The inputs of an option, each once."""
    if isinstance(option, str):
        option = [option]
    if not isinstance(option, (list, tuple)) or not option:
        raise BadOptionError("inputs", f"give a list such as [question, documents@5, answer], not {option!r:.80}")
    inputs = tuple(JudgedInput.parse(text, f"inputs[{place}]") for place, text in enumerate(option))
    counts = Counter(shown.slot for shown in inputs)
    twice = [slot for slot, count in counts.items() if count > 1]
    if twice:
        raise BadOptionError("inputs", f"'{twice[0]}' is named twice")
    return inputs


@lru_cache(maxsize=256)
def known_inputs(names: tuple[str, ...]) -> tuple[JudgedInput, ...]:
    """The inputs of a metric, which are checked already; read for every sample."""
    return parse_inputs(names) if names else ()


def input_skips(*inputs: str) -> dict[str, str]:
    """The skip reasons of a metric with these inputs, for its metadata."""
    reasons: dict[str, str] = {}
    for shown in parse_inputs(inputs):
        reasons |= _INPUTS[shown.kind][2]
    return reasons


def every_input() -> list[str]:
    """An input of every kind, as a plan writes it."""
    return [f"{kind}.NAME" if kind in NAMED else kind for kind in _INPUTS]


_EVIDENCE = {"documents", "gold_documents", "reference"}
"""Inputs that show whether an answer is right."""


# --- inputs and scale of a metric: what they require and exclude, and the question to a judge ------------------------


def plain_text(value: object) -> str:
    """A value as text without the separators of a signature."""
    return re.sub(r"[|:\s]+", "_", signature_text(value))


@dataclass(frozen=True, slots=True)
class RatedInputs:
    """The inputs that a judge is shown, and the scale that it rates them on."""

    inputs: tuple[JudgedInput, ...]
    scale: RatingScale

    @property
    def kinds(self) -> set[str]:
        """The kinds of the inputs."""
        return {shown.kind for shown in self.inputs}

    def declare_for(self, metric: BatchMetric) -> None:
        """Declare what a metric with these inputs reads, and whether its scores are 0 or 1."""
        if self.inputs:
            reads = frozenset(filter(None, (_INPUTS[kind][1] for kind in self.kinds)))
            object.__setattr__(metric, "needs_response", "answer" in self.kinds)
            set_metadata(metric, reads=reads, binary=self.scale.is_binary)

    @property
    def required_fields(self) -> list[str]:
        """The fields of samples that the inputs are read from."""
        return list(dict.fromkeys(filter(None, (_INPUTS[shown.kind][0] for shown in self.inputs))))

    def skip_reason(self, sample: EvaluationSample) -> str | None:
        """Why a sample lacks one of the inputs; ``None`` if it has all."""
        return next(filter(None, (shown.skip_reason(sample) for shown in self.inputs)), None)

    def frames(self, sample: EvaluationSample, output: SystemOutputs) -> dict[str, Frames] | Score:
        """The texts by the slot of the prompt that they go into; a skipped score if the output lacks one."""
        texts: dict[str, Frames] = {}
        with_history = "history" not in self.kinds
        for shown in self.inputs:
            frames = shown.frames(sample, output, with_history=with_history)
            if isinstance(frames, Score):
                return frames
            texts[shown.slot] = frames
        return texts

    def has_certain_controls(self, target: TargetCategory) -> bool:
        """Whether the judge is shown what an answer or the documents of a control item are compared with."""
        if "steps" in self.kinds or self.scale.unordered:
            return False
        compared = {"question"} if target is TargetCategory.GENERATION_RELEVANCE else _EVIDENCE
        return "answer" not in self.kinds or bool(self.kinds & compared)

    def require_critic(self, critic: Critic, metric: str) -> None:
        """Raise unless a critic can reply on the scale."""
        require_options(critic, self.scale.options, self.scale.description, metric)
        if self.scale.unordered and returns_number_only(critic):
            raise BadValueError(
                f"metric '{metric}' asks for one of the classes {', '.join(self.scale.unordered)}, and its critic "
                "replies with a number: give the classes values, or use a critic that replies with an object"
            )
