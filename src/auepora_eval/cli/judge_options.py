"""Options of commands that may call a judge: which judge, its limits, the preview; and the progress of scoring."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .console import echo_err
from .option_groups import FunctionT, grouped_options

if TYPE_CHECKING:
    from ..core.executors import Executor, Scorable, ScoredBatch
    from ..core.metrics_base import BatchMetric
    from ..core.registry import Spec
    from ..core.results import Results
    from ..judge.policy import JudgePolicy
    from ..judge.preview import Preview
    from ..judge.session import JudgeSession
    from ..planfile.planned_judges import PlannedJudges

__all__ = [
    "JudgeOptions",
    "JudgingOptions",
    "ScoringProgress",
    "attach_usage",
    "judge_options",
    "judge_policy",
    "judging_options",
    "limit_options",
    "make_judge_session",
    "preview_text",
    "with_judge",
]

JUDGE = "judge"
"""Resource name of the judge given on the command line."""


@dataclass(frozen=True, slots=True)
class JudgingOptions:
    """Limits on judge calls, from the command line."""

    preview: bool = False
    cache_only: bool = False
    repeats: int | None = None
    max_calls: int | None = None
    max_cost: float | None = None

    def changes(self) -> dict[str, Any]:
        """The same as changes of a plan."""
        given = {
            "judge.cache_only": self.cache_only or None,
            "judge.repeats": self.repeats,
            "judge.max_calls": self.max_calls,
            "judge.max_cost": self.max_cost,
        }
        return {key: value for key, value in given.items() if value is not None}


_PREVIEW = click.option("--preview", is_flag=True, help="Estimate judge calls and cost without calling a judge.")
_LIMITS: dict[str, Callable[[Any], Any]] = {
    "judge_cache_only": click.option(
        "--judge-cache-only", is_flag=True, help="Call no judge: use the cache only; a judgement that it lacks fails."
    ),
    "judge_repeats": click.option(
        "--judge-repeats", type=click.IntRange(min=1), metavar="N", help="Request each judgement N times."
    ),
    "max_calls": click.option(
        "--max-calls", type=click.IntRange(min=0), metavar="N", help="Make at most N judge calls."
    ),
    "max_cost": click.option(
        "--max-cost", type=click.FloatRange(min=0), metavar="X", help="Spend at most X, with the prices of the plan."
    ),
}


def judging_options(function: FunctionT) -> FunctionT:
    """``--preview``, ``--judge-cache-only`` and limits, passed to the command as one argument, ``judging``."""
    return grouped_options(function, "judging", JudgingOptions, {"preview": _PREVIEW, **_LIMITS})


def limit_options(function: FunctionT) -> FunctionT:
    """``judging_options`` without ``--preview``."""
    return grouped_options(function, "judging", functools.partial(JudgingOptions, False), _LIMITS)


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """The judge, from the command line."""

    plan: str | None = None
    model: str | None = None
    url: str | None = None
    key_env: str | None = None

    def judges(self, changes: dict[str, Any]) -> PlannedJudges | None:
        """The judges of the plan, or the one named here; ``None`` if neither is given."""
        from ..planfile.planned_judges import judges_in_file, judges_in_plan

        if self.model is None and (self.url is not None or self.key_env is not None):
            raise click.UsageError("--judge-url and --judge-key-env go with --judge-model")
        if self.model is None:
            return None if self.plan is None else judges_in_file(self.plan, changes=changes)
        if self.plan is not None:
            raise click.UsageError("give --plan or --judge-model, not both")
        options = {"model": self.model, "base_url": self.url, "api_key_env": self.key_env}
        named = {"resources": {JUDGE: {"openai": {key: one for key, one in options.items() if one is not None}}}}
        return judges_in_plan(named, Path.cwd(), label="the command line", names=[JUDGE], changes=changes)


def judge_options(function: FunctionT) -> FunctionT:
    """``--plan`` and ``--judge-model``, passed to the command as one argument, ``judge``."""
    return grouped_options(
        function,
        "judge",
        JudgeOptions,
        {
            "plan": click.option("--plan", type=click.Path(), help="Use the judges of this plan."),
            "judge_model": click.option(
                "--judge-model", metavar="MODEL", help="Use this model as judge, with an OpenAI-compatible endpoint."
            ),
            "judge_url": click.option("--judge-url", metavar="URL", help="Base URL of the endpoint."),
            "judge_key_env": click.option(
                "--judge-key-env",
                metavar="NAME",
                help="Environment variable with its API key; default: OPENAI_API_KEY.",
            ),
        },
    )


def judge_policy(judges: PlannedJudges, store: Path | None = None) -> JudgePolicy:
    """The policy for these judges; the cache of judgements lies in the folder of the store."""
    from ..running.plans import default_store

    return judges.settings.policy_for(store or default_store(None, judges.store), judges.folder)


def attach_usage(results: Results, session: JudgeSession) -> None:
    """Add the judge usage to the results and print it."""
    from ..running.judging import record_usage
    from .judgements import usage_text

    record_usage(results, session.usage_log)
    if session.usage_log.total.judgements:
        echo_err(f"judging: {usage_text(session.usage_log.total.to_dict())}")


def make_judge_session(judges: PlannedJudges, line: ScoringProgress, *, store: Path | None = None) -> JudgeSession:
    """A session with these judges that shows its progress."""
    from ..core.secrets import Secrets
    from ..judge.session import JudgeSession

    callbacks: list[Callable[[int, int, int], None]] = []

    def on_progress(done: int, requested: int) -> None:
        if not callbacks:
            callbacks.append(line.start_judging())
        callbacks[0](done, requested, session.usage_log.total.failed.total())

    session = JudgeSession(judge_policy(judges, store), on_progress=on_progress, secrets=Secrets(judges.secrets))
    return session


def with_judge(specs: Sequence[Spec], names: Collection[str]) -> list[Spec]:
    """The specs, with a judge added to every judge metric that names none.

    That is the resource called ``judge``, else the only one of ``names``, the names of the resources.
    """
    from ..core.judged_metric import JudgedMetric
    from ..core.registry import metric

    name = JUDGE if JUDGE in names else next(iter(names)) if len(names) == 1 else None
    made: list[Spec] = []
    for spec in specs:
        called = spec if isinstance(spec, str) else next(iter(spec), "")
        options = {} if isinstance(spec, str) else dict(spec[called] or {})
        if name is not None and "critic" not in options:
            built = metric(spec)
            if isinstance(built, JudgedMetric) and hasattr(built, "critic"):
                made.append({called: {**options, "critic": {"use": name}}})
                continue
        made.append(spec)
    return made


@dataclass(frozen=True, slots=True)
class _CountingExecutor:
    """An executor that counts samples with a failed measurement."""

    executor: Executor
    add_failed: Callable[[int], None]

    def score(self, batches: Iterable[Scorable], metrics: Sequence[BatchMetric]) -> Iterator[ScoredBatch]:
        """The outcomes of each batch."""
        from ..core.scores import Status

        for scored in self.executor.score(batches, metrics):
            failed = [one.status == Status.MEASURE_FAILED for one in scored.scores if one.status.any()]
            if failed:
                self.add_failed(int(sum(failed[1:], failed[0]).sum()))
            yield scored


class ScoringProgress:
    """The progress bar of scoring; from the first judge call on, the progress bar of judging."""

    def __init__(self) -> None:
        self._progress_bar = ExitStack()
        self._done = self._requested = self._failed = self._unmeasured = 0

    def __enter__(self) -> ScoringProgress:
        return self

    def __exit__(self, *error: object) -> None:
        self._progress_bar.close()

    def start_scoring(self, total: int | None) -> Callable[[int], None]:
        """Show the progress of scoring; returns the function to call with the number of newly scored samples."""
        from ..reporting.progress import progress

        self._progress_bar.close()
        return self._progress_bar.enter_context(progress("scoring", total, rate=True, suffix=self._unmeasured_note))

    def counting_executor(self, executor: Executor) -> Executor:
        """The executor, wrapped so that the progress bar shows how many samples could not be measured."""
        return _CountingExecutor(executor, self._add_unmeasured)

    def _add_unmeasured(self, more: int) -> None:
        self._unmeasured += more

    def _unmeasured_note(self) -> str:
        return f"{self._unmeasured:,} could not be measured" if self._unmeasured else ""

    def start_judging(self) -> Callable[[int, int, int], None]:
        """Show the progress of judging; returns the function to call with judgements done, requested, failed."""
        from ..reporting.progress import progress

        self._progress_bar.close()
        line = progress("judging", lambda: self._requested, rate=True, suffix=self._failed_note)
        advance = self._progress_bar.enter_context(line)

        def update(done: int, requested: int, failed: int) -> None:
            more, self._done = done - self._done, done
            self._requested, self._failed = requested, failed
            advance(more)

        return update

    def _failed_note(self) -> str:
        return f"{self._failed} failed" if self._failed else ""


def preview_text(found: Preview, *, as_json: bool, notes: Sequence[str] = ()) -> str:
    """The estimate of judge calls and cost, as text or JSON."""
    if as_json:
        return json.dumps({**found.to_dict(), "remarks": list(notes)}, indent=2, ensure_ascii=False)
    return "\n\n".join([found.to_text(), *notes])
