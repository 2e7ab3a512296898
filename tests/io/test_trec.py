"""TREC qrels and runs are read as trec_eval reads them."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from auepora_eval.errors import AueporaError, BadValueError, DataFileError
from auepora_eval.io.trec import (
    Reader,
    arrow_is_installed,
    load_qrels,
    load_run,
    queries_without_judgements,
    trec_rankings,
)
from helpers.requirements import need_data


@pytest.fixture(params=["python", "arrow"] if arrow_is_installed() else ["python"])
def reader(request: pytest.FixtureRequest) -> Reader:
    name: Reader = request.param
    return name


def write_file(path: Path, data: str | bytes) -> Path:
    content = data.encode() if isinstance(data, str) else data
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


# --- runs ------------------------------------------------------------------------------------------------------------

RUN_ROWS = [  # document and score of each line, want, why
    ("a:3 b:2 c:1", "a b c", "already in order"),
    ("a:1 b:2 c:3", "c b a", "by score"),
    ("a:1 b:1 c:1", "c b a", "ties by id, descending"),
    ("a:2 c:1 b:1", "a c b", "ties already in order"),
    ("a:1 b:1.0 c:1e0", "c b a", "numbers tie, not their texts"),
    ("a:10 b:9", "a b", "numbers, not texts"),
    ("a:-1 b:-2 c:0", "c a b", "negative scores"),
    ("a:1 b:inf c:-inf", "b a c", "infinite scores have their place"),
    ("a:2 b:1 a:0", "a b a", "a document that occurs twice is kept"),
    ("Z:1 a:1 é:1 \uffff:1 \U0001f600:1", "\U0001f600 \uffff é a Z", "ids compare as UTF-8 bytes"),
    ("a10:1 a9:1", "a9 a10", "ids compare as texts"),
    ("a:1 a\xa0b:2", "a\xa0b a", "a no-break space is part of an id"),
]


@pytest.mark.parametrize(("lines", "want", "why"), RUN_ROWS, ids=[row[-1] for row in RUN_ROWS])
def test_ranking(tmp_path: Path, reader: Reader, lines: str, want: str, why: str) -> None:
    pairs = [line.split(":") for line in lines.split(" ")]
    run = "".join(f"q Q0 {doc} {rank} {score} tag\n" for rank, (doc, score) in enumerate(pairs))
    assert load_run(write_file(tmp_path / "run", run), reader=reader) == {"q": want.split(" ")}, why


FORMS = [  # content, why
    (b"q Q0 a 1 2 t\nq Q0 b 2 1 t\n", "plain"),
    (b"q\tQ0\ta\t1\t  2\tt\r\nq Q0 b 2 1 t", "tabs, spaces, Windows line ends"),
    (b"\xef\xbb\xbf\nq Q0 a 1 2 t\n\n  \nq Q0 b 2 1 t\n", "byte order mark and blank lines"),
    (b"q Q0 b x 1 t more junk\nq Q0 a x 2 t \xc3\xa9 1 2 3\n", "the rank and what follows the tag do not count"),
]


@pytest.mark.parametrize("name", ["run", "run.gz"])
@pytest.mark.parametrize(("content", "why"), FORMS, ids=[row[-1] for row in FORMS])
def test_run_forms(tmp_path: Path, reader: Reader, content: bytes, name: str, why: str) -> None:
    assert load_run(write_file(tmp_path / name, content), reader=reader) == {"q": ["a", "b"]}, why


def test_queries_keep_file_order_and_may_be_interleaved(tmp_path: Path, reader: Reader) -> None:
    run = "q2 Q0 a 1 1 t\nq1 Q0 x 1 1 t\nq2 Q0 b 2 2 t\nq1 Q0 y 2 .5 t\n"
    got = load_run(write_file(tmp_path / "run", run), reader=reader)
    assert list(got.items()) == [("q2", ["b", "a"]), ("q1", ["x", "y"])]


@given(st.lists(st.tuples(st.text("aé\uffff\U0001f600Z9", min_size=1, max_size=3), st.integers(-2, 2)), min_size=1))
def test_order_equals_plain_sort(tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, int]]) -> None:
    run = "".join(f"q Q0 {doc} 0 {score} t\n" for doc, score in pairs)
    got = load_run(write_file(tmp_path_factory.getbasetemp() / "run", run))
    # str compares code points, which is the order of the UTF-8 bytes
    assert got == {"q": [doc for doc, _ in sorted(pairs, key=lambda pair: (pair[1], pair[0]), reverse=True)]}


SIX, FOUR = "6 columns (query, Q0, document, rank, score, tag)", "4 columns (query, iteration, document, level)"
BAD_RUNS: list[tuple[bytes, str]] = [  # content, the message after the path
    (b"q Q0 a 1 2 t\nq Q0 a 1 2\n", f":2: expected {SIX}, found 5: 'q Q0 a 1 2'"),
    (b"q 0 a 1\n", f":1: expected {SIX}, found 4 (is this a qrels file?): 'q 0 a 1'"),
    (b"\n\nq Q0 a 1 high t\n", ":3: the score (column 5) must be a number, found 'high'"),
    (b"q Q0 a 1 nan t\n", ":1: the score (column 5) must be a number, found 'nan'"),
    (b"q Q0 a 1 1_0 t\n", ":1: the score (column 5) must be a number, found '1_0'"),
    (b"q Q0 a 1 2 t\nq Q0 caf\xe9 1 2 t\n", ":2: byte 0xe9 is not valid UTF-8"),
    (b"", ": the file is empty; each line must be 'query Q0 document rank score tag'"),
    (b"\xff\xfeq\x00", ":1: the file is UTF-16; save it as UTF-8"),
]
BAD_QRELS: list[tuple[bytes, str]] = [  # content, the message after the path
    (b"q 0 a 1\nq a 1\n", f":2: expected {FOUR}, found 3: 'q a 1'"),
    (b"q 0 a 1 x\n", f":1: expected {FOUR}, found 5: 'q 0 a 1 x'"),
    (b"q Q0 a 1 2.5 tag\n", f":1: expected {FOUR}, found 6 (is this a run file?): 'q Q0 a 1 2.5 tag'"),
    (b"q " * 90, f":1: expected {FOUR}, found 90: '{('q ' * 50)[:77]}...'"),
    (b"q 0 a 1\nq 0 b 1.0\n", ":2: the level (column 4) must be an integer, found '1.0'"),
    (b"q 0 a yes\n", ":1: the level (column 4) must be an integer, found 'yes'"),
    (b"q 0 a 1_0\n", ":1: the level (column 4) must be an integer, found '1_0'"),
    (b"\n\n", ": the file is empty; each line must be 'query iteration document level'"),
    (b"\x1f\x8b", ": is compressed with gzip; give it a name that ends in '.gz'"),
]


@pytest.mark.parametrize(
    ("load", "content", "message"),
    [(load_run, *row) for row in BAD_RUNS] + [(load_qrels, *row) for row in BAD_QRELS],
    ids=[message[:60] for _, message in BAD_RUNS + BAD_QRELS],
)
def test_bad_files(tmp_path: Path, reader: Reader, load: Callable[..., object], content: bytes, message: str) -> None:
    path = write_file(tmp_path / "file", content)
    with pytest.raises(DataFileError) as caught:
        load(path, reader=reader)
    assert str(caught.value) == f"{path}{message}"


@given(st.binary(max_size=60) | st.text("q0 aé1.\n\t-_e", max_size=40).map(str.encode))
def test_random_files_raise_only_our_errors(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz"
    path.write_bytes(content)
    for load in (load_qrels, load_run):
        problem = str(path)
        try:
            assert load(path)
        except AueporaError as error:
            problem = str(error)
        assert problem.startswith(str(path))


# --- qrels -----------------------------------------------------------------------------------------------------------


def test_qrels_keep_order_and_highest_level(tmp_path: Path, reader: Reader) -> None:
    qrels = "q2 0 b 1\nq1 0 é -2\r\n\nq2 0 a 0\nq2 0 b 3\nq2 0 a -1\nq2 0 c +1\n"
    got = load_qrels(write_file(tmp_path / "qrels.gz", qrels), reader=reader)
    assert [(query, list(levels.items())) for query, levels in got.items()] == [
        ("q2", [("b", 3), ("a", 0), ("c", 1)]),
        ("q1", [("é", -2)]),
    ]


# --- both together ---------------------------------------------------------------------------------------------------


def test_rankings_follow_the_qrels() -> None:
    qrels, run = {"1": {"a": 1}, "2": {"b": 0}}, {"3": ["x"], "2": ["b", "a"]}
    assert trec_rankings(qrels, run) == (["1", "2"], [{"a": 1}, {"b": 0}], [None, ["b", "a"]])
    assert queries_without_judgements(qrels, run) == ["3"]


def test_no_common_query() -> None:
    with pytest.raises(BadValueError) as caught:
        trec_rankings({"301": {"a": 1}}, {"q301": ["a"]})
    assert str(caught.value) == (
        "qrels and run share no query: the first query of the qrels is '301', of the run 'q301'; do the two belong "
        "together?"
    )


# --- NIST's own files ------------------------------------------------------------------------------------------------


def test_results_of_trec_eval(reader: Reader) -> None:
    run = load_run(need_data("trec_eval", "results.test"), reader=reader)
    assert {query: len(docs) for query, docs in run.items()} == {"301": 500, "302": 500, "303": 500}
    assert all(len(set(docs)) == 500 for docs in run.values())
    # the first two of each by `LC_ALL=C sort -k5,5gr -k3,3r`
    assert [docs[:2] for docs in run.values()] == [
        ["FBIS4-50478", "FBIS3-21938"],
        ["FR940126-2-00106", "FBIS4-67701"],
        ["LA033090-0082", "LA040190-0178"],
    ]


def test_run_with_text_after_the_tag() -> None:
    run = load_run(need_data("trec_eval", "results.trunc"))
    assert {query: len(docs) for query, docs in run.items()} == {"301": 500, "303": 84}


QRELS_ROWS = [  # file, queries, judgements, of which level -1 and level 4
    ("qrels.test", 3, 3681, 0, 0),
    ("qrels.rel_level", 3, 3681, 304, 6),
    ("qrels-302.test", 1, 1061, 0, 0),
    ("qrels.123", 3, 3733, 304, 9),  # 10,362 lines: several judgements of a document, of which the highest counts
]


@pytest.mark.parametrize(("name", "queries", "judgements", "negative", "top"), QRELS_ROWS)
def test_qrels_of_trec_eval(reader: Reader, name: str, queries: int, judgements: int, negative: int, top: int) -> None:
    qrels = load_qrels(need_data("trec_eval", name), reader=reader)
    levels = [level for by_doc in qrels.values() for level in by_doc.values()]
    assert (len(qrels), len(levels), levels.count(-1), levels.count(4)) == (queries, judgements, negative, top)


# --- comments --------------------------------------------------------------------------------------------------------

COMMENTED = [  # qrels, want, why
    ("# judged in May\nq 0 a 1\n", {"q": {"a": 1}}, "first line"),
    ("q 0 a 1\n#by Ada\n  # indented\nq 0 b 0\n", {"q": {"a": 1, "b": 0}}, "between lines"),
    ("# q 0 1\nq 0 a 1\n", {"q": {"a": 1}}, "four words after a lone #"),
    ("#query iteration document level\nq 0 a 1", {"q": {"a": 1}}, "names of columns"),
    ("#q 0 a 1\nq 0 b 1\n", {"#q": {"a": 1}, "q": {"b": 1}}, "an id that begins with #"),
    ("q 0 #a 1\n", {"q": {"#a": 1}}, "a document that begins with #"),
]


@pytest.mark.parametrize(("qrels", "want", "why"), COMMENTED, ids=[row[-1] for row in COMMENTED])
def test_comments_in_qrels(tmp_path: Path, reader: Reader, qrels: str, want: object, why: str) -> None:
    assert load_qrels(write_file(tmp_path / "qrels", qrels), reader=reader) == want, why


def test_commented_qrels_on_the_command_line(tmp_path: Path, auepora: Callable[..., tuple[int, str, str]]) -> None:
    qrels = write_file(tmp_path / "qrels.txt", "# judged by two people\nq1 0 a 1\n# second topic\nq2 0 b 1\n")
    run = write_file(tmp_path / "run.txt", "q1 Q0 a 1 1.0 t\nq2 Q0 x 1 2.0 t\nq2 Q0 b 2 1.0 t\n")
    code, out, _ = auepora("score", "--qrels", str(qrels), "--run", str(run), "-m", "mrr", "--all")
    assert (code, "0.7500" in out) == (0, True)
    code, out, _ = auepora("score", str(qrels), str(run), "-m", "mrr", "--all")  # the format is guessed
    assert (code, "0.7500" in out) == (0, True)
    assert auepora("validate", str(qrels))[0] == 0
    with pytest.raises(DataFileError, match=r":3: .*4 columns"):  # lines are counted with their comments
        load_qrels(write_file(tmp_path / "bad", "# one\nq 0 a 1\nq a 1\n"))
    with pytest.raises(DataFileError, match="the file is empty"):
        load_qrels(write_file(tmp_path / "empty", "# nothing\n"))
