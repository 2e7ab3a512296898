"""What plants faults: systems with known quality on generated questions, their stored runs, and the checks of a user."""

from __future__ import annotations

import sqlite3
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.compare import compare_runs
from auepora_eval.compare.runs import Leaderboard
from auepora_eval.compare.short import comparison_short
from auepora_eval.core.metrics_base import Metric
from auepora_eval.core.registry import Spec
from auepora_eval.errors import AueporaError, AueporaWarning
from auepora_eval.gates import GateReport, check_run
from auepora_eval.io.sample_sets import SampleSet
from auepora_eval.plan.gates import parse_gates
from auepora_eval.report.gate_table import gates_table
from auepora_eval.runs.scoring import rescore
from auepora_eval.runs.verify import verify_run
from auepora_eval.store.records import RunRecord, RunStatus, StoredOutput
from auepora_eval.store.runs import RunStore
from helpers.new_stores import quick_new_stores
from helpers.stored_runs import scored

Floats = npt.NDArray[np.float64]
Outputs = Sequence[SystemOutputs | None]
Status = Literal["passed", "failed", "inconclusive", "refused"]

WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "jetty")
"""The words of every reference answer."""
DEPTH = 12
"""The rank of the gold document is 1 for the strongest answer, and this for the weakest."""
_PHI = NormalDist().cdf

# --- rows ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stopped:
    """The gate is not green, and its reason has these words."""

    status: Literal["failed", "inconclusive", "refused"]
    words: str
    is_detectable = True


@dataclass(frozen=True)
class FoundByVerify:
    """``auepora verify`` exits with 1, and names the difference with these words."""

    words: str
    is_detectable = True


@dataclass(frozen=True)
class Noted:
    """The gate may be green; the first screen of the gate or of the comparison has these words."""

    words: str
    trials: int = 1
    is_detectable = False


@dataclass(frozen=True)
class Unseen:
    """Nothing in the data reveals it."""

    trials: int = 1
    is_detectable = False


Known = Stopped | FoundByVerify | Noted | Unseen


@dataclass(frozen=True)
class Pair:
    """What a user compares: the baseline, the run, and the options of ``auepora gate``."""

    baseline: RunRecord | None
    run: RunRecord
    other_dataset: bool = False
    samples: SampleSet | None = None
    checks_outputs: bool = True
    """Whether the runs have outputs, so that they can be verified; simulated scores have none."""


@dataclass(frozen=True)
class Fault:
    """One planted fault."""

    family: str
    name: str
    """The fault with its size, the number of questions and the metric; the seed follows from it."""
    gates: tuple[str, ...]
    plant: Callable[[Bench], Pair]
    known: Known
    why: str
    """Why it can be known, or why not."""


# --- systems of known quality ----------------------------------------------------------------------------------------


def questions(n: int, *, first: int = 0, **changes: Any) -> list[EvaluationSample]:
    """Questions with one relevant document and a reference answer of ten words each."""
    reference = " ".join(WORDS)
    return [
        EvaluationSample(
            f"q{number:04}",
            f"question {number}?",
            relevant_docs=[Document(f"gold{number}", f"The text of document {number}.")],
            reference_answer=Response(reference),
            **changes,
        )
        for number in range(first, first + n)
    ]


def answer_text(strength: float) -> str:
    """An answer that has as many words of the reference as its strength says, and other words besides."""
    right = round(len(WORDS) * strength)
    return " ".join([*WORDS[:right], *(f"other{place}" for place in range(len(WORDS) - right))])


def gold_rank(strength: float) -> int:
    """The rank of the gold document."""
    return 1 + int((1 - strength) * DEPTH)


def answer(number: int, strength: float, *, depth: int = 10) -> SystemOutputs:
    """The output of a system for a question: the better it is, the higher the gold document stands."""
    rank = gold_rank(strength)
    ids = [f"gold{number}" if place == rank else f"d{number}-{place}" for place in range(1, depth + 1)]
    hits = [
        RetrievedDocument(Document(name, f"text of {name}"), 1.0 / place, place) for place, name in enumerate(ids, 1)
    ]
    seconds = {"end_to_end": round(2.0 - strength, 6)}
    return SystemOutputs(hits, Response(answer_text(strength)), timings=seconds)


def answers(strengths: Sequence[float] | Floats, *, first: int = 0, depth: int = 10) -> list[SystemOutputs]:
    """The outputs of a system for all questions."""
    return [answer(number, float(strength), depth=depth) for number, strength in enumerate(strengths, first)]


def quality(critic: object, **options: object) -> Spec:
    """A judged metric that a user writes: the judge replies with a score from 1 to 5."""
    inputs = ["question", "answer"]
    given = {"name": "quality", "prompt": "Is it right?", "inputs": inputs, "scale": "1-5", "critic": critic, **options}
    return {"judge_metric": given}


class Bench:
    """An own store, and a generator of random numbers that only this row uses."""

    def __init__(self, store: RunStore, folder: Path, seed: int) -> None:
        self.store = store
        self.folder = folder
        self.rng = np.random.default_rng(seed)

    @cached_property
    def path(self) -> Path:
        """The file of the store."""
        return self.folder / "runs.sqlite"

    def hardness(self, n: int) -> Floats:
        """What all systems share on each question; a low value is a hard question."""
        return self.rng.normal(size=n)

    def strengths(self, hardness: Floats, skill: float = 0.0, *, shared: float = 0.6) -> Floats:
        """The strengths of one system on questions, between 0 and 1; ``shared`` is the correlation of two systems."""
        own = self.rng.normal(size=len(hardness))
        latent = skill + np.sqrt(shared) * hardness + np.sqrt(1 - shared) * own
        return np.array([_PHI(value) for value in latent])

    def put(
        self,
        name: str,
        samples: Sequence[EvaluationSample],
        outputs: Outputs,
        metrics: Sequence[Spec | Metric],
        *,
        plan: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
        status: RunStatus = RunStatus.FINISHED,
        repeats: Sequence[Outputs] = (),
        conventions: str | None = None,
        tags: Sequence[str] = (),
    ) -> RunRecord:
        """A run with these outputs, scored from them; an output that is ``None`` never came."""
        named = [metric for metric in metrics if isinstance(metric, str)]
        stored_plan = {"metrics": named, "system": {"python": "rag:Rag"}, "run": {"top_k": 10}, **(plan or {})}
        every = [outputs, *repeats]
        record = self.store.create_run(
            name, samples, dataset_name="questions", plan=stored_plan, config=config, repeats=len(every), tags=tags
        )
        for repeat, given in enumerate(every):
            rows = [
                StoredOutput(place, repeat, samples[place].sample_id, output)
                for place, output in enumerate(given)
                if output is not None
            ]
            self.store.append(record.run_id, rows)
        rescore(record, metrics, incomplete=True, conventions=conventions, store=self.store)
        self.store.finish(record.run_id, status)
        return self.store.get(record.run_id)

    def scores(
        self, name: str, samples: Sequence[EvaluationSample], metric: str, values: Floats, **options: Any
    ) -> RunRecord:
        """A run with these scores of a metric and without outputs, for rates over many trials."""
        return scored(self.store, name, samples, {metric: values}, **options)

    def execute(self, statement: str, *values: object) -> None:
        """Change the file of the store behind its back; at least one row must change."""
        with closing(sqlite3.connect(self.path)) as connection, connection:
            assert connection.execute(statement, values).rowcount > 0, statement

    def select(self, statement: str) -> object:
        """The first value that a statement on the file of the store finds."""
        with closing(sqlite3.connect(self.path)) as connection:
            (value,) = connection.execute(statement).fetchone()
        return value

    def pair(
        self, n: int, metric: str, *, skill: float = 0.0, plan: Mapping[str, Any] | None = None
    ) -> tuple[list[EvaluationSample], Floats, Floats, Pair]:
        """Questions, the strengths of two systems, and their runs; the second system has that much more skill."""
        samples, hardness = questions(n), self.hardness(n)
        first, second = self.strengths(hardness), self.strengths(hardness, skill)
        baseline = self.put("a", samples, answers(first), [metric], plan=plan)
        run = self.put("b", samples, answers(second), [metric], plan=plan)
        return samples, first, second, Pair(baseline, run)


# --- what a user sees ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What the commands of a user say."""

    status: Status
    """The outcome of the gates."""
    reason: str
    """All reasons, or the error."""
    verify: str = ""
    """The differences that ``auepora verify`` found in either run."""
    screen: str = field(default="", repr=False)
    """The first screens of the gate and of the comparison."""

    @property
    def is_green(self) -> bool:
        """Whether the gates pass and both runs are what is recomputed."""
        return self.status == "passed" and not self.verify


def check(bench: Bench, pair: Pair, gates: Iterable[str], *, with_screen: bool = False) -> Outcome:
    """``auepora gate`` and ``auepora verify`` of both runs, by the functions that the commands call."""
    store = bench.store
    screen = ""
    try:
        report = _gate(bench, pair, gates)
        status: Status = report.status
        reason = "; ".join(outcome.reason for outcome in report.outcomes)
        if with_screen:
            screen = "\n".join([gates_table(report), *report.warnings, _comparison_screen(store, pair)])
    except AueporaError as error:
        status, reason = "refused", str(error)
    differences = []
    for record in (pair.baseline, pair.run) if pair.checks_outputs else ():
        if record is not None:
            differences += [str(found) for found in verify_run(store, store.get(record.run_id)).differences]
    return Outcome(status, reason, "; ".join(differences), screen)


def _gate(bench: Bench, pair: Pair, gates: Iterable[str]) -> GateReport:
    run = bench.store.get(pair.run.run_id)
    return check_run(
        bench.store,
        run,
        bench.store.results(run.run_id),
        parse_gates(list(gates)),
        baseline=None if pair.baseline is None else bench.store.get(pair.baseline.run_id),
        strict=pair.baseline is not None,
        other_dataset=pair.other_dataset,
        samples=pair.samples,
    )


def _comparison_screen(store: RunStore, pair: Pair) -> str:
    if pair.baseline is None:
        return ""
    report = compare_runs(
        pair.baseline.run_id,
        pair.run.run_id,
        store=store,
        other_dataset=pair.other_dataset,
        samples=pair.samples,
    )
    records = [pair.baseline, pair.run]
    board = Leaderboard.of_pair(report, [record.name for record in records])
    return comparison_short(store, records, board, report=report).text()


# --- the outcome of a row --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowOutcome:
    """The outcome of a row, as the page has it."""

    text: str
    green: int
    trials: int
    problem: str = ""
    """What differs from what the row says; empty if nothing does."""


@contextmanager
def planted(fault: Fault, trial: int = 0) -> Iterator[tuple[Bench, Pair]]:
    """A store with the fault in it."""
    with new_bench(zlib.crc32(f"{fault.family}: {fault.name}".encode()) + trial) as bench:
        yield bench, fault.plant(bench)


@contextmanager
def new_bench(seed: int) -> Iterator[Bench]:
    """An empty store in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", AueporaWarning)
        with quick_new_stores(), RunStore.open(Path(folder) / "runs.sqlite") as store:
            yield Bench(store, Path(folder), seed)


def run_trial(fault: Fault, trial: int = 0) -> Outcome:
    """Plant a fault, and check it."""
    with planted(fault, trial) as (bench, pair):
        return check(bench, pair, fault.gates, with_screen=isinstance(fault.known, Noted))


EXIT_CODES: Mapping[Status, int] = {"passed": 0, "failed": 1, "refused": 2, "inconclusive": 3}


def run_row(fault: Fault) -> RowOutcome:
    """The outcome of a row, and whether it is what the row says."""
    known = fault.known
    trials = known.trials if isinstance(known, Noted | Unseen) else 1
    outcomes = [run_trial(fault, trial) for trial in range(trials)]
    first = outcomes[0]
    green = sum(outcome.is_green for outcome in outcomes)
    gate = f"gate {first.status}, exit {EXIT_CODES[first.status]}"
    problem = ""
    if isinstance(known, Stopped):
        text = f"{gate}: “{known.words}”"
        if first.status != known.status or known.words not in first.reason:
            problem = f"{first.status}: {first.reason}"
    elif isinstance(known, FoundByVerify):
        text = f"verify exit 1: “{known.words}”; {gate}"
        if known.words not in first.verify:
            problem = f"verify: {first.verify or 'no difference'}"
    else:
        text = f"green in {green} of {trials}"
        if isinstance(known, Noted):
            text += f"; the first screen says “{known.words}”"
            if any(known.words not in outcome.screen for outcome in outcomes):
                problem = f"not on the first screen: {first.screen}"
    if known.is_detectable and green:
        problem = f"a green gate for a detectable fault: {first.reason}"
    return RowOutcome(text, green, trials, problem)
