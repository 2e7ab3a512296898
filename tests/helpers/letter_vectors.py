"""Vectors of texts without a model: how often each letter occurs, for metrics that are given an import path."""

import numpy as np
import numpy.typing as npt


def letters(texts: list[str]) -> npt.NDArray[np.float64]:
    """How often each of the 26 letters occurs; nothing but zeros for a text without any."""
    return np.array([[text.lower().count(chr(code)) for code in range(97, 123)] for text in texts], np.float64)


class Scaled:
    """The same, some letters left out."""

    def __init__(self, without: str = "") -> None:
        self.without = without

    def __call__(self, texts: list[str]) -> npt.NDArray[np.float64]:
        table = str.maketrans("", "", self.without)
        return letters([text.translate(table) for text in texts])
