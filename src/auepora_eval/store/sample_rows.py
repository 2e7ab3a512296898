"""Samples in the store: stored once per dataset."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, select

from ..core.types import EvaluationSample
from ..io.fingerprint import canonical_line
from .connect import Database
from .packing import pack_sample, packed_sample_id, sample_text_keys, unpack_sample
from .schema import samples as table
from .texts import TextKeys, TextReader

__all__ = ["PackedSamples", "pack_samples", "read_sample_ids", "read_samples", "sample_chunks", "write_samples"]

_CHUNK = 1000
_INSERT_SAMPLE = 'INSERT INTO eval_samples (fingerprint, "position", sample) VALUES (?, ?, ?) ON CONFLICT DO NOTHING'


@dataclass(frozen=True, slots=True)
class PackedSamples:
    """The packed samples of a dataset, and its fingerprint."""

    fingerprint: str
    rows: list[bytes]


def pack_samples(samples: Iterable[EvaluationSample], keys: TextKeys) -> PackedSamples:
    """Pack samples and compute the fingerprint."""
    digest, rows = hashlib.sha256(), []
    for sample in samples:
        line, row = canonical_line(sample)
        digest.update(line)
        digest.update(b"\n")
        rows.append(pack_sample(row, line, keys))
    return PackedSamples(digest.hexdigest(), rows)


def write_samples(database: Database, connection: Connection, packed: PackedSamples) -> None:
    """Write the samples of a dataset, unless they are already stored."""
    known = select(table.c.position).where(table.c.fingerprint == packed.fingerprint).limit(1)
    if connection.execute(known).first() is None:
        rows = [(packed.fingerprint, position, data) for position, data in enumerate(packed.rows)]
        database.execute_many(connection, _INSERT_SAMPLE, rows)


def sample_chunks(connection: Connection, fingerprint: str) -> Iterator[list[bytes]]:
    """Yield the packed samples of a dataset in their order, in chunks."""
    after = -1
    while True:
        query = (
            select(table.c.position, table.c.sample)
            .where(table.c.fingerprint == fingerprint, table.c.position > after)
            .order_by(table.c.position)
            .limit(_CHUNK)
        )
        rows = connection.execute(query).all()
        yield [bytes(data) for _, data in rows]
        if len(rows) < _CHUNK:
            return
        after = rows[-1][0]


def read_samples(
    database: Database, connection: Connection, fingerprint: str, *, texts: bool = True
) -> list[EvaluationSample]:
    """Read the samples of a dataset; without ``texts`` document texts are empty and not read."""
    reader, found = TextReader(database), []
    for chunk in sample_chunks(connection, fingerprint):
        keys = (key for data in chunk if b'"text"' in data for key in sample_text_keys(data))
        known_texts = reader.read(connection, keys) if texts else None
        found += [unpack_sample(data, known_texts) for data in chunk]
    return found


def read_sample_ids(connection: Connection, fingerprint: str) -> list[str]:
    """Read the ids of the samples of a dataset."""
    return [packed_sample_id(data) for chunk in sample_chunks(connection, fingerprint) for data in chunk]
