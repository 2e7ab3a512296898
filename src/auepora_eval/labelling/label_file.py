"""The label file of a session: the labels of one annotator for one run, always up to date on disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ..core.errors import DataFileError
from ..io.labels import Label, Provenance, append_label, read_labels, remove_label
from .session import GivenLabel, LabelChange, LabelScale

__all__ = ["LabelFile"]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class LabelFile:
    """The file of a session's labels, and the fields that all of them share."""

    path: Path
    annotator: str
    run: str
    metric: str | None = None
    adjudicated: bool = False
    tuning: bool = False
    provenance: Provenance = "human"
    clock: Callable[[], str] = _now

    @property
    def display_name(self) -> str:
        """The annotator, marked if it is a model."""
        return f"{self.annotator} (a model)" if self.provenance == "model" else self.annotator

    def labels(self) -> list[Label]:
        """The existing labels of this annotator for this run, in order."""
        if not self.path.exists():
            return []
        own_labels = [one for one in read_labels(self.path) if self._belongs_to_session(one)]
        for one in own_labels:
            if (one.provenance == "model") != (self.provenance == "model"):
                raise DataFileError(
                    self.path,
                    None,
                    f"{self.annotator!r} has labels of provenance {one.provenance!r} in it, and this session would add "
                    f"{self.provenance!r}; name another --annotator, or label into another file",
                )
        return own_labels

    def labels_by_sample(self, scale: LabelScale | None) -> dict[str, GivenLabel]:
        """The existing labels by sample; raises for labels that do not fit the scale."""
        return {one.sample_id: GivenLabel(self._check_value(one, scale), one.comment) for one in self.labels()}

    def apply(self, change: LabelChange) -> None:
        """Write or remove a label; it is on disk on return."""
        label = self._label(change.sample_id, change.given)
        if change.is_removal:
            remove_label(self.path, label.key)
        else:
            append_label(self.path, label)

    def _label(self, sample_id: str, given: GivenLabel) -> Label:
        return Label(
            sample_id,
            given.label,
            self.annotator,
            self.run,
            self.metric,
            self.provenance,
            self.adjudicated,
            tuning=self.tuning,
            comment=given.comment,
            at=self.clock(),
        )

    def _belongs_to_session(self, label: Label) -> bool:
        return (label.annotator, label.run, label.metric, label.adjudicated) == (
            self.annotator,
            self.run,
            self.metric,
            self.adjudicated,
        )

    def _check_value(self, label: Label, scale: LabelScale | None) -> str | int:
        value = label.label
        if isinstance(value, bool):
            value = "right" if value else "wrong"
        if scale is None and isinstance(value, str):
            return value
        if scale is not None and not isinstance(value, str) and value in scale:
            return int(value)
        expected = "right or wrong" if scale is None else f"numbers from {scale.low} to {scale.high}"
        raise DataFileError(
            self.path,
            None,
            f"{self.annotator!r} labelled sample {label.sample_id!r} with {value}, and this session expects "
            f"{expected}; use the same --scale, or label into another file",
        )
