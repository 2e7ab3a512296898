"""Critics: the interfaces of LLM judges, the request they get, the judgement they return, and the judge policy."""

from __future__ import annotations

import asyncio
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from ..errors import BadValueError, JudgeError
from ..net.retry import is_transient, retry_after
from ..options import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, check_options
from .prompting import Frames, Prompt


class LLMCritic(ABC):
    """The small interface: a prompt in, a number out. Anyone can implement it in a few lines.

    It may be called from several threads at once. Any exception makes the sample a failed measurement; raise
    ``JudgeError`` to state the reason and whether a retry may help.

    Example:
        >>> class KnowsAda(LLMCritic):
        ...     def score(self, *, prompt, metadata=None):
        ...         return 1.0 if "Ada Lovelace wrote it" in prompt else 0.0
        >>> evaluate(samples, outputs, [{"llm_faithfulness": {"critic": KnowsAda()}}])[0].value
        1.0
    """

    @abstractmethod
    def score(self, *, prompt: str, metadata: dict[str, Any] | None = None) -> float:
        """A number for the prompt, on the scale that the prompt and ``metadata["scale"]`` name."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens used by a judgement, as the server counts them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.prompt_tokens + other.prompt_tokens, self.completion_tokens + other.completion_tokens)


QuestionKind = Literal["predicate", "choice", "score"]


@dataclass(frozen=True, slots=True)
class Question:
    """A typed question about texts, for a judge that replies with a probability for each option."""

    kind: QuestionKind
    instructions: str
    options: tuple[str, ...]
    """Of a predicate, the false and the true one; of a score, its levels from the lowest to the highest."""


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """One request to a judge. Requests that send the same content may share one reply."""

    prompt: str
    """The complete user message; each judged text is in a frame that it cannot close."""
    schema: Mapping[str, Any]
    """The JSON schema of the answer, which is an object. Numbers carry ``minimum`` and ``maximum``."""
    system: str = ""
    """Instructions that stand before the prompt, as the system message."""
    prompt_id: str = ""
    """Name, version and digest of the prompt: ``faithfulness/1/3f9a2c``."""
    weighted: str | None = None
    """The key of the number to replace by its expected value, if the judge reports log-probabilities."""
    label_values: Mapping[str, float] = field(default_factory=dict)
    """The value of each label of an expected value, where labels are classes and not numbers."""
    repeat: int = 0
    """Index of this judgement among the repeats of the same item; each repeat is a new call."""
    may_repair: bool = True
    """Whether a critic may retry a reply that it cannot parse; false for the last call of a budget."""
    metric: str = ""
    """The metric that asks: for the usage log, never sent."""
    sample_id: str = ""
    """Which sample is judged: for messages and records, never sent."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Passed to an ``LLMCritic`` together with the prompt."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """The subject, for readers of the stored judgement, never sent: ``of`` names a text (the answer, d1), and
    ``statements`` or ``sentences`` are those that the reply refers to by number."""
    state: str = ""
    """The framed texts that ``questions`` are about; empty for a judge that writes its reply."""
    questions: tuple[Question, ...] = ()
    """One question, or those that travel together in one call: then the reply has an answer to each."""
    asked_with: str = ""
    """A digest of the questions that travel in the same call."""
    forms: MemberForms | None = field(default=None, repr=False, compare=False)
    """How the members of a panel are asked the same; never sent."""
    panel: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The panel whose member is asked, and how it votes: for records, never sent."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judge's reply, parsed and checked against the schema."""

    answer: Mapping[str, Any]
    """An object that fits the request's schema."""
    usage: Usage = Usage()
    raw: str = ""
    """The unparsed reply."""
    weighted: float | None = None
    """The requested expected value, if the probabilities cover enough of the scale."""
    mass: float | None = None
    """Probability mass on the labels of the scale at the position of the score."""
    repaired: bool = False
    """Whether the first reply could not be parsed and a second was requested."""
    cached: bool = False
    """Whether it comes from a cache or a recording."""
    values: Mapping[str, float] = field(default_factory=dict)
    """By key, the value between 0 and 1 that a panel decided on; it may lie between those of the labels."""

    @property
    def scores(self) -> dict[str, float]:
        """The numbers of the answer by name, without the expected value."""
        return {
            name: float(value)
            for name, value in self.answer.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)
        }

    @property
    def rationale(self) -> str | None:
        """The judge's rationale, if it was requested."""
        value = self.answer.get("rationale")
        return value if isinstance(value, str) else None


class StructuredCritic(ABC):
    """A judge that replies with an object that fits a schema: scores by dimension, verdicts, a rationale.

    Example:
        >>> from auepora_eval.judge.critic import Judgement
        >>> class KnowsAda(StructuredCritic):
        ...     name = "knows-ada"
        ...     async def judge(self, request):
        ...         return Judgement({"score": 1.0, "rationale": "it names her"})
        >>> evaluate(samples, outputs, [{"llm_faithfulness": {"critic": KnowsAda()}}])[0].value
        1.0
    """

    name: str = "critic"
    """Shown in signatures: critics that may judge differently need different names."""

    @abstractmethod
    async def judge(self, request: JudgeRequest) -> Judgement:
        """One judgement, or a ``JudgeError``. The session handles limits, retries, caching and usage."""

    def cache_key(self, request: JudgeRequest) -> Mapping[str, Any] | None:
        """Everything the reply depends on besides the request: model, temperature. ``None``: never cached."""
        return None

    async def aclose(self) -> None:
        """Close open resources, on the loop they were used on; the critic may be used again afterwards."""
        return


Critic = LLMCritic | StructuredCritic


@dataclass(frozen=True, slots=True)
class MemberReply:
    """The reply of a member, in the form that the panel was asked for."""

    answer: Mapping[str, Any]
    expected: Mapping[str, float] = field(default_factory=dict)
    """Expected values by key."""


@dataclass(frozen=True, slots=True)
class MemberForms:
    """How members of a panel are asked what the panel was asked: each may need its own form of request."""

    reply: Callable[[Critic, Sequence[Judgement]], MemberReply]
    """The reply that the answers of a member form; ``JudgeError`` if they form none."""
    requests: Callable[[Critic], Sequence[JudgeRequest]] | None = None
    """The requests to a member, none if it cannot reply in a form that serves; by default that of the panel."""
    label_values: Mapping[str, float] = field(default_factory=dict)
    """The values of labels; empty if they have none."""
    keys: frozenset[str] | None = None
    """The keys of the reply that are voted on; ``None`` for all."""


class JudgeClient(Protocol):
    """Calls critics on behalf of metrics; ``JudgeSession`` implements it with limits, retries and a cache."""

    @property
    def repeats(self) -> int:
        """Judgements per item."""

    async def ask(self, critic: Critic, request: JudgeRequest) -> Judgement:
        """The critic's judgement; ``JudgeError`` on failure."""


def critic_name(critic: object) -> str:
    """The critic in a signature: its name, or its class if it has none."""
    name = getattr(critic, "name", None)
    return name if isinstance(name, str) and name else f"{type(critic).__module__}.{type(critic).__qualname__}"


def as_judge_error(error: BaseException) -> JudgeError:
    """The error of a critic or a function as a ``JudgeError``."""
    if isinstance(error, JudgeError):
        return error
    return JudgeError(
        "critic_raised",
        f"{type(error).__name__}: {error}"[:1000],
        retry=is_transient(error),
        retry_after=retry_after(error),
    )


def check_number(value: object, low: float, high: float, giver: str, raw: str | None = None) -> float:
    """A number between two others, or a ``JudgeError``; ``giver`` begins the message: ``the critic returned``."""
    try:
        number = math.nan if isinstance(value, (bool, str, bytes)) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise JudgeError("unparseable", f"{giver} {value!r:.80}, not a number", raw=raw)
    if not low <= number <= high:
        raise JudgeError("out_of_range", f"{giver} {value!r:.80}, not between {low:g} and {high:g}", raw=raw)
    return number


# --- the judge policy: concurrency limit, timeout, retries, cache and budget -----------------------------------------


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a million tokens of a model, in the user's currency."""

    prompt: NonNegativeFloat
    completion: NonNegativeFloat = 0.0
    cached_prompt: NonNegativeFloat | None = None
    """Of prompt tokens that the server had in its cache; by default that of all others."""

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def cached_rate(self) -> float:
        """The price of cached prompt tokens, given or not."""
        return self.prompt if self.cached_prompt is None else self.cached_prompt

    def cost(self, prompt_tokens: int, completion_tokens: int, cached_tokens: int = 0) -> float:
        """The cost of these tokens; the cached ones are among those of the prompt."""
        prompt = self.prompt * (prompt_tokens - cached_tokens) + self.cached_rate * cached_tokens
        return (prompt + self.completion * completion_tokens) / 1_000_000


@dataclass(frozen=True, slots=True)
class JudgePolicy:
    """How judges are called.

    Example:
        >>> policy = JudgePolicy(repeats=2, max_calls=100)
        >>> critic = RecordedCritic({"q1": 1.0, "q2": 0.0})
        >>> evaluate(samples, outputs, [{"llm_faithfulness": {"critic": critic}}], judging=policy)[0].value
        0.5
    """

    concurrency: PositiveInt = 16
    """The most requests in flight to one judge; fewer while the server asks for it."""
    timeout: PositiveFloat = 120.0
    """Seconds one request may take."""
    retries: NonNegativeInt = 5
    """How often a request is retried after a transient failure."""
    backoff: NonNegativeFloat = 0.5
    """Seconds before the first retry; the waiting time doubles with each further one."""
    repeats: PositiveInt = 1
    """Judgements per item: the score is their mean, and their spread measures the judge's own variance."""
    cache: Path | None = None
    """A SQLite file that keeps judgements; ``None`` keeps none."""
    cache_only: bool = False
    """Make no calls: what is not in the cache is a failed measurement."""
    max_calls: NonNegativeInt | None = None
    max_tokens: NonNegativeInt | None = None
    max_cost: NonNegativeFloat | None = None
    """Hard caps: a call that would exceed one is not made and counts as a failed measurement."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """Prices by model."""
    controls: NonNegativeInt = 0
    """Items with a known verdict that are mixed into each metric's own, to show how often the judge is wrong."""

    def __post_init__(self) -> None:
        if isinstance(self.cache, str):
            object.__setattr__(self, "cache", Path(self.cache))
        check_options(self)
        if self.cache_only and self.cache is None:
            raise BadValueError("cache_only needs a cache: name the file that keeps the judgements")


# --- families of models, by name --------------------------------------------------------------------------------------


_FAMILIES = {
    "gpt": ("chatgpt", "gpt", r"text-(?:davinci|curie|babbage|ada)", "davinci", "codex", r"o[134](?=-|:|$)"),
    "claude": ("claude",),
    "gemini": ("gemini", "gemma", "medgemma", "codegemma", "palm"),  # Gemma is made from the research of Gemini
    "llama": ("llama", "codellama", "tinyllama", "vicuna", "alpaca"),
    "mistral": ("mistral", "mixtral", "ministral", "magistral", "codestral", "devstral", "pixtral", "zephyr"),
    "qwen": ("qwen", "codeqwen", "qwq", "qvq"),
    "deepseek": ("deepseek",),
    "command": ("command-(?:r|a|light|nightly)", "command(?=$|:)", "c4ai", "aya"),
    "phi": ("phi",),
    "nova": ("nova", "titan"),
    "grok": ("grok",),
    "glm": ("glm", "chatglm"),
    "kimi": ("kimi", "moonshot"),
    "granite": ("granite",),
    "falcon": ("falcon",),
    "olmo": ("olmo", "olmoe", "tulu"),
    "smollm": ("smollm",),
    "nemotron": ("nemotron",),
    "jamba": ("jamba",),
    "ernie": ("ernie",),
    "hunyuan": ("hunyuan",),
    "minimax": ("minimax",),
    "internlm": ("internlm",),
    "baichuan": ("baichuan",),
    "yi": ("yi",),
    "eleuther": ("gpt-?(?:j|neox?)", "pythia"),
    "t5": ("t5", "flan-t5", "flan"),
}
# A name begins after a character that is no letter or digit; a version may follow it, further letters may not.
_NAMES = {
    family: re.compile(rf"(?<![a-z0-9])(?:{'|'.join(names)})(?![a-z])", re.ASCII) for family, names in _FAMILIES.items()
}


def model_family(name: str) -> str | None:
    """The family of a model by its name (``openai/gpt-4o-mini`` is ``gpt``), or ``None`` if it is not known.

    Models of a family have their training in common, so a judge may prefer answers of its own family. A name with two
    families (``DeepSeek-R1-Distill-Qwen-7B``) belongs to the first one it names; of two that begin at the same place,
    to the longer (``gpt-neox`` is ``eleuther``).
    """
    text = name.lower().replace("_", "-")
    matches = ((family, pattern.search(text)) for family, pattern in _NAMES.items())
    places = [(match.start(), -match.end(), family) for family, match in matches if match is not None]
    return min(places)[2] if places else None


_MODEL_KEYS = re.compile(r"model|llm|generator|deployment")
_OTHER_KEYS = re.compile(r"embed|rerank")  # models that write no answers


def model_names(described: object, key: str = "") -> Iterator[str]:
    """The names of language models in a description of a system: strings under keys such as ``model`` and ``llm``."""
    if isinstance(described, Mapping):
        for name, part in described.items():
            yield from model_names(part, str(name).lower())
    elif isinstance(described, (list, tuple)):
        for part in described:
            yield from model_names(part, key)
    elif isinstance(described, str) and _MODEL_KEYS.search(key) and not _OTHER_KEYS.search(key):
        yield described


# --- questions to decision models: one request, or several about the same texts in one call ---------------------------

SCORE = "score"
"""The key of the score in a reply with a single score."""
MAX_OPTIONS = 255
"""The most options of a question to a decision model."""
_MAX_LEVELS = 10
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def require_options(critic: object, options: Sequence[str], asked: str, metric: str) -> None:
    """Raise if a critic, or a member of a panel, chooses from options and there are none; ``asked`` is for messages."""
    judges = getattr(critic, "judges", (critic,))
    if any(decides(judge) for judge in judges) and not 2 <= len(options) <= MAX_OPTIONS:
        raise BadValueError(
            f"metric '{metric}' asks for {asked}, and a decision model chooses from 2 to {MAX_OPTIONS} options: set a "
            "scale such as '1-5', 'yes-no' or classes"
        )


def decides(critic: object) -> bool:
    """Whether a critic replies with a probability for each option, and writes no text."""
    return bool(getattr(critic, "decides", False))


def decision_request(
    prompt: Prompt,
    texts: Mapping[str, Frames],
    options: Sequence[str],
    values: Mapping[str, float],
    *,
    words: Mapping[str, str],
    about_frame: str = "",
) -> JudgeRequest:
    """A question to a decision model about texts; ``about_frame`` is the one that it is about, if they are many.

    ``values`` are those of the options, for the expected value; empty if they have none.
    """
    state, instructions = prompt.render_question({"form": "", **words}, texts)
    if about_frame:
        instructions += f'\n\nGive the verdict on what is in the frame "{about_frame}", and on nothing else.'
    kind = _question_kind(options)
    weighted = SCORE if values else None
    if kind == "predicate":
        options = ("no", "yes")
    shown = f"{state}\n\n[{kind}: {', '.join(options)}]\n{instructions}"
    return JudgeRequest(
        shown,
        {},
        prompt_id=prompt.id,
        state=state,
        questions=(Question(kind, instructions, tuple(options)),),
        label_values=values,
        weighted=weighted,
    )


def _question_kind(options: Sequence[str]) -> QuestionKind:
    if set(options) == {"no", "yes"}:
        return "predicate"
    is_scale = all(_NUMBER.fullmatch(option) for option in options) and sorted(options, key=float) == list(options)
    return "score" if is_scale and len(options) <= _MAX_LEVELS else "choice"


_BYTES_PER_TOKEN = 3
"""A low estimate for English, so that what is said to fit does."""


def estimate_tokens(num_bytes: int) -> int:
    """About how many tokens a text of this many bytes has, rather too many."""
    return math.ceil(num_bytes / _BYTES_PER_TOKEN)


def named_questions(request: JudgeRequest) -> dict[str, Question]:
    """The questions of a request by the names that they are sent with."""
    return {f"q{number}": question for number, question in enumerate(request.questions, 1)}


# --- answers ---------------------------------------------------------------------------------------------------------


def read_answer(answer: Mapping[str, Any], request: JudgeRequest, raw: str = "") -> Judgement:
    """The judgement of one question: its most probable option, and the expected value; ``JudgeError`` if it failed."""
    if "error" in answer:
        raise JudgeError(answer["error"], answer["message"], raw=raw)
    weighted = None
    if request.label_values:
        distribution, values = answer["probabilities"], request.label_values
        mean = math.fsum(values[option] * chance for option, chance in distribution.items())
        mean /= math.fsum(distribution.values())
        weighted = min(max(mean, min(values.values())), max(values.values()))  # rounding must not move it out
    return Judgement(answer, raw=raw, weighted=weighted, mass=answer.get("label_mass"))


def named_answer(reply: Judgement, group: JudgeRequest, request: JudgeRequest) -> Mapping[str, Any]:
    """What the reply to a group has about one of its questions."""
    (name,) = (name for name, question in named_questions(group).items() if question == request.questions[0])
    return cast("Mapping[str, Any]", reply.answer["answers"][name])


def answers_all(judgement: Judgement) -> bool:
    """Whether a reply has an answer to each of its questions."""
    return all("error" not in answer for answer in judgement.answer["answers"].values())


# --- questions about the same texts travel together ------------------------------------------------------------------

_MAX_QUESTIONS = 200
"""Questions per request."""
_REQUEST_TOKENS = 2
"""A request may have this many times the tokens of the texts and the longest question."""
_IDLE_TURNS = 20
"""Turns of the event loop without a further question after which all are there."""


@dataclass(slots=True, eq=False)
class _Group:
    """Requests with one question each, about the same texts."""

    limit: int
    """The most tokens of one request, as estimated."""
    closed: asyncio.Future[dict[Question, JudgeRequest]]
    """By question, the request that it travels in."""
    requests: dict[Question, JudgeRequest] = field(default_factory=dict)


class QuestionGroups:
    """Questions to decision models that were asked at the same time about the same texts. Belongs to one event loop.

    Metrics ask about all samples at once, without waiting for anything. So a group is complete when the loop has had
    no further question for some turns. It depends on what is asked only: a run that is resumed has the same groups.
    With ``separate`` each question is a group.
    """

    def __init__(self, *, separate: bool = False) -> None:
        self._separate = separate
        self._open: dict[tuple[int, str, int], _Group] = {}
        self._arrivals = 0
        self._closing: asyncio.Task[None] | None = None

    async def join(self, critic: Critic, request: JudgeRequest) -> JudgeRequest:
        """The request that a question travels in: with the others of its group, or itself if there are none."""
        max_tokens = getattr(critic, "max_state_tokens", None)
        if self._separate or max_tokens is None or len(request.questions) != 1:
            return request
        self._arrivals += 1
        loop = asyncio.get_running_loop()
        key = id(critic), request.state, request.repeat
        group = self._open.get(key)
        if group is None:
            group = self._open[key] = _Group(_REQUEST_TOKENS * max_tokens, loop.create_future())
        (question,) = request.questions
        group.requests.setdefault(question, request)
        if self._closing is None:
            self._closing = loop.create_task(self._close_when_idle())
        found = (await asyncio.shield(group.closed))[question]
        return found if len(found.questions) > 1 else request

    async def _close_when_idle(self) -> None:
        seen = -1
        while seen != self._arrivals:
            seen = self._arrivals
            for _ in range(_IDLE_TURNS):
                await asyncio.sleep(0)
        groups, self._open, self._closing = list(self._open.values()), {}, None
        for group in groups:
            if not group.closed.done():
                group.closed.set_result(_travel(group.requests, group.limit))


def _travel(requests: Mapping[Question, JudgeRequest], limit: int) -> dict[Question, JudgeRequest]:
    """By question, the request that it travels in; in an order that does not depend on who asked first."""
    by_question: dict[Question, JudgeRequest] = {}
    for part in _split(sorted(requests, key=lambda question: json.dumps(_sent(question))), requests, limit):
        request = together([requests[question] for question in part])
        by_question |= dict.fromkeys(part, request)
    return by_question


def _split(
    questions: Sequence[Question], requests: Mapping[Question, JudgeRequest], limit: int
) -> list[list[Question]]:
    """The questions in parts that fit into one request."""
    state = len(requests[questions[0]].state.encode(errors="replace"))
    parts: list[list[Question]] = [[]]
    size = state
    for question in questions:
        added = len(json.dumps(_sent(question)))
        is_full = estimate_tokens(size + added) > limit
        if parts[-1] and (is_full or len(parts[-1]) == _MAX_QUESTIONS):
            parts.append([])
            size = state
        parts[-1].append(question)
        size += added
    return parts


def _sent(question: Question) -> list[Any]:
    return [question.kind, question.instructions, list(question.options)]


def together(requests: Sequence[JudgeRequest]) -> JudgeRequest:
    """One request with the questions of all these, which are about the same texts."""
    first = requests[0]
    questions = tuple(request.questions[0] for request in requests)
    sent = [_sent(question) for question in questions]
    return replace(
        first,
        prompt=f"{first.state}\n\n{json.dumps(sent, ensure_ascii=False)}",
        questions=questions,
        weighted=None,
        label_values={},
        prompt_id="",
        about={},
    )
