"""Prepare a plan: read its data, resolve its metrics, build its system, and check all of it before the first call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import Any, TypeVar

from ..core.batch import check_samples
from ..core.conventions import Conventions
from ..core.engine import resolve_metrics
from ..core.errors import AueporaError, DataFileError, MissingDependencyError
from ..core.metrics_base import BatchMetric, Metric
from ..core.plan import EvaluationPlan
from ..core.resources import use_resources
from ..core.runner import require_distinct_ids
from ..core.secrets import Secrets, reject_secrets
from ..core.slices import Slice, parse_slices, require_slice_values
from ..core.suggest import metrics_needing_retrieved
from ..core.types import EvaluationSample
from ..gates.names import require_known_names
from ..io.align import require_common_id, unmatched_warnings
from ..io.checking.target_support import COMPLETE_OUTPUT
from ..io.jsonl import OutputsFile
from ..io.load import load_dataset, read_outputs_file, resolve_format
from ..judge.prompting import prompt_folder
from .build_resources import build_resources
from .findings import Findings
from .plan import DataSource, Plan, SystemSource
from .resources_section import used_resources

__all__ = ["PreparedPlan", "build_system", "prepare", "prepare_with_findings"]

JUDGED_POOLS = ("trec", "beir")
"""Formats of judged pools."""

T = TypeVar("T")
SampleTransform = Callable[[list[EvaluationSample]], Sequence[EvaluationSample]]
"""Transforms the samples of the dataset into those that are run and scored."""


@dataclass(frozen=True, slots=True)
class PreparedPlan:
    """A plan with its data, metrics and system, ready to run."""

    plan: Plan
    samples: list[EvaluationSample]
    dataset_format: str
    """Name of the format of the dataset."""
    conventions: Conventions
    """The resolved conventions of the plan."""
    metrics: list[Metric] | None
    """The metrics; ``None`` stands for all that the data supports."""
    slices: list[Slice]
    system: Any | None = None
    """The system; ``None`` if there are saved outputs, or if it was not built."""
    outputs: OutputsFile | None = None
    """Saved outputs by sample id; ``None`` if a system is called."""
    warnings: list[str] = field(default_factory=list)
    """Problems that do not prevent a run."""

    @property
    def calls(self) -> int:
        """Number of calls of the system, without retries."""
        return 0 if self.plan.system is None else len(self.samples) * self.plan.repeats


def prepare(
    plan: Plan,
    *,
    need_system: bool = True,
    need_keys: bool = True,
    limit: int | None = None,
    variants: SampleTransform | None = None,
) -> PreparedPlan:
    """Prepare and check a plan; raises the first error.

    ``limit`` takes only the first samples. With ``need_system`` the system is built and checked, but not called. With
    ``need_keys`` the API keys of judges must be set. ``variants`` transforms the samples before the check that metrics
    apply to them.
    """
    findings = Findings(plan.source)
    made = prepare_with_findings(
        plan, findings, need_system=need_system, need_keys=need_keys, limit=limit, variants=variants
    )
    findings.raise_first()
    assert made is not None
    return made


def prepare_with_findings(
    plan: Plan,
    findings: Findings,
    *,
    need_system: bool = True,
    need_keys: bool = True,
    limit: int | None = None,
    variants: SampleTransform | None = None,
) -> PreparedPlan | None:
    """Like ``prepare``, but adds all errors to ``findings``; returns ``None`` if there are any."""
    samples: list[EvaluationSample] = (_samples(plan, findings) or [])[:limit]
    chosen = _collect(findings, "dataset", lambda: resolve_format(plan.dataset.path, "samples", plan.dataset.format))
    format_name = "" if chosen is None else chosen.name
    rules = plan.resolve_conventions(judged_pool=format_name in JUDGED_POOLS)
    metrics = _metrics(plan, findings, rules, samples)
    slices = parse_slices(plan.slices)
    for place, one in enumerate(slices):
        key = f"slices[{place}]" if len(plan.slices) == len(slices) else "slices"
        _collect(findings, key, partial(require_slice_values, [one], samples))
    outputs = None if plan.outputs is None else _outputs(plan, plan.outputs, findings, samples)
    if outputs is not None and outputs.answers_only:
        _refuse_retrieval_metrics(findings, metrics, "no output has; write what was returned ([] where nothing was)")
    elif plan.system is not None and _never_retrieves(plan.system):
        _refuse_retrieval_metrics(findings, metrics, "system.http.response has no path to; add its path in the reply")
    scored = samples if variants is None else _collect(findings, "dataset", lambda: variants(samples)) or samples
    inapplicable = _inapplicable_metrics(metrics, scored)
    if metrics and len(inapplicable) == len(metrics):  # all calls would be wasted
        findings.add("metrics", f"no sample has anything for {', '.join(inapplicable)}: every sample would be skipped")
    if plan.system is not None and samples and not any(sample.query.strip() for sample in samples):
        findings.add("dataset", "its samples have no query, so no system can be called; add the questions")
    if plan.resources and not findings.errors:
        metrics = _with_resources(plan, findings, rules, metrics, need_key=need_keys)
    # Models are loaded here, so only for a plan without other errors.
    ready = [] if findings.errors else metrics or []
    for place, chosen_metric in enumerate(ready):
        if isinstance(chosen_metric, BatchMetric):
            _collect(findings, f"metrics[{place}]", chosen_metric.require_ready)
    if plan.scoring.executor == "ray":
        _collect(findings, "scoring.executor", _require_ray)
    system = None
    if plan.system is not None and need_system and not findings.errors:
        # Last, because it runs code of the user, which may load a model.
        try:
            system = build_system(plan)
        except AueporaError as error:
            findings.add_error(f"system.{plan.system.kind}", error)
    for found in findings.errors:  # the error of a system may contain its arguments
        Secrets(plan.secrets).redact_error(found)
    if findings.errors:
        return None
    warnings: list[str] = []
    if inapplicable:
        warnings.append(f"no sample has anything for {', '.join(inapplicable)}: every sample will be skipped")
    warnings += _warnings(plan, samples, metrics, rules, outputs)
    return PreparedPlan(plan, samples, format_name, rules, metrics, slices, system, outputs, warnings)


def _with_resources(
    plan: Plan, findings: Findings, conventions: Conventions, metrics: list[Metric] | None, *, need_key: bool
) -> list[Metric] | None:
    """Resolve the metrics again, with the resources that they refer to."""
    names = set(used_resources(plan.metrics))
    rules = plan.judge
    built = build_resources(
        findings,
        plan.resources,
        names,
        plan.folder,
        timeout=rules.policy.timeout,
        need_key=need_key and not rules.cache_only,
    )
    if findings.errors or not names:
        return metrics
    with prompt_folder(plan.folder), use_resources(built):
        return _collect(findings, "metrics", lambda: resolve_metrics(plan.metrics or (), conventions))


def _inapplicable_metrics(metrics: Sequence[Metric] | None, samples: Sequence[EvaluationSample]) -> list[str]:
    """The names of metrics that would skip every sample, whatever the system returns."""
    return [
        one.name
        for one in metrics or ()
        if isinstance(one, BatchMetric)
        and type(one).is_applicable is not BatchMetric.is_applicable
        and samples
        and not any(one.is_applicable(sample, COMPLETE_OUTPUT) for sample in samples)
    ]


def _never_retrieves(source: SystemSource) -> bool:
    """Whether the outputs of this system cannot contain ``retrieved``."""
    response = source.options.get("response") if source.kind == "http" else None
    return response is not None and "retrieved" not in response


def _refuse_retrieval_metrics(findings: Findings, metrics: Sequence[Metric] | None, why: str) -> None:
    """Add an error for every metric that needs ``retrieved``."""
    affected = metrics_needing_retrieved(metrics or ())
    for place, one in enumerate(metrics or ()):
        if one.name in affected:
            findings.add(
                f"metrics[{place}]", f"'{one.name}' reads the field 'retrieved', which {why}, or leave the metric out"
            )


def build_system(plan: Plan) -> Any:
    """Import or build the system of a plan, and check that it can be called."""
    from ..calling.systems import as_system
    from ..systems.command import CommandSystem
    from ..systems.http import HttpSystem
    from ..systems.python import load_python

    source = plan.system
    assert source is not None
    options = dict(source.options)
    made: Any
    if source.kind == "python":
        made = load_python(options["path"], options["args"], folder=plan.folder)
    elif source.kind == "http":
        made = HttpSystem(options.pop("url"), timeout=plan.policy.timeout, **options)
    else:
        made = CommandSystem(options.pop("command"), timeout=plan.policy.timeout, **options)
    as_system(made)
    return made


def _collect(findings: Findings, key: str, make: Callable[[], T]) -> T | None:
    """The result of ``make``; an error is added under ``key``."""
    try:
        return make()
    except DataFileError as error:
        if error.line is not None:  # it has the line of the data, which is more precise than the line of the plan
            findings.errors.append(error)
        elif not any(str(known.__cause__) == str(error) for known in findings.errors):
            findings.add_error(key, error)
    except AueporaError as error:
        findings.add_error(key, error)
    return None


def _require_ray() -> None:
    """Raise before the system is called if Ray is not installed."""
    if find_spec("ray") is None:
        raise MissingDependencyError("ray", purpose="executor 'ray'", install="'auepora-eval[ray]'")


def _samples(plan: Plan, findings: Findings) -> list[EvaluationSample] | None:
    def read() -> list[EvaluationSample]:
        source = plan.dataset
        samples = list(load_dataset(source.path, source.format, corpus=source.corpus, nuggets=source.nuggets))
        check_samples(samples)
        require_distinct_ids(samples)
        reject_secrets(samples, Secrets(plan.secrets))
        return samples

    return _collect(findings, "dataset", read)


def _metrics(
    plan: Plan, findings: Findings, rules: Conventions, samples: Sequence[EvaluationSample]
) -> list[Metric] | None:
    if plan.metrics is None:
        return None
    with prompt_folder(plan.folder), use_resources(dict.fromkeys(plan.resources)):
        chosen = _collect(findings, "metrics", lambda: resolve_metrics(plan.metrics or (), rules)) or []
    for place, one in enumerate(chosen):
        _collect(findings, f"metrics[{place}]", partial(EvaluationPlan([one]).validate_dataset, samples))
    names = [one.name for one in chosen]
    for place, name in enumerate(plan.primary):
        if chosen and name not in names:  # names may depend on the conventions
            findings.add(f"primary[{place}]", f"'{name}' is not among the metrics; they are {', '.join(names)}")
    for place, gate in enumerate(plan.gates if chosen else ()):
        _collect(findings, f"gates[{place}]", partial(require_known_names, [gate], names))
    return chosen


def _outputs(
    plan: Plan, source: DataSource, findings: Findings, samples: Sequence[EvaluationSample]
) -> OutputsFile | None:
    def read() -> OutputsFile:
        found = read_outputs_file(source.path, source.format, corpus=source.corpus or plan.dataset.corpus)
        require_common_id({one.sample_id: None for one in samples}, found.outputs)
        return found

    return _collect(findings, "outputs", read)


def _warnings(
    plan: Plan,
    samples: Sequence[EvaluationSample],
    metrics: Sequence[Metric] | None,
    rules: Conventions,
    outputs: OutputsFile | None,
) -> list[str]:
    found: list[str] = []
    if unused := [name for name in plan.resources if name not in set(used_resources(plan.metrics))]:
        found.append(f"no metric refers to {', '.join(unused)} of the resources; write {{use: {unused[0]}}} in one")
    without_query = sum(not sample.query.strip() for sample in samples)
    if without_query and plan.system is not None:
        found.append(f"{without_query} of {len(samples)} samples have no query")
    if outputs is not None:
        ids = [one.sample_id for one in samples]
        known = set(ids)
        found += unmatched_warnings(
            [one for one in ids if one not in outputs.outputs],
            [one for one in outputs.outputs if one not in known],
            total=len(ids),
            conventions=rules,
        )
        if plan.source.values.get("run"):
            found.append("run: has no effect on saved outputs")
        return found
    top_k = plan.policy.top_k
    deep = [one.name for one in metrics or () if isinstance(k := getattr(one, "k", None), int) and k > top_k]
    if deep:
        found.append(
            f"{', '.join(deep)}: the system returns run.top_k = {top_k} documents, fewer than the "
            "cut-off; the signature carries the depth. Raise run.top_k to measure as named."
        )
    return found
