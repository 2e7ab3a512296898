"""Raw replies of judges and what becomes of them: one reading, or a failure with its reason."""

import json
import math
import warnings
from collections.abc import Callable
from typing import Any

from auepora_eval import (
    EvaluationSample,
    LLMCritic,
    Response,
    StructuredCritic,
    SystemOutputs,
    evaluate,
    judge_relevance,
    metric,
    prefer,
)
from auepora_eval.errors import AueporaWarning, JudgeError
from auepora_eval.grades.pool import PooledDocument
from auepora_eval.judge.critic import Judgement, JudgeRequest
from auepora_eval.judge.nuggets import make_nuggets
from auepora_eval.judge.parse import read_answer
from helpers.golden import GOLDEN, check_golden
from helpers.golden_judge import answer_for, embed, overlap, retrieved

SAMPLE = EvaluationSample(
    "q1",
    "When was Ludwigshafen founded?",
    relevant_docs=[retrieved("d1")[0].doc],
    reference_answer=Response("It was founded in 1843."),
    metadata={
        "nuggets": [{"text": "founded in 1843", "importance": "vital"}, {"text": "on the Rhine", "importance": "vital"}]
    },
)
OUTPUT = SystemOutputs(retrieved("d1"), Response("It was founded in 1843. It lies on the Rhine."))
OTHER = SystemOutputs(retrieved("d1"), Response("In 1843."))


class Replies(StructuredCritic):
    """Gives one text as its reply, read as any critic behind an endpoint does."""

    name = "replies"

    def __init__(self, text: str | None, prompt: str) -> None:
        self.text, self.prompt = text, prompt
        self.schema: Any = None
        self.read: dict[str, Any] = {}
        self.wording = ""

    async def judge(self, request: JudgeRequest) -> Judgement:
        if not request.prompt_id.startswith(f"{self.prompt}/"):  # nuggets are gathered, then graded
            listed = request.prompt_id.startswith("nuggets/")
            return Judgement({"nuggets": ["Founded in 1843", "On the Rhine"]} if listed else answer_for(request))
        self.schema = request.schema
        if self.text is None:
            raise JudgeError("refused")
        try:
            reading = read_answer(self.text, request.schema)
        except JudgeError as error:
            self.read, self.wording = {"reason": error.reason}, error.message
            raise
        self.read = {"answer": reading.answer, "spans": {name: list(span) for name, span in reading.spans.items()}}
        return Judgement(reading.answer, raw=self.text)


def scored(spec: str, **options: Any) -> Callable[[Any], Any]:
    def run(critic: Any) -> Any:
        (result,) = evaluate([SAMPLE], [OUTPUT], [metric(spec, critic=critic, **options)])
        scores = list(result.scores or ())
        return [*(result.outcomes or ()), scores[0]]

    return run


def preferred(critic: Any) -> Any:
    (found,) = prefer([SAMPLE], [OUTPUT], [OTHER], critic).queries
    return [found.verdict, found.reason, found.a_first, found.b_first]


def graded(critic: Any) -> Any:
    report = judge_relevance([PooledDocument("q1", "d1", SAMPLE.query, retrieved("d1")[0].doc.text)], critic)
    return [[one.grade for one in report.grades], dict(report.failed)]


def nuggets(critic: Any) -> Any:
    made = make_nuggets([SAMPLE], critic, most=3)
    return [[[one.text, one.importance] for topic in made.topics for one in topic.nuggets], made.failed]


KINDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "score_1_5": ("faithfulness", scored("llm_faithfulness", scale="1-5")),
    "score_only_1_5": ("faithfulness", scored("llm_faithfulness", scale="1-5", rationale=False)),
    "score_0_1": ("faithfulness", scored("llm_faithfulness")),
    "dimensions": ("answer_quality", scored("llm_answer_quality")),
    "verdicts": ("support", scored("nugget_recall", variant="vital")),
    "claims": ("claims", scored("claim_faithfulness", verifier=overlap)),
    "useful": ("usefulness", scored("judged_context_precision")),
    "needed": ("needed_sentences", scored("judged_context_relevance")),
    "questions": ("reverse_questions", scored("reverse_question_relevance", embed_fn=embed, n=2)),
    "preference": ("preference", preferred),
    "relevance": ("relevance", graded),
    "nuggets": ("nuggets", nuggets),
    "grades": ("nugget_importance", nuggets),
}
"""By the schema of the reply the prompt it answers, and what reads it."""


def test_replies() -> None:
    """Each reply as it is read, and the outcome of the metric that asked. The wording of failures is in its own file."""
    schemas: dict[str, Any] = {}
    found: dict[str, Any] = {}
    wording: dict[str, str] = {}
    rows = [json.loads(line) for line in (GOLDEN / "judge/replies.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(rows) >= 200
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AueporaWarning)
        for row in rows:
            prompt, run = KINDS[row["kind"]]
            critic = Replies(row["text"], prompt)
            outcome = run(critic)
            name = f"{row['kind']}, {row['note']}"
            assert name not in found
            schemas[row["kind"]] = critic.schema
            found[name] = [json.dumps(critic.read, ensure_ascii=False), *outcome]
            if critic.wording:
                wording[name] = critic.wording
    check_golden("judge/reply_schemas.json", schemas)
    check_golden("judge/reply_outcomes.json", found)
    check_golden("judge/reply_wording.json", wording)


NUMBERS: list[tuple[str, Any]] = [
    ("float", 4.0),
    ("integer", 4),
    ("between", 3.5),
    ("true", True),
    ("text", "4"),
    ("nothing", None),
    ("not a number", math.nan),
    ("infinite", math.inf),
    ("above", 5.01),
    ("below", 0.5),
    ("list", [4]),
    ("huge integer", 10**400),
    ("error", ValueError("mistake")),
    ("connection error", ConnectionResetError("reset")),
    ("judge error", JudgeError("cut_off", "too long", raw="4.")),
]


class Number(LLMCritic):
    """Returns what it is given, or raises it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def score(self, *, prompt: str, metadata: dict[str, Any] | None = None) -> float:
        if isinstance(self.value, Exception):
            raise self.value
        found: float = self.value
        return found


def test_numbers() -> None:
    """What a critic of the small interface may return, and what becomes of it."""
    from auepora_eval import JudgePolicy, JudgeSession

    found: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AueporaWarning)
        for name, value in NUMBERS:
            records: list[Any] = []
            session = JudgeSession(JudgePolicy(retries=1, backoff=0), on_record=records.append)
            judged = metric("llm_faithfulness", critic=Number(value), scale="1-5")
            (result,) = evaluate([SAMPLE], [OUTPUT], [judged], judging=session)
            (record,) = records
            outcome = [
                *(result.outcomes or ()),
                next(iter(result.scores or ())),
                record.attempts,
                record.calls,
                record.raw,
            ]
            found[name] = outcome
    check_golden("judge/numbers.json", found)
