"""The fast readers of TREC files give what reading line by line gives, whatever is in the file."""

import importlib.util
import itertools
import random
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from auepora_eval.errors import AueporaError, BadValueError, DataFileError, MissingDependencyError
from auepora_eval.io import trec
from auepora_eval.io.problems import Problems
from auepora_eval.io.trec import (
    QRELS,
    RUN,
    Reader,
    TrecLayout,
    arrow_is_installed,
    load_qrels,
    load_run,
    read_with_arrow,
    read_with_numpy,
)
from auepora_eval.runtime.files import read_bytes
from helpers.requirements import examples


def run_by_line(path: Path, data: bytes) -> dict[str, list[str]]:
    return {query: docs for query, (docs, _) in trec._run_by_line(path, data, Problems()).items()}


INSTALLED: list[Reader] = ["python", "arrow"] if arrow_is_installed() else ["python"]
Load = Callable[..., Mapping[str, object]]
LOADS: dict[str, tuple[Load, Load]] = {  # what is called, and what it must equal
    "run": (load_run, run_by_line),
    "qrels": (load_qrels, lambda path, data: trec._qrels_by_line(path, data, Problems())),
}
needs_arrow = pytest.mark.skipif("arrow" not in INSTALLED, reason="pyarrow is not installed")


@pytest.fixture(params=INSTALLED)
def reader(request: pytest.FixtureRequest) -> Reader:
    name: Reader = request.param
    return name


def outcome(load: Load, *arguments: object, **options: object) -> object:
    """Return the result with the order of its keys, or the message of the error."""
    try:
        read = load(*arguments, **options)
    except AueporaError as error:
        return str(error)
    return [(query, list(value.items()) if isinstance(value, dict) else value) for query, value in read.items()]


def assert_all_agree(path: Path) -> None:
    for load, by_line in LOADS.values():
        try:
            want = outcome(by_line, path, read_bytes(path))
        except AueporaError as error:
            want = str(error)
        for name in INSTALLED:
            assert outcome(load, path, reader=name) == want, name


@pytest.fixture(params=["blocks of a megabyte", "blocks of 48 bytes"])
def block_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks, so that the borders of large files come up in small ones."""
    if request.param == "blocks of 48 bytes":
        monkeypatch.setattr(trec, "_BLOCK_BYTES", 48)


# --- generated files -------------------------------------------------------------------------------------------------

ODD_IDS = [
    "NA",
    "null",
    "nan",
    "NaN",
    "",
    '"',
    "'",
    '"a',
    'a"b',
    '""',
    "\\",
    "a\\",
    "a,b",
    "#N/A",
    "true",
    "1",
    "01",
    "0x1",
]
ODD_IDS += ["é", "\U0001f600", "\uffff", "a\xa0b", "\ufeff", "12345678", "123456789", "a-very-long-id" * 6, "\x7f"]
IDS = st.sampled_from([one for one in ODD_IDS if one]) | st.text("ab\"'\\é", min_size=1, max_size=9)
ODD_SCORES = [
    "0",
    "-0",
    "-0.0",
    "0.0",
    "00",
    "007",
    "+1",
    ".5",
    "5.",
    "1e3",
    "1E-3",
    "1e400",
    "-1e400",
    "1e-400",
    "inf",
]
ODD_SCORES += ["-Infinity", "INF", "9007199254740993", "18446744073709551616", "1" * 40, "0.1", "0.10000000000000001"]
BAD_NUMBERS = [
    "nan",
    "-nan",
    "nan(1)",
    "1_0",
    "1,5",
    "high",
    "0x10",
    "1e",
    "-",
    "[1]",
    "null",
    "true",
    '"1"',
    "1d",
    "--1",
    "1.0f",
]
SCORES = (
    st.sampled_from(ODD_SCORES)
    | st.integers(-3, 3).map(str)
    | st.floats(allow_nan=False).map(repr)
    | st.decimals(-100, 100, places=6).map(str)
)
LEVELS = st.integers(-2, 3).map(str) | st.sampled_from(["+1", "01", "-0", "1" * 30])
BAD_LEVELS = ["1.0", "0x10", "1_0", "yes", "1e2", "٣"]
SPACES = [" ", "\t", "  ", " \t", "\r", "\x0b", "\x0c"]


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Runs or qrels: mostly regular, sometimes with irregular or invalid lines."""
    wild = draw(st.booleans())
    levels = draw(st.booleans())
    numbers = LEVELS if levels else SCORES
    if wild:
        numbers |= st.sampled_from(BAD_LEVELS if levels else BAD_NUMBERS)
    space = st.just(draw(st.sampled_from(SPACES[:2])))
    if wild:
        space |= st.sampled_from(SPACES)
    queries = draw(st.lists(IDS, min_size=1, max_size=3))
    lines = []
    for _ in range(draw(st.integers(1, 12))):
        columns = [draw(st.sampled_from(queries)), "Q0", draw(IDS), draw(numbers)]
        if not levels:
            columns[3:3] = ["1"]
            columns.append("tag")
        if wild and draw(st.integers(0, 9)) == 0:
            columns = columns[: draw(st.integers(0, 6))] + draw(st.lists(IDS, max_size=3))
        line = "".join(column + draw(space) for column in columns)
        lines.append(line[:-1] if not wild or draw(st.booleans()) else draw(space) + line)
    ends = st.sampled_from(["\n", "\n", "\r\n", "\n\n", "\n \n"]) if wild else st.just("\n")
    text = "".join(line + draw(ends) for line in lines)
    if wild and draw(st.integers(0, 9)) == 0:
        text = draw(st.sampled_from(["\ufeff", "\ufeff\ufeff", "\n", " "])) + text
    return (text if draw(st.booleans()) else text.rstrip("\n")).encode()


@pytest.mark.slow
@settings(max_examples=examples(400), deadline=None)
@given(files())
@example(b"q Q0 a 1 2 t\nq Q0 b 2 1 t\n")
def test_readers_agree(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "generated"
    path.write_bytes(content)
    assert_all_agree(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trec, "_BLOCK_BYTES", 48)
        assert_all_agree(path)


@settings(max_examples=examples(200), deadline=None)
@given(st.binary(max_size=60) | st.text("q0 aé1.\n\t\r-_e\x00\x0b\x1c", max_size=60).map(str.encode))
def test_readers_agree_on_anything(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "anything"
    path.write_bytes(content)
    assert_all_agree(path)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(SCORES, min_size=1, max_size=30))
@example(ODD_SCORES)
def test_scores_equal_float(texts: list[str]) -> None:
    data = "".join(f"q Q0 d 1 {text} t\n" for text in texts).encode()
    want = np.array([float(text) for text in texts])
    for read in [read_with_numpy] + ([read_with_arrow] if "arrow" in INSTALLED else []):
        lines = read(data, RUN)
        if lines is not None:  # else it is read line by line, by float()
            assert (lines.values == want).all()  # to the last bit, but for the sign of zero, which orders nothing


SCORE_TEXTS: list[tuple[str, str]] = [  # scores, why
    ("1.25 -0.50 100.00", "two decimals each"),
    (".5 5.5", "no digit before the point"),
    ("5. 17.", "no digit behind it"),
    ("3 -12 007", "whole numbers"),
    ("-0.0 0.0", "a zero with a sign"),
    ("1234567890.012345 1.000000", "more digits than a double represents exactly"),
    ("1.25 5", "whole numbers among others, behind a rank that ends in a point"),
    ("1.25 1.5.", "two points"),
    ("5. .", "a point alone"),
    ("5 -", "a sign alone"),
    ("1.5 +2.5", "a plus"),
    ("1.5 1e5", "an exponent"),
    ("1.5 nan", "no number"),
]


@pytest.mark.parametrize(("scores", "why"), SCORE_TEXTS, ids=[row[-1] for row in SCORE_TEXTS])
def test_forms_of_scores(tmp_path: Path, scores: str, why: str) -> None:
    path = tmp_path / "run"
    path.write_text("".join(f"query Q0 doc{n} 1. {score} t\n" for n, score in enumerate(scores.split())))
    assert_all_agree(path)


# --- files that would fool a reader that counts ----------------------------------------------------------------------

SIX, FOUR = "6 columns (query, Q0, document, rank, score, tag)", "4 columns (query, iteration, document, level)"
BAD_SCORE = ":2: the score (column 5) must be a number, found '{}'"
FOOLING: list[tuple[bytes, str]] = [  # a run, the message after the path
    (b"q Q0 a 1 2\nq Q0 b 2 1 t x\n", f":1: expected {SIX}, found 5: 'q Q0 a 1 2'"),
    (b"q Q0 b 2 1 t x\nq Q0 a 1 2\n", f":2: expected {SIX}, found 5: 'q Q0 a 1 2'"),
    (b"q Q0 a\n1 2 t\n", f":1: expected {SIX}, found 3: 'q Q0 a'"),
    (b" q Q0 a 1 2\n", f":1: expected {SIX}, found 5: 'q Q0 a 1 2'"),
    (b"q Q0 a 1 2 \n", f":1: expected {SIX}, found 5: 'q Q0 a 1 2'"),
    (b"q  a 1 2 t\n", f":1: expected {SIX}, found 5: 'q  a 1 2 t'"),
    (b"q Q0 a 1 2 t\nq Q0 b 1 2\n t\n", f":2: expected {SIX}, found 5: 'q Q0 b 1 2'"),
    (b'"q Q0" a 1 2 t\nq Q0 a 1 2\n', f":2: expected {SIX}, found 5: 'q Q0 a 1 2'"),
    (b"q Q0 a\x1c1 2 t\n", f":1: expected {SIX}, found 5: 'q Q0 a\\x1c1 2 t'"),
    (b"q Q0 a 1 2,3 t\nq Q0 a 1 [ t\n", ":1: the score (column 5) must be a number, found '2,3'"),
]
FOOLING += [(b"q Q0 a 1 2 t\nq Q0 b 1 %b t\n" % bad.encode(), BAD_SCORE.format(bad)) for bad in BAD_NUMBERS]
ACCEPTED: list[tuple[bytes, dict[str, list[str]], str]] = [  # a run, want, why
    (b"q\tQ0 a 1 2 t x\n", {"q": ["a"]}, "tab and space are both white space"),
    (b"q Q0 a 1 2 t\nr\tQ1 Q0 b 1 2 t\n", {"q": ["a"], "r": ["Q0"]}, "a tab that makes up for a column"),
    (b"q Q0 a 1 2 t\rq Q0 b 1 2 t\n", {"q": ["a"]}, "a lone carriage return ends no line"),
    (b"q Q0 a\x00 1 2 t\n", {"q": ["a\x00"]}, "a zero byte is part of an id"),
    (b"q\x00 Q0 a 1 2 t\nq Q0 a 1 2 t\n", {"q\x00": ["a"], "q": ["a"]}, "and makes it another id"),
    (b"q\x1fr Q0 a 1 2 t\n", {"q\x1fr": ["a"]}, "so is a unit separator, where str.split would cut"),
    (b"q\x0bQ0\x0ca 1 2 t\n", {"q": ["a"]}, "vertical tab and form feed are white space"),
    (b"\xef\xbb\xbf\xef\xbb\xbfq Q0 a 1 2 t\n", {"\ufeffq": ["a"]}, "only one byte order mark is dropped"),
    (b'q Q0 "a 1 2 t\nq Q0 b" 1 1 t\n', {"q": ['"a', 'b"']}, "a quote is a letter"),
    (b"q Q0 NA 1 2 t\nnull Q0 \\N 1 2 t\n", {"q": ["NA"], "null": ["\\N"]}, "no id means a missing value"),
    (b"q Q0 a 1 +2 t\nq Q0 b 1 .5e1 t\n", {"q": ["b", "a"]}, "numbers that JSON does not know"),
    (
        b"q Q0 a 1 9007199254740992 t\nq Q0 b 1 9007199254740993 t\n",
        {"q": ["b", "a"]},
        "integers become doubles, and tie",
    ),
    (b"q 0 a 1 5 t\nq 0 b 1 123456789012345 t\n", {"q": ["b", "a"]}, "a score longer than what precedes the first"),
    (b"q Q0 a 1 0.0 t\nq Q0 b 1 -0.0 t\n", {"q": ["b", "a"]}, "zeros tie, whatever their sign"),
    (
        b"long-query Q0 a 1 1 t\nq Q0 b 1 1 t\nlong-query Q0 c 1 2 t\n",
        {"long-query": ["c", "a"], "q": ["b"]},
        "long ids",
    ),
]


@pytest.mark.usefixtures("block_size")
@pytest.mark.parametrize(("content", "message"), FOOLING, ids=[row[1][:50] for row in FOOLING])
def test_lines_that_fast_readers_reject(tmp_path: Path, reader: Reader, content: bytes, message: str) -> None:
    path = tmp_path / "run"
    path.write_bytes(content)
    with pytest.raises(DataFileError) as caught:
        load_run(path, reader=reader)
    assert str(caught.value) == f"{path}{message}"


@pytest.mark.usefixtures("block_size")
@pytest.mark.parametrize(("content", "want", "why"), ACCEPTED, ids=[row[-1] for row in ACCEPTED])
def test_lines_that_fast_readers_accept(
    tmp_path: Path, reader: Reader, content: bytes, want: dict[str, list[str]], why: str
) -> None:
    path = tmp_path / "run"
    path.write_bytes(content)
    assert list(load_run(path, reader=reader).items()) == list(want.items()), why


REGULAR: list[tuple[bytes, str]] = [  # a run, why a fast reader must not give it back
    (b"q Q0 a 1 2 t\nq Q0 \xc3\xa9 2 1e1 t\n", "spaces"),
    (b"q\tQ0\ta\t1\t2.5\tt\nq\tQ0\tb\t2\t1\tt", "tabs, and no line end at the end"),
    (b"q Q0 a 1 2 t\r\n\r\nq\tQ0  b 2 1 t more\r\n", "anything else, by the Python reader"),
]


@pytest.mark.parametrize(("content", "why"), REGULAR, ids=[row[-1] for row in REGULAR])
def test_fast_readers_are_used(content: bytes, why: str) -> None:
    assert read_with_numpy(content, RUN) is not None
    if "arrow" in INSTALLED:
        assert (read_with_arrow(content, RUN) is not None) == ("Python" not in why)


ASCENDING = [
    "a",
    "a" * 7,
    "a" * 8,
    "a" * 8 + "b",
    "a" * 16,
    "ab",
    "é" * 40,
    "é" * 40 + "a",
    "é" * 41,
    "é" * 41 + "a",
    "\U0001f600",
]


@pytest.mark.parametrize("shuffled", [False, True], ids=["in order", "shuffled"])
def test_tied_pairs(tmp_path: Path, reader: Reader, shuffled: bool) -> None:
    pairs = list(itertools.product(ASCENDING, repeat=2))
    run = [f"{number} Q0 {doc} 1 1 t\n" for number, pair in enumerate(pairs) for doc in pair]
    if shuffled:
        random.Random(3).shuffle(run)
    (tmp_path / "run").write_text("".join(run))
    got = load_run(tmp_path / "run", reader=reader)
    assert [got[str(number)] for number in range(len(pairs))] == [sorted(pair, reverse=True) for pair in pairs]


# --- large files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shuffled", [False, True], ids=["in order", "shuffled"])
def test_several_blocks(tmp_path: Path, reader: Reader, shuffled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trec, "_BLOCK_BYTES", 1 << 18)
    rng = random.Random(5)
    names = [f"q{number}" if number % 3 else f"query-{number}" for number in range(200)]
    run = [f"{q} Q0 d{rng.randrange(999)} 1 {rng.randrange(50) / 8} t\n" for q in names for _ in range(100)]
    qrels = [f"{q} 0 d{rng.randrange(60)} {rng.randrange(-1, 4)}\n" for q in names for _ in range(100)]
    if shuffled:
        rng.shuffle(run)
        rng.shuffle(qrels)
    (tmp_path / "run").write_text("".join(run))
    (tmp_path / "qrels").write_text("".join(qrels))
    assert (tmp_path / "run").stat().st_size > 1.5 * (1 << 18)
    for kind, (load, by_line) in LOADS.items():
        path = tmp_path / kind
        assert outcome(load, path, reader=reader) == outcome(by_line, path, path.read_bytes())
    read = read_with_numpy if reader == "python" else read_with_arrow
    assert read((tmp_path / "run").read_bytes(), RUN) is not None
    assert read((tmp_path / "qrels").read_bytes(), QRELS) is not None


def test_more_than_65536_queries(tmp_path: Path, reader: Reader) -> None:
    names = list(map(str, range(70_000)))
    (tmp_path / "run").write_text("".join(f"{q} Q0 {doc} 1 {doc} t\n" for doc in (1, 2) for q in names))
    got = load_run(tmp_path / "run", reader=reader)
    assert list(got) == names
    assert all(docs == ["2", "1"] for docs in got.values())


def test_line_longer_than_a_block(tmp_path: Path, reader: Reader) -> None:
    long = "x" * (3 << 20)
    (tmp_path / "run").write_text(f"q Q0 a 1 1 t\nq Q0 {long} 1 2 t\nq Q0 b 1 1 {long}")
    assert load_run(tmp_path / "run", reader=reader) == {"q": [long, "b", "a"]}


# --- which reader ----------------------------------------------------------------------------------------------------


@pytest.fixture
def without_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyarrow" else found(name))


@pytest.fixture
def small_run(tmp_path: Path) -> Path:
    (tmp_path / "run").write_text("q Q0 a 1 1 t\n")
    return tmp_path / "run"


def fails(*arguments: object) -> None:
    raise AssertionError("the wrong reader")


@needs_arrow
@pytest.mark.parametrize(("smallest", "wrong"), [(0, "read_with_numpy"), (1000, "read_with_arrow")])
def test_arrow_reads_large_files(small_run: Path, monkeypatch: pytest.MonkeyPatch, smallest: int, wrong: str) -> None:
    monkeypatch.setattr(trec, "_MIN_ARROW_BYTES", smallest)
    monkeypatch.setattr(trec, wrong, fails)
    assert load_run(small_run) == {"q": ["a"]}


REFUSED_BY_ARROW: list[tuple[str, str, str]] = [  # space between columns, line end, why
    (" ", "\r\n", "Windows line ends"),
    ("\t", " \n", "a space at the end of each line"),
    (" \t", "\n", "mixed white space"),
    ("  ", "\n", "columns set apart"),
    (" ", "\n\n", "blank lines"),
]


@needs_arrow
@pytest.mark.usefixtures("block_size")
@pytest.mark.parametrize(("space", "end", "why"), REFUSED_BY_ARROW, ids=[row[-1] for row in REFUSED_BY_ARROW])
@pytest.mark.parametrize("kind", ["run", "qrels"])
def test_files_that_arrow_rejects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, space: str, end: str, why: str
) -> None:
    last = ["1 2.5 tag", "1 2.5 tag", "1 3 tag"] if kind == "run" else ["0", "2", "-1"]
    rows = [f"{query} Q0 {doc} {more}" for query in ("q1", "q2") for doc, more in zip("abc", last, strict=True)]
    path = tmp_path / kind
    path.write_bytes("".join(row.replace(" ", space) + end for row in rows).encode())
    load, by_line = LOADS[kind]
    want = outcome(by_line, path, path.read_bytes())
    tried: list[tuple[str, bool]] = []

    def watched(name: str, read: Callable[..., object], data: bytes, layout: TrecLayout) -> object:
        lines = read(data, layout)
        tried.append((name, lines is not None))
        return lines

    monkeypatch.setattr(trec, "_MIN_ARROW_BYTES", 0)
    monkeypatch.setattr(trec, f"_{kind}_by_line", fails)
    monkeypatch.setattr(trec, "read_with_arrow", partial(watched, "arrow", read_with_arrow))
    monkeypatch.setattr(trec, "read_with_numpy", partial(watched, "python", read_with_numpy))
    assert outcome(load, path) == want, why
    assert tried == [("arrow", False), ("python", True)]
    assert outcome(load, path, reader="arrow") == want


@pytest.mark.usefixtures("without_arrow")
def test_without_arrow(small_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trec, "_MIN_ARROW_BYTES", 0)
    assert load_run(small_run) == {"q": ["a"]}
    with pytest.raises(MissingDependencyError) as caught:
        load_run(small_run, reader="arrow")
    assert str(caught.value) == "reader='arrow' needs the package 'pyarrow': pip install 'auepora-eval[parquet]'"


def test_unknown_reader(small_run: Path) -> None:
    with pytest.raises(BadValueError) as caught:
        load_run(small_run, reader="pandas")  # type: ignore[arg-type]
    assert str(caught.value) == "unknown reader 'pandas'; choose one of: auto, python, arrow"
