"""The folder of a project with a system to sweep over, and the functions that run its sweeps."""

import json
from pathlib import Path
from typing import Any

import yaml

from auepora_eval.plan.source import PlanSource, read_source
from auepora_eval.plan.sweep import SweepOptions
from auepora_eval.store.runs import RunStore
from auepora_eval.store.sweeps import find_sweep
from auepora_eval.sweep.answer import SweepAnswer, answer_sweep
from auepora_eval.sweep.run import SweepRunner, prepare_sweep

SYSTEM = """
import hashlib, os, time
from pathlib import Path
from auepora_eval import Response, SystemOutputs

HERE = Path(__file__).parent

def unit(*words):
    return int.from_bytes(hashlib.sha256(" ".join(map(str, words)).encode()).digest()[:6], "big") / 2**48

class Rag:
    def __init__(self, right=0.5, model="small", crash=0.0, seconds=0.0, own=""):
        if model == "missing":
            raise ValueError("there is no such model")
        self.right, self.model, self.crash, self.seconds, self.own = right, model, crash, seconds, own

    def run(self, sample, *, top_k=5):
        with open(HERE / "calls.log", "a") as log:
            log.write(f"{self.right} {self.model} {sample.sample_id}\\n")
        time.sleep(self.seconds)
        # Questions are as hard for all; a part of the outcome is the configuration's own.
        hard = 0.7 * unit(sample.sample_id) + 0.3 * unit(sample.sample_id, self.own)
        if self.crash and hard > 1 - self.crash:
            raise RuntimeError("out of memory")
        text = "yes" if hard < self.right else "no"
        usage = {"model": self.model, "prompt_tokens": 100, "completion_tokens": 10}
        return SystemOutputs([], Response(text), usage=usage)

def prepare(settings):
    with open(HERE / "setup.log", "a") as log:
        log.write(f"{settings}\\n")
"""
PRICES = {"small": {"prompt": 1.0, "completion": 1.0}, "large": {"prompt": 10.0, "completion": 10.0}}


class SweepProject:
    """The folder of a project whose plan has a sweep."""

    def __init__(self, folder: Path, samples: int) -> None:
        self.folder = folder
        rows = [{"sample_id": f"q{n}", "query": f"is it {n}?", "reference_answer": "yes"} for n in range(samples)]
        (folder / "data.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        (folder / "swept_rag.py").write_text(SYSTEM)

    def source(self, sweep: dict[str, Any] | None, **keys: Any) -> PlanSource:
        """Write a plan with this sweep, and read it."""
        plan = {
            "name": "choice",
            "dataset": {"jsonl": "data.jsonl"},
            "system": {"python": "swept_rag:Rag"},
            "metrics": ["exact_match", "token_f1"],
            "primary": ["exact_match"],
            "run": {"concurrency": 4, "retries": 0, "prices": PRICES},
            "store": "runs.sqlite",
            "sweep": sweep,
            **keys,
        }
        path = self.folder / "plan.yaml"
        path.write_text(yaml.safe_dump(plan, sort_keys=False))
        return read_source(path)

    def run(self, source: PlanSource, **options: Any) -> str:
        """Run a sweep; returns why it stopped."""
        chosen = SweepOptions(**options)
        return SweepRunner(prepare_sweep(source, chosen), chosen).run()

    def answer(self, name: str = "choice") -> SweepAnswer:
        """The answer of a stored sweep."""
        with RunStore.open(self.folder / "runs.sqlite") as store:
            return answer_sweep(store, find_sweep(store, name))

    def calls(self) -> list[str]:
        """What the systems were called for."""
        log = self.folder / "calls.log"
        return log.read_text().splitlines() if log.exists() else []
