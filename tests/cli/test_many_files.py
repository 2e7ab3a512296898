"""``auepora score`` on directories and globs, with checkpoints and every executor: the results of one file."""

import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from auepora_eval.cli.main import main
from helpers import requirements
from helpers.generated_files import rows, write_files
from helpers.user_project import Project

requirements.need("pyarrow")
Auepora = Callable[..., tuple[int, str, str]]
METRICS = ("-m", "recall@2", "-m", "token_f1", "-m", "bleu", "--slice", "labels.lang")
TOTAL = 200


def one_file(folder: Path) -> tuple[str, str]:
    from auepora_eval.io.jsonl import save_jsonl_dataset, save_jsonl_outputs

    samples, outputs = rows(range(TOTAL))
    save_jsonl_dataset(samples, folder / "all.jsonl")
    given = [(one.sample_id, output) for one, output in zip(samples, outputs, strict=True) if output is not None]
    save_jsonl_outputs(given, folder / "answers.jsonl")
    return str(folder / "all.jsonl"), str(folder / "answers.jsonl")


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> str:
    files = one_file(tmp_path_factory.mktemp("alone"))
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as stopped:
        main(["score", *files, *METRICS, "--json", "--per-query"])
    assert stopped.value.code == 0, err.getvalue()
    return out.getvalue()


WAYS = {
    "directories": ("data", "out"),
    "globs": ("data/*", "out/part-*"),
    "in batches": ("data", "out", "--batch-size", "7"),
    "into parts": ("data", "out", "--parts", "scores"),
    "by processes, into parts": ("data", "out", "--executor", "processes", "--workers", "2", "--parts", "scores"),
    "by a cluster, into parts": ("data", "out", "--executor", "ray", "--workers", "2", "--parts", "scores"),
    "one file by a cluster": ("all.jsonl", "answers.jsonl", "--executor", "ray", "--workers", "2"),
}


# Once by a cluster is enough: it takes a while to start.
CASES = [(way, table) for way in WAYS for table in (False, True) if not (table and "ray" in WAYS[way])]


def marks_of(way: str, table: bool) -> list[pytest.MarkDecorator]:
    if "ray" in WAYS[way]:
        return [pytest.mark.part("ray")]
    return [pytest.mark.slow] if table and way != "directories" else []


@pytest.mark.parametrize(
    ("way", "table"),
    [
        pytest.param(way, table, id=f"{way}-{'parquet' if table else 'jsonl'}", marks=marks_of(way, table))
        for way, table in CASES
    ],
)
def test_many_files_score_like_one_file(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    auepora: Auepora,
    wanted: str,
    way: str,
    table: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "ray" in WAYS[way]:
        request.getfixturevalue("ray_cluster")
    write_files(tmp_path, TOTAL, table=table)
    one_file(tmp_path)
    monkeypatch.chdir(tmp_path)
    code, out, err = auepora("score", *WAYS[way], *METRICS, "--json", "--per-query")
    assert code == 0, err
    assert out == wanted
    assert "samples have no output" in err


def test_same_command_resumes_from_checkpoint(tmp_path: Path, auepora: Auepora, wanted: str) -> None:
    data, out = write_files(tmp_path, TOTAL)
    command = ("score", str(data), str(out), *METRICS, "--batch-size", "10", "--parts", str(tmp_path / "scores"))
    auepora(*command)
    (tmp_path / "scores" / "part-000003.parquet").unlink()
    code, shown, err = auepora(*command, "--json", "--per-query")
    assert (code, shown) == (0, wanted)
    assert "190 of 200 samples were read from the checkpoint" in err
    code, _, err = auepora(*command, "-m", "mrr")
    assert code == 2
    assert "holds the scores of another evaluation: metrics mrr: nothing there, mrr|" in err


def test_gold_provenance_is_reported_as_for_one_file(tmp_path: Path, auepora: Auepora) -> None:
    data, answers = one_file(tmp_path)
    marked = [
        json.loads(line) | {"metadata": {"gold_by": {"model": 2}}} for line in Path(data).read_text().splitlines()
    ]
    Path(data).write_text("".join(json.dumps(one) + "\n" for one in marked))
    command = ("score", data, answers, "-m", "recall@2", "-m", "token_f1", "--slice", "labels.lang", "--json")
    _, alone, _ = auepora(*command)
    assert json.loads(alone)["results"][0]["details"]["gold_by"] == {"model": 2 * TOTAL}
    code, shown, err = auepora(*command, "--parts", str(tmp_path / "scores"))
    assert (code, shown) == (0, alone), err


def test_cluster_receives_ranges_of_splittable_files(tmp_path: Path) -> None:
    from auepora_eval.cli.score import _wants_shards
    from auepora_eval.io.score_inputs import DataFile

    data, answers = one_file(tmp_path)
    records = tmp_path / "records.json"
    records.write_text(json.dumps([{"user_input": "why?", "response": "so", "reference": "so"}]))

    def ranges(dataset: DataFile, outputs: DataFile | None) -> bool:
        return _wants_shards(dataset, outputs, "ray", None, aided=False)

    assert ranges(DataFile(data), DataFile(answers))
    assert not ranges(DataFile(str(records), "ragas"), None)
    assert not ranges(
        DataFile(data), DataFile(str(records), "ragas")
    )  # as without a cluster: read here, sent in batches


def test_lean_and_without_metrics(tmp_path: Path, auepora: Auepora) -> None:
    data, out = write_files(tmp_path, TOTAL)
    command = ("score", str(data), str(out), "--parts", str(tmp_path / "scores"), "--lean", "--json")
    code, shown, _ = auepora(*command)
    assert code == 0
    _, alone, _ = auepora("score", *one_file(tmp_path), "--lean", "--json")
    found, expected = json.loads(shown), json.loads(alone)
    assert found == expected


ROWS = [
    (["nowhere/*.jsonl", "out"], "no file matches", "a glob of nothing"),
    (["empty", "out"], "no file in this directory ends in", "an empty directory"),
    (["data", "out", "-m", "recall@2", "--parts", "all.jsonl"], "is a file", "a file for a folder"),
    (["data", "out", "-m", "recall@2", "--parts", "data"], "is not a folder of parts", "a folder of something else"),
    (["data", "out", "-m", "recall@2", "--corpus", "all.jsonl"], "--corpus goes with one DATASET", "a corpus"),
]


@pytest.mark.parametrize(("arguments", "message", "why"), ROWS, ids=[row[-1] for row in ROWS])
def test_user_errors(
    tmp_path: Path, auepora: Auepora, arguments: list[str], message: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, 10)
    one_file(tmp_path)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    code, _, err = auepora("score", *arguments)
    assert code == 2, why
    assert message in err


def test_run_is_scored_by_a_cluster(
    ray_cluster: None, tmp_path: Path, auepora: Auepora, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    project = Project(tmp_path, 20)
    project.plan(more="scoring: {executor: ray, workers: 2, batch_size: 7}")
    monkeypatch.syspath_prepend(tmp_path)
    code, shown, err = auepora("run", "plan.yaml", "--json")
    assert code == 0, err
    metrics = ("-m", "recall@5", "-m", "token_f1", "-m", "bleu", "--json")
    code, there, err = auepora("rescore", "latest", *metrics, "--executor", "ray", "--workers", "2")
    assert code == 0, err
    _, here, _ = auepora("rescore", "latest", *metrics)
    assert there == here
    by_name = {one["name"]: one["value"] for one in json.loads(shown)["results"]}
    assert all(by_name[one["name"]] == one["value"] for one in json.loads(here)["results"])
