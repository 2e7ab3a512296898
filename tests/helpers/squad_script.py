"""What the evaluation script of SQuAD 2.0 computes, in the words of its documentation: an oracle for the tests."""

import re
import string
from collections import Counter


def normalised(text: str) -> str:
    """Lower case, no punctuation, no articles, single blanks."""
    kept = "".join(character for character in text.lower() if character not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())


def _worth(references: list[str]) -> list[str]:
    return [text for text in references if normalised(text)] or [""]


def squad_exact(references: list[str], answer: str) -> float:
    return max(float(normalised(text) == normalised(answer)) for text in _worth(references))


def squad_f1(references: list[str], answer: str) -> float:
    return max(_f1(text, answer) for text in _worth(references))


def _f1(reference: str, answer: str) -> float:
    wanted, given = normalised(reference).split(), normalised(answer).split()
    if not wanted or not given:
        return float(wanted == given)
    common = sum((Counter(wanted) & Counter(given)).values())
    if not common:
        return 0.0
    precision, recall = 1.0 * common / len(given), 1.0 * common / len(wanted)
    return (2 * precision * recall) / (precision + recall)
