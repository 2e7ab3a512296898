"""Writers that are killed in the middle of it: whatever was acknowledged is there."""

import os
import random
import signal

import pytest

from auepora_eval.core.types import Document, Response, RetrievedDocument, SystemOutputs
from auepora_eval.store import RunStore, StoredOutput
from helpers.forks import forked

ROUNDS, WRITERS, AT_ONCE = 20, 2, 3


def output(position: int) -> SystemOutputs:
    hits = [RetrievedDocument(Document(f"d{n}", f"text {n} " * 50), 1 / (n + 1), rank) for rank, n in enumerate(range(position, position + 5), 1)]  # fmt: skip
    return SystemOutputs(hits, Response(f"answer {position}"), {"end_to_end": 0.5})


def write_forever(url: str, run_id: str, repeat: int, acknowledged: int) -> None:
    """Store outputs and report each one when it is stored."""
    with RunStore.open(url) as store:
        for start in range(0, 10**9, AT_ONCE):
            rows = [StoredOutput(n, repeat, f"q{n}", output(n)) for n in range(start, start + AT_ONCE)]
            store.append(run_id, rows)
            os.write(acknowledged, b"".join(b"%d\n" % row.position for row in rows))


def start_writer(url: str, run_id: str, repeat: int) -> tuple[int, int]:
    """Start a process that writes, and return the file of its reports."""
    reading, writing = os.pipe()
    process = forked(lambda: write_forever(url, run_id, repeat, writing))
    os.close(writing)
    return process, reading


@pytest.mark.slow
def test_no_acknowledged_row_is_lost(url: str) -> None:
    rng = random.Random(0)
    acknowledged_total = 0
    for _ in range(ROUNDS):
        with RunStore.open(url) as store:
            run_id = store.create_run("killed", [], dataset_name="d", plan={}, repeats=WRITERS).run_id
        writers = [start_writer(url, run_id, repeat) for repeat in range(WRITERS)]
        enough = rng.randint(1, 60)
        heard = [b"" for _ in writers]
        while heard[0].count(b"\n") < enough:
            part = os.read(writers[0][1], 4096)
            assert part, "the writer ended by itself"
            heard[0] += part
        for process, _ in writers:
            os.kill(process, signal.SIGKILL)
        for number, (process, reading) in enumerate(writers):
            assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
            while part := os.read(reading, 4096):
                heard[number] += part
            os.close(reading)
        acknowledged = {(int(line), number) for number, lines in enumerate(heard) for line in lines.split()}
        acknowledged_total += len(acknowledged)
        with RunStore.open(url) as store:
            assert acknowledged <= store.done(run_id)
            for stored in store.outputs(run_id):
                assert stored.output == output(stored.position)
            store.append(run_id, [StoredOutput(10**6, 0, "q", output(0))])  # the store is still usable
    assert acknowledged_total > ROUNDS
