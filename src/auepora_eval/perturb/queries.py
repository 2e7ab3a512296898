"""Query variants: perturbed copies of samples, by edits, by functions or by a language model."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from random import Random
from typing import Any, Protocol, runtime_checkable

from ..core.batch import check_samples, require_distinct_ids
from ..core.types import EvaluationSample
from ..errors import BadTypeError, BadValueError, DuplicateIdError
from ..options import PositiveInt, check_options
from ..runtime.processes import shared_loop

# --- calls of a perturber for many questions: sequential, threaded, as coroutines, or as a batch ---------------------

PerturberReply = str | Exception
"""The perturbed question, or the error of the call."""


def call_perturber(
    perturber: Any, queries: Sequence[str], rngs: Sequence[Random], concurrency: int
) -> list[PerturberReply]:
    """The perturber's reply to each question, in order, with up to ``concurrency`` questions in flight.

    Coroutines all run in one event loop, since a client that was opened in one cannot be used in another. The loop has
    a thread of its own: the caller may be in a loop already, as in a notebook.
    """
    if not queries:
        return []
    perturb_batch = getattr(perturber, "perturb_batch", None)
    if callable(perturb_batch):
        return _call_batch(perturb_batch, queries, rngs)

    def call(query: str, rng: Random) -> Any:
        try:
            return perturber.perturb(query, rng)
        except Exception as error:  # the user's code may raise anything
            return error

    first = call(queries[0], rngs[0])
    if inspect.isawaitable(first):  # only the result shows it: a plain function may return a coroutine
        rest = [partial(call, *query) for query in zip(queries[1:], rngs[1:], strict=True)]
        replies = shared_loop().run(_gather([lambda: first, *rest], concurrency))
    elif concurrency == 1:
        replies = [first, *map(call, queries[1:], rngs[1:])]
    else:
        with ThreadPoolExecutor(concurrency) as pool:
            replies = [first, *pool.map(call, queries[1:], rngs[1:])]
    return [_validate_text(reply) for reply in replies]


def _call_batch(
    perturb_batch: Callable[..., Any], queries: Sequence[str], rngs: Sequence[Random]
) -> list[PerturberReply]:
    try:
        replies = perturb_batch(list(queries), list(rngs))
        texts = list(shared_loop().run(_await_result(replies)) if inspect.isawaitable(replies) else replies)
    except Exception as error:  # the user's code may raise anything
        return [error] * len(queries)
    if len(texts) != len(queries):
        return [BadTypeError(f"perturb_batch returned {len(texts)} texts for {len(queries)} questions")] * len(queries)
    return [_validate_text(text) for text in texts]


async def _gather(starts: Sequence[Callable[[], Any]], concurrency: int) -> list[Any]:
    semaphore = asyncio.Semaphore(concurrency)

    async def one(start: Callable[[], Any]) -> Any:
        async with semaphore:
            reply = start()
            try:
                return await reply if inspect.isawaitable(reply) else reply
            except Exception as error:  # the user's code may raise anything
                return error

    return await asyncio.gather(*map(one, starts))


async def _await_result(work: Awaitable[Any]) -> Any:
    return await work


def _validate_text(text: Any) -> PerturberReply:
    if isinstance(text, Exception):
        return text
    if not isinstance(text, str):
        return BadTypeError(f"it gave {type(text).__name__} where a text is wanted")
    return text if text.strip() else BadTypeError("it returned an empty string")


# --- paraphrases of questions by a language model or a user's function -----------------------------------------------

PROMPT = """Reword the question below. Keep its meaning, its language, and every name and number in it.
Reply with the reworded question and nothing else.

Question: {query}"""

_QUOTES = {'"': '"', "'": "'", "“": "”", "„": "“", "«": "»", "‘": "’"}


@dataclass(frozen=True, slots=True)
class Paraphraser:
    """Asks a language model to reword a question: ``llm`` takes a prompt and returns a string; it may be ``async``.

    Where it raises or returns nothing, the variant is left out and counted. It is called once per variant: a retry
    costs money, and a model at temperature 0 would reply the same.
    """

    llm: Callable[[str], Any]
    prompt: str = PROMPT
    """The prompt; ``{query}`` is replaced by the question."""
    name: str = "paraphrase"
    scenario: str | tuple[str, ...] = "paraphrase"

    def __post_init__(self) -> None:
        check_options(self)
        if "{query}" not in self.prompt:
            raise BadValueError("the prompt of a Paraphraser must contain {query}")

    def perturb(self, query: str, rng: Random) -> str | Awaitable[str]:
        """The question reworded."""
        # Not str.format: a prompt may hold other braces, such as an example in JSON.
        reply = self.llm(self.prompt.replace("{query}", query))

        async def strip_awaited() -> str:
            return _strip_reply(await reply)

        return strip_awaited() if inspect.isawaitable(reply) else _strip_reply(reply)


def _strip_reply(text: Any) -> str:
    """The reply without the spaces and quotation marks around it."""
    if not isinstance(text, str):
        raise BadTypeError(f"the model returned {type(text).__name__}, not a string")
    plain: str = text.strip()
    quoted = len(plain) > 1 and _QUOTES.get(plain[0]) == plain[-1]
    return plain[1:-1].strip() if quoted else plain


@dataclass(frozen=True, slots=True)
class FunctionPerturber:
    """A user's function ``(query, rng) -> str`` as a perturber."""

    function: Callable[[str, Random], Any]
    name: str
    scenario: str | tuple[str, ...] = "paraphrase"

    def perturb(self, query: str, rng: Random) -> Any:
        """What the function makes of a question."""
        return self.function(query, rng)


def as_perturber(candidate: Any) -> Any:
    """Return a perturber unchanged; wrap a function ``(query, rng)`` under its own name.

    A function may have an attribute ``scenario``; the default is ``paraphrase``.
    """
    if callable(getattr(candidate, "perturb", None)) or not callable(candidate):
        return candidate
    name = getattr(candidate, "__name__", type(candidate).__name__)
    return FunctionPerturber(candidate, name, getattr(candidate, "scenario", "paraphrase"))


# --- query variants: perturbed copies of samples, linked to their base sample ----------------------------------------

_NAME = re.compile(r"\w[\w.-]*")


@runtime_checkable
class QueryPerturber(Protocol):
    """Makes variants of a question.

    ``perturb`` may be ``async``. A perturber that handles many questions at once also has
    ``perturb_batch(queries, rngs)``, which returns a string or an exception for each. ``tries`` (default 1) is how
    often it is called while a variant equals its question or another variant of it. A ``deterministic`` perturber is
    called for a single variant, whatever the number requested.
    """

    @property
    def name(self) -> str:
        """Its name in the ids of its variants: ``typo`` in ``q1~typo-1``."""

    @property
    def scenario(self) -> str | tuple[str, ...]:
        """The ``labels["scenario"]`` of its variants; by default ``noise_robustness`` reads typo, paraphrase."""

    def perturb(self, query: str, rng: Random) -> Any:
        """The perturbed question; ``rng`` is the only source of randomness, so that a seed reproduces it."""


PerturberLike = QueryPerturber | Callable[[str, Random], Any]


@dataclass(slots=True)
class VariantCounts:
    """The outcomes of the variants requested from one perturber."""

    made: int = 0
    unchanged: int = 0
    """Left out because they equal their question."""
    repeated: int = 0
    """Left out because they equal another variant of the same question."""
    failed: int = 0
    """Left out because the perturber raised or returned no string."""
    failure: str | None = None
    """The error of the first failure."""


class Variants(list[EvaluationSample]):
    """A list of samples and their variants, with counts of the outcomes."""

    def __init__(self, samples: Iterable[EvaluationSample] = ()) -> None:
        super().__init__(samples)
        self.counts: dict[str, VariantCounts] = {}
        """By the name of the perturber."""
        self.bases = 0
        """How many samples were perturbed."""
        self.variants_left = 0
        """How many were left unperturbed because they are variants themselves."""
        self.without_query = 0
        """How many were left unperturbed because they have no query."""


@dataclass(slots=True)
class _Job:
    """One sample, and the variants it has so far from one perturber."""

    sample: EvaluationSample
    texts: dict[int, str] = field(default_factory=dict)


def perturb_queries(
    samples: Iterable[EvaluationSample],
    perturbers: PerturberLike | Iterable[PerturberLike],
    *,
    seed: int = 0,
    variants: PositiveInt = 1,
    only_variants: bool = False,
    variants_too: bool = False,
    concurrency: PositiveInt = 1,
) -> Variants:
    """The samples, each followed by its variants: ``variants`` of them from each perturber.

    A function ``(query, rng)`` is a perturber too: its variants are named after it, and their scenario is
    ``paraphrase`` unless it has an attribute ``scenario``.

    A variant is a copy of its sample with another query, the id ``<id>~<name>-<number>``, ``labels["variant_of"]`` and
    ``labels["scenario"]``. It depends on seed, sample id, perturber and number only, not on the other samples.
    A variant that equals its question, or another variant of it, is redrawn a few times and then left out; one at
    which the perturber fails is left out. ``counts`` has the numbers.

    Samples that are variants already are not perturbed, unless ``variants_too``. ``only_variants`` leaves out the
    given samples. ``concurrency`` is the number of questions in flight per perturber.

    Args:
        samples: The samples.
        perturbers: Perturbers, or functions of a question and a random generator.
        seed: Of all draws.

    Returns:
        The samples, with ``counts``.

    Example:
        >>> def lower(query, rng):
        ...     return query.lower()
        >>> [sample.query for sample in perturb_queries(samples[:1], lower)]
        ['Who wrote it?', 'who wrote it?']
    """
    rows = list(samples)
    check_samples(rows)
    require_distinct_ids(rows)
    valid_perturbers = _validate_perturbers(perturbers)
    check_options(perturb_queries, {"seed": seed, "variants": variants, "concurrency": concurrency})
    result = Variants()
    bases = [row for row in rows if variants_too or row.labels.get("variant_of") is None]
    perturbable = [row for row in bases if row.query.strip()]
    result.variants_left, result.without_query, result.bases = (
        len(rows) - len(bases),
        len(bases) - len(perturbable),
        len(perturbable),
    )
    variants_of: dict[int, list[EvaluationSample]] = {}
    for perturber in valid_perturbers:
        counts = result.counts[perturber.name] = VariantCounts()
        for job in _generate_variants(perturber, perturbable, counts, concurrency, seed=seed, variants=variants):
            linked = [_variant(job.sample, text, perturber, number, seed) for number, text in job.texts.items()]
            variants_of.setdefault(id(job.sample), []).extend(linked)
    for row in rows:
        result.extend([*([] if only_variants else [row]), *variants_of.get(id(row), ())])
    taken_ids = {row.sample_id for row in rows}
    for variant in chain.from_iterable(variants_of.values()):
        if variant.sample_id in taken_ids:
            raise DuplicateIdError(
                f"the id {variant.sample_id!r} of a variant is already the id of a sample; "
                "perturb the samples without their old variants, or rename the perturber"
            )
        taken_ids.add(variant.sample_id)
    return result


def _generate_variants(
    perturber: QueryPerturber,
    samples: Sequence[EvaluationSample],
    counts: VariantCounts,
    concurrency: int,
    *,
    seed: int,
    variants: int,
) -> list[_Job]:
    """Each sample with its variants from one perturber."""
    jobs = [_Job(sample) for sample in samples]
    tries = max(1, int(getattr(perturber, "tries", 1)))
    if getattr(perturber, "deterministic", False):
        variants = 1
    for number in range(1, variants + 1):
        waiting, left = jobs, Counter[str]()
        for attempt in range(tries):
            rngs = [_rng(seed, job.sample.sample_id, perturber.name, number, attempt) for job in waiting]
            replies = call_perturber(perturber, [job.sample.query for job in waiting], rngs, concurrency)
            outcomes = [_accept_variant(job, number, text, counts) for job, text in zip(waiting, replies, strict=True)]
            left = Counter(filter(None, outcomes))
            waiting = [job for job, outcome in zip(waiting, outcomes, strict=True) if outcome]
        counts.unchanged += left["unchanged"]
        counts.repeated += left["repeated"]
    return jobs


def _accept_variant(job: _Job, number: int, text: PerturberReply, counts: VariantCounts) -> str:
    """Store a variant or count its failure; returns the reason to try again, or an empty string."""
    if isinstance(text, Exception):
        counts.failed += 1
        counts.failure = counts.failure or (f"{type(text).__name__}: {text}" if str(text) else type(text).__name__)
    elif text == job.sample.query:
        return "unchanged"
    elif text in job.texts.values():
        return "repeated"
    else:
        counts.made += 1
        job.texts[number] = text
    return ""


def _rng(seed: int, sample_id: str, name: str, number: int, attempt: int) -> Random:
    """The random generator of one variant, independent of the other samples and variants."""
    key = "\x1f".join([str(seed), name, str(number), str(attempt), sample_id])
    return Random(int.from_bytes(hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()))  # noqa: S311


def _variant(base: EvaluationSample, query: str, perturber: QueryPerturber, number: int, seed: int) -> EvaluationSample:
    scenario = perturber.scenario
    return replace(
        base,
        sample_id=f"{base.sample_id}~{perturber.name}-{number}",
        query=query,
        labels={
            **base.labels,
            "variant_of": base.sample_id,
            "scenario": scenario if isinstance(scenario, str) else list(scenario),
        },
        metadata={**base.metadata, "perturbed": {"by": perturber.name, "number": number, "seed": seed}},
        # A variant of a variant belongs to the question that both come from.
        cluster_id=base.cluster if base.labels.get("variant_of") is not None else base.cluster_id,
    )


def _validate_perturbers(perturbers: PerturberLike | Iterable[PerturberLike]) -> list[QueryPerturber]:
    several = isinstance(perturbers, Iterable) and not isinstance(perturbers, str)
    given: Iterable[Any] = perturbers if several else [perturbers]  # type: ignore[assignment]
    listed: list[Any] = [as_perturber(perturber) for perturber in given]
    if not listed:
        raise BadValueError("no perturber is given; give at least one, such as Typo(0.05)")
    seen: set[str] = set()
    for perturber in listed:
        name, scenario = getattr(perturber, "name", None), getattr(perturber, "scenario", None)
        if isinstance(perturber, type) or not callable(getattr(perturber, "perturb", None)):
            raise BadTypeError(
                f"{perturber!r:.100} is not a perturber: it needs a name, a scenario and perturb(query, rng)"
            )
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise BadValueError(
                f"a perturber's name becomes part of ids: letters, digits, '_', '-' and '.'; not {name!r}"
            )
        scenarios = [scenario] if isinstance(scenario, str) else list(scenario or ())
        if not scenarios or not all(isinstance(part, str) and part.strip() for part in scenarios):
            raise BadValueError(f"the perturber '{name}' must name its scenario, such as 'typo'; not {scenario!r}")
        if name in seen:
            raise BadValueError(f"two perturbers have the name '{name}'; rename one of them")
        seen.add(name)
    return listed
