"""Runs kept in a database: what was asked, what came back, what it scored.

============== ==========================================================================================
module         what it holds
============== ==========================================================================================
runs           ``RunStore``: everything a user of the store needs; ``read_once``: one for a task that reads much twice
records        ``RunRecord``, ``RunStatus``, ``StoredOutput``: what it hands out
run_rows       runs: listed, found by any name, changed
sample_rows    samples, once per dataset
output_rows    outputs, as they arrive
judgement_rows what judges said of samples
results        results of metrics, by name and signature; ``columns``: their outcomes as bytes
texts          texts of documents, once each, by hash
packing        samples and outputs as bytes
deletion       deleting runs and what only they refer to
schema         the tables; ``migrations``: how they came about
connect        SQLite and PostgreSQL; ``faults``: what went wrong, in words
ids            ids of runs, times in UTC; ``processes``: who makes a run, and whether it still lives
============== ==========================================================================================
"""

from .judgement_rows import StoredJudgement
from .records import RunRecord, RunStatus, StoredOutput
from .runs import RunStore

__all__ = ["RunRecord", "RunStatus", "RunStore", "StoredJudgement", "StoredOutput"]
