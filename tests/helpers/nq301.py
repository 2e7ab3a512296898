"""Public verdicts of three models and two lexical measures on 1,477 answers to 301 questions, with human labels."""

import csv
import json
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from auepora_eval import EvaluationSample, Response, SystemOutputs, evaluate
from helpers.requirements import need_data

__all__ = ["nq301"]

Floats = npt.NDArray[np.float64]


@lru_cache
def nq301() -> tuple[Floats, Floats, npt.NDArray[np.intp]]:
    """Scores of GPT-4, text-davinci-003, BEM, containment and token F1; human labels; the question of each answer."""
    folder = need_data("nq301")

    def read(name: str) -> list[list[str]]:
        with (folder / name).open(encoding="utf-8") as file:
            return list(csv.reader(file, delimiter="\t"))[1:]

    gpt4 = {row[1] + row[2]: row[-1].startswith("Yes") for row in read("NQ301_gpt-4.tsv")}
    davinci = {row[1]: row[-1].startswith("Yes") for row in read("NQ301_text-davinci-003.tsv")}
    rows = {row[1] + row[3]: row for row in read("NQ301_BEM.tsv")}
    people = {row[1] + row[2]: float(row[3] == "Yes") for row in read("NQ301_human.tsv")}
    rows = {key: row for key, row in rows.items() if key in gpt4 and key in davinci and key in people}
    samples = [
        EvaluationSample(f"{place}", row[1], reference_answers=row[2].split(" | "))
        for place, row in enumerate(rows.values())
    ]
    outputs = [SystemOutputs([], Response(row[3])) for row in rows.values()]
    lexical = evaluate(samples, outputs, ["containment", "token_f1"])
    bem = [max(pair[1] for pair in json.loads(row[5])) for row in rows.values()]
    columns = [
        [float(gpt4[key]) for key in rows],
        [float(davinci[key]) for key in rows],
        bem,
        *(list(result.scores or ()) for result in lexical),
    ]
    labels = np.array([people[key] for key in rows])
    questions = {row[1]: None for row in rows.values()}
    numbers = {question: number for number, question in enumerate(questions)}
    return np.array(columns, dtype=float).T, labels, np.array([numbers[row[1]] for row in rows.values()])
