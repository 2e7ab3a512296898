"""Plain implementations without a tool: SQuAD's script, n-gram overlap with evidence, distinct n-grams."""

import re
import string
from collections import Counter


def normalised(text: str) -> str:
    """As SQuAD's script does it: the pattern and the set of punctuation are made for every text."""
    articles = re.compile(r"\b(a|an|the)\b", re.UNICODE)
    punctuation = set(string.punctuation)
    kept = "".join(character for character in text.lower() if character not in punctuation)
    return " ".join(re.sub(articles, " ", kept).split())


def squad(answers: list[str], references: list[str]) -> list[tuple[int, float]]:
    """Exact match and F1 as the script of SQuAD 2.0 goes about them: each normalises for itself, after a look at
    whether any reference has words at all."""
    found = []
    for answer, reference in zip(answers, references, strict=True):
        gold = [text for text in [reference] if normalised(text)] or [""]
        found.append((max(exact(answer, text) for text in gold), max(f1(answer, text) for text in gold)))
    return found


def exact(answer: str, reference: str) -> int:
    return int(normalised(reference) == normalised(answer))


def f1(answer: str, reference: str) -> float:
    wanted, given = (normalised(text).split() if text else [] for text in (reference, answer))
    common = sum((Counter(wanted) & Counter(given)).values())
    if not given or not wanted:
        return float(given == wanted)
    if not common:
        return 0.0
    precision, recall = common / len(given), common / len(wanted)
    return 2 * precision * recall / (precision + recall)


_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def words(text: str) -> list[str]:
    return text.lower().translate(_WITHOUT_PUNCTUATION).split()


def grams(words: list[str], n: int) -> list[tuple[str, ...]]:
    return list(zip(*(words[i:] for i in range(n)), strict=False))


def evidence_overlap(answers: list[str], evidence: list[list[str]]) -> list[tuple[float, float]]:
    """The share of words, and of pairs of words, that stand in a passage."""
    found = []
    for answer, passages in zip(answers, evidence, strict=True):
        mine_words = words(answer)
        texts = [words(passage) for passage in passages]
        shares = []
        for n in (1, 2):
            there = {gram for text in texts for gram in grams(text, n)}
            mine = grams(mine_words, n)
            shares.append(sum(gram in there for gram in mine) / len(mine))
        found.append((shares[0], shares[1]))
    return found


def distinct(answers: list[str], n: int) -> float:
    every = [gram for answer in answers for gram in grams(words(answer), n)]
    return len(set(every)) / len(every)
