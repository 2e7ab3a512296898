"""Whether evidence supports statements, in full, in part or not at all: by a judge, or by a function of entailment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ..core.errors import BadTypeError, BadValueError, JudgeError
from ..core.resources import Use, parse_use, resolve
from .critic import Critic, JudgeClient, Judgement, JudgeRequest, LLMCritic, StructuredCritic
from .entailment import EntailmentFunction, NliModel
from .prompting import Prompt, built_in_prompt
from .ratings import critic_signature, gather_all, returns_number_only
from .scale import Scale

__all__ = [
    "STATEMENTS_PER_REQUEST",
    "SupportLevel",
    "SupportVerdict",
    "Verifier",
    "check_support",
    "parse_verifier",
    "resolve_verifier",
    "verifier_name",
]

STATEMENTS_PER_REQUEST = 20
"""Statements in one request: of longer lists judges lose count."""
_SCALE = Scale(0.0, 1.0)
_OBJECT_FORM = (
    'Reply with one JSON object and nothing else: {"verdicts": [{"number": 1, "why": "<why, in a few words>", '
    '"verdict": "full" or "partial" or "none"}, ...]}, one verdict for each statement, in their order and with their '
    "numbers."
)
_BARE_FORM = "Reply with a number alone: 1 for full, 0.5 for partial, 0 for none."
_BARE_SCHEMA = {
    "type": "object",
    "properties": {"score": _SCALE.schema},
    "required": ["score"],
    "additionalProperties": False,
}

Verifier = Critic | EntailmentFunction | NliModel | Callable[[str, str], Any]
"""Who says whether evidence supports a statement."""


class SupportLevel(float, Enum):
    """How far evidence supports a statement; the number is what it weighs."""

    FULL = 1.0
    PARTIAL = 0.5
    NONE = 0.0

    @property
    def label(self) -> str:
        """As judges say it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class SupportVerdict:
    """How far one statement is supported, and why."""

    level: SupportLevel
    why: str = ""
    """In the judge's words, where it gives any."""
    cut: bool = False
    """Whether a model of entailment was given more than it reads."""

    @property
    def supported(self) -> bool:
        """Whether all of it is supported: in part is not enough."""
        return self.level is SupportLevel.FULL


async def check_support(
    judge: JudgeClient,
    by: Verifier,
    evidence: Sequence[str],
    statements: Sequence[str],
    *,
    metric: str,
    sample_id: str,
    repeat: int = 0,
    prompt: Prompt | None = None,
    named: str = "",
) -> list[SupportVerdict]:
    """A verdict for each statement, in their order; ``JudgeError`` where one cannot be had.

    A critic that answers with objects is asked about all statements at once
    (``STATEMENTS_PER_REQUEST`` at most), one that gives a
    bare number about one after the other: the level nearest to its number counts. Of a function of entailment, and of
    an ``NliModel``, a number from the threshold on is full support, and any other none. Where there is no
    evidence nobody is
    asked, and nothing is supported. ``named`` is what the evidence is called where judgements are shown.
    """
    texts = [text for text in evidence if text.strip()]
    if not texts:
        return [SupportVerdict(SupportLevel.NONE, "there is no evidence")] * len(statements)
    different = list(dict.fromkeys(statements))
    if not different:
        return []
    who = resolve_verifier(by)
    if isinstance(who, (EntailmentFunction, NliModel)):
        found = await _verdicts_by_nli(judge, who, texts, different)
    else:
        size = 1 if returns_number_only(who) else STATEMENTS_PER_REQUEST
        parts = [different[start : start + size] for start in range(0, len(different), size)]
        asking = _SupportJudge(who, prompt or built_in_prompt("support"), metric, sample_id, repeat, named)
        found = await _verdicts_by_judge(judge, asking, texts, parts)
    by_statement = dict(zip(different, found, strict=True))
    return [by_statement[statement] for statement in statements]


# --- by a judge ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _SupportJudge:
    """Who is asked with what, on whose behalf."""

    critic: Critic
    prompt: Prompt
    metric: str
    sample_id: str
    repeat: int
    named: str

    def request(self, evidence: Sequence[str], statements: Sequence[str]) -> JudgeRequest:
        bare = returns_number_only(self.critic)
        system, text = self.prompt.render(
            words={"form": _BARE_FORM if bare else _OBJECT_FORM},
            evidence=evidence,
            statements={f"statement {number}": one for number, one in enumerate(statements, 1)},
        )
        return JudgeRequest(
            prompt=f"{system}\n\n{text}" if bare else text,
            system="" if bare else system,
            schema=_BARE_SCHEMA if bare else _object_schema(len(statements)),
            prompt_id=self.prompt.id,
            repeat=self.repeat,
            metric=self.metric,
            sample_id=self.sample_id,
            metadata={"scale": str(_SCALE), "metric": self.metric, "sample_id": self.sample_id},
            about={"of": self.named, "statements": list(statements)},
        )


def _object_schema(count: int) -> dict[str, Any]:
    one = {
        "type": "object",
        "properties": {
            "number": {"type": "integer", "minimum": 1, "maximum": count},
            "why": {"type": "string"},
            "verdict": {"type": "string", "enum": [level.label for level in SupportLevel]},
        },
        "required": ["number", "why", "verdict"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"verdicts": {"type": "array", "items": one, "minItems": count, "maxItems": count}},
        "required": ["verdicts"],
        "additionalProperties": False,
    }


async def _verdicts_by_judge(
    judge: JudgeClient, asking: _SupportJudge, evidence: Sequence[str], parts: Sequence[Sequence[str]]
) -> list[SupportVerdict]:
    requests = [asking.request(evidence, part) for part in parts]
    answers = await gather_all(judge.ask(asking.critic, request) for request in requests)
    read = _bare_verdicts if returns_number_only(asking.critic) else _object_verdicts
    return [verdict for part, answer in zip(parts, answers, strict=True) for verdict in read(answer, len(part))]


def _bare_verdicts(answer: Judgement, count: int) -> list[SupportVerdict]:
    value = _SCALE.normalise(answer.answer.get("score"))
    # Half way between two levels it is the lower one: what is in doubt is not supported.
    return [SupportVerdict(min(SupportLevel, key=lambda level: (abs(level - value), level)))]


def _object_verdicts(answer: Judgement, count: int) -> list[SupportVerdict]:
    said = answer.answer.get("verdicts")
    if not isinstance(said, (list, tuple)) or len(said) != count:
        given = f"{len(said)} verdicts" if isinstance(said, (list, tuple)) else f"{said!r:.80}"
        raise JudgeError("unparseable", f"the judge gave {given} for {count} statements", raw=answer.raw)
    found: dict[int, SupportVerdict] = {}
    for one in said:
        number, verdict = _read(one, answer.raw)
        if number in found or not 1 <= number <= count:
            told = "twice" if number in found else f"of {count}"
            raise JudgeError("unparseable", f"the judge gave a verdict on statement {number} {told}", raw=answer.raw)
        found[number] = verdict
    return [found[number] for number in range(1, count + 1)]


def _read(said: object, raw: str) -> tuple[int, SupportVerdict]:
    number = said.get("number") if isinstance(said, Mapping) else None
    word = said.get("verdict") if isinstance(said, Mapping) else None
    level = _LEVELS.get(word.strip().lower()) if isinstance(word, str) else None
    if level is None or isinstance(number, bool) or not isinstance(number, int):
        raise JudgeError("unparseable", f"the judge gave {said!r:.80} where a verdict was asked for", raw=raw)
    assert isinstance(said, Mapping)
    why = said.get("why")
    return number, SupportVerdict(level, why if isinstance(why, str) else "")


_LEVELS = {level.label: level for level in SupportLevel}


# --- by a function of entailment -------------------------------------------------------------------------------------


async def _verdicts_by_nli(
    judge: JudgeClient, who: EntailmentFunction | NliModel, evidence: Sequence[str], statements: Sequence[str]
) -> list[SupportVerdict]:
    shared = getattr(judge, "read", None)  # other metrics may ask the same
    readings = await (who.read(evidence, statements) if shared is None else shared(who, evidence, statements))
    return [
        SupportVerdict(
            SupportLevel.FULL if one.probability >= who.threshold else SupportLevel.NONE,
            f"entailed at {one.probability:.2f}",
            one.cut,
        )
        for one in readings
    ]


# --- options ---------------------------------------------------------------------------------------------------------


def parse_verifier(option: Any, *, what: str = "verifier") -> Any:
    """An option that says who checks statements, as a metric keeps it; ``None`` and ``{use: NAME}`` stay open.

    It may be a critic, a function ``(premise, hypothesis) -> float | bool``, an ``EntailmentFunction``, an
    ``NliModel``, or what a
    plan writes: ``{use: NAME}``, ``{nli: PATH}``.
    """
    option = parse_use(option)
    if option is None or isinstance(option, (Use, LLMCritic, StructuredCritic, EntailmentFunction, NliModel)):
        return option
    if isinstance(option, Mapping) and set(option) == {"nli"}:
        return NliModel.of(option["nli"])
    if callable(option) and not isinstance(option, type):
        return EntailmentFunction(option)
    raise BadTypeError(
        f"{what} must be a critic, a function (premise, hypothesis) -> number, {{use: RESOURCE}} or {{nli: PATH}}; "
        f"not {option!r:.80}"
    )


def resolve_verifier(option: Any, *, what: str = "verifier") -> Critic | EntailmentFunction | NliModel:
    """Who checks statements, from an option as a metric keeps it."""
    found = parse_verifier(resolve(option, what=what), what=what)
    if isinstance(found, (LLMCritic, StructuredCritic, EntailmentFunction, NliModel)):
        return found
    raise BadValueError(f"there is nobody to check statements: {what} is {found!r:.80}")


def verifier_name(option: Any) -> str:
    """A verifier in a signature."""
    if isinstance(option, Use):
        return f"resource {option.name}" if option.thing is None else verifier_name(parse_verifier(option.thing))
    return option.identity if isinstance(option, (EntailmentFunction, NliModel)) else critic_signature(option)
