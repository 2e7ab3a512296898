"""A stored run to label: hostile answers, wide characters, long evidence, two scenarios, one failure."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from auepora_eval import Document, Response, RetrievedDocument, SystemOutputs
from auepora_eval.stats.agreement import alpha_report, kappa_report, kendall_report, pearson_report, spearman_report
from auepora_eval.stats.calibration import auroc_report
from auepora_eval.store.runs import RunStore
from helpers import stored_runs


def answer(number: int) -> SystemOutputs | Exception:
    if number == 11:
        return ValueError("no answer")
    docs = [("aside", "Something else, at length. " * 40), ("gold", "東京は日本の首都です。 \x1b[2J\x1b]0;owned\x07")]
    hits = [RetrievedDocument(Document(*doc), 1.0 / rank, rank) for rank, doc in enumerate(docs, start=1)]
    return SystemOutputs(hits, Response(f"answer {number} \x1b[31mred\x1b[0m 東京"))


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bootstrap intervals from 100 draws, not 1000, for tests that are not about their ends."""
    for report in (alpha_report, auroc_report, kappa_report, kendall_report, pearson_report, spearman_report):
        defaults = report.__kwdefaults__ or {}
        assert defaults["draws"] == 1000
        monkeypatch.setitem(defaults, "draws", 100)


@pytest.fixture
def labelled_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of a run in ``runs.sqlite`` of the test's folder, where the test then is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    dataset = stored_runs.samples(12)
    for number, sample in enumerate(dataset):
        sample.labels["scenario"] = "rare" if number % 4 == 0 else "usual"
    with RunStore.open("runs.sqlite") as store:
        return stored_runs.run(store, "nightly", dataset, answer, ["mrr"]).run_id


@pytest.fixture
def type_lines(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make these lines the standard input."""

    def type_lines(*lines: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))

    return type_lines
