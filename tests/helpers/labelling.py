"""A stored run to label: hostile answers, wide characters, long evidence, two scenarios, one failure."""

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import Document, Response, RetrievedDocument, SystemOutputs
from auepora_eval.cli.label_sessions import LabelSession
from auepora_eval.labels.form import LabelForm
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


# --- a form without a command -----------------------------------------------------------------------------------------

_IDS = [f"q{number:05}" for number in range(5)]


def short_answer(number: int, name: str) -> SystemOutputs:
    hits = [
        RetrievedDocument(Document(doc, f"text of {doc}"), 1.0 / rank, rank) for rank, doc in ((1, "a"), (2, "gold"))
    ]
    return SystemOutputs(hits, Response("Ada did." if number == 0 else f"{name} {number}"))


@pytest.fixture(scope="module")
def label_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunStore]:
    """Two runs over five samples; their answers to the first one are equal."""
    with RunStore.open(tmp_path_factory.mktemp("store") / "runs.sqlite") as found:
        for name in ("first", "second"):
            answers = {number: short_answer(number, name) for number in range(5)}
            stored_runs.run(found, name, stored_runs.samples(5), answers.__getitem__, ["mrr"])
        yield found


def open_form(store: RunStore, path: Path, n: int = 3, *, purpose: Any = "calibrate", **options: Any) -> LabelForm:
    """The form for the answers of the first run to the first samples."""
    session = LabelSession(store, path, "ann", **options)
    records = [store.find("first")]
    return session.form(session.batch(records, purpose), session.entries(records, _IDS[:n]), {})
