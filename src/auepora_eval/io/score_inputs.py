"""Saved outputs that are scored as they are read: from single files of any format, or from a TREC run.

``scale.score_input`` has the one for many files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..core.conventions import Conventions, Match
from ..core.metrics_base import BatchMetric, Metric, with_match
from ..core.plan import with_corpus_ids
from ..core.results import Results
from ..core.slices import SliceSpec, parse_slices
from ..core.types import GOLD_BY, EvaluationSample, SystemOutputs, TargetCategory
from ..engine.data_checks import mass_failure
from ..engine.evaluate import BATCH_SIZE, Metrics, Progress, evaluate, evaluate_stream, resolve_metrics
from ..engine.executors import Executor, SerialExecutor
from ..engine.gold_match import GoldReading, MatchChoice, Pair, depends_on_match
from ..errors import BadValueError
from ..render.terminal import progress
from .formats import Format, Role
from .join import Columns, PairStream, count_lines, dataset_of, resolve_format
from .problems import ParsedSample, Problems

if TYPE_CHECKING:
    from ..judge.critic import JudgePolicy
    from ..judge.session import JudgeSession

NoteFormat = Callable[[str, str], object]
"""Called with a file whose format was detected, and the name of the format."""
Batches = Iterable[tuple[Sequence[EvaluationSample], Sequence[SystemOutputs | None]]]
PROBE_SAMPLES = 64
"""Number of samples read to detect whether gold has provenance."""


class ScoringLine(Protocol):
    """Shows the progress of scoring."""

    def counting_executor(self, executor: Executor) -> Executor:
        """The executor, observed while it scores."""

    def start_scoring(self, total: int | None) -> Progress:
        """What to call with the number of newly scored samples; ``total`` is their number, if it is known."""


@dataclass(frozen=True, slots=True)
class ScoreOptions:
    """How saved outputs are scored."""

    conventions: Conventions
    slices: tuple[SliceSpec, ...] = ()
    keep_scores: bool = True
    batch_size: int = BATCH_SIZE
    match: MatchChoice = "auto"
    targets: tuple[TargetCategory, ...] = ()
    """Targets whose supported metrics are computed, too."""
    judged: frozenset[str] = frozenset()
    """The names of metrics that are computed only where the data supports them."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of samples or outputs, with what is not to be detected."""

    path: str
    format: str | None = None
    columns: Columns | None = None

    def resolve(self, role: Role) -> tuple[Path, Format]:
        """The path and the format."""
        return Path(self.path), resolve_format(Path(self.path), role, self.format, self.columns)


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
    """With the way in which gold is matched, as soon as it is decided."""
    gold: GoldReading | None = None
    """How gold is matched, where a metric depends on it."""
    executor: Executor
    parts: str | None = None
    """The folder of a checkpoint."""
    resumed = 0
    """Number of samples whose scores were read from the checkpoint."""

    def score(
        self,
        metrics: Metrics = (),
        options: ScoreOptions | None = None,
        *,
        executor: Executor | None = None,
        judging: JudgeSession | JudgePolicy | None = None,
        coverage: Callable[[Sequence[Metric], Mapping[str, int] | None], Any] | None = None,
        line: ScoringLine | None = None,
    ) -> Results:
        """Score the outputs; without metrics and targets, by all that the data supports.

        Args:
            metrics: As for ``evaluate``; so is ``judging``.
            options: By default the conventions of the format.
            executor: Scores batches; by default in this process.
            coverage: Where gold has provenance, ``JudgedCoverage`` adds to the details how much of a ranking is judged.
            line: Shows how much is scored.

        Returns:
            The results, with warnings about the data. Ids without a partner are in ``missing`` and ``unknown``.

        Example:
            >>> FileInput(DataFile("data.jsonl"), DataFile("outputs.jsonl")).score(["recall@1"])[0].value
            0.5
        """
        options = options or ScoreOptions(Conventions.of(self.auto_preset))
        chosen = resolve_metrics(metrics, options.conventions)
        slices = parse_slices(options.slices)
        scoring = executor or SerialExecutor()
        with self.open(options, scoring):
            chosen = self.prepare(chosen)
            further = None
            if coverage is not None and self.has_provenance():
                further = coverage(chosen, self.count_grades())
            every = chosen if further is None else [*chosen, *further.metrics]
            observed = scoring if line is None else line.counting_executor(scoring)
            advance = None if line is None else line.start_scoring(self.total)
            results = self.evaluate(
                every,
                executor=observed,
                slices=slices,
                keep_scores=options.keep_scores,
                judging=judging,
                progress=advance,
            )
            if further is not None:
                results = further.annotate(results)
            self.add_warnings(chosen, results)
            if self.gold is not None:
                self.gold.finish(chosen, results)
            answers = chain.from_iterable(outputs for _, outputs in self.batches())
            errors = (answer.error for answer in answers if answer is not None and answer.error is not None)
            results.failure = mass_failure(results, errors)
        return results

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
        self, metrics: list[Metric], batches: Batches, *, answers_only: bool, advance: Progress
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


def is_graded(samples: Iterable[ParsedSample]) -> bool:
    """Whether the gold of one of the first samples has provenance."""
    return any(GOLD_BY in read.sample.metadata for read in islice(samples, PROBE_SAMPLES))


def has_provenance_file(path: str | Path) -> bool:
    """Whether a file beside this one names the annotators of its gold."""
    from .grades import provenance_path

    return provenance_path(path).exists()


# --- single files: pairs are streamed, and only scores are kept ------------------------------------------------------


class FileInput(ScoreInput):
    """A dataset and its outputs in one file each, or in one file together."""

    pairs: PairStream

    def __init__(
        self,
        dataset: DataFile,
        outputs: DataFile | None = None,
        *,
        corpus: str | None = None,
        nuggets: str | None = None,
        note: NoteFormat | None = None,
    ) -> None:
        """Detect the formats. Without ``outputs``, the dataset must contain them."""
        self.samples = dataset.resolve("samples")
        samples_format = self.samples[1]
        if outputs is None and not samples_format.one_file:
            raise BadValueError(f"{dataset.path} holds samples alone; name their outputs, too")
        self.outputs = (outputs or dataset).resolve("outputs")
        self.corpus, self.nuggets = corpus, nuggets
        self.auto_preset = samples_format.conventions
        if dataset.format is None and note is not None:
            note(dataset.path, samples_format.name)
        if outputs is not None and outputs.format is None and note is not None:
            note(outputs.path, self.outputs[1].name)

    @contextmanager
    def open(self, options: ScoreOptions, executor: Executor) -> Iterator[None]:
        """Open a stream of samples with their outputs, with texts of the corpus and nuggets added."""
        self.options, self.executor = options, executor
        known = None
        if self.nuggets is not None:
            from .labels import NuggetsById

            known = NuggetsById(self.nuggets)
        with ExitStack() as open_files:
            corpus_join = None
            if self.corpus is not None:
                from .corpus import Corpus, CorpusJoin

                with progress(f"reading {self.corpus}"):
                    corpus_join = CorpusJoin(open_files.enter_context(Corpus.open(self.corpus)))
            self.pairs = PairStream(
                self.samples, self.outputs, keep_ids=options.keep_scores, corpus_join=corpus_join, nuggets=known
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
        return is_graded(form.read("samples", path, Problems()))

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
