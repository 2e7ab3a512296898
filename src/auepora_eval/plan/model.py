"""The ``Plan`` dataclass and its parts, and the differences between two plans."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from ..core.conventions import Conventions
from ..core.registry import Spec
from ..core.types import SystemOutputs, TargetCategory, UnknownRanking
from ..engine.evaluate import BATCH_SIZE
from ..engine.executors import ExecutorName
from ..engine.gold_match import MatchChoice
from ..io.problems import join_key, quote_text
from ..judge.critic import JudgePolicy, Price
from ..options import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, option_types
from ..runtime.imports import IMPORT_PATH
from ..runtime.secrets import looks_like_secret
from ..store.sweeps import SweepPlan
from ..systems.policy import CallPolicy
from .gates import Gate
from .source import Check, InFolder, PlanPath, PlanSource, Text, Variables, path_problem

DEFAULT_CACHE = "judgements.sqlite"
"""Default file name of the judgement cache."""
MIN_BUDGET = 10
"""The fewest samples that an expensive judge must score: with fewer, an interval says nothing."""


def _budget_problem(value: int) -> str | None:
    return None if value >= MIN_BUDGET else f"must be {MIN_BUDGET} or more; fewer samples give no useful interval"


@dataclass(frozen=True, slots=True)
class DataSource:
    """A file of samples or outputs."""

    path: Path
    format: str | None = None
    """The name of its format; ``None`` detects it."""
    corpus: PlanPath | None = None
    """JSONL file with the texts of documents given by id."""
    nuggets: PlanPath | None = None
    """JSONL file with the nuggets of the samples."""
    columns: Mapping[str, str] | None = None
    """The columns of a table by field."""


@dataclass(frozen=True, slots=True)
class ObjectSource:
    """How a system is built, or a resource that metrics refer to by ``{use: NAME}``, such as a judge."""

    kind: str
    """Of a system ``python``, ``http`` or ``command``."""
    options: Mapping[str, Any] = field(repr=False)
    """Its arguments, with variables replaced: of a system ``path`` and ``args``; ``url``, ``method``, ``headers``,
    ``request`` and ``response``; or ``command``, ``cwd`` and ``env``. Not in the repr: it may contain secrets."""


@dataclass(frozen=True, slots=True)
class TwoStageKeys:
    """Keys of ``judge`` for two-stage judging."""

    cheap: Mapping[str, Any] | None = None
    """What scores all samples: ``{use: NAME}``, a judge of the plan, or ``{metric: SPEC}``."""
    expensive: Mapping[str, Any] | None = None
    """The judge that scores a draw of them: ``{use: NAME}``."""
    budget: Annotated[PositiveInt, Check(_budget_problem)] | None = None
    """Number of samples that the expensive judge scores, for each metric."""
    budget_cost: PositiveFloat | None = None
    """The same as an amount of money, by the prices of the plan."""
    seed: NonNegativeInt = 0
    """The seed of the draw."""


@dataclass(frozen=True, slots=True)
class TwoStageSettings:
    """Two-stage judging: a cheap judge or metric scores all samples, an expensive judge scores a draw of them."""

    cheap: str | Spec
    """The name of the cheap judge, or the spec of the cheap metric."""
    cheap_is_judge: bool
    expensive: str
    """The name of the expensive judge."""
    budget: int | None
    budget_cost: float | None = None
    seed: int = 0
    metrics: Mapping[str, str] = field(default_factory=dict)
    """By the name of each metric of the expensive judge, the name of the cheap one."""


@dataclass(frozen=True, slots=True)
class StopSettings:
    """``judge.stop``: judge in a random order, and stop when a comparison or a threshold is decided."""

    metric: Sequence[Text] = ()
    """The primary metrics; by default those of ``primary`` that call a judge, else the only metric that does."""
    against: Text | None = None
    """The run to compare with."""
    threshold: float | None = None
    """Test the mean against this value instead of comparing two runs."""
    delta: PositiveFloat | None = None
    """Differences up to this count as equal; without it there is no such verdict."""
    looks: PositiveInt = 20
    """The number of looks, at equal distances."""
    seed: NonNegativeInt = 0
    """The seed of the random order."""
    safe: bool = False
    """Test by betting, which is valid for very skewed scores and needs more judgements."""
    stop_on: Sequence[Literal["better", "worse", "equal", "pass", "fail"]] = ()
    """The verdicts that end judging; by default all."""
    futility: bool = True
    """Whether judging ends where a verdict has become improbable."""
    claim: Literal["each", "all"] = "each"
    """``each``: a verdict for each of several metrics, at the error rate divided by their number; ``all``: verdicts
    that hold only together."""


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """The settings of a plan for judge calls."""

    policy: JudgePolicy = field(default_factory=JudgePolicy)
    """The policy; without a cache file, unless the plan names one."""
    cache: bool = True
    """Whether judgements are cached. The default file is in the folder of the store."""
    cache_only: bool = False
    """Use the cache only, for this call."""
    stop: StopSettings | None = None
    """When judging stops early; ``None`` judges all samples."""
    two_stage: TwoStageSettings | None = None
    """``None`` if one judge scores all samples."""

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
    workers: PositiveInt | None = None
    """Number of processes; ``None`` uses one per CPU."""
    batch_size: PositiveInt = BATCH_SIZE
    address: Text | None = None
    """Address of the Ray cluster; ``None`` starts one on this machine."""


# --- keys that are read by their types; what a section needs besides is in ``sections`` and ``resources`` ------------

VERSION = 1
DEFAULT_KEY = "OPENAI_API_KEY"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PAGES = (".html", ".htm", ".md", ".markdown")
_MEMORY = (":memory:", "sqlite://", "sqlite:///", "sqlite:///:memory:")


def _version_problem(value: int) -> str | None:
    return None if value == VERSION else f"this program reads plans of version {VERSION}, not {value}"


def _name_problem(text: str) -> str | None:
    return None if text.isprintable() else "must be one line that can be printed"


def _report_problem(path: str) -> str | None:
    if path.lower().endswith(_PAGES):
        return None
    return f"a report is a page: name a file that ends in {', '.join(_PAGES[:-1])} or {_PAGES[-1]}"


def _store_problem(store: str) -> str | None:
    if store in _MEMORY:
        return "a store in memory would be gone with the process; name a file"
    scheme = store.partition("://")[0] if "://" in store else None
    if scheme is None or scheme in ("postgresql", "postgres", "postgresql+psycopg") or SQLITE.match(store):
        return None
    return f"cannot keep runs in {quote_text(scheme)}; name a file, or a postgresql:// address"


def _address_problem(text: str) -> str | None:
    try:
        parts = urlsplit(text)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_web = False
    return None if is_web else "must begin with http:// or https:// and name a host"


def _import_problem(path: str) -> str | None:
    if IMPORT_PATH.fullmatch(path):
        return None
    return f"must be 'module:name', such as 'my_app.rag:build', not {quote_text(path)}"


def _variable_problem(name: str) -> str | None:
    if _VARIABLE.fullmatch(name) and not looks_like_secret(name):
        return None
    # The value is not shown: it may be the key itself.
    return f"must be the name of a variable, such as {DEFAULT_KEY}, and never the key itself"


def _folder_problem(path: Path) -> str | None:
    return None if path.is_dir() else f"there is no folder {path}"


SQLITE = re.compile(r"sqlite(\+\w+)?:///")
WebAddress = Annotated[Text, Variables(), Check(_address_problem)]
Arguments = Annotated[Mapping[str, Any], Variables()]
Texts = Annotated[Mapping[str, str], Variables()]


@dataclass(frozen=True, slots=True)
class PlanKeys:
    """Keys of a plan that are no sections."""

    version: Annotated[int, Check(_version_problem)] = VERSION
    """The format of plans."""
    name: Annotated[Text, Check(_name_problem)] | None = None
    """The name of runs; by default that of the file."""
    store: Annotated[Text, Variables(), Check(_store_problem)] | None = None
    """Where runs are kept: a file, or an address of PostgreSQL."""
    report: Annotated[Path, Check(path_problem), Check(_report_problem), InFolder()] | None = None
    """The page that is written about a run."""


@dataclass(frozen=True, slots=True)
class RunSettings(CallPolicy):
    """``run``: how the system is called."""

    repeats: PositiveInt = 1
    """Calls per sample."""
    seed: NonNegativeInt = 0
    """A number that is stored with the run."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """Prices of the system's models, for a million tokens, by the name in the usage of outputs."""


@dataclass(frozen=True, slots=True)
class GoldSettings:
    """``gold``: how gold documents are found among retrieved ones."""

    match: Literal["auto", "id", "span", "text", "parent"] = "auto"
    """By id, span, text or parent document; ``auto`` is decided by the first outputs of a run."""


RUN_DEFAULTS = {"top_k": 10, "concurrency": 8, "timeout": 60.0, "retries": 2, "keep_going": False}
"""Defaults of plans that differ from those of ``CallPolicy``."""


@dataclass(frozen=True, slots=True)
class PythonSource:
    """A system or resource at an import path."""

    python: Annotated[Text, Check(_import_problem)] = field(metadata={"meaning": "it names the object"})
    args: Arguments = field(default_factory=dict)
    """The arguments of a class or function."""


@dataclass(frozen=True, slots=True)
class HttpSource:
    """``system.http``: an endpoint."""

    url: WebAddress = field(metadata={"meaning": "it is where the system is called"})
    method: Literal["POST", "GET", "PUT", "PATCH"] = "POST"
    headers: Texts = field(default_factory=dict)
    request: Annotated[Any, Variables(in_template=True)] = None
    """The body of a request; by default the query, its history and ``top_k``."""
    response: Mapping[str, Any] | None = None
    """The paths of the parts of a reply."""
    documents: bool = False
    """Whether the endpoint answers from documents that a request gives it."""


@dataclass(frozen=True, slots=True)
class CommandSource:
    """``system.command``: a program."""

    cwd: Annotated[Text, InFolder(), Check(_folder_problem)] = "."
    env: Texts = field(default_factory=dict)
    documents: bool = False
    """Whether the program answers from documents that a request gives it."""


@dataclass(frozen=True, slots=True)
class OpenAISource:
    """``resources.NAME.openai``: a judge behind an OpenAI-compatible endpoint."""

    model: Text = field(metadata={"meaning": "it names the model that judges"})
    base_url: WebAddress | None = None
    api_key_env: Annotated[Text, Check(_variable_problem)] = DEFAULT_KEY
    temperature: NonNegativeFloat | None = 0.0
    seed: NonNegativeInt | None = 0
    max_tokens: PositiveInt | None = 2048
    schema: Literal["auto", "json_schema", "json_object", "none"] = "auto"
    logprobs: bool = False
    headers: Texts = field(default_factory=dict)
    extra: Arguments = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DecisionSource:
    """``resources.NAME.decisions``: a decision model, which answers questions by probabilities."""

    model: Text = field(metadata={"meaning": "it names the model that judges"})
    base_url: WebAddress | None = None
    api: Literal["openai", "systemone"] = "openai"
    api_key_env: Annotated[Text, Check(_variable_problem)] = DEFAULT_KEY
    max_tokens: PositiveInt = 32_000


@dataclass(frozen=True, slots=True)
class RecordedSource:
    """``resources.NAME.recorded``: saved judgements, of all judges or of one."""

    path: PlanPath = field(metadata={"meaning": "it is the file of the judgements"})
    critic: Text | None = None


@dataclass(frozen=True, slots=True)
class PanelSource:
    """``resources.NAME.panel``: judges of the plan whose replies are combined by a vote."""

    judges: list[Text] = field(metadata={"meaning": "it lists the names of two judges or more"})
    vote: Literal["mean", "median", "majority", "stacked"] = "mean"
    weights: PlanPath | None = None
    """The file that ``auepora judge calibrate --learn-weights`` wrote, for ``stacked``."""


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
    system: ObjectSource | None
    conventions: Mapping[str, Any]
    """``name``: ``auto`` or the name of a preset; other keys override single conventions."""
    match: MatchChoice
    """How gold is matched; a way other than ``auto`` is also one of the conventions."""
    primary: tuple[str, ...]
    guardrails: Mapping[str, float]
    """By the name of a metric the largest loss that is allowed."""
    resources: Mapping[str, ObjectSource]
    """The resources by name."""
    metrics: tuple[Spec, ...] | None
    """Specs of one metric each; ``None`` stands for all that the data supports, or for those of ``targets``."""
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
    sweep: SweepPlan | None = None
    """The configurations to choose from; ``None`` if the plan has no sweep."""
    metric_keys: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """The key of each spec in the plan: ``metrics[2]``."""
    targets: tuple[TargetCategory, ...] = ()
    """The targets whose supported metrics are computed beside ``metrics``."""

    def resolve_conventions(self, auto: str) -> Conventions:
        """The conventions; ``auto`` is the preset of the dataset's format."""
        choices = {key: value for key, value in self.conventions.items() if key != "name"}
        name = self.conventions["name"]
        return Conventions.of(auto if name == "auto" else name, **choices)


# --- differences between two plans: a run is resumed only with the plan it started with ------------------------------

IGNORED_SECTIONS = ("store", "scoring", "report", "gates", "guardrails")
"""Sections that do not affect the outputs of a run."""
RETRY_KEYS = ("retries", "backoff", "max_failures", "keep_going")
"""Keys of ``run`` that may change when a run is resumed."""


def plan_key(resolved: Mapping[str, Any]) -> str:
    """A hash that two plans share if and only if ``plan_changes`` finds no difference."""
    canonical = json.dumps(_relevant_values(resolved), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def plan_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The differences between two stored plans, such as ``run.top_k: 5 -> 10``; empty if there is none that matters.

    ``store``, ``scoring``, ``report``, ``gates``, ``guardrails`` and the retry keys of ``run`` (``retries``,
    ``backoff``, ``max_failures``, ``keep_going``) do not matter; of ``judge`` only ``repeats``, ``stop`` and two-stage
    judging do, and of ``gold`` only a way that the plan names.
    """
    found: list[str] = []
    _compare("", _relevant_values(old), _relevant_values(new), found)
    return found


def _relevant_values(resolved: Mapping[str, Any]) -> dict[str, Any]:
    relevant = {key: value for key, value in resolved.items() if key not in IGNORED_SECTIONS and value is not None}
    run = relevant.get("run")
    if isinstance(run, Mapping):
        relevant["run"] = {key: value for key, value in run.items() if key not in RETRY_KEYS}
    match = (relevant.pop("gold", None) or {}).get("match", "auto")
    if match != "auto":
        relevant["gold"] = {"match": match}
    judge = relevant.pop("judge", None)
    if isinstance(judge, Mapping):  # the rest are retries, prices and limits
        defaults = {"repeats": 1, "stop": None, **dict.fromkeys(option_types(TwoStageKeys))}
        kept = {key: judge[key] for key, default in defaults.items() if judge.get(key, default) != default}
        relevant |= {"judge": kept} if kept else {}
    return relevant


def _compare(key: str, old: Any, new: Any, found: list[str]) -> None:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in [*old, *(name for name in new if name not in old)]:
            _compare(join_key(key, name), old.get(name), new.get(name), found)
    elif _canonical(old) != _canonical(new):
        found.append(f"{key}: {_format_value(old)} -> {_format_value(new)}")


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _format_value(value: Any) -> str:
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


OutputReader = Callable[[], Iterable[tuple[str, SystemOutputs]]]
"""Returns outputs with the ids of their samples."""


@dataclass(frozen=True, slots=True)
class SavedOutputs:
    """Saved outputs: their ids in memory, the outputs read on each iteration."""

    ids: Collection[str]
    """The ids of their samples, in the order of the file."""
    read: OutputReader
    answers_only: bool = False
    """Whether no output has ``retrieved``."""
    missing: Sequence[str] = ()
    """Ids of samples without an output."""
    unknown: Sequence[str] = ()
    """Ids of outputs that no sample has."""

    def __iter__(self) -> Iterator[tuple[str, SystemOutputs]]:
        """Yield the outputs with the ids of their samples; rankings that no output has are unknown, not empty."""
        for sample_id, output in self.read():
            yield sample_id, replace(output, retrieved=UnknownRanking()) if self.answers_only else output
