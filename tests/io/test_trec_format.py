"""TREC files as samples and outputs, and back: levels, scores, the order that must survive."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from auepora_eval.core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.errors import AueporaError, BadValueError, DataFileError, DuplicateIdError
from auepora_eval.io.formats import Role, guess_format
from auepora_eval.io.join import iter_outputs, iter_samples, load_dataset, load_outputs
from auepora_eval.io.problems import Problems
from auepora_eval.io.trec import load_qrels, load_run, save_qrels, save_run
from auepora_eval.io.trec_format import load_topics, load_trec_dataset

QRELS = b"q2 0 d1 2\nq2 0 d2 0\nq1 0 d3 1\nq2 0 d4 -1\nq1 0 d1 1\nq3 0 d9 0\nq4 0 d9 -2\n"
RUN = b"q1 Q0 d2 1 9.5 mine\nq1 Q0 d1 2 9.75 mine\nq2 Q0 d3 1 7 mine\nq1 Q0 d7 3 9.5 mine\n"


def graded_document(doc: str, relevance: int) -> Document:
    return Document(doc, metadata={"relevance": relevance})


def make_run_output(*pairs: tuple[str, float | None]) -> SystemOutputs:
    return SystemOutputs([RetrievedDocument(Document(doc), score, rank) for rank, (doc, score) in enumerate(pairs, 1)])


def write_file(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_qrels_as_samples(tmp_path: Path) -> None:
    dataset = load_dataset(write_file(tmp_path / "dev.qrels", QRELS))
    assert dataset.name == "dev"
    assert list(dataset) == [
        EvaluationSample("q2", "", [graded_document("d1", 2)], [Document("d2")]),
        EvaluationSample("q1", "", [graded_document("d3", 1), graded_document("d1", 1)]),
        EvaluationSample("q3", "", [], [Document("d9")]),
        EvaluationSample("q4", "", []),
    ]


def test_run_as_outputs(tmp_path: Path) -> None:
    got = load_outputs(write_file(tmp_path / "bm25.txt", RUN))
    assert got == {"q1": make_run_output(("d1", 9.75), ("d7", 9.5), ("d2", 9.5)), "q2": make_run_output(("d3", 7.0))}
    assert got["q1"].response is None


def test_all_readers_give_the_same_rankings(tmp_path: Path) -> None:
    irregular = write_file(tmp_path / "irregular.run", RUN.replace(b"d7", b"d\x017"))  # only line by line
    assert {query: [item.doc.doc_id for item in got.retrieved] for query, got in load_outputs(irregular).items()} == {
        "q1": ["d1", "d2", "d\x017"],
        "q2": ["d3"],
    }
    assert [item.score for item in load_outputs(irregular)["q1"].retrieved] == [9.75, 9.5, 9.5]


def test_query_texts_from_topics(tmp_path: Path) -> None:
    qrels = write_file(tmp_path / "dev.qrels", b"1 0 a 1\n")
    topics = write_file(tmp_path / "topics.tsv", "1\twhat is\tit? é\r\n2\tother\n".encode())
    assert load_topics(topics) == {"1": "what is\tit? é", "2": "other"}
    assert [sample.query for sample in load_trec_dataset(qrels, topics=topics)] == ["what is\tit? é"]
    assert load_trec_dataset(qrels, name="mine").name == "mine"
    with pytest.raises(DataFileError, match="query '1' is not in the topics"):
        load_trec_dataset(qrels, topics=write_file(tmp_path / "topics.tsv", b"2\tother\n"))


BAD_TOPICS = [  # content, message after the path
    (b"1 text\n", ":1: expected an id, a tab and a text, found '1 text'"),
    (b"1\ta\n1\tb\n", ":2: query '1' occurs twice; each id may come once"),
    (b"1\t\xe9\n", ":1: byte 0xe9 is not valid UTF-8"),
]


@pytest.mark.parametrize(("content", "message"), BAD_TOPICS, ids=[row[-1] for row in BAD_TOPICS])
def test_bad_topics(tmp_path: Path, content: bytes, message: str) -> None:
    path = write_file(tmp_path / "topics.tsv", content)
    with pytest.raises(DataFileError) as caught:
        load_topics(path)
    assert str(caught.value) == f"{path}{message}"


def test_all_invalid_lines_are_reported(tmp_path: Path) -> None:
    qrels = write_file(tmp_path / "a.qrels", b"q 0 d 1\nq 0 d\n\nq 0 e x\nq 0 f 2\n")
    problems = Problems(collect_all=True)
    samples = [read.sample for read in iter_samples(qrels, "trec", problems)]
    assert [str(problem) for problem in problems.found] == [
        f"{qrels}:2: expected 4 columns (query, iteration, document, level), found 3: 'q 0 d'",
        f"{qrels}:4: the level (column 4) must be an integer, found 'x'",
    ]
    assert samples == [EvaluationSample("q", "", [graded_document("d", 1), graded_document("f", 2)])]
    with pytest.raises(DataFileError, match=":2: expected 4 columns"):
        list(iter_samples(qrels, "trec"))


def test_all_invalid_run_lines_are_reported(tmp_path: Path) -> None:
    run = write_file(tmp_path / "a.run", b"q Q0 d 1 nan t\nq Q0 d 1 2\n\nq Q0 e 1 2 t\n")
    problems = Problems(collect_all=True)
    outputs = [(read.sample_id, read.output) for read in iter_outputs(run, "trec", problems)]
    assert [problem.line for problem in problems.found] == [1, 2]
    assert outputs == [("q", make_run_output(("e", 2.0)))]
    nothing = Problems(collect_all=True)
    assert list(iter_outputs(write_file(run, b"q\n"), "trec", nothing)) == []
    assert len(nothing.found) == 1


# --- writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["out.qrels", "out.qrels.gz", "out.qrels.zst"])
def test_qrels_round_trip(tmp_path: Path, name: str) -> None:
    samples = list(load_dataset(write_file(tmp_path / "dev.qrels", QRELS)))[:3]
    save_qrels(samples, tmp_path / name)
    assert list(load_dataset(tmp_path / name)) == samples
    assert load_qrels(tmp_path / name) == {"q2": {"d1": 2, "d2": 0}, "q1": {"d3": 1, "d1": 1}, "q3": {"d9": 0}}


def test_judged_levels(tmp_path: Path) -> None:
    gold = [Document("a"), graded_document("a", 3), graded_document("b", 0), graded_document("c", -1)]
    save_qrels([EvaluationSample("q", "text", gold, [Document("a"), Document("z")])], tmp_path / "q")
    assert (tmp_path / "q").read_text() == "q 0 a 3\nq 0 b 0\nq 0 c -1\nq 0 z 0\n"


RUNS: list[tuple[SystemOutputs, list[float], str]] = [  # output, scores in the file, why
    (make_run_output(("b", 2.5), ("a", -1.0)), [2.5, -1.0], "the scores give the order"),
    (make_run_output(("b", 1.0), ("a", 1.0)), [1.0, 1.0], "ties by id descending"),
    (make_run_output(("a", 1.0), ("b", 1.0)), [1.0, 1 / 2], "ties the other way round would be turned"),
    (make_run_output(("a", 1.0), ("b", 7.0)), [1.0, 1 / 2], "a reranked list with its old scores"),
    (make_run_output(("a", None), ("b", None), ("c", None)), [1.0, 1 / 2, 1 / 3], "no scores"),
    (make_run_output(("a", 9.0), ("b", None)), [1.0, 1 / 2], "one score is missing"),
    (make_run_output(("a", 3.0), ("a", 3.0)), [3.0, 3.0], "a document twice"),
]


@pytest.mark.parametrize(("output", "scores", "why"), RUNS, ids=[row[-1] for row in RUNS])
def test_ranking_order_is_kept(tmp_path: Path, output: SystemOutputs, scores: list[float], why: str) -> None:
    path = tmp_path / "out.run"
    save_run([("q", output)], path)
    assert [float(line.split()[4]) for line in path.read_text().splitlines()] == scores, why
    assert load_run(path)["q"] == [item.doc.doc_id for item in output.retrieved], why
    assert [item.rank for item in load_outputs(path)["q"].retrieved] == [item.rank for item in output.retrieved]


BAD_SAMPLES = [  # samples, message
    ([EvaluationSample("1", "q")], "sample '1' cannot be written: it has no judged document"),
    ([EvaluationSample("1", "q", [])], "sample '1' cannot be written: it has no judged document"),
    ([EvaluationSample("a b", "q", [Document("d")])], "the id 'a b' is empty or holds white space"),
    ([EvaluationSample("1", "q", [Document("")])], "sample '1' cannot be written: the id '' is empty"),
    ([EvaluationSample("1", "q", [Document("\ufeffd")])], "the id '\\ufeffd' is empty or holds white space"),
    ([EvaluationSample("1", "q", [Document("\ud800")])], "the id '\\ud800' is not valid text"),
    ([EvaluationSample("1", "q", [Document("d", metadata={"relevance": 0.5})])], "it must be an integer"),
    ([EvaluationSample("1", "q", [Document("d")])] * 2, "sample_id '1' occurs twice"),
]


@pytest.mark.parametrize(("samples", "message"), BAD_SAMPLES, ids=[ascii(row[-1]) for row in BAD_SAMPLES])
def test_unwritable_qrels(tmp_path: Path, samples: list[EvaluationSample], message: str) -> None:
    with pytest.raises((BadValueError, DuplicateIdError)) as caught:
        save_qrels(samples, tmp_path / "out.qrels")
    assert message in str(caught.value)
    assert list(tmp_path.iterdir()) == []


BAD_OUTPUTS = [  # output, message
    (SystemOutputs([], Response("x")), "the output for sample 'q' cannot be written: it retrieved nothing"),
    (make_run_output(("a", float("nan"))), "the output for sample 'q' cannot be written: a score is NaN"),
    (make_run_output(("a", "high")), "a score is not a number"),  # type: ignore[arg-type]
    (make_run_output(("a\n", 1.0)), "the id 'a\\n' is empty or holds white space"),
]


@pytest.mark.parametrize(("output", "message"), BAD_OUTPUTS, ids=[row[-1] for row in BAD_OUTPUTS])
def test_unwritable_runs(tmp_path: Path, output: SystemOutputs, message: str) -> None:
    with pytest.raises(BadValueError) as caught:
        save_run([("q", output)], tmp_path / "out.run")
    assert message in str(caught.value)


ids = st.text(st.characters(codec="utf-8"), min_size=1).filter(
    lambda text: text.encode().split() == [text.encode()] and not text.startswith("\ufeff")
)
finite = st.floats(allow_nan=False)


def test_query_id_that_would_begin_a_comment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        BadValueError, match=r"'#' cannot be written: a line of qrels that begins with '# ' is a comment"
    ):
        save_qrels([EvaluationSample("#", "q", relevant_docs=[Document("d")])], tmp_path / "a.qrels")


@given(st.dictionaries(ids.filter("#".__ne__), st.dictionaries(ids, st.integers(0, 9), min_size=1), min_size=1))
def test_any_qrels_round_trip(tmp_path_factory: pytest.TempPathFactory, judged: dict[str, dict[str, int]]) -> None:
    path = tmp_path_factory.getbasetemp() / "any.qrels"
    path.write_bytes(b"".join(f"{q} 0 {d} {n}\n".encode() for q, levels in judged.items() for d, n in levels.items()))
    samples = [read.sample for read in iter_samples(path, "trec")]
    save_qrels(samples, path)
    assert load_qrels(path) == judged
    assert [read.sample for read in iter_samples(path, "trec")] == samples


@given(st.dictionaries(ids, st.lists(st.tuples(ids, st.none() | finite), min_size=1, max_size=5), min_size=1))
def test_any_run_keeps_its_order(
    tmp_path_factory: pytest.TempPathFactory, run: dict[str, list[tuple[str, float | None]]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.run"
    save_run([(query, make_run_output(*pairs)) for query, pairs in run.items()], path)
    read = {one.sample_id: one.output for one in iter_outputs(path, "trec")}
    assert {query: [item.doc.doc_id for item in output.retrieved] for query, output in read.items()} == {
        query: [doc for doc, _ in pairs] for query, pairs in run.items()
    }
    save_run(read.items(), path)
    assert {one.sample_id: one.output for one in iter_outputs(path, "trec")} == read


@given(st.lists(st.sampled_from([QRELS, RUN, b"q 0 ", b"\xff", b"\r", b"\t", b"nan ", b"1 1 ", b"\n"]), max_size=8))
def test_random_files_raise_only_our_errors(tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]) -> None:
    path = write_file(tmp_path_factory.getbasetemp() / "fuzz.trec", b"".join(pieces))
    for read in (iter_samples, iter_outputs):
        for collect_all in (False, True):
            problem = str(path)
            try:
                list(read(path, "trec", Problems(collect_all=collect_all)))
            except AueporaError as error:
                problem = str(error)
            assert problem.startswith(str(path))


GUESSES: list[tuple[str, bytes, Role, str]] = [  # name, content, role, format
    ("a.txt", QRELS, "samples", "trec"),
    ("a.run", RUN, "outputs", "trec"),
    ("a.jsonl", b'{"sample_id": "1", "query": "q"}\n', "samples", "jsonl"),
    ("a.tsv", b"q1\t0\td1\t1", "samples", "trec"),
]


@pytest.mark.parametrize(("name", "content", "role", "want"), GUESSES)
def test_format_detection(tmp_path: Path, name: str, content: bytes, role: Role, want: str) -> None:
    path = write_file(tmp_path / name, content)
    assert guess_format(path, role).name == want
    other: Role = "outputs" if role == "samples" else "samples"
    if want == "trec":
        with pytest.raises(DataFileError, match="this looks like"):
            guess_format(path, other)
