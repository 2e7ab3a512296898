"""Texts of documents: kept once, known by their hash."""

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
_CHUNK_SIZE = 500  # SQLite takes up to 999 values in a statement where it is old
_INSERT = "INSERT INTO eval_documents (hash, text) VALUES (?, ?) ON CONFLICT DO NOTHING"


def block_deletions(database: Database, connection: Connection) -> None:
    """Let no deletion of runs come between the statements of this transaction."""
    if database.is_postgresql:  # in SQLite there is one writer at a time anyway
        connection.exec_driver_sql("LOCK TABLE eval_documents IN ROW EXCLUSIVE MODE")


def text_key(data: bytes) -> str:
    """The key of a text: 22 letters and digits."""
    digest = hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


class TextKeys:
    """Gives texts their keys, and gathers those that are to be written. The empty text needs no key.

    Keys are remembered, since the same documents come again and again; so are their texts, and so not endlessly many.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._keys: dict[str, str] = {}
        self._characters = 0
        self.texts: dict[str, str] = {}
        """The texts met since ``clear``, by key."""

    def __call__(self, text: str) -> str:
        """The key of a text."""
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
        """Forget what was gathered; keys are kept."""
        self.texts = {}


class KnownTexts:
    """Which texts the store is known to hold, so that they are not sent again.

    A deletion of runs, by whomever, may take texts away: it counts up a number that is compared in each transaction.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._fresh: list[str] = []
        self._deletions = -1

    def write(self, database: Database, connection: Connection, texts: Mapping[str, str]) -> None:
        """Write the texts that are not there yet, in a transaction that deletions are kept out of."""
        (deletions,) = database.first(connection, "SELECT deletions FROM eval_schema") or (-1,)
        if deletions != self._deletions or len(self._known) > _MAX_WRITTEN:
            self._known, self._deletions = set(), deletions
        # In one order for all: two writers of the same texts then wait for each other in turn and not in a circle.
        self._fresh = sorted(texts.keys() - self._known)
        database.rows(connection, _INSERT, [(key, texts[key].encode()) for key in self._fresh])

    def mark_committed(self) -> None:
        """The transaction has come to its end."""
        self._known.update(self._fresh)
        self._fresh = []


class TextReader:
    """Reads texts by key, many at once, and keeps some of them for the next."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cache: dict[str, str] = {}
        self._characters = 0

    def read(self, connection: Connection, keys: Iterable[str]) -> Mapping[str, str]:
        """The texts of these keys, by key."""
        wanted = dict.fromkeys(keys)
        wanted.pop("", None)
        if self._characters > _MAX_CHARACTERS:
            self._cache = {key: text for key, text in self._cache.items() if key in wanted}
            self._characters = sum(map(len, self._cache.values()))
        missing = [key for key in wanted if key not in self._cache]
        for start in range(0, len(missing), _CHUNK_SIZE):
            part = missing[start : start + _CHUNK_SIZE]
            found = connection.execute(select(documents.c.hash, documents.c.text).where(documents.c.hash.in_(part)))
            for key, data in found:
                text = bytes(data).decode()
                self._cache[key] = text
                self._characters += len(text)
        lost = next((key for key in missing if key not in self._cache), None)
        if lost is not None:
            raise StoreError(self._database.label, f"is damaged: the text '{lost}' of a document is missing")
        self._cache[""] = ""
        return self._cache
