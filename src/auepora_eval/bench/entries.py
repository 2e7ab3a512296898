"""A benchmark as one YAML file: what its script computes, how its files are read, and an example with its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ..core.registry import Spec, metric
from ..errors import AueporaError, BadValueError, MissingDependencyError, did_you_mean
from ..options import option_types
from ..plan.source import Findings, PlanSource, read_source

FOLDER = Path(__file__).parent / "entries"
"""The entries of this package: ``NAME.yaml``, and the files of its example in the folder ``NAME``."""

Mark = Literal["R", "T", "P"]
MARKS: dict[Mark, str] = {
    "R": "the published functions were run on the example and give the same values",
    "T": "the published script cannot be run as it is; its lines were typed in again and give the same values",
    "P": "nothing was run: the values follow from reading the published script or paper",
}
"""How the values of an example were obtained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A second file, whose records are joined by a column."""

    file: str
    on: str
    """The path in the records of the first file."""
    key: str
    """The path in those of the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How records become samples or outputs."""

    columns: Mapping[str, str]
    """By field of our own format its path in a record; ``extract.FIELD`` is an expression whose first group counts."""
    rows: Sequence[str] = ()
    """The keys under which records are, ``*`` for all; none if the file is a list of records."""
    by_id: bool = False
    """Whether the file is an object that has, by field, an object with a value per id."""
    join: Mapping[str, Join] = field(default_factory=dict)
    """Second files, by the name under which records have the joined record."""
    prepare: str | None = None
    """The import path of a function from a record and the settings to the record from which columns are taken."""
    number_repeats: bool = False
    """Whether an id may come again: the second record gets ``#2``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedMetric:
    """A number that the published script gives."""

    metric: Any = None
    """The spec with the published conventions; none where ``column`` has the number."""
    ours: Any = None
    """The spec of a safer variant, where there is one."""
    condition: Any = None
    """The spec of a metric that must be 1 on all samples of a cluster, else the cluster counts 0. The value is then the
    mean over clusters."""
    column: str | None = None
    """A number of each sample, such as ``labels.relevance``, whose mean is the value: it describes the data."""
    against: str | None = None
    """Labels of samples. With ``column`` the value is the area under the ROC curve of that column, as a score of these
    labels. With ``metric`` it is the prediction-powered mean of the labels: the mean score of samples without a label,
    less the mean of score - label of the others. Ours is then the mean that ``judge calibrate`` gives."""
    scale: float = 1.0
    """What the value is multiplied with: 100 where the script gives per cent."""
    shift: float = 0.0
    """What is added then."""
    formula: Literal["value", "complement", "root", "mean_of_slices", "binary_accuracy"] = "value"
    """``complement``: 1 − value. ``root``: its square root. ``mean_of_slices``: the plain mean of the values of the
    first slice. ``binary_accuracy``: 1 / (3 − 2 · value)."""
    differs: str = ""
    """How the number differs from ours, as a sentence."""

    def specs(self) -> dict[str, Spec]:
        """The specs that are given, by the name of their field."""
        given = {"metric": self.metric, "ours": self.ours, "condition": self.condition}
        return {name: spec for name, spec in given.items() if spec is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """An example with the published values."""

    data: str
    outputs: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    resources: Mapping[str, Any] = field(default_factory=dict)
    """Judges with fixed verdicts, by name: a verdict per sample id, or ``content_words``."""
    expected: Mapping[str, float]
    digits: int | None = None
    """The digits to which the script rounds; ``None``: values are equal up to 1e-9."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One kind of files of a benchmark, and what is computed from them."""

    shape: str
    """The expected shape of the file, in words."""
    files: Sequence[str] = ()
    """Patterns of the names of its files."""
    keys: Sequence[str] = ()
    """Keys that a file of this kind has; by default those that ``read`` names."""
    read: Reading | None = None
    reader: str | None = None
    """The import path of a function that yields samples, where columns cannot express it."""
    format: str | None = None
    """A format of this package, where the files have one."""
    outputs: Reading | None = None
    """The shape of the benchmark's own file of predictions."""
    drop_query_ids: bool = False
    """Whether retrieved documents whose id is that of the query are dropped."""
    counts_unjudged: bool = False
    """Whether the relevant documents are those retrieved ones on which no query at all has a judgement."""
    metrics: Mapping[str, PublishedMetric]
    """By published name."""
    slices: Sequence[str] = ()
    conventions: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Values that ``--set`` changes, with their defaults; columns refer to them as ``@NAME``."""
    examples: Mapping[str, Example]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """What is said about a benchmark as a whole."""

    name: str
    title: str
    row: str
    """The row of the survey's table."""
    targets: Sequence[str]
    mark: Mark
    cite: str
    source: str
    obtain: str
    """Where to get the data."""
    code_licence: str
    data_licence: str
    non_commercial: bool = False
    """Whether the data is for non-commercial use only."""
    needs: Sequence[str] = ()
    """What it needs besides its files: ``judge``, ``nli``, an extra of this package."""
    differs: Sequence[str] = ()
    """How the published script differs from what one would expect, as sentences."""
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A benchmark: its heading, and its parts by name. One without splits has the part ``""``."""

    heading: Heading
    parts: Mapping[str, Part]
    path: Path

    @property
    def name(self) -> str:
        """Its name."""
        return self.heading.name

    @property
    def folder(self) -> Path:
        """The folder of its example."""
        return self.path.with_suffix("")

    def chosen(self, split: str | None) -> Mapping[str, Part]:
        """The part of that name; without a name all."""
        return self.parts if split is None else {split: self.part(split)}

    def part(self, split: str | None) -> Part:
        """The part of that name; without a name the first."""
        if split is None:
            return next(iter(self.parts.values()))
        if split not in self.parts:
            known = [name for name in self.parts if name]
            hint = did_you_mean(split, known, otherwise=f"; there are {', '.join(known) or 'none'}")
            raise BadValueError(f"{self.name} has no split '{split}'{hint}")
        return self.parts[split]


_KEYS = (*option_types(Heading), *option_types(Part), "splits")


def read_entry(path: Path) -> Benchmark:
    """Read the file of a benchmark; every wrong or unknown key is an error that names its line."""
    source = read_source(path)
    findings = Findings(source)
    findings.top.refuse_unknown(_KEYS)
    heading = findings.top.read(Heading)[0]
    splits = findings.top.mapping("splits")
    findings.raise_first()
    parts: dict[str, Part] = {}
    for name in splits or {"": {}}:
        own = _split_source(source, name) if name else source
        parts[name] = _read_part(own)
    return Benchmark(heading=Heading(**heading), parts=parts, path=path)


def _split_source(source: PlanSource, name: str) -> PlanSource:
    """The values of one split: those of the benchmark, and its own in their place."""
    prefix = f"splits.{name}."
    own = {key.removeprefix(prefix): line for key, line in source.lines.items() if key.startswith(prefix)}
    values = dict(source.values) | dict(source.values["splits"][name] or {})
    return replace(source, values=values, lines={**source.lines, **own})


def _read_part(source: PlanSource) -> Part:
    findings = Findings(source)
    findings.top.refuse_unknown(_KEYS)
    values = findings.top.read(Part)[0]
    findings.raise_first()
    part = Part(**values)
    readers = [name for name in ("read", "reader", "format") if values[name] is not None]
    if len(readers) != 1:
        raise source.error("read", "needs exactly one of 'read', 'reader' and 'format'")
    for name, published in part.metrics.items():
        if (published.metric is None) is (published.column is None):
            raise source.error(f"metrics.{name}", "needs either 'metric' or 'column'")
        for key, spec in published.specs().items():
            _check_spec(source, f"metrics.{name}.{key}", named_spec(spec, name))
    for name, example in part.examples.items():
        unknown = [value for value in example.expected if value not in part.metrics]
        if unknown:
            hint = did_you_mean(unknown[0], part.metrics)
            raise source.error(f"examples.{name}.expected", f"there is no metric '{unknown[0]}'{hint}")
    return part


def _check_spec(source: PlanSource, key: str, spec: Any) -> None:
    """Raise unless a metric can be built, with the key in the message."""
    try:
        metric(spec)
    except MissingDependencyError:
        return  # it is said where the metric is computed
    except AueporaError as error:
        raise source.error(key, str(error)) from error


def named_spec(spec: Spec, name: str) -> Spec:
    """A spec under another name."""
    if isinstance(spec, str):
        return {spec: {"as": name}}
    ((kind, options),) = spec.items()
    key = "name" if kind == "judge_metric" else "as"
    return {kind: {**(options or {}), key: name}}


@cache
def entry_names() -> tuple[str, ...]:
    """The names of the benchmarks of this package."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


@cache
def _built_in(name: str) -> Benchmark:
    return read_entry(FOLDER / f"{name}.yaml")


def get_benchmark(name: str) -> Benchmark:
    """The benchmark of that name, or of that file."""
    if name.endswith((".yaml", ".yml")):
        return read_entry(Path(name))
    if name not in entry_names():
        hint = did_you_mean(name, entry_names(), otherwise="; auepora bench list shows all")
        raise BadValueError(f"there is no benchmark '{name}'{hint}")
    return _built_in(name)


def all_benchmarks() -> list[Benchmark]:
    """The benchmarks of this package, in the order of their names."""
    return [get_benchmark(name) for name in entry_names()]


def parse_settings(part: Part, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a part with those that were given."""
    for name, value in given.items():
        if name not in part.settings:
            hint = did_you_mean(name, part.settings, otherwise=f"; there are {', '.join(part.settings) or 'none'}")
            raise BadValueError(f"there is no setting '{name}'{hint}")
        if isinstance(part.settings[name], float) and not isinstance(value, int | float):
            raise BadValueError(f"the setting '{name}' is a number such as {part.settings[name]}, not {value!r:.40}")
    return {**part.settings, **given}
