"""``auepora score``: score saved outputs, or a TREC run."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .console import echo_err, quiet_option
from .executors import ExecutorChoice, executor_options
from .judge_options import JudgeOptions, JudgingOptions, judge_options, judging_options, preview_text, with_judge

if TYPE_CHECKING:
    from ..core.conventions import Conventions
    from ..core.registry import Spec
    from ..core.results import Results

__all__ = ["command"]

PRESETS = ("auto", "auepora", "paper", "paper-positives", "golden", "client", "trec")


@click.command(name="score")
@click.argument("dataset", required=False, type=click.Path())
@click.argument("outputs", required=False, type=click.Path())
@click.option("--format", "sample_format", metavar="NAME", help="Format of DATASET; default: detected.")
@click.option("--outputs-format", metavar="NAME", help="Format of OUTPUTS; default: detected.")
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
@click.option(
    "--conventions",
    default="auto",
    show_default=True,
    type=click.Choice(PRESETS),
    help="Conventions of the metrics; auto is trec for qrels or a BEIR folder, else auepora.",
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
@judging_options
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--per-query", is_flag=True, help="With --json: the score of every sample too; with .csv: those alone.")
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    help="Write to this file (.json: JSON, .csv: CSV, .md: Markdown, else the table) instead of printing.",
)
def command(
    dataset: str | None,
    outputs: str | None,
    sample_format: str | None,
    outputs_format: str | None,
    corpus: str | None,
    nuggets: str | None,
    qrels: str | None,
    run_file: str | None,
    metrics: tuple[str, ...],
    conventions: str,
    min_relevance: int | None,
    complete: bool,
    depth: int | None,
    duplicates: str | None,
    executor: ExecutorChoice,
    batch_size: int | None,
    parts: str | None,
    slices: tuple[str, ...],
    lean: bool,
    judge: JudgeOptions,
    judging: JudgingOptions,
    as_json: bool,
    per_query: bool,
    output: str | None,
) -> None:
    """Score saved OUTPUTS against a DATASET, or a TREC run against its judgements.

    Files may be of any size. Formats are detected unless they are given. Leave out OUTPUTS for a format that keeps
    samples and outputs in one file. A directory or a quoted glob stands for many JSONL or Parquet files.

    Without -m, every metric that the data supports is computed. Results are written to stdout, messages to stderr. The
    exit code is 3 if more than half of the samples are system failures, or if a judge metric has no scored sample;
    otherwise 0.

    \b
    auepora score data.jsonl outputs.jsonl
    auepora score data.jsonl outputs.jsonl -m recall@5 -m rougeL_answer --json
    auepora score data.jsonl outputs.jsonl --slice labels.lang --slice metadata.source
    auepora score --qrels qrels.txt --run run.txt -m map -m ndcg@10
    auepora score data.jsonl outputs.jsonl -m nugget_recall --nuggets nuggets.jsonl --plan plan.yaml
    auepora score data.jsonl outputs.jsonl -m llm_faithfulness --plan plan.yaml --preview
    auepora score 'data/*.parquet' 'out/*.parquet' --executor ray --parts scores --lean
    """
    from ..core.engine import BATCH_SIZE
    from .data_warnings import show_warnings
    from .output import output_format, refuse_input_as_output, render_results, require_per_query, write_out
    from .run_progress import STOPPED_EARLY
    from .score_files import detect_data_files, preview_files, score_files
    from .score_shards import ShardedFiles, preview_shards, score_shards, wants_shards
    from .specs import alias_notes, parse_specs

    trec = qrels is not None or run_file is not None
    if trec and (dataset is not None or qrels is None or run_file is None):
        raise click.UsageError("give --qrels and --run together and nothing else, or DATASET and OUTPUTS")
    if trec and (executor != ExecutorChoice() or parts is not None or batch_size is not None):
        raise click.UsageError(
            "a TREC run is scored in one process and at once: leave out --executor, --workers, --address, --batch-size "
            "and --parts"
        )
    if trec and (judging.preview or judge != JudgeOptions()):
        raise click.UsageError("a TREC run has no answers to judge: leave out --preview, --plan and --judge-model")
    if trec and (corpus is not None or nuggets is not None):
        raise click.UsageError("a TREC run is scored by its ids: leave out --corpus and --nuggets")
    if trec and slices:
        raise click.UsageError("queries of a TREC run have neither labels nor metadata to slice by: leave out --slice")
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
    choices = _convention_options(min_relevance, complete, depth, duplicates)

    def conventions_for(judged_pool: bool) -> tuple[Conventions, str]:
        rules, footer = _resolve_conventions(conventions, judged_pool, choices)
        for note in alias_notes(specs, rules):
            echo_err(note)
        return rules, footer

    if qrels is not None and run_file is not None and _needs_scores(specs):
        # The fast reader of TREC files keeps the order of documents, not their scores.
        dataset, outputs, qrels, run_file = qrels, run_file, None, None
        sample_format = outputs_format = "trec"
    if qrels is not None and run_file is not None:
        rules, footer = conventions_for(True)
        results = _score_trec(qrels, run_file, specs, rules)
    else:
        assert dataset is not None
        judges = judge.judges(judging.changes())
        specs = with_judge(specs, () if judges is None else judges.names)
        size = batch_size or BATCH_SIZE
        aided = corpus is not None or nuggets is not None
        if wants_shards(dataset, outputs, (sample_format, outputs_format), executor.name, parts, aided):
            shards = ShardedFiles(dataset, outputs, sample_format, outputs_format, size, parts)
            rules, footer = conventions_for(False)
            if judging.preview:
                would = preview_shards(shards, specs, rules, judges)
            else:
                results = score_shards(shards, specs, rules, executor, slices, lean=lean, judges=judges)
        else:
            files = detect_data_files(dataset, outputs, sample_format, outputs_format)
            rules, footer = conventions_for(files.judged_pool)
            if judging.preview:
                would = preview_files(files, specs, rules, judges, corpus=corpus, nuggets=nuggets)
            else:
                results = score_files(
                    files,
                    specs,
                    rules,
                    executor,
                    slices,
                    lean=lean,
                    corpus=corpus,
                    nuggets=nuggets,
                    judges=judges,
                    batch_size=size,
                )
        if judging.preview:
            write_out(preview_text(would, as_json=form == "json"), output)
            return
    show_warnings(results)
    write_out(render_results(results, form, footer, per_query=per_query), output)
    if results.failure is not None:
        echo_err(f"Error: {results.failure}", always=True)
        sys.exit(STOPPED_EARLY)


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


def _resolve_conventions(preset: str, judged_pool: bool, choices: dict[str, object]) -> tuple[Conventions, str]:
    """The conventions that the options select, and a line that names them."""
    from ..core.conventions import Conventions, auto_conventions

    rules = Conventions.of(auto_conventions(judged_pool=judged_pool) if preset == "auto" else preset, **choices)
    chosen = [f"{rules.name} (auto)" if preset == "auto" else rules.name]
    chosen += [f"{key} {value}" for key, value in choices.items()]
    return rules, f"conventions: {', '.join(chosen)}"


def _score_trec(qrels_path: str, run_path: str, metrics: Sequence[Spec], conventions: Conventions) -> Results:
    from ..core.engine import resolve_metrics
    from ..core.suggest import specs_for
    from ..io.grades import provenance_counts_by_query
    from ..io.trec_scores import read_trec
    from ..reporting.progress import progress
    from .data_warnings import warn_unmatched_ids

    chosen = list(metrics) or specs_for({"relevant_docs"}, {"retrieved"}, conventions=conventions, bare_ids=True)
    resolved = resolve_metrics(chosen, conventions)  # report a misspelt metric before reading the files
    with progress(f"reading {qrels_path} and {run_path}"):
        rankings = read_trec(qrels_path, run_path)
    warn_unmatched_ids(rankings.missing, rankings.unjudged, total=len(rankings.ids), conventions=conventions)
    provenance = provenance_counts_by_query(qrels_path)
    if provenance is None:
        with progress("scoring"):
            return _with_warnings(rankings.evaluate(chosen, conventions=conventions), qrels_path, run_path)
    from ..pooling.judged_coverage import JudgedCoverage

    total: Counter[str] = sum(map(Counter, provenance.values()), Counter())
    coverage = JudgedCoverage(resolved, total)
    with progress("scoring"):
        every = rankings.evaluate([*resolved, *coverage.metrics], conventions=conventions)
    return _with_warnings(coverage.annotate(every), qrels_path, run_path)


def _with_warnings(results: Results, qrels_path: str, run_path: str) -> Results:
    """The results, with the failure of the run and data warnings; if no document is a hit, files are read again."""
    from ..core.data_checks import IdCheck, no_hit_warning
    from ..core.mass_failures import mass_failure

    results.failure = mass_failure(results)
    warning, check = no_hit_warning(results), IdCheck()
    if warning is not None and all(Path(path).is_file() for path in (qrels_path, run_path)):
        from ..io.trec import load_qrels, load_run

        rankings = load_run(run_path)
        for query, judged in load_qrels(qrels_path).items():
            check.add([doc_id for doc_id, level in judged.items() if level > 0], rankings.get(query, []))
    results.warnings = list(filter(None, [warning, check.warning()]))
    return results
