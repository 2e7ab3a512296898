"""The store: a database of runs with their samples, outputs, results and judgements.

============== ==========================================================================================
module         contents
============== ==========================================================================================
runs           ``RunStore``: the public class; ``cached_store``: a store that caches what it reads
records        ``RunRecord``, ``RunStatus``, ``StoredOutput``: the returned types
run_rows       runs: list, find by id, prefix or name, update
sample_rows    samples, once per dataset
output_rows    outputs, written as they arrive
judgement_rows judgements of samples
results        results of metrics, by name and signature; ``score_columns``: their scores as bytes
texts          texts of documents, once each, by hash
packing        samples and outputs as bytes
stored_plan    conventions and run settings of a stored plan
deletion       deletion of runs and of unreferenced samples and texts
schema         the tables; ``migrations``: the steps that create them
connect        SQLite and PostgreSQL; ``driver_errors``: messages for database errors
ids            ids of runs, times in UTC; ``processes``: whether the process of a run is alive
============== ==========================================================================================
"""

from .records import RunRecord, RunStatus, StoredOutput
from .rows import StoredJudgement
from .runs import RunStore

__all__ = ["RunRecord", "RunStatus", "RunStore", "StoredJudgement", "StoredOutput"]
