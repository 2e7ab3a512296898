"""Judgements in the store: the reply of a judge for each sample and metric, or the reason of its failure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, func, select, tuple_

from ..core.secrets import Secrets
from .connect import Database
from .ids import score_key
from .records import clean_column_text
from .schema import judgements as table

__all__ = ["StoredJudgement", "count_judgements", "delete_judgements", "read_judgements", "write_judgements"]

_CHUNK = 1000
_COLUMNS = tuple(column.name for column in table.columns)
_KEY = ("run_id", "score_key", "repeat", "position", "judge_repeat", "request")


@dataclass(frozen=True, slots=True)
class StoredJudgement:
    """One request to a judge about one sample, with its judgement or failure."""

    metric: str
    """The metric of the request."""
    signature: str
    position: int
    """The position of the sample in the dataset."""
    request: str
    """A digest of the request: a metric may send several requests per sample."""
    repeat: int = 0
    """The repeat of the run."""
    judge_repeat: int = 0
    """The repeat of the judgement."""
    critic: str = ""
    prompt_id: str = ""
    reason: str | None = None
    """The reason of a failure; ``None`` if there is a judgement."""
    body: Mapping[str, Any] = field(default_factory=dict)
    """``answer``, ``raw``, ``message``, ``usage`` and further details."""


def _upsert_judgement() -> str:
    quoted = ", ".join(f'"{name}"' for name in _COLUMNS)
    marks = ", ".join("?" * len(_COLUMNS))
    updates = ", ".join(f'"{name}" = excluded."{name}"' for name in _COLUMNS if name not in _KEY)
    keys = ", ".join(f'"{name}"' for name in _KEY)
    # All names come from the table.
    return f"INSERT INTO eval_judgements ({quoted}) VALUES ({marks}) ON CONFLICT ({keys}) DO UPDATE SET {updates}"  # noqa: S608


_UPSERT_JUDGEMENT = _upsert_judgement()


def write_judgements(
    database: Database, connection: Connection, run_id: str, rows: Sequence[StoredJudgement], secrets: Secrets
) -> None:
    """Write judgements; one of the same request is replaced."""
    database.execute_many(connection, _UPSERT_JUDGEMENT, [_row(run_id, one, secrets) for one in rows])


def _row(run_id: str, one: StoredJudgement, secrets: Secrets) -> tuple[Any, ...]:
    metric, signature, critic, prompt_id = (
        clean_column_text(secrets.text(text)) for text in (one.metric, one.signature, one.critic, one.prompt_id)
    )
    try:
        body = msgspec.json.encode(dict(one.body), enc_hook=str)
    except UnicodeEncodeError:  # a lone surrogate in the reply of a judge
        body = json.dumps(dict(one.body), default=str, ensure_ascii=False).encode(errors="replace")
    if secrets.in_bytes(body):
        body = msgspec.json.encode(secrets.value(msgspec.json.decode(body)))
    values = {
        "run_id": run_id,
        "score_key": score_key(metric, signature),
        "repeat": one.repeat,
        "position": one.position,
        "judge_repeat": one.judge_repeat,
        "request": one.request,
        "metric": metric,
        "signature": signature,
        "critic": critic,
        "prompt_id": prompt_id,
        "reason": one.reason,
        "body": body,
    }
    return tuple(values[name] for name in _COLUMNS)


def read_judgements(
    database: Database, run_id: str, *, position: int | None = None, failed: bool = False
) -> Iterator[StoredJudgement]:
    """Yield the judgements of a run, or of one sample, or the failed ones; read in chunks."""
    key = tuple_(*(table.c[name] for name in _KEY[1:]))
    query = select(table).where(table.c.run_id == run_id).order_by(*(table.c[name] for name in _KEY[1:])).limit(_CHUNK)
    if position is not None:
        query = query.where(table.c.position == position)
    if failed:
        query = query.where(table.c.reason.is_not(None))
    after: tuple[Any, ...] | None = ("", -1, -1, -1, "")
    while after is not None:
        with database.read() as connection:
            rows = connection.execute(query.where(key > after)).mappings().all()
            found = [
                StoredJudgement(
                    row["metric"],
                    row["signature"],
                    row["position"],
                    row["request"],
                    row["repeat"],
                    row["judge_repeat"],
                    row["critic"],
                    row["prompt_id"],
                    row["reason"],
                    msgspec.json.decode(bytes(row["body"])),
                )
                for row in rows
            ]
        yield from found
        after = tuple(rows[-1][name] for name in _KEY[1:]) if len(rows) == _CHUNK else None


def count_judgements(connection: Connection, run_id: str) -> tuple[int, int]:
    """Return the number of judgements, and how many of them failed."""
    query = select(func.count(), func.count(table.c.reason)).where(table.c.run_id == run_id)
    total, failed = connection.execute(query).one()
    return int(total), int(failed)


def delete_judgements(connection: Connection, run_id: str, metrics: Collection[tuple[str, str]]) -> None:
    """Delete the judgements of these metrics, given by name and signature."""
    keys = [score_key(clean_column_text(name), clean_column_text(signature)) for name, signature in metrics]
    connection.execute(delete(table).where(table.c.run_id == run_id, table.c.score_key.in_(keys)))
