"""Parts of BERTScore: the encoder of a model and layer, token weights, baselines and greedy matching."""

from __future__ import annotations

import csv
import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..errors import BadValueError, DataFileError
from ..features.embeddings import InferenceFailure
from .encoding import TokenColumn, TokenEncoder, run_in_batches
from .loading import ModelSource, layer_count, load_layers

if TYPE_CHECKING:
    import torch

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

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
    weights: Floats = (~np.isin(ids, list(special_token_ids))).astype(np.float64)
    return weights


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


@dataclass(frozen=True, slots=True)
class Baseline:
    """Precision, recall and F1 of unrelated texts, for rescaling."""

    precision: float
    recall: float
    f1: float

    def rescale(self, values: Floats) -> Floats:
        """Rescale rows of precision, recall and F1 so that the baseline is 0 and 1 stays 1."""
        base = np.array([self.precision, self.recall, self.f1])
        scaled: Floats = (values - base) / (1 - base)
        return scaled


def baseline_name(path: str) -> str:
    """A baseline file as a signature shows it: its name and a hash of its content, without its folder."""
    file = Path(path)
    try:
        return f"{file.name}-{hashlib.sha256(file.read_bytes()).hexdigest()[:8]}".replace("|", "/")
    except OSError:  # reading the file will raise
        return file.name.replace("|", "/")


def read_baseline(path: str | Path, layer: int) -> Baseline:
    """The baseline of a layer from a file in the format of the bert-score package: LAYER,P,R,F."""
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
                    return Baseline(*values)
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
    out_of_memory: npt.NDArray[np.bool_]
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
        block_tokens = _select(tokens, used_texts)
        out_of_memory[pairs] = _match_block(
            encoder, block_tokens, inverse[: len(pairs)], inverse[len(pairs) :], pairs, sides
        )
    first, second = (side.to_matches() for side in sides)
    return MatchedPairs(first, second, tokens.cut[left].astype(np.int64) + tokens.cut[right], out_of_memory)


class _SimilarityBuffer:
    """Buffer for the cosines of one side, in the order of the pairs."""

    def __init__(self, tokens: TokenColumn, texts: Integers) -> None:
        counts = tokens.counts[texts]
        self.ends = np.cumsum(counts)
        self.starts = self.ends - counts
        self.ids = tokens.ids[_ranges(tokens.starts[texts], counts)]
        self.similarities = np.zeros(len(self.ids), np.float32)

    def to_matches(self) -> TokenMatches:
        return TokenMatches(self.ids, self.ends, self.similarities)


def _match_block(
    encoder: TokenEncoder,
    tokens: TokenColumn,
    left: Integers,
    right: Integers,
    pairs: Integers,
    sides: tuple[_SimilarityBuffer, _SimilarityBuffer],
) -> npt.NDArray[np.bool_]:
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
    missing[filled] |= [isinstance(one, InferenceFailure) for one in outcomes]
    for rows, nearest in pending:
        for side, texts, values in zip(sides, (left[rows], right[rows]), nearest, strict=True):
            is_token = np.arange(values.shape[1]) < counts[texts][:, None]
            token_similarities = np.clip(values.cpu().numpy()[is_token], 0.0, 1.0)
            side.similarities[_ranges(side.starts[pairs[rows]], counts[texts])] = token_similarities
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
    counts = tokens.counts[rows]
    return TokenColumn(tokens.ids[_ranges(tokens.starts[rows], counts)], np.cumsum(counts), tokens.cut[rows])


def _ranges(starts: Integers, counts: Integers) -> Integers:
    """The indices of several ranges, concatenated."""
    ends = np.cumsum(counts)
    places: Integers = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)
    return places


def token_weights(side: TokenMatches, weights: Floats) -> Floats:
    """Total token weight of each text."""
    owners = np.repeat(np.arange(len(side.ends)), np.diff(side.ends, prepend=0))
    totals: Floats = np.bincount(owners, weights=weights, minlength=len(side.ends)).astype(np.float64)
    return totals


def weighted_means(side: TokenMatches, weights: Floats) -> Floats:
    """The mean of each text's cosines, weighted token by token; 0 where no token has weight."""
    sums, totals = token_weights(side, side.nearest * weights), token_weights(side, weights)
    means: Floats = np.divide(sums, totals, out=np.zeros(len(side.ends)), where=totals > 0)
    return means
