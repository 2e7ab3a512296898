"""Read a plan, prepare its data, metrics and system, and check all of it before the first call."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from ..core.batch import check_samples, require_distinct_ids
from ..core.conventions import Conventions
from ..core.dataset import LazySamples
from ..core.metrics_base import BatchMetric, Metric
from ..core.plan import EvaluationPlan
from ..core.registry import Spec, metric, use_resources
from ..core.slices import Slice, parse_slices, require_slice_values
from ..core.types import EvaluationSample, SystemOutputs
from ..engine.evaluate import resolve_metrics
from ..engine.suggest import metrics_needing_retrieved
from ..engine.targets import OUTPUT_WITH_VECTORS, possible_metrics
from ..errors import AueporaError, AueporaWarning, DataFileError, MissingDependencyError, PlanError
from ..io.formats import Format, Role
from ..io.join import (
    iter_outputs,
    load_dataset,
    open_dataset,
    read_outputs_file,
    require_common_id,
    resolve_format,
    unmatched_warnings,
)
from ..io.jsonl import gathered_outputs
from ..io.problems import TOO_DEEP, Problems
from ..io.records import require_same_questions
from ..io.sample_sets import SampleSet, select_samples
from ..io.validate import validate_files
from ..judge.metric import JudgedMetric, judged_parts, same_family_warnings
from ..runtime.files import plain_stem
from ..runtime.imports import search_folders
from ..runtime.processes import gc_paused
from ..runtime.secrets import Secrets, reject_secrets
from .gates import require_known_names
from .model import (
    VERSION,
    DataSource,
    JudgeSettings,
    ObjectSource,
    OutputReader,
    Plan,
    PlanKeys,
    SavedOutputs,
)
from .resources import (
    build_resources,
    build_system,
    check_two_stage,
    members_of,
    resources_section,
    used_resources,
    with_cheap_metrics,
    with_members,
)
from .sections import (
    collect_errors,
    config_section,
    conventions_section,
    data_section,
    describe_metrics,
    gates_section,
    gold_section,
    guardrails_section,
    judge_section,
    judging_note,
    metrics_section,
    primary_section,
    resolve_store,
    run_section,
    scoring_section,
    slices_section,
    system_section,
    targets_section,
    with_target_metrics,
)
from .source import PLAN_KEYS, Findings, PlanSection, PlanSource, find_literal_secrets, read_source
from .sweep import sweep_section


def read_plan(
    path: str | Path | PlanSource | Plan,
    *,
    changes: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Plan:
    """Read a plan and check what the file alone allows; ``prepare`` checks the rest. Raises the first error.

    ``changes`` replace keys of the file: ``{"run.concurrency": 4}``. ``environment`` replaces ``os.environ``. A file
    that is already read is not read again.
    """
    if isinstance(path, Plan) and not changes:
        return path
    plan, findings = plan_findings(path, changes=changes, environment=environment)
    findings.raise_first()
    assert plan is not None
    return plan


def plan_problems(path: str | Path, *, environment: Mapping[str, str] | None = None) -> list[AueporaError]:
    """All errors of a plan file that can be found without its data."""
    try:
        return plan_findings(path, environment=environment)[1].errors
    except PlanError as error:
        return [error]


def plan_findings(
    path: str | Path | PlanSource | Plan,
    *,
    changes: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    load: bool = True,
) -> tuple[Plan | None, Findings]:
    """The plan, or ``None``, and its errors in the order of the file; without ``load`` no user code is imported."""
    if not isinstance(path, PlanSource):
        path = path.source if isinstance(path, Plan) else read_source(Path(path))
    source = path.with_changes(changes or {})
    findings = Findings(source, variables=environment)
    try:
        other_metrics = any((changes or {}).get(key) is not None for key in ("metrics", "targets"))
        folders = [source.path.parent, Path.cwd()] if other_metrics else [source.path.parent]
        with search_folders(*folders, load=load):
            plan = _plan(source, findings, other_metrics=other_metrics)
    except RecursionError as error:
        raise PlanError(source.path, None, "", TOO_DEEP) from error
    findings.errors.sort(key=lambda error: getattr(error, "line", None) or 0)
    return (None if findings.errors else plan), findings


def _plan(source: PlanSource, findings: Findings, *, other_metrics: bool) -> Plan | None:
    top = findings.top
    top.refuse_unknown(PLAN_KEYS)
    find_literal_secrets(findings)
    keys, stored_keys = top.read(PlanKeys)
    dataset = data_section(findings, "dataset") if _is_given(top, "dataset") else None
    outputs = system = None
    if top.has("outputs") and top.has("system"):
        findings.add("system", "there are 'outputs' as well; a plan has saved outputs or a system, not both")
    elif top.has("outputs"):
        outputs = data_section(findings, "outputs")
    elif top.has("system"):
        system = system_section(findings)
    elif dataset is not None and _has_answers(dataset[0]):
        outputs = dataset
    elif not top.is_misspelt("outputs", "system"):
        findings.add("", "there is neither 'outputs' (saved answers) nor 'system' (to call); give one of them")
    config = config_section(findings, "outputs" if outputs else "system") | source.configured
    match, conventions = gold_section(findings, conventions_section(findings))
    resources, stored_resources = resources_section(findings)
    judge, stored_judge = judge_section(findings)
    with use_resources(dict.fromkeys(resources)):  # only the names: the resources are built later
        metrics = metrics_section(findings)
        if judge.two_stage is not None:
            judge, metrics = _with_two_stage(findings, judge, metrics, resources)
    targets = targets_section(findings)
    known = None if metrics is None else metrics[1]
    if targets:
        known = [*(known or ()), *possible_metrics(targets)]
    primary = primary_section(findings, known, other_metrics=other_metrics)
    guardrails = guardrails_section(findings, known, other_metrics=other_metrics)
    slices = slices_section(findings)
    gates = gates_section(findings, known, slices)
    policy, repeats, seed, run = run_section(findings, [] if metrics is None else metrics[1])
    scoring, stored_scoring = scoring_section(findings)
    sweep = sweep_section(findings, primary, None if known is None else [built.name for built in known])
    if findings.errors or dataset is None:
        return None
    name = keys["name"] or plain_stem(source.path)
    resolved: dict[str, Any] = {
        "version": VERSION,
        "name": name,
        "dataset": dataset[1],
        **({} if outputs is None else {"outputs": outputs[1] | {"config": config}}),
        **({} if system is None else {"system": system[1] | {"config": config}}),
        "conventions": conventions,
        **({} if match == "auto" else {"gold": {"match": match}}),
        "primary": list(primary) or None,
        "resources": stored_resources or None,
        "metrics": None if metrics is None else [spec for _, spec in metrics[0]],
        "slices": list(slices) or None,
        "run": run,
        "scoring": stored_scoring,
        "judge": stored_judge,
        "store": stored_keys["store"],
        "report": stored_keys["report"],
        "gates": [gate.text for gate in gates] or None,
    }
    if guardrails:
        resolved["guardrails"] = guardrails
    if targets:
        resolved["targets"] = [target.name.lower() for target in targets]
    return Plan(
        path=source.path,
        folder=Path(os.path.abspath(findings.folder)),
        name=name,
        dataset=dataset[0],
        outputs=None if outputs is None else outputs[0],
        system=None if system is None else system[0],
        conventions=conventions,
        match=match,
        primary=primary,
        guardrails=guardrails,
        resources=resources,
        metrics=None if metrics is None else tuple(spec for _, spec in metrics[0]),
        metric_keys=() if metrics is None else tuple(key for key, _ in metrics[0]),
        targets=targets,
        slices=slices,
        policy=policy,
        repeats=repeats,
        seed=seed,
        scoring=scoring,
        judge=judge,
        store=resolve_store(keys["store"], findings.folder),
        report=keys["report"],
        gates=gates,
        config=config,
        resolved=resolved,
        secrets=findings.environment.secrets,
        source=source,
        sweep=sweep,
    )


def _with_two_stage(
    findings: Findings,
    judge: JudgeSettings,
    metrics: tuple[list[tuple[str, Spec]], list[Metric]] | None,
    resources: Mapping[str, ObjectSource],
) -> tuple[JudgeSettings, tuple[list[tuple[str, Spec]], list[Metric]] | None]:
    """The metrics of a plan with those of the cheap judge, and the settings with the names of both."""
    assert judge.two_stage is not None
    if findings.errors:
        return judge, metrics
    specs, built = metrics or ([], [])
    try:
        every, settings = with_cheap_metrics([spec for _, spec in specs], judge.two_stage)
        added = [("judge.cheap", spec) for spec in every[len(specs) :] if not isinstance(spec, Metric)]
        built = [*built, *(metric(spec) for _, spec in added)]
    except AueporaError as error:
        findings.add_error(f"judge.cheap.{'use' if judge.two_stage.cheap_is_judge else 'metric'}", error)
        return judge, metrics
    check_two_stage(findings, settings, resources)
    for name in settings.metrics:
        chosen = next(metric for metric in built if metric.name == name)
        if not (isinstance(chosen, JudgedMetric) and chosen.reducer.name == "mean"):
            findings.add("judge.expensive", f"'{name}' is no mean of judged scores, which two-stage judging needs")
    return replace(judge, two_stage=settings), None if metrics is None else ([*specs, *added], built)


def _has_answers(source: DataSource) -> bool:
    """Whether the dataset is a table, or another format with both, that has an answer or a ranking."""
    with suppress(AueporaError):
        chosen = _resolve_format(source, "samples")
        return chosen.one_file and next(iter(chosen.read("outputs", source.path, Problems())), None) is not None
    return False


def _is_given(top: PlanSection, key: str) -> bool:
    if not top.has(key) and not top.is_misspelt(key):
        top.findings.add(key if key in top.values else "", f"'{key}' is missing; it names the samples to evaluate on")
    return top.has(key)


# --- preparation: read the data, resolve the metrics, build the system, check all of it ------------------------------

T = TypeVar("T")
SampleTransform = Callable[[list[EvaluationSample]], Sequence[EvaluationSample]]
"""Transforms the samples of the dataset into those that are run and scored."""


@dataclass(frozen=True, slots=True)
class PreparedPlan:
    """A plan with its data, metrics and system, ready to run."""

    plan: Plan
    samples: Sequence[EvaluationSample]
    dataset_format: str
    """Name of the format of the dataset."""
    conventions: Conventions
    """The resolved conventions of the plan."""
    metrics: list[Metric] | None
    """The metrics; ``None`` stands for all that the data supports."""
    slices: list[Slice]
    system: Any | None = None
    """The system; ``None`` if there are saved outputs, or if it was not built."""
    outputs: SavedOutputs | None = None
    """``None`` if a system is called."""
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
    samples: SampleSet | None = None,
) -> PreparedPlan:
    """Prepare and check a plan; raises the first error.

    ``samples`` takes only those of a set, ``limit`` only the first samples. With ``need_system`` the system is built
    and checked, but not called. With ``need_keys`` the API keys of judges must be set. ``variants`` transforms the
    samples before the check that metrics apply to them.
    """
    findings = Findings(plan.source)
    with search_folders(plan.folder):
        made = prepare_with_findings(
            plan,
            findings,
            need_system=need_system,
            need_keys=need_keys,
            limit=limit,
            variants=variants,
            sample_set=samples,
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
    sample_set: SampleSet | None = None,
) -> PreparedPlan | None:
    """Like ``prepare``, but adds all errors to ``findings``; returns ``None`` if there are any."""
    samples, ids = _samples(plan, findings, limit, sample_set) or ([], {})
    chosen = _collect(findings, "dataset", lambda: _resolve_format(plan.dataset, "samples"))
    format_name = "" if chosen is None else chosen.name
    resolve = partial(plan.resolve_conventions, "auepora" if chosen is None else chosen.conventions)
    rules = _collect(findings, "gold.match", resolve) or Conventions.of()
    outputs = None if plan.outputs is None else _outputs(plan, plan.outputs, findings, samples, ids)
    retrieves = not outputs.answers_only if outputs is not None else not _never_retrieves(plan.system)
    complete = partial(with_target_metrics, plan, samples, rules, retrieves=retrieves)
    plan = _collect(findings, "targets", complete) or plan
    metrics = _metrics(plan, findings, rules, samples)
    _check_annotations(plan, findings, metrics, samples)
    slices = parse_slices(plan.slices)
    for place, group in enumerate(slices):
        key = f"slices[{place}]" if len(plan.slices) == len(slices) else "slices"
        _collect(findings, key, partial(require_slice_values, [group], samples))
    if outputs is not None and outputs.answers_only:
        _refuse_retrieval_metrics(
            plan, findings, metrics, "no output has; write what was returned ([] where nothing was)"
        )
    elif _never_retrieves(plan.system):
        _refuse_retrieval_metrics(
            plan, findings, metrics, "system.http.response has no path to; add its path in the reply"
        )
    scored = samples if variants is None else _collect(findings, "dataset", lambda: variants(list(samples))) or samples
    inapplicable = [metric.name for metric in metrics or () if _skips_every_sample(metric, scored)]
    if metrics and len(inapplicable) == len(metrics):  # all calls would be wasted
        findings.add("metrics", f"no sample has anything for {', '.join(inapplicable)}: every sample would be skipped")
    if plan.system is not None and samples and not any(sample.query.strip() for sample in samples):
        findings.add("dataset", "its samples have no query, so no system can be called; add the questions")
    if plan.resources and not findings.errors:
        metrics = _with_resources(plan, findings, rules, metrics, need_key=need_keys)
    # Models are loaded here, so only for a plan without other errors.
    ready = [] if findings.errors else metrics or []
    missing = {key.split(".")[1] for key in findings.not_loaded if key.startswith("resources.")}
    for (key, spec), chosen_metric in zip(_loaded_specs(plan, findings), ready, strict=False):
        used = with_members(used_resources(spec), members_of(plan.resources))
        if isinstance(chosen_metric, BatchMetric) and missing.isdisjoint(used):
            _collect(findings, key, chosen_metric.require_ready)
    if plan.scoring.executor == "ray":
        _collect(findings, "scoring.executor", _require_ray)
    system = None
    if plan.system is not None and need_system and not findings.errors:
        # Last, because it runs code of the user, which may load a model.
        with collect_errors(findings, f"system.{plan.system.kind}"):
            system = build_system(plan)
    for found in findings.errors:  # the error of a system may contain its arguments
        Secrets(plan.secrets).redact_error(found)
    if findings.errors:
        return None
    warnings: list[str] = []
    if inapplicable:
        warnings.append(f"no sample has anything for {', '.join(inapplicable)}: every sample will be skipped")
    warnings += _warnings(plan, samples, metrics, rules=rules, ids=ids, outputs=outputs)
    return PreparedPlan(
        plan,
        samples,
        format_name,
        rules,
        metrics,
        slices=slices,
        system=system,
        outputs=outputs,
        warnings=warnings,
    )


def _skips_every_sample(metric: Metric, samples: Sequence[EvaluationSample]) -> bool:
    """Whether a metric would skip every sample, whatever the system returns."""
    if not isinstance(metric, BatchMetric) or type(metric).is_applicable is BatchMetric.is_applicable:
        return False
    return bool(samples) and not any(metric.is_applicable(sample, OUTPUT_WITH_VECTORS) for sample in samples)


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
    with use_resources(built):
        specs = [spec for _, spec in _loaded_specs(plan, findings)]
        return _collect(findings, "metrics", lambda: resolve_metrics(specs, conventions))


def _never_retrieves(source: ObjectSource | None) -> bool:
    """Whether the outputs of this system cannot contain ``retrieved``."""
    response = source.options.get("response") if source is not None and source.kind == "http" else None
    return response is not None and "retrieved" not in response


def _refuse_retrieval_metrics(plan: Plan, findings: Findings, metrics: Sequence[Metric] | None, why: str) -> None:
    """Add an error for every metric that needs ``retrieved``."""
    affected = metrics_needing_retrieved(metrics or ())
    for (key, _), built in zip(_loaded_specs(plan, findings), metrics or (), strict=False):
        if built.name in affected:
            findings.add(key, f"'{built.name}' reads the field 'retrieved', which {why}, or leave the built out")


def _collect(findings: Findings, key: str, make: Callable[[], T]) -> T | None:
    """The result of ``make``; an error is added under ``key``."""
    with collect_errors(findings, key):
        try:
            return make()
        except DataFileError as error:
            if error.line is not None:  # it has the line of the data, which is more precise than the line of the plan
                findings.errors.append(error)
            elif not any(str(known.__cause__) == str(error) for known in findings.errors):
                findings.add_error(key, error)
    return None


def _require_ray() -> None:
    """Raise before the system is called if Ray is not installed."""
    if find_spec("ray") is None:
        raise MissingDependencyError("ray", purpose="executor 'ray'", install="'auepora-eval[ray]'")


def _samples(
    plan: Plan, findings: Findings, limit: int | None, chosen: SampleSet | None
) -> tuple[Sequence[EvaluationSample], dict[str, None]] | None:
    """The samples, and their ids."""

    def read() -> tuple[Sequence[EvaluationSample], dict[str, None]]:
        source, secrets = plan.dataset, Secrets(plan.secrets)
        if plan.outputs is not None and source.nuggets is None and _is_streamed(source, source.corpus, "samples"):
            dataset = open_dataset(source.path, source.format)
            with gc_paused():
                ids = {sample.sample_id: None for sample in dataset}
            if not ids:
                raise DataFileError(source.path, None, "there is no sample in it")
            reject_secrets(dataset, secrets)
            if chosen is not None:
                _check_set(chosen, ids, dataset, source.path)
                wanted = frozenset(chosen.ids)
                ids = {sample_id: None for sample_id in ids if sample_id in wanted}
            ids = dict.fromkeys(islice(ids, limit))
            selected = _read_unchanged(source.path, lambda: islice(select_samples(dataset, chosen), limit))
            return LazySamples(selected, len(ids)), ids
        samples = list(
            load_dataset(
                source.path, source.format, corpus=source.corpus, nuggets=source.nuggets, columns=source.columns
            )
        )
        check_samples(samples)
        require_distinct_ids(samples)
        reject_secrets(samples, secrets)
        if chosen is not None:
            _check_set(chosen, {sample.sample_id for sample in samples}, samples, source.path)
        samples = list(select_samples(samples, chosen))[:limit]
        return samples, {sample.sample_id: None for sample in samples}

    return _collect(findings, "dataset", read)


def _check_set(chosen: SampleSet, ids: Collection[str], samples: Iterable[EvaluationSample], path: Path) -> None:
    """Raise if the dataset lacks a sample of the set, or has one with other content."""
    chosen.require_known(ids, str(path))
    chosen.require_content(select_samples(samples, chosen), str(path))


def _check_annotations(
    plan: Plan, findings: Findings, metrics: Sequence[Metric] | None, samples: Sequence[EvaluationSample]
) -> None:
    """Add an error for each sample with an annotation that a judge cannot be asked about, such as a rubric."""
    batch_metrics = [metric for metric in metrics or () if isinstance(metric, BatchMetric)]
    parts = chain.from_iterable(judged_parts(metric) for metric in batch_metrics)
    for part in parts:
        if hasattr(part, "sample_problem") and any(part.sample_problem(sample) for sample in samples):
            for error in _data_errors(plan):  # with the lines of the samples
                findings.add_error("dataset", error)
            return


def _is_streamed(source: DataSource, corpus: Path | None, role: Role) -> bool:
    """Whether a file is read again where it is needed, instead of being kept in memory."""
    return corpus is None and source.path.is_file() and _resolve_format(source, role).name == "jsonl"


def _resolve_format(source: DataSource, role: Role) -> Format:
    return resolve_format(source.path, role, source.format, source.columns)


def _read_unchanged(path: Path, read: Callable[[], T]) -> Callable[[], T]:
    """The function ``read``, which raises if the file has changed since now."""

    def state() -> tuple[int, int]:
        found = path.stat()
        return found.st_size, found.st_mtime_ns

    def read_again() -> T:
        if state() != before:
            raise DataFileError(path, None, "has changed since it was checked; start again")
        return read()

    before = state()
    return read_again


def _loaded_specs(plan: Plan, findings: Findings) -> list[tuple[str, Spec]]:
    """Keys and specs of the metrics, without those whose code was not imported."""
    specs = zip(plan.metric_keys, plan.metrics or (), strict=True)
    return [(key, spec) for key, spec in specs if key not in findings.not_loaded]


def _metrics(
    plan: Plan, findings: Findings, rules: Conventions, samples: Sequence[EvaluationSample]
) -> list[Metric] | None:
    if plan.metrics is None:
        return None
    with use_resources(dict.fromkeys(plan.resources)):
        specs = _loaded_specs(plan, findings)
        chosen = _collect(findings, "metrics", lambda: resolve_metrics([spec for _, spec in specs], rules)) or []
    for (key, _), built in zip(specs, chosen, strict=False):
        _collect(findings, key, partial(EvaluationPlan([built]).validate_dataset, samples))
    if plan.targets or len(specs) < len(plan.metrics):  # the names of the others are not known
        return chosen
    names = [metric.name for metric in chosen]
    for place, name in enumerate(plan.primary):
        if chosen and name not in names:  # names may depend on the conventions
            findings.add(f"primary[{place}]", f"'{name}' is not among the metrics; they are {', '.join(names)}")
    for name in plan.guardrails:
        if chosen and name not in names:
            findings.add(f"guardrails.{name}", f"is not among the metrics; they are {', '.join(names)}")
    for place, gate in enumerate(plan.gates if chosen else ()):
        _collect(findings, f"gates[{place}]", partial(require_known_names, [gate], names))
    return chosen


def _outputs(
    plan: Plan,
    source: DataSource,
    findings: Findings,
    samples: Iterable[EvaluationSample],
    sample_ids: Mapping[str, None],
) -> SavedOutputs | None:
    def read() -> SavedOutputs:
        corpus = source.corpus or plan.dataset.corpus
        if _is_streamed(source, corpus, "outputs"):
            checked = (
                output._replace(output=_outcome(output.output)) for output in iter_outputs(source.path, source.format)
            )
            with gc_paused():
                found = gathered_outputs(source.path, checked, Problems())
            if not found.outputs:
                raise DataFileError(source.path, None, "there is no output in it")
            items: OutputReader = _read_unchanged(source.path, partial(_output_items, source))
        else:
            found = read_outputs_file(source.path, source.format, corpus=corpus, columns=source.columns)
            items = found.outputs.items
            require_same_questions(source.path, found.numbered, samples)
        missing = [sample_id for sample_id in sample_ids if sample_id not in found.outputs]
        unknown = [output for output in found.outputs if output not in sample_ids]
        require_common_id(len(sample_ids), missing, unknown)
        return SavedOutputs(found.outputs.keys(), items, found.answers_only, missing, unknown)

    return _collect(findings, "outputs", read)


_ANSWERED, _FAILED = SystemOutputs([]), SystemOutputs([], error="failed")


def _outcome(output: SystemOutputs) -> SystemOutputs:
    """A small output that has failed if this one has."""
    return _ANSWERED if output.error is None else _FAILED


def _output_items(source: DataSource) -> Iterator[tuple[str, SystemOutputs]]:
    found = iter_outputs(source.path, source.format, Problems(check_unique_ids=False))
    return ((output.sample_id, output.output) for output in found)


def _warnings(
    plan: Plan,
    samples: Sequence[EvaluationSample],
    metrics: Sequence[Metric] | None,
    *,
    rules: Conventions,
    ids: Mapping[str, None],
    outputs: SavedOutputs | None,
) -> list[str]:
    found: list[str] = []
    used = with_members(used_resources(plan.metrics), members_of(plan.resources))
    if unused := [name for name in plan.resources if name not in used]:
        found.append(f"no metric refers to {', '.join(unused)} of the resources; write {{use: {unused[0]}}} in one")
    found += same_family_warnings(metrics or (), plan.config)
    without_query = 0 if plan.system is None else sum(not sample.query.strip() for sample in samples)
    if without_query:
        found.append(f"{without_query} of {len(samples)} samples have no query")
    if outputs is not None:
        found += unmatched_warnings(outputs.missing, outputs.unknown, total=len(ids), conventions=rules)
        if plan.source.values.get("run"):
            found.append("run: has no effect on saved outputs")
        return found
    top_k = plan.policy.top_k
    deep = [metric.name for metric in metrics or () if isinstance(k := getattr(metric, "k", None), int) and k > top_k]
    if deep:
        found.append(
            f"{', '.join(deep)}: the system returns run.top_k = {top_k} documents, fewer than the "
            "cut-off; the signature carries the depth. Raise run.top_k to measure as named."
        )
    return found


# --- the check for ``auepora validate plan.yaml``: every problem, and what would run ---------------------------------

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class PlanCheck:
    """The problems and notes of a plan."""

    problems: list[AueporaError]
    """Errors that prevent a run, with lines of the plan or of the data."""
    notes: list[str] = field(default_factory=list)
    """Warnings, and a summary of what would run."""
    plan: Plan | None = None
    """The plan, if it could be read."""

    @property
    def fine(self) -> bool:
        """Whether the plan would run."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """As a JSON-compatible dict (schema 1)."""
        return {
            "schema": SCHEMA,
            "fine": self.fine,
            "problems": list(map(_error_dict, self.problems)),
            "remarks": list(self.notes),
        }


def _error_dict(error: AueporaError) -> dict[str, Any]:
    where = error if isinstance(error, DataFileError) else None
    key = (error.key or None) if isinstance(error, PlanError) else None
    return {
        "file": None if where is None else where.path,
        "line": None if where is None else where.line,
        "key": key,
        "message": str(error) if where is None else where.problem.removeprefix(f"{key}: "),
    }


def check_plan(
    path: str | Path,
    *,
    need_system: bool = True,
    environment: Mapping[str, str] | None = None,
    load: bool = True,
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> PlanCheck:
    """Find every problem in a plan and the files it names, and what would run. The system is built, not called.

    Without ``load``, no code of the user is imported; the notes name what was not checked. ``settings`` are values of
    keys beside those of the file.
    """
    try:
        source = read_source(Path(path)).with_settings(settings)
        plan, findings = plan_findings(source, environment=environment, load=load)
    except PlanError as error:
        return PlanCheck([error])
    if plan is None:
        return PlanCheck(findings.errors)
    with warnings.catch_warnings(record=True) as caught, search_folders(plan.folder, load=load):
        warnings.simplefilter("always", AueporaWarning)
        if plan.store is not None and "://" not in plan.store and not Path(plan.store).parent.is_dir():
            # a run also reports it, unless another store is given
            findings.add("store", f"the folder {Path(plan.store).parent} does not exist; create it first")
        made = prepare_with_findings(plan, findings, need_system=need_system)
    messages = [str(warning.message) for warning in caught if issubclass(warning.category, AueporaWarning)]
    if findings.not_loaded:
        unchecked = ", ".join(f"{key} ({path})" for key, path in sorted(findings.not_loaded.items()))
        messages.append(f"not imported, so not checked: {unchecked}; --load imports and checks them")
    if made is None:
        return PlanCheck(_add_data_errors(plan, findings.errors), messages, plan)
    close = getattr(made.system, "close", None)
    if callable(close):
        close()
    return PlanCheck([], [*messages, *made.warnings, *_describe_run(made)], plan)


def _add_data_errors(plan: Plan, errors: list[AueporaError]) -> list[AueporaError]:
    """The errors, with all errors of the data files if one of them has an error."""
    if not any(isinstance(error, DataFileError) and not isinstance(error, PlanError) for error in errors):
        return errors
    every = _data_errors(plan)
    known = {str(error) for error in every}
    return [*(error for error in errors if str(error) not in known), *every]


def _data_errors(plan: Plan) -> list[AueporaError]:
    """All errors of the data files of a plan."""
    outputs = plan.outputs
    checked = validate_files(
        plan.dataset.path,
        None if outputs is None else outputs.path,
        dataset_format=plan.dataset.format,
        outputs_format=None if outputs is None else outputs.format,
        columns=plan.dataset.columns,
        outputs_columns=None if outputs is None else outputs.columns,
    )
    return [DataFileError(problem.path, problem.line, problem.message) for problem in checked.problems]


def _describe_run(made: PreparedPlan) -> list[str]:
    plan, n = made.plan, len(made.samples)
    samples = f"{n} sample{'s' * (n != 1)} ({made.dataset_format}) under the conventions {made.conventions.name}"
    lines = [samples, describe_metrics(plan, made.metrics), *filter(None, [judging_note(plan)])]
    if plan.gates:
        lines.append(
            f"{len(plan.gates)} gate{'s' * (len(plan.gates) != 1)}: {'; '.join(gate.text for gate in plan.gates)}"
        )
    if plan.system is not None:
        times = f" x {plan.repeats} repeats" if plan.repeats > 1 else ""
        lines.append(
            f"{made.calls} call{'s' * (made.calls != 1)} to the system ({n} sample{'s' * (n != 1)}{times}), "
            f"{plan.policy.concurrency} at a time"
        )
    elif made.outputs is not None:
        lines.append(f"{len(made.outputs.ids)} saved outputs; no system is called")
    return lines
