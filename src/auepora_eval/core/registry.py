"""The registry: metrics by name and alias, the plan resources that options refer to, the base of built-in metrics."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..errors import (
    AueporaError,
    AueporaWarning,
    BadOptionError,
    BadTypeError,
    BadValueError,
    MetricDefinitionError,
    UnknownMetricError,
    UnknownOptionError,
    did_you_mean,
)
from ..runtime.imports import IMPORT_PATH, CodeNotLoadedError, import_object
from .conventions import CONVENTION_NAMES, Conventions
from .metric_hooks import base_name
from .metrics_base import BatchMetric, Metric, MetricMetadata, set_name, snake_case, with_name
from .types import TargetCategory

# --- aliases of metrics: ir_measures' ``nDCG@10``, trec_eval's ``ndcg_cut_10``, papers' ``ROUGE-L`` ------------------

METRIC_INDEX = "auepora_eval.metrics._index"
"""The generated index of built-in metrics and their aliases: a metric is imported only when it is named."""
_GAINS = {"log2": "linear", "exp-log2": "exponential"}
_PARAMETERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "rel": ("min_relevance", int),
    "p": ("p", float),
    "max_rel": ("max_grade", int),
    "dcg": ("gain_scheme", lambda text: _GAINS[text.strip("'\"")]),
}

_IR_SPEC = re.compile(r"(?P<name>[A-Za-z]+1?)(?:\((?P<parameters>[^()]*)\))?(?:@(?P<k>\d+))?")
_TREC_SPEC = re.compile(r"(?P<name>[A-Za-z_]+)_(?P<k>\d+)")


def canonical_name(text: str) -> tuple[str, dict[str, Any]] | None:
    """The canonical name and options of an alias; ``None`` for an unknown one.

    >>> canonical_name("nDCG@10"), canonical_name("AP(rel=2)@100"), canonical_name("ndcg_cut_10")
    (('ndcg@10', {}), ('map@100', {'min_relevance': 2}), ('ndcg@10', {}))
    """
    trec_eval, papers, ir_measures = _alias_tables()
    if text in trec_eval:
        return trec_eval[text], {}
    known = _plain_name(text)
    if known in papers:
        name, implied = papers[known]
        return name, dict(implied)
    trec = _TREC_SPEC.fullmatch(text)
    if trec is not None and (found := trec_eval.get(f"{trec['name']}_k")):
        return f"{found}@{trec['k']}", {}
    match = _IR_SPEC.fullmatch(text)
    if match is None or match["name"].lower() not in ir_measures:
        return None
    options: dict[str, Any] = {}
    for part in filter(None, (match["parameters"] or "").split(",")):
        key, _, value = (piece.strip() for piece in part.partition("="))
        if key not in _PARAMETERS:
            return None
        ours, read = _PARAMETERS[key]
        try:
            options[ours] = read(value)
        except (ValueError, KeyError):
            return None
    cut = f"@{match['k']}" if match["k"] else ""
    return f"{ir_measures[match['name'].lower()]}{cut}", options


def _plain_name(text: str) -> str:
    """A name as papers write it, without case and hyphens."""
    return text.lower().replace("-", "").replace("_", "")


@functools.cache
def _alias_tables() -> tuple[dict[str, str], dict[str, tuple[str, Mapping[str, Any]]], dict[str, str]]:
    """The aliases of trec_eval, of papers with the options they imply, and of ir_measures in lower case."""
    aliases = importlib.import_module(METRIC_INDEX).ALIASES
    return (
        {name: metric for name, (metric, _) in aliases["trec_eval"].items()},
        {_plain_name(name): given for name, given in aliases["papers"].items()},
        {name.lower(): metric for name, (metric, _) in aliases["ir_measures"].items()},
    )


def _closest_to_other_tool(name: str) -> str:
    """A clause with the metrics that are closest to those of other tools; empty for a name that no tool has."""
    from .other_tools import closest_metrics

    found = closest_metrics(name)
    if len(found) < 2:
        return "".join(f"; that of {match.tool} is closest to '{match.metric}' here" for match in found)
    candidates = ", ".join(f"'{closest.metric}' ({closest.tool})" for closest in found)
    return f"; tools mean different things by it: closest here are {candidates}"


# --- resources of a plan, such as a judge or an embedder, and references to them in options of metrics ---------------

_RESOURCES: ContextVar[Mapping[str, Any] | None] = ContextVar("auepora_resources", default=None)


@dataclass(frozen=True, slots=True)
class Use:
    """A reference to a resource of the plan in an option of a metric; written ``{use: NAME}``.

    A metric can be built, named and compared without the resource, which may need a key or a model; only scoring
    needs it.
    """

    name: str
    thing: Any = field(default=None, repr=False, compare=False)
    """The resource itself, where it was given."""


@contextmanager
def use_resources(resources: Mapping[str, Any]) -> Iterator[None]:
    """Make these resources available to metrics built inside, also to nested ones."""
    token = _RESOURCES.set(dict(resources))
    try:
        yield
    finally:
        _RESOURCES.reset(token)


def parse_use(option: object) -> Any:
    """The option, with ``{use: NAME}`` as a ``Use`` that contains the resource where it is available."""
    if not (isinstance(option, Mapping) and set(option) == {"use"}):
        return option
    name, resources = option["use"], _RESOURCES.get()
    if not isinstance(name, str) or not name:
        raise BadValueError(f"use: takes the name of a resource, not {name!r:.80}")
    if resources is None:
        return Use(name)
    if name not in resources:
        there = f"; the resources are {', '.join(resources)}" if resources else "; the plan has no 'resources'"
        raise BadValueError(f"there is no resource '{name}'{did_you_mean(name, resources, otherwise=there)}")
    return Use(name, resources[name])


def resolve(option: Any, *, what: str) -> Any:
    """The value of an option; raises for a reference to a resource that is not available."""
    if not isinstance(option, Use):
        return option
    if option.thing is None:
        raise BadValueError(f"{what} is the resource '{option.name}' of a plan, which is not available here")
    return option.thing


# --- the registry: metrics by name. ``@register("recall", at="k")`` above a class is all it takes to add one ---------

Spec = str | Mapping[str, Mapping[str, Any] | None]
"""How a metric is written in a plan: ``recall@5``, or ``{map: {k: 10, conventions: trec}}``."""

ClassT = TypeVar("ClassT", bound=type[Metric])

ENTRY_POINTS = "auepora_eval.metrics"
"""The package of the built-in metrics, and the group of entry points of other packages."""
_SPEC = re.compile(
    rf"(?P<name>{IMPORT_PATH.pattern}|[A-Za-z_][A-Za-z0-9_]*)(?:@(?P<at>[^\[\]@]*))?(?:\[(?P<keys>[^\[\]]*)\])?"
)


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """A registered metric: its class, and the options that are part of its name."""

    name: str
    cls: type[Metric]
    at: str | None = None
    """The option written after ``@``."""
    keys: tuple[str, ...] = ()
    """The options written in ``[...]``."""

    @property
    def pattern(self) -> str:
        """The name as it is written: ``recall@k``, ``mrr[@k]``, ``mean_latency[timing_key]``."""
        text = self.name
        if self.at is not None:
            optional = self.parameters[self.at].default is not inspect.Parameter.empty
            text += f"[@{self.at}]" if optional else f"@{self.at}"
        return text + (f"[{','.join(self.keys)}]" if self.keys else "")

    @property
    def metadata(self) -> MetricMetadata:
        """What the class declares; the defaults for a class that only implements ``Metric``."""
        return self.cls.metadata if issubclass(self.cls, BatchMetric) else MetricMetadata()

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """The options of the class's constructor."""
        return dict(_parameters(self.cls))

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """The options a spec may set, without the ones every metric has."""
        return {name: p for name, p in self.parameters.items() if name not in ("conventions", "overrides", "name")}


@functools.lru_cache(maxsize=512)
def _parameters(cls: type[Metric]) -> dict[str, inspect.Parameter]:
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    found = inspect.signature(cls).parameters
    return {name: parameter for name, parameter in found.items() if parameter.kind not in kinds}


_OWN_PACKAGE = f"{__name__.partition('.')[0]}."
_METRICS: dict[str, MetricInfo] = {}
_IMPORTED: dict[type[Metric], MetricInfo] = {}
"""Metrics that were named by an import path, by class."""
_loaded: set[str] = set()


def register(name: str, *, at: str | None = None, keys: tuple[str, ...] = ()) -> Callable[[ClassT], ClassT]:
    """Register a metric class under ``name``; ``at`` and ``keys`` are the options that its name carries.

    Returns:
        A decorator for the class.

    Example:
        >>> @register("answer_words")
        ... class AnswerWords(SampleMetric):
        ...     target = TargetCategory.GENERATION_CORRECTNESS
        ...     def score_one(self, sample, output):
        ...         return Score(float(len(output.response.text.split()) > 2))
        >>> evaluate(samples, outputs, ["answer_words"])[0].value
        0.0
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise MetricDefinitionError(f"a metric cannot be called {name!r}: letters, digits and underscores alone")

    def add(cls: ClassT) -> ClassT:
        if not cls.__module__.startswith(_OWN_PACKAGE):
            _load_metric(name)  # so that a clash with a built-in name is reported here
        known = _METRICS.get(name)
        if known is not None and (known.cls.__module__, known.cls.__qualname__) != (cls.__module__, cls.__qualname__):
            raise MetricDefinitionError(
                f"two metrics are called '{name}': {known.cls.__module__}.{known.cls.__qualname__} and "
                f"{cls.__module__}.{cls.__qualname__}; rename one"
            )
        _METRICS[name] = MetricInfo(name, cls, at, keys)
        cls.registered_as = name  # type: ignore[attr-defined]
        if cls.__dict__.get("name", "") == snake_case(cls.__name__):
            cls.name = name  # the class has only its default name
        _accept_name_option(cls)
        return cls

    return add


def _accept_name_option(cls: type[Metric]) -> None:
    """Make the constructor accept ``name=``, unless it has an option of that name, and other names of options."""
    if "name" in inspect.signature(cls).parameters:
        return
    construct = cls.__init__

    @functools.wraps(construct)
    def construct_with_name(self: Metric, *args: Any, name: str = "", **options: Any) -> None:
        construct(self, *args, **_own_option_names(cls, options))
        if not name and isinstance(self, BatchMetric) and self.metadata.requires_name:
            raise BadOptionError("name", "is missing; give the metric a name of its own")
        set_name(self, name)

    cls.__init__ = construct_with_name  # type: ignore[method-assign, assignment]


_OPTION_SYNONYMS = {"tokenize": "tokenizer", "tokenizer": "tokenize"}
"""Names that sacrebleu and rouge-score have for the same option; a metric takes both."""


def _own_option_names(cls: type[Metric], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a metric under the names that its constructor has."""
    named = dict(options)
    for theirs in _OPTION_SYNONYMS.keys() & options.keys():
        ours = _OPTION_SYNONYMS[theirs]
        if theirs not in _parameters(cls) and ours in _parameters(cls):
            if ours in options:
                raise BadValueError(f"'{theirs}' and '{ours}' are the same option; give one of them")
            named[ours] = named.pop(theirs)
    if named.get("match") == "contains" and "contains" in _parameters(cls):
        del named["match"]
        named["contains"] = named.pop("text_norm", "squad")
    if named.get("ap") == "new_gold" and "new_gold" in _parameters(cls):
        named["new_gold"] = bool(named.pop("ap"))
    return named


def _built_in_modules() -> Mapping[str, str]:
    """The module of each built-in metric by name, below ``auepora_eval.metrics``."""
    return cast("Mapping[str, str]", importlib.import_module(METRIC_INDEX).MODULES)


def _load_metric(name: str) -> None:
    """Import the module of a built-in metric; nothing happens for other names."""
    module = _built_in_modules().get(name)
    if module is not None and name not in _METRICS:
        importlib.import_module(f"{ENTRY_POINTS}.{module}")


def _load_entry_points() -> None:
    """Import the metrics of other packages, once."""
    if "entry points" in _loaded:
        return
    _loaded.add("entry points")
    from importlib.metadata import entry_points

    for entry in entry_points(group=ENTRY_POINTS):
        try:
            entry.load()
        except Exception as error:  # a broken package must not break ours
            warnings.warn(f"the metrics of '{entry.value}' cannot be loaded: {error}", AueporaWarning, stacklevel=4)


def _load_all() -> None:
    """Import every built-in metric and those of other packages."""
    if "built-in" not in _loaded:
        _loaded.add("built-in")
        for module in dict.fromkeys(_built_in_modules().values()):
            importlib.import_module(f"{ENTRY_POINTS}.{module}")
    _load_entry_points()


def metric_infos() -> dict[str, MetricInfo]:
    """Every registered metric by name, in alphabetical order."""
    _load_all()
    return dict(sorted(_METRICS.items()))


def metric_info(name: str) -> MetricInfo:
    """The metric of that name (``recall``, or any spec of it such as ``recall@5``) or import path."""
    base = _canonical_spec(name)[0].partition("@")[0].partition("[")[0]
    if ":" in base:
        return _import_metric(base)
    _load_metric(base)
    if base not in _METRICS:
        raise UnknownMetricError(base, {**_built_in_modules(), **_METRICS}, hint=_closest_to_other_tool(base))
    return _METRICS[base]


def _import_metric(path: str) -> MetricInfo:
    """The metric class at an import path, registered or not."""
    module = path.partition(":")[0]
    try:
        cls = import_object(path)
    except CodeNotLoadedError:
        raise
    except BadValueError as error:
        if module in _METRICS or module in _built_in_modules():
            hint = f"an option of the metric '{module}' is written {module}:option=value"
            raise BadValueError(f"cannot read the metric '{path}': {error}; {hint}") from error
        raise
    if not (inspect.isclass(cls) and issubclass(cls, Metric)):
        what = f"the class {cls.__name__}" if inspect.isclass(cls) else f"an object of type {type(cls).__name__}"
        raise BadValueError(
            f"'{path}' is {what}, not a metric class: derive the class from SampleMetric, BatchMetric or Metric"
        )
    known = _METRICS.get(getattr(cls, "registered_as", ""))
    if known is not None and known.cls is cls:
        return known
    at, keys = (None, ()) if known is None else (known.at, known.keys)
    return _IMPORTED.setdefault(cls, MetricInfo(path, cls, at, keys))


def find_metric(name: str) -> MetricInfo | None:
    """The registered metric of exactly that name; ``None`` if there is none."""
    _load_metric(name)
    return _METRICS.get(name)


def metric(spec: Spec | Metric, /, **options: Any) -> Metric:
    """Build a metric: ``metric("recall@5")``, ``metric("map@10", conventions="trec")``, ``metric({"map": {"k": 10}})``.

    A class that is not registered is given by its import path, ``metric("my_metrics:StartsUpper")``: the module is
    searched in the current folder (in the plan's folder for a plan) and among the installed packages.
    Besides its own options a metric takes ``conventions``, any single convention (``min_relevance=2``) and ``as``.

    Args:
        spec: A name, a mapping with options, or a metric.
        options: Options of the metric.

    Returns:
        The metric.

    Example:
        >>> str(metric("recall@5").signature)
        'recall@5|empty:skip|v1'
    """
    if isinstance(spec, Metric):
        if options:
            raise BadValueError("options go with a metric's name; a metric object already has its own")
        return spec
    if isinstance(spec, Mapping):
        if len(spec) != 1:
            raise BadValueError(f"a metric spec is one name with its options, not {dict(spec)!r}")
        ((spec, inner),) = spec.items()
        if inner is not None and not isinstance(inner, Mapping):
            raise BadTypeError(f"the options of metric '{spec}' must be a mapping, not {inner!r}")
        if not all(isinstance(key, str) for key in inner or ()):
            raise BadTypeError(f"the options of metric '{spec}' must have names, not {list(inner or ())!r}")
        options = {**(inner or {}), **options}
    if not isinstance(spec, str):
        raise BadTypeError(f"a metric is given by name, by {{name: options}} or as a Metric object, not as {spec!r}")
    spec, foreign = _canonical_spec(spec)
    info, named = _parse(spec)
    named |= foreign
    if "as" in options:
        named.pop("as", None)
    for key in named:
        if key in options:
            raise BadValueError(f"metric '{spec}' names '{key}' twice, in its name and in its options")
    return _build(info, spec, {**named, **options})


def expand_metric(built: Metric) -> Sequence[Metric]:
    """The metrics that one spec stands for: several for a judge metric with several criteria."""
    return built.expand() if isinstance(built, BatchMetric) else (built,)


def single_specs(spec: Spec) -> list[tuple[Spec, Metric]]:
    """The metrics that a spec stands for, each with a spec of its own that contains the files it names."""
    return [
        (_with_prompt_texts(spec_of(part) if _reads_files(part) else spec, part), part)
        for part in expand_metric(metric(spec))
    ]


def _with_prompt_texts(spec: Spec, built: Metric) -> Spec:
    """The spec with the texts of the prompt files that its options name."""
    texts = built._prompt_texts() if isinstance(built, ConfiguredMetric) else {}
    if not texts or not isinstance(spec, Mapping):
        return spec
    ((name, options),) = ((name, options or {}) for name, options in spec.items())
    return {name: {**options, **{key: {"file": str(options[key]), "text": text} for key, text in texts.items()}}}


def _reads_files(built: Metric) -> bool:
    """Whether the metric, or one that it is computed from, is defined by files."""
    return isinstance(built, BatchMetric) and (
        built.metadata.reads_files or any(map(_reads_files, built.inner_metrics()))
    )


def _canonical_spec(spec: str) -> tuple[str, dict[str, Any]]:
    """The canonical spec of a name of ir_measures or trec_eval; canonical ones are returned unchanged."""
    _load_entry_points()
    name = spec.partition("@")[0].partition("[")[0].strip()
    if (name in _METRICS or name in _built_in_modules()) and "(" not in spec:
        return spec, {}
    return canonical_name(spec.strip()) or (spec, {})


def _parse(spec: str) -> tuple[MetricInfo, dict[str, Any]]:
    match = _SPEC.fullmatch(spec.strip())
    if match is None:
        hint = _closest_to_other_tool(spec) or (
            "; write name, name@k, name[key] or module:Class; options in a mapping, as in "
            "{'ndcg@10': {'gain_scheme': 'linear'}}"
        )
        raise BadValueError(f"cannot read the metric '{spec}'{hint}")
    info = metric_info(match["name"])
    options: dict[str, Any] = {}
    if match["at"] is not None:
        if info.at is None:
            raise BadValueError(f"metric '{info.name}' has no cut-off: write {_examples(info)}")
        options[info.at] = _parse_cutoff(match["at"], spec)
    if match["keys"] is not None and "=" in match["keys"]:
        options |= _named_options(match["keys"], spec)
    elif match["keys"] is not None:
        parts = [part.strip() for part in match["keys"].split(",")]
        if not info.keys or len(parts) > len(info.keys) or not all(parts):
            raise BadValueError(f"cannot read the metric '{spec}'; write {_examples(info)}")
        for key, text in zip(info.keys, parts, strict=False):
            options[key] = _parse_like(info.parameters[key].default, text, spec)
    return info, options


def _named_options(text: str, spec: str) -> dict[str, Any]:
    """The options of a name that shows them, ``distinct_n[n=1]``; the metric keeps that name."""
    options: dict[str, Any] = {"as": spec.strip()}
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value) or key in options:
            raise BadValueError(f"cannot read the metric '{spec}'; write each option once, as in 'distinct_n[n=1]'")
        try:
            options[key] = None if value == "none" else json.loads(value)
        except ValueError:
            options[key] = value
    return options


def _examples(info: MetricInfo) -> str:
    """How the name is written, by example."""
    if info.keys:
        return f"'{info.name}[{','.join(str(info.parameters[key].default) for key in info.keys)}]'"
    if info.at is None:
        return f"'{info.name}'"
    optional = info.parameters[info.at].default is not inspect.Parameter.empty
    return f"'{info.name}' or '{info.name}@10'" if optional else f"'{info.name}@10'"


def _parse_cutoff(text: str, spec: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadValueError(f"cannot read the cut-off of '{spec}': {text!r} is not an integer") from None


def _parse_like(default: object, text: str, spec: str) -> object:
    """A key of a name, converted to the type of the option's default."""
    if isinstance(default, (int, float)) and not isinstance(default, bool):
        try:
            return type(default)(text)
        except ValueError:
            raise BadValueError(f"cannot read the metric '{spec}': {text!r} is not a number") from None
    return text


def _build(info: MetricInfo, spec: str, options: Mapping[str, Any]) -> Metric:
    remaining = _own_option_names(info.cls, options)
    source = None
    if read_options := getattr(info.cls, "read_options", None):
        try:
            remaining, source = read_options(remaining)
        except BadOptionError as error:
            raise BadOptionError(error.option, error.problem, error.metric or spec) from error
    alias = remaining.pop("as", None)
    parameters = info.parameters
    if alias is None and "name" not in parameters:
        alias = remaining.pop("name", None)
    single_conventions = {}
    if issubclass(info.cls, BatchMetric):
        single_conventions = {
            key: remaining.pop(key) for key in list(remaining) if key in CONVENTION_NAMES and key not in parameters
        }
    for key in remaining:
        if key not in parameters and key != "conventions":
            # Every batch metric accepts them, but only ranking metrics depend on them.
            changeable = CONVENTION_NAMES if "retrieved" in info.metadata.reads else ()
            raise UnknownOptionError(info.name, key, {*info.options, "conventions", "as"}, changeable)
    conventions = remaining.pop("conventions", None)
    if conventions is not None:
        conventions = Conventions.of(conventions)
    overrides = tuple((key, tuple(v) if isinstance(v, list) else v) for key, v in single_conventions.items())
    Conventions.of(conventions, **dict(overrides))  # an unknown value is an error here, not when scoring
    for key, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and key not in remaining:
            hint = f"write '{info.name}@5'" if key == info.at else f"give '{key}', after -m as {spec}:{key}=..."
            raise BadValueError(f"metric '{spec}' needs its option '{key}': {hint}")
    if info.metadata.requires_name and alias is not None:
        remaining["name"] = alias
    try:
        built = info.cls(**remaining)
    except BadOptionError as error:
        found = error if source is None else source.located(error)
        raise BadOptionError(found.option, found.problem, found.metric or spec) from error
    except AueporaError as error:
        if isinstance(error, BadValueError) and type(error) in (BadTypeError, BadValueError):
            if str(error).startswith("metric '"):
                raise
            named = type(error)(f"metric '{spec}': {error}")
            named.option = error.option
            raise named from error
        raise
    except (TypeError, ValueError) as error:
        raise BadValueError(f"metric '{spec}' cannot be built: {error}") from error
    except Exception as error:  # the user's code may raise anything
        raise BadValueError(f"metric '{spec}' cannot be built: {type(error).__name__}: {error}") from error
    for key, value in (("conventions", conventions), ("overrides", overrides)):
        if value:
            object.__setattr__(built, key, value)  # frozen, but not shared yet
    return built if alias is None else with_name(built, alias)


def metric_name(cls: type[Metric], options: Mapping[str, Any]) -> str | None:
    """The name a registered class has with these options: ``recall@5``; ``None`` for an unregistered class.

    An unregistered subclass is named after itself, in the pattern of its base class.
    """
    info = _METRICS.get(getattr(cls, "registered_as", ""))
    if info is None:
        return None
    return _full_name(info, info.name if "registered_as" in vars(cls) else snake_case(cls.__name__), options)


def _full_name(info: MetricInfo, text: str, options: Mapping[str, Any]) -> str:
    """The name ``text`` with the options that it carries."""
    if info.at is not None and options.get(info.at) is not None:
        text += f"@{options[info.at]}"
    if info.keys:
        text += f"[{','.join(str(options[key]) for key in info.keys)}]"
    return text


def spec_of(built: Metric) -> Spec:
    """The spec that builds this metric again, as short as it can be written."""
    info = _METRICS.get(getattr(type(built), "registered_as", ""))
    if info is None or "registered_as" not in vars(type(built)):
        info = _IMPORTED.get(type(built))
    if info is None:
        raise MetricDefinitionError(
            f"{type(built).__name__} is not registered, so it has no spec; put @register above the class"
        )
    options: dict[str, Any] = {}
    for key, parameter in info.options.items():
        value = getattr(built, key)
        in_name = key in info.keys or (key == info.at and value is not None)
        default = parameter.default
        if isinstance(value, Metric) and isinstance(default, (str, Mapping)):
            default = metric(default)
        if value != default and not in_name:
            options[key] = _spec_value(value, built, key)
    if isinstance(built, BatchMetric):
        if built.conventions is not None:
            options["conventions"] = built.conventions.name
        changes = {**(built.conventions.changes() if built.conventions else {}), **dict(built.overrides)}
        own = {key: value for key, value in changes.items() if key not in info.options}
        options |= {key: list(value) if isinstance(value, tuple) else value for key, value in own.items()}
        if built.metadata.requires_name:
            options = {"name": built.name, **options}
        elif base_name(built) != built.name:
            options["as"] = built.name
    name = _full_name(info, info.name, {key: getattr(built, key) for key in info.options})
    return {name: options} if options else name


def _spec_value(value: object, built: Metric, key: str) -> object:
    """An option as it is written in a spec: a metric by its own spec, a function not at all."""
    if isinstance(value, Metric):
        return spec_of(value)
    if isinstance(value, Use):
        return {"use": value.name}
    if isinstance(value, TargetCategory):
        return value.name.lower()
    if callable(own := getattr(value, "spec", None)):  # an embedder knows how a plan names it
        return own()
    if isinstance(value, (tuple, set, frozenset)):
        return list(value)
    if value is not None and not isinstance(value, (str, int, float, list, Mapping)):
        kind = "function " if callable(value) else ""
        raise MetricDefinitionError(
            f"metric '{built.name}' has the {kind}{value!r} as '{key}', which a spec cannot contain; build it in Python"
        )
    return value


# --- the base class of built-in metrics: options are dataclass fields, and the name follows from them ----------------


@dataclass(frozen=True)
class ConfiguredMetric(BatchMetric):
    """A metric whose options are its dataclass fields and whose name follows from them."""

    conventions: Conventions | None = field(default=None, kw_only=True, metadata={"convert": Conventions.of})
    overrides: tuple[tuple[str, Any], ...] = field(default=(), kw_only=True)
    if TYPE_CHECKING:
        # Not a field: ``register`` adds the option to every constructor, and a subclass may set ``self.name``.
        name: str = field(default="", kw_only=True)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls):  # before ``dataclass`` would write one
            cls.__repr__ = ConfiguredMetric.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        """The options, and the conventions in force instead of those that were given."""
        rules, hidden = self.active_conventions, ("conventions", "overrides")
        shown = {
            field.name: getattr(self, field.name) for field in fields(self) if field.repr and field.name not in hidden
        }
        shown |= {"conventions": rules.name, **rules.changes()}
        return f"{type(self).__qualname__}({', '.join(f'{key}={value!r}' for key, value in shown.items())})"

    def _prompt_texts(self) -> Mapping[str, str]:
        """The texts of prompt files, by the options that name them."""
        return {}

    def __post_init__(self) -> None:
        super().__post_init__()
        name = metric_name(type(self), vars(self))
        if name is not None:
            object.__setattr__(self, "name", name)
