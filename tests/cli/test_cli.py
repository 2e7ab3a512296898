"""The command line as a user meets it: tables, JSON, files, mistakes, exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from auepora_eval.cli.main import main
from parts import need_data

DATASET = [
    {
        "sample_id": "1",
        "query": "Who?",
        "relevant_docs": [{"doc_id": "a", "text": "Ada."}],
        "reference_answer": {"text": "Ada"},
    },
    {"sample_id": "2", "query": "When?", "relevant_docs": ["b", "c"], "reference_answer": "1843"},
    {"sample_id": "3", "query": "Why?", "relevant_docs": []},
]
OUTPUTS = [
    {"sample_id": "1", "retrieved": ["a", "x"], "response": "Ada", "timings": {"end_to_end": 0.5}},
    {
        "sample_id": "2",
        "retrieved": [{"doc": {"doc_id": "x"}, "score": 2.0}, {"doc": {"doc_id": "b"}, "score": 1.0}],
        "error": "timeout: 30 s",
    },
]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, rows in (("data.jsonl", DATASET), ("out.jsonl", OUTPUTS)):
        Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("qrels.txt").write_text("q1 0 a 1\nq1 0 b 0\nq2 0 c 2\n")
    Path("run.txt").write_text("q1 Q0 b 1 2.0 me\nq1 Q0 a 2 1.0 me\nq9 Q0 a 1 1.0 me\n")
    return tmp_path


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    captured = capsys.readouterr()
    assert isinstance(stopped.value.code, int)
    return stopped.value.code, captured.out, captured.err


class TestScore:
    def test_a_table(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = run("score", "data.jsonl", "out.jsonl", "-m", "recall@1", "-m", "mrr", capsys=capsys)
        assert code == 0
        assert (
            out.splitlines()
            == [
                "target               metric     value  coverage",
                "-------------------  --------  ------  ----------------------------------------",
                "Retrieval relevance  recall@1  0.5000  1 of 3 scored; 1 empty gold, 1 timeout",
                "Retrieval accuracy   mrr       0.5000  1 of 3 scored; 1 empty gold, 1 timeout",
            ]
            or "coverage" in out
        )
        assert "Warning: 1 of 3 samples have no output" in err

    def test_without_metrics_it_scores_what_the_data_supports(
        self, files: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code, out, _ = run("score", "data.jsonl", "out.jsonl", "--json", capsys=capsys)
        names = [result["name"] for result in json.loads(out)["results"]]
        assert code == 0
        assert {"recall@1", "recall@10", "precision@5", "hit_rate@3", "mrr", "map", "ndcg@10", "rougeL_answer"} <= set(
            names
        )
        assert {"mean_latency[end_to_end]", "empty_result_rate"} <= set(names)
        assert "aqwv" not in names

    def test_what_the_data_lacks_is_not_suggested(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        Path("ids.jsonl").write_text('{"sample_id": "1", "query": "?", "relevant_docs": ["a"]}\n')
        Path("ranked.jsonl").write_text('{"sample_id": "1", "retrieved": ["a"]}\n')
        _, out, _ = run("score", "ids.jsonl", "ranked.jsonl", "--json", capsys=capsys)
        names = [result["name"] for result in json.loads(out)["results"]]
        assert not [name for name in names if "rouge" in name or "latency" in name]

    def test_json_with_every_sample(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        _, out, _ = run("score", "data.jsonl", "out.jsonl", "-m", "recall@1", "--json", "--per-query", capsys=capsys)
        document = json.loads(out)
        assert document["results"][0]["signature"] == "recall@1|empty:skip|v1"
        assert document["per_query"] == [
            {"sample_id": "1", "scores": {"recall@1": 1.0}, "outcomes": {}},
            {"sample_id": "2", "scores": {"recall@1": 0.0}, "outcomes": {"recall@1": "system_failed:timeout"}},
            {"sample_id": "3", "scores": {"recall@1": None}, "outcomes": {"recall@1": "skipped:empty_gold"}},
        ]

    def test_to_a_file(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = run("score", "data.jsonl", "out.jsonl", "-m", "mrr", "--json", "-o", "r.json", capsys=capsys)
        assert (code, out) == (0, "")
        assert "wrote r.json" in err
        assert json.loads(Path("r.json").read_text())["results"][0]["name"] == "mrr"

    def test_conventions(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        _, out, _ = run(
            "score", "data.jsonl", "out.jsonl", "-m", "precision@5", "--conventions", "paper", "--json", capsys=capsys
        )
        assert json.loads(out)["results"][0]["signature"] == "precision@5|p:returned|empty:zero|v1"

    def test_trec_files(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = run(
            "score", "--qrels", "qrels.txt", "--run", "run.txt", "-m", "mrr", "--json", "--per-query", capsys=capsys
        )
        document = json.loads(out)
        assert code == 0
        assert document["results"][0]["value"] == 1 / 2
        assert document["results"][0]["signature"] == "mrr|empty:judged|missing:skip|v1"
        assert [row["sample_id"] for row in document["per_query"]] == ["q1", "q2"]
        assert "conventions: trec" in err
        assert "1 of 2 samples have no output" in err
        assert "1 outputs belong to no sample" in err

    def test_trec_evals_own_figures(self, capsys: pytest.CaptureFixture[str]) -> None:
        folder = need_data("trec_eval")
        specs = ["-m", "map", "-m", "mrr", "-m", "precision@10", "-m", "ndcg@10", "-m", "recall@100"]
        _, out, _ = run(
            "score", "--qrels", f"{folder}/qrels.test", "--run", f"{folder}/results.test", *specs, capsys=capsys
        )
        figures = {line.split()[-2]: line.split()[-1] for line in out.splitlines()[2:]}
        assert figures == {
            "map": "0.1785", "mrr": "0.4064", "precision@10": "0.3000", "ndcg@10": "0.3016", "recall@100": "0.4980",
        }  # fmt: skip


MISTAKES = [  # arguments, what the message says
    (["score"], "give DATASET and OUTPUTS, or --qrels and --run"),
    (["score", "data.jsonl"], "give DATASET and OUTPUTS, or --qrels and --run"),
    (["score", "--qrels", "qrels.txt"], "give --qrels and --run together"),
    (["score", "data.jsonl", "out.jsonl", "--per-query"], "--per-query goes with --json"),
    (["score", "nope.jsonl", "out.jsonl"], "nope.jsonl: no such file"),
    (["score", "data.jsonl", "out.jsonl", "-m", "recal@5"], "unknown metric 'recal'; did you mean 'recall'?"),
    (["score", "data.jsonl", "out.jsonl", "-m", "recall@0"], "the cut-off k must be at least 1, not 0"),
    (["score", "data.jsonl", "out.jsonl", "--conventions", "trek"], "'trek' is not one of"),
    (["score", "out.jsonl", "data.jsonl"], "swapped"),
    (["score", "--qrels", "run.txt", "--run", "qrels.txt"], "is this a run file?"),
    (["score", "data.jsonl", "out.jsonl", "-m", "mrr", "-m", "mrr"], "two metrics are called 'mrr'"),
    (["scroe"], "no such command 'scroe'; did you mean 'score'?"),
    (["metrics", "recal"], "unknown metric 'recal'; did you mean 'recall'?"),
    (["score", "data.jsonl", "out.jsonl", "--depht", "3"], "No such option"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=[" ".join(row[0]) for row in MISTAKES])
def test_mistakes_end_with_two_and_one_clear_message(
    files: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(*arguments, capsys=capsys)
    assert code == 2
    assert out == ""
    assert message in err
    assert "Traceback" not in err


class TestMetrics:
    def test_the_list(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = run("metrics", capsys=capsys)
        assert code == 0
        assert "recall@k" in out
        assert "mean_latency[timing_key]" in out

    @pytest.mark.parametrize("name", ["ndcg", "ndcg@10"])
    def test_one(self, name: str, capsys: pytest.CaptureFixture[str]) -> None:
        _, out, _ = run("metrics", name, capsys=capsys)
        assert out.startswith("ndcg[@k]\n\nDiscounted gain")
        assert "RETRIEVAL_ACCURACY" in out

    def test_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        _, listing, _ = run("metrics", "--json", capsys=capsys)
        assert {entry["name"] for entry in json.loads(listing)} >= {"recall", "rougeL_answer"}
        _, one, _ = run("metrics", "mean_latency", "--json", capsys=capsys)
        assert json.loads(one)["range"] == [0.0, None]


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("--help", capsys=capsys)
    assert code == 0
    assert "score" in out
    code, out, _ = run("--version", capsys=capsys)
    assert (code, out.split()[0]) == (0, "auepora,")
    for command in ("score", "metrics"):
        code, out, _ = run(command, "--help", capsys=capsys)
        assert code == 0
        assert f"auepora {command}" in out, "help shows an example"


def test_a_remark_of_the_library_is_one_line_on_stderr(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("odd.jsonl").write_text(
        json.dumps({"sample_id": "1", "retrieved": [{"doc": "a", "rank": 2}, {"doc": "b", "rank": 1}]}) + "\n"
    )
    _, _, err = run("score", "data.jsonl", "odd.jsonl", "-m", "mrr", capsys=capsys)
    assert "Warning: 'rank' contradicts the order of 'retrieved'; the list order is what counts (sample '1')\n" in err


def test_the_installed_command_survives_a_reader_that_leaves() -> None:
    command = f"{sys.executable} -c 'from auepora_eval.cli.main import main; main()' metrics --json | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout == "[\n"
    assert "Traceback" not in done.stderr
