"""Sets of samples: files, which runs selected them, comparisons and gates on them, and runs of a part of a dataset."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from auepora_eval.cli.main import cli
from auepora_eval.compare.runs import build_leaderboard, compare_runs
from auepora_eval.errors import AueporaError, BadValueError, ConflictError, DataFileError
from auepora_eval.gates import brief_reason, check_run
from auepora_eval.io.sample_sets import SampleSet, find_sample_set, load_sample_set, read_sample_set, save_sample_set
from auepora_eval.plan.gates import parse_gates
from auepora_eval.queries.columns import RunColumns
from auepora_eval.queries.filters import SampleFilter
from auepora_eval.queries.table import QueryTable
from auepora_eval.report.gate_table import gates_table
from auepora_eval.report.junit import junit_xml
from auepora_eval.store.records import RunStatus
from auepora_eval.store.runs import RunStore, decisions
from helpers.stored_runs import samples, scored
from helpers.user_project import Project

DATASET = samples(60)
RNG = np.random.default_rng(3)
LOW = (RNG.random(60) < 0.4).astype(float)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunStore]:
    with RunStore.open(tmp_path_factory.mktemp("sets") / "runs.sqlite") as opened:
        scored(opened, "a", DATASET, {"exact_match": LOW})
        scored(opened, "b", DATASET, {"exact_match": np.ones(60)})
        scored(opened, "c", DATASET, {"exact_match": np.zeros(60)})
        yield opened


@pytest.fixture(scope="module")
def table(store: RunStore) -> QueryTable:
    return QueryTable([RunColumns(store, store.find(name)) for name in "ab"])


def make(table: QueryTable, *where: str, search: str = "") -> SampleSet:
    return SampleFilter.parse(search, where).make_set(table, "made", reason="a reason")


@pytest.mark.parametrize(
    ("where", "search", "runs"),
    [
        ("A.exact_match<1", "", "a"),
        ("exact_match>0", "", "b"),
        ("exact_match=better", "", "ab"),
        ("diff.exact_match>0", "", "ab"),
        ("A.exact_match=scored", "", "a"),
        ("id!=q00001", "", ""),
        ("cluster!=q00001", "", ""),
        ("id!=q00001", "question", "ab"),  # a search reads answers, too
    ],
)
def test_a_set_names_the_runs_whose_outcomes_selected_it(table: QueryTable, where: str, search: str, runs: str) -> None:
    made = make(table, where, search=search)
    assert sorted(made.runs) == sorted(run.record.run_id for run in table.runs if run.record.name in runs)
    assert made.ids
    assert made.dataset == table.runs[0].record.fingerprint


def test_a_set_is_written_once_and_read_back(table: QueryTable, tmp_path: Path) -> None:
    made = replace(make(table, "A.exact_match<1"), ids=("q1", 'q"\n<b>', "q\u202e"))
    save_sample_set(tmp_path, made)
    read = load_sample_set(tmp_path, "made")
    assert (replace(read, created=None), bool(read.created)) == (made, True)
    with pytest.raises(ConflictError, match="'made' already"):
        save_sample_set(tmp_path, made)
    assert [one.name for one in (tmp_path / "sets").iterdir()] == ["made.json"]
    with_set = QueryTable(table.runs, lambda name: replace(made, ids=(DATASET[0].sample_id,)))
    nested = SampleFilter.parse("", ["set=made"]).make_set(with_set, "part")
    assert (nested.ids, nested.runs) == ((DATASET[0].sample_id,), made.runs)  # a part of a selected set is selected


BAD_FILES = {
    '{"format": "auepora-samples", "version": 2, "name": "x", "ids": ["a"]}': "version is 2",
    '{"format": "auepora-samples", "version": 1, "name": "x", "ids": []}': "'ids' is missing or empty",
    '{"format": "auepora-samples", "version": 1, "name": "x", "ids": [1]}': "'ids' must be a list of strings",
    '{"format": "auepora-samples", "version": 1, "name": 3, "ids": ["a"]}': "'name' must be a string",
    '{"ids": ["a"]}': "no sample set",
    '{"format": ': "",
}


@pytest.mark.parametrize("content", BAD_FILES)
def test_bad_files_are_errors_that_name_the_field(content: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(DataFileError, match=rf"x\.json.*{BAD_FILES[content]}"):
        read_sample_set(path)


def test_names_and_files_of_ids(tmp_path: Path) -> None:
    for name in ("../x", "", "a b", "x" * 81, ".x", "a/b"):
        with pytest.raises(BadValueError, match="cannot be called"):
            save_sample_set(tmp_path, SampleSet(name, ("a",)))
    with pytest.raises(BadValueError, match="no sample to save"):
        save_sample_set(tmp_path, SampleSet("x", ()))
    (tmp_path / "ids.txt").write_text("q2\nq1\n")
    assert find_sample_set(tmp_path, str(tmp_path / "ids.txt")).ids == ("q1", "q2")
    save_sample_set(tmp_path, SampleSet("refunds", ("q1",)))
    with pytest.raises(BadValueError, match="did you mean 'refunds'"):
        find_sample_set(tmp_path, "refund")
    with pytest.raises(BadValueError, match="no set of samples '/etc/hostname'"):
        load_sample_set(tmp_path, "/etc/hostname")  # an address names sets only


def test_a_run_has_no_verdict_on_samples_that_its_outcomes_selected(store: RunStore, table: QueryTable) -> None:
    wrong = make(table, "A.exact_match<1")
    found = compare_runs("a", "b", store=store, samples=wrong)
    (one,) = found.metrics
    assert (one.verdict, one.doubt, one.p_adjusted, one.n) == ("inconclusive", "selected_samples", None, wrong.count)
    assert "selected by the outcomes of" in (one.note or "")
    assert sum("regression to the mean" in note for note in found.notes) == 1
    other = compare_runs("c", "b", store=store, samples=wrong)
    assert (other.metrics[0].verdict, other.metrics[0].n) == ("better", wrong.count)
    assert other.to_dict()["sample_set"] == "made"
    assert not any("left out" in note for note in other.notes)
    assert len(other.per_query) == wrong.count
    whole = compare_runs("a", "b", store=store)
    assert (whole.metrics[0].verdict, "sample_set" in whole.to_dict()) == ("better", False)
    board = build_leaderboard(store, [store.find(name) for name in "abc"], samples=wrong)
    doubts = {(pair.first, pair.second): pair.comparison.doubt for pair in board.metrics[0].pairs}
    assert doubts == {(0, 1): "selected_samples", (0, 2): "selected_samples", (1, 2): None}
    everything = compare_runs("a", "b", store=store, samples=make(table, "id!=x"))
    assert everything.metrics[0].to_dict() == whole.metrics[0].to_dict()  # the same number on the same samples


def test_a_comparison_on_a_set_does_not_replace_that_on_all_samples(store: RunStore, table: QueryTable) -> None:
    compare_runs("b", "c", store=store)
    (before,) = decisions(store, kind="comparison", run_id=store.find("c").run_id)[:1]
    compare_runs("c", "b", store=store, samples=make(table, "id!=q00001"))
    assert before in decisions(store, kind="comparison")


def test_gates_on_a_set(store: RunStore, table: QueryTable) -> None:
    wrong = make(table, "A.exact_match<1")
    gates = parse_gates(["point(exact_match) >= 0.9", "better(exact_match)"])

    def check(run: str, against: str) -> list[str]:
        record, other = store.find(run), store.find(against)
        report = check_run(store, record, store.results(record.run_id), gates, baseline=other, samples=wrong)
        assert (report.to_dict()["sample_set"], "of the set 'made'" in gates_table(report)) == ("made", True)
        assert 'name="sample_set" value="made"' in junit_xml(report, name="gates")
        written = [outcome for outcome in report.outcomes if not outcome.implied]
        if record.run_id in wrong.runs:
            assert all("selected by" in brief_reason(outcome) for outcome in written), "the short form says why"
        return [outcome.status for outcome in written]

    assert check("b", "c") == ["passed", "passed"]
    assert check("c", "b") == ["failed", "failed"]
    assert check("b", "a") == ["passed", "inconclusive"]  # the value is that of b, whose outcomes selected nothing
    assert check("a", "b") == ["inconclusive", "inconclusive"]


def test_sets_of_other_datasets_are_refused(store: RunStore, table: QueryTable) -> None:
    made = make(table, "id!=q00001")
    with pytest.raises(BadValueError, match=r"lacks 1 of the 60 samples of the set 'made': 'gone'"):
        compare_runs("a", "b", store=store, samples=replace(made, ids=(*made.ids, "gone")))
    changed = [replace(one, query="Another question?") for one in DATASET]
    for name in ("other a", "other b"):
        scored(store, name, changed, {"exact_match": LOW})
    with pytest.raises(BadValueError, match="have other content in"):
        compare_runs("other a", "other b", store=store, samples=made)
    ids_only = replace(made, fingerprint=None, dataset=None)
    assert compare_runs("other a", "other b", store=store, samples=ids_only).metrics[0].n == made.count


@pytest.mark.slow
def test_a_run_on_a_set_records_it_and_resumes_with_it(project: Callable[[int], Project]) -> None:
    folder, commands = project(8).folder, CliRunner()

    def run(*arguments: str) -> str:
        found = commands.invoke(cli, list(arguments), catch_exceptions=False)
        assert found.exit_code == 0, found.output
        return found.output

    run("run", "plan.yaml", "--name", "whole")
    run("queries", "whole", "--where", "label.parity=odd", "--save", "odd", "--reason", "odd numbers", "-q")
    run("queries", "whole", "--where", "recall@5<1", "--save", "missed", "-q")
    assert json.loads(run("samples", "odd", "--json"))["ids"] == ["1", "3", "5", "7"]
    assert "odd numbers" in run("samples")
    assert "4 samples" in run("gate", "whole", "--samples", "odd", "-g", "recall@5 where labels.parity=odd >= 0")
    (folder / "labels" / "sets" / "damaged.json").write_text("{")
    (folder / "labels" / "sets" / "missed.json").rename(folder / "labels" / "sets" / "lost.json")
    listed = run("samples")
    assert ("lost" in listed, "missed " in listed, "damaged.json" in listed) == (True, False, True)
    run("run", "plan.yaml", "--name", "part", "--samples", "odd")
    with RunStore.open("runs.sqlite") as store:
        record = store.find("part")
        assert store.sample_ids(record.run_id) == ["1", "3", "5", "7"]
        assert {"name": "odd", "count": 4, "reason": "odd numbers"}.items() <= record.plan["samples"].items()
        store.finish(record.run_id, RunStatus.STOPPED)
    (folder / "calls.log").write_text("")
    run("run", "plan.yaml", "--name", "part", "--resume", "--retry-failed")
    assert (folder / "calls.log").read_text() == ""  # all of its samples have outputs
    run("rescore", "part", "-m", "recall@3")
    same = json.loads(run("compare", "whole", "part", "-m", "recall@5", "--json"))  # a part of the same dataset
    assert same["deltas"]["metrics"]["recall@5"]["n"] == 4
    run("run", "plan.yaml", "--name", "again", "--samples", "lost")
    again = json.loads(run("compare", "whole", "again", "-m", "recall@5", "--json"))
    assert again["deltas"]["metrics"]["recall@5"]["doubt"] == "selected_samples"  # whole selected the samples of again
    run("run", "plan.yaml", "--name", "more", "--samples", "lost")
    more = json.loads(run("compare", "again", "more", "-m", "recall@5", "--json"))["deltas"]["metrics"]["recall@5"]
    assert (more["doubt"], more["p_value"]) == ("selected_samples", None)  # both repeat the answers of whole
    (folder / "data.jsonl").write_text((folder / "data.jsonl").read_text().replace("what is 3?", "what is three?"))
    with pytest.raises(AueporaError, match="other content"):
        commands.invoke(cli, ["run", "plan.yaml", "--samples", "odd"], catch_exceptions=False)
