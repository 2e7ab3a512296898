"""The chart class: a Vega-Lite spec that renders itself as SVG, and as PNG with an extra."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ...core.errors import BadValueError, MissingDependencyError
from .labels import clean_label
from .svg.render import plot_width, render_svg
from .theme import BACKGROUND, Theme, apply_theme, plain_colour, require_theme

__all__ = ["FORMATS", "Chart", "chart_format"]

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
        try:
            import vl_convert
        except ImportError as error:
            raise MissingDependencyError("vl-convert-python", purpose="drawing a PNG", install=_INSTALL) from error
        spec = self._with_width(_check_width(width))
        svg: bytes = vl_convert.vegalite_to_png(apply_theme(spec, require_theme(theme)), scale=scale)
        return svg

    def to_altair(self) -> Any:
        """The chart as an Altair object (in the extra ``report``)."""
        try:
            import altair
        except ImportError as error:
            raise MissingDependencyError("altair", purpose="a chart of Altair", install=_INSTALL) from error
        # Every spec is a vertical concatenation; ``Chart.from_dict`` would try all other kinds first.
        return altair.VConcatChart.from_dict(dict(self.spec))

    def save(self, path: str | Path, *, width: float | None = None, theme: Theme = "light") -> Path:
        """Write the chart to a file in the format of its suffix: .svg, .png, .json (the spec) or .html."""
        from ...io.files import write_lines

        target = Path(path)
        file_format = chart_format(target)
        if file_format == "png":
            content = self.to_png(width=width, theme=theme)
        elif file_format == "json":
            content = json.dumps(
                self._with_width(_check_width(width)), indent=2, ensure_ascii=False, allow_nan=False
            ).encode()
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
