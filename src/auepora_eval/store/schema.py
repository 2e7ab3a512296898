"""The current tables; ``migrations`` creates them."""

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, PrimaryKeyConstraint, Table, Text

__all__ = ["documents", "judgements", "metadata", "query_results", "runs", "samples", "scores", "versions"]

metadata = MetaData()

versions = Table(
    "eval_schema",
    metadata,
    Column("version", Integer, nullable=False),
    Column("deletions", BigInteger, nullable=False),
)
"""One row. ``deletions`` counts deletions of runs: after one, cached keys of texts are invalid."""

runs = Table(
    "eval_runs",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("finished_at", Text),
    Column("plan_json", Text, nullable=False),
    Column("config_json", Text, nullable=False),
    Column("dataset_name", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("num_samples", Integer, nullable=False),
    Column("repeats", Integer, nullable=False),
    Column("commit_hash", Text),
    Column("tags_json", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("process", Text, nullable=False),
    Column("aggregate_json", Text),
    Column("message", Text),
    Column("usage_json", Text),
)

query_results = Table(
    "eval_query_results",
    metadata,
    Column("run_id", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("repeat", Integer, nullable=False),
    Column("sample_id", Text, nullable=False),
    Column("error", Text),
    Column("outputs", LargeBinary, nullable=False),
    PrimaryKeyConstraint("run_id", "repeat", "position"),
)

samples = Table(
    "eval_samples",
    metadata,
    Column("fingerprint", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("sample", LargeBinary, nullable=False),
    PrimaryKeyConstraint("fingerprint", "position"),
)

documents = Table(
    "eval_documents",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("text", LargeBinary, nullable=False),
)
"""The texts are UTF-8 bytes, since TEXT of PostgreSQL cannot store every character."""

scores = Table(
    "eval_scores",
    metadata,
    Column("run_id", Text, nullable=False),
    Column("score_key", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("signature", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("reducer", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("computed_at", Text, nullable=False),
    Column("result_json", Text, nullable=False),
    Column("rows", Integer, nullable=False),
    Column("values", LargeBinary),
    Column("status", LargeBinary),
    Column("reason_codes", LargeBinary),
    Column("reasons", Text),
    Column("statistics", LargeBinary),
    Column("width", Integer),
    Column("keys_json", Text),
    Column("repeats", LargeBinary),
    PrimaryKeyConstraint("run_id", "score_key"),
)
"""``score_key`` is a hash of name and signature, which may be too long for a key."""

judgements = Table(
    "eval_judgements",
    metadata,
    Column("run_id", Text, nullable=False),
    Column("score_key", Text, nullable=False),
    Column("repeat", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("judge_repeat", Integer, nullable=False),
    Column("request", Text, nullable=False),
    Column("metric", Text, nullable=False),
    Column("signature", Text, nullable=False),
    Column("critic", Text, nullable=False),
    Column("prompt_id", Text, nullable=False),
    Column("reason", Text),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("run_id", "score_key", "repeat", "position", "judge_repeat", "request"),
)
"""``score_key`` as in ``scores``, for the metric of the request."""
