"""The label file of a session: the labels of one annotator for one run or two, always up to date on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import DataFileError
from ..io.jsonl import current_time
from ..io.labels import UNCLEAR, Label, LabelEvent, LabelJournal, LabelKey, Provenance, unclear_reason
from .choices import LabelScale
from .draws import Selection
from .form import GivenLabel, LabelChange
from .items import ItemKey


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
    clock: Callable[[], str] = current_time
    selections: Mapping[str, Selection] = field(default_factory=dict)
    """How samples were selected, by sample id."""
    other_run: str | None = None
    """The second run of a session over two runs."""
    chosen: bool = False
    """Whether a person picked the samples."""
    journal: LabelJournal = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "journal", LabelJournal(self.path))

    @property
    def display_name(self) -> str:
        """The annotator, marked if it is a model."""
        return f"{self.annotator} (a model)" if self.provenance == "model" else self.annotator

    def labels(self) -> list[Label]:
        """The existing labels of this annotator for this run, in order."""
        return [one for one in self._entries() if isinstance(one, Label)]

    def labels_by_item(self, scale: LabelScale | None) -> dict[ItemKey, GivenLabel | None]:
        """The existing labels by item, ``None`` for a skip.

        Raises for labels that do not fit the scale, and for a file that takes no more labels.
        """
        found: dict[ItemKey, GivenLabel | None] = {}
        entries = self._entries()
        if self.journal.closed is not None:
            raise DataFileError(self.path, None, "labelling is closed; label a new draw into another file")
        for one in entries:
            assert one.key is not None
            run = "" if self.other_run is None else one.key.run or ""
            label = None
            if isinstance(one, Label):
                label = GivenLabel(self._check_value(one, scale), one.comment)
            elif one.is_unclear:
                label = GivenLabel(UNCLEAR, one.comment)
            found[one.key.sample_id, run] = label
        return found

    def _entries(self) -> list[Label | LabelEvent]:
        """The existing labels and skips of this session, in order."""
        self.journal.refresh()
        entries = [one for one in self.journal.entries(self.annotator) if self._belongs_to_session(one)]
        for one in entries:
            if not isinstance(one, Label):
                continue
            if (one.provenance == "model") != (self.provenance == "model"):
                raise DataFileError(
                    self.path,
                    None,
                    f"{self.annotator!r} has labels of provenance {one.provenance!r} in it, and this session would add "
                    f"{self.provenance!r}; name another --annotator, or label into another file",
                )
        return entries

    def apply(self, change: LabelChange) -> None:
        """Append a label, a skip, or the retraction of one; it is on disk on return."""
        at = self.clock()
        run = change.run or self.run
        key = LabelKey(change.sample_id, self.annotator, run, self.metric, self.adjudicated, self.chosen)
        if change.is_removal:
            # The skip of an answer that was labelled later is not in force any more.
            if change.given is not None or isinstance(self.journal.find(key), LabelEvent):
                self.journal.append(LabelEvent("retract", key, at=at))
        elif change.given is None:
            self.journal.append(LabelEvent("skip", key, reason=change.reason, at=at))
        elif change.given.label == UNCLEAR:
            self.journal.append(LabelEvent("skip", key, reason=unclear_reason(change.given.comment), at=at))
        else:
            self.journal.append(self._label(change, change.given, at))

    def _label(self, change: LabelChange, given: GivenLabel, at: str) -> Label:
        selection = self.selections.get(change.sample_id, Selection())
        return Label(
            change.sample_id,
            given.label,
            self.annotator,
            change.run or self.run,
            self.metric,
            self.provenance,
            self.adjudicated,
            tuning=self.tuning,
            comment=given.comment,
            at=at,
            draw=selection.draw,
            probability=selection.probability,
            position=selection.position,
            shown=change.shown,
            chosen=self.chosen,
        )

    def _belongs_to_session(self, entry: Label | LabelEvent) -> bool:
        key = entry.key
        if key is None or key.run not in (self.run, self.other_run or self.run):
            return False
        return (key.metric, key.adjudicated, key.chosen, key.doc_id) == (
            self.metric,
            self.adjudicated,
            self.chosen,
            None,
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
