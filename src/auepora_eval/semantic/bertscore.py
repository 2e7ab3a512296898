"""BERTScore's ground: the encoder for a model and layer, which tokens weigh how much, and baselines."""

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
"""The layer whose vectors agreed best with people's judgement, as the authors of BERTScore found it."""


def load_encoder(source: ModelSource, layers: int | None) -> TokenEncoder:
    """The model cut off after this layer, by default the one that is known to be best; loaded once per process."""
    chosen = BEST_LAYERS.get(source.model) if layers is None else layers
    if chosen is None:
        loaded = load_layers(source, None, purpose="bertscore")
        raise BadValueError(
            f"it is not known which layer of '{source.identity}' to take; give num_layers, at most the model's "
            f"{layer_count(loaded.model)}"
        )
    loaded = load_layers(source, chosen, purpose="bertscore")
    return TokenEncoder(loaded)


def uniform_weights(ids: Integers, without_meaning: Sequence[int]) -> Floats:
    """Every token weighs the same, but for those that frame a text."""
    weights: Floats = (~np.isin(ids, list(without_meaning))).astype(np.float64)
    return weights


def idf_weights(ids: Integers, frequencies: Mapping[int, int], texts: int) -> Floats:
    """A token weighs the more the fewer reference texts have it: log((texts + 1) / (texts with it + 1))."""
    distinct, places = np.unique(ids, return_inverse=True)
    weights = [math.log((texts + 1) / (frequencies.get(number, 0) + 1)) for number in distinct.tolist()]
    return np.array(weights, dtype=np.float64)[places]


def document_frequencies(texts: Iterable[Integers]) -> Counter[int]:
    """In how many texts each token occurs."""
    found: Counter[int] = Counter()
    for ids in texts:
        found.update(set(ids.tolist()))
    return found


@dataclass(frozen=True, slots=True)
class Baseline:
    """What texts that have nothing to do with each other score, in precision, recall and F1."""

    precision: float
    recall: float
    f1: float

    def rescale(self, values: Floats) -> Floats:
        """Values (rows of precision, recall, F1) so that the baseline is 0 and 1 stays 1."""
        base = np.array([self.precision, self.recall, self.f1])
        scaled: Floats = (values - base) / (1 - base)
        return scaled


def baseline_name(path: str) -> str:
    """A baseline's file as a signature shows it: its name and a hash of what it holds, not where it lies."""
    file = Path(path)
    try:
        return f"{file.name}-{hashlib.sha256(file.read_bytes()).hexdigest()[:8]}".replace("|", "/")
    except OSError:  # whoever needs the file says so
        return file.name.replace("|", "/")


def read_baseline(path: str | Path, layer: int) -> Baseline:
    """The baseline of a layer from a file as the bert-score package has them: LAYER,P,R,F."""
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
