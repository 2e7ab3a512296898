"""Pairs from files: whatever their order, the same pairs as from memory; what has no partner, what occurs twice."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from auepora_eval import EvaluationSample, SystemOutputs
from auepora_eval.errors import BadValueError, DataFileError, DuplicateIdError
from auepora_eval.io.formats import get_format
from auepora_eval.io.join import OutputIndex, PairStream, count_lines


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    data = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def samples_file(folder: Path, ids: list[str]) -> Path:
    return write(folder / "samples.jsonl", [{"sample_id": one, "query": f"? {one}"} for one in ids])


def outputs_file(folder: Path, ids: list[str], name: str = "outputs.jsonl") -> Path:
    return write(folder / name, [{"sample_id": one, "retrieved": [f"d{one}"]} for one in ids])


def stream(samples: Path, outputs: Path, *, keep_ids: bool = True) -> PairStream:
    jsonl = get_format("jsonl")
    return PairStream((samples, jsonl), (outputs, jsonl), keep_ids=keep_ids)


def id_pairs(pairs: list[tuple[EvaluationSample, SystemOutputs | None]]) -> list[tuple[str, str | None]]:
    return [(sample.sample_id, None if out is None else out.retrieved[0].doc.doc_id) for sample, out in pairs]


IDS = [str(number) for number in range(30)]


@pytest.mark.parametrize("keep_ids", [True, False])
@pytest.mark.parametrize("name", ["outputs.jsonl", "outputs.jsonl.gz"])
@given(order=st.permutations(IDS), left_out=st.sets(st.sampled_from(IDS), max_size=29), strays=st.integers(0, 3))
def test_any_order_gives_the_same_pairs(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    keep_ids: bool,
    order: list[str],
    left_out: set[str],
    strays: int,
) -> None:
    folder = tmp_path_factory.mktemp("pairs")
    given_ids = [one for one in order if one not in left_out] + [f"stray{n}" for n in range(strays)]
    random.Random(1).shuffle(given_ids)
    pairs = stream(samples_file(folder, IDS), outputs_file(folder, given_ids, name), keep_ids=keep_ids)
    for _ in range(2):  # it may be passed through again
        assert id_pairs(list(pairs)) == [(one, None if one in left_out else f"d{one}") for one in IDS]
        assert pairs.missing == [one for one in IDS if one in left_out]
        assert sorted(pairs.unknown) == [f"stray{n}" for n in range(strays)]
        assert (pairs.total, len(pairs.missing)) == (30, len(left_out))


def test_files_in_the_same_order_need_no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auepora_eval.io.join.OutputIndex", None)
    pairs = stream(samples_file(tmp_path, IDS), outputs_file(tmp_path, IDS))
    assert len(list(pairs)) == 30


def test_no_common_id(tmp_path: Path) -> None:
    pairs = stream(samples_file(tmp_path, ["a", "b"]), outputs_file(tmp_path, ["x", "y"]))
    with pytest.raises(
        BadValueError, match="no sample and output share an id: the first sample is 'a', the first output 'x'"
    ):
        list(pairs)


TWICE = [  # ids of samples, ids of outputs, message, why
    (["a", "b", "a"], ["a", "b"], r"samples\.jsonl:3: sample_id 'a' is already on line 1", "a sample"),
    (["a", "b"], ["a", "a", "b"], r"outputs\.jsonl:2: sample_id 'a' is already on line 1", "an output, in order"),
    (["a", "b"], ["b", "a", "b"], r"outputs\.jsonl:3: sample_id 'b' is already on line 1", "an output, out of order"),
    (["a", "b"], ["a", "b", "b"], r"outputs\.jsonl:3: sample_id 'b' is already on line 2", "the last output"),
]


@pytest.mark.parametrize("keep_ids", [True, False])
@pytest.mark.parametrize(("samples", "outputs", "message"), [r[:3] for r in TWICE], ids=[r[3] for r in TWICE])
def test_duplicate_id(tmp_path: Path, samples: list[str], outputs: list[str], message: str, keep_ids: bool) -> None:
    with pytest.raises(DuplicateIdError, match=message):
        list(stream(samples_file(tmp_path, samples), outputs_file(tmp_path, outputs), keep_ids=keep_ids))


def test_mixed_rankings(tmp_path: Path) -> None:
    samples = samples_file(tmp_path, ["a", "b", "c"])
    rows: list[dict[str, Any]] = [{"sample_id": one, "response": "x"} for one in "abc"]
    answers = stream(samples, write(tmp_path / "o.jsonl", rows))
    assert answers.answers_only
    assert len(list(answers)) == 3
    rows[0] |= {"error": "timeout"}
    rows[1] |= {"retrieved": []}
    mixed = stream(samples, write(tmp_path / "o.jsonl", rows))
    assert not mixed.answers_only
    with pytest.raises(DataFileError, match=r"o\.jsonl:3: field 'retrieved' is missing; other lines have it"):
        list(mixed)
    rows[1].pop("retrieved")
    rows[2] |= {"retrieved": []}
    with pytest.raises(DataFileError, match=r"o\.jsonl:3: field 'retrieved' is there, and not on the lines before"):
        list(stream(samples, write(tmp_path / "o.jsonl", rows)))


def test_index_reads_on_demand(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    lines = [
        b'\xef\xbb\xbf{"sample_id": "a", "retrieved": ["x"]}\r\n',
        b"\n",
        '{"sample_id": "ü", "response": "é"}'.encode(),
    ]
    path.write_bytes(b"".join(lines))
    index = OutputIndex(path)
    try:
        assert list(index.ids_from(1)) == ["a", "ü"]
        found = index.read("ü")
        assert found is not None
        assert (found.line, found.output.response and found.output.response.text) == (3, "é")
        first = index.read("a")
        assert first is not None
        assert first.output.retrieved[0].doc.doc_id == "x"
        assert index.read("missing") is None
    finally:
        index.close()


BAD = [  # line, message
    (b"{", "2: not valid JSON"),
    (b'{"query": "?"}', "2: unknown field 'query'"),
    (b'{"sample_id": 5}', "2: field 'sample_id' must be a string"),
]


@pytest.mark.parametrize(("line", "message"), BAD)
def test_invalid_line_out_of_order(tmp_path: Path, line: bytes, message: str) -> None:
    path = tmp_path / "o.jsonl"
    path.write_bytes(b'{"sample_id": "b", "retrieved": []}\n' + line + b'\n{"sample_id": "a", "retrieved": []}\n')
    with pytest.raises(DataFileError, match=message):
        list(stream(samples_file(tmp_path, ["a", "b"]), path))


def test_count_lines(tmp_path: Path) -> None:
    assert count_lines(samples_file(tmp_path, IDS)) == 30
    assert count_lines(outputs_file(tmp_path, IDS, "o.jsonl.gz")) is None
    assert count_lines(tmp_path) is None
