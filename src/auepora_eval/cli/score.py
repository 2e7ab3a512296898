"""``auepora score``: score saved outputs from single files, many files, or a TREC run."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from ..core.types import GOLD_BY
from .console import echo_err, quiet_option
from .judge_options import (
    STOPPED_EARLY,
    JudgeOptions,
    JudgingOptions,
    ScoringProgress,
    attach_usage,
    judge_options,
    judge_policy,
    make_judge_session,
    preview_text,
    scoring_judge_options,
    with_judge,
)
from .options import (
    ExecutorChoice,
    alias_notes,
    columns_option,
    executor_options,
    match_option,
    output_format,
    parse_specs,
    raw_option,
    refuse_input_as_output,
    render_results,
    require_per_query,
    show_warnings,
    warn_unmatched_ids,
    write_out,
)

if TYPE_CHECKING:
    from ..core.conventions import Conventions, Match
    from ..core.metrics_base import Metric
    from ..core.registry import Spec
    from ..core.results import Results
    from ..core.types import EvaluationSample, SystemOutputs
    from ..engine.executors import BatchSource, Executor
    from ..engine.gold_match import GoldReading, MatchChoice, Pair
    from ..io.join import PairStream
    from ..io.trec_format import TrecRankings
    from ..judge.preview import Preview
    from ..plan.resources import PlannedJudges
    from ..runs.scoring import JudgedCoverage
    from ..scale.checkpoint import CheckpointExecutor
    from ..scale.sharded import ShardedInput
    from .options import ExecutorChoice

PRESETS = ("auto", "auepora", "paper", "paper-positives", "golden", "client", "trec")


@click.command(name="score")
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
    auepora score answers.csv --columns query=Question,response=Answer,contexts=Contexts,reference=Expected
    auepora score data.jsonl outputs.jsonl --slice labels.lang --slice metadata.source
    auepora score --qrels qrels.txt --run run.txt -m map -m ndcg@10
    auepora score data.jsonl outputs.jsonl -m nugget_recall --nuggets nuggets.jsonl --plan plan.yaml
    auepora score data.jsonl outputs.jsonl -m llm_faithfulness --plan plan.yaml --preview
    auepora score 'data/*.parquet' 'out/*.parquet' --executor ray --parts scores --lean
    """
    from ..engine.evaluate import BATCH_SIZE
    from ..io.formats import is_sharded

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
            if parts is not None or any(is_sharded(one) for one in (dataset, outputs) if one is not None):
                raise click.UsageError("--columns goes with one DATASET file and one of OUTPUTS, and without --parts")
            is_split = False
        else:
            is_split = wants_shards(dataset, outputs, (sample_format, outputs_format), executor.name, parts, aided)
        if is_split:
            data = ShardInput(dataset, outputs, sample_format, outputs_format, parts)
        else:
            data = FileInput(dataset, outputs, sample_format, outputs_format, corpus, nuggets, columns, outputs_columns)
    changes = _convention_options(min_relevance, complete, depth, duplicates)
    if match != "auto":
        changes["match"] = match
    rules, footer = _resolve_conventions(conventions, data.judged_pool, changes)
    judges = judge.judges(judging.changes())
    specs = with_judge(specs, () if judges is None else judges.names)
    options = ScoreOptions(specs, rules, executor, slices, lean, batch_size or BATCH_SIZE, judges, match=match)
    for note in alias_notes(specs, rules):
        echo_err(note)
    if judging.preview:
        write_out(preview_text(estimate_judging(data, options), as_json=form == "json"), output)
        return
    results = score(data, options)
    show_warnings(results)
    if data.options.conventions != rules:
        footer += f", match {data.options.conventions.match}"
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


# --- scoring: the same steps for every kind of input ------------------------------------------------------------------

PROBE_SAMPLES = 64
"""Number of samples read to detect whether gold has provenance."""
CHECKED_SAMPLES = 1000
"""Number of samples of shards that are read again for data warnings."""


@dataclass(frozen=True, slots=True)
class ScoreOptions:
    """What to score, and how."""

    specs: Sequence[Spec]
    conventions: Conventions
    executor: ExecutorChoice
    slices: Sequence[str]
    lean: bool
    batch_size: int
    judges: PlannedJudges | None
    match: MatchChoice = "auto"

    def metrics(self, *, need_key: bool = True) -> list[Metric]:
        """The metrics, with the judges they refer to."""
        from ..core.registry import use_resources
        from ..engine.evaluate import resolve_metrics

        if self.judges is None:
            return resolve_metrics(self.specs, self.conventions)
        from ..plan.resources import used_resources

        with use_resources(self.judges.build(list(used_resources(list(self.specs))), need_key=need_key)):
            return resolve_metrics(self.specs, self.conventions)


class ScoreInput(ABC):
    """Samples and outputs to score. Subclasses differ in how they are read."""

    judged_pool = False
    """Whether the samples come from a judged pool, such as TREC qrels."""
    total: int | None = None
    """Number of samples, as far as it is known."""
    missing: Sequence[str] = ()
    """Ids of samples without an output, known after the evaluation."""
    unknown: Sequence[str] = ()
    """Ids of outputs that no sample has."""
    options: ScoreOptions
    gold: GoldReading | None = None
    """How gold is matched, where a metric depends on it."""

    @abstractmethod
    def open(self, options: ScoreOptions, executor: Executor) -> AbstractContextManager[None]:
        """Open the files."""

    @abstractmethod
    def prepare(self, metrics: list[Metric]) -> list[Metric]:
        """Prepare the evaluation of these metrics, or of all that the data supports, and return them."""

    def match_gold(self, metrics: list[Metric], pairs: Iterable[Pair], *, stored: Match | None = None) -> list[Metric]:
        """Decide how gold is matched, unless no metric depends on it; the metrics that match it in this way."""
        from ..core.metrics_base import with_match
        from ..engine.gold_match import GoldReading, depends_on_match

        if metrics and not depends_on_match(metrics):
            return metrics
        rules = self.options.conventions
        self.gold = GoldReading(pairs, rules, self.options.match, stored=stored)
        match = self.gold.resolved.match
        self.options = replace(self.options, conventions=replace(rules, match=match))
        return [with_match(metric, match) for metric in metrics]

    def coverage(self, metrics: Sequence[Metric]) -> JudgedCoverage | None:
        """The coverage of judged documents, if gold has provenance."""
        if not self.has_provenance():
            return None
        from ..runs.scoring import JudgedCoverage

        return JudgedCoverage(metrics)

    @abstractmethod
    def has_provenance(self) -> bool:
        """Whether gold has provenance: that of the first samples, or of a file beside them."""

    @abstractmethod
    def evaluate(self, metrics: list[Metric], **common: Any) -> Results:
        """Evaluate the metrics with these arguments of ``evaluate_stream``."""

    @abstractmethod
    def batches(self) -> Iterator[tuple[Sequence[EvaluationSample], Sequence[SystemOutputs | None]]]:
        """Read the samples and outputs, once more where that is possible."""

    def add_warnings(self, metrics: Sequence[Metric], results: Results) -> None:
        """Add data warnings that the evaluation does not give."""
        return


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
        results.failure = mass_failure(results, (one.error for one in outputs if one.error is not None))
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
        if chosen:
            data.prepare(chosen)
        for some, theirs in data.batches():
            samples += some
            outputs += theirs
    return preview(samples, outputs, chosen, JudgePolicy() if options.judges is None else judge_policy(options.judges))


def _has_provenance_file(path: str | Path) -> bool:
    from ..io.grades import provenance_path

    return provenance_path(path).exists()


def _note_format(path: str | None, named: str | None, found: str) -> None:
    """Print the format of a file if it was detected and is not the usual one."""
    if path is not None and named is None and found != "jsonl":
        from ..io.formats import get_format

        echo_err(f"reading {path} as {found} ({get_format(found).title})")


# --- TREC files: bare ids --------------------------------------------------------------------------------------------


class TrecInput(ScoreInput):
    """The files of a TREC run and its judgements."""

    judged_pool = True
    rankings: TrecRankings

    def __init__(self, qrels: str, run: str) -> None:
        self.qrels, self.run = qrels, run

    @contextmanager
    def open(self, options: ScoreOptions, executor: Executor) -> Iterator[None]:
        """Nothing stays open."""
        self.options = options
        yield

    def prepare(self, metrics: list[Metric]) -> list[Metric]:
        """Read the files."""
        from ..engine.evaluate import resolve_metrics
        from ..engine.suggest import specs_for
        from ..io.trec_format import read_trec
        from ..render.terminal import progress

        rules = self.options.conventions
        metrics = metrics or resolve_metrics(
            specs_for({"relevant_docs"}, {"retrieved"}, conventions=rules, bare_ids=True), rules
        )
        with progress(f"reading {self.qrels} and {self.run}"):
            self.rankings = read_trec(self.qrels, self.run)
        self.total = len(self.rankings.ids)
        warn_unmatched_ids(self.rankings.missing, self.rankings.unjudged, total=self.total, conventions=rules)
        return metrics

    def coverage(self, metrics: Sequence[Metric]) -> JudgedCoverage | None:
        """The coverage of judged documents, if the qrels have provenance."""
        from ..io.grades import provenance_counts_by_query

        if not self.has_provenance():
            return None
        from ..runs.scoring import JudgedCoverage

        provenance = provenance_counts_by_query(self.qrels) or {}
        total: Counter[str] = sum(map(Counter, provenance.values()), Counter())
        return JudgedCoverage(metrics, total)

    def has_provenance(self) -> bool:
        """Whether the qrels have provenance."""
        return _has_provenance_file(self.qrels)

    def evaluate(self, metrics: list[Metric], **common: Any) -> Results:
        """Evaluate the rankings at once, in this process."""
        rules = self.options.conventions
        return self.rankings.evaluate(metrics, conventions=rules, keep_scores=common["keep_scores"])

    def batches(self) -> Iterator[tuple[Sequence[EvaluationSample], Sequence[SystemOutputs | None]]]:
        """None: rankings have neither samples nor errors."""
        return iter(())

    def add_warnings(self, metrics: Sequence[Metric], results: Results) -> None:
        """Add a warning if no document is a hit, which reads the files again."""
        from ..engine.data_checks import IdCheck, no_hit_warning

        warning, check = no_hit_warning(results), IdCheck()
        if warning is not None and all(Path(path).is_file() for path in (self.qrels, self.run)):
            from ..io.trec import load_qrels, load_run

            rankings = load_run(self.run)
            for query, judged in load_qrels(self.qrels).items():
                check.add([doc_id for doc_id, level in judged.items() if level > 0], rankings.get(query, []))
        results.warnings = list(filter(None, [warning, check.warning()]))


# --- single files: pairs are streamed, and only scores are kept ------------------------------------------------------


class FileInput(ScoreInput):
    """A dataset and its outputs in one file each, or in one file together."""

    pairs: PairStream

    def __init__(
        self,
        dataset: str,
        outputs: str | None,
        sample_format: str | None = None,
        outputs_format: str | None = None,
        corpus: str | None = None,
        nuggets: str | None = None,
        columns: dict[str, str] | None = None,
        outputs_columns: dict[str, str] | None = None,
    ) -> None:
        """Detect the formats. Without ``outputs``, the dataset must contain them."""
        from ..io.join import resolve_format

        samples_kind = resolve_format(Path(dataset), "samples", sample_format, columns)
        if outputs is None:
            if not samples_kind.one_file:
                raise click.UsageError("give DATASET and OUTPUTS, or --qrels and --run")
            outputs, outputs_format, outputs_columns = dataset, outputs_format or sample_format, columns
        outputs_kind = resolve_format(Path(outputs), "outputs", outputs_format, outputs_columns)
        _note_format(dataset, sample_format, samples_kind.name)
        if outputs != dataset:
            _note_format(outputs, outputs_format, outputs_kind.name)
        self.samples, self.outputs = (Path(dataset), samples_kind), (Path(outputs), outputs_kind)
        self.corpus, self.nuggets = corpus, nuggets
        self.judged_pool = samples_kind.judged_pool

    @contextmanager
    def open(self, options: ScoreOptions, executor: Executor) -> Iterator[None]:
        """Open a stream of samples with their outputs, with texts of the corpus and nuggets added."""
        from ..io.corpus import Corpus, CorpusJoin
        from ..io.join import PairStream, count_lines
        from ..render.terminal import progress

        self.options = options
        known = None
        if self.nuggets is not None:
            from ..io.labels import NuggetsById

            known = NuggetsById(self.nuggets)
        with ExitStack() as open_files:
            corpus_join = None
            if self.corpus is not None:
                with progress(f"reading {self.corpus}"):
                    corpus_join = CorpusJoin(open_files.enter_context(Corpus.open(self.corpus)))
            self.pairs = PairStream(
                self.samples, self.outputs, keep_ids=not options.lean, corpus_join=corpus_join, nuggets=known
            )
            self.total = count_lines(self.pairs.samples_path)
            yield
            for source in (corpus_join, known):
                if source is not None:
                    source.report()

    def prepare(self, metrics: list[Metric]) -> list[Metric]:
        """Refuse metrics that the outputs do not support; metrics of the corpus get its ids."""
        from ..engine.suggest import require_retrieved, supported_metrics
        from ..render.terminal import progress

        if self.pairs.answers_only:
            require_retrieved(metrics, str(self.pairs.outputs_path))
        else:
            metrics = self.match_gold(metrics, self.pairs)
        if not metrics:
            with progress(f"looking through {self.pairs.samples_path}", self.total) as advance:
                metrics = supported_metrics(
                    self._chunks(), self.options.conventions, answers_only=self.pairs.answers_only, progress=advance
                )
        corpus_join = self.pairs.corpus_join
        if corpus_join is not None:
            from ..core.plan import with_corpus_ids

            metrics = with_corpus_ids(metrics, lambda: corpus_join.corpus.ids)
        return metrics

    def has_provenance(self) -> bool:
        """Whether gold has provenance; a pipe, which can be read once, has none."""
        from ..io.problems import Problems

        path, form = self.samples
        if form.name != "jsonl":
            return _has_provenance_file(path)
        if not path.is_file():
            return False
        first = islice(form.read("samples", path, Problems()), PROBE_SAMPLES)
        return any(GOLD_BY in read.sample.metadata for read in first)

    def evaluate(self, metrics: list[Metric], **common: Any) -> Results:
        """Evaluate the pairs as they are read."""
        from ..core.metrics_base import BatchMetric
        from ..engine.evaluate import evaluate, evaluate_stream

        common |= {"batch_size": self.options.batch_size, "conventions": self.options.conventions}
        pairs: Iterable[Pair] = self.pairs
        if self.gold is not None:
            pairs = self.gold.count(self.pairs if self._can_read_again() else self.gold.pairs())
        if all(isinstance(one, BatchMetric) for one in metrics):
            results = evaluate_stream(pairs, metrics, **common)
        else:  # a metric that is not a BatchMetric needs all samples at once
            every = list(pairs)
            results = evaluate([sample for sample, _ in every], [output for _, output in every], metrics, **common)
        self.missing, self.unknown, self.total = self.pairs.missing, self.pairs.unknown, self.pairs.total
        return results

    def batches(self) -> Iterator[tuple[Sequence[EvaluationSample], Sequence[SystemOutputs | None]]]:
        """Read the files again, unless one is a pipe."""
        if self._can_read_again():
            yield from self._chunks()

    def _can_read_again(self) -> bool:
        return self.pairs.samples_path.is_file() and self.pairs.outputs_path.is_file()

    def _chunks(self) -> Iterator[tuple[list[EvaluationSample], list[SystemOutputs | None]]]:
        stream = iter(self.pairs)
        while chunk := list(islice(stream, self.options.batch_size)):
            yield [sample for sample, _ in chunk], [output for _, output in chunk]


# --- many files: directories and globs, split into ranges that workers read ------------------------------------------


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
    from ..errors import DataFileError
    from ..io.formats import SPLIT_FORMATS, guess_format

    if sample_format is not None:
        return sample_format not in SPLIT_FORMATS
    try:
        return Path(path).is_dir() and guess_format(Path(path), "samples").name not in SPLIT_FORMATS
    except DataFileError:
        return False


class ShardInput(ScoreInput):
    """A dataset and its outputs in many files, which workers read in ranges."""

    sharded: ShardedInput
    executor: Executor

    def __init__(
        self,
        dataset: str,
        outputs: str | None,
        sample_format: str | None,
        outputs_format: str | None,
        parts: str | None,
    ) -> None:
        self.dataset, self.outputs = dataset, outputs
        self.sample_format, self.outputs_format = sample_format, outputs_format
        self.parts = parts

    @contextmanager
    def open(self, options: ScoreOptions, executor: Executor) -> Iterator[None]:
        """Nothing stays open: workers open the files."""
        self.options, self.executor = options, executor
        yield

    def prepare(self, metrics: list[Metric]) -> list[Metric]:
        """Split the files into ranges for the metrics."""
        from ..engine.suggest import supported_metrics
        from ..render.terminal import progress

        self._split(metrics)
        _note_format(self.dataset, self.sample_format, self.sharded.formats[0])
        _note_format(self.outputs, self.outputs_format, self.sharded.formats[1])
        if not self.sharded.answers_only:
            metrics = self.match_gold(metrics, self._pairs(self.sharded.sources), stored=self._stored_match())
        if not metrics:
            with progress(f"looking through {self.dataset}", self.total, rate=True) as advance:
                metrics = supported_metrics(
                    self.batches(),
                    self.options.conventions,
                    answers_only=self.sharded.answers_only,
                    progress=advance,
                )
            self._split(metrics)
        return metrics

    def _stored_match(self) -> Match | None:
        """How the evaluation that the checkpoint folder holds matches gold, where ``auto`` has decided it."""
        if self.parts is None or self.options.match != "auto":
            return None
        from ..scale.checkpoint import Manifest

        manifest = Manifest.load(Path(self.parts))
        return None if manifest is None else cast("Match", manifest.conventions.get("match", "id"))

    def _pairs(self, sources: Iterable[BatchSource]) -> Iterator[Pair]:
        for source in sources:
            yield from zip(*source.read(), strict=True)

    def _split(self, metrics: Sequence[Metric]) -> None:
        from ..render.terminal import progress
        from ..scale.sharded import make_mapper, sharded_input

        with progress(f"looking through {self.dataset}"):
            self.sharded = sharded_input(
                self.dataset,
                self.outputs,
                metrics,
                self.sample_format,
                self.outputs_format,
                batch_size=self.options.batch_size,
                mapper=make_mapper(self.executor),
            )
        self.total, self.missing, self.unknown = self.sharded.total, self.sharded.missing, self.sharded.unknown

    def has_provenance(self) -> bool:
        """Whether gold has provenance."""
        from ..scale.sharded import read_samples

        if self.sharded.formats[0] != "jsonl":
            return _has_provenance_file(self.dataset)
        runs = chain.from_iterable(source.samples for source in self.sharded.sources)
        first = islice((one.sample for run in runs for one in read_samples([run])), PROBE_SAMPLES)
        return any(GOLD_BY in sample.metadata for sample in first)

    def evaluate(self, metrics: list[Metric], **common: Any) -> Results:
        """Evaluate the ranges, with a checkpoint if there is a folder for one."""
        from ..scale.sharded import evaluate_sharded

        opened: list[CheckpointExecutor] = []
        results = evaluate_sharded(
            self.sharded,
            metrics,
            conventions=self.options.conventions,
            parts=self.parts,
            batch_size=self.options.batch_size,
            named=(self.dataset, self.outputs),
            on_checkpoint=opened.append,
            **common,
        )
        for one in opened:
            if one.read:
                echo_err(f"{one.read:,} of {self.total:,} samples were read from the checkpoint {self.parts}")
        return results

    def batches(self) -> Iterator[tuple[Sequence[EvaluationSample], Sequence[SystemOutputs | None]]]:
        """Read the ranges."""
        return (source.read() for source in self.sharded.sources)

    def add_warnings(self, metrics: Sequence[Metric], results: Results) -> None:
        """Add data warnings from the first samples, since workers read them; gold is counted in other ranges too."""
        from ..engine.data_checks import DataCheck

        check, seen = DataCheck(), 0
        for samples, outputs in self.batches():
            check.add(samples, outputs)
            seen += len(samples)
            if seen >= CHECKED_SAMPLES:
                break
        check.finish(metrics, results)
        if self.gold is not None:
            step = max(1, self.sharded.total // (3 * CHECKED_SAMPLES))
            for _ in self.gold.count(self._pairs(self.sharded.sources[::step])):
                pass
