"""Cache of vectors by model and text, in a SQLite file that several processes may share."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import StoreError
from ..features.embeddings import EmbeddingBatch
from ..features.model_cache import InferenceFailure

__all__ = ["VectorCache", "encode_with_cache"]

_TEXTS_PER_QUERY = 500
_BUSY_TIMEOUT_S = 60.0
"""Seconds to wait for another process that is writing."""
_TABLE = """
CREATE TABLE IF NOT EXISTS vectors (
    model TEXT NOT NULL, text BLOB NOT NULL, cut INTEGER NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (model, text)
) WITHOUT ROWID
"""


class VectorCache:
    """Vectors by model and text. Texts are stored as hashes, vectors as float32.

    The file is opened for each read and write, so that a cache may be used from any thread and process.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()

    def read(self, model: str, texts: Sequence[str]) -> dict[str, tuple[Any, bool]]:
        """The cached vectors, and whether each text was truncated."""
        if not self.path.exists():
            return {}
        by_hash = {_hash(text): text for text in texts}
        hashes = list(by_hash)
        found: dict[str, tuple[Any, bool]] = {}
        with self._open() as connection:
            for start in range(0, len(hashes), _TEXTS_PER_QUERY):
                hash_chunk = hashes[start : start + _TEXTS_PER_QUERY]
                placeholders = ",".join("?" * len(hash_chunk))
                # S608: only placeholders are interpolated here.
                query = f"SELECT text, cut, vector FROM vectors WHERE model = ? AND text IN ({placeholders})"  # noqa: S608
                for text, cut, vector in connection.execute(query, [model, *hash_chunk]):
                    found[by_hash[text]] = np.frombuffer(vector, dtype="<f4"), bool(cut)
        return found

    def write(self, model: str, texts: Sequence[str], vectors: Sequence[Any], cut: Sequence[bool]) -> None:
        """Store some vectors; entries that another process wrote meanwhile stay."""
        rows = [
            (model, _hash(text), int(was_truncated), np.asarray(vector, dtype="<f4").tobytes())
            for text, vector, was_truncated in zip(texts, vectors, cut, strict=True)
        ]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._open() as connection, connection:
            connection.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?, ?, ?)", rows)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=_BUSY_TIMEOUT_S)) as connection:
                connection.execute(_TABLE)
                yield connection
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                str(self.path), f"the vector cache cannot be used ({error}); delete the file or name another"
            ) from error


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def encode_with_cache(
    cache: str | None, model: str, texts: list[str], encode: Callable[[list[str]], EmbeddingBatch]
) -> EmbeddingBatch:
    """The vectors of some texts, from the cache if possible; new ones are stored."""
    if cache is None:
        return encode(texts)
    vector_cache = VectorCache(cache)
    known = vector_cache.read(model, texts)
    fresh = [text for text in dict.fromkeys(texts) if text not in known]
    encoded = encode(fresh) if fresh else EmbeddingBatch([], [])
    new = dict(zip(fresh, zip(encoded.rows, map(bool, encoded.cut), strict=True), strict=True))
    # Vectors with NaN are not cached: another attempt may succeed.
    valid = [text for text, (row, _) in new.items() if not isinstance(row, InferenceFailure) and np.isfinite(row).all()]
    if valid:
        vector_cache.write(model, valid, [new[text][0] for text in valid], [new[text][1] for text in valid])
    pairs = [known[text] if text in known else new[text] for text in texts]
    return EmbeddingBatch([row for row, _ in pairs], [cut for _, cut in pairs])
