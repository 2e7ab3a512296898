"""Vectors kept on disk by model and text, in one SQLite file that several processes may use at once."""

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

_ASKED_AT_ONCE = 500
_WAIT_SECONDS = 60.0
"""How long to wait for another process that is writing."""
_TABLE = """
CREATE TABLE IF NOT EXISTS vectors (
    model TEXT NOT NULL, text BLOB NOT NULL, cut INTEGER NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (model, text)
) WITHOUT ROWID
"""


class VectorCache:
    """Vectors by model and text. A text is kept as its hash; a vector as it came, in float32.

    The file is opened for each reading and writing, so that a cache may be used from any thread and process.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()

    def read(self, model: str, texts: Sequence[str]) -> dict[str, tuple[Any, bool]]:
        """The vector of each text that is there, and whether the text was cut."""
        if not self.path.exists():
            return {}
        by_hash = {_hash(text): text for text in texts}
        hashes = list(by_hash)
        found: dict[str, tuple[Any, bool]] = {}
        with self._open() as connection:
            for start in range(0, len(hashes), _ASKED_AT_ONCE):
                some = hashes[start : start + _ASKED_AT_ONCE]
                marks = ",".join("?" * len(some))
                # S608: nothing but question marks is put together here.
                query = f"SELECT text, cut, vector FROM vectors WHERE model = ? AND text IN ({marks})"  # noqa: S608
                for text, cut, vector in connection.execute(query, [model, *some]):
                    found[by_hash[text]] = np.frombuffer(vector, dtype="<f4"), bool(cut)
        return found

    def write(self, model: str, texts: Sequence[str], vectors: Sequence[Any], cut: Sequence[bool]) -> None:
        """Keep some vectors; what another process kept in the meantime stays."""
        rows = [
            (model, _hash(text), int(was), np.asarray(vector, dtype="<f4").tobytes())
            for text, vector, was in zip(texts, vectors, cut, strict=True)
        ]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._open() as connection, connection:
            connection.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?, ?, ?)", rows)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=_WAIT_SECONDS)) as connection:
                connection.execute(_TABLE)
                yield connection
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                str(self.path), f"the cache of vectors cannot be used ({error}); delete the file or name another"
            ) from error


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def encode_with_cache(
    cache: str | None, model: str, texts: list[str], encode: Callable[[list[str]], EmbeddingBatch]
) -> EmbeddingBatch:
    """The vectors of some texts, from the cache as far as it has them; what is new is kept there."""
    if cache is None:
        return encode(texts)
    held = VectorCache(cache)
    known = held.read(model, texts)
    fresh = [text for text in dict.fromkeys(texts) if text not in known]
    made = encode(fresh) if fresh else EmbeddingBatch([], [])
    new = dict(zip(fresh, zip(made.rows, map(bool, made.cut), strict=True), strict=True))
    # A vector that is none, because it holds NaN, is not kept: another time it may be one.
    sound = [text for text, (row, _) in new.items() if not isinstance(row, InferenceFailure) and np.isfinite(row).all()]
    if sound:
        held.write(model, sound, [new[text][0] for text in sound], [new[text][1] for text in sound])
    pairs = [known[text] if text in known else new[text] for text in texts]
    return EmbeddingBatch([row for row, _ in pairs], [cut for _, cut in pairs])
