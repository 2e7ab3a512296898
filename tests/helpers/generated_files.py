"""Made-up samples and outputs, as sources and as files in several shards, for tests of evaluations over files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from auepora_eval import EvaluationSample, SystemOutputs
from auepora_eval.core.registry import Spec
from auepora_eval.io.jsonl import save_jsonl_dataset, save_jsonl_outputs
from auepora_eval.io.parquet import save_parquet_dataset, save_parquet_outputs
from helpers.builders import output, sample

__all__ = ["METRICS", "Numbered", "rows", "write_files"]

METRICS: list[Spec] = [
    "recall@2",
    "ndcg@3",
    "token_f1",
    "bleu",
    "rejection_f1",
    {"noise_robustness": {"base": "token_f1"}},
]
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


@dataclass(frozen=True)
class Numbered:
    """Rows that follow from their numbers alone; where ``log`` is, each reading leaves a line in it."""

    start: int
    stop: int
    log: str | None = None

    @property
    def size(self) -> int:
        return self.stop - self.start

    def read(self) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
        if self.log is not None:
            with open(self.log, "a") as file:
                file.write(f"{self.start}\n")
        return rows(range(self.start, self.stop))


def rows(numbers: Sequence[int]) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
    samples, outputs = [], []
    for number in numbers:
        made = sample(["a", f"d{number % 7}"], sample_id=f"q{number}", answer=" ".join(WORDS[: 2 + number % 5]))
        made.labels = {"answerable": number % 4 > 0, "lang": ["de", "en", ["de", "fr"], None][number % 4]}
        if number % 10 == 9:
            made.labels |= {"scenario": "typo", "variant_of": f"q{number // 2}"}
        samples.append(made)
        error = "timeout" if number % 29 == 0 else None
        outputs.append(output(["x", f"d{number % 5}", "a"], answer=" ".join(WORDS[number % 3 : 5]), error=error))
    return samples, [None if number % 31 == 0 else one for number, one in zip(numbers, outputs, strict=True)]


def write_files(folder: Path, total: int, *, shards: int = 3, table: bool = False) -> tuple[Path, Path]:
    """Folders with the samples and the outputs, the latter in other shards and with some missing."""
    samples, outputs = rows(range(total))
    given = [(one.sample_id, output) for one, output in zip(samples, outputs, strict=True) if output is not None]
    suffix = "parquet" if table else "jsonl"
    for name in ("data", "out"):
        (folder / name).mkdir(parents=True)
    for number in range(shards):
        part = slice(total * number // shards, total * (number + 1) // shards)
        path = folder / "data" / f"part-{number}.{suffix}"
        (save_parquet_dataset if table else save_jsonl_dataset)(samples[part], path)
    for number in range(shards + 1):
        some = given[len(given) * number // (shards + 1) : len(given) * (number + 1) // (shards + 1)]
        path = folder / "out" / f"part-{number}.{suffix}"
        (save_parquet_outputs if table else save_jsonl_outputs)(some, path)
    return folder / "data", folder / "out"
