"""Commands that do in a terminal what a batch is for: label its items, and use its labels."""

from __future__ import annotations

import shlex

from ..stats.sequential import SequentialDesign
from .batch import LabelBatch
from .draws import ComparisonDesign, LabelDraw

MAX_LISTED = 20
"""A command lists up to so many picked samples."""


def label_command(batch: LabelBatch, draw: LabelDraw | None, store: str) -> str:
    """The command that labels the items of a batch in a terminal, into the same file; empty if there is none."""
    words = ["auepora", "label"]
    if draw is not None and draw.comparison is not None:
        design = draw.comparison
        words += ["--for", *batch.runs, "--n", str(design.n), "--seed", str(draw.seed)]
        words += [] if design.delta is None else ["--delta", str(design.delta)]
        words += ["--looks", str(_num_looks(design))] if design.looks else []
    elif draw is not None:
        words += [*batch.runs, "--n", str(len(draw.drawn_items)), "--seed", str(draw.seed)]
        words += ["--stratify", draw.stratify] if draw.stratify else []
    elif batch.purpose == "review" and len(batch.items) <= MAX_LISTED:
        words += [*batch.runs, *(word for one in batch.items for word in ("--sample", one.sample_id))]
    else:
        return ""
    metric = batch.metric if draw is None or draw.comparison is None else draw.comparison.name
    words += ["-m", metric] if metric else []
    words += ["--scale", batch.scale] if batch.scale else []
    words += ["--blind"] if batch.blind else []
    return shlex.join([*words, "--labels", str(batch.journal), "--store", store])


def _num_looks(design: ComparisonDesign) -> int:
    """The number of looks that was asked for: there is none at very few samples."""
    fewest = len(design.looks)
    numbers = range(fewest, design.n + 1)
    return next((k for k in numbers if SequentialDesign.plan(design.n, looks=k).looks == design.looks), fewest)


def result_commands(batch: LabelBatch, store: str) -> list[tuple[str, str]]:
    """What can be done with the labels of a batch, each with its command."""
    labels = str(batch.journal)
    if batch.purpose in ("calibrate", "compare"):
        words = ["auepora", "judge", "calibrate", *batch.runs, "--labels", labels]
        words += ["-m", batch.metric] if batch.metric else []
        words += ["--scale", batch.scale] if batch.scale else []
        return [("The results in a terminal:", shlex.join([*words, "--store", store]))]
    if batch.purpose == "drafts" and batch.accepted_file.exists():
        return [("Check the accepted drafts:", shlex.join(["auepora", "validate", str(batch.accepted_file)]))]
    if batch.purpose != "grade":
        return []
    rescore = ["auepora", "rescore", batch.runs[0], "--store", store]
    if batch.draw is not None:
        words = [*rescore, "--qrels", "QRELS", "--grades", labels]
        return [("Correct the metrics; QRELS are the grades of the model:", shlex.join(words))]
    pool = ["auepora", "pool", *batch.runs, "-o", "pool.jsonl", "--store", store]
    write = ["auepora", "judge", "relevance", "pool.jsonl", "--labels", labels, "-o", "qrels.txt"]
    return [
        ("Pool the documents again:", shlex.join(pool)),
        ("Write the grades as qrels:", shlex.join(write)),
        ("Score a run with them:", shlex.join([*rescore, "--qrels", "qrels.txt"])),
    ]
