"""Labelling sessions of ``auepora label``: drawn, picked, compared and adjudicated answers; agreement of annotators."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from ..errors import BadValueError, DataFileError, did_you_mean
from ..labels.agreement import (
    AnnotatorAgreement,
    annotator_agreement,
    find_disagreements,
    group_by_annotator,
    previous_labels,
    read_annotations,
)
from ..labels.choices import LabelScale
from ..labels.draws import (
    LabelDraw,
    describe_forecast,
    draw_samples,
    fix_design,
    previous_selections,
    read_all_draws,
    record_draw,
    require_same_draw,
)
from ..labels.form import FormState, count_labels, restore_labels
from ..labels.items import load_population, read_items, read_pairs
from ..labels.terminal_form import LabelFile, read_input_lines, run_form
from ..render.tables import table
from ..render.terminal import escape_line_breaks
from ..runtime.files import is_writable
from ..stats.intervals import Estimate
from ..store.records import RunRecord
from ..store.runs import RunStore
from .console import echo_err, json_text
from .options import write_out

MAX_SHOWN = 20
"""Number of disagreements that are listed."""


def draw_session(
    store: RunStore,
    record: RunRecord,
    sheet: LabelFile,
    *,
    n: int,
    stratify: str | None,
    seed: int,
    scale: LabelScale | None,
    blind: bool,
) -> tuple[FormState, LabelFile]:
    """A session over a random draw, with the labels that exist already."""
    population = load_population(store, record.run_id, stratify)
    draw = draw_samples(
        population.strata, n, run=record.run_id, seed=seed, stratify=stratify, left_out=population.left_out
    )
    existing = sheet.labels_by_item(scale)
    sheet = replace(sheet, selections=record_draw(sheet.path, draw).selections())
    items = read_items(store, record.run_id, draw.sample_ids)
    return restore_labels(FormState(items, scale, blind=blind), existing), sheet


def chosen_session(
    store: RunStore,
    record: RunRecord,
    sheet: LabelFile,
    picked: tuple[str, ...],
    *,
    scale: LabelScale | None,
    blind: bool,
) -> tuple[FormState, LabelFile]:
    """A session over samples that a person picked."""
    known = load_population(store, record.run_id).strata
    for sample_id in picked:
        if sample_id not in known:
            raise BadValueError(
                f"{record.run_id} has no answer to sample '{sample_id}'{did_you_mean(sample_id, list(known))}"
            )
    sheet = replace(sheet, chosen=True)
    state = FormState(read_items(store, record.run_id, list(dict.fromkeys(picked))), scale, blind=blind)
    return restore_labels(state, sheet.labels_by_item(scale)), sheet


# --- a comparison of two runs: both answers to samples that are drawn for the difference -----------------------------


def comparison_session(
    store: RunStore,
    records: tuple[RunRecord, RunRecord],
    draw: LabelDraw,
    sheet: LabelFile,
    *,
    scale: LabelScale | None,
    blind: bool,
) -> tuple[FormState, LabelFile]:
    """A session over both answers of the drawn samples, without the names of the runs."""
    sheet = replace(sheet, other_run=records[1].run_id)
    existing = sheet.labels_by_item(scale)
    # The store fixes the design for good, so that the files are checked first.
    if not is_writable(sheet.path.parent):
        raise DataFileError(sheet.path, None, "its folder does not exist or cannot be written to")
    require_same_draw(sheet.path, draw)
    fix_design(store, records[0], draw)
    in_force = record_draw(sheet.path, draw)
    print_forecast(in_force, sheet.path, as_json=False)
    sheet = replace(sheet, selections=in_force.selections())
    items = read_pairs(store, (records[0].run_id, records[1].run_id), in_force.sample_ids, seed=in_force.seed)
    return restore_labels(FormState(items, scale, blind=blind), existing), sheet


def print_forecast(draw: LabelDraw, labels: str | Path, *, as_json: bool) -> None:
    """Print what the labels of a comparison are expected to decide."""
    assert draw.comparison is not None
    if as_json:
        click.echo(json_text({**draw.comparison.to_dict(), "run": draw.run, "seed": draw.seed}))
    else:
        click.echo("\n".join(describe_forecast(draw, labels)))


def adjudication_session(
    store: RunStore,
    record: RunRecord,
    sheet: LabelFile,
    files: tuple[str, ...],
    *,
    scale: LabelScale | None,
    blind: bool,
) -> tuple[FormState, LabelFile] | None:
    """A session over the disagreements between annotators; ``None`` if there are none."""
    run_id = record.run_id
    labels = (
        annotation for annotation in read_annotations(files) if not annotation.chosen and annotation.doc_id is None
    )
    about = [label for label in labels if label.run in (None, run_id) and label.metric == sheet.metric]
    annotators = group_by_annotator(about)
    if len(annotators) < 2:
        names = ", ".join(map(repr, annotators)) or "nobody"
        metric = "" if sheet.metric is None else f" under metric '{sheet.metric}'"
        raise BadValueError(f"answers of {run_id}{metric} were labelled by {names}; adjudication needs two annotators")
    units = find_disagreements(annotators)
    if not units:
        click.echo("the annotators agree on every answer that two of them labelled")
        return None
    own = annotators.get(sheet.annotator, {})
    if any(unit in own for unit in units):
        raise BadValueError(
            f"{sheet.annotator!r} labelled answers that are adjudicated, and another person must decide; "
            "name the one who does with --annotator"
        )
    previous = previous_labels(annotators, units, blind=blind)
    order = [sample_id for sample_id in store.sample_ids(run_id) if sample_id in previous]
    items = read_items(store, run_id, order, previous)
    if len(items) < len(previous):
        missing = next(sample_id for sample_id in previous if sample_id not in {item.sample_id for item in items})
        raise BadValueError(f"{run_id} has no answer to sample '{missing}', which the labels are about")
    before = sheet.labels_by_item(scale)
    sheet = replace(sheet, selections=previous_selections(about, read_all_draws(files).get(run_id, ())))
    return restore_labels(FormState(items, scale, blind=blind), before), sheet


def run_session(state: FormState, sheet: LabelFile, *, title: str) -> None:
    """Run the form on standard input and print how much is labelled."""
    end = run_form(state, sheet, lines=read_input_lines(), title=title)
    counts = ", ".join(f"{count} {label}" for label, count in count_labels(end.labels.values()).items())
    click.echo(
        f"{sheet.path}: {len(end.labels)} of {len(end.items)} labelled by {sheet.display_name}"
        + (f": {counts}" if counts else "")
    )
    if len(end.labels) < len(end.items):
        echo_err("the same command continues with the others")


# --- agreement between annotators ------------------------------------------------------------------------------------


def print_agreement(files: list[str], *, as_json: bool) -> None:
    """Print the agreement between the annotators of these label files."""
    if not files:
        raise click.UsageError("--agreement takes one labels file or more")
    report = annotator_agreement(files)
    write_out(json_text(report.to_dict()) if as_json else _agreement_text(report), None)
    if not report.is_drawn:
        echo_err("no draw with equal probabilities is recorded: the agreement is about what is labelled alone")


def _agreement_text(report: AnnotatorAgreement) -> str:
    raters = report.raters
    kappa = "kappa" if raters.level == "nominal" else "weighted kappa"
    rows = [
        [pair.first, pair.second, str(pair.agreement.units), _figure(pair.agreement), _figure(pair.kappa)]
        for pair in raters.pairs
    ]
    counts = (f"{name}{' (a model)' * (name in report.models)} {count}" for name, count in raters.rated.items())
    parts = ["labelled: " + escape_line_breaks(", ".join(counts))]
    if report.chosen:
        parts.append(f"left out: {report.chosen} of samples that a person picked")
    if report.left_out:
        parts.append(
            f"left out: {report.left_out} of samples outside the draw, or outside its part with equal probabilities"
        )
    if rows:
        parts.append(table(rows, headers=["annotator", "annotator", "both", "agreement", kappa], right=(2,)))
    parts.append(f"Krippendorff's alpha ({raters.level}): {_figure(raters.alpha)}")
    if report.disputes:
        lines = [f"{len(report.disputes)} labelled differently:"]
        for dispute in report.disputes[:MAX_SHOWN]:
            labels = ", ".join(f"{name} {label}" for name, label in dispute.labels.items())
            name = ", ".join(filter(None, (dispute.unit.sample_id, dispute.unit.doc_id)))
            lines.append(escape_line_breaks(f"  {name}: {labels}"))
        if len(report.disputes) > MAX_SHOWN:
            lines.append(f"  ... and {len(report.disputes) - MAX_SHOWN} more; --json has all")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _figure(measured: Estimate) -> str:
    if measured.value is None:
        return f"undefined: {measured.why_undefined}"
    interval = measured.interval
    return f"{measured.value:.3f}" + ("" if interval is None else f" [{interval.low:.3f}, {interval.high:.3f}]")
