"""Faults for the suites in ``tests/faults``: mutated bytes, and writes that fail in a process of its own."""

import ctypes
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from auepora_eval.cli.main import main
from helpers.requirements import missing, profile

IS_COMPLETE = profile() == "thorough"
"""Whether the suites run in full; the short form takes less than a minute."""


def rounds(complete: int, short: int) -> int:
    """How often a fault is tried."""
    return complete if IS_COMPLETE else short


def mutate(data: bytes, rng: random.Random) -> bytes:
    """The bytes with a fault: flipped bits, a cut, zeros, a part twice or missing, or other bytes in between."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        size = len(changed)
        start = rng.randrange(max(size, 1))
        end = min(size, start + rng.choice((1, 1, 2, 8, 64, 700)))
        kind = rng.randrange(7)
        if kind == 0:
            for place in range(start, end):
                changed[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del changed[start:]
        elif kind == 2:
            changed[start:end] = bytes(end - start)
        elif kind == 3:
            changed[start:start] = changed[start:end]
        elif kind == 4:
            del changed[start:end]
        elif kind == 5:
            changed[start:end] = rng.randbytes(end - start)
        else:
            changed[start:start] = rng.choice(ODD)
    return bytes(changed)


ODD = (
    b"\xff\xfe", b"\0", b"\xed\xa0\x80", b"NaN", b"-1e999", b"9" * 400, b'"', b"{", b"[" * 300, b"null", b"\n", b"\r",
    b"\xe2\x80\xa8", b"true", b'{"a":1}', b"&a [*a]", b"!!python/object:os.system", b"\x1f\x8b\x08", b"\t", b",",
)  # fmt: skip
"""What parsers stumble over."""


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Run ``auepora`` in this process: its exit code and stderr. Anything but an exit with a code is a failure."""
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    code = stopped.value.code
    assert isinstance(code, int)
    captured = capsys.readouterr()
    reported = captured.out if arguments[0] == "validate" and code else ""  # the problems are its result
    return code, f"{'Error: ' if reported else ''}{reported}{captured.err}"


def problem_of(code: int, message: str) -> str | None:
    """What is wrong with the end of a command that read damaged input; ``None`` if it is as it should be."""
    if "Traceback" in message:
        return "a traceback"
    if code == 4 and message.count("Error: unexpected ") != 1:
        return f"exit code 4 without its line: {message[-300:]}"
    if code not in (0, 1, 2, 3, 4):
        return f"exit code {code}: {message[-300:]}"
    if code == 2 and "Error" not in message:
        return "an exit without an error"
    return None


# --- writes that fail ------------------------------------------------------------------------------------------------

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
#include <stdio.h>

static long countdown = -1;
static int error_number = 0;
static int is_broken = 0;
static char folder[4096];

void fault_arm(long n, int error, int stays, const char *path) {
  countdown = n; error_number = error; is_broken = stays ? 0 : -1;
  strncpy(folder, path, sizeof folder - 1);
}
long fault_left(void) { return countdown; }

static int fails(int fd) {
  char link[64], path[4096];
  if (countdown < 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n <= 0) return 0;
  path[n] = 0;
  if (strncmp(path, folder, strlen(folder))) return 0;
  if (is_broken == 1) { errno = error_number; return 1; }
  if (countdown-- > 0) return 0;
  if (is_broken == 0) { is_broken = 1; countdown = 0; } else countdown = -1;
  errno = error_number;
  return 1;
}
#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name)) dlsym(RTLD_NEXT, #name)
ssize_t write(int fd, const void *data, size_t size) { REAL(write); return fails(fd) ? -1 : real(fd, data, size); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { REAL(pwrite); return fails(fd) ? -1 : real(fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { REAL(pwrite64); return fails(fd) ? -1 : real(fd, data, size, at); }
int fsync(int fd) { REAL(fsync); return fails(fd) ? -1 : real(fd); }
int fdatasync(int fd) { REAL(fdatasync); return fails(fd) ? -1 : real(fd); }
int ftruncate64(int fd, off64_t size) { REAL(ftruncate64); return fails(fd) ? -1 : real(fd, size); }
"""
"""Calls of the C library that write, of which the n-th to a file of a folder fails, once or from then on."""


@cache
def shim() -> Path:
    """The library with these calls, compiled once."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        missing("a C compiler on Linux")
    folder = Path(tempfile.mkdtemp(prefix="auepora-faults-"))
    source, library = folder / "shim.c", folder / "shim.so"
    source.write_text(SHIM)
    subprocess.run([str(compiler), "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    return library


def run_with_shim(module: str, *arguments: str) -> str:
    """Run a module with the failing calls in a process of its own; its output, or a failure with its errors."""
    environment = {**os.environ, "LD_PRELOAD": str(shim()), "AUEPORA_SHIM": str(shim())}
    command = [sys.executable, "-W", "ignore", "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, cwd=TESTS)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


TESTS = Path(__file__).resolve().parents[1]


def arm(n: int, error: int, folder: Path, *, stays: bool) -> None:
    """Let the n-th write to a file of the folder fail, from 0; with ``stays`` every later one, too."""
    library = ctypes.CDLL(os.environ["AUEPORA_SHIM"])
    library.fault_arm(ctypes.c_long(n), error, int(stays), str(folder).encode())


def is_pending() -> bool:
    """Whether the fault has not happened yet: there were fewer writes."""
    return bool(ctypes.CDLL(os.environ["AUEPORA_SHIM"]).fault_left() > 0)


def forked_lines(action: Callable[[Callable[[str], None]], None]) -> Iterator[str]:
    """Run an action in a child; yield the lines that it reports. Its death by an exception is a failure."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)

            def report(line: str) -> None:
                os.write(writing, f"{line}\n".encode())

            action(report)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as lines:
        yield from (line.rstrip("\n") for line in lines)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        raise AssertionError(f"the writer ended with {status}")
