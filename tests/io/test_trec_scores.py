"""From TREC files to numbers: by columns of Arrow as by texts, to the last bit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from auepora_eval import evaluate_rankings, evaluate_trec
from auepora_eval.core.conventions import Conventions
from auepora_eval.core.metrics_base import SampleMetric
from auepora_eval.core.scores import Score
from auepora_eval.core.types import EvaluationSample, SystemOutputs, TargetCategory
from auepora_eval.errors import BadValueError, DataFileError, DuplicateIdError, MissingFieldError
from auepora_eval.io import trec_format
from auepora_eval.io.trec import TextColumn, load_qrels, load_run, trec_rankings
from auepora_eval.io.trec_format import read_trec
from helpers import requirements
from helpers.requirements import examples

METRICS: list[str | dict[str, Any]] = [
    "recall@3", "precision@2", "hit_rate@1", "mrr", "map", "map@3", "ndcg", "ndcg@3", "f1@2", "r_precision", "bpref",
    "judged@3", "rbp", {"err": {"max_grade": 4}}, "recall_doc@3", "aqwv", "accuracy@2",
]  # fmt: skip
QUERIES = st.sampled_from(["1", "2", "é", "q10", "文"])
DOCS = st.sampled_from(["a", "b", "doc00001", "doc00002", "doc000021", "é", "文書", "x" * 40, "x" * 39 + "y", "z" * 16])
JUDGED = st.lists(st.tuples(QUERIES, DOCS, st.integers(-2, 4)), min_size=1, max_size=25)
RUN = st.lists(st.tuples(QUERIES, DOCS, st.sampled_from([-1.5, 0.0, 1.0, 2.0, 2.5])), min_size=1, max_size=40)


@pytest.fixture(scope="module", autouse=True)
def arrow() -> None:
    requirements.need("pyarrow")


def write_files(
    folder: Path, judged: list[tuple[str, str, int]], run: list[tuple[str, str, float]]
) -> tuple[Path, Path]:
    qrels, ranked = folder / "qrels", folder / "run"
    qrels.write_text("".join(f"{query} 0 {doc} {level}\n" for query, doc, level in judged), encoding="utf-8")
    ranked.write_text("".join(f"{query} Q0 {doc} 1 {score} x\n" for query, doc, score in run), encoding="utf-8")
    return qrels, ranked


def evaluate_as_texts(qrels: Path, run: Path, metrics: Any, conventions: str | Conventions) -> Any:
    ids, gold, ranked = trec_rankings(load_qrels(qrels, reader="python"), load_run(run, reader="python"))
    return evaluate_rankings(gold, ranked, metrics, conventions=conventions, ids=ids)


@pytest.mark.slow
@given(judged=JUDGED, run=RUN, distinct=st.booleans(), min_relevance=st.integers(0, 3), depth=st.none() | st.just(2))
@settings(max_examples=examples(150), deadline=None)
def test_columns_equal_texts(
    tmp_path_factory: pytest.TempPathFactory,
    judged: list[tuple[str, str, int]],
    run: list[tuple[str, str, float]],
    distinct: bool,
    min_relevance: int,
    depth: int | None,
) -> None:
    if distinct:
        run = list({(query, doc): (query, doc, score) for query, doc, score in run}.values())
    qrels, ranked = write_files(tmp_path_factory.mktemp("trec"), judged, run)
    if not {query for query, *_ in judged} & {query for query, *_ in run}:
        with pytest.raises(BadValueError, match="share no query"):
            evaluate_trec(qrels, ranked, METRICS, reader="arrow")
        return
    rules = Conventions.of(
        "trec", min_relevance=min_relevance, depth=depth, duplicates="error" if distinct else "first"
    )
    want = evaluate_as_texts(qrels, ranked, METRICS, rules)
    got = evaluate_trec(qrels, ranked, METRICS, conventions=rules, reader="arrow")
    assert got == want
    assert got.sample_ids == want.sample_ids
    assert evaluate_trec(qrels, ranked, METRICS, conventions=rules, reader="python") == want


@pytest.mark.slow
def test_large_files_of_every_kind(tmp_path: Path) -> None:
    """Several of Arrow's chunks, several batches, long stretches of ties, lines in any order."""
    random = np.random.default_rng(3)
    judged, run = [], []
    for query in range(5_000):
        docs = random.choice(400, size=30, replace=False)
        judged += [(str(query), f"d{doc}", int(random.integers(0, 3))) for doc in docs[::4]]
        if query % 17:
            run += [(str(query), f"d{doc}", float(random.integers(0, 12))) for doc in docs]
    random.shuffle(run)
    files = write_files(tmp_path, judged, [*run, ("unjudged", "d1", 1.0)])
    assert files[1].stat().st_size > 1 << 21
    read = read_trec(*files, reader="arrow")
    assert read.unjudged == ["unjudged"]
    assert read.missing == [str(query) for query in range(0, 5_000, 17)]
    got = read.evaluate(METRICS)
    assert got == evaluate_as_texts(*files, METRICS, "trec")
    lean = read.evaluate(METRICS, keep_scores=False)
    assert [one.value for one in lean] == [one.value for one in got]


def test_duplicate_document_error(tmp_path: Path) -> None:
    files = write_files(tmp_path, [("1", "a", 1)], [("1", "b", 3.0), ("1", "a", 2.0), ("1", "b", 1.0)])
    with pytest.raises(DuplicateIdError, match=r"run:3: 'b' was returned for query '1' on line 1 already"):
        evaluate_trec(*files, ["mrr"], reader="arrow")
    (got,) = evaluate_trec(*files, ["mrr"], conventions=Conventions.of("trec", duplicates="first"), reader="arrow")
    assert got.value == 0.5


class Returned(SampleMetric):
    """Looks at the documents themselves."""

    name = "returned"
    target = TargetCategory.RETRIEVAL_RELEVANCE

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        gold = {one.doc_id for one in sample.relevant_docs or ()}
        return Score(sum(one.doc.doc_id in gold for one in output.retrieved))


def test_metrics_that_need_documents(tmp_path: Path) -> None:
    judged = [("1", "a", 1), ("2", "b", 2), ("3", "c", 1)]
    files = write_files(tmp_path, judged, [("2", "b", 3.0), ("2", "a", 2.0), ("1", "c", 1.0)])
    got = evaluate_trec(*files, [Returned()], reader="arrow")
    assert got == evaluate_as_texts(*files, [Returned()], "trec")
    assert list(got[0].scores or ())[:2] == [0.0, 1.0]


def test_metric_that_needs_more_than_ids(tmp_path: Path) -> None:
    files = write_files(tmp_path, [("1", "a", 1)], [("1", "a", 1.0)])
    with pytest.raises(MissingFieldError):
        evaluate_trec(*files, ["token_f1"], reader="arrow")


@pytest.mark.parametrize(
    ("qrels", "run", "message"),
    [
        pytest.param("1 0 a 1\n", "1 Q0 a 1 high x\n", "run:1: the score", id="a score that is not a number"),
        pytest.param("1 0 a good\n", "1 Q0 a 1 1 x\n", "qrels:1: the level", id="a level that is not a number"),
        pytest.param("1 0 a 1\n", "", "the file is empty", id="an empty run"),
        pytest.param("1 0 a\n", "1 Q0 a 1 1 x\n", "expected 4 columns", id="a column too few"),
    ],
)
def test_invalid_files(tmp_path: Path, qrels: str, run: str, message: str) -> None:
    (tmp_path / "qrels").write_text(qrels)
    (tmp_path / "run").write_text(run)
    with pytest.raises(DataFileError, match=message):
        evaluate_trec(tmp_path / "qrels", tmp_path / "run", ["mrr"], reader="arrow")


@pytest.mark.parametrize("gap", ["  ", "\t", " \t"], ids=["two spaces", "tab", "mixed"])
def test_other_white_space(tmp_path: Path, gap: str) -> None:
    qrels, run = write_files(tmp_path, [("1", "a", 1)], [("1", "b", 2.0), ("1", "a", 1.0)])
    run.write_text(run.read_text().replace(" ", gap))
    (got,) = evaluate_trec(qrels, run, ["mrr"], reader="arrow")
    assert got.value == 0.5


def test_levels_out_of_range(tmp_path: Path) -> None:
    files = write_files(tmp_path, [("1", "a", 70_000)], [("1", "a", 1.0)])
    with pytest.raises(BadValueError, match="is out of range"):
        evaluate_trec(*files, ["mrr"], reader="arrow")


@pytest.mark.parametrize("shared", ["among the judged", "between run and judged"])
def test_documents_with_colliding_hashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: str) -> None:
    judged = [("1", "a", 1), ("1", "b", 2)] if shared == "among the judged" else [("1", "a", 1), ("2", "b", 1)]
    files = write_files(tmp_path, judged, [("1", "c", 3.0), ("1", "b", 2.0), ("2", "b", 1.0)])
    want = evaluate_as_texts(*files, METRICS, "trec")
    monkeypatch.setattr(TextColumn, "hashes", lambda cells, pool: np.zeros(len(cells.texts()), dtype=np.uint64))
    assert evaluate_trec(*files, METRICS, reader="arrow") == want


def test_queries_with_colliding_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write_files(tmp_path, [("1", "a", 1), ("2", "b", 1)], [("2", "a", 2.0), ("1", "b", 1.0)])
    want = evaluate_as_texts(*files, METRICS, "trec")
    monkeypatch.setattr(trec_format, "_QUERY_FACTOR", np.uint64(0))
    assert evaluate_trec(*files, METRICS, reader="arrow") == want
