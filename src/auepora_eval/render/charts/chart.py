"""The chart class: a Vega-Lite spec, its builders and panels, rendered as SVG or PNG."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ...errors import BadValueError, MissingDependencyError
from .layout import (
    BACKGROUND,
    LINE,
    MUTED,
    TEXT,
    AxisRange,
    Theme,
    apply_theme,
    clean_label,
    finite_number,
    format_number,
    plain_colour,
    pluralize,
    require_theme,
)
from .svg import plot_width, render_svg

FORMATS = ("svg", "png", "json", "html")
"""The file formats of charts."""
_INSTALL = "'auepora-eval[report]'"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = """
body { margin: 1rem; background: %s; }
figure { margin: 0; }
svg { max-width: 100%%; height: auto; }
"""


@dataclass(frozen=True, slots=True)
class Chart:
    """A Vega-Lite chart with inline data. A notebook displays it."""

    spec: Mapping[str, Any]
    """The spec as JSON-compatible data for any Vega-Lite tool."""

    @property
    def title(self) -> str:
        """The title."""
        return str(self.spec["title"]["text"])

    @property
    def description(self) -> str:
        """The content as a sentence, for screen readers."""
        return str(self.spec["description"])

    def with_title(self, title: str) -> Chart:
        """The same chart under another title."""
        return Chart({**self.spec, "title": {**self.spec["title"], "text": clean_label(title)}})

    def to_svg(self, *, width: float | None = None, theme: Theme | None = None, heading: bool = True) -> str:
        """An SVG element: no script, no style, nothing from elsewhere.

        ``width`` is the total width. Without a ``theme`` (``light`` or ``dark``) colours are CSS variables (``--fg``,
        ``--chart-1``, ...) that the page may set; with one they are literal, for tools without style sheets.
        ``heading`` says whether the title is drawn.
        """
        checked_theme = None if theme is None else require_theme(theme)
        return render_svg(self.spec, width=_check_width(width), theme=checked_theme, heading=heading)

    def to_html(self, *, width: float | None = None, theme: Theme = "light") -> str:
        """An HTML page with the chart."""
        theme = require_theme(theme)
        return "".join(
            [
                '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
                f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                f"<title>{escape(self.title)}</title>",
                f"<style>{_STYLE % plain_colour(BACKGROUND, theme)}</style></head>",
                f"<body><figure>{self.to_svg(width=width, theme=theme)}</figure></body></html>\n",
            ]
        )

    def to_json(self, *, indent: int | None = 2) -> str:
        """The spec as JSON text."""
        return json.dumps(self.spec, indent=indent, ensure_ascii=False, allow_nan=False)

    def to_png(self, *, width: float | None = None, theme: Theme = "light", scale: float = 2.0) -> bytes:
        """A PNG, rendered by vl-convert (in the extra ``report``). ``scale`` is the resolution factor."""
        vl_convert = MissingDependencyError.import_module(
            "vl_convert", package="vl-convert-python", purpose="drawing a PNG", install=_INSTALL
        )
        spec = self._with_width(_check_width(width))
        png: bytes = vl_convert.vegalite_to_png(apply_theme(spec, require_theme(theme)), scale=scale)
        return png

    def to_altair(self) -> Any:
        """The chart as an Altair object (in the extra ``report``)."""
        altair = MissingDependencyError.import_module("altair", purpose="a chart of Altair", install=_INSTALL)
        # Every spec is a vertical concatenation; ``Chart.from_dict`` would try all other kinds first.
        return altair.VConcatChart.from_dict(dict(self.spec))

    def save(self, path: str | Path, *, width: float | None = None, theme: Theme = "light") -> Path:
        """Write the chart to a file in the format of its suffix: .svg, .png, .json (the spec) or .html."""
        from ...runtime.files import write_lines

        target = Path(path)
        file_format = chart_format(target)
        if file_format == "png":
            content = self.to_png(width=width, theme=theme)
        elif file_format == "json":
            content = Chart(self._with_width(_check_width(width))).to_json().encode()
        else:
            text = (self.to_svg if file_format == "svg" else self.to_html)(width=width, theme=theme)
            content = text.encode()
        write_lines(target, [content])
        return target

    def _with_width(self, width: float | None) -> dict[str, Any]:
        """The spec with plots scaled to a total width."""
        if width is None:
            return dict(self.spec)
        inner = round(plot_width(self.spec, width))
        return {**self.spec, "vconcat": [{**view, "width": inner} for view in self.spec["vconcat"]]}

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """The spec for notebooks that know Vega-Lite, else the SVG."""
        svg = self.to_svg(theme="light")
        return {
            "application/vnd.vegalite.v5+json": dict(self.spec),
            "image/svg+xml": svg,
            "text/html": svg,
            "text/plain": f"{self.title}: {self.description}",
        }

    def _repr_html_(self) -> str:
        return self.to_svg(theme="light")

    def __repr__(self) -> str:
        return f"Chart({self.title!r})"


def chart_format(path: str | Path) -> str:
    """The format for the suffix of a file name."""
    file_format = Path(path).suffix.lower().removeprefix(".")
    if file_format not in FORMATS:
        raise BadValueError(f"a chart cannot be written to {path}; its name must end with .{', .'.join(FORMATS)}")
    return file_format


def _check_width(width: float | None) -> float | None:
    if width is not None and not 100 <= width <= 10_000:
        raise BadValueError(f"a chart is between 100 and 10,000 pixels wide, not {width:g}")
    return width


# --- builders of Vega-Lite specs, for the subset that ``svg`` renders ------------------------------------------------
# Domains, ticks and heights are always explicit, so that every tool draws the same chart.

Json = dict[str, Any]
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
WIDTH = 460
"""The width of the plot without labels."""
LABEL_LIMIT = 240
"""The maximum width of an axis label; longer ones are truncated."""
_FONT_SIZE = 11


def view(layers: Sequence[Json], *, height: float, width: float = WIDTH, title: str | None = None) -> Json:
    """One plot: layers on the same scales."""
    view_spec: Json = {"width": width, "height": height, "layer": list(layers)}
    return (
        view_spec
        if not title
        else {"title": {"text": title, "anchor": "start", "frame": "group", "fontSize": 12}, **view_spec}
    )


def build_spec(views: Sequence[Json], *, title: str, description: str, subtitle: Sequence[str] = ()) -> Json:
    """A whole spec: one view, or several stacked vertically."""
    heading: Json = {"text": title, "anchor": "start", "frame": "bounds"}
    if subtitle:
        heading["subtitle"] = list(subtitle)
    # The title of the whole chart; views have their own.
    top: Json = {"$schema": SCHEMA, "title": heading, "description": description, "config": _config()}
    # Each view explains its own colours and shapes.
    apart = dict.fromkeys(("color", "shape", "strokeDash", "opacity"), "independent")
    return {**top, "vconcat": list(views), "spacing": 18, "resolve": {"scale": apart}}


def message_spec(title: str, message: str) -> Json:
    """A spec that shows a message instead of an empty chart."""
    layer = {
        "data": {"values": [{"text": message}]},
        "mark": {"type": "text", "align": "left", "baseline": "middle", "color": MUTED, "fontSize": 12},
        "encoding": {"x": {"value": 4}, "y": {"value": 20}, "text": {"field": "text", "type": "nominal"}},
    }
    return build_spec([view([layer], height=40)], title=title, description=f"{title}: {message}")


def number_channel(
    field: str, span: AxisRange, *, title: str | None = None, grid: bool = True, labels: bool = True
) -> Json:
    """A quantitative channel with its scale and axis."""
    scale: Json = {"type": "log" if span.log else "linear", "domain": [span.low, span.high], "nice": False}
    if not span.log:
        scale["zero"] = False
    axis: Json = {
        "title": title,
        "values": list(span.ticks),
        "format": span.tick_format,
        "grid": grid,
        "labels": labels,
    }
    return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}


def band_channel(field: str, domain: Sequence[str], *, title: str | None = None) -> Json:
    """A nominal channel with a band scale and axis."""
    axis: Json = {"title": title, "labelLimit": LABEL_LIMIT, "labelAngle": 0, "grid": False}
    scale = {"type": "band", "domain": list(domain), "paddingInner": 0.3, "paddingOuter": 0.15}
    return {"field": field, "type": "nominal", "scale": scale, "axis": axis}


def with_field(channel: Json, field: str) -> Json:
    """Another field on the scale of a channel."""
    return {**channel, "field": field}


def style_channel(field: str, styles: Mapping[str, Any], *, shown: bool = True, kind: str = "nominal") -> Json:
    """A style per name: a shape, a dash or an opacity; ``shown`` puts it into the legend above the plot."""
    legend = {"orient": "top", "title": None, "labelLimit": 320} if shown else None
    scale = {"type": "ordinal", "domain": list(styles), "range": list(styles.values())}
    return {"field": field, "type": kind, "scale": scale, "legend": legend}


def colour_channel(field: str, colours: Mapping[str, str], *, shown: bool = True) -> Json:
    """A colour per name."""
    channel = style_channel(field, colours, shown=shown)
    if shown:
        channel["legend"]["symbolOpacity"] = 1
    return channel


def symbol_channels(field: str, styles: Mapping[str, tuple[str, str]], *, shown: bool = True) -> Json:
    """The channels of a shape and a colour per name."""
    return {
        "color": colour_channel(field, {name: colour for name, (_, colour) in styles.items()}, shown=shown),
        "shape": style_channel(field, {name: shape for name, (shape, _) in styles.items()}, shown=shown),
    }


def _config() -> Json:
    """The Vega-Lite config, so that other tools draw it like ``svg``."""
    return {
        "view": {"stroke": None},
        "axis": {
            "domain": False,
            "ticks": False,
            "labelColor": MUTED,
            "labelFontSize": _FONT_SIZE,
            "labelPadding": 6,
            "titleColor": MUTED,
            "titleFontSize": _FONT_SIZE,
            "titleFontWeight": "normal",
            "gridColor": LINE,
        },
        "axisY": {"labelColor": TEXT},
        "legend": {"labelColor": TEXT, "labelFontSize": _FONT_SIZE, "orient": "top"},
        "title": {"color": TEXT, "fontSize": 14, "subtitleColor": MUTED, "subtitleFontSize": _FONT_SIZE},
        "text": {"fontSize": _FONT_SIZE, "color": TEXT},
    }


# --- rows of a chart: their numbers, and their grouping into panels with a common axis -------------------------------

Row = Mapping[str, Any]
MAX_ROWS = 200
"""The number of rows drawn; further rows are only counted."""
ROW_HEIGHT = 22.0
"""The height of a row."""
TOOLTIP: Json = {"field": "tip", "type": "nominal"}


def row_values(row: Row, key: str = "value") -> list[float]:
    """The numbers of a row: value, low and high; empty where it has no value."""
    value = finite_number(row.get(key))
    if value is None:
        return []
    low, high = finite_number(row.get("low")), finite_number(row.get("high"))
    return [value] if low is None or high is None else [value, low, high]


def has_unit_range(row: Row, key: str = "value") -> bool:
    """Whether a row's metric lies between 0 and 1, by its ``range`` or else by its numbers."""
    value_range = row.get("range")
    if value_range is not None:
        return tuple(map(finite_number, value_range)) == (0.0, 1.0)
    lowest = -1 if key == "delta" else 0
    return all(lowest <= value <= 1 for value in row_values(row, key))


def group_into_panels(rows: Sequence[Row], key: str = "value") -> list[tuple[str, list[Row]]]:
    """Group rows into panels with a common axis; only the first panel of a group has its name.

    Metrics between 0 and 1 share an axis, else those of one ``scale``, else those of one name without its cut-off.
    """
    groups: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        if row.get("scale"):
            scale = f"scale {row['scale']}"
        else:
            scale = "unit" if has_unit_range(row, key) else f"of {str(row.get('name', '')).partition('@')[0]}"
        groups.setdefault(str(row.get("group") or ""), {}).setdefault(scale, []).append(row)
    return [
        (group if index == 0 else "", members)
        for group, scales in groups.items()
        for index, members in enumerate(scales.values())
    ]


def list_first(texts: Sequence[str], what: str, most: int = 6) -> str:
    """List the first few texts and the number of further ones."""
    rest = [f"and {pluralize(len(texts) - most, f'more {what}')}"] if len(texts) > most else []
    return ", ".join([*texts[:most], *rest])


def omitted_rows_note(rows: Sequence[Row], what: str = "row") -> str:
    """A note on the number of rows that are not drawn."""
    rest = len(rows) - MAX_ROWS
    return f"{pluralize(rest, f'more {what}')} not drawn" if rest > 0 else ""


def text_layer(rows: Sequence[Json], x: Json, y: Json, *, colour: str, dx: float, align: str = "left") -> Json:
    """A layer of labels next to marks: rows have ``text``."""
    mark = {"type": "text", "align": align, "baseline": "middle", "dx": dx, "color": colour}
    encoding = {"x": x, "y": y, "text": {"field": "text", "type": "nominal"}}
    return {"data": {"values": list(rows)}, "mark": mark, "encoding": encoding}


def describe_row(label: str, ends: Sequence[float], *, signed: bool = False) -> str:
    """A row's numbers as text: ``recall@5: 0.7000 (0.6000 to 0.8000)``."""
    sign = "+" if signed and ends[0] > 0 else ""
    text = f"{label}: {sign}{format_number(ends[0])}"
    return f"{text} ({format_number(ends[1])} to {format_number(ends[2])})" if len(ends) == 3 else text
