"""Labelling sessions of ``auepora label``: drawn, picked, compared and adjudicated answers; agreement of annotators."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from ..errors import BadValueError, DataFileError, did_you_mean
from ..io.labels import Provenance
from ..labels.agreement import (
    AnnotatorAgreement,
    annotator_agreement,
    find_disagreements,
    group_by_annotator,
    previous_labels,
    read_annotations,
)
from ..labels.batch import SHOWN_PARTS, BatchEntry, LabelBatch, Purpose
from ..labels.batch_plans import sample_positions
from ..labels.choices import LabelScale
from ..labels.draws import (
    LabelDraw,
    Selection,
    describe_forecast,
    draw_samples,
    fix_design,
    previous_selections,
    read_all_draws,
    record_draw,
    require_same_draw,
)
from ..labels.form import LabelForm, check_label_file, count_labels
from ..labels.items import PreviousLabel, load_population
from ..labels.queue import LabelQueue
from ..labels.terminal_form import describe_counts, read_input_lines, run_form
from ..perturb.edits import hash_uniform
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


@dataclass(frozen=True, slots=True)
class LabelSession:
    """A session of one annotator: the store, the file of labels, and what the options say about every label."""

    store: RunStore
    labels: Path
    annotator: str
    metric: str | None = None
    scale: LabelScale | None = None
    blind: bool = False
    tuning: bool = False
    provenance: Provenance = "human"

    def run_draw(self, record: RunRecord, *, n: int, stratify: str | None, seed: int) -> None:
        """Label a random draw of the answers of a run."""
        population = load_population(self.store, record.run_id, stratify)
        draw = draw_samples(
            population.strata, n, run=record.run_id, seed=seed, stratify=stratify, left_out=population.left_out
        )
        batch = self.batch([record])
        in_force = record_draw(self.labels, draw)
        self._run(self.form(batch, self.entries([record], draw.sample_ids), in_force.selections()), record.name)

    def run_picked(self, record: RunRecord, picked: Iterable[str]) -> None:
        """Label answers that a person picked."""
        sample_ids = list(dict.fromkeys(picked))
        self._require_answers(record, sample_ids)
        batch = self.batch([record], "review")
        self._run(self.form(batch, self.entries([record], sample_ids), {}), record.name)

    def run_comparison(self, records: tuple[RunRecord, RunRecord], draw: LabelDraw) -> None:
        """Label both answers to the drawn samples, one after the other, without the names of the runs."""
        batch = self.batch(records)
        # The store fixes the design for good, so that the files are checked first.
        if not is_writable(self.labels.parent):
            raise DataFileError(self.labels, None, "its folder does not exist or cannot be written to")
        require_same_draw(self.labels, draw)
        fix_design(self.store, records[0], draw)
        in_force = record_draw(self.labels, draw)
        print_forecast(in_force, self.labels, as_json=False)
        first, second = (self.entries(records, in_force.sample_ids, place) for place in (0, 1))
        entries: list[BatchEntry] = []
        for pair in zip(first, second, strict=True):
            is_swapped = hash_uniform(in_force.seed, "first answer", pair[0].sample_id) >= 0.5
            entries += reversed(pair) if is_swapped else pair
        self._run(self.form(batch, entries, in_force.selections()))

    def run_adjudication(self, record: RunRecord, files: Sequence[str]) -> None:
        """Label the answers on which the annotators of these files disagree; says so where there are none."""
        run_id = record.run_id
        labels = [label for label in read_annotations(files) if not label.chosen and label.doc_id is None]
        about = [label for label in labels if label.run in (None, run_id) and label.metric == self.metric]
        annotators = group_by_annotator(about)
        if len(annotators) < 2:
            names = ", ".join(map(repr, annotators)) or "nobody"
            metric = "" if self.metric is None else f" under metric '{self.metric}'"
            raise BadValueError(
                f"answers of {run_id}{metric} were labelled by {names}; adjudication needs two annotators"
            )
        units = find_disagreements(annotators)
        if not units:
            click.echo("the annotators agree on every answer that two of them labelled")
            return
        own = annotators.get(self.annotator, {})
        if any(unit in own for unit in units):
            raise BadValueError(
                f"{self.annotator!r} labelled answers that are adjudicated, and another person must decide; "
                "name the one who does with --annotator"
            )
        previous = previous_labels(annotators, units, blind=self.blind)
        self._require_answers(record, previous)
        order = [sample_id for sample_id in self.store.sample_ids(run_id) if sample_id in previous]
        entries = self.entries([record], order)
        selections = previous_selections(about, read_all_draws(files).get(run_id, ()))
        batch = self.batch([record], adjudicates=True)
        self._run(self.form(batch, entries, selections, previous), record.name)

    def batch(
        self, records: Sequence[RunRecord], purpose: Purpose = "calibrate", *, adjudicates: bool = False
    ) -> LabelBatch:
        """What is labelled, still without items; raises where the file takes no labels, or has some of another kind."""
        batch = LabelBatch(
            id="",
            title="",
            purpose=purpose,
            runs=tuple(record.run_id for record in records),
            metric=self.metric,
            scale=None if self.scale is None else str(self.scale),
            instructions="",
            annotators=sys.maxsize,
            blind=self.blind,
            shown=SHOWN_PARTS[:1] if self.blind else SHOWN_PARTS,
            seed=0,
            created="",
            created_by="",
            draw=None,
            items=(),
            folder=str(self.labels.parent),
            name=self.labels.stem,
            suffix=self.labels.suffix,
            provenance=self.provenance,
            tuning=self.tuning,
            adjudicates=adjudicates,
        )
        check_label_file(batch, self.annotator)
        return batch

    def entries(self, records: Sequence[RunRecord], sample_ids: Iterable[str], place: int = 0) -> list[BatchEntry]:
        """An item for the answer of one of the runs to each sample."""
        positions = sample_positions(self.store, records[place])
        before, after = (-1,) * place, (-1,) * (len(records) - place - 1)
        return [BatchEntry(sample_id, (*before, positions[sample_id], *after)) for sample_id in sample_ids]

    def _require_answers(self, record: RunRecord, sample_ids: Iterable[str]) -> None:
        known = load_population(self.store, record.run_id).strata
        for sample_id in sample_ids:
            if sample_id not in known:
                raise BadValueError(
                    f"{record.run_id} has no answer to sample '{sample_id}'{did_you_mean(sample_id, list(known))}"
                )

    def form(
        self,
        batch: LabelBatch,
        entries: Iterable[BatchEntry],
        selections: Mapping[str, Selection],
        previous: Mapping[str, Sequence[PreviousLabel]] | None = None,
    ) -> LabelForm:
        """The form for these items, with the labels that the file has already."""
        by_item: dict[tuple[str, str | None], Selection] = {(name, None): found for name, found in selections.items()}
        queue = LabelQueue(replace(batch, items=tuple(entries)), self.store, selections=by_item)
        return LabelForm(queue, self.annotator, previous or {})

    def _run(self, form: LabelForm, title: str = "") -> None:
        """Run the form on standard input, and print how much is labelled."""
        name = f"{self.annotator} (a model)" if self.provenance == "model" else self.annotator
        run_form(form, lines=read_input_lines(), title=f"{name}, {title}" if title and not self.blind else name)
        counts = count_labels(form.queue.own_entries(self.annotator).values())
        labelled, n = sum(counts.values()), len(form.batch.items)
        click.echo(f"{self.labels}: {labelled} of {n} labelled by {name}{describe_counts(counts)}")
        if labelled < n:
            echo_err("the same command continues with the others")


def print_forecast(draw: LabelDraw, labels: str | Path, *, as_json: bool) -> None:
    """Print what the labels of a comparison are expected to decide."""
    assert draw.comparison is not None
    if as_json:
        click.echo(json_text({**draw.comparison.to_dict(), "run": draw.run, "seed": draw.seed}))
    else:
        click.echo("\n".join(describe_forecast(draw, labels)))


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
