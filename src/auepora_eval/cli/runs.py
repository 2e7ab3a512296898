"""``auepora runs``: list, filter, tag and delete stored runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from ..core.results import Results, display_name
from ..core.types import MetricResult
from ..render.short import rounded
from ..render.tables import table
from ..store.records import RunRecord, RunStatus, plan_conventions
from ..store.runs import DESIGNS, all_result_summaries, count_all_outputs, decisions
from .console import echo_err, json_text, quiet_option
from .options import complete_run, open_store, store_option, write_out


def run_dict(record: RunRecord, counts: tuple[int, int]) -> dict[str, Any]:
    """A run as a JSON-compatible dict, with the ``counts`` of its outputs in the store."""
    done, failed = counts
    return {
        "run_id": record.run_id,
        "name": record.name,
        "status": record.status.value,
        "message": record.message,
        "created_at": record.created_at.isoformat(),
        "finished_at": None if record.finished_at is None else record.finished_at.isoformat(),
        "dataset": record.dataset_name,
        "fingerprint": record.fingerprint,
        "num_samples": record.num_samples,
        "repeats": record.repeats,
        "outputs": done,
        "failed": failed,
        "commit": record.commit,
        "config": record.config,
        "usage": record.usage,
        "tags": list(record.tags),
        "version": record.version,
        "plan": record.plan,
    }


def format_time(moment: datetime | None) -> str:
    """A time as text, in UTC."""
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}Z"


STATUSES = ("running", "finished", "stopped", "failed", "interrupted")


@click.group(name="runs", invoke_without_command=True)
@click.option("--name", help="Only runs with this name.")
@click.option("--tag", help="Only runs with this tag.")
@click.option("--status", type=click.Choice(STATUSES), help="Only runs with this status.")
@click.option("--dataset", help="Only runs on this dataset.")
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Maximum number of runs."
)
@click.option("--decisions", "show_decisions", is_flag=True, help="List what each dataset has decided instead.")
@store_option
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(
    context: click.Context,
    name: str | None,
    tag: str | None,
    status: str | None,
    dataset: str | None,
    limit: int,
    show_decisions: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """List the stored runs, newest first; tag or delete them.

    Refer to a run by its id or a prefix of it, by its name (the latest of that name), or as latest, latest~1, ...

    \b
    auepora runs
    auepora runs --tag nightly --status finished --json
    auepora runs --decisions --dataset dev
    auepora runs tag latest good
    auepora runs delete run_01HX
    """
    context.obj = store
    if context.invoked_subcommand is not None:
        return
    if show_decisions:
        if name or tag or status:
            raise click.UsageError("--decisions goes with --dataset and --limit")
        _list_decisions(store, dataset, limit, as_json=as_json)
        return
    with open_store(store) as found:
        records = found.runs(name=name, tag=tag, status=status, dataset=dataset, limit=limit)
        run_ids = [record.run_id for record in records]
        counts = count_all_outputs(found, run_ids)
        summaries = all_result_summaries(found, run_ids)
    if as_json:
        listed = []
        for record, result in zip(records, _main_results(records, summaries), strict=True):
            main = None if result is None else {"name": result.name, "value": result.value}
            listed.append({**run_dict(record, counts[record.run_id]), "main_metric": main})
        write_out(json_text(listed), None)
    elif records:
        write_out(_runs_table(records, counts, _main_values(_main_results(records, summaries))), None)
    else:
        echo_err("no such run" if name or tag or status or dataset else "no runs yet")


def _list_decisions(store: str | None, dataset: str | None, limit: int, *, as_json: bool) -> None:
    """The comparisons, sweeps, gates and sequential tests that were decided on each dataset, newest first."""
    with open_store(store) as found:
        records = found.runs()
        recorded = decisions(found)
    names = {record.fingerprint: record.dataset_name for record in reversed(records)}
    labels = {record.run_id: f"{record.name} ({record.run_id})" for record in records}
    listed = [
        {
            "recorded_at": decision.recorded_at.isoformat(),
            "kind": decision.kind,
            "dataset": names.get(decision.fingerprint),
            "fingerprint": decision.fingerprint,
            "runs": list(decision.runs),
            "metrics": list(decision.metrics),
            "verdicts": decision.body.get("verdicts") or {},
        }
        for decision in reversed(recorded)
        if dataset is None or names.get(decision.fingerprint) == dataset
    ][:limit]
    if as_json:
        write_out(json_text(listed), None)
    elif listed:
        write_out(_decisions_table(listed, labels), None)
    else:
        echo_err("no decisions yet: `auepora compare` and gates against a baseline record them")


def _decisions_table(listed: Sequence[Mapping[str, Any]], labels: Mapping[str, str]) -> str:

    rows = []
    for decision in listed:
        dataset, kind = decision["dataset"] or decision["fingerprint"][:12], decision["kind"]
        runs = ", ".join(labels.get(run, run) for run in decision["runs"])
        verdicts = ", ".join(_verdict_text(name, found) for name, found in decision["verdicts"].items())
        undecided = "not decided yet" if kind in DESIGNS else ""
        moment = datetime.fromisoformat(decision["recorded_at"])
        rows.append([format_time(moment), dataset, kind, runs, verdicts or undecided])
    return table(rows, headers=["recorded", "dataset", "kind", "runs", "verdicts"])


def _verdict_text(name: str, found: Any) -> str:
    """A verdict, or the runs that no other is better than."""
    return f"{name} {found if isinstance(found, str) else 'best ' + ' = '.join(found)}"


def _main_results(records: Sequence[RunRecord], summaries: Mapping[str, Results]) -> list[MetricResult | None]:
    """The main metric of each run; ``None`` where no metric has a value."""
    from ..compare.metrics import equal_metrics, main_metric_name, rank_metrics

    equal = equal_metrics(records, summaries)
    shown = []
    for record in records:
        results = summaries.get(record.run_id, ())
        name = main_metric_name(record, rank_metrics(record, results), equal)
        shown.append(next((result for result in results if result.name == name), None))
    return shown


def _main_values(shown: Sequence[MetricResult | None]) -> list[str]:
    """The main metric of each run with its value, and the number of samples where it differs from that of others."""
    from ..compare.metrics import size_notes

    values = []
    for result, size in zip(shown, size_notes(shown), strict=True):
        note = size and f" ({size})"
        value = "" if result is None else f"{display_name(result)} {rounded(result.value, result.interval)}{note}"
        values.append(value)
    return values


def _runs_table(records: Sequence[RunRecord], counts: Mapping[str, tuple[int, int]], main_values: Sequence[str]) -> str:
    from ..render.blocks import Row, TableColumn, simple_table, without_empty_columns
    from ..render.terminal import blocks_text

    rows: list[Row] = []
    for record, main_value in zip(records, main_values, strict=True):
        done, failed = counts[record.run_id]
        status = f"{record.status_text}, no usable answer" if 0 < failed == done else record.status_text
        expected = record.num_samples * record.repeats
        outputs = str(done) if done == expected else f"{done} of {expected}"
        rows.append(
            [
                record.run_id,
                record.name,
                status,
                format_time(record.created_at),
                record.dataset_name,
                outputs,
                str(failed or ""),
                main_value,
                ", ".join(record.tags),
            ]
        )
    headers = ["run", "name", "status", "began", "dataset", "outputs", "failed", "main metric", "tags"]
    columns = [TableColumn(title, number=title in ("outputs", "failed")) for title in headers]
    return blocks_text([without_empty_columns(simple_table(columns, rows))])


@command.command(name="tag")
@click.argument("run", shell_complete=complete_run)
@click.argument("tags", nargs=-1, required=True)
@click.option("--remove", is_flag=True, help="Remove the tags instead.")
@store_option
@click.pass_context
def tag_command(context: click.Context, run: str, tags: tuple[str, ...], remove: bool, store: str | None) -> None:
    """Add TAGS to RUN, or remove them.

    \b
    auepora runs tag latest good release-2
    auepora runs tag latest good --remove
    """
    with open_store(store or context.obj) as found:
        record = found.find(run)
        (found.untag if remove else found.tag)(record.run_id, *tags)
        record = found.find(record.run_id)
        write_out(f"{record.run_id}: {', '.join(record.tags) or 'no tags'}", None)


@command.command(name="delete")
@click.argument("runs", nargs=-1, required=True, shell_complete=complete_run)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@store_option
@click.pass_context
def delete_command(context: click.Context, runs: tuple[str, ...], yes: bool, store: str | None) -> None:
    """Delete RUNS with their outputs and results, and with samples and texts that no other run uses.

    \b
    auepora runs delete latest~3
    auepora runs delete run_01HX run_01HY --yes
    """
    with open_store(store or context.obj) as found:
        records = {record.run_id: record for record in map(found.find, runs)}
        for record in records.values():
            if record.status is RunStatus.RUNNING:
                raise click.UsageError(f"{record.run_id} is still being made by process {record.process}")
            echo_err(f"{record.run_id}  {record.name}  {format_time(record.created_at)}")
        if not yes:
            click.confirm(f"delete {len(records)} run{'s' if len(records) != 1 else ''}?", abort=True, err=True)
        found.delete(list(records))
        echo_err(f"deleted {len(records)}")


def gold_note(records: Iterable[RunRecord]) -> tuple[str, str]:
    """How the gold of runs was matched, if not by id."""
    from ..features.matching import MATCH_WORDS

    ways = {plan_conventions(record).match for record in records}
    return "gold by", ", ".join(MATCH_WORDS[way] for way in sorted(ways - {"id"}))
