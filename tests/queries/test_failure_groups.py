"""Failure groups of stored runs: what is right, one run and two, labels, clusters, Chinese, and the command."""

import json
from collections.abc import Sequence

import numpy as np
import pytest
from click.testing import CliRunner, Result

from auepora_eval import Document, EvaluationSample, Response, SystemOutputs, evaluate
from auepora_eval.cli.main import cli
from auepora_eval.core.registry import Spec
from auepora_eval.core.scores import Score
from auepora_eval.errors import BadValueError
from auepora_eval.queries import failure_groups
from auepora_eval.queries.columns import RunColumns
from auepora_eval.queries.failure_groups import FailureGroup, choose_rule, find_failure_groups
from auepora_eval.queries.filters import SampleFilter
from auepora_eval.queries.table import QueryTable
from auepora_eval.store.runs import RunStore
from helpers.browser_runs import put, scored
from helpers.failing_topics import COUNT, failing_runs, samples


def table_of(store: RunStore, *names: str) -> QueryTable:
    return QueryTable([RunColumns(store, store.find(name)) for name in names])


def by_condition(groups: Sequence[FailureGroup]) -> dict[str, FailureGroup]:
    return {group.where: group for group in groups}


def test_one_run_has_the_groups_that_were_planted(store: RunStore) -> None:
    failing_runs(store)
    table = table_of(store, "after")
    found = find_failure_groups(table, choose_rule(table))
    assert [listed.failures for listed in found.lists] == ["wrong"]
    groups = by_condition(found.lists[0].groups)
    assert len(groups) == 3
    assert len([name for name in groups if "invoice" in name or "customs" in name]) == 2  # the third one is Chinese
    group = next(group for name, group in groups.items() if "customs" in name)
    rows = SampleFilter.parse(where=[group.where]).rows(table)
    assert rows.tolist() == list(range(40))
    assert group.members == 40
    wrong = SampleFilter.parse(where=[group.where, "exact_match<1"]).rows(table)
    assert group.wrong == len(wrong)
    assert [example["sample_id"] for example in group.examples] == [table.ids[row] for row in wrong[:3]]
    assert group.tested.count is not None
    assert 0 < group.tested.n < 40
    assert group.change is None


def test_a_group_of_chinese_questions_has_words_of_two_characters(store: RunStore) -> None:
    failing_runs(store)
    table = table_of(store, "after")
    found = find_failure_groups(table, choose_rule(table))
    chinese = next(group for group in found.lists[-1].groups if "退款" in group.terms)
    assert SampleFilter.parse(where=["term=退款"]).rows(table).tolist() == list(range(80, 120))
    assert chinese.members == 40


def test_two_runs_have_what_is_newly_wrong_and_the_change(store: RunStore) -> None:
    failing_runs(store)
    table = table_of(store, "before", "after")
    found = find_failure_groups(table, choose_rule(table))
    assert [listed.failures for listed in found.lists] == ["newly wrong", "wrong"]
    newly = by_condition(found.lists[0].groups)
    assert not any("customs" in name for name in newly)
    invoice = next(group for name, group in newly.items() if "invoice" in name)
    rows = SampleFilter.parse(where=[invoice.where, "A.exact_match>=1", "exact_match<1"]).rows(table)
    assert invoice.wrong == len(rows)
    assert invoice.change is not None
    assert invoice.change.excludes_zero
    assert sum(invoice.causes.values()) == invoice.wrong
    customs = next(group for group in found.lists[-1].groups if "customs" in group.where)
    assert customs.change is not None
    assert not customs.change.excludes_zero


def test_runs_on_different_datasets_are_compared_on_what_both_have(store: RunStore) -> None:
    """The second run has the questions in another order and lacks some."""
    failing_runs(store)
    kept = [number for number in reversed(range(COUNT)) if number % 7]
    outputs = [SystemOutputs([], Response("answer"))] * len(kept)
    scores = scored("exact_match", [0.0 if number < 40 else 1.0 for number in kept])
    put(store, "other", [samples()[number] for number in kept], outputs, [scores])
    table = table_of(store, "before", "other")
    found = find_failure_groups(table, choose_rule(table))
    assert found.lists[-1].questions == len(kept)
    (group,) = found.lists[-1].groups
    assert "customs" in group.where
    assert group.wrong == group.members == len([number for number in kept if number < 40])


def test_labels_are_terms(store: RunStore) -> None:
    questions = [
        EvaluationSample(f"q{number}", f"question {number}", labels={"topic": "fees" if number % 8 == 0 else "rest"})
        for number in range(320)
    ]
    scores = scored("exact_match", [float(number % 8 > 0 and number % 5 > 0) for number in range(320)])
    put(store, "run", questions, [SystemOutputs([], Response("x"))] * 320, [scores])
    table = table_of(store, "run")
    (group,) = find_failure_groups(table, choose_rule(table)).lists[-1].groups
    assert group.where == "label.topic=fees"
    assert group.terms == ["topic=fees"]


def test_variants_of_a_question_count_once(store: RunStore) -> None:
    """Two questions with twenty variants each fail: they are two failures."""
    questions = [
        EvaluationSample(
            f"q{number}", f"{'refund' if number < 40 else 'other'} {number}", cluster_id=f"c{number // 20}"
        )
        for number in range(400)
    ]
    scores = scored("exact_match", [float(number >= 40) for number in range(400)])
    put(store, "run", questions, [SystemOutputs([], Response("x"))] * 400, [scores])
    table = table_of(store, "run")
    assert not find_failure_groups(table, choose_rule(table)).lists[-1].groups


def test_of_many_questions_some_are_read(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    failing_runs(store)
    monkeypatch.setattr(failure_groups, "MAX_QUESTIONS", 300)
    table = table_of(store, "before", "after")
    newly, wrong = find_failure_groups(table, choose_rule(table)).lists
    assert newly.questions == wrong.questions == 300
    assert [group.causes for group in newly.groups] == [{}] * len(newly.groups)  # outputs are not read


# --- which answers are right -----------------------------------------------------------------------------------------


def attributed(store: RunStore, *metrics: Spec) -> QueryTable:
    questions = [
        EvaluationSample(f"q{number}", "What?", [Document("d")], reference_answer=Response("yes it is"))
        for number in range(6)
    ]
    answers = ["yes it is", "yes it is", "it is", "no", "no", None]
    outputs = [
        SystemOutputs([], error="TimeoutError") if answer is None else SystemOutputs([], Response(answer))
        for answer in answers
    ]
    put(store, "run", questions, outputs, list(evaluate(questions, outputs, list(metrics))))
    return table_of(store, "run")


ATTRIBUTION: Spec = {"failure_attribution@5": {"correct": "token_f1", "correct_from": 0.5}}
RULES: dict[str, tuple[list[Spec], str | None, float | None, str, int, int]] = {
    "the rule of an attribution": ([ATTRIBUTION, "token_f1", "exact_match"], None, None, "token_f1 >= 0.5", 3, 3),
    "... whose metric is not stored": ([ATTRIBUTION], None, None, "token_f1 >= 0.5", 2, 3),
    "... with another threshold": ([ATTRIBUTION, "token_f1"], None, 0.9, "token_f1 >= 0.9", 4, 2),
    "a metric of 0 and 1": (["token_f1", "exact_match"], None, None, "exact_match >= 1", 4, 2),
    "a metric that is given": (["token_f1", "exact_match"], "token_f1", 0.1, "token_f1 >= 0.1", 3, 3),
}


@pytest.mark.parametrize(("metrics", "correct", "least", "rule", "wrong", "right"), RULES.values(), ids=RULES)
def test_which_rule_decides_that_an_answer_is_right(
    store: RunStore, metrics: list[Spec], correct: str | None, least: float | None, rule: str, wrong: int, right: int
) -> None:
    """A failed answer is wrong by a metric that counts it; an attribution alone does not say."""
    table = attributed(store, *metrics)
    found = choose_rule(table, correct, least)
    assert found.text == rule
    assert int(found.wrong.mask(table).sum()) == wrong
    assert int((found.wrong.mask(table) | found.right.mask(table)).sum()) == wrong + right


ERRORS: dict[str, tuple[list[Spec], str | None, float | None, str]] = {
    "no metric says it": (["token_f1"], None, None, "which answers are right"),
    "a threshold is missing": (["token_f1"], "token_f1", None, "from which score on"),
    "an unknown metric": (["token_f1"], "tokn_f1", 0.5, "did you mean 'token_f1'"),
    "less is better": (["token_f1", "mean_latency"], "mean_latency[end_to_end]", 0.5, "less is better"),
    "an unknown metric of an attribution": ([ATTRIBUTION], None, 0.5, "no metric 'token_f1'"),
}


@pytest.mark.parametrize(("metrics", "correct", "least", "message"), ERRORS.values(), ids=ERRORS)
def test_errors_name_what_is_missing(
    store: RunStore, metrics: list[Spec], correct: str | None, least: float | None, message: str
) -> None:
    with pytest.raises(BadValueError, match=message):
        choose_rule(attributed(store, *metrics), correct, least)


def test_answers_without_a_score_are_left_out(store: RunStore) -> None:
    questions = samples()
    scores: list[Score | float] = [Score.skip("no_reference") if number % 2 else 1.0 for number in range(COUNT)]
    put(store, "run", questions, [SystemOutputs([], Response("x"))] * COUNT, [scored("exact_match", scores)])
    table = table_of(store, "run")
    assert find_failure_groups(table, choose_rule(table)).lists[-1].questions == COUNT // 2


# --- the condition and the command -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "count"),
    [("term=invoice", 40), ('term="old invoice"', 40), ("term=Invoice", 40), ("term!=invoice", 360), ("term=inv", 0)],
)
def test_a_condition_on_terms(store: RunStore, condition: str, count: int) -> None:
    failing_runs(store)
    table = table_of(store, "before")
    assert len(SampleFilter.parse(where=[condition]).rows(table)) == count
    assert not SampleFilter.parse(where=[condition]).outcome_runs(table)


def run_command(store: RunStore, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["queries", *arguments, "--store", str(store.file)])


def test_the_command_prints_groups(store: RunStore) -> None:
    failing_runs(store)
    shown = run_command(store, "before", "after", "--groups", "--correct", "token_f1", "--correct-from", "0.5")
    assert shown.exit_code == 0
    assert "Right is token_f1 >= 0.5." in shown.output
    assert "answers are newly wrong: 2 groups." in shown.output
    assert "old invoice, invoice, old" in shown.output
    assert "found on one half of the questions and tested on the other" in shown.output
    assert "below about 15 failures" in shown.output
    document = json.loads(run_command(store, "after", "--groups", "--json").output)
    (listed,) = document["lists"]
    assert document["correct"] == "exact_match >= 1"
    assert listed["where"] == ["exact_match<1"]
    names = {"terms", "where", "p_value", "tested", "change", "members", "wrong", "causes", "examples"}
    assert names == set(listed["groups"][0])
    restricted = json.loads(run_command(store, "after", "--groups", "--json", "--where", "label.desk=north").output)
    assert restricted["lists"][0]["questions"] == len([number for number in range(COUNT) if number % 3])


def test_a_metric_that_is_not_stored_is_computed_from_the_stored_outputs(store: RunStore) -> None:
    questions = [
        EvaluationSample(f"q{number}", f"question {number}", reference_answer=Response("yes it is"))
        for number in range(30)
    ]
    texts = [["no", "it is"][number % 3 > 0] for number in range(30)]  # ten are wrong, twenty have two of three words
    outputs = [SystemOutputs([], Response(text)) for text in texts]
    put(store, "first", questions, outputs, [scored("token_f1", [1.0] * 30)])
    put(store, "second", questions, outputs[::-1], [scored("exact_match", [1.0] * 30)])
    rule = ("--groups", "--json", "--correct-from", "0.7", "--correct")
    one = json.loads(run_command(store, "second", *rule, "token_f1").output)
    assert one["correct"] == "token_f1 >= 0.7"
    assert one["lists"][0]["wrong"] == 10
    newly, wrong = json.loads(run_command(store, "first", "second", *rule, "token_f1").output)["lists"]
    assert [newly["wrong"], wrong["wrong"]] == [10, 10]  # the stored scores of the first run say that all are right
    both = json.loads(run_command(store, "first", "second", *rule, "rougeL_answer").output)
    assert both["correct"] == "rougeL_answer >= 0.7"
    assert [listed["wrong"] for listed in both["lists"]] == [10, 10]
    assert {result.name for result in store.results(store.find("second").run_id)} == {"exact_match"}


NOT_COMPUTED = {
    "no such metric": (("tokn_f1",), "unknown metric 'tokn_f1'; did you mean 'token_f1'?"),
    "no threshold": (("chrf",), "'chrf' is not a metric of 0 and 1: give --correct-from"),
    "no metric of answers": (("recall@3",), "does not score single answers"),
    "a judge": (("llm_correctness", "--correct-from", "0.5"), "asks a judge, so it must be stored with the runs"),
}


@pytest.mark.parametrize(("arguments", "message"), NOT_COMPUTED.values(), ids=NOT_COMPUTED)
def test_what_cannot_be_computed_is_explained(store: RunStore, arguments: tuple[str, ...], message: str) -> None:
    failing_runs(store)
    shown = run_command(store, "after", "--groups", "--correct", *arguments)
    assert isinstance(shown.exception, ValueError)
    assert message in str(shown.exception)


USAGE = {
    "a condition on outcomes": (("--groups", "--where", "exact_match<1"), "filter by samples, not by outcomes"),
    "an order": (("--groups", "--sort", "id"), "goes without --sort and --save"),
    "a set": (("--groups", "--save", "name"), "goes without --sort and --save"),
    "what is right, without groups": (("--correct", "token_f1"), "go with --groups"),
}


@pytest.mark.parametrize(("arguments", "message"), USAGE.values(), ids=USAGE)
def test_options_that_do_not_fit(store: RunStore, arguments: tuple[str, ...], message: str) -> None:
    failing_runs(store)
    shown = run_command(store, "after", *arguments)
    assert shown.exit_code == 2
    assert message in shown.output


def test_groups_do_not_depend_on_the_order_of_words(store: RunStore) -> None:
    """The numbers of terms come from sorted names, not from sets."""
    failing_runs(store)
    table = table_of(store, "after")
    found = find_failure_groups(table, choose_rule(table))
    again = find_failure_groups(table_of(store, "after"), choose_rule(table))
    assert found.to_dict() == again.to_dict()
    assert np.isfinite([group.p_value for group in found.lists[-1].groups]).all()
