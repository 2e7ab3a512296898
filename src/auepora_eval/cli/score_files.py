"""Scoring of single files for ``auepora score``: pairs are streamed, and only scores are kept."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .console import echo_err

if TYPE_CHECKING:
    from ..core.conventions import Conventions
    from ..core.metrics_base import Metric
    from ..core.registry import Spec
    from ..core.results import Results
    from ..io.formats import Format
    from ..io.pair_stream import PairStream
    from ..judge.preview import Preview
    from ..planfile.planned_judges import PlannedJudges
    from .executors import ExecutorChoice

__all__ = ["DataFiles", "detect_data_files", "metrics_with_judges", "preview_files", "score_files"]

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
    from ..io.load import resolve_format

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
    from ..judge.policy import JudgePolicy
    from ..judge.preview import preview
    from ..reporting.progress import progress
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
    from ..core.engine import resolve_metrics
    from ..core.resources import use_resources
    from ..planfile.resources_section import used_resources

    if judges is None:
        return resolve_metrics(metrics, conventions)
    with use_resources(judges.build(list(used_resources(list(metrics))), need_key=need_key)):
        return resolve_metrics(metrics, conventions)


@contextmanager
def _open_pairs(files: DataFiles, corpus: str | None, nuggets: str | None, *, keep_ids: bool) -> Iterator[PairStream]:
    """Open a stream of samples with their outputs, with texts of the corpus and nuggets added."""
    from ..io.corpus import Corpus, CorpusJoin
    from ..io.nuggets import NuggetsById
    from ..io.pair_stream import PairStream
    from ..reporting.progress import progress

    known = None if nuggets is None else NuggetsById(nuggets)
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
    from ..core.engine import resolve_metrics
    from ..core.mass_failures import mass_failure
    from ..core.suggest import metrics_needing_retrieved, require_retrieved
    from .data_warnings import warn_unmatched_ids

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
        from ..pooling.judged_coverage import JudgedCoverage

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
    from ..io.grades import GOLD_BY, provenance_path
    from ..io.reader_types import Problems

    path, form = files.samples
    if form.name != "jsonl":
        return provenance_path(path).exists()
    if not path.is_file() or form.read_samples is None:  # a pipe can be read once
        return False
    first = itertools.islice(form.read_samples(path, Problems()), PROBE_SAMPLES)
    return any(GOLD_BY in read.sample.metadata for read in first)


def _supported_specs(pairs: PairStream, conventions: Conventions) -> list[str]:
    from ..core.suggest import AvailableFields
    from ..io.pair_stream import count_lines
    from ..reporting.progress import progress

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
    from ..core.engine import evaluate, evaluate_stream
    from ..core.metrics_base import BatchMetric
    from ..io.pair_stream import count_lines
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
