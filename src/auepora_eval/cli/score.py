"""``auepora score``: saved outputs, or a TREC run, to numbers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..core.results import Results

__all__ = ["command"]

PRESETS = ("auto", "auepora", "paper", "paper-positives", "golden", "client", "trec")


@click.command(name="score")
@click.argument("dataset", required=False, type=click.Path())
@click.argument("outputs", required=False, type=click.Path())
@click.option("--qrels", type=click.Path(), help="TREC judgements, instead of DATASET.")
@click.option("--run", "run_file", type=click.Path(), help="TREC run, instead of OUTPUTS.")
@click.option(
    "-m", "--metric", "metrics", multiple=True, metavar="SPEC", help="A metric, such as recall@5; repeatable."
)
@click.option(
    "--conventions",
    default="auto",
    show_default=True,
    type=click.Choice(PRESETS),
    help="Whose definitions to follow; auto is trec for a TREC run and auepora otherwise.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--per-query", is_flag=True, help="With --json: the score of every sample too.")
@click.option("-o", "--output", type=click.Path(), help="Write to this file instead of printing.")
def command(
    dataset: str | None,
    outputs: str | None,
    qrels: str | None,
    run_file: str | None,
    metrics: tuple[str, ...],
    conventions: str,
    as_json: bool,
    per_query: bool,
    output: str | None,
) -> None:
    """Score saved OUTPUTS against a DATASET (JSON lines), or a TREC run against its judgements.

    Without -m every metric that the data supports is computed. Results go to stdout, remarks to stderr.

    \b
    auepora score data.jsonl outputs.jsonl
    auepora score data.jsonl outputs.jsonl -m recall@5 -m rougeL_answer --json
    auepora score --qrels qrels.txt --run run.txt -m map -m ndcg@10
    """
    from .output import results_table, write_out

    trec = qrels is not None or run_file is not None
    if trec and (dataset is not None or qrels is None or run_file is None):
        raise click.UsageError("give --qrels and --run together and nothing else, or DATASET and OUTPUTS")
    if not trec and (dataset is None or outputs is None):
        raise click.UsageError("give DATASET and OUTPUTS, or --qrels and --run")
    if per_query and not as_json:
        raise click.UsageError("--per-query goes with --json")
    if conventions == "auto":
        from ..core.conventions import auto_conventions

        conventions = auto_conventions(judged_pool=trec).name
        if not metrics or trec:
            click.echo(f"conventions: {conventions}", err=True)
    if qrels is not None and run_file is not None:
        results = _score_trec(qrels, run_file, metrics, conventions)
    else:
        assert dataset is not None
        assert outputs is not None
        results = _score_jsonl(dataset, outputs, metrics, conventions)
    write_out(results.to_json(per_query=per_query) if as_json else results_table(results), output)


def _score_trec(qrels_path: str, run_path: str, metrics: tuple[str, ...], conventions: str) -> Results:
    from ..core.engine import evaluate_rankings, resolve_metrics
    from ..core.suggest import specs_for
    from ..io.trec import load_qrels, load_run, trec_rankings

    chosen = list(metrics) or specs_for({"relevant_docs"}, {"retrieved"}, conventions=conventions)
    resolve_metrics(chosen, conventions)  # a misspelt metric should not wait for the files to be read
    qrels, run = load_qrels(qrels_path), load_run(run_path)
    ids, gold, ranked = trec_rankings(qrels, run)
    _report_alignment(
        missing=sum(ranking is None for ranking in ranked), unknown=len(run.keys() - qrels.keys()), total=len(ids)
    )
    return evaluate_rankings(gold, ranked, chosen, conventions=conventions, ids=ids)


def _score_jsonl(dataset_path: str, outputs_path: str, metrics: tuple[str, ...], conventions: str) -> Results:
    from ..core.engine import evaluate, resolve_metrics
    from ..core.suggest import suggested_metrics
    from ..io.align import align_outputs
    from ..io.jsonl import load_jsonl_dataset, load_jsonl_outputs

    if metrics:
        resolve_metrics(list(metrics), conventions)
    samples = list(load_jsonl_dataset(dataset_path))
    aligned = align_outputs(samples, load_jsonl_outputs(outputs_path))
    _report_alignment(missing=len(aligned.missing), unknown=len(aligned.unknown), total=len(samples))
    chosen = list(metrics) or suggested_metrics(samples, aligned.outputs, conventions=conventions)
    with _progress(len(samples)) as advance:
        return evaluate(samples, aligned.outputs, chosen, conventions=conventions, progress=advance)


def _report_alignment(*, missing: int, unknown: int, total: int) -> None:
    if missing:
        click.echo(f"Warning: {missing} of {total} samples have no output", err=True)
    if unknown:
        click.echo(f"Warning: {unknown} outputs belong to no sample and are left out", err=True)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None] | None]:
    """A progress bar on stderr where someone is watching and there is enough to wait for."""
    if total < 5_000 or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("scoring", total=total)

        def advance(done: int) -> None:
            bar.advance(task, done)

        yield advance
