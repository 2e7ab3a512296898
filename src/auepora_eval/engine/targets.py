"""Metrics for targets: those that a dataset and its outputs support, the primary ones, and what is missing."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import Any

from ..core.conventions import Conventions
from ..core.metric_metadata import MetricMetadata
from ..core.metrics_base import BatchMetric, Metric
from ..core.registry import Spec, metric, metric_info
from ..core.targets import TARGETS
from ..core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, TargetCategory
from ..errors import AueporaWarning, BadValueError
from .evaluate import resolve_metrics
from .suggest import AvailableFields, specs_for, with_specs

DEFAULT_K = 5
"""The cut-off of primary metrics and of starter plans."""

_DOCUMENT = Document("?", "?", span=(0, 1))
COMPLETE_OUTPUT = SystemOutputs(
    [RetrievedDocument(_DOCUMENT, 1.0, 1), RetrievedDocument(_DOCUMENT, 1.0, 2)],
    Response("?", {}, sentences=[{"text": "?", "citations": ["?"]}]),
    {"end_to_end": 1.0},
    citations=["?"],
    usage={"prompt_tokens": 1, "completion_tokens": 1},
)
"""An output with every field but vectors: metrics that cannot run even with it lack data in the samples."""
_VECTOR = Document("?", "?", {"embedding": [1.0]}, span=(0, 1))
OUTPUT_WITH_VECTORS = replace(
    COMPLETE_OUTPUT, retrieved=[RetrievedDocument(_VECTOR, 1.0, 1), RetrievedDocument(_VECTOR, 1.0, 2)]
)
"""The same with vectors: metrics of a plan that cannot run even with it skip every sample."""

_SAMPLE_FIELDS = ("relevant_docs", "candidate_docs", "reference_answer")
_OUTPUT_FIELDS = ("retrieved", "response", "timings", "citations", "usage")
_FIELD_NAMES = {"retrieved": "retrieved documents", "response": "a response"}
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
    judged: tuple[str, ...] = ()
    """The supported metrics that need a judge."""

    @property
    def title(self) -> str:
        """The title of the target."""
        return TARGETS[self.target].title

    @property
    def patterns(self) -> list[str]:
        """The patterns of the metrics, each once: ``recall@k``."""
        infos = [(spec, metric_info(spec)) for spec in self.metrics]
        return list(dict.fromkeys(spec if info.keys and self.timings_known else info.pattern for spec, info in infos))

    @property
    def primary(self) -> list[str]:
        """The most important of the metrics; empty where there is none."""
        by_name = {metric_info(spec).name: spec for spec in reversed(usual_specs(self.metrics))}
        return [by_name[name] for name in TARGETS[self.target].primary if name in by_name][:1]

    def primary_with(self, names: Set[str]) -> list[str]:
        """The primary metrics, with the one of these names that a judge computes."""
        return self.primary + [name for name in self.judged if name in names]

    @property
    def problem(self) -> str:
        """What the target cannot be judged without, and what to do; empty if there is nothing."""
        if not self.missing:
            return ""
        target = TARGETS[self.target]
        how_far = f"is judged by {', '.join(self.metrics)} alone" if self.metrics else "cannot be judged"
        by_judge = f", or name a judge for {', '.join(self.judged)}" if self.judged else ""
        return f"{target.name} {how_far}: {self.missing}; {target.advice}{by_judge}"


def usual_specs(specs: Iterable[str]) -> list[str]:
    """The specs; of a metric with several cut-offs, only the default one."""
    by_name: dict[str, list[str]] = {}
    for spec in specs:
        by_name.setdefault(spec.partition("@")[0], []).append(spec)
    # Prefer a cut-off to none: a system returns a limited number of documents.
    return [usual if (usual := f"{name}@{DEFAULT_K}") in own else own[-1] for name, own in by_name.items()]


class TargetFields(AvailableFields):
    """Records which fields samples and outputs have, and what targets lack."""

    def __init__(self, targets: Collection[TargetCategory] = ()) -> None:
        """Without ``targets``, default metrics of every target but the cost, which has none."""
        super().__init__(targets)
        self.num_samples = 0
        specs = specs_for(_SAMPLE_FIELDS, _OUTPUT_FIELDS, timing_keys=["end_to_end"], targets=targets)
        self._possible = [built for built in [metric(spec) for spec in specs] if isinstance(built, BatchMetric)]
        self._inapplicable = {built.name: built for built in self._possible}

    def add(self, samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs | None]) -> None:
        """Add aligned samples and outputs."""
        super().add(samples, outputs)
        self.num_samples += len(samples)
        for name, built in list(self._inapplicable.items()):
            if any(built.is_applicable(sample, COMPLETE_OUTPUT) for sample in samples):
                del self._inapplicable[name]

    def support(
        self, conventions: str | Conventions = "auepora", *, retrieves: bool = True, timings_known: bool = True
    ) -> list[TargetSupport]:
        """Every target with its supported metrics, or what is missing for them.

        ``retrieves``: whether the outputs have rankings at all; ``timings_known``: whether their timings are those of
        a system.
        """
        specs = self.specs(conventions) if self.num_samples else []
        present = self._output_parts | ({"timings"} if self._timing_keys else set())
        if not retrieves:
            specs = [spec for spec in specs if "retrieved" not in _metadata(spec).reads]
            present = present - {"retrieved"}
        every_target = [target for target in TARGETS if target is not TargetCategory.COST]
        found = support_by_specs(self.targets or every_target, specs, timings_known=timings_known)
        return [self._with_missing(support, present) for support in found]

    def _with_missing(self, support: TargetSupport, present: Collection[str]) -> TargetSupport:
        """The support of a target with what its metrics lack: the one that lacks the least, or its primary ones.

        Where targets are named, one without a primary metric lacks something, whatever else it has.
        """
        target = support.target
        wanted = TARGETS[target].primary if self.targets else ()
        if support.primary or (support.metrics and not wanted):
            return support
        reason = _NOT_APPLICABLE.get(target)
        best: list[str] | None = None
        for built in self._possible:
            is_wanted = metric_info(built.name).name in wanted if wanted else not built.metadata.calls_judge
            if built.target is not target or not is_wanted:
                continue
            lacks = [f"no sample has {name}" for name in built.required_fields() if name not in self._fields]
            absent = sorted(built.metadata.reads.difference(present))
            lacks += [f"no output has {_FIELD_NAMES.get(name, name)}" for name in absent]
            if built.name in self._inapplicable:
                lacks.insert(0, reason or "nothing in the samples is of use to it")
            if best is None or len(lacks) < len(best):
                best = lacks
        # Without a missing field, the outputs have all fields but no content, such as documents without text.
        return replace(support, missing="; ".join(best or [reason or "nothing in the outputs is of use to it"]))

    def choose(
        self,
        given: Sequence[Metric],
        conventions: Conventions,
        *,
        retrieves: bool = True,
        judged: Set[str] = frozenset(),
    ) -> list[Metric]:
        """The metrics given, and those that the data supports for the targets.

        ``judged`` are the names of those given that are computed only where the data supports them.
        """
        return metrics_of(self.support(conventions, retrieves=retrieves), given, conventions, judged)


def _metadata(spec: str) -> MetricMetadata:
    return metric_info(spec).metadata


def possible_metrics(targets: Collection[TargetCategory]) -> list[Metric]:
    """All metrics that data may support for targets, those included that need a judge."""
    specs = specs_for(
        _SAMPLE_FIELDS,
        _OUTPUT_FIELDS,
        timing_keys=["end_to_end"],
        spans=frozenset({"gold", "returned"}),
        targets=targets,
    )
    return [metric(spec) for spec in specs]


def support_by_specs(
    targets: Iterable[TargetCategory], specs: Sequence[str], *, missing: str = "", timings_known: bool = True
) -> list[TargetSupport]:
    """The support of each target by the metrics of specs; ``missing`` is said of one that has none."""
    found = []
    for target in targets:
        own = [spec for spec in specs if metric(spec).target is target]
        metrics = tuple(spec for spec in own if not _metadata(spec).calls_judge)
        judged = tuple(dict.fromkeys(metric_info(spec).name for spec in own if spec not in metrics))
        found.append(TargetSupport(target, metrics, missing * (not metrics), timings_known, judged))
    return found


def metrics_of(
    support: Sequence[TargetSupport], given: Iterable[Metric], conventions: Conventions, judged: Set[str]
) -> list[Metric]:
    """The supported metrics of targets after those given; see ``check_support`` for what they lack.

    ``judged`` are the names of those given that are left out where the data does not support them.
    """
    check_support(support, judged)
    supported = set(chain.from_iterable(found.judged for found in support))
    kept = [metric for metric in given if metric.name not in judged or metric.name in supported]
    return with_specs(kept, list(chain.from_iterable(found.metrics for found in support)), conventions)


def metrics_judged_by(judge: object, support: Iterable[TargetSupport], conventions: Conventions) -> list[Metric]:
    """The supported metrics of targets that a critic computes."""
    names = chain.from_iterable(found.judged for found in support)
    return resolve_metrics([{name: {"critic": judge}} for name in names if judge is not None], conventions)


JUDGE = "judge"
"""The usual name of a judge among the resources."""


def _spec_name(spec: Spec) -> str:
    return spec if isinstance(spec, str) else next(iter(spec))


JUDGE_KINDS = frozenset({"openai", "decisions", "recorded", "panel"})
"""The kinds of resources that can only be judges."""


def usual_judge(names: Collection[str]) -> str | None:
    """The resource called ``judge``, else the only one."""
    if JUDGE in names:
        return JUDGE
    return next(iter(names)) if len(names) == 1 else None


def judged_specs(
    targets: Iterable[TargetCategory], resources: Mapping[str, Any] | None, given: Iterable[Spec] = ()
) -> list[dict[str, Any]]:
    """Specs of the metrics of the targets that need a judge, with the judge among the resources of a plan, if any.

    Metrics that are ``given`` are left out.
    """
    known = resources or {}
    judge = usual_judge([name for name in known if name == JUDGE or not JUDGE_KINDS.isdisjoint(known[name])])
    named = {_spec_name(spec) for spec in given}
    names = [TARGETS[target].judged for target in targets]
    return [{name: {"critic": {"use": judge}}} for name in names if judge is not None and name and name not in named]


def judge_note(targets: Iterable[TargetCategory], judged: Sequence[Mapping[str, Any]]) -> str:
    """A sentence on the metrics of the targets that need a judge; empty if they have none."""
    names = ", ".join(TARGETS[target].judged for target in targets if TARGETS[target].judged)
    if judged:
        return f"judged, where the data supports it: {', '.join(chain.from_iterable(judged))}"
    return f"no judge is configured, so these metrics are left out: {names}" if names else ""


def check_support(support: Iterable[TargetSupport], judged: Set[str] = frozenset(), *, partial: bool = True) -> None:
    """Warn about each target that lacks data; raise where no metric can be computed for any target.

    ``judged`` are the names of the metrics that a judge computes. Without ``partial``, nothing is said of a target that
    lacks its primary metrics alone.
    """
    listed = list(support)
    lacking = [found for found in listed if found.missing and judged.isdisjoint(found.judged)]
    if lacking and len(lacking) == len(listed) and not any(found.metrics for found in lacking):
        raise BadValueError("; ".join(found.problem for found in lacking))
    for found in lacking:
        if partial or not found.metrics:
            warnings.warn(found.problem, AueporaWarning, stacklevel=3)


def supported_targets(
    samples: Iterable[EvaluationSample],
    outputs: Iterable[SystemOutputs | None] | None,
    *,
    retrieves: bool = True,
    conventions: str | Conventions = "auepora",
    targets: Collection[TargetCategory] = (),
) -> list[TargetSupport]:
    """Every target, or those of ``targets``, with its applicable metrics or the missing data.

    ``outputs`` are in the order of the samples; ``None`` means any outputs. ``retrieves``: whether the outputs have
    rankings at all.
    """
    fields = TargetFields(targets)
    aligned = repeat(COMPLETE_OUTPUT) if outputs is None else outputs
    fields.add_pairs(zip(samples, aligned, strict=False))
    return fields.support(conventions, retrieves=retrieves, timings_known=outputs is not None)
