"""The limit of the size of lines, of files read as one value, and of Parquet pages: every reader, every compression."""

import gzip
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from auepora_eval.calibration.scores import read_score_file
from auepora_eval.cli.main import main
from auepora_eval.errors import BadValueError, DataFileError
from auepora_eval.grades.pool import read_pool
from auepora_eval.io.corpus import Corpus
from auepora_eval.io.grades import read_grades
from auepora_eval.io.join import OutputIndex, load_dataset, load_outputs
from auepora_eval.io.labels import read_labels, read_nuggets
from auepora_eval.io.trec import load_qrels, load_run
from auepora_eval.io.trec_format import load_topics
from auepora_eval.judge.cache import RecordedCritic
from auepora_eval.plan.source import read_source
from auepora_eval.runtime.files import limit_line_size, max_line_size, read_bytes, read_lines
from auepora_eval.scale.inputs import group_sizes, index_lines, input_files
from helpers import requirements

LIMIT = 1000
LONG = "x" * LIMIT  # of a value, so that its line is longer
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
SAMPLE = '{"sample_id": "%s", "query": "%s"}\n'
OUTPUT = '{"sample_id": "%s", "response": {"text": "%s"}}\n'
RECORD = '{"user_input": "%s", "reference": "%s"}\n'


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(COMPRESS[path.suffix if path.suffix in COMPRESS else ""](text.encode()))
    return path


def index(path: Path) -> Any:
    (file,) = input_files(path, "samples", "jsonl")
    return index_lines(file, every=1)


def grades(path: Path) -> Any:
    return read_grades(path.with_name("qrels.txt"))


def beir(path: Path) -> Any:
    folder = path.parent if path.name.startswith("queries") else path.parent.parent
    for name, text in (("queries.jsonl", ""), ("corpus.jsonl", '{"_id": "d", "text": ""}\n')):
        if not path.name.startswith(name):
            written(folder / name, text)
    if not path.name.startswith("test"):
        written(folder / "qrels" / "test.tsv", "q\td\t1\n")
    return load_dataset(folder, "beir")


LINES: list[tuple[str, str, Callable[[Path], Any], str]] = [  # name, text, reader, what it is
    ("a.jsonl", SAMPLE % ("a", "x") + SAMPLE % ("b", "LONG"), load_dataset, "samples"),
    ("a.jsonl", OUTPUT % ("a", "x") + OUTPUT % ("b", "LONG"), load_outputs, "outputs"),
    ("a.jsonl", SAMPLE % ("a", "x") + SAMPLE % ("b", "LONG"), index, "ranges of lines"),
    ("c.jsonl", '{"doc_id": "a", "text": ""}\n{"doc_id": "b", "text": "LONG"}\n', Corpus.open, "corpus"),
    ("l.jsonl", '\n{"sample_id": "LONG", "score": 1}\n', read_labels, "labels"),
    ("n.jsonl", '{"qid": "a", "query": "", "nuggets": []}\n{"qid": "b", "query": "LONG", "nuggets": []}\n', read_nuggets, "nuggets"),
    ("q.txt", "q 0 a 1\nq 0 LONG 1\n", load_qrels, "qrels"),
    ("q.txt", "q Q0 a 1 2.0 s\nq Q0 LONG 2 1.0 s\n", load_run, "run"),
    ("q.txt", "q Q0 a 1 2.0 s\nq Q0 LONG 2 1.0 s\n", lambda path: load_outputs(path, "trec"), "run as outputs"),
    ("t.tsv", "a\tx\nb\tLONG\n", load_topics, "topics"),
    ("qrels/test.tsv", "q\td\t1\nq\tLONG\t1\n", beir, "judgements of BEIR"),
    ("queries.jsonl", '{"_id": "q", "text": ""}\n{"_id": "r", "text": "LONG"}\n', beir, "queries of BEIR"),
    ("r.csv", "user_input,reference\na,LONG\n", lambda path: load_dataset(path, "ragas"), "table of records"),
    ("r.jsonl", RECORD % ("a", "x") + RECORD % ("b", "LONG"), lambda path: load_dataset(path, "ragas"), "records"),
    ("t.jsonl", '\n{"name": "LONG"}\n', lambda path: load_outputs(path, "traces"), "traces"),
    ("s.jsonl", '{"sample_id": "a", "score": 1}\n{"sample_id": "b", "score": 1, "x": "LONG"}\n', read_score_file, "scores"),
]  # fmt: skip


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize(("name", "text", "read", "what"), LINES, ids=[row[-1] for row in LINES])
def test_a_long_line_is_refused_with_its_number(
    tmp_path: Path, name: str, text: str, read: Callable[[Path], Any], what: str, suffix: str
) -> None:
    path = written(tmp_path / f"{name}{suffix}", text.replace("LONG", LONG))
    with (
        limit_line_size(LIMIT),
        pytest.raises(DataFileError, match=r"line is larger than 1000; .*--max-line-size") as info,
    ):
        read(path)
    assert (info.value.path, info.value.line) == (str(path), 2)


UNCOMPRESSED: list[tuple[str, str, Callable[[Path], Any], str]] = [
    ("a.jsonl", OUTPUT % ("a", "x") + OUTPUT % ("b", "LONG"), OutputIndex, "outputs by offset"),
    ("qrels.txt.provenance.jsonl", '\n{"sample_id": "LONG"}\n', grades, "grades"),
    ("j.jsonl", '{"key": "a", "answer": {}}\n{"key": "LONG"}\n', RecordedCritic, "recorded judgements"),
    ("p.jsonl", '\n{"sample_id": "LONG"}\n', read_pool, "pool"),
]


@pytest.mark.parametrize(("name", "text", "read", "what"), UNCOMPRESSED, ids=[row[-1] for row in UNCOMPRESSED])
def test_a_long_line_of_a_plain_file_is_refused(
    tmp_path: Path, name: str, text: str, read: Callable[[Path], Any], what: str
) -> None:
    test_a_long_line_is_refused_with_its_number(tmp_path, name, text, read, what, "")


DOCUMENTS: list[tuple[str, str, Callable[[Path], Any], str]] = [
    ("s.json", '{"data": [\n%s]}', lambda path: load_dataset(path, "squad"), "SQuAD"),
    ("p.json", '{"a":\n%s"x"}', lambda path: load_outputs(path, "squad"), "predictions"),
    ("r.json", "[\n%s]", lambda path: load_dataset(path, "ragas"), "array of records"),
    ("t.json", "{\n%s}", lambda path: load_outputs(path, "traces"), "trace over several lines"),
    ("g.yaml", "queries:\n%s", lambda path: load_dataset(path, "golden"), "golden queries"),
    ("plan.yaml", "dataset:\n%s", read_source, "plan"),
]


@pytest.mark.parametrize(("name", "text", "read", "what"), DOCUMENTS, ids=[row[-1] for row in DOCUMENTS])
def test_a_large_document_is_refused(
    tmp_path: Path, name: str, text: str, read: Callable[[Path], Any], what: str
) -> None:
    path = written(tmp_path / name, text % ("\n" * LIMIT))
    with limit_line_size(LIMIT), pytest.raises(DataFileError, match="the file is larger than 1000; "):
        read(path)


SIZES = [  # limit, lines, number of the line that is refused, why
    (4, b"aaaa\nbbbb\n", None, "a line of the limit; its end does not count"),
    (4, b"aaaa\nbbbbb\n", 2, "one byte more"),
    (4, b"aaaa\nbbbb", None, "no line end at the end"),
    (4, b"aaaa\nbbbbb", 2, "no line end at the end, one byte more"),
    (4, b"a\n\n\n\nbbbbb\nc\n", 5, "blank lines count"),
    (1, b"\n" * 9 + b"aa\n", 10, "the smallest limit"),
    (70_000, b"a" * 65_536 + b"\n" + b"b" * 70_001, 2, "across blocks"),
    (70_000, b"a" * 70_000 + b"\n" + b"b" * 70_000, None, "across blocks, of the limit"),
]


@pytest.mark.parametrize(("limit", "data", "number", "why"), SIZES, ids=[row[-1] for row in SIZES])
def test_the_limit_is_exact(tmp_path: Path, limit: int, data: bytes, number: int | None, why: str) -> None:
    for suffix, compress in COMPRESS.items():
        path = tmp_path / f"lines{suffix}"
        path.write_bytes(compress(data))
        for read in (lambda path: b"".join(line for _, line in read_lines(path)), read_bytes):
            with limit_line_size(limit):
                if number is None:
                    assert read(path) == data
                    continue
                with pytest.raises(DataFileError) as info:
                    read(path)
                assert info.value.line == number


def test_a_pipe_has_no_line_number(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(b"a\n" + b"b" * LIMIT + b"b\n"))
    writer.start()
    with limit_line_size(LIMIT), pytest.raises(DataFileError, match="pipe: the line is larger") as info:
        list(read_lines(path))
    writer.join()
    assert info.value.line is None


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_a_large_parquet_page_is_refused(tmp_path: Path, version: str, dictionary: bool) -> None:
    pyarrow = requirements.need("pyarrow")
    parquet = requirements.need("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"sample_id": list("abcdef"), "query": [*"abcde", LONG]})
    options = {"use_dictionary": dictionary, "data_page_version": version, "row_group_size": 3}
    parquet.write_table(table, path, compression="zstd", **options)
    for read in (load_dataset, lambda path: group_sizes(input_files(path, "samples")[0], "samples")):
        with (
            limit_line_size(LIMIT),
            pytest.raises(DataFileError, match="row group 1, column 'query': a page is larger"),
        ):
            read(path)
    assert len(load_dataset(path)) == 6


def test_a_large_column_of_small_pages_is_read(tmp_path: Path) -> None:
    pyarrow = requirements.need("pyarrow")
    parquet = requirements.need("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    names = [f"q{number:03}" for number in range(500)]
    table = pyarrow.table({"sample_id": names, "query": names})
    parquet.write_table(table, path, use_dictionary=False, data_page_size=200, write_batch_size=10)
    with limit_line_size(LIMIT):
        assert len(load_dataset(path)) == 500


def test_option_and_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(written(tmp_path / "a.jsonl", SAMPLE % ("a", LONG)))
    assert max_line_size() == 64_000_000
    for options, code in (([], 0), (["--max-line-size", "1KB"], 2), (["--max-line-size", "2 kb"], 0)):
        with pytest.raises(SystemExit) as info:
            main([*options, "validate", path])
        assert info.value.code == code
    assert max_line_size() == 64_000_000, "the option is one of the command, not of the process"
    monkeypatch.setenv("AUEPORA_MAX_LINE_SIZE", "3GB")
    assert max_line_size() == 3_000_000_000
    for size in ("", "0", "big", "-1MB", "1.5GB"):
        with pytest.raises(BadValueError, match="write it as in '256MB'"), limit_line_size(size):
            pass
