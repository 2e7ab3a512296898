"""Golden metadata of metrics, the columns that a store keeps of a result, and the words that results and reports store."""

import json
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

import auepora_eval
from auepora_eval import BatchMetric, Conventions, RunStore, TargetCategory, evaluate, metric
from auepora_eval.compare import ComparisonKind
from auepora_eval.compare.analysis import Adjustment
from auepora_eval.compare.queries import Cause, ChunkerVersionMatch, MetricScope
from auepora_eval.compare.types import DowngradeReason, Verdict
from auepora_eval.core.conventions import PRESETS
from auepora_eval.core.registry import metric_infos, spec_of
from auepora_eval.core.scores import Status
from auepora_eval.core.types import FrameKind
from auepora_eval.engine.executors import ExecutorName
from auepora_eval.engine.repeats import evaluate_repeats
from auepora_eval.errors import MetricDefinitionError
from auepora_eval.gates import GateOutcome, GateReport, GateStatus
from auepora_eval.io.labels import Provenance
from auepora_eval.judge.nugget_lists import ASSIGNMENTS, Importance
from auepora_eval.judge.openai import SchemaMode
from auepora_eval.plan.gates import IntervalPart, Operator
from auepora_eval.stats.intervals import Interval
from auepora_eval.store import RunStatus
from auepora_eval.systems.calls import EndReason
from auepora_eval.text.sentences import Style
from helpers.golden import GOLDEN, check_golden
from helpers.golden_metrics import MODEL_SPECS, SPECS, load_outputs, load_samples, quiet, spec_text

Auepora = Callable[..., tuple[int, str, str]]
PROSE = ("summary", "formula", "text", "failures", "reference")
"""What a metric card says in sentences: it may be reworded."""


# --- metadata --------------------------------------------------------------------------------------------------------


def test_metric_cards(auepora: Auepora) -> None:
    """``auepora metrics --json`` without its sentences: names, targets, ranges, options, skip reasons, prompts."""
    code, out, _ = auepora("metrics", "--json")
    assert code == 0
    cards = [card for card in json.loads(out) if card["name"] in {*SPECS, *MODEL_SPECS}]
    for card in cards:
        for key in PROSE:
            card[key] = type(card[key]).__name__
        card["skips"] = list(card["skips"])
        card["prompts"] = list(card["prompts"])
    check_golden("metrics/cards.json", cards)


def test_metric_properties() -> None:
    """Per spec what the metric object declares, and the spec that a plan stores for it; names and signatures are recorded with the values."""
    found = {}
    for specs in SPECS.values():
        for spec, options in specs:
            built = metric(spec, **options)
            assert isinstance(built, BatchMetric)
            found[spec_text(spec, options)] = {
                "target": built.target.name,
                "range": "{:g} {:g}".format(*built.range),
                "higher_is_better": built.higher_is_better,
                "binary": built.metadata.binary,
                "worst": built.worst,
                "reducer": built.reducer.name,
                "required_fields": " ".join(built.required_fields()),
                "spec": _spec(built),
            }
    check_golden("metrics/properties.json", found)


def _spec(built: BatchMetric) -> Any:
    """The spec that builds the metric again; none where an option is a critic or a function."""
    try:
        return spec_of(built)
    except MetricDefinitionError:
        return None


def test_every_registered_metric_has_a_card() -> None:
    recorded = {card["name"] for card in json.loads((GOLDEN / "metrics/cards.json").read_text(encoding="utf-8"))}
    assert recorded == {*SPECS, *MODEL_SPECS} <= set(metric_infos())


def test_metrics_chosen_by_default(auepora: Auepora) -> None:
    """The metrics that ``auepora score`` runs where none is named, in their order."""
    folder = GOLDEN / "metrics"
    code, out, _ = auepora("score", str(folder / "samples.jsonl"), str(folder / "outputs.jsonl"), "--json")
    results = json.loads(out)["results"]
    check_golden("metrics/chosen_by_default.json", {"code": code, "results": [one["signature"] for one in results]})


# --- stored columns --------------------------------------------------------------------------------------------------


def test_stored_columns(tmp_path: Path) -> None:
    """The rows of ``eval_scores``: names and order of the columns, and what is packed into each."""
    names = ["recall@3", "exact_match", "bleu", "noise_robustness", "failure_attribution", "distinct_n", "rejection_f1"]
    samples, outputs = load_samples(), load_outputs()
    second = {**outputs, **load_outputs("second_outputs.jsonl")}
    repeats = [lambda each=each: [each.get(one.sample_id) for one in samples] for each in (outputs, second)]
    with RunStore.open(tmp_path / "runs.sqlite") as store, quiet():
        for run_id, results in (
            ("once", evaluate(samples, outputs, names)),
            ("twice", evaluate_repeats(samples, repeats, ["recall@3", "bleu", "rejection_f1", "noise_robustness"])),
        ):
            store.create_run(run_id, samples, dataset_name="batch", plan={"metrics": names}, run_id=run_id)
            store.put_results(run_id, results, reducers={one: metric(one).reducer.name for one in names})  # type: ignore[attr-defined]
    connection = sqlite3.connect(tmp_path / "runs.sqlite")
    connection.row_factory = sqlite3.Row
    rows = [dict(row) for row in connection.execute("SELECT * FROM eval_scores ORDER BY run_id, position")]
    connection.close()
    found = {}
    for row in rows:
        row["computed_at"] = "TIME"
        found[f"{row['run_id']} {row['name']}"] = {
            **row,
            "result_json": {key: type(value).__name__ for key, value in json.loads(row["result_json"]).items()},
            **_packed([row[name] for name in PACKED]),
            "repeats": None
            if row["repeats"] is None
            else [_packed(columns) for columns in msgspec.msgpack.decode(row["repeats"])],
        }
    check_golden("metrics/stored_columns.json", found)


PACKED = ("rows", "values", "status", "reason_codes", "reasons", "statistics", "width", "keys_json")
"""The columns of one repeat, in the order in which they are packed one after the other."""


def _packed(columns: list[Any]) -> dict[str, Any]:
    """The packed columns of a result, or of one repeat, made readable; the order decides what each is read as."""
    assert len(columns) == len(PACKED)
    rows, values, status, codes, reasons, statistics, width, keys = columns
    assert isinstance(rows, int)
    return {
        "rows": rows,
        "values": struct.unpack(f"<{rows}d", values),
        "status": "".join(map(str, struct.unpack(f"<{rows}B", status))),
        "reason_codes": " ".join(map(str, struct.unpack(f"<{rows}h", codes))),
        "reasons": json.loads(reasons),
        # The first two samples are enough to see how statistics and keys are packed.
        "statistics": None if statistics is None else struct.unpack_from(f"<{2 * width}d", statistics),
        "width": width,
        "keys_json": None if keys is None else json.loads(keys)[:2],
    }


# --- words -----------------------------------------------------------------------------------------------------------


def test_words() -> None:
    """Words that are stored, printed as keys, or compared with by readers of stored data."""
    check_golden(
        "metrics/words.json",
        {
            "outcomes": {status.name.lower(): int(status) for status in Status},
            "targets": {target.name: target.value for target in TargetCategory},
            "verdicts": get_args(Verdict),
            "verdict_doubts": get_args(DowngradeReason),
            "comparison_kinds": {kind.name: kind.value for kind in ComparisonKind},
            "causes": {cause.name: cause.value for cause in Cause},
            "cause_scopes": {scope.name: scope.value for scope in MetricScope},
            "chunker_version_match": get_args(ChunkerVersionMatch),
            "adjustments": get_args(Adjustment),
            "interval_methods": get_args(get_type_hints(Interval)["method"]),
            "run_statuses": {status.name: status.value for status in RunStatus},
            "gate_statuses": {status: _exit_code(status) for status in get_args(GateStatus)},
            "gate_operators": get_args(Operator),
            "gate_parts": get_args(IntervalPart),
            "call_endings": get_args(EndReason),
            "executors": get_args(ExecutorName),
            "frames": get_args(FrameKind),
            "label_provenance": get_args(Provenance),
            "nugget_importance": get_args(Importance),
            "nugget_assignments": ASSIGNMENTS,
            "citation_styles": get_args(Style),
            "judge_schema_modes": get_args(SchemaMode),
            "conventions": {
                name: {key: getattr(preset, key) for key in Conventions.__dataclass_fields__}
                for name, preset in PRESETS.items()
            },
            "convention_choices": {
                key: get_args(hint) for key, hint in get_type_hints(Conventions).items() if get_origin(hint) is Literal
            },
        },
    )


def _exit_code(status: Any) -> int:
    return GateReport((GateOutcome("recall@5 > 0", status, "made"),)).exit_code


def test_recorded_reasons_still_exist() -> None:
    """Every reason in ``reasons.json`` (of skips, failures and flags) is still a string in the source of the package."""
    source = "\n".join(file.read_text(encoding="utf-8") for file in Path(auepora_eval.__file__).parent.rglob("*.py"))
    recorded: dict[str, list[str]] = json.loads((GOLDEN / "metrics" / "reasons.json").read_text(encoding="utf-8"))
    missing = {kind: [one for one in reasons if f'"{one}"' not in source] for kind, reasons in recorded.items()}
    assert not any(missing.values()), missing


def test_reasons_of_the_registry_are_recorded() -> None:
    recorded: dict[str, list[str]] = json.loads((GOLDEN / "metrics" / "reasons.json").read_text(encoding="utf-8"))
    declared = {reason for info in metric_infos().values() for reason in info.metadata.skip_reasons}
    assert declared <= set(recorded["skipped"])
