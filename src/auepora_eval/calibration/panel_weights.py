"""Stacked weights of a panel, learned from the stored votes of its members and human labels."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..errors import AueporaWarning, BadValueError
from ..io.labels import Label
from ..judge.panel import LabelledItem, PanelWeights
from ..judge.ratings import Scale
from ..labels.agreement import aggregate_labels, reject_tuning_labels, select_labels
from ..labels.draws import LabelDraw
from ..labels.sample_weights import weigh_samples
from ..runs.judging import read_panel_votes
from ..runtime.files import write_text
from ..stats.stacking import ENOUGH_LABELS, fit_stacked_weights, stacked_probability
from ..store.records import RunRecord
from ..store.runs import RunStore
from .scores import SampleScores, load_run_scores


def learn_weights(
    store: RunStore,
    record: RunRecord,
    labels: Iterable[Label],
    metric: str | None = None,
    *,
    scale: str | None = None,
    tuned_on: Collection[str] = (),
    leave_out_tuned: bool = False,
    seed: int = 0,
    draws: Mapping[str, list[LabelDraw]] | None = None,
    assume_random: bool = False,
    on_progress: Callable[[int], None] = lambda _: None,
) -> tuple[PanelWeights, SampleScores]:
    """Learn stacked weights from human labels of a run; returns them, and the scores of a stacked vote.

    Answers with a label are scored by coefficients that their own label did not enter, so that these scores may be
    compared with the labels. Answers to one question stay in one fold. Labels need a draw, as in ``calibrate``.
    """
    run = load_run_scores(store, record, metric)
    if run.range != (0.0, 1.0):
        raise BadValueError(f"{run.metric} is not between 0 and 1: a stacked vote is a probability")
    kept, _ = select_labels(labels, names=run.run_names, metric=run.metric)
    kept, _ = reject_tuning_labels(kept, tuned_on, leave_out=leave_out_tuned)
    human = aggregate_labels(kept, None if scale is None else Scale.parse(scale))
    scored = [value for value in human.values if value in run.scores]
    sample_weights = weigh_samples(kept, scored, run.scores, draws, run.run_names, assume_random=assume_random)
    panel = read_panel_votes(store, record, run.metric, on_progress=on_progress)
    usable = {
        sample_id: row for sample_id, row in panel.votes.items() if sample_id in run.scores and not np.isnan(row).all()
    }
    ids = [sample_id for sample_id in usable if sample_id in human.values and sample_id in sample_weights.ids]
    labels = np.array([human.values[sample_id] for sample_id in ids])
    target = labels if run.higher_is_better else 1 - labels
    clusters = None if run.clusters is None else np.array([run.clusters[sample_id] for sample_id in ids], dtype=np.intp)
    votes = np.array([usable[sample_id] for sample_id in ids]).reshape(len(ids), len(panel.members))
    relative = sample_weights.relative_weights
    fitted = fit_stacked_weights(
        votes,
        target,
        clusters=clusters,
        seed=seed,
        weights=[relative[sample_id] for sample_id in ids] if relative else None,
    )
    if len(ids) < ENOUGH_LABELS:
        warnings.warn(
            f"the weights are learned from {len(ids)} labels; below {ENOUGH_LABELS} a majority vote is usually as good",
            AueporaWarning,
            stacklevel=2,
        )
    folds = zip(ids, fitted.folds, strict=True)
    items = tuple(LabelledItem(sample_id, panel.digests[sample_id], fold) for sample_id, fold in folds)
    weights = PanelWeights(
        panel.members,
        run.metric,
        prompt_id=panel.prompt_id,
        coefficients=fitted.coefficients,
        fold_coefficients=fitted.fold_coefficients,
        items=items,
    )
    scores = dict(zip(usable, stacked_probability(fitted.coefficients, list(usable.values())).tolist(), strict=True))
    scores |= dict(zip(ids, fitted.out_of_fold(votes).tolist(), strict=True))
    return weights, replace(run, scores=scores, notes=(*run.notes, _note(weights)))


def _note(weights: PanelWeights) -> str:
    _, *by_member = weights.coefficients
    shown = ", ".join(f"{name} {weight:.2f}" for name, weight in zip(weights.members, by_member, strict=True))
    return (
        f"the scores are those of a stacked vote, with weights from {len(weights.items)} labels in "
        f"{len(weights.fold_coefficients)} folds ({shown}); a labelled answer is scored by the labels of other folds"
    )


def write_weights(weights: PanelWeights, path: str | Path) -> None:
    """Write a weights file."""
    write_text(Path(path), [json.dumps(weights.to_dict(), indent=2, ensure_ascii=False), "\n"])
