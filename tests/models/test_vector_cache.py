"""The vector cache: by model and text, shared by two processes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from auepora_eval.errors import StoreError
from auepora_eval.features.embeddings import EmbeddingBatch, InferenceFailure
from auepora_eval.models.embedders import SentenceTransformerEmbedder, VectorCache, encode_with_cache
from helpers.tiny_models import made

ROWS = [[0.5, -1.0], [0.25, 3e-8]]


def test_vectors_round_trip(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path / "deep" / "vectors.sqlite")
    assert cache.read("m", ["a"]) == {}
    cache.write("m", ["a", "b\ud800"], ROWS, [False, True])
    found = cache.read("m", ["a", "b\ud800", "c"])
    assert {text: (row.tolist(), cut) for text, (row, cut) in found.items()} == {
        "a": ([0.5, -1.0], False),
        "b\ud800": ([0.25, float(np.float32(3e-8))], True),
    }
    assert cache.read("another model", ["a"]) == {}
    cache.write("m", ["a"], [[9.0, 9.0]], [False])  # the first one stays
    assert cache.read("m", ["a"])["a"][0].tolist() == ROWS[0]
    many = [str(number) for number in range(1200)]
    cache.write("m", many, [[float(number), 1.0] for number in range(1200)], [False] * 1200)
    found = cache.read("m", many)
    assert [found[text][0][0] for text in many] == list(range(1200))


def test_only_new_and_valid_vectors_are_stored(tmp_path: Path) -> None:
    asked: list[list[str]] = []

    def encode(texts: list[str]) -> EmbeddingBatch:
        asked.append(texts)
        rows = {"nan": [np.nan, 1.0], "lost": InferenceFailure("out_of_memory", "no room")}
        return EmbeddingBatch(
            [rows.get(text, [float(len(text)), 1.0]) for text in texts], [text == "long" for text in texts]
        )

    path = str(tmp_path / "vectors.sqlite")
    first = encode_with_cache(path, "m", ["a", "long", "nan", "lost"], encode)
    second = encode_with_cache(path, "m", ["lost", "long", "nan", "a", "new"], encode)
    assert asked == [["a", "long", "nan", "lost"], ["lost", "nan", "new"]]
    assert isinstance(second.rows[0], InferenceFailure)
    assert [list(row) for row in second.rows[1:] if not np.isnan(row).any()] == [[4.0, 1.0], [1.0, 1.0], [3.0, 1.0]]
    assert (list(first.cut), list(second.cut)) == ([False, True, False, False], [False, True, False, False, False])


@pytest.mark.part("models")
def test_cached_texts_are_not_encoded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, texts = str(tmp_path / "vectors.sqlite"), ["the cat", "cat " * 200]
    embedder = SentenceTransformerEmbedder(made("sbert"), cache=path)
    first = embedder.embed_batch(texts)
    monkeypatch.setattr(SentenceTransformerEmbedder, "_loaded", lambda _: pytest.fail("a model was loaded"))
    again = embedder.embed_batch(texts)
    assert np.array_equal(np.array(first.rows), np.array(again.rows))
    assert list(again.cut) == [False, True]


WRITER = """
import sys
from auepora_eval.models.embedders import VectorCache
cache = VectorCache(sys.argv[1])
for start in range(0, 400, 20):
    texts = [str(number) for number in range(start, start + 20)]
    cache.write("m", texts, [[float(text), 1.0] for text in texts], [False] * 20)
    assert len(cache.read("m", texts)) == 20
"""


@pytest.mark.slow
def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "vectors.sqlite"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stderr=subprocess.PIPE) for _ in range(2)]
    assert [(writer.communicate()[1].decode(), writer.returncode) for writer in writers] == [("", 0)] * 2
    found = VectorCache(path).read("m", [str(number) for number in range(400)])
    assert {text: row[0] for text, (row, _) in found.items()} == {str(number): number for number in range(400)}


def test_a_file_that_is_not_a_cache(tmp_path: Path) -> None:
    path = tmp_path / "vectors.sqlite"
    path.write_text("no database, and long enough to be looked at as one" * 50, encoding="utf-8")
    with pytest.raises(StoreError, match=r"the vector cache cannot be used .*delete the file or name another"):
        VectorCache(path).read("m", ["a"])
