"""Peak memory of ``auepora`` on files with a line, or a Parquet page, above the limit, which are refused.

    python -m benchmarks.large_lines [--quick]

Prints Markdown. The lines have a gigabyte, those of compressed files two; the compressed files themselves are small.
``--quick`` writes a fifth of that.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from auepora_eval.runtime.files import atomic_write

BLOCK = b"x" * (1 << 20)
TARGET = 200
"""In megabytes."""


def write_line(path: Path, megabytes: int) -> Path:
    """A short sample, and one with a query of that size."""
    with atomic_write(path) as file:
        file.write(b'{"sample_id": "a", "query": ""}\n{"sample_id": "b", "query": "')
        for _ in range(megabytes):
            file.write(BLOCK)
        file.write(b'"}\n')
    return path


def write_page(path: Path, megabytes: int) -> Path:
    """The same as a table; in a process of its own, since it needs much memory."""
    script = (
        "import sys, pyarrow as pa; from pyarrow import parquet\n"
        "table = pa.table({'sample_id': ['a', 'b'], 'query': ['', 'x' * (int(sys.argv[2]) << 20)]})\n"
        "parquet.write_table(table, sys.argv[1], compression='zstd', use_dictionary=False)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(path), str(megabytes)], check=True)
    return path


def peak_memory(*arguments: str) -> tuple[float, str]:
    """Megabytes of a command that refuses a file, and what it prints."""
    command = [sys.executable, "-m", "auepora_eval", *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        message = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 2, message
    return usage.ru_maxrss / 1024, message.strip().splitlines()[-1]


def files(folder: Path, megabytes: int) -> Iterator[Path]:
    yield write_line(folder / "line.jsonl", megabytes)
    yield write_line(folder / "line.jsonl.gz", 2 * megabytes)
    yield write_line(folder / "line.jsonl.zst", 2 * megabytes)
    if find_spec("pyarrow") is not None:
        yield write_page(folder / "page.parquet", megabytes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the data")
    megabytes = 200 if parser.parse_args().quick else 1000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        outputs = folder / "outputs.jsonl"
        outputs.write_text('{"sample_id": "a", "response": {"text": ""}}\n')
        print(f"| file | size | command | peak, target {TARGET} MB | message |\n|---|---|---|---|---|")
        for path in files(folder, megabytes):
            shards = folder / f"shards-{path.name}"
            shards.mkdir()
            path.rename(shards / path.name)
            for what, data in (("one file", shards / path.name), ("a folder of files", shards)):
                peak, message = peak_memory("score", str(data), str(outputs))
                size = (shards / path.name).stat().st_size
                print(f"| {path.name} | {size / 1e6:,.2f} MB | score, {what} | {peak:.0f} MB | {message} |", flush=True)
            (shards / path.name).unlink()


if __name__ == "__main__":
    main()
