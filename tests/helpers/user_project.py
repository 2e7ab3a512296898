"""The folder of a user's project: data, a system that keeps a log of its calls, a plan."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SYSTEM = """
import os, time
from pathlib import Path
from auepora_eval import Document, Response, RetrievedDocument, SystemOutputs

HERE = Path(__file__).parent

class Rag:
    config = {"chunker_version": "c1", "model": "parrot", "api_key": "hidden"}

    def __init__(self, seconds=0.0, broken=()):
        self.seconds, self.broken = seconds, set(broken)
        self.log = os.open(HERE / "calls.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def run(self, sample, *, top_k=5):
        os.write(self.log, f"{sample.sample_id}\\n".encode())
        if self.seconds:
            time.sleep(self.seconds)
        if sample.sample_id in self.broken and not (HERE / "mended").exists():
            raise ValueError(f"cannot answer {sample.sample_id}")
        n = int(sample.sample_id)
        found = [RetrievedDocument(Document(f"d{n + k}", f"document {n + k}"), 1.0 / (k + 1), k + 1) for k in range(n % 3, n % 3 + 2)]
        return SystemOutputs(found, Response(f"the answer is {n}"))
"""


class Project:
    """The folder of a user's project."""

    def __init__(self, folder: Path, samples: int) -> None:
        self.folder = folder
        rows = [
            {
                "sample_id": str(n),
                "query": f"what is {n}?",
                "relevant_docs": [f"d{n}"],
                "reference_answer": f"it is {n}",
                "labels": {"parity": "odd" if n % 2 else "even"},
            }
            for n in range(samples)
        ]
        (folder / "data.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        (folder / "my_rag.py").write_text(SYSTEM)
        sys.modules.pop("my_rag", None)  # that of another folder
        self.plan()

    def plan(
        self, name: str = "plan.yaml", *, args: str = "{}", run: str = "{concurrency: 4, retries: 0}", more: str = ""
    ) -> str:
        """Write a plan that calls the system; its path."""
        path = self.folder / name
        path.write_text(
            f"""name: nightly
dataset: {{jsonl: data.jsonl}}
system: {{python: "my_rag:Rag", args: {args}}}
metrics: [recall@5, mrr, token_f1, bleu, "mean_latency[end_to_end]"]
slices: [labels.parity]
run: {run}
store: runs.sqlite
{more}"""
        )
        return str(path)

    def calls(self) -> list[str]:
        """The ids of the samples for which the system was called, in order."""
        log = self.folder / "calls.log"
        return log.read_text().split() if log.exists() else []


@contextmanager
def own_systems() -> Iterator[None]:
    """Import systems anew inside, and forget them afterwards: every project has a module of the same name."""
    _forget_systems()
    try:
        yield
    finally:
        _forget_systems()


def _forget_systems() -> None:
    for module in [name for name in sys.modules if name.endswith("_rag") and "." not in name]:
        del sys.modules[module]
