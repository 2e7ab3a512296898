"""Filters of queries: conditions, search and order over the columns of two stored runs."""

import base64
import gzip
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import example, given, strategies as st

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.cli.main import cli
from auepora_eval.core.metrics_base import make_result
from auepora_eval.core.registry import metric
from auepora_eval.core.scores import Score, Scores
from auepora_eval.core.types import MetricResult, TargetCategory
from auepora_eval.errors import BadValueError
from auepora_eval.queries.columns import RunColumns, SearchTexts
from auepora_eval.queries.filters import Condition, SampleFilter, parse_condition, swap_runs
from auepora_eval.queries.rows import list_rows, shown_metrics
from auepora_eval.queries.table import QueryTable
from auepora_eval.report.browser.listing import build_browser
from auepora_eval.store.records import StoredOutput
from auepora_eval.store.runs import RunStore
from helpers.browser_runs import put, scored
from helpers.checks import for_each

SAMPLES = [
    EvaluationSample("q1", "Who wrote Faust?", [Document("a")], labels={"lang": "de", "topic": ["x", "y"]}),
    EvaluationSample("q2", "Where is the Elbe?", [Document("b")], labels={"lang": "en"}, cluster_id="river"),
    EvaluationSample("q10", "İstanbul or Paris?", [Document("c")], labels={"lang": "en"}, cluster_id="river"),
    EvaluationSample("q4", "No gold here", None, reference_answer=Response("none")),
    EvaluationSample(
        "q5", "Which passage?", [Document("d", "", {}, "doc", (0, 100))], labels={"answerable": True, "n": 3}
    ),
]


def output(ids: str, text: str | None, seconds: float = 1.0, **more: object) -> SystemOutputs:
    documents = [RetrievedDocument(Document(one), None, rank) for rank, one in enumerate(ids, 1)]
    answer = None if text is None else Response(text)
    return SystemOutputs(documents, answer, {"end_to_end": seconds, "search": seconds / 2}, **more)  # type: ignore[arg-type]


def chunk(doc_id: str, start: int, end: int) -> SystemOutputs:
    return SystemOutputs([RetrievedDocument(Document(doc_id, "", {}, "doc", (start, end)), None, 1)], Response("Half"))


OUTPUTS_A = [
    output("xa", "Goethe wrote it", 0.5),
    output("xyb", "in Germany", 3.0),
    output("x", "I do not know."),
    output("x", ""),
    chunk("d1", 0, 60),
]
OUTPUTS_B = [
    output("a", "Goethe", 2.5),
    SystemOutputs([], error="TimeoutError: too slow"),
    output("yc", "Paris"),
    None,
    chunk("d2", 0, 10),
]
F1_A: list[float | Score] = [1.0, 0.5, 0.25, Score.skip("no_reference"), 0.5]
F1_B: list[float | Score] = [0.5, Score.fail("judge_unparseable"), 0.75, Score.skip("no_reference"), 0.5]
CAUSES = ("not_returned", "below_cut", "refused", "contradicts_context", "unused", "system_failed")


def attribution(keys: list[str | None]) -> MetricResult:
    made = metric({"failure_attribution@5": {"correct": "token_f1", "correct_from": 0.5}})
    scores = Scores.of([1.0] * len(keys), keys=keys)
    result = make_result(made, scores)  # type: ignore[arg-type]
    result.details["causes"] = {cause: {"count": keys.count(cause)} for cause in CAUSES}
    return result


def results(f1: list[float | Score], keys: list[str | None]) -> list[MetricResult]:
    return [
        scored("token_f1", f1),
        scored("hallucination_rate", [0.0, 0.5, 1.0, 0.0, 0.0]),
        attribution(keys),
        MetricResult('odd[a=1]="<', TargetCategory.GENERATION_CORRECTNESS, 0.5, scores=Scores.of([0.5] * 5)),
    ]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunStore]:
    with RunStore.open(tmp_path_factory.mktemp("store") / "runs.sqlite") as opened:
        put(opened, "before", SAMPLES, OUTPUTS_A, results(F1_A, [None, None, "refused", None, "unused"]))
        put(opened, "after", SAMPLES, OUTPUTS_B, results(F1_B, ["below_cut", "system_failed", None, None, "unused"]))
        yield opened


@pytest.fixture(scope="module")
def table(store: RunStore) -> QueryTable:
    return QueryTable([RunColumns(store, store.find(name)) for name in ("before", "after")])


def ids(table: QueryTable, *where: str, search: str = "", sort: str = "") -> str:
    return " ".join(table.ids[row] for row in SampleFilter.parse(search, where, sort).rows(table))


TABLE = json.loads((Path(__file__).parent / "conditions.json").read_text(encoding="utf-8"))
"""The cases of the language, which the script of a report is tested by, too: `tests/js/conditions.test.js`."""
CONDITIONS: dict[str, str] = TABLE["cases"] | TABLE["elsewhere"]  # condition: ids of the queries that fulfil it
ERRORS: dict[str, str] = TABLE["errors"] | TABLE["hints"]  # condition: a part of the message


def test_conditions(table: QueryTable) -> None:
    @for_each(CONDITIONS.items())
    def check(case: tuple[str, str]) -> None:
        condition, expected = case
        assert ids(table, condition) == expected, condition
        assert parse_condition(str(parse_condition(condition))) == parse_condition(condition)

    check()
    assert ids(table, "token_f1=changed", "label.lang=en") == "q10"


def plain_list(store: RunStore) -> Any:
    """The list that a report of both runs contains, with its columns as lists of numbers."""
    fragment = build_browser(store, [store.find(name) for name in ("before", "after")])
    blocks = {name: gzip.decompress(base64.b64decode(text)) for name, _, text in fragment.data}
    types = {"u1": np.uint8, "u2": np.uint16, "f8": np.float64}

    def expand(value: Any) -> Any:
        if isinstance(value, list):
            return [expand(inner) for inner in value]
        if not isinstance(value, dict):
            return value
        if "at" not in value:
            return {key: expand(inner) for key, inner in value.items() if key not in ("id", "created", "signature")}
        column = np.frombuffer(blocks["qb-columns"], types[value["type"]], value["count"], value["at"])
        numbers = column if "table" not in value else np.array([*value["table"], np.nan])[column]
        return [None if number != number else number for number in numbers.tolist()]

    listed = expand(json.loads(blocks["qb-list"]))
    return {key: listed[key] for key in ("count", "ids", "starts", "clusters", "runs", "labels", "metrics")}


def test_the_table_has_the_list_of_a_report(store: RunStore, tmp_path: Path) -> None:
    found = plain_list(store)
    path = tmp_path / "list.json"
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False), encoding="utf-8")
    assert found == TABLE["list"], f"`list` of conditions.json should be {path}"


def test_swapped_conditions_give_the_same_queries(store: RunStore, table: QueryTable) -> None:
    swapped = QueryTable([RunColumns(store, store.find(name)) for name in ("after", "before")])

    @for_each(condition for condition in CONDITIONS if condition not in ("hit=win", "hit!=win"))
    def check(condition: str) -> None:
        found = swap_runs(SampleFilter.parse("", [condition], ""))
        assert " ".join(swapped.ids[row] for row in found.rows(swapped)) == CONDITIONS[condition]

    check()
    assert swap_runs(SampleFilter.parse("", ["hit=win"])) == SampleFilter()
    for sort in ("-id", "token_f1", "-A.rank", "diff.token_f1", "-diff.token_f1", '-"odd[a=1]=\\"<"'):
        found = swap_runs(SampleFilter.parse(sort=sort))
        assert " ".join(swapped.ids[row] for row in found.rows(swapped)) == ids(table, sort=sort), sort


def test_errors_name_what_is_allowed(table: QueryTable) -> None:
    @for_each(ERRORS.items())
    def check(case: tuple[str, str]) -> None:
        with pytest.raises(BadValueError) as caught:
            ids(table, case[0])
        assert case[1] in str(caught.value)

    check()
    with pytest.raises(BadValueError, match="cannot sort by 'answer'"):
        ids(table, sort="answer")


def test_one_run_cannot_be_compared(store: RunStore) -> None:
    columns = RunColumns(store, store.find("after"))
    with pytest.raises(BadValueError, match="name each run once"):
        QueryTable([columns, columns])
    single = QueryTable([columns])
    assert ids(single, "token_f1<0.75") == "q1 q5"
    for condition in ("token_f1=worse", "diff.token_f1<0", "change=lost", "hit=lost", "token_f1=both-right"):
        with pytest.raises(BadValueError, match="add a second run"):
            ids(single, condition)


def test_search(table: QueryTable) -> None:
    rows = {"goethe": "q1", "GOETHE faust": "q1", '"wrote it"': "q1", '"it wrote"': "", "elbe germany": "q2"}
    rows |= {"timeout": "q2", "q1": "q1 q10", "PARIS": "q10", "w": "q1 q2 q10 q5", "wh": "q1 q2 q5", "wh e": "q1 q2 q5"}
    for text, expected in rows.items():
        assert ids(table, search=text) == expected, text
    assert ids(table, search=" ".join(f"w{number}" for number in range(2000))) == ""
    assert ids(table, "label.lang=de", search="wh") == "q1"


@given(st.lists(st.text("ab\xff\n\ud800", max_size=6)), st.text("ab\xff\n\ud800", min_size=1, max_size=3), st.data())
def test_a_text_column_finds_what_the_texts_contain(texts: list[str], term: str, data: st.DataObject) -> None:
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts))), np.bool_)
    column = SearchTexts(texts)
    found = column.contain(term, mask).tolist()
    assert found == [place for place, text in enumerate(texts) if term in text and mask[place]]
    assert [column[place] for place in range(len(texts))] == texts


NAMES = st.text("ab.@[]=<>! \"'\\", min_size=1, max_size=8)


@given(NAMES, st.sampled_from(["", "A", "diff"]), st.sampled_from(["<", "<=", "=", "!="]), st.just("0.5"))
def test_metric_conditions_of_any_name_are_read_back(name: str, run: str, operator: str, value: str) -> None:
    condition = Condition("metric", name, run, operator, value)
    assert parse_condition(str(condition)) == condition


@given(NAMES, NAMES)
@example("'", "'")
def test_label_conditions_of_any_name_are_read_back(name: str, value: str) -> None:
    condition = Condition("label", name, value=value)
    assert parse_condition(str(condition)) == condition


def test_order(table: QueryTable) -> None:
    assert ids(table, sort="id") == "q1 q2 q4 q5 q10"
    assert ids(table, sort="-id") == "q10 q5 q4 q2 q1"
    assert ids(table, sort="question") == "q10 q4 q2 q5 q1"
    assert ids(table, sort="token_f1") == "q1 q5 q10 q2 q4"
    assert ids(table, sort="-token_f1") == "q10 q1 q5 q2 q4", "queries without a score are last either way"
    assert ids(table, sort="diff.token_f1") == "q1 q5 q10 q2 q4"
    assert ids(table, "label.lang=en", sort="-A.rank") == "q2 q10"


def test_queries_of_other_datasets_are_matched_by_id(store: RunStore, tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "other.sqlite") as other:
        put(other, "short", SAMPLES[1:3], OUTPUTS_A[1:3], [scored("token_f1", [0.5, 0.25])])
        new = [*SAMPLES[1:2], EvaluationSample("q9", "A new question", [Document("z")])]
        put(other, "new", new, [output("b", "Elbe"), output("y", "new")], [scored("token_f1", [1.0, 0.0])])
        both = QueryTable([RunColumns(other, other.find(name)) for name in ("short", "new")])
        assert both.ids == ["q2", "q10", "q9"]
        assert ids(both, "token_f1=better") == "q2"
        assert ids(both, "token_f1=absent") == "q10"
        assert ids(both, "A.token_f1=absent") == "q9"
        assert ids(both, search="new question") == "q9"
        row = list_rows(both, [2], ["token_f1"])[0]
        assert [side.scores for side in row.sides] == [{"token_f1": None}, {"token_f1": 0.0}]
        assert (row.question, row.sides[0].answer, row.changes) == ("A new question", "", {"token_f1": ""})


def test_rows(table: QueryTable) -> None:
    first, failed = list_rows(table, [0, 1], ["token_f1"])
    assert [(side.answer, side.rank, side.scores["token_f1"]) for side in first.sides] == [
        ("answered", 2, 1.0),
        ("answered", 1, 0.5),
    ]
    assert first.changes == {"token_f1": "worse"}
    assert failed.sides[1].outcomes == {"token_f1": "measure_failed:judge_unparseable"}
    assert (failed.sides[1].answer, failed.sides[1].rank) == ("failed", 0)
    assert shown_metrics(table, [parse_condition("hallucination_rate>0")])[0] == "hallucination_rate"


def test_rows_of_repeats_show_what_conditions_find(tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "repeats.sqlite") as store:
        record = store.create_run("twice", SAMPLES[:2], dataset_name="made", plan={}, repeats=2)
        failed = SystemOutputs([], error="TimeoutError")
        repeats = [[failed, failed], [output("xa", "Goethe"), failed]]
        for repeat, outputs in enumerate(repeats):
            rows = enumerate(outputs)
            store.append(record.run_id, [StoredOutput(at, repeat, SAMPLES[at].sample_id, one) for at, one in rows])
        store.finish(record.run_id)
        twice = QueryTable([RunColumns(store, store.get(record.run_id))])
        assert (ids(twice, "rank=2"), ids(twice, "answer=failed")) == ("q1", "q2")
        shown = [(row.sides[0].answer, row.sides[0].rank) for row in list_rows(twice, [0, 1], [])]
        assert shown == [("answered", 2), ("failed", 0)]


def test_metrics_of_different_definitions_are_not_compared(tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "other.sqlite") as store:
        for name, definition in (("a", "token_f1"), ("b", {"token_f1": {"ignore_case": False}})):
            result = make_result(metric(definition), Scores.of([1.0] * 5))  # type: ignore[arg-type]
            put(store, name, SAMPLES, OUTPUTS_A, [result])
        both = QueryTable([RunColumns(store, store.find(name)) for name in "ab"])
        for condition in ("token_f1=both-right", "token_f1=worse", "diff.token_f1>0"):
            with pytest.raises(BadValueError, match="computed differently"):
                ids(both, condition)


def test_the_command_prints_the_same_list(store: RunStore, table: QueryTable) -> None:
    chosen = SampleFilter.parse('"who wrote"', ["token_f1=worse", "label.lang=de"], "-token_f1")
    assert store.file is not None
    words = shlex.split(chosen.to_command(str(store.file), ["before", "after"]))
    found = CliRunner().invoke(cli, [*words[1:], "--json"])
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    assert [one["sample_id"] for one in document["queries"]] == [table.ids[row] for row in chosen.rows(table)] == ["q1"]
    assert (document["matching"], document["total"]) == (1, 5)
    text = CliRunner().invoke(cli, [*words[1:], "-n", "0"]).stdout
    assert "1 of 5 queries" in text
    assert "... and 1 more" in text
    bad = CliRunner().invoke(cli, ["queries", "before", "--where", "token_f1=wors", "--store", str(store.file)])
    assert isinstance(bad.exception, BadValueError)
