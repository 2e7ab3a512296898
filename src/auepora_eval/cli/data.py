"""``auepora validate`` and ``convert``: check and convert data."""

from __future__ import annotations

import re
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import click

from ..io.join import load_dataset, unknown_ids_message
from ..render.tables import plural
from ..render.terminal import progress, report_text
from .console import echo, echo_err, json_text, quiet_option, stdout_to_stderr
from .help_pages import Command
from .judge_options import STOPPED_EARLY
from .options import columns_option, open_store, store_option, write_out

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..io.convert import Conversion
    from ..io.problems import Problem
    from ..io.validate import Validation
    from ..plan.model import Plan
    from ..runs.dataset_quality import DatasetQuality


# --- auepora validate ------------------------------------------------------------------------------------------------

MAX_SHOWN = 100
"""Number of problems printed without ``--all``."""
MAX_KEYS = 12
"""Number of labels, or metadata keys, that are listed."""
HAS_PROBLEMS = 2


@click.command(name="validate", cls=Command)
@click.argument("dataset", type=click.Path())
@click.argument("outputs", required=False, type=click.Path())
@click.option("--format", "dataset_format", metavar="NAME", help="Format of DATASET; default: detected.")
@click.option("--outputs-format", metavar="NAME", help="Format of OUTPUTS; default: detected.")
@columns_option()
@columns_option("--outputs-columns", "OUTPUTS")
@click.option("--corpus", type=click.Path(), help="JSONL file with the texts of documents given by id.")
@click.option("--nuggets", type=click.Path(), help="JSONL file with the nuggets of the samples, matched by id.")
@click.option("--all", "show_all", is_flag=True, help=f"Print all problems, not only the first {MAX_SHOWN}.")
@click.option(
    "--quality",
    is_flag=True,
    help="Say what the questions can decide: repeated questions, gold that the corpus lacks, questions that every "
    "stored run answers alike, the smallest difference that is detected.",
)
@click.option("--run", "runs", multiple=True, metavar="RUN", help="With --quality: only this run; repeatable.")
@store_option
@click.option("--load", is_flag=True, help="Of a plan: import the user's code that it names, and check it too.")
@click.option(
    "--call",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of a plan: call its system on the first N samples, and show question, documents, answer and scores.",
)
@click.option(
    "--set",
    "set_texts",
    multiple=True,
    metavar="KEY=VALUE",
    help="Of a plan: set one of its keys, such as run.top_k=3; repeatable. The value is YAML.",
)
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def validate_command(
    dataset: str,
    outputs: str | None,
    dataset_format: str | None,
    outputs_format: str | None,
    columns: dict[str, str] | None,
    outputs_columns: dict[str, str] | None,
    corpus: str | None,
    nuggets: str | None,
    show_all: bool,
    quality: bool,
    runs: tuple[str, ...],
    store: str | None,
    load: bool,
    call: int | None,
    set_texts: tuple[str, ...],
    as_json: bool,
) -> None:
    """Report every problem in a DATASET, and in OUTPUTS for it, and the metrics that they support.

    Of a plan: every problem in it and the files it names, and what would run. Its own code is imported with --load and
    --call only. Nothing is stored, and no judge is called.

    The fields of the samples are counted, and for every target its metrics are listed, or what they lack. The exit code
    is 2 if there is a problem, and 3 if no call of --call gave an answer.

    \b
    auepora validate data.jsonl
    auepora validate data.jsonl outputs.jsonl --corpus corpus.jsonl --all
    auepora validate data.jsonl outputs.jsonl --json
    auepora validate answers.csv --columns query=Question,response=Answer,reference=Expected
    auepora validate plan.yaml --load
    auepora validate plan.yaml --call 3
    """
    from ..io.validate import validate_files
    from ..plan.source import looks_like_plan, parse_settings

    if outputs is None and (outputs_format is not None or outputs_columns is not None):
        raise click.UsageError(f"--outputs-{'columns' if outputs_format is None else 'format'} goes with OUTPUTS")
    if outputs is None and dataset_format is None and columns is None and looks_like_plan(dataset):
        settings = parse_settings(set_texts)
        sys.exit(validate_plan(dataset, as_json=as_json, load=load, call=call, settings=settings))
    if set_texts:
        raise click.UsageError("--set goes with a plan")
    if load or call is not None:
        raise click.UsageError("--load and --call go with a plan")
    if runs and not quality:
        raise click.UsageError("--run goes with --quality")
    with progress(f"reading {dataset}"):
        checked = validate_files(
            dataset,
            outputs,
            dataset_format=dataset_format,
            outputs_format=outputs_format,
            corpus=corpus,
            nuggets=nuggets,
            columns=columns,
            outputs_columns=outputs_columns,
        )
    document, paragraphs = checked.to_dict(), _paragraphs(checked, show_all=show_all)
    if quality and checked.is_valid:
        found = _quality(dataset, dataset_format, columns, corpus=corpus, store=store, runs=runs)
        document["quality"] = found.to_dict()
        paragraphs.insert(0, found.to_text())
    echo(json_text(document) if as_json else "\n\n".join(filter(None, paragraphs)))
    if not checked.is_valid:
        sys.exit(HAS_PROBLEMS)


def _quality(
    dataset: str,
    dataset_format: str | None,
    columns: dict[str, str] | None,
    *,
    corpus: str | None,
    store: str | None,
    runs: Sequence[str],
) -> DatasetQuality:
    """What a dataset can decide, with the stored runs on it if there is a store."""
    from ..io.corpus import Corpus
    from ..runs.dataset_quality import dataset_quality
    from ..store.connect import default_store

    samples = list(load_dataset(dataset, dataset_format, corpus=corpus, columns=columns))
    ids = None if corpus is None else Corpus.open(corpus).ids
    where = default_store(store)
    if store is None and not runs and "://" not in where and not Path(where).exists():
        return dataset_quality(samples, corpus_ids=ids)
    with open_store(store) as opened:
        records = [opened.find(run) for run in runs]
        return dataset_quality(samples, corpus_ids=ids, store=opened, runs=records)


def _paragraphs(checked: Validation, *, show_all: bool) -> list[str]:
    return [
        _list_problems(checked.problems, "problem", show_all=show_all),
        _list_problems(checked.warnings, "warning", show_all=show_all),
        _samples(checked),
        _outputs(checked),
        _corpus(checked),
        _targets(checked),
        _advice(checked),
        _verdict(checked),
    ]


def _list_problems(found: Sequence[Problem], kind: str, *, show_all: bool) -> str:
    groups: dict[object, list[Problem]] = {}
    for problem in found:
        is_repeated = not show_all and problem.message.startswith("unknown field")
        groups.setdefault(
            (problem.path, re.sub(r"\[\d+\]", "[]", problem.message)) if is_repeated else id(problem), []
        ).append(problem)
    listed = list(groups.values()) if show_all else list(groups.values())[:MAX_SHOWN]
    lines = []
    for group in listed:
        more = f" (and in {len(group) - 1} further {plural(len(group) - 1, 'place')})" if len(group) > 1 else ""
        lines.append(one_line(f"{'warning: ' if kind == 'warning' else ''}{group[0]}{more}"))
    rest = len(found) - sum(map(len, listed))
    if rest:
        lines.append(f"... and {rest} more {plural(rest, kind)}; --all prints every one")
    return "\n".join(lines)


def one_line(text: str) -> str:
    """The text in one line, with surrogates and line breaks (from file names and ids) escaped."""
    return re.sub(r"[^ -~]", _escape_unprintable, text.encode(errors="backslashreplace").decode())


def _escape_unprintable(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else found[0].encode("unicode_escape").decode()


def _samples(checked: Validation) -> str:
    counts, (path, name) = checked.samples, checked.files["samples"]
    total = counts["samples"]
    if not total:
        return ""
    gold = [f"{counts[key]} {word}" for key, word in _GOLD.items() if counts[key]]
    if groups := counts.get("groups", 0):
        gold.append(f"{groups} {plural(groups, 'group')}")
    rows = [
        ("relevant_docs", counts["relevant_docs"], ", ".join(gold)),
        ("candidate_docs", counts["candidate_docs"], ""),
        ("reference_answer", counts["reference_answer"], _with(counts, {"several_references": "with several"})),
        ("unanswerable", counts["unanswerable"], ""),
        ("variants", counts["variants"], _by_key(counts["variants_by_scenario"])),
        ("history", counts["history"], ""),
        ("cluster_id", counts["cluster_id"], ""),
        ("labels", None, _by_key(counts["labels"])),
        ("metadata", None, _by_key(counts["metadata"])),
    ]
    return _table(f"{total} {plural(total, 'sample')} in {path} ({name})", rows)


_GOLD = {"empty_gold": "empty", "graded": "graded", "gold_with_text": "with text", "gold_with_span": "with spans"}
_ANSWERS = {"empty_response": "empty", "structured_response": "structured"}


def _outputs(checked: Validation) -> str:
    counts = checked.outputs
    if not counts or not counts["outputs"]:
        return ""
    total, (path, name) = counts["outputs"], checked.files["outputs"]
    rows = [
        (
            "retrieved",
            counts["retrieved"],
            _with(counts, {"documents_with_text": "with text", "scores": "with scores"}),
        ),
        ("response", counts["response"], _with(counts, _ANSWERS)),
        ("refused", counts["refused"], ""),
        ("citations", counts["citations"], ""),
        ("error", counts["error"], ""),
        ("steps", counts["steps"], ""),
        ("usage", counts["usage"], ""),
        ("timings", None, _by_key(counts["timings"])),
    ]
    return _table(f"{total} {plural(total, 'output')} in {path} ({name})", rows)


def _corpus(checked: Validation) -> str:
    count = checked.documents
    return f"{count} {plural(count, 'document')} in {checked.files['corpus'][0]}" if count else ""


def _with(counts: Mapping[str, Any], words: Mapping[str, str]) -> str:
    return ", ".join(f"{counts[key]} {word}" for key, word in words.items() if counts[key])


def _by_key(counts: Mapping[str, int]) -> str:
    shown = [f"{one_line(key)} {count}" for key, count in list(counts.items())[:MAX_KEYS]]
    return ", ".join(shown) + (f" and {len(counts) - MAX_KEYS} more" if len(counts) > MAX_KEYS else "")


def _table(title: str, rows: Sequence[tuple[str, int | None, str]]) -> str:
    """A heading and one line per non-empty row."""
    shown = [row for row in rows if row[1] or row[2]]
    left = max((len(name) for name, _, _ in shown), default=0)
    middle = max((len(str(count)) for _, count, _ in shown if count is not None), default=0)
    lines = [title]
    for name, count, note in shown:
        number = "" if count is None else str(count)
        shown_note = f"({note})" if number and note else note
        lines.append(f"  {name:<{left}}  {number:>{middle}}  {shown_note}".rstrip())
    return "\n".join(lines)


def _targets(checked: Validation) -> str:
    if not checked.samples["samples"]:
        return ""
    no_outputs = checked.outputs is None
    reasons = {target.missing for target in checked.targets}
    if len(reasons) == 1 and not any(target.metrics for target in checked.targets):
        return f"Metrics these files support: nothing, since {reasons.pop()}"
    lines = ["Metrics this dataset supports" if no_outputs else "Metrics these files support"]
    for target in checked.targets:
        if target.metrics:
            lines.append(f"  + {target.title}: {', '.join(target.patterns)}")
        else:
            lines.append(f"  - {target.title}: {target.missing}")
    return "\n".join(lines)


def _advice(checked: Validation) -> str:
    if not checked.advice:
        return ""
    why, *ways = checked.advice
    return "\n".join([f"No gold: {why}. Ways to go on:", *(f"  {way}" for way in ways)])


def _verdict(checked: Validation) -> str:
    problems, warnings = len(checked.problems), len(checked.warnings)
    parts = [f"{problems or 'no'} {plural(problems, 'problem')}"]
    if warnings:
        parts.append(f"{warnings} {plural(warnings, 'warning')}")
    return ", ".join(parts)


# --- plans: every problem in a plan and the files it names, and what would run ---------------------------------------


def validate_plan(
    path: str, *, as_json: bool, load: bool, call: int | None = None, settings: Mapping[str, Any] = MappingProxyType({})
) -> int:
    """Print the problems and notes of a plan with these ``settings``; returns the exit code.

    With ``load`` the user's code is imported, and the system built. With ``call`` it is called on so many samples.
    """
    from ..plan.prepare import check_plan
    from .show import sample_page

    with progress(f"checking {path}"), stdout_to_stderr():
        checked = check_plan(path, load=load or call is not None, settings=settings)
    count = len(checked.problems)
    document = checked.to_dict()
    texts = ["\n".join([*map(str, checked.problems), *checked.notes, f"\n{count or 'no'} {plural(count, 'problem')}"])]
    code = 0 if checked.fine else HAS_PROBLEMS
    if call is not None and checked.fine:
        assert checked.plan is not None
        found = _call_system(checked.plan, call)
        document["calls"] = found
        texts += [found["conclusion"], *(report_text(sample_page(sample)) for sample in found["samples"])]
        code = 0 if found["answered"] else STOPPED_EARLY
    write_out(json_text(document) if as_json else "\n\n".join(texts), None)
    return code


def _call_system(plan: Plan, count: int) -> dict[str, Any]:
    """Call the system of a plan on its first samples and score the answers without judges, in a temporary store."""
    from ..core.metrics_base import BatchMetric, is_judged
    from ..errors import BadValueError
    from ..runs.run import open_plan, start_run
    from .show import sample_document

    if plan.system is None:
        raise BadValueError(f"{plan.path} has saved outputs and no system to call; leave out --call")
    with (
        tempfile.TemporaryDirectory(prefix="auepora-") as folder,
        stdout_to_stderr(),
        progress(f"calling the system of {plan.path}"),
        open_plan(plan, store=Path(folder) / "runs.sqlite", limit=count) as (request, store, _),
    ):
        unjudged = [
            metric for metric in request.metrics or () if not (isinstance(metric, BatchMetric) and is_judged(metric))
        ]
        outcome = start_run(replace(request, metrics=unjudged or None, repeats=1, two_stage=None), store)
        ids = store.sample_ids(outcome.record.run_id)
        samples = [sample_document(store, outcome.record, sample_id) for sample_id in ids]
    answered = outcome.asked - outcome.failed
    conclusion = f"{answered} of {outcome.asked} {plural(outcome.asked, 'call')} gave an answer"
    if outcome.message:
        conclusion = f"{conclusion}; {outcome.message}\n{outcome.traceback}".rstrip()
    return {"conclusion": conclusion, "answered": answered, "samples": samples}


# --- auepora convert -------------------------------------------------------------------------------------------------


@click.command(name="convert", cls=Command)
@click.argument("source", metavar="IN", type=click.Path())
@click.argument("target", metavar="OUT", type=click.Path())
@click.option("--from", "from_format", metavar="NAME", help="Format of IN; default: detected.")
@columns_option(of="IN")
@click.option("--to", "to_format", metavar="NAME", help="Format of OUT; default: from its suffix.")
@click.option(
    "--role",
    type=click.Choice(["samples", "outputs"]),
    help="Content of IN; default: detected from its first record.",
)
@click.option("--outputs", "outputs_out", type=click.Path(), help="Also write the outputs, to this file.")
@click.option(
    "--outputs-in",
    type=click.Path(),
    help="Add these outputs, for a format that keeps samples and outputs in one file.",
)
@click.option("--nuggets", type=click.Path(), help="JSONL file with the nuggets of the samples, matched by id.")
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print a summary as JSON.")
def convert_command(
    source: str,
    target: str,
    from_format: str | None,
    columns: dict[str, str] | None,
    to_format: str | None,
    role: Literal["samples", "outputs"] | None,
    outputs_out: str | None,
    outputs_in: str | None,
    nuggets: str | None,
    as_json: bool,
) -> None:
    """Write the samples, or outputs, of IN to OUT in another format.

    Fields that OUT cannot hold are dropped, and reported with their counts. --outputs splits a format that keeps
    samples and outputs in one file; --outputs-in combines them.

    \b
    auepora convert data.jsonl data.jsonl.gz
    auepora convert run.jsonl out.jsonl.zst --role outputs
    auepora convert records.json data.jsonl --outputs out.jsonl
    auepora convert answers.csv data.jsonl --columns query=Question,reference=Expected
    """
    from ..io.convert import convert_files

    with progress(f"reading {source}"):
        done = convert_files(
            source,
            target,
            from_format=from_format,
            to_format=to_format,
            role=role,
            outputs_in=outputs_in,
            outputs_out=outputs_out,
            nuggets=nuggets,
            columns=columns,
        )
    if as_json:
        click.echo(
            json_text(
                {
                    "schema": 1,
                    "written": {
                        role: {"path": str(path), "count": done.counts[role]} for role, path in done.written.items()
                    },
                    "dropped": [asdict(loss) for loss in done.dropped],
                    "outputs_left": done.outputs_not_written,
                    "strays": done.unmatched_ids,
                }
            )
        )
        return
    echo_err(*_messages(done))


def _messages(done: Conversion) -> list[str]:
    """Messages about what was written and what was dropped."""
    by_path: dict[str, list[str]] = {}
    for role in ("samples", "outputs"):
        if role in done.written:
            count = done.counts[role]
            by_path.setdefault(str(done.written[role]), []).append(f"{count} {role if count != 1 else role[:-1]}")
    messages = [f"wrote {path}: {' and '.join(counts)}" for path, counts in by_path.items()]
    messages += [f"dropped: {loss}" for loss in done.dropped]
    if done.outputs_not_written:
        what = "1 output" if done.outputs_not_written == 1 else f"{done.outputs_not_written} outputs"
        messages.append(f"dropped: {what}; --outputs FILE writes them to a file of their own")
    return [*messages, unknown_ids_message(done.unmatched_ids)] if done.unmatched_ids else messages
