"""``auepora score``: score saved outputs from single files, many files, or a TREC run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ..core.conventions import Conventions
from ..core.registry import use_resources
from .console import echo_err, quiet_option
from .help_pages import Command
from .judge_options import (
    JudgeOptions,
    JudgingOptions,
    ScoringProgress,
    add_judged,
    exit_with_errors,
    judge_options,
    judge_policy,
    make_judge_session,
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
    from ..core.metrics_base import Metric
    from ..core.registry import Spec
    from ..core.results import Results
    from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
    from ..engine.gold_match import MatchChoice
    from ..io.score_inputs import DataFile, ScoreInput, ScoreOptions
    from ..judge.preview import Preview
    from ..plan.resources import PlannedJudges
    from ..runs.coverage import JudgedCoverage

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
    from ..io.score_inputs import DataFile, FileInput, ScoreOptions

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
    samples = DataFile(str(dataset), sample_format, columns)
    answers = None if outputs is None else DataFile(outputs, outputs_format, outputs_columns)
    if qrels is not None and run_file is not None and not _needs_scores(specs):
        from ..io.trec_format import TrecInput

        data = TrecInput(qrels, run_file)
    elif qrels is not None and run_file is not None:
        # The fast reader of TREC files keeps the order of documents, not their scores.
        data = FileInput(DataFile(qrels, "trec"), DataFile(run_file, "trec"))
    elif _wants_shards(samples, answers, executor.name, parts, aided=corpus is not None or nuggets is not None):
        from ..scale.score_input import ShardInput

        data = ShardInput(samples, answers, parts=parts, note=_note_format)
    else:
        if answers is None and outputs_format is not None:
            answers = replace(samples, format=outputs_format)
        data = FileInput(samples, answers, corpus=corpus, nuggets=nuggets, note=_note_format)
    changes = _convention_options(min_relevance, complete, depth, duplicates)
    if match != "auto":
        changes["match"] = match
    rules, footer = _resolve_conventions(conventions, data.auto_preset, changes)
    judges = judge.judges(judging.changes())
    resources = {} if judges is None else judges.source.values.get("resources") or {}
    specs, judged = add_judged(specs, targets, resources)
    options = ScoreOptions(
        rules,
        slices=tuple(dict.fromkeys(slices)),
        keep_scores=not lean,
        batch_size=batch_size or BATCH_SIZE,
        match=match,
        targets=targets,
        judged=judged,
    )
    echo_err(*alias_notes(specs, rules))
    chosen = _build_metrics(specs, rules, judges, need_key=not judging.preview)
    if judging.preview:
        from .judge_usage import preview_text

        write_out(preview_text(estimate_judging(data, chosen, options, judges), as_json=form == "json"), output)
        return
    results = _score(data, chosen, options, executor=executor, judges=judges)
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


# --- scoring: the same for every kind of input ------------------------------------------------------------------------


def _wants_shards(
    dataset: DataFile, outputs: DataFile | None, executor: str | None, parts: str | None, *, aided: bool
) -> bool:
    """Whether to read these files in ranges: if there are many, with a checkpoint, or with Ray workers.

    ``aided``: a corpus or nuggets are added, which ranges do not have.
    """
    from ..io.formats import is_sharded

    files = [dataset] if outputs is None else [dataset, outputs]
    in_ranges = parts is not None or any(is_sharded(file.path) for file in files)
    if any(file.columns is not None for file in files):
        if in_ranges:
            raise click.UsageError("--columns goes with one DATASET file and one of OUTPUTS, and without --parts")
        return False
    if not in_ranges and executor != "ray":
        return False
    from ..scale.score_input import are_many, can_split

    if parts is not None or are_many(files):
        if aided:
            raise click.UsageError("--corpus goes with one DATASET file and one of OUTPUTS, and without --parts")
        return True
    # A file that cannot be split is read here and sent in batches.
    return executor == "ray" and not aided and can_split(dataset, outputs)


def _note_format(path: str, name: str) -> None:
    """Print the format of a file if it is not the usual one."""
    from ..io.formats import get_format

    if name != "jsonl":
        echo_err(f"reading {path} as {name} ({get_format(name).title})")


def _build_metrics(
    specs: Sequence[Spec], rules: Conventions, judges: PlannedJudges | None, *, need_key: bool
) -> list[Metric]:
    """The metrics, with the judges they refer to."""
    from ..engine.evaluate import resolve_metrics

    if judges is None:
        return resolve_metrics(specs, rules)
    from ..plan.resources import used_resources

    with use_resources(judges.build(list(used_resources(list(specs))), need_key=need_key)):
        return resolve_metrics(specs, rules)


def _score(
    data: ScoreInput,
    metrics: list[Metric],
    options: ScoreOptions,
    *,
    executor: ExecutorChoice,
    judges: PlannedJudges | None,
) -> Results:
    """Score the data, show the progress, and say which ids match none."""
    with executor.open_executor() as opened, ScoringProgress() as line:
        session = None if judges is None else make_judge_session(judges, line)
        results = data.score(metrics, options, executor=opened, judging=session, coverage=_judged_coverage, line=line)
    if data.resumed:
        echo_err(f"{data.resumed:,} of {data.total:,} samples were read from the checkpoint {data.parts}")
    if session is not None:
        from .judge_usage import attach_usage

        attach_usage(results, session)
    warn_unmatched_ids(data.missing, data.unknown, total=data.total or 0, conventions=options.conventions)
    return results


def _judged_coverage(metrics: Sequence[Metric], grades: Mapping[str, int] | None) -> JudgedCoverage:
    from ..runs.coverage import JudgedCoverage

    return JudgedCoverage(metrics, grades)


def estimate_judging(
    data: ScoreInput, metrics: list[Metric], options: ScoreOptions, judges: PlannedJudges | None
) -> Preview:
    """Estimate the judge calls and their cost."""
    from ..engine.executors import SerialExecutor
    from ..judge.critic import JudgePolicy
    from ..judge.preview import preview

    samples: list[EvaluationSample] = []
    outputs: list[SystemOutputs | None] = []
    with data.open(options, SerialExecutor()):
        if metrics or options.targets:
            metrics = data.prepare(metrics)
        for some, theirs in data.batches():
            samples += some
            outputs += theirs
    return preview(samples, outputs, metrics, JudgePolicy() if judges is None else judge_policy(judges))
