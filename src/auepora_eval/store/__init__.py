"""The store: a database of runs with their samples, outputs, results and judgements.

* ``runs``: ``RunStore``, the public class; what each dataset decided: comparisons, sweeps, gates, sequential designs
* ``records``: ``RunRecord``, ``RunStatus``, ``StoredOutput``; ids, times, settings of a stored plan
* ``transactions``: the base of ``RunStore``: opening, transactions, secrets
* ``rows``: rows of runs, samples, outputs, results and judgements; deletion
* ``score_columns``: scores as columns of bytes
* ``texts``: samples and outputs as bytes, with document texts stored once
* ``schema``: the tables, and the migrations that create them
* ``connect``: connections to SQLite and PostgreSQL
"""

from .records import RunRecord, RunStatus, StoredOutput
from .rows import StoredJudgement
from .runs import RunStore

__all__ = ["RunRecord", "RunStatus", "RunStore", "StoredJudgement", "StoredOutput"]
