"""Writers of every kind of file, of which the n-th write fails: ``python -m helpers.fault_writers KIND FOLDER N ...``.

It runs with the library of ``helpers.faults`` preloaded. Each n has a folder and a child of its own. The writer reports
what was acknowledged before the fault, and the files are read again without one. A line is printed for each problem, and
one with the number of faults at the end.
"""

import errno
import sys
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from auepora_eval.core.types import Response, SystemOutputs
from auepora_eval.engine.executors import SerialExecutor
from auepora_eval.errors import AueporaError
from auepora_eval.io.grades import Correction, CorrectionLog
from auepora_eval.io.labels import Label, LabelEvent, LabelJournal, LabelKey, read_labels
from auepora_eval.judge.cache import JudgementCache
from auepora_eval.judge.critic import Judgement, JudgeRequest, Usage
from auepora_eval.judge.openai import OpenAICritic
from auepora_eval.store import RunStore, StoredOutput
from helpers.checkpoints import expected, same, scored_into
from helpers.faults import arm, forked_lines, is_pending, rounds

Report = Callable[[str], None]
RUNS, JUDGEMENTS, LABELS, CORRECTIONS = rounds(16, 3), rounds(80, 12), rounds(160, 15), rounds(200, 12)
"""How much is written: in the complete form more than 400 writes of each kind, but for checkpoints, which have 33."""
AFTER = 12
"""So many things are acknowledged after a fault."""
ENDS = 4
"""After so many faults that came later than the last write, later ones are not tried."""


class Writer(NamedTuple):
    """How a kind of file is prepared, written and read again."""

    prepare: Callable[[Path], None]
    write: Callable[[Path, Report], None]
    """Reports each thing that is acknowledged."""
    read: Callable[[Path], set[str]]
    """What is there after the fault; raises for files that cannot be read."""


# --- the store -------------------------------------------------------------------------------------------------------


def _prepare_store(folder: Path) -> None:
    with RunStore.open(folder / "runs.sqlite") as store:
        store.create_run("first", [], dataset_name="d", plan={}, run_id="run_first")


def _write_store(folder: Path, report: Report) -> None:
    with RunStore.open(folder / "runs.sqlite") as store:
        for number in range(RUNS):
            run = f"run_{number}"
            store.create_run(f"name {number}", [], dataset_name="d", plan={"n": number}, run_id=run)
            report(f"run {run}")
            for start in range(0, 6, 2):
                rows = [StoredOutput(n, 0, f"q{n}", SystemOutputs([], Response(f"answer {n} " * 50))) for n in range(start, start + 2)]  # fmt: skip
                store.append(run, rows)
                report(f"rows {run} {start}")
            store.finish(run)
            report(f"end {run}")


def _read_store(folder: Path) -> set[str]:
    found = set()
    with RunStore.open(folder / "runs.sqlite") as store:
        for record in store.runs():
            found.add(f"run {record.run_id}")
            positions = {row.position for row in store.outputs(record.run_id)}
            found |= {f"rows {record.run_id} {start}" for start in range(0, 6, 2) if {start, start + 1} <= positions}
            if record.status == "finished":
                found.add(f"end {record.run_id}")
    return found


# --- the cache of judgements -----------------------------------------------------------------------------------------

CRITIC = OpenAICritic("m", base_url="http://127.0.0.1:1/v1")


def _digest(number: int) -> bytes:
    return bytes([number]) * 32


def _write_cache(folder: Path, report: Report) -> None:
    cache = JudgementCache(folder / "cache.sqlite")
    for number in range(JUDGEMENTS):
        judgement = Judgement({"score": number}, Usage(1, 1), f"reply {number} " * 100)
        cache.put(_digest(number), CRITIC, JudgeRequest("Rate it.", {}), judgement)
        if cache.flush(wait=True):
            report(str(number))
    cache.close()


def _read_cache(folder: Path) -> set[str]:
    cache = JudgementCache(folder / "cache.sqlite")
    found = set()
    for number in range(JUDGEMENTS):
        judgement = cache.get(_digest(number))
        if judgement is not None:
            assert judgement.answer == {"score": number}
            found.add(str(number))
    cache.close()
    return found


# --- labels and corrections ------------------------------------------------------------------------------------------


def _write_labels(folder: Path, report: Report) -> None:
    """Labels, and an undo and a skip after every third one. After an error the same is tried once more."""
    journal = LabelJournal(folder / "labels.jsonl")
    for number in range(LABELS):
        label = Label(f"q{number}", "right", "ann", comment="a comment " * 20, id=f"s{number}")
        _try_twice(partial(journal.append, label))
        report(f"label q{number}")
        if number % 3 == 2:
            key = LabelKey(f"q{number}", "ann")
            _try_twice(partial(journal.append, LabelEvent("retract", key, id=f"u{key.sample_id}")))
            report(f"undo q{number}")


def _try_twice(append: Callable[[], object]) -> None:
    try:
        append()
    except AueporaError:
        append()


def _read_label_file(folder: Path) -> set[str]:
    path = folder / "labels.jsonl"
    if not path.exists():
        return set()
    found = {label.sample_id for label in read_labels(path)}
    everything = {f"label {one}" for one in found}
    lines = path.read_text()
    for number in range(LABELS):
        if f'"uq{number}"' in lines and f"q{number}" not in found:
            everything |= {f"label q{number}", f"undo q{number}"}
    return everything


def _write_corrections(folder: Path, report: Report) -> None:
    log = CorrectionLog(folder)
    for number in range(CORRECTIONS):
        one = Correction(f"c{number}", "grade", "f" * 16, f"q{number}", None, 1, doc_id="d", by="ann", at="2030-01-31T12:00:00+00:00", why="it is relevant " * 10)  # fmt: skip
        _try_twice(partial(log.propose, one))
        report(one.id)


def _read_corrections(folder: Path) -> set[str]:
    return {one.correction.id for one in CorrectionLog(folder).proposals()}


# --- checkpoints -----------------------------------------------------------------------------------------------------


def _write_checkpoint(folder: Path, report: Report) -> None:
    scored_into(folder / "parts", SerialExecutor())
    report("all")


def _read_checkpoint(folder: Path) -> set[str]:
    """Resuming gives the numbers of an evaluation without a fault."""
    same(scored_into(folder / "parts", SerialExecutor()), expected())
    return {"all"}


WRITERS = {
    "store": Writer(_prepare_store, _write_store, _read_store),
    "cache": Writer(lambda folder: None, _write_cache, _read_cache),
    "labels": Writer(lambda folder: None, _write_labels, _read_label_file),
    "corrections": Writer(lambda folder: None, _write_corrections, _read_corrections),
    "checkpoints": Writer(lambda folder: None, _write_checkpoint, _read_checkpoint),
}
ERRORS = (errno.EIO, errno.ENOSPC)


class _EnoughError(Exception):
    """The fault is long over."""


def _act(writer: Writer, folder: Path, n: int, report: Report) -> None:
    stays, after = n % 2 == 1, 0

    def report_some(line: str) -> None:
        nonlocal after
        report(line)
        after += not is_pending()
        if after == AFTER:
            raise _EnoughError

    arm(n // 2, ERRORS[n % 4 // 2], folder, stays=stays)
    try:
        writer.write(folder, report_some)
        report("-- complete")
    except _EnoughError:
        pass
    except AueporaError as error:
        if "Traceback" in str(error) or "\n" in str(error):
            report(f"-- message {error}")
    except Exception:
        report("-- " + traceback.format_exc().replace("\n", " | "))
    if is_pending():
        report("-- pending")
    arm(-1, 0, folder, stays=False)


def _check(writer: Writer, folder: Path, report: Report) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for one in writer.read(folder):
                report(one)
    except Exception:
        report("-- " + traceback.format_exc().replace("\n", " | "))


def main() -> None:
    """Try the faults, and print what is wrong."""
    kind, base, *numbers = sys.argv[1:]
    writer, faults, late = WRITERS[kind], 0, 0
    if kind == "checkpoints":
        for place in ("written", "resumed"):  # imports and numbers that its children would load and compute each
            _read_checkpoint(Path(base) / place)
    for number in numbers:
        if late == ENDS:
            break
        folder = Path(base) / f"{kind}-{number}"
        folder.mkdir()
        writer.prepare(folder)
        n = int(number)
        reported = list(forked_lines(partial(_act, writer, folder, n)))
        late += "-- pending" in reported
        faults += "-- pending" not in reported
        problems = [line for line in reported if line.startswith("-- ") and line not in ("-- complete", "-- pending")]
        found = set(forked_lines(partial(_check, writer, folder)))
        problems += [line for line in found if line.startswith("-- ")]
        lost = [line for line in reported if not line.startswith("-- ") and line not in found]
        if lost:
            problems.append(f"acknowledged and lost: {lost}")
        for problem in problems:
            print(f"{kind} {number}: {problem}")
    print(f"faults: {faults}")


if __name__ == "__main__":
    main()
