"""Which metrics a dataset and its outputs can support: what runs where the user names none."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Sequence

from .conventions import Conventions
from .errors import BadValueError
from .metrics_base import BatchMetric
from .registry import MetricInfo, metric, metric_infos
from .types import EvaluationSample, Response, SystemOutputs

__all__ = ["suggested_metrics"]

USUAL_K = (1, 3, 5, 10)


def suggested_metrics(
    samples: Sequence[EvaluationSample],
    outputs: Sequence[SystemOutputs | None],
    *,
    conventions: str | Conventions = "auepora",
) -> list[str]:
    """Specs of every registered metric that these samples and outputs can support, grouped by target."""
    given = [output for output in outputs if output is not None]
    held = set()
    if any(output.retrieved for output in given):
        held.add("retrieved")
    if any(output.response is not None for output in given):
        held.add("response")
    if not held:
        # Nothing came back at all: an outage, or empty hands. The dataset says what should have come.
        held = {"retrieved", "response"}
    timing_keys = dict.fromkeys(key for output in given for key in output.timings)
    if timing_keys:
        held.add("timings")
    fields = {
        name
        for name in ("relevant_docs", "candidate_docs", "reference_answer")
        if any(getattr(sample, name) is not None for sample in samples)
    }
    if any(o.citations is not None or (o.response is not None and o.response.sentences is not None) for o in given):
        held.add("citations")
    specs = specs_for(fields, held, timing_keys=list(timing_keys), conventions=conventions)
    return [spec for spec in specs if _has_work(spec, samples, outputs)]


def _has_work(spec: str, samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs | None]) -> bool:
    built = metric(spec)
    if not isinstance(built, BatchMetric) or type(built).has_work is BatchMetric.has_work:
        return True
    nothing = SystemOutputs([], Response(""))
    return any(built.has_work(sample, output or nothing) for sample, output in zip(samples, outputs, strict=True))


def specs_for(
    fields: Collection[str],
    held: Collection[str],
    *,
    timing_keys: Sequence[str] = (),
    conventions: str | Conventions = "auepora",
) -> list[str]:
    """Specs of the metrics supported by samples with these fields and outputs that hold these things."""
    ks = Conventions.of(conventions).k_values or USUAL_K
    found: list[tuple[int, str]] = []
    for info in metric_infos().values():
        cls = info.cls
        if not issubclass(cls, BatchMetric) or not cls.suggested or _asks(info):
            continue
        for spec in _specs(info, ks, timing_keys):
            try:
                built = metric(spec)
            except BadValueError:
                continue  # a timing whose name cannot stand in a metric's
            assert isinstance(built, BatchMetric)
            if built.reads <= set(held) and set(built.required_fields()) <= set(fields):
                found.append((built.target.value, spec))
    return [spec for _, spec in sorted(found, key=lambda pair: pair[0])]


def _asks(info: MetricInfo) -> bool:
    """Whether the metric has an option besides its cut-off that only the user can give."""
    return any(p.default is inspect.Parameter.empty for name, p in info.options.items() if name != info.at)


def _specs(info: MetricInfo, ks: Sequence[int], timing_keys: Sequence[str]) -> list[str]:
    if info.keys == ("timing_key",):
        return [f"{info.name}[{key}]" for key in timing_keys]
    if info.at is None:
        return [info.name]
    if info.parameters[info.at].default is inspect.Parameter.empty:
        return [f"{info.name}@{k}" for k in ks]
    return [info.name, f"{info.name}@{max(ks)}"]
