"""The texts of ``auepora bench``, and the page of all benchmarks in the documentation."""

from __future__ import annotations

import importlib.util
import json
import textwrap
from collections.abc import Iterable
from itertools import chain
from typing import Any

from ..core.grouping import group_pairs
from ..plan.resources import used_resources
from ..render.blocks import Block, Bullets, DefinitionList, Prose, Row, Table, simple_table
from .entries import MARKS, Benchmark, Part, PublishedMetric
from .scoring import Checked, Scored

MAX_LINES = 25
"""Of the page of ``run``: differences that do not fit are counted."""
EXTRAS = {"zh": "jieba"}
"""By extra the module that it installs."""


def number_text(value: float | None) -> str:
    """A number with four digits after the point."""
    return "–" if value is None else f"{value:.4f}"


def status_text(benchmark: Benchmark, *, has_data: bool) -> str:
    """What a benchmark lacks: its data, a judge, an extra."""
    lacks = [] if has_data else ["needs data"]
    for name in benchmark.heading.needs:
        if name not in EXTRAS:
            lacks.append(f"needs {name}")
        elif importlib.util.find_spec(EXTRAS[name]) is None:
            lacks.append(f"pip install 'auepora-eval[{name}]'")
    return ", ".join(lacks) or "ready"


def list_blocks(rows: Iterable[tuple[Benchmark, bool]]) -> list[Block]:
    """The table of ``bench list``."""
    table: list[Row] = []
    for benchmark, has_data in rows:
        heading = benchmark.heading
        names = ", ".join(dict.fromkeys(chain.from_iterable(part.metrics for part in benchmark.parts.values())))
        shown = textwrap.shorten(names, 40, placeholder=" ...")
        status = status_text(benchmark, has_data=has_data)
        table.append([benchmark.name, ", ".join(heading.targets), shown, heading.mark, status])
    marks = Prose("; ".join(f"{mark}: {text}" for mark, text in MARKS.items()))
    return [simple_table(("benchmark", "targets", "numbers", "mark", "status"), table), marks]


def licence_text(benchmark: Benchmark) -> str:
    """The licences in a line."""
    heading = benchmark.heading
    only = "; for non-commercial use only" if heading.non_commercial else ""
    return f"code {heading.code_licence}, data {heading.data_licence}{only}"


def show_blocks(benchmark: Benchmark) -> list[Block]:
    """The page of ``bench show``."""
    heading = benchmark.heading
    facts = [
        ("Survey", f"{heading.row}: {', '.join(heading.targets)}"),
        ("Paper", heading.cite),
        ("Source", heading.source),
        ("Licence", licence_text(benchmark)),
        ("Data", heading.obtain),
        ("Values", f"{heading.mark}: {MARKS[heading.mark]}"),
    ]
    blocks: list[Block] = [Prose(f"{heading.title} ({heading.name})"), DefinitionList(facts)]
    for split, part in benchmark.parts.items():
        blocks += [Prose(_part_title(split, part)), _metrics_table(part)]
    blocks.append(Bullets([*differences(benchmark), *heading.notes]))
    return blocks


def differences(benchmark: Benchmark) -> list[str]:
    """How each number differs from ours, and what else the published script does."""
    found: dict[str, None] = {}
    for part in benchmark.parts.values():
        named = [(name, published.differs) for name, published in part.metrics.items() if published.differs]
        found |= dict.fromkeys(f"{name}: {text}" for name, text in named)
    return [*found, *benchmark.heading.differs]


def _part_title(split: str, part: Part) -> str:
    named = f"--split {split}: " if split else ""
    settings = ", ".join(f"{name}={value}" for name, value in part.settings.items())
    chosen = f" Settings (--set): {settings}." if settings else ""
    return f"{named}{part.shape} Files: {', '.join(part.files)}.{chosen}"


def _metrics_table(part: Part) -> Table:
    rows: list[Row] = []
    for name, published in part.metrics.items():
        ours = "" if published.ours is None else spec_text(published.ours)
        needs = ", ".join(sorted(set(used_resources(published.metric))))
        rows.append([name, source_text(published), ours, needs])
    return simple_table(("number", "metric", "ours", "needs"), rows)


def source_text(published: PublishedMetric) -> str:
    """What a number is computed from, in a line."""
    if published.column is None:
        return spec_text(published.metric)
    against = f" against {published.against}" if published.against else ""
    return f"{published.column}{against}"


def spec_text(spec: Any) -> str:
    """A spec in a line."""
    if isinstance(spec, str):
        return spec
    ((kind, options),) = spec.items()
    shown = {name: value for name, value in (options or {}).items() if name not in ("prompt", "critic")}
    text = json.dumps(shown, ensure_ascii=False).replace('"', "")
    return f"{kind} {text}" if shown else str(kind)


def run_blocks(scored: Scored, *, strict: bool) -> list[Block]:
    """The page of ``bench run``: the conclusion first, then the numbers and how they differ from ours."""
    loaded, numbers = scored.loaded, scored.numbers
    split = f" ({loaded.split})" if loaded.split else ""
    first = numbers[0]
    lacks = f"; {len(loaded.missing)} without an output" if loaded.missing else ""
    chosen = first.value if strict else first.ours
    published = "" if strict or first.ours == first.value else f" (published: {number_text(first.value)})"
    result = f"{first.name} {number_text(chosen)}{published} on {len(loaded.samples)} samples{lacks}"
    lead = f"{loaded.benchmark.heading.title}{split}: {result}"
    has_ours = not strict and any(number.ours != number.value for number in numbers)
    kinds = ["published", "ours"] if has_ours else ["value"]
    columns = ["number", *kinds, "95 % interval", "samples"]
    rows: list[Row] = []
    for number in numbers:
        low_high = " – ".join(number_text(end) for end in number.intervals[not strict])
        values = [number_text(number.value), number_text(number.ours)][: 1 + has_ours]
        rows.append([number.name, *values, low_high, str(number.counted)])
    notes = _differences(scored)
    blocks: list[Block] = [Prose(lead), simple_table(columns, rows)]
    if notes:
        blocks.append(Bullets(notes))
    return blocks


def _differences(scored: Scored) -> list[str]:
    """What differs from the published script, what was left out, and the licence where use is restricted."""
    heading = scored.loaded.benchmark.heading
    metrics = scored.loaded.part.metrics
    differing = [number.name for number in scored.numbers if metrics[number.name].differs]
    notes = [f"{name}: {metrics[name].differs}" for name in differing]
    notes += heading.differs
    most = max(1, (MAX_LINES - 10 - len(scored.numbers)) // 2)
    if len(notes) > most:
        more = f"{len(notes) - most + 1} more differences: auepora bench show {heading.name}"
        notes = [*notes[: most - 1], more]
    reasons = group_pairs((reason, name) for name, reason in scored.left_out.items())
    notes += [f"not computed: {', '.join(names)}; {reason}" for reason, names in reasons.items()]
    if scored.documents:
        notes.append(scored.documents)
    if heading.mark == "P":
        notes.append(MARKS["P"])
    if heading.non_commercial:
        notes.append(f"licence: {licence_text(scored.loaded.benchmark)}")
    return notes


def check_blocks(rows: Iterable[tuple[Benchmark, Checked]]) -> list[Block]:
    """The table of ``bench check``: one row per example."""
    table: list[Row] = []
    for benchmark, checked in rows:
        name = f"{benchmark.name} {checked.split}".strip()
        found = checked.differences.items()
        details = [f"{key}: published {expected!r}, computed {value!r}" for key, (expected, value) in found]
        verdict = "different" if details else "equal"
        if checked.problem:
            verdict = "not run"
        total = f"{checked.equal} of {checked.equal + len(details)}"
        table.append([name, checked.example, total, verdict, checked.problem or "; ".join(details)])
    return [simple_table(("benchmark", "example", "values", "verdict", "differences"), table)]
