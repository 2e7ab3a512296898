"""BERTScore: similarity of the tokens of answer and reference, by the vectors of a language model."""

from __future__ import annotations

import csv
import hashlib
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.conventions import SignatureOption, signature_text
from ..core.metrics_base import declare, set_metadata
from ..core.registry import register
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, SystemOutputs
from ..errors import BadTypeError, BadValueError, DataFileError
from ..features.embeddings import UNUSABLE_REASONS, InferenceFailure
from ..features.texts import Integers, Mask, answers, reference_texts
from ..models.encoding import OUT_OF_MEMORY, TokenColumn, TokenEncoder, run_in_batches
from ..models.loading import Device, ModelSource, Precision, layer_count, load_layers
from ..options import Lt, NonNegativeInt, problem_of
from ..text.vocabulary import concatenate_ranges
from .answer_base import Floats, SkipMasks
from .semantic import COMPARED_TO, SemanticMetricBase, note_truncation

if TYPE_CHECKING:
    import torch


# --- the encoder of a model and layer, token weights, baselines ------------------------------------------------------

BEST_LAYERS = {
    "albert-base-v2": 9,
    "albert-xxlarge-v2": 8,
    "bert-base-cased-finetuned-mrpc": 9,
    "bert-base-chinese": 8,
    "bert-base-multilingual-cased": 9,
    "bert-base-uncased": 9,
    "bert-large-uncased": 18,
    "distilbert-base-multilingual-cased": 5,
    "distilbert-base-uncased": 5,
    "distilroberta-base": 5,
    "facebook/bart-base": 6,
    "facebook/bart-large": 10,
    "facebook/bart-large-mnli": 11,
    "microsoft/deberta-base": 9,
    "microsoft/deberta-base-mnli": 9,
    "microsoft/deberta-large": 16,
    "microsoft/deberta-large-mnli": 18,
    "microsoft/deberta-v3-base": 9,
    "microsoft/deberta-v3-large": 12,
    "microsoft/deberta-v3-small": 4,
    "microsoft/deberta-xlarge": 18,
    "microsoft/deberta-xlarge-mnli": 40,
    "microsoft/mdeberta-v3-base": 10,
    "microsoft/mpnet-base": 8,
    "roberta-base": 10,
    "roberta-large": 17,
    "roberta-large-mnli": 19,
    "xlm-roberta-base": 9,
    "xlm-roberta-large": 17,
}
"""The layer that correlates best with human judgements, according to the authors of BERTScore."""


def load_encoder(source: ModelSource, layers: int | None) -> TokenEncoder:
    """The model truncated after this layer, by default the best known one; loaded once per process."""
    layer = BEST_LAYERS.get(source.model) if layers is None else layers
    if layer is None:
        loaded = load_layers(source, None, purpose="bertscore")
        raise BadValueError(
            f"there is no default layer for '{source.model_name}'; set num_layers, at most the model's "
            f"{layer_count(loaded.model)}"
        )
    loaded = load_layers(source, layer, purpose="bertscore")
    return TokenEncoder(loaded)


def uniform_weights(ids: Integers, special_token_ids: Sequence[int]) -> Floats:
    """Weight 1 for every token except special tokens."""
    return (~np.isin(ids, list(special_token_ids))).astype(np.float64)


def idf_weights(ids: Integers, frequencies: Mapping[int, int], texts: int) -> Floats:
    """Inverse document frequency of each token: log((texts + 1) / (texts with it + 1))."""
    distinct, inverse = np.unique(ids, return_inverse=True)
    weights = [math.log((texts + 1) / (frequencies.get(number, 0) + 1)) for number in distinct.tolist()]
    return np.array(weights, dtype=np.float64)[inverse]


def document_frequencies(texts: Iterable[Integers]) -> Counter[int]:
    """Number of texts that contain each token."""
    counts: Counter[int] = Counter()
    for ids in texts:
        counts.update(set(ids.tolist()))
    return counts


def baseline_name(path: str) -> str:
    """A baseline file as a signature shows it: its name and a hash of its content, without its folder."""
    file = Path(path)
    try:
        return f"{file.name}-{hashlib.sha256(file.read_bytes()).hexdigest()[:8]}".replace("|", "/")
    except OSError:  # reading the file will raise
        return file.name.replace("|", "/")


def read_baseline(path: str | Path, layer: int) -> Sequence[float]:
    """The precision, recall and F1 of unrelated texts, by layer, from a file of the bert-score package: LAYER,P,R,F."""
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError) as error:
        raise DataFileError(path, None, f"the baseline cannot be read: {error}") from error
    for number, row in enumerate(rows[1:], start=2):
        try:
            if int(float(row[0])) == layer:
                values = [float(value) for value in row[1:4]]
                if len(values) == 3 and all(value < 1 for value in values):
                    return values
                raise ValueError
        except (ValueError, IndexError) as error:
            raise DataFileError(path, number, "a row of a baseline is LAYER,P,R,F, numbers below 1") from error
    raise DataFileError(path, None, f"there is no baseline for layer {layer} in it")


# --- greedy matching: the cosine of every token with the most similar token of another text --------------------------

_VECTOR_BYTES = 1 << 29
"""Maximum size of the vectors of one block of pairs."""
_CELLS_PER_BLOCK = {"cpu": 1 << 22, "cuda": 1 << 27}
"""Token pairs compared at once, padding included."""


@dataclass(frozen=True, slots=True)
class TokenMatches:
    """The tokens of one side of all pairs, with their best matches."""

    ids: Integers
    ends: Integers
    nearest: npt.NDArray[np.float32]
    """Cosine with the most similar token of the other side, clipped to [0, 1]; NaN if there is none."""


@dataclass(frozen=True, slots=True)
class MatchedPairs:
    """Matched pairs of candidate and reference texts."""

    candidates: TokenMatches
    references: TokenMatches
    cut: Integers
    """Per pair the number of texts truncated to the model's input length."""
    out_of_memory: Mask
    """Pairs that did not fit into memory."""


def match_pairs(encoder: TokenEncoder, candidates: Sequence[str], references: Sequence[str]) -> MatchedPairs:
    """Match each candidate with its reference. Each distinct text is encoded once."""
    texts = list(dict.fromkeys([*candidates, *references]))
    number = {text: place for place, text in enumerate(texts)}
    tokens = encoder.tokens(texts)
    left = np.fromiter(map(number.__getitem__, candidates), np.int64, len(candidates))
    right = np.fromiter(map(number.__getitem__, references), np.int64, len(references))
    sides = _SimilarityBuffer(tokens, left), _SimilarityBuffer(tokens, right)
    out_of_memory = np.zeros(len(candidates), np.bool_)
    for pairs in _blocks(tokens, left, right, max_tokens=_VECTOR_BYTES // (4 * encoder.width)):
        used_texts, inverse = np.unique(np.concatenate([left[pairs], right[pairs]]), return_inverse=True)
        out_of_memory[pairs] = _match_block(
            encoder,
            _select(tokens, used_texts),
            left=inverse[: len(pairs)],
            right=inverse[len(pairs) :],
            pairs=pairs,
            sides=sides,
        )
    first, second = (TokenMatches(side.ids, side.ends, side.similarities) for side in sides)
    return MatchedPairs(first, second, tokens.cut[left].astype(np.int64) + tokens.cut[right], out_of_memory)


class _SimilarityBuffer:
    """Buffer for the cosines of one side, in the order of the pairs."""

    def __init__(self, tokens: TokenColumn, texts: Integers) -> None:
        counts = tokens.counts[texts]
        self.ends = np.cumsum(counts)
        self.starts = self.ends - counts
        starts = tokens.starts[texts]
        self.ids = tokens.ids[concatenate_ranges(starts, starts + counts)]
        self.similarities = np.zeros(len(self.ids), np.float32)


def _match_block(
    encoder: TokenEncoder,
    tokens: TokenColumn,
    left: Integers,
    right: Integers,
    pairs: Integers,
    sides: tuple[_SimilarityBuffer, _SimilarityBuffer],
) -> Mask:
    """Match some pairs; returns which of them did not fit into memory."""
    vectors, without = encoder.vectors(tokens)
    missing = without[left] | without[right]
    counts = tokens.counts
    both = np.where((counts[left] > 0) & (counts[right] > 0), np.maximum(counts[left], counts[right]), 0)
    most = _CELLS_PER_BLOCK.get(encoder.device.type, _CELLS_PER_BLOCK["cpu"])
    # Results are read back after all work is queued: waiting earlier would leave the device idle.
    pending: list[tuple[Integers, tuple[torch.Tensor, torch.Tensor]]] = []

    def match(rows: Integers) -> list[None]:
        pending.append((rows, _max_cosines(vectors, tokens, left[rows], right[rows])))
        return [None] * len(rows)

    filled = np.flatnonzero(both)
    outcomes = run_in_batches(both[filled] ** 2, lambda some: match(filled[some]), tokens=most)
    missing[filled] |= [isinstance(outcome, InferenceFailure) for outcome in outcomes]
    for rows, nearest in pending:
        for side, texts, values in zip(sides, (left[rows], right[rows]), nearest, strict=True):
            is_token = np.arange(values.shape[1]) < counts[texts][:, None]
            token_similarities = np.clip(values.cpu().numpy()[is_token], 0.0, 1.0)
            starts = side.starts[pairs[rows]]
            side.similarities[concatenate_ranges(starts, starts + counts[texts])] = token_similarities
    return missing


def _max_cosines(
    vectors: torch.Tensor, tokens: TokenColumn, left: Integers, right: Integers
) -> tuple[torch.Tensor, torch.Tensor]:
    """Per token of either side the largest cosine with a token of the other; padding rows are meaningless."""
    import torch

    with torch.inference_mode():
        first, mask_first = _pad(vectors, tokens, left)
        second, mask_second = _pad(vectors, tokens, right)
        cosines = torch.bmm(first, second.transpose(1, 2)).float()
        forward = cosines.masked_fill(~mask_second[:, None, :], -2.0).amax(2)
        backward = cosines.masked_fill(~mask_first[:, :, None], -2.0).amax(1)
        return forward, backward


def _pad(vectors: torch.Tensor, tokens: TokenColumn, texts: Integers) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    counts = tokens.counts[texts]
    positions = tokens.starts[texts][:, None] + np.arange(counts.max())
    mask = torch.from_numpy(np.arange(counts.max()) < counts[:, None]).to(vectors.device, non_blocking=True)
    rows = torch.from_numpy(np.minimum(positions, len(vectors) - 1)).to(vectors.device, non_blocking=True)
    return vectors[rows], mask


def _blocks(tokens: TokenColumn, left: Integers, right: Integers, *, max_tokens: int) -> list[Integers]:
    """Blocks of pairs with at most ``max_tokens`` tokens: their vectors must fit into memory together."""
    # A text that several pairs share counts each time: an upper bound is enough.
    sizes = np.cumsum(tokens.counts[left] + tokens.counts[right])
    if not len(sizes) or sizes[-1] <= max_tokens or int(tokens.counts.sum()) <= max_tokens:
        return [np.arange(len(left))] if len(left) else []
    blocks, start, before = [], 0, 0
    while start < len(left):
        stop = max(start + 1, int(np.searchsorted(sizes, before + max_tokens, side="right")))
        blocks.append(np.arange(start, stop))
        start, before = stop, int(sizes[stop - 1])
    return blocks


def _select(tokens: TokenColumn, rows: Integers) -> TokenColumn:
    ids = tokens.ids[concatenate_ranges(tokens.starts[rows], tokens.ends[rows])]
    return TokenColumn(ids, np.cumsum(tokens.counts[rows]), tokens.cut[rows])


def token_weights(side: TokenMatches, weights: Floats) -> Floats:
    """Total token weight of each text."""
    owners = np.repeat(np.arange(len(side.ends)), np.diff(side.ends, prepend=0))
    return np.bincount(owners, weights=weights, minlength=len(side.ends)).astype(np.float64)


def weighted_means(side: TokenMatches, weights: Floats) -> Floats:
    """The mean of each text's cosines, weighted token by token; 0 where no token has weight."""
    sums, totals = token_weights(side, side.nearest * weights), token_weights(side, weights)
    return np.divide(sums, totals, out=np.zeros(len(side.ends)), where=totals > 0)


# --- the metric ------------------------------------------------------------------------------------------------------

_SCORE_TYPES = ("precision", "recall", "F1")


def _baseline_text(baseline: str | tuple[float, ...]) -> str:
    return baseline_name(baseline) if isinstance(baseline, str) else signature_text(baseline)


@register("bertscore")
@dataclass(frozen=True)
class BertScoreMetric(SemanticMetricBase):
    r"""BERTScore: every token is matched with the nearest of the other text, by the cosine of their vectors.

    .. math:: P = \frac{1}{|a|} \sum_{x \in a} \max_{y \in r} \text{cos}(x, y), \quad
       R = \frac{1}{|r|} \sum_{y \in r} \max_{x \in a} \text{cos}(x, y), \quad F_1 = \frac{2 P R}{P + R}

    Values are those of the bert-score package (0.3.13, with transformers 4.57) to 1e-4 on the same weights. Vectors are
    those of layer `num_layers`, by default the one that the authors found best for the model. The best over all
    reference answers counts, for each of the three numbers by itself, as in that package. An empty text scores 0. With
    `idf` a token weighs the more the fewer reference answers of the whole dataset have it. `baseline`, the path of a
    file of that package or three numbers, rescales so that unrelated texts score 0. Texts longer than the model takes
    are cut, and counted. The model is a folder or a name in the local cache; nothing is downloaded without
    `allow_download: true`.
    """

    model_type: str = "microsoft/deberta-xlarge-mnli"
    num_layers: NonNegativeInt | None = None
    score_type: Literal["precision", "recall", "F1"] = "F1"
    idf: bool = field(default=False, kw_only=True)
    baseline: Any = field(default=None, kw_only=True)
    """The path of a baseline file, or ``[precision, recall, F1]``."""
    device: Device = field(default="auto", kw_only=True)
    precision: Precision = field(default="float32", kw_only=True)
    """How exactly the model computes; half precision needs a GPU and is part of the signature."""
    revision: str | None = field(default=None, kw_only=True)
    allow_download: bool = field(default=False, kw_only=True, compare=False)

    metadata = declare(
        stat_names=("precision", "recall", "f1", "num_truncated"),
        failure_note="counts as an empty answer does: 0, or what that is after rescaling",
        reference="Zhang et al. 2020 (BERTScore)",
        signature={
            **COMPARED_TO,
            "model": "source.model_name",
            "precision": SignatureOption("precision", unless="float32"),
            "layer": SignatureOption("num_layers", words={None: "best"}),
            "score": SignatureOption("score_type", unless="F1"),
            "idf": SignatureOption("idf", unless=False, words={True: "references"}),
            "baseline": SignatureOption("baseline", write=_baseline_text),
        },
    )

    def __post_init__(self) -> None:
        given = str(self.score_type).lower()
        object.__setattr__(
            self, "score_type", next((kind for kind in _SCORE_TYPES if kind.lower() == given), self.score_type)
        )
        super().__post_init__()
        object.__setattr__(self, "baseline", _check_baseline(self.baseline))
        set_metadata(self, needs_all=self.idf)
        _ = self.source  # raises for invalid options
        if isinstance(self.baseline, tuple):  # a file is read when it is needed
            set_metadata(self, range=(self.worst, 1.0))

    @property
    def source(self) -> ModelSource:
        """Which model, and how it is run."""
        return ModelSource(
            self.model_type,
            device=self.device,
            precision=self.precision,
            revision=self.revision,
            allow_download=self.allow_download,
        )

    @property
    def _column(self) -> int:
        return _SCORE_TYPES.index(self.score_type)

    @property
    def worst(self) -> float:
        """The score of an empty answer."""
        return float(self._rescaled(np.zeros((1, 3)))[0, self._column])

    @property
    def worst_stats(self) -> Sequence[float]:
        """The three numbers of an empty answer, and no truncation."""
        return [*(float(value) for value in self._rescaled(np.zeros((1, 3)))[0]), 0.0]

    def _rescaled(self, values: Floats) -> Floats:
        """Rows of precision, recall and F1, rescaled so that the baseline is 0 and 1 stays 1."""
        given = self.baseline
        if given is None:
            return values
        if isinstance(given, str):
            best = BEST_LAYERS.get(self.model_type, 0)
            given = read_baseline(given, best if self.num_layers is None else self.num_layers)
        baseline = np.array(given)
        return np.asarray((values - baseline) / (1 - baseline))

    def require_ready(self) -> None:
        """Raise unless the packages, the model with its layer, and the baseline are available."""
        load_encoder(self.source, self.num_layers)
        _ = self.worst  # reads the baseline

    def score(self, batch: Batch) -> Scores:
        """The best of each answer over its references; with ``idf`` the scores follow once all samples are known."""
        if not len(batch):  # nothing to read, so that no model is needed
            return self._outcome(batch, np.zeros((0, 3)), np.zeros(0), {})
        encoder = load_encoder(self.source, self.num_layers)
        given, texts = answers(batch), reference_texts(batch, self.role)
        key = ("bertscore", self.source, self.num_layers, self.role)
        pairs = batch.feature(
            key, lambda _: match_pairs(encoder, [given[row] for row in texts.owners.tolist()], texts.texts)
        )
        cut = np.bincount(texts.owners, weights=pairs.cut, minlength=len(batch)).astype(np.float64)
        note_truncation(batch, self.name, cut)
        failed = _failure_masks(pairs, texts.owners, len(batch))
        if not self.idf:
            values = self._best(_pair_scores(pairs, encoder.special_token_ids), texts.owners, len(batch))
            return self._outcome(batch, values, cut, failed)
        scores = self._outcome(batch, np.zeros((len(batch), 3)), cut, failed)
        return replace(scores, keys=tuple(_group_by_sample(pairs, texts.owners, len(batch), encoder.special_token_ids)))

    @property
    def is_paired(self) -> bool:
        """Only with ``idf`` does a score depend on other samples."""
        return self.idf

    def pair_samples(self, scores: Scores) -> Scores:
        """With ``idf``: the scores, tokens weighted by their rarity among all reference answers."""
        if not self.idf or scores.keys is None:
            return scores
        texts = [pair.reference.ids for pair in chain.from_iterable(filter(None, scores.keys))]
        frequencies = document_frequencies(texts)
        stats = np.array(scores.stats)
        rows = np.flatnonzero(scores.status == Status.SCORED)
        for row in rows.tolist():
            pairs = [pair for pair in scores.keys[row] if not pair.is_empty]
            values = [_weighted_f1(pair, frequencies, len(texts)) for pair in pairs]
            best = np.max(values, axis=0) if values else np.zeros(3)
            if len(pairs) < len(scores.keys[row]):
                best = np.maximum(best, 0.0)
            stats[row, :3] = best
        stats[rows, :3] = self._rescaled(stats[rows, :3])
        return replace(
            scores,
            values=np.where(scores.status == Status.SCORED, stats[:, self._column], scores.values),
            stats=stats,
            keys=None,
        )

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """The plain definition; with ``idf`` there is none for a sample by itself."""
        return None if self.idf else super().reference(sample, output)

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """Two texts at a time, all cosines at once, no padding."""
        encoder = load_encoder(self.source, self.num_layers)
        values = [_plain_bertscore(encoder, answer, text) for text in self.compared_texts(sample)]
        return Score(float(self._rescaled(np.max(values, axis=0)[None])[0, self._column]))

    def _outcome(self, batch: Batch, values: Floats, cut: Floats, failed: SkipMasks) -> Scores:
        return self.outcome(
            batch,
            np.nan_to_num(values[:, self._column]),  # NaN only in failed rows
            skip=self.without_reference(batch),
            fail=failed,
            stats=np.column_stack([values, cut]),
        )

    def _best(self, values: Floats, owners: Integers, rows: int) -> Floats:
        best = np.full((rows, 3), -np.inf)
        np.maximum.at(best, owners, values)
        return self._rescaled(np.where(np.isneginf(best), 0.0, best))


_Baseline = Annotated[float, Lt(1)]


def _check_baseline(baseline: object) -> str | tuple[float, float, float] | None:
    if baseline is None or (isinstance(baseline, str) and baseline):
        return baseline
    if isinstance(baseline, os.PathLike):
        return str(os.fspath(baseline))
    if (
        isinstance(baseline, (list, tuple))
        and len(baseline) == 3
        and all(problem_of(_Baseline, value) is None for value in baseline)
    ):
        return (float(baseline[0]), float(baseline[1]), float(baseline[2]))
    raise BadTypeError(f"baseline must be a path, or precision, recall and F1, numbers below 1; not {baseline!r:.80}")


def _pair_scores(pairs: MatchedPairs, without_meaning: Sequence[int]) -> Floats:
    """Precision, recall and F1 of every pair."""
    weights = [uniform_weights(side.ids, without_meaning) for side in (pairs.candidates, pairs.references)]
    empty = [
        token_weights(side, weight) == 0
        for side, weight in zip((pairs.candidates, pairs.references), weights, strict=True)
    ]
    precision, recall = (
        np.where(empty[0] | empty[1], 0.0, weighted_means(side, weight))
        for side, weight in zip((pairs.candidates, pairs.references), weights, strict=True)
    )
    total = precision + recall
    f1 = np.divide(2 * precision * recall, total, out=np.zeros(len(total)), where=total != 0)
    return np.column_stack([precision, recall, f1])


def _failure_masks(pairs: MatchedPairs, owners: Integers, rows: int) -> dict[str, Mask]:
    """Rows that could not be measured: out of memory, or NaN from the model."""

    def rows_with(mask: Mask) -> Mask:
        return np.bincount(owners[mask], minlength=rows) > 0

    not_a_number = np.zeros(len(owners), np.bool_)
    for side in (pairs.candidates, pairs.references):
        not_a_number |= token_weights(side, np.isnan(side.nearest).astype(np.float64)) > 0
    return {
        OUT_OF_MEMORY: rows_with(pairs.out_of_memory),
        UNUSABLE_REASONS[0]: rows_with(not_a_number & ~pairs.out_of_memory),
    }


def _plain_bertscore(encoder: TokenEncoder, given: str, text: str) -> tuple[float, float, float]:
    first, second = encoder.tokens([given]), encoder.tokens([text])
    kept = [uniform_weights(tokens.ids, encoder.special_token_ids) > 0 for tokens in (first, second)]
    if not all(some.any() for some in kept):
        return 0.0, 0.0, 0.0
    (left, _), (right, _) = encoder.vectors(first), encoder.vectors(second)
    cosines = (left.float() @ right.float().T).cpu().numpy()
    return _f1(float(cosines.max(axis=1)[kept[0]].mean()), float(cosines.max(axis=0)[kept[1]].mean()))


@dataclass(frozen=True, slots=True)
class _MatchedPair:
    """An answer and a reference after matching, token by token."""

    answer: TokenMatches
    reference: TokenMatches
    is_empty: bool
    """Whether one of them has only special tokens."""


def _group_by_sample(
    pairs: MatchedPairs, owners: Integers, rows: int, without_meaning: Sequence[int]
) -> list[list[_MatchedPair]]:
    """The pairs of each sample."""
    pairs_by_sample: list[list[_MatchedPair]] = [[] for _ in range(rows)]
    sides = list(zip(_split_pairs(pairs.candidates), _split_pairs(pairs.references), strict=True))
    for row, (given, wanted_side) in zip(owners.tolist(), sides, strict=True):
        empty = not all(uniform_weights(side.ids, without_meaning).any() for side in (given, wanted_side))
        pairs_by_sample[row].append(_MatchedPair(given, wanted_side, empty))
    return pairs_by_sample


def _split_pairs(side: TokenMatches) -> list[TokenMatches]:
    """One side of all pairs, split by pair."""
    starts = side.ends - np.diff(side.ends, prepend=0)
    return [
        TokenMatches(side.ids[start:end], np.array([end - start]), side.nearest[start:end])
        for start, end in zip(starts.tolist(), side.ends.tolist(), strict=True)
    ]


def _weighted_f1(pair: _MatchedPair, frequencies: Mapping[int, int], texts: int) -> tuple[float, float, float]:
    """Precision, recall and F1 of a pair, tokens weighted by their rarity among these texts."""
    sides = (pair.answer, pair.reference)
    precision, recall = (weighted_means(side, idf_weights(side.ids, frequencies, texts))[0] for side in sides)
    return _f1(float(precision), float(recall))


def _f1(precision: float, recall: float) -> tuple[float, float, float]:
    total = precision + recall
    return precision, recall, 2 * precision * recall / total if total else 0.0
