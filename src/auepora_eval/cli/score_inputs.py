"""What ``auepora score`` reads: samples and outputs of single files, of many files, or of a TREC run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..core.conventions import Conventions, Match
from ..core.metrics_base import BatchMetric, Metric, with_match
from ..core.plan import with_corpus_ids
from ..core.registry import Spec, use_resources
from ..core.results import Results
from ..core.types import GOLD_BY, EvaluationSample, SystemOutputs, TargetCategory
from ..engine.data_checks import IdCheck, no_hit_warning
from ..engine.evaluate import evaluate, evaluate_stream, resolve_metrics
from ..engine.executors import Executor
from ..engine.gold_match import GoldReading, MatchChoice, Pair, depends_on_match
from ..errors import DataFileError
from ..io.formats import SPLIT_FORMATS, get_format, guess_format, is_sharded
from ..io.join import PairStream, count_lines, dataset_of, resolve_format
from ..io.problems import Problems
from ..render.terminal import progress
from .console import echo_err
from .options import ExecutorChoice

if TYPE_CHECKING:
    from ..io.trec_format import TrecRankings
    from ..plan.resources import PlannedJudges
    from ..runs.coverage import JudgedCoverage

Batches = Iterable[tuple[Sequence[EvaluationSample], Sequence[SystemOutputs | None]]]
PROBE_SAMPLES = 64
"""Number of samples read to detect whether gold has provenance."""


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
    targets: tuple[TargetCategory, ...] = ()
    judged: frozenset[str] = frozenset()
    """The names of metrics of ``specs`` that are computed only where the data supports them."""

    def metrics(self, *, need_key: bool = True) -> list[Metric]:
        """The metrics, with the judges they refer to."""
        if self.judges is None:
            return resolve_metrics(self.specs, self.conventions)
        from ..plan.resources import used_resources

        with use_resources(self.judges.build(list(used_resources(list(self.specs))), need_key=need_key)):
            return resolve_metrics(self.specs, self.conventions)


class ScoreInput(ABC):
    """Samples and outputs to score. Subclasses differ in how they are read."""

    auto_preset = "auepora"
    """The conventions that ``auto`` means for these samples."""
    total: int | None = None
    """Number of samples, as far as it is known."""
    missing: Sequence[str] = ()
    """Ids of samples without an output, known after the evaluation."""
    unknown: Sequence[str] = ()
    """Ids of outputs that no sample has."""
    options: ScoreOptions
    gold: GoldReading | None = None
    """How gold is matched, where a metric depends on it."""

    executor: Executor

    @contextmanager
    def open(self, options: ScoreOptions, executor: Executor) -> Iterator[None]:
        """Open the files, if any stay open."""
        self.options, self.executor = options, executor
        yield

    @abstractmethod
    def prepare(self, metrics: list[Metric]) -> list[Metric]:
        """Prepare the evaluation of these metrics, or of all that the data supports, and return them."""

    def match_gold(self, metrics: list[Metric], pairs: Iterable[Pair], *, stored: Match | None = None) -> list[Metric]:
        """Decide how gold is matched, unless no metric depends on it; the metrics that match it in this way."""
        if metrics and not self.options.targets and not depends_on_match(metrics):
            return metrics
        rules = self.options.conventions
        self.gold = GoldReading(pairs, rules, self.options.match, stored=stored)
        match = self.gold.resolved.match
        self.options = replace(self.options, conventions=replace(rules, match=match))
        return [with_match(metric, match) for metric in metrics]

    def with_supported(
        self, metrics: list[Metric], batches: Batches, *, answers_only: bool, advance: Callable[[int], None]
    ) -> list[Metric]:
        """The metrics, with those that the data supports for the targets; without targets, all that it supports."""
        from ..engine.suggest import supported_metrics

        options, rules = self.options, self.options.conventions
        if not options.targets:
            return supported_metrics(batches, rules, answers_only=answers_only, progress=advance)
        from ..engine.targets import TargetFields

        fields = TargetFields(options.targets)
        for samples, outputs in batches:
            fields.add(samples, outputs)
            advance(len(samples))
        return fields.choose(metrics, rules, retrieves=not answers_only, judged=options.judged)

    def coverage(self, metrics: Sequence[Metric]) -> JudgedCoverage | None:
        """The coverage of judged documents, if gold has provenance."""
        if not self.has_provenance():
            return None
        from ..runs.coverage import JudgedCoverage

        return JudgedCoverage(metrics, self.count_grades())

    def count_grades(self) -> Mapping[str, int] | None:
        """The number of grades by provenance, if the samples do not record it."""
        return None

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


def has_provenance_file(path: str | Path) -> bool:
    """Whether a file beside this one names the annotators of its gold."""
    from ..io.grades import provenance_path

    return provenance_path(path).exists()


def note_format(path: str | None, named: str | None, found: str) -> None:
    """Print the format of a file if it was detected and is not the usual one."""
    if path is not None and named is None and found != "jsonl":
        echo_err(f"reading {path} as {found} ({get_format(found).title})")


# --- TREC files: bare ids --------------------------------------------------------------------------------------------


class TrecInput(ScoreInput):
    """The files of a TREC run and its judgements."""

    auto_preset = "trec"
    rankings: TrecRankings

    def __init__(self, qrels: str, run: str) -> None:
        self.qrels, self.run = qrels, run

    def prepare(self, metrics: list[Metric]) -> list[Metric]:
        """Read the files."""
        from ..io.trec_format import read_trec

        rules, targets = self.options.conventions, self.options.targets
        if targets or not metrics:
            from ..engine.suggest import specs_for, with_specs

            specs = specs_for({"relevant_docs"}, {"retrieved"}, conventions=rules, bare_ids=True, targets=targets)
            metrics = with_specs(metrics, specs, rules)
        if targets:
            from ..engine.targets import check_support, support_by_specs

            check_support(support_by_specs(targets, specs, missing="a TREC run has rankings alone"))
        with progress(f"reading {self.qrels} and {self.run}"):
            self.rankings = read_trec(self.qrels, self.run)
        self.total = len(self.rankings.ids)
        self.missing, self.unknown = self.rankings.missing, self.rankings.unjudged
        return metrics

    def count_grades(self) -> Mapping[str, int] | None:
        """The number of grades by provenance."""
        from ..io.grades import provenance_counts_by_query

        provenance = provenance_counts_by_query(self.qrels) or {}
        return sum(map(Counter, provenance.values()), Counter[str]())

    def has_provenance(self) -> bool:
        """Whether the qrels have provenance."""
        return has_provenance_file(self.qrels)

    def evaluate(self, metrics: list[Metric], **common: Any) -> Results:
        """Evaluate the rankings at once, in this process."""
        rules = self.options.conventions
        return self.rankings.evaluate(metrics, conventions=rules, keep_scores=common["keep_scores"])

    def batches(self) -> Iterator[tuple[Sequence[EvaluationSample], Sequence[SystemOutputs | None]]]:
        """None: rankings have neither samples nor errors."""
        return iter(())

    def add_warnings(self, metrics: Sequence[Metric], results: Results) -> None:
        """Add a warning if no document is a hit, which reads the files again."""
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
        samples_kind = resolve_format(Path(dataset), "samples", sample_format, columns)
        if outputs is None:
            if not samples_kind.one_file:
                raise click.UsageError("give DATASET and OUTPUTS, or --qrels and --run")
            outputs, outputs_format, outputs_columns = dataset, outputs_format or sample_format, columns
        outputs_kind = resolve_format(Path(outputs), "outputs", outputs_format, outputs_columns)
        note_format(dataset, sample_format, samples_kind.name)
        if outputs != dataset:
            note_format(outputs, outputs_format, outputs_kind.name)
        self.samples, self.outputs = (Path(dataset), samples_kind), (Path(outputs), outputs_kind)
        self.corpus, self.nuggets = corpus, nuggets
        self.auto_preset = samples_kind.conventions

    @contextmanager
    def open(self, options: ScoreOptions, executor: Executor) -> Iterator[None]:
        """Open a stream of samples with their outputs, with texts of the corpus and nuggets added."""
        self.options = options
        known = None
        if self.nuggets is not None:
            from ..io.labels import NuggetsById

            known = NuggetsById(self.nuggets)
        with ExitStack() as open_files:
            corpus_join = None
            if self.corpus is not None:
                from ..io.corpus import Corpus, CorpusJoin

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
        if self.pairs.answers_only:
            from ..engine.suggest import require_retrieved

            require_retrieved(metrics, str(self.pairs.outputs_path))
        else:
            metrics = self.match_gold(metrics, self.pairs)
        if not metrics or self.options.targets:
            with progress(f"looking through {self.pairs.samples_path}", self.total) as advance:
                metrics = self.with_supported(
                    metrics, self._chunks(), answers_only=self.pairs.answers_only, advance=advance
                )
        corpus_join = self.pairs.corpus_join
        if corpus_join is not None:
            metrics = with_corpus_ids(metrics, lambda: corpus_join.corpus.ids)
        return metrics

    def has_provenance(self) -> bool:
        """Whether gold has provenance; a pipe, which can be read once, has none."""
        path, form = self.samples
        if form.name != "jsonl":
            return has_provenance_file(path)
        if not path.is_file():
            return False
        first = islice(form.read("samples", path, Problems()), PROBE_SAMPLES)
        return any(GOLD_BY in read.sample.metadata for read in first)

    def evaluate(self, metrics: list[Metric], **common: Any) -> Results:
        """Evaluate the pairs as they are read."""
        common |= {"batch_size": self.options.batch_size, "conventions": self.options.conventions}
        pairs: Iterable[Pair] = self.pairs
        if self.gold is not None:
            source = self.pairs if self._can_read_again() else self.gold.pairs()
            pairs = self.gold.count(source)
        if all(isinstance(metric, BatchMetric) for metric in metrics):
            every_sample = dataset_of(*self.samples) if self._can_read_again() else None
            results = evaluate_stream(pairs, metrics, samples=every_sample, **common)
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
    sample_format, outputs_format = formats

    paths = [path for path in (dataset, outputs) if path is not None]
    many = [path for path in paths if is_sharded(path) and not _is_one_dataset(path, sample_format)]
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
    if sample_format is not None:
        return sample_format not in SPLIT_FORMATS
    try:
        return Path(path).is_dir() and guess_format(Path(path), "samples").name not in SPLIT_FORMATS
    except DataFileError:
        return False
