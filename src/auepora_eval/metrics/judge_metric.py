"""Metrics defined by a prompt: a judge rates inputs of a sample on a scale of numbers or classes."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain, product
from pathlib import Path
from typing import Any, ClassVar

from ..core.conventions import SignatureOption
from ..core.metrics_base import declare, set_metadata
from ..core.registry import register
from ..core.scores import Score
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..errors import BadOptionError, BadValueError, DataFileError, JudgeError, did_you_mean
from ..judge.controls import parse_control_kinds
from ..judge.prompting import SLOT, Prompt, built_in_prompt, read_prompt
from ..judge.ratings import (
    SCORE,
    ClassScale,
    RatingPrompt,
    RatingScale,
    parse_scale,
)
from ..options import PositiveFloat
from ..runtime.imports import find_file
from .judged_base import RATING_SIGNATURE, RepeatedJudgementMetric, scale_option
from .rated_inputs import (
    NAMED,
    JudgedInput,
    RatedInputs,
    every_input,
    input_skips,
    known_inputs,
    parse_inputs,
    plain_text,
)

__all__ = ["JudgeMetric"]

# --- the metric that is defined in a plan ----------------------------------------------------------------------------


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:8]


def _criteria_text(criteria: Mapping[str, str]) -> str:
    return f"{plain_text(list(criteria))}/{_digest(criteria)}"


def _examples_text(examples: Sequence[Mapping[str, Any]]) -> str:
    return f"{len(examples)}/{_digest(examples)}"


@register("judge_metric")
@dataclass(frozen=True)
class JudgeMetric(RepeatedJudgementMetric):
    r"""A metric of your own: a prompt, the inputs that the judge is shown, and the scale of its replies.

    .. math:: (x - \text{lowest}) / (\text{highest} - \text{lowest})

    It must have a `name`; `{judge_metric: {file: tone.yaml}}` reads its options from a file. The judge answers the
    `prompt` about the `inputs`: question, history, documents@k, answer, reference, gold_documents, labels.NAME,
    metadata.NAME and steps. Each input is framed, so that no text in it can pose as an instruction. The reply is a
    number x on the `scale` (`1-5`, `0-1`) or one of its classes, whose score is the value of the class: `yes-no`, or
    classes with values between 0 and 1 (`{poor: 0, fair: 0.5, good: 1}`). A sample whose question or reference is among
    the `examples` is skipped. With `repeats` the score is the mean over all judgements. A reply that cannot be read is
    a failed measurement.

    With `criteria` the judge gives one score each in the same reply, and there is one metric per criterion, such as
    `tone[politeness]`. Of unordered classes (`scale: [billing, technical, other]`) there is one metric per class: the
    proportion of samples in it. These metrics share their requests.
    """

    scale: Any = field(default="yes-no", kw_only=True, hash=False, metadata={"convert": scale_option})
    """The rating scale: of numbers, ``yes-no``, classes with values, or a list of unordered classes."""
    rationale: bool = field(default=True, kw_only=True)
    """Whether a structured critic is asked for a rationale before the score."""
    prompt: Any = field(kw_only=True, hash=False)
    """The question to the judge: a text, ``{file: PATH}`` or a ``Prompt``."""
    inputs: Any = field(default=("question", "answer"), kw_only=True)
    """What the judge is shown, in this order."""
    target: Any = field(default=None, kw_only=True)
    """What the metric evaluates; by default it follows from the inputs."""
    criteria: Any = field(default=None, kw_only=True, hash=False)
    """Criteria with their descriptions: the judge gives one score each."""
    part: str | None = field(default=None, kw_only=True)
    """The criterion, or the unordered class, that this metric reports; a plan needs only ``criteria`` or ``scale``."""
    examples: Any = field(default=(), kw_only=True, hash=False)
    """Examples with inputs, ``score`` and perhaps ``rationale``."""
    threshold: PositiveFloat | None = field(default=None, kw_only=True)
    """Score 1 from this value on and 0 below it: a proportion of samples in place of a mean."""
    controls: Any = field(default=None, kw_only=True, hash=False)
    """Kinds of control items, each with `accept` or `reject`; those of the target by default, none with `false`."""

    metadata = declare(
        requires_name=True,
        reads_files=True,
        prompt_names=("judge_metric",),
        skip_reasons={
            **input_skips(*every_input()),
            "in_examples": "its question or one of its references is among the examples",
        },
        failure_note="counts at the worst value; it is in no unordered class, and leaves their proportions",
        option_help={
            "scale": "the numbers or classes that the judge chooses from",
            "criteria": "the criteria of one reply, and a digest of their descriptions",
            "part": "the criterion or class that is reported",
            "threshold": "the value from which on the score is 1, otherwise 0",
            "examples": "the number of examples in the prompt, and their digest",
        },
        output_skips=frozenset({"no_steps"}),
        signature={
            **RATING_SIGNATURE,
            "threshold": "threshold",
            "criteria": SignatureOption("criteria", write=_criteria_text),
            "part": SignatureOption("part", write=plain_text),
            "examples": SignatureOption("examples", unless=(), write=_examples_text),
        },
    )
    _prompt_options: ClassVar[tuple[str, ...]] = ()  # the option itself contains the text of a file

    def __post_init__(self) -> None:
        inputs, scale = parse_inputs(self.inputs), parse_scale(self.scale)
        criteria = _check_criteria(self.criteria)
        if scale.unordered and criteria:
            raise BadOptionError("scale", "criteria need numbers, or classes with values")
        if isinstance(self.part, str) and self.part not in (scale.unordered or criteria or ()):
            raise BadOptionError("part", f"{self.part!r:.80} is neither a criterion nor an unordered class")
        object.__setattr__(self, "inputs", tuple(map(str, inputs)))
        object.__setattr__(self, "target", _parse_target(self.target, inputs))
        object.__setattr__(self, "criteria", criteria)
        object.__setattr__(self, "prompt", _prompt_option(self.prompt))
        object.__setattr__(self, "examples", _check_examples(self.examples, inputs, scale, tuple(criteria or ())))
        super().__post_init__()
        if self.threshold is not None and self.threshold > 1:
            raise BadOptionError("threshold", f"must be above 0 and at most 1, not {self.threshold!r:.80}")
        if criteria and self.part is None:
            set_metadata(self, binary=self.threshold is not None)
        elif scale.unordered:  # a failed answer is in no class
            set_metadata(self, binary=True, counts_system_failures=False, has_direction=False)
        elif self.threshold is not None:
            set_metadata(self, binary=True)
        if self.controls is not None:
            set_metadata(self, controls=parse_control_kinds(self.controls))

    @classmethod
    def read_options(cls, options: Mapping[str, Any]) -> tuple[dict[str, Any], OptionFile | None]:
        """The options of a spec, together with those of the file that it names."""
        if "file" not in options:
            return dict(options), None
        source = OptionFile.read(options["file"])
        given = {key: value for key, value in options.items() if key != "file"}
        from_file = {key: value for key, value in source.options.items() if key not in given}
        return {**from_file, **given}, replace(source, options=from_file)

    def _load_prompts(self) -> tuple[Prompt, ...]:
        """The prompt of the option with all that goes around it."""
        parts = {"examples": bool(self.examples), "criteria": bool(self.criteria)}
        return (compose_prompt(self.prompt, parse_inputs(self.inputs), parts),)

    @property
    def rating_scale(self) -> RatingScale:
        """The scale of the judge's replies; unordered classes have the values 0 and 1 of one class."""
        scale = parse_scale(self.scale)
        return replace(scale, only=self.part or "") if isinstance(scale, ClassScale) and scale.unordered else scale

    @property
    def _rated(self) -> RatedInputs:
        return RatedInputs(known_inputs(self.inputs), self.rating_scale)

    @property
    def scale_formula(self) -> str | None:
        """The formula of the score on a scale of classes; ``None`` for numbers, which the docstring describes."""
        scale = self.rating_scale
        if not isinstance(scale, ClassScale):
            return None
        if scale.only:
            return rf"[\text{{the class is {plain_text(scale.only)}}}]"
        pairs = zip(scale.values, scale.labels, strict=False)
        return r", \; ".join(rf"{value:g} \text{{ if {plain_text(label)}}}" for value, label in pairs) or None

    @property
    def _dimension_names(self) -> tuple[str, ...]:
        """The criteria, where the score is their mean."""
        return tuple(self.criteria or ()) if self.part is None else ()

    def combine(self, values: Sequence[float]) -> float:
        """The score of the criterion, or the mean over all criteria; 1 or 0 with a threshold."""
        mean = math.fsum(values) / len(values)
        return mean if self.threshold is None else float(mean >= self.threshold)

    def expand(self) -> Sequence[JudgeMetric]:
        """One metric per criterion or unordered class; the metric itself if there are none."""
        names = tuple(self.criteria or ()) or self.rating_scale.unordered
        if self.part is not None or not names:
            return (self,)
        options = {field.name: getattr(self, field.name) for field in fields(self) if field.init}
        return [type(self)(**{**options, "part": name}, name=f"{self.name}[{name}]") for name in names]

    def _require_judges(self) -> None:
        super()._require_judges()
        classes = self.rating_scale.unordered
        if classes and self.part is None:
            raise BadValueError(
                f"metric '{self.name}' has one result per class: use evaluate(), or part={classes[0]!r}"
            )

    def check_annotations(self, samples: Sequence[EvaluationSample]) -> None:
        """Raise if no sample has one of the inputs."""
        for place, shown in enumerate(self._rated.inputs):
            present = _ANNOTATED.get(shown.kind)
            if present is None or any(present(sample, shown.name) for sample in samples):
                continue
            named = [getattr(sample, shown.kind) for sample in samples] if shown.kind in NAMED else []
            names = set(chain.from_iterable(named))
            listing = f"; there are {', '.join(sorted(map(str, names)))}" if names else ""
            hint = did_you_mean(shown.name, map(str, names), otherwise=listing)
            raise BadOptionError(f"inputs[{place}]", f"no sample has '{shown.key}'{hint}", self.name)

    def question(self, sample: EvaluationSample, output: SystemOutputs) -> RatingPrompt | Score:
        """The prompt with all inputs in frames, the examples and the criteria."""
        frames = self._rated.frames(sample, output)
        if isinstance(frames, Score):
            return frames
        if self.examples:
            frames["examples"] = _example_frames(self.examples, self._rated.inputs)
        part = self.part if self.criteria else None
        return RatingPrompt(
            self.prompts_used[0],
            frames,
            self.rating_scale,
            names=tuple(self.criteria or (SCORE,)),
            criteria=self.criteria or {},
            only=part or "",
            rationale=self.rationale,
            metric=self.name,
            sample_id=sample.sample_id,
        )

    def applies(self, sample: EvaluationSample) -> str | None:
        """Skips samples that lack an input, or are among the examples."""
        texts = (_as_list(example.get(key)) for example, key in product(self.examples, _IDENTIFYING))
        known = {_folded(text) for text in chain.from_iterable(texts)}
        if known.intersection(map(_folded, (sample.query, *sample.references))):
            return "in_examples"
        return super().applies(sample)


_ANNOTATED: dict[str, Callable[[EvaluationSample, str], bool]] = {
    "history": lambda sample, _: bool(sample.history),
    "reference": lambda sample, _: bool(sample.references),
    "gold_documents": lambda sample, _: sample.relevant_docs is not None,
    "labels": lambda sample, name: sample.labels.get(name) is not None,
    "metadata": lambda sample, name: sample.metadata.get(name) is not None,
}
"""Whether a sample has an input that is part of the dataset."""
_CRITERION = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_RESERVED_NAMES = ("rationale", SCORE)


def _check_criteria(option: object) -> dict[str, str] | None:
    """Descriptions by criterion, from a mapping or a list of mappings."""
    if option is None:
        return None
    entries = option if isinstance(option, (list, tuple)) else [option]
    criteria: dict[str, str] = {}
    for place, entry in enumerate(entries):
        if not isinstance(entry, Mapping):
            raise BadOptionError(f"criteria[{place}]", f"write NAME: DESCRIPTION, not {entry!r:.80}")
        for name, meaning in entry.items():
            where = f"criteria[{place}].{name}" if isinstance(option, (list, tuple)) else f"criteria.{name}"
            if not isinstance(name, str) or not _CRITERION.fullmatch(name) or name in _RESERVED_NAMES:
                raise BadOptionError(where, f"a criterion cannot be called {name!r:.80}: use letters, digits and _")
            if name in criteria:
                raise BadOptionError(where, f"'{name}' is named twice")
            if not isinstance(meaning, str) or not meaning.strip():
                raise BadOptionError(where, f"describe it in a text, not {meaning!r:.80}")
            criteria[name] = " ".join(meaning.split())
    if not criteria:
        raise BadOptionError("criteria", "name one criterion or more, such as {polite: Is it polite?}")
    return criteria


def _parse_target(option: object, inputs: Sequence[JudgedInput]) -> TargetCategory:
    """The target of an option; by default that of a metric with these inputs."""
    if isinstance(option, TargetCategory):
        return option
    names = [known_target.name.lower() for known_target in TargetCategory]
    if isinstance(option, str) and option.lower() in names:
        return TargetCategory[option.upper()]
    if option is not None:
        hint = did_you_mean(str(option).lower(), names, otherwise=f"; the targets are {', '.join(names)}")
        raise BadOptionError("target", f"there is no target {option!r:.80}{hint}")
    kinds = {shown.kind for shown in inputs}
    if "answer" not in kinds:
        return TargetCategory.RETRIEVAL_RELEVANCE
    if "reference" in kinds:
        return TargetCategory.GENERATION_CORRECTNESS
    documents = {"documents", "gold_documents"}
    return TargetCategory.GENERATION_FAITHFULNESS if kinds & documents else TargetCategory.GENERATION_RELEVANCE


# --- the prompt: that of the user, and the paragraphs of the built-in one that it lacks ------------------------------

_WORDS = ("scale", "form")
_PATH = re.compile(r"\S+\.(?:md|txt|prompt)")
_SECTION = re.compile(r"[^{]*\{\{\w+\}\}[^\n]*")
"""A part of the built-in prompt: a slot, with the heading before it."""


def compose_prompt(option: str | Mapping[str, str], inputs: Sequence[JudgedInput], parts: Mapping[str, bool]) -> Prompt:
    """The prompt of an option (a text, or the text of a file) with slots for the inputs, scale and form.

    ``parts`` says whether there are examples and criteria. A prompt that has slots for inputs must name each once;
    other slots that it lacks are added in the order of the built-in prompt.
    """
    own = _own_prompt(option)
    present = {*_WORDS, *(name for name, used in parts.items() if used)}
    known = {*(shown.slot for shown in inputs), *present}
    counts = Counter(SLOT.findall(own.question) + SLOT.findall(own.system))
    for slot, count in counts.items():
        if slot not in known:
            hint = did_you_mean(slot, known, otherwise=f"; the slots are {', '.join(sorted(known))}")
            raise BadOptionError("prompt", f"nothing goes into the slot {{{{{slot}}}}}{hint}")
        if count > 1:
            raise BadOptionError("prompt", f"the slot {{{{{slot}}}}} occurs {count} times; name it once")
    missing = [shown.slot for shown in inputs if shown.slot not in counts]
    if len(missing) < len(inputs) and missing:
        raise BadOptionError(
            "prompt", f"it names some inputs but not {{{{{missing[0]}}}}}: name each input once, or none of them"
        )
    own = replace(own, system=_separate_frames(own.system), question=_separate_frames(own.question))
    template = built_in_prompt("judge_metric")
    paragraphs = {"task": own.question, "inputs": "\n\n".join(f"{{{{{slot}}}}}" for slot in missing)}
    shown: list[str] = []
    for section in map(str.strip, _SECTION.findall(template.question)):
        (slot,) = SLOT.findall(section)
        if paragraphs.get(slot):
            shown.append(section.replace(f"{{{{{slot}}}}}", paragraphs[slot]))
        elif slot in present and slot not in counts:
            shown.append(section)
    return replace(own, system=own.system or template.system, question="\n\n".join(shown))


def _separate_frames(text: str) -> str:
    """The text with a paragraph for each framed slot: a frame opens and closes with a line of its own."""
    paragraphs = re.sub(
        rf"\s*{SLOT.pattern}\s*",
        lambda slot: slot[0] if slot[1] in _WORDS else f"\n\n{{{{{slot[1]}}}}}\n\n",
        text,
    )
    return paragraphs.strip()


def _prompt_option(option: object) -> str | dict[str, str]:
    """The option with all it needs later: the text of a file, so that a stored spec does not depend on the file."""
    if isinstance(option, Prompt):
        return option.source
    if isinstance(option, str) and _PATH.fullmatch(option.strip()):
        raise BadOptionError("prompt", f"{option.strip()!r} looks like a path; write {{file: {option.strip()}}}")
    if isinstance(option, str) and option.strip():
        return option.strip()
    if isinstance(option, Mapping) and isinstance(file := option.get("file"), (str, Path)):
        text = option.get("text")
        if set(option) == {"file", "text"} and isinstance(text, str):
            return {"file": str(file), "text": text}
        if set(option) == {"file"}:
            try:
                return {"file": str(file), "text": read_prompt(file).source}
            except DataFileError as error:
                raise BadOptionError("prompt", str(error)) from error
    raise BadOptionError("prompt", f"must be a text, {{file: PATH}} or a Prompt, not {option!r:.80}")


def _own_prompt(option: str | Mapping[str, str]) -> Prompt:
    text, file = (option, "judge_metric") if isinstance(option, str) else (option["text"], option["file"])
    try:
        return Prompt.parse(text, where=file, name=Path(file).stem)
    except DataFileError as error:
        raise BadOptionError("prompt", str(error)) from error


# --- a file with the options of a metric -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OptionFile:
    """The options of a metric in a YAML file, with their lines."""

    path: Path
    options: dict[str, Any]
    lines: Mapping[str, int]

    @classmethod
    def read(cls, path: object) -> OptionFile:
        """The options in a file; a ``BadOptionError`` of ``file`` if there are none."""
        import yaml

        if not isinstance(path, (str, Path)):
            raise BadOptionError("file", f"must be the path of a YAML file, not {path!r:.80}")
        found = find_file(path)
        try:
            text = found.read_text(encoding="utf-8")
            node, values = yaml.compose(text, Loader=yaml.SafeLoader), yaml.safe_load(text)
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise BadOptionError("file", f"{found} cannot be read: {why}") from error
        except yaml.YAMLError as error:
            line = getattr(getattr(error, "problem_mark", None), "line", 0) + 1
            raise BadOptionError("file", f"{found}:{line}: not YAML: {getattr(error, 'problem', error)}") from error
        if not isinstance(values, dict) or not all(isinstance(key, str) for key in values) or "file" in values:
            raise BadOptionError("file", f"{found} must contain the options of a metric, such as 'prompt: ...'")
        return cls(found, values, dict(_node_lines(node)))

    def located(self, error: BadOptionError) -> BadOptionError:
        """An error of an option in this file, with its line; others are returned unchanged."""
        option = error.option
        if re.split(r"[.\[]", option, maxsplit=1)[0] not in self.options:
            return error
        while option not in self.lines:
            option = option[: max(option.rfind("."), option.rfind("["))]
        problem = f"{self.path}:{self.lines[option]}: {error.option}: {error.problem}"
        return BadOptionError("file", problem, error.metric)


def _node_lines(node: Any, path: str = "") -> Iterator[tuple[str, int]]:
    """The path and line of every key and item below a YAML node."""
    import yaml

    items: list[tuple[str, Any, Any]] = []
    if isinstance(node, yaml.MappingNode):
        items = [(f"{path}.{key.value}" if path else str(key.value), key, item) for key, item in node.value]
    elif isinstance(node, yaml.SequenceNode):
        items = [(f"{path}[{place}]", item, item) for place, item in enumerate(node.value)]
    for inner, at, item in items:
        yield inner, at.start_mark.line + 1
        yield from _node_lines(item, inner)


# --- examples --------------------------------------------------------------------------------------------------------

_IDENTIFYING = ("question", "reference")
"""Inputs of an example by which samples are recognised."""
_REPLY_KEYS = ("rationale", SCORE)


def _check_examples(
    option: object, inputs: Sequence[JudgedInput], scale: RatingScale, criteria: Sequence[str]
) -> tuple[dict[str, Any], ...]:
    """The examples, each with every input and a score on the scale, or one per criterion."""
    if not isinstance(option, (list, tuple)):
        raise BadOptionError("examples", f"must be a list of mappings with inputs and score, not {option!r:.80}")
    return tuple(_check_example(example, f"examples[{n}]", inputs, scale, criteria) for n, example in enumerate(option))


def _check_example(
    example: object, where: str, inputs: Sequence[JudgedInput], scale: RatingScale, criteria: Sequence[str]
) -> dict[str, Any]:
    if not isinstance(example, Mapping):
        raise BadOptionError(where, f"must be a mapping with inputs and score, not {example!r:.80}")
    keys = [shown.key for shown in inputs]
    for key, value in example.items():
        if key not in (*keys, *_REPLY_KEYS):
            names = ", ".join((*keys, *_REPLY_KEYS))
            raise BadOptionError(f"{where}.{key}", f"is not among {names}{did_you_mean(str(key), keys)}")
        if key != SCORE and not all(isinstance(text, str) for text in _as_list(value)):
            raise BadOptionError(f"{where}.{key}", f"must be a text or a list of texts, not {value!r:.80}")
    for shown in inputs:
        if shown.key not in example and shown.kind != "history":
            raise BadOptionError(where, f"lacks '{shown.key}', which is among the inputs")
    if SCORE not in example:
        raise BadOptionError(where, f"lacks '{SCORE}', which the judge should give")
    scores, place = example[SCORE], f"{where}.{SCORE}"
    if not criteria:
        return {**example, SCORE: _check_example_score(scores, place, scale)}
    if not isinstance(scores, Mapping) or set(scores) != set(criteria):
        raise BadOptionError(place, f"give one score per criterion ({', '.join(criteria)}), not {scores!r:.80}")
    return {**example, SCORE: {name: _check_example_score(scores[name], f"{place}.{name}", scale) for name in criteria}}


def _check_example_score(score: object, where: str, scale: RatingScale) -> object:
    if isinstance(score, bool) and isinstance(scale, ClassScale):
        score = "yes" if score else "no"  # YAML reads a bare yes or no as a boolean
    try:
        scale.normalise(score)
        is_valid = isinstance(scale, ClassScale) == isinstance(score, str)
    except JudgeError:
        is_valid = False
    if not is_valid:
        raise BadOptionError(where, f"{score!r:.80} is not on the scale: {scale.description}")
    return score


def _example_frames(examples: Sequence[Mapping[str, Any]], inputs: Sequence[JudgedInput]) -> dict[str, str]:
    """The texts of all examples, each with the reply after its inputs."""
    frames: dict[str, str] = {}
    for number, example in enumerate(examples, 1):
        for shown in inputs:
            texts = _as_list(example.get(shown.key))
            for place, text in enumerate(texts, 1):
                frames[f"example {number} {shown.slot}" + (f" {place}" if len(texts) > 1 else "")] = text
        scores = example[SCORE]
        reply = {"rationale": example["rationale"]} if "rationale" in example else {}
        reply |= scores if isinstance(scores, Mapping) else {SCORE: scores}
        frames[f"example {number} reply"] = json.dumps(reply, ensure_ascii=False)
    return frames


def _as_list(value: object) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
