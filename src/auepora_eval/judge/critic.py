"""Critics: the interfaces of LLM judges, the request they get, the judgement they return, and the judge policy."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from ..errors import BadValueError, JudgeError
from ..net.retry import is_transient, retry_after
from ..options import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, check_options


class LLMCritic(ABC):
    """The small interface: a prompt in, a number out. Anyone can implement it in a few lines.

    It may be called from several threads at once. Any exception makes the sample a failed measurement; raise
    ``JudgeError`` to state the reason and whether a retry may help.
    """

    @abstractmethod
    def score(self, *, prompt: str, metadata: dict[str, Any] | None = None) -> float:
        """A number for the prompt, on the scale that the prompt and ``metadata["scale"]`` name."""
        raise NotImplementedError


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
    """A judge that replies with an object that fits a schema: scores by dimension, verdicts, a rationale."""

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


class MemberForms(Protocol):
    """How members of a panel are asked what the panel was asked: each may need its own form of request."""

    @property
    def label_values(self) -> Mapping[str, float]:
        """The values of labels; empty if they have none."""

    @property
    def keys(self) -> frozenset[str] | None:
        """The keys of the reply that are voted on; ``None`` for all."""

    def requests(self, critic: Critic) -> Sequence[JudgeRequest]:
        """The requests to a member; none if it cannot reply in a form that serves."""

    def reply(self, critic: Critic, answers: Sequence[Judgement]) -> MemberReply:
        """The reply that the answers to these requests form; ``JudgeError`` if they form none."""


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
    """How judges are called."""

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
        for name, one in described.items():
            yield from model_names(one, str(name).lower())
    elif isinstance(described, (list, tuple)):
        for one in described:
            yield from model_names(one, key)
    elif isinstance(described, str) and _MODEL_KEYS.search(key) and not _OTHER_KEYS.search(key):
        yield described
