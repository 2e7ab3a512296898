"""What a batch of items to label is: its purpose, its items, and what annotators can choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..errors import BadValueError
from ..io.labels import Provenance
from .choices import CHOICE_LABELS, CHOICES, GRADE_TEXTS, LabelChoice, LabelScale

Purpose = Literal["calibrate", "compare", "grade", "drafts", "review"]
"""What the labels are for: to calibrate a judge, to decide between two runs, to grade documents, to accept or reject
drafts of samples, or to review samples that a person picked."""
SHOWN_PARTS = ("documents", "reference", "relevance")
"""What a batch may show of an item beside question and answer."""


@dataclass(frozen=True, slots=True)
class BatchEntry:
    """Where an item of a batch is stored."""

    sample_id: str
    positions: tuple[int, ...] = ()
    """The position of the sample in the dataset of each run; -1 where a run does not have it. Of drafts, the line."""
    doc_id: str | None = None
    """The document to grade."""


@dataclass(frozen=True, slots=True)
class LabelBatch:
    """What a batch is; it never changes."""

    id: str
    """Random; the only name of the batch that annotators see."""
    title: str
    purpose: Purpose
    runs: tuple[str, ...]
    """Ids of the runs."""
    metric: str | None
    """The metric that the labels are about; ``None``: any."""
    scale: str | None
    """Such as ``1-5``; ``None`` for right and wrong, accepted and rejected."""
    instructions: str
    annotators: int
    """The number of annotators who label each item."""
    blind: bool
    shown: tuple[str, ...]
    """What annotators see beside question and answer, of ``SHOWN_PARTS``."""
    seed: int
    created: str
    created_by: str
    draw: str | None
    """The id of the draw; ``None`` where a person picked the samples."""
    items: tuple[BatchEntry, ...]
    """In the order of labelling."""
    folder: str = ""
    name: str = ""
    """The start of the names of its files."""
    suffix: str = ".jsonl"
    """The end of the name of its journal."""
    provenance: Provenance = "human"
    tuning: bool = False
    """Whether its labels are marked as used to tune a prompt."""
    adjudicates: bool = False
    """Whether its labels decide between those of annotators in other files."""

    @property
    def is_session(self) -> bool:
        """Whether it is a session of one annotator in a terminal: it has a journal, and no file of its own."""
        return not self.id

    @property
    def journal(self) -> Path:
        """The journal of labels, which ``auepora label`` and ``auepora judge calibrate`` read."""
        return self.file(self.suffix)

    @property
    def drafts_file(self) -> Path:
        """The samples of a batch of drafts."""
        return self.file(".drafts.jsonl")

    @property
    def accepted_file(self) -> Path:
        """The accepted drafts, written when the batch is closed."""
        return self.file(".accepted.jsonl")

    @property
    def answers(self) -> int:
        """The number of labels of one annotator for an item: two for the answers of two runs."""
        return 2 if self.purpose == "compare" else 1

    def answered_runs(self, entry: BatchEntry) -> tuple[str, ...]:
        """The runs whose answers an item shows; none where documents or drafts are labelled."""
        if self.purpose in ("grade", "drafts"):
            return ()
        places = zip(self.runs, entry.positions, strict=True)
        return tuple(run for run, position in places if position >= 0)

    @property
    def is_chosen(self) -> bool:
        """Whether a person picked the samples, so that nothing is estimated from the labels."""
        return self.purpose in ("review", "drafts")

    @property
    def offers_unclear(self) -> bool:
        """Whether *Cannot tell* can be chosen for an item, which counts as a missing label."""
        return self.purpose in ("calibrate", "compare")

    @property
    def question(self) -> str:
        """The question to the annotator."""
        match self.purpose:
            case "drafts":
                return "Is this a good test question, with the right reference?"
            case "grade":
                return "How relevant is the document to the question?"
            case "compare":
                return "Which answer is right?" if self.scale is None else "How good is each answer?"
        return "Is the answer right?" if self.scale is None else "How good is the answer?"

    @property
    def choices(self) -> tuple[LabelChoice, ...]:
        """What can be chosen: for the item, or on a scale for each of its answers."""
        if self.scale is not None:
            scale = LabelScale.of(self.scale)
            texts = GRADE_TEXTS if self.purpose == "grade" else {scale.low: "worst", scale.high: "best"}
            values = range(scale.low, scale.high + 1)
            shown = {value: f"{value}: {text}" for value, text in texts.items()}
            return tuple(LabelChoice(str(value), str(value), shown.get(value, str(value))) for value in values)
        return CHOICES.get(self.purpose, CHOICES["calibrate"])

    def parse_values(self, values: Sequence[str]) -> tuple[str | int, ...]:
        """The labels of the answers, in the order shown, of what an annotator chose.

        Without a scale this is the name of one choice; on a scale one grade for each answer.
        """
        names = [choice.name for choice in self.choices]
        expected = 1 if self.scale is None else self.answers
        if len(values) != expected or any(value not in names for value in values):
            count = "one value" if expected == 1 else f"{expected} values"
            raise BadValueError(f"label: {count} of {', '.join(names)} expected, not {', '.join(values)!r:.80}")
        return tuple(map(int, values)) if self.scale is not None else CHOICE_LABELS[values[0]]

    def describe(self, labels: tuple[str | float, ...]) -> str:
        """The labels of an annotator for the answers of an item, in the order shown, in words."""
        if self.scale is not None:
            return ", ".join(str(label).removesuffix(".0") for label in labels)
        return next((choice.text for choice in self.choices if CHOICE_LABELS[choice.name] == labels), "")

    def file(self, suffix: str) -> Path:
        """The path of one of its files."""
        return Path(self.folder, f"{self.name}{suffix}")
