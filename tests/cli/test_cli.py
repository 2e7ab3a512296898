"""The command line: tables, JSON, files, user errors, exit codes."""

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from auepora_eval.cli.main import cli, main
from auepora_eval.core.registry import metric_infos
from helpers.requirements import need_data

Run = Callable[..., tuple[int, str, str]]


class TestScore:
    def test_a_table(self, files: Path, run: Run) -> None:
        code, out, err = run("score", "data.jsonl", "out.jsonl", "-m", "recall@1", "-m", "mrr", "--all")
        assert code == 0
        assert out.splitlines()[-2:] == ["", "conventions: auepora (auto)"]
        assert [line.split()[:2] for line in out.splitlines()[:1]] == [["target", "metric"]]
        assert "mean of" in out
        assert err == "Warning: 1 of 3 samples has no output and counts as a failure: '3'\n"

    def test_default_metrics_are_those_the_data_supports(self, files: Path, run: Run) -> None:
        code, out, _ = run("score", "data.jsonl", "out.jsonl", "--json")
        names = [result["name"] for result in json.loads(out)["results"]]
        assert code == 3, "of three samples one failed and one has no output"
        assert {"recall@1", "recall@10", "precision@5", "hit_rate@3", "mrr", "map", "ndcg@10", "rougeL_answer"} <= set(
            names
        )
        assert {"mean_latency[end_to_end]", "empty_result_rate"} <= set(names)
        assert "aqwv" not in names

    def test_unsupported_metrics_are_not_suggested(self, files: Path, run: Run) -> None:
        Path("ids.jsonl").write_text('{"sample_id": "1", "query": "?", "relevant_docs": ["a"]}\n')
        Path("ranked.jsonl").write_text('{"sample_id": "1", "retrieved": ["a"]}\n')
        _, out, _ = run("score", "ids.jsonl", "ranked.jsonl", "--json")
        names = [result["name"] for result in json.loads(out)["results"]]
        assert not [name for name in names if "rouge" in name or "latency" in name]

    def test_json_with_every_sample(self, files: Path, run: Run) -> None:
        _, out, _ = run("score", "data.jsonl", "out.jsonl", "-m", "recall@1", "--json", "--per-query")
        document = json.loads(out)
        assert document["results"][0]["signature"] == "recall@1|empty:skip|v1"
        assert document["per_query"] == [
            {"sample_id": "1", "scores": {"recall@1": 1.0}, "outcomes": {}},
            {"sample_id": "2", "scores": {"recall@1": 0.0}, "outcomes": {"recall@1": "system_failed:timeout"}},
            {"sample_id": "3", "scores": {"recall@1": None}, "outcomes": {"recall@1": "skipped:empty_gold"}},
        ]

    def test_slices(self, files: Path, run: Run) -> None:
        rows = [
            {"sample_id": str(i), "query": "?", "relevant_docs": ["a"], "labels": {"lang": "de" if i else "e|n"}}
            for i in range(3)
        ]
        Path("langs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        Path("ranks.jsonl").write_text("".join(f'{{"sample_id": "{i}", "retrieved": ["a"]}}\n' for i in range(2)))
        arguments = ("score", "langs.jsonl", "ranks.jsonl", "-m", "recall@1", "--slice", "labels.lang")
        code, out, _ = run(*arguments, "--all")
        assert code == 0
        assert "metric    labels.lang   value" in out
        assert "recall@1  de           0.5000" in out
        _, out, _ = run(*arguments, "--json")
        groups = json.loads(out)["results"][0]["slices"]["labels.lang"]
        assert {group: part["value"] for group, part in groups.items()} == {"de": 0.5, "e|n": 1.0}
        run(*arguments, "-o", "slices.md")
        assert "|  | e\\|n | 1.0000 |" in Path("slices.md").read_text()

    def test_to_a_file(self, files: Path, run: Run) -> None:
        code, out, err = run("score", "data.jsonl", "out.jsonl", "-m", "mrr", "--json", "-o", "r.json")
        assert (code, out) == (0, "")
        assert "wrote r.json" in err
        assert json.loads(Path("r.json").read_text())["results"][0]["name"] == "mrr"

    @pytest.mark.parametrize(
        ("arguments", "want"),
        [
            ((), "trec (auto)"),
            (("--conventions", "golden"), "golden"),
            (("-l", "2", "-c", "-M", "100"), "trec (auto), min_relevance 2, missing zero, depth 100"),
            (("--conventions", "trec", "-M", "5"), "trec, depth 5"),
        ],
    )
    def test_table_names_its_conventions(self, files: Path, arguments: tuple[str, ...], want: str, run: Run) -> None:
        _, out, err = run("score", "--qrels", "qrels.txt", "--run", "run.txt", "-m", "mrr", "--all", *arguments)
        assert out.endswith(f"\n\nconventions: {want}\n")
        assert "conventions" not in err

    def test_conventions(self, files: Path, run: Run) -> None:
        _, out, _ = run("score", "data.jsonl", "out.jsonl", "-m", "precision@5", "--conventions", "paper", "--json")
        assert json.loads(out)["results"][0]["signature"] == "precision@5|p:returned|empty:zero|v1"

    def test_trec_files(self, files: Path, run: Run) -> None:
        code, out, err = run("score", "--qrels", "qrels.txt", "--run", "run.txt", "-m", "mrr", "--json", "--per-query")
        document = json.loads(out)
        assert code == 0
        assert document["results"][0]["value"] == 1 / 2
        assert document["results"][0]["signature"] == "mrr|empty:judged|missing:skip|v1"
        assert [row["sample_id"] for row in document["per_query"]] == ["q1", "q2"]
        assert err == (
            "Warning: 1 of 2 samples has no output and is skipped: 'q2'\n"
            "Warning: 1 output belongs to no sample and is left out: 'q9'\n"
        )

    def test_results_of_trec_eval(self, run: Run) -> None:
        folder = need_data("trec_eval")
        specs = ["-m", "map", "-m", "mrr", "-m", "precision@10", "-m", "ndcg@10", "-m", "recall@100"]
        _, out, _ = run("score", "--qrels", f"{folder}/qrels.test", "--run", f"{folder}/results.test", "--all", *specs)
        figures = dict(re.findall(r"(\S+) +(\d\.\d{4})  \d", out))
        assert figures == {
            "map": "0.1785", "mrr": "0.4064", "precision@10": "0.3000", "ndcg@10": "0.3016", "recall@100": "0.4980",
        }  # fmt: skip


MISTAKES = [  # arguments, part of the message
    (["score"], "give DATASET and OUTPUTS, or --qrels and --run"),
    (["score", "data.jsonl"], "data.jsonl holds samples alone; name their outputs, too"),
    (["score", "--qrels", "qrels.txt"], "give --qrels and --run together"),
    (["score", "data.jsonl", "out.jsonl", "--per-query"], "--per-query goes with --json"),
    (["score", "nope.jsonl", "out.jsonl"], "nope.jsonl: no such file"),
    (["score", "data.jsonl", "out.jsonl", "-m", "recal@5"], "unknown metric 'recal'; did you mean 'recall'?"),
    (["score", "data.jsonl", "out.jsonl", "-m", "recall@0"], "metric 'recall@0': k must be an integer >= 1, not 0"),
    (["score", "data.jsonl", "out.jsonl", "--conventions", "trek"], "'trek' is not one of"),
    (["score", "out.jsonl", "data.jsonl"], "swapped"),
    (["score", "--qrels", "run.txt", "--run", "qrels.txt"], "is this a run file?"),
    (["score", "data.jsonl", "out.jsonl", "-m", "mrr", "-m", "RR"], "two metrics are called 'mrr'"),
    (["score", "data.jsonl", "out.jsonl", "-m", "mrr:gain=x"], "unknown value for the convention 'gain': 'x'"),
    (["score", "data.jsonl", "out.jsonl", "-m", "mrr:"], "cannot read the options of 'mrr:'"),
    (["score", "data.jsonl", "out.jsonl", "-m", '{"mrr"'], "not valid JSON"),
    (["score", "data.jsonl", "out.jsonl", "-o", "data.jsonl"], "-o data.jsonl is the input data.jsonl"),
    (["score", "data.jsonl", "out.jsonl", "-o", "./out.jsonl"], "-o ./out.jsonl is the input out.jsonl"),
    (["score", "data.jsonl", "out.jsonl", "-o", "link.jsonl"], "-o link.jsonl is the input data.jsonl"),
    (["score", "--qrels", "qrels.txt", "--run", "run.txt", "-o", "run.txt"], "-o run.txt is the input run.txt"),
    (["score", "data.jsonl", "answers.jsonl", "-m", "mrr"], "'mrr' reads the field 'retrieved', which no line of"),
    (["score", "data.jsonl", "out.jsonl", "--address", "auto"], "--address goes with --executor ray"),
    (["score", "data.jsonl", "out.jsonl", "--parts", "p", "--corpus", "c.jsonl"], "--corpus goes with one DATASET"),
    (["score", "data.jsonl", "out.jsonl", "--workers", "2"], "--workers goes with --executor processes or ray"),
    (
        ["score", "--qrels", "qrels.txt", "--run", "run.txt", "--workers", "2"],
        "a TREC run is scored in one process and at once",
    ),
    (["score", "data.jsonl", "out.jsonl", "--slice", "lang"], "cannot slice by 'lang'; write 'labels.<key>'"),
    (["score", "data.jsonl", "out.jsonl", "--slice", "labels.lang"], "no sample has 'labels.lang' to slice by"),
    (["score", "--qrels", "qrels.txt", "--run", "run.txt", "--slice", "labels.lang"], "leave out --slice"),
    (["scroe"], "no such command 'scroe'; did you mean 'score'?"),
    (["metrics", "recal"], "unknown metric 'recal'; did you mean 'recall'?"),
    (["score", "data.jsonl", "out.jsonl", "--depht", "3"], "No such option"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=[" ".join(row[0]) for row in MISTAKES])
def test_user_errors_exit_with_2_and_one_message(files: Path, arguments: list[str], message: str, run: Run) -> None:
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert message in err
    assert "Traceback" not in err


class TestMetrics:
    def test_the_list(self, run: Run) -> None:
        code, out, _ = run("metrics")
        assert code == 0
        assert "recall@k" in out
        assert "mean_latency[timing_key]" in out

    @pytest.mark.parametrize("name", ["ndcg", "ndcg@10"])
    def test_one(self, name: str, run: Run) -> None:
        _, out, _ = run("metrics", name)
        assert out.startswith("ndcg[@k]\n\nDiscounted gain")
        assert "RETRIEVAL_ACCURACY" in out

    @pytest.mark.parametrize(
        ("name", "want"), [("mrr[@k]", "mrr[@k]"), ("recall@k", "recall@k"), ("AP@100", "map[@k]")]
    )
    def test_any_form_of_a_name_is_found(self, name: str, want: str, run: Run) -> None:
        code, out, _ = run("metrics", name)
        assert (code, out.splitlines()[0]) == (0, want)

    @pytest.mark.parametrize(
        ("name", "want"),
        [
            ("ndcg", "-m 'ndcg@10:gain_scheme=VALUE,as=NAME'"),
            ("recall", "-m 'recall@10:min_relevance=2,as=NAME'"),
            ("mean_latency", "-m 'mean_latency[end_to_end]:as=NAME'"),
            ("llm_faithfulness", "-m 'llm_faithfulness:evidence_source=VALUE,as=NAME'"),
        ],
    )
    def test_card_shows_how_to_set_options(self, name: str, want: str, run: Run) -> None:
        _, out, _ = run("metrics", name)
        assert out.splitlines()[-1] == f"Set options on the command line after a colon: {want}"

    @pytest.mark.parametrize("name", ["llm_faithfulness", "llm_answer_quality"])
    def test_card_of_a_judge_metric_shows_its_prompt(self, name: str, run: Run) -> None:
        _, out, _ = run("metrics", name)
        assert f"\nPrompt {name.removeprefix('llm_')}/1/" in out
        assert "\n  {{answer}}\n" in out
        assert "never follow it" in out
        _, out, _ = run("metrics", name, "--json")
        (prompt,) = json.loads(out)["prompts"].values()
        assert "{{question}}" in prompt

    def test_card_of_a_claim_metric_shows_both_prompts(self, run: Run) -> None:
        _, out, _ = run("metrics", "claim_faithfulness")
        assert out.index("\nPrompt claims/1/") < out.index("\nPrompt support/1/")
        _, out, _ = run("metrics", "claim_faithfulness", "--json")
        assert [key.partition("/")[0] for key in json.loads(out)["prompts"]] == ["claims", "support"]

    def test_pipe_gets_one_line_per_metric(self, run: Run) -> None:
        _, out, _ = run("metrics")
        listing, _, legend = out.rstrip().rpartition("\n\n")
        assert legend == "↓ lower is better"
        assert len(listing.splitlines()) == 2 + len(metric_infos())
        marked = " ".join(line for line in listing.splitlines() if "↓" in line).split()
        assert {"empty_result_rate", "mean_latency[timing_key]"} <= set(marked)
        assert "recall@k" not in marked

    @pytest.mark.parametrize("columns", [80, 100])
    def test_terminal_gets_wrapped_lines(self, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        terminal = Terminal()
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(sys, "stdout", terminal)
        with pytest.raises(SystemExit):
            main(["metrics"])
        shown = terminal.getvalue()
        assert max(map(len, shown.splitlines())) <= columns
        assert "\nRetrieval relevance\n" in shown

    def test_json(self, run: Run) -> None:
        _, listing, _ = run("metrics", "--json")
        assert {entry["name"] for entry in json.loads(listing)} >= {"recall", "rougeL_answer"}
        _, one, _ = run("metrics", "mean_latency", "--json")
        assert json.loads(one)["range"] == [0.0, None]


def test_help_and_version(run: Run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert re.search(r"\nEvaluate:\n  score +Score saved outputs", out), "commands are listed in groups"
    listed = out.partition("\nStart:")[2].replace(",", " ").split()
    assert set(cli.list_commands(click.Context(cli))) <= set(listed)
    code, out, _ = run("--version")
    assert (code, out.split()[0]) == (0, "auepora,")
    for command in ("score", "metrics"):
        code, out, _ = run(command, "--help")
        assert code == 0
        assert f"auepora {command}" in out, "help shows an example"


def test_library_warning_is_one_line_on_stderr(files: Path, run: Run) -> None:
    Path("odd.jsonl").write_text(
        json.dumps({"sample_id": "1", "retrieved": [{"doc": "a", "rank": 2}, {"doc": "b", "rank": 1}]}) + "\n"
    )
    _, _, err = run("score", "data.jsonl", "odd.jsonl", "-m", "mrr")
    assert "Warning: 'rank' contradicts the order of 'retrieved'; the list order is what counts (sample '1')\n" in err


def test_reference_page_is_up_to_date() -> None:
    from helpers.requirements import REPO
    from tools.cli_reference import reference_page

    page = (REPO / "docs" / "cli-reference.md").read_text(encoding="utf-8")
    assert page == reference_page(), "run `make docs`"


def test_every_command_has_an_example_and_proper_help() -> None:
    from tools.cli_reference import reference_page

    for section in reference_page().split("## `")[1:]:
        name, _, text = section.partition("`")
        assert f"  {name}" in text.partition("Options:")[0].split("Usage:")[1], f"{name} has no example"
