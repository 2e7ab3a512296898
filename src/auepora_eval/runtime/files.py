"""Files: reading with clear errors, the limit of the size of lines, compression, atomic writes, locks."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import os
import re
import secrets
import stat
import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

from ..errors import BadValueError, DataFileError

# --- Zstandard files as byte streams; unlike the reader of ``zstandard``, truncated files are detected ---------------

_CHUNK = 1 << 16
_ZSTD_INPUT = 512
"""Compressed bytes that are decompressed at once. A byte may become 32 KiB, so that up to 16 MiB are in memory."""


class ZstdDamagedError(Exception):
    """The data is not valid Zstandard."""


class _ZstdReader(io.RawIOBase):
    """The decompressed content of all frames of a file."""

    def __init__(self, raw: IO[bytes]) -> None:
        import zstandard

        self._error = zstandard.ZstdError
        self._new = partial(zstandard.ZstdDecompressor().decompressobj, write_size=16 * _ZSTD_INPUT)
        self._raw = raw
        self._frame: Any = None
        self._ready = self._unread = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            self._unread = self._unread or memoryview(self._raw.read(_CHUNK))
            if not self._unread:
                if self._frame is not None:
                    raise EOFError("the last frame is not complete")
                return 0
            self._ready = memoryview(b"".join(self._decompressed()))
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _decompressed(self) -> Iterator[bytes]:
        """Yield decompressed parts until they have the size of a chunk or the compressed bytes are used up."""
        size = 0
        while self._unread and size < _CHUNK:
            self._frame = self._frame or self._new()
            part = self._unread[:_ZSTD_INPUT]
            try:
                data: bytes = self._frame.decompress(part)
            except self._error as error:
                raise ZstdDamagedError(str(error)) from error
            used = len(part)
            if self._frame.eof:
                used, self._frame = used - len(self._frame.unused_data), None
            self._unread = self._unread[used:]
            size += len(data)
            yield data

    def close(self) -> None:
        self._raw.close()
        super().close()


# --- the limit of the size of a line ---------------------------------------------------------------------------------

_LIMIT_VARIABLE = "AUEPORA_MAX_LINE_SIZE"
_DEFAULT_LIMIT = "64MB"
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}


def max_line_size() -> int:
    """Return the largest size of a line that is read, in bytes: ``AUEPORA_MAX_LINE_SIZE``, else 64 MB."""
    return _parse_size(_limit_text())


@contextlib.contextmanager
def limit_line_size(size: str | int) -> Iterator[None]:
    """Read lines up to this size: ``"256MB"``, ``"1GB"``, or a number of bytes.

    The limit also applies to files that are one JSON, YAML or TOML value, and to the pages of Parquet files. It is set
    as an environment variable, so that processes that are started meanwhile have the same.
    """
    _parse_size(str(size))
    before = os.environ.get(_LIMIT_VARIABLE)
    os.environ[_LIMIT_VARIABLE] = str(size)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_LIMIT_VARIABLE]
        else:
            os.environ[_LIMIT_VARIABLE] = before


def limit_message(what: str) -> str:
    """Return the message about something that is larger than the limit, and what to do."""
    options = f"--max-line-size or {_LIMIT_VARIABLE}"
    return f"{what} is larger than {_limit_text()}; if it is valid, raise the limit with {options}"


def _limit_text() -> str:
    return os.environ.get(_LIMIT_VARIABLE) or _DEFAULT_LIMIT


def _parse_size(text: str) -> int:
    found = re.fullmatch(r"\s*(\d+)\s*([KMG]?)B?\s*", text, re.IGNORECASE)
    if found is None or not int(found[1]):
        raise BadValueError(f"the largest size of a line cannot be {text!r}; write it as in '256MB' or '1GB'")
    return int(found[1]) * _UNITS[found[2].upper()]


class _LimitedReader(io.RawIOBase):
    """The content of a file; a line above the limit is an error that is raised before all of it is read."""

    def __init__(self, path: Path, file: IO[bytes], *, is_document: bool = False) -> None:
        """``is_document``: the limit is that of the whole file."""
        self._path, self._is_document = path, is_document
        self._file: Any = file
        self._limit = max_line_size()
        self._offset = 0
        self._line_size = 0  # of the line that has not ended yet

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._read_block(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        content = io.BytesIO(self._read_block(self._limit))  # not copied if it is the whole file
        content.seek(0, io.SEEK_END)
        while data := self._read_block(_CHUNK):
            content.write(data)
        return content.getvalue()

    def _read_block(self, size: int) -> bytes:
        # In a block up to the limit, only the line that began before it can be too large.
        data: bytes = self._file.read1(min(size, self._limit))
        end = -1 if self._is_document else data.find(b"\n")
        if self._line_size + (len(data) if end < 0 else end) > self._limit:
            if self._is_document:
                raise DataFileError(self._path, None, limit_message("the file"))
            line = _line_at(self._path, self._offset - self._line_size)
            raise DataFileError(self._path, line, limit_message("the line"))
        self._offset += len(data)
        self._line_size = self._line_size + len(data) if end < 0 else len(data) - data.rfind(b"\n") - 1
        return data

    def close(self) -> None:
        self._file.close()
        super().close()


def _line_at(path: Path, offset: int) -> int | None:
    """Return the number of the line that begins at an offset; ``None`` for a pipe, which cannot be read again."""
    if not path.is_file():
        return None
    line = 1
    with _open(path) as file:
        while offset and (block := file.read(min(offset, _CHUNK))):
            line, offset = line + block.count(b"\n"), offset - len(block)
    return line


# --- files as bytes: reading with clear errors, gzip and zstd by suffix, atomic writes -------------------------------

_BOM = b"\xef\xbb\xbf"
_COMPRESSED = (".gz", ".zst", ".bz2")
_HEAD_BYTES = 1 << 16


def is_compressed(path: Path) -> bool:
    """Whether the file is compressed, by its suffix."""
    return path.suffix.lower() in _COMPRESSED


def plain_suffix(path: Path) -> str:
    """Return the suffix of the format in lower case: ``.jsonl`` of ``data.JSONL.gz``."""
    return Path(path.stem if is_compressed(path) else path.name).suffix.lower()


def plain_stem(path: Path) -> str:
    """Return the name without the suffixes of format and compression: ``data`` of ``data.jsonl.gz``."""
    return Path(path.stem).stem if is_compressed(path) else path.stem


@contextlib.contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading, decompressed; every failure is a ``DataFileError``."""
    with _translate_read_errors(path), _open(path) as file:
        yield file


@contextlib.contextmanager
def open_lines(path: Path) -> Iterator[IO[bytes]]:
    """Like ``open_bytes``, for a text file; a line above ``max_line_size`` is a ``DataFileError`` when it is read."""
    with _translate_read_errors(path), io.BufferedReader(_LimitedReader(path, _open(path)), _CHUNK) as file:
        yield cast(IO[bytes], file)


def read_head(path: Path) -> str:
    """Return the first characters of a file; bytes that are not UTF-8 are replaced."""
    if path.is_fifo():
        raise DataFileError(path, None, "is a pipe, which cannot be read twice; write it to a file first")
    with open_bytes(path) as file:
        return _strip_bom(path, file.read(_HEAD_BYTES)).decode(errors="replace")


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank, each with its number; a byte order mark is dropped."""
    with open_lines(path) as file:
        for number, line in enumerate(file, start=1):
            content = _strip_bom(path, line) if number == 1 else line
            if content and not content.isspace():
                yield number, content


def read_bytes(path: Path, *, is_document: bool = False) -> bytes:
    """Return the whole content without a byte order mark. Anything but UTF-8 is an error that names the line.

    ``is_document``: the file is one value (JSON, YAML, TOML), and ``max_line_size`` is the limit of the whole file.
    """
    with _translate_read_errors(path), _LimitedReader(path, _open(path), is_document=is_document) as file:
        data = _strip_bom(path, file.readall())
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise DataFileError(path, line, f"byte 0x{data[error.start]:02x} is not valid UTF-8") from error
    return data


def write_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Write the lines: all of them, or (on any error) none."""
    with atomic_write(path) as file:
        for line in lines:  # outside `translate_write_errors`: errors of the caller's iterable are not translated
            with translate_write_errors(path):
                file.write(line)
                file.write(b"\n")


def write_text(path: Path, pieces: Iterable[str]) -> None:
    """Write the pieces of a text, all or (on any error) none; what UTF-8 cannot hold becomes a question mark."""
    with atomic_write(path) as file, translate_write_errors(path):
        for piece in pieces:
            file.write(piece.encode("utf-8", "replace"))


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces ``path`` at the end; on failure the old file stays.

    A device or a pipe is written to directly, since it cannot be replaced.
    """
    in_place = _is_special(path)
    target = path if in_place else Path(os.path.realpath(path))  # a symbolic link is followed, not replaced
    if target.is_dir():
        raise DataFileError(path, None, "is a directory, not a file")
    written = target if in_place else target.with_name(f".{secrets.token_hex(8)}.tmp")
    with translate_write_errors(path):
        raw = written.open("wb" if in_place else "xb")
    file = _compressor(path, raw)
    try:
        yield file
        with translate_write_errors(path):
            if file is not raw:
                file.close()
            raw.flush()
            if not in_place:
                os.fsync(raw.fileno())
            raw.close()
            if not in_place:
                if target.exists():
                    written.chmod(stat.S_IMODE(target.stat().st_mode))
                os.replace(written, target)
    except BaseException:
        _close_quietly(file, raw)
        if not in_place:
            written.unlink(missing_ok=True)
        raise


def move_to_new(source: Path, target: Path) -> None:
    """Give a file its final name; ``FileExistsError`` if another process was faster."""
    if sys.platform == "win32":
        os.rename(source, target)
        return
    os.link(source, target)  # a rename would replace the other file
    source.unlink()


def _is_special(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _compressor(path: Path, raw: IO[bytes]) -> IO[bytes]:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        # No name and no time in the archive: equal data gives equal bytes.
        return cast(IO[bytes], gzip.GzipFile("", "wb", fileobj=raw, mtime=0))
    if suffix == ".bz2":
        return cast(IO[bytes], bz2.BZ2File(raw, "wb"))
    if suffix == ".zst":
        import zstandard

        return cast(IO[bytes], zstandard.ZstdCompressor(level=9).stream_writer(raw, closefd=False))
    return raw


def _close_quietly(*files: IO[bytes]) -> None:
    for file in files:
        with contextlib.suppress(OSError, ValueError):
            file.close()


def _open(path: Path) -> IO[bytes]:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    if suffix == ".bz2":
        return cast(IO[bytes], bz2.open(path, "rb"))
    raw = path.open("rb")
    return cast(IO[bytes], io.BufferedReader(_ZstdReader(raw), _CHUNK)) if suffix == ".zst" else raw


def _strip_bom(path: Path, start: bytes) -> bytes:
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataFileError(path, 1, "the file is UTF-16; save it as UTF-8")
    if start.startswith(b"\x1f\x8b"):
        raise DataFileError(path, None, "is compressed with gzip; give it a name that ends in '.gz'")
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        raise DataFileError(path, None, "is compressed with zstd; give it a name that ends in '.zst'")
    return start.removeprefix(_BOM)


@contextlib.contextmanager
def _translate_read_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise DataFileError(path, None, "no such file") from error
    except IsADirectoryError as error:
        raise DataFileError(path, None, "is a directory, not a file") from error
    except EOFError as error:
        raise DataFileError(path, None, "the compressed data ends too early; the file was cut off") from error
    except (gzip.BadGzipFile, zlib.error, ZstdDamagedError) as error:
        raise DataFileError(path, None, f"the compressed data is damaged: {error}") from error
    except OSError as error:
        raise DataFileError(path, None, f"cannot be read: {error.strerror or error}") from error


@contextlib.contextmanager
def translate_write_errors(path: Path) -> Iterator[None]:
    """Translate an ``OSError`` to a ``DataFileError`` that names the file."""
    try:
        yield
    except OSError as error:
        raise DataFileError(path, None, f"cannot be written: {error.strerror or error}") from error


# --- files to which several processes append -------------------------------------------------------------------------

LOCK_TIMEOUT_S = 5.0
_WINDOWS_LOCK_PLACE = (1 << 31) - 2
"""The byte that is locked on Windows, behind the end of the file: nobody else can read a byte that is locked.

It cannot be further behind: the position of a lock is a signed integer of 32 bits there.
"""


def open_for_appending(path: Path, *, create: bool = True) -> int:
    """Open a file for ``append`` and ``read_part`` and return its descriptor."""
    binary = getattr(os, "O_BINARY", 0)  # Windows would write other line ends
    creation = os.O_CREAT if create else 0
    return os.open(path, os.O_RDWR | os.O_APPEND | binary | creation, 0o666)


def read_part(file: int, start: int, size: int) -> bytes:
    """Read a part of a file that was opened for appending."""
    os.lseek(file, start, os.SEEK_SET)
    return os.read(file, size)


def append(file: int, data: bytes) -> None:
    """Append all of the data, which a single write may not."""
    unwritten = memoryview(data)
    while unwritten:
        unwritten = unwritten[os.write(file, unwritten) :]


def append_durably(file: int, data: bytes) -> None:
    """Append data that is on the disk when this returns; after an error the file is as before."""
    size = os.fstat(file).st_size
    try:
        append(file, data)
        os.fsync(file)
    except OSError:
        os.ftruncate(file, size)  # half a line would be left
        raise


@contextlib.contextmanager
def locked_file(path: Path, *, create: bool = True) -> Iterator[int]:
    """Open and lock a file for appending."""
    while True:
        with translate_write_errors(path):
            file = open_for_appending(path, create=create)
        try:
            _lock(file, path)
            if is_file_at(file, path):
                yield file
                return
        finally:
            os.close(file)


def is_file_at(file: int, path: Path) -> bool:
    """Whether the open file is still the one at the path; another process may have deleted or replaced it."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _lock(file: int, path: Path) -> None:
    end = time.monotonic() + LOCK_TIMEOUT_S
    with contextlib.suppress(OSError):  # not supported by every file system
        while not _try_lock(file):
            if time.monotonic() > end:
                problem = f"is locked by another process (waited {LOCK_TIMEOUT_S:g} s); try again"
                raise DataFileError(path, None, problem)
            time.sleep(0.002)


def _try_lock(file: int) -> bool:
    """Lock a file until it is closed; whether no other process has locked it."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(file, _WINDOWS_LOCK_PLACE, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
    else:
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def sync_directory(path: Path) -> None:
    """Write the entry of a new file in its directory to disk."""
    with contextlib.suppress(OSError):  # not supported by every file system, nor by Windows
        directory = os.open(path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def is_writable(path: Path) -> bool:
    """Whether the file may be written to."""
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
