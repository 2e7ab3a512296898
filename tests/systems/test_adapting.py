"""What all adapters share: detection, versions, conversion of documents."""

import datetime
import importlib.metadata
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import auepora_eval
from auepora_eval import EvaluationSample, RunStore, SystemOutputs
from auepora_eval.errors import AueporaError, AueporaWarning, BadValueError, MissingDependencyError
from auepora_eval.io.codec import decode_output, encode_output
from auepora_eval.systems.adapters import (
    FRAMEWORKS,
    DocumentMapper,
    Framework,
    FrameworkDocument,
    detect_framework,
    major_version,
    require_tested,
    sum_token_usage,
)
from auepora_eval.systems.interfaces import adapt, as_system, load_python
from helpers.requirements import need

pytestmark = pytest.mark.xdist_group("frameworks")  # slow to import: one worker does it

BY_NAME = {framework.function: framework for framework in FRAMEWORKS}


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda one: one.name)
def test_missing_framework(framework: Framework, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    with pytest.raises(MissingDependencyError, match=f"pip install {framework.package}$") as raised:
        getattr(auepora_eval, framework.function)(object())
    assert f"{framework.function}() needs the package '{framework.package}'" in str(raised.value)


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda one: one.name)
def test_untested_major_versions_are_rejected(
    framework: Framework, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / f"{framework.package.replace('-', '_')}-99.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {framework.package}\nVersion: 99.1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(MissingDependencyError) as raised:
        getattr(auepora_eval, framework.function)(object())
    message = str(raised.value)
    assert f"was tested with {framework.package} {' and '.join(framework.tested)}, and 99.1.0 is installed" in message
    assert message.endswith(f"pip install '{framework.package}=={framework.tested[-1]}.*'")
    assert require_tested(framework, any_version=True) == "99.1.0"


@pytest.mark.parametrize(
    ("version", "want"), [("1.7.2", "1"), ("0.14.25", "0.14"), ("3.4.0rc1", "3"), ("2", "2"), ("0.3", "0.3")]
)
def test_major_versions(version: str, want: str) -> None:
    assert major_version(version) == want


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda one: one.name)
def test_the_installed_version_is_tested(framework: Framework) -> None:
    need("llama_index.core" if framework.module == "llama_index" else framework.module)
    assert major_version(require_tested(framework)) in framework.tested


def test_adapters_import_no_framework() -> None:
    code = """
import sys
from auepora_eval import from_haystack, from_langchain, from_llamaindex
from auepora_eval.systems.interfaces import as_system
class Mine:
    def run(self, sample, *, top_k): ...
as_system(Mine())
print([name for name in sys.modules if name.partition(".")[0] in ("langchain_core", "llama_index", "haystack")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "value", [object(), len, "text", {}, (1, 2), 3.5, SystemOutputs], ids=lambda one: type(one).__name__
)
def test_other_objects_are_not_adapted(value: Any) -> None:
    assert detect_framework(value) is None
    assert adapt(value) is value


def test_classes_are_not_adapted(tmp_path: Path) -> None:
    need("langchain_core")
    from helpers import langchain_parts

    with pytest.raises(AueporaError, match="Listing is a class: give an object of it"):
        as_system(langchain_parts.Listing)


def test_plans_take_objects_factories_and_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("langchain_core")
    monkeypatch.setattr(sys, "path", sys.path[:])
    (tmp_path / "adapted_app.py").write_text(
        "from helpers import langchain_parts as lc\n"
        "retriever = lc.Listing(contents=lc.documents())\n"
        "def make(count): return lc.Listing(contents=lc.documents(count)), lc.function(lambda given: given['context'])\n"
        "class Mine(lc.Listing): contents: list = lc.documents(1)\n"
        "chain = lc.function(lambda text: 'a')\n"
        "unclear = lc.prompt('city', 'country') | lc.model()\n"
    )
    sample = EvaluationSample("q", "question")
    for path, args, count in (("retriever", {}, 5), ("make", {"count": 2}, 2), ("Mine", {}, 1), ("chain", {}, 0)):
        loaded: Any = load_python(f"adapted_app:{path}", args, folder=tmp_path)
        output = as_system(loaded).call(sample, 5)
        assert len(output.retrieved) == count, path
        first = loaded[0] if isinstance(loaded, tuple) else loaded
        assert first.config["framework"].startswith("langchain-core ")
    with pytest.raises(BadValueError, match=r"adapted_app:unclear is an object of type RunnableSequence: .*input_key="):
        load_python("adapted_app:unclear", folder=tmp_path)
    with pytest.raises(BadValueError, match="takes no args"):
        load_python("adapted_app:retriever", {"k": 1}, folder=tmp_path)
    del sys.modules["adapted_app"]


METADATA = {
    1: "a key that is a number",
    "when": datetime.date(2024, 2, 29),
    "vector": np.array([1.0, np.inf]),
    "count": np.int64(7),
    "nan": float("nan"),
    "raw": b"\xff",
    "tags": {"b"},
    "nested": {"path": Path("a/b"), "pair": (1, 2)},
}


def as_it_is(found: Any) -> FrameworkDocument:
    return FrameworkDocument(*found)


def test_metadata_is_converted_to_json(tmp_path: Path) -> None:
    output = SystemOutputs(
        DocumentMapper(as_it_is).to_ranking([FrameworkDocument("d", "text", METADATA, np.float32(0.5))])
    )
    metadata = output.retrieved[0].doc.metadata
    assert metadata["when"] == "2024-02-29"
    assert metadata["vector"] == [1.0, None]
    assert metadata["nested"] == {"path": "a/b", "pair": [1, 2]}
    assert output.retrieved[0].score == 0.5
    assert decode_output(encode_output("q", output)) == ("q", output)


def test_documents_without_an_id_get_a_hash() -> None:
    mapper = DocumentMapper(as_it_is)
    with pytest.warns(AueporaWarning, match="documents have no id.*id_key=") as warned:
        first, second, again = (mapper.document(FrameworkDocument(None, text, {})).doc_id for text in ("a", "b", "a"))
    assert (first == again, first == second, len(warned)) == (True, False, 1)
    assert first == "ca978112ca1bbdca"  # the beginning of the text's SHA-256: the same in every process


def test_no_warnings_without_problems() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        document = DocumentMapper(as_it_is).document(FrameworkDocument(7, None, None))
    assert (document.doc_id, document.text, document.metadata) == ("7", "", {})


@pytest.mark.parametrize(
    ("reports", "want"),
    [
        ([], {}),
        ([None, "many"], {}),
        ([{"prompt_tokens": 3, "completion_tokens": 4}], {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}),
        ([{"total_tokens": 9}, {"input_tokens": 1}], {"total_tokens": 10, "input_tokens": 1}),
        (
            [{"input_tokens": 2, "output_tokens": 1, "total_tokens": 5}],
            {"input_tokens": 2, "output_tokens": 1, "total_tokens": 5},
        ),
        ([{"input_tokens": "many", "cost": 3}], {}),
    ],
    ids=["none", "no reports", "the names of others", "added up", "the total as reported", "no numbers"],
)
def test_tokens(reports: list[Any], want: dict[str, int]) -> None:
    assert sum_token_usage(reports) == want


def test_provenance_of_a_run(tmp_path: Path) -> None:
    need("haystack")
    from helpers import haystack_parts

    run = auepora_eval.run_system(haystack_parts.bm25(), [EvaluationSample("q", "apples")], store=tmp_path / "r.sqlite")
    assert run.record.name == "InMemoryBM25Retriever"
    with RunStore.open(tmp_path / "r.sqlite") as store:
        config = store.find(run.record.run_id).config
    assert config["adapted"].endswith(".InMemoryBM25Retriever")
