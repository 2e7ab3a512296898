"""Public answers of five systems to 3,610 questions, with human labels; read from a local copy."""

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from auepora_eval import EvaluationSample, Response, SystemOutputs, evaluate
from helpers.requirements import need_data

__all__ = ["AGREEMENT", "Judged", "judged", "rows"]

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
