"""What an answer should contain: nuggets, generated and assigned by a judge, and rubrics, the items of one sample."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from numbers import Real
from typing import Any, Literal

from ..core.batch import Batch, check_samples
from ..core.types import EvaluationSample, SystemOutputs
from ..errors import AlignmentError, BadTypeError, BadValueError, JudgeError, did_you_mean
from ..options import PositiveInt, check_options
from .critic import Critic, JudgeClient, Judgement, JudgePolicy
from .prompting import Frames, Prompt, resolve_prompt
from .questions import decides
from .ratings import ReplyForm, gather_all, object_schema, question_frames, resolve_critic, returns_number_only
from .session import JudgeSession, run_judging
from .support import VerdictForm, VerdictLevel, Verifier, check_support

Importance = Literal["vital", "okay"]
NUGGETS_KEY = "nuggets"
"""Metadata key of a sample's nuggets."""
ASSIGNMENTS = {"support": 1.0, "partial_support": 0.5, "not_support": 0.0}
"""Support of a nugget by an answer, as files name it, and its weight."""


@dataclass(frozen=True, slots=True)
class Nugget:
    """A fact, in one short statement."""

    text: str
    importance: Importance = "vital"
    """``vital`` if an answer without it is not a good one, ``okay`` if it is good to know."""
    assignment: str | None = None
    """Its support by an answer, if one was assigned: a key of ``ASSIGNMENTS``."""

    def to_dict(self) -> dict[str, str]:
        """The nugget as files and metadata store it."""
        row = {"text": self.text, "importance": str(self.importance)}
        return row if self.assignment is None else {**row, "assignment": self.assignment}


@dataclass(frozen=True, slots=True)
class NuggetTopic:
    """A question with its nuggets, optionally assigned to an answer."""

    qid: str
    """The id of the sample."""
    nuggets: tuple[Nugget, ...]
    query: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of the line, such as ``run_id`` and ``answer_text``."""

    def to_dict(self) -> dict[str, Any]:
        """The topic as a file stores it."""
        row = {"qid": self.qid, "query": self.query, **self.extra}
        return {**row, "nuggets": [one.to_dict() for one in self.nuggets]}


def sample_nuggets(sample: EvaluationSample) -> list[Nugget] | None:
    """The nuggets in a sample's metadata; ``None`` if there is no such key."""
    value = sample.metadata.get(NUGGETS_KEY) if isinstance(sample.metadata, Mapping) else None
    return None if value is None else parse_nuggets(value)


def parse_nuggets(values: object) -> list[Nugget]:
    """Nuggets from a list of objects with ``text`` and ``importance``, each text once.

    A duplicate is vital if any copy is. Raises for anything else.
    """
    if not isinstance(values, (list, tuple)):
        raise BadTypeError(f"nuggets are a list of objects with 'text' and 'importance', not {values!r:.80}")
    by_text: dict[str, Nugget] = {}
    for index, one in enumerate(values):
        nugget = one if isinstance(one, Nugget) else _parse_nugget(one, index)
        key = " ".join(nugget.text.split()).lower()
        before = by_text.get(key)
        if before is None or (before.importance == "okay" and nugget.importance == "vital"):
            by_text[key] = nugget
    return list(by_text.values())


def _parse_nugget(value: object, index: int) -> Nugget:
    where = f"nuggets[{index}]"
    if not isinstance(value, Mapping):
        raise BadTypeError(f"{where} is {value!r:.80}; a nugget is an object with 'text' and 'importance'")
    text = value.get("text")
    if not isinstance(text, str) or not text.strip():
        raise BadValueError(f"{where} has {text!r:.80} as 'text', which must be a statement")
    importance = _check_word(value, "importance", ("vital", "okay"), where)
    if importance is None:
        raise BadValueError(f"{where} has no 'importance'; it is vital or okay")
    return Nugget(
        text.strip(), "vital" if importance == "vital" else "okay", _check_word(value, "assignment", ASSIGNMENTS, where)
    )


def _check_word(row: Mapping[str, Any], key: str, words: Any, where: str) -> str | None:
    value = row.get(key)
    if value is None:
        return None
    word = value.strip().lower() if isinstance(value, str) else None
    if word not in words:
        raise BadValueError(f"{where} has {value!r:.40} as '{key}', which must be one of {', '.join(words)}")
    return word


# --- generation from documents, and assignment to answers, by a judge ------------------------------------------------

GENERATION_METRIC, ASSIGNMENT_METRIC = "nuggets", "nugget_assignment"
"""Names of these requests in the usage log."""
_NO_FACTS = "(none)"
_LIST_FORM = 'Reply with one JSON object and nothing else: {"nuggets": ["<fact>", ...]}'
_GRADE_FORM = (
    'Reply with one JSON object and nothing else: {"grades": [{"number": 1, "importance": "vital" or "okay"}, ...]}, '
    "one grade for each fact, in their order and with their numbers."
)
_WORDS = {level: word for word, level in ASSIGNMENTS.items()}


@dataclass(frozen=True, slots=True)
class NuggetReport:
    """The topics of all questions, and the questions on which the judge failed."""

    topics: list[NuggetTopic]
    failed: dict[str, str] = field(default_factory=dict)
    """Failure reason by sample id."""


def make_nuggets(
    samples: Sequence[EvaluationSample],
    critic: Critic,
    *,
    outputs: Sequence[SystemOutputs | None] | None = None,
    most: PositiveInt = 30,
    at_a_time: PositiveInt = 10,
    judging: JudgeSession | JudgePolicy | None = None,
    prompt: object = None,
    importance_prompt: object = None,
) -> NuggetReport:
    """Generate the nuggets of each question from documents with a judge, and grade them as vital or okay.

    The documents are the relevant ones of each sample, or with ``outputs`` the retrieved ones. They are processed
    ``at_a_time``, each time with the nuggets so far; at most ``most`` remain, vital ones first. Questions without a
    document text are left out. The critic must reply with objects.
    """
    check_samples(samples)
    if outputs is not None and len(outputs) != len(samples):
        raise AlignmentError(len(samples), len(outputs))
    resolved = resolve_critic(critic, GENERATION_METRIC)
    if returns_number_only(resolved) or decides(resolved):
        raise BadValueError(
            "nuggets need a critic that replies with objects, not with a single number or probabilities"
        )
    check_options(make_nuggets, {"most": most, "at_a_time": at_a_time})
    generator = _NuggetGenerator(
        resolved,
        resolve_prompt(prompt, otherwise="nuggets"),
        resolve_prompt(importance_prompt, otherwise="nugget_importance"),
        most,
        at_a_time,
    )
    texts = [_documents(sample, None if outputs is None else outputs[row]) for row, sample in enumerate(samples)]
    rows = [(sample, own) for sample, own in zip(samples, texts, strict=True) if own]

    async def one(judge: JudgeClient, row: tuple[EvaluationSample, list[str]]) -> NuggetTopic:
        sample, documents = row
        nuggets = await generator.nuggets(judge, sample, documents)
        return NuggetTopic(sample.sample_id, tuple(nuggets), sample.query)

    return _run_samples(rows, one, judging)


def assign_nuggets(
    samples: Sequence[EvaluationSample],
    outputs: Sequence[SystemOutputs | None],
    critic: Verifier,
    *,
    at_a_time: int = 10,
    run_id: str = "",
    judging: JudgeSession | JudgePolicy | None = None,
) -> NuggetReport:
    """Compare each answer with the nuggets of its question, as ``nugget_recall`` does, and record the assignments.

    Questions without nuggets are left out; an empty or missing answer supports none of them.
    """
    check_samples(samples)
    if len(outputs) != len(samples):
        raise AlignmentError(len(samples), len(outputs))
    answers = [
        "" if output is None or failure or output.response is None else output.response.text
        for output, failure in zip(outputs, Batch(samples, outputs).failures, strict=True)
    ]
    rows = [
        (one, nuggets, answer) for one, answer in zip(samples, answers, strict=True) if (nuggets := sample_nuggets(one))
    ]

    async def one(judge: JudgeClient, row: tuple[EvaluationSample, list[Nugget], str]) -> NuggetTopic:
        sample, nuggets, answer = row
        parts = [nuggets[start : start + at_a_time] for start in range(0, len(nuggets), at_a_time)]
        verdicts = await gather_all(
            check_support(
                judge, critic, [answer], [n.text for n in part], metric=ASSIGNMENT_METRIC, sample_id=sample.sample_id
            )
            for part in parts
        )
        words = [_WORDS[float(verdict.level)] for part in verdicts for verdict in part]
        assigned = (replace(nugget, assignment=word) for nugget, word in zip(nuggets, words, strict=True))
        extra: dict[str, Any] = {"answer_text": answer, "response_length": len(answer.split()), "run_id": run_id}
        return NuggetTopic(sample.sample_id, tuple(assigned), sample.query, extra)

    return _run_samples(rows, one, judging)


def _run_samples(
    rows: Sequence[Any],
    one: Callable[[JudgeClient, Any], Awaitable[NuggetTopic]],
    judging: JudgeSession | JudgePolicy | None,
) -> NuggetReport:
    """Run each row; a failed judgement does not affect the others."""

    async def ask_all(judge: JudgeClient) -> NuggetReport:
        async def run_one(row: Any) -> NuggetTopic | JudgeError:
            try:
                return await one(judge, row)
            except JudgeError as error:
                return error

        outcomes = await asyncio.gather(*map(run_one, rows))
        return NuggetReport(
            [outcome for outcome in outcomes if isinstance(outcome, NuggetTopic)],
            {
                row[0].sample_id: outcome.reason
                for row, outcome in zip(rows, outcomes, strict=True)
                if isinstance(outcome, JudgeError)
            },
        )

    return run_judging(judging, ask_all)


def _documents(sample: EvaluationSample, output: SystemOutputs | None) -> list[str]:
    if output is not None:
        found = [item.doc for item in output.retrieved]
    else:
        found = [one for one in sample.relevant_docs or [] if _is_relevant(one.metadata)]
    return [document.text for document in found if document.text.strip()]


def _is_relevant(metadata: Mapping[str, Any]) -> bool:
    level = metadata.get("relevance", 1)
    return not isinstance(level, (int, float)) or level > 0


@dataclass(frozen=True, slots=True)
class _NuggetGenerator:
    """A critic with its prompts and limits."""

    critic: Critic
    prompt: Prompt
    importance: Prompt
    most: int
    at_a_time: int

    async def nuggets(self, judge: JudgeClient, sample: EvaluationSample, documents: Sequence[str]) -> list[Nugget]:
        """The nuggets of one question, vital ones first."""
        facts: list[str] = []
        for start in range(0, len(documents), self.at_a_time):
            facts = await self._extract_facts(judge, sample, facts, documents[start : start + self.at_a_time])
        parts = [facts[start : start + self.at_a_time] for start in range(0, len(facts), self.at_a_time)]
        grades = await gather_all(self._grade_facts(judge, sample, part) for part in parts)
        made = [
            Nugget(fact, grade) for fact, grade in zip(facts, [one for part in grades for one in part], strict=True)
        ]
        return sorted(made, key=lambda nugget: nugget.importance != "vital")

    async def _extract_facts(
        self, judge: JudgeClient, sample: EvaluationSample, known: Sequence[str], documents: Sequence[str]
    ) -> list[str]:
        words = {"most": str(self.most)}
        texts: dict[str, Frames] = {"question": question_frames(sample), "documents": documents}
        if known:
            texts["known"] = {f"fact {number}": fact for number, fact in enumerate(known, 1)}
        else:
            words["known"] = _NO_FACTS
        items = {"type": "array", "items": {"type": "string"}, "maxItems": self.most}
        answer = await self._ask(
            judge, sample, self.prompt, ReplyForm(_LIST_FORM, object_schema(nuggets=items)), texts, words
        )
        facts_reply = answer.answer.get("nuggets")
        if not isinstance(facts_reply, (list, tuple)) or not all(isinstance(one, str) for one in facts_reply):
            raise JudgeError(
                "unparseable", f"the judge gave {facts_reply!r:.80} where facts were asked for", raw=answer.raw
            )
        different: dict[str, str] = {}
        for fact in (" ".join(one.split()) for one in facts_reply):
            if fact:
                different.setdefault(fact.lower(), fact)
        return list(different.values())[: self.most]

    async def _grade_facts(
        self, judge: JudgeClient, sample: EvaluationSample, facts: Sequence[str]
    ) -> list[Importance]:
        texts: dict[str, Frames] = {
            "question": question_frames(sample),
            "facts": {f"fact {number}": fact for number, fact in enumerate(facts, 1)},
        }
        one = object_schema(
            number={"type": "integer", "minimum": 1, "maximum": len(facts)},
            importance={"type": "string", "enum": ["vital", "okay"]},
        )
        items = {"type": "array", "items": one, "minItems": len(facts), "maxItems": len(facts)}
        answer = await self._ask(
            judge, sample, self.importance, ReplyForm(_GRADE_FORM, object_schema(grades=items)), texts
        )
        grades_reply = answer.answer.get("grades")
        rows = (
            [row for row in grades_reply if isinstance(row, Mapping)] if isinstance(grades_reply, (list, tuple)) else []
        )
        importance_by_number: dict[Any, Importance] = {
            row.get("number"): row["importance"] for row in rows if row.get("importance") in ("vital", "okay")
        }
        if len(rows) != len(facts) or set(importance_by_number) != set(range(1, len(facts) + 1)):
            message = f"the judge gave {grades_reply!r:.80} where {len(facts)} grades were asked for"
            raise JudgeError("unparseable", message, raw=answer.raw)
        return [importance_by_number[number] for number in range(1, len(facts) + 1)]

    async def _ask(
        self,
        judge: JudgeClient,
        sample: EvaluationSample,
        prompt: Prompt,
        form: ReplyForm,
        texts: Mapping[str, Frames],
        words: Mapping[str, str] | None = None,
    ) -> Judgement:
        request = form.request(
            prompt, self.critic, texts, metric=GENERATION_METRIC, sample_id=sample.sample_id, words=words
        )
        return await judge.ask(self.critic, replace(request, metadata={}))  # only simple critics need metadata


# --- rubrics: the weighted items by which the answer of one sample is judged -----------------------------------------

RUBRIC_KEY = "rubric"
"""Label of a sample that has its rubric."""
_KEYS = ("item", "weight", "required")


class RubricLevel(VerdictLevel):
    """Whether what an item describes is true of an answer; the value is its weight."""

    MET = 1.0
    PARTLY = 0.5
    NOT_MET = 0.0


RUBRIC_FORM = VerdictForm("item", RubricLevel)


@dataclass(frozen=True, slots=True)
class RubricItem:
    """Something that an answer should do or, with a negative weight, a fault that it should not have."""

    text: str
    weight: Fraction = Fraction(1)
    required: bool = False
    """Whether it counts in ``rubric_required`` and not in the score."""

    def is_satisfied(self, level: float) -> bool:
        """Whether a requirement is satisfied: met in full, or a fault that is absent."""
        return level == (RubricLevel.MET if self.weight > 0 else RubricLevel.NOT_MET)


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
    for index, one in enumerate(rubric):
        first = seen.setdefault(" ".join(one.text.split()).lower(), index)
        if first != index:
            raise BadValueError(f"rubric[{index}] repeats the item of rubric[{first}]: {one.text!r:.80}")
    scored = scored_items(rubric)
    if scored and not any(one.weight > 0 for one in scored):
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
    return tuple(one for one in rubric if not one.required)


def required_items(rubric: Sequence[RubricItem]) -> Rubric:
    """The items that are required."""
    return tuple(one for one in rubric if one.required)


def rubric_score(items: Sequence[RubricItem], levels: Sequence[float]) -> Fraction:
    """The weighted levels over the sum of the positive weights; below 0 where faults outweigh the rest.

    >>> rubric_score([RubricItem("a", Fraction(2)), RubricItem("b"), RubricItem("fault", Fraction(-1))], [1, 0.5, 1])
    Fraction(1, 2)
    """
    total = sum((one.weight * Fraction(level) for one, level in zip(items, levels, strict=True)), Fraction(0))
    return total / _positive_weight(items)


def worst_rubric_score(items: Sequence[RubricItem]) -> Fraction:
    """The score of an answer that has every fault and meets nothing else."""
    return sum((one.weight for one in items if one.weight < 0), Fraction(0)) / _positive_weight(items)


def _positive_weight(items: Sequence[RubricItem]) -> Fraction:
    return sum((one.weight for one in items if one.weight > 0), Fraction(0))
