"""Write the table of the types and defaults of plan keys into ``docs/plans.md``:  python -m tools.plan_keys"""

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

from auepora_eval.io.problems import join_key
from auepora_eval.judge.critic import JudgePolicy, Price
from auepora_eval.options import describe_type, option_types
from auepora_eval.plan.model import (
    RUN_DEFAULTS,
    CommandSource,
    DecisionSource,
    GoldSettings,
    HttpSource,
    OpenAISource,
    PanelSource,
    PlanKeys,
    PythonSource,
    RecordedSource,
    RunSettings,
    Scoring,
    StopSettings,
    TwoStageKeys,
)
from auepora_eval.plan.source import InFolder, Variables, default_of, is_optional, split_hint
from auepora_eval.plan.sweep import SweepKeys
from auepora_eval.store.sweeps import SweepBudget

PAGE = Path(__file__).parent.parent / "docs" / "plans.md"
MARKS = ("<!-- Written by `make docs`. -->\n", "<!-- end -->\n")
SECTIONS: list[tuple[str, type, Mapping[str, Any]]] = [
    ("", PlanKeys, {}),
    ("system", PythonSource, {}),
    ("system.http", HttpSource, {}),
    ("system.command", CommandSource, {}),
    ("resources.NAME", PythonSource, {}),
    ("resources.NAME.openai", OpenAISource, {}),
    ("resources.NAME.decisions", DecisionSource, {}),
    ("resources.NAME.recorded", RecordedSource, {}),
    ("resources.NAME.panel", PanelSource, {}),
    ("gold", GoldSettings, {}),
    ("run", RunSettings, RUN_DEFAULTS),
    ("scoring", Scoring, {}),
    ("judge", JudgePolicy, {"cache": None}),
    ("judge.prices.MODEL", Price, {}),
    ("run.prices.MODEL", Price, {}),
    ("judge.stop", StopSettings, {}),
    ("judge", TwoStageKeys, {}),
    ("sweep", SweepKeys, {}),
    ("sweep.budget", SweepBudget, {}),
]


def key_rows() -> list[str]:
    """One row of the table for each key."""
    rows = []
    for section, declared, defaults in SECTIONS:
        for one in fields(declared):
            hint = option_types(declared)[one.name]
            default = defaults.get(one.name, default_of(one))
            shown = "required" if default is MISSING else f"`{json.dumps(default, ensure_ascii=False)}`"
            rows.append(f"| `{join_key(section, one.name)}` | {type_text(hint)} | {shown} |")
    return rows


def type_text(hint: Any) -> str:
    """A type in words, with what its markers mean."""
    plain, markers = split_hint(hint)
    text = "any value" if plain is Any else "path" if plain is Path else describe_type(plain)
    if is_dataclass(plain):
        text = "mapping"
    if is_optional(hint):
        text += " or `null`"
    if any(isinstance(one, InFolder) for one in markers) and plain is not Path:
        text += ", a path"
    return f"{text}, may contain `${{NAME}}`" if any(isinstance(one, Variables) for one in markers) else text


def page_text() -> str:
    """The page with the current table."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    table = "\n".join(["| key | type | default |", "|---|---|---|", *key_rows(), ""])
    return f"{before}{MARKS[0]}\n{table}\n{MARKS[1]}{after}"


if __name__ == "__main__":
    PAGE.write_text(page_text(), encoding="utf-8")
