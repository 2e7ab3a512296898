"""The recorded SQLite store: the same runs are written as before, and every command reads the recorded ones as before."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.golden import check_golden, write_golden
from helpers.golden_store import (
    auepora,
    calls,
    copy_project,
    copy_store,
    fixed,
    in_project,
    readable,
    replace_rows,
    result,
    save_store,
    sha256,
    sqlite_schema,
    sqlite_tables,
    without,
    write_runs,
)

STORE = "runs.sqlite"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A store that the present code writes, and what its commands did."""
    folder = tmp_path_factory.mktemp("written")
    copy_project(folder)
    with in_project(folder):
        done = write_runs(STORE)
    return folder / STORE, done


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A folder with the project and the recorded store; ``changed`` is a copy."""
    if write_golden():
        _record(request.getfixturevalue("written")[0], tmp_path_factory.mktemp("record"))
    folder = tmp_path_factory.mktemp("recorded")
    copy_project(folder)
    copy_store(folder / STORE)
    return folder


def _record(store: Path, folder: Path) -> None:
    made = folder / STORE
    shutil.copyfile(store, made)
    replace_rows(made, fixed(sqlite_tables(store)))
    save_store(made)


@pytest.fixture
def changed(recorded: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of the recorded folder for one test; the current folder."""
    folder = tmp_path / "project"
    shutil.copytree(recorded, folder, ignore=shutil.ignore_patterns("__pycache__", "judgements.sqlite", "calls.log"))
    with in_project(folder):
        yield folder


# --- writing ---------------------------------------------------------------------------------------------------------


def test_the_same_rows_are_written(written: tuple[Path, dict[str, Any]]) -> None:
    store, done = written
    check_golden("store/written.json", done)
    check_golden("store/rows.json", readable(fixed(sqlite_tables(store))))


def test_the_schema(written: tuple[Path, dict[str, Any]]) -> None:
    check_golden("store/schema.json", sqlite_schema(written[0]))


def test_the_recorded_store_has_the_recorded_rows(recorded: Path) -> None:
    check_golden("store/rows.json", readable(sqlite_tables(recorded / STORE)))


# --- reading ---------------------------------------------------------------------------------------------------------

READS: dict[str, dict[str, list[str]]] = {
    "runs": {
        "all": ["runs"],
        "stopped": ["runs", "--status", "stopped"],
        "perturbed": ["runs", "--tag", "perturbed", "--limit", "1"],
    },
    "show": {
        "complete": ["show", "run_01", "--per-query"],
        "all definitions": ["show", "run_02", "--all", "-m", "ndcg@5"],
        "some failed": ["show", "some-failed"],
        "all failed": ["show", "all-failed"],
        "repeated": ["show", "repeated", "--per-query"],
        "interrupted": ["show", "interrupted"],
        "saved outputs": ["show", "saved"],
        "judged": ["show", "judged"],
        "golden queries": ["show", "chunks-2"],
        "replay": ["show", "pair-a|pair-b-generator"],
        "noise": ["show", "pair-a [noise=0.5]"],
        "false documents": ["show", "run_19"],
        "variants": ["show", "variants"],
        "TREC": ["show", "trec", "--per-query"],
        "own metric": ["show", "own-metric"],
        "failures of the system": ["show", "some-failed", "--failures"],
        "failures of a judge": ["show", "judged", "--failures"],
        "a sample of a judged run": ["show", "judged", "--sample", "q01"],
        "a sample of a repeated run": ["show", "repeated", "--sample", "q07"],
        "a sample with false documents": ["show", "run_18", "--sample", "q01"],
        "latest": ["show", "latest", "-m", "recall@3"],
    },
    "compare": {
        "worse": ["compare", "run_01", "run_02", "--delta", "recall@3=0.02", "--delta", "token_f1=0.1", "--why"],
        "why, by retrieval": ["compare", "run_01", "run_02", "--why", "--why-metric", "recall@3", "-m", "recall@3"],
        "failed": ["compare", "run_01", "some-failed", "--primary", "recall@3", "--why"],
        "repeated": ["compare", "some-failed", "repeated", "--seed", "3"],
        "judged": ["compare", "run_01", "judged", "--other-dataset"],
        "other chunks": ["compare", "chunks-1", "chunks-2"],
        "other chunks, golden file": ["compare", "chunks-1", "chunks-2", "--golden", "golden.yaml", "--why"],
        "other chunks, refused": ["compare", "chunks-1", "chunks-2", "--strict-chunker-version"],
        "other dataset": ["compare", "short", "run_02", "--other-dataset", "-m", "recall@3"],
        "other dataset, refused": ["compare", "short", "chunks-1"],
        "three runs": ["compare", "run_01", "run_02", "some-failed", "-m", "recall@3", "-m", "token_f1"],
        "three runs, tukey": ["compare", "run_01", "run_02", "repeated", "-m", "recall@3", "--adjust", "tukey"],
    },
    "explain": {
        "recall": ["explain", "run_01", "recall@3", "--query", "q02"],
        "ndcg": ["explain", "run_01", "ndcg@5", "--query", "q03"],
        "ndcg as a whole": ["explain", "run_01", "ndcg@5"],
        "average precision": ["explain", "run_02", "map@3", "--query", "q03"],
        "token F1": ["explain", "run_01", "token_f1", "--query", "q07"],
        "bleu": ["explain", "repeated", "bleu", "--query", "q01"],
        "attribution": ["explain", "run_02", "failure_attribution@5", "--query", "q04"],
        "failed": ["explain", "some-failed", "recall@3", "--query", "q05"],
        "skipped": ["explain", "run_01", "recall@3", "--query", "q08"],
        "judged": ["explain", "judged", "llm_faithfulness", "--query", "q02"],
        "claims": ["explain", "judged", "claim_precision", "--query", "q01"],
        "not judged": ["explain", "judged", "llm_faithfulness", "--query", "q03"],
        "TREC": ["explain", "trec", "ndcg@10", "--query", "301"],
        "robustness": ["explain", "variants", "noise_robustness", "--query", "q01"],
        "own metric": ["explain", "own-metric", "answer_length"],
    },
}


@pytest.mark.parametrize("group", list(READS))
def test_reading(changed: Path, group: str) -> None:
    """Full values of ``--json``, with exit codes and what was asked; a comparison is recorded in the store."""
    found = {}
    calls()
    for name, arguments in READS[group].items():
        found[name] = result(STORE, *arguments)
        if group == "show" and name not in ("complete", "interrupted"):
            _drop_run(found[name]["json"])
    check_golden(f"store/{group}.json", found)


def _drop_run(shown: Any) -> None:
    """Leave out what ``runs`` has as well."""
    if isinstance(shown, dict) and "results" in shown:
        del shown["run"]


# --- going on --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [[], ["--retry-failed"]], ids=["missing", "missing and failed"])
def test_resuming(changed: Path, options: list[str]) -> None:
    """Only what is missing is asked, and the stored outputs stay as they are."""
    before = _outputs("run_06")
    Path("mended").touch()
    found = result(STORE, "run", "interrupted.yaml", "--resume", *options)
    after = _outputs("run_06")
    found["kept"] = [place for place, data in before.items() if after[place] == data]
    found["outputs"] = {place: sha256(data) for place, data in after.items()}
    found["show"] = result(STORE, "show", "run_06", "-m", "recall@3")["json"]["run"]
    del found["show"]["finished_at"]
    name = "retried" if options else "resumed"
    check_golden(f"store/{name}.json", found)


def _outputs(run: str) -> dict[str, bytes]:
    rows = fixed(sqlite_tables(Path(STORE)))["eval_query_results"]
    return {f"{row['sample_id']}/{row['repeat']}": row["outputs"] for row in rows if row["run_id"].startswith(run)}


RESCORED: dict[str, list[str]] = {
    "more metrics": [
        "rescore",
        "run_01",
        "-m",
        "rouge1_answer",
        "-m",
        "map@3:conventions=trec",
        "-m",
        "err@3:max_grade=3",
    ],
    "those of the plan": ["rescore", "repeated"],
    "a slice": ["rescore", "saved", "-m", "exact_match", "--slice", "labels.topic"],
    "incomplete": ["rescore", "interrupted", "-m", "token_f1", "--incomplete"],
    "incomplete, refused": ["rescore", "interrupted", "-m", "token_f1"],
    "TREC grades": ["rescore", "trec", "-m", "ndcg@10", "--qrels", "qrels.txt"],
    "judged by the stored plan": ["rescore", "judged", "-m", "llm_faithfulness"],
    "judged again from the cache": ["rescore", "judged", "-m", "llm_faithfulness"],
    "processes": ["rescore", "run_02", "-m", "token_f1", "--executor", "processes", "--workers", "1"],
}


def test_rescoring(changed: Path) -> None:
    calls()
    check_golden("store/rescore.json", {name: result(STORE, *arguments) for name, arguments in RESCORED.items()})


AGAIN: dict[str, list[str]] = {
    "preference": ["prefer", "pair-a", "pair-b", "--plan", "judged.yaml", "--judge", "judge"],
    "preview": ["rescore", "judged", "--preview"],
    "replay": ["replay", "pair-a", "pair-b", "pair_b.yaml"],
    "noise": ["run", "pair.yaml", "--perturb", "noise=0,0.5", "--limit", "4", "--resume"],
}


def test_stored_runs_are_used_again(changed: Path) -> None:
    """A replay and a sweep that are complete ask nothing."""
    check_golden("store/again.json", {name: result(STORE, *arguments) for name, arguments in AGAIN.items()})


GATED: dict[str, list[str]] = {
    "of its plan": ["gate", "run_02"],
    "against a run": ["gate", "run_02", "--against", "some-failed", "-g", "not worse(recall@3, by=0.02)"],
    "of a plan": ["gate", "run_01", "--plan", "nightly.yaml"],
    "given": ["gate", "chunks-2", "-g", "mrr >= 0.5", "-g", "low(groundedness) >= 0.1", "-g", "coverage >= 0.99"],
    "a group": ["gate", "run_01", "-g", "recall@3 where labels.topic = hours >= 0.7"],
    "noted": ["runs", "--dataset", "golden"],
}


def test_gates(changed: Path) -> None:
    check_golden("store/gates.json", {name: result(STORE, *arguments) for name, arguments in GATED.items()})


def test_exporting(changed: Path) -> None:
    found: dict[str, Any] = {"judged": result(STORE, "export", "judged", "judged")}
    found["judged"]["files"] = {path.name: _content(path) for path in sorted(Path("judged").iterdir())}
    for run in ("repeated", "chunks-1", "trec"):
        code, _ = auepora("export", run, run, "--store", STORE)
        found[run] = {
            "exit": code,
            "sha256": {path.name: sha256(path.read_bytes()) for path in sorted(Path(run).iterdir())},
        }
    check_golden("store/export.json", found)


def _content(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return without(json.loads(text))
    lines = text.splitlines()
    return lines if path.suffix == ".csv" else [without(json.loads(line)) for line in lines]


def test_tags_and_deletion(changed: Path) -> None:
    found = {
        "tag": auepora("runs", "--store", STORE, "tag", "run_03", "kept")[0],
        "delete": auepora("runs", "--store", STORE, "delete", "run_05", "judged", "trec", "--yes")[0],
    }
    tables = sqlite_tables(Path(STORE))
    rows = {name: len(rows) for name, rows in tables.items()}
    tags = {row["run_id"]: json.loads(row["tags_json"]) for row in tables["eval_runs"]}
    check_golden("store/deleted.json", {**found, "schema": tables["eval_schema"], "rows": rows, "tags": tags})
