"""The labels file as the state of a session: what one annotator said about one run, on the disk at any moment."""

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
    """Where the labels of a session go, and what stands in each of them."""

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
        """The annotator, marked where it is a model."""
        return f"{self.annotator} (a model)" if self.provenance == "model" else self.annotator

    def labels(self) -> list[Label]:
        """What this annotator has said already about this run, in that order."""
        if not self.path.exists():
            return []
        ours = [one for one in read_labels(self.path) if self._is_ours(one)]
        for one in ours:
            if (one.provenance == "model") != (self.provenance == "model"):
                raise DataFileError(
                    self.path,
                    None,
                    f"{self.annotator!r} has labels of provenance {one.provenance!r} in it, and this session would add "
                    f"{self.provenance!r}; name another --annotator, or label into another file",
                )
        return ours

    def said(self, scale: LabelScale | None) -> dict[str, GivenLabel]:
        """The same by sample, for a session with that scale; labels of another kind are an error."""
        return {one.sample_id: GivenLabel(self._fitting(one, scale), one.comment) for one in self.labels()}

    def apply(self, change: LabelChange) -> None:
        """Write what was said, or take it back; on return it is on the disk."""
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

    def _is_ours(self, label: Label) -> bool:
        return (label.annotator, label.run, label.metric, label.adjudicated) == (
            self.annotator,
            self.run,
            self.metric,
            self.adjudicated,
        )

    def _fitting(self, label: Label, scale: LabelScale | None) -> str | int:
        value = label.label
        if isinstance(value, bool):
            value = "right" if value else "wrong"
        if scale is None and isinstance(value, str):
            return value
        if scale is not None and not isinstance(value, str) and value in scale:
            return int(value)
        wanted = "right or wrong" if scale is None else f"numbers from {scale.low} to {scale.high}"
        raise DataFileError(
            self.path,
            None,
            f"{self.annotator!r} labelled sample {label.sample_id!r} with {value}, and this session asks for {wanted}; "
            "go on with the same --scale, or label into another file",
        )
