"""What the browser reads from the store of one run: samples, outputs as the page holds them, judgements, results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ....core.results import Results
from ....core.types import EvaluationSample, SystemOutputs
from ....store.records import RunRecord
from ....store.runs import RunStore
from .marks import GoldMarks, WordIndex
from .queries import NumberOf, judgement_json, output_json

__all__ = ["ANSWERED", "FAILED", "MAX_SEARCHED_LENGTH", "NOT_ASKED", "UNANSWERED", "RunSource", "read_run"]

NOT_ASKED, UNANSWERED, ANSWERED, FAILED = range(4)
"""How a query stands in a run: not in its dataset, no output stored, an output, nothing but failures."""
MAX_SEARCHED_LENGTH = 5_000
"""So many characters of a question or an answer are searched."""


@dataclass(frozen=True, slots=True)
class RunSource:
    """One run, by the positions of its dataset."""

    record: RunRecord
    samples: Sequence[EvaluationSample]
    results: Results
    outputs: list[list[bytes]]
    """Per position the outputs as JSON, repeat by repeat; ``null`` where one is missing."""
    judgements: list[list[bytes]]
    states: npt.NDArray[np.uint8]
    first_hits: npt.NDArray[np.float64]
    """The rank of the first gold document of the first answer; NaN where there is none."""
    answers: list[str]
    """The beginnings of what was answered, to be searched."""


def read_run(
    store: RunStore, record: RunRecord, samples: Sequence[EvaluationSample], words: WordIndex, number_of: NumberOf
) -> RunSource:
    """Everything of a run; texts of documents go to ``number_of`` and are not kept."""
    count = len(samples)
    golds = [GoldMarks(sample) for sample in samples]
    outputs: list[list[bytes]] = [[] for _ in range(count)]
    states = np.full(count, UNANSWERED, np.uint8)
    first_hits = np.full(count, np.nan)
    answers = [""] * count
    for row in store.outputs(record.run_id):
        place, output = row.position, row.output
        if not 0 <= place < count:
            continue
        given = outputs[place]
        given += [b"null"] * (row.repeat - len(given))
        given.append(output_json(output, golds[place], words, number_of))
        if output.error is None:
            if states[place] != ANSWERED:
                first_hits[place] = _first_hit(output, golds[place])
            states[place] = ANSWERED
        elif states[place] == UNANSWERED:
            states[place] = FAILED
        told = output.response.text if output.response is not None else output.error or ""
        answers[place] = (
            f"{answers[place]}\n{told[:MAX_SEARCHED_LENGTH]}" if answers[place] else told[:MAX_SEARCHED_LENGTH]
        )
    results = store.results(record.run_id)
    current = {one.name: one.signature for one in results}
    judgements: list[list[bytes]] = [[] for _ in range(count)]
    for one in store.judgements(record.run_id):
        if 0 <= one.position < count:
            is_old = current.get(one.metric, one.signature) != one.signature
            judgements[one.position].append(judgement_json(one, is_old=is_old))
    return RunSource(record, samples, results, outputs, judgements, states, first_hits, answers)


def _first_hit(output: SystemOutputs, gold: GoldMarks) -> float:
    rank = gold.first_rank([item.doc for item in output.retrieved])
    return np.nan if rank is None else float(rank)
