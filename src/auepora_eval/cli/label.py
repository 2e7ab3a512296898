"""``auepora label``: label answers of a stored run, measure agreement between annotators, adjudicate."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from click.core import ParameterSource

from .console import echo_err, quiet_option
from .options import complete_run, open_store, store_option

if TYPE_CHECKING:
    from ..annotate.agreement import AnnotatorAgreement
    from ..annotate.session import FormState, LabelFile, LabelScale
    from ..stats.intervals import Estimate
    from ..store.records import RunRecord
    from ..store.runs import RunStore


MAX_SHOWN = 20
"""Number of disagreements that are listed."""


@click.command(name="label")
@click.argument("run", required=False, shell_complete=complete_run)
@click.argument("files", nargs=-1, type=click.Path())
@click.option(
    "--n", type=click.IntRange(min=1), default=100, show_default=True, help="Number of samples to draw at random."
)
@click.option("--stratify", metavar="PATH", help="Draw a stratified sample by labels.KEY or metadata.KEY.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed draws the same samples.")
@click.option("--annotator", metavar="NAME", help="Name of the annotator; default: your login name.")
@click.option(
    "--labels",
    type=click.Path(),
    default="labels.jsonl",
    show_default=True,
    help="File of labels; samples labelled in it are not shown again.",
)
@click.option("--scale", metavar="LOW-HIGH", help="Numeric scale, such as 1-5, instead of right or wrong.")
@click.option("-m", "--metric", metavar="NAME", help="Metric that the labels will be compared with.")
@click.option("--blind", is_flag=True, help="Hide references, relevance of documents and names.")
@click.option("--tuning", is_flag=True, help="Mark the labels as used to tune a prompt; calibration refuses them.")
@click.option(
    "--provenance",
    type=click.Choice(["human", "model"]),
    default="human",
    show_default=True,
    help="Whether a person or a model labels; labels of a model are marked, and calibration refuses them.",
)
@click.option(
    "--plain", is_flag=True, expose_value=False, help="No effect: the form always prints and reads plain lines."
)
@click.option("--agreement", is_flag=True, help="Report the agreement between the annotators of FILES; without RUN.")
@click.option("--adjudicate", is_flag=True, help="Label the answers on which the annotators of FILES disagree.")
@store_option
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="With --agreement: print JSON.")
@click.pass_context
def command(
    context: click.Context,
    run: str | None,
    files: tuple[str, ...],
    n: int,
    stratify: str | None,
    seed: int,
    annotator: str | None,
    labels: str,
    scale: str | None,
    metric: str | None,
    blind: bool,
    tuning: bool,
    provenance: Literal["human", "model"],
    agreement: bool,
    adjudicate: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Label answers of the stored RUN, with one line of input per answer. The same command resumes.

    Prints evidence, question and answer. Type r (right), w (wrong) or a grade, then Enter; ? lists what else can be
    typed. Each label is written to disk before the next answer is shown. A second file records how the samples were
    drawn.

    \b
    auepora label latest --n 100 --stratify labels.scenario --annotator ann
    auepora label latest --annotator bob --labels bob.jsonl --scale 1-5
    auepora label latest --provenance model --annotator my-model --labels model.jsonl < replies.txt
    auepora label --agreement ann.jsonl bob.jsonl
    auepora label latest --adjudicate ann.jsonl bob.jsonl --labels settled.jsonl
    """
    if agreement:
        if adjudicate:
            raise click.UsageError("give --agreement or --adjudicate, not both")
        _print_agreement([*([run] if run else []), *files], as_json=as_json)
        return
    if as_json:
        raise click.UsageError("--json goes with --agreement")
    if run is None:
        raise click.UsageError("give the RUN to label; `auepora runs` lists them")
    if adjudicate != bool(files):
        raise click.UsageError(
            "--adjudicate takes the labels files of the annotators after the RUN"
            if adjudicate
            else f"there is one RUN and no {files[0]!r} after it; labels files go with --adjudicate or --agreement"
        )
    draw_options = [f"--{name}" for name in ("n", "stratify", "seed") if _is_given(context, name)]
    if adjudicate and draw_options:
        raise click.UsageError(f"{draw_options[0]} draws samples; --adjudicate shows every disagreement")
    if provenance == "model" and annotator is None:
        raise click.UsageError("name the model that labels with --annotator NAME")
    if provenance == "model" and adjudicate:
        raise click.UsageError("--adjudicate is for a person: a model cannot resolve disagreements between people")

    from ..annotate.session import LabelFile, LabelScale
    from ..store.connect import default_store
    from .options import refuse_input_as_output

    label_scale = None if scale is None else LabelScale.of(scale)
    refuse_input_as_output(labels, [default_store(store)], option="--labels")
    with open_store(store) as found:
        record = found.find(run)
        sheet = LabelFile(Path(labels), annotator or _login(), record.run_id, metric, adjudicate, tuning, provenance)
        state = (
            _adjudication_session(found, record, sheet, files, scale=label_scale, blind=blind)
            if adjudicate
            else _draw_session(found, record, sheet, n=n, stratify=stratify, seed=seed, scale=label_scale, blind=blind)
        )
    if state is not None:
        _run_session(state, sheet, title=sheet.display_name if blind else f"{sheet.display_name}, {record.name}")


def _is_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is not ParameterSource.DEFAULT


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError) as error:  # a user without a name
        raise click.UsageError("the annotator is unknown; use --annotator NAME") from error


def _draw_session(
    store: RunStore,
    record: RunRecord,
    sheet: LabelFile,
    *,
    n: int,
    stratify: str | None,
    seed: int,
    scale: LabelScale | None,
    blind: bool,
) -> FormState:
    """A session over a random draw, with the labels that exist already."""
    from ..annotate.draws import draw_samples, record_draw
    from ..annotate.session import FormState, load_population, read_items, restore_labels

    population = load_population(store, record.run_id, stratify)
    draw = draw_samples(
        population.strata, n, run=record.run_id, seed=seed, stratify=stratify, left_out=population.left_out
    )
    existing = sheet.labels_by_item(scale)
    record_draw(sheet.path, draw)
    items = read_items(store, record.run_id, draw.sample_ids)
    return restore_labels(FormState(items, scale, blind=blind), existing)


def _adjudication_session(
    store: RunStore,
    record: RunRecord,
    sheet: LabelFile,
    files: tuple[str, ...],
    *,
    scale: LabelScale | None,
    blind: bool,
) -> FormState | None:
    """A session over the disagreements between annotators; ``None`` if there are none."""
    from ..annotate.agreement import find_disagreements, group_by_annotator, previous_labels, read_annotations
    from ..annotate.session import FormState, read_items, restore_labels
    from ..errors import BadValueError

    run_id = record.run_id
    about = [one for one in read_annotations(files) if one.run in (None, run_id) and one.metric == sheet.metric]
    annotators = group_by_annotator(about)
    if len(annotators) < 2:
        names = ", ".join(map(repr, annotators)) or "nobody"
        metric = "" if sheet.metric is None else f" under metric '{sheet.metric}'"
        raise BadValueError(f"answers of {run_id}{metric} were labelled by {names}; adjudication needs two annotators")
    units = find_disagreements(annotators)
    if not units:
        click.echo("the annotators agree on every answer that two of them labelled")
        return None
    previous = previous_labels(annotators, units, blind=blind)
    order = [one for one in store.sample_ids(run_id) if one in previous]
    items = read_items(store, run_id, order, previous)
    if len(items) < len(previous):
        missing = next(one for one in previous if one not in {item.sample_id for item in items})
        raise BadValueError(f"{run_id} has no answer to sample '{missing}', which the labels are about")
    before = sheet.labels_by_item(scale)
    return restore_labels(FormState(items, scale, blind=blind), before)


def _run_session(state: FormState, sheet: LabelFile, *, title: str) -> None:
    from ..annotate.session import count_labels
    from ..annotate.terminal import read_input_lines, run_form

    end = run_form(state, sheet, lines=read_input_lines(), title=title)
    counts = ", ".join(f"{count} {label}" for label, count in count_labels(end.labels.values()).items())
    click.echo(
        f"{sheet.path}: {len(end.labels)} of {len(end.items)} labelled by {sheet.display_name}"
        + (f": {counts}" if counts else "")
    )
    if len(end.labels) < len(end.items):
        echo_err("the same command continues with the others")


# --- agreement between annotators ------------------------------------------------------------------------------------


def _print_agreement(files: list[str], *, as_json: bool) -> None:
    from ..annotate.agreement import annotator_agreement
    from .options import write_out

    if not files:
        raise click.UsageError("--agreement takes one labels file or more")
    report = annotator_agreement(files)
    write_out(json.dumps(report.to_dict(), indent=2, ensure_ascii=False) if as_json else _agreement_text(report), None)


def _agreement_text(report: AnnotatorAgreement) -> str:
    from ..render.tables import table
    from ..render.terminal import escape_line_breaks

    raters = report.raters
    kappa = "kappa" if raters.level == "nominal" else "weighted kappa"
    rows = [
        [one.first, one.second, str(one.agreement.units), _figure(one.agreement), _figure(one.kappa)]
        for one in raters.pairs
    ]
    counts = (f"{name}{' (a model)' * (name in report.models)} {count}" for name, count in raters.rated.items())
    parts = ["labelled: " + escape_line_breaks(", ".join(counts))]
    if rows:
        parts.append(table(rows, headers=["annotator", "annotator", "both", "agreement", kappa], right=(2,)))
    parts.append(f"Krippendorff's alpha ({raters.level}): {_figure(raters.alpha)}")
    if report.disputes:
        lines = [f"{len(report.disputes)} labelled differently:"]
        for one in report.disputes[:MAX_SHOWN]:
            labels = ", ".join(f"{name} {label}" for name, label in one.labels.items())
            lines.append(escape_line_breaks(f"  {one.unit.sample_id}: {labels}"))
        if len(report.disputes) > MAX_SHOWN:
            lines.append(f"  ... and {len(report.disputes) - MAX_SHOWN} more; --json has all")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _figure(measured: Estimate) -> str:
    if measured.value is None:
        return f"undefined: {measured.why_undefined}"
    interval = measured.interval
    return f"{measured.value:.3f}" + ("" if interval is None else f" [{interval.low:.3f}, {interval.high:.3f}]")
