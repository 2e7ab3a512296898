"""Options and output shared by the commands: executor, store, metrics after ``-m``, results to stdout or a file."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from ..core.conventions import MATCHES, Conventions
from ..core.registry import Spec, canonical_name, find_metric
from ..core.results import Results, script_note
from ..errors import AueporaError, BadValueError
from ..runtime.imports import IMPORT_PATH, search_folders, store_folders
from .console import echo, echo_err

if TYPE_CHECKING:
    from ..core.types import TargetCategory
    from ..engine.executors import Executor, ExecutorName
    from ..io.sample_sets import SampleSet
    from ..render.blocks import Report
    from ..store.runs import RunStore

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def grouped_options(
    name: str, kind: Callable[..., Any], options: dict[str, Callable[[Any], Any]]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Options of a command, which receives them as the argument ``name``: a ``kind`` built from their values."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            group = kind(*(kwargs.pop(option) for option in options))
            return function(*args, **kwargs, **{name: group})

        wrapped: Callable[..., Any] = wrapper
        for option in reversed(options.values()):
            wrapped = option(wrapped)
        return wrapped

    return decorate


# --- the executor: this process, several processes or a Ray cluster --------------------------------------------------

NAMES = ("serial", "processes", "ray")


@dataclass(frozen=True, slots=True)
class ExecutorChoice:
    """The executor that the command line selects."""

    name: ExecutorName | None = None
    workers: int | None = None
    address: str | None = None

    def check(self) -> None:
        """Raise if options contradict each other."""
        if self.workers is not None and self.name not in ("processes", "ray"):
            raise click.UsageError("--workers goes with --executor processes or ray")
        if self.address is not None and self.name != "ray":
            raise click.UsageError("--address goes with --executor ray")

    def open_executor(self) -> AbstractContextManager[Executor]:
        """A context manager that gives the executor and closes it."""
        from ..engine.executors import make_executor

        return make_executor(self.name or "serial", self.workers, self.address)

    def changes(self) -> dict[str, Any]:
        """The same as changes of a plan."""
        given = {"scoring.executor": self.name, "scoring.workers": self.workers, "scoring.address": self.address}
        return {key: value for key, value in given.items() if value is not None}


executor_options = grouped_options(
    "executor",
    ExecutorChoice,
    {
        "executor": click.option(
            "--executor",
            type=click.Choice(NAMES),
            help="Where to score: this process (serial), several processes or a Ray cluster; results are equal.",
        ),
        "workers": click.option(
            "--workers", type=click.IntRange(min=1), help="Number of processes; default: one per CPU."
        ),
        "address": click.option(
            "--address",
            metavar="ADDRESS",
            help="With ray: auto, host:port or ray://host:port; default: a local cluster for this command.",
        ),
    },
)
"""``--executor``, ``--workers`` and ``--address``, passed to the command as one argument, ``executor``."""


def match_option(default: str | None, text: str) -> Callable[[FunctionT], FunctionT]:
    """Add ``--match`` to a command; ``text`` describes the default."""
    return click.option(
        "--match",
        type=click.Choice(("auto", *MATCHES)),
        default=default,
        metavar="WAY",
        help=f"How gold is matched with retrieved documents; {', '.join(('auto', *MATCHES))} document; {text}.",
    )


def _parse_targets(
    context: click.Context, parameter: click.Parameter, names: tuple[str, ...]
) -> tuple[TargetCategory, ...]:
    from ..core.targets import find_targets

    return find_targets(names)


def target_option(
    text: str = "computes all metrics that the data supports for it",
) -> Callable[[FunctionT], FunctionT]:
    """Add ``--target`` to a command; ``text`` says what it does."""
    return click.option(
        "--target",
        "targets",
        multiple=True,
        metavar="NAME",
        callback=_parse_targets,
        help=f"Judge this target, such as correctness; {text}; repeatable. `auepora targets` lists them.",
    )


# --- metrics after ``-m``: a name, ``name:option=value,...``, or a JSON object ---------------------------------------

# The colon that starts the options: one in `mean_latency[a:b]` or in the import path `my_metrics:Mine` does not.
_SHORT = re.compile(
    rf"(?P<name>(?:{IMPORT_PATH.pattern}(?=$|[:@\[])|[^:\[\]]*)[^:\[\]]*(?:\[[^\[\]]*\])?[^:\[\]]*)(?::(?P<options>.*))?",
    re.DOTALL,
)
# Only a comma before `option=` separates, so that a value may be a list: `k_values=[1,5],as=mine`.
_COMMA = re.compile(r",(?=\s*[A-Za-z_]\w*\s*=)")
# A column name may have commas; whatever stands before the next equals sign is a field, also where there is none of it.
_COLUMN_COMMA = re.compile(r",(?=[^,=]*=)")

_BY_PRESET = {"map", "ndcg", "precision"}
"""Metrics whose definition depends on the preset."""


def parse_specs(texts: Iterable[str]) -> list[Spec]:
    """The specs, in order, without duplicates; names of other tools become the closest metric, which is said."""
    distinct = dict.fromkeys(text.strip() for text in texts)
    return [_closest_spec(parse_spec(text)) for text in distinct]


def _closest_spec(spec: Spec) -> Spec:
    """The metric that is closest to a name of another tool; the spec itself where the name is one of ours."""
    name = spec if isinstance(spec, str) else next(iter(spec), "")
    base, at, cutoff = name.partition("@")
    if find_metric(base) is not None or canonical_name(name) is not None:
        return spec
    from ..core.other_tools import closest_metrics

    found = closest_metrics(base)
    if len(found) != 1 or found[0].metric == "judge_metric":  # the user writes its question
        return spec
    closest = found[0]
    ours = closest.metric.removesuffix("@k") + at + cutoff
    echo_err(f"{name} of {closest.tool} is computed as {ours}, the closest here; {closest.differs}")
    options = {**closest.options, **({} if isinstance(spec, str) else dict(spec[name] or {}))}
    return {ours: options} if options else ours


def parse_spec(text: str) -> Spec:
    """One spec as the registry takes it.

    >>> parse_spec("recall@5"), parse_spec("ndcg@10:gain_scheme=linear,as=mine")
    ('recall@5', {'ndcg@10': {'gain_scheme': 'linear', 'as': 'mine'}})
    """
    if text.startswith("{"):
        return _read_json(text, "the metric", '{"name": {"option": value}}')
    short = _SHORT.fullmatch(text)
    if short is None or short["options"] is None:
        return text
    return {short["name"].strip(): _options(short["options"], text)}


def alias_notes(specs: Iterable[Spec], rules: Conventions) -> list[str]:
    """Notes on metrics given by the name of another tool, and on conventions that differ from that tool."""
    notes, differs = [], False
    for spec in specs:
        name = spec if isinstance(spec, str) else next(iter(spec), "")
        ours = canonical_name(name)
        if ours is None or ours[0] == name:
            continue
        options = ",".join(f"{key}={value}" for key, value in ours[1].items())
        notes.append(f"{name} is called {ours[0]}{':' if options else ''}{options} here")
        differs |= ours[0].partition("@")[0] in _BY_PRESET
    if differs and rules.name != "trec":
        notes.append(f"the conventions are '{rules.name}'; --conventions trec computes as trec_eval does")
    return notes


def _read_json(text: str, what: str, example: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise BadValueError(f"cannot read {what} {text!r}: not valid JSON ({error}); write '{example}'") from None
    assert isinstance(value, dict)  # it starts with a brace
    return value


def _options(text: str, spec: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for part in _COMMA.split(text):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise BadValueError(f"cannot read the options of '{spec}'; write name:option=value,option=value")
        if key in options:
            raise BadValueError(f"metric '{spec}' names '{key}' twice")
        options[key] = value if key == "as" else _value(value)
    return options


def _value(text: str) -> Any:
    """The text parsed as JSON, or the text itself."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text


def _no_constant(name: str) -> Any:
    raise ValueError(name)  # NaN and Infinity are not JSON, although the standard library accepts them


# --- columns of tables: ``query=Question,response=Answer``, or a JSON object -----------------------------------------


def columns_option(name: str = "--columns", of: str = "DATASET") -> Callable[[FunctionT], FunctionT]:
    """Add an option with the columns of a table to a command."""
    return click.option(
        name,
        metavar="FIELD=NAME,...",
        callback=_parse_columns,
        help=f"Columns of {of}, if it is a table: query=Question,response=Answer,contexts=Contexts,reference=Expected.",
    )


def _parse_columns(context: click.Context, parameter: click.Parameter, text: str | None) -> dict[str, str] | None:
    """The columns by field; a name with a comma or an equals sign is written in a JSON object."""
    if text is None:
        return None
    if text.lstrip().startswith("{"):
        return dict(_read_json(text, "the columns", '{"query": "Question"}'))
    columns: dict[str, str] = {}
    for part in _COLUMN_COMMA.split(text):
        key, _, name = (piece.strip() for piece in part.partition("="))
        if not (key and name):
            raise click.BadParameter(f"cannot read {text!r}; write field=column,field=column", context, parameter)
        if key in columns:
            raise click.BadParameter(f"{key!r} is given twice", context, parameter)
        columns[key] = name
    return columns


# --- stored runs: the option ``--store``, completion of runs, formatting ---------------------------------------------


store_option = click.option(
    "--store",
    metavar="PATH|URL",
    help="Store of the runs: an SQLite file or a PostgreSQL URL; default: $AUEPORA_STORE, else runs.sqlite.",
)


@contextmanager
def open_store(store: str | None, *, output: str | None = None, timeout: float = 30.0) -> Iterator[RunStore]:
    """Open an existing store; raises if ``output`` would overwrite it. ``timeout``: seconds to wait for a lock."""
    from ..store.connect import default_store
    from ..store.runs import RunStore

    where = default_store(store)
    refuse_input_as_output(output, [where])
    with RunStore.open(where, create=False, timeout=timeout) as found, search_folders(*store_folders(found.file)):
        yield found


samples_option = click.option(
    "--samples", metavar="NAME|FILE", help="Only the samples of this set; `auepora samples` lists the sets."
)


def find_samples(text: str | None, where: str) -> SampleSet | None:
    """The set that ``--samples`` names, in the labels folder of the store ``where``; ``None`` without one."""
    from ..io.sample_sets import find_sample_set
    from ..store.connect import default_labels

    return None if text is None else find_sample_set(default_labels(where), text)


def complete_run(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Run ids and names for shell completion; empty if there is no store."""
    try:
        with open_store(context.params.get("store")) as store:
            records = store.runs(limit=200)
    except AueporaError:
        return []
    names = chain.from_iterable((record.run_id, record.name) for record in records)
    return [name for name in dict.fromkeys(["latest", *names]) if name.startswith(incomplete)]


# --- results to stdout or to a file, in the format of its suffix -----------------------------------------------------


def output_format(
    output: str | None, *, as_json: bool = False, no_csv: str | None = None
) -> Literal["csv", "json", "markdown", "table"]:
    """The format that ``--json`` or the suffix of the file selects; ``r.json.gz`` is JSON too.

    ``no_csv`` is the error of a command that cannot write CSV.
    """
    name = (output or "").lower().removesuffix(".gz")
    if as_json or name.endswith(".json"):
        return "json"
    if name.endswith(".csv"):
        if no_csv is not None:
            raise click.UsageError(no_csv)
        return "csv"
    return "markdown" if name.endswith((".md", ".markdown")) else "table"


def require_per_query(per_query: bool, form: str) -> None:
    """Raise if scores of samples are requested in a format that cannot hold them."""
    if per_query and form not in ("csv", "json"):
        raise click.UsageError("--per-query goes with --json, or with -o FILE.csv")


def _set_raw(context: click.Context, parameter: click.Parameter, raw: bool) -> None:
    context.meta["auepora_eval.raw_csv"] = raw


raw_option = click.option(
    "--raw",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_set_raw,
    help="In CSV, keep texts that a spreadsheet would run as formulas; by default they get an apostrophe in front.",
)
"""The option of a command that writes CSV; ``raw_csv`` says whether it is given."""


def raw_csv() -> bool:
    """Whether the current command has ``--raw``."""
    return bool(click.get_current_context().meta.get("auepora_eval.raw_csv"))


def render_results(results: Results, form: str, footer: str, *, per_query: bool = False) -> str:
    """The results in a format; tables end with ``footer``, the line that names the conventions."""
    from ..render.tables import results_csv, results_markdown, results_table, scores_csv, slices_tables

    if form == "json":
        return results.to_json(per_query=per_query)
    if form == "csv":
        return scores_csv(results, raw=raw_csv()) if per_query else results_csv(results, raw=raw_csv())
    markdown = form == "markdown"
    whole = results_markdown(results) if markdown else results_table(results)
    return "\n\n".join([whole, *slices_tables(results, markdown=markdown), footer])


def render_document(form: str, document: Any, *, markdown: str, text: str) -> str:
    """The document as JSON, or its Markdown or text, as the format says."""
    if form == "json":
        return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    return markdown if form == "markdown" else text


def render_page(form: str, document: Any, page: Callable[[], Report]) -> str:
    """The document as JSON, or the page that ``page`` returns as Markdown or text, as the format says."""
    from ..render.markdown import report_markdown
    from ..render.terminal import report_text

    if form == "json":
        return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    return report_markdown(page()).rstrip("\n") if form == "markdown" else report_text(page())


def refuse_input_as_output(output: str | None, inputs: Sequence[str | None], *, option: str = "-o") -> None:
    """Raise if ``output`` is one of ``inputs`` (also under another name), or will become one, such as a new store.

    Inputs that are not given are ``None``. ``option`` is the option that names the output.
    """
    for path in inputs:
        if output is None or path is None or "://" in path:
            continue
        try:
            same = os.path.samefile(output, path)
        except OSError:  # one of them does not exist: reading or writing reports that
            if os.path.abspath(output) == os.path.abspath(path):
                raise click.UsageError(f"{option} {output} is where {path} will be; write to another file") from None
            continue
        # Using one terminal or device for both overwrites nothing.
        if same and os.path.isfile(path):
            raise click.UsageError(f"{option} {output} is the input {path}; write to another file")


_STDOUT = (None, "-", "/dev/stdout")
"""Names of stdout."""
all_option = click.option("--all", "every", is_flag=True, help="Print all tables and notes, not only what decides.")
ALL_TABLES = ("all tables", "the same command with --all")


def is_short(form: str, output: str | None, *, every: bool) -> bool:
    """Whether the short form is printed: on stdout as text, unless ``--all`` is given. Files are complete."""
    return form == "table" and output in _STDOUT and not every


def write_out(text: str, output: str | None) -> None:
    """Print, or write a file atomically."""
    if output in _STDOUT:  # which must not be truncated
        echo(text)
        return
    from ..runtime.files import write_lines

    assert output is not None
    write_lines(Path(output), [text.encode()])
    echo_err(f"wrote {output}")


# --- warnings about the data: samples and outputs that do not match, and suspicious scores ---------------------------


def warn_unmatched_ids(missing: Sequence[str], unknown: Sequence[str], *, total: int, conventions: Conventions) -> None:
    """Warn about samples without an output, with how they are scored, and about outputs without a sample."""
    from ..io.join import unmatched_warnings

    found = unmatched_warnings(missing, unknown, total=total, conventions=conventions)
    echo_err(*(f"Warning: {warning}" for warning in found))


def show_warnings(results: Results) -> None:
    """Print how gold was matched, unless by id as usual, how texts were cut into tokens, and the warnings."""
    if results.gold_match is not None:
        echo_err(results.gold_match["sentence"])
    if note := script_note(results):
        echo_err(note)
    if results.warnings:
        from ..render.short import grouped_warnings

        echo_err(*(f"Warning: {warning}" for warning in grouped_warnings(results)))
