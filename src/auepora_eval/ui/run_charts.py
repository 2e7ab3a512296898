"""The charts of a run, which filter its queries: scales for the pointer, and a form or links for the keyboard."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from ..compare.filters import Condition
from ..render.blocks import Figure
from ..render.charts.chart import Chart
from ..render.charts.svg import BandScale, build_scale, plot_areas
from ..render.html import MEDIUM, NARROW, ChartRenderer
from ..report.pages import answers_result
from ..report.run_sections import StoredRun
from .run_rows import LABELS, label_condition, outcome_condition, queries_url

MAX_GROUPS = 30
"""The number of groups of a slice that are offered as filters."""


class FilterChartRenderer(ChartRenderer):
    """Renders the figures of a run; an axis that shows a field of queries gets its scale and controls that filter."""

    def __init__(self, run: StoredRun, prefix: str) -> None:
        super().__init__(prefix)
        self._run = run

    def __call__(self, figure: Figure) -> list[tuple[str, Any]]:
        """The SVG in its widths, and the controls below it."""
        drawn = super().__call__(figure)
        chart = figure.chart
        if not figure.field or not isinstance(chart, Chart):
            return drawn
        groups = self._groups(figure.field)
        name = _field_name(figure.field)
        widths = [figure.width] if figure.width <= MEDIUM else [figure.width, NARROW]
        choices = [label_condition(figure.field.removeprefix(LABELS), one) for one in groups]
        scales = [_filter_scale(chart.spec, width, name, choices) for width in widths]
        if None in scales:
            return drawn
        also = self._also(figure.field)
        scales = [{**scale, "also": also} for scale in scales if scale is not None]
        wrapped = [(kind, _with_scale(svg, scale)) for (kind, svg), scale in zip(drawn, scales, strict=True)]
        return [*wrapped, ("filter", self._controls(figure.field, name, groups, also))]

    def _also(self, field: str) -> str:
        """A condition on all queries of a chart: answers by rank counts the ones with a score."""
        result = answers_result(self._run) if field == "rank" else None
        return "" if result is None else outcome_condition(result.name, "scored")

    def _groups(self, field: str) -> list[str]:
        """The groups of a slice by a label."""
        parts = next((one.slices[field] for one in self._run.results if field in one.slices), None)
        return list(parts) if parts and field.startswith(LABELS) else []

    def _controls(self, field: str, name: str, groups: Sequence[str], also: str) -> Markup:
        if groups:
            links = [
                Markup('<li><a class="chip" href="{}" data-where="{}"><bdi>{}</bdi></a></li>').format(
                    queries_url(self._run.record, condition), condition, group[:80]
                )
                for group in groups[:MAX_GROUPS]
                for condition in [label_condition(field.removeprefix(LABELS), group)]
            ]
            return Markup('<ul class="chips" aria-label="Show the queries of a group">{}</ul>').format(
                Markup("").join(links)
            )
        unit = ", in seconds" if field == "seconds" else ""
        step = "1" if field == "rank" else "any"
        return Markup(
            '<form class="range" data-range="{}" data-also="{}" aria-label="Filter the queries by {}{}" hidden>'
            "<span>Drag over the chart, or filter</span>"
            '<label>from <input type="number" name="from" step="{}"></label>'
            '<label>to <input type="number" name="to" step="{}"></label>'
            '<button class="quiet">Filter</button></form>'
        ).format(name, also, field, unit, step, step)


def _field_name(field: str) -> str:
    """The field of a figure as a condition names it."""
    return field if field in ("seconds", "rank") else Condition("metric", field).key


def _with_scale(svg: Any, scale: Any) -> Markup:
    return Markup('<div class="brush" data-scale="{}">{}</div>').format(json.dumps(scale), svg)


def _filter_scale(spec: Mapping[str, Any], width: float, name: str, choices: Sequence[str]) -> dict[str, Any] | None:
    """The place and the scale of the axis that filters; ``None`` where the chart has no such axis."""
    view, area = spec["vconcat"][0], plot_areas(spec, width)[0]
    axis = "y" if choices else "x"
    channels = [layer["encoding"].get(axis) or {} for layer in view["layer"]]
    channel = next((one for one in channels if "scale" in one), None)
    if channel is None or len(spec["vconcat"]) > 1:
        return None
    scale = build_scale(channel, area[2] if axis == "x" else area[3], upwards=axis == "y")
    common = {"field": name, "area": [round(one, 2) for one in area]}
    if not isinstance(scale, BandScale):
        return {**common, "kind": "log" if scale.log else "linear", "domain": list(scale.domain)}
    places = [[round(scale.left(one), 2), round(scale.left(one) + scale.width, 2)] for one in scale.places]
    if choices:
        if len(choices) != len(places):
            return None
        bands = [[*place, choice] for place, choice in zip(places, choices, strict=True)]
        return {**common, "kind": "choices", "bands": bands}
    bands = [[*place, *_band_ends(label)] for place, label in zip(places, scale.places, strict=True)]
    return {**common, "kind": "steps", "bands": bands}


def _band_ends(label: str) -> tuple[float | None, float | None]:
    """The least and the greatest value of a band: ``4–5``, ``> 50``, ``0.333333``; none for a band without a number."""
    numbers = [float(one) for one in re.findall(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", label.replace("−", "-"))]
    if not numbers:
        return None, None
    if label.startswith(">"):
        return numbers[0] + 1, None
    low, high = numbers[0], numbers[-1]
    digits = re.sub(r"\D", "", label).lstrip("0")
    margin = 1e-5 * abs(low) if len(digits) >= 6 else 0.0  # the label is rounded to six digits
    return float(f"{low - margin:.8g}"), float(f"{high + margin:.8g}")
