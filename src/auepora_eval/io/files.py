"""Files as bytes: reading with clear errors, gzip and zstd by suffix, atomic writes."""

import contextlib
import gzip
import os
import secrets
import stat
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, cast

from ..core.errors import DataFileError
from .zstd import ZstdDamagedError, zstd_reader, zstd_writer

__all__ = [
    "atomic_write",
    "is_compressed",
    "open_bytes",
    "plain_stem",
    "plain_suffix",
    "read_bytes",
    "read_head",
    "read_lines",
    "write_lines",
]

_BOM = b"\xef\xbb\xbf"
_COMPRESSED = (".gz", ".zst")
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


def read_head(path: Path) -> str:
    """Return the first characters of a file; bytes that are not UTF-8 are replaced."""
    if path.is_fifo():
        raise DataFileError(path, None, "is a pipe, which cannot be read twice; write it to a file first")
    with open_bytes(path) as file:
        return _strip_bom(path, file.read(_HEAD_BYTES)).decode(errors="replace")


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank, each with its number; a byte order mark is dropped."""
    with _translate_read_errors(path), _open(path) as file:
        for number, line in enumerate(file, start=1):
            content = _strip_bom(path, line) if number == 1 else line
            if content and not content.isspace():
                yield number, content


def read_bytes(path: Path) -> bytes:
    """Return the whole content without a byte order mark. Anything but UTF-8 is an error that names the line."""
    with _translate_read_errors(path), _open(path) as file:
        data = _strip_bom(path, file.read())
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
        for line in lines:  # outside `_translate_write_errors`: errors of the caller's iterable are not translated
            with _translate_write_errors(path):
                file.write(line)
                file.write(b"\n")


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces ``path`` at the end; on failure the old file stays.

    A device or a pipe is written to directly, since it cannot be replaced.
    """
    if _is_special(path):
        with _write_in_place(path) as file:
            yield file
        return
    target = Path(os.path.realpath(path))  # a symbolic link is followed, not replaced
    if target.is_dir():
        raise DataFileError(path, None, "is a directory, not a file")
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    with _translate_write_errors(path):
        raw = temporary.open("xb")
    file = _compressor(path, raw)
    try:
        yield file
        with _translate_write_errors(path):
            if file is not raw:
                file.close()
            raw.flush()
            os.fsync(raw.fileno())
            raw.close()
            if target.exists():
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            os.replace(temporary, target)
    except BaseException:
        _close_quietly(file, raw)
        temporary.unlink(missing_ok=True)
        raise


def _is_special(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextlib.contextmanager
def _write_in_place(path: Path) -> Iterator[IO[bytes]]:
    with _translate_write_errors(path):
        raw = path.open("wb")
    file = _compressor(path, raw)
    try:
        yield file
        with _translate_write_errors(path):
            file.close()
            raw.close()
    finally:
        _close_quietly(file, raw)


def _compressor(path: Path, raw: IO[bytes]) -> IO[bytes]:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        # No name and no time in the archive: equal data gives equal bytes.
        return cast(IO[bytes], gzip.GzipFile("", "wb", fileobj=raw, mtime=0))
    return zstd_writer(raw) if suffix == ".zst" else raw


def _close_quietly(*files: IO[bytes]) -> None:
    for file in files:
        with contextlib.suppress(OSError, ValueError):
            file.close()


def _open(path: Path) -> IO[bytes]:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    return zstd_reader(path) if suffix == ".zst" else path.open("rb")


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
def _translate_write_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataFileError(path, None, f"cannot be written: {error.strerror or error}") from error
