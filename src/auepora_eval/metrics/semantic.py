"""Metrics by embeddings, cross-encoders and NLI models: similarity of answers, queries, documents; grounding."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from typing import Any, Literal

import numpy as np

from ..core.batch import Batch
from ..core.conventions import RankCutOff, SignatureOption, without_separator
from ..core.derivation import add_outcome, add_result, add_table
from ..core.metrics_base import declare, set_metadata
from ..core.registry import ConfiguredMetric, register
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..errors import BadValueError
from ..features.embeddings import MODEL_ROUNDING, InferenceFailure, PairCosines, TextVectors, embed_texts, text_cosines
from ..features.texts import Mask, answers, evidence_texts, reference_texts
from ..judge.nli import Threshold, label_probability, select_premises
from ..models.embedders import (
    ACTIVATIONS,
    PairModel,
    SentenceTransformerEmbedder,
    activation_name,
    embedder_name,
    entailment_index,
    pair_logits,
    parse_embedder,
    require_embedder,
    resolve_embedder,
)
from ..models.loading import Device, ModelOptions, Precision, path_text
from ..options import PositiveInt
from ..text.sentences import split_sentences
from .answer_base import AnswerMetric, ComparedMetric, EvidenceMetric, Floats

# --- base classes of the semantic metrics: compared texts, empty texts and truncation --------------------------------

Pair = tuple[str, str]
"""The compared text, and the answer."""


@dataclass(frozen=True, slots=True)
class TextPairScores:
    """A model's scores of text pairs."""

    values: Floats
    problems: Sequence[str | None]
    """Per pair the failure reason, if any."""
    cut: Sequence[int]
    """Per pair the number of truncated texts."""


def problem_masks(problems: Sequence[str | None]) -> dict[str, Mask]:
    """Masks of the unmeasured rows, by reason."""
    column = np.array(problems, dtype=object)
    return {reason: column == reason for reason in dict.fromkeys(filter(None, problems))}


def note_truncation(batch: Batch, metric: str, cut: Floats) -> None:
    """Note the samples with texts that the model truncated."""
    for row in np.flatnonzero(cut):
        batch.note(
            f"metric '{metric}': a text is longer than the model reads, and was truncated",
            batch.samples[int(row)].sample_id,
        )


COMPARED_TO = {"to": SignatureOption("compare_to", unless="reference")}
"""The text that answers are compared with, in a signature."""
_PRECISION = SignatureOption("precision", unless="float32")


@dataclass(frozen=True)
class SemanticMetricBase(ComparedMetric):
    """A metric that compares an answer semantically with each reference (the best counts), or with the query."""

    metadata = declare(
        suggested=False,  # it needs a model, which the user names
    )
    rounding = MODEL_ROUNDING
    """The rounding tolerance of a model."""


@dataclass(frozen=True)
class TextPairMetric(SemanticMetricBase):
    """A metric that scores each text pair with a model."""

    metadata = declare(
        stat_names=("num_truncated",),
        range=(-1.0, 1.0),
    )
    worst_stats = (0.0,)
    """No truncation in a failed answer."""

    @property
    def both_empty(self) -> float | None:
        """The value of two empty texts (one alone gives 0); ``None`` passes empty texts to the model."""
        return 1.0

    @abstractmethod
    def score_pairs(self, batch: Batch, rows: Sequence[Sequence[Pair]]) -> TextPairScores:
        """The model's scores of the pairs of all rows, concatenated."""

    def score(self, batch: Batch) -> Scores:
        """The highest value among each answer's pairs."""
        skip = self.without_reference(batch)
        values, stats = np.zeros(len(batch)), np.zeros((len(batch), 1))
        rows: list[list[Pair]] = []
        for row, (answer, sample, output) in enumerate(zip(answers(batch), batch.samples, batch.outputs, strict=True)):
            answered = output is not None and output.error is None and output.response is not None
            known, pairs = self._decide_empty(answer, self.compared_texts(sample)) if answered else (0.0, [])
            values[row] = 0.0 if known is None else known
            rows.append(pairs)
        pair_scores = self.score_pairs(batch, rows)
        problems: list[str | None] = [None] * len(batch)
        start = 0
        for row, pairs in enumerate(rows):
            if pairs:
                row_slice = slice(start, start + len(pairs))
                problems[row] = next(filter(None, pair_scores.problems[row_slice]), None)
                values[row], stats[row] = pair_scores.values[row_slice].max(), sum(pair_scores.cut[row_slice])
                start += len(pairs)
        note_truncation(batch, self.name, stats[:, 0])
        return self.outcome(batch, values, skip=skip, fail=problem_masks(problems), stats=stats)

    def _decide_empty(self, answer: str, texts: Sequence[str]) -> tuple[float | None, list[Pair]]:
        """The value if an empty text decides it, else the pairs for the model.

        Empty references do not count while there is another.
        """
        if self.both_empty is None:
            return None, [(text, answer) for text in texts]
        non_empty = [text for text in texts if text.strip()]
        if not answer.strip():
            return (0.0 if non_empty else self.both_empty), []
        return (None, [(text, answer) for text in non_empty]) if non_empty else (0.0, [])

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """The best pair, each scored by itself."""
        known, pairs = self._decide_empty(answer, self.compared_texts(sample))
        if known is not None:
            return Score(add_outcome("One of the texts is empty, so that no model is asked", known))
        outcomes = []
        for pair in pairs:
            pair_scores = self.score_pairs(Batch([sample], [output]), [[pair]])
            if pair_scores.problems[0] is not None:
                return Score.fail(pair_scores.problems[0])
            outcomes.append(float(pair_scores.values[0]))
        rows = ((*pair, value) for pair, value in zip(pairs, outcomes, strict=True))
        add_table("The texts compared", (self.role, "answer", "the model says"), rows)
        return Score(add_result("The best pair" if len(pairs) > 1 else "Its number", max(outcomes)))


# --- semantic similarity of answer and reference, or query: embeddings and cross-encoders ----------------------------


def score_cosines(batch: Batch, embed: Any, rows: Sequence[Sequence[Pair]]) -> TextPairScores:
    """The cosines of text pairs by an embedder."""
    vectors = embed_texts(batch, embed, [list(chain.from_iterable(pairs)) for pairs in rows])
    found = text_cosines(vectors, list(chain.from_iterable(rows)))
    # The answer is in every pair of its row; its truncation is counted once.
    cut = [
        vectors.was_cut(compared) + (place == 0 and vectors.was_cut(answer))
        for pairs in rows
        for place, (compared, answer) in enumerate(pairs)
    ]
    return TextPairScores(found.values, found.problems, cut)


@dataclass(frozen=True)
class _EmbedderOption:
    """The option with the function or model that embeds texts."""

    embed_fn: Any = field(metadata={"convert": parse_embedder})

    def require_ready(self) -> None:
        """Raise unless the embedder is available."""
        require_embedder(self.embed_fn)


@register("embedding_similarity")
@dataclass(frozen=True)
class EmbeddingSimilarity(_EmbedderOption, TextPairMetric):
    r"""Cosine of the answer's vector with that of the reference, or of the query.

    .. math:: \text{cos}(v(\text{answer}), v(\text{reference}))

    `embed_fn` computes the vectors: in Python a function from a list of strings to a list of vectors, or a
    sentence-transformers model; in a plan `{use: NAME}` of its resources, `{python: "module:name"}`,
    `{sentence_transformers: {model: PATH}}` or `{openai_embeddings: {model: NAME}}`. Every distinct text is embedded
    once for all metrics. The best of several references counts; `compare_to: query` takes the query instead.

    Two empty texts score 1, an empty and a non-empty text 0; an empty reference does not count while there is another.
    Zero vectors, NaN and vectors of different sizes are failed measurements. A failed answer counts as -1, the worst a
    cosine can be.
    """

    metadata = declare(
        signature={"embed": SignatureOption("embed_fn", write=embedder_name), **COMPARED_TO},
    )

    def score_pairs(self, batch: Batch, rows: Sequence[Sequence[Pair]]) -> TextPairScores:
        """The cosines."""
        return score_cosines(batch, resolve_embedder(self.embed_fn), rows)


@register("sbert_similarity")
@dataclass(frozen=True)
class SbertSimilarity(ModelOptions, TextPairMetric):
    r"""Cosine of the answer's vector with that of the reference, by a sentence-transformers model.

    .. math:: \text{cos}(v(\text{answer}), v(\text{reference}))

    `model` is the path of the model's folder, or a hub name; nothing is downloaded unless `allow_download` is true. A
    text longer than the model reads is cut, and counted (`num_truncated`). `device` is `auto`, `cpu` or `cuda`, and
    there `precision` may be `float16` or `bfloat16`, which the signature shows. `cache` names a file that keeps the
    vectors. Otherwise as `embedding_similarity`, with which it shares the vectors of the same model.
    """

    cache: str | None = field(default=None, kw_only=True, compare=False)

    metadata = declare(
        reference="Reimers and Gurevych 2019",
        signature={"model": "embedder.model_name", "precision": _PRECISION, **COMPARED_TO},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.embedder  # invalid options raise here, not when scoring

    @property
    def embedder(self) -> SentenceTransformerEmbedder:
        """The embedder."""
        return SentenceTransformerEmbedder.of(self)

    def require_ready(self) -> None:
        """Raise unless the packages and the model are available."""
        self.embedder.require_ready()

    def score_pairs(self, batch: Batch, rows: Sequence[Sequence[Pair]]) -> TextPairScores:
        """The cosines."""
        return score_cosines(batch, self.embedder, rows)


@register("cross_encoder_similarity")
@dataclass(frozen=True)
class CrossEncoderSimilarity(ModelOptions, TextPairMetric):
    r"""Similarity of answer and reference, by a cross-encoder that reads both together.

    .. math:: f(\text{reference}, \text{answer})

    `model` is the path of a cross-encoder's folder, or a hub name; nothing is downloaded unless `allow_download` is
    true. The model's own activation is applied: with a sigmoid, the usual one, the range is [0, 1] and a failed answer
    counts as 0; if the model returns logits (identity) there is no worst value, and failures leave the mean. The text
    compared with comes first, as a query does for relevance models; `compare_to: query` takes the query. The best of
    several references counts. Pairs too long for the model are truncated, from the longer text, and counted.

    Under a bounded range two empty texts score its upper end and an empty and a non-empty text 0; a model that returns
    logits reads empty texts like any other.
    """

    metadata = declare(
        failure_note="counts at the worst value where the model's activation has one, else leaves the mean",
        reference="Nogueira and Cho 2019",
        range=(-np.inf, np.inf),
        signature={"model": "pair_model.model_name", "precision": _PRECISION, **COMPARED_TO},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        activation = activation_name(self.pair_model)
        if activation is not None:
            set_metadata(self, range=ACTIVATIONS[activation][1])

    @property
    def pair_model(self) -> PairModel:
        """The cross-encoder."""
        return PairModel.of(self)

    @property
    def both_empty(self) -> float | None:
        """The upper end of the range, if it has one."""
        return self.range[1] if np.isfinite(self.range[1]) else None

    def require_ready(self) -> None:
        """Raise unless the packages and the model are available, and the model returns one number per pair."""
        labels = self.pair_model.loaded().model.config.num_labels
        if labels != 1:
            raise BadValueError(
                f"cross_encoder_similarity needs a model that returns one number per pair, and '{self.model}' returns "
                f"{labels}; for an NLI model use nli_grounding"
            )

    def score_pairs(self, batch: Batch, rows: Sequence[Sequence[Pair]]) -> TextPairScores:
        """The activated logit of each pair."""
        flat = list(chain.from_iterable(rows))
        if not flat:
            return TextPairScores(np.zeros(0), [], [])
        self.require_ready()
        known = pair_logits(batch, self.pair_model, rows)
        activate = ACTIVATIONS[activation_name(self.pair_model) or "sigmoid"][0]
        numbers, cut = np.zeros(len(flat)), [0] * len(flat)
        problems: list[str | None] = [None] * len(flat)
        for place, pair in enumerate(flat):
            found = known[pair]
            if isinstance(found, InferenceFailure):
                problems[place] = found.reason
            else:
                numbers[place], cut[place] = found[0][0], found[1]
        return TextPairScores(activate(numbers), problems, cut)


# --- context relevance and redundancy by embeddings: cosines of queries and retrieved documents ----------------------


@dataclass(frozen=True)
class _ContextMetric(_EmbedderOption, ConfiguredMetric):
    """A metric over the embeddings of the first k returned documents."""

    k: RankCutOff | None = field(default=None, kw_only=True)

    metadata = declare(
        reads=frozenset({"retrieved"}),
        stat_names=("num_truncated",),
        suggested=False,  # it needs a model, which the user names
        range=(-1.0, 1.0),
        signature={
            "embed": SignatureOption("embed_fn", write=embedder_name),
            "depth": SignatureOption("depth", differs_from="k"),
        },
        reads_depth="depth",
    )
    worst_stats = (0.0,)
    """No truncation in a failed answer."""
    rounding = MODEL_ROUNDING
    """The rounding tolerance of a model."""
    target = TargetCategory.RETRIEVAL_RELEVANCE

    @property
    def depth(self) -> int | None:
        """The number of documents read; ``None`` for all."""
        cut = self.active_conventions.depth
        return self.k if cut is None else min(self.k or cut, cut)

    def vectors(self, batch: Batch, rows: Sequence[Sequence[str]]) -> tuple[TextVectors, np.ndarray[Any, Any]]:
        """The embeddings of the texts of each row, and the number of truncated texts."""
        vectors = embed_texts(batch, resolve_embedder(self.embed_fn), rows)
        cut = np.array([[sum(map(vectors.was_cut, set(texts)))] for texts in rows], np.float64).reshape(-1, 1)
        note_truncation(batch, self.name, cut[:, 0])
        return vectors, cut


def _row_slices(counts: Sequence[int]) -> list[slice]:
    return [slice(end - count, end) for end, count in zip(np.cumsum(counts).tolist(), counts, strict=True)]


def _first_problems(found: PairCosines, rows: Sequence[slice]) -> list[str | None]:
    return [next(filter(None, found.problems[row]), None) for row in rows]


@register("embedding_context_relevance", at="k")
@dataclass(frozen=True)
class EmbeddingContextRelevance(_ContextMetric):
    r"""Mean cosine of the query's vector with those of the first k returned documents.

    .. math:: \frac{1}{m} \cdot \sum_i \text{cos}(v(\text{query}), v(d_i))

    m is the number of documents with text there are, k at most. It needs no annotation, and measures the topic only: a
    document on the topic scores high whether or not it contains the answer. `embed_fn` makes the vectors, as for
    `embedding_similarity`, with which it shares them. Nothing returned scores 0, as precision does; a failed output
    counts as -1.
    """

    metadata = declare(
        output_skips=frozenset({"no_text"}),
        skip_reasons={
            "empty_query": "the query has no text",
            "no_text": "the documents have no text",
        },
    )

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether any document has text."""
        return any(item.doc.text for item in output.retrieved[: self.depth])

    def score(self, batch: Batch) -> Scores:
        """The mean over each row's documents."""
        queries = reference_texts(batch, "query").texts
        empty = np.array([not query.strip() for query in queries], np.bool_)
        found = evidence_texts(batch, "retrieved", self.depth)
        texts = found.by_row()
        rows = [[] if blank else own for blank, own in zip(empty.tolist(), texts, strict=True)]
        vectors, cut = self.vectors(batch, [[q, *own] if own else [] for q, own in zip(queries, rows, strict=True)])
        cosines = text_cosines(vectors, [(q, text) for q, own in zip(queries, rows, strict=True) for text in own])
        places = _row_slices(list(map(len, rows)))
        values = np.array([cosines.values[row].mean() if row.stop > row.start else 0.0 for row in places])
        return Scores.of(
            values,
            skip={
                "empty_query": empty,
                "no_text": np.array([not own for own in texts], np.bool_) & ~found.no_documents,
            },
            fail=problem_masks(_first_problems(cosines, places)),
            stats=cut,
        )

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The plain definition, document by document."""
        if not sample.query.strip():
            return Score.skip("empty_query")
        documents = [item.doc for item in output.retrieved[: self.depth]]
        own = [document for document in documents if document.text and document.text.strip()]
        if not own:
            return Score.skip("no_text") if documents else Score(0.0)
        vectors, _ = self.vectors(Batch([sample], [output]), [[sample.query, *(document.text for document in own)]])
        found = text_cosines(vectors, [(sample.query, document.text) for document in own])
        rows = ((document.doc_id, cosine) for document, cosine in zip(own, found.values.tolist(), strict=True))
        add_table("The cosine of the query with each document", ("document", "cosine"), rows)
        return _plain_mean(found)


@register("embedding_context_redundancy", at="k")
@dataclass(frozen=True)
class EmbeddingContextRedundancy(_ContextMetric):
    r"""How much each document after the first repeats one before it: its highest cosine with any of them, on average.

    .. math:: \frac{1}{m - 1} \cdot \sum_{i > 1} \max_{j < i} \text{cos}(v(d_i), v(d_j))

    1 if every document repeats an earlier one. Documents without text are ignored. Lower is better as long as relevance
    does not fall: read it together with `embedding_context_relevance`. `intra_list_diversity` uses all pairs instead.
    Failed outputs are left out.
    """

    target = TargetCategory.DIVERSITY
    metadata = declare(
        counts_system_failures=False,
        output_skips=frozenset({"too_few_documents"}),
        skip_reasons={
            "too_few_documents": "fewer than two documents with text were returned, or are looked at",
        },
        higher_is_better=False,
    )

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether two documents have text."""
        return sum(bool(item.doc.text) for item in output.retrieved[: self.depth]) > 1

    def score(self, batch: Batch) -> Scores:
        """The mean over each row's documents after the first."""
        texts = evidence_texts(batch, "retrieved", self.depth).by_row()
        vectors, cut = self.vectors(batch, [own if len(own) > 1 else [] for own in texts])
        pairs = [[(own[j], own[i]) for i in range(1, len(own)) for j in range(i)] for own in texts]
        cosines = text_cosines(vectors, [pair for own in pairs for pair in own])
        places = _row_slices(list(map(len, pairs)))
        values = [_mean_highest_cosine(cosines.values[row], len(own)) for row, own in zip(places, texts, strict=True)]
        return Scores.of(
            values,
            skip={"too_few_documents": np.array([len(own) < 2 for own in texts], np.bool_)},
            fail=problem_masks(_first_problems(cosines, places)),
            stats=cut,
        )

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The plain definition, document by document."""
        own = [item.doc for item in output.retrieved[: self.depth] if item.doc.text and item.doc.text.strip()]
        if len(own) < 2:
            return Score.skip("too_few_documents")
        vectors, _ = self.vectors(Batch([sample], [output]), [[document.text for document in own]])
        pairs = [(own[j].text, own[i].text) for i in range(1, len(own)) for j in range(i)]
        found = text_cosines(vectors, pairs)
        if any(found.problems):
            return _plain_mean(found)
        rows = []
        for place in range(1, len(own)):
            earlier = found.values[place * (place - 1) // 2 :][:place]
            rows.append((own[place].doc_id, own[int(earlier.argmax())].doc_id, float(earlier.max())))
        add_table(
            "Each document after the first, and the one before it that it is most like",
            ("document", "most like", "cosine"),
            rows,
        )
        mean = float(np.mean([highest for _, _, highest in rows]))
        return Score(add_result(f"Their mean over {len(rows)}", mean))


def _mean_highest_cosine(cosines: np.ndarray[Any, np.dtype[np.float64]], documents: int) -> float:
    """From the cosines of every document with each earlier one, in their order."""
    if documents < 2:
        return 0.0
    starts = np.cumsum(np.arange(documents - 1))
    return float(np.maximum.reduceat(cosines, starts).mean())


def _plain_mean(found: PairCosines) -> Score:
    problem = next(filter(None, found.problems), None)
    if problem is not None:
        return Score.fail(problem)
    return Score(add_result(f"Their mean over {len(found.values)}", float(found.values.mean())))


# --- grounding by an NLI model: the proportion of answer sentences that the evidence entails -------------------------


@register("nli_grounding")
@dataclass(frozen=True)
class NliGrounding(EvidenceMetric, AnswerMetric):
    r"""Proportion of the answer's sentences that the retrieved documents entail, by an NLI model.

    .. math:: |\{s \in \text{answer} : \text{evidence entails } s\}| / |\text{answer}|

    `model` is the path or hub name of any text pair classifier with a label for entailment, found by its name in the
    model's config (`entailment_label` sets it otherwise). Nothing is downloaded unless `allow_download` is true. With
    `evidence: each` a sentence is supported if any of the first `k` documents entails it by itself; with `evidence:
    joined` the documents are one text, which may entail more, but is often longer than the model reads: truncated texts
    are counted (`num_truncated`). It is deterministic and needs no API key, unlike a judge. A sentence without a claim,
    such as a refusal, is seldom entailed: compare with the refusal metrics. Nothing retrieved scores 0.
    """

    model: str = field(metadata={"convert": path_text})
    evidence: Literal["each", "joined"] = field(default="each", kw_only=True)
    k: RankCutOff | None = field(default=None, kw_only=True)
    threshold: Threshold = field(default=0.5, kw_only=True)
    entailment_label: str | None = field(default=None, kw_only=True)
    device: Device = field(default="auto", kw_only=True)
    precision: Precision = field(default="float32", kw_only=True)
    batch_size: PositiveInt | None = field(default=None, kw_only=True, compare=False)
    revision: str | None = field(default=None, kw_only=True)
    allow_download: bool = field(default=False, kw_only=True, compare=False)

    metadata = declare(
        reads=frozenset({"response", "retrieved"}),
        output_skips=frozenset({"empty_answer", "no_text"}),
        stat_names=("num_truncated",),
        suggested=False,  # it needs a model, which the user names
        skip_reasons={
            **AnswerMetric.metadata.skip_reasons,
            "empty_answer": "the answer has no sentence",
            "no_text": "the documents have no text",
        },
        reference="Honovich et al. 2022 (TRUE)",
        signature={
            "model": "pair_model.model_name",
            "precision": _PRECISION,
            "evidence": "evidence",
            "from": SignatureOption("threshold", write="{:g}".format),
            "k": "k",
            "label": SignatureOption("entailment_label", write=without_separator),
        },
    )
    asks_models = True
    """True: it needs an NLI model."""
    worst_stats = (0.0,)
    """No truncation in a failed answer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.pair_model  # invalid options raise here, not when scoring

    @property
    def pair_model(self) -> PairModel:
        """The NLI model."""
        return PairModel.of(self)

    def require_ready(self) -> None:
        """Raise unless the packages and the model are available, with a label for entailment."""
        entailment_index(self.pair_model.loaded(), self.entailment_label)

    def score(self, batch: Batch) -> Scores:
        """The proportion of each answer's sentences."""
        retrieved = evidence_texts(batch, "retrieved", self.k)
        documents = retrieved.by_row()
        sentences = [split_sentences(answer) for answer in answers(batch)]
        rows = [select_premises(own, self.evidence) for own in documents]
        pairs_by_row = [
            [(text, row_sentence) for row_sentence in row_sentences for text in own]
            for row_sentences, own in zip(sentences, rows, strict=True)
        ]
        values, stats = np.zeros(len(batch)), np.zeros((len(batch), 1))
        problems: list[str | None] = [None] * len(batch)
        rows_with_pairs = [row for row, pairs in enumerate(pairs_by_row) if pairs]
        if rows_with_pairs:
            place = entailment_index(self.pair_model.loaded(), self.entailment_label)
            logits_by_pair = pair_logits(batch, self.pair_model, pairs_by_row)
            for row in rows_with_pairs:
                outcomes = [logits_by_pair[pair] for pair in pairs_by_row[row]]
                values[row], stats[row], problems[row] = self._supported_proportion(
                    outcomes, place, len(sentences[row])
                )
        note_truncation(batch, self.name, stats[:, 0])
        no_text = np.array([not own for own in documents], np.bool_) & ~retrieved.no_documents
        return self.outcome(
            batch,
            values,
            skip_answer={
                "empty_answer": np.array([not row_sentences for row_sentences in sentences], np.bool_),
                "no_text": no_text,
            },
            fail=problem_masks(problems),
            stats=stats,
        )

    def _supported_proportion(
        self, outcomes: Sequence[tuple[Floats, bool] | InferenceFailure], place: int, sentences: int
    ) -> tuple[float, int, str | None]:
        """The proportion of supported sentences, the number of truncated pairs, and a failure reason."""
        found = [outcome for outcome in outcomes if not isinstance(outcome, InferenceFailure)]
        cut = sum(truncated for _, truncated in found)
        reason = next((outcome.reason for outcome in outcomes if isinstance(outcome, InferenceFailure)), None)
        if reason is not None:
            return 0.0, cut, reason
        probabilities = np.array([label_probability(logits, place) for logits, _ in found]).reshape(sentences, -1)
        supported = probabilities.max(axis=1) >= self.threshold
        return float(supported.mean()), cut, "not_a_number" if np.isnan(probabilities).any() else None

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """The plain definition, sentence by sentence and document by document."""
        sentences = split_sentences(answer)
        if not sentences:
            return Score.skip("empty_answer")
        texts = [item.doc.text for item in output.retrieved[: self.k]]
        own = [text for text in texts if text and text.strip()]
        if not own:
            return Score.skip("no_text") if texts else Score(0.0)
        place = entailment_index(self.pair_model.loaded(), self.entailment_label)
        pairs = [(premise, sentence) for sentence, premise in product(sentences, select_premises(own, self.evidence))]
        outcomes = [self.pair_model.logits([pair])[0] for pair in pairs]
        value, _, reason = self._supported_proportion(outcomes, place, len(sentences))
        return Score(value) if reason is None else Score.fail(reason)
