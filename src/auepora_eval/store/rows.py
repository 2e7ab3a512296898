"""Rows of the store: runs, samples, outputs, results, judgements, and their deletion."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from itertools import chain, islice
from typing import Any

import msgspec

from ..core.grouping import group_pairs
from ..core.results import Results, to_json_value
from ..core.types import EvaluationSample, MetricResult, SystemOutputs, TargetCategory, UnknownRanking
from ..errors import BadValueError, StoreError, UnknownMetricError, UnknownRunError, did_you_mean
from ..runtime.processes import gc_paused
from ..runtime.secrets import Secrets
from .connect import Database, DatabaseConnection, Record
from .records import (
    RUN_PREFIX,
    RunRecord,
    RunStatus,
    StoredOutput,
    clean_column_text,
    from_iso,
    from_json,
    record_from_row,
    score_key,
    to_iso,
    to_json,
    utc_now,
)
from .schema import insert_statement, judgements, placeholders, query_results, samples, scores
from .texts import (
    KnownTexts,
    TextKeys,
    TextReader,
    block_deletions,
    decode_packed,
    normalize_output,
    pack_output,
    pack_sample,
    packed_sample_id,
    sample_text_keys,
    unpack_output,
    unpack_sample,
)

REPLAY_TAG = "replay"
"""The tag of runs that replay the documents of another run."""
PERTURBED_TAG = "perturbed"
"""The tag of runs with perturbed documents."""
_LATEST = re.compile(r"latest(?:~(\d+))?")
_MAX_LISTED = 8
NEWEST_FIRST = "ORDER BY created_at DESC, run_id DESC"


def list_runs(
    connection: DatabaseConnection,
    *,
    name: str | None = None,
    tag: str | None = None,
    status: RunStatus | str | None = None,
    dataset: str | None = None,
    limit: int | None = None,
) -> list[RunRecord]:
    """Return the matching runs, newest first."""
    wanted = None if status is None else _status(status)
    conditions: dict[str, str] = {}
    if name is not None:
        conditions["name = ?"] = clean_column_text(name)
    if wanted is not None:  # interrupted runs are stored as running
        stored = RunStatus.RUNNING if wanted is RunStatus.INTERRUPTED else wanted
        conditions["status = ?"] = stored.value
    if dataset is not None:
        conditions["dataset_name = ?"] = clean_column_text(dataset)
    query = f"SELECT * FROM eval_runs WHERE {' AND '.join(conditions) or 'TRUE'} {NEWEST_FIRST}"
    if limit is not None and tag is None and wanted not in (RunStatus.RUNNING, RunStatus.INTERRUPTED):
        query += f" LIMIT {limit:d}"
    found = map(record_from_row, connection.records(query, list(conditions.values())))
    matching = (record for record in found if (tag is None or tag in record.tags) and wanted in (None, record.status))
    return list(islice(matching, limit))


def _status(status: RunStatus | str) -> RunStatus:
    try:
        return RunStatus(status)
    except ValueError:
        known = ", ".join(known_status.value for known_status in RunStatus)
        raise BadValueError(f"unknown status {status!r}; choose one of: {known}") from None


def get_run(connection: DatabaseConnection, run_id: str, *, to_change: bool = False) -> RunRecord:
    """Return the run with that id; with ``to_change`` its row is locked."""
    lock = " FOR UPDATE" if to_change and connection.is_postgresql else ""  # SQLite has only one writer at a time
    found = connection.records(f"SELECT * FROM eval_runs WHERE run_id = ?{lock}", (clean_column_text(run_id),))
    if not found:
        raise unknown_run_error(run_id)
    return record_from_row(found[0])


def named_run(connection: DatabaseConnection, run: str) -> RunRecord:
    """Return the run with that id, which is fast, else the one that ``find_run`` finds."""
    try:
        return get_run(connection, run)
    except UnknownRunError:
        return find_run(connection, run)


def require_run(connection: DatabaseConnection, run_id: str) -> None:
    """Raise if there is no run with that id: it may have been deleted."""
    if not _has_run(connection, run_id):
        raise unknown_run_error(run_id)


def named_run_id(connection: DatabaseConnection, run: str) -> str:
    """Return the id of ``named_run``."""
    return run if _has_run(connection, run) else find_run(connection, run).run_id


def _has_run(connection: DatabaseConnection, run_id: str) -> bool:
    return connection.first("SELECT 1 FROM eval_runs WHERE run_id = ?", (clean_column_text(run_id),)) is not None


def update_run(connection: DatabaseConnection, run_id: str, values: Mapping[str, Any]) -> None:
    """Update columns of a run."""
    if not _change_run(connection, "run_id = ?", (clean_column_text(run_id),), values):
        raise unknown_run_error(run_id)


def claim_run(connection: DatabaseConnection, run_id: str, owner: str, values: Mapping[str, Any]) -> bool:
    """Update columns of a run if it still belongs to a process; return whether it did."""
    return _change_run(connection, "run_id = ? AND process = ?", (clean_column_text(run_id), owner), values)


def _change_run(
    connection: DatabaseConnection, condition: str, known: Sequence[str], values: Mapping[str, Any]
) -> bool:
    changes = ", ".join(f"{name} = ?" for name in values)
    return connection.execute(f"UPDATE eval_runs SET {changes} WHERE {condition}", [*values.values(), *known]) > 0


def unknown_run_error(text: str, hint: str = "; `auepora runs` lists them all") -> UnknownRunError:
    """Return the error for an unknown run."""
    return UnknownRunError(f"no run is called '{text}'{hint}")


def find_run(connection: DatabaseConnection, text: str) -> RunRecord:
    """Find a run by id, prefix of an id, name (the latest), ``latest`` or ``latest~1``.

    Replays and perturbed runs do not evaluate the system itself: ``latest`` skips them, and so does a name that another
    run has.
    """
    rows = [
        (run_id, name, not {REPLAY_TAG, PERTURBED_TAG}.isdisjoint(from_json(tags)))
        for run_id, name, tags in connection.rows(f"SELECT run_id, name, tags_json FROM eval_runs {NEWEST_FIRST}")
    ]
    if not rows:
        raise UnknownRunError(f"no run is called '{text}': the store holds no runs yet")
    named = [(trial, place, run_id) for place, (run_id, name, trial) in enumerate(rows) if name == text]
    if any(text == run_id for run_id, _, _ in rows):
        chosen = text
    elif offset := _LATEST.fullmatch(text):
        chosen = _nth_latest(text, int(offset[1] or 0), [run_id for run_id, _, trial in rows if not trial], len(rows))
    elif named:
        chosen = min(named)[2]  # the newest, regular runs first
    else:
        chosen = _find_by_prefix(text, [(run_id, name) for run_id, name, _ in rows])
    return get_run(connection, chosen)


def _nth_latest(text: str, steps: int, ids: list[str], total: int) -> str:
    """Return the run ``steps`` before the latest one, without replays and perturbed runs."""
    if steps < len(ids):
        return ids[steps]
    note = f", {total - len(ids)} of them replays or perturbed, which do not count" if total > len(ids) else ""
    raise UnknownRunError(f"'{text}' goes back too far: the store holds {total} runs{note}")


def _find_by_prefix(text: str, known: list[tuple[str, str]]) -> str:
    start = text.lower()
    starts = (start, RUN_PREFIX + start)
    found = [(run_id, name) for run_id, name in known if start and run_id.lower().startswith(starts)]
    if len(found) == 1:
        return found[0][0]
    if found:
        listed = ", ".join(f"{run_id} ({name})" for run_id, name in found[:_MAX_LISTED])
        more = f" and {len(found) - _MAX_LISTED} more" if len(found) > _MAX_LISTED else ""
        raise UnknownRunError(f"'{text}' may be any of {len(found)} runs: {listed}{more}; write more of the id")
    names = {name for _, name in known} | {run_id for run_id, _ in known}
    raise unknown_run_error(text, did_you_mean(text, names, otherwise="; `auepora runs` lists them all"))


# --- samples: stored once per dataset --------------------------------------------------------------------------------

CHUNK = 1000
"""Number of rows that are read or written at once."""
_INSERT_SAMPLE = insert_statement(samples)


def write_samples(
    connection: DatabaseConnection,
    fingerprint: str,
    rows: Iterable[EvaluationSample],
    keys: TextKeys,
    known_texts: KnownTexts,
) -> None:
    """Write the samples of a dataset with their document texts, unless they are already stored."""
    from ..io.golden import canonical_line  # imports NumPy, which listings of runs do not need

    if connection.first("SELECT 1 FROM eval_samples WHERE fingerprint = ? LIMIT 1", (fingerprint,)) is not None:
        return
    source = enumerate(rows)
    while chunk := list(islice(source, CHUNK)):
        keys.clear()
        packed = []
        for position, sample in chunk:
            line, row = canonical_line(sample)
            packed.append((fingerprint, position, pack_sample(row, line, keys)))
        known_texts.write(connection, keys.texts)
        connection.execute_many(_INSERT_SAMPLE, packed)


def sample_chunks(connection: DatabaseConnection, fingerprint: str) -> Iterator[list[bytes]]:
    """Yield the packed samples of a dataset in their order, in chunks."""
    after: int | None = -1
    while after is not None:
        rows, after = read_sample_chunk(connection, fingerprint, after)
        yield rows


def read_sample_chunk(connection: DatabaseConnection, fingerprint: str, after: int) -> tuple[list[bytes], int | None]:
    """Return the next packed samples after a position; and the next cursor."""
    query = (
        'SELECT "position", sample FROM eval_samples WHERE fingerprint = ? AND "position" > ? '
        f'ORDER BY "position" LIMIT {CHUNK}'
    )
    rows = connection.rows(query, (fingerprint, after))
    return [bytes(data) for _, data in rows], rows[-1][0] if len(rows) == CHUNK else None


def stream_samples(
    database: Database, fingerprint: str, *, texts: bool = True, positions: Container[int] | None = None
) -> Iterator[EvaluationSample]:
    """Yield the samples of a dataset, or those at ``positions``. No transaction is open between chunks."""
    reader = TextReader(database) if texts else None
    after: int | None = -1
    while after is not None:
        first = after + 1
        with database.read() as connection:
            chunk, after = read_sample_chunk(connection, fingerprint, after)
            if positions is not None:
                chunk = [data for position, data in enumerate(chunk, first) if position in positions]
            with gc_paused():
                found = _unpack_samples(connection, chunk, reader)
        yield from found


def _unpack_samples(
    connection: DatabaseConnection, chunk: list[bytes], reader: TextReader | None
) -> list[EvaluationSample]:
    keys = chain.from_iterable(sample_text_keys(data) for data in chunk if b'"text"' in data)
    known_texts = None if reader is None else reader.read(connection, keys)
    return [unpack_sample(data, known_texts) for data in chunk]


def read_sample(
    database: Database, connection: DatabaseConnection, fingerprint: str, position: int, *, texts: bool = True
) -> EvaluationSample:
    """Read the sample at a position; ``UnknownRunError`` where its runs have been deleted."""
    query = 'SELECT sample FROM eval_samples WHERE fingerprint = ? AND "position" = ?'
    found = connection.first(query, (fingerprint, position))
    if found is None:
        raise UnknownRunError(f"the samples of dataset {fingerprint[:12]} have been deleted with their runs")
    return _unpack_samples(connection, [bytes(found[0])], TextReader(database) if texts else None)[0]


def read_sample_ids(connection: DatabaseConnection, fingerprint: str) -> list[str]:
    """Read the ids of the samples of a dataset."""
    return [packed_sample_id(data) for data in chain.from_iterable(sample_chunks(connection, fingerprint))]


# --- outputs: written as they arrive, read in the order of the dataset -----------------------------------------------

_MAX_ERROR_LENGTH = 500
_ID_FIELDS = ("sample_id", "doc_id", "parent_id", "citations")
"""Fields with ids, which are never redacted: scores depend on them."""
_INSERT_OUTPUT = insert_statement(query_results)
_UPSERT_OUTPUT = insert_statement(query_results, replace=True)
Row = tuple[str, int, int, str, str | None, bytes]
RepeatPosition = tuple[int, int]


def encode_output_rows(run_id: str, outputs: Iterable[StoredOutput], secrets: Secrets, keys: TextKeys) -> list[Row]:
    """Encode outputs as rows."""
    rows: list[Row] = []
    for stored in outputs:
        sample_id, output = stored.sample_id, stored.output
        if output.error is not None and (message := secrets.message(output.error)) != output.error:
            output = replace(output, error=message)
        data = pack_output(sample_id, output, keys)
        if secrets.in_bytes(data):
            data = pack_output(sample_id, _redact(secrets, output), keys)
        error = None if output.error is None else clean_column_text(output.error[:_MAX_ERROR_LENGTH])
        rows.append((run_id, stored.position, stored.repeat, clean_column_text(sample_id), error, data))
    return rows


def _redact(secrets: Secrets, output: SystemOutputs) -> SystemOutputs:
    redacted = secrets.value(normalize_output(output), but=_ID_FIELDS)
    if isinstance(output.retrieved, UnknownRanking):
        redacted.retrieved = UnknownRanking()
    return redacted


def write_outputs(connection: DatabaseConnection, rows: list[Row], *, replace: bool) -> None:
    """Write rows; an existing one is kept, or replaced."""
    connection.execute_many(_UPSERT_OUTPUT if replace else _INSERT_OUTPUT, rows)


def read_output_chunk(
    connection: DatabaseConnection,
    run_id: str,
    after: RepeatPosition,
    *,
    repeat: int | None = None,
    position: int | None = None,
) -> tuple[list[tuple[int, int, str, bytes]], RepeatPosition | None]:
    """Return the next rows after a (repeat, position): repeat, position, id, bytes; and the next cursor."""
    if repeat is None:
        condition, values = '(repeat, "position") > (?, ?)', [run_id, *after]
    else:  # not the tuple as well: SQLite would sort all further rows for each chunk
        condition, values = 'repeat = ? AND "position" > ?', [run_id, repeat, after[1]]
    if position is not None:
        condition += ' AND "position" = ?'
        values.append(position)
    query = (
        f'SELECT repeat, "position", sample_id, outputs FROM eval_query_results WHERE run_id = ? AND {condition} '
        f'ORDER BY repeat, "position" LIMIT {CHUNK}'
    )
    rows = [(number, index, name, bytes(data)) for number, index, name, data in connection.rows(query, values)]
    return rows, (rows[-1][0], rows[-1][1]) if len(rows) == CHUNK else None


def read_outputs(
    database: Database,
    run_id: str,
    *,
    repeat: int | None,
    texts: bool,
    position: int | None = None,
    positions: Container[int] | None = None,
) -> Iterator[StoredOutput]:
    """Yield the outputs of a run by repeat and position. No transaction is open between chunks."""
    reader = TextReader(database)
    after: RepeatPosition | None = (-1, -1)
    while after is not None:
        with database.read() as connection:
            rows, after = read_output_chunk(connection, run_id, after, repeat=repeat, position=position)
            if positions is not None:
                rows = [row for row in rows if row[1] in positions]
            with gc_paused():
                packed = [decode_packed(data) for _, _, _, data in rows]
            found: Any = None
            if texts:
                found = reader.read(connection, chain.from_iterable(output.texts or () for output in packed))
        with gc_paused():
            chunk = []
            for (number, index, name, _), output in zip(rows, packed, strict=True):
                unpacked = unpack_output(output, found)
                chunk.append(StoredOutput(index, number, output.sample_id or name, unpacked, output.texts))
        yield from chunk


def require_position(store: str, record: RunRecord, position: int, sample_id: str) -> None:
    """Raise where an output is at a position that its run does not have; ``store`` names the store."""
    if position not in range(record.num_samples):
        where = f"at position {position}, and {record.run_id} has {record.num_samples} samples"
        raise StoreError(store, f"is damaged: the output of sample '{sample_id}' is {where}")


def stored_positions(connection: DatabaseConnection, run_id: str, *, failed: bool = False) -> set[RepeatPosition]:
    """Return the (position, repeat) of all outputs, or of the failed ones."""
    query = 'SELECT "position", repeat FROM eval_query_results WHERE run_id = ?'
    if failed:
        query += " AND error IS NOT NULL"
    return {(position, repeat) for position, repeat in connection.rows(query, (run_id,))}


def count_outputs(connection: DatabaseConnection, run_ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return the number of outputs of each run, and how many of them failed."""
    done, failed = dict.fromkeys(run_ids, 0), dict.fromkeys(run_ids, 0)
    for chunk in _chunks(run_ids):
        query = f"SELECT run_id, count(*) FROM eval_query_results WHERE run_id IN {placeholders(chunk)}"
        # Two queries, because each of them reads an index only.
        done.update((run_id, count) for run_id, count in connection.rows(f"{query} GROUP BY run_id", chunk))
        query += " AND error IS NOT NULL"
        failed.update((run_id, count) for run_id, count in connection.rows(f"{query} GROUP BY run_id", chunk))
    return {run_id: (done[run_id], failed[run_id]) for run_id in run_ids}


# --- judgements: the reply of a judge for each sample and metric, or the reason of its failure -----------------------

_UPSERT_JUDGEMENT = insert_statement(judgements, replace=True)
_JUDGEMENT_KEY = judgements.key[1:]  # without the run
_IN_ORDER = 'ORDER BY score_key, repeat, "position", judge_repeat, request'


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


_JUDGEMENT_FIELDS = [field.name for field in fields(StoredJudgement) if field.name != "body"]


def write_judgements(
    connection: DatabaseConnection, run_id: str, rows: Sequence[StoredJudgement], secrets: Secrets
) -> None:
    """Write judgements; one of the same request is replaced."""
    connection.execute_many(_UPSERT_JUDGEMENT, [_row(run_id, row, secrets) for row in rows])


def _row(run_id: str, judgement: StoredJudgement, secrets: Secrets) -> tuple[Any, ...]:
    metric, signature, critic, prompt_id = (
        clean_column_text(secrets.text(text))
        for text in (judgement.metric, judgement.signature, judgement.critic, judgement.prompt_id)
    )
    try:
        body = msgspec.json.encode(dict(judgement.body), enc_hook=str)
    except UnicodeEncodeError:  # a lone surrogate in the reply of a judge
        body = json.dumps(dict(judgement.body), default=str, ensure_ascii=False).encode(errors="replace")
    if secrets.in_bytes(body):
        body = msgspec.json.encode(secrets.value(msgspec.json.decode(body)))
    key = (
        run_id,
        score_key(metric, signature),
        judgement.repeat,
        judgement.position,
        judgement.judge_repeat,
        judgement.request,
    )
    return *key, metric, signature, critic, prompt_id, judgement.reason, body


def read_judgements(
    database: Database, run_id: str, *, position: int | None = None, failed: bool = False
) -> Iterator[StoredJudgement]:
    """Yield the judgements of a run, or of one sample, or the failed ones; read in chunks."""
    query = "SELECT * FROM eval_judgements WHERE run_id = ?"
    if failed:
        query += " AND reason IS NOT NULL"
    if position is not None:
        yield from _read_sample_judgements(database, query, run_id, position)
        return
    query += f' AND (score_key, repeat, "position", judge_repeat, request) > (?, ?, ?, ?, ?) {_IN_ORDER} LIMIT {CHUNK}'
    after: tuple[Any, ...] | None = ("", -1, -1, -1, "")
    while after is not None:
        with database.read() as connection:
            rows = connection.records(query, (run_id, *after))
        yield from map(_judgement_from_row, rows)
        after = tuple(rows[-1][column] for column in _JUDGEMENT_KEY) if len(rows) == CHUNK else None


def _read_sample_judgements(database: Database, query: str, run_id: str, position: int) -> Iterator[StoredJudgement]:
    """Yield the judgements of one sample: one lookup per metric and repeat, since the key has them before it."""
    same = f'{query} AND score_key = ? AND repeat = ? AND "position" = ? {_IN_ORDER}'
    next_group = (
        "SELECT score_key, repeat FROM eval_judgements WHERE run_id = ? AND (score_key, repeat) > (?, ?) "
        "ORDER BY score_key, repeat LIMIT 1"
    )
    rows: list[Record] = []
    with database.read() as connection:
        group = connection.first(next_group, (run_id, "", -1))
        while group is not None:
            rows += connection.records(same, (run_id, *group, position))
            group = connection.first(next_group, (run_id, *group))
    yield from map(_judgement_from_row, rows)


def _judgement_from_row(row: Record) -> StoredJudgement:
    return StoredJudgement(
        **{name: row[name] for name in _JUDGEMENT_FIELDS}, body=msgspec.json.decode(bytes(row["body"]))
    )


def count_judgements(connection: DatabaseConnection, run_id: str) -> tuple[int, int]:
    """Return the number of judgements, and how many of them failed."""
    query = "SELECT count(*), count(reason) FROM eval_judgements WHERE run_id = ?"
    [(total, failed)] = connection.rows(query, (run_id,))
    return int(total), int(failed)


# --- deletion of runs, with the samples and texts that no other run references ---------------------------------------

_CHUNK_SIZE = 500


def delete_runs(connection: DatabaseConnection, run_ids: Sequence[str]) -> None:
    """Delete these runs and the samples and texts that only they reference; other writers wait."""
    block_deletions(connection, and_writers=True)
    for run_id in run_ids:
        require_run(connection, run_id)
    orphans = _orphaned_fingerprints(connection, run_ids)
    of_outputs = [_output_keys(connection, run_id) for run_id in run_ids]
    of_samples = [_sample_keys(connection, fingerprint) for fingerprint in orphans]
    keys = set(chain.from_iterable([*of_outputs, *of_samples]))
    for table in ("eval_query_results", "eval_scores", "eval_judgements", "eval_runs"):
        _delete_where(connection, table, "run_id", run_ids)
    _delete_where(connection, "eval_samples", "fingerprint", orphans)
    _delete_where(connection, "eval_documents", "hash", sorted(_unreferenced_keys(connection, keys)))
    connection.execute("UPDATE eval_schema SET deletions = deletions + 1")


def _delete_where(connection: DatabaseConnection, table: str, column: str, values: Sequence[str]) -> None:
    for chunk in _chunks(values):
        connection.execute(f"DELETE FROM {table} WHERE {column} IN {placeholders(chunk)}", chunk)


def _chunks(items: Sequence[str]) -> Iterator[Sequence[str]]:
    return (items[start : start + _CHUNK_SIZE] for start in range(0, len(items), _CHUNK_SIZE))


def _orphaned_fingerprints(connection: DatabaseConnection, run_ids: Sequence[str]) -> list[str]:
    deleted = set(run_ids)
    known = connection.rows("SELECT run_id, fingerprint FROM eval_runs")
    kept = {fingerprint for run_id, fingerprint in known if run_id not in deleted}
    return sorted({fingerprint for run_id, fingerprint in known if run_id in deleted} - kept)


def _unreferenced_keys(connection: DatabaseConnection, keys: set[str]) -> set[str]:
    """Return the keys that nothing in the store references; stops when all of them are referenced."""
    remaining = set(keys)
    if remaining:
        for (fingerprint,) in connection.rows("SELECT DISTINCT fingerprint FROM eval_samples"):
            remaining.difference_update(_sample_keys(connection, fingerprint))
    for (run_id,) in connection.rows("SELECT run_id FROM eval_runs") if remaining else ():
        for key in _output_keys(connection, run_id):
            remaining.discard(key)
        if not remaining:
            break
    return remaining


def _sample_keys(connection: DatabaseConnection, fingerprint: str) -> Iterator[str]:
    for data in chain.from_iterable(sample_chunks(connection, fingerprint)):
        yield from sample_text_keys(data)


def _output_keys(connection: DatabaseConnection, run_id: str) -> Iterator[str]:
    after: tuple[int, int] | None = (-1, -1)
    while after is not None:
        rows, after = read_output_chunk(connection, run_id, after)
        for _, _, _, data in rows:
            yield from filter(None, decode_packed(data).texts or ())


# --- results of metrics in the store: one row per metric and signature, scores as columns of bytes -------------------
# ``score_columns`` is imported where scores are read or written: listings need none, and so no NumPy.

_SUMMARY = "SELECT run_id, name, signature, target, result_json, computed_at FROM eval_scores"
"""Reads results without their scores."""
_UPSERT_RESULT = insert_statement(scores, replace=True)


def write_results(
    connection: DatabaseConnection,
    run_id: str,
    results: Sequence[MetricResult],
    secrets: Secrets,
    *,
    reducers: Mapping[str, str],
    position: int | None = None,
) -> None:
    """Write results; one of the same name and signature is replaced. Without a position, new names are appended."""
    known = 'SELECT name, min("position"), max(computed_at) FROM eval_scores WHERE run_id = ? GROUP BY name'
    existing = connection.rows(known, (run_id,))
    positions = {name: index for name, index, _ in existing}
    # Later than every existing result, whatever the clock says: the latest result of a name counts.
    computed = max([utc_now(), *(from_iso(moment) + timedelta(microseconds=1) for _, _, moment in existing)])
    for result in results:
        index = position
        if index is None:
            index = positions.setdefault(result.name, max(positions.values(), default=-1) + 1)
        reducer = reducers.get(result.name, "")
        row = _result_row(run_id, result, secrets, position=index, computed_at=to_iso(computed), reducer=reducer)
        connection.execute_many(_UPSERT_RESULT, [row])  # one by one: the scores of a row may be large
        computed += timedelta(microseconds=1)


def read_results(
    connection: DatabaseConnection,
    run_id: str,
    *,
    every_signature: bool,
    sample_ids: Sequence[str] = (),
    with_scores: bool = True,
) -> Results:
    """Read the results of a run by position; the latest of each name, or all, oldest first."""
    rows = connection.records(f'{_SUMMARY} WHERE run_id = ? ORDER BY "position", name, computed_at', (run_id,))
    chosen = rows if every_signature else _latest_rows(rows)
    found = (
        [read_one(connection, run_id, row["name"], row["signature"]) for row in chosen]
        if with_scores
        else [_result_from_row(row) for row in chosen]
    )
    return Results(found, sample_ids=sample_ids, run_id=run_id)


def _latest_rows(rows: Sequence[Record]) -> list[Record]:
    """The rows of the latest result of each name."""
    latest = {row["name"]: row["computed_at"] for row in sorted(rows, key=lambda row: str(row["computed_at"]))}
    return [row for row in rows if row["computed_at"] == latest[row["name"]]]


def read_summaries(connection: DatabaseConnection, run_ids: Sequence[str]) -> dict[str, Results]:
    """Read the results of several runs by position, the latest of each name, without scores."""
    rows: list[Record] = []
    for chunk in _chunks(run_ids):
        query = f'{_SUMMARY} WHERE run_id IN {placeholders(chunk)} ORDER BY "position", name'
        rows += connection.records(query, chunk)
    by_run = group_pairs((row["run_id"], row) for row in rows)
    return {run_id: _latest_summaries(run_id, by_run.get(run_id, ())) for run_id in run_ids}


def _latest_summaries(run_id: str, rows: Sequence[Record]) -> Results:
    return Results([_result_from_row(row) for row in _latest_rows(rows)], run_id=run_id)


def latest_result(connection: DatabaseConnection, run_id: str) -> tuple[int, str | None]:
    """Return the number of results of a run, and the time of the latest."""
    query = "SELECT count(*), max(computed_at) FROM eval_scores WHERE run_id = ?"
    [(number, moment)] = connection.rows(query, (run_id,))
    return number, moment


def read_result(connection: DatabaseConnection, run_id: str, name: str) -> MetricResult:
    """Read the result of that name (the latest) or signature."""
    keys = "SELECT name, signature FROM eval_scores WHERE run_id = ? ORDER BY computed_at DESC, name"
    listed = connection.rows(keys, (run_id,))
    for key in listed:
        if name == key[0] or (name and name == key[1]):
            return read_one(connection, run_id, *key)
    raise UnknownMetricError(name, {known for known, _ in listed})


def read_one(connection: DatabaseConnection, run_id: str, name: str, signature: str) -> MetricResult:
    """Read the result of that name and signature; raises if the run was deleted or scored again since it was listed."""
    query = "SELECT * FROM eval_scores WHERE run_id = ? AND score_key = ?"
    found = connection.records(query, (run_id, score_key(name, signature)))
    if not found:
        raise UnknownRunError(f"'{run_id}' was deleted, or '{name}' was computed again; read the run again")
    return _result_from_row(found[0])


# --- one result ------------------------------------------------------------------------------------------------------


def _result_row(
    run_id: str, result: MetricResult, secrets: Secrets, *, position: int, computed_at: str, reducer: str
) -> tuple[Any, ...]:
    document = secrets.value(_to_document(result))
    columns: dict[str, Any] = {}
    if result.scores is not None:
        from .score_columns import encode_result

        columns, derived = encode_result(result, secrets)
        if not derived:
            document["outcomes"] = None if result.outcomes is None else secrets.value(list(result.outcomes))
    name, signature = (clean_column_text(secrets.text(text)) for text in (result.name, result.signature or ""))
    values = {
        "run_id": run_id,
        "score_key": score_key(name, signature),
        "name": name,
        "signature": signature,
        "target": result.target.name,
        "reducer": reducer,
        "position": position,
        "computed_at": computed_at,
        "result_json": to_json(document),
        "rows": 0,
        **columns,
    }
    return tuple(values.get(column) for column in scores.columns)


def _result_from_row(row: Record) -> MetricResult:
    document = from_json(row["result_json"])
    result = _from_document(document, row["name"], TargetCategory[row["target"]], row["signature"] or None)
    if row.get("values") is not None:
        from .score_columns import ScoreColumns, decode_scores

        result.scores = decode_scores(ScoreColumns(*(row[name] for name in ScoreColumns.__slots__)))
        result.outcomes = document.get("outcomes", result.scores.outcomes)
    return result


def _to_document(result: MetricResult) -> dict[str, Any]:
    """Return a result as JSON values, without its scores."""
    document: dict[str, Any] = {"value": _number(result.value), "defined": bool(result.defined)}
    if result.details:
        document["details"] = to_json_value(result.details)
    if result.interval is not None:
        document["interval"] = [_number(end) for end in result.interval]
    for name, groups in result.slices.items():
        slices = {str(group): _slice_to_document(result, inner) for group, inner in groups.items()}
        document.setdefault("slices", {})[name] = slices
    return document


def _slice_to_document(whole: MetricResult, inner: Any) -> dict[str, Any]:
    """Return one group of a slice: a result, or any other value of a user."""
    if not isinstance(inner, MetricResult):
        return {"other": to_json_value(inner)}
    shared = _identity(whole)
    own = {key: value for key, value in _identity(inner).items() if value != shared[key]}
    return _to_document(inner) | own


def _identity(result: MetricResult) -> dict[str, str | None]:
    """What a slice stores only where it is not that of the whole."""
    return {"name": result.name, "target": result.target.name, "signature": result.signature}


def _from_document(
    document: Mapping[str, Any], name: str, target: TargetCategory, signature: str | None
) -> MetricResult:
    interval = document.get("interval")
    slices: dict[str, dict[str, Any]] = {}
    for slice_name, groups in document.get("slices", {}).items():
        parts = {group: _slice_from_document(part, name, target, signature) for group, part in groups.items()}
        slices[slice_name] = parts
    return MetricResult(
        name,
        target,
        float(document["value"]),
        document.get("details", {}),
        signature=signature,
        defined=document["defined"],
        interval=None if interval is None else (float(interval[0]), float(interval[1])),
        slices=slices,
    )


def _slice_from_document(part: Mapping[str, Any], name: str, target: TargetCategory, signature: str | None) -> Any:
    if "other" in part:
        return part["other"]
    own = TargetCategory[part["target"]] if "target" in part else target
    return _from_document(part, part.get("name", name), own, part.get("signature", signature))


def _number(value: Any) -> float | str:
    """Return a number, as a string if it is not finite."""
    number = math.nan if value is None else float(value)
    return number if math.isfinite(number) else repr(number)
