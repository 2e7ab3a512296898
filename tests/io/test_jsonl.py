"""JSONL files: what is read, what is refused and with which words, what is written."""

import errno
import gc
import gzip
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from auepora_eval.core.dataset import InMemoryDataset
from auepora_eval.core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.errors import AueporaError, BadValueError, DataFileError, DuplicateIdError
from auepora_eval.io.jsonl import (
    load_jsonl_dataset,
    load_jsonl_outputs,
    read_outputs,
    save_jsonl_dataset,
    save_jsonl_outputs,
)
from auepora_eval.runtime import files

SAMPLES = [
    EvaluationSample("1", "Wer schrieb „Faust“?", [Document("d1", "Goethe")], reference_answer=Response("Goethe")),
    EvaluationSample("2", "line\nbreak and \u2028 separator", []),
]
OUTPUTS = {
    "2": SystemOutputs([], error="timed out"),
    "1": SystemOutputs([RetrievedDocument(Document("d1"), 0.5, 1)], Response("Goethe"), {"total": 0.25}),
    "3": SystemOutputs([]),
}
LINE = b'{"sample_id": "%s", "query": "q"}'


def write_file(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def ids(path: Path) -> str:
    return "".join(sample.sample_id for sample in load_jsonl_dataset(path))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- reading ---------------------------------------------------------------------------------------------------------

A, B = LINE % b"a", LINE % b"b"
READ_ROWS = [  # content, why
    (A + b"\n" + B + b"\n", "plain"),
    (A + b"\n" + B, "no line end at the end"),
    (A + b"\r\n" + B + b"\r\n", "Windows line ends"),
    (b"\n\n" + A + b"\n \t\r\n" + B + b"\n\n", "blank lines"),
    (b"\xef\xbb\xbf" + A + b"\n" + B, "byte order mark"),
    (b"\xef\xbb\xbf\r\n" + A + b"\r\n" + B, "byte order mark alone on the first line"),
]


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
@pytest.mark.parametrize(("content", "why"), READ_ROWS, ids=[row[-1] for row in READ_ROWS])
def test_reading(tmp_path: Path, content: bytes, suffix: str, why: str) -> None:
    path = write_file(tmp_path / f"dev{suffix}", gzip.compress(content) if suffix.endswith("gz") else content)
    assert ids(path) == "ab", why
    assert load_jsonl_dataset(path).name == "dev"
    assert load_jsonl_dataset(str(path), name="mine").name == "mine"


def test_garbage_collector_is_reenabled(tmp_path: Path) -> None:
    load_jsonl_dataset(write_file(tmp_path / "a.jsonl", A))
    assert gc.isenabled()
    with pytest.raises(DataFileError):
        load_jsonl_dataset(write_file(tmp_path / "b.jsonl", b"{"))
    assert gc.isenabled()


def test_outputs_are_in_file_order(tmp_path: Path) -> None:
    path = write_file(
        tmp_path / "out.jsonl", b'{"sample_id": "b", "retrieved": ["x"]}\n{"sample_id": "a", "retrieved": []}\n'
    )
    got = load_jsonl_outputs(path)
    assert list(got) == ["b", "a"]
    assert got["b"] == SystemOutputs([RetrievedDocument(Document("x"), None, 1)])


RANKED, EMPTY = b'{"sample_id": "r", "retrieved": ["x"]}', b'{"sample_id": "e", "retrieved": []}'
FAILED, ANSWER = b'{"sample_id": "f", "error": "timeout"}', b'{"sample_id": "a", "response": "x"}'
WHO_RETRIEVES: list[tuple[list[bytes], bool | int, str]] = [  # lines, answers only (or the bad line), why
    ([RANKED, EMPTY], False, "every line has a ranking"),
    ([EMPTY], False, "an empty ranking"),
    ([RANKED, FAILED], False, "a failure needs no ranking"),
    ([FAILED], False, "a failure need not have a ranking"),
    ([ANSWER], True, "only answers"),
    ([FAILED, ANSWER], True, "only answers, where any came"),
    ([RANKED, ANSWER], 2, "a line without it after one with it"),
    ([FAILED, ANSWER, EMPTY], 2, "a line without it before one with it"),
]


@pytest.mark.parametrize(("content", "want", "why"), WHO_RETRIEVES, ids=[row[-1] for row in WHO_RETRIEVES])
def test_retrieved_on_every_line_or_none(tmp_path: Path, content: list[bytes], want: bool | int, why: str) -> None:
    path = write_file(tmp_path / "out.jsonl", b"\n".join(content))
    if isinstance(want, bool):
        read = read_outputs(path)
        assert read.answers_only is want, why
        assert load_jsonl_outputs(path) == read.outputs
        return
    with pytest.raises(DataFileError) as caught:
        load_jsonl_outputs(path)
    assert str(caught.value) == (
        f"{path}:{want}: field 'retrieved' is missing; other lines have it: write [] where nothing was returned"
    )


BAD_FILES: list[tuple[str, bytes, str]] = [  # name, content, the message after the path
    ("a.jsonl", A + b"\n\n{}\n", ":3: field 'sample_id' is missing"),
    ("a.jsonl", b'\xef\xbb\xbf\n{"sample_id": "1"}', ":2: field 'query' is missing"),
    ("a.jsonl", A + b'\n{"sample_id": "\xe9", "query": "q"}', ":2: byte 0xe9 in column 16 is not valid UTF-8"),
    ("a.jsonl", A + b"\n" + B + b"\n" + A, ":3: sample_id 'a' is already on line 1; each id may come once"),
    ("a.jsonl", A.decode().encode("utf-16"), ":1: the file is UTF-16; save it as UTF-8"),
    ("a.jsonl", gzip.compress(A), ": is compressed with gzip; give it a name that ends in '.gz'"),
    ("a.gz", gzip.compress(A)[:-9], ": the compressed data ends too early; the file was cut off"),
    ("a.gz", A, ": the compressed data is damaged: Not a gzipped file (b'{\"')"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_FILES, ids=[row[-1][:60] for row in BAD_FILES])
def test_bad_datasets(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = write_file(tmp_path / name, content)
    with pytest.raises((DataFileError, DuplicateIdError)) as caught:
        load_jsonl_dataset(path)
    assert str(caught.value) == f"{path}{message}"


@pytest.mark.parametrize(
    ("name", "content"), [("a.jsonl", b""), ("a.jsonl", b"\xef\xbb\xbf\n \n"), ("a.jsonl.gz", b"")]
)
def test_empty_file_in_python_and_on_the_command_line(
    tmp_path: Path, name: str, content: bytes, auepora: Callable[..., tuple[int, str, str]]
) -> None:
    path = write_file(tmp_path / name, content)
    empty = load_jsonl_dataset(path)
    assert (len(empty), list(empty)) == (0, [])
    for command in (("score", str(path), str(path)), ("validate", str(path)), ("init", str(path))):
        code, out, err = auepora(*command)
        assert code == 2
        assert "the file is empty; each line must be" in out + err


def test_gzip_data_with_flipped_bits_is_an_error(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(os.urandom(500) + A))
    data[200] ^= 0xFF
    with pytest.raises(DataFileError):
        load_jsonl_dataset(write_file(tmp_path / "a.gz", bytes(data)))


BAD_OUTPUTS: list[tuple[bytes, str]] = [  # content, the message after the path
    (b'{"sample_id": "a", "refused": 1}', ":1: field 'refused' must be true or false or null, not a number"),
    (
        b'{"sample_id": "a"}\n{"sample_id": "a", "error": "x"}',
        ":2: sample_id 'a' is already on line 1; each id may come once",
    ),
    (
        b'{"sample_id": "a"}\n{"sample_id": "a", "repeat": 1}',
        ":2: sample_id 'a' is already on line 1; each id may come once; put each repeat in a file of its own",
    ),
    (b"\n", ": the file is empty; each line must be the output for one sample"),
]


@pytest.mark.parametrize(("content", "message"), BAD_OUTPUTS, ids=[row[-1][:60] for row in BAD_OUTPUTS])
def test_bad_outputs_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = write_file(tmp_path / "out.jsonl", content)
    with pytest.raises((DataFileError, DuplicateIdError)) as caught:
        load_jsonl_outputs(path)
    assert str(caught.value) == f"{path}{message}"


@pytest.mark.parametrize("load", [load_jsonl_dataset, load_jsonl_outputs])
def test_missing_file_and_directory(tmp_path: Path, load: Any) -> None:
    for path, problem in [(tmp_path / "no.jsonl", "no such file"), (tmp_path, "is a directory, not a file")]:
        with pytest.raises(DataFileError) as caught:
            load(path)
        assert str(caught.value) == f"{path}: {problem}"


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Simulated: the tests may run as root, who may read everything.
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(files, "_open", refuse)
    with pytest.raises(DataFileError) as caught:
        load_jsonl_dataset(tmp_path / "a.jsonl")
    assert str(caught.value) == f"{tmp_path / 'a.jsonl'}: cannot be read: Permission denied"


@given(
    st.lists(
        st.sampled_from([A, B, b"\n", b"\r", b"\xff", b"{}", b" ", b"\x1f\x8b", b'"', b"\xef\xbb\xbf"]), max_size=8
    )
)
def test_random_files_raise_only_our_errors(tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]) -> None:
    folder = tmp_path_factory.getbasetemp()
    for name in ("fuzz.jsonl", "fuzz.jsonl.gz"):
        for content in (b"".join(pieces), gzip.compress(b"".join(pieces))[: 5 * len(pieces)]):
            path = write_file(folder / name, content)
            problem = str(path)
            try:
                assert all(sample.query for sample in load_jsonl_dataset(path))
            except AueporaError as error:
                problem = str(error)
            assert problem.startswith(str(path))


# --- writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dev.jsonl", "dev.jsonl.gz"])
def test_exact_file_round_trip(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    save_jsonl_dataset(InMemoryDataset("dev", SAMPLES), path)
    assert list(load_jsonl_dataset(path)) == SAMPLES
    save_jsonl_dataset(iter(SAMPLES), str(path))
    assert list(load_jsonl_dataset(path)) == SAMPLES
    save_jsonl_outputs(OUTPUTS, path)
    assert list(load_jsonl_outputs(path).items()) == list(OUTPUTS.items())
    save_jsonl_outputs(iter(OUTPUTS.items()), path)
    assert list(load_jsonl_outputs(path).items()) == list(OUTPUTS.items())
    assert names(tmp_path) == [name]


def test_the_same_data_gives_the_same_bytes(tmp_path: Path) -> None:
    save_jsonl_dataset(SAMPLES, tmp_path / "a.jsonl.gz")
    save_jsonl_dataset(SAMPLES, tmp_path / "b.jsonl.gz")
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()


def test_lines_end_with_a_line_feed(tmp_path: Path) -> None:
    save_jsonl_dataset([EvaluationSample("1", "é")], tmp_path / "a.jsonl")
    assert (tmp_path / "a.jsonl").read_bytes() == '{"sample_id":"1","query":"é"}\n'.encode()


BAD_SAMPLES: list[tuple[list[EvaluationSample], str]] = [  # samples, message
    (
        [SAMPLES[0], EvaluationSample("x", "q", labels={"a": float("nan")})],
        "sample 'x' cannot be written: field 'labels.a' is NaN; numbers must be finite",
    ),
    ([SAMPLES[0], SAMPLES[0]], "sample_id '1' occurs twice; each id may come once in a file"),
]


@pytest.mark.parametrize("name", ["dev.jsonl", "dev.jsonl.gz"])
@pytest.mark.parametrize(("samples", "message"), BAD_SAMPLES, ids=[row[-1][:40] for row in BAD_SAMPLES])
def test_failed_write_keeps_the_old_file(
    tmp_path: Path, samples: list[EvaluationSample], message: str, name: str
) -> None:
    path = write_file(tmp_path / name, b"old")
    with pytest.raises((BadValueError, DuplicateIdError)) as caught:
        save_jsonl_dataset(samples, path)
    assert str(caught.value) == message
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == [name]


def test_unwritable_output_is_named(tmp_path: Path) -> None:
    bad = SystemOutputs([RetrievedDocument(Document("d"), float("inf"), 1)])
    with pytest.raises(BadValueError) as caught:
        save_jsonl_outputs({"q7": bad}, tmp_path / "out.jsonl")
    assert str(caught.value) == (
        "the output for sample 'q7' cannot be written: field 'retrieved[0].score' is Infinity; numbers must be finite"
    )
    with pytest.raises(DuplicateIdError):
        save_jsonl_outputs([("a", SystemOutputs([])), ("a", SystemOutputs([]))], tmp_path / "out.jsonl")
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["dev.jsonl", "dev.jsonl.gz"])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_full_disk_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, name: str) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = write_file(tmp_path / name, b"old")
    monkeypatch.setattr(os, step, fail)
    with pytest.raises(DataFileError) as caught:
        save_jsonl_dataset(SAMPLES, path)
    assert str(caught.value) == f"{path}: cannot be written: No space left on device"
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == [name]


def test_errors_of_the_callers_iterable_are_not_translated(tmp_path: Path) -> None:
    def broken() -> Iterator[EvaluationSample]:
        yield SAMPLES[0]
        raise FileNotFoundError("the caller's own file")

    with pytest.raises(FileNotFoundError, match="the caller's own file"):
        save_jsonl_dataset(broken(), tmp_path / "dev.jsonl")
    assert names(tmp_path) == []


def test_interrupt_removes_the_temporary_file(tmp_path: Path) -> None:
    def interrupted() -> Iterator[EvaluationSample]:
        yield SAMPLES[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_jsonl_dataset(interrupted(), tmp_path / "dev.jsonl.gz")
    assert names(tmp_path) == []


def test_unwritable_paths(tmp_path: Path) -> None:
    nowhere = tmp_path / "no" / "dev.jsonl"
    for path, problem in [
        (nowhere, "cannot be written: No such file or directory"),
        (tmp_path, "is a directory, not a file"),
    ]:
        with pytest.raises(DataFileError) as caught:
            save_jsonl_dataset(SAMPLES, path)
        assert str(caught.value) == f"{path}: {problem}"


@pytest.mark.skipif(os.name != "posix", reason="permissions and links as POSIX has them")
def test_permissions_and_links_are_kept(tmp_path: Path) -> None:
    umask = os.umask(0o022)
    try:
        target, link = tmp_path / "target.jsonl", tmp_path / "link.jsonl"
        save_jsonl_dataset(SAMPLES, target)
        assert target.stat().st_mode & 0o777 == 0o644  # as any new file, not as a temporary one
        target.chmod(0o640)
        link.symlink_to(target)
        save_jsonl_dataset(SAMPLES[:1], link)
        assert link.is_symlink()
        assert target.stat().st_mode & 0o777 == 0o640
        assert ids(target) == "1"
    finally:
        os.umask(umask)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the devices of Linux")
def test_devices_are_not_replaced() -> None:
    before = os.stat("/dev/null")
    save_jsonl_dataset(SAMPLES, "/dev/null")
    assert os.stat("/dev/null").st_rdev == before.st_rdev
    assert os.stat("/dev/null").st_ino == before.st_ino
    with pytest.raises(DataFileError) as caught:
        save_jsonl_dataset(SAMPLES, "/dev/full")
    assert str(caught.value) == "/dev/full: cannot be written: No space left on device"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("name", ["pipe.jsonl", "pipe.jsonl.gz"])
def test_pipes_are_not_replaced(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    os.mkfifo(path)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(path.read_bytes()))
    reader.start()
    save_jsonl_dataset(SAMPLES[:1], path)
    reader.join(timeout=30)
    assert path.is_fifo()
    data = gzip.decompress(received[0]) if name.endswith("gz") else received[0]
    assert data.startswith(b'{"sample_id":"1"')
    assert names(tmp_path) == [name]


def test_duplicate_id_error_has_path_and_line(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a.jsonl", A + b"\n" + B + b"\n" + A)
    with pytest.raises(DuplicateIdError) as caught:
        load_jsonl_dataset(path)
    assert (caught.value.path, caught.value.line) == (str(path), 3)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.path, again.line) == (str(caught.value), str(path), 3)


def test_ranks_from_0_are_named(tmp_path: Path, auepora: Callable[..., tuple[int, str, str]]) -> None:
    data = write_file(tmp_path / "data.jsonl", b'{"sample_id": "a", "query": "q", "relevant_docs": ["x"]}')
    row = b'{"sample_id": "a", "retrieved": [{"doc": "x", "score": 2, "rank": 0}, {"doc": "y", "score": 1, "rank": 1}]}'
    out = auepora("validate", str(data), str(write_file(tmp_path / "out.jsonl", row)))[1]
    assert "'rank' is 0; ranks count from 1" in out
