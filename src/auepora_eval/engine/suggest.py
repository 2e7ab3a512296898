"""Default metrics: those that a dataset and its outputs support, used where the user names none."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from operator import attrgetter

from ..core.conventions import Conventions
from ..core.metrics_base import BatchMetric, Metric, is_defined_by_match, with_match
from ..core.registry import MetricInfo, metric, metric_info, metric_infos
from ..core.targets import TARGETS
from ..core.types import STARTED, EvaluationSample, Response, SystemOutputs, TargetCategory
from ..errors import BadValueError
from ..features.matching import has_spans, span_of
from .evaluate import Progress, resolve_metrics

DEFAULT_K = (1, 3, 5, 10)
_CHUNK = 1024


def supported_metrics(
    batches: Iterable[tuple[Sequence[EvaluationSample], Sequence[SystemOutputs | None]]],
    conventions: Conventions,
    *,
    answers_only: bool,
    progress: Progress | None = None,
) -> list[Metric]:
    """All metrics that the data supports; everything is read for it.

    With ``answers_only`` outputs have no rankings, and metrics of rankings are left out: they would be 0 instead of
    undefined.
    """
    fields = AvailableFields()
    for samples, outputs in batches:
        fields.add(samples, outputs)
        if progress is not None:
            progress(len(samples))
    chosen = resolve_metrics(fields.specs(conventions), conventions)
    unsupported = metrics_needing_retrieved(chosen) if answers_only else ()
    return [metric for metric in chosen if metric.name not in unsupported]


def metrics_needing_retrieved(metrics: Iterable[Metric]) -> list[str]:
    """The names of the metrics that need ``retrieved`` in an output."""
    return [
        metric.name for metric in metrics if isinstance(metric, BatchMetric) and "retrieved" in metric.metadata.reads
    ]


def require_retrieved(metrics: Sequence[Metric], outputs_path: str) -> None:
    """Raise for metrics that read ``retrieved``, if no line of the outputs file has that field."""
    names = metrics_needing_retrieved(metrics)
    if names:
        quoted = " and ".join(", ".join(f"'{name}'" for name in names).rsplit(", ", 1))
        raise BadValueError(
            f"{quoted} {'reads' if len(names) == 1 else 'read'} the field 'retrieved', which no line of "
            f"{outputs_path} has; write what was returned ([] where nothing was), or leave the metric out"
        )


class AvailableFields:
    """Records which fields samples and outputs have, batch by batch."""

    def __init__(self, targets: Collection[TargetCategory] = ()) -> None:
        """With ``targets``, their metrics alone are of interest, and those too that are no defaults."""
        self.targets = targets
        self._fields: set[str] = set()
        self._output_parts: set[str] = set()
        self._timing_keys: dict[str, None] = {}
        self._gold_spans = self._returned_spans = False
        # Metrics that have not been applicable to any sample so far.
        self._idle: dict[str, BatchMetric] = {}
        for info in metric_infos().values():
            # Timing metrics are suggested by the timing keys instead.
            if (
                "timing_key" not in info.keys
                and issubclass(info.cls, BatchMetric)
                and (info.cls.metadata.suggested or _is_for_targets(info, targets))
                and not _needs_user_option(info)
            ):
                built = metric(_specs(info, DEFAULT_K, ("end_to_end",))[0])
                assert isinstance(built, BatchMetric)
                if type(built).is_applicable is not BatchMetric.is_applicable:
                    self._idle[info.name] = built

    def add(self, samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs | None]) -> None:
        """Add aligned samples and outputs."""
        given = [output for output in outputs if output is not None]
        for name in ("relevant_docs", "candidate_docs", "reference_answer"):
            if name not in self._fields and any(getattr(sample, name) is not None for sample in samples):
                self._fields.add(name)
        for name, holds in _OUTPUT_PARTS.items():
            if name not in self._output_parts and any(map(holds, given)):
                self._output_parts.add(name)
        self._timing_keys |= dict.fromkeys(key for output in given for key in output.timings if key != STARTED)
        self._gold_spans = self._gold_spans or any(map(has_spans, samples))
        if self._gold_spans and not self._returned_spans:
            self._returned_spans = any(span_of(item.doc) is not None for output in given for item in output.retrieved)
        nothing = SystemOutputs([], Response(""))
        for name, built in list(self._idle.items()):
            if any(
                built.is_applicable(sample, output or nothing) for sample, output in zip(samples, outputs, strict=True)
            ):
                del self._idle[name]

    def add_pairs(self, pairs: Iterable[tuple[EvaluationSample, SystemOutputs | None]]) -> None:
        """Add samples with their outputs, which are read once."""
        remaining = iter(pairs)
        while chunk := list(islice(remaining, _CHUNK)):
            self.add([sample for sample, _ in chunk], [output for _, output in chunk])

    def specs(self, conventions: str | Conventions = "auepora") -> list[str]:
        """Specs of every registered metric that the data so far supports, grouped by target."""
        output_parts = set(self._output_parts)
        if not output_parts & {"retrieved", "response"}:
            # No output has anything: an outage, or empty results. The dataset decides what is scored.
            output_parts |= {"retrieved", "response"}
        if self._timing_keys:
            output_parts.add("timings")
        spans = {"gold"} if self._gold_spans else set()
        spans |= {"returned"} if self._returned_spans else set()
        specs = specs_for(
            self._fields,
            output_parts,
            timing_keys=list(self._timing_keys),
            conventions=conventions,
            spans=frozenset(spans),
            targets=self.targets,
        )
        return [spec for spec in specs if metric_info(spec).name not in self._idle]


def _cites(output: SystemOutputs) -> bool:
    return output.citations is not None or (output.response is not None and output.response.sentences is not None)


_OUTPUT_PARTS: dict[str, Callable[[SystemOutputs], object]] = {
    "retrieved": attrgetter("retrieved"),
    "response": lambda output: output.response is not None,
    "citations": _cites,
    "usage": attrgetter("usage"),
}


def specs_for(
    fields: Collection[str],
    output_parts: Collection[str],
    *,
    timing_keys: Sequence[str] = (),
    conventions: str | Conventions = "auepora",
    bare_ids: bool = False,
    spans: frozenset[str] = frozenset(),
    targets: Collection[TargetCategory] = (),
) -> list[str]:
    """Specs of the metrics supported by samples with these fields and outputs with these parts.

    With ``targets``, those of these targets alone, and those too that are no defaults or that call a judge.

    With ``bare_ids`` metrics that need more than ids are left out. Metrics that compare ids are left out where the
    conventions match gold in another way.
    ``spans`` names what has spans, ``gold`` or ``returned`` documents: metrics of spans and documents depend on it.
    """
    common = Conventions.of(conventions)
    ks = common.k_values or DEFAULT_K
    found: list[tuple[int, str]] = []
    for info in metric_infos().values():
        cls = info.cls
        if not issubclass(cls, BatchMetric) or _needs_user_option(info):
            continue
        needed_spans = cls.metadata.suggested_with_spans
        is_default = cls.metadata.suggested or (needed_spans and needed_spans <= spans)
        needs_more = bare_ids and cls.is_applicable is not BatchMetric.is_applicable
        if needs_more or not (is_default or _is_for_targets(info, targets)):
            continue
        for spec in _specs(info, ks, timing_keys):
            try:
                built = metric(spec)
            except BadValueError:
                continue  # a timing key that is not valid in a metric name
            assert isinstance(built, BatchMetric)
            is_asked = not targets or built.target in targets
            if not is_asked or not is_defined_by_match(with_match(built, common.match)):
                continue
            if built.metadata.reads <= set(output_parts) and set(built.required_fields()) <= set(fields):
                found.append((built.target.value, spec))
    return [spec for _, spec in sorted(found, key=lambda pair: pair[0])]


def with_specs(given: Sequence[Metric], specs: Sequence[str], conventions: Conventions) -> list[Metric]:
    """The metrics given, and those of specs whose names none of them has."""
    names = {metric.name for metric in given}
    return [*given, *(metric for metric in resolve_metrics(specs, conventions) if metric.name not in names)]


def _is_for_targets(info: MetricInfo, targets: Collection[TargetCategory]) -> bool:
    """Whether a metric that is no default is chosen where its target is named."""
    target: TargetCategory | None = getattr(info.cls, "target", None)  # metrics over another metric have its target
    if target is None or target not in targets:
        return False
    return info.metadata.suggested_for_target or info.name == TARGETS[target].judged


def _needs_user_option(info: MetricInfo) -> bool:
    """Whether the metric has a required option besides its cut-off."""
    return any(p.default is inspect.Parameter.empty for name, p in info.options.items() if name != info.at)


def _specs(info: MetricInfo, ks: Sequence[int], timing_keys: Sequence[str]) -> list[str]:
    if info.keys[:1] == ("timing_key",):
        others = [str(info.parameters[key].default) for key in info.keys[1:]]
        return [f"{info.name}[{','.join([key, *others])}]" for key in timing_keys]
    if info.at is None:
        return [info.name]
    usual = info.parameters[info.at].default
    if usual is inspect.Parameter.empty:
        return [f"{info.name}@{k}" for k in ks]
    return [info.name, f"{info.name}@{max(ks)}"] if usual is None else [f"{info.name}@{usual}"]
