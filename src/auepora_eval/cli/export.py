"""``auepora export``: a stored run as plain files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .console import echo, quiet_option
from .judge_options import judgement_lines
from .options import complete_run, open_store, raw_csv, raw_option, run_dict, store_option

if TYPE_CHECKING:
    from ..store.records import RunRecord
    from ..store.runs import RunStore


JUDGEMENTS = "judgements.jsonl"


@click.command(name="export")
@click.argument("run", shell_complete=complete_run)
@click.argument("folder", type=click.Path(), required=False)
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@click.option("--parquet", is_flag=True, help="Also write results.parquet and scores.parquet; needs pyarrow.")
@store_option
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print the names of the files as JSON.")
@raw_option
def command(run: str, folder: str | None, force: bool, parquet: bool, store: str | None, as_json: bool) -> None:
    """Write the stored RUN as plain files into FOLDER (default: a folder with the id of the run).

    dataset.jsonl and outputs.jsonl can be scored with `auepora score`. results.json has all values and scores,
    results.csv one row per metric and slice, scores.csv one row per sample, run.json the metadata of the run. Each
    repeat has its own outputs file. judgements.jsonl has the judgements, if there are any; a plan replays it as a
    resource: {recorded: judgements.jsonl}. With --parquet, both tables are also written as Parquet; scores.parquet has
    the outcome of each sample.

    \b
    auepora export latest
    auepora export nightly exported/ --force
    """
    from ..runtime.files import write_lines

    with open_store(store) as found:
        record = found.find(run)
        target = Path(folder or record.run_id)
        names = ["dataset.jsonl", *_output_names(record), "results.json", "results.csv", "scores.csv", "run.json"]
        names += ["results.parquet", "scores.parquet"] if parquet else []
        if any(found.judgement_counts(record.run_id)):
            names.append(JUDGEMENTS)
        there = [name for name in names if (target / name).exists()]
        if there and not force:
            raise click.UsageError(f"{target / there[0]} exists; --force overwrites it")
        target.mkdir(parents=True, exist_ok=True)
        _write(found, record, target, parquet=parquet)
        if JUDGEMENTS in names:
            write_lines(target / JUDGEMENTS, judgement_lines(found, record))
    paths = [str(target / name) for name in names]
    echo(json.dumps(paths) if as_json else "\n".join(paths))


def _output_names(record: RunRecord) -> list[str]:
    return ["outputs.jsonl", *(f"outputs-{repeat}.jsonl" for repeat in range(1, record.repeats))]


def _write(store: RunStore, record: RunRecord, target: Path, *, parquet: bool) -> None:
    from ..io.jsonl import save_jsonl_dataset, save_jsonl_outputs
    from ..render.tables import results_csv, save_parquet, scores_csv
    from ..render.terminal import progress
    from ..runtime.files import write_lines

    with progress(f"writing {target}"):
        results = store.results(record.run_id)
        if parquet:  # first, because pyarrow may be missing
            save_parquet(results, target / "results.parquet")
            save_parquet(results, target / "scores.parquet", per_query=True)
        save_jsonl_dataset(store.samples(record.run_id), target / "dataset.jsonl")
        for repeat, name in enumerate(_output_names(record)):
            rows = ((row.sample_id, row.output) for row in store.outputs(record.run_id, repeat=repeat))
            save_jsonl_outputs(rows, target / name)
        texts = {
            "results.json": results.to_json(per_query=True),
            "results.csv": results_csv(results, raw=raw_csv()),
            "scores.csv": scores_csv(results, raw=raw_csv()),
            "run.json": json.dumps(run_dict(record, store.counts(record.run_id)), indent=2, ensure_ascii=False),
        }
        for name, text in texts.items():
            write_lines(target / name, [text.encode()])
