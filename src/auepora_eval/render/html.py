"""HTML: the page of a report, notebook output, and the text formats they share."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from ..core.metrics_base import BatchMetric
from ..core.registry import metric as registered
from ..core.results import Results, display_name
from ..core.targets import group_by_target
from ..core.types import MetricResult, TargetCategory
from ..errors import AueporaError, BadValueError
from .blocks import Block, Figure, PageFragment, Report
from .tables import (
    format_value,
    interval_text as interval_text,
    number_text,
    pluralize as pluralize,
    results_blocks,
)
from .terminal import escape_control_characters

if TYPE_CHECKING:
    from jinja2 import Environment
MEDIUM, NARROW = 400, 340
"""Charts wider than the first value get a second rendering, as wide as the second value, for phones."""
MAX_TEXT_LENGTH = 1500
"""The default maximum length of a text."""
_CODE_SPAN = re.compile(r"`([^`\n]{1,200})`")
_BREAK_POINTS = re.compile(r"(?<=[a-z0-9][_@\[,])(?=[a-z0-9])")
_IDS = re.compile(r"chart-[0-9a-f]{12}-(title|desc)")


def render_overview(report: Report) -> Markup:
    """Render the verdict and the sections of a report as the main element of its page."""
    html = _templates().get_template("overview.html").render(report=report, drawn=ChartRenderer())
    return Markup(html)  # noqa: S704 -- our own template, which escapes all texts


def render_page(report: Report, overview: Markup, browser: PageFragment) -> Iterator[str]:
    """Render the page of a report around its overview, with a fragment, in pieces: all of it may not fit in memory."""
    style = f"{_asset('theme.css')}\n{browser.css}".strip()
    script = f"{_asset('page.js')}\n{browser.script}".strip()
    for name, text in (("style", style), ("script", script)):
        if f"</{name}" in text.lower():
            raise BadValueError(f"the page's {name} contains its own closing tag")
    return (
        _templates()
        .get_template("page.html")
        .generate(
            report=report,
            overview=overview,
            browser=browser,
            data=((name, kind, Markup(_escape_script_data(text))) for name, kind, text in browser.data),  # noqa: S704
            style=Markup(style),  # noqa: S704 -- our own, and checked above
            script=Markup(script),  # noqa: S704
            policy=_policy(style, script),
        )
    )


def _escape_script_data(text: str) -> str:
    """Escape data for a script element, so that it cannot close the element."""
    return text.replace("<", "\\u003c")


def _policy(style: str, script: str) -> str:
    """The content security policy: only the page's own script, style and inline images."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {_hash(script)}",
            f"style-src {_hash(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _asset(name: str) -> str:
    from importlib.resources import files  # slow to import

    return files(__package__ or "").joinpath("assets", name).read_text(encoding="utf-8")


@cache
def _templates() -> Environment:
    return make_environment("auepora_eval.render")


def make_environment(*packages: str) -> Environment:
    """A template environment over the templates of these packages: escapes all texts, and truncates long ones."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_display_text,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    helpers: dict[str, Any] = {"kind_of": lambda block: type(block).__name__, "at": _percent}
    environment.globals |= helpers
    environment.filters |= {
        "breakable": _with_break_points,
        "cut": _truncate,
        "whole": _uncut,
        "ticked": _code_spans,
        "prose": _code_spans,
    }
    return environment


class UncutText(str):
    """A text that must not be truncated."""

    __slots__ = ()


def _uncut(text: str) -> UncutText:
    return UncutText(escape_control_characters(text))


def _display_text(value: Any) -> Any:
    """A text for display: control and bidirectional characters are escaped, and very long texts are truncated."""
    return escape_control_characters(_truncate(value, MAX_TEXT_LENGTH)) if type(value) is str else value


def _code_spans(text: str, longest: int = MAX_TEXT_LENGTH) -> Any:
    """A text with parts between `backticks` as code; everything is escaped."""
    parts = _CODE_SPAN.split(_display_text(_truncate(text, longest)))
    parts[1::2] = [Markup("<code>{}</code>").format(part) for part in parts[1::2]]
    return Markup("").join(parts)


def _with_break_points(text: str) -> Any:
    """A text with line break opportunities after the punctuation of metric names."""
    return Markup("<wbr>").join(_BREAK_POINTS.split(_display_text(text)))


def _truncate(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


class ChartRenderer:
    """Renders the figures of one page, or of one part of it, with unique element ids."""

    def __init__(self, prefix: str = "") -> None:
        """``prefix`` is in the ids, so that the ids of several parts differ."""
        self._prefix = prefix
        self._count = 0

    def __call__(self, figure: Figure) -> list[tuple[str, Any]]:
        """The SVG, and a second one for narrow screens where it is wide."""
        if figure.width <= MEDIUM:
            return [("", self._one(figure, figure.width))]
        return [("usual", self._one(figure, figure.width)), ("narrow", self._one(figure, NARROW))]

    def _one(self, figure: Figure, width: int) -> Any:
        self._count += 1
        # The four ids are at its very beginning: aria-labelledby, title and desc.
        drawn = _IDS.sub(rf"chart-{self._prefix}{self._count}-\1", figure.chart.to_svg(width=width), count=4)
        return Markup(drawn)  # noqa: S704 -- our own SVG, with escaped text


def _percent(share: float) -> str:
    return f"{min(max(share, 0.0), 1.0) * 100:.1f}"


# --- text formats of numbers, counts, times and results, shared by all sections --------------------------------------

MAX_LENGTH = 300


value_text = number_text


def interval_ends(ends: tuple[float, float] | None) -> dict[str, float]:
    """The ends of an interval by name; empty where there is none."""
    return {} if ends is None else {"low": ends[0], "high": ends[1]}


def describe_result(result: MetricResult) -> str:
    """A result as a sentence part: its name, value and interval."""
    if not result.defined:
        return f"{display_name(result)} has no value"
    ends = f" (95 % interval {interval_text(result.interval)})" if result.interval is not None else ""
    return f"{display_name(result)} is {format_value(result.value)}{ends}"


def percentage(part: int, whole: int) -> str:
    """A proportion in percent."""
    return "0 %" if not whole else f"{100 * part / whole:.3g} %"


def seconds_text(value: float) -> str:
    """A duration with a unit: ``1.7 ms``, ``2.35 s``, ``3.2 min``."""
    if value != value:
        return "n/a"
    if abs(value) < 0.001:
        return f"{value * 1e6:.3g} µs"
    if abs(value) < 1:
        return f"{value * 1e3:.3g} ms"
    return f"{value:.3g} s" if abs(value) < 120 else f"{value / 60:.3g} min"


def shorten(text: str, longest: int = MAX_LENGTH) -> str:
    """The start of a text on one line."""
    line = " ".join(text[: 4 * longest].split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def format_time(moment: datetime | None) -> str:
    """A time in UTC."""
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"


# --- chart rows of results: value, interval, reliability and the range of the metric ---------------------------------

SECONDS = "seconds"
"""The axis that timings share."""


def interval_rows(results: Results) -> list[dict[str, Any]]:
    """The rows of ``interval_chart``: results by target, each with the range of its metric."""
    rows = []
    for target, listed in group_by_target(results):
        rows += [{**result_row(result, display_name(result)), "group": target.title} for result in listed]
    return rows


def result_row(result: MetricResult, name: str) -> dict[str, Any]:
    """One result as a row with a name."""
    row: dict[str, Any] = {"name": name, "value": result.known_value}
    ends = metric_range(result.name, result.signature)
    if ends is not None:
        row["range"] = ends
    if result.target is TargetCategory.LATENCY and "throughput" not in result.name:
        row["scale"] = SECONDS
    if result.interval is not None and result.defined:
        row["low"], row["high"] = result.interval
        row["doubt"] = bool(result.details.interval.flags)
    if not result.defined:
        row["note"] = result.details.undefined_because or "no sample was scored"
    return {**row, "n": result.details.num_samples if result.details.counts_samples else None}


def metric_range(name: str, signature: str | None = None) -> tuple[float, float] | None:
    """The range of a metric; ``None`` where the metric is not registered."""
    for spelt in dict.fromkeys([name, (signature or name).partition("|")[0]]):
        try:
            known = registered(spelt)
        except AueporaError:  # a user's metric, or one with options that its name lacks
            continue
        if isinstance(known, BatchMetric):
            low, high = known.range
            return float(low), float(high)
    return None


# --- notebook output: blocks without script, charts in the light theme -----------------------------------------------

_NOTEBOOK_STYLE = (
    ".auepora th, .auepora td { text-align: left !important; padding: 0.1em 0.6em; vertical-align: top } "
    ".auepora .number { text-align: right !important; white-space: nowrap } "
    ".auepora .sign { margin-right: 0.3em } .auepora small { display: block }"
)


def blocks_html(blocks: Sequence[Block]) -> str:
    """Blocks as HTML for a notebook."""
    return _templates().get_template("notebook.html").render(blocks=blocks, style=_NOTEBOOK_STYLE, drawn=_light_chart)


def _light_chart(figure: Figure) -> list[tuple[str, Any]]:
    """The SVG in the light theme with its own background, since a notebook has no style sheet."""
    return [("", Markup(figure.chart.to_svg(theme="light")))]  # noqa: S704 -- our own SVG, with escaped text


def results_html(results: Results) -> str:
    """The results as HTML: a table by target with intervals, and a chart."""
    if not results:
        return "<p>no results</p>"
    from .charts.intervals import interval_chart  # charts are slow to import

    return blocks_html([*results_blocks(results), Figure(interval_chart(interval_rows(results)), "")])
