"""``auepora validate``, ``convert`` and ``gold``: check and convert data, and correct the gold of stored datasets."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import click

from ..render.terminal import progress, report_text
from .console import echo, echo_err, quiet_option, stdout_to_stderr
from .help_pages import Command
from .judge_options import STOPPED_EARLY
from .label import login
from .main import LazyGroup
from .options import columns_option, complete_run, open_store, refuse_input_as_output, store_option, write_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..annotate.corrections import RunEffect
    from ..io.convert import Conversion
    from ..io.grades import CorrectionKind, CorrectionLog, GoldValue, Proposal
    from ..io.problems import Problem
    from ..io.validate import Validation
    from ..plan.model import Plan
    from ..runs.dataset_quality import DatasetQuality
    from ..store.runs import RunStore


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
    echo(json.dumps(document, indent=2, ensure_ascii=False) if as_json else "\n\n".join(filter(None, paragraphs)))
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
    from ..io.join import load_dataset
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
    for one in found:
        is_repeated = not show_all and one.message.startswith("unknown field")
        groups.setdefault((one.path, re.sub(r"\[\d+\]", "[]", one.message)) if is_repeated else id(one), []).append(one)
    listed = list(groups.values()) if show_all else list(groups.values())[:MAX_SHOWN]
    lines = []
    for group in listed:
        more = f" (and in {len(group) - 1} further {_plural(len(group) - 1, 'place')})" if len(group) > 1 else ""
        lines.append(_printable(f"{'warning: ' if kind == 'warning' else ''}{group[0]}{more}"))
    rest = len(found) - sum(map(len, listed))
    if rest:
        lines.append(f"... and {rest} more {_plural(rest, kind)}; --all prints every one")
    return "\n".join(lines)


def _printable(text: str) -> str:
    """The text in one line, with surrogates and line breaks (from file names and ids) escaped."""
    plain = text.encode(errors="backslashreplace").decode()
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in plain)


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"


def _samples(checked: Validation) -> str:
    counts, (path, name) = checked.samples, checked.files["samples"]
    total = counts["samples"]
    if not total:
        return ""
    gold = [f"{counts[key]} {word}" for key, word in _GOLD.items() if counts[key]]
    if groups := counts.get("groups", 0):
        gold.append(f"{groups} {_plural(groups, 'group')}")
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
    return _table(f"{total} {_plural(total, 'sample')} in {path} ({name})", rows)


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
    return _table(f"{total} {_plural(total, 'output')} in {path} ({name})", rows)


def _corpus(checked: Validation) -> str:
    count = checked.documents
    return f"{count} {_plural(count, 'document')} in {checked.files['corpus'][0]}" if count else ""


def _with(counts: Mapping[str, Any], words: Mapping[str, str]) -> str:
    return ", ".join(f"{counts[key]} {word}" for key, word in words.items() if counts[key])


def _by_key(counts: Mapping[str, int]) -> str:
    shown = [f"{_printable(key)} {count}" for key, count in list(counts.items())[:MAX_KEYS]]
    return ", ".join(shown) + (f" and {len(counts) - MAX_KEYS} more" if len(counts) > MAX_KEYS else "")


def _table(title: str, rows: Sequence[tuple[str, int | None, str]]) -> str:
    """A heading and one line per non-empty row."""
    shown = [(name, "" if count is None else str(count), note) for name, count, note in rows if count or note]
    left, middle = (max((len(row[i]) for row in shown), default=0) for i in (0, 1))
    lines = [
        f"  {name:<{left}}  {count:>{middle}}{f'  ({note})' if count and note else f'  {note}' if note else ''}"
        for name, count, note in shown
    ]
    return "\n".join([title, *(line.rstrip() for line in lines)])


def _targets(checked: Validation) -> str:
    if not checked.samples["samples"]:
        return ""
    no_outputs = checked.outputs is None
    reasons = {target.missing for target in checked.targets}
    if len(reasons) == 1 and not any(target.metrics for target in checked.targets):
        return f"What these files can tell: nothing, since {reasons.pop()}"
    lines = ["What this dataset can tell of a system" if no_outputs else "What these files can tell"]
    for one in checked.targets:
        if one.metrics:
            lines.append(f"  + {one.title}: {', '.join(one.patterns)}")
        else:
            lines.append(f"  - {one.title}: {one.missing}")
    return "\n".join(lines)


def _advice(checked: Validation) -> str:
    if not checked.advice:
        return ""
    why, *ways = checked.advice
    return "\n".join([f"No gold: {why}. Ways to go on:", *(f"  {one}" for one in ways)])


def _verdict(checked: Validation) -> str:
    problems, warnings = len(checked.problems), len(checked.warnings)
    parts = [f"{problems or 'no'} {_plural(problems, 'problem')}"]
    if warnings:
        parts.append(f"{warnings} {_plural(warnings, 'warning')}")
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
    texts = ["\n".join([*map(str, checked.problems), *checked.notes, f"\n{count or 'no'} {_plural(count, 'problem')}"])]
    code = 0 if checked.fine else HAS_PROBLEMS
    if call is not None and checked.fine:
        assert checked.plan is not None
        found = _call_system(checked.plan, call)
        document["calls"] = found
        texts += [found["conclusion"], *(report_text(sample_page(sample)) for sample in found["samples"])]
        code = 0 if found["answered"] else STOPPED_EARLY
    write_out(json.dumps(document, indent=2, ensure_ascii=False) if as_json else "\n\n".join(texts), None)
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
        unjudged = [one for one in request.metrics or () if not (isinstance(one, BatchMetric) and is_judged(one))]
        outcome = start_run(replace(request, metrics=unjudged or None, repeats=1, two_stage=None), store)
        ids = store.sample_ids(outcome.record.run_id)
        samples = [sample_document(store, outcome.record, sample_id) for sample_id in ids]
    answered = outcome.asked - outcome.failed
    conclusion = f"{answered} of {outcome.asked} {_plural(outcome.asked, 'call')} gave an answer"
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
        click.echo(json.dumps(_document(done), indent=2, ensure_ascii=False))
        return
    for message in _messages(done):
        echo_err(message)


def _messages(done: Conversion) -> list[str]:
    """Messages about what was written and what was dropped."""
    from ..io.join import unknown_ids_message

    by_path: dict[str, list[str]] = {}
    for role in ("samples", "outputs"):
        if role in done.written:
            count = done.counts[role]
            by_path.setdefault(str(done.written[role]), []).append(f"{count} {role if count != 1 else role[:-1]}")
    messages = [f"wrote {path}: {' and '.join(counts)}" for path, counts in by_path.items()]
    messages += [f"dropped: {one}" for one in done.dropped]
    if done.outputs_not_written:
        what = "1 output" if done.outputs_not_written == 1 else f"{done.outputs_not_written} outputs"
        messages.append(f"dropped: {what}; --outputs FILE writes them to a file of their own")
    return [*messages, unknown_ids_message(done.unmatched_ids)] if done.unmatched_ids else messages


def _document(done: Conversion) -> dict[str, Any]:
    return {
        "schema": 1,
        "written": {role: {"path": str(path), "count": done.counts[role]} for role, path in done.written.items()},
        "dropped": [asdict(loss) for loss in done.dropped],
        "outputs_left": done.outputs_not_written,
        "strays": done.unmatched_ids,
    }


# --- auepora gold ----------------------------------------------------------------------------------------------------

GOLD_COMMANDS = {
    "Commands": {
        "propose": ("data:propose_command", "Propose a correction of a sample."),
        "list": ("data:list_command", "List the proposals with their state."),
        "preview": ("data:preview_command", "Show the effect of proposals on all runs of the dataset."),
        "apply": ("data:apply_command", "Accept proposals, and rescore the runs of the dataset."),
        "withdraw": ("data:withdraw_command", "Withdraw proposals."),
        "export": ("data:export_command", "Write the corrected dataset for future runs."),
    }
}


@click.group(name="gold", cls=LazyGroup, table=GOLD_COMMANDS)
def gold_command() -> None:
    """Correct wrong gold: grades of documents, reference answers, invalid samples.

    A correction is a proposal with its author and reason in the labels folder. Its effect on every run of the dataset
    is shown before it is applied. Applied, it is a new result of each run with its own signature; the stored dataset
    and the old results stay.

    \b
    auepora gold propose latest q17 --document d3 --grade 2 --why "answers the question"
    auepora gold propose latest q18 --reference "1817" --reference "in 1817"
    auepora gold propose latest q19 --invalid --why "no answer exists"
    auepora gold preview
    auepora gold apply --all
    auepora gold export latest -o corrected.jsonl
    """


_labels_option = click.option(
    "--labels",
    type=click.Path(),
    metavar="FOLDER",
    help="Labels folder; default: $AUEPORA_LABELS, else labels next to the store.",
)
_by_option = click.option("--by", metavar="NAME", help="Your name; default: your login name.")
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command(name="propose", cls=Command)
@click.argument("run", shell_complete=complete_run)
@click.argument("sample")
@click.option("--document", metavar="ID", help="With --grade: the document.")
@click.option("--grade", type=click.IntRange(min=0), help="Grade of the document; 0: not relevant.")
@click.option("--reference", "references", multiple=True, metavar="TEXT", help="Reference answer; repeatable.")
@click.option("--invalid/--valid", default=None, help="Leave the sample out of all metrics, or take it in again.")
@click.option("--why", default="", metavar="TEXT", help="The reason.")
@_by_option
@_labels_option
@store_option
@quiet_option
@_json_option
def propose_command(
    run: str,
    sample: str,
    document: str | None,
    grade: int | None,
    references: tuple[str, ...],
    invalid: bool | None,
    why: str,
    by: str | None,
    labels: str | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Propose a correction of the gold of SAMPLE, as RUN has it. Nothing is scored yet.

    References replace all reference answers of the sample: name those that stay, too.

    \b
    auepora gold propose latest q17 --document d3 --grade 2 --why "answers the question"
    auepora gold propose latest q18 --reference "1817" --reference "in 1817"
    auepora gold propose latest q19 --invalid --why "no answer exists"
    """
    from ..annotate.corrections import make_correction

    values: dict[CorrectionKind, GoldValue] = {
        **({} if grade is None else {"grade": grade}),
        **({} if not references else {"references": references}),
        **({} if invalid is None else {"invalid": invalid}),
    }
    if len(values) != 1 or (document is None) == (grade is not None):
        raise click.UsageError("give one of --document with --grade, --reference, or --invalid")
    ((kind, value),) = values.items()
    with open_store(store) as found:
        record, log = found.find(run), _correction_log(found, labels)
        correction = make_correction(
            found,
            record,
            sample,
            kind,
            value,
            doc_id=document or "",
            by=by or login("--by"),
            why=why,
            accepted=log.accepted(record.fingerprint),
        )
        proposal = log.propose(correction)
    if as_json:
        echo(_to_json(proposal.to_dict()))
        return
    if kind == "grade" and correction.before is None and not correction.document:
        echo_err(f"Warning: {record.run_id} did not return document {document!r} for this sample; is the id right?")
    echo(f"{proposal.correction.id}  {_printable(sample)}  {_printable(proposal.correction.describe())}")
    echo_err(f"`auepora gold preview {proposal.correction.id}` shows the effect on all runs")


@click.command(name="list", cls=Command)
@click.option(
    "--state",
    type=click.Choice(["open", "accepted", "withdrawn"]),
    help="Only proposals in this state; default: all.",
)
@click.option("--run", metavar="RUN", shell_complete=complete_run, help="Only proposals for the dataset of this run.")
@_labels_option
@store_option
@quiet_option
@_json_option
def list_command(
    state: Literal["open", "accepted", "withdrawn"] | None,
    run: str | None,
    labels: str | None,
    store: str | None,
    as_json: bool,
) -> None:
    """List the proposals of the labels folder, oldest first.

    \b
    auepora gold list --state open
    auepora gold list --run latest --json
    """
    from ..render.tables import table

    with open_store(store) as found:
        fingerprint = None if run is None else found.find(run).fingerprint
        proposals = _correction_log(found, labels).proposals(fingerprint, state=state)
        names = _dataset_names(found)
    if as_json:
        echo(_to_json([proposal.to_dict() for proposal in proposals]))
        return
    rows = []
    for proposal in proposals:
        correction = proposal.correction
        cells = [
            correction.id,
            proposal.state,
            names.get(correction.fingerprint, correction.fingerprint[:12]),
            correction.sample_id,
            correction.describe(),
            correction.by,
            correction.at[:16].replace("T", " "),
            correction.why,
        ]
        rows.append([_clip(cell) for cell in cells])
    headers = ["id", "state", "dataset", "sample", "correction", "by", "at", "why"]
    echo(table(rows, headers=headers) if rows else "no proposals")


@click.command(name="preview", cls=Command)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@_labels_option
@store_option
@quiet_option
@_json_option
def preview_command(ids: tuple[str, ...], labels: str | None, store: str | None, as_json: bool) -> None:
    """Show the effect of proposals, by default of all open ones together, on every run of their dataset.

    Only the samples with other gold are scored again. Nothing is stored.

    \b
    auepora gold preview
    auepora gold preview 5b1f0c6ad2e9 --json
    """
    from ..annotate.corrections import preview_corrections, runs_of_dataset

    with open_store(store) as found:
        log = _correction_log(found, labels)
        chosen = [log.find(key) for key in ids] if ids else log.proposals(state="open")
        log.check_acceptance(one.correction.id for one in chosen)
        effects: list[RunEffect] = []
        for fingerprint, proposals in _by_dataset(chosen).items():
            records = runs_of_dataset(found, fingerprint)
            with progress("scoring changed samples of runs", len(records)) as advance:
                effects += preview_corrections(
                    found,
                    [proposal.correction for proposal in proposals],
                    accepted=log.accepted(fingerprint),
                    records=records,
                    progress=lambda *_: advance(1),
                )
    _show_effects(effects, chosen, as_json=as_json, empty="no open proposals")


@click.command(name="apply", cls=Command)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "every", is_flag=True, help="Accept all open proposals.")
@_by_option
@_labels_option
@store_option
@quiet_option
@_json_option
def apply_command(
    ids: tuple[str, ...], every: bool, by: str | None, labels: str | None, store: str | None, as_json: bool
) -> None:
    """Accept proposals and rescore every run of their dataset with all accepted corrections.

    The new results are stored beside the old ones. Without ID and --all, nothing is accepted: runs that lack the
    accepted corrections get them, and after `auepora gold withdraw` the results without the correction are current
    again. Judge metrics that read the gold are listed and not changed.

    \b
    auepora gold apply --all
    auepora gold apply 5b1f0c6ad2e9
    auepora gold apply
    """
    from ..annotate.corrections import apply_corrections, runs_of_dataset

    if ids and every:
        raise click.UsageError("give ids or --all, not both")
    person = by or login("--by")
    with open_store(store) as found:
        log = _correction_log(found, labels)
        known = log.proposals()
        chosen = [one for one in known if one.state == "open"] if every else [log.find(key) for key in ids]
        groups = _by_dataset(chosen) if chosen else dict.fromkeys(_by_dataset(known), ())
        effects: list[RunEffect] = []
        for fingerprint, proposals in groups.items():
            names = [proposal.correction.id for proposal in proposals]
            records = runs_of_dataset(found, fingerprint)
            with progress("rescoring runs", len(records)) as advance:
                effects += apply_corrections(
                    found, log, fingerprint, names, by=person, records=records, progress=lambda *_: advance(1)
                )
        chosen = [log.find(one.correction.id) for one in chosen]
    _show_effects(effects, chosen, as_json=as_json, empty="nothing to apply")
    if chosen:
        echo_err("corrections of picked samples favour the runs whose errors were read; give the old values too")
    elif count := sum(one.state == "open" for one in known):
        echo_err(f"{count} open {'proposal is' if count == 1 else 'proposals are'} not accepted; give ids, or --all")


@click.command(name="withdraw", cls=Command)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--why", default="", metavar="TEXT", help="The reason.")
@_by_option
@_labels_option
@store_option
@quiet_option
@_json_option
def withdraw_command(
    ids: tuple[str, ...], why: str, by: str | None, labels: str | None, store: str | None, as_json: bool
) -> None:
    """Withdraw proposals. After one that was accepted, `auepora gold apply` makes the old results current again.

    \b
    auepora gold withdraw 5b1f0c6ad2e9 --why "the document is about another year"
    """
    with open_store(store) as found:
        log = _correction_log(found, labels)
        was_accepted = any(log.find(key).state == "accepted" for key in ids)
        proposals = log.withdraw(ids, by=by or login("--by"), why=why)
    echo(_to_json([proposal.to_dict() for proposal in proposals]) if as_json else f"withdrawn: {len(proposals)}")
    if was_accepted:
        echo_err("`auepora gold apply` rescores the runs without them")


@click.command(name="export", cls=Command)
@click.argument("dataset", shell_complete=complete_run)
@click.option("-o", "--output", type=click.Path(), required=True, help="JSONL file to write.")
@_labels_option
@store_option
@quiet_option
@_json_option
def export_command(dataset: str, output: str, labels: str | None, store: str | None, as_json: bool) -> None:
    """Write DATASET, the name of a stored dataset or of a run, with its accepted corrections and no invalid samples.

    \b
    auepora gold export latest -o corrected.jsonl
    """
    from ..annotate.corrections import corrected_dataset
    from ..io.jsonl import save_jsonl_dataset

    with open_store(store, output=output) as found:
        record = next(iter(found.runs(dataset=dataset, limit=1)), None) or found.find(dataset)
        corrections = _correction_log(found, labels).accepted(record.fingerprint)
        refuse_input_as_output(output, [str(_correction_log(found, labels).path)])
        samples = list(corrected_dataset(found, record, corrections))
        save_jsonl_dataset(samples, output)
    counts = {"file": output, "samples": len(samples), "corrections": len(corrections)}
    left_out = record.num_samples - len(samples)
    if as_json:
        echo(_to_json({**counts, "invalid": left_out}))
        return
    number = len(corrections)
    echo(f"wrote {output}: {len(samples)} samples with {number} {_plural(number, 'correction')}, {left_out} left out")


def _correction_log(store: RunStore, labels: str | None) -> CorrectionLog:
    from ..annotate.batch_plans import labels_folder
    from ..io.grades import CorrectionLog

    return CorrectionLog(labels_folder(store, labels))


def _to_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _clip(text: str, limit: int = 60) -> str:
    shown = _printable(" ".join(text.split()))
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def _by_dataset(proposals: Iterable[Proposal]) -> dict[str, list[Proposal]]:
    groups: dict[str, list[Proposal]] = {}
    for proposal in proposals:
        groups.setdefault(proposal.correction.fingerprint, []).append(proposal)
    return groups


def _dataset_names(store: RunStore) -> dict[str, str]:
    return {run.fingerprint: run.dataset_name for run in reversed(store.runs())}


def _show_effects(effects: Sequence[RunEffect], proposals: Sequence[Proposal], *, as_json: bool, empty: str) -> None:
    """Print the effect on each run as a table, and below it the metrics that keep their value or have no new one."""
    from ..annotate.corrections import run_names
    from ..render.tables import number_text, table

    if as_json:
        listed = [proposal.to_dict() for proposal in proposals]
        echo(_to_json({"corrections": listed, "runs": [one.to_dict() for one in effects]}))
        return
    for one in proposals:
        correction = one.correction
        echo(f"{correction.id}  {_clip(correction.sample_id)}  {_clip(correction.describe(), 200)}")
    rows, notes = [], []
    names = run_names(effects)
    for effect in effects:
        name = f"{effect.record.name} ({effect.record.run_id})"
        same = [one.name for one in effect.metrics if one.difference == 0 and not one.changed]
        notes += [f"{name}: same value: {', '.join(same)}"] if same else []
        notes += [f"not scored: {name}: {effect.why}"] if effect.why else []
        for metric in effect.metrics:
            values = [number_text(value) for value in (metric.old, metric.new)]
            change = "" if metric.difference is None else f"{metric.difference:+.4f}"
            if metric.status != "computed":
                values[1] = "needs judging again" if metric.status == "needs judging" else metric.status
                notes.append(f"{metric.name} of {name}: {values[1]}: {metric.why}")
            if metric.name not in same:
                rows.append([names[effect.record.run_id], metric.name, *values, change, str(len(metric.changed))])
    headers = ["run", "metric", "old", "new", "difference", "changed samples"]
    echo(table(rows, headers=headers, right=(2, 3, 4, 5)) if rows else empty if not effects else "no metric changes")
    for note in notes:
        echo_err(_printable(note))
