"""What people write themselves for want of a tool: SQuAD's script, n-gram overlap with evidence, distinct n-grams."""

import re
import string
from collections import Counter

_ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)
_PUNCTUATION = set(string.punctuation)


def normalised(text: str, *, articles: bool = False) -> str:
    kept = "".join(character for character in text.lower() if character not in _PUNCTUATION)
    return " ".join((kept if articles else _ARTICLES.sub(" ", kept)).split())


def squad(answers: list[str], references: list[str]) -> list[tuple[int, float]]:
    """Exact match and F1, each normalising for itself as SQuAD's script does."""
    return [(int(normalised(r) == normalised(a)), f1(a, r)) for a, r in zip(answers, references, strict=True)]


def f1(answer: str, reference: str) -> float:
    given, wanted = normalised(answer).split(), normalised(reference).split()
    common = sum((Counter(given) & Counter(wanted)).values())
    if not given or not wanted:
        return float(given == wanted)
    if not common:
        return 0.0
    precision, recall = common / len(given), common / len(wanted)
    return 2 * precision * recall / (precision + recall)


def grams(words: list[str], n: int) -> list[tuple[str, ...]]:
    return list(zip(*(words[i:] for i in range(n)), strict=False))


def evidence_overlap(answers: list[str], evidence: list[list[str]]) -> list[tuple[float, float]]:
    """The share of words, and of pairs of words, that stand in a passage."""
    found = []
    for answer, passages in zip(answers, evidence, strict=True):
        words = normalised(answer, articles=True).split()
        texts = [normalised(passage, articles=True).split() for passage in passages]
        shares = []
        for n in (1, 2):
            there = {gram for text in texts for gram in grams(text, n)}
            mine = grams(words, n)
            shares.append(sum(gram in there for gram in mine) / len(mine))
        found.append((shares[0], shares[1]))
    return found


def distinct(answers: list[str], n: int) -> float:
    every = [gram for answer in answers for gram in grams(normalised(answer, articles=True).split(), n)]
    return len(set(every)) / len(every)
