"""Rows of the store: runs, samples, outputs, results, judgements, and their deletion."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from itertools import islice
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, RowMapping, Select, delete, func, select, tuple_, update

from ..core.results import Results, to_json_value
from ..core.types import EvaluationSample, MetricResult, SystemOutputs, TargetCategory, UnknownRanking
from ..errors import BadValueError, UnknownMetricError, UnknownRunError, did_you_mean
from ..runtime.processes import gc_paused
from ..runtime.secrets import Secrets
from .connect import Database
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
from .schema import documents, insert_statement, judgements, query_results, runs, samples, scores, versions
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


def list_runs(
    connection: Connection,
    *,
    name: str | None = None,
    tag: str | None = None,
    status: RunStatus | str | None = None,
    dataset: str | None = None,
    limit: int | None = None,
) -> list[RunRecord]:
    """Return the matching runs, newest first."""
    query = select(runs).order_by(runs.c.created_at.desc(), runs.c.run_id.desc())
    wanted = None if status is None else _status(status)
    if name is not None:
        query = query.where(runs.c.name == clean_column_text(name))
    if wanted is not None:  # interrupted runs are stored as running
        stored = RunStatus.RUNNING if wanted is RunStatus.INTERRUPTED else wanted
        query = query.where(runs.c.status == stored.value)
    if dataset is not None:
        query = query.where(runs.c.dataset_name == clean_column_text(dataset))
    if limit is not None and tag is None and wanted not in (RunStatus.RUNNING, RunStatus.INTERRUPTED):
        query = query.limit(limit)
    found = map(record_from_row, connection.execute(query).mappings())
    matching = (one for one in found if (tag is None or tag in one.tags) and wanted in (None, one.status))
    return list(islice(matching, limit))


def _status(status: RunStatus | str) -> RunStatus:
    try:
        return RunStatus(status)
    except ValueError:
        known = ", ".join(one.value for one in RunStatus)
        raise BadValueError(f"unknown status {status!r}; choose one of: {known}") from None


def _has_id(run_id: str) -> ColumnElement[bool]:
    """Return the condition for a run with that id."""
    return runs.c.run_id == clean_column_text(run_id)


def get_run(connection: Connection, run_id: str, *, to_change: bool = False) -> RunRecord:
    """Return the run with that id; with ``to_change`` its row is locked."""
    query = select(runs).where(_has_id(run_id))
    row = connection.execute(query.with_for_update() if to_change else query).mappings().one_or_none()
    if row is None:
        raise unknown_run_error(run_id)
    return record_from_row(row)


def require_run(database: Database, connection: Connection, run_id: str) -> None:
    """Raise if there is no run with that id: it may have been deleted."""
    query = "SELECT 1 FROM eval_runs WHERE run_id = ?"
    if database.fetch_first(connection, query, clean_column_text(run_id)) is None:
        raise unknown_run_error(run_id)


def update_run(connection: Connection, run_id: str, values: Mapping[str, Any]) -> None:
    """Update columns of a run."""
    if connection.execute(update(runs).where(_has_id(run_id)).values(values)).rowcount == 0:
        raise unknown_run_error(run_id)


def claim_run(connection: Connection, run_id: str, owner: str, values: Mapping[str, Any]) -> bool:
    """Update columns of a run if it still belongs to a process; return whether it did."""
    query = update(runs).where(_has_id(run_id), runs.c.process == owner).values(values)
    return connection.execute(query).rowcount > 0


def unknown_run_error(text: str, hint: str = "; `auepora runs` lists them all") -> UnknownRunError:
    """Return the error for an unknown run."""
    return UnknownRunError(f"no run is called '{text}'{hint}")


def find_run(connection: Connection, text: str) -> RunRecord:
    """Find a run by id, prefix of an id, name (the latest), ``latest`` or ``latest~1``.

    Replays and perturbed runs do not evaluate the system itself: ``latest`` skips them, and so does a name that another
    run has.
    """
    query = select(runs.c.run_id, runs.c.name, runs.c.tags_json)
    rows = [
        (run_id, name, not {REPLAY_TAG, PERTURBED_TAG}.isdisjoint(from_json(tags)))
        for run_id, name, tags in connection.execute(query.order_by(runs.c.created_at.desc(), runs.c.run_id.desc()))
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
    database: Database,
    connection: Connection,
    fingerprint: str,
    rows: Iterable[EvaluationSample],
    keys: TextKeys,
    known_texts: KnownTexts,
) -> None:
    """Write the samples of a dataset with their document texts, unless they are already stored."""
    from ..io.golden import canonical_line  # imports NumPy, which listings of runs do not need

    known = select(samples.c.position).where(samples.c.fingerprint == fingerprint).limit(1)
    if connection.execute(known).first() is not None:
        return
    source = enumerate(rows)
    while chunk := list(islice(source, CHUNK)):
        keys.clear()
        packed = []
        for position, sample in chunk:
            line, row = canonical_line(sample)
            packed.append((fingerprint, position, pack_sample(row, line, keys)))
        known_texts.write(database, connection, keys.texts)
        database.execute_many(connection, _INSERT_SAMPLE, packed)


def sample_chunks(connection: Connection, fingerprint: str) -> Iterator[list[bytes]]:
    """Yield the packed samples of a dataset in their order, in chunks."""
    after: int | None = -1
    while after is not None:
        rows, after = read_sample_chunk(connection, fingerprint, after)
        yield rows


def read_sample_chunk(connection: Connection, fingerprint: str, after: int) -> tuple[list[bytes], int | None]:
    """Return the next packed samples after a position; and the next cursor."""
    query = (
        select(samples.c.position, samples.c.sample)
        .where(samples.c.fingerprint == fingerprint, samples.c.position > after)
        .order_by(samples.c.position)
        .limit(CHUNK)
    )
    rows = connection.execute(query).all()
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


def _unpack_samples(connection: Connection, chunk: list[bytes], reader: TextReader | None) -> list[EvaluationSample]:
    keys = (key for data in chunk if b'"text"' in data for key in sample_text_keys(data))
    known_texts = None if reader is None else reader.read(connection, keys)
    return [unpack_sample(data, known_texts) for data in chunk]


def read_sample(
    database: Database, connection: Connection, fingerprint: str, position: int, *, texts: bool = True
) -> EvaluationSample:
    """Read the sample at a position; ``UnknownRunError`` where its runs have been deleted."""
    query = select(samples.c.sample).where(samples.c.fingerprint == fingerprint, samples.c.position == position)
    data = connection.execute(query).scalar_one_or_none()
    if data is None:
        raise UnknownRunError(f"the samples of dataset {fingerprint[:12]} have been deleted with their runs")
    return _unpack_samples(connection, [bytes(data)], TextReader(database) if texts else None)[0]


def read_sample_ids(connection: Connection, fingerprint: str) -> list[str]:
    """Read the ids of the samples of a dataset."""
    return [packed_sample_id(data) for chunk in sample_chunks(connection, fingerprint) for data in chunk]


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


def write_outputs(database: Database, connection: Connection, rows: list[Row], *, replace: bool) -> None:
    """Write rows; an existing one is kept, or replaced."""
    database.execute_many(connection, _UPSERT_OUTPUT if replace else _INSERT_OUTPUT, rows)


def read_output_chunk(
    connection: Connection,
    run_id: str,
    after: RepeatPosition,
    *,
    repeat: int | None = None,
    position: int | None = None,
) -> tuple[list[tuple[int, int, str, bytes]], RepeatPosition | None]:
    """Return the next rows after a (repeat, position): repeat, position, id, bytes; and the next cursor."""
    query = (
        select(query_results.c.repeat, query_results.c.position, query_results.c.sample_id, query_results.c.outputs)
        .where(query_results.c.run_id == run_id)
        .order_by(query_results.c.repeat, query_results.c.position)
        .limit(CHUNK)
    )
    if repeat is None:
        query = query.where(tuple_(query_results.c.repeat, query_results.c.position) > after)
    else:  # not the tuple as well: SQLite would sort all further rows for each chunk
        query = query.where(query_results.c.repeat == repeat, query_results.c.position > after[1])
    if position is not None:
        query = query.where(query_results.c.position == position)
    rows = [(number, position, name, bytes(data)) for number, position, name, data in connection.execute(query)]
    return rows, (rows[-1][0], rows[-1][1]) if len(rows) == CHUNK else None


def read_queries(
    connection: Connection, record: RunRecord, positions: Sequence[int]
) -> tuple[dict[int, bytes], dict[int, bytes]]:
    """Return the packed samples at some positions, and their packed outputs of the first repeat."""
    of_samples = select(samples.c.position, samples.c.sample).where(
        samples.c.fingerprint == record.fingerprint, samples.c.position.in_(positions)
    )
    of_outputs = select(query_results.c.position, query_results.c.outputs).where(
        query_results.c.run_id == record.run_id,
        query_results.c.repeat == 0,
        query_results.c.position.in_(positions),
    )
    found = [
        {position: bytes(data) for position, data in connection.execute(query)} for query in (of_samples, of_outputs)
    ]
    return found[0], found[1]


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
                found = reader.read(connection, (key for one in packed for key in one.texts or ()))
        with gc_paused():
            chunk = [
                StoredOutput(index, number, one.sample_id or name, unpack_output(one, found), one.texts)
                for (number, index, name, _), one in zip(rows, packed, strict=True)
            ]
        yield from chunk


def stored_positions(connection: Connection, run_id: str, *, failed: bool = False) -> set[RepeatPosition]:
    """Return the (position, repeat) of all outputs, or of the failed ones."""
    query = select(query_results.c.position, query_results.c.repeat).where(query_results.c.run_id == run_id)
    if failed:
        query = query.where(query_results.c.error.is_not(None))
    return {(position, repeat) for position, repeat in connection.execute(query)}


def count_outputs(connection: Connection, run_ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return the number of outputs of each run, and how many of them failed."""
    done, failed = dict.fromkeys(run_ids, 0), dict.fromkeys(run_ids, 0)
    for chunk in _chunks(run_ids):
        query = (
            select(query_results.c.run_id, func.count())
            .where(query_results.c.run_id.in_(chunk))
            .group_by(query_results.c.run_id)
        )
        # Two queries, because each of them reads an index only.
        done.update((run_id, count) for run_id, count in connection.execute(query))
        query = query.where(query_results.c.error.is_not(None))
        failed.update((run_id, count) for run_id, count in connection.execute(query))
    return {run_id: (done[run_id], failed[run_id]) for run_id in run_ids}


# --- judgements: the reply of a judge for each sample and metric, or the reason of its failure -----------------------

_UPSERT_JUDGEMENT = insert_statement(judgements, replace=True)
_JUDGEMENT_KEY = [column for column in judgements.primary_key if column.name != "run_id"]


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


_JUDGEMENT_FIELDS = [one.name for one in fields(StoredJudgement) if one.name != "body"]


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
    key = (run_id, score_key(metric, signature), one.repeat, one.position, one.judge_repeat, one.request)
    return *key, metric, signature, critic, prompt_id, one.reason, body


def read_judgements(
    database: Database, run_id: str, *, position: int | None = None, failed: bool = False
) -> Iterator[StoredJudgement]:
    """Yield the judgements of a run, or of one sample, or the failed ones; read in chunks."""
    query = select(judgements).where(judgements.c.run_id == run_id).order_by(*_JUDGEMENT_KEY).limit(CHUNK)
    if failed:
        query = query.where(judgements.c.reason.is_not(None))
    if position is not None:
        yield from _read_sample_judgements(database, query, run_id, position)
        return
    after: tuple[Any, ...] | None = ("", -1, -1, -1, "")
    while after is not None:
        with database.read() as connection:
            rows = connection.execute(query.where(tuple_(*_JUDGEMENT_KEY) > after)).mappings().all()
        yield from map(_judgement_from_row, rows)
        after = tuple(rows[-1][column.name] for column in _JUDGEMENT_KEY) if len(rows) == CHUNK else None


def _read_sample_judgements(
    database: Database, query: Select[Any], run_id: str, position: int
) -> Iterator[StoredJudgement]:
    """Yield the judgements of one sample: one lookup per metric and repeat, since the key has them before it."""
    group = [judgements.c.score_key, judgements.c.repeat]
    groups = select(*group).where(judgements.c.run_id == run_id).order_by(*group).limit(1)
    rows: list[RowMapping] = []
    with database.read() as connection:
        after = connection.execute(groups).first()
        while after is not None:
            score_key, repeat = after
            same = (group[0] == score_key, group[1] == repeat, judgements.c.position == position)
            rows += connection.execute(query.limit(None).where(*same)).mappings().all()
            after = connection.execute(groups.where(tuple_(*group) > (score_key, repeat))).first()
    yield from map(_judgement_from_row, rows)


def _judgement_from_row(row: RowMapping) -> StoredJudgement:
    return StoredJudgement(
        **{name: row[name] for name in _JUDGEMENT_FIELDS}, body=msgspec.json.decode(bytes(row["body"]))
    )


def count_judgements(connection: Connection, run_id: str) -> tuple[int, int]:
    """Return the number of judgements, and how many of them failed."""
    query = select(func.count(), func.count(judgements.c.reason)).where(judgements.c.run_id == run_id)
    total, failed = connection.execute(query).one()
    return int(total), int(failed)


def delete_judgements(connection: Connection, run_id: str, metrics: Collection[tuple[str, str]]) -> None:
    """Delete the judgements of these metrics, given by name and signature."""
    keys = [score_key(clean_column_text(name), clean_column_text(signature)) for name, signature in metrics]
    connection.execute(delete(judgements).where(judgements.c.run_id == run_id, judgements.c.score_key.in_(keys)))


# --- deletion of runs, with the samples and texts that no other run references ---------------------------------------

_CHUNK_SIZE = 500


def delete_runs(database: Database, connection: Connection, run_ids: Sequence[str]) -> None:
    """Delete these runs and the samples and texts that only they reference; other writers wait."""
    block_deletions(database, connection, and_writers=True)
    for run_id in run_ids:
        require_run(database, connection, run_id)
    orphans = _orphaned_fingerprints(connection, run_ids)
    keys = {key for run_id in run_ids for key in _output_keys(connection, run_id)}
    keys |= {key for fingerprint in orphans for key in _sample_keys(connection, fingerprint)}
    for table in (query_results, scores, judgements, runs):
        for chunk in _chunks(run_ids):
            connection.execute(delete(table).where(table.c.run_id.in_(chunk)))
    for chunk in _chunks(orphans):
        connection.execute(delete(samples).where(samples.c.fingerprint.in_(chunk)))
    for chunk in _chunks(sorted(_unreferenced_keys(connection, keys))):
        connection.execute(delete(documents).where(documents.c.hash.in_(chunk)))
    connection.execute(update(versions).values(deletions=versions.c.deletions + 1))


def _chunks(items: Sequence[str]) -> Iterator[Sequence[str]]:
    return (items[start : start + _CHUNK_SIZE] for start in range(0, len(items), _CHUNK_SIZE))


def _orphaned_fingerprints(connection: Connection, run_ids: Sequence[str]) -> list[str]:
    deleted = set(run_ids)
    known = list(connection.execute(select(runs.c.run_id, runs.c.fingerprint)))
    kept = {fingerprint for run_id, fingerprint in known if run_id not in deleted}
    return sorted({fingerprint for run_id, fingerprint in known if run_id in deleted} - kept)


def _unreferenced_keys(connection: Connection, keys: set[str]) -> set[str]:
    """Return the keys that nothing in the store references; stops when all of them are referenced."""
    remaining = set(keys)
    if remaining:
        for (fingerprint,) in connection.execute(select(samples.c.fingerprint).distinct()).all():
            remaining.difference_update(_sample_keys(connection, fingerprint))
    for (run_id,) in connection.execute(select(runs.c.run_id)).all() if remaining else ():
        for key in _output_keys(connection, run_id):
            remaining.discard(key)
        if not remaining:
            break
    return remaining


def _sample_keys(connection: Connection, fingerprint: str) -> Iterator[str]:
    for rows in sample_chunks(connection, fingerprint):
        for data in rows:
            yield from sample_text_keys(data)


def _output_keys(connection: Connection, run_id: str) -> Iterator[str]:
    after: tuple[int, int] | None = (-1, -1)
    while after is not None:
        rows, after = read_output_chunk(connection, run_id, after)
        for _, _, _, data in rows:
            yield from filter(None, decode_packed(data).texts or ())


# --- results of metrics in the store: one row per metric and signature, scores as columns of bytes -------------------
# ``score_columns`` is imported where scores are read or written: listings need none, and so no NumPy.

_RESULT_COLUMNS = tuple(column.name for column in scores.columns)
_SUMMARY = (scores.c.name, scores.c.signature, scores.c.target, scores.c.result_json)
"""The columns of a result without its scores."""
_UPSERT_RESULT = insert_statement(scores, replace=True)


def write_results(
    database: Database,
    connection: Connection,
    run_id: str,
    results: Sequence[MetricResult],
    secrets: Secrets,
    reducers: Mapping[str, str],
    position: int | None,
) -> None:
    """Write results; one of the same name and signature is replaced. Without a position, new names are appended."""
    existing = connection.execute(
        select(scores.c.name, func.min(scores.c.position), func.max(scores.c.computed_at))
        .where(scores.c.run_id == run_id)
        .group_by(scores.c.name)
    ).all()
    positions = {name: index for name, index, _ in existing}
    # Later than every existing result, whatever the clock says: the latest result of a name counts.
    computed = max([utc_now(), *(from_iso(moment) + timedelta(microseconds=1) for _, _, moment in existing)])
    for result in results:
        index = position
        if index is None:
            index = positions.setdefault(result.name, max(positions.values(), default=-1) + 1)
        reducer = reducers.get(result.name, "")
        row = _result_row(run_id, result, index, to_iso(computed), secrets, reducer)
        database.execute_many(connection, _UPSERT_RESULT, [row])  # one by one: the scores of a row may be large
        computed += timedelta(microseconds=1)


def read_results(
    connection: Connection,
    run_id: str,
    *,
    every_signature: bool,
    sample_ids: Sequence[str] = (),
    with_scores: bool = True,
) -> Results:
    """Read the results of a run by position; the latest of each name, or all, oldest first."""
    query = (
        select(*_SUMMARY, scores.c.computed_at)
        .where(scores.c.run_id == run_id)
        .order_by(scores.c.position, scores.c.name, scores.c.computed_at)
    )
    rows = connection.execute(query).mappings().all()
    chosen = rows if every_signature else _latest_rows(rows)
    found = [
        read_one(connection, run_id, row["name"], row["signature"]) if with_scores else _result_from_row(row)
        for row in chosen
    ]
    return Results(found, sample_ids=sample_ids, run_id=run_id)


def _latest_rows(rows: Sequence[RowMapping]) -> list[RowMapping]:
    """The rows of the latest result of each name."""
    latest = {row["name"]: row["computed_at"] for row in sorted(rows, key=lambda row: str(row["computed_at"]))}
    return [row for row in rows if row["computed_at"] == latest[row["name"]]]


def read_summaries(connection: Connection, run_ids: Sequence[str]) -> dict[str, Results]:
    """Read the results of several runs by position, the latest of each name, without scores."""
    found: dict[str, list[RowMapping]] = {run_id: [] for run_id in run_ids}
    query = select(scores.c.run_id, *_SUMMARY, scores.c.computed_at).order_by(scores.c.position, scores.c.name)
    for chunk in _chunks(run_ids):
        for row in connection.execute(query.where(scores.c.run_id.in_(chunk))).mappings():
            found[row["run_id"]].append(row)
    return {
        run_id: Results([_result_from_row(row) for row in _latest_rows(rows)], run_id=run_id)
        for run_id, rows in found.items()
    }


def latest_results(connection: Connection) -> dict[str, tuple[int, str]]:
    """Return for each run with results their number, and the time of the latest."""
    query = select(scores.c.run_id, func.count(), func.max(scores.c.computed_at)).group_by(scores.c.run_id)
    return {run_id: (number, moment) for run_id, number, moment in connection.execute(query)}


def latest_result(connection: Connection, run_id: str) -> tuple[int, str | None]:
    """Return the number of results of a run, and the time of the latest."""
    query = select(func.count(), func.max(scores.c.computed_at)).where(scores.c.run_id == run_id)
    number, moment = connection.execute(query).one()
    return number, moment


def read_result(connection: Connection, run_id: str, name: str) -> MetricResult:
    """Read the result of that name (the latest) or signature."""
    keys = (
        select(scores.c.name, scores.c.signature)
        .where(scores.c.run_id == run_id)
        .order_by(scores.c.computed_at.desc(), scores.c.name)
    )
    listed = [(one, signature) for one, signature in connection.execute(keys)]
    for key in listed:
        if name == key[0] or (name and name == key[1]):
            return read_one(connection, run_id, *key)
    raise UnknownMetricError(name, {one for one, _ in listed})


def read_one(connection: Connection, run_id: str, name: str, signature: str) -> MetricResult:
    """Read the result of that name and signature; raises if the run was deleted or scored again since it was listed."""
    where = (scores.c.run_id == run_id) & (scores.c.score_key == score_key(name, signature))
    row = connection.execute(select(scores).where(where)).mappings().first()
    if row is None:
        raise UnknownRunError(f"'{run_id}' was deleted, or '{name}' was computed again; read the run again")
    return _result_from_row(row)


# --- one result ------------------------------------------------------------------------------------------------------


def _result_row(
    run_id: str, result: MetricResult, position: int, computed_at: str, secrets: Secrets, reducer: str
) -> tuple[Any, ...]:
    document = secrets.value(_to_document(result))
    columns: dict[str, Any] = {}
    if result.scores is not None:
        from .score_columns import encode_result

        columns, derived = encode_result(result, secrets)
        if not derived:
            document["outcomes"] = None if result.outcomes is None else secrets.value(list(result.outcomes))
    name, signature = (clean_column_text(secrets.text(one)) for one in (result.name, result.signature or ""))
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
    return tuple(values.get(name) for name in _RESULT_COLUMNS)


def _result_from_row(row: RowMapping) -> MetricResult:
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
    if result.slices:
        document["slices"] = {
            name: {str(group): _slice_to_document(result, inner) for group, inner in groups.items()}
            for name, groups in result.slices.items()
        }
    return document


def _slice_to_document(whole: MetricResult, inner: Any) -> dict[str, Any]:
    """Return one group of a slice: a result, or any other value of a user."""
    if not isinstance(inner, MetricResult):
        return {"other": to_json_value(inner)}
    document = _to_document(inner)
    if inner.name != whole.name:
        document["name"] = inner.name
    if inner.target is not whole.target:
        document["target"] = inner.target.name
    if inner.signature != whole.signature:
        document["signature"] = inner.signature
    return document


def _from_document(
    document: Mapping[str, Any], name: str, target: TargetCategory, signature: str | None
) -> MetricResult:
    interval = document.get("interval")
    return MetricResult(
        name,
        target,
        float(document["value"]),
        document.get("details", {}),
        signature=signature,
        defined=document["defined"],
        interval=None if interval is None else (float(interval[0]), float(interval[1])),
        slices={
            slice_name: {group: _slice_from_document(part, name, target, signature) for group, part in groups.items()}
            for slice_name, groups in document.get("slices", {}).items()
        },
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
