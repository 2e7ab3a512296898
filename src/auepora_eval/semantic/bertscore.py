"""Parts of BERTScore: the encoder for a model and layer, token weights, and baselines."""

from __future__ import annotations

import csv
import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..core.errors import BadValueError, DataFileError
from .layers import layer_count
from .models import ModelSource, load_layers
from .token_encoder import TokenEncoder

__all__ = [
    "BEST_LAYERS",
    "Baseline",
    "baseline_name",
    "document_frequencies",
    "idf_weights",
    "load_encoder",
    "read_baseline",
    "uniform_weights",
]

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
            f"there is no default layer for '{source.identity}'; set num_layers, at most the model's "
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
