"""Made-up answers, references and passages: words of a Zipf-like vocabulary with English endings and punctuation."""

import numpy as np

LETTERS = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
FUNCTION_WORDS = [
    "the",
    "of",
    "and",
    "a",
    "in",
    "to",
    "is",
    "was",
    "for",
    "on",
    "that",
    "by",
    "with",
    "as",
    "it",
    "an",
    "at",
]
ENDINGS = ["", "", "", "ing", "ed", "s", "ation", "ly"]
MARKS = [",", ".", ";", "'s", ")"]


def vocabulary(rng: np.random.Generator, size: int) -> list[str]:
    weights = np.arange(len(LETTERS), 0, -1.0)
    words: dict[str, None] = {}
    while len(words) < size:
        length = min(14, 2 + int(rng.gamma(4, 1.2)))
        stem = "".join(rng.choice(LETTERS, length, p=weights / weights.sum()))
        words[stem + ENDINGS[rng.integers(len(ENDINGS))]] = None
    return list(words)


def make_texts(count: int, *, passages: int = 5, seed: int = 1) -> tuple[list[str], list[str], list[list[str]]]:
    """Answers and references of 10 to 60 words, and passages of 100 words for each answer."""
    rng = np.random.default_rng(seed)
    words = np.array(vocabulary(rng, 30_000))
    chances = 1 / np.arange(3, len(words) + 3) ** 1.05
    chances /= chances.sum()

    def text(length: int) -> list[str]:
        content = words[rng.choice(len(words), length, p=chances)]
        function = rng.choice(FUNCTION_WORDS, length)
        found: list[str] = np.where(rng.random(length) < 0.4, function, content).tolist()
        for place in range(0, length, 11):
            found[place] = found[place].capitalize()
        for place in range(7, length, 9):
            found[place] += MARKS[rng.integers(len(MARKS))]
        return found

    answers, references, evidence = [], [], []
    for _ in range(count):
        wanted = text(int(rng.integers(10, 61)))
        given = [word if rng.random() < 0.6 else FUNCTION_WORDS[rng.integers(len(FUNCTION_WORDS))] for word in wanted]
        answers.append(" ".join(given))
        references.append(" ".join(wanted))
        evidence.append([" ".join(text(100)) for _ in range(passages)])
    return answers, references, evidence
