"""``auepora gold``: correct the gold of stored datasets, with the effect on all runs first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from ..core.grouping import group_pairs
from ..io.grades import CorrectionKind, CorrectionLog, GoldValue, Proposal
from ..render.tables import number_text, plural, table
from ..render.terminal import progress
from .console import echo, echo_err, json_text, quiet_option
from .data import one_line
from .help_pages import Command
from .label import login
from .main import LazyGroup
from .options import complete_run, open_store, refuse_input_as_output, store_option

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..grades.corrections import RunEffect
    from ..store.runs import RunStore


@click.group(
    name="gold",
    cls=LazyGroup,
    table={
        "Commands": {
            "propose": ("gold:propose_command", "Propose a correction of a sample."),
            "list": ("gold:list_command", "List the proposals with their state."),
            "preview": ("gold:preview_command", "Show the effect of proposals on all runs of the dataset."),
            "apply": ("gold:apply_command", "Accept proposals, and rescore the runs of the dataset."),
            "withdraw": ("gold:withdraw_command", "Withdraw proposals."),
            "export": ("gold:export_command", "Write the corrected dataset for future runs."),
        }
    },
)
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
    from ..grades.corrections import make_correction

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
        echo(json_text(proposal.to_dict()))
        return
    if kind == "grade" and correction.before is None and not correction.document:
        echo_err(f"Warning: {record.run_id} did not return document {document!r} for this sample; is the id right?")
    echo(f"{proposal.correction.id}  {one_line(sample)}  {one_line(proposal.correction.describe())}")
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
    with open_store(store) as found:
        fingerprint = None if run is None else found.find(run).fingerprint
        proposals = _correction_log(found, labels).proposals(fingerprint, state=state)
        names = {stored.fingerprint: stored.dataset_name for stored in reversed(found.runs())}
    if as_json:
        echo(json_text([proposal.to_dict() for proposal in proposals]))
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
    from ..grades.corrections import preview_corrections, runs_of_dataset

    with open_store(store) as found:
        log = _correction_log(found, labels)
        chosen = [log.find(key) for key in ids] if ids else log.proposals(state="open")
        log.check_acceptance(proposal.correction.id for proposal in chosen)
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
    from ..grades.corrections import apply_corrections, runs_of_dataset

    if ids and every:
        raise click.UsageError("give ids or --all, not both")
    person = by or login("--by")
    with open_store(store) as found:
        log = _correction_log(found, labels)
        known = log.proposals()
        chosen = (
            [proposal for proposal in known if proposal.state == "open"] if every else [log.find(key) for key in ids]
        )
        groups = _by_dataset(chosen) if chosen else dict.fromkeys(_by_dataset(known), ())
        effects: list[RunEffect] = []
        for fingerprint, proposals in groups.items():
            names = [proposal.correction.id for proposal in proposals]
            records = runs_of_dataset(found, fingerprint)
            with progress("rescoring runs", len(records)) as advance:
                effects += apply_corrections(
                    found, log, fingerprint, names, by=person, records=records, progress=lambda *_: advance(1)
                )
        chosen = [log.find(proposal.correction.id) for proposal in chosen]
    _show_effects(effects, chosen, as_json=as_json, empty="nothing to apply")
    if chosen:
        echo_err("corrections of picked samples favour the runs whose errors were read; give the old values too")
    elif count := sum(proposal.state == "open" for proposal in known):
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
    echo(json_text([proposal.to_dict() for proposal in proposals]) if as_json else f"withdrawn: {len(proposals)}")
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
    from ..grades.corrections import corrected_dataset
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
        echo(json_text({**counts, "invalid": left_out}))
        return
    number = len(corrections)
    echo(f"wrote {output}: {len(samples)} samples with {number} {plural(number, 'correction')}, {left_out} left out")


def _correction_log(store: RunStore, labels: str | None) -> CorrectionLog:
    from ..labels.batch_plans import labels_folder

    return CorrectionLog(labels_folder(store, labels))


def _clip(text: str, limit: int = 60) -> str:
    shown = one_line(" ".join(text.split()))
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def _by_dataset(proposals: Iterable[Proposal]) -> dict[str, list[Proposal]]:
    return group_pairs((proposal.correction.fingerprint, proposal) for proposal in proposals)


def _show_effects(effects: Sequence[RunEffect], proposals: Sequence[Proposal], *, as_json: bool, empty: str) -> None:
    """Print the effect on each run as a table, and below it the metrics that keep their value or have no new one."""
    from ..grades.corrections import run_names

    if as_json:
        listed = [proposal.to_dict() for proposal in proposals]
        echo(json_text({"corrections": listed, "runs": [effect.to_dict() for effect in effects]}))
        return
    for proposal in proposals:
        correction = proposal.correction
        echo(f"{correction.id}  {_clip(correction.sample_id)}  {_clip(correction.describe(), 200)}")
    rows, notes = [], []
    names = run_names(effects)
    for effect in effects:
        name = f"{effect.record.name} ({effect.record.run_id})"
        same = [metric.label for metric in effect.metrics if metric.difference == 0 and not metric.changed]
        notes += [f"{name}: same value: {', '.join(same)}"] if same else []
        notes += [f"not scored: {name}: {effect.why}"] if effect.why else []
        for metric in effect.metrics:
            values = [number_text(value) for value in (metric.old, metric.new)]
            change = "" if metric.difference is None else f"{metric.difference:+.4f}"
            if metric.status != "computed":
                values[1] = "needs judging again" if metric.status == "needs judging" else metric.status
                notes.append(f"{metric.label} of {name}: {values[1]}: {metric.why}")
            if metric.label not in same:
                rows.append([names[effect.record.run_id], metric.label, *values, change, str(len(metric.changed))])
    headers = ["run", "metric", "old", "new", "difference", "changed samples"]
    echo(table(rows, headers=headers, right=(2, 3, 4, 5)) if rows else empty if not effects else "no metric changes")
    echo_err(*map(one_line, notes))
