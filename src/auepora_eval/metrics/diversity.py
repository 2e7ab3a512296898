"""Diversity: variety of the answers of a run, and of the documents returned for a question."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, combinations
from operator import itemgetter, mul
from typing import Any, ClassVar

import numpy as np

from ..core.batch import Batch
from ..core.conventions import SignatureOption
from ..core.derivation import (
    NO_CONTEXT,
    Cell,
    Derivation,
    ExplainContext,
    add_division,
    add_step,
    add_table,
    record_steps,
)
from ..core.general_derivation import sample_outcome
from ..core.metrics_base import declare, set_metadata
from ..core.reduce import Clusters, Fold, Mean, Reducer
from ..core.registry import ConfiguredMetric, register
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..features.embeddings import (
    MODEL_ROUNDING,
    NO_VECTOR,
    UNUSABLE_REASONS,
    Vector,
    cosines_to_others,
    document_vectors,
    embed_texts,
    list_cosines,
    word_cosines_to_others,
)
from ..features.texts import GoldSide, answers, no_response, token_ids
from ..models.embedders import embedder_name, parse_embedder, require_embedder, resolve_embedder
from ..options import PositiveInt
from ..stats.intervals import Interval, Ints
from ..text.ngrams import DistinctNgramCounter, distinct_ngrams, ngram_counts
from ..text.tokenizers import ByteTokenizer, plain_words, word_tokenizer
from ..text.vocabulary import Vocabulary
from .answer_base import AnswerMetric, TokenizedMetric, tokenizer_label
from .overlap import Tokenize, format_counts, ngrams, tokenize_answer

# --- derivations of diversity: the cosines of documents, or of answers, pair by pair ---------------------------------


def answer_distance_steps(
    sample_id: str,
    answer: str,
    pairs: Sequence[tuple[EvaluationSample, SystemOutputs | None]],
    value: float,
    *,
    tokenize: Tokenize = plain_words,
) -> Derivation:
    """One minus the mean cosine of an answer with all others, as bags of words."""
    with record_steps() as steps:
        words = Counter(tokenize_answer(answer, tokenize))
    rows: list[tuple[Cell, ...]] = []
    for sample, output in pairs:
        if sample.sample_id == sample_id or output is None or output.error is not None or output.response is None:
            continue
        other = Counter(tokenize(output.response.text))
        if other:
            rows.append((sample.sample_id, _cosine(words, other)))
    rows.sort(key=lambda row: -float(row[1] or 0.0))
    steps.table("The cosine with every other answer, the most alike first", ("answer of", "cosine"), rows)
    return steps.finish_with_value(f"1 − their mean over {len(rows)} answers", value)


def _cosine(counts: Counter[str], other: Counter[str]) -> float:
    squares = sum(n * n for n in counts.values()) * sum(n * n for n in other.values())
    return sum(n * other[word] for word, n in counts.items()) / math.sqrt(squares)


# --- diversity: variety of the answers of a run, and of the documents returned for a question ------------------------


class DistinctShare(Reducer):
    """Distinct n-grams over all n-grams of all texts. Reads the texts in ``keys``.

    It has no interval: a bootstrap repeats texts, and a repeated text adds no distinct n-gram.
    """

    def __init__(self, n: int, words: ByteTokenizer | None = None) -> None:
        self.n = n
        self.name = f"distinct[{n}]"
        self._words = words

    def fold(self) -> Fold:
        """Its size grows with the distinct n-grams, not with the texts."""
        return _DistinctFold(self.n, self._words or word_tokenizer().byte_tokenizer)


class _DistinctFold(Fold):
    def __init__(self, n: int, words: ByteTokenizer) -> None:
        self._coder = Vocabulary(words, remember=False)
        self._grams = DistinctNgramCounter(n)

    def add(self, scores: Scores) -> None:
        if scores.keys is not None:
            texts = [text for text, counted in zip(scores.keys, scores.counted.tolist(), strict=True) if counted]
            self._grams.add(self._coder.encode(texts))

    def value(self) -> float:
        return self._grams.distinct / self._grams.total if self._grams.total else math.nan


@register("distinct_n")
@dataclass(frozen=True)
class DistinctN(TokenizedMetric, AnswerMetric):
    r"""Proportion of different n-grams among all n-grams of all answers: low where answers repeat each other or
    themselves.

    .. math:: |\{\text{n-grams}\}| / |\text{n-grams}|

    Words are in lower case without punctuation, in an answer in a script without spaces its letters; an n-gram lies
    within one answer. The score of a sample is the share within its own answer; the value is not their mean but that of
    all answers together, and it falls as answers grow in number and length: compare runs over the same samples. It has
    no interval. Failed answers are left out.
    """

    n: PositiveInt = 2
    tokenizer: str = field(default="auto", kw_only=True)
    gold_side: ClassVar[GoldSide] = "answers"

    target = TargetCategory.DIVERSITY
    metadata = declare(
        counts_system_failures=False,
        output_skips=frozenset({"too_short"}),
        skip_reasons={
            **AnswerMetric.metadata.skip_reasons,
            "too_short": "the answer has fewer than n words",
        },
        reference="Li et al. 2016",
        examples=(
            "distinct_n",
            {"distinct_n": {"n": 1}},
        ),
        signature={"n": "n", "tok": SignatureOption("tokenizer", unless="auto", write=tokenizer_label)},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        is_cut = self.tokenizer not in ("auto", "words")
        words = self.key_tokenizer if is_cut else None
        object.__setattr__(self, "reducer", DistinctShare(self.n, words))

    def score_tokens(self, batch: Batch) -> Scores:
        """The proportion within each answer; the answer is kept as key for the overall value."""
        words = token_ids(batch, self.words, "answers")
        every = ngram_counts(words, self.n)
        values = distinct_ngrams(words, self.n) / np.maximum(every, 1)
        scores = self.outcome(batch, values, skip_answer={"too_short": every == 0})
        return replace(scores, keys=tuple(self.joined_tokens(answers(batch))))

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """The proportion within one answer by the plain definition."""
        found = ngrams(tokenize_answer(answer, self.words.tokenize), self.n)
        if not found:
            return Score.skip("too_short")
        repeated = Counter({gram: count for gram, count in Counter(found).items() if count > 1})
        add_step(f"N-grams of {self.n} words that are repeated: {format_counts(repeated)}")
        return Score(add_division("Different over all", len(set(found)), len(found)))

    def reference_value(self, samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs]) -> float | None:
        """The proportion over all answers by the plain definition."""
        texts = [output.response.text for output in outputs if output.response is not None]
        found = list(chain.from_iterable(ngrams(self.tokens_of(text), self.n) for text in texts))
        return len(set(found)) / len(found) if found else math.nan


@dataclass(frozen=True)
class _EmbeddingMetric(ConfiguredMetric):
    """A metric that takes an embedder, and can do without one."""

    embed: Any = field(default=None, kw_only=True, metadata={"convert": partial(parse_embedder, what="embed")})

    @property
    def rounding(self) -> float:
        """The rounding tolerance of a model."""
        return 0.0 if self.embed is None else MODEL_ROUNDING

    def require_ready(self) -> None:
        """Raise unless the embedder, if there is one, is available."""
        if self.embed is not None:
            require_embedder(self.embed, what="embed")


@register("intra_list_diversity", at="top_k")
@dataclass(frozen=True)
class IntraListDiversity(_EmbeddingMetric):
    r"""Dissimilarity of the first k documents: 1 minus the mean cosine over all pairs.

    .. math:: 1 - \frac{2}{m \cdot (m - 1)} \cdot \sum_{i < j} \text{cos}(d_i, d_j)

    m is the number of documents, k at most; fewer than two cannot be compared. Vectors are read from
    `metadata["embedding"]` of each document, a list of numbers. `embed` may be given instead, as the `embed_fn` of
    `embedding_similarity`: a function from a list of texts to a vector for each, a model's path, a resource of the
    plan; each different text is embedded once. A document returned twice is two positions with a cosine of 1. Vectors
    of different length, or that are not lists of finite numbers, are a failed measurement (`bad_embedding`), and so is
    a vector of nothing but zeros (`zero_vector`). Failed outputs are left out.
    """

    top_k: PositiveInt | None = 5

    target = TargetCategory.DIVERSITY
    metadata = declare(
        reads=frozenset({"retrieved"}),
        counts_system_failures=False,
        output_skips=frozenset({NO_VECTOR, "too_few_documents"}),
        skip_reasons={
            "too_few_documents": "fewer than two documents were returned, or are looked at",
            NO_VECTOR: "one of the documents looked at has no vector",
        },
        reference="Smyth and McClave 2001; Ziegler et al. 2005",
        range=(0.0, 2.0),
        examples=(
            "intra_list_diversity@5",
            "intra_list_diversity@2",
            {"intra_list_diversity": {"top_k": None, "depth": 3}},
        ),
        signature={
            "vectors": SignatureOption("embed", words={None: "metadata"}, write=embedder_name),
            "depth": SignatureOption("k", differs_from="top_k"),
        },
        reads_depth="k",
    )

    @property
    def k(self) -> int | None:
        """The number of documents read; ``None`` for all."""
        depth = self.active_conventions.depth
        return self.top_k if depth is None else min(self.top_k or depth, depth)

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether there are two documents, and any has a vector or a text."""
        documents = [item.doc for item in output.retrieved[: self.k]]
        if self.embed is not None:
            return len(documents) > 1 and any(document.text for document in documents)
        metadata = [document.metadata for document in documents]
        return len(metadata) > 1 and any(
            isinstance(known, Mapping) and known.get("embedding") is not None for known in metadata
        )

    def score(self, batch: Batch) -> Scores:
        """One minus the mean cosine of each list."""
        embed = None if self.embed is None else resolve_embedder(self.embed, what="embed")
        found = list_cosines(batch, self.k, embed)
        return Scores.of(
            np.clip(1.0 - found.values, *self.range),  # a rounding error below 0 where all are the same
            skip={"too_few_documents": found.counts < 2, NO_VECTOR: found.problems[NO_VECTOR]},
            fail={reason: found.problems[reason] for reason in UNUSABLE_REASONS},
        )

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The plain definition, pair by pair."""
        documents = [item.doc for item in output.retrieved[: self.k]]
        if len(documents) < 2:
            return Score.skip("too_few_documents")
        embed = None if self.embed is None else resolve_embedder(self.embed, what="embed")
        (vectors,) = document_vectors(Batch([sample], [output]), [documents], embed)
        ids = [document.doc_id for document in documents]
        problems = {vector for vector in vectors if isinstance(vector, str)}
        numbers = [vector.tolist() for vector in vectors if not isinstance(vector, str)]
        if NO_VECTOR in problems:
            return Score.skip(NO_VECTOR)
        if problems or len(set(map(len, numbers))) > 1:
            return Score.fail(next((reason for reason in UNUSABLE_REASONS if reason in problems), UNUSABLE_REASONS[0]))
        pairs = sorted(combinations(range(len(numbers)), 2), key=itemgetter(1))
        cosines = [math.fsum(map(mul, numbers[first], numbers[second])) for first, second in pairs]
        add_table(
            "Every pair of documents, and the cosine of their vectors",
            ("rank", "document", "rank", "with", "cosine"),
            ((i + 1, ids[i], j + 1, ids[j], cosine) for (i, j), cosine in zip(pairs, cosines, strict=True)),
        )
        return Score(1.0 - math.fsum(cosines) / len(cosines))

    def explain(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The cosine of every pair of documents, where their vectors are stored with them."""
        if self.embed is not None:
            return super().explain(sample, output, around)
        with record_steps() as steps:
            self.reference(sample, output)
        # The fast path sums in another order; the last digit is that of the score.
        value = float(self.score(Batch([sample], [output])).values[0])
        return steps.finish_with_value("1 − the mean of the cosines", value)


class MeanOfPairs(Mean):
    """The mean over all pairs of samples, from the mean of each sample over its pairs.

    It has no interval: pairs that share a sample are not independent.
    """

    def bounds(self, scores: Scores, low: float, high: float) -> tuple[float, float] | None:
        """The mean if every pair with an unmeasured sample had ``low``, and ``high``."""
        n, failed = int(scores.counted.sum()), int((scores.status == Status.MEASURE_FAILED).sum())
        every, known = (m * (m - 1) / 2 for m in (n + failed, n))
        seen = known * self.value(scores) if n else 0.0
        return ((seen + (every - known) * low) / every, (seen + (every - known) * high) / every) if every else None

    def interval(
        self, scores: Scores, low: float, high: float, *, binary: bool = False, clusters: Clusters | None = None
    ) -> Interval | None:
        """None."""
        return None


@register("response_diversity")
@dataclass(frozen=True)
class ResponseDiversity(TokenizedMetric, _EmbeddingMetric):
    r"""Dissimilarity of the answers of a run: 1 minus the mean cosine over all pairs of answers.

    .. math:: 1 - \frac{2}{n \cdot (n - 1)} \cdot \sum_{i < j} \text{cos}(a_i, a_j)

    An answer is represented by its word counts, in lower case and without punctuation (in a script without spaces, by
    those of its letters): 0 if all answers have the same words, 1 if no two share one. `embed` may be given instead, as
    the `embed_fn` of `embedding_similarity`, and then the range is [0, 2]. The score of a sample is the mean distance
    of its answer to all others, so that the lowest score finds the answer most like the rest; a slice is the same among
    its own answers. A system that always gives the same answer scores low; whether answers should differ depends on the
    questions. It has no interval, since distances to the same answer are dependent. Failed outputs are left out.
    """

    tokenizer: str = field(default="auto", kw_only=True)
    gold_side: ClassVar[GoldSide] = "answers"

    target = TargetCategory.DIVERSITY
    reducer = MeanOfPairs()
    metadata = declare(
        reads=frozenset({"response"}),
        counts_system_failures=False,
        needs_all=True,
        skip_reasons={
            **AnswerMetric.metadata.skip_reasons,
            "empty_answer": "the answer has no words",
            "no_other_answer": "it is the only answer",
        },
        examples=("response_diversity",),
        signature={
            "vectors": SignatureOption("embed", words={None: "words"}, write=embedder_name),
            "tok": SignatureOption("tokenizer", unless="auto", write=tokenizer_label),
        },
    )

    def __post_init__(self) -> None:
        if self.embed is not None:
            set_metadata(self, range=(0.0, 2.0))
        super().__post_init__()

    def score(self, batch: Batch) -> Scores:
        """Which answers exist; distances follow once all are known."""
        return super().score(batch) if self.embed is None else self.score_tokens(batch)

    def score_tokens(self, batch: Batch) -> Scores:
        """Which answers exist, where all are cut by one tokenizer."""
        texts = answers(batch)
        empty = token_ids(batch, self.words, "answers").counts == 0
        skip = {"no_response": no_response(batch), "empty_answer": empty}
        if self.embed is None:
            return Scores.of(np.zeros(len(batch)), skip=skip, keys=self.joined_tokens(texts))
        texts_by_row = [[] if none else [text] for text, none in zip(texts, empty.tolist(), strict=True)]
        embeddings = embed_texts(batch, resolve_embedder(self.embed, what="embed"), texts_by_row)
        vectors: list[Vector] = [embeddings[text[0]] if text else NO_VECTOR for text in texts_by_row]
        fail = {
            reason: np.array([isinstance(v, str) and v == reason for v in vectors], np.bool_)
            for reason in UNUSABLE_REASONS
        }
        keys = [None if isinstance(vector, str) else vector.tobytes() for vector in vectors]
        return Scores.of(np.zeros(len(batch)), skip=skip, fail=fail, keys=keys)

    def pair_samples(self, scores: Scores) -> Scores:
        """The mean distance of each answer to all others."""
        there = scores.status == Status.SCORED
        keys = [] if scores.keys is None else [scores.keys[row] for row in np.flatnonzero(there)]
        alone = replace(scores, keys=None)
        if len(keys) < 2:
            return alone.replaced(there, Status.SKIPPED, "no_other_answer", math.nan)
        if self.embed is None:
            cosines = word_cosines_to_others(Vocabulary(self.key_tokenizer, remember=False).encode(keys))
        elif len(set(map(len, keys))) > 1:  # it is unknown which of them is wrong
            return alone.replaced(there, Status.MEASURE_FAILED, UNUSABLE_REASONS[0], math.nan)
        else:
            cosines = cosines_to_others(np.frombuffer(b"".join(keys)).reshape(len(keys), -1))
        values = alone.values.copy()
        values[there] = np.clip(1.0 - cosines, *self.range)
        return replace(alone, values=values)

    def explain(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The distance of this answer to every other one."""
        value = None if self.embed is not None else sample_outcome(self, sample, output, around)
        if value is None or value[0] is None or output.response is None:
            return super().explain(sample, output, around)
        return answer_distance_steps(
            sample.sample_id, output.response.text, around.pairs, value[0], tokenize=self.tokens_of
        )

    def select(self, scores: Scores, joined: Scores, rows: Ints) -> Scores:
        """The distances among these answers only."""
        return self.pair_samples(scores.take(rows))

    def reference_value(self, samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs]) -> float | None:
        """The plain definition, pair by pair."""
        if self.embed is not None:
            return None
        texts = [output.response.text for output in outputs if output.response is not None]
        counts = [Counter(words) for words in map(self.tokens_of, texts) if words]
        distances = [1.0 - _cosine(count, other) for count, other in combinations(counts, 2)]
        return math.fsum(distances) / len(distances) if distances else math.nan
