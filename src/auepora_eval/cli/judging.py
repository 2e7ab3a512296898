"""Options of commands that may ask a judge: who it is, what it may cost, what it would cost; and its progress."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .packing import FunctionT, packed
from .saying import say

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
    "ScoringLine",
    "judge_options",
    "judging_options",
    "limit_options",
    "policy_of",
    "preview_text",
    "session_of",
    "told_usage",
    "with_judge",
]

JUDGE = "judge"
"""What the judge is called that the command line names."""


@dataclass(frozen=True, slots=True)
class JudgingOptions:
    """How judges are asked, as the command line says."""

    preview: bool = False
    cache_only: bool = False
    repeats: int | None = None
    max_calls: int | None = None
    max_cost: float | None = None

    def changes(self) -> dict[str, Any]:
        """What they change in a plan."""
        given = {
            "judge.cache_only": self.cache_only or None,
            "judge.repeats": self.repeats,
            "judge.max_calls": self.max_calls,
            "judge.max_cost": self.max_cost,
        }
        return {key: value for key, value in given.items() if value is not None}


_PREVIEW = click.option("--preview", is_flag=True, help="Tell what judging would ask and cost; nobody is asked.")
_LIMITS: dict[str, Callable[[Any], Any]] = {
    "judge_cache_only": click.option(
        "--judge-cache-only", is_flag=True, help="Ask no judge: what the cache does not have fails."
    ),
    "judge_repeats": click.option(
        "--judge-repeats", type=click.IntRange(min=1), metavar="N", help="Have each thing judged N times."
    ),
    "max_calls": click.option(
        "--max-calls", type=click.IntRange(min=0), metavar="N", help="Ask judges at most N times."
    ),
    "max_cost": click.option(
        "--max-cost", type=click.FloatRange(min=0), metavar="X", help="Spend at most X, by the plan's prices."
    ),
}


def judging_options(function: FunctionT) -> FunctionT:
    """``--preview``, ``--judge-cache-only`` and limits, handed over together as ``judging``."""
    return packed(function, "judging", JudgingOptions, {"preview": _PREVIEW, **_LIMITS})


def limit_options(function: FunctionT) -> FunctionT:
    """The same without ``--preview``."""
    return packed(function, "judging", functools.partial(JudgingOptions, False), _LIMITS)


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """Who judges, as the command line says."""

    plan: str | None = None
    model: str | None = None
    url: str | None = None
    key_env: str | None = None

    def judges(self, changes: dict[str, Any]) -> PlannedJudges | None:
        """The judges of the plan, or the one named here; ``None`` where neither is."""
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
    """``--plan`` and ``--judge-model``, handed over together as ``judge``."""
    return packed(
        function,
        "judge",
        JudgeOptions,
        {
            "plan": click.option("--plan", type=click.Path(), help="Take the judges of this plan."),
            "judge_model": click.option(
                "--judge-model", metavar="MODEL", help="Have this model judge, behind an OpenAI-compatible endpoint."
            ),
            "judge_url": click.option("--judge-url", metavar="URL", help="Where that endpoint is."),
            "judge_key_env": click.option(
                "--judge-key-env", metavar="NAME", help="The variable that holds its key; by default OPENAI_API_KEY."
            ),
        },
    )


def policy_of(judges: PlannedJudges, store: Path | None = None) -> JudgePolicy:
    """How they are asked; judgements are kept beside the store that is open, or that would be."""
    from ..running.plans import default_store

    return judges.rules.policy_for(store or default_store(None, judges.store), judges.folder)


def told_usage(results: Results, session: JudgeSession) -> None:
    """Tell what judging took: in the results, and to whoever watches."""
    from ..running.judging import note_usage
    from .judgements import usage_text

    note_usage(results, session.accounts)
    if session.accounts.total.judgements:
        say(f"judging: {usage_text(session.accounts.total.to_dict())}")


def session_of(judges: PlannedJudges, line: ScoringLine, *, store: Path | None = None) -> JudgeSession:
    """A session for these judges."""
    from ..core.secrets import Secrets
    from ..judge.session import JudgeSession

    tell: list[Callable[[int, int, int], None]] = []

    def progressed(done: int, asked: int) -> None:
        if not tell:
            tell.append(line.judging())
        tell[0](done, asked, session.accounts.total.failed.total())

    session = JudgeSession(policy_of(judges, store), on_progress=progressed, secrets=Secrets(judges.secrets))
    return session


def with_judge(specs: Sequence[Spec], names: Collection[str]) -> list[Spec]:
    """Specs in which metrics that name no judge are given the one there is, or the one called ``judge``.

    ``names`` are those of the resources.
    """
    from ..core.judged import JudgedMetric
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
class _Watched:
    """Another executor, with somebody told how many samples some metric could not measure."""

    others: Executor
    tell: Callable[[int], None]

    def score(self, batches: Iterable[Scorable], metrics: Sequence[BatchMetric]) -> Iterator[ScoredBatch]:
        """The outcomes of each batch."""
        from ..core.scores import Status

        for scored in self.others.score(batches, metrics):
            failed = [one.status == Status.MEASURE_FAILED for one in scored.scores if one.status.any()]
            if failed:
                self.tell(int(sum(failed[1:], failed[0]).sum()))
            yield scored


class ScoringLine:
    """The line that tells how scoring goes and, from the first question to a judge on, how judging does."""

    def __init__(self) -> None:
        self._line = ExitStack()
        self._done = self._asked = self._failed = self._lost = 0

    def __enter__(self) -> ScoringLine:
        return self

    def __exit__(self, *error: object) -> None:
        self._line.close()

    def scoring(self, total: int | None) -> Callable[[int], None]:
        """What to call with how many more samples were scored."""
        from ..reporting.progress import progress

        self._line.close()
        return self._line.enter_context(progress("scoring", total, rate=True, remark=self._lost_remark))

    def watched(self, executor: Executor) -> Executor:
        """The executor, of which the line tells how many samples could not be measured."""
        return _Watched(executor, self._add_lost)

    def _add_lost(self, more: int) -> None:
        self._lost += more

    def _lost_remark(self) -> str:
        return f"{self._lost:,} could not be measured" if self._lost else ""

    def judging(self) -> Callable[[int, int, int], None]:
        """What to call with how many judgements there are, how many were asked for, and how many failed."""
        from ..reporting.progress import progress

        self._line.close()
        line = progress("judging", lambda: self._asked, rate=True, remark=self._remark)
        advance = self._line.enter_context(line)

        def tell(done: int, asked: int, failed: int) -> None:
            more, self._done = done - self._done, done
            self._asked, self._failed = asked, failed
            advance(more)

        return tell

    def _remark(self) -> str:
        return f"{self._failed} failed" if self._failed else ""


def preview_text(found: Preview, *, as_json: bool, remarks: Sequence[str] = ()) -> str:
    """What judging would take, as text or JSON."""
    if as_json:
        return json.dumps({**found.to_dict(), "remarks": list(remarks)}, indent=2, ensure_ascii=False)
    return "\n\n".join([found.to_text(), *remarks])
