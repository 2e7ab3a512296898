"""``auepora compare``: compare two or more stored runs, or TREC runs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from ..errors import StoreError
from ..render.terminal import progress
from ..store.records import RunRecord
from ..store.runs import RunStore
from .console import echo_err, quiet_option
from .help_pages import Command
from .options import (
    ALL_TABLES,
    all_option,
    complete_run,
    find_samples,
    is_short,
    open_store,
    output_format,
    parse_specs,
    raw_csv,
    raw_option,
    refuse_input_as_output,
    render_page,
    samples_option,
    store_option,
    warn_unmatched_ids,
    write_out,
)

if TYPE_CHECKING:
    from ..compare.queries import QueryChange
    from ..compare.runs import Leaderboard
    from ..compare.types import CompareReport
    from ..io.sample_sets import SampleSet

MAX_SHOWN = 20
"""Number of queries of a kind that are listed in the terminal; JSON has all."""


_NEXT = [ALL_TABLES, ("what got worse", "the same command with --why")]
"""What can be done after a comparison."""


@click.command(name="compare", cls=Command)
@click.argument("runs", nargs=-1, required=True, shell_complete=complete_run)
@click.option(
    "--delta",
    "deltas",
    multiple=True,
    metavar="NUMBER|METRIC=NUMBER",
    help="Largest difference that counts as equal, for all metrics or for one; repeatable.",
)
@click.option("-m", "--metric", "metrics", multiple=True, metavar="NAME", help="Only this metric; repeatable.")
@click.option(
    "--primary",
    multiple=True,
    metavar="NAME",
    help="Metric that decides the verdict; repeatable. Default: the primary metrics of the plan, else all.",
)
@click.option(
    "--guardrail",
    "guardrails",
    multiple=True,
    metavar="METRIC=MARGIN",
    help="Metric that must not get worse by more than this; repeatable. Default: the guardrails of the plan.",
)
@click.option(
    "--adjust",
    type=click.Choice(["max-t", "holm", "tukey"]),
    default="max-t",
    show_default=True,
    help="Adjustment of p-values for several metrics; tukey needs three runs or more.",
)
@click.option("--qrels", type=click.Path(), help="RUNS are TREC run files: score them with these qrels and compare.")
@click.option("--golden", type=click.Path(), help="Golden queries to use instead of the samples of the runs.")
@click.option("--corpus", type=click.Path(), help="JSONL with the documents that golden answers may cite.")
@click.option("--strict-chunker-version", is_flag=True, help="Refuse runs with different chunker versions.")
@click.option("--other-dataset", is_flag=True, help="Compare over the common ids of different datasets.")
@click.option("--why", is_flag=True, help="Show for each query that got worse what changed.")
@click.option("--why-metric", metavar="NAME", help="With --why: the metric that decides whether a query got worse.")
@click.option("--report", "runs_dir", type=click.Path(), help="Also write FOLDER/<run>/report.md.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the bootstrap and the permutation test.")
@samples_option
@store_option
@quiet_option
@all_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-o", "--output", type=click.Path(), help="Write to this file (.json, .csv, .md, else the tables).")
@raw_option
def command(
    runs: tuple[str, ...],
    deltas: tuple[str, ...],
    metrics: tuple[str, ...],
    primary: tuple[str, ...],
    guardrails: tuple[str, ...],
    adjust: Literal["max-t", "holm", "tukey"],
    qrels: str | None,
    golden: str | None,
    corpus: str | None,
    strict_chunker_version: bool,
    other_dataset: bool,
    why: bool,
    why_metric: str | None,
    runs_dir: str | None,
    seed: int,
    samples: str | None,
    store: str | None,
    every: bool,
    as_json: bool,
    output: str | None,
) -> None:
    """Compare RUNS on the samples they share. The first run is A, the second B; differences are B - A.

    RUNS are stored runs or, with --qrels, TREC run files. TREC run files are scored like trec_eval and not stored.

    Each metric gets its difference with a 95 % interval, an adjusted p-value and a verdict: better, worse,
    inconclusive or, with --delta, equal. Three runs or more make a leaderboard. The exit code is 0 whatever the
    verdict; use `auepora gate` in a build.

    \b
    auepora compare baseline latest
    auepora compare latest~1 latest --delta 0.02 --delta mrr=0.01 --why
    auepora compare baseline latest --guardrail hallucination_rate=0.02
    auepora compare one two three -m recall@5 --adjust tukey
    auepora compare baseline latest --samples refunds
    auepora compare --qrels qrels.txt baseline.run new.run -m map -m ndcg@10
    """
    from ..compare.guardrails import parse_guardrails
    from ..compare.verdicts import parse_margin
    from ..store.connect import default_store

    if len(runs) < 2:
        raise click.UsageError("give two runs or more; `auepora runs` lists them")
    if len(runs) == 2 and adjust == "tukey":
        raise click.UsageError("--adjust tukey goes with three runs or more")
    if len(runs) > 2 and (why or golden or corpus or strict_chunker_version or runs_dir or guardrails):
        raise click.UsageError(
            "--why, --golden, --corpus, --guardrail, --strict-chunker-version and --report go with two runs"
        )
    if why_metric is not None and not why:
        raise click.UsageError("--why-metric goes with --why")
    no_csv = "a CSV contains only metrics; with --why write .json, .md or a table" if why else None
    form = output_format(output, as_json=as_json, no_csv=no_csv)
    if qrels is not None and (store or golden or samples):
        raise click.UsageError(
            "with --qrels nothing is stored and the qrels are the gold: leave out --store, --golden and --samples"
        )
    chosen: dict[str, Any] = {
        "delta": parse_margin(deltas),
        "metrics": None if qrels is not None else metrics or None,  # TREC runs are scored with these metrics only
        "primary": primary or None,
        "guardrails": parse_guardrails(guardrails) or None,
        "other_dataset": other_dataset,
        "seed": seed,
        "samples": find_samples(samples, default_store(store)),
    }
    with _open_runs(runs, qrels, metrics, store=store, output=output, corpus=corpus) as (found, records):
        from ..compare.runs import Leaderboard, build_leaderboard, compare_runs

        if len(records) > 2:
            board, report = build_leaderboard(found, records, adjust=adjust, **chosen).record_in(found, records), None
        else:
            assert adjust != "tukey"
            report = compare_runs(
                records[0].run_id,
                records[1].run_id,
                store=found,
                golden=golden,
                corpus=corpus,
                strict_chunker_version=strict_chunker_version,
                adjust=adjust,
                **chosen,
            )
            board = Leaderboard.of_pair(report, [record.name for record in records])
        causes = _changes(found, records, why_metric, chosen["samples"], chosen["primary"]) if why else {}
        text = _render(board, report, causes, form)
        if is_short(form, output, every=every):
            from ..compare.short import comparison_short

            commands = _NEXT[:1] if why or report is None else _NEXT
            text = comparison_short(found, records, board, report=report, commands=commands, **causes).text()
    if runs_dir is not None:
        from ..compare.rendering import write_report

        assert report is not None
        first, second = board.names
        echo_err(f"wrote {write_report(report, runs_dir, names=(first, second), **causes)}")
    write_out(text, output)


def _render(board: Leaderboard, report: CompareReport | None, causes: dict[str, Any], form: str) -> str:
    """The comparison in a format; ``causes`` are the options of ``comparison_page`` for the queries that got worse."""
    from ..compare.rendering import MAX_LISTED, comparison_csv, comparison_page

    if form == "csv":
        return comparison_csv(board, raw=raw_csv())
    document = board.to_dict() if report is None else report.to_dict()
    limit = MAX_LISTED if form == "markdown" else MAX_SHOWN
    page = partial(comparison_page, board, report, limit=limit, **causes)
    return render_page(form, document | _causes_to_dict(**causes), page)


def _changes(
    store: RunStore,
    records: Sequence[RunRecord],
    metric: str | None,
    samples: SampleSet | None,
    primary: Sequence[str] | None,
) -> dict[str, Any]:
    """The queries that got worse from the first run to the second, and the metric that decides that."""
    from ..compare.metrics import main_metric
    from ..compare.queries import explain_changes

    first, second = records
    results = [store.results(record.run_id) for record in records]
    judged_by = main_metric(first, results[0], second, results[1], metric, primary=primary).name
    changes = explain_changes(store, first, second, metric=judged_by)
    if samples is not None:
        changes = [change for change in changes if change.sample_id in frozenset(samples.ids)]
    return {"changes": changes, "judged_by": judged_by}


def _causes_to_dict(changes: Sequence[QueryChange] | None = None, judged_by: str = "") -> dict[str, Any]:
    return {} if changes is None else {"judged_by": judged_by, "changes": [asdict(change) for change in changes]}


@contextmanager
def _open_runs(
    runs: Sequence[str],
    qrels: str | None,
    metrics: Sequence[str],
    *,
    store: str | None,
    output: str | None,
    corpus: str | None,
) -> Iterator[tuple[RunStore, list[RunRecord]]]:
    """The store and the records of the runs to compare: stored runs, or TREC files scored with qrels."""
    if qrels is not None:
        refuse_input_as_output(output, [qrels, *runs])
        with scored_trec_runs(qrels, runs, metrics) as scored:
            yield scored
        return
    with open_store(store, output=output) as found:
        records = [found.find(run) for run in runs]
        _store_aggregates(found, records, corpus)
        yield found, records


def _store_aggregates(store: RunStore, records: Sequence[RunRecord], corpus: str | None) -> None:
    """Store the golden-query metrics of runs that lack them, if the store is writable."""
    from ..compare.golden import store_missing_aggregate

    with suppress(StoreError):  # a read-only store is enough for a comparison
        for record in records:
            store_missing_aggregate(store, record, corpus=corpus)


# --- TREC run files, scored with qrels into a temporary store --------------------------------------------------------

DEFAULT_METRICS = ("map", "ndcg@10", "mrr", "precision@10", "recall@100")
"""Metrics of TREC runs when none are named."""


@contextmanager
def scored_trec_runs(
    qrels: str, files: Sequence[str], metrics: Sequence[str]
) -> Iterator[tuple[RunStore, list[RunRecord]]]:
    """A temporary store with one scored run per file, in the order of the files, with the conventions ``trec``."""
    from ..core.conventions import Conventions
    from ..engine.evaluate import resolve_metrics
    from ..io.join import load_dataset, load_outputs
    from ..plan.model import SavedOutputs
    from ..runs.run import RunRequest, start_run
    from ..runtime.files import plain_stem

    rules = Conventions.of("trec")
    specs = parse_specs(metrics or DEFAULT_METRICS)
    chosen = resolve_metrics(specs, rules)  # report a misspelt metric before reading the files
    with tempfile.TemporaryDirectory(prefix="auepora-") as folder, RunStore.open(Path(folder) / "runs.sqlite") as store:
        with progress(f"reading {qrels}"):
            samples = list(load_dataset(qrels, "trec"))
        ids = [sample.sample_id for sample in samples]
        records: list[RunRecord] = []
        names = [plain_stem(Path(file)) for file in files]
        if len(set(names)) < len(set(files)):  # input.X.gz and input.Y.gz
            names = [Path(file).name for file in files]
        for name, file in zip(names, files, strict=True):
            with progress(f"reading and scoring {file}"):
                outputs = load_outputs(file, "trec")
                known = {sample_id: outputs[sample_id] for sample_id in ids if sample_id in outputs}
                request = RunRequest(
                    name=name,
                    dataset_name=plain_stem(Path(qrels)),
                    samples=samples,
                    metrics=chosen,
                    conventions=rules,
                    outputs=SavedOutputs(known.keys(), known.items),
                    plan={
                        "dataset": {"trec": qrels},
                        "outputs": {"trec": file},
                        "conventions": {"name": rules.name},
                        "metrics": list(specs),
                    },
                )
                records.append(start_run(request, store).record)
            missing = [sample_id for sample_id in ids if sample_id not in outputs]
            unknown = [output for output in outputs if output not in known]
            warn_unmatched_ids(missing, unknown, total=len(ids), conventions=rules)
        yield store, records
