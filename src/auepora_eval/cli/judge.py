"""``auepora judge``: commands that ask a judge about more than a run, or hold one against people."""

from __future__ import annotations

import click

from .lazy import LazyGroup

__all__ = ["command"]

COMMANDS = {
    "calibrate": ("judge_calibrate", "Hold a judge, or any metric, against labels of people."),
    "nuggets": ("judge_nuggets", "Have a judge gather nuggets from documents, or find them in answers."),
    "relevance": ("judge_relevance", "Grade pooled documents, into qrels with provenance."),
}


@click.group(name="judge", cls=LazyGroup, table=COMMANDS)
def command() -> None:
    """Ask a judge for what people have not labelled, and find out how far it can be trusted.

    \b
    auepora judge calibrate latest --labels human.jsonl
    auepora judge nuggets data.jsonl -o nuggets.jsonl --plan plan.yaml
    auepora judge relevance pool.jsonl --judge-model small -o qrels.txt
    """
