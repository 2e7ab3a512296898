"""The planner of each purpose of a batch; the packages that use the labels have them."""

from __future__ import annotations

from collections.abc import Mapping

from ..calibration.label_plans import plan_calibration, plan_comparison_batch
from ..grades.drawn_pairs import plan_grades
from ..labels.batch import Purpose
from ..labels.batch_plans import BatchOptions, BatchPlan, BatchPlanner, plan_drafts, plan_items, plan_review
from ..store.runs import RunStore

PLANNERS: Mapping[Purpose, BatchPlanner] = {
    "calibrate": plan_calibration,
    "compare": plan_comparison_batch,
    "grade": plan_grades,
    "drafts": plan_drafts,
    "review": plan_review,
}


def plan_batch(store: RunStore, options: BatchOptions) -> BatchPlan:
    """Draw the items of a batch and forecast what their labels can decide; nothing is written."""
    return plan_items(store, options, PLANNERS)
