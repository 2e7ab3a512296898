"""What a plan says, checked and with every default in place."""

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
"""Where judgements are kept, unless a plan says otherwise."""

SystemKind = Literal["python", "http", "command"]


@dataclass(frozen=True, slots=True)
class DataSource:
    """A file of samples or outputs."""

    path: Path
    format: str | None = None
    """The name of its format; ``None`` has it guessed."""
    corpus: Path | None = None
    """JSONL with the texts of documents that the file names by their ids."""
    nuggets: Path | None = None
    """JSONL with the nuggets of the samples."""


@dataclass(frozen=True, slots=True)
class SystemSource:
    """A system to call, and how it is built."""

    kind: SystemKind
    options: Mapping[str, Any] = field(repr=False)
    """What it is built from, variables filled in: ``path`` and ``args``; ``url``, ``method``, ``headers``, ``request``
    and ``response``; or ``command``, ``cwd`` and ``env``. Not shown, since there may be secrets in it."""


@dataclass(frozen=True, slots=True)
class ResourceSource:
    """Something that metrics refer to by ``{use: NAME}``, such as a judge, and how it is built."""

    kind: str
    options: Mapping[str, Any] = field(repr=False)
    """What it is built from, variables filled in. Not shown, since there may be secrets in it."""


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """How a plan has judges asked."""

    policy: JudgePolicy = field(default_factory=JudgePolicy)
    """All but where judgements are kept, unless the plan names a file."""
    cache: bool = True
    """Whether judgements are kept. Where the plan names no file, they lie beside the store."""
    cache_only: bool = False
    """Ask nobody, this once."""

    def policy_for(self, store: str | Path | None, folder: Path) -> JudgePolicy:
        """The policy with a file for judgements: beside the store where that is a file, else in ``folder``."""
        if not self.cache:
            return self.policy
        beside = folder if store is None or "://" in str(store) else Path(os.path.abspath(store)).parent
        return replace(self.policy, cache=self.policy.cache or beside / DEFAULT_CACHE, cache_only=self.cache_only)


@dataclass(frozen=True, slots=True)
class Scoring:
    """Who computes the metrics."""

    executor: ExecutorName = "serial"
    workers: int | None = None
    """How many processes; ``None`` takes one per processor."""
    batch_size: int = BATCH_SIZE
    address: str | None = None
    """Where the cluster is, for ``ray``; ``None`` starts one on this machine."""


@dataclass(frozen=True, slots=True)
class Plan:
    """An evaluation, written down. ``read_plan`` gives it."""

    path: Path
    folder: Path
    """Where it lies: relative paths start here."""
    name: str
    dataset: DataSource
    outputs: DataSource | None
    """Saved outputs; ``None`` where a system is called."""
    system: SystemSource | None
    conventions: Mapping[str, Any]
    """``name``: ``auto`` or that of a preset; and choices that replace some of it."""
    primary: tuple[str, ...]
    resources: Mapping[str, ResourceSource]
    """What metrics may refer to, by name."""
    metrics: tuple[Spec, ...] | None
    """Specs as they are written; ``None`` stands for all that the data supports."""
    slices: tuple[str | Mapping[str, str], ...]
    policy: CallPolicy
    repeats: int
    seed: int
    scoring: Scoring
    judge: JudgeSettings
    store: str | None = field(repr=False)
    """A file (with its folder) or an address, variables filled in."""
    report: Path | None
    """The file that is written about the run."""
    gates: tuple[Gate, ...]
    """What a run must reach."""
    config: Mapping[str, Any]
    """What the user says about the system: versions of chunker, embedding, model, prompt."""
    resolved: Mapping[str, Any] = field(repr=False)
    """The plan as it is stored: itself a plan, with every default written out, paths as written, and references to
    variables in place of their values. Plans that mean the same have the same."""
    secrets: frozenset[str] = field(repr=False, compare=False)
    """What variables held and counts as secret: not to be shown or stored."""
    source: PlanSource = field(repr=False, compare=False)

    def rules(self, *, judged_pool: bool) -> Conventions:
        """The conventions, given whether the dataset is judgements as trec_eval would be given them."""
        choices = {key: value for key, value in self.conventions.items() if key != "name"}
        name = self.conventions["name"]
        return Conventions.of(auto_conventions(judged_pool=judged_pool) if name == "auto" else name, **choices)
