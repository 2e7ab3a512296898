"""The tables of the store, and the migrations that create them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    inspect,
    select,
    text,
    update,
)

from ..errors import StoreError
from .connect import Database
from .records import score_key

metadata = MetaData()

versions = Table(
    "eval_schema",
    metadata,
    Column("version", Integer, nullable=False),
    Column("deletions", BigInteger, nullable=False),
)
"""One row. ``deletions`` counts deletions of runs: after one, cached keys of texts are invalid."""

runs = Table(
    "eval_runs",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("finished_at", Text),
    Column("plan_json", Text, nullable=False),
    Column("config_json", Text, nullable=False),
    Column("dataset_name", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("num_samples", Integer, nullable=False),
    Column("repeats", Integer, nullable=False),
    Column("commit_hash", Text),
    Column("tags_json", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("process", Text, nullable=False),
    Column("aggregate_json", Text),
    Column("message", Text),
    Column("usage_json", Text),
)
"""``process`` is ``host:pid:start@heartbeat``; a run whose process is gone keeps the status that it had."""

query_results = Table(
    "eval_query_results",
    metadata,
    Column("run_id", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("repeat", Integer, nullable=False),
    Column("sample_id", Text, nullable=False),
    Column("error", Text),
    Column("outputs", LargeBinary, nullable=False),
    PrimaryKeyConstraint("run_id", "repeat", "position"),
)

samples = Table(
    "eval_samples",
    metadata,
    Column("fingerprint", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("sample", LargeBinary, nullable=False),
    PrimaryKeyConstraint("fingerprint", "position"),
)

documents = Table(
    "eval_documents",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("text", LargeBinary, nullable=False),
)
"""The texts are UTF-8 bytes, since TEXT of PostgreSQL cannot store every character."""

scores = Table(
    "eval_scores",
    metadata,
    Column("run_id", Text, nullable=False),
    Column("score_key", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("signature", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("reducer", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("computed_at", Text, nullable=False),
    Column("result_json", Text, nullable=False),
    Column("rows", Integer, nullable=False),
    Column("values", LargeBinary),
    Column("status", LargeBinary),
    Column("reason_codes", LargeBinary),
    Column("reasons", Text),
    Column("statistics", LargeBinary),
    Column("width", Integer),
    Column("keys_json", Text),
    Column("repeats", LargeBinary),
    PrimaryKeyConstraint("run_id", "score_key"),
)
"""``score_key`` is a hash of name and signature, which may be too long for a key."""

judgements = Table(
    "eval_judgements",
    metadata,
    Column("run_id", Text, nullable=False),
    Column("score_key", Text, nullable=False),
    Column("repeat", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("judge_repeat", Integer, nullable=False),
    Column("request", Text, nullable=False),
    Column("metric", Text, nullable=False),
    Column("signature", Text, nullable=False),
    Column("critic", Text, nullable=False),
    Column("prompt_id", Text, nullable=False),
    Column("reason", Text),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("run_id", "score_key", "repeat", "position", "judge_repeat", "request"),
)
"""``score_key`` as in ``scores``, for the metric of the request."""

decisions = Table(
    "eval_decisions",
    metadata,
    Column("fingerprint", Text, nullable=False),
    Column("decision_key", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("recorded_at", Text, nullable=False),
    Column("runs_json", Text, nullable=False),
    Column("metrics_json", Text, nullable=False),
    Column("body_json", Text, nullable=False),
    PrimaryKeyConstraint("fingerprint", "decision_key"),
)
"""What a dataset decided; ``decision_key`` is a hash (``decisions.decision_key``). Deletions of runs keep the rows."""


def insert_statement(table: Table, *, replace: bool = False) -> str:
    """An INSERT of all columns, with ``?`` for each value; a row with the same key is kept, or replaced."""
    names = [f'"{column.name}"' for column in table.columns]
    keys = [f'"{column.name}"' for column in table.primary_key]
    updates = ", ".join(f"{name} = excluded.{name}" for name in names if name not in keys)
    action = f"({', '.join(keys)}) DO UPDATE SET {updates}" if replace else "DO NOTHING"
    values = ", ".join("?" * len(names))
    # All names come from the table.
    return f'INSERT INTO "{table.name}" ({", ".join(names)}) VALUES ({values}) ON CONFLICT {action}'  # noqa: S608


# --- migrations from an empty database to the current schema, each in its own transaction ----------------------------

Migration = Callable[[Connection], None]


def _create_tables(connection: Connection) -> None:
    is_server = connection.dialect.name == "postgresql"
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
        connection.exec_driver_sql(statement)


def _key_scores_by_hash(connection: Connection) -> None:
    """Key results by a hash of name and signature: PostgreSQL limits the length of keys."""
    connection.exec_driver_sql("ALTER TABLE eval_scores ADD COLUMN score_key TEXT")
    known = connection.exec_driver_sql("SELECT run_id, name, signature FROM eval_scores").all()
    change = text(
        "UPDATE eval_scores SET score_key = :score_key "
        "WHERE run_id = :run_id AND name = :name AND signature = :signature"
    )
    for run_id, name, signature in known:
        key = score_key(name, signature)
        connection.execute(change, {"score_key": key, "run_id": run_id, "name": name, "signature": signature})
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("ALTER TABLE eval_scores DROP CONSTRAINT eval_scores_pkey")
        connection.exec_driver_sql("ALTER TABLE eval_scores ADD PRIMARY KEY (run_id, score_key)")
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
        f"INSERT INTO eval_scores_by_hash ({columns}) SELECT {columns} FROM eval_scores",  # noqa: S608 -- our own names
        "DROP TABLE eval_scores",
        "ALTER TABLE eval_scores_by_hash RENAME TO eval_scores",
    ):
        connection.exec_driver_sql(statement)


def _add_judgements(connection: Connection) -> None:
    """Add judgements and judge usage."""
    is_server = connection.dialect.name == "postgresql"
    blob, by_key = ("BYTEA", "") if is_server else ("BLOB", " WITHOUT ROWID")
    for statement in (
        f"""CREATE TABLE eval_judgements (
            run_id TEXT NOT NULL, score_key TEXT NOT NULL, repeat INTEGER NOT NULL, "position" INTEGER NOT NULL,
            judge_repeat INTEGER NOT NULL, request TEXT NOT NULL, metric TEXT NOT NULL, signature TEXT NOT NULL,
            critic TEXT NOT NULL, prompt_id TEXT NOT NULL, reason TEXT, body {blob} NOT NULL,
            PRIMARY KEY (run_id, score_key, repeat, "position", judge_repeat, request)){by_key}""",
        """CREATE INDEX eval_judgements_failed ON eval_judgements (run_id) WHERE reason IS NOT NULL""",
        "ALTER TABLE eval_runs ADD COLUMN usage_json TEXT",
    ):
        connection.exec_driver_sql(statement)


def _add_repeats(connection: Connection) -> None:
    """Add the scores of each repeat, for metrics that are not means over samples."""
    blob = "BYTEA" if connection.dialect.name == "postgresql" else "BLOB"
    connection.exec_driver_sql(f"ALTER TABLE eval_scores ADD COLUMN repeats {blob}")


def _add_decisions(connection: Connection) -> None:
    """Add what a dataset decided: comparisons, sweeps, gates and sequential designs."""
    connection.exec_driver_sql(
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


def schema_version(connection: Connection) -> int:
    """Return the number of applied migrations; 0 if there is no store yet."""
    if not inspect(connection).has_table(versions.name):
        return 0
    return int(connection.execute(select(versions.c.version)).scalar_one())


def migrate(database: Database, *, create: bool, steps: Sequence[Migration] = MIGRATIONS) -> None:
    """Apply missing migrations. Several processes may do so at once: each step is applied by one of them."""
    with database.read() as connection:
        version = schema_version(connection)
        foreign = version == 0 and not database.is_postgresql and inspect(connection).get_table_names()
    if foreign:  # a PostgreSQL database may be shared; a file with other tables is probably a mistake
        raise StoreError(database.label, f"is a database of something else (it has a table {foreign[0]}); name another")
    if version == 0 and not create:
        raise StoreError(database.label, "holds no runs; check the name, or make a run first")
    if database.read_only and READABLE_VERSION <= version < len(steps):
        return
    while version < len(steps):
        with database.write() as connection:
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")
            version = schema_version(connection)
            if version < len(steps):
                _apply_migration(connection, steps, version)
                version += 1
    if version > len(steps):
        raise StoreError(
            database.label, f"has schema {version}, this version knows up to {len(steps)}: upgrade auepora_eval"
        )


def _apply_migration(connection: Connection, steps: Sequence[Migration], version: int) -> None:
    if version == 0:
        connection.exec_driver_sql("CREATE TABLE eval_schema (version INTEGER NOT NULL, deletions BIGINT NOT NULL)")
        connection.execute(versions.insert().values(version=0, deletions=0))
    steps[version](connection)
    connection.execute(update(versions).values(version=version + 1))
