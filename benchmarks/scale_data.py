"""Made-up samples and outputs in Parquet files, for the measurements of ``benchmarks.scale``."""

from pathlib import Path

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.io.parquet import save_parquet_dataset, save_parquet_outputs

from .made_texts import make_texts

FILE_ROWS = 50_000
_DISTINCT = 20_000
"""Number of distinct texts; they are repeated with other ids."""


def write_texts(folder: Path, count: int, *, passages: int = 0, variants: bool = False) -> tuple[str, str]:
    """Answers and references of 10 to 60 words, with passages of 100 words; globs of the files.

    Every second sample is a variant of the one before it where ``variants`` are wanted. The gold is the first passage,
    or what would be it.
    """
    answers, references, evidence = make_texts(min(count, _DISTINCT), passages=passages)

    def sample(n: int) -> EvaluationSample:
        labels = {"scenario": "typo", "variant_of": str(n - 1)} if variants and n % 2 else {}
        return EvaluationSample(
            str(n),
            "what is it?",
            relevant_docs=[Document(f"{n}-{k}", "") for k in range(3)],
            reference_answer=Response(references[n % len(references)]),
            labels=labels,
        )

    def output(n: int) -> tuple[str, SystemOutputs]:
        texts = evidence[n % len(evidence)] or [""] * 10
        found = [
            RetrievedDocument(Document(f"{n}-{(k * 7 + n) % 13}", text), None, k + 1) for k, text in enumerate(texts)
        ]
        return str(n), SystemOutputs(found, Response(answers[n % len(answers)]))

    data, out = folder / "data", folder / "out"
    data.mkdir(parents=True)
    out.mkdir()
    first = range(min(count, FILE_ROWS))
    save_parquet_dataset(map(sample, first), data / "part-0000.parquet")
    save_parquet_outputs(map(output, first), out / "part-0000.parquet")
    for number, start in enumerate(range(FILE_ROWS, count, FILE_ROWS), start=1):
        for side in (data, out):
            _write_again(side, number, range(start, min(start + FILE_ROWS, count)))
    return str(data / "*.parquet"), str(out / "*.parquet")


def _write_again(side: Path, number: int, rows: range) -> None:
    """The first file again under other ids: writing row by row would take longer than what is measured."""
    import pyarrow as pa
    from pyarrow import parquet

    table = parquet.read_table(side / "part-0000.parquet").slice(0, len(rows))
    place = table.column_names.index("sample_id")
    made = table.set_column(place, "sample_id", pa.array(map(str, rows), pa.string()))
    path = side / f"part-{number:04d}.parquet"
    parquet.write_table(made, path, compression="zstd", row_group_size=4096, write_page_checksum=True)
