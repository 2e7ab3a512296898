"""Calibration of stored runs: the scores to compare, and the register of verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ..compare.stores import biased_metrics, read_register, record_bias, register_decision
from ..io.labels import Label
from ..labels.draws import LabelDraw, record_verdict
from ..store.records import RunRecord
from ..store.runs import RunStore
from .earlier_labels import predict_labels
from .report import CalibrationReport
from .scores import SampleScores, load_run_scores


def labelled_metric(labels: Iterable[Label]) -> str | None:
    """The metric that all labels name; ``None`` if they name none or several."""
    names = {label.metric for label in labels}
    return next(iter(names)) if len(names) == 1 else None


def load_compared_scores(
    store: RunStore, records: Sequence[RunRecord], metric: str | None, draws: Mapping[str, Sequence[LabelDraw]]
) -> list[SampleScores]:
    """The scores of one run or two, with the predicted labels if the draw of a comparison has a calibrator."""
    draw = comparison_draw(draws, records)
    design = None if draw is None else draw.comparison
    name = metric or (None if design is None else design.name)
    found = [load_run_scores(store, record, name) for record in records]
    if design is None or not design.features:
        return found
    calibrator = design.name, design.features, design.coefficients
    return [
        replace(one, predictions=predict_labels(store, record, *calibrator))
        for one, record in zip(found, records, strict=True)
    ]


def comparison_draw(draws: Mapping[str, Sequence[LabelDraw]], records: Sequence[RunRecord]) -> LabelDraw | None:
    """The recorded draw for the difference of two runs, if there is one."""
    run_ids = {record.run_id for record in records}
    of_first = draws.get(records[0].run_id, ()) if len(run_ids) == 2 else ()
    return next((one for one in of_first if set(one.runs) == run_ids), None)


def register_verdict(
    store: RunStore,
    records: Sequence[RunRecord],
    report: CalibrationReport,
    draws: Mapping[str, Sequence[LabelDraw]],
) -> CalibrationReport:
    """Record the verdict in the register of the store; returns the report with how often the test set decided.

    Nothing is recorded where the store object does not record decisions.
    """
    metric, reason = report.judged[0].metric, report.bias_sentence
    if reason is not None or metric in biased_metrics(store, records):
        record_bias(store, records, metric, reason)
    if report.verdict is None:
        return report
    draw = comparison_draw(draws, records)
    if draw is None:
        register = register_decision(store, records, "comparison", {report.judged[0].metric: report.verdict})
    else:
        if store.records_decisions:
            record_verdict(store, records[0], draw, report.verdict)
        register = read_register(store, {one.fingerprint for one in records}, draw.runs)
    return replace(report, register=register)
