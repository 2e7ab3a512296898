"""Generated samples and outputs with edge cases: repeats, levels below 0, empty lists, chunks."""

from __future__ import annotations

import random
from typing import Any

from ..core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs

__all__ = ["generate_pairs", "letter_counts"]

_IDS = [f"d{number}" for number in range(14)]
_WHOLE = {12, 13}
_LENGTHS = {4: 0, 5: 1, 9: 1}
"""The lengths of short chunks, by number."""
_WORDS = [
    "the", "cats", "sat", "running", "quickly", "on", "a", "mat", "2024", "3.5", "naïve", "it's", "-\n", "\n", "犬",
    "—the", "internationally", "U.S.", "&amp;",
]  # fmt: skip
_SCENARIOS = ["typo", "paraphrase", "counterfactual"]
_REFUSALS = ["I don’t know.", "Sorry, I CAN NOT\nanswer that", "Ski don't know", "无法回答", " \n", "cannot answered"]
_LABELS: list[dict[str, Any]] = [{}, {"label": "cats"}, {"kind": True}]
_MARKS: list[dict[str, Any]] = [{}, {}, {"scenario": "unanswerable"}, {"answerable": False}, {"answerable": "?"}]
_NOISE: list[dict[str, Any]] = [{}, *({"noise_ratio": share} for share in (0.0, 0.6, 1, "half"))]
_ANSWER_ENDINGS = ["", " There are factual errors in the documents.", " I have insufficient information."]
_STRUCTURED = [None, {}, {"label": "Cats", "n": 1}, {"label": "mat"}, {"n": 1.0, "kind": True}]


def generate_pairs(count: int, *, seed: int, repeats: bool = True) -> list[tuple[EvaluationSample, SystemOutputs]]:
    """Answered samples: every annotation is present in some and missing in others. ``repeats`` allows duplicate ids.

    Only the later half has graded judgements.
    """
    rng = random.Random(seed)  # noqa: S311 -- test data
    pairs = [_pair(rng, f"case {number}", repeats, graded=2 * number >= count) for number in range(count)]
    # Two of three are variants of the one before them.
    for number, (sample, _) in enumerate(pairs):
        if number % 3:
            base = pairs[number - number % 3][0].sample_id
            sample.labels = {"scenario": rng.choice(_SCENARIOS), **sample.labels, "variant_of": base}
    return pairs


def letter_counts(texts: list[str]) -> list[list[float]]:
    """Letter counts as vectors, for metrics with an embedder."""
    return [[float(text.lower().count(letter)) for letter in "acegilmnorstu"] for text in texts]


def _pair(rng: random.Random, name: str, repeats: bool, *, graded: bool) -> tuple[EvaluationSample, SystemOutputs]:
    length = rng.choice([0, 1, 2, 5, 11, 14])
    ids = rng.choices(_IDS, k=length) if repeats and rng.random() < 0.4 else rng.sample(_IDS, length)
    relevant = None
    if rng.random() < 0.95:
        # Half of the time only returned ids, so that short lists have hits too.
        candidates_for_gold = ids if ids and rng.random() < 0.5 else _IDS
        relevant = [_chunk(rng, i) for i in rng.choices(candidates_for_gold, k=rng.choice([0, 1, 1, 2, 3, 4, 6]))]
        for document in relevant:
            if graded and rng.random() < 0.6:
                document.metadata["relevance"] = rng.choice([-2, -1, 0, 0, 1, 1, 2, 3, 4])
    candidates = [Document(i) for i in rng.sample(_IDS, rng.randint(0, 8))] if rng.random() < 0.6 else None
    sample = EvaluationSample(
        name,
        _text(rng),
        relevant_docs=relevant,
        candidate_docs=candidates,
        reference_answer=Response(_text(rng), structured=rng.choice(_STRUCTURED)) if rng.random() < 0.8 else None,
        reference_answers=[_text(rng)] if rng.random() < 0.3 else [],
        labels=rng.choice(_LABELS) | rng.choice(_MARKS) | rng.choice(_NOISE),
        metadata=_metadata(rng),
    )
    output = SystemOutputs(
        [RetrievedDocument(_chunk(rng, i), 1.0 / rank, rank) for rank, i in enumerate(ids, 1)],
        Response(_answer(rng), structured=rng.choice(_STRUCTURED)) if rng.random() < 0.9 else None,
        timings={"end_to_end": rng.random()} if rng.random() < 0.8 else {},
        citations=rng.choice([None, [], rng.choices(_IDS, k=3)]),
        refused=rng.choice([None, False, True]),
    )
    _add_measurements(random.Random(name), output)  # noqa: S311 -- test data
    return sample, output


def _add_measurements(rng: random.Random, output: SystemOutputs) -> None:
    """Add timings and document vectors; in some outputs one of them is invalid."""
    if output.timings:
        output.timings |= rng.choice([{}, {"started": rng.uniform(0, 9), "retrieval": rng.choice([0, 0.25, -1.0])}])
    size, invalid = rng.choice([1, 3, 20]), rng.choice([None] * 6 + [[], [0.0] * 3, [1.0] * 4, [True]])
    for item in output.retrieved if rng.random() < 0.9 else []:
        item.doc.metadata["embedding"] = [rng.gauss(0.5, 1) for _ in range(size)]
    if output.retrieved and invalid is not None:
        rng.choice(output.retrieved).doc.metadata["embedding"] = invalid


def _metadata(rng: random.Random) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    if rng.random() < 0.3:
        metadata["expected_doc_ids"] = rng.sample(["p0", "p1", "p2"], rng.randint(0, 3))
    if rng.random() < 0.3:
        metadata |= {"must_contain": rng.sample(_WORDS, 1), "forbidden": rng.sample(_WORDS, 1)}
    if rng.random() < 0.5:
        metadata["wrong_answer"] = rng.choice(["cats", ["mat", "running"], "the", 5])
    if rng.random() < 0.3:
        metadata["output_schema"] = {"type": "object", "required": ["n"]}
    return metadata


def _chunk(rng: random.Random, doc_id: str) -> Document:
    """A chunk of one of a few parents, equal for equal ids except for its text; or a whole document."""
    number = int(doc_id[1:])
    text = _text(rng) if rng.random() < 0.9 else ""
    if number in _WHOLE:
        return Document(doc_id, text)
    start = 7 * (number // 4)
    return Document(doc_id, text, parent_id=f"p{number % 4}", span=(start, start + _LENGTHS.get(number, 10)))


def _answer(rng: random.Random) -> str:
    return rng.choice(_REFUSALS) if rng.random() < 0.2 else _text(rng) + rng.choice(_ANSWER_ENDINGS)


def _text(rng: random.Random) -> str:
    return " ".join(rng.choices(_WORDS, k=rng.randint(0, 9)))
