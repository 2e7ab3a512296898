"""Every benchmark gives the published values on its example, and says how its numbers differ from ours."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.bench.entries import Benchmark, Part, all_benchmarks, entry_names, get_benchmark
from auepora_eval.bench.scoring import OURS, Scored, check_example, fixed_judges, score_example, score_loaded
from auepora_eval.core.metrics_base import BatchMetric
from auepora_eval.core.reduce import Mean
from auepora_eval.core.registry import metric, use_resources
from auepora_eval.core.types import Response, SystemOutputs, TargetCategory
from auepora_eval.errors import PlanError
from auepora_eval.plan.resources import used_resources

pytestmark = [
    pytest.mark.usefixtures("jieba"),
    pytest.mark.filterwarnings("ignore::auepora_eval.errors.AueporaWarning"),
]

EXAMPLES = [
    pytest.param(benchmark, split, example, id=f"{benchmark.name}-{split}-{example}")
    for benchmark in all_benchmarks()
    for split, part in benchmark.parts.items()
    for example in part.examples
]
ROWS = (
    "TruEra RAG triad", "LangChain Bench.", "Databricks Eval", "RAGAs", "RECALL", "ARES", "RGB", "MultiHop-RAG", "CRUD-RAG",
    "MedRAG (MIRAGE)", "FeB4RAG", "CDQA", "DomainRAG", "ReEval", "FiD-Light, Diversity Reranker", "HotpotQA, 2Wiki, MuSiQue", "NQ-open",
    "TriviaQA, PopQA", "ASQA, ELI5, QAMPARI (ALCE)", "BEIR", "MTRAG", "CLAPNQ", "TREC RAG 24", "CRAG", "BERGEN",
    "RAGBench / TRACe, RAGTruth", "FRAMES",
)  # fmt: skip
"""The rows of the survey's table, and of the datasets that they use."""
MOVING = {
    "em",
    "answer_em",
    "accuracy",
    "exact_match",
    "acc",
    "EM",
    "str_em",
    "QA F1",
    "F1",
    "ROUGE-L",
    "Recall",
    "avg. rouge-L",
    "all_rate",
}
"""Numbers that a wrong answer moves in every example that has a right one."""
MOST_MOVED = 3


@pytest.mark.parametrize(("benchmark", "split", "example"), EXAMPLES)
def test_published_values(benchmark: Benchmark, split: str, example: str) -> None:
    checked = check_example(benchmark, split, example)
    assert (dict(checked.differences), checked.problem) == ({}, "")
    assert checked.equal == len(benchmark.parts[split].examples[example].expected)


def test_every_row_of_the_survey_has_a_benchmark() -> None:
    assert {benchmark.heading.row for benchmark in all_benchmarks()} >= set(ROWS)


def test_targets_are_those_of_the_framework() -> None:
    known = {target.name.lower() for target in TargetCategory}
    wrong = {benchmark.name: set(benchmark.heading.targets) - known for benchmark in all_benchmarks()}
    assert {name: names for name, names in wrong.items() if names} == {}


def test_an_example_has_a_value_for_most_numbers() -> None:
    bare = [
        f"{benchmark.name} {split}"
        for benchmark in all_benchmarks()
        for split, part in benchmark.parts.items()
        if not part.examples and split == next(iter(benchmark.parts)) and benchmark.heading.mark != "P"
    ]
    assert bare == []


def _is_movable(part: Part, name: str, resources: dict[str, Any]) -> bool:
    """Whether a number is a mean of scores of answers, so that a wrong answer moves it by a known step."""
    published = part.metrics[name]
    if published.column is not None:
        return False  # it describes the data
    if "judge" in set(used_resources([published.metric])):
        return False  # its verdicts are fixed
    with use_resources(resources):
        built = metric(published.metric)
    assert isinstance(built, BatchMetric)
    is_plain = published.formula == "value" and isinstance(built.reducer, Mean)
    return is_plain and "response" in built.metadata.reads and built.higher_is_better


def _with_wrong_answer(scored: Scored, row: int, resources: dict[str, Any]) -> Scored:
    outputs = list(scored.loaded.outputs)
    given = outputs[row]
    assert given is not None
    outputs[row] = replace(given, response=Response("zzzz"))
    loaded = replace(scored.loaded, outputs=outputs)
    return score_loaded(loaded, resources=resources)


@pytest.mark.parametrize(("benchmark", "split", "example"), EXAMPLES)
def test_a_wrong_answer_moves_the_number_by_its_step(benchmark: Benchmark, split: str, example: str) -> None:
    part = benchmark.parts[split]
    resources = fixed_judges(part.examples[example].resources)
    names = [name for name in part.metrics if _is_movable(part, name, resources)]
    before = score_example(benchmark, split, part.examples[example])
    moved = 0
    for name in names:
        result = next(result for result in before.results if result.name == name)
        scores = list(result.scores or ())
        right = [row for row, score in enumerate(scores) if score]
        if not right:
            continue
        for row in right:
            after = _with_wrong_answer(before, row, resources)
            changed = next(result for result in after.results if result.name == name)
            now = list(changed.scores or ())
            if now[row] is None or changed.details["num_samples"] != result.details["num_samples"]:
                break  # a refusal that is not scored any more
            step = ((scores[row] or 0.0) - (now[row] or 0.0)) / result.details["num_samples"]
            if row != right[-1] and not step:
                continue  # the script takes the wrong answer for A, which is right here
            assert step > 0, name
            assert result.value - changed.value == pytest.approx(step, abs=1e-12), name
            moved += 1
            break
        if moved == MOST_MOVED:
            break
    assert moved or not any(
        name in MOVING
        for name in {*names} & part.examples[example].expected.keys()
        if part.examples[example].expected[name] > 0
    )


@pytest.mark.parametrize(("benchmark", "split", "example"), EXAMPLES)
def test_a_difference_is_named_where_our_value_is_another(benchmark: Benchmark, split: str, example: str) -> None:
    part = benchmark.parts[split]
    scored = score_example(benchmark, split, part.examples[example])
    named = " ".join([*benchmark.heading.differs, *(published.differs for published in part.metrics.values())])
    differing = [number.name for number in scored.numbers if number.ours != number.value]
    assert named or not differing


def test_entries_of_judges_have_differences() -> None:
    silent = [
        benchmark.name
        for benchmark in all_benchmarks()
        if "judge" in benchmark.heading.needs and not benchmark.heading.differs and benchmark.heading.mark == "P"
    ]
    assert silent == []


def test_ours_has_a_name_of_its_own() -> None:
    part = get_benchmark("hotpotqa").part(None)
    assert f"f1{OURS}" not in part.metrics


# --- a benchmark of one's own: one file and one folder ------------------------------------------------------------------

MINE = """
name: mine
title: Mine
row: none
targets: [generation_correctness]
mark: R
cite: "Me 2024"
source: https://example.org
obtain: "write it"
code_licence: MIT
data_licence: MIT
shape: "an array of q and a"
files: ["mine.json"]
read: {columns: {sample_id: "@index", query: q, reference_answer: a}}
metrics:
  right: {metric: exact_match}
examples:
  one: {data: mine.json, outputs: outputs.jsonl, expected: {right: 0.5}}
"""


def write_mine(folder: Path, text: str = MINE) -> Path:
    (folder / "mine").mkdir(exist_ok=True)
    (folder / "mine" / "mine.json").write_text('[{"q": "when?", "a": "1901"}, {"q": "where?", "a": "Alta"}]')
    (folder / "mine" / "outputs.jsonl").write_text(
        '{"sample_id": "0", "response": "1901"}\n{"sample_id": "1", "response": "Oslo"}\n'
    )
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


def test_a_benchmark_is_one_file_and_one_folder(tmp_path: Path) -> None:
    benchmark = get_benchmark(str(write_mine(tmp_path)))
    checked = check_example(benchmark, "", "one")
    assert (checked.equal, dict(checked.differences)) == (1, {})


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("mark: R", "mark: X", "mark: must be one of R, T, P"),
        ("title: Mine\n", "", "title: is missing"),
        ("shape:", "shpae:", "shpae: unknown key; did you mean 'shape'?"),
        ("metric: exact_match", "metric: exact_mtach", "metrics.right.metric: unknown metric 'exact_mtach'"),
        ("metric: exact_match", "metric: {exact_match: {nrm: nq}}", "metrics.right.metric: metric 'exact_match' has no option 'nrm'"),
        ("{right: 0.5}", "{rihgt: 0.5}", "examples.one.expected: there is no metric 'rihgt'; did you mean 'right'?"),
        ("metric: exact_match", "metric: exact_match, column: labels.x", "metrics.right: needs either 'metric' or 'column'"),
        ("read: {", "format: jsonl\nread: {", "read: needs exactly one of 'read', 'reader' and 'format'"),
    ],
)  # fmt: skip
def test_a_wrong_entry_is_an_error(tmp_path: Path, old: str, new: str, problem: str) -> None:
    path = write_mine(tmp_path, MINE.replace(old, new))
    with pytest.raises(PlanError) as raised:
        get_benchmark(str(path))
    assert problem in str(raised.value)
    assert str(path) in str(raised.value)


def test_names_are_those_of_the_files() -> None:
    assert [benchmark.name for benchmark in all_benchmarks()] == list(entry_names())


def test_a_system_failure_is_no_answer() -> None:
    benchmark = get_benchmark("nq_open")
    scored = score_example(benchmark, "", benchmark.part(None).examples["dev"])
    outputs = [SystemOutputs([], error="timeout"), *scored.loaded.outputs[1:]]
    loaded = replace(scored.loaded, outputs=outputs)
    again = score_loaded(loaded)
    assert again.numbers[0].value == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("answerable", "value", "why"),
    [
        ([True, False, True, True], 0.5, "one id has both right"),
        ([False, False, True, True], 0.0, "each id has one wrong"),
        ([True, False, True, False], (1 + 2 / 3) / 2, "all are right; of Ada for Ada Holt the F1 is 2/3"),
        ([None, False, True, True], 0.0, "a missing field is wrong"),
    ],
)
def test_groups_of_musique(answerable: list[bool | None], value: float, why: str) -> None:
    benchmark = get_benchmark("musique")
    scored = score_example(benchmark, "", benchmark.part(None).examples["full"])
    outputs: list[SystemOutputs | None] = []
    for given, label in zip(scored.loaded.outputs, answerable, strict=True):
        assert given is not None
        extra = {**given.extra, "answerable": None if label is None else [label]}
        outputs.append(replace(given, extra=extra))
    again = score_loaded(replace(scored.loaded, outputs=outputs))
    numbers = {number.name: number for number in again.numbers}
    assert numbers["group_answer_sufficiency_f1"].value == pytest.approx(value), why
    assert numbers["group_answer_sufficiency_f1"].counted == 2


def test_interval_of_ares() -> None:
    benchmark = get_benchmark("ares")
    scored = score_example(benchmark, "", benchmark.part(None).examples["partly labelled"])
    number = next(number for number in scored.numbers if number.name == "context_relevance ppi")
    published, ours = number.intervals
    assert published == pytest.approx((0.3256553497, 1.1743446503), abs=1e-9)
    assert (number.ours, *ours) == pytest.approx((0.625, 0.3057, 0.8632), abs=1e-4)
    assert number.counted == 20
    scored = score_example(benchmark, "", benchmark.part(None).examples["labelled"])
    number = next(number for number in scored.numbers if number.name == "context_relevance ppi")
    assert (number.value, number.ours) == (None, None), "no row is without a label"
