"""Public answers of five systems to 3,610 questions, with human labels; read from a local copy."""

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from auepora_eval import EvaluationSample, Response, SystemOutputs, evaluate
from helpers.requirements import need_data

__all__ = ["AGREEMENT", "LENGTH_COLUMN", "Judged", "LabelledAnswers", "judged", "labelled_answers", "rows"]

AGREEMENT = {"fid": 0.897, "gpt35": 0.846, "chatgpt": 0.803, "gpt4": 0.825, "newbing": 0.822}
"""How often containment and people say the same of a system's answers."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The answers of one system that people judged."""

    samples: list[EvaluationSample]
    outputs: list[SystemOutputs]
    scores: npt.NDArray[np.float64]
    """Containment, the lexical critic."""
    labels: npt.NDArray[np.float64]


def rows() -> list[dict[str, Any]]:
    """The rows with proper questions, with their place in the file."""
    path = need_data("evouna", "NQ.json")
    read = json.loads(path.read_text(encoding="utf-8"))
    return [{**row, "place": place} for place, row in enumerate(read) if not row["improper"]]


@dataclass(frozen=True, slots=True)
class LabelledAnswers:
    """Cheap features and human labels of one system's answers to the questions where every system has a label."""

    containment: npt.NDArray[np.float64]
    features: npt.NDArray[np.float64]
    """Containment, F1, recall, log length, hedges, gold length, containment times length, other systems' containment."""
    labels: npt.NDArray[np.float64]


LENGTH_COLUMN = 3
"""Of the features: the logarithm of the answer's length."""
_HEDGES = ("not sure", "unclear", "cannot", "can't", "don't know", "do not have", "sorry", "unable", "no information")


def _word_recall(gold: str, answer: str) -> float:
    words = set(gold.lower().split())
    return len(words & set(answer.lower().split())) / len(words) if words else 0.0


@lru_cache
def labelled_answers() -> dict[str, LabelledAnswers]:
    """The features and labels by system; skips the test if the data is missing."""
    kept = [row for row in rows() if all(row[f"judge_{system}"] is not None for system in AGREEMENT)]
    gold = [row["golden_answer"].split("/") for row in kept]
    samples = [
        EvaluationSample(f"q{row['place']}", row["question"], reference_answers=answers)
        for row, answers in zip(kept, gold, strict=True)
    ]
    scores = {}
    for system in AGREEMENT:
        outputs = [SystemOutputs([], Response(row[f"answer_{system}"])) for row in kept]
        results = evaluate(samples, outputs, ["containment", "token_f1"])
        scores[system] = np.array([list(one.scores or ()) for one in results], dtype=np.float64)
    gold_length = np.log([min(map(len, answers)) + 1 for answers in gold])
    found = {}
    for system, (containment, f1) in scores.items():
        answers = [row[f"answer_{system}"] or "" for row in kept]
        recall = [
            max(_word_recall(one, answer) for one in aliases) for aliases, answer in zip(gold, answers, strict=True)
        ]
        length = np.log([len(answer) + 1 for answer in answers])
        hedges = [float(any(hedge in answer.lower() for hedge in _HEDGES)) for answer in answers]
        others = np.mean([scores[other][0] for other in AGREEMENT if other != system], axis=0)
        columns = (containment, f1, recall, length, hedges, gold_length, containment * length, others)
        labels = np.array([float(row[f"judge_{system}"]) for row in kept])
        found[system] = LabelledAnswers(containment, np.column_stack(columns), labels)
    return found


@lru_cache
def judged(system: str) -> Judged:
    """The answers of a system and their human labels; skips the test if the data is missing."""
    kept = [row for row in rows() if row[f"judge_{system}"] is not None]
    samples = [
        EvaluationSample(f"q{row['place']}", row["question"], reference_answers=row["golden_answer"].split("/"))
        for row in kept
    ]
    outputs = [SystemOutputs([], Response(row[f"answer_{system}"])) for row in kept]
    (result,) = evaluate(samples, outputs, ["containment"])
    scores = np.array(list(result.scores or ()), dtype=np.float64)
    return Judged(samples, outputs, scores, np.array([float(row[f"judge_{system}"]) for row in kept]))
