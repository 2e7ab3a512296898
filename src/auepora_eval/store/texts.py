"""Document texts: stored once, keyed by their hash."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, select

from ..core.errors import StoreError
from ..core.secrets import Secrets
from .connect import Database
from .schema import documents

__all__ = ["KnownTexts", "TextKeys", "TextReader", "block_deletions", "text_key"]

_DIGEST_BYTES = 16
_MAX_KEYS = 50_000
_MAX_KEYED_CHARACTERS = 8_000_000
_MAX_WRITTEN = 1_000_000
_MAX_CHARACTERS = 64_000_000
_CHUNK_SIZE = 500  # old versions of SQLite allow 999 values per statement
_INSERT = "INSERT INTO eval_documents (hash, text) VALUES (?, ?) ON CONFLICT DO NOTHING"


def block_deletions(database: Database, connection: Connection) -> None:
    """Block deletions of runs until the end of this transaction."""
    if database.is_postgresql:  # SQLite has only one writer at a time
        connection.exec_driver_sql("LOCK TABLE eval_documents IN ROW EXCLUSIVE MODE")


def text_key(data: bytes) -> str:
    """Return the key of a text: 22 characters."""
    digest = hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


class TextKeys:
    """Computes the keys of texts, and collects the texts to write. The empty text has an empty key.

    Keys are cached with their texts, since documents are repeated; the cache is bounded.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._keys: dict[str, str] = {}
        self._characters = 0
        self.texts: dict[str, str] = {}
        """The texts since ``clear``, by key."""

    def __call__(self, text: str) -> str:
        """Return the key of a text."""
        if text == "":
            return ""
        key = self._keys.get(text)
        if key is None:
            key = text_key(self._secrets.text(text).encode())
            if len(self._keys) >= _MAX_KEYS or self._characters + len(text) > _MAX_KEYED_CHARACTERS:
                self._keys.clear()
                self._characters = 0
            self._keys[text] = key
            self._characters += len(text)
        if key not in self.texts:
            self.texts[key] = self._secrets.text(text)
        return key

    def clear(self) -> None:
        """Drop the collected texts; the cache of keys is kept."""
        self.texts = {}


class KnownTexts:
    """The keys of texts that are already stored, so that they are not sent again.

    A deletion of runs may remove texts: it increments a counter that is compared in each transaction.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._new: list[str] = []
        self._deletions = -1

    def write(self, database: Database, connection: Connection, texts: Mapping[str, str]) -> None:
        """Write the texts that are not stored yet, in a transaction that blocks deletions."""
        (deletions,) = database.fetch_first(connection, "SELECT deletions FROM eval_schema") or (-1,)
        if deletions != self._deletions or len(self._known) > _MAX_WRITTEN:
            self._known, self._deletions = set(), deletions
        # In sorted order, so that two writers of the same texts cannot deadlock.
        self._new = sorted(texts.keys() - self._known)
        database.execute_many(connection, _INSERT, [(key, texts[key].encode()) for key in self._new])

    def mark_committed(self) -> None:
        """Call after the transaction is committed."""
        self._known.update(self._new)
        self._new = []


class TextReader:
    """Reads texts by key in batches, with a bounded cache."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cache: dict[str, str] = {}
        self._characters = 0

    def read(self, connection: Connection, keys: Iterable[str]) -> Mapping[str, str]:
        """Return the texts of these keys, by key."""
        requested = dict.fromkeys(keys)
        requested.pop("", None)
        if self._characters > _MAX_CHARACTERS:
            self._cache = {key: text for key, text in self._cache.items() if key in requested}
            self._characters = sum(map(len, self._cache.values()))
        missing = [key for key in requested if key not in self._cache]
        for start in range(0, len(missing), _CHUNK_SIZE):
            chunk = missing[start : start + _CHUNK_SIZE]
            found = connection.execute(select(documents.c.hash, documents.c.text).where(documents.c.hash.in_(chunk)))
            for key, data in found:
                text = bytes(data).decode()
                self._cache[key] = text
                self._characters += len(text)
        absent = next((key for key in missing if key not in self._cache), None)
        if absent is not None:
            raise StoreError(self._database.label, f"is damaged: the text '{absent}' of a document is missing")
        self._cache[""] = ""
        return self._cache
