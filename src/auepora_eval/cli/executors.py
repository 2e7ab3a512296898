"""The options that say who scores: this process, several, or a cluster."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from .option_groups import FunctionT, grouped_options

if TYPE_CHECKING:
    from ..core.executors import Executor, ExecutorName

__all__ = ["ExecutorChoice", "executor_options"]

NAMES = ("serial", "processes", "ray")


@dataclass(frozen=True, slots=True)
class ExecutorChoice:
    """Who scores."""

    name: ExecutorName | None = None
    workers: int | None = None
    address: str | None = None

    def check(self) -> None:
        """Raise where options do not go together."""
        if self.workers is not None and self.name not in ("processes", "ray"):
            raise click.UsageError("--workers goes with --executor processes or ray")
        if self.address is not None and self.name != "ray":
            raise click.UsageError("--address goes with --executor ray")

    def open_executor(self) -> AbstractContextManager[Executor]:
        """The executor, closed after use."""
        from ..core.executors import make_executor

        return make_executor(self.name or "serial", self.workers, self.address)

    def changes(self) -> dict[str, Any]:
        """As changes of a plan."""
        return {"scoring.executor": self.name, "scoring.workers": self.workers, "scoring.address": self.address}


def executor_options(function: FunctionT) -> FunctionT:
    """``--executor``, ``--workers`` and ``--address``, handed over together as ``executor``."""
    return grouped_options(
        function,
        "executor",
        ExecutorChoice,
        {
            "executor": click.option(
                "--executor",
                type=click.Choice(NAMES),
                help="Who scores: this process (serial), several, or a Ray cluster; the numbers are the same.",
            ),
            "workers": click.option(
                "--workers", type=click.IntRange(min=1), help="How many processes; by default one per processor."
            ),
            "address": click.option(
                "--address",
                metavar="ADDRESS",
                help="With ray: auto, host:port or ray://host:port; by default a cluster of its own on this machine.",
            ),
        },
    )
