"""Stacked weights of a panel, learned from the stored votes of its members and human labels."""

from __future__ import annotations

import json
import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..core.derivation import ExplainContext
from ..core.types import EvaluationSample, SystemOutputs
from ..errors import AueporaWarning, BadValueError
from ..io.labels import Label
from ..judge.metric import JudgedMetric
from ..judge.panel import LabelledItem, PanelWeights, Poll, answer_digest, judged_item
from ..judge.ratings import Scale
from ..report.explain import resolve_result_metric, to_sample_judgements
from ..runtime.files import atomic_write
from ..stats.stacking import ENOUGH_LABELS, fit_stacked_weights, stacked_probability
from .agreement import aggregate_labels, reject_tuning_labels, select_labels
from .calibration import SampleScores, load_run_scores

if TYPE_CHECKING:
    from ..store.records import RunRecord
    from ..store.rows import StoredJudgement
    from ..store.runs import RunStore

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class PanelVotes:
    """The votes of the members of a panel on the answers of a run, for one metric."""

    members: tuple[str, ...]
    prompt_id: str
    votes: dict[str, list[float]]
    """By sample id, a value between 0 and 1 per member; NaN where a member failed."""
    digests: dict[str, str]
    """By sample id, the digest of the answer."""


def read_panel_votes(
    store: RunStore, record: RunRecord, metric: str, *, on_progress: Callable[[int], None] = lambda _: None
) -> PanelVotes:
    """The stored votes on the first answer to each sample; raises unless a panel gave one vote per answer."""
    result = next(one for one in store.results(record.run_id) if one.name == metric)
    found = resolve_result_metric(result, record, {}).metric
    rows: dict[int, list[StoredJudgement]] = defaultdict(list)
    for row in store.judgements(record.run_id):
        if row.metric == metric and row.signature == result.signature and row.repeat == 0:
            rows[row.position].append(row)
    judged = [row for each in rows.values() for row in each]
    if not isinstance(found, JudgedMetric) or not any(row.body.get("panel") for row in judged):
        raise BadValueError(
            f"{metric} of {record.run_id} was not judged by a panel: weights are learned from the votes of several "
            "judges; name a panel under 'resources' of the plan and use it as the critic"
        )
    prompts = {row.prompt_id for row in judged}
    outputs = {row.position: row.output for row in store.outputs(record.run_id, repeat=0)}
    made = PanelVotes((), prompts.pop(), {}, {})
    members: tuple[str, ...] = ()
    for position, sample in enumerate(store.samples(record.run_id)):
        if position not in rows or position not in outputs:
            continue
        polls = _replayed_polls(found, sample, outputs[position], rows[position])
        repeats = len({row.judge_repeat for row in rows[position]})
        if prompts or len(polls) > repeats or any(len(poll.decided) != 1 for poll in polls):
            raise BadValueError(
                f"{metric} has several votes per answer, such as one for each claim or dimension; weights are learned "
                "for metrics with one: choose the vote mean, median or majority for this one"
            )
        if polls:
            members = polls[0].names
            made.votes[sample.sample_id] = _mean_votes(polls)
            made.digests[sample.sample_id] = answer_digest(_answer(outputs[position]))
        on_progress(1)
    if not members:
        raise BadValueError(
            f"the stored judgements of {metric} do not belong to its present requests, so that votes cannot be read "
            f"from them: score {record.run_id} again with `auepora rescore`"
        )
    return replace(made, members=members)


def _replayed_polls(
    metric: JudgedMetric, sample: EvaluationSample, output: SystemOutputs, rows: Sequence[StoredJudgement]
) -> list[Poll]:
    """The polls about one answer, from the stored judgements; none if they do not match the present requests."""
    with judged_item(sample.sample_id, _answer(output)) as item:
        metric.replay(sample, output, ExplainContext(judgements=to_sample_judgements(rows)))
    return item.polls


def _answer(output: SystemOutputs) -> str:
    return "" if output.response is None else output.response.text


def _mean_votes(polls: Sequence[Poll]) -> list[float]:
    """The vote of each member on the only item, as a mean over repeated judgements."""
    by_member: list[float] = []
    for member in range(len(polls[0].names)):
        votes = [poll.row(path)[member] for poll in polls for path in poll.decided]
        numbers = [one.number for one in votes if one is not None and one.number is not None]
        by_member.append(math.fsum(numbers) / len(numbers) if numbers else math.nan)
    return by_member


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
    on_progress: Callable[[int], None] = lambda _: None,
) -> tuple[PanelWeights, SampleScores]:
    """Learn stacked weights from human labels of a run; returns them, and the scores of a stacked vote.

    Answers with a label are scored by coefficients that their own label did not enter, so that these scores may be
    compared with the labels. Answers to one question stay in one fold.
    """
    run = load_run_scores(store, record, metric)
    if run.range != (0.0, 1.0):
        raise BadValueError(f"{run.metric} is not between 0 and 1: a stacked vote is a probability")
    kept, _ = select_labels(labels, names=run.run_names, metric=run.metric)
    kept, _ = reject_tuning_labels(kept, tuned_on, leave_out=leave_out_tuned)
    human = aggregate_labels(kept, None if scale is None else Scale.parse(scale))
    panel = read_panel_votes(store, record, run.metric, on_progress=on_progress)
    usable = {one: row for one, row in panel.votes.items() if one in run.scores and not np.isnan(row).all()}
    ids = [one for one in usable if one in human.values]
    target = np.array([human.values[one] if run.higher_is_better else 1 - human.values[one] for one in ids])
    clusters = None if run.clusters is None else np.array([run.clusters[one] for one in ids], dtype=np.intp)
    votes = np.array([usable[one] for one in ids]).reshape(len(ids), len(panel.members))
    fitted = fit_stacked_weights(votes, target, clusters=clusters, seed=seed)
    if len(ids) < ENOUGH_LABELS:
        warnings.warn(
            f"the weights are learned from {len(ids)} labels; below {ENOUGH_LABELS} a majority vote is usually as good",
            AueporaWarning,
            stacklevel=2,
        )
    items = tuple(LabelledItem(one, panel.digests[one], fold) for one, fold in zip(ids, fitted.folds, strict=True))
    weights = PanelWeights(
        panel.members, run.metric, panel.prompt_id, fitted.coefficients, fitted.fold_coefficients, items
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
    with atomic_write(Path(path)) as file:
        file.write(f"{json.dumps(weights.to_dict(), indent=2, ensure_ascii=False)}\n".encode())
