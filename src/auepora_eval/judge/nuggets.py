"""Nuggets, generated from documents and assigned to answers by a judge."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from ..core.batch import Batch, check_samples
from ..core.types import EvaluationSample, SystemOutputs
from ..errors import AlignmentError, BadValueError, JudgeError
from ..options import PositiveInt, check_options
from .critic import Critic, JudgeClient, Judgement, JudgePolicy, decides
from .nugget_lists import ASSIGNMENTS, Importance, Nugget, NuggetTopic, sample_nuggets
from .prompting import Frames, Prompt, resolve_prompt
from .ratings import ReplyForm, gather_all, object_schema, question_frames, resolve_critic, returns_number_only
from .session import JudgeSession, run_judging
from .support import Verifier, check_support

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
        (sample, nuggets, answer)
        for sample, answer in zip(samples, answers, strict=True)
        if (nuggets := sample_nuggets(sample))
    ]

    async def one(judge: JudgeClient, row: tuple[EvaluationSample, list[Nugget], str]) -> NuggetTopic:
        sample, nuggets, answer = row
        facts = [nugget.text for nugget in nuggets]
        parts = [facts[start : start + at_a_time] for start in range(0, len(facts), at_a_time)]
        verdicts = await gather_all(
            check_support(judge, critic, [answer], part, metric=ASSIGNMENT_METRIC, sample_id=sample.sample_id)
            for part in parts
        )
        words = [_WORDS[float(verdict.level)] for verdict in chain.from_iterable(verdicts)]
        assigned = (replace(nugget, assignment=word) for nugget, word in zip(nuggets, words, strict=True))
        extra: dict[str, Any] = {"answer_text": answer, "response_length": len(answer.split()), "run_id": run_id}
        return NuggetTopic(sample.sample_id, tuple(assigned), sample.query, extra)

    return _run_samples(rows, one, judging)


def _run_samples(
    rows: Sequence[Any],
    question: Callable[[JudgeClient, Any], Awaitable[NuggetTopic]],
    judging: JudgeSession | JudgePolicy | None,
) -> NuggetReport:
    """Run each row; a failed judgement does not affect the others."""

    async def ask_all(judge: JudgeClient) -> NuggetReport:
        async def run_one(row: Any) -> NuggetTopic | JudgeError:
            try:
                return await question(judge, row)
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
        found = [document for document in sample.relevant_docs or [] if _is_relevant(document.metadata)]
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
        graded = zip(facts, chain.from_iterable(grades), strict=True)
        made = [Nugget(fact, grade) for fact, grade in graded]
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
            judge,
            sample,
            prompt=self.prompt,
            form=ReplyForm(_LIST_FORM, object_schema(nuggets=items)),
            texts=texts,
            words=words,
        )
        facts_reply = answer.answer.get("nuggets")
        if not isinstance(facts_reply, (list, tuple)) or not all(isinstance(text, str) for text in facts_reply):
            raise JudgeError(
                "unparseable", f"the judge gave {facts_reply!r:.80} where facts were asked for", raw=answer.raw
            )
        different: dict[str, str] = {}
        for fact in (" ".join(text.split()) for text in facts_reply):
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
        schema = object_schema(
            number={"type": "integer", "minimum": 1, "maximum": len(facts)},
            importance={"type": "string", "enum": ["vital", "okay"]},
        )
        items = {"type": "array", "items": schema, "minItems": len(facts), "maxItems": len(facts)}
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
