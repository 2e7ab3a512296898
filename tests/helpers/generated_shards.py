"""Datasets and outputs written as files in many ways, for the tests of sharded input."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from auepora_eval import EvaluationSample, SystemOutputs
from auepora_eval.io.jsonl import save_jsonl_dataset, save_jsonl_outputs
from auepora_eval.io.parquet import save_parquet_dataset, save_parquet_outputs
from helpers.builders import output, sample

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
Rows = tuple[list[EvaluationSample], list[SystemOutputs | None]]


def rows(total: int, *, missing: bool = True) -> Rows:
    """Samples of every kind: variants far from their bases, failures, outputs that are missing."""
    samples, outputs = [], []
    for number in range(total):
        made = sample(["a", f"d{number % 7}"], sample_id=f"q{number}", answer=" ".join(WORDS[: 2 + number % 5]))
        made.labels = {"answerable": number % 4 > 0, "lang": "de" if number % 3 else "en"}
        if number % 5 == 4:  # often in another batch than its base, sometimes the variant of a variant
            scenario = ("typo", "counterfactual", "false_documents")[number % 3]
            made.labels |= {"scenario": scenario, "variant_of": f"q{(number * 7) % total}"}
        samples.append(made)
        error = "timeout" if number % 29 == 0 else None
        answer = " ".join(WORDS[number // 3 % 3 : 5 + number % 2])
        outputs.append(output(["x", f"d{number % 5}", "a"], answer=answer, error=error))
    kept = [None if missing and number % 31 == 0 else one for number, one in enumerate(outputs)]
    return samples, kept


def write_shards(
    folder: Path, given: Rows, cuts: Sequence[int], output_cuts: Sequence[int], suffix: str = ".jsonl"
) -> tuple[str, str]:
    """Write rows as several files each, cut at these rows; the globs that name them."""
    save_samples = save_parquet_dataset if suffix == ".parquet" else save_jsonl_dataset
    save_outputs = save_parquet_outputs if suffix == ".parquet" else save_jsonl_outputs
    samples, outputs = given
    pairs = [(one.sample_id, got) for one, got in zip(samples, outputs, strict=True) if got is not None]
    for number, (start, stop) in enumerate(_parts(cuts, len(samples))):
        save_samples(samples[start:stop], folder / f"samples-{number}{suffix}")
    for number, (start, stop) in enumerate(_parts(output_cuts, len(pairs))):
        save_outputs(pairs[start:stop], folder / f"outputs-{number}{suffix}")
    return f"{folder}/samples-*{suffix}", f"{folder}/outputs-*{suffix}"


def _parts(cuts: Sequence[int], total: int) -> list[tuple[int, int]]:
    ends = sorted({0, total, *(cut for cut in cuts if 0 < cut < total)})
    return list(pairwise(ends))
