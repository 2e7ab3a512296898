"""Metrics in which a judge rates inputs of a sample: the inputs, and the base class of these metrics."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..core.conventions import SignatureOption, signature_text
from ..core.derivation import (
    Cell,
    Derivation,
    DerivationBuilder,
    ExplainContext,
    add_judgements,
    format_number,
    plain_value,
    quote_text,
)
from ..core.metrics_base import declare, set_metadata
from ..core.scores import Score
from ..core.types import Document, EvaluationSample, SystemOutputs, TargetCategory, response_text
from ..errors import BadOptionError, BadValueError, did_you_mean
from ..features.rankings import parse_level
from ..judge.critic import JudgeClient, require_options
from ..judge.metric import add_mean_step, replay_repeats
from ..judge.prompting import Frames
from ..judge.ratings import (
    ClassScale,
    RatingPrompt,
    RatingScale,
    parse_scale,
    question_frames,
    request_rating,
    returns_number_only,
    run_repeats,
)
from .judged_base import RepeatedJudgementMetric

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
    twice = [slot for slot, count in Counter(shown.slot for shown in inputs).items() if count > 1]
    if twice:
        raise BadOptionError("inputs", f"'{twice[0]}' is named twice")
    return inputs


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


# --- the base class of metrics that are a prompt, inputs and a scale -------------------------------------------------


def plain_text(value: object) -> str:
    """A value as text without the separators of a signature."""
    return re.sub(r"[|:\s]+", "_", signature_text(value))


@dataclass(frozen=True)
class RatingMetric(RepeatedJudgementMetric):
    """A metric in which a critic rates inputs of a sample on a scale, each in a frame of the prompt.

    A built-in metric sets ``fixed_inputs``, ``target``, the default of ``scale`` and, in its metadata, the name of a
    prompt file in ``judge/prompts`` whose slots are its inputs, ``scale``, ``form`` and those of ``words``. One that
    asks about something else has no ``fixed_inputs``, and a ``question`` of its own.
    """

    critic: Any = field(default=None, hash=False)
    """The judge: an ``LLMCritic``, a ``StructuredCritic``, or ``{use: NAME}`` in a plan."""
    scale: Any = field(default=None, kw_only=True, hash=False)
    """The rating scale, the worst value first."""
    rationale: bool = field(default=True, kw_only=True)
    """Whether a structured critic is asked for a rationale before the score."""
    prompt: Any = field(default=None, kw_only=True, hash=False)
    """A custom prompt: the path of a file, or a ``Prompt``."""

    shares_requests: ClassVar[bool] = False  # no two metrics ask for the same rating

    fixed_inputs: ClassVar[tuple[str, ...]] = ()
    """The inputs, as a plan writes them."""
    metadata = declare(
        output_skips=frozenset({"no_steps"}),
        signature={
            "scale": "scale_used",
            "rationale": SignatureOption("rationale", unless=True),
            "inputs": SignatureOption("judged_inputs", unless=(), write=plain_text),
        },
    )

    def __post_init__(self) -> None:
        if self.scale is not None:
            object.__setattr__(self, "scale", self.parse_scale(self.scale))
        super().__post_init__()
        kinds = [shown.kind for shown in self.judged_inputs]
        if kinds:
            reads = frozenset(filter(None, (_INPUTS[kind][1] for kind in kinds)))
            object.__setattr__(self, "needs_response", "answer" in kinds)
            set_metadata(self, reads=reads, binary=self.rating_scale.is_binary)

    @staticmethod
    def parse_scale(option: Any) -> Any:
        """The scale that an option describes, as it is written in a spec."""
        scale = parse_scale(option)
        return scale.option if isinstance(scale, ClassScale) else str(scale)

    @property
    def judged_inputs(self) -> tuple[JudgedInput, ...]:
        """The inputs that the judge is shown."""
        return parse_inputs(self.fixed_inputs) if self.fixed_inputs else ()

    @property
    def rating_scale(self) -> RatingScale:
        """The scale of the judge's replies."""
        return parse_scale(self.scale)

    @property
    def scale_used(self) -> str:
        """The scale in a signature."""
        return plain_text(str(self.rating_scale))

    def words(self) -> Mapping[str, str]:
        """Trusted texts for slots of the prompt besides inputs, scale and form."""
        return {}

    def known_outcome(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """The outcome of a sample that needs no judge; ``None`` if a judge is needed."""
        return None

    def required_fields(self) -> list[str]:
        """The fields of samples that the inputs are read from."""
        return list(dict.fromkeys(filter(None, (_INPUTS[shown.kind][0] for shown in self.judged_inputs))))

    def applies(self, sample: EvaluationSample) -> str | None:
        """Skips samples that lack an input."""
        reasons = (super().applies(sample), *(shown.skip_reason(sample) for shown in self.judged_inputs))
        return next(filter(None, reasons), None)

    @property
    def control_kinds(self) -> Mapping[str, bool]:
        """Those of the target, as far as the judge is shown what an answer or the documents are compared with."""
        kinds, scale = {shown.kind for shown in self.judged_inputs}, self.rating_scale
        if self.metadata.controls is None and ("steps" in kinds or scale.unordered):
            return {}
        if self.metadata.controls is not None or "answer" not in kinds:
            return super().control_kinds
        compared = {"question"} if self.target is TargetCategory.GENERATION_RELEVANCE else _EVIDENCE
        return super().control_kinds if kinds & compared else {}

    def require_judges(self) -> None:
        """Raise unless there is a critic that can reply on this scale."""
        super().require_judges()
        critic, scale = self.judging_critic(), self.rating_scale
        require_options(critic, scale.options, scale.description, self.name)
        if scale.unordered and returns_number_only(critic):
            raise BadValueError(
                f"metric '{self.name}' asks for one of the classes {', '.join(scale.unordered)}, and its critic "
                "replies with a number: give the classes values, or use a critic that replies with an object"
            )

    def question(self, sample: EvaluationSample, output: SystemOutputs) -> RatingPrompt | Score:
        """The prompt with all inputs in frames."""
        known = self.known_outcome(sample, output)
        if known is not None:
            return known
        with_history = all(shown.kind != "history" for shown in self.judged_inputs)
        texts: dict[str, Frames] = {}
        for shown in self.judged_inputs:
            frames = shown.frames(sample, output, with_history=with_history)
            if isinstance(frames, Score):
                return frames
            texts[shown.slot] = frames
        return RatingPrompt(
            self.prompt_used,
            texts,
            self.rating_scale,
            words=self.words(),
            rationale=self.rationale,
            metric=self.name,
            sample_id=sample.sample_id,
        )

    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient) -> Score:
        """The mean over the judgements of one sample."""
        question = self.question(sample, output)
        if isinstance(question, Score):
            return question
        critic = self.judging_critic()
        ratings, requested = await run_repeats(judge, lambda repeat: request_rating(judge, critic, question, repeat))
        return self.score_ratings(ratings, requested)

    def replay(self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext) -> Derivation | None:
        """The stored ratings, rescaled to [0, 1], and their mean."""
        metric = self.with_replay_critics(around.judgements)
        question = metric.question(sample, output)
        steps = DerivationBuilder()
        if isinstance(question, Score):
            assert question.value is not None
            return steps.finish(f"No calls were needed: {format_number(question.value)}", question.value)
        ratings = replay_repeats(
            around.judgements, lambda judge, repeat: request_rating(judge, metric.critic, question, repeat)
        )
        if ratings is None:
            return None
        for name, text in question.texts.items():
            if isinstance(text, str):
                steps.add_step(f"The judge was shown as {name}: {quote_text(text)}")
            elif not isinstance(text, Mapping):
                steps.add_step(f"The judge was shown as {name}: {len(text)} texts")
        add_judgements(steps, around.judgements)
        aggregation = getattr(self, "aggregation", "")
        rows: list[tuple[Cell, ...]] = [(n + 1, *rating.values, metric.combine(rating.values)) for n, rating in ratings]
        steps.table(
            question.scale.conversion + (f", combined by {aggregation}" if aggregation else ""),
            ("time", *question.scored_names, "together"),
            rows,
        )
        return add_mean_step(steps, [metric.combine(rating.values) for _, rating in ratings])
