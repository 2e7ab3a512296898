"""``auepora score``: score saved outputs from single files, many files, or a TREC run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ..core.conventions import Conventions
from .console import echo_err, quiet_option
from .help_pages import Command
from .judge_options import (
    JudgeOptions,
    JudgingOptions,
    ScoringProgress,
    add_judged,
    attach_usage,
    exit_with_errors,
    judge_options,
    judge_policy,
    make_judge_session,
    preview_text,
    scoring_judge_options,
)
from .options import (
    ALL_TABLES,
    ExecutorChoice,
    alias_notes,
    all_option,
    columns_option,
    executor_options,
    is_short,
    match_option,
    output_format,
    parse_specs,
    raw_option,
    refuse_input_as_output,
    render_results,
    require_per_query,
    show_warnings,
    target_option,
    warn_unmatched_ids,
    write_out,
)

if TYPE_CHECKING:
    from ..core.registry import Spec
    from ..core.results import Results
    from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
    from ..engine.gold_match import MatchChoice
    from ..judge.preview import Preview
    from .score_inputs import ScoreInput, ScoreOptions

PRESETS = ("auto", "auepora", "paper", "paper-positives", "golden", "client", "trec")


@click.command(name="score", cls=Command)
@click.argument("dataset", required=False, type=click.Path())
@click.argument("outputs", required=False, type=click.Path())
@click.option("--format", "sample_format", metavar="NAME", help="Format of DATASET; default: detected.")
@click.option("--outputs-format", metavar="NAME", help="Format of OUTPUTS; default: detected.")
@columns_option()
@columns_option("--outputs-columns", "OUTPUTS")
@click.option("--corpus", type=click.Path(), help="JSONL file with the texts of documents given by id.")
@click.option("--nuggets", type=click.Path(), help="JSONL file with the nuggets of the samples, matched by id.")
@click.option("--qrels", type=click.Path(), help="TREC qrels, instead of DATASET.")
@click.option("--run", "run_file", type=click.Path(), help="TREC run, instead of OUTPUTS.")
@click.option(
    "-m",
    "--metric",
    "metrics",
    multiple=True,
    metavar="SPEC",
    help="Metric, such as recall@5 or, with options, ndcg@10:gain_scheme=linear,as=mine; repeatable.",
)
@target_option()
@click.option(
    "--conventions",
    default="auto",
    show_default=True,
    type=click.Choice(PRESETS),
    metavar="PRESET",
    help=f"Conventions of the metrics; {', '.join(PRESETS)}. auto is trec for qrels or a BEIR folder, else auepora.",
)
@click.option(
    "-l",
    "--min-relevance",
    type=int,
    metavar="LEVEL",
    help="Lowest relevance level that counts as relevant (trec_eval -l).",
)
@click.option(
    "-c", "--complete", is_flag=True, help="Score a sample without an output as an empty ranking (trec_eval -c)."
)
@click.option("-M", "--depth", type=click.IntRange(min=1), help="Truncate every ranking to this depth (trec_eval -M).")
@click.option(
    "--duplicates",
    type=click.Choice(["first", "error"]),
    help="Count a duplicate id at its first position, or raise an error; default: as in the conventions.",
)
@match_option("auto", "by default what data and outputs contain decides")
@executor_options
@click.option("--batch-size", type=click.IntRange(min=1), metavar="N", help="Number of samples per batch.")
@click.option(
    "--parts",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write scores to this checkpoint folder as Parquet files; the same command resumes after an interruption.",
)
@click.option(
    "--slice",
    "slices",
    multiple=True,
    metavar="PATH",
    help="Also break down every metric by labels.<key> or metadata.<key>; repeatable.",
)
@click.option(
    "--lean",
    is_flag=True,
    help="Keep no scores of samples: constant memory, but only means have intervals.",
)
@judge_options
@scoring_judge_options
@quiet_option
@all_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--per-query", is_flag=True, help="With --json: the score of every sample too; with .csv: those alone.")
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    help="Write to this file (.json: JSON, .csv: CSV, .md: Markdown, else the table) instead of printing.",
)
@raw_option
def command(
    dataset: str | None,
    outputs: str | None,
    sample_format: str | None,
    outputs_format: str | None,
    columns: dict[str, str] | None,
    outputs_columns: dict[str, str] | None,
    corpus: str | None,
    nuggets: str | None,
    qrels: str | None,
    run_file: str | None,
    metrics: tuple[str, ...],
    targets: tuple[TargetCategory, ...],
    conventions: str,
    min_relevance: int | None,
    complete: bool,
    depth: int | None,
    duplicates: str | None,
    match: MatchChoice,
    executor: ExecutorChoice,
    batch_size: int | None,
    parts: str | None,
    slices: tuple[str, ...],
    lean: bool,
    judge: JudgeOptions,
    judging: JudgingOptions,
    every: bool,
    as_json: bool,
    per_query: bool,
    output: str | None,
) -> None:
    """Score saved OUTPUTS against a DATASET, or a TREC run against its judgements.

    Files may be of any size. Formats are detected unless they are given. Leave out OUTPUTS for a format that keeps
    samples and outputs in one file. A directory or a quoted glob stands for many JSONL or Parquet files.

    Without -m and --target, every metric that the data supports is computed. Results are written to stdout, messages to
    stderr. The exit code is 3 if more than half of the samples are system failures, or if a judge metric has no scored
    sample; otherwise 0.

    \b
    auepora score data.jsonl outputs.jsonl
    auepora score data.jsonl outputs.jsonl -m recall@5 -m rougeL_answer --json
    auepora score data.jsonl outputs.jsonl --target correctness --target faithfulness
    auepora score answers.csv --columns query=Question,response=Answer,contexts=Contexts,reference=Expected
    auepora score data.jsonl outputs.jsonl --slice labels.lang --slice metadata.source
    auepora score --qrels qrels.txt --run run.txt -m map -m ndcg@10
    auepora score data.jsonl outputs.jsonl -m nugget_recall --nuggets nuggets.jsonl --plan plan.yaml
    auepora score data.jsonl outputs.jsonl -m llm_faithfulness --plan plan.yaml --preview
    auepora score 'data/*.parquet' 'out/*.parquet' --executor ray --parts scores --lean
    """
    from ..engine.evaluate import BATCH_SIZE
    from ..io.formats import is_sharded
    from .score_inputs import FileInput, ScoreOptions, TrecInput, wants_shards

    trec = qrels is not None or run_file is not None
    refused = {
        "give --qrels and --run together and nothing else, or DATASET and OUTPUTS": trec
        and (dataset is not None or qrels is None or run_file is None),
        "a TREC run is scored in one process and at once: leave out --executor, --workers, --address, --batch-size "
        "and --parts": trec and (executor != ExecutorChoice() or parts is not None or batch_size is not None),
        "a TREC run has no answers to judge: leave out --preview, --plan and --judge-model": trec
        and (judging.preview or judge != JudgeOptions()),
        "a TREC run is scored by its ids: leave out --corpus and --nuggets": trec
        and (corpus is not None or nuggets is not None),
        "a TREC run has ids alone, by which gold is matched: leave out --match": trec and match not in ("auto", "id"),
        "a TREC run has columns of its own: leave out --columns and --outputs-columns": trec
        and (columns is not None or outputs_columns is not None),
        "--outputs-columns goes with OUTPUTS": outputs is None and outputs_columns is not None,
        "queries of a TREC run have neither labels nor metadata to slice by: leave out --slice": trec and slices,
    }
    for problem, applies in refused.items():
        if applies:
            raise click.UsageError(problem)
    executor.check()
    if not trec and dataset is None:
        raise click.UsageError("give DATASET and OUTPUTS, or --qrels and --run")
    form = "json" if as_json else output_format(output)
    require_per_query(per_query, form)
    if per_query and lean:
        raise click.UsageError("--lean keeps no scores of samples, which --per-query prints: give one of them")
    read = (dataset, outputs, corpus, nuggets, qrels, run_file)
    refuse_input_as_output(output, [path for path in read if path is not None])
    specs = parse_specs(metrics)
    data: ScoreInput
    aided = corpus is not None or nuggets is not None
    if qrels is not None and run_file is not None and not _needs_scores(specs):
        data = TrecInput(qrels, run_file)
    elif qrels is not None and run_file is not None:
        # The fast reader of TREC files keeps the order of documents, not their scores.
        data = FileInput(qrels, run_file, "trec", "trec")
    else:
        assert dataset is not None
        if columns is not None or outputs_columns is not None:
            if parts is not None or any(is_sharded(path) for path in (dataset, outputs) if path is not None):
                raise click.UsageError("--columns goes with one DATASET file and one of OUTPUTS, and without --parts")
            is_split = False
        else:
            is_split = wants_shards(dataset, outputs, (sample_format, outputs_format), executor.name, parts, aided)
        if is_split:
            from .score_shards import ShardInput

            data = ShardInput(dataset, outputs, sample_format, outputs_format, parts)
        else:
            data = FileInput(dataset, outputs, sample_format, outputs_format, corpus, nuggets, columns, outputs_columns)
    changes = _convention_options(min_relevance, complete, depth, duplicates)
    if match != "auto":
        changes["match"] = match
    rules, footer = _resolve_conventions(conventions, data.auto_preset, changes)
    judges = judge.judges(judging.changes())
    resources = {} if judges is None else judges.source.values.get("resources") or {}
    specs, judged = add_judged(specs, targets, resources)
    options = ScoreOptions(
        specs, rules, executor, slices, lean, batch_size or BATCH_SIZE, judges, match, targets=targets, judged=judged
    )
    echo_err(*alias_notes(specs, rules))
    if judging.preview:
        write_out(preview_text(estimate_judging(data, options), as_json=form == "json"), output)
        return
    results = score(data, options)
    if data.options.conventions != rules:
        footer += f", match {data.options.conventions.match}"
    if is_short(form, output, every=every):
        text = _short_results(data, results, footer)
    else:
        show_warnings(results)
        text = render_results(results, form, footer, per_query=per_query)
    write_out(text, output)
    if results.failure is not None:
        exit_with_errors(results.failure)


def _short_results(data: ScoreInput, results: Results, footer: str) -> str:
    """The results in the short form, with the conventions."""
    from ..render.short import failed_samples
    from .short_results import results_short

    total = data.total or 0
    _, failed = failed_samples((total - len(data.missing), results.failed_outputs), total)
    notes = [("conventions", footer.removeprefix("conventions: "))]
    return results_short(results, {}, failed=failed, notes=notes, commands=[ALL_TABLES]).text()


def _needs_scores(specs: Sequence[Spec]) -> bool:
    """Whether a metric uses the scores of retrieved documents, not only their order."""
    for spec in specs:
        options = [spec] if isinstance(spec, str) else [key for given in spec.values() for key in given or ()]
        if any("ties" in option for option in options):
            return True
    return False


def _convention_options(
    min_relevance: int | None, complete: bool, depth: int | None, duplicates: str | None
) -> dict[str, object]:
    """The conventions that options change in the preset."""
    missing = "zero" if complete else None
    given = {"min_relevance": min_relevance, "missing": missing, "depth": depth, "duplicates": duplicates}
    return {key: value for key, value in given.items() if value is not None}


def _resolve_conventions(preset: str, auto: str, choices: dict[str, object]) -> tuple[Conventions, str]:
    """The conventions that the options select, and a line that names them."""
    rules = Conventions.of(auto if preset == "auto" else preset, **choices)
    chosen = [f"{rules.name} (auto)" if preset == "auto" else rules.name]
    chosen += [f"{key} {value}" for key, value in choices.items()]
    return rules, f"conventions: {', '.join(chosen)}"


# --- scoring: the same steps for every kind of input ------------------------------------------------------------------


def score(data: ScoreInput, options: ScoreOptions) -> Results:
    """Score the data; without metrics, compute all that it supports."""
    from ..core.slices import parse_slices
    from ..engine.data_checks import mass_failure

    chosen = options.metrics()  # a misspelt metric is reported before the files are read
    groups = parse_slices(list(dict.fromkeys(options.slices)))
    with options.executor.open_executor() as executor, data.open(options, executor):
        chosen = data.prepare(chosen)
        coverage = data.coverage(chosen)
        with ScoringProgress() as line:
            session = None if options.judges is None else make_judge_session(options.judges, line)
            results = data.evaluate(
                chosen if coverage is None else [*chosen, *coverage.metrics],
                executor=line.counting_executor(executor),
                slices=groups,
                keep_scores=not options.lean,
                judging=session,
                progress=line.start_scoring(data.total),
            )
        if coverage is not None:
            results = coverage.annotate(results)
        data.add_warnings(chosen, results)
        if data.gold is not None:
            data.gold.finish(chosen, results)
        if session is not None:
            attach_usage(results, session)
        warn_unmatched_ids(data.missing, data.unknown, total=data.total or 0, conventions=options.conventions)
        outputs = (output for _, outputs in data.batches() for output in outputs if output is not None)
        results.failure = mass_failure(results, (output.error for output in outputs if output.error is not None))
    return results


def estimate_judging(data: ScoreInput, options: ScoreOptions) -> Preview:
    """Estimate the judge calls and their cost."""
    from ..engine.executors import SerialExecutor
    from ..judge.critic import JudgePolicy
    from ..judge.preview import preview

    chosen = options.metrics(need_key=False)
    samples: list[EvaluationSample] = []
    outputs: list[SystemOutputs | None] = []
    with data.open(options, SerialExecutor()):
        if chosen or options.targets:
            chosen = data.prepare(chosen)
        for some, theirs in data.batches():
            samples += some
            outputs += theirs
    return preview(samples, outputs, chosen, JudgePolicy() if options.judges is None else judge_policy(options.judges))
