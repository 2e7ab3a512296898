"""A metric is imported when it is named: the index is current, and scoring one metric loads little else."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

from helpers.requirements import REPO

SCORE_ONE_METRIC = """
import sys
from auepora_eval.cli.main import main

sys.argv = ["auepora", "score", "dataset.jsonl", "outputs.jsonl", "-m", "recall@5", "--json"]
try:
    main()
except SystemExit as end:
    assert not end.code
names = [name for name in sys.modules if name.startswith("auepora_eval")]
print("\\n".join(f"{name} {sys.modules[name].__file__}" for name in names), file=sys.stderr)
"""


def test_the_index_is_current() -> None:
    spec = importlib.util.spec_from_file_location("metric_index", REPO / "tools" / "metric_index.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.INDEX.read_text(encoding="utf-8") == tool.index_text(), "run `make docs`"


def test_scoring_one_metric_loads_little(tmp_path: Path) -> None:
    sample = {"sample_id": "q", "query": "?", "relevant_docs": [{"doc_id": "a", "text": ""}]}
    for number, name in enumerate(("dataset", "outputs")):
        line = sample if number == 0 else {"sample_id": "q", "retrieved": ["b", "a"]}
        rows = [json.dumps({**line, "sample_id": one}) for one in ("q1", "q2")]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows), encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCORE_ONE_METRIC],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(run.stdout)["results"][0]["value"] == 1
    loaded = dict(line.split(" ", 1) for line in run.stderr.splitlines() if line.startswith("auepora_eval"))
    packages = [name.split(".")[1] for name in loaded if "." in name]
    unwanted = {
        "judge",
        "models",
        "plan",
        "gates",
        "store",
        "compare",
        "report",
        "scale",
        "runs",
        "annotate",
        "systems",
    }
    assert unwanted.isdisjoint(packages)
    assert packages.count("metrics") <= 4, [name for name in loaded if ".metrics" in name]
    lines = sum(len(Path(file).read_text(encoding="utf-8").splitlines()) for file in loaded.values())
    assert lines <= 18_000
