"""A comparison that reads from the store on every pass, as for large runs, equals one of runs kept in memory."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from auepora_eval.compare import pairing, stores
from auepora_eval.compare.queries import explain_changes
from auepora_eval.compare.runs import compare_runs
from auepora_eval.core.types import Document, EvaluationSample, Response, SystemOutputs
from auepora_eval.store import rows
from auepora_eval.store.runs import RunStore, iter_samples
from auepora_eval.store.texts import PackedOutput, unpack_output
from helpers.golden_runs import chunk, found
from helpers.stored_runs import run

METRICS = ["recall@5", "token_f1"]


def dataset(names: range, *, spans: bool = False) -> list[EvaluationSample]:
    def gold(name: int) -> Document:
        return chunk(f"g{name}", f"d{name}", (0, 50)) if spans else chunk(f"g{name}")

    return [
        EvaluationSample(f"q{name}", f"question {name}", [gold(name)], reference_answer=Response(f"yes {name}"))
        for name in names
    ]


def outputs(number: int, shift: int) -> SystemOutputs:
    if number % 7 == shift:
        return found(error="down")
    hits = [f"x{number}"] * ((number + shift) % 3) + [f"g{number}"] * (number % 5 > 0)
    return found(*dict.fromkeys(hits), answer=f"yes {number}" if number % (2 + shift) else "no")


def spanned(number: int, shift: int) -> SystemOutputs:
    own = chunk(f"g{number}" if number % 2 else f"n{number}", f"d{number}", (0, 60))
    return found(chunk("other", "d"), own, answer="yes") if shift else found(own, answer="no")


def moved(number: int, shift: int) -> SystemOutputs:
    return found(chunk(f"g{number}", f"d{number}", (300 * shift, 300 * shift + 50)), chunk("other"), answer="yes")


ROWS = [  # run B's questions, outputs, repeats, why
    (range(12), outputs, 1, "the same dataset"),
    (range(12), outputs, 2, "repeats"),
    (range(11, 3, -1), outputs, 1, "another dataset in another order"),
    (range(12), spanned, 1, "gold with spans"),
    (range(12), moved, 1, "other chunks of the same ids"),
]


@pytest.mark.parametrize(("names", "system", "repeats", "why"), ROWS, ids=[row[3] for row in ROWS])
def test_reading_on_every_pass_changes_nothing(
    names: range, system: object, repeats: int, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = system is spanned
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        for name, questions, shift in (("a", range(12), 0), ("b", names, 1)):
            run(store, name, dataset(questions, spans=spans), lambda n, s=shift: system(n, s), METRICS, repeats=repeats)  # type: ignore[operator,misc]
        whole = compare_runs("a", "b", store=store, other_dataset=True).to_json()
        monkeypatch.setattr(stores, "_MAX_KEPT", 0)
        monkeypatch.setattr(pairing, "_MAX_SCORES", 0)
        monkeypatch.setattr(rows, "CHUNK", 5)
        assert compare_runs("a", "b", store=store, other_dataset=True).to_json() == whole
        assert list(iter_samples(store, store.find("b").run_id)) == store.samples(store.find("b").run_id, texts=False)


def test_only_outputs_of_changed_queries_are_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked: list[object] = []

    def unpack(row: PackedOutput, texts: Mapping[str, str] | None) -> SystemOutputs:
        unpacked.append(row)
        return unpack_output(row, texts)

    monkeypatch.setattr(rows, "unpack_output", unpack)
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        a = run(store, "a", dataset(range(12)), lambda n: outputs(n, 0), METRICS)
        b = run(store, "b", dataset(range(12)), lambda n: outputs(n, 1), METRICS)
        whole = explain_changes(store, a, b, metric="token_f1", worse_only=False)
        assert 0 < len(whole) < 12
        monkeypatch.setattr(stores, "_MAX_KEPT", 0)
        unpacked.clear()
        assert explain_changes(store, a, b, metric="token_f1", worse_only=False) == whole
        assert len(unpacked) == 2 * len(whole)
