"""The stored data of one run for the query browser: samples, outputs and judgements as JSON, results."""

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
"""The state of a query in a run: not in its dataset, no output stored, an output, only failures."""
MAX_SEARCHED_LENGTH = 5_000
"""The number of characters of a question or answer that are searched."""


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
    """The rank of the first hit of the first answer; NaN where there is none."""
    answers: list[str]
    """The starts of the answers, for the search."""


def read_run(
    store: RunStore, record: RunRecord, samples: Sequence[EvaluationSample], words: WordIndex, number_of: NumberOf
) -> RunSource:
    """Read a run; document texts go to ``number_of`` and are not kept."""
    count = len(samples)
    golds = [GoldMarks(sample) for sample in samples]
    outputs: list[list[bytes]] = [[] for _ in range(count)]
    states = np.full(count, UNANSWERED, np.uint8)
    first_hits = np.full(count, np.nan)
    answers = [""] * count
    for row in store.outputs(record.run_id):
        position, output = row.position, row.output
        if not 0 <= position < count:
            continue
        repeats = outputs[position]
        repeats += [b"null"] * (row.repeat - len(repeats))
        repeats.append(output_json(output, golds[position], words, number_of))
        if output.error is None:
            if states[position] != ANSWERED:
                first_hits[position] = _first_hit(output, golds[position])
            states[position] = ANSWERED
        elif states[position] == UNANSWERED:
            states[position] = FAILED
        text = output.response.text if output.response is not None else output.error or ""
        answers[position] = (
            f"{answers[position]}\n{text[:MAX_SEARCHED_LENGTH]}" if answers[position] else text[:MAX_SEARCHED_LENGTH]
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
