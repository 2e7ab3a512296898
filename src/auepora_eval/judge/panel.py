"""Panels: several judges get the same request, and their replies are combined by a vote."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import math
import statistics
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, product
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from ..errors import BadTypeError, BadValueError, DataFileError, JudgeError, did_you_mean
from ..stats.stacking import stacked_probability
from .critic import (
    Critic,
    Judgement,
    JudgeRequest,
    LLMCritic,
    MemberForms,
    MemberReply,
    StructuredCritic,
    critic_name,
    model_family,
    model_names,
)

T = TypeVar("T")
VoteRule = Literal["mean", "median", "majority", "stacked"]
VOTE_RULES: tuple[VoteRule, ...] = get_args(VoteRule)
NOT_STORED = "not_stored"
"""Reason of a replay that lacks a judgement."""
_NOT_ASKED = frozenset({"preview", NOT_STORED})
"""Reasons that say nothing about a member: nobody was asked."""

# --- votes in a reply: numbers, booleans and labels, found by the schema ---------------------------------------------

VotePath = tuple[str | int, ...]
"""Where a vote stands in a reply: its key, or the key of a list, the number of a row and a key of the row."""


@dataclass(frozen=True, slots=True)
class Vote:
    """The vote of one member on one item."""

    answer: Any
    """A number, a label or a boolean, as the member gave it."""
    value: float | None
    """Its value between 0 and 1; ``None`` for a label without a value."""
    expected: float | None = None
    """The expected value by the probabilities of the labels, where the member reports them."""

    @property
    def number(self) -> float | None:
        """What means, medians and stacked weights use: the expected value, else the value."""
        return self.value if self.expected is None else self.expected


def _reply_as_asked(request: JudgeRequest, critic: Critic, answers: Sequence[Judgement]) -> MemberReply:
    """The reply of a member that got the request of the panel."""
    (answer,) = answers
    weighted, key = answer.weighted, request.weighted
    field_schema = _properties(request.schema).get(key or "", {})
    if weighted is None or key is None or not _is_number(field_schema):
        return MemberReply(answer.answer)
    return MemberReply(answer.answer, {key: _scaled(weighted, field_schema)})


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def _is_number(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") in ("number", "integer") and "minimum" in schema and "maximum" in schema


def _scaled(number: float, schema: Mapping[str, Any]) -> float:
    low, high = float(schema["minimum"]), float(schema["maximum"])
    return (number - low) / (high - low)


def has_votes(schema: Mapping[str, Any]) -> bool:
    """Whether a reply has anything to vote on, besides free text."""
    for inner in _properties(schema).values():
        items = inner.get("items", {})
        is_decided = inner.get("type") == "boolean" or "enum" in inner or _is_number(inner) or _is_number(items)
        if is_decided or (items.get("type") == "object" and has_votes(items)):
            return True
    return False


def read_votes(
    answer: Mapping[str, Any],
    schema: Mapping[str, Any],
    label_values: Mapping[str, float],
    *,
    keys: frozenset[str] | None = None,
    at: VotePath = (),
) -> dict[VotePath, Vote]:
    """The votes in a reply by place; ``JudgeError`` if one is missing or not as the schema says.

    Rows of a list belong together by their ``number``, if they have one, else by their order. A list of bounded
    integers is a set: each integer is in it or not.
    """
    votes: dict[VotePath, Vote] = {}
    for key, inner in _properties(schema).items():
        if (keys is not None and key not in keys) or (at and key == "number"):
            continue
        given, items, path = answer.get(key), inner.get("items", {}), (*at, key)
        if inner.get("type") == "boolean" or "enum" in inner or _is_number(inner):
            votes[path] = _read_vote(given, inner, label_values)
        elif _is_number(items):
            chosen = _as_list(given, key)
            for number in range(int(items["minimum"]), int(items["maximum"]) + 1):
                votes[(*path, number)] = Vote(number in chosen, float(number in chosen))
        elif items.get("type") == "object" and has_votes(items):
            for number, row in _rows(_as_list(given, key), inner):
                votes |= read_votes(row, items, label_values, at=(*path, number))
    return votes


def _read_vote(given: Any, schema: Mapping[str, Any], label_values: Mapping[str, float]) -> Vote:
    if "enum" in schema:
        folded = given.strip().casefold() if isinstance(given, str) else None
        label = next(
            (option for option in schema["enum"] if isinstance(option, str) and option.casefold() == folded), None
        )
        if label is not None:
            return Vote(label, label_values.get(label))
    elif schema.get("type") == "boolean":
        if isinstance(given, bool):
            return Vote(given, float(given))
    elif isinstance(given, (int, float)) and not isinstance(given, bool) and math.isfinite(given):
        if schema["minimum"] <= given <= schema["maximum"]:
            return Vote(given, _scaled(given, schema))
        raise JudgeError("out_of_range", f"the judge gave {given!r} outside {schema['minimum']} to {schema['maximum']}")
    raise JudgeError("unparseable", f"the judge gave {given!r:.80} where a vote was asked for")


def _as_list(given: Any, key: str) -> Sequence[Any]:
    if isinstance(given, (list, tuple)):
        return given
    raise JudgeError("unparseable", f"the judge gave {given!r:.80} where a list of {key} was asked for")


def _rows(given: Sequence[Any], schema: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows of a list, each with its number."""
    numbered = "number" in _properties(schema["items"])
    seen: set[int] = set()
    for place, row in enumerate(given, start=1):
        number = row.get("number") if isinstance(row, Mapping) and numbered else place
        if not isinstance(row, Mapping) or not isinstance(number, int) or isinstance(number, bool) or number in seen:
            raise JudgeError("unparseable", f"the judge gave {row!r:.80} where a row with its number was asked for")
        seen.add(number)
        yield number, row
    count = schema.get("minItems")
    if count is not None and count == schema.get("maxItems") and seen != set(range(1, count + 1)):
        raise JudgeError("unparseable", f"the judge gave {len(given)} rows where {count} were asked for")


def write_votes(
    answer: Mapping[str, Any], schema: Mapping[str, Any], decided: Mapping[VotePath, Any]
) -> dict[str, Any]:
    """A reply with the decisions in place of its own votes; everything else stays."""
    made = copy.deepcopy(dict(answer))
    for path, value in decided.items():
        key = path[0]
        if len(path) == 1:
            made[str(key)] = value
        elif len(path) == 2:
            chosen = [number for (other, number, *_), inside in decided.items() if other == key and inside]
            made[str(key)] = sorted(chosen)
        else:
            rows: dict[int, Any] = dict(_rows(made[str(key)], _properties(schema)[str(key)]))
            rows[int(path[1])][str(path[2])] = value
    return made


# --- the vote --------------------------------------------------------------------------------------------------------


def decide(votes: Sequence[Vote], rule: VoteRule, label_values: Mapping[str, float]) -> tuple[Any, float | None]:
    """The answer and its value that follow from the votes of the members that answered, in their order.

    ``mean`` and ``median`` are over values; of an even number of values, the median is the mean of the middle two. For
    labels the answer is the one whose value is nearest, and half way the lower one. ``majority`` is the answer that
    most members gave. Of several that equally many gave, the one with the lowest value wins (false, the worst number),
    and among labels without values the one that the earliest member gave. Booleans and labels without values are
    always decided by the majority.
    """
    numbers = [vote.number for vote in votes]
    ordered = [number for number in numbers if number is not None]
    if rule == "majority" or isinstance(votes[0].answer, bool) or len(ordered) < len(votes):
        return _most_votes(votes)
    value = statistics.median(ordered) if rule == "median" else math.fsum(ordered) / len(ordered)
    return _nearest_answer(value, votes, label_values), value


def _most_votes(votes: Sequence[Vote]) -> tuple[Any, float | None]:
    counts = Counter(vote.answer for vote in votes)
    most = max(counts.values())
    tied = [vote for vote in votes if counts[vote.answer] == most]
    winner = min(tied, key=lambda vote: 0.0 if vote.value is None else vote.value)  # the earliest of equal ones
    return winner.answer, winner.value


def _nearest_answer(value: float, votes: Sequence[Vote], label_values: Mapping[str, float]) -> Any:
    """The label or boolean whose value is nearest; ``None`` for numbers, which have a value at every place."""
    if isinstance(votes[0].answer, bool):
        return value > 0.5
    if not isinstance(votes[0].answer, str):
        return None
    return min(label_values, key=lambda label: (abs(label_values[label] - value), label_values[label]))


# --- weights of a stacked vote: a file that `auepora judge calibrate --learn-weights` writes --------------------------

WEIGHTS_VERSION = 1


def answer_digest(answer: str) -> str:
    """A digest by which a labelled answer is recognised."""
    return hashlib.sha256(answer.encode(errors="replace")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class LabelledItem:
    """An answer whose label entered the weights."""

    sample_id: str
    digest: str
    """``answer_digest`` of the answer."""
    fold: int


@dataclass(frozen=True, slots=True)
class PanelWeights:
    """Weights of the members of a panel, learned from human labels of one metric.

    An answer whose label entered the weights is scored by the coefficients of its fold, which its label did not enter.
    """

    members: tuple[str, ...]
    metric: str
    prompt_id: str
    coefficients: tuple[float, ...]
    """The intercept and the weight of each member."""
    fold_coefficients: tuple[tuple[float, ...], ...]
    items: tuple[LabelledItem, ...]
    path: str = field(default="", compare=False)
    _folds: Mapping[tuple[str, str], int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_folds", {(item.sample_id, item.digest): item.fold for item in self.items})

    @property
    def digest(self) -> str:
        """A digest of everything that changes a vote."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()[:12]

    def coefficients_for(self, sample_id: str, answer: str) -> tuple[float, ...]:
        """The coefficients for an answer: of its fold if its label entered the weights, else from all labels."""
        fold = self._folds.get((sample_id, answer_digest(answer)))
        return self.coefficients if fold is None else self.fold_coefficients[fold]

    def to_dict(self) -> dict[str, Any]:
        """The content of the file."""
        return {
            "version": WEIGHTS_VERSION,
            "metric": self.metric,
            "prompt": self.prompt_id,
            "members": list(self.members),
            "coefficients": list(self.coefficients),
            "fold_coefficients": [list(coefficient) for coefficient in self.fold_coefficients],
            "labels": [{"sample_id": item.sample_id, "answer": item.digest, "fold": item.fold} for item in self.items],
        }

    @classmethod
    def read(cls, path: str | Path) -> PanelWeights:
        """Read a weights file."""
        path = Path(path)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise DataFileError(path, None, error.strerror or str(error)) from error
        except ValueError as error:
            raise DataFileError(path, None, "is not a JSON file; write it with --learn-weights") from error
        version = content.get("version") if isinstance(content, Mapping) else None
        if version != WEIGHTS_VERSION:
            raise DataFileError(path, None, f"weights of version {WEIGHTS_VERSION} are read, not {version!r:.20}")
        try:
            made = cls(
                tuple(map(str, content["members"])),
                str(content["metric"]),
                prompt_id=str(content["prompt"]),
                coefficients=_numbers(content["coefficients"]),
                fold_coefficients=tuple(map(_numbers, content["fold_coefficients"])),
                items=tuple(
                    LabelledItem(str(item["sample_id"]), str(item["answer"]), item["fold"])
                    for item in content["labels"]
                ),
                path=str(path),
            )
            sizes = {len(row) - 1 for row in (made.coefficients, *made.fold_coefficients)}
            fits = sizes == {len(made.members)} and all(
                isinstance(item.fold, int) and 0 <= item.fold < len(made.fold_coefficients) for item in made.items
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataFileError(path, None, f"a key is missing or has a wrong value ({error})") from error
        if not fits:
            raise DataFileError(path, None, "its coefficients and folds do not fit together; learn the weights again")
        return made


def _numbers(given: Sequence[Any]) -> tuple[float, ...]:
    numbers = tuple(float(number) for number in given)
    if not all(map(math.isfinite, numbers)):
        raise ValueError("not a finite number")
    return numbers


# --- what is judged now, and the polls about it ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Poll:
    """One request to a panel: the votes of each member by item, and the decisions."""

    names: tuple[str, ...]
    rule: str
    votes: tuple[Mapping[VotePath, Vote] | None, ...]
    """By member; ``None`` if it failed or could not be asked."""
    errors: tuple[JudgeError | None, ...]
    """By member, why it has no votes."""
    decided: Mapping[VotePath, tuple[Any, float | None]]
    """The answer and the value of each item."""
    coefficients: tuple[float, ...] | None = None
    """The intercept and the weight of each member, in a stacked vote."""

    @property
    def formula(self) -> str:
        """How the votes are combined."""
        if self.coefficients is None:
            return f"combined by {self.rule}"
        intercept, *weights = self.coefficients
        terms = "".join(f" {weight:+.4f} {name}" for name, weight in zip(self.names, weights, strict=True))
        return f"combined to 1 / (1 + exp(-z)) with z = {intercept:.4f}{terms}"

    def row(self, path: VotePath) -> list[Vote | None]:
        """The votes on one item, by member."""
        return [None if votes is None else votes.get(path) for votes in self.votes]


@dataclass(slots=True)
class JudgedItem:
    """The answer that is judged now, and the polls about it."""

    sample_id: str
    answer: str
    polls: list[Poll] = field(default_factory=list)


_ITEM: ContextVar[JudgedItem | None] = ContextVar("judged_item", default=None)


@contextmanager
def judged_item(sample_id: str, answer: str) -> Iterator[JudgedItem]:
    """Collect the polls about an answer within the block."""
    item = JudgedItem(sample_id, answer)
    token = _ITEM.set(item)
    try:
        yield item
    finally:
        _ITEM.reset(token)


def current_item() -> JudgedItem | None:
    """The answer that is judged now, if there is one."""
    return _ITEM.get()


# --- the panel -------------------------------------------------------------------------------------------------------

AskOne = Callable[[Critic, JudgeRequest], Awaitable[Judgement]]


class Panel(StructuredCritic):
    """Several judges whose replies are combined by a vote; usable wherever a critic is.

    ``vote`` is ``mean``, ``median``, ``majority`` or ``stacked``, which needs ``weights``: a file that ``auepora judge
    calibrate --learn-weights`` wrote. Numbers, booleans and labels are voted on item by item. Free text comes from the
    first member that answered, and a request for free text alone goes to the members in turn until one answers. A
    member that failed is left out.

    Example:
        >>> first = RecordedCritic({"q1": 1.0, "q2": 0.0}, name="first")
        >>> panel = Panel([first, RecordedCritic({"q1": 0.5, "q2": 0.5}, name="second")])
        >>> evaluate(samples, outputs, [{"llm_faithfulness": {"critic": panel}}])[0].value
        0.5
    """

    def __init__(
        self, judges: Sequence[Critic], vote: VoteRule = "mean", weights: str | Path | PanelWeights | None = None
    ) -> None:
        self.judges = tuple(judges)
        self.vote: VoteRule = vote
        self.member_names = check_members(self.judges)
        check_vote(vote, has_weights=weights is not None)
        self.weights = PanelWeights.read(weights) if isinstance(weights, (str, Path)) else weights
        if self.weights is not None and self.weights.members != self.member_names:
            raise BadValueError(
                f"weights were learned for {', '.join(self.weights.members)}, in this order, and the panel has "
                f"{', '.join(self.member_names)}: learn them again with 'auepora judge calibrate --learn-weights'"
            )
        self._fixed: tuple[float, ...] | None = None
        stacked = "" if self.weights is None else f" {self.weights.digest}"
        self.name = f"panel({vote}{stacked}: {', '.join(self.member_names)})"
        self.one_number = all(
            isinstance(judge, LLMCritic) or getattr(judge, "one_number", False) for judge in self.judges
        )
        """Whether all members reply with bare numbers, so that the panel is asked for one, too."""

    @classmethod
    def from_record(cls, record: Mapping[str, Any], judges: Sequence[Critic]) -> Panel:
        """A panel that votes as it is recorded with a stored judgement."""
        made = cls(judges)
        made.vote, coefficients = record["vote"], record.get("coefficients")
        made._fixed = None if coefficients is None else tuple(coefficients)
        return made

    def __repr__(self) -> str:
        return f"Panel([{', '.join(self.member_names)}], vote={self.vote!r})"

    async def judge(self, request: JudgeRequest) -> Judgement:
        """Never called: a session asks the members."""
        raise BadValueError("the members of a panel are asked by a JudgeSession: use 'session.ask(panel, request)'")

    def require_weights_for(self, metric: str, prompt_ids: Sequence[str]) -> None:
        """Raise if the weights were learned for another metric, or from replies to another prompt."""
        weights = self.weights
        if weights is not None and (weights.metric != metric or weights.prompt_id not in prompt_ids):
            raise BadValueError(
                f"metric '{metric}' asks the prompt {', '.join(prompt_ids)}, and the weights of its panel were learned "
                f"for metric '{weights.metric}' with {weights.prompt_id}: learn weights for this metric, or "
                "choose the vote mean, median or majority"
            )

    def same_family_note(self, described: object) -> str:
        """A warning if a member is of the same model family as the system that is described; else empty."""
        families = {family for name in model_names(described) if (family := model_family(name)) is not None}
        if not families:
            return ""
        own = [
            f"{name} ({family})"
            for name, judge in zip(self.member_names, self.judges, strict=True)
            if (family := model_family(str(getattr(judge, "model", name)))) in families
        ]
        return (
            f"{' and '.join(own)} of the panel {'belongs' if len(own) == 1 else 'belong'} to the model family of the "
            "judged system; judges tend to prefer answers of their own family"
            if own
            else ""
        )

    async def poll(self, ask: AskOne, request: JudgeRequest) -> Judgement:
        """Ask the members and combine their replies; ``JudgeError`` if none answered."""
        forms = request.forms or MemberForms(partial(_reply_as_asked, request))
        is_voted = has_votes(request.schema)
        coefficients = self._coefficients(request) if is_voted else None
        record: dict[str, Any] = {"vote": self.vote, "members": list(self.member_names)}
        if coefficients is not None:
            record["coefficients"] = list(coefficients)
        if not is_voted:
            return await self._first_answer(ask, forms, request, record)
        outcomes = await asyncio.gather(
            *(_ask_member(ask, judge, forms, request, record) for judge in self.judges), return_exceptions=True
        )
        replies, votes, errors = zip(*(_read_outcome(outcome, forms, request) for outcome in outcomes), strict=True)
        if not any(replies):
            raise self._failure(errors)
        decided = self._decide(votes, forms, coefficients, request)
        item = current_item()
        if item is not None:
            item.polls.append(Poll(self.member_names, self.vote, votes, errors, decided, coefficients=coefficients))
        return _voted_judgement(replies, decided, request)

    async def _first_answer(
        self, ask: AskOne, forms: MemberForms, request: JudgeRequest, record: Mapping[str, Any]
    ) -> Judgement:
        """The reply of the first member that answers."""
        errors: list[JudgeError | None] = []
        for member in self.judges:
            try:
                reply = await _ask_member(ask, member, forms, request, record)
            except JudgeError as error:
                if error.reason in _NOT_ASKED:
                    raise
                errors.append(error)
                continue
            errors.append(None)
            if reply is not None:
                return Judgement(reply.answer)
        raise self._failure(errors)

    def _decide(
        self,
        votes: Sequence[Mapping[VotePath, Vote] | None],
        forms: MemberForms,
        coefficients: tuple[float, ...] | None,
        request: JudgeRequest,
    ) -> dict[VotePath, tuple[Any, float | None]]:
        paths = dict.fromkeys(chain.from_iterable(vote or () for vote in votes))
        if coefficients is None:
            decided: dict[VotePath, tuple[Any, float | None]] = {}
            for path in paths:
                cast = [vote[path] for vote in votes if vote is not None and path in vote]
                decided[path] = decide(cast, self.vote, forms.label_values)
            return decided
        path = next(iter(paths), ())
        numbers = [_number((vote or {}).get(path)) for vote in votes]
        if len(paths) != 1 or np.isnan(numbers).all():
            raise BadValueError(
                f"'vote: stacked' is for metrics with one number per answer; '{request.metric}' asks for "
                f"{len(paths)} votes in a reply, or for labels without values: choose mean, median or majority"
            )
        value = float(stacked_probability(coefficients, numbers)[0])
        given = [vote[path] for vote in votes if vote is not None]
        return {path: (_nearest_answer(value, given, forms.label_values), value)}

    def _coefficients(self, request: JudgeRequest) -> tuple[float, ...] | None:
        if self.vote != "stacked":
            return None
        if self._fixed is not None:
            return self._fixed
        assert self.weights is not None
        self.require_weights_for(request.metric, [request.prompt_id])
        item = current_item()
        if item is None:
            return self.weights.coefficients
        return self.weights.coefficients_for(item.sample_id, item.answer)

    def _failure(self, errors: Sequence[JudgeError | None]) -> JudgeError:
        known = [(name, error) for name, error in zip(self.member_names, errors, strict=False) if error is not None]
        reasons = {problem.reason for _, problem in known}
        shown = "; ".join(f"{name}: {problem}" for name, problem in known)
        return JudgeError(
            reasons.pop() if len(reasons) == 1 else "panel_failed", f"no judge of the panel answered: {shown}"
        )


async def gather_all(awaitables: Iterable[Awaitable[T]]) -> list[T]:
    """The results of all awaitables; if any failed, the first error, raised after all have finished."""
    outcomes = await asyncio.gather(*awaitables, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


async def _ask_member(
    ask: AskOne, member: Critic, forms: MemberForms, request: JudgeRequest, record: Mapping[str, Any]
) -> MemberReply | None:
    """The reply of a member; ``None`` if it cannot reply in a form that serves."""
    asked = [request] if forms.requests is None else forms.requests(member)
    requests = [
        replace(
            member_request,
            metric=request.metric,
            sample_id=request.sample_id,
            metadata={**request.metadata, **member_request.metadata},
            forms=None,
            panel=record,
        )
        for member_request in asked
    ]
    answers = await gather_all(ask(member, request) for request in requests)
    return forms.reply(member, answers) if answers else None


def _read_outcome(
    reply: MemberReply | BaseException | None, forms: MemberForms, request: JudgeRequest
) -> tuple[MemberReply | None, Mapping[VotePath, Vote] | None, JudgeError | None]:
    """The reply of a member, its votes, and why it failed; any other exception is raised."""
    if reply is None:
        return None, None, None
    if isinstance(reply, JudgeError) and reply.reason not in _NOT_ASKED:
        return None, None, reply
    if isinstance(reply, BaseException):
        raise reply
    try:
        votes = read_votes(reply.answer, request.schema, forms.label_values, keys=forms.keys)
    except JudgeError as error:
        return None, None, error
    for key, value in reply.expected.items():
        if (key,) in votes:
            votes[key,] = replace(votes[key,], expected=value)
    return reply, votes, None


def _voted_judgement(
    replies: Sequence[MemberReply | None], decided: Mapping[VotePath, tuple[Any, float | None]], request: JudgeRequest
) -> Judgement:
    """The judgement of the panel: the decisions, and the free text of the first member that wrote some."""
    answered = [reply for reply in replies if reply is not None]
    # The first of equal ones; a bare number has no text.
    base = max(answered, key=lambda judgement: len(judgement.answer))
    answers: dict[VotePath, Any] = {}
    for path, (answer, value) in decided.items():
        answers[path] = answer
        if answer is None:
            assert value is not None
            inner = _properties(request.schema)[str(path[0])]
            schema = inner if len(path) == 1 else _properties(inner["items"])[str(path[-1])]
            answers[path] = schema["minimum"] + value * (schema["maximum"] - schema["minimum"])
    values = {str(path[0]): value for path, (_, value) in decided.items() if len(path) == 1 and value is not None}
    return Judgement(write_votes(base.answer, request.schema, answers), values=values)


def _number(vote: Vote | None) -> float:
    return math.nan if vote is None or vote.number is None else vote.number


def check_members(judges: Sequence[object]) -> tuple[str, ...]:
    """The names of the members; raises unless these are two different judges or more."""
    for judge in judges:
        if isinstance(judge, Panel):
            raise BadValueError(f"a panel cannot be a member of a panel ({judge.name}): name its judges instead")
        if not isinstance(judge, (LLMCritic, StructuredCritic)):
            raise BadTypeError(f"a member of a panel must be an LLMCritic or a StructuredCritic, not {judge!r:.80}")
    names = tuple(map(critic_name, judges))
    if len(names) < 2:
        raise BadValueError(f"a panel needs two judges or more, not {len(names)}")
    double = next((name for name, count in Counter(names).items() if count > 1), None)
    if double is not None:
        raise BadValueError(
            f"two members of the panel are the same judge, {double}: to ask one judge several times, set repeats; two "
            "judges of your own need different names"
        )
    return names


def check_vote(vote: object, *, has_weights: bool) -> None:
    """Raise unless the vote is known, and has weights exactly if it needs them."""
    if vote not in VOTE_RULES:
        hint = did_you_mean(str(vote), VOTE_RULES, otherwise=f"; choose {', '.join(VOTE_RULES)}")
        raise BadValueError(f"there is no vote {vote!r:.40}{hint}")
    if vote == "stacked" and not has_weights:
        raise BadValueError("'vote: stacked' needs weights: write them with 'auepora judge calibrate --learn-weights'")
    if vote != "stacked" and has_weights:
        raise BadValueError(f"weights have no effect on 'vote: {vote}': leave them out, or choose 'vote: stacked'")


class PanelClient(ABC):
    """Base class of judge clients: a panel is asked member by member, any other critic as it is."""

    exclusions: Mapping[str, Collection[str]] = MappingProxyType({})
    """By the name of a metric, the ids of the samples that it does not judge, such as those outside a draw."""

    async def ask(self, critic: Critic, request: JudgeRequest) -> Judgement:
        """The critic's judgement, or the vote of a panel; ``JudgeError`` on failure."""
        if isinstance(critic, Panel):
            return await critic.poll(self.ask_one, request)
        return await self.ask_one(critic, request)

    @abstractmethod
    async def ask_one(self, critic: Critic, request: JudgeRequest) -> Judgement:
        """The judgement of a critic that is no panel; ``JudgeError`` on failure."""


# --- statistics of a panel over many samples: agreement, mean per member, failures -----------------------------------

_ITEM_COLUMNS = ("items", "pairs", "equal", "n", "sum", "squares", "spread")
_MEMBER_COLUMNS = ("sum", "n", "failed")


def num_panel_columns(panel: Panel | None) -> int:
    """The number of columns of statistics per sample."""
    return 0 if panel is None else len(_ITEM_COLUMNS) + len(_MEMBER_COLUMNS) * len(panel.judges)


def panel_columns(panel: Panel | None, item: JudgedItem | None) -> tuple[float, ...]:
    """The statistics of the polls about one answer; zeros if there is none."""
    totals = [0.0] * num_panel_columns(panel)
    polls = [] if panel is None or item is None else [poll for poll in item.polls if poll.names == panel.member_names]
    start = len(_ITEM_COLUMNS)
    for poll in polls:
        for place, error in enumerate(poll.errors):
            totals[start + 3 * place + 2] += error is not None
        for path in poll.decided:
            row = poll.row(path)
            for index, amount in enumerate(_item_statistics([vote for vote in row if vote is not None])):
                totals[index] += amount
            for place, vote in enumerate(row):
                if vote is not None and vote.number is not None:
                    totals[start + 3 * place] += vote.number
                    totals[start + 3 * place + 1] += 1
    return tuple(totals)


def _item_statistics(votes: Sequence[Vote]) -> tuple[float, ...]:
    """One item: pairs of members and those that agree; number, sum, sum of squares and spread of the values."""
    n = len(votes)
    counts = Counter(vote.answer for vote in votes)
    equal = sum(count * (count - 1) // 2 for count in counts.values())
    values = [vote.number for vote in votes if vote.number is not None]
    if n < 2 or len(values) < n:
        return 1.0, n * (n - 1) / 2, float(equal), 0.0, 0.0, 0.0, 0.0
    total, squares = math.fsum(values), math.fsum(value * value for value in values)
    spread = math.fsum((value - other) ** 2 for value, other in product(values, values)) / (n - 1)
    return 1.0, n * (n - 1) / 2, float(equal), float(n), total, squares, spread


def panel_summary(panel: Panel, table: npt.NDArray[np.float64]) -> dict[str, Any]:
    """Agreement among the members, and mean and failures of each, from the statistics of all samples.

    The agreement says how far the members give the same answers, not whether these are right. ``alpha`` is
    Krippendorff's for values on an interval scale, over the items that two members or more voted on.
    """
    totals = [math.fsum(column) for column in np.nan_to_num(table).T]
    items = dict(zip(_ITEM_COLUMNS, totals, strict=False))
    if not items["items"]:
        return {}
    n = items["n"]
    expected = 0.0 if n < 2 else 2 * (items["squares"] - items["sum"] ** 2 / n) / (n - 1)
    members: dict[str, dict[str, Any]] = {}
    for place, name in enumerate(panel.member_names):
        total, count, failed = totals[len(_ITEM_COLUMNS) + 3 * place :][:3]
        members[name] = {"mean": total / count if count else None, "failed": int(failed)}
    return {
        "vote": panel.vote,
        "num_votes": int(items["items"]),
        "agreement": items["equal"] / items["pairs"] if items["pairs"] else None,
        "alpha": 1 - items["spread"] / n / expected if expected > 1e-12 else None,
        "members": members,
    }
