"""The targets and metrics that the data supports, and what is missing for the others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ...core.metrics_base import BatchMetric
from ...core.registry import metric, metric_info
from ...core.suggest import specs_for, suggest_metrics
from ...core.targets import TARGETS
from ...core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, TargetCategory

__all__ = ["COMPLETE_OUTPUT", "TargetSupport", "no_support", "supported_targets"]

_DOCUMENT = Document("?", "?", {"embedding": [1.0]}, span=(0, 1))
COMPLETE_OUTPUT = SystemOutputs(
    [RetrievedDocument(_DOCUMENT, 1.0, 1), RetrievedDocument(_DOCUMENT, 1.0, 2)],
    Response("?", {}, sentences=[{"text": "?", "citations": ["?"]}]),
    {"end_to_end": 1.0},
    citations=["?"],
)
"""An output with every field: metrics that cannot run even with it lack data in the samples."""

_SAMPLE_FIELDS = ("relevant_docs", "candidate_docs", "reference_answer")
_OUTPUT_FIELDS = ("retrieved", "response", "timings", "citations")
_T = TargetCategory
_NOT_APPLICABLE = {  # the fields exist, but no sample is applicable
    _T.GENERATION_FAITHFULNESS: (
        "no retrieved document has a text, no output has citations, and no sample says what an answer must contain "
        "(metadata.must_contain, metadata.forbidden)"
    ),
    _T.NOISE_ROBUSTNESS: (
        "no sample has labels.variant_of and a noise scenario (labels.scenario 'paraphrase' or 'typo'), "
        "and none has labels.noise_ratio"
    ),
    _T.NEGATIVE_REJECTION: (
        "no sample is marked as unanswerable (labels.scenario 'unanswerable'), and none has labels.answerable"
    ),
    _T.COUNTERFACTUAL_ROBUSTNESS: (
        "no sample has labels.variant_of and the scenario 'counterfactual', and none comes with false documents "
        "(metadata.wrong_answer, or labels.scenario 'false_documents')"
    ),
}


@dataclass(frozen=True, slots=True)
class TargetSupport:
    """One target: the metrics that the data supports, or what is missing for them."""

    target: TargetCategory
    metrics: tuple[str, ...]
    """Specs, as ``auepora score`` runs them by default."""
    missing: str = ""
    timings_known: bool = True
    """Whether the keys in the specs, such as timing keys, come from the data."""

    @property
    def title(self) -> str:
        """The title of the target."""
        return TARGETS[self.target].title

    @property
    def patterns(self) -> list[str]:
        """The patterns of the metrics, each once: ``recall@k``."""
        infos = [(spec, metric_info(spec)) for spec in self.metrics]
        return list(dict.fromkeys(spec if info.keys and self.timings_known else info.pattern for spec, info in infos))


def no_support(why: str) -> list[TargetSupport]:
    """Return every target without a metric, for the same reason."""
    return [TargetSupport(target, (), why) for target in TARGETS]


def supported_targets(
    samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs | None] | None, *, retrieves: bool = True
) -> list[TargetSupport]:
    """Return every target, with its applicable metrics or the missing data.

    ``outputs`` are in the order of the samples; ``None`` means any outputs. ``retrieves``: whether the outputs have
    rankings at all.
    """
    checked = [COMPLETE_OUTPUT] * len(samples) if outputs is None else outputs
    runs = suggest_metrics(samples, checked) if samples else []
    if not retrieves:
        runs = [spec for spec in runs if "retrieved" not in _fields_read(spec)]
    available = {
        "retrieved": retrieves and any(output is not None and output.retrieved for output in checked),
        "response": any(output is not None and output.response is not None for output in checked),
        "timings": any(output is not None and output.timings for output in checked),
        "citations": any(_cites(output) for output in checked),
    }
    fields = {name for name in _SAMPLE_FIELDS if any(getattr(sample, name) is not None for sample in samples)}
    present = {name for name, there in available.items() if there}
    by_target: dict[TargetCategory, list[str]] = {target: [] for target in TARGETS}
    for spec in runs:
        by_target[metric(spec).target].append(spec)
    specs = specs_for(_SAMPLE_FIELDS, _OUTPUT_FIELDS, timing_keys=["end_to_end"]) if not all(by_target.values()) else []
    others = [built for built in map(metric, specs) if isinstance(built, BatchMetric)]
    return [
        TargetSupport(
            target,
            tuple(own),
            ""
            if own
            else _missing_data(target, [one for one in others if one.target is target], samples, fields, present),
            timings_known=outputs is not None,
        )
        for target, own in by_target.items()
    ]


def _cites(output: SystemOutputs | None) -> bool:
    if output is None:
        return False
    return output.citations is not None or (output.response is not None and output.response.sentences is not None)


def _fields_read(spec: str) -> frozenset[str]:
    built = metric(spec)
    return built.reads if isinstance(built, BatchMetric) else frozenset()


def _missing_data(
    target: TargetCategory,
    metrics: Sequence[BatchMetric],
    samples: Sequence[EvaluationSample],
    fields: Collection[str],
    outputs_fields: Collection[str],
) -> str:
    """Return what is missing for the metric of the target that lacks the least."""
    best: list[str] | None = None
    for built in metrics:
        lacks = [f"no sample has {name}" for name in built.required_fields() if name not in fields]
        lacks += [
            f"no output has {_FIELD_NAMES.get(name, name)}"
            for name in sorted(built.reads)
            if name not in outputs_fields
        ]
        if best is not None and len(lacks) >= len(best):
            continue
        if not any(built.is_applicable(sample, COMPLETE_OUTPUT) for sample in samples):
            lacks.insert(0, _NOT_APPLICABLE.get(target, "nothing in the samples is of use to it"))
        if best is None or len(lacks) < len(best):
            best = lacks
    # Without a missing field, the outputs have all fields but no content, such as documents without text.
    return "; ".join(best or [_NOT_APPLICABLE.get(target, "nothing in the outputs is of use to it")])


_FIELD_NAMES = {"retrieved": "retrieved documents", "response": "a response"}
