"""A recorded folder of scores in parts, half complete: the same command goes on with it and gives the recorded result."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.golden import check_golden, write_golden
from helpers.golden_store import DATA, auepora, in_project
from helpers.requirements import need

CHECKPOINT = DATA / "checkpoint"
CHANGED = 1_700_000_000 * 10**9
"""When the input files changed last: a folder of parts knows its files by name, size and time of change."""
KEPT = ("part-000000.parquet", "part-000002.parquet")
"""The parts that are complete in the recorded folder."""
COMMAND = [
    "score",
    "data-*.jsonl",
    "out-*.jsonl",
    "-m",
    "noted_length",
    "-m",
    "token_f1",
    "-m",
    "recall@2",
    "-m",
    "bleu",
]
COMMAND += ["--slice", "labels.lang", "--batch-size", "6", "--parts", "scores", "--json", "--per-query"]
SCRIPT = '''
"""Scores with a metric that notes which samples it was called for, under the version that wrote the recorded folder."""

import sys

import auepora_eval._version

auepora_eval._version.__version__ = sys.argv.pop(1)

from auepora_eval import SampleMetric, Score, TargetCategory, register
from auepora_eval.cli.main import main


@register("noted_length")
class NotedLength(SampleMetric):
    r"""Number of words of the answer, divided by 10."""

    target = TargetCategory.GENERATION_RELEVANCE

    def score_one(self, sample, output):
        with open("scored.log", "a") as log:
            log.write(f"{sample.sample_id}\\n")
        return Score(min(len(output.response.text.split()) / 10, 1.0))


main(sys.argv[1:])
'''


@pytest.mark.slow
def test_a_half_complete_checkpoint_is_resumed(tmp_path: Path) -> None:
    need("pyarrow")
    if write_golden():
        _record(tmp_path / "first")
    manifest = json.loads((CHECKPOINT / "scores" / "manifest.json").read_text())
    folder = tmp_path / "again"
    _copy_inputs(folder)
    shutil.copytree(CHECKPOINT / "scores", folder / "scores")
    before = {name: (folder / "scores" / name).read_bytes() for name in KEPT}
    result = _score(folder, manifest["version"])
    after = json.loads((folder / "scores" / "manifest.json").read_text())
    after.pop("version")
    found = {
        "scored": (folder / "scored.log").read_text().split(),
        "kept": [name for name, data in before.items() if (folder / "scores" / name).read_bytes() == data],
        "files": sorted(path.name for path in (folder / "scores").iterdir()),
        "manifest": after,
        "result": result,
    }
    check_golden("store/checkpoint.json", found)


def test_the_parts_of_a_new_folder(tmp_path: Path) -> None:
    """Columns, rows and metadata of the Parquet files; the job is left out, since it depends on the version."""
    need("pyarrow")
    from pyarrow import parquet

    folder = tmp_path / "new"
    _copy_inputs(folder)
    command = [*COMMAND[:3], *COMMAND[5:]]
    with in_project(folder):
        code, out = auepora(*command)
        scored = json.loads(out)
        assert (code, json.loads(auepora(*command)[1])) == (0, scored)
    parts = {}
    for path in sorted((folder / "scores").glob("*.parquet")):
        table = parquet.read_table(path)
        about = json.loads(table.schema.metadata[b"auepora"])
        about["facts"].pop("job")
        parts[path.name] = {"columns": [f"{one.name}: {one.type}" for one in table.schema], "about": about}
    parts["part-000001.parquet"]["rows"] = parquet.read_table(folder / "scores" / "part-000001.parquet").to_pylist()
    check_golden("store/parts.json", {"parts": parts, "result": scored["results"][0]})


def _copy_inputs(folder: Path) -> None:
    folder.mkdir()
    for path in CHECKPOINT.glob("*.jsonl"):
        shutil.copyfile(path, folder / path.name)
        os.utime(folder / path.name, ns=(CHANGED, CHANGED))
    (folder / "score.py").write_text(SCRIPT)


def _score(folder: Path, version: str) -> Any:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "score.py", version, *COMMAND]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _record(folder: Path) -> None:
    """Record inputs and the parts of half of them, as a driver that was killed leaves them."""
    shutil.rmtree(CHECKPOINT, ignore_errors=True)
    CHECKPOINT.mkdir()
    words = "the library opens at nine and closes when every reader has left its hall"
    for number in range(2):
        samples, outputs = [], []
        for n in range(number * 15, number * 15 + 15):
            name, answer = f"s{n:02d}", words[4 * (n % 5) :][:30].strip()
            sample = {"sample_id": name, "query": f"question {n}?", "relevant_docs": [f"d{n}", f"d{n + 1}"]}
            labels = {"lang": ("en", "de", "fr")[n % 3]}
            samples.append({**sample, "reference_answer": words[4:30].strip(), "labels": labels})
            output = {"sample_id": name, "retrieved": [f"d{n + n % 2}", "d0"], "response": answer}
            outputs.append({"sample_id": name, "error": "timeout"} if n % 11 == 10 else output)
        for kind, rows in (("data", samples), ("out", outputs[::-1])):
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (CHECKPOINT / f"{kind}-{number + 1}.jsonl").write_text(lines)
    _copy_inputs(folder)
    from auepora_eval._version import __version__

    _score(folder, __version__)
    manifest = json.loads((folder / "scores" / "manifest.json").read_text())
    manifest["complete"] = False
    for unit in manifest["units"]:
        del unit["digest"]
    (CHECKPOINT / "scores").mkdir()
    for name in KEPT:
        shutil.copyfile(folder / "scores" / name, CHECKPOINT / "scores" / name)
    (CHECKPOINT / "scores" / "manifest.json").write_text(json.dumps(manifest, indent=1))
