"""Options of commands that may call a judge, and the progress of runs."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

import click

from ..core.metrics_base import BatchMetric
from ..core.registry import Spec, metric, single_specs
from ..render.terminal import progress
from .console import echo_err
from .options import grouped_options

if TYPE_CHECKING:
    from ..core.results import Results
    from ..core.types import TargetCategory
    from ..engine.executors import Executor, Scorable, ScoredBatch
    from ..judge.critic import JudgePolicy
    from ..judge.session import JudgeSession
    from ..plan.resources import PlannedJudges

JUDGE = "judge"
"""Resource name of the judge given on the command line."""


@dataclass(frozen=True, slots=True)
class JudgingOptions:
    """Limits on judge calls and settings of the plan, from the command line."""

    preview: bool = False
    cache_only: bool = False
    repeats: int | None = None
    max_calls: int | None = None
    max_cost: float | None = None
    set_texts: tuple[str, ...] = ()
    controls: int | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The values of ``--set`` by their key in a plan."""
        if not self.set_texts:
            return {}
        from ..plan.source import parse_settings

        return parse_settings(self.set_texts)

    def changes(self, *, others: bool = False) -> dict[str, Any]:
        """Settings and limits of judges as changes of a plan.

        Settings of other keys are refused, unless the command reads them, too (``others``).
        """
        settings = self.settings
        judged = {key: value for key, value in settings.items() if key.partition(".")[0] in ("judge", "resources")}
        if len(judged) < len(settings) and not others:
            key = next(key for key in settings if key not in judged)
            raise click.UsageError(
                f"--set {key}: this command takes only keys of a judge, such as judge.max_calls and "
                "resources.judge.openai.model"
            )
        return judged | self.limits()

    def limits(self) -> dict[str, Any]:
        """The limits on judge calls as changes of a plan."""
        given = {
            "judge.cache_only": self.cache_only or None,
            "judge.repeats": self.repeats,
            "judge.max_calls": self.max_calls,
            "judge.max_cost": self.max_cost,
            "judge.controls": self.controls,
        }
        return {key: value for key, value in given.items() if value is not None}


_PREVIEW = click.option("--preview", is_flag=True, help="Estimate judge calls and cost without calling a judge.")
_CONTROLS = click.option(
    "--controls",
    type=click.IntRange(min=0),
    metavar="N",
    help="Mix N items with a known verdict into those of each judge metric, and report how often the judge is wrong.",
)
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
    "set_texts": click.option(
        "--set",
        "set_texts",
        multiple=True,
        metavar="KEY=VALUE",
        help="Set a plan key, such as judge.max_calls=100; repeatable. The value is YAML.",
    ),
}


judging_options = grouped_options("judging", JudgingOptions, {"preview": _PREVIEW, **_LIMITS})
"""``--preview``, ``--judge-cache-only`` and limits, passed to the command as one argument, ``judging``."""
scoring_judge_options = grouped_options(
    "judging", JudgingOptions, {"preview": _PREVIEW, **_LIMITS, "controls": _CONTROLS}
)
"""``judging_options`` and ``--controls``, for commands that compute metrics."""
limit_options = grouped_options("judging", functools.partial(JudgingOptions, False), _LIMITS)
"""``judging_options`` without ``--preview``."""


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """The judge, from the command line."""

    plan: str | None = None
    model: str | None = None
    url: str | None = None
    key_env: str | None = None

    def judges(self, changes: dict[str, Any], *, has_plan: bool = False) -> PlannedJudges | None:
        """The judges of the plan, or those named here; ``None`` if none is given.

        With ``has_plan``, the caller changes a plan of its own.
        """
        if self.model is None and (self.url is not None or self.key_env is not None):
            raise click.UsageError("--judge-url and --judge-key-env go with --judge-model")
        names_judge = self.model is not None
        if not has_plan and self.plan is None:
            names_judge = names_judge or any(key.startswith("resources.") for key in changes)
        if not names_judge and self.plan is None:
            return None
        from ..plan.resources import judges_in_file, judges_in_plan

        if not names_judge:
            assert self.plan is not None
            return judges_in_file(self.plan, changes=changes)
        if self.plan is not None:
            raise click.UsageError("give --plan or --judge-model, not both")
        options = {"model": self.model, "base_url": self.url, "api_key_env": self.key_env}
        given = {key: value for key, value in options.items() if value is not None}
        named = {"resources": {JUDGE: {"openai": given}}} if self.model is not None else {}
        return judges_in_plan(named, Path.cwd(), label="the command line", names=[JUDGE], changes=changes)


judge_options = grouped_options(
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
"""``--plan`` and ``--judge-model``, passed to the command as one argument, ``judge``."""


@dataclass(frozen=True, slots=True)
class StopOptions:
    """When judging stops early, from the command line."""

    against: str | None = None
    metrics: tuple[str, ...] = ()
    delta: float | None = None
    safe: bool = False
    seed: int | None = None

    def changes(self) -> dict[str, Any]:
        """The same as changes of a plan."""
        given = {
            "metric": list(self.metrics) or None,
            "delta": self.delta,
            "safe": self.safe or None,
            "seed": self.seed,
        }
        found = {f"judge.stop.{key}": value for key, value in given.items() if value is not None}
        if found and self.against is None:
            raise click.UsageError("--stop-metric, --delta, --safe and --stop-seed go with --until-decided")
        return found if self.against is None else {"judge.stop.against": self.against, **found}


stop_options = grouped_options(
    "stop",
    StopOptions,
    {
        "until_decided": click.option(
            "--until-decided",
            metavar="RUN",
            help="Stop judging when the comparison with RUN is decided; the order of the answers is random.",
        ),
        "stop_metric": click.option(
            "--stop-metric",
            multiple=True,
            metavar="NAME",
            help="With --until-decided: the metric that decides; repeatable. Default: the primary judge metric.",
        ),
        "delta": click.option(
            "--delta",
            type=click.FloatRange(min=0, min_open=True),
            metavar="D",
            help="With --until-decided: differences up to D count as equal.",
        ),
        "safe": click.option(
            "--safe", is_flag=True, help="With --until-decided: test by betting, for very skewed scores."
        ),
        "stop_seed": click.option(
            "--stop-seed",
            type=click.IntRange(min=0),
            metavar="N",
            help="With --until-decided: seed of the random order; default 0.",
        ),
    },
)
"""``--until-decided`` and what goes with it, passed to the command as one argument, ``stop``."""


def judge_policy(judges: PlannedJudges, store: Path | None = None) -> JudgePolicy:
    """The policy for these judges; the cache of judgements lies in the folder of the store."""
    from ..store.connect import default_store

    return judges.settings.policy_for(store or default_store(None, judges.store), judges.folder)


def make_judge_session(judges: PlannedJudges, line: ScoringProgress, *, store: Path | None = None) -> JudgeSession:
    """A session with these judges that shows its progress."""
    from ..judge.session import JudgeSession
    from ..runtime.secrets import Secrets

    def on_progress(done: int, requested: int) -> None:
        line.show_judging(done, requested, session.usage_log.total.failed.total())

    session = JudgeSession(judge_policy(judges, store), on_progress=on_progress, secrets=Secrets(judges.secrets))
    return session


def with_judge(specs: Sequence[Spec], names: Collection[str]) -> list[Spec]:
    """Specs of one metric each, with a judge added to every judge metric that names none.

    That is the resource called ``judge``, else the only one of ``names``, the names of the resources.
    """
    name = None
    if names:
        from ..engine.targets import usual_judge

        name = usual_judge(names)
    made: list[Spec] = []
    for spec in specs:
        called = spec if isinstance(spec, str) else next(iter(spec), "")
        options = {} if isinstance(spec, str) else dict(spec[called] or {})
        given: Spec = spec
        if name is not None and "critic" not in options:
            built = metric(spec)
            if isinstance(built, BatchMetric) and built.metadata.calls_judge and getattr(built, "critic", name) is None:
                given = {called: {**options, "critic": {"use": name}}}
        made += [single for single, _ in single_specs(given)] if isinstance(given, Mapping) else [given]
    return made


def add_judged(
    specs: Sequence[Spec], targets: Sequence[TargetCategory], resources: Mapping[str, Any]
) -> tuple[list[Spec], frozenset[str]]:
    """The specs with a judge, those of the targets that need one, and the names of the latter; says what is judged.

    Without a judge among the ``resources`` of a plan, the metrics of the targets that need one are left out.
    """
    given = with_judge(specs, resources)
    if not targets:
        return given, frozenset()
    from ..engine.targets import judge_note, judged_specs

    judged = judged_specs(targets, resources, given)
    if note := judge_note(targets, judged):
        echo_err(note)
    return [*given, *judged], frozenset(chain.from_iterable(judged))


@dataclass(frozen=True, slots=True)
class _CountingExecutor:
    """An executor that counts samples with a failed measurement."""

    executor: Executor
    add_failed: Callable[[int], None]

    def score(self, batches: Iterable[Scorable], metrics: Sequence[BatchMetric]) -> Iterator[ScoredBatch]:
        """The outcomes of each batch."""
        from ..core.scores import Status

        for scored in self.executor.score(batches, metrics):
            failed = [score.status == Status.MEASURE_FAILED for score in scored.scores if score.status.any()]
            if failed:
                self.add_failed(int(sum(failed[1:], failed[0]).sum()))
            yield scored


class ScoringProgress:
    """The progress bar of scoring; from the first judge call on, the progress bar of judging."""

    def __init__(self) -> None:
        self._progress_bar = ExitStack()
        self._done = self._requested = self._failed = self._unmeasured = 0
        self._look = ""
        self._update: Callable[[int, int, int], None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._progress_bar.close()

    def start_scoring(self, total: int | None) -> Callable[[int], None]:
        """Show the progress of scoring; returns the function to call with the number of newly scored samples."""
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
        self._progress_bar.close()
        line = progress("judging", lambda: self._requested, rate=True, suffix=self._failed_note)
        advance = self._progress_bar.enter_context(line)

        def update(done: int, requested: int, failed: int) -> None:
            more, self._done = done - self._done, done
            self._requested, self._failed = requested, failed
            advance(more)

        return update

    def show_judging(self, done: int, requested: int, failed: int) -> None:
        """Show the number of judgements done, requested and failed; the progress bar appears at the first call."""
        if self._update is None:
            self._update = self.start_judging()
        self._update(done, requested, failed)

    def show_look(self, number: int, looks: int, units: int, total: int) -> None:
        """Show which look is being judged."""
        self._look = f"look {number} of {looks}, {units:,} of {total:,} units"

    def _failed_note(self) -> str:
        return ", ".join(filter(None, [self._look, f"{self._failed} failed" if self._failed else ""]))


# --- exit codes of a run ---------------------------------------------------------------------------------------------

STOPPED_EARLY, INTERRUPTED = 3, 130
"""Exit codes."""


def exit_with_errors(*errors: str) -> NoReturn:
    """Print errors that ended a run early, and exit."""
    echo_err(*(f"Error: {error}" for error in errors), always=True)
    sys.exit(STOPPED_EARLY)


def run_failure(results: Results) -> str | None:
    """Why a finished run failed as a whole, in one line; ``None`` if it did not."""
    nothing = None if any(result.defined for result in results) else "nothing could be scored"
    return ": ".join(filter(None, [nothing, results.failure])) or None
