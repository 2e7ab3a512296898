"""Spans that a metric marks in answers: stored, and shown by the query browser, ``show --sample`` and ``explain``."""

import base64
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, metric
from auepora_eval.core.scores import MarkedSpan
from auepora_eval.models.token_classifier import TokenClassifier, Window
from auepora_eval.queries.view import GoldMarks, span_marks
from auepora_eval.report.browser.listing import build_browser
from auepora_eval.report.browser.query_json import output_json
from auepora_eval.runs.run import run_system
from auepora_eval.store.runs import RunStore

Call = Callable[..., tuple[int, str, str]]
ANSWER = "👍 rain and <b>gold</b> "
SPANS = [(2, 6, 0.9), (11, 22, 0.9)]
"""``rain`` and ``<b>gold</b>``: the documents of the run have only ``and``."""


@pytest.fixture
def lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token classifier without a model: words that are not in the documents are unsupported."""

    def windows(self: TokenClassifier, inputs: list[Any]) -> list[list[Window]]:
        return [[Window(" ".join(one.documents), one.answer, 0)] for one in inputs]

    def probabilities(self: TokenClassifier, pairs: list[tuple[str, str]]) -> list[Any]:
        found = []
        for context, answer in pairs:
            row = np.full(len(answer), np.nan)
            for word in re.finditer(r"\S+", answer):
                row[word.start() : word.end()] = 0.1 if word[0] in context else 0.9
            found.append((row, False))
        return found

    monkeypatch.setattr(TokenClassifier, "windows", windows)
    monkeypatch.setattr(TokenClassifier, "probabilities", probabilities)
    monkeypatch.setattr(TokenClassifier, "require_ready", lambda self: None)


def stored(folder: Path, repeats: int = 1) -> Path:
    """A run whose second answer is supported, and whose second repeat has another first answer."""
    calls: list[str] = []

    def system(asked: EvaluationSample, *, top_k: int) -> SystemOutputs:
        again = asked.sample_id in calls
        calls.append(asked.sample_id)
        answer = ("blue and" if again else ANSWER) if asked.sample_id == "q1" else "and"
        return SystemOutputs([RetrievedDocument(Document("d1", "and 👍"), 1.0, 1)], Response(answer))

    path = folder / "runs.sqlite"
    rows = [EvaluationSample(one, "why?") for one in ("q1", "q2")]
    with RunStore.open(path) as store:
        made: Any = metric("hallucinated_spans", model="org/x")
        run_system(system, rows, [made], store=store, name="r", repeats=repeats)
    return path


def test_browser_gets_the_spans_of_each_answer(tmp_path: Path, lookup: None) -> None:
    with RunStore.open(stored(tmp_path, repeats=2)) as store:
        (packed,) = (text for name, _, text in build_browser(store, [store.find("r")]).data if name == "qb-queries-0")
    first, second = (query["runs"][0][1] for query in json.loads(gzip.decompress(base64.b64decode(packed))))
    # The thumb takes two units in a browser.
    assert first[0]["spans"] == [["hallucinated_spans", [[3, 7, 0.9], [12, 23, 0.9]]]]
    assert first[1]["spans"] == [["hallucinated_spans", [[0, 4, 0.9]]]]
    assert "spans" not in second[0]


def test_marks_are_counted_as_a_browser_does() -> None:
    assert span_marks("日👍é", [MarkedSpan(0, 1, 1.0), MarkedSpan(2, 3, 0.5)]) == [(0, 1, 1.0), (3, 4, 0.5)]
    out = SystemOutputs([], Response("rain"))
    plain = json.loads(output_json(out, GoldMarks(EvaluationSample("q", "why?")), lambda _: 0, [("m", ())]))
    assert "spans" not in plain


def test_show_sample(tmp_path: Path, auepora: Call, lookup: None) -> None:
    store = ("--store", str(stored(tmp_path)))
    code, out, err = auepora("show", "r", "--sample", "q1", "--json", *store)
    assert code == 0, err
    document = json.loads(out)
    assert [
        (one["metric"], one["repeat"], one["start"], one["end"], one["probability"]) for one in document["spans"]
    ] == [("hallucinated_spans", 0, *one) for one in SPANS]
    _, out, _ = auepora("show", "r", "--sample", "q1", *store)
    assert "👍 ⟦rain⟧ and ⟦<b>gold</b>⟧" in out
    assert re.search(r"hallucinated_spans\s+2-6\s+0.90\s+rain\n", out)
    _, out, _ = auepora("show", "r", "--sample", "q2", *store)
    assert "⟦" not in out
    code, out, err = auepora("show", "r", "--sample", "q1", "-o", str(tmp_path / "page.md"), *store)
    assert code == 0, err
    assert "<b>" not in (tmp_path / "page.md").read_text(encoding="utf-8").replace("\\<b", "").replace("&lt;b", "")


def test_explain_derives_the_score_from_stored_spans(
    tmp_path: Path, auepora: Call, lookup: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stored(tmp_path)
    monkeypatch.undo()  # nothing is asked again
    code, out, err = auepora("explain", "r", "hallucinated_spans", "--query", "q1", "--store", str(path), "--json")
    assert code == 0, err
    steps = json.dumps(json.loads(out), ensure_ascii=False)
    assert "white space not counted: 15 / 19" in steps
    assert "<b>gold</b>" in steps
    assert '"verdict": "equal"' in steps
