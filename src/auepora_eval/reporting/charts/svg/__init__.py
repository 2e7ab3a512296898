"""The SVG renderer of specs.

render   a whole spec: title, stacked views
views    one view: scales, axes, layers, legend
marks    points, rules, bars, lines, areas, texts
symbols  the shapes of points
scales   positions of values
legends  the meaning of colours, shapes and dashes
formats  number formats of ticks
letters  how wide a text is
xml      escaped elements
"""

from .render import render_svg

__all__ = ["render_svg"]
