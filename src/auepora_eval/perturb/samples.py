"""Labels of samples for perturbed runs: what metrics must know about the perturbed documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..core.errors import BadValueError
from ..core.types import EvaluationSample
from ..features.refusals import is_unanswerable
from .counterfactual import DocumentEdit, wrong_answer
from .gold import has_gold
from .kinds import ARMS_KIND, NEED_GOLD, Level, Sweep
from .perturber import removes_all_relevant

__all__ = ["arm_variant", "label_sample", "require_annotations"]


def require_annotations(samples: Sequence[EvaluationSample], sweep: Sweep, edit: DocumentEdit | None = None) -> None:
    """Raise where annotations that a kind of perturbation needs are missing."""
    for kind in sorted(sweep.perturbs & NEED_GOLD):
        if not any(map(has_gold, samples)):
            raise BadValueError(
                f"{sweep} needs gold documents, and no sample has any (relevant_docs, or metadata.expected_doc_ids)"
            )
        editable = [one for one in samples if has_gold(one) and wrong_answer(one) is not None and one.references]
        if kind == "counterfactual" and edit is None and not editable:
            raise BadValueError(
                f"{sweep} replaces the right answer by a wrong one, and no sample has relevant documents, a reference "
                "answer and metadata.wrong_answer; add them, or give a function 'edit'"
            )


def label_sample(sample: EvaluationSample, sweep: Sweep, level: Level, seed: int = 0) -> EvaluationSample:
    """The sample with the labels of a level; the same object where none are needed.

    With noise, ``labels["noise_ratio"]`` is the rate. Where no relevant document can be left, declining is right:
    ``labels["answerable"]`` is false, and ``metadata["perturbation"]`` gives the reason. An arm is in
    ``labels["arm"]``; only in ``edited`` does the sample keep its wrong answer, by which metrics detect
    counterfactual documents.
    """
    if sweep.kind == ARMS_KIND:
        return _label_arm(sample, str(level))
    labels: dict[str, Any] = dict(sample.labels)
    metadata = sample.metadata
    if sweep.kind == "noise":
        if level:
            labels["noise_ratio"] = level
        else:
            labels.setdefault("noise_ratio", level)  # nothing is changed at rate 0: the sample's own label stays
    if removes_all_relevant(sample, sweep.perturbation(level, seed)) and is_unanswerable(sample) is False:
        labels["answerable"] = False
        metadata = {**_as_dict(metadata), "perturbation": f"{sweep.label(level)}: nothing relevant is left"}
    if labels == sample.labels:
        return sample
    return replace(sample, labels=labels, metadata=metadata)


def _label_arm(sample: EvaluationSample, arm: str) -> EvaluationSample:
    metadata = _as_dict(sample.metadata)
    if arm != "edited":
        metadata.pop("wrong_answer", None)
    return replace(sample, labels={**sample.labels, "arm": arm}, metadata=metadata)


def arm_variant(sample: EvaluationSample, *, of_base: bool, is_false: bool) -> EvaluationSample:
    """A sample of one arm for the joint evaluation of all arms: a variant of the sample of the first arm.

    ``is_false`` says whether its documents were counterfactual; that requires a document with the right answer.
    """
    arm, labels, metadata = sample.labels["arm"], dict(sample.labels), _as_dict(sample.metadata)
    if not is_false:
        metadata.pop("wrong_answer", None)
    cluster = sample.cluster
    if of_base:
        return replace(sample, labels=labels, metadata=metadata, cluster_id=cluster)
    if is_unanswerable(sample):
        labels["answerable"] = False  # its scenario said so, and is replaced below
    labels["scenario"] = "false_documents" if is_false else f"{arm}_documents"
    labels["variant_of"] = sample.sample_id
    name = f"{sample.sample_id} [{arm}]"
    return replace(sample, sample_id=name, labels=labels, metadata=metadata, cluster_id=cluster)


def _as_dict(metadata: object) -> dict[str, Any]:
    return dict(metadata) if isinstance(metadata, Mapping) else {}
