"""``auepora score``: score saved outputs from single files, many files, or a TREC run."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .console import echo_err, quiet_option
from .judge_options import JudgeOptions, JudgingOptions, judge_options, judging_options, preview_text, with_judge
from .options import ExecutorChoice, executor_options

if TYPE_CHECKING:
    from ..core.conventions import Conventions
    from ..core.metrics_base import Metric
    from ..core.registry import Spec
    from ..core.results import Results
    from ..io.formats import Format
    from ..io.join import PairStream
    from ..judge.preview import Preview
    from ..plan.resources import PlannedJudges
    from ..runs.scoring import JudgedCoverage
    from ..scale.checkpoint import CheckpointExecutor
    from ..scale.index import Mapper
    from ..scale.sharded import ShardedInput
    from .options import ExecutorChoice

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
    from ..engine.evaluate import BATCH_SIZE
    from .judge_options import STOPPED_EARLY
    from .options import (
        alias_notes,
        output_format,
        parse_specs,
        refuse_input_as_output,
        render_results,
        require_per_query,
        show_warnings,
        write_out,
    )

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
    from ..engine.evaluate import resolve_metrics
    from ..engine.suggest import specs_for
    from ..io.grades import provenance_counts_by_query
    from ..io.trec_format import read_trec
    from ..render.terminal import progress
    from .options import warn_unmatched_ids

    chosen = list(metrics) or specs_for({"relevant_docs"}, {"retrieved"}, conventions=conventions, bare_ids=True)
    resolved = resolve_metrics(chosen, conventions)  # report a misspelt metric before reading the files
    with progress(f"reading {qrels_path} and {run_path}"):
        rankings = read_trec(qrels_path, run_path)
    warn_unmatched_ids(rankings.missing, rankings.unjudged, total=len(rankings.ids), conventions=conventions)
    provenance = provenance_counts_by_query(qrels_path)
    if provenance is None:
        with progress("scoring"):
            return _with_warnings(rankings.evaluate(chosen, conventions=conventions), qrels_path, run_path)
    from ..runs.scoring import JudgedCoverage

    total: Counter[str] = sum(map(Counter, provenance.values()), Counter())
    coverage = JudgedCoverage(resolved, total)
    with progress("scoring"):
        every = rankings.evaluate([*resolved, *coverage.metrics], conventions=conventions)
    return _with_warnings(coverage.annotate(every), qrels_path, run_path)


def _with_warnings(results: Results, qrels_path: str, run_path: str) -> Results:
    """The results, with the failure of the run and data warnings; if no document is a hit, files are read again."""
    from ..engine.data_checks import IdCheck, mass_failure, no_hit_warning

    results.failure = mass_failure(results)
    warning, check = no_hit_warning(results), IdCheck()
    if warning is not None and all(Path(path).is_file() for path in (qrels_path, run_path)):
        from ..io.trec import load_qrels, load_run

        rankings = load_run(run_path)
        for query, judged in load_qrels(qrels_path).items():
            check.add([doc_id for doc_id, level in judged.items() if level > 0], rankings.get(query, []))
    results.warnings = list(filter(None, [warning, check.warning()]))
    return results


# --- single files: pairs are streamed, and only scores are kept ------------------------------------------------------

PROBE_SAMPLES = 64
"""Number of samples read to detect whether gold has provenance."""
_CHUNK = 1024
"""Number of pairs per chunk."""


@dataclass(frozen=True, slots=True)
class DataFiles:
    """The paths and formats of a dataset and its outputs."""

    samples: tuple[Path, Format]
    outputs: tuple[Path, Format]

    @property
    def judged_pool(self) -> bool:
        """Whether the samples come from a judged pool, such as TREC qrels."""
        return self.samples[1].judged_pool


def detect_data_files(
    dataset: str, outputs: str | None, sample_format: str | None = None, outputs_format: str | None = None
) -> DataFiles:
    """The files with their formats; prints detected formats. Without ``outputs``, the dataset must contain them."""
    from ..io.join import resolve_format

    samples_path = Path(dataset)
    samples_kind = resolve_format(samples_path, "samples", sample_format)
    if outputs is None:
        if not samples_kind.one_file:
            raise click.UsageError("give DATASET and OUTPUTS, or --qrels and --run")
        outputs, outputs_format = dataset, outputs_format or samples_kind.name
    outputs_path = Path(outputs)
    outputs_kind = resolve_format(outputs_path, "outputs", outputs_format)
    for path, named, found in ((dataset, sample_format, samples_kind), (outputs, outputs_format, outputs_kind)):
        if named is None and found.name != "jsonl":
            echo_err(f"reading {path} as {found.name} ({found.title})")
    return DataFiles((samples_path, samples_kind), (outputs_path, outputs_kind))


def score_files(
    files: DataFiles,
    metrics: Sequence[Spec],
    conventions: Conventions,
    executor: ExecutorChoice,
    slices: Sequence[str],
    *,
    lean: bool = False,
    corpus: str | None = None,
    nuggets: str | None = None,
    judges: PlannedJudges | None = None,
    batch_size: int,
) -> Results:
    """Score the files; without ``metrics``, compute all that the data supports."""
    from ..core.slices import parse_slices

    chosen = metrics_with_judges(metrics, conventions, judges)
    groups = parse_slices(list(dict.fromkeys(slices)))
    with executor.open_executor() as scoring, _open_pairs(files, corpus, nuggets, keep_ids=not lean) as pairs:
        common = {"executor": scoring, "slices": groups, "keep_scores": not lean, "batch_size": batch_size}
        return _score_pairs(
            pairs, chosen, conventions, common, judges, suggest=not metrics, has_provenance=_gold_has_provenance(files)
        )


def preview_files(
    files: DataFiles,
    metrics: Sequence[Spec],
    conventions: Conventions,
    judges: PlannedJudges | None,
    *,
    corpus: str | None = None,
    nuggets: str | None = None,
) -> Preview:
    """Estimate the judge calls and cost for the files."""
    from ..judge.critic import JudgePolicy
    from ..judge.preview import preview
    from ..render.terminal import progress
    from .judge_options import judge_policy

    chosen = metrics_with_judges(metrics, conventions, judges, need_key=False)
    with _open_pairs(files, corpus, nuggets, keep_ids=True) as pairs, progress(f"reading {pairs.samples_path}"):
        every = list(pairs)
    policy = JudgePolicy() if judges is None else judge_policy(judges)
    return preview([sample for sample, _ in every], [output for _, output in every], chosen, policy)


def metrics_with_judges(
    metrics: Sequence[Spec], conventions: Conventions, judges: PlannedJudges | None, *, need_key: bool = True
) -> list[Metric]:
    """Build the metrics, with the judges they refer to."""
    from ..core.registry import use_resources
    from ..engine.evaluate import resolve_metrics

    if judges is None:
        return resolve_metrics(metrics, conventions)
    from ..plan.resources import used_resources

    with use_resources(judges.build(list(used_resources(list(metrics))), need_key=need_key)):
        return resolve_metrics(metrics, conventions)


@contextmanager
def _open_pairs(files: DataFiles, corpus: str | None, nuggets: str | None, *, keep_ids: bool) -> Iterator[PairStream]:
    """Open a stream of samples with their outputs, with texts of the corpus and nuggets added."""
    from ..io.corpus import Corpus, CorpusJoin
    from ..io.join import PairStream
    from ..render.terminal import progress

    known = None
    if nuggets is not None:
        from ..io.labels import NuggetsById

        known = NuggetsById(nuggets)
    with ExitStack() as open_files:
        corpus_join = None
        if corpus is not None:
            with progress(f"reading {corpus}"):
                corpus_join = CorpusJoin(open_files.enter_context(Corpus.open(corpus)))
        yield PairStream(files.samples, files.outputs, keep_ids=keep_ids, corpus_join=corpus_join, nuggets=known)
        for source in (corpus_join, known):
            if source is not None:
                source.report()


def _score_pairs(
    pairs: PairStream,
    chosen: Sequence[Metric],
    conventions: Conventions,
    common: dict[str, Any],
    judges: PlannedJudges | None,
    *,
    suggest: bool,
    has_provenance: bool,
) -> Results:
    from ..engine.data_checks import mass_failure
    from ..engine.evaluate import resolve_metrics
    from ..engine.suggest import metrics_needing_retrieved, require_retrieved
    from .options import warn_unmatched_ids

    if pairs.answers_only:
        require_retrieved(chosen, str(pairs.outputs_path))
    if suggest:
        chosen = resolve_metrics(_supported_specs(pairs, conventions), conventions)
        if pairs.answers_only:  # without rankings, retrieval metrics would be 0 instead of undefined
            unsupported = metrics_needing_retrieved(chosen)
            chosen = [one for one in chosen if one.name not in unsupported]
    corpus_join = pairs.corpus_join
    if corpus_join is not None:
        from ..core.plan import with_corpus_ids

        chosen = with_corpus_ids(chosen, lambda: corpus_join.corpus.ids)
    if has_provenance:
        from ..runs.scoring import JudgedCoverage

        coverage = JudgedCoverage(chosen)
        results = coverage.annotate(_evaluate_pairs(pairs, [*chosen, *coverage.metrics], common, judges))
    else:
        results = _evaluate_pairs(pairs, chosen, common, judges)
    warn_unmatched_ids(pairs.missing, pairs.unknown, total=pairs.total, conventions=conventions)
    results.failure = mass_failure(results, _errors(pairs))
    return results


def _errors(pairs: PairStream) -> Iterator[str]:
    """The error messages of outputs, if the files can be read again."""
    if pairs.samples_path.is_file() and pairs.outputs_path.is_file():
        yield from (output.error for _, output in pairs if output is not None and output.error is not None)


def _gold_has_provenance(files: DataFiles) -> bool:
    """Whether gold has provenance, judged by the first samples of the file."""
    from ..core.types import GOLD_BY
    from ..io.problems import Problems

    path, form = files.samples
    if form.name != "jsonl":
        from ..io.grades import provenance_path

        return provenance_path(path).exists()
    if not path.is_file() or form.read_samples is None:  # a pipe can be read once
        return False
    first = itertools.islice(form.read_samples(path, Problems()), PROBE_SAMPLES)
    return any(GOLD_BY in read.sample.metadata for read in first)


def _supported_specs(pairs: PairStream, conventions: Conventions) -> list[str]:
    from ..engine.suggest import AvailableFields
    from ..io.join import count_lines
    from ..render.terminal import progress

    seen, stream = AvailableFields(), iter(pairs)
    with progress(f"looking through {pairs.samples_path}", count_lines(pairs.samples_path)) as advance:
        while chunk := list(itertools.islice(stream, _CHUNK)):
            seen.add([sample for sample, _ in chunk], [output for _, output in chunk])
            advance(len(chunk))
    return seen.specs(conventions)


def _evaluate_pairs(
    pairs: PairStream,
    metrics: Sequence[Metric],
    common: dict[str, Any],
    judges: PlannedJudges | None,
) -> Results:
    from ..core.metrics_base import BatchMetric
    from ..engine.evaluate import evaluate, evaluate_stream
    from ..io.join import count_lines
    from .judge_options import ScoringProgress, attach_usage, make_judge_session

    with ScoringProgress() as line:
        session = None if judges is None else make_judge_session(judges, line)
        common = {
            **common,
            "executor": line.counting_executor(common["executor"]),
            "judging": session,
            "progress": line.start_scoring(count_lines(pairs.samples_path)),
        }
        if all(isinstance(one, BatchMetric) for one in metrics):
            results = evaluate_stream(pairs, metrics, **common)
        else:  # a metric that is not a BatchMetric needs all samples at once
            every = list(pairs)
            results = evaluate([sample for sample, _ in every], [output for _, output in every], metrics, **common)
    if session is not None:
        attach_usage(results, session)
    return results


# --- many files: directories and globs, split into ranges that workers read ------------------------------------------

CHECKED_SAMPLES = 1000
"""Number of samples read again for data warnings."""


@dataclass(frozen=True, slots=True)
class ShardedFiles:
    """A dataset and its outputs in many files, their formats, and the checkpoint folder."""

    dataset: str
    outputs: str | None
    sample_format: str | None
    outputs_format: str | None
    batch_size: int
    parts: str | None = None

    def split_for(self, metrics: Sequence[Metric], mapper: Mapper = map) -> ShardedInput:
        """Split the files into ranges for these metrics."""
        from ..render.terminal import progress
        from ..scale.sharded import sharded_input

        with progress(f"looking through {self.dataset}"):
            return sharded_input(
                self.dataset,
                self.outputs,
                metrics,
                self.sample_format,
                self.outputs_format,
                batch_size=self.batch_size,
                mapper=mapper,
            )


def wants_shards(
    dataset: str,
    outputs: str | None,
    formats: tuple[str | None, str | None],
    executor: str | None,
    parts: str | None,
    corpus: bool,
) -> bool:
    """Whether to read these files in ranges: if there are many, with a checkpoint, or with Ray workers."""
    from ..io.formats import is_sharded

    sample_format, outputs_format = formats

    paths = [one for one in (dataset, outputs) if one is not None]
    many = [one for one in paths if is_sharded(one) and not _is_one_dataset(one, sample_format)]
    if (many or parts is not None) and corpus:
        raise click.UsageError("--corpus goes with one DATASET file and one of OUTPUTS, and without --parts")
    if many or parts is not None:
        return True
    if executor != "ray" or corpus:
        return False
    from ..scale.inputs import can_be_split

    # A file that cannot be split is read here and sent in batches.
    return can_be_split(dataset, "samples", sample_format) and (
        outputs is None or can_be_split(outputs, "outputs", outputs_format)
    )


def _is_one_dataset(path: str, sample_format: str | None) -> bool:
    """Whether a directory is one dataset, such as a BEIR folder, and not many files."""
    from pathlib import Path

    from ..errors import DataFileError
    from ..io.formats import SPLIT_FORMATS, guess_format

    if sample_format is not None:
        return sample_format not in SPLIT_FORMATS
    try:
        return Path(path).is_dir() and guess_format(Path(path), "samples").name not in SPLIT_FORMATS
    except DataFileError:
        return False


def score_shards(
    files: ShardedFiles,
    metrics: Sequence[Spec],
    conventions: Conventions,
    executor: ExecutorChoice,
    slices: Sequence[str],
    *,
    lean: bool = False,
    judges: PlannedJudges | None = None,
) -> Results:
    """Score the files; without ``metrics``, compute all that the data supports."""
    from ..core.slices import parse_slices
    from ..engine.data_checks import mass_failure
    from ..scale.sharded import evaluate_sharded, make_mapper
    from .judge_options import ScoringProgress, attach_usage, make_judge_session
    from .options import warn_unmatched_ids

    chosen = metrics_with_judges(metrics, conventions, judges)
    groups = parse_slices(list(dict.fromkeys(slices)))
    opened: list[CheckpointExecutor] = []
    with executor.open_executor() as scoring, ScoringProgress() as line:
        mapper = make_mapper(scoring)
        found = files.split_for(chosen, mapper)
        _echo_formats(files, found)
        if not chosen:
            chosen = _supported_metrics(files, found, conventions)
            found = files.split_for(chosen, mapper)
        session = None if judges is None else make_judge_session(judges, line)
        coverage = _judged_coverage(files, found, chosen)
        results = evaluate_sharded(
            found,
            chosen if coverage is None else [*chosen, *coverage.metrics],
            line.counting_executor(scoring),
            conventions=conventions,
            slices=groups,
            parts=files.parts,
            batch_size=files.batch_size,
            named=(files.dataset, files.outputs),
            keep_scores=not lean,
            judging=session,
            progress=line.start_scoring(found.total),
            on_checkpoint=opened.append,
        )
    if coverage is not None:
        results = coverage.annotate(results)
    _add_data_warnings(found, chosen, results)
    if session is not None:
        attach_usage(results, session)
    for one in opened:
        if one.read:
            echo_err(f"{one.read:,} of {found.total:,} samples were read from the checkpoint {files.parts}")
    warn_unmatched_ids(found.missing, found.unknown, total=found.total, conventions=conventions)
    outputs = (output for source in found.sources for output in source.read()[1])
    results.failure = mass_failure(results, (one.error for one in outputs if one is not None and one.error is not None))
    return results


def _add_data_warnings(found: ShardedInput, metrics: Sequence[Metric], results: Results) -> None:
    """Add data warnings to the results, from the first samples."""
    from ..engine.data_checks import DataCheck

    check, seen = DataCheck(), 0
    for source in found.sources:
        samples, outputs = source.read()
        check.add(samples, outputs)
        seen += len(samples)
        if seen >= CHECKED_SAMPLES:
            break
    check.finish(metrics, results)


def _judged_coverage(files: ShardedFiles, found: ShardedInput, metrics: Sequence[Metric]) -> JudgedCoverage | None:
    """The coverage of judged documents, if gold has provenance; as for single files."""
    from ..io.grades import provenance_path
    from ..runs.scoring import JudgedCoverage, has_gold_provenance
    from ..scale.index import read_samples

    if found.formats[0] != "jsonl":
        return JudgedCoverage(metrics) if provenance_path(files.dataset).exists() else None
    runs = chain.from_iterable(source.samples for source in found.sources)
    first = islice((one.sample for run in runs for one in read_samples([run])), PROBE_SAMPLES)
    return JudgedCoverage(metrics) if has_gold_provenance(first) else None


def _echo_formats(files: ShardedFiles, found: ShardedInput) -> None:
    from ..io.formats import get_format

    named = (files.dataset, files.sample_format), (files.outputs, files.outputs_format)
    for (path, format_name), kind in zip(named, found.formats, strict=True):
        if path is not None and format_name is None and kind != "jsonl":
            echo_err(f"reading {path} as {kind} ({get_format(kind).title})")


def preview_shards(
    files: ShardedFiles, metrics: Sequence[Spec], conventions: Conventions, judges: PlannedJudges | None
) -> Preview:
    """Estimate the judge calls and cost for the files."""
    from ..judge.critic import JudgePolicy
    from ..judge.preview import preview
    from .judge_options import judge_policy

    chosen = metrics_with_judges(metrics, conventions, judges, need_key=False)
    samples: list[Any] = []
    outputs: list[Any] = []
    for source in files.split_for(chosen).sources:
        own, theirs = source.read()
        samples += own
        outputs += theirs
    return preview(samples, outputs, chosen, JudgePolicy() if judges is None else judge_policy(judges))


def _supported_metrics(files: ShardedFiles, found: ShardedInput, conventions: Conventions) -> list[Metric]:
    from ..render.terminal import progress
    from ..scale.sharded import supported_metrics

    with progress(f"looking through {files.dataset}", found.total, rate=True) as advance:
        return supported_metrics(found, conventions, advance)
