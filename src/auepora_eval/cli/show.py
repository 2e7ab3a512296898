"""``auepora show``, ``queries``, ``samples`` and ``explain``: a stored run, its queries, sets of them, one number."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from getpass import getuser
from itertools import chain, groupby, product
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from ..core.conventions import Match
from ..core.results import Results, metric_labels, system_cost
from ..core.types import EvaluationSample, SystemOutputs
from ..errors import BadValueError, DataFileError
from ..features.matching import gold_ranks, gold_units, has_spans
from ..io.sample_sets import SampleSet, find_sample_set, load_sample_set, sample_set_names, save_sample_set, set_label
from ..render.blocks import (
    Block,
    Code,
    DefinitionList,
    Prose,
    Report,
    ReportSection,
    ReportVerdict,
    Row,
    TableColumn,
    simple_table,
    without_empty_columns,
)
from ..render.tables import format_value, results_blocks, results_csv, scores_csv, slices_blocks
from ..store.connect import default_labels, default_store
from ..store.records import RunRecord, conventions_label, plan_conventions
from ..store.runs import RunStore, result_summaries
from .console import echo_err, quiet_option
from .help_pages import Command
from .judge_usage import usage_text
from .judgements import failure_text, judge_failures, judgements_text, sample_judgements
from .options import (
    ALL_TABLES,
    complete_run,
    is_short,
    open_store,
    output_format,
    parse_specs,
    raw_csv,
    raw_option,
    render_page,
    require_per_query,
    samples_option,
    store_option,
    write_out,
)
from .runs import format_time, gold_note, run_dict

if TYPE_CHECKING:
    from ..core.scores import MarkedSpan
    from ..queries.failure_groups import AnswerRule
    from ..queries.filters import SampleFilter
    from ..queries.rows import QueryRow
    from ..queries.table import QueryTable


# --- auepora show ----------------------------------------------------------------------------------------------------

_NEXT = [ALL_TABLES, ("failures", "the same command with --failures")]
MAX_SHOWN = 20
"""Number of failures that are listed."""
MAX_LISTED_IDS = 100
"""Number of ids of a set that are listed."""
MAX_CHARACTERS = 400
"""Number of characters of a text that are shown."""


@click.command(name="show", cls=Command)
@click.argument("run", default="latest", shell_complete=complete_run)
@click.option("-m", "--metric", "metrics", multiple=True, metavar="NAME", help="Only this metric; repeatable.")
@click.option("--all", "every", is_flag=True, help="Show all tables, and earlier results with other signatures, too.")
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
@raw_option
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
    if failures and sample_id is not None:
        raise click.UsageError("give --failures or --sample, not both")
    form = output_format(output, as_json=as_json)
    require_per_query(per_query, form)
    with open_store(store, output=output) as found:
        record = found.find(run)
        if sample_id is not None:
            sample = sample_document(found, record, sample_id)
            labels = metric_labels(result_summaries(found, record.run_id))
            write_out(render_page(form, sample, lambda: sample_page(sample, labels)), output)
        elif failures:
            rows = [*_failures(found, record), *(unjudged := judge_failures(found, record))]
            rows += _measure_failures(found, record, unjudged)
            labels = metric_labels(result_summaries(found, record.run_id))
            write_out(render_page(form, rows, lambda: _failures_page(record, rows, labels)), output)
        else:
            read = found.results if per_query else partial(result_summaries, found)
            chosen = _select_metrics(read(record.run_id, every_signature=every), metrics)
            if form == "csv":
                text = scores_csv(chosen, raw=raw_csv()) if per_query else results_csv(chosen, raw=raw_csv())
            else:
                run_info = {"run": run_dict(record, found.counts(record.run_id))}
                document = {**chosen.to_dict(per_query=per_query), **run_info}
                text = render_page(form, document, lambda: _run_page(found, record, chosen))
                if is_short(form, output, every=every):
                    text = _short_run(found, record, chosen)
            write_out(text, output)


def _select_metrics(results: Results, names: tuple[str, ...]) -> Results:
    for name in names:
        results.by_name[name]  # an unknown name raises an error with a suggestion
    kept = [result for result in results if not names or result.name in names]
    return Results(kept, sample_ids=results.sample_ids, run_id=results.run_id)


def _short_run(store: RunStore, record: RunRecord, results: Results) -> str:
    """The run in the short form."""
    from ..render.short import failed_samples
    from .short_results import results_short

    head = record.name if results else f"{record.name} has no results: the run did not come to scoring"
    _, failed = failed_samples(store.counts(record.run_id), record.num_samples, record.repeats)
    notes = [gold_note([record]), *_facts(store, record)]
    return results_short(
        results, record.plan, failed=failed if results else "", head=head, notes=notes, commands=_NEXT
    ).text()


def _run_page(store: RunStore, record: RunRecord, results: Results) -> Report:
    """The metadata of the run, and its results as tables."""
    blocks: list[Block] = [DefinitionList(list(_facts(store, record)))]
    if results:
        blocks += [*results_blocks(results), *chain.from_iterable(slices_blocks(results))]
    else:
        advice = "`auepora run PLAN --resume` goes on with it"
        blocks.append(Prose(f"no results yet: the run did not come to scoring; {advice}"))
    if record.plan.get("conventions"):
        blocks.append(Prose(f"conventions of its plan: {conventions_label(record)}"))
    return Report(record.name, "", ReportVerdict(""), [ReportSection("run", "", blocks)])


def _facts(store: RunStore, record: RunRecord) -> Iterator[tuple[str, str]]:

    done, failed = store.counts(record.run_id)
    expected = record.num_samples * record.repeats
    repeats = f" x {record.repeats} repeats" if record.repeats > 1 else ""
    outputs = f"{done} of {expected} outputs" if done != expected else f"{done} outputs"
    ended = f", ended {format_time(record.finished_at)}" if record.finished_at else ""
    yield "run", record.run_id
    if record.tags:
        yield "tags", ", ".join(record.tags)
    yield "dataset", f"{record.dataset_name}, {record.num_samples} samples{set_label(record.plan)}{repeats}"
    yield "status", f"{record.status_text}, {outputs}, {failed} failed; began {format_time(record.created_at)}{ended}"
    if record.message:
        yield "message", record.message
    if record.plan.get("sweep"):
        from ..compare.sweeps import sweep_text

        if (sweep := sweep_text(record)) is not None:
            yield "sweep", sweep
    if record.commit:
        commit, plus, _ = record.commit.partition("+")
        yield "commit", f"{commit[:12]}{' with uncommitted changes' if plus else ''}"
    if record.config:
        yield "config", ", ".join(f"{key} {_short(value)}" for key, value in record.config.items())
    spent = system_cost(result_summaries(store, record.run_id))
    if spent is not None:
        yield "cost", f"{spent:.4g} of the system, without that of judges"
    if record.usage:
        yield "judging", usage_text(record.usage["total"])


def _short(value: Any) -> str:
    text = " ".join(value.split()) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"


def _failures(store: RunStore, record: RunRecord) -> list[dict[str, Any]]:
    failed = [row for row in store.outputs(record.run_id, texts=False) if row.output.error is not None]
    return [{"sample_id": row.sample_id, "repeat": row.repeat, "error": row.output.error} for row in failed]


def _measure_failures(store: RunStore, record: RunRecord, known: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Failed measurements that are not failures of a judge."""
    ids, reported = store.sample_ids(record.run_id), {(row["sample_id"], row["metric"]) for row in known}
    hint = f"`auepora explain {record.name} METRIC --query ID` may show more"
    found: list[dict[str, Any]] = []
    for result in store.results(record.run_id):
        for sample_id, outcome in zip(ids, result.outcomes or (), strict=False):
            status, _, reason = outcome.partition(":")
            if status == "measure_failed" and (sample_id, result.name) not in reported:
                row = {"sample_id": sample_id, "repeat": 0, "metric": result.name, "error": reason}
                found.append({**row, "message": hint, "raw": None})
    return found


def _failures_page(record: RunRecord, rows: list[dict[str, Any]], labels: Mapping[str, str]) -> Report:
    """The failures of the system, then those of judges and other measurements."""
    blocks: list[Block] = []
    for title, listed in (
        ("failed", [row for row in rows if "metric" not in row]),
        ("not judged", [row for row in rows if "metric" in row]),
    ):
        if listed:
            counts = Counter(str(row["error"]).partition(":")[0] for row in listed)
            blocks.append(Prose(f"{len(listed)} {title}: {', '.join(f'{reason} {n}' for reason, n in counts.items())}"))
            cells: list[Row] = [
                [
                    f"{row['sample_id']}{_repeat(row)}",
                    labels.get(row.get("metric", ""), row.get("metric", "")),
                    failure_text(row, MAX_CHARACTERS),
                ]
                for row in listed[:MAX_SHOWN]
            ]
            blocks.append(without_empty_columns(simple_table(["sample", "metric", "reason"], cells)))
            if len(listed) > MAX_SHOWN:
                blocks.append(Prose(f"... and {len(listed) - MAX_SHOWN} more; --json has all"))
    section = ReportSection("failures", "", blocks or [Prose("no failures")])
    return Report(f"Failures of {record.name}", "", ReportVerdict(""), [section])


def _repeat(row: dict[str, Any]) -> str:
    return f" (repeat {row['repeat']})" if row["repeat"] else ""


def sample_document(store: RunStore, record: RunRecord, sample_id: str) -> dict[str, Any]:
    """A sample of a run with its outputs, scores and judgements, for JSON and ``sample_page``."""
    from ..core.scores import AnswerSpans, marked_answers
    from ..io.codec import encode_output, encode_sample
    from ..report.explain import sample_position

    position = sample_position(store, record, sample_id)
    sample: EvaluationSample = store.samples(record.run_id)[position]
    outputs: list[SystemOutputs] = [row.output for row in store.outputs(record.run_id, position=position)]
    results = store.results(record.run_id)
    scores = {result.name: result.scores[position] for result in results if result.scores is not None}
    outcomes = {
        result.name: result.outcomes[position]
        for result in results
        if result.outcomes is not None and result.outcomes[position] != "scored"
    }
    spans: list[dict[str, Any]] = []
    for name, keys in marked_answers(results).items():
        marked = keys[position] or AnswerSpans()
        spans += [{"metric": name, **_span_dict(span)} for span in marked.spans]
    match = plan_conventions(record).match
    ids_suffice = match == "id" and not sample.relevant_groups and not has_spans(sample)
    return {
        "run_id": record.run_id,
        "sample": json.loads(encode_sample(sample)),
        "outputs": [json.loads(encode_output(sample_id, output)) for output in outputs],
        "scores": scores,
        "outcomes": outcomes,
        "judgements": sample_judgements(store, record, position),
        **({"spans": spans} if spans else {}),
        **({} if ids_suffice else {"gold_ranks": [_gold_ranks(sample, output, match) for output in outputs]}),
        **({"corrections": corrections} if (corrections := _sample_corrections(store, record, sample_id)) else {}),
    }


def _span_dict(span: MarkedSpan) -> dict[str, Any]:
    return {"repeat": span.repeat, "start": span.start, "end": span.end, "probability": span.probability}


def _sample_corrections(store: RunStore, record: RunRecord, sample_id: str) -> list[dict[str, Any]]:
    """The accepted gold corrections of a sample."""
    from ..io.grades import CorrectionLog
    from ..labels.batch_plans import labels_folder

    accepted = CorrectionLog(labels_folder(store)).accepted(record.fingerprint)
    found = [correction for correction in accepted if correction.sample_id == sample_id]
    return [{**correction.to_dict(), "text": correction.describe()} for correction in found]


def _gold_ranks(sample: EvaluationSample, output: SystemOutputs, match: Match) -> list[dict[str, Any]]:
    """The rank at which an output hits each gold unit, and how."""
    gold = gold_units(sample, match)
    ranks = gold_ranks(gold, [item.doc for item in output.retrieved], match)
    return [{"doc_id": unit.doc_id, "rank": at.rank, "by": at.by} for unit, at in zip(gold, ranks, strict=True)]


def sample_page(document: dict[str, Any], labels: Mapping[str, str] = MappingProxyType({})) -> Report:
    """The question, its gold, each output with its documents, scores and judgements; ``labels``: of metrics."""
    sample = document["sample"]
    gold = {_id(document) for document in sample.get("relevant_docs") or ()}
    facts: list[tuple[str, str]] = [("gold", ", ".join(sorted(gold)) or "none")]
    facts += [("same fact", ", ".join(ids)) for ids in sample.get("relevant_groups") or ()]
    reference = sample.get("reference_answer")
    if reference is not None:
        facts.append(("reference", _short(reference if isinstance(reference, str) else reference["text"])))
    if sample.get("labels"):
        facts.append(("labels", _short(sample["labels"])))
    corrections = [f"{correction['text']}, by {correction['by']}" for correction in document.get("corrections", ())]
    facts += [("gold correction", _short(text)) for text in corrections]
    blocks: list[Block] = [DefinitionList(facts)]
    every_rank = document.get("gold_ranks") or [None for _ in document["outputs"]]
    for output, ranks in zip(document["outputs"], every_rank, strict=True):
        blocks += _output_blocks(output, gold, ranks)
        repeat = output.get("repeat", 0)
        blocks += _span_blocks(output, [span for span in document.get("spans") or () if span["repeat"] == repeat])
    rows: list[Row] = [
        [labels.get(name, name), _score_text(value), document["outcomes"].get(name, "")]
        for name, value in document["scores"].items()
    ]
    if rows:
        blocks.append(simple_table(["metric", TableColumn("score", number=True), "outcome"], rows))
    if document["judgements"]:
        lines = list(judgements_text(document["judgements"], MAX_CHARACTERS, document["scores"]))
        blocks.append(Code("\n".join(lines)))
    title = f"{sample['sample_id']}  {sample['query']}"
    return Report(title, "", ReportVerdict(""), [ReportSection("sample", "", blocks)])


def _output_blocks(output: dict[str, Any], gold: set[str], gold_ranks: list[dict[str, Any]] | None) -> Iterator[Block]:
    """An output: its error or answer, and its documents; gold is marked, at its ranks where ids do not suffice."""
    facts = []
    if output.get("error"):
        facts.append(("error", _short(output["error"])))
    response = output.get("response")
    if response is not None:
        facts.append(("answer", _short(_response_text(response))))
    if facts:
        yield DefinitionList(facts)
    rows: list[Row] = []
    found = {gold_rank["rank"]: f"* by {gold_rank['by']}".removesuffix(" by id") for gold_rank in gold_ranks or ()}
    for rank, item in enumerate(output.get("retrieved") or (), start=1):
        doc = item if isinstance(item, str) else item["doc"]
        text = "" if isinstance(doc, str) else " ".join(doc.get("text", "").split())
        mark = "*" if gold_ranks is None and _id(doc) in gold else found.get(rank, "")
        rows.append([str(rank), mark, _id(doc), text[:100]])
    if rows:
        yield simple_table([TableColumn("rank", number=True), TableColumn("gold"), "document", "text"], rows)


def _span_blocks(output: dict[str, Any], spans: list[dict[str, Any]]) -> Iterator[Block]:
    """The spans that metrics mark in an answer, and the answer of each metric with its spans in brackets."""
    response = output.get("response")
    answer = _response_text(response) if response else ""
    rows: list[Row] = []
    for name, several in groupby(spans, key=itemgetter("metric")):
        marked, at = "", 0
        for span in several:
            text = answer[span["start"] : span["end"]]
            marked, at = f"{marked}{answer[at : span['start']]}⟦{text}⟧", span["end"]
            rows.append([name, f"{span['start']}-{span['end']}", f"{span['probability']:.2f}", _short(text)])
        yield DefinitionList([(name, _short(marked + answer[at:]))])
    if rows:
        yield simple_table(["metric", "characters", TableColumn("probability", number=True), "unsupported"], rows)


def _score_text(value: float | None, otherwise: str = "") -> str:
    return otherwise if value is None else format_value(value)


def _response_text(response: Any) -> str:
    return response if isinstance(response, str) else response["text"] or ""


def _id(doc: Any) -> str:
    return str(doc if isinstance(doc, str) else doc["doc_id"])


# --- auepora queries -------------------------------------------------------------------------------------------------


@click.command(name="queries", cls=Command)
@click.argument("run", shell_complete=complete_run)
@click.argument("run_b", metavar="[RUN_B]", required=False, shell_complete=complete_run)
@click.option("--search", default="", metavar="TEXT", help='All words must occur; "a phrase" stays together.')
@click.option("--where", multiple=True, metavar="CONDITION", help="Only queries that fulfil this; repeatable.")
@click.option("--sort", default="", metavar="KEY", help="id, question, rank, seconds or a metric; -KEY descending.")
@samples_option
@click.option("--groups", is_flag=True, help="Group the wrong answers by shared terms instead of listing queries.")
@click.option(
    "--correct",
    metavar="SPEC",
    help="With --groups: metric that says whether an answer is right; default: that of failure_attribution, else a "
    "metric of 0 and 1.",
)
@click.option(
    "--correct-from", type=float, metavar="X", help="With --groups: score from which an answer is right; default: 1."
)
@click.option("--save", metavar="NAME", help="Save all matching queries, listed or not, as a set for --samples.")
@click.option("--reason", default="", metavar="TEXT", help="With --save: why these queries belong together.")
@click.option(
    "-n", "--limit", type=click.IntRange(min=0), default=50, show_default=True, help="List at most this many."
)
@store_option
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-o", "--output", type=click.Path(), help="Write to this file (.json, .md, else text).")
def queries_command(
    run: str,
    run_b: str | None,
    search: str,
    where: tuple[str, ...],
    sort: str,
    samples: str | None,
    groups: bool,
    correct: str | None,
    correct_from: float | None,
    save: str | None,
    reason: str,
    limit: int,
    store: str | None,
    as_json: bool,
    output: str | None,
) -> None:
    """List the queries of RUN, or of two runs, with search, conditions and order as in `auepora ui`.

    A condition is a name, one of < <= > >= = != and a value. Names: a metric (of the last run; A.METRIC, B.METRIC,
    diff.METRIC for B - A), rank (of the first gold document), seconds, answer, hit, cause, change, label.NAME, term (of
    the question), cluster, id and set (a saved set of samples). A metric may also be scored, skipped, failed or
    failed:REASON; of two runs better, worse, same, changed, both-right, a-only, b-only or both-wrong.

    With --groups wrong answers are grouped by terms that their questions share, and by labels. Terms are found on one
    half of the questions and tested on the other.

    \b
    auepora queries latest --where 'token_f1<0.5' --where 'rank<=5' --sort token_f1
    auepora queries latest --search refund --where answer=refused
    auepora queries baseline latest --where ndcg@10=worse --sort diff.ndcg@10
    auepora queries latest --where label.topic=refunds --save refunds --reason 'complaints in May'
    auepora queries baseline latest --groups --correct token_f1 --correct-from 0.5
    """
    from ..queries.columns import RunColumns
    from ..queries.filters import SampleFilter
    from ..queries.rows import list_rows, shown_metrics
    from ..queries.table import QueryTable

    form = output_format(output, as_json=as_json, no_csv="queries cannot be written as CSV; write .json, .md or text")
    if reason and save is None:
        raise click.UsageError("--reason goes with --save")
    if groups and (sort or save is not None):
        raise click.UsageError("--groups lists no queries, so it goes without --sort and --save")
    if not groups and (correct is not None or correct_from is not None):
        raise click.UsageError("--correct and --correct-from go with --groups")
    chosen = SampleFilter.parse(search, [*where, *([] if samples is None else [f"set={samples}"])], sort)
    with open_store(store, output=output) as found:
        labels = default_labels(found.label)
        records = [found.find(name) for name in (run, run_b) if name is not None]
        table = QueryTable([RunColumns(found, record) for record in records], partial(find_sample_set, labels))
        matching = chosen.rows(table)
        if samples is not None and (missing := table.sample_set(samples).missing(table.ids)):
            echo_err(f"{len(missing):,} samples of the set are not in the list, such as {missing[0]!r:.80}")
        if groups:
            write_out(_groups_text(table, chosen, correct, correct_from, form), output)
            return
        if save is not None:
            saved = chosen.make_set(table, save, reason=reason, created_by=_user())
            echo_err(f"saved {saved.count:,} samples in {save_sample_set(labels, saved)}")
        metrics = shown_metrics(table, chosen.conditions, chosen.sort)
        rows = list_rows(table, matching[:limit].tolist(), metrics)
    document = {
        "runs": {letter: record.run_id for letter, record in zip(table.letters, records, strict=True)},
        "total": len(table),
        "matching": len(matching),
        "queries": [_query_dict(row, table.letters) for row in rows],
    }
    write_out(render_page(form, document, lambda: _queries_page(table, rows, metrics, len(matching))), output)


def _query_dict(row: QueryRow, letters: Sequence[str]) -> dict[str, Any]:
    """A query in the document of a list."""
    runs = {letter: asdict(side) for letter, side in zip(letters, row.sides, strict=True)}
    changes = {"changes": row.changes} if len(letters) > 1 else {}
    return {"sample_id": row.sample_id, "query": row.question, "runs": runs, **changes}


def _groups_text(
    table: QueryTable, chosen: SampleFilter, correct: str | None, correct_from: float | None, form: str
) -> str:
    """The failure groups of the queries that a filter gives."""
    from ..queries.failure_groups import failure_groups_blocks, find_failure_groups

    if chosen.outcome_runs(table):
        raise click.UsageError("--groups compares wrong answers with right ones: filter by samples, not by outcomes")
    found = find_failure_groups(table, _answer_rule(table, correct, correct_from), chosen.rows(table))
    runs = {letter: run.record.run_id for letter, run in zip(table.letters, table.runs, strict=True)}
    title = f"Failure groups of {' and '.join(run.record.name for run in table.runs)}"
    sections = [ReportSection("groups", "", failure_groups_blocks(found))]
    document = {"runs": runs, **found.to_dict()}
    return render_page(form, document, lambda: Report(title, "", ReportVerdict(""), sections))


def _answer_rule(table: QueryTable, correct: str | None, correct_from: float | None) -> AnswerRule:
    """What says which answers are right. A metric that a run does not have is computed from its stored outputs."""
    from ..queries.failure_groups import AnswerRule, choose_rule

    if correct is None or all(correct in run.results for run in table.runs):
        return choose_rule(table, correct, correct_from)
    from ..core.metrics_base import BatchMetric, is_judged
    from ..runs.diagnose import choose_correctness

    found = choose_correctness([], plan_conventions(table.runs[-1].record), parse_specs([correct])[0], correct_from)
    metric = found.metric
    assert isinstance(metric, BatchMetric)
    rule = AnswerRule.of_metric(metric.name, found.threshold)
    missing = [run for run in table.runs if metric.name not in run.results]
    if missing and is_judged(metric):
        command = f"auepora rescore {missing[0].record.run_id} -m {correct}"
        raise BadValueError(f"'{metric.name}' asks a judge, so it must be stored with the runs: `{command}` adds it")
    for run in missing:
        run.add_metric(metric)
    return replace(rule, changes_by="") if missing else rule


def _user() -> str:
    """The login name; empty if there is none, as in some containers."""
    try:
        return getuser()
    except (KeyError, OSError):
        return ""


def _rank_text(rank: int | None) -> str:
    return "" if rank is None else str(rank or "none")


def _queries_page(table: QueryTable, rows: list[QueryRow], metrics: list[str], matching: int) -> Report:
    """The queries as a table."""
    letters = table.letters if len(table.runs) > 1 else [""]
    headings = ["rank", *(table.metric_label(name) for name in metrics)]
    names = [f"{heading} {letter}".strip() for heading, letter in product(headings, letters)]
    columns = [TableColumn("query"), *(TableColumn(name, number=True) for name in names), TableColumn("question")]
    cells: list[Row] = []
    for row in rows:
        ranks = [_rank_text(side.rank) for side in row.sides]
        scores = [_score_text(side.scores[name], side.outcomes[name]) for name, side in product(metrics, row.sides)]
        cells.append([row.sample_id, *ranks, *scores, " ".join(row.question.split())[:100]])
    blocks: list[Block] = [Prose(f"{matching:,} of {len(table):,} queries")]
    if rows:
        blocks.append(simple_table(columns, cells))
    if matching > len(rows):
        blocks.append(Prose(f"... and {matching - len(rows):,} more; -n lists more"))
    name = " and ".join(run.record.name for run in table.runs)
    return Report(f"Queries of {name}", "", ReportVerdict(""), [ReportSection("queries", "", blocks)])


# --- auepora samples -------------------------------------------------------------------------------------------------


@click.command(name="samples", cls=Command)
@click.argument("name", metavar="[NAME|FILE]", required=False)
@store_option
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-o", "--output", type=click.Path(), help="Write to this file (.json, .md, else text).")
def samples_command(name: str | None, store: str | None, as_json: bool, output: str | None) -> None:
    """List the saved sets of samples, or show the one called NAME with its ids.

    A set is saved by `auepora queries --save`, or on a list of queries in `auepora ui`, and used with --samples of
    run, compare, gate and queries. A set that was selected by the outcomes of a run gives no verdict about that run.

    \b
    auepora samples
    auepora samples refunds
    auepora compare baseline latest --samples refunds
    """
    form = output_format(output, as_json=as_json, no_csv="sets cannot be written as CSV; write .json, .md or text")
    labels = default_labels(default_store(store))
    if name is not None:
        chosen = find_sample_set(labels, name)
        write_out(render_page(form, chosen.to_dict(), lambda: _set_page(chosen)), output)
        return
    found = []
    for set_name in sample_set_names(labels):
        try:
            found.append(load_sample_set(labels, set_name))
        except DataFileError as error:
            echo_err(f"Warning: {error}")
    documents = [{**sample_set.to_dict(), "ids": len(sample_set.ids)} for sample_set in found]
    write_out(render_page(form, documents, lambda: _sets_page(found)), output)


def _sets_page(found: list[SampleSet]) -> Report:
    rows: list[Row] = []
    for sample_set in found:
        runs, reason = ", ".join(sample_set.runs), _short(sample_set.reason)
        rows.append([sample_set.name, f"{sample_set.count:,}", sample_set.created or "", runs, reason])
    number = TableColumn("samples", number=True)
    columns: list[TableColumn | str] = ["set", number, "saved", "selected by outcomes of", "reason"]
    empty = Prose("no sets; `auepora queries RUN --where CONDITION --save NAME` saves one")
    blocks: list[Block] = [simple_table(columns, rows) if rows else empty]
    return Report("Sets of samples", "", ReportVerdict(""), [ReportSection("sets", "", blocks)])


def _set_page(sample_set: SampleSet) -> Report:
    facts = [
        ("reason", sample_set.reason),
        ("search", sample_set.search),
        ("conditions", ", ".join(sample_set.where)),
        ("selected by outcomes of", ", ".join(sample_set.runs) or "no run"),
        ("saved", " by ".join(filter(None, [sample_set.created, sample_set.created_by]))),
    ]
    blocks: list[Block] = [DefinitionList([(name, _short(text)) for name, text in facts if text])]
    blocks.append(simple_table(["sample"], [[sample_id] for sample_id in sample_set.ids[:MAX_LISTED_IDS]]))
    if sample_set.count > MAX_LISTED_IDS:
        blocks.append(Prose(f"... and {sample_set.count - MAX_LISTED_IDS:,} more; --json has all"))
    title = f"{sample_set.name}: {sample_set.count:,} samples"
    return Report(title, "", ReportVerdict(""), [ReportSection("set", "", blocks)])


# --- auepora explain -------------------------------------------------------------------------------------------------


@click.command(name="explain", cls=Command)
@click.argument("run", shell_complete=complete_run)
@click.argument("metric")
@click.option("--query", "sample_id", metavar="ID", help="Show how the score of this query was computed, step by step.")
@click.option("--models", is_flag=True, help="Allow calls to embedding and NLI models; judges are never called.")
@store_option
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-o", "--output", type=click.Path(), help="Write to this file (.json, .md, else text).")
def explain_command(
    run: str, metric: str, sample_id: str | None, models: bool, store: str | None, as_json: bool, output: str | None
) -> None:
    """Explain the value of METRIC in the stored RUN: its definition, its options and its samples.

    With --query, show how the score of one query was computed, so that it can be checked by hand. Everything is
    computed again from the stored outputs and compared with the stored value. METRIC is a name as shown by
    `auepora show`, or a full signature.

    \b
    auepora explain latest ndcg@10
    auepora explain latest ndcg@10 --query q17
    auepora explain nightly token_f1 --query q17 -o q17.md
    """
    from ..io.grades import CorrectionLog
    from ..labels.batch_plans import labels_folder
    from ..report.explain import explain, explanation_report

    form = output_format(
        output, as_json=as_json, no_csv="explanations cannot be written as CSV; write .json, .md or text"
    )
    with open_store(store, output=output) as found:
        log = CorrectionLog(labels_folder(found))
        explanation = explain(found, run, metric, query=sample_id, models=models, corrections=log)
    write_out(render_page(form, explanation.to_dict(), partial(explanation_report, explanation)), output)
