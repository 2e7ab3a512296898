"""Claims: their extraction from a text by a judge, and their support by evidence, by a judge or an NLI function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from itertools import chain
from typing import Any

from ..core.registry import Use, parse_use, resolve
from ..errors import BadOptionError, BadTypeError, BadValueError, JudgeError
from .critic import (
    SCORE,
    Critic,
    JudgeClient,
    Judgement,
    JudgeRequest,
    LLMCritic,
    MemberForms,
    MemberReply,
    StructuredCritic,
    decides,
    decision_request,
)
from .nli import NLI_KINDS, EntailmentFunction, NliModel
from .panel import Panel
from .prompting import Frames, Prompt, built_in_prompt
from .ratings import (
    UNIT_SCALE,
    ReplyForm,
    critic_signature,
    gather_all,
    object_schema,
    returns_number_only,
)

# --- extraction: the claims of a text --------------------------------------------------------------------------------

_CLAIMS = ReplyForm(
    'Reply with one JSON object and nothing else: {"claims": ["<claim>", ...]}',
    object_schema(claims={"type": "array", "items": {"type": "string"}}),
)


def require_extractor(critic: Critic, metric: str) -> None:
    """Raise unless a critic can list claims; one that replies with a bare number cannot."""
    both = ", for both parts as critic: {extract: {use: WRITER}, decide: {use: JUDGE}}" if decides(critic) else ""
    otherwise = f"{both}, or set 'claims: sentences', which treats each sentence as a claim"
    require_structured_critic(critic, metric, "claims", otherwise)


def require_structured_critic(critic: Critic, metric: str, what: str, otherwise: str = "") -> None:
    """Raise unless a critic can reply with a list."""
    if returns_number_only(critic) or decides(critic):
        replies = "is a decision model, which writes no text" if decides(critic) else "replies with a number only"
        raise BadValueError(
            f"metric '{metric}' needs a critic that lists {what}, and this one {replies}: use a "
            f"StructuredCritic such as OpenAICritic{otherwise}"
        )


async def extract_claims(
    judge: JudgeClient,
    critic: Critic,
    text: str,
    *,
    question: Frames,
    metric: str,
    sample_id: str,
    repeat: int = 0,
    prompt: Prompt | None = None,
    source_name: str = "",
) -> list[str]:
    """The distinct claims of a text, in order; none if it claims nothing.

    ``JudgeError`` if the reply is not a list. No call is made for an empty text. Metrics that share a
    ``SharedJudging`` decompose each text once. ``source_name`` names the text where judgements are shown.
    """
    if not text.strip():
        return []
    require_extractor(critic, metric)
    request = _CLAIMS.request(
        prompt or built_in_prompt("claims"),
        critic,
        {"question": question, "text": text},
        metric=metric,
        sample_id=sample_id,
        repeat=repeat,
        about={"of": source_name},
    )
    answer = await judge.ask(critic, request)
    claims = answer.answer.get("claims")
    if not isinstance(claims, (list, tuple)) or not all(isinstance(claim, str) for claim in claims):
        raise JudgeError(
            "unparseable", f"the judge gave {claims!r:.80} where a list of claims was asked for", raw=answer.raw
        )
    return list(dict.fromkeys(claim.strip() for claim in claims if claim.strip()))


# --- support: fully, partially or not at all -------------------------------------------------------------------------

STATEMENTS_PER_REQUEST = 20
"""Statements per request: judges lose count in longer lists."""

Verifier = Critic | EntailmentFunction | NliModel | Callable[[str, str], Any]
"""Anything that checks whether evidence supports a statement."""


class VerdictLevel(float, Enum):
    """A verdict on one text of a list; the value is its weight."""

    @property
    def label(self) -> str:
        """The label that judges use."""
        return self.name.lower().replace("_", " ")


class SupportLevel(VerdictLevel):
    """Support of a statement by evidence."""

    FULL = 1.0
    PARTIAL = 0.5
    NONE = 0.0


@dataclass(frozen=True, slots=True)
class SupportVerdict:
    """The level of one statement, and the rationale."""

    level: VerdictLevel
    rationale: str = ""
    """The judge's rationale, if it gives one."""
    cut: bool = False
    """Whether an NLI model had to truncate its input."""
    expected: float | None = None
    """The expected level, from a judge that replies with probabilities."""

    @property
    def supported(self) -> bool:
        """Whether it is fully supported."""
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
    source_name: str = "",
) -> list[SupportVerdict]:
    """A verdict for each statement, in order; ``JudgeError`` on failure.

    A critic that replies with objects gets up to ``STATEMENTS_PER_REQUEST`` statements per request; one that replies
    with a bare number gets one at a time, and the level nearest to its number counts. The score of an NLI function or
    an ``NliModel`` is full support from its threshold on, and none below. Without evidence no call is made, and nothing
    is supported. ``source_name`` names the evidence where judgements are shown.
    """
    texts = [text for text in evidence if text.strip()]
    if not texts:
        return [SupportVerdict(SupportLevel.NONE, "there is no evidence")] * len(statements)
    distinct = list(dict.fromkeys(statements))
    if not distinct:
        return []
    verifier = resolve_verifier(by)
    if isinstance(verifier, (EntailmentFunction, NliModel)):
        verdicts = await _verdicts_by_nli(judge, verifier, texts, distinct)
    else:
        verdicts = await SUPPORT_FORM.ask(
            judge,
            verifier,
            prompt or built_in_prompt("support"),
            {"evidence": texts},
            distinct,
            size=STATEMENTS_PER_REQUEST,
            metric=metric,
            sample_id=sample_id,
            repeat=repeat,
            source_name=source_name,
        )
    by_statement = dict(zip(distinct, verdicts, strict=True))
    return [by_statement[statement] for statement in statements]


# --- by a judge ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VerdictForm:
    """Requests for a verdict on each text of a numbered list, and the parsing of the replies."""

    subject: str
    """What a text of the list is: ``statement``. The prompt has a slot with the plural of it."""
    levels: type[VerdictLevel]

    async def ask(
        self,
        judge: JudgeClient,
        critic: Critic,
        prompt: Prompt,
        frames: Mapping[str, Frames],
        texts: Sequence[str],
        *,
        size: int,
        metric: str,
        sample_id: str,
        repeat: int,
        source_name: str,
    ) -> list[SupportVerdict]:
        """A verdict for each text, in order; ``JudgeError`` on failure.

        A critic that replies with objects gets up to ``size`` texts per request, one that replies with a bare number
        gets one at a time, and a decision model a question for each text about all of them.
        """
        bare, values = returns_number_only(critic), self.values
        own: dict[str, Any] = {"metric": metric, "sample_id": sample_id, "repeat": repeat}
        size = 1 if bare else size
        parts = [texts[start : start + size] for start in range(0, len(texts), size)]

        def shown_with(part: Sequence[str]) -> dict[str, Frames]:
            numbered = {f"{self.subject} {number}": text for number, text in enumerate(part, 1)}
            return {**frames, f"{self.subject}s": numbered}

        def make_request(one_critic: Critic, part: Sequence[str]) -> JudgeRequest:
            form = ReplyForm(self._object_instruction(), self._schema(len(part)), self._bare_instruction())
            about = {"of": source_name, "statements": part}
            return form.request(prompt, one_critic, shown_with(part), **own, about=about)

        def make_requests(part: Sequence[str], one_critic: Critic) -> list[JudgeRequest]:
            """All texts at once, one by one for a bare number each, or a question for each to a decision model."""
            if not decides(one_critic):
                groups = [[text] for text in part] if returns_number_only(one_critic) else [part]
                return [make_request(one_critic, group) for group in groups]
            questions = []
            for number, text in enumerate(part, 1):
                name = f"{self.subject} {number}"
                request = decision_request(prompt, shown_with(part), tuple(values), values, words={}, about_frame=name)
                questions.append(replace(request, **own, about={"of": source_name, "statements": [text]}))
            return questions

        requests = list(chain.from_iterable(make_requests(part, critic) for part in parts))
        if isinstance(critic, Panel) and not bare:
            forms = (MemberForms(self._member_reply, partial(make_requests, part), values) for part in parts)
            requests = [replace(request, forms=form) for request, form in zip(requests, forms, strict=True)]
        answers = await gather_all(judge.ask(critic, request) for request in requests)
        if decides(critic):
            return [self.parse_decision(answer) for answer in answers]
        parse = self.parse_number if bare else self._parse_object
        return list(chain.from_iterable(parse(answer, len(part)) for part, answer in zip(parts, answers, strict=True)))

    @property
    def values(self) -> dict[str, float]:
        """The value of each label."""
        return {level.label: float(level) for level in self.levels}

    def _object_instruction(self) -> str:
        labels = " or ".join(f'"{level.label}"' for level in self.levels)
        return (
            'Reply with one JSON object and nothing else: {"verdicts": [{"number": 1, "why": "<why, in a few words>", '
            f'"verdict": {labels}}}, ...]}}, one verdict for each {self.subject}, in their order and with their '
            "numbers."
        )

    def _bare_instruction(self) -> str:
        return f"Reply with a number alone: {', '.join(f'{level.value:g} for {level.label}' for level in self.levels)}."

    def _schema(self, count: int) -> dict[str, Any]:
        verdict = object_schema(
            number={"type": "integer", "minimum": 1, "maximum": count},
            why={"type": "string"},
            verdict={"type": "string", "enum": [level.label for level in self.levels]},
        )
        return object_schema(verdicts={"type": "array", "items": verdict, "minItems": count, "maxItems": count})

    def parse_number(self, answer: Judgement, count: int) -> list[SupportVerdict]:
        """The verdict of a bare number."""
        value = UNIT_SCALE.normalise(answer.answer.get("score"))
        # Half way between two levels the lower one counts.
        return [SupportVerdict(min(self.levels, key=lambda level: (abs(level - value), level)))]

    def parse_decision(self, answer: Judgement) -> SupportVerdict:
        """The most probable level, with the expected one."""
        (level,) = (level for level in self.levels if level.label == answer.answer[SCORE])
        return SupportVerdict(level, expected=answer.weighted)

    def _parse_object(self, answer: Judgement, count: int) -> list[SupportVerdict]:
        reply = answer.answer.get("verdicts")
        if not isinstance(reply, (list, tuple)) or len(reply) != count:
            description = f"{len(reply)} verdicts" if isinstance(reply, (list, tuple)) else f"{reply!r:.80}"
            raise JudgeError("unparseable", f"the judge gave {description} for {count} {self.subject}s", raw=answer.raw)
        found: dict[int, SupportVerdict] = {}
        for row in reply:
            number, verdict = self._parse_verdict(row, answer.raw)
            if number in found or not 1 <= number <= count:
                problem = "twice" if number in found else f"of {count}"
                message = f"the judge gave a verdict on {self.subject} {number} {problem}"
                raise JudgeError("unparseable", message, raw=answer.raw)
            found[number] = verdict
        return [found[number] for number in range(1, count + 1)]

    def _parse_verdict(self, row: object, raw: str) -> tuple[int, SupportVerdict]:
        number = row.get("number") if isinstance(row, Mapping) else None
        label_text = row.get("verdict") if isinstance(row, Mapping) else None
        label = label_text.strip().lower() if isinstance(label_text, str) else None
        level = next((level for level in self.levels if level.label == label), None)
        if level is None or isinstance(number, bool) or not isinstance(number, int):
            raise JudgeError("unparseable", f"the judge gave {row!r:.80} where a verdict was asked for", raw=raw)
        assert isinstance(row, Mapping)
        rationale = row.get("why")
        return number, SupportVerdict(level, rationale if isinstance(rationale, str) else "")

    def _member_reply(self, critic: Critic, answers: Sequence[Judgement]) -> MemberReply:
        if decides(critic):
            labels = [self.parse_decision(answer).level.label for answer in answers]
        elif not returns_number_only(critic):
            return MemberReply(answers[0].answer)
        else:
            verdicts = chain.from_iterable(self.parse_number(answer, 1) for answer in answers)
            labels = [verdict.level.label for verdict in verdicts]
        rows = [{"number": number, "why": "", "verdict": label} for number, label in enumerate(labels, start=1)]
        return MemberReply({"verdicts": rows})


SUPPORT_FORM = VerdictForm("statement", SupportLevel)


# --- by an NLI function or model --------------------------------------------------------------------------------------


async def _verdicts_by_nli(
    judge: JudgeClient, nli: EntailmentFunction | NliModel, evidence: Sequence[str], statements: Sequence[str]
) -> list[SupportVerdict]:
    shared = getattr(judge, "score_entailment", None)  # shared with other metrics
    scores = await (nli.score(evidence, statements) if shared is None else shared(nli, evidence, statements))
    return [
        SupportVerdict(
            SupportLevel.FULL if score.probability >= nli.threshold else SupportLevel.NONE,
            f"entailed at {score.probability:.2f}",
            score.cut,
        )
        for score in scores
    ]


# --- options ---------------------------------------------------------------------------------------------------------


def parse_verifier(option: Any, *, what: str = "verifier") -> Any:
    """The verifier that an option describes; ``None`` and ``{use: NAME}`` are returned as they are.

    It may be a critic, a function ``(premise, hypothesis) -> float | bool``, an ``EntailmentFunction``, an
    ``NliModel``, or what a plan writes: ``{use: NAME}``, ``{nli: PATH}``, ``{minicheck: PATH}``, ``{hhem: PATH}``.
    """
    option = parse_use(option)
    if option is None or isinstance(option, (Use, LLMCritic, StructuredCritic, EntailmentFunction, NliModel)):
        return option
    if isinstance(option, Mapping) and len(option) == 1 and (kind := next(iter(option))) in NLI_KINDS:
        return NLI_KINDS[kind].parse(option[kind])
    if callable(option) and not isinstance(option, type):
        return EntailmentFunction(option)
    raise BadTypeError(
        f"{what} must be a critic, a function (premise, hypothesis) -> number, {{use: RESOURCE}}, "
        f"{' or '.join(f'{{{kind}: PATH}}' for kind in NLI_KINDS)}; not {option!r:.80}"
    )


def split_critic(critic: Any, verifier: Any) -> tuple[Any, Any]:
    """The critic and the verifier of the options; the critic may name both, as ``{extract: ..., decide: ...}``."""
    if not isinstance(critic, Mapping) or set(critic) != {"extract", "decide"}:
        return critic, verifier
    if verifier is not None:
        raise BadOptionError("verifier", "critic names it already, as 'decide'; leave one of them out")
    return critic["extract"], critic["decide"]


def resolve_verifier(option: Any, *, what: str = "verifier") -> Critic | EntailmentFunction | NliModel:
    """The verifier that an option stands for; raises if there is none."""
    verifier = parse_verifier(resolve(option, what=what), what=what)
    if isinstance(verifier, (LLMCritic, StructuredCritic, EntailmentFunction, NliModel)):
        return verifier
    raise BadValueError(f"there is no verifier for statements: {what} is {verifier!r:.80}")


def bound_verifier(option: Any) -> Any:
    """The verifier of an option, where it is known; ``{use: NAME}`` until it is bound to a resource."""
    return parse_verifier(option.thing) if isinstance(option, Use) and option.thing is not None else option


def verifier_name(option: Any) -> str:
    """A verifier as a signature shows it."""
    option = bound_verifier(option)
    return option.identity if isinstance(option, (EntailmentFunction, NliModel)) else critic_signature(option)
