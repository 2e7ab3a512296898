"""The sections of a plan, one function per section, which checks its values and collects errors.

Each function returns the values for a run, and the values that are stored: with all defaults, and with references to
variables as written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..calling.policy import CallPolicy
from ..core.conventions import CONVENTION_NAMES, PRESETS, Conventions
from ..core.engine import BATCH_SIZE
from ..core.errors import AueporaError, did_you_mean
from ..core.metrics_base import Metric
from ..core.plan import with_distinct_names
from ..core.registry import Spec, metric
from ..core.slices import parse_slices
from ..io.formats import Role, formats
from ..io.problem_messages import quote_text
from .findings import Findings, PlanSection, describe_value, string_problem
from .plan import DataSource, Scoring

__all__ = [
    "conventions_section",
    "data_section",
    "metrics_section",
    "optional_section",
    "path_problem",
    "primary_section",
    "resolve_path",
    "run_section",
    "scoring_section",
    "slices_section",
]

AUTO = "auto"
RUN_KEYS = ("top_k", "concurrency", "timeout", "retries", "backoff", "max_failures", "keep_going", "repeats", "seed")
SCORING_KEYS = ("executor", "workers", "batch_size", "address")

Stored = dict[str, Any]


def data_section(findings: Findings, key: str, folder: Path) -> tuple[DataSource, Stored] | None:
    """Read ``dataset`` or ``outputs``: a path, or a path under the name of its format."""
    role: Role = "samples" if key == "dataset" else "outputs"
    value = findings.source.values[key]
    if not isinstance(value, (str, Mapping)):
        findings.add(
            key, f"must be a path, or {{format: path}} such as {{jsonl: data.jsonl}}, not {describe_value(value)}"
        )
        return None
    section = PlanSection(findings, key, {AUTO: value} if isinstance(value, str) else dict(value))
    known = {name for name, one in formats().items() if one.reads(role)} | {AUTO}
    others = {"corpus", "nuggets"} if role == "samples" else {"corpus", "config"}
    named = [name for name in section.values if name not in others]
    if {"path", "format"} & set(named):
        section.add(named[0], "the format is the key and the path its value: write {jsonl: data.jsonl}")
        return None
    unknown = [name for name in named if name not in known]
    for name in unknown:
        if name in formats():
            section.add(name, f"the format '{name}' has no {role}")
        else:
            there = f"; the formats are {', '.join(sorted(known))}"
            section.add(name, f"unknown key{did_you_mean(name, known | others, otherwise=there)}")
    if unknown:
        return None
    if len(named) != 1:
        found = "none" if not named else " and ".join(map(repr, named))
        findings.add(key, f"needs the path under exactly one format, such as {{jsonl: data.jsonl}}; there is {found}")
        return None
    (name,) = named
    # A bare path has no key of its own.
    path = _path(findings, key if isinstance(value, str) else section.key_path(name), section.values[name])
    extra: dict[str, str] = {}
    for other in ("corpus", "nuggets"):
        if other in others and section.has(other):
            file = _path(findings, section.key_path(other), section.values[other])
            if file is None:
                return None
            extra[other] = file
    if path is None:
        return None
    files = {other: resolve_path(one, folder) for other, one in extra.items()}
    source = DataSource(resolve_path(path, folder), None if name == AUTO else name, **files)
    return source, {name: path, **extra}


def _path(findings: Findings, key: str, value: object) -> str | None:
    problem = path_problem(value)
    if problem is not None:
        findings.add(key, problem)
        return None
    return str(value)


def path_problem(value: object) -> str | None:
    """Why a value is not a path; ``None`` if it is one."""
    problem = string_problem(value)
    if problem is not None:
        return problem
    text = str(value)
    if "\0" in text:
        return "a path cannot hold a null character"
    return "variables are not read in paths: write the path itself" if "${" in text else None


def resolve_path(path: str, folder: Path) -> Path:
    """The path of a plan in ``folder``, with ``~`` expanded."""
    return folder / os.path.expanduser(path)


def conventions_section(findings: Findings) -> Stored:
    """Read ``conventions``: a preset, ``auto``, or a mapping that overrides conventions of a preset."""
    value = findings.source.values.get("conventions")
    stored: Stored = {"name": AUTO}
    if value is None:
        return stored
    if not isinstance(value, (str, Mapping)):
        findings.add(
            "conventions", f"must be the name of a preset, or a mapping of choices, not {describe_value(value)}"
        )
        return stored
    where = "conventions" if isinstance(value, str) else "conventions.name"
    section = PlanSection(findings, "conventions", {"name": value} if isinstance(value, str) else dict(value))
    section.refuse_unknown(("name", *CONVENTION_NAMES))
    name = section.values.get("name", AUTO)
    if not isinstance(name, str) or name not in (AUTO, *PRESETS):
        problem = string_problem(name, findings.source.written.get(where))
        near = did_you_mean(str(name), (AUTO, *PRESETS), otherwise=f"; there are {', '.join((AUTO, *PRESETS))}")
        findings.add(where, problem or f"unknown conventions {quote_text(str(name))}{near}")
        return stored
    for key, choice in section.values.items():
        if key not in CONVENTION_NAMES:
            continue
        try:
            Conventions.of(None, **{key: choice})
        except AueporaError as error:
            findings.add_error(section.key_path(key), error)
        except TypeError:  # a list or a mapping instead of a string
            section.add(key, f"cannot be {describe_value(choice)}")
        else:
            stored[key] = choice
    return {"name": name, **{key: stored[key] for key in CONVENTION_NAMES if key in stored}}


def metrics_section(findings: Findings) -> tuple[tuple[Spec, ...], list[Metric]] | None:
    """Read ``metrics``: valid specs with distinct names; ``None`` stands for all that the data supports."""
    listed = PlanSection(findings, "", findings.source.values).nonempty_list(
        "metrics", example="[recall@5, {map: {k: 10}}]"
    )
    if listed is None:
        return None
    specs: list[Spec] = []
    built: list[Metric] = []
    keys: list[str] = []
    for place, written in enumerate(listed):
        key = f"metrics[{place}]"
        bare = isinstance(written, Mapping) and len(written) == 1 and next(iter(written.values())) in (None, {})
        spec = next(iter(written)) if bare else written  # a name without options
        problem = _spec_problem(spec)
        if problem is not None:
            findings.add(key, problem)
            continue
        try:
            one = metric(spec)
        except AueporaError as error:
            findings.add_error(key, error)
        except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
            # A metric that does not check its options.
            findings.add(key, f"cannot be built: {type(error).__name__}: {error}", error)
        else:
            specs.append(spec)
            built.append(one)
            keys.append(key)
    built = with_distinct_names(built)
    first: dict[str, str] = {}
    for key, one in zip(keys, built, strict=True):
        if one.name in first:
            findings.add(
                key,
                f"'{one.name}' is already {first[one.name]}; leave one out, or give it another name "
                f"with 'as', as in {{'{one.name}': {{as: another}}}}",
            )
        first.setdefault(one.name, key)
    return tuple(specs), built


def _spec_problem(spec: object) -> str | None:
    if isinstance(spec, str):
        return None
    if not isinstance(spec, Mapping):
        return f"a metric is a name such as recall@5, or {{name: {{option: value}}}}, not {describe_value(spec)}"
    if {"name", "metric"} & set(spec):
        return "write the metric's name as the key: 'recall@5', or {'ndcg@10': {gain_scheme: linear}}"
    if len(spec) != 1:
        inside = "; are its options indented far enough?" if None in spec.values() else ""
        return f"must be one name with its options, not {len(spec)} keys ({', '.join(map(str, spec))}){inside}"
    return None


def primary_section(findings: Findings, built: list[Metric] | None, *, other_metrics: bool = False) -> tuple[str, ...]:
    """Read ``primary``: names of metrics of the plan.

    With ``other_metrics``, given on the command line, names that are not among them are left out.
    """
    listed = PlanSection(findings, "", findings.source.values).nonempty_list("primary", example="[recall@5]") or []
    names: list[str] = []
    for place, name in enumerate(listed):
        key = f"primary[{place}]"
        problem = string_problem(name, findings.source.written.get(key))
        if problem is None and name in names:
            problem = f"'{name}' is named twice"
        if problem is not None:
            findings.add(key, problem)
            continue
        if built is None:
            try:
                metric(name)
            except AueporaError as error:
                findings.add_error(key, error)
        elif name not in [one.name for one in built]:
            if other_metrics:
                continue
            there = [one.name for one in built]
            listing = f"; they are {', '.join(there)}" if there else ""
            findings.add(key, f"'{name}' is not among the metrics{did_you_mean(name, there, otherwise=listing)}")
        names.append(name)
    return tuple(names)


def slices_section(findings: Findings) -> tuple[str | Mapping[str, str], ...]:
    """Read ``slices``: paths of labels or metadata, or mappings from a name to a path."""
    listed = PlanSection(findings, "", findings.source.values).nonempty_list("slices", example="[labels.lang]") or []
    good: list[str | Mapping[str, str]] = []
    for place, one in enumerate(listed):
        key = f"slices[{place}]"
        fits = isinstance(one, str) or (isinstance(one, Mapping) and all(isinstance(v, str) for v in one.values()))
        if not fits or not one:
            findings.add(key, f"a slice is a path such as labels.lang, or {{name: path}}, not {describe_value(one)}")
            continue
        try:
            parse_slices([*good, one])
        except AueporaError as error:
            findings.add_error(key, error)
        else:
            good.append(one)
    return tuple(good)


def optional_section(findings: Findings, key: str, known: tuple[str, ...]) -> PlanSection:
    """An optional section; empty if it is missing."""
    value = findings.source.values.get(key)
    section = None if value is None else findings.section(key, value, known=known)
    return section or PlanSection(findings, key, {})


def run_section(findings: Findings) -> tuple[CallPolicy, int, int, Stored]:
    """Read ``run``: the policy for calls, the repeats, and the seed."""
    section = optional_section(findings, "run", RUN_KEYS)
    stored: Stored = {
        "top_k": section.integer("top_k", 10, least=1),
        "concurrency": section.integer("concurrency", 8, least=1),
        "timeout": section.seconds("timeout", 60.0),
        "retries": section.integer("retries", 2, least=0),
        "backoff": section.seconds("backoff", 0.5, zero=True),
        "max_failures": section.integer("max_failures", None, least=0),
        "repeats": section.integer("repeats", 1, least=1),
        "seed": section.integer("seed", 0, least=0),
    }
    keep_going = section.flag("keep_going")
    if keep_going:
        stored["keep_going"] = True
    options: dict[str, Any] = {key: value for key, value in stored.items() if key not in ("repeats", "seed")}
    policy = CallPolicy(**{**options, "keep_going": keep_going})
    return policy, int(stored["repeats"] or 1), int(stored["seed"] or 0), stored


def scoring_section(findings: Findings) -> tuple[Scoring, Stored]:
    """Read ``scoring``: the executor of the metrics."""
    section = optional_section(findings, "scoring", SCORING_KEYS)
    stored = {
        "executor": section.choice("executor", "serial", ("serial", "processes", "ray")),
        "workers": section.integer("workers", None, least=1),
        "batch_size": section.integer("batch_size", BATCH_SIZE, least=1),
        "address": section.string("address", None),
    }
    if stored["workers"] is not None and stored["executor"] == "serial":
        section.add("workers", "goes with 'executor: processes' or 'ray'")
    if stored["address"] is not None and stored["executor"] != "ray":
        section.add("address", "goes with 'executor: ray'")
    return Scoring(**stored), stored  # type: ignore[arg-type]
