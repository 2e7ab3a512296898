"""The options of ``auepora run`` that perturb the retrieved documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["perturb_options"]

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def perturb_options(function: FunctionT) -> FunctionT:
    """``--perturb`` and ``--perturb-corpus``."""
    corpus = click.option(
        "--perturb-corpus",
        type=click.Path(),
        metavar="FILE",
        help="With --perturb noise: draw noise documents from this corpus (JSONL).",
    )
    kind = click.option(
        "--perturb",
        multiple=True,
        metavar="KIND=RATES",
        help="Perturb the retrieved documents and run once per rate: noise, drop, counterfactual, empty, shuffle, "
        "duplicate (such as noise=0,0.2,0.4), or arms=none,original,edited.",
    )
    return kind(corpus(function))
