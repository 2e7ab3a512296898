"""The tables of the store, and the migrations that create them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import StoreError
from .connect import Database, DatabaseConnection, connect
from .records import score_key


class StoredTable(NamedTuple):
    """A table with its columns and the columns of its key."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]


runs = StoredTable(
    "eval_runs",
    columns=(
        "run_id",
        "name",
        "status",
        "created_at",
        "finished_at",
        "plan_json",
        "config_json",
        "dataset_name",
        "fingerprint",
        "num_samples",
        "repeats",
        "commit_hash",
        "tags_json",
        "version",
        "process",
        "aggregate_json",
        "message",
        "usage_json",
    ),
    key=("run_id",),
)
"""``process`` is ``host:pid:start@heartbeat``; a run whose process is gone keeps the status that it had."""

query_results = StoredTable(
    "eval_query_results",
    columns=("run_id", "position", "repeat", "sample_id", "error", "outputs"),
    key=("run_id", "repeat", "position"),
)

samples = StoredTable(
    "eval_samples",
    columns=("fingerprint", "position", "sample"),
    key=("fingerprint", "position"),
)

documents = StoredTable(
    "eval_documents",
    columns=("hash", "text"),
    key=("hash",),
)
"""The texts are UTF-8 bytes, since TEXT of PostgreSQL cannot store every character."""

scores = StoredTable(
    "eval_scores",
    columns=(
        "run_id",
        "score_key",
        "name",
        "signature",
        "target",
        "reducer",
        "position",
        "computed_at",
        "result_json",
        "rows",
        "values",
        "status",
        "reason_codes",
        "reasons",
        "statistics",
        "width",
        "keys_json",
        "repeats",
    ),
    key=("run_id", "score_key"),
)
"""``score_key`` is a hash of name and signature, which may be too long for a key."""

judgements = StoredTable(
    "eval_judgements",
    columns=(
        "run_id",
        "score_key",
        "repeat",
        "position",
        "judge_repeat",
        "request",
        "metric",
        "signature",
        "critic",
        "prompt_id",
        "reason",
        "body",
    ),
    key=("run_id", "score_key", "repeat", "position", "judge_repeat", "request"),
)
"""``score_key`` as in ``scores``, for the metric of the request."""

decisions = StoredTable(
    "eval_decisions",
    columns=("fingerprint", "decision_key", "kind", "recorded_at", "runs_json", "metrics_json", "body_json"),
    key=("fingerprint", "decision_key"),
)
"""What a dataset decided; ``decision_key`` is a hash (``decisions.decision_key``). Deletions of runs keep the rows."""


def insert_statement(table: StoredTable, *, replace: bool = False) -> str:
    """An INSERT of all columns, with ``?`` for each value; a row with the same key is kept, or replaced."""
    names = [f'"{column}"' for column in table.columns]
    keys = [f'"{column}"' for column in table.key]
    updates = ", ".join(f"{name} = excluded.{name}" for name in names if name not in keys)
    action = f"({', '.join(keys)}) DO UPDATE SET {updates}" if replace else "DO NOTHING"
    values = ", ".join("?" * len(names))
    return f'INSERT INTO "{table.name}" ({", ".join(names)}) VALUES ({values}) ON CONFLICT {action}'


def placeholders(values: Sequence[object]) -> str:
    """The places of a list of values, for ``IN``; an empty list has one that equals nothing."""
    return f"({', '.join('?' * len(values)) or 'NULL'})"


# --- migrations from an empty database to the current schema, each in its own transaction ----------------------------

Migration = Callable[[DatabaseConnection], None]


def _create_tables(connection: DatabaseConnection) -> None:
    is_server = connection.is_postgresql
    blob = "BYTEA" if is_server else "BLOB"
    # Samples are read in order: SQLite stores them clustered by their key.
    by_key = "" if is_server else " WITHOUT ROWID"
    statements = (
        """CREATE TABLE eval_runs (
            run_id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL, status TEXT NOT NULL, created_at TEXT NOT NULL,
            finished_at TEXT, plan_json TEXT NOT NULL, config_json TEXT NOT NULL, dataset_name TEXT NOT NULL,
            fingerprint TEXT NOT NULL, num_samples INTEGER NOT NULL, repeats INTEGER NOT NULL, commit_hash TEXT,
            tags_json TEXT NOT NULL, version TEXT NOT NULL, process TEXT NOT NULL, aggregate_json TEXT,
            message TEXT)""",
        "CREATE INDEX eval_runs_created ON eval_runs (created_at, run_id)",
        f"""CREATE TABLE eval_query_results (
            run_id TEXT NOT NULL, "position" INTEGER NOT NULL, repeat INTEGER NOT NULL, sample_id TEXT NOT NULL,
            error TEXT, outputs {blob} NOT NULL, PRIMARY KEY (run_id, repeat, "position"))""",
        """CREATE INDEX eval_query_results_failed ON eval_query_results (run_id, repeat, "position")
            WHERE error IS NOT NULL""",
        f"""CREATE TABLE eval_samples (
            fingerprint TEXT NOT NULL, "position" INTEGER NOT NULL, sample {blob} NOT NULL,
            PRIMARY KEY (fingerprint, "position")){by_key}""",
        f'CREATE TABLE eval_documents (hash TEXT NOT NULL PRIMARY KEY, "text" {blob} NOT NULL)',
        f"""CREATE TABLE eval_scores (
            run_id TEXT NOT NULL, name TEXT NOT NULL, signature TEXT NOT NULL, target TEXT NOT NULL,
            reducer TEXT NOT NULL, "position" INTEGER NOT NULL, computed_at TEXT NOT NULL, result_json TEXT NOT NULL,
            "rows" INTEGER NOT NULL, "values" {blob}, status {blob}, reason_codes {blob}, reasons TEXT,
            statistics {blob}, width INTEGER, keys_json TEXT, PRIMARY KEY (run_id, name, signature))""",
    )
    for statement in statements:
        connection.execute(statement)


def _key_scores_by_hash(connection: DatabaseConnection) -> None:
    """Key results by a hash of name and signature: PostgreSQL limits the length of keys."""
    connection.execute("ALTER TABLE eval_scores ADD COLUMN score_key TEXT")
    known = connection.rows("SELECT run_id, name, signature FROM eval_scores")
    change = "UPDATE eval_scores SET score_key = ? WHERE run_id = ? AND name = ? AND signature = ?"
    keys = [(score_key(name, signature), run_id, name, signature) for run_id, name, signature in known]
    connection.execute_many(change, keys)
    if connection.is_postgresql:
        connection.execute("ALTER TABLE eval_scores DROP CONSTRAINT eval_scores_pkey")
        connection.execute("ALTER TABLE eval_scores ADD PRIMARY KEY (run_id, score_key)")
        return
    # SQLite cannot change the key of a table: create a new table.
    columns = (
        'run_id, score_key, name, signature, target, reducer, "position", computed_at, result_json, "rows", "values", '
        "status, reason_codes, reasons, statistics, width, keys_json"
    )
    for statement in (
        """CREATE TABLE eval_scores_by_hash (
            run_id TEXT NOT NULL, score_key TEXT NOT NULL, name TEXT NOT NULL, signature TEXT NOT NULL,
            target TEXT NOT NULL, reducer TEXT NOT NULL, "position" INTEGER NOT NULL, computed_at TEXT NOT NULL,
            result_json TEXT NOT NULL, "rows" INTEGER NOT NULL, "values" BLOB, status BLOB, reason_codes BLOB,
            reasons TEXT, statistics BLOB, width INTEGER, keys_json TEXT, PRIMARY KEY (run_id, score_key))""",
        f"INSERT INTO eval_scores_by_hash ({columns}) SELECT {columns} FROM eval_scores",
        "DROP TABLE eval_scores",
        "ALTER TABLE eval_scores_by_hash RENAME TO eval_scores",
    ):
        connection.execute(statement)


def _add_judgements(connection: DatabaseConnection) -> None:
    """Add judgements and judge usage."""
    blob, by_key = ("BYTEA", "") if connection.is_postgresql else ("BLOB", " WITHOUT ROWID")
    for statement in (
        f"""CREATE TABLE eval_judgements (
            run_id TEXT NOT NULL, score_key TEXT NOT NULL, repeat INTEGER NOT NULL, "position" INTEGER NOT NULL,
            judge_repeat INTEGER NOT NULL, request TEXT NOT NULL, metric TEXT NOT NULL, signature TEXT NOT NULL,
            critic TEXT NOT NULL, prompt_id TEXT NOT NULL, reason TEXT, body {blob} NOT NULL,
            PRIMARY KEY (run_id, score_key, repeat, "position", judge_repeat, request)){by_key}""",
        """CREATE INDEX eval_judgements_failed ON eval_judgements (run_id) WHERE reason IS NOT NULL""",
        "ALTER TABLE eval_runs ADD COLUMN usage_json TEXT",
    ):
        connection.execute(statement)


def _add_repeats(connection: DatabaseConnection) -> None:
    """Add the scores of each repeat, for metrics that are not means over samples."""
    blob = "BYTEA" if connection.is_postgresql else "BLOB"
    connection.execute(f"ALTER TABLE eval_scores ADD COLUMN repeats {blob}")


def _add_decisions(connection: DatabaseConnection) -> None:
    """Add what a dataset decided: comparisons, sweeps, gates and sequential designs."""
    connection.execute(
        """CREATE TABLE eval_decisions (
            fingerprint TEXT NOT NULL, decision_key TEXT NOT NULL, kind TEXT NOT NULL, recorded_at TEXT NOT NULL,
            runs_json TEXT NOT NULL, metrics_json TEXT NOT NULL, body_json TEXT NOT NULL,
            PRIMARY KEY (fingerprint, decision_key))"""
    )


MIGRATIONS: tuple[Migration, ...] = (_create_tables, _key_scores_by_hash, _add_judgements, _add_repeats, _add_decisions)
"""Only append: a store records the number of applied migrations."""
READABLE_VERSION = 4
"""The oldest schema in which runs can be read without a migration, as in a read-only store."""

_ADVISORY_LOCK = 0x61756570  # key of the advisory lock that serialises migrations on PostgreSQL


def schema_version(connection: DatabaseConnection) -> int:
    """Return the number of applied migrations; 0 if there is no store yet."""
    if not connection.has_table("eval_schema"):
        return 0
    found = connection.first("SELECT version FROM eval_schema")
    if found is None:
        raise ValueError("the version of its tables is missing")
    return int(found[0])


def open_database(target: str | Path | Database, *, create: bool, timeout: float) -> Database:
    """The database with its migrations applied; one that is open is returned as it is."""
    if isinstance(target, Database):
        return target
    database = connect(target, create=create, timeout=timeout)
    try:
        migrate(database, create=create)
    except BaseException:
        database.close()
        raise
    return database


def migrate(database: Database, *, create: bool, steps: Sequence[Migration] = MIGRATIONS) -> None:
    """Apply missing migrations. Several processes may do so at once: each step is applied by one of them."""
    with database.read() as connection:
        version = schema_version(connection)
        foreign = version == 0 and not database.is_postgresql and connection.file_tables()
    if foreign:  # a PostgreSQL database may be shared; a file with other tables is probably a mistake
        raise StoreError(database.label, f"is a database of something else (it has a table {foreign[0]}); name another")
    if version == 0 and not create:
        raise StoreError(database.label, "holds no runs; check the name, or make a run first")
    if database.read_only and READABLE_VERSION <= version < len(steps):
        return
    while version < len(steps):
        with database.write() as connection:
            if connection.is_postgresql:
                connection.execute(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")
            version = schema_version(connection)
            if version < len(steps):
                _apply_migration(connection, steps, version)
                version += 1
    if version > len(steps):
        raise StoreError(
            database.label, f"has schema {version}, this version knows up to {len(steps)}: upgrade auepora_eval"
        )


def _apply_migration(connection: DatabaseConnection, steps: Sequence[Migration], version: int) -> None:
    if version == 0:
        # ``deletions`` counts deletions of runs: after one, cached keys of texts are invalid.
        connection.execute("CREATE TABLE eval_schema (version INTEGER NOT NULL, deletions BIGINT NOT NULL)")
        connection.execute("INSERT INTO eval_schema (version, deletions) VALUES (0, 0)")
    steps[version](connection)
    connection.execute("UPDATE eval_schema SET version = ?", (version + 1,))
