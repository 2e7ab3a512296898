"""Models by path and name: offline lookup, loading once, and errors."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from auepora_eval.errors import BadValueError, MissingDependencyError
from auepora_eval.models import loading
from auepora_eval.models.loading import (
    ModelSource,
    fingerprint,
    load_classifier,
    load_layers,
    load_sentence_transformer,
)
from helpers.requirements import need
from helpers.tiny_models import made


@pytest.mark.part("models")
def test_a_model_is_loaded_once() -> None:
    source = ModelSource(made("cross-encoder"))
    loading._MODELS.clear()
    first = load_classifier(source, purpose="a test")
    assert load_classifier(ModelSource(made("cross-encoder"), device="cpu"), purpose="another") is first
    assert load_layers(source, None, purpose="a test") is not first  # another part of it
    loading._MODELS.clear()
    assert load_classifier(source, purpose="a test") is not first


@pytest.mark.part("models")
def test_a_model_is_identified_by_its_files(tmp_path: Path) -> None:
    copy = tmp_path / "sbert"
    shutil.copytree(made("sbert"), copy)
    ours, theirs = ModelSource(str(copy)), ModelSource(made("sbert"))
    assert ours.identity == theirs.identity
    assert ours.identity.startswith("sbert-")
    (copy / "README.md").write_text("another text", encoding="utf-8")
    assert ours.identity == theirs.identity
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    (copy / "config.json").write_text(json.dumps(config | {"layer_norm_eps": 0.1}), encoding="utf-8")
    assert ours.identity != theirs.identity
    assert fingerprint(copy) != fingerprint(Path(made("sbert")))
    assert ModelSource("org/name").identity == "org/name"
    assert ModelSource("org/name", revision="v2").identity == "org/name@v2"
    assert ModelSource("/gone/model").identity == "model"


def test_missing_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("huggingface_hub")
    with pytest.raises(BadValueError, match=r"'org/nowhere' cannot be found on this machine.*allow_download: true"):
        ModelSource("org/nowhere").folder()
    with pytest.raises(BadValueError, match=r"'org/nowhere' cannot be downloaded \(\w+\)"):
        ModelSource("org/nowhere", allow_download=True).folder()  # the tests have no network
    with pytest.raises(BadValueError, match="there is no model's folder"):
        ModelSource(str(tmp_path / "gone")).folder()
    with pytest.raises(BadValueError, match=r"holds no model: neither config\.json nor modules\.json"):
        ModelSource(str(tmp_path)).folder()
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        MissingDependencyError, match=r"a test needs the package 'torch': pip install 'auepora-eval\[sem"
    ):
        load_classifier(ModelSource(str(tmp_path)), purpose="a test")


@pytest.mark.part("models")
def test_incomplete_models(tmp_path: Path) -> None:
    bare = tmp_path / "no-tokenizer"
    shutil.copytree(made("nli"), bare)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (bare / name).unlink()
    with pytest.raises(BadValueError, match=r"no-tokenizer has no tokenizer; its folder needs tokenizer\.json"):
        load_classifier(ModelSource(str(bare)), purpose="a test")
    (bare / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(BadValueError, match="no-tokenizer cannot be loaded for a test"):
        load_classifier(ModelSource(str(bare)), purpose="a test")
    hollow = tmp_path / "no-weights"
    shutil.copytree(made("nli"), hollow)
    (hollow / "model.safetensors").unlink()
    with pytest.raises(BadValueError, match="no-weights cannot be loaded for a test"):
        load_classifier(ModelSource(str(hollow)), purpose="a test")
    with pytest.raises(BadValueError, match=r"no classifier of texts \(its config names BertModel\)"):
        load_classifier(ModelSource(made("bert")), purpose="a test")


@pytest.mark.part("models")
def test_missing_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = need("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(BadValueError, match=r"device: cuda asks for a GPU, and PyTorch .* finds none"):
        load_sentence_transformer(ModelSource(made("sbert"), device="cuda"), purpose="a test")
    with pytest.raises(BadValueError, match="precision: float16 is for a GPU"):
        load_sentence_transformer(ModelSource(made("sbert"), precision="float16"), purpose="a test")
    assert load_sentence_transformer(ModelSource(made("sbert")), purpose="a test").device == "cpu"


def test_listing_metrics_imports_no_model_package() -> None:
    code = (
        "import sys; from auepora_eval.core.registry import metric, metric_infos; metric_infos();"
        "metric('sbert_similarity', model='org/x'); metric('nli_grounding', model='org/x');"
        "print([name for name in ('torch', 'transformers', 'sentence_transformers', 'openai') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
