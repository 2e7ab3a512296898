"""Pairs drawn for grading by people, and metrics corrected by their grades: files, refusals, exact cases, differences."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.io.grades import Grade, read_grades, write_grades
from auepora_eval.labels.pair_draws import read_pair_draw
from auepora_eval.runs.run import run_system
from auepora_eval.store.runs import RunStore

Cli = Callable[..., tuple[int, str, str]]
QUERIES, DOCUMENTS = 8, 6
RANKINGS = {"bm25": (0, 1, 2, 3, 4), "dense": (5, 3, 0, 2, 1)}
METRICS = ("-m", "ndcg@3", "-m", "recall@3", "-m", "precision@3")


def level(query: int, document: int) -> int:
    """The grade of a person: documents 0, 3 and 5 are relevant to a part of the queries."""
    return 2 if document in (0, 3, 5) and (query + document) % 3 else 0


TRUTH = {(f"q{q}", f"q{q}-{d}"): level(q, d) for q in range(QUERIES) for d in range(DOCUMENTS)}


@pytest.fixture(scope="module")
def stored_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two stored runs, and the grades of a model that takes document 1 for relevant."""
    folder = tmp_path_factory.mktemp("pairs")
    samples = [EvaluationSample(f"q{q}", f"what is {q}?") for q in range(QUERIES)]
    with RunStore.open(folder / "runs.sqlite") as store:
        for name, order in RANKINGS.items():

            def answer(sample: EvaluationSample, *, top_k: int, order: tuple[int, ...] = order) -> SystemOutputs:
                ids = [f"{sample.sample_id}-{one}" for one in order]
                ranked = [RetrievedDocument(Document(one, "a text"), None, n) for n, one in enumerate(ids, start=1)]
                return SystemOutputs(ranked, Response("x"))

            run_system(answer, samples, ["mean_latency[end_to_end]"], store=store, name=name)
    model = [Grade(*key, 3 if key[1].endswith("-1") else grade, "model", "m") for key, grade in TRUTH.items()]
    write_grades(folder / "qrels.txt", model)
    return folder


@pytest.fixture(autouse=True)
def project(stored_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the project, where the test then is."""
    shutil.copytree(stored_project, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)


def draw(auepora: Cli, n: int = 24, *options: str) -> tuple[int, str, str]:
    return auepora("pool", "bm25", "dense", "--qrels", "qrels.txt", "--draw", str(n), "-o", "grade.jsonl", *options)


def rescore(auepora: Cli, run: str = "bm25", *options: str) -> tuple[int, str, str]:
    return auepora("rescore", run, "--qrels", "qrels.txt", "--grades", "grade.jsonl", *options)


def drawn_rows() -> list[dict[str, object]]:
    return [json.loads(line) for line in Path("grade.jsonl").read_text().splitlines()]


def write_rows(rows: list[dict[str, object]]) -> None:
    Path("grade.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def grade_first(n: int) -> None:
    """Fill in the grades of the first n drawn pairs."""
    rows = drawn_rows()
    for row in rows[:n]:
        row["grade"] = TRUTH[str(row["sample_id"]), str(row["doc_id"])]
    write_rows(rows)


def test_a_draw_has_probabilities_and_graders_do_not_see_the_model(auepora: Cli) -> None:
    code, out, err = draw(auepora, 24, *METRICS, "--json")
    counts = json.loads(out)
    assert (code, counts["drawn"], counts["pairs"], counts["known_before"]) == (0, 24, 48, 0)
    assert counts["metrics"] == ["precision@3", "recall@3", "ndcg@3"]
    assert "wrote grade.jsonl and grade.draw.json" in err
    record = read_pair_draw("grade.draw.json")
    assert sum(one.probability for one in record.pairs) == pytest.approx(24)
    assert len({one.sample_id for one in record.order}) > QUERIES // 2
    rows = drawn_rows()
    assert [row["position"] for row in rows] == list(range(1, 25))
    assert all(set(row) == {"sample_id", "query", "doc_id", "text", "draw", "position", "grade"} for row in rows)
    grade_first(3)
    code, _, err = draw(auepora, 24, *METRICS)  # the same draw: the grades are kept
    assert (code, "was kept" in err, drawn_rows()[2]["grade"]) == (0, True, TRUTH[record.order[2].key])
    code, _, err = draw(auepora, 24, *METRICS, "--seed", "1")
    assert (code, "drawn here with --seed 0" in err) == (2, True)


def test_all_pairs_graded_give_the_exact_metrics(auepora: Cli) -> None:
    assert draw(auepora, 48, *METRICS)[0] == 0
    grade_first(48)
    code, out, _ = rescore(auepora, "dense", "--json")
    results = {one["name"]: one for one in json.loads(out)["results"]}
    assert (code, list(results)) == (0, ["precision@3", "recall@3", "ndcg@3"])  # precision first
    write_grades("truth.txt", [Grade(*key, grade) for key, grade in TRUTH.items()])
    _, out, _ = auepora("rescore", "dense", "--qrels", "truth.txt", "--conventions", "paper", *METRICS, "--json")
    for exact in json.loads(out)["results"]:
        found = results[exact["name"]]
        assert found["value"] == pytest.approx(exact["value"], abs=1e-12)
        assert found["interval"] == pytest.approx(exact["interval"], abs=1e-12)
        assert found["details"]["partial_grades"]["human_only"]["value"] == pytest.approx(exact["value"], abs=1e-12)
        assert "|gold:grades-" in found["signature"]


def test_some_grades_correct_the_model(auepora: Cli) -> None:
    assert draw(auepora, 40, *METRICS)[0] == 0
    grade_first(40)
    code, out, err = rescore(auepora)
    assert (code, "stored with" in err) == (0, True)
    assert "people graded 40 of 48 pairs" in out
    code, out, _ = rescore(auepora, "bm25", "--json")
    precision = json.loads(out)["results"][0]
    # Documents 0, 1 and 2 are in the top 3: five of eight queries have 0, and the model takes all of 1 for relevant.
    exact = sum(level(query, 0) > 0 for query in range(QUERIES)) / QUERIES / 3
    details = precision["details"]["partial_grades"]
    assert details["model_only"]["value"] == pytest.approx(exact + 1 / 3)
    assert abs(precision["value"] - exact) < 0.1
    low, high = details["these_queries"]
    assert low <= precision["value"] <= high
    assert high - low < precision["interval"][1] - precision["interval"][0]
    # In the rows of three metrics, and once in full below the table, where the rows have no room for it.
    shown = auepora("show", "bm25")[1]
    assert (shown.count("corrected: people"), shown.count("people graded 40 of 48") > 0) == (4, True)


def test_a_difference_uses_the_same_grades(auepora: Cli) -> None:
    assert draw(auepora, 41, "-m", "precision@3")[0] == 2  # only 40 documents are in a top 3
    assert draw(auepora, 24, "-m", "precision@3")[0] == 0
    grade_first(24)
    values = [json.loads(rescore(auepora, run, "--json")[1])["results"][0] for run in RANKINGS]
    assert values[0]["signature"] == values[1]["signature"]
    _, out, _ = auepora("compare", "bm25", "dense", "--json")
    compared = json.loads(out)["deltas"]["metrics"]["precision@3"]
    assert compared["delta"] == pytest.approx(values[1]["value"] - values[0]["value"])
    assert compared["note"] is None
    code, _, err = rescore(auepora, "bm25", "-m", "recall@3")
    assert (code, "could not be drawn for grading" in err) == (2, True)


def test_there_is_no_verdict_before_the_last_grade(auepora: Cli) -> None:
    assert draw(auepora, 36, "-m", "precision@3")[0] == 0
    grade_first(30)
    for run in RANKINGS:
        assert rescore(auepora, run)[0] == 0
    _, out, _ = auepora("compare", "bm25", "dense", "-m", "precision@3", "--all")
    assert "people graded 30 of 36 drawn pairs so far" in out
    assert "inconclusive" in out
    assert ", p " not in out.split("\n\n")[1]


def test_the_first_grades_of_a_draw_are_enough(auepora: Cli) -> None:
    assert draw(auepora, 30, "-m", "precision@3:min_relevance=2,as=mine")[0] == 0
    grade_first(20)
    (result,) = json.loads(rescore(auepora, "bm25", "--json")[1])["results"]
    details = result["details"]["partial_grades"]
    assert (details["graded"], details["drawn"]) == (20, 30)
    assert (result["name"], "|rel:2|" in result["signature"]) == ("precision@3", True)  # as for the draw


def test_grades_known_before_a_draw_are_certain(auepora: Cli) -> None:
    known = [Grade(*key, grade, "human") for key, grade in TRUTH.items() if key[0] == "q0"]
    write_grades("qrels.txt", [*known, *(one for one in read_grades("qrels.txt").values() if one.sample_id != "q0")])
    assert "people graded 6 before" in draw(auepora, 20, *METRICS)[1]
    record = read_pair_draw("grade.draw.json")
    assert {one.probability for one in record.pairs if one.sample_id == "q0"} == {1.0}
    assert all(one.sample_id != "q0" for one in record.order)
    grade_first(20)
    details = json.loads(rescore(auepora, "bm25", "--json")[1])["results"][0]["details"]["partial_grades"]
    assert (details["graded"], details["known_before"]) == (26, 6)


def test_grades_in_qrels_keep_their_draw(auepora: Cli) -> None:
    assert draw(auepora, 20, *METRICS)[0] == 0
    grade_first(20)
    auepora("pool", "bm25", "dense", "-o", "pool.jsonl")
    assert auepora("judge", "relevance", "pool.jsonl", "--labels", "grade.jsonl", "-o", "qrels.txt")[0] == 0
    grades, record = read_grades("qrels.txt"), read_pair_draw("grade.draw.json")
    for one in record.order:
        found = grades[one.key]
        assert (found.draw, found.probability, found.position) == (record.id, one.probability, one.position)
        assert found.shown == ("query", "history", "text")
    assert rescore(auepora)[0] == 0  # the grades of the model are still in the provenance file


def pick(rows: list[dict[str, object]]) -> None:
    write_rows([{key: row[key] for key in ("sample_id", "doc_id", "grade")} for row in rows])
    Path("grade.draw.json").unlink()


def leave_a_gap(rows: list[dict[str, object]]) -> None:
    write_rows([*rows[:4], rows[4] | {"grade": None}, *rows[5:]])


def stop_early(rows: list[dict[str, object]]) -> None:
    write_rows([row if place < 4 else row | {"grade": None} for place, row in enumerate(rows)])


def add_a_pair(rows: list[dict[str, object]]) -> None:
    drawn = {(row["sample_id"], row["doc_id"]) for row in rows}
    query, document = next(key for key in TRUTH if key not in drawn)
    write_rows([*rows, {"sample_id": query, "doc_id": document, "grade": 2}])


def change_the_draw(rows: list[dict[str, object]]) -> None:
    record = json.loads(Path("grade.draw.json").read_text())
    record["pairs"][0]["probability"] = 0.9
    Path("grade.draw.json").write_text(json.dumps(record))


def remove_a_model_grade(rows: list[dict[str, object]]) -> None:
    write_grades("other.txt", [one for one in read_grades("qrels.txt").values() if one.sample_id != "q3"])
    Path("qrels.txt").write_text(Path("other.txt").read_text())
    Path("qrels.txt.provenance.jsonl").unlink()


REFUSED: list[tuple[Callable[[list[dict[str, object]]], object], str]] = [
    (pick, "the 20 grades have no draw (grade.draw.json is not there)"),
    (leave_a_gap, "is number 5 of the draw and has no grade, but later ones have"),
    (add_a_pair, "has a grade but was not drawn"),
    (change_the_draw, "was changed after the draw"),
    (remove_a_model_grade, "was part of the draw and has no grade here"),
    (stop_early, "pairs that change precision@3; an interval needs"),
    (lambda rows: Path("qrels.txt.provenance.jsonl").unlink(), "is that of a person, and the one of the model is not"),
    (lambda rows: write_rows([row | {"grade": None} for row in rows]), "none of the 20 drawn pairs has a grade"),
    (
        lambda rows: write_rows([row | {"probability": 0} for row in rows]),
        "'probability' must be an inclusion probability, which is above 0",
    ),
    (lambda rows: write_rows([row | {"position": "1"} for row in rows]), "'position' must be an integer"),
    (lambda rows: write_rows([row | {"shown": "all"} for row in rows]), "'shown' must be a list of strings"),
    (lambda rows: Path("grade.draw.json").write_text('{"pairs": 1}'), "is no record of a draw of pairs"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_grades_without_a_valid_draw_are_refused(
    auepora: Cli, change: Callable[[list[dict[str, object]]], object], message: str
) -> None:
    assert draw(auepora, 20, *METRICS)[0] == 0
    grade_first(20)
    change(drawn_rows())
    code, out, err = rescore(auepora)
    assert (code, out) == (2, "")
    assert message in err


def test_all_pairs_need_no_draw(auepora: Cli) -> None:
    write_rows([{"sample_id": query, "doc_id": document, "grade": grade} for (query, document), grade in TRUTH.items()])
    code, out, _ = rescore(auepora, "bm25", "-m", "precision@3", "--json")
    result = json.loads(out)["results"][0]
    assert (code, result["details"]["partial_grades"]["draw"]) == (0, None)
    assert result["value"] == pytest.approx(sum(level(query, 0) > 0 for query in range(QUERIES)) / QUERIES / 3)


def test_grades_of_people_alone_leave_nothing_to_draw(auepora: Cli) -> None:
    Path("qrels.txt.provenance.jsonl").unlink()
    code, _, err = draw(auepora)
    assert (code, "all 48 grades of the pool count as human grades" in err) == (2, True)


USAGE = [  # arguments, message
    (("pool", "bm25", "--draw", "9"), "give --qrels"),
    (("pool", "bm25", "--draw", "9", "--qrels", "qrels.txt", "--new-only"), "without --new-only"),
    (("pool", "bm25", "-m", "recall@3"), "-m is used with --draw"),
    (("pool", "bm25", "--draw", "9", "--qrels", "qrels.txt", "-m", "recall@20"), "pool with --depth 20"),
    (("pool", "bm25", "--draw", "9", "--qrels", "qrels.txt", "-m", "mrr"), "give precision@k, recall@k or ndcg@k"),
    (("pool", "bm25", "--draw", "9", "--qrels", "qrels.txt", "-m", "ndcg@3:gain_scheme=linear"), "binary gain"),
    (("rescore", "bm25", "--grades", "grade.jsonl"), "--grades needs --qrels"),
    (("rescore", "bm25", "--qrels", "qrels.txt", "--draw", "d.json"), "--draw needs --grades"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE, ids=[" ".join(row[0]) for row in USAGE])
def test_options_that_do_not_fit(auepora: Cli, arguments: tuple[str, ...], message: str) -> None:
    code, _, err = auepora(*arguments)
    assert code == 2
    assert message in err
