"""Metrics defined by a prompt: a judge rates inputs of a sample on a scale of numbers or classes."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from ..core.metrics_base import declare, set_metadata
from ..core.registry import register
from ..core.scores import Score
from ..core.types import Document, EvaluationSample, SystemOutputs, TargetCategory
from ..errors import BadOptionError, BadValueError, DataFileError, JudgeError, did_you_mean
from ..judge.critic import Critic
from ..judge.prompting import Frames, Prompt, built_in_prompt, read_prompt
from ..judge.ratings import (
    SCORE,
    ClassScale,
    RatingPrompt,
    RatingScale,
    parse_scale,
    question_frames,
    returns_number_only,
)
from .judged_base import CriticMetric

__all__ = ["JudgeMetric", "RatedInputsMetric"]

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
_NAMED = ("labels", "metadata")
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
    def parse(cls, text: object) -> JudgedInput:
        """Read an input as it is written in a plan."""
        match = _INPUT.fullmatch(text.strip()) if isinstance(text, str) else None
        known = [f"{kind}.NAME" if kind in _NAMED else kind for kind in _INPUTS]
        if match is None or match["kind"] not in _INPUTS:
            hint = did_you_mean(str(text).partition(".")[0].partition("@")[0], _INPUTS)
            raise BadOptionError("inputs", f"there is no input {text!r:.80}{hint}; the inputs are {', '.join(known)}")
        kind, name, k = match["kind"], match["name"] or "", match["k"]
        if (kind in _NAMED) != bool(name):
            problem = f"write {kind}.NAME, not" if kind in _NAMED else f"'{kind}' has no parts:"
            raise BadOptionError("inputs", f"{problem} {text!r:.80}")
        if k is not None and (kind != "documents" or int(k) < 1):
            raise BadOptionError("inputs", f"{text!r:.80}: a number of 1 or more may follow 'documents' alone")
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
            texts = _gold_texts(sample)
            return "empty_gold" if not sample.relevant_docs else None if any(texts) else "no_gold_text"
        if self.kind == "reference" and not any(text.strip() for text in sample.references):
            return "no_reference"
        if self.kind in _NAMED and self._value(sample) is None:
            return f"no_{self.kind.removesuffix('s')}"
        return None

    def frames(self, sample: EvaluationSample, output: SystemOutputs, *, with_history: bool) -> Frames | Score:
        """The texts of this input; a skipped score if the output has none.

        ``with_history`` puts the conversation so far before the question.
        """
        if self.kind == "question":
            return question_frames(sample) if with_history else sample.query
        if self.kind == "history":
            frames = question_frames(sample)
            return {"history": frames["conversation"]} if isinstance(frames, Mapping) else {"history": ""}
        if self.kind == "documents":
            texts = [item.doc.text for item in output.retrieved[: self.k]]
            shown = [text for text in texts if text and text.strip()]
            return Score.skip("no_text") if texts and not shown else shown or {"documents": ""}
        if self.kind == "answer":
            assert output.response is not None  # outputs without a response are skipped before
            return output.response.text
        if self.kind == "reference":
            references = [text for text in sample.references if text.strip()]
            return references[0] if len(references) == 1 else references
        if self.kind == "gold_documents":
            return _gold_texts(sample)
        if self.kind == "steps":
            return [_as_text(step) for step in output.steps] or Score.skip("no_steps")
        return _as_text(self._value(sample))

    def _value(self, sample: EvaluationSample) -> Any:
        return (sample.labels if self.kind == "labels" else sample.metadata).get(self.name)


def _gold_texts(sample: EvaluationSample) -> list[str]:
    def is_relevant(document: Document) -> bool:
        grade = (document.metadata or {}).get("relevance", 1)
        return not isinstance(grade, (int, float)) or grade >= 1

    return [one.text for one in sample.relevant_docs or () if is_relevant(one) and one.text and one.text.strip()]


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def parse_inputs(option: object) -> tuple[JudgedInput, ...]:
    """The inputs of an option, each once."""
    if isinstance(option, str):
        option = [option]
    if not isinstance(option, (list, tuple)) or not option:
        raise BadOptionError("inputs", f"give a list such as [question, documents@5, answer], not {option!r:.80}")
    inputs = tuple(map(JudgedInput.parse, option))
    twice = [slot for slot, count in Counter(one.slot for one in inputs).items() if count > 1]
    if twice:
        raise BadOptionError("inputs", f"'{twice[0]}' is named twice")
    return inputs


def input_skips(*inputs: str) -> dict[str, str]:
    """The skip reasons of a metric with these inputs, for its metadata."""
    kinds = dict.fromkeys(one.kind for one in parse_inputs(inputs))
    return {reason: meaning for kind in kinds for reason, meaning in _INPUTS[kind][2].items()}


# --- the base class of metrics that are a prompt, inputs and a scale -------------------------------------------------


@dataclass(frozen=True)
class RatedInputsMetric(CriticMetric):
    """A metric in which a critic rates inputs of a sample, each in a frame of the prompt.

    A built-in metric sets ``fixed_inputs``, ``target``, the default of ``scale`` and, in its metadata, the name of a
    prompt file in ``judge/prompts`` whose slots are its inputs, ``scale``, ``form`` and those of ``words``.
    """

    scale: Any = field(default=None, kw_only=True, hash=False)

    fixed_inputs: ClassVar[tuple[str, ...]] = ()
    """The inputs, as a plan writes them."""
    metadata = declare(
        output_skips=frozenset({"no_steps"}),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        kinds = [one.kind for one in self.judged_inputs]
        reads = frozenset(filter(None, (_INPUTS[kind][1] for kind in kinds)))
        object.__setattr__(self, "needs_response", "answer" in kinds)
        scale = self.rating_scale
        set_metadata(self, reads=reads, binary=isinstance(scale, ClassScale) and scale.is_binary)

    @staticmethod
    def parse_scale(option: Any) -> Any:
        """The scale that an option describes, as it is written in a spec."""
        scale = parse_scale(option)
        return scale.option if isinstance(scale, ClassScale) else str(scale)

    @property
    def judged_inputs(self) -> tuple[JudgedInput, ...]:
        """The inputs that the judge is shown."""
        return parse_inputs(self.fixed_inputs)

    @property
    def rating_scale(self) -> RatingScale:
        """The scale of the judge's replies."""
        return parse_scale(self.scale)

    @property
    def scale_used(self) -> str:
        """The scale in a signature."""
        return _plain(str(self.rating_scale))

    def words(self) -> Mapping[str, str]:
        """Trusted texts for slots of the prompt besides inputs, scale and form."""
        return {}

    def known_outcome(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """The outcome of a sample that needs no judge; ``None`` if a judge is needed."""
        return None

    def required_fields(self) -> list[str]:
        """The fields of samples that the inputs are read from."""
        return list(dict.fromkeys(filter(None, (_INPUTS[one.kind][0] for one in self.judged_inputs))))

    def applies(self, sample: EvaluationSample) -> str | None:
        """Skips samples that lack an input."""
        return next(filter(None, (one.skip_reason(sample) for one in self.judged_inputs)), None)

    def require_judges(self) -> None:
        """Raise unless there is a critic that can reply on this scale."""
        super().require_judges()
        self.require_replies(self.judging_critic())

    def require_replies(self, critic: Critic) -> None:
        """Raise unless a critic can reply on this scale."""
        scale = self.rating_scale
        if isinstance(scale, ClassScale) and not scale.values and returns_number_only(critic):
            raise BadValueError(
                f"metric '{self.name}' asks for one of the classes {', '.join(scale.labels)}, and its critic replies "
                "with a number: give the classes values, or use a critic that replies with an object"
            )

    def question(self, sample: EvaluationSample, output: SystemOutputs) -> RatingPrompt | Score:
        """The prompt with all inputs in frames."""
        known = self.known_outcome(sample, output)
        if known is not None:
            return known
        with_history = all(one.kind != "history" for one in self.judged_inputs)
        texts: dict[str, Frames] = {}
        for one in self.judged_inputs:
            frames = one.frames(sample, output, with_history=with_history)
            if isinstance(frames, Score):
                return frames
            texts[one.slot] = frames
        return RatingPrompt(
            self.prompt_used,
            {**texts, **self.further_texts()},
            self.rating_scale,
            words=self.words(),
            rationale=self.rationale,
            metric=self.name,
            sample_id=sample.sample_id,
        )

    def further_texts(self) -> Mapping[str, Frames]:
        """Framed texts besides the inputs."""
        return {}

    def signature_options(self) -> dict[str, str]:
        """The judge, the prompt, the scale and the inputs."""
        return {**super().signature_options(), "inputs": _plain(",".join(map(str, self.judged_inputs)))}


def _plain(text: str) -> str:
    """A text without the separators of a signature."""
    return re.sub(r"[|:\s]+", "_", text)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:8]


# --- the metric that is defined in a plan ----------------------------------------------------------------------------


@register("judge_metric")
@dataclass(frozen=True)
class JudgeMetric(RatedInputsMetric):
    r"""A metric of your own: a prompt, the inputs that the judge is shown, and the scale of its replies.

    .. math:: v(\text{class}) \quad\text{or}\quad (x - \text{lowest}) / (\text{highest} - \text{lowest})

    The judge answers the `prompt` about the `inputs`: question, history, documents@k, answer, reference,
    gold_documents, labels.NAME, metadata.NAME and steps. Each input is framed, so that no text in it can pose as an
    instruction. The `scale` is of numbers (`1-5`, `0-1`), `yes-no`, or of classes with values between 0 and 1
    (`{poor: 0, fair: 0.5, good: 1}`). A sample whose question or reference is among the `examples` is skipped. With
    `repeats` the score is the mean over all judgements. A reply that cannot be read is a failed measurement.
    """

    prompt: Any = field(kw_only=True, hash=False)
    """The question to the judge: a text, ``{file: PATH}`` or a ``Prompt``."""
    inputs: Any = field(default=("question", "answer"), kw_only=True)
    """What the judge is shown, in this order."""
    scale: Any = field(default="yes-no", kw_only=True, hash=False)
    """The rating scale: of numbers, ``yes-no``, classes with values, or a list of unordered classes."""
    target: Any = field(default=None, kw_only=True)
    """What the metric evaluates; by default it follows from the inputs."""
    examples: Any = field(default=(), kw_only=True, hash=False)
    """Examples with inputs, ``score`` and perhaps ``rationale``."""

    metadata = declare(
        requires_name=True,
        prompt_names=("judge_metric",),
        skip_reasons={
            **input_skips(*(f"{kind}.NAME" if kind in _NAMED else kind for kind in _INPUTS)),
            "in_examples": "its question or one of its references is among the examples",
        },
    )

    def __post_init__(self) -> None:
        inputs, scale = parse_inputs(self.inputs), self.parse_scale(self.scale)
        object.__setattr__(self, "inputs", tuple(map(str, inputs)))
        object.__setattr__(self, "target", _parse_target(self.target, inputs))
        object.__setattr__(self, "examples", _check_examples(self.examples, inputs, parse_scale(scale)))
        super().__post_init__()

    def load_prompt(self) -> Prompt:
        """The prompt of the option with all that goes around it."""
        return compose_prompt(self.prompt, self.judged_inputs, {"examples": bool(self.examples), "criteria": False})

    @property
    def judged_inputs(self) -> tuple[JudgedInput, ...]:
        """The inputs of the option."""
        return parse_inputs(self.inputs)

    def applies(self, sample: EvaluationSample) -> str | None:
        """Skips samples that lack an input, or are among the examples."""
        known = {_folded(text) for one in self.examples for key in _IDENTIFYING for text in _as_list(one.get(key))}
        if known.intersection(map(_folded, (sample.query, *sample.references))):
            return "in_examples"
        return super().applies(sample)

    def further_texts(self) -> Mapping[str, Frames]:
        """The examples."""
        return {"examples": _example_frames(self.examples, self.judged_inputs)} if self.examples else {}

    def signature_options(self) -> dict[str, str]:
        """The judge, the prompt, the scale, the inputs and the examples."""
        examples = {"examples": f"{len(self.examples)}/{_digest(self.examples)}"} if self.examples else {}
        return {**super().signature_options(), **examples}


def _parse_target(option: object, inputs: Sequence[JudgedInput]) -> TargetCategory:
    """The target of an option; by default that of a metric with these inputs."""
    if isinstance(option, TargetCategory):
        return option
    names = [one.name.lower() for one in TargetCategory]
    if isinstance(option, str) and option.lower() in names:
        return TargetCategory[option.upper()]
    if option is not None:
        hint = did_you_mean(str(option).lower(), names, otherwise=f"; the targets are {', '.join(names)}")
        raise BadOptionError("target", f"there is no target {option!r:.80}{hint}")
    kinds = {one.kind for one in inputs}
    if "answer" not in kinds:
        return TargetCategory.RETRIEVAL_RELEVANCE
    if "reference" in kinds:
        return TargetCategory.GENERATION_CORRECTNESS
    documents = {"documents", "gold_documents"}
    return TargetCategory.GENERATION_FAITHFULNESS if kinds & documents else TargetCategory.GENERATION_RELEVANCE


# --- the prompt: that of the user, and the paragraphs of the built-in one that it lacks ------------------------------

_WORDS = ("scale", "form")
_SLOT_NAMES = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_SECTION = re.compile(r"[^{]*\{\{\w+\}\}[^\n]*")
"""A part of the built-in prompt: a slot, with the heading before it."""


def compose_prompt(option: object, inputs: Sequence[JudgedInput], parts: Mapping[str, bool]) -> Prompt:
    """The prompt of an option (a text, ``{file: PATH}`` or a ``Prompt``) with slots for the inputs, scale and form.

    ``parts`` says whether there are examples and criteria. A prompt that has slots for inputs must name each once;
    other slots that it lacks are added in the order of the built-in prompt.
    """
    own = _own_prompt(option)
    present = {*_WORDS, *(name for name, used in parts.items() if used)}
    known = {*(one.slot for one in inputs), *present}
    counts = Counter(_SLOT_NAMES.findall(own.question) + _SLOT_NAMES.findall(own.system))
    for slot, count in counts.items():
        if slot not in known:
            hint = did_you_mean(slot, known, otherwise=f"; the slots are {', '.join(sorted(known))}")
            raise BadOptionError("prompt", f"nothing goes into the slot {{{{{slot}}}}}{hint}")
        if count > 1:
            raise BadOptionError("prompt", f"the slot {{{{{slot}}}}} comes {count} times; name it once")
    missing = [one.slot for one in inputs if one.slot not in counts]
    if len(missing) < len(inputs) and missing:
        raise BadOptionError(
            "prompt", f"it names some inputs but not {{{{{missing[0]}}}}}: name each input once, or none of them"
        )
    template = built_in_prompt("judge_metric")
    paragraphs = {"task": own.question, "inputs": "\n\n".join(f"{{{{{slot}}}}}" for slot in missing)}
    shown: list[str] = []
    for section in map(str.strip, _SECTION.findall(template.question)):
        (slot,) = _SLOT_NAMES.findall(section)
        if paragraphs.get(slot):
            shown.append(section.replace(f"{{{{{slot}}}}}", paragraphs[slot]))
        elif slot in present and slot not in counts:
            shown.append(section)
    return replace(own, system=own.system or template.system, question="\n\n".join(shown))


def _own_prompt(option: object) -> Prompt:
    if isinstance(option, Prompt):
        return option
    try:
        if isinstance(option, Mapping) and set(option) == {"file"} and isinstance(option["file"], (str, Path)):
            return read_prompt(option["file"])
        if isinstance(option, str) and option.strip():
            return Prompt.parse(option.strip(), name="judge_metric")
    except DataFileError as error:
        raise BadOptionError("prompt", str(error)) from error
    raise BadOptionError("prompt", f"must be a text, {{file: PATH}} or a Prompt, not {option!r:.80}")


# --- examples --------------------------------------------------------------------------------------------------------

_IDENTIFYING = ("question", "reference")
"""Inputs of an example by which samples are recognised."""
_REPLY_KEYS = ("rationale", SCORE)


def _check_examples(option: object, inputs: Sequence[JudgedInput], scale: RatingScale) -> tuple[dict[str, Any], ...]:
    """The examples, each with every input and a score on the scale."""
    if not isinstance(option, (list, tuple)):
        raise BadOptionError("examples", f"must be a list of mappings with inputs and score, not {option!r:.80}")
    return tuple(_check_example(one, f"examples[{n}]", inputs, scale) for n, one in enumerate(option))


def _check_example(example: object, where: str, inputs: Sequence[JudgedInput], scale: RatingScale) -> dict[str, Any]:
    if not isinstance(example, Mapping):
        raise BadOptionError(where, f"must be a mapping with inputs and score, not {example!r:.80}")
    keys = [one.key for one in inputs]
    for key, value in example.items():
        if key not in (*keys, *_REPLY_KEYS):
            names = ", ".join((*keys, *_REPLY_KEYS))
            raise BadOptionError(f"{where}.{key}", f"is not among {names}{did_you_mean(str(key), keys)}")
        if key != SCORE and not all(isinstance(text, str) for text in _as_list(value)):
            raise BadOptionError(f"{where}.{key}", f"must be a text or a list of texts, not {value!r:.80}")
    for one in inputs:
        if one.key not in example and one.kind != "history":
            raise BadOptionError(where, f"lacks '{one.key}', which is among the inputs")
    if SCORE not in example:
        raise BadOptionError(where, f"lacks '{SCORE}', which the judge should give")
    score = example[SCORE]
    if isinstance(score, bool) and isinstance(scale, ClassScale):
        score = "yes" if score else "no"  # YAML reads a bare yes or no as a boolean
    try:
        scale.normalise(score)
        if isinstance(scale, ClassScale) != isinstance(score, str):
            raise JudgeError("unparseable", "")
    except JudgeError:
        raise BadOptionError(f"{where}.{SCORE}", f"{score!r:.80} is not on the scale: {scale.description}") from None
    return {**example, SCORE: score}


def _example_frames(examples: Sequence[Mapping[str, Any]], inputs: Sequence[JudgedInput]) -> dict[str, str]:
    """The texts of all examples, each with the reply after its inputs."""
    frames: dict[str, str] = {}
    for number, example in enumerate(examples, 1):
        for one in inputs:
            texts = _as_list(example.get(one.key))
            for place, text in enumerate(texts, 1):
                frames[f"example {number} {one.slot}" + (f" {place}" if len(texts) > 1 else "")] = text
        reply = {key: example[key] for key in _REPLY_KEYS if key in example}
        frames[f"example {number} reply"] = json.dumps(reply, ensure_ascii=False)
    return frames


def _as_list(value: object) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
