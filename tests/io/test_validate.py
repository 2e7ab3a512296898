"""Validation: all problems and warnings of files, and the supported targets."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from auepora_eval.core.types import TargetCategory
from auepora_eval.io import formats
from auepora_eval.io.formats import Format
from auepora_eval.io.jsonl import iter_outputs, read_samples
from auepora_eval.io.problems import ParsedOutput, ParsedSample, Problem, Problems
from auepora_eval.io.validate import Validation, validate_files

T = TargetCategory


def write_lines(path: Path, *rows: dict[str, Any] | bytes) -> Path:
    path.write_bytes(b"".join((row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows))
    return path


def line_messages(found: list[Problem]) -> list[tuple[int | None, str]]:
    return [(one.line, one.message) for one in found]


def sample_row(sample_id: str = "1", **fields: Any) -> dict[str, Any]:
    return {"sample_id": sample_id, "query": "q", **fields}


TWELVE: list[tuple[bytes, str]] = [  # a line, its message
    (b'{"sample_id": "a", "query": "q"', "not valid JSON: the line ends too early (each line must hold one whole object)"),
    (b'{"sample_id": "b", "query": ["q"]}', "field 'query' must be a string, not an array"),
    (b'{"sample_id": "c", "query": "q", "relevent_docs": []}', "unknown field 'relevent_docs'; did you mean 'relevant_docs'?"),
    (b'{"query": "q"}', "field 'sample_id' is missing"),
    (b'{"sample_id": "ok", "query": "q"}', "sample_id 'ok' is already on line 1; each id may come once"),
    (b'{"sample_id": "f", "query": "q", "labels": {"x": NaN}}', "field 'labels.x' is NaN; numbers must be finite"),
    (
        b'{"sample_id": "g", "query": "q", "relevant_docs": [{"doc_id": "d", "span": [9, 3]}]}',
        "field 'relevant_docs[0].span' must be [start, end] with 0 <= start <= end",
    ),
    (b'{"sample_id": "", "query": "q"}', "field 'sample_id' is empty; an id needs at least one character"),
    (
        b'{"sample_id": 9, "query": "q"}',
        "field 'sample_id' must be a string, not a number; ids are strings, so put it in quotes",
    ),
    (b'["j", "q"]', "each line must be one JSON object, not an array"),
    (b'{"sample_id": "k", "query": "caf\xe9"}', "byte 0xe9 in column 33 is not valid UTF-8"),
    (
        b'{"sample_id": "l", "query": "\\ud83d"}',
        "field 'query' holds half of a surrogate pair, which is not valid text",
    ),
]  # fmt: skip


def test_twelve_problems(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "d.jsonl", sample_row("ok"), *(line for line, _ in TWELVE))
    checked = validate_files(path)
    assert line_messages(checked.problems) == [(number, message) for number, (_, message) in enumerate(TWELVE, start=2)]
    assert not checked.is_valid
    assert checked.samples["samples"] == 1


def test_several_problems_on_one_line(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "d.jsonl", sample_row("1"), {"sample_id": "1", "qery": "q", "history": 3})
    assert line_messages(validate_files(path).problems) == [
        (2, "unknown field 'qery'; did you mean 'query'?"),
        (2, "field 'history' must be an array, not a number"),
        (2, "field 'query' is missing"),
        (2, "sample_id '1' is already on line 1; each id may come once"),
    ]


PROBLEMS: list[tuple[list[Any], list[Any] | None, list[tuple[int | None, str]], str]] = [  # samples, outputs, expected, why
    ([sample_row()], None, [], "nothing is wrong"),
    ([sample_row()], [{"sample_id": "1", "retrieved": []}], [], "nothing is wrong with both"),
    ([], None, [(None, "the file is empty; each line must be one sample")], "an empty file"),
    (
        [sample_row(relevant_docs=[{"doc_id": "d", "metadata": {"relevance": "high"}}])],
        None,
        [(1, "sample '1': the relevance of 'd' is 'high'; it must be an integer")],
        "a level that is not a number",
    ),
    (
        [sample_row(metadata={"expected_doc_ids": "d"})],
        None,
        [(1, "field 'metadata.expected_doc_ids' must be a list of ids")],
        "expected documents that are not a list",
    ),
    (
        [sample_row("q-1"), sample_row("2")],
        [{"sample_id": "2", "retrieved": []}, {"sample_id": "Q-1", "retrieved": []}],
        [(1, "sample 'q-1' has no output in OUT"), (2, "no sample of DATA has the sample_id 'Q-1'; did you mean 'q-1'?")],
        "ids that nearly meet",
    ),
    (
        [sample_row("1"), sample_row("2")],
        [{"sample_id": "x", "retrieved": []}],
        [
            (
                None,
                "no sample and output share an id: the first sample is '1', the first output 'x'; do the two belong together?",
            )
        ],
        "the wrong files",
    ),
    (
        [sample_row("1"), {"sample_id": "2"}, sample_row("3")],
        [{"sample_id": "1", "retrieved": []}, {"sample_id": "2", "retrieved": []}, {"sample_id": "3", "rank": []}],
        [
            (2, "field 'query' is missing"),
            (3, "unknown field 'rank'; known fields: sample_id, retrieved, response, timings, extra, error, refused, "
             "citations, steps, usage, repeat; put keys of your own under 'extra'"),
        ],
        "a record that cannot be read is not missing as well",
    ),
    (
        [sample_row("1"), b"{"],
        [{"sample_id": "1", "retrieved": []}, {"sample_id": "2", "retrieved": []}],
        [
            (2, "not valid JSON: the line ends too early (each line must hold one whole object)"),
            (2, "no sample of DATA has the sample_id '2' (unless it is in a record that cannot be read)"),
        ],
        "a record of which nothing is known may be the missing one",
    ),
    (
        [sample_row("1"), sample_row("2"), sample_row("3"), sample_row("4")],
        [
            {"sample_id": "1", "retrieved": []},
            {"sample_id": "2", "response": "a"},
            {"sample_id": "3", "error": "timeout"},
            {"sample_id": "4", "response": "a"},
        ],
        [
            (2, "field 'retrieved' is missing; other lines have it: write [] where nothing was returned"),
            (4, "field 'retrieved' is missing; other lines have it: write [] where nothing was returned"),
        ],
        "rankings on some lines",
    ),
    (
        [
            sample_row("1", relevant_docs=["rhine-1", "rhine-2"], relevant_groups=[["rhine-1", "rhin-2"], []]),
            sample_row("2", relevant_docs=["a", "b"], relevant_groups=[["a"], ["a", "b"]]),
            sample_row("3", relevant_groups=[["a"]]),
        ],
        None,
        [
            (1, "field 'relevant_groups[0]' names 'rhin-2', which is not in relevant_docs; did you mean 'rhine-2'?"),
            (1, "field 'relevant_groups[1]' is empty; a group names at least one id of relevant_docs"),
            (3, "field 'relevant_groups[0]' names 'a', which is not in relevant_docs"),
        ],
        "groups are of relevant documents; one of a single document, and a document in two, are fine",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("samples", "outputs", "want", "why"), PROBLEMS, ids=[row[-1] for row in PROBLEMS])
def test_problems(
    tmp_path: Path, samples: list[Any], outputs: list[Any] | None, want: list[tuple[int | None, str]], why: str
) -> None:
    data, out = write_lines(tmp_path / "d.jsonl", *samples), tmp_path / "o.jsonl"
    checked = validate_files(data, None if outputs is None else write_lines(out, *outputs))
    found = [
        (line, text.replace(str(data), "DATA").replace(str(out), "OUT"))
        for line, text in line_messages(checked.problems)
    ]
    assert found == want, why
    assert checked.is_valid is (not want)


def test_unreadable_files_are_problems(tmp_path: Path) -> None:
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(b"".join(json.dumps(sample_row(str(i))).encode() + b"\n" for i in range(999)))[:-9])
    wide = tmp_path / "wide.jsonl"
    wide.write_bytes('{"sample_id": "1"}'.encode("utf-16"))
    rows = [
        (tmp_path / "none.jsonl", (None, "no such file")),
        (cut, (None, "the compressed data ends too early; the file was cut off")),
        (wide, (1, "the file is UTF-16; save it as UTF-8")),
    ]
    for path, want in rows:
        checked = validate_files(path, write_lines(tmp_path / "o.jsonl", b"{"))
        assert line_messages(checked.problems)[0] == want
        assert {one.path for one in checked.problems} == {path, tmp_path / "o.jsonl"}, "the other is read all the same"


WARNINGS: list[tuple[list[Any], list[Any], list[tuple[int | None, str]]]] = [  # samples, outputs, expected
    ([sample_row(query=" \t")], [], [(1, "the query of sample '1' is empty")]),
    (
        [sample_row(str(i), query="") for i in range(6)],
        [],
        [(1, "the query of sample '0' is empty (also on lines 2, 3, 4 and 2 more)")],
    ),
    (
        [sample_row(labels={"variant_of": "x", "scenario": "typo"})],
        [],
        [(1, "labels.variant_of is 'x', which is the id of no sample")],
    ),
    (
        [sample_row("1", labels={"variant_of": "2", "scenario": "typo"}), sample_row("2", labels={"variant_of": "1", "scenario": "typo"})],
        [],
        [(1, "following labels.variant_of leads from '1' back to itself (also on line 2)")],
    ),
    (
        [sample_row("1", labels={"variant_of": "1", "scenario": "typo"})],
        [],
        [(1, "following labels.variant_of leads from '1' back to itself")],
    ),
    (
        [sample_row("1"), sample_row("2", labels={"variant_of": "1"})],
        [],
        [(2, "labels.variant_of without labels.scenario: no metric knows what kind of variant")],
    ),
    (
        [sample_row(relevant_docs=["d", {"doc_id": "d", "metadata": {"relevance": 2}}, "e", "e"])],
        [],
        [(1, "relevant_docs names 'd' with the levels 1 and 2; the highest counts")],
    ),
    (
        [sample_row(str(number), relevant_docs=["a", "b"], relevant_groups=groups)
         for number, groups in enumerate([[["a", "b"], ["b", "a"]], [["a", "a"]], [["a"], ["a", "b"]]])],
        [],
        [(1, "relevant_groups names a group, or an id in a group, twice; it counts once (also on line 2)")],
    ),
    ([sample_row(labels={"Variant-Of": "1"})], [], [(1, "labels has 'Variant-Of'; did you mean 'variant_of'?")]),
    ([sample_row(metadata={"must_contains": "x"})], [], [(1, "metadata has 'must_contains'; did you mean 'must_contain'?")]),
    ([sample_row(labels={"scenario": "Paraphrase"})], [], [(1, "labels.scenario is 'Paraphrase'; did you mean 'paraphrase'?")]),
    ([sample_row(labels={"scenario": "mine", "lang": "de"})], [], []),
    ([sample_row(labels={"answerable": "no"})], [], [(1, "labels.answerable is neither true nor false")]),
    (
        [sample_row()],
        [{"sample_id": "1", "retrieved": [{"doc": "a", "rank": 2}, {"doc": "b", "rank": 1}]}],
        [(1, "'rank' contradicts the order of 'retrieved'; the list order is what counts")],
    ),
    (
        [sample_row()],
        [{"sample_id": "1", "retrieved": ["a", "b", "a"]}],
        [(1, "'retrieved' holds 'a' twice; it counts once, at its first position")],
    ),
    (
        [sample_row()],
        [{"sample_id": "1", "retrieved": [], "timings": {"t": -1.5, "started": -3}}],
        [(1, "timings.t is negative: -1.5")],
    ),
    (
        [sample_row("1"), sample_row("2"), sample_row("3")],
        [
            {"sample_id": "1", "retrieved": [{"doc": {"doc_id": "a", "text": "A"}}], "response": "x"},
            {"sample_id": "2", "retrieved": ["a"], "response": "x"},
            {"sample_id": "3", "retrieved": ["a"], "response": "x", "error": "timeout"},
        ],
        [(2, "there is an answer but no text of any document to compare it with")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("samples", "outputs", "want"), WARNINGS, ids=[str(row[-1])[:70] for row in WARNINGS])
def test_warnings(tmp_path: Path, samples: list[Any], outputs: list[Any], want: list[tuple[int | None, str]]) -> None:
    out = write_lines(tmp_path / "o.jsonl", *outputs) if outputs else None
    checked = validate_files(write_lines(tmp_path / "d.jsonl", *samples), out)
    assert line_messages(checked.warnings) == want
    assert checked.is_valid


def test_number_of_groups(tmp_path: Path) -> None:
    grouped = sample_row("1", relevant_docs=["a", "b", "c"], relevant_groups=[["a", "b"], ["c"]])
    plain = sample_row("2", relevant_docs=["a"])
    path = write_lines(tmp_path / "d.jsonl", grouped, plain)
    assert validate_files(path).samples["groups"] == 2
    assert "groups" not in validate_files(write_lines(tmp_path / "e.jsonl", plain)).samples, "only where there are some"


def test_counts(tmp_path: Path) -> None:
    checked = validate_files(
        write_lines(
            tmp_path / "d.jsonl",
            sample_row(
                "1", relevant_docs=[{"doc_id": "d", "text": "t"}], reference_answers=["x", "y"], labels={"lang": "de"}
            ),
            sample_row("2", relevant_docs=[], labels={"scenario": "unanswerable"}, metadata={"source": 1}),
            sample_row("3", relevant_docs=[{"doc_id": "d", "metadata": {"relevance": 2}}], candidate_docs=["e"]),
            sample_row("4", labels={"variant_of": "1", "scenario": "typo"}, history=[{"role": "user"}], cluster_id="c"),
        ),
        write_lines(
            tmp_path / "o.jsonl",
            {"sample_id": "1", "retrieved": [{"doc": {"doc_id": "d", "text": "t"}, "score": 1}], "response": " "},
            {"sample_id": "2", "retrieved": [], "timings": {"a": 7, "b": 1}, "refused": True},
            {"sample_id": "3", "retrieved": [], "timings": {"a": 1}, "citations": []},
            {"sample_id": "4", "error": "timeout"},
        ),
    )
    assert checked.is_valid
    want = {
        "samples": 4, "relevant_docs": 3, "empty_gold": 1, "graded": 1, "gold_with_text": 1, "candidate_docs": 1,
        "reference_answer": 1, "several_references": 1, "history": 1, "cluster_id": 1, "variants": 1, "unanswerable": 1,
        "variants_by_scenario": {"typo": 1}, "scenarios": {"unanswerable": 1, "typo": 1},
        "labels": {"lang": 1, "scenario": 2, "variant_of": 1}, "metadata": {"source": 1},
    }  # fmt: skip
    assert {name: checked.samples[name] for name in want} == want
    assert checked.outputs is not None
    want = {
        "outputs": 4, "retrieved": 1, "documents_with_text": 1, "scores": 1, "response": 1, "empty_response": 1,
        "error": 1, "refused": 1, "citations": 1, "timings": {"a": 2, "b": 1},
    }  # fmt: skip
    assert {name: checked.outputs[name] for name in want} == want


# --- every problem of a record, and where it is -----------------------------------------------------------------------

Q = {"id": 3, "question": ["q"], "answers": [{}]}
MANY: list[tuple[str, str, list[str], str]] = [  # name, content, problems after the path, why
    (
        "r.json",
        '[{"user_input": "q"}, {"user_input": 3, "reference": 4, "retrieved_contexts": ["a", 5, null], "response": 6}]',
        [
            ":1: record 2: field 'user_input' must be a string, not a number",
            ":1: record 2: field 'retrieved_contexts[1]' must be a string, not a number",
            ":1: record 2: field 'retrieved_contexts[2]' must be a string, not null",
            ":1: record 2: field 'reference' must be a string, not a number",
            ":1: record 2: field 'response' must be a string, not a number",
        ],
        "ragas, on one line",
    ),
    (
        "r.json",
        '[{"user_input": "q", "id": "a"}, {"user_input": "q", "id": "b"}, {"user_input": "q", "id": "a"}]',
        [":1: record 3: sample_id 'a' is already that of record 1; each id may come once"],
        "ragas, an id twice on one line",
    ),
    (
        "c.jsonl",
        '{"input": 1, "actual_output": 2, "expected_output": 3}\n{"input": "q", "context": 4}\n',
        [
            ":1: field 'input' must be a string, not a number",
            ":1: field 'expected_output' must be a string, not a number",
            ":1: field 'actual_output' must be a string, not a number",
            ":2: field 'context' must be an array, not a number",
        ],
        "deepeval",
    ),
    (
        "s.json",
        json.dumps({"version": "2", "data": [{"paragraphs": [{"qas": 3}, {"context": "c", "qas": [Q]}]}, {"title": 4}]}),
        [
            ": article 1, paragraph 1: field 'qas' must be an array, not a number",
            ": article 1, paragraph 1: field 'context' is missing",
            ": article 1, paragraph 2, question 1: field 'id' must be a string, not a number",
            ": article 1, paragraph 2, question 1: field 'question' must be a string, not an array",
            ": article 1, paragraph 2, question 1: field 'answers[0].text' is missing",
            ": article 2: field 'title' must be a string, not a number",
            ": article 2: field 'paragraphs' is missing",
        ],
        "squad",
    ),
    (
        "g.yaml",
        "versoin: 1\nqueries:\n- id: a\n  qery: q\n  lang: []\n  expected_chunk_ids: b\n- {id: '', query: [q], forbidden: {}}\n",
        [
            ":1: unknown field 'versoin'; did you mean 'version'?",
            ":3: field 'query' is missing",
            ":4: unknown field 'qery'; did you mean 'query'?",
            ":5: field 'lang' must be a string, not a list",
            ":6: field 'expected_chunk_ids' must be a list of ids, not a single value",
            ":7: field 'forbidden' must be a string, not an object",
            ":7: field 'id' is empty; an id needs at least one character",
            ":7: field 'query' must be a string, not a list",
        ],
        "golden",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "want", "why"), MANY, ids=[row[-1] for row in MANY])
def test_every_problem_of_a_record(tmp_path: Path, name: str, content: str, want: list[str], why: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    checked = validate_files(path)
    assert [str(one).removeprefix(str(path)) for one in checked.problems] == want, why


def test_every_problem_of_an_answer(tmp_path: Path) -> None:
    answer = {"references": ["a", 3], "answer": [{"text": 4}, {"citations": "x"}]}
    late = {"references": ["a"], "answer": [{"text": "x", "citations": [1, 0, -1]}]}
    path = tmp_path / "a.json"
    path.write_text(json.dumps([answer, late]))
    checked = validate_files(write_lines(tmp_path / "d.jsonl", sample_row()), path, outputs_format="trec_rag")
    assert [(one.record, one.message) for one in checked.problems] == [
        (1, "field 'references[1]' must be a string, not a number; ids are strings, so put it in quotes"),
        (1, "field 'answer[0].text' must be a string, not a number"),
        (1, "field 'answer[1].citations' must be an array, not a string"),
        (1, "field 'answer[1].text' is missing"),
        (2, "field 'topic_id' is missing"),
        (2, "field 'answer[0].citations[0]' is 1, but the places of the 1 references are counted from 0"),
        (2, "field 'answer[0].citations[2]' is -1, but the places of the 1 references are counted from 0"),
    ]
    assert checked.to_dict()["problems"][0]["record"] == 1


def test_warnings_on_one_line_have_a_record_number(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    rows = [{"user_input": text, "response": "x"} for text in ("q", "", " ", "")]
    path.write_text(json.dumps(rows))
    (warning,) = validate_files(path).warnings
    assert str(warning) == f"{path}:1: record 2: the query of sample '2' is empty (also in records 3, 4)"


REPEATED: list[tuple[str, bytes, list[str]]] = [  # name, content, warnings after the path
    (
        "d.jsonl",
        b'{"sample_id": "1", "query": "a", "query": "b", "labels": {"x": 1, "x": 1, "x": 2}}\n'
        b'{"sample_id": "2", "query": "a", "query": "b"}\n{"sample_id": "3", "query": "", "x": {"query": 1}}\n',
        [
            ":1: field 'query' occurs twice in its object; the last one counts (also on line 2)",
            ":1: field 'labels.x' occurs twice in its object; the last one counts",
        ],
    ),
    (
        "r.json",
        b'[{"user_input": "q"}, {"user_input": "a", "user_input": "b"}]',
        [":1: record 2: field 'user_input' occurs twice in its object; the last one counts"],
    ),
    (
        "s.json",
        b'{"data": [{"paragraphs": [{"context": "c", "context": "d", "qas": [{"id": "1", "question": "q"}]}]}]}',
        [": field 'data[0].paragraphs[0].context' occurs twice in its object; the last one counts"],
    ),
]


@pytest.mark.parametrize(("name", "content", "want"), REPEATED, ids=[row[0] for row in REPEATED])
def test_repeated_key(tmp_path: Path, name: str, content: bytes, want: list[str]) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert [str(one).removeprefix(str(path)) for one in validate_files(path).warnings] == want


def test_duplicate_document_in_a_run(tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text("1 0 a 1\n")
    (tmp_path / "r.txt").write_text("1 Q0 a 1 3 me\n1 Q0 b 2 2 me\n\n1 Q0 a 3 1 me\n1 Q0 b 3 1 me\n")
    checked = validate_files(tmp_path / "q.txt", tmp_path / "r.txt")
    assert line_messages(checked.problems) == [
        (4, "'a' is already on line 1 for '1'; each may come once"),
        (5, "'b' is already on line 2 for '1'; each may come once"),
    ]


# --- targets ----------------------------------------------------------------------------------------------------------


def missing_by_target(checked: Validation) -> dict[TargetCategory, str]:
    return {one.target: one.missing for one in checked.targets if not one.metrics}


def test_bare_dataset(tmp_path: Path) -> None:
    lacks = missing_by_target(validate_files(write_lines(tmp_path / "d.jsonl", sample_row())))
    assert lacks == {
        T.RETRIEVAL_ACCURACY: "no sample has relevant_docs",
        T.GENERATION_CORRECTNESS: "no sample has reference_answer",
        T.NOISE_ROBUSTNESS: lacks[T.NOISE_ROBUSTNESS],
        T.NEGATIVE_REJECTION: (
            "no sample is marked as unanswerable (labels.scenario 'unanswerable'), and none has labels.answerable"
        ),
        T.COUNTERFACTUAL_ROBUSTNESS: lacks[T.COUNTERFACTUAL_ROBUSTNESS],
    }
    assert "no sample has labels.variant_of and a noise scenario" in lacks[T.NOISE_ROBUSTNESS]
    assert "the scenario 'counterfactual'" in lacks[T.COUNTERFACTUAL_ROBUSTNESS]


FULL = [
    sample_row("1", relevant_docs=["d"], reference_answer="x"),
    sample_row("2", relevant_docs=["d"], reference_answer="x", labels={"variant_of": "1", "scenario": "typo"}),
    sample_row("3", relevant_docs=[], labels={"scenario": "unanswerable"}),
    sample_row("4", reference_answer="y", labels={"variant_of": "1", "scenario": "counterfactual"}),
]


def test_complete_dataset(tmp_path: Path) -> None:
    checked = validate_files(write_lines(tmp_path / "d.jsonl", *FULL))
    assert missing_by_target(checked) == {}
    by_target = {one.target: one.patterns for one in checked.targets}
    assert "recall@k" in by_target[T.RETRIEVAL_RELEVANCE]
    assert "mean_latency[timing_key]" in by_target[T.LATENCY], "which timings there will be is not known yet"
    assert "noise_robustness" in " ".join(by_target[T.NOISE_ROBUSTNESS])


LACKING: list[tuple[dict[str, Any], TargetCategory, str]] = [  # every output, target, what is missing
    ({"retrieved": ["d"]}, T.GENERATION_CORRECTNESS, "no output has a response"),
    ({"retrieved": ["d"], "response": "x"}, T.LATENCY, "no output has timings"),
    ({"response": "x"}, T.RETRIEVAL_RELEVANCE, "no output has retrieved documents"),
    ({"response": "x"}, T.RETRIEVAL_ACCURACY, "no output has retrieved documents"),
    (
        {"retrieved": ["d"], "response": "x"},
        T.GENERATION_FAITHFULNESS,
        "no retrieved document has a text, no output has citations, and no sample says what an answer must contain "
        "(metadata.must_contain, metadata.forbidden)",
    ),
]


@pytest.mark.parametrize(("fields", "target", "want"), LACKING, ids=[f"{row[1].name} {row[2][:40]}" for row in LACKING])
def test_incomplete_outputs(tmp_path: Path, fields: dict[str, Any], target: TargetCategory, want: str) -> None:
    outputs = [{"sample_id": row["sample_id"], **fields} for row in FULL]
    checked = validate_files(write_lines(tmp_path / "d.jsonl", *FULL), write_lines(tmp_path / "o.jsonl", *outputs))
    assert checked.is_valid
    assert missing_by_target(checked)[target] == want


def test_timing_keys(tmp_path: Path) -> None:
    outputs = [{"sample_id": row["sample_id"], "retrieved": ["d"], "timings": {"search": 1}} for row in FULL]
    checked = validate_files(write_lines(tmp_path / "d.jsonl", *FULL), write_lines(tmp_path / "o.jsonl", *outputs))
    assert "mean_latency[search]" in next(one.patterns for one in checked.targets if one.target is T.LATENCY)


# --- formats ----------------------------------------------------------------------------------------------------------


def test_combined_format_is_validated_for_both_roles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def samples(path: Path, problems: Problems) -> Iterator[ParsedSample]:
        problems.add(path, 2, "wrong for both")
        for number, line in enumerate(path.read_text().split(), start=1):
            yield ParsedSample(
                number, next(read_samples(write_lines(tmp_path / "x", sample_row(line)), Problems())).sample
            )

    def outputs(path: Path, problems: Problems) -> Iterator[ParsedOutput]:
        problems.add(path, 2, "wrong for both")
        row = {"sample_id": "a", "retrieved": []}
        yield next(iter_outputs(write_lines(tmp_path / "x", row), Problems()))

    both = Format(
        "both",
        "",
        lambda head, role: head.suffix == ".both",
        samples,
        outputs,
        write_both=lambda pairs, to: None,
        one_file=True,
    )
    monkeypatch.setitem(formats._FORMATS, "both", both)
    (tmp_path / "d.both").write_text("a\nb\n")
    checked = validate_files(tmp_path / "d.both")
    assert line_messages(checked.problems) == [
        (2, "wrong for both"),
        (2, f"sample 'b' has no output in {tmp_path / 'd.both'} (unless it is in a record that cannot be read)"),
    ]
    assert checked.outputs is not None
    assert checked.to_dict()["files"]["outputs"] == {"path": str(tmp_path / "d.both"), "format": "both"}


def test_to_dict(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "d.jsonl", {"sample_id": "1", "qu'ery": "q"}, b"[]")
    document = json.loads(json.dumps(validate_files(path).to_dict()))
    assert [(one["line"], one["field"]) for one in document["problems"]] == [(1, "qu'ery"), (1, "query"), (2, None)]
    assert document["problems"][0]["file"] == str(path)
    assert document["fine"] is False
    assert document["outputs"] is None
    assert [one["target"] for one in document["targets"]] == [target.name for target in T if target is not T.COST]


PIECES = st.sampled_from(
    [json.dumps(row).encode() for row in FULL]
    + [
        b"{}",
        b"\xff",
        b"\r\n",
        b"null",
        b"[",
        b'{"sample_id": "1", "retrieved": [3], "timings": {"a": []}}',
        b"\xef\xbb\xbf",
    ]
)


@given(st.lists(PIECES, max_size=5), st.lists(PIECES, max_size=5))
def test_any_files_can_be_validated(
    tmp_path_factory: pytest.TempPathFactory, samples: list[bytes], outputs: list[bytes]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    checked = validate_files(
        write_lines(folder / "fuzz-d.jsonl", *samples), write_lines(folder / "fuzz-o.jsonl", *outputs)
    )
    json.dumps(checked.to_dict(), allow_nan=False)
    assert checked.is_valid or checked.problems
