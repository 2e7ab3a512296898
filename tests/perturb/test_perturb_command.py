"""``auepora perturb``: any dataset in, JSONL with variants out, and rejected arguments."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.examples.quickstart.systems import dataset_path
from auepora_eval.io.jsonl import load_jsonl_dataset

Command = Callable[..., tuple[int, str, str]]

ROWS: list[dict[str, Any]] = [
    {
        "sample_id": "q1",
        "query": "Which river flows through Vienna?",
        "relevant_docs": ["d1"],
        "labels": {"lang": "en"},
    },
    {
        "sample_id": "q2",
        "query": "What opened in 1863?",
        "relevant_docs": ["d2"],
        "reference_answer": {"text": "A line"},
    },
]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # and taken off again, with what the command itself put there
    path = tmp_path / "data.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return path


def read_rows(path: str) -> list[dict[str, Any]]:
    raw = Path(path).read_bytes()
    return [json.loads(line) for line in (gzip.decompress(raw) if path.endswith(".gz") else raw).splitlines()]


def test_writes_samples_and_linked_variants(data: Path, auepora: Command) -> None:
    code, out, err = auepora("perturb", "data.jsonl", "--typo", "0.05", "--case", "upper", "-o", "noisy.jsonl")
    assert (code, out) == (0, "")
    assert err.splitlines() == [
        "wrote noisy.jsonl: 6 samples, 4 of them variants",
        "typo: 2 variants",
        "upper_case: 2 variants",
    ]
    rows = {row["sample_id"]: row for row in read_rows("noisy.jsonl")}
    assert list(rows) == ["q1", "q1~typo-1", "q1~upper_case-1", "q2", "q2~typo-1", "q2~upper_case-1"]
    assert rows["q1~upper_case-1"]["query"] == "WHICH RIVER FLOWS THROUGH VIENNA?"
    assert rows["q1~typo-1"]["labels"] == {"lang": "en", "variant_of": "q1", "scenario": "typo"}
    assert rows["q2~typo-1"]["relevant_docs"] == [{"doc_id": "d2"}]
    assert rows["q2~typo-1"]["reference_answer"] == {"text": "A line"}


def test_same_seed_writes_same_file(data: Path, auepora: Command) -> None:
    options = [
        "--keyboard",
        "0.1",
        "--layout",
        "azerty",
        "--drop-words",
        "0.2",
        "--swap-words",
        "0.3",
        "--variants",
        "3",
    ]
    for name, seed in [("a.jsonl.gz", "5"), ("b.jsonl.gz", "5"), ("c.jsonl.gz", "6")]:
        assert auepora("perturb", "data.jsonl", *options, "--seed", seed, "-o", name)[0] == 0
    assert read_rows("a.jsonl.gz") == read_rows("b.jsonl.gz") != read_rows("c.jsonl.gz")
    assert len(read_rows("a.jsonl.gz")) == 2 + 2 * 3 * 3


def test_only_variants_and_json(data: Path, auepora: Command) -> None:
    code, out, _ = auepora(
        "perturb", "data.jsonl", "--case", "random=1", "--variants", "2", "--only-variants", "--json", "-o", "v.jsonl"
    )
    assert code == 0
    assert json.loads(out) == {
        "schema": 1,
        "written": "v.jsonl",
        "samples": 2,
        "variants": 2,
        "perturbed": 2,
        "variants_left": 0,
        "without_query": 0,
        "kinds": {"random_case": {"made": 2, "unchanged": 0, "repeated": 2, "failed": 0, "failure": None}},
    }
    assert [row["query"] for row in read_rows("v.jsonl")] == [
        "wHICH RIVER FLOWS THROUGH vIENNA?",
        "wHAT OPENED IN 1863?",
    ]


def test_keep_numbers_and_report_omissions(data: Path, auepora: Command) -> None:
    code, _, err = auepora(
        "perturb", "data.jsonl", "--typo", "1", "--keep-numbers", "--no-punctuation", "--case", "lower", "-o", "v.jsonl"
    )
    assert code == 0
    assert "1863?" in {row["sample_id"]: row["query"] for row in read_rows("v.jsonl")}["q2~typo-1"]
    (data.parent / "small.jsonl").write_text(
        '{"sample_id": "s", "query": "all small"}\n{"sample_id": "e", "query": ""}\n'
    )
    code, _, err = auepora("perturb", "small.jsonl", "--typo", "0.1", "--case", "lower", "-o", "v.jsonl")
    assert "lower_case: 0 variants; left out: 1 no different from the question" in err
    assert "not perturbed: 1 sample without a query" in err


def test_any_input_format(data: Path, auepora: Command) -> None:
    beir = data.parent / "beir"
    (beir / "qrels").mkdir(parents=True)
    (beir / "corpus.jsonl").write_text('{"_id": "d1", "title": "", "text": "The Danube"}\n')
    (beir / "queries.jsonl").write_text('{"_id": "b1", "text": "Which river?"}\n')
    (beir / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nb1\td1\t1\n")
    assert auepora("perturb", "beir", "--typo", "0.1", "-o", "v.jsonl")[0] == 0
    assert [(row["sample_id"], row["relevant_docs"][0]["doc_id"]) for row in read_rows("v.jsonl")] == [
        ("b1", "d1"),
        ("b1~typo-1", "d1"),
    ]


OWN = """
class Llm:
    def __call__(self, prompt):
        question = prompt.rpartition("Question: ")[2]
        if "1863" in question:
            raise ConnectionError("no route")
        return f"Tell me: {question}"

from auepora_eval.perturb.queries import Paraphraser

paraphraser = Paraphraser(Llm())

def politely(query, rng):
    return f"Please, {query}"

def made():
    return Paraphraser(lambda prompt: "x", name="made")

class Backwards:
    name, scenario = "backwards", "typo"
    def perturb(self, query, rng):
        return query[::-1]

number = 3
"""


def test_custom_perturbers_by_import_path(data: Path, auepora: Command) -> None:
    (data.parent / "own_noise.py").write_text(OWN)
    own = [f"--with=own_noise:{name}" for name in ("paraphraser", "politely", "made", "Backwards")]
    code, _, err = auepora("perturb", "data.jsonl", *own, "--concurrency", "2", "-o", "v.jsonl")
    assert code == 0
    assert "paraphrase: 1 variant; left out: 1 failed (ConnectionError: no route)" in err
    queries = {row["sample_id"]: row["query"] for row in read_rows("v.jsonl")}
    assert queries["q1~paraphrase-1"] == "Tell me: Which river flows through Vienna?"
    assert queries["q2~politely-1"] == "Please, What opened in 1863?"
    assert queries["q1~made-1"] == "x"
    assert queries["q2~backwards-1"] == "?3681 ni denepo tahW"
    assert auepora("perturb", "data.jsonl", "--with", "own_noise:number", "-o", "v.jsonl")[0] == 2


REFUSED: list[tuple[list[str], str, str]] = [
    (["data.jsonl"], "give at least one perturbation", "nothing chosen"),
    (["data.jsonl", "--typo", "0.1", "--layout", "azerty"], "goes with --keyboard", "a layout without a keyboard"),
    (["data.jsonl", "--case", "upper", "--keep-numbers"], "goes with --typo", "numbers that nothing would change"),
    (["data.jsonl", "--typo", "1.5"], "1.5 is not in the range 0<=x<=1", "a rate above 1"),
    (["data.jsonl", "--drop-words", "-0.1"], "-0.1 is not in the range", "a rate below 0"),
    (["data.jsonl", "--typo", "nan"], "rate must be a number >= 0 and <= 1, not nan", "a rate that is no number"),
    (["data.jsonl", "--case", "title"], "'title' is none of lower, upper, random, random=RATE", "a case there is not"),
    (["data.jsonl", "--case", "lower=0.5"], "'lower=0.5' is none of", "a share of lower case"),
    (["data.jsonl", "--case", "random=2"], "2.0 is not in the range", "a share above 1"),
    (
        ["data.jsonl", "--typo", "0"],
        "no variant could be made of the questions in data.jsonl (typo: 2 no different",
        "rate 0",
    ),
    (
        ["data.jsonl", "--typo", "0.1", "-o", "data.jsonl"],
        "is the input data.jsonl; write to another file",
        "input as output",
    ),
    (["data.jsonl", "--typo", "0.1", "-o", "out.parquet"], "the name must end in .jsonl", "another format asked for"),
    (["absent.jsonl", "--typo", "0.1"], "absent.jsonl", "no such file"),
    (["empty.jsonl", "--typo", "0.1"], "no question in it that could be perturbed: no sample has one", "no queries"),
    (["variants.jsonl", "--typo", "0.1"], "only variants; --variants-too makes variants of them", "only variants"),
    (["data.jsonl", "--with", "absent_module:x"], "there is no module 'absent_module'", "no such module"),
    (["data.jsonl", "--with", "json"], "names no object: write module:name", "no name after the module"),
    (["data.jsonl", "--with", "json:nothing"], "'json' has no 'nothing'", "no such name in it"),
    (["data.jsonl", "--typo", "0.1", "--variants", "0"], "0 is not in the range x>=1", "no variants"),
]


@pytest.mark.parametrize(("arguments", "message", "why"), REFUSED, ids=[row[2] for row in REFUSED])
def test_rejected_arguments(data: Path, auepora: Command, arguments: list[str], message: str, why: str) -> None:
    (data.parent / "empty.jsonl").write_text('{"sample_id": "e", "query": " "}\n')
    (data.parent / "variants.jsonl").write_text('{"sample_id": "v", "query": "x", "labels": {"variant_of": "q"}}\n')
    before = data.read_bytes()
    output = [] if "-o" in arguments else ["-o", "out.jsonl"]
    code, out, err = auepora("perturb", *arguments, *output)
    assert (code, out) == (2, "")
    assert message in err
    assert data.read_bytes() == before
    assert not (data.parent / "out.jsonl").exists()


def test_old_variants_stay_and_duplicate_ids_are_rejected(data: Path, auepora: Command) -> None:
    auepora("perturb", "data.jsonl", "--typo", "0.1", "-o", "one.jsonl")
    code, _, err = auepora("perturb", "one.jsonl", "--keyboard", "0.1", "-o", "two.jsonl")
    assert code == 0
    assert "not perturbed: 2 variants that the dataset had already" in err
    assert len(read_rows("two.jsonl")) == 6
    code, _, err = auepora("perturb", "one.jsonl", "--typo", "0.1", "-o", "two.jsonl")
    assert code == 2
    assert "the id 'q1~typo-1' of a variant is already the id of a sample" in err


PLAN = """
name: noisy
dataset: {jsonl: noisy.jsonl}
system: {python: "auepora_eval.examples.quickstart.systems:bm25"}
metrics: [recall@5, noise_robustness: {base: recall@5}]
store: runs.sqlite
"""


@pytest.mark.slow
def test_bundled_questions_to_noise_robustness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, auepora: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = str(dataset_path())
    assert auepora("perturb", asked, "--keyboard", "0.15", "--drop-words", "0.3", "-o", "noisy.jsonl", "-q") == (
        0,
        "",
        "",
    )
    bases = [one for one in load_jsonl_dataset("noisy.jsonl") if "variant_of" not in one.labels]
    Path("plan.yaml").write_text(PLAN)
    code, out, _ = auepora("run", "plan.yaml", "--json")
    assert code == 0
    (robustness,) = [one for one in json.loads(out)["results"] if one["name"] == "noise_robustness"]
    assert 0.2 < robustness["value"] < 1.0
    # Two variants of every question that has gold, beside the reworded ones that were there.
    assert robustness["details"]["num_samples"] > len([one for one in bases if one.relevant_docs]) * 2
