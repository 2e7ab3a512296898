"""Faults by choice: lucky seeds, repeated looks, the best of many runs. The systems are equal in all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from auepora_eval.gates import check_run
from auepora_eval.plan.gates import parse_gates
from auepora_eval.store.records import RunRecord, RunStatus
from auepora_eval.store.sweeps import SWEEP, SWEEP_TAG, SweepPlan, make_configurations, sweep_entry
from helpers.stored_runs import judged_until, sequential_test
from redteam.planted import Bench, Fault, Floats, Noted, Pair, Stopped, Unseen, answers, gold_rank, questions

TRIALS = 6
"""How often a random fault is planted for the rate of green gates."""

_NEITHER = "neither better nor worse for sure"


def metric_scores(strengths: Floats, metric: str) -> Floats:
    """The scores of a metric that these strengths give."""
    ranks = np.array([gold_rank(float(strength)) for strength in strengths])
    if metric == "recall@5":
        return (ranks <= 5).astype(np.float64)
    if metric == "mrr":
        return np.where(ranks <= 10, 1 / ranks, 0.0)
    return strengths


def _mean(values: Floats) -> float:
    return float(values.mean())


# --- lucky seeds: the best of several seeds of one system -----------------------------------------------------------

SEEDS = "lucky seeds"


def _best_seed(n: int, metric: str, seeds: int, *, worst_of_a: int = 1) -> Callable[[Bench], Pair]:
    """B is the best of several runs of the system that A is, or A is the worst of several; the others are thrown away."""

    def plant(bench: Bench) -> Pair:
        samples, hardness = questions(n), bench.hardness(n)
        first = min((metric_scores(bench.strengths(hardness), metric) for _ in range(worst_of_a)), key=_mean)
        second = max((metric_scores(bench.strengths(hardness), metric) for _ in range(seeds)), key=_mean)
        baseline = bench.scores("a", samples, metric, first)
        return Pair(baseline, bench.scores("b", samples, metric, second), checks_outputs=False)

    return plant


def _seeds_as_repeats(n: int, metric: str, seeds: int) -> Callable[[Bench], Pair]:
    """All seeds are stored as repeats of one run."""

    def plant(bench: Bench) -> Pair:
        samples, hardness = questions(n), bench.hardness(n)
        first, second = ([answers(bench.strengths(hardness)) for _ in range(seeds)] for _ in "ab")
        baseline = bench.put("a", samples, first[0], [metric], repeats=first[1:])
        return Pair(baseline, bench.put("b", samples, second[0], [metric], repeats=second[1:]))

    return plant


def _one_repeat_hidden(n: int, metric: str) -> Callable[[Bench], Pair]:
    """B has three repeats of which the worst answers are not stored."""

    def plant(bench: Bench) -> Pair:
        samples, hardness = questions(n), bench.hardness(n)
        first, second = ([bench.strengths(hardness) for _ in range(3)] for _ in "ab")
        baseline = bench.put("a", samples, answers(first[0]), [metric], repeats=[answers(one) for one in first[1:]])
        kept = np.array(second) > np.min(second, axis=0)
        stored = [
            [output if kept[repeat][place] else None for place, output in enumerate(answers(second[repeat]))]
            for repeat in range(3)
        ]
        return Pair(baseline, bench.put("b", samples, stored[0], [metric], repeats=stored[1:]))

    return plant


def _every_seed_gated(n: int, metric: str, seeds: int) -> Callable[[Bench], Pair]:
    """Each seed is stored and checked against A; the best one is checked again in the end."""

    def plant(bench: Bench) -> Pair:
        samples, hardness = questions(n), bench.hardness(n)
        baseline = bench.scores("a", samples, metric, metric_scores(bench.strengths(hardness), metric))
        columns = [metric_scores(bench.strengths(hardness), metric) for _ in range(seeds)]
        runs = [bench.scores(f"b{place}", samples, metric, column) for place, column in enumerate(columns)]
        best = int(np.argmax([_mean(column) for column in columns]))
        for place, run in enumerate(runs):
            if place != best:
                _check(bench, baseline, run, metric)
        return Pair(baseline, runs[best], checks_outputs=False)

    return plant


def _check(bench: Bench, baseline: RunRecord, run: RunRecord, metric: str) -> bool:
    """Whether ``better`` is green: one more look at the questions."""
    gates = parse_gates([f"better({metric})"])
    return check_run(bench.store, run, bench.store.results(run.run_id), gates, baseline=baseline).status == "passed"


def _seeds() -> Iterator[Fault]:
    hidden = "the other seeds are in no store; the interval is that of one run that nobody chose"
    for n, metric, seeds in (
        (100, "recall@5", 2),
        (100, "token_f1", 3),
        (100, "recall@5", 5),
        (100, "token_f1", 10),
        (200, "mrr", 10),
        (100, "recall@5", 20),
        (100, "token_f1", 40),
    ):
        yield Fault(
            SEEDS,
            f"B is the best of {seeds} seeds, the others thrown away, {n} questions, {metric}",
            (f"better({metric})",),
            _best_seed(n, metric, seeds),
            Unseen(TRIALS),
            hidden,
        )
    yield Fault(
        SEEDS,
        "A is the worst of 10 seeds, the others thrown away, 100 questions, token_f1",
        ("better(token_f1)",),
        _best_seed(100, "token_f1", 1, worst_of_a=10),
        Unseen(TRIALS),
        hidden,
    )
    yield Fault(
        SEEDS,
        "B is the best and A the worst of 5 seeds, 100 questions, recall@5",
        ("better(recall@5)",),
        _best_seed(100, "recall@5", 5, worst_of_a=5),
        Unseen(TRIALS),
        hidden,
    )
    yield Fault(
        SEEDS,
        "B is the best of 10 seeds, better by a margin of .05, 100 questions, token_f1",
        ("better(token_f1, by=0.05)",),
        _best_seed(100, "token_f1", 10),
        Unseen(TRIALS),
        hidden,
    )
    for seeds, metric in ((3, "recall@5"), (3, "token_f1"), (5, "mrr")):
        yield Fault(
            SEEDS,
            f"{seeds} seeds stored as repeats of each run, 60 questions, {metric}",
            (f"better({metric})",),
            _seeds_as_repeats(60, metric, seeds),
            Stopped("inconclusive", _NEITHER),
            "a question has the mean over its repeats, so that no seed can be chosen",
        )
    yield Fault(
        SEEDS,
        "the worst of three repeats is not stored for each of 60 questions, recall@5",
        ("better(recall@5)",),
        _one_repeat_hidden(60, "recall@5"),
        Stopped("failed", "below 0.95"),
        "every repeat must have its output: those that are missing count as failed",
    )
    for seeds, metric in ((5, "recall@5"), (8, "token_f1")):
        yield Fault(
            SEEDS,
            f"all of {seeds} seeds stored and gated, the best one again, 100 questions, {metric}",
            (f"better({metric})",),
            _every_seed_gated(100, metric, seeds),
            Noted(f"decided {seeds - 1} comparisons before", trials=2),
            "each gate is recorded with the dataset; how many were about one change, the user knows",
        )


# --- repeated looks: the same questions again and again -------------------------------------------------------------

LOOKS = "repeated looks"


def _grow_until_green(metric: str, sizes: Sequence[int]) -> Callable[[Bench], Pair]:
    """Questions are added until the gate is green; the last look is reported."""

    def plant(bench: Bench) -> Pair:
        n = max(sizes)
        samples, hardness = questions(n), bench.hardness(n)
        columns = [metric_scores(bench.strengths(hardness), metric) for _ in "ab"]
        for size in sizes:
            baseline, run = (
                bench.scores(name, samples[:size], metric, column[:size])
                for name, column in zip("ab", columns, strict=True)
            )
            if _check(bench, baseline, run, metric):
                break
        return Pair(baseline, run, checks_outputs=False)

    return plant


def _rerun_until_green(n: int, metric: str, times: int) -> Callable[[Bench], Pair]:
    """B is run again on the same questions until its gate is green."""

    def plant(bench: Bench) -> Pair:
        samples, hardness = questions(n), bench.hardness(n)
        baseline = bench.scores("a", samples, metric, metric_scores(bench.strengths(hardness), metric))
        for time in range(times):
            run = bench.scores(f"b{time}", samples, metric, metric_scores(bench.strengths(hardness), metric))
            if _check(bench, baseline, run, metric):
                break
        return Pair(baseline, run, checks_outputs=False)

    return plant


def _judged_part(n: int, judged: int, metric: str) -> Callable[[Bench], Pair]:
    """B is judged on the first questions only, and looked at before the others are."""

    def plant(bench: Bench) -> Pair:
        samples = questions(n)
        values = np.full(n, 0.2)
        baseline = judged_until(bench.store, "a", samples, metric, values[:n], None)
        run = judged_until(bench.store, "b", samples, metric, np.full(judged, 0.9), None)
        return Pair(baseline, run, checks_outputs=False)

    return plant


def _looked_early(
    n: int, looks: int, *, against_other: bool = False, verdict: str = "inconclusive"
) -> Callable[[Bench], Pair]:
    """A sequential test that has not ended, or that is about another run."""

    def plant(bench: Bench) -> Pair:
        samples = questions(n)
        baseline = judged_until(bench.store, "a", samples, "token_f1", np.full(n, 0.2), None)
        against = "run_of_another_kind" if against_other else baseline.run_id
        reason = "boundary" if verdict != "inconclusive" else None
        test = sequential_test(against, verdict=verdict, looks=looks, n=n, reason=reason)
        run = judged_until(bench.store, "b", samples, "token_f1", np.full(n * looks // 20, 0.9), test)
        return Pair(baseline, run, checks_outputs=False)

    return plant


def _not_ended(status: str) -> Callable[[Bench], Pair]:
    """The baseline or the run is looked at while it is running."""

    def plant(bench: Bench) -> Pair:
        samples, hardness = questions(60), bench.hardness(60)
        first, second = (answers(bench.strengths(hardness, skill)) for skill in (0.0, 1.5))
        baseline = bench.put("a", samples, first, ["recall@5"])
        run = bench.put("b", samples, second, ["recall@5"])
        late = baseline if status.startswith("A") else run
        state = RunStatus.RUNNING if "running" in status else RunStatus.INTERRUPTED
        bench.execute("UPDATE eval_runs SET status = ? WHERE run_id = ?", state.value, late.run_id)
        return Pair(baseline, run)

    return plant


def _many_metrics(n: int, count: int) -> tuple[tuple[str, ...], Callable[[Bench], Pair]]:
    """The gate asks for any of many metrics: all are written as gates."""
    metrics = [f"precision@{k}" for k in range(1, count + 1)]
    gates = tuple(f"better({metric})" for metric in metrics)

    def plant(bench: Bench) -> Pair:
        samples, hardness = questions(n), bench.hardness(n)
        baseline = bench.put("a", samples, answers(bench.strengths(hardness)), metrics)
        return Pair(baseline, bench.put("b", samples, answers(bench.strengths(hardness)), metrics))

    return gates, plant


def _looks() -> Iterator[Fault]:
    for metric, sizes in (("recall@5", (40, 80, 120)), ("token_f1", (30, 50, 70, 90, 110))):
        yield Fault(
            LOOKS,
            f"questions added until the gate is green, {len(sizes)} looks up to {sizes[-1]}, {metric}",
            (f"better({metric})",),
            _grow_until_green(metric, sizes),
            Unseen(trials=4),
            "each look is at another dataset, with another fingerprint; docs/statistics/early-stopping.md has the test",
        )
    for n, metric, times in ((60, "recall@5", 5), (60, "token_f1", 8), (40, "mrr", 12)):
        yield Fault(
            LOOKS,
            f"B run again until its gate is green, at most {times} times, {n} questions, {metric}",
            (f"better({metric})",),
            _rerun_until_green(n, metric, times),
            Unseen(trials=4),
            "the gate counts the decisions of the dataset, and does not know which were about one change",
        )
    for n, judged in ((100, 20), (100, 50), (200, 150)):
        yield Fault(
            LOOKS,
            f"a look after {judged} of {n} judged questions without a design, token_f1",
            ("better(token_f1)",),
            _judged_part(n, judged, "token_f1"),
            Stopped("inconclusive", "not sequentially valid"),
            "what is not judged yet is counted apart",
        )
    yield Fault(
        LOOKS,
        "a look after 50 of 100 judged questions, low(token_f1) >= 0.5",
        ("low(token_f1) >= 0.5",),
        _judged_part(100, 50, "token_f1"),
        Stopped("inconclusive", "no sequential design fixed this gate"),
        "an interval of a part that nobody fixed before decides nothing",
    )
    for looks in (3, 7):
        yield Fault(
            LOOKS,
            f"look {looks} of 20 of a sequential test that goes on, better(token_f1)",
            ("better(token_f1)",),
            _looked_early(200, looks),
            Stopped("inconclusive", "is not decided yet"),
            "the design and its looks are stored before the first call",
        )
    yield Fault(
        LOOKS,
        "a sequential test that ended better, against another run than A",
        ("better(token_f1)",),
        _looked_early(200, 7, against_other=True, verdict="better"),
        Stopped("inconclusive", "not sequentially valid"),
        "the test names the run that it is about",
    )
    for status, words in (
        ("B is running", "is still running"),
        ("A is interrupted", "is interrupted; resume it first"),
    ):
        yield Fault(
            LOOKS,
            f"{status}, 60 questions, better(recall@5)",
            ("better(recall@5)",),
            _not_ended(status),
            Stopped("refused", words),
            "the status of a run is checked before anything is compared",
        )
    for count in (5, 10):
        gates, plant = _many_metrics(60, count)
        yield Fault(
            LOOKS,
            f"{count} metrics at once, each with a gate, 60 questions",
            gates,
            plant,
            Stopped("inconclusive", _NEITHER),
            "the metrics whose verdict a gate uses share 5 %",
        )


# --- best of many runs: configurations to pick from ------------------------------------------------------------------

MANY = "best of many runs"


def _sweep(n: int, metric: str, count: int, *, tampered: str = "") -> Callable[[Bench], Pair]:
    """Equal configurations of a stored sweep, of which the best is B; A is a run from before."""

    def plant(bench: Bench) -> Pair:
        samples, hardness = questions(n), bench.hardness(n)
        baseline = bench.scores("a", samples, metric, metric_scores(bench.strengths(hardness), metric))
        settings: list[Mapping[str, Any]] = [{"system.args.seed": place} for place in range(count)]
        sweep = SweepPlan(
            tuple(make_configurations(settings)), metric, None, None, is_grid=False, name="s", eliminates=False
        )
        columns = [metric_scores(bench.strengths(hardness), metric) for _ in range(count)]
        runs = []
        for place, column in enumerate(columns):
            plan = {SWEEP: sweep_entry(sweep, place)} if not tampered else {}
            run = bench.scores(f"s{place}", samples, metric, column, plan=plan)
            if not tampered:
                bench.store.tag(run.run_id, SWEEP_TAG + sweep.name)
            runs.append(run)
        best = int(np.argmax([_mean(column) for column in columns]))
        if tampered == "deleted":
            bench.store.delete([run.run_id for place, run in enumerate(runs) if place != best])
        return Pair(baseline, bench.store.get(runs[best].run_id), checks_outputs=False)

    return plant


def _baseline_that_failed(bench: Bench) -> Pair:
    """Without --against the worst run is the newest earlier one; it failed its gates, and is no baseline."""
    samples, hardness = questions(80), bench.hardness(80)
    for skill in (0.8, -0.8):
        run = bench.put("nightly", samples, answers(bench.strengths(hardness, skill)), ["recall@5"])
    bench.store.tag(run.run_id, "gates-failed")
    return Pair(None, bench.put("nightly", samples, answers(bench.strengths(hardness)), ["recall@5"]))


def _no_baseline(bench: Bench) -> Pair:
    """The run is the first of its name: the good one was stored under another name."""
    samples, hardness = questions(60), bench.hardness(60)
    bench.put("nightly", samples, answers(bench.strengths(hardness, 1.0)), ["recall@5"])
    return Pair(None, bench.put("nightly-2", samples, answers(bench.strengths(hardness)), ["recall@5"]))


def _many() -> Iterator[Fault]:
    for n, metric, count in ((100, "recall@5", 4), (100, "token_f1", 12), (60, "mrr", 16)):
        yield Fault(
            MANY,
            f"the best of {count} equal configurations of a sweep, {n} questions, better({metric})",
            (f"better({metric})",),
            _sweep(n, metric, count),
            Stopped("inconclusive", _NEITHER),
            "a run of a sweep names the others: all share the 5 %",
        )
    for gate, count, words in (
        ("low(token_f1) >= 0.5", 12, "the lower end of token_f1"),
        ("low(recall@5) >= 0.45", 6, "the lower end of recall@5"),
    ):
        metric = gate.removeprefix("low(").partition(")")[0]
        yield Fault(
            MANY,
            f"the best of {count} equal configurations of a sweep, 100 questions, {gate}",
            (gate,),
            _sweep(100, metric, count),
            Stopped("failed", words),
            "the interval of a picked run allows for the choice",
        )
    for gate, metric, count in (("delta(token_f1) > 0", "token_f1", 6),):
        yield Fault(
            MANY,
            f"the best of {count} equal configurations of a sweep, 60 questions, {gate}",
            (gate,),
            _sweep(60, metric, count),
            Stopped("inconclusive", f"picked among {count} configurations"),
            "the interval is that of the comparison, which all configurations share",
        )
    yield Fault(
        MANY,
        "the best of 12 equal configurations of a sweep, 60 questions, better(recall@5, by=0.001)",
        ("better(recall@5, by=0.001)",),
        _sweep(60, "recall@5", 12),
        Stopped("inconclusive", "picked among 12 configurations"),
        "the interval is that of the comparison, which all configurations share",
    )
    for count, metric, tampered in (
        (5, "recall@5", "plain"),
        (12, "token_f1", "plain"),
        (12, "mrr", "deleted"),
        (24, "recall@5", "deleted"),
    ):
        kept = "the other runs deleted" if tampered == "deleted" else "stored as plain runs"
        yield Fault(
            MANY,
            f"the best of {count} equal configurations, {kept}, 100 questions, better({metric})",
            (f"better({metric})",),
            _sweep(100, metric, count, tampered=tampered),
            Unseen(TRIALS),
            "runs that nobody declared as a sweep are not known to be alternatives; auepora sweep declares them",
        )
    for count, metric in ((4, "token_f1"), (8, "recall@5"), (12, "token_f1")):
        yield Fault(
            MANY,
            f"the best of {count} equal configurations, each compared with A before, 100 questions, {metric}",
            (f"better({metric})",),
            _every_seed_gated(100, metric, count),
            Noted(f"decided {count - 1} comparisons before", trials=1),
            "each comparison is recorded with the dataset; what belongs together, the user knows",
        )
    yield Fault(
        MANY,
        "the newest earlier run failed its gates and is worse than B, no --against, 80 questions",
        ("better(recall@5)",),
        _baseline_that_failed,
        Stopped("failed", "is worse"),
        "a run that failed its gates is no baseline: the one before it is",
    )
    yield Fault(
        MANY,
        "the only earlier run has another name, no --against, 60 questions",
        ("better(recall@5)",),
        _no_baseline,
        Stopped("inconclusive", "there is no earlier finished run"),
        "without a baseline nothing is better",
    )


FAULTS: list[Fault] = [*_seeds(), *_looks(), *_many()]
