"""``auepora bench`` and ``auepora init --bench``: what is printed, and what is sentence of a wrong file."""

import bz2
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.bench.entries import FOLDER, all_benchmarks, get_benchmark
from auepora_eval.bench.recognition import DATA_VARIABLE
from auepora_eval.bench.rgb import with_documents
from tools.bench_page import PAGE, bench_page, figures, with_figures
from tools.source_tree import REPO

Auepora = Callable[..., tuple[int, str, str]]
pytestmark = pytest.mark.usefixtures("jieba")
HOTPOT = FOLDER / "hotpotqa"
RGB = FOLDER / "rgb"


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(DATA_VARIABLE, raising=False)


def arguments(name: str) -> list[str]:
    """The first example of a benchmark as arguments of ``bench run``."""
    benchmark = get_benchmark(name)
    split, part = next((split, part) for split, part in benchmark.parts.items() if part.examples)
    example = next(iter(part.examples.values()))
    given = ["bench", "run", name, "--data", str(benchmark.folder / example.data)]
    given += ["--split", split] if split else []
    return given + (["--outputs", str(benchmark.folder / example.outputs)] if example.outputs else [])


RUNNABLE = [
    benchmark.name
    for benchmark in all_benchmarks()
    if "judge" not in benchmark.heading.needs and benchmark.name != "eli5"
]


@pytest.mark.parametrize("name", RUNNABLE)
def test_run_begins_with_the_conclusion_and_is_short(auepora: Auepora, name: str) -> None:
    code, out, _ = auepora(*arguments(name), "-q")
    lines = out.rstrip().splitlines()
    assert code == 0
    assert lines[0].startswith(get_benchmark(name).heading.title)
    assert " on " in lines[0]
    assert len(lines) <= 25
    assert ("non-commercial" in out) is get_benchmark(name).heading.non_commercial
    assert ("nothing was run" in out) is (get_benchmark(name).heading.mark == "P")


def test_strict_shows_the_published_numbers_alone(auepora: Auepora) -> None:
    _, both, _ = auepora(*arguments("rgb"), "-q")
    _, strict, _ = auepora(*arguments("rgb"), "-q", "--strict")
    assert both.startswith("RGB (en): all_rate 0.5000 (published: 0.2500) on 4 samples")
    assert strict.startswith("RGB (en): all_rate 0.2500 on 4 samples")
    assert ("ours" in both, "ours  " in strict) == (True, False)
    assert ("0.1500 – 0.8500" in both, "0.0456 – 0.6994" in strict) == (True, True)  # each of the value beside it
    assert "all_rate: an answer with 'insufficient information' is wrong" in both


def test_settings_change_the_number(auepora: Auepora) -> None:
    _, out, _ = auepora(*arguments("rgb"), "-q", "--strict", "--set", "noise=1")
    assert out.startswith("RGB (en): all_rate 0.7500")
    code, _, err = auepora(*arguments("rgb"), "--set", "nosie=1")
    assert (code, "there is no setting 'nosie'; did you mean 'noise'?" in err) == (2, True)
    code, _, err = auepora(*arguments("rgb"), "--set", "noise=much")
    assert (code, "the setting 'noise' is a number such as 0.6, not 'much'" in err) == (2, True)
    code, _, err = auepora(*arguments("popqa")[:-1], str(HOTPOT / "pred.json"))
    assert (code, "'answer', 'sp'; our own JSONL has sample_id and response" in err) == (2, True)


def test_json_is_exact_and_can_be_stored(auepora: Auepora) -> None:
    _, out, _ = auepora(*arguments("hotpotqa"), "-q", "--json")
    values = json.loads(out)
    assert values["numbers"]["f1"]["published"] == pytest.approx(5 / 12, abs=1e-15)
    assert values["numbers"]["f1"]["ours"] == pytest.approx(31 / 60, abs=1e-15)
    assert (values["benchmark"], values["samples"], values["missing"]) == ("hotpotqa", 4, [])
    code, out, _ = auepora(*arguments("hotpotqa"), "-o", "results.json")
    assert (code, out) == (0, "")
    assert json.loads(Path("results.json").read_text()) == values


def test_a_missing_output_is_counted(auepora: Auepora) -> None:
    Path("some.jsonl").write_text('{"sample_id": "when did lake tane freeze", "response": "1901"}\n')
    _, out, _ = auepora(
        "bench", "run", "nq_open", "--data", str(FOLDER / "nq_open" / "NQ-open.dev.jsonl"), "--outputs", "some.jsonl"
    )
    assert out.startswith("NQ-open: accuracy 0.3333 on 3 samples; 2 without an output")


def test_a_judge_is_asked_for(auepora: Auepora) -> None:
    code, out, _ = auepora(*arguments("asqa"), "-q")
    assert (code, "not computed: citation_rec, citation_prec; needs nli" in out) == (0, True)
    code, _, err = auepora(*arguments("frames"))
    assert (code, "nothing can be computed: needs judge: give --plan with resources.judge" in err) == (2, True)


# --- files that are not what they should be ---------------------------------------------------------------------------


def changed(tmp_path: Path, drop: str) -> Path:
    rows = json.loads((HOTPOT / "dev_distractor.json").read_text())
    for row in rows:
        del row[drop]
    path = tmp_path / "hotpot_new.json"
    path.write_text(json.dumps(rows))
    return path


def test_a_file_without_a_column(auepora: Auepora, tmp_path: Path) -> None:
    path = changed(tmp_path, "supporting_facts")
    code, _, err = auepora("bench", "run", "hotpotqa", "--data", str(path), "--outputs", str(HOTPOT / "pred.json"))
    assert code == 2
    assert "this is no file of hotpotqa: it lacks 'supporting_facts'" in err
    assert "Expected: an array of _id, question, answer, supporting_facts" in err
    assert "it may be another version of the file" in err


@pytest.mark.parametrize(
    ("name", "file", "looks_like"),
    [
        ("hotpotqa", RGB / "en.json", "rgb --split en"),
        ("rgb", HOTPOT / "dev_distractor.json", "hotpotqa"),
        ("hotpotqa", FOLDER / "2wiki" / "dev.json", "2wiki"),
        ("popqa", FOLDER / "frames" / "test.tsv", "frames"),
        ("cdqa", FOLDER / "crud_rag" / "split_merged.json", "crud_rag --split questanswer"),
        ("mirage", FOLDER / "triviaqa" / "wikipedia-dev.json", "triviaqa"),
        ("multihop_rag", FOLDER / "bergen" / "eval_dev_out.json", "bergen"),
        ("nq_open", HOTPOT / "dev_distractor.json", "hotpotqa"),
        ("databricks", HOTPOT / "dev_distractor.json", "hotpotqa"),
        ("asqa", FOLDER / "eli5" / "result.json", "eli5"),
        ("qampari", FOLDER / "asqa" / "result.json", "asqa"),
        ("eli5", FOLDER / "qampari" / "result.json", "qampari"),
        ("beir", RGB / "en.json", "rgb --split en"),
        ("feb4rag", RGB / "en.json", "rgb --split en"),
    ],
)
def test_a_file_of_another_benchmark(auepora: Auepora, name: str, file: Path, looks_like: str) -> None:
    code, _, err = auepora("bench", "run", name, "--data", str(file), "--outputs", str(HOTPOT / "pred.json"))
    assert code == 2
    assert f"this is no file of {name}" in err
    assert f"the file looks like {looks_like}: auepora bench run {looks_like} --data {file}" in err


def test_a_file_of_another_split(auepora: Auepora) -> None:
    given = ["bench", "run", "rgb", "--split", "fact", "--data", str(RGB / "en.json")]
    code, _, err = auepora(*given, "--outputs", str(RGB / "outputs.jsonl"))
    assert (code, "it lacks 'fakeanswer', 'positive_wrong'" in err, "looks like rgb --split en:" in err) == (
        2,
        True,
        True,
    )


def test_a_wrong_folder(auepora: Auepora) -> None:
    code, _, err = auepora("bench", "run", "hotpotqa", "--data", str(RGB), "--outputs", str(HOTPOT / "pred.json"))
    assert code == 2
    assert "no file of hotpotqa is in this folder: expected hotpot_*.json" in err
    assert "en.json looks like rgb --split en" in err
    code, _, err = auepora("bench", "run", "beir", "--data", str(RGB), "--outputs", str(FOLDER / "beir" / "run.txt"))
    assert (code, "no file of beir is in this folder: expected corpus.jsonl" in err) == (2, True)


@pytest.mark.parametrize("data", ["beir", "beir/corpus.jsonl", "."])
def test_the_folder_of_a_benchmark_is_found(auepora: Auepora, data: str) -> None:
    code, out, err = auepora(
        "bench", "run", "beir", "--data", str(FOLDER / data), "--outputs", str(FOLDER / "beir" / "run.txt")
    )
    assert (code, out.startswith("BEIR (rankings): NDCG@1 0.2500 on 3 samples")) == (0, True), err


def test_a_record_without_an_id(auepora: Auepora, tmp_path: Path) -> None:
    rows = json.loads((HOTPOT / "dev_distractor.json").read_text())
    del rows[1]["_id"]
    (tmp_path / "dev.json").write_text(json.dumps(rows))
    code, _, err = auepora("bench", "run", "hotpotqa", "--data", "dev.json", "--outputs", str(HOTPOT / "pred.json"))
    assert (code, "there is nothing at '_id', which is the id of a sample" in err) == (2, True), err


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["bench", "run", "hotpot"], "there is no benchmark 'hotpot'; did you mean 'hotpotqa'?"),
        (["bench", "run", "hotpotqa"], "the files of hotpotqa are not here; give --data PATH. Get them yourself: hotpot_dev"),
        (["bench", "run", "hotpotqa", "--data", "none.json"], "no such file; Get them yourself"),
        (["bench", "run", "rgb", "--split", "fr"], "rgb has no split 'fr'; there are en, int, fact, zh, rejection"),
        (["bench", "run", "beir", "--split", "holes", "--data", str(FOLDER / "beir"), "--system", "a:b"], "counted in saved outputs: give --outputs FILE"),
        (["bench", "check", "none"], "there is no benchmark 'none'"),
        (["init"], "give DATASET, or --bench NAME"),
    ],
)  # fmt: skip
def test_other_errors(auepora: Auepora, given: list[str], problem: str) -> None:
    code, _, err = auepora(*given)
    assert (code, problem in err) == (2, True), err


def test_check_recognises_files(auepora: Auepora, tmp_path: Path) -> None:
    code, out, _ = auepora("bench", "check", str(FOLDER / "multihop_rag" / "retrieval_test.json"))
    assert (code, "looks like multihop_rag --split retrieval. Expected: an array of query" in out) == (0, True)
    path = tmp_path / "dev.jsonl.bz2"
    path.write_bytes(bz2.compress((FOLDER / "crag" / "dev.jsonl").read_bytes()))
    code, out, _ = auepora("bench", "check", str(path))
    assert (code, "looks like crag" in out) == (0, True)
    code, _, err = auepora("bench", "check", str(changed(tmp_path, "level")))
    assert (code, "it resembles hotpotqa, but lacks 'level'" in err) == (2, True)
    (tmp_path / "other.json").write_text('[{"x": 1}]')
    code, _, err = auepora("bench", "check", "other.json")
    assert (code, "this is not recognised as a file of a benchmark" in err) == (2, True)


def test_check_fails_where_a_value_is_another(auepora: Auepora, tmp_path: Path) -> None:
    from test_entries import MINE, write_mine  # type: ignore[import-not-found]

    assert auepora("bench", "check", str(write_mine(tmp_path)))[0] == 0
    code, out, _ = auepora("bench", "check", str(write_mine(tmp_path, MINE.replace("0.5", "0.75"))))
    assert (code, "right: published 0.75, computed 0.5" in out) == (1, True)


def test_list_and_show(auepora: Auepora, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = auepora("bench", "list", "--target", "noise_robustness")
    assert (code, "rgb" in out, "hotpotqa" in out) == (0, True, False)
    assert auepora("bench", "list", "--target", "noise")[1] == out
    code, _, err = auepora("bench", "list", "--target", "noize")
    assert (code, "unknown target 'noize'; did you mean 'noise'?" in err) == (2, True)
    monkeypatch.setenv(DATA_VARIABLE, str(FOLDER))
    _, out, _ = auepora("bench", "list", "--available")
    assert "hotpotqa" in out
    _, out, _ = auepora("bench", "show", "rgb")
    for text in (
        "CC BY-NC-SA 4.0; for non-commercial use only",
        "github.com/chen700564/RGB",
        "noise=0.6",
        "fact_check_rate",
    ):
        assert text in out


def test_data_is_found_by_the_variable(auepora: Auepora, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DATA_VARIABLE, str(FOLDER))
    code, out, _ = auepora("bench", "run", "hotpotqa", "--outputs", str(HOTPOT / "pred.json"))
    assert (code, out.startswith("HotpotQA: em 0.2500")) == (0, True)


# --- plans and systems ------------------------------------------------------------------------------------------------


def test_init_writes_a_plan_with_the_same_numbers(auepora: Auepora) -> None:
    code, _, err = auepora(
        "init", str(HOTPOT / "dev_distractor.json"), str(HOTPOT / "pred.json"), "--bench", "hotpotqa"
    )
    assert (code, "wrote plan.yaml" in err) == (0, True)
    code, out, _ = auepora("run", "plan.yaml", "-q", "--json", "--store", "runs.sqlite")
    values = {result["name"]: result["value"] for result in json.loads(out)["results"]}
    part = get_benchmark("hotpotqa").part(None)
    expected = part.examples["distractor"].expected
    assert {name: values[name] for name in expected} == pytest.approx(dict(expected))
    code, _, _ = auepora("report", "latest", "--store", "runs.sqlite", "-o", "report.html")
    assert (code, "data CC BY-SA 4.0" in Path("report.html").read_text()) == (0, True)


@pytest.mark.parametrize("name", RUNNABLE)
def test_init_writes_a_plan_without_problems(auepora: Auepora, name: str) -> None:
    given = [part for part in arguments(name)[3:] if part not in ("--data", "--outputs", "--split")]
    paths = [part for part in given if "/" in part]
    code, _, err = auepora("init", *paths, "--bench", name)
    assert code == 0, err
    needs = get_benchmark(name).heading.needs
    assert ("# resources:" in Path("plan.yaml").read_text()) is bool({"nli", "judge"} & {*needs})
    code, out, err = auepora("validate", "plan.yaml", "--load")
    assert code == (2 if "nli" in needs else 0), out + err
    assert ("every sample" in out + err) is (name == "mirage")  # the example has two of its five sets


@pytest.mark.parametrize("file", ["basic_qa.jsonl", "conversation_qa.jsonl", "faithful_qa.jsonl"])
def test_the_split_follows_the_file(auepora: Auepora, file: str) -> None:
    code, _, err = auepora("init", str(FOLDER / "domainrag" / file), "--bench", "domainrag", "-o", "plan.yaml")
    assert code == 0, err
    assert f"name: domainrag-{file.split('_')[0]}" in Path("plan.yaml").read_text()


SYSTEM = """
from auepora_eval import Response, SystemOutputs


class System:
    def run(self, sample, top_k=None, **options):
        return SystemOutputs([], Response("It was ada holt." if "Who" in sample.query else "BLUE"))


def build():
    return System()
"""


def test_a_system_is_called_and_the_run_is_tagged(auepora: Auepora) -> None:
    Path("asked.py").write_text(SYSTEM)
    data = str(FOLDER / "popqa" / "popQA.tsv")
    code, out, _ = auepora(
        "bench", "run", "popqa", "--data", data, "--system", "asked:build", "--store", "runs.sqlite", "-q"
    )
    assert (code, out.splitlines()[0]) == (0, "PopQA: accuracy 0.6667 (published: 0.3333) on 3 samples")
    _, out, _ = auepora("runs", "--store", "runs.sqlite", "--json")
    assert "bench:popqa" in out


READER = """
from auepora_eval import Response


class Reader:
    def retrieve(self, query, top_k=5):
        return []

    def generate(self, query, documents):
        return Response(" ".join(document.text for document in documents))


def build():
    return Reader()
"""


@pytest.mark.parametrize(
    ("text", "build", "lead", "sentence"),
    [
        (READER, "reader:build", "RGB (en): all_rate 1.0000 on 4 samples", "the system answered from the documents of the benchmark"),
        (SYSTEM, "no_reader:build", "RGB (en): all_rate 0.2500 on 4 samples", "the system retrieved for itself"),
    ],
    ids=["takes documents", "takes none"],
)  # fmt: skip
def test_a_system_gets_the_documents_of_the_benchmark(
    auepora: Auepora, text: str, build: str, lead: str, sentence: str
) -> None:
    Path(f"{build.partition(':')[0]}.py").write_text(text)
    data = ["--data", str(RGB / "en.json"), "--set", "noise=0.4", "--set", "documents=2"]
    code, out, err = auepora("bench", "run", "rgb", *data, "--system", build, "--store", "runs.sqlite", "-q")
    assert code == 0, err
    assert (out.startswith(lead), sentence in out) == (True, True), out
    _, out, _ = auepora("show", "latest", "--store", "runs.sqlite", "--json")
    config = json.loads(out)["run"]["config"]
    assert config["benchmark settings"] == {"noise": 0.4, "documents": 2}
    assert "non-commercial" in config["benchmark licence"]
    assert sentence in config["benchmark documents"]


def test_documents_of_rgb() -> None:
    record = {"positive": ["p1", "p2", "p3"], "negative": ["n1", "n2", "n3", "n4"]}
    short = {"positive": ["p1"], "negative": ["n1", "n2", "n3", "n4"]}
    parts = {"positive": [["a1"], ["b1", "b2"]], "negative": ["n1", "n2", "n3"]}
    false = {"positive": ["t1", "t2"], "positive_wrong": ["f1", "f2"], "negative": ["n1", "n2"]}
    rows: list[tuple[dict[str, Any], dict[str, float], set[str], str]] = [
        (record, {"noise": 0.3}, {"p1", "p2", "n1", "n2"}, "ceil(4 * 0.3) are noise"),
        (record, {"noise": 0}, {"p1", "p2", "p3", "n1"}, "noise fills up where positive documents lack"),
        (short, {"noise": 0.5}, {"p1", "n1", "n2", "n3"}, "the same"),
        (record | {"negative": ["n1"]}, {"noise": 0.5}, {"p1", "p2", "p3", "n1"}, "and the other way round"),
        (record | {"negative": ["n1"]}, {"noise": 1}, {"n1"}, "all are noise"),
        (parts, {"noise": 0.25}, {"a1", "b1", "b2", "n1"}, "one of each part, then the second ones"),
        (parts | {"positive": [["a1"], ["b1"]]}, {"noise": 0.75}, {"a1", "b1", "n1", "n2"}, "each part has one"),
    ]
    for given, options, wanted, why in rows:
        found = with_documents(given, documents=4, **options)["documents"]
        assert (set(found), len(found)) == (wanted, len(wanted)), why
    assert with_documents(record, noise=0.3, documents=4) == with_documents(record, noise=0.3, documents=4)
    texts = with_documents(false, noise=0.25, documents=4, correct=0.25)["documents"]
    assert sorted(text[0] for text in texts) == ["f", "f", "n"], "no place is left for a true one"
    texts = with_documents(false, noise=0, documents=2, correct=0.5)["documents"]
    assert sorted(text[0] for text in texts) == ["f", "t"]
    assert texts[0][1] != texts[1][1], "a true document stands for another false one"


SWEPT = """
from auepora_eval import Response, SystemOutputs


class System:
    def __init__(self, answer="none"):
        self.answer = answer

    def run(self, sample, top_k=None):
        return SystemOutputs([], Response(f"It was {self.answer}."))
"""
PLAN = """
name: which
dataset: {{jsonl: own.jsonl}}
system: {{python: "swept:System"}}
metrics: [containment]
primary: [containment]
run: {{retries: 0}}
store: runs.sqlite
sweep: {{grid: {{system.args.answer: [nobody, {answer}]}}}}
"""


def test_the_system_of_a_run_of_a_sweep_is_called(auepora: Auepora) -> None:
    Path("swept.py").write_text(SWEPT)
    rows = [{"sample_id": name, "query": "Who?", "reference_answer": "ada holt"} for name in "ab"]
    Path("own.jsonl").write_text("\n".join(map(json.dumps, rows)))
    Path("plan.yaml").write_text(PLAN.format(answer="ada holt"))
    code, _, err = auepora("sweep", "plan.yaml", "-q")
    assert code == 0, err
    popqa = ["bench", "run", "popqa", "--data", str(FOLDER / "popqa" / "popQA.tsv"), "--store", "runs.sqlite", "-q"]
    for system, run, value in (
        (["--system", "swept:System"], [], 0.0),
        ([], ["--config", "which [ada holt]"], 1 / 3),
        (["--system", "swept:System"], ["--config", "which [ada holt]"], 1 / 3),
        ([], ["--config", "which [nobody]"], 0.0),
    ):
        code, out, err = auepora(*popqa, *system, *run, "--json")
        assert code == 0, err
        assert [number["ours"] for number in json.loads(out)["numbers"].values()] == [pytest.approx(value)]
    code, _, err = auepora(*popqa, "--config", "nothing")
    assert (code, "no run is called 'nothing'" in err) == (2, True)
    code, _, err = auepora(*popqa, "--config", "latest", "--outputs", "own.jsonl")
    assert (code, "give --outputs, or --system or --config, not both" in err) == (2, True)


def test_the_page_of_benchmarks_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == bench_page(), "run `make docs`"


def test_the_readme_names_the_figure() -> None:
    readme = (REPO / "README.md").read_text(encoding="utf-8")
    assert figures(all_benchmarks()) in readme, "run `make docs`"
    assert (
        with_figures(readme.replace(figures(all_benchmarks()), "1 benchmarks cover the 1 rows; nothing was run."))
        == readme
    )
