"""Conversion: common fields are kept, dropped fields are counted, and inputs are never overwritten."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.errors import AueporaError, BadValueError, DataFileError
from auepora_eval.io import formats
from auepora_eval.io.convert import convert_files
from auepora_eval.io.formats import Format
from auepora_eval.io.join import load_outputs
from auepora_eval.io.jsonl import (
    load_jsonl_dataset,
    load_jsonl_outputs,
    read_outputs,
    save_jsonl_dataset,
    save_jsonl_outputs,
)
from auepora_eval.io.problems import ParsedOutput, ParsedSample, Problems
from auepora_eval.io.validate import validate_files
from auepora_eval.runtime.files import read_lines, write_lines

SAMPLES = [
    EvaluationSample("1", "q1", [Document("d", "t")], reference_answer=Response("r"), labels={"a": 1}),
    EvaluationSample("2", "q2", labels={"a": 2}, reference_answers=["x"]),
    EvaluationSample("3", "q3", [], reference_answers=["x", "y"], history=[{"role": "user"}]),
]
OUTPUTS = {
    "1": SystemOutputs([RetrievedDocument(Document("d", "t"), 0.5, 1)], Response("a"), {"t": 1.0}),
    "3": SystemOutputs([], Response("b"), error="timeout"),
}


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Format:
    """A format that keeps a question, one reference and the answer in one record, and nothing else."""

    def samples(path: Path, problems: Problems) -> Iterator[ParsedSample]:
        for number, line in read_lines(path):
            row = json.loads(line)
            yield ParsedSample(number, EvaluationSample(row["id"], row["q"], reference_answer=row["r"]))

    def outputs(path: Path, problems: Problems) -> Iterator[ParsedOutput]:
        for number, line in read_lines(path):
            row = json.loads(line)
            if row["a"] is not None:
                yield ParsedOutput(number, row["id"], SystemOutputs([], Response(row["a"])), has_retrieved=False)

    def write(pairs: Iterable[tuple[EvaluationSample, SystemOutputs | None]], path: Path) -> None:
        def rows() -> Iterator[bytes]:
            for sample, output in pairs:
                assert not sample.labels, "unsupported fields are dropped"
                reference = None if sample.reference_answer is None else sample.reference_answer.text
                answer = None if output is None or output.response is None else output.response.text
                yield json.dumps({"id": sample.sample_id, "q": sample.query, "r": reference, "a": answer}).encode()

        write_lines(path, rows())

    made = Format(
        "both", "for tests", lambda head, role: head.suffix == ".both", samples, outputs, write_both=write,
        sample_fields=frozenset({"query", "reference_answer"}), output_fields=frozenset({"response"}),
        one_file=True,
    )  # fmt: skip
    monkeypatch.setattr(formats, "_FORMATS", {"both": made, **formats.formats()})
    return made


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save_jsonl_dataset(SAMPLES, "data.jsonl")
    save_jsonl_outputs(OUTPUTS, "out.jsonl")
    return tmp_path


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.jsonl.zst", "x.ndjson"])
def test_role_is_detected_from_the_first_record(files: Path, name: str) -> None:
    done = convert_files("data.jsonl", name)
    assert (done.written, done.counts, done.dropped) == ({"samples": Path(name)}, {"samples": 3}, [])
    assert list(load_jsonl_dataset(name)) == SAMPLES
    done = convert_files("out.jsonl", name)
    assert (done.written, done.counts, done.dropped) == ({"outputs": Path(name)}, {"outputs": 2}, [])
    assert load_jsonl_outputs(name) == OUTPUTS


def test_unknown_ranking_stays_unknown(files: Path) -> None:
    Path("answers.jsonl").write_text('{"sample_id": "1", "response": "x"}\n')
    convert_files("answers.jsonl", "again.jsonl")
    assert read_outputs("again.jsonl").answers_only


def test_unknown_suffix_needs_a_format(files: Path) -> None:
    convert_files("data.jsonl", "x.dat", to_format="jsonl")
    convert_files("x.dat", "y.jsonl", from_format="jsonl")
    assert list(load_jsonl_dataset("y.jsonl")) == SAMPLES


def test_dropped_fields_are_counted(files: Path, both: Format) -> None:
    done = convert_files("data.jsonl", "x.both")
    assert list(map(str, done.dropped)) == [
        "relevant_docs in 2 of 3 samples (the format 'both' cannot hold it)",
        "labels in 2 of 3 samples (the format 'both' cannot hold it)",
        "reference_answers in 1 of 3 samples (the format 'both' cannot hold it)",  # of "2" it is the reference answer
        "history in 1 of 3 samples (the format 'both' cannot hold it)",
    ]
    assert done.counts == {"samples": 3}


def test_merge_and_split_round_trip(files: Path, both: Format) -> None:
    save_jsonl_outputs({**dict(reversed(OUTPUTS.items())), "stray": SystemOutputs([])}, "more.jsonl")
    done = convert_files("data.jsonl", "x.both", outputs_in="more.jsonl")
    assert done.counts == {"samples": 3, "outputs": 1}  # the other failed
    assert done.unmatched_ids == ["stray"]
    assert [str(one) for one in done.dropped if one.role == "outputs"] == [
        "retrieved in 1 of 2 outputs (the format 'both' cannot hold it)",
        "timings in 1 of 2 outputs (the format 'both' cannot hold it)",
        "error in 1 of 2 outputs (the format 'both' cannot hold it)",
    ]
    done = convert_files("x.both", "s.jsonl", outputs_out="o.jsonl")
    assert done.written == {"samples": Path("s.jsonl"), "outputs": Path("o.jsonl")}
    assert [sample.query for sample in load_jsonl_dataset("s.jsonl")] == ["q1", "q2", "q3"]
    read = read_outputs("o.jsonl")
    assert {one: output.response for one, output in read.outputs.items()} == {"1": Response("a")}
    assert read.answers_only  # the other output failed, which this format can only express by omitting it
    again = convert_files("x.both", "y.both")
    assert again.counts == {"samples": 3, "outputs": 1}
    assert Path("y.both").read_bytes() == Path("x.both").read_bytes()
    assert convert_files("x.both", "s.jsonl").outputs_not_written == 1


def test_combined_format_without_outputs(files: Path, both: Format) -> None:
    convert_files("data.jsonl", "x.both")
    done = convert_files("x.both", "s.jsonl")
    assert (done.counts, done.outputs_not_written) == ({"samples": 3}, 0)
    assert convert_files("x.both", "y.both").counts == {"samples": 3}
    with pytest.raises(DataFileError, match=r"x\.both: there is no output in it"):
        convert_files("x.both", "o.jsonl", role="outputs")
    checked = validate_files("x.both")
    assert checked.is_valid
    assert checked.outputs is None


MISTAKES: list[tuple[dict[str, Any], str]] = [  # arguments, message
    ({"source": "none.jsonl"}, "none.jsonl: no such file"),
    ({"source": "."}, ".: cannot tell in which format these samples are"),
    ({"target": "data.jsonl"}, "data.jsonl is the input data.jsonl; write to another file"),
    ({"target": "link.jsonl"}, "link.jsonl is the input data.jsonl; write to another file"),
    ({"target": "out.jsonl", "outputs_in": "out.jsonl"}, "out.jsonl is the input out.jsonl; write to another file"),
    ({"target": "."}, "the input data.jsonl lies in .; write to another folder"),
    ({"target": "x.jsonl", "outputs_out": "./x.jsonl"}, "samples and outputs cannot both be written to x.jsonl"),
    ({"target": "x.dat"}, "cannot tell from its name in which format to write x.dat; name one (--to): both, "),
    ({"to_format": "jsnl"}, "unknown format 'jsnl'; did you mean 'jsonl'?"),
    ({"from_format": "jsnl"}, "unknown format 'jsnl'; did you mean 'jsonl'?"),
    ({"role": "outputs"}, "data.jsonl:1: unknown field 'query': samples have it, outputs do not"),
    ({"source": "out.jsonl", "to_format": "both"}, "the format 'both' keeps outputs beside their samples"),
    ({"source": "out.jsonl", "outputs_out": "o.jsonl"}, "out.jsonl holds outputs"),
    ({"outputs_out": "o.jsonl"}, "data.jsonl holds no outputs that could be written to o.jsonl"),
    ({"outputs_in": "out.jsonl"}, "the format 'jsonl' does not keep outputs beside their samples"),
    (
        {"source": "bad.jsonl"},
        "bad.jsonl:1: unknown field 'qery'; did you mean 'query'? (read as samples; --role outputs",
    ),
    ({"source": "late.jsonl"}, "late.jsonl:2: field 'query' is missing"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=[row[1][:60] for row in MISTAKES])
def test_invalid_calls(files: Path, both: Format, arguments: dict[str, Any], message: str) -> None:
    Path("link.jsonl").symlink_to("data.jsonl")
    Path("bad.jsonl").write_text('{"sample_id": "1", "qery": "q"}\n')
    Path("late.jsonl").write_text('{"sample_id": "1", "query": "q"}\n{"sample_id": "2"}\n')
    before = {path.name: path.read_bytes() for path in files.iterdir()}
    with pytest.raises((BadValueError, DataFileError)) as caught:
        convert_files(**{"source": "data.jsonl", "target": "x.jsonl", **arguments})
    assert str(caught.value).startswith(message)
    assert {path.name: path.read_bytes() for path in files.iterdir()} == before, "nothing was written"


def test_records_are_streamed(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer has the first record before the reader has the second."""
    events: list[str] = []

    def reading(path: Path, problems: Problems) -> Iterator[ParsedSample]:
        for number in (1, 2):
            events.append(f"read {number}")
            yield ParsedSample(number, EvaluationSample(str(number), "q"))

    def writing(samples: Iterable[EvaluationSample], path: Path) -> None:
        events.extend(f"wrote {sample.sample_id}" for sample in samples)

    suffix: Callable[[Any, Any], bool] = lambda head, role: head.suffix == ".lazy"  # noqa: E731
    monkeypatch.setitem(formats._FORMATS, "lazy", Format("lazy", "", suffix, reading, write_samples=writing))
    convert_files("data.jsonl", "x.lazy")
    Path("y.lazy").write_text("")
    events.clear()
    convert_files("y.lazy", "x.lazy", role="samples")
    assert events == ["read 1", "wrote 1", "read 2", "wrote 2"]


def test_only_our_errors(files: Path) -> None:
    for content in (b"", b"\xff\xfe", b"\x1f\x8b", b"[1]", b'{"sample_id": 1}', b"\n\n"):
        Path("random.jsonl").write_bytes(content)
        with pytest.raises(AueporaError):
            convert_files("random.jsonl", "x.jsonl")
        assert not Path("x.jsonl").exists()


def test_nested_losses_are_reported_and_failures_stay(tmp_path: Path) -> None:
    graded = [
        {"doc_id": "d1", "text": "aa", "metadata": {"relevance": 3}},
        {"doc_id": "d2", "text": "bb", "metadata": {"relevance": 1}},
    ]
    samples = [{"sample_id": str(n), "query": "q", "relevant_docs": graded, "reference_answer": "x"} for n in range(2)]
    ranking = [{"doc": {"doc_id": "d1", "text": "aa"}, "score": 2.0}]
    outputs = [{"sample_id": "0", "retrieved": ranking, "response": "x"}, {"sample_id": "1", "error": "timeout"}]
    for name, rows in (("d.jsonl", samples), ("o.jsonl", outputs)):
        (tmp_path / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    done = convert_files(tmp_path / "d.jsonl", tmp_path / "g.json", to_format="ragas", outputs_in=tmp_path / "o.jsonl")
    dropped = {one.field: one.count for one in done.dropped}
    assert dropped == {"relevant_docs.metadata": 2, "retrieved.score": 1, "error": 1}
    assert set(load_outputs(tmp_path / "g.json")) == {"0"}  # the failed one has no output, which counts as a failure
