"""Everything a plan needs, read, built and checked before the system is called once."""

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
"""Formats of judgements: what trec_eval would be given."""

T = TypeVar("T")
SampleTransform = Callable[[list[EvaluationSample]], Sequence[EvaluationSample]]
"""The samples as they will be asked and scored, where that is not as they are in the dataset."""


@dataclass(frozen=True, slots=True)
class PreparedPlan:
    """A plan and all that it names, ready to run."""

    plan: Plan
    samples: list[EvaluationSample]
    dataset_format: str
    """In which format the samples are."""
    conventions: Conventions
    """What the plan's conventions come to for this dataset."""
    metrics: list[Metric] | None
    """Under these rules; ``None`` stands for all that the samples and what comes back support."""
    slices: list[Slice]
    system: Any | None = None
    """What is called; ``None`` where there are saved outputs, or where it was not asked for."""
    outputs: OutputsFile | None = None
    """Saved outputs, by sample id; ``None`` where a system is called."""
    remarks: list[str] = field(default_factory=list)
    """What does not keep the plan from running, but may not be meant."""

    @property
    def calls(self) -> int:
        """How often the system will be asked, repetitions for failures aside."""
        return 0 if self.plan.system is None else len(self.samples) * self.plan.repeats


def prepare(
    plan: Plan,
    *,
    need_system: bool = True,
    need_keys: bool = True,
    limit: int | None = None,
    variants: SampleTransform | None = None,
) -> PreparedPlan:
    """Read what the plan names and check that it fits together; the first problem is raised.

    With a ``limit`` only the first samples are taken, and checked. With ``need_system`` the system is imported or built
    too, and checked that it can be called; it is not called. With ``need_keys`` the keys of judges must be there. What
    ``variants`` makes of the samples is what metrics must find something to look at in.
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
    """The same, with everything that is wrong taken down; ``None`` where it keeps the plan from running."""
    samples: list[EvaluationSample] = (_samples(plan, findings) or [])[:limit]
    chosen = _collect(findings, "dataset", lambda: resolve_format(plan.dataset.path, "samples", plan.dataset.format))
    format_name = "" if chosen is None else chosen.name
    rules = plan.rules(judged_pool=format_name in JUDGED_POOLS)
    metrics = _metrics(plan, findings, rules, samples)
    slices = parse_slices(plan.slices)
    for place, one in enumerate(slices):
        key = f"slices[{place}]" if len(plan.slices) == len(slices) else "slices"
        _collect(findings, key, partial(require_slice_values, [one], samples))
    outputs = None if plan.outputs is None else _outputs(plan, plan.outputs, findings, samples)
    if outputs is not None and outputs.answers_only:
        _refuse_retrieval_metrics(findings, metrics, "no output has; write what was returned ([] where nothing was)")
    elif plan.system is not None and _never_retrieves(plan.system):
        _refuse_retrieval_metrics(
            findings, metrics, "system.http.response does not lead to; say where it is in the reply"
        )
    scored = samples if variants is None else _collect(findings, "dataset", lambda: variants(samples)) or samples
    idle = _inapplicable_metrics(metrics, scored)
    if metrics and len(idle) == len(metrics):  # it would ask everything for nothing
        findings.add("metrics", f"no sample has anything for {', '.join(idle)}: every sample would be skipped")
    if plan.system is not None and samples and not any(sample.query.strip() for sample in samples):
        findings.add("dataset", "its samples have no query, so there is nothing to ask a system; name its questions")
    if plan.resources and not findings.errors:
        metrics = _with_resources(plan, findings, rules, metrics, need_key=need_keys)
    # Models are loaded here, so a plan with other mistakes does not get so far; what is missing is told all at once.
    asked = [] if findings.errors else metrics or []
    for place, chosen_metric in enumerate(asked):
        if isinstance(chosen_metric, BatchMetric):
            _collect(findings, f"metrics[{place}]", chosen_metric.require_ready)
    if plan.scoring.executor == "ray":
        _collect(findings, "scoring.executor", _require_ray)
    system = None
    if plan.system is not None and need_system and not findings.errors:
        # Last, since it runs the user's code: a mistake elsewhere should not wait for a model to load.
        try:
            system = build_system(plan)
        except AueporaError as error:
            findings.add_error(f"system.{plan.system.kind}", error)
    for found in findings.errors:  # a system that cannot be built may tell what it was given
        Secrets(plan.secrets).redact_error(found)
    if findings.errors:
        return None
    remarks = [f"no sample has anything for {', '.join(idle)}: every sample will be skipped"] if idle else []
    remarks += _warnings(plan, samples, metrics, rules, outputs)
    return PreparedPlan(plan, samples, format_name, rules, metrics, slices, system, outputs, remarks)


def _with_resources(
    plan: Plan, findings: Findings, conventions: Conventions, metrics: list[Metric] | None, *, need_key: bool
) -> list[Metric] | None:
    """The metrics once more, with the resources that they refer to."""
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
    """The metrics that would skip every sample, whatever a system returns."""
    return [
        one.name
        for one in metrics or ()
        if isinstance(one, BatchMetric)
        and type(one).is_applicable is not BatchMetric.is_applicable
        and samples
        and not any(one.is_applicable(sample, COMPLETE_OUTPUT) for sample in samples)
    ]


def _never_retrieves(source: SystemSource) -> bool:
    """Whether it is known beforehand that nothing will be said of what was retrieved."""
    response = source.options.get("response") if source.kind == "http" else None
    return response is not None and "retrieved" not in response


def _refuse_retrieval_metrics(findings: Findings, metrics: Sequence[Metric] | None, why: str) -> None:
    """Take down every metric that reads what was retrieved."""
    blind = metrics_needing_retrieved(metrics or ())
    for place, one in enumerate(metrics or ()):
        if one.name in blind:
            findings.add(
                f"metrics[{place}]", f"'{one.name}' reads the field 'retrieved', which {why}, or leave the metric out"
            )


def build_system(plan: Plan) -> Any:
    """The system of a plan, imported or built, and checked that it can be called."""
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
    """What ``make`` gives, or a finding under ``key``."""
    try:
        return make()
    except DataFileError as error:
        if error.line is not None:  # it says where in the data; that is nearer than any line of the plan
            findings.errors.append(error)
        elif not any(str(known.__cause__) == str(error) for known in findings.errors):
            findings.add_error(key, error)
    except AueporaError as error:
        findings.add_error(key, error)
    return None


def _require_ray() -> None:
    """Known before the system is called, not when all of its answers wait to be scored."""
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
        if chosen and name not in names:  # a name may carry what the conventions choose
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
    silent = sum(not sample.query.strip() for sample in samples)
    if silent and plan.system is not None:
        found.append(f"{silent} of {len(samples)} samples have no query to ask")
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
            f"{', '.join(deep)}: the system is asked for run.top_k = {top_k} documents, fewer than the "
            "cut-off; the signature carries the depth. Raise run.top_k to measure as named."
        )
    return found
