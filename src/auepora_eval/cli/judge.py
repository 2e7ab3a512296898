"""``auepora judge``: commands that label data with a judge, or compare a judge with human labels."""

from __future__ import annotations

import click

from .main import LazyGroup

COMMANDS = {
    "Commands": {
        "bias": ("judge_bias", "Show how a judge depends on length, position and model family."),
        "calibrate": ("judge_calibrate", "Compare a judge, or any metric, with human labels."),
        "nuggets": ("judge_nuggets", "Generate nuggets from documents, or assign them to answers."),
        "relevance": ("judge_relevance", "Grade pooled documents and write qrels with provenance."),
        "try": ("judge_try", "Judge a few samples of a plan and show prompts, replies and cost."),
    }
}


@click.group(name="judge", cls=LazyGroup, table=COMMANDS)
def command() -> None:
    """Label data with a judge, and compare a judge with human labels.

    \b
    auepora judge bias latest --labels human.jsonl
    auepora judge calibrate latest --labels human.jsonl
    auepora judge nuggets data.jsonl -o nuggets.jsonl --plan plan.yaml
    auepora judge relevance pool.jsonl --judge-model small -o qrels.txt
    auepora judge try plan.yaml -m cites_policy
    """
