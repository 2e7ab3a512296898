"""The commands ``auepora validate`` and ``auepora convert``."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from auepora_eval.io import formats
from auepora_eval.io.formats import Format
from auepora_eval.io.jsonl import load_jsonl_dataset, load_jsonl_outputs, save_jsonl_dataset

Run = Callable[..., tuple[int, str, str]]


class TestValidate:
    def test_a_dataset(self, files: Path, run: Run) -> None:
        code, out, err = run("validate", "data.jsonl")
        assert (code, err) == (0, "")
        assert "3 samples in data.jsonl (jsonl)\n  relevant_docs     3  (1 empty, 1 with text)\n" in out
        assert "\nMetrics this dataset supports\n  + Retrieval relevance: " in out
        assert "\n  - Noise robustness: no sample has labels.variant_of and a noise scenario" in out
        assert out.endswith("\n\nno problems\n")

    def test_problems_exit_with_2(self, files: Path, run: Run) -> None:
        code, out, err = run("validate", "data.jsonl", "out.jsonl")
        assert (code, err) == (2, "")
        assert out.startswith("data.jsonl:3: sample '3' has no output in out.jsonl\n\n3 samples in data.jsonl")
        assert "2 outputs in out.jsonl (jsonl)\n" in out
        assert "timings       end_to_end 1\n" in out
        assert out.endswith("\n1 problem\n")

    def test_warnings_exit_with_0(self, files: Path, run: Run) -> None:
        Path("odd.jsonl").write_text('{"sample_id": "1", "query": ""}\n')
        code, out, _ = run("validate", "odd.jsonl")
        assert code == 0
        assert out.startswith("warning: odd.jsonl:1: the query of sample '1' is empty\n")
        assert out.endswith("\nno problems, 1 warning\n")

    def test_first_hundred_problems_are_printed(self, files: Path, run: Run) -> None:
        Path("bad.jsonl").write_text("[]\n" * 103)
        code, out, _ = run("validate", "bad.jsonl")
        assert code == 2
        assert out.count("each line must be one JSON object") == 100
        assert "\n... and 3 more problems; --all prints every one\n" in out
        assert out.endswith("\n103 problems\n")
        _, out, _ = run("validate", "bad.jsonl", "--all")
        assert out.count("each line must be one JSON object") == 103
        assert "more" not in out

    def test_one_problem_is_one_line(self, files: Path, run: Run) -> None:
        Path("odd.jsonl").write_text('{"sample_id": "1", "query": "q", "a\\nb\\u2028\\u001b[31m": 1}\n')
        _, out, _ = run("validate", "odd.jsonl")
        first, *rest = out.split("\n")
        assert first.startswith("odd.jsonl:1: unknown field 'a\\nb\\u2028\\x1b[31m'")
        assert rest[0] == ""

    def test_json(self, files: Path, run: Run) -> None:
        code, out, _ = run("validate", "data.jsonl", "out.jsonl", "--json")
        document = json.loads(out)
        assert (code, document["fine"]) == (2, False)
        assert document["problems"] == [
            {
                "file": "data.jsonl",
                "line": 3,
                "record": None,
                "field": None,
                "message": "sample '3' has no output in out.jsonl",
            }
        ]
        assert document["samples"]["samples"] == 3
        supported = {one["target"] for one in document["targets"] if one["supported"]}
        assert {"RETRIEVAL_RELEVANCE", "LATENCY"} <= supported
        assert "NOISE_ROBUSTNESS" not in supported

    def test_documents_missing_from_the_corpus(self, files: Path, run: Run) -> None:
        Path("corpus.jsonl").write_text('{"doc_id": "b", "text": "B."}\n{"doc_id": "x", "text": "X."}\n')
        Path("both.jsonl").write_text(
            '{"sample_id": "1", "retrieved": ["a", "x"], "response": "Ada"}\n'
            '{"sample_id": "2", "retrieved": ["a", "b"], "response": "1843"}\n'
            '{"sample_id": "3", "retrieved": []}\n'
        )
        code, out, _ = run("validate", "data.jsonl", "both.jsonl", "--corpus", "corpus.jsonl")
        assert code == 0
        assert out.splitlines()[:2] == [
            "warning: data.jsonl:2: document 'c' is not in the corpus corpus.jsonl and stays without text",
            "warning: both.jsonl:1: document 'a' is not in the corpus corpus.jsonl and stays without text (also on line 2)",
        ]
        assert "(2 with text)\n" in out
        assert "\n\n2 documents in corpus.jsonl\n\n" in out
        document = json.loads(run("validate", "data.jsonl", "both.jsonl", "--corpus", "corpus.jsonl", "--json")[1])
        assert (document["documents"], document["files"]["corpus"]["path"]) == (2, "corpus.jsonl")

    def test_invalid_corpus(self, files: Path, run: Run) -> None:
        Path("corpus.jsonl").write_text('{"doc_id": "b"}\n{"doc_id": 3, "text": 4}\n{"doc_id": "d", "text": "D"}\n')
        code, out, _ = run("validate", "data.jsonl", "--corpus", "corpus.jsonl")
        assert code == 2
        assert out.splitlines()[:3] == [
            "corpus.jsonl:1: field 'text' is missing",
            "corpus.jsonl:2: field 'doc_id' must be a string or null, not a number; ids are strings, so put it in quotes",
            "corpus.jsonl:2: field 'text' must be a string, not a number",
        ]
        code, out, _ = run("validate", "data.jsonl", "--corpus", "nope.jsonl")
        assert (code, out.splitlines()[0]) == (2, "nope.jsonl: no such file")

    def test_invalid_outputs_support_no_metric(self, files: Path, run: Run) -> None:
        Path("bad.jsonl").write_text("{nonsense\n")
        Path("other.jsonl").write_text('{"sample_id": "x", "retrieved": []}\n')
        for name, why in (("bad.jsonl", "no output could be read"), ("other.jsonl", "no output belongs to a sample")):
            code, out, _ = run("validate", "data.jsonl", name)
            assert code == 2
            assert f"\n\nMetrics these files support: nothing, since {why}\n\n" in out
            assert "@k" not in out
            document = json.loads(run("validate", "data.jsonl", name, "--json")[1])
            assert {(one["supported"], one["missing"]) for one in document["targets"]} == {(False, why)}

    def test_broken_first_line_is_reported(self, files: Path, run: Run) -> None:
        for name, text, want in (
            ("a.jsonl", '{"sample_id": oops}\n', "a.jsonl:1: not valid JSON: invalid character near column 15"),
            ("a.json", '{"sample": oops}\n', "a.json:1: not valid JSON: invalid character near column 12"),
            (
                "b.json",
                "[\n  {oops}\n]\n",
                "b.json:2: not valid JSON: expecting property name enclosed in double quotes",
            ),
            ("c.json", "\n\nuser_input: x\n", "c.json:3: not valid JSON: invalid character near column 1"),
            ("d.json", '[{"a": 1}, oops]', "d.json:1: not valid JSON: expecting value near column 12"),
            (
                "e.json",
                '[{"a": 1}]',
                "e.json: cannot tell in which format these samples are: this is JSON with the columns 'a'; ",
            ),
        ):
            Path(name).write_text(text)
            code, out, _ = run("validate", name)
            assert code == 2
            assert out.startswith(want), out
            code, _, err = run("score", name, "out.jsonl")
            assert code == 2
            assert want in err

    def test_format_is_detected_after_a_broken_first_line(self, files: Path, run: Run) -> None:
        Path("a.jsonl").write_text('{user_input: "q"}\n{"user_input": "q", "response": "x"}\n')
        Path("a.json").write_text('[\n{user_input: "q"},\n{"user_input": "q", "response": "x"}\n]\n')
        for name, line in (("a.jsonl", 1), ("a.json", 2)):
            code, out, _ = run("validate", name)
            first, second, *_ = out.splitlines()
            assert (code, second) == (2, "")
            assert first.startswith(f"{name}:{line}: not valid JSON: ")
            assert f"1 sample in {name} (ragas)\n" in out


class TestConvert:
    def test_to_a_compressed_file(self, files: Path, run: Run) -> None:
        assert run("convert", "data.jsonl", "x.jsonl.gz") == (0, "", "wrote x.jsonl.gz: 3 samples\n")
        assert list(load_jsonl_dataset("x.jsonl.gz")) == list(load_jsonl_dataset("data.jsonl"))
        assert run("convert", "answers.jsonl", "y.jsonl") == (0, "", "wrote y.jsonl: 1 output\n")
        assert load_jsonl_outputs("y.jsonl") == load_jsonl_outputs("answers.jsonl")

    def test_dropped_fields_are_reported(self, files: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        known = formats.formats()
        narrow = Format(
            "narrow",
            "questions alone",
            lambda head, role: head.suffix == ".narrow",
            write_samples=save_jsonl_dataset,
            sample_fields=frozenset({"query"}),
        )
        monkeypatch.setattr(formats, "_FORMATS", {"narrow": narrow, **known})
        code, out, err = run("convert", "data.jsonl", "x.narrow")
        assert (code, out) == (0, "")
        assert err.splitlines() == [
            "wrote x.narrow: 3 samples",
            "dropped: relevant_docs in 3 of 3 samples (the format 'narrow' cannot hold it)",
            "dropped: reference_answer in 2 of 3 samples (the format 'narrow' cannot hold it)",
        ]
        _, out, err = run("convert", "data.jsonl", "x.narrow", "--json")
        document = json.loads(out)
        assert err == ""
        assert document["written"] == {"samples": {"path": "x.narrow", "count": 3}}
        assert document["dropped"][0] == {
            "role": "samples",
            "field": "relevant_docs",
            "count": 3,
            "total": 3,
            "format": "narrow",
        }


MISTAKES = [  # arguments, what the message says
    (["validate"], "Missing argument 'DATASET'"),
    (["validate", "data.jsonl", "--format", "jsnl"], "unknown format 'jsnl'; did you mean 'jsonl'?"),
    (["validate", "data.jsonl", "--outputs-format", "jsonl"], "--outputs-format goes with OUTPUTS"),
    (["convert", "data.jsonl"], "Missing argument 'OUT'"),
    (["convert", "data.jsonl", "data.jsonl"], "data.jsonl is the input data.jsonl; write to another file"),
    (["convert", "data.jsonl", "link.jsonl"], "link.jsonl is the input data.jsonl; write to another file"),
    (["convert", "data.jsonl", "x.dat"], "cannot tell from its name in which format to write x.dat; name one (--to): "),
    (["convert", "nope.jsonl", "x.jsonl"], "nope.jsonl: no such file"),
    (["convert", "data.jsonl", "x.jsonl", "--outputs", "o.jsonl"], "data.jsonl holds no outputs that could be written"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=[" ".join(row[0]) for row in MISTAKES])
def test_user_errors_exit_with_2_and_one_message(files: Path, arguments: list[str], message: str, run: Run) -> None:
    before = Path("data.jsonl").read_bytes()
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert Path("data.jsonl").read_bytes() == before


def test_missing_file_is_a_problem(files: Path, run: Run) -> None:
    code, out, _ = run("validate", "nope.jsonl", "out.jsonl")
    assert code == 2
    assert out.startswith("nope.jsonl: no such file\n\n2 outputs in out.jsonl (jsonl)\n")
    assert out.endswith("\n1 problem\n")


@pytest.mark.parametrize("command", ["validate", "convert"])
def test_help_shows_an_example(command: str, run: Run) -> None:
    code, out, _ = run(command, "--help")
    assert code == 0
    assert f"auepora {command} data.jsonl" in out
