"""A chart: a Vega-Lite spec that can draw itself, as SVG by our own means and as PNG with an extra."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ...core.errors import BadValueError, MissingDependencyError
from .labels import clean_label
from .svg import render_svg
from .svg.render import plot_width
from .theme import BACKGROUND, Theme, apply_theme, plain_colour, require_theme

__all__ = ["FORMATS", "Chart", "chart_format"]

FORMATS = ("svg", "png", "json", "html")
"""What a chart can be saved as."""
_INSTALL = "'auepora-eval[report]'"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = """
body { margin: 1rem; background: %s; }
figure { margin: 0; }
svg { max-width: 100%%; height: auto; }
"""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of Vega-Lite with its data inside. In a notebook it shows itself."""

    spec: Mapping[str, Any]
    """Plain data: JSON can hold it, and any tool for Vega-Lite draws it."""

    @property
    def title(self) -> str:
        """What it shows."""
        return str(self.spec["title"]["text"])

    @property
    def description(self) -> str:
        """The same in a sentence, for those who do not see it."""
        return str(self.spec["description"])

    def with_title(self, title: str) -> Chart:
        """The same chart under another title."""
        return Chart({**self.spec, "title": {**self.spec["title"], "text": clean_label(title)}})

    def to_svg(self, *, width: float | None = None, theme: Theme | None = None, heading: bool = True) -> str:
        """An SVG element: no script, no style, nothing from elsewhere.

        ``width`` is that of the whole picture. Without a ``theme`` (``light`` or ``dark``) its colours are style
        variables (``--fg``, ``--chart-1``, ...) that the page around it may set; with one they are plain, as tools that
        know no style sheets need them. ``heading`` says whether the title is drawn.
        """
        chosen = None if theme is None else require_theme(theme)
        return render_svg(self.spec, width=_check_width(width), theme=chosen, heading=heading)

    def to_html(self, *, width: float | None = None, theme: Theme = "light") -> str:
        """A page that holds the chart and nothing else."""
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
        """A PNG, drawn by vl-convert (in the extra ``report``). ``scale`` is how many pixels a pixel has."""
        try:
            import vl_convert
        except ImportError as error:
            raise MissingDependencyError("vl-convert-python", purpose="drawing a PNG", install=_INSTALL) from error
        spec = self._with_width(_check_width(width))
        drawn: bytes = vl_convert.vegalite_to_png(apply_theme(spec, require_theme(theme)), scale=scale)
        return drawn

    def to_altair(self) -> Any:
        """The chart as an object of Altair (in the extra ``report``), to be changed there."""
        try:
            import altair
        except ImportError as error:
            raise MissingDependencyError("altair", purpose="a chart of Altair", install=_INSTALL) from error
        # Every spec is one of views below each other; ``Chart.from_dict`` would try all other kinds first.
        return altair.VConcatChart.from_dict(dict(self.spec))

    def save(self, path: str | Path, *, width: float | None = None, theme: Theme = "light") -> Path:
        """Write the chart to a file, as its name asks for: .svg, .png, .json (the spec) or .html."""
        from ...io.files import write_lines

        target = Path(path)
        form = chart_format(target)
        if form == "png":
            content = self.to_png(width=width, theme=theme)
        elif form == "json":
            content = json.dumps(
                self._with_width(_check_width(width)), indent=2, ensure_ascii=False, allow_nan=False
            ).encode()
        else:
            text = (self.to_svg if form == "svg" else self.to_html)(width=width, theme=theme)
            content = text.encode()
        write_lines(target, [content])
        return target

    def _with_width(self, width: float | None) -> dict[str, Any]:
        """The spec with plots as wide as the whole picture leaves them."""
        if width is None:
            return dict(self.spec)
        inner = round(plot_width(self.spec, width))
        return {**self.spec, "vconcat": [{**view, "width": inner} for view in self.spec["vconcat"]]}

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """What a notebook shows: the spec where it knows Vega-Lite, else the drawing."""
        drawn = self.to_svg(theme="light")
        return {
            "application/vnd.vegalite.v5+json": dict(self.spec),
            "image/svg+xml": drawn,
            "text/html": drawn,
            "text/plain": f"{self.title}: {self.description}",
        }

    def _repr_html_(self) -> str:
        return self.to_svg(theme="light")

    def __repr__(self) -> str:
        return f"Chart({self.title!r})"


def chart_format(path: str | Path) -> str:
    """What the name of a file asks for."""
    form = Path(path).suffix.lower().removeprefix(".")
    if form not in FORMATS:
        raise BadValueError(f"a chart cannot be written to {path}; end its name in .{', .'.join(FORMATS)}")
    return form


def _check_width(width: float | None) -> float | None:
    if width is not None and not 100 <= width <= 10_000:
        raise BadValueError(f"a chart is between 100 and 10,000 pixels wide, not {width:g}")
    return width
