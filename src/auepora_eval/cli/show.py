"""``auepora show``: show a stored run, its failures or one of its samples."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from .console import quiet_option
from .judge_options import judge_failures, judge_failures_text, judgements_text, sample_judgements, usage_text
from .options import complete_run, conventions_label, format_time, open_store, run_dict, store_option

if TYPE_CHECKING:
    from ..core.results import Results
    from ..core.types import EvaluationSample, SystemOutputs
    from ..store.records import RunRecord
    from ..store.runs import RunStore


MAX_SHOWN = 20
"""Number of failures that are listed."""
MAX_CHARACTERS = 400
"""Number of characters of a text that are shown."""


@click.command(name="show")
@click.argument("run", default="latest", shell_complete=complete_run)
@click.option("-m", "--metric", "metrics", multiple=True, metavar="NAME", help="Only this metric; repeatable.")
@click.option("--all", "every", is_flag=True, help="Also show earlier results with other signatures.")
@click.option("--failures", is_flag=True, help="Show failures of the system and of judges, with reasons.")
@click.option(
    "--sample",
    "sample_id",
    metavar="ID",
    help="Show one sample: question, gold, output, scores, judgements.",
)
@click.option("--per-query", is_flag=True, help="With --json: the score of every sample too; with .csv: those alone.")
@store_option
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-o", "--output", type=click.Path(), help="Write to this file (.json, .csv, .md, else the table).")
def command(
    run: str,
    metrics: tuple[str, ...],
    every: bool,
    failures: bool,
    sample_id: str | None,
    per_query: bool,
    store: str | None,
    as_json: bool,
    output: str | None,
) -> None:
    """Show the stored RUN, given by its id or a prefix of it, by name, or as latest (the default), latest~1, ...

    \b
    auepora show
    auepora show latest~1 --json --per-query
    auepora show nightly --failures
    auepora show nightly --sample q17
    """
    from ..store.runs import result_summaries
    from .options import output_format, require_per_query, write_out

    if failures and sample_id is not None:
        raise click.UsageError("give --failures or --sample, not both")
    form = "json" if as_json else output_format(output)
    require_per_query(per_query, form)
    with open_store(store, output=output) as found:
        record = found.find(run)
        if sample_id is not None:
            document = _sample(found, record, sample_id)
            write_out(
                json.dumps(document, indent=2, ensure_ascii=False) if form == "json" else _sample_text(document), output
            )
            return
        if failures:
            rows, unjudged = _failures(found, record), judge_failures(found, record)
            unjudged += _measure_failures(found, record, unjudged)
            if form == "json":
                write_out(json.dumps([*rows, *unjudged], indent=2, ensure_ascii=False), output)
            else:
                parts = [_failures_text(rows)] if rows or not unjudged else []
                not_judged = judge_failures_text(unjudged, shown=MAX_SHOWN, width=MAX_CHARACTERS)
                write_out("\n\n".join([*parts, *(["\n".join(not_judged)] if not_judged else [])]), output)
            return
        read = found.results if per_query else partial(result_summaries, found)
        results = read(record.run_id, every_signature=every)
        chosen = _select_metrics(results, metrics)
        if form == "json":
            document = {**chosen.to_dict(per_query=per_query), "run": run_dict(record, found.counts(record.run_id))}
            write_out(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False), output)
        elif form == "csv":
            from ..render.tables import results_csv, scores_csv

            write_out(scores_csv(chosen) if per_query else results_csv(chosen), output)
        else:
            write_out(run_report(found, record, chosen, markdown=form == "markdown"), output)


def _select_metrics(results: Results, names: tuple[str, ...]) -> Results:
    from ..core.results import Results

    for name in names:
        results.by_name[name]  # an unknown name raises an error with a suggestion
    kept = [one for one in results if not names or one.name in names]
    return Results(kept, sample_ids=results.sample_ids, run_id=results.run_id)


def run_report(store: RunStore, record: RunRecord, results: Results, *, markdown: bool = False) -> str:
    """A heading with the metadata of the run, and its results as tables."""
    from ..render.tables import results_markdown, results_table, slices_tables

    parts = [_markdown_heading(store, record) if markdown else "\n".join(_heading(store, record))]
    if results:
        parts.append(results_markdown(results) if markdown else results_table(results))
        parts += slices_tables(results, markdown=markdown)
    else:
        parts.append("no results yet: the run did not come to scoring; `auepora run PLAN --resume` goes on with it")
    if record.plan.get("conventions"):
        parts.append(f"conventions of its plan: {conventions_label(record)}")
    return "\n\n".join(parts)


def _markdown_heading(store: RunStore, record: RunRecord) -> str:
    """``_heading`` as a Markdown heading and a list."""
    from ..render.markdown import escape_markdown

    lines = [line.split(maxsplit=1) for line in _heading(store, record)]
    items = [
        f"- {escape_markdown(' '.join(parts) if len(parts) < 2 else f'{parts[0]}: {parts[1]}')}" for parts in lines
    ]
    return "\n".join([f"# {escape_markdown(record.name)}", "", *items])


def _heading(store: RunStore, record: RunRecord) -> list[str]:
    done, failed = store.counts(record.run_id)
    expected = record.num_samples * record.repeats
    repeats = f" x {record.repeats} repeats" if record.repeats > 1 else ""
    outputs = f"{done} of {expected} outputs" if done != expected else f"{done} outputs"
    lines = [
        f"run      {record.run_id}  {record.name}" + (f"  [{', '.join(record.tags)}]" if record.tags else ""),
        f"dataset  {record.dataset_name}, {record.num_samples} samples{repeats}",
        f"status   {record.status.value}, {outputs}, {failed} failed; began {format_time(record.created_at)}"
        + (f", ended {format_time(record.finished_at)}" if record.finished_at else ""),
    ]
    if record.message:
        lines.append(f"         {record.message}")
    if record.commit:
        commit, plus, _ = record.commit.partition("+")
        lines.append(f"commit   {commit[:12]}{' with uncommitted changes' if plus else ''}")
    if record.config:
        lines.append(f"config   {', '.join(f'{key} {_short(value)}' for key, value in record.config.items())}")
    if record.usage:
        lines.append(f"judging  {usage_text(record.usage['total'])}")
    return lines


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"


def _failures(store: RunStore, record: RunRecord) -> list[dict[str, Any]]:
    failed = store.failed(record.run_id)
    return [
        {"sample_id": row.sample_id, "repeat": row.repeat, "error": row.output.error}
        for row in store.outputs(record.run_id, texts=False)
        if (row.position, row.repeat) in failed
    ]


def _measure_failures(store: RunStore, record: RunRecord, known: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Failed measurements that are not failures of a judge."""
    ids, reported = store.sample_ids(record.run_id), {(row["sample_id"], row["metric"]) for row in known}
    hint = f"`auepora explain {record.name} METRIC --query ID` may show more"
    return [
        {"sample_id": sample_id, "repeat": 0, "metric": one.name, "error": reason, "message": hint, "raw": None}
        for one in store.results(record.run_id)
        for sample_id, outcome in zip(ids, one.outcomes or (), strict=False)
        for status, _, reason in [outcome.partition(":")]
        if status == "measure_failed" and (sample_id, one.name) not in reported
    ]


def _failures_text(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "no failures"
    counts: dict[str, int] = {}
    for row in rows:
        reason = str(row["error"]).partition(":")[0]
        counts[reason] = counts.get(reason, 0) + 1
    lines = [f"{len(rows)} failed: " + ", ".join(f"{reason} {n}" for reason, n in counts.items()), ""]
    for row in rows[:MAX_SHOWN]:
        again = f" (repeat {row['repeat']})" if row["repeat"] else ""
        lines.append(f"{row['sample_id']}{again}: {_short(' '.join(str(row['error']).split()))}")
    if len(rows) > MAX_SHOWN:
        lines.append(f"... and {len(rows) - MAX_SHOWN} more; --json has all")
    return "\n".join(lines)


def _sample(store: RunStore, record: RunRecord, sample_id: str) -> dict[str, Any]:
    from ..errors import BadValueError, did_you_mean
    from ..features.hits import has_spans
    from ..io.codec import encode_output, encode_sample

    ids = store.sample_ids(record.run_id)
    if sample_id not in ids:
        raise BadValueError(f"{record.run_id} has no sample '{sample_id}'{did_you_mean(sample_id, ids)}")
    position = ids.index(sample_id)
    sample: EvaluationSample = store.samples(record.run_id)[position]
    outputs: list[SystemOutputs] = [row.output for row in store.outputs(record.run_id, position=position)]
    results = store.results(record.run_id)
    scores = {one.name: one.scores[position] for one in results if one.scores is not None}
    outcomes = {
        one.name: one.outcomes[position]
        for one in results
        if one.outcomes is not None and one.outcomes[position] != "scored"
    }
    return {
        "run_id": record.run_id,
        "sample": json.loads(encode_sample(sample)),
        "outputs": [json.loads(encode_output(sample_id, one)) for one in outputs],
        "scores": scores,
        "outcomes": outcomes,
        "judgements": sample_judgements(store, record, position),
        **({"gold_ranks": [_gold_ranks(sample, one) for one in outputs]} if has_spans(sample) else {}),
    }


def _gold_ranks(sample: EvaluationSample, output: SystemOutputs) -> list[dict[str, Any]]:
    """The rank at which an output hits each gold document, by id or by span."""
    from ..features.hits import gold_documents, gold_ranks

    gold = gold_documents(sample)
    ranks = gold_ranks(gold, [item.doc for item in output.retrieved])
    return [{"doc_id": one.doc_id, "rank": at.rank, "by": at.by} for one, at in zip(gold, ranks, strict=True)]


def _sample_text(document: dict[str, Any]) -> str:
    from ..render.tables import format_value, table

    sample = document["sample"]
    gold = {_id(one) for one in sample.get("relevant_docs") or ()}
    lines = [f"{sample['sample_id']}  {sample['query']}", ""]
    lines.append(f"gold       {', '.join(sorted(gold)) or 'none'}")
    reference = sample.get("reference_answer")
    if reference is not None:
        lines.append(f"reference  {_short(reference if isinstance(reference, str) else reference['text'])}")
    if sample.get("labels"):
        lines.append(f"labels     {_short(sample['labels'])}")
    every_rank = document.get("gold_ranks") or [[] for _ in document["outputs"]]
    for output, ranks in zip(document["outputs"], every_rank, strict=True):
        lines.append("")
        by_span = {one["rank"] for one in ranks if one["by"] == "span"}
        if output.get("error"):
            lines.append(f"error      {_short(output['error'])}")
        response = output.get("response")
        if response is not None:
            lines.append(f"answer     {_short(response if isinstance(response, str) else response['text'] or '')}")
        for rank, item in enumerate(output.get("retrieved") or (), start=1):
            doc = item if isinstance(item, str) else item["doc"]
            text = "" if isinstance(doc, str) else " ".join(doc.get("text", "").split())
            mark = "*" if _id(doc) in gold or rank in by_span else " "
            lines.append(f"  {rank:>3} {mark} {_id(doc)}  {text[:100]}".rstrip())
    rows = [
        [name, "" if value is None else format_value(value), document["outcomes"].get(name, "")]
        for name, value in document["scores"].items()
    ]
    if rows:
        lines += ["", table(rows, headers=["metric", "score", "outcome"], right=(1,))]
    if document["judgements"]:
        lines += ["", *judgements_text(document["judgements"], MAX_CHARACTERS, list(document["scores"]))]
    return "\n".join(lines)


def _id(doc: Any) -> str:
    return str(doc if isinstance(doc, str) else doc["doc_id"])
