"""The options that select the executor: this process, several processes or a Ray cluster."""

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
    """The executor that the command line selects."""

    name: ExecutorName | None = None
    workers: int | None = None
    address: str | None = None

    def check(self) -> None:
        """Raise if options contradict each other."""
        if self.workers is not None and self.name not in ("processes", "ray"):
            raise click.UsageError("--workers goes with --executor processes or ray")
        if self.address is not None and self.name != "ray":
            raise click.UsageError("--address goes with --executor ray")

    def open_executor(self) -> AbstractContextManager[Executor]:
        """A context manager that gives the executor and closes it."""
        from ..core.executors import make_executor

        return make_executor(self.name or "serial", self.workers, self.address)

    def changes(self) -> dict[str, Any]:
        """The same as changes of a plan."""
        return {"scoring.executor": self.name, "scoring.workers": self.workers, "scoring.address": self.address}


def executor_options(function: FunctionT) -> FunctionT:
    """``--executor``, ``--workers`` and ``--address``, passed to the command as one argument, ``executor``."""
    return grouped_options(
        function,
        "executor",
        ExecutorChoice,
        {
            "executor": click.option(
                "--executor",
                type=click.Choice(NAMES),
                help="Where to score: this process (serial), several processes or a Ray cluster; results are equal.",
            ),
            "workers": click.option(
                "--workers", type=click.IntRange(min=1), help="Number of processes; default: one per CPU."
            ),
            "address": click.option(
                "--address",
                metavar="ADDRESS",
                help="With ray: auto, host:port or ray://host:port; default: a local cluster for this command.",
            ),
        },
    )
