"""The same two runs in other tools, and how often each tool is right in four situations.

    python -m benchmarks.compared [--quick]

Prints Markdown for ``docs/statistics/compared.md``. Each tool gets the scores per question that it would store itself
and decides with its own functions: MLflow's ``compare_evaluations``, the comparison of runs of TruLens, Student's test
of ``ranx.compare``, and ours. Tools that are not installed are left out.
"""

import argparse
import contextlib
import io
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from auepora_eval.cli.main import main as auepora
from auepora_eval.compare.analysis import compute_comparisons
from auepora_eval.compare.pairing import MetricMeta, MetricPair
from auepora_eval.compare.runs import compare_metrics
from auepora_eval.compare.types import ComparisonInput, MetricComparison
from auepora_eval.core.reduce import Mean
from auepora_eval.core.scores import Scores, Status
from auepora_eval.store.runs import RunStore

from .peers import is_installed, print_missing_peers

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Finding:
    """What a tool says of one metric: the difference, its interval, the p-value, and what follows."""

    difference: float
    low: float
    high: float
    p_value: float | None
    decision: str

    def row(self) -> str:
        """The cells of a Markdown table."""
        p_value = "–" if self.p_value is None or np.isnan(self.p_value) else f"{self.p_value:.4f}"
        interval = "–" if np.isnan(self.low) else f"{self.low:+.3f} to {self.high:+.3f}"
        return f"{self.difference:+.3f} | {interval} | {p_value} | {self.decision}"


Tool = Callable[[Floats, Floats, Ints | None], list[Finding]]
"""Compares the scores of two runs: questions by metrics, NaN where an answer failed; and the groups of questions."""


def by_p_value(difference: float, p_value: float) -> str:
    """What a reader concludes from a p-value at 5 %."""
    if not p_value < ALPHA:
        return "no difference shown"
    return "better" if difference > 0 else "worse"


def answered(first: Floats, second: Floats) -> Iterator[tuple[Floats, Floats]]:
    """The scores of each metric on the questions that both runs answered."""
    for a, b in zip(first.T, second.T, strict=True):
        both = ~(np.isnan(a) | np.isnan(b))
        yield a[both], b[both]


def with_mlflow(first: Floats, second: Floats, groups: Ints | None) -> list[Finding]:
    """MLflow pairs the rows that have a value in both runs."""
    from mlflow.genai.evaluation.comparison.paired_comparison import _compare_paired_values

    found = []
    for a, b in answered(first, second):
        result = _compare_paired_values("metric", a, b, value_type="numeric")
        assert result.diff is not None
        decision = by_p_value(result.diff, float(result.p_value))
        found.append(Finding(result.diff, float(result.ci_low), float(result.ci_high), result.p_value, decision))
    return found


def with_trulens(first: Floats, second: Floats, groups: Ints | None) -> list[Finding]:
    """TruLens drops sides without a score, and tests the rest with sign flips and a percentile bootstrap."""
    from trulens.core.utils.stats import bootstrap_ci, paired_permutation_pvalue

    found = []
    for a, b in answered(first, second):
        differences = b - a
        low, high = bootstrap_ci(differences)
        p_value = paired_permutation_pvalue(differences)
        difference = float(differences.mean())
        found.append(Finding(difference, low, high, p_value, by_p_value(difference, p_value)))
    return found


def with_ranx(first: Floats, second: Floats, groups: Ints | None) -> list[Finding]:
    """ranx counts a query without results as 0; its default level is 1 %, here 5 %."""
    from ranx.statistical_tests import paired_student_t_test

    found = []
    for a, b in zip(np.nan_to_num(first).T, np.nan_to_num(second).T, strict=True):
        p_value, _ = paired_student_t_test(a, b, ALPHA)
        difference = float((b - a).mean())
        found.append(Finding(difference, np.nan, np.nan, float(p_value), by_p_value(difference, float(p_value))))
    return found


def with_ours(first: Floats, second: Floats, groups: Ints | None) -> list[Finding]:
    """The verdicts of ``auepora compare``; all metrics are primary. A failed answer counts as the worst score."""

    def question(name: str, a: Floats, b: Floats) -> ComparisonInput:
        binary = bool(np.isin(np.nan_to_num(np.concatenate([a, b])), (0.0, 1.0)).all())
        meta = MetricMeta(Mean(), (0.0, 1.0), binary=binary)
        pair = MetricPair(name, meta, Scores.of(np.nan_to_num(a)), Scores.of(np.nan_to_num(b)))
        return ComparisonInput(name, meta, lambda: pair, "")

    columns = zip(first.T, second.T, strict=True)
    inputs = [question(str(place), a, b) for place, (a, b) in enumerate(columns)]
    return [_our_finding(found) for found in compute_comparisons(inputs, groups)]


def _our_finding(found: MetricComparison) -> Finding:
    low, high = (np.nan, np.nan) if found.interval is None else found.interval[:2]
    decision = found.verdict if found.verdict in ("better", "worse") else "no difference shown"
    assert found.delta is not None
    return Finding(found.delta, float(low), float(high), found.p_adjusted, str(decision))


TOOLS: dict[str, tuple[str, Tool]] = {
    "MLflow": ("mlflow.genai.evaluation.comparison", with_mlflow),
    "TruLens": ("trulens", with_trulens),
    "ranx": ("ranx", with_ranx),
    "auepora": ("auepora_eval", with_ours),
}


# --- four situations, in which the right answer is known -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Situation:
    """Draws of two runs, and which decision counts."""

    name: str
    draw: Callable[[np.random.Generator], tuple[Floats, Floats, Ints | None]]
    counted: Callable[[list[Finding]], bool]
    limit: str


def any_difference(found: list[Finding]) -> bool:
    """Whether a tool shows a difference of any metric."""
    return any(one.decision != "no difference shown" for one in found)


def finds_worse(found: list[Finding]) -> bool:
    """Whether a tool finds that the second run is worse."""
    return found[0].decision == "worse"


def failing_run(rng: np.random.Generator) -> tuple[Floats, Floats, Ints | None]:
    """The second run fails on the 30 hardest of 100 questions, and is as good on the others."""
    ability = np.sort(rng.random(100))
    first, second = (np.clip(ability + rng.normal(0, 0.15, 100), 0, 1) for _ in range(2))
    second[:30] = np.nan
    return first[:, None], second[:, None], None


def grouped_questions(rng: np.random.Generator) -> tuple[Floats, Floats, Ints | None]:
    """Twenty documents with five questions each, whose differences go together; no difference on average."""
    groups = np.repeat(np.arange(20), 5)
    shift = rng.normal(0, 0.15, 20)[groups] + rng.normal(0, 0.1, 100)
    first = np.clip(0.5 + rng.normal(0, 0.1, 100), 0, 1)
    return first[:, None], (first + shift)[:, None], groups


def many_metrics(rng: np.random.Generator) -> tuple[Floats, Floats, Ints | None]:
    """Ten metrics of 100 questions, none of which differs."""
    first, second = (np.clip(0.5 + rng.normal(0, 0.2, (100, 10)), 0, 1) for _ in range(2))
    return first, second, None


def skewed_scores(rng: np.random.Generator) -> tuple[Floats, Floats, Ints | None]:
    """Fifty questions: one in ten gains .40, the others lose .045; the mean difference is 0."""
    differences = np.where(rng.random(50) < 0.045 / 0.445, 0.4, -0.045)
    return np.full((50, 1), 0.5), 0.5 + differences[:, None], None


SITUATIONS = (
    Situation("B fails on the 30 hardest of 100 questions: finds that B is worse", failing_run, finds_worse, "high"),
    Situation("groups of five questions, no difference: shows one", grouped_questions, any_difference, "5 %"),
    Situation("ten metrics, no difference: shows one", many_metrics, any_difference, "5 %"),
    Situation("skewed differences, none on average: shows one", skewed_scores, any_difference, "5 %"),
)


def print_situations(tools: dict[str, Tool], draws: int) -> None:
    """Print how often each tool decides as named, in each situation."""
    print(f"| {draws:,} draws | should be | {' | '.join(tools)} |")
    print(f"|---|---|{'---|' * len(tools)}")
    for place, situation in enumerate(SITUATIONS):
        rng = np.random.default_rng(place)
        counts = dict.fromkeys(tools, 0)
        for _ in range(draws):
            first, second, groups = situation.draw(rng)
            for name, tool in tools.items():
                counts[name] += situation.counted(tool(first, second, groups))
        rates = " | ".join(f"{count / draws:.1%}" for count in counts.values())
        print(f"| {situation.name} | {situation.limit} | {rates} |")


# --- the two runs of the demo ----------------------------------------------------------------------------------------


def print_demo(tools: dict[str, Tool], names: tuple[str, ...]) -> None:
    """Print what each tool says of the two runs of ``auepora demo``; our verdicts are those of ``auepora compare``."""
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            _run_demo(folder)
        with RunStore.open(Path(folder, "runs.sqlite"), create=False) as store:
            second, first = store.runs()[:2]
            compared = compare_metrics(store, first, second, primary=names)
            scores = [_columns(store, record.run_id, names) for record in (first, second)]
    scored = ~(np.isnan(scores[0]) & np.isnan(scores[1])).all(axis=1)
    findings = {name: tool(scores[0][scored], scores[1][scored], None) for name, tool in tools.items()}
    by_name = {found.name: found for found in compared.metrics}
    findings["auepora"] = [_our_finding(by_name[name]) for name in names]
    print("| tool | metric | difference | 95 % interval | p | conclusion |\n|---|---|---|---|---|---|")
    for tool_name, found in findings.items():
        for name, finding in zip(names, found, strict=True):
            print(f"| {tool_name} | `{name}` | {finding.row()} |")


def _run_demo(folder: str) -> None:
    with contextlib.suppress(SystemExit):
        auepora(["demo", folder])


def _columns(store: RunStore, run_id: str, names: tuple[str, ...]) -> Floats:
    columns = []
    for name in names:
        scores: Any = store.result(run_id, name).scores
        columns.append(np.where(scores.status == Status.SCORED, scores.values, np.nan))
    return np.column_stack(columns)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="an eighth of the draws")
    draws = 50 if parser.parse_args().quick else 400
    print_missing_peers(*(package for package, _ in TOOLS.values()))
    tools = {name: tool for name, (package, tool) in TOOLS.items() if is_installed(package)}
    print_demo(tools, ("recall@5", "mrr@10", "token_f1"))
    print()
    print_situations(tools, draws)


if __name__ == "__main__":
    main()
