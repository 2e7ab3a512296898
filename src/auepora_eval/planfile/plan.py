"""The ``Plan`` dataclass and its parts: a checked plan with all defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ..calling.policy import CallPolicy
from ..core.conventions import Conventions, auto_conventions
from ..core.engine import BATCH_SIZE
from ..core.executors import ExecutorName
from ..core.registry import Spec
from ..gates.kinds import Gate
from ..judge.policy import JudgePolicy
from .source import PlanSource

__all__ = ["DataSource", "JudgeSettings", "Plan", "ResourceSource", "Scoring", "SystemKind", "SystemSource"]

DEFAULT_CACHE = "judgements.sqlite"
"""Default file name of the judgement cache."""

SystemKind = Literal["python", "http", "command"]


@dataclass(frozen=True, slots=True)
class DataSource:
    """A file of samples or outputs."""

    path: Path
    format: str | None = None
    """The name of its format; ``None`` detects it."""
    corpus: Path | None = None
    """JSONL file with the texts of documents given by id."""
    nuggets: Path | None = None
    """JSONL file with the nuggets of the samples."""


@dataclass(frozen=True, slots=True)
class SystemSource:
    """A system to call, and how it is built."""

    kind: SystemKind
    options: Mapping[str, Any] = field(repr=False)
    """Its arguments, with variables replaced: ``path`` and ``args``; ``url``, ``method``, ``headers``, ``request`` and
    ``response``; or ``command``, ``cwd`` and ``env``. Not in the repr, because it may contain secrets."""


@dataclass(frozen=True, slots=True)
class ResourceSource:
    """A resource that metrics refer to by ``{use: NAME}``, such as a judge, and how it is built."""

    kind: str
    options: Mapping[str, Any] = field(repr=False)
    """Its arguments, with variables replaced. Not in the repr, because it may contain secrets."""


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """The settings of a plan for judge calls."""

    policy: JudgePolicy = field(default_factory=JudgePolicy)
    """The policy; without a cache file, unless the plan names one."""
    cache: bool = True
    """Whether judgements are cached. The default file is in the folder of the store."""
    cache_only: bool = False
    """Use the cache only, for this call."""

    def policy_for(self, store: str | Path | None, folder: Path) -> JudgePolicy:
        """The policy with a cache file: in the folder of the store if that is a file, else in ``folder``."""
        if not self.cache:
            return self.policy
        cache_folder = folder if store is None or "://" in str(store) else Path(os.path.abspath(store)).parent
        return replace(self.policy, cache=self.policy.cache or cache_folder / DEFAULT_CACHE, cache_only=self.cache_only)


@dataclass(frozen=True, slots=True)
class Scoring:
    """The executor that computes the metrics."""

    executor: ExecutorName = "serial"
    workers: int | None = None
    """Number of processes; ``None`` uses one per CPU."""
    batch_size: int = BATCH_SIZE
    address: str | None = None
    """Address of the Ray cluster; ``None`` starts one on this machine."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan, as returned by ``read_plan``."""

    path: Path
    folder: Path
    """The folder of the plan, in which relative paths start."""
    name: str
    dataset: DataSource
    outputs: DataSource | None
    """Saved outputs; ``None`` if a system is called."""
    system: SystemSource | None
    conventions: Mapping[str, Any]
    """``name``: ``auto`` or the name of a preset; other keys override single conventions."""
    primary: tuple[str, ...]
    resources: Mapping[str, ResourceSource]
    """The resources by name."""
    metrics: tuple[Spec, ...] | None
    """Specs as written; ``None`` stands for all that the data supports."""
    slices: tuple[str | Mapping[str, str], ...]
    policy: CallPolicy
    repeats: int
    seed: int
    scoring: Scoring
    judge: JudgeSettings
    store: str | None = field(repr=False)
    """A path or an address, with variables replaced."""
    report: Path | None
    """Path of the report."""
    gates: tuple[Gate, ...]
    """The conditions that a run must satisfy."""
    config: Mapping[str, Any]
    """The user's description of the system: versions of chunker, embedding, model, prompt."""
    resolved: Mapping[str, Any] = field(repr=False)
    """The plan as it is stored: a plan with all defaults, paths as written, and references to variables instead of
    their values. Equivalent plans have equal ones."""
    secrets: frozenset[str] = field(repr=False, compare=False)
    """Values of variables that count as secrets; never shown or stored."""
    source: PlanSource = field(repr=False, compare=False)

    def resolve_conventions(self, *, judged_pool: bool) -> Conventions:
        """The conventions; ``auto`` depends on whether the dataset is a judged pool, such as TREC qrels."""
        choices = {key: value for key, value in self.conventions.items() if key != "name"}
        name = self.conventions["name"]
        return Conventions.of(auto_conventions(judged_pool=judged_pool) if name == "auto" else name, **choices)
