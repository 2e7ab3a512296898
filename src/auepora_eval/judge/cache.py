"""Cache of judgements in a SQLite file, and critics that record judgements to a file and replay them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..errors import BadTypeError, DataFileError, JudgeError, StoreError, did_you_mean
from ..runtime.files import is_writable, read_lines
from ..runtime.processes import process_exists, process_name
from ..runtime.secrets import Secrets
from ..runtime.sqlite_files import open_sqlite, sqlite_error_message
from .critic import (
    Critic,
    Judgement,
    JudgeRequest,
    LLMCritic,
    StructuredCritic,
    Usage,
    as_judge_error,
    critic_name,
    decides,
)
from .limits import model_name
from .ratings import returns_number_only, supports_logprobs

_APPLICATION = 0x4A554447  # marks the file as a cache of judgements
_VERSION = 1
_BUSY_TIMEOUT_S = 10.0
"""Seconds to wait for another process that writes."""
_KEY_VERSION = 1
"""Part of every digest: raised when what is sent for a request changes without showing in the request."""
_TABLE = """
CREATE TABLE IF NOT EXISTS judgements (
    digest BLOB PRIMARY KEY,
    critic TEXT NOT NULL,
    prompt_id TEXT NOT NULL,
    repeat INTEGER NOT NULL,
    answer TEXT NOT NULL,
    raw TEXT NOT NULL,
    weighted REAL,
    mass REAL,
    repaired INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    created_at TEXT NOT NULL
)
"""
_FIND = """
SELECT answer, raw, weighted, mass, repaired, prompt_tokens, completion_tokens FROM judgements WHERE digest = ?
"""
_CLAIMS_TABLE = """
CREATE TABLE IF NOT EXISTS claims (
    digest BLOB PRIMARY KEY, owner TEXT NOT NULL, expires_at REAL NOT NULL
) WITHOUT ROWID
"""
_CLAIM = """
INSERT INTO claims SELECT ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM judgements WHERE digest = ?)
ON CONFLICT DO NOTHING
"""
LEASE_S = 30.0
"""Seconds after which a claim that was not renewed has no effect."""
_RENEW_S = 10.0
"""Seconds between two renewals of the claims of a process."""
_LOCK_RETRY_S, _LOCK_TIMEOUT_S = 0.01, 0.5
"""Seconds before claims are tried again while another process writes, and until calls are made without claims."""
_LATEST = "SELECT created_at FROM judgements WHERE critic = ? ORDER BY created_at DESC LIMIT 1000"
_MAX_PAUSE_S = 60.0
"""A longer pause between judgements ends the period whose throughput is measured."""
_MIN_JUDGEMENTS = 10
"""Fewer judgements do not show how fast a critic is."""


def critic_cache_key(critic: Critic, request: JudgeRequest) -> Any | None:
    """What the critic's reply depends on besides the request; ``None`` if the critic must not be cached."""
    key = getattr(critic, "cache_key", None)
    return key(request) if callable(key) else key


def request_digest(critic: Critic, request: JudgeRequest, known: Any | None) -> bytes | None:
    """A digest of everything the reply depends on; ``None`` if JSON cannot represent it."""
    sent = {
        "version": _KEY_VERSION,
        "critic": critic_name(critic),
        "known": known,
        "system": request.system,
        "prompt": request.prompt,
        "prompt_id": request.prompt_id,
        "schema": request.schema,
        "weighted": request.weighted,
        "repeat": request.repeat,
        "metadata": request.metadata if isinstance(critic, LLMCritic) else None,
        **({"label_values": request.label_values} if request.label_values else {}),
    }
    if request.questions:
        sent |= {"questions": [asdict(question) for question in request.questions], "asked_with": request.asked_with}
    try:
        text = _CANONICAL.encode(sent)
    except (TypeError, ValueError):
        return None
    return hashlib.sha256(text.encode()).digest()


def _as_dict(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is nothing that JSON can write")


def _encodable(text: str) -> str:
    """The text with lone surrogates, which SQLite cannot store, as escapes; in JSON they mean the same."""
    return text.encode(errors="backslashreplace").decode()


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_as_dict)


class JudgementCache:
    """An open cache file. Several processes may share it; within a process only one thread may use it at a time.

    ``put`` only queues a judgement; ``commit`` returns when the queue has been written. Prompts are stored as digests
    only, and secrets are masked in what is stored. A process that makes a call claims its digest in a table ``claims``,
    so that others wait for the judgement instead of paying for it too. The table exists only while there are claims.
    Judgements and claims of one turn of the event loop are written in one transaction.
    """

    def __init__(self, path: Path, *, secrets: Secrets | None = None) -> None:
        self._path, self._secrets = path, secrets or Secrets()
        self._pending: dict[bytes, tuple[Any, ...]] = {}
        if path.is_dir():
            raise StoreError(str(path), "is a folder; name a file in it, such as judgements.sqlite")
        if not path.absolute().parent.is_dir():
            raise StoreError(str(path), f"its folder {path.absolute().parent} does not exist; create it first")
        self._read_only = path.exists() and not is_writable(path)
        self._owner = f"{process_name()}#{uuid.uuid4().hex[:8]}"
        self._wanted: list[tuple[bytes, asyncio.Future[bool]]] = []
        self._uncommitted: list[asyncio.Future[None]] = []
        self._claimed: set[bytes] = set()
        self._released: set[bytes] = set()
        self._renew_at = self._locked_since = math.inf
        with self._store_errors():
            self._file = open_sqlite(path, timeout=_BUSY_TIMEOUT_S, read_only=self._read_only)
        try:
            with self._store_errors():
                self._prepare()
        except BaseException:
            self._file.close()
            raise

    def get(self, digest: bytes) -> Judgement | None:
        """The judgement with this digest, or ``None``."""
        row = self._pending.get(digest)
        if row is not None:
            row = row[4:11]
        else:
            with self._store_errors():
                row = self._file.execute(_FIND, (digest,)).fetchone()
        if row is None:
            return None
        answer, raw, weighted, mass, repaired, prompt_tokens, completion_tokens = row
        try:
            answer = json.loads(answer)
        except ValueError as error:
            raise StoreError(str(self._path), "is damaged: an answer in it is not JSON; delete the file") from error
        return Judgement(
            answer, Usage(prompt_tokens, completion_tokens), raw, weighted, mass, repaired=bool(repaired), cached=True
        )

    def put(self, digest: bytes, critic: Critic, request: JudgeRequest, judgement: Judgement) -> None:
        """Add a judgement: ``get`` finds it at once, and the next ``commit`` or ``flush`` writes it."""
        answer = json.dumps(dict(judgement.answer), ensure_ascii=False, default=_as_dict)
        self._pending[digest] = (
            digest,
            critic_name(critic),
            request.prompt_id,
            request.repeat,
            _encodable(self._secrets.text(answer)),
            _encodable(self._secrets.text(judgement.raw)),
            judgement.weighted,
            judgement.mass,
            int(judgement.repaired),
            judgement.usage.prompt_tokens,
            judgement.usage.completion_tokens,
            datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def throughput(self, critic: str) -> float | None:
        """Judgements per second in the critic's last active period; ``None`` if there are too few."""
        with self._store_errors():
            rows = self._file.execute(_LATEST, (critic,)).fetchall()
        times = [datetime.fromisoformat(at) for (at,) in rows]
        count = 1
        while count < len(times) and (times[count - 1] - times[count]).total_seconds() <= _MAX_PAUSE_S:
            count += 1
        seconds = (times[0] - times[count - 1]).total_seconds() if times else 0.0
        return count / seconds if count >= _MIN_JUDGEMENTS and seconds > 1 else None

    def flush(self, *, wait: bool = False) -> bool:
        """Write pending judgements, remove released claims and renew the others.

        Without ``wait``, return false at once if another process is writing.
        """
        if not (self._pending or self._released or time.time() >= self._renew_at):
            return True
        return self._write([], wait=wait)

    async def commit(self) -> None:
        """Return when every judgement added so far is in the file; the end of the process does not lose it then.

        Return as well if the file cannot be written now: ``flush`` tries again.
        """
        loop = asyncio.get_running_loop()
        self._schedule_write(loop)
        committed: asyncio.Future[None] = loop.create_future()
        self._uncommitted.append(committed)
        await committed

    async def claim(self, digest: bytes) -> bool:
        """Whether this process is to make the call; false while another process makes it, or if it has been made.

        Give a claim back with ``release``. A claim of a process that is gone, or that did not renew it, has no effect.
        """
        if self._read_only or digest in self._claimed:
            return True
        loop = asyncio.get_running_loop()
        self._schedule_write(loop)
        granted: asyncio.Future[bool] = loop.create_future()
        self._wanted.append((digest, granted))
        return await granted

    def release(self, digest: bytes) -> None:
        """Give a claim back; it is removed in the transaction that writes the judgement."""
        if digest in self._claimed:
            self._claimed.discard(digest)
            self._released.add(digest)

    def _schedule_write(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._wanted and not self._uncommitted:
            loop.call_soon(self._write_waiting, loop)  # one transaction for all replies and calls of this turn

    def _write_waiting(self, loop: asyncio.AbstractEventLoop) -> None:
        """Write what ``commit`` and ``claim`` wait for."""
        try:
            written = self._write(self._wanted)
        except StoreError:  # the session warns that judgements cannot be written
            written, self._locked_since = False, -math.inf
        except Exception as error:  # calls must not wait for ever
            waiting: list[asyncio.Future[Any]] = [*self._uncommitted, *(granted for _, granted in self._wanted)]
            for future in waiting:
                if not future.done():
                    future.set_exception(error)
            self._wanted, self._uncommitted = [], []
            return
        if not written:
            if time.time() < self._locked_since + _LOCK_TIMEOUT_S:
                loop.call_later(_LOCK_RETRY_S, self._write_waiting, loop)
                return
            self._claimed.update(digest for digest, _ in self._wanted)  # calls do not wait for a file
        wanted, self._wanted = self._wanted, []
        uncommitted, self._uncommitted = self._uncommitted, []
        for committed in uncommitted:
            if not committed.done():
                committed.set_result(None)
        for digest, granted in wanted:
            if not granted.done():
                granted.set_result(digest in self._claimed)

    def _write(self, wanted: Sequence[tuple[bytes, asyncio.Future[bool]]], *, wait: bool = False) -> bool:
        """Write everything in one transaction; without ``wait``, return false if another process is writing."""
        with self._store_errors():
            if not wait:
                self._file.execute("PRAGMA busy_timeout = 0")
            try:
                self._file.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if wait or error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                    raise
                self._locked_since = min(self._locked_since, time.time())
                return False
            finally:
                if not wait:
                    self._file.execute(f"PRAGMA busy_timeout = {int(1000 * _BUSY_TIMEOUT_S)}")
            self._locked_since = math.inf
            try:
                self._write_judgements()
                self._write_claims(wanted)
                self._file.execute("COMMIT")
            except BaseException:
                if self._file.in_transaction:
                    self._file.execute("ROLLBACK")
                raise
        self._pending.clear()
        self._released.clear()
        return True

    def _write_judgements(self) -> None:
        # The first entry stays, so that repeated requests always get the same judgement.
        placeholders = ", ".join("?" * 12)
        self._file.executemany(
            f"INSERT OR IGNORE INTO judgements VALUES ({placeholders})",  # noqa: S608 -- question marks alone
            self._pending.values(),
        )

    def _write_claims(self, wanted: Sequence[tuple[bytes, asyncio.Future[bool]]]) -> None:
        """Remove released claims, renew the others if it is time, and claim the digests that are wanted."""
        now = time.time()
        if not (self._released or wanted or now >= self._renew_at):
            return
        self._file.execute(_CLAIMS_TABLE)
        released = [(digest, self._owner) for digest in self._released]
        self._file.executemany("DELETE FROM claims WHERE digest = ? AND owner = ?", released)
        if now >= self._renew_at:
            self._file.execute("UPDATE claims SET expires_at = ? WHERE owner = ?", (now + LEASE_S, self._owner))
            self._renew_at = now + _RENEW_S
        for digest, granted in wanted:
            claim = (digest, self._owner, now + LEASE_S)
            if granted.done():
                continue
            if self._file.execute(_CLAIM, (*claim, digest)).rowcount or self._take_over(claim, now):
                self._claimed.add(digest)
        if self._file.execute("SELECT 1 FROM claims WHERE expires_at > ?", (now,)).fetchone() is None:
            self._file.execute("DROP TABLE claims")
        self._renew_at = min(self._renew_at, now + _RENEW_S) if self._claimed else math.inf

    def _take_over(self, claim: tuple[bytes, str, float], now: float) -> bool:
        """Replace the claim of a process that is gone or did not renew it; return whether there was one."""
        found = self._file.execute("SELECT owner, expires_at FROM claims WHERE digest = ?", claim[:1]).fetchone()
        if found is None or (found[1] > now and process_exists(found[0].partition("#")[0]) is not False):
            return False
        self._file.execute("REPLACE INTO claims VALUES (?, ?, ?)", claim)
        return True

    def close(self) -> None:
        """Write pending judgements, give back all claims, and close the file."""
        self._released |= self._claimed
        self._claimed.clear()
        try:
            self.flush(wait=True)
        finally:
            self._file.close()

    def _prepare(self) -> None:
        # One read transaction: a schema that another process is creating is seen complete or not at all.
        self._file.execute("BEGIN")
        try:
            tables, version, application = (
                self._file.execute(query).fetchone()[0]
                for query in ("SELECT count(*) FROM sqlite_master", "PRAGMA user_version", "PRAGMA application_id")
            )
        finally:
            if self._file.in_transaction:
                self._file.execute("ROLLBACK")
        if application != _APPLICATION and (tables or version or application):
            raise StoreError(str(self._path), "is a database without judgements; name another file")
        if version > _VERSION:
            raise StoreError(
                str(self._path), "was written by a newer version of this library; use that version, or another file"
            )
        if version == 0:
            self._file.execute("BEGIN IMMEDIATE")
            self._file.execute(_TABLE)
            self._file.execute(f"PRAGMA application_id = {_APPLICATION}")
            self._file.execute(f"PRAGMA user_version = {_VERSION}")
            self._file.execute("COMMIT")

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(
                str(self._path), sqlite_error_message(" ".join(str(error).split()), _BUSY_TIMEOUT_S)
            ) from error


# --- recorded judgements: written to a file and replayed later, for tests and audits ---------------------------------


def request_key(request: JudgeRequest) -> str:
    """A key of a request: everything that is sent, and the repeat."""
    content = [request.system, request.prompt, request.schema, request.weighted, request.repeat]
    if request.label_values:
        content.append(dict(request.label_values))
    content += [asdict(question) for question in request.questions]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def stored_request_key(critic: Critic, request: JudgeRequest) -> str:
    """The key under which a judgement is stored: members of a panel may get the same request."""
    key = request_key(request)
    return f"{key}@{critic_name(critic)}" if request.panel else key


class RecordingCritic(StructuredCritic):
    """Wraps another critic and appends its judgements to a JSONL file; failed ones with their reason."""

    def __init__(self, critic: Critic, path: str | Path) -> None:
        self.critic, self.path = critic, Path(path)
        self.name = critic_name(critic)
        self.one_number, self.logprobs = returns_number_only(critic), supports_logprobs(critic)
        self.decides = decides(critic)
        # Used by the budget.
        self.model, self.max_tokens = model_name(critic), getattr(critic, "max_tokens", None)
        self.calls_at_most = getattr(critic, "calls_at_most", 1)
        self._lock = threading.Lock()

    async def judge(self, request: JudgeRequest) -> Judgement:
        """The other critic's judgement."""
        try:
            judgement = await self._call(request)
        except JudgeError as error:
            self._write(request, {"error": {"reason": error.reason, "message": error.message, "raw": error.raw}})
            raise
        self._write(request, _plain(judgement))
        return judgement

    async def _call(self, request: JudgeRequest) -> Judgement:
        if isinstance(self.critic, StructuredCritic):
            return await self.critic.judge(request)
        try:
            value = await asyncio.to_thread(self.critic.score, prompt=request.prompt, metadata=dict(request.metadata))
        except Exception as error:
            raise as_judge_error(error) from error
        return Judgement({"score": value})

    def cache_key(self, request: JudgeRequest) -> Mapping[str, Any] | None:
        """The other critic's."""
        return self.critic.cache_key(request) if isinstance(self.critic, StructuredCritic) else None

    async def aclose(self) -> None:
        """Close the other critic."""
        if isinstance(self.critic, StructuredCritic):
            await self.critic.aclose()

    def _write(self, request: JudgeRequest, outcome: Mapping[str, Any]) -> None:
        kind = {"decides": True} if self.decides else {}
        row = {
            "key": request_key(request),
            "critic": self.name,
            "one_number": self.one_number,
            "logprobs": self.logprobs,
            **kind,
            "metric": request.metric,
            "sample_id": request.sample_id,
            "repeat": request.repeat,
            "prompt_id": request.prompt_id,
            "system": request.system,
            "prompt": request.prompt,
            **outcome,
        }
        line = json.dumps(row, default=str)  # escaped, so that any string can be written
        with self._lock, self.path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


class RecordedCritic(StructuredCritic):
    """Replays judgements: from a file that ``RecordingCritic`` wrote, or from a mapping.

    The keys of a mapping are ``request_key(request)``, a whole prompt, or the id of a sample; its values an answer, a
    bare score, a ``Judgement`` or a ``JudgeError``. A request that was not recorded is a failed measurement
    (``not_recorded``). Recorded judgements carry the name of the critic that gave them. ``critic`` selects those of
    one critic, such as a member of a panel.

    Example:
        >>> critic = RecordedCritic({"q1": 1.0, "q2": 0.0})  # by sample
        >>> evaluate(samples, outputs, [{"llm_faithfulness": {"critic": critic}}])[0].value
        0.5
    """

    def __init__(
        self, recorded: str | Path | Mapping[str, Any], *, name: str | None = None, critic: str | None = None
    ) -> None:
        self.one_number = self.logprobs = self.decides = False
        names: dict[str, None] = {}
        if isinstance(recorded, Mapping):
            self._judgements = {key: _parse_judgement(value) for key, value in recorded.items()}
        elif isinstance(recorded, (str, Path)):
            rows = _rows_of_critic(Path(recorded), critic)
            self._judgements = {
                str(row["key"]): _parse_judgement(row) for row in rows
            }  # of duplicates the last one counts
            names = dict.fromkeys(str(row["critic"]) for row in rows if row.get("critic"))
            self.one_number = any(bool(row.get("one_number")) for row in rows)
            self.logprobs = any(bool(row.get("logprobs")) for row in rows)
            self.decides = any(bool(row.get("decides")) for row in rows)
        else:
            raise BadTypeError(f"recorded judgements are a file or a mapping, not {recorded!r:.80}")
        self.name = name or (next(iter(names)) if len(names) == 1 else "recorded")

    def __len__(self) -> int:
        return len(self._judgements)

    async def judge(self, request: JudgeRequest) -> Judgement:
        """The recorded judgement."""
        for key in (request_key(request), request.prompt, request.sample_id):
            recorded = self._judgements.get(key)
            if isinstance(recorded, JudgeError):
                raise JudgeError(recorded.reason, recorded.message, raw=recorded.raw, calls=0)
            if recorded is not None:
                return replace(recorded, cached=True)
        message = f"no judgement of sample '{request.sample_id}' is recorded for this question"
        raise JudgeError("not_recorded", message, calls=0)


def _plain(judgement: Judgement) -> dict[str, Any]:
    return {
        "answer": dict(judgement.answer),
        "raw": judgement.raw,
        "usage": [judgement.usage.prompt_tokens, judgement.usage.completion_tokens],
        "weighted": judgement.weighted,
        "mass": judgement.mass,
        "repaired": judgement.repaired,
    }


def _parse_judgement(value: object) -> Judgement | JudgeError:
    """The judgement that a recorded value stands for."""
    if isinstance(value, (Judgement, JudgeError)):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Judgement({"score": value})
    if not isinstance(value, Mapping):
        raise BadTypeError(f"a recorded judgement is an answer or a score, not {value!r:.80}")
    if isinstance(value.get("error"), Mapping):
        error = value["error"]
        return JudgeError(str(error["reason"]), str(error.get("message") or ""), raw=error.get("raw"))
    if not isinstance(value.get("answer"), Mapping):
        return Judgement(dict(value))
    return Judgement(
        dict(value["answer"]),
        usage=Usage(*value.get("usage") or ()),
        raw=value.get("raw") or "",
        weighted=value.get("weighted"),
        mass=value.get("mass"),
        repaired=bool(value.get("repaired")),
    )


def _rows_of_critic(path: Path, critic: str | None) -> list[dict[str, Any]]:
    """The rows of a file, or those of one critic; raises if several critics answered the same request."""
    rows = list(_read_rows(path))
    by_key: dict[str, str] = {}
    names = dict.fromkeys(str(row.get("critic", "")) for row in rows)
    if critic is not None:
        if critic not in names:
            there = f"; there are {', '.join(names)}"
            raise DataFileError(
                path, None, f"has no judgement of '{critic}'{did_you_mean(critic, names, otherwise=there)}"
            )
        return [row for row in rows if row.get("critic") == critic]
    for row in rows:
        name = str(row.get("critic", ""))
        if by_key.setdefault(str(row["key"]), name) != name:
            raise DataFileError(
                path,
                None,
                f"several judges answered the same request ({', '.join(names)}): select one of them, in a plan as "
                f"{{recorded: {{path: {path.name}, critic: {name}}}}}",
            )
    return rows


def _read_rows(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in read_lines(path):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise DataFileError(path, number, f"not JSON: {error}") from error
        if not isinstance(row, dict) or "key" not in row or not ({"answer", "error"} & set(row)):
            raise DataFileError(path, number, "a recorded judgement is an object with 'key' and 'answer' or 'error'")
        yield row
